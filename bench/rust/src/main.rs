//! Raw commands, Leasehold and other Rust lock libraries, doing the same: `locks pair|contend|renew lib=NAME url=URL
//! key=value…`. One JSON line. See ../../README.md.

mod board;
mod libraries;
mod measure;
mod raw;

use std::sync::Arc;
use std::time::{Duration, Instant};

use board::Board;
use libraries::{Library, TTL};
use measure::{Arguments, Server, Times, cpu};

fn main() {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments.number("threads", 2))
        .enable_all()
        .build()
        .expect("a runtime");
    // Like a job: on a worker of the runtime, not on the thread that waits for it.
    runtime.block_on(async move { tokio::spawn(run(arguments)).await }).expect("it ran to its end");
}

async fn run(arguments: Arguments) {
    match arguments.case.as_str() {
        "pair" => pair(&arguments).await,
        "contend" => contend(&arguments).await,
        "renew" => renew(&arguments).await,
        other => panic!("no case is called {other:?}"),
    }
}

/// One lock taken and given back, again and again.
async fn pair(arguments: &Arguments) {
    let (pairs, mut times) = (arguments.number("n", 5000), Times::default());
    let mut library = Library::new(&arguments.library(), &arguments.url(), 0).await;
    for _ in 0..pairs / 10 {
        let held = library.acquire("pair").await;
        library.release(held).await;
    }
    let (used, began) = (cpu(), Instant::now());
    for _ in 0..pairs {
        let since = Instant::now();
        let held = library.acquire("pair").await;
        library.release(held).await;
        times.push(since.elapsed());
    }
    times.report(&arguments.library(), began.elapsed(), cpu() - used);
}

/// One lock, workers that each stand for a process: a client and a connection of their own.
async fn contend(arguments: &Arguments) {
    let (workers, sections) = (arguments.number("workers", 10), arguments.number("sections", 1000));
    let hold = Duration::from_millis(arguments.number("hold_ms", 1) as u64);
    let each = if arguments.number("quota", 0) == 1 { sections / workers } else { usize::MAX };
    let until = Instant::now() + Duration::from_secs(arguments.number("limit_s", 60) as u64);
    let mut server = Server::empty(&arguments.url()).await;
    let mut libraries = Vec::new();
    for me in 0..workers {
        let mut library = Library::new(&arguments.library(), &arguments.url(), me).await;
        let held = library.acquire(&format!("warm-{me}")).await;
        library.release(held).await;
        libraries.push(library);
    }
    server.forget().await;
    let (board, used) = (Arc::new(Board::new(sections)), cpu());
    let tasks: Vec<_> = libraries
        .into_iter()
        .enumerate()
        .map(|(me, library)| tokio::spawn(work(Arc::clone(&board), library, me, each, hold, until)))
        .collect();
    for task in tasks {
        task.await.expect("it ran to its end");
    }
    let total = board.began.elapsed();
    let used = cpu() - used;
    board.report(&arguments.library(), workers, total, used, server.said().await);
}

async fn work(board: Arc<Board>, mut library: Library, me: usize, each: usize, hold: Duration, until: Instant) {
    for _ in 0..each {
        if Instant::now() > until || !board.take() {
            return;
        }
        let held = library.acquire("busy").await;
        let entered = board.enter();
        // Precise, and the other tasks go on.
        tokio::task::block_in_place(|| std::thread::sleep(hold));
        board.leave(entered, me);
        library.release(held).await;
    }
}

/// Many locks held by one process for a while.
async fn renew(arguments: &Arguments) {
    let (locks, secs) = (arguments.number("locks", 1000), arguments.number("secs", 10));
    let ttl = Duration::from_secs(arguments.number("ttl", 3) as u64);
    let mut server = Server::empty(&arguments.url()).await;
    let mut library = Library::new(&arguments.library(), &arguments.url(), 0).await;
    let began = Instant::now();
    let mut held = Vec::new();
    for lock in 0..locks {
        held.push(library.keep(&format!("r{lock}"), ttl).await);
    }
    let setup = began.elapsed().as_secs_f64();
    tokio::time::sleep(ttl / 3).await;
    server.forget().await;
    let (used, theirs, began) = (cpu(), server.cpu().await, Instant::now());
    tokio::time::sleep(Duration::from_secs(secs as u64)).await;
    let took = began.elapsed().as_secs_f64();
    let (used, theirs) = ((cpu() - used) / took * 100.0, (server.cpu().await - theirs) / took * 100.0);
    let said = server.said().await;
    let lib = arguments.library();
    println!(
        r#"{{"case":"{lib}","locks":{locks},"ttl":{},"setup_s":{setup:.2},"reads_s":{:.1},"cmds":"{}","client_cpu_pct":{used:.2},"server_cpu_pct":{theirs:.2},"alive":{}}}"#,
        ttl.as_secs(),
        said.reads / took,
        said.commands(1.0),
        server.alive().await,
    );
    std::process::exit(0); // What is held ends with the server.
}

const _: () = assert!(TTL.as_secs() == 30, "as in the other languages");
