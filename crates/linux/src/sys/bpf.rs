//! The bpf(2) system call: programs, maps, and attaching a program to an interface's ingress or egress.
//!
//! Only what Earmark needs (Linux: `include/uapi/linux/bpf.h`). A classifier, on egress, outlives its loader: it is
//! attached directly. An interceptor, on ingress, must not: it is attached by a link, which ends with the descriptor
//! that holds it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The kernel's limit for names, with the terminating zero.
const NAME: usize = 16;

// Commands.
const MAP_CREATE: i64 = 0;
const MAP_LOOKUP: i64 = 1;
const MAP_UPDATE: i64 = 2;
const MAP_DELETE: i64 = 3;
const MAP_NEXT_KEY: i64 = 4;
const PROGRAM_LOAD: i64 = 5;
const PROGRAM_ATTACH: i64 = 8;
const PROGRAM_DETACH: i64 = 9;
const PROGRAM_BY_ID: i64 = 13;
const MAP_BY_ID: i64 = 14;
pub(super) const INFO: i64 = 15;
const PROGRAM_QUERY: i64 = 16;
const LINK_CREATE: i64 = 28;

const HASH_MAP: u32 = 1;
const ARRAY_MAP: u32 = 2;
const PER_PROCESSOR_ARRAY_MAP: u32 = 6;
const RING_BUFFER: u32 = 27;
const TRAFFIC_CLASSIFIER: u32 = 3;
const XDP_PROGRAM: u32 = 6;
/// `BPF_XDP`, and `XDP_FLAGS_DRV_MODE`: in the driver, not in the generic path after it.
const XDP: u32 = 37;
const DRIVER_MODE: u32 = 1 << 2;
/// `BPF_TCX_INGRESS`.
const TCX_INGRESS: u32 = 46;
/// `BPF_TCX_EGRESS`.
const TCX_EGRESS: u32 = 47;
/// `BPF_F_REPLACE` and `BPF_F_BEFORE`.
const REPLACE: u32 = 1 << 2;
const BEFORE: u32 = 1 << 3;
/// `BPF_F_NO_PREALLOC`: memory only for existing entries.
const ON_DEMAND: u32 = 1;
/// `BPF_F_MMAPABLE`: the values can be mapped into a process.
const MAPPED: u32 = 1 << 10;
/// Maximum number of programs that are examined on one interface.
const MAX_PROGRAMS: usize = 64;

/// Sizes of a hash map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MapShape {
    /// Octets of a key.
    key: u32,
    /// Octets of a value.
    value: u32,
    /// Maximum number of entries.
    entries: u32,
}

/// Properties of a loaded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramInfo {
    /// Program ID in the kernel.
    pub(crate) number: u32,
    /// Program name.
    pub(crate) name: String,
    /// IDs of the maps that it uses.
    pub(crate) maps: Vec<u32>,
}

/// Calls bpf(2) with a command's structure. The caller knows which pointers in it must be valid.
///
/// # Safety
/// `attributes` must be the structure of `command`, and the pointers in it must be valid for what the command does.
pub(super) unsafe fn call<T>(command: i64, attributes: &mut T) -> io::Result<i64> {
    // SAFETY: pointer and size describe `attributes`; the rest is the caller's promise.
    let outcome = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>())
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome) }
}

/// # Safety
/// As [`call`], for commands that return a new descriptor.
pub(super) unsafe fn call_for_descriptor<T>(
    command: i64,
    attributes: &mut T,
) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise; the descriptor is new and not shared, close-on-exec as all of BPF's are.
    unsafe { Ok(OwnedFd::from_raw_fd(call(command, attributes)? as i32)) }
}

fn name_of(text: &str) -> [u8; NAME] {
    let mut name = [0; NAME];
    let length = text.len().min(NAME - 1);
    name[..length].copy_from_slice(&text.as_bytes()[..length]);
    name
}

pub(super) fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr() as u64
}

/// Creates a hash map.
fn create_map(name: &str, shape: MapShape) -> io::Result<OwnedFd> {
    create(name, HASH_MAP, shape, ON_DEMAND)
}

