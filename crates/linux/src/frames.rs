//! Capture of frames: everything that arrives at and leaves the interfaces of a network namespace, with the kernel's
//! time stamps, so that times are exact to microseconds even if the frames are read late.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys::packet_times;
use crate::sys::socket::{Batch, receive_drops};

/// `ETH_P_ALL`: frames of every protocol, outgoing ones included.
const ALL_PROTOCOLS: u16 = 3;
/// Octets of a frame that are kept; longer frames are cut.
const MAX_FRAME: usize = 2_048;
/// Frames received in one call.
const BATCH: usize = 64;
/// Octets of kernel memory for frames that wait.
const RECEIVE_BUFFER: i32 = 16 << 20;

/// A packet socket that receives every frame of the namespace that it was opened in.
#[derive(Debug)]
pub struct Frames {
    socket: Socket,
    batch: Batch<BATCH>,
}

impl Frames {
    /// Starts to capture in the network namespace of the calling thread.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing.
    pub fn open() -> io::Result<Frames> {
        let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
        packet_times::prepare(&socket, RECEIVE_BUFFER)?;
        Ok(Frames { socket, batch: Batch::new(MAX_FRAME) })
    }

    /// Passes the waiting frames, up to a batch, to `each`: the time since the epoch of the system's clock, and the
    /// octets from the Ethernet header on. Returns their number; never blocks.
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

    /// Returns the number of frames that were lost because the receive buffer was full.
    ///
    /// # Errors
    /// The kernel does not report the number.
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
