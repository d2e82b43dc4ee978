//! Small sets of small numbers.

/// A set of numbers below 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Set(pub u64);

impl Set {
    /// Every `step`-th number from `first` to `last`.
    pub fn every(step: u32, first: u8, last: u8) -> Self {
        (first..=last).step_by(step as usize).fold(Self::default(), Self::with)
    }

    /// The numbers from 1 to `last`.
    pub fn up_to(last: u8) -> Self {
        Self((2 << last) - 2)
    }

    pub fn with(self, number: u8) -> Self {
        Self(self.0 | 1 << number)
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn contains(self, number: u8) -> bool {
        1_u64.checked_shl(number.into()).is_some_and(|bit| self.0 & bit != 0)
    }

    /// The smallest member that is not below `number`.
    pub fn at_or_after(self, number: u8) -> Option<u8> {
        let from = u64::MAX.checked_shl(number.into()).unwrap_or(0);
        lowest(self.0 & from)
    }

    /// The largest member that is not above `number`.
    pub fn at_or_before(self, number: u8) -> Option<u8> {
        let after = u64::MAX.checked_shl(u32::from(number) + 1).unwrap_or(0);
        highest(self.0 & !after)
    }

    /// The largest member below `number`.
    pub fn before(self, number: u8) -> Option<u8> {
        number.checked_sub(1).and_then(|below| self.at_or_before(below))
    }

    pub fn first(self) -> Option<u8> {
        lowest(self.0)
    }

    pub fn last(self) -> Option<u8> {
        highest(self.0)
    }

    pub fn members(self) -> impl Iterator<Item = u8> {
        let mut left = self;
        std::iter::from_fn(move || {
            let first = left.first()?;
            left.0 &= left.0 - 1;
            Some(first)
        })
    }
}

fn lowest(bits: u64) -> Option<u8> {
    if bits == 0 { None } else { u8::try_from(bits.trailing_zeros()).ok() }
}

fn highest(bits: u64) -> Option<u8> {
    bits.checked_ilog2().and_then(|bit| u8::try_from(bit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_neighbours_of_a_number_are_found_up_to_the_edges() {
        let set = Set::every(20, 0, 59).with(63);
        assert_eq!(set.members().collect::<Vec<_>>(), [0, 20, 40, 63]);
        assert_eq!((set.at_or_after(20), set.at_or_after(21), set.at_or_after(41)), (Some(20), Some(40), Some(63)));
        assert_eq!((set.at_or_after(64), set.at_or_after(255)), (None, None));
        assert_eq!((set.at_or_before(20), set.at_or_before(19), set.at_or_before(63)), (Some(20), Some(0), Some(63)));
        assert_eq!((set.before(0), set.before(20), set.before(255)), (None, Some(0), Some(63)));
        assert_eq!([63, 62, 64].map(|number| set.contains(number)), [true, false, false]);
        assert_eq!(Set::up_to(31), Set::every(1, 1, 31));
        assert_eq!((set.first(), set.last()), (Some(0), Some(63)));
        assert_eq!((Set::default().first(), Set::default().last()), (None, None));
    }
}
