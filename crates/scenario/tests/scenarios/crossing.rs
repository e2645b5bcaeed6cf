//! Crossings: invariants hold in every variant of every protocol, and consecutive seeds cross all values of the axes.

mod formerly_failing;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::Transport;
use earmark_scenario::crossing::EventKind::*;
use earmark_scenario::crossing::Place::*;
use earmark_scenario::crossing::{Case, Crossing, Event, EventKind, Place, play_case, play_logged};
use earmark_scenario::topology::Family::{self, *};
use earmark_scenario::{End, Protocols};
use earmark_sim::LogEvent;

use self::formerly_failing::{Brief, FORMERLY_FAILING};

#[test]
fn sampled_cases_hold_all_invariants() {
    let protocols = Protocols::default();
    let mut reserved = 0;
    let mut effective = BTreeSet::new();
    // Consecutive seeds differ in their variants; further events and places come with the distance.
    for seed in (0..120_800).step_by(151) {
        let case = Case::of(seed, &protocols);
        let crossing = play_case(&case, &protocols);
        let again = format!("earmark-lab cross --seed {seed}");
        assert!(crossing.violations.is_empty(), "{again}: {crossing:#?}");
        reserved += usize::from(crossing.is_reserved);
        let events = case.events.iter().zip(crossing.took_effect);
        effective.extend(events.filter(|(_, took_effect)| *took_effect).map(|(it, _)| it.kind));
    }
    assert!(reserved > 400, "{reserved}");
    let all: BTreeSet<EventKind> = EventKind::ALL.iter().copied().collect();
    let without: Vec<_> = all.difference(&effective).collect();
    assert_eq!(without, [&Nothing], "events that never took effect");
}

#[test]
fn formerly_failing_cases_hold_all_invariants() {
    let protocols = Protocols::default();
    for &(seed, protocol, variant, family, events) in FORMERLY_FAILING {
        let case = case_of(seed, [protocol, variant], family, events, &protocols);
        let crossing = play_case(&case, &protocols);
        assert!(crossing.violations.is_empty(), "{case:#?}: {crossing:#?}");
    }
}

/// Returns a case of a variant.
fn case_of(
    seed: u64,
    [protocol, variant]: [&str; 2],
    family: Family,
    events: &[Brief],
    protocols: &Protocols,
) -> Case {
    let protocol = protocols.by_name(protocol).expect("a protocol");
    let mut variants = protocol.variants().iter();
    let variant = variants.find(|known| known.name == variant).expect("a variant");
    let event = |&(kind, place, from, until): &Brief| {
        let [from, until] = [from, until].map(Duration::from_millis);
        Event { kind, place, from, until }
    };
    Case { seed, protocol, variant, family, events: events.iter().map(event).collect() }
}

/// Plays RSVP with these events.
fn with_events(events: &[Brief]) -> Crossing {
    let protocols = Protocols::default();
    play_case(&case_of(1, SIMPLE[0], Ipv4, events, &protocols), &protocols)
}

/// An event takes effect if what it changes happens while it lasts, at its place.
#[test]
fn events_beside_the_path_or_between_messages_take_no_effect() {
    let [begin, end] = [1_900, 9_000];
    for (kind, place, until, took_effect) in [
        (Nothing, FirstRouter, end, false),
        (Silence, FirstRouter, end, true),
        (Silence, FirstRouter, 1_950, false),
        (Silence, Destination, end, false),
        (Duplication, LastRouter, end, true),
        (Outage, FirstRouter, end, true),
        (Outage, Destination, end, false),
        (InterfaceRenumbered, Destination, end, true),
        (Refusal, LastRouter, end, true),
        (Refusal, LastRouter, 1_950, false),
        (NoRoom, LastRouter, end, true),
        (NoRoom, LastRouter, 1_950, false),
        (Largest, LastRouter, end, true),
        (Largest, LastRouter, 1_950, false),
        (Change, Source, end, true),
    ] {
        let crossing = with_events(&[(kind, place, begin, until)]);
        assert_eq!(crossing.took_effect, [took_effect], "{kind:?}, {place:?}, {until}");
    }
    // The way around counts while the link between the routers is down, and the change of a source that is gone does not.
    let outage = (Outage, FirstRouter, begin, end);
    let crossing = with_events(&[outage, (Silence, Destination, begin, end)]);
    assert_eq!(crossing.took_effect, [true, true]);
    let crossing = with_events(&[(Crash, Source, 1_000, 3_000), (Change, Source, 5_000, 6_000)]);
    assert_eq!(crossing.took_effect, [true, false]);
}

/// A simple variant of each protocol.
const SIMPLE: [[&str; 2]; 4] = [
    ["rsvp", "fixed filter"],
    ["boomerang", "one pass"],
    ["yessir", "individual"],
    ["nsis", "datagrams"],
];

