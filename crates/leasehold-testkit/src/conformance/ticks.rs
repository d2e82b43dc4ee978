//! Ticks: which are granted, to whom, how often, and what those who had them say afterwards.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::OPEN_TICKS;
use leasehold::{Attempt, Claim, Due, LockName, NotDue, Release, Renewal, Revoke, Store, TICK_SLACK, Tick, Verdict};

use super::Case;
use super::handles::handles;
use super::scene::{
    Claimant, LONG, Ticks, ask, ensure, finished, fresh_name, granted, holders, inspect, once, refused, retried,
    tick_at, time, unfinished, while_waiters_live,
};

/// Both things that a claim may want of a tick.
const MODES: [fn(Tick) -> Due; 2] = [once, retried];

/// What the tests allow for between their look at the store's clock and their claim.
const HURRY: Duration = Duration::from_secs(30);

/// *Marks*: a claim with a tick is granted only if the tick is newer than the name's mark.
pub async fn a_newer_tick_is_granted_and_no_older_one(store: &dyn Store) {
    let ticks = Ticks::of(store).await;
    for mode in MODES {
        let name = fresh_name("newer tick");
        let a = Claimant::of(&name);
        let grant = a.runs(store, mode(ticks.nth(2))).await;
        assert_eq!((grant.attempt, grant.gave_up), (1, None));
        a.ends(store, Verdict::Done(ticks.nth(2))).await;
        for other in MODES {
            for passed in [1, 2] {
                let why = Claimant::of(&name).is_not_due(store, other(ticks.nth(passed))).await;
                assert_eq!(why, finished(ticks.nth(2)));
            }
        }
        assert_eq!(inspect(store, &name).await, None, "who is refused holds nothing");
        let next = Claimant::of(&name).runs(store, mode(ticks.nth(3))).await;
        assert_eq!((next.attempt, next.gave_up), (1, None));
        assert!(grant.token < next.token, "{} after {}", next.token, grant.token);
    }
}

/// *Marks*, then the lease: a tick that is over is `NotDue` also while somebody has the lock, for it is no use to wait.
pub async fn a_tick_that_is_over_is_not_worth_waiting_for(store: &dyn Store) {
    let (name, ticks) = (fresh_name("not worth"), Ticks::of(store).await);
    let a = Claimant::of(&name);
    a.runs(store, once(ticks.nth(2))).await;
    assert_eq!(Claimant::of(&name).is_not_due(store, once(ticks.nth(1))).await, finished(ticks.nth(2)));
    a.ends(store, Verdict::Done(ticks.nth(2))).await;
    Claimant::of(&name).takes(store, LONG).await;
    assert_eq!(Claimant::of(&name).is_not_due(store, retried(ticks.nth(2))).await, finished(ticks.nth(2)));
}

/// A newer tick is `Held` while the lock is, and that leaves the mark where it was.
pub async fn a_newer_tick_waits_for_the_lock(store: &dyn Store) {
    let (name, ticks) = (fresh_name("newer waits"), Ticks::of(store).await);
    let (a, b, c) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
    a.runs(store, once(ticks.nth(1))).await;
    assert_eq!(holders(&b.is_held_off(store, once(ticks.nth(3))).await), [a.holder]);
    a.ends(store, Verdict::Done(ticks.nth(1))).await;
    assert_eq!(c.runs(store, once(ticks.nth(2))).await.attempt, 1);
    c.ends(store, Verdict::Done(ticks.nth(2))).await;
    assert_eq!(b.runs(store, once(ticks.nth(3))).await.attempt, 1);
}

/// *Verdicts*: `Failed` closes the holder's own tick if it was not to be retried.
pub async fn a_tick_that_failed_is_over_at_most_once(store: &dyn Store) {
    let (name, ticks) = (fresh_name("failed once"), Ticks::of(store).await);
    let a = Claimant::of(&name);
    a.runs(store, once(ticks.nth(1))).await;
    a.ends(store, Verdict::Failed).await;
    for mode in MODES {
        let why = Claimant::of(&name).is_not_due(store, mode(ticks.nth(1))).await;
        assert_eq!(why, finished(ticks.nth(1)));
    }
    Claimant::of(&name).runs(store, once(ticks.nth(2))).await;
}

/// *Marks*: who died may have begun it. At most once it is not granted again, whatever a claim wants of it today
/// (m10: another node that is configured otherwise).
pub async fn a_tick_whose_holder_died_is_over_at_most_once(store: &dyn Store) {
    let (name, ticks) = (fresh_name("died once"), Ticks::of(store).await);
    let dead = Claimant::of(&name);
    dead.dies_of(store, once(ticks.nth(2))).await;
    for mode in MODES {
        let why = Claimant::of(&name).is_not_due(store, mode(ticks.nth(2))).await;
        assert_eq!(why, unfinished(ticks.nth(2)));
        let why = Claimant::of(&name).is_not_due(store, mode(ticks.nth(1))).await;
        assert_eq!(why, finished(ticks.nth(2)), "that one was not begun");
    }
    assert_eq!(dead.is_not_due(store, once(ticks.nth(2))).await, unfinished(ticks.nth(2)), "nor by itself");
}

/// *Marks*: a tick that is running elsewhere is `Held`, whatever the claim wants, and it says who.
pub async fn a_tick_that_runs_elsewhere_is_held(store: &dyn Store) {
    it_runs_elsewhere(store, 1).await;
}

/// *Marks*: also if more than one may hold the lock.
pub async fn a_tick_that_runs_elsewhere_is_held_though_permits_are_free(store: &dyn Store) {
    it_runs_elsewhere(store, 3).await;
}

