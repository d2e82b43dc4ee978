//! The contract of [`Store`] as cases that any store, layer or composite has to pass.
//!
//! Each case is an async function over a `&dyn Store` that panics if the contract is broken. They use names of
//! their own, so many may run against one store at the same time. [`conformance!`](crate::conformance!) makes a
//! test of each:
//!
//! ```
//! use std::sync::Arc;
//! use leasehold::Store;
//! use leasehold::stores::Memory;
//!
//! fn memory() -> Arc<dyn Store> {
//!     Arc::new(Memory::default())
//! }
//!
//! // Tests called `mine::exclusive`, `mine::tokens_grow_over_releases` and so on.
//! leasehold_testkit::conformance!(mine, memory());
//! ```
//!
//! Where a server is too dear to be started for each case, one test runs them all over one of it:
//! `conformance!(name, shared fixture, open)`.
//!
//! A case needs no more time than the store's smallest TTL and the life of a waiter's entry ask for; against a store
//! whose clock is [`PausedClock`](crate::PausedClock) it needs none.

pub mod arbiter;
mod grants;
mod handles;
mod handover;
mod lapses;
pub mod member;
mod names;
pub mod notes;
mod operators;
mod permits;
mod queue;
mod scene;
pub mod tagged;
mod ticks;
mod waiters;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use leasehold::Store;

pub use grants::*;
pub use handles::*;
pub use handover::*;
pub use lapses::*;
pub use names::*;
pub use operators::*;
pub use permits::*;
pub use queue::*;
pub use ticks::*;
pub use waiters::*;

/// A store that hangs fails its case after this.
const LIMIT: Duration = Duration::from_secs(120);

/// A store under test, and what must live as long as it.
pub struct Subject {
    store: Arc<dyn Store>,
    other_namespace: Option<Arc<dyn Store>>,
    _kept: Vec<Box<dyn Any>>,
}

impl Subject {
    /// `store`, under test.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, other_namespace: None, _kept: Vec::new() }
    }

    /// The same store seen through another namespace; without, [`namespaces_are_apart`] checks nothing.
    #[must_use]
    pub fn other_namespace(mut self, store: Arc<dyn Store>) -> Self {
        self.other_namespace = Some(store);
        self
    }

    /// Keeps a value until the case is over: a temporary directory, a server.
    #[must_use]
    pub fn keeping(mut self, value: impl Any) -> Self {
        self._kept.push(Box::new(value));
        self
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The same store seen through another namespace, if it was given one.
    #[must_use]
    pub fn in_other_namespace(&self) -> Option<&dyn Store> {
        self.other_namespace.as_deref()
    }

    /// Checks that its namespaces are apart, if it was given two.
    pub async fn check_namespaces(&self) {
        if let Some(other) = &self.other_namespace {
            namespaces_are_apart(self.store(), &**other).await;
            queues_of_namespaces_are_apart(self.store(), &**other).await;
            if !self.store().traits().session_bound {
                marks_of_namespaces_are_apart(self.store(), &**other).await;
            }
        }
    }
}

impl From<Arc<dyn Store>> for Subject {
    fn from(store: Arc<dyn Store>) -> Self {
        Self::new(store)
    }
}

/// Runs one case in real time, on a runtime with several threads.
pub fn run(make: impl Future<Output = Subject>, case: impl AsyncFnOnce(&Subject)) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    run_on(runtime.worker_threads(2), make, case);
}

/// Runs one case in paused time: sleeping takes none.
pub fn run_paused(make: impl Future<Output = Subject>, case: impl AsyncFnOnce(&Subject)) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    run_on(runtime.start_paused(true), make, case);
}

