//! Which session has which lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio::time::timeout;

use super::errand::Caller;
use super::held::{About, Held};
use super::home::Home;
use super::session::{Seen, Server, Session};
use super::tether::Tether;
use crate::bound::Bound;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Finding, Severity};
use crate::lease::{Attempt, Claim, FencingToken, HolderId, Holding, LeaseKey, Release, Renewal, Waiter};
use crate::name::LockName;
use crate::store::USUAL_TTL;
use crate::validity::{BootClock, Clock, Moment};

/// How many sessions are kept for the next locks.
const READY: usize = 8;

/// How many sessions are made at a time.
const LOGINS: usize = 8;

/// How long an answer may take; then its session is given up, and ended from another.
const SILENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether a lock has outlived its last heartbeat.
const TICK: Duration = Duration::from_millis(200);

/// A session that was not used for so long is asked whether it is there, where its end is not noticed unasked.
const FRESH: Duration = Duration::from_secs(1);

/// For how long a session that was ended may go on having its locks.
const END: Duration = Duration::from_secs(3);

/// The place of one acquisition. What is asked for it is done one after the other, in the order in which it was asked.
type Place<T> = tokio::sync::Mutex<Option<Held<T>>>;

/// All sessions of a store.
pub(super) struct Sessions<S: Server> {
    server: S,
    home: Home,
    places: Mutex<HashMap<LeaseKey, Arc<Place<S::Session>>>>,
    /// What is held, by the number of its session.
    known: Mutex<HashMap<i64, Arc<About>>>,
    ready: Mutex<Vec<Ready<S::Session>>>,
    /// So many may be made at a time.
    logins: Semaphore,
    /// That nobody between us and the server gives one session to several.
    is_proven: OnceCell<()>,
    /// Somebody minds what is held.
    is_minded: OnceCell<()>,
    has_held: Arc<Notify>,
}

struct Ready<T> {
    session: T,
    tether: Arc<Tether>,
    since: Moment,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For how long the server has to keep a session that is to outlive a TTL: that is to be 0.8 of it at the most.
fn outlasting(ttl: Duration) -> Duration {
    ttl + ttl / 4
}

impl<S: Server> Sessions<S> {
    pub fn new(server: S) -> Self {
        Self {
            server,
            home: Home::default(),
            places: Mutex::default(),
            known: Mutex::default(),
            ready: Mutex::default(),
            logins: Semaphore::new(LOGINS),
            is_proven: OnceCell::new(),
            is_minded: OnceCell::new(),
            has_held: Arc::default(),
        }
    }

    pub fn home(&self) -> Result<Handle> {
        self.home.handle()
    }

    pub fn shown(&self) -> &str {
        self.server.shown()
    }

    pub fn check(&self, name: &LockName) -> Result<()> {
        self.server.check(name)
    }

    /// Asks for a lock. What was granted to somebody who has gone meanwhile is given back, and its session closed.
    pub async fn acquire(self: Arc<Self>, claim: Claim, caller: Caller) -> Result<Attempt> {
        let key = LeaseKey { name: claim.name.clone(), holder: claim.holder };
        let place = self.place(&key);
        let mut held = place.lock().await;
        // Who has gone by now has sent nothing.
        let attempt = match caller.has_gone() {
            true => Err(has_gone()),
            false => self.attempt(&claim, &mut held, &caller).await,
        };
        if caller.has_gone()
            && let Some(mut held) = held.take()
        {
            self.forget(&held);
            let _ = timeout(SILENCE, held.session.give_back(&key.name)).await; // It is closed in any case.
        }
        self.sweep(&key, &place, &held);
        drop(held);
        if self.is_minded.set(()).is_ok() {
            tokio::spawn(mind(Arc::downgrade(&self), Arc::clone(&self.has_held)));
        }
        attempt
    }

