//! Stores made of stores: links, servers and workers fail one by one and together.

use leasehold_testkit::history::Hold;
use leasehold_testkit::proxy::{Direction, Proxy};
use leasehold_testkit::servers::{Postgres, Redis};

use super::{HOLDS, MAX_TTL, Run, spoil};

fn one_of<T>(some: &[T]) -> &T {
    &some[rand::random_range(0..some.len())]
}

/// Five servers, and two networks that fail apart. A server that comes back has lost everything.
#[test]
fn while_members_of_a_quorum_come_and_go_there_is_one_holder_at_a_time() {
    let servers: Vec<_> = (0..5).map(|_| Redis::start()).collect();
    let network = || servers.iter().map(|server| Proxy::to(server.address())).collect::<Vec<_>>();
    let networks = [network(), network()];
    let url = |links: &[Proxy]| {
        let hosts: Vec<_> = links.iter().map(Proxy::address).collect();
        format!("redlock://{}?max_ttl={}", hosts.join(","), MAX_TTL.as_secs())
    };
    let stores: Vec<_> = networks.iter().map(|links| url(links)).collect();
    let mut stopped = None;
    let run = Run { stores: &stores, ttl: 2, seconds: 25 };
    run.has_one_holder_at_a_time(|round| match round % 6 {
        0 => servers[round / 6 % 5].restart(),
        1 => spoil(one_of(&networks[0])),
        2 => spoil(one_of(&networks[1])),
        3 => {
            let server = one_of(&servers);
            server.pause();
            stopped = Some(server);
        }
        4 => stopped.take().into_iter().for_each(Redis::resume),
        _ => networks.iter().flatten().for_each(Proxy::heal),
    });
}

/// A primary that is cut off, for one network or both, stopped, and restarted empty; and an arbiter whose links fail for a
/// moment. Locks move there and back, again and again.
#[test]
fn while_a_fallback_switches_there_is_one_holder_at_a_time() {
    let (primary, arbiter) = (Redis::start(), Postgres::start());
    let networks = [0, 1].map(|_| [Proxy::to(primary.address()), Proxy::to(arbiter.address())]);
    let url = |[to_primary, to_arbiter]: &[Proxy; 2]| {
        format!("{} {}", to_primary.url(&primary.url()), to_arbiter.url(&arbiter.url()))
    };
    let stores: Vec<_> = networks.iter().map(url).collect();
    let run = Run { stores: &stores, ttl: 3, seconds: 40 };
    let switches = || -> u64 {
        let said = arbiter.sql("SELECT coalesce(max(epoch), 0) FROM leasehold_routes");
        said.trim().parse().unwrap()
    };
    // A machine that is busy takes longer for as many rounds.
    let all = |holds: &[Hold]| holds.len() >= HOLDS && switches() >= 3;
    run.has_one_holder_at_a_time_and(all, |round| match round % 24 {
        1 => spoil(&networks[0][0]),
        4 => networks.iter().for_each(|links| links[0].blackhole(Direction::ToServer)),
        10 | 20 => networks.iter().flatten().for_each(Proxy::heal),
        13 => primary.restart(),
        15 => spoil(&networks[1][1]),
        16 => networks[1][1].heal(),
        18 => arbiter.end_sessions(),
        22 => primary.pause(),
        23 => primary.resume(),
        _ => {}
    });
    println!("{} switches", switches());
}
