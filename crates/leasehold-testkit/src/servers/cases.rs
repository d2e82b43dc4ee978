//! Many cases over one server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The name of a case, and what it does.
pub type Case<'a, T> = (&'a str, fn(&T));

/// Runs all cases over one thing that is dear to start, in their order; `mend` makes it whole again after each.
///
/// For a cluster or sentinels: nextest runs each test in a process of its own, so a test each would start one each.
/// All cases run, also after one has failed. `LEASEHOLD_CASE=word` runs only those with the word in their name.
///
/// ```no_run
/// use leasehold_testkit::servers::{RedisCluster, cases};
///
/// // #[test]
/// fn on_a_cluster() {
///     cases(&RedisCluster::start(), RedisCluster::mend, &[
///         ("a_lock_survives_a_failover", a_lock_survives_a_failover),
///     ]);
/// }
///
/// fn a_lock_survives_a_failover(cluster: &RedisCluster) {
///     // …
/// }
/// ```
///
/// # Panics
/// At the end, with the names of those that did.
pub fn cases<T>(subject: &T, mend: impl Fn(&T), cases: &[Case<'_, T>]) {
    let only = std::env::var("LEASEHOLD_CASE").unwrap_or_default();
    let failed = run(subject, mend, cases.iter().filter(|(name, _)| name.contains(&only)));
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}

fn run<'a, T>(subject: &T, mend: impl Fn(&T), cases: impl Iterator<Item = &'a Case<'a, T>>) -> Vec<&'a str>
where
    T: 'a,
{
    let mut failed = Vec::new();
    for (name, case) in cases {
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| case(subject)));
        println!("{name}: {} in {:?}", if outcome.is_ok() { "ok" } else { "FAILED" }, start.elapsed());
        if outcome.is_err() {
            failed.push(*name);
        }
        mend(subject);
    }
    failed
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn all_cases_run_on_something_whole_and_failures_are_named() {
        let broken = Cell::new(false);
        let good: fn(&Cell<bool>) = |broken| assert!(!broken.replace(true));
        let bad: fn(&Cell<bool>) = |broken| assert!(broken.get(), "as it was told");
        let cases = [("a", good), ("b", bad), ("c", good)];
        let failed = run(&broken, |broken| broken.set(false), cases.iter());
        assert_eq!(failed, ["b"]);
        assert!(!broken.get());
    }
}
