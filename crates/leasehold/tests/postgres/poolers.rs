//! Poolers that give somebody the answers to somebody else's questions, which one does whose client dies at a bad moment
//! (PgBouncer before 1.21, <https://github.com/pgbouncer/pgbouncer/issues/822>).

use std::io::{Read, Write};
use std::net::TcpListener;
use std::pin::pin;

use futures_util::future::{self, Either};
use leasehold::Renewal;
use tokio_postgres::{Client, NoTls};

use super::*;

/// A client that takes turns with ours. Nobody but the task of its connection sends and reads for it: with that it dies.
async fn stranger(pooler: &PgBouncer) -> (Client, tokio::task::JoinHandle<()>) {
    let (client, connection) = tokio_postgres::connect(&pooler.url(), NoTls).await.unwrap();
    (client, tokio::spawn(async { drop(connection.await) }))
}

/// Somebody asks two questions at once, and dies between the answers: the second one is still to come.
async fn leaves_an_answer_behind(pooler: &PgBouncer, answer: &str) {
    let (client, connection) = stranger(pooler).await;
    let slow = format!("select {answer} from pg_sleep(0.3)");
    let (first, second) = (pin!(client.query_typed("select 1", &[])), pin!(client.query_typed(&slow, &[])));
    match future::select(first, second).await {
        Either::Left((first, _)) => drop(first.unwrap()),
        Either::Right(_) => panic!("answers come in order"),
    }
    connection.abort();
    let _ = connection.await;
}

/// Whether this pooler does that.
fn mixes_answers() -> bool {
    let said = std::process::Command::new("pgbouncer").arg("--version").output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    let minor = said.strip_prefix("PgBouncer 1.").and_then(|rest| rest.split('.').next()).expect("it says its version");
    minor.parse::<u32>().unwrap() < 21
}

/// Has an answer come that is somebody else's, until one was met: `asks` says whether it was.
async fn is_met(pooler: &PgBouncer, answer: &str, asks: impl AsyncFn() -> bool) {
    for _ in 0..20 {
        leaves_an_answer_behind(pooler, answer).await;
        if asks().await || !mixes_answers() {
            return;
        }
    }
    panic!("none of them was");
}

/// Whether the store could not tell what became of a question; and nothing else went wrong with it.
fn is_unknown(error: &leasehold::Error) -> bool {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("another question"), "{error}");
    error.applied() == Applied::Maybe
}

#[tokio::test]
async fn the_answer_to_somebody_who_is_gone_is_taken_by_nobody() {
    let server = Postgres::start();
    server.sql(
        "create table shedlock(name varchar(64) primary key, lock_until timestamp not null, \
         locked_at timestamp not null, locked_by varchar(255) not null)",
    );
    let pooler = PgBouncer::with(&server, PoolMode::Transaction, "default_pool_size = 1");
    let store = store(&pooler.url());
    let (held, other, past) = (claim("held"), claim("held"), claim("past"));
    token(&*store, &held).await;

    let granted = "1, 7::bigint, 0, null::bigint, 0::bigint, null::bigint, 1::bigint, null::text[], null::text[], \
                   null::bigint[], null::bigint[], null::bigint[], null::boolean[], 7::bigint";
    is_met(&pooler, granted, async || match store.try_acquire(&other).await {
        Ok(answer) => matches!(answer, Attempt::Held(_)).then_some(false).expect("somebody else has it"),
        Err(error) => is_unknown(&error),
    })
    .await;
    let renewed = "array[1], 7::bigint";
    is_met(&pooler, renewed, async || match store.renew(&[(lease(&past), LONG)]).await.pop().unwrap() {
        Ok(answer) => (answer == Renewal::Gone).then_some(false).expect("nobody has it"),
        Err(error) => is_unknown(&error),
    })
    .await;
    let released = "1, 7::bigint";
    is_met(&pooler, released, async || match store.release(&lease(&past), Ended::default()).await {
        Ok(answer) => (answer == Release::NotHeld).then_some(false).expect("nobody has it"),
        Err(error) => is_unknown(&error),
    })
    .await;
    let free =
        "null::text, 0::bigint, 1::bigint, null::text, null::text, 0::bigint, 0::bigint, 0::bigint, false, 7::bigint";
    is_met(&pooler, free, async || match store.inspect(&held.name).await {
        Ok(answer) => answer.is_some().then_some(false).expect("somebody has it"),
        Err(error) => is_unknown(&error),
    })
    .await;
    let theirs = claims::store(&format!("{}?compat=shedlock", pooler.url()));
    theirs.time().await.unwrap();
    is_met(&pooler, "'past'::varchar, 7::bigint", async || {
        match theirs.release(&lease(&past), Ended::default()).await {
            Ok(answer) => (answer == Release::NotHeld).then_some(false).expect("nobody has it"),
            Err(error) => is_unknown(&error),
        }
    })
    .await;
    eventually_async("it goes on", SOON, async || store.time().await.is_ok()).await;
    assert_eq!(store.release(&lease(&held), Ended::default()).await.unwrap(), Release::Released);
}

/// Before anything is asked that matters: so it isn't known to be wrong, but another session is tried.
#[tokio::test]
async fn a_session_in_which_answers_are_still_to_come_is_left_alone() {
    let server = Postgres::start();
    store(&server.url()).time().await.unwrap();
    // For as long as that takes a session is made ready for the next one, who gets it too soon if a message arrives meanwhile.
    let slow = "server_reset_query = select pg_sleep(0.3), pg_advisory_unlock_all(); reset all";
    let pooler = PgBouncer::with(&server, PoolMode::Session, slow);
    for how in ["", "?mode=advisory&namespace=sessions"] {
        for nth in 0..3 {
            let (client, connection) = stranger(&pooler).await;
            client.batch_execute("listen anything").await.unwrap();
            pooler.pause();
            connection.abort();
            let _ = connection.await;
            server.sql("notify anything");
            pooler.resume();
            token(&*store(&format!("{}{how}", pooler.url())), &claim(&format!("job {nth}"))).await;
        }
    }
}

/// A server that says this to the first things that it is told, one after the other, and then goes; its URL.
fn server_that_says(words: &'static [&'static [u8]]) -> String {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://postgres@{}/x", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut client in server.incoming().flatten() {
            for words in words {
                let _ = client.read(&mut [0; 4096]);
                let _ = client.write_all(words);
            }
        }
    });
    url
}

#[tokio::test]
async fn a_server_that_is_none_is_told_as_that() {
    // What a PostgreSQL server says, but not now.
    let url = server_that_says(&[b"C\0\0\0\x10DISCARD ALL\0Z\0\0\0\x05I"]);
    let error = store(&url).try_acquire(&claim("job")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::Misconfigured, Applied::No), "{error}");
    assert!(error.to_string().contains("no PostgreSQL server"), "{error}");
}

/// A pooler lets somebody in before it has asked the server, and may be refused there.
#[tokio::test]
async fn the_last_word_of_who_lets_in_and_then_refuses_is_told() {
    let url = server_that_says(&[
        b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I",
        b"E\0\0\0\x36SFATAL\0VFATAL\0C08P01\0Mpassword was refused there\0\0",
    ]);
    for _ in 0..50 {
        let error = store(&url).try_acquire(&claim("job")).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{error}");
        assert!(error.to_string().contains("password was refused there"), "{error}");
    }
}
