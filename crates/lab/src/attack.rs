//! Attacks on a reservation: a stream beside a flood, an attacker on a customer's port, and whether anything changes.
//!
//! The network is that of the demo with one more host at r1, the attacker, who has seen all signalling between r1 and r2
//! and sends what the catalogue says. During each attack the stream must lose nothing, its reservation must stay as it
//! is, and a new reservation must be set up.

mod network;
mod report;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use earmark_core::{Rate, Time};
use earmark_scenario::Protocols;
use earmark_scenario::attack::{self, Attack};

use crate::demo::protocol::{Protocol, Reply};
use crate::demo::{DemoNetwork, Plan, Progress, Stream};

pub use self::network::{AttackNetwork, AttackedNamespaces, AttackedSimulator, TOPOLOGY};
pub use self::report::{Report, Row};

/// Name of the attacker's node.
pub const ATTACKER: &str = "a";
/// Duration of one attack.
const ATTACK: Duration = Duration::from_millis(1_500);
/// Number of parts in which the packets of an attack are sent.
const PARTS: u32 = 15;
/// Packets that the attacker sends in one part at most.
const PACKETS_PER_PART: usize = 200;
/// Reserved rate above that of the stream, percent, so that a queue that an attack has caused drains before the next one.
const SLACK: u64 = 5;
/// Rate of the new reservation during an attack.
const NEW: Rate = Rate::from_bps(200_000);
/// Time within which the new reservation must be set up.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Result of an attack, before the stream's losses are known.
struct Trial {
    row: Row,
    from: Time,
    until: Time,
}

/// Plays the catalogue against the reservations of these protocols.
///
/// # Errors
/// A reservation could not be set up before any attack, or the network has failed.
pub fn run(
    network: &mut impl AttackNetwork,
    protocols: &[Protocol],
    plan: &Plan,
    seed: u64,
    progress: &mut dyn Progress,
) -> Result<Report> {
    let IpAddr::V4(attacker) = network.address_of(ATTACKER)? else { bail!("IPv4 only") };
    network.demo().start_traffic()?;
    network.demo().wait(plan.settle)?;
    let (mut trials, forgers) = (Vec::new(), Protocols::default());
    for &by in protocols {
        let rate = Rate::from_bps(plan.stream.rate.as_bps() * (100 + SLACK) / 100);
        network.observed()?;
        match network.demo().reserve(by, Stream::Measured, rate, ANSWER_WITHIN)? {
            (Reply::InPlace, _) => {}
            (reply, _) => bail!("{} did not reserve before any attack: {reply:?}", by.name()),
        }
        // Refreshes are seen as well, and the queues settle.
        network.demo().wait(plan.longest_refresh() * 2)?;
        let seen = network.observed()?;
        if seen.is_empty() {
            bail!("no message of {} has passed r1, so that there is nothing to forge", by.name());
        }
        let forger = forgers.by_name(by.name()).context("a protocol without scenarios")?;
        let mut attacks = attack::common(&seen, attacker, seed);
        attacks.extend(forger.forgeries(&seen, attacker));
        progress.begin(&format!("attacks on {}", by.name()), attacks.len() as u64);
        for attack in attacks {
            let trial = play(network, by, &attack)?;
            progress.note(&format!("{}: {} ({})", by.name(), attack.name, attack.power.describe()));
            trials.push(trial);
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

/// Plays one attack: its packets in rounds, and a new reservation in the middle.
fn play(network: &mut impl AttackNetwork, by: Protocol, attack: &Attack) -> Result<Trial> {
    let listed = network.reserved(Stream::Measured)?;
    let (from, before) = (network.demo().now(), network.reasons()?);
    let mut rounds = attack.packets.iter().cycle();
    let (mut packets, mut setup_ms) = (0, None);
    let per_part = PACKETS_PER_PART.min(attack.packets.len().max(20));
    for part in 0..PARTS {
        for packet in rounds.by_ref().take(per_part) {
            network.send(packet)?;
            packets += 1;
        }
        if part == PARTS / 2 {
            let asked = network.demo().reserve(by, Stream::Second, NEW, ANSWER_WITHIN);
            if let Ok((Reply::InPlace, setup)) = asked {
                setup_ms = Some(setup.as_secs_f64() * 1e3);
            }
            network.demo().release(Stream::Second)?;
        }
        network.demo().wait(ATTACK / PARTS)?;
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
    let reserved = listed.is_some() && network.reserved(Stream::Measured)? == listed;
    let row = Row {
        protocol: by.name(),
        attack: attack.name.clone(),
        power: attack.power,
        packets,
        counted,
        reserved,
        loss: 0.0,
        setup_ms,
    };
    Ok(Trial { row, from, until: network.demo().now() })
}

#[cfg(test)]
mod tests {
    use earmark_core::Trust;

    use super::*;
    use crate::protocols::PROTOCOLS;

    struct Silent;

    impl Progress for Silent {
        fn begin(&mut self, _what: &str, _steps: u64) {}
        fn step(&mut self, _stream_bps: u64) {}
        fn note(&mut self, _what: &str) {}
    }

    fn play_all(protocols: &[Protocol], prepare: impl FnOnce(&mut AttackedSimulator)) -> Report {
        let plan = Plan { refresh: Duration::from_secs(1), ..Plan::default() };
        let mut network = AttackedSimulator::new(plan.clone(), 1).unwrap();
        prepare(&mut network);
        run(&mut network, protocols, &plan, 1, &mut Silent).unwrap()
    }

    #[test]
    fn attacks_on_every_protocol_have_no_effect() {
        let report = play_all(&PROTOCOLS, |_| {});
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
        let report = play_all(&PROTOCOLS[..1], |network| {
            let router = crate::demo::ROUTER;
            network.demo().set_trust(router, "eth2", Trust::CORE).unwrap();
        });
        let broken: Vec<&str> = report.broken().map(|row| row.attack.as_str()).collect();
        assert!(broken.contains(&"ResvTear of the next hop"), "{}", report.table());
    }
}
