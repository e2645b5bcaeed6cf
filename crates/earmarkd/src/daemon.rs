//! The daemon: start, run and stop.
//!
//! At start, everything that can fail is tried in an order that changes the kernel last: privileges, the claim on the
//! network namespace, the control socket, interfaces, and only then traffic control. The daemon waits for interfaces that do
//! not exist yet. Reservations that an earlier daemon left are adopted, so that their flows keep their queues while soft
//! state forms anew; `kill -9` and a restart are therefore harmless. Then all capabilities but two are dropped for good.
//!
//! At the end the control socket is removed, and the reservations stay in the kernel for the next daemon, unless
//! `keep_reservations_on_exit = false` or `--cleanup` say otherwise.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io;

use earmark_core::InterfaceId;
use earmark_linux::clock::Clock;
use earmark_linux::{
    Access, Adopted, ClassifierChoice, FlowRoutes, InterfaceError, InterfaceState, LinkPlan,
    Mirror, OpenError, SignallingSocket, TcError, TrafficControl, Update, capabilities, interface,
};
use earmark_node::NodeConfig;
use earmark_rsvp::{diagnostics, integrity, limits};
use jiff::Timestamp;
use tracing::{info, warn};

use crate::config::{Config, ConfigError, InterfaceConfig, KeyFile};
use crate::control::{Hub, Listener, ListenerError};
use crate::driver::Driver;
use crate::event_loop::EventLoop;
use crate::protocol::Protocol;
use crate::protocols;
use crate::record::Recorder;
use crate::reload::Reload;
use crate::streams::{self, Streams};
use crate::system::{System, plan};
use crate::user::User;
use crate::watch::Watch;
use earmark_control::command::with_cause;

/// Why the daemon failed to start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The process lacks privileges.
    #[error(
        "the daemon needs privileges that this process lacks: {}\n  help: start it as root, \
         or from a service manager that grants them",
        .0.join(", ")
    )]
    Privileges(Vec<&'static str>),
    /// The configuration does not fit this host.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration names a user that this host does not have.
    #[error("this host has no user {0:?}\n  help: daemon.user is a name of /etc/passwd")]
    NoSuchUser(String),
    /// Another daemon runs in this network namespace.
    #[error(
        "another daemon is running in this network namespace\n  help: stop it first; `earmark show links` \
         asks it how it is"
    )]
    AlreadyRunning,
    /// The control socket cannot be created.
    #[error(transparent)]
    Control(#[from] ListenerError),
    /// An interface cannot signal as configured.
    #[error("cannot signal through {name}: {}", with_cause(.source))]
    Signalling {
        /// Name of the interface.
        name: String,
        /// The cause.
        #[source]
        source: InterfaceError,
    },
    /// Traffic control cannot be set up.
    #[error(
        "cannot set up traffic control: {}\n  help: `queues = \"none\"` in an [[interface]] leaves its queues alone",
        with_cause(.0)
    )]
    TrafficControl(TcError),
    /// Another system call failed.
    #[error("cannot {doing}: {cause}")]
    System {
        /// The operation that failed.
        doing: Cow<'static, str>,
        /// The system's error.
        cause: String,
    },
}

impl DaemonError {
    pub(crate) fn system(
        doing: impl Into<Cow<'static, str>>,
    ) -> impl FnOnce(io::Error) -> DaemonError {
        move |error| DaemonError::System { doing: doing.into(), cause: error.to_string() }
    }

    fn failed(doing: impl Into<Cow<'static, str>>, error: &dyn std::error::Error) -> DaemonError {
        DaemonError::System { doing: doing.into(), cause: with_cause(error) }
    }
}

/// Runs a daemon in the network namespace of the calling thread until SIGTERM or SIGINT. `ready` is called once the control
/// socket is served. The daemon drops capabilities of this thread for good, so that a program that embeds it should run it
/// in a process of its own.
///
/// # Errors
/// The daemon could not start, or lost a socket that it depends on.
pub fn run(config: &Config, ready: impl FnOnce()) -> Result<(), DaemonError> {
    let socket = claim(config)?;
    let user = config.user.as_deref().map(find_user).transpose()?;
    let listener = Listener::prepare(&config.control)?;
    let mut event_loop = start(config, socket, listener)?;
    // The user that we are about to become may have no access to the directory.
    event_loop.listener.publish()?;
    if let Some(user) = user {
        let handed_over = event_loop.listener.hand_over(user).and_then(|()| user.become_now());
        handed_over.map_err(DaemonError::system("become the user of daemon.user"))?;
    }
    capabilities::drop_to_network_capabilities()
        .map_err(DaemonError::system("give up surplus capabilities"))?;
    info!(socket = %config.control.socket.display(), "serving");
    ready();
    let ended = event_loop.run().map_err(DaemonError::system("go on serving"));
    stop(config, event_loop)?;
    ended
}

