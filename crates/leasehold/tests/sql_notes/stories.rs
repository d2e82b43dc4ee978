//! What happens, told once for both servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::store::{Note, NoteId, Noted, Search, Topic};
use leasehold::{Applied, Attempt, Ended, ErrorKind, LockName, Release, Severity, Store};
use leasehold_testkit::process::eventually_async;

use super::claims::{SOON, TTL, claim, lease, store};

const LONG: Duration = Duration::from_secs(3600);

pub fn about(job: &str) -> Topic {
    Topic::of_all("runs").about(LockName::new(job).unwrap())
}

pub fn note(job: &str, id: &str) -> Note {
    Note { topic: about(job), id: NoteId::new(id).unwrap(), text: format!("{id} ran"), keep: LONG, most: 100 }
}

pub async fn writes(store: &Arc<dyn Store>, note: Note) {
    store.as_notes().expect("it keeps notes").note(&[note]).await.unwrap();
}

pub async fn reads(store: &Arc<dyn Store>, job: &str) -> Vec<Noted> {
    let newest = Search::newest(about(job), 1000);
    store.as_notes().expect("it keeps notes").notes(&newest).await.unwrap()
}

/// Of jobs and namespaces that nobody writes to any more, too; a little at a time.
pub async fn what_is_over_goes_with_what_is_written(url: &str, rows: impl Fn() -> String) {
    let [store, other] = ["", "?namespace=other"].map(|namespace| store(&format!("{url}{namespace}")));
    let short = |nth: usize| Note { keep: Duration::from_millis(1), ..note(&format!("old {nth}"), "1") };
    for nth in 0..15 {
        writes(&store, short(nth)).await;
        other.as_notes().unwrap().note(&[short(nth), note("stays", "1")]).await.unwrap();
    }
    eventually_async("those that are over are gone", SOON, async || {
        writes(&store, note("new", "1")).await;
        rows() == "2"
    })
    .await;
    assert_eq!((reads(&store, "new").await.len(), reads(&other, "stays").await.len()), (1, 1));
}

/// However many write at once.
pub async fn no_more_are_kept_than_are_to_be(url: &str, rows: impl Fn() -> String) {
    let writers: Vec<_> = (0..4).map(|_| store(url)).collect();
    for round in 0..20 {
        let write = |(nth, writer): (usize, &Arc<dyn Store>)| {
            let writer = Arc::clone(writer);
            let some = (0..3).map(|each| Note { most: 5, ..note("job", &format!("{round} {nth} {each}")) });
            let some: Vec<_> = some.collect();
            async move { writer.as_notes().unwrap().note(&some).await.unwrap() }
        };
        join_all(writers.iter().enumerate().map(write)).await;
        assert_eq!(rows(), "5", "round {round}");
    }
}

/// More than one call may carry, of each length; none is lost, and each is as it was.
pub async fn many_notes_are_written_in_few_calls(store: &Arc<dyn Store>) {
    let text = |nth: usize| "ä\0\"\\'".repeat(nth * 37 % 9000);
    let many: Vec<_> =
        (0..300).map(|nth| Note { text: text(nth), most: 1000, ..note("job", &format!("{nth:03}")) }).collect();
    store.as_notes().unwrap().note(&many).await.unwrap();
    let mut found: Vec<_> = reads(store, "job").await.into_iter().map(|noted| (noted.id, noted.text)).collect();
    found.sort();
    assert!(found.into_iter().eq(many.iter().map(|note| (note.id.clone(), note.text.clone()))));
    let ids: Vec<_> = many.iter().map(|note| note.id.clone()).collect();
    store.as_notes().unwrap().erase(&about("job"), &ids[1..]).await.unwrap();
    assert_eq!(reads(store, "job").await.len(), 1);
}

/// By who is at work and by who comes new; nobody is told an error.
pub async fn what_is_dropped_is_made_again(url: &str, drops: &[&str], run: impl Fn(&str)) {
    let old = store(url);
    writes(&old, note("job", "1")).await;
    for what in drops {
        for (who, store) in [("old", &old), ("new", &store(url))] {
            run(what);
            writes(store, note("job", "1")).await;
            assert_eq!(reads(store, "job").await.len(), 1, "{what}, {who}");
            run(what);
            assert!(reads(store, "job").await.len() < 2, "{what}, {who}");
            run(what);
            store.as_notes().unwrap().erase(&about("job"), &[NoteId::new("1").unwrap()]).await.unwrap();
        }
    }
    let findings = old.diagnose().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity < Severity::Problem), "{findings:?}");
}

