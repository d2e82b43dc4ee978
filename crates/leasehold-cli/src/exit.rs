//! What `leasehold` exits with: the one table, and who ends up where in it.
//!
//! Beside these, `run` exits with its job's own code, or 128 + n where signal n ended the job.

use leasehold::ErrorKind;

/// Done. For `run`: the job ran and exited with 0.
pub const OK: i32 = 0;
/// The run that `trigger --wait` waited for has failed.
pub const FAILED: i32 = 1;
/// The command line is wrong (`EX_USAGE`). Nothing was started.
pub const USAGE: i32 = 64;
/// The store can't be reached, does not answer or refuses to write (`EX_UNAVAILABLE`).
pub const UNAVAILABLE: i32 = 69;
/// A fault of ours (`EX_SOFTWARE`).
pub const FAULT: i32 = 70;
/// Somebody else holds the lock, or `--wait` ran out (`EX_TEMPFAIL`). `--held-exit-code` changes it for `run`.
pub const HELD: i32 = 75;
/// The lock was lost, or `--max-hold` was over, before the job had ended; the job was stopped.
pub const LOST: i32 = 76;
/// The store or its file denies access, or the machine an address to listen at (`EX_NOPERM`).
pub const DENIED: i32 = 77;
/// A file, an environment variable, or the set-up of the machine (an address that is taken) or of the store is wrong (`EX_CONFIG`). `doctor`: it found a problem;
/// warnings alone exit with 0, since the store works.
pub const CONFIG: i32 = 78;
/// The job's program is there and can't be started, as in a shell.
pub const CANNOT_START: i32 = 126;
/// There is no such program, as in a shell.
pub const NOT_FOUND: i32 = 127;

const MEANINGS: [(i32, &str); 9] = [
    (USAGE, "the command line is wrong"),
    (UNAVAILABLE, "the store can't be reached or refuses to write"),
    (FAULT, "a fault of leasehold itself"),
    (HELD, "another holds the lock, or --wait ran out (see --held-exit-code)"),
    (LOST, "the lock was lost, or --max-hold was over: the job was stopped"),
    (DENIED, "the store, its file or the machine denies access"),
    (CONFIG, "a file, a variable, the machine's or the store's set-up is wrong"),
    (CANNOT_START, "the job's program can't be started"),
    (NOT_FOUND, "there is no such program"),
];

/// The table for people, as `run --help` and the manual show it.
pub fn table() -> String {
    let start = "Exit codes:\n  0-255  the job's own\n  128+n  signal n ended the job".to_owned();
    MEANINGS.iter().fold(start, |table, (code, meaning)| format!("{table}\n  {code:<6} {meaning}"))
}

/// Why a verb could not do its work: a line for people and the code to exit with.
#[derive(Debug)]
pub struct Failure {
    /// What to exit with.
    pub code: i32,
    /// What to tell: one line, without `leasehold: ` in front.
    pub message: String,
}

impl Failure {
    /// A failure of this code.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<leasehold::Error> for Failure {
    fn from(error: leasehold::Error) -> Self {
        Self::new(code_of(error.kind()), error.to_string())
    }
}

/// The code for a failure of the library.
///
/// `Invalid` means the command line here; [`Config::blame`](crate::config::Config::blame) knows better where the
/// value came from a file or the environment.
pub fn code_of(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::Invalid => USAGE,
        ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::Refused => UNAVAILABLE,
        ErrorKind::AccessDenied => DENIED,
        ErrorKind::Misconfigured => CONFIG,
        // `Closed`, `Internal`, and what a later library may add.
        _ => FAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_code() {
        use ErrorKind::*;
        let codes =
            [Invalid, Unavailable, TimedOut, AccessDenied, Misconfigured, Refused, Closed, Internal].map(code_of);
        assert_eq!(codes, [64, 69, 69, 77, 78, 69, 70, 70]);
    }
}