/// Plays a variant with these events, and returns the times in seconds of what the node logs of it.
fn times_of(
    variant: [&str; 2],
    events: &[Brief],
    at: &str,
    is_it: impl Fn(&LogEvent) -> bool,
) -> Vec<f64> {
    let protocols = Protocols::default();
    let case = case_of(1, variant, Ipv4, events, &protocols);
    let mut times = Vec::new();
    let crossing = play_logged(&case, &protocols, |node, entry| {
        let is_here = node == at && is_it(&entry.what);
        times.extend(is_here.then(|| entry.at.as_secs_f64()));
    });
    assert!(crossing.violations.is_empty(), "{case:#?}: {crossing:#?}");
    times
}

#[test]
fn limit_and_policy_refuse_new_requests_while_they_are_set() {
    let installed = |event: &LogEvent| matches!(event, LogEvent::Installed(_));
    for variant in SIMPLE {
        for kind in [NoSessions, Forbidden] {
            let early = times_of(variant, &[(kind, FirstRouter, 1_000, 9_000)], "r1", installed);
            assert!(early.iter().all(|at| *at >= 9.0), "{variant:?}, {kind:?}: {early:?}");
            // NSIS asks once.
            assert_eq!(early.is_empty(), variant[0] == "nsis", "{variant:?}, {kind:?}");
            let late = times_of(variant, &[(kind, FirstRouter, 9_000, 12_000)], "r1", installed);
            assert!(late[0] < 3.0, "{variant:?}, {kind:?}: {late:?}");
        }
    }
}

/// A request that is larger than any link is reserved only when it is lowered.
#[test]
fn large_request_is_refused_until_it_is_lowered() {
    let installed = |event: &LogEvent| matches!(event, LogEvent::Installed(_));
    for variant in SIMPLE {
        for (place, is_lowered) in [(FirstRouter, false), (LastRouter, true)] {
            let events = [(LargeRequest, place, 3_000, 9_000)];
            let times = times_of(variant, &events, "r1", installed);
            assert!(times.iter().all(|at| *at >= 9.0), "{variant:?}: {times:?}");
            // NSIS ends a request that is refused.
            let expected = is_lowered && variant[0] != "nsis";
            assert_eq!(!times.is_empty(), expected, "{variant:?}, {place:?}");
        }
    }
}

#[test]
fn refresh_period_follows_its_setting() {
    for variant in [SIMPLE[0], SIMPLE[3]] {
        let messages = |kind| {
            let sent = |event: &LogEvent| matches!(event, LogEvent::Sent { .. });
            let times = times_of(variant, &[(kind, FirstRouter, 4_000, 19_000)], "r1", sent);
            times.iter().filter(|at| (8.0..19.0).contains(*at)).count()
        };
        let [longer, usual, shorter] = [LongerRefresh, Nothing, ShorterRefresh].map(messages);
        assert!(longer * 4 < usual * 3, "{variant:?}: {longer}, {usual}");
        assert!(shorter * 3 > usual * 4, "{variant:?}: {shorter}, {usual}");
    }
}

#[test]
fn state_expires_earlier_with_a_shorter_lifetime() {
    for variant in SIMPLE {
        let first_removal = |kind| {
            let removed = |event: &LogEvent| matches!(event, LogEvent::Removed(_));
            let silence = (Silence, FirstRouter, 12_000, 20_000);
            // The lifetime by NSIS follows from the period of the neighbour, which is longer than the limit.
            let longer = (LongerRefresh, FirstRouter, 4_000, 20_000);
            let events = [silence, longer, (kind, LastRouter, 8_000, 20_000)];
            let times = times_of(variant, &events, "r2", removed);
            times.into_iter().find(|at| *at > 12.0).expect("it expires")
        };
        let [usual, shorter] = [Nothing, ShorterLifetime].map(first_removal);
        assert!(shorter < usual - 0.5, "{variant:?}: {shorter}, {usual}");
    }
}

/// Two members of a group are behind different routers, and the path divides at the first one.
#[test]
fn variants_are_reserved_on_the_paths_to_all_members() {
    let installed = |event: &LogEvent| matches!(event, LogEvent::Installed(_));
    for protocol in Protocols::default().all() {
        for variant in protocol.variants() {
            let is_reserved = |node| {
                let names = [protocol.name(), variant.name];
                !times_of(names, &[], node, installed).is_empty()
            };
            let reserved = ["source", "r1", "r2", "r3"].map(is_reserved);
            let has_second = variant.members == 2;
            // The router announces what the source sends, which has no reservation before.
            let has_sender = variant.proxy.is_none_or(|proxy| proxy.of == End::Destination);
            assert_eq!(reserved, [has_sender, true, true, has_second], "{}", variant.name);
        }
    }
    let with = |members| {
        let protocols = Protocols::default();
        let protocols = protocols.all().iter();
        let variants = protocols.flat_map(|protocol| protocol.variants());
        variants.filter(|variant| variant.members == members).count()
    };
    assert!(with(1) > 1 && with(2) > 2);
}

