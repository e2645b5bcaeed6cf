//! Messages and values of the kernel's queueing disciplines and classes (Linux: `pkt_sched.h`, `rtnetlink.h`).

use std::collections::BTreeMap;

use earmark_core::InterfaceId;

use super::plan::{
    BEST_EFFORT, ClassParameters, LinkProperties, MAJOR, MAX_POOL, POOL, Queues, handle,
};
use crate::link::interface_header;
use crate::netlink::{Answers, Attribute, Connection, Message, NetlinkError, Received};

/// Octets of `struct tcmsg`.
pub(super) const HEADER: usize = 20;
/// The parent of a root qdisc (`TC_H_ROOT`).
pub(super) const ROOT: u32 = u32::MAX;

// Attribute types of traffic control messages (`TCA_...`), of HTB (`TCA_HTB_...`), size tables and statistics.
pub(super) const KIND: u16 = 1;
pub(super) const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;
const SIZE_TABLE: u16 = 8;
const HTB_PARAMETERS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const HTB_CEILING64: u16 = 7;
const SIZE_TABLE_BASE: u16 = 1;
const STATISTICS_BASIC: u16 = 1;
const STATISTICS_QUEUE: u16 = 3;
const STATISTICS_PACKETS64: u16 = 8;

/// `TC_LINKLAYER_ETHERNET`: times are computed, without a rate table in the message.
const LINK_LAYER_ETHERNET: u8 = 1;
/// Hardware types (`ARPHRD_...`) whose packets carry a link-layer header of 14 octets when they are queued.
const ETHERNET_LIKE: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];

/// Returns the fixed part of traffic-control messages (`struct tcmsg`).
pub(super) fn header(interface: InterfaceId, handle: u32, parent: u32, info: u32) -> [u8; HEADER] {
    let mut octets = [0; HEADER];
    octets[4..8].copy_from_slice(&interface.0.to_ne_bytes());
    octets[8..12].copy_from_slice(&handle.to_ne_bytes());
    octets[12..16].copy_from_slice(&parent.to_ne_bytes());
    octets[16..20].copy_from_slice(&info.to_ne_bytes());
    octets
}

/// Kinds of our root qdisc: with HTB; without, on a device with one transmit queue and with several.
const HTB: &str = "htb";
pub(super) const PFIFO_FAST: &str = "pfifo_fast";
pub(super) const MQ: &str = "mq";

/// Returns the kind of root qdisc that a plan needs.
pub(super) fn root_kind(queues: Queues, properties: LinkProperties) -> &'static str {
    match (queues.is_htb(), properties.queues) {
        (true, _) => HTB,
        (false, 0 | 1) => PFIFO_FAST,
        (false, _) => MQ,
    }
}

/// Returns the request that creates our root qdisc, in place of the kernel's default.
pub(super) fn new_root(interface: InterfaceId, kind: &str, properties: LinkProperties) -> Message {
    if kind != HTB {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        return Message::new(libc::RTM_NEWQDISC, flags)
            .fixed(&header(interface, u32::from(MAJOR) << 16, ROOT, 0))
            .text(KIND, kind);
    }
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    let mut message = Message::new(libc::RTM_NEWQDISC, flags)
        .fixed(&header(interface, u32::from(MAJOR) << 16, ROOT, 0))
        .text(KIND, HTB);
    if properties.overhead != 0 {
        // An empty table with a negative overhead (`struct tc_sizespec`): only the overhead is applied.
        let mut base = [0; 24];
        base[4..8].copy_from_slice(&(-i32::from(properties.overhead)).to_ne_bytes());
        base[8..12].copy_from_slice(&u32::from(LINK_LAYER_ETHERNET).to_ne_bytes());
        message = message.nested(SIZE_TABLE, |m| m.attribute(SIZE_TABLE_BASE, &base));
    }
    // Version 3, rate to quantum 10 (unused, since every class has a quantum), default class (`struct tc_htb_glob`).
    let mut init = [0; 20];
    for (n, word) in [3, 10, u32::from(BEST_EFFORT)].into_iter().enumerate() {
        init[n * 4..n * 4 + 4].copy_from_slice(&word.to_ne_bytes());
    }
    message.nested(OPTIONS, |m| m.attribute(HTB_INIT, &init))
}

/// Returns the request that deletes our root qdisc, and everything below it.
pub(super) fn delete_root(interface: InterfaceId) -> Message {
    let header = header(interface, u32::from(MAJOR) << 16, ROOT, 0);
    Message::new(libc::RTM_DELQDISC, 0).fixed(&header)
}

