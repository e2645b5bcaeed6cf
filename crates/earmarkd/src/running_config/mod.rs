//! The configuration by which a daemon runs, and its changes: compare, apply, confirm, roll back.
//!
//! Requests and signals change this state at once. What they change in node and host is a [`ConfigChange`], which the event
//! loop carries out.

mod differences;
mod links;
mod rollback_file;

use std::io;
use std::path::Path;
use std::time::Duration;

use earmark_control::{ConfigAnswer, LinkRow, PendingConfig, Problem, ProblemCode};
use earmark_core::Time;
use tracing::{error, info, warn};

use self::differences::{Differences, differences};
use self::rollback_file::{Rollback, RollbackFile, RollbackState};
use crate::config::{Config, ConfigError, Place, Reloaded, Values};
use crate::key_file::KeyFile;
use crate::log::kind;
use crate::protocols;
use crate::streams::Streams;

/// Longest time until a confirmation.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3_600);
/// Shortest time until a confirmation.
const MIN_WAIT: Duration = Duration::from_secs(1);

const HOW_TO_END: &str =
    "`earmark config confirm` keeps these settings, `earmark config rollback` takes them back";

/// Settings that the event loop has to apply to node and host.
#[derive(Debug)]
pub struct ConfigChange {
    /// The settings. Interfaces that they do not name take part no more.
    pub config: Config,
    /// Keys that need a restart.
    pub waiting: Vec<String>,
    /// Why the settings in the files do not run, for the service manager.
    pub obstacle: Option<ConfigError>,
}

/// The configuration by which a daemon runs.
#[derive(Debug, Default)]
pub struct RunningConfig(Option<Running>);

#[derive(Clone, Debug)]
struct State {
    /// Settings of the daemon's start, and interfaces that were added since: what a reload cannot change.
    started: Config,
    /// Settings that run.
    config: Config,
    /// Settings that were read last.
    read: Config,
    /// Values that run, as the files have them.
    values: Values,
}

#[derive(Debug)]
struct Running {
    state: State,
    /// User that has started the daemon.
    started_by: u32,
    /// `None` if the daemon has no directory for it.
    file: Option<RollbackFile>,
    pending: Option<Pending>,
    change: Option<ConfigChange>,
}

/// Settings that await confirmation.
#[derive(Debug)]
struct Pending {
    until: Time,
    by: String,
    /// State to go back to.
    earlier: Box<State>,
}

/// What an apply would do.
struct Plan {
    state: State,
    waiting: Vec<String>,
    answer: ConfigAnswer,
}

/// Reads the configuration for the start of a daemon: that of the file, or the earlier one if a daemon before has applied the file
/// and nobody has confirmed it. Later daemons use the file again once its text changes.
///
/// # Errors
/// The configuration or the earlier one cannot be read.
pub fn load(path: &Path, state_directory: &Path) -> Result<Config, ConfigError> {
    let at = |error: io::Error| ConfigError::unreadable(path, &error);
    let file = RollbackFile::new(state_directory, path).map_err(at)?;
    let Some(Rollback { earlier, state }) = file.read()? else { return Config::load(path) };
    // A daemon that starts without this right changes nothing.
    let failed = |error: io::Error| {
        warn!(%error, directory = %state_directory.display(), "cannot write the state directory");
    };
    let present = Config::read_files(path).ok();
    match state {
        RollbackState::TakenBack(refused) if refused != present => {
            file.remove().unwrap_or_else(failed);
            return Config::load(path);
        }
        RollbackState::TakenBack(_) => {}
        RollbackState::Pending => {
            let state = RollbackState::TakenBack(present);
            let rollback = Rollback { earlier: earlier.clone(), state };
            file.write(&rollback).unwrap_or_else(failed);
        }
    }
    warn!(
        kind = kind::CONFIGURATION_ROLLED_BACK.name,
        file = %path.display(),
        "nobody has confirmed this configuration: the earlier one is used until the file changes, or is reloaded or applied"
    );
    Config::parse_files(path.to_owned(), earlier)
}

impl RunningConfig {
    /// Creates the state of a daemon that starts with these settings.
    ///
    /// # Errors
    /// The texts of the files cannot be parsed.
    pub fn new(config: &Config) -> Result<RunningConfig, ConfigError> {
        let Some(path) = config.file.clone() else { return Ok(RunningConfig::default()) };
        // Overrides on the command line are not changes of the file.
        let started = Config::parse_files(path.clone(), config.files.clone())?;
        let directory = config.state_directory.as_deref();
        let state = State {
            config: started.clone(),
            read: started.clone(),
            values: config.files.values()?,
            started,
        };
        Ok(RunningConfig(Some(Running {
            state,
            started_by: own_user(),
            file: directory.and_then(|directory| RollbackFile::new(directory, &path).ok()),
            pending: None,
            change: None,
        })))
    }

