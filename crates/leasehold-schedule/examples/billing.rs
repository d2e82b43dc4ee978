//! Invoices, each written exactly once, on as many machines as run this:
//!
//! ```text
//! cargo run -p leasehold-schedule --example billing --features fence-tokio-postgres -- postgres://jobs@db/jobs
//! ```
//!
//! The locks are in the database that the invoices are written to. So the transaction that writes them says that the tick is
//! done, too: a machine that dies before its commit leaves the tick to another, and one that dies after it doesn't. The tests
//! kill it at each statement (`tests/exactly_once`).

use leasehold::Locks;
use leasehold_schedule::{Failure, Job, Run, Schedule, Scheduler};
use tokio_postgres::{NoTls, connect};

const CUSTOMERS: [&str; 3] = ["ada", "edsger", "grace"];

/// The table that it writes to.
pub const INVOICES: &str = "create table if not exists invoice(job text, customer text)";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let database = std::env::args().nth(1).ok_or("which database? give its URL, as postgres://jobs@db/jobs")?;
    let (client, connection) = connect(&database, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(INVOICES).await?;

    let monthly = Schedule::parse("0 3 1 * *", Some("Europe/London"))?;
    let locks = Locks::connect(&database).await?;
    Scheduler::over(locks).job(billing("billing", monthly, &database))?.run(std::future::pending()).await;
    Ok(())
}

/// The job: what a machine has begun and not committed another does again.
pub fn billing(name: &str, schedule: Schedule, database: &str) -> Job {
    let database = database.to_owned();
    let job = Job::new(name, schedule, move |run| {
        let database = database.clone();
        Box::pin(async move { bill(run, &database).await })
    });
    job.at_least_once(true)
}

async fn bill(run: &Run, database: &str) -> Result<(), Failure> {
    let (mut client, connection) = connect(database, NoTls).await?;
    tokio::spawn(connection);
    let tx = client.transaction().await?;
    // First, so that whoever has lost the tick does nothing in vain.
    let completed = run.complete_in(&tx).await?;
    for customer in CUSTOMERS {
        tx.execute("insert into invoice(job, customer) values($1, $2)", &[&run.job(), &customer]).await?;
    }
    completed.commit(tx).await?;
    Ok(())
}
