//! What there is to see of a name, as rows.

use super::span;
use crate::error::Result;
use crate::lease::{FencingToken, Holder, HolderId, Holding};
use crate::name::LockName;

/// One of a name's slots.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub holder: Option<String>,
    pub label: String,
    pub token: i64,
    /// How long ago it was granted.
    pub age: i64,
    /// What is left; 0 or less if it is free.
    pub rest: i64,
    pub revoked: bool,
}

/// A name, with its slots that are taken; and the first one, which may be free.
#[derive(Debug)]
pub(crate) struct Shown {
    pub name: String,
    pub waiting: i64,
    pub permits: i64,
    pub taken: Vec<Taken>,
}

impl Shown {
    /// How it stands. Once nobody holds it, who held it last.
    pub fn holding(mut self) -> Result<Holding> {
        if self.taken.iter().any(|slot| slot.rest > 0) {
            self.taken.retain(|slot| slot.rest > 0);
        }
        let holders = self.taken.into_iter().map(Taken::holder).collect();
        let permits = u32::try_from(self.permits).unwrap_or(1);
        let waiting = u64::try_from(self.waiting).unwrap_or(0);
        Ok(Holding { waiting, ..Holding::of(LockName::new(&self.name)?, permits, holders) })
    }
}

impl Taken {
    fn holder(self) -> Holder {
        let is_free = self.rest <= 0;
        Holder {
            holder: self.holder.as_deref().filter(|_| !is_free).and_then(HolderId::parse),
            label: self.label,
            library: None,
            token: FencingToken::new(self.token.cast_unsigned()),
            held_for: span(self.age),
            remaining: span(self.rest),
            revoked: self.revoked && !is_free,
        }
    }
}

/// One for each name: its rows follow one another.
pub(crate) fn by_name(rows: impl IntoIterator<Item = (String, i64, i64, Taken)>) -> Vec<Shown> {
    let mut names: Vec<Shown> = Vec::new();
    for (name, waiting, permits, slot) in rows {
        match names.last_mut().filter(|last| last.name == name) {
            Some(last) => last.taken.push(slot),
            None => names.push(Shown { name, waiting, permits, taken: vec![slot] }),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(token: i64, rest: i64) -> Taken {
        Taken { holder: Some(format!("{token:032x}")), label: format!("{token}"), token, rest, ..Taken::default() }
    }

    #[test]
    fn rows_of_a_name_are_one_holding() {
        let rows = [("a", 1, slot(5, 9)), ("a", 1, slot(6, 3)), ("a", 1, slot(4, -1)), ("b", 0, slot(7, 0))];
        let rows = rows.into_iter().map(|(name, waiting, slot)| (name.to_owned(), waiting, 3, slot));
        let shown: Vec<_> = by_name(rows).into_iter().map(|shown| shown.holding().unwrap()).collect();
        assert_eq!((shown[0].label.as_str(), shown[0].others.len(), shown[0].waiting), ("6", 1, 1));
        assert_eq!((shown[1].label.as_str(), shown[1].holder), ("7", None), "who held it last");
        assert_eq!(shown.len(), 2);
    }
}
