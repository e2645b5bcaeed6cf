//! Boomerang in scenarios: the source reserves in one loop, forward only. The destination answers pings.

mod forgeries;
mod messages;

use std::net::IpAddr;

use earmark_boomerang::{self as boomerang, Application, Selector};
use earmark_core::Rate;
use earmark_core::random::Stream;
use earmark_node::{Command, Event, Node, NodeConfig};
use earmark_sim::distributions::happens;

use super::{CommonSettings, End, ScenarioProtocol, Setting, Variant};
use crate::attack::{Attack, Packet};
use crate::reservation::ReservationRequest;

/// Boomerang.
#[derive(Debug)]
pub(super) struct Boomerang;

impl ScenarioProtocol for Boomerang {
    fn name(&self) -> &'static str {
        "boomerang"
    }

    fn longest_refresh_s(&self) -> Option<u64> {
        Some(u8::MAX.into())
    }

    fn configure(&self, settings: &CommonSettings, config: &mut NodeConfig) {
        let seconds = u8::try_from(settings.refresh.as_secs()).unwrap_or(u8::MAX);
        config.boomerang.refresh_interval = seconds.max(1);
    }

    fn draw_settings(&self, refresh_s: u8, random: &mut Stream, config: &mut NodeConfig) {
        config.boomerang.refresh_interval = refresh_s;
        config.boomerang.lock = happens(random, 0.25);
    }

    fn limit_access(&self, most: u32, config: &mut NodeConfig) {
        config.boomerang.limits.sessions_per_source = most;
    }

    fn set(&self, setting: Setting, config: &mut NodeConfig) -> bool {
        let config = &mut config.boomerang;
        match setting {
            Setting::LongerRefresh => config.refresh_interval = 4,
            // The interval is in seconds, and at the shortest already.
            Setting::ShorterRefresh => return false,
            Setting::ShorterLifetime => config.lifetime_multiplier = 2,
            Setting::NoSessions => config.limits.sessions = 0,
            Setting::Forbidden => config.required.verified = true,
        }
        true
    }

    fn told_rate(&self, event: &Event) -> Option<Rate> {
        use boomerang::Event::{Changed, Established};
        match event {
            Event::Boomerang(Established { rates, .. } | Changed { rates, .. }) => {
                Some(Rate::from_bps(rates.forward.into()))
            }
            _ => None,
        }
    }

    fn variants(&self) -> &'static [Variant] {
        const ONE_PASS: Variant = Variant::new(
            "one pass",
            |request| Boomerang.request(request),
            |request| Boomerang.release(request),
        )
        .changed_by(modify);
        const LOCK: Variant =
            Variant { name: "lock", ..ONE_PASS }.with(|config| config.boomerang.lock = true);
        const VARIANTS: &[Variant] = &[ONE_PASS, LOCK];
        VARIANTS
    }

    fn request(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let rates = boomerang::RequestedRates { forward: request.rate, reverse: Rate::ZERO };
        let selector = Selector::of_flow(&request.flow());
        let application = Application(request.application());
        let request = boomerang::Request::new(request.addresses[1], selector, rates);
        let reserve = boomerang::Command::Reserve { application, request };
        vec![(End::Source, Command::Boomerang(reserve))]
    }

    fn release(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let application = Application(request.application());
        let release = boomerang::Command::Release { application };
        vec![(End::Source, Command::Boomerang(release))]
    }

    fn forgeries(&self, seen: &[Packet], attacker: IpAddr) -> Vec<Attack> {
        forgeries::forgeries(seen, attacker)
    }

    fn message_name(&self, ip_protocol: u8, payload: &[u8]) -> Option<&'static str> {
        messages::name(ip_protocol, payload)
    }

    fn session_count(&self, node: &Node) -> usize {
        node.engine::<boomerang::Boomerang>().map_or(0, |boomerang| boomerang.population().0)
    }

    fn recognizes(&self, packet: &Packet) -> bool {
        messages::is_message(packet.protocol, &packet.payload)
    }
}

/// Returns the commands that change the rate.
fn modify(request: &ReservationRequest) -> Vec<(End, Command)> {
    let application = Application(request.application());
    let rates = vec![boomerang::RequestedRates { forward: request.rate, reverse: Rate::ZERO }];
    let modify = boomerang::Command::Modify { application, rates };
    vec![(End::Source, Command::Boomerang(modify))]
}
