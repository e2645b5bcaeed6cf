//! What engines do to the world: an ordered list, written by the engine and carried out by the driver.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use crate::admission::{ClaimId, Demand};
use crate::{Connect, ConnectionId, Flow, InterfaceId};

/// How a datagram leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// IP protocol number, 46 for RSVP.
    pub protocol: u8,
    /// Through which interface; `None` lets the routes decide.
    pub interface: Option<InterfaceId>,
    /// IP source address; may be another node's (a Path carries its sender's).
    pub source: IpAddr,
    /// IP destination address.
    pub destination: IpAddr,
    /// IP TTL or hop limit.
    pub ttl: u8,
    /// Whether routers on the way must look at it.
    pub router_alert: bool,
    /// Whether it travels in a UDP packet, for a neighbour without raw sockets (RFC 2205 appendix C).
    #[serde(default)]
    pub encapsulated: bool,
    /// Where it may travel in one datagram with other messages: the neighbour that takes all of them up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbor: Option<Neighbor>,
    /// Which router on the link of `interface` takes the packet, where that is not for the destination to decide: a
    /// message that follows a flow leaves as the flow's packets do. `None` lets the routes decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<IpAddr>,
}

/// A neighbour, by where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbor {
    /// Behind which interface.
    pub interface: InterfaceId,
    /// Its address there.
    pub address: IpAddr,
}

/// A reservation as traffic control gets it. Installing one that is installed changes it in place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Installation {
    /// Names it from now on.
    pub claim: ClaimId,
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// Whose packets.
    pub flow: Flow,
    /// What they get.
    pub demand: Demand,
}

/// One thing to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<E> {
    /// Send the octets at this range of [`Effects::octets`].
    Send(Outgoing, Range<u32>),
    /// Open a connection.
    Connect(Connect),
    /// Write the octets at this range of [`Effects::octets`] into a connection, behind all that was written before.
    Write(ConnectionId, Range<u32>),
    /// End a connection, once what was written has left.
    Close(ConnectionId),
    /// Put a reservation into traffic control, or change it there.
    Install(Installation),
    /// Let another flow use an installed reservation instead of, or beside, its first one.
    AddFlow(ClaimId, Flow),
    /// Stop a flow from using it.
    RemoveFlow(ClaimId, Flow),
    /// Take a reservation out of traffic control.
    Remove(ClaimId),
    /// Tell whoever listens.
    Notify(E),
}

/// A sink for effects, in order. Clear and reuse it: in steady state nothing is allocated.
#[derive(Clone, Debug)]
pub struct Effects<E> {
    list: Vec<Effect<E>>,
    octets: Vec<u8>,
    /// Where messages stand while they are written anew.
    spare: Vec<u8>,
}

impl<E> Default for Effects<E> {
    fn default() -> Self {
        Effects { list: Vec::new(), octets: Vec::new(), spare: Vec::new() }
    }
}

impl<E> Effects<E> {
    /// An empty sink.
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for a message of `length` octets that leaves as `how` says; the caller fills it. It may hold old octets.
    pub fn send(&mut self, how: Outgoing, length: usize) -> &mut [u8] {
        let start = self.octets.len();
        self.octets.resize(start + length, 0);
        self.list.push(Effect::Send(how, start as u32..(start + length) as u32));
        &mut self.octets[start..]
    }

    /// Likewise for a message that leaves as it came, or nearly so: the room holds a copy of `octets`.
    #[inline(always)]
    pub fn send_copy(&mut self, how: Outgoing, octets: &[u8]) -> &mut [u8] {
        let start = self.octets.len();
        self.octets.extend_from_slice(octets);
        self.list.push(Effect::Send(how, start as u32..(start + octets.len()) as u32));
        &mut self.octets[start..]
    }

    /// Takes the last effect back, if it was a message: it could not be written after all.
    pub fn take_back(&mut self) {
        if let Some(Effect::Send(_, range) | Effect::Write(_, range)) = self.list.last() {
            self.octets.truncate(range.start as usize);
            self.list.pop();
        }
    }

    /// Opens a connection.
    pub fn connect(&mut self, connect: Connect) {
        self.list.push(Effect::Connect(connect));
    }

