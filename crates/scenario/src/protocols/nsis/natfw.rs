//! NATFW NSLP in scenarios: firewalls and translators, and the paths through them.

use std::time::Duration;

use earmark_node::{Command, Event, NodeConfig};
use earmark_nsis::gist::UpstreamQueries;
use earmark_nsis::natfw::{
    Application, Command as NatfwCommand, Event as NatfwEvent, ExposeRequest, OpenRequest,
    Responder, Rule, Translator,
};
use earmark_nsis::{self as nsis, natfw};
use earmark_wire::natfw_nslp::ProxyMode;

use crate::middlebox::Middlebox;
use crate::path_request::{PathEvent, PathRequest};

/// IP protocol number of UDP.
const UDP: u8 = 17;

/// Makes every node take part. A lifetime is 5.25 refresh periods (RFC 5973 section 3.4).
pub(super) fn configure(refresh: Duration, config: &mut NodeConfig) {
    let settings = &mut config.nsis.natfw;
    settings.enabled = true;
    settings.responder = Responder::Any;
    settings.lifetime = (refresh * 21 / 4).max(settings.shortest_lifetime);
    settings.longest_lifetime = settings.longest_lifetime.max(settings.lifetime);
    // Data receivers know their data senders, and routes are symmetric.
    config.nsis.gist.upstream_queries = UpstreamQueries::Routed;
}

/// Makes a node a firewall or a translator.
pub(super) fn set_middlebox(middlebox: &Middlebox, external: &[String], config: &mut NodeConfig) {
    let rule = Rule { wildcards: true, deny: true, ..Rule::default() };
    let settings = &mut config.nsis.natfw;
    *settings = natfw::Config {
        firewall: true,
        external: external.to_vec(),
        edge: middlebox.edge,
        translator: middlebox.translator.then(Translator::default),
        rules: vec![rule],
        ..settings.clone()
    };
}

fn proxy_mode(request: &PathRequest) -> ProxyMode {
    if request.proxy { ProxyMode::Edge } else { ProxyMode::Off }
}

fn command(command: NatfwCommand) -> Command {
    Command::Nsis(nsis::Command::Natfw(command))
}

/// Returns the command that opens the path, for the source.
pub(super) fn open(request: &PathRequest) -> Command {
    command(NatfwCommand::Open {
        application: Application(request.application),
        request: OpenRequest {
            source: Some(request.source),
            source_port: Some(request.source_port),
            destination_port: Some(request.destination.port),
            protocol: Some(UDP),
            proxy: proxy_mode(request),
            ..OpenRequest::new(request.destination.address)
        },
    })
}

/// Returns the command that exposes the port of the flow, for the destination.
pub(super) fn expose(request: &PathRequest) -> Command {
    command(NatfwCommand::Expose {
        application: Application(request.application),
        request: ExposeRequest {
            address: Some(request.destination.address),
            from: Some(request.source),
            proxy: proxy_mode(request),
            ..ExposeRequest::new(UDP, request.destination.port)
        },
    })
}

/// Returns the command that ends the request of an application.
pub(super) fn release(application: u64) -> Command {
    command(NatfwCommand::Release { application: Application(application) })
}

/// Returns what an event says about the request of an application.
pub(super) fn path_event(event: &Event) -> Option<PathEvent> {
    let Event::Nsis(nsis::Event::Natfw(event)) = event else { return None };
    match event {
        NatfwEvent::Granted { application, external, .. } => {
            Some(PathEvent::Granted { application: application.0, external: *external })
        }
        NatfwEvent::Refused { application, .. }
        | NatfwEvent::Ended { application, .. }
        | NatfwEvent::Rejected { application, .. } => {
            Some(PathEvent::Ended { application: application.0 })
        }
        _ => None,
    }
}
