//! The scenes of the README run as they are: each example is a test too.
#![cfg(feature = "sqlite")]

#[cfg(feature = "fence-rusqlite")]
#[path = "../examples/a_paused_holder_is_refused.rs"]
mod a_paused_holder_is_refused;
#[path = "../examples/every_way_out.rs"]
mod every_way_out;
#[path = "../examples/longer_than_the_ttl.rs"]
mod longer_than_the_ttl;
#[path = "../examples/try_once.rs"]
mod try_once;
#[path = "../examples/two_workers_wait.rs"]
mod two_workers_wait;

#[test]
fn scene_1_two_workers_wait() {
    two_workers_wait::main().unwrap();
}

#[test]
fn scene_2_a_job_longer_than_its_ttl() {
    longer_than_the_ttl::main().unwrap();
}

#[test]
fn scene_3_two_workers_try_once() {
    try_once::main().unwrap();
}

#[test]
fn scene_4_a_guard_releases_on_every_way_out() {
    every_way_out::main().unwrap();
}

/// The paused job is this test, run again in another process.
#[cfg(feature = "fence-rusqlite")]
#[test]
fn scene_5_a_paused_holder_is_refused() {
    a_paused_holder_is_refused::main().unwrap();
}
