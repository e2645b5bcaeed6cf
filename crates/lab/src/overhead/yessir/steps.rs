//! Table 3: the steps of a signed request for a new flow, each for itself; and the whole of it, without and with the kernel's part.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, anyhow, ensure};
use earmark_core::admission::{
    ClaimId, Demand, Ledger, LinkCapacity, Owner, Protocol as Owning, Service,
};
use earmark_core::random::RandomStreams;
use earmark_core::{Flow, Hop, InterfaceId, Prefix, Rate, Route, RouteTable, Routes};
use earmark_wire::udp;
use earmark_wire::yessir::{Auth, Report};
use earmark_yessir::Stream;
use earmark_yessir::auth::Key as Secret;

use super::clock::{Clock, Tally};
use super::flows::Structure;
use super::sockets::{Send, Sockets};
use crate::bench::router::{Arrival, Protocol, Router, SIGNED, signing_key};
use crate::overhead::baselines::keyed::Keyed;
use crate::overhead::chapter::Estimate;

/// Flows that stand. The paper does not tell how many stood; up to so many its Table 2 is flat.
pub(super) const RESIDENT: u32 = 1_000;
/// New flows of a round. They are gone before the next.
const BATCH: u32 = 50;
/// Routes of a router in the backbone, among which a look-up is not a matter of course.
pub(super) const MANY_ROUTES: u32 = 65_000;
const LINK: InterfaceId = InterfaceId(2);
const DEMAND: Demand = Demand {
    service: Service::ControlledLoad,
    rate: Rate::from_bps(64_000),
    burst: 3_000,
    max_packet: 1_500,
};

/// Everything that takes part, and what was measured of it.
pub(super) struct Steps {
    router: Router,
    secret: Secret,
    index: Structure,
    few_routes: RouteTable,
    many_routes: RouteTable,
    ledger: Ledger,
    sockets: Sockets,
    /// Whether the message is whose it says.
    pub(super) integrity: Tally,
    pub(super) route: Tally,
    pub(super) route_of_many: Tally,
    pub(super) admission: Tally,
    /// All of it in the router.
    pub(super) total: Tally,
    /// Receiving it and sending it on, without the router's part,
    pub(super) system_calls: Tally,
    /// and with it.
    pub(super) through: Tally,
}

/// What the digest of a message is about.
struct Signed<'a> {
    stream: Stream,
    ssrc: u32,
    data: &'a [u8],
    auth: Auth,
}

impl Steps {
    /// Everything with its flows.
    ///
    /// # Errors
    /// There are no sockets.
    pub(super) fn new() -> Result<Steps> {
        let mut router = Router::that_wants_signatures();
        for number in 0..RESIDENT {
            router.deliver_all(&[SIGNED[0].of(&router, number, 0)]);
        }
        let mut ledger = Ledger::new();
        let bandwidth = Rate::from_mbps(400_000);
        ledger.set_link(LINK, LinkCapacity { bandwidth, reservable: bandwidth, mtu: 1_500 });
        for number in 0..RESIDENT {
            claim(&mut ledger, number)?;
        }
        Ok(Steps {
            router,
            secret: signing_key(),
            index: Structure::filled(Box::new(Keyed::new()), RESIDENT),
            few_routes: table(
                ["10.0.0.0/8", "172.16.0.0/12"].map(|text| text.parse().expect("a prefix")),
            ),
            many_routes: table(backbone()),
            ledger,
            sockets: Sockets::open()?,
            integrity: Tally::default(),
            route: Tally::default(),
            route_of_many: Tally::default(),
            admission: Tally::default(),
            total: Tally::default(),
            system_calls: Tally::default(),
            through: Tally::default(),
        })
    }

    /// Looking a flow up in vain, and entering it.
    pub(super) fn look_up(&self) -> &Tally {
        &self.index.build
    }

