//! Frames as they pass: what arrives at and leaves the interfaces of a network namespace, each with the kernel's own time of
//! that moment, so that two frames can be told apart by microseconds however late somebody looks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys::socket::{Batch, receive_drops, set_option};

/// `ETH_P_ALL`: frames of every protocol, outgoing ones included.
const ALL_PROTOCOLS: u16 = 3;
/// Octets of the longest frame that is kept whole.
const LONGEST: usize = 2_048;
/// Frames that are taken in one call.
const BATCH: usize = 64;
/// Frames may wait in so many octets of kernel memory.
const RECEIVE_BUFFER: usize = 16 << 20;

/// A packet socket that sees every frame of the namespace that it was opened in.
#[derive(Debug)]
pub struct Frames {
    socket: Socket,
    batch: Batch<BATCH>,
}

impl Frames {
    /// Begins to see the frames of the network namespace of the calling thread.
    ///
    /// # Errors
    /// It takes CAP_NET_RAW.
    pub fn open() -> io::Result<Frames> {
        let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
        // What the settings of the kernel allow is less, mostly; whoever may open a packet socket may have more.
        if set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER as i32)
            .is_err()
        {
            socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        }
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        Ok(Frames { socket, batch: Batch::new(LONGEST) })
    }

    /// Hands over the frames that are waiting, up to a batch: when each passed, since the epoch of the system's clock, and its
    /// octets from the Ethernet header on. Gives how many; never blocks.
    ///
    /// # Errors
    /// The socket has failed.
    pub fn receive(&mut self, mut each: impl FnMut(Duration, &[u8])) -> io::Result<usize> {
        let count = self.batch.receive(self.socket.as_fd())?;
        for (frame, received) in self.batch.packets() {
            each(received.at.unwrap_or_default(), frame);
        }
        Ok(count)
    }

    /// Frames that were not seen because too many waited.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn lost(&self) -> io::Result<u64> {
        receive_drops(self.socket.as_fd())
    }
}

impl AsFd for Frames {
    /// Readable when frames are waiting.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
