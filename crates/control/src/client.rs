//! A client of the daemon: blocking, typed and small. The command line and the lab use it.
//!
//! A connection carries one request at a time: each call sends a request and waits for its answer. Events that arrive
//! in between (after [`Client::watch`], or for applications opened with `follow`) are queued for [`Client::next_event`].

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::{
    AggregateRow, ApplicationId, ApplicationRow, ChangeRequest, Changed, ConfigAnswer,
    ConfigRequest, Event, Keep, LinkRow, ListenRequest, Listing, LogAnswer, LogRequest,
    NeighborRow, Opened, PathAnswer, PathRequest, Problem, ProblemCode, Release, Released, Request,
    ReservationRequest, ReservationRow, Response, Rows, SessionRow, Show, Trace, TraceBegun,
    VERSION, Version, Versions, Watch, Watching,
};

/// Why a request failed: no connection, an invalid answer, or a refusal.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon listens on the control socket.
    #[error("cannot connect to {}: {source}", path.display())]
    Connect {
        /// The control socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The connection was lost.
    #[error("connection to the daemon failed: {0}")]
    Lost(#[from] io::Error),
    /// The daemon sent something that this program cannot parse.
    #[error("malformed response from the daemon: {0}")]
    Malformed(String),
    /// The daemon speaks another version of the control protocol.
    #[error(
        "the daemon speaks {} of the control protocol, this program version {VERSION}",
        theirs.map_or("an older version".to_owned(), |theirs| format!("version {theirs}"))
    )]
    OtherVersion {
        /// Version that the daemon speaks; `None` if it is too old to report one.
        theirs: Option<u32>,
    },
    /// The daemon refused the request.
    #[error("{0}")]
    Refused(#[from] Problem),
}

/// Time that a daemon has to report its version after an unexpected answer.
const VERSION_TIMEOUT: Duration = Duration::from_secs(1);

impl ClientError {
    /// Whether daemon and client of different versions could cause this error.
    fn may_be_of_another_version(&self) -> bool {
        match self {
            ClientError::Malformed(_) => true,
            ClientError::Refused(problem) => problem.code == ProblemCode::BadRequest,
            _ => false,
        }
    }

    /// Advice what to do about the error.
    pub fn hint(&self) -> String {
        match self {
            ClientError::Connect { path, source } => match source.kind() {
                io::ErrorKind::PermissionDenied => format!(
                    "join the group that {} belongs to, or set control.group in the daemon's \
                     configuration",
                    path.display()
                ),
                io::ErrorKind::InvalidInput => {
                    "a socket's path has at most 107 octets; name a shorter one with --control PATH"
                        .to_owned()
                }
                _ => "is the daemon running? start it with `earmarkd --config FILE`, or name its \
                      socket with --control PATH"
                    .to_owned(),
            },
            ClientError::Lost(_) => "the daemon's log says why it ended".to_owned(),
            ClientError::Malformed(_) | ClientError::OtherVersion { .. } => {
                "use the `earmark` that came with the daemon".to_owned()
            }
            ClientError::Refused(problem) => problem.hint.clone(),
        }
    }
}

/// A listing that is requested page by page.
#[derive(Debug)]
pub struct Pages<'a, T> {
    client: &'a mut Client,
    /// The next request; `None` after the last.
    show: Option<Show>,
    row: PhantomData<T>,
}

impl<T: DeserializeOwned> Pages<'_, T> {
    /// Requests the next page; `None` after the last. A page may be without rows.
    ///
    /// # Errors
    /// The connection was lost, or the daemon refused.
    pub fn next_page(&mut self) -> Result<Option<Rows<T>>, ClientError> {
        let Some(show) = self.show.take() else { return Ok(None) };
        let request = Request::Show(show.clone());
        let mut page: Rows<T> = self.client.call(&request)?;
        let limit = show.limit.unwrap_or(usize::MAX);
        // The state that fills the page may have several rows.
        page.more |= page.rows.len() > limit;
        page.rows.truncate(limit);
        let left = limit - page.rows.len();
        if let Some(next) = page.next.clone().filter(|_| left > 0) {
            let limit = show.limit.map(|_| left);
            self.show = Some(Show { after: Some(next), limit, ..show });
        }
        Ok(Some(page))
    }
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    /// The part of a line that was read before the deadline.
    begun: Vec<u8>,
    events: VecDeque<Event>,
    /// The control socket, to connect again after the daemon has closed an idle connection.
    path: Option<PathBuf>,
}

impl Client {
    /// Connects to the daemon that serves `path`.
    ///
    /// # Errors
    /// No daemon listens there, or the caller may not use the socket.
    pub fn connect(path: impl AsRef<Path>) -> Result<Client, ClientError> {
        let path = path.as_ref();
        let stream = UnixStream::connect(path)
            .map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        Ok(Client { path: Some(path.to_owned()), ..Client::over(stream) })
    }

