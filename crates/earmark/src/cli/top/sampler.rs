//! Samples of the daemon, taken in a thread of their own.
//!
//! The links are asked for in each interval. The reservations are gone through page by page, of which only the first ones
//! in the order are kept; a pause after each page leaves the daemon most of its time.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use earmark_control::command::Failure;
use earmark_control::{
    Client, ClientError, Event, LinkRow, Listing, ListingFilter, Request, ReservationRow, Rows,
    Show,
};

use crate::cli::listings::SortedReservations;

/// Reservations that are kept.
const KEPT: usize = 200;
/// Pause after a page, as a multiple of the time that the page took.
const PAUSE_FACTOR: u32 = 4;
/// Time for the events that have arrived; those of a flood wait for the next time.
const EVENTS_WITHIN: Duration = Duration::from_millis(1);

/// Which reservations are asked for, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// Column, with `-` for the largest first.
    pub(super) sort: String,
    pub(super) filter: ListingFilter,
}

/// What the thread reports.
pub(super) enum Update {
    /// The daemon is connected; the name of its node.
    Connected(String),
    /// Links, with the time of the sample.
    Links(Vec<LinkRow>, Instant),
    /// Reservations gone through so far.
    Progress(u64),
    /// The first reservations in the order of the query, with the time of the sample.
    Reservations(Reservations),
    /// An event of the daemon.
    Event(Box<Event>),
    /// Nothing can be asked; it is tried again in the next interval.
    Failed(Failure),
}

/// Reservations of one sample.
pub(super) struct Reservations {
    pub(super) query: Query,
    pub(super) rows: Vec<ReservationRow>,
    /// Number of those that the filter includes.
    pub(super) included: u64,
    pub(super) at: Instant,
}

/// The thread, which ends when this value is dropped.
pub(super) struct Sampler {
    query: Arc<Mutex<Query>>,
    updates: Receiver<Update>,
}

impl Sampler {
    /// Starts the thread.
    pub(super) fn start(socket: &Path, query: Query, interval: Duration) -> Sampler {
        let (sender, updates) = channel();
        let query = Arc::new(Mutex::new(query));
        let work = Work { socket: socket.to_owned(), query: query.clone(), sender, interval };
        thread::spawn(move || work.run());
        Sampler { query, updates }
    }

    /// Waits for the next update.
    pub(super) fn next(&self) -> Update {
        self.updates.recv().unwrap_or_else(|_| {
            Update::Failed(Failure::new("ended", "the thread that samples has ended", "try again"))
        })
    }

    /// Returns what has been reported meanwhile.
    pub(super) fn reported(&self) -> impl Iterator<Item = Update> {
        self.updates.try_iter()
    }

    /// Asks for other reservations from now on.
    pub(super) fn ask(&self, query: Query) {
        *self.query.lock().unwrap_or_else(PoisonError::into_inner) = query;
    }
}

/// Why a sample ends.
enum End {
    /// Nobody receives updates any more.
    Unwanted,
    Failed(Failure),
}

impl From<ClientError> for End {
    fn from(error: ClientError) -> End {
        End::Failed(error.into())
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> End {
        End::Failed(failure)
    }
}

struct Work {
    socket: PathBuf,
    query: Arc<Mutex<Query>>,
    sender: Sender<Update>,
    interval: Duration,
}

impl Work {
    fn run(&self) {
        loop {
            let Err(End::Failed(failure)) = self.sample_for_ever() else { return };
            if self.sender.send(Update::Failed(failure)).is_err() {
                return;
            }
            thread::sleep(self.interval);
        }
    }

    /// Takes samples until the daemon or the receiver of updates is gone.
    fn sample_for_ever(&self) -> Result<(), End> {
        let mut client = Client::connect(&self.socket)?;
        let node = client.start_watching()?;
        self.report(Update::Connected(node))?;
        loop {
            let start = Instant::now();
            self.links(&mut client)?;
            self.reservations(&mut client, start)?;
            self.events(&mut client)?;
            thread::sleep(self.interval.saturating_sub(start.elapsed()));
        }
    }

    fn report(&self, update: Update) -> Result<(), End> {
        self.sender.send(update).map_err(|_| End::Unwanted)
    }

    fn query(&self) -> Query {
        self.query.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn links(&self, client: &mut Client) -> Result<(), End> {
        let links = client.show_links()?.rows;
        self.report(Update::Links(links, Instant::now()))
    }

    /// Goes through all reservations, unless other ones are asked for meanwhile.
    fn reservations(&self, client: &mut Client, start: Instant) -> Result<(), End> {
        let query = self.query();
        let mut sorted = SortedReservations::by(&query.sort, KEPT)?;
        let mut show = Show::new(Listing::Reservations);
        show.filter = query.filter.clone();
        show.after = Some(Show::START.to_owned());
        let (mut included, mut sampled) = (0, start);
        loop {
            let asked = Instant::now();
            let page: Rows<ReservationRow> = client.call(&Request::Show(show.clone()))?;
            included += page.rows.len() as u64;
            page.rows.into_iter().try_for_each(|row| sorted.add(row))?;
            let Some(next) = page.next else { break };
            show.after = Some(next);
            thread::sleep(asked.elapsed() * PAUSE_FACTOR);
            if sampled.elapsed() >= self.interval {
                self.report(Update::Progress(included))?;
                self.links(client)?;
                self.events(client)?;
                sampled = Instant::now();
            }
            if self.query() != query {
                return Ok(());
            }
        }
        let (rows, at) = (sorted.finish(), Instant::now());
        self.report(Update::Reservations(Reservations { query, rows, included, at }))
    }

    /// Reports the last of the events that have arrived.
    fn events(&self, client: &mut Client) -> Result<(), End> {
        let deadline = Instant::now() + EVENTS_WITHIN;
        let mut last = None;
        while Instant::now() < deadline
            && let Some(event) = client.next_event(Some(deadline))?
        {
            last = Some(event);
        }
        last.map_or(Ok(()), |event| self.report(Update::Event(Box::new(event))))
    }
}
