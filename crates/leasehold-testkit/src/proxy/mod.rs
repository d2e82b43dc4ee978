//! A network that is slow, silent or cut: a TCP proxy between a client and any server, broken on cue.
//!
//! ```
//! # use std::net::TcpListener;
//! use std::time::Duration;
//! use leasehold_testkit::proxy::{Direction, Proxy, Then};
//!
//! # let server = TcpListener::bind("127.0.0.1:0")?;
//! # let server = server.local_addr()?;
//! let proxy = Proxy::to(server);
//! // … connect to proxy.address() …
//! proxy.delay(Direction::ToServer, Duration::from_millis(200));
//! proxy.blackhole(Direction::ToClient); // Requests arrive; answers wait.
//! proxy.heal(); // They come, in order.
//! // The next release is done, and nobody is told.
//! proxy.drop_reply_after_request(b"RELEASE", Then::Cut);
//! proxy.refuse();
//! proxy.cut();
//! # Ok::<_, std::io::Error>(())
//! ```
//!
//! What a method says holds when it returns: no byte slips through after a `blackhole`, no connection lives after a
//! `cut`. To act on what a client does, wait for a count: [`held`](Proxy::held), [`passed`](Proxy::passed),
//! [`dropped_replies`](Proxy::dropped_replies), [`connections`](Proxy::connections).
//!
//! The proxy lives on a thread with a runtime of its own, in real time: a test may pause its own.

mod connection;
mod listener;
mod network;
mod rules;

pub use network::Proxy;
pub use rules::{Direction, Then};
