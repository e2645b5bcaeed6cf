//! NSIS in scenarios: the source reserves by QoS NSLP. The destination's daemon answers by itself.

mod forgeries;

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::random::Stream;
use earmark_node::{Command, NodeConfig};
use earmark_nsis::{self as nsis, qos};
use earmark_sim::distributions::happens;

use super::{CommonSettings, End, ScenarioProtocol};
use crate::attack::{Attack, Packet};
use crate::reservation::ReservationRequest;
use crate::sampling::one_of;

/// QoS NSLP over GIST.
#[derive(Debug)]
pub(super) struct Nsis;

impl ScenarioProtocol for Nsis {
    fn name(&self) -> &'static str {
        "nsis"
    }

    fn configure(&self, settings: &CommonSettings, config: &mut NodeConfig) {
        config.nsis.qos.refresh = settings.refresh;
    }

    fn draw_settings(&self, refresh_s: u8, random: &mut Stream, config: &mut NodeConfig) {
        config.nsis.qos.refresh = Duration::from_secs(refresh_s.into());
        config.nsis.qos.acknowledge = happens(random, 0.25);
        config.nsis.qos.summary = one_of(random, &[0, 0, 8]);
    }

    fn request(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let rates = qos::RequestedQos {
            burst: request.bucket_octets,
            max_packet: request.packet_octets,
            ..qos::RequestedQos::of(request.rate)
        };
        let application = qos::Application(request.application());
        let request = qos::Request::new(request.flow(), rates);
        let reserve = qos::Command::Reserve { application, request };
        vec![(End::Source, Command::Nsis(nsis::Command::Qos(reserve)))]
    }

    fn release(&self, request: &ReservationRequest) -> Vec<(End, Command)> {
        let application = qos::Application(request.application());
        let release = qos::Command::Release { application };
        vec![(End::Source, Command::Nsis(nsis::Command::Qos(release)))]
    }

    fn forgeries(&self, seen: &[Packet], attacker: IpAddr) -> Vec<Attack> {
        forgeries::forgeries(seen, attacker)
    }

    fn recognizes(&self, packet: &Packet) -> bool {
        forgeries::is_message(packet)
    }
}
