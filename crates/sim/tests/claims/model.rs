//! What stands, and what it gives to packets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use earmark_core::{Flow, Prefix, Rate};
use earmark_wire::rsvp::Style;

use crate::play::Host;

const UDP: u8 = 17;
/// Destination ports: of the session with two senders, and of the one with a single sender.
pub(crate) const PORTS: [u16; 2] = [5_000, 5_002];
/// Source ports of h1, by flow. YESSIR takes each for one stream only.
pub(crate) const SOURCE_PORTS: [u16; 3] = [6_000, 6_002, 6_004];
/// Every host of the network.
const EVERYBODY: &str = "10.0.0.0/16";

/// Where flows begin and end: h1 and h2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

/// Who reserves, for what, and by which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claimant {
    /// By RSVP, the two flows to the first port.
    RsvpTwo,
    /// By RSVP, the flow to the second port.
    RsvpOne,
    /// By Boomerang, the first flow.
    BoomerangFirst,
    /// By Boomerang, whatever goes from h1 to h2 in UDP.
    BoomerangHosts,
    /// By Boomerang, the last flow, in the name of h1.
    BoomerangStranger,
    /// By Boomerang, whatever goes to the network of h2.
    BoomerangRange,
    /// By YESSIR, the last flow.
    YessirAlone,
    /// By YESSIR, the first two flows together, as whatever goes to the first port.
    YessirShared,
    /// By NSIS, the first flow.
    NsisFirst,
    /// By NSIS, the second flow.
    NsisSecond,
    /// By NSIS, whatever goes from everybody to the first port.
    NsisRange,
}

impl Claimant {
    pub(crate) const ALL: [Claimant; 11] = [
        Claimant::RsvpTwo,
        Claimant::RsvpOne,
        Claimant::BoomerangFirst,
        Claimant::BoomerangHosts,
        Claimant::BoomerangStranger,
        Claimant::BoomerangRange,
        Claimant::YessirAlone,
        Claimant::YessirShared,
        Claimant::NsisFirst,
        Claimant::NsisSecond,
        Claimant::NsisRange,
    ];

    /// Where it is.
    pub(crate) fn host(self) -> Host {
        match self {
            Claimant::BoomerangStranger | Claimant::BoomerangRange | Claimant::NsisRange => Host::X,
            _ => Host::H1,
        }
    }

    /// What it reserves for: each of these by itself.
    pub(crate) fn flows(self, ends: Ends) -> Vec<Flow> {
        let [first, second, last] = flows(ends);
        match self {
            Claimant::RsvpTwo | Claimant::YessirShared => vec![first, second],
            Claimant::BoomerangFirst | Claimant::NsisFirst => vec![first],
            Claimant::NsisSecond => vec![second],
            Claimant::RsvpOne | Claimant::BoomerangStranger | Claimant::YessirAlone => vec![last],
            Claimant::BoomerangHosts => vec![Flow { source_port: 0, destination_port: 0, ..first }],
            Claimant::BoomerangRange => {
                let network = Prefix::new(ends.destination, 24);
                vec![Flow::to_range(network)]
            }
            Claimant::NsisRange => {
                let everybody: Prefix = EVERYBODY.parse().expect("a prefix");
                let source = Some(everybody.address());
                vec![Flow { source, source_open: 32 - everybody.length(), source_port: 0, ..first }]
            }
        }
    }

    /// What r1 holds for it.
    fn claims(self, ends: Ends, styles: [Style; 2], rate: Rate) -> Vec<Claim> {
        let flows = self.flows(ends);
        let style = match self {
            Claimant::RsvpTwo => styles[0],
            Claimant::RsvpOne => styles[1],
            // All senders to the port share it, like this style of RSVP.
            Claimant::YessirShared => Style::Wildcard,
            _ => Style::FixedFilter,
        };
        match style {
            Style::FixedFilter => {
                flows.into_iter().map(|flow| Claim { flows: vec![flow], rate }).collect()
            }
            Style::SharedExplicit => vec![Claim { flows, rate }],
            Style::Wildcard => {
                vec![Claim { flows: vec![Flow { source: None, source_port: 0, ..flows[0] }], rate }]
            }
        }
    }
}

/// The flows whose packets are looked at: two to the first port, and one to the second.
pub(crate) fn flows(ends: Ends) -> [Flow; 3] {
    let flow = |source_port, destination_port| Flow {
        destination: ends.destination,
        source: Some(ends.source),
        protocol: UDP,
        destination_port,
        source_port,
        flow_label: 0,
        destination_open: 0,
        source_open: 0,
    };
    let ([first, second, last], [two, one]) = (SOURCE_PORTS, PORTS);
    [flow(first, two), flow(second, two), flow(last, one)]
}

/// A claim on flows, which share it if there are several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) flows: Vec<Flow>,
    pub(crate) rate: Rate,
}

/// All that stands.
pub(crate) fn claims(
    standing: &BTreeMap<Claimant, Rate>,
    ends: Ends,
    styles: [Style; 2],
) -> Vec<Claim> {
    let of_one = |(claimant, rate): (&Claimant, &Rate)| claimant.claims(ends, styles, *rate);
    let mut claims: Vec<Claim> = standing.iter().flat_map(of_one).collect();
    claims.sort();
    claims
}

/// What a flow has while no other flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The rate of the best claim, with which the flow is whole.
    pub(crate) best: Rate,
    /// All that it can use: of the claims on each flow or range that it lies in the largest that is this one's alone, and the
    /// largest that several share.
    pub(crate) all: Rate,
    /// The rate of the best claim that the next daemon finds: of the claims on each flow or range one, and one that several
    /// share only where there is no other.
    pub(crate) adopted: Rate,
}

/// What a flow has of these claims.
pub(crate) fn share(claims: &[Claim], packet: &Flow) -> Share {
    let mut largest: BTreeMap<(Flow, bool), u64> = BTreeMap::new();
    for claim in claims {
        for flow in claim.flows.iter().filter(|flow| flow.covers(packet)) {
            let known = largest.entry((*flow, claim.flows.len() > 1)).or_default();
            *known = claim.rate.as_bps().max(*known);
        }
    }
    let alone = |flow: &Flow| largest.contains_key(&(*flow, false));
    let found = largest.iter().filter(|((flow, shared), _)| !shared || !alone(flow));
    let adopted = found.map(|(_, rate)| *rate).max().unwrap_or(0);
    let best = largest.values().copied().max().unwrap_or(0);
    let all = largest.values().sum();
    let [best, all, adopted] = [best, all, adopted].map(Rate::from_bps);
    Share { best, all, adopted }
}
