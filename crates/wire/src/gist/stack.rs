//! Stack-Proposal and Stack-Configuration-Data: the protocols of messaging associations (RFC 5971 sections 5.7, A.3.4
//! and A.3.5).
//!
//! A profile is a stack of protocols, the uppermost first, such as TLS over TCP. Options apply to a protocol in one
//! profile, or in all. Both lists have unknown lengths: they stay on the wire and are parsed during iteration.

use core::fmt;

use super::error::{ErrorKind, ParseError};
use super::iana::ProtocolId;
use super::reader::Reader;
use crate::nsis::{WORD, object::pad};
use crate::serialize::Sequence;
use crate::writer::{EmitError, Writer};

/// A stack of 1 to 255 protocol numbers, the uppermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Profile<'a>(pub &'a [u8]);

impl<'a> Profile<'a> {
    /// Iterates over the protocols, the uppermost first.
    pub fn protocols(self) -> impl Iterator<Item = ProtocolId> + Clone + 'a {
        self.0.iter().map(|code| ProtocolId::from_code(*code))
    }

    /// Whether the stack contains `protocol`.
    pub fn contains(self, protocol: ProtocolId) -> bool {
        self.0.contains(&protocol.code())
    }
}

/// The profiles of a Stack-Proposal, 1 to 255 in order of preference.
#[derive(Clone, Copy)]
pub struct Profiles<'a>(ProfileList<'a>);

#[derive(Clone, Copy)]
enum ProfileList<'a> {
    /// Profiles as received: counts, protocols, padding.
    Wire { count: u8, octets: &'a [u8] },
    /// Profiles to be emitted.
    Items(&'a [Profile<'a>]),
}

impl<'a> Profiles<'a> {
    /// Creates a list to be emitted.
    pub const fn new(profiles: &'a [Profile<'a>]) -> Profiles<'a> {
        Profiles(ProfileList::Items(profiles))
    }

    /// Iterates over the profiles in order. Options refer to the first one by number 1.
    pub fn iter(self) -> impl Iterator<Item = Profile<'a>> + Clone + 'a {
        let (mut wire, items): (&'a [u8], &'a [Profile<'a>]) = match self.0 {
            ProfileList::Wire { octets, .. } => (octets, &[]),
            ProfileList::Items(items) => (&[], items),
        };
        core::iter::from_fn(move || {
            let (&count, rest) = wire.split_first()?;
            let layers = rest.get(..usize::from(count))?;
            let whole = (1 + layers.len()).next_multiple_of(WORD);
            wire = wire.get(whole..).unwrap_or_default();
            Some(Profile(layers))
        })
        .chain(items.iter().copied())
    }

    /// Number of profiles.
    pub fn len(self) -> usize {
        match self.0 {
            ProfileList::Wire { count, .. } => usize::from(count),
            ProfileList::Items(items) => items.len(),
        }
    }

    /// Whether the list is empty, which is invalid in a message.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Length of the value of a Stack-Proposal, octets.
    pub fn value_len(self) -> usize {
        WORD + match self.0 {
            ProfileList::Wire { octets, .. } => octets.len(),
            ProfileList::Items(items) => {
                items.iter().map(|profile| (1 + profile.0.len()).next_multiple_of(WORD)).sum()
            }
        }
    }

    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Profiles<'a>, ParseError> {
        let start = reader.offset();
        let [count, ..] = reader.take::<WORD>()?;
        if count == 0 {
            return Err(reader.error_at(ErrorKind::NotSupported, start));
        }
        let octets = reader.rest();
        for _ in 0..count {
            let at = reader.offset();
            let [layers] = reader.take()?;
            if layers == 0 {
                return Err(reader.error_at(ErrorKind::EmptyList, at));
            }
            reader.take_padded(1, usize::from(layers))?;
        }
        reader.finish()?;
        Ok(Profiles(ProfileList::Wire { count, octets }))
    }

    pub(super) fn emit(self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let count = u8::try_from(self.len()).map_err(|_| EmitError::TooLong)?;
        if count == 0 {
            return Err(EmitError::Contradiction);
        }
        writer.put([count, 0, 0, 0])?;
        for Profile(layers) in self.iter() {
            let len = u8::try_from(layers.len()).map_err(|_| EmitError::TooLong)?;
            if len == 0 {
                return Err(EmitError::Contradiction);
            }
            writer.put([len])?;
            writer.put_slice(layers)?;
            pad(writer, 1 + layers.len())?;
        }
        Ok(())
    }
}

