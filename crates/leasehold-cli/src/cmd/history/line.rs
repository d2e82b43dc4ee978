//! What is told of one run.

use leasehold::{FencingToken, Holding};
use leasehold_schedule::{Entry, State, Timestamp};
use serde::Serialize;

use crate::args::GONE;
use crate::output::{duration, plain};

/// Of a run that nobody has taken yet.
const ASKED: &str = "asked";

/// One run, or what an operator did. The shape is a promise to scripts: fields may be added, none goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub job: String,
    pub state: &'static str,
    pub tick: Option<Timestamp>,
    pub asked: Option<String>,
    pub reason: Option<String>,
    pub node: String,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    pub took_ms: Option<u64>,
    pub attempts: u32,
    /// Text: 63 bits are more than a JSON number carries safely.
    pub token: Option<String>,
    pub output: String,
    pub written: Option<Timestamp>,
}

impl Line {
    /// As it stands in the ledger.
    pub fn recorded(entry: Entry) -> Self {
        let Entry { job, written, record } = entry;
        let took = record.started.zip(record.ended).map(|(started, ended)| ended.duration_since(started).as_millis());
        Self {
            job,
            state: record.state.word(),
            tick: record.tick,
            asked: record.asked,
            reason: record.reason,
            node: record.node,
            started: record.started,
            ended: record.ended,
            took_ms: took.and_then(|took| took.try_into().ok()),
            attempts: record.attempts,
            token: record.token,
            output: record.output,
            written: Some(written),
        }
    }

    /// That it was asked for, and nobody has taken it.
    pub fn asked(job: &str, tick: Timestamp, asked: String) -> Self {
        Self { state: ASKED, tick: Some(tick), asked: Some(asked), ..Self::bare(job) }
    }

    /// What is known of a run by its lock alone.
    pub fn held(job: &str, hold: &Hold, now: Timestamp) -> Self {
        let (node, tick) = hold.parts();
        let started = now.checked_sub(hold.held_for).ok();
        let token = Some(hold.token.to_string());
        Self { state: State::Running.word(), tick, node, started, token, attempts: 1, ..Self::bare(job) }
    }

    fn bare(job: &str) -> Self {
        Self {
            job: job.to_owned(),
            state: ASKED,
            tick: None,
            asked: None,
            reason: None,
            node: String::new(),
            started: None,
            ended: None,
            took_ms: None,
            attempts: 0,
            token: None,
            output: String::new(),
            written: None,
        }
    }

    /// The same, where nobody holds the lock for it any more.
    pub fn gone(self) -> Self {
        let reason = "its node has died, or can't tell how it ended".to_owned();
        Self { state: GONE, reason: Some(reason), ..self }
    }

    /// Whether it runs, as far as the ledger knows.
    pub fn is_running(&self) -> bool {
        self.state == State::Running.word()
    }

    /// In a table: when, how it stands, where, how long it took, how often it was begun, and why.
    pub fn cells(&self, now: Timestamp) -> [String; 6] {
        let since = self.started.filter(|_| self.is_running()).map(|started| now.duration_since(started).as_millis());
        let took = since.and_then(|since| u64::try_from(since).ok()).or(self.took_ms);
        let took = took.map_or_else(|| "-".into(), |took| duration(std::time::Duration::from_millis(took)));
        [
            self.tick.or(self.started).map_or_else(|| "-".into(), |when| when.to_string()),
            self.state.into(),
            plain(&self.node),
            took,
            if self.attempts == 0 { "-".into() } else { self.attempts.to_string() },
            self.why(),
        ]
    }

    /// By whom it was asked for, and why it went as it did.
    fn why(&self) -> String {
        let asked = self.asked.as_ref().map(|asked| format!("asked for by {asked}"));
        let parts: Vec<_> = asked.iter().chain(&self.reason).map(|part| plain(part)).collect();
        parts.join("; ")
    }

    /// The last lines that it wrote, fit for a terminal.
    pub fn output(&self) -> impl Iterator<Item = String> + '_ {
        self.output.lines().map(|line| format!("    {}", plain(&line.replace('\t', "    "))))
    }
}

/// One that holds a job's lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    label: String,
    /// Of its grant.
    pub token: FencingToken,
    held_for: std::time::Duration,
}

impl Hold {
    /// All who do.
    pub fn all(holding: &Holding) -> Vec<Self> {
        let first = holding.holder.map(|_| (&holding.label, holding.token, holding.held_for));
        let others = holding.others.iter().filter(|other| other.holder.is_some());
        let others = others.map(|other| (&other.label, other.token, other.held_for));
        first
            .into_iter()
            .chain(others)
            .map(|(label, token, held_for)| Self { label: label.clone(), token, held_for })
            .collect()
    }

    /// Whether it is for this run.
    pub fn is_for(&self, line: &Line) -> bool {
        line.token.as_deref() == Some(&*self.token.to_string())
    }

    /// For which tick, where a scheduler holds it.
    pub fn tick(&self) -> Option<Timestamp> {
        self.parts().1
    }

    /// `host/pid/job`, and the tick behind the `@` of a scheduler's.
    fn parts(&self) -> (String, Option<Timestamp>) {
        let tick = |(node, tick): (&str, &str)| Some((node.to_owned(), Some(tick.parse().ok()?)));
        self.label.rsplit_once('@').and_then(tick).unwrap_or_else(|| (self.label.clone(), None))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use leasehold::{HolderId, LockName};

    use super::*;

    fn holding(label: &str) -> Holding {
        Holding {
            name: LockName::new("nightly").unwrap(),
            holder: Some(HolderId::fresh()),
            label: label.to_owned(),
            library: None,
            token: FencingToken::new(9),
            held_for: Duration::from_secs(90),
            remaining: Duration::from_secs(30),
            revoked: false,
            waiting: 0,
            ticket: None,
            permits: NonZeroU32::MIN,
            others: Vec::new(),
        }
    }

    #[test]
    fn a_scheduler_says_for_which_tick_it_holds_the_lock() {
        let now: Timestamp = "2026-11-30T02:01:30Z".parse().unwrap();
        let [hold] = &Hold::all(&holding("web-1/41/me@home@2026-11-30T02:00:00Z"))[..] else { panic!("one holds it") };
        let line = Line::held("me@home", hold, now);
        assert_eq!((line.node.as_str(), line.tick), ("web-1/41/me@home", "2026-11-30T02:00:00Z".parse().ok()));
        assert_eq!(line.started, "2026-11-30T02:00:00Z".parse().ok());
        assert!(hold.is_for(&line) && line.cells(now)[3] == "1m30s", "{line:?}");
        let [by_hand] = &Hold::all(&holding("web-1/41/me@home"))[..] else { panic!("one holds it") };
        assert_eq!((by_hand.tick(), Line::held("a", by_hand, now).node.as_str()), (None, "web-1/41/me@home"));
        assert_eq!(Hold::all(&Holding { holder: None, ..holding("nobody") }), []);
    }

    #[test]
    fn what_others_wrote_cannot_drive_the_terminal() {
        let line = Line {
            node: "\u{1b}[2J".into(),
            reason: Some("\u{9b}31m".into()),
            output: "\u{1b}]0;x\u{7}\n\tb\rc\n".into(),
            ..Line::asked("nightly", Timestamp::UNIX_EPOCH, "eve\u{1b}c".into())
        };
        let shown: Vec<_> = line.cells(Timestamp::UNIX_EPOCH).into_iter().chain(line.output()).collect();
        assert!(shown.iter().all(|text| !text.contains(char::is_control)), "{shown:?}");
        assert_eq!(shown[7], "        b\\rc");
    }
}
