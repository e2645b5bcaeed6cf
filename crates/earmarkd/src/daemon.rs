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
use std::io;
use std::net::TcpListener;

use earmark_core::{FilterEvent, FilterRule, InterfaceId, Time};
use earmark_history::{Journal, JournalError};
use earmark_linux::clock::Clock;
use earmark_linux::{
    Access, Adopted, ClassifierChoice, FlowRoutes, InterfaceError, InterfaceState, LinkPlan,
    Mirror, OpenError, PacketFilterError, SignallingSocket, TcError, TrafficControl, Update,
    capabilities, interface,
};
use earmark_node::{HostUpdate, Input, NodeConfig};
use jiff::Timestamp;
use rustix::fs::{Gid, Mode};
use tracing::{debug, info, warn};

use crate::config::{Config, ConfigError, MetricsSettings, WebAddress, WebSettings};
use crate::control::{Hub, Listener, ListenerError, Roles, group_number};
use crate::driver::Driver;
use crate::event_loop::EventLoop;
use crate::history::{Accounts, HistorySettings, WriterThread};
use crate::key_file::KeyFile;
use crate::log::{Log, kind};
use crate::metrics::Endpoint;
use crate::node_settings::node_config;
use crate::protocol::Protocol;
use crate::protocols;
use crate::record::{self, Recorder};
use crate::reload::Reload;
use crate::running_config::RunningConfig;
use crate::streams::Streams;
use crate::system::{System, plan};
use crate::user::User;
use crate::wall_clock::WallClock;
use crate::watch::Watch;
use crate::web::{WebEndpoint, WebListener};
use earmark_control::command::with_cause;

/// Why the daemon failed to start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The process lacks privileges.
    #[error(
        "insufficient privileges: {}\n  help: start the daemon as root, or from a service \
         manager that grants them",
        .0.join(", ")
    )]
    Privileges(Vec<&'static str>),
    /// The configuration does not fit this host.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration names a user that this host does not have.
    #[error("unknown user {0:?}\n  help: daemon.user is a name from /etc/passwd")]
    NoSuchUser(String),
    /// Another daemon runs in this network namespace.
    #[error(
        "another daemon is running in this network namespace\n  help: stop it first; `earmark \
         show links` shows its state"
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
    /// A newer version of the daemon has left reservations or rules that this one cannot read.
    #[error(
        "cannot adopt: {0}\n  help: install the newer version again; or give up what it has \
         reserved: `earmarkd clear`"
    )]
    NewerState(String),
    /// Traffic control cannot be set up.
    #[error(
        "cannot set up traffic control: {}\n  help: `queues = \"none\"` in an [[interface]] \
         keeps its queues",
        with_cause(.0)
    )]
    TrafficControl(TcError),
    /// The packet filter cannot be set up.
    #[error(
        "cannot set up the packet filter: {}\n  help: `enabled = false` in [natfw] does without",
        with_cause(.0)
    )]
    PacketFilter(PacketFilterError),
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

    fn traffic_control(error: TcError) -> DaemonError {
        match error {
            TcError::NewerLayout { .. } => DaemonError::NewerState(error.to_string()),
            error => DaemonError::TrafficControl(error),
        }
    }

    fn packet_filter(error: PacketFilterError) -> DaemonError {
        match error {
            PacketFilterError::NewerLayout { .. } => DaemonError::NewerState(error.to_string()),
            error => DaemonError::PacketFilter(error),
        }
    }

    fn failed(doing: impl Into<Cow<'static, str>>, error: &dyn std::error::Error) -> DaemonError {
        DaemonError::System { doing: doing.into(), cause: with_cause(error) }
    }
}

