//! A fallback of two stores in memory, in paused time: what it does when one of them is away, and what it refuses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::store::{
    Arbiter, Carried, Epoch, Listener, News, Note, NoteId, Primary, Refusal, Route, Search, Switch, Switched, Tagged,
    Target, Topic,
};
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::stores::{Memory, Saved};
use leasehold::validity::Clock;
use leasehold::{
    Applied, Attempt, Claim, Due, Ended, ErrorKind, Event, Guard, HolderId, LeaseKey, LockName, Locks, LossReason,
    NotDue, Outcome, Place, Release, Released, Result, Revoke, Severity, Span, Store, Tick, Verdict, Wait,
};
use leasehold_testkit::simulation::{Link, Machine, Network, Weather, Wire};
use leasehold_testkit::{Fault, Faults, Faulty, Operation, PausedClock, Random};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

/// Two stores that everybody shares.
struct Stage {
    clock: Arc<PausedClock>,
    primary: Arc<Memory>,
    arbiter: Arc<Memory>,
}

/// One client, and what happens to its requests.
struct Client {
    locks: Locks,
    fallback: Arc<Fallback>,
    store: Arc<dyn Store>,
    primary: Faults,
    arbiter: Faults,
    heard: Arc<Mutex<Vec<Switched>>>,
    _ear: Arc<Listener>,
}

impl Stage {
    fn new() -> Self {
        let clock = Arc::new(PausedClock::start());
        let memory = || Arc::new(Memory::new(clock.clone()));
        Self { primary: memory(), arbiter: memory(), clock }
    }

    /// In a clean state: the first route has come into force.
    async fn settled() -> Self {
        let stage = Self::new();
        let first = stage.client();
        drop(first.locks.list().await.unwrap());
        sleep(11 * SECOND).await;
        stage
    }

    /// The primary was away, and the one client that has noticed is gone.
    async fn after_an_outage() -> Self {
        let stage = Self::settled().await;
        let client = stage.client();
        client.primary.cut();
        drop(client.locks.list().await);
        stage.until_it_leads_to(true).await;
        client.locks.shutdown().await;
        stage
    }

    fn client(&self) -> Client {
        self.client_with(|settings| settings)
    }

    fn client_with(&self, change: impl FnOnce(Settings) -> Settings) -> Client {
        let (primary, arbiter) = (Faulty::over(self.primary.clone()), Faulty::over(self.arbiter.clone()));
        let faults = [primary.faults(), arbiter.faults()];
        let settings = change(Settings::default().simulated(self.clock.clone()));
        let fallback = Arc::new(Fallback::over(Arc::new(primary), Arc::new(arbiter), settings).unwrap());
        let store = Arc::clone(&fallback) as Arc<dyn Store>;
        let heard = Arc::<Mutex<Vec<Switched>>>::default();
        let tell = Arc::clone(&heard);
        let ear: Arc<Listener> = Arc::new(move |news: &News<'_>| {
            if let News::Switched(switched) = news {
                tell.lock().unwrap().push((*switched).clone());
            }
        });
        store.listen(Arc::downgrade(&ear));
        let locks = Locks::builder().simulated(self.clock.clone()).over(store.clone());
        let [primary, arbiter] = faults;
        Client { locks, fallback, store, primary, arbiter, heard, _ear: ear }
    }

    /// An operator switches to the other of the two; in force in ten seconds.
    async fn switches(&self) -> Epoch {
        let reading = self.arbiter.route().await.unwrap().unwrap();
        let to = match reading.route.target {
            Target::Primary(_) => Target::Arbiter,
            Target::Arbiter => Target::Primary(self.primary.serves().await.unwrap().incarnation),
        };
        let from = reading.route.epoch;
        let switch = Switch { from, to, dwell: Duration::ZERO, patience: Duration::MAX };
        assert!(self.arbiter.switch(&switch).await.unwrap());
        self.arbiter.arm(from.later(1), 10 * SECOND).await.unwrap();
        from.later(1)
    }

    /// The tick that is due.
    async fn due(&self) -> Due {
        let millis = self.arbiter.time().await.unwrap().as_millis() as i64;
        Due { tick: Tick::from_unix_millis(millis).unwrap(), retry_failed: false, keep: 3600 * SECOND }
    }

    /// A client comes for a lock, stays for three seconds and is gone.
    async fn is_visited(&self, reaches_the_primary: bool) {
        let client = self.client();
        if !reaches_the_primary {
            client.primary.cut();
        }
        if let Ok(Outcome::Acquired(guard)) = client.locks.lock("job").try_acquire().await {
            guard.release().await.unwrap();
        }
        sleep(3 * SECOND).await;
        client.locks.shutdown().await;
    }

    async fn leads_to(&self) -> Target {
        self.arbiter.route().await.unwrap().unwrap().route.target
    }

    /// Waits until the route leads to one of the two, and is in force; for how long that took.
    async fn until_it_leads_to(&self, arbiter: bool) -> Duration {
        let began = Instant::now();
        while (self.leads_to().await == Target::Arbiter) != arbiter {
            assert!(began.elapsed() < 300 * SECOND, "it never does");
            sleep(SECOND / 10).await;
        }
        sleep(Duration::from_millis(10_500)).await;
        began.elapsed()
    }
}

impl Client {
    async fn takes(&self, name: &str) -> Guard {
        match self.locks.lock(name).try_acquire().await {
            Ok(Outcome::Acquired(guard)) => guard,
            other => panic!("{name}: {other:?}"),
        }
    }

    async fn is_contended(&self, name: &str) -> bool {
        matches!(self.locks.lock(name).try_acquire().await, Ok(Outcome::Contended(_)))
    }

    async fn is_told(&self, name: &str) -> (ErrorKind, String) {
        let error = self.locks.lock(name).try_acquire().await.unwrap_err();
        (error.kind(), error.to_string())
    }

    /// Asks once, past all that retries.
    async fn asks(&self, claim: &Claim) -> Result<Attempt> {
        self.store.try_acquire(claim).await
    }

    fn calls(&self) -> [u64; 4] {
        let asked = [Operation::TryAcquire, Operation::Renew, Operation::Release, Operation::Leave];
        asked.map(|operation| self.primary.calls(operation))
    }
}

fn claim(name: &str) -> Claim {
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), 60 * SECOND)
}

async fn holder_in(store: &Memory, name: &str) -> Option<HolderId> {
    store.inspect(&LockName::new(name).unwrap()).await.unwrap().and_then(|holding| holding.holder)
}

