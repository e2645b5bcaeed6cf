//! Measured streams through a network: one source, any number of sinks.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use earmark_control::ReservationRequest;
use earmark_core::{Rate, Time};
use earmark_lab::traffic::{self, Shape, Sink, Source};
use earmark_sim::Trace;
use libtest_mimic::Failed;
use socket2::{Domain, SockRef, Socket, Type};

use crate::net::Net;

/// Port of the stream at both ends.
pub(crate) const STREAM_PORT: u16 = 5_001;
/// Destination port of floods.
const FLOOD_PORT: u16 = 5_009;
/// Duration longer than any test: traffic ends on request.
const LONG: Duration = Duration::from_secs(600);
/// Time for packets in flight when a source ends.
const DRAIN: Duration = Duration::from_millis(500);

/// Shape of the stream that must keep its rate.
pub(crate) const STREAM: Shape =
    Shape { rate: Rate::from_mbps(2), packet_octets: 1_000, bucket_octets: 32_000 };
/// Shape of the flood beside it.
pub(crate) const FLOOD: Shape =
    Shape { rate: Rate::from_mbps(20), packet_octets: 1_400, bucket_octets: 64_000 };

/// A running stream.
pub(crate) struct Stream {
    shape: Shape,
    source: Source,
    sinks: Vec<Sink>,
}

impl Stream {
    /// Starts the measured stream from a host to an address, received by hosts that have it or join it.
    pub(crate) fn start(net: &Net, from: &str, to: IpAddr, at: &[&str]) -> Result<Stream, Failed> {
        start(net, STREAM, [STREAM_PORT; 2], from, to, at)
    }

    /// Starts a stream of the same shape between other ports.
    pub(crate) fn between(
        net: &Net,
        ports: [u16; 2],
        from: &str,
        to: IpAddr,
        at: &[&str],
    ) -> Result<Stream, Failed> {
        start(net, STREAM, ports, from, to, at)
    }

    /// Starts a stream of any shape between two ports.
    pub(crate) fn shaped(
        net: &Net,
        shape: Shape,
        ports: [u16; 2],
        from: &str,
        to: IpAddr,
        at: &[&str],
    ) -> Result<Stream, Failed> {
        start(net, shape, ports, from, to, at)
    }

    /// Starts a flood from one host to another.
    pub(crate) fn flood(net: &Net, from: &str, to: &str, ipv4: bool) -> Result<Stream, Failed> {
        start(net, FLOOD, [0, FLOOD_PORT], from, net.address(to, ipv4), &[to])
    }

    /// Starts a flood of a shape from one host to a port of another, with a DSCP.
    pub(crate) fn marked_flood(
        net: &Net,
        (shape, dscp): (Shape, u32),
        from: &str,
        (to, port): (&str, u16),
        ipv4: bool,
    ) -> Result<Stream, Failed> {
        let to_address = net.address(to, ipv4);
        let sink = Sink::start(listen(net, to, to_address, port)?)?;
        let own = SocketAddr::new(net.address(from, ipv4), 0);
        let socket = net.namespace(from).run_in(|| bind(own))??;
        match ipv4 {
            true => SockRef::from(&socket).set_tos_v4(dscp << 2)?,
            false => SockRef::from(&socket).set_tclass_v6(dscp << 2)?,
        }
        socket.connect(SocketAddr::new(to_address, port))?;
        Ok(Stream { shape, source: Source::start(socket, shape, LONG)?, sinks: vec![sink] })
    }

    /// Ends the stream; returns its trace at each of its sinks.
    pub(crate) fn stop(self) -> Result<Vec<Trace>, Failed> {
        let sent = self.source.stop()?;
        std::thread::sleep(DRAIN);
        let octets = self.shape.packet_octets;
        let trace = |sink: Sink| Ok(traffic::trace(octets, &sent, &sink.stop()?));
        self.sinks.into_iter().map(trace).collect()
    }
}

/// Returns the announcement of the measured stream.
pub(crate) fn announcement(net: &Net, from: &str, to: IpAddr) -> ReservationRequest {
    ReservationRequest {
        from: Some(SocketAddr::new(net.address(from, to.is_ipv4()), STREAM_PORT)),
        burst_octets: STREAM.bucket_octets,
        min_packet: STREAM.packet_octets,
        max_packet: STREAM.packet_octets,
        ..ReservationRequest::new(SocketAddr::new(to, STREAM_PORT), STREAM.rate)
    }
}

/// Returns the loss among the packets sent in a span.
pub(crate) fn loss(trace: &Trace, from: Time, span: Duration) -> f64 {
    trace.figures(from, from + span).loss
}

/// Lets traffic flow for a while; returns the start time.
pub(crate) fn watch(span: Duration) -> Time {
    let since = traffic::now();
    std::thread::sleep(span + Duration::from_millis(100));
    since
}

fn start(
    net: &Net,
    shape: Shape,
    [source_port, port]: [u16; 2],
    from: &str,
    to: IpAddr,
    at: &[&str],
) -> Result<Stream, Failed> {
    let own = SocketAddr::new(net.address(from, to.is_ipv4()), source_port);
    let mut sinks = Vec::new();
    for host in at {
        let socket = listen(net, host, to, port)?;
        if source_port != 0 && !to.is_multicast() {
            // Connected sockets separate streams that end at the same port.
            net.namespace(host).run_in(|| socket.connect(own))??;
        }
        sinks.push(Sink::start(socket)?);
    }
    let interface = net.interface(from, "eth0")?;
    let socket = net.namespace(from).run_in(|| bind(own))??;
    if to.is_multicast() {
        let socket = SockRef::from(&socket);
        match own.ip() {
            IpAddr::V4(own) => {
                socket.set_multicast_if_v4(&own)?;
                socket.set_multicast_ttl_v4(16)?;
            }
            IpAddr::V6(_) => {
                socket.set_multicast_if_v6(interface.0)?;
                socket.set_multicast_hops_v6(16)?;
            }
        }
    }
    socket.connect(SocketAddr::new(to, port))?;
    Ok(Stream { shape, source: Source::start(socket, shape, LONG)?, sinks })
}

/// Binds a socket. Several sockets may share the port: sinks of different sources, and the source of the opposite
/// direction.
fn bind(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&at.into())?;
    Ok(socket.into())
}

/// Opens a socket of a host that receives packets to its address, or to a group, which it joins.
fn listen(net: &Net, host: &str, to: IpAddr, port: u16) -> Result<UdpSocket, Failed> {
    let any: IpAddr = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let interface = net.interface(host, "eth0")?;
    let own = net.address(host, to.is_ipv4());
    let socket = net.namespace(host).run_in(|| bind(SocketAddr::new(any, port)))??;
    match (to, own) {
        (IpAddr::V4(group), IpAddr::V4(own)) if to.is_multicast() => {
            socket.join_multicast_v4(&group, &own)?;
        }
        (IpAddr::V6(group), _) if to.is_multicast() => {
            socket.join_multicast_v6(&group, interface.0)?;
        }
        _ => {}
    }
    Ok(socket)
}
