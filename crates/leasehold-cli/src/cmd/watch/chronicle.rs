//! From how a lock stands to what has happened.

use leasehold::validity::Moment;
use leasehold::{Error, FencingToken, Holder, Holding, LockName};

use super::news::{Event, News};
use crate::output::known;

/// Compares how a lock stands with how it stood.
pub struct Chronicle {
    name: LockName,
    /// None before the first look.
    before: Option<Seen>,
    /// The last token that was seen. A larger one where nobody holds the lock is of a hold that nobody saw.
    token: Option<FencingToken>,
    away: bool,
}

/// How a lock stood, and when that was seen.
struct Seen {
    found: Option<Holding>,
    at: Moment,
}

impl Chronicle {
    /// One about this lock, of which nothing is known.
    pub fn new(name: LockName) -> Self {
        Self { name, before: None, token: None, away: false }
    }

    /// The store does not answer.
    pub fn away(&mut self, error: &Error) -> News {
        self.away = true;
        News::unreachable(&self.name, error.to_string())
    }

    /// The lock stands so. What happened, in order.
    pub fn stands(&mut self, found: Option<Holding>, now: Moment) -> Vec<News> {
        let mut events = Vec::new();
        if std::mem::take(&mut self.away) {
            events.push(self.news(Event::Reachable, found.as_ref()));
        }
        match &self.before {
            Some(before) => events.extend(self.compare(before, found.as_ref(), now)),
            None => events.push(self.news(Event::Start, found.as_ref())),
        }
        self.token = found.as_ref().map(last_token).or(self.token);
        self.before = Some(Seen { found, at: now });
        events
    }

    fn news(&self, event: Event, found: Option<&Holding>) -> News {
        News::new(event, &self.name, found)
    }

    /// Whether what is left of a hold is of one that nobody saw. Before any hold was seen only a minimum hold shows it: a
    /// free lock that somebody waits for may have an old token.
    fn is_of_an_unseen_hold(&self, left: &Holding) -> bool {
        self.token.map_or_else(|| is_kept(Some(left)), |token| last_token(left) > token)
    }

    fn compare(&self, before: &Seen, found: Option<&Holding>, now: Moment) -> Vec<News> {
        let (held, holds) = (holders(before.found.as_ref()), holders(found));
        let same = |of: &[Holder], one: &Holder| of.iter().find(|other| other.holder == one.holder).cloned();
        let is_told = |one: &&Holder| one.revoked && !same(&held, one).is_some_and(|before| before.revoked);
        let about =
            |event, one: &Holder| self.news(event, found).about(one, known(one.held_for, one.library, one.token));
        let left = found.filter(|found| holds.is_empty() && self.is_of_an_unseen_hold(found));
        let waiting = |found: Option<&Holding>| found.map_or(0, |found| found.waiting);
        let (was, is) = (before.found.as_ref(), found);

        // The end lies between two looks; this counts up to the second.
        let until_now = |one: &Holder| Some(known(one.held_for, one.library, one.token)? + now.since(before.at));
        let ended = held.iter().filter(|one| same(&holds, one).is_none());
        let mut events: Vec<News> =
            ended.map(|one| self.news(Event::Ended, found).about(one, until_now(one))).collect();
        events.extend(left.map(|left| self.news(Event::Missed, is).about_unseen(left)));
        let acquired = holds.iter().filter(|one| same(&held, one).is_none());
        events.extend(acquired.map(|one| about(Event::Acquired, one)));
        events.extend(holds.iter().filter(is_told).map(|one| about(Event::Revoked, one)));
        let others = [
            (is_kept(is) && !(is_kept(was) && left.is_none()), Event::Kept),
            (is_kept(was) && !is_kept(is) && holds.is_empty(), Event::Free),
            (waiting(is) != waiting(was), Event::Waiting),
        ];
        events.extend(others.into_iter().filter(|(happened, _)| *happened).map(|(_, event)| self.news(event, is)));
        events
    }
}

/// Everybody who holds it.
fn holders(found: Option<&Holding>) -> Vec<Holder> {
    let Some(found) = found else { return Vec::new() };
    let Holding { holder, library, token, held_for, remaining, revoked, .. } = *found;
    let first = Holder { holder, label: found.label.clone(), library, token, held_for, remaining, revoked };
    std::iter::once(&first).chain(&found.others).filter(|one| one.holder.is_some()).cloned().collect()
}

/// The largest that it shows.
fn last_token(found: &Holding) -> FencingToken {
    found.others.iter().map(|other| other.token).fold(found.token, FencingToken::max)
}

