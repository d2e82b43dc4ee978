//! The Redis store beside real servers that stop, forget, fill up and are cut off. What every store must do is in
//! `conformance.rs`. The numbers are those of the fault of another system that the test was made of.
#![cfg(feature = "redis")]

use std::time::{Duration, Instant};

use leasehold::store::QUEUE_ENTRY;
use leasehold::validity::Moment;
use leasehold::{
    Applied, Attempt, Claim, Due, Ended, ErrorKind, Guard, HolderId, LeaseKey, LockName, Locks, LossReason, Outcome,
    Place, Release, Renewal, Tick, Verdict, Wait,
};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::proxy::{Direction, Proxy, Then};
use leasehold_testkit::servers::Redis;

mod claims;
use claims::{SOON, TTL, acquired, is_free, locks};

const MINUTE: Duration = Duration::from_secs(60);

/// Of a lease that is to be renewed, or lost for a reason that is to be told, though the machine is busy for a moment.
const LASTING: Duration = Duration::from_secs(6);

fn key(name: &str) -> String {
    format!("leasehold:default:{{{name}}}")
}

/// How many scripts clients have had run.
fn scripts(server: &Redis) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

/// A release that is under way for longer than its lease lasts finds another's key.
#[tokio::test]
async fn a02_a_release_is_one_command_and_a_late_one_leaves_the_next_holder_alone() {
    let server = Redis::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    let guard = acquired(&ours.lock("other").ttl(Duration::from_secs(600))).await;
    let before = scripts(&server);
    guard.release().await.unwrap();
    assert_eq!(scripts(&server), before + 1, "the look and the deletion are one");

    let guard = acquired(&ours.lock("job").ttl(TTL)).await;
    proxy.delay(Direction::ToServer, TTL * 2);
    let late = tokio::spawn(guard.release());
    let next = tokio::time::timeout(SOON, others.lock("job").ttl(TTL).acquire()).await.expect("that ends by itself");
    let next = next.unwrap().guard().unwrap();
    let sent = proxy.passed(Direction::ToServer) + proxy.held(Direction::ToServer);
    assert!(proxy.held(Direction::ToServer) > 0, "it is still under way");
    eventually_async("it arrives", SOON, async || proxy.passed(Direction::ToServer) >= sent).await;
    let key = key("job");
    assert_eq!(server.command(&["GET", &key]).text(), next.holder().to_string());
    assert!(next.is_valid());
    assert_eq!(next.release().await.unwrap(), leasehold::Released::InTime);
    let late = late.await.unwrap();
    assert!(!matches!(late, Ok(leasehold::Released::InTime)), "{late:?}");
}

