//! One Redis server as a member of a quorum: what it remembers, and what becomes of that when the server loses data.
#![cfg(feature = "redis")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::member::{Member, Memories, Ratified, Vote};
use leasehold::store::OPEN_TICKS;
use leasehold::stores::{Memory, Quorum};
use leasehold::{
    Applied, Attempt, Claim, Due, Ended, ErrorKind, FencingToken, Guard, HolderId, LeaseKey, LockName, Locks, NotDue,
    OpenTick, Outcome, Store, Tick, Verdict,
};
use leasehold_testkit::Random;
use leasehold_testkit::conformance::{self, Subject, member};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::{Redis, RedisCluster};

/// Memory and Redis answer alike.
#[test]
fn memory_is_a_member() {
    for (name, case) in member::CASES {
        println!("{name}");
        conformance::run(
            async {
                let memory = Memory::default();
                memory.restart(Duration::ZERO);
                Subject::from(Arc::new(memory) as Arc<dyn Store>)
            },
            async |subject: &Subject| case(subject).await,
        );
    }
}

#[test]
fn redis_is_a_member() {
    let open = |server: &Redis, [namespace, _]: [&str; 2]| {
        let url = format!("{}?namespace={namespace}&restart_guard=on&max_ttl=4", server.url());
        Subject::new(leasehold::stores::open(&url).expect("the URL is right"))
    };
    conformance::run_all(&Redis::start(), open, member::CASES);
}

/// What may take its time: a restart guard, and what goes on after it.
const SOON: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(4);
const KEEP: Duration = Duration::from_secs(7 * 86400);

/// A server, and a store in it.
struct Stage {
    server: Redis,
    store: Arc<dyn Store>,
}

/// Somebody's lease.
struct Held {
    lease: LeaseKey,
    token: FencingToken,
}

impl Stage {
    fn start() -> Self {
        Self::of(Redis::start())
    }

    fn of(server: Redis) -> Self {
        let store = store(&guarded(&server.url()));
        Self { server, store }
    }

    fn member(&self) -> &dyn Member {
        self.store.as_member().expect("one server can be one")
    }

    async fn recalls(&self, name: &LockName) -> Memories {
        self.member().recall(name).await.unwrap()
    }

    async fn adopts(&self, name: &LockName, memories: &Memories) {
        eventually_async("it adopts", SOON, async || {
            let life = match self.member().recall(name).await {
                Ok(memories) => memories.life,
                Err(_) => return false, // its connection has just broken
            };
            match self.member().adopt(name, memories, &life).await {
                Ok(()) => true,
                Err(error) => {
                    assert!(error.is_transient(), "{error}");
                    false
                }
            }
        })
        .await;
    }

    async fn founds(&self, floor: Tick) {
        eventually_async("it is founded", SOON, async || {
            let life = self.recalls(&name("any")).await.life;
            self.member().found(floor, &life).await.is_ok()
        })
        .await;
    }

    async fn claims(&self, name: &LockName) -> Held {
        let claim = Claim::new(name.clone(), HolderId::fresh(), "test".into(), TTL);
        let mut granted = None;
        eventually_async("it is granted", SOON, async || {
            if let Ok(Attempt::Granted(grant)) = self.store.try_acquire(&claim).await {
                granted = Some(grant.token);
            }
            granted.is_some()
        })
        .await;
        Held { lease: LeaseKey { name: name.clone(), holder: claim.holder }, token: granted.unwrap() }
    }

    async fn ratifies(&self, held: &Held, due: Option<Due>) -> Ratified {
        self.member().ratify(&held.lease, held.token, due).await.unwrap()
    }

    async fn concludes(&self, held: &Held, verdict: Verdict) {
        let how = Ended { verdict: Some(verdict), ..Ended::default() };
        let _ = self.member().conclude(&held.lease, how).await.unwrap();
    }

    /// Ticks a second apart, the first an hour ago.
    async fn tick(&self, number: u32) -> Tick {
        let first = self.store.time().await.unwrap() - Duration::from_secs(3600);
        Tick::from_unix_millis((first.as_secs() * 1000) as i64 + i64::from(number) * 1000).unwrap()
    }

    fn key(&self, name: &str) -> String {
        format!("leasehold:default:{{{name}}}")
    }
}

fn guarded(url: &str) -> String {
    format!("{url}?restart_guard=on&max_ttl=4")
}

fn store(url: &str) -> Arc<dyn Store> {
    leasehold::stores::open(url).unwrap()
}

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn due(tick: Tick, retry_failed: bool) -> Due {
    Due { tick, retry_failed, keep: KEEP }
}

fn above(token: FencingToken, by: usize) -> FencingToken {
    FencingToken::new(token.number() + by as u64)
}

