//! OSPF adjacency beside a flood: two BIRDs, one on each router.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use earmark_core::Rate;
use earmark_lab::traffic::Shape;
use earmark_scenario::topology::DEMO;
use earmark_testkit::wait::wait_for;
use libtest_mimic::Failed;

use crate::Outcome;
use crate::classes::{self, CONTROL, Class, SIGNALLING};
use crate::net::{Net, REFRESH};
use crate::stream::{FLOOD, Stream, loss, watch};

/// Debian's path of BIRD, which may be missing from PATH.
const BIRD: &str = "/usr/sbin/bird";
const BIRDC: &str = "/usr/sbin/birdc";
/// Program that ends BIRD with this process, however that ends.
const SETPRIV: &str = "setpriv";

/// Routers, and their interfaces on the core link.
const ROUTERS: [(&str, &str); 2] = [("r1", "eth1"), ("r2", "eth0")];
/// OSPFv2 and OSPFv3, as named in the configuration.
const INSTANCES: [&str; 2] = ["ospf4", "ospf6"];
const HELLO: Duration = Duration::from_secs(1);
const DEAD: Duration = Duration::from_secs(4);
/// Duration of the flood.
const FLOODED: Duration = Duration::from_secs(3 * DEAD.as_secs() + 1);
/// Timeout until an adjacency is up, and until it breaks without protection.
const TIMEOUT: Duration = Duration::from_secs(40);

/// DSCP of class selector 6, network control.
const CS6: u32 = 48;
/// Rate of a flood: two in each direction fill the links of the hosts, and five times the core link.
const RATE: Rate = Rate::from_mbps(25);
const HOST_LINK: &str = "40Mbit";
/// Rate of forwarded control traffic, 1 % of the core link, bits per second.
const CONTROL_RATE: u64 = 100_000;
/// Burst of forwarded control traffic, as a time at this rate.
const CONTROL_BURST: Duration = Duration::from_millis(250);

/// Returns the reason why BIRD cannot be used, if so.
pub(crate) fn obstacle() -> Option<String> {
    let is_there = |program: &&str| {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok()
    };
    let missing = [BIRD, BIRDC, SETPRIV, "tc"].into_iter().find(|program| !is_there(program))?;
    Some(format!("{missing} is not installed"))
}

/// Between routers with Earmark's queues the adjacencies of OSPFv2 and OSPFv3 stay Full while floods fill every link
/// in both directions, half of them marked as network control. Between the same routers with links of the same rate
/// alone, the same floods break an adjacency.
pub(crate) fn adjacency_survives_a_flood() -> Outcome {
    let net = up("ospf", "")?;
    let birds = Birds::start(&net, "ospf")?;
    birds.await_full()?;
    let changes = birds.state_changes()?;
    assert!(changes.iter().all(|&count| count > 0), "BIRD logs no changes of state");
    let before = counters(&net)?;

    let floods = start_floods(&net)?;
    let begun = watch(Duration::from_millis(300));
    let started = Instant::now();
    while started.elapsed() < FLOODED {
        std::thread::sleep(HELLO / 2);
        let full = birds.are_full()?;
        assert!(full, "{:?} into the flood: {}", started.elapsed(), birds.neighbors()?);
    }
    let after = counters(&net)?;
    for flood in floods {
        let lost = loss(&flood.stop()?[0], begun, FLOODED);
        assert!(lost > 0.3, "the core link is not full: a flood lost {lost}");
    }
    assert_eq!(birds.state_changes()?, changes, "neighbors have changed their state");
    assert!(birds.are_full()?);
    for ((before, after), (router, _)) in before.into_iter().zip(after).zip(ROUTERS) {
        let [hellos, marked] = [0, 1].map(|class: usize| Class {
            octets: after[class].octets - before[class].octets,
            packets: after[class].packets - before[class].packets,
            ..after[class]
        });
        // Each version sends a hello a second, and some updates; the flood would be tens of thousands.
        let sent = 2 * (FLOODED - HELLO).as_secs();
        let signalling = u64::from(hellos.packets);
        assert!((sent..10 * sent).contains(&signalling), "{router}: {hellos:?} as signalling");
        let most = CONTROL_RATE * (FLOODED + CONTROL_BURST * 8).as_millis() as u64 / 8_000; // a minute
        assert!((1..most).contains(&marked.octets), "{router}: {marked:?} as control traffic");
    }
    drop((birds, net));
    floods_break_it_without_queues()
}

/// Without Earmark's queues, hellos are delayed and lost in one queue with all other traffic.
fn floods_break_it_without_queues() -> Outcome {
    let net = up("ospf-plain", "queues = \"none\"\n")?;
    for (router, interface) in ROUTERS {
        // The limit counts packets: a queue that counts octets may have room for a hello and none for a packet of the
        // flood.
        for qdisc in [
            "root handle 1: tbf rate 10mbit burst 5kb limit 1mb",
            "parent 1: handle 2: pfifo limit 50",
        ] {
            let mut tc = net.namespace(router).command("tc")?;
            tc.args(["qdisc", "add", "dev", interface]).args(qdisc.split(' '));
            let status = tc.status()?;
            assert!(status.success(), "tc {qdisc}: {status}");
        }
    }
    let birds = Birds::start(&net, "ospf-plain")?;
    birds.await_full()?;
    let floods = start_floods(&net)?;
    wait_for("the flood breaks an adjacency", TIMEOUT, || Ok((!birds.are_full()?).then_some(())))?;
    floods.into_iter().try_for_each(|flood| flood.stop().map(drop))
}

