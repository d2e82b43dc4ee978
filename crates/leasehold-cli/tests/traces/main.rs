//! Traces over OTLP: the real command, and a collector that keeps what it gets.

#[path = "../common/mod.rs"]
mod common;

mod away;
mod collector;
mod context;
mod run;
mod schedule;
