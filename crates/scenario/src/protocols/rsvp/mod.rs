//! RSVP in scenarios: the destination answers the sender's Path with a reservation of its announced rate.

mod forgeries;
mod messages;

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::admission::PreemptionPolicy;
use earmark_core::random::Stream;
use earmark_core::{Rate, Secret, Time, Trust};
use earmark_node::{Command, Event, Listen, Node, NodeConfig};
use earmark_rsvp::integrity::{self, Algorithm, Directions};
use earmark_rsvp::policy::{self, Identity};
use earmark_rsvp::proxy::{ReceiverProxy, SenderProxy};
use earmark_rsvp::{self as rsvp, Application};
use earmark_sim::distributions::happens;
use earmark_sim::{Network, NodeId, RsvpOverUdp};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector, Style};
use earmark_wire::udp;

use super::{Commands, CommonSettings, End, Proxy, Receiver, ScenarioProtocol, Setting, Variant};
use crate::attack::{Attack, Packet};
use crate::reservation::ReservationRequest;

/// RSVP.
#[derive(Debug)]
pub(super) struct Rsvp;

impl ScenarioProtocol for Rsvp {
    fn name(&self) -> &'static str {
        "rsvp"
    }

    fn has_priorities(&self) -> bool {
        true
    }

    fn configure(&self, settings: &CommonSettings, config: &mut NodeConfig) {
        config.rsvp.timing.refresh = settings.refresh;
        config.rsvp.reduction.enabled = settings.refresh_reduction;
        config.rsvp.policy.preemption = settings.has_priorities.then(PreemptionPolicy::default);
    }

    fn draw_settings(&self, refresh_s: u8, random: &mut Stream, config: &mut NodeConfig) {
        config.rsvp.timing.refresh = Duration::from_secs(refresh_s.into());
        config.rsvp.reduction.enabled = happens(random, 0.5);
    }

    fn limit_access(&self, most: u32, config: &mut NodeConfig) {
        let access = &mut config.rsvp.limits.access;
        access.max_blocks = most;
        // While the daemon of an edge router is down, its kernel forwards what the router would have refused.
        config.rsvp.max_lifetime = access.max_lifetime;
    }

    fn set(&self, setting: Setting, config: &mut NodeConfig) -> bool {
        let config = &mut config.rsvp;
        match setting {
            Setting::LongerRefresh => config.timing.refresh *= 4,
            Setting::ShorterRefresh => config.timing.refresh /= 2,
            Setting::ShorterLifetime => config.max_lifetime = config.timing.refresh * 3,
            Setting::NoSessions => config.max_sessions = 0,
            Setting::Forbidden => config.policy.otherwise = policy::Action::Refuse,
        }
        true
    }

    fn told_rate(&self, event: &Event) -> Option<Rate> {
        let Event::Rsvp(rsvp::Event::Resv { flowspec, .. }) = event else { return None };
        let (FlowSpec::ControlledLoad(bucket) | FlowSpec::Guaranteed(bucket, _)) = flowspec;
        Some(Rate::from_octets_per_second(bucket.rate))
    }

    fn set_clock_back(&self, time: Duration, config: &mut NodeConfig) {
        let start = &mut config.rsvp.integrity.sequence_start;
        *start = start.wrapping_sub(time.as_secs() << 32);
    }

    fn is_reloaded(&self, setting: Setting) -> bool {
        setting != Setting::ShorterLifetime
    }

    fn reload(&self, config: &NodeConfig) -> Option<Command> {
        let renewal = rsvp::Renewal::from(config.rsvp.clone());
        Some(Command::Rsvp(rsvp::Command::Renew(Box::new(renewal))))
    }

    fn variants(&self) -> &'static [Variant] {
        const fn plain(name: &'static str, request: Commands) -> Variant {
            let variant = Variant::new(name, request, |request| Rsvp.release(request));
            // A ResvErr goes to the receivers, and senders hear nothing (RFC 2205 section 3.1.8).
            Variant { refused_at: End::Destination, ..variant }
                .with(|config| config.rsvp.reduction.enabled = false)
                .with_receiver(Receiver::Requests)
                .changed_by(announce)
        }
        const fn reduced(name: &'static str, request: Commands) -> Variant {
            plain(name, request).with(|config| config.rsvp.reduction.enabled = true)
        }
        const SIGNED: Variant = plain("fixed filter, INTEGRITY", in_fixed_filter).with(|config| {
            config.rsvp.reduction.enabled = false;
            sign(config);
        });
        const VARIANTS: &[Variant] = &[
            plain("fixed filter", in_fixed_filter),
            plain("shared explicit", in_shared_explicit),
            plain("wildcard", in_wildcard),
            reduced("fixed filter, refresh reduction", in_fixed_filter),
            reduced("shared explicit, refresh reduction", in_shared_explicit),
            reduced("wildcard, refresh reduction", in_wildcard),
            SIGNED,
            plain("wildcard, refresh reduction, INTEGRITY", in_wildcard).with(sign),
            Variant { prepare: over_udp, ..plain("fixed filter, UDP", in_fixed_filter) },
            Variant {
                prepare: over_udp,
                ..reduced("wildcard, refresh reduction, UDP", in_wildcard)
            },
            plain("fixed filter, one member", in_fixed_filter).with_members(1),
            plain("fixed filter, two members", in_fixed_filter).with_members(2),
            reduced("shared explicit, refresh reduction, two members", in_shared_explicit)
                .with_members(2),
            plain("wildcard, two members", in_wildcard).with_members(2),
            Variant { name: "fixed filter, INTEGRITY, two members", ..SIGNED }.with_members(2),
            reduced("wildcard, refresh reduction, INTEGRITY, two members", in_wildcard)
                .with(sign)
                .with_members(2),
            Variant {
                prepare: over_udp,
                ..plain("fixed filter, UDP, one member", in_fixed_filter)
            }
            .with_members(1),
            Variant {
                prepare: over_udp,
                ..reduced(
                    "shared explicit, refresh reduction, UDP, two members",
                    in_shared_explicit,
                )
            }
            .with_members(2),
            Variant { refused_at: End::Source, ..plain("receiver proxy", without_receiver) }
                .with_receiver(Receiver::Unaware)
                .by_proxy(RECEIVER_PROXY),
            plain("sender proxy", without_sender).by_proxy(SENDER_PROXY),
        ];
        VARIANTS
    }

    fn request(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let [source, _] = request.addresses;
        let application = Application(request.application());
        let session = session(request);
        let mut commands =
            vec![(End::Destination, Command::Listen(Listen::new(application, session)))];
        if request.priority.is_some() {
            let identity = Identity { priority: request.priority, ..Identity::default() };
            let identity = rsvp::Command::Identity { application, identity };
            commands.push((End::Destination, Command::Rsvp(identity)));
        }
        let open = rsvp::Command::Session { application, session };
        commands.push((End::Source, Command::Rsvp(open)));
        let template = FilterSpec { source, selector: SourceSelector::Port(request.port) };
        let tspec = TokenBucket {
            rate: request.rate.as_octets_per_second(),
            depth: request.bucket_octets as f32,
            peak: f32::INFINITY,
            min_policed_unit: request.packet_octets,
            max_packet_size: request.packet_octets,
        };
        let send = rsvp::Command::Sender { application, template, tspec, ttl: 64 };
        commands.push((End::Source, Command::Rsvp(send)));
        commands
    }

    fn release(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let application = Application(request.application());
        let release = || Command::Rsvp(rsvp::Command::Release { application });
        vec![(End::Source, release()), (End::Destination, release())]
    }

    fn forgeries(&self, seen: &[Packet], attacker: IpAddr) -> Vec<Attack> {
        forgeries::forgeries(seen, attacker)
    }

    fn message_name(&self, ip_protocol: u8, payload: &[u8]) -> Option<&'static str> {
        messages::name(ip_protocol, payload)
    }

    fn session_count(&self, node: &Node) -> usize {
        node.engine::<rsvp::Rsvp>().map_or(0, |rsvp| rsvp.population().1)
    }

    fn recognizes(&self, packet: &Packet) -> bool {
        messages::message(packet.protocol, &packet.payload).is_some()
    }

    fn encapsulated(&self, packet: &Packet, router: IpAddr) -> Option<Packet> {
        forgeries::encapsulated(packet, router)
    }
}