#[tokio::test(start_paused = true)]
async fn while_all_is_well_it_costs_no_request_more_than_the_primary() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let before = client.calls();
    let guard = client.takes("job").await;
    sleep(45 * SECOND).await; // Renewed at 20 s and 40 s.
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    assert!(!client.is_contended("job").await);
    let after = client.calls();
    let asked: Vec<_> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    assert_eq!(asked, [2, 2, 1, 0]);
    for operation in
        [Operation::TryAcquire, Operation::Renew, Operation::Release, Operation::Leave, Operation::ClaimTick]
    {
        assert_eq!(client.arbiter.calls(operation), 0, "{operation:?} of the arbiter");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_survives_a_failover_and_the_failback_without_a_gap() {
    let stage = Stage::settled().await;
    let (client, other) = (stage.client(), stage.client());
    let guard = client.takes("job").await;
    let token = guard.token();
    let watched = async {
        loop {
            assert!(guard.is_valid() && guard.loss().is_none(), "{:?}", guard.loss());
            sleep(SECOND / 10).await;
        }
    };
    let story = async {
        for client in [&client, &other] {
            client.primary.cut();
        }
        let failover = stage.until_it_leads_to(true).await;
        assert!(failover < 25 * SECOND, "{failover:?}");
        assert!(other.is_contended("job").await, "it went along");
        drop(other.takes("another").await);
        for client in [&client, &other] {
            client.primary.heal();
        }
        let failback = stage.until_it_leads_to(false).await;
        assert!(failback > 60 * SECOND && failback < 150 * SECOND, "{failback:?}");
        assert!(other.is_contended("job").await, "it went along again");
    };
    tokio::select! {
        () = watched => unreachable!(),
        () = story => {}
    }
    assert_eq!(guard.token(), token);
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    assert!(other.takes("job").await.token() > token);
    let heard = client.heard.lock().unwrap();
    assert_eq!(heard.iter().map(|switched| switched.route.epoch.number()).collect::<Vec<_>>(), [2, 3]);
}

/// Nor does it matter that the store that is left is asked first, and silent. Thirty-six seconds are hardly more than is needed.
#[tokio::test(start_paused = true)]
async fn a_hold_survives_a_failover_from_a_primary_that_is_silent() {
    let stage = Stage::settled().await;
    for phase in [0, 4, 8, 11] {
        let client = stage.client();
        let lock = client.locks.lock("job").ttl(36 * SECOND);
        let guard = lock.wait(Wait::For(120 * SECOND)).acquire().await.unwrap().guard().expect("it is free");
        sleep(SECOND * phase).await;
        let all = [Operation::TryAcquire, Operation::Renew, Operation::Serves, Operation::Release, Operation::Carry];
        all.into_iter().for_each(|operation| client.primary.always(operation, Fault::HangBefore));
        let watched = async {
            loop {
                assert!(guard.loss().is_none(), "{phase}: {:?}", guard.loss());
                sleep(SECOND / 10).await;
            }
        };
        tokio::select! {
            () = watched => unreachable!(),
            took = stage.until_it_leads_to(true) => assert!(took < 25 * SECOND, "{took:?}"),
        }
        client.primary.heal();
        assert_eq!(guard.release().await.unwrap(), Released::InTime);
        while stage.leads_to().await == Target::Arbiter {
            sleep(SECOND).await;
        }
        sleep(11 * SECOND).await;
    }
}

/// N02: the primary comes back while a lock of the arbiter is held: it is contended there, too.
#[tokio::test(start_paused = true)]
async fn n02_what_is_held_in_the_arbiter_is_held_after_the_failback() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    drop(a.locks.inspect("job").await.unwrap());
    a.primary.cut();
    b.primary.cut();
    let _ = a.locks.lock("nothing").try_acquire().await;
    stage.until_it_leads_to(true).await;
    let guard = a.takes("job").await;
    a.primary.heal();
    b.primary.heal();
    let _ = b.locks.lock("nothing").try_acquire().await;
    stage.until_it_leads_to(false).await;
    assert!(guard.is_valid());
    assert!(b.is_contended("job").await);
    guard.release().await.unwrap();
    b.takes("job").await.release().await.unwrap();
}

/// N03: that somebody has it is no outage, nor is an error of the primary that answers.
#[tokio::test(start_paused = true)]
async fn n03_contention_and_refusals_are_no_outage() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let guard = a.takes("job").await;
    b.primary.always(Operation::Serves, Fault::Fail(ErrorKind::Refused));
    for _ in 0..60 {
        assert!(b.is_contended("job").await);
        sleep(SECOND).await;
    }
    assert!(matches!(stage.leads_to().await, Target::Primary(_)) && guard.is_valid());
}

/// N04: what is not known to be free is not granted, not in the arbiter either, nor locally.
#[tokio::test(start_paused = true)]
async fn n04_without_a_route_nothing_is_granted() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let guard = a.takes("job").await;
    b.primary.cut();
    assert_eq!(b.is_told("job").await.0, ErrorKind::Unavailable);
    assert_eq!(stage.arbiter.list().await.unwrap(), []);
    // Without the arbiter the primary alone is not enough.
    b.primary.heal();
    b.arbiter.cut();
    sleep(15 * SECOND).await;
    let (kind, message) = b.is_told("another").await;
    assert!(kind == ErrorKind::Unavailable && message.contains("the arbiter has not said"), "{message}");
    assert!(guard.is_valid(), "of the other client, which reaches both");
}

/// N05: begun while the primary is away, it works in the arbiter, and goes over to the primary by itself.
#[tokio::test(start_paused = true)]
async fn n05_it_can_start_without_the_primary() {
    let stage = Stage::settled().await;
    let client = stage.client();
    client.primary.cut();
    let lock = client.locks.lock("job").wait(Wait::For(30 * SECOND));
    let guard = lock.acquire().await.unwrap().guard().expect("it is free");
    assert_eq!(stage.leads_to().await, Target::Arbiter);
    sleep(60 * SECOND).await;
    client.primary.heal();
    stage.until_it_leads_to(false).await;
    assert!(guard.is_valid());
    assert_eq!(stage.primary.list().await.unwrap().len(), 1);
}

/// N06: who alone can't reach the primary has everybody switch, and everybody comes back together.
#[tokio::test(start_paused = true)]
async fn n06_a_blip_of_one_node_splits_it_off_from_nobody() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let guard = b.takes("job").await;
    drop(a.takes("another").await);
    a.primary.cut();
    stage.until_it_leads_to(true).await;
    for client in [&a, &b] {
        assert!(client.is_contended("job").await, "both look where it is");
    }
    // As long as one complains that it can't reach it, nobody goes back, though the other can.
    sleep(300 * SECOND).await;
    assert_eq!(stage.leads_to().await, Target::Arbiter);
    a.primary.heal();
    stage.until_it_leads_to(false).await;
    assert!(guard.is_valid() && a.is_contended("job").await);
}

/// Who waits for nobody waits for the route all the same, and is told of a holder at once. What an answer that was lost may have left in the
/// primary is neither another's hold to it nor, of a tick, a run.
#[tokio::test(start_paused = true)]
async fn who_waits_for_nobody_has_the_patience_for_a_switch() {
    for is_silent in [false, true] {
        let stage = Stage::settled().await;
        let (client, other) = (stage.client(), stage.client());
        let due = stage.due().await;
        client.primary.next(Operation::TryAcquire, Fault::LoseReply);
        let fault = if is_silent { Fault::HangBefore } else { Fault::Fail(ErrorKind::Unavailable) };
        let all = [Operation::TryAcquire, Operation::Serves, Operation::Release, Operation::Renew, Operation::Leave];
        all.into_iter().for_each(|operation| client.primary.always(operation, fault));
        let lock = client.locks.lock("job").patience(Settings::default().moves_within());
        let guard = lock.clone().tick(due.tick).try_acquire().await.unwrap().guard().expect("it is due and free");
        assert_eq!(holder_in(&stage.primary, "job").await, Some(guard.holder()), "what was left there");
        assert_eq!((holder_in(&stage.arbiter, "job").await, guard.attempt()), (Some(guard.holder()), 1));
        let began = Instant::now();
        let refused = other.locks.lock("job").patience(60 * SECOND).try_acquire().await.unwrap();
        assert!(matches!(refused, Outcome::Contended(_)) && began.elapsed() < SECOND, "{refused:?}");
        guard.complete().await.unwrap();
        let again = lock.tick(due.tick).try_acquire().await.unwrap();
        assert!(matches!(again, Outcome::NotDue(_)), "{again:?}");
    }
}

/// Its patience has an end, and what it may have left is taken back then.
#[tokio::test(start_paused = true)]
async fn who_waits_for_nobody_waits_no_longer_than_it_said() {
    let stage = Stage::settled().await;
    let client = stage.client();
    client.primary.next(Operation::TryAcquire, Fault::LoseReply);
    client.primary.always(Operation::TryAcquire, Fault::Fail(ErrorKind::Unavailable));
    let began = Instant::now();
    let error = client.locks.lock("job").patience(8 * SECOND).try_acquire().await.unwrap_err();
    assert!(began.elapsed() >= 8 * SECOND && began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
    assert_eq!(error.applied(), Applied::Maybe);
    sleep(SECOND).await;
    assert_eq!(holder_in(&stage.primary, "job").await, None);
}

/// Each client of a store is told, for as long as it is there.
#[tokio::test(start_paused = true)]
async fn a_switch_is_an_event() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let told = Arc::<Mutex<Vec<String>>>::default();
    let observed = |name: &'static str| {
        let told = told.clone();
        let observer = move |event: &Event<'_>| {
            told.lock().unwrap().extend(match event {
                Event::Routed { to, epoch } => Some(format!("{name}: {to}, {epoch}")),
                Event::Switched { from, to, epoch, within } => {
                    let within = within.is_some_and(|within| within > 6 * SECOND && within < 11 * SECOND);
                    Some(format!("{name}: {from} to {to}, {epoch}, {within}"))
                }
                _ => None,
            });
        };
        Locks::builder().observer(observer).simulated(stage.clock.clone()).over(client.store.clone())
    };
    let stays = observed("stays");
    assert!(told.lock().unwrap().is_empty(), "nothing is known of the route yet");
    drop(stays.list().await.unwrap());
    let goes = observed("goes");
    assert_eq!(std::mem::take(&mut *told.lock().unwrap()), ["stays: the primary, 1", "goes: the primary, 1"]);
    stage.switches().await;
    sleep(12 * SECOND).await;
    drop(goes);
    stage.switches().await;
    sleep(12 * SECOND).await;
    let first = "the primary to the arbiter, 2, true";
    let told = told.lock().unwrap();
    assert_eq!(
        *told,
        [format!("stays: {first}"), format!("goes: {first}"), "stays: the arbiter to the primary, 3, true".into()]
    );
}

