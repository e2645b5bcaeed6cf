//! NSIS over four hops: h1 -- r1 -- r2 -- r3 -- h2, with a daemon on each.

use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use earmark_linux::link;
use libtest_mimic::Failed;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::host::{Host, Outcome, check, connect_in_row, log, until, wait};

/// Address of the last host.
const FAR: &str = "10.0.4.2";
/// Reservable rate of each link: 7.5 Mbit/s.
const RESERVABLE: u64 = 7_500_000;

/// Five nodes in a row; between the nth and the next one is 10.0.n+1.0/24, with 1 towards the first and 2 towards the last.
pub(crate) struct Row {
    pub(crate) nodes: Vec<Host>,
}

impl Row {
    pub(crate) fn new() -> Result<Row, Failed> {
        let names = ["h1", "r1", "r2", "r3", "h2"];
        let nodes = names.iter().map(|name| Host::new(name)).collect::<Result<Vec<_>, _>>()?;
        connect_in_row(&nodes)?;
        for (place, host) in (0_u8..).zip(&nodes) {
            if (1..4).contains(&place) {
                link::sysctl(&host.namespace, "net.ipv4.ip_forward", "1")?;
            }
            for net in 1..=4_u8 {
                let prefix = format!("10.0.{net}.0/24").parse()?;
                // The node's own links have the numbers of its place and of the next one.
                let gateway = match net {
                    net if net < place => Ipv4Addr::new(10, 0, place, 1),
                    net if net > place + 1 => Ipv4Addr::new(10, 0, place + 1, 2),
                    _ => continue,
                };
                link::add_route(&host.namespace, prefix, gateway.into())?;
            }
        }
        Ok(Row { nodes })
    }

    /// Starts a daemon on each node; `more` returns further settings of a node.
    pub(crate) fn start(&mut self, more: impl Fn(&Host, usize) -> String) -> Outcome {
        for place in 0..self.nodes.len() {
            let more = more(&self.nodes[place], place);
            self.start_one(place, &more)?;
        }
        Ok(())
    }

    fn start_one(&mut self, place: usize, more: &str) -> Outcome {
        let text = self.settings(place, more);
        self.nodes[place].start(&text)
    }

    /// The settings of a node: its links, and `more`.
    fn settings(&self, place: usize, more: &str) -> String {
        let mut text = String::new();
        let last = self.nodes.len() - 1;
        for (name, is_there) in [("left", place > 0), ("right", place < last)] {
            if is_there {
                text += &format!(
                    "[[interface]]\nname = \"{name}\"\nbandwidth = \"10Mbit\"\nclasses = 16\n\
                     protocols = [\"nsis\"]\n"
                );
            }
        }
        text + more
    }

    /// Runs a command on the first host. Returns its exit status and its JSON.
    fn ask(&self, arguments: &[&str]) -> Result<(Option<i32>, Value), Failed> {
        self.nodes[0].json(arguments)
    }

    /// Reserved rate of a link on each node, bits per second; 0 if a node has no link of this name.
    fn held(&self, link: &str) -> Result<Vec<u64>, Failed> {
        let of_one = |host: &Host| {
            let rows = host.client()?.show_links()?.rows;
            let found = rows.iter().find(|row| row.interface == link);
            Ok(found.map_or(0, |row| row.held_bps.as_bps()))
        };
        self.nodes.iter().map(of_one).collect()
    }

    /// Reserved rate of each node but the last, bits per second, for all flows together.
    fn reserved(&self) -> Result<Vec<u64>, Failed> {
        let sum = |host: &Host| {
            let (_, rows) = host.json(&["show", "reservations"])?;
            let rates = rows.as_array().ok_or("rows")?.iter().map(|row| row["rate_bps"].as_u64());
            Ok(rates.map(Option::unwrap_or_default).sum())
        };
        self.nodes[..4].iter().map(sum).collect()
    }
}