    /// Compares the running settings with those in the files.
    ///
    /// # Errors
    /// An apply would be refused.
    pub fn compare(
        &self,
        now: Time,
        rows: impl Iterator<Item = LinkRow>,
    ) -> Result<ConfigAnswer, Problem> {
        let running = self.0.as_ref().ok_or_else(no_file)?;
        let plan = running.checked_plan(rows).map_err(problem)?;
        Ok(ConfigAnswer { pending: running.pending_row(now), ..plan.answer })
    }

    /// Applies the settings in the files, and takes them back after a time unless they are confirmed.
    ///
    /// # Errors
    /// Others await confirmation, the files have a mistake, or the earlier settings cannot be kept on disk. Nothing changes.
    pub fn apply(
        &mut self,
        now: Time,
        within: Option<Duration>,
        by: String,
        rows: impl Iterator<Item = LinkRow>,
    ) -> Result<ConfigAnswer, Problem> {
        let running = self.0.as_mut().ok_or_else(no_file)?;
        if let Some(pending) = running.pending_row(now) {
            let left = pending.left_ms.div_ceil(1_000);
            let message =
                format!("settings of {} await confirmation for {left} s more", pending.by);
            return Err(Problem::new(ProblemCode::Rejected, message, HOW_TO_END));
        }
        if within.is_some_and(|within| !(MIN_WAIT..=MAX_WAIT).contains(&within)) {
            let message = "the time until a confirmation is out of range";
            let hint = "from 1s to a day (1440min) are possible";
            return Err(Problem::new(ProblemCode::Rejected, message, hint));
        }
        let plan = running.checked_plan(rows).map_err(problem)?;
        match within {
            Some(_) => running.keep_earlier()?,
            None => running.forget_earlier().map_err(|error| cannot_forget(&error))?,
        }
        let earlier = Box::new(running.carry_out(plan.state, plan.waiting, None));
        running.pending = within.map(|within| Pending { until: now + within, by, earlier });
        info!(
            kind = kind::CONFIGURATION_RELOADED.name,
            confirm_within_s = within.map(|within| within.as_secs_f64()),
            "settings applied"
        );
        Ok(ConfigAnswer { pending: running.pending_row(now), ..plan.answer })
    }

    /// Keeps the settings that await confirmation.
    ///
    /// # Errors
    /// None do, or the earlier settings cannot be removed from disk; they are taken back in time then.
    pub fn confirm(&mut self) -> Result<ConfigAnswer, Problem> {
        let running = self.0.as_mut().ok_or_else(no_file)?;
        if running.pending.is_none() {
            return Err(nothing_pending());
        }
        running.forget_earlier().map_err(|error| cannot_forget(&error))?;
        running.pending = None;
        info!(kind = kind::CONFIGURATION_RELOADED.name, "settings confirmed");
        Ok(ConfigAnswer { files: names(&running.state.read), ..ConfigAnswer::default() })
    }

    /// Takes the settings back that await confirmation.
    ///
    /// # Errors
    /// None do.
    pub fn roll_back(&mut self) -> Result<ConfigAnswer, Problem> {
        let running = self.0.as_mut().ok_or_else(no_file)?;
        let pending = running.pending.take().ok_or_else(nothing_pending)?;
        running.take_back(pending, "were taken back");
        Ok(ConfigAnswer { files: names(&running.state.read), ..ConfigAnswer::default() })
    }

    /// Takes the settings back whose time has passed.
    pub fn expire(&mut self, now: Time) {
        let Some(running) = &mut self.0 else { return };
        if let Some(pending) = running.pending.take_if(|pending| pending.until <= now) {
            running.take_back(pending, "were not confirmed in time");
        }
    }

    /// Time by which [`RunningConfig::expire`] must be called.
    pub fn next_deadline(&self) -> Option<Time> {
        Some(self.0.as_ref()?.pending.as_ref()?.until)
    }

    /// Reads the files again and keeps their settings, on SIGHUP.
    ///
    /// # Errors
    /// Settings await confirmation, or the files have a mistake. Nothing changes.
    pub fn reload(&mut self, now: Time) -> Result<(), ConfigError> {
        let Some(running) = &mut self.0 else { return Ok(()) };
        if let Some(pending) = running.pending_row(now) {
            let left = pending.left_ms.div_ceil(1_000);
            let message = format!("not read: settings await confirmation for {left} s more");
            return Err(ConfigError::at(running.place(), message, HOW_TO_END));
        }
        let plan = running.plan(std::iter::empty())?;
        // The operator has asked for the file, whatever was taken back before.
        running.forget_earlier().map_err(|error| {
            let Problem { message, hint, .. } = cannot_forget(&error);
            ConfigError::at(running.place(), message, hint)
        })?;
        running.carry_out(plan.state, plan.waiting, None);
        info!(kind = kind::CONFIGURATION_RELOADED.name, "settings read again");
        Ok(())
    }

    /// Returns the change that the event loop has to carry out, once.
    pub fn take_change(&mut self) -> Option<ConfigChange> {
        self.0.as_mut()?.change.take()
    }
}