fn is_over(ratified: &Ratified) -> bool {
    matches!(ratified, Ratified::NotDue(NotDue::Claimed { unfinished: false, .. }))
}

/// Tokens come from all members' clocks: one that is hours ahead must not keep the others from granting, now or later.
#[tokio::test]
async fn tokens_that_others_clocks_are_ahead_with_are_counted_on_from() {
    let stage = Stage::start();
    let (ratified, adopted) = (name("ratified"), name("adopted"));
    let floor = stage.tick(0).await;
    stage.founds(floor).await;
    let held = stage.claims(&ratified).await;
    let ahead = FencingToken::new(held.token.number() + 7_200_000 * 16);
    let theirs = stage.member().ratify(&held.lease, ahead, None).await.unwrap();
    assert!(matches!(theirs, Ratified::Yes { token, .. } if token == ahead), "{theirs:?}");
    stage.store.leave(&held.lease).await.unwrap();
    let life = stage.recalls(&adopted).await.life;
    let memories = Memories { token: ahead, ..Memories::default() };
    eventually_async("its guard is over", SOON, async || {
        stage.member().adopt(&adopted, &memories, &life).await.is_ok()
    })
    .await;
    for job in [&ratified, &adopted] {
        let next = stage.claims(job).await;
        assert!(next.token > ahead, "{job}: {:?}", next.token);
        let again = stage.ratifies(&next, None).await;
        assert!(matches!(again, Ratified::Yes { token, .. } if token >= next.token), "{again:?}");
    }
}

#[tokio::test]
async fn q04_a_server_that_comes_back_empty_grants_and_adopts_nothing_for_max_ttl() {
    let stage = Stage::start();
    let job = name("job");
    stage.adopts(&job, &Memories::default()).await;
    let before = stage.recalls(&job).await;
    assert!(before.is_full && !before.is_blank);
    stage.server.restart();
    let came_back = Instant::now();
    let mut after = None;
    eventually_async("it is there again", SOON, async || {
        after = stage.member().recall(&job).await.ok();
        after.is_some()
    })
    .await;
    let after = after.unwrap();
    assert!(!after.is_full && after.is_blank && after.life != before.life, "{after:?}");
    let claim = Claim::new(job.clone(), HolderId::fresh(), "test".into(), TTL);
    for error in [
        stage.store.try_acquire(&claim).await.unwrap_err(),
        stage.member().adopt(&job, &Memories::default(), &after.life).await.unwrap_err(),
        stage.member().found(stage.tick(0).await, &after.life).await.unwrap_err(),
    ] {
        assert!(error.is_passing() && error.applied() == Applied::No, "{error}");
    }
    let error = stage.member().adopt(&job, &Memories::default(), &before.life).await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    stage.adopts(&job, &Memories::default()).await;
    assert!(came_back.elapsed() >= Duration::from_secs(4), "{:?}", came_back.elapsed());
    let held = stage.claims(&job).await;
    assert!(matches!(stage.ratifies(&held, None).await, Ratified::Yes { .. }));
}

#[tokio::test]
async fn what_an_old_snapshot_has_does_not_count_before_it_is_adopted() {
    let stage = Stage::start();
    let job = name("job");
    let ticks = [stage.tick(0).await, stage.tick(1).await, stage.tick(2).await, stage.tick(3).await];
    stage.adopts(&job, &Memories::default()).await;
    // The first is done in the snapshot, the second and third stand open there, and are done later.
    for (tick, is_done) in [(ticks[0], true), (ticks[1], false), (ticks[2], false)] {
        let held = stage.claims(&job).await;
        assert!(matches!(stage.ratifies(&held, Some(due(tick, true))).await, Ratified::Yes { attempt: 1, .. }));
        stage.concludes(&held, if is_done { Verdict::Done(tick) } else { Verdict::Failed }).await;
    }
    let saved = stage.recalls(&job).await;
    assert_eq!(saved.open.len(), 2);
    stage.server.command(&["SAVE"]);
    stage.server.restart();
    let mut recalled = None;
    eventually_async("it is there again", SOON, async || {
        recalled = stage.member().recall(&job).await.ok();
        recalled.is_some()
    })
    .await;
    let recalled = recalled.unwrap();
    assert_eq!((recalled.newest, recalled.token), (saved.newest, saved.token), "it has its data");
    assert!(!recalled.is_full && !recalled.is_blank && recalled.open.is_empty(), "{recalled:?}");
    let held = stage.claims(&job).await;
    assert_eq!(stage.ratifies(&held, Some(due(ticks[1], true))).await, Ratified::NotFull);
    stage.store.leave(&held.lease).await.unwrap();
    // The others know that the second is done, and have not heard that the first is.
    let open = OpenTick { holder: None, attempts: 1, once: false };
    let open: BTreeMap<_, _> = [(ticks[0], open), (ticks[2], open), (ticks[3], open)].into();
    let memories = Memories { newest: Some(ticks[3]), open, ..Memories::default() };
    stage.adopts(&job, &memories).await;
    let known = stage.recalls(&job).await;
    assert_eq!(known.open.into_keys().collect::<Vec<_>>(), [ticks[2], ticks[3]]);
    assert!(known.is_full && known.newest == Some(ticks[3]) && known.token >= saved.token);
    let held = stage.claims(&job).await;
    for tick in [ticks[0], ticks[1]] {
        assert!(is_over(&stage.ratifies(&held, Some(due(tick, true))).await), "{tick} runs twice");
    }
    assert!(matches!(stage.ratifies(&held, Some(due(ticks[2], true))).await, Ratified::Yes { attempt: 2, .. }));
}

