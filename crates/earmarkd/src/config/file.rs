//! Structure of the TOML file, and its conversion to [`Config`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use earmark_core::Rate;
use earmark_linux::{Gist, Intercept, Yessir};
use earmark_rsvp::integrity::{self, HandshakeMode, Secured};
use earmark_rsvp::{Timing, limits};
use earmark_wire::rsvp::Dscp;
use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::admission::AdmissionName;
use super::core_aggregates::AcrossTable;
use super::mark::MarkTable;
use super::protocols::ProtocolName;
use super::services::ServiceTable;
use super::source::Source;
use super::{
    Config, ConfigError, Control, DEFAULT_SOCKET, IntegrityConfig, InterfaceConfig, Limits, Place,
    Queueing, Reservable,
};
use crate::protocols;
use crate::protocols::boomerang::config::BoomerangTable;
use crate::protocols::nsis::config::{NsisInterceptName, NsisTable};
use crate::protocols::rsvp::policy::PolicyTable;
use crate::protocols::rsvp::proxy::{ReceiverTable, SenderTable};
use crate::protocols::rsvp::refresh_reduction::{HelloTable, ReductionTable};
use crate::protocols::yessir::config::{YessirInterceptName, YessirTable};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    node: NodeTable,
    #[serde(default)]
    control: ControlTable,
    #[serde(default)]
    interface: Vec<InterfaceTable>,
    #[serde(default)]
    rsvp: RsvpTable,
    #[serde(default)]
    integrity: IntegrityTable,
    #[serde(default)]
    policy: PolicyTable,
    #[serde(default)]
    sender_proxy: Vec<SenderTable>,
    #[serde(default)]
    receiver_proxy: Vec<ReceiverTable>,
    #[serde(default)]
    mark: Vec<MarkTable>,
    #[serde(default)]
    boomerang: BoomerangTable,
    #[serde(default)]
    yessir: YessirTable,
    #[serde(default)]
    nsis: NsisTable,
    #[serde(default)]
    protocol: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    daemon: DaemonTable,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    name: Option<Spanned<String>>,
    seed: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlTable {
    socket: Option<Spanned<PathBuf>>,
    group: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceTable {
    name: Spanned<String>,
    bandwidth: Option<Spanned<String>>,
    reservable: Option<Spanned<Share>>,
    #[serde(default)]
    latency_us: u32,
    classes: Option<Spanned<u32>>,
    queue_packets: Option<Spanned<u32>>,
    queues: Option<Queueing>,
    admission: Option<Spanned<AdmissionName>>,
    #[serde(default)]
    service: Vec<ServiceTable>,
    integrity: Option<Secured>,
    protocols: Option<Spanned<Vec<ProtocolName>>>,
    intercept: Option<InterceptName>,
    yessir_intercept: Option<YessirInterceptName>,
    nsis_intercept: Option<NsisInterceptName>,
    measure_rtp: Option<bool>,
    udp_encapsulation: Option<bool>,
    #[serde(default)]
    neighbors: Vec<Spanned<String>>,
    largest_reservation: Option<Spanned<String>>,
    overhead: Option<Spanned<u32>>,
    #[serde(default)]
    dscp: Vec<Spanned<u8>>,
    #[serde(default)]
    faces_core: bool,
    #[serde(default)]
    across: Vec<AcrossTable>,
}

/// Names of [`Intercept`] in the file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum InterceptName {
    RouterAlert,
    Protocol,
}

