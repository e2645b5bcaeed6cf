//! Reload of the configuration on SIGHUP: settings and keys of neighbors.

use std::path::PathBuf;

use earmark_core::Time;
use earmark_node::{Command, Input, NodeConfig};
use earmark_rsvp::Renewal;
use jiff::Timestamp;
use tracing::{info, warn};

use crate::config::{Config, ConfigError, KeyFile, Reloaded};
use crate::daemon::{node_config, streams_settings};
use crate::driver::Driver;
use crate::system::System;
use crate::watch::Watch;

/// State for reloads.
pub(crate) struct Reload {
    /// Settings of the file when the daemon started; `None` if there is no file.
    started: Option<Config>,
    /// Path of the key file.
    keys: Option<PathBuf>,
    /// Wall-clock time at which the clock started, for the lifetimes of keys.
    origin: Timestamp,
}

impl Reload {
    pub(crate) fn new(config: &Config, origin: Timestamp) -> Reload {
        // Overrides on the command line are not changes of the file.
        let started = config.file.as_ref().and_then(|file| Config::load(file).ok());
        let keys = config.integrity.as_ref().map(|integrity| integrity.keys.clone());
        Reload { started, keys, origin }
    }

    /// Reads settings and keys again. Invalid ones leave the old ones in force, and the log contains the error.
    pub(crate) fn read(&mut self, now: Time, watch: &mut Watch, driver: &mut Driver<System>) {
        match self.settings() {
            None => {}
            Some(Ok(Reloaded { config, waiting })) => {
                for key in waiting {
                    warn!("a change that waits for a restart of the daemon: {key}");
                }
                watch.reload(now, &config, driver);
                if let Err(error) = driver.kernel().streams.reload(&streams_settings(&config)) {
                    warn!(%error, "the old keys and certificates stay (nsis.tls)");
                }
                let NodeConfig { rsvp, nsis, .. } = node_config(&config, None, self.origin);
                let renewal = earmark_rsvp::Command::Renew(Box::new(Renewal::from(rsvp)));
                driver.handle(now, Input::Command(Command::Rsvp(renewal)));
                let renewal = earmark_nsis::Command::Renew(Box::new(nsis));
                driver.handle(now, Input::Command(Command::Nsis(renewal)));
                info!("settings read again");
            }
            Some(Err(error)) => warn!(%error, "the old settings stay"),
        }
        let Some(path) = &self.keys else { return };
        match KeyFile::load(path) {
            Ok(file) => {
                info!(keys = file.len(), "keys read again");
                let command = earmark_rsvp::Command::Keys { keys: file.keys(self.origin) };
                driver.handle(now, Input::Command(Command::Rsvp(command)));
            }
            Err(error) => warn!(%error, "the old keys stay"),
        }
    }

    fn settings(&mut self) -> Option<Result<Reloaded, ConfigError>> {
        let started = self.started.as_mut()?;
        let path = started.file.clone()?;
        Some(Config::load(&path).map(|new| started.reload(new)))
    }
}
