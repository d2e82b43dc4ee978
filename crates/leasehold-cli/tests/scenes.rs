//! The scenes of `examples/scenes.sh` come out as its transcript says, and the README's main job runs.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A path in which `leasehold` is the binary under test.
fn path() -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_scenes_come_out_as_their_transcript_says() {
    let output = Command::new("sh").arg(root().join("examples/scenes.sh")).env("PATH", path()).output().unwrap();
    let transcript = std::fs::read_to_string(root().join("examples/scenes.txt")).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), transcript, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_readmes_job_runs_and_a_second_one_is_told_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = || {
        let mut command = Command::new("sh");
        // As in the README, from the repository's folder; a shorter countdown.
        let shorter = "sed 's/^i=10/i=4/' examples/backup.sh >\"$DIR/backup.sh\" && chmod +x \"$DIR/backup.sh\"";
        let job = "exec leasehold run nightly-backup -- \"$DIR/backup.sh\"";
        command.arg("-c").arg(format!("{shorter} && {job}")).current_dir(root());
        command.env("PATH", path()).env("DIR", dir.path()).env("TMPDIR", dir.path());
        command.env("LEASEHOLD_STORE", format!("sqlite://{}/locks.db", dir.path().display()));
        command
    };
    let first = run().stdout(std::process::Stdio::piped()).spawn().unwrap();
    let target = |name: &str| dir.path().join(name);
    leasehold_testkit::process::eventually("the job has begun", std::time::Duration::from_secs(20), || {
        std::fs::read_dir(dir.path())
            .unwrap()
            .any(|file| file.unwrap().file_name().to_string_lossy().contains(".tar.gz."))
    });
    let second = run().output().unwrap();
    assert_eq!(second.status.code(), Some(75));
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(told.contains("nightly-backup: held by ") && told.contains("/backup.sh for "), "{told}");
    let first = first.wait_with_output().unwrap();
    assert!(first.status.success());
    assert!(String::from_utf8_lossy(&first.stdout).contains("done: "));
    assert!(target("leasehold-example-backup.tar.gz").exists());
}