/// Creates a per-processor array with one value of this many octets, which programs use as working memory.
pub(crate) fn create_work_area(name: &str, octets: u32) -> io::Result<OwnedFd> {
    create(name, PER_PROCESSOR_ARRAY_MAP, MapShape { key: 4, value: octets, entries: 1 }, 0)
}

/// Creates a ring buffer of this many octets, a power of two of whole pages.
pub(crate) fn create_ring(name: &str, octets: u32) -> io::Result<OwnedFd> {
    create(name, RING_BUFFER, MapShape { key: 0, value: 0, entries: octets }, 0)
}

/// Creates an array with values of this many octets, a multiple of eight, that can be mapped into memory; all octets are
/// zero.
pub(crate) fn create_mapped_array(name: &str, value: u32, entries: u32) -> io::Result<OwnedFd> {
    create(name, ARRAY_MAP, MapShape { key: 4, value, entries }, MAPPED)
}

fn create(name: &str, kind: u32, shape: MapShape, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        key: u32,
        value: u32,
        entries: u32,
        flags: u32,
        inner: u32,
        node: u32,
        name: [u8; NAME],
    }
    let MapShape { key, value, entries } = shape;
    let name = name_of(name);
    let mut attributes = Attributes { kind, key, value, entries, flags, inner: 0, node: 0, name };
    // SAFETY: no pointers.
    unsafe { call_for_descriptor(MAP_CREATE, &mut attributes) }
}

/// Loads a traffic classifier of 8-octet instructions. If the kernel refuses, the error has the end of the verifier's
/// log.
pub(crate) fn load_classifier(
    name: &str,
    instructions: &[u8],
    license: &str,
) -> io::Result<OwnedFd> {
    load(TRAFFIC_CLASSIFIER, name, instructions, license)
}

/// Loads an XDP program; errors as for [`load_classifier`].
pub(crate) fn load_xdp(name: &str, instructions: &[u8], license: &str) -> io::Result<OwnedFd> {
    load(XDP_PROGRAM, name, instructions, license)
}

fn load(kind: u32, name: &str, instructions: &[u8], license: &str) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; NAME],
    }
    let license: Vec<u8> = license.bytes().chain([0]).collect();
    let mut log = vec![0_u8; 64 * 1024];
    let mut attributes = Attributes {
        kind,
        count: (instructions.len() / 8) as u32,
        instructions: address(instructions),
        license: address(&license),
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: name_of(name),
    };
    // SAFETY: the pointers are to `count` instructions and to a text with its zero, which the kernel reads.
    let refused = match unsafe { call_for_descriptor(PROGRAM_LOAD, &mut attributes) } {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    (attributes.log_level, attributes.log_size) = (1, log.len() as u32);
    attributes.log = log.as_mut_ptr() as u64;
    // SAFETY: as above; and the kernel writes its log into `log`, whose size is given.
    match unsafe { call_for_descriptor(PROGRAM_LOAD, &mut attributes) } {
        Ok(program) => Ok(program),
        Err(_) => {
            let end = log.iter().position(|&o| o == 0).unwrap_or(log.len());
            let text = String::from_utf8_lossy(&log[end.saturating_sub(400)..end]).into_owned();
            tracing::debug!(verifier = text, "the kernel refused the program");
            Err(refused)
        }
    }
}

#[repr(C)]
#[derive(Default)]
struct Attachment {
    interface: u32,
    program: u32,
    kind: u32,
    flags: u32,
    replaced: u32,
    relative: u32,
    revision: u64,
}

/// Attaches a program to an interface's egress: before all others, or in the place of `replaced`.
pub(crate) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    replaced: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut attributes = Attachment {
        interface,
        program: program.as_raw_fd() as u32,
        kind: TCX_EGRESS,
        flags: if replaced.is_some() { REPLACE } else { BEFORE },
        replaced: replaced.map_or(0, |r| r.as_raw_fd() as u32),
        ..Attachment::default()
    };
    // SAFETY: no pointers.
    unsafe { call(PROGRAM_ATTACH, &mut attributes) }.map(drop)
}

/// Attaches a program to an interface's ingress, after all others, while the link is held.
pub(crate) fn link_ingress(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    link(program, interface, TCX_INGRESS, 0)
}