/// Claims the network namespace, if this process has the privileges that the settings need.
fn claim(config: &Config) -> Result<SignallingSocket, DaemonError> {
    let access = if config.udp_only { Access::UdpOnly } else { Access::Raw };
    let programs_queues =
        config.interfaces.iter().any(|interface| interface.queues.plan().is_some());
    let missing = capabilities::missing(access, programs_queues)
        .map_err(DaemonError::system("look at the process's capabilities"))?;
    if !missing.is_empty() {
        return Err(DaemonError::Privileges(missing));
    }
    let failed = |error| match error {
        OpenError::AlreadyRunning => DaemonError::AlreadyRunning,
        other => DaemonError::failed("open the signalling sockets", &other),
    };
    let mut socket = SignallingSocket::open_with(access).map_err(failed)?;
    for added in protocols::all().filter_map(Protocol::engine) {
        if let Some(ip_protocol) = added.ip_protocol {
            socket.add_protocol(ip_protocol).map_err(failed)?;
        }
    }
    Ok(socket)
}

fn find_user(name: &str) -> Result<User, DaemonError> {
    User::find(name)
        .map_err(DaemonError::system("read /etc/passwd"))?
        .ok_or_else(|| DaemonError::NoSuchUser(name.to_owned()))
}

fn start(
    config: &Config,
    socket: SignallingSocket,
    listener: Listener,
) -> Result<EventLoop, DaemonError> {
    let Runtime { clock, origin, driver, watch } = Runtime::start(config, socket)?;
    let reload = Reload::new(config, origin);
    EventLoop::new(clock, driver, watch, listener, Hub::new(&config.name), reload)
        .map_err(DaemonError::system("wait for events"))
}

/// A daemon without its clients: a node, the kernel below it, and the watch over the host.
pub(crate) struct Runtime {
    pub(crate) clock: Clock,
    /// Wall-clock time at which the clock started.
    origin: Timestamp,
    pub(crate) driver: Driver<System>,
    pub(crate) watch: Watch,
}

impl Runtime {
    /// Starts a node in the network namespace of the calling thread.
    pub(crate) fn open(config: &Config) -> Result<Runtime, DaemonError> {
        Runtime::start(config, claim(config)?)
    }

    fn start(config: &Config, socket: SignallingSocket) -> Result<Runtime, DaemonError> {
        let (clock, origin) = (Clock::start(), Timestamp::now());
        let (mut driver, Findings { mirror, initial, adopted }) = node(config, socket, origin)?;
        let watch = Watch::start(clock.now(), config, mirror, initial, adopted, &mut driver)
            .map_err(DaemonError::TrafficControl)?;
        Ok(Runtime { clock, origin, driver, watch })
    }
}

/// State of the kernel found at start.
struct Findings {
    mirror: Mirror,
    initial: Vec<Update>,
    adopted: Vec<Adopted>,
}

/// Creates the node on its kernel, without any state of the host yet.
fn node(
    config: &Config,
    socket: SignallingSocket,
    origin: Timestamp,
) -> Result<(Driver<System>, Findings), DaemonError> {
    let keys = config.load_keys()?;
    let netlink = |error: &dyn std::error::Error| {
        DaemonError::failed("read the kernel's interfaces and routes", error)
    };
    let mut mirror = Mirror::open().map_err(|error| netlink(&error))?;
    let initial = mirror.initial().map_err(|error| netlink(&error))?;
    let flow_routes = FlowRoutes::open(config.marks.clone()).map_err(|error| netlink(&error))?;
    let present = present(&initial);
    let Links { plans, hands_off } = links(config, &present);
    let streams = Streams::open(&streams_settings(config))
        .map_err(|error| DaemonError::failed("hear connections (nsis)", &error))?;
    let (traffic_control, adopted) = TrafficControl::open(&plans, ClassifierChoice::Auto)
        .map_err(DaemonError::TrafficControl)?;
    info!(classifier = ?traffic_control.classifier(), links = plans.len(), adopted = adopted.len(), "traffic control");
    let planned = plans.iter().map(|plan| plan.interface).collect();
    let mut system =
        System::new(socket, traffic_control, streams, planned, hands_off, adopted.len() as u64);
    let mut node_config = node_config(config, keys.as_ref(), origin);
    match prepare(config, &present, &mut system, &mut node_config) {
        Ok(recorder) => {
            info!(node = %node_config.name, seed = node_config.seed, "the node");
            system.show_flow_routes(flow_routes.counters(), config.marks.clone());
            let mut driver = Driver::new(node_config, system, recorder);
            driver.ask_for_flows(Box::new(flow_routes));
            Ok((driver, Findings { mirror, initial, adopted }))
        }
        Err(error) => {
            // Empty queues are of no use to a successor.
            if adopted.is_empty()
                && let Err(error) = system.teardown()
            {
                warn!("queues are left behind: {}", with_cause(&error));
            }
            Err(error)
        }
    }
}

