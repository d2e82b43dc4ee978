//! How a lock is claimed.
//!
//! What is free is taken in one transaction: if there is no key below the prefix, put ours. Whoever finds somebody has in
//! the same answer seen who, decides from that, and acts only if what it has seen is still so: no key was created since,
//! for only that could stand in the way.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::calls::Limit;
use super::fault::{Cause, Fault};
use super::leases::{SLACK, seconds};
use super::marks;
use super::ours::{Held, Own, Waits, What};
use super::turns::Turn;
use super::txn::{Done, Txn, below, one};
use super::value::{State, Value};
use super::view::{Contender, Marked, Step, View, clearing};
use super::watches::Target;
use super::{Core, time_of_day};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Attempt, Claim, FencingToken, Grant, Holding};
use crate::tick::Tick;
use crate::validity::Moment;

/// How often a claim decides anew, since others have come in between. Each time one of them has got on.
const TRIES: usize = 100;

/// A claim in the making.
struct Claiming<'a> {
    core: &'a Core,
    claim: &'a Claim,
    prefix: Vec<u8>,
    key: Vec<u8>,
    ticks: Vec<u8>,
    limit: Limit,
    /// The one that what is granted hangs on.
    lease: i64,
    began: Moment,
    /// An earlier one under the same name may be executed yet, whatever becomes of this.
    was_unsure: bool,
    /// Something of it is in the store: an error later on does not say that nothing is.
    is_in_store: AtomicBool,
    /// Somebody waits for the answer.
    is_wanted: &'a Weak<()>,
}

/// What a transaction came to: it took the lock, or this was seen instead.
enum Tried {
    Taken(Grant),
    Seen(View),
}

impl Core {
    /// Claims once its turn has come; sends nothing more once nobody wants the answer.
    pub(super) async fn acquire(&self, claim: &Claim, mut turn: Turn, is_wanted: Weak<()>) -> Result<Attempt> {
        turn.comes().await;
        let limit = Limit::of(claim.ttl);
        let began = self.shared.ours.now();
        let key = self.options.keys.contender(&claim.name, claim.holder);
        let was_unsure = self.shared.ours.is_unsure(&key);
        for _ in 0..2 {
            let lease = self.shared.leases.fresh(&self.members, &self.shared.ours, claim.ttl).await;
            // Nothing of the claim itself was sent.
            let lease = lease.map_err(|fault| self.told(fault.surely()))?;
            let keys = &self.options.keys;
            let claiming = Claiming {
                core: self,
                claim,
                prefix: keys.prefix(&claim.name),
                key: key.clone(),
                ticks: keys.ticks(&claim.name),
                limit,
                lease,
                began,
                was_unsure,
                is_in_store: AtomicBool::new(false),
                is_wanted: &is_wanted,
            };
            match claiming.run().await {
                // One has ended since it was last asked for. Nothing was done.
                Err(Failed::NoLease) => self.shared.leases.doubt(lease),
                Err(Failed::Told(error)) => return Err(claiming.honest(error)),
                Ok(attempt) => return Ok(attempt),
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("{}: leases end as soon as they are granted", self.options.shown),
        ))
    }
}

/// Why a claim came to nothing.
enum Failed {
    /// The lease that it was to hang on is no more, and nothing was done.
    NoLease,
    Told(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl Claiming<'_> {
    async fn run(&self) -> Result<Attempt, Failed> {
        self.check_wanted()?;
        let mut view = match self.first().await? {
            Tried::Taken(grant) => return Ok(Attempt::Granted(grant)),
            Tried::Seen(view) => view,
        };
        for _ in 0..TRIES {
            self.check_wanted()?;
            // An error here comes before anything was done.
            let step = view.step(self.claim, time_of_day()).inspect_err(|_| self.forget_unless_in_store())?;
            let tried = match step {
                Step::Has(own) => self.has(&own, &view).await?,
                Step::ClearOwn(own) => Tried::Seen(self.clear_own(&own).await?),
                Step::Take { waits, clear } => self.take(waits.as_ref(), &clear, &view).await?,
                Step::Enqueue => Tried::Seen(self.enqueue().await?),
                Step::Held { waits, ahead, before } => return self.held(waits, ahead, before, &view).await,
                Step::Running => {
                    self.stop_waiting(&view).await?;
                    return Ok(Attempt::Held(self.core.holding(&self.claim.name, &view).await?));
                }
                Step::NotDue(why) => {
                    self.stop_waiting(&view).await?;
                    return Ok(Attempt::NotDue(why));
                }
            };
            match tried {
                Tried::Taken(grant) => return Ok(Attempt::Granted(grant)),
                Tried::Seen(seen) => view = seen,
            }
        }
        let crowd =
            format!("{}: so many ask for {} that no claim gets through", self.core.options.shown, self.claim.name);
        Err(Error::new(ErrorKind::Unavailable, crowd).into())
    }

    /// What is asked first: for what is most likely, or else how it stands.
    async fn first(&self) -> Result<Tried, Failed> {
        let waits = match self.core.shared.ours.get(&self.key) {
            Some(Own { what: What::Waits(waits), .. }) => Some(waits),
            _ => None,
        };
        let is_plain = self.claim.due.is_none() && self.claim.permits.get() == 1;
        let is_next = is_plain && waits.is_some_and(|waits| waits.is_next);
        if let Some(waits) = waits {
            self.note_asking(waits);
        }
        if waits.is_some() && !is_next {
            let ours = &self.core.shared.ours;
            let kept = self.core.shared.leases.waiting(&self.core.members, ours, self.claim.ttl).await;
            kept.map_err(|fault| self.failed(fault.surely()))?;
        }
        match waits {
            None if self.claim.due.is_none() => self.create(0, &[], None).await,
            // Whoever was before it is gone: it need not look first.
            Some(waits) if is_next => {
                let if_first = Txn::default().if_none_created_before(&self.prefix, waits.created);
                self.promote(if_first, waits.created, waits.modified, &[], None).await
            }
            _ => Ok(Tried::Seen(self.look().await?)),
        }
    }

    fn check_wanted(&self) -> Result<(), Failed> {
        if self.is_wanted.strong_count() > 0 {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TimedOut, "the claim was given up").into())
    }