async fn it_runs_elsewhere(store: &dyn Store, permits: u32) {
    let ticks = Ticks::of(store).await;
    for mode in MODES {
        let name = fresh_name("running");
        let a = Claimant::of_many(&name, permits);
        a.runs(store, mode(ticks.nth(1))).await;
        for other in MODES {
            let b = Claimant::of_many(&name, permits);
            let told = b.is_held_off(store, other(ticks.nth(1))).await;
            assert_eq!((holders(&told), told.label.as_str()), (vec![a.holder], a.label.as_str()), "{told:?}");
            assert_eq!((told.waiting, told.permits.get()), (0, permits), "{told:?}");
        }
        a.ends(store, Verdict::Done(ticks.nth(1))).await;
        Claimant::of_many(&name, permits).is_not_due(store, mode(ticks.nth(1))).await;
    }
}

/// Where several may hold the lock, a newer tick is granted beside the running one; both end on their own.
pub async fn ticks_run_beside_one_another(store: &dyn Store) {
    let (name, ticks) = (fresh_name("beside"), Ticks::of(store).await);
    let [a, b, c] = [(); 3].map(|()| Claimant::of_many(&name, 2));
    a.runs(store, retried(ticks.nth(1))).await;
    b.runs(store, retried(ticks.nth(2))).await;
    for running in [1, 2] {
        assert_eq!(holders(&c.is_held_off(store, retried(ticks.nth(running))).await).len(), 2);
    }
    a.ends(store, Verdict::Failed).await;
    assert_eq!(holders(&c.is_held_off(store, retried(ticks.nth(2))).await), [b.holder], "a permit is free, and no use");
    assert_eq!(c.runs(store, retried(ticks.nth(1))).await.attempt, 2);
    b.ends(store, Verdict::Done(ticks.nth(2))).await;
    c.ends(store, Verdict::Done(ticks.nth(1))).await;
    for over in [1, 2] {
        assert_eq!(a.is_not_due(store, retried(ticks.nth(over))).await, finished(ticks.nth(2)));
    }
}

/// *Marks*: a tick that is to be retried and failed is granted again, with a larger token, until it is done; not to a
/// claim that wants it once at most.
pub async fn a_failed_tick_is_granted_again(store: &dyn Store) {
    let (name, ticks) = (fresh_name("failed again"), Ticks::of(store).await);
    let mut last = None;
    for attempt in 1..=3 {
        let a = Claimant::of(&name);
        let grant = a.runs(store, retried(ticks.nth(1))).await;
        assert_eq!((grant.attempt, grant.gave_up), (attempt, None));
        assert!(last < Some(grant.token), "{} after {last:?}", grant.token);
        last = Some(grant.token);
        let verdict = if attempt == 3 { Verdict::Done(ticks.nth(1)) } else { Verdict::Failed };
        a.ends(store, verdict).await;
        let why = Claimant::of(&name).is_not_due(store, once(ticks.nth(1))).await;
        assert_eq!(why, NotDue::Claimed { newest: ticks.nth(1), unfinished: attempt < 3 });
    }
    assert_eq!(Claimant::of(&name).is_not_due(store, retried(ticks.nth(1))).await, finished(ticks.nth(1)));
}

/// *Marks*: so is one whose holder died, once its lease is over; also below the mark.
pub async fn a_dead_holders_tick_is_granted_again(store: &dyn Store) {
    let (name, ticks) = (fresh_name("died again"), Ticks::of(store).await);
    let dead = Claimant::of(&name).dies_of(store, retried(ticks.nth(1))).await;
    let newer = Claimant::of(&name);
    newer.runs(store, retried(ticks.nth(2))).await;
    newer.ends(store, Verdict::Done(ticks.nth(2))).await;
    let why = Claimant::of(&name).is_not_due(store, once(ticks.nth(1))).await;
    assert_eq!(why, unfinished(ticks.nth(2)), "not for who wants it once at most");
    let next = Claimant::of(&name);
    let again = next.runs(store, retried(ticks.nth(1))).await;
    assert_eq!(again.attempt, 2);
    assert!(dead.token < again.token, "{} after {}", again.token, dead.token);
    next.ends(store, Verdict::Done(ticks.nth(1))).await;
    for over in [1, 2] {
        assert_eq!(Claimant::of(&name).is_not_due(store, retried(ticks.nth(over))).await, finished(ticks.nth(2)));
    }
}

/// *Verdicts*: `NotStarted` takes the holder's own attempt back: the next one has the first again, and whatever it
/// wants of the tick.
pub async fn not_started_frees_the_tick_for_everybody(store: &dyn Store) {
    let ticks = Ticks::of(store).await;
    for first in MODES {
        let name = fresh_name("not started");
        let a = Claimant::of(&name);
        let mut last = a.runs(store, first(ticks.nth(1))).await;
        a.ends(store, Verdict::NotStarted).await;
        for next in MODES {
            let b = Claimant::of(&name);
            let grant = b.runs(store, next(ticks.nth(1))).await;
            assert_eq!(grant.attempt, 1);
            assert!(last.token < grant.token, "{} after {}", grant.token, last.token);
            last = grant;
            b.ends(store, Verdict::NotStarted).await;
        }
        let c = Claimant::of(&name);
        c.runs(store, once(ticks.nth(1))).await;
        c.ends(store, Verdict::Failed).await;
        let why = Claimant::of(&name).is_not_due(store, retried(ticks.nth(1))).await;
        assert_eq!(why, finished(ticks.nth(1)), "that one was promised once");
    }
}

/// *Verdicts* count late, too: a dead holder whose lease is over says that it never began.
pub async fn not_started_counts_late(store: &dyn Store) {
    let (name, ticks) = (fresh_name("late not started"), Ticks::of(store).await);
    let late = Claimant::of(&name);
    late.dies_of(store, once(ticks.nth(1))).await;
    let other = Claimant::of(&name);
    other.runs(store, once(ticks.nth(2))).await;
    assert_eq!(late.says(store, Verdict::NotStarted).await, Release::NotHeld);
    assert_eq!(other.renews(store, LONG).await, Renewal::Renewed, "no lease is changed");
    other.ends(store, Verdict::Done(ticks.nth(2))).await;
    assert_eq!(Claimant::of(&name).runs(store, once(ticks.nth(1))).await.attempt, 1);
}