/// Lets the existing interfaces signal, sets the part of each link for the kernel's own grants, and starts the recording.
fn prepare(
    config: &Config,
    present: &BTreeMap<&str, InterfaceId>,
    system: &mut System,
    node_config: &mut NodeConfig,
) -> Result<Option<Recorder>, DaemonError> {
    for interface in &config.interfaces {
        if let Some(id) = present.get(interface.name.as_str()).filter(|id| system.knows(**id)) {
            let failed = |source| DaemonError::Signalling { name: interface.name.clone(), source };
            system.signal_through(*id, interface).map_err(failed)?;
        }
    }
    for protocol in protocols::all() {
        let started = protocol.start_offload(config, node_config, system.socket.offload());
        let doing = format!("lend the kernel something ({}.kernel)", protocol.name());
        if let Some(offload) = started.map_err(DaemonError::system(doing))? {
            system.offload = Some(offload);
        }
    }
    let recorder = config.record.as_ref().map(|path| Recorder::create(path, node_config));
    recorder.transpose().map_err(DaemonError::system("write the recording (daemon.record)"))
}

/// Settings of connections; none if no interface speaks NSIS.
pub(crate) fn streams_settings(config: &Config) -> streams::Settings {
    let settings = &config.nsis.streams;
    match config.interfaces.iter().any(|interface| interface.protocols.nsis) {
        true => settings.clone(),
        false => streams::Settings { tcp: None, tls: None, ..settings.clone() },
    }
}

fn stop(config: &Config, event_loop: EventLoop) -> Result<(), DaemonError> {
    let EventLoop { driver, listener, .. } = event_loop;
    drop(listener);
    if config.keep_reservations_on_exit {
        info!("queues stay in the kernel for the next daemon; `earmarkd clear` takes them out");
        return Ok(());
    }
    info!("taking the reservations out of the kernel");
    driver.into_kernel().teardown().map_err(DaemonError::TrafficControl)
}

/// Queues to take over, and interfaces whose queues are left alone.
struct Links {
    plans: Vec<LinkPlan>,
    hands_off: BTreeSet<InterfaceId>,
}

/// Existing interfaces by name.
fn present(initial: &[Update]) -> BTreeMap<&str, InterfaceId> {
    let named = |update| match update {
        &Update::Interface(InterfaceState { id, ref name, .. }) => Some((name.as_str(), id)),
        _ => None,
    };
    initial.iter().filter_map(named).collect()
}

/// Plans for the existing interfaces with known bandwidth. The watch over the host waits for the others and logs that.
fn links(config: &Config, present: &BTreeMap<&str, InterfaceId>) -> Links {
    let mut links = Links { plans: Vec::new(), hands_off: BTreeSet::new() };
    for interface in &config.interfaces {
        let Some(&id) = present.get(interface.name.as_str()) else { continue };
        // The watch reads the speed again and logs an error.
        let speed = interface::speed(&interface.name).unwrap_or_default();
        let Some(capacity) = interface.capacity(speed) else { continue };
        match plan(id, interface, capacity) {
            Some(plan) => links.plans.push(plan),
            None => _ = links.hands_off.insert(id),
        }
    }
    links
}

