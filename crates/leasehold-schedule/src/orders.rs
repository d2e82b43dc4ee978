//! What operators ask of the whole fleet: that a job pauses, and that it runs now.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use leasehold::store::{Note, NoteId, Noted, Search, Topic};
use leasehold::{Error, ErrorKind, Guard, HolderId, LockName, Locks, NotDue, Outcome, Result, Tick, Wait};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::board::{self, KnownJob};
use crate::instant;
use crate::job::{ASKING, check_name};
use crate::ledger::Ledger;
use crate::state::State;

const PAUSES: Topic = Topic::of_all("pauses");
const ASKED: Topic = Topic::of_all("asked");

/// A pause is kept for so long from when it was asked for: none is longer.
const KEEP_PAUSES: Duration = Duration::from_secs(400 * 24 * 3600);
const MOST_PAUSES: u32 = 10_000;

const A_MILLISECOND: SignedDuration = SignedDuration::from_millis(1);

/// A note may be seen later than one that is stamped later, by so much: by as long as a call takes, and where its writer stamps it by
/// as much as that one's clock is slow. There are few.
const LATE: Duration = Duration::from_secs(5 * 60);

/// What has gone since is noticed after so many looks.
const LOOKS: u32 = 100;

/// So many earlier ones of a job are remembered.
const MOST_BEFORE: usize = 8;

/// Whoever is to run what was asked for looks every few seconds; but it may stand in line behind a run of a day, and of what nobody took
/// whoever starts later says so.
const KEEP_ASKED: Duration = Duration::from_secs(25 * 3600);
const MOST_ASKED: u32 = 1000;

/// Whoever dies while it asks holds others up for so long.
const ASKING_TTL: Duration = Duration::from_secs(5);

/// For so long it waits for others that ask.
const PATIENCE: Duration = Duration::from_secs(20);

/// The instants that were given out are remembered for so long.
const KEEP_INSTANTS: Duration = Duration::from_secs(24 * 3600);

/// That a job is paused, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// By whom.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Since when, by the store's clock.
    pub since: Timestamp,
    /// Until when; none if until it is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Those before it, the last first: what fell into them is not made up for either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    before: Vec<Pause>,
}

/// That a job is to run now.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asked {
    /// Which job.
    pub job: String,
    /// By whom.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// When, by the store's clock. It is run as a tick of this instant is: once, over the whole fleet.
    pub tick: Timestamp,
}

/// All that was asked for of late.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    /// By job.
    pub pauses: HashMap<String, Pause>,
    /// By job; the oldest first.
    pub asked: HashMap<String, Vec<Asked>>,
}

impl Standing {
    /// What of it is about this job.
    pub fn about(&self, job: &str) -> (Option<Pause>, Vec<Asked>) {
        (self.pauses.get(job).cloned(), self.asked.get(job).cloned().unwrap_or_default())
    }
}

/// What operators ask of every scheduler over the same store and namespace. They look every two seconds.
#[derive(Debug, Clone, Copy)]
pub struct Orders<'a> {
    locks: &'a Locks,
}

impl<'a> Orders<'a> {
    /// Of those who coordinate over these locks.
    #[must_use]
    pub fn over(locks: &'a Locks) -> Self {
        Self { locks }
    }

    /// The longest pause: one that nobody ends is over by then, and the job runs again.
    pub const LONGEST_PAUSE: Duration = KEEP_PAUSES;

    /// Has a job pause, on every node: its ticks are recorded as skipped until it is [resumed](Self::resume), and not made
    /// up for. What runs goes on, and what is [asked for](Self::trigger) is run. Of a job that pauses already it changes by whom, why and
    /// until when.
    ///
    /// # Errors
    /// The name is not legal, or the store can't keep it.
    pub async fn pause(&self, job: &str, by: &str, why: &str) -> Result<Pause> {
        self.pauses_until(job, by, why, None).await
    }

    /// The same, until an instant of the store's clock.
    ///
    /// # Errors
    /// As for [`pause`](Self::pause); or the instant is over, or too far away.
    pub async fn pause_until(&self, job: &str, by: &str, why: &str, until: Timestamp) -> Result<Pause> {
        self.pauses_until(job, by, why, Some(until)).await
    }

