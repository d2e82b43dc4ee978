//! A row of ShedLock's table, and how ours are told from those of its services.

use crate::lease::{FencingToken, Holder, HolderId, foreign_label};
use crate::stores::sql::span;

/// How many characters [`mark`] has.
pub(super) const MARK: usize = 33;

/// The most characters that `locked_by` has room for.
const LONGEST: usize = 255;

/// What the `locked_by` of a row ends with that nobody holds, and that is kept all the same: a minimum hold.
pub(super) const KEPT: &str = ":kept";

/// Whose the rows are that aren't ours.
const LIBRARY: &str = "ShedLock";

/// The most of a stranger's `locked_by` that is shown.
const SHOWN: usize = 64;

/// A row, when it was read. Microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub name: String,
    pub locked_by: String,
    /// Since 1970, as the column reads.
    pub locked_at: i64,
    /// Since `locked_at`, by the server's clock; negative if that lies ahead.
    pub age: i64,
    /// Until `lock_until`; 0 or less: it is over.
    pub rest: i64,
}

/// What the `locked_by` of an acquisition ends with: nobody else's does.
pub(super) fn mark(holder: HolderId) -> String {
    format!(":{holder}")
}

/// What stands in `locked_by`: the label, `host/pid/program`, and the acquisition.
pub(super) fn locked_by(label: &str, holder: HolderId) -> String {
    let label: String = label.chars().take(LONGEST - MARK).collect();
    label + &mark(holder)
}

impl Row {
    /// Who holds it; none while it is kept.
    pub fn holder_id(&self) -> Option<HolderId> {
        match self.ours() {
            Some((_, holder)) => holder,
            None => Some(HolderId::foreign(self.locked_by.as_bytes())),
        }
    }

    /// What there is to say of it, while it is not over.
    pub fn holder(&self) -> Holder {
        let is_ours = self.ours().is_some();
        let token = if is_ours { self.locked_at.cast_unsigned() } else { 0 };
        Holder {
            holder: self.holder_id(),
            label: self.ours().map_or_else(|| self.stranger(), |(label, _)| label.to_owned()),
            library: (!is_ours).then_some(LIBRARY),
            token: FencingToken::new(token),
            held_for: span(self.age),
            remaining: span(self.rest),
            revoked: false,
        }
    }

    /// When it was read, and until when it is held.
    pub fn read_and_until(&self) -> (i64, i64) {
        let read = self.locked_at + self.age;
        (read, read + self.rest)
    }

    /// The label, and the acquisition if it is not only kept.
    fn ours(&self) -> Option<(&str, Option<HolderId>)> {
        if let Some(label) = self.locked_by.strip_suffix(KEPT) {
            return Some((label, None));
        }
        let (label, holder) = self.locked_by.rsplit_once(':')?;
        HolderId::parse(holder).map(|holder| (label, Some(holder)))
    }

    /// A stranger, as shown.
    pub fn stranger(&self) -> String {
        let mut shown: String =
            self.locked_by.chars().take(SHOWN).map(|c| if c.is_control() { '?' } else { c }).collect();
        if self.locked_by.chars().count() > SHOWN {
            shown.push('…');
        }
        foreign_label(Some(LIBRARY), &shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(locked_by: String) -> Row {
        Row { locked_by, locked_at: 5_000_000, age: 2_000_000, rest: 3_000_000, ..Row::default() }
    }

    #[test]
    fn ours_are_told_from_strangers() {
        let holder = HolderId::fresh();
        let ours = row(locked_by("host/1/job:a", holder)).holder();
        assert_eq!((ours.holder, ours.label.as_str(), ours.token.number()), (Some(holder), "host/1/job:a", 5_000_000));
        let kept = row(format!("host/1/job{KEPT}")).holder();
        assert_eq!((kept.holder, kept.label.as_str(), kept.token.number()), (None, "host/1/job", 5_000_000));
        let stranger = row("web-1".into()).holder();
        assert_eq!((stranger.label.as_str(), stranger.token.number()), ("foreign: ShedLock web-1", 0));
        assert_eq!((stranger.library, row(locked_by("host/1/job", holder)).holder().library), (Some("ShedLock"), None));
        assert!(stranger.holder.is_some() && stranger.held_for.as_secs() == 2 && stranger.remaining.as_secs() == 3);
        assert_eq!(row("a\nb".repeat(40)).stranger().chars().filter(|c| c.is_control()).count(), 0);
    }

    #[test]
    fn there_is_room_for_any_label() {
        let holder = HolderId::fresh();
        let full = locked_by(&"\u{1f512}".repeat(300), holder);
        assert_eq!(full.chars().count(), LONGEST);
        assert!(full.ends_with(&mark(holder)) && mark(holder).chars().count() == MARK);
    }
}