/// Builds the demo's network with IPv6, and with slower links of the hosts.
fn up(name: &str, interface: &str) -> Result<Net, Failed> {
    let topology = DEMO.replace("100Mbit", HOST_LINK);
    assert_ne!(topology, DEMO);
    Net::with(&format!("ipv6 = true\n{topology}"), name, REFRESH, |options| {
        options.settings.interface = interface.to_owned();
    })
}

/// Starts floods, unmarked and marked, in both directions.
fn start_floods(net: &Net) -> Result<Vec<Stream>, Failed> {
    let shape = Shape { rate: RATE, ..FLOOD };
    let mut floods = Vec::new();
    for (from, to) in [("h1", "h2"), ("h2", "h1")] {
        for (dscp, port) in [(0, 5_009), (CS6, 5_010)] {
            floods.push(Stream::marked_flood(net, (shape, dscp), from, (to, port), true)?);
        }
    }
    Ok(floods)
}

/// Returns the counters of each router towards the other: signalling, and forwarded control traffic.
fn counters(net: &Net) -> Result<Vec<[Class; 2]>, Failed> {
    let of_router = |(router, interface)| {
        let index = net.interface(router, interface)?.0;
        let class = |minor| classes::fixed(net.namespace(router), index, minor);
        Ok([class(SIGNALLING)?, class(CONTROL)?])
    };
    ROUTERS.into_iter().map(of_router).collect()
}

/// A BIRD on each router, killed when dropped. They exchange no routes, neither with each other nor with the kernel.
struct Birds {
    directory: PathBuf,
    children: Vec<Child>,
}

impl Birds {
    fn start(net: &Net, name: &str) -> Result<Birds, Failed> {
        let directory = std::env::temp_dir().join(format!("earmark-{name}-{}", std::process::id()));
        fs::create_dir(&directory)?;
        let mut birds = Birds { directory, children: Vec::new() };
        for (number, (router, interface)) in (1..).zip(ROUTERS) {
            let file = |ending: &str| birds.directory.join(format!("{router}.{ending}"));
            let (log, socket) = (file("log"), file("sock"));
            fs::write(file("conf"), configuration(number, interface, &log))?;
            let mut command = net.namespace(router).command(SETPRIV)?;
            command.args(["--pdeathsig", "KILL", BIRD, "-f", "-c"]).arg(file("conf"));
            command.arg("-s").arg(&socket).arg("-P").arg(file("pid"));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            birds.children.push(command.spawn()?);
            wait_for("BIRD serves", TIMEOUT, || Ok(socket.exists().then_some(())))?;
        }
        Ok(birds)
    }

    fn await_full(&self) -> Outcome {
        let full = wait_for("", TIMEOUT, || Ok(self.are_full()?.then_some(())));
        full.or_else(|_| Err(format!("no adjacency:\n{}", self.neighbors()?).into()))
    }

    /// Returns whether each router has a Full neighbor, in both versions.
    fn are_full(&self) -> Result<bool, Failed> {
        let neighbors = self.neighbors()?;
        Ok(neighbors.matches("Full/").count() == ROUTERS.len() * INSTANCES.len())
    }

    /// Returns the neighbor listings of all routers.
    fn neighbors(&self) -> Result<String, Failed> {
        let mut text = String::new();
        for (router, _) in ROUTERS {
            for instance in INSTANCES {
                let mut command = Command::new(BIRDC);
                command.arg("-s").arg(self.directory.join(format!("{router}.sock")));
                let output = command.args(["show", "ospf", "neighbors", instance]).output()?;
                text += &format!("{router}: {}", String::from_utf8_lossy(&output.stdout));
            }
        }
        Ok(text)
    }

    /// Returns the number of state changes of the neighbor, by router.
    fn state_changes(&self) -> Result<Vec<usize>, Failed> {
        let count = |(router, _)| {
            let log = fs::read_to_string(self.directory.join(format!("{router}.log")))?;
            Ok(log.matches("changed state from").count())
        };
        ROUTERS.into_iter().map(count).collect()
    }
}

impl Drop for Birds {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Both fail only if the process has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("cannot remove {}: {error}", self.directory.display());
        }
    }
}

/// Returns a configuration with OSPFv2 and OSPFv3 on one interface, and without the kernel's tables.
fn configuration(number: u8, interface: &str, log: &Path) -> String {
    let log = log.display();
    let (hello, dead) = (HELLO.as_secs(), DEAD.as_secs());
    let instance = |name: &str, version: &str, channel: &str| {
        format!(
            "protocol ospf {version} {name} {{\n  debug {{ events }};\n  {channel} {{ import none; export none; }};\n  \
             area 0 {{ interface \"{interface}\" {{ type ptp; hello {hello}; dead {dead}; }}; }};\n}}\n"
        )
    };
    let [ospf4, ospf6] = INSTANCES;
    format!(
        "log \"{log}\" all;\nrouter id 192.0.2.{number};\nprotocol device {{ scan time 1; }}\n{}{}",
        instance(ospf4, "v2", "ipv4"),
        instance(ospf6, "v3", "ipv6")
    )
}
