//! One connection through the proxy.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use nix::sys::socket::{Shutdown, shutdown};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::rules::{Direction, Loss, State, Then};

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// In good order.
    Close,
    /// With an RST to both sides.
    Reset,
}

/// Carries bytes both ways until both sides are done, or the proxy says how it ends.
pub(super) async fn carry(client: TcpStream, state: Arc<State>, mut told: watch::Receiver<End>) {
    let _open = Gauge::count(&state.open);
    let mut server = None;
    let end = tokio::select! {
        end = exchange(&client, &mut server, &state) => end,
        _ = told.changed() => *told.borrow(),
    };
    if end == End::Reset {
        for side in [Some(client), server].into_iter().flatten() {
            // A side that is gone can't be told.
            let _ = side.set_zero_linger();
        }
    }
}

async fn exchange(client: &TcpStream, server: &mut Option<TcpStream>, state: &State) -> End {
    let address = state.rules().server;
    let Ok(stream) = TcpStream::connect(address).await else { return End::Reset };
    let server = &*server.insert(stream);
    for side in [client, server] {
        // A side that is gone will be noticed.
        let _ = side.set_nodelay(true);
    }
    let loss = Mutex::new(None);
    let requests = Lane { from: client, to: server, direction: Direction::ToServer, state, loss: &loss };
    let answers = Lane { from: server, to: client, direction: Direction::ToClient, state, loss: &loss };
    match tokio::try_join!(requests.run(), answers.run()) {
        Ok(_) => End::Close,
        Err(end) => end,
    }
}

/// One direction of one connection. It is done when the sender is; it fails if the whole connection has to end.
struct Lane<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    direction: Direction,
    state: &'a State,
    /// What becomes of the connection, once the request whose answer is to be lost has passed.
    loss: &'a Mutex<Option<Then>>,
}

/// What a sender did, and when.
struct Item {
    arrived: Instant,
    what: What,
}

enum What {
    Bytes(Vec<u8>),
    Closed,
    Broken,
}

/// Whether a lane goes on.
enum Passing {
    On,
    Done,
}

impl Lane<'_> {
    async fn run(self) -> Result<(), End> {
        let (queue, items) = mpsc::unbounded_channel();
        let held = Held { total: self.state.held(self.direction), own: AtomicU64::default() };
        // Reading never waits for writing: the sender must not notice that its bytes are held.
        let reading = async {
            self.read(&queue, &held).await?;
            // The lane is done when the writer is, who has the end in its queue; unless that is lost.
            std::future::pending().await
        };
        tokio::select! {
            end = reading => end,
            end = self.write(items, &held) => match end {
                // The other way stays silent: nobody is left to wait for.
                Ok(()) if self.direction == Direction::ToServer && self.is_silenced() => Err(End::Close),
                end => end,
            },
        }
    }

    async fn read(&self, queue: &mpsc::UnboundedSender<Item>, held: &Held<'_>) -> Result<(), End> {
        let mut buffer = vec![0; 64 * 1024];
        let reported = AtomicBool::new(false);
        loop {
            let what = match read(self.from, &mut buffer).await {
                Ok(0) => What::Closed,
                Ok(_) if self.is_lost(&reported)? => continue,
                Ok(count) => {
                    held.add(count);
                    What::Bytes(buffer[..count].to_vec())
                }
                Err(_) => What::Broken,
            };
            let is_last = !matches!(what, What::Bytes(_));
            if is_last && self.direction == Direction::ToClient && self.is_silenced() {
                return Ok(());
            }
            // The writer may be done already.
            let _ = queue.send(Item { arrived: Instant::now(), what });
            if is_last {
                return Ok(());
            }
        }
    }

    fn is_silenced(&self) -> bool {
        *self.loss.lock().expect("nothing panics while it is locked") == Some(Then::Silence)
    }

    /// Whether what the server just said is to be lost.
    fn is_lost(&self, reported: &AtomicBool) -> Result<bool, End> {
        if self.direction == Direction::ToServer {
            return Ok(false);
        }
        let Some(then) = *self.loss.lock().expect("nothing panics while it is locked") else { return Ok(false) };
        if !reported.swap(true, SeqCst) {
            self.state.dropped_replies.fetch_add(1, SeqCst);
        }
        if then == Then::Cut { Err(End::Reset) } else { Ok(true) }
    }

    async fn write(&self, mut items: mpsc::UnboundedReceiver<Item>, held: &Held<'_>) -> Result<(), End> {
        let mut tail = Vec::new();
        while let Some(Item { arrived, what }) = items.recv().await {
            match what {
                What::Bytes(bytes) => {
                    if let Passing::Done = self.pass(&bytes, arrived, held, &mut tail).await? {
                        return Ok(());
                    }
                }
                What::Closed => {
                    self.turn(arrived).await;
                    // The receiver may be gone.
                    let _ = shutdown(self.to.as_raw_fd(), Shutdown::Write);
                    return Ok(());
                }
                What::Broken => {
                    self.turn(arrived).await;
                    return Err(End::Reset);
                }
            }
        }
        Ok(())
    }

    async fn pass(&self, mut bytes: &[u8], at: Instant, held: &Held<'_>, tail: &mut Vec<u8>) -> Result<Passing, End> {
        while !bytes.is_empty() {
            self.turn(at).await;
            // A receiver that is gone says so when it is written to.
            let _ = self.to.writable().await;
            match self.pass_some(bytes, at, held, tail)? {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The receiver's own end comes the other way, when that way is open.
                Err(_) => return Ok(Passing::Done),
            }
        }
        Ok(Passing::On)
    }

    /// Passes as many bytes as the rules and the receiver take now. The rules stay locked: none comes too late.
    fn pass_some(
        &self,
        bytes: &[u8],
        arrived: Instant,
        held: &Held<'_>,
        tail: &mut Vec<u8>,
    ) -> Result<io::Result<usize>, End> {
        let mut rules = self.state.rules();
        let way = rules.way_mut(self.direction);
        if way.hold || arrived + way.delay > Instant::now() {
            return Ok(Err(io::ErrorKind::WouldBlock.into()));
        }
        let allowed = way.left.map_or(bytes.len(), |left| usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len()));
        let count = if allowed == 0 {
            0
        } else {
            match self.to.try_write(&bytes[..allowed]) {
                Ok(count) => count,
                Err(error) => return Ok(Err(error)),
            }
        };
        if let Some(left) = &mut way.left {
            *left -= count as u64;
            if *left == 0 {
                way.left = None;
                self.count(count, held);
                return Err(End::Close);
            }
        }
        if self.direction == Direction::ToServer
            && let Some(then) = find(&mut rules.loss, tail, &bytes[..count])
        {
            *self.loss.lock().expect("nothing panics while it is locked") = Some(then);
        }
        self.count(count, held);
        Ok(Ok(count))
    }

    fn count(&self, count: usize, held: &Held<'_>) {
        self.state.passed(self.direction).fetch_add(count as u64, SeqCst);
        held.remove(count);
    }

    /// Waits until what arrived then may pass; a change of the rules holds for what is under way too.
    async fn turn(&self, arrived: Instant) {
        let mut changes = self.state.changes();
        loop {
            let open = {
                let rules = self.state.rules();
                let way = rules.way(self.direction);
                (!way.hold).then(|| arrived + way.delay)
            };
            match open {
                Some(at) if at <= Instant::now() => return,
                Some(at) => tokio::select! { () = sleep_until(at) => {}, _ = changes.changed() => {} },
                None => drop(changes.changed().await),
            }
        }
    }
}