/// All five nodes answer with increasing round-trip times, each with its available rate.
pub(crate) fn ping_shows_every_node() -> Outcome {
    let mut row = Row::new()?;
    row.start(|_, _| String::new())?;
    let (status, pong) = row.ask(&["ping", FAR, "--qos"])?;
    check(status == Some(0) && pong["nodes"] == 5, &pong.to_string())?;
    let visits = pong["visits"].as_array().ok_or("visits")?;
    let addresses: Vec<&str> =
        visits.iter().filter_map(|visit| visit["address"].as_str()).collect();
    let expected = ["10.0.1.1", "10.0.1.2", "10.0.2.2", "10.0.3.2", FAR];
    check(addresses == expected, &pong.to_string())?;
    for (place, visit) in visits.iter().enumerate() {
        let [there, back] = ["forward_bps", "reverse_bps"].map(|name| visit[name].as_u64());
        let expected = [
            (place < 4).then_some(RESERVABLE),
            // The last node adds one record only, before it returns the message.
            (1..4).contains(&place).then_some(RESERVABLE),
        ];
        check([there, back] == expected, &format!("{place}: {pong}"))?;
    }
    let trips: Vec<f64> = visits.iter().filter_map(|v| v["round_trip_ms"].as_f64()).collect();
    // Times in messages are whole microseconds.
    let is_further = |pair: &[f64]| pair[1] + 0.003 > pair[0];
    check(trips.len() >= 4 && trips.windows(2).all(is_further), &pong.to_string())?;

    let output = row.nodes[0].earmark(&["ping", FAR, "--count", "3", "--interval", "10ms"])?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(output.status.success() && said.contains("3 sent, 3 returned"), &said)?;
    let (_, states) = row.nodes[2].json(&["show", "routing-state"])?;
    let states = states.as_array().ok_or("rows")?;
    let peers: Vec<&str> = states
        .iter()
        .filter(|row| row["direction"] == "downstream" && row["validity"] == "good")
        .filter_map(|row| row["peer"].as_str())
        .collect();
    check(!peers.is_empty() && peers.iter().all(|peer| *peer == "10.0.3.2"), &format!("{states:?}"))
}

/// The rate is reserved on all four links; more than available is refused by the node without it, and nothing is left behind.
pub(crate) fn datagrams_reserve_and_refuse() -> Outcome {
    let mut row = Row::new()?;
    row.start(|_, _| String::new())?;
    reserve_refuse_release(&row, &[])?;

    // A query changes nothing, and the receiver may be the one that reserves.
    let to = format!("{FAR}:5003");
    let asked = ["reserve", "--protocol", "nsis", "--to", &to, "--rate", "9Mbit", "--query"];
    let (status, offer) = row.ask(&asked)?;
    check(status == Some(0) && offer["rate_bps"] == RESERVABLE, &offer.to_string())?;
    check(row.reserved()? == [0; 4], &format!("{:?}", row.reserved()?))?;
    let (status, listening) = row.nodes[4].json(&["listen", "--protocol", "nsis", "--on", &to])?;
    check(status == Some(0), &listening.to_string())?;
    let invite = ["reserve", "--protocol", "nsis", "--to", &to, "--rate", "1Mbit", "--by-receiver"];
    let (status, outcome) = row.ask(&invite)?;
    check(status == Some(0), &outcome.to_string())?;
    check(row.reserved()? == [1_000_000; 4], &format!("{:?}", row.reserved()?))
}

fn reserve_refuse_release(row: &Row, how: &[&str]) -> Outcome {
    let to = format!("{FAR}:5001");
    let reserve = ["reserve", "--protocol", "nsis", "--to", &to, "--rate", "2Mbit"];
    let (status, first) = row.ask(&[&reserve[..], how].concat())?;
    check(status == Some(0) && first["outcome"]["kind"] == "whole", &first.to_string())?;
    check(first["rate_bps"] == 2_000_000, &first.to_string())?;
    check(row.reserved()? == [2_000_000; 4], &format!("{:?}", row.reserved()?))?;

    let (status, second) = row.ask(&[&reserve[..5], &["--rate", "6Mbit"], how].concat())?;
    check(status == Some(3) && second["outcome"]["kind"] == "refused", &second.to_string())?;
    check(row.reserved()? == [2_000_000; 4], &format!("{:?}", row.reserved()?))?;

    let number = first["application"].to_string();
    let (status, released) = row.ask(&["release", &number])?;
    check(status == Some(0), &released.to_string())?;
    until("nothing is reserved", || Ok((row.reserved()? == [0; 4]).then_some(())))
}

