//! PostgreSQL: the job of the example, whose process is killed at each thing that it says to its database.

use leasehold_testkit::servers::Postgres;

use crate::billing::{INVOICES, billing};
use crate::gate::{End, Gate};
use crate::stage::{self, Act, CUSTOMERS, LONG_TTL, SOON, Stage, TTL, all};

pub fn work() {
    stage::work(billing, String::new);
}

#[test]
fn killed_at_each_statement_on_postgresql() {
    let server = Postgres::start();
    server.sql(INVOICES);
    let stage = Stage {
        store: server.url(),
        job: &|name, schedule| billing(name, schedule, &server.url()),
        invoices: &|name| {
            let found = server.sql(&format!("select customer from invoice where job = '{name}' order by 1"));
            found.lines().map(str::to_owned).collect()
        },
    };
    let begin =
        |ttl, act: &Act, gate: &Gate| stage.begin_for(ttl, act, "postgres", &[("DATABASE", &gate.url(&server.url()))]);

    let (act, gate) = (Act::new("unharmed"), Gate::to(&server.address(), None));
    assert!(begin(LONG_TTL, &act, &gate).hear("ended", SOON).starts_with("Done"));
    assert_eq!((stage.invoices)(&act.name), CUSTOMERS);
    // A login, BEGIN, the fence, the completion, three times an INSERT, which is prepared first, COMMIT.
    let words = gate.words();
    assert!((11..=20).contains(&words), "{words}");

    let ends: Vec<_> = (1..=words).flat_map(|nth| [End::BeforeItIsHeard(nth), End::BeforeItIsAnswered(nth)]).collect();
    all(&ends, |end| {
        let (act, gate) = (Act::new(&format!("{end:?}")), Gate::to(&server.address(), Some(end)));
        let mut worker = begin(TTL, &act, &gate);
        gate.wait(SOON);
        worker.kill();
        drop(gate);
        stage.goes_on(&act);
    });
    assert_eq!(server.errors(), Vec::<String>::new());
}
