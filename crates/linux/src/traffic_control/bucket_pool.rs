//! The buckets of one link for claims with several flows: which are in use, and by which claim.

use std::collections::VecDeque;

use earmark_core::InterfaceId;

use super::bucket::Bucket;
use super::claim_resources::{MAX_FLOWS, Usage};
use super::flow_table::FlowTable;
use super::guarantee::Guarantee;
use super::{Fault, Statistics, TcError};

/// A bucket that is or was in use.
#[derive(Clone, Copy, Debug, Default)]
struct PoolBucket {
    /// Guarantee of its packets; `None` while it is not in the kernel.
    guarantee: Option<Guarantee>,
    usage: Usage,
}

/// The buckets of one link, by number.
#[derive(Debug)]
pub(super) struct BucketPool {
    interface: InterfaceId,
    buckets: Vec<PoolBucket>,
    /// Unused numbers, the longest unused first.
    free: VecDeque<u32>,
}

impl BucketPool {
    /// Creates a pool in which an earlier daemon's buckets are in use: number, guarantee, number of flows that lead
    /// there. In order.
    pub(super) fn new(
        interface: InterfaceId,
        adopted: impl Iterator<Item = (u32, Guarantee, u32)>,
    ) -> BucketPool {
        let mut pool = BucketPool { interface, buckets: Vec::new(), free: VecDeque::new() };
        for (number, guarantee, flows) in adopted {
            while pool.buckets.len() < number as usize {
                pool.free.push_back(pool.buckets.len() as u32); // below `number`, so it fits
                pool.buckets.push(PoolBucket::default());
            }
            let usage = Usage { claim: None, adopted: flows };
            pool.buckets.push(PoolBucket { guarantee: Some(guarantee), usage });
        }
        pool
    }

    /// Returns the usage of a bucket; its number is one that this pool assigned.
    pub(super) fn usage(&mut self, number: u32) -> &mut Usage {
        &mut self.buckets[number as usize].usage
    }

    /// Returns the guarantee for the packets of a bucket.
    pub(super) fn guarantee(&self, number: u32) -> Option<Guarantee> {
        self.buckets[number as usize].guarantee
    }

    /// Returns the number of an unused bucket.
    pub(super) fn take(&mut self) -> Result<u32, TcError> {
        if let Some(number) = self.free.pop_front() {
            return Ok(number);
        }
        let number = self.buckets.len() as u32; // at most MAX_FLOWS
        if number >= MAX_FLOWS {
            return Err(TcError::PoolFull { interface: self.interface, limit: MAX_FLOWS });
        }
        self.buckets.push(PoolBucket::default());
        Ok(number)
    }

    /// Changes the guarantee of a bucket. Its tokens and its counters stay; `counted` is added.
    pub(super) fn change(
        &mut self,
        table: &mut dyn FlowTable,
        number: u32,
        guarantee: Guarantee,
        counted: &Statistics,
    ) -> Result<(), TcError> {
        let bucket = &mut self.buckets[number as usize];
        if bucket.guarantee == Some(guarantee) {
            return Ok(());
        }
        let there = match bucket.guarantee {
            // A packet between reading and writing may go uncounted.
            Some(_) => table.bucket(self.interface, number)?,
            None => None,
        };
        let changed = there.unwrap_or(Bucket::new(guarantee)).with(guarantee).counting(counted);
        table.set_bucket(self.interface, number, &changed)?;
        bucket.guarantee = Some(guarantee);
        Ok(())
    }

    /// Makes a bucket unused, even if the kernel refuses to remove it.
    pub(super) fn park(&mut self, table: &mut dyn FlowTable, number: u32) -> Result<(), TcError> {
        self.buckets[number as usize] = PoolBucket::default();
        self.free.push_back(number);
        table.remove_bucket(self.interface, number)
    }

    /// Compares the kernel's buckets with these and repairs them. Returns the number of removed ones, and the faults.
    pub(super) fn repair(
        &self,
        table: &mut dyn FlowTable,
        faults: &mut Vec<(Option<Usage>, Fault)>,
    ) -> Result<u32, TcError> {
        let mut removed = 0;
        for number in table.bucket_numbers(self.interface)? {
            let known = self.buckets.get(number as usize).and_then(|bucket| bucket.guarantee);
            if known.is_none() {
                table.remove_bucket(self.interface, number)?;
                removed += 1;
            }
        }
        for (bucket, number) in self.buckets.iter().zip(0..) {
            let Some(guarantee) = bucket.guarantee else { continue };
            let there = table.bucket(self.interface, number)?;
            if there.is_none_or(|there| there.guarantee != guarantee) {
                table.set_bucket(self.interface, number, &Bucket::new(guarantee))?;
                faults.push((Some(bucket.usage), Fault::Bucket));
            }
        }
        Ok(removed)
    }
}
