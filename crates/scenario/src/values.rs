//! Checks of a scenario: well-formed values that are invalid or would make a run endless, and nodes that do not exist.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::admission::{Admission, Measured};
use crate::arrivals::Arrivals;
use crate::data::Data;
use crate::error::ScenarioError;
use crate::faults;
use crate::lifetime::Lifetimes;
use crate::middlebox;
use crate::mobility;
use crate::scenario::{Flows, Initial, Scenario};
use crate::topology::Topology;

/// Maximum number of flows in one run.
const MAX_FLOWS: f64 = 10e6;
/// Minimum packet size: an IPv4 and a UDP header.
const MIN_PACKET_OCTETS: u32 = 28;
/// Maximum size of an IPv4 packet.
const MAX_PACKET_OCTETS: u32 = 65_535;
/// Minimum refresh interval: protocols count refreshes in whole seconds.
const MIN_REFRESH: Duration = Duration::from_secs(1);
/// Minimum sampling period of measured links.
const MIN_SAMPLE: Duration = Duration::from_millis(1);

impl Scenario {
    /// Checks the values, and that flows are between nodes of a topology.
    ///
    /// # Errors
    /// The first error found.
    pub fn check(&self, topology: &Topology) -> Result<(), ScenarioError> {
        check(self)?;
        let protocol = self.reserving_protocol()?;
        if let Some(most) = protocol.longest_refresh_s() {
            let seconds = self.refresh.as_secs().clamp(1, most);
            if self.refresh != Duration::from_secs(seconds) {
                let protocol = protocol.name().to_owned();
                return Err(ScenarioError::Refresh { protocol, most, seconds });
            }
        }
        for flows in &self.flows {
            if flows.priority.is_some() && !protocol.has_priorities() {
                let able = self.protocols.all().iter().filter(|known| known.has_priorities());
                let known = able.map(|known| known.name()).collect::<Vec<_>>().join(", ");
                return Err(ScenarioError::Priority { flows: flows.name.clone(), known });
            }
            if !flows.between.has_pairs(topology) {
                return Err(ScenarioError::Nowhere(flows.name.clone()));
            }
            for node in flows.between.names() {
                if topology.node(node).is_none() {
                    let (flows, node) = (flows.name.clone(), node.clone());
                    return Err(ScenarioError::NoSuchNode { flows, node });
                }
            }
        }
        self.scheduler.check(topology, self.data)?;
        if let Some(processing) = &self.processing {
            processing.check(topology)?;
        }
        faults::check(&self.faults, topology)?;
        mobility::check(&self.mobility, topology, self.duration)?;
        middlebox::check(&self.middleboxes, protocol, topology)?;
        Ok(())
    }
}

/// Finds the first invalid value.
fn check(scenario: &Scenario) -> Result<(), ScenarioError> {
    let wrong = |key: &str, why| Err(ScenarioError::Value { key: key.to_owned(), why });
    if scenario.duration.is_zero() {
        return wrong("duration", "the duration is 0");
    }
    if scenario.discard >= scenario.duration {
        return wrong("discard", "discard is not shorter than the duration");
    }
    if scenario.refresh < MIN_REFRESH {
        return wrong("refresh", "it is less than a second");
    }
    if let Admission::Measured(measured) = scenario.admission {
        if let Some((key, why)) = unmeasurable(&measured) {
            return wrong(&format!("admission.measured.{key}"), why);
        }
        if scenario.data != Data::Packets {
            return wrong("admission", "only packets are measured; choose data = \"packets\"");
        }
    }
    if !scenario.middleboxes.is_empty() && scenario.data == Data::Fluid {
        return wrong("middleboxes", "only packets meet packet filters; choose data = \"packets\"");
    }
    let mut names = BTreeSet::new();
    for flows in &scenario.flows {
        if !names.insert(&flows.name) {
            return wrong(&format!("flows.{}", flows.name), "duplicate name");
        }
        check_traces(flows)?;
        if let Some((key, why)) = senseless(flows) {
            return wrong(&format!("flows.{}.{key}", flows.name), why);
        }
    }
    let all: f64 = scenario.flows.iter().map(|flows| expected(flows, scenario.duration)).sum();
    if all > MAX_FLOWS {
        return wrong("flows", "more than ten million flows; use fewer and longer ones");
    }
    Ok(())
}

