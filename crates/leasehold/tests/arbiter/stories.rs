//! What is played over each database: with two connections, or one that comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use leasehold::store::{
    Arbiter, Carried, Epoch, Force, Primary, Reading, Refusal, Route, RouteTerms, Switch, Target, TickClaim, TickOf,
};
use leasehold::stores::Memory;
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::{
    Applied, Attempt, Claim, Due, Ended, Guard, HolderId, LeaseKey, LockName, Locks, NotDue, Outcome, Release,
    Released, Renewal, Store, Tick,
};
use leasehold_testkit::Faulty;

pub const LONG: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

pub fn arbiter(store: &Arc<dyn Store>) -> &dyn Arbiter {
    store.as_arbiter().expect("it can be one")
}

pub fn terms() -> RouteTerms {
    let (lease, max_ttl) = (Duration::from_secs(10), Duration::from_secs(3600));
    RouteTerms { lease, drift: 10_000, max_ttl, primary: "redis".into() }
}

pub fn here(epoch: u64) -> Route {
    Route { epoch: Epoch::new(epoch), target: Target::Arbiter }
}

pub fn claim(name: &str) -> Claim {
    Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), LONG)
}

pub fn key(claim: &Claim) -> LeaseKey {
    LeaseKey { name: claim.name.clone(), holder: claim.holder }
}

/// On a busy machine the time for an answer may run out: then it is asked again.
pub async fn read(store: &Arc<dyn Store>) -> Reading {
    for _ in 0..5 {
        match arbiter(store).route().await {
            Err(error) if error.kind() == leasehold::ErrorKind::TimedOut => {}
            answer => return answer.unwrap().expect("there is a route"),
        }
    }
    panic!("the route is read in time, of five times once at least")
}

pub async fn founded(store: &Arc<dyn Store>) {
    arbiter(store).found(&here(1), &terms()).await.unwrap();
    arbiter(store).arm(Epoch::FIRST, Duration::ZERO).await.unwrap();
}

pub async fn switches(store: &Arc<dyn Store>, from: u64) -> bool {
    let switch =
        Switch { from: Epoch::new(from), to: Target::Arbiter, dwell: Duration::ZERO, patience: Duration::ZERO };
    arbiter(store).switch(&switch).await.unwrap()
}

pub async fn claims(store: &Arc<dyn Store>, claim: &Claim, epoch: u64) -> Result<Attempt, Refusal> {
    arbiter(store).claim(claim, &here(epoch)).await.unwrap()
}

pub async fn carries(store: &Arc<dyn Store>, claim: &Claim, to: u64) -> Result<(), Refusal> {
    let token = Epoch::FIRST.token(7).unwrap();
    let lease = Carried { key: key(claim), label: claim.label.to_string(), token, ttl: LONG };
    arbiter(store).carry(&lease, &here(to)).await.unwrap()
}

pub fn is_granted(answer: &Result<Attempt, Refusal>) -> bool {
    matches!(answer, Ok(Attempt::Granted(_)))
}

pub async fn due(store: &Arc<dyn Store>) -> Due {
    let now = i64::try_from(store.time().await.unwrap().as_millis()).unwrap();
    Due { tick: Tick::from_unix_millis(now).unwrap(), retry_failed: false, keep: Duration::from_secs(86_400) }
}

pub async fn claims_tick(store: &Arc<dyn Store>, claim: &Claim, due: Due, epoch: u64) -> Result<TickClaim, Refusal> {
    let tick = TickOf { lease: key(claim), due, again: false };
    arbiter(store).claim_tick(&tick, Epoch::new(epoch)).await.unwrap()
}

/// A transaction that ends by itself.
pub struct OpenTransaction(pub tokio::task::JoinHandle<String>);

