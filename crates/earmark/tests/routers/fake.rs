//! Fake daemons, and a shell script that stands for `ssh`.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use earmark_testkit::command_line::TemporaryDirectory;
use serde_json::{Value, json};

/// The script leaves its process id for each router, and refuses arguments that it does not know.
const SSH: &str = r#"#!/bin/sh
here=$(dirname "$0")
while [ $# -gt 0 ]; do
    case $1 in
        -N|-T|-a|-x) shift;;
        -o) shift 2;;
        -L) forward=$2; shift 2;;
        --) router=$2; break;;
        *) echo "unexpected argument $1" >&2; exit 255;;
    esac
done
echo $$ >"$here/$router.pid"
socket=${forward%%:*}
case $router in
    denied) echo "$router: Permission denied (publickey)." >&2; exit 255;;
    hangs) exec sleep 1000;;
    dead) echo "channel 2: open failed: connect failed: open failed" >&2;;
esac
ln -s "$here/$router.sock" "$socket"
exec sleep 1000
"#;

/// Returns the lines of a successful answer.
pub(crate) fn ok(answer: &Value) -> Vec<Value> {
    vec![json!({ "ok": answer })]
}

/// Returns the lines of an error.
pub(crate) fn error(code: &str, message: &str) -> Vec<Value> {
    vec![json!({ "error": { "code": code, "message": message, "hint": "ask" } })]
}

/// Routers with fake daemons.
pub(crate) struct Network {
    directory: TemporaryDirectory,
}

impl Network {
    pub(crate) fn new(name: &str) -> Network {
        let directory = TemporaryDirectory::new(&format!("on-{name}"));
        let ssh = directory.file("ssh", SSH);
        std::fs::set_permissions(ssh, Permissions::from_mode(0o755)).expect("a program");
        std::fs::create_dir(directory.0.join("tmp")).expect("a directory");
        Network { directory }
    }

    fn listen(&self, router: &str) -> UnixListener {
        UnixListener::bind(self.directory.0.join(format!("{router}.sock"))).expect("a socket")
    }

    /// Starts a daemon that answers each request by the function. A version is answered by itself, unless the function refuses it.
    pub(crate) fn daemon(
        &self,
        router: &str,
        answer: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static,
    ) {
        let (listener, answer) = (self.listen(router), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), answer) = (stream, answer.clone()) else { return };
                std::thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
                    for line in lines.map_while(Result::ok) {
                        let request: Value = serde_json::from_str(&line).expect("a request");
                        let mut lines = answer(&request);
                        let is_refused = lines.iter().any(|line| line.get("error").is_some());
                        if request.get("version").is_some() && !is_refused {
                            lines = ok(&json!({ "protocol": 4, "earmark": "0.1.0" }));
                        }
                        for line in lines {
                            // The command may have ended already.
                            let _ = writeln!(stream, "{line}");
                        }
                    }
                });
            }
        });
    }

    /// Starts a program that closes each connection, like `sshd` without a daemon behind it.
    pub(crate) fn closing_daemon(&self, router: &str) {
        let listener = self.listen(router);
        std::thread::spawn(move || listener.incoming().for_each(drop));
    }

    /// Starts a daemon that accepts connections and never answers.
    pub(crate) fn silent_daemon(&self, router: &str) {
        std::mem::forget(self.listen(router));
    }

    /// Returns the command with the script as `ssh`.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_earmark"));
        command
            .env("EARMARK_SSH", self.directory.0.join("ssh"))
            .env("TMPDIR", self.temporary())
            .args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().expect("the command runs");
        assert_eq!(self.leftovers(), "", "{arguments:?}");
        output
    }

    fn temporary(&self) -> PathBuf {
        self.directory.0.join("tmp")
    }

    /// Returns what a command has left: temporary files, and processes that stand for `ssh`.
    pub(crate) fn leftovers(&self) -> String {
        let files =
            |path: PathBuf| std::fs::read_dir(path).expect("a directory").map_while(Result::ok);
        let mut left: Vec<String> =
            files(self.temporary()).map(|file| file.path().display().to_string()).collect();
        for process in self.processes() {
            // A process without a command line has ended, and is not waited for yet.
            let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            if !command.is_empty() {
                left.push(format!("process {process}"));
            }
        }
        left.join(", ")
    }

    /// Returns the processes that have stood for `ssh`.
    fn processes(&self) -> Vec<String> {
        let files =
            std::fs::read_dir(&self.directory.0).expect("a directory").map_while(Result::ok);
        let numbers = files.filter(|file| file.path().extension().is_some_and(|it| it == "pid"));
        let read =
            |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        numbers.map(|file| read(file.path())).filter(|number| !number.is_empty()).collect()
    }

    pub(crate) fn has_started_ssh(&self) -> bool {
        !self.processes().is_empty()
    }
}