/// Returns the request that creates a class, or changes the one with this number.
pub(super) fn set_class(
    interface: InterfaceId,
    minor: u16,
    parent: u32,
    parameters: &ClassParameters,
) -> Message {
    let mut options = Vec::with_capacity(44); // `struct tc_htb_opt`
    for rate in [parameters.rate, parameters.ceiling] {
        options.extend([0, LINK_LAYER_ETHERNET]); // `struct tc_ratespec`
        options.extend(parameters.overhead.to_ne_bytes());
        options.extend([0; 4]);
        options.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    }
    let (buffer, ceiling) = (parameters.buffer, parameters.ceiling_buffer);
    let level = 0; // the kernel computes it
    for word in [buffer, ceiling, parameters.quantum, level, parameters.priority] {
        options.extend(word.to_ne_bytes());
    }
    Message::new(libc::RTM_NEWTCLASS, libc::NLM_F_CREATE as u16)
        .fixed(&header(interface, handle(minor), parent, 0))
        .text(KIND, "htb")
        .nested(OPTIONS, |mut m| {
            m = m.attribute(HTB_PARAMETERS, &options);
            if parameters.rate > u64::from(u32::MAX) {
                m = m.u64(HTB_RATE64, parameters.rate);
            }
            if parameters.ceiling > u64::from(u32::MAX) {
                m = m.u64(HTB_CEILING64, parameters.ceiling);
            }
            m
        })
}

/// Changes a class, and returns its state afterwards.
///
/// # Errors
/// A refusal of the kernel; `ENOENT` if there is no such qdisc.
pub(super) fn change_class(
    netlink: &mut Connection,
    doing: &'static str,
    (interface, minor, parent): (InterfaceId, u16, u32),
    parameters: &ClassParameters,
) -> Result<Option<Class>, NetlinkError> {
    let answers = netlink.change(doing, set_class(interface, minor, parent, parameters))?;
    class_in(&answers)
}

/// Sets the same parameters for these classes of an interface, and returns the state of each afterwards.
///
/// # Errors
/// The socket failed.
pub(super) fn change_classes(
    netlink: &mut Connection,
    doing: &'static str,
    (interface, parent): (InterfaceId, u32),
    minors: impl Iterator<Item = u16>,
    parameters: &ClassParameters,
) -> Result<Vec<Result<Option<Class>, NetlinkError>>, NetlinkError> {
    let messages = minors.map(|minor| set_class(interface, minor, parent, parameters));
    let outcomes = netlink.change_all(doing, messages)?;
    Ok(outcomes.into_iter().map(|answers| class_in(&answers?)).collect())
}

/// Returns the class that an answer is about.
fn class_in(answers: &Answers) -> Result<Option<Class>, NetlinkError> {
    answers.iter().next().map_or(Ok(None), |message| Class::decode(&message?))
}

/// Returns the request that deletes a class.
pub(super) fn delete_class(interface: InterfaceId, handle: u32) -> Message {
    Message::new(libc::RTM_DELTCLASS, 0).fixed(&header(interface, handle, 0, 0))
}

/// Returns the request that creates a FIFO queue of `limit` packets in a class, or changes the limit. The queue has the
/// number of its class: a number chosen by the kernel costs a search through all of them.
pub(super) fn set_queue(interface: InterfaceId, minor: u16, limit: u32) -> Message {
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
    Message::new(libc::RTM_NEWQDISC, flags)
        .fixed(&header(interface, u32::from(minor) << 16, handle(minor), 0))
        .text(KIND, "pfifo")
        .u32(OPTIONS, limit)
}

/// Returns the request for the qdisc below our root for one transmit queue; the first has number 1.
pub(super) fn set_transmit_queue(interface: InterfaceId, number: u16) -> Message {
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
    // Below the numbers that the kernel assigns; with too many queues the kernel assigns one.
    let name = u32::from(POOL) + MAX_POOL + u32::from(number);
    let name = if name < 0x8000 { name << 16 } else { 0 };
    Message::new(libc::RTM_NEWQDISC, flags)
        .fixed(&header(interface, name, handle(number), 0))
        .text(KIND, PFIFO_FAST)
}

/// A qdisc of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Qdisc {
    pub(super) interface: InterfaceId,
    pub(super) handle: u32,
    pub(super) parent: u32,
    pub(super) kind: String,
    /// Limit of packets, if it is a FIFO.
    pub(super) limit: Option<u32>,
}

