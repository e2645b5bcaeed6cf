//! The event stream with a real NATS server: order, losses, failures of the server and of the daemon.

#[path = "events/host.rs"]
mod host;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream;
use earmark_testkit::command_line::TemporaryDirectory;
use host::{
    Broker, Daemon, Export, Outcome, STREAM, check, event, free_port, numbers, reports, until,
};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::Signal;
use serde_json::{Value, json};

type Test = fn() -> Outcome;

fn main() {
    let arguments = Arguments::from_args();
    let has_server = Command::new("nats-server").arg("--version").output().is_ok();
    let with_server: [(&str, Test); 13] = [
        ("events_arrive_in_order", events_arrive_in_order),
        ("killed_server_loses_nothing_within_buffer", killed_server_loses_nothing_within_buffer),
        ("suspended_server_stores_events_once", suspended_server_stores_events_once),
        ("overflow_is_counted_and_told", overflow_is_counted_and_told),
        ("full_stream_delays_events", full_stream_delays_events),
        ("killed_exporter_begins_another_run", killed_exporter_begins_another_run),
        ("restart_of_daemon_is_told", restart_of_daemon_is_told),
        ("stopped_exporter_is_told_of_its_loss", stopped_exporter_is_told_of_its_loss),
        ("too_large_event_is_told", too_large_event_is_told),
        ("filter_selects_protocols", filter_selects_protocols),
        ("credentials_are_used_and_refusals_named", credentials_are_used_and_refusals_named),
        ("missing_permission_is_named", missing_permission_is_named),
        ("missing_stream_is_named", missing_stream_is_named),
    ];
    let without_server: [(&str, Test); 3] = [
        ("server_that_never_reads_delays_nobody", server_that_never_reads_delays_nobody),
        ("other_programs_are_named", other_programs_are_named),
        ("undelivered_events_are_counted_at_the_end", undelivered_events_are_counted_at_the_end),
    ];
    let mut trials = Vec::new();
    for (name, test) in with_server {
        trials.push(match has_server {
            true => Trial::test(name, test),
            false => {
                Trial::test(name, || Ok(())).with_kind("needs nats-server").with_ignored_flag(true)
            }
        });
    }
    trials.extend(without_server.map(|(name, test)| Trial::test(name, test)));
    libtest_mimic::run(&arguments, trials).exit();
}

fn events_arrive_in_order() -> Outcome {
    let place = TemporaryDirectory::new("order");
    let broker = Broker::start(&place.0, "")?;
    let daemon = Daemon::start(&place.0)?;
    let mut export = Export::to_broker(&place, &daemon, &broker, &[])?;
    let mut watch = daemon.accept()?;
    watch.events(1..=3_000)?;
    let enforcement =
        json!({ "at_s": 2.0, "text": "x", "protocol": "enforcement", "change": "unenforced" });
    watch.line(&json!({ "event": enforcement }))?;
    let messages = broker.messages(3_002)?;
    check(numbers(&messages) == (1..=3_000).collect::<Vec<_>>(), "all events, once, in order")?;
    for (index, (subject, object)) in messages.iter().enumerate() {
        check(object["node"] == "r1" && object["sequence"] == index + 1, &object.to_string())?;
        let expected = match index {
            0 => "earmark.r1.export.connected",
            3_001 => "earmark.r1.node.enforcement",
            _ => "earmark.r1.rsvp.path_state",
        };
        check(subject == expected, subject)?;
    }
    let (_, object) = &messages[7];
    check(object["event"] == event(7), &object.to_string())?;
    check(object["time"] == "2026-11-28T10:00:00.000Z", &object.to_string())?;
    export.stop()?;
    check(!export.errors().contains("lost"), &export.errors())
}

/// The server is killed while events arrive, and starts again with what it has stored.
fn killed_server_loses_nothing_within_buffer() -> Outcome {
    let place = TemporaryDirectory::new("killed");
    let mut broker = Broker::start(&place.0, "")?;
    let daemon = Daemon::start(&place.0)?;
    let mut export = Export::to_broker(&place, &daemon, &broker, &[])?;
    let mut watch = daemon.accept()?;
    let mut sent = 0;
    for _ in 0..4 {
        watch.events(sent + 1..=sent + 1_500)?;
        sent += 1_500;
        // The server is killed while messages are on their way.
        broker.kill();
        watch.events(sent + 1..=sent + 200)?;
        sent += 200;
        std::thread::sleep(Duration::from_millis(100));
        broker.restart()?;
        broker.messages(sent + 1)?;
    }
    let messages = broker.messages(sent + 1)?;
    check(numbers(&messages) == (1..=sent).collect::<Vec<_>>(), "all events, once, in order")?;
    check(reports(&messages, "lost").is_empty(), "nothing is lost")?;
    check(export.errors().matches("publishing to nats://").count() >= 2, &export.errors())?;
    export.stop()
}

