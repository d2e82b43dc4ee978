//! The memory store as the primary of a fallback.

use futures_util::future::BoxFuture;

use super::Memory;
use crate::error::Result;
use crate::store::{Primary, Serving};

impl Primary for Memory {
    fn identity(&self) -> String {
        "memory".into()
    }

    fn serves(&self) -> BoxFuture<'_, Result<Serving>> {
        let look = || {
            self.with_all(|contents, _| Serving { incarnation: contents.incarnation(), watermark: contents.watermark })
        };
        Box::pin(async move { Ok(look()) })
    }
}
