//! A scheduler that runs: what it is told by signals, and by the store.

use std::collections::HashMap;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Error, Locks, Observer as _, Store};
use leasehold_monitor::Tally;
use leasehold_schedule::{Job, Roster, Scheduler, Timestamp};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::command::{Command, Commands};
use super::health::Health;
use super::journal::{Journal, Weight};
use super::notify::Notify;
use super::signals::{Signals, Told};
use super::{endpoint, fault, refuse, warnings};
use crate::args::{ScheduleArgs, StoreArgs};
use crate::config::{Config, Fault};
use crate::exit::{self, Failure, code_of};
use crate::jobs::{Entry, Jobs, Limits, Refused, Source, Task};
use crate::metering::Metering;
use crate::output::{counted, duration as span};
use crate::traces::TickTraces;

/// So many of the last lines of a run are kept in the ledger.
const KEPT_LINES: usize = 20;

/// How often the store is asked whether it is there; while it is not.
const ASK: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long a store that can't be opened is left alone, twice as long each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How long the store may take to hear the last words of somebody who is in a hurry.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How long it may take to hear what was counted last: nobody waits for that.
const LAST_COUNT: Duration = Duration::from_millis(250);

/// What the end of a run takes, beside what its job is given.
const LAST_STEPS: Duration = Duration::from_secs(15);

/// One scheduler.
pub struct Daemon<'a> {
    pub args: &'a ScheduleArgs,
    pub store: &'a StoreArgs,
    pub source: Source,
    pub config: Config,
    pub limits: Limits,
    pub jobs: Jobs,
    pub commands: Commands,
    pub health: Arc<Health>,
    pub notify: Arc<Notify>,
    pub journal: Arc<Journal>,
    pub tally: Tally,
    pub metering: Metering,
    pub traces: TickTraces,
}

/// How the end is asked for, step by step.
struct Ending {
    stop: Option<oneshot::Sender<()>>,
    hurry: Option<oneshot::Sender<()>>,
    /// When what runs was killed, and a store that is away is waited for no longer.
    gives_up: Option<Instant>,
    code: i32,
}

