//! A monitor over a store, asked without a network in between.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use futures_util::StreamExt;
use leasehold::{Guard, Locks, Outcome, Store, Wait, stores};
use leasehold_monitor::{CancellationToken, Monitor, router};
use leasehold_schedule::{Job, Schedule, Scheduler};
use leasehold_testkit::process::eventually_async;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

use crate::LIMIT;
use crate::contract::Contract;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What actions need.
pub const TOKEN: &str = "correct-horse-battery-staple";

/// A monitor, and a client of the same store.
pub struct Scene {
    pub app: Router,
    pub locks: Locks,
    pub stop: CancellationToken,
    contract: Contract,
}

impl Scene {
    /// Over the store at this URL.
    pub fn at(url: &str) -> Self {
        let open = || stores::open(url).unwrap();
        Self::of(open(), open())
    }

    /// Over one store for the monitor, and another handle of it for everybody else.
    pub fn of(watched: Arc<dyn Store>, others: Arc<dyn Store>) -> Self {
        let locks = Locks::builder().label("web-3/41/scene").over(others);
        let stop = CancellationToken::new();
        let monitor = Monitor::over(Locks::over(watched)).shown("the store").token(TOKEN).unwrap();
        Self {
            app: router(monitor.host("locks.example.com").until(stop.clone())),
            locks,
            stop,
            contract: Contract::read(),
        }
    }

    /// Asks, as a program on this machine does.
    pub async fn get(&self, path: &str) -> Answer {
        self.asks(Method::GET, path, &[("host", "localhost:7676")], "").await
    }

    /// What it answers, which must be good.
    pub async fn json(&self, path: &str) -> Value {
        self.get(path).await.good()
    }

    /// Has something done by somebody who may.
    pub async fn post(&self, path: &str, order: &Value) -> Answer {
        let token = format!("Bearer {TOKEN}");
        let headers =
            [("host", "localhost:7676"), ("authorization", token.as_str()), ("content-type", "application/json")];
        self.asks(Method::POST, path, &headers, &order.to_string()).await
    }

    /// Asks with these headers; what is answered must be as `openapi.json` says.
    pub async fn asks(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request =
            Request::builder().method(method.clone()).uri(path).body(Body::from(body.to_owned())).unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let answer = Answer { status, headers, body: String::from_utf8(body.to_vec()).unwrap() };
        let path = path.split('?').next().unwrap();
        self.contract.check(&method, path, &answer);
        answer
    }

    /// Waits until what is answered is so.
    pub async fn until(&self, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let last = self.json(path).await;
            if is_it(&last) {
                return last;
            }
            assert!(Instant::now() < deadline, "{path} is still {last:#}");
            sleep(LOOK).await;
        }
    }

    /// Waits until there is a good answer.
    pub async fn until_good(&self, path: &str) {
        eventually_async(path, LIMIT, async || self.get(path).await.status == StatusCode::OK).await;
    }

    /// Takes a lock.
    pub async fn take(&self, name: &str) -> Guard {
        self.take_for(name, Duration::from_secs(30)).await
    }

    /// Takes a lock that ends after this time unless it is renewed.
    pub async fn take_for(&self, name: &str, ttl: Duration) -> Guard {
        match self.locks.lock(name).ttl(ttl).try_acquire().await.unwrap() {
            Outcome::Acquired(guard) => guard,
            other => panic!("{name} is not free: {other:?}"),
        }
    }

    /// Somebody else waits for a lock, until dropped.
    pub fn waits(&self, name: &str, label: &str) -> Task {
        let lock = self.locks.lock(name).label(label).wait(Wait::Forever);
        Task(tokio::spawn(async move { lock.acquire().await }).abort_handle())
    }

    /// A scheduler with one job, which comes each second, and whose runs go on for as long as `holds` is there and not notified.
    pub fn schedules(&self, name: &str, holds: Option<Arc<Notify>>) -> Task {
        let job = Job::new(name, Schedule::parse("@every 1s", None).unwrap(), move |_| {
            let holds = holds.clone();
            Box::pin(async move {
                if let Some(holds) = holds {
                    holds.notified().await;
                }
                Ok(())
            })
        });
        let scheduler = Scheduler::over(self.locks.clone()).job(job).unwrap();
        Task(tokio::spawn(scheduler.run(std::future::pending())).abort_handle())
    }

    /// Listens to events, until dropped.
    pub async fn listen(&self) -> Events {
        let request = Request::get("/api/v1/events").header("host", "localhost").body(Body::empty()).unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Events { body: response.into_body().into_data_stream(), rest: String::new() }
    }
}

/// Something that goes on in the background, until dropped.
pub struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    /// The body, as JSON.
    #[track_caller]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same of an answer that must be good.
    #[track_caller]
    pub fn good(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        self.value()
    }

    /// Demands a refusal with this status and code, and these words in what is said about it.
    #[track_caller]
    pub fn refuses(&self, status: u16, code: &str, words: &[&str]) {
        assert_eq!((self.status.as_u16(), self.value()["error"]["code"].as_str()), (status, Some(code)), "{self:?}");
        for word in words {
            assert!(self.body.contains(word), "{word:?} is not in {self:?}");
        }
    }
}

/// A stream of events.
pub struct Events {
    body: axum::body::BodyDataStream,
    rest: String,
}

impl Events {
    /// The data of the next one; none when the stream has ended.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let data = data.map(|data| serde_json::from_str(data).unwrap());
                self.rest = rest.to_owned();
                if data.is_some() {
                    return data;
                }
                continue;
            }
            let more = tokio::time::timeout(LIMIT, self.body.next()).await.expect("another event, or the end");
            self.rest.push_str(std::str::from_utf8(&more?.unwrap()).unwrap());
        }
    }

    /// The next one within some time.
    pub async fn within(&mut self, span: Duration) -> Option<Value> {
        tokio::time::timeout(span, self.next()).await.ok().flatten()
    }
}
