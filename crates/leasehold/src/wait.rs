//! One acquisition: trying, waiting in line, and leaving nothing behind.
//!
//! *Waiting* means that somebody else holds the lock; *retrying* that the store hiccuped. They have
//! different code and different limits. Waiters of one client stand in line inside it, so that one at a
//! time contends in the store; in the store they queue in order of arrival. Wake-ups are hints:
//! subscribe, **then** try, then wait, with a timer that makes a lost hint cost half a second at most.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Applied, Error, ErrorKind, Result};
use crate::event::{Answer, Event};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::keeper::{Cleanup, Undo, jittered};
use crate::lease::{Attempt, Claim, Grant, HandOver, Holder, HolderId, Holding, LeaseKey, Place};
use crate::lock::{Outcome, Terms, Wait};
use crate::locks::Client;
use crate::name::LockName;
use crate::presence::{Presence, STUCK};
use crate::rule::Rule;
use crate::store::{QUEUE_ENTRY, WakeUps};
use crate::tick::NotDue;
use crate::validity::{self, Moment};

/// How often a store that hiccups is asked by somebody who doesn't wait, and has not said for how long.
const TRIES: u32 = 3;

/// For how long it is asked again.
const PATIENCE: Duration = Duration::from_secs(2);

/// How soon, before jitter: a hiccup is over at once, or it is none.
const HICCUP: Duration = Duration::from_millis(100);

/// How often a waiter looks at a store that wakes it. Half the life of its entry: each look renews that.
const POLL: Duration = QUEUE_ENTRY.checked_div(2).expect("2 is not 0");

/// For how long an answer may be under way (`layers::Timeout`): who waits for one is not stuck.
const CALL: Duration = Duration::from_secs(5);

/// The same for a store without wake-ups, at the most and before jitter.
const POLL_WITHOUT_WAKE_UPS: Duration = Duration::from_millis(250);

/// One attempt at a lock, under one identity. Dropped before it has ended, it is undone in the background.
pub(crate) struct Acquisition {
    client: Arc<Client>,
    terms: Terms,
    claim: Claim,
    began: Moment,
    /// Something of ours may be in the store: a queue entry, or a grant whose answer has not come.
    in_store: bool,
    /// Somebody else was seen to have it, or to be before us.
    contended: bool,
    /// What became of it was told.
    has_ended: bool,
    /// By what the keeper sees that we still look, where the lock may be handed over to us.
    presence: Option<Arc<Presence>>,
}

/// What one try came to.
enum Tried {
    Granted(Guard),
    Held(Holding),
    NotDue(NotDue),
}

/// Before anything is granted: a release could only keep the lock from everybody by not giving it back.
fn check_minimum_hold(client: &Client, terms: &Terms) -> Result<()> {
    if terms.at_least_for.is_zero() || !client.store.traits().session_bound {
        return Ok(());
    }
    let message = "session locks (mode=advisory) have no minimum hold (--at-least-for); use the lease table for that, which is \
                   the default: leave out mode=advisory";
    Err(Error::new(ErrorKind::Misconfigured, message))
}

impl Acquisition {
    pub fn begin(client: &Arc<Client>, terms: Terms) -> Result<Self> {
        client.check_open()?;
        check_minimum_hold(client, &terms)?;
        client.keeper.start()?;
        client.observe(&Event::Asked { name: &terms.name });
        let claim = Claim {
            name: terms.name.clone(),
            holder: HolderId::fresh(),
            label: Arc::clone(&terms.label),
            ttl: terms.ttl,
            permits: terms.permits,
            due: terms.due,
            queue: None,
        };
        Ok(Self {
            began: client.clock.now(),
            client: Arc::clone(client),
            terms,
            claim,
            in_store: false,
            contended: false,
            has_ended: false,
            presence: None,
        })
    }

    /// Asks without waiting for anybody. All tries have one identity: what an earlier one may have left is our own.
    pub async fn once(mut self) -> Result<Outcome> {
        let outcome = self.ask().await;
        self.tell_answer(&outcome);
        outcome
    }

