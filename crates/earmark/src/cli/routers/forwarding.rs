//! One `ssh` that forwards a local socket to the control socket of another machine.
//!
//! A shell waits beside `ssh` for the end of its standard input, whose other end only this process has. So `ssh` ends and the
//! local socket is removed however this process ends, also by SIGINT or SIGKILL.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use earmark_control::command::Failure;
use earmark_control::{Client, ClientError};
use earmark_core::amounts::show_duration;

use super::names::RouterName;

/// Starts `ssh`, and ends it and everything that it has started when standard input ends. `ssh` alone keeps standard error, so
/// that its end is visible there.
const SHELL_SCRIPT: &str = r#"
socket=$1 directory=$2
shift 2
"$@" </dev/null &
ssh=$!
trap '' TERM
exec >/dev/null 2>&1
read -r _
kill -s TERM 0
(sleep 2; kill -s KILL 0) &
wait "$ssh"
rm -f -- "$socket"
rmdir -- "$directory"
kill -s KILL 0
"#;
/// Options of `ssh`: no questions, no shell, one forwarding, nothing shared with other connections, and an end if the network
/// fails.
const SSH_OPTIONS: [&str; 12] = [
    "BatchMode=yes",
    "ExitOnForwardFailure=yes",
    "StreamLocalBindMask=0177",
    "ControlMaster=no",
    "ControlPath=none",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "Tunnel=no",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
];
/// Interval between attempts to connect to the local socket.
const ATTEMPTS: Duration = Duration::from_millis(20);
/// Time for a message of `ssh` about a channel that it has closed.
const MESSAGE_WAIT: Duration = Duration::from_millis(300);
/// Octets of messages of `ssh` that are kept, the last ones.
const MAX_MESSAGE: usize = 4_096;

/// Directory of local sockets, which only this user may enter; removed when dropped.
pub(super) struct SocketDirectory(PathBuf);

impl SocketDirectory {
    /// Creates a directory.
    ///
    /// # Errors
    /// The directory cannot be created, or its path cannot be given to `ssh`.
    pub(super) fn create() -> Result<SocketDirectory, Failure> {
        let parent = std::env::temp_dir();
        let failure = |path: &Path, error: &dyn std::fmt::Display| {
            let message = format!("cannot create the directory {}: {error}", path.display());
            Failure::new("input_output", message, "TMPDIR names a directory for temporary files")
        };
        let mut number = 0_u32;
        loop {
            let path = parent.join(format!("earmark-{}-{number}", std::process::id()));
            if !is_forwardable(&path) {
                return Err(failure(&path, &"`ssh` cannot forward a socket there"));
            }
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(SocketDirectory(path)),
                // Left by an earlier process with this number, or made by another user.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 1_000 => {
                    number += 1;
                }
                Err(error) => return Err(failure(&path, &error)),
            }
        }
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns whether `ssh -L` takes a path as it is: without separators of its arguments, escapes and tokens.
pub(super) fn is_forwardable(path: &Path) -> bool {
    let is_plain = |c: char| !c.is_control() && !":\\%$\"'".contains(c);
    path.is_absolute() && path.to_str().is_some_and(|text| text.chars().all(is_plain))
}

/// What `ssh` has written to standard error, and whether it has ended.
#[derive(Default)]
struct Messages {
    text: String,
    has_ended: bool,
}

/// A local socket that is forwarded; dropping the value ends `ssh`.
pub(super) struct Forwarding {
    router: RouterName,
    socket: PathBuf,
    shell: Child,
    messages: Arc<Mutex<Messages>>,
}

/// What to forward.
pub(super) struct Target<'a> {
    pub(super) router: &'a RouterName,
    /// Control socket on the router.
    pub(super) remote: &'a Path,
    /// Program that is run as `ssh`.
    pub(super) program: &'a OsString,
    pub(super) timeout: Duration,
}

impl Forwarding {
    /// Starts `ssh`, and waits until the daemon of the router has answered.
    ///
    /// # Errors
    /// `ssh` or the daemon fails, or does not answer in time.
    pub(super) fn start(
        target: &Target<'_>,
        directory: &SocketDirectory,
        number: usize,
    ) -> Result<Forwarding, Failure> {
        let deadline = Instant::now() + target.timeout;
        let waited = show_duration(target.timeout);
        let forwarding = Forwarding::spawn(target, directory, number)?;
        let mut daemon = loop {
            let has_ended = forwarding.messages().has_ended;
            match Client::connect(&forwarding.socket) {
                Ok(daemon) => break daemon,
                Err(ClientError::Connect { source, .. }) if is_not_yet(&source) => {}
                Err(error) => return Err(error.into()),
            }
            if has_ended {
                return Err(forwarding.ssh_failure("no connection"));
            }
            if Instant::now() >= deadline {
                return Err(forwarding.ssh_failure(&format!("no connection within {waited}")));
            }
            thread::sleep(ATTEMPTS);
        };
        match daemon.version(deadline.saturating_duration_since(Instant::now())) {
            Ok(Some(_)) => Ok(forwarding),
            Ok(None) => {
                let message = format!("the daemon does not answer within {waited}");
                let hint = "`systemctl status earmark` there says what it does; --connect-timeout waits longer";
                Err(Failure::new("timeout", message, hint))
            }
            Err(error) => Err(forwarding.explain(error.into())),
        }
    }

