//! `run`: what it may be given, the rules between its options, and its help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueHint};
use leasehold::LockName;
use leasehold::store::USUAL_TTL;
use leasehold_schedule::Schedule;

use super::values::{duration, exit_code, memory, minimum_hold, permits, some_time, ttl};
use crate::config::OnDown;
use crate::exit::{self, Failure};

pub(super) const ABOUT: &str = "\
Run a command while holding a lock.

If the lock NAME is free, this takes it, runs CMD, gives the lock back when CMD has ended and exits with CMD's exit \
code. If another holds it, CMD is not run and the exit code is 75; with --wait it queues for the lock first.

While CMD runs, the lock is renewed, however long that takes. If it can't be (the store is gone, or an operator took \
the lock away), CMD and all that it started are told to end (TERM) and then killed (KILL), before anybody else can get \
the lock, and the exit code is 76. Should this machine die, the lock is free again after --ttl.

CMD gets stdin, stdout, stderr and signals as if it had been started without leasehold; but a second TERM, INT or QUIT \
kills it at once. It sees the lock in its \
environment:

  LEASEHOLD_LOCK    the lock's name
  LEASEHOLD_HOLDER  this hold of it; another one each time
  LEASEHOLD_TOKEN   a number that grows with each hold (of --also: LEASEHOLD_TOKEN_2, _3 …)
  LEASEHOLD_TICK    with --once-per, which slot it runs for; with --once-key it is LEASEHOLD_KEY
  LEASEHOLD_ATTEMPT how often that slot or key was begun, this time included

Store the token with what the job writes, and refuse smaller ones: then even a job that was paused for too long can't \
overwrite the work of its successor.";

const EXAMPLES: &str = "\
Examples:
  From cron: if the last one still runs, this one is skipped
    0 3 * * *  leasehold run backup -q --held-exit-code 0 -- /opt/backup.sh

  Wait up to ten minutes for whoever runs it now
    leasehold run deploy --wait=10m -- ./deploy production

  Many hours need no long --ttl. Half a minute to clean up; a day at most
    leasehold run reindex --ttl 2m --kill-after 30s --max-hold 1d -- reindex

  Once a night, though cron starts it on ten machines, and their clocks differ
    0 2 * * *  leasehold run nightly --once-per \"0 2 * * *\" --tz Europe/London -- ./nightly

  A piece of work once, however often the queue delivers it; again only if it failed
    leasehold run billing --once-key \"invoice-$N\" --retry-failed -- ./bill \"$N\"

  At most three at a time
    leasehold run resize --permits 3 --wait -- ./resize photo.jpg

  A daemon of which there must be one; started on every machine, by a supervisor
    leasehold run mailer --forever -- ./mailer

  A script that wants to know
    leasehold run import -- ./import
    case $? in 75) echo 'it runs elsewhere';; 76) echo 'it was stopped';; esac

  A program that wants to know more
    leasehold run import --report import.json -- ./import
    jq '.outcome, .child, .held_ms' import.json";

