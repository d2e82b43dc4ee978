//! Who may ask, and what browsers are told about the answers.

use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Served;
use super::problem::Problem;
use crate::monitor::Hosts;

/// Nothing but what this server itself sends, and no way to frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Says of every answer what browsers may do with it.
pub(super) async fn tell_browsers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// What the API says is of now.
pub(super) async fn never_stored(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Refuses what a page of somebody else's asks for: under a name of its own that leads here (DNS rebinding), and, as it can have the store
/// asked though it can't read the answer, under ours. Links of others may lead to the page.
pub(super) async fn by_its_own_name(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let checked = check_host(&served.hosts, request.headers(), request.uri());
    let is_page = request.uri().path() == "/";
    match checked.and_then(|()| if is_page { Ok(()) } else { check_site(request.headers()) }) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

pub(super) fn check_host(hosts: &Hosts, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let Hosts::These(names) = hosts else { return Ok(()) };
    let asked = asked_host(headers, uri).map(host_of).unwrap_or_default();
    if is_ours(&asked, names) {
        return Ok(());
    }
    let message = format!("this is not served as {asked:?}");
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "wrong_host",
        message,
        "start it with --host and that name, if it is right",
    ))
}

/// Refuses what another site has a browser send.
pub(super) fn check_origin(hosts: &Hosts, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or("null"));
    if origin.is_some_and(|origin| !is_our_origin(origin, hosts, asked_host(headers, uri))) {
        return Err(cross_site());
    }
    check_site(headers)
}

/// Refuses what a browser itself says to come from another site.
fn check_site(headers: &HeaderMap) -> Result<(), Problem> {
    let is_foreign = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if is_foreign { Err(cross_site()) } else { Ok(()) }
}

fn cross_site() -> Problem {
    let fix = "open the page of this server itself, under a name that it was started with (--host)";
    Problem::new(StatusCode::FORBIDDEN, "cross_site", "the request comes from a page of another site", fix)
}

/// Whether it is that of the page which this server has sent: by the name that was asked for, or, where a proxy asks by another, by one that
/// we were given.
fn is_our_origin(origin: &str, hosts: &Hosts, asked: Option<&str>) -> bool {
    let Some((_, authority)) = origin.split_once("://") else { return false };
    let is_named = |names: &Vec<String>| names.contains(&host_of(authority));
    asked.is_some_and(|asked| asked.eq_ignore_ascii_case(authority))
        || matches!(hosts, Hosts::These(names) if is_named(names))
}

fn asked_host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let header = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    header.or_else(|| uri.authority().map(axum::http::uri::Authority::as_str))
}

/// Without the port; empty if what stands there is none.
fn host_of(authority: &str) -> String {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or(("", "")),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return String::new();
    }
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// An address can't be made to lead elsewhere; a name can.
fn is_ours(host: &str, names: &[String]) -> bool {
    let is_address = host.parse::<IpAddr>().is_ok() || host.parse::<Ipv6Addr>().is_ok();
    is_address || host == "localhost" || host.ends_with(".localhost") || names.iter().any(|name| name == host)
}

/// Takes as long for a wrong token as for the right one of that length.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let byte = |bytes: &[u8], nth: usize| bytes.get(nth).copied().unwrap_or(0);
    let differ =
        (0..one.len().max(other.len())).fold(0, |differ, nth| black_box(differ | (byte(one, nth) ^ byte(other, nth))));
    (black_box(differ) == 0) & (one.len() == other.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_names_that_are_its_own_are_served() {
        let hosts = Hosts::These(vec!["locks.example.com".into()]);
        let serves = |host: &str| check_host(&hosts, &asked(&[("host", host)]), &Uri::from_static("/")).is_ok();
        for host in [
            "localhost",
            "LOCALHOST:7676",
            "a.localhost",
            "127.0.0.1:7676",
            "[::1]:7676",
            "10.1.2.3",
            "Locks.example.com:443",
            "localhost.",
        ] {
            assert!(serves(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:7676",
            "locks.example.com.evil",
            "127.0.0.1.nip.io",
            "user@localhost",
            "[::1",
            "[::1].evil.example",
            "127.0.0.1:80.evil.example",
            "localhost:evil.example",
        ] {
            assert!(!serves(host), "{host}");
        }
        assert!(check_host(&hosts, &HeaderMap::new(), &Uri::from_static("/")).is_err());
        assert!(check_host(&Hosts::All, &HeaderMap::new(), &Uri::from_static("/")).is_ok());
    }

    #[test]
    fn pages_of_others_are_told_by_what_browsers_say() {
        let hosts = Hosts::These(vec!["locks.example.com".into()]);
        let good = |pairs: &[(&str, &str)]| check_origin(&hosts, &asked(pairs), &Uri::from_static("/")).is_ok();
        assert!(good(&[("host", "localhost:7676")]), "no browser");
        assert!(good(&[
            ("host", "localhost:7676"),
            ("origin", "http://localhost:7676"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(good(&[("host", "127.0.0.1:7676"), ("origin", "https://locks.example.com")]), "a proxy asks");
        for (origin, site) in [
            ("http://evil.example", "same-origin"),
            ("http://localhost:7676", "cross-site"),
            ("http://localhost:8080", "same-site"),
            ("null", "none"),
            ("http://localhost:7676.evil.example", "none"),
        ] {
            assert!(
                !good(&[("host", "localhost:7676"), ("origin", origin), ("sec-fetch-site", site)]),
                "{origin} {site}"
            );
        }
        assert!(!good(&[("host", "localhost:7676"), ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn tokens_are_compared_as_a_whole() {
        assert!(is_same("0123456789abcdef", "0123456789abcdef"));
        for wrong in
            ["", "0123456789abcde", "0123456789abcdeg", "0123456789abcdef0", "x123456789abcdef", "0123456789abcdef\0"]
        {
            assert!(!is_same("0123456789abcdef", wrong) && !is_same(wrong, "0123456789abcdef"), "{wrong:?}");
        }
    }
}
