//! The scripts: one for each operation, called by their hash.

use std::sync::{Arc, LazyLock, OnceLock};

use super::connection::Session;
use super::keys::Keys;

/// A script, as servers know it that understand its first line, and as the others do. Put together and hashed once it is
/// needed: few of them are, and all together take milliseconds, which a command that takes one lock would be late by.
#[derive(Debug)]
pub(super) struct Script {
    pub promise: Promise,
    flags: &'static str,
    file: &'static str,
    flagged: OnceLock<Code>,
    plain: OnceLock<Code>,
}

/// A text and its hash.
#[derive(Debug)]
struct Code {
    text: String,
    hash: String,
}

/// What a script's answer promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    Grant,
    Renewal,
    /// One under a route: the script itself compares which data set this is.
    Routed,
    /// What is remembered: by the server that is meant.
    Memory,
    None,
}

impl Promise {
    /// Whether an answer holds one.
    pub fn is_in(self, answer: &redis::Value) -> bool {
        match (self, answer) {
            (Self::Grant | Self::Routed, redis::Value::Array(fields)) => fields.first() == Some(&redis::Value::Int(1)),
            (Self::Grant, redis::Value::Int(_)) => true,
            (promise, _) => matches!(promise, Self::Renewal | Self::Routed),
        }
    }

    /// Whether it rests on what the server is.
    pub fn asks_who_it_is(self) -> bool {
        matches!(self, Self::Grant | Self::Memory)
    }

    /// Whether it is waited for that replicas have it.
    pub fn waits_for_replicas(self) -> bool {
        matches!(self, Self::Grant | Self::Renewal | Self::Routed)
    }
}

/// The scripts of a store.
#[derive(Debug)]
pub(super) struct Scripts {
    pub acquire: Script,
    pub leave: Script,
    pub renew: Script,
    pub release: Script,
    pub inspect: Script,
    pub waiters: Script,
    pub revoke: Script,
    pub reset: Script,
    pub notes: NoteScripts,
    pub member: MemberScripts,
    pub primary: PrimaryScripts,
}

/// What is done with notes.
#[derive(Debug)]
pub(super) struct NoteScripts {
    pub note: Script,
    pub notes: Script,
    pub erase: Script,
}

/// What a member of a quorum is asked beside them.
#[derive(Debug)]
pub(super) struct MemberScripts {
    pub ratify: Script,
    pub conclude: Script,
    pub recall: Script,
    pub adopt: Script,
    pub announce: Script,
    pub found: Script,
    pub names: Script,
    pub fill: Script,
}

/// What the primary of a fallback is asked beside them.
#[derive(Debug)]
pub(super) struct PrimaryScripts {
    pub claim: Script,
    pub renew_under: Script,
    pub carry: Script,
    pub serves: Script,
    pub raise: Script,
    pub reached: Script,
}

macro_rules! script {
    ($file:literal, $promise:ident, $flags:expr) => {
        Script::new(Promise::$promise, $flags, include_str!(concat!("scripts/", $file)))
    };
}

/// The first line (Redis 7 and later): with one, a replica answers READONLY before the script begins, and not what it
/// happens to know; and a server that is full refuses all but those which may write all the same.
const FLAGS: &str = "#!lua";
const WHEN_FULL_TOO: &str = " flags=allow-oom";

/// What all scripts begin with, and what a script takes in where it says so. Not at its beginning: a script that is
/// done before it needs them doesn't pay for making the functions. Whole scripts come first, for they take in others.
const START: &str = include_str!("scripts/start.lua");
const PARTS: [(&str, &str); 17] = [
    ("--@acquire\n", include_str!("scripts/acquire.lua")),
    ("--@release\n", include_str!("scripts/release.lua")),
    ("--@renew\n", include_str!("scripts/renew.lua")),
    ("--@clock\n", include_str!("scripts/clock.lua")),
    ("--@time\n", include_str!("scripts/time.lua")),
    ("--@tokens\n", include_str!("scripts/tokens.lua")),
    ("--@standing\n", include_str!("scripts/standing.lua")),
    ("--@queue\n", include_str!("scripts/queue.lua")),
    ("--@line\n", include_str!("scripts/line.lua")),
    ("--@ending\n", include_str!("scripts/ending.lua")),
    ("--@due\n", include_str!("scripts/due.lua")),
    ("--@begun\n", include_str!("scripts/begun.lua")),
    ("--@life\n", include_str!("scripts/life.lua")),
    ("--@since\n", include_str!("scripts/since.lua")),
    ("--@whole\n", include_str!("scripts/whole.lua")),
    ("--@incarnation\n", include_str!("scripts/incarnation.lua")),
    ("--@tag\n", include_str!("scripts/tag.lua")),
];

/// Those of all stores of this process.
static SCRIPTS: LazyLock<Arc<Scripts>> = LazyLock::new(|| Arc::new(Scripts::new()));

impl Scripts {
    pub fn shared() -> Arc<Self> {
        Arc::clone(&SCRIPTS)
    }

