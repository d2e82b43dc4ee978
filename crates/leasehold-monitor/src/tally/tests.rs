//! Clients that write, die, come back and are put together, over a store that can be broken, under paused time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::stores::{Memory, Quorum, open};
use leasehold::validity::{BootClock, Clock, Moment};
use leasehold::{Answer, ErrorKind, LockName, Locks, Store};
use leasehold_testkit::servers::{Postgres, Redis};
use leasehold_testkit::{Fault, Faults, Faulty, Operation, PausedClock, Random};
use tokio::time::{advance, sleep};

use super::Tally;
use super::book::Book;
use super::clerk::put_together;
use super::count::Count;
use super::counted::Counted;
use super::keeping::Keeping;
use super::page::{RAW_MOST, read_raw};
use super::sheet::Sheet;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A store, and clients of it.
struct Place {
    clock: Arc<PausedClock>,
    memory: Arc<Memory>,
}

impl Place {
    fn new() -> Self {
        let clock = Arc::new(PausedClock::start());
        Self { memory: Arc::new(Memory::new(clock.clone())), clock }
    }

    fn locks(&self) -> Locks {
        Locks::builder().simulated(self.clock.clone()).over(self.memory.clone())
    }

    fn client(&self) -> Book {
        Book::of(self.locks(), self.clock.clone())
    }

    /// A client whose calls may fail.
    fn shaky(&self) -> (Book, Faults) {
        let store = Faulty::over(self.memory.clone());
        let faults = store.faults();
        let locks = Locks::builder().simulated(self.clock.clone()).over(Arc::new(store));
        (Book::of(locks, self.clock.clone()), faults)
    }

    /// How often each lock was acquired within the last hours, as anybody reads it.
    async fn acquired(&self, hours: u32) -> Vec<(String, u64)> {
        let counted = Counted::within(&self.locks(), HOUR * hours).await.unwrap();
        let mut all = Sheet::default();
        counted.sheets.iter().for_each(|(_, sheet)| all.merge(sheet));
        let mut found: Vec<_> = all.locks.iter().map(|(name, count)| (name.to_string(), count.acquired)).collect();
        found.sort();
        if all.others.count.acquired > 0 {
            found.push(("others".into(), all.others.count.acquired));
        }
        found
    }

    async fn raw(&self) -> usize {
        read_raw(&self.locks(), Duration::ZERO).await.unwrap().0.len()
    }
}

fn counted(name: &str, acquired: u64) -> Sheet {
    let mut sheet = Sheet::default();
    *sheet.of(name) = Count { acquired, ..Count::default() };
    sheet
}

async fn writes(book: &mut Book, name: &str, acquired: u64) -> leasehold::Result<usize> {
    book.set_aside(&counted(name, acquired));
    book.write(false).await
}

fn is(name: &str, acquired: u64) -> (String, u64) {
    (name.into(), acquired)
}

#[tokio::test(start_paused = true)]
async fn all_clients_are_read_as_one_before_and_after_they_are_put_together() {
    let place = Place::new();
    let mut clients = [(); 3].map(|()| place.client());
    for round in 1..=60 {
        for (nth, client) in clients.iter_mut().enumerate() {
            writes(client, "all", 1).await.unwrap();
            writes(client, &format!("own-{nth}"), 2).await.unwrap();
        }
        let expected = [is("all", round * 3), is("own-0", round * 2), is("own-1", round * 2), is("own-2", round * 2)];
        for hours in [1, 24] {
            assert_eq!(place.acquired(hours).await, expected, "round {round}, {hours} h");
        }
        if round % 7 == 0 {
            put_together(&place.locks(), || true).await.unwrap();
            assert!(place.raw().await <= 6, "what is over is put together");
            assert_eq!(place.acquired(1).await, expected, "put together in round {round}");
            assert_eq!(place.acquired(24).await, expected, "put together in round {round}");
        }
        sleep(30 * SECOND).await;
    }
    // They die; what they wrote last is put together all the same.
    drop(clients);
    sleep(21 * MINUTE).await;
    put_together(&place.locks(), || true).await.unwrap();
    assert_eq!((place.raw().await, place.acquired(2).await[0].clone()), (0, is("all", 180)));
}