    fn honest(&self, error: Error) -> Error {
        if self.is_in_store.load(Ordering::Relaxed) { error.maybe_applied() } else { error }
    }

    /// The lock and its ticks.
    async fn look(&self) -> Result<View, Failed> {
        let looking = Txn::default().look([below(&self.prefix), one(&self.ticks)]);
        let done = self.core.members.read(self.limit, looking).await.map_err(|fault| self.failed(fault))?;
        self.seen(done)
    }

    fn seen(&self, mut done: Done) -> Result<View, Failed> {
        let marks = done.key(1);
        let found = done.found.swap_remove(0);
        Ok(View::read(done.revision, found, marks, &self.prefix, &self.core.shared.ours)?)
    }

    /// Takes the lock, if it stands as it was seen.
    async fn take(&self, waits: Option<&Contender>, clear: &[Contender], view: &View) -> Result<Tried, Failed> {
        let marked = self.mark(&view.marks).await?;
        let leases = marked.as_ref().map(|marked| (marked.before.lease, marked.after.lease));
        let tried = match waits {
            // Who comes later stands behind it.
            Some(waits) => {
                let txn = clearing(Txn::default(), clear);
                self.promote(txn, waits.created, waits.modified, clear, marked).await?
            }
            None => self.create(view.revision, clear, marked).await?,
        };
        if let Some((before, after)) = leases.filter(|(before, after)| before != after) {
            // One of the two has nothing to hold; what is left of it ends by itself, if late.
            let unused = if matches!(tried, Tried::Taken(_)) { before } else { after };
            let _ = self.core.members.revoke_lease(unused).await;
        }
        Ok(tried)
    }

    /// Puts a key of its own, if none was created since `revision`: nor was its own then, which was not there at that.
    async fn create(&self, revision: i64, clear: &[Contender], marked: Option<Claimed>) -> Result<Tried, Failed> {
        let ours = &self.core.shared.ours;
        // A place that it had is lost by now.
        if ours.held(&self.key).is_none() {
            // Whatever becomes of the answer: it does not outlive this.
            ours.note(&self.key, self.lease, What::Unsure { ends: self.ends() });
        }
        let txn = Txn::default().if_none_created_after(&self.prefix, revision);
        let txn = clearing(txn, clear).put(&self.key, self.value(State::Held).text(), self.lease);
        self.taken(txn, None, clear, marked).await
    }

    /// Has the lock by the key with which it waits: its place stays.
    async fn promote(
        &self,
        txn: Txn,
        created: i64,
        modified: i64,
        clear: &[Contender],
        marked: Option<Claimed>,
    ) -> Result<Tried, Failed> {
        let txn = txn.if_modified_at(&self.key, modified);
        let txn = txn.put(&self.key, self.value(State::Held).text(), self.lease);
        self.taken(txn, Some(created), clear, marked).await
    }

