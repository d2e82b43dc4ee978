//! What many processes say they held, and whether it can be true.
//!
//! Each process notes the spans of time in which it was **certain** that it held a lock: from after the answer to
//! just before it gave it back, or to its last look at a valid guard. Spans are on `CLOCK_BOOTTIME`, which all
//! processes of a machine share. If exclusion holds, no two of them overlap, and tokens grow with time.
//!
//! ```
//! use leasehold_testkit::history::{self, Hold, History};
//!
//! # let path = std::env::temp_dir().join(format!("leasehold-doc-{}", std::process::id()));
//! // In each process:
//! let history = History::open(&path).unwrap();
//! let hold = |who: &str, token, from, until| Hold { who: who.into(), name: "job".into(), token, from, until };
//! history.note(&hold("a", 1, 1_000, 2_000)).unwrap();
//! history.note(&hold("b", 2, 1_999, 3_000)).unwrap();
//!
//! // In the test, at the end:
//! let violation = history::check(history::read(&path).unwrap()).unwrap_err();
//! assert_eq!(violation.to_string(), "two holders of \"job\" at the same time: b (token 2) from 1999 to 3000, \
//!     a (token 1) from 1000 to 2000");
//! # std::fs::remove_file(path).unwrap();
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use leasehold::validity::{BootClock, Clock};

/// Nanoseconds on the clock that histories are written in.
#[must_use]
pub fn now() -> u64 {
    BootClock.now().as_nanos()
}

/// One span in which somebody was certain to hold a lock. One hold may be noted in several spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The acquisition, in one word: two acquisitions of one process are two.
    pub who: String,
    /// The lock.
    pub name: String,
    /// Its fencing token.
    pub token: u64,
    /// When it was certain to be held, in nanoseconds as of [`now`].
    pub from: u64,
    /// Up to when.
    pub until: u64,
}

impl Hold {
    fn is_of_the_same_grant(&self, other: &Self) -> bool {
        self.who == other.who && self.token == other.token
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, token, from, until, .. } = self;
        write!(f, "{who} (token {token}) from {from} to {until}")
    }
}

/// A file that many processes write spans to. They may be killed at any moment.
#[derive(Debug)]
pub struct History {
    file: File,
}

impl History {
    /// Opens a history for writing; makes it if there is none.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    /// Adds a span, by a single write at the file's end.
    ///
    /// # Errors
    /// What the file system says.
    pub fn note(&self, hold: &Hold) -> io::Result<()> {
        (&self.file).write_all(line_of(hold).as_bytes())
    }
}

/// `who token from until name;`, in lines of its own: a process killed in the middle of a write leaves half a
/// line, which must spoil neither the next one nor be taken for a whole one. The name comes last as it may have blanks.
fn line_of(hold: &Hold) -> String {
    let Hold { who, name, token, from, until } = hold;
    format!("\n{who} {token} {from} {until} {name};\n")
}

fn parse(line: &str) -> Option<Hold> {
    let mut words = line.strip_suffix(';')?.splitn(5, ' ');
    let who = words.next()?.to_owned();
    let mut number = || words.next()?.parse().ok();
    let (token, from, until) = (number()?, number()?, number()?);
    Some(Hold { who, name: words.next()?.to_owned(), token, from, until })
}

/// Reads every whole span of a history.
///
/// # Errors
/// What the file system says.
pub fn read(path: &Path) -> io::Result<Vec<Hold>> {
    // A half-written line may end within a character.
    let bytes = std::fs::read(path)?;
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(parse).collect())
}

/// How a history breaks the promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A span ends before it begins: whoever wrote it is at fault.
    Backwards(Hold),
    /// Two held one lock at the same time; the later one first.
    Overlap(Hold, Hold),
    /// Two grants with the same token; the later one first.
    SameToken(Hold, Hold),
    /// A later grant has a smaller token; the later one first.
    SmallerToken(Hold, Hold),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backwards(hold) => write!(f, "a span of {:?} ends before it begins: {hold}", hold.name),
            Self::Overlap(later, earlier) => {
                write!(f, "two holders of {:?} at the same time: {later}, {earlier}", later.name)
            }
            Self::SameToken(later, earlier) => {
                write!(f, "two grants of {:?} with the same token: {later}, {earlier}", later.name)
            }
            Self::SmallerToken(later, earlier) => {
                write!(f, "a later grant of {:?} has a smaller token: {later}, {earlier}", later.name)
            }
        }
    }
}

impl std::error::Error for Violation {}

/// Checks that no two spans of different grants of a name overlap, and that tokens grow from grant to grant.
/// Answers how many spans there were: a history without any proves nothing.
///
/// # Errors
/// The first violation in time of the first name that has one.
pub fn check(mut holds: Vec<Hold>) -> Result<usize, Box<Violation>> {
    if let Some(hold) = holds.iter().find(|hold| hold.until < hold.from) {
        return Err(Box::new(Violation::Backwards(hold.clone())));
    }
    holds.sort_by(|a, b| (&a.name, a.from, a.until).cmp(&(&b.name, b.from, b.until)));
    holds.chunk_by(|a, b| a.name == b.name).try_for_each(check_name)?;
    Ok(holds.len())
}

