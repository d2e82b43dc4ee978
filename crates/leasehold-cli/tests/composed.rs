//! The command over stores made of stores: a quorum of Redis servers, and a Redis with a database behind it.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Bench, Going};
use leasehold::stores::fallback::{Fallback, Settings};
use leasehold::{Locks, Outcome, stores};
use leasehold_testkit::process::eventually;
use leasehold_testkit::proxy::{Direction, Proxy};
use leasehold_testkit::servers::{Postgres, Redis};
use nix::sys::signal::Signal;
use serde_json::Value;

/// More than a switch takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(40);

/// A Redis and a PostgreSQL behind links that can fail, with short spans; they have to outlast a busy machine's pauses.
struct Two {
    primary: Redis,
    arbiter: Postgres,
    to_primary: Proxy,
    to_arbiter: Proxy,
    bench: Bench,
}

impl Two {
    fn start() -> Self {
        Self::that_goes_back_after("2s")
    }

    fn that_goes_back_after(up_after: &str) -> Self {
        let (primary, arbiter) = (Redis::start(), Postgres::start());
        let (to_primary, to_arbiter) = (Proxy::to(primary.address()), Proxy::to(arbiter.address()));
        let bench = Bench::new();
        let file = format!(
            "default = \"jobs\"\n[stores.jobs.fallback]\nprimary = \"{}\"\narbiter = \"{}\"\n\
             route_lease = \"5s\"\ndown_after = \"1s\"\nup_after = \"{up_after}\"\n",
            to_primary.url(&primary.url()),
            to_arbiter.url(&arbiter.url()),
        );
        bench.write("leasehold.toml", &file);
        Self { primary, arbiter, to_primary, to_arbiter, bench }
    }

    fn run(&self, args: &[&str]) -> common::Ran {
        common::ran(&mut self.bench.bare(args))
    }

    /// A job that says that it is there, and ends once the file `enough` is.
    fn job(&self) -> Going {
        let script = "echo begun; until [ -e enough ]; do sleep 0.05; done";
        let job = Going::start(&mut self.bench.bare(["run", "a", "-v", "--wait=40s", "--", "sh", "-c", script]));
        assert_eq!(job.line(), "begun");
        job
    }

    fn ends(&self, job: Going) -> (i32, String) {
        self.bench.write("enough", "");
        job.end()
    }

    fn route(&self) -> Value {
        self.run(&["route", "--json"]).json()["route"].clone()
    }

    fn leads_to(&self, target: &str) {
        eventually(&format!("locks are in the {target}"), LIMIT, || {
            let route = self.route();
            route["target"] == target && route["state"] == "in_force"
        });
    }
}

#[test]
fn a_job_goes_on_while_the_primary_dies_and_comes_back() {
    let two = Two::start();
    let job = two.job();
    two.leads_to("primary");
    two.run(&["status", "a"]).says(&["a is held", "route    the primary"]);
    two.primary.kill();
    two.leads_to("arbiter");
    two.run(&["run", "a", "--", "touch", "ran"]).fails(75, &["a: held by"]);
    let doctor = two.run(&["doctor"]);
    assert!(doctor.code == 78 && doctor.stdout.contains("leads to the arbiter"), "{doctor:?}");
    two.primary.restart();
    two.leads_to("primary");
    two.run(&["run", "a", "--", "touch", "ran"]).fails(75, &["a: held by"]);
    let (code, told) = two.ends(job);
    assert!(code == 0 && !two.bench.path("ran").exists(), "{told}");
    for there_and_back in ["locks move to the arbiter (route 2)", "locks move to the primary (route 3)"] {
        assert_eq!(told.matches(there_and_back).count(), 1, "{told}");
    }
    two.run(&["run", "a", "--", "true"]).says(&[]);
}

/// It tries but once; but nobody would ever switch if all who try went away at the first error.
#[test]
fn a_run_that_does_not_wait_outlasts_the_switch() {
    let two = Two::start();
    two.run(&["run", "a", "--", "true"]).says(&[]);
    two.primary.kill();
    let ran = two.run(&["run", "a", "--", "echo", "ran"]);
    ran.says(&["ran"]);
    assert!(ran.stderr.contains("it is asked again for"), "{ran:?}");
    assert_eq!(two.route()["target"], "arbiter");
}

