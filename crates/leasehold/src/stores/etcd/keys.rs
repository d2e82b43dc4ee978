//! Under which keys a lock stands.
//!
//! Who contends for a lock has a key of its own under the lock's prefix, `<namespace>/<name>/`, as etcd's concurrency
//! package has it; the lowest create revision there owns the lock. What is known of ticks stands outside, where nobody
//! who contends looks, and so do notes. Slashes and per cent signs in names are written `%2F` and `%25`, so that no lock's prefix lies
//! within another's.

use std::fmt::Write as _;

use crate::error::{Error, Result};
use crate::lease::HolderId;
use crate::name::{LockName, Namespace};
use crate::store::Topic;

/// How names become keys.
#[derive(Debug, Clone)]
pub(super) enum Keys {
    /// Behind a namespace, as it stands in keys.
    Own(String),
    /// As `etcdctl lock NAME` has them: the name as it is, and no namespace.
    Etcdctl,
}

/// Where ticks stand beside the keys of others: no lock may begin so.
const TICKS_BESIDE_OTHERS: &str = "!leasehold-ticks/";
const NOTES_BESIDE_OTHERS: &str = "!leasehold-notes/";

impl Keys {
    pub fn of(namespace: &Namespace) -> Self {
        Self::Own(written(namespace.as_str(), &['%', '/', '!']))
    }

    pub fn of_etcdctl() -> Self {
        Self::Etcdctl
    }

    pub fn are_of_etcdctl(&self) -> bool {
        matches!(self, Self::Etcdctl)
    }

    /// Whether the name can be a lock's.
    pub fn admit(&self, name: &LockName) -> Result<()> {
        let is_ours = self.are_of_etcdctl() && name.as_str().starts_with('!');
        if is_ours {
            return Err(Error::invalid(format!(
                "{name} begins with a !, which is kept for Leasehold's own keys beside compat"
            )));
        }
        Ok(())
    }

    /// Below which everybody who contends for the lock has a key.
    pub fn prefix(&self, name: &LockName) -> Vec<u8> {
        match self {
            Self::Own(namespace) => format!("{namespace}/{}/", written(name.as_str(), &['%', '/'])),
            Self::Etcdctl => format!("{name}/"),
        }
        .into_bytes()
    }

    /// The key of one who contends.
    pub fn contender(&self, name: &LockName, holder: HolderId) -> Vec<u8> {
        let mut key = self.prefix(name);
        key.extend_from_slice(holder.to_string().as_bytes());
        key
    }

    /// Where it stands which ticks of the lock were claimed.
    pub fn ticks(&self, name: &LockName) -> Vec<u8> {
        match self {
            Self::Own(namespace) => format!("{namespace}!ticks/{}", written(name.as_str(), &['%', '/'])),
            Self::Etcdctl => format!("{TICKS_BESIDE_OTHERS}{name}"),
        }
        .into_bytes()
    }

    /// Below which the ticks of all locks stand.
    pub fn ticks_of_all(&self) -> Vec<u8> {
        match self {
            Self::Own(namespace) => format!("{namespace}!ticks/"),
            Self::Etcdctl => TICKS_BESIDE_OTHERS.to_owned(),
        }
        .into_bytes()
    }

    /// Below which all notes stand. Where others' keys are, none do.
    pub fn notes_of_all(&self) -> Vec<u8> {
        match self {
            Self::Own(namespace) => format!("{namespace}!notes/"),
            Self::Etcdctl => NOTES_BESIDE_OTHERS.to_owned(),
        }
        .into_bytes()
    }

    /// Below which the notes of a topic stand. No lock has no name.
    pub fn notes(&self, topic: &Topic) -> Vec<u8> {
        let name = topic.name.as_ref().map(|name| written(name.as_str(), &['%', '/'])).unwrap_or_default();
        let mut below = self.notes_of_all();
        below.extend_from_slice(format!("{}/{name}/", topic.sort).as_bytes());
        below
    }

