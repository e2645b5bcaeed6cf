//! The DSCP that packets get when they leave through an interface.
//!
//! Routers of a core that tell packets apart by their DSCP alone serve whatever has the right one. So the router that carries
//! flows across the core in an aggregate marks their packets with its DSCP (RFC 3175 section 2.11), and removes the DSCP from
//! all others.

use alloc::vec::Vec;

use crate::admission::Protocol;
use crate::{Flow, Prefix};

/// A rule: the packets of the claims of one protocol to a range of destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Destinations of the flows.
    pub range: Prefix,
    /// Protocol of the claims.
    pub protocol: Protocol,
    /// DSCP that the packets get, from 1 to 63; `None`: none of them, although a wider range has one.
    pub dscp: Option<u8>,
}

/// The rules of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markings {
    /// Rules, those of longer prefixes first.
    rules: Vec<Marking>,
    /// DSCPs of the rules, as bits; each packet is compared with them.
    taken: u64,
}

impl Markings {
    /// Creates the rules of an interface.
    pub fn new(markings: impl IntoIterator<Item = Marking>) -> Markings {
        let mut rules: Vec<Marking> = markings.into_iter().collect();
        rules.sort_by_key(|marking| core::cmp::Reverse(marking.range.length()));
        let dscps = rules.iter().filter_map(|marking| marking.dscp);
        let taken = dscps.fold(0, |set, dscp| set | 1 << (dscp & 63));
        Markings { rules, taken }
    }

    /// Returns whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the DSCP for packets that a claim serves; `None` for a claim that no rule is about. Packets of a claim on
    /// all packets with a DSCP keep it.
    pub fn of_claim(&self, protocol: Option<Protocol>, flow: &Flow) -> Option<u8> {
        if flow.dscp != 0 {
            return Some(flow.dscp);
        }
        let destinations = flow.destinations();
        let is_about = |marking: &&Marking| {
            Some(marking.protocol) == protocol && marking.range.covers(destinations)
        };
        self.rules.iter().find(is_about)?.dscp
    }

    /// Returns the DSCP with which a packet leaves that arrives with `dscp`; `of_claim` is that of the claim that serves
    /// the packet, if there is one.
    pub fn of_packet(&self, dscp: u8, of_claim: Option<u8>) -> u8 {
        let is_taken = self.taken >> (dscp & 63) & 1 != 0;
        of_claim.filter(|_| !self.is_empty()).unwrap_or(if is_taken { 0 } else { dscp })
    }

    /// Returns the DSCPs of the rules, as bits: only packets of their claims may have them.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE: Protocol = Protocol::new(1);
    const OTHER: Protocol = Protocol::new(2);

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    fn markings() -> Markings {
        let rule = |range, dscp| Marking { range: prefix(range), protocol: EDGE, dscp };
        Markings::new([
            rule("10.0.0.0/8", Some(46)),
            rule("10.1.0.0/16", Some(34)),
            rule("10.1.2.0/24", None),
        ])
    }

    #[test]
    fn the_longest_range_decides_about_a_claim() {
        let to = |address: &str| Flow { protocol: 17, ..Flow::to_range(prefix(address)) };
        for (protocol, flow, expected) in [
            (Some(EDGE), to("10.9.0.1/32"), Some(46)),
            (Some(EDGE), to("10.1.0.1/32"), Some(34)),
            (Some(EDGE), to("10.1.2.1/32"), None),
            (Some(EDGE), to("10.1.0.0/15"), Some(46)),
            (Some(EDGE), to("11.0.0.1/32"), None),
            (Some(OTHER), to("10.9.0.1/32"), None),
            (None, to("10.9.0.1/32"), None),
            (Some(OTHER), Flow::of_dscp(false, 46), Some(46)),
            (None, Flow::of_dscp(true, 10), Some(10)),
        ] {
            assert_eq!(markings().of_claim(protocol, &flow), expected, "{protocol:?} {flow:?}");
        }
    }

    #[test]
    fn only_packets_of_claims_leave_with_a_dscp_of_the_rules() {
        for (dscp, claim, expected) in [
            (0, Some(46), 46),
            (10, Some(46), 46),
            (46, Some(34), 34),
            (46, None, 0),
            (34, None, 0),
            (10, None, 10),
            (0, None, 0),
        ] {
            assert_eq!(markings().of_packet(dscp, claim), expected, "{dscp}, {claim:?}");
        }
        assert_eq!(markings().taken(), 1 << 46 | 1 << 34);
        assert_eq!(
            Markings::default().of_packet(46, Some(34)),
            46,
            "without rules nothing is marked"
        );
    }
}
