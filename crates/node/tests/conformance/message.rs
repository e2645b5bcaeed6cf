//! Text form of messages: a line for the header and the addresses, and one for each object. A Bundle has a line for
//! each of its messages, `Path flags=1`, followed by the lines of that message's objects.

use std::net::IpAddr;

use earmark_wire::checksum::checksum;
use earmark_wire::rsvp::{self, Body, Message, MessageType};

use crate::object::{self, Handles, class_named};
use crate::show::hexadecimal;
use earmark_testkit::conformance::words::{Fault, Words};

/// A message of a story. Later messages may be written as changes of it.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    kind: u8,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) ttl: u8,
    pub(crate) alert: bool,
    pub(crate) encapsulated: bool,
    version: u8,
    flags: u8,
    /// Send_TTL, if different from the TTL.
    send_ttl: Option<u8>,
    /// RSVP Length, if different from the actual length.
    length: Option<u16>,
    checksum: Checksum,
    objects: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksum {
    Right,
    /// Checksum zero: not transmitted.
    None,
    Wrong,
}

/// Reads a complete message: `Path from 10.0.0.1 to 10.0.9.9 ttl=63 alert`, and a line for each object.
pub(crate) fn read(
    words: &mut Words<'_>,
    body: &[&str],
    handles: &Handles,
) -> Result<Draft, Fault> {
    let kind = match words.maybe::<u8>("type")? {
        Some(kind) => kind,
        None => {
            let name = words.next("message type")?;
            kind_named(name).ok_or_else(|| format!("no message is called {name}"))?
        }
    };
    let mut draft = read_header(words)?;
    draft.kind = kind;
    draft.change_header(words)?;
    draft.objects = match MessageType::from_code(kind) {
        MessageType::Bundle => messages(body, handles, &draft)?,
        _ => body.iter().map(|line| object::read(line, handles)).collect::<Result<_, _>>()?,
    };
    Ok(draft)
}

fn kind_named(name: &str) -> Option<u8> {
    (1..=u8::MAX).find(|code| MessageType::from_code(*code).name() == name)
}

/// Reads the messages of a Bundle, each of which begins with its name. Send_TTL defaults to that of the Bundle.
fn messages(body: &[&str], handles: &Handles, bundle: &Draft) -> Result<Vec<Vec<u8>>, Fault> {
    let mut drafts: Vec<Draft> = Vec::new();
    for line in body {
        let mut words = Words::of(line);
        match (kind_named(words.next("message or object")?), drafts.last_mut()) {
            (Some(kind), _) => {
                let mut draft = Draft { kind, flags: 0, objects: Vec::new(), ..bundle.clone() };
                draft.change_header(&mut words)?;
                words.end()?;
                drafts.push(draft);
            }
            (None, Some(draft)) => draft.objects.push(object::read(line, handles)?),
            (None, None) => return Err(format!("`{line}`: a message comes first")),
        }
    }
    drafts.iter().map(Draft::octets).collect()
}

/// Reads the addresses and IP fields of a message of any type: `from 10.0.0.1 to 10.0.9.9 ttl=63 alert`.
pub(crate) fn read_header(words: &mut Words<'_>) -> Result<Draft, Fault> {
    Ok(Draft {
        kind: 0,
        source: words.after("from")?.ok_or("`from` is missing")?,
        destination: words.after("to")?.ok_or("`to` is missing")?,
        ttl: words.key("ttl")?,
        alert: words.flag("alert"),
        encapsulated: words.flag("udp"),
        version: 1,
        flags: 0,
        send_ttl: None,
        length: None,
        checksum: Checksum::Right,
        objects: Vec::new(),
    })
}

impl Draft {
    /// Returns the message with changes.
    pub(crate) fn with_changes(
        &self,
        words: &mut Words<'_>,
        body: &[&str],
        handles: &Handles,
    ) -> Result<Draft, Fault> {
        let mut draft = self.clone();
        draft.source = words.after("from")?.unwrap_or(draft.source);
        draft.destination = words.after("to")?.unwrap_or(draft.destination);
        draft.ttl = words.maybe("ttl")?.unwrap_or(draft.ttl);
        draft.change_header(words)?;
        for line in body {
            let (verb, rest) = line.split_once(' ').ok_or("an object is missing")?;
            match verb {
                "with" => draft.replace(object::read(rest, handles)?),
                "and" => draft.objects.push(object::read(rest, handles)?),
                "without" => draft.take_out(rest)?,
                _ => return Err(format!("`{verb}`: say `with`, `and` or `without`")),
            }
        }
        Ok(draft)
    }

