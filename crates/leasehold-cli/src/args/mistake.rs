//! What is wrong with a command line, told in one line that names the value, the rule and the fix.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use leasehold::stores::hide_secrets;

use crate::exit::{self, Failure};
use crate::output::plain;

/// The help of verbs that take a duration behind an equals sign, and for which option.
const DURATIONS: [(&str, &str, &str); 2] = [
    ("leasehold trigger --help", "to wait for so long", "--wait"),
    ("leasehold ls --help", "to list again so often", "--watch"),
];

/// One line out of clap's several: no usage, which `--help` shows, and no secret that was typed.
pub(super) fn explain(error: &clap::Error) -> Failure {
    let words: Vec<_> = std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    explain_of(&words, error)
}

/// The same of a command line that was typed so.
pub(super) fn explain_of(words: &[String], error: &clap::Error) -> Failure {
    Failure::new(exit::USAGE, plain(&without_secrets(&told(words, error))))
}

fn told(words: &[String], error: &clap::Error) -> String {
    let argument = context(error, ContextKind::InvalidArg);
    let help = help(error);
    let see = |meant| match context(error, meant) {
        Some(meant) => format!("did you mean '{}'? See `{help}`", meant.replace(", ", "' or '")),
        None => format!("see `{help}`"),
    };
    match (error.kind(), argument) {
        (ErrorKind::ValueValidation, argument) => broken_rule(error, argument.as_deref()),
        (ErrorKind::UnknownArgument, Some(argument)) if argument.starts_with('-') => {
            format!("there is no option '{argument}' here; {}", see(ContextKind::SuggestedArg))
        }
        // Behind the verb what was taken for the job is too many; in front of the job the job is.
        (ErrorKind::UnknownArgument, Some(argument))
            if help == "leasehold trigger --help"
                && super::duration(&argument).is_err()
                && waited_for(words).is_some() =>
        {
            let span = waited_for(words).unwrap_or_default();
            format!("'{span}' was taken for the job; to wait for so long, write --wait={span}")
        }
        (ErrorKind::UnknownArgument, Some(argument)) => {
            let meant = DURATIONS.iter().find(|(of, ..)| *of == help && super::duration(&argument).is_ok());
            let fix = match meant {
                Some((_, what_for, option)) => format!("{what_for}, write {option}={argument}"),
                None => format!("take it out, or see `{help}`"),
            };
            format!("'{argument}' is one argument too many; {fix}")
        }
        (ErrorKind::InvalidSubcommand, _) => {
            let verb = context(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("there is no verb '{verb}'; {}", see(ContextKind::SuggestedSubcommand))
        }
        (ErrorKind::MissingSubcommand, _) => {
            let verbs = context(error, ContextKind::ValidSubcommand).unwrap_or_default();
            format!("the verb is missing; write one of {verbs}")
        }
        (ErrorKind::MissingRequiredArgument, Some(missing)) => {
            format!("{missing} is missing; write {}, or see `{help}`", usage(error))
        }
        (ErrorKind::InvalidValue, Some(argument)) => {
            let legal = context(error, ContextKind::ValidValue).filter(|legal| !legal.is_empty());
            let fix = legal.map_or_else(|| "write it behind it".to_owned(), |legal| format!("give one of {legal}"));
            match context(error, ContextKind::InvalidValue).filter(|value| !value.is_empty()) {
                Some(value) => format!("{argument}: '{value}' is not known; {fix}"),
                None => format!("{argument} lacks its value; {fix}"),
            }
        }
        (ErrorKind::ArgumentConflict, Some(argument)) => match context(error, ContextKind::PriorArg) {
            Some(prior) if prior == argument => format!("{argument} is given twice; keep one of them"),
            Some(prior) => format!("{argument} can't be given together with {prior}; take one of them out"),
            None => in_its_own_words(error),
        },
        (ErrorKind::NoEquals, Some(argument)) => format!("{argument}: its value stands behind an =; see `{help}`"),
        (ErrorKind::InvalidUtf8, _) => format!("an argument is not UTF-8; write it as UTF-8, or see `{help}`"),
        _ => in_its_own_words(error),
    }
}

/// The span that stands behind `--wait` as if it belonged to it.
fn waited_for(words: &[String]) -> Option<&str> {
    let pair = words.windows(2).find(|pair| pair[0] == "--wait" && super::duration(&pair[1]).is_ok())?;
    Some(&pair[1])
}

/// `--ttl <DUR>: 5 has no unit…`
fn broken_rule(error: &clap::Error, argument: Option<&str>) -> String {
    match (std::error::Error::source(error), argument.filter(|argument| argument.starts_with('-'))) {
        (Some(rule), Some(argument)) => format!("{argument}: {rule}"),
        (Some(rule), None) => rule.to_string(),
        (None, _) => in_its_own_words(error),
    }
}

/// Its first paragraph.
fn in_its_own_words(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    paragraph.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        _ => None,
    }
}

/// `leasehold run [OPTIONS] <NAME> -- <CMD> [ARGS]...`
fn usage(error: &clap::Error) -> String {
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    usage.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What shows the help about it: `leasehold run --help`.
fn help(error: &clap::Error) -> String {
    let usage = usage(error);
    let verb = usage.split(' ').skip(1).take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
    let words: Vec<_> = ["leasehold"].into_iter().chain(verb).chain(["--help"]).collect();
    words.join(" ")
}

fn without_secrets(message: &str) -> String {
    std::env::args_os()
        .filter_map(|argument| argument.into_string().ok())
        .filter(|argument| argument.contains("://"))
        .fold(message.to_owned(), |shown, argument| shown.replace(&argument, &hide_secrets(&argument)))
}
