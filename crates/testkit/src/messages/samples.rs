//! A valid message of each kind of every protocol, with the places of its parts, for tests that damage messages and look at
//! what a decoder still shows.

use earmark_wire::nsis::objects;
use earmark_wire::rsvp::{MessageType, Style};
use earmark_wire::{boomerang, gist, icmp, natfw_nslp, ping_nslp, udp};

use super::packets::{echo, udp as in_udp};

/// A valid message.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Name of the message, and of its family or version if there are several.
    pub name: String,
    /// Protocol of the IP packet.
    pub ip_protocol: u8,
    /// Octets behind the header of IP, UDP or ICMP.
    pub message: Vec<u8>,
    /// Length from which on the protocol of a truncated message is recognized, octets.
    pub recognized: usize,
    /// Ends of the objects, in the order in which a decoder shows them.
    pub ends: Vec<usize>,
    /// Octets that are or belong to a length.
    pub lengths: Vec<usize>,
    /// Shorter lengths at which the message is whole, too.
    pub whole: Vec<usize>,
}

/// Port of the messages of YESSIR.
const YESSIR_PORT: u16 = 5_007;
/// Length of the magic number of Boomerang and GIST, octets.
const MAGIC: usize = 4;
/// Application that nobody knows.
const UNKNOWN_NSLPID: u16 = 40;
/// IP protocol of RSVP.
const RSVP: u8 = 46;

impl Sample {
    fn new(
        name: impl Into<String>,
        ip_protocol: u8,
        message: Vec<u8>,
        recognized: usize,
    ) -> Sample {
        let (ends, lengths, whole) = (Vec::new(), Vec::new(), Vec::new());
        Sample { name: name.into(), ip_protocol, message, recognized, ends, lengths, whole }
    }

    /// Returns the payload of an IP packet with other octets in place of the message. Lengths and checksums of UDP and ICMP
    /// are right.
    pub fn payload(&self, message: &[u8]) -> Vec<u8> {
        match self.ip_protocol {
            icmp::PROTOCOL_V4 => echo(message),
            udp::PROTOCOL if self.name.starts_with("YESSIR") => in_udp(YESSIR_PORT, message),
            udp::PROTOCOL => in_udp(gist::iana::PORT, message),
            _ => message.to_vec(),
        }
    }

    /// Returns the message cut off behind each octet.
    pub fn truncated(&self) -> impl Iterator<Item = (usize, &[u8])> {
        (0..self.message.len()).map(|end| (end, &self.message[..end]))
    }

    /// Returns the message with each octet of a length changed to these values; with the place of the octet.
    pub fn other_lengths(&self, values: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut changed = Vec::new();
        for &at in &self.lengths {
            // The high bits of the lengths of GIST and its applications are reserved.
            let is_change = |value: &&u8| match self.recognized {
                MAGIC if self.ip_protocol == udp::PROTOCOL => {
                    (**value ^ self.message[at]) & 0x0f != 0
                }
                _ => **value != self.message[at],
            };
            for &value in values.iter().filter(is_change) {
                let mut message = self.message.clone();
                message[at] = value;
                changed.push((at, message));
            }
        }
        changed
    }

    /// Adds the objects of a list of NSIS that begins at `start`.
    fn add_list(&mut self, start: usize, end: usize) -> Vec<(u16, usize, usize)> {
        let list = objects(&self.message[start..end], start).map_while(Result::ok);
        let list: Vec<_> = list
            .map(|it| (it.object_type(), it.offset(), it.offset() + it.octets().len()))
            .collect();
        self.lengths.extend(list.iter().flat_map(|(_, at, _)| [at + 2, at + 3]));
        list
    }
}

/// Returns the samples of all protocols.
pub fn samples() -> Vec<Sample> {
    [rsvp(), boomerang(), yessir(), gist()].concat()
}

/// Messages of RSVP except Bundles.
pub fn rsvp() -> Vec<Sample> {
    let mut messages = Vec::new();
    for is_ipv6 in [false, true] {
        for kind in super::rsvp::KINDS {
            let parts = super::rsvp::sample(kind, Style::SharedExplicit, is_ipv6);
            messages.push(super::rsvp::octets(&parts.message()));
        }
        messages.extend(super::rsvp::extensions(is_ipv6));
    }
    messages.retain(|message| message[1] != MessageType::Bundle.code());
    messages
        .into_iter()
        .map(|message| {
            let name = MessageType::from_code(message[1]).name();
            let mut sample = Sample::new(name, RSVP, message, 0);
            sample.lengths.extend([6, 7]);
            let mut at = 8;
            while let Some(&[l0, l1]) = sample.message.get(at..).and_then(|it| it.first_chunk()) {
                sample.lengths.extend([at, at + 1]);
                at += usize::from(u16::from_be_bytes([l0, l1]));
                sample.ends.push(at);
            }
            sample
        })
        .collect()
}

