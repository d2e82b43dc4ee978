//! Marks once more, apart from those of the memory store, and wrong in one line each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::store::OPEN_TICKS;
use leasehold::{
    Attempt, Claim, Due, HolderId, Holding, LeaseKey, LockName, NotDue, OpenTick, Place, Result, Revoke, Standing,
    Store, Tick, Verdict,
};

use super::Flaw::{self, *};
use super::{Mutant, holders, key_of};

/// The marks of all names.
#[derive(Debug, Default)]
pub struct Marks(BTreeMap<LockName, Mark>);

#[derive(Debug, Default)]
struct Mark {
    newest: Option<Tick>,
    open: BTreeMap<Tick, OpenTick>,
    /// Every mark that there was before, and everybody who ever claimed a tick: what a flawed store might remember.
    before: Vec<Option<Tick>>,
    claimed: BTreeSet<(HolderId, Tick)>,
}

impl Marks {
    fn of(&mut self, flaw: Flaw, name: &LockName) -> &mut Mark {
        let shared = LockName::new("all").unwrap();
        self.0.entry(if flaw == MarksAreShared { shared } else { name.clone() }).or_default()
    }
}

impl Mark {
    fn standing(&mut self, flaw: Flaw, mut due: Due, utc: Duration, alive: &[HolderId]) -> Standing {
        let seen = if flaw == KeysHaveAWindow && due.tick == Tick::ONLY {
            Tick::from_unix_millis(1).unwrap()
        } else {
            due.tick
        };
        match seen.window(utc, due.keep) {
            Err(NotDue::InFuture { .. }) if flaw == FutureTicksAreGranted => {}
            Err(NotDue::TooOld { .. }) if flaw == OldTicksAreGranted => {}
            Err(why) => {
                if matches!(why, NotDue::InFuture { .. }) && flaw == FutureTicksMoveTheMark {
                    self.newest = self.newest.max(Some(due.tick));
                }
                return Standing::Over(why);
            }
            Ok(()) => {}
        }
        let mut open = self.open.get(&due.tick).copied();
        match (flaw, &mut open) {
            (OnlyTheNewestTickIsRefused, None) if self.newest != Some(due.tick) => return Standing::ForClaim,
            (RetriesTakeFromOnce, Some(open)) => open.once = false,
            (OnceTakesFromRetries, Some(open)) if !open.once => due.retry_failed = true,
            (NothingIsRetried, Some(open)) if open.attempts > 0 => open.once = true,
            _ => {}
        }
        let is_alive = |holder| alive.contains(&holder) && flaw != RunningIsForAnybody;
        match (flaw, due.standing(self.newest, open.as_ref(), is_alive)) {
            (RunningIsNotDue, Standing::Running) => {
                Standing::Over(NotDue::Claimed { newest: due.tick, unfinished: true })
            }
            (UnfinishedIsNotTold, Standing::Over(NotDue::Claimed { newest, .. })) => {
                Standing::Over(NotDue::Claimed { newest, unfinished: false })
            }
            (_, standing) => standing,
        }
    }

    fn claim(&mut self, flaw: Flaw, holder: HolderId, due: Due) -> (u32, Option<Tick>) {
        self.before.push(self.newest);
        self.newest = if flaw == MarksFollowTheClaim { Some(due.tick) } else { self.newest.max(Some(due.tick)) };
        self.claimed.insert((holder, due.tick));
        let mut open =
            self.open.get(&due.tick).map_or_else(|| OpenTick::new(holder, due), |open| open.again(holder, due));
        if flaw == AttemptsAreNotCounted {
            open.attempts = 1;
        }
        self.open.insert(due.tick, open);
        let limit = match flaw {
            OpenTicksPileUp => usize::MAX,
            FewTicksStayOpen => OPEN_TICKS - 1,
            _ => OPEN_TICKS,
        };
        let mut gave_up = None;
        if self.open.len() > limit {
            let out = if flaw == TheNewestIsGivenUp { self.open.pop_last() } else { self.open.pop_first() };
            gave_up = out.map(|(tick, _)| tick).filter(|_| flaw != GivingUpIsSilent);
        }
        (open.attempts, gave_up)
    }

