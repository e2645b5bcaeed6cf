//! One turn of the event loop for connections.

use std::io;

use earmark_core::{ConnectionId, StreamEvent, Time};
use rustix::event::epoll;
use rustix::fs::Timespec;

use super::{LISTENERS, Streams};

/// Most connections served in a turn.
const EVENTS: usize = 64;

impl Streams {
    /// Handles one turn: reports the events of connections, a bounded number; the remaining ones are reported in the next turn.
    ///
    /// # Errors
    /// Waiting for events failed.
    pub fn serve(&mut self, now: Time, each: &mut dyn FnMut(StreamEvent<'_>)) -> io::Result<()> {
        let mut ready = Vec::with_capacity(EVENTS);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), Some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in ready {
            let number = event.data.u64();
            match usize::try_from(LISTENERS - number) {
                Ok(listener) if listener < self.listeners.len() => self.accept(now, listener)?,
                _ => self.serve_one(ConnectionId(number), each),
            }
        }
        self.expire(now);
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            self.listen_for(epoll::EventFlags::IN)?;
        }
        for (connection, reason) in self.ended.drain(..) {
            each(StreamEvent::Closed { connection, reason });
        }
        Ok(())
    }
}
