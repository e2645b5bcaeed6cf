//! Limits per source address, so that no source exhausts what is there for all.

use core::net::IpAddr;

use earmark_core::Time;
use earmark_core::hash::KeyedHash;
use earmark_core::throttle::Throttle;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Streams per source address, and the rate of their changes. Not consulted for a refresh.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Sources that have streams. Senders choose their addresses, hence a [`KeyedHash`].
    by_address: HashTable<Source>,
    throttle: Throttle,
    hash: KeyedHash,
}

#[derive(Debug)]
struct Source {
    address: IpAddr,
    streams: u32,
}

impl Sources {
    pub(crate) fn new(hash: KeyedHash) -> Sources {
        Sources { by_address: HashTable::new(), throttle: Throttle::default(), hash }
    }

    /// Returns a hash of an address that peers cannot predict.
    #[inline]
    pub(crate) fn hash(&self, source: IpAddr) -> u64 {
        self.hash.of_address(source)
    }

    /// Counts a stream of the source with this hash; `false` if it has `most` already.
    #[inline]
    pub(crate) fn add_stream(&mut self, hash: u64, source: IpAddr, most: u32) -> bool {
        let key = &self.hash;
        let same = |other: &Source| other.address == source;
        match self.by_address.entry(hash, same, |other| key.of_address(other.address)) {
            Entry::Occupied(mut known) if known.get().streams < most => {
                known.get_mut().streams += 1;
                true
            }
            Entry::Vacant(place) if most > 0 => {
                place.insert(Source { address: source, streams: 1 });
                true
            }
            _ => false,
        }
    }

    /// Counts one stream less.
    pub(crate) fn remove_stream(&mut self, source: IpAddr) {
        let hash = self.hash(source);
        let Ok(mut known) = self.by_address.find_entry(hash, |other| other.address == source)
        else {
            return;
        };
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

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use earmark_core::random::RandomStreams;

    use super::*;

    #[test]
    fn stream_limit_holds_per_source() {
        let mut sources =
            Sources::new(KeyedHash::draw(&mut RandomStreams::new(1).stream("sources")));
        let address = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number));
        let enter = |sources: &mut Sources, number, most| {
            sources.add_stream(sources.hash(address(number)), address(number), most)
        };
        assert!(enter(&mut sources, 1, 2) && enter(&mut sources, 1, 2));
        assert!(!enter(&mut sources, 1, 2));
        assert!(enter(&mut sources, 2, 2));
        sources.remove_stream(address(1));
        assert!(enter(&mut sources, 1, 2));
        assert!(!enter(&mut sources, 3, 0));
        for number in [1, 1, 2, 3] {
            sources.remove_stream(address(number));
        }
        assert!(sources.by_address.is_empty(), "nothing is kept of those that have nothing");
    }
}
