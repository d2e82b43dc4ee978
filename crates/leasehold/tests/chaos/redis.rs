//! Redis by itself, and behind sentinels: with a restart guard neither a restart that loses all data nor a failover makes two
//! holders (the table in `docs/stores/redis.md`).

use std::cell::Cell;
use std::thread::{self, ScopedJoinHandle};

use leasehold_testkit::history;
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::{Redis, RedisSentinels};

use super::{HOLDS, MAX_TTL, Run, spoil};

fn guarded(url: &str) -> String {
    format!("{url}?restart_guard=on&max_ttl={}", MAX_TTL.as_secs())
}

/// One server, and two networks that fail apart. It hangs, and comes back with nothing.
#[test]
fn while_a_redis_is_killed_and_comes_back_empty_there_is_one_holder_at_a_time() {
    let server = Redis::start();
    let networks = [0, 1].map(|_| Proxy::to(server.address()));
    let stores = networks.each_ref().map(|link| guarded(&link.url(&server.url())));
    let restarted_at = Cell::new(None);
    let run = Run { stores: &stores, ttl: 2, seconds: 10 };
    let goes_on = |holds: &[history::Hold]| {
        let since = restarted_at.get().unwrap_or(u64::MAX);
        holds.len() >= HOLDS && holds.iter().any(|hold| hold.from > since)
    };
    run.has_one_holder_at_a_time_and(goes_on, |round| match round % 24 {
        // Its first seconds are the restart guard's.
        7 | 18 => {
            server.restart();
            restarted_at.set(Some(history::now()));
        }
        14 => server.pause(),
        15 => server.resume(),
        16 => spoil(&networks[0]),
        20 | 21 => spoil(&networks[1]),
        17 | 22 => networks.iter().for_each(Proxy::heal),
        _ => {}
    });
}

/// What can befall a master, and what an operator may do to it.
fn failover(servers: &RedisSentinels) {
    match rand::random_range(0..3) {
        0 => drop(servers.failover()),
        1 => drop(servers.kill_master()),
        _ => servers.master().pause(),
    }
}

/// Masters that hand over, die and hang while a sentinel may hang, too. What a master that hangs goes on with later is stopped
/// by `min-replicas-to-write`.
#[test]
fn while_masters_behind_sentinels_fail_there_is_one_holder_at_a_time() {
    let options = Redis::options().config("min-replicas-to-write", "1").config("min-replicas-max-lag", "1");
    let servers = &RedisSentinels::start_with(options);
    let mended_at = Cell::new(None);
    let goes_on = |holds: &[history::Hold]| {
        let since = mended_at.get().unwrap_or(u64::MAX);
        holds.len() >= HOLDS && holds.iter().any(|hold| hold.from > since)
    };
    let stores = [format!("{}?max_ttl={}", servers.url(), MAX_TTL.as_secs())];
    let run = Run { stores: &stores, ttl: 2, seconds: 20 };
    thread::scope(|scope| {
        // Beside the workers' own troubles: it takes seconds.
        let mut failing: Option<ScopedJoinHandle<'_, ()>> = None;
        run.has_one_holder_at_a_time_and(goes_on, |round| match round % 40 {
            16 => failing = Some(scope.spawn(|| failover(servers))),
            0 if round > 0 => servers.sentinels()[round / 40 % 3].pause(),
            // The old master comes back once the next one has been chosen.
            24 => {
                if let Some(failing) = failing.take() {
                    failing.join().unwrap();
                }
                servers.mend();
                mended_at.set(Some(history::now()));
            }
            _ => {}
        });
    });
}
