//! One router between two hosts, in namespaces, and messages that pass it one at a time (Figure 1 of the study of Budapest):
//!
//! ```text
//!   near 192.0.2.1 --- 192.0.2.2 [router] 198.51.100.1 --- 198.51.100.2 far        veth pairs
//!   172.16.0.0/12                  daemon                     10.0.0.0/8
//! ```
//!
//! Checkpoint 1 is the kernel's timestamp of a packet at the router's interfaces ([`tap`]). Checkpoint 2 is where the
//! daemon, which runs in this process on a thread of its own ([`daemon`]), gets a message from its socket, and where
//! it hands out the resulting one. The hosts' messages are written by [`crate::bench::router`], whose router stands
//! in for the daemon's: it records what the daemon's router has sent.

mod daemon;
mod tap;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_core::Prefix;
use earmark_core::checkpoint::Checkpoint;
use earmark_linux::link;
use earmark_linux::netns::Namespace;
use socket2::{Domain, Socket, Type};

use super::checkpoint_trace::{CheckpointTracing, Clock, TracePoint, by_message};
use crate::bench::router::{Arrival, Message, Protocol, Router, Side};
use daemon::Daemon;
use tap::{Seen, Tap};

/// Timeout of a message through the router.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Bandwidth of the router's links in its daemon's configuration.
const BANDWIDTH: &str = "10Gbit";
/// `IPPROTO_RAW`: the packet includes its IP header.
const RAW: i32 = 255;
/// Octets of data in a packet without a message.
const PLAIN: usize = 100;
const UDP: u8 = 17;
/// UDP port of GIST; the hosts bind it, because their kernels would send errors otherwise.
const GIST: u16 = 270;

/// Destination of packets without a message, and of the background: an unused address behind the far host.
pub(super) const NOWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 200, 0, 1), 9);

/// A configuration of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouterVariant {
    pub(super) protocol: Protocol,
    pub(super) name: &'static str,
    /// Settings of the daemon.
    pub(super) settings: &'static str,
    /// Whether the daemon handles the messages.
    pub(super) daemon: bool,
}

/// Times of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardingLatency {
    /// Checkpoint 1, microseconds.
    pub interfaces_us: f64,
    /// Times in the daemon; `None` if the kernel's offload handled the message.
    pub inside: Option<DaemonLatency>,
}

/// Times of a message in the daemon, microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonLatency {
    /// Checkpoint 2: from input to output.
    pub all_us: f64,
    /// Time of traffic control within it.
    pub traffic_control_us: f64,
    /// Marks of the message, from its beginning to the mark after which its results were sent.
    pub(super) steps: Vec<TracePoint>,
}

/// The hosts and the router. Dropping the value removes them.
pub struct ForwardingTestbed {
    near: Host,
    far: Host,
    pub(super) tap: Tap,
    daemon: Daemon,
    /// Writer of the hosts' messages.
    writer: Router,
    protocol: Protocol,
    clock: Clock,
}

/// A host with its raw socket.
struct Host {
    namespace: Arc<Namespace>,
    socket: Socket,
    /// Sockets that keep its kernel from answering.
    _silent: (Socket, UdpSocket),
}