/// Runs a daemon in the network namespace of the calling thread until SIGTERM or SIGINT, and reports its state to the service
/// manager that has started the process, if any. Clients change the levels of `log`. The daemon drops capabilities of this
/// thread for good, so that a program that embeds it should run it in a process of its own.
///
/// # Errors
/// The daemon could not start, or lost a socket that it depends on.
pub fn run(config: &Config, log: &Log) -> Result<(), DaemonError> {
    // No file of the daemon is for others, unless a mode says so.
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let socket = claim(config)?;
    let user = config.user.as_deref().map(find_user).transpose()?;
    let listener = Listener::prepare(&config.control)?;
    let metrics = config.metrics.as_ref().map(bind_metrics).transpose()?;
    let mut web = config.web.as_ref().map(|settings| bind_web(config, settings)).transpose()?;
    let accounts = config.history.as_ref().map(|history| begin_accounts(config, history, user));
    let mut event_loop = start(config, log, socket, listener, accounts.transpose()?)?;
    // The user that we are about to become may have no access to the directory.
    event_loop.listener.publish()?;
    if let Some(web) = &mut web {
        web.publish()?;
    }
    if let Some(user) = user {
        let handed_over = event_loop.listener.hand_over(user);
        let handed_over =
            handed_over.and_then(|()| web.iter().try_for_each(|web| web.hand_over(user)));
        let handed_over = handed_over.and_then(|()| user.become_now());
        handed_over.map_err(DaemonError::system("become the user of daemon.user"))?;
    }
    capabilities::drop_to_network_capabilities()
        .map_err(DaemonError::system("drop capabilities"))?;
    if let Some((settings, listener)) = metrics {
        let endpoint = Endpoint::start(settings, listener, config.syscall_filter);
        let failed = DaemonError::system(serve_metrics(settings));
        event_loop
            .add_metrics(endpoint.map_err(failed)?)
            .map_err(DaemonError::system("wait for events"))?;
    }
    if let Some(web) = &web {
        let endpoint =
            web.socket().and_then(|socket| WebEndpoint::start(socket, config.syscall_filter));
        let added = endpoint.and_then(|endpoint| event_loop.add_web(endpoint));
        added.map_err(DaemonError::system("serve the web page (web.listen)"))?;
    }
    if let Some(settings) = &config.history {
        let failed = "write accounting records ([history])";
        event_loop
            .add_history(start_history(config, settings).map_err(DaemonError::system(failed))?);
    }
    config.syscall_filter.apply().map_err(DaemonError::system(
        "filter system calls (daemon.syscall_filter = \"off\" does without)",
    ))?;
    info!(
        kind = kind::STARTED.name,
        version = env!("CARGO_PKG_VERSION"),
        node = %config.name,
        socket = %config.control.socket.display(),
        interfaces = config.interfaces.len(),
        "started"
    );
    event_loop.service_manager.ready(event_loop.driver.link_rows());
    let ended = event_loop.run().map_err(DaemonError::system("continue serving"));
    stop(config, event_loop)?;
    ended
}

/// Listens for scrapers while the process may still use every port.
fn bind_metrics(
    settings: &MetricsSettings,
) -> Result<(&MetricsSettings, TcpListener), DaemonError> {
    let bound = TcpListener::bind(settings.address);
    let listener = bound.map_err(DaemonError::system(serve_metrics(settings)))?;
    Ok((settings, listener))
}

/// Listens for browsers while the process may still use every port, and reads the token.
fn bind_web(config: &Config, settings: &WebSettings) -> Result<WebListener, DaemonError> {
    let doing = match &settings.address {
        WebAddress::Tcp(address, _) => format!("serve the web page at {address} (web.listen)"),
        WebAddress::Unix(path) => {
            format!("serve the web page at {} (web.listen)", path.display())
        }
    };
    WebListener::prepare(config, settings)
        .map_err(|error| DaemonError::System { doing: doing.into(), cause: error.to_string() })
}

fn serve_metrics(settings: &MetricsSettings) -> String {
    format!("serve metrics at {} (metrics.address)", settings.address)
}

/// Opens the journal while the process may still create its directory, and hands it to the user that the daemon becomes.
fn begin_accounts(
    config: &Config,
    settings: &HistorySettings,
    user: Option<User>,
) -> Result<Accounts, DaemonError> {
    let failed = |error: JournalError| DaemonError::System {
        doing: "open the journal of accounting records (history.journal)".into(),
        cause: error.to_string(),
    };
    let journal = Journal::open(&settings.journal, settings.journal_size).map_err(failed)?;
    if let Some(user) = user {
        let own = journal.paths().map_err(failed)?.iter().try_for_each(|path| user.own(path));
        own.map_err(DaemonError::system("hand over the journal of accounting records"))?;
    }
    Ok(Accounts::begin(journal, &config.name, settings.interval))
}

/// Starts the writer of the database, which the operators of the control socket may read.
fn start_history(config: &Config, settings: &HistorySettings) -> io::Result<WriterThread> {
    let group = config.control.group.as_deref().map(group_number).transpose();
    let group = group.map_err(io::Error::other)?;
    WriterThread::start(settings, group.map(Gid::as_raw), config.syscall_filter)
}

/// Claims the network namespace, if this process has the privileges that the settings need.
fn claim(config: &Config) -> Result<SignallingSocket, DaemonError> {
    let is_udp_only = protocols::all().any(|protocol| protocol.is_udp_only(config));
    let access = if is_udp_only { Access::UdpOnly } else { Access::Raw };
    let programs_queues =
        config.interfaces.iter().any(|interface| interface.queues.plan().is_some());
    let has_filter = protocols::packet_filter(config).is_some();
    let missing = capabilities::missing(access, programs_queues || has_filter)
        .map_err(DaemonError::system("read the capabilities of the process"))?;
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
    let mut borders = config.interfaces.iter().filter_map(|interface| interface.border.as_ref());
    if borders.any(|border| border.hide) {
        socket.add_protocol(earmark_node::E2E_IGNORE).map_err(failed)?;
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
    log: &Log,
    socket: SignallingSocket,
    listener: Listener,
    accounts: Option<Accounts>,
) -> Result<EventLoop, DaemonError> {
    let Runtime { clock, origin, driver, watch } = Runtime::start(config, socket, accounts)?;
    let reload = Reload::new(config, origin);
    let roles = Roles::of(&config.control)?;
    let hub = Hub::new(&config.name).with(roles, config.control.idle_timeout).with_log(log.clone());
    let hub = hub.with_config(RunningConfig::new(config)?);
    let clocks = (clock, WallClock::new(origin));
    EventLoop::new(clocks, driver, watch, listener, hub, reload)
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
        Runtime::start(config, claim(config)?, None)
    }

    fn start(
        config: &Config,
        socket: SignallingSocket,
        accounts: Option<Accounts>,
    ) -> Result<Runtime, DaemonError> {
        let (clock, origin) = (Clock::start(), Timestamp::now());
        let (mut driver, Findings { mirror, initial, adopted, rules }) =
            node(config, socket, clock, origin)?;
        if let Some(accounts) = accounts {
            driver.keep_accounts(accounts);
        }
        let watch = Watch::start(clock.now(), config, mirror, initial, adopted, &mut driver)
            .map_err(DaemonError::TrafficControl)?;
        if let Some(accounts) = driver.accounts_mut() {
            accounts.adopted_all();
        }
        for (rule, until) in rules {
            let adopted = HostUpdate::Filter(FilterEvent::Adopted(rule, until));
            driver.handle(clock.now(), Input::Host(adopted));
        }
        Ok(Runtime { clock, origin, driver, watch })
    }
}

