//! Packet socket for the packets that pass the router's interfaces, with timestamps; its filter accepts packets short
//! enough for signalling.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use earmark_linux::netns::Namespace;
use earmark_linux::packet_times;
use earmark_wire::ipv4;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

/// `ETH_P_ALL`: frames of every protocol, outgoing ones included.
const ALL_PROTOCOLS: u16 = 3;
/// Octets of the Ethernet header.
const LINK_HEADER: usize = 14;
/// Upper limit of the length of messages, headers included; packets of the background are longer.
const SHORTEST_OF_OTHERS: u32 = 500;
/// Receive buffer, octets.
const RECEIVE_BUFFER: i32 = 64 << 20;
/// Octets of a frame that are read.
const LONGEST: usize = 2_048;

/// Filter for short IPv4 packets, as classic BPF over the frame.
const SHORT: [SockFilter; 6] = [
    SockFilter::new(0x28, 0, 0, 12),     // 0 load the EtherType
    SockFilter::new(0x15, 0, 3, 0x0800), // 1 not IPv4: to 5
    SockFilter::new(0x28, 0, 0, 16),     // 2 load the packet's length
    SockFilter::new(0x35, 1, 0, SHORTEST_OF_OTHERS), // 3 not shorter: to 5
    SockFilter::new(0x06, 0, 0, 0xffff_ffff), // 4 accept all of it
    SockFilter::new(0x06, 0, 0, 0),      // 5 drop
];

/// Packet socket on all interfaces of a namespace.
pub(in crate::paper_reproduction) struct Tap {
    socket: Socket,
    frame: Vec<u8>,
}

/// A packet that passed an interface.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::paper_reproduction) struct Seen {
    /// Time since 1970.
    pub(in crate::paper_reproduction) at: Duration,
    /// Whether the packet left the router, or arrived.
    pub(in crate::paper_reproduction) leaves: bool,
    /// IP protocol number.
    pub(in crate::paper_reproduction) protocol: u8,
    pub(in crate::paper_reproduction) destination: IpAddr,
    /// Octets after the IP header.
    pub(in crate::paper_reproduction) payload: Vec<u8>,
}

impl Tap {
    /// Starts to capture on all interfaces of a namespace.
    pub(super) fn open(namespace: &Namespace) -> Result<Tap> {
        let open = || -> std::io::Result<Socket> {
            let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
            socket.attach_filter(&SHORT)?;
            packet_times::prepare(&socket, RECEIVE_BUFFER)?;
            Ok(socket)
        };
        let opened = namespace.run_in(open).and_then(|opened| opened);
        let socket = opened.context("cannot watch the router's interfaces")?;
        Ok(Tap { socket, frame: vec![0; LONGEST] })
    }

    /// Drops the packets captured so far.
    pub(in crate::paper_reproduction) fn forget(&mut self) -> Result<()> {
        while self.look()?.is_some() {}
        Ok(())
    }

    /// Returns the number of packets lost by a full buffer.
    pub(in crate::paper_reproduction) fn missed(&self) -> Result<u64> {
        packet_times::missed(&self.socket).context("cannot read the count of missed packets")
    }

    /// Returns the next packet, once it has passed; `None` if none does until `deadline`.
    pub(in crate::paper_reproduction) fn next(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<Seen>> {
        loop {
            if let Some(seen) = self.look()? {
                return Ok(Some(seen));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut ready, Some(&Timespec::try_from(left)?)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the next packet that has passed already.
    pub(in crate::paper_reproduction) fn look(&mut self) -> Result<Option<Seen>> {
        while let Some(sighting) = packet_times::next(&self.socket, &mut self.frame)? {
            let packet = self.frame[..sighting.length].get(LINK_HEADER..).unwrap_or_default();
            let Ok(packet) = ipv4::Packet::parse(packet) else { continue };
            return Ok(Some(Seen {
                at: sighting.at,
                leaves: sighting.is_outgoing,
                protocol: packet.protocol(),
                destination: packet.destination().into(),
                payload: packet.payload().to_vec(),
            }));
        }
        Ok(None)
    }
}
