//! Checks of well-formed values that are invalid, or would make a run endless.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::admission::{Admission, Measured};
use crate::data::Data;
use crate::scenario::{Arrivals, Flows, Scenario, ScenarioError};

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

/// Finds the first invalid value.
pub(crate) fn check(scenario: &Scenario) -> Result<(), ScenarioError> {
    let wrong = |key: &str, why| Err(ScenarioError::Value { key: key.to_owned(), why });
    if scenario.duration.is_zero() {
        return wrong("duration", "nothing can happen in no time");
    }
    if scenario.discard >= scenario.duration {
        return wrong("discard", "nothing is left of the duration that would count");
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
    let mut names = BTreeSet::new();
    for flows in &scenario.flows {
        if !names.insert(&flows.name) {
            return wrong(&format!("flows.{}", flows.name), "there are others of this name");
        }
        if let Some((key, why)) = senseless(flows) {
            return wrong(&format!("flows.{}.{key}", flows.name), why);
        }
    }
    let all: f64 = scenario.flows.iter().map(|flows| expected(flows, scenario.duration)).sum();
    if all > MAX_FLOWS {
        return wrong("flows", "more than ten million would come and go; let fewer live longer");
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

fn senseless(flows: &Flows) -> Option<(&'static str, &'static str)> {
    if flows.rate.as_bps() == 0 {
        return Some(("rate", "flows without data; leave them out, or give them a rate"));
    }
    if !(MIN_PACKET_OCTETS..=MAX_PACKET_OCTETS).contains(&flows.packet_octets) {
        return Some((
            "packet_octets",
            "an IP packet has 28 to 65535, headers of IP and UDP included",
        ));
    }
    if flows.bucket_octets < flows.packet_octets {
        return Some(("bucket_octets", "no packet would fit the bucket"));
    }
    if flows.bursts.is_some_and(|bursts| bursts.on.is_zero()) {
        return Some(("bursts.on", "they would never send"));
    }
    if flows.lifetime.mean().is_some_and(|mean| mean.is_zero()) {
        return Some(("lifetime", "they would end before they begin"));
    }
    None
}

/// Returns the approximate number of flows in a run.
fn expected(flows: &Flows, duration: Duration) -> f64 {
    let schedule = match (flows.lifetime.mean(), flows.arrivals) {
        (None, _) => 1.0,
        (Some(mean), Arrivals::Replaced | Arrivals::Poisson) => {
            1.0 + duration.as_secs_f64() / mean.as_secs_f64()
        }
    };
    f64::from(flows.count) * schedule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{DEMO, Topology};

    const SCENARIO: &str = r#"
        name = "some"
        topology = "demo.toml"
        protocol = "yessir"
        duration = "60s"
        [[flows]]
        name = "test"
        between = [["h1", "h2"]]
        rate = "1Mbit"
        reserves = "1s"
    "#;

    fn set(values: &[&str]) -> Result<Scenario, ScenarioError> {
        let values: Vec<_> = values.iter().map(|value| value.parse().expect("KEY=VALUE")).collect();
        Scenario::parse_with(SCENARIO, &values)
    }

    #[test]
    fn invalid_value_is_named() {
        let topology = Topology::parse(DEMO).expect("a topology");
        assert_eq!(set(&[]).unwrap().check(&topology), Ok(()));
        for (value, key) in [
            ("duration=0s", "duration"),
            ("discard=60s", "discard"),
            ("refresh=999ms", "refresh"),
            ("admission={ measured = { target = 0.0 } }", "admission.measured.target"),
            ("admission={ measured = { target = 1.1 } }", "admission.measured.target"),
            ("admission={ measured = { sample = \"0s\" } }", "admission.measured.sample"),
            ("admission={ measured = { window = \"999ms\" } }", "admission.measured.window"),
            ("flows.test.rate=0bit", "flows.test.rate"),
            ("flows.test.packet_octets=27", "flows.test.packet_octets"),
            ("flows.test.packet_octets=65536", "flows.test.packet_octets"),
            ("flows.test.bucket_octets=124", "flows.test.bucket_octets"),
            ("flows.test.bursts={ on = \"0s\", off = \"1s\" }", "flows.test.bursts.on"),
            ("flows.test.lifetime=constant 0s", "flows.test.lifetime"),
            ("flows.test.lifetime=exponential 0s", "flows.test.lifetime"),
            ("flows.test.count=10000001", "flows"),
        ] {
            let checked = set(&[value]).expect(value).check(&topology);
            let Err(ScenarioError::Value { key: wrong, .. }) = checked else {
                panic!("{value}: {checked:?}");
            };
            assert_eq!(wrong, key, "{value}");
        }
        let many = set(&["flows.test.count=1000", "flows.test.lifetime=constant 1ms"]);
        assert!(many.unwrap().check(&topology).is_err(), "60 million come and go");
        let unseen = set(&["admission={ measured = {} }", "data=fluid"]);
        assert!(unseen.unwrap().check(&topology).is_err(), "fluid is not measured");
        let mut twice = set(&[]).unwrap();
        twice.flows.push(twice.flows[0].clone());
        let message = twice.check(&topology).unwrap_err().to_string();
        assert_eq!(message, "`flows.test`: there are others of this name");
    }

    #[test]
    fn scheduler_is_checked_against_topology_and_data() {
        let topology = Topology::parse(DEMO).expect("a topology");
        let checked = |values: &[&str]| {
            set(values).expect("well-formed").check(&topology).map_err(|error| error.to_string())
        };
        let of_link = "scheduler=[{ link = [\"h1\", \"r1\"], discipline = \"wfq\" }]";
        for valid in [&["scheduler=wfq"][..], &["scheduler=fifo", "data=fluid"], &[of_link]] {
            assert_eq!(checked(valid), Ok(()));
        }
        for scheduler in ["scheduler=wfq", of_link] {
            assert_eq!(
                checked(&[scheduler, "data=fluid"]).unwrap_err(),
                "`scheduler`: wfq cannot be simulated with data = \"fluid\"; use \"packets\""
            );
        }
        assert_eq!(
            checked(&["scheduler=[{ link = [\"h1\", \"h2\"], discipline = \"fifo\" }]"])
                .unwrap_err(),
            "scheduler: `h1` and `h2` are not joined"
        );
    }

    /// Errors in malformed values name what is valid instead, or what is wrong.
    #[test]
    fn malformed_value_is_named() {
        for (value, message) in [
            ("rollback={ after = \"5s\" }", "missing field `again`"),
            ("rollback={ after = \"5 s\", again = \"soon\" }", "`soon` is no lifetime"),
            ("rollback={ after = 5, again = \"constant 1s\" }", "invalid type: integer `5`"),
            (
                "rollback={ after = \"5s\", again = \"constant 1s\", how = 1 }",
                "unknown field `how`",
            ),
            ("retry.counting=some", "unknown variant `some`, expected `entries` or `tries`"),
            ("retry.discipline=fair", "unknown variant `fair`"),
            ("retry.threshold=-1", "retry.threshold"),
            ("retry.threshold=many", "retry.threshold"),
            (
                "flows.test.arrivals=never",
                "unknown variant `never`, expected `replaced` or `poisson`",
            ),
            ("flows.test.priority=70000", "invalid value: integer `70000`"),
            ("flows.test.priority=high", "invalid type: string \"high\""),
            ("flows.test.rate=fast", "`fast` is no rate"),
            ("data=waves", "unknown variant `waves`"),
            ("scheduler=fair", "`priority`, `wfq`, `fifo`, or a list of { link, discipline }"),
            ("admission=guess", "unknown variant `guess`, expected `parameter` or `measured`"),
            ("admission={ measured = { load = 1 } }", "unknown field `load`"),
            ("admission={ measured = { window = 10 } }", "invalid type: integer `10`"),
        ] {
            let error = set(&[value]).expect_err(value).to_string();
            assert!(error.contains(message), "{value}: {error}");
        }
    }
}
