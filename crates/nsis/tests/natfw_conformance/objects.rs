//! Objects of a message of a story, as octets. They are written here and not by the code of the node, so that a story can
//! have objects that are malformed, missing, or there twice.

use std::net::Ipv4Addr;

use earmark_testkit::conformance::words::{Fault, Words, octets};
use earmark_wire::gist::SessionId;
use earmark_wire::natfw_nslp::iana::{MessageType, ObjectType};

use crate::names::{Addresses, Names, protocol};

/// Flags in the second octet of a message (RFC 5973 section 4.1).
const PROXY: u8 = 0x80;
const END_TO_END: u8 = 0x40;

/// Flags in the first octet of NATFW_DTINFO (section 4.2.8).
const HAS_PROTOCOL: u8 = 0x80;
const HAS_PORTS: u8 = 0x40;
const HAS_SPI: u8 = 0x20;

/// Returns the octets of a message of a story: its name with flags, and its objects.
pub(crate) fn compose(
    name: &str,
    words: &mut Words<'_>,
    lines: &[&str],
    (session, names): (SessionId, &Names),
) -> Result<Vec<u8>, Fault> {
    let kinds =
        [MessageType::Create, MessageType::External, MessageType::Response, MessageType::Notify];
    let kind = kinds.into_iter().find(|kind| kind.name() == name);
    let kind = kind.ok_or_else(|| format!("there is no message `{name}`"))?;
    let proxy = if words.flag("proxy") { PROXY } else { 0 };
    let end_to_end = if words.flag("end-to-end") { END_TO_END } else { 0 };
    let mut message = vec![kind.code(), proxy | end_to_end, 0, 0];
    for line in lines {
        let mut words = Words::of(line);
        let object = words.next("an object")?;
        let (code, mut value) = value(object, &mut words, (session, names))?;
        words.end().map_err(|fault| format!("{line}: {fault}"))?;
        value.resize(value.len().next_multiple_of(4), 0);
        let length = u16::try_from(value.len() / 4).map_err(|_| format!("{line}: too long"))?;
        message.extend(code.to_be_bytes());
        message.extend(length.to_be_bytes());
        message.extend(value);
    }
    Ok(message)
}

/// Returns the type of an object, with the flags A and B, and its value.
fn value(
    object: &str,
    words: &mut Words<'_>,
    (session, names): (SessionId, &Names),
) -> Result<(u16, Vec<u8>), Fault> {
    let (object_type, value) = match object {
        "NATFW_LT" => (ObjectType::Lifetime, words.value::<u32>("seconds")?.to_be_bytes().into()),
        "NATFW_MSN" => {
            let msn = names.msn(session, words.next("a number")?)?;
            (ObjectType::Msn, msn.to_be_bytes().into())
        }
        "NATFW_NONCE" => {
            let nonce = names.nonce(words.next("a nonce")?)?;
            (ObjectType::Nonce, nonce.to_be_bytes().into())
        }
        "NATFW_EFI" => {
            let action: u16 = match words.next("an action")? {
                "allow" => 1,
                "deny" => 2,
                other => other.parse().map_err(|_| format!("`{other}` is no action"))?,
            };
            let sub_ports: u16 = words.maybe("sub_ports")?.unwrap_or(0);
            (ObjectType::ExtendedFlow, [action.to_be_bytes(), sub_ports.to_be_bytes()].concat())
        }
        "NATFW_INFO" => {
            let (class, code): (u8, u8) = (words.value("a class")?, words.value("a code")?);
            (ObjectType::Info, vec![class, code, 0, 0])
        }
        "NATFW_DTINFO" => (ObjectType::DataTerminal, data_terminal(words)?),
        "NATFW_ICMP_TYPES" => {
            let mut types = Vec::new();
            while !words.is_empty() {
                types.push(words.value("a type")?);
            }
            let count = u8::try_from(types.len()).map_err(|_| "too many types")?;
            types.insert(0, count);
            (ObjectType::IcmpTypes, types)
        }
        "NATFW_EXTERNAL_IP" => {
            let at = Addresses::parse(words.next("an address")?)?;
            let value = [head_of_addresses(at.port.unwrap_or(0)), v4(at)?.octets().into()];
            (ObjectType::ExternalAddress, value.concat())
        }
        "NATFW_EXTERNAL_BINDING" => {
            let mut value = head_of_addresses(words.maybe("port")?.unwrap_or(0));
            while !words.is_empty() {
                value.extend(words.value::<Ipv4Addr>("an address")?.octets());
            }
            (ObjectType::ExternalBinding, value)
        }
        // An object that RFC 5973 does not have.
        "OBJECT" => {
            let code = words.next("a type")?;
            let code = code.strip_prefix("0x").ok_or("a type looks like 0x7d0")?;
            let code = u16::from_str_radix(code, 16).map_err(|error| error.to_string())?;
            // The flags A and B (section 4.2).
            let flags = match words.next("mandatory, ignore or forward")? {
                "mandatory" => 0,
                "ignore" => 0x4000,
                "forward" => 0x8000,
                other => return Err(format!("`{other}`: say `mandatory`, `ignore` or `forward`")),
            };
            return Ok((flags | code, octets(words.next("octets")?)?));
        }
        other => return Err(format!("there is no object `{other}`")),
    };
    Ok((object_type.code(), value))
}

/// First word of the objects with addresses: port, and IP version 4.
fn head_of_addresses(port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    vec![high, low, 0x40, 0]
}

fn data_terminal(words: &mut Words<'_>) -> Result<Vec<u8>, Fault> {
    let sender = match words.text("sender") {
        None | Some("any") => None,
        Some(text) => Some(Addresses::parse(text)?),
    };
    let protocol = words.text("protocol").map(protocol).transpose()?;
    let to: Option<u16> = words.maybe("dr-port")?;
    let from: Option<u16> = words.maybe("ds-port")?;
    let spi: Option<u32> = words.maybe("spi")?;
    let mut flags = protocol.map_or(0, |_| HAS_PROTOCOL);
    let mut rest = Vec::new();
    if to.is_some() || from.is_some() {
        flags |= HAS_PORTS;
        rest.extend([to, from].map(|port| port.unwrap_or(0).to_be_bytes()).concat());
    }
    if let Some(spi) = spi {
        flags |= HAS_SPI;
        rest.extend(spi.to_be_bytes());
    }
    let prefix = sender.map_or(0, |sender| sender.prefix);
    let address = sender.map_or(Ok(Ipv4Addr::UNSPECIFIED), v4)?;
    let first = vec![flags, 0, prefix, protocol.unwrap_or(0)];
    Ok([first, rest, address.octets().into()].concat())
}

fn v4(at: Addresses) -> Result<Ipv4Addr, Fault> {
    match at.address {
        std::net::IpAddr::V4(address) => Ok(address),
        other => Err(format!("{other}: the object has no form for IPv6")),
    }
}
