//! Collection of the families in slices, each of which asks the kernel a bounded number of questions.

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::listing::{LinkRow, ReservationRow};
use earmark_core::{InterfaceId, Rate, RowFilter, Time};
use earmark_node::{EngineSlots, Position};
use serde_json::Value;

use super::family::Family;
use super::histogram::Histogram;
use crate::control::{Hub, counters};
use crate::driver::{Driver, Kernel};
use crate::log::kind::{self, Kind};
use crate::protocols;

/// Links whose counters are read from the kernel in a slice.
const LINKS: usize = 2;
/// Reservations whose counters are read from the kernel in a slice.
const RESERVATIONS: usize = 16;
/// Places of the tables of reservations that are examined in a slice.
const SLOTS: usize = 4_096;
/// Senders of a reservation that its label names.
const SENDERS: usize = 4;

/// Kinds of events that every protocol counts from the start.
const FROM_THE_START: [&Kind; 8] = [
    &kind::RESERVATION_ADMITTED,
    &kind::RESERVATION_ENDED,
    &kind::RESERVATION_REFUSED,
    &kind::RESERVATION_PREEMPTED,
    &kind::NEIGHBOR_LOST,
    &kind::AUTHENTICATION_FAILED,
    &kind::LIMIT_REACHED,
    &kind::MESSAGE_DROPPED,
];

