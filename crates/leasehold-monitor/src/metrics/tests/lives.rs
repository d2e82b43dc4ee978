//! Real acquisitions, holds and losses, over a store that can be broken, under paused time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::poll_immediate;
use leasehold::store::{Note, NoteId, Topic};
use leasehold::stores::Memory;
use leasehold::{ErrorKind, Guard, Locks, LossReason, Outcome, Released, Wait};
use leasehold_testkit::{Fault, Faults, Faulty, Operation, PausedClock};
use metrics::set_default_local_recorder;
use metrics_exporter_prometheus::PrometheusHandle;

use super::super::exposition::builder;
use super::super::{Measured, Meter};
use super::scrape::sum;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

/// A client that is metered, and one that isn't.
struct Stage {
    scrape: PrometheusHandle,
    locks: Locks,
    others: Locks,
    faults: Faults,
    renewals: Faults,
}

impl Stage {
    /// The recorder is that of this thread, on which all of the test runs.
    fn new() -> Self {
        let recorder = builder().build_recorder();
        let scrape = recorder.handle();
        let _installed = set_default_local_recorder(&recorder);
        let clock = Arc::new(PausedClock::start());
        let memory = Memory::new(clock.clone());
        let store = Faulty::over(Arc::new(memory.clone()));
        let (faults, renewals) = (store.faults(), store.keeper_faults());
        let measured = Measured::over(Arc::new(store));
        let locks = Locks::builder().observer(Meter::new()).simulated(clock.clone()).over(Arc::new(measured));
        let others = Locks::builder().simulated(clock).over(Arc::new(memory));
        Self { scrape, locks, others, faults, renewals }
    }

    async fn acquires(&self) -> Guard {
        self.locks.lock("job").ttl(TTL).try_acquire().await.unwrap().guard().expect("it is free")
    }

    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        sum(&self.scrape, name, labels)
    }

    /// How many acquisitions came to that.
    fn ended(&self, outcome: &str) -> f64 {
        self.sum("leasehold_acquisitions_total", &[("outcome", outcome)])
    }

    fn failed(&self, operation: &str, kind: &str) -> f64 {
        self.sum("leasehold_store_errors_total", &[("operation", operation), ("kind", kind), ("store", "memory")])
    }
}

#[tokio::test(start_paused = true)]
async fn acquisitions_are_counted_by_what_they_come_to() {
    let stage = Stage::new();
    let lock = stage.locks.lock("job").ttl(TTL);
    stage.acquires().await.release().await.unwrap();
    let theirs = stage.others.lock("job").ttl(TTL).try_acquire().await.unwrap().guard().unwrap();
    let Outcome::Contended(_) = lock.clone().wait(Wait::For(3 * SECOND)).acquire().await.unwrap() else {
        panic!("it is theirs")
    };
    let mut waiting = Box::pin(lock.acquire());
    assert!(poll_immediate(&mut waiting).await.is_none());
    assert_eq!(stage.sum("leasehold_waiters", &[]), 1.0);
    drop(waiting);
    assert_eq!(stage.sum("leasehold_waiters", &[]), 0.0);
    theirs.release().await.unwrap();
    stage.faults.next(Operation::TryAcquire, Fault::Fail(ErrorKind::AccessDenied));
    drop(lock.try_acquire().await.unwrap_err());
    let once = stage.locks.once("key", 3600 * SECOND);
    once.try_acquire().await.unwrap().guard().unwrap().complete().await.unwrap();
    let Outcome::NotDue(_) = once.try_acquire().await.unwrap() else { panic!("it is done") };

    for (outcome, times) in
        [("acquired", 2.0), ("contended", 1.0), ("withdrawn", 1.0), ("failed", 1.0), ("not_due", 1.0)]
    {
        assert_eq!(stage.ended(outcome), times, "{outcome}");
    }
    assert_eq!(stage.sum("leasehold_acquisitions_contended_total", &[]), 1.0);
    let waited =
        |what: &str, outcome| stage.sum(&format!("leasehold_acquire_wait_seconds_{what}"), &[("outcome", outcome)]);
    assert_eq!([waited("count", "acquired"), waited("count", "given_up")], [2.0, 2.0]);
    assert!((3.0..3.5).contains(&waited("sum", "given_up")), "{}", waited("sum", "given_up"));
}

