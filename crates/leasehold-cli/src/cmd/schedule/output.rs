//! What a job writes: line by line as it comes, and the last lines of it.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use leasehold::Tick;
use nix::errno::Errno;
use nix::unistd::read;

use crate::nursery::Watched;

/// A line that is longer is told in parts.
const LONGEST_LINE: usize = 16 * 1024;

/// So much is read at a time.
const CHUNK: usize = 8 * 1024;

/// So much is kept of the last lines.
const LONGEST_TAIL: usize = 8 * 1024;

/// More than any pipe holds, unless root has allowed it: what is read of an ended job, at most. What it left behind may
/// write for ever.
const LONGEST_REST: usize = 1 << 20;

/// A line that a job has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// For which tick it runs.
    pub tick: Tick,
    /// Where to.
    pub stream: Stream,
    /// The line, without its end. Bytes that are no UTF-8 are written `\xNN`. A very long line comes in parts.
    pub text: &'a str,
}

/// Where a job writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// Whoever is told of each line.
pub type Listener = Arc<dyn Fn(Line<'_>) + Send + Sync>;

/// The output of one run.
pub struct Output {
    sources: [Source; 2],
    told: Told,
}

/// One stream.
struct Source {
    stream: Stream,
    /// None once everybody who could write has closed it.
    pipe: Option<Watched>,
    /// The line that has not ended.
    begun: Vec<u8>,
}

/// Who is told, and the last of what was.
struct Told {
    tick: Tick,
    tell: Listener,
    lines: VecDeque<String>,
    most: usize,
    bytes: usize,
}

impl Output {
    /// Of a run whose streams come out of these pipes; so many lines are kept, and each is told to `tell`.
    pub fn new(tick: Tick, stdout: Watched, stderr: Watched, most: usize, tell: Listener) -> Self {
        let source = |stream, pipe| Source { stream, pipe: Some(pipe), begun: Vec::new() };
        let sources = [source(Stream::Stdout, stdout), source(Stream::Stderr, stderr)];
        Self { sources, told: Told { tick, tell, lines: VecDeque::new(), most, bytes: 0 } }
    }

    /// Whether there may be more to come.
    pub fn is_open(&self) -> bool {
        self.sources.iter().any(|source| source.pipe.is_some())
    }

    /// Reads and tells what the job writes. Resolves when all who could write are gone.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn is_told(&mut self) {
        let mut chunk = [0; CHUNK];
        loop {
            if self.take(&mut chunk) > 0 {
                tokio::task::yield_now().await; // who writes for ever must not keep us from all else
                continue;
            }
            let [stdout, stderr] = self.sources.each_ref().map(|source| source.pipe.as_ref());
            match (stdout, stderr) {
                (None, None) => return,
                (Some(one), None) | (None, Some(one)) => one.readable().await,
                (Some(stdout), Some(stderr)) => tokio::select! {
                    () = stdout.readable() => {}
                    () = stderr.readable() => {}
                },
            }
        }
    }

    /// Reads and tells what the job had written when it ended. Does not wait for what it left behind.
    pub fn ends(&mut self) {
        let (mut chunk, mut rest) = ([0; CHUNK], LONGEST_REST);
        while let taken @ 1.. = self.take(&mut chunk) {
            rest = rest.saturating_sub(taken);
            if rest == 0 {
                break;
            }
        }
        self.sources.iter_mut().for_each(|source| source.end_line(&mut self.told));
    }

    /// The last lines.
    pub fn last_lines(&self) -> String {
        self.told.lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }

    /// Goes on to tell what those write who were left behind, until they are gone. If nobody read it, they would die of it.
    pub fn goes_on(mut self) {
        if self.is_open() {
            self.told.most = 0;
            tokio::spawn(async move { self.is_told().await });
        }
    }

    /// Reads and tells what is there, a chunk of each at the most; how much it was.
    fn take(&mut self, chunk: &mut [u8]) -> usize {
        self.sources.iter_mut().map(|source| source.take(chunk, &mut self.told)).sum()
    }
}

impl Source {
    fn take(&mut self, chunk: &mut [u8], told: &mut Told) -> usize {
        let Some(pipe) = &self.pipe else { return 0 };
        match read(pipe.get(), chunk) {
            Ok(length @ 1..) => {
                self.lines(&chunk[..length], told);
                length
            }
            Err(Errno::EAGAIN | Errno::EINTR) => 0,
            Ok(0) | Err(_) => {
                self.pipe = None;
                self.end_line(told);
                0
            }
        }
    }

