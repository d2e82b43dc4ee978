//! Which ticks of a name were claimed, and which of them are not finished.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::lease::HolderId;
use crate::store::OPEN_TICKS;
use crate::tick::{Due, OpenTick, Standing, Tick, Verdict};

/// The mark, and what stands open beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// The newest tick that was claimed. It only grows.
    newest: Option<Tick>,
    open: BTreeMap<Tick, OpenTick>,
}

/// The first word: the number is the format's.
const FORMAT: &str = "leasehold/1";

impl Marks {
    /// How a tick stands, if `is_alive` says who still has a lease.
    pub fn standing(&self, due: Due, is_alive: impl Fn(HolderId) -> bool) -> Standing {
        due.standing(self.newest, self.open.get(&due.tick), is_alive)
    }

    /// Claims the tick; answers how often it has been now, and which one was given up for it.
    pub fn claim(&mut self, holder: HolderId, due: Due) -> (u32, Option<Tick>) {
        self.newest = self.newest.max(Some(due.tick));
        let open = self.open.get(&due.tick).map_or_else(|| OpenTick::new(holder, due), |open| open.again(holder, due));
        self.open.insert(due.tick, open);
        let full = self.open.len() > OPEN_TICKS;
        (open.attempts, full.then(|| self.open.pop_first().map(|(tick, _)| tick)).flatten())
    }

    /// How often the tick that `holder` has was claimed; 0 if it has none.
    pub fn attempts(&self, holder: HolderId) -> u32 {
        self.open.values().find(|open| open.holder == Some(holder)).map_or(0, |open| open.attempts)
    }

    /// What a holder says at its end.
    pub fn judge(&mut self, holder: HolderId, verdict: Verdict) {
        match verdict {
            Verdict::Done(tick) => drop(self.open.remove(&tick)),
            Verdict::Failed => self.open.retain(|_, open| open.holder != Some(holder) || !open.once),
            Verdict::NotStarted => {
                for open in self.open.values_mut().filter(|open| open.holder == Some(holder)) {
                    *open = open.taken_back();
                }
            }
        }
    }

    /// The newest, and behind it a line for each that is open: tick, holder, attempts, whether once at most.
    pub fn text(&self) -> Vec<u8> {
        let newest = self.newest.map_or_else(|| "-".to_owned(), |newest| newest.as_unix_millis().to_string());
        let mut text = format!("{FORMAT} {newest}");
        for (tick, open) in &self.open {
            let holder = open.holder.map_or_else(|| "-".to_owned(), |holder| holder.to_string());
            let _ = write!(text, "\n{} {holder} {} {}", tick.as_unix_millis(), open.attempts, u8::from(open.once));
        }
        text.into_bytes()
    }

    /// None if it is not one of ours.
    pub fn read(text: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(text).ok()?.lines();
        let newest = lines.next()?.strip_prefix(FORMAT)?.strip_prefix(' ')?;
        let newest = if newest == "-" { None } else { Some(tick(newest)?) };
        let open = lines.map(open_tick).collect::<Option<_>>()?;
        Some(Self { newest, open })
    }
}

fn tick(text: &str) -> Option<Tick> {
    match text.parse().ok()? {
        0 => Some(Tick::ONLY),
        millis => Tick::from_unix_millis(millis),
    }
}

fn open_tick(line: &str) -> Option<(Tick, OpenTick)> {
    let mut words = line.split(' ');
    let tick = tick(words.next()?)?;
    let holder = match words.next()? {
        "-" => None,
        holder => Some(HolderId::parse(holder)?),
    };
    let attempts = words.next()?.parse().ok()?;
    Some((tick, OpenTick { holder, attempts, once: words.next()? == "1" }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn marks_are_read_as_they_were_written() {
        let mut marks = Marks::default();
        assert_eq!(Marks::read(&marks.text()), Some(marks.clone()));
        for (tick, retry_failed) in [(Tick::ONLY, true), (Tick::from_unix_millis(1_796_004_000_000).unwrap(), false)] {
            marks.claim(HolderId::fresh(), Due { tick, retry_failed, keep: Duration::from_secs(60) });
        }
        assert_eq!(Marks::read(&marks.text()), Some(marks.clone()));
        let taken_back = marks.open[&Tick::ONLY].holder.unwrap();
        marks.judge(taken_back, Verdict::NotStarted);
        assert_eq!(Marks::read(&marks.text()), Some(marks));
        for other in [&b""[..], b"leasehold/2 -", b"leasehold/1 x", b"leasehold/1 -\n1 2 3"] {
            assert_eq!(Marks::read(other), None);
        }
    }
}
