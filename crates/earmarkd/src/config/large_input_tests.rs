//! Large files are read in time that grows with their size, and errors about long values stay short.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::*;

/// Length of a long value, octets.
const LONG: usize = 5_000_000;
/// Longest error, octets.
const LONGEST_ERROR: usize = 8_000;
/// Upper bound of the time to read a file with 100 000 tables, even without optimisation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("r1.toml"))
}

#[test]
fn error_about_long_value_is_short() {
    let long = "n".repeat(LONG);
    for (before, after, told) in [
        ("[node]\nname = \"", "\"\n", "the name has 5000000 octets"),
        ("[control]\ngroup = \"", "\"\n", "the name has 5000000 octets"),
        ("[control]\nreaders = \"", "\"\n", "the name has 5000000 octets"),
        ("[control]\nsocket = \"/", "\"\n", "this one has 5000001"),
        ("[daemon]\nuser = \"", "\"\n", "the name has 5000000 octets"),
        ("[daemon]\nrecord = \"", "\"\n", "the path has 5000000 octets"),
        ("[[interface]]\nname = \"", "\"\n", "it has more than 15 octets"),
        ("[[interface]]\nname = \"e\"\nbandwidth = \"", "\"\n", "rate"),
        ("[[interface]]\nname = \"e\"\nqueues = \"", "\"\n", "unknown variant"),
        ("[[interface]]\nname = \"e\"\n", " = 1\n", "unknown field"),
        ("[", "]\n", "unknown field"),
        ("", "\n", "expected"),
    ] {
        let error = read(&format!("{before}{long}{after}")).expect_err(before).to_string();
        assert!(error.len() < LONGEST_ERROR, "{before}: {} octets", error.len());
        assert!(error.contains(told), "{before}: {error}");
    }
}

#[test]
fn hundred_thousand_tables_are_read_in_time() {
    const COUNT: usize = 100_000;
    let mut interfaces = String::new();
    let mut rules = String::new();
    for number in 0..COUNT {
        let _ = writeln!(interfaces, "[[interface]]\nname = \"i{number}\"\nbandwidth = \"1Gbit\"");
        let (high, low) = (number >> 8, number & 255);
        let source = format!("10.{}.{}.{low}", high >> 8, high & 255);
        let _ =
            writeln!(rules, "[[policy.rule]]\nsources = [\"{source}\"]\ninterfaces = [\"i99999\"]");
    }
    let start = Instant::now();
    let config = read(&(interfaces + &rules)).expect("valid");
    assert!(start.elapsed() < PATIENCE, "reading takes {:?}", start.elapsed());
    let mut started = config.clone();
    let start = Instant::now();
    assert_eq!(started.reload(config).waiting, Vec::<String>::new());
    assert!(start.elapsed() < PATIENCE, "the reload takes {:?}", start.elapsed());
}
