//! Distributed locks for background jobs.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod blocking;
mod error;
mod event;
mod finding;
mod guard;
mod hold;
mod keeper;
pub mod layers;
mod lease;
mod lock;
mod locks;
mod name;
pub mod store;
pub mod stores;
pub mod validity;
mod wait;

pub use error::{Applied, Error, ErrorKind, Result};
pub use event::{Event, Observer};
pub use finding::{Finding, Severity};
pub use guard::{Guard, LossReason, Released};
pub use lease::{
    Attempt, Claim, Ended, FencingToken, Grant, HolderId, Holding, LeaseKey, Place, Release, Renewal, Revoke,
};
pub use lock::{Lock, Outcome, Ran, Wait};
pub use locks::{Locks, LocksBuilder};
pub use name::{LockName, Namespace};
pub use store::Store;
