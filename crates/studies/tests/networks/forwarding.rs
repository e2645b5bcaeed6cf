//! Minimal run of the forwarding measurement: its rows exist and are plausible.

use std::process::Command;

use serde_json::Value;

use crate::Outcome;

fn bench(arguments: &[&str]) -> Result<Value, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_earmark-studies"))
        .args(["bench", "forwarding", "--quick", "--json"])
        .args(arguments)
        .output()
        .map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    // Exit status 3: with other load on the machine a flow may wait too long.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {errors}"))
}

fn rows<'l>(report: &'l Value, part: &str) -> &'l [Value] {
    report[part].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// ```text
///   sender ---- router ---- sink
/// ```
pub(crate) fn routers_are_compared() -> Outcome {
    let report = bench(&[
        "--part",
        "forwarding",
        "--queues",
        "per-flow:20,aggregate:2000",
        "--rounds",
        "2",
    ])?;
    let rows = rows(&report, "forwarding");
    let named = |row: &Value| format!("{} {} {}", row["queues"], row["flows"], row["traffic"]);
    let names: Vec<String> = rows.iter().map(|row| named(row).replace('"', "")).collect();
    let expected = [
        "none 0 best-effort",
        "per-flow 20 reserved",
        "per-flow 20 best-effort",
        "aggregate 2000 reserved",
        "aggregate 2000 best-effort",
    ];
    assert_eq!(names, expected);
    let median = |row: &Value, what: &str| row[what]["median"].as_f64().unwrap_or_default();
    for (number, row) in rows.iter().enumerate() {
        assert!(median(row, "nanoseconds") > 100.0, "{row}");
        // Forwarding is the largest part of the cost, whatever is added to it.
        let kept = median(row, "kept");
        assert!(number == 0 || (0.05..1.5).contains(&kept), "{row}");
        assert_eq!(row["program_ns"].is_null(), number == 0, "{row}");
    }
    Ok(())
}

/// Beside a flood, a flow loses most packets in a router without a daemon, and none in one with Earmark's queues.
pub(crate) fn flood_takes_nothing_from_a_flow_within_its_rate() -> Outcome {
    let report = bench(&["--part", "promise", "--packets", "40000"])?;
    let rows = rows(&report, "promise");
    assert_eq!(rows.len(), 10, "{report}");
    for row in rows {
        let (lost, packets) = (row["lost"].as_u64().unwrap_or(1), row["packets"].as_u64());
        assert!(packets.unwrap_or_default() >= 200, "{row}");
        match (row["queues"] == "none", row["flood"] == true) {
            (true, true) => assert!(lost > 0, "the flood does no harm: {row}"),
            _ => assert_eq!(lost, 0, "{row}"),
        }
        // The device's time for a packet counts in any case.
        assert!(row["ring_p50_ms"].as_f64().unwrap_or_default() >= 0.005, "{row}");
    }
    Ok(())
}
