//! Fluid on-off sources on a link without a buffer: what exceeds the bandwidth is lost. The number of sources that are on
//! has a binomial distribution.

use earmark_testkit::replications::Measured;

use super::{agrees, played, topology};

const SOURCES: u32 = 20;
/// Share of the time in which a source is on.
const ON: f64 = 1.0 / 3.0;
/// Octets of an IP packet, and of its frame.
const PACKET: [f64; 2] = [1_000.0, 1_014.0];

/// Returns the share of the octets that is lost on a link for so many sources at a time.
fn lost(at_a_time: f64) -> f64 {
    let (mut probability, mut excess) = ((1.0 - ON).powi(SOURCES as i32), 0.0);
    for on in 0..=SOURCES {
        excess += probability * (f64::from(on) - at_a_time).max(0.0);
        probability *= f64::from(SOURCES - on) / f64::from(on + 1) * ON / (1.0 - ON);
    }
    excess / (f64::from(SOURCES) * ON)
}

#[test]
fn overload_of_fluid_sources_is_lost() {
    let text = format!(
        r#"
        name = "fluid"
        topology = "none"
        protocol = "rsvp"
        duration = "2000s"
        data = "fluid"

        [[flows]]
        name = "sources"
        between = [["a", "b"]]
        count = {SOURCES}
        rate = "100kbit"
        packet_octets = 1000
        bursts = {{ on = "500ms", off = "1s" }}
        watch = true
        "#
    );
    for kilobits in [700, 900, 1_200] {
        let topology = topology(0, kilobits);
        let measured = Measured::over_seeds(|seed| {
            let outcome = played(&text, &topology, seed);
            let sum = |of: fn(&earmark_scenario::Received) -> u64| {
                outcome.watched.iter().map(|flow| of(&flow.received)).sum::<u64>() as f64
            };
            1.0 - sum(|it| it.arrived) / sum(|it| it.sent)
        });
        let at_a_time = f64::from(kilobits) / 100.0 * PACKET[0] / PACKET[1];
        agrees(measured, &format!("{kilobits} kbit/s"), lost(at_a_time), 0.01);
    }
}