/// Ticks, and a key: each is claimed, and then completed by a transaction of its holder's that is open and rolled back, and by one that
/// commits. Meanwhile nobody else claims it, nor waits. `completes` opens such a transaction, once the key's time is over.
pub async fn nobody_claims_what_a_transaction_completes(
    store: &Arc<dyn Store>,
    completes: impl AsyncFn(bool) -> OpenTransaction,
) {
    founded(store).await;
    let tick = Due { retry_failed: true, ..due(store).await };
    for (name, due, again) in [("job", tick, 2), ("invoice", Due { tick: Tick::ONLY, ..tick }, 1)] {
        let claims = async || claims_tick(store, &claim(name), due, 1).await.unwrap();
        assert_eq!(claims().await, TickClaim::Claimed { attempt: 1, gave_up: None });
        for commits in [false, true] {
            let transaction = completes(commits).await;
            let (other, began) = (TickOf { lease: key(&claim(name)), due, again: false }, Instant::now());
            let error = arbiter(store).claim_tick(&other, Epoch::FIRST).await.unwrap_err();
            assert!(error.is_transient() && error.applied() == Applied::No, "{error}");
            // The transactions take four seconds.
            assert!(began.elapsed() < Duration::from_secs(2), "it waited");
            transaction.0.await.unwrap();
            let is_over = commits && again > 1;
            match claims().await {
                TickClaim::NotDue(NotDue::Claimed { unfinished: false, .. }) => assert!(is_over, "{name}"),
                claimed => {
                    let attempt = if commits { 1 } else { again };
                    assert_eq!((claimed, is_over), (TickClaim::Claimed { attempt, gave_up: None }, false), "{name}");
                }
            }
        }
    }
}

/// Of two that switch at the same moment one does, each time.
pub async fn one_of_two_switches(a: &Arc<dyn Store>, b: &Arc<dyn Store>) {
    founded(a).await;
    for epoch in 1..=25 {
        let (a_did, b_did) = join(switches(a, epoch), switches(b, epoch)).await;
        assert!(a_did != b_did, "{epoch}: {a_did} and {b_did}");
        assert_eq!(read(a).await.route, here(epoch + 1));
        let next = Epoch::new(epoch + 1);
        let armed = join(arbiter(a).arm(next, Duration::ZERO), arbiter(b).arm(next, Duration::ZERO)).await;
        armed.0.and(armed.1).unwrap();
    }
}

/// A claim that meets a switch is granted under the old route, or refused; and whoever claims under the next one gets it.
pub async fn a_claim_meets_a_switch(a: &Arc<dyn Store>, b: &Arc<dyn Store>) {
    founded(a).await;
    for epoch in 1..=25 {
        let (old, new) = (claim("job"), claim("job"));
        let (answer, switched) = join(claims(a, &old, epoch), switches(b, epoch)).await;
        assert!(switched);
        assert!(is_granted(&answer) || matches!(answer, Err(Refusal::OtherRoute)), "{answer:?}");
        assert!(matches!(claims(a, &old, epoch).await, Err(Refusal::OtherRoute)), "once it is switched");
        arbiter(b).arm(Epoch::new(epoch + 1), Duration::ZERO).await.unwrap();
        assert!(is_granted(&claims(b, &new, epoch + 1).await));
        let gone = arbiter(a).renew_under(&[(key(&old), LONG)], &here(epoch)).await;
        assert!(matches!(gone[..], [Ok(Ok(Renewal::Gone))]), "{gone:?}");
        assert_eq!(b.release(&key(&new), Ended::default()).await.unwrap(), Release::Released);
    }
}

