//! `leasehold run` keeps its job inside the lease: real processes, real signals, a real terminal.
//!
//! Names that begin with a letter and two digits are faults of other lock systems, tried on ours.
//! `LEASEHOLD_LONG=1` runs the loops that hunt for races a thousand times instead of fifty.

mod codes;
mod deadline;
mod faithful;
mod first_process;
mod forever;
mod harness;
mod leftovers;
mod loss_of_wrapper;
mod signals;
mod spawn_races;
mod terminal;
mod waiting;