    fn spawn(
        target: &Target<'_>,
        directory: &SocketDirectory,
        number: usize,
    ) -> Result<Forwarding, Failure> {
        let socket = directory.0.join(number.to_string());
        let mut forward = OsString::from(&socket);
        forward.push(":");
        forward.push(target.remote);
        let seconds = target.timeout.as_secs().max(1);
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SHELL_SCRIPT).arg("sh").arg(&socket).arg(&directory.0);
        command.arg(target.program).args(["-N", "-T", "-a", "-x"]);
        command.args(SSH_OPTIONS.iter().flat_map(|option| ["-o", option]));
        command.arg("-o").arg(format!("ConnectTimeout={seconds}"));
        command.arg("-L").arg(forward).arg("--").arg(target.router.as_str());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // The shell ends what is in this group, and Ctrl-C at the terminal does not end the shell before.
        command.process_group(0);
        let failure = |error: io::Error| {
            Failure::new("input_output", format!("cannot start /bin/sh: {error}"), "")
        };
        let mut shell = command.spawn().map_err(failure)?;
        let messages = Arc::new(Mutex::new(Messages::default()));
        if let Some(from) = shell.stderr.take() {
            let messages = messages.clone();
            thread::spawn(move || read_messages(from, &messages));
        }
        Ok(Forwarding { router: target.router.clone(), socket, shell, messages })
    }

    /// Returns the local socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    fn messages(&self) -> std::sync::MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the failure of a lost connection by what `ssh` says about it.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        if !matches!(failure.code, "connection_lost" | "cannot_connect") {
            return failure;
        }
        let deadline = Instant::now() + MESSAGE_WAIT;
        let is_known = || {
            let messages = self.messages();
            messages.has_ended || !messages.text.is_empty()
        };
        while !is_known() && Instant::now() < deadline {
            thread::sleep(ATTEMPTS);
        }
        let (has_ended, is_silent) = {
            let messages = self.messages();
            (messages.has_ended, messages.text.is_empty())
        };
        match (has_ended, is_silent) {
            (true, _) => self.ssh_failure("`ssh` has ended"),
            (false, false) => self.ssh_failure("the daemon cannot be reached"),
            (false, true) => failure,
        }
    }

    /// Returns a failure, with what `ssh` has said if it has said something.
    fn ssh_failure(&self, failed: &str) -> Failure {
        let text = self.messages().text.trim().to_owned();
        let router = &self.router;
        let hint = if text.contains("open failed") {
            format!(
                "is the daemon running on {router}, does it serve the socket that --control names, may the user of the login \
                 open it (control.group, control.readers), and does sshd allow it (AllowStreamLocalForwarding)?"
            )
        } else {
            format!("`ssh {router}` must log in without a question: a key, and a known host key")
        };
        let message = match text.as_str() {
            "" => failed.to_owned(),
            text => format!("{failed}; ssh says: {}", one_line(text)),
        };
        Failure::new("ssh", message, hint)
    }

    /// Asks the shell to end `ssh`; dropping waits for it.
    pub(super) fn begin_end(&mut self) {
        self.shell.stdin = None;
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.begin_end();
        let _ = self.shell.wait();
    }
}

/// Returns whether a socket may serve connections later.
fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

/// Returns lines as one, with separators between them and without control characters.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").replace(char::is_control, " ")
}

/// Reads what `ssh` writes until it ends, and keeps the last of it.
fn read_messages(mut from: ChildStderr, messages: &Mutex<Messages>) {
    let mut octets = [0; 1_024];
    let lock = || messages.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match from.read(&mut octets) {
            Ok(count @ 1..) => {
                let mut messages = lock();
                messages.text.push_str(&String::from_utf8_lossy(&octets[..count]));
                while messages.text.len() > MAX_MESSAGE {
                    let half = messages.text.ceil_char_boundary(messages.text.len() / 2);
                    messages.text.drain(..half);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    lock().has_ended = true;
}