/// Returns the commands that announce another rate, which the destination then requests.
fn announce(request: &ReservationRequest) -> Vec<(End, Command)> {
    let is_announcement =
        |command: &Command| matches!(command, Command::Rsvp(rsvp::Command::Sender { .. }));
    let commands = Rsvp.request(request).into_iter();
    commands.filter(|(_, command)| is_announcement(command)).collect()
}

/// Returns the commands for a reservation in a style, whose receiver asks for a confirmation.
fn in_style(request: &ReservationRequest, style: Style) -> Vec<(End, Command)> {
    let mut commands = Rsvp.request(request);
    for (_, command) in &mut commands {
        if let Command::Listen(listen) = command {
            listen.style = style;
            listen.confirm = true;
        }
    }
    commands
}

/// Sets one key for all messages (RFC 2747), which every interface of a node of the crossings needs.
fn sign(config: &mut NodeConfig) {
    let names = ["eth0", "eth1", "eth2"].map(|name| (name.to_owned(), Directions::Both));
    config.rsvp.integrity.interfaces = names.into();
    config.rsvp.integrity.keys = vec![integrity::Key {
        id: 1,
        algorithm: Algorithm::HmacSha256,
        secret: Secret::new(*b"the key of all nodes of a crossing"),
        purpose: Directions::Both,
        start: Time::ZERO,
        age: Duration::ZERO,
        end: Time::MAX,
        interfaces: Vec::new(),
        neighbors: Vec::new(),
    }];
}

