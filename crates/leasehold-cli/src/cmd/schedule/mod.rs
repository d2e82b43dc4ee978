//! `leasehold schedule`: jobs on a schedule, each tick once, on one of many machines.

use std::sync::Arc;

use leasehold_monitor::Tally;

use self::command::Commands;
use self::daemon::Daemon;
use self::health::Health;
use self::journal::{Journal, Weight};
use self::notify::Notify;
use self::writer::Writer;
use super::block_on;
use crate::args::{ScheduleArgs, StoreArgs};
use crate::config::{Config, Fault};
use crate::exit::{self, Failure};
use crate::jobs::{Limits, Refused, Source};
use crate::metering::Metering;
use crate::output::{plain, tell};
use crate::traces::TickTraces;
use crate::warden::Found;

mod check;
mod command;
mod daemon;
mod endpoint;
mod health;
mod journal;
pub(super) mod notify;
mod output;
pub(super) mod signals;
mod writer;

/// Runs the verb, until a signal ends it.
///
/// # Errors
/// 78 if a file or the store's set-up is wrong, 77 if the store denies access, 64 for an address that is none, 77 or 78 if it can't listen there.
pub fn run(args: &ScheduleArgs, store: &StoreArgs) -> Result<i32, Failure> {
    // First, so that no signal ends us half-way.
    let found = if args.check { None } else { Some(Found::read().map_err(|error| fault("block signals", &error))?) };
    let source = Source::of(args, store)?;
    let config = Config::find(store);
    let limits = Limits::of(config.as_ref().ok().map(Config::place));
    let jobs = source.read(limits).map_err(|refused| refuse(&source, &refused))?;
    let config = config?;
    let Some(found) = found else {
        check::check(&jobs, args.json)?;
        warnings(&source, &jobs.warnings).iter().for_each(|warning| tell(warning));
        if args.verbose {
            warnings(&source, &jobs.lacking_here()).iter().for_each(|warning| tell(warning));
        }
        return Ok(exit::OK);
    };
    // Before any thread exists.
    let commands = Commands::fork(found).map_err(|error| fault("fork", &error))?;
    let listener = args.listen.as_deref().map(endpoint::bind).transpose()?;
    let (health, notify) = (Arc::new(Health::default()), Arc::new(Notify::of_this_process()));
    let journal = Arc::new(Journal::of(args, Writer::start(), Arc::clone(&health), Arc::clone(&notify)));
    let metering = if listener.is_some() { Metering::of_jobs(args.metrics_by_job)? } else { Metering::default() };
    let traces = traces(&journal);
    let daemon = Daemon {
        args,
        store,
        source,
        config,
        limits,
        jobs,
        commands,
        health,
        notify,
        journal: Arc::clone(&journal),
        tally: if args.no_tally { Tally::off() } else { Tally::new() },
        metering,
        traces: traces.clone(),
    };
    let ended = block_on(daemon.run(listener));
    traces.end();
    journal.end();
    ended
}

/// The traces of this process, if they are asked for; what keeps them from a collector is told once.
fn traces(journal: &Arc<Journal>) -> TickTraces {
    let told = Arc::clone(journal);
    let tell =
        move |why: &str| told.say(Weight::Matters, "traces", format!("the collector does not take traces: {why}"));
    TickTraces::begin(tell).unwrap_or_else(|why| {
        // These variables are often set for a whole machine: what knows nothing of them says so only to who asks for more.
        let weight = if cfg!(feature = "otel") { Weight::Matters } else { Weight::Detail };
        journal.say(weight, "traces", format!("no traces are sent: {why}"));
        TickTraces::default()
    })
}

/// All that is wrong with the file, and what that means.
fn refuse(source: &Source, refused: &Refused) -> Failure {
    refused.lines(source.path()).iter().for_each(|line| tell(line));
    Failure::new(exit::CONFIG, format!("{}: {}; nothing was started", source.path().display(), refused.count()))
}

/// A line for each thing that may surprise.
fn warnings(source: &Source, warnings: &[Fault]) -> Vec<String> {
    let told = |warning| plain(&format!("{}, {warning}", source.path().display()));
    warnings.iter().map(told).collect()
}

fn fault(doing: &str, error: &std::io::Error) -> Failure {
    Failure::new(exit::FAULT, format!("the operating system does not let us {doing}: {error}"))
}
