//! Qos NSLP: to be written.
use alloc::vec::Vec;

use earmark_core::random::RandomStreams;
use serde::{Deserialize, Serialize};

use crate::nslp::{MessageHandle, NetworkNotification, Nslp, Peering, Received, SendFailure, Turn};

/// Settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {}

/// What an application asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {}

/// What Qos NSLP tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {}

/// Qos NSLP on one node.
#[derive(Debug)]
pub struct QosNslp {}

impl QosNslp {
    pub(crate) fn new(_config: Config, _random: &RandomStreams) -> QosNslp {
        QosNslp {}
    }
}

impl QosNslp {
    #[allow(clippy::needless_pass_by_value)] // there is none yet
    pub(crate) fn command(&mut self, _turn: &mut Turn<'_, '_>, command: Command) {
        match command {}
    }
}

impl Nslp for QosNslp {
    fn id(&self) -> u16 {
        *earmark_wire::gist::iana::nslpid::QOS.start()
    }

    fn may_peer(
        &mut self,
        _turn: &mut Turn<'_, '_>,
        _query: &Received<'_>,
        _answer: &mut Vec<u8>,
    ) -> Peering {
        Peering::Pass
    }

    fn receive(&mut self, _turn: &mut Turn<'_, '_>, _message: &Received<'_>) {}

    fn status(&mut self, _turn: &mut Turn<'_, '_>, _message: MessageHandle, _failure: SendFailure) {
    }

    fn notify(&mut self, _turn: &mut Turn<'_, '_>, _notification: &NetworkNotification) {}
}