#[tokio::test]
async fn what_stood_open_before_it_was_founded_is_not_run() {
    let stage = Stage::of(Redis::options().append_only().start());
    let (job, tick, floor) = (name("job"), stage.tick(0).await, stage.tick(1).await);
    stage.adopts(&job, &Memories::default()).await;
    let held = stage.claims(&job).await;
    assert!(matches!(stage.ratifies(&held, Some(due(tick, true))).await, Ratified::Yes { attempt: 1, .. }));
    stage.concludes(&held, Verdict::Failed).await;
    stage.founds(floor).await;
    assert_eq!(stage.recalls(&job).await.open.len(), 1, "it is the same life");
    stage.server.restart();
    eventually_async("it is there again", SOON, async || stage.member().recall(&job).await.is_ok()).await;
    assert!(!stage.recalls(&name("other")).await.is_full, "it was founded in an earlier life");
    stage.founds(floor).await;
    let known = stage.recalls(&job).await;
    assert!(known.is_full && known.open.is_empty() && known.floor == Some(floor), "{known:?}");
    let held = stage.claims(&job).await;
    assert!(is_over(&stage.ratifies(&held, Some(due(tick, true))).await), "it may have been done since");
    assert!(matches!(stage.ratifies(&held, Some(due(stage.tick(5).await, true))).await, Ratified::Yes { .. }));
    assert_eq!(stage.recalls(&job).await.open.len(), 1);
}

/// A founding has tokens begin at its floor, minutes ahead of the clock.
#[tokio::test]
async fn since_when_it_is_held_is_known_though_its_token_is_ahead_of_the_clock() {
    let stage = Stage::start();
    let job = name("job");
    stage.founds(stage.tick(3600 + 300).await).await;
    for _ in 0..2 {
        let held = stage.claims(&job).await;
        assert!(matches!(stage.ratifies(&held, None).await, Ratified::Yes { .. }));
        eventually_async("it has been held for a while", SOON, async || {
            let shown = stage.store.inspect(&job).await.unwrap().expect("it is held");
            assert!(shown.held_for < SOON, "{shown:?}");
            shown.held_for >= Duration::from_millis(20)
        })
        .await;
        // So nobody is told that it was granted in the future, and how to end it.
        let findings = stage.store.diagnose().await.unwrap();
        assert!(!findings.iter().any(|found| found.message.contains("in the future")), "{findings:?}");
        stage.concludes(&held, Verdict::Failed).await;
    }
}

/// What was announced to a server that has lost its data since is nothing: it may have been used in between.
#[tokio::test]
async fn an_announcement_goes_with_the_data() {
    let stage = Stage::of(Redis::options().append_only().start());
    let (any, floor) = (name("any"), stage.tick(0).await);
    let announced = async || stage.recalls(&any).await.announced;
    let announce = async || {
        let life = stage.recalls(&any).await.life;
        stage.member().announce(floor, &life).await.is_ok()
    };
    eventually_async("its guard is over", SOON, announce).await;
    assert_eq!(announced().await, Some(floor));
    stage.server.command(&["FLUSHALL"]);
    assert_eq!(announced().await, None);
    assert!(announce().await);
    stage.server.restart();
    eventually_async("it is there again", SOON, async || stage.member().recall(&any).await.is_ok()).await;
    assert_eq!(announced().await, None, "that was in another life");
}

/// Claims that wait for replicas have a connection of their own.
#[tokio::test]
async fn it_is_known_who_has_answered_over_each_connection() {
    let server = Redis::start();
    let store = store(&format!("{}&wait_replicas=1", guarded(&server.url())));
    let member = store.as_member().unwrap();
    let known = || [Vote::Claim, Vote::Renewal].map(|vote| member.last_life(vote).is_some());
    let (claim, job) = (Claim::new(name("job"), HolderId::fresh(), "test".into(), TTL), name("job"));
    assert_eq!(known(), [false, false]);
    // It has no replica to wait for.
    store.try_acquire(&claim).await.unwrap_err();
    assert_eq!(known(), [true, false]);
    drop(store.renew(&[(LeaseKey { name: job, holder: claim.holder }, TTL)]).await);
    assert_eq!(known(), [true, true]);
}

