//! Commands in README.md under "Using it", run in order between real daemons, beside a flood.
//!
//! Each command has to end as the README shows. Each flow that a command reserves carries a stream from then on, and
//! no stream may lose a packet while later commands reserve for the same flow and for others.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use earmark_core::{Rate, Time};
use earmark_lab::traffic::{self, Shape};
use earmark_scenario::topology::DEMO;
use earmark_testkit::wait::wait_for;
use earmarkd::config::Config;
use libtest_mimic::Failed;

use crate::Outcome;
use crate::net::{Net, REFRESH, SLACK};
use crate::stream::{STREAM, Stream, loss, watch};

/// Name under which this program is the `earmark` command, whose `main` is one call of [`earmark::cli::main`].
pub(crate) const COMMAND: &str = "earmark";
const SECTION: &str = "\n## Using it\n";
const NO_SECTION: &str = "README.md has no section \"Using it\"";
const NODES: [&str; 4] = ["h1", "r1", "r2", "h2"];
/// Share of its reserved rate that a stream sends, percent.
const SHARE: u64 = 97;
/// First port of streams without a fixed source port.
const SOURCE_PORTS: u16 = 40_000;
/// Timeout longer than that of any command.
const COMMAND_WITHIN: Duration = Duration::from_secs(15);
/// Largest loss that counts as an effect of a busy machine.
const TOLERATED: f64 = 0.002;

/// A command of the README.
#[derive(Debug)]
struct Shown {
    node: &'static str,
    /// Arguments after `earmark`.
    arguments: Vec<String>,
    /// Output as shown; empty if the README leaves it out.
    output: String,
}

/// Output of a command, and its exit status.
#[derive(Debug)]
struct Ended {
    status: Option<i32>,
    output: String,
}

/// A stream that must not be affected by later commands.
struct Watched {
    what: String,
    /// Whether its flow is reserved on the whole path.
    whole: bool,
    ports: [u16; 2],
    to: IpAddr,
    since: Time,
    stream: Stream,
}

/// Returns whether this process runs as the `earmark` command.
pub(crate) fn is_command() -> bool {
    std::env::args_os().next().is_some_and(|name| name == COMMAND)
}

/// Runs the commands of the README on the network of the demo.
pub(crate) fn commands_have_the_outcomes_shown() -> Outcome {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md"))?;
    let commands = commands_of(&text)?;
    check_configuration(&text)?;
    let net = Net::up(DEMO, "readme", REFRESH)?;
    let floods = [Stream::flood(&net, "h1", "h2", true)?, Stream::flood(&net, "h2", "h1", true)?];
    let begun = watch(Duration::from_millis(300));

    let mut watched: Vec<Watched> = Vec::new();
    for shown in &commands {
        let ended = play(&net, shown)?;
        if shown.arguments[0] == "reserve" && ended.status == Some(0) {
            let whole = ended.output.contains("\n  reserved on the whole path");
            start_streams(&net, shown, whole, &mut watched)?;
        }
    }
    watch(Duration::from_secs(1));

    let length = |since: Time| traffic::now().since(since) - Duration::from_millis(100);
    let flooded = length(begun);
    let spans: Vec<Duration> = watched.iter().map(|stream| length(stream.since)).collect();
    let mut lost = Vec::new();
    for (watched, span) in watched.into_iter().zip(spans) {
        let heard = watched.stream.stop()?;
        lost.push((watched.what, watched.whole, loss(&heard[0], watched.since, span)));
    }
    for flood in floods {
        let lost = loss(&flood.stop()?[0], begun, flooded);
        assert!(lost > 0.3, "the link is not full: a flood lost {lost}");
    }
    // The four protocols reserve a flow each, and one of them the reverse flow as well; one flow has a reservation
    // on a part of its path only.
    let (whole, part): (Vec<_>, Vec<_>) = lost.iter().partition(|(_, whole, _)| *whole);
    assert!(whole.len() >= 4 && !part.is_empty(), "{lost:?}");
    assert!(whole.iter().all(|(_, _, lost)| *lost <= TOLERATED), "reserved streams lost: {lost:?}");
    assert!(part.iter().all(|(_, _, lost)| *lost > 0.3), "best effort lost nothing: {lost:?}");
    Ok(())
}

/// Returns the commands of the section, from all prompts with a node's name.
fn commands_of(readme: &str) -> Result<Vec<Shown>, Failed> {
    let (_, section) = readme.split_once(SECTION).ok_or(NO_SECTION)?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut commands: Vec<Shown> = Vec::new();
    // Set while the following lines are output of the last command.
    let (mut console, mut ours) = (false, false);
    for line in section.lines() {
        if let Some(language) = line.strip_prefix("```") {
            (console, ours) = (language == "console", false);
            continue;
        }
        if !console {
            continue;
        }
        let prompt = NODES
            .into_iter()
            .find_map(|node| Some((node, line.strip_prefix(node)?.strip_prefix("$ ")?)));
        if let Some((node, command)) = prompt {
            let mut words = command.split_whitespace().take_while(|word| !word.starts_with('#'));
            if words.next() != Some(COMMAND) {
                return Err(format!("README.md shows a command of another program: {line}").into());
            }
            let arguments = words.map(str::to_owned).collect();
            commands.push(Shown { node, arguments, output: String::new() });
            ours = true;
        } else if line.is_empty() || line.starts_with("# ") {
            ours = false;
        } else if let Some(last) = commands.last_mut().filter(|_| ours) {
            last.output += line;
            last.output.push('\n');
        } else {
            return Err(format!("README.md shows output of no command: {line}").into());
        }
    }
    for wanted in ["rsvp", "boomerang", "yessir", "nsis"] {
        let reserves = |shown: &Shown| {
            let protocol = shown.value("--protocol").unwrap_or("rsvp");
            shown.arguments[0] == "reserve" && protocol == wanted
        };
        if !commands.iter().any(reserves) {
            return Err(format!("README.md shows no reservation by {wanted}").into());
        }
    }
    Ok(commands)
}