/// Another machine has nothing of the first one, whose place it takes, and gets the reservation by refreshes, unless it is an
/// end that has asked for it.
#[test]
fn replaced_machines_reserve_by_refreshes() {
    let started = |event: &LogEvent| matches!(event, LogEvent::Restarted);
    let installed = |event: &LogEvent| matches!(event, LogEvent::Installed(_));
    let variants = [["rsvp", "fixed filter, INTEGRITY"], ["nsis", "associations"]];
    for variant in SIMPLE.into_iter().chain(variants) {
        for (kind, expected) in [(Replaced, &[9.0][..]), (ReplacedTwice, &[9.0, 14.0])] {
            let events = [(kind, FirstRouter, 9_000, 14_000)];
            assert_eq!(times_of(variant, &events, "r1", started), expected);
            let times = times_of(variant, &events, "r1", installed);
            let is_from = |at: &f64| times.iter().any(|time| (*at..*at + 25.0).contains(time));
            assert!(expected.iter().all(is_from), "{variant:?}, {kind:?}: {times:?}");
            let times = times_of(variant, &[(kind, Source, 9_000, 14_000)], "source", installed);
            assert!(times.iter().all(|at| *at < 9.0), "{variant:?}, {kind:?}: {times:?}");
        }
    }
}

/// The clock of the other machine is behind, so that its messages are replays until it has caught up.
#[test]
fn replaced_machine_has_other_sequence_numbers() {
    let installed = |event: &LogEvent| matches!(event, LogEvent::Installed(_));
    let events = [(Replaced, FirstRouter, 9_000, 14_000)];
    let [signed, plain] = ["fixed filter, INTEGRITY", "fixed filter"].map(|variant| {
        let times = times_of(["rsvp", variant], &events, "r1", installed);
        times.into_iter().find(|at| *at > 9.0).expect("it reserves")
    });
    // Fifteen seconds behind, since the first message of the router.
    assert!(plain < 12.0 && signed > 17.0, "{plain}, {signed}");
}

/// The end whose router is its proxy sends no message of the protocol.
#[test]
fn proxies_signal_in_place_of_their_ends() {
    let sent = |event: &LogEvent| matches!(event, LogEvent::Sent { .. });
    for (variant, silent, speaking) in [
        (["rsvp", "receiver proxy"], "destination", "source"),
        (["rsvp", "sender proxy"], "source", "destination"),
        (["nsis", "datagrams, proxy"], "destination", "source"),
        (["nsis", "datagrams, proxy, receiver-initiated"], "destination", "source"),
    ] {
        assert_eq!(times_of(variant, &[], silent, sent), [0.0; 0], "{variant:?}");
        assert!(!times_of(variant, &[], speaking, sent).is_empty(), "{variant:?}");
    }
}

/// Hosts without raw sockets send everything to their router, and the routers to each other as ever.
#[test]
fn hosts_signal_inside_udp() {
    let protocols = Protocols::default();
    let messages = |variant: &'static str| {
        let case = case_of(1, ["rsvp", variant], Ipv4, &[], &protocols);
        let mut sent: Vec<(String, IpAddr, u32)> = Vec::new();
        let crossing = play_logged(&case, &protocols, |node, entry| {
            if let LogEvent::Sent { destination, octets, .. } = entry.what {
                sent.push((node.to_owned(), destination, octets));
            }
        });
        assert!(crossing.is_reserved, "{crossing:?}");
        sent
    };
    let [raw, inside] = ["fixed filter", "fixed filter, UDP"].map(messages);
    let first = |sent: &[(String, IpAddr, u32)], at: &str| {
        let mut from = sent.iter().filter(|(node, ..)| node == at);
        from.next().cloned().expect("it sends")
    };
    let (_, to, octets) = first(&raw, "source");
    assert_eq!(to, IpAddr::from([10, 0, 4, 2]), "to the session");
    // The header of UDP, in place of the router-alert option.
    assert_eq!(first(&inside, "source").1, IpAddr::from([10, 0, 0, 2]), "to the router");
    assert_eq!(first(&inside, "source").2, octets + 8 - 4);
    assert_eq!(first(&raw, "destination").2 + 8, first(&inside, "destination").2);
    assert_eq!(first(&raw, "r1"), first(&inside, "r1"));
    // The routers of the link get what a host sends to a group, and the host gets both forms (RFC 2205 figure 14).
    let [raw, inside] = ["fixed filter, one member", "fixed filter, UDP, one member"].map(messages);
    let (group, link) = (IpAddr::from([239, 1, 0, 1]), IpAddr::from([224, 0, 0, 14]));
    assert_eq!([&raw, &inside].map(|sent| first(sent, "source").1), [group, link]);
    assert_eq!(first(&raw, "r1"), first(&inside, "r1"));
    let to_members = |sent: &[(String, IpAddr, u32)]| {
        let from = sent.iter().filter(|(node, to, _)| node == "r2" && *to == group);
        from.map(|(.., octets)| *octets).take(2).collect::<Vec<_>>()
    };
    let path = first(&raw, "r1").2;
    assert_eq!([&raw, &inside].map(|sent| to_members(sent)), [[path; 2], [path, path + 8 - 4]]);
}

