//! Variants of the attacks: the network, the place of the attacker, and what happens to the router meanwhile.

use std::net::IpAddr;

use earmark_core::Prefix;
use earmark_scenario::attack::Power;
use earmark_scenario::topology::Family;
use serde::Serialize;

use crate::demo::protocol::{Protocol, Target};

/// Network of a variant: address family, and how the hosts signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Address family of stream, signalling and attacks.
    pub family: Family,
    /// Destination of the stream, and encapsulation of signalling on the links of hosts.
    pub target: Target,
}

/// Place of the attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host of its own, behind a port of its own, at a router.
    Port(&'static str),
    /// A further address on the link of a host, which that host itself sends with: the router of the link sees packets as
    /// of a neighbour of the host.
    Beside(&'static str),
}

/// What happens to the router before the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterEvent {
    /// Nothing: each attack is played alone.
    None,
    /// The daemon is killed and started again; then all attacks are played at once.
    Restart,
    /// The daemon reads its configuration again and again, while all attacks are played at once.
    Reloads,
}

/// A variant of the attacks.
#[derive(Debug, PartialEq, Eq)]
pub struct Variant {
    /// Name in arguments and results.
    pub name: &'static str,
    /// Short description.
    pub about: &'static str,
    pub(super) setup: Setup,
    pub(super) place: Place,
    pub(super) event: RouterEvent,
}

impl Serialize for Variant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

const IPV4: Setup = Setup { family: Family::Ipv4, target: Target::Unicast };
const IPV6: Setup = Setup { family: Family::Ipv6, target: Target::Unicast };
const GROUP: Setup = Setup { family: Family::Ipv4, target: Target::Group };
const UDP: Setup = Setup { family: Family::Ipv4, target: Target::UdpEncapsulation };

const fn variant(
    name: &'static str,
    about: &'static str,
    setup: Setup,
    place: Place,
    event: RouterEvent,
) -> Variant {
    Variant { name, about, setup, place, event }
}

/// All variants; those of one network follow each other.
pub static VARIANTS: [Variant; 12] = {
    use Place::{Beside, Port};
    use RouterEvent::{None, Reloads, Restart};
    let (r1, r2) = (Port("r1"), Port("r2"));
    [
        variant("ipv4", "from a customer's port of the sender's router", IPV4, r1, None),
        variant("receiver-router", "from a port of the receiver's router", IPV4, r2, None),
        variant("sender-network", "from the sender's own network", IPV4, Beside("h1"), None),
        variant("receiver-network", "from the receiver's own network", IPV4, Beside("h2"), None),
        variant("reload", "during reloads of the router's settings", IPV4, r1, Reloads),
        variant("restart", "after a restart of the router's daemon", IPV4, r1, Restart),
        variant("ipv6", "as ipv4, over IPv6", IPV6, r1, None),
        variant("ipv6-receiver-router", "as receiver-router, over IPv6", IPV6, r2, None),
        variant("ipv6-restart", "as restart, over IPv6", IPV6, r1, Restart),
        variant("group", "the stream goes to a group", GROUP, r1, None),
        variant("group-receiver-router", "as group, from the receiver's router", GROUP, r2, None),
        variant("udp", "hosts and attacker signal inside UDP", UDP, r1, None),
    ]
};

/// The variant of this name.
pub fn by_name(name: &str) -> Option<&'static Variant> {
    VARIANTS.iter().find(|variant| variant.name == name)
}

impl Variant {
    /// Returns the network of the variant.
    pub fn setup(&self) -> Setup {
        self.setup
    }

    /// Returns whether the simulator has what the variant needs.
    pub fn can_be_simulated(&self) -> bool {
        self.setup.target != Target::UdpEncapsulation && self.event != RouterEvent::Reloads
    }

    /// Returns whether the variant combines others, or has other hosts. A run in namespaces takes minutes, so that it plays
    /// these only if they are named.
    pub fn is_combination(&self) -> bool {
        let differences =
            [self.setup != IPV4, self.place != Place::Port("r1"), self.event != RouterEvent::None];
        self.setup == UDP || differences.into_iter().filter(|differs| *differs).count() > 1
    }

    /// Returns whether a protocol has the variant.
    pub fn applies_to(&self, protocol: Protocol) -> bool {
        protocol.supports(self.setup.target)
    }

    /// Returns whether the attacker has a power. In the name of its neighbours, whoever is on the link of a host can say
    /// everything that the host can.
    pub(super) fn has(&self, power: Power) -> bool {
        power == Power::OwnAddress || matches!(self.place, Place::Port(_))
    }
}

impl Place {
    /// Returns the node that sends the attacker's packets.
    pub(super) fn node(self) -> &'static str {
        match self {
            Place::Port("r1") => "a",
            Place::Port(_) => "b",
            Place::Beside(host) => host,
        }
    }
}

/// Returns the address of an attacker beside a host: the third one of the link.
pub(super) fn beside(prefix: Prefix) -> IpAddr {
    match prefix.address() {
        IpAddr::V4(first) => IpAddr::V4((u32::from(first) + 3).into()),
        IpAddr::V6(first) => IpAddr::V6((u128::from(first) + 3).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network is built once for all its variants.
    #[test]
    fn variants_of_one_network_follow_each_other() {
        let mut setups: Vec<Setup> = VARIANTS.iter().map(|variant| variant.setup).collect();
        setups.dedup();
        for (index, setup) in setups.iter().enumerate() {
            assert!(!setups[..index].contains(setup), "{setup:?}");
        }
    }

    #[test]
    fn combinations_are_played_only_if_named() {
        let names: Vec<_> =
            VARIANTS.iter().filter(|one| one.is_combination()).map(|one| one.name).collect();
        let expected = ["ipv6-receiver-router", "ipv6-restart", "group-receiver-router", "udp"];
        assert_eq!(names, expected);
    }

    #[test]
    fn names_are_unique() {
        for variant in &VARIANTS {
            assert_eq!(by_name(variant.name), Some(variant));
        }
    }
}
