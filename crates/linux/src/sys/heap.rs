//! A counting allocator: the system's, with a count of the octets in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting the requested octets. A program that wants the count makes it its own allocator:
///
/// ```
/// #[global_allocator]
/// static HEAP: earmark_linux::heap::Counting = earmark_linux::heap::Counting;
///
/// let before = earmark_linux::heap::in_use().expect("counted");
/// let octets = vec![0_u8; 1_000_000];
/// assert!(earmark_linux::heap::in_use() >= Some(before + octets.len()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Counting;

fn add(octets: usize) {
    // No other memory depends on these numbers, so relaxed order is enough.
    let now = IN_USE.fetch_add(octets, Ordering::Relaxed) + octets;
    if now > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(now, Ordering::Relaxed);
    }
}

fn subtract(octets: usize) {
    IN_USE.fetch_sub(octets, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it came, and its answer is given back as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the same contract.
        let pointer = unsafe { System.alloc(layout) };
        if !pointer.is_null() {
            add(layout.size());
        }
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the same contract.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        if !pointer.is_null() {
            add(layout.size());
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the same contract, and all memory of this allocator is the system's.
        unsafe { System.dealloc(pointer, layout) };
        subtract(layout.size());
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the same contract, and all memory of this allocator is the system's.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        if !moved.is_null() {
            // Add the new size first: both blocks may exist during the copy.
            add(size);
            subtract(layout.size());
        }
        moved
    }
}

/// Returns the octets in use, as the program requested them: without the allocator's overhead and its free memory.
/// `None` if [`Counting`] is not this program's allocator.
pub fn in_use() -> Option<usize> {
    Some(IN_USE.load(Ordering::Relaxed)).filter(|&octets| octets > 0)
}

/// Returns the maximum in use since [`restart_peak`]; `None` as for [`in_use`].
pub fn peak() -> Option<usize> {
    Some(PEAK.load(Ordering::Relaxed)).filter(|&octets| octets > 0)
}

/// Sets the peak to the current use.
pub fn restart_peak() {
    PEAK.store(IN_USE.load(Ordering::Relaxed), Ordering::Relaxed);
}
