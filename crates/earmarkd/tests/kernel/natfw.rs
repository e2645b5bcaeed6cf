//! NATFW NSLP between daemons, over connections: a host outside, a router at the edge of a network, and a host inside.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{Host, Outcome, check, line, until, wait};

/// Settings of interfaces that speak NSIS only.
fn links(names: &[&str]) -> String {
    let of = |name: &&str| {
        format!(
            "[[interface]]\nname = \"{name}\"\nbandwidth = \"10Mbit\"\nclasses = 16\nprotocols = [\"nsis\"]\n"
        )
    };
    names.iter().map(of).collect()
}

/// A host behind a translator exposes a port: it learns its external address and port from the daemon at the edge, which lists
/// them until the release.
pub(crate) fn exposed_port_gets_an_external_address() -> Outcome {
    let [_outside, mut edge, mut inside] = line()?;
    let settings = "[natfw]\nenabled = true\nfirewall = true\nexternal = [\"eth0\"]\n\
                    [natfw.translator]\nports = \"40000-40999\"\n[[natfw.rule]]\ninterfaces = [\"eth1\"]\nwildcards = true\n\
                    longest_lifetime = \"5min\"\n";
    edge.start(&format!("{}{settings}", links(&["eth0", "eth1"])))?;
    let settings = "[natfw]\nenabled = true\nsignaling_destination = \"10.0.1.1\"\n";
    inside.start(&format!("{}{settings}", links(&["eth0"])))?;
    let (status, exposed) = inside.json(&["expose", "5001"])?;
    check(status == Some(0) && exposed["lifetime_s"] == 300, &exposed.to_string())?;
    let external = &exposed["external"];
    let port = external["port"].as_u64().ok_or("a port")?;
    check(external["address"] == "10.0.1.254", &exposed.to_string())?;
    check((40_000..41_000).contains(&port), &exposed.to_string())?;
    for host in [&edge, &inside] {
        let (_, rows) = host.json(&["show", "translations"])?;
        check(&rows[0]["external"] == external, &rows.to_string())?;
        check(rows[0]["internal"]["address"] == "10.0.2.2", &rows.to_string())?;
    }
    let text = edge.earmark(&["show", "translations"])?.stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    check(text.contains("10.0.2.2:5001") && text.contains(&format!("10.0.1.254:{port}")), &text)?;
    let (_, rows) = edge.json(&["show", "pinholes"])?;
    check(rows.as_array().is_some_and(Vec::is_empty), &rows.to_string())?;
    let (_, counters) = edge.json(&["show", "counters"])?;
    check(
        counters["natfw_nslp"]["messages"]["externals"] == 1,
        &counters["natfw_nslp"].to_string(),
    )?;

    let (status, refused) = inside.json(&["expose", "5001", "--deny"])?;
    check(status == Some(3), &refused.to_string())?;
    check(
        refused["hint"].as_str().is_some_and(|hint| hint.contains("--deny")),
        &refused.to_string(),
    )?;
    let (status, _) = inside.json(&["release", &exposed["application"].to_string()])?;
    check(status == Some(0), "released")?;
    until("the edge forgets it", || is_empty(&edge, "translations"))
}

