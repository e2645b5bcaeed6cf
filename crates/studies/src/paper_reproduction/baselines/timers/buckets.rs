//! Timers in buckets by interval and offset, the buckets in a hash table of 60 chains (GIST 0.5.2). Time is in whole
//! seconds: a scan of all buckets once a second empties those whose offset is that of the second.

use super::{NIL, TICK, Timers};

/// Number of chains of the bucket table.
const CHAINS: usize = 60;

/// All buckets, and the timers in them.
#[derive(Debug)]
pub(in crate::paper_reproduction) struct Buckets {
    timers: Vec<Timer>,
    chains: [Vec<Bucket>; CHAINS],
    /// Second of the next scan.
    next: u64,
}

/// A list of timers that fire together.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Interval, seconds.
    interval: u64,
    /// Second of the start modulo the interval.
    offset: u64,
    head: u32,
}

/// A timer, in the list of its bucket.
#[derive(Clone, Copy, Debug)]
struct Timer {
    previous: u32,
    next: u32,
    chain: u32,
    /// Index of the bucket in the chain.
    bucket: u32,
}

/// Returns the chain of a bucket, by the offset alone: 180 buckets of one interval are three to a chain, as the paper
/// counts.
fn chain_of(offset: u64) -> usize {
    offset as usize % CHAINS
}

impl Buckets {
    /// Creates an empty table; the first scan is of the second after `now`.
    pub(in crate::paper_reproduction) fn new(timers: usize, now: u64) -> Buckets {
        let timer = Timer { previous: NIL, next: NIL, chain: 0, bucket: 0 };
        let chains = [const { Vec::new() }; CHAINS];
        Buckets { timers: vec![timer; timers], chains, next: now / TICK + 1 }
    }

    fn take_out(&mut self, timer: u32) {
        let Timer { previous, next, chain, bucket } = self.timers[timer as usize];
        match previous {
            NIL => self.chains[chain as usize][bucket as usize].head = next,
            _ => self.timers[previous as usize].next = next,
        }
        if next != NIL {
            self.timers[next as usize].previous = previous;
        }
    }
}

impl Timers for Buckets {
    fn arm(&mut self, timer: u32, now: u64, interval: u64) {
        let interval = interval / TICK;
        let offset = now / TICK % interval;
        let chain = chain_of(offset);
        let buckets = &mut self.chains[chain];
        let same = |bucket: &Bucket| (bucket.interval, bucket.offset) == (interval, offset);
        let bucket = buckets.iter().position(same).unwrap_or_else(|| {
            buckets.push(Bucket { interval, offset, head: NIL });
            buckets.len() - 1
        });
        let next = std::mem::replace(&mut buckets[bucket].head, timer);
        if next != NIL {
            self.timers[next as usize].previous = timer;
        }
        let (chain, bucket) = (chain as u32, bucket as u32);
        self.timers[timer as usize] = Timer { previous: NIL, next, chain, bucket };
    }

    fn restart(&mut self, timer: u32, now: u64, interval: u64) {
        self.take_out(timer);
        self.arm(timer, now, interval);
    }

    fn next(&self) -> u64 {
        self.next * TICK
    }

    fn expire(&mut self, now: u64, fired: &mut Vec<u32>) {
        while self.next * TICK <= now {
            let second = self.next;
            self.next += 1;
            let due = |bucket: &&mut Bucket| second % bucket.interval == bucket.offset;
            for bucket in self.chains.iter_mut().flatten().filter(due) {
                let mut here = std::mem::replace(&mut bucket.head, NIL);
                while here != NIL {
                    fired.push(here);
                    here = self.timers[here as usize].next;
                }
            }
        }
    }
}
