//! The real code of a quorum in made-up worlds: members in memory that are restarted empty, clients that stop, clocks that
//! drift, a network that loses, delays, doubles and reorders. The same seed is the same world.
//!
//! `LEASEHOLD_SEEDS=20000` plays more of them, `LEASEHOLD_SEED=7` one alone; `scripts/simulate-quorum` does so with
//! optimised code. Each rule without which it would not be safe is left out once, and missed.

mod play;
mod scenes;

use std::ops::Range;
use std::time::Duration;

use leasehold::simulation::{Flaw, put_in};
use leasehold_testkit::simulation::{Tally, Violation, Weather};

use self::play::{Play, TTL};

/// So many worlds in all are played by the test command.
const SEEDS: u64 = 2_000;

/// Seeds that were asked for, or this part of the usual number: every kind of world has its own.
fn seeds(part: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    match number("LEASEHOLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LEASEHOLD_SEEDS").unwrap_or(SEEDS) / part,
    }
}

/// Plays them all; nothing may be found, and something must have happened.
fn play_all(seeds: Range<u64>, play: Play) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds.clone() {
        match play.run(seed) {
            Ok(played) => tally += played,
            Err(violation) => panic!("{violation}"),
        }
    }
    println!("{seeds:?}: {tally:?}");
    tally
}

#[test]
fn locks_in_foul_weather() {
    let seeds = seeds(4);
    let count = seeds.clone().count();
    assert!(play_all(seeds, Play::foul()).granted > 2 * count, "hardly anything was granted");
}

#[test]
fn locks_among_five() {
    let seeds = seeds(8);
    let count = seeds.clone().count();
    assert!(play_all(seeds, Play { nodes: 5, ..Play::foul() }).granted > 2 * count);
}

#[test]
fn locks_among_members_that_come_back_empty() {
    let seeds = seeds(4);
    let count = seeds.clone().count();
    assert!(play_all(seeds, emptied()).granted > 2 * count);
}

#[test]
fn ticks_in_foul_weather() {
    let seeds = seeds(4);
    let count = seeds.clone().count();
    let tally = play_all(seeds, ticking());
    assert!(tally.begun > count && tally.done > count / 2, "{tally:?}");
}

#[test]
fn ticks_among_members_that_come_back_empty() {
    let seeds = seeds(8);
    let count = seeds.clone().count();
    assert!(play_all(seeds, ticking_and_emptied()).begun > count / 4);
}

/// Members come back empty now and then.
fn emptied() -> Play {
    Play { restarts: 2, ..Play::foul() }
}

fn ticking() -> Play {
    Play { ticks: true, ..Play::foul() }
}

fn ticking_and_emptied() -> Play {
    Play { restarts: 2, ..ticking() }
}

/// They do little else, in fair weather.
fn often_emptied() -> Play {
    Play { restarts: 9, weather: Weather::FAIR, ..Play::foul() }
}

/// They are cut from one another all the time, and little else happens.
fn cut_off() -> Play {
    Play { weather: Weather::FAIR, strikes_within: TTL / 4, foul_for: TTL * 4, ..Play::foul() }
}

/// Much is lost, so that few hear of anything.
fn lossy() -> Play {
    let foul = Play::foul();
    Play { weather: Weather { lost_requests: 0.25, lost_replies: 0.1, ..foul.weather }, ..foul }
}

/// The first fault that is found in so many worlds.
fn found_within(seeds: u64, play: Play, flaw: Option<Flaw>) -> Violation {
    put_in(flaw);
    let found = (0..seeds).find_map(|seed| play.run(seed).err());
    put_in(None);
    let found = found.unwrap_or_else(|| panic!("{flaw:?} was not found in {seeds} worlds"));
    println!("{}", found.to_string().lines().next().unwrap_or_default());
    found
}

macro_rules! found {
    ($($name:ident: $flaw:expr, $play:expr, $seeds:expr;)*) => {
        $(
            #[test]
            fn $name() {
                found_within($seeds, $play, $flaw);
            }
        )*
    };
}

found! {
    r02_without_the_second_phase_tokens_do_not_grow: Some(Flaw::NoSecondPhase), Play::foul(), 400;
    r03_a_second_phase_on_one_is_not_enough: Some(Flaw::SecondPhaseOnOne), lossy(), 400;
    r05_r10_without_a_guard_two_hold_it: None, Play { guard: Duration::ZERO, ..often_emptied() }, 400;
    r06_a_lost_counter_is_missed: Some(Flaw::EmptyIsFull), often_emptied(), 400;
    q01_rounds_need_identities_of_their_own: Some(Flaw::RoundsShareAnIdentity), ticking(), 400;
    q06_nor_are_others_that_came_back_empty: Some(Flaw::AdoptedFromTheEmpty), often_emptied(), 400;
    q07_marks_must_be_adopted: Some(Flaw::EmptyIsFull), ticking_and_emptied(), 400;
    q09_marks_must_be_compared: Some(Flaw::MarksAreNotCompared), ticking(), 400;
    a_majority_of_the_answers_is_none: Some(Flaw::MajorityOfTheAnswers), Play::foul(), 400;
    one_renewal_is_none: Some(Flaw::RenewedByOne), cut_off(), 400;
}

#[test]
fn a_world_is_the_same_each_time() {
    let foul = ticking_and_emptied();
    let play = Play { telling: true, foul_for: foul.foul_for * 8, ..foul };
    let [one, two] = [(); 2].map(|()| play.run(3).unwrap_err().to_string());
    assert_eq!(one, two);
    assert!(one.lines().count() > 20, "{one}");
}