/// `NotStarted` said twice takes one attempt back, not two; and one that was begun keeps it from a claim that wants it
/// once at most.
pub async fn not_started_counts_once(store: &dyn Store) {
    let (name, ticks) = (fresh_name("twice not started"), Ticks::of(store).await);
    let (began, never) = (Claimant::of(&name), Claimant::of(&name));
    began.runs(store, retried(ticks.nth(1))).await;
    began.ends(store, Verdict::Failed).await;
    assert_eq!(never.runs(store, retried(ticks.nth(1))).await.attempt, 2);
    never.ends(store, Verdict::NotStarted).await;
    assert_eq!(never.says(store, Verdict::NotStarted).await, Release::NotHeld);
    assert_eq!(Claimant::of(&name).is_not_due(store, once(ticks.nth(1))).await, unfinished(ticks.nth(1)));
    assert_eq!(Claimant::of(&name).runs(store, retried(ticks.nth(1))).await.attempt, 2);
}

/// *Verdicts*: `NotStarted` takes back the holder's own attempt, nobody else's (m02).
pub async fn not_started_by_another_is_harmless(store: &dyn Store) {
    let (name, ticks) = (fresh_name("stranger not started"), Ticks::of(store).await);
    let (a, stranger) = (Claimant::of(&name), Claimant::of(&name));
    a.runs(store, once(ticks.nth(1))).await;
    assert_eq!(stranger.says(store, Verdict::NotStarted).await, Release::NotHeld);
    stranger.leaves(store).await;
    assert_eq!(holders(&stranger.is_held_off(store, once(ticks.nth(1))).await), [a.holder]);
    assert_eq!(a.renews(store, LONG).await, Renewal::Renewed);
    assert_eq!(a.is_revoked(store, Revoke::Now).await.map(|told| holders(&told)), Some(vec![a.holder]));
    assert_eq!(stranger.says(store, Verdict::NotStarted).await, Release::NotHeld);
    assert_eq!(stranger.is_not_due(store, once(ticks.nth(1))).await, unfinished(ticks.nth(1)));
}

/// *Verdicts*: an attempt is the holder's own no more if somebody has claimed the tick since (m08).
pub async fn not_started_is_too_late_once_another_has_it(store: &dyn Store) {
    let (name, ticks) = (fresh_name("overtaken not started"), Ticks::of(store).await);
    let (h1, h2, h3) = (Claimant::of(&name), Claimant::of(&name), Claimant::of(&name));
    h1.dies_of(store, retried(ticks.nth(1))).await;
    h2.runs(store, retried(ticks.nth(1))).await;
    assert_eq!(h1.says(store, Verdict::NotStarted).await, Release::NotHeld);
    assert_eq!(holders(&h3.is_held_off(store, retried(ticks.nth(1))).await), [h2.holder]);
    h2.ends(store, Verdict::Failed).await;
    assert_eq!(h1.says(store, Verdict::NotStarted).await, Release::NotHeld);
    assert_eq!(h3.is_not_due(store, once(ticks.nth(1))).await, unfinished(ticks.nth(1)));
    assert_eq!(h3.runs(store, retried(ticks.nth(1))).await.attempt, 3);
    h3.ends(store, Verdict::Done(ticks.nth(1))).await;
    for past in [&h1, &h2] {
        assert_eq!(past.says(store, Verdict::NotStarted).await, Release::NotHeld);
        assert_eq!(Claimant::of(&name).is_not_due(store, retried(ticks.nth(1))).await, finished(ticks.nth(1)));
    }
}

/// What is done stays done, though the answer to a claim that was sent twice finds nobody who had begun (m03).
pub async fn not_started_after_done_is_harmless(store: &dyn Store) {
    let ticks = Ticks::of(store).await;
    for mode in MODES {
        let name = fresh_name("not started after done");
        let a = Claimant::of(&name);
        let first = a.runs(store, mode(ticks.nth(1))).await;
        let second = a.runs(store, mode(ticks.nth(1))).await;
        assert_eq!((first.token, first.attempt), (second.token, second.attempt));
        a.ends(store, Verdict::Done(ticks.nth(1))).await;
        assert_eq!(a.says(store, Verdict::NotStarted).await, Release::NotHeld);
        a.leaves(store).await;
        for other in MODES {
            assert_eq!(Claimant::of(&name).is_not_due(store, other(ticks.nth(1))).await, finished(ticks.nth(1)));
            assert_eq!(a.is_not_due(store, other(ticks.nth(1))).await, finished(ticks.nth(1)), "sent a third time");
        }
    }
}

/// *Marks*: the mark only grows, whatever is taken back and in whatever order (m04).
pub async fn not_started_never_brings_the_mark_back(store: &dyn Store) {
    let (name, ticks) = (fresh_name("mark back"), Ticks::of(store).await);
    let [x, h1, h2] = [(); 3].map(|()| Claimant::of(&name));
    x.runs(store, once(ticks.nth(1))).await;
    x.ends(store, Verdict::Done(ticks.nth(1))).await;
    h1.dies_of(store, once(ticks.nth(2))).await;
    h2.runs(store, once(ticks.nth(3))).await;
    h2.ends(store, Verdict::NotStarted).await;
    assert_eq!(h1.says(store, Verdict::NotStarted).await, Release::NotHeld);
    assert_eq!(Claimant::of(&name).is_not_due(store, once(ticks.nth(1))).await, finished(ticks.nth(3)));
    for freed in [3, 2] {
        let next = Claimant::of(&name);
        assert_eq!(next.runs(store, once(ticks.nth(freed))).await.attempt, 1, "and no tick is lost");
        next.ends(store, Verdict::Done(ticks.nth(freed))).await;
    }
    for over in [1, 2, 3] {
        assert_eq!(Claimant::of(&name).is_not_due(store, once(ticks.nth(over))).await, finished(ticks.nth(3)));
    }
}

