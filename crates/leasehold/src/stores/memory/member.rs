//! The memory store as a member of a quorum; and how it is restarted, for tests of that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Contents, Entry, Memory, Saved};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{Ended, FencingToken, HolderId, LeaseKey, Release};
use crate::marks::Marks;
use crate::member::{DONE_AHEAD, FILLS_ALONE, Filling, Identity, Member, Memories, Names, Ratified, Vote};
use crate::name::LockName;
use crate::rule::Rule;
use crate::span::Span;
use crate::store::{Store, WakeUps};
use crate::tick::{Due, NotDue, Standing, Tick, Verdict};
use crate::validity::Moment;

/// What became of the store's contents since it is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Life {
    /// How often it was restarted.
    restarts: u32,
    /// Until when nothing is granted.
    guarded_until: Moment,
    /// Whether it was restarted, and may have lost something, and has not been founded anew since.
    is_empty: bool,
    /// Whether it has adopted no name since, either, nor kept anything.
    is_blank: bool,
    /// Ticks up to here count as claimed, also of names that it does not know.
    floor: Option<Tick>,
    /// The floor of a founding of which it has heard the first step only.
    announced: Option<Tick>,
    /// Who fills it for every name, and until when nobody else begins to.
    filled: Option<(HolderId, Moment)>,
}

impl Life {
    /// Whether somebody may take this step of filling it.
    fn is_filled(&mut self, by: HolderId, begins: bool, now: Moment) -> bool {
        let may = match self.filled {
            Some((filler, _)) if filler == by => true,
            Some((_, until)) => begins && until <= now,
            None => begins,
        };
        if may {
            self.filled = Some((by, now + FILLS_ALONE));
        }
        may
    }

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

    fn check_adopts(&self, into: &str, own: &str, now: Moment) -> Result<()> {
        if into != own {
            let message = "it was restarted since it was asked what it remembers";
            return Err(Error::new(ErrorKind::Unavailable, message).passes());
        }
        if Rule::AdoptedOnlyAfterTheGuard.holds() { self.check_grants(now) } else { Ok(()) }
    }
}

impl Memory {
    /// Restarts it as a server without its data is restarted: everything is forgotten, and for `guard` nothing is
    /// granted. As long as the largest TTL if it is a member of a quorum.
    pub fn restart(&self, guard: Duration) {
        self.restart_from(&Saved::default(), guard);
    }

    /// The same, of a server that has an old copy of its data: what has become of these since then is forgotten.
    pub fn restart_from(&self, copy: &Saved, guard: Duration) {
        let Saved(old) = copy;
        self.with_all(|contents, now| {
            contents.names = old.names.iter().map(|(name, entry)| (name.clone(), entry.restarted())).collect();
            let (restarts, guarded_until) = (contents.life.restarts + 1, now + guard);
            let floor = old.life.floor;
            let is_blank = floor.is_none() && old.names.values().all(Entry::is_blank);
            contents.life =
                Life { restarts, guarded_until, is_empty: true, is_blank, floor, announced: None, filled: None };
        });
    }

    /// From now on it is full for every name.
    fn is_whole_from_now_on(contents: &mut Contents, floor: Option<Tick>) {
        let life = &mut contents.life;
        if life.is_empty {
            let unknown = contents.names.values_mut().filter(|entry| !entry.is_adopted);
            unknown.for_each(Entry::close_all_with_a_time);
        }
        let floor = life.floor.max(floor);
        *life = Life { is_empty: false, is_blank: false, floor, announced: None, ..*life };
    }

    fn life(&self, life: &Life) -> Box<str> {
        format!("{:p}/{}", Arc::as_ptr(&self.contents), life.restarts).into()
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
        // A counter that is ahead of the lease was adopted since the claim, from a holder before: its token is another's.
        let free = if own > lease.token.number() { own + 1 } else { own };
        let known = FencingToken::new(token.number().max(free).max(at.life.least_token()));
        lease.token = lease.token.max(known);
        let token = lease.token;
        self.token = token.number();
        Ratified::Yes { token, attempt, gave_up }
    }

    fn claim_tick(&mut self, holder: HolderId, due: Due, at: &Ratifying<'_>) -> Result<(u32, Option<Tick>), NotDue> {
        if let Some(own) = self.marks.open.get(&due.tick).filter(|open| open.holder == Some(holder)) {
            return Ok((own.attempts, None));
        }
        // Where it was founded anew; a key's only run has no time that could be compared.
        if due.tick != Tick::ONLY {
            self.marks.newest = self.marks.newest.max(self.floor(at.life));
        }
        match self.standing(due, at.now, at.utc) {
            Standing::Over(why) if Rule::MarksAreCompared.holds() => Err(why),
            _ => Ok(self.marks.claim(holder, due)),
        }
    }

    /// A name that was adopted since the restart has forgotten nothing but what those had from whom it was adopted.
    fn floor(&self, life: &Life) -> Option<Tick> {
        if self.is_adopted { self.floor } else { self.floor.max(life.floor) }
    }

    /// Whoever waits or listens has gone, and what the others know by now is unknown.
    fn restarted(&self) -> Self {
        Self { is_adopted: false, queue: BTreeMap::new(), bells: Vec::new(), ..self.clone() }
    }