/// The first session opens an association for each hop, and the next session uses it.
pub(crate) fn connections_reserve_and_are_shared() -> Outcome {
    let mut row = Row::new()?;
    row.start(|_, _| String::new())?;
    reserve_refuse_release(&row, &["--reliable"])?;
    assert_associations(&row, "tcp")?;
    let to = format!("{FAR}:5002");
    let again = ["reserve", "--protocol", "nsis", "--to", &to, "--rate", "1Mbit", "--reliable"];
    let (status, second) = row.ask(&again)?;
    check(status == Some(0), &second.to_string())?;
    assert_associations(&row, "tcp")?;
    let (status, pong) = row.ask(&["ping", FAR, "--reliable"])?;
    check(status == Some(0) && pong["nodes"] == 5, &pong.to_string())?;
    assert_associations(&row, "tcp")
}

/// Accepted names reserve over TLS; a node that is not on the list of the next one gets nothing.
pub(crate) fn tls_reserves_for_those_who_are_let_in() -> Outcome {
    let authority = Authority::new()?;
    let names = ["h1", "r1", "r2", "r3", "h2"];
    let mut row = Row::new()?;
    row.start(|host, place| {
        let neighbors = names.iter().enumerate().filter(|(other, _)| other.abs_diff(place) == 1);
        let peers: Vec<&str> = neighbors.map(|(_, name)| *name).collect();
        authority.certify(host, names[place], &peers).expect("certified")
    })?;
    reserve_refuse_release(&row, &["--secure"])?;
    assert_associations(&row, "tls")?;
    let (status, pong) = row.ask(&["ping", FAR, "--secure"])?;
    check(status == Some(0) && pong["nodes"] == 5, &pong.to_string())?;

    // r3 removes r2 from its list, so that r2 cannot open a new connection to it.
    let mut row = Row::new()?;
    row.start(|host, place| {
        let peers: &[&str] = match place {
            0 => &["r1"],
            1 => &["h1", "r2"],
            2 => &["r1", "r3"],
            3 => &["h2"],
            _ => &["r3"],
        };
        authority.certify(host, names[place], peers).expect("certified")
    })?;
    let to = format!("{FAR}:5001");
    let reserve = ["reserve", "--protocol", "nsis", "--to", &to, "--rate", "2Mbit", "--secure"];
    let (status, outcome) = row.ask(&[&reserve[..], &["--timeout", "5s"]].concat())?;
    check(status == Some(3) || status == Some(4), &outcome.to_string())?;
    let (_, counters) = row.nodes[3].json(&["show", "counters"])?;
    let refused = counters["streams"]["not_authenticated"].as_u64();
    check(refused >= Some(1), &counters["streams"].to_string())?;
    until("nothing stays reserved", || Ok((row.reserved()? == [0; 4]).then_some(())))
}

/// The receiver reserves the reverse direction as well, for each incoming session: every link has the reservation of the data
/// that leaves through it, and the release of one session ends the other.
pub(crate) fn a_receiver_reserves_the_way_back() -> Outcome {
    let mut row = Row::new()?;
    row.start(|_, _| String::new())?;
    let to = format!("{FAR}:5001");
    let listen = ["listen", "--protocol", "nsis", "--on", &to, "--back", "1Mbit"];
    let (status, listening) = row.nodes[4].json(&listen)?;
    check(status == Some(0), &listening.to_string())?;
    let reserve = ["reserve", "--protocol", "nsis", "--to", &to, "--rate", "2Mbit"];
    let (status, outcome) = row.ask(&reserve)?;
    check(status == Some(0) && outcome["rate_bps"] == 2_000_000, &outcome.to_string())?;
    let held = |there: &[u64], back: &[u64]| -> Outcome {
        until("both ways are as they should be", || {
            let found = (row.held("right")?, row.held("left")?);
            Ok((found == (there.to_vec(), back.to_vec())).then_some(()))
        })
    };
    held(
        &[2_000_000, 2_000_000, 2_000_000, 2_000_000, 0],
        &[0, 1_000_000, 1_000_000, 1_000_000, 1_000_000],
    )?;
    let (status, _) = row.ask(&["release", &outcome["application"].to_string()])?;
    check(status == Some(0), "released")?;
    held(&[0; 5], &[0; 5])
}

