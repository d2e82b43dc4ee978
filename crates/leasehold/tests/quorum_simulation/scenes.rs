//! Faults that chance finds too seldom: played step by step, with the rule and without.

use std::time::Duration;

use leasehold::member::{Member, Memories};
use leasehold::simulation::{Rule, break_rule};
use leasehold::{Guard, Lock, LockName, Outcome, Tick, Wait};
use leasehold_testkit::simulation::{self, Network, Weather, World};
use tokio::time::sleep;

use crate::play::{Client, Node, SECOND, TTL, UTC};

const LIMIT: Duration = Duration::from_secs(300);

/// What comes of a scene without a rule, after it was played with it.
fn without(rule: Rule, scene: impl AsyncFnOnce(&mut World) + Copy) -> String {
    assert_eq!(found_in(scene), None);
    break_rule(Some(rule));
    let found = found_in(scene);
    break_rule(None);
    found.expect("it is found")
}

/// The fault that the judge finds.
fn found_in(scene: impl AsyncFnOnce(&mut World)) -> Option<String> {
    let judged = simulation::run(1, LIMIT, scene);
    judged.err().map(|found| found.to_string().lines().next().unwrap_or_default().to_owned())
}

/// Three members and two clients; every message takes 5 ms.
fn stage(world: &mut World) -> (Vec<Node>, [Client; 2]) {
    let delay = Duration::from_millis(5);
    let network = Network::new(world.random(), Weather { delay: (delay, delay), ..Weather::FAIR });
    let nodes: Vec<_> = (0..3).map(|_| Node::start()).collect();
    let clients = [(); 2].map(|()| Client::start(&nodes, &network));
    (nodes, clients)
}

/// Makes the members known to a client, which takes a round trip.
async fn meets(client: &Client) {
    let guard = acquired(&client.locks.lock("other").ttl(TTL)).await.expect("it is free");
    drop(guard.release().await);
}

async fn acquired(lock: &Lock) -> Option<Guard> {
    match lock.acquire().await {
        Ok(Outcome::Acquired(guard)) => Some(guard),
        _ => None,
    }
}

/// A lock on the way: what is held is told to the judge.
fn claims(world: &World, lock: Lock) -> tokio::task::JoinHandle<Option<simulation::Held>> {
    let judge = world.judge();
    tokio::spawn(async move { acquired(&lock).await.map(|guard| judge.holds(guard)) })
}

/// A's process stops while its lock is being granted, and goes on without a network. Its lease ends a TTL after its claim
/// came to the members, whenever it heard of that.
#[test]
fn the_validity_counts_from_the_send() {
    let found = without(Rule::LeasesCountFromTheSend, async |world| {
        let (_nodes, [a, b]) = stage(world);
        let ttl = TTL * 6;
        meets(&a).await;
        meets(&b).await;
        let granted = claims(world, a.locks.lock("job").ttl(ttl));
        sleep(Duration::from_millis(7)).await;
        a.machine.stop_for(Duration::from_millis(400));
        let held = granted.await.expect("no panic").expect("it is free");
        a.links.iter().for_each(simulation::Link::cut);
        let next = claims(world, b.locks.lock("job").ttl(ttl).wait(Wait::For(ttl * 2))).await.expect("no panic");
        assert!(next.is_some(), "the lease ends");
        drop((held, next));
    });
    assert!(found.contains("two holders"), "{found}");
}

