//! Reservations as IPFIX flow records (RFC 7011, information elements of RFC 7012): one for each reservation that has ended.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use earmark_control::SenderName;
use earmark_history::query::HistoryRow;

const VERSION: u16 = 10;
/// Identifier of the set that has templates (RFC 7011 section 3.3.2).
const TEMPLATES: u16 = 2;
const IPV4: u16 = 256;
const IPV6: u16 = 257;
/// Length of a field with a length of its own (RFC 7011 section 7).
const VARIABLE: u16 = u16::MAX;
/// Largest message, octets: fits into a packet on every link.
const LARGEST: usize = 1_400;
/// Longest name of an interface or user, octets; longer ones are cut.
const LONGEST: usize = 254;
/// Time that a collector has to accept a connection or octets.
const PATIENCE: Duration = Duration::from_secs(10);

/// Fields of a record, by number and length: begin, end, addresses, ports, protocol, DSCP, octets, packets, drops, reason of
/// the end, names of interface and user.
const fn fields(source: u16, destination: u16, address: u16) -> [(u16, u16); 14] {
    [
        (152, 8),
        (153, 8),
        (source, address),
        (destination, address),
        (7, 2),
        (11, 2),
        (4, 1),
        (195, 1),
        (1, 8),
        (2, 8),
        (133, 8),
        (136, 1),
        (82, VARIABLE),
        (371, VARIABLE),
    ]
}

const IPV4_FIELDS: [(u16, u16); 14] = fields(8, 12, 4);
const IPV6_FIELDS: [(u16, u16); 14] = fields(27, 28, 16);

/// Writer of messages.
#[derive(Debug)]
pub struct Messages {
    domain: u32,
    /// Data records sent before the next message (RFC 7011 section 3.1).
    sequence: u32,
}

impl Messages {
    /// Begins the messages of an observation domain, a number that tells routers apart at the collector.
    pub fn new(domain: u32) -> Messages {
        Messages { domain, sequence: 0 }
    }

    /// Returns messages with the templates, and a record for each reservation. `now_s` is the time since 1970.
    pub fn write(&mut self, rows: &[HistoryRow], now_s: u32) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let mut message = self.begin(now_s);
        add_set(&mut message, TEMPLATES, &templates());
        let mut records = 0;
        for row in rows {
            let (template, record) = record(row);
            if message.len() + record.len() + 4 > LARGEST {
                let full = std::mem::take(&mut message);
                messages.push(self.end(full, records));
                message = self.begin(now_s);
                records = 0;
            }
            add_set(&mut message, template, &record);
            records += 1;
        }
        messages.push(self.end(message, records));
        messages
    }

    /// Begins a message with its header (RFC 7011 section 3.1).
    fn begin(&self, now_s: u32) -> Vec<u8> {
        let mut message = Vec::with_capacity(LARGEST);
        message.extend_from_slice(&VERSION.to_be_bytes());
        message.extend_from_slice(&[0; 2]);
        message.extend_from_slice(&now_s.to_be_bytes());
        message.extend_from_slice(&self.sequence.to_be_bytes());
        message.extend_from_slice(&self.domain.to_be_bytes());
        message
    }

    /// Completes a message with its length, and counts its records.
    fn end(&mut self, mut message: Vec<u8>, records: u32) -> Vec<u8> {
        let length = length_of(&message);
        message[2..4].copy_from_slice(&length.to_be_bytes());
        self.sequence = self.sequence.wrapping_add(records);
        message
    }
}

fn templates() -> Vec<u8> {
    let mut octets = Vec::new();
    for (template, fields) in [(IPV4, &IPV4_FIELDS), (IPV6, &IPV6_FIELDS)] {
        octets.extend_from_slice(&template.to_be_bytes());
        octets.extend_from_slice(&length_of(fields).to_be_bytes());
        for (element, length) in fields {
            octets.extend_from_slice(&element.to_be_bytes());
            octets.extend_from_slice(&length.to_be_bytes());
        }
    }
    octets
}

fn add_set(message: &mut Vec<u8>, id: u16, content: &[u8]) {
    message.extend_from_slice(&id.to_be_bytes());
    message.extend_from_slice(&(length_of(content) + 4).to_be_bytes());
    message.extend_from_slice(content);
}

/// Length for a field of 16 bits; nothing here is longer.
fn length_of<T>(items: &[T]) -> u16 {
    u16::try_from(items.len()).unwrap_or(u16::MAX)
}

/// Returns the template and the record of a reservation: with the first sender, if several share.
fn record(row: &HistoryRow) -> (u16, Vec<u8>) {
    let senders: Vec<SenderName> = senders_of(row);
    let sender = senders.first();
    let destination = row.destination.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let mut octets = Vec::new();
    let ended_ms = row.ended_ms.unwrap_or(row.seen_ms);
    octets.extend_from_slice(&row.begun_ms.to_be_bytes());
    octets.extend_from_slice(&ended_ms.to_be_bytes());
    let source = sender.map(|sender| sender.address);
    let template = match (destination, source) {
        (IpAddr::V4(destination), source) => {
            let source = match source {
                Some(IpAddr::V4(source)) => source,
                _ => Ipv4Addr::UNSPECIFIED,
            };
            octets.extend_from_slice(&source.octets());
            octets.extend_from_slice(&destination.octets());
            IPV4
        }
        (IpAddr::V6(destination), source) => {
            let source = match source {
                Some(IpAddr::V6(source)) => source,
                _ => Ipv6Addr::UNSPECIFIED,
            };
            octets.extend_from_slice(&source.octets());
            octets.extend_from_slice(&destination.octets());
            IPV6
        }
    };
    let destination_port = u16::try_from(row.destination_port).unwrap_or(0);
    octets.extend_from_slice(&sender.map_or(0, |sender| sender.port).to_be_bytes());
    octets.extend_from_slice(&destination_port.to_be_bytes());
    octets.push(u8::try_from(row.ip_protocol).unwrap_or(0));
    octets.push(row.dscp.and_then(|dscp| u8::try_from(dscp).ok()).unwrap_or(0));
    for count in [row.octets, row.packets, row.drops] {
        octets.extend_from_slice(&count.to_be_bytes());
    }
    octets.push(end_reason(row.end_reason.as_deref().unwrap_or_default()));
    add_text(&mut octets, &row.link);
    add_text(&mut octets, &row.user);
    (template, octets)
}

