//! Renewals, each in the store where its lease is.

use std::time::Duration;

use futures_util::future::join_all;

use super::shared::Shared;
use super::stores::Stores;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{LeaseKey, Renewal};
use crate::store::{Refusal, Route};
use crate::validity;

type Renewals = (LeaseKey, Duration);

impl Shared {
    /// Renews each lease under its own route: in the healthy state one request for all.
    pub async fn renew(&self, stores: &Stores, leases: &[Renewals]) -> Vec<Result<Renewal>> {
        let mut answers: Vec<_> = leases.iter().map(|_| Ok(Renewal::Gone)).collect();
        let batches = self.by_route(leases);
        let asked = batches.iter().map(|(route, places)| {
            let batch: Vec<_> = places.iter().map(|&place| leases[place].clone()).collect();
            async move { self.renew_under(stores, &batch, route).await }
        });
        let answered = join_all(asked).await;
        for ((_, places), batch) in batches.iter().zip(answered) {
            for (&place, answer) in places.iter().zip(batch) {
                answers[place] = self.told(&leases[place].0, answer);
            }
        }
        answers
    }

    /// What was revoked is told so, whatever the store of its lease says: in the other one it was.
    fn told(&self, key: &LeaseKey, answer: Result<Renewal>) -> Result<Renewal> {
        match answer {
            Ok(Renewal::Renewed) | Err(_) if self.holders().is_revoked(key.holder) => Ok(Renewal::Revoked),
            answer => answer,
        }
    }

    /// Which leases are held under which route; none that is over.
    fn by_route(&self, leases: &[Renewals]) -> Vec<(Route, Vec<usize>)> {
        let (now, mut holders) = (self.now(), self.holders());
        let mut batches: Vec<(Route, Vec<usize>)> = Vec::new();
        for (place, (key, ttl)) in leases.iter().enumerate() {
            let Some(route) = holders.wants(key.holder, *ttl, now) else { continue };
            match batches.iter_mut().find(|(known, _)| *known == route) {
                Some((_, places)) => places.push(place),
                None => batches.push((route, vec![place])),
            }
        }
        batches
    }

    pub async fn renew_under(&self, stores: &Stores, leases: &[Renewals], under: &Route) -> Vec<Result<Renewal>> {
        let sent = self.now();
        let answers = stores.tagged(&under.target).renew_under(leases, under).await;
        let heard = |((key, ttl), answer): (&Renewals, Result<Result<Renewal, Refusal>>)| {
            let answer = answer.inspect_err(|error| self.suspect(under, error))?;
            let answer = answer.map_err(|refusal| self.not_renewed(under, refusal))?;
            let until = validity::until(sent, *ttl);
            self.holders().renewed(key.holder, under, until, answer, self.now())
        };
        leases.iter().zip(answers).map(heard).collect()
    }

    /// The lease may live on where it was, and go along with the route: it is not gone.
    fn not_renewed(&self, under: &Route, refusal: Refusal) -> Error {
        let refused = self.refused(under, refusal);
        Error::new(ErrorKind::Unavailable, refused.to_string())
    }
}
