//! NSIS in scenarios: the source reserves by QoS NSLP, and opens firewalls by NATFW NSLP. The destination's daemon answers by
//! itself.

mod forgeries;
mod messages;
mod natfw;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::Rate;
use earmark_core::random::Stream;
use earmark_node::{Command, Event, Node, NodeConfig};
use earmark_nsis::{self as nsis, qos};
use earmark_sim::distributions::happens;

use super::{CommonSettings, End, Proxy, Receiver, ScenarioProtocol, Setting, Variant};
use crate::attack::{Attack, Packet};
use crate::middlebox::Middlebox;
use crate::path_request::{PathEvent, PathRequest};
use crate::reservation::ReservationRequest;
use crate::sampling::one_of;

/// TCP port of associations with TLS, in crossings.
const TLS_PORT: u16 = 4_270;

/// QoS NSLP over GIST.
#[derive(Debug)]
pub(super) struct Nsis;

impl ScenarioProtocol for Nsis {
    fn name(&self) -> &'static str {
        "nsis"
    }

    fn configure(&self, settings: &CommonSettings, config: &mut NodeConfig) {
        config.nsis.qos.refresh = settings.refresh;
        if settings.opens_paths {
            natfw::configure(settings.refresh, config);
        }
    }

    fn draw_settings(&self, refresh_s: u8, random: &mut Stream, config: &mut NodeConfig) {
        config.nsis.qos.refresh = Duration::from_secs(refresh_s.into());
        config.nsis.qos.acknowledge = happens(random, 0.25);
        config.nsis.qos.summary = one_of(random, &[0, 0, 8]);
    }

    fn set(&self, setting: Setting, config: &mut NodeConfig) -> bool {
        let config = &mut config.nsis.qos;
        match setting {
            Setting::LongerRefresh => config.refresh *= 4,
            Setting::ShorterRefresh => config.refresh /= 2,
            Setting::ShorterLifetime => config.longest_refresh = config.refresh,
            Setting::NoSessions => config.limits.sessions = 0,
            Setting::Forbidden => {
                config.policy.push(qos::Rule { refuse: true, ..qos::Rule::default() });
            }
        }
        true
    }

    fn is_reloaded(&self, _: Setting) -> bool {
        true
    }

    fn reload(&self, config: &NodeConfig) -> Option<Command> {
        Some(Command::Nsis(nsis::Command::Renew(Box::new(config.nsis.clone()))))
    }

    fn told_rate(&self, event: &Event) -> Option<Rate> {
        use qos::Event::{Incoming, Reserved};
        match event {
            Event::Nsis(nsis::Event::Qos(Reserved { rate, .. } | Incoming { rate, .. })) => {
                Some(*rate)
            }
            _ => None,
        }
    }

    fn variants(&self) -> &'static [Variant] {
        const DATAGRAMS: Variant = Variant::new(
            "datagrams",
            |request| Nsis.request(request),
            |request| Nsis.release(request),
        )
        .changed_by(modify);
        const BY_RECEIVER: Variant = Variant {
            name: "datagrams, receiver-initiated",
            request: by_receiver,
            keeper: End::Destination,
            receiver: Receiver::Requests,
            release: at_both_ends,
            // The receiver reserves, and is not asked for another rate.
            change: None,
            ..DATAGRAMS
        };
        const VARIANTS: &[Variant] = &[
            DATAGRAMS,
            Variant {
                name: "datagrams, listener",
                identify: Some(identify),
                request: |request| to_listener(request, Nsis.request(request)),
                release: |request| at_both_ends(request).into_iter().rev().collect(),
                receiver: Receiver::Informed,
                ..DATAGRAMS
            },
            Variant { name: "datagrams, summaries", identify: Some(identify), ..DATAGRAMS }.with(
                |config| {
                    config.nsis.qos.acknowledge = true;
                    config.nsis.qos.summary = 8;
                },
            ),
            Variant {
                name: "associations",
                request: |request| over_associations(Nsis.request(request), false),
                ..DATAGRAMS
            },
            Variant {
                name: "TLS",
                identify: Some(identify),
                configure: accept_tls,
                request: |request| over_associations(Nsis.request(request), true),
                ..DATAGRAMS
            },
            Variant {
                name: "datagrams, proxy",
                request: |request| to_proxy(Nsis.request(request)),
                ..DATAGRAMS
            }
            .by_proxy(DOMAIN_PROXY),
            BY_RECEIVER,
            Variant {
                name: "datagrams, proxy, receiver-initiated",
                request: |request| to_proxy(by_receiver(request)),
                ..BY_RECEIVER
            }
            .by_proxy(LISTENING_PROXY),
            Variant {
                name: "associations, receiver-initiated",
                identify: Some(identify),
                request: |request| over_associations(by_receiver(request), false),
                ..BY_RECEIVER
            },
            Variant {
                name: "TLS, receiver-initiated",
                configure: accept_tls,
                request: |request| over_associations(by_receiver(request), true),
                ..BY_RECEIVER
            },
        ];
        VARIANTS
    }

    fn request(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let application = qos::Application(request.application());
        let request = qos::Request::new(request.flow(), requested_qos(request));
        let reserve = qos::Command::Reserve { application, request };
        vec![(End::Source, Command::Nsis(nsis::Command::Qos(reserve)))]
    }

    fn release(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let application = qos::Application(request.application());
        let release = qos::Command::Release { application };
        vec![(End::Source, Command::Nsis(nsis::Command::Qos(release)))]
    }

    fn opens_paths(&self) -> bool {
        true
    }

    fn set_middlebox(&self, middlebox: &Middlebox, external: &[String], config: &mut NodeConfig) {
        natfw::set_middlebox(middlebox, external, config);
    }

    fn open(&self, request: &PathRequest) -> Option<Command> {
        Some(natfw::open(request))
    }

    fn expose(&self, request: &PathRequest) -> Option<Command> {
        Some(natfw::expose(request))
    }

    fn close(&self, application: u64) -> Option<Command> {
        Some(natfw::release(application))
    }

    fn path_event(&self, event: &Event) -> Option<PathEvent> {
        natfw::path_event(event)
    }

    fn forgeries(&self, seen: &[Packet], attacker: IpAddr) -> Vec<Attack> {
        forgeries::forgeries(seen, attacker)
    }

    fn message_name(&self, ip_protocol: u8, payload: &[u8]) -> Option<&'static str> {
        messages::name(ip_protocol, payload)
    }

    fn session_count(&self, node: &Node) -> usize {
        let nsis = node.engine::<nsis::Nsis>();
        nsis.map_or(0, |nsis| nsis.qos().session_count() + nsis.natfw().session_count())
    }

    fn recognizes(&self, packet: &Packet) -> bool {
        messages::in_datagram(packet.protocol, &packet.payload).is_some()
    }
}