    fn attempts(&mut self, flaw: Flaw, holder: HolderId) -> u32 {
        let Some(mine) = self.open.values_mut().find(|open| open.holder == Some(holder)) else { return 0 };
        mine.attempts += u32::from(flaw == TheSameClaimCountsAgain);
        mine.attempts
    }

    fn judge(&mut self, flaw: Flaw, holder: HolderId, verdict: Option<Verdict>, is_alive: bool) {
        let mine = |open: &OpenTick| open.holder == Some(holder);
        match (flaw, verdict) {
            (SilenceIsDone, None) => self.open.retain(|_, open| !mine(open)),
            (SilenceIsNotStarted, None) => self.judge(Nothing, holder, Some(Verdict::NotStarted), is_alive),
            (_, None) => {}

            (LateDoneIsIgnored, Some(Verdict::Done(_))) if !is_alive => {}
            (DoneByItsHolderOnly, Some(Verdict::Done(tick))) => self.open.retain(|at, open| *at != tick || !mine(open)),
            (DoneClosesAll, Some(Verdict::Done(_))) => self.open.clear(),
            (DoneClosesOlderOnes, Some(Verdict::Done(tick))) => self.open.retain(|at, _| *at > tick),
            (_, Some(Verdict::Done(tick))) => drop(self.open.remove(&tick)),

            (LateFailuresAreIgnored, Some(Verdict::Failed)) if !is_alive => {}
            (FailedStaysOpen, Some(Verdict::Failed)) => {}
            (FailedIsNeverRetried, Some(Verdict::Failed)) => self.open.retain(|_, open| !mine(open)),
            (FailedByAnybody, Some(Verdict::Failed)) => self.open.retain(|_, open| !open.once),
            (FailedIsNotStarted, Some(Verdict::Failed)) => {
                self.judge(Nothing, holder, Some(Verdict::NotStarted), is_alive);
            }
            (_, Some(Verdict::Failed)) => self.open.retain(|_, open| !mine(open) || !open.once),

            (_, Some(Verdict::NotStarted)) => self.not_started(flaw, holder, is_alive),
        }
    }

    fn not_started(&mut self, flaw: Flaw, holder: HolderId, is_alive: bool) {
        match flaw {
            NotStartedIsIgnored => return,
            NotStartedInTimeOnly if !is_alive => return,
            NotStartedAfterDone => {
                for (_, tick) in self.claimed.iter().filter(|(claimant, _)| *claimant == holder) {
                    self.open.entry(*tick).or_insert(OpenTick { holder: None, attempts: 0, once: false });
                }
            }
            NotStartedBringsTheMarkBack if self.open.values().any(|open| open.holder == Some(holder)) => {
                self.newest = self.before.pop().flatten();
            }
            _ => {}
        }
        let claimed = &self.claimed;
        for (tick, open) in &mut self.open {
            let is_meant = match flaw {
                NotStartedByAnybody => open.holder.is_some(),
                NotStartedByAnEarlierHolder => open.holder.is_some() && claimed.contains(&(holder, *tick)),
                _ => open.holder == Some(holder),
            };
            if is_meant {
                let back = open.taken_back();
                *open = match flaw {
                    NotStartedKeepsTheAttempt => OpenTick { attempts: open.attempts, ..back },
                    NotStartedCountsTwice => OpenTick { holder: open.holder, ..back },
                    NotStartedStaysPromised => OpenTick { attempts: back.attempts.max(u32::from(open.once)), ..back },
                    _ => back,
                };
            }
        }
    }
}

/// How a mutant goes about ticks: the leases are those of the store below, the marks its own.
impl Mutant {
    fn mark<T>(&self, name: &LockName, what: impl FnOnce(&mut Mark) -> T) -> T {
        what(self.marks.lock().unwrap().of(self.flaw, name))
    }

    async fn alive(&self, name: &LockName) -> Vec<HolderId> {
        self.inner.inspect(name).await.unwrap().as_ref().map(holders).unwrap_or_default()
    }