    async fn taken(
        &self,
        txn: Txn,
        created: Option<i64>,
        clear: &[Contender],
        marked: Option<Claimed>,
    ) -> Result<Tried, Failed> {
        let ours = &self.core.shared.ours;
        let txn = match &marked {
            Some(marked) => {
                let txn = txn.if_modified_at(&self.ticks, marked.before.modified);
                txn.put(&self.ticks, marks::text(&marked.after.marks), marked.after.lease)
            }
            None => txn,
        };
        let txn = txn.or_look([below(&self.prefix), one(&self.ticks)]);
        let done = match self.core.members.change(self.limit, txn).await {
            Ok(done) => done,
            Err(fault) => {
                match (fault.sure, created) {
                    (true, None) => self.forget_unsure(),
                    // Its place in the queue may be the lock by now.
                    (false, Some(_)) => ours.note(&self.key, self.lease, What::Unsure { ends: self.ends() }),
                    _ => {}
                }
                return Err(self.failed(fault));
            }
        };
        if !done.held {
            return Ok(Tried::Seen(self.seen(done)?));
        }
        clear.iter().for_each(|other| ours.forget(&other.key));
        let created = created.unwrap_or(done.revision);
        let marks = marked.as_ref().map(|marked| marked.after.lease);
        self.note_held(created, marks);
        let (attempt, gave_up) = marked.map_or((0, None), |marked| (marked.attempt, marked.gave_up));
        Ok(Tried::Taken(grant(created, attempt, gave_up)))
    }

    /// Until when at least its time runs, if it is granted now.
    fn ends(&self) -> Moment {
        self.core.shared.ours.now() + self.claim.ttl
    }

    fn note_held(&self, created: i64, marks: Option<i64>) {
        let (ours, now) = (&self.core.shared.ours, self.core.shared.ours.now());
        self.core.watches.unfollow(&self.claim.name, &self.key);
        ours.note(&self.key, self.lease, What::Held(Held { created, since: now, ends: self.ends(), marks }));
    }

    fn note_asking(&self, waits: Waits) {
        let ours = &self.core.shared.ours;
        if let Some(own) = ours.get(&self.key) {
            let asked = Waits { asked: ours.now(), is_next: false, ..waits };
            ours.note(&self.key, own.lease, What::Waits(asked));
        }
    }

    fn forget_unless_in_store(&self) {
        if !self.is_in_store.load(Ordering::Relaxed) {
            self.forget_unsure();
        }
    }

    fn forget_unsure(&self) {
        let ours = &self.core.shared.ours;
        if !self.was_unsure && ours.is_unsure(&self.key) {
            ours.forget(&self.key);
        }
    }

    fn value(&self, state: State) -> Value {
        let label = self.claim.label.to_string();
        Value { state, permits: self.claim.permits.get(), since: time_of_day(), label }
    }

    /// It has the lock already: this claim was sent before, or sent twice. Its end moves to a TTL from now, if that is
    /// later.
    async fn has(&self, own: &Contender, view: &View) -> Result<Tried, Failed> {
        let Core { shared, members, .. } = self.core;
        let known = shared.ours.held(&self.key);
        let hangs_on = shared.leases.ttl_of(own.lease);
        let suffices = hangs_on.is_some_and(|ttl| seconds(ttl) >= seconds(self.claim.ttl));
        if own.lease != self.lease {
            let renewed = match hangs_on.filter(|_| suffices) {
                Some(ttl) => shared.leases.renew(members, &shared.ours, own.lease, ttl, self.began).await,
                None => self.move_over(own).await,
            };
            match renewed {
                Ok(true) => {}
                Ok(false) => return Ok(Tried::Seen(self.look().await?)),
                Err(fault) => return Err(self.failed(fault.maybe())),
            }
        }
        let lease = if suffices { own.lease } else { self.lease };
        let marks = (view.marks.marks.attempts(self.claim.holder) > 0).then_some(view.marks.lease);
        let since = known.map_or(shared.ours.now(), |known| known.since);
        let ends = known.map_or(self.ends(), |known| known.ends.max(self.ends()));
        shared.ours.note(&self.key, lease, What::Held(Held { created: own.created, since, ends, marks }));
        Ok(Tried::Taken(grant(own.created, view.marks.marks.attempts(self.claim.holder), None)))
    }

    /// Hangs its key on the lease of this claim; false if it has changed.
    async fn move_over(&self, own: &Contender) -> Result<bool, Fault> {
        let txn = Txn::default().if_modified_at(&self.key, own.modified).hang_on(&self.key, self.lease);
        Ok(self.core.members.change(self.limit, txn).await?.held)
    }

    async fn clear_own(&self, own: &Contender) -> Result<View, Failed> {
        let txn = Txn::default().if_created_at(&self.key, own.created).delete(&self.key);
        self.core.members.repeat(self.limit, txn).await.map_err(|fault| self.failed(fault))?;
        self.core.shared.ours.forget(&self.key);
        self.look().await
    }

