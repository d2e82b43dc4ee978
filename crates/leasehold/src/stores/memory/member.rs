//! The memory store as a member of a quorum; and how it is restarted, for tests of that.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Entry, Memory};
use crate::error::{Error, ErrorKind, Result};
use crate::flaw::{self, Flaw};
use crate::lease::{Ended, FencingToken, HolderId, LeaseKey, Release};
use crate::member::{Identity, Member, Memories, Ratified};
use crate::name::LockName;
use crate::span::Span;
use crate::tick::{Due, NotDue, Standing, Tick, Verdict};
use crate::validity::Moment;

/// What became of the store's contents since it is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Life {
    /// How often it was restarted.
    restarts: u32,
    /// Until when nothing is granted.
    guarded_until: Moment,
    /// Whether it was restarted and has not been founded anew since.
    is_empty: bool,
    /// Ticks up to here count as claimed, also of names that it does not know.
    floor: Option<Tick>,
}

impl Life {
    /// An error while the restart guard lasts.
    pub fn check_grants(&self, now: Moment) -> Result<()> {
        let left = self.guarded_until.since(now);
        if left.is_zero() {
            return Ok(());
        }
        let message = format!("it was restarted, and grants nothing for another {}", Span(left));
        Err(Error::new(ErrorKind::Unavailable, message).passes())
    }

    /// Tokens are above this: once it was founded anew, above all that the forgotten ones can have come to in time.
    pub fn least_token(&self) -> u64 {
        self.floor.map_or(0, |floor| floor.as_unix_millis().unsigned_abs() << 4)
    }

    fn check_adopts(&self, now: Moment) -> Result<()> {
        if flaw::has(Flaw::AdoptedUnderGuard) { Ok(()) } else { self.check_grants(now) }
    }
}

impl Memory {
    /// Restarts it as a server without its data is restarted: everything is forgotten, and for `guard` nothing is
    /// granted. As long as the largest TTL if it is a member of a quorum.
    pub fn restart(&self, guard: Duration) {
        self.with_all(|contents, now| {
            contents.names.clear();
            let life = &mut contents.life;
            *life = Life { restarts: life.restarts + 1, guarded_until: now + guard, is_empty: true, floor: None };
        });
    }

    /// Sets its wall clock, by which ticks are judged.
    pub fn set_time(&self, since_1970: Duration) {
        self.with_all(|contents, now| {
            contents.clocks_zero = since_1970.saturating_sub(now.since(Moment::from_nanos(0)));
        });
    }
}

impl Entry {
    fn ratify(&mut self, holder: HolderId, token: FencingToken, due: Option<Due>, at: &Ratifying<'_>) -> Ratified {
        if self.lease_of(holder, at.now).is_none() {
            return Ratified::Gone;
        }
        if !self.is_full(at.life) {
            return Ratified::NotFull;
        }
        let (attempt, gave_up) = match due.map(|due| self.claim_tick(holder, due, at)) {
            None => (0, None),
            Some(Ok(claimed)) => claimed,
            Some(Err(why)) => return Ratified::NotDue(why),
        };
        let own = self.token;
        let lease = self.lease_of(holder, at.now).expect("it was there");
        lease.token = lease.token.max(token);
        let token = lease.token;
        self.token = own.max(token.number());
        Ratified::Yes { token, attempt, gave_up }
    }

    fn claim_tick(&mut self, holder: HolderId, due: Due, at: &Ratifying<'_>) -> Result<(u32, Option<Tick>), NotDue> {
        if let Some(own) = self.marks.open.get(&due.tick).filter(|open| open.holder == Some(holder)) {
            return Ok((own.attempts, None));
        }
        self.rise_to_the_floor(due.tick, at.life);
        match self.standing(due, at.now, at.utc) {
            Standing::Over(why) if !flaw::has(Flaw::MarksAreNotCompared) => Err(why),
            _ => Ok(self.marks.claim(holder, due)),
        }
    }

    /// Where the store was founded anew. A name that was adopted since its restart has forgotten nothing, and a key's only
    /// run has no time that could be compared.
    fn rise_to_the_floor(&mut self, tick: Tick, life: &Life) {
        if tick != Tick::ONLY {
            self.marks.newest = self.newest(life);
        }
    }

    fn newest(&self, life: &Life) -> Option<Tick> {
        if self.is_adopted { self.marks.newest } else { self.marks.newest.max(life.floor) }
    }

    fn is_full(&self, life: &Life) -> bool {
        !life.is_empty || self.is_adopted || flaw::has(Flaw::EmptyIsFull)
    }

    fn conclude(&mut self, holder: HolderId, how: Ended, now: Moment) -> Release {
        if let Some(Verdict::Done(tick)) = how.verdict {
            self.marks.newest = self.marks.newest.max(Some(tick));
        }
        self.release(holder, how, now)
    }

    fn adopt(&mut self, memories: &Memories) {
        self.is_adopted = true;
        self.token = self.token.max(memories.token.number());
        self.marks.newest = self.marks.newest.max(memories.newest);
        for (tick, open) in &memories.open {
            let own = self.marks.open.entry(*tick).or_insert(*open);
            if own.attempts < open.attempts {
                *own = *open;
            }
        }
    }
}

/// When and where something is ratified.
struct Ratifying<'a> {
    now: Moment,
    utc: Duration,
    life: &'a Life,
}

#[deny(clippy::missing_trait_methods)]
impl Member for Memory {
    fn ratify<'a>(
        &'a self,
        lease: &'a LeaseKey,
        token: FencingToken,
        due: Option<Due>,
    ) -> BoxFuture<'a, Result<Ratified>> {
        Box::pin(async move {
            Ok(self.with_all(|contents, now| {
                let utc = contents.utc(now);
                let entry = contents.names.entry(lease.name.clone()).or_default();
                entry.ratify(lease.holder, token, due, &Ratifying { now, utc, life: &contents.life })
            }))
        })
    }

    fn conclude<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move { Ok(self.with(&lease.name, |entry, now| entry.conclude(lease.holder, how, now))) })
    }

    fn recall<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Memories>> {
        Box::pin(async move {
            Ok(self.with_all(|contents, now| {
                let clock = contents.utc(now);
                let entry = contents.names.entry(name.clone()).or_default();
                Memories {
                    is_full: entry.is_full(&contents.life),
                    token: FencingToken::new(entry.token),
                    newest: entry.newest(&contents.life),
                    open: entry.marks.open.clone(),
                    clock,
                }
            }))
        })
    }

    fn adopt<'a>(&'a self, name: &'a LockName, memories: &'a Memories) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.with_all(|contents, now| {
                contents.life.check_adopts(now)?;
                contents.names.entry(name.clone()).or_default().adopt(memories);
                Ok(())
            })
        })
    }

    fn found(&self, floor: Tick) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.with_all(|contents, now| {
                let life = &mut contents.life;
                life.check_adopts(now)?;
                (life.is_empty, life.floor) = (false, life.floor.max(Some(floor)));
                Ok(())
            })
        })
    }

    fn identity(&self) -> BoxFuture<'_, Result<Identity>> {
        Box::pin(async move {
            let restarts = self.with_all(|contents, _| contents.life.restarts);
            let server = format!("{:p}/{restarts}", std::sync::Arc::as_ptr(&self.contents));
            Ok(Identity { server, unfit: None })
        })
    }
}