    async fn attempt(
        self: &Arc<Self>,
        claim: &Claim,
        held: &mut Option<Held<S::Session>>,
        caller: &Caller,
    ) -> Result<Attempt> {
        if held.is_some()
            && self.heartbeat(held, claim.ttl).await? == Renewal::Renewed
            && let Some(held) = held
        {
            return Ok(Attempt::Granted(held.about.grant(&held.bound)));
        }
        let mut was_made = false;
        loop {
            let began = BootClock.now();
            let Ready { mut session, tether, since } = self.session().await?;
            if caller.has_gone() {
                self.keep(session, tether); // A slow login is not begun anew by each short call.
                return Err(has_gone());
            }
            let sent = BootClock.now();
            match timeout(SILENCE, take(&mut session, claim)).await {
                Ok(Ok(Some(token))) => {
                    let grant = self.hold(held, session, tether, claim, token, sent);
                    return Ok(Attempt::Granted(grant));
                }
                Ok(Ok(None)) => return self.contended(session, tether, claim).await.map(Attempt::Held),
                // It had ended while nobody used it. With it any lock is gone.
                Ok(Err(_)) if session.is_over() && since < began => {}
                // The next session makes what is missing.
                Ok(Err(_)) if self.server.lacks_tables() && !was_made => was_made = true,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(self.give_up(session).await),
            }
        }
    }

    fn hold(
        &self,
        held: &mut Option<Held<S::Session>>,
        session: S::Session,
        tether: Arc<Tether>,
        claim: &Claim,
        token: FencingToken,
        sent: Moment,
    ) -> crate::lease::Grant {
        let (about, bound) = (Arc::new(About::new(claim, token, sent)), Bound::new(Moment::NEVER));
        tether.tie(bound.clone());
        lock(&self.known).insert(session.number(), Arc::clone(&about));
        let grant = about.grant(&bound);
        *held = Some(Held { session, tether, bound, about });
        self.has_held.notify_one();
        grant
    }

    async fn contended(
        self: &Arc<Self>,
        mut session: S::Session,
        tether: Arc<Tether>,
        claim: &Claim,
    ) -> Result<Holding> {
        let seen = timeout(SILENCE, session.holder(&claim.name)).await.map_err(|_| self.silent())??;
        self.keep(session, tether);
        // There is no queue; but who waits here is one of those who stand in line here.
        let ticket = claim.queue.map(|_| 0);
        Ok(Holding { ticket, ..self.told(&claim.name, seen.as_ref()) })
    }

    /// Proves that the lock is held, and has the server keep it for another TTL.
    pub async fn renew(self: Arc<Self>, key: LeaseKey, ttl: Duration) -> Result<Renewal> {
        let place = self.place(&key);
        let mut held = place.lock().await;
        let renewal = self.heartbeat(&mut held, ttl).await;
        self.sweep(&key, &place, &held);
        renewal
    }

    async fn heartbeat(&self, held: &mut Option<Held<S::Session>>, ttl: Duration) -> Result<Renewal> {
        let Some(alive) = held.as_mut().filter(|held| !held.about.is_over() && !held.session.is_over()) else {
            self.lose(held);
            return Ok(Renewal::Gone);
        };
        let (sent, left) = (BootClock.now(), alive.about.remaining());
        let (session, name) = (&mut alive.session, &alive.about.key.name);
        let heartbeat = async {
            session.outlast(outlasting(ttl.max(left))).await?;
            session.has(name).await
        };
        match timeout(left, heartbeat).await {
            Ok(Ok(true)) => {
                alive.about.heard(sent, ttl);
                return Ok(Renewal::Renewed);
            }
            Ok(Err(error)) if !alive.session.is_over() => return Err(error.maybe_applied()),
            _ => {}
        }
        self.lose(held);
        Ok(Renewal::Gone)
    }

    /// Gives a lock back. What had ended is told, whatever the reason.
    pub async fn release(self: Arc<Self>, key: LeaseKey) -> Result<Release> {
        let place = self.place(&key);
        let mut held = place.lock().await;
        let release = match held.take() {
            None => Ok(Release::NotHeld),
            Some(held) => self.give_back(held).await,
        };
        self.sweep(&key, &place, &held);
        release
    }

