//! Notes in the cluster's keys: what is left of them, and what becomes of them there.

use leasehold::store::{Note, NoteId, Search, Topic};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const RUNS: Topic = Topic::of_all("runs");

fn note(id: &str, text: &str) -> Note {
    Note { topic: RUNS, id: NoteId::new(id).unwrap(), text: text.to_owned(), keep: HOUR, most: 1000 }
}

async fn write(locks: &Locks, notes: &[Note]) {
    locks.notes().unwrap().note(notes).await.unwrap();
}

/// The ids, in the order in which they are told.
async fn told(locks: &Locks) -> Vec<String> {
    let notes = locks.notes().unwrap().notes(&Search::newest(RUNS, 10_000)).await.unwrap();
    notes.into_iter().map(|noted| noted.id.to_string()).collect()
}

fn leases(server: &Etcd) -> Vec<String> {
    server.command(&["lease", "list"]).lines().skip(1).map(str::to_owned).collect()
}

#[tokio::test]
async fn many_notes_of_many_clients_hang_on_few_leases_and_none_is_without_an_end() {
    let server = Etcd::start();
    for client in 0..10 {
        let locks = locks(&server.url()).await;
        for nth in 0..10 {
            write(&locks, &[note(&format!("{client}-{nth}"), "ran")]).await;
        }
        write(&locks, &[Note { keep: HOUR + Duration::from_secs(client), ..note("kept about as long", "") }]).await;
    }
    let keys = server.keys("default!notes/");
    assert_eq!(keys.len(), 2 * 101 + 1, "two for each, and which lease it is");
    let hung_on: BTreeSet<_> = keys
        .iter()
        .map(|key| {
            let said = server.command(&["get", key, "--write-out=fields"]);
            said.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap().to_owned()
        })
        .collect();
    assert!(hung_on.len() == 1 && !hung_on.contains("0"), "{hung_on:?}");
    assert_eq!(leases(&server).len(), 1);
}

/// Whoever writes next hangs them on another one.
#[tokio::test]
async fn what_hung_on_a_lease_goes_with_it_and_writing_goes_on() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    write(&locks, &[note("1", "")]).await;
    server.command(&["lease", "revoke", &leases(&server)[0]]);
    assert_eq!(server.keys("default!notes/"), [""; 0]);
    write(&locks, &[note("2", "")]).await;
    assert_eq!(told(&locks).await, ["2"]);
    assert_eq!(leases(&server).len(), 1);
}

#[tokio::test]
async fn a_compaction_and_a_restart_do_no_harm() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let all: Vec<_> = (0..600).map(|nth| note(&format!("{nth:03}"), "ran")).collect();
    write(&locks, &all).await;
    write(&locks, &[note("000", "again")]).await;
    let status = server.command(&["endpoint", "status", "--write-out=fields"]);
    let revision = status.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).unwrap().to_owned();
    server.command(&["compact", &revision]);
    assert_eq!(told(&locks).await.len(), 600);
    server.kill();
    server.restart();
    eventually_async("it is back", SOON, async || locks.time().await.is_ok() && locks.list().await.is_ok()).await;
    write(&locks, &[note("new", "")]).await;
    assert_eq!(told(&locks).await[..2], ["new", "000"]);
    assert_eq!(told(&locks).await.len(), 601);
}

/// What fits into one request is sent in one, and no more.
#[tokio::test]
async fn more_is_written_in_one_call_than_fits_into_a_request() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let long = "x".repeat(Note::LONGEST);
    let all: Vec<_> = (0..60).map(|nth| note(&nth.to_string(), &long)).collect();
    write(&locks, &all).await;
    let notes = locks.notes().unwrap().notes(&Search::newest(RUNS, 100)).await.unwrap();
    assert!(notes.len() == 60 && notes.iter().all(|noted| noted.text == long));
    let all: Vec<_> = (0..1500).map(|nth| note(&format!("small {nth}"), "")).collect();
    write(&locks, &all).await;
    assert_eq!(told(&locks).await.len(), 1000, "no more are kept");
    let ids: Vec<_> = all.iter().map(|note| note.id.clone()).collect();
    locks.notes().unwrap().erase(&RUNS, &ids).await.unwrap();
    assert_eq!(told(&locks).await, [""; 0]);
    assert_eq!(server.keys("default!notes/").len(), 1, "which lease it is");
}

/// One of them is the last.
#[tokio::test]
async fn of_those_who_write_the_same_note_one_is_told() {
    let server = Etcd::start();
    let clients = join_all((0..6).map(async |_| locks(&server.url()).await)).await;
    join_all(clients.iter().enumerate().map(async |(nth, locks)| {
        for round in 0..5 {
            write(locks, &[note("same", &format!("{nth} {round}")), note(&nth.to_string(), "")]).await;
        }
    }))
    .await;
    assert_eq!(told(&clients[0]).await.len(), 7);
    assert_eq!(server.keys("default!notes/").len(), 2 * 7 + 1, "nothing is left of the others");
}

/// They are told no more, and make room for others though their keys are there still.
#[tokio::test]
async fn those_whose_time_is_over_take_no_place() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    let of_three = |id: &str, keep| Note { keep, most: 3, ..note(id, "") };
    write(&locks, &[of_three("stays", HOUR)]).await;
    for id in ["a", "b"] {
        write(&locks, &[of_three(id, Duration::from_millis(1))]).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(told(&locks).await, ["stays"]);
    write(&locks, &[of_three("new", HOUR)]).await;
    assert_eq!(told(&locks).await, ["new", "stays"]);
    assert_eq!(server.keys("default!notes/runs//of/").len(), 2);
}

/// No lock's name reaches them, nor do locks see them.
#[tokio::test]
async fn locks_and_notes_do_not_meet() {
    let server = Etcd::start();
    let locks = locks(&server.url()).await;
    write(&locks, &[note("1", "")]).await;
    for name in ["!notes/runs//of/1", "runs", "!notes"] {
        let guard = acquired(&locks.lock(name)).await;
        assert_eq!(locks.list().await.unwrap().len(), 1, "{name}");
        guard.release().await.unwrap();
    }
    assert_eq!(told(&locks).await, ["1"]);
    assert!(
        locks
            .diagnose()
            .await
            .unwrap()
            .iter()
            .all(|finding| finding.subject != "keys" || finding.severity == Severity::Fine)
    );
}
