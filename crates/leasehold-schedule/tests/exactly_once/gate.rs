//! A way to a server that ends at a given word: what a process says after it is never heard, or never answered.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Where the way ends: at which word, counted from 1 over all connections, and on which side of the server.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// The word does not arrive.
    BeforeItIsHeard(usize),
    /// It does, and what the server says to it doesn't.
    BeforeItIsAnswered(usize),
}

/// A word is what a client writes before it waits for an answer: a statement, or a step of a login.
pub struct Gate {
    address: SocketAddr,
    way: Arc<Way>,
    reached: Receiver<()>,
}

struct Way {
    server: SocketAddr,
    end: Option<End>,
    words: AtomicUsize,
    is_silent: AtomicBool,
    is_closed: AtomicBool,
    reach: Mutex<Sender<()>>,
    /// Kept open: nobody notices that the way has ended.
    streams: Mutex<Vec<TcpStream>>,
}

impl Gate {
    pub fn to(server: &str, end: Option<End>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (reach, reached) = channel();
        let way = Arc::new(Way {
            server: server.parse().unwrap(),
            end,
            words: AtomicUsize::new(0),
            is_silent: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            reach: Mutex::new(reach),
            streams: Mutex::default(),
        });
        let ways = Arc::clone(&way);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if ways.is_closed.load(SeqCst) {
                    return;
                }
                ways.join(client);
            }
        });
        Self { address, way, reached }
    }

    /// A server's URL, that leads through here.
    pub fn url(&self, server: &str) -> String {
        server.replace(&self.way.server.to_string(), &self.address.to_string())
    }

    pub fn words(&self) -> usize {
        self.way.words.load(SeqCst)
    }

    /// Waits until somebody has come to the end.
    pub fn wait(&self, limit: Duration) {
        self.reached.recv_timeout(limit).expect("the process says as much as it did when it was not stopped");
    }
}

impl Drop for Gate {
    /// The server learns that its client is gone.
    fn drop(&mut self) {
        self.way.is_closed.store(true, SeqCst);
        for stream in self.way.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = TcpStream::connect(self.address);
    }
}

impl Way {
    fn join(self: &Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(self.server) else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let copies = || [&client, &server].map(|stream| stream.try_clone().unwrap());
        self.streams.lock().unwrap().extend(copies());
        let [mut answers_to, mut asks] = copies();
        let (mut said, mut answered) = (client, server);
        let way = Arc::clone(self);
        thread::spawn(move || {
            while let Some(word) = read(&mut said) {
                if !way.hears() || asks.write_all(&word).is_err() {
                    return;
                }
            }
            let _ = asks.shutdown(Shutdown::Both);
        });
        let way = Arc::clone(self);
        thread::spawn(move || {
            while let Some(answer) = read(&mut answered) {
                if way.is_silent.load(SeqCst) {
                    return way.end();
                }
                if answers_to.write_all(&answer).is_err() {
                    return;
                }
            }
            if way.is_silent.load(SeqCst) {
                return way.end(); // It was a farewell.
            }
            let _ = answers_to.shutdown(Shutdown::Both);
        });
    }

    /// Counts a word; whether it is passed on.
    fn hears(&self) -> bool {
        let nth = self.words.fetch_add(1, SeqCst) + 1;
        match self.end {
            Some(End::BeforeItIsHeard(end)) if nth == end => {
                self.is_silent.store(true, SeqCst);
                self.end();
                false
            }
            Some(End::BeforeItIsAnswered(end)) if nth == end => {
                self.is_silent.store(true, SeqCst);
                true
            }
            _ => !self.is_silent.load(SeqCst),
        }
    }

    fn end(&self) {
        // Nobody may be waiting any more.
        let _ = self.reach.lock().unwrap().send(());
    }
}

fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 64 * 1024];
    let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
    bytes.truncate(count);
    Some(bytes)
}
