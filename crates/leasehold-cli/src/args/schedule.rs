//! `schedule`: what it may be given, and its help.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueHint};

use super::reset_mark::{self, ResetMarkArgs};
use super::values::duration;

pub(super) const ABOUT: &str = "\
Run jobs on a schedule, each tick once, however many machines run this.

Start it on every machine with the same file: there is no leader. When a job is due, each of them asks the store, one \
gets the tick and runs the command, under a lock that renews itself. Should that machine die, the others go on.

Jobs stand in leasehold.toml, a table for each (docs/schedule.md has all keys), or in a crontab as it is:

    [jobs.backup]
    cron = \"30 2 * * *\"
    tz = \"Europe/Berlin\"
    command = [\"/opt/backup\", \"--all\"]

It stays in the foreground, for systemd, a container or `init` to look after. A store that is away is waited for. What the \
jobs write comes out line by line, with the job's name in front.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold schedule --check                         what is wrong, and what would run next
  leasehold schedule --store redis://cache
  leasehold schedule --crontab /etc/leasehold/crontab --listen 0.0.0.0:9470
  leasehold schedule --json | jq -r 'select(.event == \"failed\") | .job'

Signals:
  HUP              read the file again. Jobs that are the same go on undisturbed, and what runs
                   is left alone. A file that is wrong is refused, and the old jobs go on
  TERM, INT, QUIT  take no more ticks and wait for what runs, for --grace; then send it TERM
                   and, after the job's kill_after, KILL, and renew its lock all the while.
                   A second signal cuts the grace short, a third kills at once

With --listen:
  /healthz  200 while it runs
  /readyz   200 while jobs are loaded and the store has answered of late; else 503, and why
  /metrics  what happens to locks, runs and the store, for Prometheus (docs/metrics.md)

With OTEL_EXPORTER_OTLP_ENDPOINT a trace of each run goes to that collector, and goes on in the job by TRACEPARENT, if \
leasehold was built with the feature otel (docs/traces.md).

In JSON: an object in each line. `event` is `started`, `done`, `failed`, `lost`, `stopped`, `not_run` (a tick: see `reason`), \
`output` (a line of a job: `stream`, `text`), `away` and `back` (the store), `clock_is_fast`, `ledger`, `lock`, `loaded`, \
`reloaded`, `not_reloaded`, `traces`, `warning`, `stopping` or `ended`. `at`, `job`, `tick`, `attempt`, `token` (text), `took_ms` and `reason` \
are there where they are known.

Exits with 0 after a stop that was asked for; with 78 if a file is wrong, or the store's set-up.";

/// What `schedule` is given.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ScheduleArgs {
    /// What else can be done about schedules; none: they are run.
    #[command(subcommand)]
    pub verb: Option<ScheduleVerb>,
    /// Run the jobs of this crontab, instead of those of leasehold.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub crontab: Option<PathBuf>,
    /// The crontab names a user behind each schedule, as /etc/crontab does
    ///
    /// Nobody else's jobs can be run: a line for another user than the one who runs this is an error.
    #[arg(long, requires = "crontab")]
    pub system: bool,
    /// Read the file, say what would run next, and start nothing
    #[arg(long)]
    pub check: bool,
    /// How long what runs may take to end once this is told to stop
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration)]
    pub grace: Duration,
    /// Answer to /healthz, /readyz and /metrics at this address, as 127.0.0.1:9470
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Tell jobs apart in the metrics, by the label `group`: up to 50, the others are one
    #[arg(long, requires = "listen")]
    pub metrics_by_job: bool,
    /// Don't count what happens to the locks: `contention` and `doctor` see nothing of it
    ///
    /// Else it is kept in the store, in one call every ten seconds at the most and one at the end.
    #[arg(long, env = "LEASEHOLD_NO_TALLY", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub no_tally: bool,
    /// An object in JSON for each event, on stdout
    #[arg(long)]
    pub json: bool,
    /// Tell also what may surprise in the schedules; with --check, which folders and programs are missing here
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Tell only what went wrong, and what the jobs write
    #[arg(short, long)]
    pub quiet: bool,
}

/// What can be done about schedules but running them.
#[derive(Debug, Subcommand)]
pub enum ScheduleVerb {
    /// Have the store forget which ticks of a job were claimed
    #[command(long_about = reset_mark::ABOUT, after_long_help = reset_mark::FOOTER)]
    #[command(override_usage = "leasehold schedule reset-mark [OPTIONS] --reason <TEXT> --yes <JOB>")]
    ResetMark(ResetMarkArgs),
}
