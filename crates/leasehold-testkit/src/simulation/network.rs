//! What happens to messages on their way.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::machine::Machine;
use crate::random::Random;

/// How bad a network is. Shares are of all messages; the rest arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weather {
    /// The shortest and the longest that a message usually takes, one way.
    pub delay: (Duration, Duration),
    /// The share of those that take longer, in either direction, and how much longer at the most.
    pub late: (f64, Duration),
    /// The share of requests that are lost together with their connection.
    pub lost_requests: f64,
    /// The share of answers that are lost.
    pub lost_replies: f64,
    /// The share of requests that are executed late, when what was sent behind them has long been, and are not answered:
    /// the connection broke, and the server read on. How late at the most.
    pub stragglers: (f64, Duration),
    /// The share of requests that are executed twice, once as a straggler.
    pub doubled: f64,
    /// How long whoever sends into silence waits before it is told.
    pub silence: Duration,
}

impl Weather {
    /// Everything arrives, within milliseconds.
    pub const FAIR: Self = Self {
        delay: (Duration::from_millis(1), Duration::from_millis(5)),
        late: (0.0, Duration::ZERO),
        lost_requests: 0.0,
        lost_replies: 0.0,
        stragglers: (0.0, Duration::ZERO),
        doubled: 0.0,
        silence: Duration::from_secs(5),
    };

    /// Much is late, and something of everything happens.
    pub const FOUL: Self = Self {
        delay: (Duration::from_millis(1), Duration::from_millis(20)),
        late: (0.1, Duration::from_secs(2)),
        lost_requests: 0.05,
        lost_replies: 0.05,
        stragglers: (0.03, Duration::from_secs(8)),
        doubled: 0.03,
        silence: Duration::from_secs(5),
    };
}

/// The network between some machines. Clones are the same.
#[derive(Debug, Clone)]
pub struct Network(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: Random,
    weather: Weather,
    links: usize,
    cut: HashSet<usize>,
}

/// The way from one machine to another and back. Clones are the same.
#[derive(Debug, Clone)]
pub struct Link {
    network: Network,
    number: usize,
    /// Who asks.
    pub(super) from: Machine,
    /// Who answers.
    pub(super) to: Machine,
}

/// What befalls one message, there and back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate {
    pub there: Duration,
    pub back: Duration,
    pub request: Request,
    pub reply_is_lost: bool,
    /// Whether it is executed once more, so much later.
    pub again: Option<Duration>,
    /// Whether whoever asks is told at once that the connection broke, or finds silence.
    pub is_told: bool,
}

/// What befalls the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Arrives,
    IsLost,
    /// Is executed so much later, out of order; its answer is lost.
    Straggles(Duration),
}

impl Network {
    /// One without links yet.
    #[must_use]
    pub fn new(random: Random, weather: Weather) -> Self {
        Self(Arc::new(Mutex::new(State { random, weather, links: 0, cut: HashSet::new() })))
    }

    /// A way from one machine to another.
    #[must_use]
    pub fn link(&self, from: &Machine, to: &Machine) -> Link {
        let mut state = self.state();
        state.links += 1;
        Link { network: self.clone(), number: state.links, from: from.clone(), to: to.clone() }
    }

    /// From now on it is so, for what is sent.
    pub fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it is locked")
    }
}

impl Link {
    /// Nothing gets through, in either direction, until it is mended. What is under way is lost.
    pub fn cut(&self) {
        self.network.state().cut.insert(self.number);
    }

    /// Everything gets through again.
    pub fn mend(&self) {
        self.network.state().cut.remove(&self.number);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.network.state().cut.contains(&self.number)
    }

    pub(super) fn silence(&self) -> Duration {
        self.network.state().weather.silence
    }

    /// Drawn when a message is sent, so that it depends on nothing else.
    pub(super) fn fate(&self) -> Fate {
        self.network.state().fate()
    }
}

impl State {
    fn fate(&mut self) -> Fate {
        let weather = self.weather;
        let (there, back) = (self.takes(), self.takes());
        let request = if self.happens(weather.lost_requests) {
            Request::IsLost
        } else if self.happens(weather.stragglers.0) {
            Request::Straggles(weather.stragglers.1.mul_f64(self.random.share()))
        } else {
            Request::Arrives
        };
        let reply_is_lost = self.happens(weather.lost_replies);
        let again = self.happens(weather.doubled).then(|| weather.stragglers.1.mul_f64(self.random.share()));
        Fate { there, back, request, reply_is_lost, again, is_told: self.random.one_in(2) }
    }

    fn takes(&mut self) -> Duration {
        let Weather { delay: (shortest, longest), late: (share, later), .. } = self.weather;
        let usual = shortest + longest.saturating_sub(shortest).mul_f64(self.random.share());
        let is_late = self.happens(share);
        usual + if is_late { later.mul_f64(self.random.share()) } else { Duration::ZERO }
    }

    fn happens(&mut self, share: f64) -> bool {
        self.random.share() < share
    }
}
