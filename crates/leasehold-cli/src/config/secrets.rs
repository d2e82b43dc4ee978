//! Where URLs keep their passwords.

use std::path::PathBuf;

use leasehold::stores::hide_secrets;

/// Options that name a file with a password in it.
const FILES: [&str; 2] = ["password_file", "sentinel_password_file"];

/// Options that are shown to nobody and name a file all the same: a password's, or a private key's.
const NAME_A_FILE: [&str; 3] = [FILES[0], FILES[1], "key"];

/// The files that this URL names for its passwords.
pub(super) fn password_files(url: &str) -> Vec<PathBuf> {
    let named = options(url).filter_map(|option| option.split_once('='));
    named.filter(|(name, _)| FILES.contains(name)).map(|(_, file)| percent_decoded(file).into()).collect()
}

/// Whether a password stands in this URL itself.
pub(super) fn holds_password(url: &str) -> bool {
    let is_a_file = |option: &&str| option.split_once('=').is_some_and(|(name, _)| NAME_A_FILE.contains(&name));
    let front = without_user(url.split_once('?').map_or(url, |(front, _)| front));
    let others: Vec<&str> = options(url).filter(|option| !is_a_file(option)).collect();
    let url = if others.is_empty() { front } else { format!("{front}?{}", others.join("&")) };
    hide_secrets(&url) != url
}

/// A user alone is none, though it isn't shown where it may be a password that was written in its place.
fn without_user(front: &str) -> String {
    match front.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (user, host))) if !user.contains(':') => format!("{scheme}://{host}"),
        _ => front.to_owned(),
    }
}

fn options(url: &str) -> impl Iterator<Item = &str> {
    url.split_once('?').map_or("", |(_, query)| query).split('&').filter(|option| !option.is_empty())
}

/// The same, without percent-encoding; what is none stays as it is, which the store refuses.
fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => bytes.extend([&[byte], &part.as_bytes()[2..]].concat()),
            None => bytes.extend([b"%", part.as_bytes()].concat()),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_passwords_are_found_in_urls() {
        for (url, files) in [
            ("redis://h?namespace=n", &[][..]),
            ("redis://h?password_file=/run/a%20b&namespace=n", &["/run/a b"]),
            ("redis+sentinel://h/m?sentinel_password_file=s&password_file=p", &["s", "p"]),
            ("etcds://bob@h?key=/k&password_file=%zz%4", &["%zz%4"]),
        ] {
            assert_eq!(password_files(url), files.iter().map(PathBuf::from).collect::<Vec<_>>(), "{url}");
        }
    }

    #[test]
    fn a_password_is_told_from_the_name_of_its_file() {
        for url in [
            "redis://bob:hunter2@h",
            "postgres://h/d?password=hunter2&sslmode=require",
            "redis+sentinel://h/m?sentinel_password=hunter2&password_file=/p",
        ] {
            assert!(holds_password(url), "{url}");
        }
        for url in [
            "redis://h:6379/0",
            "sqlite:///x.db?namespace=n",
            "redis://bob@h?password_file=/p&namespace=n",
            "rediss://h?ca=/ca&cert=/c&key=/k",
            "postgres://bob@h/d",
        ] {
            assert!(!holds_password(url), "{url}");
        }
    }
}