/// A suspended server has messages in its socket that it stores later. The exporter gives up meanwhile, and publishes them again.
fn suspended_server_stores_events_once() -> Outcome {
    let place = TemporaryDirectory::new("suspended");
    let broker = Broker::start(&place.0, "")?;
    let daemon = Daemon::start(&place.0)?;
    let export = Export::to_broker(&place, &daemon, &broker, &[])?;
    let mut watch = daemon.accept()?;
    watch.events(1..=10)?;
    broker.messages(11)?;
    broker.signal(Signal::STOP)?;
    watch.events(11..=400)?;
    export.wait_for_error("does not acknowledge a message within 5 s")?;
    broker.signal(Signal::CONT)?;
    watch.events(401..=410)?;
    let messages = until("the last event", || {
        broker.messages(11).ok().filter(|messages| numbers(messages).last() == Some(&410))
    })?;
    check(numbers(&messages) == (1..=410).collect::<Vec<_>>(), "all events, once, in order")
}

fn overflow_is_counted_and_told() -> Outcome {
    let place = TemporaryDirectory::new("overflow");
    let mut broker = Broker::start(&place.0, "")?;
    let daemon = Daemon::start(&place.0)?;
    let export = Export::to_broker(&place, &daemon, &broker, &["--buffer", "100"])?;
    let mut watch = daemon.accept()?;
    watch.events(1..=20)?;
    broker.messages(21)?;
    broker.kill();
    export.wait_for_error("has closed the connection")?;
    watch.events(21..=1_000)?;
    // On a busy machine the exporter reads the last ones when the server is there again, and does not lose them.
    std::thread::sleep(Duration::from_millis(500));
    broker.restart()?;
    broker.messages(122)?;
    watch.events(1_001..=1_010)?;
    let messages = until("the last event", || {
        broker.messages(122).ok().filter(|messages| numbers(messages).last() == Some(&1_010))
    })?;
    let numbers = numbers(&messages);
    check(numbers.is_sorted_by(|one, next| one < next), "events once, in order")?;
    check(numbers[..120] == (1..=120).collect::<Vec<_>>(), "the oldest events are kept")?;
    let lost = reports(&messages, "lost");
    let events: u64 = lost.iter().filter_map(|report| report["event"]["events"].as_u64()).sum();
    check(events > 0 && numbers.len() as u64 + events == 1_010, &format!("{lost:?}"))?;
    check(lost[0]["event"]["first_sequence"] == 122, &format!("{lost:?}"))?;
    // The numbers of lost events are missing, and no others.
    let sequences: BTreeSet<u64> =
        messages.iter().filter_map(|(_, object)| object["sequence"].as_u64()).collect();
    let last = sequences.last().copied().unwrap_or(0);
    check(last == sequences.len() as u64 + events, &format!("{events} are missing of {last}"))?;
    export.wait_for_error("events lost since the start: ")
}

/// A stream that refuses messages while it is full gets them as soon as there is room.
fn full_stream_delays_events() -> Outcome {
    let place = TemporaryDirectory::new("full");
    let broker = Broker::start(&place.0, "")?;
    let full = stream::Config {
        name: STREAM.to_owned(),
        subjects: vec!["earmark.>".to_owned()],
        max_messages: 5,
        discard: stream::DiscardPolicy::New,
        ..stream::Config::default()
    };
    let larger = stream::Config { max_messages: 1_000, ..full.clone() };
    broker.with_jetstream(async |context| context.create_stream(full).await.map(drop))?;
    let daemon = Daemon::start(&place.0)?;
    let export = Export::start(&place, &daemon, &broker.url(), &[])?;
    let mut watch = daemon.accept()?;
    watch.events(1..=20)?;
    export.wait_for_error(
        "the stream refuses a message: publish failed: maximum messages exceeded",
    )?;
    check(numbers(&broker.messages(5)?) == [1, 2, 3, 4], "the stream is full")?;
    broker.with_jetstream(async |context| context.update_stream(larger).await.map(drop))?;
    let mut numbers = numbers(&broker.messages(21)?);
    numbers.sort_unstable();
    check(numbers == (1..=20).collect::<Vec<_>>(), "all events, once")
}

