//! The scripts: one for each operation, called by their hash.

/// A script and its hash.
#[derive(Debug)]
pub(super) struct Script {
    code: String,
    hash: String,
}

/// The scripts of a store.
#[derive(Debug)]
pub(super) struct Scripts {
    pub acquire: Script,
    pub leave: Script,
    pub renew: Script,
    pub release: Script,
    pub inspect: Script,
    pub revoke: Script,
}

macro_rules! script {
    ($file:literal) => {
        Script::new(include_str!(concat!("scripts/", $file)))
    };
}

/// What all scripts begin with, and what a script takes in where it says so. Not at its beginning: a script that is
/// done before it needs them doesn't pay for making the functions.
const START: &str = include_str!("scripts/start.lua");
const PARTS: [(&str, &str); 2] =
    [("--@clock\n", include_str!("scripts/clock.lua")), ("--@common\n", include_str!("scripts/common.lua"))];

impl Scripts {
    pub fn new() -> Self {
        Self {
            acquire: script!("acquire.lua"),
            leave: script!("leave.lua"),
            renew: script!("renew.lua"),
            release: script!("release.lua"),
            inspect: script!("inspect.lua"),
            revoke: script!("revoke.lua"),
        }
    }

    pub fn all(&self) -> [&Script; 6] {
        [&self.acquire, &self.leave, &self.renew, &self.release, &self.inspect, &self.revoke]
    }
}

impl Script {
    fn new(file: &str) -> Self {
        let code = PARTS.iter().fold(format!("{START}{file}"), |code, (mark, part)| code.replace(mark, part));
        Self { hash: redis::Script::new(&code).get_hash().to_owned(), code }
    }

    /// The command that makes the server know it.
    pub fn load(&self) -> redis::Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.code);
        load
    }

    /// The command that runs it, but for the arguments.
    pub fn call(&self, keys: &[String]) -> redis::Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash).arg(keys.len()).arg(keys);
        call
    }
}