#[tokio::test(start_paused = true)]
async fn who_has_nothing_new_asks_nothing_of_the_store() {
    let place = Place::new();
    let (mut client, faults) = place.shaky();
    assert_eq!(writes(&mut client, "job", 1).await.unwrap(), 1);
    let asked = || [Operation::WriteNotes, Operation::ReadNotes, Operation::Time].map(|call| faults.calls(call));
    let before = asked();
    assert_eq!(before, [1, 0, 1], "one call, and one for the time");
    for _ in 0..1000 {
        sleep(10 * SECOND).await;
        client.set_aside(&Sheet::default());
        assert_eq!(client.write(false).await.unwrap(), 0);
    }
    assert_eq!(asked(), before);
}

#[tokio::test(start_paused = true)]
async fn what_a_store_that_is_away_was_not_told_it_is_told_later_and_once() {
    let place = Place::new();
    let (mut client, faults) = place.shaky();
    writes(&mut client, "job", 1).await.unwrap();
    faults.cut();
    for _ in 0..(3 * 360) {
        sleep(10 * SECOND).await;
        assert!(writes(&mut client, "job", 1).await.is_err());
    }
    faults.heal();
    assert!((2..=14).contains(&client.write(false).await.unwrap()), "they are few, however long it was");
    assert_eq!(place.acquired(6).await, [is("job", 1081)]);
    let sheets = Counted::within(&place.locks(), 6 * HOUR).await.unwrap().sheets;
    let times: BTreeSet<_> = sheets.iter().map(|(begin, _)| *begin).collect();
    assert!(times.len() >= 12, "and each has its time, as far as there was room: {times:?}");

    // An answer that was lost makes none of it count twice.
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Fail(ErrorKind::Refused)] {
        faults.next(Operation::WriteNotes, fault);
        assert!(writes(&mut client, "job", 1).await.is_err());
    }
    client.write(false).await.unwrap();
    assert_eq!(place.acquired(6).await, [is("job", 1084)]);
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_when_it_was_put_together_is_counted_once() {
    let place = Place::new();
    let (mut client, faults) = place.shaky();
    writes(&mut client, "job", 5).await.unwrap();
    faults.cut();
    assert!(writes(&mut client, "job", 7).await.is_err());
    sleep(25 * MINUTE).await;
    put_together(&place.locks(), || true).await.unwrap();
    assert_eq!((place.raw().await, place.acquired(1).await), (0, vec![is("job", 5)]));
    faults.heal();
    client.write(false).await.unwrap();
    assert_eq!(place.acquired(1).await, [is("job", 12)]);
    sleep(25 * MINUTE).await;
    put_together(&place.locks(), || true).await.unwrap();
    assert_eq!(place.acquired(2).await, [is("job", 12)]);
}

/// Wherever it is broken off, and whoever goes on.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_broken_off_loses_nothing_and_counts_nothing_twice() {
    for broken in 0..4 {
        for fault in [Fault::LoseRequest, Fault::LoseReply] {
            let place = Place::new();
            for nth in 0..5 {
                let mut client = place.client();
                client.set_aside(&counted(&format!("job-{nth}"), 1));
                client.write(true).await.unwrap();
            }
            let expected: Vec<_> = (0..5).map(|nth| is(&format!("job-{nth}"), 1)).collect();
            let (clerk, faults) = place.shaky();
            (0..broken).for_each(|_| faults.next(Operation::WriteNotes, Fault::DelayReply(Duration::ZERO)));
            faults.next(Operation::WriteNotes, fault);
            let _ = put_together(clerk.locks(), || true).await;
            for hours in [1, 24] {
                assert_eq!(place.acquired(hours).await, expected, "broken off at {broken} by {fault:?}");
            }
            sleep(MINUTE).await;
            put_together(&place.locks(), || true).await.unwrap();
            assert_eq!(place.raw().await, 0);
            for hours in [1, 24] {
                assert_eq!(place.acquired(hours).await, expected, "taken up after {broken} by {fault:?}");
            }
        }
    }
}

