//! Exports to real programs: a PostgreSQL server, and nfcapd as a collector of IPFIX.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use earmark_core::random::RandomStreams;
use earmark_core::{Flow, Prefix};
use earmark_export::ipfix::Transport;
use earmark_export::run::{Exporter, Target};
use earmark_history::query::{self, Filter};
use earmark_history::{
    Append, Counts, Database, FlowKey, Journal, LEAST_BOUND, Record, Reservation, Settings, Writer,
};
use earmark_testkit::command_line::TemporaryDirectory;
use libtest_mimic::{Arguments, Failed, Trial};
use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_earmark-export");
/// Upper bound of every wait, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A user without rights: PostgreSQL does not run as root.
const NOBODY: u32 = 65_534;

type Outcome = Result<(), Failed>;
/// A test that gets the directory of PostgreSQL's programs.
type Test = fn(&Path) -> Outcome;

fn main() {
    let arguments = Arguments::from_args();
    let postgres = postgres_programs();
    let tests: [(&str, Test); 3] = [
        ("records_are_copied_and_continued", records_are_copied_and_continued),
        ("other_schema_is_refused", other_schema_is_refused),
        ("copies_are_complete_after_kills", copies_are_complete_after_kills),
    ];
    let mut trials = Vec::new();
    for (name, test) in tests {
        trials.push(match postgres.clone() {
            Some(programs) => Trial::test(name, move || test(&programs)),
            None => {
                Trial::test(format!("{name} (needs PostgreSQL)"), || Ok(())).with_ignored_flag(true)
            }
        });
    }
    let has_nfdump = Command::new("nfdump").arg("-V").output().is_ok();
    trials.push(match has_nfdump {
        true => Trial::test("collector_decodes_records", collector_decodes_records),
        false => Trial::test("collector_decodes_records", || Ok(()))
            .with_kind("needs nfdump")
            .with_ignored_flag(true),
    });
    libtest_mimic::run(&arguments, trials).exit();
}

/// Returns the directory of PostgreSQL's programs.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|path| path.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}

fn check(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.to_owned().into()) }
}