#[tokio::test]
async fn b01_a_grant_whose_answer_is_late_is_taken_back() {
    let server = Redis::start();
    let proxy = Proxy::to(server.address());
    let (ours, others) = (locks(&proxy.url(&server.url())).await, locks(&server.url()).await);
    acquired(&ours.lock("warm").ttl(TTL)).await.release().await.unwrap();
    proxy.blackhole(Direction::ToClient);
    let error =
        ours.lock("job").ttl(Duration::from_secs(60)).wait(Wait::For(Duration::ZERO)).acquire().await.unwrap_err();
    assert_eq!(error.applied(), Applied::Maybe, "{error}");
    proxy.heal();
    eventually_async("nothing is left behind", SOON, async || is_free(&others, "job").await).await;
    acquired(&others.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn b01_a_lost_answer_is_asked_for_again_under_the_same_identity() {
    let server = Redis::start();
    let proxy = Proxy::to(server.address());
    let locks = locks(&proxy.url(&server.url())).await;
    acquired(&locks.lock("warm").ttl(TTL)).await.release().await.unwrap();
    proxy.drop_reply_after_request(b"EVALSHA", Then::Cut);
    let guard = acquired(&locks.lock("job")).await;
    assert_eq!(proxy.dropped_replies(), 1);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(is_free(&locks, "job").await);
}

#[tokio::test]
async fn b02_nothing_that_was_asked_of_a_dead_server_reaches_the_next_one() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    server.kill();
    let error = locks.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.restart();
    assert_eq!(server.command(&["DBSIZE"]).integer(), 0);
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn c12_a_connection_that_breaks_is_no_loss() {
    let server = Redis::start();
    let proxy = Proxy::to(server.address());
    let locks = locks(&proxy.url(&server.url())).await;
    let guard = acquired(&locks.lock("job").ttl(LASTING)).await;
    for _ in 0..3 {
        tokio::time::sleep(LASTING / 3).await;
        proxy.cut();
        assert!(guard.is_valid() && guard.loss().is_none());
    }
    tokio::time::sleep(LASTING / 2).await;
    assert!(guard.is_valid() && guard.loss().is_none());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn c05_a_server_that_says_nothing_is_a_loss_in_time() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(LASTING)).await;
    server.pause();
    let reason = tokio::time::timeout(LASTING, guard.lost()).await.expect("told before the lease is over");
    assert!(matches!(reason, LossReason::Unreachable(_) | LossReason::Expired), "{reason:?}");
    tokio::time::sleep(LASTING / 2).await;
    assert!(!guard.is_valid());
    server.resume();
}

#[tokio::test]
async fn e07_a_server_that_forgets_its_scripts_is_told_them_again() {
    let server = Redis::options().append_only().start();
    let locks = locks(&server.url()).await;
    let forget = || server.command(&["SCRIPT", "FLUSH"]).text();
    let guard = acquired(&locks.lock("job").ttl(LASTING)).await;
    forget();
    tokio::time::sleep(LASTING * 3 / 2).await; // renewed meanwhile
    assert!(guard.is_valid());
    forget();
    guard.release().await.unwrap();
    forget();
    let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(30))).await;
    server.restart();
    eventually_async("it is released", SOON, async || {
        locks.inspect("job").await.is_ok_and(|holding| holding.is_some_and(|held| held.holder == Some(guard.holder())))
    })
    .await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn e14_what_was_wiped_is_lost_and_tokens_go_on_growing() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job").ttl(LASTING)).await;
    server.command(&["FLUSHALL"]);
    assert_eq!(tokio::time::timeout(LASTING, guard.lost()).await.unwrap(), LossReason::Gone);
    let next = acquired(&locks.lock("job").ttl(LASTING)).await;
    assert!(next.token() > guard.token());
    server.command(&["DEL", &key("job")]);
    assert_eq!(tokio::time::timeout(LASTING, next.lost()).await.unwrap(), LossReason::Gone);
    let third = acquired(&locks.lock("job")).await;
    assert!(third.token() > next.token());
    drop(third);
    server.restart();
    let mut last = None;
    eventually_async("the server is back", SOON, async || {
        last = locks.lock("job").try_acquire().await.ok().and_then(Outcome::guard);
        last.is_some()
    })
    .await;
    assert!(last.unwrap().token() > next.token(), "an empty server begins above all that were");
}

#[tokio::test]
async fn d09_what_others_put_under_a_locks_name_is_told_apart() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    server.command(&["SET", &key("theirs"), "redis-py", "PX", "60000"]);
    let Outcome::Contended(holding) = locks.lock("theirs").try_acquire().await.unwrap() else { panic!("it is held") };
    assert!(holding.holder.is_some() && holding.label == "foreign: redis-py", "{holding:?}");
    server.command(&["SET", &key("for ever"), "data"]);
    server.command(&["HSET", &key("hash"), "a", "1"]);
    for name in ["for ever", "hash"] {
        let error = locks.lock(name).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("another namespace"), "{error}");
    }
}

#[tokio::test]
async fn one_key_that_is_spoilt_keeps_no_other_lock_from_being_renewed() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    let [a, b] = ["a", "b"].map(|name| locks.lock(name).ttl(LASTING));
    let (spoilt, sound) = (acquired(&a).await, acquired(&b).await);
    server.command(&["DEL", &key("a")]);
    server.command(&["HSET", &key("a"), "theirs", "1"]);
    assert_eq!(tokio::time::timeout(LASTING, spoilt.lost()).await.unwrap(), LossReason::Gone);
    tokio::time::sleep(LASTING).await;
    assert!(sound.is_valid() && sound.loss().is_none());
}