/// Checks tokens alone, for a store that may let two hold a lock for a moment: what checks tokens can tell them apart.
/// Here each span is one in which a grant was *made*, from when it was asked for until the answer. Of two that don't overlap
/// the later grant has to have the larger token; of two that do, another one.
/// Answers how many spans there were.
///
/// # Errors
/// The first violation, in the order in which they were asked for.
pub fn check_tokens(mut grants: Vec<Hold>) -> Result<usize, Box<Violation>> {
    if let Some(grant) = grants.iter().find(|grant| grant.until < grant.from) {
        return Err(Box::new(Violation::Backwards(grant.clone())));
    }
    grants.sort_by(|a, b| (&a.name, a.token, a.from).cmp(&(&b.name, b.token, b.from)));
    if let Some([first, second]) = grants.array_windows().find(|[a, b]| a.name == b.name && a.token == b.token) {
        return Err(Box::new(Violation::SameToken(second.clone(), first.clone())));
    }
    grants.chunk_by(|a, b| a.name == b.name).try_for_each(check_order)?;
    Ok(grants.len())
}

/// Checks the grants of one name, in order of their tokens: none was over before one with a smaller token was asked for.
fn check_order(grants: &[Hold]) -> Result<(), Box<Violation>> {
    let Some((mut latest, rest)) = grants.split_first() else { return Ok(()) };
    for grant in rest {
        if grant.until < latest.from {
            return Err(Box::new(Violation::SmallerToken(latest.clone(), grant.clone())));
        }
        // Whoever was asked for last is the first to be overtaken.
        latest = if grant.from > latest.from { grant } else { latest };
    }
    Ok(())
}

