//! `H`: times that are spread over jobs by their names, the same ones on every node and for ever.

use std::time::Duration;

use super::field::Kind;

/// What `H` is made a number with: a job's name, where one is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashing<'a>(pub Option<&'a str>);

impl Hashing<'_> {
    /// A number below `count` that depends on the name and the field, and on nothing else.
    pub fn pick(self, kind: Kind, count: u32) -> Option<u32> {
        let hash = mixed(fnv(kind.name(), self.0?));
        u32::try_from((u128::from(hash) * u128::from(count)) >> 64).ok()
    }
}

/// A span below `within` that depends on the job's name alone, in milliseconds.
pub(crate) fn jitter(name: &str, within: Duration) -> Duration {
    let hash = u128::from(mixed(fnv("jitter", name)));
    let millis = (hash * within.as_millis()) >> 64;
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// A place for a name among others, another one for each `whose`.
pub(crate) fn order(whose: &str, name: &str) -> u64 {
    mixed(fnv(whose, name))
}

/// FNV-1a, 64 bits wide, over the field and the name. It must never change: every job would move.
fn fnv(field: &str, name: &str) -> u64 {
    let bytes = field.bytes().chain([0]).chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The end of `SplitMix64`: names that differ in their last character differ in the upper bits too.
fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spread_evenly() {
        let mut counts = [0; 60];
        for job in 0..6000 {
            let minute = Hashing(Some(&format!("job-{job}"))).pick(Kind::Minute, 60).unwrap();
            counts[minute as usize] += 1;
        }
        assert!(counts.iter().all(|count| (50..=150).contains(count)), "{counts:?}");
    }

    #[test]
    fn jitter_stays_within_its_span_and_with_its_job() {
        let within = Duration::from_secs(60);
        let all: Vec<_> = (0..1000).map(|job| jitter(&format!("job-{job}"), within)).collect();
        assert!(all.iter().all(|jitter| *jitter < within));
        assert!(all.iter().any(|jitter| *jitter > within * 9 / 10) && all.iter().any(|jitter| *jitter < within / 10));
        assert_eq!(jitter("billing", within), jitter("billing", within));
        assert_eq!(jitter("billing", Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn what_a_name_has_come_to_once_it_comes_to_for_ever() {
        let at = |name| [Kind::Minute, Kind::Hour].map(|kind| Hashing(Some(name)).pick(kind, 60).unwrap());
        assert_eq!([at("nightly-backup"), at("billing"), at("")], [[45, 47], [55, 4], [8, 54]]);
    }
}
