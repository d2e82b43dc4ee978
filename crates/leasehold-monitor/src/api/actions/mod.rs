//! What can be done from here, by whoever has the token: each is recorded in the store, with who did it and why.

use std::future::Future;

use axum::http::StatusCode;

use super::problem::Problem;

mod order;
mod orders;
mod revoke;

pub(super) use self::orders::{pause, resume, trigger};
pub(super) use self::revoke::revoke;

/// Does it to the end, also if whoever asked goes away meanwhile: half of it would stand in no record.
async fn to_the_end<T: Send + 'static>(
    deed: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    tokio::spawn(deed).await.unwrap_or_else(|_| {
        let (message, fix) = ("a fault of ours: it may have been done", "see how it stands");
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message, fix))
    })
}
