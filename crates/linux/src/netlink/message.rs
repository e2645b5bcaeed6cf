//! Netlink messages: a builder with nested attributes, and iterators that check every length.
//!
//! A message is a 16-octet header, a fixed part that depends on its type, and attributes (length, type, value), each
//! padded to four octets; attributes nest. Numbers are in the byte order of the machine unless a type says otherwise.
//! (Linux: `include/uapi/linux/netlink.h`.)

use super::NetlinkError;

/// Octets of the message header.
pub const HEADER: usize = 16;
/// Octets of an attribute's header.
const ATTRIBUTE_HEADER: usize = 4;
/// Flag in an attribute's type: its value is a list of attributes.
const NESTED: u16 = 1 << 15;
/// The bits of an attribute's type that are not flags (nested, network byte order).
const TYPE_MASK: u16 = 0x3fff;

/// Rounds up to the alignment of messages and attributes.
const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// A request under construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    octets: Vec<u8>,
}

impl Message {
    /// Creates a message of a type (`RTM_NEWLINK`, ...) with flags (`NLM_F_CREATE`, ...); request and acknowledgement
    /// flags are added when it is sent.
    pub fn new(kind: u16, flags: u16) -> Message {
        let mut octets = Vec::with_capacity(256);
        octets.extend_from_slice(&0_u32.to_ne_bytes());
        octets.extend_from_slice(&kind.to_ne_bytes());
        octets.extend_from_slice(&flags.to_ne_bytes());
        octets.extend_from_slice(&[0; 8]); // sequence number and port
        Message { octets }
    }

    /// Appends the fixed part that follows the header, or a piece of it. Must precede the attributes.
    pub fn fixed(mut self, octets: &[u8]) -> Message {
        self.octets.extend_from_slice(octets);
        self.pad();
        self
    }

