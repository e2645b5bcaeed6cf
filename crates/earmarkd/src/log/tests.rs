use std::collections::BTreeMap;
use std::io::{PipeReader, Read};
use std::os::fd::AsFd;

use serde_json::Value;
use tracing::{debug, info, warn};

use super::*;

/// Returns a log in a form whose lines are read from the pipe.
fn log_to_pipe(format: Format) -> (Log, PipeReader) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let targets = Targets::new(["alpha"]);
    let levels = Levels::new(vec![LogLevel::Info; targets.len()]);
    let stream = Stream::to(writer.as_fd()).expect("open");
    (Log::new(format, targets, levels, Output::Stream(stream)), reader)
}

fn request(set: &[(&str, LogLevel)], for_ms: Option<u64>) -> LogRequest {
    let set = set.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect();
    LogRequest { reset: false, set, for_ms }
}

/// Ends the log and returns its lines.
fn lines(log: Log, mut reader: PipeReader) -> Vec<String> {
    drop(log);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn lines_of_macros_have_target_kind_and_fields() {
    let (log, reader) = log_to_pipe(Format::Json);
    dispatcher::with_default(&Dispatch::new(log.clone()), || {
        warn!(target: "earmark::alpha", kind = kind::NEIGHBOR_LOST.name, peer = %"10.0.0.2", count = 3, "silent");
        info!(name = "a\nb", "plain");
        debug!("not written");
    });
    let lines = lines(log, reader);
    let read: Vec<Value> = lines.iter().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(read.len(), 2, "{lines:?}");
    assert_eq!(read[0]["target"], "alpha");
    assert_eq!(read[0]["kind"], "neighbor_lost");
    assert_eq!(read[0]["fields"], serde_json::json!({"peer": "10.0.0.2", "count": 3}));
    assert_eq!((&read[1]["target"], &read[1]["kind"]), (&"daemon".into(), &Value::Null));
    assert_eq!(read[1]["fields"]["name"], "a\nb");
    for line in read {
        let time = line["time"].as_str().expect("a time");
        assert!(time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }
}

/// The writer of lines does not wait for a reader that stalls. What is lost is counted and said once. A report is shorter than
/// other lines, so that a pipe that is nearly full may take one before.
#[test]
fn lines_that_a_stalled_reader_does_not_take_are_counted_and_reported() {
    let (log, mut reader) = log_to_pipe(Format::TextWithoutTime);
    let all = 20_000;
    for number in 0..all {
        log.line(&kind::STOPPING, "daemon", || format!("line {number}"), |_| {});
    }
    let LogCounters { lines: written, lost, .. } = log.counters();
    assert_eq!(written + lost, all);
    assert!(written > 100 && lost > 100, "{written} written, {lost} lost");
    let wakeup = log.wakeup_after().expect("it tries again");
    assert!(wakeup <= RETRY, "{wakeup:?}");

    let mut first = vec![0; 8 << 10];
    reader.read_exact(&mut first).expect("lines");
    std::thread::sleep(RETRY);
    log.tick();
    assert_eq!(log.wakeup_after(), None, "nothing remains to be said");
    log.line(&kind::STOPPING, "daemon", || "the next line".to_owned(), |_| {});
    assert_eq!(log.counters().lost, lost);
    let lines = lines(log, reader);
    let counts = lines.iter().filter_map(|line| line.split_once(" were lost count="));
    let said: u64 = counts.map(|(_, count)| count.parse::<u64>().expect("a number")).sum();
    assert_eq!(said, lost);
    assert_eq!(lines.last().map(|line| &**line), Some(" INFO daemon: the next line"));
}

#[test]
fn level_that_is_set_for_a_time_ends_by_itself() {
    let (log, reader) = log_to_pipe(Format::TextWithoutTime);
    let write = |text: &str| {
        log.line(&kind::RESERVATION_ADMITTED, "alpha", || text.to_owned(), |_| {});
        dispatcher::with_default(&Dispatch::new(log.clone()), || {
            debug!(target: "earmark::alpha", "{text} by a macro");
        });
    };
    write("before");
    log.set(&request(&[("alpha", LogLevel::Debug)], Some(100)), 1_000).expect("a target");
    write("during");
    let row = |log: &Log| log.answer().targets.pop().expect("a row");
    let during = row(&log);
    assert_eq!((during.level, during.started_with), (LogLevel::Debug, LogLevel::Info));
    assert!(during.for_ms.is_some_and(|left| left <= 100), "{during:?}");
    let wakeup = log.wakeup_after().expect("the end");
    assert!(wakeup <= Duration::from_millis(100), "{wakeup:?}");
    std::thread::sleep(Duration::from_millis(100));
    log.tick();
    write("after");
    assert_eq!(row(&log).level, LogLevel::Info);
    assert_eq!(log.wakeup_after(), None);
    let expected = [
        " INFO audit: levels of the log: alpha=debug for 0.1 s uid=1000",
        "DEBUG alpha: during",
        "DEBUG alpha: during by a macro",
        " INFO daemon: level of the log of alpha is info again",
    ];
    assert_eq!(lines(log, reader), expected);
}

#[test]
fn reset_returns_to_the_start_and_unknown_target_changes_nothing() {
    let (log, reader) = log_to_pipe(Format::TextWithoutTime);
    let all = request(&[("all", LogLevel::Off), ("alpha", LogLevel::Trace)], None);
    log.set(&all, 0).expect("targets");
    let levels = |log: &Log| -> BTreeMap<String, LogLevel> {
        log.answer().targets.into_iter().map(|row| (row.target, row.level)).collect()
    };
    assert_eq!((levels(&log)["audit"], levels(&log)["alpha"]), (LogLevel::Off, LogLevel::Trace));
    let before = levels(&log);
    let unknown = request(&[("alpha", LogLevel::Off), ("beta", LogLevel::Off)], None);
    assert!(log.set(&unknown, 0).is_err());
    assert_eq!(levels(&log), before);
    log.set(&LogRequest { reset: true, ..LogRequest::default() }, 0).expect("a reset");
    assert!(levels(&log).values().all(|level| *level == LogLevel::Info));
    // Changes are written even if their target is off.
    assert_eq!(lines(log, reader).len(), 2);
}

#[test]
fn line_below_its_level_is_not_made() {
    let (log, reader) = log_to_pipe(Format::Text);
    let unexpected = || panic!("the message of a line that is not written");
    log.line(&kind::RESERVATION_ADMITTED, "alpha", unexpected, |_| {});
    log.set(&request(&[("ledger", LogLevel::Debug)], None), 0).expect("a target");
    log.line(&kind::RESERVATION_ADMITTED, "alpha", unexpected, |_| {});
    assert_eq!(lines(log, reader).len(), 1);
}

#[test]
fn flood_of_one_kind_is_cut_and_its_number_is_said() {
    let (log, reader) = log_to_pipe(Format::TextWithoutTime);
    for _ in 0..100 {
        log.line(&kind::AUTHENTICATION_FAILED, "alpha", || "wrong key".to_owned(), |_| {});
    }
    assert_eq!(log.counters().suppressed, 100 - u64::from(limit::MAX_LINES));
    let wakeup = log.wakeup_after().expect("the end of the window");
    assert!(wakeup > Duration::from_secs(5) && wakeup <= limit::WINDOW, "{wakeup:?}");
    assert_eq!(lines(log, reader).len(), limit::MAX_LINES as usize);
}
