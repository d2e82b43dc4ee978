//! Who waits, and how it hears of a release.

use super::*;

#[tokio::test]
async fn f01_a_wake_up_that_is_lost_costs_a_look_and_not_the_ttl() {
    let server = Postgres::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let guard = acquired(&holder.lock("job").ttl(LONG)).await;
    let waiting = tokio::spawn(async move { waiter.lock("job").ttl(LONG).acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    server.end_sessions();
    let released = Instant::now();
    let _ = guard.release().await; // its session was ended, too; the background sees to it
    drop(tokio::time::timeout(LONG, waiting).await.expect("it finds out by itself").unwrap());
    assert!(released.elapsed() < LONG / 2, "{:?}", released.elapsed());
}

/// The notification is on its way when the lock is free, and so are all answers behind it: nothing is missed.
#[tokio::test]
async fn f02_a_wake_up_that_is_held_back_is_heard_when_it_comes() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.address());
    let (holder, waiter) = (locks(&server.url()).await, locks(&proxy.url(&server.url())).await);
    let guard = acquired(&holder.lock("job").ttl(LONG)).await;
    let waiting = tokio::spawn(async move { waiter.lock("job").ttl(LONG).acquire().await.unwrap().guard().unwrap() });
    waits(&holder, "job", 1).await;
    proxy.blackhole(Direction::ToClient);
    let before = proxy.held(Direction::ToClient);
    let released = Instant::now();
    guard.release().await.unwrap();
    eventually_async("it is on its way", SOON, async || proxy.held(Direction::ToClient) > before).await;
    assert!(!waiting.is_finished(), "it can't know");
    proxy.heal();
    drop(tokio::time::timeout(LONG, waiting).await.expect("it is told").unwrap());
    assert!(released.elapsed() < LONG / 2, "{:?}", released.elapsed());
}

#[tokio::test]
async fn f06_f07_many_names_are_held_and_waited_for_over_few_sessions() {
    let server = Postgres::start();
    let (holder, waiter) = (locks(&server.url()).await, locks(&server.url()).await);
    let names: Vec<String> = (0..200).map(|n| format!("job {n}")).collect();
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
    let sessions = server.sql("select count(*) from pg_stat_activity where application_name like 'leasehold%'");
    assert!(sessions.parse::<u32>().unwrap() <= 5, "{sessions}: three for each client, and one does not wait");
    for guard in guards {
        guard.release().await.unwrap();
    }
    for task in waiting {
        tokio::time::timeout(SOON, task).await.expect("its turn came").unwrap();
    }
    drop((holder, waiter));
    eventually_async("nobody is connected any more", SOON, async || {
        server.sql("select count(*) from pg_stat_activity where application_name like 'leasehold%'") == "0"
    })
    .await;
}

/// A claim that queues, and may be handed the lock.
fn queuing(name: &str) -> Claim {
    Claim { queue: Some(Place { ticket: None, sent: Some(Moment::from_nanos(1)) }), ..claim(name) }
}

