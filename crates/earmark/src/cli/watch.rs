//! `earmark watch`: prints events as they happen.

use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use earmark_control::command::{Failure, Output};
use earmark_control::{ApplicationId, Client, Event};
use earmark_core::Prefix;
use earmark_core::amounts::parse_duration;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::outcome::Outcome;
use super::routers::labels::labelled_output;
use super::routers::router::Router;

/// Print events as they happen, until Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  earmark watch
  earmark watch --about 10.0.1.2
  earmark watch --about 10.0.1.0/24 --event reservation,preempted
  earmark watch --link eth1
  earmark watch --count 10 --json
  earmark watch --for 10s
  earmark --on r1,r2 watch --event reservation     # events of two routers as they arrive, each with its router")]
pub(crate) struct WatchOptions {
    /// End after this many events, of all routers together.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// End after this time: 500ms, 10s, 2min.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) span: Option<Duration>,
    #[command(flatten)]
    pub(crate) filter: EventFilter,
}

/// Which events are printed: those that have all of what is given.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct EventFilter {
    /// Events of these protocols, or of a kind of the node itself such as enforcement.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) protocol: Vec<String>,
    /// Events of these names, such as reservation; `--json` shows them in the member `event`.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) event: Vec<String>,
    /// Events about an address, or about any address in a prefix.
    #[arg(long, value_name = "ADDRESS[/LENGTH]", value_parser = range)]
    pub(crate) about: Option<Prefix>,
    /// Events on an interface.
    #[arg(long, value_name = "NAME")]
    pub(crate) link: Option<String>,
    /// Events about an application, by its number.
    #[arg(long, value_name = "N")]
    pub(crate) application: Option<u64>,
}

/// Parses an address, or a prefix.
fn range(text: &str) -> Result<Prefix, &'static str> {
    let host = text.parse().map(Prefix::host).ok();
    host.or_else(|| text.parse().ok())
        .ok_or("an address looks like 10.0.1.2 or 2001:db8::1, and a range like 10.0.1.0/24")
}

impl EventFilter {
    fn admits(&self, event: &Event) -> bool {
        let among = |names: &[String], name: &str| {
            names.is_empty() || names.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        among(&self.protocol, &event.protocol)
            && among(&self.event, &event.event)
            && self.about.is_none_or(|prefix| event.details.values().any(|it| names(it, prefix)))
            && self.link.as_ref().is_none_or(|link| {
                event.interface_name.as_ref() == Some(link)
                    || event.details.get("interface").and_then(Value::as_str) == Some(link)
            })
            && self
                .application
                .is_none_or(|number| event.application == Some(ApplicationId(number)))
    }
}

/// Returns whether a member of an event is, or contains, an address in a prefix.
fn names(value: &Value, prefix: Prefix) -> bool {
    match value {
        Value::String(text) => address_of(text).is_some_and(|it| prefix.covers(Prefix::host(it))),
        Value::Array(items) => items.iter().any(|item| names(item, prefix)),
        Value::Object(members) => members.values().any(|member| names(member, prefix)),
        _ => false,
    }
}

/// Returns the address in a text: alone, with a port, or with a prefix length.
fn address_of(text: &str) -> Option<IpAddr> {
    let socket = || text.parse().ok().map(|socket: std::net::SocketAddr| socket.ip());
    let before_slash = || text.split_once('/').and_then(|(address, _)| address.parse().ok());
    text.parse().ok().or_else(socket).or_else(before_slash)
}

pub(super) fn watch(
    client: &mut Client,
    options: &WatchOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let deadline = options.span.map(|span| Instant::now() + span);
    let node = client.start_watching()?;
    if !out.json {
        eprintln!("watching {node}; Ctrl-C ends it");
    }
    let mut left = options.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(event) = client.next_event(deadline)? else {
            break;
        };
        if options.filter.admits(&event) {
            print(&event, out)?;
            left -= 1;
        }
    }
    Ok(Outcome::Done)
}

/// Events that wait to be printed.
const WAITING_EVENTS: usize = 256;