/// Attaches an XDP program to an interface, in its driver, while the link is held.
pub(crate) fn link_xdp(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    link(program, interface, XDP, DRIVER_MODE)
}

fn link(program: BorrowedFd<'_>, interface: u32, kind: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        interface: u32,
        kind: u32,
        flags: u32,
        relative: u32,
        padding: u32,
        revision: u64,
    }
    let program = program.as_raw_fd() as u32;
    let (relative, padding, revision) = (0, 0, 0);
    let mut attributes =
        Attributes { program, interface, kind, flags, relative, padding, revision };
    // SAFETY: no pointers.
    unsafe { call_for_descriptor(LINK_CREATE, &mut attributes) }
}

/// Detaches a program from an interface's egress.
pub(crate) fn detach(program: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let program = program.as_raw_fd() as u32;
    let mut attributes =
        Attachment { interface, program, kind: TCX_EGRESS, ..Attachment::default() };
    // SAFETY: no pointers.
    unsafe { call(PROGRAM_DETACH, &mut attributes) }.map(drop)
}

/// Returns the IDs of the programs on an interface's egress.
pub(crate) fn attached(interface: u32) -> io::Result<Vec<u32>> {
    #[repr(C)]
    struct Attributes {
        interface: u32,
        kind: u32,
        query_flags: u32,
        attach_flags: u32,
        programs: u64,
        count: u32,
        padding: u32,
        more: [u64; 4],
    }
    let mut programs = vec![0_u32; MAX_PROGRAMS];
    let mut attributes = Attributes {
        interface,
        kind: TCX_EGRESS,
        query_flags: 0,
        attach_flags: 0,
        programs: programs.as_mut_ptr() as u64,
        count: programs.len() as u32,
        padding: 0,
        more: [0; 4],
    };
    // SAFETY: the pointer is to `count` numbers, which the kernel writes.
    match unsafe { call(PROGRAM_QUERY, &mut attributes) } {
        Ok(_) => programs.truncate(attributes.count as usize),
        // Nothing was ever attached to this interface.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => programs.clear(),
        Err(error) => return Err(error),
    }
    Ok(programs)
}

#[repr(C)]
struct ById {
    id: u32,
    next: u32,
    flags: u32,
}

/// Opens a program by its kernel ID.
pub(crate) fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    unsafe { call_for_descriptor(PROGRAM_BY_ID, &mut ById { id, next: 0, flags: 0 }) }
}

/// Opens a map by its kernel ID.
pub(crate) fn map_by_id(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    unsafe { call_for_descriptor(MAP_BY_ID, &mut ById { id, next: 0, flags: 0 }) }
}

#[repr(C)]
pub(super) struct InfoOf {
    pub(super) object: u32,
    pub(super) length: u32,
    pub(super) info: u64,
}

/// Returns the properties of a program.
pub(crate) fn program_info(program: BorrowedFd<'_>) -> io::Result<ProgramInfo> {
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        kind: u32,
        number: u32,
        before: [u32; 11],
        map_count: u32,
        maps: u64,
        name: [u8; NAME],
    }
    let mut maps = [0_u32; 8];
    let mut info =
        Info { map_count: maps.len() as u32, maps: maps.as_mut_ptr() as u64, ..Info::default() };
    let (object, length) = (program.as_raw_fd() as u32, size_of::<Info>() as u32);
    let mut attributes = InfoOf { object, length, info: (&raw mut info) as u64 };
    // SAFETY: `info` points to the head of the kernel's structure, whose length is given; the only pointer in it is
    // to `map_count` numbers. Both are alive and written by the kernel only.
    unsafe { call(INFO, &mut attributes) }?;
    let end = info.name.iter().position(|&o| o == 0).unwrap_or(NAME);
    let count = (info.map_count as usize).min(maps.len());
    let name = String::from_utf8_lossy(&info.name[..end]).into_owned();
    Ok(ProgramInfo { number: info.number, name, maps: maps[..count].to_vec() })
}

