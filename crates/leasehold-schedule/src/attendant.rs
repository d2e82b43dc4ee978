//! Looks after one job on one node: asks for its ticks, the oldest first and one at a time, and has run what is granted.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use leasehold::{Error, ErrorKind, Guard, Holding, NotDue, Outcome, Tick, Wait};
use tokio::sync::{SemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::cron::hashed;
use crate::ending::Ending;
use crate::event::{Event, How, NotRun};
use crate::instant;
use crate::job::Job;
use crate::node::{LONGEST_PAUSE, Node, SHORTEST_PAUSE};
use crate::orders::{Asked, Pause, Standing};
use crate::plan::{Plan, plan};
use crate::policy::Overlap;
use crate::turn::{Turn, is_for, ticks_of};
use crate::watched::Watched;

/// A hold that is younger may be one of a claim that comes to nothing.
const SETTLED: Duration = Duration::from_secs(2);

/// How long a tick waits for another to end before it is looked what there is to wait for.
const LOOK: Duration = Duration::from_secs(10);

/// The clock is looked at again before it is so late: it may be set to the right time bit by bit.
const A_MINUTE: Duration = Duration::from_secs(60);

/// Whether a tick was skipped is asked for so long. Then it is begun: the ledger is a record, and holds nothing up for ever.
const LONGEST_DOUBT: Duration = Duration::from_secs(60);

/// What was asked for further ahead of our time waits until then, and holds nothing else up: it was stamped by a clock that is fast, or ours
/// is slow. All that is due before it comes first, and must not come much too early.
const AHEAD: SignedDuration = SignedDuration::from_secs(5);

/// What was asked for is not run later than that, however late its job's ticks may be.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Who runs a tick has said so by then.
const TO_TELL: Duration = Duration::from_secs(5);

/// A job on a node.
pub(crate) struct Attendant {
    node: Arc<Node>,
    /// As it is to be run from the next tick on; closed once this node has it no more.
    job: watch::Receiver<Arc<Job>>,
    orders: watch::Receiver<Arc<Standing>>,
    /// The time was set.
    set: watch::Receiver<()>,
    /// Ticks of its schedule up to here have had their turn on this node.
    cursor: Timestamp,
    /// Since when this node has it.
    began: Timestamp,
    /// What was taken for the time last.
    shown: Timestamp,
    /// What was asked for and has had its turn.
    heard: BTreeSet<Timestamp>,
    watched: Watched,
    /// When it is to be read in the ledger what others have begun, or this node before it was started anew, and not ended.
    recalls: Option<Instant>,
    /// Since when nobody can say whether a tick was skipped.
    in_doubt: Option<(Tick, Instant)>,
    /// The newest tick before which those were looked at.
    hurried: Tick,
    waits: Option<Waits>,
    /// When the last one had its turn that waited: until then those behind it could not have theirs.
    served: Timestamp,
    seen: Option<Seen>,
    pause: Duration,
    /// Each says how it has ended; none where it is only to be seen that another node's is recorded.
    runs: JoinSet<Option<(Tick, How)>>,
    running: BTreeSet<Tick>,
}

/// A tick that waits for another to end.
struct Waits {
    tick: Tick,
    since: Instant,
    /// Until it is looked what that one does.
    most: Duration,
    /// It stands in line behind a run that goes on, as its job's terms have it: however long that takes.
    is_in_line: bool,
}

/// Whose run was seen last, from when to when it went on for certain: what was due meanwhile overlapped with it.
struct Seen {
    whose: String,
    from: Timestamp,
    to: Timestamp,
}

/// What is to be done next.
enum Next {
    /// To read which ticks may be open.
    Recall,
    /// To ask for a tick.
    Claim(Claim),
    /// To write down that nobody ran these.
    Missed(Vec<Timestamp>),
}

/// A tick that is to be asked for.
struct Claim {
    tick: Tick,
    origin: Origin,
}

/// Why it is.
enum Origin {
    /// It is due; with those before it that are missed.
    Schedule(Vec<Timestamp>),
    /// An operator asked for it.
    Order(Asked),
    /// It ran elsewhere, or may be open.
    Watched,
}

impl Attendant {
    /// Of a job whose ticks up to `cursor` need no turn.
    pub fn new(node: Arc<Node>, job: watch::Receiver<Arc<Job>>, cursor: Timestamp) -> Self {
        let (orders, set, shown) = (node.orders.subscribe(), node.pace.changes(), node.now());
        let recalls = job.borrow().terms.at_least_once.then(Instant::now);
        Self {
            node,
            job,
            orders,
            set,
            cursor,
            began: shown,
            served: Timestamp::UNIX_EPOCH,
            shown,
            heard: BTreeSet::new(),
            watched: Watched::default(),
            recalls,
            in_doubt: None,
            hurried: Tick::ONLY,
            waits: None,
            seen: None,
            pause: SHORTEST_PAUSE,
            runs: JoinSet::new(),
            running: BTreeSet::new(),
        }
    }

    /// Until the node ends or has the job no more, and what it runs has ended.
    pub async fn attend(mut self) {
        let node = Arc::clone(&self.node);
        while !self.is_to_end() {
            if self.next().is_none() {
                self.rests().await;
                continue;
            }
            let Some(place) = node.place().await else { break };
            // It may have waited for its place.
            match self.next() {
                Some(Next::Recall) => Box::pin(self.recalls()).await,
                Some(Next::Claim(claim)) => Box::pin(self.goes_for(claim, place)).await,
                Some(Next::Missed(ticks)) => Box::pin(self.has_missed(&ticks, place)).await,
                None => (),
            }
        }
        if !node.is_ending() {
            self.leaves_undone().await;
        }
        while self.runs.join_next().await.is_some() {}
    }

    /// Its job has another schedule now, or none: what is due and waits is not asked for any more. Another node may run it all the same, and
    /// says so first.
    async fn leaves_undone(&mut self) {
        let (job, now) = (self.job(), self.node.now());
        let Plan { claim, mut missed } =
            plan(&job.schedule, job.terms.missed, self.cursor, minus(now, jitter(&job)), job.terms.catch_up);
        missed.extend(claim);
        let orders = self.orders.borrow().about(&job.name).1;
        let orders: Vec<_> = orders.into_iter().filter(|asked| !self.heard.contains(&asked.tick)).collect();
        if missed.is_empty() && orders.is_empty() {
            return;
        }
        self.node.sleeps(TO_TELL).await;
        // Under another schedule it is run for them still.
        for asked in orders.into_iter().filter(|_| !self.node.has(&job.name)) {
            let Some(tick) = asked.tick() else { continue };
            let turn = Turn { node: &self.node, job: &job, asked: Some(asked.told()) };
            turn.is_unknown(tick, NotRun::Dropped).await;
        }
        let Some(last) = missed.last().copied() else { return };
        let behind = plus(last, SignedDuration::from_nanos(1));
        let why = |at| self.pause_of(&job, at).map_or(NotRun::Dropped, |pause| NotRun::Paused(pause.told()));
        Turn::of(&self.node, &job).are_not_run(&missed, Some(behind), why).await;
    }

    fn is_to_end(&self) -> bool {
        self.node.is_ending() || self.job.has_changed().is_err()
    }

    fn job(&self) -> Arc<Job> {
        Arc::clone(&self.job.borrow())
    }

    async fn recalls(&mut self) {
        let job = self.job();
        let Some(ledger) = Turn::of(&self.node, &job).ledger_if_any() else { return self.recalls = None };
        let found = self.node.told(ledger.open(matches!(job.terms.overlap, Overlap::Allow(_))).await);
        // The ledger decides nothing, and nothing waits for it.
        self.recalls = if found.is_some() { None } else { Some(Instant::now() + LONGEST_PAUSE) };
        for tick in found.into_iter().flatten().filter_map(instant::tick) {
            if !self.running.contains(&tick) {
                self.watched.look_at(tick);
            }
        }
    }

    /// The oldest of all that there is to do now.
    fn next(&mut self) -> Option<Next> {
        while let Some(ended) = self.runs.try_join_next() {
            self.has_ended(ended.ok().flatten());
        }
        let (job, now) = (self.job(), self.node.now());
        if now < self.shown {
            // The clock was set back: what had its turn too early gets another, and none runs twice.
            self.cursor = self.cursor.min(minus(now, jitter(&job)));
        }
        self.shown = now;
        if self.recalls.is_some_and(|at| at <= Instant::now()) {
            return Some(Next::Recall);
        }
        self.watched.retain(|tick| job.terms.at_least_once || age(now, instant::of_tick(tick)) <= job.terms.catch_up);
        let asked = self.asked(&job);
        // What was asked for comes after all that was due by then.
        let now = asked.as_ref().map_or(now, |asked| now.max(asked.tick));
        let Plan { claim, missed } = self.plan(&job, minus(now, jitter(&job)));
        let due = match claim.first() {
            Some(at) => instant::tick(*at).map(|tick| Claim { tick, origin: Origin::Schedule(missed) }),
            None if !missed.is_empty() => return Some(Next::Missed(missed)),
            None => None,
        };
        let asked = asked.and_then(|asked| Some(Claim { tick: asked.tick()?, origin: Origin::Order(asked) }));
        if let Some(due) = due.as_ref().filter(|due| due.tick > self.hurried) {
            // Claims go oldest first.
            self.hurried = due.tick;
            self.watched.hurry();
        }
        let watched = if self.is_paused(&job) { None } else { self.watched.due() };
        let watched = watched.map(|tick| Claim { tick, origin: Origin::Watched });
        [watched, due, asked].into_iter().flatten().min_by_key(|claim| claim.tick).map(Next::Claim)
    }

    /// What is due by then. A tick in line stays there, however old it is: who comes after it takes its place.
    fn plan(&self, job: &Job, now: Timestamp) -> Plan {
        let terms = &job.terms;
        match self.waits.as_ref().filter(|waits| waits.is_in_line).map(|waits| instant::of_tick(waits.tick)) {
            Some(at) if at > self.cursor && job.schedule.latest_at(at) == Some(at) => {
                let before = minus(at, SignedDuration::from_nanos(1));
                let Plan { missed, .. } = plan(&job.schedule, terms.missed, self.cursor, before, Duration::ZERO);
                Plan { claim: vec![at], missed }
            }
            _ => plan(&job.schedule, terms.missed, self.cursor, now, terms.catch_up),
        }
    }

    /// The oldest that an operator has asked for, and that has had no turn here.
    fn asked(&mut self, job: &Job) -> Option<Asked> {
        let until = plus(self.node.now(), AHEAD);
        let orders = self.orders.borrow();
        let asked = orders.asked.get(&job.name).map(Vec::as_slice).unwrap_or_default();
        self.heard.retain(|tick| asked.binary_search_by_key(tick, |asked| asked.tick).is_ok());
        let has_its_turn = |asked: &&Asked| asked.tick().is_some() && asked.tick <= until;
        asked.iter().filter(has_its_turn).find(|asked| !self.heard.contains(&asked.tick)).cloned()
    }

    /// When the first of those has its turn that were stamped by a clock that is fast.
    fn comes(&self, job: &Job) -> Option<Instant> {
        let now = self.node.now();
        let orders = self.orders.borrow();
        let begin = orders.asked.get(&job.name)?.iter().map(|asked| minus(asked.tick, AHEAD));
        begin.filter(|at| *at > now).min().map(|at| Instant::now() + short_of(age(at, now)))
    }

    fn is_paused(&self, job: &Job) -> bool {
        self.orders.borrow().pauses.get(&job.name).is_some_and(|pause| pause.is_on(self.shown))
    }

    /// When what is watched may be looked at: for as long as the job is paused, when that ends.
    fn looks(&self, job: &Job) -> Option<Instant> {
        let next = self.watched.next()?;
        if !self.is_paused(job) {
            return Some(next);
        }
        let until = self.orders.borrow().pauses.get(&job.name)?.until?;
        Some(next.max(Instant::now() + short_of(age(until, self.node.now()))))
    }

    /// The pause that a tick of its schedule falls into: any that is on now does for all of them.
    fn pause_of(&self, job: &Job, at: Timestamp) -> Option<Pause> {
        let orders = self.orders.borrow();
        let pause = orders.pauses.get(&job.name)?;
        pause.of(at, self.shown).cloned()
    }

    /// Until there may be something to do.
    async fn rests(&mut self) {
        let job = self.job();
        let due = job.schedule.next_after(self.cursor).and_then(|at| at.checked_add(jitter(&job)).ok());
        let due = due.map(|at| Instant::now() + short_of(age(at, self.node.now())));
        let until = due.into_iter().chain(self.looks(&job)).chain(self.comes(&job)).chain(self.recalls).min();
        let node = Arc::clone(&self.node);
        loop {
            tokio::select! {
                biased;
                () = node.ends(Ending::Soon) => (),
                _ = self.job.changed() => (),
                _ = self.orders.changed() => {
                    if self.asked(&job).is_none() && self.comes(&job).is_none() && self.watched.is_empty() {
                        continue; // It is about other jobs, or about ticks of its schedule.
                    }
                }
                _ = self.set.changed() => (),
                Some(ended) = self.runs.join_next() => self.has_ended(ended.ok().flatten()),
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => (),
            }
            return;
        }
    }

    async fn goes_for(&mut self, claim: Claim, place: SemaphorePermit<'_>) {
        let (job, at) = (self.job(), instant::of_tick(claim.tick));
        match &claim.origin {
            Origin::Schedule(_) => {
                if let Some(pause) = self.pause_of(&job, at) {
                    return self.is_not_run(&claim, NotRun::Paused(pause.told())).await;
                }
            }
            Origin::Order(asked)
                if !self.is_in_line(&job, claim.tick)
                    && age(self.shown, asked.tick.max(self.served)) > job.terms.catch_up.min(LONGEST_WAIT) =>
            {
                self.is_over(&claim);
                return self.turn(&job, &claim).is_unknown(claim.tick, NotRun::Missed).await;
            }
            Origin::Order(_) | Origin::Watched => (),
        }
        match self.ask(&job, &claim, place).await {
            None => (),
            Some(Ok(outcome)) => {
                self.pause = SHORTEST_PAUSE;
                self.hears(&job, claim, outcome).await;
            }
            Some(Err(error)) => self.leaves_it_alone(&job, &error).await,
        }
    }

    /// None if something came between that may change what is to be done.
    async fn ask(
        &mut self,
        job: &Job,
        claim: &Claim,
        place: SemaphorePermit<'_>,
    ) -> Option<leasehold::Result<Outcome>> {
        let lock = self.turn(job, claim).lock(claim.tick);
        let waits = self.waits.as_ref().filter(|waits| waits.tick == claim.tick);
        let Some(most) = waits.map(|waits| waits.most) else { return Some(lock.try_acquire().await) };
        drop(place);
        let waiting = lock.wait(Wait::For(most));
        let mut waiting = pin!(waiting.acquire());
        let before = self.orders.borrow().about(&job.name);
        loop {
            tokio::select! {
                biased;
                outcome = &mut waiting => return Some(outcome),
                // Dropped, it leaves the queue.
                () = self.node.ends(Ending::Soon) => return None,
                _ = self.orders.changed() => {
                    if self.orders.borrow().about(&job.name) == before {
                        continue; // It is about other jobs: no reason to lose its place.
                    }
                    return None;
                }
                _ = self.set.changed() => return None,
            }
        }
    }

    /// Nothing else is asked of it meanwhile, and nothing has had its turn.
    async fn leaves_it_alone(&mut self, job: &Job, error: &Error) {
        let is_wrong = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Misconfigured | ErrorKind::AccessDenied);
        self.node.tell(&if is_wrong {
            Event::StoreRefuses { job: &job.name, error }
        } else {
            Event::StoreIsAway { job: &job.name, error }
        });
        self.backs_off().await;
    }

    async fn backs_off(&mut self) {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        self.node.sleeps(pause).await;
    }

    async fn hears(&mut self, job: &Arc<Job>, claim: Claim, outcome: Outcome) {
        match outcome {
            Outcome::Acquired(guard) => self.begins(job, claim, guard).await,
            Outcome::Contended(holding) => self.is_held(job, claim, &holding).await,
            Outcome::NotDue(NotDue::Claimed { newest, unfinished }) => {
                self.is_over(&claim);
                if newest > claim.tick && !unfinished {
                    self.turn(job, &claim).is_overtaken(claim.tick, newest).await;
                }
                if job.terms.at_least_once {
                    let (node, job) = (Arc::clone(&self.node), Arc::clone(job));
                    self.runs.spawn(async move {
                        Turn::of(&node, &job).sees_it_told(claim.tick).await;
                        None
                    });
                }
            }
            Outcome::NotDue(NotDue::InFuture { ahead }) => {
                self.node.tell(&Event::ClockIsFast { job: &job.name, ahead });
                self.node.pace.is_in_doubt();
                self.node.sleeps(ahead.min(LOOK)).await;
            }
            Outcome::NotDue(why @ NotDue::TooOld { .. }) => self.is_not_run(&claim, NotRun::TooOld(why)).await,
        }
    }

    async fn begins(&mut self, job: &Arc<Job>, claim: Claim, guard: Guard) {
        let was_skipped = self.was_skipped(job, &claim, &guard).await;
        if self.is_to_end() || guard.loss().is_some() {
            // Nobody has begun it: the next node may.
            drop(guard.not_started().await);
            return;
        }
        let was_skipped = match was_skipped {
            Ok(was_skipped) => was_skipped,
            Err(error) if self.is_in_doubt_since(claim.tick).elapsed() < LONGEST_DOUBT => {
                drop(guard.not_started().await);
                return self.leaves_it_alone(job, &error).await;
            }
            Err(_) => false,
        };
        self.is_over(&claim);
        let Claim { tick, origin } = claim;
        if was_skipped {
            // Left open it would be anybody's, also of those who have seen it held by us.
            drop(guard.not_needed().await);
        } else {
            self.runs_it(job, tick, &origin, guard);
        }
        if let Origin::Schedule(missed) = origin {
            self.are_missed(job, &missed, Some(instant::of_tick(tick))).await;
        }
    }

    fn runs_it(&mut self, job: &Arc<Job>, tick: Tick, origin: &Origin, guard: Guard) {
        self.running.insert(tick);
        let (node, its_job, asked) = (Arc::clone(&self.node), Arc::clone(job), self.asked_by(tick, origin));
        self.runs.spawn(async move {
            let turn = Turn { node: &node, job: &its_job, asked };
            Some((tick, turn.run(guard, tick).await))
        });
    }

    /// Of what nobody has begun, and either was due before this node had the job or was seen held by another, which may have been
    /// about to look, too: whether those who had it have skipped it, for good.
    async fn was_skipped(&self, job: &Job, claim: &Claim, guard: &Guard) -> leasehold::Result<bool> {
        let may_be = matches!(claim.origin, Origin::Watched) || instant::of_tick(claim.tick) < self.began;
        if may_be && guard.attempt() <= 1 { self.turn(job, claim).was_skipped(claim.tick).await } else { Ok(false) }
    }

    fn has_ended(&mut self, ended: Option<(Tick, How)>) {
        let Some((tick, how)) = ended else { return };
        self.running.remove(&tick);
        // Of what is open by now, whoever comes first takes it.
        if matches!(how, How::Lost(_) | How::Died(_)) && !how.is_its_end() {
            self.watched.see(tick, true, Duration::ZERO);
        }
    }

    /// Somebody has the lock: for this tick, or for another.
    async fn is_held(&mut self, job: &Arc<Job>, claim: Claim, holding: &Holding) {
        let (at_least_once, ends_in) = (job.terms.at_least_once, holding.free_in());
        for other in ticks_of(holding).filter(|tick| at_least_once && *tick != claim.tick) {
            if !self.running.contains(&other) && !self.watched.contains(other) {
                self.watched.see(other, at_least_once, ends_in);
            }
        }
        // That it is running is not known before the store says that it was claimed: whoever has the lock may not have got so far.
        if matches!(claim.origin, Origin::Watched) || labels(holding).any(|label| is_for(label, claim.tick)) {
            let tick = claim.tick;
            if !matches!(claim.origin, Origin::Watched) {
                self.is_over(&claim);
            }
            return self.watched.see(tick, at_least_once, ends_in);
        }
        let due = match claim.origin {
            Origin::Schedule(_) => plus(instant::of_tick(claim.tick), jitter(job)),
            _ => instant::of_tick(claim.tick),
        };
        let (to, held) = (self.node.now(), SignedDuration::try_from(held_for(holding)).unwrap_or_default());
        self.seen = Some(Seen { whose: holding.label.clone(), from: minus(to, held), to });
        let waited = self.waits.take().filter(|waits| waits.tick == claim.tick);
        let since = waited.map_or_else(Instant::now, |waits| waits.since);
        let (is_overlap, next) =
            (self.is_overlap(holding, due, since), self.until_next(job, instant::of_tick(claim.tick)));
        let is_in_line = is_overlap && job.terms.overlap == Overlap::Queue && !next.is_zero();
        if is_overlap && !is_in_line {
            return self.is_not_run(&claim, overlaps(job, holding.label.clone())).await;
        }
        let young = SETTLED.saturating_sub(held_for(holding));
        let most = [young, next].into_iter().filter(|span| !span.is_zero()).fold(LOOK, Duration::min);
        self.waits = Some(Waits { tick: claim.tick, since, most, is_in_line });
    }

    /// Also behind one that stood in the line before it.
    fn is_in_line(&self, job: &Job, tick: Tick) -> bool {
        let is_in_line = |waits: &Waits| waits.is_in_line || job.terms.overlap == Overlap::Queue;
        self.waits.as_ref().is_some_and(|waits| waits.tick == tick && is_in_line(waits))
    }

    /// Whether the job is still running for another tick: who has got the lock since this one was due came late, as it did.
    fn is_overlap(&self, holding: &Holding, due: Timestamp, since: Instant) -> bool {
        let held = held_for(holding);
        if held.is_zero() {
            return since.elapsed() >= SETTLED; // Only its holder knows for how long.
        }
        held >= SETTLED && held >= age(self.node.now(), due)
    }

    /// Since when it has been asked in vain whether this tick was skipped.
    fn is_in_doubt_since(&mut self, tick: Tick) -> Instant {
        let (_, since) = self.in_doubt.filter(|(doubtful, _)| *doubtful == tick).unwrap_or((tick, Instant::now()));
        self.in_doubt = Some((tick, since));
        since
    }

    /// How long it is until the next one is due after a tick; zero if it is.
    fn until_next(&self, job: &Job, tick: Timestamp) -> Duration {
        let next = job.schedule.next_after(tick);
        next.map_or(Duration::MAX, |next| age(plus(next, jitter(job)), self.node.now()))
    }

    /// It needs no turn here any more.
    fn is_over(&mut self, claim: &Claim) {
        match &claim.origin {
            Origin::Schedule(_) => self.cursor = instant::of_tick(claim.tick),
            Origin::Order(asked) => drop(self.heard.insert(asked.tick)),
            Origin::Watched => self.watched.forget(claim.tick),
        }
        if self.waits.take_if(|waits| waits.tick == claim.tick).is_some() {
            self.served = self.shown;
        }
    }

    async fn is_not_run(&mut self, claim: &Claim, why: NotRun) {
        self.is_over(claim);
        let job = self.job();
        self.turn(&job, claim).is_not_run(claim.tick, why).await;
        if let Origin::Schedule(missed) = &claim.origin {
            self.are_missed(&job, missed, Some(instant::of_tick(claim.tick))).await;
        }
    }

    /// There was nothing but these. As long as it can't be written down they have not had their turn.
    async fn has_missed(&mut self, ticks: &[Timestamp], place: SemaphorePermit<'_>) {
        let job = self.job();
        let is_known = self.are_missed(&job, ticks, None).await;
        drop(place);
        if is_known {
            self.cursor = ticks.last().copied().unwrap_or(self.cursor);
            self.pause = SHORTEST_PAUSE;
        } else {
            self.backs_off().await;
        }
    }

    /// Whether it is known what became of these ticks, which all came before another.
    async fn are_missed(&self, job: &Job, ticks: &[Timestamp], before: Option<Timestamp>) -> bool {
        let overlap = |at| {
            let due = plus(at, jitter(job));
            self.seen.as_ref().filter(|seen| seen.from <= due && due <= seen.to).map(|seen| seen.whose.clone())
        };
        let why = |at| match self.pause_of(job, at) {
            Some(pause) => NotRun::Paused(pause.told()),
            None => overlap(at).map_or(NotRun::Missed, |whose| overlaps(job, whose)),
        };
        Turn::of(&self.node, job).are_not_run(ticks, before, why).await
    }

    fn turn<'a>(&'a self, job: &'a Job, claim: &Claim) -> Turn<'a> {
        Turn { node: &self.node, job, asked: self.asked_by(claim.tick, &claim.origin) }
    }

    /// Who has asked for a tick, and why; none if its schedule did.
    fn asked_by(&self, tick: Tick, origin: &Origin) -> Option<String> {
        match origin {
            Origin::Order(asked) => Some(asked.told()),
            Origin::Schedule(_) => None,
            Origin::Watched => {
                let orders = self.orders.borrow();
                let asked = orders.asked.get(&self.job.borrow().name)?;
                asked.iter().find(|asked| asked.tick() == Some(tick)).map(Asked::told)
            }
        }
    }
}

/// Who does not wait in line, or does no longer.
fn overlaps(job: &Job, whose: String) -> NotRun {
    if job.terms.overlap == Overlap::Queue { NotRun::Displaced(whose) } else { NotRun::Overlaps(whose) }
}

fn labels(holding: &Holding) -> impl Iterator<Item = &String> {
    std::iter::once(&holding.label).chain(holding.others.iter().map(|other| &other.label))
}

/// For how long all permits have been held.
fn held_for(holding: &Holding) -> Duration {
    holding.others.iter().map(|other| other.held_for).fold(holding.held_for, Duration::min)
}

/// Spread over what is due at the same time.
fn jitter(job: &Job) -> SignedDuration {
    SignedDuration::try_from(hashed::jitter(&job.name, job.terms.jitter)).unwrap_or_default()
}

/// How long after `earlier` it is; zero if it is before.
fn age(later: Timestamp, earlier: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

/// So long may be slept before something that is so far away.
fn short_of(span: Duration) -> Duration {
    if span <= A_MINUTE { span } else { span * 9 / 10 }
}

fn minus(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_sub(span).unwrap_or(at)
}

fn plus(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_add(span).unwrap_or(at)
}