/// So slow that its lease is over between what it reads and what it writes, and another has its turn.
#[tokio::test(start_paused = true)]
async fn a_clerk_that_is_too_slow_writes_nothing_over_what_the_next_one_has_counted() {
    let slow = Fault::DelayReply(Duration::from_millis(4500));
    let fast = Fault::DelayReply(Duration::ZERO);
    // What reads: single clients' notes, then what is put together for minutes, then for hours.
    for reads in [[slow, slow, fast], [fast, slow, slow]] {
        let place = Place::new();
        let writes_of = async |clients: std::ops::Range<u32>| {
            for nth in clients {
                let mut client = place.client();
                client.set_aside(&counted(&format!("job-{nth}"), 1));
                client.write(true).await.unwrap();
            }
        };
        let store = Faulty::over(place.memory.clone());
        store.keeper_faults().cut();
        reads.into_iter().for_each(|fault| store.faults().next(Operation::ReadNotes, fault));
        let slow = Locks::builder().simulated(place.clock.clone()).over(Arc::new(store));
        // Turns begin each 15 seconds: the next one is six seconds later, when the lease is over.
        while slow.time().await.unwrap().as_secs() % 15 != 9 {
            sleep(SECOND / 2).await;
        }
        writes_of(0..5).await;
        let clerk = tokio::spawn(async move { put_together(&slow, || true).await });
        sleep(7 * SECOND).await;
        writes_of(5..10).await;
        put_together(&place.locks(), || true).await.unwrap();
        assert_eq!((clerk.is_finished(), place.raw().await), (false, 0), "the next one has had its turn, {reads:?}");
        let _ = clerk.await.unwrap();
        let mut expected: Vec<_> = (0..10).map(|nth| is(&format!("job-{nth}"), 1)).collect();
        expected.sort();
        for hours in [1, 24] {
            assert_eq!(place.acquired(hours).await, expected, "{hours} h, {reads:?}");
        }
    }
}

/// As `leasehold run` does from cron: a process of its own each time.
#[tokio::test(start_paused = true)]
async fn clients_of_a_second_each_take_little_room_over_days() {
    let place = Place::new();
    let mut random = Random::new(7);
    let (mut most, mut since_a_day) = (0, 0);
    for run in 0..4000_u32 {
        let mut client = place.client();
        client.set_aside(&counted(&format!("job-{}", run % 3), 1));
        client.write(true).await.unwrap();
        if random.one_in(8) {
            put_together(&place.locks(), || true).await.unwrap();
        }
        if run % 50 == 0 {
            most = most.max(place.raw().await);
        }
        since_a_day += u64::from(run >= 4000 - 23 * 60);
        sleep(MINUTE).await;
    }
    assert!(most <= 100, "up to {most} notes");
    let acquired: u64 = place.acquired(23).await.iter().map(|lock| lock.1).sum();
    assert!((since_a_day..=since_a_day + 60).contains(&acquired), "{acquired} of {since_a_day}");
    let acquired: u64 = place.acquired(24 * 7).await.iter().map(|lock| lock.1).sum();
    assert_eq!(acquired, 4000, "of all days");
}

