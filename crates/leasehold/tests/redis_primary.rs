//! Redis as the primary of a fallback: leases under a route that leads to one data set.
#![cfg(feature = "redis")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use leasehold::store::{
    Arbiter, Carried, Epoch, Force, Incarnation, Primary, Refusal, Route, RouteTerms, Switch, Tagged, Target,
};
use leasehold::stores::Memory;
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::{
    Applied, Attempt, Claim, Ended, ErrorKind, FencingToken, Finding, Guard, LockName, Locks, Outcome, Place, Renewal,
    Revoke, Severity, Store,
};
use leasehold_testkit::conformance::tagged::{self, Routes, RoutesToPrimary};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::{Redis, RedisSentinels};
use leasehold_testkit::{PausedClock, Random};

mod claims;
use claims::{SOON, claim, lease, store};

const SECOND: Duration = Duration::from_secs(1);

fn primary(store: &dyn Store) -> &dyn Primary {
    store.as_primary().expect("it can be one")
}

/// Memory and Redis answer alike.
#[tokio::test]
async fn redis_keeps_leases_under_a_route() {
    let server = Redis::start();
    for (name, case) in tagged::CASES {
        println!("{name}");
        let store = leasehold::stores::open(&format!("{}?namespace={name}", server.url())).unwrap();
        let primary = primary(&*store);
        case(primary, &RoutesToPrimary::to(primary)).await;
    }
}

#[tokio::test]
async fn memory_keeps_leases_under_a_route_as_a_primary() {
    for (name, case) in tagged::CASES {
        println!("{name}");
        let memory = Memory::default();
        case(&memory, &RoutesToPrimary::to(&memory)).await;
    }
}

/// As the memory does, which the simulation plays.
#[tokio::test]
async fn a_time_in_which_nobody_looked_counts_for_half_of_the_longest_that_counts() {
    let server = Redis::start();
    let store = store(&server.url());
    let reached = async |epoch, anew| primary(&*store).reached(epoch, anew, 60 * SECOND).await.unwrap().span;
    let key = "leasehold:default:reached";
    // As if it had last been looked at so much earlier: what was counted stays.
    let looked_ago = |ago: i64| {
        let said = server.command(&["GET", key]).text();
        let (rest, last) = said.rsplit_once(' ').expect("when it was looked at stands last");
        let earlier = last.parse::<i64>().unwrap() - ago * 1000;
        server.command(&["SET", key, &format!("{rest} {earlier}"), "PX", "60000"]);
    };
    let about = |span: Duration, seconds: u32| (seconds * SECOND..(seconds + 10) * SECOND).contains(&span);
    assert!(reached(Epoch::FIRST, false).await.is_zero());
    looked_ago(40);
    let span = reached(Epoch::FIRST, false).await;
    assert!(about(span, 40), "somebody comes often enough: {span:?}");
    looked_ago(3600);
    let span = reached(Epoch::FIRST, false).await;
    assert!(about(span, 70), "nobody knows of that hour: {span:?}");
    assert!(reached(Epoch::FIRST.later(1), false).await.is_zero(), "another route");
    looked_ago(40);
    assert!(reached(Epoch::FIRST.later(1), true).await.is_zero(), "anew");
    looked_ago(-3600);
    assert!(reached(Epoch::FIRST.later(1), false).await.is_zero(), "its clock was set back");
    assert!(server.command(&["PTTL", key]).integer() > 60_000, "it is forgotten in the end");
}

/// Those of an arbiter, to itself.
struct ToArbiter(Memory);

const DRAIN: Duration = Duration::from_secs(10);

impl ToArbiter {
    async fn founded(arbiter: Memory) -> Self {
        let first = Route { epoch: Epoch::FIRST, target: Target::Arbiter };
        let terms = RouteTerms { lease: DRAIN, drift: 0, max_ttl: Duration::from_secs(3600), primary: "none".into() };
        arbiter.found(&first, &terms).await.unwrap();
        Self(arbiter)
    }
}