    /// Room for `length` octets that leave through a connection; the caller fills it. It may hold old octets.
    pub fn write(&mut self, connection: ConnectionId, length: usize) -> &mut [u8] {
        let start = self.octets.len();
        self.octets.resize(start + length, 0);
        let range = start as u32..(start + length) as u32;
        self.list.push(Effect::Write(connection, range));
        &mut self.octets[start..]
    }

    /// Ends a connection.
    pub fn close(&mut self, connection: ConnectionId) {
        self.list.push(Effect::Close(connection));
    }

    /// Installs or changes a reservation.
    pub fn install(&mut self, installation: Installation) {
        self.list.push(Effect::Install(installation));
    }

    /// Lets another flow use an installed reservation.
    pub fn add_flow(&mut self, claim: ClaimId, flow: Flow) {
        self.list.push(Effect::AddFlow(claim, flow));
    }

    /// Stops a flow from using an installed reservation. The reservation stays, even without flows.
    pub fn remove_flow(&mut self, claim: ClaimId, flow: Flow) {
        self.list.push(Effect::RemoveFlow(claim, flow));
    }

    /// Takes a reservation out.
    pub fn remove(&mut self, claim: ClaimId) {
        self.list.push(Effect::Remove(claim));
    }

    /// Tells whoever listens.
    pub fn notify(&mut self, event: impl Into<E>) {
        self.list.push(Effect::Notify(event.into()));
    }

    /// Writes the datagrams since effect `from` anew. For each, `rewrite` gets the number of its effect, how it leaves,
    /// its octets, and where to append those that shall leave instead; `false` says that it must not leave at all.
    pub fn rewrite_messages(
        &mut self,
        from: usize,
        mut rewrite: impl FnMut(usize, &mut Outgoing, &[u8], &mut Vec<u8>) -> bool,
    ) {
        let sent = |effect: &Effect<E>| match effect {
            Effect::Send(_, range) | Effect::Write(_, range) => Some(range.start as usize),
            _ => None,
        };
        let Some(start) = self.list.iter().skip(from).find_map(sent) else { return };
        self.spare.clear();
        self.spare.extend_from_slice(&self.octets[start..]);
        self.octets.truncate(start);
        let (octets, spare) = (&mut self.octets, &self.spare);
        let mut number = 0;
        self.list.retain_mut(|effect| {
            let this = number;
            number += 1;
            if this < from {
                return true;
            }
            let begin = octets.len();
            let old = |range: &Range<u32>| &spare[range.start as usize - start..][..range.len()];
            let (range, leaves) = match effect {
                Effect::Send(how, range) => {
                    let leaves = rewrite(this, how, old(range), octets);
                    (range, leaves)
                }
                Effect::Write(_, range) => {
                    octets.extend_from_slice(old(range));
                    (range, true)
                }
                _ => return true,
            };
            if !leaves {
                octets.truncate(begin);
            }
            *range = begin as u32..octets.len() as u32;
            leaves
        });
    }

    /// Takes those of the effects since `from` out that `keep` does not want; it may also change how messages leave.
    pub fn retain_from(&mut self, from: usize, mut keep: impl FnMut(&mut Effect<E>) -> bool) {
        let mut number = 0;
        self.list.retain_mut(|effect| {
            number += 1;
            number <= from || keep(effect)
        });
    }

