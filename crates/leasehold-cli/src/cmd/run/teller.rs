//! What `run` tells while it runs.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leasehold::store::{Epoch, Target};
use leasehold::validity::{BootClock, Clock, Moment};
use leasehold::{Error, ErrorKind, Event, HolderId, Holding, LockName};

use super::terms::Terms;
use crate::args::RunArgs;
use crate::config::Commands;
use crate::output::{duration as span, known, plain, tell};
use crate::warden::{Deadlines, Reserve};

/// So far apart are leases at the most of which it is said that they end together.
const A_MOMENT: Duration = Duration::from_millis(250);

/// Tells people what happens, and the warden until when the lease is good.
///
/// Its events come from the keeper's thread as well.
pub struct Teller {
    deadlines: Deadlines,
    commands: Commands,
    /// The lock's name.
    name: String,
    /// Until when each lock is good, by its last hold. A late word about an earlier one must not move anything.
    holds: Mutex<BTreeMap<LockName, (HolderId, Moment)>>,
    /// Of each lock the hold that is known to have been lost last.
    losses: Mutex<BTreeMap<LockName, HolderId>>,
    reserve: Reserve,
    patience: Option<Duration>,
    verbose: bool,
    quiet: bool,
    waiting: ProgressBar,
    told_waiting: AtomicBool,
    told_held_up: AtomicBool,
    told_outage: AtomicBool,
    failures: AtomicU32,
}

impl Teller {
    /// One for a run on these terms.
    pub fn new(args: &RunArgs, terms: Terms, commands: &Commands, deadlines: Deadlines) -> Self {
        let waiting = if std::io::stderr().is_terminal() && !args.quiet && args.waits() {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        } else {
            ProgressBar::hidden()
        };
        Self {
            deadlines,
            commands: commands.clone(),
            name: args.lock_name().map_or_else(|_| args.name.to_string(), |name| name.to_string()),
            holds: Mutex::default(),
            losses: Mutex::default(),
            reserve: Reserve::of(terms.ttl, terms.kill_after),
            patience: terms.patience,
            verbose: args.verbose,
            quiet: args.quiet,
            waiting,
            told_waiting: AtomicBool::new(false),
            told_held_up: AtomicBool::new(false),
            told_outage: AtomicBool::new(false),
            failures: AtomicU32::new(0),
        }
    }

    /// Tells of an event, where it is worth it.
    pub fn tell(&self, event: &Event<'_>) {
        match event {
            Event::Waiting { name, holding, waited } => self.waits(name.as_str(), holding, *waited),
            Event::AcquireFailed { name, error, .. } => self.is_held_up(name, error),
            Event::Acquired { name, holder, token, waited, valid_until } => {
                self.begins(name, *holder, *valid_until);
                self.answered();
                self.say(format_args!("got {name} with token {token} after {}", span(*waited)));
            }
            Event::Renewed { name, holder, valid_until, margin, .. } => {
                self.goes_on(name, *holder, *valid_until);
                self.failures.store(0, Ordering::Relaxed);
                self.say(format_args!("renewed {name}; {} were left", span(*margin)));
            }
            Event::Bounded { name, holder, valid_until } => self.goes_on(name, *holder, *valid_until),
            // One failure is a hiccup; it is tried again well before it matters.
            Event::RenewalFailed { name, error, remaining, .. }
                if self.failures.fetch_add(1, Ordering::Relaxed) > 0 || self.verbose =>
            {
                tell(&format!("{name} could not be renewed ({error}); {} are left", span(*remaining)));
            }
            Event::Switched { to, epoch, within, .. } => self.switches(to, *epoch, *within),
            Event::GaveUp { name, tick } => tell(&format!(
                "the run of {tick} of {name} is not known to have succeeded and is given up, as are too many later ones"
            )),
            Event::Lost { name, reason, .. } => self.say(format_args!("{name} is lost: {reason}")),
            Event::Released { name, held, .. } => self.say(format_args!("released {name} after {}", span(*held))),
            _ => {}
        }
    }

    /// Whether nobody has said so before that this hold was lost.
    pub fn is_new_loss(&self, name: &LockName, holder: HolderId) -> bool {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses.insert(name.clone(), holder) != Some(holder)
    }

