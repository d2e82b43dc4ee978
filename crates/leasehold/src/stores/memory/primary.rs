//! The memory store as the primary of a fallback.

use futures_util::future::BoxFuture;

use super::Memory;
use crate::error::Result;
use crate::finding::Finding;
use crate::store::{Epoch, Primary, Serving, Store};

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

    fn raise(&self, epoch: Epoch) -> BoxFuture<'_, Result<()>> {
        let raise = move || self.with_all(|contents, _| contents.watermark = contents.watermark.max(epoch));
        Box::pin(async move {
            raise();
            Ok(())
        })
    }

    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        self.diagnose()
    }
}