/// A user who has all rights but those on notes, until they are granted: locks work, and the doctor says what doesn't.
pub async fn rights_on_notes_are_for_schedules_only(store: &Arc<dyn Store>, grant: impl Fn()) {
    assert!(matches!(store.try_acquire(&claim("job", TTL)).await.unwrap(), Attempt::Granted(_)));
    let error = store.as_notes().unwrap().note(&[note("job", "1")]).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (ErrorKind::AccessDenied, Applied::No), "{error}");
    assert!(
        error.to_string().contains("leasehold_notes") && error.to_string().contains("leasehold migrate"),
        "{error}"
    );
    let of_rights = async || {
        let findings = store.diagnose().await.unwrap();
        findings.into_iter().filter(|finding| finding.subject == "rights").collect::<Vec<_>>()
    };
    let found = of_rights().await;
    let says = |words: &str| found.iter().any(|one| one.severity == Severity::Problem && one.message.contains(words));
    assert!(says("insert, update, delete on") && says("leasehold_notes: schedules run nothing"), "{found:?}");
    grant();
    let found = of_rights().await;
    assert!(found.iter().all(|finding| finding.severity == Severity::Fine), "{found:?}");
    writes(store, note("job", "1")).await;
    assert_eq!(reads(store, "job").await.len(), 1);
}

/// Many ask at once when a job is due, and most of them write one note and are gone; who goes on has the next ones written aside.
pub async fn who_writes_one_note_needs_no_second_connection(store: &Arc<dyn Store>, connections: impl Fn() -> String) {
    assert!(matches!(store.try_acquire(&claim("job", TTL)).await.unwrap(), Attempt::Granted(_)));
    writes(store, note("job", "1")).await;
    assert_eq!(connections(), "1");
    writes(store, note("job", "2")).await;
    assert_eq!((reads(store, "job").await.len(), connections()), (2, "2".to_owned()));
}

/// The first note of a process goes over the connection of its lock, and waits there for its turn: the release doesn't.
pub async fn a_first_note_holds_up_no_release(
    store: &Arc<dyn Store>,
    held: tokio::task::JoinHandle<String>,
    waits: impl Fn() -> bool,
) {
    let (writer, job) = (Arc::clone(store), claim("job", TTL));
    assert!(matches!(store.try_acquire(&job).await.unwrap(), Attempt::Granted(_)));
    let writing = tokio::spawn(async move { writes(&writer, note("job", "1")).await });
    eventually_async("it waits for its turn", SOON, async || waits()).await;
    let began = Instant::now();
    assert_eq!(store.release(&lease(&job), Ended::default()).await.unwrap(), Release::Released);
    assert!(began.elapsed() < Duration::from_secs(1), "released after {:?}", began.elapsed());
    assert!(!held.is_finished() && !writing.is_finished(), "somebody is at the topic all the while");
    held.await.unwrap();
    writing.await.unwrap();
    assert_eq!(reads(store, "job").await.len(), 1);
    assert!(matches!(store.try_acquire(&claim("job", TTL)).await.unwrap(), Attempt::Granted(_)));
}

/// Whoever writes to a topic waits for its turn, and nobody who claims or renews waits with it.
pub async fn a_topic_that_somebody_is_at_holds_up_no_lock(
    store: &Arc<dyn Store>,
    held: tokio::task::JoinHandle<String>,
) {
    let (writer, job) = (Arc::clone(store), claim("job", TTL));
    let writing = tokio::spawn(async move { writes(&writer, note("job", "2")).await });
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        assert!(matches!(store.try_acquire(&job).await.unwrap(), Attempt::Granted(_)));
    }
    assert!(!held.is_finished() && !writing.is_finished(), "it has to wait");
    writing.await.unwrap();
    held.await.unwrap();
    assert_eq!(reads(store, "job").await.len(), 2);
}