    /// Uses a stream that is connected already.
    pub fn over(stream: UnixStream) -> Client {
        Client {
            reader: BufReader::new(stream),
            begun: Vec::new(),
            events: VecDeque::new(),
            path: None,
        }
    }

    /// Lists the senders that are announced here.
    ///
    /// # Errors
    /// The connection was lost, or the daemon refused; every other call here has the same errors.
    pub fn show_sessions(&mut self) -> Result<Rows<SessionRow>, ClientError> {
        self.show(Listing::Sessions)
    }

    /// Lists reservations.
    pub fn show_reservations(&mut self) -> Result<Rows<ReservationRow>, ClientError> {
        self.show(Listing::Reservations)
    }

    /// Lists links.
    pub fn show_links(&mut self) -> Result<Rows<LinkRow>, ClientError> {
        self.show(Listing::Links)
    }

    /// Lists neighbors.
    pub fn show_neighbors(&mut self) -> Result<Rows<NeighborRow>, ClientError> {
        self.show(Listing::Neighbors)
    }

    /// Lists aggregates across cores.
    pub fn show_aggregates(&mut self) -> Result<Rows<AggregateRow>, ClientError> {
        self.show(Listing::Aggregates)
    }

    /// Lists the applications that were opened on this host.
    pub fn show_applications(&mut self) -> Result<Rows<ApplicationRow>, ClientError> {
        self.show(Listing::Applications)
    }

    /// Returns the counters, an object of objects.
    pub fn show_counters(&mut self) -> Result<serde_json::Value, ClientError> {
        let rows: Rows<serde_json::Value> = self.show(Listing::Counters)?;
        Ok(rows.rows.into_iter().next().unwrap_or_default())
    }

    /// Requests any listing, as rows of type `T`.
    pub fn show<T: DeserializeOwned>(&mut self, what: Listing) -> Result<Rows<T>, ClientError> {
        self.call(&Request::Show(Show::new(what)))
    }

