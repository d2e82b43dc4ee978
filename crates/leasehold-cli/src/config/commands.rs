//! How commands of ours have to be typed, by anybody and anywhere, to work on the store of this invocation.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use leasehold::stores::hide_secrets;

use super::{Config, Origin, PLACES, STORE, is_url, namespace, variable};
use crate::args::{Cli, StoreArgs};
use crate::exit::Failure;

/// How this program is called in messages.
const PROGRAM: &str = "leasehold ";

/// Completes the commands that messages name.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// What leads to the store, as a shell takes it: ` --store jobs`, say. Nothing where all that is asked for is the usual.
    options: String,
}

impl Commands {
    /// For the store that is meant so.
    pub(super) fn on(args: &StoreArgs, config: &Config) -> Result<Self, Failure> {
        Ok(Self { options: options(args, config)? })
    }

    /// `text`, in which each command of ours that is named goes on with the options that lead to the store.
    pub fn completed(&self, text: &str) -> String {
        if !text.contains(PROGRAM) {
            return text.to_owned();
        }
        let cli = Cli::command();
        let mut parts = text.split(PROGRAM);
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (command, rest) = part.split_at(end_of_command(&cli, part));
            let is_one = !command.is_empty() && !rest.starts_with(" --help");
            whole.push_str(&[PROGRAM, command, if is_one { &self.options } else { "" }, rest].concat());
        }
        whole
    }
}

fn options(args: &StoreArgs, config: &Config) -> Result<String, Failure> {
    let mut options = String::new();
    let mut add = |option: &str, value: &str| options.push_str(&format!(" {option} {}", quoted(value)));
    if let Origin::File(path) = config.origin()
        && let Some(path) = elsewhere(path)
    {
        add("--config", &path.display().to_string());
    }
    if let Some(store) = &args.store {
        add("--store", &if is_url(store) { hide_secrets(store) } else { store.clone() });
    } else if let Some(store) = variable(STORE)?.filter(|store| !is_url(store) || hide_secrets(store) == *store) {
        // One with a secret in it is to be had from the environment alone.
        add("--store", &store);
    }
    if let Some(namespace) = namespace(args)? {
        add("--namespace", namespace.as_str());
    }
    Ok(options)
}

/// A file that isn't found without being named, by whoever is in another directory.
fn elsewhere(path: &Path) -> Option<PathBuf> {
    let is_the_systems = Path::new(PLACES[1]) == path;
    (!is_the_systems).then(|| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Where the verb, what kind of it is meant and its options end, as far as these need no value; 0 if there is no verb.
fn end_of_command(cli: &Command, text: &str) -> usize {
    let word = |text: &str| text.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(text.len());
    let mut end = word(text);
    let Some(mut command) = cli.find_subcommand(&text[..end]) else { return 0 };
    while let Some(rest) = text[end..].strip_prefix(' ') {
        let next = &rest[..word(rest)];
        match command.find_subcommand(next) {
            Some(kind) => command = kind,
            None if is_flag_of(command, next) => {}
            None => break,
        }
        end += 1 + next.len();
    }
    end
}

fn is_flag_of(command: &Command, word: &str) -> bool {
    let is_it =
        |long| command.get_arguments().any(|arg| arg.get_long() == Some(long) && !arg.get_action().takes_values());
    word.strip_prefix("--").is_some_and(is_it)
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_a_message_is_whole() {
        for (text, wanted) in [
            ("`leasehold accept-loss --yes` does it", "`leasehold accept-loss --yes --store q` does it"),
            ("leasehold migrate", "leasehold migrate --store q"),
            ("leasehold is not a verb; leasehold nothing", "leasehold is not a verb; leasehold nothing"),
            ("see `leasehold route --help`", "see `leasehold route --help`"),
            ("/etc/leasehold/leasehold.toml", "/etc/leasehold/leasehold.toml"),
            ("leasehold release 'a b' --now", "leasehold release --store q 'a b' --now"),
            (
                "leasehold route set --restored, leasehold doctor",
                "leasehold route set --restored --store q, leasehold doctor --store q",
            ),
        ] {
            assert_eq!(Commands { options: " --store q".into() }.completed(text), wanted);
            assert_eq!(Commands::default().completed(text), text);
        }
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_apart() {
        for (word, wanted) in [
            ("redis://a:6379/0", "redis://a:6379/0"),
            ("redis://a?max_ttl=2", "'redis://a?max_ttl=2'"),
            ("redis://:***@a", "'redis://:***@a'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), wanted);
        }
    }
}
