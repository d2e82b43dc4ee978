//! Where chance comes from: the operating system, or in a [simulation](crate::simulation) a seed.

use std::ops::Range;

use rand::TryRng;
use rand::rngs::SysRng;

/// 128 random bits.
///
/// # Panics
/// If the operating system has no randomness to give, which none does once it has booted.
pub(crate) fn bits() -> u128 {
    #[cfg(feature = "simulation")]
    if let Some([high, low]) = crate::simulation::drawn() {
        return u128::from(high) << 64 | u128::from(low);
    }
    let mut bytes = [0; 16];
    SysRng.try_fill_bytes(&mut bytes).expect("the operating system gives random bytes");
    u128::from_ne_bytes(bytes)
}

/// A random number of this range.
pub(crate) fn within(range: Range<f64>) -> f64 {
    #[cfg(feature = "simulation")]
    if let Some([drawn, _]) = crate::simulation::drawn() {
        let share = (drawn >> 11) as f64 / (1_u64 << 53) as f64;
        return range.start + share * (range.end - range.start);
    }
    rand::random_range(range)
}
