//! Attacks on a reservation: a stream beside a flood, attackers on ports of customers, and whether anything changes.
//!
//! The network is that of the demo with a host of an attacker at each router. The attackers have seen all signalling that
//! passes r1, and send what the catalogue says, in [variants](VARIANTS). During each attack the stream must lose nothing,
//! its reservation must stay as it is at both routers, and a new reservation must be set up.

mod network;
mod report;
mod variant;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use earmark_core::{Rate, Time};
use earmark_scenario::attack::{self, Attack, Packet, Power};
use earmark_scenario::{Protocols, ScenarioProtocol};

use crate::demo::protocol::{Protocol, Reply, Target};
use crate::demo::{DemoNetwork, Plan, Progress, ROUTER, Stream};

pub use self::network::{AttackNetwork, AttackedNamespaces, AttackedSimulator, Reserved, TOPOLOGY};
pub use self::report::{Report, Row};
pub use self::variant::{Place, RouterEvent, Setup, VARIANTS, Variant, by_name};

/// Duration of a part of an attack.
const PART: Duration = Duration::from_millis(50);
/// Number of parts in which the packets of one attack are sent.
const PARTS: u32 = 12;
/// Number of parts of all attacks at once: longer than a refresh interval, so that a new daemon has all state again.
const PARTS_OF_ALL: u32 = 60;
/// Packets that the attacker sends in one part at most.
const PACKETS_PER_PART: usize = 200;
/// Packets of each attack when all are played at once.
const PACKETS_OF_EACH: usize = 20;
/// Reserved rate above that of the stream, percent, so that a queue that an attack has caused drains before the next one.
const SLACK: u64 = 5;
/// Rate of the new reservation during an attack.
const NEW: Rate = Rate::from_bps(200_000);
/// Time within which the new reservation must be set up.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Time after the attack within which all state must be restored after a restart.
const RESTORED_WITHIN: Duration = Duration::from_secs(3);
/// Time without daemon when it is restarted.
const WITHOUT_DAEMON: Duration = Duration::from_millis(100);

/// Result of an attack, before the stream's losses are known.
struct Trial {
    row: Row,
    from: Time,
    until: Time,
}

