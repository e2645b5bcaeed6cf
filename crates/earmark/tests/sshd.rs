//! `earmark --on` through OpenSSH: a real `ssh`, and an `sshd` of this user on a port of loopback.
//!
//! Without `sshd` the tests are shown as ignored, with the reason. Each `sshd` has a host key, keys and settings of its own in a
//! temporary directory, and ends with its test.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use earmark_testkit::command_line::{TemporaryDirectory, status, stderr, stdout};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};

type Outcome = Result<(), Failed>;
type Test = fn() -> Outcome;

const SSHD: &str = "/usr/sbin/sshd";
const AS_USER: &str = "daemon_sees_the_user_of_the_login";

fn main() {
    let arguments = Arguments::from_args();
    let obstacle = [SSHD, "/usr/bin/ssh", "/usr/bin/ssh-keygen"]
        .into_iter()
        .find(|program| !Path::new(program).exists())
        .map(|missing| format!("{missing} is missing: install openssh-server and openssh-client"));
    // Only root may log in other users.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0);
    let needs_root = (!is_root).then(|| "needs root".to_owned());
    let tests: [(&str, Test); 4] = [
        ("two_routers_answer_over_ssh", two_routers_answer_over_ssh),
        ("daemon_that_does_not_run_is_named", daemon_that_does_not_run_is_named),
        ("refusals_of_ssh_are_shown", refusals_of_ssh_are_shown),
        (AS_USER, daemon_sees_the_user_of_the_login),
    ];
    let trials = tests.into_iter().map(|(name, test)| {
        match obstacle.as_ref().or(needs_root.as_ref().filter(|_| name == AS_USER)) {
            None => Trial::test(name, test),
            // The runner shows a reason only as part of the name.
            Some(reason) => Trial::test(format!("{name} ({reason})"), test).with_ignored_flag(true),
        }
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// An `sshd`, and an `ssh` that knows it as r1 and r2.
struct Server {
    sshd: Child,
    directory: TemporaryDirectory,
}

impl Server {
    fn start(name: &str, more: &str) -> Result<Server, Failed> {
        let directory = TemporaryDirectory::new(&format!("sshd-{name}"));
        for key in ["host", "user"] {
            let mut keygen = Command::new("/usr/bin/ssh-keygen");
            let file = directory.0.join(key);
            if !keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file).status()?.success() {
                return Err("no key".into());
            }
        }
        std::fs::copy(directory.0.join("user.pub"), directory.0.join("authorized"))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let at = directory.0.display();
        directory.file(
            "sshd_config",
            &format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\nPidFile none\n\
                 StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n{more}"
            ),
        );
        let host_key = std::fs::read_to_string(directory.0.join("host.pub"))?;
        directory.file("known", &format!("[127.0.0.1]:{port} {host_key}"));
        directory.file(
            "ssh_config",
            &format!(
                "Host r1 r2 nobody\n HostName 127.0.0.1\n Port {port}\n IdentityFile {at}/user\n IdentitiesOnly yes\n\
                 Host nobody\n User nobody\nHost *\n UserKnownHostsFile {at}/known\n StrictHostKeyChecking yes\n"
            ),
        );
        let ssh = directory
            .file("ssh", &format!("#!/bin/sh\nexec /usr/bin/ssh -F {at}/ssh_config \"$@\"\n"));
        Command::new("chmod").args(["755", &ssh]).status()?;
        // sshd of root needs its directory for the separation of privileges.
        let _ = std::fs::create_dir("/run/sshd");
        let mut command = Command::new(SSHD);
        command.args(["-D", "-e", "-f"]).arg(directory.0.join("sshd_config"));
        let log = std::fs::File::create(directory.0.join("log"))?;
        let sshd = command.stdin(Stdio::null()).stderr(log).spawn()?;
        let server = Server { sshd, directory };
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() >= deadline {
                return Err(format!("sshd does not listen: {}", server.log()).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.0.join("log")).unwrap_or_default()
    }

    fn socket(&self) -> PathBuf {
        self.directory.0.join("control.sock")
    }

    /// Starts a daemon that lists one link, whose index is the user of the connection.
    fn daemon(&self) -> Outcome {
        let listener = UnixListener::bind(self.socket())?;
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || answer(stream));
            }
        });
        Ok(())
    }

    fn run(&self, arguments: &[&str]) -> Result<Output, Failed> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_earmark"));
        command.arg("--control").arg(self.socket()).arg("--ssh").arg(self.directory.0.join("ssh"));
        Ok(command.args(arguments).output()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

fn answer(mut stream: UnixStream) {
    let Ok(reader) = stream.try_clone() else { return };
    let Ok(user) = rustix::net::sockopt::socket_peercred(&stream).map(|peer| peer.uid.as_raw())
    else {
        return;
    };
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap_or_default();
        let answer = match request.get("version") {
            Some(_) => json!({ "protocol": 4, "earmark": "0.1.0" }),
            None => {
                let row = json!({
                    "interface": "eth0", "index": user, "up": true, "addresses": ["10.0.1.1"], "bandwidth_bps": 1,
                    "reservable_bps": 1, "held_bps": 0, "claims": 0, "adopted": 0
                });
                json!({ "rows": [row], "more": false })
            }
        };
        let _ = writeln!(stream, "{}", json!({ "ok": answer }));
    }
}

