//! What runs where, who waits for whom, what is contended and what nearly went wrong.

mod api;
pub mod dashboard;
mod monitor;
mod snapshot;

pub use api::router;
pub use monitor::Monitor;
pub use tokio_util::sync::CancellationToken;