/// A share or a rate: `0.75`, `"75%"` or `"7.5Mbit"`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a share such as \"75%\" or 0.75, or a rate such as \"7.5Mbit\"")]
pub(crate) enum Share {
    Number(f64),
    Text(String),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RsvpTable {
    refresh: Option<Spanned<String>>,
    lifetime_factor: Option<Spanned<u32>>,
    udp_only: Option<bool>,
    diagnostics: Option<bool>,
    max_sessions: Option<Spanned<u32>>,
    max_per_neighbor: Option<Spanned<u32>>,
    changes_per_second: Option<Spanned<u32>>,
    #[serde(default)]
    reduction: ReductionTable,
    #[serde(default)]
    hello: HelloTable,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct IntegrityTable {
    keys: Option<PathBuf>,
    window: Option<Spanned<u32>>,
    handshake: Option<HandshakeMode>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DaemonTable {
    record: Option<PathBuf>,
    user: Option<String>,
    keep_reservations_on_exit: Option<bool>,
    adoption_time: Option<Spanned<String>>,
    reconcile: Option<Spanned<String>>,
}

/// Longest name of an interface: Linux allows 15 octets and a terminator (IFNAMSIZ).
const MAX_INTERFACE_NAME: usize = 15;
/// Upper bound of `classes`: HTB has 16 bits for a class, and a few classes are the daemon's own.
const MAX_CLASSES: u32 = 60_000;
/// Upper bound of `overhead`, more than any stack of tunnels adds to a packet, octets.
const MAX_OVERHEAD: u32 = 1_000;
/// Longest path of the control socket: `sun_path` of Linux has 108 octets with its terminator, and the daemon binds a
/// temporary name that is a little longer.
const MAX_SOCKET_PATH: usize = 90;

pub(super) fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
    let source = Source::new(text, path);
    let file: File = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        ConfigError::of_parser(source.place(span), error.message())
    })?;
    let name = match file.node.name {
        Some(name) if name.get_ref().is_empty() => {
            return Err(source.error(
                name.span(),
                "the name is empty",
                "leave the key out to use the host's name",
            ));
        }
        Some(name) => name.into_inner(),
        None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    let udp_only = file.rsvp.udp_only.unwrap_or(false);
    let interfaces = source.interfaces(file.interface, udp_only)?;
    let (boomerang, boomerang_share) = source.boomerang(file.boomerang)?;
    let (yessir, retry) = source.yessir(file.yessir, &interfaces)?;
    Ok(Config {
        file: None,
        name,
        seed: file.node.seed,
        control: source.control(file.control)?,
        integrity: source.integrity(file.integrity, &interfaces)?,
        policy: source.policy(file.policy, &interfaces)?,
        proxies: source.proxies(&file.sender_proxy, &file.receiver_proxy, &interfaces)?,
        interfaces,
        timing: source.timing(&file.rsvp)?,
        limits: source.limits(&file.rsvp)?,
        boomerang,
        boomerang_share,
        yessir,
        nsis: source.nsis(file.nsis)?,
        others: source.others(file.protocol)?,
        retry,
        marks: source.marks(&file.mark)?,
        udp_only,
        diagnostics: file.rsvp.diagnostics.unwrap_or(true),
        reduction: source.reduction(file.rsvp.reduction)?,
        hello: source.hello(file.rsvp.hello)?,
        record: file.daemon.record,
        user: file.daemon.user,
        keep_reservations_on_exit: file.daemon.keep_reservations_on_exit.unwrap_or(true),
        adoption_time: source.duration(
            file.daemon.adoption_time.as_ref(),
            Duration::from_secs(1)..=Duration::from_secs(24 * 3_600),
            Duration::from_secs(180),
            "\"3min\" is usual; from 1s to a day (1440min) are possible; keep_reservations_on_exit = false keeps nothing",
        )?,
        reconcile: source.duration(
            file.daemon.reconcile.as_ref(),
            Duration::from_millis(100)..=Duration::from_secs(3_600),
            Duration::from_secs(30),
            "\"30s\" is usual; from 100ms to 1 hour (60min) are possible",
        )?,
    })
}

impl Source<'_> {
    /// Reads the tables of the protocols that the program adds.
    fn others(
        &self,
        tables: BTreeMap<String, Spanned<Value>>,
    ) -> Result<BTreeMap<String, Value>, ConfigError> {
        let mut others = BTreeMap::new();
        for (name, table) in tables {
            let added = protocols::find(&name).filter(|protocol| protocol.engine().is_some());
            let checked = match added {
                Some(protocol) => protocol.check_settings(table.get_ref()),
                None => Err(format!("this program adds no protocol {name:?}")),
            };
            checked.map_err(|message| {
                let hint = "[protocol.NAME] has the settings of a protocol that the program adds";
                self.error(table.span(), message, hint)
            })?;
            others.insert(name, table.into_inner());
        }
        Ok(others)
    }