    /// Waits in line for as long as the terms allow.
    pub async fn wait(mut self) -> Result<Outcome> {
        let outcome = self.stand_in_line().await;
        self.tell_answer(&outcome);
        outcome
    }

    async fn ask(&mut self) -> Result<Outcome> {
        let mut tries = 0;
        loop {
            self.client.check_open()?;
            tries += 1;
            match self.try_now().await {
                Ok(Tried::Granted(guard)) => return Ok(Outcome::Acquired(guard)),
                Ok(Tried::Held(holding)) => return Ok(Outcome::Contended(holding)),
                Ok(Tried::NotDue(why)) => return Ok(Outcome::NotDue(why)),
                Err(error) if error.is_transient() && self.may_ask_again(tries) => self.tell_failed(&error),
                Err(error) => return Err(self.honest(error)),
            }
            tokio::time::sleep(jittered(if tries < TRIES { HICCUP } else { POLL })).await;
        }
    }

    async fn stand_in_line(&mut self) -> Result<Outcome> {
        let client = Arc::clone(&self.client);
        let deadline = match self.terms.wait {
            Wait::Forever => Moment::NEVER,
            Wait::For(most) => self.began + most,
        };
        let Some(mut turn) = by(&client, deadline, client.lines.turn(&client, &self.claim.name)).await else {
            self.contended = true;
            return self.behind_ours().await.map(Outcome::Contended);
        };
        self.contended = turn.standing.is_behind;
        self.claim.queue = Some(Place::default());
        let mut wake_ups = None;
        if client.store.traits().hands_over {
            // Both before it can be given anything.
            wake_ups = Some(self.subscribe().await);
            self.be_minded();
        }
        let mut failing_since: Option<Moment> = None;
        let mut handed_over: Option<HandOver> = None;
        loop {
            client.check_open()?;
            turn.look(client.clock.now());
            // The first try gets a moment even of somebody who has none to wait.
            let limit = deadline.max(client.clock.now() + POLL);
            let tried = match handed_over.take() {
                Some(given) => Some(self.granted(given.grant, given.sent).map(Tried::Granted)),
                None => by(&client, limit, self.try_now()).await,
            };
            let pause = match tried.unwrap_or_else(|| Err(no_answer_in_time())) {
                Ok(Tried::Granted(guard)) => return Ok(Outcome::Acquired(guard)),
                Ok(Tried::NotDue(why)) => return Ok(Outcome::NotDue(why)),
                Ok(Tried::Held(holding)) => {
                    failing_since = None;
                    self.claim.queue = Some(Place { ticket: holding.ticket, sent: None });
                    self.tell_waiting(&holding);
                    if holding.ticket.is_none() {
                        turn.step_aside(); // Its tick runs elsewhere: a permit that is free is not for it.
                    }
                    if client.clock.now() >= deadline {
                        self.leave().await;
                        return Ok(Outcome::Contended(holding));
                    }
                    if wake_ups.is_none() {
                        wake_ups = Some(self.subscribe().await);
                        continue; // What was released before the subscription stood is seen now.
                    }
                    self.pause_for(&holding)
                }
                Err(error) => {
                    let now = client.clock.now();
                    if error.is_passing() {
                        failing_since = None;
                    }
                    let since = *failing_since.get_or_insert(now);
                    if !may_pass(&error) || now.since(since) >= self.terms.ttl || now >= deadline {
                        return Err(self.honest(error));
                    }
                    self.tell_failed(&error);
                    jittered(POLL)
                }
            };
            let given = self.sleep(pause, deadline, wake_ups.as_mut()).await;
            handed_over = given.filter(|given| self.may_take(given));
        }
    }

