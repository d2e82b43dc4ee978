//! What is answered where a request can't be.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold::{Error, ErrorKind, Span};
use serde::Serialize;

use crate::snapshot::reading::Away;

/// Where it stands what can be asked for.
const SEE: &str = "see /api/v1/openapi.json";

/// An error, in words for people and a code for programs.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    fix: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    error: Told<'a>,
}

#[derive(Serialize)]
struct Told<'a> {
    code: &'static str,
    message: &'a str,
    fix: Option<&'a str>,
}

impl Problem {
    /// One with a way out.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), fix: Some(fix.into()) }
    }

    /// The request is wrong.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message, SEE)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message, fix)
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let (status, code, fix) = match error.kind() {
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "bad_request", None),
            ErrorKind::Unavailable | ErrorKind::TimedOut => (
                StatusCode::SERVICE_UNAVAILABLE,
                "store_away",
                Some("see whether the store runs and can be reached from here"),
            ),
            ErrorKind::Refused => (StatusCode::SERVICE_UNAVAILABLE, "store_refuses", None),
            ErrorKind::AccessDenied => (
                StatusCode::SERVICE_UNAVAILABLE,
                "access_denied",
                Some("`leasehold doctor` says which rights are missing"),
            ),
            ErrorKind::Misconfigured => {
                (StatusCode::SERVICE_UNAVAILABLE, "misconfigured", Some("`leasehold doctor` says what to mend"))
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal", None),
        };
        Self { status, code, message: error.to_string(), fix: fix.map(str::to_owned) }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<Away> for Problem {
    fn from(away: Away) -> Self {
        let since = away.since.elapsed();
        let problem = Self::from(&*away.error);
        if since.as_secs() == 0 {
            return problem;
        }
        Self { message: format!("{} (for {})", problem.message, Span(since)), ..problem }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let told = Told { code: self.code, message: &self.message, fix: self.fix.as_deref() };
        let mut response = (self.status, Json(Body { error: told })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
