//! A NATS server, a daemon's control socket and the exporter, each of one test.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, stream};
use earmark_testkit::command_line::TemporaryDirectory;
use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_earmark-export");
/// Upper bound of every wait, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Stream of the tests.
pub(crate) const STREAM: &str = "EARMARK";

pub(crate) type Outcome = Result<(), Failed>;

pub(crate) fn check(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.to_owned().into()) }
}

/// Tries until there is a result.
pub(crate) fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> Result<T, Failed> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("not within {PATIENCE:?}: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a port of 127.0.0.1 that is free now.
pub(crate) fn free_port() -> Result<u16, Failed> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A process that ends with its test.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn signal(&self, signal: Signal) -> Outcome {
        Ok(kill_process(Pid::from_child(&self.0), signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL also ends a stopped process.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A NATS server.
pub(crate) struct Broker {
    pub(crate) port: u16,
    /// Directory of the configuration and of the stream.
    place: PathBuf,
    settings: String,
    process: Option<Process>,
}

impl Broker {
    /// Starts a server with JetStream and more settings.
    pub(crate) fn start(place: &Path, settings: &str) -> Result<Broker, Failed> {
        Broker::start_without_jetstream(place, &format!("jetstream {{}}\n{settings}"))
    }

    /// Starts a server.
    pub(crate) fn start_without_jetstream(place: &Path, settings: &str) -> Result<Broker, Failed> {
        let place = place.join("nats");
        std::fs::create_dir_all(&place)?;
        let settings = settings.to_owned();
        let mut broker = Broker { port: free_port()?, place, settings, process: None };
        broker.restart()?;
        Ok(broker)
    }

    pub(crate) fn restart(&mut self) -> Outcome {
        let configuration = self.place.join("nats.conf");
        let Broker { port, place, settings, .. } = &*self;
        let store = place.display();
        let settings =
            settings.replace("jetstream {}", &format!("jetstream {{ store_dir: \"{store}\" }}"));
        std::fs::write(&configuration, format!("listen: \"127.0.0.1:{port}\"\n{settings}"))?;
        let mut command = Command::new("nats-server");
        command.arg("-c").arg(configuration).arg("-l").arg(place.join("log"));
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Process(command.spawn()?));
        let port = self.port;
        until("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok())?;
        Ok(())
    }

    /// Kills the server, as by SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    pub(crate) fn signal(&self, signal: Signal) -> Outcome {
        self.process.as_ref().ok_or("the server does not run")?.signal(signal)
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Runs requests to JetStream.
    pub(crate) fn with_jetstream<T, E: Into<Failed>>(
        &self,
        requests: impl AsyncFnOnce(jetstream::Context) -> Result<T, E>,
    ) -> Result<T, Failed> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = async_nats::connect(self.url()).await?;
            requests(jetstream::new(client)).await.map_err(Into::into)
        })
    }

    /// Waits until the stream has at least so many messages. Returns all: their subjects and objects.
    pub(crate) fn messages(&self, least: u64) -> Result<Vec<(String, Value)>, Failed> {
        self.with_jetstream(async |context| {
            let deadline = Instant::now() + PATIENCE;
            let stream = loop {
                if let Ok(mut stream) = context.get_stream(STREAM).await
                    && stream.info().await?.state.messages >= least
                {
                    break stream;
                }
                if Instant::now() > deadline {
                    let count = context.get_stream(STREAM).await?.info().await?.state.messages;
                    return Err(Failed::from(format!("{count} messages and not {least}")));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            let stream::State { first_sequence, last_sequence, .. } = stream.cached_info().state;
            let mut messages = Vec::new();
            for number in first_sequence..=last_sequence {
                let message = stream.get_raw_message(number).await?;
                let object = serde_json::from_slice(&message.payload)?;
                messages.push((message.subject.to_string(), object));
            }
            Ok(messages)
        })
    }
}

/// A daemon, as far as its watchers see it.
pub(crate) struct Daemon {
    pub(crate) socket: PathBuf,
    listener: Option<UnixListener>,
}

/// A connection that watches.
pub(crate) struct Watch(pub(crate) UnixStream);

impl Daemon {
    pub(crate) fn start(place: &Path) -> Result<Daemon, Failed> {
        let mut daemon = Daemon { socket: place.join("control.sock"), listener: None };
        daemon.restart()?;
        Ok(daemon)
    }

    pub(crate) fn restart(&mut self) -> Outcome {
        let listener = UnixListener::bind(&self.socket)?;
        listener.set_nonblocking(true)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Ends the daemon, after it has told its watcher.
    pub(crate) fn stop(&mut self, mut watch: Watch) -> Outcome {
        watch.line(
            &json!({ "error": { "code": "stopping", "message": "the daemon stops", "hint": "" } }),
        )?;
        self.listener = None;
        Ok(std::fs::remove_file(&self.socket)?)
    }

    /// Waits for a watcher.
    pub(crate) fn accept(&self) -> Result<Watch, Failed> {
        let listener = self.listener.as_ref().ok_or("the daemon does not run")?;
        let stream = until("a watcher connects", || listener.accept().ok())?.0;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request)?;
        check(request.trim() == r#"{"watch":{}}"#, &request)?;
        let mut watch = Watch(stream);
        watch.line(&json!({ "ok": { "node": "r1" } }))?;
        Ok(watch)
    }
}

impl Watch {
    pub(crate) fn line(&mut self, object: &Value) -> Outcome {
        let mut line = object.to_string();
        line.push('\n');
        Ok(self.0.write_all(line.as_bytes())?)
    }

    /// Sends events with these numbers.
    pub(crate) fn events(&mut self, numbers: impl IntoIterator<Item = u64>) -> Outcome {
        numbers.into_iter().try_for_each(|number| self.line(&json!({ "event": event(number) })))
    }
}

/// Returns an event of the control protocol.
pub(crate) fn event(number: u64) -> Value {
    json!({
        "at_s": 1.5,
        "time": "2026-11-28T10:00:00.000Z",
        "text": format!("event {number}"),
        "protocol": "rsvp",
        "event": "path_state",
        "change": "created",
        "node": "10.0.0.1",
        "number": number,
    })
}

/// Returns the numbers of the events among messages.
pub(crate) fn numbers(messages: &[(String, Value)]) -> Vec<u64> {
    messages.iter().filter_map(|(_, object)| object["event"]["number"].as_u64()).collect()
}

/// Returns the reports of the exporter with this name.
pub(crate) fn reports<'a>(messages: &'a [(String, Value)], name: &str) -> Vec<&'a Value> {
    let subject = format!("earmark.r1.export.{name}");
    messages.iter().filter(|message| message.0 == subject).map(|message| &message.1).collect()
}

/// A running exporter.
pub(crate) struct Export {
    pub(crate) process: Process,
    errors: PathBuf,
}

impl Export {
    pub(crate) fn start(
        place: &TemporaryDirectory,
        daemon: &Daemon,
        to: &str,
        more: &[&str],
    ) -> Result<Export, Failed> {
        let errors = place.0.join("errors");
        let mut command = Command::new(PROGRAM);
        command.args(["nats", "--to", to, "--control"]).arg(&daemon.socket).args(more);
        command.stdin(Stdio::null()).stderr(std::fs::File::create(&errors)?);
        Ok(Export { process: Process(command.spawn()?), errors })
    }

    /// Starts an exporter that creates the stream of the tests.
    pub(crate) fn to_broker(
        place: &TemporaryDirectory,
        daemon: &Daemon,
        broker: &Broker,
        more: &[&str],
    ) -> Result<Export, Failed> {
        let more: Vec<_> = more.iter().copied().chain(["--create-stream", STREAM]).collect();
        Export::start(place, daemon, &broker.url(), &more)
    }

    /// Returns what the exporter has written to standard error.
    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Waits until standard error contains a text.
    pub(crate) fn wait_for_error(&self, text: &str) -> Outcome {
        let found = until(text, || self.errors().contains(text).then_some(()));
        found.map_err(|error| format!("{error:?}; {}", self.errors()).into())
    }

    /// Ends the exporter by SIGTERM.
    pub(crate) fn stop(&mut self) -> Outcome {
        self.process.signal(Signal::TERM)?;
        let child = &mut self.process.0;
        let status = until("the exporter ends", || child.try_wait().ok().flatten())?;
        check(status.success(), &format!("{status}: {}", self.errors()))
    }

    /// Returns the octets of memory that the exporter uses.
    pub(crate) fn memory(&self) -> Result<u64, Failed> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes: u64 = line
            .and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
            .ok_or("VmRSS")?;
        Ok(kilobytes * 1024)
    }
}
