//! Time zones by their names.

use std::collections::BTreeSet;

use jiff::tz::{self, TimeZone, TimeZoneDatabase};

use crate::error::{ScheduleError, shown};

/// The zone with this IANA name: as the system knows it, else as it is built in.
pub(crate) fn find(name: &str) -> Result<TimeZone, ScheduleError> {
    if let Some(reason) = refused(name) {
        return Err(ScheduleError::new(format!("the time zone {} {reason}", shown(name))));
    }
    let found = tz::db().get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)).ok();
    found.filter(|zone| zone.iana_name().is_some() && !zone.is_unknown()).ok_or_else(|| unknown(name))
}

/// Names that a system may know and that mean something else on the next one.
fn refused(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    if lower == "localtime" || lower == "posixrules" || lower == "local" {
        return Some("is another one on each machine; name it, for example Europe/Berlin or UTC");
    }
    lower.starts_with("right/").then_some("counts leap seconds, which clocks of computers don't; leave right/ out")
}

fn unknown(name: &str) -> ScheduleError {
    let hint = match closest(name) {
        Some(known) => format!("did you mean {known}?"),
        None => "give an IANA name such as Europe/Berlin or UTC".to_owned(),
    };
    ScheduleError::new(format!("the time zone {} is unknown; {hint}", shown(name)))
}

/// The known name that differs the least, if that is little: a city without its continent, or two slips.
fn closest(name: &str) -> Option<String> {
    const SLIPS: usize = 2;
    let wanted = name.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    if !(4..=40).contains(&wanted.len()) {
        return None; // Of PST two slips make MST.
    }
    let known: BTreeSet<String> = TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    let city = |known: &str| known.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&wanted));
    if let Some(found) = known.iter().find(|known| city(known)) {
        return Some(found.clone());
    }
    let distances = known.into_iter().map(|known| (distance(&known.to_ascii_lowercase(), &wanted), known));
    distances.min().filter(|(distance, _)| *distance <= SLIPS).map(|(_, known)| known)
}

/// How many characters have to be put in, taken out or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, &to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != to);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(name: &str) -> String {
        find(name).unwrap_err().to_string()
    }

    #[test]
    fn zones_are_found_without_regard_to_case() {
        for (name, known) in
            [("america/new_york", "America/New_York"), ("utc", "UTC"), ("Asia/Kolkata", "Asia/Kolkata")]
        {
            assert_eq!(find(name).unwrap().iana_name(), Some(known));
        }
    }

    #[test]
    fn an_unknown_zone_is_named_with_one_that_is_known() {
        assert!(complaint("Europe/Berln").ends_with("did you mean Europe/Berlin?"), "{}", complaint("Europe/Berln"));
        assert!(complaint("New York").ends_with("did you mean America/New_York?"));
        assert!(complaint("tokyo").ends_with("did you mean Asia/Tokyo?"));
        for name in ["PST", "", "Mars/Olympus", "+02:00", "Etc/Unknown"] {
            assert!(complaint(name).ends_with("such as Europe/Berlin or UTC"), "{}", complaint(name));
        }
        assert!(!complaint("a\u{1b}[2J\n").contains(['\u{1b}', '\n']));
        assert!(complaint(&"x".repeat(10_000)).len() < 200);
    }

    #[test]
    fn zones_that_are_another_one_elsewhere_are_refused() {
        assert!(complaint("localtime").contains("on each machine"));
        assert!(complaint("right/Europe/Berlin").contains("leave right/ out"));
    }

    #[test]
    fn the_zones_that_are_built_in_have_their_rules() {
        let bundled = TimeZoneDatabase::bundled().get("America/New_York").unwrap();
        let summer = "2035-07-01T00:00:00Z".parse().unwrap();
        assert_eq!(bundled.to_offset(summer).seconds(), -4 * 3600);
    }
}
