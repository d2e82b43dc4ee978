//! Several hosts in one URL.

use super::*;

fn both(one: &Postgres, other: &Postgres) -> String {
    format!("postgres://postgres@{},{}/postgres", one.address(), other.address())
}

/// Each takes writes: locks would be granted twice.
#[tokio::test]
async fn servers_that_are_no_copies_of_one_another_are_refused() {
    let (one, other) = (Postgres::start(), Postgres::options().apart().start());
    for server in [&one, &other] {
        server.sql("create role jobs login; grant create on schema public to jobs");
    }
    for how in ["", "?mode=advisory&namespace=sessions"] {
        for url in [both(&one, &other), both(&other, &one)] {
            let url = format!("{url}{how}").replace("postgres@", "jobs@");
            for _ in 0..2 {
                let error = store(&url).try_acquire(&claim("job")).await.unwrap_err();
                assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
                assert!(error.to_string().contains("no copies of one another"), "{error}");
            }
            let findings = store(&url).diagnose().await.unwrap();
            assert!(worst(&findings).message.contains("no copies of one another"), "{findings:?}");
        }
    }
}

/// Down at the start, it is found out as soon as it is the one that answers.
#[tokio::test]
async fn a_stranger_that_takes_the_place_of_a_server_is_refused() {
    let (one, other) = (Postgres::start(), Postgres::options().apart().start());
    other.kill();
    let store = store(&both(&one, &other));
    token(&*store, &claim("job")).await;
    one.kill();
    other.restart();
    let mut error = None;
    eventually_async("it is asked", SOON, async || {
        error = store.try_acquire(&claim("job")).await.err().filter(|error| error.kind() != ErrorKind::Unavailable);
        error.is_some()
    })
    .await;
    assert_eq!(error.unwrap().kind(), ErrorKind::Misconfigured);
    assert_eq!(other.sql("select to_regclass('leasehold_locks') is null"), "t");
}

/// Not refused: who uses it can't know which one is right. The doctor says so.
#[tokio::test]
async fn two_copies_that_both_take_writes_are_told() {
    let primary = Postgres::start();
    let standby = Postgres::standby_of(&primary);
    let url = both(&standby, &primary);
    token(&*store(&url), &claim("job")).await;
    let told = async || {
        let findings = store(&url).diagnose().await.unwrap();
        let hosts = findings.into_iter().find(|finding| finding.subject == "hosts").expect("they are looked at");
        (hosts.severity, hosts.message)
    };
    assert_eq!(told().await.0, Severity::Fine);
    standby.promote();
    let (severity, message) = told().await;
    assert!(severity == Severity::Problem && message.contains("both take writes"), "{message}");
    primary.kill();
    let (severity, message) = told().await;
    assert!(severity == Severity::Warning && message.contains(&primary.address()), "{message}");
    token(&*store(&format!("{url}?namespace=other")), &claim("job")).await;
}

/// As one does whose machine is gone: the others are tried meanwhile.
#[tokio::test]
async fn a_host_that_says_nothing_keeps_nobody_from_the_others() {
    let server = Postgres::start();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for how in ["", "&mode=advisory&namespace=sessions"] {
        let [before, behind] = [server.address(), silent.local_addr().unwrap().to_string()];
        for hosts in [format!("{before},{behind}"), format!("{behind},{before}")] {
            let url = format!("postgres://postgres@{hosts}/postgres?target_session_attrs=read-write{how}");
            token(&*store(&url), &claim(&format!("job at {hosts}"))).await;
        }
    }
}
