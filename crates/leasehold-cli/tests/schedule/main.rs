//! `leasehold schedule`: real processes, on SQLite and Redis.

#[path = "../common/mod.rs"]
mod common;

mod composed;
mod daemon;
mod ends;
mod files;
mod fleet;
mod harness;
mod reload;
mod service;
