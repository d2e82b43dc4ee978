//! What is at the place that a URL names is something else: one line that says what was found, and what to do.

mod common;

use std::path::Path;

use common::Bench;
use leasehold_testkit::servers::{Etcd, MariaDb, Postgres, Redis};

const UNAVAILABLE: i32 = 69;
const CONFIG: i32 = 78;

/// A status and an examination are asked for at each place, and have to fail so.
#[track_caller]
fn each(cases: &[(String, i32, &[&str])]) {
    let bench = Bench::new();
    for ((url, code, words), verb) in cases.iter().flat_map(|case| [(case, &["status", "a"][..]), (case, &["doctor"])])
    {
        let mut ran = bench.run(verb.iter().copied().chain(["--store", url.as_str()]));
        // Of a connection that ends while something is written to it, it is chance what was read of the answer.
        if ran.stderr.contains("if it goes on so") && [UNAVAILABLE, CONFIG].contains(&ran.code) {
            ran.code = *code;
        }
        ran.fails(*code, words);
        assert_eq!(ran.stderr.lines().count(), 1, "{url}: {ran:?}");
    }
}

#[test]
fn a_redis_is_looked_for_where_there_is_none() {
    let (etcd, mariadb) = (Etcd::start(), MariaDb::start());
    let (redis, tls) = (Redis::start(), Redis::options().tls().start());
    each(&[
        (
            format!("redis://{}", mariadb.address()),
            CONFIG,
            &["does not answer as a Redis server does", "name the port"],
        ),
        (format!("redis://{}", etcd.address()), UNAVAILABLE, &["ended the connection", "name the port"]),
        (format!("redis://{}", tls.address()), UNAVAILABLE, &["ended the connection", "write rediss for redis"]),
        (format!("rediss://{}", mariadb.address()), CONFIG, &["does not speak TLS", "write redis for rediss"]),
        (format!("rediss://{}", etcd.address()), UNAVAILABLE, &["ended the connection", "write redis for rediss"]),
        (format!("redis://{}/99", redis.address()), CONFIG, &["has no such database", "redis://host/0"]),
        (
            format!("redis+sentinel://{}/main", redis.address()),
            CONFIG,
            &["is no sentinel", &format!("write redis://{}", redis.address())],
        ),
        (format!("redis+cluster://{}", redis.address()), CONFIG, &["no member of a cluster", "write redis://"]),
        (format!("redis+cluster://{}", mariadb.address()), CONFIG, &["does not answer as a Redis server does"]),
        (format!("redis+sentinel://{}/main", mariadb.address()), CONFIG, &["does not answer as a Redis server does"]),
    ]);
}

#[test]
fn an_etcd_is_looked_for_where_there_is_none() {
    let (redis, mariadb) = (Redis::start(), MariaDb::start());
    let (etcd, tls) = (Etcd::start(), Etcd::options().tls().start());
    each(&[
        (format!("etcd://{}", tls.address()), UNAVAILABLE, &["ended the connection", "write etcds for etcd"]),
        (format!("etcd://{}", redis.address()), CONFIG, &["name the port"]),
        (format!("etcd://{}", mariadb.address()), CONFIG, &["name the port"]),
        (format!("etcds://{}", etcd.address()), UNAVAILABLE, &["write etcd for etcds"]),
        (format!("etcds://{}", mariadb.address()), CONFIG, &["write etcd for etcds"]),
        (format!("etcds://{}", tls.address()), CONFIG, &["certificate", "ca=FILE"]),
    ]);
}

#[test]
fn a_database_is_looked_for_where_there_is_another() {
    let (postgres, mariadb, redis) = (Postgres::start(), MariaDb::start(), Redis::start());
    each(&[
        (format!("postgres://bob@{}/jobs", mariadb.address()), CONFIG, &["no PostgreSQL server", "name the port"]),
        (format!("postgres://bob@{}/jobs", redis.address()), UNAVAILABLE, &["name the port"]),
        (format!("mysql://bob@{}/jobs", postgres.address()), UNAVAILABLE, &["name the port"]),
        (format!("mysql://bob@{}/jobs", redis.address()), UNAVAILABLE, &["name the port"]),
    ]);
}

/// Whatever is wrong with the file of a password is told, not what comes of it.
#[test]
fn a_password_file_that_is_no_use_is_what_is_told() {
    let bench = Bench::new();
    bench.write("empty", "\n");
    let file = |name: &str| bench.path(name).display().to_string();
    let (none, empty) = (file("none"), file("empty"));
    assert!(Path::new(&empty).exists());
    for url in [
        "redis://127.0.0.1:1?",
        "redis+sentinel://127.0.0.1:1/main?sentinel_",
        "redis+cluster://127.0.0.1:1?",
        "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?",
        "etcd://bob@127.0.0.1:1?",
        "postgres://bob@127.0.0.1:1/jobs?",
        "mysql://bob@127.0.0.1:1/jobs?",
    ] {
        for (path, says) in [(&none, "can't be read"), (&empty, "is empty; write the password into it")] {
            let ran = bench.run(["status", "a", "--store", &format!("{url}password_file={path}")]);
            ran.fails(CONFIG, &["the password file", path.as_str(), says]);
            assert_eq!(ran.stderr.lines().count(), 1, "{url}: {ran:?}");
        }
    }
    bench.write(
        "leasehold.toml",
        "default = \"r\"\n[stores.r]\nurl = \"redis://127.0.0.1:1\"\npassword_file = \"empty\"",
    );
    common::ran(&mut bench.bare(["ls"])).fails(CONFIG, &["the password file ./empty is empty"]);
}

#[test]
fn a_file_that_a_url_names_is_not_the_command_lines_fault() {
    let bench = Bench::new();
    for url in ["rediss://h", "redlocks://a,b,c", "etcds://h", "postgres://h/jobs", "mysql://bob@h/jobs"] {
        let ran = bench.run(["status", "a", "--store", &format!("{url}?ca=/no/such.pem")]);
        ran.fails(CONFIG, &["ca=/no/such.pem can't be read", "name a file in PEM"]);
    }
}

#[test]
fn an_option_that_is_given_twice_is_refused() {
    let bench = Bench::new();
    for url in ["redis://h", "redlock://a,b,c", "etcd://h", "postgres://h/jobs", "mysql://bob@h/jobs", "sqlite:x.db"] {
        let url = format!("{url}?namespace=a&namespace=b");
        bench.run(["ls", "--store", &url]).fails(64, &["\"namespace\" twice"]);
        let mut by_environment = bench.bare(["ls"]);
        common::ran(by_environment.env("LEASEHOLD_STORE", &url))
            .fails(CONFIG, &["LEASEHOLD_STORE", "\"namespace\" twice"]);
    }
}
