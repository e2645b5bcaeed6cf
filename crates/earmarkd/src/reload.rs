//! Carries out changes of the configuration: settings and keys of neighbors reach the node and the host.

use earmark_core::Time;
use earmark_node::Input;
use jiff::Timestamp;
use tracing::{error, info, warn};

use crate::config::{Config, ConfigError};
use crate::driver::Driver;
use crate::key_file::KeyFile;
use crate::log::kind;
use crate::protocols;
use crate::system::System;
use crate::watch::Watch;

/// State for reloads.
pub(crate) struct Reload {
    /// Settings of the daemon's start: the key file, and the interfaces that need keys.
    running: Config,
    /// Wall-clock time at which the clock started, for the lifetimes of keys.
    origin: Timestamp,
}

impl Reload {
    pub(crate) fn new(config: &Config, origin: Timestamp) -> Reload {
        Reload { running: config.clone(), origin }
    }

    /// Applies settings, of which those in `waiting` need a restart.
    pub(crate) fn apply(
        &self,
        now: Time,
        (config, waiting): (&Config, &[String]),
        watch: &mut Watch,
        driver: &mut Driver<System>,
    ) {
        for key in waiting {
            warn!(
                kind = kind::RESTART_NEEDED.name,
                "a change takes effect after a restart of the daemon: {key}"
            );
        }
        watch.reload(now, config, driver);
        let (protocol, settings) = protocols::streams(config);
        if let Err(error) = driver.kernel().streams.reload(&settings) {
            error!(kind = kind::CONFIGURATION_REFUSED.name, %error, "the old keys and certificates stay ({protocol}.tls)");
        }
        for protocol in protocols::all() {
            let command = protocol.reload_command(config, self.origin);
            if let Some(command) = command {
                driver.handle(now, Input::Command(command));
            }
        }
    }

    /// Follows a jump of the wall clock, by which the engines' clock started at `origin`: the lifetimes of keys are dates.
    pub(crate) fn follow_wall_clock(
        &mut self,
        now: Time,
        origin: Timestamp,
        driver: &mut Driver<System>,
    ) {
        self.origin = origin;
        // The log contains a mistake in the key file.
        let _ = self.read_keys(now, driver);
    }

    /// Reads the keys again. With an invalid file the old ones stay, and the log contains the error.
    ///
    /// # Errors
    /// The first mistake that was found.
    pub(crate) fn read_keys(
        &self,
        now: Time,
        driver: &mut Driver<System>,
    ) -> Result<(), ConfigError> {
        match KeyFile::of(&self.running) {
            Ok(Some(file)) => {
                info!(
                    kind = kind::CONFIGURATION_RELOADED.name,
                    keys = file.count(),
                    "keys read again"
                );
                for command in file.commands(self.origin) {
                    driver.handle(now, Input::Command(command));
                }
            }
            Ok(None) => {}
            Err(error) => {
                error!(kind = kind::CONFIGURATION_REFUSED.name, %error, "the old keys stay");
                return Err(error);
            }
        }
        Ok(())
    }
}