    /// Some flows come, step by step and then whole, and go again.
    ///
    /// # Errors
    /// A flow did not come, or a message was lost.
    pub(super) fn round(&mut self, clock: &Clock, round: u32) -> Result<()> {
        let first = RESIDENT + round * BATCH;
        let numbers = first..first + BATCH;
        let new: Vec<Arrival> =
            numbers.clone().map(|number| SIGNED[0].of(&self.router, number, round)).collect();
        let signed: Vec<Signed<'_>> = new.iter().filter_map(Signed::read).collect();
        ensure!(signed.len() == new.len(), "YESSIR: messages that cannot be read");
        let secret = &self.secret;
        self.integrity.add(clock.each(&signed, |message| message.is_genuine(secret)));
        self.index.round(clock, first);
        let destinations = || signed.iter().map(|message| message.stream.destination);
        self.route.add(clock.each(destinations(), |to| self.few_routes.lookup(black_box(to))));
        self.route_of_many
            .add(clock.each(destinations(), |to| self.many_routes.lookup(black_box(to))));
        let (ledger, mut claims) = (&mut self.ledger, Vec::with_capacity(BATCH as usize));
        self.admission.add(clock.each(numbers, |number| claims.push(claim(ledger, number))));
        for claim in claims {
            ledger.release(claim?);
        }
        let router = &mut self.router;
        self.total
            .add(clock.each(&new, |arrival| router.deliver_all(std::slice::from_ref(arrival))));
        self.part(round)?;
        let calls = |arrival: &Arrival, send: Send<'_>| Ok(send(arrival.octets())?);
        self.system_calls.add(self.sockets.pass(clock, &new, calls)?);
        let router = &mut self.router;
        let through = |arrival: &Arrival, send: Send<'_>| {
            router.deliver_all(std::slice::from_ref(arrival));
            Ok(router.sent().try_for_each(send)?)
        };
        self.through.add(self.sockets.pass(clock, &new, through)?);
        self.part(round)
    }

    /// All flows that have come in this round go.
    fn part(&mut self, round: u32) -> Result<()> {
        let count = || self.router.sessions(Protocol::Yessir);
        ensure!(count() == (RESIDENT + BATCH) as usize, "YESSIR: {} flows", count());
        let first = RESIDENT + round * BATCH;
        for number in first..first + BATCH {
            self.router.deliver_all(&[SIGNED[1].of(&self.router, number, round)]);
        }
        Ok(())
    }

    /// What the whole takes beyond the steps: the differences, round by round.
    pub(super) fn rest(&self) -> Option<Estimate> {
        let mut rest: Vec<f64> = self.total.means().collect();
        for step in [&self.integrity, self.look_up(), &self.route, &self.admission] {
            rest.iter_mut().zip(step.means()).for_each(|(rest, step)| *rest -= step);
        }
        Estimate::over_time(&rest)
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
        Some(Signed { stream, ssrc: message.ssrc, data, auth: message.auth? })
    }

    fn is_genuine(&self, secret: &Secret) -> bool {
        secret.digest(&self.stream, self.ssrc, self.data, self.auth.sequence) == self.auth.digest
    }
}

fn claim(ledger: &mut Ledger, number: u32) -> Result<ClaimId> {
    let flow = Flow {
        destination: Ipv4Addr::from_bits(0x0a00_0000 + number).into(),
        source: Some(Ipv4Addr::new(172, 16, 0, 1).into()),
        protocol: 17,
        destination_port: 5_000,
        source_port: 4_000,
        flow_label: 0,
        destination_open: 0,
        source_open: 0,
    };
    let owner = Owner { protocol: Owning::Yessir, block: number };
    let claim = ledger.claim(LINK, owner, &flow, DEMAND);
    claim.map_err(|refusal| anyhow!("YESSIR: the ledger refuses a flow: {:?}", refusal.reason))
}

fn table(prefixes: impl IntoIterator<Item = Prefix>) -> RouteTable {
    let hop = Hop { interface: LINK, gateway: None, source: None };
    let mut table = RouteTable::new();
    for prefix in prefixes {
        table.insert(Route { prefix, metric: 0, hop });
    }
    table
}

/// Prefixes of 8 to 24 bits, those of 24 the most by far. One in eight is where the flows go.
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
        let clock = Clock::calibrated();
        let mut steps = Steps::new().unwrap();
        for round in 0..3 {
            steps.round(&clock, round).unwrap();
        }
        assert_eq!(steps.router.sessions(Protocol::Yessir), RESIDENT as usize);
        let claims = steps.ledger.links().map(|(_, link)| link.claims).sum::<u32>();
        assert_eq!(claims, RESIDENT);
        for tally in [&steps.integrity, steps.look_up(), &steps.total, &steps.through] {
            assert!(tally.means().count() == 3 && tally.means().all(|mean| mean > 0.0));
        }
        assert_eq!(steps.rest().map(|rest| rest.repetitions), Some(3));
    }

    #[test]
    fn a_digest_is_good_for_its_own_message() {
        let router = Router::that_wants_signatures();
        let arrival = SIGNED[0].of(&router, 7, 0);
        let mut signed = Signed::read(&arrival).unwrap();
        assert!(signed.is_genuine(&signing_key()));
        signed.ssrc += 1;
        assert!(!signed.is_genuine(&signing_key()));
    }
}
