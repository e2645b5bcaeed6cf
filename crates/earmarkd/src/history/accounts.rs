//! What the driver notes about reservations.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

use earmark_core::admission::{ClaimId, Service};
use earmark_core::{EndReason, Flow, Installation, InterfaceId, Time};
use earmark_history::{Append, Counts, FlowKey, Journal, Record, Reservation, Status};
use earmark_node::Node;
use jiff::Timestamp;
use serde::Serialize;
use tracing::warn;

use crate::driver::Kernel;
use crate::log::kind;

/// Most reservations whose counters are read in a turn: about a millisecond.
const MOST_READ: usize = 64;
/// Shortest interval between turns that read counters.
const SHORTEST: Duration = Duration::from_millis(10);
/// Octets of records after which they are appended at the end of the daemon, so that they do not grow without bound.
const LARGEST_APPEND: usize = 64 * 1024;
/// Why reservations end that the daemon removes at its own end.
const STOPPED: &str = "stopped";

/// How far the journal is applied, as the thread of the writer says it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied {
    /// State of the writer.
    pub(crate) status: Arc<Status>,
    /// The thread, which waits for records.
    pub(crate) thread: Option<Thread>,
}

/// A reservation that has a record.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    /// Packets forwarded and dropped when the queue was last read.
    packets: u64,
}

/// Counters of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccountCounters {
    /// Records appended to the journal.
    pub appended: u64,
    /// Records of the journal that are in the database: also those of an earlier daemon.
    pub applied: u64,
    /// Lines of the journal that were no records of this version.
    pub invalid: u64,
    /// Records lost because the journal was full.
    pub lost: u64,
}

/// The accounting records of a running daemon.
#[derive(Debug)]
pub struct Accounts {
    journal: Journal,
    applied: Applied,
    interval: Duration,
    known: BTreeMap<ClaimId, Known>,
    last_number: u64,
    /// Reservations installed by the effects at hand, and those changed.
    begun: Vec<(ClaimId, InterfaceId, Flow)>,
    changed: Vec<ClaimId>,
    /// Records that are not appended yet.
    lines: Vec<u8>,
    records: u64,
    counters: AccountCounters,
    /// Lost records of which the journal has no note yet.
    unnoted: u64,
    /// Last reservation whose counters were read, in the round at hand.
    cursor: Option<ClaimId>,
    next_reading: Time,
    /// Whether the round at hand describes the reservations again, because their records may be lost, and whether the next one
    /// must.
    describes: bool,
    must_describe: bool,
}

impl Accounts {
    /// Begins the records of a daemon. Adopted flows follow, and then [`Accounts::adopted_all`].
    pub fn begin(journal: Journal, node: &str, interval: Duration) -> Accounts {
        let mut accounts = Accounts {
            journal,
            applied: Applied::default(),
            interval,
            known: BTreeMap::new(),
            last_number: 0,
            begun: Vec::new(),
            changed: Vec::new(),
            lines: Vec::new(),
            records: 0,
            counters: AccountCounters::default(),
            unnoted: 0,
            cursor: None,
            next_reading: Time::ZERO + interval,
            describes: false,
            must_describe: false,
        };
        accounts.add(&Record::Started { at_ms: wall_ms(), node: node.to_owned() });
        accounts
    }

    /// Sets who applies the journal.
    pub(crate) fn set_applied(&mut self, applied: Applied) {
        self.applied = applied;
        self.append();
    }

    /// Returns the counters.
    pub fn counters(&self) -> AccountCounters {
        let status = &self.applied.status;
        AccountCounters { applied: status.applied(), invalid: status.invalid(), ..self.counters }
    }

    /// Notes that the kernel still has a flow of an earlier daemon.
    pub(crate) fn adopted(&mut self, flow: FlowKey) {
        self.add(&Record::Adopted { flow });
    }

    /// Notes that there are no more adopted flows.
    pub(crate) fn adopted_all(&mut self) {
        self.add(&Record::AdoptedAll {});
        self.append();
    }

    /// Notes that adopted flows are about to be removed, each with what its queue has counted.
    pub(crate) fn not_adopted(&mut self, flows: impl Iterator<Item = (FlowKey, Counts)>) {
        for (flow, counts) in flows {
            self.add(&Record::NotAdopted { flow, at_ms: wall_ms(), counts: Some(counts) });
        }
        self.append_noted();
    }

    /// Notes that a reservation was installed, or changed.
    pub(crate) fn installed(&mut self, installation: &Installation) {
        let Installation { claim, interface, flow, .. } = *installation;
        match self.known.contains_key(&claim) {
            true => self.changed.push(claim),
            false => self.begun.push((claim, interface, flow)),
        }
    }

    /// Notes that the flows of a reservation have changed.
    pub(crate) fn flows_changed(&mut self, claim: ClaimId) {
        self.changed.push(claim);
    }

