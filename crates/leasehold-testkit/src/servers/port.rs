//! Free ports.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Below the ports that Linux gives to outgoing connections: those can't take the port of a server that is down.
const PORTS: Range<u16> = 16_000..32_000;

/// A port of 127.0.0.1 that is this process's for as long as this lives, whether a server listens there or not.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Among our own processes an abstract socket says whose the port is: as visible as the port, and gone with us.
    _claim: UnixListener,
}

impl Port {
    /// A port that nobody listens on. Other programs don't ask for our claim: a server may still lose it to them.
    ///
    /// # Panics
    /// If none is free.
    #[must_use]
    pub fn reserve() -> Self {
        let start = RandomState::new().hash_one(0) % u64::from(PORTS.end - PORTS.start);
        let start = PORTS.start + u16::try_from(start).expect("there are fewer ports");
        let candidates = (start..PORTS.end).chain(PORTS.start..start);
        candidates.filter_map(Self::claim).next().expect("some port is free")
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Where a server listens on it, as `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.number)
    }

    fn claim(number: u16) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("leasehold-port-{number}")).expect("the name is short");
        let claim = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: claim })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_claimed_once_and_can_be_listened_on() {
        let port = Port::reserve();
        assert!(Port::claim(port.number()).is_none());
        TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).unwrap();
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(Port::claim(listener.local_addr().unwrap().port()).is_none());
    }

    #[test]
    fn a_dropped_port_is_free_again() {
        let number = Port::reserve().number();
        assert!(Port::claim(number).is_some());
    }
}