    fn is_blank(&self) -> bool {
        self.token == 0 && self.floor.is_none() && self.marks == Marks::default()
    }

    fn is_full(&self, life: &Life) -> bool {
        !life.is_empty || self.is_adopted || !Rule::TheEmptyAreNotFull.holds()
    }

    fn conclude(&mut self, holder: HolderId, how: Ended, now: Moment, utc: Duration) -> Release {
        if let Some(Verdict::Done(tick)) = how.verdict
            && Duration::from_millis(tick.as_unix_millis().unsigned_abs()) <= utc + DONE_AHEAD
        {
            self.marks.newest = self.marks.newest.max(Some(tick));
        }
        self.release(holder, how, now)
    }

    fn adopt(&mut self, memories: &Memories, life: &Life) {
        self.token = self.token.max(memories.token.number());
        // What straggles may be of before it claimed what it has open by now.
        if self.is_adopted || !life.is_empty {
            return;
        }
        let own = self.remembers(life);
        // What it has open itself is from before: the others may have closed it since.
        self.marks.open = memories.open.clone();
        self.marks.open.retain(|tick, _| !own.has_closed(*tick));
        self.marks.newest = own.newest.max(memories.newest);
        self.floor = own.floor.max(memories.floor);
        self.is_adopted = true;
    }

    /// What was open before all was lost counts as claimed.
    fn close_all_with_a_time(&mut self) {
        self.marks.open.retain(|tick, _| *tick == Tick::ONLY);
    }

    fn remembers(&self, life: &Life) -> Memories {
        Memories {
            is_full: self.is_full(life),
            is_blank: life.is_blank,
            token: FencingToken::new(self.token.max(life.least_token())),
            newest: self.marks.newest,
            floor: self.floor(life),
            announced: life.announced,
            open: self.marks.open.clone(),
            kept_for: Duration::MAX,
            ..Memories::default()
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
        Box::pin(async move {
            Ok(self.with_all(|contents, now| {
                let utc = contents.utc(now);
                contents.names.entry(lease.name.clone()).or_default().conclude(lease.holder, how, now, utc)
            }))
        })
    }

    fn wake_ups<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async { Ok(self.with(name, |entry, _| entry.subscribe())) })
    }

    fn recall<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Memories>> {
        Box::pin(async move {
            Ok(self.with_all(|contents, now| {
                let clock = contents.utc(now);
                let entry = contents.names.entry(name.clone()).or_default();
                Memories { clock, life: self.life(&contents.life), ..entry.remembers(&contents.life) }
            }))
        })
    }

    fn adopt<'a>(&'a self, name: &'a LockName, memories: &'a Memories, into: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.with_all(|contents, now| {
                contents.life.check_adopts(into, &self.life(&contents.life), now)?;
                contents.names.entry(name.clone()).or_default().adopt(memories, &contents.life);
                contents.life.is_blank = false;
                Ok(())
            })
        })
    }

    fn announce<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.with_all(|contents, now| {
                contents.life.check_adopts(into, &self.life(&contents.life), now)?;
                if !contents.life.is_blank {
                    let message = "it is new no more: it was founded, or told what others know, since it was asked";
                    return Err(Error::new(ErrorKind::Unavailable, message).passes());
                }
                contents.life.announced = contents.life.announced.max(Some(floor));
                Ok(())
            })
        })
    }

    fn found<'a>(&'a self, floor: Tick, into: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.with_all(|contents, now| {
                contents.life.check_adopts(into, &self.life(&contents.life), now)?;
                Self::is_whole_from_now_on(contents, Some(floor));
                Ok(())
            })
        })
    }

    fn names(&self, from: u64, most: usize) -> BoxFuture<'_, Result<Names>> {
        Box::pin(async move {
            Ok(self.with_all(|contents, _| {
                let life = self.life(&contents.life);
                // Names are only added: what a new one pushes behind a page's end is on the next page as well.
                let (from, count) = (usize::try_from(from).unwrap_or(usize::MAX), contents.names.len());
                let page = contents.names.iter().skip(from).take(most).filter(|(_, entry)| !entry.is_blank());
                Names {
                    names: page.map(|(name, _)| name.clone()).collect(),
                    next: from.checked_add(most).filter(|next| *next < count).map(|next| next as u64),
                    whole: (!contents.life.is_empty).then(|| life.clone()),
                    life,
                    floor: contents.life.floor,
                }
            }))
        })
    }

    fn fill<'a>(&'a self, by: HolderId, step: Filling, into: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            self.with_all(|contents, now| {
                contents.life.check_adopts(into, &self.life(&contents.life), now)?;
                let may = contents.life.is_filled(by, step == Filling::Begins, now);
                if let (true, Filling::IsDone { floor }) = (may, step) {
                    Self::is_whole_from_now_on(contents, floor);
                }
                Ok(may)
            })
        })
    }

    fn identity(&self) -> BoxFuture<'_, Result<Identity>> {
        Box::pin(async move {
            let server = self.with_all(|contents, _| self.life(&contents.life));
            Ok(Identity { server, max_ttl: Duration::MAX, unfit: None })
        })
    }

    fn last_life(&self, _: Vote) -> Option<Arc<str>> {
        Some(self.with_all(|contents, _| self.life(&contents.life)).into())
    }

    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        self.diagnose()
    }
}