    /// Notes that reservations are about to end, and appends that: a daemon that is killed before it has removed their queues finds
    /// queues without a record, and not records without a queue.
    pub(crate) fn end<K: Kernel>(
        &mut self,
        ending: impl Iterator<Item = (ClaimId, EndReason)>,
        kernel: &mut K,
    ) {
        for (claim, reason) in ending {
            if let Some(known) = self.known.remove(&claim) {
                let counts = kernel.counted(claim);
                self.ended(known, reason.name(), counts);
            }
        }
        self.append_noted();
    }

    /// Notes that a reservation was removed, perhaps one installed by the effects at hand, which needs no record.
    pub(crate) fn removed(&mut self, claim: ClaimId) {
        self.begun.retain(|(begun, ..)| *begun != claim);
    }

    fn ended(&mut self, Known { number, .. }: Known, reason: &str, counts: Option<Counts>) {
        let (at_ms, reason) = (wall_ms(), reason.to_owned());
        self.add(&Record::Ended { number, at_ms, reason, counts });
    }

    /// Appends what was noted since the last call. The node's state is that after all effects. Nearly all effects are those of
    /// refreshes, which note nothing.
    #[inline]
    pub(crate) fn settle<K: Kernel>(&mut self, now: Time, node: &Node, kernel: &K) {
        if !(self.begun.is_empty() && self.changed.is_empty() && self.lines.is_empty()) {
            self.settle_noted(now, node, kernel);
        }
    }

    fn settle_noted<K: Kernel>(&mut self, now: Time, node: &Node, kernel: &K) {
        for (claim, interface, flow) in std::mem::take(&mut self.begun) {
            if self.known.contains_key(&claim) {
                continue;
            }
            self.last_number += 1;
            let known = Known { number: self.last_number, packets: 0 };
            self.known.insert(claim, known);
            let counts = kernel.counted_before(claim);
            self.describe(now, node, (claim, known.number), (interface, flow), counts);
        }
        for claim in std::mem::take(&mut self.changed) {
            let Some(&Known { number, .. }) = self.known.get(&claim) else { continue };
            let flow = kernel.installed_flow(claim).map(|(_, flow)| flow);
            if let Some(reservation) = reservation(now, node, claim, flow) {
                self.add(&Record::Changed { number, at_ms: wall_ms(), reservation });
            }
        }
        self.append_noted();
    }

    /// Describes a reservation as a whole.
    fn describe(
        &mut self,
        now: Time,
        node: &Node,
        (claim, number): (ClaimId, u64),
        (interface, flow): (InterfaceId, Flow),
        counts: Counts,
    ) {
        let Some(reservation) = reservation(now, node, claim, Some(flow)) else { return };
        let flow = flow_key(node, interface, flow, Some(&reservation.protocol));
        self.add(&Record::Begun { number, at_ms: wall_ms(), flow, counts, reservation });
    }

    /// Returns when [`Accounts::read`] must be called.
    pub(crate) fn next_reading(&self) -> Time {
        self.next_reading
    }

    /// Reads the counters of some reservations, so that all are read once in each interval.
    pub(crate) fn read<K: Kernel>(&mut self, now: Time, node: &Node, kernel: &mut K) {
        if self.cursor.is_none() {
            self.describes = std::mem::take(&mut self.must_describe);
        }
        let from = self.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let (pause, most) = pace(self.known.len(), self.interval);
        let some: Vec<(ClaimId, Known)> = self
            .known
            .range((from, Bound::Unbounded))
            .take(most)
            .map(|(&claim, &known)| (claim, known))
            .collect();
        let is_last = some.len() < most;
        for (claim, known) in &some {
            self.read_one(now, node, kernel, *claim, *known);
        }
        // The next round begins with a pause as well.
        self.cursor = some.last().map(|(claim, _)| *claim).filter(|_| !is_last);
        self.next_reading = now + pause;
        if !self.lines.is_empty() || self.unnoted > 0 {
            self.append();
        }
    }

    fn read_one<K: Kernel>(
        &mut self,
        now: Time,
        node: &Node,
        kernel: &mut K,
        claim: ClaimId,
        known: Known,
    ) {
        let counts = kernel.counted(claim);
        if self.describes
            && let Some(on) = kernel.installed_flow(claim)
        {
            let counts = counts.unwrap_or_default();
            return self.describe(now, node, (claim, known.number), on, counts);
        }
        let Some(counts) = counts else { return };
        let packets = counts.packets.wrapping_add(counts.drops);
        if packets != known.packets {
            if let Some(known) = self.known.get_mut(&claim) {
                known.packets = packets;
            }
            self.add(&Record::Used { number: known.number, at_ms: wall_ms(), counts });
        }
    }

