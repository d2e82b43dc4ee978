//! A clock of a server's own, which can be wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is loaded into the server. `faketime` can't be: it and the allocator of Debian's Redis each want the other to begin.
const SOURCE: &str = include_str!("clock.c");

/// What a server takes for the time of day: the machine's, or another.
#[derive(Debug)]
pub(super) struct OwnClock {
    library: PathBuf,
    ahead: PathBuf,
}

impl OwnClock {
    /// In the folder of its server. Shows what the machine's does.
    ///
    /// # Panics
    /// If there is no C compiler.
    pub(super) fn in_folder(folder: &Path) -> Self {
        let [source, library, ahead] = ["clock.c", "clock.so", "clock"].map(|name| folder.join(name));
        fs::write(&source, SOURCE).expect("the directory is ours");
        let mut compile = Command::new("cc");
        compile.args(["-std=c99", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        let output = compile.output().expect("a C compiler, cc, can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { library, ahead }
    }

    /// The server that is started by this command goes by it.
    pub(super) fn rule(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("LEASEHOLD_CLOCK", &self.ahead);
    }

    /// From now on it is so many milliseconds ahead of the machine's.
    pub(super) fn set_ahead(&self, millis: i64) {
        let next = self.ahead.with_extension("next");
        fs::write(&next, millis.to_string()).expect("the directory is ours");
        // Who reads it must not find half of it.
        fs::rename(&next, &self.ahead).expect("the directory is ours");
    }
}
