//! Parts of requests that protocols share: checks, conversions and errors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use earmark_control::{
    ApplicationId, ApplicationRow, Identity, Problem, ProblemCode, ReservationRequest, Role,
    SenderName,
};
use earmark_core::Rate;
use earmark_core::outcome::Outcome;
use earmark_token::{Token, TokenTextError, User};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Host, Protocol};

/// Creates the row of an application.
pub fn row(
    protocol: &dyn Protocol,
    role: Role,
    destination: SocketAddr,
    ip_protocol: u8,
    held: bool,
) -> ApplicationRow {
    ApplicationRow {
        application: ApplicationId(0), // the number is assigned when it is opened
        protocol: protocol.name().to_owned(),
        role,
        destination: destination.ip(),
        destination_port: destination.port(),
        ip_protocol,
        style: None,
        senders: Vec::new(),
        held,
        outcome: Outcome::default(),
        last: None,
    }
}

/// Reads the options of a protocol.
///
/// # Errors
/// An option is unknown or invalid.
pub fn options<T: DeserializeOwned>(
    protocol: &dyn Protocol,
    members: Map<String, Value>,
) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(members)).map_err(|error| {
        Problem::new(
            ProblemCode::BadRequest,
            format!("invalid options of {}: {error}", protocol.name()),
            "docs/control-protocol.md lists the options of each protocol",
        )
    })
}

/// Returns the rate of a request that needs one.
///
/// # Errors
/// The request has none.
pub fn rate(request: &ReservationRequest) -> Result<Rate, Problem> {
    request.rate_bps.ok_or_else(|| {
        let message = "invalid request: missing field `rate_bps`";
        Problem::new(ProblemCode::BadRequest, message, "rate_bps is the token rate of the data")
    })
}

/// Reads the token of a request.
///
/// # Errors
/// The text is not one.
pub fn token(identity: &Identity) -> Result<Option<Token>, Problem> {
    let parsed = identity.token.as_deref().map(str::parse).transpose();
    parsed.map_err(|error: TokenTextError| {
        rejected(error.to_string(), "`earmark token show FILE` reads a token")
    })
}

/// Formats the user behind a reservation, for the end of an event's text.
pub(crate) fn by_user(user: Option<&User>) -> String {
    user.map_or(String::new(), |user| format!(", by {user}"))
}

/// Checks that a destination can be signalled for.
///
/// # Errors
/// The destination is unspecified, or the host has no sockets for its family.
pub fn check_destination(
    destination: SocketAddr,
    ip_protocol: u8,
    host: &dyn Host,
) -> Result<(), Problem> {
    if destination.ip().is_unspecified() {
        return Err(rejected(
            format!("{} is not a destination address", destination.ip()),
            "name the address itself, not \"any\"",
        ));
    }
    if ip_protocol == 0 {
        return Err(rejected(
            "a session needs the IP protocol of its data; 0 is none (RFC 2205 section A.1)"
                .to_owned(),
            "17 for UDP, 6 for TCP",
        ));
    }
    if !host.can_signal(destination.ip()) {
        return Err(rejected(
            format!("cannot reserve for {}: IPv6 is disabled on this host", destination.ip()),
            "use the receiver's IPv4 address",
        ));
    }
    Ok(())
}

/// Checks that data for an address arrives at this host. The unspecified address stands for all of this host's.
pub(crate) fn check_arrival(on: IpAddr, host: &dyn Host) -> Result<(), Problem> {
    if on.is_multicast() || host.is_local(on) {
        return Ok(());
    }
    Err(rejected(
        format!("{on} is not an address of this host"),
        "listen on an address of this host (`ip address` lists them), or run this on the receiver",
    ))
}

/// Returns the source of a flow to `to`; its address may be chosen by the node.
///
/// # Errors
/// The addresses are of different families.
pub fn source(from: Option<SocketAddr>, to: SocketAddr) -> Result<SocketAddr, Problem> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = from.unwrap_or(SocketAddr::new(any, 0));
    if from.ip().is_unspecified() {
        return Ok(SocketAddr::new(any, from.port()));
    }
    if from.is_ipv4() != to.is_ipv4() {
        return Err(rejected(
            format!("{} and {} are of different IP versions", from.ip(), to.ip()),
            "both IPv4 or both IPv6",
        ));
    }
    Ok(from)
}

/// Returns the name of a sender; none if the node chooses its address.
pub fn named(from: SocketAddr) -> Vec<SenderName> {
    let name = SenderName { address: from.ip(), port: from.port(), flow_label: None, spi: None };
    if from.ip().is_unspecified() { Vec::new() } else { vec![name] }
}

/// Creates the error of a request that the node would reject.
pub fn rejected(message: String, hint: &str) -> Problem {
    Problem::new(ProblemCode::Rejected, message, hint)
}

/// Checks what selects the packets of a sender: a port, a flow label or an SPI, one of them at most.
pub(crate) fn check_selector(sender: &SenderName) -> Result<(), Problem> {
    let SenderName { address, port, flow_label, spi } = *sender;
    if let Some(label) = flow_label {
        check_label(label, address)?;
    }
    if spi == Some(0) {
        return Err(rejected(
            "no packet has SPI 0 (RFC 4303 section 2.1)".to_owned(),
            "`ip xfrm state` lists the SPI of each security association",
        ));
    }
    let named = [port != 0, flow_label.is_some(), spi.is_some()];
    match named.into_iter().filter(|is_named| *is_named).count() {
        0 | 1 => Ok(()),
        _ => Err(rejected(
            "a sender has a port, a flow label or an SPI, one of them".to_owned(),
            "leave the port out of --from",
        )),
    }
}

/// Checks a flow label: a number of 20 bits other than zero (RFC 6437), for IPv6 only.
pub(crate) fn check_label(label: u32, address: IpAddr) -> Result<(), Problem> {
    if !address.is_ipv6() {
        return Err(rejected(
            format!("{address} is an IPv4 address, which has no flow label"),
            "name a port instead, or use IPv6",
        ));
    }
    if !(1..=0xf_ffff).contains(&label) {
        return Err(rejected(
            format!("invalid flow label {label:#x}"),
            "a flow label is a number from 1 to 0xfffff",
        ));
    }
    Ok(())
}
