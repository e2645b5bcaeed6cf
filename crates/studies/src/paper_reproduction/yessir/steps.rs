//! Table 3: steps of a signed request for a new flow, and the whole request, without and with the kernel's part.
//!
//! The engine marks look-up, creation and admission of the flow itself (checkpoint 3); the check of the digest and
//! the look-up of the route, which are one step there, are timed separately.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};
use earmark_core::checkpoint::Checkpoint;
use earmark_core::random::RandomStreams;
use earmark_core::{Hop, InterfaceId, Prefix, Route, RouteTable, Routes};
use earmark_wire::rtcp::SenderInfo;
use earmark_wire::udp;
use earmark_wire::yessir::{Auth, Report};
use earmark_yessir::Stream;
use earmark_yessir::auth::{Covered, Key as Secret};

use super::clock::{Clock, Tally};
use super::flows::{Batches, build, filled};
use super::sockets::{Send, Sockets};
use crate::bench::router::{Arrival, Protocol, Router, SIGNED, signing_key};
use crate::paper_reproduction::baselines::Index;
use crate::paper_reproduction::baselines::keyed_hash::KeyedHashTable;
use crate::paper_reproduction::checkpoint_trace::{
    self, CheckpointTracing, TracePoint, by_message, record,
};
use crate::paper_reproduction::section::Estimate;

/// Number of resident flows, which the paper does not state; its Table 2 is flat up to this number.
pub(super) const RESIDENT: u32 = 1_000;
/// Number of new flows of a batch, which are removed before the next.
const BATCH: u32 = 50;
/// Number of routes of a backbone router, for a realistic look-up.
pub(super) const MANY_ROUTES: u32 = 65_000;
const LINK: InterfaceId = InterfaceId(2);

/// Times of the steps.
#[derive(Default)]
pub(super) struct Steps {
    /// Check of the message's authentication.
    pub(super) integrity: Tally,
    /// Failed look-up of the flow, and its creation with timer and source limits.
    pub(super) look_up: Tally,
    /// Look-up and creation in the index alone.
    pub(super) look_up_alone: Tally,
    pub(super) route: Tally,
    pub(super) route_of_many: Tally,
    /// Admission: update of the link's reserved rate, and the claim in the ledger.
    pub(super) admission: Tally,
    /// The whole request in the router.
    pub(super) total: Tally,
    /// Receiving and sending without the router.
    pub(super) system_calls: Tally,
    /// Receiving and sending with the router.
    pub(super) through: Tally,
    /// Cost of reading the clock, round by round, microseconds.
    pub(super) clock_us: Vec<f64>,
}

/// Objects of a round.
struct Bench {
    router: Router,
    secret: Secret,
    index: Box<dyn Index>,
    few_routes: RouteTable,
    many_routes: RouteTable,
    sockets: Sockets,
    stamps: Vec<TracePoint>,
}

/// Input of a message's digest.
struct Signed<'a> {
    stream: Stream,
    ssrc: u32,
    sender: SenderInfo,
    goodbye: bool,
    data: &'a [u8],
    auth: Auth,
}

impl Steps {
    /// Creates all objects anew, and adds flows step by step and then whole, and removes them.
    ///
    /// # Errors
    /// A flow was not added, a message was lost, or the sockets are unavailable.
    pub(super) fn round(
        &mut self,
        marks_clock: &checkpoint_trace::Clock,
        batches: Batches,
    ) -> Result<()> {
        let mut bench = Bench::new()?;
        let clock = Clock::calibrated();
        self.clock_us.push(clock.cost_us());
        for batch in 0..batches.of_steps {
            self.batch(&mut bench, &clock, marks_clock, batch)?;
        }
        self.all().into_iter().for_each(Tally::end_round);
        Ok(())
    }

    fn all(&mut self) -> [&mut Tally; 9] {
        [
            &mut self.integrity,
            &mut self.look_up,
            &mut self.look_up_alone,
            &mut self.route,
            &mut self.route_of_many,
            &mut self.admission,
            &mut self.total,
            &mut self.system_calls,
            &mut self.through,
        ]
    }

