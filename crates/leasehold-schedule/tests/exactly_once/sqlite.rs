//! SQLite: a job whose process is killed before and after each of its statements, and within its commit.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use leasehold::Locks;
use leasehold_schedule::{Failure, Job, Run, Schedule};
use leasehold_testkit::process::{argument, say};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tempfile::TempDir;

use crate::stage::{self, Act, CUSTOMERS, LONG_TTL, SOON, Stage, TTL, all, block_on};

/// How many places this process has passed where it may be stopped.
static PASSED: AtomicUsize = AtomicUsize::new(0);

/// Where a process ends that is not to be stopped.
const NOWHERE: usize = usize::MAX;

pub fn work() {
    work_as(bill_and_complete);
}

pub fn work_untold() {
    work_as(bill_alone);
}

fn work_as(bill: Bill) {
    let nth = argument("STOP").parse().unwrap();
    let job = |name: &str, schedule, file: &str| billing(name, schedule, file, nth, bill);
    stage::work(job, || PASSED.load(SeqCst).to_string());
}

/// Its name, a transaction, and what to do between two statements.
type Bill = fn(&Run, Transaction<'_>, &dyn Fn()) -> Result<(), Failure>;

fn billing(name: &str, schedule: Schedule, file: &str, stop: usize, bill: Bill) -> Job {
    let file = file.to_owned();
    let job = Job::new(name, schedule, move |run| {
        let file = file.clone();
        Box::pin(async move { in_a_transaction(run, &file, stop, bill) })
    });
    job.at_least_once(true)
}

fn in_a_transaction(run: &Run, file: &str, stop: usize, bill: Bill) -> Result<(), Failure> {
    let pass = move || stop_at(stop);
    pass();
    let mut database = Connection::open(file)?;
    // The last instant before the commit.
    database.commit_hook(Some(move || {
        pass();
        false
    }))?;
    let tx = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    pass();
    for customer in CUSTOMERS {
        tx.execute("insert into invoice(job, customer) values(?1, ?2)", [run.job(), customer])?;
        pass();
    }
    bill(run, tx, &pass)?;
    pass();
    Ok(())
}

fn bill_and_complete(run: &Run, tx: Transaction<'_>, pass: &dyn Fn()) -> Result<(), Failure> {
    let completed = run.complete_in(&tx)?;
    pass();
    Ok(completed.commit(tx)?)
}

/// As it was done before: the tick is done when its run has ended.
fn bill_alone(_run: &Run, tx: Transaction<'_>, pass: &dyn Fn()) -> Result<(), Failure> {
    pass();
    Ok(tx.commit()?)
}

/// At this place the process waits to be killed.
fn stop_at(stop: usize) {
    if PASSED.fetch_add(1, SeqCst) == stop {
        say("stopped");
        thread::sleep(Duration::from_secs(600));
    }
}

/// A file with the locks and the invoices in it.
pub struct File(TempDir);

impl File {
    pub async fn made() -> Self {
        let file = Self(tempfile::tempdir().unwrap());
        // Leasehold makes the file: it refuses one that was another program's.
        Locks::connect(&file.url()).await.unwrap().inspect("job").await.unwrap();
        file.open().execute_batch("create table invoice(job, customer)").unwrap();
        file
    }

    pub fn path(&self) -> String {
        self.0.path().join("jobs.db").display().to_string()
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.path())
    }

    pub fn open(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    pub fn invoices(&self, name: &str) -> Vec<String> {
        let database = self.open();
        let mut found = database.prepare("select customer from invoice where job = ?1 order by 1").unwrap();
        found.query_map([name], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

#[test]
fn killed_at_each_statement_on_sqlite() {
    let file = block_on(File::made());
    let stage = Stage {
        store: file.url(),
        job: &|name, schedule| billing(name, schedule, &file.path(), NOWHERE, bill_and_complete),
        invoices: &|name| file.invoices(name),
    };
    let begin = |ttl, act: &Act, stop: usize| {
        stage.begin_for(ttl, act, "sqlite", &[("DATABASE", &file.path()), ("STOP", &stop.to_string())])
    };
    let act = Act::new("unharmed");
    let ended = begin(LONG_TTL, &act, NOWHERE).hear("ended", SOON);
    assert_eq!(ended, "Done 8", "and so many places where it may be stopped");
    assert_eq!(file.invoices(&act.name), CUSTOMERS);
    all(&(0..8).collect::<Vec<_>>(), |stop| {
        let act = Act::new(&format!("stopped at {stop}"));
        let mut worker = begin(TTL, &act, stop);
        worker.hear("stopped", SOON);
        worker.kill();
        stage.goes_on(&act);
    });
}

/// So that it is known what all this is for, and that it would be seen: at least once is not exactly once.
#[test]
fn without_it_one_that_is_killed_after_its_commit_is_done_twice() {
    let file = block_on(File::made());
    let stage = Stage {
        store: file.url(),
        job: &|name, schedule| billing(name, schedule, &file.path(), NOWHERE, bill_alone),
        invoices: &|name| file.invoices(name),
    };
    let act = Act::new("twice");
    let mut worker = stage.begin(&act, "sqlite_untold", &[("DATABASE", &file.path()), ("STOP", "7")]);
    worker.hear("stopped", SOON);
    worker.kill();
    stage.another_node(&act);
    assert_eq!(file.invoices("twice"), ["ada", "ada", "edsger", "edsger", "grace", "grace"]);
}