impl Routes for ToArbiter {
    fn in_force(&self) -> BoxFuture<'_, Route> {
        Box::pin(async {
            loop {
                let reading = self.0.route().await.unwrap().unwrap();
                match reading.force {
                    Force::Since(_) => return reading.route,
                    Force::Unarmed => self.0.arm(reading.route.epoch, DRAIN).await.unwrap(),
                    Force::In(rest) => tokio::time::sleep(rest).await,
                }
            }
        })
    }

    fn pending(&self) -> BoxFuture<'_, Route> {
        Box::pin(async {
            let from = self.in_force().await.epoch;
            let switch = Switch { from, to: Target::Arbiter, dwell: Duration::ZERO, patience: Duration::ZERO };
            assert!(self.0.switch(&switch).await.unwrap());
            self.0.arm(from.later(1), DRAIN).await.unwrap();
            self.0.route().await.unwrap().unwrap().route
        })
    }
}

#[tokio::test(start_paused = true)]
async fn memory_keeps_leases_under_a_route_as_an_arbiter() {
    for (name, case) in tagged::CASES {
        println!("{name}");
        let memory = Memory::new(Arc::new(PausedClock::start()));
        case(&memory, &ToArbiter::founded(memory.clone()).await).await;
    }
}

const TTL: Duration = Duration::from_secs(30);

/// A server, a store in it, and the route there.
struct Stage {
    server: Redis,
    store: Arc<dyn Store>,
}

impl Stage {
    fn start() -> Self {
        let server = Redis::start();
        Self { store: store(&server.url()), server }
    }

    fn primary(&self) -> &dyn Primary {
        primary(&*self.store)
    }

    async fn route(&self, epoch: u64) -> Route {
        let mut serving = None;
        eventually_async("it serves", SOON, async || {
            serving = self.primary().serves().await.ok();
            serving.is_some()
        })
        .await;
        Route { epoch: Epoch::new(epoch), target: Target::Primary(serving.unwrap().incarnation) }
    }

    async fn claims(&self, claim: &Claim, under: &Route) -> Result<Attempt, Refusal> {
        Tagged::claim(self.primary(), claim, under).await.unwrap()
    }

    async fn takes(&self, claim: &Claim, under: &Route) -> FencingToken {
        match self.claims(claim, under).await {
            Ok(Attempt::Granted(grant)) => grant.token,
            other => panic!("it is free: {other:?}"),
        }
    }

    async fn renews(&self, claim: &Claim, under: &Route) -> Result<Renewal, Refusal> {
        self.primary().renew_under(&[(lease(claim), TTL)], under).await.remove(0).unwrap()
    }

    async fn carries(&self, claim: &Claim, to: &Route) -> Result<(), Refusal> {
        let token = FencingToken::new(9);
        let carried = Carried { key: lease(claim), label: "test".into(), token, ttl: TTL };
        self.primary().carry(&carried, to).await.unwrap()
    }

    /// Nothing is done under a route to what it was.
    async fn is_another_than(&self, route: &Route) {
        let (held, other) = (claim("job", TTL), claim("other", TTL));
        let other_incarnation = Err(Refusal::OtherIncarnation);
        eventually_async("it is there again", SOON, async || {
            let answer = Tagged::claim(self.primary(), &held, route).await;
            answer.is_ok_and(|answer| matches!(answer, Err(Refusal::OtherIncarnation)))
        })
        .await;
        assert_eq!(self.renews(&held, route).await, Err(Refusal::OtherIncarnation));
        assert_eq!(self.carries(&other, route).await, other_incarnation);
        for claim in [held, other] {
            assert!(self.store.inspect(&claim.name).await.unwrap().is_none());
        }
    }
}