/// A primary that nobody asks for locks knows of the route, and so of the loss of the arbiter's data.
#[tokio::test(start_paused = true)]
async fn an_idle_primary_hears_of_the_route() {
    let stage = Stage::settled().await;
    let client = stage.client();
    drop(client.locks.list().await.unwrap());
    stage.primary.start_from(&Saved::default());
    sleep(30 * SECOND).await;
    let seen = async || stage.primary.serves().await.unwrap().watermark;
    assert_eq!(seen().await, Epoch::new(2), "the route that follows it");
    let coming = stage.switches().await;
    sleep(8 * SECOND).await;
    assert_eq!(seen().await, Epoch::new(2), "it is only coming");
    sleep(8 * SECOND).await;
    assert_eq!(seen().await, coming);
    stage.arbiter.start_from(&Saved::default());
    let (kind, message) = stage.client().is_told("job").await;
    assert!(kind == ErrorKind::Misconfigured && message.contains("number 3 has been seen"), "{message}");
}

/// A primary that was restarted empty is another one: the route follows it, holds go along, tokens grow.
#[tokio::test(start_paused = true)]
async fn h5_a_restarted_primary_is_another_one() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let (kept, free) = (a.takes("kept").await, a.takes("free").await);
    let token = free.token();
    free.release().await.unwrap();
    stage.primary.start_from(&Saved::default());
    let (kind, message) = b.is_told("kept").await;
    assert!(kind == ErrorKind::Unavailable && message.contains("restarted or replaced"), "{message}");
    sleep(30 * SECOND).await;
    let route = stage.arbiter.route().await.unwrap().unwrap().route;
    assert_eq!(route.target, Target::Primary(stage.primary.serves().await.unwrap().incarnation));
    assert_eq!(route.epoch, Epoch::FIRST.later(1));
    assert!(kept.is_valid() && b.is_contended("kept").await);
    assert!(b.takes("free").await.token() > token);
}

/// Section 7: an arbiter that is away for less than half of the route lease is not noticed; for longer, holders stop in time.
#[tokio::test(start_paused = true)]
async fn an_arbiter_that_is_away_for_long_ends_all_holds_in_time() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let guard = client.takes("job").await;
    client.arbiter.cut();
    sleep(3 * SECOND).await;
    client.arbiter.heal();
    sleep(10 * SECOND).await;
    assert!(guard.loss().is_none());
    client.arbiter.cut();
    let cut = Instant::now();
    let reason = guard.lost().await;
    assert!(guard.is_valid(), "it is told before the end: {reason}");
    let left = guard.remaining();
    assert!(left > SECOND * 2 && cut.elapsed() < 10 * SECOND, "{left:?} left after {:?}", cut.elapsed());
    sleep(left + SECOND / 10).await;
    assert!(!guard.is_valid());
    client.arbiter.heal();
    sleep(20 * SECOND).await;
    assert!(!guard.is_valid(), "what was lost stays so");
    assert!(matches!(reason, LossReason::Expired | LossReason::Unreachable(_)), "{reason}");
}

/// E01 for a master: who was granted something that the promoted copy doesn't know keeps it, and nobody else gets it.
#[tokio::test(start_paused = true)]
async fn e01_what_a_promoted_copy_does_not_know_is_not_granted_again() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let copy = stage.primary.save();
    let guard = a.takes("job").await;
    stage.primary.start_from(&copy);
    for _ in 0..400 {
        let got = b.locks.lock("job").try_acquire().await.is_ok_and(|outcome| outcome.guard().is_some());
        assert!(!got && guard.is_valid());
        sleep(SECOND / 10).await;
    }
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(b.takes("job").await.token() > token);
}

/// x04, x06: a restored arbiter is not believed until an operator has set a later route. Ticks that may have run are over.
#[tokio::test(start_paused = true)]
async fn r12_a_restored_arbiter_is_believed_after_its_repair_only() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let backup = stage.arbiter.save();
    client.primary.cut();
    let _ = client.locks.lock("job").try_acquire().await;
    stage.until_it_leads_to(true).await;
    let millis = client.locks.time().await.unwrap().as_millis() as i64;
    let tick = Tick::from_unix_millis(millis).unwrap();
    let guard = client.locks.lock("nightly").tick(tick).try_acquire().await.unwrap().guard().expect("it is due");
    guard.complete().await.unwrap();
    let reading = stage.arbiter.route().await.unwrap().unwrap();
    let (seen, terms) = (reading.route.epoch, reading.terms);
    stage.arbiter.start_from(&backup);
    sleep(15 * SECOND).await;
    let (kind, message) = client.is_told("job").await;
    assert!(kind == ErrorKind::Misconfigured && message.contains("has gone back from route 2 to 1"), "{message}");
    let fresh = stage.client();
    assert_eq!(stage.arbiter.repair(seen, &terms).await.unwrap(), seen.later(2));
    client.primary.heal();
    sleep(15 * SECOND).await;
    for client in [&client, &fresh] {
        client.takes("job").await.release().await.unwrap();
        let again = client.locks.lock("nightly").tick(tick).try_acquire().await.unwrap();
        assert!(matches!(again, Outcome::NotDue(_)), "{again:?}");
    }
}

/// The same where not even a backup is left: the operator's step writes the route anew.
#[tokio::test(start_paused = true)]
async fn r12_an_arbiter_that_lost_all_is_repaired_too() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let guard = client.takes("job").await;
    let token = guard.token();
    guard.release().await.unwrap();
    let terms = stage.arbiter.route().await.unwrap().unwrap().terms;
    stage.arbiter.start_from(&Saved::default());
    sleep(15 * SECOND).await;
    assert_eq!(client.is_told("job").await.0, ErrorKind::Misconfigured);
    let seen = stage.primary.serves().await.unwrap().watermark;
    assert_eq!(stage.arbiter.repair(seen, &terms).await.unwrap(), seen.later(2));
    sleep(15 * SECOND).await;
    let guard = client.takes("job").await;
    assert!(guard.token() > token);
    assert_eq!(holder_in(&stage.arbiter, "job").await, Some(guard.holder()));
    stage.until_it_leads_to(false).await;
    let other = stage.client();
    assert!(guard.is_valid() && other.is_contended("job").await);
    guard.release().await.unwrap();
    assert!(other.takes("job").await.token().number() >> 46 == seen.number() + 3);
}

/// Marks are the arbiter's, whichever store is in use: a switch brings none back, there or on the way home.
#[tokio::test(start_paused = true)]
async fn a_forgotten_mark_is_forgotten_under_either_route() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let (due, name) = (stage.due().await, LockName::new("job").unwrap());
    let runs = async || {
        let claim = Claim { due: Some(due), ..claim("job") };
        assert!(matches!(client.asks(&claim).await.unwrap(), Attempt::Granted(_)));
        let lease = LeaseKey { name: name.clone(), holder: claim.holder };
        let how = Ended { verdict: Some(Verdict::Done(due.tick)), ..Ended::default() };
        assert_eq!(client.store.release(&lease, how).await.unwrap(), Release::Released);
    };
    for round in 0..3 {
        runs().await;
        let again = client.asks(&Claim { due: Some(due), ..claim("job") }).await.unwrap();
        assert!(matches!(again, Attempt::NotDue(_)), "{round}: {again:?}");
        assert!(client.store.reset_marks(&name).await.unwrap());
        assert!(!client.store.reset_marks(&name).await.unwrap());
        if round == 1 {
            runs().await;
            assert!(client.store.reset_marks(&name).await.unwrap());
        }
        stage.switches().await;
        sleep(15 * SECOND).await;
    }
    client.arbiter.cut();
    let error = client.store.reset_marks(&name).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

