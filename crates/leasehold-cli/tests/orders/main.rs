//! What operators ask of schedulers, and what they are told: `history`, `trigger`, `pause`, `resume`, over a file and over a server.

#[path = "../common/mod.rs"]
mod common;

mod history;
mod pause;
mod refusals;
mod reset_mark;
mod schedulers;
mod trigger;