const REPORT: &str = "\
Report:
  An object; what is not known, or not yet, is null. Fields and outcomes may be added. A command line that is wrong (64)
  has a report, too, if --report can be made out in it: what is in the file is never from before.
  lock          the lock's name
  outcome       running      it has not ended; or was killed before it could say how
                done         the job ended by itself (child says how)
                held         another holds the lock (held_by); the job was not run
                skipped      this slot or key had its run before; the job was not run
                lost         the lock was lost, or --max-hold was over; the job was stopped, or had ended by itself before
                             that was known: then child says how, and exit_code is the job's
                interrupted  TERM, INT or QUIT asked us to stop, or was handed on to the job
                not_started  the job's program could not be started
                unavailable  the store could not be reached or refused to write
                failed       anything else: access denied, a wrong set-up, a fault of ours
  reason        why, for people; null after done
  exit_code     of leasehold itself; 128+n also where signal n ends it
  child         {\"exit_code\": n}, or {\"signal\": n, \"name\": \"SIGKILL\"}; null if no job ran
  runs          how often the job was started (--forever: the fields around are of the last hold)
  holder token label          our hold of the lock; the token is text, as in status --json
  tick attempt  of --once-per which slot; how often it, or the key, was begun, this time included
  waited_ms held_ms           how long the lock was waited for, and held
  held_by       {\"lock\", \"holder\", \"token\", \"label\"} of whoever holds it, or one of --also, instead
  also          [{\"lock\", \"holder\", \"token\"}] of our holds of --also
  started_at ended_at         times of day in UTC";

const TRACES: &str = "\
Traces:
  With OTEL_EXPORTER_OTLP_ENDPOINT a trace of the run goes to that collector (OpenTelemetry, by gRPC). It continues the one
  of TRACEPARENT, and CMD finds its own there. If leasehold was built with the feature otel; docs/traces.md has the rest.";

pub(super) fn footer() -> String {
    format!("{EXAMPLES}\n\n{}\n\n{REPORT}\n\n{TRACES}", exit::table())
}

const ONCE: &str = "How many, how often";

/// What `run` is given.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Name of the lock: 1 to 200 bytes, no control characters
    #[arg(value_parser = LockName::new)]
    pub name: LockName,
    /// How long the lock outlives a machine that dies [1s to 1h; default: 30s, in a fallback 60s; at most the store's max_ttl]
    ///
    /// It is renewed at a third of this. Long enough for hiccups of the store to pass, short enough that you can wait
    /// for it after a crash.
    #[arg(long, value_name = "DUR", value_parser = ttl)]
    pub ttl: Option<Duration>,
    /// Wait for the lock; for ever, or for this long (--wait=DUR)
    ///
    /// Who waits stands in a queue, first come, first served. Without this, a lock that is held is not waited for.
    #[arg(long, value_name = "DUR", num_args = 0..=1, require_equals = true, value_parser = duration)]
    pub wait: Option<Option<Duration>>,
    /// For a daemon: after a loss of the lock queue again, and start CMD anew
    ///
    /// For one of which there must be one. It queues as with --wait; a store that is away is waited for, from the
    /// start. If the lock is lost, or --max-hold is over, CMD is stopped and started again once the lock is got again.
    /// It ends when CMD ends by itself, with CMD's exit code (a supervisor starts both anew), or by TERM, INT or QUIT.
    #[arg(long)]
    pub forever: bool,
    /// Let up to N hold the lock at a time, instead of one [at most 1000]
    ///
    /// All who use NAME must give the same number; another one is an error (78) while somebody holds it. Each has a hold
    /// of its own, which is free again when its machine dies.
    #[arg(long, value_name = "N", value_parser = permits, help_heading = ONCE)]
    pub permits: Option<u32>,
    /// Hold this lock, too: all of them or none (may be given several times)
    ///
    /// They are taken in order of their names, so that two that want the same can't wait for each other. --permits,
    /// --once-per and the like are about NAME alone.
    #[arg(long, value_name = "NAME", value_parser = LockName::new, help_heading = ONCE)]
    pub also: Vec<LockName>,
    /// Run once in each SLOT of time, however many try, and however late: cron fields, or a duration
    ///
    /// "0 2 * * *" (at two o'clock, by --tz), "H 2 * * *" (between two and three, at a minute that NAME decides), 15m (each
    /// quarter of an hour). The store's clock decides which slot it is,
    /// so this machine's may be wrong. With cron fields it is the last slot, or the next one where that is at most a
    /// minute away and no further than the last; a duration's slot is the one that is running. If it has had its run, CMD
    /// is not run, which is told on stderr, and the exit code is 0; while it runs elsewhere, the exit code is 75. At most once: a run that failed, or whose machine died, is not repeated without
    /// --retry-failed. A command that could not be started has not run.
    #[arg(long, value_name = "SLOT", conflicts_with_all = ["once_key", "forever"], help_heading = ONCE)]
    pub once_per: Option<String>,
    /// Time zone of --once-per [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "once_per", help_heading = ONCE)]
    pub tz: Option<String>,
    /// Run once for this KEY, ever: an idempotency key for a piece of work, such as an invoice's number
    ///
    /// Each key is a lock of its own, called NAME/KEY (a slash in NAME is written %2F): other keys of NAME run beside it.
    /// Done before: exit code 0 and a line on stderr; running elsewhere: 75. What counts as run is as for --once-per.
    #[arg(long, value_name = "KEY", conflicts_with = "forever", help_heading = ONCE)]
    pub once_key: Option<String>,
    /// How long a KEY is remembered after its last run [10m to 3650d]
    #[arg(long, value_name = "DUR", default_value = "30d", value_parser = memory, requires = "once_key", help_heading = ONCE)]
    pub remember: Duration,
    /// Run a slot or key again whose run has failed (exit code not 0), was stopped or died, until one has succeeded
    ///
    /// At least once, instead of at most once. Only of slots and keys that were begun with this option as well: what was
    /// promised to run once at most stays so.
    #[arg(long, help_heading = ONCE)]
    pub retry_failed: bool,
    /// Keep the lock for this long at least, even if the job is done sooner [at most 1d]
    ///
    /// Counted from when the lock was got. The command itself does not wait for it. For short jobs on several machines,
    /// whose clocks always differ a little.
    #[arg(long, value_name = "DUR", value_parser = minimum_hold)]
    pub at_least_for: Option<Duration>,
    /// End the job if it takes longer than this
    ///
    /// Exits with 76, as at a loss of the lock. Without it, a job that hangs keeps its lock for ever.
    #[arg(long, value_name = "DUR", value_parser = some_time)]
    pub max_hold: Option<Duration>,
    /// How long a job that was told to end (TERM) may take before it is killed (KILL)
    ///
    /// At most half of --ttl, since all of it must be over before the lock ends.
    ///
    /// [default: a third of --ttl, at most 10s; in a fallback at most 3s]
    #[arg(long, value_name = "DUR", value_parser = some_time)]
    pub kill_after: Option<Duration>,
    /// Hold the lock until everything that the job started has ended
    ///
    /// Without this, what a job leaves in the background when it exits is left alone, and runs without the lock.
    #[arg(long)]
    pub wait_group: bool,
    /// What to do where the store can't be reached: fail with 69, or skip this run with 0
    ///
    /// With --wait once that is over. The configuration file may say it for a store (on_down = "skip"). [default: fail]
    #[arg(long, value_name = "WHAT", conflicts_with = "forever")]
    pub on_down: Option<OnDown>,
    /// Exit code for "another holds the lock"; 0 to make a skip a success
    #[arg(long, value_name = "N", default_value = "75", value_parser = exit_code)]
    pub held_exit_code: u8,
    /// Write into this file, in JSON, how it went
    ///
    /// Our outcome and the job's stand apart; see below. The file is replaced as a whole at the start, where it says that we run, and at the end; one that can't be written is an
    /// error before anything runs (78). A pipe or device, as /dev/stdout or /dev/fd/3, gets one object at the end.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// Write metrics of this run into this file when it has ended, for the textfile collector of node_exporter
    ///
    /// Each series has the label `lock`, with NAME. The file is replaced as a whole, so a reader never sees half of it; give it a name that ends in
    /// .prom. One that can't be written is told, and changes no exit code.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub metrics_file: Option<PathBuf>,
    /// Don't count what happens to the locks: `contention` and `doctor` see nothing of it
    ///
    /// Else it is kept in the store, in one call every ten seconds at the most and one at the end.
    #[arg(long, env = "LEASEHOLD_NO_TALLY", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub no_tally: bool,
    /// Tell on stderr what happens, and where the locks are
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Say nothing about a lock that is held or a run that is skipped, only exit; errors and losses are still told
    #[arg(short, long)]
    pub quiet: bool,
    /// The command to run, and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// Whether a lock that is held is waited for.
    pub fn waits(&self) -> bool {
        self.forever || self.wait.is_some()
    }

    /// The rules that concern more than one option.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let broken = self
            .too_late_a_kill()
            .or_else(|| self.wait_without_equals_sign())
            .or_else(|| self.short_forever())
            .or_else(|| self.nothing_to_retry())
            .or_else(|| self.held_longer_than_allowed())
            .or_else(|| self.a_name_twice())
            .or_else(|| self.lock_name().err())
            .or_else(|| self.schedule().err().map(|failure| failure.message));
        broken.map_or(Ok(()), |rule| Err(Failure::new(exit::USAGE, rule)))
    }

    fn too_late_a_kill(&self) -> Option<String> {
        let ttl = self.ttl.unwrap_or(USUAL_TTL);
        let grace = self.kill_after.filter(|grace| *grace > ttl / 2)?;
        Some(format!(
            "--kill-after {grace:?} is more than half of --ttl {ttl:?}: the job could outlive the lock; lower --kill-after, \
             or raise --ttl to {:?}",
            grace.saturating_mul(2)
        ))
    }

    /// `--wait 5s make` would wait for ever and then run `5s`.
    fn wait_without_equals_sign(&self) -> Option<String> {
        let first = self.command.first()?.to_str()?;
        let mistaken = self.wait == Some(None) && duration(first).is_ok();
        mistaken.then(|| format!("{first} would be the command to run; to wait for so long, write --wait={first}"))
    }

    fn nothing_to_retry(&self) -> Option<String> {
        let retries_nothing = self.retry_failed && self.once_per.is_none() && self.once_key.is_none();
        retries_nothing.then(|| "--retry-failed is about --once-per or --once-key; give one of them".into())
    }

    /// Of one lock the library says so; of several the two may be terms of different ones.
    fn held_longer_than_allowed(&self) -> Option<String> {
        let (least, most) = (self.at_least_for?, self.max_hold?);
        (least > most && !self.also.is_empty()).then(|| {
            format!("--at-least-for {least:?} is longer than --max-hold {most:?}; swap them or take one of them out")
        })
    }

    fn a_name_twice(&self) -> Option<String> {
        let name = self.lock_name().ok()?;
        let mut seen = vec![&name];
        for other in &self.also {
            if seen.contains(&other) {
                return Some(format!("--also {other}: this lock is asked for twice; give each name once"));
            }
            seen.push(other);
        }
        None
    }

    /// The lock's name: of a key, its own. A slash in NAME is escaped, or `a/b` with key `c` would be `a` with key `b/c`.
    pub fn lock_name(&self) -> Result<LockName, String> {
        let Some(key) = &self.once_key else { return Ok(self.name.clone()) };
        if key.is_empty() {
            return Err("--once-key is empty; name the piece of work, as in --once-key invoice-2931".into());
        }
        let name = self.name.as_str().replace('%', "%25").replace('/', "%2F");
        LockName::new(&format!("{name}/{key}"))
            .map_err(|error| format!("--once-key: with NAME in front of it, {error}"))
    }

    /// What `--once-per` says.
    ///
    /// # Errors
    /// It can't be read, or is never due.
    pub fn schedule(&self) -> Result<Option<Schedule>, Failure> {
        let Some(slot) = &self.once_per else { return Ok(None) };
        let schedule = Schedule::parse_for(self.name.as_str(), slot, self.tz.as_deref());
        schedule.map(Some).map_err(|error| Failure::new(exit::USAGE, format!("--once-per: {error}")))
    }

    fn short_forever(&self) -> Option<String> {
        let wait = self.wait.flatten().filter(|_| self.forever)?;
        Some(format!("--forever queues for as long as it takes, --wait={wait:?} gives up before; take one of them out"))
    }
}
