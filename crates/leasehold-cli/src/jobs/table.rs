//! `[jobs.NAME]` of `leasehold.toml`.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use leasehold::LockName;
use leasehold_schedule::{Missed, Overlap, Retries, Schedule};
use toml::Spanned;
use toml::de::{DeString, DeTable};

use super::entry::{Entry, Task, Terms};
use super::value::{Value, Values};
use super::{Jobs, Limits};
use crate::config::Fault;

/// What a job may be given.
const KEYS: &str = "cron or every, tz, command, dir, env, stdin, missed, catch_up, overlap, at_least_once, retries, time_limit, \
                    jitter, at_least_for, ttl, kill_after and wait_group";

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const INSTANT: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 3600);

/// How long a retry waits where nothing is said.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The shell of a command that is one text.
const SHELL: &str = "/bin/sh";

/// Whether a text is TOML at all.
pub fn is_toml(text: &str) -> bool {
    DeTable::parse(text).is_ok()
}

/// The jobs of a file that is TOML.
///
/// # Errors
/// All that is wrong with them.
pub fn read(text: &str, path: &Path, limits: Limits) -> Result<Jobs, Vec<Fault>> {
    let mut reader = Reader { values: Values::of(text), path, limits, jobs: Jobs::default() };
    reader.file(&DeTable::parse_recoverable(text).0);
    let Reader { values, mut jobs, .. } = reader;
    let faults = values.faults();
    if !faults.is_empty() {
        return Err(faults);
    }
    // As the file has them, whatever a table's order is.
    jobs.entries.sort_by_key(|entry| entry.line);
    jobs.warnings.sort();
    Ok(jobs)
}

struct Reader<'a> {
    values: Values<'a>,
    path: &'a Path,
    limits: Limits,
    jobs: Jobs,
}

/// A job that is being read: its keys come in any order.
#[derive(Default)]
struct Draft {
    /// The text of `cron` or `every`, and where it stands.
    when: Option<(String, Range<usize>)>,
    zone: Option<String>,
    task: Task,
    terms: Terms,
    kill_after_at: Range<usize>,
    at_least_for_at: Range<usize>,
    jitter_at: Range<usize>,
    /// A key that is there and wrong is told of once, and not missing beside.
    has_when: bool,
    has_command: bool,
}

