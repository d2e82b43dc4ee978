//! The page: files that a browser asks for. There is no build step; what stands in `assets/` is what is served.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::OriginalUri;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Nothing from elsewhere, nothing that stands in the page itself, nobody around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const INDEX: Asset = Asset { path: "/index.html", kind: Kind::Page, text: include_str!("assets/index.html") };

/// A file of the page.
struct Asset {
    path: &'static str,
    kind: Kind,
    text: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
    Page,
    Style,
    Script,
    Drawing,
}

macro_rules! assets {
    ($($kind:ident $file:literal)+) => {
        [$(Asset { path: concat!("/assets/", $file), kind: Kind::$kind, text: include_str!(concat!("assets/", $file)) }),+]
    };
}

static ASSETS: [Asset; 24] = assets! {
    Style "style.css"
    Drawing "icon.svg"
    Script "actions.js"
    Script "api.js"
    Script "axis.js"
    Script "chart.js"
    Script "dialog.js"
    Script "dom.js"
    Script "format.js"
    Script "gantt.js"
    Script "holder.js"
    Script "job_sheet.js"
    Script "live.js"
    Script "lock_sheet.js"
    Script "main.js"
    Script "run_sheet.js"
    Script "table.js"
    Script "timeline.js"
    Script "views/contention.js"
    Script "views/locks.js"
    Script "views/runs.js"
    Script "views/schedule.js"
    Script "views/store.js"
    Script "views/waiting.js"
};

/// One tag for all of them, so that no module is used beside those of another version.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| {
    let all = ASSETS.iter().chain([&INDEX]).flat_map(|asset| asset.text.bytes());
    HeaderValue::try_from(format!("\"{:016x}\"", fnv(all))).expect("digits are legal")
});

/// The page at `/`, and what belongs to it under `/assets/`. It asks for everything with relative addresses, so that it can be mounted anywhere.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let page = Router::new().route("/", get(page)).route(INDEX.path, get(page));
    ASSETS.iter().fold(page, |routes, asset| {
        routes.route(asset.path, get(async move |headers: HeaderMap| answer(asset, &headers)))
    })
}

/// Mounted at `/locks`, that is the page's own address, and what belongs to it would be looked for beside it: it is under
/// `/locks/` that a browser has to look.
async fn page(OriginalUri(asked): OriginalUri, headers: HeaderMap) -> Response {
    match asked.path().rsplit_once('/') {
        Some((_, last)) if !last.is_empty() && last != "index.html" => {
            (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, format!("./{last}{}", INDEX.path))]).into_response()
        }
        _ => answer(&INDEX, &headers),
    }
}

fn answer(asset: &Asset, asked: &HeaderMap) -> Response {
    let known = asked.get_all(IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    let is_known = known.flat_map(|tags| tags.split(',')).any(|tag| tag.trim().trim_start_matches("W/") == *TAG);
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { asset.text.into_response() };
    let headers = response.headers_mut();
    headers.insert(ETAG, TAG.clone());
    for (name, value) in [
        (CONTENT_TYPE, asset.kind.content_type()),
        // It may be kept, but whether it is still right has to be asked.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Kind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Page => "text/html; charset=utf-8",
            Self::Style => "text/css; charset=utf-8",
            Self::Script => "text/javascript; charset=utf-8",
            Self::Drawing => "image/svg+xml",
        }
    }
}

/// FNV-1a: the same for the same text in every build.
fn fnv(text: impl Iterator<Item = u8>) -> u64 {
    text.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;

    async fn asked(routes: Router, path: &str, tag: Option<&HeaderValue>) -> Response {
        let mut request = Request::get(path);
        if let Some(tag) = tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        routes.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn text(response: Response) -> String {
        String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    fn files(under: &Path, at: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(under).unwrap().map(Result::unwrap) {
            let name = format!("{at}/{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                files(&entry.path(), &name, found);
            } else {
                found.insert(name);
            }
        }
    }

    #[tokio::test]
    async fn every_file_is_served_as_what_it_is() {
        let mut there = BTreeSet::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard/assets"), "/assets", &mut there);
        there.remove("/assets/index.html");
        assert_eq!(there, ASSETS.iter().map(|asset| asset.path.to_owned()).collect());
        for asset in &ASSETS {
            let response = asked(routes(), asset.path, None).await;
            assert_eq!(response.status(), StatusCode::OK, "{}", asset.path);
            assert_eq!(response.headers()[CONTENT_TYPE], asset.kind.content_type());
            assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], POLICY);
            assert_eq!(text(response).await, asset.text);
        }
    }

    #[tokio::test]
    async fn what_a_browser_has_is_not_sent_again() {
        let first = asked(routes(), "/assets/main.js", None).await;
        let tag = first.headers()[ETAG].clone();
        let again = asked(routes(), "/assets/main.js", Some(&tag)).await;
        assert_eq!((again.status(), &again.headers()[ETAG]), (StatusCode::NOT_MODIFIED, &tag));
        assert_eq!(text(again).await, "");
        let other = HeaderValue::from_static("\"0\"");
        assert_eq!(asked(routes(), "/assets/main.js", Some(&other)).await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn it_can_be_mounted_anywhere() {
        let mounted = || Router::new().nest("/ops/locks", routes());
        let beside = asked(mounted(), "/ops/locks", None).await;
        assert_eq!(beside.status(), StatusCode::TEMPORARY_REDIRECT);
        // From /ops/locks a browser goes to /ops/locks/index.html.
        assert_eq!(beside.headers()[LOCATION], "./locks/index.html");
        assert_eq!(asked(mounted(), "/ops/locks/index.html", None).await.status(), StatusCode::OK);
        assert_eq!(asked(routes(), "/", None).await.status(), StatusCode::OK);
    }

    #[test]
    fn no_address_is_absolute_and_nothing_stands_in_the_page() {
        for asset in ASSETS.iter().chain([&INDEX]) {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            for never in [
                "http://",
                "https://",
                "src=\"/",
                "href=\"/",
                "fetch('/",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
            ] {
                assert!(!text.contains(never), "{} has {never}", asset.path);
            }
        }
        assert!(!INDEX.text.contains("style=") && !INDEX.text.contains("<style") && !INDEX.text.contains(" on"));
    }
}
