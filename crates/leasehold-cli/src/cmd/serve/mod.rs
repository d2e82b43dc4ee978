//! `leasehold serve`: a dashboard, an API and metrics of the store.

use std::future::IntoFuture;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Locks, Store};
use leasehold_monitor::metrics::{Exposition, Measured, Meter};
use leasehold_monitor::{CancellationToken, Monitor, router};
use tokio::time::{interval, timeout};

use self::guests::Guests;
use super::schedule::notify::Notify;
use super::schedule::signals::{Signals, Told};
use super::{block_on, listen};
use crate::args::ServeArgs;
use crate::config::Config;
use crate::exit::{self, Failure};
use crate::output;

mod guests;
mod token;

/// Answers that are under way when it is told to end may take so long.
const DRAIN: Duration = Duration::from_secs(3);

/// Runs the verb, until a signal ends it.
///
/// # Errors
/// 64 if it must not listen where it is to, 77 or 78 if it can't; 78 for a token that is none; what the store says if it can't be opened.
pub fn run(args: &ServeArgs, config: &Config) -> Result<i32, Failure> {
    // Before any thread exists, so that each of them leaves signals to us.
    Signals::block().map_err(|error| fault("block signals", &error))?;
    let token = token::read(args.token_file.as_deref())?;
    let listener = bind(&args.listen, token.is_some())?;
    let monitor = monitor(args, config, token.as_ref())?;
    block_on(serve(listener, monitor, args.token_file.as_deref(), &told(config, token.is_some())))?;
    Ok(exit::OK)
}

fn monitor(args: &ServeArgs, config: &Config, token: Option<&token::Token>) -> Result<Monitor, Failure> {
    let fallback = config.open_fallback()?;
    let store: Arc<dyn Store> = match fallback.clone() {
        Some(fallback) => fallback,
        None => config.place().open().map_err(|error| config.blame(error))?,
    };
    let exposition = Exposition::install()?;
    let locks = Locks::builder().job("serve").observer(Meter::new()).over(Arc::new(Measured::over(store)));
    let mut monitor = Monitor::over(locks).shown(&config.shown()).exposition(exposition);
    if let Some(fallback) = fallback {
        monitor = monitor.fallback(fallback);
    }
    if let Some(token) = token {
        monitor = token.given_to(monitor)?;
    }
    Ok(args.host.iter().fold(monitor, |monitor, name| monitor.host(name)))
}

/// Takes the address, unless others could reach it and nobody has thought of that.
fn bind(address: &str, has_token: bool) -> Result<TcpListener, Failure> {
    let addresses = listen::addresses(address, "127.0.0.1:7676")?;
    if !has_token && addresses.iter().any(|address| !address.ip().is_loopback()) {
        return Err(Failure::new(
            exit::USAGE,
            format!(
                "--listen: other machines can reach {address}, and whoever can sees all locks and what jobs have written; for that give it \
                 a token for what can be done there (`openssl rand -hex 32 >FILE`, --token-file FILE), and put a proxy in front of it \
                 that asks who it is (docs/serve.md). Or listen at 127.0.0.1"
            ),
        ));
    }
    listen::bind(address, &addresses)
}

/// What stands behind the address in the line that says where to look.
fn told(config: &Config, has_token: bool) -> String {
    let act = if has_token { "whoever has the token can act" } else { "nobody can act (see --token-file)" };
    format!("shows the locks in {}; {act}", config.shown())
}

async fn serve(listener: TcpListener, monitor: Monitor, token_file: Option<&Path>, told: &str) -> Result<(), Failure> {
    let signals = Signals::listen().map_err(|error| fault("hear signals", &error))?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| fault("listen", &error))?;
    let address = listener.local_addr().map_err(|error| fault("listen", &error))?;
    let stop = CancellationToken::new();
    let app = router(monitor.clone().until(stop.clone()));
    let serving = axum::serve(Guests::of(listener), app).with_graceful_shutdown(stop.clone().cancelled_owned());
    let serving = tokio::spawn(serving.into_future());
    let notify = Arc::new(Notify::of_this_process());
    let place = format!("http://{address}/");
    notify.ready(&place);
    if let Some(period) = notify.watchdog_period() {
        tokio::spawn(is_alive(Arc::clone(&notify), period));
    }
    output::line(&format!("{place} {told}")).map(drop)?;
    while signals.next().await == Told::Reload {
        notify.reloading();
        token::read_again(token_file, &monitor);
        notify.ready(&place);
    }
    notify.stopping(DRAIN);
    notify.status("closing connections");
    stop.cancel();
    tokio::select! {
        // Streams have been ended; what else is not over by then is cut.
        _ = timeout(DRAIN, serving) => {}
        () = is_told_again(&signals) => {}
    }
    Ok(())
}

/// To end, and not to read anything.
async fn is_told_again(signals: &Signals) {
    while signals.next().await == Told::Reload {}
}

async fn is_alive(notify: Arc<Notify>, period: Duration) {
    let mut ticks = interval(period);
    loop {
        ticks.tick().await;
        notify.alive();
    }
}

fn fault(doing: &str, error: &std::io::Error) -> Failure {
    Failure::new(exit::FAULT, format!("the operating system does not let us {doing}: {error}"))
}
