//! Scheduling parameters of a thread (sched_setattr(2)).

use std::io;
use std::time::Duration;

/// Sets the nice value and the slice of a thread (0: the calling one) under the ordinary policy. A thread with short
/// slices does not wait until the slice of another thread is over (Linux 6.12).
pub(crate) fn set(thread: u32, nice: i32, slice: Duration) -> io::Result<()> {
    /// `struct sched_attr`.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime: slice.as_nanos() as u64,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the pointer is to a structure that names its own size; the kernel reads it.
    let outcome =
        unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0_u32) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
