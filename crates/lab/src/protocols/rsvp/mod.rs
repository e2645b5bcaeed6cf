//! RSVP in the demo.

use std::time::Duration;

use anyhow::{Context, Result};
use earmark_control::{Client, ListenRequest, ReservationRequest};
use earmark_core::ApplicationId;
use earmark_node::{Command, Event, Listen, NodeConfig};
use earmark_rsvp as rsvp;
use earmark_scenario::topology::{Role, Topology};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{ErrorSpec, FilterSpec, Session, SourceSelector};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::demo::protocol::{
    Commands, Daemons, DemoProtocol, Ends, ErrorReport, FlowRequest, Target, UDP,
};
use crate::testbed::Settings;

/// RSVP.
pub(crate) struct Rsvp;

impl Rsvp {
    /// Returns the configuration of nodes with refresh period R.
    pub(crate) fn configuration(&self, refresh: Duration) -> NodeConfig {
        let rsvp = rsvp::Config { timing: timing(refresh), ..rsvp::Config::default() };
        NodeConfig { rsvp, ..NodeConfig::default() }
    }

    /// Returns the lifetime of state with refresh period R.
    pub(crate) fn lifetime(&self, refresh: Duration) -> Duration {
        timing(refresh).lifetime(u32::try_from(refresh.as_millis()).unwrap_or(u32::MAX))
    }

    /// Returns whether an event reports a reservation for this destination port.
    pub(crate) fn is_reservation(&self, event: &Event, port: u16) -> bool {
        matches!(event, Event::Rsvp(rsvp::Event::Reservation { session, .. }) if session.port == port)
    }
}

fn timing(refresh: Duration) -> rsvp::Timing {
    rsvp::Timing { refresh, ..rsvp::Timing::default() }
}

impl DemoProtocol for Rsvp {
    fn name(&self) -> &'static str {
        "rsvp"
    }

    fn stage(&self) -> &'static str {
        "reserved with RSVP"
    }

    fn settings(&self, refresh: Duration) -> String {
        format!("refresh = \"{}ms\"\n", refresh.as_millis())
    }

    fn supports(&self, _: Target) -> bool {
        true
    }

    fn encapsulate(&self, topology: &Topology, hosts: &[&str], settings: &mut Settings) {
        for (index, node) in topology.nodes.iter().enumerate() {
            let is_host = hosts.contains(&&*node.name);
            if is_host {
                let udp_only = "udp_only = true\n".to_owned();
                settings.own_protocols.insert((node.name.clone(), self.name()), udp_only);
            }
            for (end, link) in topology.interfaces(index) {
                let own = match node.role {
                    _ if is_host => format!("protocols = [\"{}\"]\n", self.name()),
                    Role::Router if !topology.is_between_routers(link) => {
                        "udp_encapsulation = true\n".to_owned()
                    }
                    _ => continue,
                };
                settings.own.insert((node.name.clone(), end.interface.clone()), own);
            }
        }
    }

    fn open(&self, daemons: Daemons<'_>, request: &FlowRequest) -> Result<Ends> {
        let &FlowRequest { from, to, rate, packet_octets, bucket_octets } = request;
        let mut receiver = Client::connect(daemons.receiver)?;
        let listening =
            receiver.listen(ListenRequest { follow: true, ..ListenRequest::new(to) })?;
        let mut sender = Client::connect(daemons.sender)?;
        let sending = sender.sender(ReservationRequest {
            from: Some(from),
            burst_octets: bucket_octets,
            min_packet: packet_octets,
            max_packet: packet_octets,
            follow: true,
            ..ReservationRequest::new(to, rate)
        })?;
        Ok(Ends { sender: (sender, sending), receiver: Some((receiver, listening)) })
    }

    fn commands(&self, request: &FlowRequest, [sender, receiver]: [ApplicationId; 2]) -> Commands {
        let FlowRequest { from, to, rate, .. } = request;
        let session = Session { destination: to.ip(), protocol: UDP, flags: 0, port: to.port() };
        let template =
            FilterSpec { source: from.ip(), selector: SourceSelector::Port(from.port()) };
        let tspec = TokenBucket {
            rate: rate.as_octets_per_second(),
            depth: request.bucket_octets as f32,
            peak: f32::INFINITY,
            min_policed_unit: request.packet_octets,
            max_packet_size: request.packet_octets,
        };
        let listen = Listen { confirm: true, ..Listen::new(receiver, session) };
        let open = rsvp::Command::Session { application: sender, session };
        let send = rsvp::Command::Sender { application: sender, template, tspec, ttl: 64 };
        Commands {
            receiver: vec![Command::Listen(listen)],
            sender: vec![Command::Rsvp(open), Command::Rsvp(send)],
        }
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Rsvp(rsvp::Command::Release { application })
    }

    fn answers(&self) -> &'static [&'static str] {
        &["resv", "resv_error"]
    }

    fn error(&self, details: &Map<String, Value>) -> Result<Option<ErrorReport>> {
        let error = details.get("error").context("a refusal without an error")?;
        let ErrorSpec { node, code, value, .. } = ErrorSpec::deserialize(error)?;
        let text = code.name().to_ascii_lowercase();
        Ok(Some(ErrorReport { error: text, code: code.code(), value, node }))
    }
}
