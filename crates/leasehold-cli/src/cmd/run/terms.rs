//! For how long a lock outlives us, and how long the job may take to end.

use std::time::Duration;

use crate::args::RunArgs;
use crate::config::Place;

/// The longest that a job may take to end, if nothing is said of it.
const USUAL_GRACE: Duration = Duration::from_secs(10);

/// The spans that all else is reckoned by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// `--ttl`, or what the store has for usual.
    pub ttl: Duration,
    /// How long after TERM the KILL comes.
    pub kill_after: Duration,
    /// For how long a store that can't say is asked again by a run that waits for nobody; nothing where it is the usual.
    pub patience: Option<Duration>,
}

impl Terms {
    /// What was asked for, and what the store has for usual where nothing was.
    pub fn of(args: &RunArgs, place: &Place) -> Self {
        let ttl = args.ttl.unwrap_or_else(|| place.usual_ttl());
        let usual = (ttl / 3).min(USUAL_GRACE).min(place.longest_stop_grace());
        let patience = place.moves_within().filter(|_| !args.waits());
        Self { ttl, kill_after: args.kill_after.unwrap_or(usual), patience }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use leasehold::stores::fallback::Settings;

    use super::*;
    use crate::args::{Cli, Verb};

    fn terms(options: &[&str], place: &Place) -> (u64, u64) {
        let terms = all_terms(options, place);
        (terms.ttl.as_secs(), terms.kill_after.as_secs())
    }

    fn all_terms(options: &[&str], place: &Place) -> Terms {
        let words = ["leasehold", "run", "a"].iter().chain(options).chain(&["--", "true"]);
        let Verb::Run(args) = Cli::try_parse_from(words).unwrap().verb else { panic!("no run") };
        Terms::of(&args, place)
    }

    #[test]
    fn the_grace_follows_the_ttl_and_both_the_store() {
        let one = Place::Url("sqlite:".into());
        let settings = Settings::default();
        let fallback = Place::Fallback { primary: "redis://a".into(), arbiter: "postgres://b/c".into(), settings };
        assert_eq!(terms(&[], &one), (30, 10));
        assert_eq!(terms(&["--ttl", "3s"], &one), (3, 1));
        assert_eq!(terms(&["--ttl", "1h"], &one), (3600, 10));
        assert_eq!(terms(&["--ttl", "4s", "--kill-after", "2s"], &one), (4, 2));
        assert_eq!(terms(&[], &fallback), (60, 3));
        let guarded = "redis://a?restart_guard=on&max_ttl=9";
        assert_eq!(terms(&[], &Place::Url(guarded.into())), (9, 3));
        assert_eq!(terms(&["--ttl", "12s"], &Place::Url(guarded.into())), (12, 4), "which is refused, by name");
        let quorum = Place::Quorum([guarded, "redis://b?max_ttl=6", "redis://c"].map(String::from).to_vec());
        assert_eq!(terms(&[], &quorum), (6, 2));
        let settings = Settings::default().max_ttl(Duration::from_secs(20));
        let short = Place::Fallback { primary: "redis://a".into(), arbiter: "postgres://b/c".into(), settings };
        assert_eq!(terms(&[], &short), (20, 3));
        assert_eq!(all_terms(&[], &fallback).patience, Some(Duration::from_secs(23)));
        assert_eq!(all_terms(&["--wait=1h"], &fallback).patience, None);
        assert_eq!(all_terms(&[], &one).patience, None);
    }
}
