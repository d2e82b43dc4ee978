//! The proxy, as a test holds it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc;

use super::connection::End;
use super::listener::{Anchor, Order, serve};
use super::rules::{Direction, Loss, State, Then};

/// A TCP proxy before a server, broken on cue; see the [module](super). Connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    orders: Option<mpsc::UnboundedSender<(Order, std::sync::mpsc::Sender<()>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1; each connection is passed on to `server`, which need not be there yet.
    ///
    /// # Panics
    /// If there is no such address, or no port.
    #[must_use]
    pub fn to(server: impl ToSocketAddrs) -> Self {
        let state = Arc::new(State::to(resolved(server)));
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
        let context = runtime.enter();
        let anchor = Anchor::new().expect("a port is free");
        let address = anchor.address();
        // The port is open when this returns.
        let listener = anchor.listen().expect("the port is ours");
        drop(context);
        let (orders, received) = mpsc::unbounded_channel();
        let serving = serve(anchor, Some(listener), Arc::clone(&state), received);
        let thread = thread::Builder::new().name("proxy".into()).spawn(move || runtime.block_on(serving));
        Self { address, state, orders: Some(orders), thread: Some(thread.expect("a thread can be started")) }
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its address, as `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The server's URL, but through the proxy.
    ///
    /// # Panics
    /// If it is no URL with a host.
    #[must_use]
    pub fn url(&self, server: &str) -> String {
        let (scheme, rest) = server.split_once("://").unwrap_or_else(|| panic!("no URL: {server}"));
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let user = authority.rfind('@').map_or("", |at| &authority[..=at]);
        format!("{scheme}://{user}{}{path}", self.address)
    }

    /// Passes new connections on to another server, as an address does that moves in a failover. Those that are there
    /// stay where they are.
    ///
    /// # Panics
    /// If there is no such address.
    pub fn lead_to(&self, server: impl ToSocketAddrs) {
        let server = resolved(server);
        self.state.change(|rules| rules.server = server);
    }

    /// Everything takes `span` longer in this direction, also what is under way.
    pub fn delay(&self, direction: Direction, span: Duration) {
        self.state.change(|rules| rules.way_mut(direction).delay = span);
    }

    /// Nothing arrives in this direction any more. It is accepted and held; so is the end of a connection.
    pub fn blackhole(&self, direction: Direction) {
        self.state.change(|rules| rules.way_mut(direction).hold = true);
    }

    /// No more faults, and none that are still to come: what was held arrives, new connections are accepted. What was
    /// lost stays lost.
    pub fn heal(&self) {
        self.state.change(super::rules::Rules::heal);
        self.order(Order::Accept);
    }

    /// Resets all connections (RST to both sides); what was held on them is lost. New ones are accepted.
    pub fn cut(&self) {
        self.order(Order::End(End::Reset));
    }

    /// Closes all connections in good order (FIN to both sides); what was held on them is lost. New ones are accepted.
    pub fn close(&self) {
        self.order(Order::End(End::Close));
    }

    /// Refuses new connections, as a port on which nobody listens. Those that are there stay.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    /// Passes `bytes` bytes more in this direction; then the connection that carried the last of them is closed, once.
    /// With 0, the one that would carry the next.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.state.change(|rules| rules.way_mut(direction).left = Some(bytes));
    }

    /// The next request that contains `bytes` reaches the server, but what the server says after it on that connection
    /// reaches nobody. Answers that were on their way before are not lost.
    ///
    /// # Panics
    /// If there are no bytes.
    pub fn drop_reply_after_request(&self, bytes: &[u8], then: Then) {
        assert!(!bytes.is_empty(), "every request contains nothing");
        self.state.change(|rules| rules.loss = Some(Loss { request: bytes.to_vec(), then }));
    }

    /// How many answers were dropped, that is: requests which the server has answered in vain.
    #[must_use]
    pub fn dropped_replies(&self) -> u64 {
        self.state.dropped_replies.load(SeqCst)
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.state.accepted.load(SeqCst)
    }

    /// How many connections there are.
    #[must_use]
    pub fn open_connections(&self) -> u64 {
        self.state.open.load(SeqCst)
    }

    /// How many bytes have gone through in this direction.
    #[must_use]
    pub fn passed(&self, direction: Direction) -> u64 {
        self.state.passed(direction).load(SeqCst)
    }

    /// How many bytes wait in this direction: delayed, held, or not taken by the receiver yet.
    #[must_use]
    pub fn held(&self, direction: Direction) -> u64 {
        self.state.held(direction).load(SeqCst)
    }

    /// Has the listener do something and waits until it is done.
    fn order(&self, order: Order) {
        let (sender, done) = std::sync::mpsc::channel();
        let orders = self.orders.as_ref().expect("it is taken only when dropped");
        orders.send((order, sender)).expect("the proxy runs");
        done.recv().expect("the proxy runs");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.orders = None;
        // A panic of its own has been told already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn resolved(address: impl ToSocketAddrs) -> SocketAddr {
    address.to_socket_addrs().ok().and_then(|mut found| found.next()).expect("it is an address")
}
