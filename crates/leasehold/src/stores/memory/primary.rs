//! The memory store as the primary of a fallback.

use std::time::Duration;

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

    fn reached(&self, epoch: Epoch, anew: bool) -> BoxFuture<'_, Result<Duration>> {
        let look = move || {
            self.with_all(|contents, now| {
                let route = (epoch, contents.incarnation());
                let known = contents.reached.take().filter(|(known, _)| *known == route && !anew);
                let (_, since) = contents.reached.insert(known.unwrap_or((route, now)));
                now.since(*since)
            })
        };
        Box::pin(async move { Ok(look()) })
    }

    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        self.diagnose()
    }
}
