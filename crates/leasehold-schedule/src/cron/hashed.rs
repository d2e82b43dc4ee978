//! `H`: times that are spread over jobs by their names, the same ones on every node and for ever.

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
    fn what_a_name_has_come_to_once_it_comes_to_for_ever() {
        let at = |name| [Kind::Minute, Kind::Hour].map(|kind| Hashing(Some(name)).pick(kind, 60).unwrap());
        assert_eq!([at("nightly-backup"), at("billing"), at("")], [[45, 47], [55, 4], [8, 54]]);
    }
}