    /// The answer to somebody whose time is over while another of this client was before it.
    async fn behind_ours(&self) -> Result<Holding> {
        let soon = self.client.clock.now() + POLL;
        let held = by(&self.client, soon, self.client.store.inspect(&self.claim.name)).await;
        // A store that can't say is an outage; that one of ours waits for it doesn't make it contention.
        let held = held.unwrap_or_else(|| Err(Error::new(ErrorKind::TimedOut, NO_ANSWER)))?;
        let ours = Holder { label: self.claim.label.to_string(), ..Holder::default() };
        let name = self.claim.name.clone();
        Ok(held.unwrap_or_else(|| Holding { waiting: 1, ..Holding::of(name, self.claim.permits.get(), vec![ours]) }))
    }

    /// Whether asking again takes no longer than was said, or than somebody who doesn't wait would think right: a store that
    /// is silent is not asked three times for five seconds.
    fn may_ask_again(&self, tries: u32) -> bool {
        let asked_for = self.client.clock.now().since(self.began);
        match self.terms.patience {
            Some(patience) => asked_for < patience,
            None => tries < TRIES && asked_for < PATIENCE,
        }
    }

    /// An earlier try may have reached the store, whatever became of the last one.
    fn honest(&self, error: Error) -> Error {
        if self.in_store { error.maybe_applied() } else { error }
    }

    /// One try; the validity of what it grants counts from before this try was sent, not from the first.
    async fn try_now(&mut self) -> Result<Tried> {
        let sent = self.client.clock.now();
        if !self.is_present_until(sent + CALL) {
            self.start_anew();
        }
        self.claim.queue = self.claim.queue.map(|place| Place { sent: Some(sent), ..place });
        let uncertain = self.in_store;
        self.in_store = true;
        let answer = self.client.store.try_acquire(&self.claim).await;
        self.is_present_until(self.client.clock.now());
        let sent = if Rule::LeasesCountFromTheSend.holds() { sent } else { self.client.clock.now() };
        match answer {
            Ok(Attempt::Granted(grant)) => self.granted(grant, sent).map(Tried::Granted),
            Ok(Attempt::Held(holding)) => {
                self.in_store = uncertain || self.claim.queue.is_some();
                self.contended = true;
                Ok(Tried::Held(holding))
            }
            Ok(Attempt::NotDue(why)) => {
                // An earlier try whose answer was lost may have had the tick: then it is to be taken back.
                self.in_store = uncertain;
                self.not_due(why);
                Ok(Tried::NotDue(why))
            }
            Err(error) => {
                self.in_store = uncertain || error.applied() == Applied::Maybe;
                Err(error)
            }
        }
    }

    /// Whoever may be handed the lock while it does not look is minded by the keeper.
    fn be_minded(&mut self) {
        let Client { keeper, store, .. } = &*self.client;
        self.presence = Some(keeper.mind(store, self.key(), self.terms.ttl));
    }

    /// Says that this waiter looks, or waits for the answer to its look. False once it was given up.
    fn is_present_until(&self, moment: Moment) -> bool {
        self.presence.as_ref().is_none_or(|presence| presence.look(moment))
    }

    /// Under another identity, at the same place: the keeper has taken this waiter for stuck and is taking back all
    /// that the old one may have, whenever its claims are executed.
    fn start_anew(&mut self) {
        self.take_back();
        self.claim.holder = HolderId::fresh();
        self.in_store = false;
        self.be_minded();
    }

    /// Whether a hand-over is for this acquisition, and worth more than asking: of a short TTL little may be left.
    fn may_take(&self, given: &HandOver) -> bool {
        let now = self.client.clock.now();
        let is_ours = given.holder == self.claim.holder && (self.began..=now).contains(&given.sent);
        is_ours && now.since(given.sent) <= self.terms.ttl / 6
    }

