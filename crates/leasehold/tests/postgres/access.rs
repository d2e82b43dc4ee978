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
