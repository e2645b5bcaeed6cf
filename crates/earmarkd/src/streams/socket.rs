//! Sockets of connections: listening, connecting and their options.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use earmark_core::CloseReason;
use earmark_linux::traffic_control::SIGNALLING_CLASS;
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use tracing::debug;

/// Time that sent data may stay unacknowledged before the connection is closed (TCP_USER_TIMEOUT).
const SILENCE: Duration = Duration::from_secs(30);
/// Backlog of the listening sockets.
const WAITING: i32 = 128;
/// Type of service: internetwork control, as for all messages of this node.
const TYPE_OF_SERVICE: u32 = 0xc0;

/// Whether an error of accept(2) concerns only the connection at hand, so that the next one can be accepted.
pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted)
}

pub(super) fn listen(address: SocketAddr) -> io::Result<Socket> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A restarted daemon must not wait for the connections of its predecessor to time out.
    socket.set_reuse_address(true)?;
    // The kernel answers a SYN with the options of the listening socket: without them a full queue delays each connection.
    set_traffic_class(&socket, address.is_ipv4())?;
    socket.bind(&address.into())?;
    socket.listen(WAITING)?;
    Ok(socket)
}

pub(super) fn begin(local: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM.nonblocking().cloexec(), None)?;
    prepare(&socket, to.is_ipv4())?;
    socket.bind(&local.into())?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Sets the options of a connection: non-blocking, no delay, timeout, and the traffic class of signalling.
pub(super) fn prepare(socket: &Socket, is_ipv4: bool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(SILENCE))?;
    set_traffic_class(socket, is_ipv4)
}

/// Sets the type of service and the priority of signalling.
fn set_traffic_class(socket: &Socket, is_ipv4: bool) -> io::Result<()> {
    match is_ipv4 {
        true => socket.set_tos_v4(TYPE_OF_SERVICE)?,
        false => socket.set_tclass_v6(TYPE_OF_SERVICE)?,
    }
    // Setting the priority needs the privilege to change queues.
    if let Err(error) = socket.set_priority(SIGNALLING_CLASS) {
        debug!(%error, "a connection goes with best effort");
    }
    Ok(())
}

/// Writes the queue until it is empty or the neighbor accepts no more.
pub(super) fn write(mut socket: &TcpStream, outgoing: &mut VecDeque<u8>) -> io::Result<()> {
    while !outgoing.is_empty() {
        match socket.write(outgoing.as_slices().0) {
            Ok(length) => drop(outgoing.drain(..length)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_for_later(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a read or write can be repeated when the socket is ready.
pub(super) fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Reason for a failed read or write.
pub(super) fn of_transfer(error: &io::Error) -> CloseReason {
    match error.kind() {
        ErrorKind::TimedOut => CloseReason::TimedOut,
        _ => CloseReason::Broken,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// Priorities above 6 need the privilege to change queues; without it sockets keep the one of their type of service.
    fn has_class_of_signalling(socket: &Socket) -> bool {
        let probe = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let is_privileged = probe.set_priority(SIGNALLING_CLASS).is_ok();
        !is_privileged || socket.priority().expect("a priority") == SIGNALLING_CLASS
    }

    #[test]
    fn listening_socket_answers_in_the_class_of_signalling() {
        let socket = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        assert_eq!(socket.tos_v4().expect("a type of service"), TYPE_OF_SERVICE);
        assert!(has_class_of_signalling(&socket));
        let socket = listen(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))).expect("a free port");
        assert_eq!(socket.tclass_v6().expect("a traffic class"), TYPE_OF_SERVICE);
        assert!(has_class_of_signalling(&socket));
    }
}
