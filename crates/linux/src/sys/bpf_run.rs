//! Having the kernel run BPF programs: on a frame by its test runner, on live frames; and what it counts of those that run.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::bpf::{INFO, InfoOf, address, call, call_for_descriptor};

// Commands.
const PROGRAM_RUN: i64 = 10;
const ENABLE_STATISTICS: i64 = 32;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// What the kernel is to run a program on, and what came of it.
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

/// Has the kernel run a program on a frame so many times, as on packets of the loopback interface; gives what it answered
/// the last time, and how long one run took.
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

/// Has the kernel run an XDP program so many times on frames as if they had come from an interface of this network namespace, and
/// do with each what the program says. The interface needs an XDP program of its own. Every frame starts as a copy of
/// `frame`, but is used again as it came back. Linux 5.18 and later.
pub(crate) fn run_live(
    program: BorrowedFd<'_>,
    interface: u32,
    frame: &[u8],
    times: u32,
) -> io::Result<()> {
    // `struct xdp_md`: where the data begins and ends, that of metadata, and the interface it came from.
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

/// Has the kernel count how long programs run, while the descriptor is held.
pub(crate) fn count_run_times() -> io::Result<OwnedFd> {
    let mut kind: u32 = 0; // `BPF_STATS_RUN_TIME`
    // SAFETY: no pointers.
    unsafe { call_for_descriptor(ENABLE_STATISTICS, &mut kind) }
}

/// How often a program has run, and how long in all, as far as the kernel [counts](count_run_times).
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