    /// Whether this hold's time to end the job has come, or as good as that: leases that are taken one after the other end so, and what has
    /// not been renewed until a moment before isn't any more.
    pub fn is_due(&self, name: &LockName, holder: HolderId) -> bool {
        let soon = (BootClock.now() + A_MOMENT).as_nanos();
        let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.get(name).is_some_and(|hold| hold.0 == holder && self.reserve.due(hold.1).term_at <= soon)
    }

    fn begins(&self, name: &LockName, holder: HolderId, valid_until: Moment) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.insert(name.clone(), (holder, valid_until));
        self.good_for(&holds);
    }

    fn goes_on(&self, name: &LockName, holder: HolderId, valid_until: Moment) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hold) = holds.get_mut(name).filter(|hold| hold.0 == holder) {
            hold.1 = valid_until;
            self.good_for(&holds);
        }
    }

    /// The job is killed before the first of the leases ends.
    fn good_for(&self, holds: &BTreeMap<LockName, (HolderId, Moment)>) {
        let Some(valid_until) = holds.values().map(|hold| hold.1).min() else { return };
        let due = self.reserve.due(valid_until);
        self.deadlines.set(due.term_at, due.kill_at);
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for has had its run.
    pub fn skipped(&self, reason: &str) {
        if !self.quiet {
            tell(&format!("{}: {reason}; not run", self.name));
        }
    }

    /// Tells it where much is to be told.
    pub fn say(&self, what: Arguments<'_>) {
        if self.verbose {
            tell(&what.to_string());
        }
    }

    /// On a terminal a line that changes; elsewhere one line, once.
    fn waits(&self, name: &str, holding: &Holding, waited: Duration) {
        self.answered();
        let ahead = match holding.waiting {
            0 => String::new(),
            1 => ", 1 ahead of us".into(),
            more => format!(", {more} ahead of us"),
        };
        if !self.waiting.is_hidden() {
            if self.waiting.is_finished() {
                self.waiting.reset();
            }
            self.waiting.set_message(plain(&format!(
                "waiting for {name}, {} so far: {}{ahead}",
                span(waited),
                who_has(holding)
            )));
            self.waiting.tick();
        } else if !self.quiet && !self.told_waiting.swap(true, Ordering::Relaxed) {
            tell(&format!("waiting for {name}: {}{ahead}", who_has(holding)));
        }
    }

    /// What the store needs time for, or an operator, is told once. A hiccup is tried again, and told if it goes on. Whoever waits for nobody
    /// but the store is told that it does.
    fn is_held_up(&self, name: &LockName, error: &Error) {
        let is_hiccup = !error.is_passing() && error.kind() != ErrorKind::Refused;
        if self.patience.is_some() {
            self.outage(error, self.patience);
        } else if is_hiccup {
            self.say(format_args!("{name} could not be asked for ({error}); it is tried again"));
        } else if !self.quiet && !self.told_held_up.swap(true, Ordering::Relaxed) {
            let why = self.commands.completed(&error.to_string());
            self.waiting.suspend(|| tell(&format!("waiting for {name}: {why}")));
        }
    }

    /// The lock is about to be asked for, perhaps not for the first time.
    pub fn begin_waiting(&self) {
        self.told_waiting.store(false, Ordering::Relaxed);
        self.told_held_up.store(false, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
    }

    /// It was got, or is not waited for any more.
    pub fn stop_waiting(&self) {
        self.waiting.finish_and_clear();
    }

    /// Locks move to another store of a fallback.
    fn switches(&self, to: &Target, epoch: Epoch, within: Option<Duration>) {
        if self.quiet {
            return;
        }
        let when = within.map_or_else(String::new, |within| format!(", in {} at the latest", span(within)));
        self.waiting.suspend(|| tell(&format!("locks move to {to} (route {epoch}){when}")));
    }

    /// The store is away, and will be asked again, for so long at the most. Told once.
    pub fn outage(&self, error: &Error, most: Option<Duration>) {
        if !self.told_outage.swap(true, Ordering::Relaxed) {
            let until = most.map_or_else(|| "until it answers".into(), |most| format!("for {}", span(most)));
            let why = self.commands.completed(&error.to_string());
            self.waiting.suspend(|| tell(&format!("{why}; it is asked again {until}")));
        }
    }

    /// The store answers.
    pub fn answered(&self) {
        if self.told_outage.swap(false, Ordering::Relaxed) {
            self.waiting.suspend(|| tell("the store answers again"));
        }
    }

    /// Somebody else has it, and that is the end.
    pub fn refused(&self, holding: &Holding, waited: bool) {
        if !self.quiet {
            let given_up = if waited { "gave up waiting" } else { "not run" };
            tell(&format!("{}: {}; {given_up}", holding.name, who_has(holding)));
        }
    }
}

/// `held by web-3/41/backup for 5m`, or what else keeps it from being ours.
pub fn who_has(holding: &Holding) -> String {
    match holding.holder {
        Some(_) => {
            let since = known(holding.held_for, holding.library, holding.token);
            let since = since.map_or_else(String::new, |since| format!(" for {}", span(since)));
            format!("held by {}{since}", plain(&holding.label))
        }
        None if holding.remaining.is_zero() => "free, and somebody before us is about to get it".into(),
        None => {
            format!("held back for {} more after its last run by {}", span(holding.remaining), plain(&holding.label))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use leasehold::{FencingToken, LockName};

    use super::*;
    use crate::args::{Cli, Verb};

    fn teller() -> (Teller, Deadlines) {
        let Verb::Run(args) = Cli::try_parse_from(["leasehold", "run", "a", "--", "true"]).unwrap().verb else {
            panic!()
        };
        let deadlines = Deadlines::unwatched();
        let terms = Terms { ttl: Duration::from_secs(30), kill_after: Duration::from_secs(10), patience: None };
        (Teller::new(&args, terms, &Commands::default(), deadlines.clone()), deadlines)
    }

    /// Validities that end in some seconds from the hour of this machine's start.
    fn at(second: u64) -> Moment {
        Moment::from_nanos((3600 + second) * 1_000_000_000)
    }

    #[test]
    fn a_late_word_about_an_earlier_hold_moves_no_deadline() {
        let (teller, deadlines) = teller();
        let name = LockName::new("a").unwrap();
        let (earlier, later) = (HolderId::fresh(), HolderId::fresh());
        let granted = |holder, valid_until| {
            let (token, waited) = (FencingToken::new(1), Duration::ZERO);
            teller.tell(&Event::Acquired { name: &name, holder, token, waited, valid_until });
            deadlines.term_at()
        };
        let renewed = |holder, valid_until| {
            let (margin, late) = (Duration::ZERO, Duration::ZERO);
            teller.tell(&Event::Renewed { name: &name, holder, valid_until, margin, late });
            deadlines.term_at()
        };
        let first = granted(earlier, at(30));
        assert!(renewed(earlier, at(40)) > first);
        let second = granted(later, at(20));
        assert!(second < first, "a new hold has its own, sooner or not");
        assert_eq!(renewed(earlier, at(50)), second, "longer than the lease");
        assert_eq!(renewed(earlier, at(10)), second, "shorter than the lease");
        assert!(renewed(later, at(60)) > first);
    }

    #[test]
    fn leases_that_end_within_a_moment_are_due_together() {
        let (teller, _) = teller();
        let reserve = Duration::from_secs(10) + Duration::from_millis(250);
        let is_due = |left: Duration| {
            let (name, holder) = (LockName::new("a").unwrap(), HolderId::fresh());
            let (token, valid_until) = (FencingToken::new(1), BootClock.now() + reserve + left);
            teller.tell(&Event::Acquired { name: &name, holder, token, waited: Duration::ZERO, valid_until });
            assert!(!teller.is_due(&name, HolderId::fresh()), "that is another hold");
            teller.is_due(&name, holder)
        };
        assert!(is_due(Duration::ZERO) && is_due(A_MOMENT));
        assert!(!is_due(Duration::from_secs(10)), "it is renewed before");
    }

    #[test]
    fn a_lock_that_is_bounded_is_good_until_then() {
        let (teller, deadlines) = teller();
        let (name, holder) = (LockName::new("a").unwrap(), HolderId::fresh());
        let token = FencingToken::new(1);
        teller.tell(&Event::Acquired { name: &name, holder, token, waited: Duration::ZERO, valid_until: at(30) });
        let at_first = deadlines.term_at();
        for (until, moved) in [(20, -10), (40, 10)] {
            teller.tell(&Event::Bounded { name: &name, holder, valid_until: at(until) });
            let seconds = (i128::from(deadlines.term_at()) - i128::from(at_first)) / 1_000_000_000;
            assert_eq!(seconds, moved);
        }
    }
}