#[tokio::test]
async fn r11_a_server_that_was_restarted_is_another_one() {
    let stage = Stage::start();
    let before = stage.route(3).await;
    let held = claim("job", TTL);
    let token = stage.takes(&held, &before).await;
    assert_eq!(stage.primary().serves().await.unwrap().watermark, Epoch::new(3));
    stage.server.restart();
    stage.is_another_than(&before).await;
    let after = stage.route(4).await;
    assert_ne!(before.target, after.target);
    assert_eq!(stage.primary().serves().await.unwrap().watermark, Epoch::default(), "it came back empty");
    assert!(stage.takes(&claim("job", TTL), &after).await > token);
}

/// Under another name, though nothing was lost.
#[tokio::test]
async fn r11_a_server_that_was_demoted_for_a_moment_is_another_one() {
    let stage = Stage::start();
    let before = stage.route(1).await;
    let unrelated = claim("unrelated", TTL);
    stage.takes(&unrelated, &before).await;
    stage.server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let as_replica = Tagged::claim(stage.primary(), &claim("job", TTL), &before).await;
    assert!(!matches!(as_replica, Ok(Ok(_))), "{as_replica:?}");
    stage.server.command(&["REPLICAOF", "NO", "ONE"]);
    stage.is_another_than(&before).await;
    let after = stage.route(2).await;
    assert_eq!(stage.renews(&unrelated, &after).await, Ok(Renewal::Gone), "it was not carried");
    assert_eq!(stage.carries(&unrelated, &after).await, Ok(()));
    assert_eq!(stage.renews(&unrelated, &after).await, Ok(Renewal::Renewed));
}

/// With what it had: nothing in the data can tell.
#[tokio::test]
async fn r11_a_server_that_was_started_from_its_data_is_another_one() {
    let server = Redis::options().append_only().start();
    let stage = Stage { store: store(&server.url()), server };
    let before = stage.route(2).await;
    let held = claim("held", TTL);
    let token = stage.takes(&held, &before).await;
    stage.server.restart();
    stage.is_another_than(&before).await;
    let after = stage.route(3).await;
    assert_eq!(stage.primary().serves().await.unwrap().watermark, Epoch::new(2));
    let next = claim("held", TTL);
    assert!(stage.takes(&next, &after).await > token, "what is of an earlier route is dead");
    assert_eq!(stage.renews(&held, &after).await, Ok(Renewal::Gone));
}

#[tokio::test]
async fn a_route_to_somewhere_else_is_refused() {
    let stage = Stage::start();
    let here = stage.route(1).await;
    let Target::Primary(incarnation) = &here.target else { panic!("it leads here") };
    let whole = incarnation.to_string();
    for (target, refusal) in [
        (Target::Arbiter, Refusal::OtherRoute),
        (Target::Primary(Incarnation::new("")), Refusal::OtherIncarnation),
        (Target::Primary(Incarnation::new("-")), Refusal::OtherIncarnation),
        (Target::Primary(Incarnation::new(&whole[..whole.len() - 1])), Refusal::OtherIncarnation),
        (Target::Primary(Incarnation::new(&whole[1..])), Refusal::OtherIncarnation),
        (Target::Primary(Incarnation::new(format!("{whole}0"))), Refusal::OtherIncarnation),
    ] {
        let (route, job) = (Route { target, ..here.clone() }, claim("job", TTL));
        assert_eq!(stage.claims(&job, &route).await.map(|_| ()), Err(refusal), "{route:?}");
        assert_eq!(stage.renews(&job, &route).await, Err(refusal), "{route:?}");
        assert_eq!(stage.carries(&job, &route).await, Err(refusal), "{route:?}");
    }
    assert_eq!(stage.server.command(&["DBSIZE"]).integer(), 0);
}