    async fn pauses_until(&self, job: &str, by: &str, why: &str, until: Option<Timestamp>) -> Result<Pause> {
        let now = instant::shown(self.locks.time().await?);
        if let Some(until) = until {
            check_end(until, now)?;
        }
        let last = self.pauses().await?.remove(job);
        let pause = Pause { until, ..Pause::begun(last, by, why, now) };
        self.write_pause(job, &pause, (State::Paused, by, why), now).await?;
        Ok(pause)
    }

    /// Ends a pause; says whether there was one.
    ///
    /// # Errors
    /// The name is not legal, or the store can't say.
    pub async fn resume(&self, job: &str, by: &str) -> Result<bool> {
        self.resume_because(job, by, "").await
    }

    /// The same, and records why.
    ///
    /// # Errors
    /// As for [`resume`](Self::resume).
    pub async fn resume_because(&self, job: &str, by: &str, why: &str) -> Result<bool> {
        let now = instant::shown(self.locks.time().await?);
        let Some(mut pause) = self.pauses().await?.remove(job).filter(|pause| pause.is_on(now)) else {
            return Ok(false);
        };
        pause.until = Some(now);
        self.write_pause(job, &pause, (State::Resumed, by, why), now).await?;
        Ok(true)
    }

    /// A pause, and what the ledger says of it.
    async fn write_pause(&self, job: &str, pause: &Pause, did: (State, &str, &str), now: Timestamp) -> Result<()> {
        let (state, by, why) = did;
        let act = Ledger::of(self.locks, job)?.act(state, by, why, now)?;
        let pause = note(PAUSES, job, pause, KEEP_PAUSES, MOST_PAUSES)?;
        self.locks.notes()?.note(&[pause, act]).await
    }

    /// Has a job run now, once, on one of the nodes that know it; answers the tick that it runs for: no other run that was asked for has the
    /// same. A job that is running is dealt with as at any tick.
    ///
    /// # Errors
    /// The name is not legal, or the store can't keep it. Then nothing was asked for; or, where the
    /// [store may have done it](Error::applied), perhaps.
    pub async fn trigger(&self, job: &str, by: &str, why: &str) -> Result<Timestamp> {
        LockName::new(job)?;
        check_name(job)?;
        let notes = self.locks.notes()?;
        let (turn, tick) = self.turn().await?;
        let asked = Asked { job: job.to_owned(), by: by.to_owned(), why: why.to_owned(), tick };
        let written = match note(ASKED, &HolderId::fresh().to_string(), &asked, KEEP_ASKED, MOST_ASKED) {
            Ok(asked) => notes.note(&[asked]).await,
            Err(error) => Err(error),
        };
        // Its instant is nobody else's, whatever became of the note.
        drop(turn.complete().await);
        written.map(|()| tick)
    }

    /// An instant of its own, and the turn to ask: as long as it is held nobody gets a later one, so that nodes hear of them in order.
    ///
    /// It is a tick of a lock: the store grants each once, to one, and none that is older. A lock alone would not do: whoever stalls
    /// for longer than it lasts writes when the next has looked already.
    async fn turn(&self) -> Result<(Guard, Timestamp)> {
        let began = Instant::now();
        let mut taken = Timestamp::UNIX_EPOCH;
        loop {
            let now = instant::shown(self.locks.time().await?);
            let at = beside_ticks(now.max(taken.checked_add(A_MILLISECOND).unwrap_or(taken)));
            let tick =
                instant::tick(at).ok_or_else(|| Error::invalid(format!("{at} is no tick; set the store's clock")))?;
            let rest = PATIENCE.saturating_sub(began.elapsed());
            let lock = self.locks.lock(ASKING).ttl(ASKING_TTL).tick(tick).remember(KEEP_INSTANTS).wait(Wait::For(rest));
            match lock.acquire().await? {
                Outcome::Acquired(guard) => return Ok((guard, at)),
                Outcome::NotDue(NotDue::Claimed { newest, .. }) if !rest.is_zero() => {
                    taken = instant::of_tick(newest).max(at);
                }
                Outcome::NotDue(NotDue::Claimed { .. }) | Outcome::Contended(_) => {
                    let why = format!("others ask for runs, too, and none had its turn within {PATIENCE:?}; ask again");
                    return Err(Error::new(ErrorKind::TimedOut, why));
                }
                Outcome::NotDue(why) => {
                    let what =
                        "the last run that was asked for was given an instant that is far ahead of the store's clock";
                    let fix = format!("set the clock, or reset the marks of {ASKING:?}");
                    return Err(Error::new(ErrorKind::Refused, format!("{what} ({why}); {fix}")));
                }
            }
        }
    }

