//! Sockets of connections: how they listen, begin and are set up.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use earmark_linux::traffic_control::SIGNALLING_CLASS;
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use tracing::debug;

/// How long what was sent may go without an acknowledgement.
const SILENCE: Duration = Duration::from_secs(30);
/// Neighbours that the kernel lets wait.
const WAITING: i32 = 128;
/// Type of service: internetwork control, as of all our packets.
const TYPE_OF_SERVICE: u32 = 0xc0;

/// Whether it was the neighbour's trouble, and the next one may be let in.
pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted)
}

pub(super) fn listen(address: SocketAddr) -> io::Result<Socket> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A daemon that comes after another one need not wait for the other's connections to be forgotten.
    socket.set_reuse_address(true)?;
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

/// Messages leave at once and in the class of signalling, and a neighbour that is gone is noticed.
pub(super) fn prepare(socket: &Socket, is_ipv4: bool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(SILENCE))?;
    match is_ipv4 {
        true => socket.set_tos_v4(TYPE_OF_SERVICE)?,
        false => socket.set_tclass_v6(TYPE_OF_SERVICE)?,
    }
    // Only who may change queues can choose such a class.
    if let Err(error) = socket.set_priority(SIGNALLING_CLASS) {
        debug!(%error, "a connection goes with best effort");
    }
    Ok(())
}
