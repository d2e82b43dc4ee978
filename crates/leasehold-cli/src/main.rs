//! `leasehold`: run a command under a lock.

mod args;
mod cmd;
mod config;
mod exit;
mod output;
mod warden;

use args::{AskedReport, Cli, Verb};
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
    match &cli.verb {
        Verb::Run(args) => cmd::run::run(args, config()),
        Verb::Status(args) => cmd::status::run(args, &config()?),
        Verb::Ls(args) => cmd::ls::run(args, &config()?),
        Verb::Watch(args) => cmd::watch::run(args, &config()?),
        Verb::Release(args) => cmd::release::run(args, &config()?),
        Verb::Doctor(args) => cmd::doctor::run(args, &config()?),
        Verb::Route(args) => cmd::route::run(args, &config()?),
        Verb::AcceptLoss(args) => cmd::accept_loss::run(args, &config()?),
        Verb::Migrate(args) => cmd::migrate::run(args, &config()?),
        Verb::Next(args) => cmd::next::run(args),
        Verb::Completions(args) => cmd::completions::run(args),
        Verb::Man(args) => cmd::man::run(args),
    }
}
