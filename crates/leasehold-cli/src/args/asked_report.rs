//! Which report is asked for by a command line that can't be read as a whole.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// The report of a run that is not even begun, as far as it can be made out.
#[derive(Debug, PartialEq, Eq)]
pub struct AskedReport {
    /// The file.
    pub file: PathBuf,
    /// The lock's name, as it was typed.
    pub lock: Option<String>,
}

impl AskedReport {
    /// What this process was started with asks for.
    pub fn of_this_process() -> Option<Self> {
        Self::of(std::env::args_os().skip(1))
    }

    /// `--report` among our own options: what belongs to the job is none of our business.
    fn of(words: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let command = Cli::command();
        let words: Vec<OsString> = words.into_iter().collect();
        let ours = words.iter().position(|word| word == "--");
        let mut words = words[..ours.unwrap_or(words.len())].iter().peekable();
        let (mut file, mut operands) = (None, Vec::new());
        while let Some(word) = words.next() {
            let Some((option, value)) = long(word) else {
                if !word.as_encoded_bytes().starts_with(b"-") {
                    operands.push(word);
                }
                match operands[..] {
                    [verb, ..] if verb != "run" => return None,
                    [_, _, _, ..] => break, // The job's command begins.
                    _ => continue,
                }
            };
            let takes_next = match known(&command, option) {
                Some(known) => known.get_action().takes_values() && !known.is_require_equals_set(),
                // Nobody knows: its value if what is ours ends with a --, and else perhaps the job's command.
                None => ours.is_some(),
            };
            let is_value = |next: &&OsString| takes_next && !next.as_encoded_bytes().starts_with(b"-");
            let value = value.map(OsStr::to_owned).or_else(|| words.next_if(is_value).cloned());
            if option == "report" {
                file = value.map(PathBuf::from).or(file);
            }
        }
        let lock = operands.get(1).and_then(|name| name.to_str()).map(str::to_owned);
        operands.first().and(file).map(|file| Self { file, lock })
    }
}

/// `--option` and `--option=value`.
fn long(word: &OsStr) -> Option<(&str, Option<&OsStr>)> {
    use std::os::unix::ffi::OsStrExt;

    let word = word.as_bytes().strip_prefix(b"--")?;
    let mut parts = word.splitn(2, |byte| *byte == b'=');
    let option = std::str::from_utf8(parts.next()?).unwrap_or_default();
    Some((option, parts.next().map(OsStr::from_bytes)))
}

fn known<'c>(command: &'c Command, option: &str) -> Option<&'c Arg> {
    let run = command.find_subcommand("run")?;
    run.get_arguments().chain(command.get_arguments()).find(|known| known.get_long() == Some(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Option<(String, Option<String>)> {
        let asked = AskedReport::of(line.split(' ').map(OsString::from))?;
        Some((asked.file.to_str().unwrap().to_owned(), asked.lock))
    }

    #[test]
    fn it_is_made_out_wherever_it_stands_among_our_options() {
        for line in [
            "run a --report r --tll 5s -- true",
            "run a --tll 5s --report r -- true",
            "run a --tll --report=r -- true",
            "run --ttl 99h --wait a --report r true",
            "--store x: run -v a --report r",
            "run --report r a --max-hold",
            "run a --report r --report",
        ] {
            assert_eq!(asked(line), Some(("r".into(), Some("a".into()))), "{line}");
        }
        assert_eq!(asked("run --report r"), Some(("r".into(), None)));
    }

    #[test]
    fn what_is_the_jobs_is_left_alone() {
        for line in [
            "run a -- tool --report r",
            "run a --ttl 99h tool --report r",
            "run a --tll 5s --report r tool",
            "run --tll a tool --report r",
            "run a --report -- true",
            "run a --report --ttl 5s -- true",
            "status a --report r",
            "--report r",
        ] {
            assert_eq!(asked(line), None, "{line}");
        }
    }
}