/// Where a carry meets a claim, as the route comes into force, one of the two has the lock.
pub async fn a_carry_meets_a_claim(a: &Arc<dyn Store>, b: &Arc<dyn Store>) {
    const NAMES: usize = 12;
    founded(a).await;
    assert!(switches(a, 1).await);
    arbiter(a).arm(Epoch::new(2), Duration::from_millis(400)).await.unwrap();
    let pairs: Vec<_> = (0..NAMES).map(|n| (claim(&format!("job {n}")), claim(&format!("job {n}")))).collect();
    let one = async |nth: usize, (carried, claimed): &(Claim, Claim)| {
        // Some before it is in force, some about then.
        tokio::time::sleep(Duration::from_millis(340 + 10 * nth as u64)).await;
        let carry = async {
            loop {
                match carries(a, carried, 2).await {
                    Ok(()) if !nth.is_multiple_of(3) => {
                        assert_eq!(a.release(&key(carried), Ended::default()).await.unwrap(), Release::Released);
                    }
                    answer => return answer.is_ok(),
                }
            }
        };
        let claim = async {
            let start = Instant::now();
            loop {
                match claims(b, claimed, 2).await {
                    Ok(Attempt::Granted(_)) => return true,
                    Ok(Attempt::Held(_)) if nth.is_multiple_of(3) => return false,
                    Ok(Attempt::Held(_)) => assert!(start.elapsed() < SOON, "it is never free"),
                    Err(Refusal::OtherRoute) => assert!(start.elapsed() < SOON, "it never comes"),
                    other => panic!("{other:?}"),
                }
            }
        };
        let (has_carried, has_claimed) = join(carry, claim).await;
        assert!(has_carried != has_claimed, "{nth}: carried {has_carried}, claimed {has_claimed}");
        let holder = b.inspect(&claimed.name).await.unwrap().and_then(|held| held.holder);
        assert_eq!(holder, Some(if has_carried { carried.holder } else { claimed.holder }));
    };
    join_all(pairs.iter().enumerate().map(|(nth, pair)| one(nth, pair))).await;
    assert!(matches!(carries(a, &claim("late"), 2).await, Err(Refusal::OtherRoute)));
}

/// Whatever was answered is there after `restart`, which answers a store that knows nothing of before.
pub async fn all_is_there_after_restarts(restart: impl AsyncFn() -> Arc<dyn Store>) {
    let store = restart().await;
    arbiter(&store).found(&here(1), &terms()).await.unwrap();
    let store = restart().await;
    assert_eq!((read(&store).await.route, read(&store).await.force), (here(1), Force::Unarmed));
    arbiter(&store).arm(Epoch::FIRST, Duration::ZERO).await.unwrap();
    let store = restart().await;
    assert!(matches!(read(&store).await.force, Force::Since(_)));
    let (held, due) = (claim("job"), due(&store).await);
    assert!(is_granted(&claims(&store, &held, 1).await));
    assert!(matches!(claims_tick(&store, &held, due, 1).await, Ok(TickClaim::Claimed { attempt: 1, .. })));
    let store = restart().await;
    assert!(matches!(claims(&store, &claim("job"), 1).await, Ok(Attempt::Held(_))));
    assert!(matches!(claims_tick(&store, &claim("job"), due, 1).await, Ok(TickClaim::NotDue(_))));
    assert!(switches(&store, 1).await);
    let store = restart().await;
    assert_eq!((read(&store).await.route, read(&store).await.force), (here(2), Force::Unarmed));
    arbiter(&store).arm(Epoch::new(2), LONG).await.unwrap();
    let store = restart().await;
    assert!(matches!(read(&store).await.force, Force::In(_)), "its time stands");
    assert!(carries(&store, &held, 2).await.is_ok());
    let store = restart().await;
    let renewed = arbiter(&store).renew_under(&[(key(&held), LONG)], &here(2)).await;
    assert!(matches!(renewed[..], [Ok(Ok(Renewal::Renewed))]), "{renewed:?}");
    assert_eq!(arbiter(&store).repair(Epoch::new(2), &terms()).await.unwrap(), Epoch::new(4));
    let store = restart().await;
    assert_eq!((read(&store).await.route, read(&store).await.force), (here(4), Force::Unarmed));
    assert!(matches!(claims_tick(&store, &claim("another"), due, 4).await, Ok(TickClaim::NotDue(_))));
}

