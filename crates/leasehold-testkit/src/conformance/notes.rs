//! The contract of [`Notes`] as cases, for a store that keeps some.
//!
//! ```no_run
//! # use leasehold_testkit::conformance::{Subject, notes, run_all};
//! # fn open(_: &(), _: [&str; 2]) -> Subject { todo!() }
//! run_all(&(), open, notes::CASES);
//! ```

use std::time::Duration;

use leasehold::Store;
use leasehold::store::{Note, NoteId, Noted, Notes, Search, Topic};
use tokio::time::{Instant, sleep};

use super::scene::{LOOK, fresh_name, time};
use super::{Case, Subject};

macro_rules! cases {
    ($($case:ident)*) => {
        /// All cases, each for a store of its own or for a shared one.
        pub const CASES: &[Case] = &[$((stringify!($case), |subject| Box::pin($case(subject)))),*];
    };
}

cases! {
    what_was_noted_is_told a_note_takes_the_place_of_the_last the_newest_come_first
    pages_follow_one_another only_the_newest_are_kept a_note_has_its_time topics_are_apart notes_are_erased
    any_text_is_kept illegal_notes_are_refused notes_of_namespaces_are_apart many_notes_are_written_at_once
}

/// Long enough for a case, on a slow machine as well.
const LONG: Duration = Duration::from_secs(3600);

/// A topic of the case's own, and the store that keeps it.
struct Scene<'a> {
    store: &'a dyn Notes,
    topic: Topic,
}

impl<'a> Scene<'a> {
    fn of(subject: &'a Subject, case: &str) -> Self {
        let store = subject.store().as_notes().expect("the cases are for stores that keep notes");
        Self { store, topic: Topic::of_all("tests").about(fresh_name(case)) }
    }

    fn note(&self, id: &str, text: &str) -> Note {
        Note { topic: self.topic.clone(), id: called(id), text: text.to_owned(), keep: LONG, most: 100 }
    }

    async fn write(&self, id: &str, text: &str) {
        self.store.note(&[self.note(id, text)]).await.expect("it is written");
    }

    /// One after the other, each at a time of its own.
    async fn write_each(&self, ids: &[&str]) {
        for id in ids {
            self.write(id, id).await;
            sleep(LOOK).await;
        }
    }

    async fn search(&self, search: &Search) -> Vec<Noted> {
        self.store.notes(search).await.expect("they are told")
    }

    async fn all(&self) -> Vec<Noted> {
        self.search(&Search::newest(self.topic.clone(), 1000)).await
    }

    /// The ids of all of them, in the order in which they are told.
    async fn ids(&self) -> Vec<String> {
        ids(&self.all().await)
    }
}

fn called(id: &str) -> NoteId {
    NoteId::new(id).expect("the cases use legal ids")
}

fn ids(notes: &[Noted]) -> Vec<String> {
    notes.iter().map(|noted| noted.id.to_string()).collect()
}

/// With the time of the store's clock, in milliseconds.
pub async fn what_was_noted_is_told(subject: &Subject) {
    let scene = Scene::of(subject, "told");
    assert_eq!(scene.all().await, []);
    let before = time(subject.store()).await;
    scene.write("1", "ran").await;
    let all = scene.all().await;
    // Of several members one may have written it later than it was answered, and is among those that are read.
    let after = time(subject.store()).await;
    let [noted] = &all[..] else { panic!("one was written") };
    assert_eq!((noted.id.as_str(), noted.text.as_str()), ("1", "ran"));
    let milli = Duration::from_millis(1);
    assert!(
        noted.at + milli > before && noted.at <= after + milli,
        "{:?} is not from {before:?} to {after:?}",
        noted.at
    );
    assert_eq!(noted.at.subsec_nanos() % 1_000_000, 0);
}

/// As a whole, and it counts as new.
pub async fn a_note_takes_the_place_of_the_last(subject: &Subject) {
    let scene = Scene::of(subject, "in place");
    scene.write_each(&["a", "b"]).await;
    scene.write("a", "again").await;
    let all = scene.all().await;
    assert_eq!(ids(&all), ["a", "b"]);
    assert_eq!(all[0].text, "again");
    assert!(all[0].at > all[1].at);
}

