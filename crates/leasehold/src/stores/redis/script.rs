//! The scripts: one for each operation, called by their hash.

/// A script and its hash.
#[derive(Debug)]
pub(super) struct Script {
    code: &'static str,
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

macro_rules! with_common {
    ($file:literal) => {
        Script::new(concat!(include_str!("scripts/common.lua"), include_str!($file)))
    };
}

impl Scripts {
    pub fn new() -> Self {
        Self {
            acquire: with_common!("scripts/acquire.lua"),
            leave: with_common!("scripts/leave.lua"),
            renew: Script::new(include_str!("scripts/renew.lua")),
            release: with_common!("scripts/release.lua"),
            inspect: with_common!("scripts/inspect.lua"),
            revoke: with_common!("scripts/revoke.lua"),
        }
    }

    pub fn all(&self) -> [&Script; 6] {
        [&self.acquire, &self.leave, &self.renew, &self.release, &self.inspect, &self.revoke]
    }
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }

    /// The command that makes the server know it.
    pub fn load(&self) -> redis::Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        load
    }

    /// The command that runs it, but for the arguments.
    pub fn call(&self, keys: &[String]) -> redis::Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash).arg(keys.len()).arg(keys);
        call
    }
}