impl Running {
    /// Reads the files, and finds out what a reload makes of them, if the keys and certificates can be read that they name.
    fn checked_plan(&self, rows: impl Iterator<Item = LinkRow>) -> Result<Plan, ConfigError> {
        let plan = self.plan(rows)?;
        let read = &plan.state.read;
        KeyFile::of(read)?;
        let (protocol, streams) = protocols::streams(read);
        Streams::check(&streams).map_err(|error| {
            let place = Place { key: format!("{protocol}.tls"), ..self.place() };
            ConfigError::at(
                place,
                error.to_string(),
                "the key and the certificates of TLS are files",
            )
        })?;
        Ok(plan)
    }

    /// Reads the files, and finds out what a reload makes of them.
    fn plan(&self, rows: impl Iterator<Item = LinkRow>) -> Result<Plan, ConfigError> {
        let read = Config::load(&self.place().file)?;
        let mut started = self.state.started.clone();
        let Reloaded { config, waiting } = started.reload(read.clone());
        let new = read.files.values()?;
        let Differences { rows: differences, more, after_reload: values } =
            differences(&self.state.values, &new, &waiting);
        let links = links::links(&self.state.config, &config, &read, rows);
        let answer = ConfigAnswer { files: names(&read), differences, more, links, pending: None };
        Ok(Plan { state: State { started, config, read, values }, waiting, answer })
    }

    /// Replaces the state, and returns the one before.
    fn carry_out(
        &mut self,
        state: State,
        waiting: Vec<String>,
        obstacle: Option<ConfigError>,
    ) -> State {
        self.change = Some(ConfigChange { config: state.config.clone(), waiting, obstacle });
        std::mem::replace(&mut self.state, state)
    }

    /// Goes back to the state before the pending settings. On disk the earlier configuration stays: the files of the operator still
    /// have the settings that were taken back.
    fn take_back(&mut self, pending: Pending, why: &str) {
        let message = format!("the settings of {} {why}", pending.by);
        warn!(kind = kind::CONFIGURATION_ROLLED_BACK.name, "{message}; the earlier ones run again");
        let place = self.place();
        let state = RollbackState::TakenBack(Config::read_files(&place.file).ok());
        let earlier = pending.earlier.read.files.clone();
        let written = self.file.as_ref().map(|file| file.write(&Rollback { earlier, state }));
        if let Some(Err(error)) = written {
            // The file has the state before, by which the next daemon takes the settings back, too.
            warn!(%error, "cannot write the state directory");
        }
        let hint = "change the file, or apply it again";
        let obstacle = ConfigError::at(place, message, hint);
        self.carry_out(*pending.earlier, Vec::new(), Some(obstacle));
    }

    /// Keeps the running configuration on disk.
    fn keep_earlier(&self) -> Result<(), Problem> {
        let refused = |message: String, hint| Problem::new(ProblemCode::Rejected, message, hint);
        let Some(file) = &self.file else {
            return Err(refused(
                "the daemon has no directory to keep the earlier configuration in".to_owned(),
                "`earmarkd --state-directory PATH` names one",
            ));
        };
        if own_user() != self.started_by {
            return Err(refused(
                "the daemon has changed its user (daemon.user): a daemon that root starts does not \
                 trust files of this user, and could not go back"
                    .to_owned(),
                "start the daemon as its user (User= in the unit), or apply without a confirmation",
            ));
        }
        let earlier = self.state.read.files.clone();
        file.write(&Rollback { earlier, state: RollbackState::Pending }).map_err(|error| {
            refused(
                format!("cannot keep the earlier configuration in the state directory: {error}"),
                "create the directory for the user of the daemon (StateDirectory= in the unit), \
                 or name another by `earmarkd --state-directory PATH`",
            )
        })
    }

    fn forget_earlier(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), RollbackFile::remove)
    }

    fn pending_row(&self, now: Time) -> Option<PendingConfig> {
        let Pending { until, by, .. } = self.pending.as_ref()?;
        let left = until.since(now).as_millis();
        Some(PendingConfig { left_ms: u64::try_from(left).unwrap_or(u64::MAX), by: by.clone() })
    }

    fn place(&self) -> Place {
        let file = self.state.started.file.clone().unwrap_or_default();
        Place { file, ..Place::default() }
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn names(config: &Config) -> Vec<String> {
    config.files.paths().map(|path| path.display().to_string()).collect()
}

fn problem(error: ConfigError) -> Problem {
    let message = format!("{}: {}", error.place, error.message);
    Problem::new(ProblemCode::Rejected, message, error.hint)
}

fn no_file() -> Problem {
    let message = "the daemon runs without a configuration file";
    Problem::new(ProblemCode::Rejected, message, "`earmarkd --config FILE` starts it with one")
}

fn nothing_pending() -> Problem {
    let hint = "the time may be over, which the log shows; `earmark config diff` shows what runs";
    Problem::new(ProblemCode::Rejected, "no settings await confirmation", hint)
}

fn cannot_forget(error: &io::Error) -> Problem {
    error!(%error, "cannot write the state directory");
    let message =
        format!("cannot remove the earlier configuration from the state directory: {error}");
    Problem::new(ProblemCode::Rejected, message, "the daemon's user needs to write there")
}
