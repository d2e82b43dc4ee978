//! What stands under the names' keys that should not.

use std::time::{Duration, Instant};

use redis::{RedisResult, Value};

use super::duty::Duty;
use super::patient::{Patient, command};
use crate::finding::{Finding, Severity};
use crate::name::LockName;
use crate::span::Span;
use crate::stores::redis::answer;
use crate::stores::redis::format::Format;
use crate::stores::redis::keys::{self, Keys, Part};

/// How many keys of ours are looked at, and how many pages of all keys.
const KEYS: usize = 10_000;
const PAGES: usize = 100;

/// And for how long: the rest of the examination must not be lost over it.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many are asked about in one go.
const AT_ONCE: usize = 500;

/// How many are named in a finding.
const NAMED: usize = 5;

/// A lease that ends later than in an hour is told where no smaller `max_ttl` is known: so does the client by default.
const LONGEST: Duration = Duration::from_secs(3600);

/// What stands under a key.
#[derive(Debug, Default)]
struct Seen {
    key: String,
    /// None: no key of ours has such a name.
    of: Option<(LockName, Part)>,
    kind: String,
    /// In milliseconds; -1 for ever.
    left: i64,
    /// Of a lock: what it holds, and what is known of its holder.
    value: String,
    holder: String,
    /// Of the last grant: it says when that was.
    token: i64,
    /// Unless it is ahead of the clock, as a quorum's may be: which one is, and when that was, in milliseconds since 1970.
    ahead: Option<(i64, i64)>,
}

/// What may be wrong with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ailment {
    OtherKind,
    NoEnd,
    TooLong,
    Future,
    Foreign,
    KeptForEver,
    TokenAhead,
    Stray,
}

pub(super) async fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let began = Instant::now();
    let Some((mut keys, mut whole)) = scanned(patient).await else { return Vec::new() };
    keys.retain(|key| !keys::is_of_notes(key));
    keys.sort_unstable();
    keys.dedup();
    let Some(now) = patient.ask_one(&redis::cmd("TIME")).await else { return Vec::new() };
    let Ok((seconds, _)) = redis::from_redis_value::<(i64, i64)>(now) else { return Vec::new() };
    let longest = patient.options.guard().unwrap_or(LONGEST);
    let (mut ill, mut looked) = (Vec::new(), 0);
    for keys in keys.chunks(AT_ONCE) {
        if began.elapsed() > PATIENCE {
            whole = false;
            break;
        }
        looked += keys.len();
        for seen in looked_at(patient, keys).await {
            let ailments = seen.ailments(patient.options.format, seconds * 1000, longest);
            // A member's tokens go by what a quorum has acknowledged, and may be ahead of its clock.
            let count = |what: &Ailment| patient.duty != Duty::Member || *what != Ailment::Future;
            ill.extend(
                ailments
                    .into_iter()
                    .filter(count)
                    .map(|what| (what, seen.shown(what), seen.mended_by(what).to_owned())),
            );
        }
    }
    told(&ill, looked, whole)
}

/// The keys of the namespace, and whether these are all; nothing for a user who may not ask.
async fn scanned(patient: &Patient<'_>) -> Option<(Vec<String>, bool)> {
    let (mut keys, mut cursor, began) = (Vec::new(), String::from("0"), Instant::now());
    for _ in 0..PAGES {
        let page = patient.ask_one(&crate::stores::redis::scan(patient.options, &cursor)).await?;
        let (next, page): (String, Vec<String>) = redis::from_redis_value(page).ok()?;
        keys.extend(page);
        if next == "0" {
            return Some((keys, true));
        }
        if keys.len() >= KEYS || began.elapsed() > PATIENCE / 2 {
            break;
        }
        cursor = next;
    }
    keys.truncate(KEYS);
    Some((keys, false))
}

async fn looked_at(patient: &Patient<'_>, keys: &[String]) -> Vec<Seen> {
    let about = |key: &String| {
        let companion = Keys::read(patient.options.format, key).map_or_else(
            || key.clone(),
            |(name, _)| Keys::of(patient.options.format, &patient.options.namespace, &name).all().swap_remove(1),
        );
        [
            command("TYPE", &[key]),
            command("PTTL", &[key]),
            command("GET", &[key]),
            command("HMGET", &[&companion, "h", "t", "i"]),
        ]
    };
    let commands: Vec<_> = keys.iter().flat_map(about).collect();
    let Ok(answers) = patient.ask(&commands).await else { return Vec::new() };
    let read = |(key, answers): (&String, &[RedisResult<Value>])| Seen::read(patient.options.format, key, answers);
    keys.iter().zip(answers.chunks(4)).map(read).collect()
}