/// Whether packets from the host outside arrive at a port inside within a moment; the first ones may wait for a neighbour.
fn passes(outside: &Host, inside: &Host, port: u16) -> Result<bool, Failed> {
    let bind = |host: &Host, address: [u8; 4], port| {
        host.namespace.run_in(|| UdpSocket::bind(SocketAddr::from((address, port))))?
    };
    let (from, to) = (bind(outside, [10, 0, 1, 1], 0)?, bind(inside, [10, 0, 2, 2], port)?);
    to.set_read_timeout(Some(Duration::from_millis(50)))?;
    for _ in 0..10 {
        from.send_to(b"hello", SocketAddr::from(([10, 0, 2, 2], port)))?;
        if to.recv(&mut [0; 8]).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A firewall guards the interface to the outside: data passes from the time when its path is opened until the release.
pub(crate) fn pinhole_lets_data_through_a_guarded_interface() -> Outcome {
    let [mut outside, mut edge, mut inside] = line()?;
    let settings = "[natfw]\nenabled = true\nfirewall = true\nexternal = [\"eth0\"]\nguard = [\"eth0\"]\n\
                    [[natfw.rule]]\ninterfaces = [\"eth1\"]\nwildcards = true\n\
                    [[natfw.rule]]\nprotocols = [\"udp\"]\nports = \"5000-6000\"\nreserved = true\n";
    edge.start(&format!("{}{settings}", links(&["eth0", "eth1"])))?;
    let settings = "[natfw]\nenabled = true\n";
    outside.start(&format!("{}{settings}", links(&["eth0"])))?;
    let settings = "[natfw]\nenabled = true\nsignaling_destination = \"10.0.1.1\"\n";
    inside.start(&format!("{}{settings}", links(&["eth0"])))?;
    let (status, exposed) = inside.json(&["expose", "5001"])?;
    check(status == Some(0), &exposed.to_string())?;
    check(!passes(&outside, &inside, 5_001)?, "a reservation opens nothing")?;
    let (status, opened) = outside.json(&["open", "--to", "10.0.2.2:5001"])?;
    check(status == Some(0), &opened.to_string())?;
    let (_, rows) = edge.json(&["show", "pinholes"])?;
    let row = &rows[0];
    check(row["installed"] == true && row["stage"] == "established", &rows.to_string())?;
    check(row["source"] == "10.0.1.1" && row["destination_port"] == 5_001, &rows.to_string())?;
    check(passes(&outside, &inside, 5_001)?, "the path is open")?;
    check(!passes(&outside, &inside, 5_002)?, "another port is not")?;

    let (status, _) = outside.json(&["release", "--all"])?;
    check(status == Some(0), "released")?;
    until("the edge forgets it", || is_empty(&edge, "pinholes"))?;
    check(!passes(&outside, &inside, 5_001)?, "the path is closed")?;
    // Without the reservation no rule of the edge matches.
    let (status, _) = inside.json(&["release", "--all"])?;
    check(status == Some(0), "released")?;
    until("the edge forgets the port", || is_empty(&edge, "translations"))?;
    let (status, refused) = outside.json(&["open", "--to", "10.0.2.2:5001"])?;
    check(status == Some(3), &refused.to_string())?;
    check(
        refused["hint"].as_str().is_some_and(|hint| hint.contains("[[natfw.rule]]")),
        &refused.to_string(),
    )
}

/// A path is opened to a host that accepts all data, and held by a command that ends; a port that is not exposed is refused, and
/// so is everything on a host without NATFW NSLP.
pub(crate) fn path_is_opened_and_held() -> Outcome {
    let [mut outside, mut router, mut inside] = line()?;
    let enabled = "[natfw]\nenabled = true\n";
    outside.start(&format!("{}{enabled}", links(&["eth0"])))?;
    router.start(&links(&["eth0", "eth1"]))?;
    inside.start(&format!("{}{enabled}responder = \"any\"\n", links(&["eth0"])))?;
    let (status, opened) = outside.json(&["open", "--to", "10.0.2.2:5001", "--from", ":4000"])?;
    check(status == Some(0) && opened["lifetime_s"] == 1_575, &opened.to_string())?;
    let (_, rows) = outside.json(&["show", "applications"])?;
    check(rows[0]["outcome"]["kind"] == "unverified", &rows.to_string())?;
    check(rows[0]["last"] == "granted along the path for 1575 s", &rows.to_string())?;
    let (status, _) = outside.json(&["release", "--all"])?;
    check(status == Some(0), "released")?;

    let mut command =
        outside.command_line(&["open", "--to", "10.0.2.2:5002", "--hold", "--json"])?;
    let mut held = command.stdout(std::process::Stdio::null()).spawn()?;
    until("the session stands", || {
        let (_, rows) = outside.json(&["show", "applications"])?;
        Ok((rows[0]["outcome"]["kind"] == "unverified").then_some(()))
    })?;
    // The command handles no signal. SIGINT would be ignored where the tests run in the background of a shell.
    kill_process(Pid::from_child(&held), Signal::TERM)?;
    wait(&mut held)?;
    until("the session ends with its command", || is_empty(&outside, "applications"))?;

    inside.end(Signal::TERM)?;
    inside.start(&format!("{}{enabled}", links(&["eth0"])))?;
    let (status, refused) = outside.json(&["open", "--to", "10.0.2.2:5001"])?;
    check(status == Some(3), &refused.to_string())?;
    check(
        refused["hint"].as_str().is_some_and(|hint| hint.contains("earmark expose")),
        &refused.to_string(),
    )?;
    let off = router.earmark(&["open", "--to", "10.0.2.2:5001"])?;
    let text = String::from_utf8_lossy(&off.stderr).into_owned();
    check(off.status.code() == Some(1) && text.contains("enabled = true"), &text)
}

fn is_empty(host: &Host, what: &str) -> Result<Option<()>, Failed> {
    let (_, rows) = host.json(&["show", what])?;
    Ok(rows.as_array().is_some_and(Vec::is_empty).then_some(()))
}
