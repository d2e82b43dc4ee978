//! Where a name is in Redis.

use std::borrow::Cow;
use std::ops::Range;

use super::format::{BESIDE, Format};
use crate::name::{LockName, Namespace};
use crate::store::Topic;

/// The keys of a name.
///
/// Ours share a slot, for the braces mark what is hashed. So do those beside a foreign one wherever that can be.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// What the names of the keys beside the lock's own begin with. That one is a part of it.
    beside: String,
    lock: Range<usize>,
    /// The list that the waiters of another library block on.
    signal: Option<String>,
}

/// Which of a name's keys one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Lock,
    Hash,
    Queue,
    Waiters,
    Pool,
}

impl Part {
    fn companion(letter: &str) -> Option<Self> {
        let parts = [("h", Self::Hash), ("q", Self::Queue), ("w", Self::Waiters), ("p", Self::Pool)];
        parts.into_iter().find(|(known, _)| *known == letter).map(|(_, part)| part)
    }

    /// Of which kind it is in the server.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Lock => "string",
            Self::Hash | Self::Waiters => "hash",
            Self::Queue | Self::Pool => "zset",
        }
    }
}

impl Keys {
    pub fn of(format: Format, namespace: &Namespace, name: &LockName) -> Self {
        let mut keys = Self { beside: String::new(), lock: 0..0, signal: None };
        keys.turn_to(format, namespace, name);
        keys
    }

    /// Becomes those of another name, in the same buffer: many are made for each renewal.
    pub fn turn_to(&mut self, format: Format, namespace: &Namespace, name: &LockName) {
        let Format::Compat(library) = format else {
            let (namespace, name) = (encoded(namespace.as_str()), encoded(name.as_str()));
            self.beside.clear();
            join(&mut self.beside, &["leasehold:", &namespace, ":{", &name, "}:"]);
            self.lock = 0..self.beside.len() - 1;
            return;
        };
        let lock = format!("{}{name}", library.prefix);
        let (beside, at) = beside(&lock);
        let signal = library.signal.map(|signal| format!("{signal}{name}"));
        *self = Self { beside, lock: at..at + lock.len(), signal };
    }

    /// The lock's own.
    pub fn lock(&self) -> &str {
        &self.beside[self.lock.clone()]
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        5 + usize::from(self.signal.is_some())
    }

    /// Each, in the order in which the scripts name them.
    pub fn each(&self, mut take: impl FnMut(&str)) {
        take(self.lock());
        let mut beside = String::new();
        join(&mut beside, &[&self.beside]);
        each_beside(&mut beside, "hqwp", &mut take);
        self.signal.iter().for_each(|signal| take(signal));
    }

    /// Each of those that a renewal needs.
    pub fn each_for_renewal(&mut self, mut take: impl FnMut(&str)) {
        take(self.lock());
        each_beside(&mut self.beside, "hp", take);
    }

    /// All, in the same order.
    pub fn all(&self) -> Vec<String> {
        let mut all = Vec::with_capacity(self.count());
        self.each(|key| all.push(key.to_owned()));
        all
    }

    /// Whether a cluster has all of them in one slot, as its scripts want them.
    pub fn share_a_slot(&self) -> bool {
        self.all().iter().all(|key| hashed(key) == hashed(self.lock()))
    }

    /// What the names' keys look like, for a search; those of another library's form have nothing that marks them but
    /// what stands beside them. A namespace may have characters that a pattern has, too.
    pub fn pattern(format: Format, namespace: &Namespace) -> String {
        if !format.is_own() {
            return format!("*{BESIDE}?"); // A prefix may stand behind a brace or not.
        }
        own_pattern(namespace) + "*"
    }

    /// The same, of what is known of each name in our own format: one key of each.
    pub fn hashes(namespace: &Namespace) -> String {
        own_pattern(namespace) + ":h"
    }