/// They are where they were.
#[tokio::test(start_paused = true)]
async fn notes_outlive_a_failover() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let topic = Topic::of_all("runs");
    let note = |id: &str| {
        let id = NoteId::new(id).unwrap();
        Note { topic: topic.clone(), id, text: String::new(), keep: 3600 * SECOND, most: 9 }
    };
    client.locks.notes().unwrap().note(&[note("before")]).await.unwrap();
    let _held = client.takes("job").await;
    client.primary.cut();
    stage.until_it_leads_to(true).await;
    client.locks.notes().unwrap().note(&[note("after")]).await.unwrap();
    let told = stage.client().locks.notes().unwrap().notes(&Search::newest(topic.clone(), 9)).await.unwrap();
    let ids: Vec<_> = told.iter().map(|noted| noted.id.as_str()).collect();
    assert_eq!(ids, ["after", "before"]);
}

/// That nothing can be reached at all is told from all else, whatever is known of the route, and whether it fails or is silent.
#[tokio::test(start_paused = true)]
async fn that_both_are_away_is_told() {
    let away = |told: (ErrorKind, String)| {
        let (kind, message) = told;
        assert!(kind == ErrorKind::Unavailable && message.starts_with("neither store can be reached"), "{message}");
        assert!(message.contains("the primary (") && message.contains("the arbiter ("), "{message}");
    };
    for is_silent in [false, true] {
        let stage = Stage::settled().await;
        let (knows, fresh) = (stage.client(), stage.client());
        knows.takes("job").await.release().await.unwrap();
        let fault = if is_silent { Fault::HangBefore } else { Fault::Fail(ErrorKind::Unavailable) };
        let all = [Operation::TryAcquire, Operation::Serves, Operation::Route, Operation::Leave];
        for faults in [&knows, &fresh].into_iter().flat_map(|client| [&client.primary, &client.arbiter]) {
            all.into_iter().for_each(|operation| faults.always(operation, fault));
        }
        away(fresh.is_told("job").await);
        sleep(4 * SECOND).await;
        if !is_silent {
            away(knows.is_told("job").await);
        }
        sleep(10 * SECOND).await;
        away(knows.is_told("job").await);
        // The arbiter alone is told so.
        fresh.primary.heal();
        sleep(5 * SECOND).await;
        let (_, message) = fresh.is_told("job").await;
        assert!(message.starts_with("the arbiter has not said"), "{message}");
    }
}

/// A1: the route lease and the largest TTL are the same for all.
#[tokio::test(start_paused = true)]
async fn a1_who_counts_otherwise_is_refused() {
    let stage = Stage::settled().await;
    for change in [(|settings: Settings| settings.route_lease(20 * SECOND)) as fn(Settings) -> Settings, |settings| {
        settings.max_ttl(120 * SECOND)
    }] {
        let (kind, message) = stage.client_with(change).is_told("job").await;
        assert!(kind == ErrorKind::Misconfigured && message.contains("set up otherwise"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_it_has_no_place_for_is_refused() {
    let stage = Stage::settled().await;
    let locks = &stage.client().locks;
    let several = locks.lock("job").permits(2).try_acquire().await.unwrap_err();
    assert!(several.kind() == ErrorKind::Misconfigured && several.to_string().contains("one holder only"), "{several}");
    let grace = locks.lock("job").stop_grace(4 * SECOND).checked().map(drop).unwrap_err().to_string();
    assert!(grace.contains("with a fallback store it may be at most 3s"), "{grace}");
    let memory = || Arc::new(Memory::default()) as Arc<dyn Store>;
    let fallback = || Arc::new(Fallback::over(memory(), memory(), Settings::default()).unwrap()) as Arc<dyn Store>;
    let primary = Fallback::over(fallback(), memory(), Settings::default()).unwrap_err();
    assert!(primary.kind() == ErrorKind::Misconfigured && primary.to_string().contains("can't be the primary"));
    let arbiter = Fallback::over(memory(), fallback(), Settings::default()).unwrap_err();
    assert!(arbiter.kind() == ErrorKind::Misconfigured && arbiter.to_string().contains("can't be the arbiter"));
    assert!(Fallback::over(memory(), memory(), Settings::default().route_lease(SECOND / 2)).is_err());
}

#[tokio::test(start_paused = true)]
async fn the_doctor_says_where_the_route_leads() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let told = async |subject: &str, severity: Severity, says: &str| {
        let findings = client.locks.diagnose().await.unwrap();
        let finding = findings.into_iter().find(|finding| finding.subject == subject).unwrap();
        assert!(finding.severity == severity && finding.message.contains(says), "{finding:?}");
    };
    told("route", Severity::Fine, "number 1 leads to the primary").await;
    told("primary", Severity::Fine, "it serves what the route leads to").await;
    stage.switches().await;
    told("route", Severity::Warning, "number 2 is about to lead to the arbiter").await;
    sleep(14 * SECOND).await;
    told("primary", Severity::Warning, "is not in use. It has heard of route 2").await;
    stage.arbiter.complain().await.unwrap();
    sleep(SECOND).await;
    told("primary", Severity::Warning, "a client could not reach it ").await;
    stage.switches().await;
    sleep(11 * SECOND).await;
    stage.primary.start_from(&Saved::default());
    told("primary", Severity::Warning, "restarted or replaced").await;
    let terms = stage.arbiter.route().await.unwrap().unwrap().terms;
    stage.arbiter.repair(Epoch::new(120_000), &terms).await.unwrap();
    sleep(30 * SECOND).await;
    told("route", Severity::Warning, "the last is number 131071").await;
    client.arbiter.cut();
    told("route", Severity::Problem, "").await;
}

/// Who waits for a tick that runs elsewhere asks again, so nothing may be under way that takes a later lease of it away.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_running_tick_leaves_no_queue_by_leaving() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let due = stage.due().await;
    let running = Claim { due: Some(due), ..claim("job") };
    assert!(matches!(a.asks(&running).await.unwrap(), Attempt::Granted(_)));
    let waiting = Claim { due: Some(due), queue: Some(Place::default()), ..claim("job") };
    for _ in 0..3 {
        let Attempt::Held(holding) = b.asks(&waiting).await.unwrap() else { panic!("it runs elsewhere") };
        assert!(holding.ticket.is_none() && holding.waiting == 0, "{holding:?}");
    }
    assert_eq!(b.primary.calls(Operation::Leave) + b.primary.calls(Operation::Release), 0);
    // A later tick is waited for in the queue.
    sleep(SECOND).await;
    let later = Claim { due: Some(stage.due().await), ..waiting };
    let Attempt::Held(holding) = b.asks(&later).await.unwrap() else { panic!("the lock is held") };
    assert!(holding.ticket.is_some());
}

/// Somebody is granted the lock, and begins the tick, between the two looks of a claim for it.
#[tokio::test(start_paused = true)]
async fn a_tick_that_was_begun_between_two_looks_is_running() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let due = stage.due().await;
    let mine = Claim { due: Some(due), ..claim("job") };
    let before = a.takes("job").await;
    b.arbiter.next(Operation::ClaimTick, Fault::DelayRequest(SECOND));
    let (answer, running) = tokio::join!(b.asks(&mine), async {
        sleep(SECOND / 2).await;
        before.release().await.unwrap();
        a.locks.lock("job").tick(due.tick).try_acquire().await.unwrap().guard().expect("it is due")
    });
    let Ok(Attempt::Held(holding)) = answer else { panic!("it runs elsewhere: {answer:?}") };
    assert_eq!(holding.holder, Some(running.holder()));
    // Whoever holds the lock when its holder is gone has not begun it.
    stage.primary.revoke(running.name(), None, Revoke::Now).await.unwrap();
    let after = a.takes("job").await;
    let answer = b.asks(&mine).await;
    assert!(matches!(answer, Ok(Attempt::NotDue(NotDue::Claimed { unfinished: true, .. }))), "{answer:?}");
    drop((running, after));
}

/// What it claimed of a tick is its own, though the lease under which it did is over; once it was told so, it may have begun.
#[tokio::test(start_paused = true)]
async fn who_lost_its_lease_on_the_way_may_have_its_own_tick() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let mine = Claim { due: Some(stage.due().await), ..claim("job") };
    client.arbiter.next(Operation::ClaimTick, Fault::LoseReply);
    assert_eq!(client.asks(&mine).await.unwrap_err().applied(), Applied::Maybe);
    client.arbiter.always(Operation::Carry, Fault::Fail(ErrorKind::Refused));
    stage.switches().await;
    sleep(11 * SECOND).await;
    let Attempt::Granted(grant) = client.asks(&mine).await.unwrap() else { panic!("it is its own") };
    assert_eq!(grant.attempt, 1);
    client.primary.always(Operation::Carry, Fault::Fail(ErrorKind::Refused));
    stage.switches().await;
    sleep(11 * SECOND).await;
    assert!(matches!(client.asks(&mine).await.unwrap(), Attempt::NotDue(_)));
}