/// The same if it says nothing at all. Somebody else's hold is no outage, and told as soon as anybody can say so.
#[test]
fn a_run_that_does_not_wait_outlasts_a_silence() {
    let two = Two::start();
    let job = two.job();
    let asked = Instant::now();
    two.run(&["run", "a", "--", "touch", "ran"]).fails(75, &["a: held by"]);
    // So long it would be asked again, did nobody answer.
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    two.primary.pause();
    two.run(&["run", "b", "--", "echo", "ran"]).says(&["ran"]);
    assert_eq!(two.route()["target"], "arbiter");
    two.run(&["run", "a", "--", "touch", "ran"]).fails(75, &["a: held by"]);
    let slot = ["run", "s", "--once-per", "0 0 1 1 *", "--", "echo", "ran"];
    two.run(&slot).says(&["ran"]);
    let again = two.run(&slot);
    assert!(again.code == 0 && again.stdout.is_empty(), "{again:?}");
    two.primary.resume();
    let (code, told) = two.ends(job);
    assert!(code == 0 && !two.bench.path("ran").exists(), "{told}");
}

/// N07: one that has lost the primary while it ran, one that starts without it, and a program with the library of its own come to the
/// same lock.
#[test]
fn n07_whoever_falls_back_falls_back_to_the_same_lock() {
    let two = Two::start();
    let job = two.job();
    two.primary.kill();
    two.leads_to("arbiter");
    two.run(&["run", "a", "--", "touch", "ran"]).fails(75, &["a: held by"]);
    let settings = Settings::default().route_lease(Duration::from_secs(5));
    let open = |url: String| stores::open(&url).unwrap();
    let (primary, arbiter) = (open(two.to_primary.url(&two.primary.url())), open(two.arbiter.url()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = runtime.block_on(async {
        let library = Locks::over(Arc::new(Fallback::over(primary, arbiter.clone(), settings).unwrap()));
        let outcome = library.lock("a").try_acquire().await.unwrap();
        assert!(matches!(outcome, Outcome::Contended(_)), "{outcome:?}");
        arbiter.list().await.unwrap()
    });
    let names = held.iter().map(|holding| holding.name.as_str());
    // Whoever puts together what was counted has a lock for that.
    assert_eq!(names.filter(|name| *name != "leasehold:tally").collect::<Vec<_>>(), ["a"], "there is one key");
    let (code, told) = two.ends(job);
    assert!(code == 0 && !two.bench.path("ran").exists(), "{told}");
}

/// The lease lasts for a minute more, but nobody who stands still knows where the route leads.
#[test]
fn a_stopped_wrapper_does_not_outlive_its_route() {
    let two = Two::start();
    let script = "echo $$; exec sleep 100";
    let job = Going::start(&mut two.bench.bare(["run", "a", "--wait=40s", "--", "sh", "-c", script]));
    let pid: i32 = job.line().parse().unwrap();
    let started = Instant::now();
    job.send(Signal::SIGSTOP);
    let is_gone = || nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_err();
    eventually("the job is gone", LIMIT, is_gone);
    // Five seconds of the route lease; the rest is this machine's.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    job.send(Signal::SIGCONT);
    let (code, told) = job.end();
    assert_eq!(code, 76, "{told}");
}

#[test]
fn a_job_ends_when_nobody_can_say_where_the_locks_are() {
    let two = Two::start();
    let job = two.job();
    two.to_arbiter.blackhole(Direction::ToClient);
    let (code, told) = job.end();
    assert_eq!(code, 76, "{told}");
    two.to_arbiter.refuse();
    two.run(&["run", "a", "--on-down", "skip", "--", "touch", "ran"]).fails(0, &["this run is skipped"]);
    assert!(!two.bench.path("ran").exists());
}

/// Each of them is over long before the primary counts as back.
#[test]
fn runs_that_are_short_go_back_to_the_primary() {
    let two = Two::that_goes_back_after("8s");
    let run = || two.run(&["run", "a", "--wait=40s", "--", "true"]);
    run().says(&[]);
    two.primary.kill();
    run().says(&[]);
    two.leads_to("arbiter");
    two.primary.restart();
    let (mut longest, mut is_back) = (Duration::ZERO, false);
    eventually("the route leads back", LIMIT * 2, || {
        if two.route()["target"] == "arbiter" {
            let began = Instant::now();
            run().says(&[]);
            is_back = two.route()["target"] == "primary";
            // The one that goes back may have had to wait for that.
            longest = if is_back { longest } else { longest.max(began.elapsed()) };
        }
        is_back
    });
    assert!(longest < Duration::from_secs(8), "one of them was there all the time: {longest:?}");
    run().says(&[]);
}

#[test]
fn a_route_that_was_lost_is_told_with_the_command_that_sets_it() {
    let two = Two::start();
    two.run(&["route"]).says(&["there is no route yet"]);
    two.run(&["run", "a", "--wait=40s", "--", "true"]).says(&[]);
    // The first, unless this machine has stood still.
    let seen = format!("number {} has been seen", two.route()["epoch"]);
    two.arbiter.sql("delete from leasehold_routes");
    let (seen, command) = (seen.as_str(), "`leasehold route set --restored --config /");
    for verb in [&["route"][..], &["route", "--json"], &["status", "a"], &["run", "a", "--", "true"]] {
        two.run(verb).fails(78, &[seen, command]);
    }
    let doctor = two.run(&["doctor"]);
    assert!(doctor.code == 78 && doctor.stdout.contains(seen) && doctor.stdout.contains(command), "{doctor:?}");
    typed(&two.run(&["route"]).stderr, "leasehold route set").says(&["the route is number "]);
    two.run(&["run", "a", "--wait=40s", "--", "true"]).says(&[]);
}

#[test]
fn a_restored_arbiter_is_set_to_a_later_route() {
    let two = Two::start();
    let slot = ["run", "s", "--wait=40s", "--once-per", "0 0 1 1 *", "--", "echo", "ran"];
    two.run(&["run", "b", "--wait=40s", "--", "true"]).says(&[]);
    // The first, unless this machine has stood still.
    let first = two.route()["epoch"].as_u64().expect("a number");
    let dump = two.arbiter.dump();
    two.run(&slot).says(&["ran"]);
    two.to_primary.refuse();
    two.run(&["run", "a", "--wait=40s", "--", "true"]).says(&[]);
    two.leads_to("arbiter");
    two.to_primary.heal();
    two.arbiter.restore(&dump);
    two.run(&["route", "set"]).fails(64, &["--restored"]);
    two.run(&["route", "set", "--restored"]).says(&["the route is number "]);
    let again = two.run(&slot);
    assert!(again.code == 0 && again.stdout.is_empty(), "what the backup doesn't know counts as run: {again:?}");
    assert!(
        two.route()["epoch"].as_u64() > Some(first + 2),
        "nobody who has seen the second one carries a lease to it"
    );
    two.run(&["route", "set", "--restored", "--seen", "73859925941328"]).fails(64, &["is no route's number"]);
    two.primary.restart();
    two.run(&["route", "set", "--restored"]).fails(69, &["lost its data, too", "clients have seen"]);
    two.run(&["route", "set", "--restored", "--seen", "100"]).says(&["number 102 now"]);
    let set = two.run(&["route", "set", "--restored", "--seen", "200", "--json"]).json();
    assert_eq!(set["route"]["epoch"], 202, "{set}");
}

#[test]
fn a_quorum_goes_on_without_a_minority() {
    let (servers, bench) = ([0; 3].map(|_| Redis::start()), Bench::new());
    let hosts: Vec<_> = servers.iter().map(Redis::address).collect();
    let store = format!("redlock://{}?max_ttl=8", hosts.join(","));
    let run = |args: &[&str]| common::ran(bench.bare(args).env("LEASEHOLD_STORE", &store));
    // Of a TTL of 2 s members have 83 ms for an answer. On a machine with twenty others at work that is too little for long enough: the
    // lease lapses, the job is stopped, and another is granted the lock, as it should be.
    let script = "echo begun; until [ -e enough ]; do sleep 0.05; done";
    let words = ["run", "a", "--ttl", "8s", "--wait=40s", "--", "sh", "-c", script];
    let job = Going::start(bench.bare(words).env("LEASEHOLD_STORE", &store));
    assert_eq!(job.line(), "begun");
    run(&["status", "a"]).says(&["a is held", "a quorum of redis://"]);
    run(&["run", "a", "--ttl", "8s", "--", "touch", "ran"]).fails(75, &["a: held by"]);
    servers[0].kill();
    run(&["run", "a", "--ttl", "8s", "--", "touch", "ran"]).fails(75, &["a: held by"]);
    run(&["doctor"]).says(&["quorum: "]);
    servers[0].restart();
    // With another member gone, it is back only once it has been filled.
    run(&["run", "b", "--ttl", "8s", "--wait=40s", "--", "true"]).says(&[]);
    bench.write("enough", "");
    let (code, told) = job.end();
    assert!(code == 0 && !bench.path("ran").exists(), "{told}");
    servers[1].kill();
    servers[2].kill();
    run(&["run", "a", "--ttl", "8s", "--", "touch", "ran"]).fails(69, &[&hosts[1], &hosts[2]]);
}

/// Types the command that stands in backticks in a message, from somewhere else and in an empty environment.
fn typed(message: &str, verb: &str) -> common::Ran {
    let start = message.find(&format!("`{verb}")).unwrap_or_else(|| panic!("no {verb} in {message}"));
    let command = message[start + 1..].split('`').next().unwrap();
    let command = command.replacen("leasehold", env!("CARGO_BIN_EXE_leasehold"), 1);
    common::ran(std::process::Command::new("sh").args(["-c", &command]).env_clear().current_dir("/"))
}

/// Two of three come back empty before anybody has filled the first: nobody can say what has run.
#[test]
fn a_loss_that_has_to_be_accepted_is_told_with_the_command_that_does_it() {
    let (servers, bench) = ([0; 3].map(|_| Redis::start()), Bench::new());
    let members: Vec<_> = servers.iter().map(|server| format!("\"{}?max_ttl=6\"", server.url())).collect();
    bench.write("leasehold.toml", &format!("[stores.q]\nquorum = [{}]\n", members.join(", ")));
    let on = |args: &[&str]| {
        let store = ["--store", "q", "--namespace", "night shift"];
        common::ran(&mut bench.bare([&args[..1], &store[..], &args[1..]].concat()))
    };
    // The TTL is that of the members' max_ttl.
    let run = |option: &'static str| on(&["run", option, "a", "--", "true"]);
    let doctor = on(&["doctor"]);
    assert!(doctor.code == 0 && doctor.stdout.contains("whoever first asks for a lock founds it"), "{doctor:?}");
    run("--wait=40s").says(&[]);
    // A member that is late is told as one that does not answer.
    let is_told = |words: &str| on(&["doctor"]).stdout.contains(words);
    eventually("all of them answer", LIMIT, || is_told("all of its 3 members answer"));
    servers[1].restart();
    servers[2].restart();
    eventually("one remembers", LIMIT, || is_told("1 of its 3 members remember all names"));
    let doctor = on(&["doctor"]);
    assert_eq!(doctor.code, 78, "{doctor:?}");
    let command = "leasehold accept-loss --yes --config ";
    assert!(doctor.stdout.contains(command), "{doctor:?}");
    eventually("their guards are over", LIMIT, || run("-v").stderr.contains(command));
    let waited = run("--wait=1s");
    waited.fails(69, &["waiting for a: ", command]);
    let refused = run("-v");
    refused.fails(69, &["came back empty"]);
    typed(&refused.stderr, "leasehold accept-loss").says(&["accepted"]);
    run("--wait=40s").says(&[]);
    on(&["doctor"]).says(&["it has been there since the quorum was founded"]);
}

#[test]
fn a_server_that_is_listed_twice_makes_no_quorum() {
    let (servers, bench) = ([0; 2].map(|_| Redis::start()), Bench::new());
    let (one, other) = (servers[0].address(), servers[1].address());
    let localhost = one.replace("127.0.0.1", "localhost");
    let store = format!("redlock://{one},{other},{localhost}?max_ttl=8");
    let run = ["run", "a", "--ttl", "8s", "--wait=10s", "--", "touch", "ran"];
    common::ran(bench.bare(run).env("LEASEHOLD_STORE", &store)).fails(78, &["are the same server"]);
    let doctor = common::ran(bench.bare(["doctor"]).env("LEASEHOLD_STORE", &store));
    assert!(doctor.code == 78 && doctor.stdout.contains("are the same server"), "{doctor:?}");
}
