//! NSIS in the demo: the sending host sends a RESERVE, which needs no application at the receiving host.

#[cfg(feature = "tls")]
pub mod tls_keys;

use anyhow::Result;
use earmark_control::protocols::nsis::request;
use earmark_control::{Client, ReservationRequest};
use earmark_core::ApplicationId;
use earmark_node::Command;
use earmark_nsis::{self as nsis, qos};

use crate::demo::protocol::{Commands, Daemons, DemoProtocol, Ends, FlowRequest};

/// QoS NSLP over GIST.
pub(super) struct Nsis;

impl DemoProtocol for Nsis {
    fn name(&self) -> &'static str {
        "nsis"
    }

    fn stage(&self) -> &'static str {
        "reserved with NSIS"
    }

    fn open(&self, daemons: Daemons<'_>, of: &FlowRequest) -> Result<Ends> {
        let mut client = Client::connect(daemons.sender)?;
        let opened = client.reserve(ReservationRequest {
            from: Some(of.from),
            burst_octets: of.bucket_octets,
            max_packet: of.packet_octets,
            follow: true,
            ..request(of.to, of.rate)
        })?;
        Ok(Ends { sender: (client, opened), receiver: None })
    }

    fn commands(&self, of: &FlowRequest, [application, _]: [ApplicationId; 2]) -> Commands {
        let reservation = qos::RequestedQos {
            burst: of.bucket_octets,
            max_packet: of.packet_octets,
            ..qos::RequestedQos::of(of.rate)
        };
        let request = qos::Request::new(of.flow(), reservation);
        let reserve = nsis::Command::Qos(qos::Command::Reserve { application, request });
        Commands { sender: vec![Command::Nsis(reserve)], ..Commands::default() }
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Nsis(nsis::Command::Qos(qos::Command::Release { application }))
    }

    fn answers(&self) -> &'static [&'static str] {
        &["reserved", "refused"]
    }
}