#[tokio::test]
async fn a_member_that_was_wiped_guards_itself() {
    let stage = Stage::start();
    let job = name("job");
    stage.founds(stage.tick(0).await).await;
    stage.adopts(&job, &Memories::default()).await;
    let held = stage.claims(&job).await;
    assert!(matches!(stage.ratifies(&held, None).await, Ratified::Yes { .. }));
    stage.server.command(&["FLUSHALL"]);
    let since = Instant::now();
    let wiped = stage.recalls(&job).await;
    assert!(!wiped.is_full && wiped.is_blank, "{wiped:?}");
    assert_eq!(stage.ratifies(&held, None).await, Ratified::Gone);
    let next = stage.claims(&job).await;
    assert_eq!(stage.ratifies(&next, None).await, Ratified::NotFull, "two may hold it");
    let error = stage.member().adopt(&job, &Memories::default(), &wiped.life).await.unwrap_err();
    assert!(error.is_passing() && error.to_string().contains("takes nothing over for another"), "{error}");
    stage.adopts(&job, &Memories::default()).await;
    assert!(since.elapsed() >= Duration::from_secs(4), "{:?}", since.elapsed());
    let last = stage.claims(&job).await;
    assert!(matches!(stage.ratifies(&last, None).await, Ratified::Yes { token, .. } if token > held.token));
}

#[tokio::test]
async fn a_name_whose_hash_was_deleted_is_not_full() {
    let stage = Stage::start();
    let (job, other) = (name("job"), name("other"));
    for name in [&job, &other] {
        stage.adopts(name, &Memories::default()).await;
    }
    let held = stage.claims(&job).await;
    stage.server.command(&["DEL", &format!("{}:h", stage.key("job"))]);
    assert_eq!(stage.ratifies(&held, None).await, Ratified::Gone, "its token is not known");
    stage.server.command(&["DEL", &stage.key("job")]);
    let held = stage.claims(&job).await;
    assert_eq!(stage.ratifies(&held, None).await, Ratified::NotFull);
    assert!(stage.recalls(&other).await.is_full);
    let life = stage.recalls(&job).await.life;
    stage.member().adopt(&job, &Memories::default(), &life).await.unwrap();
    assert!(matches!(stage.ratifies(&held, None).await, Ratified::Yes { .. }));
    // What it knows of its own life.
    stage.founds(stage.tick(0).await).await;
    assert!(stage.recalls(&name("any")).await.is_full);
    stage.server.command(&["DEL", "leasehold:default:life"]);
    assert!(!stage.recalls(&name("any")).await.is_full && stage.recalls(&job).await.is_full);
}

#[tokio::test]
async fn a_server_that_was_demoted_for_a_moment_lives_another_life() {
    let stage = Stage::start();
    let job = name("job");
    stage.adopts(&job, &Memories::default()).await;
    let held = stage.claims(&job).await;
    let before = stage.recalls(&job).await.life;
    stage.server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    stage.server.command(&["REPLICAOF", "NO", "ONE"]);
    tokio::time::sleep(Duration::from_millis(1100)).await; // until it is asked again who it is
    let error = stage.member().ratify(&held.lease, held.token, None).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let after = stage.recalls(&job).await;
    assert!(after.life != before && !after.is_full, "{after:?}");
    assert_eq!(&*stage.member().identity().await.unwrap().server, &*after.life);
    let error = stage.member().adopt(&job, &Memories::default(), &before).await.unwrap_err();
    assert!(error.is_passing(), "{error}");
}

#[tokio::test]
async fn something_of_another_program_is_no_lease() {
    let stage = Stage::start();
    let job = name("job");
    stage.adopts(&job, &Memories::default()).await;
    let held = stage.claims(&job).await;
    stage.server.command(&["SET", &stage.key("job"), "theirs", "PX", "60000"]);
    assert_eq!(stage.ratifies(&held, None).await, Ratified::Gone);
    stage.server.command(&["DEL", &stage.key("job")]);
    stage.server.command(&["RPUSH", &stage.key("job"), "theirs"]);
    let error = stage.member().ratify(&held.lease, held.token, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    stage.server.command(&["SET", &format!("{}:h", stage.key("other")), "theirs"]);
    for error in [
        stage.member().recall(&name("other")).await.unwrap_err(),
        stage.member().adopt(&name("other"), &Memories::default(), &stage.recalls(&job).await.life).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("another namespace"), "{error}");
    }
}