/// *Verdicts*: `Done` closes the tick, whoever sends it and whoever holds the lock by then; it changes nothing of that
/// lease (m07).
pub async fn done_counts_late(store: &dyn Store) {
    let (name, ticks) = (fresh_name("late done"), Ticks::of(store).await);
    let (late, now) = (Claimant::of(&name), Claimant::of(&name));
    late.dies_of(store, retried(ticks.nth(1))).await;
    let token = now.takes(store, LONG).await;
    assert_eq!(late.says(store, Verdict::Done(ticks.nth(1))).await, Release::NotHeld);
    let told = inspect(store, &name).await.expect("it is held");
    assert_eq!((told.holder, told.token), (Some(now.holder), token));
    assert_eq!(now.renews(store, LONG).await, Renewal::Renewed);
    assert_eq!(now.releases(store).await, Release::Released);
    for mode in MODES {
        assert_eq!(Claimant::of(&name).is_not_due(store, mode(ticks.nth(1))).await, finished(ticks.nth(1)));
    }
}

/// `Done` counts also while another has begun the same tick again: that one's failure is no reason for a third (m07).
pub async fn done_counts_though_another_has_begun_it_again(store: &dyn Store) {
    let (name, ticks) = (fresh_name("late done, begun again"), Ticks::of(store).await);
    let (h1, h2) = (Claimant::of(&name), Claimant::of(&name));
    h1.dies_of(store, retried(ticks.nth(1))).await;
    let again = h2.runs(store, retried(ticks.nth(1))).await;
    assert_eq!(h1.says(store, Verdict::Done(ticks.nth(1))).await, Release::NotHeld);
    assert_eq!(
        inspect(store, &name).await.map(|told| (holders(&told), told.token)),
        Some((vec![h2.holder], again.token))
    );
    assert_eq!(h2.renews(store, LONG).await, Renewal::Renewed);
    h2.ends(store, Verdict::Failed).await;
    assert_eq!(Claimant::of(&name).is_not_due(store, retried(ticks.nth(1))).await, finished(ticks.nth(1)));
}

/// `Done` closes the tick that it names, and no other.
pub async fn done_of_an_older_tick_leaves_newer_ones_alone(store: &dyn Store) {
    let (name, ticks) = (fresh_name("done of older"), Ticks::of(store).await);
    let (h1, h2) = (Claimant::of(&name), Claimant::of(&name));
    h1.runs(store, retried(ticks.nth(1))).await;
    assert!(h1.is_revoked(store, Revoke::Now).await.is_some());
    h2.runs(store, retried(ticks.nth(3))).await;
    h2.ends(store, Verdict::Failed).await;
    assert_eq!(h1.says(store, Verdict::Done(ticks.nth(1))).await, Release::NotHeld);
    assert_eq!(Claimant::of(&name).is_not_due(store, retried(ticks.nth(1))).await, finished(ticks.nth(3)));
    assert_eq!(Claimant::of(&name).is_not_due(store, retried(ticks.nth(2))).await, finished(ticks.nth(3)));
    assert_eq!(Claimant::of(&name).runs(store, retried(ticks.nth(3))).await.attempt, 2);
}

/// *Verdicts*: `Failed` closes the holder's own; a late one changes nothing of somebody else's attempt.
pub async fn a_late_failure_is_harmless(store: &dyn Store) {
    let (name, ticks) = (fresh_name("late failure"), Ticks::of(store).await);
    let (late, now) = (Claimant::of(&name), Claimant::of(&name));
    late.runs(store, once(ticks.nth(1))).await;
    late.ends(store, Verdict::NotStarted).await;
    now.runs(store, once(ticks.nth(1))).await;
    assert_eq!(late.says(store, Verdict::Failed).await, Release::NotHeld);
    assert_eq!(holders(&late.is_held_off(store, once(ticks.nth(1))).await), [now.holder]);
    assert_eq!(now.renews(store, LONG).await, Renewal::Renewed);
    now.ends(store, Verdict::NotStarted).await;
    assert_eq!(late.says(store, Verdict::Failed).await, Release::NotHeld);
    assert_eq!(Claimant::of(&name).runs(store, once(ticks.nth(1))).await.attempt, 1);
}

/// A late `Failed` of its own closes the tick as one in time does.
pub async fn a_failure_counts_late(store: &dyn Store) {
    let ticks = Ticks::of(store).await;
    for (mode, closes) in [(MODES[0], true), (MODES[1], false)] {
        let name = fresh_name("failure counts late");
        let late = Claimant::of(&name);
        late.runs(store, mode(ticks.nth(1))).await;
        assert!(late.is_revoked(store, Revoke::Now).await.is_some());
        assert_eq!(late.says(store, Verdict::Failed).await, Release::NotHeld);
        let why = Claimant::of(&name).is_not_due(store, once(ticks.nth(1))).await;
        assert_eq!(why, NotDue::Claimed { newest: ticks.nth(1), unfinished: !closes });
    }
}

/// A release that says nothing of the work takes no attempt back and closes nothing.
pub async fn a_release_without_a_verdict_leaves_the_tick_open(store: &dyn Store) {
    let (name, ticks) = (fresh_name("no verdict"), Ticks::of(store).await);
    let a = Claimant::of(&name);
    a.runs(store, retried(ticks.nth(1))).await;
    assert_eq!(a.releases(store).await, Release::Released);
    assert_eq!(Claimant::of(&name).is_not_due(store, once(ticks.nth(1))).await, unfinished(ticks.nth(1)));
    assert_eq!(Claimant::of(&name).runs(store, retried(ticks.nth(1))).await.attempt, 2);
}