/// And no more than are asked for.
pub async fn the_newest_come_first(subject: &Subject) {
    let scene = Scene::of(subject, "newest");
    scene.write_each(&["b", "c", "a"]).await;
    assert_eq!(scene.ids().await, ["a", "c", "b"]);
    assert_eq!(ids(&scene.search(&Search::newest(scene.topic.clone(), 2)).await), ["a", "c"]);
}

/// Those of one millisecond, too: in the order of their ids.
pub async fn pages_follow_one_another(subject: &Subject) {
    let scene = Scene::of(subject, "pages");
    let notes: Vec<Note> = (0..10).map(|nth| scene.note(&format!("n{nth}"), "")).collect();
    scene.store.note(&notes).await.expect("they are written");
    sleep(LOOK).await;
    scene.write_each(&["late", "later"]).await;
    let mut all = scene.all().await;
    let in_order = |pair: &[Noted]| pair[0].at > pair[1].at || (pair[0].at == pair[1].at && pair[0].id < pair[1].id);
    loop {
        assert!(all.len() == 12 && all.windows(2).all(in_order), "{all:?}");
        let (mut paged, mut search) = (Vec::new(), Search::newest(scene.topic.clone(), 5));
        loop {
            let page = scene.search(&search).await;
            let Some(last) = page.last() else { break };
            search.after = Some((last.at, last.id.clone()));
            paged.extend(page);
        }
        let before = std::mem::replace(&mut all, scene.all().await);
        // Of several members one may write them only now.
        if all == before {
            assert_eq!(paged, all);
            break;
        }
    }
    let since = Search { since: all[1].at, ..Search::newest(scene.topic.clone(), 100) };
    assert_eq!(ids(&scene.search(&since).await), ["later", "late"]);
}

/// The oldest go when one is written.
pub async fn only_the_newest_are_kept(subject: &Subject) {
    let scene = Scene::of(subject, "bounded");
    for id in ["a", "b", "c", "d"] {
        scene.store.note(&[Note { most: 3, ..scene.note(id, "") }]).await.expect("it is written");
        sleep(LOOK).await;
    }
    assert_eq!(scene.ids().await, ["d", "c", "b"]);
    scene.store.note(&[Note { most: 3, ..scene.note("b", "again") }]).await.expect("it is written");
    assert_eq!(scene.ids().await, ["b", "d", "c"], "what was there already takes no place of another's");
    sleep(LOOK).await;
    scene.store.note(&[Note { most: 1, ..scene.note("e", "") }]).await.expect("it is written");
    assert_eq!(scene.ids().await, ["e"]);
}

/// It is gone after it, before twice as long is over; and writing it again begins it anew.
pub async fn a_note_has_its_time(subject: &Subject) {
    let scene = Scene::of(subject, "for a while");
    let keep = Duration::from_secs(2);
    let short = |id: &str| Note { keep, ..scene.note(id, "") };
    scene.write("stays", "").await;
    let first = Instant::now();
    scene.store.note(&[short("goes"), short("again")]).await.expect("they are written");
    let told = scene.all().await.len();
    assert!(told == 3 || first.elapsed() >= keep, "{told} are told");
    sleep(keep * 6 / 10).await;
    let written = Instant::now();
    scene.store.note(&[short("again")]).await.expect("it is written");
    sleep(keep * 6 / 10).await;
    let is_told = scene.ids().await.contains(&"again".to_owned());
    // Asked later, on a machine that is that busy, it may be gone.
    assert!(is_told || written.elapsed() >= keep);
    sleep(keep * 2).await;
    assert_eq!(scene.ids().await, ["stays"]);
}

