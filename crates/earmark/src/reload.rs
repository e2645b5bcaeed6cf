//! Reading the configuration again while the daemon runs (SIGHUP): settings, and the keys of neighbours.

use std::path::PathBuf;

use earmark_core::Time;
use earmark_node::{Command, Input, NodeConfig};
use earmark_rsvp::Renewal;
use jiff::Timestamp;
use tracing::{info, warn};

use crate::config::{Config, ConfigError, KeyFile, Renewed};
use crate::daemon::{node_config, streams_settings};
use crate::driver::Driver;
use crate::system::System;
use crate::watch::Watch;

/// What has to be known for it.
pub(crate) struct Reload {
    /// The settings as the file had them when the daemon started; `None` where they come from no file.
    started: Option<Config>,
    /// The key file.
    keys: Option<PathBuf>,
    /// The moment when the clock began, by which keys count their time.
    origin: Timestamp,
}

impl Reload {
    pub(crate) fn new(config: &Config, origin: Timestamp) -> Reload {
        // What the command line said otherwise is no difference to be told of.
        let started = config.file.as_ref().and_then(|file| Config::load(file).ok());
        let keys = config.integrity.as_ref().map(|integrity| integrity.keys.clone());
        Reload { started, keys, origin }
    }

    /// Reads everything again. What cannot be used leaves the old in force, and the log says where it is wrong.
    pub(crate) fn read(&mut self, now: Time, watch: &mut Watch, driver: &mut Driver<System>) {
        match self.settings() {
            None => {}
            Some(Ok(Renewed { config, waiting })) => {
                for key in waiting {
                    warn!("a change that waits for a restart of the daemon: {key}");
                }
                watch.renew(now, &config, driver);
                if let Err(error) = driver.kernel().streams.renew(&streams_settings(&config)) {
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

    fn settings(&mut self) -> Option<Result<Renewed, ConfigError>> {
        let started = self.started.as_mut()?;
        let path = started.file.clone()?;
        Some(Config::load(&path).map(|new| started.renew(new)))
    }
}
