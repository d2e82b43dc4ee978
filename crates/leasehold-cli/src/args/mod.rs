//! The command line: what may be typed, and the help that teaches it. A file for each verb.

mod accept_loss;
mod asked_report;
mod completions;
mod contention;
mod doctor;
mod history;
mod ls;
mod man;
mod migrate;
mod mistake;
mod next;
mod pause;
mod release;
mod reset_mark;
mod resume;
mod route;
mod run;
mod schedule;
mod serve;
mod status;
mod trigger;
mod values;
mod watch;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueHint};

use crate::exit::{self, Failure};

pub use self::accept_loss::AcceptLossArgs;
pub use self::asked_report::AskedReport;
pub use self::completions::CompletionsArgs;
pub use self::contention::{ContentionArgs, SortBy};
pub use self::doctor::DoctorArgs;
pub use self::history::{GONE, HistoryArgs};
pub use self::ls::LsArgs;
pub use self::man::ManArgs;
pub use self::migrate::MigrateArgs;
pub use self::next::NextArgs;
pub use self::pause::PauseArgs;
pub use self::release::ReleaseArgs;
pub use self::reset_mark::ResetMarkArgs;
pub use self::resume::ResumeArgs;
pub use self::route::{RouteArgs, RouteVerb, SetArgs};
pub use self::run::RunArgs;
pub use self::schedule::{ScheduleArgs, ScheduleVerb};
pub use self::serve::ServeArgs;
pub use self::status::StatusArgs;
pub use self::trigger::TriggerArgs;
pub use self::values::duration;
pub use self::watch::WatchArgs;

/// Run a job under a lock: one at a time, however many try
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100, help_template = template(), after_help = FIRST_STEPS)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// Where the locks are.
    #[command(flatten)]
    pub store: StoreArgs,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What all this is about; the description in the manual, too.
pub const ABOUT: &str = "\
Put `leasehold run NAME --` in front of a command. Whoever comes first gets the
lock and runs it; the others skip it, or wait. The lock is a lease that renews
itself while the job runs: should the machine die, it frees itself; should it be
lost, the job is stopped before anybody else can get it.";

/// Not `long_about`: with one, clap takes two lines and more for each option, and the page no more fits a screen.
fn template() -> String {
    format!("{{about}}\n\n{ABOUT}\n\n{{usage-heading}} {{usage}}\n\n{{all-args}}{{after-help}}")
}

const FIRST_STEPS: &str = "\
Examples:
  leasehold run backup -- ./backup.sh              run it, unless it runs already
  leasehold run report --wait=10m -- make report   wait up to 10 minutes for it
  leasehold status backup                          who holds it, and since when?
  leasehold schedule --check                       what of the jobs in leasehold.toml runs next?
  leasehold doctor                                 is the store fit for its work?

Locks live in the store that --store names; else LEASEHOLD_STORE; else the default of
./leasehold.toml or /etc/leasehold/leasehold.toml; else a SQLite file of this user (as
root: of this machine). `leasehold run --help` and docs/config.md tell the rest.";

/// Where the locks are. Global: legal before and after the verb.
///
/// The variables are read in `config.rs` and not by clap, because a bad one exits with another code than a bad option.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where the locks are")]
pub struct StoreArgs {
    /// URL of the store, or its name in the configuration [env: LEASEHOLD_STORE]
    #[arg(long, global = true, value_name = "URL|NAME")]
    pub store: Option<String>,
    /// Configuration file [env: LEASEHOLD_CONFIG]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Namespace of the locks' names [env: LEASEHOLD_NAMESPACE]
    #[arg(long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a command while holding a lock
    #[command(long_about = run::ABOUT, after_long_help = run::footer())]
    #[command(override_usage = "leasehold run [OPTIONS] <NAME> -- <CMD> [ARGS]...")]
    Run(Box<RunArgs>),
    /// Say who holds a lock
    #[command(long_about = status::ABOUT, after_long_help = status::FOOTER)]
    Status(StatusArgs),
    /// List the locks that are held or waited for
    #[command(long_about = ls::ABOUT, after_long_help = ls::FOOTER)]
    Ls(LsArgs),
    /// Tell what was contended, and who held it so long
    #[command(long_about = contention::ABOUT, after_long_help = contention::FOOTER)]
    Contention(ContentionArgs),
    /// Tell what happens to a lock, as it happens
    #[command(long_about = watch::ABOUT, after_long_help = watch::FOOTER)]
    Watch(WatchArgs),
    /// End somebody else's hold of a lock
    #[command(long_about = release::ABOUT, after_long_help = release::FOOTER)]
    Release(ReleaseArgs),
    /// Examine the store, and say what to mend
    #[command(long_about = doctor::ABOUT, after_long_help = doctor::FOOTER)]
    Doctor(DoctorArgs),
    /// Say which store of a fallback is in use; set it, once the arbiter was restored
    #[command(long_about = route::ABOUT, after_long_help = route::FOOTER)]
    Route(RouteArgs),
    /// Accept that the members of a quorum have lost what they remembered
    #[command(long_about = accept_loss::ABOUT, after_long_help = accept_loss::FOOTER)]
    AcceptLoss(AcceptLossArgs),
    /// Make the tables that the store needs, or print them
    #[command(long_about = migrate::ABOUT, after_long_help = migrate::FOOTER)]
    Migrate(MigrateArgs),
    /// Run jobs on a schedule, each tick once, on one of many machines
    #[command(long_about = schedule::ABOUT, after_long_help = schedule::FOOTER)]
    Schedule(ScheduleArgs),
    /// Show when a schedule is due
    #[command(long_about = next::ABOUT, after_long_help = next::FOOTER)]
    Next(NextArgs),
    /// Tell what ran on schedule, what did not, and why
    #[command(long_about = history::ABOUT, after_long_help = history::FOOTER)]
    History(HistoryArgs),
    /// Have a scheduled job run now
    #[command(long_about = trigger::ABOUT, after_long_help = trigger::FOOTER)]
    Trigger(TriggerArgs),
    /// Have a scheduled job pause
    #[command(long_about = pause::ABOUT, after_long_help = pause::FOOTER)]
    Pause(PauseArgs),
    /// End the pause of a job
    #[command(long_about = resume::ABOUT, after_long_help = resume::FOOTER)]
    Resume(ResumeArgs),
    /// Serve a dashboard, a JSON API and metrics of the store
    #[command(long_about = serve::ABOUT, after_long_help = serve::FOOTER)]
    Serve(ServeArgs),
    /// Print the completions for a shell
    #[command(after_long_help = completions::FOOTER)]
    Completions(CompletionsArgs),
    /// Print a page of the manual, or write all pages
    #[command(after_long_help = man::FOOTER)]
    Man(ManArgs),
}

