//! Releasing, and cleaning up what came to nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all, poll_immediate};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::round::Round;
use super::rounds::key_of;
use super::{Inner, LIMIT};
use crate::chance;
use crate::error::{Error, Result};
use crate::lease::{Claim, Ended, HolderId, LeaseKey, Release};

/// How a round ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    /// It came to nothing; its tick was never begun.
    Leave,
    Release(Ended),
}

/// For how long a member that can't be reached is told that the tick of a round was never begun. Until it knows, the tick
/// is blocked there, and only there.
const TICKS_ARE_TAKEN_BACK_FOR: Duration = Duration::from_secs(3600);

/// For how long it is told of a release: longer than most leases; the rest end by themselves.
const RELEASES_ARE_TOLD_FOR: Duration = Duration::from_secs(60);

/// What the members say to an ending.
#[derive(Default)]
struct Told {
    released: usize,
    not_held: usize,
    failed: Vec<(usize, Error)>,
}

impl Inner {
    /// Ends all that the members have of an acquisition. A majority decides; the others are told in the background.
    pub(super) async fn end(self: &Arc<Self>, key: &LeaseKey, how: Ending) -> Result<Release> {
        let rounds = match (how, self.rounds.granted(key)) {
            // What else there was is being cleaned up.
            (Ending::Release(_), Some(granted)) => vec![granted.id],
            _ => self.rounds.all(key),
        };
        // All are sent before the first answer is looked at, an error among them.
        let answers = join_all(rounds.into_iter().map(|id| self.end_one(key, id, how))).await;
        let answers: Vec<_> = answers.into_iter().collect::<Result<_>>()?;
        Ok(if answers.contains(&Release::Released) { Release::Released } else { Release::NotHeld })
    }

    async fn end_one(self: &Arc<Self>, key: &LeaseKey, id: HolderId, how: Ending) -> Result<Release> {
        let lease = LeaseKey { name: key.name.clone(), holder: id };
        let everybody: Vec<_> = (0..self.nodes.len()).collect();
        let mut round = self.tell(&lease, how, &everybody).await;
        let mut told = Told::default();
        let is_decided = |told: &Told| told.released.max(told.not_held) >= self.majority();
        while !is_decided(&told)
            && let Some((member, answer)) = round.next().await
        {
            told.count(member, answer);
        }
        if told.released + told.not_held < self.majority() {
            return Err(self.outage(&told.failed));
        }
        // Of those who have not answered it isn't known; the lease was theirs unless a majority denies it.
        let had_it = told.not_held < self.majority();
        self.rounds.ends(key, id);
        let (inner, key) = (Arc::clone(self), key.clone());
        let give_up = Instant::now() + RELEASES_ARE_TOLD_FOR;
        in_background(async move {
            let late = round.rest().await.into_iter().filter(|(_, answer)| answer.is_err()).map(|(member, _)| member);
            let left = told.failed.into_iter().map(|(member, _)| member).chain(late).collect();
            inner.tell_until(lease, how, left, give_up).await;
            inner.rounds.forget(&key, id);
        })
        .await;
        Ok(if had_it { Release::Released } else { Release::NotHeld })
    }

    /// Takes a round back from these members, now, and in the background until they have heard of it.
    pub(super) async fn clean_up(self: &Arc<Self>, claim: &Claim, id: HolderId, whom: Vec<usize>) {
        self.end_in_background(claim, id, Ending::Leave, whom).await;
    }

    /// Ends a round that was granted and has run out. Its work may have been begun: nothing is taken back.
    pub(super) async fn bury(self: &Arc<Self>, claim: &Claim, id: HolderId) {
        let everybody = (0..self.nodes.len()).collect();
        self.end_in_background(claim, id, Ending::Release(Ended::default()), everybody).await;
    }

    async fn end_in_background(self: &Arc<Self>, claim: &Claim, id: HolderId, how: Ending, whom: Vec<usize>) {
        let (inner, key) = (Arc::clone(self), key_of(claim));
        let lease = LeaseKey { name: claim.name.clone(), holder: id };
        let patience = claim.due.map_or(claim.ttl, |_| TICKS_ARE_TAKEN_BACK_FOR);
        self.rounds.ends(&key, id);
        in_background(async move {
            inner.tell_until(lease, how, whom, Instant::now() + patience).await;
            inner.rounds.forget(&key, id);
        })
        .await;
    }

    async fn tell_until(&self, lease: LeaseKey, how: Ending, mut whom: Vec<usize>, give_up: Instant) {
        let mut pause = Duration::from_millis(20);
        while !whom.is_empty() {
            let answers = self.tell(&lease, how, &whom).await.rest().await;
            whom = answers.into_iter().filter(|(_, answer)| answer.is_err()).map(|(member, _)| member).collect();
            if whom.is_empty() || Instant::now() >= give_up {
                return;
            }
            sleep(pause.mul_f64(chance::within(0.5..1.0))).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    /// Its calls need nobody to wait for them.
    async fn tell(&self, lease: &LeaseKey, how: Ending, whom: &[usize]) -> Round<'static, Release> {
        let call = |&member: &usize| -> (usize, BoxFuture<'static, Result<Release>>) {
            let (store, lease) = (Arc::clone(&self.nodes[member].store), lease.clone());
            let call = async move {
                match how {
                    Ending::Leave => store.leave(&lease).await.map(|()| Release::NotHeld),
                    Ending::Release(how) => {
                        let member = store.as_member().expect("only members are admitted");
                        member.conclude(&lease, how).await
                    }
                }
            };
            (member, call.boxed())
        };
        Round::send(whom.iter().map(call), LIMIT).await
    }
}

/// Does it as far as it goes at once, so that all it sends is sent in order; and the rest beside us. Without a runtime the
/// rest is left to whoever asks again: the keeper does, on its own.
async fn in_background(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = work.boxed();
    if poll_immediate(&mut work).await.is_none()
        && let Ok(runtime) = Handle::try_current()
    {
        runtime.spawn(work);
    }
}

impl Told {
    fn count(&mut self, member: usize, answer: Result<Release>) {
        match answer {
            Ok(Release::Released) => self.released += 1,
            Ok(Release::NotHeld) => self.not_held += 1,
            Err(error) => self.failed.push((member, error)),
        }
    }
}
