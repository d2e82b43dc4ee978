//! A descriptor that the runtime watches.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// To be read by whoever has it, and then waited for.
#[derive(Debug)]
pub struct Watched(AsyncFd<Arc<OwnedFd>>);

impl Watched {
    /// Has the runtime of this task watch it. It must not block when it is read.
    pub fn new(descriptor: Arc<OwnedFd>) -> io::Result<Self> {
        // SAFETY: what is registered holds the descriptor open, and never puts another in its place.
        #[expect(unsafe_code, reason = "tokio can't know that the descriptor stays the same")]
        let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        Ok(Self(watched?))
    }

    /// The descriptor.
    pub fn get(&self) -> &Arc<OwnedFd> {
        self.0.get_ref()
    }

    /// Resolves when there may be something to read, since it was last found to have nothing.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn readable(&self) {
        match self.0.readable().await {
            Ok(mut ready) => ready.clear_ready(),
            Err(_) => pending().await, // the runtime ends
        }
    }
}
