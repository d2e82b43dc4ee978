//! Marks that an operator has forgotten.
//!
//! A majority is not enough here: a mark that one member keeps comes back with any majority that contains it, and with each
//! member that adopts it. And what was read before must not be adopted after: ticks are adopted by a member that is not full
//! for the name, once, and in the life that was meant. So all are full when they forget, and none lives another life then.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::refill::Lives;
use super::round::Round;
use super::{Inner, LIMIT};
use crate::error::{Error, ErrorKind, Result};
use crate::name::LockName;

impl Inner {
    pub(super) async fn reset_marks(self: &Arc<Self>, name: &LockName) -> Result<bool> {
        let before = self.lives_of_all(name).await?;
        let had_a_mark = self.have_all_forget(name).await?;
        let after = self.lives_of_all(name).await.map_err(Error::maybe_applied)?;
        if after == before {
            return Ok(had_a_mark);
        }
        let message =
            format!("a member was restarted while the marks of {name} were forgotten, and may know them; {AGAIN}");
        Err(Error::new(ErrorKind::Unavailable, message).maybe_applied())
    }

    /// In which life each member is, all of them being full for the name. Those that came back empty are filled first.
    async fn lives_of_all(self: &Arc<Self>, name: &LockName) -> Result<Lives> {
        let mut recalled = self.recall(name, LIMIT).await;
        self.check_members()?;
        let empty: Vec<_> =
            recalled.answers.iter().filter(|(_, memories)| !memories.is_full).map(|(member, _)| *member).collect();
        if recalled.failed.is_empty() && !empty.is_empty() {
            self.refill(name, &empty, LIMIT).await?;
            recalled = self.recall(name, LIMIT).await;
        }
        if !recalled.failed.is_empty() {
            return Err(self.not_by_all(name, &recalled.failed));
        }
        if !recalled.answers.iter().all(|(_, memories)| memories.is_full) {
            let message =
                format!("not all members know what there is to know of {name}, and may learn it later; {AGAIN}");
            return Err(Error::new(ErrorKind::Unavailable, message).passes());
        }
        let mut lives: Lives = recalled.answers.into_iter().map(|(member, memories)| (member, memories.life)).collect();
        lives.sort_unstable();
        Ok(lives)
    }

    async fn have_all_forget(&self, name: &LockName) -> Result<bool> {
        let forget = |member: usize| -> (usize, BoxFuture<'_, Result<bool>>) {
            (member, self.nodes[member].store.reset_marks(name))
        };
        let answers = Round::send((0..self.nodes.len()).map(forget), LIMIT).await.rest().await;
        let (mut had_a_mark, mut failed) = (false, Vec::new());
        for (member, answer) in answers {
            match answer {
                Ok(had_one) => had_a_mark |= had_one,
                Err(error) => failed.push((member, error)),
            }
        }
        if failed.is_empty() { Ok(had_a_mark) } else { Err(self.not_by_all(name, &failed).maybe_applied()) }
    }

    fn not_by_all(&self, name: &LockName, failed: &[(usize, Error)]) -> Error {
        let why = self.outage(failed);
        let message = format!("the marks of {name} are forgotten by all members or come back, and {why}; {AGAIN}");
        Error::new(why.kind(), message)
    }
}

/// Whoever reads this has begun, perhaps.
const AGAIN: &str = "have them forgotten again once all members answer: that does no harm";