    async fn give_back(self: &Arc<Self>, mut held: Held<S::Session>) -> Result<Release> {
        self.forget(&held);
        let is_over = held.about.is_over() || held.session.is_over();
        match timeout(SILENCE, held.session.give_back(&held.about.key.name)).await {
            Ok(Ok(true)) if !is_over => {
                self.keep(held.session, held.tether);
                Ok(Release::Released)
            }
            // Closed, and its lock, if it had one, is gone with it.
            Ok(Ok(_)) => Ok(Release::NotHeld),
            Ok(Err(_)) if is_over || held.session.is_over() => Ok(Release::NotHeld),
            Ok(Err(_)) => Ok(Release::Released),
            Err(_) => Err(self.give_up(held.session).await),
        }
    }

    pub async fn inspect(self: &Arc<Self>, name: &LockName) -> Result<Option<Holding>> {
        let seen = self.with_session(async |session| session.holder(name).await).await?;
        Ok(seen.map(|seen| self.told(name, Some(&seen))))
    }

    pub async fn queue(self: &Arc<Self>, name: &LockName) -> Result<Vec<Waiter>> {
        self.with_session(async |session| session.waiters(name).await).await
    }

    pub async fn list(self: &Arc<Self>) -> Result<Vec<Holding>> {
        let seen = self.with_session(async |session| session.holders().await).await?;
        let mut list: Vec<_> = seen.into_iter().map(|(name, seen)| self.told(&name, Some(&seen))).collect();
        for about in lock(&self.known).values().filter(|about| !about.is_over()) {
            list.push(Holding::of(about.key.name.clone(), 1, vec![about.holder()]));
        }
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list.dedup_by(|a, b| a.name == b.name);
        Ok(list)
    }

    /// Ends the session that has a lock, and sees to it that it is gone.
    pub async fn end_holder(self: &Arc<Self>, name: &LockName, holder: Option<HolderId>) -> Result<Option<Holding>> {
        self.with_session(async |session| {
            let Some(seen) = session.holder(name).await? else { return Ok(None) };
            let held = self.told(name, Some(&seen));
            if holder.is_some() && held.holder != holder {
                return Ok(None);
            }
            let ended = session.end(seen.number, &seen.since).await;
            ended.map_err(|error| error.context(self.server.how_to_end(seen.number)))?;
            let gone = async {
                while session.holder(name).await?.is_some_and(|still| still == seen) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(())
            };
            timeout(END, gone).await.unwrap_or_else(|_| Err(self.silent()))?;
            Ok(Some(held))
        })
        .await
    }

    pub async fn time(self: &Arc<Self>) -> Result<Duration> {
        self.with_session(async |session| session.time().await).await
    }

    pub async fn diagnose(self: &Arc<Self>) -> Result<Vec<Finding>> {
        let mut findings = self.server.examine().await?;
        if findings.iter().any(|finding| finding.severity == Severity::Problem) {
            return Ok(findings); // Nothing is made of what is found missing.
        }
        let lasts = outlasting(USUAL_TTL);
        let tried = self
            .with_session(async |session| {
                session.outlast(lasts).await?;
                session.findings().await
            })
            .await;
        match tried {
            Ok(of_sessions) => {
                findings.extend(of_sessions);
                let kept =
                    format!("read back: for a TTL of {USUAL_TTL:?} a session that is silent is kept for {lasts:?}");
                findings.push(Finding::fine("silence", kept));
                let own = "what stands between us and the server gives each client a session of its own";
                findings.push(Finding::fine("sessions", own));
            }
            Err(error) => {
                let fix = "put that right, or use the lease table: leave out mode=advisory";
                findings.push(Finding::problem("sessions", error.to_string(), fix));
            }
        }
        Ok(findings)
    }