/// Reads the command line. Help and version, where they are asked for, end the process here.
///
/// # Errors
/// What is wrong with it.
pub fn parse() -> Result<Cli, Failure> {
    let cli = Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            std::process::exit(exit::USAGE)
        }
        _ => mistake::explain(&error),
    })?;
    if let Verb::Run(run) = &cli.verb {
        run.check()?;
    }
    Ok(cli)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use std::time::Duration;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    fn run(options: &[&str]) -> Result<RunArgs, Failure> {
        let words = ["leasehold", "run", "a"].iter().chain(options).chain(&["--", "true"]);
        match Cli::try_parse_from(words).map_err(|error| mistake::explain(&error))?.verb {
            Verb::Run(run) => run.check().map(|()| *run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn run_has_its_defaults() {
        let run = run(&[]).unwrap();
        assert_eq!((run.ttl, run.kill_after, run.held_exit_code), (None, None, 75));
        assert_eq!((run.wait, run.at_least_for, run.max_hold), (None, None, None));
    }

    #[test]
    fn the_grace_is_half_the_ttl_at_most() {
        assert!(run(&["--ttl", "4s", "--kill-after", "2s"]).is_ok());
        assert!(run(&["--kill-after", "15001ms"]).unwrap_err().message.contains("--ttl 30s"));
        let refused = run(&["--ttl", "4s", "--kill-after", "2001ms"]).unwrap_err();
        assert!(refused.code == 64 && refused.message.contains("--ttl to 4.002s"), "{refused:?}");
    }

    #[test]
    fn wait_takes_its_duration_only_with_an_equals_sign() {
        assert_eq!(run(&["--wait"]).unwrap().wait, Some(None));
        assert_eq!(run(&["--wait=10m"]).unwrap().wait, Some(Some(Duration::from_secs(600))));
        assert_eq!(run(&["--wait=0s"]).unwrap().wait, Some(Some(Duration::ZERO)));
        let refused = run(&["--wait", "5s"]).unwrap_err();
        assert!(refused.code == 64 && refused.message.contains("--wait=5s"), "{refused:?}");
    }

    #[test]
    fn what_is_meant_as_a_duration_is_told_as_one() {
        let refused = |words: &[&str]| {
            let words = ["leasehold"].iter().chain(words);
            let words: Vec<_> = words.map(ToString::to_string).collect();
            mistake::explain_of(&words, &Cli::try_parse_from(&words).unwrap_err()).message
        };
        assert!(refused(&["trigger", "a", "--wait", "5s"]).contains("write --wait=5s"));
        assert!(refused(&["trigger", "--wait", "5s", "a"]).contains("write --wait=5s"));
        assert!(refused(&["trigger", "--wait", "b", "a"]).contains("'a' is one argument too many"));
        assert!(refused(&["ls", "--watch", "5s"]).contains("write --watch=5s"));
        assert!(refused(&["ls", "--watch=1ms"]).contains("give 100ms to 1d"));
        assert!(refused(&["ls", "x"]).contains("take it out"));
        assert!(refused(&["pause", "a", "--for", "-1h"]).contains("is no duration; write for example"));
        let usage = refused(&["schedule", "reset-mark"]);
        assert!(usage.contains("--yes"), "{usage}");
    }

    #[test]
    fn the_command_is_taken_as_it_is() {
        for words in [
            ["leasehold", "run", "a", "echo", "--ttl", "x"].as_slice(),
            &["leasehold", "run", "a", "--", "echo", "--ttl", "x"],
            &["leasehold", "run", "--ttl", "5s", "a", "--wait", "--", "echo", "--ttl", "x"],
        ] {
            let Verb::Run(run) = Cli::try_parse_from(words).unwrap().verb else { panic!() };
            assert_eq!(run.command, ["echo", "--ttl", "x"], "{words:?}");
        }
        // A misspelt option is none of the command's.
        assert!(Cli::try_parse_from(["leasehold", "run", "a", "--tll", "5s", "--", "true"]).is_err());
    }
}
