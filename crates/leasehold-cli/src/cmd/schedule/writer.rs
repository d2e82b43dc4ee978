//! Writes lines for as long as somebody reads them, and holds nobody up.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::output::Stream;

/// So many lines may wait for a reader who is slow.
const MOST: usize = 10_000;

/// So many bytes of them, on their way to one stream.
const MOST_BYTES: usize = 8 << 20;

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
struct Lane {
    items: SyncSender<Item>,
    /// How many bytes wait.
    bytes: Arc<AtomicUsize>,
}

enum Item {
    Line(String),
    /// Said when all before it is written.
    Done(SyncSender<()>),
}

impl Writer {
    /// To be called after every fork.
    pub fn start() -> Self {
        Self::to(std::io::stdout(), std::io::stderr())
    }

    fn to(out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> Self {
        Self { out: Lane::to(out), err: Lane::to(err), left_out: AtomicU64::new(0) }
    }

    /// Has a line written, if there is room for it.
    pub fn write(&self, stream: Stream, line: String) {
        if !self.lane(stream).takes(line) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has it written how many lines were left out since that was last written, if any were. Where this doesn't fit either they
    /// are told of the next time.
    pub fn write_left_out(&self, stream: Stream, words: impl FnOnce(u64) -> String) {
        let lines = self.left_out.swap(0, Ordering::Relaxed);
        if lines > 0 && !self.lane(stream).takes(words(lines)) {
            self.left_out.fetch_add(lines, Ordering::Relaxed);
        }
    }

    fn lane(&self, stream: Stream) -> &Lane {
        if stream == Stream::Stdout { &self.out } else { &self.err }
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
        let (sender, items) = sync_channel(MOST);
        let bytes = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&bytes);
        thread::spawn(move || {
            for item in items {
                match item {
                    Item::Line(line) => {
                        let length = line.len();
                        // Where that fails, nobody listens.
                        drop(stream.write_all((line + "\n").as_bytes()).and_then(|()| stream.flush()));
                        waiting.fetch_sub(length, Ordering::Relaxed);
                    }
                    Item::Done(done) => drop(done.send(())),
                }
            }
        });
        Self { items: sender, bytes }
    }

    /// Takes a line on its way; false if there is no room for it.
    fn takes(&self, line: String) -> bool {
        let length = line.len();
        let waiting = self.bytes.fetch_add(length, Ordering::Relaxed);
        let fits = waiting + length <= MOST_BYTES && self.items.try_send(Item::Line(line)).is_ok();
        if !fits {
            self.bytes.fetch_sub(length, Ordering::Relaxed);
        }
        fits
    }

    fn ends(&self, until: Instant) {
        let (done, is_done) = sync_channel(1);
        let mut item = Item::Done(done);
        while let Err(TrySendError::Full(back)) = self.items.try_send(item) {
            if Instant::now() >= until {
                return;
            }
            item = back;
            thread::sleep(LOOK);
        }
        let _ = is_done.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A reader who reads when he is told to; and what he has read.
    struct Slow(Receiver<()>, Sender<String>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv(); // or there is nobody any more who could tell him
            let _ = self.1.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_all_that_is_left_out_is_told() {
        let ((go, goes), (read, has_read)) = (channel(), channel());
        let writer = Writer::to(Slow(goes, read), io::sink());
        let (line, many) = ("x".repeat(16 << 10), 1000);
        (0..many).for_each(|_| writer.write(Stream::Stdout, line.clone()));
        let taken = MOST_BYTES / line.len();
        let left_out = many - u64::try_from(taken).unwrap();
        assert_eq!(writer.left_out.load(Ordering::Relaxed), left_out);
        let words = |lines: u64| format!("{lines} lines were left out{}", " ".repeat(16 << 10));
        writer.write_left_out(Stream::Stdout, words);
        assert_eq!(writer.left_out.load(Ordering::Relaxed), left_out, "there was no room for that either");
        drop(go);
        let wait = Duration::from_secs(10);
        (0..taken).for_each(|_| assert_eq!(has_read.recv_timeout(wait).unwrap().trim_end(), line));
        writer.end();
        writer.write_left_out(Stream::Stdout, words);
        let told = has_read.recv_timeout(wait).unwrap();
        assert!(told.starts_with(&format!("{left_out} lines")), "{told}");
        assert_eq!(writer.left_out.load(Ordering::Relaxed), 0);
    }
}
