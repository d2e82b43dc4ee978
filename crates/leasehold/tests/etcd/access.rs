//! Users, passwords and certificates.

use leasehold::store::{Note, NoteId, Topic};

use super::*;

/// Users with a password of their own: `bob` may do what locks of the namespace `default` need.
fn with_users(server: &Etcd) {
    for command in [
        &["user", "add", "root:hunter1"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "--prefix", "readwrite", "default/"],
        &["role", "grant-permission", "locks", "--prefix", "readwrite", "default!ticks/"],
        &["user", "add", "bob:hunter2"],
        &["user", "grant-role", "bob", "locks"],
        &["auth", "enable"],
    ] {
        server.command(command);
    }
}

fn as_root(server: &Etcd, arguments: &[&str]) {
    server.command(&[&["--user", "root:hunter1"], arguments].concat());
}

#[tokio::test]
async fn wrong_passwords_and_missing_rights_are_told_as_what_they_are() {
    let server = Etcd::start();
    with_users(&server);
    let as_user = |login: &str| server.url().replace("://", &format!("://{login}"));
    for login in ["", "bob:wrong@", "nobody:hunter2@"] {
        let error = locks(&as_user(login)).await.lock("job").try_acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{login}: {error}");
        assert!(!error.to_string().contains("wrong") && !error.to_string().contains("hunter2"), "{error}");
    }
    let bob = locks(&as_user("bob:hunter2@")).await;
    acquired(&bob.lock("job")).await.release().await.unwrap();
    acquired(&bob.once("piece", Duration::from_secs(3600))).await.complete().await.unwrap();
    // Locks need no notes; schedules do.
    let findings = bob.diagnose().await.unwrap();
    let lacks: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Problem).collect();
    let says = |lack: &leasehold::Finding, words| lack.message.contains(words);
    let is_of_notes = |lack: &&leasehold::Finding| says(lack, "default!notes/") && says(lack, "they run nothing");
    assert!(lacks.len() == 2 && lacks.iter().all(is_of_notes), "{lacks:?}");
    let note = |id| Note { topic: Topic::of_all("runs"), id, text: String::new(), keep: TTL, most: 1 };
    let note = [note(NoteId::new("1").unwrap())];
    let error = bob.notes().unwrap().note(&note).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{error}");
    as_root(&server, &["role", "grant-permission", "locks", "--prefix", "readwrite", "default!notes/"]);
    bob.notes().unwrap().note(&note).await.unwrap();
    let findings = bob.diagnose().await.unwrap();
    assert!(findings.iter().any(|finding| finding.message == "all that locks and schedules need"), "{findings:?}");
    let elsewhere = locks(&format!("{}?namespace=staging", as_user("bob:hunter2@"))).await;
    let error = elsewhere.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    let findings = elsewhere.diagnose().await.unwrap();
    let may_not: Vec<_> = findings.iter().filter(|finding| finding.subject == "rights").collect();
    assert_eq!(may_not.len(), 6, "{may_not:?}");
    assert!(may_not.iter().all(|finding| finding.fix.is_some()));
    assert_eq!(may_not.iter().filter(|finding| finding.severity == Severity::Problem).count(), 6, "{may_not:?}");
}

#[tokio::test]
async fn a_login_that_runs_out_is_renewed_and_no_loss() {
    let server = Etcd::options().flag("auth-token-ttl", "1").start();
    with_users(&server);
    let locks = locks(&server.url().replace("://", "://bob:hunter2@")).await;
    let guard = acquired(&locks.lock("job").ttl(Duration::from_secs(6))).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    acquired(&locks.lock("another")).await.release().await.unwrap();
    as_root(&server, &["user", "add", "carol:hunter3"]); // All logins are of the past now.
    acquired(&locks.lock("another")).await.release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(guard.is_valid(), "{:?}", guard.loss());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn g11_credentials_that_go_wrong_are_an_error_and_a_file_is_read_again() {
    let server = Etcd::start();
    with_users(&server);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "hunter2\n").unwrap();
    let url = server.url().replace("://", "://bob@");
    let locks = locks(&format!("{url}?password_file={}", file.display())).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    server.command(&["--user", "root:hunter1", "user", "delete", "bob"]);
    let error = locks.lock("another").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    let reason = tokio::time::timeout(TTL, guard.lost()).await.expect("told in time");
    assert!(matches!(reason, LossReason::Unreachable(_)), "{reason:?}");
    as_root(&server, &["user", "add", "bob:hunter4"]);
    as_root(&server, &["user", "grant-role", "bob", "locks"]);
    std::fs::write(&file, "hunter4\n").unwrap();
    acquired(&locks.lock("another")).await.release().await.unwrap();
}

fn trusting(url: &str, authority: &std::path::Path) -> String {
    format!("{url}?ca={}", authority.display())
}

#[tokio::test]
async fn over_tls_to_whom_the_authority_has_signed() {
    let server = Etcd::options().tls().start();
    let locks = locks(&trusting(&server.url(), &server.certificates().authority())).await;
    let guard = acquired(&locks.lock("job").ttl(TTL)).await;
    tokio::time::sleep(TTL).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    for url in [
        trusting(&server.url(), &Certificates::new().authority()),
        server.url(),
        format!("etcd://{}", server.address()),
    ] {
        let error = Locks::connect(&url).await.unwrap().lock("job").try_acquire().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::Unavailable), "{url}: {error}");
        assert_eq!(error.applied(), Applied::No, "{url}: {error}");
    }
}

#[tokio::test]
async fn a_server_may_want_a_certificate_of_ours() {
    let server = Etcd::options().tls_both_ways().start();
    let url = trusting(&server.url(), &server.certificates().authority());
    let with = |(cert, key): (std::path::PathBuf, std::path::PathBuf)| {
        format!("{url}&cert={}&key={}", cert.display(), key.display())
    };
    acquired(&locks(&with(server.certificates().client())).await.lock("job")).await.release().await.unwrap();
    for url in [url.clone(), with(Certificates::new().client())] {
        let error = locks(&url).await.lock("job").try_acquire().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::AccessDenied | ErrorKind::Unavailable), "{error}");
    }
}