impl ForwardingTestbed {
    /// Builds the network for messages of a protocol; `settings` are lines of the daemon's configuration.
    ///
    /// # Errors
    /// Namespaces are unavailable, the daemon does not start, or steps cannot be timed here.
    pub fn up(protocol: Protocol, settings: &str) -> Result<ForwardingTestbed> {
        let create =
            || Namespace::unnamed().map(Arc::new).context("network namespaces are unavailable");
        let [near, router, far] = [create()?, create()?, create()?];
        join(&near, &router, "eth0", ["192.0.2.1", "192.0.2.2"])?;
        join(&far, &router, "eth1", ["198.51.100.2", "198.51.100.1"])?;
        link::sysctl(&router, "net.ipv4.ip_forward", "1")?;
        for (namespace, destination, gateway) in [
            (&near, "0.0.0.0/0", "192.0.2.2"),
            (&far, "0.0.0.0/0", "198.51.100.1"),
            (&router, "172.16.0.0/12", "192.0.2.1"),
            (&router, "10.0.0.0/8", "198.51.100.2"),
        ] {
            let prefix: Prefix = destination.parse().context("a prefix")?;
            link::add_route(namespace, prefix, gateway.parse()?)?;
        }
        let clock = Clock::calibrate(&CheckpointTracing::begin())?;
        let tap = Tap::open(&router)?;
        let daemon = Daemon::start(router, &configuration(settings))?;
        let [near, far] = [Host::in_namespace(near)?, Host::in_namespace(far)?];
        let writer = Router::new(protocol);
        Ok(ForwardingTestbed { near, far, tap, daemon, writer, protocol, clock })
    }

    /// Returns the message of a session, as a host would send it now.
    pub fn write(&self, kind: &Message, session: u32, round: u32) -> Arrival {
        kind.of(&self.writer, session, round)
    }

    /// Sends a message from a host.
    ///
    /// # Errors
    /// The kernel rejects the message.
    pub fn send(&self, message: &Arrival) -> Result<()> {
        let host = match message.side() {
            Side::Near => &self.near,
            Side::Far => &self.far,
        };
        let to = SocketAddr::new(message.destination(), 0).into();
        host.socket.send_to(&message.packet(), &to).context("a message cannot be sent")?;
        Ok(())
    }

