//! One lock and many workers, each with a connection of its own as processes have: how long the lock lies idle between
//! one worker and another, what that costs in commands, and whether all get their share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{Event, Guard, Locks};

use crate::figures::{Aim, Figure, Spread, median, quantile};
use crate::{Bench, raw};

const HOLD: Duration = Duration::from_millis(1);

/// Before a worker comes again. All are in one process on one CPU: one that came again at once would keep the next, of
/// whom it knows nothing, from hearing that it has the lock.
const REST: Duration = Duration::from_micros(500);
const SECTIONS: usize = 1000;
const WORKERS: [usize; 3] = [2, 10, 100];

/// Longer since the last look than any hand-over here: a look of the poll's, not of a wake-up's.
const POLLED: u64 = 200_000;

/// One worker.
enum Worker {
    Raw(raw::Waiter),
    Ours(Locks),
}

enum Held {
    Raw(String),
    Ours(Guard),
}

impl Worker {
    async fn acquire(&mut self) -> Held {
        match self {
            Self::Raw(waiter) => Held::Raw(waiter.acquire().await),
            Self::Ours(locks) => {
                let outcome = locks.lock("busy").acquire().await.expect("answered");
                Held::Ours(outcome.guard().expect("it waits for ever"))
            }
        }
    }

    async fn release(&mut self, held: Held) {
        match (self, held) {
            (Self::Raw(waiter), Held::Raw(token)) => waiter.release(&token).await,
            (_, Held::Ours(guard)) => drop(guard.release().await.expect("answered")),
            _ => unreachable!("each releases what it took"),
        }
    }
}

/// Workers of the same kind, and how often theirs looked because nothing had woken them.
struct Crew {
    workers: Vec<Worker>,
    polls: Arc<AtomicU64>,
}

async fn crew(bench: &Bench, ours: bool, count: usize) -> Crew {
    let (url, polls) = (bench.url(), Arc::<AtomicU64>::default());
    let mut workers = Vec::new();
    for me in 0..count {
        workers.push(if ours {
            let locks = Locks::builder().observer(counting(&polls)).connect(&url).expect("the store opens");
            let own = locks.lock(&format!("own-{me}")).acquire().await.expect("answered").guard().expect("free");
            own.release().await.expect("answered");
            Worker::Ours(locks)
        } else {
            Worker::Raw(raw::Waiter::new(&url, me).await)
        });
    }
    Crew { workers, polls }
}

