//! Protocols of an interface.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::source::Source;
use super::{ConfigError, Protocols};

/// A protocol that an interface can speak.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProtocolName {
    Rsvp,
    Boomerang,
    Yessir,
    Nsis,
}

impl Source<'_> {
    /// The protocols of an interface; by default all that are possible.
    pub(super) fn protocols(
        &self,
        names: Option<&Spanned<Vec<ProtocolName>>>,
        udp_only: bool,
    ) -> Result<Protocols, ConfigError> {
        let Some(names) = names else {
            return Ok(Protocols {
                boomerang: !udp_only,
                yessir: !udp_only,
                nsis: !udp_only,
                ..Protocols::default()
            });
        };
        let has = |name| names.get_ref().contains(&name);
        let protocols = Protocols {
            rsvp: has(ProtocolName::Rsvp),
            boomerang: has(ProtocolName::Boomerang),
            yessir: has(ProtocolName::Yessir),
            nsis: has(ProtocolName::Nsis),
        };
        if udp_only && (protocols.boomerang || protocols.yessir || protocols.nsis) {
            return Err(self.error(
                names.span(),
                "with rsvp.udp_only nothing but RSVP can be signalled",
                "protocols = [\"rsvp\"], or leave udp_only out and grant CAP_NET_RAW",
            ));
        }
        Ok(protocols)
    }

    /// Reads a burst, as a time at the reserved rate.
    pub(crate) fn burst(
        &self,
        text: Option<&Spanned<String>>,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        let hint = "how much may come at once, as a time at the reserved rate: from 1ms to 10s";
        self.duration(text, Duration::from_millis(1)..=Duration::from_secs(10), default, hint)
    }
}