    fn change_header(&mut self, words: &mut Words<'_>) -> Result<(), Fault> {
        self.version = words.maybe("version")?.unwrap_or(self.version);
        self.flags = words.maybe("flags")?.unwrap_or(self.flags);
        self.send_ttl = words.maybe("send_ttl")?.or(self.send_ttl);
        self.length = words.maybe("length")?.or(self.length);
        self.checksum = match words.text("checksum") {
            None => self.checksum,
            Some("none") => Checksum::None,
            Some("wrong") => Checksum::Wrong,
            Some(other) => return Err(format!("checksum={other}: say `none` or `wrong`")),
        };
        Ok(())
    }

    /// Replaces the first object of the same class; appends the object if there is none.
    fn replace(&mut self, object: Vec<u8>) {
        match self.objects.iter_mut().find(|old| old[2] == object[2]) {
            Some(old) => *old = object,
            None => self.objects.push(object),
        }
    }

    fn take_out(&mut self, name: &str) -> Result<(), Fault> {
        let class = class_named(name).ok_or_else(|| format!("no object is called {name}"))?;
        let before = self.objects.len();
        self.objects.retain(|object| object[2] != class.code());
        if self.objects.len() == before { Err(format!("there is no {name}")) } else { Ok(()) }
    }

    /// Returns the message in wire format (RFC 2205 section 3.1.1).
    pub(crate) fn octets(&self) -> Result<Vec<u8>, Fault> {
        let body = self.objects.concat();
        let length = u16::try_from(body.len() + 8).map_err(|_| "the message is too long")?;
        let [l0, l1] = self.length.unwrap_or(length).to_be_bytes();
        let first = self.version << 4 | self.flags;
        let send_ttl = self.send_ttl.unwrap_or(self.ttl);
        let mut octets = vec![first, self.kind, 0, 0, send_ttl, 0, l0, l1];
        octets.extend(body);
        let sum = match self.checksum {
            Checksum::Right => checksum(&octets),
            Checksum::None => 0,
            Checksum::Wrong => checksum(&octets) ^ 0x5555,
        };
        octets[2..4].copy_from_slice(&sum.to_be_bytes());
        Ok(octets)
    }
}

/// Returns name and header fields of a message sent with this TTL, and a line for each object. Parts without a lossless
/// text form are shown as octets.
pub(crate) fn show(octets: &[u8], ttl: u8, handles: &Handles) -> (String, Vec<String>) {
    let (Some((header, objects)), 0) = (octets.split_first_chunk::<8>(), checksum(octets)) else {
        return ("octets".into(), vec![hexadecimal(octets)]);
    };
    let [first, kind, _, _, send_ttl, ..] = *header;
    let mut head = MessageType::from_code(kind).name().to_string();
    if first & 0x0f != 0 {
        head += &format!(" flags={}", first & 0x0f);
    }
    if send_ttl != ttl {
        head += &format!(" send_ttl={send_ttl}");
    }
    if let Ok(Message { body: Body::Bundle(bundle), .. }) = Message::parse(octets) {
        let within = bundle.iter().flat_map(|octets| {
            let (head, objects) = show(octets, ttl, handles);
            std::iter::once(head).chain(objects)
        });
        return (head, within.collect());
    }
    let Some(frames) = frames(objects) else {
        return ("octets".into(), vec![hexadecimal(octets)]);
    };
    let line = |(object, bytes)| match object {
        Ok(object) => object::show(&object, handles),
        Err(_) => object::raw(bytes),
    };
    (head, rsvp::objects(octets).zip(frames).map(line).collect())
}

/// Returns the objects of a message with their headers; `None` if their lengths are inconsistent.
fn frames(mut objects: &[u8]) -> Option<Vec<&[u8]>> {
    let mut frames = Vec::new();
    while let [high, low, _, _, ..] = *objects {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (frame, rest) = objects.split_at_checked(length).filter(|_| length >= 4)?;
        frames.push(frame);
        objects = rest;
    }
    objects.is_empty().then_some(frames)
}
