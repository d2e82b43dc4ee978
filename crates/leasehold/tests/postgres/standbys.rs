//! Servers that follow another one.

use super::*;

#[tokio::test]
async fn i11_a_standby_grants_nothing_until_it_is_promoted() {
    let primary = Postgres::start();
    let first = store(&primary.url());
    let before = token(&*first, &claim("job")).await;
    let standby = Postgres::standby_of(&primary);
    standby.catch_up_with(&primary);
    let second = store(&standby.url());
    let error = second.try_acquire(&claim("job")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::No), "{error}");
    assert!(worst(&second.diagnose().await.unwrap()).message.contains("standby"));
    assert!(worst(&first.diagnose().await.unwrap()).message.contains("asynchronously"));
    let (one, other) = (primary.address(), standby.address());
    let both = store(&format!("postgres://postgres@{other},{one}/postgres"));
    assert!(is_contended(&*both, "job").await);
    primary.kill();
    standby.promote();
    standby.sql("update leasehold_locks set expires = 0");
    let mut after = 0;
    let next = claim("job");
    eventually_async("it has found the other one", SOON, async || {
        if let Ok(Attempt::Granted(grant)) = both.try_acquire(&next).await {
            after = grant.token.number();
        }
        after > 0
    })
    .await;
    assert!(after > before);
    assert!(is_contended(&*second, "job").await);
}

#[tokio::test]
async fn the_clock_of_a_standby_does_not_count() {
    let primary = Postgres::start();
    primary.sql(
        "create table shedlock(name varchar(64) primary key, lock_until timestamp not null, \
         locked_at timestamp not null, locked_by varchar(255) not null)",
    );
    let standby = Postgres::standby_of(&primary);
    let proxy = Proxy::to(primary.address());
    let url = proxy.url(&primary.url());
    let stores = ["", "?compat=shedlock", "?mode=advisory&namespace=sessions"].map(|how| store(&format!("{url}{how}")));
    for store in &stores {
        store.time().await.unwrap();
    }
    proxy.lead_to(standby.address());
    proxy.cut();
    for store in &stores {
        eventually_async("it says what it is", SOON, async || match store.time().await {
            Err(error) => error.kind() == ErrorKind::Unavailable && error.to_string().contains("standby"),
            Ok(time) => panic!("a time of no use: {time:?}"),
        })
        .await;
    }
    standby.promote();
    let stores: Vec<_> = stores.iter().map(|store| &**store).collect();
    reconnected(&stores).await;
}
