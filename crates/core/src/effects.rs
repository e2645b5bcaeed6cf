//! Effects of engines: an ordered list, written by the engine and carried out by the driver.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use crate::admission::{ClaimId, Demand};
use crate::end_reason::EndReason;
use crate::{Connect, ConnectionId, FilterChange, Flow, InterfaceId};

/// Parameters of an outgoing datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// IP protocol number.
    pub protocol: u8,
    /// Outgoing interface; `None` to use the routes.
    pub interface: Option<InterfaceId>,
    /// IP source address; may be another node's (a Path carries its sender's).
    pub source: IpAddr,
    /// IP destination address.
    pub destination: IpAddr,
    /// IP TTL or hop limit.
    pub ttl: u8,
    /// Whether to set router alert.
    pub router_alert: bool,
    /// Whether to encapsulate it in UDP, for a neighbour without raw sockets (RFC 2205 appendix C).
    #[serde(default)]
    pub encapsulated: bool,
    /// Neighbour that processes the message, if it may be bundled with others to the same neighbour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbor: Option<Neighbor>,
    /// Next hop on the link of `interface`, if it is not that of the destination: a message that follows a flow
    /// leaves as the flow's packets do. `None` to use the routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<IpAddr>,
}

impl Outgoing {
    /// Returns how a message leaves that follows the routes to its destination, without router alert.
    #[inline]
    pub const fn new(protocol: u8, source: IpAddr, destination: IpAddr, ttl: u8) -> Outgoing {
        Outgoing {
            protocol,
            interface: None,
            source,
            destination,
            ttl,
            router_alert: false,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        }
    }
}

/// A neighbour by its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbor {
    /// Interface of its link.
    pub interface: InterfaceId,
    /// Address on the link.
    pub address: IpAddr,
}

/// A reservation for traffic control. Installing it again changes it in place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Installation {
    /// The claim, which identifies the reservation.
    pub claim: ClaimId,
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// The packets.
    pub flow: Flow,
    /// Bandwidth and service.
    pub demand: Demand,
}

/// One effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<E> {
    /// Sends the octets at this range of [`Effects::octets`].
    Send(Outgoing, Range<u32>),
    /// Opens a connection.
    Connect(Connect),
    /// Writes the octets at this range of [`Effects::octets`] to a connection, after all earlier ones.
    Write(ConnectionId, Range<u32>),
    /// Closes a connection, once everything written has been sent.
    Close(ConnectionId),
    /// Installs a reservation in traffic control, or changes it.
    Install(Installation),
    /// Adds a flow to an installed reservation.
    AddFlow(ClaimId, Flow),
    /// Removes a flow from an installed reservation.
    RemoveFlow(ClaimId, Flow),
    /// Removes a reservation from traffic control, and why it ends.
    Remove(ClaimId, EndReason),
    /// Changes the packet filter.
    Filter(FilterChange),
    /// Notifies listeners.
    Notify(E),
}

/// Sink for effects, in order. Clear and reuse it: in steady state nothing is allocated.
#[derive(Clone, Debug)]
pub struct Effects<E> {
    list: Vec<Effect<E>>,
    octets: Vec<u8>,
    /// Buffer for messages while they are rewritten.
    spare: Vec<u8>,
    /// Why reservations end that are removed from now on.
    end_reason: EndReason,
}

impl<E> Default for Effects<E> {
    fn default() -> Self {
        Effects {
            list: Vec::new(),
            octets: Vec::new(),
            spare: Vec::new(),
            end_reason: EndReason::Released,
        }
    }
}

impl<E> Effects<E> {
    /// Creates an empty sink.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message of `length` octets and returns its buffer for the caller to fill. The buffer may hold old
    /// octets.
    pub fn send(&mut self, how: Outgoing, length: usize) -> &mut [u8] {
        let start = self.octets.len();
        self.octets.resize(start + length, 0);
        self.list.push(Effect::Send(how, start as u32..(start + length) as u32));
        &mut self.octets[start..]
    }

    /// Adds a message that is a copy of `octets` and returns the copy for edits.
    #[inline(always)]
    pub fn send_copy(&mut self, how: Outgoing, octets: &[u8]) -> &mut [u8] {
        let start = self.octets.len();
        self.octets.extend_from_slice(octets);
        self.list.push(Effect::Send(how, start as u32..(start + octets.len()) as u32));
        &mut self.octets[start..]
    }

    /// Removes the last effect, if it is a message: one that could not be written.
    pub fn discard_last(&mut self) {
        if let Some(Effect::Send(_, range) | Effect::Write(_, range)) = self.list.last() {
            self.octets.truncate(range.start as usize);
            self.list.pop();
        }
    }

    /// Opens a connection.
    pub fn connect(&mut self, connect: Connect) {
        self.list.push(Effect::Connect(connect));
    }

