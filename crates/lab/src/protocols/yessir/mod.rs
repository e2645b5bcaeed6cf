//! YESSIR in the demo: the sending host sends reports, and the receiving host answers.

use anyhow::Result;
use earmark_control::protocols::yessir::{ReserveOptions, listen_request, request};
use earmark_control::{Client, ReservationRequest};
use earmark_core::ApplicationId;
use earmark_node::Command;
use earmark_wire::yessir::{Flowspec, OctetRate, Style};
use earmark_yessir as yessir;

use crate::demo::protocol::{Commands, Daemons, DemoProtocol, Ends, FlowRequest};

/// YESSIR.
pub(super) struct Yessir;

impl DemoProtocol for Yessir {
    fn name(&self) -> &'static str {
        "yessir"
    }

    fn stage(&self) -> &'static str {
        "reserved with YESSIR"
    }

    fn open(&self, daemons: Daemons<'_>, of: &FlowRequest) -> Result<Ends> {
        let mut receiver = Client::connect(daemons.receiver)?;
        let answering = receiver.listen(listen_request(of.to))?;
        let mut sender = Client::connect(daemons.sender)?;
        let options =
            ReserveOptions { class: Some(0), multiplexed: true, ..ReserveOptions::default() };
        let attached = sender.reserve(ReservationRequest {
            rate_bps: Some(of.rate),
            follow: true,
            ..request(of.from, of.to, &options)
        })?;
        Ok(Ends { sender: (sender, attached), receiver: Some((receiver, answering)) })
    }

    fn commands(&self, of: &FlowRequest, [sender, receiver]: [ApplicationId; 2]) -> Commands {
        let answer = yessir::Command::Listen {
            application: receiver,
            destination: of.to.ip(),
            port: of.to.port(),
            cname: "demo@h2".to_owned(),
        };
        let attachment = yessir::Attachment {
            stream: yessir::Stream {
                source: of.from.ip(),
                destination: of.to.ip(),
                source_port: of.from.port(),
                destination_port: of.to.port(),
            },
            ssrc: None,
            cname: "demo@h1".to_owned(),
            multiplexed: true,
            flowspec: Flowspec::Class { dscp: 0, rate: OctetRate(of.rate.as_octets_per_second()) },
            style: Style::Individual,
            passive: false,
            interval: 0,
            ttl: 64,
            token: None,
        };
        let attach = yessir::Command::Attach { application: sender, attachment };
        Commands { receiver: vec![Command::Yessir(answer)], sender: vec![Command::Yessir(attach)] }
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Yessir(yessir::Command::Release { application })
    }

    fn answers(&self) -> &'static [&'static str] {
        &["answered"]
    }
}