    fn batch(
        &mut self,
        bench: &mut Bench,
        clock: &Clock,
        marks_clock: &checkpoint_trace::Clock,
        batch: u32,
    ) -> Result<()> {
        let first = RESIDENT + batch * BATCH;
        let numbers = first..first + BATCH;
        // The router refuses replays, also of other streams of a source that have ended: rounds grow.
        let rounds = [3 * batch, 3 * batch + 1, 3 * batch + 2];
        let [new, again, once_more] = rounds.map(|round| -> Vec<Arrival> {
            numbers.clone().map(|number| SIGNED[0].of(&bench.router, number, round)).collect()
        });
        let signed: Vec<Signed<'_>> = new.iter().filter_map(Signed::read).collect();
        ensure!(signed.len() == new.len(), "YESSIR: messages that cannot be read");
        let secret = &bench.secret;
        clock.each(&mut self.integrity, &signed, |message| message.is_genuine(secret));
        build(&mut *bench.index, clock, &mut self.look_up_alone, first, BATCH);
        let destinations = || signed.iter().map(|message| message.stream.destination);
        let (few, many) = (&bench.few_routes, &bench.many_routes);
        clock.each(&mut self.route, destinations(), |to| few.lookup(black_box(to)));
        clock.each(&mut self.route_of_many, destinations(), |to| many.lookup(black_box(to)));
        self.marked(bench, marks_clock, &new)?;
        bench.part(batch, rounds[0])?;
        let router = &mut bench.router;
        let deliver = |arrival| router.deliver_all(std::slice::from_ref(arrival));
        clock.each(&mut self.total, &again, deliver);
        bench.part(batch, rounds[1])?;
        let calls = |arrival: &Arrival, send: Send<'_>| Ok(send(arrival.octets())?);
        bench.sockets.pass(clock, &mut self.system_calls, &new, calls)?;
        let router = &mut bench.router;
        let through = |arrival: &Arrival, send: Send<'_>| {
            router.deliver_all(std::slice::from_ref(arrival));
            Ok(router.sent().try_for_each(send)?)
        };
        bench.sockets.pass(clock, &mut self.through, &once_more, through)?;
        bench.part(batch, rounds[2])
    }

    /// Times the steps that the engine marks.
    fn marked(
        &mut self,
        bench: &mut Bench,
        clock: &checkpoint_trace::Clock,
        new: &[Arrival],
    ) -> Result<()> {
        let marks = CheckpointTracing::begin();
        let Bench { router, stamps, .. } = bench;
        record(&marks, stamps, || router.deliver_all(new))?;
        drop(marks);
        ensure!(by_message(stamps).count() == new.len(), "YESSIR: messages without marks");
        for message in by_message(stamps) {
            let is_look_up =
                |step| matches!(step, Checkpoint::FindSession | Checkpoint::CreateSession);
            self.look_up.add(clock.steps_us(message, is_look_up));
            self.admission.add(clock.steps_us(message, |step| step == Checkpoint::Admission));
        }
        Ok(())
    }

    /// Returns the time of the whole request less its steps, from the differences of each round.
    pub(super) fn rest(&self) -> Option<Estimate> {
        let mut rest: Vec<f64> = self.total.means().collect();
        for step in [&self.integrity, &self.look_up, &self.route, &self.admission] {
            rest.iter_mut().zip(step.means()).for_each(|(rest, step)| *rest -= step);
        }
        self.total.estimate(rest.into_iter())
    }
}

impl Bench {
    /// Creates all objects with their flows.
    fn new() -> Result<Bench> {
        let mut router = Router::requiring_signatures();
        for number in 0..RESIDENT {
            router.deliver_all(&[SIGNED[0].of(&router, number, 0)]);
        }
        let few = ["10.0.0.0/8", "172.16.0.0/12"].map(|text| text.parse().expect("a prefix"));
        Ok(Bench {
            router,
            secret: signing_key(),
            index: filled(Box::new(KeyedHashTable::new()), RESIDENT),
            few_routes: table(few),
            many_routes: table(backbone()),
            sockets: Sockets::open()?,
            stamps: Vec::new(),
        })
    }