/// Prints the events of all routers as they arrive, each with its router. A failure of a router is passed to `failed`, and the others
/// go on.
pub(super) fn watch_all(
    routers: &[Router],
    options: &WatchOptions,
    width: usize,
    json: bool,
    failed: &mut dyn FnMut(&Router, Failure),
) -> Result<Outcome, Failure> {
    let deadline = options.span.map(|span| Instant::now() + span);
    let (sender, events) = sync_channel(WAITING_EVENTS);
    for (number, router) in routers.iter().enumerate() {
        let (sender, socket, filter) =
            (sender.clone(), router.socket.clone(), options.filter.clone());
        thread::spawn(move || {
            let watch = || -> Result<(), Failure> {
                let mut client = Client::connect(&socket)?;
                client.start_watching()?;
                while let Some(event) = client.next_event(deadline)? {
                    if filter.admits(&event) && sender.send((number, Ok(event))).is_err() {
                        break;
                    }
                }
                Ok(())
            };
            if let Err(failure) = watch() {
                let _ = sender.send((number, Err(failure)));
            }
        });
    }
    drop(sender);
    if !json {
        eprintln!("watching {} routers; Ctrl-C ends it", routers.len());
    }
    let mut outputs: Vec<Output> =
        routers.iter().map(|router| labelled_output(&router.name, width, json)).collect();
    let (mut left, mut outcome) = (options.count.unwrap_or(u64::MAX), Outcome::Done);
    while left > 0 {
        let next = match deadline {
            Some(deadline) => {
                events.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            }
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok((number, Ok(event))) => {
                print(&event, &mut outputs[number])?;
                left -= 1;
            }
            Ok((number, Err(failure))) => {
                failed(&routers[number], failure);
                outcome = Outcome::Failed;
            }
            // The time is over, or no router is left.
            Err(_) => break,
        }
    }
    Ok(outcome)
}

/// Prints one event on one line, with the time of this host's time zone.
pub(crate) fn print(event: &Event, out: &mut Output) -> Result<(), Failure> {
    let text = format!("{}  {}", time_of(event, &TimeZone::system()), event.text);
    out.line(&text, event)
}

/// Returns the time of an event: `2026-11-28 09:15:02.417`. A daemon that does not tell it tells the time since its start.
fn time_of(event: &Event, zone: &TimeZone) -> String {
    match event.time.parse::<Timestamp>() {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        Err(_) => format!("{:.3} s after the start", event.at_s),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> Event {
        let event = json!({
            "at_s": 4.5, "time": "2026-11-28T08:15:02.417Z", "protocol": "tickets", "event": "path_state",
            "text": "a path", "application": 3, "interface_name": "eth1",
            "session": {"destination": "10.0.1.2", "port": 5001},
            "hops": [{"at": "[2001:db8::7]:270"}, {"at": "192.0.2.0/24"}], "label": "not an address",
        });
        serde_json::from_value(event).expect("an event")
    }

    #[test]
    fn events_have_all_that_the_filter_asks_for() {
        let about = |prefix: &str| EventFilter {
            about: Some(range(prefix).expect("a range")),
            ..EventFilter::default()
        };
        let filter = EventFilter::default;
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        for (filter, is_shown) in [
            (filter(), true),
            (EventFilter { protocol: named(&["parcels", "TICKETS"]), ..filter() }, true),
            (EventFilter { protocol: named(&["parcels"]), ..filter() }, false),
            (EventFilter { event: named(&["path_state"]), ..filter() }, true),
            (EventFilter { event: named(&["resv_state"]), ..filter() }, false),
            (EventFilter { link: Some("eth1".into()), ..filter() }, true),
            (EventFilter { link: Some("eth2".into()), ..filter() }, false),
            (EventFilter { application: Some(3), ..filter() }, true),
            (EventFilter { application: Some(4), ..filter() }, false),
            (
                EventFilter { application: Some(4), protocol: named(&["tickets"]), ..filter() },
                false,
            ),
            (about("10.0.1.2"), true),
            (about("10.0.0.0/16"), true),
            (about("10.0.2.0/24"), false),
            (about("2001:db8::/32"), true),
            (about("192.0.2.0/24"), true),
            (about("192.0.2.9"), false),
        ] {
            assert_eq!(filter.admits(&event()), is_shown, "{filter:?}");
        }
    }

    #[test]
    fn range_is_an_address_or_a_prefix() {
        for text in
            ["", "somewhere", "10.0.1", "10.0.1.0/33", "10.0.1.0/", "/24", "[2001:db8::1]:80"]
        {
            assert!(range(text).is_err(), "{text}");
        }
        assert_eq!(range("10.0.1.2"), Ok(Prefix::host([10, 0, 1, 2].into())));
        assert_eq!(range("2001:db8::/32").map(Prefix::length), Ok(32));
    }

    #[test]
    fn time_is_that_of_the_wall_clock() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(time_of(&event(), &zone), "2026-11-28 09:15:02.417");
        let old = Event { time: String::new(), ..event() };
        assert_eq!(time_of(&old, &zone), "4.500 s after the start");
    }
}
