//! What was counted of many locks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::count::Count;

/// Of so many locks one sheet keeps what was counted apart.
pub(crate) const MOST_LOCKS: usize = 10_000;

/// Over so many notes the locks of one span of time are spread, where one note has not room for them.
pub(crate) const PARTS: usize = 16;

/// What was counted, by lock. What there is no room for is counted together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sheet {
    pub locks: HashMap<Box<str>, Count>,
    /// All others.
    pub others: Others,
    /// Hashes of the names of some of these, so that none is counted as another each time.
    beyond: HashSet<u64>,
}

/// What was counted of locks that there was no room for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Others {
    /// How many names there were; each as often as it had to make room.
    #[serde(rename = "n")]
    pub names: u64,
    /// All together.
    #[serde(rename = "c")]
    pub count: Count,
}

impl Others {
    fn take(&mut self, count: &Count) {
        self.names = self.names.saturating_add(1);
        self.count.merge(count);
    }

    pub fn merge(&mut self, other: &Self) {
        self.names = self.names.saturating_add(other.names);
        self.count.merge(&other.count);
    }

    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Sheet {
    /// Where this lock is counted.
    pub fn of(&mut self, name: &str) -> &mut Count {
        if !self.locks.contains_key(name) {
            if self.locks.len() >= MOST_LOCKS {
                if self.beyond.len() >= MOST_LOCKS || self.beyond.insert(hash(name)) {
                    self.others.names = self.others.names.saturating_add(1);
                }
                return &mut self.others.count;
            }
            self.locks.insert(name.into(), Count::default());
        }
        self.locks.get_mut(name).expect("it is there by now")
    }

    pub fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.others.is_none()
    }

    /// Counts all of another.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.locks {
            if self.locks.len() < MOST_LOCKS || self.locks.contains_key(name) {
                self.locks.entry(name.clone()).or_default().merge(count);
            } else {
                self.others.take(count);
            }
        }
        self.others.merge(&other.others);
    }

    /// Tells all times by a clock that is ahead of this one by so many milliseconds.
    pub fn shift(&mut self, ahead: i64) {
        self.locks.values_mut().chain([&mut self.others.count]).for_each(|count| count.shift(ahead));
    }

    /// All of this was counted in the span of time that begins then.
    pub fn is_of(&mut self, begin: Duration) {
        self.locks.values_mut().chain([&mut self.others.count]).for_each(|count| count.is_of(begin));
    }

    /// The same, spread by the names of the locks. Those of no name come first.
    pub fn parts(&self) -> Vec<Self> {
        let mut parts = vec![Self::default(); PARTS];
        parts[0].others = self.others.clone();
        for (name, count) in &self.locks {
            parts[part(name)].locks.insert(name.clone(), count.clone());
        }
        parts
    }

    /// Whether all of it has room in so many bytes.
    pub fn fits(&self, most: usize) -> bool {
        let mut left = most.checked_sub(text(&self.others.count).len());
        for (name, count) in &self.locks {
            left = left.and_then(|left| left.checked_sub(room_of(name, count)));
            if left.is_none() {
                break;
            }
        }
        left.is_some()
    }

    /// As JSON of so many bytes at most: where that is too little, the least remarkable locks are counted together.
    pub fn fitted(&self, most: usize) -> Fitted {
        let (mut locks, mut others) = (Vec::new(), self.others.clone());
        for (name, count) in &self.locks {
            locks.push((count.interest(), name, count, room_of(name, count)));
        }
        locks.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
        let mut bytes = locks.iter().map(|lock| lock.3).sum::<usize>();
        let mut room = text(&others.count).len();
        // What makes room takes some among the others, but much less: so they are written down a few times and not for each.
        while bytes + room > most && !locks.is_empty() {
            while bytes + room > most
                && let Some((_, _, count, its)) = locks.pop()
            {
                others.take(count);
                bytes -= its;
            }
            room = text(&others.count).len();
        }
        let locks = locks.into_iter().map(|(_, name, count, _)| (name.clone(), count.clone())).collect();
        Fitted { locks, others }
    }
}

