//! `/revoke`: an operator ends somebody else's hold.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use leasehold::{HolderId, Holding, LockName, Revoke as How};
use serde::{Deserialize, Serialize};

use super::order::{Order, Signed, Terms};
use super::to_the_end;
use crate::api::Served;
use crate::api::locks::Lock;
use crate::api::problem::Problem;
use crate::snapshot::revocation::Revocation;

#[derive(Deserialize)]
pub(in crate::api) struct Revoke {
    name: String,
    holder: Option<String>,
    #[serde(default)]
    now: bool,
    #[serde(flatten)]
    signed: Signed,
}

impl Terms for Revoke {
    const FIELDS: &'static [&'static str] = &["name", "holder", "now"];
}

#[derive(Serialize)]
pub(in crate::api) struct Revoked {
    /// `revoked` (the holder is to stop; until it has, the lock is held), `freed`, or `nothing` (nobody held it).
    done: &'static str,
    /// How the lock stood before.
    before: Option<Lock>,
}

pub(in crate::api) async fn revoke(
    State(served): State<Arc<Served>>,
    Order(Revoke { name, holder, now, signed }): Order<Revoke>,
) -> Result<Json<Revoked>, Problem> {
    let (name, signed) = signed.about("name", &name)?;
    let whose = |text: String| {
        HolderId::parse(&text).ok_or_else(|| Problem::bad(format!("holder={text:?} is no id of a holder")))
    };
    let holder = holder.map(whose).transpose()?;
    let deed = Deed { name, holder, how: if now { How::Now } else { How::Gently }, signed };
    to_the_end(async move { deed.done(&served).await.map(Json) }).await
}

/// Whose hold of what is ended, how, and by whom.
struct Deed {
    name: LockName,
    holder: Option<HolderId>,
    how: How,
    signed: Signed,
}

impl Deed {
    async fn done(self, served: &Arc<Served>) -> Result<Revoked, Problem> {
        let locks = served.snapshot.locks();
        locks.notes().map_err(|error| self.cannot_be_recorded(&error))?;
        let found = locks.inspect(self.name.as_str()).await?;
        let Some(found) = found.filter(|found| self.meets(found)) else {
            return Ok(Revoked { done: "nothing", before: None });
        };
        if found.holder.is_none() && self.how == How::Gently {
            let message = format!("nobody holds {}: it is kept, and there is nobody who could be told", self.name);
            return Err(Problem::new(StatusCode::CONFLICT, "nobody_holds_it", message, "say now: true to free it"));
        }
        // Before it is done: what can't be recorded is not done.
        let (id, record) = (HolderId::fresh(), self.record(served, &found).await?);
        record.write(locks, &self.name, id).await?;
        let before = match self.holder {
            Some(holder) => locks.revoke_one(self.name.as_str(), holder, self.how).await,
            None => locks.revoke(self.name.as_str(), self.how).await,
        };
        let done = match (&before, self.how) {
            (Ok(None), _) => "nothing",
            (Ok(Some(_)), How::Gently) => "revoked",
            (Ok(Some(_)), How::Now) => "freed",
            (Err(_), _) => "failed",
        };
        let outcome = before.as_ref().map_or_else(|error| format!("failed: {error}"), |_| done.to_owned());
        // That it was asked for stands there in any case.
        let _ = Revocation { outcome, ..record }.write(locks, &self.name, id).await;
        served.snapshot.has_acted(&self.name);
        Ok(Revoked { done, before: before?.as_ref().map(Lock::of) })
    }

    /// Whether there is anything of it to be ended.
    fn meets(&self, found: &Holding) -> bool {
        match self.holder {
            Some(holder) => crate::snapshot::listing::holders(found).any(|one| one == holder),
            None => found.holder.is_some() || !found.remaining.is_zero(),
        }
    }

    async fn record(&self, served: &Arc<Served>, found: &Holding) -> Result<Revocation, Problem> {
        let others = found.others.iter().map(|other| (other.holder, &other.label));
        let mut all = std::iter::once((found.holder, &found.label)).chain(others);
        let whose = |(holder, _): &(Option<HolderId>, &String)| self.holder.is_none() || *holder == self.holder;
        Ok(Revocation {
            at: served.snapshot.now().await?,
            by: self.signed.by.clone(),
            why: self.signed.why.clone(),
            now: self.how == How::Now,
            holder: self.holder.map(|holder| holder.to_string()),
            label: all.find(whose).map(|(_, label)| label.clone()),
            outcome: "asked".into(),
        })
    }

    fn cannot_be_recorded(&self, error: &leasehold::Error) -> Problem {
        let message = format!("{error}: who ended the hold of {} and why could not be recorded", self.name);
        Problem::new(StatusCode::CONFLICT, "not_recordable", message, "use `leasehold release`")
    }
}
