//! Who takes connections in, and ends them.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::Sender;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::connection::{End, carry};
use super::rules::State;

/// What the test asks for; carried out when it is answered.
#[derive(Debug)]
pub(super) enum Order {
    Accept,
    Refuse,
    End(End),
}

/// The proxy's port. A socket that is bound and never listens keeps it, also while connections are refused.
pub(super) struct Anchor {
    _socket: TcpSocket,
    address: SocketAddr,
}

impl Anchor {
    /// Takes a free port. Nobody listens there yet: who connects is refused by the system, as it should be.
    pub(super) fn new() -> io::Result<Self> {
        let socket = bound((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        Ok(Self { _socket: socket, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn listen(&self) -> io::Result<Listener> {
        let tokio = bound(self.address)?.listen(1024)?.into_std()?;
        let direct = tokio.try_clone()?;
        Ok(Listener { tokio: TcpListener::from_std(tokio)?, direct })
    }
}

/// Several may be bound to one address, if they all say so and at most one listens.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

pub(super) struct Listener {
    tokio: TcpListener,
    /// The same socket, for asking the system whether somebody waits without waiting to be told.
    direct: std::net::TcpListener,
}

impl Listener {
    /// Takes in whoever the system has let in already.
    fn waiting(&self) -> impl Iterator<Item = TcpStream> {
        std::iter::from_fn(|| {
            let (stream, _) = self.direct.accept().ok()?;
            stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream)).ok()
        })
    }
}

/// Works until nobody can send orders any more; then all connections are closed.
pub(super) async fn serve(
    anchor: Anchor,
    mut listener: Option<Listener>,
    state: Arc<State>,
    mut orders: mpsc::UnboundedReceiver<(Order, Sender<()>)>,
) {
    let ends = watch::Sender::new(End::Close);
    let mut connections = JoinSet::new();
    let admit = |client: TcpStream, connections: &mut JoinSet<()>| {
        state.accepted.fetch_add(1, SeqCst);
        connections.spawn(carry(client, Arc::clone(&state), ends.subscribe()));
    };
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some((order, done)) = order else { return };
                match order {
                    Order::Refuse => listener = None,
                    Order::Accept if listener.is_some() => {}
                    Order::Accept => listener = Some(anchor.listen().expect("the port is ours")),
                    Order::End(end) => {
                        listener.iter().flat_map(Listener::waiting).for_each(|client| admit(client, &mut connections));
                        ends.send_replace(end);
                        while connections.join_next().await.is_some() {}
                    }
                }
                // Whoever ordered it waits for the answer.
                let _ = done.send(());
            }
            Some(client) = accept(listener.as_ref()) => admit(client, &mut connections),
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The next connection; nothing if it was gone again at once.
async fn accept(listener: Option<&Listener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => Some(listener.tokio.accept().await.ok()?.0),
        None => pending().await,
    }
}