#[tokio::test(start_paused = true)]
async fn leases_are_held_from_the_grant_until_the_guard_is_gone() {
    let stage = Stage::new();
    let held = || stage.sum("leasehold_leases_held", &[]);
    let guard = stage.acquires().await;
    let other = stage.locks.lock("other").try_acquire().await.unwrap().guard().unwrap();
    assert_eq!(held(), 2.0);
    other.abandon();
    assert_eq!(held(), 1.0);
    tokio::time::sleep(60 * SECOND).await;
    guard.release().await.unwrap();
    assert_eq!(held(), 0.0);
    drop(stage.acquires().await);
    assert_eq!(held(), 0.0, "at once, whenever the store hears of it");
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.sum("leasehold_releases_total", &[("outcome", "in_time")]), 2.0);
    let sum = stage.sum("leasehold_lease_held_seconds_sum", &[]);
    assert!((60.0..61.5).contains(&sum), "{sum}");
    let in_time = stage.sum("leasehold_lease_held_seconds_bucket", &[("le", "15")]);
    assert_eq!(in_time, 1.0, "the one that was dropped");
}

#[tokio::test(start_paused = true)]
async fn renewals_losses_and_late_releases_are_counted() {
    let stage = Stage::new();
    let guard = stage.acquires().await;
    tokio::time::sleep(TTL).await;
    let renewed = stage.sum("leasehold_renewals_total", &[("outcome", "renewed")]);
    assert!(renewed >= 2.0);
    let margin = stage.sum("leasehold_renewal_margin_seconds_sum", &[]) / renewed;
    assert!((19.0..20.0).contains(&margin), "{margin}");
    assert!(stage.sum("leasehold_renewal_late_seconds_sum", &[]) < 0.1);

    stage.renewals.always(Operation::Renew, Fault::Fail(ErrorKind::Unavailable));
    assert!(matches!(guard.lost().await, LossReason::Unreachable(_)));
    assert_eq!(stage.sum("leasehold_losses_total", &[("reason", "unreachable")]), 1.0);
    assert_eq!(stage.sum("leasehold_losses_total", &[]), 1.0);
    let failed = stage.sum("leasehold_renewals_total", &[("outcome", "failed")]);
    assert!(failed >= 3.0 && stage.failed("renew", "unavailable") == failed, "{failed}");
    tokio::time::sleep(TTL).await;
    assert_eq!(guard.release().await.unwrap(), Released::TooLate);
    assert_eq!(stage.sum("leasehold_releases_total", &[("outcome", "too_late")]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_and_is_tried_again_is_counted_as_both() {
    let stage = Stage::new();
    let guard = stage.acquires().await;
    stage.faults.next(Operation::Release, Fault::LoseReply);
    drop(guard.release().await.unwrap_err());
    tokio::time::sleep(SECOND).await;
    let released = |outcome| stage.sum("leasehold_releases_total", &[("outcome", outcome)]);
    assert_eq!([released("failed"), released("in_time"), released("too_late")], [1.0, 1.0, 0.0]);
    assert_eq!(stage.failed("release", "timed_out"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn calls_are_timed_and_those_that_nobody_waits_for_are_failures() {
    let stage = Stage::new();
    let took =
        |what: &str| stage.sum(&format!("leasehold_store_call_duration_seconds_{what}"), &[("operation", "acquire")]);
    stage.acquires().await.release().await.unwrap();
    assert_eq!((took("count"), stage.failed("acquire", "unanswered")), (1.0, 0.0));
    stage.faults.next_few(3, Operation::TryAcquire, Fault::HangBefore);
    drop(stage.locks.lock("job").ttl(TTL).try_acquire().await.unwrap_err());
    let unanswered = stage.failed("acquire", "unanswered");
    assert!(unanswered >= 1.0 && took("count") == 1.0 + unanswered, "{unanswered}");
    let of_all = stage.sum("leasehold_store_errors_total", &[("operation", "acquire")]);
    assert_eq!(of_all, unanswered, "and no others");
}

#[tokio::test(start_paused = true)]
async fn a_layer_keeps_notes_and_is_no_part_of_another_store() {
    let stage = Stage::new();
    let topic = Topic::of_all("tests");
    let note = Note { topic: topic.clone(), id: NoteId::new("a").unwrap(), text: "b".into(), keep: TTL, most: 9 };
    stage.locks.notes().unwrap().note(&[note]).await.unwrap();
    let written = [("operation", "note"), ("store", "memory")];
    assert_eq!(stage.sum("leasehold_store_call_duration_seconds_count", &written), 1.0);
    let measured = Measured::over(Arc::new(Memory::default()));
    let store: &dyn leasehold::Store = &measured;
    assert!(store.as_member().is_none() && store.as_primary().is_none() && store.as_arbiter().is_none());
}