/// The answer to a carry comes when the holder, who believed in it no longer, has been granted the same lease again.
#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_carry_takes_nothing_from_who_asked_again() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let mine = claim("job");
    assert!(matches!(client.asks(&mine).await.unwrap(), Attempt::Granted(_)));
    client.arbiter.always(Operation::Carry, Fault::Fail(ErrorKind::Refused));
    let began = Instant::now();
    stage.switches().await;
    sleep((Duration::from_millis(9_600)).saturating_sub(began.elapsed())).await;
    client.arbiter.always(Operation::Carry, Fault::DelayReply(2 * SECOND));
    sleep(Duration::from_millis(900)).await;
    assert_eq!(holder_in(&stage.arbiter, "job").await, Some(mine.holder), "it was carried");
    let Attempt::Granted(grant) = client.asks(&mine).await.unwrap() else { panic!("it has it") };
    sleep(5 * SECOND).await;
    assert!(grant.bound.unwrap().until() > stage.clock.now());
    assert_eq!(holder_in(&stage.arbiter, "job").await, Some(mine.holder));
}

/// Whose tick is refused may ask again under the same name: nothing is released, and nothing is certain.
#[tokio::test(start_paused = true)]
async fn a_refused_tick_releases_nothing() {
    let stage = Stage::settled().await;
    let client = stage.client();
    client.takes("another").await.release().await.unwrap();
    let mine = Claim { due: Some(stage.due().await), ..claim("job") };
    let terms = stage.arbiter.route().await.unwrap().unwrap().terms;
    stage.arbiter.repair(Epoch::FIRST, &terms).await.unwrap();
    let released = client.primary.calls(Operation::Release);
    let error = client.asks(&mine).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.applied() == Applied::Maybe, "{error:?}");
    sleep(SECOND).await;
    assert_eq!(client.primary.calls(Operation::Release), released);
    assert_eq!(holder_in(&stage.primary, "job").await, Some(mine.holder));
}

/// A tick that turns out to be over is the end of the acquisition: nothing of it stays, wherever it asked.
#[tokio::test(start_paused = true)]
async fn a_tick_that_is_over_leaves_nothing_in_either_store() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    stage.switches().await;
    sleep(11 * SECOND).await;
    let due = stage.due().await;
    let mine = Claim { due: Some(due), ..claim("job") };
    a.arbiter.next(Operation::TryAcquire, Fault::LoseReply);
    assert_eq!(a.asks(&mine).await.unwrap_err().applied(), Applied::Maybe);
    assert_eq!(holder_in(&stage.arbiter, "job").await, Some(mine.holder));
    stage.switches().await;
    sleep(11 * SECOND).await;
    let done = b.locks.lock("job").tick(due.tick).try_acquire().await.unwrap().guard().expect("it is due");
    done.complete().await.unwrap();
    assert!(matches!(a.asks(&mine).await.unwrap(), Attempt::NotDue(_)));
    sleep(SECOND).await;
    assert_eq!(holder_in(&stage.primary, "job").await, None);
    assert_eq!(holder_in(&stage.arbiter, "job").await, None);
}

/// What is sent for the end of a holder may come late, and must not meet a later lease of it.
#[tokio::test(start_paused = true)]
async fn whose_tick_is_over_asks_for_nothing_while_its_end_is_under_way() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let due = stage.due().await;
    let done = b.locks.lock("job").tick(due.tick).try_acquire().await.unwrap().guard().expect("it is due");
    done.complete().await.unwrap();
    let mine = Claim { due: Some(due), ..claim("job") };
    a.primary.next(Operation::Leave, Fault::HangBefore);
    assert!(tokio::time::timeout(SECOND, a.asks(&mine)).await.is_err(), "it is dropped half-way");
    let asked = a.primary.calls(Operation::TryAcquire);
    assert!(matches!(a.asks(&mine).await.unwrap(), Attempt::NotDue(_)));
    assert_eq!(a.primary.calls(Operation::TryAcquire), asked);
}

/// What was ended in one store would come back from the other.
#[tokio::test(start_paused = true)]
async fn nothing_is_revoked_while_the_route_changes() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let guard = client.takes("job").await;
    stage.switches().await;
    let name = LockName::new("job").unwrap();
    for how in [Revoke::Gently, Revoke::Now] {
        let error = client.store.revoke(&name, None, how).await.unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("until that is over, in "), "{error}");
    }
    sleep(11 * SECOND).await;
    assert!(guard.is_valid());
    assert!(client.store.revoke(&name, None, Revoke::Now).await.unwrap().is_some());
    sleep(30 * SECOND).await;
    assert!(!guard.is_valid() && holder_in(&stage.arbiter, "job").await.is_none());
}

/// A carry that comes again, late, does not undo what an operator did.
#[tokio::test(start_paused = true)]
async fn a_carry_keeps_a_revocation() {
    let stage = Stage::settled().await;
    let carried = |name: &str| Carried {
        key: LeaseKey { name: LockName::new(name).unwrap(), holder: HolderId::fresh() },
        label: "test".into(),
        token: Epoch::FIRST.token(1).unwrap(),
        ttl: 60 * SECOND,
    };
    let to = stage.arbiter.route().await.unwrap().unwrap().route;
    let (lease, name) = (carried("job"), LockName::new("job").unwrap());
    stage.primary.carry(&lease, &to).await.unwrap().unwrap();
    stage.primary.revoke(&name, None, Revoke::Gently).await.unwrap();
    sleep(10 * SECOND).await;
    assert_eq!(stage.primary.carry(&lease, &to).await.unwrap(), Err(Refusal::Revoked));
    let held = stage.primary.inspect(&name).await.unwrap().unwrap();
    assert!(held.revoked && held.remaining <= 50 * SECOND, "{held:?}");
    sleep(60 * SECOND).await;
    stage.primary.carry(&lease, &to).await.unwrap().expect("what is over is no longer revoked");
}

/// The old holder has not heard of it yet when the route changes: nevertheless its successor goes along, and not it.
#[tokio::test(start_paused = true)]
async fn who_was_replaced_does_not_go_along_in_front_of_its_successor() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let old = a.takes("job").await;
    assert!(b.locks.revoke("job", Revoke::Now).await.unwrap().is_some());
    let new = b.takes("job").await;
    stage.switches().await;
    assert_eq!(old.lost().await, LossReason::Gone);
    sleep(11 * SECOND).await;
    assert!(!old.is_valid() && new.is_valid() && new.loss().is_none());
    assert_eq!(holder_in(&stage.arbiter, "job").await, Some(new.holder()));
}

/// A switch undoes no revocation, whether its holder has heard of it or not.
#[tokio::test(start_paused = true)]
async fn what_was_revoked_does_not_go_along() {
    for has_heard in [false, true] {
        let stage = Stage::settled().await;
        let (a, b) = (stage.client(), stage.client());
        let lock = a.locks.lock("job").ttl(24 * SECOND);
        let guard = lock.try_acquire().await.unwrap().guard().expect("it is free");
        assert!(b.locks.revoke("job", Revoke::Gently).await.unwrap().is_some());
        if has_heard {
            assert_eq!(guard.lost().await, LossReason::Revoked);
        }
        let carried = a.arbiter.calls(Operation::Carry);
        stage.switches().await;
        let switched = Instant::now();
        assert_eq!(guard.lost().await, LossReason::Revoked);
        assert!(guard.is_valid() && switched.elapsed() < 5 * SECOND, "it is told at once, and has time to stop");
        sleep((10 * SECOND).saturating_sub(switched.elapsed())).await;
        assert!(!guard.is_valid());
        assert_eq!(a.arbiter.calls(Operation::Carry), carried);
        sleep(SECOND).await;
        b.takes("job").await.release().await.unwrap();
    }
}

