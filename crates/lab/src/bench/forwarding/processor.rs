//! The processor that a router runs on, and what of its time is spent for packets.
//!
//! Packets are forwarded in the time of the thread that sends them: its own system call, and the soft interrupts that the kernel
//! serves at the end of it. When there are too many of these, the kernel's thread `ksoftirqd` of the processor goes on with them;
//! so its time counts too. What other programs do on the processor meanwhile does not.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use earmark_linux::packets;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// One of those that this program may run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processor {
    number: usize,
    /// The `ksoftirqd` of the processor; `None` if there is none to be seen.
    soft_interrupts: Option<u32>,
}

impl Processor {
    /// The last that this thread may run on: interrupts of devices go to the first, mostly.
    pub(super) fn last() -> Result<Processor> {
        let number = *allowed()?.last().context("this program may run nowhere")?;
        Ok(Processor { number, soft_interrupts: kernel_thread(&format!("ksoftirqd/{number}")) })
    }

    /// Another one, for what is not the router's.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn another(&self) -> Result<usize> {
        let others = allowed()?.into_iter().find(|&number| number != self.number);
        others.context("a slow link takes a processor of its own, and there is one only")
    }

    /// Puts the calling thread there.
    pub(super) fn enter(&self) -> Result<()> {
        put(None, self.number)
    }

    /// What packets have taken so far of the calling thread's time, and of the kernel's.
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

/// Lets a thread go before those of other programs on its processor, or the calling one. Packets of a network card would not
/// wait for them either.
pub(super) fn prefer(thread: Option<u32>) -> Result<()> {
    let promptly = packets::run_promptly(thread.unwrap_or(0));
    promptly.context("cannot run before other programs; it takes root")
}

/// Puts a thread on one processor, or the calling one.
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

/// The number of a thread of the kernel's.
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
