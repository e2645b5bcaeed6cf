//! YESSIR's settings as those of a node and of the kernel.

use earmark_linux::InterfaceSignalling;
use earmark_node::{Command, NodeConfig};
use earmark_yessir as yessir;
use jiff::Timestamp;

use super::Yessir;
use super::config::{InterfaceKeys, YessirConfig, YessirInterface, YessirTables};
use crate::config::{Config, ConfigError, InterfaceConfig, Keys, Source, Table};
use crate::protocol::{Protocol, ProtocolConfig, ReadTables, SigningKeys, keep_all, read_as};
use crate::wall_clock::{sequence_number, since_1970};

impl ProtocolConfig for Yessir {
    fn tables(&self) -> &'static [Keys] {
        &[Keys { names: &["yessir"], before: "protocol" }]
    }

    fn interface_keys(&self) -> &'static [Keys] {
        &[Keys { names: &["yessir_intercept", "measure_rtp"], before: "udp_encapsulation" }]
    }

    fn reader(&self) -> ReadTables {
        read_as::<YessirTables>
    }

    fn read_interface(
        &self,
        table: Table<'_>,
        source: &Source<'_>,
        interface: &mut InterfaceConfig,
    ) -> Result<(), ConfigError> {
        let keys: InterfaceKeys = table.read(source)?;
        interface.settings.set(keys.settings(interface.speaks(self.name())));
        Ok(())
    }

    fn reload(&self, started: &Config, new: &mut Config, waiting: &mut Vec<String>) {
        keep_all::<YessirConfig>(self.name(), started, new, waiting);
    }

    fn reload_interface(
        &self,
        started: &InterfaceConfig,
        new: &mut InterfaceConfig,
    ) -> Vec<&'static str> {
        let measure_rtp = interface(started).measure_rtp;
        if measure_rtp == interface(new).measure_rtp {
            return Vec::new();
        }
        new.settings.change(|settings: &mut YessirInterface| settings.measure_rtp = measure_rtp);
        vec!["measure_rtp"]
    }

    fn configure(&self, config: &Config, origin: Timestamp, node: &mut NodeConfig) {
        let YessirConfig { mut engine, retry } = config.settings.get();
        engine.tokens = config.tokens(origin);
        engine.auth.interfaces = config.secured(self.name());
        engine.auth.sequence_start = sequence_number(origin);
        (node.yessir, node.retry) = (engine, retry);
    }

    fn reload_command(&self, config: &Config, origin: Timestamp) -> Option<Command> {
        let settings = config.tokens(origin);
        Some(Command::Yessir(yessir::Command::Tokens { settings }))
    }

    fn wall_clock_command(&self, origin: Timestamp) -> Option<Command> {
        let wall_clock = since_1970(origin);
        Some(Command::Yessir(yessir::Command::WallClock { wall_clock }))
    }

    fn signing_keys(&self) -> Option<&dyn SigningKeys> {
        Some(self)
    }

    fn intercept(&self, config: &InterfaceConfig, how: &mut InterfaceSignalling) {
        let YessirInterface { intercept, measure_rtp } = interface(config);
        let is_spoken = config.speaks(self.name());
        how.yessir = if is_spoken { intercept } else { earmark_linux::Yessir::Off };
        how.sender_reports = measure_rtp;
    }
}

fn interface(config: &InterfaceConfig) -> YessirInterface {
    config.settings.get()
}
