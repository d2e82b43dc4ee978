//! What is kept of one run.

use serde::{Deserialize, Serialize};

use crate::state::State;

/// How much of a run's output is kept.
const LONGEST_OUTPUT: usize = 8 * 1024;

/// How much of any other text. With both a record is never too long for a note, whatever has to be escaped in it.
const LONGEST_TEXT: usize = 512;

/// What became of one tick, or of a run that was asked for; or what an operator did to the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Which tick. Of a run that was asked for: when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<jiff::Timestamp>,
    /// By whom it was asked for, and why; none if its schedule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// How it stands.
    pub state: State,
    /// Which node: `host/pid/job`. Of what an operator did: by whom.
    pub node: String,
    /// When it began, by that node's clock. Of what an operator did: when, by the store's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<jiff::Timestamp>,
    /// When it ended, by that node's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<jiff::Timestamp>,
    /// How often it was begun.
    #[serde(default)]
    pub attempts: u32,
    /// The fencing token, in digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why it failed, or was not run; why an operator did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It was not run because the job was still running, and this was its turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overlaps: bool,
    /// What it wrote last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// A record as it stands in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Of which job.
    pub job: String,
    /// When it was written last, by the store's clock.
    pub written: jiff::Timestamp,
    /// What was written.
    pub record: Record,
}

impl Record {
    /// A larger one belongs to a later run.
    pub(crate) fn token_number(&self) -> Option<u64> {
        self.token.as_ref()?.parse().ok()
    }

    pub(crate) fn of(state: State, node: &str) -> Self {
        Self {
            tick: None,
            asked: None,
            state,
            node: node.to_owned(),
            started: None,
            ended: None,
            attempts: 0,
            token: None,
            reason: None,
            overlaps: false,
            output: String::new(),
        }
    }
    /// Short enough for a note, whatever has to be escaped in it.
    pub(crate) fn shorten(&mut self) {
        shorten(&mut self.output);
        let texts = [Some(&mut self.node), self.asked.as_mut(), self.reason.as_mut()];
        texts.into_iter().flatten().for_each(cut);
    }
}

/// What was written last, from a whole line on where there is one.
fn shorten(output: &mut String) {
    if output.len() <= LONGEST_OUTPUT {
        return;
    }
    let from = output.len() - LONGEST_OUTPUT;
    let from = (from..output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(output.len());
    let line = output[from..].find('\n').map_or(from, |at| from + at + 1);
    output.drain(..if line < output.len() { line } else { from });
}

/// What a text begins with.
fn cut(text: &mut String) {
    if text.len() > LONGEST_TEXT {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use leasehold::Locks;

    use super::*;
    use crate::ledger::Ledger;

    #[test]
    fn of_much_output_the_last_lines_are_kept() {
        let mut output: String = (0..5000).map(|line| format!("line {line} ä\n")).collect();
        shorten(&mut output);
        assert!(output.len() <= LONGEST_OUTPUT && output.starts_with("line ") && output.ends_with("line 4999 ä\n"));
        let mut one_line = "ä".repeat(LONGEST_OUTPUT);
        shorten(&mut one_line);
        assert_eq!(one_line, "ä".repeat(LONGEST_OUTPUT / 2));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record { reason: Some("exit 3".into()), ..Record::of(State::Failed, "web-1/7/backup") };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        assert_eq!(text, r#"{"state":"failed","node":"web-1/7/backup","attempts":0,"reason":"exit 3"}"#);
    }

    #[tokio::test]
    async fn a_record_fits_into_a_note_whatever_is_in_it() {
        let locks = Locks::over(std::sync::Arc::new(leasehold::stores::Memory::default()));
        let long = "\u{1b}".repeat(100_000);
        let mut record =
            Record { asked: Some(long.clone()), reason: Some(long.clone()), ..Record::of(State::Failed, &long) };
        record.output = long;
        let note = Ledger::of(&locks, "job").unwrap().note("1", record).unwrap();
        note.check().unwrap();
        let read: Record = serde_json::from_str(&note.text).unwrap();
        assert!(read.output.len() == LONGEST_OUTPUT && read.reason.unwrap().ends_with("\u{1b}…"));
    }
}
