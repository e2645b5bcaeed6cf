//! NATFW NSLP: opens firewalls and address translators, and reserves no bandwidth.

pub(crate) mod config;
pub(crate) mod describe;
mod log_entry;
mod policy;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use earmark_control::protocols::nsis::natfw::{MessageTransport, Proxy};
use earmark_control::{
    ApplicationId, ApplicationRow, Expose, Identity, ListenRequest, Open, Problem, Request,
    ReservationRequest, Role,
};
use earmark_core::{FilterAction, InterfaceId};
use earmark_linux::PacketFilterSettings;
use earmark_node::{Command, Event};
use earmark_nsis::nslp::Attributes;
use earmark_nsis::{self as nsis, natfw};
use earmark_wire::natfw_nslp::ProxyMode;

use self::config::{NatfwSettings, NatfwTables};
use crate::config::{Config, Keys};
use crate::protocol::{
    Action, Detail, Host, LogFields, LogKind, Opening, Protocol, ProtocolConfig, ReadTables,
    check_arrival, check_destination, named, read_as, rejected, row, source, token,
};

/// NATFW NSLP. Its events are described with those of NSIS, whose engine also gets its settings.
pub(crate) struct Natfw;

/// Opens the path of a flow from this host.
fn open(request: Open, host: &dyn Host) -> Result<Opening, Problem> {
    let (to, from) = (request.to, source(request.from, request.to)?);
    // Protocol 0 stands for all protocols.
    check_destination(to, request.ip_protocol.max(1), host)?;
    let wanted = natfw::OpenRequest {
        source: (!from.ip().is_unspecified()).then_some(from.ip()),
        source_port: some_port(from.port()),
        destination: to.ip(),
        destination_port: some_port(to.port()),
        protocol: (request.ip_protocol != 0).then_some(request.ip_protocol),
        spi: request.spi,
        next_port: request.next_port,
        icmp_types: request.icmp_types,
        proxy: proxy_mode(request.proxy),
        lifetime: lifetime(request.lifetime_s),
        attributes: request.transport.map(attributes),
        token: token(&Identity { token: request.token, ..Identity::default() })?,
    };
    let row = row(&Natfw, Role::Sender, to, request.ip_protocol, request.hold);
    Ok(Opening {
        row: ApplicationRow { senders: named(from), ..row },
        sender: None,
        follow: request.follow,
        commands: commands(move |application| natfw::Command::Open {
            application,
            request: wanted,
        }),
    })
}

