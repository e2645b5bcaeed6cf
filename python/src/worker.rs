//! The thread that owns a run of a scenario.
//!
//! Python gives it one job at a time, and waits for the end of the job without the interpreter lock. Meanwhile it answers
//! the questions of the run, which are those of callbacks, and looks for signals, at least ten times a second. The
//! thread looks for a request to stop after some thousand events, so that an interrupt takes effect within a fraction
//! of a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use earmark_core::Time;
use earmark_scenario::{Outcome, ScenarioRun};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::callbacks::{Answer, Callbacks, Question};
use crate::source::Source;

/// Longest wait before signals are looked for.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of events after which the thread looks for a request to stop.
const SLICE: u64 = 10_000;

/// A job for the thread, with the way to ask questions.
type Job = Box<dyn for<'a> FnOnce(&mut ScenarioRun<'a>, &Asker) + Send>;

enum Order {
    Job(Job),
    Finish,
}

/// What the thread tells.
enum Report {
    /// A job is done, or the run has begun.
    Done,
    /// The scenario cannot be played.
    Failed(PyErr),
    Finished(Box<Outcome>),
    Question(Question, SyncSender<Answer>),
}

/// The way from the run to the callbacks.
#[derive(Clone, Debug)]
pub(crate) struct Asker(Sender<Report>);

impl Asker {
    /// Asks a question, and waits for the answer; without one, as when Python waits no longer, it is the default.
    pub(crate) fn ask(&self, question: Question) -> Answer {
        let (reply, answer) = sync_channel(1);
        if self.0.send(Report::Question(question, reply)).is_err() {
            return Answer::Default;
        }
        answer.recv().unwrap_or(Answer::Default)
    }
}

/// The owner of a run.
pub(crate) struct Worker {
    orders: Sender<Order>,
    reports: Mutex<Receiver<Report>>,
    stop: Arc<AtomicBool>,
    pub(crate) callbacks: Callbacks,
    /// Whether a call waits for the thread. A callback must not make another one.
    is_busy: AtomicBool,
    /// Whether the run has ended: it is finished, or a callback has raised an exception.
    has_ended: AtomicBool,
}

impl Worker {
    /// Starts the thread, and waits until the run has begun.
    pub(crate) fn begin(py: Python<'_>, source: Source, seed: u64) -> PyResult<Worker> {
        let (orders, taken) = channel();
        let (told, reports) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let asker = Asker(told);
        thread::Builder::new()
            .name("earmark".to_owned())
            .spawn(move || own(&source, seed, &taken, &asker))?;
        let worker = Worker {
            orders,
            reports: Mutex::new(reports),
            stop,
            callbacks: Callbacks::default(),
            is_busy: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        };
        // Loading a large network takes long. If it is interrupted, the thread finds out that nobody waits.
        worker.wait(py, true)?;
        Ok(worker)
    }

    /// Plays until a time, or to the end. An interrupted run can go on later; after an exception of a callback it cannot.
    pub(crate) fn play(&self, py: Python<'_>, until: Option<Time>) -> PyResult<()> {
        let stop = Arc::clone(&self.stop);
        self.ask(py, move |run, _| {
            let until = until.unwrap_or_else(|| run.end());
            while !stop.load(Ordering::Relaxed) && !run.advance(until, SLICE) {}
        })
    }

    /// Ends the run where it is, and returns its outcome.
    pub(crate) fn finish(&self, py: Python<'_>) -> PyResult<Outcome> {
        let _turn = self.take_turn()?;
        self.has_ended.store(true, Ordering::Relaxed);
        self.orders.send(Order::Finish).map_err(|_| thread_is_gone())?;
        match self.wait(py, false)? {
            Some(outcome) => Ok(*outcome),
            None => Err(thread_is_gone()),
        }
    }

    /// Does a job with the run, and returns its result.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        job: impl for<'a> FnOnce(&mut ScenarioRun<'a>, &Asker) -> T + Send + 'static,
    ) -> PyResult<T> {
        let _turn = self.take_turn()?;
        let (put, result) = sync_channel(1);
        let job: Job = Box::new(move |run, asker| {
            let _ = put.send(job(run, asker));
        });
        self.orders.send(Order::Job(job)).map_err(|_| thread_is_gone())?;
        self.wait(py, false)?;
        result.try_recv().map_err(|_| thread_is_gone())
    }

    fn take_turn(&self) -> PyResult<Turn<'_>> {
        if self.is_busy.swap(true, Ordering::Acquire) {
            let why = "the simulation is running; a callback cannot step it or look into it";
            return Err(PyRuntimeError::new_err(why));
        }
        let turn = Turn(&self.is_busy);
        self.stop.store(false, Ordering::Relaxed);
        match self.has_ended.load(Ordering::Relaxed) {
            true => Err(PyRuntimeError::new_err("the simulation has ended")),
            false => Ok(turn),
        }
    }

    /// Waits for the end of a job, and answers questions. After an exception, of a callback or by a signal, the job is to
    /// stop, and the questions that it still asks have their default answers; or nobody waits for it, if it is `left`.
    fn wait(&self, py: Python<'_>, left: bool) -> PyResult<Option<Box<Outcome>>> {
        let mut raised = None;
        let next = || {
            let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports.recv_timeout(SIGNAL_INTERVAL)
        };
        let outcome = loop {
            match py.detach(next) {
                Ok(Report::Done) => break None,
                Ok(Report::Finished(outcome)) => break Some(outcome),
                Ok(Report::Failed(error)) => return Err(error),
                Ok(Report::Question(question, reply)) => {
                    let answer = match raised {
                        Some(_) => Answer::Default,
                        None => self.callbacks.answer(py, question).unwrap_or_else(|error| {
                            self.has_ended.store(true, Ordering::Relaxed);
                            raised = Some(error);
                            Answer::Default
                        }),
                    };
                    let _ = reply.send(answer);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(thread_is_gone()),
            }
            if raised.is_none() {
                raised = py.check_signals().err();
            }
            if raised.is_some() {
                if left {
                    break None;
                }
                self.stop.store(true, Ordering::Relaxed);
            }
        };
        raised.map_or(Ok(outcome), Err)
    }
}

/// The turn of a call, which ends with it.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Drop for Worker {
    /// Lets a running job stop. The thread ends when it finds no more orders.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn thread_is_gone() -> PyErr {
    PyRuntimeError::new_err("the thread of the simulation has failed; its message is on stderr")
}

/// Loads the scenario, and does jobs until nobody gives any.
fn own(source: &Source, seed: u64, orders: &Receiver<Order>, asker: &Asker) {
    let (scenario, topology) = match source.load() {
        Ok(loaded) => loaded,
        Err(error) => return drop(asker.0.send(Report::Failed(error))),
    };
    let mut run = match ScenarioRun::begin(&scenario, &topology, seed) {
        Ok(run) => run,
        Err(why) => return drop(asker.0.send(Report::Failed(source.error(&why)))),
    };
    let mut report = Report::Done;
    while asker.0.send(report).is_ok() {
        match orders.recv() {
            Ok(Order::Job(job)) => job(&mut run, asker),
            Ok(Order::Finish) => {
                let (outcome, _) = run.finish();
                return drop(asker.0.send(Report::Finished(Box::new(outcome))));
            }
            Err(_) => return,
        }
        report = Report::Done;
    }
}
