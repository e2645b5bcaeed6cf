//! A tunnel whose packets have a reservation of their own (RFC 2746). This kernel need not have a driver of tunnels: a program
//! behind tun0 encapsulates.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_linux::link;
use libtest_mimic::Failed;

use crate::host::{ETH0, Host, Outcome, await_carrier, check, line, until};

/// Settings of the tunnel at its entry: what the ledger counts for each packet is the outer header, too.
const ENTRY: &str = "[[interface]]\nname = \"tun0\"\nbandwidth = \"4Mbit\"\nclasses = 16\noverhead = 20\n\
    [[interface.across]]\nto = \"10.0.2.2\"\nprotocol = \"rsvp\"\ntunnel = \"ipip\"\nranges = [\"10.9.0.0/24\"]\n";
const EXIT: &str = "[[interface]]\nname = \"tun0\"\nbandwidth = \"8Mbit\"\nclasses = 16\n\
    [[interface.deaggregate]]\nat = \"10.0.2.2\"\ntunnel = \"ipip\"\n";
const PORT: u16 = 5_001;
/// UDP payload: with its headers a packet of 1 000 octets.
const PAYLOAD: usize = 972;
const RATE: Rate = Rate::from_mbps(2);

/// A tunnel is reserved below it with its bandwidth, so that a flow in it loses nothing beside floods in the tunnel and below.
pub(crate) fn flow_in_a_tunnel_is_reserved_below() -> Outcome {
    let [mut a, mut r, mut b] = line()?;
    let _ends = [
        TunnelEnd::start(&a, "10.0.1.1", "10.0.2.2", "10.9.0.1")?,
        TunnelEnd::start(&b, "10.0.2.2", "10.0.1.1", "10.9.0.2")?,
    ];
    r.start(&format!("{ETH0}{}", ETH0.replace("eth0", "eth1")))?;
    b.start(&format!("{ETH0}{EXIT}"))?;
    a.start(&format!("{}{ENTRY}", ETH0.replace("10Mbit", "100Mbit")))?;

    let to = "10.9.0.2:5001".parse()?;
    let (mut sender, mut receiver) = (a.client()?, b.client()?);
    let listening = receiver.listen(ListenRequest::new(to))?;
    let request = ReservationRequest {
        min_packet: 1_000,
        max_packet: 1_000,
        burst_octets: 16_000,
        ..ReservationRequest::new(to, RATE)
    };
    let sending = sender.sender(request)?;
    // 1 000 octets have 20 more outside.
    await_aggregate(&a, 1, 2_040_000)?;
    until("the router has the tunnel's reservation", || {
        let rows = r.client()?.show_reservations()?.rows;
        let found = rows.iter().find(|row| row.interface.as_deref() == Some("eth1"));
        Ok(found.filter(|row| row.rate_bps == 4_000_000).map(drop))
    })?;
    check(r.client()?.show_sessions()?.rows.len() == 1, "one session below the tunnel")?;

    let lost = lost_in_a_flood(&a, &b)?;
    check(lost == 0, &format!("{lost} of the packets are lost"))?;

    sender.release(sending.application)?;
    receiver.release(listening.application)?;
    await_aggregate(&a, 0, 0)
}

/// Waits until the tunnel has its session, and these flows in it.
fn await_aggregate(entry: &Host, members: u32, need: u64) -> Outcome {
    let expected = (members, Rate::from_bps(need), Rate::from_mbps(4));
    let mut last = None;
    until("the aggregate is as expected", || {
        last = entry.client()?.show_aggregates()?.rows.into_iter().next();
        let row = last.as_ref().ok_or("no aggregate")?;
        Ok(((row.members, row.need_bps, row.granted_bps) == expected).then_some(()))
    })
    .map_err(|error| format!("{}: {last:?}", error.message().unwrap_or_default()).into())
}

/// Sends the flow's packets through the tunnel, beside 20 Mbit/s in the tunnel and 20 Mbit/s below it that share the router's link.
/// Returns how many of the flow's are lost.
fn lost_in_a_flood(a: &Host, b: &Host) -> Result<usize, Failed> {
    const COUNT: usize = 500;
    let bind = |host: &Host, address| host.namespace.run_in(|| UdpSocket::bind(address));
    let sink = bind(b, "10.9.0.2:5001")??;
    sink.set_read_timeout(Some(Duration::from_secs(1)))?;
    let source = bind(a, "10.9.0.1:0")??;
    let flood = bind(a, "10.0.1.1:0")??;
    let _flooded = (bind(b, "10.0.2.2:5009")??, bind(b, "10.9.0.2:5009")??);
    let interval = Duration::from_secs(1) * (PAYLOAD as u32 + 28) * 8 / RATE.as_bps() as u32;
    // The buffer of a socket has room for fewer packets.
    let receiver = std::thread::spawn(move || {
        let mut received = 0;
        while sink.recv(&mut [0; 2_000]).is_ok() {
            received += 1;
        }
        received
    });
    let begin = Instant::now();
    for number in 1..=COUNT as u32 {
        source.send_to(&[1; PAYLOAD], ("10.9.0.2", PORT))?;
        // Ten times the flow's rate.
        for _ in 0..7 {
            flood.send_to(&[2; 1_400], "10.0.2.2:5009")?;
            source.send_to(&[3; 1_400], "10.9.0.2:5009")?;
        }
        std::thread::sleep((begin + interval * number).saturating_duration_since(Instant::now()));
    }
    let received = receiver.join().map_err(|_| "the receiver has panicked")?;
    Ok(COUNT - received)
}

/// The program at one end of a tunnel, which ends with the test.
struct TunnelEnd(Child);

impl TunnelEnd {
    /// Starts the program, and gives tun0 its address.
    fn start(host: &Host, own: &str, other: &str, inner: &str) -> Result<TunnelEnd, Failed> {
        let mut python = host.namespace.command("python3")?;
        python.args(["-c", include_str!("ipip.py"), own, other]).stdout(Stdio::piped());
        let mut end = TunnelEnd(python.spawn()?);
        let mut said = String::new();
        BufReader::new(end.0.stdout.take().ok_or("no output")?).read_line(&mut said)?;
        check(said == "ready\n", &said)?;
        link::add_address(&host.namespace, "tun0", inner.parse()?, 24)?;
        link::set_up(&host.namespace, "tun0", true)?;
        await_carrier(host, "tun0")?;
        Ok(end)
    }
}

impl Drop for TunnelEnd {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}