pub(crate) fn node_config(
    config: &Config,
    keys: Option<&KeyFile>,
    origin: Timestamp,
) -> NodeConfig {
    NodeConfig {
        engines: protocols::engines(),
        others: config.others.clone(),
        name: config.name.clone(),
        // The keys of the standard library's hasher come from the system's source of randomness.
        seed: config.seed.unwrap_or_else(|| RandomState::new().hash_one(0)),
        rsvp: earmark_rsvp::Config {
            timing: config.timing,
            diagnostics: diagnostics::Settings {
                answer: config.diagnostics,
                ntp_origin: ntp(origin),
                ..diagnostics::Settings::default()
            },
            reduction: config.reduction.clone(),
            hello: config.hello.clone(),
            integrity: integrity_settings(config, keys, origin),
            policy: config.policy.clone(),
            proxies: config.proxies.clone(),
            max_sessions: config.limits.max_sessions,
            limits: limit_settings(config),
            dclass: {
                let marked =
                    config.interfaces.iter().filter(|interface| !interface.dscp.is_empty());
                marked.map(|interface| (interface.name.clone(), interface.dscp.clone())).collect()
            },
            ..earmark_rsvp::Config::default()
        },
        without_rsvp: {
            let silent = config.interfaces.iter().filter(|interface| !interface.protocols.rsvp);
            silent.map(|interface| interface.name.clone()).collect()
        },
        borders: {
            let facing = config.interfaces.iter();
            facing.filter_map(|i| Some((i.name.clone(), i.border.clone()?))).collect()
        },
        boomerang: config.boomerang.clone(),
        yessir: earmark_yessir::Config {
            auth: earmark_yessir::auth::Settings {
                started: u32::try_from(origin.as_second()).unwrap_or_default(),
                ..config.yessir.auth.clone()
            },
            ..config.yessir.clone()
        },
        nsis: nsis_config(config),
        retry: config.retry,
        link_admission: {
            let links = config.interfaces.iter();
            links.map(|interface| (interface.name.clone(), interface.admission)).collect()
        },
        ..NodeConfig::default()
    }
}

/// Settings of NSIS, in which GIST announces the ports that this node listens on.
fn nsis_config(config: &Config) -> earmark_nsis::Config {
    let streams = streams_settings(config);
    let mut nsis = config.nsis.engine.clone();
    nsis.gist.associations.tcp_port = streams.tcp;
    nsis.gist.associations.tls_port = streams.tls.map(|tls| tls.port);
    nsis
}

fn limit_settings(config: &Config) -> limits::Settings {
    let limited = |interface: &&InterfaceConfig| interface.limits != limits::Interface::default();
    let named = |interface: &InterfaceConfig| (interface.name.clone(), interface.limits.clone());
    limits::Settings {
        interfaces: config.interfaces.iter().filter(limited).map(named).collect(),
        per_neighbor: config.limits.per_neighbor,
        changes_per_second: config.limits.changes_per_second,
    }
}

fn integrity_settings(
    config: &Config,
    keys: Option<&KeyFile>,
    origin: Timestamp,
) -> integrity::Settings {
    let defaults = integrity::Settings::default();
    let secured =
        |interface: &InterfaceConfig| Some((interface.name.clone(), interface.integrity?));
    integrity::Settings {
        interfaces: config.interfaces.iter().filter_map(secured).collect(),
        keys: keys.map(|keys| keys.keys(origin)).unwrap_or_default(),
        window: config.integrity.as_ref().map_or(defaults.window, |integrity| integrity.window),
        handshake: config.integrity.as_ref().map_or(defaults.handshake, |i| i.handshake),
        sequence_start: ntp(origin),
        ..defaults
    }
}

/// Converts a time to a 64-bit NTP timestamp: units of 2^-32 seconds since 1900, modulo 2^64 (RFC 2747 section 3.2).
fn ntp(at: Timestamp) -> u64 {
    const UNIX_EPOCH: i64 = 2_208_988_800;
    let seconds = at.as_second().wrapping_add(UNIX_EPOCH).cast_unsigned();
    let nanoseconds = u64::from(at.subsec_nanosecond().max(0).cast_unsigned());
    (seconds << 32) | ((nanoseconds << 32) / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NTP's own example: 1 January 1972 is 2 272 060 800 seconds after 1900.
    #[test]
    fn sequence_numbers_start_at_the_time_as_ntp_counts_it() {
        assert_eq!(
            ntp("1972-01-01T00:00:00.5Z".parse().unwrap()),
            (2_272_060_800 << 32) + (1 << 31)
        );
        let before: Timestamp = "2036-02-07T06:28:15.999Z".parse().unwrap();
        let after: Timestamp = "2036-02-07T06:28:16Z".parse().unwrap();
        assert!(ntp(after).wrapping_sub(ntp(before)) < 1 << 32, "it goes round, and on");
    }
}
