//! The demo in network namespaces: real daemons, real traffic control, real packets.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_boomerang as boomerang;
use earmark_control::Client;
use earmark_control::protocols::boomerang as loops;
use earmark_control::protocols::nsis::request as nsis_request;
use earmark_control::protocols::yessir as yessir_requests;
use earmark_control::{Event as ClientEvent, ListenRequest, Opened, ReservationRequest};
use earmark_core::{Rate, Time};
use earmark_node::Event;
use earmark_nsis::{self as nsis, qos};
use earmark_rsvp as rsvp;
use earmark_sim::Trace;
use earmark_wire::rsvp::ErrorSpec;
use earmark_yessir as yessir;

use super::{
    Answer, DaemonRestart, NetworkKind, Plan, Protocol, Refusal, SENT, Stage, Stream, answered,
};
use crate::testbed::Testbed;
use crate::traffic::{self, Shape, Sink, Source};

/// Duration longer than any demo: traffic ends on request.
const TRAFFIC: Duration = Duration::from_secs(3_600);
/// Interval of checks of events and states while waiting for both ends.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Time for packets in flight when the sources end.
const DRAIN: Duration = Duration::from_millis(500);

/// The demo's network in namespaces.
pub struct OnNamespaces {
    testbed: Testbed,
    plan: Plan,
    interrupted: Arc<AtomicBool>,
    sender: usize,
    receiver: usize,
    traffic: Vec<(Shape, Source, Sink)>,
    open: Vec<Reserved>,
}

/// Both ends of a reservation, in the daemons that hold them.
struct Reserved {
    stream: Stream,
    at_sender: (Client, Opened),
    /// Receiver's end; Boomerang and NSIS have none.
    at_receiver: Option<(Client, Opened)>,
}

impl OnNamespaces {
    /// Uses a running network with hosts h1 and h2. Waiting ends early once `interrupted` is set.
    ///
    /// # Errors
    /// One of the hosts is missing.
    pub fn new(testbed: Testbed, plan: Plan, interrupted: Arc<AtomicBool>) -> Result<OnNamespaces> {
        let host = |name| testbed.topology().node(name).with_context(|| format!("no node {name}"));
        let (sender, receiver) = (host("h1")?, host("h2")?);
        let (traffic, open) = (Vec::new(), Vec::new());
        Ok(OnNamespaces { testbed, plan, interrupted, sender, receiver, traffic, open })
    }

    fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    fn address(&self, node: usize) -> Result<IpAddr> {
        let address = self.testbed.topology().address(node).context("a node without a link")?;
        Ok(address.into())
    }

    /// Starts a sink at h2 and then a source at h1.
    fn start_stream(&self, stream: Stream, shape: Shape) -> Result<(Shape, Source, Sink)> {
        let to = SocketAddr::new(self.address(self.receiver)?, stream.port());
        let from = SocketAddr::new(self.address(self.sender)?, stream.port());
        // A socket stays in the namespace where it was opened, whatever thread uses it.
        let receiver = self.testbed.namespace(self.receiver).run_in(|| UdpSocket::bind(to))??;
        let sender = self.testbed.namespace(self.sender).run_in(|| UdpSocket::bind(from))??;
        let sink = Sink::start(receiver)?;
        sender.connect(to)?;
        let source = Source::start(sender, shape, TRAFFIC)?;
        Ok((shape, source, sink))
    }

    fn refusal(&self, requested: Rate, error: &ErrorSpec) -> Refusal {
        let node = self.testbed.topology().owner_of(error.node);
        Refusal {
            requested_bps: requested.as_bps(),
            error: error.code.name().to_ascii_lowercase(),
            code: error.code.code(),
            value: error.value,
            node: node.unwrap_or("unknown").to_owned(),
            stream_bps_after: 0,
        }
    }

    /// Opens both ends of an RSVP reservation: the receiver's and then the sender's.
    fn open(&self, stream: Stream, rate: Rate) -> Result<Reserved> {
        let shape = self.plan.stream;
        let on = SocketAddr::new(self.address(self.receiver)?, stream.port());
        let mut receiver = Client::connect(self.testbed.control(self.receiver))?;
        let listening =
            receiver.listen(ListenRequest { follow: true, ..ListenRequest::new(on) })?;
        let mut sender = Client::connect(self.testbed.control(self.sender))?;
        let sending = sender.sender(ReservationRequest {
            from: Some(SocketAddr::new(self.address(self.sender)?, stream.port())),
            burst_octets: shape.bucket_octets,
            min_packet: shape.packet_octets,
            max_packet: shape.packet_octets,
            follow: true,
            ..ReservationRequest::new(on, rate)
        })?;
        Ok(Reserved {
            stream,
            at_sender: (sender, sending),
            at_receiver: Some((receiver, listening)),
        })
    }
}

