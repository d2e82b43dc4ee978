//! A crontab, as cron has it: `min hour dom mon dow command`, variables, comments.

mod command;
mod name;
mod variable;

use std::collections::HashMap;

use leasehold::LockName;
use leasehold_schedule::Schedule;

use super::Jobs;
use super::entry::{Entry, Task, Terms};
use super::machine::Machine;
use crate::config::Fault;
use crate::output::counted;

/// Fields of time in front of a command.
const FIELDS: usize = 5;

/// What cron does with mail; and what cronie delays by.
const OF_CRON_ALONE: [&str; 5] = ["MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "RANDOM_DELAY"];

/// The jobs of a crontab.
///
/// # Errors
/// All that is wrong with it.
pub fn read(text: &str, system: bool, machine: &Machine) -> Result<Jobs, Vec<Fault>> {
    let variables = machine.home().map(|home| ("HOME".to_owned(), home)).into_iter().collect();
    let mut reader = Reader { system, machine: *machine, variables, ..Reader::default() };
    for (n, line) in text.split('\n').enumerate() {
        reader.line(n + 1, line);
    }
    reader.end()
}

#[derive(Default)]
struct Reader {
    system: bool,
    machine: Machine,
    /// Those that hold for the lines to come.
    variables: HashMap<String, String>,
    zone: Option<String>,
    /// The name that the line before gives, where it does, and its column.
    name: Option<(String, usize)>,
    drafts: Vec<Draft>,
    warnings: Vec<Fault>,
    faults: Vec<Fault>,
}

/// A line with a job.
struct Draft {
    line: usize,
    column: usize,
    /// None if it is to be derived.
    name: Option<String>,
    when: String,
    zone: Option<String>,
    command: String,
    task: Task,
}

impl Reader {
    fn line(&mut self, n: usize, line: &str) {
        let given = self.name.take();
        if line.ends_with('\r') {
            let rule = "the line ends with a carriage return, as on Windows, which would be part of the command";
            return self.wrong(n, line, line.trim_end().len(), format!("{rule}; save the file with Unix line ends"));
        }
        if let Some(at) = line.find('\0') {
            let rule = "there is a NUL here, which no command and no variable can hold";
            return self.wrong(n, line, at, format!("{rule}; take it out"));
        }
        let rest = line.trim_start();
        let at = line.len() - rest.len();
        if rest.starts_with('#') {
            self.name = name::given(line).map(|name| (name.to_owned(), column(line, at)));
        } else if let Some((name, value)) = variable::read(line) {
            self.sets(n, line, name, value);
        } else if !rest.is_empty() {
            self.job(n, line, at, given);
        }
    }

    fn sets(&mut self, n: usize, line: &str, name: &str, value: &str) {
        let at = line.len() - line.trim_start().len();
        match name {
            _ if name.is_empty() || name.contains('=') => {
                let rule =
                    format!("no environment can hold the variable {name:?}: its name is empty, or has a = in it");
                self.wrong(n, line, at, format!("{rule}; write NAME=value"));
            }
            "CRON_TZ" => match Schedule::parse("@daily", Some(value)) {
                Ok(_) => self.zone = Some(value.to_owned()),
                Err(error) => {
                    let hint = "it stands on a line of its own, before the jobs that it is for";
                    let why = error.to_string();
                    let why = why.split_once(": ").map_or(why.as_str(), |(_, why)| why);
                    self.wrong(n, line, at, format!("CRON_TZ: {why} ({hint})"));
                }
            },
            _ if OF_CRON_ALONE.contains(&name) => {
                let what = if name == "RANDOM_DELAY" { "starts are not delayed" } else { "no mail is sent" };
                let hint = "what jobs write goes to the log";
                self.warns(n, line, at, format!("{name} is for cron alone: {what}; {hint}"));
            }
            _ => {
                if name == "TZ" {
                    let hint = "write CRON_TZ for when they are due";
                    self.warns(n, line, at, format!("TZ is a variable of the jobs and changes no schedule; {hint}"));
                }
                self.variables.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    fn job(&mut self, n: usize, line: &str, at: usize, given: Option<(String, usize)>) {
        // In cron it means that a start is not logged.
        let at = if line[at..].starts_with('-') { at + 1 } else { at };
        let words = words(line, at);
        let fields = match words.first().map(|(_, word)| *word) {
            Some(every) if every.eq_ignore_ascii_case("@every") => 2,
            Some(named) if named.starts_with('@') => 1,
            _ => FIELDS,
        };
        if words.len() <= fields {
            let rule = format!("the line has {} and no command", counted(words.len(), "field"));
            let fix = "write five fields and a command, or NAME=value";
            return self.wrong(n, line, at, format!("{rule}; {fix}"));
        }
        let when = words[..fields].iter().map(|(_, word)| *word).collect::<Vec<_>>().join(" ");
        let Some(at_command) = self.command(n, line, &words[fields..]) else {
            return self.check_when(n, line, at, &when);
        };
        let (command, stdin) = command::read(&line[at_command..]);
        if command.trim().is_empty() {
            self.wrong(n, line, at_command, "there is no command in front of the %; write one".to_owned());
            return self.check_when(n, line, at, &when);
        }
        if let Some((name, column)) = &given
            && let Err(error) = LockName::new(name)
        {
            let message = format!("a job's name is the name of its lock: {error}");
            self.faults.push(Fault { line: n - 1, column: *column, message });
        }
        let task = self.task(&command, stdin);
        let (name, zone) = (given.map(|(name, _)| name), self.zone.clone());
        self.drafts.push(Draft { line: n, column: column(line, at), name, when, zone, command, task });
    }

    /// Of a line that is refused already, what is wrong with its schedule besides.
    fn check_when(&mut self, n: usize, line: &str, at: usize, when: &str) {
        if let Err(error) = Schedule::parse_for("job", when, self.zone.as_deref()) {
            self.wrong(n, line, at, error.to_string());
        }
    }

    /// Where the command begins, among the words behind the schedule; none if the line was refused.
    fn command(&mut self, n: usize, line: &str, words: &[(usize, &str)]) -> Option<usize> {
        let ((at, word), next) = (*words.first()?, words.get(1));
        if !self.system {
            let path = self.variables.get("PATH").map(String::as_str);
            let is_user = next.is_some() && self.machine.has_user(word) && !self.machine.has_program(word, path);
            if is_user {
                let rule = format!("{word} is a user here and no program: this looks like a line of /etc/crontab");
                self.wrong(n, line, at, format!("{rule}; give --system, or take the user out"));
            }
            return (!is_user).then_some(at);
        }
        let ours = self.machine.user();
        if word != ours {
            let rule = format!("this job is for the user {word}, and all run as {ours} here");
            self.wrong(n, line, at, format!("{rule}; take the line out, or run a scheduler as {word}"));
            return None;
        }
        if next.is_none() {
            self.wrong(n, line, at, format!("there is no command behind the user {word}; write one"));
        }
        next.map(|(at, _)| *at)
    }

    fn task(&self, command: &str, stdin: Option<Vec<u8>>) -> Task {
        let shell = self.variables.get("SHELL").map_or("/bin/sh", String::as_str);
        let mut env: Vec<_> = self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        env.sort();
        let argv = [shell, "-c", command].map(Into::into).to_vec();
        Task { argv, env, dir: self.variables.get("HOME").map(Into::into), stdin }
    }

    fn end(mut self) -> Result<Jobs, Vec<Fault>> {
        let mut jobs = Jobs::default();
        let mut unnamed: HashMap<&str, Vec<usize>> = HashMap::new();
        for draft in self.drafts.iter().filter(|draft| draft.name.is_none()) {
            unnamed.entry(&draft.command).or_default().push(draft.line);
        }
        let mut taken: HashMap<String, usize> = HashMap::new();
        for draft in &self.drafts {
            let Draft { line, column, when, command, .. } = draft;
            let fault = |message| Fault { line: *line, column: *column, message };
            let alike = unnamed.get(command.as_str()).filter(|_| draft.name.is_none());
            let twin = alike.and_then(|lines| lines.iter().find(|other| *other != line));
            let name = draft.name.clone().unwrap_or_else(|| name::derived(command));
            let other = taken.insert(name.clone(), *line);
            if let Some(twin) = twin {
                let rule = "a line without a name is named by its command alone";
                let fix = "name one of them by a comment above it, as # name: backup";
                self.faults.push(fault(format!("line {twin} runs the same command, and {rule}; {fix}")));
            } else if let Some(other) = other {
                let fix = "give each a name of its own by a comment above it, as # name: backup";
                self.faults.push(fault(format!("line {other} is a job called {name:?}, too; {fix}")));
            }
            match Schedule::parse_for(&name, when, draft.zone.as_deref()) {
                Ok(schedule) => {
                    self.warnings.extend(schedule.lints().iter().map(|lint| fault(format!("{name}: {lint}"))));
                    let (line, task) = (*line, draft.task.clone());
                    jobs.entries.push(Entry { name, line, schedule, task, terms: Terms::default() });
                }
                Err(error) => self.faults.push(fault(error.to_string())),
            }
        }
        if jobs.entries.is_empty() && self.faults.is_empty() {
            let message = "the file has no jobs; write one as 30 2 * * * /opt/backup".to_owned();
            self.faults.push(Fault { line: 1, column: 1, message });
        }
        if !self.faults.is_empty() {
            return Err(self.faults);
        }
        self.warnings.sort();
        Ok(Jobs { warnings: self.warnings, ..jobs })
    }

    fn wrong(&mut self, n: usize, line: &str, at: usize, message: String) {
        self.faults.push(Fault { line: n, column: column(line, at), message });
    }

    fn warns(&mut self, n: usize, line: &str, at: usize, message: String) {
        self.warnings.push(Fault { line: n, column: column(line, at), message });
    }
}

/// The words of a line from a place on, and where each begins.
fn words(line: &str, from: usize) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut at = from;
    while let Some(start) = line[at..].find(|c: char| !c.is_whitespace()) {
        let begins = at + start;
        at = line[begins..].find(char::is_whitespace).map_or(line.len(), |end| begins + end);
        words.push((begins, &line[begins..at]));
    }
    words
}

fn column(line: &str, at: usize) -> usize {
    Fault::at(line, at, "").column
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(text: &str) -> Jobs {
        read(text, false, &Machine).unwrap_or_else(|faults| panic!("{faults:?}"))
    }

    fn faults(text: &str, system: bool) -> Vec<String> {
        let faults = read(text, system, &Machine).expect_err(text);
        faults.iter().map(ToString::to_string).collect()
    }

    fn variable(entry: &Entry, name: &str) -> Option<String> {
        let found = entry.task.env.iter().find(|(set, _)| set == name);
        found.map(|(_, value)| value.to_string_lossy().into_owned())
    }

    #[test]
    fn a_crontab_is_read_as_it_is() {
        let text = "# the nightly ones\n\
                    SHELL=/bin/bash\n\
                    HOME = \"/srv/my jobs\"\n\
                    \n\
                    # name: backup\n\
                    30 2 * * 1-5\t/opt/backup --to=%USER\\%x%one%two\n\
                    CRON_TZ=Europe/Berlin\n\
                    \x20 @daily   /opt/report\n\
                    SHELL=/bin/sh\n\
                    @every 15m poll # all\n\
                    -*/5 * * * * quiet";
        let Jobs { entries, warnings } = jobs(text);
        let [backup, report, poll, quiet] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!((backup.name.as_str(), backup.line), ("backup", 6));
        assert_eq!(backup.schedule.to_string(), "CRON_TZ=UTC 30 2 * * 1-5");
        assert_eq!(backup.task.argv, ["/bin/bash", "-c", "/opt/backup --to="]);
        assert_eq!(backup.task.stdin.as_deref(), Some(&b"USER%x\none\ntwo\n"[..]));
        assert_eq!(backup.task.dir.as_deref(), Some(std::path::Path::new("/srv/my jobs")));
        assert_eq!(variable(backup, "HOME").as_deref(), Some("/srv/my jobs"));
        assert_eq!(report.schedule.to_string(), "CRON_TZ=Europe/Berlin 0 0 * * *");
        assert_eq!(report.task.argv, ["/bin/bash", "-c", "/opt/report"]);
        assert!(report.name.starts_with("report-") && report.task.stdin.is_none(), "{report:?}");
        assert_eq!(poll.schedule.to_string(), "@every 15m");
        assert_eq!(poll.task.argv, ["/bin/sh", "-c", "poll # all"]);
        assert_eq!((quiet.command().as_str(), quiet.line), ("quiet", 11));
        let unused = warnings.iter().filter(|warning| warning.message.contains("the zone")).count();
        assert_eq!((warnings.len(), unused), (1, 1), "{warnings:?}");
    }

    #[test]
    fn names_are_stable_and_told_apart() {
        let once = jobs("0 3 * * * /opt/a x\n").entries;
        let moved = jobs("# a comment\nA=b\n5 4 * * *   /opt/a x  \n").entries;
        assert_eq!(once[0].name, moved[0].name);
        let twice = jobs("0 3 * * * /opt/a x\n# name: z\n0 5 * * * /opt/a x").entries;
        assert!(twice[0].name == once[0].name && twice[1].name == "z", "a twin renames nothing: {twice:?}");
        // A comment names the line below, and no other.
        assert_ne!(jobs("# name: z\n#0 1 * * * old\n0 3 * * * /opt/a x\n").entries[0].name, "z");
    }

    /// Told apart by anything else, the first would be another job from the reload on, beside the old one on nodes that come later.
    #[test]
    fn a_command_that_is_repeated_needs_a_name() {
        let text = "0 3 * * * /opt/a x\n# name: z\n0 5 * * * /opt/a x\n0 4 * * *  /opt/a x\n@daily /opt/a x%in\n";
        let found = faults(text, false);
        let wanted =
            [("line 1, column 1: ", "line 4"), ("line 4, column 1: ", "line 1"), ("line 5, column 1: ", "line 1")];
        assert_eq!(found.len(), wanted.len(), "{found:#?}");
        for (found, (place, other)) in found.iter().zip(wanted) {
            let words = [other, "the same command", "named by its command", "# name: backup"];
            assert!(found.starts_with(place) && words.iter().all(|word| found.contains(word)), "{found}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let text = "MAILTO=ops\n\
                    0 3 * * *\n\
                    \x20 61 * * * * x\n\
                    @reboot /opt/start\n\
                    CRON_TZ=Europe/Berln\n\
                    0 3 * * * a\r\n\
                    # name: same\n\
                    0 3 * * * a\n\
                    # name: same\n\
                    0 4 * * * b\n\
                    0 4 * * * %x\n";
        let found = faults(text, false);
        let wanted: [(&str, &[&str]); 7] = [
            ("line 2, column 1: ", &["5 fields and no command", "a command"]),
            (
                "line 5, column 1: ",
                &["CRON_TZ: the time zone \"Europe/Berln\" is unknown", "did you mean Europe/Berlin?"],
            ),
            ("line 6, column 12: ", &["carriage return", "Unix line ends"]),
            ("line 11, column 11: ", &["no command in front of the %"]),
            ("line 3, column 3: ", &["61", "0-59"]),
            ("line 4, column 1: ", &["@reboot", "one machine", "init"]),
            ("line 10, column 1: ", &["line 8", "\"same\"", "# name: backup"]),
        ];
        assert_eq!(found.len(), wanted.len(), "{found:#?}");
        for (found, (place, words)) in found.iter().zip(wanted) {
            assert!(found.starts_with(place) && words.iter().all(|word| found.contains(word)), "{found}");
        }
    }

    /// Else each start of a job would fail, for ever.
    #[test]
    fn what_no_environment_can_hold_is_refused() {
        for (line, words) in [
            ("\"A=B\" = c", "\"A=B\""),
            ("'=' = c", "\"=\""),
            ("\"\" = c", "\"\""),
            ("'' = a b c d e f", "\"\""),
            ("A=b\0", "a NUL"),
            ("0 3 * * * a \0", "a NUL"),
        ] {
            let found = faults(&format!("{line}\n@daily x\n"), false);
            assert!(found.len() == 1 && found[0].starts_with("line 1, ") && found[0].contains(words), "{found:?}");
        }
    }

    #[test]
    fn a_user_column_is_read_where_it_is_said_to_be_there() {
        let ours = Machine.user();
        let mine = read(&format!("17 * * * *\t{ours}  cd / && x\n"), true, &Machine).unwrap();
        assert_eq!(mine.entries[0].command(), "cd / && x");
        let other = faults("17 * * * * somebody-else x\n", true);
        assert!(other[0].starts_with("line 1, column 12: ") && other[0].contains(&ours), "{other:?}");
        let alone = faults(&format!("@daily {ours}\n"), true);
        assert!(alone[0].contains("no command behind the user"), "{alone:?}");
        let system = faults("17 * * * * root cd / && x\n", false);
        assert!(
            system[0].starts_with("line 1, column 12: root is a user") && system[0].contains("--system"),
            "{system:?}"
        );
        // One word is a command, whoever else is called so.
        assert_eq!(jobs("17 * * * * root\n").entries[0].command(), "root");
    }

    #[test]
    fn what_only_cron_does_is_a_warning() {
        let Jobs { warnings, entries } = jobs("MAILTO=a@b\nRANDOM_DELAY=5\nTZ=Asia/Tokyo\n0 12 * * * x\n");
        let told: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        for (told, words) in told.iter().zip([["line 1", "no mail"], ["line 2", "not delayed"], ["line 3", "CRON_TZ"]])
        {
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
        assert_eq!(variable(&entries[0], "TZ").as_deref(), Some("Asia/Tokyo"));
        assert_eq!((variable(&entries[0], "MAILTO"), entries[0].schedule.zone()), (None, Some("UTC")));
    }

    #[test]
    fn a_file_without_jobs_is_wrong() {
        assert!(faults("# nothing\nA=b\n", false)[0].contains("no jobs"));
    }
}
