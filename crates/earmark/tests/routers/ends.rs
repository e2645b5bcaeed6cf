//! However a command ends, neither `ssh` nor sockets stay.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::fake::{Network, ok};

/// Waits until a condition holds.
fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Returns a command that runs another one, which ignores no signal.
fn with_default_signals(command: &Command) -> Command {
    let mut outer = Command::new("env");
    outer.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

#[test]
fn signals_leave_nothing() {
    for name in ["INT", "TERM", "HUP", "KILL"] {
        let network = Network::new(name);
        network.daemon("r1", |_| ok(&json!({ "node": "r1" })));
        let arguments = ["--on", "r1,hangs", "--connect-timeout", "60s", "watch"];
        // Whoever runs the tests may ignore a signal, as `nohup` does, and the command would inherit that.
        let mut command = with_default_signals(&network.command(&arguments));
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command runs");
        wait_until("ssh is started", || network.leftovers().matches("process").count() == 2);
        signal(&child, name);
        wait_until(&format!("{name} ends the command"), || {
            child.try_wait().expect("it is a child").is_some_and(|status| !status.success())
        });
        wait_until(&format!("nothing is left after {name}"), || network.leftovers().is_empty());
    }
}

/// The reader of the output closes it.
#[test]
fn closed_output_leaves_nothing() {
    let network = Network::new("pipe");
    let event =
        json!({ "event": { "at_s": 1.0, "protocol": "rsvp", "event": "path", "text": "a flow" } });
    network
        .daemon("r1", move |_| [ok(&json!({ "node": "r1" })), vec![event.clone(); 100]].concat());
    let mut command = network.command(&["--on", "r1", "watch"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command runs");
    drop(child.stdout.take());
    assert!(child.wait().expect("the command ends").success());
    assert_eq!(network.leftovers(), "");
}
