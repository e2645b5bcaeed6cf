//! Reload of the configuration on SIGHUP: settings and keys of neighbors.

use earmark_core::Time;
use earmark_node::Input;
use jiff::Timestamp;
use tracing::{error, info, warn};

use crate::config::{Config, ConfigError, Reloaded};
use crate::driver::Driver;
use crate::key_file::KeyFile;
use crate::log::kind;
use crate::protocols;
use crate::system::System;
use crate::watch::Watch;

/// State for reloads.
pub(crate) struct Reload {
    /// Settings of the file when the daemon started; `None` if there is no file.
    started: Option<Config>,
    /// Settings by which the daemon runs: the key file, and the interfaces that need keys.
    running: Config,
    /// Wall-clock time at which the clock started, for the lifetimes of keys.
    origin: Timestamp,
}

impl Reload {
    pub(crate) fn new(config: &Config, origin: Timestamp) -> Reload {
        // Overrides on the command line are not changes of the file.
        let started = config.file.as_ref().and_then(|file| Config::load(file).ok());
        Reload { started, running: config.clone(), origin }
    }

    /// Reads settings and keys again. Invalid ones leave the old ones in force, and the log contains the error.
    ///
    /// # Errors
    /// The first mistake that was found.
    pub(crate) fn read(
        &mut self,
        now: Time,
        watch: &mut Watch,
        driver: &mut Driver<System>,
    ) -> Result<(), ConfigError> {
        let settings = match self.settings() {
            None => Ok(()),
            Some(Ok(Reloaded { config, waiting })) => {
                for key in waiting {
                    warn!(
                        kind = kind::RESTART_NEEDED.name,
                        "a change takes effect after a restart of the daemon: {key}"
                    );
                }
                watch.reload(now, &config, driver);
                let (protocol, settings) = protocols::streams(&config);
                if let Err(error) = driver.kernel().streams.reload(&settings) {
                    error!(kind = kind::CONFIGURATION_REFUSED.name, %error, "the old keys and certificates stay ({protocol}.tls)");
                }
                for protocol in protocols::all() {
                    let command = protocol.reload_command(&config, self.origin);
                    if let Some(command) = command {
                        driver.handle(now, Input::Command(command));
                    }
                }
                info!(kind = kind::CONFIGURATION_RELOADED.name, "settings read again");
                Ok(())
            }
            Some(Err(error)) => {
                error!(kind = kind::CONFIGURATION_REFUSED.name, %error, "the old settings stay");
                Err(error)
            }
        };
        settings.and(self.read_keys(now, driver))
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

    /// Reads the keys again. With an invalid file the old ones stay.
    fn read_keys(&self, now: Time, driver: &mut Driver<System>) -> Result<(), ConfigError> {
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

    fn settings(&mut self) -> Option<Result<Reloaded, ConfigError>> {
        let started = self.started.as_mut()?;
        let path = started.file.clone()?;
        Some(Config::load(&path).map(|new| started.reload(new)))
    }
}
