//! The nursery: how a scheduler, which has threads and must not fork, runs commands as `leasehold run` does.
//!
//! ```text
//! scheduler              threads, runtime, store, keeper
//! └─ nursery             single-threaded, in a session of its own; forked before any thread
//!    ├─ runner           one for each run: to the warden it is what `run` is
//!    │  └─ warden        see [`warden`](crate::warden)
//!    │     └─ job        and everything that it forks
//!    └─ runner …
//! ```
//!
//! - For each run the scheduler makes a pair of sockets and sends one end to the **nursery**, along with the [`Order`] and
//!   the job's stdin, stdout and stderr. The nursery forks a **runner** and is done with it.
//! - The **runner** hears from the scheduler until when the lease is good, at the start and after each renewal, and whether
//!   to end early ([`Tell`]); it says how the job ended ([`Report`]). A scheduler that is stopped, hangs or starves says
//!   nothing, so the warden ends the job in time; one that dies closes the socket, and the job is killed.
//!
//! Who dies, and what becomes of the job:
//!
//! | killed | the job | the scheduler learns |
//! |---|---|---|
//! | scheduler | is killed by its runner | - |
//! | nursery | goes on: its runner needs no nursery | that nothing can be started any more |
//! | runner | is killed by its warden | from the warden's own last word, that nobody is left |
//! | warden | is killed by its runner | from the report |
//! | runner and warden at once | its direct child is killed by the kernel | nothing: the lease is left to end by itself |

mod flight;
mod handle;
mod order;
mod packet;
mod process;
mod runner;
#[cfg(test)]
mod tests;
mod watched;
mod word;

pub use flight::Outcome;
pub use handle::{Launch, Nursery};
pub use order::Order;
pub use watched::Watched;
pub use word::{Report, Tell};
