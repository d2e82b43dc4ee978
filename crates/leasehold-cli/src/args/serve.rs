//! `serve`: what it may be given, and its help.

use std::path::PathBuf;

use clap::{Args, ValueHint};

pub(super) const ABOUT: &str = "\
Serve a dashboard, a JSON API and metrics of the store.

It shows which locks are held and by whom, who waits behind whom, what is contended, and what the schedulers' jobs do. All of it comes from \
the store: one such server is enough, none is needed for locks to work, and it may be started and stopped at any time. While nobody \
looks it asks nothing of the store; however many look, about as much as one.

It answers to this machine only, and to whoever can reach that: anybody there sees the names of locks and what jobs have written. With a token, \
whoever has it can also end a hold, and have a job run, pause or go on; each of these is recorded in the store with who did it and why.";

pub(super) const FOOTER: &str = "\
Examples:
  leasehold serve                                     then see http://127.0.0.1:7676/
  leasehold serve --store redis://cache --listen 127.0.0.1:9000
  (umask 077; openssl rand -hex 32 >token); leasehold serve --token-file token
  leasehold serve --listen 0.0.0.0:7676 --token-file token --host locks.example.com

Paths:
  /               the dashboard
  /api/v1/        JSON, for programs; /api/v1/openapi.json describes it
  /metrics        for Prometheus
  /healthz        200 while it runs
  /readyz         200 while the store answers; else 503, and why

Other machines: give it a token and the name that it is known by, and put a proxy in front of it that speaks TLS and asks who it is \
(docs/serve.md). A name that it was not given is refused, so that no page of somebody else's can lead a browser here.

TERM and INT end it within seconds, with 0. HUP has the token file read again.";

/// What `serve` is given.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Answer at this address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7676")]
    pub listen: String,
    /// Let whoever has the token in this file act [env: LEASEHOLD_SERVE_TOKEN, the token itself]
    ///
    /// At least 16 characters, none of them a blank. Without one there is nothing but to look.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// It may be asked for under this name, too (may be given several times)
    ///
    /// Besides localhost, and any address.
    #[arg(long, value_name = "NAME", value_parser = super::values::host)]
    pub host: Vec<String>,
}