/// Returns the quality of service of a request.
fn requested_qos(request: &ReservationRequest) -> qos::RequestedQos {
    qos::RequestedQos {
        burst: request.bucket_octets,
        max_packet: request.packet_octets,
        ..qos::RequestedQos::of(request.rate)
    }
}

/// Returns the commands that change the rate.
fn modify(request: &ReservationRequest) -> Vec<(End, Command)> {
    let application = qos::Application(request.application());
    let modify = qos::Command::Modify { application, qos: requested_qos(request) };
    vec![(End::Source, Command::Nsis(nsis::Command::Qos(modify)))]
}

/// Router where messages with the PROXY scope end, as if it were the responder.
const DOMAIN_PROXY: Proxy = Proxy {
    of: End::Destination,
    configure: |_, _, config| config.nsis.qos.proxy = true,
    reserves_link: true,
    has_application: false,
};

/// Domain proxy with an application that listens in place of the receiver, which has none.
const LISTENING_PROXY: Proxy = Proxy { has_application: true, ..DOMAIN_PROXY };

/// Changes commands so that their messages end at a proxy.
fn to_proxy(mut commands: Vec<(End, Command)>) -> Vec<(End, Command)> {
    use qos::Command::{Invite, Reserve};
    for (_, command) in &mut commands {
        if let Command::Nsis(nsis::Command::Qos(Reserve { request, .. } | Invite { request, .. })) =
            command
        {
            request.scope = qos::Scope::Proxy;
        }
    }
    commands
}

/// Sets a Peer-Identity, which is random for each daemon otherwise (RFC 5971 section 4.4.3).
fn identify(machine: u32, config: &mut NodeConfig) {
    config.nsis.gist.identity = Some(Ipv4Addr::from_bits(machine).into());
}

fn accept_tls(config: &mut NodeConfig) {
    config.nsis.gist.associations.tls_port = Some(TLS_PORT);
}

/// Changes commands so that their messages need associations, with TLS if they are `secure`.
fn over_associations(mut commands: Vec<(End, Command)>, secure: bool) -> Vec<(End, Command)> {
    use qos::Command::{Invite, Reserve};
    for (_, command) in &mut commands {
        if let Command::Nsis(nsis::Command::Qos(Reserve { request, .. } | Invite { request, .. })) =
            command
        {
            request.attributes = Some(nsis::nslp::Attributes { reliable: true, secure });
        }
    }
    commands
}

/// Adds an application at the destination that listens for the flow.
fn to_listener(request: &ReservationRequest, commands: Vec<(End, Command)>) -> Vec<(End, Command)> {
    let application = qos::Application(request.application());
    let listen = qos::Listen {
        destination: Some(request.addresses[1]),
        port: Some(request.port),
        ..qos::Listen::default()
    };
    let listen = qos::Command::Listen { application, listen };
    let listener = (End::Destination, Command::Nsis(nsis::Command::Qos(listen)));
    [listener].into_iter().chain(commands).collect()
}

/// Returns the commands for a reservation that the destination initiates when the source asks for it.
fn by_receiver(request: &ReservationRequest) -> Vec<(End, Command)> {
    let mut commands = Nsis.request(request);
    for (_, command) in &mut commands {
        if let Command::Nsis(nsis::Command::Qos(reserve)) = command
            && let qos::Command::Reserve { application, request } = reserve.clone()
        {
            *reserve = qos::Command::Invite { application, request };
        }
    }
    to_listener(request, commands)
}

/// Returns the commands that end a reservation with an application at each end.
fn at_both_ends(request: &ReservationRequest) -> Vec<(End, Command)> {
    let at_source = Nsis.release(request);
    let at_destination = at_source.clone().into_iter().map(|(_, it)| (End::Destination, it));
    at_destination.chain(at_source).collect()
}
