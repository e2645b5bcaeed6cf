//! A reader of the octets of an object that never fails: it shows every field whose octets are there, and remarks on the rest.
//!
//! The layout of an object is described once, as a sequence of calls. A field whose octets are missing is left out but counts
//! for the length, so that the same calls show the fields and tell which length the object should have. Octets that belong
//! to no field are shown as hexadecimal digits under `rest`.

use std::fmt::Display;
use std::net::IpAddr;

use earmark_wire::intserv::exact;
use serde_json::{Map, Value, json};

use crate::objects::hex;

/// Reader of one object from front to back.
pub(super) struct Fields<'a> {
    /// Name of the object in remarks.
    name: String,
    /// Octets of the object that are there, header included.
    octets: &'a [u8],
    /// Offset of the object, octets from the start of the message.
    offset: usize,
    /// Length of the object according to its header, octets.
    claimed: usize,
    /// Position behind the last field, octets; beyond the end if fields are missing.
    at: usize,
    /// End of the last field that is there.
    end: usize,
    shown: Map<String, Value>,
    remarks: Remarks,
}

/// Remarks on an object: what is malformed, and what is allowed but probably not meant.
#[derive(Default)]
pub(super) struct Remarks {
    malformed: Vec<Value>,
    warnings: Vec<Value>,
}

impl Remarks {
    /// Adds the remarks to the object that they are about.
    pub(super) fn show(self, object: &mut Map<String, Value>) {
        for (key, list) in [("malformed", self.malformed), ("warnings", self.warnings)] {
            if !list.is_empty() {
                object.insert(key.into(), list.into());
            }
        }
    }

    /// Remarks that an object has another length than it should have.
    pub(super) fn length(&mut self, object: &str, offset: usize, expected: usize, found: usize) {
        let text = format!("{object} at octet {offset}: expected {expected} octets, found {found}");
        let remark = json!({
            "object": object, "offset": offset, "expected": expected, "found": found, "text": text,
        });
        self.malformed.push(remark);
    }

    /// Remarks on anything else that is malformed in an object.
    pub(super) fn malformed(&mut self, object: &str, offset: usize, text: impl Display) {
        let text = format!("{object} at octet {offset}: {text}");
        self.malformed.push(json!({ "object": object, "offset": offset, "text": text }));
    }

    /// Whether nothing is malformed.
    pub(super) fn is_empty(&self) -> bool {
        self.malformed.is_empty()
    }

    /// Adds the remarks on a part of the object.
    pub(super) fn append(&mut self, mut other: Remarks) {
        self.malformed.append(&mut other.malformed);
        self.warnings.append(&mut other.warnings);
    }
}

