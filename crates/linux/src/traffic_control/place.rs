//! What a reservation holds in the kernel: a class of its own, or a token bucket and a share in the common class.

use earmark_core::Rate;

use super::bucket::BucketParameters;
use super::flow_table::FlowTable;
use super::plan::{ClassParameters, MARK, POOL, POOL_MOST, handle};
use crate::netlink::Connection;

/// What the classifier's flows lead to where that is a bucket, in place of our major number.
const BUCKET_MARK: u32 = 0x8000_0000;
/// Most buckets of one interface, and most flows of all.
pub(super) const MOST_FLOWS: u32 = 1 << 20;

/// Where flows lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A class of the pool, by its minor number.
    Class(u16),
    /// A bucket of the interface, by its number.
    Bucket(u32),
}

impl Place {
    /// As the classifier has it.
    pub(super) fn value(self) -> u32 {
        match self {
            Place::Class(minor) => handle(minor),
            Place::Bucket(number) => BUCKET_MARK | number,
        }
    }

    /// What an entry of the classifier means; `None` where it is none that a reservation of ours could have.
    pub(super) fn of(value: u32) -> Option<Place> {
        let minor = value as u16;
        if value >> 16 == u32::from(MARK) {
            return (POOL..POOL + POOL_MOST as u16).contains(&minor).then_some(Place::Class(minor));
        }
        let number = value ^ BUCKET_MARK;
        (number < MOST_FLOWS).then_some(Place::Bucket(number))
    }
}

/// What a place is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parameters {
    Class(ClassParameters),
    Bucket(BucketParameters),
}

impl Parameters {
    /// Its rate, for people.
    pub(super) fn as_rate(&self) -> Rate {
        match self {
            Parameters::Class(class) => class.as_rate(),
            Parameters::Bucket(bucket) => bucket.as_rate(),
        }
    }
}

/// Who uses a place. It is free when neither is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Whether an installation holds it.
    pub(super) claimed: bool,
    /// Flows that lead into it.
    pub(super) flows: u32,
}

/// What places are made with.
pub(super) struct Tools<'a> {
    pub(super) netlink: &'a mut Connection,
    pub(super) table: &'a mut dyn FlowTable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        for place in [
            Place::Class(0x10),
            Place::Class(0x7f0f),
            Place::Bucket(0),
            Place::Bucket(MOST_FLOWS - 1),
        ] {
            assert_eq!(Place::of(place.value()), Some(place));
        }
        for nonsense in [0, 1, 0xea4d_0003, 0xea4d_ffff, BUCKET_MARK | MOST_FLOWS, u32::MAX] {
            assert_eq!(Place::of(nonsense), None, "{nonsense:#x}");
        }
    }
}
