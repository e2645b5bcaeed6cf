//! Limits per source address, or per access interface, so that no source exhausts what is there for all.

use core::net::{IpAddr, Ipv4Addr};

use earmark_core::hash::KeyedHash;
use earmark_core::shares::Shares;
use earmark_core::throttle::Throttle;
use earmark_core::{InterfaceId, Time};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Streams per source address, and the rate of their changes. Not consulted for a refresh.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Sources that have streams. Senders choose their addresses, hence a [`KeyedHash`].
    by_address: HashTable<Source>,
    /// Streams by the interface that their reports arrive through.
    pub(crate) shares: Shares,
    throttle: Throttle,
    hash: KeyedHash,
}

#[derive(Debug)]
struct Source {
    address: IpAddr,
    /// Interface whose senders share limits; see [`crate::origin::limited_port`].
    port: InterfaceId,
    streams: u32,
}

impl Sources {
    pub(crate) fn new(hash: KeyedHash) -> Sources {
        Sources {
            by_address: HashTable::new(),
            shares: Shares::default(),
            throttle: Throttle::default(),
            hash,
        }
    }

    /// Returns a hash of what limits count, which peers cannot predict.
    #[inline]
    pub(crate) fn hash(&self, source: IpAddr, port: InterfaceId) -> u64 {
        hash_of(&self.hash, counted(source, port), port)
    }

    /// Counts a stream of the source with this hash; `false` if it has `most` already.
    #[inline]
    pub(crate) fn add_stream(
        &mut self,
        hash: u64,
        (source, port): (IpAddr, InterfaceId),
        most: u32,
    ) -> bool {
        let (key, address) = (&self.hash, counted(source, port));
        let same = |other: &Source| other.address == address && other.port == port;
        let hasher = |other: &Source| hash_of(key, other.address, other.port);
        match self.by_address.entry(hash, same, hasher) {
            Entry::Occupied(mut known) if known.get().streams < most => {
                known.get_mut().streams += 1;
                true
            }
            Entry::Vacant(place) if most > 0 => {
                place.insert(Source { address, port, streams: 1 });
                true
            }
            _ => false,
        }
    }

    /// Counts one stream less.
    pub(crate) fn remove_stream(&mut self, source: IpAddr, port: InterfaceId) {
        let hash = self.hash(source, port);
        let address = counted(source, port);
        let same = |other: &Source| other.address == address && other.port == port;
        let Ok(mut known) = self.by_address.find_entry(hash, same) else { return };
        known.get_mut().streams -= 1;
        if known.get().streams == 0 {
            known.remove();
        }
    }

    /// Returns whether the source with this hash may change something. The changes of one second, `rate`, may come in
    /// one burst.
    #[inline]
    pub(crate) fn admits_change(&mut self, now: Time, hash: u64, rate: u32) -> bool {
        self.throttle.admits(now, hash, rate)
    }
}

/// Returns the address that limits count: any, if the senders behind an interface share them.
#[inline]
fn counted(source: IpAddr, port: InterfaceId) -> IpAddr {
    if port == crate::origin::OWN { source } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
}

#[inline]
fn hash_of(hash: &KeyedHash, address: IpAddr, port: InterfaceId) -> u64 {
    // An odd factor spreads the few numbers of interfaces.
    hash.of_address(address) ^ u64::from(port.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use earmark_core::random::RandomStreams;

    use super::*;
    use crate::origin::OWN;

    #[test]
    fn stream_limit_holds_per_source() {
        let mut sources =
            Sources::new(KeyedHash::draw(&mut RandomStreams::new(1).stream("sources")));
        let address = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number));
        let enter = |sources: &mut Sources, number, most| {
            sources.add_stream(sources.hash(address(number), OWN), (address(number), OWN), most)
        };
        assert!(enter(&mut sources, 1, 2) && enter(&mut sources, 1, 2));
        assert!(!enter(&mut sources, 1, 2));
        assert!(enter(&mut sources, 2, 2));
        sources.remove_stream(address(1), OWN);
        assert!(enter(&mut sources, 1, 2));
        assert!(!enter(&mut sources, 3, 0));
        for number in [1, 1, 2, 3] {
            sources.remove_stream(address(number), OWN);
        }
        assert!(sources.by_address.is_empty(), "nothing is kept of those that have nothing");
    }
}