/// A case, by its name.
pub type Case = (&'static str, for<'a> fn(&'a Subject) -> LocalBoxFuture<'a, ()>);

/// How many cases run at the same time over one fixture: mostly they wait for a lease to end.
const AT_ONCE: usize = 8;

/// Runs all cases in real time over one fixture that is dear to start, each in a namespace of its own: `open` is given
/// two that no other case has. `LEASEHOLD_CASE=word` runs only those with the word in their name.
///
/// # Panics
/// At the end, with the names of those that did.
pub fn run_all<T: Sync>(fixture: &T, open: impl Fn(&T, [&str; 2]) -> Subject + Sync, cases: &[Case]) {
    let only = std::env::var("LEASEHOLD_CASE").unwrap_or_default();
    let cases: Vec<_> = cases.iter().filter(|(name, _)| name.contains(&only)).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((name, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            let open = async { open(fixture, [name, &format!("{name}-other")]) };
            let outcome = catch_unwind(AssertUnwindSafe(|| run(open, async |subject: &Subject| case(subject).await)));
            println!("{name}: {} in {:?}", if outcome.is_ok() { "ok" } else { "FAILED" }, began.elapsed());
            if outcome.is_err() {
                failed.lock().unwrap().push(*name);
            }
        }
    };
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}

fn run_on(
    runtime: &mut tokio::runtime::Builder,
    make: impl Future<Output = Subject>,
    case: impl AsyncFnOnce(&Subject),
) {
    runtime.enable_all().build().expect("a runtime can be built").block_on(async {
        let subject = make.await;
        tokio::time::timeout(LIMIT, case(&subject)).await.expect("the store answers everything in time");
    });
}

/// Makes one test of each case of the [conformance suite](mod@crate::conformance): `conformance!(name, store)`.
///
/// `store` is an expression for an `Arc<dyn Store>` or a [`Subject`](crate::conformance::Subject); it is evaluated
/// for each test, on the runtime of that test, and may `await`. `conformance!(name, paused, store)` runs the
/// cases in Tokio's paused time: for a store whose clock is [`PausedClock`](crate::PausedClock).
///
/// ```
/// # use std::sync::Arc;
/// # use leasehold::Store;
/// # use leasehold::stores::Memory;
/// # use leasehold_testkit::PausedClock;
/// fn paused() -> Arc<dyn Store> {
///     Arc::new(Memory::new(Arc::new(PausedClock::start())))
/// }
///
/// leasehold_testkit::conformance!(mine, paused, paused());
/// ```
///
/// `conformance!(name, shared fixture, open)` makes one test of all cases, over one fixture: for servers that take
/// long to start. `open` is given the fixture and two namespaces that only this case has, and answers the
/// [`Subject`](crate::conformance::Subject), seen through the first.
///
/// `conformance!(name, one_holder, store)` leaves out the cases of locks that several may hold: for a store that refuses
/// such claims. `conformance!(name, one_holder paused, store)` is the same in paused time, and `conformance!(name, one_holder
/// shared fixture, open)` over one fixture.
///
/// `conformance!(name, unqueued, store)` and `conformance!(name, unqueued, paused, store)` leave out the queue and what is
/// handed over along it, too: for a store made of others, none of which knows in which order the others were asked. So does
/// `conformance!(name, unqueued shared fixture, open)`.
///
/// `conformance!(name, of_many shared fixture, open)` leaves out what only follows if no member was late, too: for a store
/// made of several servers, of which a majority goes on without the others. One that had not heard of an end yet knows of a
/// tick fewer, and gives the oldest up later.
///
/// `conformance!(name, plain shared fixture, open)` leaves out more: the queue, ticks, gentle revocations, and names of
/// any length and spelling. For a store in somebody else's table, which has no place for them.
///
/// `conformance!(name, session_bound shared fixture, open)` has the cases for a store whose locks end with a session
/// ([`Traits::session_bound`](leasehold::store::Traits::session_bound)): no queue, no ticks, no permits, no minimum holds
/// and no gentle revocations.
#[macro_export]
macro_rules! conformance {
    ($name:ident, one_holder, $store:expr) => {
        $crate::conformance!(@one_holder tests [$name, run, $store]);
    };
    ($name:ident, one_holder paused, $store:expr) => {
        $crate::conformance!(@one_holder tests [$name, run_paused, $store]);
    };
    ($name:ident, unqueued, paused, $store:expr) => {
        $crate::conformance!(@unqueued tests [$name, run_paused, $store]);
    };
    ($name:ident, unqueued, $store:expr) => {
        $crate::conformance!(@unqueued tests [$name, run, $store]);
    };
    ($name:ident, paused, $store:expr) => {
        $crate::conformance!(@all tests [$name, run_paused, $store]);
    };
    ($name:ident, plain shared $fixture:expr, $open:expr) => {
        $crate::conformance!(@plain one_test [$name, $fixture, $open]);
    };
    ($name:ident, one_holder shared $fixture:expr, $open:expr) => {
        $crate::conformance!(@one_holder one_test [$name, $fixture, $open]);
    };
    ($name:ident, unqueued shared $fixture:expr, $open:expr) => {
        $crate::conformance!(@unqueued one_test [$name, $fixture, $open]);
    };
    ($name:ident, of_many shared $fixture:expr, $open:expr) => {
        $crate::conformance!(@of_many one_test [$name, $fixture, $open]);
    };
    ($name:ident, session_bound shared $fixture:expr, $open:expr) => {
        $crate::conformance!(@session_bound one_test [$name, $fixture, $open]);
    };
    ($name:ident, shared $fixture:expr, $open:expr) => {
        $crate::conformance!(@all one_test [$name, $fixture, $open]);
    };
    ($name:ident, $store:expr) => {
        $crate::conformance!(@all tests [$name, run, $store]);
    };
    (@all $how:ident [$($what:tt)*]) => {
        $crate::conformance!(@one_holder $how [$($what)*]
            // permits
            so_many_may_hold_it no_more_of_many_are_granted a_release_frees_one_permit
            each_permit_runs_out_on_its_own whose_lease_ends_first_is_named_first
            revoking_one_holder_leaves_the_others revoking_one_holder_gently_stops_its_renewals_only
            revoked_gently_it_is_not_granted_another_permit
            revoking_all_holders_frees_all_permits holders_agree_on_the_permits fewer_permits_are_fewer
            tokens_grow_over_all_permits the_first_so_many_waiters_are_granted
            a_waiter_has_one_place_for_all_permits a_stranger_takes_only_the_surplus
            a_minimum_hold_keeps_one_permit a_permits_minimum_hold_ends a_holder_keeps_its_own_permit
            a_look_names_every_holder_once each_freed_permit_rings
            leaving_a_full_lock_keeps_the_others_waiting
            ticks_run_beside_one_another a_tick_that_runs_elsewhere_is_held_though_permits_are_free
            one_of_many_claims_a_tick_though_permits_are_free
        );
    };
    (@one_holder $how:ident [$($what:tt)*] $($more:ident)*) => {
        $crate::conformance!(@unqueued $how [$($what)*] $($more)*
            // queue
            first_come_first_served contention_says_how_many_are_ahead a_stranger_does_not_overtake
            a_waiter_counts_until_its_entry_ends a_dead_waiter_is_skipped a_waiter_comes_back_at_its_old_place
            asking_again_keeps_the_place a_waiter_gets_what_ran_out
            leaving_gives_up_the_place leaving_by_a_stranger_is_harmless leaving_with_a_grant_rings
            // waiters
            who_waits_is_told_in_line a_place_is_as_old_as_its_first_claim who_got_it_or_left_is_told_no_more
            the_dead_are_not_told nobody_waits queues_of_look_alikes_are_apart
            // handover
            a_release_hands_over what_is_handed_over_lasts_its_ttl who_misses_a_hand_over_asks_for_it
            leaving_hands_on leaving_takes_nothing_from_who_holds a_revocation_hands_over the_dead_are_handed_nothing who_says_nothing_is_only_woken
            a_tick_is_not_handed_over a_minimum_hold_is_not_handed_over
            // operators
            the_list_is_in_order
            // handles
            a_crowd_takes_turns
            // ticks
            a_refused_tick_leaves_no_place a_running_tick_says_how_many_wait
            a_waiter_learns_that_its_tick_is_done
        );
    };
    (@unqueued $how:ident [$($what:tt)*] $($more:ident)*) => {
        $crate::conformance!(@of_many $how [$($what)*] $($more)*
            // ticks
            the_oldest_of_too_many_is_given_up
        );
    };
    (@of_many $how:ident [$($what:tt)*] $($more:ident)*) => {
        $crate::conformance!(@common $how [$($what)*] $($more)*
            // names
            different_names_are_different_locks long_names_are_told_apart
            // queue
            a_holder_does_not_queue
            a_release_rings a_revocation_rings
            // operators
            a_minimum_hold_keeps_the_name a_minimum_hold_ends revoked_gently_it_is_not_renewed
            revoked_gently_it_is_not_granted_again revoked_gently_it_ends_with_its_ttl
            revoking_nobody_is_harmless
            // handles
            a_batch_answers_each_in_order a_given_up_waiter_is_undone_by_leaving
            // ticks
            a_newer_tick_is_granted_and_no_older_one a_tick_that_is_over_is_not_worth_waiting_for
            a_newer_tick_waits_for_the_lock a_tick_that_failed_is_over_at_most_once
            a_tick_whose_holder_died_is_over_at_most_once a_tick_that_runs_elsewhere_is_held
            a_failed_tick_is_granted_again
            a_dead_holders_tick_is_granted_again not_started_frees_the_tick_for_everybody
            not_started_counts_late not_started_counts_once not_started_by_another_is_harmless
            not_started_is_too_late_once_another_has_it not_started_after_done_is_harmless
            not_started_never_brings_the_mark_back done_counts_late
            done_counts_though_another_has_begun_it_again done_of_an_older_tick_leaves_newer_ones_alone
            a_late_failure_is_harmless a_failure_counts_late
            a_release_without_a_verdict_leaves_the_tick_open leaving_counts_as_not_started
            a_tick_in_the_future_is_refused_and_stops_nobody a_tick_that_may_be_forgotten_is_refused
            the_only_tick_has_no_window the_same_claim_gets_the_same_attempt
            plain_claims_leave_ticks_alone marks_of_different_names_are_apart
            a_tick_outlives_a_revocation one_of_many_claims_a_tick
        );
    };
    (@plain $how:ident [$($what:tt)*]) => {
        $crate::conformance!(@common $how [$($what)*] a_minimum_hold_ends revoking_nobody_is_harmless);
    };
    (@session_bound $how:ident [$($what:tt)*]) => {
        $crate::conformance!(@common $how [$($what)*]
            different_names_are_different_locks long_names_are_told_apart a_given_up_waiter_is_undone_by_leaving
        );
    };
    (@common $how:ident [$($what:tt)*] $($more:ident)*) => {
        $crate::conformance!(@$how [$($what)*] $($more)*
            // grants
            exclusive contention_says_who tokens_grow_over_releases tokens_grow_over_expiry
            tokens_grow_over_revocation tokens_grow_for_a_returning_holder renewals_keep_the_token
            a_renewed_lease_lives_on a_renewal_never_cuts_a_lease the_same_claim_gets_the_same_token
            the_same_claim_moves_the_end the_same_claim_never_cuts_the_lease
            // lapses
            a_lease_ends_after_its_ttl an_expired_lease_is_gone_though_nobody_took_it renewal_never_acquires
            a_past_holders_renewal_is_harmless a_past_holders_release_is_harmless
            a_release_without_a_lease_is_harmless
            // queue
            leaving_releases_a_grant subscriptions_come_and_go
            // operators
            revoked_now_it_is_free a_look_says_who traits_make_sense a_diagnosis_finds_no_problem
            // handles
            a_batch_may_have_a_name_twice the_keeper_sees_the_same_store
            a_given_up_claim_is_undone_by_a_release one_of_many_is_granted
        );
    };
    (@one_test [$name:ident, $fixture:expr, $open:expr] $($case:ident)*) => {
        #[test]
        fn $name() {
            $crate::conformance::run_all(&$fixture, $open, &[
                $((stringify!($case), |subject| Box::pin($crate::conformance::$case(subject.store()))),)*
                ("namespaces_are_apart", |subject| Box::pin(subject.check_namespaces())),
            ]);
        }
    };
    (@tests [$name:ident, $run:ident, $store:expr] $($case:ident)*) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[test]
                fn $case() {
                    $crate::conformance::$run(
                        async { $crate::conformance::Subject::from($store) },
                        async |subject: &$crate::conformance::Subject| {
                            $crate::conformance::$case(subject.store()).await;
                        },
                    );
                }
            )*

            #[test]
            fn namespaces_are_apart() {
                $crate::conformance::$run(
                    async { $crate::conformance::Subject::from($store) },
                    async |subject: &$crate::conformance::Subject| subject.check_namespaces().await,
                );
            }
        }
    };
}
