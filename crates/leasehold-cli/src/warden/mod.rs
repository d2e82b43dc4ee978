//! The warden: how `leasehold run NAME -- CMD…` keeps a job inside its lease, whatever happens to us.
//!
//! Three processes, each the parent of the next:
//!
//! ```text
//! shell, cron … ── wrapper     the process that the caller sees: store, keeper, runtime
//!                  └─ warden   single-threaded, in a process group of its own; forked before any thread
//!                     └─ job   and everything that it forks: orphans come back to the warden
//! ```
//!
//! - The **wrapper** writes two instants into a page of shared memory ([`Deadlines`]): when the job is told to
//!   end, and when it is killed. A renewal is a store to that page and nothing else.
//! - The **warden** holds the job to these instants. It needs nothing of the wrapper for that, so a wrapper that is
//!   stopped, hangs or starves can't let its job outlive the lease; and one that dies takes the job along.
//! - With `--forever` one warden serves one run after another. The page is cleared in between: a deadline is always one
//!   of the hold under which a job runs.
//! - Should the *warden* die, its descendants fall to the wrapper, which kills them. Should it be stopped, the
//!   wrapper continues it.
//!
//! What the rest of the command does:
//!
//! ```text
//! let found = Found::read()?;                                  // first thing in `main`, before anything blocks
//! let mut warden = Warden::fork(found, argv, options)?;        // before any thread or runtime exists
//! let deadlines = warden.deadlines();                          // for the keeper's thread
//! // … build the runtime, open the store, and while the lock is held by another:
//! tokio::select! {
//!     granted = acquire() => …,
//!     fatal = warden.stop_requested() => { leave(); fatal.exit() }
//! }
//! deadlines.set(term_at, kill_at);                             // before `run`, and again at each renewal
//! let end = warden.run(&env, &remove).await;                   // the job and (where ordered) its tree are gone
//! release().await;
//! ```
//!
//! Read [`supervise`] for the wrapper's side, [`inside`] and [`watch`] for the warden's.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "`leasehold run` needs Linux: no other system hands a dead job's orphans to a subreaper, and without one a job could outlive its lease unseen"
);

mod end;
mod found;
mod inside;
mod job;
mod message;
mod page;
mod reserve;
mod sources;
mod supervise;
pub(crate) mod sys;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod watch;

pub use end::{Cut, End, Fatal, Status, signal_name};
pub use found::Found;
pub use page::{Deadlines, Due};
pub use reserve::Reserve;
pub use supervise::{IS_OVER, Options, Warden};