fn counting(polls: &Arc<AtomicU64>) -> impl Fn(&Event<'_>) + Send + Sync + 'static {
    let (polls, last) = (Arc::clone(polls), AtomicU64::new(0));
    move |event| {
        if let Event::Waiting { waited, .. } = event {
            let waited = waited.as_micros() as u64;
            // A new wait begins at nought again.
            if waited.checked_sub(last.swap(waited, Relaxed)).is_some_and(|since| since > POLLED) {
                polls.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Who held the lock when, in µs; and that it was one at a time.
struct Board {
    left: AtomicUsize,
    inside: AtomicBool,
    log: Mutex<Vec<(f64, f64, usize)>>,
    began: Instant,
}

/// What one run of a crew came to.
struct Shift {
    total: f64,
    held: f64,
    /// From one worker's call of `release` to another's return from `acquire`, in µs.
    hand_overs: Vec<f64>,
    commands: f64,
    /// Of the server's time, in µs.
    server: f64,
    polls: f64,
    fairness: f64,
}

/// `sections` in all, to whoever comes, and at most `each` to one.
async fn shift(bench: &Bench, crew: Crew, sections: usize, each: usize) -> Shift {
    let count = crew.workers.len();
    bench.forget_commands();
    let board = Arc::new(Board {
        left: AtomicUsize::new(sections),
        inside: AtomicBool::new(false),
        log: Mutex::new(Vec::with_capacity(sections)),
        began: Instant::now(),
    });
    let tasks: Vec<_> = crew
        .workers
        .into_iter()
        .enumerate()
        .map(|(me, worker)| tokio::spawn(work(Arc::clone(&board), worker, me, each)))
        .collect();
    let mut done = Vec::new(); // Connections are closed after the counting.
    for task in tasks {
        done.push(task.await.expect("it ran to its end"));
    }
    let total = board.began.elapsed().as_secs_f64();
    let (commands, micros) =
        bench.commands().iter().fold((0, 0), |(all, sum), (_, calls, micros)| (all + calls, sum + micros));
    let polls = crew.polls.load(Relaxed);
    let mut log = std::mem::take(&mut *board.log.lock().expect("nobody panicked"));
    assert_eq!(log.len(), sections);
    log.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut shares = vec![0_u32; count];
    log.iter().for_each(|(_, _, who)| shares[*who] += 1);
    let other = |two: &&[(f64, f64, usize)]| two[0].2 != two[1].2;
    Shift {
        total,
        held: log.iter().map(|(from, to, _)| to - from).sum::<f64>() / 1e6,
        hand_overs: log.windows(2).filter(other).map(|two| two[1].0 - two[0].1).collect(),
        commands: (commands - polls) as f64 / sections as f64,
        server: micros as f64 / sections as f64,
        polls: polls as f64 / sections as f64,
        fairness: f64::from(*shares.iter().max().expect("some")) / f64::from(*shares.iter().min().expect("some")),
    }
}

async fn work(board: Arc<Board>, mut worker: Worker, me: usize, each: usize) -> Worker {
    let take = || board.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
    let now = || board.began.elapsed().as_secs_f64() * 1e6;
    for turn in 0..each {
        if turn > 0 {
            pause(REST);
        }
        if !take() {
            break;
        }
        let held = worker.acquire().await;
        let from = now();
        assert!(!board.inside.swap(true, SeqCst), "one at a time");
        pause(HOLD);
        assert!(board.inside.swap(false, SeqCst), "one at a time");
        let to = now();
        worker.release(held).await;
        board.log.lock().expect("nobody panicked").push((from, to, me));
    }
    worker
}

/// A precise one, that doesn't hold the other tasks up.
fn pause(time: Duration) {
    tokio::task::block_in_place(|| std::thread::sleep(time));
}

/// A PING after as long a pause as a hand-over comes after: the round trip that it can be held against.
async fn idle_ping(bench: &Bench) -> f64 {
    let mut connection = raw::connect(&bench.url()).await;
    let mut times = Vec::new();
    for _ in 0..300 {
        pause(HOLD);
        let began = Instant::now();
        redis::cmd("PING").query_async::<String>(&mut connection).await.expect("answered");
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    quantile(&mut times, 0.5)
}

#[derive(Default)]
struct Said {
    median: Vec<f64>,
    late: Vec<f64>,
    commands: Vec<f64>,
    server: Vec<f64>,
    polls: Vec<f64>,
    fairness: Vec<f64>,
}

pub async fn run(bench: Arc<Bench>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for workers in WORKERS {
        let (mut pings, mut said) = (Vec::new(), [Said::default(), Said::default()]);
        for _ in 0..bench.number("--rounds", 5) {
            pings.push(idle_ping(&bench).await);
            for ours in [false, true] {
                let crew = crew(&bench, ours, workers).await;
                let mut shift = shift(&bench, crew, SECTIONS, usize::MAX).await;
                let said = &mut said[usize::from(ours)];
                said.median.push(quantile(&mut shift.hand_overs, 0.5));
                said.late.push(quantile(&mut shift.hand_overs, 0.99));
                said.commands.push(shift.commands);
                said.server.push(shift.server);
                said.polls.push(shift.polls);
                said.fairness.push(shift.fairness);
            }
        }
        figures.extend(contended_figures(workers, &said, &pings));
    }
    figures
}

fn contended_figures(workers: usize, [raw, ours]: &[Said; 2], pings: &[f64]) -> Vec<Figure> {
    let case = format!("contended {workers}");
    let figure = |what: &str, value, aim, note| Figure::new(&case, what, value, aim, note);
    let times = |ours: &[f64], theirs: &[f64]| format!("{:.0} µs beside {:.0} µs", median(ours), median(theirs));
    let beside = |theirs: &[f64]| format!("raw: {:.2}", median(theirs));
    vec![
        figure(
            "hand-over, median, ours / raw direct",
            Spread::ratio(&ours.median, &raw.median),
            Aim::AtMost(1.15),
            times(&ours.median, &raw.median),
        ),
        figure(
            "hand-over, 99 %, ours / raw direct",
            Spread::ratio(&ours.late, &raw.late),
            Aim::AtMost(3.0),
            times(&ours.late, &raw.late),
        ),
        figure(
            "hand-over, median, ours / PING when idle",
            Spread::ratio(&ours.median, pings),
            Aim::AtMost(2.3),
            times(&ours.median, pings),
        ),
        figure(
            "commands per section, polls not counted",
            Spread::of(ours.commands.clone()),
            Aim::AtMost(2.5),
            beside(&raw.commands),
        ),
        figure(
            "server's time per section, ours / raw",
            Spread::ratio(&ours.server, &raw.server),
            Aim::None,
            times(&ours.server, &raw.server),
        ),
        figure("polls per section", Spread::of(ours.polls.clone()), Aim::None, String::new()),
        figure(
            "fairness: most / least sections of a worker",
            Spread::of(ours.fairness.clone()),
            Aim::AtMost(1.1),
            beside(&raw.fairness),
        ),
    ]
}

/// A hundred waiters, each of whom takes the lock once.
pub async fn drain(bench: Arc<Bench>) -> Vec<Figure> {
    const WAITERS: usize = 100;
    let mut shares = [Vec::new(), Vec::new()];
    let mut totals = [Vec::new(), Vec::new()];
    for _ in 0..bench.number("--rounds", 7) {
        for ours in [false, true] {
            let crew = crew(&bench, ours, WAITERS).await;
            let shift = shift(&bench, crew, WAITERS, 1).await;
            shares[usize::from(ours)].push(shift.total / shift.held);
            totals[usize::from(ours)].push(shift.total);
        }
    }
    let [raw, ours] = shares;
    let note =
        format!("{:.0} ms; raw: {:.0} ms, {:.2}", median(&totals[1]) * 1e3, median(&totals[0]) * 1e3, median(&raw));
    vec![Figure::new("drain 100", "all of it / the sum of the holds", Spread::of(ours), Aim::AtMost(1.35), note)]
}