#[test]
fn messages_with_integrity_have_a_digest_more() {
    let protocols = Protocols::default();
    let octets = |variant: &'static str| {
        let case = case_of(1, ["rsvp", variant], Ipv4, &[], &protocols);
        let mut largest = 0;
        play_logged(&case, &protocols, |_, entry| {
            if let LogEvent::Sent { octets, .. } = entry.what {
                largest = largest.max(octets);
            }
        });
        largest
    };
    // INTEGRITY: object header, flags, key, sequence number, and a digest of 32 octets (RFC 2747 section 2).
    let object = 4 + 2 + 6 + 8 + 32;
    assert_eq!(octets("fixed filter, INTEGRITY"), octets("fixed filter") + object);
}

/// A Peer-Identity that is set has the four octets of a Router-ID, and a random one eight.
#[test]
fn variants_of_nsis_have_identities_that_outlive_daemons() {
    let protocols = Protocols::default();
    let first = |variant: &'static str| {
        let case = case_of(1, ["nsis", variant], Ipv4, &[], &protocols);
        let mut first = None;
        play_logged(&case, &protocols, |node, entry| {
            if let (LogEvent::Sent { octets, .. }, "source") = (&entry.what, node) {
                first = first.or(Some(*octets));
            }
        });
        first.expect("the source sends")
    };
    assert_eq!(first("datagrams, listener") + 4, first("datagrams"));
}

/// Each of the three links has one association, which both ends open, and no other transport is used.
#[test]
fn variants_of_nsis_open_associations_over_their_transport() {
    let opened = |variant: &'static str, transport: Transport| {
        let is_it = |event: &LogEvent| matches!(event, LogEvent::Connection(_, Ok(opened)) if *opened == transport);
        let nodes = ["source", "r1", "r2", "destination"];
        let count = |node| times_of(["nsis", variant], &[], node, is_it).len();
        nodes.map(count)
    };
    for (secure, plain) in
        [("TLS", "associations"), ("TLS, receiver-initiated", "associations, receiver-initiated")]
    {
        assert_eq!(opened(secure, Transport::Tls), [1, 2, 2, 1]);
        assert_eq!(opened(secure, Transport::Tcp), [0; 4]);
        assert_eq!(opened(plain, Transport::Tls), [0; 4]);
        assert_eq!(opened(plain, Transport::Tcp), [1, 2, 2, 1]);
    }
    assert_eq!(opened("datagrams", Transport::Tcp), [0; 4]);
}

/// Consecutive seeds are every variant and family with every event at every place.
#[test]
fn consecutive_seeds_cross_all_axes() {
    let protocols = Protocols::default();
    let names = |seed| {
        let case = Case::of(seed, &protocols);
        let event = case.events[0];
        (
            case.protocol.name(),
            case.variant.name,
            format!("{:?}", case.family),
            event.kind,
            event.place,
        )
    };
    let variants: usize = protocols.all().iter().map(|protocol| protocol.variants().len()).sum();
    let all = variants * 2 * EventKind::ALL.len() * Place::ALL.len();
    let crossed: BTreeSet<_> = (7_000..7_000 + all as u64).map(names).collect();
    assert_eq!(crossed.len(), all);
    assert!(protocols.all().iter().all(|protocol| protocol.variants().len() > 1), "{variants}");
}

/// A log does not change the run, and one seed always gives the same one.
#[test]
fn same_seed_gives_same_run() {
    let protocols = Protocols::default();
    let case = Case::of(1_723, &protocols);
    let mut nodes = BTreeSet::new();
    let logged = play_logged(&case, &protocols, |node, _| _ = nodes.insert(node.to_owned()));
    let again = play_case(&case, &protocols);
    assert_eq!((logged.events, logged.is_reserved), (again.events, again.is_reserved));
    assert!(nodes.len() >= 4, "{nodes:?}");
}
