//! A scheduler with many jobs, and many jobs that are due at once.
//!
//! `cargo bench -p leasehold-cli --bench schedule -- [idle] [burst] [--jobs N] [--seconds N] [--due N] [--nodes N] [--stores A,B] [--dir DIR]`
//!
//! * `idle`: one node with 10,000 jobs over SQLite. For a minute none is due: its share of a CPU, its memory. For another one is due in each
//!   second: how late they start.
//! * `burst`: 1,000 jobs due in the same second over five processes, on SQLite, Redis, PostgreSQL and etcd, which commit to the disk as they
//!   do in earnest: each must be started once; how late the median and the last one are.
//!
//! Without either word both. The folder decides how quick the disk is; servers have theirs where `TMPDIR` is.

mod burst;
mod idle;
mod settings;

use settings::Settings;

fn main() {
    let settings = Settings::parse();
    if let Some(node) = &settings.node {
        return burst::run_node(node);
    }
    if settings.idle {
        idle::measure(&settings);
    }
    if settings.burst {
        burst::measure(&settings);
    }
}