#[tokio::test]
async fn leases_of_one_batch_get_each_its_own_ttl() {
    let server = Redis::start();
    let store = leasehold::stores::open(&server.url()).unwrap();
    let mut leases = Vec::new();
    for (name, ttl) in [("a", 50), ("b", 70), ("c", 50)] {
        let claim = Claim::new(LockName::new(name).unwrap(), HolderId::fresh(), "test".into(), SOON);
        assert!(matches!(store.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
        leases.push((LeaseKey { name: claim.name, holder: claim.holder }, Duration::from_secs(ttl)));
    }
    leases[1].0.holder = HolderId::fresh();
    let left = |name: &str| server.command(&["TTL", &key(name)]).integer();
    let answers = |all: Vec<leasehold::Result<Renewal>>| all.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(answers(store.renew(&leases).await), [Renewal::Renewed, Renewal::Gone, Renewal::Renewed]);
    assert!((35..=50).contains(&left("a")) && left("b") <= SOON.as_secs() as i64 && (35..=50).contains(&left("c")));
    leases[0].1 = Duration::from_secs(90);
    leases.swap(0, 1);
    assert_eq!(answers(store.renew(&leases).await), [Renewal::Gone, Renewal::Renewed, Renewal::Renewed]);
    assert!((75..=90).contains(&left("a")) && (35..=50).contains(&left("c")));
}

/// As under a lock that is passed on all the time: nobody waits long enough to look twice.
#[tokio::test]
async fn a_queue_that_is_never_empty_stays_though_nobody_looks_again() {
    let server = Redis::start();
    let store = leasehold::stores::open(&server.url()).unwrap();
    let holder = Claim::new(LockName::new("job").unwrap(), HolderId::fresh(), "test".into(), MINUTE);
    assert!(matches!(store.try_acquire(&holder).await.unwrap(), Attempt::Granted(_)));
    let wait = async |claim: &Claim| match store.try_acquire(claim).await.unwrap() {
        Attempt::Held(holding) => holding.ticket.unwrap(),
        other => panic!("{other:?}"),
    };
    let waiter = || Claim { holder: HolderId::fresh(), queue: Some(Place::default()), ..holder.clone() };
    let (first, second) = (waiter(), waiter());
    wait(&first).await;
    for key in [format!("{}:q", key("job")), format!("{}:w", key("job"))] {
        server.command(&["PEXPIRE", &key, "3000"]);
    }
    let ticket = wait(&second).await;
    for key in [format!("{}:q", key("job")), format!("{}:w", key("job"))] {
        assert!(server.command(&["PTTL", &key]).integer() > 5000, "{key}");
    }
    assert_eq!(wait(&second).await, ticket, "an answer that was lost is told again");
}

/// It may be dead: the name is free, and stays its own as long as its entry lives.
#[tokio::test]
async fn who_does_not_hear_of_a_hand_over_is_not_given_the_lock_and_keeps_its_place() {
    let server = Redis::start();
    let store = leasehold::stores::open(&server.url()).unwrap();
    // Its connection listens to nothing.
    let deaf = leasehold::stores::open(&server.url()).unwrap().for_keeper();
    for round in 0.. {
        let name = LockName::new(&format!("job {round}")).unwrap();
        let holder = Claim::new(name.clone(), HolderId::fresh(), "test".into(), MINUTE);
        let place = Place { sent: Some(Moment::from_nanos(1)), ..Place::default() };
        let first = Claim { holder: HolderId::fresh(), queue: Some(place), ..holder.clone() };
        assert!(matches!(store.try_acquire(&holder).await.unwrap(), Attempt::Granted(_)));
        let began = std::time::Instant::now();
        assert!(matches!(deaf.try_acquire(&first).await.unwrap(), Attempt::Held(_)));
        let lease = LeaseKey { name: name.clone(), holder: holder.holder };
        assert_eq!(store.release(&lease, Ended::default()).await.unwrap(), Release::Released);
        let held = store.inspect(&name).await.unwrap();
        let ends = ["q", "w"].map(|of| server.command(&["PTTL", &format!("{}:{of}", key(name.as_str()))]).integer());
        let stranger = store.try_acquire(&Claim { holder: HolderId::fresh(), ..holder }).await.unwrap();
        let again = deaf.try_acquire(&first).await.unwrap();
        if began.elapsed() > QUEUE_ENTRY * 9 / 10 && round < 20 {
            continue; // This machine was too slow for what is looked at here.
        }
        assert!(held.is_some_and(|held| held.holder.is_none() && held.waiting == 1));
        assert!(ends.iter().all(|left| (1..=10_000).contains(left)), "{ends:?}");
        assert!(matches!(stranger, Attempt::Held(held) if held.holder.is_none() && held.waiting == 1));
        assert!(matches!(again, Attempt::Granted(_)), "{again:?}");
        return;
    }
}

#[tokio::test]
async fn a_queue_that_is_something_else_keeps_no_lock_from_being_released() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    let guard = acquired(&locks.lock("job")).await;
    server.command(&["RPUSH", &format!("{}:q", key("job")), "theirs"]);
    guard.release().await.unwrap();
    assert_eq!(server.command(&["EXISTS", &key("job")]).integer(), 0);
}

#[tokio::test]
async fn a_lost_hash_gives_nobody_a_lock_beside_those_who_have_permits() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    let _permit = acquired(&locks.lock("pool").permits(3)).await;
    server.command(&["DEL", &format!("{}:h", key("pool"))]);
    assert!(!matches!(locks.lock("pool").try_acquire().await, Ok(Outcome::Acquired(_))));
}

