//! NSIS's settings as those of a node, of connections and of the kernel, and their reload.

use earmark_linux::{Gist, InterfaceSignalling};
use earmark_node::{Command, NodeConfig};
use earmark_nsis as nsis;
use jiff::Timestamp;

use super::Nsis;
use super::config::{InterfaceKeys, NsisConfig, NsisInterface, NsisTables};
use super::natfw::config::NatfwSettings;
use crate::config::{Config, ConfigError, InterfaceConfig, Keys, Source, Table};
use crate::protocol::{Protocol, ProtocolConfig, ReadTables, read_as};
use crate::streams;
use crate::wall_clock::since_1970;

impl ProtocolConfig for Nsis {
    fn tables(&self) -> &'static [Keys] {
        &[Keys { names: &["nsis"], before: "protocol" }]
    }

    fn interface_keys(&self) -> &'static [Keys] {
        &[Keys { names: &["nsis_intercept"], before: "measure_rtp" }]
    }

    fn reader(&self) -> ReadTables {
        read_as::<NsisTables>
    }

    fn read_interface(
        &self,
        table: Table<'_>,
        source: &Source<'_>,
        interface: &mut InterfaceConfig,
    ) -> Result<(), ConfigError> {
        interface.settings.set(table.read::<InterfaceKeys>(source)?.settings());
        Ok(())
    }

    fn reload(&self, started: &Config, new: &mut Config, waiting: &mut Vec<String>) {
        let (started, wanted) = (of(started), of(new));
        let [old, changed] = [&started.engine, &wanted.engine];
        let hold = |engine: &nsis::Config| engine.gist.associations.hold_time;
        for (key, differs) in [
            ("nsis.tcp and nsis.tls", !started.streams.has_same_ports(&wanted.streams)),
            ("nsis.identity", old.gist.identity != changed.gist.identity),
            ("nsis.hold", hold(old) != hold(changed)),
            ("nsis.level", old.qos.level != changed.qos.level),
            (
                "nsis.inner and nsis.aggregate",
                old.qos.inner != changed.qos.inner || old.qos.aggregates != changed.qos.aggregates,
            ),
        ] {
            waiting.extend(differs.then(|| key.to_owned()));
        }
        new.settings.set(NsisConfig {
            streams: wanted.streams.with_ports_of(&started.streams),
            engine: started.engine.renewed(wanted.engine),
        });
    }

    fn configure(&self, config: &Config, origin: Timestamp, node: &mut NodeConfig) {
        node.nsis = engine(config, origin);
    }

    fn reload_command(&self, config: &Config, origin: Timestamp) -> Option<Command> {
        Some(Command::Nsis(nsis::Command::Renew(Box::new(engine(config, origin)))))
    }

    fn wall_clock_command(&self, origin: Timestamp) -> Option<Command> {
        let wall_clock = since_1970(origin);
        Some(Command::Nsis(nsis::Command::WallClock { wall_clock }))
    }

    fn streams(&self, config: &Config) -> Option<streams::Settings> {
        Some(connections(config))
    }

    fn intercept(&self, interface: &InterfaceConfig, how: &mut InterfaceSignalling) {
        let NsisInterface { intercept } = interface.settings.get();
        how.gist = if interface.speaks(self.name()) { intercept } else { Gist::Off };
    }
}

fn of(config: &Config) -> NsisConfig {
    config.settings.get()
}

/// Settings of connections; without ports if no interface speaks NSIS.
fn connections(config: &Config) -> streams::Settings {
    let settings = of(config).streams;
    match config.interfaces.iter().any(|interface| interface.speaks(Nsis.name())) {
        true => settings,
        false => streams::Settings { tcp: None, tls: None, ..settings },
    }
}

/// Settings of an engine whose clock starts at `origin`, in which GIST announces the ports that this node listens on.
fn engine(config: &Config, origin: Timestamp) -> nsis::Config {
    let streams = connections(config);
    let mut engine = of(config).engine;
    engine.qos.tokens = config.tokens(origin);
    engine.natfw = config.settings.get::<NatfwSettings>().engine;
    engine.natfw.tokens = config.tokens(origin);
    let is_by_port = |interface: &&InterfaceConfig| {
        interface.settings.get::<NsisInterface>().intercept == Gist::Port
    };
    let by_port = config.interfaces.iter().filter(is_by_port);
    engine.gist.by_port = by_port.map(|interface| interface.name.clone()).collect();
    engine.gist.associations.tcp_port = streams.tcp;
    engine.gist.associations.tls_port = streams.tls.map(|tls| tls.port);
    engine
}