    /// Notes the end of all reservations, which the daemon is about to remove, or what they have used until now if they stay.
    pub(crate) fn close<K: Kernel>(&mut self, kernel: &mut K, stay: bool) {
        for (claim, known) in std::mem::take(&mut self.known) {
            let counts = kernel.counted(claim);
            match counts {
                Some(counts) if stay => {
                    let at_ms = wall_ms();
                    self.add(&Record::Used { number: known.number, at_ms, counts });
                }
                _ if stay => {}
                _ => self.ended(known, STOPPED, counts),
            }
            if self.lines.len() > LARGEST_APPEND {
                self.append();
            }
        }
        self.append();
    }

    fn add(&mut self, record: &Record) {
        record.add_to(&mut self.lines);
        self.records += 1;
    }

    /// Appends the records to the journal, if there are any.
    fn append_noted(&mut self) {
        if !self.lines.is_empty() {
            self.append();
        }
    }

    /// Appends the records to the journal, or counts them as lost.
    fn append(&mut self) {
        let oldest = self.applied.status.oldest_segment();
        let (records, mut lines) = (self.records, std::mem::take(&mut self.lines));
        self.records = 0;
        if self.unnoted > 0 {
            let note = Record::Lost { at_ms: wall_ms(), records: self.unnoted };
            let mut noted = Vec::new();
            note.add_to(&mut noted);
            noted.append(&mut lines);
            lines = noted;
        }
        match self.journal.append(&lines, oldest) {
            Append::Done => {
                // The note of lost records is a record as well.
                self.counters.appended += records + u64::from(self.unnoted > 0);
                self.unnoted = 0;
            }
            Append::Full => {
                if self.unnoted == 0 {
                    let journal = self.journal.directory().display();
                    warn!(
                        kind = kind::RECORDS_LOST.name,
                        "accounting records are lost: the journal in {journal} is full, or cannot be written"
                    );
                }
                self.counters.lost += records;
                self.unnoted += records;
                self.must_describe = true;
            }
        }
        if let Some(thread) = &self.applied.thread {
            thread.unpark();
        }
        lines.clear();
        self.lines = lines;
    }
}

/// Returns the pause between turns that read counters, and the number of reservations in each.
fn pace(reservations: usize, interval: Duration) -> (Duration, usize) {
    let turns = u32::try_from(reservations.max(1)).unwrap_or(u32::MAX);
    let pause = (interval / turns).clamp(SHORTEST, interval);
    let turns = (interval.as_nanos() / pause.as_nanos()).max(1);
    let turns = usize::try_from(turns).unwrap_or(usize::MAX);
    (pause, reservations.div_ceil(turns).clamp(1, MOST_READ))
}

/// Describes the reservation of a claim on a link: as its engine lists it, or else, for an aggregate that no engine lists, by its flow.
fn reservation(now: Time, node: &Node, claim: ClaimId, flow: Option<Flow>) -> Option<Reservation> {
    let ledger = node.ledger();
    let link = node.interface_name(ledger.link_of(claim)?);
    let demand = ledger.demand(claim)?;
    let rate_bps = demand.rate.as_bps();
    if let Some(row) = node.reservation_of(claim, now) {
        return Some(Reservation { rate_bps, ..Reservation::on(link, row) });
    }
    let flow = flow?;
    let protocol = node.protocol_name(ledger.owner(claim)?.protocol)?;
    Some(Reservation {
        protocol: protocol.to_owned(),
        link,
        destination: flow.destination,
        destination_port: flow.destination_port,
        ip_protocol: flow.protocol,
        dscp: (flow.dscp != 0).then_some(flow.dscp),
        senders: Vec::new(),
        style: String::new(),
        service: service_name(demand.service).to_owned(),
        user: None,
        rate_bps,
    })
}

/// Returns the flow on a link as records name it.
pub(crate) fn flow_key(
    node: &Node,
    interface: InterfaceId,
    flow: Flow,
    protocol: Option<&str>,
) -> FlowKey {
    FlowKey { link: node.interface_name(interface), protocol: protocol.map(str::to_owned), flow }
}

fn service_name(service: Service) -> &'static str {
    match service {
        Service::ControlledLoad => "controlled-load",
        Service::Guaranteed => "guaranteed",
    }
}

fn wall_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_counters_are_read_once_in_an_interval() {
        let interval = Duration::from_secs(300);
        for reservations in [0, 1, 7, 300, 30_000, 30_001, 1_000_000] {
            let (pause, most) = pace(reservations, interval);
            assert!(pause >= SHORTEST && most <= MOST_READ, "{reservations}: {pause:?}, {most}");
            let turns = reservations.div_ceil(most);
            let round = pause * u32::try_from(turns).expect("few");
            assert!(round <= interval, "{reservations} take {round:?}");
        }
        // More than can be read in time take longer, and no turn has more.
        assert_eq!(pace(10_000_000, interval), (SHORTEST, MOST_READ));
    }
}