#[tokio::test]
async fn a_key_is_forgotten_when_its_time_is_over_and_not_before() {
    let server = Redis::start();
    let store = leasehold::stores::open(&server.url()).unwrap();
    let keep = Duration::from_secs(2);
    let claim = || {
        let name = LockName::new("invoice").unwrap();
        let due = Some(Due { tick: Tick::ONLY, retry_failed: false, keep });
        Claim { due, ..Claim::new(name, HolderId::fresh(), "test".into(), MINUTE) }
    };
    let first = claim();
    let Attempt::Granted(before) = store.try_acquire(&first).await.unwrap() else { panic!("it is new") };
    tokio::time::sleep(keep + Duration::from_millis(200)).await;
    assert!(matches!(store.try_acquire(&claim()).await.unwrap(), Attempt::Held(_)), "not while somebody has it");
    let done = Ended { verdict: Some(Verdict::Done(Tick::ONLY)), ..Ended::default() };
    let lease = LeaseKey { name: first.name, holder: first.holder };
    let ended = Instant::now();
    assert_eq!(store.release(&lease, done).await.unwrap(), Release::Released);
    let early = claim();
    let answer = store.try_acquire(&early).await.unwrap();
    // Asked later, on a machine that is that busy, it may be forgotten.
    assert!(matches!(answer, Attempt::NotDue(_)) || ended.elapsed() >= keep, "from its end on: {answer:?}");
    store.leave(&LeaseKey { name: early.name, holder: early.holder }).await.unwrap();
    tokio::time::sleep(keep + Duration::from_millis(200)).await;
    let Attempt::Granted(again) = store.try_acquire(&claim()).await.unwrap() else { panic!("it is forgotten") };
    assert!(again.token > before.token && again.attempt == 1, "{again:?}");
}

#[tokio::test]
async fn e15_environments_do_not_meet() {
    let server = Redis::start();
    let (one, other) = (locks(&server.url()).await, locks(&format!("{}?namespace=staging", server.url())).await);
    let _guard = acquired(&one.lock("job")).await;
    acquired(&other.lock("job")).await.release().await.unwrap();
    assert_eq!((one.list().await.unwrap().len(), other.list().await.unwrap().len()), (1, 0));
}

#[tokio::test]
async fn a06_no_key_is_without_an_end() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    let held = acquired(&locks.lock("a").permits(3)).await;
    let _plain = acquired(&locks.lock("b")).await;
    acquired(&locks.lock("c").at_least_for(Duration::from_secs(5))).await.release().await.unwrap();
    acquired(&locks.once("d", Duration::from_secs(3600))).await.complete().await.unwrap();
    let waiting = locks.lock("b").wait(Wait::For(Duration::from_millis(100)));
    assert!(matches!(waiting.acquire().await.unwrap(), Outcome::Contended(_)));
    locks.revoke("a", leasehold::Revoke::Gently).await.unwrap();
    for key in server.command(&["KEYS", "*"]).items() {
        let left = server.command(&["PTTL", &key.text()]).integer();
        assert!(left > 0, "{}: {left}", key.text());
    }
    drop(held);
}

/// One that waits for a lock which `holder` has for a minute, and is in line already.
async fn in_line(holder: &Locks, waiter: Locks) -> tokio::task::JoinHandle<Guard> {
    let waiting = tokio::spawn(async move { waiter.lock("job").ttl(MINUTE).acquire().await.unwrap().guard().unwrap() });
    eventually_async("it waits", SOON, async || {
        holder.inspect("job").await.unwrap().is_some_and(|holding| holding.waiting == 1)
    })
    .await;
    waiting
}

