//! The daemon's log: lines with a level, a target, a kind and fields, to standard error or to the journal.
//!
//! Writing a line never waits for its reader. A line that the reader does not take is lost and counted, and the number of lost
//! lines is the first line that is written again. `kind` lists the lines that an operator may search for, `target` the parts of
//! the daemon, `levels` what each of them writes, `limit` bounds lines that other hosts cause, `format` has the forms of a line,
//! and `output` its readers.

mod format;
pub mod kind;
mod levels;
mod limit;
mod output;
mod record;
mod target;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use earmark_control::{LogAnswer, LogLevel, LogLevels, LogRequest, LogTargetRow};
use serde::Serialize;
use tracing::dispatcher::{self, Dispatch};
use tracing::span;
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Metadata};

use format::Format;
use kind::Kind;
use levels::Levels;
use limit::Limits;
use output::{JOURNAL, Journal, Output, Stream, is_journal_stream};
use record::{Record, level_of};
use target::{DAEMON, Targets};

pub use target::UnknownTarget;

/// Pause before the next attempt to write to a reader that took no line.
const RETRY: Duration = Duration::from_millis(50);
/// Octets of a line for which memory is kept.
const KEPT: usize = 4_096;

/// What the log is like at the start.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Levels by target; `info` for those that are not named.
    pub levels: LogLevels,
    /// Form of the lines; by default that of the journal if standard error leads there, and text otherwise.
    pub format: Option<LogFormat>,
}

/// Form of the log as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line of text on standard error.
    Text,
    /// A JSON object a line on standard error.
    Json,
    /// The journal's native protocol.
    Journal,
}

/// Why the log cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A level is for an unknown target.
    #[error(transparent)]
    Target(#[from] UnknownTarget),
    /// The journal does not answer.
    #[error(
        "cannot reach the journal at {JOURNAL}: {0}\n  help: `--log-format text` writes to standard error"
    )]
    Journal(io::Error),
}

/// Counters of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LogCounters {
    /// Lines that were written.
    pub lines: u64,
    /// Lines that were lost because the reader did not take them.
    pub lost: u64,
    /// Lines that were left out because there were too many of their kind.
    pub suppressed: u64,
}

/// A log; copies share it.
#[derive(Clone, Debug)]
pub struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    format: Format,
    targets: Targets,
    levels: Levels,
    /// Whether [`Log::tick`] has work now or later.
    has_work: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    output: Output,
    limits: Limits,
    counters: LogCounters,
    /// Lines lost since the last line that was written.
    unreported: u64,
    /// Time before which nothing is written to a reader that took no line.
    retry_at: Option<Instant>,
    buffer: Vec<u8>,
}

impl Default for Log {
    /// Returns a log that nobody reads.
    fn default() -> Log {
        let targets = Targets::new([]);
        let levels = Levels::new(vec![LogLevel::Off; targets.len()]);
        Log::new(Format::Text, targets, levels, Output::Nothing)
    }
}

impl Log {
    /// Starts the log of this process with the parts of the daemon and these protocols as targets.
    ///
    /// # Errors
    /// A level is for an unknown target, or the journal is wanted and cannot be reached.
    pub fn start(
        options: &LogOptions,
        protocols: impl IntoIterator<Item = &'static str>,
    ) -> Result<Log, LogError> {
        let targets = Targets::new(protocols);
        let levels = targets.levels(&options.levels.0, &vec![LogLevel::Info; targets.len()])?;
        let variable = std::env::var("JOURNAL_STREAM").ok();
        let stderr = rustix::stdio::stderr();
        let is_journal = is_journal_stream(stderr, variable.as_deref());
        let text = if is_journal { Format::TextWithoutTime } else { Format::Text };
        // A closed standard error takes nothing.
        let stream = || Stream::to(stderr).map_or(Output::Nothing, Output::Stream);
        let (format, output) = match options.format {
            Some(LogFormat::Text) => (text, stream()),
            Some(LogFormat::Json) => (Format::Json, stream()),
            Some(LogFormat::Journal) => {
                let journal = Journal::open(Path::new(JOURNAL)).map_err(LogError::Journal)?;
                (Format::Journal, Output::Journal(journal))
            }
            None if is_journal => match Journal::open(Path::new(JOURNAL)) {
                Ok(journal) => (Format::Journal, Output::Journal(journal)),
                Err(_) => (text, stream()),
            },
            None => (text, stream()),
        };
        let log = Log::new(format, targets, Levels::new(levels), output);
        // A program that embeds the daemon may have a subscriber of its own; then it gets the lines of tracing.
        let _ = dispatcher::set_global_default(Dispatch::new(log.clone()));
        Ok(log)
    }

