//! The Redis store over TLS.
#![cfg(feature = "redis")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use leasehold::{Applied, Error, ErrorKind, Locks, LossReason};
use leasehold_testkit::process::eventually_async;
use leasehold_testkit::servers::{Certificates, Redis, RedisCluster, RedisSentinels};

mod claims;
use claims::{acquired, locks};

const SOON: Duration = Duration::from_secs(30);

async fn works(url: &str) {
    acquired(&locks(url).await.lock("job")).await.release().await.unwrap();
}

async fn refused(url: &str) -> Error {
    let error = locks(url).await.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.applied(), Applied::No, "{error}");
    error
}

fn trusting(url: &str, ca: &Path) -> String {
    format!("{url}?restart_guard=off&ca={}", ca.display())
}

#[tokio::test]
async fn a_server_of_our_own_authority_is_trusted_and_no_other() {
    let server = Redis::options().tls().start();
    works(&trusting(&server.url(), &server.certificates().authority())).await;
    let others = Certificates::new();
    for url in [server.url(), trusting(&server.url(), &others.authority())] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("not trusted") && error.to_string().contains("ca=FILE"), "{error}");
    }
    let plain = refused(&format!("redis://{}", server.address())).await;
    assert!(!matches!(plain.kind(), ErrorKind::Invalid), "{plain}");
    let error = refused(&Redis::start().url().replace("redis:", "rediss:")).await;
    assert_ne!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn a_server_may_want_a_certificate_of_ours() {
    let server = Redis::options().tls_both_ways().start();
    let url = trusting(&server.url(), &server.certificates().authority());
    let with = |(cert, key): (std::path::PathBuf, std::path::PathBuf)| {
        format!("{url}&cert={}&key={}", cert.display(), key.display())
    };
    works(&with(server.certificates().client())).await;
    for url in [url.clone(), with(Certificates::new().client())] {
        let error = match Locks::connect(&url).await {
            Ok(locks) => locks.lock("job").try_acquire().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error.kind(), ErrorKind::AccessDenied | ErrorKind::Unavailable), "{error}");
    }
}

#[tokio::test]
async fn files_that_are_no_use_are_told_at_once() {
    let files = Certificates::new();
    let ((cert, key), ca) = (files.client(), files.authority());
    let show = |path: &Path| path.display().to_string();
    for (options, says) in [
        ("ca=/nowhere/ca.crt".to_owned(), "ca=/nowhere/ca.crt can't be read".to_owned()),
        (format!("ca={}", show(&key)), format!("ca={} holds no certificate", show(&key))),
        (format!("cert={}&key={}", show(&cert), show(&ca)), format!("key={} holds no private key", show(&ca))),
        (format!("cert={}&key={}", show(&cert), show(&files.server().1)), "don't belong together".to_owned()),
        (format!("cert={}", show(&cert)), "needs both".to_owned()),
    ] {
        for scheme in ["rediss://h/0", "rediss+cluster://h", "rediss+sentinel://h/main"] {
            let error = Locks::connect(&format!("{scheme}?{options}")).await.unwrap_err();
            // A file may be the machine's fault, half a pair is that of the URL.
            let kind = if says == "needs both" { ErrorKind::Invalid } else { ErrorKind::Misconfigured };
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(&says), "{error}");
        }
    }
}

#[tokio::test]
async fn sentinels_and_clusters_speak_it_too() {
    let options = || Redis::options().password("hunter2").tls();
    let sentinels = RedisSentinels::start_with(options());
    works(&trusting(&sentinels.url(), &sentinels.servers()[0].certificates().authority())).await;
    drop(sentinels);
    let cluster = RedisCluster::start_with(options());
    let url = trusting(&cluster.url(), &cluster.nodes()[0].certificates().authority());
    let locks = locks(&url).await;
    for name in ["a", "b", "c", "d"] {
        acquired(&locks.lock(name)).await.release().await.unwrap();
    }
}

#[tokio::test]
async fn e17_what_is_rotated_during_a_hold_is_read_again() {
    let ttl = Duration::from_secs(6);
    let dir = tempfile::tempdir().unwrap();
    let [ca, password] = ["ca.crt", "password"].map(|name| dir.path().join(name));
    let server = Redis::options().password("hunter2").tls().start();
    let trust = |files: &Certificates| assert!(fs::copy(files.authority(), &ca).is_ok());
    trust(server.certificates());
    fs::write(&password, "hunter2\n").unwrap();
    let url = format!("rediss://{}?ca={}&password_file={}", server.address(), ca.display(), password.display());
    let locks = locks(&url).await;
    let guard = acquired(&locks.lock("job").ttl(ttl)).await;
    let set = |settings: &[&str]| assert_eq!(server.command(&[&["CONFIG", "SET"], settings].concat()).error(), None);
    let cut = || ["normal", "pubsub"].map(|kind| drop(server.command(&["CLIENT", "KILL", "TYPE", kind])));

    let next = Certificates::new();
    let ((cert, key), authority) = (next.server(), next.authority());
    let [cert, key, authority] = [cert, key, authority].map(|path| path.display().to_string());
    set(&["tls-cert-file", &cert, "tls-key-file", &key, "tls-ca-cert-file", &authority]);
    set(&["requirepass", "hunter3"]);
    trust(&next);
    fs::write(&password, "hunter3\n").unwrap();
    cut();
    tokio::time::sleep(ttl).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());

    set(&["requirepass", "hunter4"]); // Which nobody tells us.
    cut();
    let reason = tokio::time::timeout(SOON, guard.lost()).await.expect("told in time");
    assert!(matches!(reason, LossReason::Unreachable(_)), "{reason:?}");
    let why = locks.inspect("job").await.unwrap_err();
    assert_eq!(why.kind(), ErrorKind::AccessDenied, "{why}");
    assert!(why.to_string().contains("WRONGPASS") && !why.to_string().contains("hunter"), "{why}");
    fs::write(&password, "hunter4\n").unwrap();
    eventually_async("it goes on", SOON, async || locks.inspect("job").await.is_ok()).await;
}
