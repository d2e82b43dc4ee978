//! What time it is on this node.

use std::fmt::Debug;

use jiff::Timestamp;

/// The clock on the wall: when a node thinks that a tick is due. Clocks may differ, jump and stand still: who runs a tick is
/// decided in the store.
pub trait WallClock: Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
