//! The buckets of one link: which are in use, and by whom.

use std::collections::VecDeque;

use earmark_core::InterfaceId;

use super::TcError;
use super::bucket::{Bucket, BucketParameters};
use super::flow_table::FlowTable;
use super::place::{MOST_FLOWS, Usage};

/// A bucket that is in use, or has been.
#[derive(Clone, Copy, Debug)]
struct PoolBucket {
    /// What it is like; nothing while it is not in the kernel.
    parameters: Option<BucketParameters>,
    usage: Usage,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct BucketPool {
    interface: InterfaceId,
    /// By number.
    buckets: Vec<PoolBucket>,
    /// Numbers that nobody uses, the longest unused first.
    free: VecDeque<u32>,
}

impl BucketPool {
    /// With those in use that an earlier daemon left: number, what it is like, flows that lead there. In order.
    pub(super) fn new(
        interface: InterfaceId,
        adopted: impl Iterator<Item = (u32, BucketParameters, u32)>,
    ) -> BucketPool {
        let mut pool = BucketPool { interface, buckets: Vec::new(), free: VecDeque::new() };
        for (number, parameters, flows) in adopted {
            while pool.buckets.len() < number as usize {
                pool.free.push_back(pool.buckets.len() as u32); // less than a number
                pool.buckets.push(PoolBucket { parameters: None, usage: Usage::default() });
            }
            let usage = Usage { claimed: false, flows };
            pool.buckets.push(PoolBucket { parameters: Some(parameters), usage });
        }
        pool
    }

    /// Who uses a bucket; its number is one that this pool gave out.
    pub(super) fn usage(&mut self, number: u32) -> &mut Usage {
        &mut self.buckets[number as usize].usage
    }

    /// What a bucket is like.
    pub(super) fn parameters(&self, number: u32) -> Option<BucketParameters> {
        self.buckets[number as usize].parameters
    }

    /// The number of an unused bucket.
    pub(super) fn take(&mut self) -> Result<u32, TcError> {
        if let Some(number) = self.free.pop_front() {
            return Ok(number);
        }
        let number = self.buckets.len() as u32; // at most MOST_FLOWS
        if number >= MOST_FLOWS {
            return Err(TcError::PoolFull { interface: self.interface, limit: MOST_FLOWS });
        }
        self.buckets.push(PoolBucket { parameters: None, usage: Usage::default() });
        Ok(number)
    }

    /// Gives a bucket these parameters. What is in it, and what it has counted, stays.
    pub(super) fn change(
        &mut self,
        table: &mut dyn FlowTable,
        number: u32,
        parameters: BucketParameters,
    ) -> Result<(), TcError> {
        let bucket = &mut self.buckets[number as usize];
        if bucket.parameters == Some(parameters) {
            return Ok(());
        }
        let there = match bucket.parameters {
            // Between reading and writing a packet may pass and go uncounted.
            Some(_) => table.bucket(self.interface, number)?,
            None => None,
        };
        let changed = match there {
            Some(old) => old.with(parameters),
            None => Bucket::new(parameters),
        };
        table.set_bucket(self.interface, number, &changed)?;
        bucket.parameters = Some(parameters);
        Ok(())
    }

    /// Makes a bucket unused. It is so even where the kernel refuses to remove it.
    pub(super) fn park(&mut self, table: &mut dyn FlowTable, number: u32) -> Result<(), TcError> {
        self.buckets[number as usize] = PoolBucket { parameters: None, usage: Usage::default() };
        self.free.push_back(number);
        table.remove_bucket(self.interface, number)
    }

    /// Compares the kernel's buckets with these, and puts them right; how many were removed, and restored.
    pub(super) fn repair(&self, table: &mut dyn FlowTable) -> Result<(u32, u32), TcError> {
        let (mut removed, mut restored) = (0, 0);
        for number in table.bucket_numbers(self.interface)? {
            let known = self.buckets.get(number as usize).and_then(|bucket| bucket.parameters);
            if known.is_none() {
                table.remove_bucket(self.interface, number)?;
                removed += 1;
            }
        }
        for (bucket, number) in self.buckets.iter().zip(0..) {
            let Some(parameters) = bucket.parameters else { continue };
            let there = table.bucket(self.interface, number)?;
            if there.is_none_or(|there| there.parameters != parameters) {
                table.set_bucket(self.interface, number, &Bucket::new(parameters))?;
                restored += 1;
            }
        }
        Ok((removed, restored))
    }
}