#[tokio::test]
async fn a_key_is_forgotten_when_its_time_is_over() {
    let stage = Stage::start();
    let (invoice, keep) = (name("invoice"), Duration::from_secs(1));
    stage.adopts(&invoice, &Memories::default()).await;
    let once = Some(Due { tick: Tick::ONLY, retry_failed: false, keep });
    let held = stage.claims(&invoice).await;
    assert!(matches!(stage.ratifies(&held, once).await, Ratified::Yes { attempt: 1, .. }));
    let ended = Instant::now();
    stage.concludes(&held, Verdict::Done(Tick::ONLY)).await;
    let next = stage.claims(&invoice).await;
    // Asked later, on a machine that is that busy, it is forgotten, and its own.
    assert!(is_over(&stage.ratifies(&next, once).await) || ended.elapsed() >= keep);
    tokio::time::sleep(keep + Duration::from_millis(200)).await;
    assert!(matches!(stage.ratifies(&next, once).await, Ratified::Yes { attempt: 1, .. }));
}

/// Nor do others learn of it then; and who has learnt of one forgets it as they do, if later.
#[tokio::test]
async fn a_key_that_is_forgotten_is_not_told_and_one_that_was_adopted_is_forgotten() {
    let stage = Stage::start();
    let (told, adopted) = (name("told"), name("adopted"));
    stage.adopts(&told, &Memories::default()).await;
    let held = stage.claims(&told).await;
    let short = Due { tick: Tick::ONLY, retry_failed: false, keep: Duration::from_secs(2) };
    assert!(matches!(stage.ratifies(&held, Some(short)).await, Ratified::Yes { .. }));
    let ended = Instant::now();
    stage.concludes(&held, Verdict::Done(Tick::ONLY)).await;
    let newest = stage.recalls(&told).await.newest;
    assert!(newest == Some(Tick::ONLY) || ended.elapsed() >= short.keep, "{newest:?}");
    eventually_async("it is forgotten", SOON, async || stage.recalls(&told).await.newest.is_none()).await;
    let known = Memories { newest: Some(Tick::ONLY), kept_for: Duration::from_secs(8), ..Memories::default() };
    stage.adopts(&adopted, &known).await;
    let held = stage.claims(&adopted).await;
    assert!(is_over(&stage.ratifies(&held, Some(short)).await));
    stage.concludes(&held, Verdict::NotStarted).await;
    eventually_async("its time is over", SOON, async || stage.recalls(&adopted).await.newest.is_none()).await;
    let held = stage.claims(&adopted).await;
    assert!(matches!(stage.ratifies(&held, Some(short)).await, Ratified::Yes { .. }));
}

#[tokio::test]
async fn the_oldest_of_too_many_open_ticks_is_given_up() {
    let stage = Stage::start();
    let job = name("job");
    stage.adopts(&job, &Memories::default()).await;
    let first = stage.tick(0).await;
    for number in 0..=OPEN_TICKS as i64 {
        let tick = Tick::from_unix_millis(first.as_unix_millis() + number * 1000).unwrap();
        let held = stage.claims(&job).await;
        let Ratified::Yes { gave_up, .. } = stage.ratifies(&held, Some(due(tick, true))).await else {
            panic!("{tick}")
        };
        assert_eq!(gave_up, (number == OPEN_TICKS as i64).then_some(first));
        let _ = stage.store.release(&held.lease, Ended::default()).await.unwrap();
    }
    assert_eq!(stage.recalls(&job).await.open.len(), OPEN_TICKS);
}

#[tokio::test]
async fn only_what_it_knows_of_its_own_life_has_no_end() {
    let stage = Stage::start();
    let done = Ended { verdict: Some(Verdict::Done(stage.tick(0).await)), ..Ended::default() };
    let nobody = LeaseKey { name: name("heard of"), holder: HolderId::fresh() };
    let _ = stage.member().conclude(&nobody, done).await.unwrap();
    stage.adopts(&name("adopted"), &Memories::default()).await;
    let held = stage.claims(&name("adopted")).await;
    let _ = stage.ratifies(&held, Some(due(stage.tick(0).await, true))).await;
    stage.founds(stage.tick(0).await).await;
    for key in stage.server.command(&["KEYS", "*"]).items() {
        let (key, left) = (key.text(), stage.server.command(&["PTTL", &key.text()]).integer());
        assert_eq!(left < 0, key == "leasehold:default:life", "{key}: {left}");
    }
}

