//! What the network does at the moment, and what it has done.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Answers.
    ToClient,
}

/// What becomes of a connection whose answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It is closed as soon as the server has answered.
    Cut,
    /// It stays, and nothing that the server says on it arrives any more, healed or not.
    Silence,
}

#[derive(Debug)]
pub(super) struct Rules {
    /// Where new connections lead.
    pub(super) server: SocketAddr,
    ways: [Way; 2],
    /// Whose answer is to be lost.
    pub(super) loss: Option<Loss>,
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Way {
    pub(super) delay: Duration,
    pub(super) hold: bool,
    /// So many bytes more, then the connection that carries the last of them ends.
    pub(super) left: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Loss {
    pub(super) request: Vec<u8>,
    pub(super) then: Then,
}

impl Rules {
    /// No faults.
    fn to(server: SocketAddr) -> Self {
        Self { server, ways: Default::default(), loss: None }
    }

    pub(super) fn heal(&mut self) {
        *self = Self::to(self.server);
    }

    pub(super) fn way(&self, direction: Direction) -> &Way {
        &self.ways[direction as usize]
    }

    pub(super) fn way_mut(&mut self, direction: Direction) -> &mut Way {
        &mut self.ways[direction as usize]
    }
}

/// The rules and the counts, shared by the test and all connections.
#[derive(Debug)]
pub(super) struct State {
    rules: Mutex<Rules>,
    /// Rings when the rules have changed.
    changed: watch::Sender<()>,
    passed: [AtomicU64; 2],
    held: [AtomicU64; 2],
    pub(super) accepted: AtomicU64,
    pub(super) open: AtomicU64,
    pub(super) dropped_replies: AtomicU64,
}

impl State {
    pub(super) fn to(server: SocketAddr) -> Self {
        Self {
            rules: Mutex::new(Rules::to(server)),
            changed: watch::Sender::default(),
            passed: Default::default(),
            held: Default::default(),
            accepted: AtomicU64::default(),
            open: AtomicU64::default(),
            dropped_replies: AtomicU64::default(),
        }
    }

    /// The rules. Bytes are passed on while this is locked, so a change holds from when it is made.
    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().expect("nothing panics while it is locked")
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.rules());
        self.changed.send_replace(());
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn passed(&self, direction: Direction) -> &AtomicU64 {
        &self.passed[direction as usize]
    }

    pub(super) fn held(&self, direction: Direction) -> &AtomicU64 {
        &self.held[direction as usize]
    }
}
