//! How an operator has forgotten which ticks of a lock were claimed.

use super::Core;
use super::calls::Limit;
use super::fault::Fault;
use super::txn::{Txn, one};
use super::view::Marked;
use crate::error::{Error, ErrorKind, Result};
use crate::name::LockName;

/// How often it is tried anew since a tick was claimed or ended in between.
const TRIES: usize = 100;

impl Core {
    pub(super) async fn reset_marks(&self, name: &LockName) -> Result<bool> {
        self.options.keys.admit(name)?;
        for _ in 0..TRIES {
            if let Some(had_a_mark) = self.reset_once(name).await.map_err(|fault| self.told(fault))? {
                return Ok(had_a_mark);
            }
        }
        let crowd = format!("{}: so much is said of the ticks of {name} that nothing gets through", self.options.shown);
        Err(Error::new(ErrorKind::Unavailable, crowd))
    }

    /// Nothing if others have come in between.
    async fn reset_once(&self, name: &LockName) -> Result<Option<bool>, Fault> {
        let key = self.options.keys.ticks(name);
        let found = self.members.read(Limit::LONGEST, Txn::default().look([one(&key)])).await?.key(0);
        let Some(found) = found else { return Ok(Some(false)) };
        let txn = Txn::default().if_modified_at(&key, found.mod_revision).delete(&key);
        if !self.members.change(Limit::LONGEST, txn).await?.held {
            return Ok(None);
        }
        let lease = found.lease;
        if Marked::read(Some(found)).is_ok() {
            // Nothing else hangs on it. Left over it would end by itself, if late.
            let _ = self.members.revoke_lease(lease).await;
        }
        Ok(Some(true))
    }
}
