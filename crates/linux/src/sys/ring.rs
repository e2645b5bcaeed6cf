//! The reader of a BPF ring buffer: shared memory that the kernel writes, read without system calls.
//!
//! The map's memory is laid out as one page with the reader's position, one with the writer's, and the ring, which is
//! mapped twice in a row, so that no record breaks at its end. A record is a header of eight octets (length and two
//! flags, page offset) and its octets, padded to eight. (Linux: `Documentation/bpf/ringbuf.rst`.)

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::bpf;

/// Flags in a record's length: still being written; discarded.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Octets of a record's header.
const HEADER: usize = 8;

/// The ring and its only reader.
#[derive(Debug)]
pub(crate) struct Ring {
    map: OwnedFd,
    /// The page that this process writes: the reader's position.
    consumer: Mapping,
    /// The page with the kernel's position, and the ring twice.
    producer: Mapping,
    page: usize,
    size: usize,
}

// SAFETY: the mappings belong to this value alone, and positions in them are only used atomically.
unsafe impl Send for Ring {}

/// A region of mapped memory.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(map: &OwnedFd, protection: i32, offset: usize, length: usize) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of a mapping that only this value knows.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

impl Ring {
    /// Creates a ring of `size` octets, a power of two of whole pages.
    pub(crate) fn new(name: &str, size: u32) -> io::Result<Ring> {
        let map = bpf::create_ring(name, size)?;
        let (page, size) = (rustix::param::page_size(), size as usize);
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let consumer = Mapping::new(&map, both, 0, page)?;
        let producer = Mapping::new(&map, libc::PROT_READ, page, page + 2 * size)?;
        Ok(Ring { map, consumer, producer, page, size })
    }

    /// Returns the descriptor, for the instructions of a program.
    pub(crate) fn descriptor(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// Passes records to `each`, at most `most`, oldest first, until `each` refuses one, which remains; returns the
    /// number of records taken.
    pub(crate) fn read(
        &mut self,
        most: usize,
        mut each: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> usize {
        // SAFETY: both pages begin with a position of eight octets and live as long as `self`.
        let (consumer, producer) = unsafe {
            (
                self.consumer.start.cast::<AtomicU64>().as_ref(),
                self.producer.start.cast::<AtomicU64>().as_ref(),
            )
        };
        let mut count = 0;
        let mut at = consumer.load(Ordering::Relaxed); // only we write it
        while count < most && at < producer.load(Ordering::Acquire) {
            let offset = self.page + (at as usize & (self.size - 1));
            // SAFETY: positions are multiples of eight, so that the header lies inside the ring and is aligned; only
            // the kernel writes it, and atomically.
            let length = unsafe { self.producer.start.add(offset).cast::<AtomicU32>().as_ref() };
            let length = length.load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let octets = (length & !DISCARDED) as usize;
            if length & DISCARDED == 0 {
                // SAFETY: a record of which the kernel has released so many octets; it is not longer than the ring,
                // which is mapped twice, and the kernel does not write there before the position moves on.
                let taken = each(unsafe {
                    let start = self.producer.start.add(offset + HEADER);
                    std::slice::from_raw_parts(start.as_ptr(), octets.min(self.size - HEADER))
                });
                if taken.is_break() {
                    break;
                }
                count += 1;
            }
            at += (octets + HEADER).next_multiple_of(8) as u64;
            consumer.store(at, Ordering::Release);
        }
        count
    }
}

impl Ring {
    /// Whether no record waits.
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: as in `read`.
        let [consumer, producer] = [&self.consumer, &self.producer]
            .map(|page| unsafe { page.start.cast::<AtomicU64>().as_ref() });
        consumer.load(Ordering::Relaxed) == producer.load(Ordering::Acquire)
    }
}

impl AsFd for Ring {
    /// Returns the descriptor that becomes readable when records wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