#[tokio::test]
async fn which_servers_can_be_members() {
    let server = Redis::start();
    let replica = Redis::replica_of(&server);
    let cluster = RedisCluster::start();
    let unfit = async |url: &str| store(url).as_member().unwrap().identity().await.unwrap().unfit;
    assert_eq!(unfit(&guarded(&server.url())).await, None);
    assert_eq!(unfit(&format!("{}&wait_replicas=1", guarded(&server.url()))).await, None);
    for (url, why) in [
        (server.url(), "add restart_guard=on"),
        (guarded(&replica.url()), "it is a replica of 127.0.0.1:"),
        (guarded(&cluster.nodes()[0].url()), "it is a part of a cluster"),
    ] {
        let told = unfit(&url).await.expect("it can't be one");
        assert!(told.contains(why), "{told}");
    }
    for url in ["redis+sentinel://h/main", "redis+cluster://h", "redis://h?compat=plain&restart_guard=on"] {
        assert!(store(url).as_member().is_none(), "{url}");
    }
    let identity = store(&guarded(&server.url())).as_member().unwrap().identity().await.unwrap();
    assert_eq!(identity.max_ttl, Duration::from_secs(4));
    let other_name = guarded(&format!("redis://localhost:{}", server.port()));
    assert_eq!(store(&other_name).as_member().unwrap().identity().await.unwrap(), identity, "under whatever address");
}

#[tokio::test]
async fn who_may_not_ask_a_member_who_it_is_is_told_so() {
    let server = Redis::options().acl(&["user worker on >secret ~* &* +@all -info"]).start();
    let store = store(&guarded(&server.url_as("worker", "secret")));
    let error = store.as_member().unwrap().identity().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

/// What docs/stores/redis.md names, `+info` and `+eval`.
#[tokio::test]
async fn no_more_rights_are_needed_than_for_locks() {
    let rights = "user worker on >secret ~leasehold:default:* resetchannels -@all +script|load +evalsha +time +get +set +del \
                  +exists +type +pttl +pexpire +pexpireat +hget +hset +hmget +hgetall +hkeys +hdel +zadd +zrem +zrange \
                  +zrangebyscore +zremrangebyscore +zscore +zrank +zcard +zcount +info +eval +select +hello +client";
    let server = Redis::options().acl(&[rights]).start();
    let stage = Stage { store: store(&guarded(&server.url_as("worker", "secret"))), server };
    let (job, tick) = (name("job"), stage.tick(0).await);
    assert_eq!(stage.member().identity().await.unwrap().unfit, None);
    let open = [(tick, OpenTick { holder: None, attempts: 1, once: false })].into();
    stage.adopts(&job, &Memories { newest: Some(tick), open, ..Memories::default() }).await;
    stage.founds(tick).await;
    let held = stage.claims(&job).await;
    assert!(matches!(stage.ratifies(&held, Some(due(tick, true))).await, Ratified::Yes { attempt: 2, .. }));
    stage.concludes(&held, Verdict::Done(tick)).await;
}

/// What a member answers to things that are done at random, the same for the same seed.
async fn played(store: &dyn Store, seed: u64, first: Tick) -> Vec<String> {
    let member = store.as_member().unwrap();
    let (mut random, mut told, mut is_founded) = (Random::new(seed), Vec::new(), false);
    let names = [name(&format!("a {seed}")), name(&format!("b {seed}"))];
    let tick_of = |number: usize| match number {
        0 => Tick::ONLY,
        _ => Tick::from_unix_millis(first.as_unix_millis() + number as i64).unwrap(),
    };
    let number_of = |tick: Tick| (0..9).find(|number| tick_of(*number) == tick);
    let mut slots: Vec<_> =
        (0..6).map(|n| LeaseKey { name: names[n % 2].clone(), holder: HolderId::fresh() }).collect();
    let mut tokens = [FencingToken::default(); 6];
    let life = member.recall(&names[0]).await.unwrap().life;
    for _ in 0..100 {
        let who = random.below(6);
        let name = &names[who % 2];
        let due = Due { tick: tick_of(random.below(8)), retry_failed: random.one_in(2), keep: KEEP };
        let verdict = [Verdict::Done(due.tick), Verdict::Failed, Verdict::NotStarted][random.below(3)];
        let what = random.below(13);
        let answer = match what {
            0..=2 => {
                let holder = if random.one_in(3) { HolderId::fresh() } else { slots[who].holder };
                let claim = Claim::new(name.clone(), holder, "test".into(), TTL);
                match store.try_acquire(&claim).await.unwrap() {
                    Attempt::Granted(grant) => {
                        slots[who].holder = holder;
                        tokens[who] = grant.token;
                        "granted".to_owned()
                    }
                    Attempt::Held(held) => {
                        format!("held by {:?}", slots.iter().position(|slot| Some(slot.holder) == held.holder))
                    }
                    Attempt::NotDue(_) => unreachable!("it has no tick"),
                }
            }
            3..=6 => {
                let due = (!random.one_in(4)).then_some(due);
                let token = above(tokens[who], random.below(2));
                match member.ratify(&slots[who], token, due).await.unwrap() {
                    Ratified::Yes { token, attempt, gave_up } => {
                        let by = token.number() - tokens[who].number();
                        tokens[who] = token;
                        // Memory's counters begin at nothing, and are raised to the floor.
                        format!("{due:?}: raised {} attempt {attempt} {gave_up:?}", by > 0 && !is_founded)
                    }
                    Ratified::NotDue(NotDue::Claimed { newest, unfinished }) => {
                        format!("{due:?}: over {:?} {unfinished}", number_of(newest))
                    }
                    other => format!("{due:?}: {other:?}"),
                }
            }
            7 | 8 => {
                let how = Ended { verdict: (!random.one_in(4)).then_some(verdict), ..Ended::default() };
                format!("{how:?} {:?}", member.conclude(&slots[who], how).await.unwrap())
            }
            9 if random.one_in(4) && !is_founded => {
                is_founded = true;
                format!("{:?}", member.found(tick_of(3), &life).await.is_ok())
            }
            // One that is founded adopts no ticks.
            9 | 10 if !is_founded => {
                let open = (0..random.below(4)).map(|_| {
                    let holder = random.one_in(2).then(|| slots[random.below(6)].holder);
                    let (attempts, once) = (random.below(3) as u32, random.one_in(2));
                    (tick_of(random.below(8)), OpenTick { holder, attempts, once })
                });
                let open: BTreeMap<_, _> = open.collect();
                let newest = open.last_key_value().map(|(tick, _)| *tick);
                let token = above(member.recall(name).await.unwrap().token, random.below(3));
                let floor = random.one_in(4).then(|| tick_of(2));
                let memories = Memories { token, newest, floor, open, ..Memories::default() };
                format!("{:?}", member.adopt(name, &memories, &life).await.is_ok())
            }
            12 => format!("{}", store.reset_marks(name).await.unwrap()),
            _ => {
                let known = member.recall(name).await.unwrap();
                let open: Vec<_> = known
                    .open
                    .iter()
                    .map(|(tick, open)| {
                        let holder = slots.iter().position(|slot| Some(slot.holder) == open.holder);
                        (number_of(*tick), holder, open.attempts, open.once)
                    })
                    .collect();
                let marks = (known.newest.map(number_of), known.floor.map(number_of));
                format!("{} {} {marks:?} {open:?}", known.is_full, known.is_blank)
            }
        };
        told.push(format!("{what} by {who}: {answer}"));
    }
    told
}

#[tokio::test]
async fn redis_and_memory_answer_alike_to_whatever_comes() {
    let server = Redis::start();
    let first = Stage::start().tick(0).await;
    // The guard is that of the namespace.
    let warm = async |store: &dyn Store| {
        let member = store.as_member().unwrap();
        eventually_async("it adopts", SOON, async || {
            let Ok(known) = member.recall(&name("warm")).await else { return false };
            member.adopt(&name("warm"), &Memories::default(), &known.life).await.is_ok()
        })
        .await;
    };
    let stores: Vec<_> = (0..40).map(|seed| store(&format!("{}&namespace={seed}", guarded(&server.url())))).collect();
    join_all(stores.iter().map(async |redis| warm(&**redis).await)).await;
    for (seed, redis) in (0..).zip(&stores) {
        let memory = Memory::default();
        memory.restart(Duration::ZERO);
        warm(&memory).await;
        let (ours, theirs) = (played(&**redis, seed, first).await, played(&memory, seed, first).await);
        let whole = &theirs;
        for (step, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, theirs, "seed {seed}, step {step}, after {:#?}", &whole[..step]);
        }
    }
}

