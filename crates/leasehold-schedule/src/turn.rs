//! One tick of one job on this node: it is asked for, run if it is ours, and recorded.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use leasehold::{Guard, Holding, NotDue, Outcome, Tick, Wait};

use crate::event::{Event, How, NotRun};
use crate::job::Job;
use crate::ledger::{self, Ledger, Record, State, instant};
use crate::node::{Ending, Node};
use crate::policy::Overlap;
use crate::work::{Ended, Run};

/// How often a tick is looked at that another node is running, and may die of.
const LOOK: Duration = Duration::from_secs(10);

/// A tick whose node has died so often is given up: perhaps it is what kills them.
const MOST_BEGUN: u32 = 10;

/// How long a store that can't be asked is left alone, twice as long each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// What became of a tick here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    /// This node ran it.
    Ran,
    /// It is no business of this node's any more.
    Over,
}

/// A job on a node.
pub(crate) struct Turn<'a> {
    pub node: &'a Node,
    pub job: &'a Job,
    /// Who has asked for it, and why; none if its schedule did.
    pub asked: Option<String>,
}

/// What somebody else's hold means for a tick.
enum Standing {
    /// It is running there.
    Runs,
    /// An earlier one is; at whose node.
    Overlaps(String),
}

impl Turn<'_> {
    /// Goes on until the tick was run, or nothing is left to do about it here.
    pub async fn take(&self, tick: Tick) -> Took {
        let mut pause = SHORTEST_PAUSE;
        while !self.node.is_ending() {
            let Some(answer) = self.ask(tick).await else { return Took::Over };
            let wait = match answer {
                Ok(Outcome::Acquired(guard)) => {
                    self.run(guard, tick).await;
                    return Took::Ran;
                }
                Ok(Outcome::Contended(holding)) => match self.standing(&holding, tick) {
                    // It may die in the middle, however late that is.
                    Standing::Runs if self.job.terms.at_least_once => {
                        self.node.sleeps(holding.free_in().min(LOOK) + SHORTEST_PAUSE).await;
                        continue;
                    }
                    Standing::Runs => return Took::Over,
                    Standing::Overlaps(whose) => return self.is_not_run(tick, NotRun::Overlaps(whose)).await,
                },
                Ok(Outcome::NotDue(NotDue::Claimed { .. })) => return Took::Over,
                Ok(Outcome::NotDue(NotDue::InFuture { ahead })) => {
                    self.node.tell(&Event::ClockIsFast { job: &self.job.name, ahead });
                    ahead
                }
                Ok(Outcome::NotDue(why @ NotDue::TooOld { .. })) => {
                    return self.is_not_run(tick, NotRun::TooOld(why)).await;
                }
                Err(error) => {
                    self.node.tell(&Event::StoreIsAway { job: &self.job.name, error: &error });
                    let now = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    now
                }
            };
            if !self.node.sleeps(wait).await {
                return Took::Over;
            }
            if self.is_too_late_for(tick) {
                return self.is_not_run(tick, NotRun::Missed).await;
            }
        }
        Took::Over
    }

    /// None if the end came first.
    async fn ask(&self, tick: Tick) -> Option<leasehold::Result<Outcome>> {
        let lock = self.job.lock(&self.node.locks, tick).label(&format!("{}@{tick}", self.label()));
        if self.job.terms.overlap != Overlap::Queue {
            return Some(lock.try_acquire().await);
        }
        // Until a later one takes its place in the line.
        let next = self.job.schedule.next_after(instant(tick));
        let left = next.and_then(|next| Duration::try_from(next.duration_since(self.node.now())).ok());
        let waiting = lock.wait(Wait::For(left.unwrap_or_default()));
        tokio::select! {
            biased;
            outcome = waiting.acquire() => Some(outcome),
            // Dropped, it leaves the queue.
            () = self.node.ends(Ending::Soon) => None,
        }
    }

    /// `host/pid/job`. Behind it, on the lock, `@` and the tick: which one somebody runs is read off it.
    fn label(&self) -> String {
        let label = self.node.locks.label();
        let process = label.rsplit_once('/').map_or(label, |(process, _)| process);
        format!("{process}/{}", self.job.name)
    }

    fn standing(&self, holding: &Holding, tick: Tick) -> Standing {
        let suffix = format!("@{tick}");
        let others = holding.others.iter().map(|other| &other.label);
        let is_for_it = std::iter::once(&holding.label).chain(others).any(|label| label.ends_with(&suffix));
        if is_for_it { Standing::Runs } else { Standing::Overlaps(holding.label.clone()) }
    }

    fn is_too_late_for(&self, tick: Tick) -> bool {
        let age = Duration::try_from(self.node.now().duration_since(instant(tick))).unwrap_or_default();
        age > self.job.terms.catch_up
    }

    pub async fn is_not_run(&self, tick: Tick, why: NotRun) -> Took {
        self.node.tell(&Event::NotRun { job: &self.job.name, tick, why: &why });
        // Another node may have run it after all: what is known of it is not overwritten.
        let state = if why == NotRun::Missed { State::Missed } else { State::Skipped };
        let record =
            Record { reason: Some(why.to_string()), asked: self.asked.clone(), ..Record::of(state, &self.label()) };
        if let Some(ledger) = self.node.told(self.ledger()) {
            self.node.told(ledger.not_run(&[instant(tick)], &record).await);
        }
        Took::Over
    }

    /// Writes down that nobody ran these, where nothing else is known of them.
    pub async fn are_missed(&self, ticks: &[Timestamp]) {
        let Some(ledger) = self.node.told(self.ledger()) else { return };
        let record = Record { reason: Some(NotRun::Missed.to_string()), ..Record::of(State::Missed, &self.label()) };
        for missed in self.node.told(ledger.not_run(ticks, &record).await).unwrap_or_default() {
            if let Some(tick) = ledger::tick(missed) {
                self.node.tell(&Event::NotRun { job: &self.job.name, tick, why: &NotRun::Missed });
            }
        }
    }

    fn ledger(&self) -> leasehold::Result<Ledger<'_>> {
        Ledger::of(&self.node.locks, &self.job.name)
    }

    /// Does the work under the guard, again where it fails and may be tried again, and says how it went.
    async fn run(&self, guard: Guard, tick: Tick) {
        let (job, began) = (&self.job.name, self.node.now());
        let attempt = guard.attempt().max(1);
        let mut run = Run { job: job.clone(), tick, guard, attempt };
        let mut record = Record {
            tick: Some(instant(tick)),
            asked: self.asked.clone(),
            started: Some(began),
            attempts: attempt,
            token: Some(run.token().to_string()),
            ..Record::of(State::Running, &self.label())
        };
        let id = instant(tick).to_string();
        self.node.tell(&Event::Started { job, tick, attempt, token: run.token() });
        // Nothing waits for the ledger, and what it says last must come last.
        let (_, (how, output)) = tokio::join!(self.records(&id, record.clone()), self.work(&mut run));
        let attempts = run.attempt;
        let released = match &how {
            How::Done | How::Failed(_) => run.guard.complete().await,
            How::Lost(_) | How::Stopped => run.guard.release().await,
        };
        // The keeper goes on telling the store what it could not be told.
        drop(released);
        let ended = self.node.now();
        let took = Duration::try_from(ended.duration_since(began)).unwrap_or_default();
        self.node.tell(&Event::Ended { job, tick, took, how: &how });
        record = Record { state: how.state(), ended: Some(ended), attempts, reason: how.reason(), output, ..record };
        self.records(&id, record).await;
    }

    async fn records(&self, id: &str, record: Record) {
        if let Some(ledger) = self.node.told(self.ledger()) {
            self.node.told(ledger.write(id, &record).await);
        }
    }

    async fn work(&self, run: &mut Run) -> (How, String) {
        if run.attempt > MOST_BEGUN {
            let why = format!("it was begun {MOST_BEGUN} times before, and no node has come to its end");
            return (How::Failed(why), String::new());
        }
        let retries = self.job.terms.retries;
        let mut tries = 1;
        loop {
            let attempt = async {
                tokio::time::sleep(retries.pause_before(tries)).await;
                AssertUnwindSafe(self.job.work.run(run)).catch_unwind().await
            };
            let ended = tokio::select! {
                biased;
                reason = run.guard.lost() => return (How::Lost(reason), String::new()),
                () = self.node.ends(Ending::Now) => return (How::Stopped, String::new()),
                ended = attempt => ended.unwrap_or_else(|panic| Ended::from(Err(said(&*panic).into()))),
            };
            match ended.result {
                Ok(()) => return (How::Done, ended.output),
                Err(why) if tries > retries.most => return (How::Failed(why.to_string()), ended.output),
                Err(_) => {
                    tries += 1;
                    run.attempt += 1;
                }
            }
        }
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("it did not say why"))
}
