//! MariaDB: a job whose process is killed at each thing that it says to its database.

use leasehold_schedule::{Failure, Job, Run, Schedule};
use leasehold_testkit::servers::MariaDb;
use sqlx::{Connection, MySqlConnection};

use crate::gate::{End, Gate};
use crate::stage::{self, Act, CUSTOMERS, LONG_TTL, SOON, Stage, TTL, all};

pub fn work() {
    stage::work(billing, String::new);
}

fn billing(name: &str, schedule: Schedule, database: &str) -> Job {
    let database = database.to_owned();
    let job = Job::new(name, schedule, move |run| {
        let database = database.clone();
        Box::pin(async move { bill(run, &database).await })
    });
    job.at_least_once(true)
}

async fn bill(run: &Run, database: &str) -> Result<(), Failure> {
    let mut database = MySqlConnection::connect(database).await?;
    let mut tx = database.begin().await?;
    let completed = run.complete_in(&mut tx).await?;
    for customer in CUSTOMERS {
        let insert = sqlx::query("insert into invoice(job, customer) values(?, ?)").bind(run.job()).bind(customer);
        insert.execute(&mut *tx).await?;
    }
    completed.commit(tx).await?;
    Ok(())
}

#[test]
fn killed_at_each_statement_on_mariadb() {
    let server = MariaDb::start();
    server.sql("create table invoice(job varchar(200), customer varchar(20))");
    let stage = Stage {
        store: server.url(),
        job: &|name, schedule| billing(name, schedule, &server.url()),
        invoices: &|name| {
            let found = server.sql(&format!("select customer from invoice where job = '{name}' order by 1"));
            found.lines().map(str::to_owned).collect()
        },
    };
    let begin =
        |ttl, act: &Act, gate: &Gate| stage.begin_for(ttl, act, "mariadb", &[("DATABASE", &gate.url(&server.url()))]);

    let (act, gate) = (Act::new("unharmed"), Gate::to(&server.address(), None));
    assert!(begin(LONG_TTL, &act, &gate).hear("ended", SOON).starts_with("Done"));
    assert_eq!((stage.invoices)(&act.name), CUSTOMERS);
    // A login, BEGIN, the fence, a look, the completion, an INSERT three times, COMMIT; what comes for the first time is prepared.
    let words = gate.words();
    assert!((13..=24).contains(&words), "{words}");

    let ends: Vec<_> = (1..=words).flat_map(|nth| [End::BeforeItIsHeard(nth), End::BeforeItIsAnswered(nth)]).collect();
    all(&ends, |end| {
        let (act, gate) = (Act::new(&format!("{end:?}")), Gate::to(&server.address(), Some(end)));
        let mut worker = begin(TTL, &act, &gate);
        gate.wait(SOON);
        worker.kill();
        drop(gate);
        stage.goes_on(&act);
    });
}