    fn new() -> Self {
        Self {
            acquire: script!("acquire.lua", Grant, ""),
            leave: script!("leave.lua", None, WHEN_FULL_TOO),
            renew: script!("renew_batch.lua", Renewal, WHEN_FULL_TOO),
            release: script!("release.lua", None, WHEN_FULL_TOO),
            inspect: script!("inspect.lua", None, WHEN_FULL_TOO),
            waiters: script!("waiters.lua", None, WHEN_FULL_TOO),
            revoke: script!("revoke.lua", None, WHEN_FULL_TOO),
            reset: script!("reset.lua", None, WHEN_FULL_TOO),
            notes: NoteScripts {
                note: script!("note.lua", None, ""),
                notes: script!("notes.lua", None, WHEN_FULL_TOO),
                erase: script!("erase.lua", None, WHEN_FULL_TOO),
            },
            member: MemberScripts {
                ratify: script!("ratify.lua", Grant, ""),
                conclude: script!("conclude.lua", None, WHEN_FULL_TOO),
                recall: script!("recall.lua", Memory, WHEN_FULL_TOO),
                adopt: script!("adopt.lua", Grant, ""),
                announce: script!("announce.lua", Grant, ""),
                found: script!("found.lua", Grant, ""),
                names: script!("names.lua", Memory, WHEN_FULL_TOO),
                fill: script!("fill.lua", Grant, ""),
            },
            primary: PrimaryScripts {
                claim: script!("claim.lua", Routed, ""),
                renew_under: script!("renew_under.lua", Routed, WHEN_FULL_TOO),
                carry: script!("carry.lua", Routed, ""),
                serves: script!("serves.lua", None, WHEN_FULL_TOO),
                raise: script!("raise.lua", None, WHEN_FULL_TOO),
                reached: script!("reached.lua", None, WHEN_FULL_TOO),
            },
        }
    }

    /// Those that every connection begins with. The others are told where they are called: few stores need them.
    pub fn common(&self) -> [&Script; 6] {
        [&self.acquire, &self.leave, &self.renew, &self.release, &self.inspect, &self.revoke]
    }
}

impl Script {
    fn new(promise: Promise, flags: &'static str, file: &'static str) -> Self {
        Self { promise, flags, file, flagged: OnceLock::new(), plain: OnceLock::new() }
    }

    fn code(&self, knows_flags: bool) -> &Code {
        if knows_flags {
            self.flagged.get_or_init(|| Code::new(format!("{FLAGS}{}\n{}", self.flags, self.text())))
        } else {
            self.plain.get_or_init(|| Code::new(self.text()))
        }
    }

    fn text(&self) -> String {
        PARTS.iter().fold(format!("{START}{}", self.file), |text, (mark, part)| text.replace(mark, part))
    }

    /// Which commands stand in a line, counted from one: `ZADD`, or `ZREM or HDEL`.
    pub fn commands_in(&self, line: usize, knows_flags: bool) -> Option<String> {
        let line = self.code(knows_flags).text.lines().nth(line.checked_sub(1)?)?;
        let commands: Vec<_> = commands(line).collect();
        (!commands.is_empty()).then(|| commands.join(" or "))
    }

    /// The command that makes the server know it.
    pub fn load(&self, knows_flags: bool) -> redis::Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.code(knows_flags).text);
        load
    }

    /// The command that runs it for a name, but for the arguments.
    pub fn call(&self, session: Session<'_>, keys: &Keys) -> redis::Cmd {
        let mut call = self.begin(session, keys.count(), 16, 64 * keys.count() + 256);
        keys.each(|key| _ = call.arg(key));
        call
    }

    /// The same for whatever keys: so many, which are to follow, and so many arguments. Made as large as it is likely to
    /// become: grown bit by bit, it costs as much again.
    pub fn begin(&self, session: Session<'_>, keys: usize, arguments: usize, bytes: usize) -> redis::Cmd {
        let mut call = redis::Cmd::with_capacity(keys + arguments + 3, bytes);
        call.arg("EVALSHA").arg(&self.code(session.knows_flags).hash).arg(keys);
        call
    }
}

/// The commands that some text of a script calls.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    text.split("call('").skip(1).filter_map(|behind| behind.split('\'').next())
}

impl Code {
    fn new(text: String) -> Self {
        Self { hash: redis::Script::new(&text).get_hash().to_owned(), text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by an adversary: with just these rights a scheduler ran no tick.
    #[test]
    fn the_page_names_the_right_for_each_command_of_a_script() {
        let page = include_str!("../../../../../docs/stores/redis.md");
        let rights = page.split("## Rights").nth(1).expect("it is there").split("\n## ").next().unwrap_or_default();
        let named: Vec<_> = rights.split(|c: char| c.is_whitespace() || "`,|".contains(c)).collect();
        let scripts = &Scripts::new();
        let NoteScripts { note, notes, erase } = &scripts.notes;
        let MemberScripts { ratify, conclude, recall, adopt, announce, found, names, fill } = &scripts.member;
        let PrimaryScripts { claim, renew_under, carry, serves, raise, reached } = &scripts.primary;
        let rest =
            [&scripts.waiters, &scripts.reset, note, notes, erase, ratify, conclude, recall, adopt, announce, found]
                .into_iter()
                .chain([names, fill, claim, renew_under, carry, serves, raise, reached]);
        for script in scripts.common().into_iter().chain(rest) {
            for command in commands(&script.text()) {
                let right = format!("+{}", command.to_lowercase());
                assert!(named.contains(&&*right), "{right} is not on the page");
            }
        }
    }

    #[test]
    fn a_line_tells_its_commands() {
        let script = Script::new(Promise::None, "", "call('ZREM', K[1], id) call('HDEL', K[2], id)\nreturn 1\n");
        let before = START.lines().count();
        assert_eq!(script.commands_in(before + 1, false).as_deref(), Some("ZREM or HDEL"));
        assert_eq!(script.commands_in(before + 2, true).as_deref(), Some("ZREM or HDEL"));
        assert_eq!((script.commands_in(before + 2, false), script.commands_in(0, false)), (None, None));
    }
}
