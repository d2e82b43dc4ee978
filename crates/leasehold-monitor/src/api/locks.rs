//! `/locks`, and `/lock` for one of them.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use leasehold::Holding;
use serde::{Deserialize, Serialize};

use super::Served;
use super::asked::{self, Asked};
use super::contention;
use super::problem::Problem;
use super::revocations::{self, Revocation};
use super::shown::{Another, Freshness, Waits, Who, held_for, instant, left};
use crate::contention::LockContention;
use crate::snapshot::reading::Seen;

/// So many locks are in one answer where nothing else is asked for, and at most.
const USUAL: usize = 100;
const MOST: usize = 1000;

#[derive(Deserialize)]
pub(super) struct Query {
    q: Option<String>,
    state: Option<String>,
    sort: Option<String>,
    offset: Option<String>,
    limit: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Locks {
    at: String,
    version: u64,
    #[serde(flatten)]
    freshness: Freshness,
    total: usize,
    held: usize,
    waited: usize,
    locks: Vec<Lock>,
}

#[derive(Serialize)]
pub(crate) struct Lock {
    name: String,
    state: &'static str,
    holder: Option<Who>,
    token: String,
    held_for_ms: Option<u64>,
    remaining_ms: Option<u64>,
    permits: u32,
    others: Vec<Another>,
    waiting: u64,
}

#[derive(Clone, Copy)]
enum Which {
    All,
    Held,
    Waited,
    Kept,
}

#[derive(Clone, Copy)]
enum Order {
    Name,
    HeldLongest,
    MostWaiting,
    EndsFirst,
}

pub(super) async fn locks(
    State(served): State<Arc<Served>>,
    Asked(query): Asked<Query>,
) -> Result<Json<Locks>, Problem> {
    let all = [("all", Which::All), ("held", Which::Held), ("waited", Which::Waited), ("kept", Which::Kept)];
    let which = asked::word("state", query.state.as_deref(), &all)?;
    let orders = [
        ("name", Order::Name),
        ("-held_for", Order::HeldLongest),
        ("-waiting", Order::MostWaiting),
        ("remaining", Order::EndsFirst),
    ];
    let order = asked::word("sort", query.sort.as_deref(), &orders)?;
    let offset = asked::number("offset", query.offset.as_deref(), 0, 0..=usize::MAX)?;
    let limit = asked::number("limit", query.limit.as_deref(), USUAL, 1..=MOST)?;
    let words = query.q.unwrap_or_default().to_lowercase();

    let seen = served.snapshot.listing().await?;
    let listing = &seen.value;
    let is_asked = |lock: &&Holding| which.is(lock) && has(lock, &words);
    let mut found: Vec<&Holding> = listing.locks.iter().filter(is_asked).collect();
    order.sort(&mut found);
    Ok(Json(Locks {
        at: instant(listing.at),
        version: served.snapshot.version(),
        freshness: Freshness::of(&seen),
        total: found.len(),
        held: listing.held(),
        waited: listing.waited(),
        locks: found.into_iter().skip(offset).take(limit).map(Lock::of).collect(),
    }))
}

impl Which {
    fn is(self, lock: &Holding) -> bool {
        match self {
            Self::All => true,
            Self::Held => lock.holder.is_some(),
            Self::Waited => lock.waiting > 0,
            Self::Kept => lock.holder.is_none(),
        }
    }
}

impl Order {
    /// They come in order of name, and those that are alike stay so.
    fn sort(self, locks: &mut [&Holding]) {
        match self {
            Self::Name => {}
            Self::HeldLongest => locks.sort_by_key(|lock| Reverse((lock.holder.is_some(), lock.held_for))),
            Self::MostWaiting => locks.sort_by_key(|lock| Reverse(lock.waiting)),
            Self::EndsFirst => locks.sort_by_key(|lock| lock.remaining),
        }
    }
}

/// Whether these words stand in its name or in who holds it.
fn has(lock: &Holding, words: &str) -> bool {
    let holds = |text: &str| text.to_lowercase().contains(words);
    words.is_empty()
        || holds(lock.name.as_str())
        || (lock.holder.is_some() && holds(&lock.label))
        || lock.others.iter().any(|other| holds(&other.label))
}

impl Lock {
    pub fn of(lock: &Holding) -> Self {
        let is_held = lock.holder.is_some();
        Self {
            name: lock.name.to_string(),
            state: match lock.holder {
                Some(_) if lock.revoked => "revoked",
                Some(_) => "held",
                None => "kept",
            },
            holder: is_held.then(|| Who::new(lock.holder, &lock.label, lock.library)),
            token: lock.token.to_string(),
            held_for_ms: lock.holder.and_then(|_| held_for(lock.held_for, lock.library)),
            remaining_ms: left(lock.remaining),
            permits: lock.permits.get(),
            others: lock.others.iter().map(Another::of).collect(),
            waiting: lock.waiting,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Name {
    name: Option<String>,
}

#[derive(Serialize)]
pub(super) struct One {
    at: String,
    #[serde(flatten)]
    freshness: Freshness,
    /// None if it is free.
    lock: Option<Lock>,
    queue: Vec<Waits>,
    contention: Option<LockContention>,
    revocations: Vec<Revocation>,
}

pub(super) async fn lock(State(served): State<Arc<Served>>, Asked(query): Asked<Name>) -> Result<Json<One>, Problem> {
    let name = asked::name("name", query.name.as_deref())?;
    let seen = served.snapshot.listing().await?;
    let lock = seen.value.of(name.as_str());
    let queue = match lock.filter(|lock| lock.waiting > 0) {
        // What is known is shown, also where this can't be asked now.
        Some(_) => served.snapshot.queue(&name).await.ok().map(|Seen { value, .. }| value),
        None => None,
    };
    Ok(Json(One {
        at: instant(seen.value.at),
        freshness: Freshness::of(&seen),
        lock: lock.map(Lock::of),
        queue: queue.iter().flat_map(|queue| queue.iter()).map(Waits::of).collect(),
        contention: contention::of_lock(&served, &name).await,
        revocations: revocations::of_lock(&served, &name).await,
    }))
}