/// What waits is lost with the exporter, and the next one begins another run.
fn killed_exporter_begins_another_run() -> Outcome {
    let place = TemporaryDirectory::new("run");
    let broker = Broker::start(&place.0, "")?;
    let daemon = Daemon::start(&place.0)?;
    let mut runs = BTreeSet::new();
    for round in 0..2 {
        let export = Export::to_broker(&place, &daemon, &broker, &[])?;
        let mut watch = daemon.accept()?;
        watch.events(round * 10..round * 10 + 10)?;
        let messages = broker.messages((round + 1) * 11)?;
        // A dropped exporter is killed.
        drop(export);
        let begin = &messages[round as usize * 11].1;
        check(
            begin["event"]["event"] == "connected" && begin["sequence"] == 1,
            &begin.to_string(),
        )?;
        check(begin["event"].get("gap_s").is_none(), &begin.to_string())?;
        runs.insert(begin["run"].to_string());
        check(numbers(&messages).len() as u64 == (round + 1) * 10, "the events of all runs")?;
    }
    check(runs.len() == 2, &format!("{runs:?}"))
}

fn restart_of_daemon_is_told() -> Outcome {
    let place = TemporaryDirectory::new("daemon");
    let broker = Broker::start(&place.0, "")?;
    let mut daemon = Daemon::start(&place.0)?;
    let export = Export::to_broker(&place, &daemon, &broker, &[])?;
    let mut watch = daemon.accept()?;
    watch.events(1..=10)?;
    daemon.stop(watch)?;
    export.wait_for_error("the daemon stops")?;
    daemon.restart()?;
    daemon.accept()?.events(11..=20)?;
    let messages = broker.messages(24)?;
    check(numbers(&messages) == (1..=20).collect::<Vec<_>>(), "the events of both")?;
    let kinds: Vec<&str> = messages[11..13].iter().map(|(subject, _)| &**subject).collect();
    check(
        kinds == ["earmark.r1.export.disconnected", "earmark.r1.export.connected"],
        &format!("{kinds:?}"),
    )?;
    check(messages[11].1["event"]["reason"] == "stopping", &messages[11].1.to_string())?;
    check(messages[12].1["event"]["gap_s"].is_f64(), &messages[12].1.to_string())?;
    // The second connection has ended without a reason.
    let end = &messages[23].1["event"];
    check(end["reason"] == "connection_lost", &end.to_string())
}