/// How long that takes is not measured, for a machine may be busy: what would wait for the TTL is told from what looks.
#[tokio::test]
async fn f01_a_wake_up_that_is_lost_costs_a_look_and_not_the_ttl() {
    let server = Redis::options().acl(&["user mute on >secret ~* &* +@all -publish"]).start();
    for url in [server.url(), server.url_as("mute", "secret")] {
        let (holder, waiter) = (locks(&url).await, locks(&server.url()).await);
        let guard = acquired(&holder.lock("job").ttl(MINUTE)).await;
        let waiting = in_line(&holder, waiter).await;
        if url == server.url() {
            server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        }
        let released = Instant::now();
        let _ = guard.release().await; // its own connection listens, too; the background sees to it
        let next = tokio::time::timeout(MINUTE, waiting).await.expect("it finds out by itself").unwrap();
        assert!(released.elapsed() < MINUTE / 2, "{:?}", released.elapsed());
        next.release().await.unwrap();
    }
}

/// The notification is on its way when the lock is free, and so are all answers behind it: nothing is missed.
#[tokio::test]
async fn f02_a_wake_up_that_is_held_back_is_heard_when_it_comes() {
    let server = Redis::start();
    let proxy = Proxy::to(server.address());
    let (holder, waiter) = (locks(&server.url()).await, locks(&proxy.url(&server.url())).await);
    let guard = acquired(&holder.lock("job").ttl(MINUTE)).await;
    let waiting = in_line(&holder, waiter).await;
    proxy.blackhole(Direction::ToClient);
    let before = proxy.held(Direction::ToClient);
    let released = Instant::now();
    assert_eq!(guard.release().await.unwrap(), leasehold::Released::InTime);
    let handed_over = holder.inspect("job").await.unwrap().expect("the waiter has it");
    assert!(handed_over.holder.is_some() && handed_over.waiting == 0, "{handed_over:?}");
    eventually_async("it is on its way", SOON, async || proxy.held(Direction::ToClient) > before).await;
    assert!(!waiting.is_finished(), "it can't know");
    proxy.heal();
    let next = tokio::time::timeout(MINUTE, waiting).await.expect("it is told").unwrap();
    assert!(released.elapsed() < MINUTE / 2 && next.is_valid(), "{:?}", released.elapsed());
    next.release().await.unwrap();
    eventually_async("nothing is left", SOON, async || is_free(&holder, "job").await).await;
}

/// Nor is a release that comes while the waiter's subscription and its claim are still under way.
#[tokio::test]
async fn f02_a_release_before_the_subscription_stands_is_not_missed() {
    let server = Redis::start();
    let proxy = Proxy::to(server.address());
    let (holder, waiter) = (locks(&server.url()).await, locks(&proxy.url(&server.url())).await);
    let guard = acquired(&holder.lock("job").ttl(MINUTE)).await;
    proxy.blackhole(Direction::ToServer);
    let waiting = tokio::spawn(async move { waiter.lock("job").ttl(MINUTE).acquire().await.unwrap().guard().unwrap() });
    eventually_async("it has asked", SOON, async || proxy.held(Direction::ToServer) > 0).await;
    let released = Instant::now();
    guard.release().await.unwrap();
    proxy.heal();
    let next = tokio::time::timeout(MINUTE, waiting).await.expect("it looks").unwrap();
    assert!(released.elapsed() < MINUTE / 2, "{:?}", released.elapsed());
    next.release().await.unwrap();
}

#[tokio::test]
async fn f06_f07_many_names_are_waited_for_over_one_subscription_and_nothing_is_left() {
    let server = Redis::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let names: Vec<String> = (0..300).map(|n| format!("job {n}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(acquired(&holder.lock(name)).await);
    }
    let waiting: Vec<_> = names
        .iter()
        .map(|name| {
            let lock = waiter.lock(name);
            tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap().release().await.unwrap() })
        })
        .collect();
    eventually_async("all wait", SOON, async || {
        holder.list().await.unwrap().iter().filter(|holding| holding.waiting == 1).count() == names.len()
    })
    .await;
    assert!(server.command(&["PUBSUB", "CHANNELS"]).items().len() <= 4, "one for each connection");
    for guard in guards {
        guard.release().await.unwrap();
    }
    for task in waiting {
        tokio::time::timeout(SOON, task).await.expect("its turn came").unwrap();
    }
    drop((holder, waiter));
    eventually_async("nobody listens any more", SOON, async || {
        server.command(&["PUBSUB", "CHANNELS"]).items().is_empty()
    })
    .await;
}

