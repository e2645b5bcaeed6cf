//! The program `earmark-fleet` as a process, and fake routers.
#![allow(dead_code, unreachable_pub)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_earmark-fleet");
/// Upper bound of every wait, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the command, without arguments.
pub fn program() -> Command {
    Command::new(PROGRAM)
}

/// A running program, until it is dropped.
pub struct FleetProcess {
    child: Child,
    pub address: SocketAddr,
}

impl FleetProcess {
    /// Starts the program with these arguments, at a free port unless they name another one.
    pub fn start(arguments: &[String]) -> FleetProcess {
        let mut command = program();
        command.args(arguments);
        let named = ["--listen", "--config"].map(str::to_owned);
        if !arguments.iter().any(|argument| named.contains(argument)) {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut log = BufReader::new(child.stderr.take().expect("standard error"));
        let mut line = String::new();
        log.read_line(&mut line).expect("a line");
        // What follows is read as well, so that the program does not wait.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let address = line.trim().rsplit_once("http://").expect(&line).1;
        let address = address.trim_end_matches('/').parse().expect(&line);
        FleetProcess { child, address }
    }

    /// Sends a request; returns the answer with its head.
    pub fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Returns the JSON at a path.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address));
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{body}");
        serde_json::from_str(body).expect(body)
    }

    /// Waits until the rows of all routers meet a condition; returns them.
    pub fn wait(&self, what: &str, mut is_met: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rows = self.json("/api/fleet")["routers"].as_array().cloned().expect("rows");
            if is_met(&rows) {
                return rows;
            }
            assert!(Instant::now() < deadline, "{what}: {rows:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the largest resident memory so far, octets.
    pub fn largest_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        let kibibytes: usize = line.trim().trim_end_matches(" kB").parse().expect(line);
        kibibytes * 1_024
    }

    /// Ends the program by a signal; returns its exit status.
    pub fn end(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for FleetProcess {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a fake router that gives each connection to `serve`, behind the head of its request; returns its URL.
pub fn fake_router(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.expect("a connection"), serve.clone());
            std::thread::spawn(move || {
                let mut head = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
                if head.by_ref().any(|line| line.is_ok_and(|line| line.is_empty())) {
                    serve(stream);
                }
            });
        }
    });
    format!("http://{address}/metrics")
}

/// Returns an answer with status 200.
pub fn answer(content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Returns metrics of a daemon with this number of links, whose reservations have sent `sent` octets.
pub fn metrics(links: usize, sent: u64) -> String {
    let mut text = format!(
        "earmark_build_info{{version=\"0.1.0\"}} 1.0\n\
         earmark_soft_states{{part=\"a\",kind=\"sessions\"}} 12.0\n\
         earmark_events_total{{part=\"a\",kind=\"reservation_refused\"}} 0\n\
         earmark_event_loop_turn_seconds_bucket{{le=\"0.0005\"}} {sent}\n\
         earmark_event_loop_turn_seconds_bucket{{le=\"+Inf\"}} {sent}\n",
    );
    for link in 0..links {
        for (name, value) in [
            ("up", 1),
            ("bandwidth_bytes_per_second", 12_500_000),
            ("reservable_bytes_per_second", 9_375_000),
            ("reserved_bytes_per_second", 1_250_000),
            ("claims", 5),
            ("reserved_sent_bytes_total", sent),
        ] {
            text += &format!("earmark_link_{name}{{interface=\"eth{link}\"}} {value}\n");
        }
    }
    text
}
