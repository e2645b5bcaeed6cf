//! Environment of the measurements: the machine, its kernel, and its noise.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use earmark_lab::statistics::{percentile, sorted};
use serde::{Deserialize, Serialize};

use super::section::{Cell, Section, Table};
use crate::provenance::commit;

/// Number of timings of the same work.
const REPETITIONS: usize = 1_000;
/// Steps of that work: about a tenth of a millisecond.
const STEPS: u32 = 60_000;
/// Relative excess over the median above which the slowest twentieth marks a noisy machine.
const NOISY: f64 = 0.10;

/// A machine, and its noise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Processor model.
    pub processor: String,
    /// Number of processors.
    pub processors: usize,
    /// Processor clock by the kernel, MHz.
    pub mhz: Option<f64>,
    /// Whether the machine is virtual.
    pub is_virtual: bool,
    /// Total memory, octets.
    pub memory: u64,
    /// Kernel, with its version.
    pub kernel: String,
    /// Mitigations of processor vulnerabilities in the kernel.
    pub mitigations: BTreeMap<String, String>,
    /// Clock source of the kernel.
    pub clock_source: String,
    /// Frequency governor of the processor.
    pub governor: Option<String>,
    /// Version of this program.
    pub version: String,
    /// Commit that this program was built from.
    #[serde(default)]
    pub commit: String,
    /// Load average of one minute before the first measurement.
    pub load: Option<f64>,
    /// Noise before the first measurement.
    pub before: Option<Noise>,
    /// Noise after the last measurement.
    pub after: Option<Noise>,
}

/// Variation of the time of the same work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Median time, microseconds.
    pub median_us: f64,
    /// 95th percentile less the median, relative to the median.
    pub one_in_20: f64,
    /// Maximum less the median, relative to the median.
    pub longest: f64,
}

impl Noise {
    /// Measures the noise, in about a tenth of a second.
    pub fn measure() -> Noise {
        let times = (0..REPETITIONS).map(|_| {
            let start = Instant::now();
            black_box(work(black_box(STEPS)));
            start.elapsed().as_secs_f64() * 1e6
        });
        Noise::of(times.collect())
    }

    fn of(times: Vec<f64>) -> Noise {
        let times = sorted(times);
        let [median, one_in_20, longest] =
            [50, 95, 100].map(|percent| percentile(&times, percent).unwrap_or(f64::NAN));
        let over = |time| time / median - 1.0;
        Noise { median_us: median, one_in_20: over(one_in_20), longest: over(longest) }
    }

    /// Returns whether results should be read with care.
    pub fn is_noisy(&self) -> bool {
        self.one_in_20 > NOISY
    }
}

/// Does work that no compiler can evaluate in advance.
fn work(steps: u32) -> u64 {
    (0..steps).fold(0x9e37_79b9, |state: u64, _| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 7);
        state ^ (state << 17)
    })
}

impl Environment {
    /// Describes this machine in its current state.
    pub fn of_this_machine() -> Environment {
        let system = rustix::system::uname();
        let kernel = [system.sysname(), system.release(), system.machine()];
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let of_cpu = |name: &str| {
            let line = cpu.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
            line.map(|(_, value)| value.trim().to_owned())
        };
        let flags = of_cpu("flags").unwrap_or_default();
        Environment {
            processor: of_cpu("model name").unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            mhz: of_cpu("cpu MHz").and_then(|mhz| mhz.parse().ok()),
            is_virtual: flags.split(' ').any(|flag| flag == "hypervisor"),
            memory: rustix::system::sysinfo().totalram as u64,
            kernel: kernel.map(|part| part.to_string_lossy().into_owned()).join(" "),
            mitigations: mitigations(),
            clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .unwrap_or_else(|| "unknown".to_owned()),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit().to_owned(),
            load: read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
            before: None,
            after: None,
        }
    }

