//! Redis as the primary of a fallback: leases under a route that leads to one data set.
#![cfg(feature = "redis")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::Store;
use leasehold::store::{Arbiter, Epoch, Force, Primary, Route, RouteTerms, Switch, Target};
use leasehold::stores::Memory;
use leasehold_testkit::PausedClock;
use leasehold_testkit::conformance::tagged::{self, Routes, RoutesToPrimary};
use leasehold_testkit::servers::Redis;

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