async fn read(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

/// Takes the rule if the request ends within `bytes`; `tail` is what the last bytes before were, since there is a rule.
fn find(loss: &mut Option<Loss>, tail: &mut Vec<u8>, bytes: &[u8]) -> Option<Then> {
    let Some(Loss { request, then }) = loss else {
        tail.clear();
        return None;
    };
    let then = *then;
    tail.extend_from_slice(bytes);
    if tail.windows(request.len().max(1)).any(|window| window == &**request) {
        *loss = None;
        return Some(then);
    }
    let kept = request.len().saturating_sub(1).min(tail.len());
    tail.drain(..tail.len() - kept);
    None
}

/// Bytes of one lane that have come and not gone on; gone with the lane.
struct Held<'a> {
    total: &'a AtomicU64,
    own: AtomicU64,
}

impl Held<'_> {
    fn add(&self, count: usize) {
        self.own.fetch_add(count as u64, SeqCst);
        self.total.fetch_add(count as u64, SeqCst);
    }

    fn remove(&self, count: usize) {
        self.own.fetch_sub(count as u64, SeqCst);
        self.total.fetch_sub(count as u64, SeqCst);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.total.fetch_sub(self.own.load(SeqCst), SeqCst);
    }
}

/// Counts a connection while it is open.
struct Gauge<'a>(&'a AtomicU64);

impl<'a> Gauge<'a> {
    fn count(open: &'a AtomicU64) -> Self {
        open.fetch_add(1, SeqCst);
        Self(open)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_found_in_pieces_but_only_once_there_is_a_rule() {
        let (mut loss, mut tail) = (None, Vec::new());
        assert_eq!(find(&mut loss, &mut tail, b"xxREL"), None);
        loss = Some(Loss { request: b"RELEASE".to_vec(), then: Then::Silence });
        assert_eq!(find(&mut loss, &mut tail, b"EASE REL"), None);
        assert_eq!(find(&mut loss, &mut tail, b"EA"), None);
        assert_eq!(find(&mut loss, &mut tail, b"SE and more"), Some(Then::Silence));
        assert!(loss.is_none());
    }
}
