//! How a server is reached.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisError, Value,
};
use tokio::runtime::Handle;

use super::address::Address;
use super::fault::Fault;
use super::login::Login;
use super::tls;
use crate::error::ErrorKind;
use crate::span::Span;
use crate::stores::password::Password;
use crate::stores::tls::Tls;

/// What the other side has not even acknowledged for so long is given up: left to itself, the system would try for a
/// quarter of an hour.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// As whom we come, and over what.
#[derive(Clone)]
pub(super) struct Dial {
    pub login: Login,
    pub tls: Option<Tls>,
}

impl Dial {
    /// A new connection, with what the files of login and TLS hold now.
    pub async fn connect(
        &self,
        address: &Address,
        protocol: ProtocolVersion,
        config: AsyncConnectionConfig,
        limit: Duration,
    ) -> Result<MultiplexedConnection, Fault> {
        // Calls over it have limits of their own. The library's for connecting is ours, which knows what to say then.
        let config = config.set_connection_timeout(None).set_response_timeout(None);
        let (dial, address) = (self.clone(), address.clone());
        let connect = async move {
            let client = dial.client(&address, protocol)?;
            let made = tokio::time::timeout(limit, client.get_multiplexed_async_connection_with_config(&config)).await;
            let made = made.map_err(|_| dial.silence(&address, limit))?;
            made.map_err(|error| dial.unconnected(&error, &address))
        };
        if !self.reads_files() {
            return connect.await;
        }
        // Ours, and the client library's: it reads the authorities that the system trusts. A disk that hangs must not
        // hold up the keeper's thread. What is spawned there runs on this runtime all the same.
        let runtime = Handle::current();
        let connected = tokio::task::spawn_blocking(move || runtime.block_on(connect)).await;
        connected.unwrap_or_else(|error| Err(Fault::Unsent(ErrorKind::Internal, error.to_string())))
    }

    fn reads_files(&self) -> bool {
        self.tls.is_some() || matches!(self.login.password, Password::InFile(_))
    }

    /// Asks one thing over a connection of its own: somebody who need not be our server.
    pub async fn ask_once(&self, address: &Address, question: &Cmd, limit: Duration) -> Result<Value, Fault> {
        let asked = async {
            // Sentinels and old nodes know no other.
            let mut connection =
                self.connect(address, ProtocolVersion::RESP2, AsyncConnectionConfig::new(), limit).await?;
            let answer = connection.send_packed_command(question).await.and_then(Value::extract_error);
            answer.map_err(|error| self.unconnected(&error, address))
        };
        tokio::time::timeout(limit, asked).await.map_err(|_| self.silence(address, limit))?
    }

    /// No connection was made.
    pub fn unconnected(&self, error: &RedisError, address: &Address) -> Fault {
        Fault::unconnected(error, address, self.tls.is_some())
    }

    /// No connection was made for so long. A server that speaks no TLS takes the beginning of it for half a command, and
    /// waits for the rest.
    pub fn silence(&self, address: &Address, limit: Duration) -> Fault {
        let perhaps =
            if self.tls.is_some() { "; perhaps it speaks no TLS there: then write redis for rediss" } else { "" };
        Fault::Unsent(ErrorKind::TimedOut, format!("{address} did not answer within {}{perhaps}", Span(limit)))
    }

    /// With what the URL of what we speak begins.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "rediss" } else { "redis" }
    }

    fn client(&self, address: &Address, protocol: ProtocolVersion) -> Result<Client, Fault> {
        let whole = |error| self.unconnected(&error, address);
        let place = match (address, &self.tls) {
            (Address::Tcp(host, port), None) => ConnectionAddr::Tcp(host.clone(), *port),
            (Address::Tcp(host, port), Some(_)) => {
                ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
            }
            (Address::Unix(path), _) => ConnectionAddr::Unix(path.clone()),
        };
        let settings = self.login.settings(protocol)?;
        let info = place.into_connection_info().map_err(whole)?.set_redis_settings(settings).set_tcp_settings(tcp());
        match &self.tls {
            Some(tls) => {
                let files = tls::certificates(tls).map_err(|why| Fault::Unsent(ErrorKind::Misconfigured, why))?;
                Client::build_with_tls(info, files).map_err(whole)
            }
            None => Client::open(info).map_err(whole),
        }
    }
}

fn tcp() -> TcpSettings {
    let alive = TcpKeepalive::new().with_time(GIVEN_UP / 2).with_interval(GIVEN_UP / 5);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(alive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(GIVEN_UP);
    settings
}