/// Labels of a sample.
type Labels = Vec<(&'static str, String)>;

/// A collection in progress.
#[derive(Debug)]
pub(super) struct Collection {
    step: Step,
    /// Bound of reservations with series of their own.
    bound: usize,
    links: Vec<(InterfaceId, String)>,
    families: Vec<Family>,
    octets: Family,
    reservations: ReservationFamilies,
}

/// What the next slice does.
#[derive(Clone, Copy, Debug)]
enum Step {
    General,
    /// The links from this position on.
    Links(usize),
    /// The reservations from this position on, after this many.
    Reservations(Position, usize),
}

impl Collection {
    /// Begins a collection with series of at most `bound` reservations.
    pub(super) fn begin(bound: usize) -> Collection {
        Collection {
            step: Step::General,
            bound,
            links: Vec::new(),
            families: Vec::new(),
            octets: Family::counters(
                "earmark_link_reserved_sent_bytes",
                "Octets that the reservations of a link have sent, as traffic control counts them.",
            ),
            reservations: ReservationFamilies::new(),
        }
    }

    /// Collects one slice. Returns whether there are more.
    pub(super) fn advance<K: Kernel>(
        &mut self,
        now: Time,
        turns: &Histogram,
        hub: &Hub,
        driver: &mut Driver<K>,
    ) -> bool {
        match self.step {
            Step::General => {
                driver.catch_up(now, &EngineSlots::default());
                self.general(turns, hub, driver);
                self.step = Step::Links(0);
            }
            Step::Links(from) => {
                let slice = self.links.get(from..).unwrap_or_default().iter().take(LINKS);
                for (id, name) in slice {
                    if let Some(octets) = driver.kernel().reserved_octets(*id) {
                        self.octets.count(vec![("interface", name.clone())], octets);
                    }
                }
                self.step = match from + LINKS < self.links.len() {
                    true => Step::Links(from + LINKS),
                    false => Step::Reservations(Position::START, 0),
                };
            }
            Step::Reservations(from, before) => {
                let most = self.bound.min(before + RESERVATIONS);
                let (mut rows, mut examined, mut last) = (before, 0, from);
                for (at, row) in driver.reservation_slots(now, from, &RowFilter::ALL) {
                    // A slot with several rows is taken whole.
                    if at != last && (rows >= most || examined >= SLOTS) {
                        self.step = Step::Reservations(at, rows);
                        return rows < self.bound;
                    }
                    (examined, last) = (examined + 1, at);
                    if let Some(row) = row.filter(|_| rows < self.bound) {
                        self.reservations.add(&row);
                        rows += 1;
                    }
                }
                return false;
            }
        }
        true
    }

    /// Returns the families.
    pub(super) fn finish(self) -> Vec<Family> {
        let Collection { mut families, octets, reservations, .. } = self;
        families.push(octets);
        families.extend(reservations.families);
        families.retain(|family| !family.samples.is_empty());
        families
    }

    /// Collects everything that the daemon itself knows.
    fn general<K: Kernel>(&mut self, turns: &Histogram, hub: &Hub, driver: &Driver<K>) {
        let mut version = Family::gauges("earmark_build_info", "Version of the daemon; always 1.");
        version.number(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0);
        self.families.push(version);
        self.add_links(driver);
        self.add_soft_states(hub, driver);
        self.add_requests(hub);
        for (part, counts) in counters(driver, hub.counters, hub.log.counters()) {
            self.add_counters(&format!("earmark_{part}"), part, &counts);
        }
        let mut lag = Family::histograms(
            "earmark_event_loop_turn_seconds",
            "Time of each turn of the event loop, from its wake-up to its next wait: what arrives meanwhile waits.",
        );
        lag.histogram(Vec::new(), turns);
        self.families.push(lag);
    }

    fn add_links<K: Kernel>(&mut self, driver: &Driver<K>) {
        /// Value of a link in its row, if it has it.
        type Of = fn(&LinkRow) -> Option<f64>;
        let gauges: [(&str, &str, Of); 7] = [
            ("link_up", "Whether the interface is up.", |row| Some(f64::from(u8::from(row.up)))),
            ("link_bandwidth_bytes_per_second", "Bandwidth of the link.", |row| {
                Some(octets(row.bandwidth_bps))
            }),
            ("link_reservable_bytes_per_second", "Reservable bandwidth of the link.", |row| {
                Some(octets(row.reservable_bps))
            }),
            ("link_reserved_bytes_per_second", "Reserved bandwidth of the link.", |row| {
                Some(octets(row.held_bps))
            }),
            ("link_claims", "Reservations of the link.", |row| Some(f64::from(row.claims))),
            (
                "link_adopted_flows",
                "Flows of the daemon before that nobody has claimed yet.",
                |row| Some(f64::from(row.adopted)),
            ),
            (
                "link_measured_bytes_per_second",
                "Load of the reservations as admission control by measurement sees it.",
                |row| row.admission.as_ref()?.measured_bps.map(octets),
            ),
        ];
        let rows: Vec<LinkRow> = driver.link_rows().collect();
        for (name, help, value) in gauges {
            let mut family = Family::gauges(format!("earmark_{name}"), help);
            for row in &rows {
                if let Some(value) = value(row) {
                    family.number(vec![("interface", row.interface.clone())], value);
                }
            }
            self.families.push(family);
        }
        self.links = rows.into_iter().map(|row| (InterfaceId(row.index), row.interface)).collect();
    }

    fn add_soft_states<K: Kernel>(&mut self, hub: &Hub, driver: &Driver<K>) {
        let mut family =
            Family::gauges("earmark_soft_states", "Soft states by part of the node and kind.");
        for (part, kind, count) in driver.node().engines().flat_map(|engine| engine.state_counts())
        {
            family.number(vec![("part", part.into()), ("kind", kind.into())], count as f64);
        }
        self.families.push(family);
        let mut family = Family::gauges(
            "earmark_table_bytes",
            "Memory of tables by part of the node, unused places included.",
        );
        let engines = driver.node().engines().flat_map(|engine| engine.table_octets());
        for (part, octets) in engines.chain([("ledger", driver.node().ledger().table_octets())]) {
            family.number(vec![("part", part.into())], octets as f64);
        }
        self.families.push(family);
        let mut family = Family::gauges("earmark_applications", "Applications of this host.");
        family.number(Vec::new(), hub.applications.len() as f64);
        self.families.push(family);
    }

    fn add_requests(&mut self, hub: &Hub) {
        let mut outcomes = Family::counters(
            "earmark_requests",
            "Requests of applications of this host by protocol and first outcome.",
        );
        for ((protocol, outcome), count) in &hub.statistics.outcomes {
            let outcome = outcome.name().to_owned();
            outcomes.count(vec![("protocol", protocol.clone()), ("outcome", outcome)], *count);
        }
        let mut setups = Family::histograms(
            "earmark_setup_seconds",
            "Time from a request of an application of this host to its reservation.",
        );
        for (protocol, histogram) in &hub.statistics.setups {
            setups.histogram(vec![("protocol", protocol.clone())], histogram);
        }
        let mut events = Family::counters(
            "earmark_events",
            "Events by part of the daemon and by the kind that their line has in the log.",
        );
        // A series that begins with its first event would hide this event from `increase`.
        let mut counts: BTreeMap<_, _> = protocols::all()
            .flat_map(|protocol| FROM_THE_START.map(|kind| ((protocol.name(), kind.name), 0)))
            .collect();
        counts.extend(&hub.statistics.events);
        for ((part, kind), count) in counts {
            events.count(vec![("part", part.into()), ("kind", kind.into())], count);
        }
        self.families.extend([outcomes, setups, events]);
    }

    /// Adds the counters of `earmark show counters`: a group of numbers is a family, with a label for the name of each.
    fn add_counters(&mut self, name: &str, part: &str, counts: &Value) {
        let Value::Object(counts) = counts else { return };
        let mut family = Family::counters(
            name,
            format!("Counters of {part}, as `earmark show counters` lists them."),
        );
        for (kind, count) in counts {
            match count {
                Value::Number(number) => {
                    family.count(vec![("kind", kind.clone())], number.as_u64().unwrap_or_default());
                }
                group => {
                    self.add_counters(&format!("{name}_{kind}"), &format!("{part} {kind}"), group);
                }
            }
        }
        self.families.push(family);
    }
}

/// Families of single reservations.
#[derive(Debug)]
struct ReservationFamilies {
    families: [Family; 5],
    /// Labels of the reservations that have samples.
    labels: BTreeSet<Labels>,
}

impl ReservationFamilies {
    fn new() -> ReservationFamilies {
        let families = [
            Family::gauges("earmark_reservation_rate_bytes_per_second", "Reserved rate."),
            Family::gauges(
                "earmark_reservation_enforced",
                "Whether the packets get the reservation.",
            ),
            Family::counters("earmark_reservation_sent_bytes", "Octets sent."),
            Family::counters("earmark_reservation_sent_packets", "Packets sent."),
            Family::counters(
                "earmark_reservation_dropped_packets",
                "Packets dropped because the queue was full.",
            ),
        ];
        ReservationFamilies { families, labels: BTreeSet::new() }
    }

    /// Adds the samples of a reservation, unless there are some with the same labels, which no scraper would accept.
    fn add(&mut self, row: &ReservationRow) {
        let labels = labels(row);
        if !self.labels.insert(labels.clone()) {
            return;
        }
        let [rate, enforced, octets, packets, drops] = &mut self.families;
        rate.number(labels.clone(), octets_of(row.rate_bps));
        if let Some(enforcement) = &row.enforcement {
            enforced.number(labels.clone(), f64::from(u8::from(enforcement.state == "enforced")));
        }
        if let Some(traffic) = &row.traffic {
            octets.count(labels.clone(), traffic.octets);
            packets.count(labels.clone(), traffic.packets);
            drops.count(labels, traffic.drops);
        }
    }
}

fn labels(row: &ReservationRow) -> Labels {
    let named: BTreeSet<String> = row
        .senders
        .iter()
        .take(SENDERS)
        .map(|sender| format!("{}:{}", sender.address, sender.port))
        .collect();
    let mut senders = named.into_iter().collect::<Vec<_>>().join(",");
    if row.senders.len() > SENDERS {
        senders.push_str(",...");
    }
    vec![
        ("protocol", row.protocol.clone().into_owned()),
        ("interface", row.interface.clone().unwrap_or_default()),
        ("destination", row.destination.to_string()),
        ("destination_port", row.destination_port.to_string()),
        ("ip_protocol", row.ip_protocol.to_string()),
        ("senders", senders),
        ("style", row.style.clone().into_owned()),
    ]
}

fn octets(rate: Rate) -> f64 {
    octets_of(rate.as_bps())
}

fn octets_of(bits: u64) -> f64 {
    bits as f64 / 8.0
}
