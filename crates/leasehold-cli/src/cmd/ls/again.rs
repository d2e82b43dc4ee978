//! `leasehold ls --watch`: the list, again and again.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold::Holding;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::time::MissedTickBehavior;

use super::screen::Screen;
use super::{all, nothing, table};
use crate::cmd::block_on;
use crate::cmd::watch::until_nobody_reads;
use crate::config::Config;
use crate::exit::{self, Failure, code_of};
use crate::nursery::Watched;
use crate::output::{self, duration, plain, utc};
use crate::warden::sys::is_ignored;

/// Lists until Ctrl-C, or until nobody reads any more.
///
/// # Errors
/// The store can't be opened, or says what asking again doesn't mend.
pub(super) fn run(every: Duration, json: bool, config: &Config) -> Result<i32, Failure> {
    // Before any thread is there that could take the signal instead.
    let stop = Stop::block().map_err(|error| no_signals(&error))?;
    block_on(async {
        let stopped = stop.comes()?;
        let again = Again { every, config, json, screen: Screen::of_stdout().filter(|_| !json) };
        tokio::select! {
            told = again.tell() => told,
            () = stopped => Ok(()),
            () = until_nobody_reads() => Ok(()),
        }
    })?;
    Ok(exit::OK)
}

/// The list, and how it is shown.
struct Again<'a> {
    every: Duration,
    config: &'a Config,
    json: bool,
    /// Where it is drawn, if people look at it.
    screen: Option<Screen>,
}

impl Again<'_> {
    async fn tell(&self) -> Result<(), Failure> {
        let store = self.config.open()?;
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_away = false;
        loop {
            ticks.tick().await;
            match store.list().await {
                Ok(locks) => {
                    is_away = false;
                    if output::write(&self.shown(&locks)?)? == ControlFlow::Break(()) {
                        return Ok(());
                    }
                }
                Err(error) if code_of(error.kind()) == exit::UNAVAILABLE => {
                    if !std::mem::replace(&mut is_away, true) {
                        output::tell(&format!("the store does not answer, and is asked on: {error}"));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn shown(&self, locks: &[Holding]) -> Result<String, Failure> {
        if self.json {
            let all = serde_json::to_string(&all(locks, self.config));
            return all.map(|all| all + "\n").map_err(|error| Failure::new(exit::FAULT, error.to_string()));
        }
        let waiting: u64 = locks.iter().map(|lock| lock.waiting).sum();
        let held = locks.iter().filter(|lock| lock.holder.is_some()).count();
        let (store, every, now) = (self.config.shown(), duration(self.every), utc(SystemTime::now()));
        let head = plain(&format!("{store} at {now}, every {every}: {held} held, {waiting} waiting"));
        let list = if locks.is_empty() { plain(&nothing(self.config)) } else { table(locks) };
        Ok(match &self.screen {
            Some(screen) => screen.drawn(&head, &list),
            None => format!("{head}\n{list}\n\n"),
        })
    }
}

/// By what people end it.
struct Stop(SignalFd);

impl Stop {
    /// From now on these signals are waited for. Who is to ignore them, as behind a shell's `&`, goes on doing so.
    fn block() -> io::Result<Self> {
        let meant = [Signal::SIGINT, Signal::SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
        let signals: SigSet = meant.collect();
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// Within a runtime: resolves when one comes.
    fn comes(&self) -> Result<impl Future<Output = ()>, Failure> {
        let ready = || Watched::new(Arc::new(self.0.as_fd().try_clone_to_owned()?));
        let ready = ready().map_err(|error| no_signals(&error))?;
        Ok(async move { ready.readable().await })
    }
}

fn no_signals(error: &io::Error) -> Failure {
    Failure::new(exit::FAULT, format!("cannot wait for signals: {error}"))
}