impl<'a> Fields<'a> {
    /// Creates the reader of an object at `offset`. `octets` are those that are there, and `claimed` is its length according to
    /// its header.
    pub(super) fn new(
        name: impl Into<String>,
        octets: &'a [u8],
        offset: usize,
        claimed: usize,
    ) -> Fields<'a> {
        Fields {
            name: name.into(),
            octets,
            offset,
            claimed,
            at: 0,
            end: 0,
            shown: Map::new(),
            remarks: Remarks::default(),
        }
    }

    /// Takes the next `length` octets; `None` if they are not all there.
    pub(super) fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let start = self.at;
        self.at = start.saturating_add(length);
        let octets = self.octets.get(start..self.at)?;
        self.end = self.at;
        Some(octets)
    }

    /// Takes the next `N` octets; `None` if they are not all there.
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.slice(N)?.first_chunk().copied()
    }

    /// Skips octets without meaning.
    pub(super) fn skip(&mut self, length: usize) {
        self.slice(length);
    }

    /// Skips the padding that completes whole words.
    pub(super) fn pad(&mut self) {
        self.skip(self.at.next_multiple_of(4) - self.at);
    }

    /// Number of octets behind the last field.
    pub(super) fn left(&self) -> usize {
        self.octets.len().saturating_sub(self.at)
    }

    /// Takes all octets that are left.
    pub(super) fn remaining(&mut self) -> &'a [u8] {
        self.slice(self.left()).unwrap_or_default()
    }

    /// Shows a value.
    pub(super) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.shown.insert(name.into(), value.into());
    }

    /// Shows a value if there is one.
    pub(super) fn put_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Shows a value whose name may occur again; all but the first are in the list `duplicates`.
    pub(super) fn put_again(&mut self, name: &str, value: Value) {
        if !self.shown.contains_key(name) {
            return self.put(name, value);
        }
        let duplicates = self.shown.entry("duplicates").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(duplicates) = duplicates {
            duplicates.push(json!({ name: value }));
        }
    }

    /// Shows the fields of a part beside those of the object.
    pub(super) fn extend(&mut self, fields: Map<String, Value>) {
        self.shown.extend(fields);
    }

    /// Shows a number of eight bits; also returns it.
    pub(super) fn u8(&mut self, name: &str) -> Option<u8> {
        let number = self.take().map(u8::from_be_bytes);
        self.put_some(name, number);
        number
    }

    /// Shows a number of 16 bits; also returns it.
    pub(super) fn u16(&mut self, name: &str) -> Option<u16> {
        let number = self.take().map(u16::from_be_bytes);
        self.put_some(name, number);
        number
    }

    /// Shows a number of 32 bits.
    pub(super) fn u32(&mut self, name: &str) {
        let number = self.take().map(u32::from_be_bytes);
        self.put_some(name, number);
    }

    /// Shows a number of 24 bits.
    pub(super) fn u24(&mut self, name: &str) {
        let number = self.take().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]));
        self.put_some(name, number);
    }

    /// Shows a number of 64 bits.
    pub(super) fn u64(&mut self, name: &str) {
        let number = self.take().map(u64::from_be_bytes);
        self.put_some(name, number);
    }

    /// Shows an IEEE 754 single.
    pub(super) fn single(&mut self, name: &str) {
        let number = self.take().map(|octets| single(f32::from_be_bytes(octets)));
        self.put_some(name, number);
    }

    /// Shows five words that describe a token bucket.
    pub(super) fn token_bucket(&mut self) {
        self.single("rate");
        self.single("depth");
        self.single("peak");
        self.u32("min_policed_unit");
        self.u32("max_packet_size");
    }

    /// Takes an address.
    pub(super) fn take_address(&mut self, ipv4: bool) -> Option<IpAddr> {
        match ipv4 {
            true => self.take::<4>().map(IpAddr::from),
            false => self.take::<16>().map(IpAddr::from),
        }
    }

    /// Shows an address.
    pub(super) fn address(&mut self, name: &str, ipv4: bool) {
        let address = self.take_address(ipv4);
        self.put_some(name, address.map(|address| address.to_string()));
    }

    /// Shows octets as hexadecimal digits.
    pub(super) fn hex(&mut self, name: &str, length: usize) {
        let octets = self.slice(length);
        self.put_some(name, octets.map(hex));
    }

    /// Shows a list of items of `size` octets each, up to the end of the object.
    pub(super) fn list(&mut self, name: &str, size: usize, item: impl Fn(&[u8]) -> Value) {
        let mut list = Vec::new();
        while self.left() > 0 {
            let Some(octets) = self.slice(size) else { break };
            list.push(item(octets));
        }
        self.put(name, list);
    }

    /// Reads fields into a map of their own.
    pub(super) fn group(&mut self, read: impl FnOnce(&mut Self)) -> Map<String, Value> {
        let outer = std::mem::take(&mut self.shown);
        read(self);
        std::mem::replace(&mut self.shown, outer)
    }

    /// Reads the next `length` octets, or as many as there are, as an object of its own. The remarks on it are kept here.
    pub(super) fn part(
        &mut self,
        name: &str,
        length: usize,
        read: impl FnOnce(&mut Fields<'a>),
    ) -> Map<String, Value> {
        let start = self.at.min(self.octets.len());
        let end = start.saturating_add(length).min(self.octets.len());
        let octets = self.octets.get(start..end).unwrap_or_default();
        let mut part = Fields::new(name, octets, self.offset + start, length);
        read(&mut part);
        let (shown, remarks) = part.finish();
        self.remarks.append(remarks);
        self.at += length;
        self.end = end;
        shown
    }

    /// Remarks that the object is malformed.
    pub(super) fn malformed(&mut self, text: impl Display) {
        self.remarks.malformed(&self.name, self.offset, text);
    }

    /// Remarks that the object is malformed, and shows all octets that are left as hexadecimal digits: they have no known layout.
    pub(super) fn give_up(&mut self, text: impl Display) {
        self.malformed(text);
        match self.remaining() {
            [] => {}
            rest => self.put("rest", hex(rest)),
        }
    }

    /// Remarks on something that is allowed but probably not meant.
    pub(super) fn warning(&mut self, text: impl Display) {
        let text = format!("{} at octet {}: {text}", self.name, self.offset);
        let remark = json!({ "object": self.name, "offset": self.offset, "text": text });
        self.remarks.warnings.push(remark);
    }

    /// Adds the remarks on an object inside of this one.
    pub(super) fn append(&mut self, remarks: Remarks) {
        self.remarks.append(remarks);
    }

    /// Ends the object: remarks on a wrong length, and shows the octets that belong to no field.
    pub(super) fn finish(mut self) -> (Map<String, Value>, Remarks) {
        let found = self.octets.len();
        let expected = if self.claimed > found { self.claimed } else { self.at };
        if expected != found {
            self.remarks.length(&self.name, self.offset, expected, found);
        }
        if let Some(rest) = self.octets.get(self.end..).filter(|rest| !rest.is_empty()) {
            self.shown.insert("rest".into(), hex(rest).into());
        }
        (self.shown, self.remarks)
    }
}

/// Returns a single as JSON, without loss.
pub(super) fn single(number: f32) -> Value {
    exact::serialize(&number, serde_json::value::Serializer).unwrap_or_default()
}
