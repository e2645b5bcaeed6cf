//! The lab against the real kernel: networks in namespaces of their own, real daemons, real traffic.
//!
//! Without the privileges for namespaces every test is shown as ignored, with the reason. Tests run one after the
//! other, because they measure delays; each cleans up after itself, also when it fails.

#[path = "kernel/adoption.rs"]
mod adoption;
#[path = "shared/classes.rs"]
mod classes;
#[path = "shared/engine_event.rs"]
mod engine_event;
#[path = "kernel/tracing.rs"]
mod tracing;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use earmark_lab::testbed;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

type Outcome = Result<(), Failed>;
type Test = fn() -> Outcome;

/// Program under test.
const LAB: &str = env!("CARGO_BIN_EXE_earmark-lab");
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/demo.toml");

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let obstacle = testbed::obstacle();
    let tests: [(&str, Test); 7] = [
        ("the_demo_keeps_its_promises", the_demo_keeps_its_promises),
        ("a_killed_daemon_costs_nothing", a_killed_daemon_costs_nothing),
        (
            "the_class_of_a_flow_outlives_the_daemon",
            adoption::the_class_of_a_flow_outlives_the_daemon,
        ),
        (
            "a_trace_shows_hops_without_rsvp_and_silent_ones",
            tracing::a_trace_shows_hops_without_rsvp_and_silent_ones,
        ),
        ("up_down_up", up_down_up),
        ("an_interrupted_demo_cleans_up", an_interrupted_demo_cleans_up),
        ("a_killed_demo_is_cleaned_up_after", a_killed_demo_is_cleaned_up_after),
    ];
    let trials = tests.into_iter().map(|(name, test)| match &obstacle {
        None => Trial::test(name, test),
        // The runner shows a reason only as part of the name.
        Some(reason) => Trial::test(format!("{name} ({reason})"), test).with_ignored_flag(true),
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// The whole demo keeps its promises, by its JSON.
fn the_demo_keeps_its_promises() -> Outcome {
    let began = Instant::now();
    let pcap = std::env::temp_dir().join(format!("earmark-demo-test-{}.pcap", std::process::id()));
    let (report, process) = run(&["demo", "--json", "--pcap", &pcap.to_string_lossy()])?;
    // The demo alone takes less than a minute; with other load it may take longer.
    assert!(began.elapsed() < Duration::from_secs(150), "{:?}", began.elapsed());
    assert_eq!(report["network"], "netns");
    let stages = report["stages"].as_array().ok_or("no stages")?;
    let protocols: Vec<_> = stages.iter().map(|stage| &stage["protocol"]).collect();
    assert_eq!(protocols, ["none", "rsvp", "none", "boomerang", "yessir", "nsis", "shared"]);
    for unreserved in [&stages[0], &stages[2]] {
        assert!(number(&unreserved["loss"]) > 0.3, "{unreserved}");
        assert_eq!(unreserved["reserved_bps"], 0);
        assert!(unreserved["setup_ms"].is_null());
    }
    let reserved = &stages[1];
    assert_eq!(number(&reserved["loss"]), 0.0, "{reserved}");
    assert!(number(&reserved["delay_p99_ms"]) < 20.0, "{reserved}");
    assert_eq!(reserved["reserved_bps"], 2_000_000);
    assert!((number(&reserved["received_bps"]) - 2e6).abs() < 4e4, "{reserved}");
    assert!(number(&reserved["setup_ms"]) > 0.0, "{reserved}");
    for reserved in &stages[3..] {
        assert_eq!(number(&reserved["loss"]), 0.0, "{reserved}");
        assert_eq!(reserved["reserved_bps"], 2_000_000);
    }
    let parts = report["parts"].as_array().ok_or("no parts")?;
    assert!(parts.len() == 4 && parts.iter().all(|part| number(&part["loss"]) == 0.0), "{parts:?}");
    assert_eq!(report["denials"].as_array().map(Vec::len), Some(4), "{report}");
    let refusal = &report["refusal"];
    assert_eq!(refusal["error"], "admission control failure");
    assert_eq!((&refusal["code"], &refusal["value"]), (&1.into(), &2.into()));
    assert_eq!(refusal["node"], "r1");
    assert!(number(&refusal["stream_bps_after"]) > 1.96e6, "{refusal}");
    let capture = std::fs::read(&pcap)?;
    std::fs::remove_file(&pcap)?;
    let format = earmark_decode::Format::Json;
    let summary = earmark_decode::decode(&capture[..], &mut std::io::sink(), format)?;
    // Two sessions are set up, refreshed and released; the 40 000 data packets are not captured.
    assert!((20..200).contains(&summary.messages), "{summary:?}");
    assert_eq!((summary.frames, summary.malformed), (summary.messages, 0));
    nothing_is_left(&format!("earmark-demo-{process}"))
}

/// After `kill -9` of the daemon on r1 the stream keeps its rate, and the first Path restores the state. That Path
/// comes within 1.5 R = 3 s (RFC 2205 section 3.7) of the new daemon's start; the rest of the time is for the
/// machine.
fn a_killed_daemon_costs_nothing() -> Outcome {
    let (report, process) = run(&["demo", "--json", "--kill", "--stage", "4s"])?;
    let kill = &report["kill"];
    assert_eq!(kill["node"], "r1");
    assert_eq!(number(&kill["loss"]), 0.0, "{kill}");
    assert!(number(&kill["stream_bps"]) > 1.96e6, "{kill}");
    assert_eq!(kill["longest_refresh_ms"], 3_000.0);
    assert!(number(&kill["reformed_ms"]) < 3_250.0, "{kill}");
    assert_eq!(number(&report["stages"][1]["loss"]), 0.0, "{report}");
    nothing_is_left(&format!("earmark-demo-{process}"))
}

/// A network can be built, listed, not built twice, removed, and built again.
fn up_down_up() -> Outcome {
    let name = format!("earmark-test-{}", std::process::id());
    let _guard = Guard(name.clone());
    success(&lab(&["up", DEMO, "--name", &name]))?;
    let status = success(&lab(&["status", "--json"]))?;
    let networks: Value = serde_json::from_str(&status)?;
    let ours =
        networks.as_array().and_then(|all| all.iter().find(|n| n["network"] == name.as_str()));
    let nodes = ours.and_then(|network| network["nodes"].as_array()).ok_or("not listed")?;
    assert_eq!(nodes.len(), 4);
    for node in nodes {
        assert!(node["pid"].is_u64(), "{node}");
        let control = node["control"].as_str().ok_or("no control socket")?;
        let mut client = earmark_control::Client::connect(control)?;
        assert!(!client.show_links()?.rows.is_empty());
    }
    let again = lab(&["up", DEMO, "--name", &name]);
    assert!(!again.status.success());
    let message = String::from_utf8_lossy(&again.stderr);
    assert!(message.contains("is up already") && message.contains("earmark-lab down"), "{message}");
    success(&lab(&["down", "--name", &name]))?;
    nothing_is_left(&name)?;
    let missing = lab(&["down", "--name", &name]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no network"), "{missing:?}");
    success(&lab(&["up", DEMO, "--name", &name]))?;
    success(&lab(&["down", "--name", &name]))?;
    nothing_is_left(&name)
}

/// After Ctrl-C in the middle, the demo ends soon and leaves nothing behind.
fn an_interrupted_demo_cleans_up() -> Outcome {
    let mut demo = started_demo()?;
    signal(&demo, rustix::process::Signal::INT)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    let status = loop {
        if let Some(status) = demo.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            demo.kill()?;
            return Err("it went on".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(1));
    nothing_is_left(&format!("earmark-demo-{}", demo.id()))
}

/// If the demo itself is killed, its daemons end by themselves, and the next demo or `down` removes the rest. Neither
/// removes the network of a running demo.
fn a_killed_demo_is_cleaned_up_after() -> Outcome {
    let killed = || -> Result<Guard, Failed> {
        let mut demo = started_demo()?;
        let guard = Guard(format!("earmark-demo-{}", demo.id()));
        signal(&demo, rustix::process::Signal::KILL)?;
        demo.wait()?;
        assert!(nothing_is_left(&guard.0).is_err(), "it was killed too late or too early");
        Ok(guard)
    };
    let first = killed()?;
    let mut running = started_demo()?;
    nothing_is_left(&first.0)?;
    let second = killed()?;
    assert!(running.try_wait()?.is_none(), "its network was taken from it");
    signal(&running, rustix::process::Signal::INT)?;
    running.wait()?;
    success(&lab(&["down", "--name", &second.0]))?;
    nothing_is_left(&second.0)
}

/// Runs the program to its end; returns its JSON, and its process id, the suffix of its networks' names.
fn run(arguments: &[&str]) -> Result<(Value, u32), Failed> {
    let mut command = Command::new(LAB);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn()?;
    let process = child.id();
    Ok((serde_json::from_str(&success(&child.wait_with_output()?)?)?, process))
}

/// Starts a demo, and waits until its nodes are up.
fn started_demo() -> Result<Child, Failed> {
    let mut demo =
        Command::new(LAB).arg("demo").stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let control = format!("/run/earmark-lab/earmark-demo-{}/h2.sock", demo.id());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !Path::new(&control).exists() {
        if Instant::now() > deadline || demo.try_wait()?.is_some() {
            demo.kill()?;
            return Err("the demo did not start".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // The demo is then well into its first stage.
    std::thread::sleep(Duration::from_secs(1));
    Ok(demo)
}

fn signal(child: &Child, signal: rustix::process::Signal) -> Outcome {
    let pid = rustix::process::Pid::from_child(child);
    Ok(rustix::process::kill_process(pid, signal)?)
}

fn lab(arguments: &[&str]) -> Output {
    Command::new(LAB).args(arguments).stdin(Stdio::null()).output().expect("the program runs")
}

fn success(output: &Output) -> Result<String, Failed> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {said}", output.status).into())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Checks that no namespace and no state of this network exist. Networks of other programs may exist meanwhile.
fn nothing_is_left(network: &str) -> Outcome {
    let of_its_nodes = format!("{network}-");
    for directory in ["/run/netns", testbed::STATE_ROOT] {
        for entry in std::fs::read_dir(directory)? {
            let name = entry?.file_name();
            let text = name.to_string_lossy();
            if text == network || text.starts_with(&of_its_nodes) {
                return Err(format!("{directory} still has {}", name.display()).into());
            }
        }
    }
    Ok(())
}

/// Removes a network when dropped, whatever the result of its test.
struct Guard(String);

impl Drop for Guard {
    fn drop(&mut self) {
        if Path::new(testbed::STATE_ROOT).join(&self.0).exists() {
            // The test has failed already, with its own error.
            let _ = testbed::down(&self.0);
        }
    }
}
