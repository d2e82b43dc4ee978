//! What this machine lacks of what jobs need. Another may have it, and run them.

use std::path::Path;

use super::entry::Entry;
use super::machine::Machine;
use crate::config::Fault;

/// A line for each job that could not be started here.
pub fn of(entries: &[Entry]) -> Vec<Fault> {
    let fault = |entry: &Entry| {
        let message =
            format!("{}: {} on this machine; only one that has it can run the job", entry.name, lacks(entry)?);
        Some(Fault { line: entry.line, column: 1, message })
    };
    entries.iter().filter_map(fault).collect()
}

fn lacks(entry: &Entry) -> Option<String> {
    let folder = entry.task.dir.as_deref().unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Some(format!("there is no folder {}", folder.display()));
    }
    let program = entry.task.argv.first()?;
    let is_here = if program.to_string_lossy().contains('/') {
        Machine::is_program(&folder.join(program))
    } else {
        let path = entry.task.env.iter().find(|(name, _)| name == "PATH").and_then(|(_, path)| path.to_str());
        Machine.has_program(&program.to_string_lossy(), path)
    };
    let what = if entry.command_is_for_a_shell() { "shell" } else { "program" };
    (!is_here).then(|| format!("there is no {what} {}, or it may not be executed,", program.display()))
}