/// Messages of Boomerang.
pub fn boomerang() -> Vec<Sample> {
    [boomerang::Family::V4, boomerang::Family::V6]
        .map(|family| {
            let message = super::boomerang::valid(family);
            let mut sample =
                Sample::new(format!("Boomerang {family:?}"), icmp::PROTOCOL_V4, message, MAGIC);
            let keys = 24 + 2 * family.keys_len();
            // Two pairs of rates, and a user id.
            sample.ends.extend([keys - family.keys_len(), keys, keys + 12, keys + 20, keys + 40]);
            // The number of pairs.
            sample.lengths.push(keys);
            sample.whole.push(keys + 20);
            sample
        })
        .to_vec()
}

/// Messages of YESSIR.
pub fn yessir() -> Vec<Sample> {
    [false, true]
        .map(|is_leaving| {
            let message = super::yessir::valid(is_leaving);
            let name = if is_leaving { "YESSIR, BYE" } else { "YESSIR" };
            let mut sample = Sample::new(name, udp::PROTOCOL, message, 40);
            // The APP packet, and its fragments.
            sample.lengths.extend([30, 31]);
            let mut at = 40;
            for length in [12, 8, 16, 20] {
                sample.lengths.extend([at + 2, at + 3]);
                at += length;
                sample.ends.push(at);
            }
            sample.whole.push(at);
            sample
        })
        .to_vec()
}

/// Messages of GIST with those of its applications.
pub fn gist() -> Vec<Sample> {
    let [create, external, response, notify] = super::natfw_nslp::valid();
    let pings = [ping_nslp::Version::V1, ping_nslp::Version::V2].map(super::ping_nslp::valid);
    let [ping1, ping2] = pings;
    let natfw = natfw_nslp::iana::NSLPID;
    let ping = ping_nslp::iana::NSLPID;
    let data = [
        ("RESERVE", 1, super::qos_nslp::valid_reserve()),
        ("CREATE", natfw, create),
        ("EXTERNAL", natfw, external),
        ("NATFW RESPONSE", natfw, response),
        ("NATFW NOTIFY", natfw, notify),
        ("Ping 1", ping, ping1),
        ("Ping 2", ping, ping2),
    ];
    // The data of the Query are no message of QoS NSLP.
    let mut query = super::gist::valid_query();
    query[4..6].copy_from_slice(&UNKNOWN_NSLPID.to_be_bytes());
    let query = [("GIST Query", UNKNOWN_NSLPID, query)];
    let data = data.map(|(name, nslpid, data)| (name, nslpid, with_data(nslpid, &data)));
    query
        .into_iter()
        .chain(data)
        .map(|(name, nslpid, message)| {
            let magic = gist::iana::MAGIC.to_be_bytes();
            let message = [&magic[..], &message].concat();
            let mut sample = Sample::new(name, udp::PROTOCOL, message, MAGIC);
            sample.lengths.extend([6, 7]);
            for (object_type, at, end) in sample.add_list(12, sample.message.len()) {
                let is_data = object_type == gist::ObjectType::NslpData.code();
                if !is_data || nslpid == UNKNOWN_NSLPID {
                    sample.ends.push(end);
                } else if nslpid == ping {
                    // The message, without padding; behind its length, which has one octet or two.
                    sample.ends.push(end);
                    let second = usize::from(sample.message[at + 4] == 2);
                    sample.lengths.extend((at + 6..).take(1 + second));
                } else {
                    add_nslp(&mut sample, at + 4, end);
                }
            }
            sample
        })
        .collect()
}

/// Adds the parts of a message of QoS NSLP or NATFW NSLP.
fn add_nslp(sample: &mut Sample, start: usize, end: usize) {
    sample.ends.push(start + 4);
    for (object_type, at, end) in sample.add_list(start + 4, end) {
        if object_type != earmark_wire::qos_nslp::iana::ObjectType::Qspec.code() {
            sample.ends.push(end);
            continue;
        }
        sample.ends.push(at + 8);
        sample.lengths.extend([at + 6, at + 7]);
        for (_, at, end) in sample.add_list(at + 8, end) {
            sample.ends.push(end);
            sample.add_list(at + 4, end);
        }
    }
}

/// Returns a message of GIST with data of an application.
fn with_data(nslpid: u16, data: &[u8]) -> Vec<u8> {
    let query = super::gist::valid_query();
    let message = gist::Message::parse(&query, gist::Mode::D).expect("it is valid");
    let gist::Body::Query(query) = message.body else { panic!("a Query") };
    // Data are whole words.
    let mut whole = data.to_vec();
    whole.resize(data.len().next_multiple_of(4), 0);
    let body = gist::Body::Data(gist::Data {
        nat_traversal: None,
        mri: query.mri,
        session: query.session,
        nli: Some(query.nli),
        nslp_data: &whole,
        continuation: gist::Continuation::NONE,
        context_free: false,
        explicitly_routed: false,
    });
    let message = gist::Message { nslpid, body, ..message };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}
