//! Limits of each source address, so that none can use up what is there for all.

use core::net::IpAddr;

use earmark_core::Time;
use earmark_core::hash::KeyedHash;
use earmark_core::throttle::Throttle;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// What sources have, and what they have used of what they may ask for. None of it is looked at for a refresh.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Those that have streams. Whoever sends chooses the address, so a [`KeyedHash`].
    having: HashTable<Source>,
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
        Sources { having: HashTable::new(), throttle: Throttle::default(), hash }
    }

    /// A number for an address that peers cannot foretell.
    #[inline]
    pub(crate) fn hash(&self, source: IpAddr) -> u64 {
        hash_address(&self.hash, source)
    }

    /// One stream more of a source with this hash, unless it has `most` already.
    #[inline]
    pub(crate) fn enter(&mut self, hash: u64, source: IpAddr, most: u32) -> bool {
        let key = &self.hash;
        let same = |other: &Source| other.address == source;
        match self.having.entry(hash, same, |other| hash_address(key, other.address)) {
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

    /// One stream less.
    pub(crate) fn leave(&mut self, source: IpAddr) {
        let hash = self.hash(source);
        let Ok(mut known) = self.having.find_entry(hash, |other| other.address == source) else {
            return;
        };
        known.get_mut().streams -= 1;
        if known.get().streams == 0 {
            known.remove();
        }
    }

    /// Whether a source with this hash may ask for something new. It may ask for what it may in one second, `rate`, at
    /// once.
    #[inline]
    pub(crate) fn may_ask(&mut self, now: Time, hash: u64, rate: u32) -> bool {
        self.throttle.admits(now, hash, rate)
    }
}

#[inline]
fn hash_address(hash: &KeyedHash, address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => hash.of_two([address.to_bits().into(), 0]),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            hash.of_two([(bits >> 64) as u64, bits as u64])
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use earmark_core::random::RandomStreams;

    use super::*;

    #[test]
    fn a_source_has_so_many_streams_and_others_as_many() {
        let mut sources =
            Sources::new(KeyedHash::draw(&mut RandomStreams::new(1).stream("sources")));
        let address = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number));
        let enter = |sources: &mut Sources, number, most| {
            sources.enter(sources.hash(address(number)), address(number), most)
        };
        assert!(enter(&mut sources, 1, 2) && enter(&mut sources, 1, 2));
        assert!(!enter(&mut sources, 1, 2));
        assert!(enter(&mut sources, 2, 2));
        sources.leave(address(1));
        assert!(enter(&mut sources, 1, 2));
        assert!(!enter(&mut sources, 3, 0));
        for number in [1, 1, 2, 3] {
            sources.leave(address(number));
        }
        assert!(sources.having.is_empty(), "nothing is kept of those that have nothing");
    }
}
