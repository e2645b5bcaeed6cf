//! Neighbours that restart: a router between two neighbours with RESTART_CAP, and what it sends.
#![allow(dead_code, unreachable_pub)]

use std::time::Duration;

use earmark_core::{InterfaceId, Outgoing, Rate};
use earmark_rsvp::{Config, DropReason, Event, HelloTiming, RestartTimes, RestartView, Timing};
use earmark_wire::rsvp::{
    Body, Capability, Hello, HelloKind, HelloMessage, Message, Path, RestartCap,
};

use crate::common::*;
use crate::message_ids::*;

/// Restart Time and Recovery Time of this node and of its neighbours.
pub const RESTART: Duration = Duration::from_secs(20);
pub const RECOVERY: Duration = Duration::from_secs(40);

pub const T: u32 = Capability::RECOVERY_PATH_TRANSMIT;
pub const R: u32 = Capability::RECOVERY_PATH_DESIRED;

/// A router that asks its neighbours each second, with a lifetime of state of 5.25 s.
pub fn restart_config() -> Config {
    let restart = RestartTimes {
        restart_time: Some(RESTART),
        recovery_time: RECOVERY,
        max_restart_time: Duration::from_secs(100),
    };
    Config {
        timing: Timing { refresh: SECOND, ..Timing::default() },
        hello: HelloTiming { interval: Some(SECOND), restart, ..HelloTiming::default() },
        ..Config::default()
    }
}

pub fn restart_cap(restart: Duration, recovery: Duration) -> Option<RestartCap> {
    let ms = |time: Duration| time.as_millis() as u32;
    Some(RestartCap { restart_ms: ms(restart), recovery_ms: ms(recovery) })
}

/// A neighbour in the test: its interface and its instance.
#[derive(Clone, Copy)]
pub struct Neighbor {
    pub interface: InterfaceId,
    pub instance: u32,
    pub restart_cap: Option<RestartCap>,
    pub flags: u32,
}

impl Neighbor {
    pub fn new(interface: InterfaceId) -> Neighbor {
        let restart_cap = restart_cap(RESTART, Duration::ZERO);
        Neighbor { interface, instance: 5, restart_cap, flags: T }
    }

    /// Returns the same neighbour after a restart with this Recovery Time.
    pub fn restarted(self, recovery: Duration) -> Neighbor {
        let restart_cap = restart_cap(RESTART, recovery);
        Neighbor { instance: self.instance + 1, restart_cap, flags: T | R, ..self }
    }

    /// Sends a request with the instance of the router that it knows.
    pub fn hello(self, router: &mut Bench, destination_instance: u32) -> Vec<Outcome> {
        let (kind, source_instance) = (HelloKind::Request, self.instance);
        let message = HelloMessage {
            hello: Hello { kind, source_instance, destination_instance },
            restart_cap: self.restart_cap,
            capability: Some(Capability { flags: self.flags }),
        };
        receive_with_ttl(router, self.interface, 1, &Message::new(1, Body::Hello(message)))
    }
}

pub fn refreshed_path() -> Path<'static> {
    Path { refresh_ms: 1_000, ..path() }
}

/// Refreshes what the upstream neighbour announces.
pub fn refresh_path(router: &mut Bench) -> Vec<Outcome> {
    receive(router, ETH1, &Message::new(64, Body::Path(refreshed_path())))
}

/// Refreshes what the downstream neighbour has reserved.
pub fn refresh_resv(router: &mut Bench, mbps: u32) -> Vec<Outcome> {
    let flows = [flow(mbps)];
    let mut resv = resv(&flows);
    (resv.refresh_ms, resv.hop.lih) = (1_000, router.engine.lih(ETH2));
    receive(router, ETH2, &Message::new(255, Body::Resv(resv)))
}

/// A router with a reservation of 2 Mbit/s between two neighbours that support state recovery and that it has asked.
pub fn reserved_router(config: Config) -> (Bench, Neighbor, Neighbor) {
    let mut router = with_config(config);
    let (up, down) = (Neighbor::new(ETH1), Neighbor::new(ETH2));
    up.hello(&mut router, 0);
    down.hello(&mut router, 0);
    refresh_path(&mut router);
    refresh_resv(&mut router, 2);
    assert_eq!(router.held(), mbps(2));
    (router, up, down)
}

pub fn mbps(rate: u64) -> Rate {
    Rate::from_mbps(rate)
}

/// Passes the time of silence after which a neighbour is found silent, while the other one refreshes its state.
pub fn pass_in_steps(
    router: &mut Bench,
    seconds: u32,
    mut refresh: impl FnMut(&mut Bench) -> Vec<Outcome>,
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for _ in 0..seconds {
        outcomes.extend(refresh(router));
        outcomes.extend(router.pass(SECOND));
    }
    outcomes
}

pub fn count(outcomes: &[Outcome], wanted: fn(&Body<'_>) -> bool) -> usize {
    sent(outcomes).iter().filter(|(_, message)| wanted(&message.body)).count()
}

pub fn is_path(body: &Body<'_>) -> bool {
    matches!(body, Body::Path(_))
}

pub fn is_resv(body: &Body<'_>) -> bool {
    matches!(body, Body::Resv(_))
}

pub fn is_recovery_path(body: &Body<'_>) -> bool {
    matches!(body, Body::RecoveryPath(_))
}

pub fn hellos(outcomes: &[Outcome]) -> Vec<HelloMessage> {
    let hello = |(_, message): &(_, Message<'_>)| match message.body {
        Body::Hello(hello) => Some(hello),
        _ => None,
    };
    sent(outcomes).iter().filter_map(hello).collect()
}

pub fn is_lost(outcomes: &[Outcome]) -> bool {
    events(outcomes).iter().any(|event| matches!(event, Event::NeighborLost { .. }))
}

pub fn restarts(outcomes: &[Outcome]) -> Vec<u64> {
    let kept = |event: &Event| match event {
        Event::NeighborRestarting { kept_ms, .. } => Some(*kept_ms),
        _ => None,
    };
    events(outcomes).iter().filter_map(kept).collect()
}

pub fn drops(outcomes: &[Outcome]) -> Vec<DropReason> {
    let reason = |event: &Event| match event {
        Event::Dropped { reason, .. } => Some(*reason),
        _ => None,
    };
    events(outcomes).iter().filter_map(reason).collect()
}

pub fn restart_of(router: &Bench, address: &str) -> Option<RestartView> {
    let mut neighbors = router.engine.neighbors();
    neighbors.find(|neighbor| neighbor.address == ip(address)).and_then(|it| it.restart)
}

/// Hellos to a neighbour.
pub fn hellos_to(outcomes: &[Outcome], address: &str) -> Vec<Hello> {
    let hello = |(how, message): &(Outgoing, Message<'_>)| match message.body {
        Body::Hello(message) if how.destination == ip(address) => Some(message.hello),
        _ => None,
    };
    sent(outcomes).iter().filter_map(hello).collect()
}

/// The downstream neighbour has been silent for 5 s while the upstream one has refreshed its Path.
pub fn router_without_downstream() -> (Bench, Neighbor, Neighbor) {
    let (mut router, up, down) = reserved_router(restart_config());
    let outcomes = pass_in_steps(&mut router, 5, |router| {
        up.hello(router, 0);
        refresh_path(router)
    });
    assert_eq!(restarts(&outcomes), [RESTART.as_millis() as u64]);
    assert!(!is_lost(&outcomes));
    (router, up, down)
}