    /// Stands in the queue, and looks.
    async fn enqueue(&self) -> Result<View, Failed> {
        let Core { shared, members, .. } = self.core;
        let lease = shared.leases.waiting(members, &shared.ours, self.claim.ttl).await;
        let lease = lease.map_err(|fault| self.failed(fault.surely()))?;
        let now = shared.ours.now();
        shared.ours.note(&self.key, lease, What::Unsure { ends: now + self.claim.ttl });
        let put = Txn::default().if_created_at(&self.key, 0).put(&self.key, self.value(State::Waits).text(), lease);
        let look = [below(&self.prefix), one(&self.ticks)];
        let txn = put.look(look.clone()).or_look(look);
        let done = match members.change(self.limit, txn).await {
            Ok(done) => done,
            Err(fault) => {
                if fault.sure {
                    self.forget_unsure();
                }
                if fault.cause == Cause::NoLease {
                    shared.leases.doubt(lease);
                }
                return Err(self.failed(fault));
            }
        };
        self.is_in_store.store(true, Ordering::Relaxed);
        let view = self.seen(done)?;
        if let Some(own) = view.of(self.claim.holder).filter(|own| own.waits()) {
            let waits = Waits { created: own.created, modified: own.modified, asked: now, is_next: false };
            shared.ours.note(&self.key, lease, What::Waits(waits));
        }
        Ok(view)
    }

    async fn held(
        &self,
        waits: Option<Contender>,
        ahead: u64,
        before: Option<Vec<u8>>,
        view: &View,
    ) -> Result<Attempt, Failed> {
        let Core { shared, watches, members, .. } = self.core;
        match &waits {
            Some(waits) if self.claim.queue.is_some() => {
                let asked = Waits {
                    created: waits.created,
                    modified: waits.modified,
                    asked: shared.ours.now(),
                    is_next: false,
                };
                shared.ours.note(&self.key, waits.lease, What::Waits(asked));
                let target = match before {
                    Some(before) if self.claim.permits.get() == 1 => Target::Key(before),
                    _ => Target::Below(self.prefix.clone()),
                };
                watches.follow(members, &self.claim.name, &self.key, target, view.revision);
            }
            _ => self.forget_unsure(),
        }
        let holding = self.core.holding(&self.claim.name, view).await?;
        let ticket = waits.and_then(|waits| u64::try_from(waits.created).ok()).filter(|_| self.claim.queue.is_some());
        Ok(Attempt::Held(Holding { waiting: ahead, ticket, ..holding }))
    }

    /// There is nothing to wait for: its place is given up.
    async fn stop_waiting(&self, view: &View) -> Result<(), Failed> {
        self.forget_unsure();
        let Some(waits) = view.of(self.claim.holder).filter(|own| own.waits()) else { return Ok(()) };
        let txn = Txn::default().if_modified_at(&self.key, waits.modified).delete(&self.key);
        self.core.members.repeat(self.limit, txn).await.map_err(|fault| self.failed(fault))?;
        self.core.watches.unfollow(&self.claim.name, &self.key);
        self.core.shared.ours.forget(&self.key);
        Ok(())
    }

    /// What the mark is to be, if the claim is for a tick. It hangs on a lease of its own, as long as it is to be
    /// remembered.
    async fn mark(&self, before: &Marked) -> Result<Option<Claimed>, Failed> {
        let Some(due) = self.claim.due else { return Ok(None) };
        let mut after = before.clone();
        let (attempt, gave_up) = after.marks.claim(self.claim.holder, due);
        after.lease = self.lease_of_marks(before, due.keep).await.map_err(|fault| self.failed(fault))?;
        Ok(Some(Claimed { before: before.clone(), after, attempt, gave_up }))
    }

    /// The lease that the mark hangs on, prolonged; another one, where it is too short.
    async fn lease_of_marks(&self, before: &Marked, keep: Duration) -> Result<i64, Fault> {
        let members = &self.core.members;
        if before.modified > 0
            && members.rest_of(before.lease).await?.is_some_and(|rest| rest.granted >= keep)
            && members.keep_alive(self.limit, before.lease).await?
        {
            return Ok(before.lease);
        }
        members.grant(self.limit, seconds(keep + SLACK)).await
    }

    fn failed(&self, fault: Fault) -> Failed {
        if fault.cause == Cause::NoLease {
            return Failed::NoLease;
        }
        Failed::Told(self.core.told(fault))
    }
}

/// A tick that is being claimed.
struct Claimed {
    before: Marked,
    after: Marked,
    attempt: u32,
    gave_up: Option<Tick>,
}

fn grant(created: i64, attempt: u32, gave_up: Option<Tick>) -> Grant {
    Grant { attempt, gave_up, ..Grant::of(FencingToken::new(created.unsigned_abs())) }
}
