//! How a scheduler is: alive, and ready.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::output::duration as span;

/// A store that has not answered for so long is away, whatever it last said.
const LATE: Duration = Duration::from_secs(30);

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

    /// The store has answered; for how long it was away, if it was.
    pub fn store_answers(&self, now: Instant) -> Option<Duration> {
        let mut state = self.state();
        state.answered = Some(now);
        state.away.take().map(|(since, _)| now - since)
    }

    /// The store has not answered; whether that is news.
    pub fn store_is_away(&self, now: Instant, why: String) -> bool {
        let mut state = self.state();
        let since = state.away.take();
        let is_news = since.is_none();
        state.away = Some((since.map_or(now, |(since, _)| since), why));
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
        assert_eq!((health.store_answers(after(7)), why(7)), (Some(Duration::from_secs(5)), String::new()));
        health.is_stopping();
        assert_eq!(why(8), "it is stopping");
    }
}