/// Takes raw sockets from the hosts, whose routers signal inside UDP, too (RFC 2205 appendix C).
fn over_udp(network: &mut Network, node: NodeId, towards_hosts: &[String]) {
    let is_host = towards_hosts.is_empty();
    // A message inside UDP tells nothing of the link that it comes from, so core interfaces refuse it.
    let interfaces = network.node(node).into_iter().flat_map(|node| node.interfaces().iter());
    let access = interfaces.filter(|known| is_host || towards_hosts.contains(&known.name));
    for interface in access.map(|known| known.id).collect::<Vec<_>>() {
        network.set_trust(node, interface, Trust::ACCESS);
    }
    let behind = RsvpOverUdp::Behind(towards_hosts.iter().cloned().collect());
    network.set_rsvp_over_udp(node, if is_host { RsvpOverUdp::Only } else { behind });
}

/// Router of a receiver without RSVP. Its PathErr tells the sender of a refusal (RFC 5946 section 3.1).
const RECEIVER_PROXY: Proxy = Proxy {
    of: End::Destination,
    configure: |_, interface, config| {
        config.rsvp.proxies.receivers = vec![ReceiverProxy {
            interfaces: vec![interface.to_owned()],
            ..ReceiverProxy::default()
        }];
    },
    reserves_link: true,
    has_application: false,
};

/// Router of a sender without RSVP.
const SENDER_PROXY: Proxy = Proxy {
    of: End::Source,
    configure: |request, _, config| {
        let senders = Rsvp.request(request).into_iter().filter_map(|(_, command)| match command {
            Command::Rsvp(rsvp::Command::Sender { template, tspec, ttl, .. }) => {
                Some(SenderProxy { session: session(request), template, tspec, ttl })
            }
            _ => None,
        });
        config.rsvp.proxies.senders = senders.collect();
    },
    reserves_link: false,
    has_application: false,
};

/// Returns the commands of the sender.
fn without_receiver(request: &ReservationRequest) -> Vec<(End, Command)> {
    Rsvp.request(request).into_iter().filter(|(end, _)| *end == End::Source).collect()
}

/// Returns the commands of the receiver.
fn without_sender(request: &ReservationRequest) -> Vec<(End, Command)> {
    in_fixed_filter(request).into_iter().filter(|(end, _)| *end == End::Destination).collect()
}

fn session(request: &ReservationRequest) -> Session {
    let [_, destination] = request.addresses;
    Session { destination, protocol: udp::PROTOCOL, flags: 0, port: request.port }
}

fn in_fixed_filter(request: &ReservationRequest) -> Vec<(End, Command)> {
    in_style(request, Style::FixedFilter)
}

fn in_shared_explicit(request: &ReservationRequest) -> Vec<(End, Command)> {
    in_style(request, Style::SharedExplicit)
}

fn in_wildcard(request: &ReservationRequest) -> Vec<(End, Command)> {
    in_style(request, Style::Wildcard)
}