/// The last node is stopped with connections open: messages to it are queued, and requests of others to the node before it are
/// served at once. When it continues, all messages are handled.
pub(crate) fn a_neighbor_that_stands_still_hinders_nobody() -> Outcome {
    let mut row = Row::new()?;
    row.start(|_, _| String::new())?;
    let reserve = |to: &str, more: &[&str]| {
        let start = ["reserve", "--protocol", "nsis", "--reliable", "--rate", "1Mbit", "--to", to];
        row.ask(&[&start[..], more].concat())
    };
    let (status, first) = reserve(&format!("{FAR}:5001"), &[])?;
    check(status == Some(0), &first.to_string())?;
    let daemon = Pid::from_child(row.nodes[4].daemon.as_ref().ok_or("no daemon")?);
    kill_process(daemon, Signal::STOP)?;
    for port in 5_002..5_005 {
        let (status, outcome) = reserve(&format!("{FAR}:{port}"), &["--timeout", "1s"])?;
        check(status == Some(4), &outcome.to_string())?;
        let (status, outcome) = reserve(&format!("10.0.3.2:{port}"), &["--timeout", "1s"])?;
        check(status == Some(0), &outcome.to_string())?;
    }
    let (status, pong) = row.ask(&["ping", "10.0.3.2", "--reliable"])?;
    check(status == Some(0) && pong["nodes"] == 4, &pong.to_string())?;
    kill_process(daemon, Signal::CONT)?;
    let (status, outcome) = reserve(&format!("{FAR}:5006"), &[])?;
    check(status == Some(0), &outcome.to_string())
}

/// Settings with frequent refreshes for the next test.
const OFTEN: &str = "[nsis]\nrefresh = \"1s\"\nvalidity = \"2s\"\n";

/// The daemon in the middle dies. Its neighbors find each other across it and keep the reservation alive; a restarted daemon is
/// found and reserves the rate again.
pub(crate) fn a_daemon_that_comes_back_is_found() -> Outcome {
    let mut row = Row::new()?;
    row.start(|_, _| OFTEN.to_owned())?;
    let to = format!("{FAR}:5001");
    let reserve = ["reserve", "--protocol", "nsis", "--to", &to, "--rate", "2Mbit"];
    let (status, outcome) = row.ask(&reserve)?;
    check(status == Some(0), &outcome.to_string())?;
    check(row.reserved()? == [2_000_000; 4], &format!("{:?}", row.reserved()?))?;

    row.nodes[2].end(Signal::KILL)?;
    let peers = |place: usize, direction: &str| -> Result<Vec<String>, Failed> {
        let (_, rows) = row.nodes[place].json(&["show", "routing-state"])?;
        let rows = rows.as_array().ok_or("rows")?.iter();
        let good = rows.filter(|row| row["direction"] == direction && row["validity"] == "good");
        Ok(good.filter_map(|row| Some(row["peer"].as_str()?.to_owned())).collect())
    };
    until("r1 finds r3", || Ok((peers(1, "downstream")? == ["10.0.3.2"]).then_some(())))?;
    // Longer than the lifetime of state that is not refreshed.
    std::thread::sleep(Duration::from_secs(8));
    for place in [0, 1, 3] {
        let (_, rows) = row.nodes[place].json(&["show", "reservations"])?;
        check(rows[0]["rate_bps"] == 2_000_000, &format!("{place}: {rows}"))?;
    }

    row.start_one(2, OFTEN)?;
    until("r2 has it again", || Ok((row.reserved()? == [2_000_000; 4]).then_some(())))?;
    let (status, _) = row.ask(&["release", &outcome["application"].to_string()])?;
    check(status == Some(0), "released")?;
    until("nothing is reserved", || Ok((row.reserved()? == [0; 4]).then_some(())))
}

