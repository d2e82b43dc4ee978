//! What operators ask of the whole fleet: that a job pauses, and that it runs now.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use leasehold::store::{Note, NoteId, Noted, Search, Topic};
use leasehold::{HolderId, LockName, Locks, Result, Tick};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::board::instant;
use crate::ledger;

const PAUSES: Topic = Topic::of_all("pauses");
const ASKED: Topic = Topic::of_all("asked");

/// A pause is kept until it is over, and as long again as anything is made up for after it.
const KEEP_PAUSES: Duration = Duration::from_secs(400 * 24 * 3600);
const MOST_PAUSES: u32 = 10_000;

/// Whoever is to run what was asked for looks every few seconds.
const KEEP_ASKED: Duration = Duration::from_secs(3600);
const MOST_ASKED: u32 = 1000;

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
    /// Until when it was; none while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
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
    pub pauses: HashMap<String, Pause>,
    pub asked: Vec<Asked>,
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

    /// Has a job pause, on every node: its ticks are recorded as skipped until it is [resumed](Self::resume), and not made
    /// up for. What runs goes on.
    ///
    /// # Errors
    /// The name is not legal, or the store can't keep it.
    pub async fn pause(&self, job: &str, by: &str, why: &str) -> Result<()> {
        let since = instant(self.locks.time().await?);
        let pause = Pause { by: by.to_owned(), why: why.to_owned(), since, until: None };
        self.write(PAUSES, job, &pause, KEEP_PAUSES, MOST_PAUSES).await
    }

    /// Ends a pause; says whether there was one.
    ///
    /// # Errors
    /// The name is not legal, or the store can't say.
    pub async fn resume(&self, job: &str) -> Result<bool> {
        let Some(mut pause) = self.pauses().await?.remove(job).filter(|pause| pause.until.is_none()) else {
            return Ok(false);
        };
        pause.until = Some(instant(self.locks.time().await?));
        self.write(PAUSES, job, &pause, KEEP_PAUSES, MOST_PAUSES).await?;
        Ok(true)
    }

    /// Has a job run now, once, on one of the nodes that know it; answers the tick that it runs for. A job that is running is
    /// dealt with as at any tick.
    ///
    /// # Errors
    /// The name is not legal, or the store can't keep it.
    pub async fn trigger(&self, job: &str, by: &str, why: &str) -> Result<Timestamp> {
        LockName::new(job)?;
        let tick = instant(self.locks.time().await?);
        let asked = Asked { job: job.to_owned(), by: by.to_owned(), why: why.to_owned(), tick };
        self.write(ASKED, &HolderId::fresh().to_string(), &asked, KEEP_ASKED, MOST_ASKED).await?;
        Ok(tick)
    }

    /// The last pause of each job that ever had one.
    ///
    /// # Errors
    /// The store can't say.
    pub async fn pauses(&self) -> Result<HashMap<String, Pause>> {
        Ok(self.read(PAUSES, MOST_PAUSES).await?.into_iter().collect())
    }

    pub(crate) async fn standing(&self) -> Result<Standing> {
        let asked = self.read(ASKED, MOST_ASKED).await?.into_iter().map(|(_, asked)| asked).collect();
        Ok(Standing { pauses: self.pauses().await?, asked })
    }

    async fn write(&self, topic: Topic, id: &str, order: &impl Serialize, keep: Duration, most: u32) -> Result<()> {
        let text = serde_json::to_string(order).expect("an order has no maps");
        self.locks.notes()?.note(&[Note { topic, id: NoteId::new(id)?, text, keep, most }]).await
    }

    /// What a later version has written in another way is left out.
    async fn read<T: DeserializeOwned>(&self, topic: Topic, most: u32) -> Result<Vec<(String, T)>> {
        let notes = self.locks.notes()?.notes(&Search::newest(topic, most)).await?;
        let read = |Noted { id, text, .. }: Noted| Some((id.to_string(), serde_json::from_str(&text).ok()?));
        Ok(notes.into_iter().filter_map(read).collect())
    }
}

impl Asked {
    pub(crate) fn tick(&self) -> Option<Tick> {
        ledger::tick(self.tick)
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

    /// Whether a tick of this instant falls into it.
    pub(crate) fn covers(&self, tick: Timestamp) -> bool {
        self.since <= tick && self.until.is_none_or(|until| tick < until)
    }
}

fn who_and_why(by: &str, why: &str) -> String {
    if why.is_empty() { by.to_owned() } else { format!("{by}: {why}") }
}
