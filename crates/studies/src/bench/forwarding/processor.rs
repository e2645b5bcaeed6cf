//! Processor of a router, and the share of its time that packets take.
//!
//! Packets are forwarded in the time of the thread that sends them: its own system call, and the soft interrupts that
//! the kernel serves at its end. If there are too many of these, the kernel's thread `ksoftirqd` of the processor
//! continues with them; so its time counts too. The time of other programs on the processor does not count.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use earmark_linux::packets;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// A processor that this program may run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processor {
    number: usize,
    /// Thread id of the processor's `ksoftirqd`; `None` if it is not visible.
    soft_interrupts: Option<u32>,
}

impl Processor {
    /// Returns the last processor that this thread may run on: interrupts of devices mostly go to the first.
    pub(super) fn last() -> Result<Processor> {
        let number = *allowed()?.last().context("this program may run nowhere")?;
        Ok(Processor { number, soft_interrupts: kernel_thread(&format!("ksoftirqd/{number}")) })
    }

    /// Returns another processor, for work that is not the router's.
    ///
    /// # Errors
    /// There is no other processor.
    pub(super) fn another(&self) -> Result<usize> {
        let others = allowed()?.into_iter().find(|&number| number != self.number);
        others.context("a slow link takes a processor of its own, and there is one only")
    }

    /// Moves the calling thread to this processor.
    pub(super) fn enter(&self) -> Result<()> {
        put(None, self.number)
    }

    /// Returns the time that packets have taken so far in the calling thread and in `ksoftirqd`.
    pub(super) fn spent(&self) -> Result<Duration> {
        let own = clock_gettime(ClockId::ThreadCPUTime);
        let own = Duration::new(own.tv_sec as u64, own.tv_nsec as u32);
        let Some(thread) = self.soft_interrupts else { return Ok(own) };
        let path = format!("/proc/{thread}/schedstat");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let nanos = text.split(' ').next().unwrap_or_default().parse();
        Ok(own + Duration::from_nanos(nanos.with_context(|| format!("cannot read {path}"))?))
    }
}

/// Gives a thread (`None`: the calling one) precedence over other programs on its processor. Packets of a network
/// card would not wait for those either.
pub(super) fn prefer(thread: Option<u32>) -> Result<()> {
    let raised = packets::raise_priority(thread.unwrap_or(0));
    raised.context("cannot raise the scheduling priority; this needs root")
}

/// Binds a thread (`None`: the calling one) to one processor.
pub(super) fn put(thread: Option<u32>, processor: usize) -> Result<()> {
    let thread = thread.and_then(|number| Pid::from_raw(i32::try_from(number).ok()?));
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(thread, &set)
        .with_context(|| format!("cannot run anything on processor {processor}"))
}

fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot ask on which processors this may run")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}

/// Returns the id of a kernel thread by its name.
fn kernel_thread(name: &str) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers =
        processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|number| {
        fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_busy_thread_is_counted() {
        let processor = Processor::last().unwrap();
        let before = processor.spent().unwrap();
        let start = std::time::Instant::now();
        while processor.spent().unwrap() - before < Duration::from_millis(2) {
            assert!(start.elapsed() < Duration::from_secs(20), "its time stands still");
        }
        assert_ne!(processor.another().unwrap_or(usize::MAX), processor.number);
    }
}