/// *Verdicts*: `leave` takes the holder's own attempt back, too, also late.
pub async fn leaving_counts_as_not_started(store: &dyn Store) {
    let (name, ticks) = (fresh_name("leaving tick"), Ticks::of(store).await);
    let (a, late) = (Claimant::of(&name), Claimant::of(&name));
    a.runs(store, once(ticks.nth(1))).await;
    a.leaves(store).await;
    assert_eq!(inspect(store, &name).await, None);
    assert_eq!(late.runs(store, once(ticks.nth(1))).await.attempt, 1);
    assert!(late.is_revoked(store, Revoke::Now).await.is_some());
    late.leaves(store).await;
    late.leaves(store).await;
    assert_eq!(Claimant::of(&name).runs(store, once(ticks.nth(1))).await.attempt, 1);
}

/// A tick that is more than [`TICK_SLACK`] ahead of the store's clock is refused, and stops nobody: the mark doesn't
/// move for it.
pub async fn a_tick_in_the_future_is_refused_and_stops_nobody(store: &dyn Store) {
    let (name, now) = (fresh_name("future"), time(store).await);
    let (right, soon, early) = (now, now + TICK_SLACK - Duration::from_secs(1), now + TICK_SLACK + HURRY);
    let stranger = Claimant::of(&name);
    for mode in MODES {
        let why = stranger.is_not_due(store, mode(tick_at(early))).await;
        let NotDue::InFuture { ahead } = why else { panic!("it is in the future: {why:?}") };
        assert!(ahead > TICK_SLACK && ahead <= TICK_SLACK + HURRY, "{ahead:?}");
    }
    assert_eq!(inspect(store, &name).await, None, "who is refused holds nothing");
    for due in [right, soon] {
        let a = Claimant::of(&name);
        assert_eq!(a.runs(store, once(tick_at(due))).await.attempt, 1);
        stranger.is_not_due(store, once(tick_at(early))).await;
        a.ends(store, Verdict::Done(tick_at(due))).await;
    }
    assert_eq!(stranger.is_not_due(store, once(tick_at(right))).await, finished(tick_at(soon)));
}

/// A tick that is older than the marks' retention less [`TICK_SLACK`] may have been claimed and forgotten: it is
/// refused, also where it never was.
pub async fn a_tick_that_may_be_forgotten_is_refused(store: &dyn Store) {
    let (name, now) = (fresh_name("too old"), time(store).await);
    let keep = TICK_SLACK + Duration::from_secs(600);
    let limit = now - (keep - TICK_SLACK);
    let for_mode = |mode: fn(Tick) -> Due, at| Due { keep, ..mode(tick_at(at)) };
    for mode in MODES {
        let why = Claimant::of(&name).is_not_due(store, for_mode(mode, limit - Duration::from_secs(1))).await;
        let NotDue::TooOld { behind } = why else { panic!("it is too old: {why:?}") };
        assert!(behind > keep - TICK_SLACK, "{behind:?}");
    }
    assert_eq!(inspect(store, &name).await, None, "who is refused holds nothing");
    assert_eq!(Claimant::of(&name).runs(store, for_mode(once, limit + HURRY)).await.attempt, 1);
}

/// [`Tick::ONLY`] has no time, so it is neither early nor old. It is granted once, or until it is done.
pub async fn the_only_tick_has_no_window(store: &dyn Store) {
    for keep in [LONG, Duration::from_secs(3600)] {
        let name = fresh_name("only");
        let due = Due { keep, ..retried(Tick::ONLY) };
        let [a, b, c] = [(); 3].map(|()| Claimant::of(&name));
        assert_eq!(a.runs(store, due).await.attempt, 1);
        assert_eq!(holders(&b.is_held_off(store, due).await), [a.holder]);
        a.ends(store, Verdict::Failed).await;
        assert_eq!(b.runs(store, due).await.attempt, 2);
        b.ends(store, Verdict::Done(Tick::ONLY)).await;
        assert_eq!(c.is_not_due(store, Due { keep: LONG * 2, ..due }).await, finished(Tick::ONLY));
    }
}

/// *Idempotent per holder*: the same claim sent again gets the same token and the same attempt.
pub async fn the_same_claim_gets_the_same_attempt(store: &dyn Store) {
    let (name, ticks) = (fresh_name("same attempt"), Ticks::of(store).await);
    let (past, a) = (Claimant::of(&name), Claimant::of(&name));
    past.runs(store, retried(ticks.nth(1))).await;
    past.ends(store, Verdict::Failed).await;
    let first = a.runs(store, retried(ticks.nth(1))).await;
    assert_eq!(first.attempt, 2);
    for _ in 0..3 {
        let again = a.runs(store, retried(ticks.nth(1))).await;
        assert_eq!((again.token, again.attempt), (first.token, first.attempt));
    }
    a.ends(store, Verdict::NotStarted).await;
    assert_eq!(Claimant::of(&name).runs(store, retried(ticks.nth(1))).await.attempt, 2, "it was one attempt");
}

