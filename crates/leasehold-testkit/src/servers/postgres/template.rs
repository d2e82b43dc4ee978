//! A new database cluster, made once and copied.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{find, user};

/// Copies a cluster that has nothing in it to `data`: making one takes seconds, a copy a tenth of one.
pub(super) fn copy_to(data: &Path) {
    run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(template()).arg(data));
}

/// The cluster that is copied. It stays for later test processes.
fn template() -> PathBuf {
    let initdb = find("initdb");
    let release = initdb.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let home = std::env::temp_dir().join(format!("leasehold-template{release}"));
    let (template, unfinished) = (home.join("data"), home.join("new"));
    if fs::create_dir(&home).is_ok() {
        user().own(&home).expect("a new folder is ours to give");
    }
    let lock = File::create(home.join("lock")).expect("the folder can be written");
    lock.lock().expect("files can be locked");
    if !template.is_dir() {
        let _ = fs::remove_dir_all(&unfinished); // Whoever began it was killed.
        make(&unfinished);
        fs::rename(&unfinished, &template).expect("the folder can be written");
    }
    template
}

/// Makes one of its own, which is no copy of any other.
pub(super) fn make(data: &Path) {
    let mut command = Command::new(find("initdb"));
    command.args(["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]);
    command.args(["--wal-segsize=1", "-D"]).arg(data).current_dir("/");
    user().run(&mut command);
    run(&mut command);
}

pub(super) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} can't be started: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