    /// Opens a socket of the near host, for packets to an address behind the far one.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn datagrams(&self, to: (Ipv4Addr, u16)) -> Result<UdpSocket> {
        let open = || {
            let socket = UdpSocket::bind(("0.0.0.0", 0))?;
            socket.connect(to)?;
            Ok(socket)
        };
        let opened = self.near.namespace.run_in(open).and_then(|opened: std::io::Result<_>| opened);
        opened.context("a host has no socket for data")
    }

    /// Sends a message through the router, and waits until it, or the resulting message, has left; returns `None` if
    /// nothing left.
    ///
    /// # Errors
    /// A part of the network has failed.
    pub fn forward(&mut self, message: &Arrival) -> Result<Option<ForwardingLatency>> {
        self.tap.forget()?;
        self.daemon.forget();
        self.send(message)?;
        let deadline = Instant::now() + TIMEOUT;
        let (protocol, destination) = (message.protocol(), message.destination());
        let crossing = self.crossing(protocol, destination, deadline)?;
        let Some((interfaces_us, left)) = crossing else { return Ok(None) };
        self.writer.record_answer(self.protocol, message.session(), &left.payload);
        let inside = match self.daemon.marks(deadline)? {
            Some(stamps) => Some(self.inside(&stamps)?),
            None => None,
        };
        Ok(Some(ForwardingLatency { interfaces_us, inside }))
    }

    /// Sends a packet without a message through the router, from a socket of [`ForwardingTestbed::datagrams`]; returns the time
    /// between the interfaces, microseconds, or `None` if it did not leave. The pause after it is as long as after a
    /// message, because the state of the caches depends on the length of the pause.
    ///
    /// # Errors
    /// A part of the network has failed.
    pub fn forward_plain(&mut self, socket: &UdpSocket) -> Result<Option<f64>> {
        self.tap.forget()?;
        socket.send(&[0; PLAIN]).context("a packet cannot be sent")?;
        let destination = socket.peer_addr().context("a socket has lost its peer")?.ip();
        let crossing = self.crossing(UDP, destination, Instant::now() + TIMEOUT)?;
        self.daemon.settle();
        Ok(crossing.map(|(interfaces_us, _)| interfaces_us))
    }

    /// Waits for a packet to this destination to arrive, and for the next of its protocol to leave; returns the time
    /// between, microseconds, and the packet that left.
    fn crossing(
        &mut self,
        protocol: u8,
        destination: IpAddr,
        deadline: Instant,
    ) -> Result<Option<(f64, Seen)>> {
        let mut came = None;
        while let Some(seen) = self.tap.next(deadline)? {
            match (seen.leaves, came) {
                _ if seen.protocol != protocol => {}
                (false, None) if seen.destination == destination => came = Some(seen.at),
                (true, Some(came)) => {
                    return Ok(Some((seen.at.saturating_sub(came).as_secs_f64() * 1e6, seen)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns checkpoint 2 of a message, by its marks.
    fn inside(&self, stamps: &[TracePoint]) -> Result<DaemonLatency> {
        let Some(message) = by_message(stamps).next() else { bail!("a message without marks") };
        let at = |checkpoint| message.iter().position(|stamp| stamp.checkpoint == checkpoint);
        let done = at(Checkpoint::End).context("a message that was not treated")?;
        let handed_out = at(Checkpoint::TrafficControl).context("nothing came of a message")?;
        let between = |from: usize, to: usize| -> f64 {
            let steps = message[from..=to].windows(2);
            steps.map(|pair| self.clock.step_us(pair[0], pair[1])).sum()
        };
        Ok(DaemonLatency {
            all_us: between(0, handed_out),
            traffic_control_us: between(done, handed_out),
            steps: message[..=at(Checkpoint::HandOut).unwrap_or(handed_out)].to_vec(),
        })
    }

    /// Returns the clock of the marks.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Sets whether the daemon's marks are kept for each message. Under load they could not be read in time.
    pub fn keep_trace(&self, keep: bool) {
        self.daemon.keep_trace(keep);
    }

    /// Sets whether messages are expected to reach the daemon, rather than to be handled by the kernel's offload.
    pub fn expect_daemon(&mut self, expected: bool) {
        self.daemon.expect(expected);
    }
}

impl Host {
    fn in_namespace(namespace: Arc<Namespace>) -> Result<Host> {
        let open = || -> std::io::Result<(Socket, Socket, UdpSocket)> {
            let raw = |protocol: i32| Socket::new(Domain::IPV4, Type::RAW, Some(protocol.into()));
            let gist = UdpSocket::bind(("0.0.0.0", GIST))?;
            Ok((raw(RAW)?, raw(earmark_rsvp::PROTOCOL.into())?, gist))
        };
        let opened = namespace.run_in(open).and_then(|opened| opened);
        let (socket, rsvp, gist) = opened.context("a host has no socket to send from")?;
        Ok(Host { namespace, socket, _silent: (rsvp, gist) })
    }
}

/// Joins a host and the router, whose interface has this name.
fn join(host: &Namespace, router: &Namespace, name: &str, [here, there]: [&str; 2]) -> Result<()> {
    link::create_veth(host, "eth0", router, name)?;
    for (namespace, name, address) in [(host, "eth0", here), (router, name, there)] {
        let address: IpAddr = address.parse().context("an address")?;
        link::add_address(namespace, name, address, 24)?;
        link::set_up(namespace, name, true)?;
    }
    Ok(())
}

fn configuration(settings: &str) -> String {
    let mut text = format!("[node]\nname = \"router\"\n{settings}\n");
    for name in ["eth0", "eth1"] {
        text.push_str(&format!(
            "[[interface]]\nname = \"{name}\"\nbandwidth = \"{BANDWIDTH}\"\n\
             protocols = [\"rsvp\", \"boomerang\", \"yessir\", \"nsis\"]\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use earmarkd::protocols::boomerang::BoomerangConfig;

    use super::*;

    #[test]
    fn daemon_configuration_is_valid() {
        for settings in ["", "[boomerang]\nkernel = true\n", "[boomerang]\nkernel = false\n"] {
            let text = configuration(settings);
            let config = earmarkd::config::Config::parse(&text, Path::new("router.toml")).unwrap();
            assert_eq!(config.interfaces.len(), 2);
            let boomerang: BoomerangConfig = config.settings.get();
            assert_eq!(boomerang.engine.offload, settings.contains("true"));
        }
    }
}