impl Seen {
    fn read(format: Format, key: &str, answers: &[RedisResult<Value>]) -> Self {
        let answer = |nth: usize| answers.get(nth).and_then(|answer| answer.as_ref().ok());
        let text = |nth| answer(nth).and_then(answer::text).unwrap_or_default();
        let fields = answer(3).cloned();
        let fields: Vec<Option<String>> =
            fields.and_then(|fields| redis::from_redis_value(fields).ok()).unwrap_or_default();
        let field = |nth: usize| fields.get(nth).cloned().flatten().unwrap_or_default();
        Self {
            key: key.to_owned(),
            of: Keys::read(format, key),
            kind: text(0),
            left: text(1).parse().unwrap_or(0),
            value: text(2),
            holder: field(0),
            token: field(1).parse().unwrap_or(0),
            ahead: field(2).split_once(' ').and_then(|(token, at)| Some((token.parse().ok()?, at.parse().ok()?))),
        }
    }

    /// `now` is the server's, in milliseconds.
    fn ailments(&self, format: Format, now: i64, longest: Duration) -> Vec<Ailment> {
        let Some((_, part)) = &self.of else { return vec![Ailment::Stray] };
        if self.kind == "none" || self.left == -2 {
            return Vec::new(); // Gone meanwhile.
        }
        if self.kind != part.kind() {
            return vec![Ailment::OtherKind];
        }
        let mut found = Vec::new();
        if *part != Part::Lock {
            found.extend((self.left == -1).then_some(Ailment::KeptForEver));
            found.extend((*part == Part::Hash && self.granted() > now + HOUR_MS).then_some(Ailment::TokenAhead));
            return found;
        }
        let kept = self.value.starts_with('-');
        let ours = self.value.trim_start_matches(['!', '-']) == self.holder;
        if self.left == -1 {
            found.push(Ailment::NoEnd);
        } else if !kept && u128::try_from(self.left).unwrap_or(0) > longest.as_millis() {
            found.push(Ailment::TooLong);
        }
        if !ours && format.is_own() {
            found.push(Ailment::Foreign);
        } else if ours && self.granted() > now + 2000 {
            found.push(Ailment::Future);
        }
        found
    }

    /// When its last grant was, in milliseconds since 1970.
    fn granted(&self) -> i64 {
        match self.ahead {
            Some((token, at)) if token == self.token => at,
            _ => EPOCH_2020_MS + (self.token >> 4),
        }
    }

    fn shown(&self, what: Ailment) -> String {
        let it = self.mended_by(what);
        match what {
            Ailment::OtherKind => format!("{it} is a {}", self.kind),
            Ailment::TooLong => format!("{it} ({} left)", Span(Duration::from_millis(self.left.unsigned_abs()))),
            _ => it.to_owned(),
        }
    }

    /// What is to be named to mend it: the lock, or the key.
    fn mended_by(&self, what: Ailment) -> &str {
        match (&self.of, what) {
            (Some((name, _)), Ailment::NoEnd | Ailment::TooLong | Ailment::Future | Ailment::Foreign) => name.as_str(),
            _ => &self.key,
        }
    }
}

const EPOCH_2020_MS: i64 = 1_577_836_800_000;
const HOUR_MS: i64 = 3_600_000;

impl Ailment {
    const ALL: [Self; 8] = [
        Self::OtherKind,
        Self::NoEnd,
        Self::TooLong,
        Self::Future,
        Self::Foreign,
        Self::KeptForEver,
        Self::TokenAhead,
        Self::Stray,
    ];

    fn told(self) -> (Severity, &'static str, &'static str) {
        const RELEASE: &str = "if its holder is dead: leasehold release IT --force --now";
        match self {
            Self::OtherKind => (
                Severity::Problem,
                "of another program, and the name can't be locked",
                "DEL IT, or use another namespace",
            ),
            Self::NoEnd => (Severity::Problem, "held without an end: nobody else is ever granted them", RELEASE),
            Self::TooLong => (Severity::Warning, "held for longer than any TTL (a clock that was set back?)", RELEASE),
            Self::Future => (
                Severity::Warning,
                "granted in the future: the server's clock was set back, and they end late by as much",
                RELEASE,
            ),
            Self::Foreign => {
                (Severity::Warning, "held by another program, or what was known of the holder is lost", RELEASE)
            }
            Self::KeptForEver => {
                (Severity::Warning, "kept for ever, which ours never are", "PEXPIRE IT 777600000, or DEL it")
            }
            Self::TokenAhead => (
                Severity::Problem,
                "with a token from the future: the server's clock was set back by over an hour, and grants no such lock",
                "set the server's clock; if it is right now, DEL IT while nobody holds the lock",
            ),
            Self::Stray => {
                (Severity::Warning, "in our namespace, and no keys of ours", "use another namespace, or DEL IT")
            }
        }
    }
}