/// Does as the daemon: a watcher that leaves 1 MiB unread gets `too_slow`, and its connection ends. Meanwhile the daemon does not
/// wait.
fn stopped_exporter_is_told_of_its_loss() -> Outcome {
    let place = TemporaryDirectory::new("stopped");
    let broker = Broker::start(&place.0, "")?;
    let daemon = Daemon::start(&place.0)?;
    let export = Export::to_broker(&place, &daemon, &broker, &[])?;
    let mut watch = daemon.accept()?;
    watch.events(1..=10)?;
    broker.messages(11)?;
    export.process.signal(Signal::STOP)?;
    watch.0.set_nonblocking(true)?;
    let mut sent = 10;
    let (mut unread, begin) = (Vec::new(), Instant::now());
    while unread.len() <= 1024 * 1024 {
        sent += 1;
        unread.extend(format!("{}\n", json!({ "event": event(sent) })).into_bytes());
        match watch.0.write(&unread) {
            Ok(octets) => drop(unread.drain(..octets)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    check(begin.elapsed() < Duration::from_secs(30), "no write has waited")?;
    export.process.signal(Signal::CONT)?;
    // What the socket has not taken is forgotten, up to the end of a line.
    watch.0.set_nonblocking(false)?;
    let end = unread.iter().position(|octet| *octet == b'\n').map_or(0, |at| at + 1);
    watch.0.write_all(&unread[..end])?;
    let forgotten = unread[end..].iter().filter(|octet| **octet == b'\n').count() as u64;
    watch.line(
        &json!({ "error": { "code": "too_slow", "message": "events were lost", "hint": "" } }),
    )?;
    drop(watch);
    daemon.accept()?.events([1_000_000])?;
    let received = sent - forgotten;
    let messages = broker.messages(received + 4)?;
    let expected: Vec<u64> = (1..=received).chain([1_000_000]).collect();
    check(numbers(&messages) == expected, "what was written before, and what follows")?;
    let ends = reports(&messages, "disconnected");
    check(ends[0]["event"]["reason"] == "too_slow", &format!("{ends:?}"))
}

fn too_large_event_is_told() -> Outcome {
    let place = TemporaryDirectory::new("large");
    let broker = Broker::start(&place.0, "max_payload: 4096")?;
    let daemon = Daemon::start(&place.0)?;
    let _export = Export::to_broker(&place, &daemon, &broker, &[])?;
    let mut watch = daemon.accept()?;
    watch.events([1])?;
    let mut large = event(2);
    large["text"] = "a".repeat(5_000).into();
    watch.line(&json!({ "event": large }))?;
    watch.events([3])?;
    let messages = broker.messages(4)?;
    check(numbers(&messages) == [1, 3], "the other events")?;
    let lost = reports(&messages, "lost");
    check(lost.len() == 1 && lost[0]["event"]["too_large"] == 1, &format!("{lost:?}"))
}

fn filter_selects_protocols() -> Outcome {
    let place = TemporaryDirectory::new("filter");
    let broker = Broker::start(&place.0, "")?;
    let daemon = Daemon::start(&place.0)?;
    let more = ["--protocol", "nsis,enforcement", "--prefix", "site.earmark"];
    let _export = Export::to_broker(&place, &daemon, &broker, &more)?;
    let mut watch = daemon.accept()?;
    for (number, protocol) in ["rsvp", "nsis", "enforcement"].into_iter().enumerate() {
        let mut event = event(number as u64);
        event["protocol"] = protocol.into();
        watch.line(&json!({ "event": event }))?;
    }
    let messages = broker.messages(3)?;
    check(numbers(&messages) == [1, 2], "the events of two protocols")?;
    check(messages[1].0 == "site.earmark.r1.nsis.path_state", &messages[1].0)
}

/// Writes a file with mode 0600.
fn secret(place: &TemporaryDirectory, name: &str, text: &str) -> Result<String, Failed> {
    use std::os::unix::fs::PermissionsExt;
    let path = place.file(name, text);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path)
}

/// Runs `--check`. Returns whether it succeeds, and what it prints.
fn try_connection(
    place: &TemporaryDirectory,
    to: &str,
    more: &[&str],
) -> Result<(bool, String), Failed> {
    let socket = place.0.join("check");
    std::fs::create_dir_all(&socket)?;
    let daemon = Daemon::start(&socket)?;
    let arguments: Vec<_> = more.iter().copied().chain(["--check"]).collect();
    let mut export = Export::start(place, &daemon, to, &arguments)?;
    let _watch = daemon.accept()?;
    let child = &mut export.process.0;
    let status = until("the check ends", || child.try_wait().ok().flatten())?;
    std::fs::remove_file(&daemon.socket)?;
    Ok((status.success(), export.errors()))
}

fn credentials_are_used_and_refusals_named() -> Outcome {
    const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    const KEY: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
    let place = TemporaryDirectory::new("users");
    let users =
        format!("authorization {{ users: [ {{ nkey: {KEY} }}, {{ user: a, password: b }} ] }}");
    let broker = Broker::start(&place.0, &users)?;
    let seed = secret(&place, "seed", SEED)?;
    let password = secret(&place, "password", "user=a\npassword=b\n")?;
    let wrong = secret(&place, "wrong", "user=a\npassword=c\n")?;
    for file in [&seed, &password] {
        let (works, text) = try_connection(&place, &broker.url(), &["--credentials", file])?;
        check(works, &text)?;
    }
    let (works, text) = try_connection(&place, &broker.url(), &["--credentials", &wrong])?;
    check(!works && text.contains("refuses the credentials"), &text)?;
    check(text.contains(&broker.url()) && text.contains("--credentials"), &text)?;
    let (works, text) = try_connection(&place, &broker.url(), &[])?;
    check(!works && text.contains("refuses a connection without credentials"), &text)
}

/// The permissions that docs/events.md names suffice; a user with others learns which one is missing.
fn missing_permission_is_named() -> Outcome {
    let place = TemporaryDirectory::new("permissions");
    let users = r#"authorization { users: [
        { user: a, password: b, permissions: {
            publish: ["earmark.>", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.CREATE.*"], subscribe: ["_INBOX.>"] } },
        { user: c, password: d, permissions: { publish: ["other.>"], subscribe: ["_INBOX.>"] } } ] }"#;
    let broker = Broker::start(&place.0, users)?;
    let daemon = Daemon::start(&place.0)?;
    let file = secret(&place, "a", "user=a\npassword=b\n")?;
    let export = Export::to_broker(&place, &daemon, &broker, &["--credentials", &file])?;
    let watch = daemon.accept()?;
    export.wait_for_error("publishing to nats://")?;
    drop(export);
    drop(watch);
    let file = secret(&place, "c", "user=c\npassword=d\n")?;
    let export = Export::start(&place, &daemon, &broker.url(), &["--credentials", &file])?;
    let _watch = daemon.accept()?;
    export
        .wait_for_error("Permissions Violation for Publish to \"earmark.r1.export.connected\"")?;
    export.wait_for_error("the user needs the permissions")
}

/// Without a stream, and without JetStream, events wait, and the error says what to do.
fn missing_stream_is_named() -> Outcome {
    for (jetstream, advice) in [(true, "--create-stream EARMARK"), (false, "enable JetStream")] {
        let place = TemporaryDirectory::new("stream");
        let broker = match jetstream {
            true => Broker::start(&place.0, "")?,
            false => Broker::start_without_jetstream(&place.0, "")?,
        };
        let daemon = Daemon::start(&place.0)?;
        let export = Export::start(&place, &daemon, &broker.url(), &[])?;
        let _watch = daemon.accept()?;
        export
            .wait_for_error("no JetStream stream takes the subject earmark.r1.export.connected")?;
        export.wait_for_error(advice)?;
    }
    Ok(())
}

/// Begins as a NATS server does, and then reads nothing.
fn pretend_server(listener: &TcpListener) -> Result<TcpStream, Failed> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"INFO {\"version\":\"2.9.10\",\"max_payload\":1048576,\"jetstream\":true,\"headers\":true}\r\n")?;
    let (mut read, mut buffer) = (Vec::new(), [0; 256]);
    while !read.windows(4).any(|octets| octets == b"PING") {
        match stream.read(&mut buffer)? {
            // The first connection only reads what the server says of itself.
            0 => return pretend_server(listener),
            octets => read.extend_from_slice(&buffer[..octets]),
        }
    }
    stream.write_all(b"PONG\r\n")?;
    Ok(stream)
}

/// A broker accepts and never reads: the exporter reads the daemon's events all the same, and its memory is bounded.
fn server_that_never_reads_delays_nobody() -> Outcome {
    let place = TemporaryDirectory::new("never");
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let to = format!("nats://127.0.0.1:{}", listener.local_addr()?.port());
    let daemon = Daemon::start(&place.0)?;
    let export = Export::start(&place, &daemon, &to, &["--buffer", "1000"])?;
    let mut watch = daemon.accept()?;
    let _stalled = pretend_server(&listener)?;
    let begin = Instant::now();
    // 20 MB, of which sockets hold less than one.
    let mut large = event(1);
    large["text"] = "a".repeat(1_000).into();
    for _ in 0..20_000 {
        watch.line(&json!({ "event": large }))?;
    }
    let took = begin.elapsed();
    check(took < Duration::from_secs(40), &format!("20 000 events in {took:?}"))?;
    let memory = export.memory()?;
    check(memory < 48 * 1024 * 1024, &format!("{memory} octets"))?;
    export.wait_for_error("does not acknowledge a message within 5 s")
}

fn other_programs_are_named() -> Outcome {
    let place = TemporaryDirectory::new("others");
    let closed = format!("nats://127.0.0.1:{}", free_port()?);
    let (works, text) = try_connection(&place, &closed, &[])?;
    check(!works && text.contains(&format!("cannot connect to {closed}: ")), &text)?;
    let tls: Value = json!({ "tls_required": true });
    for (greeting, expected) in [
        (
            "SSH-2.0-OpenSSH_9.2\r\n".to_owned(),
            "is not a NATS server: it sends \"SSH-2.0-OpenSSH_9.2\"",
        ),
        (format!("INFO {tls}\r\n"), "requires TLS"),
        ("INFO no JSON\r\n".to_owned(), "is not a NATS server"),
        (String::new(), "sends nothing within 5 s"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let to = format!("nats://127.0.0.1:{}", listener.local_addr()?.port());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.write_all(greeting.as_bytes())?;
            // Until the exporter has closed the connection.
            stream.read(&mut [0; 16])
        });
        let (works, text) = try_connection(&place, &to, &[])?;
        check(!works && text.contains(&to) && text.contains(expected), &text)?;
        check(text.contains("help: "), &text)?;
        let _ = server.join();
    }
    Ok(())
}

fn undelivered_events_are_counted_at_the_end() -> Outcome {
    let place = TemporaryDirectory::new("undelivered");
    let daemon = Daemon::start(&place.0)?;
    let to = format!("nats://127.0.0.1:{}", free_port()?);
    let mut export = Export::start(&place, &daemon, &to, &[])?;
    daemon.accept()?.events(1..=5)?;
    export.wait_for_error("connection to the daemon failed")?;
    export.stop()?;
    // The events, and the reports that the watch has begun and ended.
    let text = export.errors();
    check(text.contains("which the server has not acknowledged: 7\n"), &text)
}