    fn control(&self, table: ControlTable) -> Result<Control, ConfigError> {
        if let Some(socket) = &table.socket {
            let length = socket.get_ref().as_os_str().len();
            if length == 0 || length > MAX_SOCKET_PATH {
                return Err(self.error(
                    socket.span(),
                    format!(
                        "a socket's path has 1 to {MAX_SOCKET_PATH} octets, this one has {length}"
                    ),
                    "a short path such as /run/earmark/control.sock",
                ));
            }
        }
        let socket = table.socket.map_or_else(|| DEFAULT_SOCKET.into(), Spanned::into_inner);
        Ok(Control { socket, group: table.group })
    }

    fn interfaces(
        &self,
        tables: Vec<InterfaceTable>,
        udp_only: bool,
    ) -> Result<Vec<InterfaceConfig>, ConfigError> {
        let mut line_of_name = BTreeMap::new();
        let mut interfaces = Vec::with_capacity(tables.len());
        for table in tables {
            let place = self.place(table.name.span());
            let interface = self.interface(table, place.clone(), udp_only)?;
            if let Some(line) = line_of_name.insert(interface.name.clone(), place.line) {
                return Err(ConfigError::at(
                    place,
                    format!("{} is configured already, in line {line}", interface.name),
                    "one [[interface]] for each; remove one of the two",
                ));
            }
            interfaces.push(interface);
        }
        Ok(interfaces)
    }

    fn interface(
        &self,
        table: InterfaceTable,
        place: Place,
        udp_only: bool,
    ) -> Result<InterfaceConfig, ConfigError> {
        let name = table.name.get_ref();
        if let Some((message, hint)) = fault_of_name(name) {
            return Err(ConfigError::at(place, message, hint));
        }
        let bandwidth = table.bandwidth.as_ref().map(|text| self.bandwidth(text)).transpose()?;
        let defaults = InterfaceConfig::new(name.as_str(), Rate::ZERO);
        let protocols = self.protocols(table.protocols.as_ref(), udp_only)?;
        let limits = self.interface_limits(&table)?;
        let dscp = self.code_points(&table.dscp)?;
        let reservable = match &table.reservable {
            Some(share) => self.reservable(share, bandwidth)?,
            None => defaults.reservable,
        };
        Ok(InterfaceConfig {
            bandwidth,
            services: self.services(&table.service, bandwidth, reservable)?,
            reservable,
            latency_us: table.latency_us,
            classes: self.within(table.classes, 1..MAX_CLASSES + 1, defaults.classes)?,
            queue_packets: self.within(table.queue_packets, 1..100_001, defaults.queue_packets)?,
            queues: table.queues.unwrap_or_default(),
            admission: self.admission(table.admission, table.queues.unwrap_or_default())?,
            integrity: table.integrity,
            intercept: match table.intercept {
                Some(InterceptName::Protocol) => Intercept::Protocol,
                Some(InterceptName::RouterAlert) | None => Intercept::RouterAlert,
            },
            protocols,
            yessir: match table.yessir_intercept {
                Some(YessirInterceptName::Always) => Yessir::Always,
                Some(YessirInterceptName::RouterAlert) | None => Yessir::RouterAlert,
            },
            gist: match table.nsis_intercept {
                Some(NsisInterceptName::Port) => Gist::Port,
                Some(NsisInterceptName::RouterAlert) | None => Gist::RouterAlert,
            },
            measure_rtp: table.measure_rtp.unwrap_or(false) && protocols.yessir,
            udp_encapsulation: table.udp_encapsulation.unwrap_or(false),
            border: self.border(table.faces_core, &table.across)?,
            limits,
            dscp,
            place: Some(place),
            ..defaults
        })
    }

