//! One thing that happened to a lock, as it is told.

use std::time::{Duration, SystemTime};

use leasehold::{FencingToken, Holder, HolderId, Holding, LockName};
use serde::Serialize;

use crate::cmd::status::State;
use crate::exit::{self, Failure};
use crate::output::{duration, known, milliseconds, plain, utc};

/// One event. The shape is a promise to scripts: fields and events may be added, none goes.
#[derive(Debug, Serialize)]
pub struct News {
    /// When we learned of it: up to half a second late.
    time: String,
    name: String,
    event: Event,
    /// How the lock stands now; unknown while the store is away.
    state: Option<State>,
    /// The hold that this is about, which may be over.
    holder: Option<String>,
    label: Option<String>,
    /// Text: 63 bits are more than a JSON number carries safely.
    token: Option<String>,
    held_for_ms: Option<u64>,
    /// Until the lock ends if it is not renewed; until a minimum hold is over.
    ttl_left_ms: Option<u64>,
    waiting: Option<u64>,
    /// Why the store does not answer.
    reason: Option<String>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// Nothing yet: how the lock stands at the start.
    Start,
    /// Somebody got it.
    Acquired,
    /// A hold ended: by a release, by its time, or taken away.
    Ended,
    /// There was a hold, too short to be seen.
    Missed,
    /// An operator revoked it.
    Revoked,
    /// Nobody holds it and nobody gets it: a minimum hold runs out.
    Kept,
    /// The minimum hold is over.
    Free,
    /// Another number of waiters.
    Waiting,
    /// The store does not answer.
    Unreachable,
    /// It answers again.
    Reachable,
}

impl News {
    /// An event after which the lock stands as `found` says.
    pub fn new(event: Event, name: &LockName, found: Option<&Holding>) -> News {
        let news = News {
            time: utc(SystemTime::now()),
            name: name.to_string(),
            event,
            state: Some(State::of(found)),
            holder: None,
            label: None,
            token: None,
            held_for_ms: None,
            ttl_left_ms: found.map(|found| milliseconds(found.remaining)),
            waiting: Some(found.map_or(0, |found| found.waiting)),
            reason: None,
        };
        match found {
            Some(found) if found.holder.is_some() => {
                let held_for = known(found.held_for, found.library, found.token);
                news.of(found.holder, &found.label, found.token, held_for)
            }
            _ => news,
        }
    }

    /// The store does not answer.
    pub fn unreachable(name: &LockName, reason: String) -> News {
        let reason = Some(reason);
        News { state: None, ttl_left_ms: None, waiting: None, reason, ..News::new(Event::Unreachable, name, None) }
    }

    /// The same, about this hold, which lasted for so long until now, if that is known.
    #[must_use]
    pub fn about(self, hold: &Holder, held_for: Option<Duration>) -> News {
        self.of(hold.holder, &hold.label, hold.token, held_for)
    }

    fn of(self, holder: Option<HolderId>, label: &str, token: FencingToken, held_for: Option<Duration>) -> News {
        News {
            holder: holder.map(|holder| holder.to_string()),
            label: Some(label.to_owned()),
            token: Some(token.to_string()),
            held_for_ms: held_for.map(milliseconds),
            ..self
        }
    }

    /// The same about a hold of which only its traces are known.
    #[must_use]
    pub fn about_unseen(self, left: &Holding) -> News {
        News { label: Some(left.label.clone()), token: Some(left.token.to_string()), ..self }
    }

    /// What happened.
    #[cfg(test)]
    pub fn event(&self) -> Event {
        self.event
    }

    /// For programs: an object in one line.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn json(&self) -> Result<String, Failure> {
        serde_json::to_string(self).map_err(|error| Failure::new(exit::FAULT, error.to_string()))
    }

    /// For people, in one line.
    pub fn text(&self) -> String {
        let what = match self.event {
            Event::Start => format!("{}{}", self.stands(), self.waiters()),
            Event::Acquired => format!("acquired by {}", self.hold()),
            Event::Ended => format!("ended{}: {}", self.held("after"), self.hold()),
            Event::Missed => format!("was held and ended between two looks: {}", self.hold()),
            Event::Revoked => format!("revoked: {} is to stop; it ends with its release or its TTL", self.hold()),
            Event::Kept => self.stands(),
            Event::Free => "free, the minimum hold is over".into(),
            Event::Waiting => match self.waiting {
                None | Some(0) => "nobody waits any more".into(),
                Some(1) => "1 waits".into(),
                Some(more) => format!("{more} wait"),
            },
            Event::Unreachable => format!("the store does not answer: {}", self.reason.as_deref().unwrap_or_default()),
            Event::Reachable => format!("the store answers again: {}{}", self.stands(), self.waiters()),
        };
        format!("{} {}: {what}", self.time, self.name)
    }

    fn stands(&self) -> String {
        match self.state {
            None | Some(State::Free) => "free".into(),
            Some(State::Held) => format!("held{} by {}", self.held("for"), self.hold()),
            Some(State::Kept) if self.ttl_left_ms == Some(0) => "about to go to whoever waits first".into(),
            Some(State::Kept) => {
                format!("kept for another {} (minimum hold)", shown(self.ttl_left_ms))
            }
        }
    }

    fn waiters(&self) -> String {
        self.waiting.filter(|waiting| *waiting > 0).map_or_else(String::new, |waiting| format!(", {waiting} waiting"))
    }

    /// ` for 5m`, where it is known for how long.
    fn held(&self, word: &str) -> String {
        self.held_for_ms.map_or_else(String::new, |ms| format!(" {word} {}", shown(Some(ms))))
    }

    fn hold(&self) -> String {
        let text = |field: &Option<String>| plain(field.as_deref().unwrap_or_default());
        format!("{} (token {})", text(&self.label), text(&self.token))
    }
}

fn shown(ms: Option<u64>) -> String {
    duration(Duration::from_millis(ms.unwrap_or_default()))
}