    /// Appends an attribute.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        let start = self.open(kind);
        self.octets.extend_from_slice(value);
        self.close(start);
        self
    }

    /// Appends an attribute of one octet.
    pub fn u8(self, kind: u16, value: u8) -> Message {
        self.attribute(kind, &[value])
    }

    /// Appends an attribute of four octets.
    pub fn u32(self, kind: u16, value: u32) -> Message {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends an attribute of eight octets.
    pub fn u64(self, kind: u16, value: u64) -> Message {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends an attribute of two octets in network byte order.
    pub fn be16(self, kind: u16, value: u16) -> Message {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends an attribute of four octets in network byte order.
    pub fn be32(self, kind: u16, value: u32) -> Message {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends an attribute of eight octets in network byte order.
    pub fn be64(self, kind: u16, value: u64) -> Message {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends a text with its terminating zero octet.
    pub fn text(mut self, kind: u16, value: &str) -> Message {
        let start = self.open(kind);
        self.octets.extend_from_slice(value.as_bytes());
        self.octets.push(0);
        self.close(start);
        self
    }

    /// Appends an attribute whose value is what `inner` appends. The nested flag is not set: routing netlink predates
    /// it; where the kernel checks strictly (traffic control options), it requires the flag absent or ignores it.
    pub fn nested(mut self, kind: u16, inner: impl FnOnce(Message) -> Message) -> Message {
        let start = self.open(kind);
        let mut message = inner(self);
        message.close(start);
        message
    }

    /// Adds flags to the header.
    pub(super) fn with_flags(mut self, flags: u16) -> Message {
        let old = u16::from_ne_bytes([self.octets[6], self.octets[7]]);
        self.octets[6..8].copy_from_slice(&(old | flags).to_ne_bytes());
        self
    }

    /// Returns the octets to send, with length and sequence number filled in.
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        // Attribute lengths have 16 bits, so our messages stay far below 4 GiB.
        let length = self.octets.len() as u32;
        self.octets[0..4].copy_from_slice(&length.to_ne_bytes());
        self.octets[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.octets
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.octets.len();
        self.octets.extend_from_slice(&[0; 2]);
        self.octets.extend_from_slice(&kind.to_ne_bytes());
        start
    }

    fn close(&mut self, start: usize) {
        let length = u16::try_from(self.octets.len() - start);
        let length = length.expect("our attributes are a few hundred octets");
        self.octets[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.pad();
    }

    fn pad(&mut self) {
        self.octets.resize(aligned(self.octets.len()), 0);
    }
}

/// A message received from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Message type.
    pub kind: u16,
    /// Message flags.
    pub flags: u16,
    /// Sequence number of the request that it answers; 0 for announcements.
    pub sequence: u32,
    /// Octets after the header.
    pub payload: &'a [u8],
}

impl<'a> Received<'a> {
    /// Returns the first `length` octets of the payload, the fixed part of this message type.
    pub fn fixed(&self, length: usize, field: &'static str) -> Result<&'a [u8], NetlinkError> {
        self.payload.get(..length).ok_or(NetlinkError::Malformed { field, offset: HEADER })
    }

    /// Returns the attributes after a fixed part of `fixed` octets.
    pub fn attributes(&self, fixed: usize) -> Attributes<'a> {
        let start = aligned(fixed).min(self.payload.len());
        Attributes { octets: &self.payload[start..], offset: HEADER + start }
    }
}

/// Iterator over the messages of one received buffer.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    octets: &'a [u8],
    offset: usize,
}

impl<'a> Messages<'a> {
    /// Iterates over a buffer as received from the socket.
    pub fn new(octets: &'a [u8]) -> Messages<'a> {
        Messages { octets, offset: 0 }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Received<'a>, NetlinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.octets.is_empty() {
            return None;
        }
        let Some(header) = self.octets.first_chunk::<HEADER>() else {
            self.octets = &[];
            return Some(Err(malformed("message header", self.offset)));
        };
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if length < HEADER || length > self.octets.len() {
            self.octets = &[];
            return Some(Err(malformed("message length", self.offset)));
        }
        let received = Received {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            flags: u16::from_ne_bytes([header[6], header[7]]),
            sequence: u32::from_ne_bytes([header[8], header[9], header[10], header[11]]),
            payload: &self.octets[HEADER..length],
        };
        let step = aligned(length).min(self.octets.len());
        self.octets = &self.octets[step..];
        self.offset += step;
        Some(Ok(received))
    }
}

/// A netlink attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Attribute type, without flags.
    pub kind: u16,
    /// Attribute value.
    pub value: &'a [u8],
    /// Offset of the value from the start of the message.
    offset: usize,
}

impl<'a> Attribute<'a> {
    /// Returns the value as one octet.
    pub fn u8(&self, field: &'static str) -> Result<u8, NetlinkError> {
        self.array::<1>(field).map(|[octet]| octet)
    }

    /// Returns the value as a number of four octets.
    pub fn u32(&self, field: &'static str) -> Result<u32, NetlinkError> {
        self.array(field).map(u32::from_ne_bytes)
    }

    /// Returns the value as a number of eight octets.
    pub fn u64(&self, field: &'static str) -> Result<u64, NetlinkError> {
        self.array(field).map(u64::from_ne_bytes)
    }

    /// Returns the value as a number of two octets in network byte order.
    pub fn be16(&self, field: &'static str) -> Result<u16, NetlinkError> {
        self.array(field).map(u16::from_be_bytes)
    }

    /// Returns the value as a number of four octets in network byte order.
    pub fn be32(&self, field: &'static str) -> Result<u32, NetlinkError> {
        self.array(field).map(u32::from_be_bytes)
    }

    /// Returns the value as a number of eight octets in network byte order.
    pub fn be64(&self, field: &'static str) -> Result<u64, NetlinkError> {
        self.array(field).map(u64::from_be_bytes)
    }

    /// Returns the first `N` octets of the value: newer kernels append to structures, so a longer value is valid.
    pub fn array<const N: usize>(&self, field: &'static str) -> Result<[u8; N], NetlinkError> {
        self.value.first_chunk().copied().ok_or(malformed(field, self.offset))
    }

    /// Returns the value as a text, up to its zero octet.
    pub fn text(&self) -> String {
        let end = self.value.iter().position(|&o| o == 0).unwrap_or(self.value.len());
        String::from_utf8_lossy(&self.value[..end]).into_owned()
    }

    /// Returns the attributes in the value.
    pub fn nested(&self) -> Attributes<'a> {
        Attributes { octets: self.value, offset: self.offset }
    }

    /// Returns the error for a value that makes no sense.
    pub fn malformed(&self, field: &'static str) -> NetlinkError {
        malformed(field, self.offset)
    }
}

/// Iterator over attributes.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    octets: &'a [u8],
    offset: usize,
}

