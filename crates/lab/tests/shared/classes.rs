//! Classes of an interface, as reported by the kernel: rate and traffic of each.

use std::collections::BTreeMap;

use earmark_core::Rate;
use earmark_linux::netlink::{Connection, Message, NetlinkError};
use earmark_linux::netns::Namespace;
use libtest_mimic::Failed;

/// First minor number of the pool; those below are of the link and of its fixed classes.
const POOL: u32 = 0x10;
/// Minor number of the class of the host's own control traffic.
#[allow(dead_code, reason = "not every test looks there")]
pub(crate) const SIGNALLING: u32 = 3;
/// Minor number of the class of forwarded control traffic.
#[allow(dead_code, reason = "not every test looks there")]
pub(crate) const CONTROL: u32 = 5;

/// A traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) handle: u32,
    /// Assured rate.
    pub(crate) rate: Rate,
    /// Octets sent through the class.
    pub(crate) octets: u64,
    /// Packets sent through the class.
    pub(crate) packets: u32,
}

/// Returns the classes of the pool of an interface in a namespace, reserved or parked, by handle.
pub(crate) fn pool(namespace: &Namespace, index: u32) -> Result<Vec<Class>, Failed> {
    let classes = namespace.run_in(|| classes_of(index))??;
    Ok(classes.into_values().filter(|class| class.handle & 0xffff >= POOL).collect())
}

/// Returns one of the fixed classes of an interface in a namespace.
#[allow(dead_code, reason = "not every test looks there")]
pub(crate) fn fixed(namespace: &Namespace, index: u32, minor: u32) -> Result<Class, Failed> {
    let classes = namespace.run_in(|| classes_of(index))??;
    let class = classes.into_values().find(|class| class.handle & 0xffff == minor);
    class.ok_or_else(|| format!("there is no class {minor:#x}").into())
}

/// Requests all classes of an interface in the namespace of this thread (`rtnetlink.h`, `pkt_sched.h`,
/// `gen_stats.h`).
fn classes_of(index: u32) -> Result<BTreeMap<u32, Class>, NetlinkError> {
    const GET_CLASS: u16 = 42; // RTM_GETTCLASS
    const HEADER: usize = 20; // struct tcmsg
    const OPTIONS: u16 = 2; // TCA_OPTIONS
    const PARAMETERS: u16 = 1; // TCA_HTB_PARMS
    const RATE_64: u16 = 6; // TCA_HTB_RATE64
    const STATISTICS: u16 = 7; // TCA_STATS2
    const BASIC: u16 = 1; // TCA_STATS_BASIC
    let mut header = [0; HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut netlink = Connection::open()?;
    let dump = netlink.dump("list the classes", Message::new(GET_CLASS, 0).fixed(&header));
    let mut classes = BTreeMap::new();
    for message in &dump? {
        let message = message?;
        let fixed = message.fixed(HEADER, "class")?;
        let handle = u32::from_ne_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
        let mut class = Class { handle, ..Class::default() };
        for attribute in message.attributes(HEADER).flatten() {
            for inner in attribute.nested().flatten() {
                match (attribute.kind, inner.kind) {
                    (STATISTICS, BASIC) => {
                        let [a, b, c, d, e, f, g, h, i, j, k, l]: [u8; 12] =
                            inner.array("counters")?;
                        class.octets = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                        class.packets = u32::from_ne_bytes([i, j, k, l]);
                    }
                    // `struct tc_htb_opt` begins with a `struct tc_ratespec`, whose last field is the rate in octets
                    // a second.
                    (OPTIONS, PARAMETERS) => {
                        let [_, _, _, _, _, _, _, _, a, b, c, d, ..]: [u8; 44] =
                            inner.array("parameters")?;
                        let octets = u32::from_ne_bytes([a, b, c, d]);
                        class.rate = Rate::from_bps(u64::from(octets) * 8);
                    }
                    (OPTIONS, RATE_64) => {
                        let octets = u64::from_ne_bytes(inner.array("rate")?);
                        class.rate = Rate::from_bps(octets * 8);
                    }
                    _ => {}
                }
            }
        }
        classes.insert(handle, class);
    }
    Ok(classes)
}