/// A claim with a tick that is refused, because it is over or because it is running, leaves no place in the queue; also
/// if it had one. It doesn't count who waits for nothing.
pub async fn a_refused_tick_leaves_no_place(store: &dyn Store) {
    let (name, ticks) = (fresh_name("no place"), Ticks::of(store).await);
    let queues = |claimant: &Claimant, tick| Claim { due: Some(once(tick)), ..claimant.queuing_claim(LONG) };
    let (a, b) = (Claimant::of(&name), Claimant::of(&name));
    a.runs(store, once(ticks.nth(2))).await;
    let over = ask(store, &queues(&b, ticks.nth(1))).await;
    assert!(matches!(over, Attempt::NotDue(_)), "{over:?}");
    let running = ask(store, &queues(&b, ticks.nth(2))).await;
    assert!(matches!(running, Attempt::Held(_)), "{running:?}");
    assert_eq!(inspect(store, &name).await.expect("it is held").waiting, 0);

    let held = ask(store, &queues(&b, ticks.nth(3))).await;
    refused("a waiter for a newer tick", held).unwrap();
    let over = ask(store, &queues(&b, ticks.nth(1))).await;
    assert!(matches!(over, Attempt::NotDue(_)), "{over:?}");
    assert_eq!(inspect(store, &name).await.expect("it is held").waiting, 0);
    a.ends(store, Verdict::Done(ticks.nth(2))).await;
    Claimant::of(&name).takes(store, LONG).await;
}

/// In answer to a claim for a tick that is running, too: how many wait before the claimant.
pub async fn a_running_tick_says_how_many_wait(store: &dyn Store) {
    while_waiters_live(async |_| {
        let (name, ticks) = (fresh_name("running, waited for"), Ticks::of(store).await);
        Claimant::of(&name).runs(store, once(ticks.nth(1))).await;
        refused("a waiter", Claimant::of(&name).waits(store).await)?;
        let told = refused("the tick", Claimant::of(&name).tries_for(store, once(ticks.nth(1))).await)?;
        ensure!(told.waiting == 1 && told.ticket.is_none(), "one waits: {told:?}");
        Ok(())
    })
    .await;
}

/// *First come, first served* among claims with ticks, too; and a waiter whose tick was done meanwhile learns it at its
/// next look, and stands in nobody's way.
pub async fn a_waiter_learns_that_its_tick_is_done(store: &dyn Store) {
    while_waiters_live(async |_| {
        let (name, ticks) = (fresh_name("done meanwhile"), Ticks::of(store).await);
        let [holder, first, second, third] = [(); 4].map(|()| Claimant::of(&name));
        let looks = |claimant: &Claimant, number| {
            let claim = Claim { due: Some(once(ticks.nth(number))), ..claimant.queuing_claim(LONG) };
            async move { ask(store, &claim).await }
        };
        holder.takes(store, LONG).await;
        for (ahead, (waiter, number)) in [(&first, 1), (&second, 1), (&third, 2)].into_iter().enumerate() {
            let told = refused("a waiter", looks(waiter, number).await)?;
            ensure!(told.waiting == ahead as u64 && told.ticket.is_some(), "it stands in line: {told:?}");
        }
        ensure!(holder.releases(store).await == Release::Released, "the holder did not hold it");
        refused("the second", looks(&second, 1).await)?;
        granted("the first", looks(&first, 1).await)?;
        ensure!(first.says(store, Verdict::Done(ticks.nth(1))).await == Release::Released, "the grant did not hold");
        let told = looks(&second, 1).await;
        ensure!(matches!(told, Attempt::NotDue(_)), "its tick is done: {told:?}");
        granted("the third", looks(&third, 2).await)?;
        Ok(())
    })
    .await;
}

/// A plain claim neither needs the mark nor moves it, and says nothing of an attempt.
pub async fn plain_claims_leave_ticks_alone(store: &dyn Store) {
    let (name, ticks) = (fresh_name("plain and tick"), Ticks::of(store).await);
    let plain = async || {
        let a = Claimant::of(&name);
        match a.tries(store, LONG).await {
            Attempt::Granted(grant) => assert_eq!((grant.attempt, grant.gave_up), (0, None)),
            other => panic!("it should be free: {other:?}"),
        }
        assert_eq!(a.releases(store).await, Release::Released);
    };
    plain().await;
    let a = Claimant::of(&name);
    a.runs(store, retried(ticks.nth(2))).await;
    Claimant::of(&name).is_refused(store).await;
    a.ends(store, Verdict::Failed).await;
    plain().await;
    let b = Claimant::of(&name);
    assert_eq!(b.runs(store, retried(ticks.nth(2))).await.attempt, 2);
    b.ends(store, Verdict::Done(ticks.nth(2))).await;
    plain().await;
    assert_eq!(Claimant::of(&name).is_not_due(store, retried(ticks.nth(1))).await, finished(ticks.nth(2)));
    assert_eq!(Claimant::of(&name).runs(store, retried(ticks.nth(3))).await.attempt, 1);
}

/// Of a name, at most [`OPEN_TICKS`] stand open. The oldest is given up for a new one, which is told, and never comes
/// back; those that are done don't count.
pub async fn the_oldest_of_too_many_is_given_up(store: &dyn Store) {
    let (name, ticks) = (fresh_name("open ticks"), Ticks::of(store).await);
    let fails = async |number| {
        let a = Claimant::of(&name);
        let grant = a.runs(store, retried(ticks.nth(number))).await;
        a.ends(store, Verdict::Failed).await;
        (grant.attempt, grant.gave_up)
    };
    let done = Claimant::of(&name);
    done.runs(store, retried(ticks.nth(0))).await;
    done.ends(store, Verdict::Done(ticks.nth(0))).await;
    for number in 1..=OPEN_TICKS {
        assert_eq!(fails(number).await, (1, None), "{number}");
    }
    assert_eq!(fails(1).await, (2, None), "an open one again makes them no more");
    let newest = OPEN_TICKS + 1;
    assert_eq!(fails(newest).await, (1, Some(ticks.nth(1))));
    for mode in MODES {
        let why = Claimant::of(&name).is_not_due(store, mode(ticks.nth(1))).await;
        assert_eq!(why, finished(ticks.nth(newest)), "it is over, though it never was done");
    }
    assert_eq!(fails(2).await, (2, None), "the next one is still open");
    assert_eq!(fails(newest).await, (2, None));
    assert_eq!(fails(newest + 1).await, (1, Some(ticks.nth(2))));
    for over in [1, 2] {
        assert_eq!(
            Claimant::of(&name).is_not_due(store, retried(ticks.nth(over))).await,
            finished(ticks.nth(newest + 1))
        );
    }
}