/// Returns the sizes of a map; `None` if it is not a hash map (`BPF_MAP_TYPE_HASH`). (Another kind may have values of
/// this size and still return more octets in a lookup: the per-CPU kinds return one value for each CPU.)
fn hash_map_shape(map: BorrowedFd<'_>) -> io::Result<Option<MapShape>> {
    let mut info = [0_u32; 6]; // kind, id, key, value, entries, flags
    let (object, length) = (map.as_raw_fd() as u32, size_of_val(&info) as u32);
    let mut attributes = InfoOf { object, length, info: info.as_mut_ptr() as u64 };
    // SAFETY: `info` is the head of the kernel's structure, whose length is given; the kernel writes it.
    unsafe { call(INFO, &mut attributes) }?;
    let [kind, _, key, value, entries, _] = info;
    Ok((kind == HASH_MAP).then_some(MapShape { key, value, entries }))
}

/// A hash map or an array with keys of `K` octets and values of `V`. The sizes are checked when it is created or found:
/// the kernel reads and writes as many octets as its map specifies, whatever the caller provides.
#[derive(Debug)]
pub(crate) struct Map<const K: usize, const V: usize> {
    descriptor: OwnedFd,
}

#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl<const K: usize, const V: usize> Map<K, V> {
    /// Creates a map for this many entries.
    pub(crate) fn create(name: &str, entries: u32) -> io::Result<Map<K, V>> {
        let shape = MapShape { key: K as u32, value: V as u32, entries };
        Ok(Map { descriptor: create_map(name, shape)? })
    }

    /// Creates an array of this many values, all octets zero; keys are their indexes.
    pub(crate) fn create_array(name: &str, entries: u32) -> io::Result<Map<K, V>> {
        let shape = MapShape { key: K as u32, value: V as u32, entries };
        Ok(Map { descriptor: create(name, ARRAY_MAP, shape, 0)? })
    }

    /// Wraps a map that was found; returns the descriptor if it is not a hash map, or has other sizes.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Result<Map<K, V>, OwnedFd>> {
        use std::os::fd::AsFd;
        let shape = hash_map_shape(descriptor.as_fd())?;
        let fits = shape.is_some_and(|s| s.key as usize == K && s.value as usize == V);
        Ok(if fits { Ok(Map { descriptor }) } else { Err(descriptor) })
    }

    /// Returns the descriptor, for the instructions of a program.
    pub(crate) fn descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// Sets the value of a key.
    pub(crate) fn set(&self, key: &[u8; K], value: &[u8; V]) -> io::Result<()> {
        let mut element = self.element(address(key), address(value));
        // SAFETY: key and value have the sizes of the map's, and the kernel reads them.
        unsafe { call(MAP_UPDATE, &mut element) }.map(drop)
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &[u8; K]) -> io::Result<Option<[u8; V]>> {
        let mut value = [0; V];
        let mut element = self.element(address(key), value.as_mut_ptr() as u64);
        // SAFETY: key and value have the sizes of the map's; the kernel reads the key and writes the value.
        let outcome = unsafe { call(MAP_LOOKUP, &mut element) };
        Ok(found(outcome)?.then_some(value))
    }

    /// Removes a key; returns whether it was present.
    pub(crate) fn remove(&self, key: &[u8; K]) -> io::Result<bool> {
        let mut element = self.element(address(key), 0);
        // SAFETY: the key has the size of the map's, and the kernel reads it.
        found(unsafe { call(MAP_DELETE, &mut element) })
    }

    /// Returns all keys, at most `most`. Concurrent changes of the map may make the walk start again; the limit bounds
    /// that.
    pub(crate) fn keys(&self, most: usize) -> io::Result<Vec<[u8; K]>> {
        let mut keys: Vec<[u8; K]> = Vec::new();
        while keys.len() < most {
            let mut next = [0; K];
            let before = keys.last().map_or(0, |key| address(key));
            let mut element = self.element(before, next.as_mut_ptr() as u64);
            // SAFETY: the key before is null (the beginning) or has the map's size; the kernel writes the next one,
            // of the same size, where the value would be.
            if !found(unsafe { call(MAP_NEXT_KEY, &mut element) })? {
                break;
            }
            keys.push(next);
        }
        Ok(keys)
    }

    fn element(&self, key: u64, value: u64) -> Element {
        Element { map: self.descriptor.as_raw_fd() as u32, padding: 0, key, value, flags: 0 }
    }
}

fn found(outcome: io::Result<i64>) -> io::Result<bool> {
    match outcome {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}
