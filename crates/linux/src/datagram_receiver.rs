//! A socket that receives datagrams in batches: for a host whose rate is too high for one system call per datagram.

use std::io;
use std::os::fd::AsFd;

use socket2::Socket;

use crate::sys::socket::{Batch, set_receive_buffer};

/// Datagrams received in one call.
const BATCH: usize = 32;

/// A socket with a buffer for a batch of datagrams.
#[derive(Debug)]
pub struct DatagramReceiver {
    socket: Socket,
    batch: Batch<BATCH>,
}

impl DatagramReceiver {
    /// Wraps a socket. Datagrams of more than `max_length` octets are truncated. `buffer_size`: octets of kernel memory
    /// for waiting datagrams; the kernel's limit applies unless this process may exceed it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(
        socket: Socket,
        max_length: usize,
        buffer_size: i32,
    ) -> io::Result<DatagramReceiver> {
        set_receive_buffer(socket.as_fd(), buffer_size)?;
        Ok(DatagramReceiver { socket, batch: Batch::new(max_length) })
    }

    /// Passes the waiting datagrams, up to a batch, to `each`. Returns their number; never blocks.
    ///
    /// # Errors
    /// The socket has failed.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<usize> {
        let count = self.batch.receive(self.socket.as_fd())?;
        self.batch.packets().for_each(|(datagram, _)| each(datagram));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    #[test]
    fn waiting_datagrams_come_in_order_and_long_ones_are_truncated() {
        let here = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = here.local_addr().unwrap();
        let mut datagram_receiver = DatagramReceiver::new(here.into(), 3, 1 << 20).unwrap();
        let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let count = BATCH as u8 + 5;
        for number in 0..count {
            from.send_to(&[number; 4], to).unwrap();
        }
        let mut heard = Vec::new();
        while datagram_receiver.receive(|datagram| heard.push(datagram.to_vec())).unwrap() > 0 {}
        assert_eq!(heard, (0..count).map(|number| vec![number; 3]).collect::<Vec<_>>());
    }
}
