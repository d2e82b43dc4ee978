//! What wrapper and warden say to each other, one packet each, over a `SOCK_SEQPACKET` pair.

use std::{
    ffi::OsString,
    os::{
        fd::RawFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
};

use nix::{
    errno::Errno,
    sys::{
        signal::Signal,
        socket::{MsgFlags, recv, send as send_packet},
    },
};

/// The longest packet: the environment's changes must fit in.
const LONGEST: usize = 32 * 1024;

/// One packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// To the warden: start the job. The environment is the inherited one with these changes.
    Start(Vec<Change>),
    /// To the warden: hand this signal to the job. An `order` is meant to end it.
    Forward {
        /// The signal.
        signal: Signal,
        /// Whether the job is to end of it.
        order: bool,
    },
    /// To the warden: kill the tree at once.
    Kill,
    /// To the warden: we were continued, continue the job; unless it has been stopped again since.
    Continue(Stops),
    /// To the warden: read the page again.
    Poke,
    /// To the wrapper: the job is in our group, so what the terminal sends from here on reaches it.
    Joined,
    /// To the wrapper: the terminal stopped the job (TSTP, TTIN, TTOU).
    Stopped(Stops),
    /// To the wrapper: a `Continue` is dealt with, so no SIGCONT of it is still to come.
    Continued,
    /// To the wrapper: the run is over, the page says how. (Where the warden stays for another run.)
    Over,
}

/// How often the job has been stopped without the wrapper's doing.
pub(super) type Stops = u32;

/// A change to the inherited environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Set this variable, over an inherited one.
    Set(OsString, OsString),
    /// Take this variable away.
    Remove(OsString),
}

/// Sends `message`; never blocks.
pub(super) fn send(socket: RawFd, message: &Message) -> nix::Result<()> {
    let packet = message.encode();
    if packet.len() > LONGEST {
        return Err(Errno::E2BIG);
    }
    send_packet(socket, &packet, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL).map(drop)
}

/// What a socket has for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A message.
    Message(Message),
    /// Nothing at the moment.
    Nothing,
    /// The other side is gone.
    Closed,
}

/// Receives the next message; never blocks.
pub(super) fn receive(socket: RawFd) -> Received {
    let mut packet = [0; LONGEST];
    match recv(socket, &mut packet, MsgFlags::MSG_DONTWAIT) {
        Ok(0) => Received::Closed,
        Ok(length) => Message::decode(&packet[..length]).map_or(Received::Closed, Received::Message),
        Err(Errno::EAGAIN | Errno::EINTR) => Received::Nothing,
        Err(_) => Received::Closed,
    }
}

impl Message {
    fn encode(&self) -> Vec<u8> {
        match self {
            Message::Start(changes) => changes.iter().fold(vec![b'S'], |packet, change| change.encode(packet)),
            Message::Forward { signal, order } => vec![b'F', *signal as u8, u8::from(*order)],
            Message::Kill => vec![b'K'],
            Message::Continue(stops) => [b"C", &stops.to_ne_bytes()[..]].concat(),
            Message::Poke => vec![b'P'],
            Message::Joined => vec![b'J'],
            Message::Stopped(stops) => [b"T", &stops.to_ne_bytes()[..]].concat(),
            Message::Continued => vec![b'D'],
            Message::Over => vec![b'O'],
        }
    }

    fn decode(packet: &[u8]) -> Option<Message> {
        Some(match packet {
            [b'S', changes @ ..] => Message::Start(Change::decode_all(changes)),
            [b'F', signal, order] => {
                Message::Forward { signal: Signal::try_from(i32::from(*signal)).ok()?, order: *order == 1 }
            }
            [b'K'] => Message::Kill,
            [b'C', stops @ ..] => Message::Continue(Stops::from_ne_bytes(stops.try_into().ok()?)),
            [b'P'] => Message::Poke,
            [b'J'] => Message::Joined,
            [b'T', stops @ ..] => Message::Stopped(Stops::from_ne_bytes(stops.try_into().ok()?)),
            [b'D'] => Message::Continued,
            [b'O'] => Message::Over,
            _ => return None,
        })
    }
}

impl Change {
    /// The variable that is changed.
    pub(super) fn name(&self) -> &OsString {
        match self {
            Change::Set(name, _) | Change::Remove(name) => name,
        }
    }

    /// `NAME=VALUE\0` sets, `NAME\0` removes: neither byte can be in a variable's name.
    fn encode(&self, mut packet: Vec<u8>) -> Vec<u8> {
        match self {
            Change::Set(name, value) => {
                packet.extend_from_slice(name.as_bytes());
                packet.push(b'=');
                packet.extend_from_slice(value.as_bytes());
            }
            Change::Remove(name) => packet.extend_from_slice(name.as_bytes()),
        }
        packet.push(0);
        packet
    }

    fn decode_all(packet: &[u8]) -> Vec<Change> {
        let own = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        packet
            .split(|byte| *byte == 0)
            .filter(|entry| !entry.is_empty())
            .map(|entry| match entry.iter().position(|byte| *byte == b'=') {
                Some(at) => Change::Set(own(&entry[..at]), own(&entry[at + 1..])),
                None => Change::Remove(own(entry)),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_way() {
        let changes = vec![
            Change::Set("A".into(), "1=2".into()),
            Change::Set("EMPTY".into(), "".into()),
            Change::Remove("PASSWORD".into()),
        ];
        for message in [
            Message::Start(changes),
            Message::Start(vec![]),
            Message::Forward { signal: Signal::SIGTERM, order: true },
            Message::Forward { signal: Signal::SIGUSR1, order: false },
            Message::Kill,
            Message::Continue(70_000),
            Message::Poke,
            Message::Stopped(3),
            Message::Continued,
            Message::Over,
        ] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }
}