/// Plays the catalogue in variants of one network against the reservations of these protocols.
///
/// # Errors
/// A reservation could not be set up before any attack, or the network has failed.
pub fn run(
    network: &mut impl AttackNetwork,
    variants: &[&'static Variant],
    protocols: &[Protocol],
    plan: &Plan,
    seed: u64,
    progress: &mut dyn Progress,
) -> Result<Report> {
    network.demo().start_traffic()?;
    network.demo().wait(plan.settle)?;
    let (mut trials, forgers) = (Vec::new(), Protocols::default());
    for &by in protocols.iter().filter(|by| variants.iter().any(|variant| variant.applies_to(**by)))
    {
        let rate = Rate::from_bps(plan.stream.rate.as_bps() * (100 + SLACK) / 100);
        network.observed()?;
        match network.demo().reserve(by, Stream::Measured, rate, ANSWER_WITHIN)? {
            (Reply::InPlace, _) => {}
            (reply, _) => bail!("{} did not reserve before any attack: {reply:?}", by.name()),
        }
        // Refreshes are seen as well, and the queues settle.
        network.demo().wait(plan.longest_refresh() * 2)?;
        let forger = forgers.by_name(by.name()).context("a protocol without scenarios")?;
        let mut seen = network.observed()?;
        seen.retain(|packet| forger.recognizes(packet));
        if seen.is_empty() {
            bail!(
                "no message of {} has passed {ROUTER}, so that there is nothing to forge",
                by.name()
            );
        }
        for variant in variants.iter().filter(|variant| variant.applies_to(by)) {
            let attacks = attacks(network, variant, forger, &seen, seed)?;
            progress.note(&format!("{}, {}: {}", variant.name, by.name(), variant.about));
            progress.begin(&format!("{}, {}", variant.name, by.name()), attacks.len() as u64);
            for attack in attacks {
                let octets = network.demo().received_octets();
                let trial = play(network, variant, by, &attack)?;
                let octets = network.demo().received_octets().saturating_sub(octets);
                let seconds = trial.until.since(trial.from).as_secs_f64();
                progress.step((octets as f64 * 8.0 / seconds.max(1e-3)) as u64);
                trials.push(trial);
            }
        }
        network.demo().wait(plan.settle)?;
        network.demo().release(Stream::Measured)?;
        network.demo().wait(plan.settle)?;
    }
    let traces = network.demo().stop_traffic()?;
    let kind = network.demo().kind();
    let rows = trials.into_iter().map(|Trial { row, from, until }| {
        let loss = traces[0].figures(from, until).loss;
        Row { loss, ..row }
    });
    Ok(Report { network: kind, rows: rows.collect() })
}

/// Returns the attacks of a variant on one protocol.
fn attacks(
    network: &mut impl AttackNetwork,
    variant: &Variant,
    forger: &dyn ScenarioProtocol,
    seen: &[Packet],
    seed: u64,
) -> Result<Vec<Attack>> {
    let topology = network.demo().topology().clone();
    let [attacker, router] = network::addresses(&topology, variant.setup, variant.place)?;
    let mut attacks = attack::common(seen, attacker, seed);
    let mut forged = forger.forgeries(seen, attacker);
    if variant.setup.target == Target::UdpEncapsulation {
        for attack in &mut forged {
            let packets = std::mem::take(&mut attack.packets).into_iter();
            attack
                .packets
                .extend(packets.filter_map(|packet| forger.encapsulated(&packet, router)));
        }
    }
    attacks.extend(forged);
    attacks.retain(|attack| variant.has(attack.power));
    for attack in &mut attacks {
        attack.packets.retain(|packet| forger.recognizes(packet));
    }
    if let Place::Beside(host) = variant.place {
        // What the host sends to itself does not pass its link.
        let host = topology.node(host).context("no such host")?;
        let own: Option<IpAddr> = topology.address_in(host, variant.setup.family);
        for attack in &mut attacks {
            attack.packets.retain(|packet| Some(packet.destination) != own);
        }
    }
    attacks.retain(|attack| !attack.packets.is_empty());
    Ok(match variant.event {
        RouterEvent::None => attacks,
        RouterEvent::Restart | RouterEvent::Reloads => vec![at_once(&attacks)],
    })
}

/// Returns one attack with packets of all, in turn.
fn at_once(attacks: &[Attack]) -> Attack {
    let turn = |turn: usize| {
        let packets = attacks.iter().map(move |attack| &attack.packets);
        packets.map(move |packets| packets[turn % packets.len()].clone())
    };
    let packets = (0..PACKETS_OF_EACH).flat_map(turn).collect();
    Attack::new("all attacks at once", Power::AnyAddress, packets)
}

/// Plays one attack: its packets in rounds, and a new reservation in the middle.
fn play(
    network: &mut impl AttackNetwork,
    variant: &'static Variant,
    by: Protocol,
    attack: &Attack,
) -> Result<Trial> {
    let listed = network.reserved(Stream::Measured)?;
    let from = network.demo().now();
    if variant.event == RouterEvent::Restart {
        network.demo().stop_daemon(ROUTER)?;
        network.demo().wait(WITHOUT_DAEMON)?;
        network.demo().start_daemon(ROUTER)?;
    }
    // What is left of the attack before has been counted by then.
    network.demo().wait(PART * 2)?;
    let before = network.reasons()?;
    let mut rounds = attack.packets.iter().cycle();
    let (mut packets, mut setup_ms) = (0, None);
    let per_part = PACKETS_PER_PART.min(attack.packets.len().max(20));
    let parts = if variant.event == RouterEvent::None { PARTS } else { PARTS_OF_ALL };
    for part in 0..parts {
        if variant.event == RouterEvent::Reloads {
            network.reload()?;
        }
        for packet in rounds.by_ref().take(per_part) {
            network.send(variant.place, packet)?;
            packets += 1;
        }
        if part == parts / 2 {
            let asked = network.demo().reserve(by, Stream::Second, NEW, ANSWER_WITHIN);
            if let Ok((Reply::InPlace, setup)) = asked {
                setup_ms = Some(setup.as_secs_f64() * 1e3);
            }
            network.demo().release(Stream::Second)?;
        }
        network.demo().wait(PART)?;
    }
    let mut counted: Vec<(String, u64)> = network
        .reasons()?
        .into_iter()
        .map(|(name, count)| {
            let earlier = before.get(&name).copied().unwrap_or_default();
            (name, count.saturating_sub(earlier))
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut is_unchanged = network.reserved(Stream::Measured)? == listed;
    if variant.event == RouterEvent::Restart {
        let until = network.demo().now() + RESTORED_WITHIN;
        while !is_unchanged && network.demo().now() < until {
            network.demo().wait(PART)?;
            is_unchanged = network.reserved(Stream::Measured)? == listed;
        }
    }
    let row = Row {
        variant,
        protocol: by.name(),
        attack: attack.name.clone(),
        power: attack.power,
        packets,
        counted,
        reserved: listed.iter().all(Option::is_some) && is_unchanged,
        loss: 0.0,
        setup_ms,
    };
    Ok(Trial { row, from, until: network.demo().now() })
}

#[cfg(test)]
mod tests {
    use earmark_core::Trust;

    use super::*;
    use crate::demo::Unwatched;
    use crate::protocols::PROTOCOLS;

    fn play_all(
        variants: &[&'static Variant],
        protocols: &[Protocol],
        prepare: impl FnOnce(&mut AttackedSimulator),
    ) -> Report {
        let plan = Plan { refresh: Duration::from_secs(1), ..Plan::default() };
        let mut network = AttackedSimulator::new(variants[0].setup, plan.clone(), 1).unwrap();
        prepare(&mut network);
        run(&mut network, variants, protocols, &plan, 1, &mut Unwatched).unwrap()
    }

    #[test]
    fn attacks_on_every_protocol_have_no_effect() {
        let report = play_all(&[&VARIANTS[0]], &PROTOCOLS, |_| {});
        assert_eq!(report.broken().next(), None);
        for protocol in PROTOCOLS {
            let attacks = report.rows.iter().filter(|row| row.protocol == protocol.name());
            let refused = attacks.filter(|row| !row.counted.is_empty()).count();
            assert!(refused >= 2, "{}", protocol.name());
        }
    }

    /// The attacker's port counts as a core interface: forged messages have effects, and the report shows them.
    #[test]
    fn attacks_through_trusted_port_have_effects() {
        let report = play_all(&[&VARIANTS[0]], &PROTOCOLS[..1], |network| {
            network.demo().set_trust(ROUTER, "eth2", Trust::CORE).unwrap();
        });
        let broken: Vec<&str> = report.broken().map(|row| row.attack.as_str()).collect();
        assert!(broken.contains(&"ResvTear of the next hop"), "{}", report.table());
    }
}