    fn bandwidth(&self, text: &Spanned<String>) -> Result<Rate, ConfigError> {
        match self.read(text, "write for example bandwidth = \"10Mbit\"")? {
            Rate::ZERO => Err(self.error(
                text.span(),
                "a link without bandwidth carries nothing",
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
                            format!("{text:?} is no share"),
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
                format!("a share of {}% lies outside of 0 to 100%", part * 100.0),
                HINT,
            )),
            Ok(rate) => match bandwidth.filter(|bandwidth| rate > *bandwidth) {
                None => Ok(Reservable::Rate(rate)),
                Some(bandwidth) => Err(self.error(
                    share.span(),
                    format!("{rate} cannot be reserved of a link of {bandwidth}"),
                    "at most the link's bandwidth; best effort gets what is left",
                )),
            },
        }
    }

    fn integrity(
        &self,
        table: IntegrityTable,
        interfaces: &[InterfaceConfig],
    ) -> Result<Option<IntegrityConfig>, ConfigError> {
        let defaults = integrity::Settings::default();
        let window = self.within(table.window, 1..1_025, u32::from(defaults.window))?;
        let secured = interfaces.iter().find(|interface| interface.integrity.is_some());
        let Some(keys) = table.keys else {
            return match secured {
                None => Ok(None),
                Some(secured) => Err(ConfigError::at(
                    secured.place.clone().unwrap_or_default(),
                    format!("{} is to be secured, but there are no keys", secured.name),
                    "[integrity] with keys = \"/etc/earmark/keys.toml\" names the file that has them",
                )),
            };
        };
        Ok(Some(IntegrityConfig {
            keys,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            handshake: table.handshake.unwrap_or(defaults.handshake),
        }))
    }

    fn limits(&self, table: &RsvpTable) -> Result<Limits, ConfigError> {
        let defaults = Limits::default();
        let some = |value: &Option<Spanned<u32>>| match value {
            None => Ok(None),
            Some(_) => self.within(value.clone(), 1..u32::MAX, 0).map(Some),
        };
        let max_sessions = table.max_sessions.clone();
        Ok(Limits {
            max_sessions: self.within(max_sessions, 1..u32::MAX, defaults.max_sessions)?,
            per_neighbor: some(&table.max_per_neighbor)?,
            changes_per_second: some(&table.changes_per_second)?,
        })
    }

    fn interface_limits(&self, table: &InterfaceTable) -> Result<limits::Interface, ConfigError> {
        let largest = table.largest_reservation.as_ref();
        let hint = "a rate such as \"2Mbit\"";
        Ok(limits::Interface {
            neighbors: self.ranges(&table.neighbors)?,
            largest: largest.map(|text| self.read(text, hint)).transpose()?,
            overhead: self.within(table.overhead.clone(), 0..MAX_OVERHEAD + 1, 0)?,
        })
    }

    fn code_points(&self, code_points: &[Spanned<u8>]) -> Result<Vec<Dscp>, ConfigError> {
        let code_point = |value: &Spanned<u8>| match *value.get_ref() {
            small @ 0..64 => Ok(Dscp(small)),
            large => Err(self.error(
                value.span(),
                format!("{large} has more than the six bits of a code point"),
                "0 to 63; expedited forwarding is 46",
            )),
        };
        code_points.iter().map(code_point).collect()
    }

    fn timing(&self, table: &RsvpTable) -> Result<Timing, ConfigError> {
        let defaults = Timing::default();
        let hint = "RFC 2205 has \"30s\"; from 10ms to 1 hour (60min) are possible";
        let range = Duration::from_millis(10)..=Duration::from_secs(3_600);
        let refresh = self.duration(table.refresh.as_ref(), range, defaults.refresh, hint)?;
        let factor = table.lifetime_factor.clone();
        Ok(Timing {
            refresh,
            lifetime_factor: self.within(factor, 1..101, defaults.lifetime_factor)?,
        })
    }
}

/// The error in a name that no interface can have, or that no interface with reservations can have, with a hint. The rules
/// are those of Linux (`dev_valid_name`).
fn fault_of_name(name: &str) -> Option<(String, &'static str)> {
    const HINT: &str = "`ip link` lists the interfaces of this host";
    let cannot = |why: &str| format!("{name:?} cannot be an interface's name: {why}");
    if name.is_empty() || name == "." || name == ".." {
        return Some((cannot("it names nothing"), HINT));
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
        let message = "lo is the loopback interface: what it carries leaves no host";
        (message.to_owned(), "name the interfaces that lead to other hosts")
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