impl PartialEq for Profiles<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Profiles<'_> {}

impl fmt::Debug for Profiles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// MA-protocol-options field: parameters of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtocolOptions<'a> {
    /// Protocol of the options.
    pub protocol: ProtocolId,
    /// Number of the profile that the options are for, counted from 1; 0 for all.
    pub profile: u8,
    /// D-flag: the protocol must not be used.
    pub unusable: bool,
    /// Option data, at most 255 octets.
    pub data: &'a [u8],
}

impl<'a> ProtocolOptions<'a> {
    /// Creates the options of Forwards-TCP in a Query, which have no data (RFC 5971 section 5.7.2).
    pub const fn tcp_query(profile: u8) -> ProtocolOptions<'static> {
        ProtocolOptions { protocol: ProtocolId::ForwardsTcp, profile, unusable: false, data: &[] }
    }

    /// Creates the options of Forwards-TCP in a Response, with the port that accepts connections.
    ///
    /// The data are the port in two octets and two octets of padding, which are not part of the length of 2.
    pub const fn tcp_response(profile: u8, port: &'a [u8; 2]) -> ProtocolOptions<'a> {
        ProtocolOptions { protocol: ProtocolId::ForwardsTcp, profile, unusable: false, data: port }
    }

    /// Returns the port of Forwards-TCP; `None` if the protocol is another one, or the data are not a port.
    ///
    /// Senders differ in whether the length includes the two octets of padding: both forms are accepted.
    pub fn tcp_port(&self) -> Option<u16> {
        match (self.protocol, self.data) {
            (ProtocolId::ForwardsTcp, &[p0, p1] | &[p0, p1, _, _]) => {
                Some(u16::from_be_bytes([p0, p1]))
            }
            _ => None,
        }
    }

    /// Whether the options are for `protocol` in the profile with number `profile`.
    pub fn applies_to(&self, protocol: ProtocolId, profile: u8) -> bool {
        self.protocol == protocol && (self.profile == 0 || self.profile == profile)
    }
}

/// Options of a Stack-Configuration-Data, at most 255.
#[derive(Clone, Copy)]
pub struct ProtocolOptionsList<'a>(OptionsList<'a>);

#[derive(Clone, Copy)]
enum OptionsList<'a> {
    /// Options as received.
    Wire { count: u8, octets: &'a [u8] },
    /// Options to be emitted.
    Items(&'a [ProtocolOptions<'a>]),
}

impl<'a> ProtocolOptionsList<'a> {
    /// No options.
    pub const NONE: ProtocolOptionsList<'static> = ProtocolOptionsList::new(&[]);