/// Five servers under one roof.
struct Five {
    servers: Vec<Redis>,
    store: Arc<dyn Store>,
    locks: Locks,
}

impl Five {
    fn new() -> Self {
        let servers: Vec<_> = (0..5).map(|_| Redis::start()).collect();
        let members = servers.iter().map(|server| (server.address(), store(&guarded(&server.url()))));
        let store: Arc<dyn Store> = Arc::new(Quorum::of(members).unwrap());
        Self { servers, locks: Locks::over(Arc::clone(&store)), store }
    }

    async fn start() -> Self {
        let five = Self::new();
        drop(five.acquires("first").await);
        five
    }

    /// So that ticks of the last hour are due: by itself a quorum is founded with a floor that is ahead.
    async fn founded_an_hour_ago() -> Self {
        let five = Self::new();
        let then = five.store.time().await.unwrap() - Duration::from_secs(3600);
        let floor = Tick::from_unix_millis(then.as_millis() as i64).unwrap();
        for server in &five.servers {
            let store = store(&guarded(&server.url()));
            let member = store.as_member().unwrap();
            eventually_async("it is founded", SOON, async || {
                let Ok(known) = member.recall(&name("any")).await else { return false };
                member.found(floor, &known.life).await.is_ok()
            })
            .await;
        }
        five
    }