/// It looks at the route, and is executed when its holder has gone along.
#[tokio::test(start_paused = true)]
async fn a_revocation_that_a_switch_overtakes_is_none() {
    let stage = Stage::settled().await;
    let (a, b) = (stage.client(), stage.client());
    let guard = a.takes("job").await;
    b.primary.next(Operation::Revoke, Fault::DelayRequest(4 * SECOND));
    let (revoked, _) = tokio::join!(b.store.revoke(guard.name(), None, Revoke::Now), async {
        sleep(SECOND).await;
        stage.switches().await
    });
    let error = revoked.unwrap_err();
    assert!(error.is_passing() && error.applied() == Applied::Maybe, "{error:?}");
    assert!(error.to_string().contains("revoke it again"), "{error}");
    sleep(11 * SECOND).await;
    assert!(guard.is_valid() && b.locks.revoke("job", Revoke::Now).await.unwrap().is_some());
}

/// The two looks at the route take no longer where that is read seldom.
#[tokio::test(start_paused = true)]
async fn a_revocation_is_answered_soon_however_long_route_leases_are() {
    let stage = Stage::new();
    let client = stage.client_with(|settings| settings.route_lease(60 * SECOND));
    drop(client.locks.list().await.unwrap());
    sleep(65 * SECOND).await;
    let guard = client.takes("job").await;
    let began = Instant::now();
    assert!(client.locks.revoke("job", Revoke::Now).await.unwrap().is_some());
    assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    drop(guard);
}

/// Its first carry arrived, and was revoked there before the second.
#[tokio::test(start_paused = true)]
async fn who_was_revoked_where_it_goes_is_told() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let lock = client.locks.lock("job").ttl(24 * SECOND);
    let guard = lock.try_acquire().await.unwrap().guard().expect("it is free");
    sleep(5 * SECOND).await; // Renewed at 8 s.
    client.arbiter.always(Operation::Carry, Fault::LoseReply);
    stage.switches().await;
    while holder_in(&stage.arbiter, "job").await.is_none() {
        sleep(SECOND / 20).await;
    }
    stage.arbiter.revoke(guard.name(), None, Revoke::Gently).await.unwrap();
    client.arbiter.heal();
    sleep(SECOND).await;
    let carried = client.arbiter.calls(Operation::Carry);
    assert_eq!(guard.lost().await, LossReason::Revoked);
    assert!(guard.is_valid(), "it has until the route is over");
    sleep(SECOND).await;
    assert_eq!(client.arbiter.calls(Operation::Carry), carried);
}

/// Whose job makes no progress is not renewed, and going along is no renewal.
#[tokio::test(start_paused = true)]
async fn a_carry_gives_nobody_more_than_it_was_to_have() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let began = Instant::now();
    let lock = client.locks.lock("job").progress_within(5 * SECOND);
    let guard = lock.try_acquire().await.unwrap().guard().expect("it is free");
    sleep(25 * SECOND).await;
    stage.switches().await;
    sleep(8 * SECOND).await;
    for store in [&stage.primary, &stage.arbiter] {
        let held = store.inspect(guard.name()).await.unwrap().expect("it went along");
        assert!(held.holder.is_some() && began.elapsed() + held.remaining <= 60 * SECOND, "{held:?}");
    }
    assert_eq!(guard.lost().await, LossReason::NoProgress);
}

/// Whoever asks and then stands still keeps nobody from the route.
#[tokio::test(start_paused = true)]
async fn a_caller_that_stands_still_ends_no_hold() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let guard = client.takes("job").await;
    client.arbiter.next(Operation::Route, Fault::DelayReply(SECOND / 10));
    let mut stands_still = client.store.diagnose();
    assert!(futures_util::future::poll_immediate(&mut stands_still).await.is_none());
    sleep(60 * SECOND).await;
    assert!(guard.is_valid() && guard.loss().is_none());
    assert!(stands_still.await.is_ok());
}

/// A panic in what others wrote ends neither the background nor a hold.
#[tokio::test(start_paused = true)]
async fn a_panic_ends_no_hold() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let panics: Arc<Listener> = Arc::new(|_: &News<'_>| panic!("a listener"));
    client.store.listen(Arc::downgrade(&panics));
    let guard = client.takes("job").await;
    client.arbiter.next(Operation::Route, Fault::Panic);
    client.primary.next(Operation::Serves, Fault::Panic);
    sleep(20 * SECOND).await;
    client.arbiter.next(Operation::Carry, Fault::Panic);
    stage.switches().await;
    sleep(40 * SECOND).await;
    assert!(guard.is_valid() && guard.loss().is_none());
    assert_eq!(holder_in(&stage.arbiter, "job").await, Some(guard.holder()));
    assert_eq!(client.heard.lock().unwrap().len(), 1, "the other listener was told all the same");
    let memory = || Arc::new(Memory::default()) as Arc<dyn Store>;
    let wrong = [
        Settings::default().up_after(Duration::MAX),
        Settings::default().max_ttl(Duration::MAX),
        Settings::default().route_lease(Duration::MAX),
        Settings::default().down_after(Duration::ZERO),
    ];
    for settings in wrong {
        let refused = Fallback::over(memory(), memory(), settings).unwrap_err();
        assert!(refused.to_string().contains("it must be 1s to"), "{refused}");
    }
}

/// The first route is nobody's guess: not of who has known one, nor without the primary, which may have seen one.
#[tokio::test(start_paused = true)]
async fn a_route_that_was_lost_is_not_founded_anew() {
    let stage = Stage::settled().await;
    let client = stage.client();
    client.takes("job").await.release().await.unwrap();
    let fresh = stage.client();
    fresh.primary.cut();
    stage.arbiter.start_from(&Saved::default());
    client.primary.always(Operation::Serves, Fault::Fail(ErrorKind::Unavailable));
    sleep(30 * SECOND).await;
    let (kind, message) = client.is_told("job").await;
    assert!(kind == ErrorKind::Misconfigured && message.contains("lost its data"), "{message}");
    let (kind, message) = fresh.is_told("job").await;
    assert!(kind == ErrorKind::Unavailable && message.contains("as long as the primary is away"), "{message}");
    assert!(message.starts_with("the arbiter has not said"), "which is there: {message}");
    assert_eq!(stage.arbiter.route().await.unwrap(), None);
}

/// The watermark is gone as well, and a lease is left, whose token names the route.
#[tokio::test(start_paused = true)]
async fn a_route_that_a_lease_knows_of_is_not_founded_anew() {
    let stage = Stage::new();
    // Which is granted without a row of the arbiter as if it were a primary.
    let target = Target::Primary(stage.arbiter.serves().await.unwrap().incarnation);
    let route = Route { epoch: Epoch::new(5), target };
    assert!(matches!(Tagged::claim(&*stage.arbiter, &claim("old"), &route).await.unwrap(), Ok(Attempt::Granted(_))));
    let client = stage.client();
    let (kind, message) = client.is_told("job").await;
    assert!(kind == ErrorKind::Misconfigured && message.contains("number 5 has been seen"), "{message}");
    let (fails, hangs) = (stage.client(), stage.client());
    let listed = |client: &Client, fault| {
        [&client.primary, &client.arbiter].into_iter().for_each(|faults| faults.always(Operation::List, fault));
    };
    // Who may not list leases, or would have to wait for them, founds it all the same.
    listed(&fails, Fault::Fail(ErrorKind::AccessDenied));
    listed(&hangs, Fault::HangBefore);
    let route = async |client: &Client| client.fallback.route().await;
    assert_eq!(route(&client).await.unwrap_err().kind(), ErrorKind::Misconfigured);
    assert_eq!(route(&fails).await.unwrap(), None);
    assert_eq!(route(&hangs).await.unwrap(), None);
    drop(hangs.locks.lock("job").try_acquire().await);
    sleep(11 * SECOND).await;
    let guard = hangs.takes("job").await;
    assert_eq!(Epoch::of(guard.token()), Epoch::FIRST);
}

