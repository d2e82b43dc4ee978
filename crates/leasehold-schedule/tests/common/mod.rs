//! What the tests share: ticks found the slow way, random numbers that are the same in each run, and short words.

#![allow(dead_code, reason = "each test binary uses its part")]

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{self, TimeZone};
use jiff::{SignedDuration, Timestamp};
use leasehold_schedule::Schedule;

pub const MINUTE: SignedDuration = SignedDuration::from_secs(60);
pub const HOUR: SignedDuration = SignedDuration::from_hours(1);
pub const DAY: SignedDuration = SignedDuration::from_hours(24);

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub fn schedule(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, Some(zone)).unwrap_or_else(|error| panic!("{error}"))
}

/// The ticks after `from` up to and with `until`.
pub fn ticks(schedule: &Schedule, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    schedule.ticks_after(from).take_while(|&tick| tick <= until).collect()
}

pub fn texts(ticks: &[Timestamp]) -> Vec<String> {
    ticks.iter().map(ToString::to_string).collect()
}

/// Every zone there is.
pub fn zones() -> Vec<TimeZone> {
    let zones = tz::db().available().filter_map(|name| tz::db().get(name.as_str()).ok());
    zones.filter(|zone| zone.iana_name().is_some_and(is_named_alike_everywhere)).collect()
}

fn is_named_alike_everywhere(name: &str) -> bool {
    !["right/", "posix/", "localtime", "posixrules", "Etc/Unknown", "leapseconds"]
        .iter()
        .any(|odd| name.starts_with(odd))
}

/// `SplitMix64`.
pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    pub fn between(&mut self, lowest: u64, highest: u64) -> u64 {
        lowest + self.below(highest - lowest + 1)
    }

    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let place = self.below(choices.len() as u64);
        &choices[usize::try_from(place).unwrap()]
    }

    /// An instant in the years 2005 up to 2037, to the nanosecond.
    pub fn instant(&mut self) -> Timestamp {
        let (from, until) = (at("2005-01-01T00:00:00Z").as_second(), at("2038-01-01T00:00:00Z").as_second());
        let second = from + self.below((until - from).unsigned_abs()).cast_signed();
        Timestamp::new(second, i32::try_from(self.below(1_000_000_000)).unwrap()).unwrap()
    }

    /// The same to the minute.
    pub fn minute(&mut self) -> Timestamp {
        instant(self.instant().as_second() / 60)
    }
}

/// A span of time minute by minute. Nothing but the offset at each minute is asked for.
pub struct Minutes {
    /// The first minute since the epoch; those up to `MEMORY` come before the span.
    began: i64,
    offsets: Vec<i64>,
    locals: Vec<DateTime>,
}

/// For how many minutes a civil time may come again: since 2005 no clocks were put back by more than three hours.
const MEMORY: usize = 6 * 60;

impl Minutes {
    /// After `from` up to and with `until`, both whole minutes.
    pub fn between(zone: &TimeZone, from: Timestamp, until: Timestamp) -> Self {
        let began = from.as_second() / 60 - i64::try_from(MEMORY).unwrap();
        let minutes = began..=until.as_second() / 60;
        let offsets: Vec<i64> = minutes.clone().map(|minute| offset(zone, minute)).collect();
        let locals = minutes.zip(&offsets).map(|(minute, offset)| civil(minute + offset)).collect();
        Self { began, offsets, locals }
    }

    fn instant(&self, place: usize) -> Timestamp {
        instant(self.began + i64::try_from(place).unwrap())
    }

    /// The civil time of a minute had come before.
    fn is_repeated(&self, place: usize) -> bool {
        self.locals[place - MEMORY..place].contains(&self.locals[place])
    }
}

/// In minutes.
fn offset(zone: &TimeZone, minute: i64) -> i64 {
    let seconds = zone.to_offset(instant(minute)).seconds();
    assert_eq!(seconds % 60, 0, "{zone:?}");
    i64::from(seconds / 60)
}

/// An expression of five fields as numbers, lists, ranges and steps, read anew: nothing of the engine's is used.
pub struct Slow {
    fields: Vec<Vec<bool>>,
    starred: Vec<bool>,
}

