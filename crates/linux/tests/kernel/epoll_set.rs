//! The message sources in an epoll set of the caller: the system calls of a daemon that sleeps between messages.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use earmark_linux::{Intercept, InterfaceSignalling, SignallingSocket};
use rustix::event::epoll;
use rustix::fs::Timespec;

use crate::signalling::{open, path};
use crate::support::{Line, SENDER, TIME_LIMIT};

/// The number of the first source in the set.
const FIRST: u64 = 7;
/// A number that belongs to no source.
const FOREIGN: u64 = FIRST + SignallingSocket::SOURCES;

/// A set with the sockets of a router.
struct Daemon {
    set: OwnedFd,
    socket: SignallingSocket,
}

impl Daemon {
    fn start(line: &Line) -> Daemon {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        let mut socket = open(&line.router);
        socket.register_in(set.try_clone().expect("a descriptor"), FIRST).expect("entered");
        // A number of no source, like those of a daemon's other descriptors.
        socket.mark_ready(FOREIGN);
        assert!(!socket.has_more());
        Daemon { set, socket }
    }

    /// Waits at most `longest`, and reports the events of the set to the socket; returns whether there were any.
    fn wait(&mut self, longest: Timespec) -> bool {
        let mut events = Vec::with_capacity(16);
        let room = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&self.set, room, Some(&longest)).expect("waited");
        for event in &events {
            let number = event.data.u64();
            assert!((FIRST..FOREIGN).contains(&number));
            self.socket.mark_ready(number);
        }
        !events.is_empty()
    }

    /// Waits and receives until nothing is left; returns the number of messages of each turn.
    fn turns(&mut self) -> Vec<usize> {
        let patience = Timespec::try_from(TIME_LIMIT).expect("not so long");
        assert!(self.wait(patience), "woken");
        let mut turns = Vec::new();
        loop {
            turns.push(self.socket.receive(|_| ()).expect("received"));
            if !self.socket.has_more() {
                return turns;
            }
        }
    }

    fn assert_asleep(&mut self) {
        assert!(!self.wait(Timespec::default()));
        assert_eq!(self.socket.receive(|_| ()).expect("nothing"), 0);
    }
}

/// A message that arrives alone takes one turn, and none to find out that there is no other: through a raw socket, from
/// the ring, and from a socket that was opened after the set was given.
pub(crate) fn single_message_takes_one_turn() {
    let line = Line::new();
    let mut sender = open(&line.sender);
    let mut router = Daemon::start(&line);
    for _ in 0..10 {
        sender.send(&path(true), b"a path").expect("sent");
        assert_eq!(router.turns(), [1]);
    }
    router.assert_asleep();

    let how = InterfaceSignalling {
        intercept: Intercept::Protocol,
        udp: true,
        ..InterfaceSignalling::default()
    };
    let set = || router.socket.set_interface(line.inward, how);
    line.router.run_in(set).expect("inside").expect("set");
    for _ in 0..10 {
        sender.send(&path(false), b"a message").expect("sent");
        assert_eq!(router.turns(), [1], "out of the ring");
    }
    let bind = || UdpSocket::bind((SENDER, 0));
    let host = line.sender.run_in(bind).expect("inside").expect("a socket");
    for _ in 0..10 {
        host.send_to(b"inside UDP", "10.77.1.2:1698").expect("sent");
        assert_eq!(router.turns(), [1], "inside UDP");
    }
    router.assert_asleep();
}

/// Many waiting messages are received in batches, without an empty receive call.
pub(crate) fn many_messages_are_received_in_batches() {
    const COUNT: usize = 100;
    let line = Line::new();
    let mut sender = open(&line.sender);
    let mut router = Daemon::start(&line);
    for _ in 0..COUNT {
        sender.send(&path(true), b"a path").expect("sent");
    }
    let mut turns = Vec::new();
    while turns.iter().sum::<usize>() < COUNT {
        turns.extend(router.turns());
    }
    assert_eq!(turns.iter().sum::<usize>(), COUNT);
    // Only after a full batch there may be more.
    assert!(turns[0] > 0 && turns.windows(2).all(|w| w[1] > 0 || w[0] >= 32), "{turns:?}");
    router.assert_asleep();
}