fn senders_of(row: &HistoryRow) -> Vec<SenderName> {
    serde_json::from_str(&row.senders).unwrap_or_default()
}

/// Returns flowEndReason for the end of a reservation: idle timeout, end of flow detected, lack of resources, or forced end.
fn end_reason(reason: &str) -> u8 {
    match reason {
        "expired" => 1,
        "released" | "torn_down" => 3,
        "preempted" => 5,
        _ => 4,
    }
}

/// Adds a text with its length in one octet.
fn add_text(octets: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(LONGEST);
    octets.push(end as u8);
    octets.extend_from_slice(&text.as_bytes()[..end]);
}

/// Transport to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP: what is lost on the way is lost.
    Udp,
    /// TCP.
    Tcp,
}

/// A collector.
#[derive(Debug)]
pub struct Collector {
    to: Connected,
    messages: Messages,
}

#[derive(Debug)]
enum Connected {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Collector {
    /// Connects to a collector, `host:port`.
    ///
    /// # Errors
    /// The name has no address, or the collector refuses.
    pub fn connect(to: &str, transport: Transport, domain: u32) -> io::Result<Collector> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("{to} has no address"));
        let address = to.to_socket_addrs()?.next().ok_or_else(unknown)?;
        let connected = match transport {
            Transport::Tcp => {
                let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Connected::Tcp(stream)
            }
            Transport::Udp => {
                let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(own)?;
                socket.connect(address)?;
                Connected::Udp(socket)
            }
        };
        Ok(Collector { to: connected, messages: Messages::new(domain) })
    }

    /// Sends reservations that have ended.
    ///
    /// # Errors
    /// The collector does not take them.
    pub fn send(&mut self, rows: &[HistoryRow]) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_s = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        for message in self.messages.write(rows, now_s) {
            match &mut self.to {
                Connected::Udp(socket) => _ = socket.send(&message)?,
                Connected::Tcp(stream) => stream.write_all(&message)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(destination: &str, user: &str) -> HistoryRow {
        HistoryRow {
            id: 1,
            node: "r1".into(),
            protocol: "other".into(),
            link: "eth0".into(),
            destination: destination.into(),
            destination_port: 5_001,
            ip_protocol: 17,
            dscp: Some(46),
            senders: r#"[{"address":"10.0.1.1","port":4000}]"#.into(),
            user: user.into(),
            proof: "claimed".into(),
            rate_bps: 1,
            begun_ms: 0x0102,
            seen_ms: 3,
            ended_ms: Some(0x0304),
            end_reason: Some("expired".into()),
            octets: 5,
            packets: 6,
            drops: 7,
            reserved_octets: 8,
        }
    }

    #[test]
    fn record_has_the_fields_of_its_template() {
        let mut messages = Messages::new(9);
        let written = messages.write(&[row("10.0.2.2", "al")], 0x0a0b_0c0d);
        assert_eq!(written.len(), 1);
        let message = &written[0];
        let header = [0, 10, 0, message.len() as u8, 10, 11, 12, 13, 0, 0, 0, 0, 0, 0, 0, 9];
        assert_eq!(message[..16], header);
        // Both templates: a header of four octets, 14 fields of four.
        assert_eq!(message[16..24], [0, 2, 0, 124, 1, 0, 0, 14]);
        let set = &message[16 + 124..];
        #[rustfmt::skip]
        let expected = [
            1, 0, 0, set.len() as u8,
            0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4,
            10, 0, 1, 1, 10, 0, 2, 2, 0x0f, 0xa0, 0x13, 0x89, 17, 46,
            0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7,
            1, 4, b'e', b't', b'h', b'0', 2, b'a', b'l',
        ];
        assert_eq!(set, expected);
    }

    #[test]
    fn messages_fit_into_packets_and_count_their_records() {
        let rows = vec![row("2001:db8::2", &"ä".repeat(200)); 20];
        let mut messages = Messages::new(0);
        let written = messages.write(&rows, 0);
        assert!(written.len() > 4 && written.iter().all(|message| message.len() <= LARGEST));
        let mut sequence = 0;
        for message in &written {
            assert_eq!(message[2..4], length_of(message).to_be_bytes());
            assert_eq!(message[8..12], u32::to_be_bytes(sequence));
            let mut left = &message[16..];
            while let [id, low, length, short, ..] = left {
                let length = usize::from(u16::from_be_bytes([*length, *short]));
                sequence += u32::from(u16::from_be_bytes([*id, *low]) == IPV6);
                left = &left[length..];
            }
        }
        assert_eq!(sequence, 20);
        assert_eq!(messages.sequence, 20);
    }
}
