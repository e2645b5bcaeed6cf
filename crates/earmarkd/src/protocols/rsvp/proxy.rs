//! `[[sender_proxy]]` and `[[receiver_proxy]]`: hosts without RSVP for which this node signals.

use std::net::{IpAddr, SocketAddr};

use earmark_core::Rate;
use earmark_rsvp::proxy::{ReceiverProxy, SenderNotification, SenderProxy, Settings};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector};
use earmark_wire::udp;
use serde::Deserialize;
use toml::Spanned;

use crate::config::{ConfigError, InterfaceConfig, LineOfKey, Source};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SenderTable {
    from: Spanned<String>,
    to: Spanned<String>,
    ip_protocol: Option<u8>,
    spi: Option<Spanned<u32>>,
    rate: Spanned<String>,
    burst_octets: Option<u32>,
    min_packet: Option<u32>,
    max_packet: Option<Spanned<u32>>,
    ttl: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReceiverTable {
    #[serde(default)]
    interfaces: Vec<Spanned<String>>,
    #[serde(default)]
    destinations: Vec<Spanned<String>>,
    #[serde(default)]
    sources: Vec<Spanned<String>>,
    ip_protocol: Option<u8>,
    port: Option<u16>,
    rate: Option<Spanned<String>>,
    largest: Option<Spanned<String>>,
    #[serde(default)]
    on_request: bool,
    discovery: Option<bool>,
    path_err: Option<Spanned<bool>>,
    #[serde(default)]
    path_state_removed: bool,
    notify: Option<Spanned<SenderNotification>>,
}

const RATE: &str = "a rate such as \"2Mbit\"";
const GPI: &str = "with ESP or AH (ip_protocol = 50 or 51) give `spi`, a port in `to`, which tells sessions apart \
                   (RFC 2207), and port 0 in `from`; with other protocols leave `spi` out";
const ENDPOINT: &str = "an address and a port such as \"10.0.0.5:4000\" or \"[2001:db8::5]:4000\"";

impl ReceiverTable {
    /// Returns how the sender is notified of failures, if by Notify.
    pub(super) fn notify(&self) -> Option<&Spanned<SenderNotification>> {
        self.notify.as_ref()
    }
}

impl Source<'_> {
    pub(crate) fn proxies(
        &self,
        senders: &[SenderTable],
        receivers: &[ReceiverTable],
        interfaces: &[InterfaceConfig],
    ) -> Result<Settings, ConfigError> {
        let mut known = LineOfKey::new();
        let senders = senders.iter().map(|table| self.sender_proxy(table, &mut known));
        let receivers = receivers.iter().map(|table| self.receiver_proxy(table, interfaces));
        Ok(Settings {
            senders: senders.collect::<Result<_, _>>()?,
            receivers: receivers.collect::<Result<_, _>>()?,
        })
    }

    /// Reads a sender without RSVP; `known` has those before it.
    fn sender_proxy(
        &self,
        table: &SenderTable,
        known: &mut LineOfKey<(SocketAddr, u8, IpAddr, SourceSelector)>,
    ) -> Result<SenderProxy, ConfigError> {
        let from: SocketAddr = self.read(&table.from, ENDPOINT)?;
        let to: SocketAddr = self.read(&table.to, ENDPOINT)?;
        for (endpoint, text) in [(from, &table.from), (to, &table.to)] {
            if endpoint.ip().is_unspecified() || endpoint.is_ipv4() != to.is_ipv4() {
                let message = "both ends need an address, of the same IP version";
                return Err(self.error(text.span(), message, ENDPOINT));
            }
        }
        let session = Session {
            destination: to.ip(),
            protocol: table.ip_protocol.unwrap_or(udp::PROTOCOL),
            flags: 0,
            port: to.port(),
        };
        if session.has_gpi() != table.spi.is_some() || table.spi.is_some() && from.port() != 0 {
            let message = "`ip_protocol`, `spi` and ports do not fit each other";
            return Err(self.error(table.to.span(), message, GPI));
        }
        let selector = match &table.spi {
            Some(spi) if *spi.get_ref() == 0 => {
                let hint = "`ip xfrm state` lists the SPI of each security association";
                return Err(self.error(spi.span(), "no packet has SPI 0", hint));
            }
            Some(spi) => SourceSelector::Spi(*spi.get_ref()),
            None => SourceSelector::Port(from.port()),
        };
        let what = format!("the sender {from} to {to} has a [[sender_proxy]]");
        let hint = "one for each sender of a session; remove one of the two";
        let sender = (to, session.protocol, from.ip(), selector);
        self.once(known, sender, table.from.span(), what, hint)?;
        let rate: Rate = self.read(&table.rate, RATE)?;
        if rate == Rate::ZERO {
            return Err(self.error(table.rate.span(), "a rate of 0 reserves nothing", RATE));
        }
        let largest = table.max_packet.as_ref().map_or(1_500, |size| *size.get_ref());
        let burst = table.burst_octets.unwrap_or(10_000);
        if let Some(max_packet) = &table.max_packet
            && largest > burst
        {
            let message =
                format!("a burst of {burst} octets does not hold one packet of {largest}");
            return Err(self.error(max_packet.span(), message, "make burst_octets larger"));
        }
        Ok(SenderProxy {
            session,
            template: FilterSpec { source: from.ip(), selector },
            tspec: TokenBucket {
                rate: rate.as_octets_per_second(),
                depth: burst as f32,
                peak: f32::INFINITY,
                min_policed_unit: table.min_packet.unwrap_or(64).min(largest),
                max_packet_size: largest,
            },
            ttl: table.ttl.unwrap_or(64),
        })
    }

    fn receiver_proxy(
        &self,
        table: &ReceiverTable,
        known: &[InterfaceConfig],
    ) -> Result<ReceiverProxy, ConfigError> {
        let rate = |text: &Option<Spanned<String>>| {
            text.as_ref().map(|text| self.read(text, RATE)).transpose()
        };
        let path_err = table.path_err.as_ref();
        if let Some(path_err) = path_err.filter(|sent| !*sent.get_ref() && table.notify.is_none()) {
            let message = "without PathErr and without Notify a sender hears of no failure";
            return Err(self.error(path_err.span(), message, "set notify, or leave path_err out"));
        }
        Ok(ReceiverProxy {
            interfaces: self.interface_names(&table.interfaces, known)?,
            destinations: self.ranges(&table.destinations)?,
            sources: self.ranges(&table.sources)?,
            protocol: table.ip_protocol,
            port: table.port,
            rate: rate(&table.rate)?,
            largest: rate(&table.largest)?,
            on_request: table.on_request,
            sinks_path: !table.discovery.unwrap_or(true),
            path_state_removed: table.path_state_removed,
            notify: table.notify.as_ref().map(|notify| *notify.get_ref()),
            notify_only: path_err.is_some_and(|sent| !*sent.get_ref()),
        })
    }
}
