//! Tickets in the daemon: requests of the control socket, and settings.

use earmark_control::{
    ApplicationId, ApplicationRow, ListenRequest, Problem, ReservationRequest, Role,
};
use earmark_core::Flow;
use earmark_core::admission::{Demand, Service};
use earmark_node::{Command as NodeCommand, EngineKind};
use earmark_wire::udp;
use earmarkd::protocol::{
    Detail, Host, Opening, Protocol, ProtocolConfig, check_destination, named, rate, rejected, row,
    source,
};
use serde_json::Value;

use crate::engine::{Command, NAME, Settings};
use crate::node::{ENGINE, command};

/// Tickets in the daemon: `{"reserve":{"protocol":"tickets","to":"10.0.2.2:5001","from":"10.0.0.1:5001","rate_bps":1000000}}`.
#[derive(Debug)]
pub struct TicketsInDaemon;

impl ProtocolConfig for TicketsInDaemon {}

impl Protocol for TicketsInDaemon {
    fn name(&self) -> &'static str {
        NAME
    }

    fn engine(&self) -> Option<EngineKind> {
        Some(ENGINE)
    }

    fn check_settings(&self, settings: &Value) -> Result<(), String> {
        serde_json::from_value::<Settings>(settings.clone())
            .map(drop)
            .map_err(|error| error.to_string())
    }

    fn reserve(&self, request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
        let (to, from) = (request.to, source(request.from, request.to)?);
        check_destination(to, request.ip_protocol, host)?;
        if !host.is_local(from.ip()) {
            let hint = "name an address of this host as `from`";
            return Err(rejected(format!("{} is none of this host's addresses", from.ip()), hint));
        }
        let rate = rate(&request)?;
        let flow = Flow {
            destination: to.ip(),
            source: Some(from.ip()),
            protocol: request.ip_protocol,
            destination_port: to.port(),
            source_port: from.port(),
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        };
        let demand = Demand {
            service: Service::ControlledLoad,
            rate,
            burst: request.burst_octets,
            max_packet: request.max_packet,
            min_packet: 0,
        };
        let row = row(self, Role::Sender, to, request.ip_protocol, request.hold);
        let row = ApplicationRow { senders: named(from), ..row };
        Ok(Opening::new(row, request.follow, move |application| {
            let application = application.0;
            vec![command(&Command::Reserve { application, flow, demand })]
        }))
    }

    fn signals(&self, detail: Detail) -> bool {
        detail == Detail::IpProtocol
    }

    fn listen(&self, request: ListenRequest, _: &dyn Host) -> Result<Opening, Problem> {
        let row = row(self, Role::Receiver, request.on, udp::PROTOCOL, request.hold);
        let hint = "run earmarkd with Tickets on the destination; it answers by itself";
        Err(rejected(format!("nobody listens with {}", row.protocol), hint))
    }

    fn release(&self, application: ApplicationId) -> NodeCommand {
        command(&Command::Release { application: application.0 })
    }
}