    /// Records that the marks of a job were reset: by whom, and why.
    ///
    /// # Errors
    /// The name is not legal, or the store can't keep it.
    pub async fn were_reset(&self, job: &str, by: &str, why: &str) -> Result<()> {
        let now = instant::shown(self.locks.time().await?);
        let act = Ledger::of(self.locks, job)?.act(State::Reset, by, why, now)?;
        self.locks.notes()?.note(&[act]).await
    }

    /// Every job that some scheduler has, or had within the last year, by name.
    ///
    /// # Errors
    /// The store can't say.
    pub async fn jobs(&self) -> Result<Vec<KnownJob>> {
        board::known(self.locks).await
    }

    /// The last pause of each job that ever had one.
    ///
    /// # Errors
    /// The store can't say.
    pub async fn pauses(&self) -> Result<HashMap<String, Pause>> {
        let pauses = read_since(self.locks, PAUSES, MOST_PAUSES, Duration::ZERO).await?;
        Ok(pauses.into_iter().map(|(_, job, pause)| (job, pause)).collect())
    }
}

/// Ticks of schedules are whole seconds: what is asked for is none of them.
fn beside_ticks(now: Timestamp) -> Timestamp {
    let is_whole = now.subsec_nanosecond() == 0;
    if is_whole { now.checked_add(A_MILLISECOND).unwrap_or(now) } else { now }
}

fn note(topic: Topic, id: &str, order: &impl Serialize, keep: Duration, most: u32) -> Result<Note> {
    let text = serde_json::to_string(order).expect("an order has no maps");
    Ok(Note { topic, id: NoteId::new(id)?, text, keep, most })
}

/// Hears what operators ask for: all of it at first and now and then, else only what is new.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    pauses: HashMap<String, Pause>,
    asked: BTreeMap<String, Asked>,
    /// The store's time of the newest that was heard.
    newest: Duration,
    /// How often it was listened since all was read.
    looks: u32,
}

impl Hearing {
    /// How it stands now.
    pub async fn standing(&mut self, locks: &Locks) -> Result<Standing> {
        let since = if self.looks == 0 { Duration::ZERO } else { self.newest.saturating_sub(LATE) };
        let pauses = read_since(locks, PAUSES, MOST_PAUSES, since).await?;
        let asked = read_since(locks, ASKED, MOST_ASKED, since).await?;
        let heard = pauses.iter().map(|(at, ..)| *at).chain(asked.iter().map(|(at, ..)| *at)).max();
        if let Some(heard) = heard.filter(|heard| *heard > self.newest) {
            // One whose writer's clock is fast must not make us deaf to all others.
            self.newest = heard.min(locks.time().await?).max(self.newest);
        }
        if self.looks == 0 {
            (self.pauses, self.asked) = (HashMap::new(), BTreeMap::new());
        }
        self.looks = (self.looks + 1) % LOOKS;
        self.pauses.extend(pauses.into_iter().map(|(_, job, pause)| (job, pause)));
        self.asked.extend(asked.into_iter().map(|(_, id, asked)| (id, asked)));
        Ok(Standing { pauses: self.pauses.clone(), asked: by_job(self.asked.values()) })
    }
}

fn by_job<'a>(asked: impl Iterator<Item = &'a Asked>) -> HashMap<String, Vec<Asked>> {
    let mut jobs: HashMap<String, Vec<Asked>> = HashMap::new();
    asked.for_each(|asked| jobs.entry(asked.job.clone()).or_default().push(asked.clone()));
    jobs.values_mut().for_each(|asked| asked.sort_by_key(|asked| asked.tick));
    jobs
}