/// None of them is there for as long as the primary has to have been reached: jobs that cron starts, each for itself.
#[tokio::test(start_paused = true)]
async fn what_one_client_has_seen_of_the_primary_counts_for_the_next() {
    let stage = Stage::after_an_outage().await;
    // Nobody goes back while one of them can't reach it.
    for _ in 0..5 {
        sleep(40 * SECOND).await;
        stage.is_visited(true).await;
        stage.is_visited(false).await;
        assert_eq!(stage.leads_to().await, Target::Arbiter);
    }
    // From the next visit on a minute has to pass.
    sleep(300 * SECOND).await;
    stage.is_visited(true).await;
    assert_eq!(stage.leads_to().await, Target::Arbiter);
    sleep(50 * SECOND).await;
    stage.is_visited(true).await;
    assert_eq!(stage.leads_to().await, Target::Arbiter);
    sleep(10 * SECOND).await;
    stage.is_visited(true).await;
    assert!(matches!(stage.leads_to().await, Target::Primary(_)));
}

/// It may have been away all that time. Jobs that come once an hour go back all the same, with the third that finds it.
#[tokio::test(start_paused = true)]
async fn a_time_in_which_nobody_looked_at_the_primary_is_not_enough_by_itself() {
    let stage = Stage::after_an_outage().await;
    sleep(300 * SECOND).await;
    for nth in 1..=3 {
        assert_eq!(stage.leads_to().await, Target::Arbiter, "before visit {nth}");
        stage.is_visited(true).await;
        sleep(3600 * SECOND).await;
    }
    assert!(matches!(stage.leads_to().await, Target::Primary(_)));
}

/// It has complained a moment ago, and doesn't do so again so soon.
#[tokio::test(start_paused = true)]
async fn who_has_missed_the_primary_counts_anew() {
    let stage = Stage::settled().await;
    let client = stage.client();
    client.primary.cut();
    drop(client.locks.list().await);
    stage.until_it_leads_to(true).await;
    sleep(100 * SECOND).await;
    let complained = async || stage.arbiter.route().await.unwrap().unwrap().complained.unwrap();
    while complained().await > SECOND {
        sleep(SECOND / 4).await;
    }
    client.primary.heal();
    sleep(6 * SECOND).await;
    client.primary.cut();
    sleep(5 * SECOND / 2).await;
    client.primary.heal();
    assert!(complained().await > 8 * SECOND);
    sleep(55 * SECOND).await;
    assert_eq!(stage.leads_to().await, Target::Arbiter);
    sleep(10 * SECOND).await;
    assert!(matches!(stage.leads_to().await, Target::Primary(_)));
}

/// It was restarted in between, whatever it is now.
#[tokio::test(start_paused = true)]
async fn what_was_seen_of_another_data_set_counts_for_nothing() {
    let stage = Stage::after_an_outage().await;
    sleep(100 * SECOND).await;
    stage.is_visited(true).await;
    stage.primary.start_from(&Saved::default());
    sleep(100 * SECOND).await;
    stage.is_visited(true).await;
    assert_eq!(stage.leads_to().await, Target::Arbiter);
    sleep(58 * SECOND).await;
    stage.is_visited(true).await;
    assert!(matches!(stage.leads_to().await, Target::Primary(_)));
}

/// Each store is cleared by itself, and many at the same time; thousands of holds are carried in no time.
#[tokio::test(start_paused = true)]
async fn many_holds_go_along_and_leave_nothing() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let mine: Vec<_> = (0..2000).map(|number| claim(&format!("job {number}"))).collect();
    for claim in &mine {
        assert!(matches!(client.asks(claim).await.unwrap(), Attempt::Granted(_)));
    }
    let began = std::time::Instant::now();
    stage.switches().await;
    sleep(11 * SECOND).await;
    assert_eq!(stage.arbiter.list().await.unwrap().len(), mine.len());
    assert!(began.elapsed() < 30 * SECOND, "{:?}", began.elapsed());
    client.primary.always(Operation::Release, Fault::HangBefore);
    client.arbiter.always(Operation::Release, Fault::DelayRequest(SECOND / 10));
    let ended: Vec<_> =
        mine[..200].iter().map(|claim| LeaseKey { name: claim.name.clone(), holder: claim.holder }).collect();
    let release = |lease| client.store.release(lease, Ended::default());
    let released = futures_util::future::join_all(ended.iter().map(release)).await;
    assert!(released.into_iter().all(|answer| answer.unwrap() == Release::Released));
    client.primary.heal();
    sleep(4 * SECOND).await;
    assert_eq!(stage.primary.list().await.unwrap().len(), mine.len() - ended.len());
}

/// Of a claim that may be in both stores: one that is away doesn't keep the other from being told.
#[tokio::test(start_paused = true)]
async fn who_leaves_is_heard_where_it_can_be() {
    let stage = Stage::settled().await;
    let client = stage.client();
    stage.switches().await;
    sleep(11 * SECOND).await;
    let mine = claim("job");
    client.arbiter.next(Operation::TryAcquire, Fault::LoseReply);
    client.asks(&mine).await.unwrap_err();
    stage.switches().await;
    sleep(11 * SECOND).await;
    assert!(matches!(client.asks(&mine).await.unwrap(), Attempt::Granted(_)));
    client.arbiter.always(Operation::Leave, Fault::Fail(ErrorKind::Unavailable));
    let key = LeaseKey { name: mine.name.clone(), holder: mine.holder };
    let error = client.store.leave(&key).await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe);
    assert_eq!(holder_in(&stage.primary, "job").await, None);
}

/// That the primary is away undoes nothing of what the arbiter has been told.
#[tokio::test(start_paused = true)]
async fn done_is_done_though_the_primary_is_away() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let due = stage.due().await;
    let guard = client.locks.lock("job").tick(due.tick).try_acquire().await.unwrap().guard().expect("it is due");
    client.primary.cut();
    assert_eq!(guard.complete().await.unwrap(), Released::InTime);
    client.primary.heal();
    sleep(3 * SECOND).await;
    assert_eq!(holder_in(&stage.primary, "job").await, None);

    let mine = Claim { due: Some(stage.due().await), ..claim("job") };
    assert!(matches!(client.asks(&mine).await.unwrap(), Attempt::Granted(_)));
    client.primary.always(Operation::Release, Fault::Fail(ErrorKind::Refused));
    let how = Ended { keep_for: SECOND, verdict: Some(Verdict::Done(mine.due.unwrap().tick)) };
    let key = LeaseKey { name: mine.name.clone(), holder: mine.holder };
    assert_eq!(client.store.release(&key, how).await.unwrap_err().applied(), Applied::Maybe);
}

/// The same if it is silent: what the arbiter was told is answered in time.
#[tokio::test(start_paused = true)]
async fn done_is_done_though_the_primary_is_silent() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let due = stage.due().await;
    let guard = client.locks.lock("job").tick(due.tick).try_acquire().await.unwrap().guard().expect("it is due");
    client.primary.always(Operation::Release, Fault::HangBefore);
    let began = Instant::now();
    assert_eq!(guard.complete().await.unwrap(), Released::InTime);
    assert!(began.elapsed() < 3 * SECOND, "{:?}", began.elapsed());
    client.primary.heal();
    sleep(3 * SECOND).await;
    assert_eq!(holder_in(&stage.primary, "job").await, None);
    // Who has nothing to say to the arbiter is told what the primary says, or that it doesn't.
    let guard = client.takes("job").await;
    client.primary.always(Operation::Release, Fault::HangBefore);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::TimedOut);
}

/// The process may end as soon as it is told that its lock is released.
#[tokio::test(start_paused = true)]
async fn when_a_release_is_answered_both_stores_are_clear() {
    let stage = Stage::settled().await;
    let client = stage.client();
    let guard = client.takes("job").await;
    stage.switches().await;
    sleep(11 * SECOND).await;
    for store in [&stage.primary, &stage.arbiter] {
        assert_eq!(holder_in(store, "job").await, Some(guard.holder()));
    }
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    for store in [&stage.primary, &stage.arbiter] {
        assert_eq!(holder_in(store, "job").await, None);
    }
    // One that is silent keeps nobody waiting.
    let guard = client.takes("job").await;
    stage.switches().await;
    sleep(11 * SECOND).await;
    client.arbiter.always(Operation::Release, Fault::HangBefore);
    let began = Instant::now();
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    client.arbiter.heal();
    sleep(3 * SECOND).await;
    assert_eq!(holder_in(&stage.arbiter, "job").await, None);
}