    /// The name that a key belongs to, and which of its keys it is.
    pub fn read(format: Format, key: &str) -> Option<(LockName, Part)> {
        let Format::Compat(library) = format else {
            let (name, companion) = key.split_once('{')?.1.split_once('}')?;
            let part = if companion.is_empty() { Part::Lock } else { Part::companion(companion.strip_prefix(':')?)? };
            return Some((LockName::new(&decoded(name)).ok()?, part));
        };
        let (beside, companion) = key.split_at_checked(key.len().checked_sub(1)?)?;
        let beside = beside.strip_suffix(BESIDE)?;
        let lock = beside.strip_suffix(':').or_else(|| beside.strip_prefix('{')?.strip_suffix('}'))?;
        Some((LockName::new(lock.strip_prefix(library.prefix)?).ok()?, Part::companion(companion)?))
    }
}

/// Where it stands since when a server has been what it is; in a cluster in a slot of that server's, which the tag says.
pub(super) fn since(namespace: &Namespace, identity: &str, tag: &str) -> String {
    format!("leasehold:{}:since:{identity}:{{{tag}}}", encoded(namespace.as_str()))
}

/// What a member of a quorum knows of its own life.
pub(super) fn life(namespace: &Namespace) -> String {
    format!("leasehold:{}:life", encoded(namespace.as_str()))
}

/// The largest epoch of a fallback that its primary has seen.
pub(super) fn watermark(namespace: &Namespace) -> String {
    format!("leasehold:{}:watermark", encoded(namespace.as_str()))
}

/// For how long, and when last, clients have reached the primary of a fallback while it is not in use.
pub(super) fn reached(namespace: &Namespace) -> String {
    format!("leasehold:{}:reached", encoded(namespace.as_str()))
}

/// Where the notes of a topic are: in which order, and what they say.
pub(super) fn notes(namespace: &Namespace, topic: &Topic) -> [String; 2] {
    let (namespace, sort) = (encoded(namespace.as_str()), topic.sort);
    let texts = match &topic.name {
        Some(name) => format!("leasehold:{namespace}:{{{}}}:notes:{sort}", encoded(name.as_str())),
        None => format!("leasehold:{namespace}:notes:{{{sort}}}"),
    };
    [format!("{texts}:order"), texts]
}

/// Whether it is one of those, beside a name.
pub(super) fn is_of_notes(key: &str) -> bool {
    key.contains("}:notes:")
}

/// A key that no name has, to try what may be done; the tag says its slot.
pub(super) fn probe(namespace: &Namespace, random: &str, tag: &str) -> String {
    format!("leasehold:{}:probe:{random}:{{{tag}}}", encoded(namespace.as_str()))
}

/// What `ACL SETUSER` is told of the keys that a user needs.
pub(super) fn all_of(format: Format, namespace: &Namespace) -> String {
    if format.is_own() { format!("~leasehold:{}:*", encoded(namespace.as_str())) } else { "~*".into() }
}

/// What the names of the keys beside a foreign one begin with, and where in that it stands itself. Two keys, such as
/// `job` and `{job}`, must not meet there: hence one colon more where it stands as it is.
fn beside(lock: &str) -> (String, usize) {
    let is_hashed = hashed(lock) == lock && !lock.contains('}');
    if is_hashed { (format!("{{{lock}}}{BESIDE}"), 1) } else { (format!("{lock}:{BESIDE}"), 0) }
}

/// What of a key decides on its slot: all, or what stands in its first braces, if that is anything.
pub(super) fn hashed(key: &str) -> &str {
    let within = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    within.map(|(within, _)| within).filter(|within| !within.is_empty()).unwrap_or(key)
}

/// The keys that begin so and end in these letters. They share a buffer, since they are named at each call.
fn each_beside(beside: &mut String, letters: &str, mut take: impl FnMut(&str)) {
    for letter in letters.chars() {
        beside.push(letter);
        take(beside);
        beside.pop();
    }
}

/// In one allocation at most, with room for one letter more: keys are made for each call.
fn join(text: &mut String, parts: &[&str]) {
    text.reserve(parts.iter().map(|part| part.len()).sum::<usize>() + 1);
    parts.iter().for_each(|part| text.push_str(part));
}

/// What the keys of all names begin with in our own format, for a search.
fn own_pattern(namespace: &Namespace) -> String {
    let mut pattern = String::from("leasehold:");
    for c in encoded(namespace.as_str()).chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern + ":{*}"
}