    async fn acquires(&self, name: &str) -> Guard {
        let began = Instant::now();
        loop {
            match self.locks.lock(name).ttl(TTL).try_acquire().await {
                Ok(Outcome::Acquired(guard)) => return guard,
                other => assert!(began.elapsed() < SOON, "{other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether the work of a key may be done now.
    async fn is_due(&self, key: &str) -> bool {
        let began = Instant::now();
        loop {
            match self.locks.once(key, KEEP).ttl(TTL).try_acquire().await {
                Ok(Outcome::Acquired(guard)) => {
                    guard.complete().await.unwrap();
                    return true;
                }
                Ok(Outcome::NotDue(_)) => return false,
                other => assert!(began.elapsed() < SOON, "{other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_servers_are_one_store_and_one_may_come_back_empty() {
    let five = Five::start().await;
    let guard = five.acquires("job").await;
    assert!(matches!(five.locks.lock("job").ttl(TTL).try_acquire().await, Ok(Outcome::Contended(_))));
    assert!(five.is_due("invoice").await && !five.is_due("invoice").await, "once");
    five.servers[0].kill();
    tokio::time::sleep(TTL * 2).await;
    assert!(guard.is_valid(), "it is renewed");
    let token = guard.token();
    guard.release().await.unwrap();
    five.servers[0].restart();
    let next = five.acquires("job").await;
    assert!(next.token() > token);
    next.release().await.unwrap();
    // Once it has learnt from the others what it has forgotten, two of these can be done without.
    let first = store(&guarded(&five.servers[0].url()));
    eventually_async("it is filled", SOON, async || {
        assert!(!five.is_due("invoice").await, "twice");
        let known = first.as_member().unwrap().recall(&name("invoice")).await;
        known.is_ok_and(|known| known.is_full && known.newest == Some(Tick::ONLY))
    })
    .await;
    five.servers[3].kill();
    five.servers[4].kill();
    assert!(!five.is_due("invoice").await, "twice");
    five.servers[1].kill();
    let error = five.locks.lock("job").ttl(TTL).try_acquire().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
}

/// Each when the one before knows everything again. Keys that ran are asked for by nobody meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn all_servers_are_restarted_one_after_another_and_nothing_is_lost() {
    let five = Five::founded_an_hour_ago().await;
    drop(five.acquires("first").await);
    let tick = Tick::from_unix_millis(five.store.time().await.unwrap().as_millis() as i64).unwrap();
    // Some members may be late at first.
    let nightly = async || {
        let began = Instant::now();
        loop {
            match five.locks.lock("nightly").ttl(TTL).tick(tick).try_acquire().await {
                Ok(outcome) => return outcome,
                Err(error) => assert!(error.is_transient() && began.elapsed() < SOON, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let Outcome::Acquired(guard) = nightly().await else { panic!("it is due") };
    guard.complete().await.unwrap();
    for number in 0..20 {
        assert!(five.is_due(&format!("invoice-{number}")).await);
    }
    for server in &five.servers {
        server.restart();
        let store = store(&guarded(&server.url()));
        eventually_async("it is full for every name", SOON * 2, async || {
            drop(five.acquires("work").await);
            let page = store.as_member().unwrap().names(0, 1).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            page.is_ok_and(|page| page.whole.is_some())
        })
        .await;
    }
    assert!(five.is_due("a new one").await, "without an operator");
    for number in [0, 7, 19] {
        assert!(!five.is_due(&format!("invoice-{number}")).await, "twice");
    }
    let outcome = nightly().await;
    assert!(matches!(outcome, Outcome::NotDue(NotDue::Claimed { .. })), "{outcome:?}");
}

/// Nobody stands in a queue, so nobody is told of a release but who listens to the name.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_quorum_is_woken_by_a_release() {
    let five = Five::start().await;
    let members = five.servers.iter().map(|server| (server.address(), store(&guarded(&server.url()))));
    let other = Quorum::of(members).unwrap();
    let guard = five.acquires("job").await;
    let mut wake_ups = other.subscribe(&name("job")).await.unwrap();
    let calm = Duration::from_millis(700);
    while tokio::time::timeout(calm, wake_ups.next()).await.is_ok() {}
    // What is released under another name is not for them.
    five.acquires("another").await.release().await.unwrap();
    assert!(tokio::time::timeout(calm, wake_ups.next()).await.is_err(), "nothing of it was released");
    guard.release().await.unwrap();
    tokio::time::timeout(SOON, wake_ups.next()).await.expect("it is told");
    let channels = |server: &Redis| server.command(&["PUBSUB", "CHANNELS", "*{job}*"]).items().len();
    let channels = || five.servers.iter().map(channels).sum::<usize>();
    assert!(channels() >= 3, "at a majority: {}", channels());
    drop(wake_ups);
    eventually_async("it is listened to no more", SOON, async || channels() == 0).await;
}
