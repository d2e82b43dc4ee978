//! How long many things took, in few bytes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Below this many microseconds each has a slot of its own.
const EXACT: u64 = 16;

/// From there on so many slots for each doubling.
const SLOTS: u64 = 8;

/// No span is longer: more than four years.
const LONGEST: u64 = (1 << 47) - 1;

/// Spans of time, counted in slots that grow with them. Two are merged by adding up, in any order, and nothing is lost by it.
///
/// What it says of a quantile is off by at most a sixteenth, 6.25 %, of what it really was, to the microsecond; the longest span is kept as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub(crate) struct Histogram {
    /// Those that are not empty, in order.
    slots: Vec<(u16, u64)>,
    longest: u64,
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).min(LONGEST);
        self.longest = self.longest.max(micros);
        self.put(slot(micros), 1);
    }

    /// Counts all of another.
    pub fn merge(&mut self, other: &Self) {
        self.longest = self.longest.max(other.longest);
        other.slots.iter().for_each(|(slot, count)| self.put(*slot, *count));
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.slots.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The longest; none if there is none.
    pub fn longest(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_micros(self.longest))
    }

    /// The span that this share of all is no longer than; none if there is none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut before = 0_u64;
        for (slot, count) in &self.slots {
            before = before.saturating_add(*count);
            if before >= rank {
                return Some(Duration::from_micros(middle(*slot).min(self.longest)));
            }
        }
        self.longest()
    }

    fn put(&mut self, slot: u16, count: u64) {
        match self.slots.binary_search_by_key(&slot, |(slot, _)| *slot) {
            Ok(at) => self.slots[at].1 = self.slots[at].1.saturating_add(count),
            Err(at) => self.slots.insert(at, (slot, count)),
        }
    }
}

fn slot(micros: u64) -> u16 {
    if micros < EXACT {
        return micros as u16;
    }
    let doublings = u64::from(micros.ilog2());
    (EXACT + (doublings - 4) * SLOTS + ((micros >> (doublings - 3)) % SLOTS)) as u16
}

/// What lies in the middle of a slot.
fn middle(slot: u16) -> u64 {
    let slot = u64::from(slot);
    if slot < EXACT {
        return slot;
    }
    let (doublings, nth) = ((slot - EXACT) / SLOTS + 4, (slot - EXACT) % SLOTS);
    let width = 1 << (doublings - 3);
    (SLOTS + nth) * width + width / 2
}

/// As it stands in a note: the longest, then each slot and its count.
impl From<Histogram> for Vec<u64> {
    fn from(histogram: Histogram) -> Self {
        if histogram.is_empty() {
            return Self::new();
        }
        let slots = histogram.slots.into_iter().flat_map(|(slot, count)| [u64::from(slot), count]);
        std::iter::once(histogram.longest).chain(slots).collect()
    }
}

/// What no histogram of ours says is left out: others may write into the store, too.
impl From<Vec<u64>> for Histogram {
    fn from(numbers: Vec<u64>) -> Self {
        let mut histogram = Self::default();
        let Some((longest, slots)) = numbers.split_first() else { return histogram };
        for pair in slots.chunks_exact(2) {
            if let Ok(nth) = u16::try_from(pair[0])
                && nth <= slot(LONGEST)
                && pair[1] > 0
            {
                histogram.put(nth, pair[1]);
            }
        }
        histogram.longest = (*longest).min(LONGEST);
        histogram
    }
}

#[cfg(test)]
mod tests {
    use leasehold_testkit::Random;

    use super::*;

    /// Spans of all lengths from a microsecond to years.
    fn spans(random: &mut Random, most: usize) -> Vec<u64> {
        let many = 1 + random.below(most);
        (0..many).map(|_| random.draw() >> (17 + random.below(46))).collect()
    }

    fn of(spans: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        spans.iter().for_each(|micros| histogram.add(Duration::from_micros(*micros)));
        histogram
    }

    #[test]
    fn a_quantile_is_off_by_a_sixteenth_at_most() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut all = spans(&mut random, 400);
            let histogram = of(&all);
            all.sort_unstable();
            for share in [0.0, 0.01, 0.5, 0.9, 0.99, 1.0] {
                let rank = ((share * all.len() as f64).ceil() as usize).max(1);
                let (is, said) = (all[rank - 1], histogram.quantile(share).unwrap().as_micros() as u64);
                assert!(is.abs_diff(said) * 16 <= is, "seed {seed}: the quantile {share} is {is} and not {said}");
            }
            assert_eq!(histogram.longest(), all.last().copied().map(Duration::from_micros));
            assert_eq!(histogram.count(), all.len() as u64);
        }
    }

    #[test]
    fn merged_is_as_counted_together_in_any_order() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let [one, other, third] = [(); 3].map(|()| spans(&mut random, 50));
            let together = of(&[one.clone(), other.clone(), third.clone()].concat());
            for order in [[&one, &other, &third], [&third, &one, &other], [&other, &third, &one]] {
                let mut merged = Histogram::default();
                order.iter().for_each(|spans| merged.merge(&of(spans)));
                assert_eq!(merged, together, "seed {seed}");
            }
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_small() {
        let histogram = of(&[0, 15, 16, 17, 1_000_000, 1_000_001, u64::MAX]);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        assert_eq!(serde_json::to_string(&Histogram::default()).unwrap(), "[]");
        let minutes = of(&(0..10_000).map(|nth| 60_000_000 + nth * 1000).collect::<Vec<_>>());
        assert!(serde_json::to_string(&minutes).unwrap().len() < 60, "many that are alike take no more room");
        let all = of(&(0..47).flat_map(|bits| (8..16).map(move |nth| (nth << bits) >> 3)).collect::<Vec<_>>());
        assert!(serde_json::to_string(&all).unwrap().len() < 3000, "nor do those of every length much");
    }

    #[test]
    fn what_others_have_written_does_no_harm() {
        for text in ["[]", "[5]", "[5,3]", "[5,70000,1,3,0,9]", "[18446744073709551615,400,18446744073709551615,400,9]"]
        {
            let histogram: Histogram = serde_json::from_str(text).unwrap();
            for share in [0.0, 0.5, 1.0] {
                let _ = histogram.quantile(share);
            }
            let mut twice = histogram.clone();
            twice.merge(&histogram);
            assert!(twice.count() >= histogram.count());
        }
    }
}
