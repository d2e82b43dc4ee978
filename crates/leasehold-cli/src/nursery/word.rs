//! What scheduler and runner say to each other, one packet each, over the run's own socket.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::packet::{Received, receive_packet, send_packet};
use crate::warden::{Cut, Due, End, Fatal, IS_OVER, signal_name};

/// To the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell {
    /// The lease is good until then.
    Until(Due),
    /// End the job: TERM now, KILL after the grace.
    End(Cut),
    /// Kill it.
    Kill(Cut),
}

/// To the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// From the runner: from here on the job may be at work.
    Begins,
    /// From the warden: nothing of the job is at work any more, but what was left alone on purpose.
    Over,
    /// From the runner, its last: how the run ended.
    Ended(Report),
}

/// How a run ended, in words that cross processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The job exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
    /// It could not be started; why.
    NotStarted(String),
    /// Somebody sent this signal to the runner, which handed it on if the job was there.
    Interrupted {
        /// Which.
        signal: i32,
        /// Whether the job was started.
        started: bool,
    },
    /// It was cut short, and is dead.
    Cut(Cut),
    /// It was not even started, as its time was over.
    TooLate(Cut),
    /// These processes can't be killed.
    Unkillable(Vec<i32>),
    /// The warden was killed, and with it the job.
    WardenLost {
        /// Whether the job may have been started.
        started: bool,
    },
}

/// So many processes are named.
const MOST_NAMED: usize = 100;

impl Report {
    /// What became of a run; `asked` is the signal that asked for its end, if one did.
    pub fn of(end: End, asked: Option<Fatal>) -> Report {
        match (end, asked) {
            (End::Exited(_) | End::Signaled(_), Some(asked)) => {
                Report::Interrupted { signal: asked.signal, started: true }
            }
            (End::Exited(code), None) => Report::Exited(code),
            (End::Signaled(fatal), None) => Report::Signaled(fatal.signal),
            (End::NotStarted(error), _) => Report::not_started(error),
            (End::NeverStarted(fatal), _) => Report::Interrupted { signal: fatal.signal, started: false },
            (End::Cut { why, .. }, _) => Report::Cut(why),
            (End::TooLate(why), _) => Report::TooLate(why),
            (End::Unkillable(pids), _) => {
                Report::Unkillable(pids.into_iter().map(nix::unistd::Pid::as_raw).take(MOST_NAMED).collect())
            }
            (End::WardenLost { started }, _) => Report::WardenLost { started },
        }
    }

    /// The system refused to start it.
    pub fn not_started(error: Errno) -> Report {
        Report::NotStarted(format!("can't be started: {}", error.desc()))
    }

    /// Whether the job was started, or may have been.
    pub fn was_started(&self) -> bool {
        !matches!(
            self,
            Report::NotStarted(_)
                | Report::TooLate(_)
                | Report::Interrupted { started: false, .. }
                | Report::WardenLost { started: false }
        )
    }

    /// Whether something else than the job has ended it: whoever sent the runner a signal (systemd, which stops all of a service; a
    /// shutdown), or killed the warden; or time, of which the runner was not told.
    pub fn is_a_death(&self) -> bool {
        !matches!(self, Report::Exited(_) | Report::Signaled(_) | Report::NotStarted(_))
    }

    /// Whether it did what it should, or why not.
    pub fn result(&self) -> Result<(), String> {
        let signal = |signal: &i32| signal_name(*signal);
        Err(match self {
            Report::Exited(0) => return Ok(()),
            Report::Exited(code) => format!("exit code {code}"),
            Report::Signaled(number) => format!("killed by {}", signal(number)),
            Report::NotStarted(why) => why.clone(),
            Report::Interrupted { signal: number, started: true } => format!("stopped by {}", signal(number)),
            Report::Interrupted { signal: number, started: false } => {
                format!("not started: {} came first", signal(number))
            }
            Report::Cut(why) => format!("stopped: {}", reason(*why)),
            Report::TooLate(why) => format!("not started: {}", reason(*why)),
            Report::Unkillable(pids) => {
                let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
                format!(
                    "can't kill process {}: it belongs to another user or hangs in the kernel; the lock is left to end by \
                     itself",
                    pids.join(", ")
                )
            }
            Report::WardenLost { started: true } => {
                "stopped: our process that watched over it was killed, and it was killed, too".into()
            }
            Report::WardenLost { started: false } => "not started: our process that was to start it was killed".into(),
        })
    }
}