    /// Answers a claim for a tick.
    pub async fn acquire_tick(&self, claim: &Claim, due: Due) -> Result<Attempt> {
        let plain = self.plain(claim);
        let alive = self.alive(&claim.name).await;
        if alive.contains(&claim.holder) {
            return Ok(match self.inner.try_acquire(&plain).await? {
                Attempt::Granted(mut grant) => {
                    grant.attempt = self.mark(&claim.name, |mark| mark.attempts(self.flaw, claim.holder));
                    Attempt::Granted(grant)
                }
                refused => refused,
            });
        }
        if self.has(HeldComesFirst) && !alive.is_empty() && claim.permits.get() == 1 {
            return self.inner.try_acquire(&plain).await;
        }
        let utc = self.inner.time().await?;
        match self.mark(&claim.name, |mark| mark.standing(self.flaw, due, utc, &alive)) {
            Standing::ForClaim => {}
            Standing::Running => {
                self.leave_the_line(claim).await?;
                let running = self.inner.inspect(&claim.name).await?.unwrap();
                return Ok(Attempt::Held(self.misreport_running(running)));
            }
            Standing::Over(why) => {
                self.leave_the_line(claim).await?;
                return Ok(Attempt::NotDue(why));
            }
        }
        Ok(match self.inner.try_acquire(&plain).await? {
            Attempt::Granted(mut grant) => {
                let claimed = self.mark(&claim.name, |mark| mark.claim(self.flaw, claim.holder, due));
                (grant.attempt, grant.gave_up) = claimed;
                Attempt::Granted(grant)
            }
            refused => {
                if self.has(RefusedClaimsMoveTheMark) {
                    self.mark(&claim.name, |mark| mark.newest = mark.newest.max(Some(due.tick)));
                }
                refused
            }
        })
    }

    /// The same claim without its tick, which is not to be handed over all the same.
    fn plain(&self, claim: &Claim) -> Claim {
        let sent = |place: Place| place.sent.filter(|_| self.has(TicksAreHandedOver));
        let queue = claim.queue.map(|place| Place { sent: sent(place), ..place });
        Claim { due: None, queue, ..claim.clone() }
    }

    async fn leave_the_line(&self, claim: &Claim) -> Result<()> {
        if self.has(RefusedTicksStayInLine) {
            let plain = self.plain(claim);
            let _ = self.inner.try_acquire(&plain).await?;
            return Ok(());
        }
        self.inner.leave(&key_of(claim)).await
    }

    fn misreport_running(&self, running: Holding) -> Holding {
        match self.flaw {
            RunningNamesNobody => Holding { holder: None, others: Vec::new(), ..running },
            RunningSaysThatNobodyWaits => Holding { waiting: 0, ..running },
            _ => running,
        }
    }

    /// What a release or leaving says of the work.
    pub async fn judge(&self, lease: &LeaseKey, verdict: Option<Verdict>) {
        let is_alive = self.alive(&lease.name).await.contains(&lease.holder);
        self.mark(&lease.name, |mark| mark.judge(self.flaw, lease.holder, verdict, is_alive));
    }

    /// An operator has them forgotten.
    pub async fn reset(&self, name: &LockName) -> Result<bool> {
        let had_a_mark = self.mark(name, |mark| mark.newest.is_some());
        match self.flaw {
            ResetsForgetNothing => {}
            ResetsKeepWhatIsOpen => self.mark(name, |mark| mark.newest = None),
            ResetsForgetAllNames => *self.marks.lock().unwrap() = Marks::default(),
            _ => self.forget_ticks(name),
        }
        if self.has(ResetsEndTheLease) {
            self.inner.revoke(name, None, Revoke::Now).await?;
        }
        Ok(had_a_mark || self.has(ResetsAlwaysFindAMark))
    }

    pub fn forget_ticks(&self, name: &LockName) {
        self.mark(name, |mark| *mark = Mark::default());
    }

    pub fn close_ticks(&self, name: &LockName) {
        self.mark(name, |mark| mark.open.clear());
    }
}