/// A's mark is written at one member, which then comes back empty. It adopts at once what the others know, which is
/// nothing yet: A's other request is still under way. When that has arrived a majority has acknowledged A's tick, and one
/// of these two has forgotten it.
#[test]
fn q04_nothing_is_adopted_under_guard() {
    let found = without(Rule::AdoptedOnlyAfterTheGuard, async |world| {
        let (nodes, [a, b]) = stage(world);
        let name = LockName::new("job").expect("a name");
        let tick = Tick::from_unix_millis(i64::try_from(UTC.as_millis()).expect("a time")).expect("a tick");
        meets(&a).await;
        meets(&b).await;
        a.links[2].cut();
        b.links[1].cut();
        let granted = claims(world, a.locks.lock("job").ttl(TTL).tick(tick));
        sleep(Duration::from_millis(7)).await;
        nodes[1].machine.stop_for(Duration::from_millis(50));
        sleep(Duration::from_millis(13)).await;
        nodes[0].memory.restart(TTL);
        // Nobody else does this so soon: only claims that it grants make it adopt.
        let known = nodes[1].memory.recall(&name).await.expect("it answers");
        assert_eq!((known.newest, known.is_full), (None, true), "the request is under way");
        let life = nodes[0].memory.identity().await.expect("it answers").server;
        let _ = nodes[0].memory.adopt(&name, &Memories { is_full: true, ..known }, &life).await;
        let held = granted.await.expect("no panic").expect("two have acknowledged it");
        world.judge().begins(&name, tick, true, held.asked());
        drop(held.given_back().release().await);
        sleep(TTL * 2).await;
        if let Some(held) = claims(world, b.locks.lock("job").ttl(TTL).tick(tick)).await.expect("no panic") {
            world.judge().begins(&name, tick, true, held.asked());
        }
        sleep(SECOND).await;
    });
    assert!(found.contains("begun twice"), "{found}");
}

/// Two members know of A's tokens. One comes back empty, and the other can't be reached by B: what the third knows is not
/// enough.
#[test]
fn q05_one_other_is_not_enough_to_adopt_from() {
    let found = without(Rule::AdoptedFromAMajority, async |world| {
        let (nodes, [a, b]) = stage(world);
        meets(&a).await;
        meets(&b).await;
        a.links[2].cut();
        for _ in 0..3 {
            let held = claims(world, a.locks.lock("job").ttl(TTL)).await.expect("no panic").expect("it is free");
            drop(held.given_back().release().await);
        }
        nodes[0].memory.restart(TTL);
        b.links[1].cut();
        sleep(TTL * 2).await;
        drop(claims(world, b.locks.lock("job").ttl(TTL)).await);
    });
    assert!(found.contains("did not grow"), "{found}");
}

/// A holds the lock at two members and can't renew it. One of them comes back empty, and grants it to B with the third
/// as soon as its guard is over: A must have lost it by then.
#[test]
fn q08_a_guard_shorter_than_the_ttl_is_too_short() {
    let scene = |guard: Duration| {
        found_in(async move |world: &mut World| {
            let (nodes, [a, b]) = stage(world);
            meets(&a).await;
            meets(&b).await;
            a.links[1].cut();
            let held = claims(world, a.locks.lock("job").ttl(TTL)).await.expect("no panic").expect("it is free");
            a.links.iter().for_each(simulation::Link::cut);
            nodes[0].memory.restart(guard);
            let next = claims(world, b.locks.lock("job").ttl(TTL).wait(Wait::For(TTL * 2))).await.expect("no panic");
            assert!(next.is_some(), "the guard ends");
            drop((held, next));
        })
    };
    assert_eq!(scene(TTL), None);
    let found = scene(TTL / 4).expect("it is found");
    assert!(found.contains("two holders"), "{found}");
}

/// A key is done at two members, of which both are restarted, one after the sweep of the other. The third has never heard of
/// it: what it remembers is not all that there is.
#[test]
fn one_other_is_not_enough_to_be_swept_from() {
    let found = without(Rule::SweptFromAMajority, async |world| {
        let (nodes, [a, b]) = stage(world);
        let name = LockName::new("key").expect("a name");
        let lock = |client: &Client| client.locks.lock("key").ttl(TTL).tick(Tick::ONLY);
        meets(&a).await;
        meets(&b).await;
        a.links[1].cut();
        let held = claims(world, lock(&a)).await.expect("no panic").expect("two grant it");
        world.judge().begins(&name, Tick::ONLY, true, held.asked());
        drop(held.given_back().complete().await);
        for node in [0, 2] {
            let memory = &nodes[node].memory;
            memory.restart(TTL);
            let is_whole = async || memory.names(0, 1).await.is_ok_and(|page| page.whole.is_some());
            while !is_whole().await {
                sleep(SECOND).await;
                meets(&b).await;
            }
        }
        if let Some(held) = claims(world, lock(&b)).await.expect("no panic") {
            world.judge().begins(&name, Tick::ONLY, true, held.asked());
        }
        sleep(SECOND).await;
    });
    assert!(found.contains("did not grow"), "its token is the first to tell: {found}");
}