/// R12: what was done after the backup is forgotten by it, and yet nothing of that is done twice.
pub async fn a_backup_is_repaired(
    save: impl AsyncFn(),
    restore: impl AsyncFn() -> Arc<dyn Store>,
    store: Arc<dyn Store>,
) {
    founded(&store).await;
    let (early, late) = (claim("early"), claim("late"));
    assert!(is_granted(&claims(&store, &early, 1).await));
    save().await;
    assert!(switches(&store, 1).await);
    arbiter(&store).arm(Epoch::new(2), Duration::ZERO).await.unwrap();
    assert!(is_granted(&claims(&store, &late, 2).await));
    let due = due(&store).await;
    assert!(matches!(claims_tick(&store, &late, due, 2).await, Ok(TickClaim::Claimed { .. })));
    drop(store);

    let store = restore().await;
    assert_eq!(read(&store).await.route, here(1), "it has forgotten");
    assert_eq!(arbiter(&store).repair(Epoch::new(2), &terms()).await.unwrap(), Epoch::new(4));
    for epoch in [1, 2, 3] {
        assert!(matches!(claims(&store, &claim("late"), epoch).await, Err(Refusal::OtherRoute)));
        assert!(matches!(carries(&store, &late, epoch).await, Err(Refusal::OtherRoute)));
    }
    for epoch in [1, 2] {
        assert!(matches!(claims_tick(&store, &late, due, epoch).await, Err(Refusal::OtherRoute)));
    }
    arbiter(&store).arm(Epoch::new(4), Duration::ZERO).await.unwrap();
    let again = claims_tick(&store, &claim("late"), due, 4).await;
    assert!(matches!(again, Ok(TickClaim::NotDue(NotDue::Claimed { unfinished: false, .. }))), "{again:?}");
    for name in ["early", "late"] {
        let Ok(Attempt::Granted(grant)) = claims(&store, &claim(name), 4).await else { panic!("{name} is free") };
        assert!(grant.token > Epoch::new(3).token(0).unwrap(), "{name}: larger than all before");
    }
}

/// Two namespaces have a route each.
pub async fn namespaces_are_apart(one: &Arc<dyn Store>, other: &Arc<dyn Store>) {
    founded(one).await;
    let due = due(one).await;
    assert_eq!(arbiter(other).route().await.unwrap(), None);
    assert!(!switches(other, 1).await);
    arbiter(other).complain().await.unwrap();
    assert_eq!(read(one).await.complained, None);
    assert!(matches!(claims(other, &claim("job"), 1).await, Err(Refusal::OtherRoute)));
    assert_eq!(arbiter(other).repair(Epoch::new(9), &terms()).await.unwrap(), Epoch::new(11));
    assert_eq!(read(one).await.route, here(1));
    assert!(matches!(claims_tick(one, &claim("job"), due, 1).await, Ok(TickClaim::Claimed { .. })), "no repair of it");
}

/// A client of a fallback whose primary is in memory.
struct Client {
    locks: Locks,
    primary: leasehold_testkit::Faults,
}

impl Client {
    fn over(primary: &Arc<Memory>, arbiter: Arc<dyn Store>) -> Self {
        let primary = Faulty::over(primary.clone());
        let faults = primary.faults();
        let second = Duration::from_secs(1);
        // Were they shorter, a machine that is busy for a moment would end a hold.
        let settings = Settings::default().route_lease(second * 5).down_after(second * 2).up_after(second * 2);
        let store = Fallback::over(Arc::new(primary), arbiter, settings).unwrap();
        let locks = Locks::builder().over(Arc::new(store) as Arc<dyn Store>);
        Self { locks, primary: faults }
    }

