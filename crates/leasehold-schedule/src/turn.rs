//! One tick of one job on this node: run, or not, and recorded.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use leasehold::store::Note;
use leasehold::{Error, Guard, Holding, Lock, LossReason, Span, Tick};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::ending::Ending;
use crate::event::{Event, How, NotRun};
use crate::instant;
use crate::job::Job;
use crate::late::Waiting;
use crate::ledger::Ledger;
use crate::node::Node;
use crate::record::Record;
use crate::state::State;
use crate::work::{Cut, Ended, Left, Run};

/// A tick whose node has died so often is given up: perhaps it is what kills them.
const MOST_BEGUN: u32 = 10;

/// That it runs is written again when so many of its ticks were due since: fewer than are kept.
const MOST_SKIPPED: usize = 100;
const A_MINUTE: Duration = Duration::from_secs(60);

/// So much of a label there is room for in every store, in characters; the tick stands behind it.
const LONGEST_LABEL: usize = 255 - 1 - "2026-11-30T02:00:00.123Z".len();

/// A tick on a node.
pub(crate) struct Turn<'a> {
    pub node: &'a Node,
    pub job: &'a Job,
    /// Who has asked for it, and why; none if its schedule did.
    pub asked: Option<String>,
}

impl<'a> Turn<'a> {
    /// One that its schedule asks for.
    pub fn of(node: &'a Node, job: &'a Job) -> Self {
        Self { node, job, asked: None }
    }

    pub(crate) fn lock(&self, tick: Tick) -> Lock {
        self.job.lock(&self.node.locks, tick).label(&format!("{}@{tick}", self.label()))
    }

    /// `host/pid/job`. Behind it, on the lock, `@` and the tick: which one somebody runs is read off it.
    fn label(&self) -> String {
        let label = self.node.locks.label();
        let process = label.rsplit_once('/').map_or(label, |(process, _)| process);
        format!("{process}/{}", self.job.name).chars().take(LONGEST_LABEL).collect()
    }

    /// Tells and writes down that a tick is not run here. Where it was run after all, that stands beside it, and counts.
    pub async fn is_not_run(&self, tick: Tick, why: NotRun) {
        self.node.tell(&Event::NotRun { job: &self.job.name, tick, why: &why });
        let Some(ledger) = self.ledger_if_any() else { return };
        let record = self.record_of(&why);
        self.writes(None, record.clone(), ledger.not_run(instant::of_tick(tick), record)).await;
    }

    /// The same, if nothing is known of it.
    pub async fn is_unknown(&self, tick: Tick, why: NotRun) {
        let Some(ledger) = self.ledger_if_any() else { return };
        if self.node.told(ledger.is_silent_of(instant::of_tick(tick)).await) == Some(true) {
            self.is_not_run(tick, why).await;
        }
    }

    /// The same of a tick that is older than the newest one that was claimed: by a run, or so the store has it.
    pub async fn is_overtaken(&self, tick: Tick, newest: Tick) {
        let Some(ledger) = self.ledger_if_any() else { return };
        let run = self.node.told(ledger.run_of(instant::of_tick(newest)).await);
        let is_known = run.is_none_or(|run| run.is_some());
        self.is_unknown(tick, if is_known { NotRun::Overtaken(newest) } else { NotRun::Counted(newest) }).await;
    }

    /// Tells and writes down that nobody has run these ticks: those of them that are newer than all that is known of the job, if another
    /// comes after them before that. False if it can't be known now; where another comes after them nobody comes back to them, and they
    /// are written down later.
    pub async fn are_not_run(
        &self,
        ticks: &[Timestamp],
        before: Option<Timestamp>,
        why: impl Fn(Timestamp) -> NotRun,
    ) -> bool {
        let Some(ledger) = self.ledger_if_any().filter(|_| !ticks.is_empty()) else { return true };
        let written = async {
            let unknown = ledger.unknown(ticks, before).await?;
            let reasons: Vec<_> = unknown.into_iter().map(|at| (at, why(at))).collect();
            let note = |(at, why): &(Timestamp, NotRun)| ledger.not_run(*at, self.record_of(why));
            let notes = reasons.iter().map(note).collect::<leasehold::Result<Vec<_>>>()?;
            if !notes.is_empty() {
                self.node.locks.notes()?.note(&notes).await?;
            }
            Ok(reasons)
        };
        match written.await {
            Ok(reasons) => {
                for (tick, why) in reasons.iter().filter_map(|(at, why)| Some((instant::tick(*at)?, why))) {
                    self.node.tell(&Event::NotRun { job: &self.job.name, tick, why });
                }
                true
            }
            Err(error) => {
                self.node.tell(&Event::LedgerFailed { error: &error });
                if error.is_transient() && before.is_some() {
                    ticks.iter().for_each(|at| self.tells_later(&ledger, *at, &why(*at)));
                }
                !error.is_transient()
            }
        }
    }

