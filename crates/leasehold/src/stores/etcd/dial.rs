//! How a member is reached.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;
use tonic::{IntoRequest, Request, Status};

use super::address::Address;
use super::fault::{Cause, Fault, whole};
use super::generated::AuthenticateRequest;
use super::generated::auth_client::AuthClient;
use super::generated::kv_client::KvClient;
use super::line::Line;
use super::login::Login;
use super::tls;
use crate::error::ErrorKind;
use crate::stores::password::Password;
use crate::stores::tls::Tls;

/// How often a connection with something under way is tried out. Servers take more often than every 5 s for an attack.
const PING: Duration = Duration::from_secs(10);

/// How long the answer to that may take.
const PONG: Duration = Duration::from_secs(5);

/// The largest answer that is read: a lock with very many waiters.
const LARGEST: usize = 64 * 1024 * 1024;

/// As whom we come, and over what.
#[derive(Clone)]
pub(super) struct Dial {
    pub login: Option<Login>,
    pub tls: Option<Tls>,
}

/// A connection to one member, logged in.
pub(super) struct Link {
    pub line: Line,
    token: Option<MetadataValue<Ascii>>,
    has_answered: AtomicBool,
}

impl Link {
    /// Somebody who speaks as an etcd does is there.
    pub fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    pub fn note_answer(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// A request with what goes along with every one: who we are, and that a member which knows no leader is to say so.
    pub fn request<T>(&self, message: impl IntoRequest<T>) -> Request<T> {
        self.with_metadata(message.into_request())
    }

    /// The same for a stream of messages.
    pub fn with_metadata<T>(&self, mut request: Request<T>) -> Request<T> {
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    pub fn kv(&self) -> KvClient<Line> {
        KvClient::new(self.line.clone()).max_decoding_message_size(LARGEST)
    }
}

impl Dial {
    /// A new connection, with what the files of login and TLS hold now.
    pub async fn connect(&self, address: &Address) -> Result<Link, Fault> {
        let endpoint = self.endpoint(address).await?;
        let failed = |error: tonic::transport::Error| {
            let why = whole(&error);
            let hint = match &*why {
                why if why.contains("peer certificate") => "; name its authority with ca=FILE".to_owned(),
                // Who is greeted in another language hangs up, with a reset where more of the greeting was on its way.
                why if ["tls handshake eof", "corrupt message", "Connection reset", "Broken pipe"]
                    .iter()
                    .any(|end| why.contains(end)) =>
                {
                    format!("; if it goes on so, name the port that clients of etcd use, or {}", self.other_scheme())
                }
                _ => String::new(),
            };
            Fault::unsent(kind_of(&why), format!("{address}: {why}{hint}"))
        };
        let line = Line::over(endpoint.connect().await.map_err(failed)?);
        let token = match &self.login {
            Some(login) => log_in(&line, login).await?,
            None => None,
        };
        let has_answered = AtomicBool::new(token.is_some());
        Ok(Link { line, token, has_answered })
    }

    /// What is to be written if the other side speaks TLS and we don't, or the other way round.
    pub fn other_scheme(&self) -> &'static str {
        if self.tls.is_some() {
            "write etcd for etcds if it speaks no TLS there"
        } else {
            "write etcds for etcd if it speaks TLS there"
        }
    }

    async fn endpoint(&self, address: &Address) -> Result<Endpoint, Fault> {
        let Some(tls) = self.tls.clone() else { return plain("http", address) };
        let endpoint = plain("https", address)?;
        let host = address.host.clone();
        // Files of ours, and of the system's authorities: a disk that hangs must not hold up the keeper's thread.
        let config = tokio::task::spawn_blocking(move || {
            tls::config(&tls, &host).and_then(|config| endpoint.tls_config(config).map_err(|error| whole(&error)))
        });
        let config = config.await.unwrap_or_else(|error| Err(error.to_string()));
        config.map_err(Fault::unusable)
    }
}

/// TLS says what is wrong in words only.
fn kind_of(why: &str) -> ErrorKind {
    if why.contains("peer certificate") || why.contains("corrupt message") {
        return ErrorKind::Misconfigured; // Theirs: a certificate, or no TLS at all.
    }
    if why.contains("received fatal alert") || why.contains("certificate required") {
        return ErrorKind::AccessDenied; // Ours, or none.
    }
    ErrorKind::Unavailable
}

fn plain(scheme: &str, address: &Address) -> Result<Endpoint, Fault> {
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"));
    let endpoint = endpoint.map_err(|error| Fault::unsent(ErrorKind::Invalid, whole(&error)))?;
    Ok(endpoint
        .tcp_nodelay(true)
        .tcp_keepalive(Some(PONG))
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .keep_alive_while_idle(false))
}

/// Asks for a token; none where the cluster has no users.
async fn log_in(line: &Line, login: &Login) -> Result<Option<MetadataValue<Ascii>>, Fault> {
    let password = password(&login.password).await?;
    let request = AuthenticateRequest { name: login.user.clone(), password };
    let answer = AuthClient::new(line.clone()).authenticate(request).await;
    let token = match answer {
        Ok(answer) => answer.into_inner().token,
        Err(status) => match Fault::of(status) {
            fault if fault.cause == Cause::NoUsers => return Ok(None),
            // Nothing of what was to be asked has been sent.
            fault => return Err(fault.surely()),
        },
    };
    token.parse().map(Some).map_err(|_| Fault::of(Status::unauthenticated("the token can't be read")))
}

async fn password(password: &Password) -> Result<String, Fault> {
    let password = password.clone();
    let read =
        tokio::task::spawn_blocking(move || password.read()).await.unwrap_or_else(|error| Err(error.to_string()));
    read.map(Option::unwrap_or_default).map_err(Fault::unusable)
}
