//! Boomerang's settings as those of a node and of the kernel.

use std::io;

use earmark_boomerang as boomerang;
use earmark_linux::{InterfaceSignalling, Offload};
use earmark_node::{Command, NodeConfig};
use jiff::Timestamp;

use super::config::{BoomerangConfig, BoomerangTables};
use super::{Boomerang, offload};
use crate::config::{Config, InterfaceConfig, Keys};
use crate::protocol::{
    KernelOffload, Protocol, ProtocolConfig, ReadTables, SigningKeys, keep_all, read_as,
};
use crate::wall_clock::since_1970;

impl ProtocolConfig for Boomerang {
    fn tables(&self) -> &'static [Keys] {
        &[Keys { names: &["boomerang"], before: "protocol" }]
    }

    fn reader(&self) -> ReadTables {
        read_as::<BoomerangTables>
    }

    fn reload(&self, started: &Config, new: &mut Config, waiting: &mut Vec<String>) {
        keep_all::<BoomerangConfig>(self.name(), started, new, waiting);
    }

    fn configure(&self, config: &Config, origin: Timestamp, node: &mut NodeConfig) {
        node.boomerang = config.settings.get::<BoomerangConfig>().engine;
        node.boomerang.tokens = config.tokens(origin);
        node.boomerang.credentials.interfaces = config.secured(self.name());
    }

    fn reload_command(&self, config: &Config, origin: Timestamp) -> Option<Command> {
        Some(Command::Boomerang(boomerang::Command::Tokens(config.tokens(origin))))
    }

    fn wall_clock_command(&self, origin: Timestamp) -> Option<Command> {
        let wall_clock = since_1970(origin);
        Some(Command::Boomerang(boomerang::Command::WallClock { wall_clock }))
    }

    fn signing_keys(&self) -> Option<&dyn SigningKeys> {
        Some(self)
    }

    fn intercept(&self, interface: &InterfaceConfig, how: &mut InterfaceSignalling) {
        how.boomerang = interface.speaks(self.name());
    }

    fn start_offload(
        &self,
        config: &Config,
        node: &mut NodeConfig,
        path: Option<&Offload>,
    ) -> io::Result<Option<Box<dyn KernelOffload>>> {
        offload::start(config.settings.get::<BoomerangConfig>().share, &mut node.boomerang, path)
    }
}