    fn new(format: Format, targets: Targets, levels: Levels, output: Output) -> Log {
        let state = State {
            output,
            limits: Limits::default(),
            counters: LogCounters::default(),
            unreported: 0,
            retry_at: None,
            buffer: Vec::new(),
        };
        let has_work = AtomicBool::new(false);
        Log(Arc::new(Inner { format, targets, levels, has_work, state: Mutex::new(state) }))
    }

    /// Returns whether the lines are text for people.
    pub fn is_text(&self) -> bool {
        matches!(self.0.format, Format::Text | Format::TextWithoutTime)
    }

    /// Returns the counters.
    pub(crate) fn counters(&self) -> LogCounters {
        self.state().counters
    }

    /// Writes a line of a kind unless its target has a quieter level. Message and fields are made only if it is written.
    pub(crate) fn line(
        &self,
        kind: &'static Kind,
        target: &str,
        message: impl FnOnce() -> String,
        fields: impl FnOnce(&mut Fields<'_>),
    ) {
        let Inner { targets, levels, .. } = &*self.0;
        let level = level_of(kind.level);
        if level > levels.most_detailed() {
            return;
        }
        let place = targets.find(target).unwrap_or(DAEMON);
        if level > levels.of(place) || kind.is_limited && !self.admits(kind.name) {
            return;
        }
        let mut record = Record::of_kind(kind, targets.name(place), message());
        fields(&mut Fields(&mut record));
        self.put(&record);
    }

    /// Writes an error that ends the program, whatever the levels are.
    pub(crate) fn fatal(&self, kind: &'static Kind, message: String) {
        self.put(&Record::of_kind(kind, self.0.targets.name(DAEMON), message));
    }

    /// Changes the levels, and writes a line about it whatever they are.
    ///
    /// # Errors
    /// A target does not exist; nothing was changed.
    pub(crate) fn set(&self, request: &LogRequest, uid: u32) -> Result<(), UnknownTarget> {
        let Inner { targets, levels, .. } = &*self.0;
        let before = if request.reset { levels.started_with() } else { levels.now() };
        let wanted = targets.levels(&request.set, &before)?;
        let end = request.for_ms.map(Duration::from_millis);
        let text = LogLevels(request.set.clone()).to_string();
        let text = match (request.reset, end) {
            (true, _) if request.set.is_empty() => {
                "levels of the log are those of the start".into()
            }
            (_, None) => format!("levels of the log: {text}"),
            (_, Some(end)) => format!("levels of the log: {text} for {} s", end.as_secs_f64()),
        };
        let target = targets.name(targets.find("audit").unwrap_or(DAEMON));
        let mut record = Record::of_kind(&kind::LOG_LEVELS_CHANGED, target, text);
        record.add("uid", uid);
        self.put(&record);
        if request.reset {
            levels.reset();
        }
        let end = end.and_then(|end| Instant::now().checked_add(end));
        for (place, level) in wanted.into_iter().enumerate() {
            if targets.is_named(place, &request.set) {
                levels.set(place, level, end);
            }
        }
        self.0.has_work.store(true, Ordering::Relaxed);
        tracing_core::callsite::rebuild_interest_cache();
        Ok(())
    }

    /// Returns form, targets and levels.
    pub(crate) fn answer(&self) -> LogAnswer {
        let Inner { format, targets, levels, .. } = &*self.0;
        let now = Instant::now();
        let row = |place| LogTargetRow {
            target: targets.name(place).to_owned(),
            level: levels.of(place),
            started_with: levels.started_with()[place],
            for_ms: levels.end(place).map(|end| {
                u64::try_from(end.saturating_duration_since(now).as_millis()).unwrap_or(u64::MAX)
            }),
            about: targets.about(place).to_owned(),
        };
        LogAnswer {
            format: format.name().to_owned(),
            targets: (0..targets.len()).map(row).collect(),
        }
    }

    /// Does the work that is due: returns targets to their levels, reports lines that were lost or left out, and completes a
    /// line that was written in part. Must be called after [`Log::wakeup_after`].
    pub(crate) fn tick(&self) {
        let Inner { levels, targets, has_work, .. } = &*self.0;
        if !has_work.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        let ended = levels.take_ended(now);
        if !ended.is_empty() {
            tracing_core::callsite::rebuild_interest_cache();
        }
        for place in ended {
            let (name, level) = (targets.name(place), levels.of(place));
            let text = format!("level of the log of {name} is {level} again");
            self.put(&Record::of_kind(&kind::LOG_LEVELS_CHANGED, targets.name(DAEMON), text));
        }
        let suppressed = self.state().limits.take_suppressed(now);
        for (of, count) in suppressed {
            let text = format!("{count} more lines like the last {of} were left out");
            let mut record = Record::of_kind(&kind::LINES_SUPPRESSED, targets.name(DAEMON), text);
            record.add("of", of);
            record.add("count", count);
            self.put(&record);
        }
        let mut state = self.state();
        let is_finished = state.finish(self.0.format, targets.name(DAEMON), now);
        let is_idle = is_finished && state.limits.next_deadline().is_none();
        has_work.store(!is_idle || levels.next_end().is_some(), Ordering::Relaxed);
    }

    /// Returns after which time [`Log::tick`] must be called.
    pub(crate) fn wakeup_after(&self) -> Option<Duration> {
        if !self.0.has_work.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.state();
        let due = [state.limits.next_deadline(), self.0.levels.next_end(), state.retry_at];
        // Work without a time is done at once.
        let at = due.into_iter().flatten().min();
        Some(at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now())))
    }

    /// Returns whether a line of this sort, a kind or a place in the code, may be written.
    fn admits(&self, sort: &'static str) -> bool {
        let mut state = self.state();
        let is_admitted = state.limits.admits(sort, Instant::now());
        if !is_admitted {
            state.counters.suppressed += 1;
            self.0.has_work.store(true, Ordering::Relaxed);
        }
        is_admitted
    }

    fn put(&self, record: &Record) {
        let daemon = self.0.targets.name(DAEMON);
        if !self.state().put(self.0.format, daemon, record) {
            self.0.has_work.store(true, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes a line, or counts it as lost. Returns whether nothing remains to be done.
    fn put(&mut self, format: Format, daemon: &'static str, record: &Record) -> bool {
        let now = Instant::now();
        if self.finish(format, daemon, now) && self.write(format, record) {
            self.counters.lines += 1;
        } else {
            self.counters.lost += 1;
            self.unreported += 1;
        }
        let is_done = self.unreported == 0 && self.output.finish();
        self.retry_at = (!is_done).then(|| self.retry_at.unwrap_or(now + RETRY));
        is_done
    }

    /// Completes a line that was written in part and reports lost lines, unless the reader took nothing a moment ago. Returns
    /// whether both is done.
    fn finish(&mut self, format: Format, daemon: &'static str, now: Instant) -> bool {
        if self.retry_at.is_some_and(|at| now < at) {
            return false;
        }
        let mut is_done = self.output.finish();
        if is_done && self.unreported > 0 {
            let text = format!("{} lines of the log were lost", self.unreported);
            let mut record = Record::of_kind(&kind::LINES_LOST, daemon, text);
            record.add("count", self.unreported);
            is_done = self.write(format, &record) && self.output.finish();
            if is_done {
                self.counters.lines += 1;
                self.unreported = 0;
            }
        }
        self.retry_at = (!is_done).then_some(now + RETRY);
        is_done
    }

    fn write(&mut self, format: Format, record: &Record) -> bool {
        self.buffer.clear();
        format.write(record, &mut self.buffer);
        let is_written = self.output.write(&self.buffer).is_ok();
        self.buffer.shrink_to(KEPT);
        is_written
    }
}

/// Fields of a line.
pub(crate) struct Fields<'a>(&'a mut Record);

impl Fields<'_> {
    /// Adds a field, with its name in lower case.
    pub(crate) fn add(&mut self, name: &'static str, value: &dyn fmt::Display) {
        self.0.add(name, value.to_string());
    }
}

/// Lines of tracing's macros: their target is the module or `earmark::NAME`, and the field `kind` names a [`Kind`].
impl Subscriber for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let Inner { targets, levels, .. } = &*self.0;
        let level = levels.of(targets.of_module(metadata.target()));
        metadata.is_event() && level_of(*metadata.level()) <= level
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let targets = &self.0.targets;
        let target = targets.name(targets.of_module(metadata.target()));
        let mut record = Record::new(level_of(*metadata.level()), target);
        event.record(&mut record);
        debug_assert!(record.kind.is_none_or(|kind| kind.level == *metadata.level()), "{record:?}");
        let sort = match record.kind {
            Some(kind) => kind.is_limited.then_some(kind.name),
            None => (record.level <= LogLevel::Info).then(|| metadata.name()),
        };
        if sort.is_none_or(|sort| self.admits(sort)) {
            self.put(&record);
        }
    }

    // The daemon has no spans.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[cfg(test)]
mod tests;