impl OnNamespaces {
    /// Source and destination of a stream.
    fn ends(&self, stream: Stream) -> Result<[SocketAddr; 2]> {
        let at = |node| Ok::<_, anyhow::Error>(SocketAddr::new(self.address(node)?, stream.port()));
        Ok([at(self.sender)?, at(self.receiver)?])
    }

    /// Reserves by Boomerang: h1 sends a loop.
    fn send_loop(&self, stream: Stream, rate: Rate) -> Result<Reserved> {
        let [from, to] = self.ends(stream)?;
        let mut client = Client::connect(self.testbed.control(self.sender))?;
        let request = ReservationRequest {
            from: Some(from),
            follow: true,
            ..loops::request(to, rate, Rate::ZERO)
        };
        let opened = client.reserve(request)?;
        Ok(Reserved { stream, at_sender: (client, opened), at_receiver: None })
    }

    /// Reserves by NSIS: h1 sends a RESERVE.
    fn establish(&self, stream: Stream, rate: Rate) -> Result<Reserved> {
        let [from, to] = self.ends(stream)?;
        let Shape { packet_octets, bucket_octets, .. } = self.plan.stream;
        let mut client = Client::connect(self.testbed.control(self.sender))?;
        let opened = client.reserve(ReservationRequest {
            from: Some(from),
            burst_octets: bucket_octets,
            max_packet: packet_octets,
            follow: true,
            ..nsis_request(to, rate)
        })?;
        Ok(Reserved { stream, at_sender: (client, opened), at_receiver: None })
    }

    /// Reserves by YESSIR: h1 sends reports, and h2 answers.
    fn report_stream(&self, stream: Stream, rate: Rate) -> Result<Reserved> {
        let [from, to] = self.ends(stream)?;
        let mut receiver = Client::connect(self.testbed.control(self.receiver))?;
        let answering = receiver.listen(yessir_requests::listen_request(to))?;
        let mut sender = Client::connect(self.testbed.control(self.sender))?;
        let options = yessir_requests::ReserveOptions {
            class: Some(0),
            multiplexed: true,
            ..yessir_requests::ReserveOptions::default()
        };
        let request = yessir_requests::request(from, to, &options);
        let rate_bps = Some(rate);
        let attached = sender.reserve(ReservationRequest { rate_bps, follow: true, ..request })?;
        Ok(Reserved {
            stream,
            at_sender: (sender, attached),
            at_receiver: Some((receiver, answering)),
        })
    }
}

impl Stage for OnNamespaces {
    fn kind(&self) -> NetworkKind {
        NetworkKind::Netns
    }

    fn now(&self) -> Time {
        traffic::now()
    }

    fn wait(&mut self, how_long: Duration) -> Result<()> {
        std::thread::sleep(how_long);
        self.check()
    }

    fn start_traffic(&mut self) -> Result<()> {
        for stream in Stream::SENT {
            self.traffic.push(self.start_stream(stream, stream.shape(&self.plan))?);
        }
        Ok(())
    }

    fn received_octets(&self) -> u64 {
        self.traffic.first().map_or(0, |(_, _, sink)| sink.octets())
    }

    fn reserve(
        &mut self,
        by: Protocol,
        stream: Stream,
        rate: Rate,
        within: Duration,
    ) -> Result<Answer> {
        let deadline = Instant::now() + within;
        let mut reserved = match by {
            Protocol::Boomerang => self.send_loop(stream, rate)?,
            Protocol::Yessir => self.report_stream(stream, rate)?,
            Protocol::Nsis => self.establish(stream, rate)?,
            _ => self.open(stream, rate)?,
        };
        let answer = loop {
            self.check()?;
            let Reserved { at_sender, at_receiver, .. } = &mut reserved;
            if let Some(answer) = in_place(at_sender)? {
                break answer;
            }
            if let Some(at_receiver) = at_receiver
                && by == Protocol::Rsvp
                && let Some(error) = refused(at_receiver)?
            {
                break Answer::Refused(self.refusal(rate, &error));
            }
            if Instant::now() >= deadline {
                bail!("no answer to the request for {rate} within {within:?}");
            }
        };
        // A refused loop or RESERVE is closed already.
        if !matches!(by, Protocol::Boomerang | Protocol::Nsis)
            || matches!(answer, Answer::InPlace(_))
        {
            self.open.push(reserved);
        }
        Ok(answer)
    }

    fn release(&mut self, stream: Stream) -> Result<()> {
        for reserved in self.open.iter_mut().filter(|reserved| reserved.stream == stream) {
            let Reserved { at_sender, at_receiver, .. } = reserved;
            for (client, opened) in at_receiver.iter_mut().chain([at_sender]) {
                client.release(opened.application)?;
            }
        }
        self.open.retain(|reserved| reserved.stream != stream);
        Ok(())
    }

