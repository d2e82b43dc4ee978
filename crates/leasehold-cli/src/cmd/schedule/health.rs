//! How a scheduler is: alive, and ready.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::output::duration as span;

/// A store that has not answered for so long is away, whatever it last said.
const LATE: Duration = Duration::from_secs(30);

/// A store that has answered for so long is back: while a fallback switches some is answered and some is not, and who is refused asks
/// again within fifteen seconds.
const STEADY: Duration = Duration::from_secs(16);

/// The same of one that has granted something: whatever was refused so long before was refused by it as it was then.
const SETTLED: Duration = Duration::from_secs(2);

/// How it is, for whoever asks.
#[derive(Debug, Default)]
pub struct Health {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_loaded: bool,
    is_stopping: bool,
    /// When the store answered last.
    answered: Option<Instant>,
    /// Since when it doesn't, and why.
    away: Option<(Instant, String)>,
    /// What was told of that, until it was told that it is over.
    told: Option<Absence>,
}

/// A store is away, or was until a moment ago.
#[derive(Debug)]
struct Absence {
    since: Instant,
    /// When it was asked in vain last.
    last: Instant,
    /// When it has answered again first, since then.
    back: Option<Instant>,
}

impl Health {
    /// The jobs are there, and their ticks are taken.
    pub fn is_loaded(&self) {
        self.state().is_loaded = true;
    }

    /// No more ticks are taken.
    pub fn is_stopping(&self) {
        self.state().is_stopping = true;
    }

    /// The store has answered; if it is news that it is back, for how long it was away.
    pub fn store_answers(&self, now: Instant) -> Option<Duration> {
        self.is_back(now, STEADY)
    }

    /// The same, and it has granted what it was asked for.
    pub fn store_grants(&self, now: Instant) -> Option<Duration> {
        self.is_back(now, SETTLED)
    }

    fn is_back(&self, now: Instant, after: Duration) -> Option<Duration> {
        let mut state = self.state();
        state.answered = Some(now);
        state.away = None;
        let absence = state.told.as_mut()?;
        let back = *absence.back.get_or_insert(now);
        let (is_over, took) = (now - absence.last >= after, back - absence.since);
        if is_over {
            state.told = None;
        }
        is_over.then_some(took)
    }

    /// The store has not answered; whether that is news.
    pub fn store_is_away(&self, now: Instant, why: String) -> bool {
        let mut state = self.state();
        let since = state.away.take().map_or(now, |(since, _)| since);
        state.away = Some((since, why));
        let is_news = state.told.is_none();
        let told = state.told.get_or_insert(Absence { since: now, last: now, back: None });
        (told.last, told.back) = (now, None);
        is_news
    }

    /// Why it is not ready, if it isn't.
    pub fn not_ready(&self, now: Instant) -> Option<String> {
        let state = self.state();
        if state.is_stopping {
            return Some("it is stopping".into());
        }
        if let Some((since, why)) = &state.away {
            return Some(format!("the store has been away for {}: {why}", span(now - *since)));
        }
        if !state.is_loaded {
            return Some("it is starting".into());
        }
        match state.answered {
            Some(answered) if now - answered <= LATE => None,
            Some(answered) => Some(format!("the store has not answered for {}", span(now - answered))),
            None => Some("the store has not answered yet".into()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_while_jobs_are_loaded_and_the_store_answers() {
        let (health, start) = (Health::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let why = |seconds| health.not_ready(after(seconds)).unwrap_or_default();
        assert_eq!(why(0), "it is starting");
        health.is_loaded();
        assert_eq!(why(0), "the store has not answered yet");
        assert_eq!((health.store_answers(after(1)), why(31)), (None, String::new()));
        assert_eq!(why(32), "the store has not answered for 31s");
        assert!(health.store_is_away(after(2), "no route".into()) && !health.store_is_away(after(4), "refused".into()));
        assert_eq!(why(5), "the store has been away for 3s: refused");
        assert_eq!((health.store_answers(after(7)), why(7)), (None, String::new()), "it is ready, and soon back");
        health.is_stopping();
        assert_eq!(why(8), "it is stopping");
    }

    #[test]
    fn an_absence_is_told_once_though_some_is_answered_meanwhile() {
        let (health, start) = (Health::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let away = |seconds| health.store_is_away(after(seconds), "no route".into());
        assert_eq!(health.store_answers(after(0)), None);
        assert!(away(1));
        assert_eq!(health.store_answers(after(2)), None);
        assert!(!away(4) && !away(12));
        assert_eq!(health.store_grants(after(13)), None, "it may have been under way");
        assert_eq!(health.store_answers(after(27)), None);
        assert_eq!(health.store_answers(after(28)), Some(Duration::from_secs(12)), "it was back at 13");
        assert_eq!(health.store_answers(after(29)), None);
        assert!(away(30));
        assert_eq!(health.store_grants(after(32)), Some(Duration::from_secs(2)));
        assert!(away(33), "that is another one");
    }
}