/// Tries until there is a result.
fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> Result<T, Failed> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("never: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A directory that ends with the test, with a journal and a database of records.
struct Records {
    place: TemporaryDirectory,
    journal: Journal,
    writer: Writer,
    last: u64,
}

impl Records {
    fn new(name: &str) -> Result<Records, Failed> {
        let place = TemporaryDirectory::new(name);
        let journal = Journal::open(&place.0.join("journal"), LEAST_BOUND)?;
        let writer = Writer::new(Settings {
            database: place.0.join("history.db"),
            journal: place.0.join("journal"),
            retention: None,
        });
        let mut records = Records { place, journal, writer, last: 0 };
        records
            .append(&[Record::Started { at_ms: 0, node: "r1".into() }, Record::AdoptedAll {}])?;
        Ok(records)
    }

    fn database(&self) -> PathBuf {
        self.place.0.join("history.db")
    }

    fn append(&mut self, records: &[Record]) -> Outcome {
        let mut lines = Vec::new();
        records.iter().for_each(|record| record.add_to(&mut lines));
        let oldest = self.writer.status().oldest_segment();
        check(self.journal.append(&lines, oldest) == Append::Done, "appended")?;
        Ok(self.writer.apply()?)
    }

    /// Adds a reservation that has ended, with so many packets.
    fn add(&mut self, packets: u64) -> Outcome {
        self.last += 1;
        let number = self.last;
        let begin = self.begin(number);
        let counts = Counts { octets: packets * 1_000, packets, drops: 2 };
        let at_ms = 1_700_000_060_000;
        let reason = "released".to_owned();
        let end = Record::Ended { number, at_ms, reason, counts: Some(counts) };
        self.append(&[begin, end])
    }

    fn begin(&self, number: u64) -> Record {
        let destination = "10.0.2.2".parse().expect("an address");
        let to = Flow::to_range(Prefix::host(destination));
        let flow = Flow { protocol: 17, destination_port: 5_001, source_port: 4_000, ..to };
        let sender = "10.0.1.1".parse().expect("an address");
        Record::Begun {
            number,
            at_ms: 1_700_000_000_000,
            flow: FlowKey { link: "eth0".into(), protocol: Some("rsvp".into()), flow },
            counts: Counts::default(),
            reservation: Reservation {
                protocol: "rsvp".into(),
                link: "eth0".into(),
                destination,
                destination_port: 5_001,
                ip_protocol: 17,
                dscp: None,
                senders: vec![(sender, 4_000, None, None).into()],
                style: "FF".into(),
                service: "guaranteed".into(),
                user: None,
                rate_bps: 1_000_000,
            },
        }
    }

    /// Returns the packets of each reservation, by its number.
    fn packets(&self) -> Result<BTreeMap<i64, i64>, Failed> {
        let database = Database::open_to_read(&self.database())?;
        let mut packets = BTreeMap::new();
        query::reservations(&database, &Filter::default(), |row| {
            packets.insert(row.id, row.packets);
            true
        })?;
        Ok(packets)
    }
}

/// A server of a test, which listens at a Unix socket only.
struct Server {
    programs: PathBuf,
    place: PathBuf,
    process: Option<Child>,
}

impl Server {
    fn new(programs: &Path, place: &Path) -> Result<Server, Failed> {
        let place = place.join("pg");
        std::fs::create_dir_all(&place)?;
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&place, Some(NOBODY), Some(NOBODY))?;
        }
        let mut server = Server { programs: programs.to_owned(), place, process: None };
        let data = server.place.join("data");
        let mut initdb = server.command("initdb");
        initdb.args(["--auth=trust", "--username=earmark", "--no-sync", "-D"]).arg(&data);
        let output = initdb.output()?;
        check(output.status.success(), &String::from_utf8_lossy(&output.stderr))?;
        server.start()?;
        Ok(server)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.place).stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn start(&mut self) -> Outcome {
        let data = self.place.join("data");
        // A killed server leaves these, and a new one waits for the processes that they name.
        let _ = std::fs::remove_file(data.join("postmaster.pid"));
        let mut command = self.command("postgres");
        command.arg("-D").arg(&data).arg("-k").arg(&self.place).args(["-h", "", "-c", "fsync=off"]);
        // Processes of a killed server end when they notice.
        let start = || command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok();
        let mut start = start;
        self.process = start();
        until("the server serves", || {
            if let Some(process) = &mut self.process
                && process.try_wait().ok().flatten().is_some()
            {
                self.process = start();
            }
            Client::connect(&connection(&self.place), NoTls).ok()
        })?;
        Ok(())
    }

    fn connection(&self) -> String {
        connection(&self.place)
    }

    fn client(&self) -> Result<Client, Failed> {
        Ok(Client::connect(&self.connection(), NoTls)?)
    }

    fn kill(&mut self) -> Outcome {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Returns the packets of each reservation, by its number.
    fn packets(&self) -> Result<BTreeMap<i64, i64>, Failed> {
        let rows = self.client()?.query("SELECT id, packets FROM earmark.reservation", &[])?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}

fn connection(place: &Path) -> String {
    format!("host={} user=earmark dbname=postgres connect_timeout=5", place.display())
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // An immediate shutdown, which takes the server's children with it.
            let _ = kill_process(Pid::from_child(process), Signal::QUIT);
            let _ = process.wait();
        }
    }
}

fn exporter(records: &Records, server: &Server) -> Result<Exporter, Failed> {
    let target = Target::Postgres(Box::new(server.connection().parse()?));
    Ok(Exporter { database: records.database(), target, name: "postgres".into() })
}

fn records_are_copied_and_continued(programs: &Path) -> Outcome {
    let mut records = Records::new("copies")?;
    let mut server = Server::new(programs, &records.place.0)?;
    records.add(10)?;
    records.last += 1;
    let standing = records.last;
    let begin = records.begin(standing);
    records.append(&[begin, Record::Lost { at_ms: 5, records: 3 }])?;
    let exporter = exporter(&records, &server)?;
    // Two reservations, an hour and a gap.
    check(exporter.deliver()? == 4, "four rows")?;
    check(exporter.deliver()? == 0, "nothing new")?;
    check(server.packets()? == records.packets()?, "the same packets")?;
    server.kill()?;
    let counts = Counts { octets: 7_000, packets: 7, drops: 0 };
    records.append(&[Record::Used { number: standing, at_ms: 1_700_000_090_000, counts }])?;
    let error = exporter.deliver().expect_err("no server").to_string();
    check(error.starts_with("PostgreSQL: "), &error)?;
    server.start()?;
    exporter.deliver()?;
    check(server.packets()? == records.packets()?, "the same packets after a restart")?;
    let mut client = server.client()?;
    let sums = "SELECT sum(packets)::BIGINT, sum(begun)::BIGINT, (SELECT sum(records)::BIGINT FROM earmark.gap) FROM earmark.usage";
    let row = client.query_one(sums, &[])?;
    let sums: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    check(sums == (17, 2, 3), &format!("{sums:?}"))
}