    /// Creates a list to be emitted.
    pub const fn new(options: &'a [ProtocolOptions<'a>]) -> ProtocolOptionsList<'a> {
        ProtocolOptionsList(OptionsList::Items(options))
    }

    /// Iterates over the options in order.
    pub fn iter(self) -> impl Iterator<Item = ProtocolOptions<'a>> + Clone + 'a {
        let (mut wire, items): (&'a [u8], &'a [ProtocolOptions<'a>]) = match self.0 {
            OptionsList::Wire { octets, .. } => (octets, &[]),
            OptionsList::Items(items) => (&[], items),
        };
        core::iter::from_fn(move || {
            let (&[protocol, profile, len, flags], rest) = wire.split_first_chunk::<4>()?;
            let data = rest.get(..usize::from(len))?;
            wire = rest.get(data.len().next_multiple_of(WORD)..).unwrap_or_default();
            Some(ProtocolOptions {
                protocol: ProtocolId::from_code(protocol),
                profile,
                unusable: flags & 0x80 != 0,
                data,
            })
        })
        .chain(items.iter().copied())
    }

    /// Number of options.
    pub fn len(self) -> usize {
        match self.0 {
            OptionsList::Wire { count, .. } => usize::from(count),
            OptionsList::Items(items) => items.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for ProtocolOptionsList<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for ProtocolOptionsList<'_> {}

impl fmt::Debug for ProtocolOptionsList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Stack-Configuration-Data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackConfiguration<'a> {
    /// MA-Hold-Time: how long an association stays open without traffic, milliseconds; never 0.
    pub hold_time: u32,
    /// Options of the protocols.
    pub options: ProtocolOptionsList<'a>,
}

impl<'a> StackConfiguration<'a> {
    /// Length of the value, octets.
    pub fn value_len(&self) -> usize {
        8 + match self.options.0 {
            OptionsList::Wire { octets, .. } => octets.len(),
            OptionsList::Items(items) => {
                items.iter().map(|item| 4 + item.data.len().next_multiple_of(WORD)).sum()
            }
        }
    }

    pub(super) fn parse(mut reader: Reader<'a>) -> Result<StackConfiguration<'a>, ParseError> {
        let start = reader.offset();
        let [count, ..] = reader.take::<WORD>()?;
        let hold_time = u32::from_be_bytes(reader.take()?);
        let octets = reader.rest();
        for _ in 0..count {
            let [_, _, len, _] = reader.take()?;
            reader.take_padded(0, usize::from(len))?;
        }
        reader.finish()?;
        if hold_time == 0 {
            return Err(reader.error_at(ErrorKind::NotSupported, start + 4));
        }
        let options = ProtocolOptionsList(OptionsList::Wire { count, octets });
        Ok(StackConfiguration { hold_time, options })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let count = u8::try_from(self.options.len()).map_err(|_| EmitError::TooLong)?;
        if self.hold_time == 0 {
            return Err(EmitError::Contradiction);
        }
        writer.put([count, 0, 0, 0])?;
        writer.put(self.hold_time.to_be_bytes())?;
        for ProtocolOptions { protocol, profile, unusable, data } in self.options.iter() {
            let len = u8::try_from(data.len()).map_err(|_| EmitError::TooLong)?;
            writer.put([protocol.code(), profile, len, if unusable { 0x80 } else { 0 }])?;
            writer.put_slice(data)?;
            pad(writer, data.len())?;
        }
        Ok(())
    }
}

/// Stack-Proposal and Stack-Configuration-Data of a Query or Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    /// Proposed stacks of protocols.
    pub proposal: Profiles<'a>,
    /// Configuration of the protocols.
    pub configuration: StackConfiguration<'a>,
}

impl Stack<'_> {
    /// Whether the objects are consistent (RFC 5971 section 5.7.1): each option is for a protocol of an existing
    /// profile, and Forwards-TCP, which always requires options, has some for each profile that contains it.
    pub fn is_consistent(&self) -> bool {
        let Stack { proposal, configuration } = self;
        // Sets avoid quadratic work for two long lists.
        let (mut proposed, mut configured) = (OctetSet::default(), OctetSet::default());
        proposal
            .iter()
            .for_each(|profile| profile.0.iter().for_each(|code| proposed.insert(*code)));
        configuration
            .options
            .iter()
            .filter(|options| options.protocol == ProtocolId::ForwardsTcp)
            .for_each(|options| configured.insert(options.profile));
        configuration.options.iter().all(|options| match options.profile.checked_sub(1) {
            None => proposed.contains(options.protocol.code()),
            Some(index) => proposal
                .iter()
                .nth(usize::from(index))
                .is_some_and(|profile| profile.contains(options.protocol)),
        }) && (1..=u8::MAX).zip(proposal.iter()).all(|(number, profile)| {
            !profile.contains(ProtocolId::ForwardsTcp)
                || configured.contains(0)
                || configured.contains(number)
        })
    }

    /// Whether all options of Forwards-TCP in a Response that permit its use have a port (RFC 5971 section 5.7.2).
    pub fn has_ports(&self) -> bool {
        self.configuration.options.iter().all(|options| {
            options.protocol != ProtocolId::ForwardsTcp
                || options.unusable
                || options.tcp_port().is_some()
        })
    }
}

/// A set of octets.
#[derive(Default)]
struct OctetSet([u128; 2]);

impl OctetSet {
    fn insert(&mut self, octet: u8) {
        let [low, high] = &mut self.0;
        *(if octet < 128 { low } else { high }) |= 1 << (octet % 128);
    }

    fn contains(&self, octet: u8) -> bool {
        let [low, high] = self.0;
        (if octet < 128 { low } else { high }) >> (octet % 128) & 1 != 0
    }
}

serialize_as!(Profile<'_>, |it| Sequence(it.protocols().map(ProtocolId::name)));

serialize_as!(Profiles<'_>, |it| map! { "profiles": Sequence(it.iter()) });

serialize_as!(StackConfiguration<'_>, |it| {
    let fields = |options: ProtocolOptions<'_>| {
        map! {
            "protocol": options.protocol.name(),
            "profile": options.profile,
            "port": options.tcp_port(),
            "unusable": options.unusable,
        }
    };
    map! { "hold_time_ms": it.hold_time, "options": Sequence(it.options.iter().map(fields)) }
});
