//! The reader of a BPF ring buffer: shared memory that the kernel writes, read without system calls.
//!
//! The map's memory is laid out as one page with the reader's position, one with the writer's, and the ring, which is
//! mapped twice in a row, so that no record breaks at its end. A record is a header of eight octets (length and two
//! flags, page offset) and its octets, padded to eight. (Linux: `Documentation/bpf/ringbuf.rst`.)

use std::io;
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
    /// Position up to which records were scanned, not before that of the reader.
    scanned: u64,
}

// SAFETY: the mappings belong to this value alone, and positions in them are only used atomically.
unsafe impl Send for Ring {}

/// A region of mapped memory.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    pub(super) fn new(
        map: &OwnedFd,
        protection: i32,
        offset: usize,
        length: usize,
    ) -> io::Result<Mapping> {
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

    /// Returns the address of the first octet.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
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
        Ok(Ring { map, consumer, producer, page, size, scanned: 0 })
    }

    /// Returns the descriptor, for the instructions of a program.
    pub(crate) fn descriptor(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// Passes the records that were written since the last call to `each`, oldest first: position, position after it, and
    /// octets. They stay until [`Ring::release`].
    pub(crate) fn scan(&mut self, mut each: impl FnMut(u64, u64, &[u8])) {
        let producer = self.position(&self.producer).load(Ordering::Acquire);
        while self.scanned < producer {
            let at = self.scanned;
            let length = self.length(at).load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            self.scanned = at + octets_used((length & !DISCARDED) as usize);
            if length & DISCARDED == 0 {
                each(at, self.scanned, self.record(at));
            }
        }
    }

    /// Returns a record that [`Ring::scan`] has found at this position and that is not released; nothing for positions
    /// outside these.
    pub(crate) fn record(&self, at: u64) -> &[u8] {
        let consumer = self.position(&self.consumer).load(Ordering::Relaxed); // only we write it
        if at < consumer || at >= self.scanned {
            return &[];
        }
        let octets = (self.length(at).load(Ordering::Relaxed) & !DISCARDED) as usize;
        let start = self.offset(at) + HEADER;
        // SAFETY: a position that the kernel has written and does not write again before it is released, which takes
        // `&mut self`. The octets are in the mapping: it has the ring twice, and they are fewer than the ring has.
        unsafe {
            let start = self.producer.start.add(start);
            std::slice::from_raw_parts(start.as_ptr(), octets.min(self.size - HEADER))
        }
    }

    /// Gives all records before this position back to the kernel.
    pub(crate) fn release(&mut self, end: u64) {
        let end = end.min(self.scanned);
        self.position(&self.consumer).store(end, Ordering::Release);
    }

    /// Gives everything that was scanned back to the kernel.
    pub(crate) fn release_all(&mut self) {
        self.release(self.scanned);
    }

    /// Offset in the mapping of the header at this position.
    fn offset(&self, at: u64) -> usize {
        self.page + (at as usize & (self.size - 1) & !7)
    }

    /// Length of the record at this position, with the flags.
    fn length(&self, at: u64) -> &AtomicU32 {
        // SAFETY: the offset is a multiple of eight inside the first mapping of the ring, so that the number is there and
        // aligned; only the kernel writes it, and atomically.
        unsafe { self.producer.start.add(self.offset(at)).cast().as_ref() }
    }

    fn position<'a>(&self, page: &'a Mapping) -> &'a AtomicU64 {
        // SAFETY: both pages begin with a position of eight octets, and are mapped as long as `page` lives.
        unsafe { page.start.cast().as_ref() }
    }
}

/// Returns the octets that a record of this length uses in the ring.
fn octets_used(record: usize) -> u64 {
    (record + HEADER).next_multiple_of(8) as u64
}

impl Ring {
    /// Whether no record waits.
    pub(crate) fn is_empty(&self) -> bool {
        let consumer = self.position(&self.consumer);
        let producer = self.position(&self.producer);
        consumer.load(Ordering::Relaxed) == producer.load(Ordering::Acquire)
    }
}

impl AsFd for Ring {
    /// Returns the descriptor that becomes readable when records wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
