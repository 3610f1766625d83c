//! Access of channels to clients.

use fermata_io::Driver;

use crate::channels::Channels;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::net::Net;
use crate::net::buffered::RELIEF;
use crate::websocket::Sockets;

/// The parts of a worker through which a record reaches clients.
///
/// Created for one call, and contains no decisions: its users change [`Channels`].
pub(crate) struct Clients<'a, D> {
    pub net: &'a mut Net<D>,
    pub http: &'a mut Http,
    pub sockets: &'a mut Sockets,
    pub waiting: &'a mut Waiting,
}

impl Channels {
    /// Continues held clients whose output is empty, and reports closed connections.
    #[inline]
    pub(crate) fn after_output<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        if !to.net.ended.is_empty() || !to.net.flushed.is_empty() {
            self.follow_output(to);
        }
    }

    #[inline(never)]
    fn follow_output<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        if to.http.relieve(to.net, to.waiting) {
            to.net.put_input_off(&mut to.http.uploads.postponed);
        }
        self.note_all_ended(to);
        // Sending may list the client again.
        let mut flushed = std::mem::take(&mut to.net.flushed);
        while !flushed.is_empty() {
            for index in flushed.drain(..) {
                if index == RELIEF {
                    continue;
                }
                self.send_held(to, index);
                self.note_all_ended(to);
            }
            std::mem::swap(&mut flushed, &mut to.net.flushed);
        }
        to.net.flushed = flushed;
    }

    /// Notifies every part that refers to connections, about the connections that were closed.
    fn note_all_ended<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        while let Some(mut ended) = to.net.ended.pop_front() {
            to.waiting.note_ended(&ended);
            to.sockets.note_ended(&mut ended, &mut to.net.counts);
            self.note_ended(to.net, ended);
        }
    }
}