/// Braces would move what is hashed, and `%` is what hides them.
fn encoded(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'{' | b'}')) {
        return text.into();
    }
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '%' => encoded.push_str("%25"),
            '{' => encoded.push_str("%7B"),
            '}' => encoded.push_str("%7D"),
            c => encoded.push(c),
        }
    }
    encoded.into()
}

fn decoded(text: &str) -> String {
    text.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 14] = [
        "job",
        "{job}",
        "a{b}c",
        "a{b",
        "a}b",
        "a}{b",
        "{}x",
        "%7B",
        "100%",
        "{}",
        "a:h",
        "}:h",
        "job:",
        "*?[ä/ö ü]\\",
    ];

    fn keys(compat: &str, name: &str) -> Keys {
        Keys::of(Format::compat(compat).unwrap(), &Namespace::default(), &LockName::new(name).unwrap())
    }

    #[test]
    fn names_come_back_as_they_were() {
        for format in [Format::Own, Format::compat("plain").unwrap(), Format::compat("python-redis-lock").unwrap()] {
            let mut seen = std::collections::HashSet::new();
            for name in NAMES {
                let name = LockName::new(name).unwrap();
                let keys = Keys::of(format, &Namespace::default(), &name);
                for (key, part) in
                    keys.all().iter().zip([Part::Lock, Part::Hash, Part::Queue, Part::Waiters, Part::Pool])
                {
                    let marked = format.is_own() || part != Part::Lock;
                    assert_eq!(Keys::read(format, key), marked.then(|| (name.clone(), part)), "{keys:?}");
                }
                assert!(keys.all().into_iter().all(|key| seen.insert(key)), "no key is two names': {keys:?}");
            }
        }
    }

    #[test]
    fn ours_share_a_slot_whatever_the_name() {
        for name in NAMES {
            let keys = Keys::of(Format::Own, &Namespace::default(), &LockName::new(name).unwrap());
            assert_eq!(keys.lock().matches(['{', '}']).count(), 2, "{keys:?}");
            assert!(keys.share_a_slot(), "{keys:?}");
        }
    }

    /// As the libraries' own sources make them.
    #[test]
    fn the_keys_of_other_libraries() {
        for (library, key) in [
            ("plain", "job"),
            ("redis-py", "job"),
            ("python-redis-lock", "lock:job"),
            ("pottery", "redlock:job"),
            ("node-redlock", "job"),
            ("redis-semaphore", "mutex:job"),
            ("rslock", "job"),
            ("redsync", "job"),
            ("redlock-rb", "job"),
            ("redlock-net", "redlock:job"),
        ] {
            let keys = keys(library, "job").all();
            assert_eq!(keys[..3], [key.into(), format!("{{{key}}}:leasehold:h"), format!("{{{key}}}:leasehold:q")]);
            let signal = (library == "python-redis-lock").then(|| String::from("lock-signal:job"));
            assert_eq!(keys.get(5), signal.as_ref());
        }
        assert_eq!(keys("redis-semaphore", "{a}:1").all()[1], "mutex:{a}:1::leasehold:h");
    }

    #[test]
    fn which_foreign_keys_can_be_used_in_a_cluster() {
        for (name, shares) in [
            ("job", true),
            ("a{b}c", true),
            ("a{b", true),
            ("{}", false), // all of it is hashed, and no name around it has that in its braces
            ("a}b", false),
            ("a}{b", false),
        ] {
            assert_eq!(keys("plain", name).share_a_slot(), shares, "{name}");
        }
        assert!(!keys("python-redis-lock", "job").share_a_slot(), "its signal is in another slot");
        assert!(keys("python-redis-lock", "{job}").share_a_slot());
    }

    #[test]
    fn companions_of_others_are_not_taken_for_ones_own() {
        let mutex = Format::compat("redis-semaphore").unwrap();
        for key in ["{job}:leasehold:h", "{mutex:job}:leasehold:x", "leasehold:default:{job}:h", "mutex:job", "", "ä"]
        {
            assert_eq!(Keys::read(mutex, key), None, "{key}");
        }
        for key in
            ["leasehold:default:{job}x", "leasehold:default:{job}:x", "leasehold:default:job", "leasehold:default:{}"]
        {
            assert_eq!(Keys::read(Format::Own, key), None, "{key}");
        }
    }
}
