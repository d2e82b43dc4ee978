//! What a session lock is called in the server.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::name::{LockName, Namespace};

/// The longest name of a lock that MySQL takes, in characters.
const LONGEST: usize = 64;

/// How a lock's name becomes the server's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum KeyScheme {
    /// Ours: a strong hash of the namespace and the name.
    #[default]
    Leasehold,
    /// That of the Ruby library `with_advisory_lock`, which knows no namespaces.
    WithAdvisoryLock,
}

impl KeyScheme {
    pub fn read(text: &str) -> Result<Self, String> {
        match text {
            "leasehold" => Ok(Self::Leasehold),
            "with_advisory_lock" => Ok(Self::WithAdvisoryLock),
            _ => Err(format!("has key_scheme={text:?}; write leasehold (the default) or with_advisory_lock")),
        }
    }

    /// The key in PostgreSQL: of a pair, the first is above the second.
    pub fn number(self, namespace: &Namespace, name: &LockName) -> i64 {
        match self {
            Self::Leasehold => {
                let hash = hash(&[namespace.as_str(), name.as_str()]);
                i64::from_be_bytes(std::array::from_fn(|nth| hash[nth]))
            }
            Self::WithAdvisoryLock => i64::from(as_ruby_does(name.as_str())) << 32,
        }
    }

    /// The key in MySQL and MariaDB, where names count for the whole server, have 64 characters at the most, and are the
    /// same in capitals.
    pub fn text(self, database: &str, namespace: &Namespace, name: &LockName) -> Result<String> {
        match self {
            Self::Leasehold => {
                let hash = hash(&[database, namespace.as_str(), name.as_str()]);
                let hex: String = hash[..20].iter().map(|byte| format!("{byte:02x}")).collect();
                Ok(format!("leasehold:{hex}"))
            }
            Self::WithAdvisoryLock if name.as_str().chars().count() > LONGEST => Err(Error::invalid(format!(
                "the name {name:?} has more than {LONGEST} characters, which with_advisory_lock hands to the server as they \
                 are; shorten it"
            ))),
            Self::WithAdvisoryLock => Ok(name.as_str().to_owned()),
        }
    }
}

/// SHA-256 of `leasehold` and the parts, each behind a zero byte, which none of them has.
fn hash(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update("leasehold");
    for part in parts {
        hash.update([0]);
        hash.update(part);
    }
    hash.finalize().into()
}

/// A number stands for itself; anything else for its CRC-32.
fn as_ruby_does(name: &str) -> i32 {
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number
        .then(|| name.bytes().fold(0_u64, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))));
    let number = number.unwrap_or_else(|| u64::from(crc32(name.as_bytes())));
    i32::try_from(number & 0x7fff_ffff).unwrap_or_default()
}

/// As of zlib.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).unwrap()
    }

    /// In docs/interop.md, too. Other builds hold locks by them: they never change.
    #[test]
    fn i09_keys_are_pinned() {
        let namespace = Namespace::default();
        let number = |text| KeyScheme::Leasehold.number(&namespace, &name(text));
        let text = |text| KeyScheme::Leasehold.text("jobs", &namespace, &name(text)).unwrap();
        assert_eq!((number("nightly-backup"), number("a"), number("é")), GOLDEN_NUMBERS);
        assert_eq!(text("nightly-backup"), GOLDEN_TEXT);
    }

    const GOLDEN_NUMBERS: (i64, i64, i64) =
        (-3_765_677_259_177_562_136, -4_584_225_864_631_738_644, -3_414_487_554_831_171_140);
    const GOLDEN_TEXT: &str = "leasehold:793d5f318a7944e312d62f080018308c03965608";

    #[test]
    fn i08_j05_environments_and_names_have_keys_of_their_own() {
        let of = |namespace, text| KeyScheme::Leasehold.number(&Namespace::new(namespace).unwrap(), &name(text));
        // The first two have the same CRC-32.
        assert_ne!(of("default", "plumless"), of("default", "buckeroo"));
        assert_eq!(crc32(b"plumless"), crc32(b"buckeroo"));
        assert_ne!(of("a", "bc"), of("ab", "c"));
        let text = |database| KeyScheme::Leasehold.text(database, &Namespace::default(), &name("job")).unwrap();
        assert_ne!(text("one"), text("other"));
    }

    #[test]
    fn j01_any_name_is_short_enough() {
        for long in ["x".repeat(64), "x".repeat(65), "x".repeat(200), "é".repeat(33)] {
            let text = KeyScheme::Leasehold.text("jobs", &Namespace::default(), &name(&long)).unwrap();
            assert_eq!(text.len(), 50, "{text}");
            assert_eq!(text, text.to_lowercase());
        }
        let theirs = |text: &str| KeyScheme::WithAdvisoryLock.text("jobs", &Namespace::default(), &name(text));
        assert_eq!(theirs("Job").unwrap(), "Job");
        assert!(theirs(&"x".repeat(65)).is_err());
    }

    #[test]
    fn keys_of_with_advisory_lock_are_its_own() {
        let number = |text| KeyScheme::WithAdvisoryLock.number(&Namespace::default(), &name(text));
        for (text, first) in
            [("lock_name", 1_222_411_496_i64), ("foo", 208_889_121), ("tag-1", 1_971_758_596), ("42", 42)]
        {
            assert_eq!(number(text), first << 32, "{text}");
        }
        assert_eq!(crc32(b"foo"), 2_356_372_769);
    }
}
