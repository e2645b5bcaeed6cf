//! The packet filter that `[natfw]` enables: what a daemon adopts, repairs and leaves.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use earmark_core::{FilterAction, FilterChange, FilterRule, FilteredPackets, Flow, Prefix};
use earmark_linux::clock::Clock;
use earmark_linux::{PacketFilter, PacketFilterSettings};
use libtest_mimic::Failed;
use rustix::process::Signal;

use crate::host::{Host, Outcome, check, line, until};
use crate::limits::count;

const NATFW: &str = "[[interface]]\nname = \"eth0\"\nbandwidth = \"10Mbit\"\nqueues = \"none\"\n\
    [natfw]\nenabled = true\nfirewall = true\nguard = [\"eth0\"]\n[daemon]\nreconcile = \"200ms\"\n";
const INSIDE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)), 6_000);
const OUTSIDE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2)), 7_000);

fn socket(host: &Host, address: SocketAddr) -> Result<UdpSocket, Failed> {
    Ok(host.namespace.run_in(|| UdpSocket::bind(address))??)
}

/// Whether packets pass within a moment; the first ones may wait for a neighbour.
fn passes(from: &UdpSocket, to: &UdpSocket) -> Result<bool, Failed> {
    to.set_read_timeout(Some(Duration::from_millis(30)))?;
    for _ in 0..10 {
        from.send_to(b"hello", OUTSIDE)?;
        if to.recv(&mut [0; 8]).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes a pinhole as an earlier daemon would.
fn leave_pinhole(router: &Host) -> Outcome {
    let clock = Clock::start();
    let settings = PacketFilterSettings::new(["eth0"]);
    let (mut filter, _) = router.namespace.run_in(|| PacketFilter::open(settings, clock))??;
    let any = Flow::to_range(Prefix::new(OUTSIDE.ip(), 32));
    let flow = Flow { source: Some(INSIDE.ip()), protocol: 17, ..any };
    let packets = FilteredPackets { flow, icmp_type: None };
    let rule = FilterRule { packets, action: FilterAction::Allow, source: None, destination: None };
    let until = clock.now() + Duration::from_secs(600);
    let refused = filter.change(&[FilterChange::Install(rule, until)]);
    check(refused.is_empty(), &format!("{refused:?}"))
}

pub(crate) fn packet_filter_is_adopted_repaired_and_left() -> Outcome {
    let [a, mut r, b] = line()?;
    let (inside, outside) = (socket(&a, INSIDE)?, socket(&b, OUTSIDE)?);
    check(passes(&inside, &outside)?, "nothing is guarded")?;
    r.start(NATFW)?;
    check(!passes(&inside, &outside)?, "guarded")?;
    check(count(&r, "/packet_filter/rules")? == 0, "no rule")?;
    check(r.end(Signal::TERM)? == Some(0), "it ends")?;
    check(!passes(&inside, &outside)?, "guarded without a daemon")?;

    leave_pinhole(&r)?;
    check(passes(&inside, &outside)?, "open")?;
    r.start(NATFW)?;
    check(count(&r, "/packet_filter/adopted")? == 1, "the pinhole is adopted")?;
    // Another program removes the table.
    check(r.namespace.run_in(earmark_linux::nftables::clear)??, "there was one")?;
    until("it is made again", || Ok((count(&r, "/packet_filter/restored")? > 0).then_some(())))?;
    // Whether the pinhole is there, too, is up to the engine.
    let expected = count(&r, "/packet_filter/rules")? == 1;
    check(passes(&inside, &outside)? == expected, "as its rules have it")?;

    check(r.end(Signal::KILL)?.is_none(), "killed")?;
    r.start("")?;
    check(passes(&inside, &outside)?, "settings without a packet filter remove it")?;
    check(!r.namespace.run_in(earmark_linux::nftables::clear)??, "nothing is left")?;
    r.end(Signal::TERM)?;
    r.start(&format!("{NATFW}keep_reservations_on_exit = false\n"))?;
    check(!passes(&inside, &outside)?, "guarded again")?;
    check(r.end(Signal::TERM)? == Some(0), "it ends")?;
    check(passes(&inside, &outside)?, "removed as configured")
}

/// A table of another program keeps the daemon from starting, and stays; nothing else is left in the kernel.
pub(crate) fn foreign_packet_filter_is_an_error() -> Outcome {
    let r = Host::new("r")?;
    let nft = |arguments: &[&str]| -> Result<String, Failed> {
        let output = r.namespace.command("nft")?.args(arguments).output()?;
        check(output.status.success(), &String::from_utf8_lossy(&output.stderr))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    nft(&["add", "table", "inet", "earmark"])?;
    let (status, said) = r.fail_to_start(&r.configure(NATFW)?)?;
    check(status == Some(1) && said.contains("was not made by Earmark"), &said)?;
    check(nft(&["list", "ruleset"])?.contains("table inet earmark"), "left alone")
}
