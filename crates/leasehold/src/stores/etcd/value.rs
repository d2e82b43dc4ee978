//! What stands under the key of one of ours who contends. To others it means nothing: they go by keys and revisions.

use std::time::Duration;

/// `leasehold/1 STATE PERMITS GRANTED LABEL`. The number is the format's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub state: State,
    pub permits: u32,
    /// When it was granted, or began to wait, since 1970 by the clock of whoever wrote it: for people only.
    pub since: Duration,
    pub label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Held,
    /// An operator has revoked it: it ends with a lease of its own, or with its release.
    Revoked,
    /// It was released, and a minimum hold runs out.
    Kept,
    Waits,
}

const FORMAT: &str = "leasehold/1";

impl Value {
    pub fn text(&self) -> Vec<u8> {
        let Self { state, permits, since, label } = self;
        format!("{FORMAT} {} {permits} {} {label}", state.word(), since.as_millis()).into_bytes()
    }

    /// None if it is not one of ours.
    pub fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.splitn(5, ' ');
        if words.next() != Some(FORMAT) {
            return None;
        }
        let state = State::read(words.next()?)?;
        let permits = words.next()?.parse().ok()?;
        let since = Duration::from_millis(words.next()?.parse().ok()?);
        Some(Self { state, permits, since, label: words.next()?.to_owned() })
    }
}

impl State {
    const ALL: [Self; 4] = [Self::Held, Self::Revoked, Self::Kept, Self::Waits];

    fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Revoked => "revoked",
            Self::Kept => "kept",
            Self::Waits => "waits",
        }
    }

    fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_it_was_written_and_others_are_not_ours() {
        for state in State::ALL {
            let value =
                Value { state, permits: 3, since: Duration::from_millis(1_796_004_000_123), label: "a b/1 ".into() };
            assert_eq!(Value::read(&value.text()), Some(value));
        }
        for other in
            [&b""[..], b"y", b"leasehold/2 held 1 0 x", b"leasehold/1 gone 1 0 x", b"\xff", b"leasehold/1 held 1 0"]
        {
            assert_eq!(Value::read(other), None);
        }
    }
}
