//! One instant, as the store's clock, a tick and the calendar have it.

use std::time::Duration;

use jiff::Timestamp;
use leasehold::Tick;

/// What a store's clock shows, in the calendar.
pub(crate) fn shown(since_1970: Duration) -> Timestamp {
    let millis = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// What a store's clock shows at an instant.
pub(crate) fn since_1970(instant: Timestamp) -> Duration {
    Duration::from_millis(instant.as_millisecond().try_into().unwrap_or(0))
}

/// Which instant a tick is.
pub(crate) fn of_tick(tick: Tick) -> Timestamp {
    Timestamp::from_millisecond(tick.as_unix_millis()).expect("a tick is an instant of the calendar")
}

/// The tick at an instant, in whole milliseconds; none before 1970.
pub(crate) fn tick(instant: Timestamp) -> Option<Tick> {
    Tick::from_unix_millis(instant.as_millisecond())
}
