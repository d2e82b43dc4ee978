//! `leasehold man`: the manual, made from the help texts.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{ABOUT, Cli, ManArgs};
use crate::exit::{self, Failure};
use crate::output;

/// Runs the verb.
///
/// # Errors
/// 64 for a verb that does not exist, 78 for a directory that can't be written to.
pub fn run(args: &ManArgs) -> Result<i32, Failure> {
    let mut command = Cli::command().long_about(ABOUT).disable_help_subcommand(true);
    command.build();
    if let Some(dir) = &args.dir {
        write_all(&command, dir)?;
        return Ok(exit::OK);
    }
    let wanted = match &args.verb {
        Some(verb) => {
            let verbs = verbs_of(&command);
            verbs.into_iter().find(|known| called(known) == verb).ok_or_else(|| no_such_verb(verb, &command))?
        }
        None => &command,
    };
    let page = page(wanted).map_err(|error| Failure::new(exit::FAULT, error.to_string()))?;
    output::exact(page.trim_end()).map(drop)?;
    Ok(exit::OK)
}

/// Those of verbs too, each behind its own.
fn verbs_of(command: &Command) -> Vec<&Command> {
    command.get_subcommands().flat_map(|verb| [verb].into_iter().chain(verbs_of(verb))).collect()
}

/// `schedule-reset-mark`, as its page.
fn called(verb: &Command) -> &str {
    let page = verb.get_display_name().unwrap_or_else(|| verb.get_name());
    page.strip_prefix("leasehold-").unwrap_or(page)
}

fn no_such_verb(verb: &str, command: &Command) -> Failure {
    let known: Vec<&str> = verbs_of(command).into_iter().map(called).collect();
    Failure::new(exit::USAGE, format!("no verb is called {verb:?}; there are: {}", known.join(", ")))
}

fn write_all(command: &Command, dir: &Path) -> Result<(), Failure> {
    for command in [command].into_iter().chain(verbs_of(command)) {
        let path = dir.join(Man::new(command.clone()).get_filename());
        page(command)
            .and_then(|page| fs::write(&path, page))
            .map_err(|error| Failure::new(exit::CONFIG, format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

/// One page. What stands below the options in the help becomes sections of its own, its lines left as they are.
fn page(command: &Command) -> io::Result<String> {
    let man = Man::new(command.clone()).source(concat!("leasehold ", env!("CARGO_PKG_VERSION"))).manual("Leasehold");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let footer = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    Ok(String::from_utf8_lossy(&page).into_owned() + &footer.as_deref().map(sections).unwrap_or_default())
}

/// `Examples:` alone on a line at the margin opens a section.
fn sections(footer: &str) -> String {
    let lines = footer.lines().map(|line| match line.strip_suffix(':').filter(|title| is_title(title)) {
        Some(title) => format!(".fi\n.SH {}\n.nf\n", title.to_uppercase()),
        None => format!("{}\n", escaped(line)),
    });
    lines.collect::<String>() + ".fi\n"
}

fn is_title(text: &str) -> bool {
    text.starts_with(char::is_uppercase) && text.len() < 30
}

/// A line as roff shows it literally: no command at its start, no escapes, no typographic hyphens and quotes.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}