    /// Holds what was granted to the claim that was sent at `sent`.
    fn granted(&mut self, grant: Grant, sent: Moment) -> Result<Guard> {
        if self.presence.as_ref().is_some_and(|presence| !presence.settle()) {
            self.start_anew();
            let stuck = "this waiter has not looked for seconds and was given up; its task hangs or is not polled";
            return Err(Error::new(ErrorKind::TimedOut, stuck).maybe_applied());
        }
        let now = self.client.clock.now();
        let valid_until = validity::until(sent, self.terms.ttl);
        if now + self.terms.stop_grace >= valid_until {
            let late = "the store's grant came so late that it is nearly over; the store or this machine is overloaded";
            return Err(Error::new(ErrorKind::TimedOut, late).maybe_applied());
        }
        let gave_up = grant.gave_up;
        let hold = Arc::new(Hold::new(self.key(), grant, &self.terms, now, valid_until));
        let guard = Guard::new(Arc::clone(&self.client), Arc::clone(&hold));
        self.in_store = false; // From here on the guard gives it back, whatever happens.
        {
            let _telling = hold.telling();
            self.client.observe(&Event::Acquired {
                name: &hold.key.name,
                holder: hold.key.holder,
                token: hold.token,
                waited: now.since(self.began),
                valid_until: hold.valid_until(),
            });
        }
        if let Some(tick) = gave_up {
            self.client.observe(&Event::GaveUp { name: &hold.key.name, tick });
        }
        // After the event: whoever is told of renewals has been told of the grant before.
        self.client.keeper.watch(hold, sent);
        Ok(guard)
    }

    fn not_due(&self, why: NotDue) {
        if let Some(due) = self.claim.due {
            self.client.observe(&Event::NotDue { name: &self.claim.name, tick: due.tick, why: &why });
        }
    }

    async fn subscribe(&self) -> WakeUps {
        // Without hints the poll finds it: no reason to fail, nor to lose the place in the queue over it.
        let soon = self.client.clock.now() + POLL;
        let subscribed = by(&self.client, soon, self.client.store.subscribe(&self.claim.name)).await;
        subscribed.and_then(Result::ok).unwrap_or_else(WakeUps::silent)
    }

    /// Until the holder's lease ends or the next look is due.
    fn pause_for(&self, holding: &Holding) -> Duration {
        let poll = if self.client.store.traits().wake_ups { POLL } else { POLL_WITHOUT_WAKE_UPS };
        let poll = jittered(poll);
        let free_in = holding.free_in();
        if free_in.is_zero() {
            return poll; // In flight, or free and another's turn: asking again at once helps nobody.
        }
        poll.min(free_in + jittered(Duration::from_millis(5)))
    }

