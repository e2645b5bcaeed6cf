//! What the kernel tells of this process, under the names that all clients of Prometheus use.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::family::Family;

/// Returns the families of the process; without those that the kernel does not tell.
pub(super) fn families() -> Vec<Family> {
    let mut families = Vec::new();
    let mut gauge = |name: &str, help: &str, number: Option<f64>| {
        if let Some(number) = number {
            let mut family = Family::gauges(name, help);
            family.number(Vec::new(), number);
            families.push(family);
        }
    };
    let memory = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let page = rustix::param::page_size() as f64;
    let mut pages = memory.split(' ').map(|pages| Some(pages.parse::<f64>().ok()? * page));
    gauge("process_virtual_memory_bytes", "Virtual memory.", pages.next().flatten());
    gauge("process_resident_memory_bytes", "Resident memory.", pages.next().flatten());
    let open = std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as f64);
    gauge("process_open_fds", "Open file descriptors.", open);
    let mut used = Family::counters("process_cpu_seconds", "Processor time of all threads.");
    used.seconds(processor_time().as_secs_f64());
    families.push(used);
    families
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