fn text(count: &Count) -> String {
    serde_json::to_string(count).expect("it has no maps")
}

/// How many bytes that takes in JSON: with the name come quotes, a colon and a comma.
fn room_of(name: &str, count: &Count) -> usize {
    serde_json::to_string(name).map_or(0, |name| name.len()) + text(count).len() + 4
}

/// A sheet as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Fitted {
    /// By lock, in order.
    pub locks: BTreeMap<Box<str>, Count>,
    /// All others.
    #[serde(skip_serializing_if = "Others::is_none")]
    pub others: Others,
}

impl From<Fitted> for Sheet {
    fn from(fitted: Fitted) -> Self {
        Self { locks: fitted.locks.into_iter().collect(), others: fitted.others, ..Self::default() }
    }
}

/// In which part a lock is counted, in every version alike.
pub(crate) fn part(name: &str) -> usize {
    (hash(name) >> 32) as usize % PARTS
}

/// FNV-1a, and mixed: of names that are nearly alike it is alike in most bits.
pub(crate) fn hash(text: &str) -> u64 {
    let byte_by_byte = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, byte_by_byte);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use leasehold::Answer;

    use super::*;

    fn of(names: impl IntoIterator<Item = String>) -> Sheet {
        let mut sheet = Sheet::default();
        names.into_iter().for_each(|name| sheet.of(&name).answered(Duration::from_millis(1), false, &Answer::Acquired));
        sheet
    }

    fn attempts(sheet: &Sheet) -> u64 {
        sheet.locks.values().map(Count::attempts).sum::<u64>() + sheet.others.count.attempts()
    }

    #[test]
    fn of_more_locks_than_it_has_room_for_it_counts_the_rest_together() {
        let mut sheet = of((0..MOST_LOCKS + 50).map(|nth| format!("job-{nth}")));
        assert_eq!((sheet.locks.len(), attempts(&sheet)), (MOST_LOCKS, MOST_LOCKS as u64 + 50));
        sheet.merge(&of((0..100).map(|nth| format!("other-{nth}"))));
        assert_eq!((sheet.locks.len(), attempts(&sheet)), (MOST_LOCKS, MOST_LOCKS as u64 + 150));
        assert_eq!(sheet.others.names, 150);
        sheet.of("job-10049").lost += 1;
        assert_eq!((sheet.others.names, sheet.others.count.lost), (150, 1), "that name was counted");
        sheet.merge(&of(["job-7".into()]));
        assert_eq!(sheet.locks["job-7"].acquired, 2, "there is room for what is there");
    }

    #[test]
    fn what_does_not_fit_makes_room_for_what_is_more_remarkable() {
        let mut sheet = of((0..500).map(|nth| format!("quiet-{nth}\u{1b}\"")));
        for nth in 0..20 {
            sheet.of(&format!("busy-{nth}")).lost += 1;
        }
        let all = attempts(&sheet);
        for most in [60_000, 10_000, 3000, 1500] {
            let fitted = sheet.fitted(most);
            assert_eq!(fitted.others.is_none(), sheet.fits(most));
            let text = serde_json::to_string(&fitted).unwrap();
            assert!(text.len() <= most + 100, "{} for {most}", text.len());
            let read: Sheet = serde_json::from_str::<Fitted>(&text).unwrap().into();
            assert_eq!(attempts(&read), all, "nothing is lost");
            assert_eq!(read.locks.len() as u64 + read.others.names, 520);
            assert!((0..20).all(|nth| read.locks.contains_key(format!("busy-{nth}").as_str())), "{most}");
        }
    }

    #[test]
    fn parts_are_the_whole() {
        let mut sheet = of((0..1000).map(|nth| format!("job-{nth}")));
        sheet.others.names = 3;
        let parts = sheet.parts();
        let mut whole = Sheet::default();
        parts.iter().for_each(|part| whole.merge(part));
        assert_eq!(whole, sheet);
        assert!(parts.iter().all(|part| (20..=120).contains(&part.locks.len())), "they are alike in size");
    }
}
