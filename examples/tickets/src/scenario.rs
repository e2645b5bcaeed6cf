//! Tickets in scenarios and fault exploration.

use earmark_core::admission::{Demand, Service};
use earmark_core::random::Stream;
use earmark_node::{Command as NodeCommand, EngineKind, NodeConfig};
use earmark_scenario::{CommonSettings, End, ReservationRequest, ScenarioProtocol};

use crate::engine::{Command, NAME, Settings};
use crate::node::{ENGINE, command};

/// Tickets in scenarios.
#[derive(Debug)]
pub struct TicketsInScenarios;

impl ScenarioProtocol for TicketsInScenarios {
    fn name(&self) -> &'static str {
        NAME
    }

    fn engine(&self) -> Option<EngineKind> {
        Some(ENGINE)
    }

    fn configure(&self, settings: &CommonSettings, config: &mut NodeConfig) {
        let seconds = u8::try_from(settings.refresh.as_secs()).unwrap_or(u8::MAX);
        set_interval(seconds.max(1), config);
    }

    fn draw_settings(&self, refresh_s: u8, _: &mut Stream, config: &mut NodeConfig) {
        set_interval(refresh_s, config);
    }

    fn request(&self, request: &ReservationRequest) -> Vec<(End, NodeCommand)> {
        let application = request.application();
        let demand = Demand {
            service: Service::ControlledLoad,
            rate: request.rate,
            burst: request.bucket_octets,
            max_packet: request.packet_octets,
            min_packet: 0,
        };
        vec![(
            End::Source,
            command(&Command::Reserve { application, flow: request.flow(), demand }),
        )]
    }

    fn release(&self, request: &ReservationRequest) -> Vec<(End, NodeCommand)> {
        vec![(End::Source, command(&Command::Release { application: request.application() }))]
    }
}

fn set_interval(interval_s: u8, config: &mut NodeConfig) {
    let settings = serde_json::to_value(Settings { interval_s }).unwrap_or_default();
    config.others.insert(NAME.into(), settings);
}