/// Nobody puts together: the newest stay.
#[tokio::test(start_paused = true)]
async fn more_clients_than_there_is_room_for_are_told() {
    let place = Place::new();
    for _ in 0..RAW_MOST + 20 {
        let mut client = place.client();
        client.set_aside(&counted("job", 1));
        client.write(true).await.unwrap();
        advance(Duration::from_millis(5)).await;
    }
    let counted = Counted::within(&place.locks(), HOUR).await.unwrap();
    assert!(counted.is_cut);
    assert_eq!(place.acquired(1).await, [is("job", RAW_MOST.into())]);
    for _ in 0..4 {
        put_together(&place.locks(), || true).await.unwrap();
        sleep(15 * SECOND).await;
    }
    assert_eq!((place.raw().await, place.acquired(1).await), (0, vec![is("job", RAW_MOST.into())]));
    for hours in [1, 24] {
        let counted = Counted::within(&place.locks(), HOUR * hours).await.unwrap();
        assert!(counted.is_cut, "it is still told of {hours} h once they are put together");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_of_short_leases_puts_together_too() {
    let place = Place::new();
    let mut client = place.client();
    client.set_aside(&counted("job", 3));
    client.write(true).await.unwrap();
    let short = Locks::builder().simulated(place.clock.clone()).max_ttl(2 * SECOND).over(place.memory.clone());
    put_together(&short, || true).await.unwrap();
    assert_eq!((place.raw().await, place.acquired(1).await), (0, vec![is("job", 3)]));
}

/// The time is of no use to it.
#[tokio::test(start_paused = true)]
async fn a_store_that_keeps_no_notes_is_asked_nothing() {
    let redis = Redis::start();
    let store = Faulty::over(open(&format!("{}?compat=redis-py", redis.url())).unwrap());
    let faults = store.faults();
    let mut client = Book::of(Locks::over(Arc::new(store)), Arc::new(PausedClock::start()) as Arc<dyn Clock>);
    assert_eq!(writes(&mut client, "job", 1).await.unwrap_err().kind(), ErrorKind::Misconfigured);
    assert_eq!(faults.calls(Operation::Time), 0);
}

/// Of who only holds its lock there is nothing to tell soon, nor one note after the other.
#[tokio::test(start_paused = true)]
async fn renewals_alone_are_written_once_for_each_span_of_time() {
    let (place, tally) = (Place::new(), Tally::new());
    let (book, faults) = place.shaky();
    let keeping = Keeping::begin(tally.clone(), book);
    let renewed = || tally.count_renewal("job", |count| count.renewed(SECOND, 20 * SECOND, 30 * SECOND));
    for _ in 0..360 {
        renewed();
        sleep(10 * SECOND).await;
    }
    let written = faults.calls(Operation::WriteNotes);
    assert!((10..=50).contains(&written), "{written} calls in an hour, with those that put it together");
    renewed();
    tally.count("job", |count| count.lost += 1);
    let before = faults.calls(Operation::WriteNotes);
    sleep(11 * SECOND).await;
    assert!(faults.calls(Operation::WriteNotes) > before, "what is odd is told soon");
    drop(keeping);
}

/// Who ends while it puts together for all leaves the lock behind for nobody, though the process ends next.
#[tokio::test(start_paused = true)]
async fn a_clerk_that_ends_gives_its_lock_back() {
    let name = LockName::new("leasehold:tally").unwrap();
    // One in so many has a turn.
    for _ in 0..1000 {
        let (place, tally) = (Place::new(), Tally::new());
        let (book, faults) = place.shaky();
        faults.always(Operation::ReadNotes, Fault::DelayReply(SECOND / 5));
        let keeping = Keeping::begin(tally.clone(), book);
        tally.count("job", |count| count.acquired += 1);
        sleep(SECOND / 10).await;
        if place.memory.inspect(&name).await.unwrap().is_some() {
            keeping.end(2 * SECOND).await;
            assert!(place.memory.inspect(&name).await.unwrap().is_none(), "it is held still");
            return;
        }
    }
    panic!("nobody has had a turn");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_locks_take_few_notes() {
    let place = Place::new();
    let mut all = Sheet::default();
    for nth in 0..10_000 {
        *all.of(&format!("job-with-some-name-{nth:05}")) = Count { acquired: 1, ..Count::default() };
    }
    let mut client = place.client();
    client.set_aside(&all);
    assert_eq!(client.write(true).await.unwrap(), 16);
    assert_eq!(place.acquired(1).await.len(), 10_000);
    put_together(&place.locks(), || true).await.unwrap();
    let acquired = place.acquired(1).await;
    assert_eq!(acquired.iter().map(|lock| lock.1).sum::<u64>(), 10_000);
    assert!(acquired.len() > 5000, "most are told apart: {}", acquired.len());
}

/// A machine whose clock is far from the others'.
#[derive(Debug)]
struct Skewed(Arc<PausedClock>, Duration);

impl Clock for Skewed {
    fn now(&self) -> Moment {
        self.0.now() + self.1
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at - self.1)
    }
}

#[tokio::test(start_paused = true)]
async fn times_are_the_stores_whatever_clients_clocks_show() {
    let place = Place::new();
    for days in [0, 3, 4000] {
        let clock = Arc::new(Skewed(place.clock.clone(), HOUR * 24 * days));
        let mut client = Book::of(place.locks(), clock.clone());
        let mut sheet = Sheet::default();
        sheet.of("job").released(90 * SECOND, true, clock.now(), "web");
        client.set_aside(&sheet);
        client.write(true).await.unwrap();
    }
    let now = place.locks().time().await.unwrap();
    let counted = Counted::within(&place.locks(), HOUR).await.unwrap();
    assert_eq!(counted.sheets.len(), 3);
    for (begin, sheet) in &counted.sheets {
        assert!(*begin <= now && now < *begin + 5 * MINUTE);
        let since = sheet.locks["job"].longest[0].1;
        assert_eq!(since, i64::try_from((now - 90 * SECOND).as_millis()).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_have_written_does_no_harm() {
    use leasehold::store::{Note, NoteId};
    let place = Place::new();
    let texts = [
        "",
        "{}",
        "[]",
        "{\"at\":9e99}",
        "{\"at\":18446744073709551615,\"locks\":{\"a\":{\"a\":1}}}",
        "{\"at\":3,\"of\":[1],\"locks\":{\"\":{}}}",
    ];
    let topics = [super::page::RAW, super::page::MINUTES.topic, super::page::HOURS.topic];
    for topic in topics {
        for (nth, text) in texts.iter().enumerate() {
            let id = NoteId::new(&format!("{nth}/999999999999999999999")).unwrap();
            let note = Note { topic: topic.clone(), id, text: (*text).into(), keep: HOUR * 24, most: 100 };
            place.locks().notes().unwrap().note(&[note]).await.unwrap();
        }
    }
    writes(&mut place.client(), "job", 3).await.unwrap();
    sleep(30 * MINUTE).await;
    put_together(&place.locks(), || true).await.unwrap();
    assert!(place.acquired(1).await.contains(&is("job", 3)));
}

/// What is put together there is what was written.
async fn puts_together(locks: &Locks) {
    let clients: Vec<_> = (0..5).map(|_| Book::of(locks.unobserved(), Arc::new(BootClock) as Arc<dyn Clock>)).collect();
    for (nth, mut client) in clients.into_iter().enumerate() {
        let mut sheet = Sheet::default();
        for name in ["all", "with \"quotes\", {braces} and \u{202e}", &format!("own-{nth}")] {
            sheet.of(name).answered(SECOND, true, &Answer::Acquired);
        }
        client.set_aside(&sheet);
        client.write(nth != 4).await.unwrap();
    }
    let all = async || {
        let mut all = Sheet::default();
        for (_, sheet) in Counted::within(locks, 24 * HOUR).await.unwrap().sheets {
            all.merge(&sheet);
        }
        all
    };
    let before = all().await;
    assert_eq!((before.locks["all"].acquired, before.locks.len()), (5, 7));
    put_together(locks, || true).await.unwrap();
    let (raw, _) = read_raw(locks, Duration::ZERO).await.unwrap();
    assert_eq!(raw.len(), 1, "of the one that goes on");
    assert_eq!(all().await, before);
    // Two at a time: one has its turn.
    let (one, other) = (locks.unobserved(), locks.unobserved());
    let (one, other) = tokio::join!(put_together(&one, || true), put_together(&other, || true));
    assert!(one.is_ok() && other.is_ok() && all().await == before);
}

#[tokio::test]
async fn a_file_has_it_put_together() {
    let directory = tempfile::tempdir().unwrap();
    puts_together(&Locks::connect(&format!("sqlite://{}/locks.db", directory.path().display())).await.unwrap()).await;
}

#[tokio::test]
async fn redis_has_it_put_together() {
    let redis = Redis::start();
    puts_together(&Locks::connect(&redis.url()).await.unwrap()).await;
}

#[tokio::test]
async fn postgresql_has_it_put_together() {
    let postgres = Postgres::start();
    puts_together(&Locks::connect(&postgres.url()).await.unwrap()).await;
}

#[tokio::test]
async fn a_quorum_has_it_put_together() {
    let members = (0..3).map(|nth| (format!("m{nth}"), Arc::new(Memory::default()) as Arc<dyn Store>));
    puts_together(&Locks::over(Arc::new(Quorum::of(members).unwrap()))).await;
}