impl<'a> Attributes<'a> {
    /// Iterates over octets that start with an attribute.
    pub fn new(octets: &'a [u8]) -> Attributes<'a> {
        Attributes { octets, offset: 0 }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, NetlinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.octets.is_empty() {
            return None;
        }
        let header = self.octets.first_chunk::<ATTRIBUTE_HEADER>();
        let length = header.map_or(0, |h| usize::from(u16::from_ne_bytes([h[0], h[1]])));
        let (Some(header), true) =
            (header, (ATTRIBUTE_HEADER..=self.octets.len()).contains(&length))
        else {
            self.octets = &[];
            return Some(Err(malformed("attribute length", self.offset)));
        };
        let attribute = Attribute {
            kind: u16::from_ne_bytes([header[2], header[3]]) & !NESTED & TYPE_MASK,
            value: &self.octets[ATTRIBUTE_HEADER..length],
            offset: self.offset + ATTRIBUTE_HEADER,
        };
        let step = aligned(length).min(self.octets.len());
        self.octets = &self.octets[step..];
        self.offset += step;
        Some(Ok(attribute))
    }
}

fn malformed(field: &'static str, offset: usize) -> NetlinkError {
    NetlinkError::Malformed { field, offset }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.bytes().filter_map(|c| (c as char).to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// A request to create a bridge, as `ip link add b0 type bridge` sends it, octet by octet. Little-endian machines
    /// only.
    #[test]
    #[cfg(target_endian = "little")]
    fn request_has_the_kernel_layout() {
        let message = Message::new(16, 0x0600)
            .fixed(&[0; 16])
            .text(3, "b0")
            .nested(18, |m| m.text(1, "bridge"))
            .u32(4, 1_500);
        assert_eq!(
            message.with_flags(0x0005).finish(7),
            hex(concat!(
                "40 00 00 00  10 00 05 06  07 00 00 00  00 00 00 00", // header
                "00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00",   // ifinfomsg
                "07 00 03 00  62 30 00 00",                           // name, padded
                "10 00 12 00  0b 00 01 00  62 72 69 64 67 65 00 00",  // kind in link info
                "08 00 04 00  dc 05 00 00",                           // MTU
            ))
        );
    }

    #[test]
    fn built_message_is_parsed_back() {
        let octets = Message::new(24, 2)
            .fixed(&[1, 2, 3, 4, 5])
            .u8(1, 9)
            .nested(2, |m| m.u64(3, u64::MAX - 1).text(4, "text"))
            .be16(5, 0x102)
            .be32(6, 0x102_0304)
            .be64(7, 0x102_0304_0506_0708)
            .finish(42);
        let mut messages = Messages::new(&octets);
        let message = messages.next().expect("one message").expect("well-formed");
        assert!(messages.next().is_none());
        assert_eq!((message.kind, message.flags, message.sequence), (24, 2, 42));
        assert_eq!(message.fixed(5, "start").expect("is there"), [1, 2, 3, 4, 5]);
        let attributes: Vec<_> =
            message.attributes(5).collect::<Result<_, _>>().expect("well-formed");
        assert_eq!(attributes[0].u8("nine").expect("one octet"), 9);
        let inner: Vec<_> = attributes[1].nested().collect::<Result<_, _>>().expect("well-formed");
        assert_eq!(inner[0].u64("number").expect("eight octets"), u64::MAX - 1);
        assert_eq!(inner[1].text(), "text");
        let numbers = attributes[2..].iter().map(|attribute| attribute.value);
        assert!(numbers.eq([&[1, 2][..], &[1, 2, 3, 4], &[1, 2, 3, 4, 5, 6, 7, 8]]));
        assert_eq!(attributes[2].be16("two").expect("two octets"), 0x102);
        assert_eq!(attributes[3].be32("four").expect("four octets"), 0x102_0304);
        assert_eq!(attributes[4].be64("eight").expect("eight octets"), 0x102_0304_0506_0708);
    }

    /// The error of each malformed buffer names the field and its offset.
    #[test]
    #[cfg(target_endian = "little")]
    fn malformed_length_error_names_field_and_offset() {
        for (octets, field, offset) in [
            ("10 00 00", "message header", 0),
            ("0f 00 00 00  10 00 00 00  00 00 00 00  00 00 00 00", "message length", 0),
            ("11 00 00 00  10 00 00 00  00 00 00 00  00 00 00 00", "message length", 0),
        ] {
            let octets = hex(octets);
            let error = Messages::new(&octets).next().expect("something").expect_err("broken");
            let NetlinkError::Malformed { field: f, offset: o } = error else { panic!("{error}") };
            assert_eq!((f, o), (field, offset));
        }
        for (octets, offset) in [("03 00 01 00", 0), ("04 00 01 00 09 00 01 00 aa", 4), ("04", 0)] {
            let octets = hex(octets);
            let error = Attributes::new(&octets).find_map(Result::err).expect("broken");
            let NetlinkError::Malformed { offset: o, .. } = error else { panic!("{error}") };
            assert_eq!(o, offset);
        }
    }

    proptest! {
        /// A walk over any octets ends, and every attribute lies inside them.
        #[test]
        fn attribute_walk_terminates(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let messages = Messages::new(&octets).count();
            prop_assert!(messages <= octets.len() / HEADER + 1);
            let attributes = Attributes::new(&octets).count();
            prop_assert!(attributes <= octets.len() / ATTRIBUTE_HEADER + 1);
        }
    }
}