fn told(ill: &[(Ailment, String, String)], keys: usize, whole: bool) -> Vec<Finding> {
    let of = |what: Ailment| {
        let shown: Vec<_> = ill.iter().filter(|(ailment, ..)| *ailment == what).collect();
        let (severity, means, fix) = what.told();
        let (_, _, first) = shown.first()?;
        let more = if shown.len() > NAMED { format!(" and {} more", shown.len() - NAMED) } else { String::new() };
        let named: Vec<_> = shown.iter().take(NAMED).map(|(_, shown, _)| &**shown).collect();
        let message = format!("{}{more}: {means}", named.join(", "));
        Some(Finding { severity, subject: "keys", message, fix: Some(fix.replace("IT", &format!("'{first}'"))) })
    };
    let mut findings: Vec<_> = Ailment::ALL.into_iter().filter_map(of).collect();
    let stopped = if whole { "" } else { "; there are more, which were not looked at" };
    if findings.is_empty() || !whole {
        findings.push(Finding::fine("keys", format!("{keys} looked at{stopped}")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;
    const MINUTE: Duration = Duration::from_secs(60);

    fn lock(left: i64, value: &str) -> Seen {
        let of = Keys::read(Format::Own, "leasehold:default:{job}");
        let key = "leasehold:default:{job}".into();
        Seen { key, of, kind: "string".into(), left, value: value.into(), holder: "a".into(), token: 0, ahead: None }
    }

    fn beside(kind: &str, left: i64, token: i64) -> Seen {
        let of = Keys::read(Format::Own, "leasehold:default:{job}:h");
        Seen { of, kind: kind.into(), token, key: "leasehold:default:{job}:h".into(), ..lock(left, "") }
    }

    #[test]
    fn each_way_to_be_ill_is_seen() {
        let ill = |seen: Seen| seen.ailments(Format::Own, NOW, MINUTE);
        for sound in [lock(30_000, "a"), lock(1, "!a"), lock(3_600_000, "-a"), beside("hash", 1, 16)] {
            assert_eq!(ill(sound), []);
        }
        assert_eq!(ill(lock(-1, "a")), [Ailment::NoEnd]);
        assert_eq!(ill(lock(-1, "b")), [Ailment::NoEnd, Ailment::Foreign]);
        assert_eq!(ill(lock(60_001, "a")), [Ailment::TooLong]);
        assert_eq!(ill(lock(1, "b")), [Ailment::Foreign]);
        assert_eq!(ill(Seen { token: (NOW - EPOCH_2020_MS + 3000) << 4, ..lock(1, "a") }), [Ailment::Future]);
        let token = (NOW - EPOCH_2020_MS + 300_000) << 4;
        assert_eq!(ill(Seen { token, ahead: Some((token, NOW)), ..lock(1, "a") }), [], "a quorum's");
        assert_eq!(ill(Seen { token, ahead: Some((token - 1, NOW)), ..lock(1, "a") }), [Ailment::Future]);
        assert_eq!(ill(Seen { kind: "list".into(), ..lock(-1, "") }), [Ailment::OtherKind]);
        assert_eq!(ill(Seen { kind: "none".into(), ..lock(-2, "") }), []);
        assert_eq!(ill(Seen { of: None, ..lock(-1, "") }), [Ailment::Stray]);
        assert_eq!(ill(beside("hash", -1, 0)), [Ailment::KeptForEver]);
        assert_eq!(ill(beside("zset", 1, 0)), [Ailment::OtherKind]);
        assert_eq!(ill(beside("hash", 1, (NOW - EPOCH_2020_MS + HOUR_MS + 1) << 4)), [Ailment::TokenAhead]);
        assert_eq!(
            lock(1, "b").ailments(Format::compat("plain").unwrap(), NOW, MINUTE),
            [],
            "theirs are no fault there"
        );
    }

    #[test]
    fn many_are_told_in_one_line() {
        let ill: Vec<_> = (0..7).map(|n| (Ailment::NoEnd, format!("job {n}"), format!("job {n}"))).collect();
        let told = told(&ill, 7, false);
        assert!(
            told[0].message.starts_with("job 0, job 1, job 2, job 3, job 4 and 2 more: held without an end"),
            "{told:?}"
        );
        assert_eq!(told[0].fix.as_deref(), Some("if its holder is dead: leasehold release 'job 0' --force --now"));
        assert!(told[1].message.contains("there are more"), "{told:?}");
    }
}
