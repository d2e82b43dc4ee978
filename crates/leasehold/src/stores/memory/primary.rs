//! The memory store as the primary of a fallback.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Memory, Sighting};
use crate::error::Result;
use crate::finding::Finding;
use crate::store::{Epoch, Primary, Reached, Serving, Store};

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

    fn reached(&self, epoch: Epoch, anew: bool, longest: Duration) -> BoxFuture<'_, Result<Reached>> {
        let look = move || {
            self.with_all(|contents, now| {
                let route = (epoch, contents.incarnation());
                let known = contents.reached.take().filter(|known| known.route == route && !anew);
                let (span, last) = known.map_or((Duration::ZERO, now), |known| (known.span, known.last));
                let unseen = now.since(last);
                // Where nobody has looked for so long, nobody knows.
                let span = span + if unseen > longest { longest / 2 } else { unseen };
                contents.reached = Some(Sighting { route, span, last: now });
                Reached { span, unseen }
            })
        };
        Box::pin(async move { Ok(look()) })
    }

    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        self.diagnose()
    }
}