impl Qdisc {
    /// Whether it is our root qdisc.
    pub(super) fn is_ours(&self) -> bool {
        let is_kind = [HTB, PFIFO_FAST, MQ].contains(&self.kind.as_str());
        self.parent == ROOT && self.handle == u32::from(MAJOR) << 16 && is_kind
    }

    /// Whether it is the kernel's default: only the kernel creates qdiscs with number 0.
    pub(super) fn is_default(&self) -> bool {
        self.handle >> 16 == 0
    }

    fn decode(message: &Received<'_>) -> Result<Qdisc, NetlinkError> {
        let fixed = message.fixed(HEADER, "qdisc")?;
        let mut qdisc = Qdisc {
            interface: InterfaceId(u32_at(fixed, 4)),
            handle: u32_at(fixed, 8),
            parent: u32_at(fixed, 12),
            kind: String::new(),
            limit: None,
        };
        let mut options: Option<Attribute<'_>> = None;
        for attribute in message.attributes(HEADER) {
            let attribute = attribute?;
            match attribute.kind {
                KIND => qdisc.kind = attribute.text(),
                OPTIONS => options = Some(attribute),
                _ => {}
            }
        }
        if let ("pfifo", Some(options)) = (qdisc.kind.as_str(), options) {
            qdisc.limit = Some(options.u32("queue limit")?);
        }
        Ok(qdisc)
    }
}

/// A class of an HTB qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) handle: u32,
    pub(super) parent: u32,
    pub(super) level: u32,
    pub(super) parameters: ClassParameters,
    pub(super) counters: super::Statistics,
}

impl Class {
    /// Whether the class has the `wanted` parameters. In a class with child classes, quantum and priority have no
    /// effect, and the kernel ignores changes of them.
    pub(super) fn is_like(&self, wanted: &ClassParameters) -> bool {
        let ClassParameters { quantum, priority, .. } = self.parameters;
        match self.level {
            0 => self.parameters == *wanted,
            _ => self.parameters == ClassParameters { quantum, priority, ..*wanted },
        }
    }

    /// Decodes a class; `None` for classes of other kinds of qdisc.
    fn decode(message: &Received<'_>) -> Result<Option<Class>, NetlinkError> {
        let fixed = message.fixed(HEADER, "class")?;
        let mut counters = super::Statistics::default();
        let (mut kind, mut options) = (String::new(), None);
        for attribute in message.attributes(HEADER) {
            let attribute = attribute?;
            match attribute.kind {
                KIND => kind = attribute.text(),
                OPTIONS => options = Some(attribute),
                STATISTICS => counters = decode_statistics(&attribute)?,
                _ => {}
            }
        }
        let ("htb", Some(options)) = (kind.as_str(), options) else {
            return Ok(None);
        };
        let (parameters, level) = decode_parameters(&options)?;
        let (handle, parent) = (u32_at(fixed, 8), u32_at(fixed, 12));
        Ok(Some(Class { handle, parent, level, parameters, counters }))
    }
}

fn decode_parameters(options: &Attribute<'_>) -> Result<(ClassParameters, u32), NetlinkError> {
    let (mut base, mut rate64, mut ceiling64) = (None, None, None);
    for attribute in options.nested() {
        let attribute = attribute?;
        match attribute.kind {
            HTB_PARAMETERS => base = Some(attribute.array::<44>("HTB parameters")?),
            HTB_RATE64 => rate64 = Some(attribute.u64("rate")?),
            HTB_CEILING64 => ceiling64 = Some(attribute.u64("ceiling")?),
            _ => {}
        }
    }
    let base = base.ok_or_else(|| options.malformed("HTB parameters"))?;
    let parameters = ClassParameters {
        rate: rate64.unwrap_or(u32_at(&base, 8).into()),
        ceiling: ceiling64.unwrap_or(u32_at(&base, 20).into()),
        buffer: u32_at(&base, 24),
        ceiling_buffer: u32_at(&base, 28),
        quantum: u32_at(&base, 32),
        priority: u32_at(&base, 40),
        overhead: u16::from_ne_bytes([base[2], base[3]]),
    };
    Ok((parameters, u32_at(&base, 36)))
}

