//! What locks in etcd cost, beside the cheapest raw calls for the same thing in the same run.
//!
//! ```text
//! cargo bench -p leasehold --features etcd --bench etcd -- --rounds 25
//! ```
//! Starts a server of its own. Rounds are interleaved; a ratio is the median of the rounds' ratios, with the smallest and
//! the largest.
//!
//! - `pair`: a lock taken and given back, to a transaction that creates a key on a shared lease and one that deletes it.
//! - `hand-over`: from a release until the waiter has the lock, to an idle round trip that writes.
//! - `past`: the pair of a name that so many others have held since the history was compacted, to one that none has.
//!
//! Each acquisition has a key of its own, and etcd passes by those that are deleted until they are compacted; the raw calls use the same
//! key again and again. So the history is compacted before each round, as in a cluster that is kept for long.

#[path = "../src/stores/etcd/generated.rs"]
mod generated;

use std::time::{Duration, Instant};

use generated::compare::{CompareResult, CompareTarget, TargetUnion};
use generated::kv_client::KvClient;
use generated::lease_client::LeaseClient;
use generated::request_op::Request;
use generated::{Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RequestOp, TxnRequest};
use leasehold::{Lock, Locks};
use leasehold_testkit::servers::Etcd;
use tonic::transport::{Channel, Endpoint};

/// How many pairs a round has, and how many hand-overs.
const PAIRS: u32 = 200;
const TURNS: u32 = 20;

/// How many have held the lock before, for `past`; so many keys are put and deleted at a time.
const PAST: usize = 10_000;
const AT_ONCE: usize = 100;

const PAUSE: Duration = Duration::from_millis(60);

/// The raw client.
struct Raw {
    kv: KvClient<Channel>,
    lease: i64,
}

impl Raw {
    async fn connect(address: &str) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("it is an address");
        let channel = endpoint.tcp_nodelay(true).connect().await.expect("the server is there");
        let grant = LeaseGrantRequest { ttl: 3600, id: 0 };
        let granted = LeaseClient::new(channel.clone()).lease_grant(grant).await.expect("leases are granted");
        Self { kv: KvClient::new(channel), lease: granted.into_inner().id }
    }

    async fn create(&mut self, key: &[u8]) {
        let put = PutRequest { key: key.to_vec(), lease: self.lease, ..PutRequest::default() };
        self.run(if_created_at_zero(key), Request::RequestPut(put)).await;
    }

    async fn delete(&mut self, key: &[u8]) {
        let delete = DeleteRangeRequest { key: key.to_vec(), range_end: Vec::new() };
        self.run(
            Compare { result: CompareResult::Greater.into(), ..if_created_at_zero(key) },
            Request::RequestDeleteRange(delete),
        )
        .await;
    }

    async fn run(&mut self, compare: Compare, what: Request) {
        self.transact(vec![compare], vec![what]).await;
    }

    /// The revision that it was done at.
    async fn transact(&mut self, compare: Vec<Compare>, what: Vec<Request>) -> i64 {
        let success = what.into_iter().map(|what| RequestOp { request: Some(what) }).collect();
        let request = TxnRequest { compare, success, failure: Vec::new() };
        let done = self.kv.txn(request).await.expect("the server answers").into_inner();
        assert!(done.succeeded);
        done.header.expect("each answer has one").revision
    }

    /// Forgets what was deleted until now.
    async fn compact(&mut self, server: &Etcd) {
        let put = PutRequest { key: b"raw/now".to_vec(), ..PutRequest::default() };
        let revision = self.transact(Vec::new(), vec![Request::RequestPut(put)]).await;
        server.command(&["compact", "--physical", &revision.to_string()]);
    }

    /// As if so many had held the lock, and given it back.
    async fn leave_a_past(&mut self, many: usize) {
        let keys: Vec<_> = (0..many).map(|nth| format!("default/job/{nth:032x}").into_bytes()).collect();
        let put = |key: &Vec<u8>| Request::RequestPut(PutRequest { key: key.clone(), ..PutRequest::default() });
        let delete =
            |key: &Vec<u8>| Request::RequestDeleteRange(DeleteRangeRequest { key: key.clone(), range_end: Vec::new() });
        for keys in keys.chunks(AT_ONCE) {
            self.transact(Vec::new(), keys.iter().map(put).collect()).await;
            self.transact(Vec::new(), keys.iter().map(delete).collect()).await;
        }
    }
}