/// Checks the spans of one name, in order of their beginning.
fn check_name(holds: &[Hold]) -> Result<(), Box<Violation>> {
    let Some((mut last, rest)) = holds.split_first() else { return Ok(()) };
    for hold in rest {
        if hold.is_of_the_same_grant(last) {
            // Spans of one grant may overlap; the one that reaches farthest is the one to keep clear of.
            last = if hold.until > last.until { hold } else { last };
            continue;
        }
        let violation = match hold.token.cmp(&last.token) {
            _ if hold.from < last.until => Violation::Overlap,
            Ordering::Equal => Violation::SameToken,
            Ordering::Less => Violation::SmallerToken,
            Ordering::Greater => {
                last = hold;
                continue;
            }
        };
        return Err(Box::new(violation(hold.clone(), last.clone())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(who: &str, token: u64, from: u64, until: u64) -> Hold {
        named("job", who, token, from, until)
    }

    fn named(name: &str, who: &str, token: u64, from: u64, until: u64) -> Hold {
        Hold { who: who.into(), name: name.into(), token, from, until }
    }

    #[test]
    fn turns_are_fine_in_whatever_order_they_were_written() {
        let holds = vec![hold("c", 9, 30, 40), hold("a", 1, 10, 20), hold("b", 2, 20, 30), hold("b2", 3, 30, 30)];
        assert_eq!(check(holds), Ok(4));
        assert_eq!(check(Vec::new()), Ok(0));
    }

    #[test]
    fn an_overlap_is_found() {
        let (a, b) = (hold("a", 1, 10, 20), hold("b", 2, 19, 30));
        assert_eq!(check(vec![b.clone(), a.clone()]), Err(Box::new(Violation::Overlap(b, a))));
    }

    #[test]
    fn an_overlap_with_a_long_hold_of_short_spans_is_found() {
        // The span that reaches farthest is neither the last one nor next to the culprit.
        let long = hold("a", 1, 10, 100);
        let short = (11..20).map(|from| hold("a", 1, from, from + 1));
        let culprit = hold("b", 2, 50, 60);
        let holds = short.chain([culprit.clone(), long.clone()]).collect();
        assert_eq!(check(holds), Err(Box::new(Violation::Overlap(culprit, long))));
    }

    #[test]
    fn a_hold_within_another_is_found() {
        let (outer, inner) = (hold("a", 1, 10, 100), hold("b", 2, 40, 41));
        assert_eq!(check(vec![outer.clone(), inner.clone()]), Err(Box::new(Violation::Overlap(inner, outer))));
    }

    #[test]
    fn equal_tokens_are_found() {
        let (a, b) = (hold("a", 7, 10, 20), hold("b", 7, 25, 30));
        assert_eq!(check(vec![a.clone(), b.clone()]), Err(Box::new(Violation::SameToken(b, a))));
    }

    #[test]
    fn decreasing_tokens_are_found() {
        let (a, b) = (hold("a", 7, 10, 20), hold("b", 6, 25, 30));
        assert_eq!(check(vec![a.clone(), b.clone()]), Err(Box::new(Violation::SmallerToken(b, a))));
    }

    #[test]
    fn tokens_alone_may_be_asked_for_side_by_side() {
        let grants = vec![hold("a", 1, 10, 40), hold("b", 2, 5, 30), hold("c", 3, 31, 35), named("y", "d", 1, 50, 60)];
        assert_eq!(check_tokens(grants), Ok(4));
        assert_eq!(check_tokens(Vec::new()), Ok(0));
    }

    #[test]
    fn a_token_that_went_back_is_found_though_another_grant_lies_between() {
        let (first, between, late) = (hold("a", 7, 10, 20), hold("b", 8, 5, 30), hold("c", 6, 21, 25));
        let found = check_tokens(vec![between, first.clone(), late.clone()]);
        assert_eq!(found, Err(Box::new(Violation::SmallerToken(late, first))));
    }

    #[test]
    fn a_token_that_two_were_given_is_found_whenever_that_was() {
        let (a, b) = (hold("a", 7, 10, 20), hold("b", 7, 15, 30));
        assert_eq!(check_tokens(vec![b.clone(), a.clone()]), Err(Box::new(Violation::SameToken(b, a))));
        let span = hold("a", 1, 20, 10);
        assert_eq!(check_tokens(vec![span.clone()]), Err(Box::new(Violation::Backwards(span))));
    }

    #[test]
    fn a_holder_that_comes_back_to_life_is_found() {
        let holds = vec![hold("a", 1, 10, 20), hold("b", 2, 25, 30), hold("a", 1, 40, 50)];
        let violation = *check(holds).unwrap_err();
        assert!(matches!(violation, Violation::SmallerToken(later, _) if later.who == "a"));
    }

    #[test]
    fn a_span_that_ends_before_it_begins_is_found() {
        let span = hold("a", 1, 20, 10);
        assert_eq!(check(vec![span.clone()]), Err(Box::new(Violation::Backwards(span))));
    }

    #[test]
    fn names_are_judged_apart() {
        let holds = vec![named("x", "a", 5, 10, 20), named("y", "b", 5, 10, 20), named("x ", "c", 1, 10, 20)];
        assert_eq!(check(holds), Ok(3));
    }

    #[test]
    fn it_agrees_with_comparing_all_pairs() {
        // A small generator is enough, and needs no seed to be told.
        let mut state = 1_u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        };
        for _ in 0..20_000 {
            let holds: Vec<Hold> = (0..2 + below(4))
                .map(|_| {
                    let (grant, from) = (1 + below(4), below(30));
                    hold(&format!("w{grant}"), grant, from, from + below(6))
                })
                .collect();
            let clash = |a: &Hold, b: &Hold| {
                let (first, second) = if (a.from, a.until) <= (b.from, b.until) { (a, b) } else { (b, a) };
                second.from < first.until || second.token <= first.token
            };
            let all_pairs = holds
                .iter()
                .enumerate()
                .flat_map(|(index, a)| holds[index + 1..].iter().map(move |b| (a, b)))
                .any(|(a, b)| !a.is_of_the_same_grant(b) && (a.from, a.until) != (b.from, b.until) && clash(a, b));
            let same_start = holds.iter().enumerate().any(|(index, a)| {
                holds[index + 1..].iter().any(|b| (a.from, a.until) == (b.from, b.until) && a.who != b.who)
            });
            // Empty spans at the same instant say nothing about an order.
            if !same_start {
                assert_eq!(check(holds.clone()).is_err(), all_pairs, "{holds:?}");
            }
        }
    }

    #[test]
    fn what_was_noted_is_read_again_and_half_a_line_is_not() {
        let path = std::env::temp_dir().join(format!("leasehold-history-{}", leasehold::HolderId::fresh()));
        let history = History::open(&path).unwrap();
        let (first, last) = (named("a; b ", "p1", 1, 10, 20), named("\u{e9}", "p2", 2, 20, u64::MAX));
        history.note(&first).unwrap();
        for cut in 1..line_of(&last).len() - 1 {
            (&history.file).write_all(&line_of(&last).as_bytes()[..cut]).unwrap();
            History::open(&path).unwrap().note(&last).unwrap();
        }
        let holds = read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(holds[0], first);
        assert!(holds[1..].iter().all(|hold| *hold == last), "{holds:?}");
        assert_eq!(holds.len(), line_of(&last).len() - 1);
    }

    #[test]
    fn a_million_spans_are_judged_quickly() {
        let holds: Vec<Hold> = (0..1_000_000).map(|n| hold("w", n + 1, n * 10, n * 10 + 9)).collect();
        let start = std::time::Instant::now();
        assert_eq!(check(holds), Ok(1_000_000));
        assert!(start.elapsed().as_secs() < 20);
    }
}
