//! What is served, and to whom.

use std::sync::Arc;

use leasehold::stores::Fallback;
use leasehold::{Locks, Result};
use tokio_util::sync::CancellationToken;

use crate::metrics::Exposition;
use crate::token::Token;

/// The monitor of one store, to be served by [`router`](crate::router).
///
/// Nothing is asked of the store while nobody looks.
#[derive(Clone)]
#[must_use]
pub struct Monitor {
    pub(crate) locks: Locks,
    pub(crate) shown: String,
    pub(crate) fallback: Option<Arc<Fallback>>,
    pub(crate) token: Token,
    pub(crate) hosts: Hosts,
    pub(crate) exposition: Option<Exposition>,
    pub(crate) stop: CancellationToken,
}

/// Under which names it may be asked for.
#[derive(Debug, Clone)]
pub(crate) enum Hosts {
    /// Any: whoever mounts the router looks after that.
    All,
    /// By an address, as `localhost`, and by these.
    These(Vec<String>),
}

impl Monitor {
    /// The shortest token that is taken.
    pub const SHORTEST_TOKEN: usize = 16;

    /// That of the store behind `locks`. Nobody can do anything but look; and it has to be asked for by an address, or as `localhost`.
    pub fn over(locks: Locks) -> Self {
        let shown = locks.kind().to_owned();
        Self {
            locks,
            shown,
            fallback: None,
            token: Token::default(),
            hosts: Hosts::These(Vec::new()),
            exposition: None,
            stop: CancellationToken::new(),
        }
    }

    /// What the store is called where people read it: without secrets. Default: its kind.
    pub fn shown(mut self, store: &str) -> Self {
        store.clone_into(&mut self.shown);
        self
    }

    /// The store is this fallback: its route is shown, too.
    pub fn fallback(mut self, fallback: Arc<Fallback>) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// Whoever knows this token may act: end a hold, have a job run, pause or go on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold::ErrorKind::Invalid) for one that could be guessed, or can't stand in a header.
    pub fn token(mut self, token: &str) -> Result<Self> {
        self.token = Token::of(token)?;
        Ok(self)
    }

    /// Has another token count from now on, and the one before no more: also where this monitor, or the one that it was cloned from, is served
    /// already. After an error the one before still counts.
    ///
    /// # Errors
    /// As for [`token`](Self::token).
    pub fn replace_token(&self, token: &str) -> Result<()> {
        self.token.replace(token)
    }

    /// It may be asked for under this name, too, as `locks.example.com`. May be given several times.
    ///
    /// A page of somebody else's whose name leads to this machine (DNS rebinding) is refused by what it asks for.
    pub fn host(mut self, name: &str) -> Self {
        if let Hosts::These(names) = &mut self.hosts {
            names.push(name.trim_end_matches('.').to_ascii_lowercase());
        }
        self
    }

    /// It may be asked for under any name: for a router that is mounted in an application which looks after that itself.
    pub fn any_host(mut self) -> Self {
        self.hosts = Hosts::All;
        self
    }

    /// What `/metrics` answers with, beside what is known of the store. Default: that alone.
    pub fn exposition(mut self, exposition: Exposition) -> Self {
        self.exposition = Some(exposition);
        self
    }

    /// Streams end once `stop` is cancelled. A server that ends gracefully waits for all answers, and these have no end of their own.
    pub fn until(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").field("locks", &self.locks).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use leasehold::stores::Memory;

    use super::*;

    #[test]
    fn a_token_must_be_hard_to_guess_and_fit_for_a_header() {
        let monitor = || Monitor::over(Locks::over(Arc::new(Memory::default())));
        for wrong in ["", "0123456789abcde", "0123456789abcdef\n", "0123456789 abcdef", "0123456789abcdeé"] {
            let error = monitor().token(wrong).unwrap_err().to_string();
            assert!(error.contains("openssl rand -hex 32"), "{wrong:?}: {error}");
        }
        let monitor = monitor().token("0123456789abcdef").unwrap();
        assert!(!format!("{monitor:?}").contains("0123456789abcdef"));
        let served = monitor.clone();
        assert!(monitor.replace_token("guess-me").is_err());
        assert_eq!(served.token.now().as_deref(), Some("0123456789abcdef"), "what is no token replaces none");
        monitor.replace_token("fedcba9876543210").unwrap();
        assert_eq!(served.token.now().as_deref(), Some("fedcba9876543210"));
        assert_eq!(monitor.token("another-token-of-it").unwrap().token.now().as_deref(), Some("another-token-of-it"));
        assert_eq!(served.token.now().as_deref(), Some("fedcba9876543210"), "that is another monitor's");
    }
}
