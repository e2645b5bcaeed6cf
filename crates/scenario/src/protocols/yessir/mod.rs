//! YESSIR in scenarios: the source announces its stream in sender reports, the destination answers them.

mod forgeries;
mod messages;

use std::net::IpAddr;

use earmark_core::random::Stream as Random;
use earmark_node::{Command, Node, NodeConfig};
use earmark_wire::yessir::{Flowspec, OctetRate, Style};
use earmark_yessir::{self as yessir, Application, Attachment, Stream};

use super::{CommonSettings, End, Receiver, ScenarioProtocol, Setting, Variant};
use crate::attack::{Attack, Packet};
use crate::reservation::ReservationRequest;

/// YESSIR.
#[derive(Debug)]
pub(super) struct Yessir;

impl ScenarioProtocol for Yessir {
    fn name(&self) -> &'static str {
        "yessir"
    }

    fn longest_refresh_s(&self) -> Option<u64> {
        Some(u16::MAX.into())
    }

    fn configure(&self, settings: &CommonSettings, config: &mut NodeConfig) {
        let seconds = u16::try_from(settings.refresh.as_secs()).unwrap_or(u16::MAX);
        config.yessir.interval = seconds.max(1);
    }

    fn draw_settings(&self, refresh_s: u8, _: &mut Random, config: &mut NodeConfig) {
        config.yessir.interval = refresh_s.into();
    }

    fn limit_access(&self, most: u32, config: &mut NodeConfig) {
        config.yessir.limits.sessions_per_source = most;
    }

    fn set(&self, setting: Setting, config: &mut NodeConfig) -> bool {
        let config = &mut config.yessir;
        match setting {
            Setting::LongerRefresh => config.interval = 4,
            // The interval is in seconds, and at the shortest already.
            Setting::ShorterRefresh => return false,
            Setting::ShorterLifetime => config.missed = 2,
            Setting::NoSessions => config.limits.sessions = 0,
            Setting::Forbidden => config.required.verified = true,
        }
        true
    }

    fn variants(&self) -> &'static [Variant] {
        const INDIVIDUAL: Variant = Variant::new(
            "individual",
            |request| Yessir.request(request),
            |request| Yessir.release(request),
        )
        .with_receiver(Receiver::Informed)
        .changed_by(|request| attach_again(Yessir.request(request)));
        const SHARED: Variant = Variant { name: "shared", request: shared, ..INDIVIDUAL }
            .changed_by(|request| attach_again(shared(request)));
        const VARIANTS: &[Variant] = &[
            INDIVIDUAL,
            SHARED,
            Variant { name: "individual, one member", ..INDIVIDUAL }.with_members(1),
            Variant { name: "individual, two members", ..INDIVIDUAL }.with_members(2),
            Variant { name: "shared, two members", ..SHARED }.with_members(2),
        ];
        VARIANTS
    }

    fn request(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let [source, destination] = request.addresses;
        let (number, port) = (request.number, request.port);
        let application = Application(request.application());
        let cname = format!("{number}@receiver");
        let listen = yessir::Command::Listen { application, destination, port, cname };
        let attachment = Attachment {
            stream: Stream { source, destination, source_port: port, destination_port: port },
            ssrc: None,
            cname: format!("{number}@sender"),
            multiplexed: true,
            flowspec: Flowspec::Class {
                dscp: 0,
                rate: OctetRate(request.rate.as_octets_per_second()),
            },
            style: Style::Individual,
            passive: false,
            interval: 0,
            ttl: 64,
            token: None,
        };
        let attach = yessir::Command::Attach { application, attachment };
        vec![(End::Destination, Command::Yessir(listen)), (End::Source, Command::Yessir(attach))]
    }

    fn release(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let application = Application(request.application());
        let release = || Command::Yessir(yessir::Command::Release { application });
        vec![(End::Source, release()), (End::Destination, release())]
    }

    fn forgeries(&self, seen: &[Packet], attacker: IpAddr) -> Vec<Attack> {
        forgeries::forgeries(seen, attacker)
    }

    fn message_name(&self, ip_protocol: u8, payload: &[u8]) -> Option<&'static str> {
        messages::name(ip_protocol, payload)
    }

    fn session_count(&self, node: &Node) -> usize {
        node.engine::<yessir::Yessir>().map_or(0, yessir::Yessir::session_count)
    }

    fn recognizes(&self, packet: &Packet) -> bool {
        messages::is_message(packet.protocol, &packet.payload)
    }
}

/// Returns the commands for a reservation that all senders of the session share.
fn shared(request: &ReservationRequest) -> Vec<(End, Command)> {
    let mut commands = Yessir.request(request);
    for (_, command) in &mut commands {
        if let Command::Yessir(yessir::Command::Attach { attachment, .. }) = command {
            attachment.style = Style::Shared;
        }
    }
    commands
}

/// Returns the commands of the source only, which change the rate of its stream.
fn attach_again(commands: Vec<(End, Command)>) -> Vec<(End, Command)> {
    commands.into_iter().filter(|(end, _)| *end == End::Source).collect()
}