    /// Returns whether both have the same processors, kernel, and commit of this program, so that a stored result of one
    /// can stand in for a measurement on the other.
    pub fn is_same_machine(&self, other: &Environment) -> bool {
        fn machine(it: &Environment) -> (&str, usize, [&str; 3]) {
            (&it.processor, it.processors, [&it.kernel, &it.version, &it.commit])
        }
        machine(self) == machine(other)
    }

    /// Returns whether the machine was noisy before or after.
    pub fn is_noisy(&self) -> bool {
        self.before.iter().chain(&self.after).any(Noise::is_noisy)
    }

    /// Returns the section about the machine.
    pub fn section(&self) -> Section {
        let mut section = Section::default();
        let mut table = Table::new("environment", "The machine", &["what", "value"]);
        let mut row = |what: &str, value: String| table.row([what.into(), Cell::Text(value)]);
        let kind = if self.is_virtual { ", a virtual machine" } else { "" };
        row("processor", format!("{} x {}{kind}", self.processors, self.processor));
        let mhz = self.mhz.map_or("unknown".to_owned(), |mhz| format!("{mhz:.0} MHz"));
        row("clock, as the kernel tells it", mhz);
        row("governor", self.governor.clone().unwrap_or_else(|| "none to be seen".to_owned()));
        row("memory", format!("{:.1} GB", self.memory as f64 / 1e9));
        row("kernel", self.kernel.clone());
        row("clock source", self.clock_source.clone());
        row("version of Earmark", self.version.clone());
        row("commit", self.commit.clone());
        let load = self.load.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        row("load of the last minute", load);
        for (when, noise) in [("before", self.before), ("after", self.after)] {
            if let Some(Noise { median_us, one_in_20, longest }) = noise {
                let (one_in_20, longest) = (100.0 * one_in_20, 100.0 * longest);
                row(
                    &format!("noise {when}"),
                    format!(
                        "work of {median_us:.0} us: one in 20 took {one_in_20:.1} % longer, the longest {longest:.0} %"
                    ),
                );
            }
        }
        section.table(table);
        if self.is_noisy() {
            section.text(
                "This machine was noisy: the same work took more than 10 % longer in one of 20 repetitions. Intervals tell how \
                 far results can be trusted; small differences should not be.",
            );
        }
        let mut table = Table::new("mitigations", "Faults of the processor", &["fault", "kernel"]);
        for (fault, state) in &self.mitigations {
            table.row([fault.as_str().into(), state.as_str().into()]);
        }
        section.table(table);
        section
    }
}

fn mitigations() -> BTreeMap<String, String> {
    let directory = fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    let files = directory.into_iter().flatten().flatten();
    let state = |file: fs::DirEntry| {
        let state = fs::read_to_string(file.path()).ok()?;
        Some((file.file_name().to_string_lossy().into_owned(), state.trim().to_owned()))
    };
    files.filter_map(state).filter(|(_, state)| state != "Not affected").collect()
}

fn read(file: &str) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let here = Environment::of_this_machine();
        assert!(here.kernel.starts_with("Linux") && here.memory > 0 && here.processors > 0);
        assert!(here.is_same_machine(&here.clone()));
        let other = Environment { processor: "another".to_owned(), ..here.clone() };
        assert!(!here.is_same_machine(&other));
        let text = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), here);
    }

    #[test]
    fn noise_is_time_above_the_median() {
        let quiet = Noise::of(vec![10.0; 100]);
        assert_eq!(quiet, Noise { median_us: 10.0, one_in_20: 0.0, longest: 0.0 });
        let mut times = vec![10.0; 90];
        times.extend([12.0; 10]);
        let noise = Noise::of(times);
        assert!(noise.is_noisy() && (0.19..0.21).contains(&noise.longest));
        let noisy = Environment { after: Some(noise), ..Environment::default() };
        assert!(noisy.is_noisy() && !Environment::default().is_noisy());
        assert!(Noise::measure().median_us > 0.0);
    }
}