/// By sort and by name; and whatever the name is.
pub async fn topics_are_apart(subject: &Subject) {
    let scene = Scene::of(subject, "apart {x}:1/%");
    let name = scene.topic.name.clone().expect("it is about a lock");
    let others = [
        Topic::of_all("others").about(name.clone()),
        Topic::of_all("tests"),
        Topic::of_all("tests").about(leasehold::LockName::new(&format!("{name} ")).expect("it is legal")),
    ];
    scene.write("1", "mine").await;
    for topic in &others {
        let note = Note { topic: topic.clone(), ..scene.note("1", "other") };
        scene.store.note(&[note]).await.expect("it is written");
    }
    let all = scene.all().await;
    assert_eq!((all.len(), all[0].text.as_str()), (1, "mine"));
    for topic in &others {
        scene.store.erase(topic, &[called("1")]).await.expect("it is erased");
    }
    assert_eq!(scene.ids().await, ["1"]);
}

/// Those that aren't there are no error.
pub async fn notes_are_erased(subject: &Subject) {
    let scene = Scene::of(subject, "erased");
    scene.write_each(&["a", "b", "c"]).await;
    scene.store.erase(&scene.topic, &[called("a"), called("c"), called("x")]).await.expect("they are erased");
    assert_eq!(scene.ids().await, ["b"]);
    scene.store.erase(&scene.topic, &[]).await.expect("there is nothing to do");
    assert_eq!(scene.ids().await, ["b"]);
}

/// Byte for byte.
pub async fn any_text_is_kept(subject: &Subject) {
    let scene = Scene::of(subject, "texts");
    let texts =
        ["", " ", "two\nlines\r\n\t", "ä 漢 🔒 \u{202e}", "\0\u{1}", "{\"a\":'b\\'}", &"x".repeat(Note::LONGEST)];
    for (nth, text) in texts.iter().enumerate() {
        scene.write(&format!("n{nth}"), text).await;
    }
    let mut all = scene.all().await;
    all.sort_by(|one, other| one.id.cmp(&other.id));
    assert!(all.iter().map(|noted| noted.text.as_str()).eq(texts));
    scene.write(&"i".repeat(NoteId::LONGEST), "").await;
    assert_eq!(scene.all().await.len(), texts.len() + 1);
}

/// And none of those that are written with it.
pub async fn illegal_notes_are_refused(subject: &Subject) {
    let scene = Scene::of(subject, "illegal");
    let long = Note { text: "x".repeat(Note::LONGEST + 1), ..scene.note("long", "") };
    let error = scene.store.note(&[scene.note("good", ""), long]).await.expect_err("it is too long");
    assert_eq!(error.kind(), leasehold::ErrorKind::Invalid);
    assert_eq!(scene.all().await, []);
}

/// Checks nothing where there is one only.
pub async fn notes_of_namespaces_are_apart(subject: &Subject) {
    let scene = Scene::of(subject, "namespaces");
    let Some(other) = subject.in_other_namespace() else { return };
    let other = other.as_notes().expect("it keeps notes as the first does");
    other.note(&[scene.note("1", "other")]).await.expect("it is written");
    assert_eq!(scene.all().await, []);
    scene.write("1", "mine").await;
    other.erase(&scene.topic, &[called("1")]).await.expect("it is erased");
    assert_eq!(scene.ids().await, ["1"]);
}

/// Through several handles at the same time: none is lost.
pub async fn many_notes_are_written_at_once(subject: &Subject) {
    let scene = Scene::of(subject, "many");
    let writers: Vec<_> = (0..4).map(|_| subject.store().for_keeper()).collect();
    let write = async |(nth, writer): (usize, &std::sync::Arc<dyn Store>)| {
        let notes: Vec<Note> = (0..20).map(|note| scene.note(&format!("{nth}-{note}"), "")).collect();
        let writer = writer.as_notes().expect("it keeps notes as the first does");
        for pair in notes.chunks(2) {
            writer.note(pair).await.expect("they are written");
        }
    };
    futures_util::future::join_all(writers.iter().enumerate().map(write)).await;
    assert_eq!(scene.all().await.len(), 80);
}
