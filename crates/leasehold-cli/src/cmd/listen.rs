//! `--listen`: an address at which we answer.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use crate::exit::{self, Failure};

/// The addresses that are meant by what was typed; `example` is one that would do.
///
/// # Errors
/// 64 if it is none.
pub fn addresses(typed: &str, example: &str) -> Result<Vec<SocketAddr>, Failure> {
    let found = typed.to_socket_addrs().map(Vec::from_iter).map_err(|error| {
        let fix = format!("give an address of this machine and a free port, as {example}");
        Failure::new(exit::USAGE, format!("--listen: cannot listen at {typed}: {error}; {fix}"))
    })?;
    Ok(found)
}

/// Takes the first of these that can be had.
///
/// # Errors
/// 77 where this user may not, else 78: what was typed is an address, and the machine doesn't give it.
pub fn bind(typed: &str, addresses: &[SocketAddr]) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(addresses).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| refused(typed, addresses, &error))
}

fn refused(typed: &str, addresses: &[SocketAddr], error: &io::Error) -> Failure {
    let port = addresses.first().map_or(0, SocketAddr::port);
    let (code, why) = match error.kind() {
        ErrorKind::AddrInUse => (
            exit::CONFIG,
            format!(
                "another process listens there; end it (`ss -ltnp 'sport = :{port}'` names it), or take another port"
            ),
        ),
        ErrorKind::AddrNotAvailable => {
            (exit::CONFIG, "this machine has no such address (`ip addr` shows those that it has)".to_owned())
        }
        ErrorKind::PermissionDenied => (
            exit::DENIED,
            "this user may not; take a port above 1023, or give the service CAP_NET_BIND_SERVICE".to_owned(),
        ),
        _ => (exit::CONFIG, "see that the machine has an address and a port for it".to_owned()),
    };
    Failure::new(code, format!("--listen: cannot listen at {typed}: {error}; {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_does_not_give_is_no_fault_of_the_command_line() {
        let at = [SocketAddr::from(([127, 0, 0, 1], 80))];
        for (kind, code, words) in [
            (ErrorKind::AddrInUse, 78, "'sport = :80'"),
            (ErrorKind::AddrNotAvailable, 78, "no such address"),
            (ErrorKind::PermissionDenied, 77, "above 1023"),
            (ErrorKind::OutOfMemory, 78, "the machine"),
        ] {
            let failure = refused("localhost:80", &at, &kind.into());
            assert_eq!(failure.code, code, "{failure:?}");
            assert!(failure.message.starts_with("--listen: cannot listen at localhost:80: "), "{failure:?}");
            assert!(failure.message.contains(words), "{failure:?}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_with_one() {
        let failure = addresses("nonsense", "127.0.0.1:7676").unwrap_err();
        assert!(failure.code == 64 && failure.message.ends_with("as 127.0.0.1:7676"), "{failure:?}");
    }
}
