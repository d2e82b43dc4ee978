//! `leasehold trigger`: a job is to run now.

use std::time::Duration;

use leasehold_schedule::{Ledger, State, Timestamp};
use tokio::time::{Instant, sleep};

use super::block_on;
use super::fleet::{Fleet, operator};
use super::history::{Hold, Line, paused};
use crate::args::TriggerArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Schedulers look every two seconds: where nobody has taken it by now, somebody should know.
const NOBODY: Duration = Duration::from_secs(10);

/// So long a tick that one scheduler has skipped may still be taken by another, which hears of it later.
const OTHERS: Duration = Duration::from_secs(5);

/// A run whose lock nobody has held for so long has no end: its node has died. One that runs at least once is begun again before.
const DEAD: Duration = Duration::from_secs(15);

/// Nobody takes it any more.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// Runs the verb.
///
/// # Errors
/// What the store says; 64 for a job that nobody knows, 78 for a store that keeps no notes.
pub fn run(args: &TriggerArgs, config: &Config) -> Result<i32, Failure> {
    block_on(async {
        let fleet = if args.force { Fleet::of(config)? } else { Fleet::with(config, &args.job).await? };
        let (job, by) = (args.job.as_str(), operator());
        let tick = fleet.orders().trigger(job, &by, &args.reason).await?;
        let asked = if args.reason.is_empty() { by } else { format!("{by}: {}", args.reason) };
        let asked = Line::asked(job, tick, asked);
        let Some(limit) = args.wait else { return told(&fleet, args, &asked).await };
        let waiting =
            Waiting { fleet: &fleet, job, tick, since: Instant::now(), limit: limit.unwrap_or(Duration::MAX) };
        waiting.to_the_end(asked).await?.tell(args)
    })
}

/// It is asked for, and that is all.
async fn told(fleet: &Fleet, args: &TriggerArgs, asked: &Line) -> Result<i32, Failure> {
    let (job, tick) = (&args.job, asked.tick.unwrap_or_default());
    if args.json {
        output::json(asked)?;
    } else {
        output::answer(&format!("{job} is asked for, as the run of {tick}; see `leasehold history {job}`"))?;
        let now = fleet.now().await?;
        if let Some(pause) = fleet.orders().pauses().await?.get(job.as_str()).filter(|pause| pause.is_on(now)) {
            output::tell(&format!("{}; it runs all the same", paused(job.as_str(), pause)));
        }
    }
    Ok(exit::OK)
}

/// Somebody who waits for the end of a run.
struct Waiting<'a> {
    fleet: &'a Fleet,
    job: &'a str,
    tick: Timestamp,
    since: Instant,
    limit: Duration,
}

/// How it stands when nobody waits any more.
struct Ended {
    line: Line,
    code: i32,
}

impl Waiting<'_> {
    async fn to_the_end(&self, asked: Line) -> Result<Ended, Failure> {
        let ledger = Ledger::of(self.fleet.locks(), self.job)?;
        let (mut line, mut stood, mut since, mut is_told) = (asked, None, Instant::now(), false);
        let mut away = None;
        while self.since.elapsed() < self.limit {
            let (state, is_dead) = match self.look(&ledger, &mut line).await {
                Ok(found) => found,
                Err(error) if error.is_transient() => {
                    if away.is_none() {
                        output::tell(&format!("the store is away ({error}); it is asked again until it answers"));
                    }
                    away = Some(error);
                    self.rests().await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if away.take().is_some() {
                since = Instant::now(); // nobody knows for how long it has stood so
            }
            if stood.replace((state, is_dead)) != Some((state, is_dead)) {
                since = Instant::now();
            }
            match patience(state, is_dead) {
                None => return Ok(Ended { line, code: code_of(state) }),
                Some(patience) if since.elapsed() > patience => break,
                Some(_) => (),
            }
            if state.is_none() && since.elapsed() > NOBODY && !is_told {
                is_told = true;
                output::tell(&format!("no scheduler over {} has taken it yet", self.fleet.store()));
            }
            self.rests().await;
        }
        if let Some(error) = away {
            return Err(error.into());
        }
        let is_gone = stood == Some((Some(State::Running), true)) && since.elapsed() > DEAD;
        Ok(if is_gone { Ended { line: line.gone(), code: exit::LOST } } else { Ended { line, code: exit::HELD } })
    }

    async fn rests(&self) {
        sleep(LOOK.min(self.limit.saturating_sub(self.since.elapsed()))).await;
    }

    /// How it stands, and whether its node seems to have died. `line` is then what is known of it.
    async fn look(&self, ledger: &Ledger<'_>, line: &mut Line) -> leasehold::Result<(Option<State>, bool)> {
        let Some(entry) = ledger.entry_of(self.tick).await? else { return Ok((None, false)) };
        let state = entry.record.state;
        *line = Line::recorded(entry);
        Ok((Some(state), state == State::Running && !self.is_held(line).await?))
    }

    async fn is_held(&self, line: &Line) -> leasehold::Result<bool> {
        let found = self.fleet.locks().inspect(self.job).await?;
        Ok(found.is_some_and(|found| Hold::all(&found).iter().any(|hold| hold.is_for(line))))
    }
}

/// For how long it may stand so before nobody waits any more; none where it is over.
fn patience(state: Option<State>, is_dead: bool) -> Option<Duration> {
    match state {
        None => Some(FORGOTTEN),
        Some(State::Running) => Some(if is_dead { DEAD } else { Duration::MAX }),
        Some(State::Skipped | State::Missed) => Some(OTHERS),
        Some(_) => None,
    }
}

fn code_of(state: Option<State>) -> i32 {
    match state {
        Some(State::Done) => exit::OK,
        Some(State::Failed) => exit::FAILED,
        Some(State::Lost | State::Stopped) => exit::LOST,
        _ => exit::HELD,
    }
}

impl Ended {
    fn tell(&self, args: &TriggerArgs) -> Result<i32, Failure> {
        if args.json {
            output::json(&self.line)?;
        } else {
            output::answer(&self.text())?;
        }
        Ok(self.code)
    }

    /// What it wrote last, and how it ended.
    fn text(&self) -> String {
        let [when, state, node, took, ..] = self.line.cells(Timestamp::UNIX_EPOCH);
        let why = self.line.reason.as_ref().map_or_else(String::new, |why| format!(": {}", output::plain(why)));
        let stands = format!("{}, the run of {when}, is {state}{why}", output::plain(&self.line.job));
        let by = if node.is_empty() { String::new() } else { format!(" ({node}, {took})") };
        self.line.output().chain([stands + &by]).collect::<Vec<_>>().join("\n")
    }
}