/// By a minimum hold; not only for the first waiter.
fn is_kept(found: Option<&Holding>) -> bool {
    found.is_some_and(|found| found.holder.is_none() && !found.remaining.is_zero())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::{ErrorKind, HolderId};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    type Steps = Vec<Option<Holding>>;

    fn held(token: u64) -> Holding {
        Holding {
            name: LockName::new("a").unwrap(),
            holder: HolderId::parse(&format!("{token:032x}")),
            label: format!("web/{token}/job"),
            library: None,
            token: FencingToken::new(token),
            held_for: SECOND,
            remaining: 30 * SECOND,
            revoked: false,
            waiting: 0,
            ticket: None,
            permits: std::num::NonZeroU32::MIN,
            others: Vec::new(),
        }
    }

    /// Several hold it, the first one's lease ending first.
    fn shared(tokens: &[u64]) -> Option<Holding> {
        let others = tokens[1..].iter().flat_map(|token| holders(Some(&held(*token))));
        Some(Holding { others: others.collect(), ..held(tokens[0]) })
    }

    fn waited(waiting: u64, holding: Holding) -> Option<Holding> {
        Some(Holding { waiting, ..holding })
    }

    fn revoked(token: u64) -> Option<Holding> {
        Some(Holding { revoked: true, ..held(token) })
    }

    fn kept(token: u64) -> Option<Holding> {
        Some(Holding { holder: None, ..held(token) })
    }

    /// Nobody has it, and a waiter is about to get it.
    fn next(token: u64) -> Option<Holding> {
        Some(Holding { holder: None, remaining: Duration::ZERO, waiting: 1, ..held(token) })
    }

    fn chronicle() -> Chronicle {
        Chronicle::new(LockName::new("a").unwrap())
    }

    fn events(steps: Steps) -> Vec<Vec<Event>> {
        let mut chronicle = chronicle();
        let told = |found| chronicle.stands(found, Moment::from_nanos(0)).iter().map(News::event).collect();
        steps.into_iter().map(told).collect()
    }

    #[test]
    fn each_change_is_told_as_what_happened() {
        use Event::*;
        let cases: Vec<(Steps, Vec<Vec<Event>>)> = vec![
            (vec![None, Some(held(1)), None], vec![vec![Start], vec![Acquired], vec![Ended]]),
            (vec![Some(held(1)), Some(held(9))], vec![vec![Start], vec![Ended, Acquired]]),
            (vec![Some(held(1)), revoked(1), None], vec![vec![Start], vec![Revoked], vec![Ended]]),
            (vec![revoked(1), revoked(2)], vec![vec![Start], vec![Ended, Acquired, Revoked]]),
            (vec![Some(held(1)), kept(1), None], vec![vec![Start], vec![Ended, Kept], vec![Free]]),
            (vec![kept(1), Some(held(2))], vec![vec![Start], vec![Acquired]]),
            (
                vec![Some(held(1)), waited(1, held(1)), waited(2, held(1))],
                vec![vec![Start], vec![Waiting], vec![Waiting]],
            ),
            (vec![waited(1, held(1)), next(1)], vec![vec![Start], vec![Ended]]),
            (vec![next(1), Some(held(2))], vec![vec![Start], vec![Acquired, Waiting]]),
            // Too short to be seen.
            (vec![Some(held(1)), kept(2)], vec![vec![Start], vec![Ended, Missed, Kept]]),
            (vec![kept(1), kept(2)], vec![vec![Start], vec![Missed, Kept]]),
            (vec![Some(held(1)), None, next(7)], vec![vec![Start], vec![Ended], vec![Missed, Waiting]]),
            (vec![None, kept(2)], vec![vec![Start], vec![Missed, Kept]]),
            (vec![None, next(2), Some(held(3))], vec![vec![Start], vec![Waiting], vec![Acquired, Waiting]]),
            // Several holders.
            (vec![None, shared(&[1, 2])], vec![vec![Start], vec![Acquired, Acquired]]),
            (
                vec![shared(&[1, 2]), shared(&[2, 1]), shared(&[3, 2]), shared(&[3]), None],
                vec![vec![Start], vec![], vec![Ended, Acquired], vec![Ended], vec![Ended]],
            ),
            (
                vec![shared(&[1, 2]), Some(Holding { revoked: true, ..shared(&[2, 1]).unwrap() })],
                vec![vec![Start], vec![Revoked]],
            ),
            // Another file with a clock behind: no hold of it was missed.
            (vec![Some(held(9)), None, kept(1)], vec![vec![Start], vec![Ended], vec![Kept]]),
        ];
        for (steps, wanted) in cases {
            let shown = format!("{steps:?}");
            assert_eq!(events(steps), wanted, "{shown}");
        }
    }

    #[test]
    fn an_outage_and_its_end_are_told_with_what_happened_meanwhile() {
        let mut chronicle = chronicle();
        let error = Error::new(ErrorKind::Unavailable, "gone");
        chronicle.stands(Some(held(1)), Moment::from_nanos(0));
        let away = chronicle.away(&error);
        assert!(away.text().ends_with(" a: the store does not answer: gone"), "{}", away.text());
        let told = chronicle.stands(None, Moment::from_nanos(0));
        let told: Vec<Event> = told.iter().map(News::event).collect();
        assert_eq!(told, [Event::Reachable, Event::Ended]);
    }

    #[test]
    fn a_hold_that_ended_lasted_until_it_was_missed() {
        let mut chronicle = chronicle();
        let start = Moment::from_nanos(0);
        chronicle.stands(Some(held(1)), start);
        let told = chronicle.stands(None, start + 60 * SECOND);
        let text = told[0].text();
        assert!(text.ends_with(" a: ended after 1m1s: web/1/job (token 1)"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&told[0].json().unwrap()).unwrap();
        assert_eq!(
            (&json["state"], &json["token"], &json["held_for_ms"]),
            (&"free".into(), &"1".into(), &61_000.into())
        );
    }

    #[test]
    fn labels_of_others_cannot_drive_the_terminal() {
        let holding = Holding { label: "\u{1b}[2J".into(), ..held(1) };
        let told = chronicle().stands(Some(holding), Moment::from_nanos(0));
        assert!(!told[0].text().contains('\u{1b}') && !told[0].json().unwrap().contains('\u{1b}'));
    }
}