/// *Name safe*: the marks of different names are two marks, and so are their verdicts.
pub async fn marks_of_different_names_are_apart(store: &dyn Store) {
    let (one, other, ticks) = (fresh_name("mark"), fresh_name("Mark"), Ticks::of(store).await);
    let (a, b) = (Claimant::of(&one), Claimant::of(&other));
    a.runs(store, retried(ticks.nth(3))).await;
    assert_eq!(b.runs(store, retried(ticks.nth(1))).await.attempt, 1);
    b.ends(store, Verdict::Failed).await;
    a.ends(store, Verdict::Done(ticks.nth(1))).await;
    assert_eq!(Claimant::of(&other).runs(store, retried(ticks.nth(1))).await.attempt, 2);
    assert_eq!(Claimant::of(&one).runs(store, retried(ticks.nth(3))).await.attempt, 2);
}

/// One name in two namespaces has two marks. `a` and `b` are one store seen through two namespaces.
pub async fn marks_of_namespaces_are_apart(a: &dyn Store, b: &dyn Store) {
    let (name, ticks) = (fresh_name("marks of namespaces"), Ticks::of(a).await);
    let (in_a, in_b) = (Claimant::of(&name), Claimant::of(&name));
    in_a.runs(a, retried(ticks.nth(2))).await;
    assert_eq!(in_b.runs(b, retried(ticks.nth(1))).await.attempt, 1);
    assert_eq!(in_a.says(b, Verdict::Done(ticks.nth(1))).await, Release::NotHeld, "it was done there, say");
    in_b.ends(b, Verdict::Failed).await;
    assert_eq!(Claimant::of(&name).is_not_due(b, retried(ticks.nth(1))).await, finished(ticks.nth(1)));
    in_a.ends(a, Verdict::Failed).await;
    assert_eq!(Claimant::of(&name).runs(a, retried(ticks.nth(2))).await.attempt, 2);
}

/// What an operator ends was begun: the mark and the open tick outlive it. Who is revoked gently and asks again is
/// `Held`.
pub async fn a_tick_outlives_a_revocation(store: &dyn Store) {
    let ticks = Ticks::of(store).await;
    for mode in MODES {
        let name = fresh_name("revoked tick");
        let a = Claimant::of(&name);
        a.runs(store, mode(ticks.nth(1))).await;
        assert!(a.is_revoked(store, Revoke::Gently).await.is_some());
        for asks in [&a, &Claimant::of(&name)] {
            let told = asks.is_held_off(store, mode(ticks.nth(1))).await;
            assert!(told.revoked && told.holder == Some(a.holder), "{told:?}");
        }
        assert!(a.is_revoked(store, Revoke::Now).await.is_some());
        let why = Claimant::of(&name).is_not_due(store, once(ticks.nth(1))).await;
        assert_eq!(why, unfinished(ticks.nth(1)));
        if mode(ticks.nth(1)).retry_failed {
            assert_eq!(Claimant::of(&name).runs(store, mode(ticks.nth(1))).await.attempt, 2);
        } else {
            Claimant::of(&name).is_not_due(store, retried(ticks.nth(1))).await;
        }
    }
}

/// *Atomic in the store*: of many who ask for one tick at the same time, one is granted it, and the others are told that
/// it is running.
pub async fn one_of_many_claims_a_tick(store: &dyn Store) {
    many_claim_a_tick(store, 1).await;
}

/// *Atomic in the store*: also if there are permits for all of them.
pub async fn one_of_many_claims_a_tick_though_permits_are_free(store: &dyn Store) {
    many_claim_a_tick(store, 32).await;
}

async fn many_claim_a_tick(store: &dyn Store, permits: u32) {
    let (handles, ticks, name) = (handles(store), Ticks::of(store).await, fresh_name("many for a tick"));
    for number in 1..=3 {
        let asking = (0..32).map(|index| {
            let (store, claimant) = (handles[index % handles.len()].clone(), Claimant::of_many(&name, permits));
            let due = MODES[index % 2](ticks.nth(number));
            tokio::spawn(async move {
                let told = claimant.tries_for(&*store, due).await;
                (claimant, due, told)
            })
        });
        let answers: Vec<_> = join_all(asking).await.into_iter().map(|task| task.expect("no panic")).collect();
        let is_granted = |told: &Attempt| matches!(told, Attempt::Granted(_));
        let granted: Vec<_> =
            answers.iter().filter(|(_, _, told)| is_granted(told)).map(|(claimant, ..)| claimant.holder).collect();
        assert_eq!(granted.len(), 1, "{granted:?}");
        let mut says = BTreeSet::new();
        for (claimant, due, told) in &answers {
            let Attempt::Held(holding) = told else { continue };
            let mut named = holders(holding);
            // Of a quorum that was split somebody may have been told of one who took its votes back.
            if named != granted && store.traits().kind == "quorum" {
                named = holders(&claimant.is_held_off(store, *due).await);
            }
            says.insert(named);
        }
        assert_eq!(says, BTreeSet::from([granted.clone()]), "everybody else is told who runs it");
        let mut winner = Claimant::of_many(&name, permits);
        winner.holder = granted[0];
        winner.ends(store, Verdict::Done(ticks.nth(number))).await;
    }
}

macro_rules! cases {
    ($($case:ident)*) => {
        /// The cases of [`Store::reset_marks`], for every store that has ticks. They are not among those of
        /// [`conformance!`](crate::conformance!): run them with [`run_all`](super::run_all).
        pub const RESETS: &[Case] = &[$((stringify!($case), |subject| Box::pin($case(subject.store())))),*];
    };
}

