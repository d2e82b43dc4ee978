//! What an operator asks for: by whom, why, and whether it is meant.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use leasehold::LockName;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::problem::Problem;
use crate::api::security::{check_origin, is_same};
use crate::api::{LONGEST_BODY, Served};

const LONGEST_WHY: usize = 500;
const LONGEST_BY: usize = 100;

/// An order of somebody who may give it.
pub(in crate::api) struct Order<T>(pub T);

/// What an order may say, beside by whom it is and why.
pub(in crate::api) trait Terms: DeserializeOwned {
    /// The fields. One that is misspelt must not be taken for one that was left out.
    const FIELDS: &'static [&'static str];
}

impl<T: Terms> FromRequest<Arc<Served>> for Order<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, served: &Arc<Served>) -> Result<Self, Problem> {
        let token = served.token.now().ok_or_else(read_only)?;
        check_origin(&served.hosts, request.headers(), request.uri())?;
        check_type(request.headers())?;
        check_token(request.headers(), &token)?;
        let body = Bytes::from_request(request, served).await.map_err(|rejection| unread(&rejection))?;
        read(&body).map(Self)
    }
}

/// Why the body of an order has not come.
fn unread(rejection: &BytesRejection) -> Problem {
    let status = rejection.status();
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        let message = format!("the order has more than {} KiB, and no more is read", LONGEST_BODY / 1024);
        let fix = format!("say it in fewer words: why has {LONGEST_WHY} bytes at most, by {LONGEST_BY}");
        return Problem::new(status, "bad_request", message, fix);
    }
    Problem::new(status, "bad_request", format!("the order did not arrive: {}", rejection.body_text()), "send it again")
}

fn read<T: Terms>(body: &[u8]) -> Result<T, Problem> {
    let wrong = |error: serde_json::Error| Problem::bad(format!("the order can't be read: {error}"));
    let fields: serde_json::Map<String, Value> = serde_json::from_slice(body).map_err(wrong)?;
    let is_known = |field: &&String| SIGNED.contains(&field.as_str()) || T::FIELDS.contains(&field.as_str());
    if let Some(field) = fields.keys().find(|field| !is_known(field)) {
        return Err(Problem::bad(format!("an order of this kind has no field {field:?}")));
    }
    serde_json::from_value(Value::Object(fields)).map_err(wrong)
}

fn read_only() -> Problem {
    let fix = "start it with --token-file FILE (or LEASEHOLD_SERVE_TOKEN), or use the command: leasehold release, trigger, pause, resume";
    Problem::new(
        StatusCode::FORBIDDEN,
        "read_only",
        "nothing can be done here: this server was started without a token",
        fix,
    )
}

/// A form of another site can't send this type without asking first, and is told no.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let named = headers.get(header::CONTENT_TYPE).and_then(|named| named.to_str().ok()).unwrap_or_default();
    if named.split(';').next().is_some_and(|named| named.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let (message, fix) = ("an order must be JSON", "send it with `Content-Type: application/json`");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", message, fix))
}

fn check_token(headers: &HeaderMap, token: &str) -> Result<(), Problem> {
    let given = headers.get(header::AUTHORIZATION).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let bearer = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match bearer {
        Some((_, given)) if is_same(given.trim(), token) => Ok(()),
        Some(_) => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "wrong_token",
            "the token is wrong",
            "give the one that the server was started with, or that has replaced it",
        )),
        None => {
            let fix = "send `Authorization: Bearer TOKEN`, with the token that the server was started with";
            Err(Problem::new(StatusCode::UNAUTHORIZED, "no_token", "an order needs the token", fix))
        }
    }
}

const SIGNED: [&str; 3] = ["why", "by", "confirm"];

/// By whom, why, and the name once more.
#[derive(Deserialize)]
pub(super) struct Signed {
    pub why: String,
    pub by: String,
    pub confirm: String,
}

impl Signed {
    /// The same about what is called `name`, which must be a legal name.
    pub fn about(self, field: &str, name: &str) -> Result<(LockName, Self), Problem> {
        let checked = crate::api::asked::name(field, Some(name))?;
        if self.confirm != name {
            let (message, fix) = (format!("confirm is not {name:?}"), "repeat the name in confirm, letter by letter");
            return Err(Problem::new(StatusCode::BAD_REQUEST, "not_confirmed", message, fix));
        }
        let why = text("why", &self.why, LONGEST_WHY)?;
        let by = text("by", &self.by, LONGEST_BY)?;
        Ok((checked, Self { why, by, ..self }))
    }
}

/// What is said for the record.
fn text(field: &str, text: &str, longest: usize) -> Result<String, Problem> {
    let text = text.trim();
    if text.is_empty() {
        let fix = "who did it and why is recorded: say both";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad_request", format!("{field} is empty"), fix));
    }
    if text.len() > longest {
        return Err(Problem::bad(format!("{field} has {} bytes; at most {longest} are kept", text.len())));
    }
    if text.chars().any(char::is_control) {
        return Err(Problem::bad(format!("{field} has control characters; it must be one line of text")));
    }
    Ok(text.to_owned())
}
