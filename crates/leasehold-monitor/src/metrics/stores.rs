//! What is counted of stores that are made of others: how members vote, where a route leads.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use leasehold::member::Vote;
use leasehold::store::{Ballot, Epoch, Target};
use metrics::{Counter, Gauge};

use super::catalogue::{ROUTE_EPOCH, ROUTE_SWITCHES, ROUTE_TARGET, VOTES};
use super::series;

/// So many members are told apart; a quorum has seldom more than seven.
const MOST_MEMBERS: usize = 50;

/// How members vote. A series begins when its member first votes: not every store is a quorum.
#[derive(Default)]
pub(super) struct Votes {
    members: RwLock<HashMap<Box<str>, Arc<Ballots>>>,
}

/// Of one member, by what it voted on and how.
struct Ballots([[Counter; 4]; 2]);

impl Votes {
    pub fn count(&self, member: &str, about: Vote, ballot: Ballot, times: usize) {
        let Some(ballots) = self.of(member) else { return };
        let about = match about {
            Vote::Claim => 0,
            Vote::Renewal => 1,
        };
        ballots.0[about][nth(ballot)].increment(times as u64);
    }

    fn of(&self, member: &str) -> Option<Arc<Ballots>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = members.get(member) {
            return Some(Arc::clone(known));
        }
        drop(members);
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        if members.len() >= MOST_MEMBERS && !members.contains_key(member) {
            return None;
        }
        Some(Arc::clone(members.entry(member.into()).or_insert_with(|| Arc::new(Ballots::of(member)))))
    }
}

impl Ballots {
    fn of(member: &str) -> Self {
        let count = |about: &'static str, vote: &'static str| {
            series::count(
                &VOTES,
                &[("about", about.into()), ("member", member.to_owned().into()), ("vote", vote.into())],
            )
        };
        Self(["claim", "renewal"].map(|about| BALLOTS.map(|vote| count(about, vote))))
    }
}

const BALLOTS: [&str; 4] = ["granted", "refused", "failed", "late"];

fn nth(ballot: Ballot) -> usize {
    match ballot {
        Ballot::Granted => 0,
        Ballot::Refused => 1,
        Ballot::Failed => 2,
        Ballot::Late => 3,
    }
}

/// Where the route of a fallback leads.
pub(super) struct RouteSeries {
    primary: Gauge,
    arbiter: Gauge,
    epoch: Gauge,
    to_primary: Counter,
    to_arbiter: Counter,
}

impl RouteSeries {
    pub fn new() -> Self {
        let leads_to = |target: &'static str| series::level(&ROUTE_TARGET, &[("target", target.into())]);
        let moves_to = |target: &'static str| series::count(&ROUTE_SWITCHES, &[("target", target.into())]);
        Self {
            primary: leads_to("primary"),
            arbiter: leads_to("arbiter"),
            epoch: series::level(&ROUTE_EPOCH, &[]),
            to_primary: moves_to("primary"),
            to_arbiter: moves_to("arbiter"),
        }
    }

    pub fn leads_to(&self, target: &Target, epoch: Epoch) {
        let is_arbiter = *target == Target::Arbiter;
        self.primary.set(f64::from(u8::from(!is_arbiter)));
        self.arbiter.set(f64::from(u8::from(is_arbiter)));
        self.epoch.set(epoch.number() as f64);
    }

    pub fn moves_to(&self, target: &Target, epoch: Epoch) {
        self.leads_to(target, epoch);
        if *target == Target::Arbiter { &self.to_arbiter } else { &self.to_primary }.increment(1);
    }
}