cases! {
    a_forgotten_tick_is_claimed_anew what_stands_open_is_forgotten_with_the_mark who_runs_a_forgotten_tick_goes_on
    late_verdicts_on_a_forgotten_tick_are_harmless without_a_mark_there_is_nothing_to_forget
}

/// Whether there was a mark.
async fn reset(store: &dyn Store, name: &LockName) -> bool {
    store.reset_marks(name).await.expect("a reset is answered")
}

/// As if none had ever been claimed, older ones too, and attempts are counted anew. Tokens go on growing. Other names
/// keep their marks.
pub async fn a_forgotten_tick_is_claimed_anew(store: &dyn Store) {
    let ticks = Ticks::of(store).await;
    for mode in MODES {
        let (name, other) = (fresh_name("forgotten"), fresh_name("not forgotten"));
        let mut last = None;
        for name in [&other, &name] {
            let a = Claimant::of(name);
            last = Some(a.runs(store, mode(ticks.nth(2))).await.token);
            a.ends(store, Verdict::Done(ticks.nth(2))).await;
        }
        for number in [2, 1] {
            assert!(reset(store, &name).await, "there was a mark");
            let b = Claimant::of(&name);
            let grant = b.runs(store, mode(ticks.nth(number))).await;
            assert_eq!((grant.attempt, grant.gave_up), (1, None));
            assert!(last < Some(grant.token), "{} after {last:?}", grant.token);
            last = Some(grant.token);
            b.ends(store, Verdict::Done(ticks.nth(number))).await;
            let why = Claimant::of(&name).is_not_due(store, mode(ticks.nth(number))).await;
            assert_eq!(why, finished(ticks.nth(number)), "it counts again");
        }
        assert_eq!(Claimant::of(&other).is_not_due(store, mode(ticks.nth(2))).await, finished(ticks.nth(2)));
    }
}

/// A tick that was begun, and was to be tried again, is as new.
pub async fn what_stands_open_is_forgotten_with_the_mark(store: &dyn Store) {
    let (name, ticks) = (fresh_name("forgotten open"), Ticks::of(store).await);
    for number in [1, 2] {
        let a = Claimant::of(&name);
        a.runs(store, retried(ticks.nth(number))).await;
        a.ends(store, Verdict::Failed).await;
    }
    Claimant::of(&name).is_not_due(store, once(ticks.nth(1))).await;
    assert!(reset(store, &name).await);
    let b = Claimant::of(&name);
    assert_eq!(b.runs(store, once(ticks.nth(3))).await.attempt, 1);
    b.ends(store, Verdict::Done(ticks.nth(3))).await;
    for number in [1, 2] {
        let why = Claimant::of(&name).is_not_due(store, retried(ticks.nth(number))).await;
        assert_eq!(why, finished(ticks.nth(3)), "it stands open no more");
    }
}

/// A lease that lives lives on, under its token, and keeps others from the lock; and its end is one.
pub async fn who_runs_a_forgotten_tick_goes_on(store: &dyn Store) {
    let ticks = Ticks::of(store).await;
    for mode in MODES {
        let name = fresh_name("runs on");
        let a = Claimant::of(&name);
        let grant = a.runs(store, mode(ticks.nth(2))).await;
        assert!(reset(store, &name).await);
        assert_eq!(a.renews(store, LONG).await, Renewal::Renewed);
        for number in [1, 2, 3] {
            let told = Claimant::of(&name).is_held_off(store, mode(ticks.nth(number))).await;
            assert_eq!(holders(&told), [a.holder], "{told:?}");
        }
        a.ends(store, Verdict::Done(ticks.nth(2))).await;
        let next = Claimant::of(&name).runs(store, mode(ticks.nth(3))).await;
        assert_eq!(next.attempt, 1);
        assert!(grant.token < next.token, "{} after {}", next.token, grant.token);
    }
}

/// Whoever had it may say how it went, late, whatever has become of the lock: it closes and opens nothing of others.
pub async fn late_verdicts_on_a_forgotten_tick_are_harmless(store: &dyn Store) {
    let ticks = Ticks::of(store).await;
    for verdict in [Verdict::Failed, Verdict::NotStarted, Verdict::Done(ticks.nth(1))] {
        let name = fresh_name("late and forgotten");
        let late = Claimant::of(&name);
        late.dies_of(store, once(ticks.nth(1))).await;
        assert!(reset(store, &name).await);
        let b = Claimant::of(&name);
        assert_eq!(b.runs(store, retried(ticks.nth(2))).await.attempt, 1);
        assert_eq!(late.says(store, verdict).await, Release::NotHeld);
        assert_eq!(b.renews(store, LONG).await, Renewal::Renewed, "no lease is changed");
        b.ends(store, Verdict::Failed).await;
        assert_eq!(Claimant::of(&name).is_not_due(store, retried(ticks.nth(1))).await, finished(ticks.nth(2)));
        assert_eq!(Claimant::of(&name).runs(store, retried(ticks.nth(2))).await.attempt, 2);
    }
}

/// It says so, and does no harm.
pub async fn without_a_mark_there_is_nothing_to_forget(store: &dyn Store) {
    let (name, ticks) = (fresh_name("no mark"), Ticks::of(store).await);
    assert!(!reset(store, &name).await, "nobody ever asked for it");
    assert_eq!(inspect(store, &name).await, None);
    let a = Claimant::of(&name);
    a.takes(store, LONG).await;
    assert!(!reset(store, &name).await, "it was never claimed for a tick");
    assert_eq!(a.releases(store).await, Release::Released);
    let b = Claimant::of(&name);
    b.runs(store, once(ticks.nth(1))).await;
    b.ends(store, Verdict::Done(ticks.nth(1))).await;
    assert!(reset(store, &name).await);
    assert!(!reset(store, &name).await, "it was forgotten before");
}
