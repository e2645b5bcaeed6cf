//! Model of the installed claims, and the rates that they give to packets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use earmark_core::{Flow, Prefix, Rate};
use earmark_wire::rsvp::Style;

use super::play::Host;

const UDP: u8 = 17;
/// Destination ports: of the session with two senders, and of the one with a single sender.
pub(crate) const PORTS: [u16; 2] = [5_000, 5_002];
/// Source ports of h1, by flow. YESSIR uses each for one stream only.
pub(crate) const SOURCE_PORTS: [u16; 3] = [6_000, 6_002, 6_004];
/// Address range of every host of the network.
const EVERYBODY: &str = "10.0.0.0/16";

/// Ends of the flows: h1 and h2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

/// A reserving host, with its protocol and flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claimant {
    /// By RSVP, the two flows to the first port.
    RsvpTwo,
    /// By RSVP, the flow to the second port.
    RsvpOne,
    /// By Boomerang, the first flow.
    BoomerangFirst,
    /// By Boomerang, all UDP from h1 to h2.
    BoomerangHosts,
    /// By Boomerang, the last flow, on behalf of h1.
    BoomerangStranger,
    /// By Boomerang, everything to the network of h2.
    BoomerangRange,
    /// By YESSIR, the last flow.
    YessirAlone,
    /// By YESSIR, the first two flows together, as everything to the first port.
    YessirShared,
    /// By NSIS, the first flow.
    NsisFirst,
    /// By NSIS, the second flow.
    NsisSecond,
    /// By NSIS, everything from all hosts to the first port.
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

    /// Returns its host.
    pub(crate) fn host(self) -> Host {
        match self {
            Claimant::BoomerangStranger | Claimant::BoomerangRange | Claimant::NsisRange => Host::X,
            _ => Host::H1,
        }
    }

    /// Returns its flows, each reserved by itself.
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

    /// Returns r1's claims for it.
    fn claims(self, ends: Ends, styles: [Style; 2], rate: Rate) -> Vec<Claim> {
        let flows = self.flows(ends);
        let style = match self {
            Claimant::RsvpTwo => styles[0],
            Claimant::RsvpOne => styles[1],
            // All senders to the port share it, as in this style of RSVP.
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

/// Returns the flows whose packets are measured: two to the first port, and one to the second.
pub(crate) fn flows(ends: Ends) -> [Flow; 3] {
    let flow = |source_port, destination_port| Flow {
        destination: ends.destination,
        source: Some(ends.source),
        protocol: UDP,
        destination_port,
        source_port,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
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

/// Returns all installed claims.
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

/// Rates of a flow while no other flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The rate of the best claim, up to which the flow loses nothing.
    pub(crate) best: Rate,
    /// The total rate that it can use: for each flow or range that contains it, the largest claim of that alone, and
    /// the largest shared one.
    pub(crate) all: Rate,
    /// The rate of the best claim that the next daemon finds: one claim for each flow or range, a shared one only if
    /// there is no other.
    pub(crate) adopted: Rate,
}

/// Returns the rates of a flow with these claims.
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