#[tokio::test]
async fn the_lock_is_not_handed_to_a_process_that_has_ended() {
    let server = Postgres::start();
    let (holder, gone) = (store(&server.url()), store(&server.url()));
    let (held, waiter) = (claim("job"), queuing("job"));
    token(&*holder, &held).await;
    let bell = gone.subscribe(&waiter.name).await.unwrap();
    assert!(is_contended_for(&*gone, &waiter).await);
    let listens = || server.sql("select count(*) from pg_locks where locktype = 'advisory'");
    eventually_async("it listens", SOON, async || listens() == "1").await;
    drop((bell, gone));
    eventually_async("its session has ended", SOON, async || listens() == "0").await;
    assert_eq!(holder.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    let holding = holder.inspect(&held.name).await.unwrap();
    assert!(holding.is_none_or(|holding| holding.holder.is_none()), "handed to somebody dead");
    eventually_async("its entry is over", Duration::from_secs(2), async || !is_contended(&*holder, "job").await).await;
}

#[tokio::test]
async fn whoever_stands_behind_a_process_that_has_ended_is_handed_the_lock_at_once() {
    let server = Postgres::start();
    let (holder, gone, next) = (store(&server.url()), store(&server.url()), store(&server.url()));
    let (held, before, behind) = (claim("job"), queuing("job"), queuing("job"));
    token(&*holder, &held).await;
    let mut bell = next.subscribe(&behind.name).await.unwrap();
    let dead = gone.subscribe(&before.name).await.unwrap();
    assert!(is_contended_for(&*gone, &before).await);
    let listens = || server.sql("select count(*) from pg_locks where locktype = 'advisory'");
    eventually_async("both listen", SOON, async || listens() == "2").await;
    drop((dead, gone));
    eventually_async("its session has ended", SOON, async || listens() == "1").await;
    // Whether its entry still counts or not.
    server.sql("update leasehold_waiters set seen = (extract(epoch from clock_timestamp()) * 1000000)::bigint");
    assert!(is_contended_for(&*next, &behind).await);
    assert_eq!(holder.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    let given = tokio::time::timeout(SOON, bell.next()).await.unwrap().expect("it is handed over");
    assert_eq!(given.holder, behind.holder);
}

#[tokio::test]
async fn a_process_whose_listening_session_was_ended_is_handed_locks_again() {
    let server = Postgres::start();
    let (holder, waiter) = (store(&server.url()), store(&server.url()));
    let (held, waits) = (claim("job"), queuing("job"));
    let mut bell = waiter.subscribe(&waits.name).await.unwrap();
    token(&*holder, &held).await;
    let channel = || server.sql("select distinct client from leasehold_waiters");
    assert!(is_contended_for(&*waiter, &waits).await);
    let before = channel();
    server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'leasehold waits%'");
    assert_eq!(bell.next().await, None, "nobody knows what was missed");
    eventually_async("it listens again", SOON, async || {
        assert!(is_contended_for(&*waiter, &waits).await);
        !["", &before].contains(&&*channel())
    })
    .await;
    assert_eq!(holder.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    let given = tokio::time::timeout(SOON, bell.next()).await.unwrap().expect("it is handed over");
    assert_eq!(given.holder, waits.holder);
}

/// A pooler gives a message to whoever has the session at that moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_the_message_of_another_for_its_own() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    let stores: Vec<_> = (0..24).map(|_| store(&pooler.url())).collect();
    let name = LockName::new("job").unwrap();
    let tries = stores.iter().map(async |store| {
        eventually_async("it was tried", SOON * 2, async || {
            drop(store.subscribe(&name).await.unwrap());
            !store.traits().wake_ups
        })
        .await;
    });
    futures_util::future::join_all(tries).await;
    assert_eq!(server.sql("select count(*) from pg_locks where locktype = 'advisory'"), "0", "and leaves nothing");
}

#[tokio::test]
async fn where_nothing_is_heard_nothing_is_handed_over() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(&server, PoolMode::Transaction);
    let (holder, waiter) = (store(&pooler.url()), store(&pooler.url()));
    let (held, waits) = (claim("job"), queuing("job"));
    token(&*holder, &held).await;
    let _bell = waiter.subscribe(&waits.name).await.unwrap();
    eventually_async("it was tried", SOON, async || !waiter.traits().wake_ups).await;
    assert!(!waiter.for_keeper().traits().hands_over);
    assert!(is_contended_for(&*waiter, &waits).await);
    assert_eq!(holder.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
    assert!(holder.inspect(&held.name).await.unwrap().unwrap().holder.is_none(), "it is free, and kept for who waits");
    assert!(matches!(waiter.try_acquire(&waits).await.unwrap(), Attempt::Granted(_)));
    let findings = waiter.diagnose().await.unwrap();
    assert!(findings.iter().any(|finding| finding.message.contains("a pooler stands")), "{findings:?}");
}