/// With when it was written and under which id. What a later version has written in another way is left out.
async fn read_since<T: DeserializeOwned>(
    locks: &Locks,
    topic: Topic,
    most: u32,
    since: Duration,
) -> Result<Vec<(Duration, String, T)>> {
    let notes = locks.notes()?.notes(&Search { since, ..Search::newest(topic, most) }).await?;
    let read = |Noted { at, id, text }: Noted| Some((at, id.to_string(), serde_json::from_str(&text).ok()?));
    Ok(notes.into_iter().filter_map(read).collect())
}

/// Whether a pause may end then.
fn check_end(until: Timestamp, now: Timestamp) -> Result<()> {
    if until <= now {
        return Err(Error::invalid(format!("{until} is over: it is {now}; give a later instant")));
    }
    if Duration::try_from(until.duration_since(now)).unwrap_or_default() > KEEP_PAUSES {
        return Err(Error::invalid(format!(
            "{until} is too far away: a pause may last 400 days; pause it again before that"
        )));
    }
    Ok(())
}

impl Asked {
    pub(crate) fn tick(&self) -> Option<Tick> {
        instant::tick(self.tick)
    }

    /// For the ledger.
    pub(crate) fn told(&self) -> String {
        who_and_why(&self.by, &self.why)
    }
}

impl Pause {
    /// For the ledger.
    pub(crate) fn told(&self) -> String {
        who_and_why(&self.by, &self.why)
    }

    /// The one that begins now after the last one, which it goes on with if that is on.
    fn begun(last: Option<Self>, by: &str, why: &str, now: Timestamp) -> Self {
        let (mut since, mut before) = (now, Vec::new());
        if let Some(mut last) = last {
            before = std::mem::take(&mut last.before);
            if last.is_on(now) {
                since = last.since;
            } else {
                before.insert(0, last);
                before.truncate(MOST_BEFORE);
            }
        }
        Self { by: by.to_owned(), why: why.to_owned(), since, until: None, before }
    }

    /// Whether it goes on at this time of the store's clock; it has begun, whatever a node's clock shows.
    #[must_use]
    pub fn is_on(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// The pause that a tick of this instant falls into: while one is on none is run, however old it is.
    pub(crate) fn of(&self, tick: Timestamp, now: Timestamp) -> Option<&Self> {
        if self.is_on(now) {
            return Some(self);
        }
        std::iter::once(self).chain(&self.before).find(|pause| pause.covers(tick))
    }

    fn covers(&self, tick: Timestamp) -> bool {
        self.since <= tick && self.until.is_none_or(|until| tick < until)
    }
}

fn who_and_why(by: &str, why: &str) -> String {
    if why.is_empty() { by.to_owned() } else { format!("{by}: {why}") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::future::BoxFuture;
    use leasehold::stores::Memory;
    use leasehold::validity::{Clock, Moment};

    use super::*;

    /// Shows so many seconds.
    #[derive(Debug)]
    struct Set(AtomicU64);

    impl Clock for Set {
        fn now(&self) -> Moment {
            Moment::from_nanos(self.0.load(Ordering::SeqCst) * 1_000_000_000)
        }

        fn sleep_until(&self, _at: Moment) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    /// As in etcd, where notes are stamped by the clock of whoever writes them.
    #[tokio::test]
    async fn a_writer_whose_clock_is_wrong_makes_nobody_deaf() {
        const NOW: u64 = 36_000;
        let clock = Arc::new(Set(AtomicU64::new(NOW)));
        let locks = Locks::builder().simulated(clock.clone()).over(Arc::new(Memory::new(clock.clone())));
        let mut hearing = Hearing::default();
        for (job, shown) in [("first", NOW), ("fast", NOW + 3600), ("right", NOW), ("slow", NOW - 120)] {
            clock.0.store(shown, Ordering::SeqCst);
            Orders::over(&locks).pause(job, "ada", "").await.unwrap();
            clock.0.store(NOW, Ordering::SeqCst);
            let standing = hearing.standing(&locks).await.unwrap();
            assert!(standing.pauses.contains_key(job), "{job}");
        }
    }
}