fn decode_statistics(attribute: &Attribute<'_>) -> Result<super::Statistics, NetlinkError> {
    let mut counters = super::Statistics::default();
    let mut packets64 = None;
    for attribute in attribute.nested() {
        let attribute = attribute?;
        match attribute.kind {
            STATISTICS_BASIC => {
                let basic = attribute.array::<12>("class counters")?;
                let [a, b, c, d, e, f, g, h, ..] = basic;
                counters.octets = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                counters.packets = u32_at(&basic, 8).into();
            }
            STATISTICS_QUEUE => {
                let queue = attribute.array::<12>("queue counters")?;
                counters.backlog_packets = u32_at(&queue, 0);
                counters.backlog_octets = u32_at(&queue, 4);
                counters.drops = u32_at(&queue, 8).into();
            }
            STATISTICS_PACKETS64 => packets64 = Some(attribute.u64("packet counter")?),
            _ => {}
        }
    }
    counters.packets = packets64.unwrap_or(counters.packets);
    Ok(counters)
}

/// Returns all qdiscs of the namespace.
pub(super) fn qdiscs(netlink: &mut Connection) -> Result<Vec<Qdisc>, NetlinkError> {
    let message = Message::new(libc::RTM_GETQDISC, 0).fixed(&[0; HEADER]);
    let answers = netlink.dump("list the qdiscs", message)?;
    answers.iter().map(|message| Qdisc::decode(&message?)).collect()
}

/// Returns the HTB classes of an interface, by handle.
pub(super) fn classes(
    netlink: &mut Connection,
    interface: InterfaceId,
) -> Result<BTreeMap<u32, Class>, NetlinkError> {
    let message = Message::new(libc::RTM_GETTCLASS, 0).fixed(&header(interface, 0, 0, 0));
    let answers = netlink.dump("list the classes", message)?;
    let mut classes = BTreeMap::new();
    for message in &answers {
        if let Some(class) = Class::decode(&message?)? {
            classes.insert(class.handle, class);
        }
    }
    Ok(classes)
}

/// Returns one of our classes.
pub(super) fn class(
    netlink: &mut Connection,
    interface: InterfaceId,
    minor: u16,
) -> Result<Option<Class>, NetlinkError> {
    // The answer is a notification; since Linux 6.8 the kernel creates none without a listener, unless an echo is
    // requested.
    let message = Message::new(libc::RTM_GETTCLASS, libc::NLM_F_ECHO as u16).fixed(&header(
        interface,
        handle(minor),
        0,
        0,
    ));
    class_in(&netlink.ask("read a class", message)?)
}

/// Returns the properties of an interface; an error with `ENODEV` if there is none.
pub(super) fn link_properties(
    netlink: &mut Connection,
    interface: InterfaceId,
) -> Result<LinkProperties, NetlinkError> {
    let message = Message::new(libc::RTM_GETLINK, 0).fixed(&interface_header(interface.0, 0, 0));
    let answers = netlink.ask("read an interface", message)?;
    let malformed = NetlinkError::Malformed { field: "link", offset: 0 };
    let message = answers.iter().next().ok_or(malformed)??;
    let fixed = message.fixed(16, "link")?;
    let hardware = u16::from_ne_bytes([fixed[2], fixed[3]]);
    let (mut mtu, mut queues) = (1_500, 1);
    for attribute in message.attributes(16) {
        let attribute = attribute?;
        match attribute.kind {
            libc::IFLA_MTU => mtu = attribute.u32("MTU")?,
            libc::IFLA_NUM_TX_QUEUES => queues = attribute.u32("transmit queues")?,
            _ => {}
        }
    }
    let overhead = if ETHERNET_LIKE.contains(&hardware) { 14 } else { 0 };
    Ok(LinkProperties { mtu, overhead, queues })
}

/// Reads the number at an offset that the caller has checked.
pub(super) fn u32_at(octets: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Messages;
    use crate::traffic_control::plan::LINK;

    /// The parameters that we send for a class are equal to those in a dump, also past 32 bits.
    #[test]
    fn class_is_decoded_as_encoded() {
        for rate in [250_000, u64::from(u32::MAX) + 1, 12_500_000_000] {
            let parameters = ClassParameters {
                rate,
                ceiling: rate,
                buffer: 77,
                ceiling_buffer: 78,
                quantum: 1_500,
                priority: 1,
                overhead: 14,
            };
            let message = set_class(InterfaceId(3), 0x10, handle(LINK), &parameters).finish(1);
            let message = Messages::new(&message).next().expect("one").expect("well-formed");
            let class = Class::decode(&message).expect("well-formed").expect("of HTB");
            assert_eq!(class.parameters, parameters);
            assert_eq!((class.handle, class.parent), (0xea4d_0010, 0xea4d_0001));
        }
    }
}