#[tokio::test]
async fn a05_something_of_another_program_is_held_and_never_dead() {
    let stage = Stage::start();
    let (first, second) = (stage.route(1).await, stage.route(2).await);
    let key = |name: &str| format!("leasehold:default:{{{name}}}");
    stage.server.command(&["SET", &key("theirs"), "redis-py", "PX", "60000"]);
    // A lease whose hash is gone may be anybody's.
    let ours = claim("ours", TTL);
    stage.takes(&ours, &first).await;
    stage.server.command(&["DEL", &format!("{}:h", key("ours"))]);
    assert_eq!(stage.renews(&ours, &first).await, Ok(Renewal::Gone));
    for name in ["theirs", "ours"] {
        let held = stage.claims(&claim(name, TTL), &second).await;
        assert!(matches!(&held, Ok(Attempt::Held(held)) if held.holder.is_some()), "{held:?}");
        assert_eq!(stage.carries(&claim(name, TTL), &second).await, Err(Refusal::HeldByAnother));
    }
    // And what never ends, or is of another kind, is an error.
    stage.server.command(&["SET", &key("for ever"), "data"]);
    stage.server.command(&["RPUSH", &key("list"), "data"]);
    stage.server.command(&["SET", &format!("{}:h", key("hash")), "data"]);
    for name in ["for ever", "list", "hash"] {
        let error = Tagged::claim(stage.primary(), &claim(name, TTL), &second).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("another namespace"), "{error}");
    }
    // Which keeps no other lease from being renewed.
    let sound = claim("sound", TTL);
    stage.takes(&sound, &second).await;
    let batch = ["list", "hash"].map(|name| (lease(&claim(name, TTL)), TTL));
    let answers = stage.primary().renew_under(&[&batch[..], &[(lease(&sound), TTL)]].concat(), &second).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    assert_eq!(answers, [Renewal::Gone, Renewal::Gone, Renewal::Renewed]);
}

#[tokio::test]
async fn several_permits_and_epochs_without_tokens_are_refused() {
    let stage = Stage::start();
    let many = Claim { permits: 2.try_into().unwrap(), ..claim("pool", TTL) };
    let route = stage.route(1).await;
    let far = Route { epoch: Epoch::LAST.later(1), ..route.clone() };
    for (claim, route) in [(&many, &route), (&claim("job", TTL), &far)] {
        let error = Tagged::claim(stage.primary(), claim, route).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    }
    let last = Route { epoch: Epoch::LAST, ..route };
    let (job, next) = (claim("job", TTL), claim("job", TTL));
    let token = stage.takes(&job, &last).await;
    assert!(token.number() >> 46 == Epoch::LAST.number() && token.number() < i64::MAX as u64);
    assert_eq!(stage.takes(&job, &last).await, token, "to the last digit");
    assert_eq!(stage.store.inspect(&job.name).await.unwrap().unwrap().token, token);
    let _ = stage.store.release(&lease(&job), Ended::default()).await.unwrap();
    assert!(stage.takes(&next, &last).await > token);
    // Who holds it in another number is no matter of routes.
    let pool = Claim { permits: 2.try_into().unwrap(), ..claim("pool", TTL) };
    let _ = stage.store.try_acquire(&pool).await.unwrap();
    let error = Tagged::claim(stage.primary(), &claim("pool", TTL), &last).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert_eq!(stage.carries(&claim("pool", TTL), &last).await, Err(Refusal::HeldByAnother));
}

/// Tokens without their epoch are what a claim without a route goes on from.
#[tokio::test]
async fn a_store_can_be_used_without_a_fallback_again() {
    let stage = Stage::start();
    let route = stage.route(100).await;
    let (job, plain) = (claim("job", TTL), claim("job", TTL));
    stage.takes(&job, &route).await;
    let _ = stage.store.release(&lease(&job), Ended::default()).await.unwrap();
    assert!(matches!(stage.store.try_acquire(&plain).await.unwrap(), Attempt::Granted(_)));
    let shown = stage.store.inspect(&plain.name).await.unwrap().unwrap();
    assert!(shown.token.number() >> 46 == 0 && shown.held_for < TTL, "{shown:?}");
}