fn unmeasurable(measured: &Measured) -> Option<(&'static str, &'static str)> {
    // Written so that NaN fails, too.
    if !(measured.target > 0.0 && measured.target <= 1.0) {
        return Some(("target", "a share of the reservable bandwidth is above 0 and at most 1"));
    }
    if measured.sample < MIN_SAMPLE {
        return Some(("sample", "it is less than a millisecond"));
    }
    (measured.window < measured.sample).then_some(("window", "it is shorter than a sample"))
}

/// Checks lists of arrivals and lifetimes.
fn check_traces(flows: &Flows) -> Result<(), ScenarioError> {
    let wrong = |key: &str, why| {
        Err(ScenarioError::Value { key: format!("flows.{}.{key}", flows.name), why })
    };
    let lifetimes = match &flows.lifetime {
        Lifetimes::Trace(lifetimes) => Some(lifetimes),
        Lifetimes::Law(_) => None,
    };
    let Arrivals::Trace(arrivals) = &flows.arrivals else {
        return match lifetimes {
            Some(_) => wrong("lifetime", "a list needs a list of as many arrivals"),
            None => Ok(()),
        };
    };
    if flows.count.is_some() {
        return wrong("count", "the list of arrivals has all flows; leave it out");
    }
    if flows.initial.is_some_and(|initial| initial != Initial::None) {
        return wrong("initial", "the list of arrivals has all flows; leave it out");
    }
    if !flows.spread.is_zero() {
        return wrong("spread", "the list of arrivals has each start; leave it out");
    }
    if let Some(place) = arrivals.windows(2).position(|times| times[1] < times[0]) {
        let key = format!("arrivals.{}", place + 1);
        return wrong(&key, "it is before the preceding time; give ascending times");
    }
    let Some(lifetimes) = lifetimes else { return Ok(()) };
    if arrivals.len() != lifetimes.len() {
        let (arrivals, lifetimes) = (arrivals.len(), lifetimes.len());
        return Err(ScenarioError::TraceLengths { flows: flows.name.clone(), arrivals, lifetimes });
    }
    match lifetimes.iter().position(Duration::is_zero) {
        Some(place) => wrong(&format!("lifetime.{place}"), "the lifetime is 0"),
        None => Ok(()),
    }
}

fn senseless(flows: &Flows) -> Option<(&'static str, &'static str)> {
    if flows.rate.as_bps() == 0 {
        return Some(("rate", "flows without data; remove them, or give them a rate"));
    }
    if !(MIN_PACKET_OCTETS..=MAX_PACKET_OCTETS).contains(&flows.packet_octets) {
        return Some((
            "packet_octets",
            "an IP packet has 28 to 65535, headers of IP and UDP included",
        ));
    }
    if flows.bucket_octets < flows.packet_octets {
        return Some(("bucket_octets", "the bucket holds no packet"));
    }
    if flows
        .closes
        .is_some_and(|closes| flows.opens.or(flows.exposes).is_none_or(|at| at >= closes))
    {
        return Some((
            "closes",
            "it ends a request that does not precede it; give opens or exposes",
        ));
    }
    if flows.bursts.is_some_and(|bursts| bursts.on.is_zero()) {
        return Some(("bursts.on", "the share of sending time is 0"));
    }
    if flows.lifetime.mean().is_some_and(|mean| mean.is_zero()) {
        return Some(("lifetime", "the lifetime is 0"));
    }
    if flows.initial == Some(Initial::None) && !matches!(flows.arrivals, Arrivals::Trace(_)) {
        if flows.arrivals == Arrivals::Replaced {
            return Some((
                "initial",
                "no flow is there to be replaced; choose arrivals = \"poisson\"",
            ));
        }
        if flows.lifetime.mean().is_none() {
            return Some((
                "initial",
                "flows that never end do not arrive later; give them a lifetime",
            ));
        }
    }
    None
}

/// Returns the approximate number of flows in a run.
fn expected(flows: &Flows, duration: Duration) -> f64 {
    if let Arrivals::Trace(times) = &flows.arrivals {
        return times.len() as f64;
    }
    let rounds = flows.lifetime.mean().map_or(0.0, |mean| duration.div_duration_f64(mean));
    f64::from(flows.count()) * (1.0 + rounds)
}

#[cfg(test)]
mod tests;
