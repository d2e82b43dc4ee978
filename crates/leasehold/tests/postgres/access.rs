//! How a server is reached, and what it refuses.

use super::*;

#[tokio::test]
async fn tls_is_checked_and_never_left_out() {
    let server = Postgres::options().tls().start();
    let ca = server.certificates().authority();
    let url = |query: &str| format!("{}{query}", server.url());
    token(&*store(&url(&format!("?sslmode=verify-full&ca={}", ca.display()))), &claim("a")).await;
    assert_eq!(
        server.sql("select distinct ssl from pg_stat_ssl join pg_stat_activity using(pid) where client_port > 0"),
        "t"
    );
    let error = store(&url("?sslmode=require")).try_acquire(&claim("b")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    assert!(error.to_string().contains("ca=FILE"), "{error}");
    let error = store(&url("")).try_acquire(&claim("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    let plain = Postgres::start();
    let insecure = format!("{}?ca={}", plain.url(), ca.display());
    let error = store(&insecure).try_acquire(&claim("b")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("ssl = on"), "{error}");
}

#[tokio::test]
async fn a_client_shows_its_certificate_where_one_is_wanted() {
    let server = Postgres::options().tls_both_ways().start();
    let (ca, (cert, key)) = (server.certificates().authority(), server.certificates().client());
    let url = format!("{}?ca={}", server.url(), ca.display());
    let error = store(&url).try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    token(&*store(&format!("{url}&cert={}&key={}", cert.display(), key.display())), &claim("a")).await;
}

#[tokio::test]
async fn over_a_unix_socket() {
    let server = Postgres::start();
    let host = server.socket_directory().display();
    let url = format!("postgres:///postgres?host={host}&port={}&user=postgres", server.port());
    token(&*store(&url), &claim("job")).await;
    assert!(is_contended(&*store(&server.url()), "job").await);
}

#[tokio::test]
async fn wrong_passwords_and_databases_are_told_as_what_they_are() {
    let server = Postgres::options().login("host all bob 127.0.0.1/32 scram-sha-256").start();
    server.sql("create role bob login password 'hunter2'; grant all on schema public to bob");
    for (url, kind) in [
        (server.url_as("bob", "wrong"), ErrorKind::AccessDenied),
        (server.url_as("bob", ""), ErrorKind::AccessDenied),
        (server.url_as("nobody", ""), ErrorKind::AccessDenied),
        (format!("postgres://postgres@{}/elsewhere", server.address()), ErrorKind::Misconfigured),
    ] {
        let error = store(&url).try_acquire(&claim("job")).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (kind, Applied::No), "{error}");
        assert!(!error.to_string().contains("wrong@"), "{error}");
    }
    token(&*store(&server.url_as("bob", "hunter2")), &claim("job")).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hunter2\n").unwrap();
    let url = format!("{}?password_file={}", server.url_as("bob", ""), file.path().display());
    assert!(is_contended(&*store(&url), "job").await);
}

#[tokio::test]
async fn short_time_outs_are_told_by_the_doctor() {
    let server = Postgres::start();
    server.sql("alter role postgres set statement_timeout = '900ms'; alter role postgres set synchronous_commit = off");
    let findings = store(&server.url()).diagnose().await.unwrap();
    assert!(findings.iter().any(|finding| finding.message.contains("statement_timeout is 900 ms")), "{findings:?}");
    let findings = store(&Postgres::options().durable().start().url()).diagnose().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity == Severity::Fine), "{findings:?}");
}

/// They are for what is examined; the examination itself goes on, and no pooler is blamed.
#[tokio::test]
async fn a_time_out_that_ends_everything_is_told_as_what_it_is() {
    let server = Postgres::start();
    token(&*store(&server.url()), &claim("job")).await;
    server.sql("alter database postgres set statement_timeout = '1ms'");
    let findings = store(&server.url()).diagnose().await.unwrap();
    let told = worst(&findings);
    assert_eq!((told.severity, told.subject), (Severity::Problem, "time-outs"), "{findings:?}");
    assert!(told.message.contains("statement_timeout is 1 ms"), "{findings:?}");
    assert!(!format!("{findings:?}").contains("pooler"), "{findings:?}");
    for subject in ["version", "rights", "tables", "durability", "failover", "clock", "latency"] {
        assert!(findings.iter().any(|finding| finding.subject == subject), "{subject}: {findings:?}");
    }
}

#[tokio::test]
async fn the_doctor_tries_each_right_on_what_is_executed_and_counted_by() {
    let server = Postgres::start();
    server.sql("create role jobs login");
    Tables::migrate(&server.url()).await.unwrap();
    server.sql("grant select, insert, update, delete on all tables in schema public to jobs");
    server.sql("revoke execute on procedure leasehold_v4_renew from public");
    let leases = server.url_as("jobs", "");
    let findings = store(&leases).diagnose().await.unwrap();
    assert!(worst(&findings).message.contains("may not execute leasehold_v4_renew"), "{findings:?}");
    let sessions = format!("{leases}?mode=advisory&namespace=sessions");
    let findings = store(&sessions).diagnose().await.unwrap();
    let message = "no right to select, usage, update on sequence \"public\".leasehold_tokens";
    assert!(findings.iter().any(|finding| finding.message.contains(message)), "{findings:?}");
    server.sql("grant execute on procedure leasehold_v4_renew to jobs");
    server.sql("grant select, usage, update on sequence leasehold_tokens to jobs");
    for url in [leases, sessions] {
        let findings = store(&url).diagnose().await.unwrap();
        assert!(worst(&findings).severity < Severity::Problem, "{findings:?}");
    }
}

/// A login takes longer than any call may, as with short TTLs and a network that is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_outlasts_each_call_comes_to_its_end() {
    let server = Postgres::options().login("host all bob 127.0.0.1/32 scram-sha-256").start();
    server.sql("create role bob login password 'hunter2'; grant all on schema public to bob");
    let url = server.url_as("bob", "hunter2");
    let (proxy, limit) = (Proxy::to(server.address()), Duration::from_millis(250));
    token(&*store(&url), &claim("job")).await;
    token(&*store(&format!("{url}?mode=advisory&namespace=sessions")), &claim("job")).await;
    for how in ["", "?mode=advisory&namespace=sessions"] {
        let slow = store(&format!("{}{how}", proxy.url(&url)));
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.delay(direction, Duration::from_millis(40));
        }
        let name = LockName::new("job").unwrap();
        let asked = async || tokio::time::timeout(limit, slow.inspect(&name)).await;
        assert!(asked().await.is_err(), "it is slow");
        let done = format!("it is found done ({how})");
        eventually_async(&done, SOON, async || matches!(asked().await, Ok(Ok(_)))).await;
        proxy.heal();
    }
}
