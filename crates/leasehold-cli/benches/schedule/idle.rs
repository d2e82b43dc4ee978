//! One node with many jobs of which few are due.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use leasehold::Locks;
use leasehold_schedule::{Job, Scheduler, Timestamp};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::settings::{Settings, daily_at, late_for, median_and_last, runtime};

/// Until it has made its jobs known.
const START: Duration = Duration::from_secs(20);

pub fn measure(settings: &Settings) {
    runtime().block_on(run(settings));
}

async fn run(settings: &Settings) {
    let dir = tempfile::tempdir_in(&settings.dir).expect("a directory for the file");
    let locks = Locks::connect(&format!("sqlite://{}/locks.db", dir.path().display())).await.expect("it opens");
    let empty = memory();
    let began = Instant::now();
    let late = Arc::new(Mutex::new(Vec::new()));
    let first =
        Timestamp::now() + SignedDuration::try_from(START + Duration::from_secs(settings.seconds)).expect("it fits");
    let mut scheduler = Scheduler::over(locks);
    for nth in 0..settings.jobs {
        scheduler = scheduler.job(job(nth, when(nth, settings, first), &late)).expect("it is right");
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(scheduler.run(async { drop(stopped.await) }));
    sleep(START.saturating_sub(began.elapsed())).await;
    let filled = memory();
    let idle = share_of(settings.seconds).await;
    let busy = share_of(settings.seconds + 5).await;
    drop(stop);
    running.await.expect("it ends");

    let mut late = late.lock().expect("nobody panicked").clone();
    let wanted = settings.jobs.min(usize::try_from(settings.seconds).expect("it fits"));
    assert_eq!(late.len(), wanted, "each that was due has run once");
    let (median, last) = median_and_last(&mut late);
    let each = filled.saturating_sub(empty) / settings.jobs as u64;
    println!("idle: {} jobs on one node over SQLite", settings.jobs);
    println!("  share of a CPU, none due           {:7.2} %    (aim: < 2 %)", idle * 100.0);
    println!("  share of a CPU, one due per second {:7.2} %", busy * 100.0);
    println!(
        "  late at the start, median          {:7.1} ms   (aim: < 50 ms); the last of {wanted}: {:.1} ms",
        millis(median),
        millis(last)
    );
    println!("  memory of a job                    {each:7} bytes");
}

/// The first ones are due in one second after the other, the rest half a day later.
fn when(nth: usize, settings: &Settings, first: Timestamp) -> Timestamp {
    let seconds = i64::try_from(nth).expect("it fits");
    let is_due = u64::try_from(nth).expect("it fits") < settings.seconds;
    let later = if is_due { SignedDuration::ZERO } else { SignedDuration::from_hours(6) };
    first + SignedDuration::from_secs(seconds) + later
}

fn job(nth: usize, at: Timestamp, late: &Arc<Mutex<Vec<Duration>>>) -> Job {
    let late = Arc::clone(late);
    Job::new(&format!("job-{nth:05}"), daily_at(at), move |run| {
        late.lock().expect("nobody panicked").push(late_for(run.tick()));
        Box::pin(async { Ok(()) })
    })
}

/// Of a CPU, that this process takes for so long.
async fn share_of(seconds: u64) -> f64 {
    let (began, before) = (Instant::now(), cpu());
    sleep(Duration::from_secs(seconds)).await;
    (cpu() - before).as_secs_f64() / began.elapsed().as_secs_f64()
}

fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel tells");
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}

/// What is resident, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has one");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