    fn restart_daemon(
        &mut self,
        node: &str,
        pause: Duration,
        within: Duration,
    ) -> Result<DaemonRestart> {
        let victim = self.testbed.topology().node(node).context("no such node")?;
        let killed = self.now();
        self.testbed.kill_daemon(victim)?;
        self.wait(pause)?;
        self.testbed.start_daemon(victim)?;
        self.testbed.await_daemon(victim)?;
        let ready = self.now();
        let mut client = Client::connect(self.testbed.control(victim))?;
        let port = Stream::Measured.port();
        while self.now().since(ready) < within {
            let rows = client.show_reservations()?.rows;
            if rows.iter().any(|row| row.destination_port == port && row.interface.is_some()) {
                return Ok(DaemonRestart { killed, ready, reformed: self.now() });
            }
            self.wait(Duration::from_millis(10))?;
        }
        bail!("the state of {node} did not form again within {within:?}")
    }

    fn stop_daemon(&mut self, node: &str) -> Result<()> {
        let node = self.testbed.topology().node(node).context("no such node")?;
        self.testbed.kill_daemon(node)
    }

    fn start_daemon(&mut self, node: &str) -> Result<()> {
        let node = self.testbed.topology().node(node).context("no such node")?;
        self.testbed.start_daemon(node)?;
        self.testbed.await_daemon(node)
    }

    fn stop_traffic(&mut self) -> Result<[Trace; SENT]> {
        let mut sent = Vec::new();
        for (shape, source, sink) in self.traffic.drain(..) {
            sent.push((shape, source.stop()?, sink));
        }
        std::thread::sleep(DRAIN);
        let mut traces = Vec::new();
        for (shape, sent, sink) in sent {
            traces.push(traffic::trace(shape.packet_octets, &sent, &sink.stop()?));
        }
        traces.try_into().ok().context("no traffic was started")
    }
}

impl Drop for OnNamespaces {
    fn drop(&mut self) {
        // Sources and sinks hold sockets, which would keep the namespaces alive.
        for (_, source, sink) in self.traffic.drain(..) {
            // An earlier error of a source or sink follows another failure, which is reported.
            let _ = source.stop();
            let _ = sink.stop();
        }
    }
}

/// Returns the state of a reservation at its sender: in place, with the set-up time by the daemon's clock, or refused
/// with an offer.
fn in_place((client, opened): &mut (Client, Opened)) -> Result<Option<Answer>> {
    let ours = opened.application;
    while let Some(event) = next(client)? {
        let setup = Duration::from_secs_f64((event.at_s - opened.at_s).max(0.0));
        let Some(event) = earmarkd::control::engine_event(&event) else { continue };
        let event = match event {
            Event::Rsvp(event) => event,
            Event::Boomerang(boomerang::Event::Established { .. }) => {
                return Ok(Some(Answer::InPlace(setup)));
            }
            Event::Boomerang(boomerang::Event::Refused { offer, .. }) => {
                return Ok(Some(Answer::Offered(Rate::from_bps(offer.forward.into()))));
            }
            Event::Nsis(nsis::Event::Qos(qos::Event::Reserved { .. })) => {
                return Ok(Some(Answer::InPlace(setup)));
            }
            Event::Nsis(nsis::Event::Qos(qos::Event::Refused {
                available: Some(available),
                ..
            })) => return Ok(Some(Answer::Offered(available))),
            Event::Yessir(yessir::Event::Answered { answer, .. }) => {
                return Ok(Some(answered(&answer, setup)));
            }
            _ => continue,
        };
        match event {
            rsvp::Event::Resv { application, .. } if application == ours => {
                return Ok(Some(Answer::InPlace(setup)));
            }
            rsvp::Event::PathError { application, error, .. } if application == ours => {
                bail!("the sender's Path was refused: {}", error.code.name());
            }
            rsvp::Event::Rejected { application, reason } if application == ours => {
                bail!("the sender was rejected: {reason}");
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Returns the error if the receiver was notified that its reservation was refused.
fn refused((client, opened): &mut (Client, Opened)) -> Result<Option<ErrorSpec>> {
    let ours = opened.application;
    while let Some(event) = next(client)? {
        let Some(event) = earmarkd::control::engine_event(&event) else { continue };
        let event = match event {
            Event::Rsvp(event) => event,
            Event::NoAnswer { application, reason, .. } if application == ours => {
                bail!("the receiver has no answer to the sender: {reason}");
            }
            _ => continue,
        };
        match event {
            rsvp::Event::ResvError { application, error, .. } if application == ours => {
                return Ok(Some(error));
            }
            rsvp::Event::Rejected { application, reason } if application == ours => {
                bail!("the receiver was rejected: {reason}");
            }
            _ => {}
        }
    }
    Ok(None)
}

fn next(client: &mut Client) -> Result<Option<ClientEvent>> {
    Ok(client.next_event(Some(Instant::now() + POLL_INTERVAL))?)
}