/// One client at the end of ways on which messages take time.
struct Wired {
    primary: Arc<Memory>,
    arbiter: Arc<Memory>,
    networks: [Network; 2],
    links: [Link; 2],
    client: Machine,
    locks: Locks,
}

/// Messages take so long, one way; silence is short.
fn calm(millis: u64) -> Weather {
    let delay = Duration::from_millis(millis);
    Weather { delay: (delay, delay), silence: SECOND / 5, ..Weather::FAIR }
}

impl Wired {
    /// In force, all messages taking a millisecond; hears of switches.
    async fn new(on_switch: impl Fn(&[Network; 2]) + Send + Sync + 'static) -> Self {
        let machines = [0, 1, 2].map(|_| Machine::new());
        let [client, nodes @ ..] = &machines;
        let networks = [1, 2].map(|seed| Network::new(Random::new(seed), calm(1)));
        let links = [0, 1].map(|node| networks[node].link(client, &nodes[node]));
        let memory = |node: usize| Arc::new(Memory::new(Arc::new(nodes[node].clone())));
        let (primary, arbiter) = (memory(0), memory(1));
        let wire = |store: &Arc<Memory>, link: &Link| Arc::new(Wire::new(store.clone(), link.clone()));
        let clock = Arc::new(client.clone());
        let told = networks.clone();
        let observer = move |event: &Event<'_>| {
            if matches!(event, Event::Switched { .. }) {
                on_switch(&told);
            }
        };
        let settings = Settings::default().simulated(clock.clone());
        let store = Fallback::over(wire(&primary, &links[0]), wire(&arbiter, &links[1]), settings).unwrap();
        let locks = Locks::builder().observer(observer).simulated(clock).over(Arc::new(store));
        drop(locks.list().await.unwrap());
        sleep(11 * SECOND).await;
        Self { primary, arbiter, networks, links, client: client.clone(), locks }
    }

    async fn takes(&self, name: &str) -> Guard {
        self.locks.lock(name).try_acquire().await.unwrap().guard().expect("it is free")
    }

    async fn goes_to_the_arbiter(&self) {
        let switch = Switch { from: Epoch::FIRST, to: Target::Arbiter, dwell: Duration::ZERO, patience: Duration::MAX };
        assert!(self.arbiter.switch(&switch).await.unwrap());
        self.arbiter.arm(Epoch::FIRST.later(1), 10 * SECOND).await.unwrap();
    }
}

/// The holder ends while its lease is being carried: its end comes behind that, and its process may end then.
#[tokio::test(start_paused = true)]
async fn a_release_is_answered_when_a_carry_under_way_is_undone() {
    let switched = Arc::new(Notify::new());
    let told = switched.clone();
    let wired = Wired::new(move |_| told.notify_one()).await;
    let guard = wired.takes("job").await;
    wired.networks[1].set_weather(calm(100));
    wired.goes_to_the_arbiter().await;
    switched.notified().await;
    sleep(SECOND / 20).await; // The carry is under way.
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    wired.client.stop_for(3600 * SECOND);
    sleep(5 * SECOND).await;
    for store in [&wired.primary, &wired.arbiter] {
        assert_eq!(holder_in(store, "job").await, None);
    }
}

/// Its connection broke and the store reads on: it arrives behind the end of its holder, and is not answered.
#[tokio::test(start_paused = true)]
async fn a_carry_that_is_lost_leaves_nothing_of_who_has_ended() {
    let switched = Arc::new(Notify::new());
    let told = switched.clone();
    let wired = Wired::new(move |networks| {
        networks[1].set_weather(Weather { stragglers: (1.0, 2 * SECOND), ..calm(1) });
        told.notify_one();
    })
    .await;
    let guard = wired.takes("job").await;
    wired.goes_to_the_arbiter().await;
    switched.notified().await;
    sleep(SECOND / 20).await;
    wired.networks[1].set_weather(calm(1));
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    let mut came = false;
    for _ in 0..3000 {
        came |= holder_in(&wired.arbiter, "job").await.is_some();
        sleep(SECOND / 1000).await;
    }
    assert!(came, "the carry straggled");
    sleep(SECOND).await;
    assert_eq!(holder_in(&wired.arbiter, "job").await, None);
}

/// That the arbiter was away when a dropped acquisition was first taken back is no reason to overtake its claim later.
#[tokio::test(start_paused = true)]
async fn who_leaves_again_does_not_overtake_its_own_claim() {
    let wired = Wired::new(|_| {}).await;
    let millis = wired.locks.time().await.unwrap().as_millis() as i64;
    let lock = wired.locks.lock("job").tick(Tick::from_unix_millis(millis).unwrap());
    wired.networks[0].set_weather(calm(3000));
    assert!(tokio::time::timeout(SECOND / 10, lock.try_acquire()).await.is_err(), "it is under way");
    wired.networks[0].set_weather(calm(1));
    wired.links[1].cut();
    sleep(SECOND).await;
    wired.links[1].mend();
    sleep(5 * SECOND).await;
    assert_eq!(holder_in(&wired.primary, "job").await, None);
    drop(lock.try_acquire().await.unwrap().guard().expect("it is due, and free"));
}

/// With threads, as in earnest.
#[test]
fn in_real_time_a_hold_survives_a_failover() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let primary = Faulty::over(Arc::new(Memory::default()));
        let arbiter = Arc::new(Memory::default());
        let faults = primary.faults();
        // Of a shorter lease a hold is over where the machine is busy for a moment.
        let settings = Settings::default().route_lease(4 * SECOND).down_after(2 * SECOND).up_after(2 * SECOND);
        let store = Fallback::over(Arc::new(primary), arbiter.clone(), settings).unwrap();
        let locks = Locks::over(Arc::new(store));
        let lock = locks.lock("job").ttl(30 * SECOND).wait(Wait::For(60 * SECOND));
        let guard = lock.acquire().await.unwrap().guard().expect("it is free");
        faults.cut();
        let began = Instant::now();
        while arbiter.list().await.unwrap().is_empty() {
            assert!(guard.is_valid() && began.elapsed() < 60 * SECOND, "{}", Span(began.elapsed()));
            sleep(SECOND / 50).await;
        }
        sleep(5 * SECOND).await;
        assert!(guard.is_valid() && guard.loss().is_none());
        assert_eq!(guard.release().await.unwrap(), Released::InTime);
        assert!(matches!(locks.lock("job").try_acquire().await, Ok(Outcome::Acquired(_))));
        locks.shutdown().await;
    });
}

/// With threads, too, the end of a claim goes the way of the claim, whatever failed before.
#[test]
fn in_real_time_a_claim_is_taken_back_over_its_own_handle() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (primary, arbiter) = (Faulty::over(Arc::new(Memory::default())), Faulty::over(Arc::new(Memory::default())));
        let (all, keepers, of_arbiter) = (primary.faults(), primary.keeper_faults(), arbiter.faults());
        // While it lasts, the claim goes to the primary at once.
        let settings = Settings::default().route_lease(4 * SECOND);
        let store = Fallback::over(Arc::new(primary), Arc::new(arbiter), settings).unwrap();
        let locks = Locks::over(Arc::new(store));
        let guard = locks.lock("another").wait(Wait::For(60 * SECOND)).acquire().await.unwrap().guard();
        guard.expect("it is free").release().await.unwrap();
        all.next(Operation::TryAcquire, Fault::HangBefore);
        of_arbiter.next(Operation::Release, Fault::Fail(ErrorKind::Unavailable));
        let millis = locks.time().await.unwrap().as_millis() as i64;
        let lock = locks.lock("job").tick(Tick::from_unix_millis(millis).unwrap());
        assert!(tokio::time::timeout(SECOND / 10, lock.try_acquire()).await.is_err(), "it is under way");
        let began = Instant::now();
        while all.calls(Operation::Leave) == 0 {
            assert!(began.elapsed() < 30 * SECOND, "nobody leaves");
            sleep(SECOND / 50).await;
        }
        assert_eq!((of_arbiter.calls(Operation::Release), keepers.calls(Operation::Leave)), (2, 0));
        locks.shutdown().await;
    });
}
