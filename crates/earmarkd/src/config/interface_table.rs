//! `[[interface]]`: its general keys. The protocols read theirs.

use earmark_core::{Prefix, Rate, Role, Trust};
use serde::Deserialize;
use toml::Spanned;

use super::admission::AdmissionName;
use super::core_aggregates::{AcrossTable, CoreSessions, DeaggregateTable};
use super::integrity::IntegrityKey;
use super::protocols::{OnlyProtocol, ProtocolName};
use super::services::ServiceTable;
use super::source::{LineOfKey, Source};
use super::table::{Owners, Table};
use super::{ConfigError, InterfaceConfig, Place, Queueing, Reservable, Share};
use crate::protocol::Protocol;
use crate::protocols;

/// General keys of the table.
const KEYS: [&str; 18] = [
    "name",
    "bandwidth",
    "reservable",
    "largest_reservation",
    "overhead",
    "latency_us",
    "role",
    "sources",
    "classes",
    "queue_packets",
    "queues",
    "admission",
    "service",
    "integrity",
    "protocols",
    "faces_core",
    "across",
    "deaggregate",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterfaceTable {
    name: Spanned<String>,
    bandwidth: Option<Spanned<String>>,
    reservable: Option<Spanned<Share>>,
    largest_reservation: Option<Spanned<String>>,
    overhead: Option<Spanned<u32>>,
    #[serde(default)]
    latency_us: u32,
    #[serde(default)]
    role: Role,
    #[serde(default)]
    sources: Vec<Spanned<String>>,
    classes: Option<Spanned<u32>>,
    queue_packets: Option<Spanned<u32>>,
    queues: Option<Queueing>,
    admission: Option<Spanned<AdmissionName>>,
    #[serde(default)]
    service: Vec<ServiceTable>,
    integrity: Option<Spanned<IntegrityKey>>,
    protocols: Option<Spanned<Vec<ProtocolName>>>,
    #[serde(default)]
    faces_core: bool,
    #[serde(default)]
    across: Vec<AcrossTable>,
    #[serde(default)]
    deaggregate: Vec<DeaggregateTable>,
}

/// Longest name of an interface: Linux allows 15 octets and a terminator (IFNAMSIZ).
const MAX_INTERFACE_NAME: usize = 15;
/// Upper bound of `overhead`, more than any stack of tunnels adds to a packet, octets.
const MAX_OVERHEAD: u32 = 1_000;
/// Upper bound of `classes`: HTB has 16 bits for a class, and a few classes are the daemon's own.
const MAX_CLASSES: u32 = 60_000;

impl Source<'_> {
    /// Reads the interfaces. Each has a name of its own.
    pub(super) fn interfaces(
        &self,
        tables: Vec<Table<'_>>,
        only: Option<OnlyProtocol>,
    ) -> Result<Vec<InterfaceConfig>, ConfigError> {
        let protocols: Vec<&dyn Protocol> = protocols::all().collect();
        let keys = protocols.iter().map(|protocol| protocol.interface_keys());
        let owners = Owners::new(&KEYS, keys);
        let (mut known, mut core_sessions) = (LineOfKey::new(), CoreSessions::default());
        let mut interfaces = Vec::with_capacity(tables.len());
        for table in tables {
            let (general, parts) = owners.divide(table, self)?;
            let table: InterfaceTable = general.read(self)?;
            let place = self.place(table.name.span());
            let mut interface = self.interface(&table, place.clone(), only)?;
            for (protocol, part) in protocols.iter().zip(parts) {
                protocol.read_interface(part, self, &mut interface)?;
            }
            let hint = "one [[interface]] for each; remove one of the two";
            let what = format!("{} is configured", interface.name);
            self.once(&mut known, interface.name.clone(), table.name.span(), what, hint)?;
            if let Some((to, other)) = core_sessions.add(&interface) {
                let message =
                    format!("{other} has an aggregate to {to} with the same packets already");
                let hint = "one for each far edge and DSCP, or tunnel; remove one of the two";
                return Err(ConfigError::at(place, message, hint));
            }
            interfaces.push(interface);
        }
        Ok(interfaces)
    }

    /// Reads the general keys of an interface.
    fn interface(
        &self,
        table: &InterfaceTable,
        place: Place,
        only: Option<OnlyProtocol>,
    ) -> Result<InterfaceConfig, ConfigError> {
        let name = table.name.get_ref();
        if let Some((message, hint)) = fault_of_name(name) {
            return Err(ConfigError::at(place, message, hint));
        }
        let bandwidth = table.bandwidth.as_ref().map(|text| self.bandwidth(text)).transpose()?;
        let defaults = InterfaceConfig::new(name.as_str(), Rate::ZERO);
        let excluded_protocols = self.excluded_protocols(table.protocols.as_ref(), only)?;
        let reservable = match &table.reservable {
            Some(share) => self.reservable(share, bandwidth)?,
            None => defaults.reservable,
        };
        let queue_packets = table.queue_packets.clone();
        let queues = table.queues.unwrap_or_default();
        Ok(InterfaceConfig {
            bandwidth,
            services: self.services(&table.service, bandwidth, reservable)?,
            reservable,
            largest: (table.largest_reservation.as_ref())
                .map(|text| self.read(text, "a rate such as \"2Mbit\""))
                .transpose()?,
            overhead: self.within(table.overhead.clone(), 0..MAX_OVERHEAD + 1, 0)? as u16,
            latency_us: table.latency_us,
            trust: self.trust(table)?,
            classes: self.within(table.classes.clone(), 1..MAX_CLASSES + 1, defaults.classes)?,
            queue_packets: self.within(queue_packets, 1..100_001, defaults.queue_packets)?,
            queues,
            admission: self.admission(table.admission.as_ref(), queues)?,
            integrity: self.interface_integrity(table.integrity.as_ref(), |name| {
                !excluded_protocols.contains(name)
            })?,
            excluded_protocols,
            border: self.border(
                table.faces_core,
                &table.across,
                &table.deaggregate,
                bandwidth.filter(|_| queues.shapes()),
            )?,
            place: Some(place),
            ..defaults
        })
    }

    /// Reads the role of an interface and the sources behind it.
    fn trust(&self, table: &InterfaceTable) -> Result<Trust, ConfigError> {
        if let (Role::Core, Some(first)) = (table.role, table.sources.first()) {
            return Err(self.error(
                first.span(),
                "a core interface accepts data from all sources",
                "remove `sources`, or remove `role = \"core\"`",
            ));
        }
        let read =
            |text| self.read::<Prefix>(text, "write for example sources = [\"10.1.0.0/16\"]");
        let sources = table.sources.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Trust { role: table.role, sources })
    }

    fn bandwidth(&self, text: &Spanned<String>) -> Result<Rate, ConfigError> {
        match self.read(text, "write for example bandwidth = \"10Mbit\"")? {
            Rate::ZERO => Err(self.error(
                text.span(),
                "the bandwidth is 0",
                "give the bandwidth of the link, for example \"10Mbit\"",
            )),
            rate => Ok(rate),
        }
    }

    fn reservable(
        &self,
        share: &Spanned<Share>,
        bandwidth: Option<Rate>,
    ) -> Result<Reservable, ConfigError> {
        const HINT: &str = "a share such as \"75%\" or 0.75, or a rate such as \"7.5Mbit\"";
        let percent_or_rate = match share.get_ref() {
            Share::Number(share) => Err(*share),
            Share::Text(text) => match text.trim().strip_suffix('%') {
                Some(percent) => match percent.trim().parse::<f64>() {
                    Ok(percent) => Err(percent / 100.0),
                    Err(_) => {
                        return Err(self.error(
                            share.span(),
                            format!("invalid share {text:?}"),
                            HINT,
                        ));
                    }
                },
                None => Ok(text
                    .parse::<Rate>()
                    .map_err(|e| self.error(share.span(), e.to_string(), HINT))?),
            },
        };
        match percent_or_rate {
            Err(part) if (0.0..=1.0).contains(&part) => Ok(Reservable::Share(part)),
            Err(part) => Err(self.error(
                share.span(),
                format!("share {}% is outside 0 to 100%", part * 100.0),
                HINT,
            )),
            Ok(rate) => match bandwidth.filter(|bandwidth| rate > *bandwidth) {
                None => Ok(Reservable::Rate(rate)),
                Some(bandwidth) => Err(self.error(
                    share.span(),
                    format!("{rate} exceeds the bandwidth of the link, {bandwidth}"),
                    "at most the link's bandwidth; best effort gets what is left",
                )),
            },
        }
    }
}

/// The error in a name that no interface can have, or that no interface with reservations can have, with a hint. The rules
/// are those of Linux (`dev_valid_name`).
fn fault_of_name(name: &str) -> Option<(String, &'static str)> {
    const HINT: &str = "`ip link` lists the interfaces of this host";
    let cannot = |why: &str| format!("invalid interface name {name:?}: {why}");
    if name.is_empty() || name == "." || name == ".." {
        return Some((cannot("it is empty, . or .."), HINT));
    }
    if name.len() > MAX_INTERFACE_NAME {
        let why = format!("it has more than {MAX_INTERFACE_NAME} octets");
        return Some((cannot(&why), HINT));
    }
    if name.contains(':') {
        let hint = "eth0:1 is a label of an address; the interface is eth0";
        return Some((cannot("it contains ':'"), hint));
    }
    if name.contains(|c: char| c == '/' || c.is_ascii_whitespace() || c == '\x0b') {
        return Some((cannot("it contains '/' or a space"), HINT));
    }
    (name == "lo").then(|| {
        let message = "lo is the loopback interface: its packets do not leave this host";
        (message.to_owned(), "name the interfaces that lead to other hosts")
    })
}
