//! `[rsvp.notify]`: reports of errors directly to the nodes that ask for them (RFC 3473 section 4.3).

use earmark_rsvp::notify::Settings;
use serde::Deserialize;
use toml::Spanned;

use super::proxy::ReceiverTable;
use crate::config::{ConfigError, Source};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotifyTable {
    #[serde(default)]
    enabled: bool,
    request: Option<Spanned<bool>>,
    #[serde(default)]
    nodes: Vec<Spanned<String>>,
    per_second: Option<Spanned<u32>>,
}

impl Source<'_> {
    /// Reads the settings of Notify messages. Receiver proxies that use them need them enabled.
    pub(crate) fn notify(
        &self,
        table: &NotifyTable,
        proxies: &[ReceiverTable],
    ) -> Result<Settings, ConfigError> {
        const ENABLE: &str =
            "set enabled = true in [rsvp.notify], with the nodes that are believed";
        let request = table.request.as_ref();
        if let Some(request) = request.filter(|asks| *asks.get_ref() && !table.enabled) {
            return Err(self.error(request.span(), "Notify messages are disabled", ENABLE));
        }
        if let Some(request) = request.filter(|asks| *asks.get_ref() && table.nodes.is_empty()) {
            let message = "Notify messages are requested, and no node is believed";
            let hint = "name the routers in nodes, for example nodes = [\"10.0.0.0/8\"]";
            return Err(self.error(request.span(), message, hint));
        }
        let notified = proxies.iter().find_map(ReceiverTable::notify);
        if let Some(notify) = notified.filter(|_| !table.enabled) {
            return Err(self.error(notify.span(), "Notify messages are disabled", ENABLE));
        }
        let defaults = Settings::default();
        Ok(Settings {
            enabled: table.enabled,
            request: request.is_some_and(|asks| *asks.get_ref()),
            nodes: self.ranges(&table.nodes)?,
            per_second: self.count(table.per_second.clone(), defaults.per_second)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use earmark_rsvp::notify::Settings;

    use super::super::config::RsvpConfig;
    use crate::config::Config;

    fn read(text: &str) -> Result<RsvpConfig, String> {
        let config = Config::parse(text, Path::new("r1.toml"));
        config.map(|config| config.settings.get()).map_err(|error| error.to_string())
    }

    /// Nothing is sent, requested or believed by default, and each setting that has no effect is refused.
    #[test]
    fn notify_messages_are_enabled_with_the_nodes_that_are_believed() {
        let interface = "[[interface]]\nname = \"eth0\"\n";
        assert_eq!(read(interface).unwrap().notify, Settings::default());
        let notify = |keys: &str| read(&format!("{interface}[rsvp.notify]\n{keys}"));
        let keys = "enabled = true\nrequest = true\nnodes = [\"10.0.0.0/8\"]\nper_second = 7\n";
        let settings = notify(keys).unwrap().notify;
        assert!(settings.enabled && settings.request);
        assert_eq!((settings.nodes.len(), settings.per_second), (1, 7));
        for (keys, expected) in [
            ("request = true", "disabled"),
            ("enabled = true\nrequest = true", "no node is believed"),
            ("enabled = true\nnodes = [\"10.0.0.0/40\"]", "nodes"),
            ("enabled = true\nper_second = 0", "per_second"),
        ] {
            let error = notify(keys).unwrap_err();
            assert!(error.contains(expected), "{keys}: {error}");
        }
        let proxy = "[[receiver_proxy]]\nnotify = \"indirect\"\n";
        assert!(read(&format!("{interface}{proxy}")).unwrap_err().contains("disabled"));
        assert!(notify(&format!("enabled = true\n{proxy}")).is_ok());
        let silent = "[[receiver_proxy]]\npath_err = false\n";
        assert!(read(&format!("{interface}{silent}")).unwrap_err().contains("hears of no failure"));
    }
}
