//! Layers: stores that wrap a store.

mod timeout;
#[cfg(feature = "traced")]
mod traced;

pub use timeout::Timeout;
#[cfg(feature = "traced")]
pub use traced::Traced;