impl Reader<'_> {
    fn file(&mut self, file: &Spanned<DeTable<'_>>) {
        let Some(value) = file.get_ref().get("jobs") else {
            let hint = "add [jobs.NAME] with cron = \"30 2 * * *\" and command = [\"./backup\"]";
            return self.values.wrong(0..0, format!("the file has no jobs; {hint}"));
        };
        let Some(jobs) = self.values.table("jobs", value, "tables; write [jobs.NAME]") else { return };
        if jobs.is_empty() {
            self.values.wrong(value.span(), "jobs is empty; add [jobs.NAME]");
        }
        for (name, value) in jobs {
            self.job(name, value);
        }
    }

    fn job(&mut self, name: &Spanned<DeString<'_>>, value: &Value<'_>) {
        let key = format!("jobs.{}", name.get_ref());
        if let Err(error) = LockName::new(name.get_ref()) {
            self.values.wrong(name.span(), format!("a job's name is the name of its lock: {error}"));
        }
        let Some(table) = self.values.table(&key, value, "a table; write [jobs.NAME]") else { return };
        let mut draft = Draft::default();
        for (field, value) in table {
            self.field(&mut draft, &key, field, value);
        }
        if !draft.has_when {
            let hint = "add cron = \"30 2 * * *\" or every = \"15m\"";
            self.values.wrong(name.span(), format!("{key} says neither cron nor every; {hint}"));
        }
        if !draft.has_command {
            let hint = "add command = [\"/opt/backup\", \"--all\"], or one text for the shell";
            self.values.wrong(name.span(), format!("{key} has no command; {hint}"));
        }
        let Some((when, at)) = draft.when.take() else { return };
        match Schedule::parse_for(name.get_ref(), &when, draft.zone.as_deref()) {
            Ok(schedule) => {
                self.check(&key, &draft, &schedule);
                let lints = schedule.lints();
                let warn = |lint| self.values.fault(at.clone(), format!("{key}: {lint}"));
                self.jobs.warnings.extend(lints.iter().map(warn));
                let line = self.values.fault(name.span(), "").line;
                let Draft { task, terms, .. } = draft;
                self.jobs.entries.push(Entry { name: name.get_ref().to_string(), line, schedule, task, terms });
            }
            Err(error) => self.values.wrong(at, format!("{key}: {error}")),
        }
    }

    fn field(&mut self, draft: &mut Draft, job: &str, field: &Spanned<DeString<'_>>, value: &Value<'_>) {
        let key = format!("{job}.{}", field.get_ref());
        let key = key.as_str();
        let Self { values, path, .. } = self;
        let Draft { task, terms, .. } = draft;
        match field.get_ref().as_ref() {
            "cron" | "every" => self.when(draft, key, field, value),
            "tz" => draft.zone = values.text(key, value),
            "command" => {
                draft.has_command = true;
                self.command(draft, key, value);
            }
            "dir" => {
                let folder = path.parent().unwrap_or(Path::new("."));
                task.dir = values.text(key, value).map(|dir| folder.join(dir));
            }
            "env" => self.variables(task, key, value),
            "stdin" => task.stdin = values.text(key, value).map(String::into_bytes),
            "missed" => terms.missed = self.missed(key, value),
            "catch_up" => terms.catch_up = values.span(key, value, MINUTE..=LONGEST, "1m to 3650d"),
            "overlap" => terms.overlap = self.overlap(key, value),
            "at_least_once" => terms.at_least_once = values.truth(key, value).unwrap_or_default(),
            "retries" => terms.retries = self.retries(key, value),
            "time_limit" => terms.time_limit = values.span(key, value, INSTANT..=LONGEST, "more than nothing"),
            "jitter" => {
                draft.jitter_at = value.span();
                terms.jitter = values.span(key, value, Duration::ZERO..=DAY, "at most 1d, or another schedule");
            }
            "at_least_for" => {
                draft.at_least_for_at = value.span();
                terms.at_least_for = values.span(key, value, Duration::ZERO..=DAY, "at most 1d");
            }
            "ttl" => terms.ttl = values.span(key, value, SECOND..=HOUR, "1s to 1h"),
            "kill_after" => {
                draft.kill_after_at = value.span();
                terms.kill_after = values.span(key, value, INSTANT..=HOUR, "1ms to 1h");
            }
            "wait_group" => terms.wait_group = values.truth(key, value).unwrap_or_default(),
            "schedule" => values.wrong(field.span(), format!("{key} is called cron, or every if it is a duration")),
            _ => values.unknown(field, KEYS),
        }
    }

    fn when(&mut self, draft: &mut Draft, key: &str, field: &Spanned<DeString<'_>>, value: &Value<'_>) {
        if std::mem::replace(&mut draft.has_when, true) {
            return self.values.wrong(field.span(), format!("{key}: a job has cron or every; take one of them out"));
        }
        let Some(text) = self.values.text(key, value) else { return };
        if field.get_ref() == "every" && crate::args::duration(&text).is_err() {
            let hint = "every is a duration, as in \"15m\"; an expression is for cron";
            return self.values.wrong(value.span(), format!("{key}: {text:?} is no duration; {hint}"));
        }
        draft.when = Some((text, value.span()));
    }

    fn command(&mut self, draft: &mut Draft, key: &str, value: &Value<'_>) {
        if let Some(words) = value.get_ref().as_array() {
            let words: Vec<_> = words.iter().filter_map(|word| self.values.text(key, word)).collect();
            if words.first().is_none_or(String::is_empty) {
                self.values.wrong(value.span(), format!("{key} names no program; write command = [\"/opt/backup\"]"));
            }
            draft.task.argv = words.into_iter().map(Into::into).collect();
            return;
        }
        if value.get_ref().as_str().is_none() {
            return self
                .values
                .wrong_type(key, value, "a list of words, or one text for the shell")
                .unwrap_or_default();
        }
        let Some(script) = self.values.text(key, value) else { return };
        if script.trim().is_empty() {
            self.values.wrong(value.span(), format!("{key} is empty; write command = [\"/opt/backup\"]"));
        }
        draft.task.argv = [SHELL.to_owned(), "-c".to_owned(), script].map(Into::into).to_vec();
    }

    fn variables(&mut self, task: &mut Task, key: &str, value: &Value<'_>) {
        let Some(table) = self.values.table(key, value, "a table; write { NAME = \"value\" }") else { return };
        for (name, value) in table {
            let key = format!("{key}.{}", name.get_ref());
            if name.get_ref().is_empty() || name.get_ref().contains(['=', '\0']) {
                self.values.wrong(name.span(), format!("{key}: a variable's name has no = in it, and is not empty"));
            }
            if let Some(text) = self.values.text(&key, value) {
                task.env.push((name.get_ref().as_ref().into(), text.into()));
            }
        }
    }

    fn missed(&mut self, key: &str, value: &Value<'_>) -> Option<Missed> {
        match value.get_ref().as_str() {
            Some("latest") => Some(Missed::Latest),
            Some("skip") => Some(Missed::Skip),
            Some(_) => self.not_one_of(key, value, "\"latest\", \"skip\" or { all = 24 }"),
            None => self.one_number(key, value, "all", 1000).map(|most| Missed::All { most }),
        }
    }

    fn overlap(&mut self, key: &str, value: &Value<'_>) -> Option<Overlap> {
        match value.get_ref().as_str() {
            Some("skip") => Some(Overlap::Skip),
            Some("queue") => Some(Overlap::Queue),
            Some(_) => self.not_one_of(key, value, "\"skip\", \"queue\" or { allow = 3 }"),
            None => self.one_number(key, value, "allow", 1000).map(Overlap::Allow),
        }
    }

    fn not_one_of<T>(&mut self, key: &str, value: &Value<'_>, legal: &str) -> Option<T> {
        self.values.wrong(value.span(), format!("{key} has to be {legal}"));
        None
    }

    /// `{ allow = 3 }`
    fn one_number(&mut self, key: &str, value: &Value<'_>, word: &str, most: u32) -> Option<u32> {
        let table = self.values.table(key, value, &format!("text, or a table as {{ {word} = 3 }}"))?;
        let mut number = None;
        for (field, value) in table {
            if field.get_ref() == word {
                number = Some(self.values.number(&format!("{key}.{word}"), value, 1..=most));
            } else {
                self.values.unknown(field, word);
            }
        }
        number.unwrap_or_else(|| self.not_one_of(key, value, &format!("text, or a table as {{ {word} = 3 }}")))
    }

    /// `3`, or `{ most = 3, first = "10s", longest = "5m" }`
    fn retries(&mut self, key: &str, value: &Value<'_>) -> Option<Retries> {
        let usual = Retries { most: 0, first: FIRST_PAUSE, longest: LONGEST_PAUSE };
        if value.get_ref().as_integer().is_some() {
            return self.values.number(key, value, 0..=1000).map(|most| Retries { most, ..usual });
        }
        let wanted = "a number, or a table as { most = 3, first = \"10s\", longest = \"5m\" }";
        let table = self.values.table(key, value, wanted)?;
        let (mut retries, mut has_most) = (usual, false);
        for (field, value) in table {
            let key = format!("{key}.{}", field.get_ref());
            match field.get_ref().as_ref() {
                "most" => {
                    has_most = true;
                    retries.most = self.values.number(&key, value, 0..=1000).unwrap_or_default();
                }
                "first" => retries.first = self.pause(&key, value),
                "longest" => retries.longest = self.pause(&key, value),
                _ => self.values.unknown(field, "most, first and longest"),
            }
        }
        if !has_most {
            return self.not_one_of(key, value, wanted);
        }
        Some(Retries { longest: retries.longest.max(retries.first), ..retries })
    }

    fn pause(&mut self, key: &str, value: &Value<'_>) -> Duration {
        self.values.span(key, value, Duration::ZERO..=DAY, "at most 1d").unwrap_or_default()
    }

    /// The rules between keys.
    fn check(&mut self, key: &str, draft: &Draft, schedule: &Schedule) {
        let Draft { terms, kill_after_at, at_least_for_at, jitter_at, .. } = draft;
        let Limits { usual_ttl, longest_stop_grace } = self.limits;
        let ttl = terms.ttl.unwrap_or(usual_ttl);
        if let Some(grace) = terms.kill_after.filter(|grace| *grace > ttl / 2) {
            let rule = format!("{key}.kill_after {grace:?} is more than half of its ttl {ttl:?}");
            let fix = format!("lower it, or write ttl = \"{}s\"", (grace * 2).as_secs_f64().ceil());
            self.values.wrong(kill_after_at.clone(), format!("{rule}: the job could outlive its lock; {fix}"));
        } else if let Some(grace) = terms.kill_after.filter(|grace| *grace > longest_stop_grace) {
            let rule = format!("{key}.kill_after {grace:?} is too long");
            self.values.wrong(
                kill_after_at.clone(),
                format!("{rule}: with this store it may be {longest_stop_grace:?} at most"),
            );
        }
        if let (Some(least), Some(limit)) = (terms.at_least_for, terms.time_limit)
            && least > limit
        {
            let rule = format!("{key}.at_least_for {least:?} is longer than its time_limit {limit:?}");
            self.values.wrong(at_least_for_at.clone(), format!("{rule}; swap them, or take one of them out"));
        }
        if let (Some(jitter), Some(period)) = (terms.jitter, schedule.period())
            && jitter >= period
        {
            let rule = format!("{key}.jitter {jitter:?} is not shorter than its period {period:?}");
            self.values.wrong(jitter_at.clone(), format!("{rule}; lower it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Limits = Limits { usual_ttl: Duration::from_secs(30), longest_stop_grace: Duration::MAX };

    fn read_with(text: &str, limits: Limits) -> Result<Jobs, Vec<Fault>> {
        read(text, Path::new("/etc/leasehold/leasehold.toml"), limits)
    }

    fn entry(terms: &str) -> Entry {
        let text = format!("[jobs.a]\ncron = \"0 3 * * *\"\ncommand = [\"x\", \"y z\"]\n{terms}");
        read_with(&text, USUAL).unwrap_or_else(|faults| panic!("{faults:?}")).entries.remove(0)
    }

    fn fault(terms: &str) -> String {
        let text = format!("[jobs.a]\nevery = \"1m\"\ncommand = \"x\"\n{terms}");
        let faults = read_with(&text, USUAL).expect_err(terms);
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        fault.to_string()
    }

    #[test]
    fn terms_are_read_as_they_are_written() {
        let second = Duration::from_secs(1);
        assert_eq!(entry("").terms, Terms::default());
        assert_eq!(entry("").task, Task { argv: vec!["x".into(), "y z".into()], ..Task::default() });
        assert_eq!(entry("dir = \"../x\"").task.dir.unwrap(), Path::new("/etc/leasehold/../x"));
        assert_eq!(entry("dir = \"/x\"").task.dir.unwrap(), Path::new("/x"));
        assert_eq!(entry("missed = { all = 0x10 }").terms.missed, Some(Missed::All { most: 16 }));
        assert_eq!(entry("overlap = \"queue\"").terms.overlap, Some(Overlap::Queue));
        let retries = |most, first, longest| Some(Retries { most, first, longest });
        assert_eq!(entry("retries = 3").terms.retries, retries(3, 10 * second, 300 * second));
        assert_eq!(
            entry("retries = { most = 2, first = \"10m\" }").terms.retries,
            retries(2, 600 * second, 600 * second)
        );
        assert_eq!(entry("ttl = \"4s\"\nkill_after = \"2s\"").terms.kill_after(USUAL), 2 * second);
        assert_eq!(entry("ttl = \"3s\"").terms.kill_after(USUAL), second);
        assert_eq!(entry("").terms.kill_after(USUAL), 10 * second);
        assert_eq!(entry("").terms.kill_after(Limits { longest_stop_grace: 3 * second, ..USUAL }), 3 * second);
    }

    #[test]
    fn text_is_for_the_shell() {
        let jobs = read_with("[jobs.a]\nevery = \"1m\"\ncommand = \"x | y\"", USUAL).unwrap();
        assert_eq!(jobs.entries[0].task.argv, ["/bin/sh", "-c", "x | y"]);
        assert_eq!(jobs.entries[0].command(), "x | y");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (terms, words) in [
            ("ttl = \"0s\"", &["line 4, column 7: jobs.a.ttl: 0s is out of bounds", "1s to 1h"][..]),
            ("kill_after = \"16s\"", &["line 4, column 14: jobs.a.kill_after 16s", "ttl 30s", "ttl = \"32s\""]),
            ("overlap = { allow = 2, deny = 1 }", &["line 4, column 24: unknown key \"deny\"", "allow"]),
            ("overlap = { allow = 1001 }", &["line 4, column 21: jobs.a.overlap.allow: 1001 is out of bounds"]),
            ("overlap = {}", &["line 4, column 11: jobs.a.overlap has to be", "{ allow = 3 }"]),
            ("overlap = 3", &["line 4, column 11: jobs.a.overlap is of the type integer"]),
            ("retries = -1", &["line 4, column 11: jobs.a.retries: -1 is out of bounds", "0 to 1000"]),
            ("retries = { most = 1, first = 5 }", &["line 4, column 31: jobs.a.retries.first", "text in quotes"]),
            ("stdin = \"a\\u0000\"", &["line 4, column 9: jobs.a.stdin has a NUL"]),
            ("env = { \"\" = \"x\" }", &["line 4, column 9: jobs.a.env.", "is not empty"]),
            ("wait_group = 1", &["line 4, column 14: jobs.a.wait_group", "true or false"]),
            ("jitter = \"3d\"", &["line 4, column 10: jobs.a.jitter: 3d is out of bounds", "at most 1d"]),
            ("catch_up = \"59s\"", &["line 4, column 12: jobs.a.catch_up: 59s is out of bounds", "1m to 3650d"]),
            ("jitter = \"1m\"", &["line 4, column 10: jobs.a.jitter 60s is not shorter than its period 60s"]),
        ] {
            let told = fault(terms);
            assert!(words.iter().all(|word| told.contains(word)), "{terms}: {told}");
        }
        let limits = Limits { usual_ttl: 2 * Duration::from_secs(30), longest_stop_grace: Duration::from_secs(3) };
        let told = read_with("[jobs.a]\nevery = \"1m\"\ncommand = \"x\"\nkill_after = \"4s\"", limits).unwrap_err();
        assert!(told[0].message.contains("with this store it may be 3s at most"), "{told:?}");
    }

    #[test]
    fn the_file_of_the_deployment_is_read() {
        let manifest = include_str!("../../../../examples/deploy/kubernetes.yaml");
        let (_, file) = manifest.split_once("leasehold.toml: |\n").unwrap();
        let text: Vec<_> = file.split("---").next().unwrap().lines().map(str::trim_start).collect();
        assert_eq!(read_with(&text.join("\n"), USUAL).unwrap().entries[0].name, "backup");
    }

    #[test]
    fn every_example_of_the_manual_is_read_and_every_key_has_a_row() {
        const PAGE: &str = include_str!("../../../../docs/schedule.md");
        let examples: Vec<_> = PAGE.split("```toml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
        for example in &examples {
            read_with(example, USUAL).unwrap_or_else(|faults| panic!("{faults:?}: {example}"));
        }
        assert!(examples.len() >= 2);
        let keys: Vec<_> = KEYS.split([' ', ',']).filter(|key| !["", "or", "and"].contains(key)).collect();
        for key in &keys {
            assert!(PAGE.contains(&format!("| `{key}` |")), "{key} has no row");
        }
        let section = PAGE.split("## ").find(|section| section.starts_with("Keys of a job")).unwrap();
        for row in section.lines().filter_map(|line| line.strip_prefix("| `")) {
            let key = row.split('`').next().unwrap();
            assert!(keys.contains(&key), "{key} is no key");
        }
    }
}
