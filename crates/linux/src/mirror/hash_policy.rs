//! Kernel settings that spread flows over several next hops; their changes are not announced.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Settings of both families that select the next hop of a flow. Those of IPv6 begin at the fourth.
const SETTINGS: [&str; 5] = [
    "/proc/sys/net/ipv4/fib_multipath_hash_policy",
    "/proc/sys/net/ipv4/fib_multipath_hash_fields",
    "/proc/sys/net/ipv4/fib_multipath_use_neigh",
    "/proc/sys/net/ipv6/fib_multipath_hash_policy",
    "/proc/sys/net/ipv6/fib_multipath_hash_fields",
];
const FIRST_OF_IPV6: usize = 3;
/// Octets that are read of a setting: a number.
const LENGTH: usize = 16;

/// The last seen settings of the network namespace of the thread that opened them.
#[derive(Debug)]
pub(super) struct HashPolicy {
    /// `None` if the kernel has no such setting.
    files: [Option<File>; SETTINGS.len()],
    seen: [[u8; LENGTH]; SETTINGS.len()],
}

impl HashPolicy {
    pub(super) fn open() -> HashPolicy {
        let files = SETTINGS.map(|path| File::open(path).ok());
        let seen = files.each_ref().map(|file| file.as_ref().map_or([0; LENGTH], read));
        HashPolicy { files, seen }
    }

    /// Whether the IPv6 policy was 3, a hash of chosen fields.
    pub(super) fn is_ipv6_by_fields(&self) -> bool {
        self.seen[FIRST_OF_IPV6].starts_with(b"3")
    }

    /// Reads the settings again; returns whether those of IPv4 and of IPv6 have changed.
    pub(super) fn changes(&mut self) -> [bool; 2] {
        let mut changed = [false; 2];
        for (at, (file, seen)) in self.files.iter().zip(&mut self.seen).enumerate() {
            let now = file.as_ref().map_or([0; LENGTH], read);
            if now != *seen {
                changed[usize::from(at >= FIRST_OF_IPV6)] = true;
                *seen = now;
            }
        }
        changed
    }
}

/// Returns the current `fib_multipath_hash_policy` of a family, in the network namespace of the calling thread; `None`
/// if the kernel has no such setting.
pub(crate) fn multipath_policy(ipv6: bool) -> Option<u8> {
    let file = File::open(SETTINGS[if ipv6 { FIRST_OF_IPV6 } else { 0 }]).ok()?;
    let text = read(&file);
    let end = text.iter().position(|octet| !octet.is_ascii_digit())?;
    str::from_utf8(&text[..end]).ok()?.parse().ok()
}

fn read(file: &File) -> [u8; LENGTH] {
    let mut text = [0; LENGTH];
    // An unreadable setting counts as unchanged.
    let _ = file.read_at(&mut text, 0);
    text
}