    /// Adds `length` octets to write to a connection and returns their buffer for the caller to fill. The buffer may
    /// hold old octets.
    pub fn write(&mut self, connection: ConnectionId, length: usize) -> &mut [u8] {
        let start = self.octets.len();
        self.octets.resize(start + length, 0);
        let range = start as u32..(start + length) as u32;
        self.list.push(Effect::Write(connection, range));
        &mut self.octets[start..]
    }

    /// Closes a connection.
    pub fn close(&mut self, connection: ConnectionId) {
        self.list.push(Effect::Close(connection));
    }

    /// Installs or changes a reservation.
    pub fn install(&mut self, installation: Installation) {
        self.list.push(Effect::Install(installation));
    }

    /// Adds a flow to an installed reservation.
    pub fn add_flow(&mut self, claim: ClaimId, flow: Flow) {
        self.list.push(Effect::AddFlow(claim, flow));
    }

    /// Removes a flow from an installed reservation. The reservation stays, even without flows.
    pub fn remove_flow(&mut self, claim: ClaimId, flow: Flow) {
        self.list.push(Effect::RemoveFlow(claim, flow));
    }

    /// Removes a reservation, for the reason last set.
    pub fn remove(&mut self, claim: ClaimId) {
        self.list.push(Effect::Remove(claim, self.end_reason));
    }

    /// Sets why reservations end that are removed from now on. The node sets it for each input.
    #[inline]
    pub fn set_end_reason(&mut self, reason: EndReason) {
        self.end_reason = reason;
    }

    /// Changes the packet filter.
    pub fn filter(&mut self, change: FilterChange) {
        self.list.push(Effect::Filter(change));
    }

    /// Notifies listeners.
    pub fn notify(&mut self, event: impl Into<E>) {
        self.list.push(Effect::Notify(event.into()));
    }

    /// Rewrites the datagrams since effect `from`. `rewrite` receives the number of the effect, its parameters, its
    /// octets, and the buffer to append the new octets to; if it returns `false`, the datagram is dropped.
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

    /// Removes the effects since `from` that `keep` rejects; `keep` may also change their parameters.
    pub fn retain_from(&mut self, from: usize, mut keep: impl FnMut(&mut Effect<E>) -> bool) {
        let mut number = 0;
        self.list.retain_mut(|effect| {
            number += 1;
            number <= from || keep(effect)
        });
    }

    /// Returns all effects, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Effect<E>> {
        self.list.iter()
    }

    /// Returns the message of an [`Effect::Send`].
    pub fn octets(&self, range: &Range<u32>) -> &[u8] {
        &self.octets[range.start as usize..range.end as usize]
    }

    /// Returns the number of effects.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no effects.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes all effects and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.octets.clear();
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    const HOW: Outgoing =
        Outgoing::new(46, IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::BROADCAST), 1);
    const CLAIM: ClaimId = ClaimId { slot: 1, generation: 0 };

    fn messages(effects: &Effects<u8>) -> Vec<&[u8]> {
        let octets = effects.iter().map(|effect| match effect {
            Effect::Send(_, range) => Some(effects.octets(range)),
            _ => None,
        });
        octets.flatten().collect()
    }

    #[test]
    fn effects_keep_order_and_octets() {
        let mut effects = Effects::<u8>::new();
        assert!(effects.is_empty());
        effects.send(HOW, 3).fill(0xaa);
        effects.remove(CLAIM);
        effects.send(HOW, 0).fill(0xbb);
        effects.send_copy(HOW, &[0, 0xcc])[0] = 0xcc;
        effects.notify(7);
        assert_eq!(effects.len(), 5);
        assert_eq!(messages(&effects), [&[0xaa; 3][..], &[], &[0xcc; 2]]);
        assert_eq!(effects.iter().nth(1), Some(&Effect::Remove(CLAIM, EndReason::Released)));
        assert_eq!(effects.iter().last(), Some(&Effect::Notify(7)));
    }

    #[test]
    fn rewritten_messages_leave_earlier_effects_unchanged() {
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
        assert_eq!(effects.iter().last(), Some(&Effect::Remove(CLAIM, EndReason::Released)));
    }

    #[test]
    fn retain_from_removes_later_effects_only() {
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
    fn copied_message_can_be_edited_and_discarded() {
        let mut effects = Effects::<u8>::new();
        effects.send(HOW, 2).fill(0xaa);
        effects.send_copy(HOW, &[1, 2, 3])[1] = 9;
        effects.send_copy(HOW, &[7]);
        effects.discard_last();
        assert_eq!(messages(&effects), [&[0xaa; 2][..], &[1, 9, 3]]);
    }

    /// In steady state nothing is allocated.
    #[test]
    fn clear_keeps_allocated_memory() {
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
