//! Arguments of `earmark show path`.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use earmark_control::PathRequest;

use super::values::{endpoint, flow_label, host, ip_protocol};

/// Arguments of `earmark show path`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  earmark show path 10.0.2.2                                       # a flow from this host, without ports
  earmark show path 10.0.2.2:5001 --from 10.0.1.1:4000             # a flow that passes this router
  earmark show path 10.0.2.2 --from 10.0.1.1 --ip-protocol tcp --sport 4000 --dport 80
  earmark show path 10.0.2.2 --from 10.0.1.1 --interface-in eth0 --dport 5001 --mark 7 --json

The first lines show the kernel's decision for packets of the flow: policy rule, table, route and next hop; with several next
hops also the hash policy that chose one. The table lists the claims that the packets match on that interface, in order of
precedence (`governs`: first; `next`: if the previous ones have no room; `stands by`: if a better one ends). The last line shows
the kernel's current queueing for the packets. A warning names a reservation on another interface. No state and no pinned route
changes.

Without --from the flow is one of this host, with the source address that the kernel selects. Packets of another host are
assumed to arrive on the interface of the route to their source, unless --interface-in names another one. Without --mark the
mark is that of the configuration ([[mark]]). Port 0, or none, means packets without ports: reservations for ports do not match.")]
pub(crate) struct PathOptions {
    /// Destination of the flow: an address or a name, with or without a port.
    #[arg(value_name = "DESTINATION", value_parser = destination)]
    to: SocketAddr,
    /// Source of the flow, with or without a port [default: this host].
    #[arg(long, value_name = "ADDRESS", value_parser = endpoint)]
    from: Option<SocketAddr>,
    /// IP protocol of the flow: udp, tcp, esp, ah or a number.
    #[arg(long, value_name = "NAME", default_value = "udp", value_parser = ip_protocol)]
    ip_protocol: u8,
    /// Source port.
    #[arg(long, value_name = "PORT")]
    sport: Option<u16>,
    /// Destination port.
    #[arg(long, value_name = "PORT")]
    dport: Option<u16>,
    /// IPv6 flow label of its packets.
    #[arg(long, value_name = "LABEL", value_parser = flow_label)]
    flow_label: Option<u32>,
    /// Mark that the firewall gives its packets: 7 or 0x7.
    #[arg(long, value_name = "N", value_parser = mark)]
    mark: Option<u32>,
    /// Interface on which its packets arrive; requires --from.
    #[arg(long, value_name = "NAME", requires = "from")]
    interface_in: Option<String>,
}

impl PathOptions {
    /// The request to the daemon; an error if the options contradict each other.
    pub(crate) fn request(&self, limit: Option<usize>) -> Result<PathRequest, String> {
        let to = with_port(self.to, self.dport, "--dport")?;
        let from = match (self.from, self.sport) {
            (Some(from), port) => Some(with_port(from, port, "--sport")?),
            // The unspecified address stands for this host's own.
            (None, Some(port)) => {
                let any = if to.is_ipv4() { [0; 4].into() } else { IpAddr::from([0; 16]) };
                Some(SocketAddr::new(any, port))
            }
            (None, None) => None,
        };
        Ok(PathRequest {
            from,
            flow_label: self.flow_label,
            ip_protocol: self.ip_protocol,
            incoming: self.interface_in.clone(),
            mark: self.mark,
            limit,
            ..PathRequest::new(to)
        })
    }
}

/// Reads an address or a name, with or without a port.
fn destination(text: &str) -> Result<SocketAddr, String> {
    let is_bare_name = !text.contains(':') && text.parse::<IpAddr>().is_err();
    if is_bare_name { host(text).map(|host| SocketAddr::new(host, 0)) } else { endpoint(text) }
}

fn with_port(end: SocketAddr, port: Option<u16>, option: &str) -> Result<SocketAddr, String> {
    match (end.port(), port) {
        (0, Some(port)) => Ok(SocketAddr::new(end.ip(), port)),
        (named, Some(port)) if named != port => {
            Err(format!("{end} names port {named}, and {option} names {port}"))
        }
        _ => Ok(end),
    }
}

/// Reads a mark such as `7` or `0x7`.
fn mark(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "a mark is a number of 32 bits: 7 or 0x7".to_owned())
}
