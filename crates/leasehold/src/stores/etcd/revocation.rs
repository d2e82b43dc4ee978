//! How an operator ends somebody else's hold.

use std::time::Duration;

use super::Core;
use super::calls::Limit;
use super::txn::Txn;
use super::value::{State, Value};
use super::view::{Contender, View};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{HolderId, Holding, Revoke};
use crate::name::LockName;

/// How often it is tried anew since the holder came in between.
const TRIES: usize = 20;

/// How long before the key is hung on it a lease may have been granted: a call that takes longer is given up.
pub(super) const UNDER_WAY: Duration = Duration::from_secs(4);

impl Core {
    pub(super) async fn revoke(
        &self,
        name: &LockName,
        whose: Option<HolderId>,
        how: Revoke,
    ) -> Result<Option<Holding>> {
        for _ in 0..TRIES {
            let view = self.view(name).await?;
            let meant = self.meant(&view, whose);
            if meant.is_empty() {
                return Ok(None);
            }
            let rests = self.rests_of(&meant).await?;
            let shown = meant.iter().map(|holder| self.holder(holder, &rests)).collect();
            let holding =
                Holding { waiting: view.waiters().count() as u64, ..Holding::of(name.clone(), view.permits(), shown) };
            let mut txn = Txn::default();
            for holder in &meant {
                let granted = rests.get(&holder.lease).map_or(Duration::ZERO, |rest| rest.granted);
                txn = match how {
                    Revoke::Now => txn.if_created_at(&holder.key, holder.created).delete(&holder.key),
                    Revoke::Gently => self.revoked_gently(txn, holder, granted).await?,
                };
            }
            if self.members.change(Limit::LONGEST, txn).await.map_err(|fault| self.told(fault))?.held {
                if how == Revoke::Now {
                    meant.iter().for_each(|holder| self.shared.ours.forget(&holder.key));
                }
                return Ok(Some(holding));
            }
        }
        let busy = format!("{}: the holders of {name} change so often that none is hit", self.options.shown);
        Err(Error::new(ErrorKind::Unavailable, busy))
    }

    fn meant(&self, view: &View, whose: Option<HolderId>) -> Vec<Contender> {
        let is_meant = |holder: &&Contender| match whose {
            None => true,
            Some(whose) if holder.is_foreign() => HolderId::foreign(&holder.key) == whose,
            Some(whose) => holder.holder == Some(whose) && holder.is_held(),
        };
        view.holders().filter(is_meant).cloned().collect()
    }

    /// It hangs on a lease of its own from here on, which nobody prolongs: no renewal reaches it. It lasts as long as one
    /// that was renewed at the last moment before.
    async fn revoked_gently(&self, txn: Txn, holder: &Contender, granted: Duration) -> Result<Txn> {
        let Some(value) = &holder.value else {
            let message = format!(
                "{} is held by {}, which has no way of being told; --now deletes its key, and two may run then",
                self.options.shown,
                holder.shown_key()
            );
            return Err(Error::invalid(message));
        };
        if value.state != State::Held {
            return Ok(txn.if_modified_at(&holder.key, holder.modified));
        }
        let lease = self.members.grant(Limit::LONGEST, (granted + UNDER_WAY).as_secs()).await;
        let lease = lease.map_err(|fault| self.told(fault.surely()))?;
        let value = Value { state: State::Revoked, ..value.clone() };
        Ok(txn.if_modified_at(&holder.key, holder.modified).put(&holder.key, value.text(), lease))
    }
}
