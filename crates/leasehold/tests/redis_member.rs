//! One Redis server as a member of a quorum: what it remembers, and what becomes of that when the server loses data.
#![cfg(feature = "redis")]

use std::sync::Arc;
use std::time::Duration;

use leasehold::Store;
use leasehold::stores::Memory;
use leasehold_testkit::conformance::{self, Subject, member};
use leasehold_testkit::servers::Redis;

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
