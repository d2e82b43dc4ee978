//! The end of a run whose job may have completed its tick in a transaction of its own: the store is asked whether it has.

use std::time::Duration;

use leasehold::{HolderId, Holding, NotDue, Outcome, Tick};

use crate::event::How;
use crate::instant;
use crate::node::{LONGEST_PAUSE, SHORTEST_PAUSE};
use crate::record::Record;
use crate::state::State;
use crate::turn::{Turn, is_for};
use crate::work::{Left, Run};

/// How often a lock is looked at whose holder has nothing left to do but to say so.
const LOOK: Duration = Duration::from_secs(1);

/// What a node needs at most between its release and the ledger.
const TO_TELL: Duration = Duration::from_secs(10);

/// After the end of a minimum hold: sooner it is not free, and later others ask.
const JUST_AFTER: Duration = Duration::from_millis(10);

impl Turn<'_> {
    /// Gives the lock back, and answers how the run has ended: as its job says, unless its tick was completed.
    pub(crate) async fn give_back(&self, run: Run, how: How, left: Left) -> How {
        // What the store could not be told the keeper goes on telling it.
        match (how, left) {
            (how, Left::Perhaps) => {
                run.guard.abandon();
                how
            }
            (how, Left::NotBegun) => {
                drop(run.guard.not_started().await);
                how
            }
            (How::Lost(_) | How::Stopped | How::Died(_), Left::Nothing) if self.is_complete(&run).await => {
                drop(run.guard.complete().await);
                How::Done
            }
            (how @ How::Failed(_), Left::Nothing) if run.guard.may_be_complete() && self.job.terms.at_least_once => {
                let (tick, holder) = (run.tick, run.guard.holder());
                drop(run.guard.release().await);
                self.settle(tick, holder, how).await
            }
            (how, Left::Nothing) => {
                drop(if how.is_its_end() { run.guard.complete().await } else { run.guard.release().await });
                how
            }
        }
    }

    /// Whether the tick of a run that still holds it is known to be done. Another claim for it is told that it is running, or that it
    /// was claimed and is not open.
    pub(crate) async fn is_complete(&self, run: &Run) -> bool {
        if !run.guard.may_be_complete() {
            return false;
        }
        match self.claim(run.tick).await {
            // Its own lease was over, and the tick is open.
            Ok(Outcome::Acquired(guard)) => {
                drop(guard.not_started().await);
                false
            }
            Ok(outcome) => is_done(&outcome),
            Err(_) => false,
        }
    }

    /// Asks until it is known what became of the transaction: as long as it is open nobody is granted the lock. Then the tick was
    /// completed, or it is given up as its job has failed.
    async fn settle(&self, tick: Tick, ours: HolderId, failed: How) -> How {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let mut free_in = Duration::ZERO;
            match self.claim(tick).await {
                Ok(outcome) if is_done(&outcome) => return How::Done,
                Ok(Outcome::Acquired(guard)) => {
                    drop(guard.complete().await);
                    return failed;
                }
                Ok(Outcome::NotDue(_)) => return failed,
                // Another node was quicker, and runs it again.
                Ok(Outcome::Contended(holding)) if has_holder(&holding, tick, |holder| holder != ours) => {
                    return failed;
                }
                Ok(Outcome::Contended(holding)) => free_in = holding.free_in(),
                Err(_) => (),
            }
            // Left open, another node finds out, and does it again: that is not how the tick has ended. So may one that is quicker once
            // the minimum hold is over.
            if !self.node.sleeps(pause_before(free_in, pause)).await {
                return How::Stopped;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Of a tick that is over here: if it was completed by a run that holds the lock still, and that one's node dies before it says so, this
    /// one does. The end of any other run closes the tick and frees the lock in one step.
    pub(crate) async fn sees_it_told(&self, tick: Tick) {
        if !self.job.terms.at_least_once {
            return;
        }
        let mut was_held = false;
        loop {
            match self.is_held_for(tick).await {
                Ok(true) => was_held = true,
                Ok(false) if was_held => break,
                Ok(false) => return,
                Err(_) => {} // It may be.
            }
            if !self.node.sleeps(LOOK).await {
                return;
            }
        }
        if self.node.sleeps(TO_TELL).await {
            self.writes_down_that_it_is_done(tick).await;
        }
    }

    async fn is_held_for(&self, tick: Tick) -> leasehold::Result<bool> {
        let holding = self.node.locks.inspect(&self.job.name).await?;
        Ok(holding.is_some_and(|holding| has_holder(&holding, tick, |_| true)))
    }

    async fn writes_down_that_it_is_done(&self, tick: Tick) {
        let Some(ledger) = self.node.told(self.ledger()) else { return };
        let known = self.node.told(ledger.run_of(instant::of_tick(tick)).await).flatten();
        if let Some(record) = known.filter(|record| record.state == State::Running) {
            let reason = Some("its node has ended since, and did not say so".to_owned());
            let record = Record { state: State::Done, ended: Some(self.node.now()), reason, ..record };
            self.records(&instant::of_tick(tick).to_string(), record).await;
        }
    }

    async fn claim(&self, tick: Tick) -> leasehold::Result<Outcome> {
        self.lock(tick).try_acquire().await
    }
}

/// How long to wait for a lock that is free in so long; zero, if that is not known.
fn pause_before(free_in: Duration, pause: Duration) -> Duration {
    if free_in.is_zero() { pause } else { pause.min(free_in + JUST_AFTER) }
}

/// Whether somebody holds the lock for that tick.
fn has_holder(holding: &Holding, tick: Tick, counts: impl Fn(HolderId) -> bool) -> bool {
    let others = holding.others.iter().map(|other| (other.holder, &other.label));
    std::iter::once((holding.holder, &holding.label))
        .chain(others)
        .any(|(holder, label)| holder.is_some_and(&counts) && is_for(label, tick))
}

fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NotDue(NotDue::Claimed { unfinished: false, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_as_soon_as_the_minimum_hold_is_over() {
        let second = Duration::from_secs(1);
        assert_eq!(pause_before(Duration::ZERO, second), second, "a transaction is open, who knows for how long");
        assert_eq!(pause_before(second * 2, second), second);
        assert_eq!(pause_before(second, second * 15), second + JUST_AFTER);
    }
}