    /// All effects so far, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Effect<E>> {
        self.list.iter()
    }

    /// The message of an [`Effect::Send`].
    pub fn octets(&self, range: &Range<u32>) -> &[u8] {
        &self.octets[range.start as usize..range.end as usize]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forgets them all, keeps the room.
    pub fn clear(&mut self) {
        self.list.clear();
        self.octets.clear();
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    const HOW: Outgoing = Outgoing {
        protocol: 46,
        interface: None,
        source: IpAddr::V4(Ipv4Addr::LOCALHOST),
        destination: IpAddr::V4(Ipv4Addr::BROADCAST),
        ttl: 1,
        router_alert: false,
        encapsulated: false,
        neighbor: None,
        next_hop: None,
    };
    const CLAIM: ClaimId = ClaimId { slot: 1, generation: 0 };

    #[test]
    fn effects_come_out_in_order_each_with_its_own_octets() {
        let mut effects = Effects::<u8>::new();
        assert!(effects.is_empty());
        effects.send(HOW, 3).fill(0xaa);
        effects.remove(CLAIM);
        effects.send(HOW, 0).fill(0xbb);
        effects.send_copy(HOW, &[0, 0xcc])[0] = 0xcc;
        effects.notify(7);
        assert_eq!(effects.len(), 5);
        let seen: Vec<&[u8]> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Send(_, range) => Some(effects.octets(range)),
                _ => None,
            })
            .collect();
        assert_eq!(seen, [&[0xaa; 3][..], &[], &[0xcc; 2]]);
        assert_eq!(effects.iter().nth(1), Some(&Effect::Remove(CLAIM)));
        assert_eq!(effects.iter().last(), Some(&Effect::Notify(7)));
    }

    #[test]
    fn messages_are_written_anew_without_touching_what_was_there_before() {
        let mut effects = Effects::<u8>::new();
        effects.send(HOW, 2).fill(0xaa);
        let from = effects.len();
        effects.rewrite_messages(from, |_, _, _, _| panic!("there is none"));
        effects.notify(1);
        for (length, octet) in [(1, 1), (3, 2), (0, 3), (2, 4)] {
            effects.send(HOW, length).fill(octet);
        }
        effects.remove(CLAIM);
        effects.rewrite_messages(from, |number, how, old, new| {
            how.ttl = number as u8;
            new.extend_from_slice(&[0xff; 2]);
            new.extend_from_slice(old);
            old != [2, 2, 2]
        });
        let seen: Vec<(u8, &[u8])> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Send(how, range) => Some((how.ttl, effects.octets(range))),
                _ => None,
            })
            .collect();
        let expected: [(u8, &[u8]); 4] =
            [(1, &[0xaa; 2]), (2, &[0xff, 0xff, 1]), (4, &[0xff; 2]), (5, &[0xff, 0xff, 4, 4])];
        assert_eq!(seen, expected);
        assert_eq!(effects.len(), 6);
        assert_eq!(effects.iter().last(), Some(&Effect::Remove(CLAIM)));
    }

    #[test]
    fn what_is_not_wanted_is_taken_out_from_a_place_on() {
        let mut effects = Effects::<u8>::new();
        for number in 0..3 {
            effects.notify(number);
            effects.send(HOW, 1).fill(number);
        }
        effects.retain_from(1, |effect| match effect {
            Effect::Notify(number) => *number != 1,
            Effect::Send(how, _) => {
                how.ttl = 7;
                true
            }
            _ => false,
        });
        let left: Vec<_> = effects
            .iter()
            .map(|effect| match effect {
                Effect::Notify(number) => (0, *number),
                Effect::Send(how, range) => (how.ttl, effects.octets(range)[0]),
                _ => panic!("{effect:?}"),
            })
            .collect();
        assert_eq!(left, [(0, 0), (7, 0), (7, 1), (0, 2), (7, 2)]);
    }

    #[test]
    fn a_copy_can_be_changed_where_it_stands_and_taken_back() {
        let mut effects = Effects::<u8>::new();
        effects.send(HOW, 2).fill(0xaa);
        effects.send_copy(HOW, &[1, 2, 3])[1] = 9;
        effects.send_copy(HOW, &[7]);
        effects.take_back();
        let seen: Vec<&[u8]> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Send(_, range) => Some(effects.octets(range)),
                _ => None,
            })
            .collect();
        assert_eq!(seen, [&[0xaa; 2][..], &[1, 9, 3]]);
    }

    /// In steady state nothing is allocated.
    #[test]
    fn clear_keeps_the_room() {
        let mut effects = Effects::<u8>::new();
        effects.send(HOW, 1_000).fill(1);
        let room = (effects.list.capacity(), effects.octets.capacity());
        effects.clear();
        assert_eq!((effects.len(), effects.iter().count()), (0, 0));
        effects.send(HOW, 1_000);
        assert_eq!((effects.list.capacity(), effects.octets.capacity()), room);
        assert_eq!(effects.iter().next(), Some(&Effect::Send(HOW, 0..1_000)));
    }
}