/// The daemon parses the configuration in the README.
fn check_configuration(readme: &str) -> Outcome {
    let (_, section) = readme.split_once(SECTION).ok_or(NO_SECTION)?;
    let (_, toml) = section.split_once("\n```toml\n").ok_or("README.md shows no configuration")?;
    let toml = toml.split("```").next().unwrap_or_default();
    let config = Config::parse(toml, Path::new("r1.toml"))?;
    if config.interfaces.is_empty() {
        return Err("the configuration that README.md shows has no interface".into());
    }
    Ok(())
}

impl Shown {
    /// Returns the value of an option.
    fn value(&self, option: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|argument| argument == option)?;
        self.arguments.get(at + 1).map(String::as_str)
    }

    /// Returns the exit status that the shown output implies.
    fn status(&self) -> i32 {
        if self.output.starts_with("refused") { 3 } else { 0 }
    }
}

/// Runs a command on its node. A listing may take a moment until it equals the shown one.
fn play(net: &Net, shown: &Shown) -> Result<Ended, Failed> {
    let within = if shown.arguments[0] == "show" { SLACK * 2 } else { Duration::ZERO };
    let mut last = None;
    let is_as_shown = |ended: &Ended| {
        let silent = shown.output.is_empty();
        ended.status == Some(shown.status())
            && (silent || normalized(&ended.output) == normalized(&shown.output))
    };
    let played = wait_for("", within, || {
        let ended = run(net, shown)?;
        if is_as_shown(&ended) {
            return Ok(Some(ended));
        }
        last = Some(ended);
        Ok(None)
    });
    played.map_err(|error| match last {
        Some(Ended { status, output }) => {
            let Shown { node, arguments, output: expected } = shown;
            let command = arguments.join(" ");
            format!("{node}$ earmark {command}\nended with {status:?}:\n{output}\nREADME.md shows:\n{expected}").into()
        }
        None => error,
    })
}

fn run(net: &Net, shown: &Shown) -> Result<Ended, Failed> {
    let mut command = net.namespace(shown.node).command(std::env::current_exe()?)?;
    command.arg0(COMMAND).arg("--control").arg(net.control(shown.node)).args(&shown.arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let status = wait_for("the command ends", COMMAND_WITHIN, || Ok(child.try_wait()?));
    if status.is_err() {
        // The process may have ended by now.
        let _ = child.kill();
        let _ = child.wait();
    }
    let mut output = String::new();
    if let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) {
        stdout.read_to_string(&mut output)?;
        stderr.read_to_string(&mut output)?;
    }
    Ok(Ended { status: status?.code(), output })
}

/// Returns the words of an output without run-dependent parts: durations, link-local addresses, and column widths.
fn normalized(output: &str) -> Vec<String> {
    let is_border = |word: &str| word.chars().all(|c| ('\u{2500}'..='\u{257f}').contains(&c));
    let words: Vec<&str> =
        output.split_whitespace().filter(|word| !is_border(word) || *word == "┆").collect();
    let mut kept: Vec<String> = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let unit = words.get(place + 1).map(|next| next.trim_end_matches([';', ':', ',']));
        let is_time = word.parse::<f64>().is_ok()
            && unit.is_some_and(|unit| ["us", "ms", "s"].contains(&unit));
        kept.push(match word {
            _ if is_time => "TIME".to_owned(),
            word if word.starts_with("fe80::") => "LINK-LOCAL".to_owned(),
            word => (*word).to_owned(),
        });
        // The unit of a duration may differ, too.
        if place > 0 && kept[kept.len() - 2] == "TIME" {
            kept.pop();
        }
    }
    kept
}

/// Starts a stream for each flow that a command has reserved, unless the flow already has one.
fn start_streams(net: &Net, shown: &Shown, whole: bool, watched: &mut Vec<Watched>) -> Outcome {
    let to: SocketAddr = shown.value("--to").ok_or("`reserve` has no --to")?.parse()?;
    let from: Option<SocketAddr> = shown.value("--from").map(str::parse).transpose()?;
    let next = SOURCE_PORTS + watched.len() as u16; // few streams
    let near = from.map_or(next, |from| from.port());
    let sender = net.address("h1", true);
    let forward = shown.value("--rate").or(shown.value("--forward"));
    let ways = [
        (forward, "h1", "h2", [near, to.port()], to.ip()),
        (shown.value("--reverse"), "h2", "h1", [to.port(), next], sender),
    ];
    for (rate, from, at, ports, to) in ways {
        let Some(rate) = rate else { continue };
        let has_one = |other: &Watched| {
            let open = other.ports[0] >= SOURCE_PORTS && ports[0] >= SOURCE_PORTS;
            other.to == to && other.ports[1] == ports[1] && (open || other.ports[0] == ports[0])
        };
        if watched.iter().any(has_one) {
            continue;
        }
        let rate = Rate::from_bps(rate.parse::<Rate>()?.as_bps() * SHARE / 100);
        let stream = Stream::shaped(net, Shape { rate, ..STREAM }, ports, from, to, &[at])?;
        let what = format!("{from}$ {}", shown.arguments.join(" "));
        watched.push(Watched { what, whole, ports, to, since: traffic::now(), stream });
    }
    Ok(())
}