    /// Until the next look is due or a hint comes; what it hands over.
    async fn sleep(&self, pause: Duration, deadline: Moment, wake_ups: Option<&mut WakeUps>) -> Option<HandOver> {
        let pause = pause.min(deadline.since(self.client.clock.now()));
        let hint = async {
            match wake_ups {
                Some(wake_ups) => wake_ups.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::time::timeout(pause, hint).await.ok().flatten()
    }

    fn tell_answer(&mut self, outcome: &Result<Outcome>) {
        self.has_ended = true;
        if !self.client.is_observed() {
            return;
        }
        let answer = match outcome {
            Ok(Outcome::Acquired(_)) => Answer::Acquired,
            Ok(Outcome::Contended(holding)) => Answer::Contended(holding),
            Ok(Outcome::NotDue(why)) => Answer::NotDue(why),
            Err(error) => Answer::Failed(error),
        };
        let (name, waited) = (&self.claim.name, self.client.clock.now().since(self.began));
        self.client.observe(&Event::Answered { name, waited, contended: self.contended, answer });
    }

    fn tell_waiting(&self, holding: &Holding) {
        let waited = self.client.clock.now().since(self.began);
        self.client.observe(&Event::Waiting { name: &self.claim.name, holding, waited });
    }

    fn tell_failed(&self, error: &Error) {
        let waited = self.client.clock.now().since(self.began);
        self.client.observe(&Event::AcquireFailed { name: &self.claim.name, error, waited });
    }

    /// Out of the queue, now; if the store doesn't answer, in the background.
    async fn leave(&mut self) {
        let key = self.key();
        if self.client.store.leave(&key).await.is_ok() {
            self.in_store = false;
        }
    }

    fn key(&self) -> LeaseKey {
        LeaseKey { name: self.claim.name.clone(), holder: self.claim.holder }
    }

    /// Takes back, in the background, what may be in the store.
    fn take_back(&self) {
        self.client.keeper.clean_up(Cleanup {
            store: Arc::clone(&self.client.store),
            key: self.key(),
            what: Undo::Claim { has_tick: self.claim.due.is_some() },
            give_up_at: self.client.clock.now() + self.terms.ttl,
        });
    }
}

impl Drop for Acquisition {
    fn drop(&mut self) {
        if self.in_store {
            self.take_back();
        }
        if !self.has_ended {
            let (name, waited) = (&self.claim.name, self.client.clock.now().since(self.began));
            self.client.observe_at_the_end(&Event::Withdrawn { name, waited });
        }
    }
}

/// The output of `future`, unless the deadline comes first.
async fn by<T>(client: &Client, deadline: Moment, future: impl Future<Output = T>) -> Option<T> {
    if deadline == Moment::NEVER {
        return Some(future.await); // No timer is made that would be moved about for nothing.
    }
    let left = deadline.since(client.clock.now());
    tokio::time::timeout(left, future).await.ok()
}

const NO_ANSWER: &str = "the store did not answer while there was time to wait";

fn no_answer_in_time() -> Error {
    Error::new(ErrorKind::TimedOut, NO_ANSWER).maybe_applied()
}

/// Whether somebody who waits anyway may wait for it to pass: a disk that is full now may not be so for long.
fn may_pass(error: &Error) -> bool {
    error.is_transient() || error.kind() == ErrorKind::Refused
}

/// The lines of a client's own waiters, one for each name that is waited for.
#[derive(Default)]
pub(crate) struct Lines {
    by_name: Mutex<HashMap<LockName, Line>>,
}

struct Line {
    first: Arc<First>,
    standing: usize,
}

/// The place at the head of a line.
struct First {
    turn: Arc<Semaphore>,
    /// When whoever is there last looked at the store.
    looked: AtomicU64,
}

/// Being first in the client's own line (or past one that is stuck). Dropping it lets the next one come.
struct Turn {
    permit: Option<OwnedSemaphorePermit>,
    standing: Standing,
}

/// Being in the client's own line, anywhere.
struct Standing {
    lines: Arc<Lines>,
    name: LockName,
    first: Arc<First>,
    /// Another of this client was there before.
    is_behind: bool,
}

impl Turn {
    /// Whoever is first says so each time that it looks at the store.
    fn look(&self, now: Moment) {
        if self.permit.is_some() {
            self.standing.first.looked.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Lets the next one come, and waits on without being first.
    fn step_aside(&mut self) {
        self.permit = None;
    }
}

impl Lines {
    async fn turn(self: &Arc<Self>, client: &Client, name: &LockName) -> Turn {
        let standing = self.stand(name, client.clock.now());
        let mut turn = std::pin::pin!(Arc::clone(&standing.first.turn).acquire_owned());
        loop {
            tokio::select! {
                biased;
                permit = &mut turn => return Turn { permit: Some(permit.expect("a line is never closed")), standing },
                () = tokio::time::sleep(STUCK / 2) => {}
            }
            let looked = Moment::from_nanos(standing.first.looked.load(Ordering::Relaxed));
            if client.clock.now().since(looked) > STUCK {
                return Turn { permit: None, standing };
            }
        }
    }

    fn stand(self: &Arc<Self>, name: &LockName, now: Moment) -> Standing {
        let mut lines = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(name.clone()).or_insert_with(|| {
            let turn = Arc::new(Semaphore::new(1));
            Line { first: Arc::new(First { turn, looked: AtomicU64::new(now.as_nanos()) }), standing: 0 }
        });
        let is_behind = line.standing > 0;
        line.standing += 1;
        Standing { lines: Arc::clone(self), name: name.clone(), first: Arc::clone(&line.first), is_behind }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let mut lines = self.lines.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get_mut(&self.name) {
            line.standing -= 1;
            if line.standing == 0 {
                lines.remove(&self.name);
            }
        }
    }
}
