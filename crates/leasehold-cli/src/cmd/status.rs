//! `leasehold status`: who holds a lock, and who waits for it.

use std::sync::Arc;

use leasehold::layers::Timeout;
use leasehold::store::Reading;
use leasehold::{Holder, Holding, LockName, Store, Waiter};
use serde::Serialize;

use super::block_on;
use super::route::{self, Route};
use crate::args::StatusArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::{self, duration, known, milliseconds, plain};

/// How many waiters people are shown.
const SHOWN: usize = 20;

/// Runs the verb.
///
/// # Errors
/// What the store says.
pub fn run(args: &StatusArgs, config: &Config) -> Result<i32, Failure> {
    let Seen { found, queue, route } = block_on(look(args, config))?;
    if args.json {
        let (route, waiting) = (route.as_ref().map(Route::from), queue.len() as u64);
        let queue = Some(queue.iter().map(Waiting::from).collect());
        output::json(&Status { route, waiting, queue, ..Status::new(&args.name, found.as_ref(), config) })?;
    } else {
        let route = route.map_or_else(String::new, |route| format!("\n{}", route::line(&route)));
        let described = describe(&args.name, found.as_ref(), &queue);
        output::answer(&format!("{described}{route}\nstore    {}", config.shown()))?;
    }
    Ok(exit::OK)
}

/// What was found out.
struct Seen {
    found: Option<Holding>,
    queue: Vec<Waiter>,
    /// Of a fallback.
    route: Option<Reading>,
}

async fn look(args: &StatusArgs, config: &Config) -> Result<Seen, Failure> {
    let (store, route): (Arc<dyn Store>, _) = match config.open_fallback()? {
        None => (config.open_to_look()?, None),
        Some(fallback) => {
            let route = fallback.route().await?;
            (Arc::new(Timeout::over(fallback)), route)
        }
    };
    let found = store.inspect(&args.name).await?;
    Ok(Seen { found, queue: store.queue(&args.name).await?, route })
}

/// What there is to know about one lock. The shape is a promise to scripts: fields may be added, none goes.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The lock.
    pub name: String,
    /// How it stands.
    pub state: State,
    /// The acquisition that holds it.
    pub holder: Option<String>,
    /// The holder, for people.
    pub label: Option<String>,
    /// Whose worker holds it, if it is another library's and that can be told.
    pub library: Option<&'static str>,
    /// Of the last grant, where the store still knows it. Text: 63 bits are more than a JSON number carries safely.
    pub token: Option<String>,
    /// Since the grant; none where another library's worker holds it, who alone knows.
    pub held_for_ms: Option<u64>,
    /// Until the lock ends if it is not renewed; until the minimum hold is over.
    pub ttl_left_ms: Option<u64>,
    /// An operator has revoked it.
    pub revoked: bool,
    /// How many wait for it.
    pub waiting: u64,
    /// How many may hold it at a time; 1 if nobody does.
    pub permits: u32,
    /// Who else holds it, where several may.
    pub others: Vec<Other>,
    /// Who waits for it, the first in line first; of one lock only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Vec<Waiting>>,
    /// The store, without secrets.
    pub store: String,
    /// Of a fallback, which of its stores is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
}

/// One more holder; the fields are those of [`Status`].
#[derive(Debug, Serialize)]
pub struct Other {
    holder: Option<String>,
    label: String,
    library: Option<&'static str>,
    token: String,
    held_for_ms: Option<u64>,
    ttl_left_ms: u64,
    revoked: bool,
}

impl From<&Holder> for Other {
    fn from(other: &Holder) -> Self {
        Other {
            holder: other.holder.map(|holder| holder.to_string()),
            label: other.label.clone(),
            library: other.library,
            token: other.token.to_string(),
            held_for_ms: known(other.held_for, other.library, other.token).map(milliseconds),
            ttl_left_ms: milliseconds(other.remaining),
            revoked: other.revoked,
        }
    }
}

/// One who waits.
#[derive(Debug, Serialize)]
pub struct Waiting {
    /// None of another library's.
    holder: Option<String>,
    /// Empty where the store does not keep it.
    label: String,
    waited_ms: Option<u64>,
}

impl From<&Waiter> for Waiting {
    fn from(waiter: &Waiter) -> Self {
        Waiting {
            holder: waiter.holder.map(|holder| holder.to_string()),
            label: waiter.label.clone(),
            waited_ms: waiter.waited.map(milliseconds),
        }
    }
}

