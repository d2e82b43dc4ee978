//! The schedulers over one store and namespace, as an operator speaks to them.

use std::path::Path;

use leasehold::{LockName, Locks};
use leasehold_schedule::{Orders, Timestamp};

use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output::plain;

/// So many names are told where one is not known.
const TOLD: usize = 10;

/// A fleet, and who speaks to it.
pub struct Fleet {
    locks: Locks,
    store: String,
}

impl Fleet {
    /// That over the store that this invocation works on.
    ///
    /// # Errors
    /// The store can't be opened; 78 where it keeps no notes.
    pub fn of(config: &Config) -> Result<Self, Failure> {
        let fleet = Self { locks: Locks::builder().over(config.open()?), store: config.shown() };
        match fleet.locks.notes() {
            Ok(_) => Ok(fleet),
            Err(error) => Err(Failure::new(exit::CONFIG, keeps_none(&error, &fleet.store))),
        }
    }

    /// The same, if it has ever had this job. Where there is not even a file none is made.
    ///
    /// # Errors
    /// As for [`of`](Self::of); 64 for a job that nobody knows.
    pub async fn with(config: &Config, job: &LockName) -> Result<Self, Failure> {
        if let Some(file) = config.place().missing_file() {
            return Err(Failure::new(exit::USAGE, nowhere(job, &config.shown(), &file)));
        }
        let fleet = Self::of(config)?;
        fleet.knows(job).await?;
        Ok(fleet)
    }

    /// The locks of their jobs.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// What they are told.
    pub fn orders(&self) -> Orders<'_> {
        Orders::over(&self.locks)
    }

    /// Where they meet, without secrets.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// What the store's clock shows.
    ///
    /// # Errors
    /// The store can't say.
    pub async fn now(&self) -> Result<Timestamp, Failure> {
        let since_1970 = self.locks.time().await?;
        let millis = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        Ok(Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX))
    }

    /// Refuses a job that no scheduler has ever had: most often its name is misspelt.
    ///
    /// # Errors
    /// 64, with the names that are known.
    pub async fn knows(&self, job: &LockName) -> Result<(), Failure> {
        let known = self.orders().jobs().await?;
        if known.iter().any(|known| known.name == job.as_str()) {
            return Ok(());
        }
        let names: Vec<_> = known.into_iter().map(|known| known.name).collect();
        Err(Failure::new(exit::USAGE, unknown(job, names, &self.store)))
    }
}

/// Who gives the order: `user@host`, and whom `sudo` says it is for.
pub fn operator() -> String {
    let uid = nix::unistd::geteuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    match std::env::var("SUDO_USER").ok().filter(|asked| uid.is_root() && !asked.is_empty()) {
        Some(asked) => format!("{} as {user}@{host}", plain(&asked)),
        None => format!("{user}@{host}"),
    }
}

fn keeps_none(error: &leasehold::Error, store: &str) -> String {
    format!(
        "{error}: schedulers over {store} have no history and hear of no orders; name the store that they use, and without compat= and \
         mode=advisory"
    )
}

fn unknown(job: &LockName, mut names: Vec<String>, store: &str) -> String {
    let refused = format!("no scheduler over {store} has ever had a job {:?}", job.as_str());
    if names.is_empty() {
        return format!("{refused}, nor any other: is it the right store and namespace?");
    }
    names.sort_by_cached_key(|name| (edits(job.as_str(), name), name.clone()));
    let more = names.len().saturating_sub(TOLD);
    let told: Vec<_> = names.iter().take(TOLD).map(|name| plain(name)).collect();
    let rest = if more == 0 { String::new() } else { format!(" and {more} more (see `leasehold history`)") };
    format!("{refused}; it knows {}{rest}", told.join(", "))
}

/// Nobody has ever met there.
fn nowhere(job: &LockName, store: &str, file: &Path) -> String {
    format!("{}: there is no file {} yet", unknown(job, Vec::new(), store), file.display())
}

/// How many letters have to be put in, taken out or changed to get from one name to the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (nth, letter) in one.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], nth + 1);
        for (at, with) in other.iter().enumerate() {
            let changed = corner + usize::from(letter != *with);
            corner = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(corner + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_nearly_alike_are_near() {
        for (one, other, distance) in [
            ("nightly", "nightly", 0),
            ("nigthly", "nightly", 2),
            ("nightly", "nighty", 1),
            ("", "abc", 3),
            ("ä", "a", 1),
        ] {
            assert_eq!((edits(one, other), edits(other, one)), (distance, distance), "{one} {other}");
        }
    }

    #[test]
    fn the_likeliest_names_are_told_first_and_not_all_of_many() {
        let names =
            |most: usize| (0..most).map(|nth| format!("job-{nth:03}")).chain(["nightly\u{9b}".into()]).collect();
        let told = unknown(&LockName::new("nigthly").unwrap(), names(99), "sqlite://x");
        assert!(
            told.contains("it knows nightly\\u{9b}, job-000, ")
                && told.ends_with(" and 90 more (see `leasehold history`)"),
            "{told}"
        );
        let none = unknown(&LockName::new("a").unwrap(), Vec::new(), "sqlite://x");
        assert!(none.contains("sqlite://x") && none.ends_with("is it the right store and namespace?"), "{none}");
    }
}