impl Slow {
    pub fn new(expression: &str) -> Self {
        let words: Vec<&str> = expression.split(' ').collect();
        assert_eq!(words.len(), 5, "{expression}");
        let bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
        Self {
            fields: words.iter().zip(bounds).map(|(word, bounds)| numbers(word, bounds)).collect(),
            starred: words.iter().map(|word| word.starts_with('*')).collect(),
        }
    }

    fn is_fixed(&self) -> bool {
        !self.starred[0] && !self.starred[1] && !self.fields[1][..24].iter().all(|&hour| hour)
    }

    fn matches(&self, local: DateTime) -> bool {
        let is = |field: usize, number: i8| self.fields[field][usize::try_from(number).unwrap()];
        if !is(0, local.minute()) || !is(1, local.hour()) || !is(3, local.month()) {
            return false;
        }
        let (month_day, week_day) = (is(2, local.day()), is(4, local.weekday().to_sunday_zero_offset()));
        if self.starred[2] || self.starred[4] { month_day && week_day } else { month_day || week_day }
    }

    /// The ticks within a span: each minute is looked at.
    pub fn ticks(&self, minutes: &Minutes) -> Vec<Timestamp> {
        let fixed = self.is_fixed();
        let is_due = |&place: &usize| {
            let catches_up = fixed
                && minutes.offsets[place] > minutes.offsets[place - 1]
                && self.was_skipped(minutes.locals[place - 1], minutes.locals[place]);
            catches_up || (self.matches(minutes.locals[place]) && !(fixed && minutes.is_repeated(place)))
        };
        (MEMORY + 1..minutes.locals.len()).filter(is_due).map(|place| minutes.instant(place)).collect()
    }

    /// Whether a match lies between two neighbouring civil minutes, on a date that was not left out as a whole.
    fn was_skipped(&self, last: DateTime, first: DateTime) -> bool {
        let existed = |date: Date| date == last.date() || date == first.date();
        let mut local = last + MINUTE;
        while local < first {
            if self.matches(local) && existed(local.date()) {
                return true;
            }
            local += MINUTE;
        }
        false
    }
}

fn instant(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn civil(minute: i64) -> DateTime {
    let days = i32::try_from(minute.div_euclid(1440)).unwrap();
    let date = jiff::civil::date(1970, 1, 1) + SignedDuration::from_hours(24 * i64::from(days));
    let [hour, minute] = [minute.rem_euclid(1440) / 60, minute.rem_euclid(60)].map(|part| i8::try_from(part).unwrap());
    date.to_datetime(Time::constant(hour, minute, 0, 0))
}

fn numbers(word: &str, (lowest, highest): (usize, usize)) -> Vec<bool> {
    let mut named = vec![false; 60];
    for part in word.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (lowest, highest),
            Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap()),
            None if part.contains('/') => (range.parse().unwrap(), highest),
            None => (range.parse().unwrap(), range.parse().unwrap()),
        };
        for number in (first..=last).step_by(step.parse().unwrap()) {
            named[if highest == 6 { number % 7 } else { number }] = true;
        }
    }
    named
}

/// A field of random numbers, lists, ranges and steps that [`Slow`] reads too.
pub fn field(random: &mut Random, lowest: u64, highest: u64) -> String {
    match random.below(8) {
        0..=2 => "*".to_owned(),
        3 => format!("*/{}", random.between(1, highest)),
        4 => random.between(lowest, highest).to_string(),
        5 => {
            let first = random.between(lowest, highest);
            let last = random.between(first, highest);
            format!("{first}-{last}/{}", random.between(1, 9))
        }
        6 => format!("{}/{}", random.between(lowest, highest), random.between(1, highest)),
        _ => {
            let numbers: Vec<String> = (0..3).map(|_| random.between(lowest, highest).to_string()).collect();
            numbers.join(",")
        }
    }
}

/// Five such fields.
pub fn expression(random: &mut Random) -> String {
    let bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    bounds.map(|(lowest, highest)| field(random, lowest, highest)).join(" ")
}