fn reason(why: Cut) -> &'static str {
    match why {
        Cut::Deadline => "its lock was not renewed in time",
        Cut::Lost => "its lock was lost",
        Cut::MaxHold => "it took longer than its time limit",
        Cut::Stopped => "the scheduler was stopped",
    }
}

impl Tell {
    /// Says it to the runner.
    pub fn send(self, socket: &OwnedFd) -> nix::Result<()> {
        send_packet(socket, &serde_json::to_vec(&self).expect("it has no maps"))
    }

    /// What the scheduler has said. What can't be read is of none of ours, and ends the run.
    pub fn receive(socket: &OwnedFd) -> Received<Tell> {
        match receive_packet(socket) {
            Received::Packet(packet) => serde_json::from_slice(&packet).map_or(Received::Closed, Received::Packet),
            Received::Nothing => Received::Nothing,
            Received::Closed => Received::Closed,
        }
    }
}

impl Word {
    const BEGINS: &'static [u8] = b"begins";

    /// Says it to the scheduler.
    pub fn send(&self, socket: &OwnedFd) -> nix::Result<()> {
        match self {
            Word::Begins => send_packet(socket, Word::BEGINS),
            Word::Over => send_packet(socket, IS_OVER),
            Word::Ended(report) => send_packet(socket, &serde_json::to_vec(report).expect("it has no maps")),
        }
    }

    /// What was said.
    pub fn receive(socket: &OwnedFd) -> Received<Word> {
        match receive_packet(socket) {
            Received::Packet(packet) => Word::decode(&packet).map_or(Received::Closed, Received::Packet),
            Received::Nothing => Received::Nothing,
            Received::Closed => Received::Closed,
        }
    }

    fn decode(packet: &[u8]) -> Option<Word> {
        match packet {
            Word::BEGINS => Some(Word::Begins),
            IS_OVER => Some(Word::Over),
            report => serde_json::from_slice(report).ok().map(Word::Ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::pair;
    use super::*;

    #[test]
    fn every_word_survives_the_way() {
        let (ours, theirs) = pair().unwrap();
        let reports = [
            Report::Exited(3),
            Report::Signaled(11),
            Report::not_started(Errno::ENOENT),
            Report::Interrupted { signal: 15, started: true },
            Report::Cut(Cut::Stopped),
            Report::TooLate(Cut::Deadline),
            Report::Unkillable((0..100).map(|n| i32::MAX - n).collect()),
            Report::WardenLost { started: false },
        ];
        for word in [Word::Begins, Word::Over].into_iter().chain(reports.map(Word::Ended)) {
            word.send(&ours).unwrap();
            assert_eq!(Word::receive(&theirs), Received::Packet(word));
        }
        let due = Due { term_at: u64::MAX, kill_at: 7 };
        for tell in [Tell::Until(due), Tell::End(Cut::Lost), Tell::Kill(Cut::MaxHold)] {
            tell.send(&theirs).unwrap();
            assert_eq!(Tell::receive(&ours), Received::Packet(tell));
        }
    }

    #[test]
    fn how_it_ended_is_told_in_words() {
        let told = |report: Report| report.result().unwrap_err();
        assert_eq!(Report::Exited(0).result(), Ok(()));
        assert_eq!(told(Report::Exited(3)), "exit code 3");
        assert_eq!(told(Report::Signaled(libc::SIGSEGV)), "killed by SIGSEGV");
        assert_eq!(told(Report::not_started(Errno::ENOENT)), "can't be started: No such file or directory");
        assert!(told(Report::Unkillable(vec![1, 2])).starts_with("can't kill process 1, 2:"));
    }

    #[test]
    fn a_job_that_ends_politely_when_asked_has_not_done_its_work() {
        let term = Fatal { signal: libc::SIGTERM, by_terminal: false };
        let report = Report::of(End::Exited(0), Some(term));
        assert_eq!(report.result().unwrap_err(), "stopped by SIGTERM");
        assert!(report.was_started() && report.is_a_death());
        assert!(!Report::of(End::Signaled(term), None).is_a_death(), "that was the job alone");
        assert!(!Report::of(End::NeverStarted(term), Some(term)).was_started());
    }
}
