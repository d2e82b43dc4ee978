//! Packets over a `SOCK_SEQPACKET` pair, with descriptors where there are any. Nothing here waits.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recv, recvmsg, send, sendmsg,
    socketpair,
};

/// The longest packet that is read.
const LONGEST: usize = 16 * 1024;

/// A pair of sockets that no exec hands on.
pub fn pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)
}

/// What a socket has for us.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// A packet.
    Packet(T),
    /// Nothing at the moment.
    Nothing,
    /// The other side is gone.
    Closed,
}

/// Sends a packet.
pub fn send_packet(socket: &OwnedFd, packet: &[u8]) -> nix::Result<()> {
    send(socket.as_raw_fd(), packet, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL).map(drop)
}

/// Receives the next packet.
pub fn receive_packet(socket: &OwnedFd) -> Received<Vec<u8>> {
    let mut packet = vec![0; LONGEST];
    loop {
        return match recv(socket.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => Received::Closed,
            Ok(length) => {
                packet.truncate(length);
                Received::Packet(packet)
            }
            // Told once, and before what it has sent, of a side that is gone and has left something unread.
            Err(Errno::ECONNRESET) => continue,
            Err(Errno::EAGAIN | Errno::EINTR) => Received::Nothing,
            Err(_) => Received::Closed,
        };
    }
}

/// Sends descriptors, as copies that the receiver owns.
pub fn send_descriptors<const N: usize>(socket: &OwnedFd, descriptors: [BorrowedFd<'_>; N]) -> nix::Result<()> {
    let descriptors = descriptors.map(|descriptor| descriptor.as_raw_fd());
    let content = [IoSlice::new(b"D")]; // without content, nothing would carry them
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(socket.as_raw_fd(), &content, &rights, flags, None).map(drop)
}

/// Receives what [`send_descriptors`] sent.
pub fn receive_descriptors<const N: usize>(socket: &OwnedFd) -> Received<[OwnedFd; N]> {
    let mut content = [0];
    let mut into = [IoSliceMut::new(&mut content)];
    let mut rights = cmsg_space!([RawFd; N]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = match recvmsg::<()>(socket.as_raw_fd(), &mut into, Some(&mut rights), flags) {
        Ok(message) if message.bytes == 0 => return Received::Closed,
        Ok(message) => message,
        Err(Errno::EAGAIN | Errno::EINTR) => return Received::Nothing,
        Err(_) => return Received::Closed,
    };
    // Where we have no room for all of them, some are ours and unknown: only our own end closes these.
    let Ok(messages) = message.cmsgs() else { return Received::Closed };
    let received = messages.filter_map(|message| match message {
        ControlMessageOwned::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    // SAFETY: the kernel has just made these descriptors for us, and nobody else owns them.
    #[expect(unsafe_code, reason = "descriptors come as numbers")]
    let owned: Vec<OwnedFd> = received.flatten().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect();
    owned.try_into().map_or(Received::Nothing, Received::Packet)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use nix::fcntl::{FcntlArg, FdFlag, fcntl};

    use super::*;

    #[test]
    fn descriptors_come_as_copies_that_no_exec_hands_on() {
        let (ours, theirs) = pair().unwrap();
        assert_eq!(receive_packet(&theirs), Received::Nothing);
        let (reader, writer) = nix::unistd::pipe().unwrap();
        send_descriptors(&ours, [reader.as_fd(), writer.as_fd()]).unwrap();
        drop((reader, writer));
        let Received::Packet([reader, writer]) = receive_descriptors::<2>(&theirs) else { panic!("nothing came") };
        assert_eq!(fcntl(&reader, FcntlArg::F_GETFD), Ok(FdFlag::FD_CLOEXEC.bits()));
        File::from(writer).write_all(b"through").unwrap();
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through", "and the writer was the last");
    }

    #[test]
    fn packets_keep_their_ends_and_a_closed_socket_is_told_from_a_quiet_one() {
        let (ours, theirs) = pair().unwrap();
        send_packet(&ours, b"one").unwrap();
        send_packet(&ours, b"two").unwrap();
        drop(ours);
        assert_eq!(receive_packet(&theirs), Received::Packet(b"one".to_vec()));
        assert_eq!(receive_packet(&theirs), Received::Packet(b"two".to_vec()));
        assert_eq!(receive_packet(&theirs), Received::Closed);
        assert_eq!(send_packet(&theirs, b"three"), Err(Errno::EPIPE));
    }

    #[test]
    fn last_words_are_heard_of_one_who_has_not_listened() {
        let (ours, theirs) = pair().unwrap();
        send_packet(&ours, b"unheard").unwrap();
        send_packet(&theirs, b"last words").unwrap();
        drop(theirs);
        assert_eq!(receive_packet(&ours), Received::Packet(b"last words".to_vec()));
        assert_eq!(receive_packet(&ours), Received::Closed);
    }
}
