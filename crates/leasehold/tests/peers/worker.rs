//! Our own worker: the test binary runs itself again for it.

use std::fs::{OpenOptions, read_to_string, remove_file};
use std::io::{Write, stdin, stdout};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasehold::{Guard, Lock, Locks, Released, Wait};

const URL: &str = "LEASEHOLD_PEER_URL";

const TTL: Duration = Duration::from_secs(20);

/// The test binary, run again.
pub fn command(url: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
    command.args(["--exact", "worker", "--nocapture", "--test-threads=1"]).env(URL, url);
    command
}

/// The body of the test that is the workers' way in: nothing, where it is run as a test.
pub fn serve() {
    let Ok(url) = std::env::var(URL) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(ours(&url));
}

fn commands() -> impl Iterator<Item = Vec<String>> {
    stdin().lines().map_while(Result::ok).map(|line| line.split(' ').map(str::to_owned).collect())
}

/// On a line of its own, whatever the harness has printed.
fn answer(said: &str) {
    let mut out = stdout().lock();
    out.write_all(format!("\n= {said}\n").as_bytes()).and_then(|()| out.flush()).expect("the test listens");
}

/// Who has been inside so far.
struct Order {
    ours: usize,
    theirs: usize,
}

impl Order {
    fn so_far(directory: &Path) -> Self {
        let lines = read_to_string(directory.join("order")).unwrap();
        let count = |side| lines.lines().filter(|line| *line == side).count();
        Self { ours: count("ours"), theirs: count("theirs") }
    }

    /// Whether either side has had so many rounds.
    fn is_enough(&self, count: usize) -> bool {
        self.ours.min(self.theirs) >= count
    }
}

/// What a worker does inside the lock: it is alone there, or the file is there already.
async fn inside(directory: &Path) -> Order {
    let witness = directory.join("inside");
    OpenOptions::new().write(true).create_new(true).open(&witness).expect("nobody else is inside");
    let mut log = OpenOptions::new().append(true).create(true).open(directory.join("order")).unwrap();
    writeln!(log, "ours").unwrap();
    let order = Order::so_far(directory);
    tokio::time::sleep(Duration::from_millis(1)).await;
    remove_file(witness).unwrap();
    order
}

/// Until the other side has been inside, or nobody of it comes any more. On a busy machine one side would have all its rounds
/// behind one another else: who is woken is late, and who asks comes in between.
async fn gives_way(directory: &Path, last: &Order, count: usize) {
    loop {
        let order = Order::so_far(directory);
        if order.theirs > last.theirs || order.is_enough(count) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Rounds and nothing else: the rest the tests do by themselves.
async fn ours(url: &str) {
    let locks = Locks::connect(url).await.unwrap();
    for words in commands() {
        let ["rounds", name, count, directory] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
            panic!("{words:?}")
        };
        let (lock, count) = (locks.lock(name).ttl(TTL), count.parse().unwrap());
        for round in 1.. {
            let guard = acquired(&lock, round % 16 == 0).await;
            let order = inside(Path::new(directory)).await;
            assert!(guard.is_valid());
            assert_eq!(guard.release().await.unwrap(), Released::InTime, "a release was refused");
            if order.is_enough(count) {
                break;
            }
            if round % 4 == 0 {
                gives_way(Path::new(directory), &order, count).await;
            }
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        answer("done");
    }
}

/// By standing in line, or by asking again and again as the others do.
async fn acquired(lock: &Lock, waits: bool) -> Guard {
    if waits {
        return lock.clone().wait(Wait::Forever).acquire().await.unwrap().guard().unwrap();
    }
    loop {
        if let Some(guard) = lock.try_acquire().await.unwrap().guard() {
            return guard;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}