    /// Removes all flows of this batch, which messages of this round have created.
    fn part(&mut self, batch: u32, round: u32) -> Result<()> {
        let count = self.router.sessions(Protocol::Yessir);
        ensure!(count == (RESIDENT + BATCH) as usize, "YESSIR: {count} flows");
        let first = RESIDENT + batch * BATCH;
        for number in first..first + BATCH {
            self.router.deliver_all(&[SIGNED[1].of(&self.router, number, round)]);
        }
        Ok(())
    }
}

impl<'a> Signed<'a> {
    fn read(arrival: &'a Arrival) -> Option<Signed<'a>> {
        let packet = udp::Packet::parse(arrival.octets()).ok()?;
        let report = Report::parse(packet.payload).ok()?;
        let (message, places) = report.message?;
        let (source, destination) = arrival.ends();
        let stream = Stream {
            source,
            destination,
            source_port: packet.source_port - 1,
            destination_port: packet.destination_port - 1,
        };
        let data = places.data(packet.payload);
        let (sender, goodbye) = (report.sender?, report.goodbye);
        Some(Signed { stream, ssrc: message.ssrc, sender, goodbye, data, auth: message.auth? })
    }

    fn is_genuine(&self, secret: &Secret) -> bool {
        let &Signed { ref stream, ssrc, sender, goodbye, data, auth } = self;
        let covered = Covered { stream, ssrc, sender, goodbye, data };
        secret.digest(&covered, auth.sequence) == auth.digest
    }
}

fn table(prefixes: impl IntoIterator<Item = Prefix>) -> RouteTable {
    let hop = Hop { interface: LINK, gateway: None, source: None };
    let mut table = RouteTable::new();
    for prefix in prefixes {
        table.insert(Route { prefix, metric: 0, hop });
    }
    table
}

/// Prefixes of 8 to 24 bits, most of them 24. One in eight covers the flows.
fn backbone() -> impl Iterator<Item = Prefix> {
    let mut random = RandomStreams::new(1).stream("routes");
    (0..MANY_ROUTES).map(move |number| {
        let bits = random.next_u64() as u32;
        let bits = if number.is_multiple_of(8) { 0x0a00_0000 | bits >> 8 } else { bits };
        let length = if number.is_multiple_of(4) { 8 + (random.next_u64() % 16) as u8 } else { 24 };
        Prefix::new(IpAddr::V4(Ipv4Addr::from_bits(bits)), length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_measured_and_flows_go_again() {
        let clock = checkpoint_trace::Clock::calibrate(&CheckpointTracing::begin()).unwrap();
        let batches = Batches { of_flows: 1, of_steps: 2 };
        let mut steps = Steps::default();
        for _ in 0..3 {
            steps.round(&clock, batches).unwrap();
        }
        for tally in steps.all() {
            assert!(tally.means().count() == 3);
            let repetitions = tally.mean().map(|mean| mean.repetitions);
            assert_eq!(repetitions, Some(3 * 2 * u64::from(BATCH)));
        }
        for tally in [&steps.integrity, &steps.look_up, &steps.admission, &steps.through] {
            assert!(tally.means().all(|mean| mean > 0.0));
        }
        assert_eq!((steps.rest().is_some(), steps.clock_us.len()), (true, 3));
        let mut bench = Bench::new().unwrap();
        steps.batch(&mut bench, &Clock::calibrated(), &clock, 7).unwrap();
        assert_eq!(bench.router.sessions(Protocol::Yessir), RESIDENT as usize);
        assert!(bench.part(7, 0).is_err(), "they have gone");
    }

    #[test]
    fn digest_matches_only_its_own_message() {
        let router = Router::requiring_signatures();
        let arrival = SIGNED[0].of(&router, 7, 0);
        let mut signed = Signed::read(&arrival).unwrap();
        assert!(signed.is_genuine(&signing_key()));
        signed.ssrc += 1;
        assert!(!signed.is_genuine(&signing_key()));
    }
}
