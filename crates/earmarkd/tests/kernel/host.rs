//! Test hosts: a namespace each, with a daemon as a process.
#![allow(unreachable_pub)]

use std::fs::{File, Permissions};
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use earmark_control::Client;
use earmark_linux::netns::Namespace;
use earmark_linux::{Mirror, Update, link};
use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Name under which this test program is the command line, whose `main` is one call of [`earmark::cli::main`].
const COMMAND: &str = "earmark";

/// Whether this test program was started as the command line.
pub fn is_command() -> bool {
    std::env::args().next().is_some_and(|name| name == COMMAND)
}

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_earmarkd");
/// Upper bound of every wait, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub type Outcome = Result<(), Failed>;

/// Returns a name that no other test uses, in this process or another.
fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("em{}-{}-{name}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A host: a namespace, a directory for its files, and its daemon.
pub struct Host {
    pub namespace: Namespace,
    pub directory: PathBuf,
    pub daemon: Option<Child>,
}

impl Host {
    pub fn new(name: &str) -> Result<Host, Failed> {
        let name = unique(name);
        let directory = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&directory)?;
        Ok(Host { namespace: Namespace::unnamed()?, directory, daemon: None })
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.join("s")
    }

    /// Writes the configuration: the control socket, a short refresh period, and `more`.
    pub fn configure(&self, more: &str) -> Result<PathBuf, Failed> {
        let path = self.directory.join("c.toml");
        let socket = self.socket();
        let text = format!(
            "[control]\nsocket = \"{}\"\n[rsvp]\nrefresh = \"500ms\"\n{more}",
            socket.display()
        );
        std::fs::write(&path, &text)?;
        if text.contains("secret") {
            std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        }
        Ok(path)
    }

    pub fn command(&self, config: &std::path::Path) -> Result<Command, Failed> {
        let mut command = self.namespace.command(PROGRAM)?;
        command.arg("--config").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Starts the daemon and waits until it serves.
    pub fn start(&mut self, more: &str) -> Outcome {
        let config = self.configure(more)?;
        self.start_with(&config)
    }

    /// Starts the daemon with a configuration that exists, and waits until it serves.
    pub fn start_with(&mut self, config: &std::path::Path) -> Outcome {
        let mut command = self.command(config)?;
        // A file takes any number of lines, while a full pipe would stop the daemon.
        let path = self.directory.join("log");
        let mut daemon = command.stderr(File::create(&path)?).spawn()?;
        daemon.stderr = Some(ChildStderr::from(OwnedFd::from(File::open(&path)?)));
        self.await_daemon(daemon)
    }

    /// Starts the daemon as an ordinary user without privileges, and waits until it serves.
    pub fn start_as_nobody(&mut self, more: &str) -> Outcome {
        let config = self.configure(more)?;
        // The build directory may be inaccessible to that user, and the control socket belongs to it.
        let program = self.directory.join("earmarkd");
        std::fs::copy(PROGRAM, &program)?;
        std::fs::set_permissions(&self.directory, Permissions::from_mode(0o777))?;
        let mut command = Command::new(program);
        command.arg("--config").arg(config).uid(65_534).gid(65_534);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // The thread's namespace is inherited by the child; entering it takes privileges that the child no longer has.
        let daemon = self.namespace.run_in(|| command.spawn())??;
        self.await_daemon(daemon)
    }

    pub fn await_daemon(&mut self, mut daemon: Child) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_served() {
            if let Some(status) = daemon.try_wait()? {
                return Err(format!("the daemon ended ({status}): {}", log(&mut daemon)).into());
            }
            if Instant::now() > deadline {
                daemon.kill()?;
                return Err(format!("the daemon does not serve: {}", log(&mut daemon)).into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Whether a request is answered. A connection alone says too little: the kernel accepts it before the daemon has dropped
    /// its privileges.
    fn is_served(&self) -> bool {
        let Ok(stream) = UnixStream::connect(self.socket()) else { return false };
        stream.set_read_timeout(Some(PATIENCE)).is_ok() && Client::over(stream).show_links().is_ok()
    }

    /// Starts a daemon that is expected to fail. Returns its status and its log.
    pub fn fail_to_start(&self, config: &std::path::Path) -> Result<(Option<i32>, String), Failed> {
        let mut daemon = self.command(config)?.spawn()?;
        let status = wait(&mut daemon)?;
        Ok((status, log(&mut daemon)))
    }

    /// Sends the daemon a signal and waits for its end. Returns its status.
    pub fn end(&mut self, signal: Signal) -> Result<Option<i32>, Failed> {
        let mut daemon = self.daemon.take().ok_or("no daemon")?;
        kill_process(Pid::from_child(&daemon), signal)?;
        wait(&mut daemon)
    }

    pub fn client(&self) -> Result<Client, Failed> {
        Ok(Client::connect(self.socket())?)
    }

    /// Runs the command line against this host's daemon.
    pub fn earmark(&self, arguments: &[&str]) -> Result<Output, Failed> {
        Ok(self.command_line(arguments)?.output()?)
    }

    /// Returns the command line for this host's daemon.
    pub fn command_line(&self, arguments: &[&str]) -> Result<Command, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(COMMAND).arg("--control").arg(self.socket()).args(arguments);
        Ok(command)
    }

    /// Runs `earmark` with JSON. Returns its status and the last printed object.
    pub fn json(&self, arguments: &[&str]) -> Result<(Option<i32>, Value), Failed> {
        let output = self.earmark(&[arguments, &["--json"]].concat())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let value = serde_json::from_str(said.lines().last().unwrap_or_default());
        let value = value.map_err(|error| {
            format!("{arguments:?}: {error}: {said}{}", String::from_utf8_lossy(&output.stderr))
        })?;
        Ok((output.status.code(), value))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // The daemon may have ended by itself.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub fn wait(daemon: &mut Child) -> Result<Option<i32>, Failed> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = daemon.try_wait()? {
            return Ok(status.code());
        }
        if Instant::now() > deadline {
            daemon.kill()?;
            return Err("the daemon does not end".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The log of a daemon that has ended.
pub fn log(daemon: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = daemon.stderr.take() {
        // Octets that are not text lead to an empty log, which fails the test that reads it.
        let _ = stderr.read_to_string(&mut text);
    }
    text
}

/// Calls `look` until it returns a value.
pub fn until<T>(
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>, Failed>,
) -> Result<T, Failed> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("still not: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn check(condition: bool, what: &str) -> Outcome {
    if condition { Ok(()) } else { Err(what.into()) }
}

pub const ETH0: &str = "[[interface]]\nname = \"eth0\"\nbandwidth = \"10Mbit\"\nclasses = 16\n";

/// Two hosts with a link between them: 10.0.1.1 and 10.0.1.2 on eth0.
pub fn pair() -> Result<(Host, Host), Failed> {
    let (a, b) = (Host::new("a")?, Host::new("b")?);
    join(&a, &b)?;
    Ok((a, b))
}

/// Two hosts with a router between them: 10.0.1.1 and 10.0.2.2 on their eth0, the router on eth0 and eth1. IPv6 is disabled,
/// because it would change addresses and routes for some seconds.
pub fn line() -> Result<[Host; 3], Failed> {
    let (a, r, b) = (Host::new("a")?, Host::new("r")?, Host::new("b")?);
    for host in [&a, &r, &b] {
        link::sysctl(&host.namespace, "net.ipv6.conf.default.disable_ipv6", "1")?;
    }
    for (end, name, host, router) in [(&a, "eth0", 1, 254), (&b, "eth1", 2, 254)] {
        link::create_veth(&end.namespace, "eth0", &r.namespace, name)?;
        for (namespace, name, last) in
            [(&end.namespace, "eth0", host), (&r.namespace, name, router)]
        {
            link::add_address(namespace, name, format!("10.0.{host}.{last}").parse()?, 24)?;
            link::set_up(namespace, name, true)?;
        }
        let gateway = format!("10.0.{host}.{router}").parse()?;
        link::add_route(&end.namespace, "0.0.0.0/0".parse()?, gateway)?;
    }
    link::sysctl(&r.namespace, "net.ipv4.ip_forward", "1")?;
    for (host, name) in [(&a, "eth0"), (&r, "eth0"), (&r, "eth1"), (&b, "eth0")] {
        await_carrier(host, name)?;
    }
    Ok([a, r, b])
}
/// Connects each host with the next one: `right` of one to `left` of the other, in 10.0.1.0/24, 10.0.2.0/24 and so on.
pub fn connect_in_row(hosts: &[Host]) -> Outcome {
    for (pair, net) in hosts.windows(2).zip(1_u8..) {
        let [left, right] = pair else { return Err("no pair".into()) };
        link::create_veth(&left.namespace, "right", &right.namespace, "left")?;
        for (host, name, last) in [(left, "right", 1), (right, "left", 2)] {
            let address = Ipv4Addr::new(10, 0, net, last).into();
            link::add_address(&host.namespace, name, address, 24)?;
            link::set_up(&host.namespace, name, true)?;
        }
    }
    Ok(())
}

pub fn join(a: &Host, b: &Host) -> Outcome {
    link::create_veth(&a.namespace, "eth0", &b.namespace, "eth0")?;
    for (host, address) in [(a, "10.0.1.1"), (b, "10.0.1.2")] {
        link::add_address(&host.namespace, "eth0", address.parse()?, 24)?;
        link::set_up(&host.namespace, "eth0", true)?;
    }
    await_carrier(a, "eth0")?;
    await_carrier(b, "eth0")
}

/// Waits for the carrier: the kernel needs a moment to notice that both ends are up, and a daemon would not reserve before.
pub fn await_carrier(host: &Host, name: &str) -> Outcome {
    until("the link has a carrier", || {
        // A query for one interface makes the kernel update its carrier at once (Linux 6.8 and later) instead of within a second.
        link::index(&host.namespace, name)?;
        let updates = host.namespace.run_in(|| Mirror::open()?.initial())??;
        let is_up = |update: &Update| matches!(update, Update::Interface(state) if state.name == name && state.up);
        Ok(updates.iter().any(is_up).then_some(()))
    })
}