/// Settings change while a reservation exists: rules and limits apply to later requests, and settings that need a restart are
/// logged.
pub(crate) fn settings_of_nsis_change() -> Outcome {
    let mut row = Row::new()?;
    row.start(|_, _| String::new())?;
    let reserve = |port: u16, rate: &str| {
        let to = format!("{FAR}:{port}");
        row.ask(&["reserve", "--protocol", "nsis", "--to", &to, "--rate", rate])
    };
    let (status, outcome) = reserve(5_001, "2Mbit")?;
    check(status == Some(0), &outcome.to_string())?;
    let renew = |text: &str| -> Outcome {
        row.nodes[1].configure(&row.settings(1, text))?;
        let daemon = row.nodes[1].daemon.as_ref().ok_or("no daemon")?;
        Ok(kill_process(Pid::from_child(daemon), Signal::HUP)?)
    };
    renew(
        "[nsis]\nlevel = 3\nhold = \"7s\"\n[[nsis.rule]]\nto = \"10.0.4.0/24\"\ntotal = \"3Mbit\"\n",
    )?;
    until("the rule counts what stands", || {
        let (status, outcome) = reserve(5_002, "2Mbit")?;
        if status == Some(0) {
            row.ask(&["release", &outcome["application"].to_string()])?;
        }
        Ok((status == Some(3)).then_some(()))
    })?;
    let (status, outcome) = reserve(5_003, "1Mbit")?;
    check(status == Some(0), &outcome.to_string())?;
    renew("[[nsis.rule]]\nrefuse = true\n")?;
    until("the rule refuses", || Ok((reserve(5_004, "64kbit")?.0 == Some(3)).then_some(())))?;
    until("what stands stays", || Ok((row.reserved()? == [3_000_000; 4]).then_some(())))?;
    let mut daemon = row.nodes[1].daemon.take().ok_or("no daemon")?;
    kill_process(Pid::from_child(&daemon), Signal::TERM)?;
    check(wait(&mut daemon)? == Some(0), "status 0")?;
    let said = log(&mut daemon);
    let named = ["restart of the daemon: nsis.level", "restart of the daemon: nsis.hold"];
    check(named.iter().all(|words| said.contains(words)), &said)
}

/// Checks that each node has one association of this kind with each of its neighbors.
fn assert_associations(row: &Row, transport: &str) -> Outcome {
    for (place, host) in row.nodes.iter().enumerate() {
        let (_, found) = host.json(&["show", "associations"])?;
        let rows = found.as_array().ok_or("rows")?;
        let expected = if place == 0 || place == 4 { 1 } else { 2 };
        let open =
            rows.iter().filter(|row| row["stage"] == "open" && row["transport"] == transport);
        check(open.count() == expected && rows.len() == expected, &format!("{place}: {found}"))?;
    }
    Ok(())
}

/// The authority that all five nodes trust.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Result<Authority, Failed> {
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Authority(CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?))
    }

    /// Writes a node's key and certificates. Returns the settings that name them.
    fn certify(&self, host: &Host, name: &str, peers: &[&str]) -> Result<String, Failed> {
        let key = KeyPair::generate()?;
        let certificate =
            CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &self.0)?;
        let mut text = format!("[nsis.tls]\npeers = {peers:?}\n");
        for (setting, pem) in [
            ("key", key.serialize_pem()),
            ("certificate", certificate.pem()),
            ("authorities", self.0.pem()),
        ] {
            let path = host.directory.join(setting);
            std::fs::write(&path, pem)?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            text += &format!("{setting} = {path:?}\n");
        }
        Ok(text)
    }
}
