//! Connections: not too many, and none that says and hears nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// So many are there at a time: each takes a descriptor. The others wait.
const AT_A_TIME: usize = 800;

/// A connection on which nothing has come or gone for so long is closed. Streams of events are kept alive more often.
const IDLE: Duration = Duration::from_secs(60);

/// Takes connections while there is a place for them.
pub struct Guests {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Guests {
    /// Those who come to this listener.
    pub fn of(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(AT_A_TIME)) }
    }
}

impl Listener for Guests {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("it is never closed");
        let (stream, from) = Listener::accept(&mut self.listener).await;
        // An event is to be seen when it is sent. Where the system refuses, it is seen a moment later.
        let _ = stream.set_nodelay(true);
        (Guest { stream, ends: Box::pin(sleep(IDLE)), _place: place }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when it has been idle for too long.
pub struct Guest {
    stream: TcpStream,
    ends: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Guest {
    /// The same, while its time is not over; with each byte it begins anew.
    fn moved<T>(&mut self, cx: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.ends.as_mut().reset(Instant::now() + IDLE);
            return moved;
        }
        match self.ends.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Guest {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.moved(cx, read)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.moved(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