/// How a lock stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Whoever asks gets it.
    Free,
    /// Somebody holds it.
    Held,
    /// Nobody holds it and not everybody gets it: a minimum hold runs out, or a waiter is next.
    Kept,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Free => "free",
            State::Held => "held",
            State::Kept => "kept",
        }
    }

    /// How the lock stands of which the store says this.
    pub fn of(found: Option<&Holding>) -> State {
        match found {
            None => State::Free,
            Some(holding) if holding.holder.is_some() => State::Held,
            Some(_) => State::Kept,
        }
    }
}

impl Status {
    /// What the store says about `name`.
    pub fn new(name: &LockName, found: Option<&Holding>, config: &Config) -> Status {
        let holder = found.and_then(|holding| holding.holder);
        Status {
            name: name.to_string(),
            state: State::of(found),
            holder: holder.map(|holder| holder.to_string()),
            label: found.filter(|_| holder.is_some()).map(|holding| holding.label.clone()),
            library: found.filter(|_| holder.is_some()).and_then(|holding| holding.library),
            token: found.map(|holding| holding.token.to_string()),
            held_for_ms: found
                .filter(|_| holder.is_some())
                .and_then(|holding| known(holding.held_for, holding.library, holding.token))
                .map(milliseconds),
            ttl_left_ms: found.map(|holding| milliseconds(holding.remaining)),
            revoked: found.is_some_and(|holding| holding.revoked),
            waiting: found.map_or(0, |holding| holding.waiting),
            permits: found.map_or(1, |holding| holding.permits.get()),
            others: found.map_or_else(Vec::new, |holding| holding.others.iter().map(Other::from).collect()),
            queue: None,
            store: config.shown(),
            route: None,
        }
    }
}

fn describe(name: &LockName, found: Option<&Holding>, queue: &[Waiter]) -> String {
    let mut lines = found.map_or_else(|| vec![format!("{name} is free")], |holding| held(name, holding));
    if found.is_some() || !queue.is_empty() {
        lines.push(format!("waiting  {}", queue.len()));
    }
    lines.extend(queue.iter().take(SHOWN).enumerate().map(|(nth, waiter)| in_line(nth, waiter)));
    if queue.len() > SHOWN {
        lines.push(format!("         and {} more; --json has them all", queue.len() - SHOWN));
    }
    lines.join("\n")
}

/// A line for one who waits.
fn in_line(nth: usize, waiter: &Waiter) -> String {
    let word = if nth == 0 { "next" } else { "then" };
    let who = match (waiter.holder, plain(&waiter.label)) {
        (Some(holder), label) if label.is_empty() => holder.to_string(),
        (Some(holder), label) => format!("{label} ({holder})"),
        (None, label) => label,
    };
    let since = waiter.waited.map_or_else(String::new, |waited| format!(" for {}", duration(waited)));
    format!("{word}     {who}{since}")
}

fn held(name: &LockName, holding: &Holding) -> Vec<String> {
    let mut lines = vec![format!("{name} is {}", stands(holding))];
    if let Some(holder) = holding.holder {
        lines.push(format!("holder   {} ({holder})", plain(&holding.label)));
        let since = known(holding.held_for, holding.library, holding.token);
        lines
            .push(since.map_or_else(|| "since    unknown".into(), |since| format!("since    {} ago", duration(since))));
        lines.push(format!("ttl left {}", duration(holding.remaining)));
    }
    lines.push(format!("token    {}", holding.token));
    lines.extend(holding.others.iter().map(also));
    if holding.permits.get() > 1 {
        lines.push(format!("permits  {} of {} taken", holding.others.len() + 1, holding.permits));
    }
    lines
}

fn also(other: &Holder) -> String {
    let Some(holder) = other.holder else { return format!("also     kept for {} more", duration(other.remaining)) };
    let since = known(other.held_for, other.library, other.token)
        .map_or_else(String::new, |since| format!(" for {}", duration(since)));
    format!(
        "also     {} ({holder}){since}, ttl left {}, token {}{}",
        plain(&other.label),
        duration(other.remaining),
        other.token,
        if other.revoked { ", revoked" } else { "" }
    )
}

/// `held`, or what else keeps it from being free.
fn stands(holding: &Holding) -> String {
    match (holding.holder, holding.remaining.is_zero()) {
        (Some(_), _) if holding.revoked => "held and revoked: it ends with its release or its TTL".into(),
        (Some(_), _) => "held".into(),
        (None, true) => "about to go to whoever waits first".into(),
        (None, false) => format!("released, and kept for another {} (minimum hold)", duration(holding.remaining)),
    }
}
