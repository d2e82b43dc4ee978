//! What systemd is told (`sd_notify(3)`): a datagram to the socket that it names.

use std::env;
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Whoever started us, if that is systemd.
pub struct Notify {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// As the environment says.
    pub fn of_this_process() -> Self {
        Self::of(env::var_os("NOTIFY_SOCKET"), env::var("WATCHDOG_USEC").ok(), env::var("WATCHDOG_PID").ok())
    }

    fn of(socket: Option<OsString>, usec: Option<String>, pid: Option<String>) -> Self {
        let is_ours = pid.is_none_or(|pid| pid == process::id().to_string());
        let watchdog = usec.filter(|_| is_ours).and_then(|usec| usec.parse().ok()).filter(|usec| *usec > 0);
        Self { socket: socket.and_then(connected), watchdog: watchdog.map(Duration::from_micros) }
    }

    /// How often the watchdog wants to hear from us: half of what it waits.
    pub fn watchdog_period(&self) -> Option<Duration> {
        self.watchdog.filter(|_| self.socket.is_some()).map(|waits| waits / 2)
    }

    /// We do what we are for.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// A reload begins; [`ready`](Self::ready) ends it.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
    }

    /// We end. What runs may take so long, beside what systemd waits for anyway.
    pub fn stopping(&self, at_most: Duration) {
        self.send(&format!("STOPPING=1\nSTATUS=waiting for what runs\nEXTEND_TIMEOUT_USEC={}", at_most.as_micros()));
    }

    /// How we are.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    /// We are alive.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Nobody is held up by a systemd that doesn't listen.
    fn send(&self, words: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(words.as_bytes());
        }
    }
}

fn connected(path: OsString) -> Option<UnixDatagram> {
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok()?,
        _ => SocketAddr::from_pathname(path).ok()?,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut words = [0; 1000];
        let length = socket.recv(&mut words).unwrap();
        String::from_utf8(words[..length].to_vec()).unwrap()
    }

    #[test]
    fn it_is_told_along_a_path_and_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("leasehold-test-{}", process::id());
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
                format!("@{name}").into(),
            ),
        ];
        for (socket, address) in sockets {
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let notify = Notify::of(Some(address), Some("4000000".into()), Some(process::id().to_string()));
            assert_eq!(notify.watchdog_period(), Some(Duration::from_secs(2)));
            notify.ready("2 jobs");
            assert_eq!(heard(&socket), "READY=1\nSTATUS=2 jobs");
            notify.reloading();
            assert!(heard(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
            notify.alive();
            assert_eq!(heard(&socket), "WATCHDOG=1");
        }
    }

    #[test]
    fn a_watchdog_of_somebody_else_is_none_of_ours() {
        let watched =
            |usec: &str, pid: &str| Notify::of(Some("/nowhere".into()), Some(usec.into()), Some(pid.into())).watchdog;
        assert_eq!(watched("1000000", "1"), None);
        assert_eq!(watched("0", &process::id().to_string()), None);
        assert_eq!(watched("1000000", &process::id().to_string()), Some(Duration::from_secs(1)));
        Notify::of(Some("/nowhere".into()), None, None).ready("nobody listens");
    }
}
