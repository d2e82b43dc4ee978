//! Time zones as stretches of constant offset.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// A stretch of time in which a zone's clocks are not set: within it, instants and civil times map one to one.
pub(crate) struct Stretch {
    /// When it began; none for the zone's first.
    pub start: Option<Timestamp>,
    /// When the next one begins; none for the zone's last.
    pub end: Option<Timestamp>,
    offset: Offset,
    /// The offset of the stretch before.
    before: Offset,
}

impl Stretch {
    /// The stretch that an instant is in.
    pub fn at(zone: &TimeZone, instant: Timestamp) -> Self {
        let start = instant.checked_add(NANOSECOND).ok().and_then(|later| zone.preceding(later).next());
        let start = start.map(|transition| transition.timestamp());
        let offset = zone.to_offset(instant);
        let before = start.and_then(|start| start.checked_sub(NANOSECOND).ok()).map(|before| zone.to_offset(before));
        Self {
            start,
            end: zone.following(instant).next().map(|transition| transition.timestamp()),
            offset,
            before: before.unwrap_or(offset),
        }
    }

    /// What the clocks show at an instant of this stretch.
    pub fn local(&self, instant: Timestamp) -> DateTime {
        self.offset.to_datetime(instant)
    }

    /// The instant of this stretch, or beyond its bounds, at which the clocks show `local`.
    pub fn instant(&self, local: DateTime) -> Option<Timestamp> {
        self.offset.to_timestamp(local).ok()
    }

    /// The first civil time of the stretch that no instant before it had.
    pub fn first_new(&self) -> DateTime {
        self.start.map_or(DateTime::MIN, |start| self.offset.max(self.before).to_datetime(start))
    }

    /// The first civil time of the stretch.
    pub fn first(&self) -> DateTime {
        self.start.map_or(DateTime::MIN, |start| self.local(start))
    }

    /// The civil times that were left out when it began: from the first, up to the second.
    pub fn skipped(&self) -> Option<(DateTime, DateTime)> {
        let start = self.start.filter(|_| self.offset > self.before)?;
        Some((self.before.to_datetime(start), self.local(start)))
    }
}
