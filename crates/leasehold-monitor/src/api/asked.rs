//! What stands in a request, checked.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use jiff::Timestamp;
use leasehold::{LockName, Span};
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// The query of a request.
pub(crate) struct Asked<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let query = Query::try_from_uri(&parts.uri).map_err(|rejection| Problem::bad(rejection.body_text()))?;
        Ok(Self(query.0))
    }
}

/// A number within bounds.
pub(crate) fn number<T>(field: &str, text: Option<&str>, usual: T, bounds: RangeInclusive<T>) -> Result<T, Problem>
where
    T: FromStr + PartialOrd + Display,
{
    let Some(text) = given(text) else { return Ok(usual) };
    let number = text.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| {
        let (least, most) = (bounds.start(), bounds.end());
        Problem::bad(format!("{field}={text:?} is no number from {least} to {most}"))
    })
}

/// One of some words.
pub(crate) fn word<T: Copy>(field: &str, text: Option<&str>, words: &[(&str, T)]) -> Result<T, Problem> {
    let text = given(text).unwrap_or(words[0].0);
    words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        Problem::bad(format!("{field}={text:?} is none of {}", words.join(", ")))
    })
}

/// An instant, as RFC 3339 has it.
pub(crate) fn instant(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let instant = |text: &str| {
        text.parse().map_err(|_| {
            Problem::bad(format!("{field}={text:?} is no instant in UTC; write it as 2026-11-30T20:15:00Z"))
        })
    };
    given(text).map(instant).transpose()
}

/// A span of time within bounds.
pub(crate) fn span(
    field: &str,
    text: Option<&str>,
    usual: Duration,
    bounds: RangeInclusive<Duration>,
) -> Result<Duration, Problem> {
    let Some(text) = given(text) else { return Ok(usual) };
    let span = leasehold_schedule::duration(text).map_err(|error| Problem::bad(format!("{field}: {error}")))?;
    if bounds.contains(&span) {
        return Ok(span);
    }
    let (least, most) = (Span(*bounds.start()), Span(*bounds.end()));
    Err(Problem::bad(format!("{field}={text:?} is not from {least} to {most}")))
}

/// The name of a lock or job, which must be there.
pub(crate) fn name(field: &str, text: Option<&str>) -> Result<LockName, Problem> {
    let text = text.ok_or_else(|| Problem::bad(format!("{field} is missing")))?;
    LockName::new(text).map_err(|error| Problem::bad(format!("{field}: {error}")))
}

/// What is empty was not given: a form sends all its fields.
fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
