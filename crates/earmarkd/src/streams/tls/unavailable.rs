//! TLS of a program without cryptography: settings are refused, so that neither type has a value.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, TcpStream};

use earmark_core::CloseReason;

use super::TlsError;
use crate::streams::settings::TlsSettings;

/// Configurations of TLS: none.
#[derive(Clone, Debug)]
pub(in crate::streams) enum Tls {}

impl Tls {
    /// Refuses the settings.
    pub(in crate::streams) fn load(_: &TlsSettings) -> Result<Tls, TlsError> {
        Err(TlsError::Unavailable)
    }
}

/// A session of TLS: none.
#[derive(Debug)]
pub(in crate::streams) enum Session {}

impl Session {
    pub(in crate::streams) fn initiated(tls: &Tls, _: IpAddr) -> io::Result<Session> {
        match *tls {}
    }

    pub(in crate::streams) fn accepted(tls: &Tls) -> io::Result<Session> {
        match *tls {}
    }

    pub(in crate::streams) fn wants_write(&self) -> bool {
        match *self {}
    }

    pub(in crate::streams) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(in crate::streams) fn receive(
        &mut self,
        _: &TcpStream,
    ) -> Result<Option<usize>, CloseReason> {
        match *self {}
    }

    pub(in crate::streams) fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(in crate::streams) fn write(
        &mut self,
        _: &TcpStream,
        _: &mut VecDeque<u8>,
    ) -> io::Result<()> {
        match *self {}
    }

    pub(in crate::streams) fn write_records(&mut self, _: &TcpStream) -> io::Result<()> {
        match *self {}
    }

    pub(in crate::streams) fn close(&mut self) {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::streams::settings::Identity;

    #[test]
    fn settings_are_refused() {
        let settings = TlsSettings {
            port: 1,
            key: PathBuf::from("key.pem"),
            identity: Identity::PublicKeys(PathBuf::from("all.pem")),
        };
        assert!(matches!(Tls::load(&settings), Err(TlsError::Unavailable)));
    }
}