    /// What says on which lease notes hang that are kept for so many seconds. No sort of notes is called so.
    pub fn lease_of_notes(&self, seconds: u64) -> Vec<u8> {
        let mut key = self.notes_of_all();
        key.extend_from_slice(format!("!leases/{seconds}").as_bytes());
        key
    }

    /// Where all keys of all locks are: from where and up to where.
    pub fn all(&self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Own(namespace) => {
                let prefix = format!("{namespace}/").into_bytes();
                let end = behind(&prefix);
                (prefix, end)
            }
            Self::Etcdctl => (vec![0], vec![0]),
        }
    }

    /// Whose key it is, and what stands behind the lock's prefix; none for a key that is no contender's.
    pub fn read<'a>(&self, key: &'a [u8]) -> Option<(LockName, &'a str)> {
        let key = std::str::from_utf8(key).ok()?;
        let (front, rest) = key.rsplit_once('/')?;
        let name = match self {
            Self::Own(namespace) => {
                let name = front.strip_prefix(namespace.as_str())?.strip_prefix('/')?;
                let plain = name.replace("%2F", "/").replace("%25", "%");
                (written(&plain, &['%', '/']) == name).then_some(plain)?
            }
            Self::Etcdctl => {
                let is_lease_or_holder =
                    !rest.is_empty() && rest.len() <= 32 && rest.bytes().all(|b| b.is_ascii_hexdigit());
                (is_lease_or_holder && !key.starts_with('!')).then(|| front.to_owned())?
            }
        };
        Some((LockName::new(&name).ok()?, rest))
    }
}

/// The end of all that begins with `prefix`, which never ends in the greatest byte.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// `text` with these characters written as `%XX`.
fn written(text: &str, special: &[char]) -> String {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        if special.contains(&character) {
            let _ = write!(written, "%{:02X}", u32::from(character));
        } else {
            written.push(character);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).unwrap()
    }

    fn own(namespace: &str) -> Keys {
        Keys::of(&Namespace::new(namespace).unwrap())
    }

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let holder = HolderId::fresh();
        for keys in [own("default"), own("a/b!ticks"), Keys::Etcdctl] {
            for text in ["job", "path/1", "path//", "%2F", "a%b", "/job"] {
                let key = keys.contender(&name(text), holder);
                assert_eq!(keys.read(&key), Some((name(text), holder.to_string().as_str())), "{text}");
            }
        }
        assert_eq!(own("x").read(b"x/a%2f/1"), None, "not as we write it");
        assert_eq!(own("x").read(b"y/a/1"), None);
        assert_eq!(Keys::Etcdctl.read(b"config/app"), None, "no contender's");
    }

    #[test]
    fn no_topics_notes_lie_within_anothers() {
        let (keys, runs) = (own("x"), Topic::of_all("runs"));
        let topics = [runs.clone(), runs.clone().about(name("a")), runs.about(name("a/b")), Topic::of_all("run")];
        let below: Vec<_> = topics.iter().map(|topic| keys.notes(topic)).collect();
        assert_eq!(below[0], b"x!notes/runs//");
        assert_eq!(below[2], b"x!notes/runs/a%2Fb/");
        for (nth, one) in below.iter().enumerate() {
            assert!(below.iter().enumerate().all(|(other, prefix)| nth == other || !one.starts_with(prefix)));
            assert!(keys.read(&[one, &b"told/1"[..]].concat()).is_none(), "no lock's");
        }
    }

    #[test]
    fn no_prefix_lies_within_another_and_namespaces_are_apart() {
        let keys = own("default");
        assert_eq!(keys.prefix(&name("job")), b"default/job/");
        assert_eq!(keys.prefix(&name("path/1")), b"default/path%2F1/");
        assert!(!own("x!ticks").prefix(&name("n")).starts_with(b"x!ticks/"));
        assert_eq!(own("x").ticks(&name("n")), b"x!ticks/n");
        assert!(!own("x!notes").prefix(&name("n")).starts_with(&own("x").notes_of_all()));
        assert_eq!(Keys::Etcdctl.prefix(&name("path/1")), b"path/1/");
        assert!(Keys::Etcdctl.admit(&name("!leasehold-ticks")).is_err());
    }
}
