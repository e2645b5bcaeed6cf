//! Two real daemons with a link between them, scraped by the program. The test needs no root: it runs in a user namespace.

#[path = "support/host.rs"]
mod host;
mod support;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

use earmark_control::Client;
use earmark_linux::link;
use libtest_mimic::Failed;

use self::host::{Host, Outcome, check, run_as_root, until};
use self::support::FleetProcess;

/// Names under which this test program is another one.
const DAEMON: &str = "earmarkd";
const COMMAND: &str = "earmark";

/// A daemon in the namespace of a host, until it is dropped.
struct Daemon(Child, PathBuf);

impl Daemon {
    fn start(host: &Host, address: &str) -> Result<Daemon, Failed> {
        let socket = host.directory.join("s");
        let config = host.directory.join("c.toml");
        let text = format!(
            "[control]\nsocket = \"{}\"\n[metrics]\naddress = \"{address}:9470\"\n\
             [[interface]]\nname = \"eth0\"\nbandwidth = \"10Mbit\"\nclasses = 16\n",
            socket.display()
        );
        std::fs::write(&config, text)?;
        let log = std::fs::File::create(host.directory.join("log"))?;
        let mut command = host.namespace.command(std::env::current_exe()?)?;
        command.arg0(DAEMON).arg("--config").arg(config).stdout(Stdio::null()).stderr(log);
        let mut daemon = Daemon(command.spawn()?, socket);
        until("the daemon serves", || {
            if let Some(status) = daemon.0.try_wait()? {
                let log = std::fs::read_to_string(host.directory.join("log"))?;
                return Err(format!("the daemon ended ({status}): {log}").into());
            }
            let client = Client::connect(&daemon.1).ok();
            Ok(client.and_then(|mut client| client.show_links().ok()))
        })?;
        Ok(daemon)
    }

    fn earmark(&self, arguments: &str) -> Outcome {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(COMMAND).arg("--control").arg(&self.1).args(arguments.split(' '));
        let output = command.output()?;
        check(output.status.success(), &String::from_utf8_lossy(&output.stderr))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn reservation_of_two_daemons_is_on_the_page() -> Outcome {
    let (a, b) = (Host::new("fleet-a")?, Host::new("fleet-b")?);
    link::create_veth(&a.namespace, "eth0", &b.namespace, "eth0")?;
    for (host, address) in [(&a, "10.0.1.1"), (&b, "10.0.1.2")] {
        link::add_address(&host.namespace, "eth0", address.parse()?, 24)?;
        link::set_up(&host.namespace, "eth0", true)?;
    }
    let first = Daemon::start(&a, "10.0.1.1")?;
    let second = Daemon::start(&b, "10.0.1.2")?;
    a.namespace.run_in(move || -> Outcome {
        let arguments = [
            "--router",
            "first=http://10.0.1.1:9470/metrics",
            "--router",
            "second=http://10.0.1.2:9470",
            "--interval",
            "1s",
            "--timeout",
            "1s",
        ];
        let fleet = FleetProcess::start(&arguments.map(str::to_owned));
        let rows =
            fleet.wait("both are good", |rows| rows.iter().all(|row| row["state"] == "good"));
        check(rows[0]["name"] == "first" && rows[1]["name"] == "second", "by name")?;
        check(rows[0]["version"] == env!("CARGO_PKG_VERSION"), &rows[0].to_string())?;
        check(rows[0]["links"][0]["name"] == "eth0", &rows[0].to_string())?;
        check(rows[0]["reservable_bps"] == 7.5e6, &rows[0].to_string())?;

        first.earmark(
            "reserve --protocol boomerang --from 10.0.1.1:4000 --to 10.0.1.2:5001 --forward 2Mbit",
        )?;
        let rows = fleet.wait("the reservation", |rows| rows[0]["reserved_bps"] == 2e6);
        let sessions = rows[0]["sessions"].as_object().ok_or("sessions")?;
        check(!sessions.is_empty(), "sessions by protocol")?;
        let rates = |row: &serde_json::Value| {
            ["refusals_per_minute", "drops_per_minute"].iter().all(|rate| row[*rate].is_f64())
        };
        let rows =
            fleet.wait("rates", |rows| rates(&rows[0]) && rows[0]["links"][0]["used_bps"].is_f64());
        check(rows[0]["links"][0]["reservations"] == 1.0, &rows[0].to_string())?;

        drop(second);
        let rows = fleet.wait("the end of the second", |rows| rows[0]["name"] == "second");
        let reason = rows[0]["reason"].as_str().unwrap_or_default();
        check(reason.contains("cannot connect to 10.0.1.2:9470"), reason)?;
        check(rows[1]["state"] == "good", &rows[1].to_string())
    })?
}

fn main() -> ExitCode {
    match std::env::args().next().as_deref() {
        Some(DAEMON) => earmarkd::cli::main(),
        Some(COMMAND) => earmark::cli::main(),
        _ => run_as_root(
            None,
            &[(
                "reservation_of_two_daemons_is_on_the_page",
                reservation_of_two_daemons_is_on_the_page,
            )],
        ),
    }
}
