//! How times, holders and what is not up to date are written.

use std::time::Duration;

use jiff::Timestamp;
use leasehold::{Holder, HolderId, Holding, Waiter};
use serde::Serialize;

use crate::snapshot::reading::{Away, Seen};

/// Milliseconds; more than 500 million years are cut.
pub(crate) fn milliseconds(span: Duration) -> u64 {
    span.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The same of what is left of a hold; none if it has no end.
pub(crate) fn left(span: Duration) -> Option<u64> {
    (span != Holding::NO_END).then(|| milliseconds(span))
}

/// For how long somebody has held it; none where that is of another library and it alone knows.
pub(crate) fn held_for(span: Duration, library: Option<&'static str>) -> Option<u64> {
    (library.is_none() || !span.is_zero()).then(|| milliseconds(span))
}

/// RFC 3339, in UTC.
pub(crate) fn instant(at: Timestamp) -> String {
    at.to_string()
}

/// How old an answer is, and why it is not newer.
#[derive(Debug, Serialize)]
pub(crate) struct Freshness {
    /// How long ago it was read.
    age_ms: u64,
    /// None while the store answers.
    away: Option<Silence>,
}

#[derive(Debug, Serialize)]
struct Silence {
    message: String,
    for_ms: u64,
}

impl Freshness {
    pub fn of<T>(seen: &Seen<T>) -> Self {
        Self { age_ms: milliseconds(seen.read.elapsed()), away: seen.away.as_ref().map(Silence::of) }
    }
}

impl Silence {
    fn of(away: &Away) -> Self {
        Self { message: away.error.to_string(), for_ms: milliseconds(away.since.elapsed()) }
    }
}

/// Who holds a lock.
#[derive(Debug, Serialize)]
pub(crate) struct Who {
    id: Option<String>,
    label: String,
    host: Option<String>,
    library: Option<&'static str>,
}

impl Who {
    pub fn new(id: Option<HolderId>, label: &str, library: Option<&'static str>) -> Self {
        let host = library.is_none().then(|| host(label)).flatten();
        Self { id: id.map(|id| id.to_string()), label: label.to_owned(), host, library }
    }
}

/// One of several who hold a lock.
#[derive(Debug, Serialize)]
pub(crate) struct Another {
    #[serde(flatten)]
    who: Who,
    token: String,
    held_for_ms: Option<u64>,
    remaining_ms: Option<u64>,
    revoked: bool,
}

impl Another {
    pub fn of(other: &Holder) -> Self {
        Self {
            who: Who::new(other.holder, &other.label, other.library),
            token: other.token.to_string(),
            held_for_ms: held_for(other.held_for, other.library),
            remaining_ms: left(other.remaining),
            revoked: other.revoked,
        }
    }
}

/// One who waits.
#[derive(Debug, Serialize)]
pub(crate) struct Waits {
    holder: Option<String>,
    label: String,
    waited_ms: Option<u64>,
}

impl Waits {
    pub fn of(waiter: &Waiter) -> Self {
        Self {
            holder: waiter.holder.map(|holder| holder.to_string()),
            label: waiter.label.clone(),
            waited_ms: waiter.waited.map(milliseconds),
        }
    }
}

/// Of a label `host/pid/job`, the host.
fn host(label: &str) -> Option<String> {
    let mut parts = label.splitn(3, '/');
    let (host, pid) = (parts.next()?, parts.next()?);
    let is_one = !host.is_empty() && !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_stands_before_a_process() {
        assert_eq!(host("web-3/41/backup").as_deref(), Some("web-3"));
        assert_eq!(host("web-3/41").as_deref(), Some("web-3"));
        for other in ["web-3", "web-3/backup", "/41/backup", "a/b/c", "web//x", "https://example.com"] {
            assert_eq!(host(other), None, "{other}");
        }
    }
}
