//! `--listen`: answers to whoever looks after us.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use leasehold_monitor::metrics::Exposition;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use super::health::Health;
use crate::cmd::listen;
use crate::exit::Failure;
use crate::metering::Metering;

/// So many are answered at a time: each takes a descriptor, which the runs need. The others wait.
const AT_A_TIME: usize = 32;

/// How long a connection lasts at most, also one that is used again: who asks slowly must not keep the others out.
const LONGEST: Duration = Duration::from_secs(10);

/// Takes the address, before anything else is begun.
///
/// # Errors
/// 64 if it is none, 77 or 78 if it can't be had.
pub fn bind(address: &str) -> Result<TcpListener, Failure> {
    listen::bind(address, &listen::addresses(address, "127.0.0.1:9470")?)
}

/// Answers for ever.
///
/// # Cancel safety
/// Dropped, it answers no more.
pub async fn serve(listener: TcpListener, health: Arc<Health>, metering: Metering) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let listener = Limited { listener, places: Arc::new(Semaphore::new(AT_A_TIME)) };
    let routes = Router::new()
        .route("/healthz", get(async || "alive\n"))
        .route("/readyz", get(readiness).with_state(health))
        .route("/metrics", get(metrics).with_state(metering));
    axum::serve(listener, routes).await
}

async fn readiness(State(health): State<Arc<Health>>) -> (StatusCode, String) {
    match health.not_ready(Instant::now()) {
        None => (StatusCode::OK, "ready\n".into()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

async fn metrics(State(metering): State<Metering>) -> Result<impl IntoResponse, StatusCode> {
    let text = metering.text().ok_or(StatusCode::NOT_FOUND)?;
    Ok(([(CONTENT_TYPE, Exposition::CONTENT_TYPE)], text))
}

/// Takes connections while there is a place for them.
struct Limited {
    listener: tokio::net::TcpListener,
    places: Arc<Semaphore>,
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("it is never closed");
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (Connection { stream, ends: Box::pin(sleep(LONGEST)), _place: place }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when its time is over.
struct Connection {
    stream: TcpStream,
    ends: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Its stream, for as long as it may last.
    fn stream(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        if self.ends.as_mut().poll(cx).is_ready() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Pin::new(&mut self.stream))
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream(cx)?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Who opens connections and says nothing takes neither all descriptors nor the answer away from others.
    #[tokio::test(start_paused = true)]
    async fn connections_are_few_and_end() {
        let listener = bind("127.0.0.1:0").ok().unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, Arc::default(), Metering::default()));
        let mut silent = Vec::new();
        for _ in 0..2 * AT_A_TIME {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut asking = TcpStream::connect(address).await.unwrap();
        asking.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let began = tokio::time::Instant::now();
        let mut answer = String::new();
        asking.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("alive\n"), "{answer}");
        assert!(began.elapsed() >= 2 * LONGEST, "it came behind them: {:?}", began.elapsed());
        serving.abort();
    }
}
