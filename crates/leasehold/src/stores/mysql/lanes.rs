//! Which connection a name is asked for over.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::call::{Call, Rows};
use super::fault::Fault;
use super::lane::{Lane, Site};

/// How many connections one handle has at the most: claims for different names go side by side, so that they share the
/// disk's syncs.
const LANES: usize = 4;

/// The lanes of a handle.
pub(super) struct Lanes {
    named: Vec<Lane>,
    /// The route's own: no name that somebody has locked holds it up.
    route: Lane,
    /// For what decides nothing: no lock waits for it.
    aside: Lane,
    /// Something was written that decides nothing.
    has_noted: AtomicBool,
}

impl Lanes {
    pub fn to(site: &Arc<Site>) -> Self {
        let lane = || Lane::new(Arc::clone(site));
        Self {
            named: (0..LANES).map(|_| lane()).collect(),
            route: lane(),
            aside: lane(),
            has_noted: AtomicBool::default(),
        }
    }

    /// Asks what has to do with no name.
    pub async fn ask(&self, call: Call) -> Result<Rows, Fault> {
        self.named[0].ask(call).await
    }

    /// Asks for the route.
    pub async fn ask_for_route(&self, call: Call) -> Result<Rows, Fault> {
        self.route.ask(call).await
    }

    /// Asks beside all that has to do with locks.
    pub async fn ask_aside(&self, call: Call) -> Result<Rows, Fault> {
        self.aside.ask(call).await
    }

    /// Writes one thing that decides nothing. Who asks for a lock, writes one note of it and is gone needs no second connection: that
    /// may be a whole fleet at once, each time a job is due. So the first goes over one that rests; whoever goes on has the next ones
    /// written aside.
    pub async fn write_one(&self, mut call: Call) -> Result<Rows, Fault> {
        if !self.has_noted.swap(true, Ordering::Relaxed) {
            for lane in &self.named {
                match lane.ask_while_it_rests(call).await {
                    Ok(answer) => return answer,
                    Err(back) => call = back,
                }
            }
        }
        self.aside.ask(call).await
    }

    /// Asks for a name, behind all that was asked for it before.
    pub async fn ask_for(&self, name: &str, call: Call) -> Result<Rows, Fault> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let lane = usize::try_from(hasher.finish() % LANES as u64).unwrap_or(0);
        self.named[lane].ask(call).await
    }
}