impl Daemon<'_> {
    /// Runs until it is told to stop, and says what to exit with.
    pub async fn run(mut self, listener: Option<TcpListener>) -> Result<i32, Failure> {
        let signals = Signals::listen().map_err(|error| fault("hear signals", &error))?;
        if let Some(listener) = listener {
            tokio::spawn(endpoint::serve(listener, Arc::clone(&self.health), self.metering.clone()));
        }
        if let Some(period) = self.notify.watchdog_period() {
            tokio::spawn(is_alive(Arc::clone(&self.notify), period));
        }
        self.warn();
        let Some(locks) = self.open(&signals).await? else {
            self.journal.say(Weight::Usual, "ended", "stopped before the store could be opened");
            return Ok(exit::OK);
        };
        let keeping = self.tally.kept_in(&locks);
        let (journal, tally, metering) = (Arc::clone(&self.journal), self.tally.clone(), self.metering.clone());
        let traces = self.traces.clone();
        let observer = move |event: &leasehold_schedule::Event<'_>| {
            journal.event(event);
            leasehold_schedule::Observer::observe(&tally, event);
            metering.job_event(event);
            traces.job_event(event);
        };
        let scheduler = Scheduler::over(locks.clone()).grace(self.args.grace).observer(observer);
        let roster = scheduler.roster();
        self.give(&roster, &locks, &self.jobs).map_err(|refused| refuse(&self.source, &refused))?;
        self.is_loaded();
        tokio::spawn(watch(locks.clone(), self.probe(), Arc::clone(&self.journal)));
        let (stop, stopped) = oneshot::channel::<()>();
        let (hurry, hurried) = oneshot::channel::<()>();
        let mut ending = Ending { stop: Some(stop), hurry: Some(hurry), gives_up: None, code: exit::OK };
        let mut running = pin!(scheduler.run_until(async { drop(stopped.await) }, async { drop(hurried.await) }));
        let commands = self.commands.clone();
        let mut nursery_died = pin!(commands.nursery_died());
        let mut has_nursery = true;
        loop {
            tokio::select! {
                biased;
                told = signals.next() => match told {
                    Told::Reload if ending.stop.is_some() => self.reload(Some((&roster, &locks))),
                    Told::Reload => {}
                    Told::Stop(why) => self.stop(&mut ending, why),
                },
                () = &mut nursery_died, if has_nursery => {
                    has_nursery = false;
                    ending.code = exit::FAULT;
                    let what = "our process that starts commands was killed: no job can be started any more";
                    self.journal.say(Weight::Matters, "warning", what);
                    if ending.stop.is_some() {
                        self.stop(&mut ending, "that process was killed");
                    }
                }
                () = &mut running => break,
                () = sleep_until(ending.gives_up.unwrap_or_else(Instant::now)), if ending.gives_up.is_some() => {
                    let what = "the store was not told how all runs have ended: their locks end by themselves";
                    self.journal.say(Weight::Matters, "warning", what);
                    break;
                }
            }
        }
        keeping.end(LAST_COUNT).await;
        self.journal.say(Weight::Usual, "ended", "stopped");
        Ok(ending.code)
    }

    /// The store, as soon as it can be opened; none if it is to stop before.
    async fn open(&mut self, signals: &Signals) -> Result<Option<Locks>, Failure> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let place = self.config.place().clone();
            // A file that others have locked is waited for, and signals are to be heard meanwhile.
            let opening =
                async { tokio::task::spawn_blocking(move || place.open()).await.expect("a panic ends the process") };
            let Some(opened) = self.unless_stopped(signals, opening).await else { return Ok(None) };
            match opened {
                Ok(store) => return Ok(Some(self.locks(store))),
                Err(error) if code_of(error.kind()) == exit::UNAVAILABLE => self.journal.store_is_away(&error),
                Err(error) => return Err(self.config.blame(error)),
            }
            if self.unless_stopped(signals, sleep(pause)).await.is_none() {
                return Ok(None);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What `work` comes to; none if it is to stop before.
    async fn unless_stopped<T>(&mut self, signals: &Signals, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                told = signals.next() => match told {
                    Told::Reload => self.reload(None),
                    Told::Stop(_) => return None,
                },
                done = &mut work => return Some(done),
            }
        }
    }

    fn locks(&self, store: Arc<dyn Store>) -> Locks {
        let (commands, journal) = (self.commands.clone(), Arc::clone(&self.journal));
        let (tally, metering, traces) = (self.tally.clone(), self.metering.clone(), self.traces.clone());
        let observer = move |event: &leasehold::Event<'_>| {
            commands.observe(event); // first: a job's life depends on it
            journal.lock_event(event);
            tally.observe(event);
            metering.lock_event(event);
            traces.lock_event(event);
        };
        Locks::builder().observer(observer).over(self.metering.around(store))
    }

    /// Has these jobs run, from now on.
    fn give(&self, roster: &Roster, locks: &Locks, jobs: &Jobs) -> Result<(), Refused> {
        let (mut given, mut faults) = (Vec::new(), Vec::new());
        for entry in &jobs.entries {
            // What depends on the store, beside what was read in the file.
            match self.job(entry).checked(locks) {
                Ok(job) => given.push(job),
                Err(error) => faults.push(at(entry, &error)),
            }
        }
        if !faults.is_empty() {
            return Err(Refused::Wrong(faults));
        }
        roster
            .replace(given)
            .map_err(|error| Refused::Wrong(jobs.entries.iter().take(1).map(|entry| at(entry, &error)).collect()))?;
        let limits = jobs.entries.iter().filter_map(|entry| Some((entry.name.as_str(), entry.terms.time_limit?)));
        self.tally.limits(limits);
        Ok(())
    }

    fn job(&self, entry: &Entry) -> Job {
        let kill_after = entry.terms.kill_after(self.limits);
        let Task { argv, env, dir, stdin } = entry.task.clone();
        let wait_group = entry.terms.wait_group;
        let command = Command { argv, env, dir, stdin, kill_after, wait_group, keep_lines: KEPT_LINES };
        let (journal, name) = (Arc::clone(&self.journal), entry.name.clone());
        let work =
            self.commands.work(command, self.traces.clone(), move |line| journal.line(&name, line.stream, line.text));
        entry.job(work).stop_grace(kill_after)
    }

    /// Reads the file again, and has its jobs run if nothing is wrong with it.
    fn reload(&mut self, running: Option<(&Roster, &Locks)>) {
        // Before there is anything to run it is not ready, and doesn't become so by reading a file.
        let is_running = running.is_some();
        if is_running {
            self.notify.reloading();
        }
        let path = self.source.path().display().to_string();
        let read = self.source.read(self.limits).and_then(|jobs| {
            running.map_or(Ok(()), |(roster, locks)| self.give(roster, locks, &jobs))?;
            Ok(jobs)
        });
        match read {
            Ok(jobs) => {
                let what = changes(&self.jobs.entries, &jobs.entries);
                self.jobs = jobs;
                self.journal.say(Weight::Usual, "reloaded", format!("{path} was read again: {what}; {}", self.next()));
                self.warn();
            }
            Err(refused) => {
                for line in refused.lines(self.source.path()) {
                    self.journal.say(Weight::Matters, "not_reloaded", line);
                }
                let what = format!("{path} was not taken over: {}; the jobs of before go on", refused.count());
                self.journal.say(Weight::Matters, "not_reloaded", what);
            }
        }
        if Config::find(self.store).is_ok_and(|config| config.shown() != self.config.shown()) {
            let what = "another store is named now; it is used after a restart";
            self.journal.say(Weight::Matters, "warning", what);
        }
        if is_running {
            self.notify.ready(&self.counted());
        }
    }

    fn is_loaded(&self) {
        let (path, store) = (self.source.path().display(), self.config.shown());
        self.health.is_loaded();
        self.notify.ready(&self.counted());
        let what = format!("{} in {path}; locks are in {store}; {}", self.counted(), self.next());
        self.journal.say(Weight::Usual, "loaded", what);
    }

    fn warn(&self) {
        for warning in warnings(&self.source, &self.jobs.warnings) {
            self.journal.say(Weight::Detail, "warning", warning);
        }
    }

    /// The first signal stops it, the second ends what runs, the third kills that.
    fn stop(&self, ending: &mut Ending, why: &str) {
        if let Some(stop) = ending.stop.take() {
            drop(stop);
            self.health.is_stopping();
            let kill_after = self.jobs.entries.iter().map(|entry| entry.terms.kill_after(self.limits)).max();
            self.notify.stopping(self.args.grace + kill_after.unwrap_or_default() + LAST_STEPS);
            let grace = span(self.args.grace);
            let what = format!("stopping ({why}): no more ticks are taken; what runs may take {grace} to end");
            self.journal.say(Weight::Usual, "stopping", what);
        } else if let Some(hurry) = ending.hurry.take() {
            drop(hurry);
            self.journal.say(Weight::Usual, "stopping", format!("told again ({why}): what runs is told to end now"));
        } else {
            self.commands.kill_all();
            ending.gives_up.get_or_insert_with(|| Instant::now() + LAST_WORDS);
            self.journal.say(Weight::Usual, "stopping", format!("told again ({why}): what runs is killed"));
        }
    }

    fn counted(&self) -> String {
        counted(self.jobs.entries.len(), "job")
    }

    /// What is due first.
    fn next(&self) -> String {
        let now = Timestamp::now();
        let due = |entry: &Entry| Some((entry.schedule.next_after(now)?, entry.name.clone()));
        let next = self.jobs.entries.iter().filter_map(due).min();
        next.map_or_else(|| "none is due any more".into(), |(at, job)| format!("next is {job} at {at}"))
    }

    /// The lock by which it is seen whether the store answers.
    fn probe(&self) -> String {
        self.jobs.entries.first().map_or_else(|| "schedule".into(), |entry| entry.name.clone())
    }
}

fn at(entry: &Entry, error: &Error) -> Fault {
    Fault { line: entry.line, column: 1, message: format!("{}: {error}", entry.name) }
}

/// `3 jobs (1 new, 2 changed, 1 gone)`
fn changes(before: &[Entry], after: &[Entry]) -> String {
    let mut gone: HashMap<&str, &Entry> = before.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let (mut new, mut changed) = (0, 0);
    for entry in after {
        match gone.remove(entry.name.as_str()) {
            None => new += 1,
            Some(old) => changed += usize::from(!old.is_as(entry)),
        }
    }
    let jobs = counted(after.len(), "job");
    format!("{jobs} ({new} new, {changed} changed, {} gone)", gone.len())
}

/// Asks the store again and again whether it is there, and has it told when that changes.
async fn watch(locks: Locks, name: String, journal: Arc<Journal>) {
    loop {
        let pause = match locks.inspect(&name).await {
            Ok(_) => {
                journal.store_answers();
                ASK
            }
            Err(error) => {
                journal.store_is_away(&error);
                ASK_AGAIN
            }
        };
        sleep(pause).await;
    }
}

async fn is_alive(notify: Arc<Notify>, period: Duration) {
    loop {
        notify.alive();
        sleep(period).await;
    }
}