#[tokio::test]
async fn f03_first_come_first_served_though_the_holder_takes_its_time() {
    let server = Redis::start();
    let (holder, order) = (locks(&server.url()).await, std::sync::Arc::new(std::sync::Mutex::new(Vec::new())));
    let guard = acquired(&holder.lock("job")).await;
    let mut waiting = Vec::new();
    for n in 0..5 {
        let (locks, order) = (locks(&server.url()).await, std::sync::Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let guard = locks.lock("job").acquire().await.unwrap().guard().unwrap();
            order.lock().unwrap().push(n);
            guard.release().await.unwrap();
        }));
        eventually_async("it waits", SOON, async || {
            holder.inspect("job").await.unwrap().is_some_and(|holding| holding.waiting == n + 1)
        })
        .await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await; // three lives of an entry
    guard.release().await.unwrap();
    for task in waiting {
        tokio::time::timeout(SOON, task).await.expect("its turn came").unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn wrong_passwords_and_missing_rights_are_told_as_what_they_are() {
    let server = Redis::options().password("hunter2").start();
    let url = format!("redis://:wrong@{}", server.address());
    let error = locks(&url).await.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    assert!(!error.to_string().contains("wrong@") && !error.to_string().contains("hunter2"), "{error}");
    let error = locks(&format!("redis://{}", server.address())).await.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    acquired(&locks(&server.url()).await.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn over_a_unix_socket() {
    let server = Redis::options().unix_socket().start();
    let locks = locks(&format!("redis+unix://{}", server.socket().display())).await;
    acquired(&locks.lock("job")).await.release().await.unwrap();
}

#[tokio::test]
async fn d09_what_others_put_under_one_name_hides_no_other_from_a_list() {
    let server = Redis::start();
    let locks = locks(&server.url()).await;
    let _guard = acquired(&locks.lock("ours")).await;
    acquired(&locks.lock("once ours")).await.release().await.unwrap();
    server.command(&["RPUSH", &key("once ours"), "job"]);
    server.command(&["SET", &format!("{}:h", key("beside")), "data"]);
    server.command(&["SET", &key("theirs"), "redis-py", "PX", "60000"]);
    server.command(&["SET", "leasehold:default:{job}:else", "no lock"]);
    let list = locks.list().await.unwrap();
    let told: Vec<_> = list.iter().map(|lock| (lock.name.as_str(), lock.holder.is_some(), &*lock.label)).collect();
    assert_eq!(told[0], ("beside", true, "foreign: leasehold:default:{beside}:h is a string"));
    assert_eq!(told[1], ("once ours", true, "foreign: leasehold:default:{once ours} is a list"));
    assert_eq!((told[2].0, told[2].1, told[3]), ("ours", true, ("theirs", true, "foreign: redis-py")));
    assert_eq!(told.len(), 4);
    let error = locks.inspect("beside").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("{beside}:h is a string"), "{error}");
}

/// A round trip for each would take seconds on a machine that is busy.
#[tokio::test]
async fn thousands_of_names_are_listed_in_few_round_trips() {
    let server = Redis::start();
    let mut connection = server.connect().unwrap();
    let write = "for n = 1, 5000 do local key = 'leasehold:default:{job ' .. n .. '}' \
                 redis.call('SET', key, 'somebody', 'PX', 60000) redis.call('HSET', key .. ':h', 't', n, 'h', 'somebody') end";
    connection.ask(&["EVAL", write, "0"]).unwrap();
    let locks = locks(&server.url()).await;
    assert_eq!(locks.list().await.unwrap().len(), 5000);
    let scripts = server.command(&["INFO", "commandstats"]).text();
    assert!(scripts.contains("cmdstat_evalsha:calls=5000,"), "{scripts}");
    let began = std::time::Instant::now();
    assert_eq!(locks.list().await.unwrap().len(), 5000);
    println!("5000 names in {:?}", began.elapsed());
}