/// State of the kernel found at start.
struct Findings {
    mirror: Mirror,
    initial: Vec<Update>,
    adopted: Vec<Adopted>,
    /// Rules of the packet filter, with their ends.
    rules: Vec<(FilterRule, Time)>,
}

/// Creates the node on its kernel, without any state of the host yet.
fn node(
    config: &Config,
    socket: SignallingSocket,
    clock: Clock,
    origin: Timestamp,
) -> Result<(Driver<System>, Findings), DaemonError> {
    let mut node_config = node_config(config, origin);
    if let Some(file) = KeyFile::of(config)? {
        file.configure(origin, &mut node_config);
    }
    let netlink = |error: &dyn std::error::Error| {
        DaemonError::failed("read the kernel's interfaces and routes", error)
    };
    let mut mirror = Mirror::open().map_err(|error| netlink(&error))?;
    let initial = mirror.initial().map_err(|error| netlink(&error))?;
    let flow_routes = FlowRoutes::open(config.marks.clone()).map_err(|error| netlink(&error))?;
    let present = present(&initial);
    let Links { plans, hands_off } = links(config, &present);
    let (protocol, settings) = protocols::streams(config);
    let streams = Streams::open(&settings)
        .map_err(|error| DaemonError::failed(format!("accept connections ({protocol})"), &error))?;
    let (traffic_control, adopted) = TrafficControl::open(&plans, ClassifierChoice::Auto)
        .map_err(DaemonError::traffic_control)?;
    debug!(classifier = ?traffic_control.classifier(), links = plans.len(), adopted = adopted.len(), "traffic control");
    let planned = plans.iter().map(|plan| plan.interface).collect();
    let mut system =
        System::new(socket, traffic_control, streams, planned, hands_off, adopted.len() as u64);
    let prepared = prepare(config, &present, &mut system, &mut node_config);
    // Last, because a failure of anything else must not leave guarded interfaces behind.
    let prepared = prepared.and_then(|recorder| {
        let settings = protocols::packet_filter(config);
        let rules =
            system.packet_filter.open(settings, clock).map_err(DaemonError::packet_filter)?;
        Ok((recorder, rules))
    });
    match prepared {
        Ok((recorder, rules)) => {
            system.show_flow_routes(flow_routes.counters(), config.marks.clone());
            let mut driver = Driver::new(node_config, system, recorder);
            driver.ask_for_flows(Box::new(flow_routes));
            Ok((driver, Findings { mirror, initial, adopted, rules }))
        }
        Err(error) => {
            // Empty queues are of no use to a successor.
            if adopted.is_empty()
                && let Err(error) = system.teardown()
            {
                warn!("queues could not be removed: {}", with_cause(&error));
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
        let doing = format!("delegate bandwidth to the kernel ({}.kernel)", protocol.name());
        if let Some(offload) = started.map_err(DaemonError::system(doing))? {
            system.offload = Some(offload);
        }
    }
    let recorder = config.record.as_ref().map(|path| {
        if config.record_secrets {
            record::write_secrets(path, node_config)?;
        }
        Recorder::create(path, node_config)
    });
    recorder.transpose().map_err(DaemonError::system("write the recording (daemon.record)"))
}

fn stop(config: &Config, event_loop: EventLoop) -> Result<(), DaemonError> {
    let EventLoop { mut driver, listener, history, .. } = event_loop;
    drop(listener);
    let stays = config.keep_reservations_on_exit;
    driver.close_accounts(stays);
    if let Some(history) = history {
        history.stop();
    }
    let reservations = if stays { "stay in the kernel" } else { "are removed from the kernel" };
    info!(kind = kind::STOPPING.name, "stopping; reservations {reservations}");
    if stays {
        return Ok(());
    }
    let mut system = driver.into_kernel();
    let filter = system.packet_filter.remove();
    system.teardown().map_err(DaemonError::TrafficControl)?;
    filter.map_err(DaemonError::PacketFilter)
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
