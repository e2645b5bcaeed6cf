//! Stories of YESSIR: the messages and commands of a node.

use std::net::IpAddr;

use earmark_core::Outgoing;
use earmark_core::admission::RetryPolicy;
use earmark_core::random::RandomStreams;
use earmark_testkit::conformance::IpHeader;
use earmark_testkit::conformance::datagrams::Datagrams;
use earmark_testkit::conformance::tables::Tables;
use earmark_testkit::conformance::words::{Fault, Words};
use earmark_wire::yessir::Style;
use earmark_yessir::{Application, Attachment, Command, Config, Event, Stream, Yessir};
use serde::Deserialize;

use crate::{report, show};

/// Contents of `topology.toml` besides interfaces and routes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Settings that differ from the defaults.
    #[serde(default)]
    yessir: Config,
    /// Policy of the queue of refused requests.
    #[serde(default)]
    retry: RetryPolicy,
}

/// What a story has to know about the node.
#[derive(Debug)]
pub(crate) struct Story {
    /// Reservation id of the last report of the node itself.
    sent: u32,
}

impl Datagrams for Story {
    const FOLDER: &'static str = "yessir";
    const CHECKSUM: usize = 7;
    type Settings = Settings;
    type Engine = Yessir;

    fn new(settings: Settings, random: &RandomStreams, tables: &mut Tables) -> (Yessir, Story) {
        tables.ledger.set_retry_policy(settings.retry);
        (Yessir::new(settings.yessir, random), Story { sent: 0 })
    }

    fn compose(&self, words: &mut Words<'_>, body: &[&str]) -> Result<(IpHeader, Vec<u8>), Fault> {
        let kind = words.next("report or answer")?;
        let header = IpHeader::read(words)?;
        Ok((header, report::compose(kind, header, words, body, self.sent)?))
    }

    fn command(words: Words<'_>) -> Result<Command, Fault> {
        command(words)
    }

    fn sent(&mut self, tables: &Tables, how: &Outgoing, octets: &[u8], came: &[u8]) -> String {
        self.sent = report::reservation(octets).unwrap_or(self.sent);
        show::message(tables, how, octets, came)
    }

    fn event(event: &Event) -> Option<String> {
        show::event(event)
    }
}

/// Reads a command of application 1: `attach FLOWSPEC`, `listen` or `release`.
fn command(mut words: Words<'_>) -> Result<Command, Fault> {
    let application = Application(1);
    let anywhere = IpAddr::from([0, 0, 0, 0]);
    let command = match words.next("a command")? {
        "attach" => Command::Attach {
            application,
            attachment: Attachment {
                stream: Stream {
                    source: anywhere,
                    destination: IpAddr::from([10, 0, 9, 9]),
                    source_port: 4_000,
                    destination_port: 5_000,
                },
                ssrc: Some(7),
                cname: "sender@here".into(),
                multiplexed: false,
                passive: words.flag("passive"),
                interval: words.maybe("interval")?.unwrap_or(0),
                flowspec: report::flowspec(&mut words)?,
                style: Style::Individual,
                ttl: 64,
                token: None,
            },
        },
        "listen" => Command::Listen {
            application,
            destination: anywhere,
            port: 5_000,
            cname: "receiver@here".into(),
        },
        "release" => Command::Release { application },
        other => return Err(format!("`{other}` is no command")),
    };
    words.end()?;
    Ok(command)
}