fn if_created_at_zero(key: &[u8]) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.to_vec(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        range_end: Vec::new(),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments.iter().position(|argument| argument == "--rounds");
    let rounds = rounds.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(15);
    let server = Etcd::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
    runtime.block_on(measure(&server, rounds));
}

async fn measure(server: &Etcd, rounds: u32) {
    let mut raw = Raw::connect(&server.address()).await;
    let (holder, waiter) = (locks(server).await, locks(server).await);
    let (lock, other) =
        (holder.lock("job").ttl(Duration::from_secs(30)), waiter.lock("job").ttl(Duration::from_secs(30)));
    let (mut pairs, mut turns) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        raw.compact(server).await;
        let cheapest = raw_pairs(&mut raw).await;
        pairs.push(our_pairs(&lock).await.as_secs_f64() / cheapest.as_secs_f64());
        let trip = idle_trips(&mut raw).await;
        turns.push(hand_overs(&lock, &other).await.as_secs_f64() / trip.as_secs_f64());
    }
    show("pair", pairs, 1.05);
    show("hand-over", turns, 2.5);
    let mut past = Vec::new();
    for _ in 0..rounds.div_ceil(5) {
        raw.compact(server).await;
        let without = our_pairs(&lock).await;
        raw.leave_a_past(PAST).await;
        past.push(our_pairs(&lock).await.as_secs_f64() / without.as_secs_f64());
    }
    show(&format!("past of {PAST}"), past, 1.0);
    holder.shutdown().await;
    waiter.shutdown().await;
}

async fn locks(server: &Etcd) -> Locks {
    Locks::connect(&server.url()).await.expect("the URL is right")
}

/// The median of a raw pair.
async fn raw_pairs(raw: &mut Raw) -> Duration {
    let mut took = Vec::new();
    for _ in 0..PAIRS {
        let began = Instant::now();
        raw.create(b"raw/job/1").await;
        raw.delete(b"raw/job/1").await;
        took.push(began.elapsed());
    }
    median(took)
}

/// The median of a write after as long a pause as a hand-over comes after.
async fn idle_trips(raw: &mut Raw) -> Duration {
    let mut took = Vec::new();
    for _ in 0..TURNS {
        raw.create(b"raw/job/1").await;
        tokio::time::sleep(PAUSE).await;
        let began = Instant::now();
        raw.delete(b"raw/job/1").await;
        took.push(began.elapsed());
    }
    median(took)
}

async fn our_pairs(lock: &Lock) -> Duration {
    let mut took = Vec::new();
    for _ in 0..PAIRS {
        let began = Instant::now();
        let guard = lock.try_acquire().await.expect("the server answers").guard().expect("it is free");
        guard.release().await.expect("the server answers");
        took.push(began.elapsed());
    }
    median(took)
}

/// The median time from the release until the waiter has the lock.
async fn hand_overs(lock: &Lock, other: &Lock) -> Duration {
    let mut took = Vec::new();
    for _ in 0..TURNS {
        let guard = lock.try_acquire().await.expect("the server answers").guard().expect("it is free");
        let waiting = other.clone();
        let waiting = tokio::spawn(async move {
            let guard = waiting.acquire().await.expect("the server answers").guard().expect("its turn comes");
            (Instant::now(), guard)
        });
        tokio::time::sleep(PAUSE).await; // It stands in line, and watches.
        let began = Instant::now();
        guard.release().await.expect("the server answers");
        let (had, guard) = waiting.await.expect("it does not panic");
        took.push(had - began);
        guard.release().await.expect("the server answers");
    }
    median(took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn show(what: &str, mut ratios: Vec<f64>, aim: f64) {
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    println!("{what}: {:.3} ({least:.3} to {most:.3}), the aim is {aim}", ratios[ratios.len() / 2]);
}