    /// Requests a listing page by page, as rows of type `T`; short listings have one page.
    pub fn pages<T: DeserializeOwned>(&mut self, show: Show) -> Pages<'_, T> {
        let after = show.what.has_pages().then(|| Show::START.to_owned());
        Pages { client: self, show: Some(Show { after, ..show }), row: PhantomData }
    }

    /// Answers senders that announce themselves to the daemon's host.
    pub fn listen(&mut self, request: ListenRequest) -> Result<Opened, ClientError> {
        self.call(&Request::Listen(request))
    }

    /// Reserves for a flow. [`Client::next_event`] returns the outcome if [`ReservationRequest::follow`] is set.
    pub fn reserve(&mut self, request: ReservationRequest) -> Result<Opened, ClientError> {
        self.call(&Request::Reserve(request))
    }

    /// Detaches an application that was opened with `hold` from this connection.
    pub fn keep(&mut self, application: ApplicationId) -> Result<Keep, ClientError> {
        self.call(&Request::Keep(Keep { application }))
    }

    /// Queries the nodes on the path of a sender (RFC 2745). [`Client::next_event`] returns the resulting events; the last one
    /// is `Traced`.
    pub fn trace(&mut self, request: Trace) -> Result<TraceBegun, ClientError> {
        self.call(&Request::Trace(request))
    }

    /// Returns the path of a flow on the daemon's node, and the service of its packets.
    pub fn path(&mut self, request: PathRequest) -> Result<PathAnswer, ClientError> {
        self.call(&Request::Path(request))
    }

    /// Changes the reservation of an application. [`Client::next_event`] returns the outcome if [`ChangeRequest::follow`] is
    /// set.
    pub fn change(&mut self, request: ChangeRequest) -> Result<Changed, ClientError> {
        self.call(&Request::Change(request))
    }

    /// Ends an application.
    pub fn release(&mut self, application: ApplicationId) -> Result<Released, ClientError> {
        self.call(&Request::Release(Release::Application(application)))
    }

    /// Ends all applications of the daemon, whoever opened them.
    pub fn release_all(&mut self) -> Result<Released, ClientError> {
        self.call(&Request::Release(Release::All {}))
    }

    /// Passes every event from now on to `each`, until that returns `false` or the daemon closes the connection.
    pub fn watch(&mut self, mut each: impl FnMut(Event) -> bool) -> Result<(), ClientError> {
        self.start_watching()?;
        while let Some(event) = self.next_event(None)? {
            if !each(event) {
                break;
            }
        }
        Ok(())
    }

    /// Shows or sets the levels of the daemon's log. Returns them as they are after the request.
    pub fn log(&mut self, request: LogRequest) -> Result<LogAnswer, ClientError> {
        self.call(&Request::Log(request))
    }

    /// Compares, applies, confirms or takes back the daemon's configuration.
    pub fn config(&mut self, request: ConfigRequest) -> Result<ConfigAnswer, ClientError> {
        self.call(&Request::Config(request))
    }

    /// Returns the versions of the daemon; `None` if it does not answer in time.
    ///
    /// # Errors
    /// The connection was lost, or the daemon refused, or is too old to report a version.
    pub fn version(&mut self, timeout: Duration) -> Result<Option<Versions>, ClientError> {
        match self.ask(&Request::Version(Version {}), Some(Instant::now() + timeout)) {
            Err(ClientError::Refused(problem)) if problem.code == ProblemCode::BadRequest => {
                Err(ClientError::OtherVersion { theirs: None })
            }
            answer => answer,
        }
    }

    /// Requests every event from now on, for [`Client::next_event`]. Returns the node's name.
    pub fn start_watching(&mut self) -> Result<String, ClientError> {
        let answer: Watching = self.call(&Request::Watch(Watch {}))?;
        Ok(answer.node)
    }

    /// Returns the next event; `None` if the deadline comes first.
    pub fn next_event(&mut self, deadline: Option<Instant>) -> Result<Option<Event>, ClientError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        match self.read(deadline)? {
            None => Ok(None),
            Some(Response::Event(event)) => Ok(Some(event)),
            Some(Response::Error(problem)) => Err(problem.into()),
            Some(Response::Ok(answer)) => {
                Err(ClientError::Malformed(format!("unexpected answer: {answer}")))
            }
        }
    }

    /// Sends a request and waits for its answer. If the daemon has closed the connection because it was idle, a new one is
    /// opened; nothing depends on an idle connection.
    pub fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        let answer = match (self.ask(request, None), self.path.clone()) {
            (Err(ClientError::Refused(problem)), Some(path))
                if problem.code == ProblemCode::Idle =>
            {
                let events = std::mem::take(&mut self.events);
                *self = Client { events, ..Client::connect(path)? };
                self.ask(request, None)
            }
            (answer, _) => answer,
        };
        match answer {
            Err(error) if error.may_be_of_another_version() => Err(self.explain(error)),
            answer => answer?.ok_or_else(|| ClientError::Lost(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Replaces an error by [`ClientError::OtherVersion`] if the daemon reports another version of the protocol.
    fn explain(&mut self, error: ClientError) -> ClientError {
        let deadline = Instant::now() + VERSION_TIMEOUT;
        match self.ask::<Versions>(&Request::Version(Version {}), Some(deadline)) {
            Ok(Some(Versions { protocol: VERSION, .. }) | None) => error,
            Ok(Some(other)) => ClientError::OtherVersion { theirs: Some(other.protocol) },
            Err(ClientError::Refused(_)) => ClientError::OtherVersion { theirs: None },
            Err(_) => error,
        }
    }

    /// Returns the answer to a request; `None` if the deadline comes first.
    fn ask<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        deadline: Option<Instant>,
    ) -> Result<Option<T>, ClientError> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| ClientError::Malformed(error.to_string()))?;
        line.push(b'\n');
        if let Err(error) = self.reader.get_mut().write_all(&line) {
            return Err(self.reason_of_end().unwrap_or(error.into()));
        }
        loop {
            match self.read(deadline)? {
                Some(Response::Event(event)) => self.events.push_back(event),
                Some(Response::Error(problem)) => return Err(problem.into()),
                Some(Response::Ok(answer)) => {
                    return serde_json::from_value(answer)
                        .map(Some)
                        .map_err(|error| ClientError::Malformed(error.to_string()));
                }
                None => return Ok(None),
            }
        }
    }

    /// Returns the error that the daemon sent before it closed the connection.
    fn reason_of_end(&mut self) -> Option<ClientError> {
        let deadline = Some(Instant::now() + VERSION_TIMEOUT);
        loop {
            match self.read(deadline) {
                Ok(Some(Response::Error(problem))) => return Some(problem.into()),
                Ok(Some(Response::Event(event))) => self.events.push_back(event),
                _ => return None,
            }
        }
    }

    /// Reads one line of the daemon; `None` if the deadline comes first.
    fn read(&mut self, deadline: Option<Instant>) -> Result<Option<Response>, ClientError> {
        loop {
            let wait = match deadline {
                None => None,
                Some(deadline) => match deadline.saturating_duration_since(Instant::now()) {
                    Duration::ZERO => return Ok(None),
                    wait => Some(wait),
                },
            };
            self.reader.get_ref().set_read_timeout(wait)?;
            match self.reader.read_until(b'\n', &mut self.begun) {
                Ok(_) if self.begun.ends_with(b"\n") => {
                    let line = std::mem::take(&mut self.begun);
                    return serde_json::from_slice(&line)
                        .map(Some)
                        .map_err(|error| ClientError::Malformed(error.to_string()));
                }
                Ok(_) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
