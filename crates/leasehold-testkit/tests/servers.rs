//! The launchers, with real servers.
#![cfg(all(feature = "servers", target_os = "linux"))]

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leasehold_testkit::process::{self, Worker, eventually};
use leasehold_testkit::proxy::{Direction, Proxy};
use leasehold_testkit::servers::{Connection, Postgres, Redis, RedisCluster, RedisSentinels, Reply, cases, slot_of};

const SOON: Duration = Duration::from_secs(30);

fn set(server: &Redis, key: &str, value: &str) {
    assert_eq!(server.command(&["SET", key, value]).text(), "OK");
}

fn get(server: &Redis, key: &str) -> Option<String> {
    match server.command(&["GET", key]) {
        Reply::Nil => None,
        reply => Some(reply.text()),
    }
}

fn dial(server: &Redis) -> Connection {
    Connection::tcp(server.address()).unwrap()
}

fn is_alive(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

#[test]
fn a_plain_server_answers_and_is_gone_when_dropped() {
    let redis = Redis::start();
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
    assert_eq!(dial(&redis).ask(&["PING"]).unwrap().text(), "PONG");
    set(&redis, "name", "value");
    assert_eq!(get(&redis, "name").unwrap(), "value");
    assert!(redis.command(&["NONSENSE"]).error().unwrap().starts_with("ERR unknown command"));
    let nested = redis.command(&["EVAL", "return {1, {'a', false}}", "0"]);
    assert_eq!(nested.items()[1].items(), [Reply::Text("a".into()), Reply::Nil]);

    let (id, directory, address) = (redis.id(), redis.socket().parent().unwrap().to_owned(), redis.address());
    assert!(directory.is_dir());
    drop(redis);
    assert!(!is_alive(id) && !directory.exists());
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn plain_servers_start_quickly_and_are_strangers_to_each_other() {
    let start = Instant::now();
    let servers: Vec<_> = (0..20).map(|_| Redis::start()).collect();
    println!("20 servers started in {:?}", start.elapsed());
    // On an idle machine a fortieth of that.
    assert!(start.elapsed() < Duration::from_secs(40));
    let ports: BTreeSet<_> = servers.iter().map(Redis::port).collect();
    assert_eq!(ports.len(), 20);
    set(&servers[0], "name", "value");
    assert_eq!(get(&servers[1], "name"), None);
}

#[test]
fn a_killed_server_refuses_and_forgets() {
    let redis = Redis::start();
    set(&redis, "name", "value");
    let mut connection = dial(&redis);
    redis.kill();
    assert!(!redis.is_running());
    assert!(connection.ask(&["PING"]).is_err());
    assert_eq!(TcpStream::connect(redis.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    redis.restart();
    assert_eq!(get(&redis, "name"), None);
    assert!(dial(&redis).ask(&["PING"]).is_ok());
}

#[test]
fn an_append_only_server_that_is_killed_still_knows() {
    let redis = Redis::options().append_only().start();
    for number in 0..100 {
        set(&redis, &format!("name {number}"), "value");
        if number % 20 == 0 {
            redis.restart();
        }
    }
    redis.kill();
    redis.restart();
    assert_eq!(redis.command(&["DBSIZE"]).integer(), 100);
}

#[test]
fn a_server_that_was_told_to_save_still_knows() {
    let redis = Redis::start();
    set(&redis, "name", "value");
    redis.command(&["SAVE"]);
    redis.restart();
    assert_eq!(get(&redis, "name").unwrap(), "value");
}

#[test]
fn a_paused_server_accepts_and_says_nothing_until_it_goes_on() {
    let redis = Redis::start();
    redis.pause();
    assert!(!redis.is_running());
    let mut connection = dial(&redis);
    connection.send(&["PING"]).unwrap();
    let (sender, answer) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| sender.send(connection.receive()).unwrap());
        assert!(answer.recv_timeout(Duration::from_millis(50)).is_err());
        redis.resume();
        assert_eq!(answer.recv_timeout(SOON).unwrap().unwrap().text(), "PONG");
    });
    assert!(redis.is_running());
    redis.pause();
    let id = redis.id();
    drop(redis);
    assert!(!is_alive(id));
}

#[test]
fn a_password_is_asked_for_and_is_in_the_url() {
    let redis = Redis::options().password("p@ss \"word\"").start();
    assert_eq!(redis.url(), format!("redis://:p%40ss%20%22word%22@{}", redis.address()));
    let mut connection = dial(&redis);
    assert!(connection.ask(&["PING"]).unwrap().error().unwrap().starts_with("NOAUTH"));
    assert_eq!(connection.ask(&["AUTH", "p@ss \"word\""]).unwrap().text(), "OK");
    assert_eq!(connection.ask(&["PING"]).unwrap().text(), "PONG");
    set(&redis, "name", "value");
}

#[test]
fn users_may_do_what_their_lines_say() {
    let redis = Redis::options().acl(&["user default off", "user worker on >secret ~lease:* +@all -eval"]).start();
    assert_eq!(redis.url_as("worker", "secret"), format!("redis://worker:secret@{}", redis.address()));
    let mut connection = dial(&redis);
    assert!(connection.ask(&["PING"]).unwrap().error().unwrap().starts_with("NOAUTH"));
    assert_eq!(connection.ask(&["AUTH", "worker", "secret"]).unwrap().text(), "OK");
    assert_eq!(connection.ask(&["SET", "lease:a", "x"]).unwrap().text(), "OK");
    for forbidden in [&["SET", "other", "x"][..], &["EVAL", "return 1", "0"]] {
        assert!(connection.ask(forbidden).unwrap().error().unwrap().starts_with("NOPERM"));
    }
    assert_eq!(get(&redis, "lease:a").unwrap(), "x");
}

#[test]
fn a_server_without_a_port_has_a_socket() {
    let redis = Redis::options().unix_socket().start();
    assert_eq!(redis.url(), format!("redis+unix://{}", redis.socket().display()));
    assert_eq!(Connection::unix(&redis.socket()).unwrap().ask(&["PING"]).unwrap().text(), "PONG");
    assert_eq!(TcpStream::connect(redis.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_full_server_says_so() {
    let redis = Redis::options().max_memory(1, "noeviction").start();
    assert!(redis.command(&["SET", "name", "value"]).error().unwrap().starts_with("OOM"));
}

#[test]
fn any_line_of_the_configuration_can_be_given() {
    let redis = Redis::options().config("databases", "3").config("appendfilename", "\"a b.aof\"").start();
    assert_eq!(redis.command(&["CONFIG", "GET", "databases"]).items()[1].text(), "3");
}

#[test]
#[should_panic(expected = "Bad directive")]
fn a_line_that_the_server_does_not_take_is_told() {
    let _ = Redis::options().config("no-such-thing", "1").start();
}

#[test]
fn commands_are_counted_without_those_of_the_testkit() {
    let redis = Redis::start();
    let mut connection = dial(&redis);
    assert_eq!(redis.commands_processed(), 0);
    for _ in 0..3 {
        connection.ask(&["PING"]).unwrap();
    }
    assert_eq!(redis.commands_processed(), 3);
    set(&redis, "name", "value");
    let _ = redis.monitor().commands();
    assert_eq!(redis.commands_processed(), 5, "what the test asks for counts, and so does MONITOR");
    redis.restart();
    assert_eq!(redis.commands_processed(), 0);
}

#[test]
fn a_monitor_hears_every_command_in_its_order() {
    let redis = Redis::start();
    let mut connection = dial(&redis);
    let mut monitor = redis.monitor();
    connection.ask(&["SET", "name", "1"]).unwrap();
    connection.ask(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "name"]).unwrap();
    let heard = monitor.commands();
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert!(heard[0].starts_with("[0 127.0.0.1:") && heard[0].ends_with(r#"] "SET" "name" "1""#), "{heard:?}");
    assert_eq!(heard[2], r#"[0 lua] "INCR" "name""#);
    assert_eq!(monitor.commands(), [""; 0]);
}

#[test]
fn a_replica_has_what_its_master_has_and_follows() {
    let master = Redis::options().password("secret").start();
    set(&master, "name", "before");
    let replica = Redis::replica_of(&master);
    assert_eq!(get(&replica, "name").unwrap(), "before");
    set(&master, "name", "after");
    replica.catch_up_with(&master);
    assert_eq!(get(&replica, "name").unwrap(), "after");
    assert!(replica.command(&["SET", "name", "x"]).error().unwrap().starts_with("READONLY"));
    replica.restart();
    replica.catch_up_with(&master);
    assert_eq!(get(&replica, "name").unwrap(), "after");
}

#[test]
fn a_replica_behind_a_proxy_can_be_held_back() {
    let master = Redis::start();
    let proxy = Proxy::to(master.address());
    let replica = Redis::options().config("replicaof", &format!("127.0.0.1 {}", proxy.port())).start();
    proxy.blackhole(Direction::ToClient);
    set(&master, "name", "value");
    eventually("the news is under way", SOON, || proxy.held(Direction::ToClient) > 0);
    assert_eq!(get(&replica, "name"), None);
    proxy.heal();
    replica.catch_up_with(&master);
    assert_eq!(get(&replica, "name").unwrap(), "value");
}

#[test]
fn sentinels_name_a_new_master() {
    let start = Instant::now();
    let group = RedisSentinels::start_with(Redis::options().password("secret"));
    println!("sentinels started in {:?}", start.elapsed());
    cases(
        &group,
        RedisSentinels::mend,
        &[
            ("on_request", sentinels_fail_over_on_request),
            ("when_it_dies", sentinels_fail_over_when_the_master_dies),
            ("when_it_hangs", sentinels_fail_over_when_the_master_hangs),
            ("without_one_of_them", sentinels_fail_over_without_one_of_them),
        ],
    );
}

fn sentinels_fail_over_on_request(group: &RedisSentinels) {
    let (master, replica) = (group.master(), group.replica());
    set(master, "name", "value");
    replica.catch_up_with(master);
    let new = group.failover();
    assert_eq!((new.port(), group.replica().port()), (replica.port(), master.port()));
    assert_eq!(get(new, "name").unwrap(), "value");
    assert!(master.command(&["SET", "name", "x"]).error().unwrap().starts_with("READONLY"));
    let sentinel = &group.urls()[0];
    let mut connection = Connection::tcp(sentinel.strip_prefix("redis://").unwrap()).unwrap();
    let answer = connection.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", group.master_name()]).unwrap();
    assert_eq!(answer.items()[1].text(), new.port().to_string());
}

fn sentinels_fail_over_when_the_master_dies(group: &RedisSentinels) {
    let replica = group.replica();
    let old = group.kill_master();
    group.settle();
    assert_eq!(group.master().port(), replica.port());
    old.restart();
    group.settle();
    assert_eq!(group.replica().port(), old.port());
}

fn sentinels_fail_over_when_the_master_hangs(group: &RedisSentinels) {
    let (master, replica) = (group.master(), group.replica());
    master.pause();
    group.settle();
    assert_eq!(group.master().port(), replica.port());
}

fn sentinels_fail_over_without_one_of_them(group: &RedisSentinels) {
    group.sentinels()[0].kill();
    let replica = group.replica();
    group.kill_master();
    group.settle();
    assert_eq!(group.master().port(), replica.port());
}

#[test]
fn a_cluster_serves_all_slots_whatever_happens_to_one_node() {
    let start = Instant::now();
    let cluster = RedisCluster::start();
    println!("cluster started in {:?}", start.elapsed());
    cases(
        &cluster,
        RedisCluster::mend,
        &[
            ("slots", a_cluster_deals_the_slots_out),
            ("failover", a_cluster_fails_over_on_request),
            ("death", a_cluster_replaces_a_dead_master),
            ("hang", a_cluster_replaces_a_hanging_master),
            ("move", a_cluster_moves_a_slot),
        ],
    );
}

fn a_cluster_deals_the_slots_out(cluster: &RedisCluster) {
    assert_eq!((cluster.nodes().len(), cluster.urls().len()), (6, 6));
    for key in ["a", "b", "{tag}.x", "x{tag}y{other}", "{}empty", "{open", ""] {
        let slot = slot_of(key);
        let master = cluster.master_of(slot);
        assert_eq!(master.command(&["CLUSTER", "KEYSLOT", key]).integer(), i64::from(slot));
        set(master, key, "value");
        let other = cluster.nodes().iter().find(|node| node.port() != master.port()).unwrap();
        let moved = format!("MOVED {slot} {}", master.address());
        assert_eq!(other.command(&["GET", key]).error().unwrap(), moved);
    }
    assert_eq!(slot_of("{tag}.x"), slot_of("x{tag}y{other}"));
    let masters: BTreeSet<_> = [0, 5460, 5461, 10922, 16383].map(|slot| cluster.master_of(slot).port()).into();
    assert_eq!(masters.len(), 3);
}

fn a_cluster_fails_over_on_request(cluster: &RedisCluster) {
    let slot = slot_of("name");
    let (old, replica) = (cluster.master_of(slot), cluster.replica_of(slot));
    set(old, "name", "value");
    let new = cluster.failover(slot);
    assert_eq!((new.port(), cluster.replica_of(slot).port()), (replica.port(), old.port()));
    assert_eq!(get(new, "name").unwrap(), "value");
    assert!(old.command(&["SET", "name", "x"]).error().unwrap().starts_with("MOVED"));
}

fn a_cluster_replaces_a_dead_master(cluster: &RedisCluster) {
    let (old, replica) = (cluster.master_of(0), cluster.replica_of(0));
    old.kill();
    cluster.settle();
    assert_eq!(cluster.master_of(0).port(), replica.port());
    old.restart();
    cluster.settle();
    assert_eq!(cluster.replica_of(0).port(), old.port());
}

fn a_cluster_replaces_a_hanging_master(cluster: &RedisCluster) {
    let (old, replica) = (cluster.master_of(0), cluster.replica_of(0));
    old.pause();
    cluster.settle();
    assert_eq!(cluster.master_of(0).port(), replica.port());
}

fn a_cluster_moves_a_slot(cluster: &RedisCluster) {
    let slot = slot_of("{moving}");
    let from = cluster.master_of(slot);
    let to = cluster.nodes().iter().find(|node| cluster.master_of(0).port() == node.port());
    let to = to.filter(|to| to.port() != from.port()).unwrap_or(cluster.master_of(16383));
    set(from, "{moving}there", "value");
    cluster.begin_move(slot, to);
    assert_eq!(get(from, "{moving}there").unwrap(), "value");
    let ask = format!("ASK {slot} {}", to.address());
    assert_eq!(from.command(&["GET", "{moving}gone"]).error().unwrap(), ask);
    cluster.finish_move(slot, to);
    assert_eq!(cluster.master_of(slot).port(), to.port());
    assert_eq!(get(to, "{moving}there").unwrap(), "value");
    assert!(from.command(&["GET", "{moving}there"]).error().unwrap().starts_with("MOVED"));
}

#[test]
fn worker() {
    process::serve(&[("serve", serve), ("serve_shortly", || drop(Redis::start()))]);
}

/// Says whom it has started, and waits to be killed.
fn serve() {
    // From a thread that ends: that must not be the servers' end.
    let servers = std::thread::spawn(|| [Redis::start(), Redis::options().append_only().start()]).join().unwrap();
    let [first, second] = &servers;
    assert!(first.is_running() && second.is_running());
    // A paused one has to go as well.
    let (id, directory) = (second.id(), second.socket().parent().unwrap().to_owned());
    second.pause();
    process::say(&format!("started {} {id} {}", first.id(), directory.display()));
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_killed_test_leaves_no_server_and_the_next_one_sweeps_up() {
    let mut worker = Worker::start("worker", "serve", &[]);
    let started = worker.hear("started", SOON);
    let [first, second, directory] = started.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let ids = [first, second].map(|id| id.parse::<u32>().unwrap());
    assert!(ids.into_iter().all(is_alive));
    worker.kill();
    eventually("the servers are gone", SOON, || !ids.into_iter().any(is_running_still));
    // A process sweeps when it starts its first server. That of another test may be at it already.
    Worker::start("worker", "serve_shortly", &[]).succeeds(SOON);
    let directory = PathBuf::from(directory);
    eventually("its directory is gone", SOON, || !directory.exists());
}

/// Not a process that has ended and that nobody waits for, as may be in a container.
fn is_running_still(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

#[cfg(feature = "tls")]
mod tls {
    use std::fs::read;
    use std::io::{self, Read, Write};
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use leasehold_testkit::servers::Certificates;

    use super::*;

    /// Trusts that authority, shows that client's certificate, and pings.
    fn ping(server: &Redis, trusted: &Certificates, client: Option<&Certificates>) -> io::Result<String> {
        let certificate = |path| CertificateDer::from_pem_slice(&read(path).unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate(trusted.authority())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let config = match client.map(Certificates::client) {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let key = PrivateKeyDer::from_pem_slice(&read(key).unwrap()).unwrap();
                builder.with_client_auth_cert(vec![certificate(chain)], key).unwrap()
            }
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(tls, TcpStream::connect(server.address())?);
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
    }

    #[test]
    fn a_server_speaks_tls_with_who_trusts_its_authority() {
        let redis = Redis::options().tls().start();
        assert_eq!(redis.url(), format!("rediss://{}", redis.address()));
        assert_eq!(ping(&redis, redis.certificates(), None).unwrap(), "+PONG");
        let error = ping(&redis, &Certificates::new(), None).unwrap_err();
        assert!(error.to_string().contains("invalid peer certificate"), "{error}");
        set(&redis, "name", "value");
        redis.restart();
        assert_eq!(ping(&redis, redis.certificates(), None).unwrap(), "+PONG");
    }

    #[test]
    fn a_server_that_wants_certificates_takes_only_its_own_authoritys() {
        let redis = Redis::options().tls_both_ways().start();
        let own = redis.certificates();
        assert_eq!(ping(&redis, own, Some(own)).unwrap(), "+PONG");
        assert!(ping(&redis, own, None).is_err());
        assert!(ping(&redis, own, Some(&Certificates::new())).is_err());
    }

    #[test]
    fn replicas_sentinels_and_clusters_speak_tls_among_themselves() {
        let options = Redis::options().tls_both_ways().password("a \"b\"");
        let group = RedisSentinels::start_with(options.clone());
        let certificates = group.master().certificates();
        let needs_password = ping(group.master(), certificates, Some(certificates)).unwrap();
        assert_eq!(needs_password, "-NOAUTH");
        assert!(group.urls()[0].starts_with("rediss://"));
        let old = group.master().port();
        assert_ne!(group.failover().port(), old);

        let cluster = RedisCluster::start_with(options);
        let slot = slot_of("name");
        assert_ne!(cluster.failover(slot).port(), old);
    }

    #[test]
    fn a_server_with_tls_says_nothing_in_the_clear() {
        let redis = Redis::options().tls().start();
        assert!(dial(&redis).ask(&["PING"]).is_err());
    }
}

#[test]
fn a_clock_of_its_own_can_be_set_and_what_is_to_end_goes_by_it() {
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let redis = Redis::options().own_clock().start();
    let is_ahead = |seconds: i64| {
        let before = now() + seconds;
        let Reply::Items(time) = redis.command(&["TIME"]) else { panic!("no time") };
        let shown = time[0].text().parse::<i64>().unwrap();
        (before - 2..=now() + seconds + 2).contains(&shown)
    };
    assert!(is_ahead(0));
    redis.command(&["SET", "k", "v", "EX", "60"]);
    redis.set_clock(-1800);
    assert!(is_ahead(-1800));
    assert!(redis.command(&["TTL", "k"]).integer() > 1800);
    redis.set_clock(3600);
    assert!(is_ahead(3600));
    assert_eq!(get(&redis, "k"), None);
    redis.restart();
    assert!(is_ahead(3600));
}

/// A machine has room for so many segments only.
#[test]
fn a_postgres_leaves_no_shared_memory_behind() {
    let server = Postgres::start();
    let status = Path::new(&server.sql("show data_directory")).join("postmaster.pid");
    let segment = || {
        let status = fs::read_to_string(&status).unwrap();
        status.lines().nth(6).unwrap().split_whitespace().nth(1).unwrap().to_owned()
    };
    let is_there = |segment: &str| {
        let all = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        all.lines().any(|line| line.split_whitespace().nth(1) == Some(segment))
    };
    let first = segment();
    assert!(is_there(&first));
    server.restart();
    let second = segment();
    assert!(is_there(&second) && (first == second || !is_there(&first)));
    drop(server);
    assert!(!is_there(&second));
}
