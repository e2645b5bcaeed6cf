//! Reservation and release of a flow, in the commands of each protocol.

use std::net::IpAddr;

use earmark_boomerang as boomerang;
use earmark_core::{Flow, Rate};
use earmark_node::{Command, Listen};
use earmark_nsis::{self as nsis, qos};
use earmark_rsvp as rsvp;
use earmark_rsvp::policy::Identity;
use earmark_sim::{Network, NodeId};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector};
use earmark_wire::yessir::{Flowspec, OctetRate, Style};
use earmark_yessir as yessir;

use crate::scenario::Protocol;

/// IP protocol number of UDP.
const UDP: u8 = 17;

/// Reservation request of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReservationRequest {
    /// Number of the flow.
    pub(crate) number: u64,
    /// Number of earlier requests.
    pub(crate) time: u64,
    /// Source and destination node.
    pub(crate) nodes: [NodeId; 2],
    /// Source and destination address.
    pub(crate) addresses: [IpAddr; 2],
    /// Source and destination port.
    pub(crate) port: u16,
    /// Requested rate.
    pub(crate) rate: Rate,
    /// Depth of the token bucket, octets.
    pub(crate) bucket_octets: u32,
    /// Size of packets, octets.
    pub(crate) packet_octets: u32,
    /// Priority, if any.
    pub(crate) priority: Option<u16>,
}

impl ReservationRequest {
    /// Returns the application at each end: a new one for each request, since the previous one may still be ending.
    fn application(&self) -> u64 {
        self.number | self.time << 40
    }

    /// Returns the packets of the flow.
    pub(crate) fn flow(&self) -> Flow {
        let [source, destination] = self.addresses;
        Flow {
            destination,
            source: Some(source),
            protocol: UDP,
            destination_port: self.port,
            source_port: self.port,
            flow_label: 0,
            destination_open: 0,
            source_open: 0,
        }
    }

    /// Requests the reservation now.
    pub(crate) fn request(&self, network: &mut Network, by: Protocol) {
        match by {
            Protocol::Rsvp => self.ask_by_rsvp(network),
            Protocol::Boomerang => {
                let request =
                    boomerang::ReservationRequest { forward: self.rate, reverse: Rate::ZERO };
                let selector = boomerang::Selector::of_flow(&self.flow());
                let request = boomerang::Request::new(self.addresses[1], selector, request);
                let application = boomerang::Application(self.application());
                let reserve = boomerang::Command::Reserve { application, request };
                network.command(self.nodes[0], Command::Boomerang(reserve));
            }
            Protocol::Yessir => self.ask_by_yessir(network),
            Protocol::Nsis => {
                let (burst, max_packet) = (self.bucket_octets, self.packet_octets);
                let request = qos::ReservationRequest {
                    burst,
                    max_packet,
                    ..qos::ReservationRequest::of(self.rate)
                };
                let request = qos::Request::new(self.flow(), request);
                let application = qos::Application(self.application());
                let reserve = qos::Command::Reserve { application, request };
                network.command(self.nodes[0], Command::Nsis(nsis::Command::Qos(reserve)));
            }
        }
    }

    fn ask_by_rsvp(&self, network: &mut Network) {
        let [source, destination] = self.addresses;
        let application = rsvp::Application(self.application());
        let session = Session { destination, protocol: UDP, flags: 0, port: self.port };
        let listen = Listen::new(application, session);
        network.command(self.nodes[1], Command::Listen(listen));
        if self.priority.is_some() {
            let identity = Identity { priority: self.priority, ..Identity::default() };
            let identity = rsvp::Command::Identity { application, identity };
            network.command(self.nodes[1], Command::Rsvp(identity));
        }
        let open = rsvp::Command::Session { application, session };
        network.command(self.nodes[0], Command::Rsvp(open));
        let template = FilterSpec { source, selector: SourceSelector::Port(self.port) };
        let tspec = TokenBucket {
            rate: self.rate.as_octets_per_second(),
            depth: self.bucket_octets as f32,
            peak: f32::INFINITY,
            min_policed_unit: self.packet_octets,
            max_packet_size: self.packet_octets,
        };
        let send = rsvp::Command::Sender { application, template, tspec, ttl: 64 };
        network.command(self.nodes[0], Command::Rsvp(send));
    }

    fn ask_by_yessir(&self, network: &mut Network) {
        let [source, destination] = self.addresses;
        let application = yessir::Application(self.application());
        let answer = yessir::Command::Listen {
            application,
            destination,
            port: self.port,
            cname: format!("{}@receiver", self.number),
        };
        network.command(self.nodes[1], Command::Yessir(answer));
        let attachment = yessir::Attachment {
            stream: yessir::Stream {
                source,
                destination,
                source_port: self.port,
                destination_port: self.port,
            },
            ssrc: None,
            cname: format!("{}@sender", self.number),
            multiplexed: true,
            flowspec: Flowspec::Class {
                dscp: 0,
                rate: OctetRate(self.rate.as_octets_per_second()),
            },
            style: Style::Individual,
            passive: false,
            interval: 0,
            ttl: 64,
            key: None,
        };
        let attach = yessir::Command::Attach { application, attachment };
        network.command(self.nodes[0], Command::Yessir(attach));
    }

    /// Releases the reservation now.
    pub(crate) fn release(&self, network: &mut Network, by: Protocol) {
        for (end, node) in self.nodes.into_iter().enumerate() {
            let release = match by {
                Protocol::Rsvp => {
                    let application = rsvp::Application(self.application());
                    Command::Rsvp(rsvp::Command::Release { application })
                }
                Protocol::Yessir => {
                    let application = yessir::Application(self.application());
                    Command::Yessir(yessir::Command::Release { application })
                }
                // These protocols need only the daemon at the other end.
                Protocol::Boomerang | Protocol::Nsis if end > 0 => break,
                Protocol::Boomerang => {
                    let application = boomerang::Application(self.application());
                    Command::Boomerang(boomerang::Command::Release { application })
                }
                Protocol::Nsis => {
                    let application = qos::Application(self.application());
                    Command::Nsis(nsis::Command::Qos(qos::Command::Release { application }))
                }
            };
            network.command(node, release);
        }
    }
}