    async fn takes(&self, name: &str) -> Guard {
        let start = Instant::now();
        loop {
            match self.locks.lock(name).ttl(LONG / 2).stop_grace(Duration::from_millis(300)).try_acquire().await {
                Ok(Outcome::Acquired(guard)) => return guard,
                other => assert!(start.elapsed() < SOON * 2, "{name}: {other:?}"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn is_contended(&self, name: &str) -> bool {
        matches!(self.locks.lock(name).patience(SOON).try_acquire().await, Ok(Outcome::Contended(_)))
    }
}

/// A fallback over this arbiter: a lock and a tick, the primary is cut, the hold survives; and the way back.
pub async fn a_hold_survives_the_way_there_and_back(open: impl Fn() -> Arc<dyn Store>) {
    let primary = Arc::new(Memory::default());
    let (client, other) = (Client::over(&primary, open()), Client::over(&primary, open()));
    let direct = open();
    let guard = client.takes("job").await;
    let due = due(&direct).await;
    let run = client.locks.lock("nightly").ttl(LONG / 2).stop_grace(Duration::from_millis(300)).patience(SOON);
    let ticking = run.clone().tick(due.tick).try_acquire().await.unwrap();
    let Outcome::Acquired(ticking) = ticking else { panic!("{ticking:?}") };
    let leads = async |here: bool| {
        let start = Instant::now();
        loop {
            assert!(guard.is_valid() && ticking.is_valid(), "{:?} {:?}", guard.loss(), ticking.loss());
            let reading = read(&direct).await;
            if (reading.route.target == Target::Arbiter) == here && matches!(reading.force, Force::Since(_)) {
                return;
            }
            assert!(start.elapsed() < SOON * 3, "it never does: {reading:?}");
            tokio::time::sleep(LOOK).await;
        }
    };
    leads(false).await;
    assert!(
        matches!(Store::inspect(&*primary, &claim("job").name).await.unwrap(), Some(held) if held.holder.is_some())
    );
    for client in [&client, &other] {
        client.primary.cut();
    }
    leads(true).await;
    assert!(direct.inspect(&claim("job").name).await.unwrap().is_some_and(|held| held.holder.is_some()), "it is here");
    other.takes("another").await.release().await.unwrap();
    assert!(other.is_contended("job").await);
    for client in [&client, &other] {
        client.primary.heal();
    }
    leads(false).await;
    other.takes("another").await.release().await.unwrap();
    assert!(other.is_contended("job").await);
    assert_eq!(ticking.complete().await.unwrap(), Released::InTime);
    let again = run.tick(due.tick).try_acquire().await.unwrap();
    assert!(matches!(again, Outcome::NotDue(_)), "{again:?}");
    let token = guard.token();
    assert_eq!(guard.release().await.unwrap(), Released::InTime);
    assert!(other.takes("job").await.token() > token);
    assert_eq!(primary.serves().await.unwrap().watermark.number(), read(&direct).await.route.epoch.number());
}

/// A user who has all rights but those on the route, until they are granted.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub async fn rights_on_the_route_are_for_arbiters_only(store: &Arc<dyn Store>, grant: impl Fn()) {
    let (first, second) = (claim("job"), claim("job"));
    assert!(matches!(store.try_acquire(&first).await.unwrap(), Attempt::Granted(_)));
    assert!(matches!(store.try_acquire(&second).await.unwrap(), Attempt::Held(_)));
    store.leave(&key(&first)).await.unwrap();
    let error = arbiter(store).route().await.unwrap_err();
    assert!(
        error.kind() == leasehold::ErrorKind::AccessDenied && error.to_string().contains("leasehold_routes"),
        "{error}"
    );
    let rights = async || {
        let findings = store.diagnose().await.unwrap();
        let worst = findings.iter().filter(|finding| finding.subject == "rights").max_by_key(|one| one.severity);
        let worst = worst.expect("there is something to say of rights");
        (worst.severity, worst.message.to_string())
    };
    let (severity, message) = rights().await;
    assert!(severity == leasehold::Severity::Warning && message.contains("arbiter of a fallback"), "{message}");
    grant();
    assert_eq!(rights().await.0, leasehold::Severity::Fine);
    founded(store).await;
    assert!(is_granted(&claims(store, &claim("another"), 1).await));
    let due = due(store).await;
    assert!(matches!(claims_tick(store, &claim("job"), due, 1).await, Ok(TickClaim::Claimed { .. })));
    arbiter(store).repair(Epoch::new(3), &terms()).await.unwrap();
}

/// A user who may use tables of version 1 and change none, until somebody else does that.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub async fn who_may_not_upgrade_is_told_what_to_have_run(store: &Arc<dyn Store>, upgrade: impl Fn()) {
    for _ in 0..2 {
        let error = store.try_acquire(&claim("job")).await.unwrap_err();
        assert_eq!(error.kind(), leasehold::ErrorKind::AccessDenied, "{error}");
        assert!(error.to_string().contains("migrate --print"), "{error}");
    }
    upgrade();
    assert!(matches!(store.try_acquire(&claim("job")).await.unwrap(), Attempt::Granted(_)));
    founded(store).await;
}
