//! One file.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

fn url(directory: &TempDir, namespace: &str) -> String {
    format!("sqlite:{}/locks.db?namespace={namespace}", directory.path().display())
}

fn open(directory: &TempDir) -> Arc<dyn Store> {
    leasehold::stores::open(&url(directory, "default")).unwrap()
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn the_contract() {
    let open = |directory: &TempDir, [namespace, _]: [&str; 2]| {
        Subject::from(leasehold::stores::open(&url(directory, namespace)).unwrap())
    };
    run_all(&directory(), open, ARBITER);
}

/// Over connections of the store's own thread.
#[test]
fn the_contract_where_every_commit_waits_for_the_disk() {
    let open = |directory: &TempDir, [namespace, _]: [&str; 2]| {
        let url = format!("{}&synchronous=full", url(directory, namespace));
        let store = leasehold::stores::open(&url).unwrap();
        Subject::from(store.for_keeper())
    };
    run_all(&directory(), open, ARBITER);
}

#[tokio::test]
async fn it_answers_as_memory_does() {
    let directory = directory();
    for seed in 0..60 {
        let store = leasehold::stores::open(&url(&directory, &format!("seed-{seed}"))).unwrap();
        twins::answers_as_memory_does(&store, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_connections_one_switches() {
    let directory = directory();
    stories::one_of_two_switches(&open(&directory), &open(&directory).for_keeper()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_meets_a_switch() {
    let directory = directory();
    stories::a_claim_meets_a_switch(&open(&directory), &open(&directory).for_keeper()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_carry_meets_a_claim() {
    let directory = directory();
    stories::a_carry_meets_a_claim(&open(&directory), &open(&directory).for_keeper()).await;
}

#[tokio::test]
async fn all_is_there_for_the_next_process() {
    let directory = directory();
    stories::all_is_there_after_restarts(async || open(&directory)).await;
}

#[tokio::test]
async fn a_backup_is_repaired() {
    let directory = directory();
    let [file, backup] = ["locks.db", "backup.db"].map(|name| directory.path().join(name));
    let beside = |end: &str| PathBuf::from(format!("{}{end}", file.display()));
    let save = async || {
        let db = rusqlite::Connection::open(&file).unwrap();
        db.execute("vacuum into ?1", [backup.to_str().unwrap()]).unwrap();
    };
    let restore = async || {
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(beside(end));
        }
        fs::copy(&backup, &file).unwrap();
        open(&directory)
    };
    stories::a_backup_is_repaired(save, restore, open(&directory)).await;
}

#[tokio::test]
async fn namespaces_are_apart() {
    let directory = directory();
    let other = leasehold::stores::open(&url(&directory, "other")).unwrap();
    stories::namespaces_are_apart(&open(&directory), &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_the_way_there_and_back() {
    let directory = directory();
    stories::a_hold_survives_the_way_there_and_back(|| open(&directory)).await;
}