    fn tells_later(&self, ledger: &Ledger<'_>, at: Timestamp, why: &NotRun) {
        let record = self.record_of(why);
        if let Some(note) = self.node.told(ledger.not_run(at, record.clone())) {
            let record = Record { tick: Some(at), ..record };
            self.node.late.add(Waiting { job: self.job.name.clone(), record, note });
        }
    }

    fn record_of(&self, why: &NotRun) -> Record {
        let state = if *why == NotRun::Missed { State::Missed } else { State::Skipped };
        let overlaps = matches!(why, NotRun::Overlaps(_) | NotRun::Displaced(_));
        let (reason, asked) = (Some(why.to_string()), self.asked.clone());
        Record { reason, asked, overlaps, ..Record::of(state, &self.label()) }
    }

    /// Whether a tick has had its turn, and was not run because the job was still running, as far as is known.
    pub async fn was_skipped(&self, tick: Tick) -> bool {
        let Some(ledger) = self.ledger_if_any() else { return false };
        let known = self.node.told(ledger.of_tick(instant::of_tick(tick)).await).flatten();
        known.is_some_and(|known| known.overlaps && !known.state.is_of_a_run())
    }

    pub(crate) fn ledger(&self) -> leasehold::Result<Ledger<'a>> {
        self.node.ledger(&self.job.name)
    }

    /// None where the store keeps none.
    pub fn ledger_if_any(&self) -> Option<Ledger<'a>> {
        self.node.locks.notes().ok()?;
        self.ledger().ok()
    }

    /// Does the work under the guard, again where it fails and may be tried again, and says how it went.
    pub async fn run(&self, guard: Guard, tick: Tick) -> How {
        let (job, began) = (&self.job.name, self.node.now());
        let attempt = guard.attempt().max(1);
        let mut run = Run { job: job.clone(), tick, guard, attempt, failed: None, ending: self.node.ending.clone() };
        let mut record = Record {
            tick: Some(instant::of_tick(tick)),
            asked: self.asked.clone(),
            started: Some(began),
            attempts: attempt,
            token: Some(run.token().to_string()),
            ..Record::of(State::Running, &self.label())
        };
        let id = instant::of_tick(tick).to_string();
        let late = Duration::try_from(began.duration_since(instant::of_tick(tick))).unwrap_or_default();
        // Until then nobody else can have begun it.
        let until = Instant::now() + run.guard.remaining();
        let (over, is_over) = oneshot::channel::<()>();
        self.node.tell(&Event::Started { job, tick, attempt, token: run.token(), late });
        // Neither the work nor the release waits for the ledger, and what it says last must come last.
        let ended = async {
            let (how, output, left) = self.work(&mut run).await;
            let (attempts, failed, was_lost) = (run.attempt, run.failed.take(), run.guard.loss().is_some());
            let how = self.give_back(run, how, left).await;
            drop(over);
            (how, output, attempts, failed, was_lost)
        };
        let (_, (how, output, attempts, failed, was_lost)) =
            tokio::join!(self.records_that_it_runs(until, &id, &record, is_over), ended);
        let ended = self.node.now();
        let took = Duration::try_from(ended.duration_since(began)).unwrap_or_default();
        self.node.tell(&Event::Ended { job, tick, took, how: &how });
        record = Record {
            state: how.state(),
            ended: Some(ended),
            attempts,
            reason: self.reason(&how, failed),
            output,
            ..record
        };
        // What was lost, stopped or never begun another node may have begun since; so may it what has failed, until that is settled.
        if how == How::Done && !was_lost {
            self.records(&id, record).await;
        } else {
            self.records_unless_run_again(&id, record).await;
        }
        how
    }

    /// Once; and where another may have to take it over, now and then until it is over: whoever starts anew looks for it in the ledger, and
    /// the records of what is skipped meanwhile must not push it out.
    async fn records_that_it_runs(&self, until: Instant, id: &str, record: &Record, over: oneshot::Receiver<()>) {
        self.records_until(Some(until), id, record.clone()).await;
        let Some(tick) = record.tick.filter(|_| self.job.terms.at_least_once) else { return };
        let Some(later) = self.job.schedule.ticks_after(tick).nth(MOST_SKIPPED) else { return };
        let period = Duration::try_from(later.duration_since(tick)).unwrap_or_default().max(A_MINUTE);
        let mut over = pin!(over);
        while tokio::time::timeout(period, &mut over).await.is_err() {
            self.records_unless_run_again(id, record.clone()).await;
        }
    }

    /// Where another node has taken it over, what that one says stands. If it can't be known now, it is looked again before it is written.
    async fn records_unless_run_again(&self, id: &str, record: Record) {
        match self.is_run_again(&record).await {
            Ok(true) => (),
            Err(error) if error.is_transient() => {
                self.node.tell(&Event::LedgerFailed { error: &error });
                let note = self.ledger().and_then(|ledger| ledger.note(id, record.clone()));
                if let Some(note) = self.node.told(note) {
                    self.node.late.add(Waiting { job: self.job.name.clone(), record, note });
                }
            }
            looked => {
                self.node.told(looked);
                self.records(id, record).await;
            }
        }
    }

    /// Whether another node has taken over what this one has given back or lost, as far as is known.
    async fn is_run_again(&self, record: &Record) -> leasehold::Result<bool> {
        let (Some(ledger), Some(tick)) = (self.ledger_if_any(), record.tick) else { return Ok(false) };
        let known = ledger.run_of(tick).await?;
        Ok(known.is_some_and(|known| known.token_number() > record.token_number()))
    }

    /// Where the store can't be asked now, it is written later.
    pub(crate) async fn records(&self, id: &str, record: Record) {
        self.records_until(None, id, record).await;
    }

    /// The same. If it comes to it later than then, it is looked first what others have written.
    async fn records_until(&self, until: Option<Instant>, id: &str, record: Record) {
        self.writes(until, record.clone(), self.ledger().and_then(|ledger| ledger.note(id, record))).await;
    }

    async fn writes(&self, until: Option<Instant>, record: Record, note: leasehold::Result<Note>) {
        let Some(note) = self.node.told(note) else { return };
        let waiting = Waiting { job: self.job.name.clone(), record, note };
        // Nothing overtakes what was said before about the same.
        let Some(waiting) = self.node.late.not_replacing(waiting) else { return };
        let written = self.node.scribe.write(&self.node.locks, waiting.note.clone(), until).await;
        let is_too_late = until.is_some_and(|until| until <= Instant::now());
        if written.as_ref().is_err_and(Error::is_transient) {
            self.node.late.add(waiting);
            if is_too_late {
                return; // That its turn came too late is no fault of the store's.
            }
        }
        self.node.told(written);
    }

    /// How it went, what it wrote last, and what of it may be at work still.
    async fn work(&self, run: &mut Run) -> (How, String, Left) {
        if run.attempt > MOST_BEGUN {
            let why = format!("it was begun {MOST_BEGUN} times before, and no node has come to its end");
            return (How::Failed(why), String::new(), Left::Nothing);
        }
        let retries = self.job.terms.retries;
        let (mut tries, mut left, mut output) = (1, Left::NotBegun, String::new());
        loop {
            tokio::select! {
                biased;
                cut = run.cut() => return (cut.into(), output, left),
                // Nothing is begun any more.
                () = self.node.ends(Ending::Soon) => return (How::Stopped, output, left),
                () = tokio::time::sleep(retries.pause_before(tries)) => {}
            }
            // It counts once it begins.
            run.attempt += u32::from(tries > 1);
            // Also what panics before there is a future.
            let attempt = AssertUnwindSafe(async { self.job.work.run(run).await }).catch_unwind().await;
            let ended = attempt.unwrap_or_else(|panic| Ended::from(Err(said(&*panic).into())));
            (left, output) = (left.max(ended.left), ended.output);
            // Of what may be at work still nobody knows whether it has failed.
            let how: fn(String) -> How = if ended.died || left == Left::Perhaps { How::Died } else { How::Failed };
            let is_last = tries > retries.most || left == Left::Perhaps || (ended.died && self.node.is_ending());
            match (ended.result, run.is_cut()) {
                (Ok(()), _) => return (How::Done, output, left),
                (Err(_), _) if self.is_complete(run).await => return (How::Done, output, left),
                (Err(_), Some(cut)) => return (cut.into(), output, left),
                (Err(why), None) if is_last => return (how(why.to_string()), output, left),
                (Err(why), None) => {
                    tries += 1;
                    run.failed = Some(why.to_string());
                }
            }
        }
    }

    /// Why it ended so, for the ledger; and how it failed last, where that is not what it says.
    fn reason(&self, how: &How, failed: Option<String>) -> Option<String> {
        let why = match (how, self.job.terms.time_limit) {
            (How::Lost(LossReason::HeldTooLong), Some(limit)) => {
                Some(format!("its time_limit of {} was over", Span(limit)))
            }
            _ => how.reason(),
        };
        let failed = failed.filter(|_| matches!(how, How::Lost(_) | How::Stopped));
        let failed = failed.map(|failed| format!("it failed before: {failed}"));
        Some([why, failed].into_iter().flatten().collect::<Vec<_>>().join("; ")).filter(|why| !why.is_empty())
    }
}

impl From<Cut> for How {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Lost(reason) => Self::Lost(reason),
            Cut::Stopped => Self::Stopped,
        }
    }
}

/// Whether whoever has this label runs that tick.
pub(crate) fn is_for(label: &str, tick: Tick) -> bool {
    label.ends_with(&format!("@{tick}"))
}

/// The ticks that a name is held for, as far as their holders say.
pub(crate) fn ticks_of(holding: &Holding) -> impl Iterator<Item = Tick> {
    let others = holding.others.iter().map(|other| &other.label);
    std::iter::once(&holding.label)
        .chain(others)
        .filter_map(|label| instant::tick(label.rsplit_once('@')?.1.parse().ok()?))
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("it did not say why"))
}
