//! The warden's watch over one run of the job.

use std::time::Duration;

use nix::sys::{
    signal::Signal,
    time::TimeSpec,
    timerfd::{Expiration, TimerSetTimeFlags},
};

use super::{
    inside::{Inside, Woken},
    job::Job,
    message::{Message, Received, Stops},
    page::{Due, NEVER, Page, State, boottime, nanos},
    sys::{self, Waited},
    tree,
};

/// A running job, and what has happened to it so far.
pub(super) struct Watch<'a> {
    warden: &'a Inside,
    job: Job,
    /// The direct child is reaped.
    ended: bool,
    /// Somebody asked for the end, so what the job leaves behind is cleared.
    ordered: bool,
    /// The tree has got TERM from a signal that was handed on.
    termed: bool,
    /// The tree has got TERM from us.
    told: bool,
    /// How often the job has been stopped without the wrapper's doing.
    stops: Stops,
    /// The wrapper had it stopped, and has not been continued since.
    paused: bool,
    /// What is left of an ended job is killed then.
    clear_by: Option<u64>,
    armed: u64,
}

impl<'a> Watch<'a> {
    pub(super) fn new(warden: &'a Inside, job: Job) -> Watch<'a> {
        Watch {
            warden,
            job,
            ended: false,
            ordered: false,
            termed: false,
            told: false,
            stops: 0,
            paused: false,
            clear_by: None,
            armed: NEVER,
        }
    }

    /// Stays with the job until it, and where ordered its tree, is gone.
    pub(super) fn watch(mut self) -> State {
        loop {
            // First the clock: after a pause of the machine nothing may be done for a job whose time is over.
            let (now, due) = (boottime(), self.due());
            if now >= due.kill_at {
                self.cut();
                return self.kill();
            }
            if now >= due.term_at {
                self.cut();
                self.tell_to_end();
            }
            self.arm(if self.told { due.kill_at } else { due.term_at.min(due.kill_at) });

            if self.warden.wait() == Woken::WrapperGone || !self.obey() {
                return self.kill();
            }
            if self.reap() {
                return self.outcome();
            }
        }
    }

    /// The instants that count: the page's, or earlier where something is being cleared.
    fn due(&self) -> Due {
        let due = self.warden.page.due();
        Due { kill_at: due.kill_at.min(self.clear_by.unwrap_or(NEVER)), ..due }
    }

    /// Does what the wrapper says. `false`: kill.
    fn obey(&mut self) -> bool {
        loop {
            match self.warden.receive() {
                Received::Message(Message::Forward { signal, order }) => self.hand_on(signal, order),
                Received::Message(Message::Continue(stops)) => self.go_on(stops),
                Received::Message(Message::Kill) | Received::Closed => return false,
                Received::Message(_) => {}
                Received::Nothing => return true,
            }
        }
    }

    /// A signal for the job: what asks for an end or a pause is for the whole tree, anything else for the child.
    fn hand_on(&mut self, signal: Signal, order: bool) {
        self.ordered |= order;
        match signal {
            Signal::SIGUSR1 | Signal::SIGUSR2 | Signal::SIGALRM if self.ended => {}
            Signal::SIGUSR1 | Signal::SIGUSR2 | Signal::SIGALRM => self.job.send(signal),
            _ => {
                self.termed |= signal == Signal::SIGTERM;
                self.paused |= signal == Signal::SIGTSTP;
                self.tell(&[signal]);
            }
        }
    }

    /// The wrapper was continued: the job is, too, unless its time is over, or it has been stopped again by what the
    /// wrapper had not heard of.
    fn go_on(&mut self, stops: Stops) {
        self.look_at_children();
        if stops == self.stops && boottime() < self.due().term_at {
            self.tell(&[Signal::SIGCONT]);
        }
        self.paused = false;
        self.warden.tell_wrapper(&Message::Continued);
    }

    /// Tells everybody, the child's own group at one blow.
    fn tell(&self, signals: &[Signal]) {
        let told = if self.ended { None } else { self.job.send_to_group(signals) };
        tree::tell(signals, told);
    }

    /// Asks the tree to end, once. A stopped process hears it only when it is continued.
    fn tell_to_end(&mut self) {
        if !self.told {
            self.told = true;
            self.tell(&[Signal::SIGTERM, Signal::SIGCONT]);
        }
    }

    /// Notes that the run is cut short, if what we wait for had not ended before.
    fn cut(&mut self) {
        if !self.ended || (self.warden.options.wait_group && self.clear_by.is_none()) {
            self.ordered = true;
            self.warden.page.note_cut();
        }
    }

    /// Says whether the run is over. What is left of a job that is to be cleared is asked to end.
    fn reap(&mut self) -> bool {
        if !self.look_at_children() {
            return true;
        }
        if !self.ended {
            return false;
        }
        if self.clear_by.is_none() {
            return !self.warden.options.wait_group;
        }
        if !self.termed {
            self.tell_to_end();
        }
        false
    }

    /// Takes the news of all children; says whether some are left.
    fn look_at_children(&mut self) -> bool {
        loop {
            match sys::wait_any() {
                Waited::Ended(pid, status) if pid == self.job.pid && !self.ended => self.job_ended(status),
                Waited::Stopped(pid, signal) if pid == self.job.pid => self.job_stopped(signal),
                Waited::Ended(..) | Waited::Stopped(..) => {}
                Waited::NoNews => return true,
                Waited::NoChildren => return false,
            }
        }
    }

    fn job_ended(&mut self, status: i32) {
        self.ended = true;
        self.warden.page.set_status(status);
        if self.ordered || libc::WIFSIGNALED(status) {
            self.clear_by = Some(boottime().saturating_add(nanos(self.warden.options.kill_after)));
        }
    }

    /// The wrapper stops too, so that the shell sees it. What stopped by SIGSTOP was meant to stop alone.
    ///
    /// A stop that the wrapper had handed on is not counted: what continues the wrapper after that is meant to end it,
    /// even if it comes before the wrapper hears that the job has stopped.
    fn job_stopped(&mut self, signal: i32) {
        if [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal) {
            self.stops += Stops::from(!self.paused);
            self.warden.tell_wrapper(&Message::Stopped(self.stops));
        }
    }

    /// Kills the whole tree.
    fn kill(mut self) -> State {
        self.warden.page.set_state(State::Killing);
        if !self.ended {
            self.job.send_to_group(&[Signal::SIGKILL]);
        }
        let nobody_left = || loop {
            match sys::wait_any() {
                Waited::Ended(pid, status) if pid == self.job.pid && !self.ended => self.job_ended(status),
                Waited::Ended(..) | Waited::Stopped(..) => {}
                Waited::NoNews => return false,
                Waited::NoChildren => return true,
            }
        };
        if tree::kill_all(&[], nobody_left) { self.outcome() } else { State::Unkillable }
    }

    fn outcome(&self) -> State {
        match self.warden.page.errno() {
            0 => State::Ended,
            Page::TOO_LATE => {
                self.warden.page.note_cut();
                State::TooLate
            }
            _ => State::NotStarted,
        }
    }

    /// Sets the timer, which wakes us also after a suspend.
    fn arm(&mut self, instant: u64) {
        if self.armed != instant {
            self.armed = instant;
            let at = Expiration::OneShot(TimeSpec::from(Duration::from_nanos(instant)));
            let set = self.warden.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME);
            set.expect("an absolute instant after zero is always valid");
        }
    }
}
