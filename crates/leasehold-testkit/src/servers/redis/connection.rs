//! As much of a client as it takes to ask a server about itself.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A server that says nothing for so long fails the test.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a Redis server answers. Bytes that are no UTF-8 are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status or a string.
    Text(String),
    /// An error, which starts with its code: `ERR`, `NOAUTH`, `MOVED` …
    Error(String),
    /// A number.
    Integer(i64),
    /// Nothing: no such key, no such element.
    Nil,
    /// Several.
    Items(Vec<Reply>),
}

impl Reply {
    /// The text, or the number as text.
    ///
    /// # Panics
    /// If it is anything else.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            _ => panic!("not a text: {self:?}"),
        }
    }

    /// The number.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn integer(&self) -> i64 {
        let Self::Integer(number) = self else { panic!("not a number: {self:?}") };
        *number
    }

    /// The parts.
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        let Self::Items(items) = self else { panic!("not several: {self:?}") };
        items
    }

    /// The error, if it is one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        if let Self::Error(error) = self { Some(error) } else { None }
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection to a Redis server that speaks RESP2, in the clear.
///
/// For questions about servers and for tests of the testkit; it knows neither redirections nor reconnection.
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
}

impl Connection {
    /// Connects over TCP.
    ///
    /// # Errors
    /// As the system says.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// As the system says.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    /// Sends a command and waits for its answer; an error of the server's is an answer.
    ///
    /// # Errors
    /// If the connection breaks, or nothing comes for 20 s.
    pub fn ask(&mut self, command: &[&str]) -> io::Result<Reply> {
        self.send(command)?;
        self.receive()
    }

    /// Sends a command.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn send(&mut self, command: &[&str]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", command.len());
        for part in command {
            request += &format!("${}\r\n{part}\r\n", part.len());
        }
        self.stream.get_mut().write_all(request.as_bytes())
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// If the connection breaks, or nothing comes for 20 s.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| garbage(line))?;
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => rest.parse().map(Reply::Integer).map_err(|_| garbage(line)),
            "$" | "*" if rest == "-1" => Ok(Reply::Nil),
            "$" => self.bulk(rest.parse().map_err(|_| garbage(line))?),
            "*" => (0..rest.parse().map_err(|_| garbage(line))?)
                .map(|_| self.receive())
                .collect::<io::Result<_>>()
                .map(Reply::Items),
            _ => Err(garbage(line)),
        }
    }

    fn bulk(&mut self, length: usize) -> io::Result<Reply> {
        let mut bytes = vec![0; length + 2]; // With the end of line.
        self.stream.read_exact(&mut bytes)?;
        Ok(Reply::Text(String::from_utf8_lossy(&bytes[..length]).into_owned()))
    }
}

fn garbage(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no RESP2: {line:?}"))
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
