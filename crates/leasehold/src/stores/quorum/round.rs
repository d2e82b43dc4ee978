//! One call to every member at the same time.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt, poll_immediate};
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};
use crate::span::Span;

/// Calls to some members, under way, each with the same limit.
///
/// All are sent before the first answer is looked at; dropping this un-sends none. So what is sent later through the same
/// handles, a release, comes behind them at every member.
pub(super) struct Round<'a, T> {
    answers: VecDeque<Answer<T>>,
    under_way: FuturesUnordered<BoxFuture<'a, Answer<T>>>,
}

/// Which member answers, and what.
pub(super) type Answer<T> = (usize, Result<T>);

impl<'a, T: Send + 'a> Round<'a, T> {
    pub async fn send(calls: impl Iterator<Item = (usize, BoxFuture<'a, Result<T>>)>, limit: Duration) -> Self {
        let mut round = Self { answers: VecDeque::new(), under_way: FuturesUnordered::new() };
        for (member, call) in calls {
            let mut limited = async move {
                let answer = timeout(limit, call).await;
                (member, answer.unwrap_or_else(|_| Err(timed_out(limit))))
            }
            .boxed();
            match poll_immediate(&mut limited).await {
                Some(answer) => round.answers.push_back(answer),
                None => round.under_way.push(limited),
            }
        }
        round
    }

    /// The next answer; none once all have come.
    pub async fn next(&mut self) -> Option<Answer<T>> {
        match self.answers.pop_front() {
            Some(answer) => Some(answer),
            None => self.under_way.next().await,
        }
    }

    /// Whether all answers have been looked at.
    pub fn is_over(&self) -> bool {
        self.answers.is_empty() && self.under_way.is_empty()
    }

    /// All answers that are still to come.
    pub async fn rest(mut self) -> Vec<Answer<T>> {
        let mut rest = Vec::new();
        while let Some(answer) = self.next().await {
            rest.push(answer);
        }
        rest
    }
}

fn timed_out(limit: Duration) -> Error {
    Error::new(ErrorKind::TimedOut, format!("no answer within {}", Span(limit))).maybe_applied()
}
