//! Where sessions live.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};

/// A thread with a runtime of its own, from the first use until this is dropped: what is sent over a session, and
/// whether it still is one, must not wait for a runtime that a job blocks.
#[derive(Default)]
pub(super) struct Home {
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    /// In which process: a fork has no copy of it.
    process: u32,
    handle: Handle,
    _until_dropped: oneshot::Sender<()>,
}

impl Home {
    pub fn handle(&self) -> Result<Handle> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        match &*thread {
            Some(thread) if thread.process == std::process::id() => return Ok(thread.handle.clone()),
            Some(_) => {
                let forked = "this process is a fork of the one that opened the store, whose sessions are not its own; \
                              open it after the fork";
                return Err(Error::new(ErrorKind::Closed, forked));
            }
            None => {}
        }
        let started = Thread::start().map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the thread of the sessions can't be started: {error}"))
                .with_source(error)
        })?;
        Ok(thread.insert(started).handle.clone())
    }
}

impl Thread {
    fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (until_dropped, dropped) = oneshot::channel::<()>();
        let live = move || {
            let _ = runtime.block_on(dropped); // An error: it is over.
        };
        std::thread::Builder::new().name("leasehold-sessions".into()).spawn(live)?;
        Ok(Self { process: std::process::id(), handle, _until_dropped: until_dropped })
    }
}
