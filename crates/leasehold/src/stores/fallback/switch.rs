//! When to go to another store. What makes a switch safe is not in here: at worst one comes too soon or too late.

use std::time::Duration;

use super::route::RouteLease;
use super::settings::Settings;
use crate::error::Result;
use crate::store::{Incarnation, Serving, Switch, Target};
use crate::validity::Moment;

/// How long a primary has to have served another data set before the route follows it there.
const SURELY_REPLACED: Duration = Duration::from_secs(3);

/// What this client has seen of the primary.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Since when it can't be reached, and why.
    failing: Option<(Moment, String)>,
    serving: Option<(Incarnation, Moment)>,
    /// For how long clients have reached it while it is not in use, by what they have left there.
    reached_for: Duration,
}

impl Health {
    /// The primary was asked at `sent`. Only that it can't be reached makes it down: whoever refuses us is there.
    pub fn note(&mut self, answer: &Result<Serving>, sent: Moment) {
        match answer {
            Ok(serving) => {
                self.failing = None;
                let is_same = self.serving.as_ref().is_some_and(|(known, _)| *known == serving.incarnation);
                if !is_same {
                    self.reached_for = Duration::ZERO;
                    self.serving = Some((serving.incarnation.clone(), sent));
                }
            }
            Err(error) => {
                (self.serving, self.reached_for) = (None, Duration::ZERO);
                let since = self.failing.take().map_or(sent, |(since, _)| since);
                self.failing = error.is_transient().then(|| (since, error.to_string()));
            }
        }
    }

    /// Clients have reached it for so long, as they have written down at the primary itself.
    pub fn note_reached(&mut self, span: Duration) {
        self.reached_for = span;
    }

    /// Whether it serves what the route leads to.
    pub fn is_what_the_route_says(&self, route: &RouteLease) -> bool {
        let serving = self.serving.as_ref().map(|(serving, _)| serving);
        matches!(&route.route.target, Target::Primary(expected) if Some(expected) == serving)
    }

    pub fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// Why it can't be reached, if it can't.
    pub fn why(&self) -> Option<&str> {
        self.failing.as_ref().map(|(_, why)| &**why)
    }

    /// Whether it is known how it is.
    pub fn is_known(&self) -> bool {
        self.failing.is_some() || self.serving.is_some()
    }

    fn has_failed_for(&self, now: Moment) -> Duration {
        self.failing.as_ref().map_or(Duration::ZERO, |(since, _)| now.since(*since))
    }

    /// Since when it has served this data set without a break, if it does not serve `known`.
    fn serves_another_than(&self, known: Option<&Incarnation>) -> Option<(&Incarnation, Moment)> {
        self.serving.as_ref().filter(|(serving, _)| Some(serving) != known).map(|(serving, since)| (serving, *since))
    }
}

/// The switch that is called for now, if one is.
pub(super) fn called_for(route: &RouteLease, health: &Health, settings: &Settings, now: Moment) -> Option<Switch> {
    if !route.is_in_force(now) || now >= route.until {
        return None;
    }
    match &route.route.target {
        Target::Primary(incarnation) => {
            let replaced = health.serves_another_than(Some(incarnation));
            let follows = replaced.filter(|(_, since)| now.since(*since) >= SURELY_REPLACED);
            match follows {
                Some((serving, _)) if route.in_force_for(now) >= route.patience() => {
                    Some(to_primary(route, serving, route.patience(), more_patience(route, settings, now)))
                }
                _ => is_down(health, replaced.map(|(_, since)| since), settings, now)
                    .then(|| to(route, Target::Arbiter, Duration::ZERO, more_patience(route, settings, now))),
            }
        }
        Target::Arbiter => {
            let (serving, since) = health.serves_another_than(None)?;
            let quiet = settings.up_after.max(route.patience());
            // A client may be gone before that is over: what it has seen counts for the next.
            let is_up = now.since(since).max(health.reached_for) >= settings.up_after
                && route.complained(now).is_none_or(|ago| ago >= settings.up_after)
                && route.in_force_for(now) >= quiet;
            is_up.then(|| to_primary(route, serving, quiet, route.patience()))
        }
    }
}

/// It can't be reached, or it serves another data set and the route may not follow it there yet.
fn is_down(health: &Health, replaced: Option<Moment>, settings: &Settings, now: Moment) -> bool {
    let replaced_for = replaced.map_or(Duration::ZERO, |since| now.since(since));
    health.has_failed_for(now).max(replaced_for) >= settings.down_after
}

/// The longer the more often: a primary that comes and goes is not gone back to at once. With the defaults a minute, twice
/// as long each time that it has not lasted ten, a quarter of an hour at the most.
fn more_patience(route: &RouteLease, settings: &Settings, now: Moment) -> Duration {
    let first = settings.up_after;
    if route.in_force_for(now) >= first.saturating_mul(10) {
        return first;
    }
    route.patience().saturating_mul(2).clamp(first, first.saturating_mul(15))
}

fn to_primary(route: &RouteLease, serving: &Incarnation, dwell: Duration, patience: Duration) -> Switch {
    to(route, Target::Primary(serving.clone()), dwell, patience)
}

fn to(route: &RouteLease, to: Target, dwell: Duration, patience: Duration) -> Switch {
    Switch { from: route.route.epoch, to, dwell, patience }
}