    /// What is seen of a name; of our own holds, what we know.
    fn told(&self, name: &LockName, seen: Option<&Seen>) -> Holding {
        let known = lock(&self.known);
        let holder = seen.map(|seen| match known.get(&seen.number).filter(|about| about.key.name == *name) {
            Some(about) => about.holder(),
            None => seen.holder(),
        });
        Holding::of(name.clone(), 1, holder.into_iter().collect())
    }

    /// Asks something that takes no lock.
    async fn with_session<T>(self: &Arc<Self>, ask: impl AsyncFnOnce(&mut S::Session) -> Result<T>) -> Result<T> {
        let Ready { mut session, tether, .. } = self.session().await?;
        let answer = timeout(SILENCE, ask(&mut session)).await.map_err(|_| self.silent())?;
        if answer.is_ok() {
            self.keep(session, tether);
        }
        answer
    }

    /// One that is ready, or a new one.
    async fn session(self: &Arc<Self>) -> Result<Ready<S::Session>> {
        if let Some(ready) = self.next_ready().await {
            return Ok(ready);
        }
        // On a task of its own: others wait for the proof, and not for a caller who stands still.
        let sessions = Arc::clone(self);
        tokio::spawn(async move { sessions.new_or_ready().await }).await.unwrap_or_else(|error| {
            Err(Error::new(ErrorKind::Internal, format!("a session of {} was not made: {error}", self.shown())))
        })
    }

    /// Few at a time: where logins take longer than calls, what earlier callers have left behind is what the next ones get.
    async fn new_or_ready(&self) -> Result<Ready<S::Session>> {
        let _one_of_few = self.logins.acquire().await;
        match self.next_ready().await {
            Some(ready) => Ok(ready),
            None => self.proven().await,
        }
    }

    async fn next_ready(&self) -> Option<Ready<S::Session>> {
        loop {
            let mut ready = lock(&self.ready).pop()?;
            let is_stale = S::LOOKS.is_some() && BootClock.now().since(ready.since) >= FRESH;
            if !ready.session.is_over()
                && (!is_stale || matches!(timeout(SILENCE, ready.session.is_there()).await, Ok(true)))
            {
                return Some(ready);
            }
        }
    }

    /// A new one, which is known to be our own.
    async fn proven(&self) -> Result<Ready<S::Session>> {
        let mut new = self.connect().await?;
        self.is_proven.get_or_try_init(|| self.prove(&mut new.session)).await?;
        Ok(new)
    }

    async fn connect(&self) -> Result<Ready<S::Session>> {
        let tether = Arc::<Tether>::default();
        let session =
            timeout(SILENCE * 2, self.server.connect(Arc::clone(&tether))).await.map_err(|_| self.silent())??;
        Ok(Ready { session, tether, since: BootClock.now() })
    }

    /// Two sessions at a time, asked in turn: whoever shares them among its clients is found out.
    async fn prove(&self, first: &mut S::Session) -> Result<()> {
        let mut second = self.connect().await?;
        let are_own = async { Ok(second.session.is_own().await? && first.is_own().await?) };
        let are_own = timeout(SILENCE, are_own).await.map_err(|_| self.silent())??;
        if !are_own || first.number() == second.session.number() {
            return Err(shared_by_a_pooler(self.shown()));
        }
        self.keep(second.session, second.tether);
        Ok(())
    }

    /// Keeps a session that has no lock and no answer under way.
    fn keep(&self, session: S::Session, tether: Arc<Tether>) {
        let mut ready = lock(&self.ready);
        if ready.len() < READY && !session.is_over() {
            ready.push(Ready { session, tether, since: BootClock.now() });
        }
    }

    /// Closes a session that was asked for something and did not answer, and has the server end it.
    async fn give_up(self: &Arc<Self>, session: S::Session) -> Error {
        let (number, since) = (session.number(), session.since().to_owned());
        drop(session);
        let _ = self.with_session(async |other| other.end(number, &since).await).await; // Else it ends when nothing is heard of it.
        self.silent().maybe_applied()
    }

    fn silent(&self) -> Error {
        Error::new(ErrorKind::TimedOut, format!("{} did not answer in time", self.shown()))
    }

