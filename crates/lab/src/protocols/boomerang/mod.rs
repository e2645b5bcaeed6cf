//! Boomerang in the demo: the sending host sends a loop.

use anyhow::Result;
use earmark_boomerang as boomerang;
use earmark_control::protocols::boomerang::request;
use earmark_control::{Client, ReservationRequest};
use earmark_core::{ApplicationId, Rate};
use earmark_node::Command;

use crate::demo::protocol::{Commands, Daemons, DemoProtocol, Ends, FlowRequest};

/// Boomerang.
pub(super) struct Boomerang;

impl DemoProtocol for Boomerang {
    fn name(&self) -> &'static str {
        "boomerang"
    }

    fn stage(&self) -> &'static str {
        "reserved with Boomerang"
    }

    fn needs_receiver(&self) -> bool {
        false
    }

    fn open(&self, daemons: Daemons<'_>, of: &FlowRequest) -> Result<Ends> {
        let mut client = Client::connect(daemons.sender)?;
        let opened = client.reserve(ReservationRequest {
            from: Some(of.from),
            follow: true,
            ..request(of.to, of.rate, Rate::ZERO)
        })?;
        Ok(Ends { sender: (client, opened), receiver: None })
    }

    fn commands(&self, of: &FlowRequest, [application, _]: [ApplicationId; 2]) -> Commands {
        let rates = boomerang::RequestedRates { forward: of.rate, reverse: Rate::ZERO };
        let selector = boomerang::Selector::of_flow(&of.flow());
        let request = boomerang::Request {
            on_refusal: boomerang::OnRefusal::Release,
            ..boomerang::Request::new(of.to.ip(), selector, rates)
        };
        let reserve = boomerang::Command::Reserve { application, request };
        Commands { sender: vec![Command::Boomerang(reserve)], ..Commands::default() }
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Boomerang(boomerang::Command::Release { application })
    }

    fn answers(&self) -> &'static [&'static str] {
        &["established", "refused"]
    }
}
