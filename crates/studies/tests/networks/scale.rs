//! `earmark-studies bench scale` with few sessions.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Outcome;

/// Program under test.
const STUDIES: &str = env!("CARGO_BIN_EXE_earmark-studies");

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// In a measurement of a few hundred sessions all are installed, and about 2N/R refreshes a second pass each router
/// in and out; with refresh reduction a few summaries cover all of them.
pub(crate) fn few_sessions_are_installed_and_counted() -> Outcome {
    let sizes = ["--sessions", "300", "--set-ups", "300", "--offers", "2000,all"];
    let times = ["--refresh", "1s", "--window", "4s"];
    let arguments = [&["bench", "scale", "--json"], &sizes[..], &times].concat();
    let output = Command::new(STUDIES).args(arguments).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let set_ups = report["set_up"].as_array().ok_or("no set-ups")?;
    assert_eq!(set_ups.len(), 2);
    for set_up in set_ups {
        assert_eq!((&set_up["installed"], &set_up["errors"]), (&300.into(), &0.into()));
        assert!(number(&set_up["latency_p50_ms"]) > 0.0, "{set_up}");
        assert!(number(&set_up["processor_us"]) > 0.0, "{set_up}");
    }
    let daemons = report["resident"][0]["daemons"].as_array().ok_or("no daemons")?;
    assert_eq!(daemons.len(), 2);
    for daemon in daemons {
        for direction in ["packets_in", "packets_out"] {
            let packets = number(&daemon[direction]);
            assert!((packets - 600.0).abs() < 60.0, "{direction}: {daemon}");
        }
        // A Path with an ADSPEC is longer than 200 octets, a Resv longer than 100.
        assert!(number(&daemon["octets_in"]) > 300.0 * 300.0, "{daemon}");
        assert!(number(&daemon["relay_us"]) > 0.0, "{daemon}");
    }
    let daemons = report["resident"][1]["daemons"].as_array().ok_or("no daemons")?;
    assert_eq!(daemons.len(), 2);
    for daemon in daemons {
        // Each neighbor sends one summary per interval, which is a little less than R.
        for direction in ["packets_in", "packets_out"] {
            let packets = number(&daemon[direction]);
            assert!((1.0..10.0).contains(&packets), "{direction}: {daemon}");
        }
        // Each summary has 300 identifiers of 4 octets.
        assert!(number(&daemon["octets_in"]) > 2.0 * 300.0 * 4.0 * 0.8, "{daemon}");
    }
    Ok(())
}