#[tokio::test]
async fn who_may_not_ask_for_info_in_a_script_is_told_so() {
    let server = Redis::options().acl(&["user worker on >secret ~* &* +@all -info"]).start();
    let store = store(&server.url_as("worker", "secret"));
    let primary = primary(&*store);
    let route = Route { epoch: Epoch::FIRST, target: Target::Primary(Incarnation::new("a-b")) };
    let job = claim("job", TTL);
    let carried = Carried { key: lease(&job), label: "test".into(), token: FencingToken::new(9), ttl: TTL };
    for error in [
        primary.serves().await.unwrap_err(),
        Tagged::claim(primary, &job, &route).await.unwrap_err(),
        primary.renew_under(&[(lease(&job), TTL)], &route).await.remove(0).unwrap_err(),
        primary.carry(&carried, &route).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{error}");
        assert!(error.to_string().contains("INFO") && !error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn which_stores_can_be_primaries() {
    let identity = |url: &str| store(url).as_primary().map(Primary::identity);
    let of = |url: &str| identity(url).unwrap();
    assert_eq!(of("redis://bob:hunter2@h:7/3"), "redis h:7, database 3, namespace default");
    assert_eq!(of("redis://h?namespace=x"), "redis h:6379, database 0, namespace x");
    assert_eq!(
        of("redis+sentinel://bob:hunter2@a,b/main/1?sentinel_password=hunter2"),
        "redis the master main, database 1, namespace default"
    );
    assert_eq!(of("redis+unix:///run/x.sock"), "redis /run/x.sock, database 0, namespace default");
    for url in ["redis+cluster://h", "redis://h?compat=plain"] {
        assert_eq!(identity(url), None, "{url}");
    }
}

/// A route leads to what the sentinels' new master serves by its own name; no restart guard is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn r11_a_promoted_replica_is_another_one() {
    let servers = RedisSentinels::start();
    let store = store(&servers.url());
    let route = async |epoch| {
        let mut serving = None;
        eventually_async("it serves", SOON, async || {
            serving = primary(&*store).serves().await.ok();
            serving.is_some()
        })
        .await;
        Route { epoch: Epoch::new(epoch), target: Target::Primary(serving.unwrap().incarnation) }
    };
    let before = route(1).await;
    let (job, next) = (claim("job", 100 * TTL), claim("job", TTL));
    let granted = Tagged::claim(primary(&*store), &job, &before).await.unwrap();
    let Ok(Attempt::Granted(grant)) = granted else { panic!("at once, and for longer than a guard: {granted:?}") };
    servers.kill_master();
    let mut after = before.clone();
    eventually_async("the replica is promoted", SOON * 2, async || {
        after = route(2).await;
        after.target != before.target
    })
    .await;
    let refused = Tagged::claim(primary(&*store), &next, &before).await.unwrap();
    assert!(matches!(refused, Err(Refusal::OtherIncarnation)), "{refused:?}");
    let granted = Tagged::claim(primary(&*store), &next, &after).await.unwrap();
    assert!(matches!(&granted, Ok(Attempt::Granted(next)) if next.token > grant.token), "{granted:?}");
}

/// Redis and memory, as a fallback with short spans. Were they shorter, a machine that is busy for a moment would end a hold.
fn fallback(server: &Redis, arbiter: &Memory) -> Locks {
    let settings =
        Settings::default().route_lease(5 * SECOND).down_after(2 * SECOND).up_after(3 * SECOND).max_ttl(60 * SECOND);
    let store = Fallback::over(store(&server.url()), Arc::new(arbiter.clone()), settings).unwrap();
    Locks::over(Arc::new(store))
}

async fn acquires(locks: &Locks, name: &str) -> Guard {
    let began = Instant::now();
    loop {
        match locks.lock(name).ttl(30 * SECOND).stop_grace(SECOND / 4).try_acquire().await {
            Ok(Outcome::Acquired(guard)) => return guard,
            other => assert!(began.elapsed() < 2 * SOON, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_goes_along_to_the_arbiter_and_back_to_a_redis_that_came_back_empty() {
    let (server, arbiter) = (Redis::start(), Memory::default());
    let (ours, others) = (fallback(&server, &arbiter), fallback(&server, &arbiter));
    let short = acquires(&ours, "short").await;
    let token = short.token();
    short.release().await.unwrap();
    assert!(acquires(&others, "short").await.token() > token);
    let leads_to_primary = async || matches!(arbiter.route().await.unwrap().unwrap().route.target, Target::Primary(_));
    assert!(leads_to_primary().await);
    let guard = acquires(&ours, "job").await;
    let is_free =
        async || matches!(others.lock("job").stop_grace(SECOND / 4).try_acquire().await, Ok(Outcome::Acquired(_)));
    server.kill();
    eventually_async("the arbiter takes over", 2 * SOON, async || {
        assert!(!is_free().await && guard.is_valid(), "{:?}", guard.loss());
        !leads_to_primary().await
    })
    .await;
    // Only there can anything be granted by now.
    let meanwhile = acquires(&others, "meanwhile").await;
    assert!(guard.is_valid() && !is_free().await);
    server.restart();
    eventually_async("it goes back", 3 * SOON, async || {
        assert!(!is_free().await && guard.is_valid() && meanwhile.is_valid(), "{:?}", guard.loss());
        let reading = arbiter.route().await.unwrap().unwrap();
        matches!(reading.route.target, Target::Primary(_)) && matches!(reading.force, Force::Since(_))
    })
    .await;
    let held = store(&server.url()).inspect(&LockName::new("job").unwrap()).await.unwrap().expect("it is there");
    assert_eq!((held.holder, held.token), (Some(guard.holder()), guard.token()), "it has come along with its token");
    guard.release().await.unwrap();
    eventually_async("it is free", SOON, is_free).await;
}

/// The watermark only grows, keeps earlier claims out, and ends no lease.
#[tokio::test]
async fn what_is_told_of_a_route_is_remembered() {
    let memory = Memory::default();
    let stage = Stage::start();
    for primary in [stage.primary(), &memory as &dyn Primary] {
        let route = |epoch: u64, target: &Target| Route { epoch: Epoch::new(epoch), target: target.clone() };
        let target = Target::Primary(primary.serves().await.unwrap().incarnation);
        let job = claim("job", TTL);
        assert!(matches!(Tagged::claim(primary, &job, &route(2, &target)).await, Ok(Ok(Attempt::Granted(_)))));
        for (raised, seen) in [(2, 2), (5, 5), (3, 5)] {
            primary.raise(Epoch::new(raised)).await.unwrap();
            assert_eq!(primary.serves().await.unwrap().watermark, Epoch::new(seen));
        }
        let late = Tagged::claim(primary, &claim("other", TTL), &route(4, &target)).await.unwrap();
        assert!(matches!(late, Err(Refusal::OtherRoute)), "{late:?}");
        let renewed = primary.renew_under(&[(lease(&job), TTL)], &route(2, &target)).await.remove(0).unwrap();
        assert_eq!(renewed, Ok(Renewal::Renewed));
    }
}

/// What is a fault of a server on its own is none of a primary; and what is one of a primary is told as that.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_knows_that_it_is_a_primary() {
    let server = Redis::options().acl(&["user worker on >secret ~* &* +@all -info"]).start();
    let told = async |url: &str| {
        let found = primary(&*store(url)).examine().await.unwrap();
        found.into_iter().map(|finding| (finding.subject, finding)).collect::<Vec<_>>()
    };
    let of = |told: &[(&str, Finding)], subject: &str| {
        let found = told.iter().find(|(known, _)| *known == subject);
        found.unwrap_or_else(|| panic!("nothing about {subject} in {told:?}")).1.clone()
    };
    let alone = store(&server.url()).diagnose().await.unwrap();
    assert!(alone.iter().any(|found| found.subject == "persistence" && found.severity == Severity::Warning));
    let found = told(&server.url()).await;
    for (subject, says) in [
        ("persistence", "it need not be kept"),
        ("restart guard", "without a say"),
        ("failover", "exclusion survives it"),
        ("replication", "stays as it is"),
        ("data set", "INFO"),
    ] {
        let finding = of(&found, subject);
        assert!(finding.severity == Severity::Fine && finding.message.contains(says), "{finding:?}");
    }
    // Who may not ask which data set it is can't use it.
    let finding = of(&told(&server.url_as("worker", "secret")).await, "data set");
    assert!(finding.severity == Severity::Problem && finding.fix.unwrap().contains("+info"), "{}", finding.message);
    // It throws leases away while it goes on as the same.
    server.command(&["CONFIG", "SET", "maxmemory", "100mb"]);
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    assert_eq!(of(&told(&server.url()).await, "eviction").severity, Severity::Problem);
    // One that has had replicas gets another name when they are gone for long.
    let replica = Redis::replica_of(&server);
    drop(replica);
    let finding = of(&told(&server.url()).await, "replication");
    assert!(finding.severity == Severity::Warning && finding.message.contains("1h"), "{finding:?}");
    server.command(&["CONFIG", "SET", "repl-backlog-ttl", "0"]);
    assert_eq!(of(&told(&server.url()).await, "replication").severity, Severity::Fine);
}

/// Whether what is there is what the route leads to.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_of_a_fallback_says_whether_its_primary_is_the_one_that_is_meant() {
    let (server, arbiter) = (Redis::start(), Memory::default());
    let locks = fallback(&server, &arbiter);
    acquires(&locks, "job").await.release().await.unwrap();
    let about = async || {
        let found = locks.diagnose().await.unwrap();
        found.into_iter().find(|finding| finding.subject == "primary").expect("it says something of the primary")
    };
    let finding = about().await;
    assert!(finding.severity == Severity::Fine && finding.message.contains("has heard of route 1"), "{finding:?}");
    server.restart();
    let mut said = Vec::new();
    eventually_async("it is told that it is another one", SOON, async || {
        said.push(about().await);
        said.last().is_some_and(|found| found.severity == Severity::Warning && found.message.contains("replaced"))
    })
    .await;
    assert!(said.last().unwrap().fix.as_ref().unwrap().contains("the route follow it within"), "{said:?}");
    eventually_async("the route follows", 3 * SOON, async || {
        let finding = about().await;
        finding.severity == Severity::Fine && finding.message.contains("has heard of route 2")
    })
    .await;
}

/// What docs/stores/redis.md names, and `+info`.
#[tokio::test]
async fn no_more_rights_are_needed_than_for_locks() {
    let rights = "user worker on >secret ~leasehold:default:* resetchannels -@all +script|load +evalsha +time +get +set +del \
                  +exists +type +pttl +pexpire +pexpireat +hget +hset +hmget +hgetall +hkeys +hdel +zadd +zrem +zrange \
                  +zrangebyscore +zremrangebyscore +zscore +zrank +zcard +zcount +info +select +hello +client";
    let server = Redis::options().acl(&[rights]).start();
    let stage = Stage { store: store(&server.url_as("worker", "secret")), server };
    let (from, to) = (stage.route(1).await, stage.route(2).await);
    let (us, waiter) = (claim("job", TTL), claim("job", TTL));
    stage.takes(&us, &from).await;
    let queuing = Claim { queue: Some(Place::default()), ..waiter };
    assert!(matches!(stage.claims(&queuing, &from).await, Ok(Attempt::Held(_))));
    assert_eq!(stage.renews(&us, &from).await, Ok(Renewal::Renewed));
    assert_eq!(stage.carries(&us, &to).await, Ok(()));
    assert!(stage.store.revoke(&us.name, None, Revoke::Now).await.unwrap().is_some());
    stage.takes(&queuing, &to).await;
}

/// What a store answers to things that are done at random, the same for the same seed; and the tokens in it, of each name.
async fn played(store: &dyn Primary, seed: u64) -> (Vec<String>, [Vec<FencingToken>; 2]) {
    let serving = store.serves().await.unwrap().incarnation;
    let mut random = Random::new(seed);
    // Three under routes, and one without.
    let claims: Vec<_> = (0..8).map(|n| claim(["a", "b"][n % 2], 100 * TTL)).collect();
    let called = |holder| claims.iter().position(|claim| Some(claim.holder) == holder);
    let (mut told, mut tokens, mut last) =
        (Vec::new(), [Vec::new(), Vec::new()], [FencingToken::new(i64::MAX as u64); 8]);
    let mut latest = 1;
    for _ in 0..60 {
        latest += u64::from(random.one_in(8));
        let epoch = if random.one_in(4) { latest.saturating_sub(1).max(1) } else { latest };
        let route = Route { epoch: Epoch::new(epoch), target: Target::Primary(serving.clone()) };
        let who = random.below(6);
        let (us, plain) = (&claims[who], &claims[6 + who % 2]);
        let mut granted = |who: usize, attempt: Attempt| match attempt {
            Attempt::Granted(grant) => {
                tokens[who % 2].push(grant.token);
                last[who] = grant.token;
                "granted".to_owned()
            }
            Attempt::Held(held) => format!("held by {:?} {}", called(held.holder), held.revoked),
            Attempt::NotDue(_) => unreachable!("there are no ticks"),
        };
        let what = random.below(12);
        let answer = match what {
            0..=3 => match Tagged::claim(store, us, &route).await.unwrap() {
                Ok(attempt) => granted(who, attempt),
                Err(refusal) => format!("{refusal:?}"),
            },
            4 | 5 => {
                let carried = Carried { key: lease(us), label: "test".into(), token: last[who], ttl: 100 * TTL };
                format!("{:?}", store.carry(&carried, &route).await.unwrap())
            }
            6 | 7 => {
                let batch: Vec<_> = claims.iter().map(|claim| (lease(claim), TTL)).collect();
                let answers = store.renew_under(&batch, &route).await;
                format!("{:?}", answers.into_iter().map(Result::unwrap).collect::<Vec<_>>())
            }
            8 => format!("{:?}", store.release(&lease(us), Ended::default()).await.unwrap()),
            9 if random.one_in(2) => format!("{:?}", store.release(&lease(plain), Ended::default()).await.unwrap()),
            9 => granted(6 + who % 2, store.try_acquire(plain).await.unwrap()),
            10 => {
                let how = if random.one_in(2) { Revoke::Gently } else { Revoke::Now };
                let hit = store.revoke(&us.name, None, how).await.unwrap();
                format!("{how:?} {:?}", hit.map(|hit| (called(hit.holder), hit.revoked)))
            }
            _ => {
                let held = store.inspect(&us.name).await.unwrap();
                tokens[who % 2].extend(held.as_ref().map(|held| held.token));
                format!("{:?}", held.map(|held| (called(held.holder), held.revoked)))
            }
        };
        told.push(format!("{what} by {who} under {epoch}: {answer}"));
    }
    let watermark = store.serves().await.unwrap().watermark;
    told.push(format!("{watermark:?}"));
    (told, tokens)
}

#[tokio::test]
async fn redis_and_memory_answer_alike_to_whatever_comes_under_routes() {
    let server = Redis::start();
    for seed in 0..80 {
        let store = store(&format!("{}?namespace={seed}", server.url()));
        let ((ours, our_tokens), (theirs, their_tokens)) =
            (played(primary(&*store), seed).await, played(&Memory::default(), seed).await);
        for (step, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, theirs, "seed {seed}, step {step}");
        }
        let ranks = |tokens: &[FencingToken]| -> Vec<usize> {
            tokens.iter().map(|token| tokens.iter().filter(|other| *other < token).count()).collect()
        };
        for (ours, theirs) in our_tokens.iter().zip(&their_tokens) {
            assert_eq!(ranks(ours), ranks(theirs), "seed {seed}: {ours:?} {theirs:?}");
        }
    }
}
