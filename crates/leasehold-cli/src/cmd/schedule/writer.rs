//! Writes lines for as long as somebody reads them, and holds nobody up.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::output::Stream;

/// So many lines may wait for a reader who is slow.
const MOST: usize = 10_000;

/// How long the last lines may take to be written at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often it is looked whether there is room for them.
const LOOK: Duration = Duration::from_millis(10);

/// Writes to stdout and stderr, a thread for each. A reader who stops reading must not stop the jobs: lines that don't fit are
/// left out, and counted.
pub struct Writer {
    out: Lane,
    err: Lane,
    left_out: AtomicU64,
}

/// Lines on their way to one stream.
struct Lane(SyncSender<Item>);

enum Item {
    Line(String),
    /// Said when all before it is written.
    Done(SyncSender<()>),
}

impl Writer {
    /// To be called after every fork.
    pub fn start() -> Self {
        let (out, err) = (Lane::to(std::io::stdout()), Lane::to(std::io::stderr()));
        Self { out, err, left_out: AtomicU64::new(0) }
    }

    /// Has a line written, if there is room for it.
    pub fn write(&self, stream: Stream, line: String) {
        let Lane(lines) = if stream == Stream::Stdout { &self.out } else { &self.err };
        if lines.try_send(Item::Line(line)).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many lines were left out since this was last asked.
    pub fn left_out(&self) -> u64 {
        self.left_out.swap(0, Ordering::Relaxed)
    }

    /// Waits until all is written, but not for ever.
    pub fn end(&self) {
        let until = Instant::now() + LAST_WORDS;
        self.err.ends(until);
        self.out.ends(until);
    }
}

impl Lane {
    fn to(mut stream: impl Write + Send + 'static) -> Self {
        let (lines, items) = sync_channel(MOST);
        thread::spawn(move || {
            for item in items {
                match item {
                    // Where that fails, nobody listens.
                    Item::Line(line) => drop(stream.write_all((line + "\n").as_bytes()).and_then(|()| stream.flush())),
                    Item::Done(done) => drop(done.send(())),
                }
            }
        });
        Self(lines)
    }

    fn ends(&self, until: Instant) {
        let (done, is_done) = sync_channel(1);
        let mut item = Item::Done(done);
        while let Err(TrySendError::Full(back)) = self.0.try_send(item) {
            if Instant::now() >= until {
                return;
            }
            item = back;
            thread::sleep(LOOK);
        }
        let _ = is_done.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}
