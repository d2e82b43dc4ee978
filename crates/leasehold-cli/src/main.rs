//! `leasehold`: run a command under a lock.

mod args;
mod cmd;
mod config;
mod exit;
mod jobs;
mod metering;
mod nursery;
mod output;
mod secret_file;
mod traces;
mod warden;

use args::{AskedReport, Cli, ScheduleVerb, Verb};
use config::Config;
use exit::Failure;

/// No thread, no runtime and no signal handler before the verb: `run` forks first, and hands on what it found.
fn main() {
    std::panic::set_hook(Box::new(|fault| {
        output::tell(&format!("a fault of ours: {fault}; please report it"));
        std::process::exit(exit::FAULT);
    }));
    let cli = args::parse().inspect_err(|mistake| {
        if let Some(report) = AskedReport::of_this_process() {
            cmd::run::refuse(report, mistake);
        }
    });
    let code = cli.and_then(|cli| dispatch(&cli)).unwrap_or_else(|failure| {
        output::tell(&failure.message);
        failure.code
    });
    std::process::exit(code);
}

fn dispatch(cli: &Cli) -> Result<i32, Failure> {
    let config = || Config::find(&cli.store);
    let on_the_store = |verb: &dyn Fn(&Config) -> Result<i32, Failure>| {
        let config = config()?;
        verb(&config).map_err(|failure| config.complete(&failure))
    };
    match &cli.verb {
        Verb::Run(args) => cmd::run::run(args, config()),
        Verb::Schedule(args) => match &args.verb {
            Some(ScheduleVerb::ResetMark(args)) => on_the_store(&|config| cmd::reset_mark::run(args, config)),
            None => cmd::schedule::run(args, &cli.store),
        },
        Verb::Status(args) => on_the_store(&|config| cmd::status::run(args, config)),
        Verb::Ls(args) => on_the_store(&|config| cmd::ls::run(args, config)),
        Verb::Contention(args) => on_the_store(&|config| cmd::contention::run(args, config)),
        Verb::Watch(args) => on_the_store(&|config| cmd::watch::run(args, config)),
        Verb::Release(args) => on_the_store(&|config| cmd::release::run(args, config)),
        Verb::Doctor(args) => on_the_store(&|config| cmd::doctor::run(args, config)),
        Verb::Route(args) => on_the_store(&|config| cmd::route::run(args, config)),
        Verb::AcceptLoss(args) => on_the_store(&|config| cmd::accept_loss::run(args, config)),
        Verb::Migrate(args) => on_the_store(&|config| cmd::migrate::run(args, config)),
        Verb::Next(args) => cmd::next::run(args),
        Verb::History(args) => on_the_store(&|config| cmd::history::run(args, config)),
        Verb::Trigger(args) => on_the_store(&|config| cmd::trigger::run(args, config)),
        Verb::Pause(args) => on_the_store(&|config| cmd::pause::run(args, config)),
        Verb::Resume(args) => on_the_store(&|config| cmd::resume::run(args, config)),
        Verb::Serve(args) => on_the_store(&|config| cmd::serve::run(args, config)),
        Verb::Completions(args) => cmd::completions::run(args),
        Verb::Man(args) => cmd::man::run(args),
    }
}