fn two_routers_answer_over_ssh() -> Outcome {
    let server = Server::start("answer", "")?;
    server.daemon()?;
    let output = server.run(&["--json", "--on", "r1,r2", "show", "links"])?;
    assert_eq!(status(&output), 0, "{}{}", stderr(&output), server.log());
    let rows: Vec<Value> = serde_json::from_str(&stdout(&output))?;
    let routers: Vec<&Value> = rows.iter().map(|row| &row["router"]).collect();
    assert_eq!(routers, ["r1", "r2"]);
    Ok(())
}

fn daemon_that_does_not_run_is_named() -> Outcome {
    let server = Server::start("no-daemon", "")?;
    let output = server.run(&["--on", "r1", "show", "links"])?;
    let errors = stderr(&output);
    assert_eq!(status(&output), 1, "{errors}");
    assert!(errors.contains("ssh says: channel") && errors.contains("open failed"), "{errors}");
    assert!(errors.contains("is the daemon running on r1"), "{errors}");
    Ok(())
}

/// The daemon knows who asks: `sshd` connects as the user that has logged in, also one without a shell.
fn daemon_sees_the_user_of_the_login() -> Outcome {
    let server = Server::start("user", "")?;
    server.daemon()?;
    std::fs::set_permissions(server.socket(), std::fs::Permissions::from_mode(0o666))?;
    let output = server.run(&["--json", "--on", "nobody,r1", "show", "links"])?;
    assert_eq!(status(&output), 0, "{}{}", stderr(&output), server.log());
    let rows: Vec<Value> = serde_json::from_str(&stdout(&output))?;
    let users: Vec<&Value> = rows.iter().map(|row| &row["index"]).collect();
    assert_eq!(users, [65_534, 0]);
    Ok(())
}

fn refusals_of_ssh_are_shown() -> Outcome {
    let server = Server::start("forbidden", "AllowStreamLocalForwarding no\n")?;
    server.daemon()?;
    let output = server.run(&["--on", "r1", "show", "links"])?;
    let errors = stderr(&output);
    assert_eq!(status(&output), 1, "{errors}");
    assert!(
        errors.contains("open failed") && errors.contains("AllowStreamLocalForwarding"),
        "{errors}"
    );

    std::fs::write(server.directory.0.join("authorized"), "")?;
    let output = server.run(&["--on", "r1", "show", "links"])?;
    let errors = stderr(&output);
    assert!(
        errors.contains("earmark: r1: no connection; ssh says: ")
            && errors.contains("Permission denied"),
        "{errors}"
    );

    std::fs::write(server.directory.0.join("known"), "")?;
    let output = server.run(&["--on", "r1", "show", "links"])?;
    let errors = stderr(&output);
    assert!(
        errors.contains("Host key verification failed") && errors.contains("a known host key"),
        "{errors}"
    );

    // This name is in no configuration and in no DNS.
    let output = server.run(&["--on", "nowhere.invalid", "show", "links"])?;
    assert!(stderr(&output).contains("Could not resolve hostname"), "{}", stderr(&output));
    Ok(())
}
