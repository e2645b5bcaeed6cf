//! Syntax of the values on the command line.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use clap::ValueEnum;
use earmark_control::text::ip_protocol_number;
use earmark_control::{SenderName, StyleName};

/// Reads `10.0.2.2:5001`, `[2001:db8::2]:5001`, an address alone (port 0), or a name with a port.
pub(crate) fn endpoint(text: &str) -> Result<SocketAddr, String> {
    if let Ok(endpoint) = text.parse() {
        return Ok(endpoint);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, 0));
    }
    let found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|error| format!("an address is written 10.0.2.2:5001 or name:5001 ({error})"))?
        .collect();
    // IPv4 is preferred because more daemons are reachable over it.
    let first = found.iter().find(|endpoint| endpoint.is_ipv4()).or_else(|| found.first());
    first.copied().ok_or_else(|| "that name has no address".to_owned())
}

/// Reads an address, or resolves a name.
pub(crate) fn host(text: &str) -> Result<IpAddr, String> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) if text.contains(':') => Err("a host is written 10.0.2.2, or as a name".to_owned()),
        Err(_) => endpoint(&format!("{text}:0")).map(|endpoint| endpoint.ip()),
    }
}

/// Reads the address of a sender, alone or with a port, flow label or SPI.
pub(crate) fn sender(text: &str) -> Result<SenderName, String> {
    if let Some((address, spi)) = text.split_once('@') {
        let spi = Some(self::spi(spi)?);
        return Ok(SenderName { address: host(address)?, port: 0, flow_label: None, spi });
    }
    if let Some((address, label)) = text.split_once('#') {
        let flow_label = Some(flow_label(label)?);
        let SocketAddr::V6(from) = endpoint(address)? else {
            return Err("only IPv6 has flow labels".to_owned());
        };
        return match from.port() {
            0 => Ok(SenderName { address: (*from.ip()).into(), port: 0, flow_label, spi: None }),
            _ => Err("a sender has a port or a flow label, not both".to_owned()),
        };
    }
    let from = endpoint(text)?;
    Ok(SenderName { address: from.ip(), port: from.port(), flow_label: None, spi: None })
}

/// Reads a flow label such as `0x12345`, hexadecimal or decimal.
pub(crate) fn flow_label(text: &str) -> Result<u32, String> {
    match number(text) {
        Some(label @ 1..=0xf_ffff) => Ok(label),
        _ => Err("a flow label is a number from 1 to 0xfffff".to_owned()),
    }
}

/// Reads an SPI such as `0xc0ffee01`, hexadecimal or decimal.
pub(crate) fn spi(text: &str) -> Result<u32, String> {
    match number(text) {
        Some(spi @ 1..) => Ok(spi),
        _ => Err("an SPI is a number from 1 to 0xffffffff (`ip xfrm state` shows it)".to_owned()),
    }
}

/// Reads a number, hexadecimal after `0x` or decimal.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads an IP protocol: `udp`, `tcp`, `esp`, `ah` or a number.
pub(crate) fn ip_protocol(text: &str) -> Result<u8, String> {
    ip_protocol_number(text)
        .ok_or_else(|| "an IP protocol is udp, tcp, esp, ah, or a number from 1 to 255".to_owned())
}

/// Reservation styles (RFC 2205 section 1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sharing {
    /// Fixed filter: a reservation of its own for each sender.
    Ff,
    /// Shared explicit: one reservation for the named or known senders.
    Se,
    /// Wildcard filter: one reservation for all senders, present and future.
    Wf,
}

impl From<Sharing> for StyleName {
    fn from(sharing: Sharing) -> StyleName {
        match sharing {
            Sharing::Ff => StyleName::Ff,
            Sharing::Se => StyleName::Se,
            Sharing::Wf => StyleName::Wf,
        }
    }
}
