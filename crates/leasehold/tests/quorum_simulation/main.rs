//! The real code of a quorum in made-up worlds: members in memory that are restarted empty, clients that stop, clocks that
//! drift, a network that loses, delays, doubles and reorders. The same seed is the same world.
//!
//! `LEASEHOLD_SEEDS=20000` plays more of them, `LEASEHOLD_SEED=7` one alone; `scripts/simulate-quorum` does so with
//! optimised code. Each rule without which it would not be safe is left out once, and missed.

mod play;
mod scenes;

use std::ops::Range;
use std::time::Duration;

use leasehold::simulation::{Rule, break_rule};
use leasehold_testkit::simulation::{Tally, Violation, Weather};

use self::play::{Play, SECOND, TTL};

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

/// These worlds are of kinds that the faults below are found in: without a fault nothing is.
#[test]
fn nothing_is_found_where_much_is_lost() {
    play_all(seeds(10), lossy());
}

#[test]
fn nothing_is_found_where_members_come_back_empty_all_the_time() {
    play_all(seeds(10), often_emptied());
}

#[test]
fn nothing_is_found_where_all_are_cut_from_one_another() {
    play_all(seeds(10), cut_off());
}

// Nothing may be found where several faults of the world meet.
macro_rules! nothing_found {
    ($part:literal: $($name:ident: $play:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let seeds = seeds($part);
                let count = seeds.clone().count();
                let tally = play_all(seeds, $play);
                assert!(tally.granted > count, "{tally:?}");
            }
        )*
    };
}

nothing_found! { 10:
    locks_among_members_that_come_back_empty_where_much_is_lost: lossy_and_emptied();
    locks_among_five_that_come_back_empty_where_much_is_lost: Play { nodes: 5, ..lossy_and_emptied() };
    ticks_among_members_that_come_back_empty_where_much_is_lost: Play { ticks: true, ..lossy_and_emptied() };
    locks_among_members_with_old_copies: Play { copies: true, ..emptied() };
    ticks_among_members_with_old_copies: often_old();
    ticks_among_five_with_old_copies: Play { nodes: 5, restarts: 4, copies: true, ..ticking() };
    keys_where_much_is_lost: Play { keys: true, ..lossy() };
    keys_where_one_comes_back_with_an_old_copy: Play { keys: true, emptied: 1, copies: true, ..emptied() };
    ticks_of_two_names_among_members_that_come_back_empty: Play { names: 2, ..ticking_and_emptied() };
    locks_are_revoked: Play { revoked: 4, ..Play::foul() };
    locks_are_revoked_where_all_are_cut_from_one_another: Play { revoked: 3, ..cut_off() };
    ticks_in_silence: Play { ticks: true, weather: silent(), ..lossy() };
    locks_of_clients_that_die: Play { deaths: 1, clients: 5, ..Play::foul() };
    ticks_of_clients_that_die: Play { deaths: 1, clients: 5, ..ticking() };
    keys_of_clients_that_die_where_one_member_comes_back_empty: Play { deaths: 1, clients: 5, keys: true, emptied: 1, ..emptied() };
}

// These take ten times as long.
nothing_found! { 100:
    locks_in_a_rolling_restart: rolling();
    ticks_in_a_rolling_restart: Play { ticks: true, ..rolling() };
    ticks_in_a_rolling_restart_of_five_where_much_is_lost: Play { ticks: true, nodes: 5, weather: lossy().weather, ..rolling() };
    keys_in_a_rolling_restart: Play { keys: true, ..rolling() };
    keys_in_a_rolling_restart_with_old_copies: Play { keys: true, copies: true, ..rolling() };
    keys_in_a_rolling_restart_among_clients_that_die: Play { keys: true, clients: 6, deaths: 1, foul_for: SECOND * 90, strikes_within: SECOND * 4, ..rolling() };
}

/// One after another, each after the sweep of the one before.
fn rolling() -> Play {
    Play { rolling: true, restarts: 5, foul_for: SECOND * 30, ..Play::foul() }
}

/// One after another, in fair weather, so that most of them are filled before the next.
fn often_old() -> Play {
    let foul_for = SECOND * 6;
    Play { restarts: 9, copies: true, strikes_within: TTL * 2, foul_for, weather: Weather::FAIR, ..ticking() }
}

fn lossy_and_emptied() -> Play {
    Play { restarts: 3, ..lossy() }
}

/// Who sends into it is told nothing.
fn silent() -> Weather {
    Weather { silence: Duration::from_secs(600), ..lossy().weather }
}

/// Within so many worlds a fault of this kind is found.
fn found_within(seeds: u64, play: Play, rule: Option<Rule>, kind: &str) {
    break_rule(rule);
    let mut faults = (0..seeds).filter_map(|seed| play.run(seed).err()).map(|fault| first_line(&fault));
    let found = faults.find(|fault| fault.contains(kind));
    break_rule(None);
    println!("{}", found.unwrap_or_else(|| panic!("{rule:?}: {kind:?} was not found in {seeds} worlds")));
}

fn first_line(fault: &Violation) -> String {
    fault.to_string().lines().next().unwrap_or_default().to_owned()
}

macro_rules! found {
    ($($name:ident: $rule:expr, $play:expr, $kind:expr;)*) => {
        $(
            #[test]
            fn $name() {
                found_within(4000, $play, $rule, $kind);
            }
        )*
    };
}

const TWO: &str = "two holders";
const NO_GROWTH: &str = "did not grow";
const BEGUN_AGAIN: &str = "was begun";

found! {
    r02_without_the_second_phase_tokens_do_not_grow: Some(Rule::ASecondPhase), Play::foul(), NO_GROWTH;
    r03_a_second_phase_on_one_is_not_enough: Some(Rule::SecondPhasesNeedAMajority), lossy(), NO_GROWTH;
    r05_r10_without_a_guard_two_hold_it: None, Play { guard: Duration::ZERO, ..often_emptied() }, TWO;
    r06_a_lost_counter_is_missed: Some(Rule::TheEmptyAreNotFull), often_emptied(), NO_GROWTH;
    q01_rounds_need_identities_of_their_own: Some(Rule::RoundsHaveIdentities), ticking(), TWO;
    q06_nor_are_others_that_came_back_empty: Some(Rule::AdoptedFromTheFull), often_emptied(), NO_GROWTH;
    q07_marks_must_be_adopted: Some(Rule::TheEmptyAreNotFull), Play { keys: true, ..rolling() }, BEGUN_AGAIN;
    q09_marks_must_be_compared: Some(Rule::MarksAreCompared), ticking(), BEGUN_AGAIN;
    who_was_swept_has_adopted: Some(Rule::TheSweptHaveAdopted), Play { keys: true, ..rolling() }, BEGUN_AGAIN;
    a_majority_of_the_answers_is_none: Some(Rule::MajoritiesOfAllMembers), Play::foul(), TWO;
    one_renewal_is_none: Some(Rule::RenewalsNeedAMajority), cut_off(), TWO;
}

#[test]
fn a_world_is_the_same_each_time() {
    let foul = ticking_and_emptied();
    let play = Play { telling: true, foul_for: foul.foul_for * 8, ..foul };
    let [one, two] = [(); 2].map(|()| play.run(3).unwrap_err().to_string());
    assert_eq!(one, two);
    assert!(one.lines().count() > 20, "{one}");
}