    fn place(&self, key: &LeaseKey) -> Arc<Place<S::Session>> {
        Arc::clone(lock(&self.places).entry(key.clone()).or_default())
    }

    /// Forgets a place where nothing is held and nobody waits.
    fn sweep(&self, key: &LeaseKey, place: &Arc<Place<S::Session>>, held: &Option<Held<S::Session>>) {
        let mut places = lock(&self.places);
        if held.is_none() && Arc::strong_count(place) == 2 {
            places.remove(key);
        }
    }

    /// What is given back is no loss.
    fn forget(&self, held: &Held<S::Session>) {
        held.tether.untie();
        self.unknow(held.session.number(), &held.about);
    }

    /// Its number may be that of another session by now, in another server.
    fn unknow(&self, number: i64, about: &Arc<About>) {
        let mut known = lock(&self.known);
        if known.get(&number).is_some_and(|known| Arc::ptr_eq(known, about)) {
            known.remove(&number);
        }
    }

    /// The lock is gone, or will be with its session, which is closed.
    fn lose(&self, held: &mut Option<Held<S::Session>>) {
        if let Some(held) = held.take() {
            self.unknow(held.session.number(), &held.about);
            held.tether.snap();
        }
    }

    /// Looks at each place by itself: a session that is silent must not hold up the others.
    fn look(self: &Arc<Self>, is_to_ask: bool) {
        for (key, place) in lock(&self.places).iter() {
            let (sessions, key, place) = (Arc::clone(self), key.clone(), Arc::clone(place));
            tokio::spawn(async move { sessions.look_at(key, place, is_to_ask).await });
        }
    }

    /// Closes what has outlived its last heartbeat, and asks its session whether it is there.
    async fn look_at(&self, key: LeaseKey, place: Arc<Place<S::Session>>, is_to_ask: bool) {
        // Else somebody is at it, or an earlier look.
        let Ok(mut held) = place.try_lock() else { return };
        if let Some(held) = held.as_mut()
            && is_there(held, is_to_ask).await
        {
            return;
        }
        self.lose(&mut held);
        self.sweep(&key, &place, &held);
    }
}

fn has_gone() -> Error {
    Error::new(ErrorKind::Closed, "nobody waits for the answer")
}

async fn take<T: Session>(session: &mut T, claim: &Claim) -> Result<Option<FencingToken>> {
    session.outlast(outlasting(claim.ttl)).await?;
    session.take(&claim.name, &claim.label).await
}

/// Whether a lock is still there: its time is not over, and its session has not ended.
async fn is_there<T: Session>(held: &mut Held<T>, is_to_ask: bool) -> bool {
    let left = held.about.remaining();
    if left.is_zero() || held.session.is_over() {
        return false;
    }
    !is_to_ask || timeout(left, held.session.is_there()).await.unwrap_or(false)
}

/// Minds what is held, for as long as the store is there.
async fn mind<S: Server>(sessions: Weak<Sessions<S>>, has_held: Arc<Notify>) {
    let mut asked = BootClock.now();
    loop {
        let is_idle = match sessions.upgrade() {
            None => return,
            Some(sessions) => {
                let is_to_ask = S::LOOKS.is_some_and(|every| BootClock.now().since(asked) >= every);
                if is_to_ask {
                    asked = BootClock.now();
                }
                sessions.look(is_to_ask);
                lock(&sessions.known).is_empty()
            }
        };
        if is_idle {
            has_held.notified().await;
        }
        tokio::time::sleep(TICK).await;
    }
}

/// The error of a server that can't be had for oneself.
pub(crate) fn shared_by_a_pooler(shown: &str) -> Error {
    let message = format!(
        "{shown} can't be used for session locks: what stands between gives one session of the server's to several clients \
         in turn (a pooler in transaction mode), so that locks would be anybody's; connect past it, or leave out \
         mode=advisory: the lease table works there"
    );
    Error::new(ErrorKind::Misconfigured, message)
}