fn other_schema_is_refused(programs: &Path) -> Outcome {
    let mut records = Records::new("schema")?;
    let server = Server::new(programs, &records.place.0)?;
    records.add(1)?;
    let exporter = exporter(&records, &server)?;
    exporter.deliver()?;
    server.client()?.execute("UPDATE earmark.meta SET version = 2", &[])?;
    records.add(1)?;
    let error = exporter.deliver().expect_err("another schema").to_string();
    check(error.contains("has version 2, and this program knows version 1"), &error)?;
    check(server.packets()?.len() == 1, "nothing was written")
}

/// Exporter and server are killed at random moments while reservations end: 6 times, or as often as EARMARK_KILLS says. Afterwards
/// the copy has each of them once.
fn copies_are_complete_after_kills(programs: &Path) -> Outcome {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("EARMARK_KILLS").unwrap_or(6);
    let seed = number("EARMARK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = RandomStreams::new(seed).stream("kills");
    let mut draw = |bound: u64| random.next_u64() % bound;
    let mut records = Records::new("kills")?;
    let mut server = Server::new(programs, &records.place.0)?;
    let start = |records: &Records, server: &Server| {
        let mut command = Command::new(PROGRAM);
        command.args(["postgres", "--every", "20ms", "--to", &server.connection(), "--database"]);
        command.arg(records.database()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let mut exporting = start(&records, &server)?;
    for kill in 0..kills {
        for _ in 0..draw(20) {
            records.add(draw(1_000))?;
        }
        std::thread::sleep(Duration::from_millis(draw(60)));
        match kill % 2 {
            0 => {
                exporting.kill()?;
                exporting.wait()?;
                exporting = start(&records, &server)?;
            }
            _ => {
                server.kill()?;
                records.add(draw(1_000))?;
                server.start()?;
            }
        }
    }
    let expected = records.packets()?;
    let copied = until("everything is copied", || {
        let copied = server.packets().unwrap_or_default();
        (copied == expected).then_some(copied.len())
    });
    exporting.kill()?;
    exporting.wait()?;
    println!("{kills} kills, {} reservations", copied?);
    Ok(())
}

/// nfcapd decodes the template and the records.
fn collector_decodes_records() -> Outcome {
    let mut records = Records::new("ipfix")?;
    records.add(10)?;
    records.add(20)?;
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let into = records.place.0.join("flows");
    std::fs::create_dir(&into)?;
    let mut collector = Command::new("nfcapd")
        .args(["-b", "127.0.0.1", "-p", &port.to_string(), "-w"])
        .arg(&into)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // The collector needs a moment until it has its port.
    until("the collector listens", || {
        let table = std::fs::read_to_string("/proc/net/udp").ok()?;
        table.contains(&format!(":{port:04X} ")).then_some(())
    })?;
    let to = format!("127.0.0.1:{port}");
    let target = Target::Ipfix { to, transport: Transport::Udp, domain: 7 };
    let exporter = Exporter { database: records.database(), target, name: "ipfix".into() };
    exporter.deliver()?;
    check(exporter.deliver()? == 0, "nothing is sent twice")?;
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&collector), Signal::TERM)?;
    collector.wait()?;
    let output = Command::new("nfdump").arg("-R").arg(&into).args(["-o", "json"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let flows: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
    let flows = flows.as_array().ok_or("no array")?;
    check(flows.len() == 2, &text)?;
    for (flow, packets) in flows.iter().zip([10, 20]) {
        check(flow["src4_addr"] == "10.0.1.1" && flow["dst4_addr"] == "10.0.2.2", &text)?;
        check(
            flow["src_port"] == 4_000 && flow["dst_port"] == 5_001 && flow["proto"] == 17,
            &text,
        )?;
        check(flow["in_packets"] == packets && flow["in_bytes"] == packets * 1_000, &text)?;
    }
    Ok(())
}