/// Exposes a port of this host.
fn expose(request: Expose, host: &dyn Host) -> Result<Opening, Problem> {
    if let Some(address) = request.address {
        check_arrival(address, host)?;
    }
    if let (Some(address), Some(from)) = (request.address, request.from) {
        source(Some(SocketAddr::new(from, 0)), SocketAddr::new(address, 0))?;
    }
    let any: IpAddr = match request.from {
        Some(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let wanted = natfw::ExposeRequest {
        address: request.address,
        port: request.port,
        protocol: request.ip_protocol,
        from: request.from,
        from_port: request.from_port,
        next_port: request.next_port,
        action: if request.deny { FilterAction::Deny } else { FilterAction::Allow },
        untranslated: request.behind_firewall,
        proxy: proxy_mode(request.proxy),
        lifetime: lifetime(request.lifetime_s),
        attributes: request.transport.map(attributes),
        token: token(&Identity { token: request.token, ..Identity::default() })?,
    };
    let on = SocketAddr::new(request.address.unwrap_or(any), request.port);
    let sender = SocketAddr::new(request.from.unwrap_or(any), request.from_port.unwrap_or(0));
    let row = row(&Natfw, Role::Receiver, on, request.ip_protocol, request.hold);
    Ok(Opening {
        row: ApplicationRow { senders: named(sender), ..row },
        sender: None,
        follow: request.follow,
        commands: commands(move |application| natfw::Command::Expose {
            application,
            request: wanted,
        }),
    })
}

fn commands(
    command: impl FnOnce(ApplicationId) -> natfw::Command + 'static,
) -> Box<dyn FnOnce(ApplicationId) -> Vec<Command>> {
    Box::new(move |application| vec![Command::Nsis(nsis::Command::Natfw(command(application)))])
}

fn some_port(port: u16) -> Option<u16> {
    (port != 0).then_some(port)
}

fn lifetime(seconds: Option<u32>) -> Option<Duration> {
    seconds.map(|seconds| Duration::from_secs(seconds.into()))
}

fn proxy_mode(proxy: Proxy) -> ProxyMode {
    match proxy {
        Proxy::Off => ProxyMode::Off,
        Proxy::Edge => ProxyMode::Edge,
        Proxy::EdgeAndOnward => ProxyMode::EdgeAndOnward,
    }
}

fn attributes(transport: MessageTransport) -> Attributes {
    match transport {
        MessageTransport::Datagrams => Attributes { reliable: false, secure: false },
        MessageTransport::Reliable => Attributes { reliable: true, secure: false },
        MessageTransport::Secure => Attributes { reliable: true, secure: true },
    }
}

fn reserves_nothing() -> Problem {
    rejected(
        "NATFW NSLP reserves no bandwidth".to_owned(),
        "`earmark open` and `earmark expose` use it; reserve with nsis",
    )
}

impl ProtocolConfig for Natfw {
    /// Returns false: what intercepts the messages of NSIS intercepts these too.
    fn is_chosen_by_interface(&self) -> bool {
        false
    }

    fn tables(&self) -> &'static [Keys] {
        &[Keys { names: &["natfw"], before: "protocol" }]
    }

    fn reader(&self) -> ReadTables {
        read_as::<NatfwTables>
    }

    fn packet_filter(&self, config: &Config) -> Option<PacketFilterSettings> {
        config.settings.get::<NatfwSettings>().packet_filter()
    }

    fn reload(&self, started: &Config, new: &mut Config, waiting: &mut Vec<String>) {
        let started: NatfwSettings = started.settings.get();
        let wanted: NatfwSettings = new.settings.get();
        waiting.extend(started.waiting(&wanted).map(str::to_owned));
        new.settings.set(started.renewed(wanted));
    }
}

impl Protocol for Natfw {
    fn name(&self) -> &'static str {
        "natfw"
    }

    fn reserve(&self, _request: ReservationRequest, _host: &dyn Host) -> Result<Opening, Problem> {
        Err(reserves_nothing())
    }

    fn listen(&self, _request: ListenRequest, _host: &dyn Host) -> Result<Opening, Problem> {
        Err(reserves_nothing())
    }

    /// Requests to reserve are refused, whatever they have.
    fn signals(&self, _detail: Detail) -> bool {
        true
    }

    fn request(&self, request: &Request, host: &dyn Host) -> Option<Result<Action, Problem>> {
        let opening = match request {
            Request::Open(request) => open(request.clone(), host),
            Request::Expose(request) => expose(request.clone(), host),
            _ => return None,
        };
        Some(opening.map(Action::Open))
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Nsis(nsis::Command::Natfw(natfw::Command::Release { application }))
    }

    fn log_kind(&self, event: &Event) -> Option<LogKind> {
        of_natfw(event).map(log_entry::kind)
    }

    fn log_fields(&self, event: &Event) -> LogFields {
        of_natfw(event).map_or_else(LogFields::default, log_entry::fields)
    }

    fn interface_of(&self, event: &Event) -> Option<InterfaceId> {
        match of_natfw(event)? {
            natfw::Event::Denied { interface, .. } | natfw::Event::Dropped { interface, .. } => {
                Some(*interface)
            }
            _ => None,
        }
    }

    fn rejection(&self, event: &Event) -> Option<(String, &'static str)> {
        match of_natfw(event)? {
            natfw::Event::Rejected { reason, .. } => {
                Some((reason.to_string(), describe::rejection_hint(*reason)))
            }
            _ => None,
        }
    }

    /// Returns false for a refused session and one that the network has ended: its row shows why until it is released.
    fn ends(&self, event: &Event) -> bool {
        matches!(of_natfw(event), Some(natfw::Event::Ended { info: None, .. }))
    }
}

fn of_natfw(event: &Event) -> Option<&natfw::Event> {
    match event {
        Event::Nsis(nsis::Event::Natfw(event)) => Some(event),
        _ => None,
    }
}
