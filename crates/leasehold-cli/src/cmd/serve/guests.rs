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

/// So many are there at a time: each takes a descriptor. The others wait. 500 of them may be streams of events.
const AT_A_TIME: usize = 600;

/// A connection to which nothing was answered for so long is closed. Streams of events are kept alive more often.
const IDLE: Duration = Duration::from_secs(60);

/// So much of an answer that has not gone as a whole begins that time anew: whoever takes it byte by byte is closed.
const MUCH: usize = 64 * 1024;

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
    type Io = Guest<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest<TcpStream>, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("it is never closed");
        let (stream, from) = Listener::accept(&mut self.listener).await;
        // An event is to be seen when it is sent. Where the system refuses, it is seen a moment later.
        let _ = stream.set_nodelay(true);
        (Guest::of(stream, place), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when it has been idle for too long.
pub struct Guest<S> {
    stream: S,
    ends: Pin<Box<Sleep>>,
    /// How much has gone since its time began.
    sent: usize,
    /// Nothing has been asked since its time began.
    is_silent: bool,
    _place: OwnedSemaphorePermit,
}

impl<S> Guest<S> {
    fn of(stream: S, place: OwnedSemaphorePermit) -> Self {
        Self { stream, ends: Box::pin(sleep(IDLE)), sent: 0, is_silent: true, _place: place }
    }

    fn begin_anew(&mut self) {
        self.ends.as_mut().reset(Instant::now() + IDLE);
        self.sent = 0;
    }

    /// Once for each question, so that there is time to answer it; not with each byte of one that never ends.
    fn has_heard(&mut self) {
        if self.is_silent {
            self.begin_anew();
            self.is_silent = false;
        }
    }

    fn has_said(&mut self, written: usize, all: usize) {
        self.sent += written;
        if written == all || self.sent >= MUCH {
            self.begin_anew();
            self.is_silent = true;
        }
    }

    /// Nothing has come or gone: it waits until its time is over.
    fn waits<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.ends.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guest<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) else { return self.waits(cx) };
        self.has_heard();
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guest<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, bytes) else { return self.waits(cx) };
        if let Ok(written) = written {
            self.has_said(written, bytes.len());
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// A connection, and who is at its other end.
    async fn guest() -> (Guest<DuplexStream>, DuplexStream) {
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let (here, there) = duplex(1024);
        (Guest::of(here, place), there)
    }

    /// Sends bytes, the next each 50 seconds, for as long as they are taken.
    fn drips(mut there: DuplexStream) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            while there.write_all(b"G").await.is_ok() {
                sleep(Duration::from_secs(50)).await;
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_byte_by_byte_is_closed() {
        let (mut guest, there) = guest().await;
        let (began, drips) = (Instant::now(), drips(there));
        let error = guest.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, IDLE.as_secs()));
        drips.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_an_answer_byte_by_byte_is_closed() {
        let (mut guest, mut there) = guest().await;
        let began = Instant::now();
        let takes = tokio::spawn(async move {
            while there.read_u8().await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let error = guest.write_all(&vec![0; 3 * MUCH]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, IDLE.as_secs()));
        takes.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_answered_stays() {
        let (mut guest, mut there) = guest().await;
        for _ in 0..20 {
            sleep(Duration::from_secs(55)).await;
            there.write_all(b"?").await.unwrap();
            assert_eq!(guest.read_u8().await.unwrap(), b'?');
            // While it is found out what to answer it is seen whether the other end is still there.
            let mut byte = [0];
            let found = tokio::time::timeout(Duration::from_secs(30), guest.read(&mut byte)).await;
            assert!(found.is_err(), "neither more, nor the end of its time");
            guest.write_all(b"!").await.unwrap();
            assert_eq!(there.read_u8().await.unwrap(), b'!');
        }
        let began = Instant::now();
        let error = guest.read_u8().await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, IDLE.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_long_answer_slowly_has_it() {
        let (mut guest, mut there) = guest().await;
        let takes = tokio::spawn(async move {
            let mut some = vec![0; MUCH];
            for _ in 0..5 {
                there.read_exact(&mut some).await.unwrap();
                sleep(Duration::from_secs(50)).await;
            }
        });
        guest.write_all(&vec![0; 5 * MUCH]).await.unwrap();
        takes.await.unwrap();
    }
}
