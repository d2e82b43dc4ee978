//! Where a name is in Redis.

use crate::name::{LockName, Namespace};

/// The keys of a name: all in one slot, for the braces mark what is hashed.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    lock: String,
}

impl Keys {
    pub fn of(namespace: &Namespace, name: &LockName) -> Self {
        Self { lock: format!("leasehold:{}:{{{}}}", encoded(namespace.as_str()), encoded(name.as_str())) }
    }

    /// The lock's own.
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// All, in the order in which the scripts name them.
    pub fn all(&self) -> [String; 5] {
        let lock = &self.lock;
        [lock.clone(), format!("{lock}:h"), format!("{lock}:q"), format!("{lock}:w"), format!("{lock}:p")]
    }

    /// Those that a renewal needs.
    pub fn for_renewal(&self) -> [String; 3] {
        let [lock, hash, _, _, pool] = self.all();
        [lock, hash, pool]
    }

    /// What the names' companions look like, for a search. A namespace may have characters that a pattern has, too.
    pub fn pattern(namespace: &Namespace) -> String {
        let mut pattern = String::from("leasehold:");
        for c in encoded(namespace.as_str()).chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + ":{*}:h"
    }

    /// The name that a companion belongs to.
    pub fn name_in(companion: &str) -> Option<LockName> {
        let (_, rest) = companion.split_once('{')?;
        LockName::new(&decoded(rest.strip_suffix("}:h")?)).ok()
    }
}

/// Where it stands since when a server has been what it is; in a cluster in a slot of that server's, which the tag says.
pub(super) fn since(namespace: &Namespace, identity: &str, tag: &str) -> String {
    format!("leasehold:{}:since:{identity}:{{{tag}}}", encoded(namespace.as_str()))
}

/// Braces would move what is hashed, and `%` is what hides them.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '%' => encoded.push_str("%25"),
            '{' => encoded.push_str("%7B"),
            '}' => encoded.push_str("%7D"),
            c => encoded.push(c),
        }
    }
    encoded
}

fn decoded(text: &str) -> String {
    text.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_were() {
        let namespace = Namespace::default();
        for name in ["job", "a{b}c", "%7B", "100%", "%257D", "{}", "a:h", "}:h", "ä/ö ü"] {
            let name = LockName::new(name).unwrap();
            let keys = Keys::of(&namespace, &name);
            assert_eq!(Keys::name_in(&keys.all()[1]).as_ref(), Some(&name), "{keys:?}");
            assert_eq!(keys.lock().matches(['{', '}']).count(), 2, "{keys:?}");
        }
    }
}
