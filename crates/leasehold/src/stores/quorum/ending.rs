//! Releasing, and cleaning up what came to nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all, poll_immediate};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::debts::{Next, Untold};
use super::round::{Answer, Round, has_timers};
use super::rounds::key_of;
use super::{Inner, LIMIT, LONGEST_PAUSE, SHORTEST_PAUSE};
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

/// Where something is to be told later, it is looked for so often.
const LOOKS_EVERY: Duration = Duration::from_millis(250);

/// So much is told at a time to a member that answers; to one that doesn't, one thing after another.
const AT_ONCE: usize = 64;

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
        let rounds = match how {
            // What else there was is being cleaned up.
            Ending::Release(_) => self.rounds.to_release(key),
            Ending::Leave => self.rounds.all(key),
        };
        // All are sent before the first answer is looked at, an error among them.
        let answers = join_all(rounds.into_iter().map(|id| self.end_one(key, id, how))).await;
        let answers: Vec<_> = answers.into_iter().collect::<Result<_>>()?;
        self.rounds.is_told(key, how);
        Ok(if answers.contains(&Release::Released) { Release::Released } else { Release::NotHeld })
    }

    async fn end_one(self: &Arc<Self>, key: &LeaseKey, id: HolderId, how: Ending) -> Result<Release> {
        let lease = LeaseKey { name: key.name.clone(), holder: id };
        let everybody: Vec<_> = (0..self.nodes.len()).collect();
        // From now on nobody puts it back.
        let untold = self.rounds.ends(key, id, how);
        let mut round = self.tell(&lease, how, &everybody).await;
        let mut told = Told::default();
        let is_decided = |told: &Told| told.released.max(told.not_held) >= self.majority();
        while !is_decided(&told)
            && let Some((member, answer)) = round.next().await
        {
            told.count(member, answer);
        }
        if !is_decided(&told) {
            let error = self.outage(&told.failed);
            return Err(if told.released + told.not_held > 0 { error.maybe_applied() } else { error });
        }
        let had_it = told.released >= self.majority();
        let inner = Arc::clone(self);
        in_background(async move {
            let late = failed(round.rest().await);
            let left = told.failed.into_iter().map(|(member, _)| member).chain(late).collect();
            inner.tell_later(&untold, left);
        })
        .await;
        Ok(if had_it { Release::Released } else { Release::NotHeld })
    }

    /// Takes a round back from these members, now, and in the background until they have heard of it. Waits for the answers of
    /// `those`, `patience` at the most: a process that ends as soon as it is told shall leave no vote behind that is in others'
    /// way for a TTL.
    pub(super) async fn clean_up(
        self: &Arc<Self>,
        claim: &Claim,
        id: HolderId,
        whom: Vec<usize>,
        those: Vec<usize>,
        patience: Duration,
    ) {
        let answered = self.end_in_background(claim, id, Ending::Leave, whom, those).await;
        if has_timers() {
            // An error says that its other end was dropped: they have answered, or nobody is left who would hear them.
            let _ = timeout(patience, answered).await;
        }
    }

    /// Ends a round that was granted and has run out. Its work may have been begun: nothing is taken back.
    pub(super) async fn bury(self: &Arc<Self>, claim: &Claim, id: HolderId) {
        let everybody = (0..self.nodes.len()).collect();
        drop(self.end_in_background(claim, id, Ending::Release(Ended::default()), everybody, Vec::new()).await);
    }

    /// What is returned ends once `those` have answered.
    pub(super) async fn end_in_background(
        self: &Arc<Self>,
        claim: &Claim,
        id: HolderId,
        how: Ending,
        whom: Vec<usize>,
        mut those: Vec<usize>,
    ) -> oneshot::Receiver<Infallible> {
        let inner = Arc::clone(self);
        let untold = self.rounds.ends(&key_of(claim), id, how);
        let (is_waited_for, over) = oneshot::channel();
        let mut is_waited_for = Some(is_waited_for);
        in_background(async move {
            let lease = LeaseKey { name: untold.key.name.clone(), holder: id };
            let (mut round, mut left) = (inner.tell(&lease, how, &whom).await, Vec::new());
            loop {
                is_waited_for.take_if(|_| those.is_empty());
                let Some((member, answer)) = round.next().await else { break };
                those.retain(|other| *other != member);
                if answer.is_err() {
                    left.push(member);
                }
            }
            inner.tell_later(&untold, left);
        })
        .await;
        over
    }

    /// Tells it these members, who could not be reached, until they have heard of it.
    fn tell_later(self: &Arc<Self>, untold: &Untold, whom: Vec<usize>) {
        if Handle::try_current().is_err() {
            if whom.is_empty() {
                self.rounds.forget(&untold.key, untold.id);
            }
            return;
        }
        if whom.is_empty() {
            return self.begin_to_tell(self.rounds.is_told_to_all(&untold.key, untold.id));
        }
        let whom = whom.into_iter().filter(|member| self.rounds.owe(*member, untold.clone())).collect();
        self.begin_to_tell(whom);
    }

    /// All that one of them has not heard of, of whatever acquisition, is told by one task.
    fn begin_to_tell(self: &Arc<Self>, whom: Vec<usize>) {
        let Ok(runtime) = Handle::try_current() else { return };
        for member in whom {
            let teller = Teller { inner: Arc::clone(self), member, is_done: false };
            runtime.spawn(teller.tell());
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
pub(super) async fn in_background(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = work.boxed();
    if poll_immediate(&mut work).await.is_none()
        && let Ok(runtime) = Handle::try_current()
    {
        runtime.spawn(work);
    }
}

/// Those who have not answered.
fn failed(answers: Vec<Answer<Release>>) -> impl Iterator<Item = usize> {
    answers.into_iter().filter(|(_, answer)| answer.is_err()).map(|(member, _)| member)
}

/// Tells one member what it has not heard of.
struct Teller {
    inner: Arc<Inner>,
    member: usize,
    is_done: bool,
}

impl Teller {
    async fn tell(mut self) {
        let (mut pause, mut most) = (SHORTEST_PAUSE, AT_ONCE);
        loop {
            sleep(pause.mul_f64(chance::within(0.5..1.0))).await;
            let next = match self.inner.rounds.owed(self.member, most) {
                Next::Tell(next) => next,
                Next::Later => {
                    pause = LOOKS_EVERY;
                    continue;
                }
                Next::Nothing => {
                    self.is_done = true;
                    return;
                }
            };
            let heard: Vec<_> = join_all(next.into_iter().map(|untold| self.say(untold))).await;
            let heard: Vec<_> = heard.into_iter().flatten().collect();
            (pause, most) =
                if heard.is_empty() { ((pause * 2).min(LONGEST_PAUSE), 1) } else { (SHORTEST_PAUSE, AT_ONCE) };
            let whom = self.inner.rounds.heard(self.member, &heard);
            self.inner.begin_to_tell(whom);
        }
    }

    /// If it has heard of it.
    async fn say(&self, untold: Untold) -> Option<Untold> {
        let lease = LeaseKey { name: untold.key.name.clone(), holder: untold.id };
        let answers = self.inner.tell(&lease, untold.how, &[self.member]).await.rest().await;
        failed(answers).next().is_none().then_some(untold)
    }
}

/// With its runtime, perhaps, before all is told: whoever finds something to tell on another begins anew.
impl Drop for Teller {
    fn drop(&mut self) {
        if !self.is_done {
            self.inner.rounds.gives_up(self.member);
        }
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
