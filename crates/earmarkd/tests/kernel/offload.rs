//! Sessions of Boomerang that the kernel handles without waking the daemon.

use earmark_core::Rate;
use earmark_linux::link;
use libtest_mimic::Failed;
use rustix::process::Signal;

use crate::host::{ETH0, Host, Outcome, check, line, until};

/// The far end runs no daemon. The router's daemon gets the message that sets up the session and few others until the session
/// ends, and counts all refreshes that the kernel forwarded.
pub(crate) fn the_kernel_refreshes_loops_of_boomerang() -> Outcome {
    let [mut a, mut r, b] = line()?;
    a.start(&format!("[boomerang]\nrefresh = \"2s\"\n{ETH0}"))?;
    r.start(&format!("[boomerang]\nkernel = true\n{ETH0}{}", ETH0.replace("eth0", "eth1")))?;
    let flow = ["--from", "10.0.1.1:4000", "--to", "10.0.2.2:5001"];
    let rates = ["--forward", "2Mbit", "--reverse", "1Mbit"];
    let output = a.earmark(
        &[&["reserve", "--partial", "--protocol", "boomerang"], &flow[..], &rates].concat(),
    )?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(output.status.code() == Some(0), &said)?;
    let held = |r: &Host| -> Result<Vec<Rate>, Failed> {
        Ok(r.client()?.show_links()?.rows.iter().map(|link| link.held_bps).collect())
    };
    let both = [Rate::from_mbps(1), Rate::from_mbps(2)];
    let counters = |r: &Host| -> Result<[u64; 2], Failed> {
        let all = r.client()?.show_counters()?;
        let count = |path| {
            let number = all.pointer(path).and_then(serde_json::Value::as_u64);
            number.ok_or(format!("no {path}: {all}"))
        };
        Ok([count("/driver/received")?, count("/boomerang/reservations/refreshed")?])
    };
    let found = until("refreshes are told", || {
        let now = held(&r)?;
        check(now == both, &format!("{now:?}"))?;
        let found = counters(&r)?;
        Ok((found[1] >= 10).then_some(found))
    })?;
    check(found[0] <= 8, &format!("the daemon saw more than the first: {found:?}"))?;
    // A new route removes nothing, and the daemon gets the next messages.
    link::add_route(&r.namespace, "10.9.0.0/16".parse()?, "10.0.2.2".parse()?)?;
    until("the daemon has looked", || Ok((counters(&r)?[0] > found[0]).then_some(())))?;
    check(held(&r)? == both, "all is held")?;
    a.client()?.release_all()?;
    until("all is given back", || Ok((held(&r)? == [Rate::ZERO; 2]).then_some(())))?;
    drop(b);
    Ok(())
}

/// The kernel sets up sessions from delegated bandwidth. The daemon gets the first message only, and has all sessions in its
/// ledger, in traffic control and in its listings. When their initiator is gone, they expire.
pub(crate) fn the_kernel_sets_up_loops_of_boomerang() -> Outcome {
    let [mut a, mut r, b] = line()?;
    a.start(&format!("[boomerang]\nrefresh = \"2s\"\n{ETH0}"))?;
    let kernel = "[boomerang]\nkernel = { share = \"100%\" }\n";
    r.start(&format!("{kernel}{ETH0}{}", ETH0.replace("eth0", "eth1")))?;
    let reserve = |port: u16| -> Outcome {
        let (from, to) = (format!("10.0.1.1:{port}"), format!("10.0.2.2:{port}"));
        let flow = ["--protocol", "boomerang", "--from", &from, "--to", &to];
        let rates = ["--forward", "600kbit", "--reverse", "300kbit"];
        let output = a.earmark(&[&["reserve", "--partial"], &flow[..], &rates].concat())?;
        check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stdout))
    };
    let held = |r: &Host| -> Result<Vec<(Rate, u32)>, Failed> {
        let rows = r.client()?.show_links()?.rows;
        Ok(rows.iter().map(|link| (link.held_bps, link.claims)).collect())
    };
    let received = |r: &Host| -> Result<u64, Failed> {
        let all = r.client()?.show_counters()?;
        Ok(all["driver"]["received"].as_u64().ok_or("no counter")?)
    };
    reserve(5_000)?;
    let first = received(&r)?;
    for port in 5_001..5_006 {
        reserve(port)?;
        let count = u32::from(port) - 4_999;
        let both = [300_u64, 600].map(|k| (Rate::from_bps(k * 1_000 * u64::from(count)), count));
        let now = held(&r)?;
        check(now == both, &format!("{now:?}, not {both:?}"))?;
    }
    let others = received(&r)? - first;
    check(others <= 12, &format!("{others} messages came to the daemon"))?;
    let rows = r.client()?.show_reservations()?.rows;
    let queued = rows.iter().filter(|row| row.traffic.is_some()).count();
    check(queued == 12, &format!("{queued} have queues: {rows:?}"))?;
    check(
        rows.iter().all(|row| row.expires_in_s.is_some_and(|s| s > 0.0 && s <= 6.1)),
        &format!("{rows:?}"),
    )?;
    // Longer than the lifetime of the sessions without refreshes.
    std::thread::sleep(std::time::Duration::from_secs(7));
    check(held(&r)?[1].1 == 6, "refreshed")?;
    let daemon = received(&r)? - first;
    check(daemon <= 20, &format!("{daemon} messages came to the daemon"))?;
    a.earmark(&["release", "1"])?;
    until("one is released", || Ok((held(&r)?[1].1 == 5).then_some(())))?;
    check(received(&r)? - first <= 24, "by the kernel")?;
    a.end(Signal::KILL)?;
    until("all have expired", || Ok((held(&r)? == [(Rate::ZERO, 0); 2]).then_some(())))?;
    drop(b);
    Ok(())
}