    fn lines(&mut self, mut text: &[u8], told: &mut Told) {
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(&text[..end]);
            told.lines_of(self.stream, &self.begun);
            self.begun.clear();
            text = &text[end + 1..];
        }
        self.begun.extend_from_slice(text);
        while self.begun.len() > LONGEST_LINE {
            let rest = self.begun.split_off(LONGEST_LINE);
            told.line(self.stream, &self.begun);
            self.begun = rest;
        }
    }

    /// Tells a last line that has no end.
    fn end_line(&mut self, told: &mut Told) {
        if !self.begun.is_empty() {
            told.lines_of(self.stream, &std::mem::take(&mut self.begun));
        }
    }
}

impl Told {
    /// A whole line, in parts if it is very long.
    fn lines_of(&mut self, stream: Stream, line: &[u8]) {
        if line.is_empty() {
            return self.line(stream, line);
        }
        line.chunks(LONGEST_LINE).for_each(|part| self.line(stream, part));
    }

    fn line(&mut self, stream: Stream, line: &[u8]) {
        let text = visible(line);
        (self.tell)(Line { tick: self.tick, stream, text: &text });
        self.keep(text);
    }

    fn keep(&mut self, mut line: String) {
        line.truncate(line.floor_char_boundary(LONGEST_TAIL));
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.lines.len() > self.most || (self.bytes > LONGEST_TAIL && self.lines.len() > 1) {
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.len() + 1);
        }
    }
}

/// Bytes that are no UTF-8 are written `\xNN`.
fn visible(bytes: &[u8]) -> String {
    bytes.utf8_chunks().fold(String::with_capacity(bytes.len()), |mut text, chunk| {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What is told of these writes, and what is kept of it.
    fn told(most: usize, writes: &[&[u8]]) -> (Vec<String>, String) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&heard);
        let tell: Listener = Arc::new(move |line: Line<'_>| listener.lock().unwrap().push(line.text.to_owned()));
        let told = Told { tick: Tick::ONLY, tell, lines: VecDeque::new(), most, bytes: 0 };
        let source = || Source { stream: Stream::Stdout, pipe: None, begun: Vec::new() };
        let mut output = Output { sources: [source(), source()], told };
        writes.iter().for_each(|write| output.sources[0].lines(write, &mut output.told));
        output.ends();
        let heard = heard.lock().unwrap().clone();
        (heard, output.last_lines())
    }

    #[test]
    fn lines_are_told_whole_however_they_are_written() {
        let (heard, kept) = told(2, &[b"one\ntw", b"o\n\nfo", b"u", b"r"]);
        assert_eq!(heard, ["one", "two", "", "four"]);
        assert_eq!(kept, "\nfour\n");
        assert_eq!(told(2, &[b"one\n"]).0, ["one"]);
        assert_eq!(told(0, &[b"one\n"]), (vec!["one".to_owned()], String::new()));
    }

    #[test]
    fn what_is_no_text_is_made_visible() {
        assert_eq!(told(1, &["ä".as_bytes(), b"\xff\x00\xc3", b"\n"]).0, ["ä\\xff\0\\xc3"]);
    }

    #[test]
    fn a_line_without_end_is_told_in_parts_and_its_beginning_kept() {
        let (heard, kept) = told(20, &[&b"x".repeat(LONGEST_LINE - 1), &b"y".repeat(LONGEST_LINE), b"z\nlast"]);
        let lengths: Vec<_> = heard.iter().map(String::len).collect();
        assert_eq!(lengths, [LONGEST_LINE, LONGEST_LINE, 4]);
        assert!(kept.len() <= LONGEST_TAIL + 1 && kept.ends_with("last\n"), "{}", kept.len());
        let (_, kept) = told(20, &[&b"ab\n".repeat(5000)]);
        assert_eq!(kept, "ab\n".repeat(20));
        let (_, kept) = told(10_000, &[&b"ab\n".repeat(5000)]);
        assert!(kept.len() <= LONGEST_TAIL && kept.len() > LONGEST_TAIL - 4, "{}", kept.len());
    }
}
