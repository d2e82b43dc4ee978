//! How `run` ends.

use leasehold::{ErrorKind, Holding};
use serde::Serialize;

use super::teller::who_has;
use crate::exit::{self, Failure, code_of};
use crate::warden::{Fatal, Status};

/// How it ended: what it exits with, what it says last, and what stands in its report.
#[derive(Debug)]
pub struct Ending {
    /// Ours; how the job ended stands apart.
    pub outcome: Outcome,
    /// Why, for people; nothing where the job ended by itself and under the lock.
    pub reason: Option<String>,
    /// How the job ended, if it ran and as far as it is known.
    pub job: Option<Status>,
    exit: Exit,
    message: Option<String>,
}

/// What came of it. The words are a promise to scripts: some may be added, none goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has not ended; or it was killed before it could say how.
    Running,
    /// The job ended by itself.
    Done,
    /// Another holds the lock, or did for as long as we would wait. The job was not run.
    Held,
    /// What it is for has had its run before. The job was not run.
    Skipped,
    /// The lock was lost, or `--max-hold` was over. The job was stopped; or it had ended by itself before that was known.
    Lost,
    /// A signal asked us to stop: before there was a job, or it was handed on to the job.
    Interrupted,
    /// The job's program could not be started.
    NotStarted,
    /// The store could not be reached, did not answer or refused to write.
    Unavailable,
    /// Anything else: access denied, a wrong set-up, a fault of ours.
    Failed,
}

impl Outcome {
    /// As it stands in a report.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Held => "held",
            Self::Skipped => "skipped",
            Self::Lost => "lost",
            Self::Interrupted => "interrupted",
            Self::NotStarted => "not_started",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Exit {
    Code(i32),
    By(Fatal),
}

impl Ending {
    fn new(outcome: Outcome, code: i32) -> Self {
        Self { outcome, reason: None, job: None, exit: Exit::Code(code), message: None }
    }

    /// The job ended by itself.
    pub fn done(code: i32) -> Self {
        Self { job: Some(Status::Exited(code)), ..Self::new(Outcome::Done, code) }
    }

    /// A signal ended the job.
    pub fn signaled(fatal: Fatal) -> Self {
        let job = Some(Status::Signaled(fatal.signal));
        Self { job, exit: Exit::By(fatal), ..Self::new(Outcome::Done, fatal.code()) }
    }

    /// Another holds the lock.
    pub fn held(holding: &Holding, code: i32) -> Self {
        Self { reason: Some(format!("{}: {}", holding.name, who_has(holding))), ..Self::new(Outcome::Held, code) }
    }

    /// This run, or this piece of work, has been done before.
    pub fn skipped(reason: String) -> Self {
        Self { reason: Some(reason), ..Self::new(Outcome::Skipped, exit::OK) }
    }

    /// The lock was lost. `message` is told, `reason` is the part of it that says why.
    pub fn lost(reason: String, message: String, job: Option<Status>) -> Self {
        Self { reason: Some(reason), message: Some(message), job, ..Self::new(Outcome::Lost, exit::LOST) }
    }

    /// The same, of a job that ended by itself; but the lock was lost by then.
    #[must_use]
    pub fn without_the_lock(self, reason: String) -> Self {
        Self { outcome: Outcome::Lost, reason: Some(reason), ..self }
    }

    /// A signal asked us to stop, and there is no job.
    pub fn interrupted(fatal: Fatal) -> Self {
        let ending = Self::new(Outcome::Interrupted, fatal.code());
        Self { reason: Some(format!("{} while no job ran", fatal.name())), exit: Exit::By(fatal), ..ending }
    }

    /// The program could not be started.
    pub fn not_started(code: i32, message: String) -> Self {
        Self { reason: Some(message.clone()), message: Some(message), ..Self::new(Outcome::NotStarted, code) }
    }

    /// It could not be done.
    pub fn failed(failure: Failure) -> Self {
        let outcome =
            if failure.code == code_of(ErrorKind::Unavailable) { Outcome::Unavailable } else { Outcome::Failed };
        let reason = Some(failure.message.clone());
        Self { reason, message: Some(failure.message), ..Self::new(outcome, failure.code) }
    }

    /// The same; but if the job ended after a signal had told it to, it did not end by itself.
    #[must_use]
    pub fn after(self, asked: Option<Fatal>) -> Self {
        let by_terminal = matches!(self.exit, Exit::By(fatal) if fatal.by_terminal);
        match asked {
            // What the terminal sends a job may be meant for something else, as Ctrl-C in a REPL is.
            Some(fatal) if self.outcome == Outcome::Done && (!fatal.by_terminal || by_terminal) => {
                let reason = Some(format!("{} was handed on to the job", fatal.name()));
                Self { outcome: Outcome::Interrupted, reason, ..self }
            }
            _ => self,
        }
    }

    /// The exit code.
    pub fn code(&self) -> i32 {
        match self.exit {
            Exit::Code(code) => code,
            Exit::By(fatal) => fatal.code(),
        }
    }

    /// What is to be told at the end.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Ends the verb, or this process where a signal is to end it.
    ///
    /// # Errors
    /// What is to be told, and the code.
    pub fn exit(self) -> Result<i32, Failure> {
        match (self.exit, self.message) {
            (Exit::By(fatal), _) => fatal.exit(),
            (Exit::Code(code), Some(message)) => Err(Failure::new(code, message)),
            (Exit::Code(code), None) => Ok(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_has_one_word_everywhere() {
        use Outcome::*;
        for outcome in [Running, Done, Held, Skipped, Lost, Interrupted, NotStarted, Unavailable, Failed] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.word());
        }
    }
}
