//! The data of a server that nobody has used, made once and copied.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::SMALL;
use super::user;
use crate::servers::program;

/// Copies it to `data`: making it takes seconds, a copy a fifth of one.
pub(super) fn copy_to(data: &Path) {
    run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(template()).arg(data));
}

/// The data that is copied. It stays for later test processes.
fn template() -> PathBuf {
    let home = std::env::temp_dir().join("leasehold-template-mariadb");
    let (template, unfinished) = (home.join("data"), home.join("new"));
    if fs::create_dir(&home).is_ok() {
        user().own(&home).expect("a new folder is ours to give");
    }
    let lock = File::create(home.join("lock")).expect("the folder can be written");
    lock.lock().expect("files can be locked");
    if !template.is_dir() {
        let _ = fs::remove_dir_all(&unfinished); // Whoever began it was killed.
        let mut install = Command::new(program::find("mariadb-install-db", "mariadb-server"));
        install.arg("--no-defaults").args(SMALL).arg(format!("--datadir={}", unfinished.display()));
        install.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
        user().run(install.current_dir(&home));
        run(&mut install);
        fs::rename(&unfinished, &template).expect("the folder can be written");
    }
    template
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} can't be started: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
