//! Test runs of BPF programs in the kernel, runs on live frames, and the kernel's run time statistics.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::bpf::{INFO, InfoOf, address, call, call_for_descriptor};

// Commands.
const PROGRAM_RUN: i64 = 10;
const ENABLE_STATISTICS: i64 = 32;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// Attributes of a test run: input and result.
#[repr(C)]
#[derive(Default)]
struct Run {
    program: u32,
    answer: u32,
    length: u32,
    room: u32,
    frame: u64,
    result: u64,
    times: u32,
    nanoseconds: u32,
    context_length: u32,
    context_room: u32,
    context: u64,
    context_result: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

/// Makes the kernel run a program on a frame this many times, as on packets of the loopback interface. Returns the
/// result of the last run, and the duration of one run.
pub(crate) fn run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    times: u32,
) -> io::Result<(u32, Duration)> {
    let mut attributes = Run {
        program: program.as_raw_fd() as u32,
        length: frame.len() as u32,
        frame: address(frame),
        times,
        ..Run::default()
    };
    // SAFETY: the only pointer that is not null is to `length` octets, which the kernel reads.
    unsafe { call(PROGRAM_RUN, &mut attributes) }?;
    Ok((attributes.answer, Duration::from_nanos(attributes.nanoseconds.into())))
}

/// Makes the kernel run an XDP program this many times on frames as if they had arrived at an interface of this network
/// namespace, and apply the program's verdict to each. The interface needs an XDP program of its own. Every frame
/// starts as a copy of `frame`, but is reused with the changes of earlier runs. Linux 5.18 and later.
pub(crate) fn run_live(
    program: BorrowedFd<'_>,
    interface: u32,
    frame: &[u8],
    times: u32,
) -> io::Result<()> {
    // `struct xdp_md`: start and end of the data, start of the metadata, and the incoming interface.
    let context: [u32; 6] = [0, frame.len() as u32, 0, interface, 0, 0];
    let mut attributes = Run {
        program: program.as_raw_fd() as u32,
        length: frame.len() as u32,
        frame: address(frame),
        times,
        context_length: size_of_val(&context) as u32,
        context: address(&context),
        flags: LIVE_FRAMES,
        ..Run::default()
    };
    // SAFETY: the pointers that are not null are to `length` and `context_length` octets, which the kernel reads.
    unsafe { call(PROGRAM_RUN, &mut attributes) }.map(drop)
}

/// Makes the kernel measure the run time of programs while the descriptor is held.
pub(crate) fn count_run_times() -> io::Result<OwnedFd> {
    let mut kind: u32 = 0; // `BPF_STATS_RUN_TIME`
    // SAFETY: no pointers.
    unsafe { call_for_descriptor(ENABLE_STATISTICS, &mut kind) }
}

/// Returns the number of runs of a program and their total time, as far as the kernel [measures](count_run_times) it.
pub(crate) fn run_time(program: BorrowedFd<'_>) -> io::Result<(u64, Duration)> {
    /// The head of the kernel's `struct bpf_prog_info`.
    #[repr(C)]
    struct Info {
        before: [u8; 192],
        nanoseconds: u64,
        runs: u64,
    }
    let mut info = Info { before: [0; 192], nanoseconds: 0, runs: 0 };
    let (object, length) = (program.as_raw_fd() as u32, size_of::<Info>() as u32);
    let mut attributes = InfoOf { object, length, info: (&raw mut info) as u64 };
    // SAFETY: `info` is the head of the kernel's structure, whose length is given, with null pointers in it; the kernel
    // writes it.
    unsafe { call(INFO, &mut attributes) }?;
    Ok((info.runs, Duration::from_nanos(info.nanoseconds)))
}
