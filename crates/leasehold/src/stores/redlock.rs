//! `redlock://`: a quorum of Redis servers, in one URL.

use super::hide_secrets;
use super::secrets::has_stray_at;
use crate::error::{Error, Result};

/// The scheme, and that of its members.
const SCHEMES: [(&str, &str); 2] = [("redlock", "redis"), ("redlocks", "rediss")];

/// The URLs of the members: user, password, database and options are the same for all. For [`open_quorum`](super::open_quorum).
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): that is no such URL.
pub fn members(url: &str) -> Result<Vec<String>> {
    read(url).map_err(|why| Error::invalid(format!("{:?} {why}", hide_secrets(url))))
}

fn read(url: &str) -> Result<Vec<String>, &'static str> {
    const NO_URL: &str = "is no URL of a quorum; write redlock://host:6379,host:6379,host:6379";
    let (front, query) = url.split_once('?').unwrap_or((url, ""));
    if has_stray_at(query) {
        return Err("has an @ behind a ?; a ? in a user or password is written %3F");
    }
    let (scheme, place) = front.split_once("://").ok_or(NO_URL)?;
    let (_, scheme) = SCHEMES.iter().find(|(own, _)| *own == scheme).ok_or(NO_URL)?;
    let (login, place) = place.rfind('@').map_or(("", place), |at| place.split_at(at + 1));
    let (hosts, database) = place.find('/').map_or((place, ""), |slash| place.split_at(slash));
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    Ok(hosts.split(',').map(|host| format!("{scheme}://{login}{host}{database}{query}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_its_own_url() {
        let urls = members("redlock://bob:x%40y@a:1,b,[::1]:3/2?namespace=n&max_ttl=30").unwrap();
        let one = |host: &str| format!("redis://bob:x%40y@{host}/2?namespace=n&max_ttl=30");
        assert_eq!(urls, ["a:1", "b", "[::1]:3"].map(one));
        assert_eq!(members("redlocks://a,b,c").unwrap(), ["a", "b", "c"].map(|host| format!("rediss://{host}")));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_password() {
        for wrong in ["redlock:/u:hunter2@a,b,c", "redlock://:hunt?er2@a,b,c"] {
            let error = members(wrong).unwrap_err().to_string();
            assert!(!error.contains("hunt"), "{error}");
        }
    }
}
