//! How a fallback is set up.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::span::Span;
use crate::store::RouteTerms;
use crate::validity::{self, BootClock, Clock};

/// The TTL of a lock for which no other is said: less would not last through a failover with the usual settings.
pub const USUAL_TTL: Duration = Duration::from_secs(60);

/// The shortest that any of the spans may be.
const LEAST: Duration = Duration::from_secs(1);

/// The longest: what is counted from them must not overflow, neither here nor in a store.
const MOST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Settings of a [`Fallback`](super::Fallback). All clients of a namespace must have the same route lease and largest TTL.
#[derive(Clone)]
#[must_use]
pub struct Settings {
    pub(super) route_lease: Duration,
    pub(super) max_ttl: Duration,
    pub(super) down_after: Duration,
    pub(super) up_after: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) simulated: bool,
    pub(super) primary_name: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            route_lease: Duration::from_secs(10),
            max_ttl: Duration::from_secs(3600),
            down_after: Duration::from_secs(10),
            up_after: Duration::from_secs(60),
            clock: Arc::new(BootClock),
            simulated: false,
            primary_name: None,
        }
    }
}

impl Settings {
    /// For how long a client acts on what it has read of the route: how long a switch takes, and a little more than
    /// twice as long as the arbiter may be away. Default: 10 s; at least 1 s. Holders may need at most 0.3 of it to stop.
    pub fn route_lease(mut self, span: Duration) -> Self {
        self.route_lease = span;
        self
    }

    /// The largest TTL. Default: one hour.
    pub fn max_ttl(mut self, largest: Duration) -> Self {
        self.max_ttl = largest;
        self
    }

    /// How long a client that reaches the arbiter must not have reached the primary before it switches. Default: 10 s.
    pub fn down_after(mut self, span: Duration) -> Self {
        self.down_after = span;
        self
    }

    /// How long a client must have reached the primary, and nobody have complained that it can't, before it switches back.
    /// Default: 60 s.
    pub fn up_after(mut self, span: Duration) -> Self {
        self.up_after = span;
        self
    }

    /// What the primary is called, for clients that reach it under different addresses: all must call it the same, and a client
    /// that calls it otherwise is refused. Default: as its URL says.
    pub fn primary_name(mut self, name: impl Into<String>) -> Self {
        self.primary_name = Some(name.into());
        self
    }

    /// For simulations and tests under paused time, as the client's setting of this name: takes time from `clock`, and does its background work on the runtime that first asks.
    pub fn simulated(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self.simulated = true;
        self
    }

    /// The TTL of a lock for which no other is said: [`USUAL_TTL`], or the largest if that is less.
    #[must_use]
    pub fn usual_ttl(&self) -> Duration {
        USUAL_TTL.min(self.max_ttl)
    }

    /// The longest that a holder may need to stop: it has to be gone when the route lease ends, and a refresh of that may
    /// fail once or twice.
    #[must_use]
    pub fn longest_stop_grace(&self) -> Duration {
        self.route_lease.mul_f64(0.3)
    }

    /// How long it takes until locks are granted by the arbiter, from when the primary is gone, unless it was switched a moment
    /// before: whoever tries once may as well try for so long.
    #[must_use]
    pub fn moves_within(&self) -> Duration {
        self.down_after + self.route_lease.mul_f64(1.1) + Duration::from_secs(2)
    }

    /// How often the route is read.
    pub(super) fn refresh(&self) -> Duration {
        self.route_lease / 3
    }

    /// How long one read of it may take.
    pub(super) fn read_limit(&self) -> Duration {
        (self.route_lease / 6).min(Duration::from_millis(500))
    }

    /// How long the primary may take where nobody has to wait for it.
    pub(super) fn primary_limit(&self) -> Duration {
        (self.down_after / 5).min(Duration::from_secs(2))
    }

    /// How soon it is tried again.
    pub(super) fn retry(&self) -> Duration {
        (self.route_lease / 20).max(Duration::from_millis(250))
    }

    /// How soon it is read again for somebody who has asked for that.
    pub(super) fn retry_on_demand(&self) -> Duration {
        self.retry().min(Duration::from_millis(500))
    }

    pub(super) fn terms(&self, primary: String) -> RouteTerms {
        RouteTerms { lease: self.route_lease, drift: validity::parts_per_million(), max_ttl: self.max_ttl, primary }
    }

    /// Whether they make sense.
    ///
    /// # Errors
    /// [`Misconfigured`](ErrorKind::Misconfigured): one of the spans is too short or too long.
    pub fn check(&self) -> Result<()> {
        let spans = [
            ("route lease", self.route_lease),
            ("max_ttl", self.max_ttl),
            ("down_after", self.down_after),
            ("up_after", self.up_after),
        ];
        for (name, span) in spans {
            if !(LEAST..=MOST).contains(&span) {
                let (least, most) = (Span(LEAST), Span(MOST));
                let wrong = format!("the fallback's {name} is {span:?}: it must be {least} to {most}");
                return Err(Error::new(ErrorKind::Misconfigured, wrong));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("route_lease", &self.route_lease)
            .field("max_ttl", &self.max_ttl)
            .field("down_after", &self.down_after)
            .field("up_after", &self.up_after)
            .finish_non_exhaustive()
    }
}
