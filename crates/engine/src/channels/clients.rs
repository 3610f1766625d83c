//! The way of what channels bring to clients.

use fermata_io::Driver;

use crate::channels::Channels;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::net::Net;
use crate::websocket::Sockets;

/// The parts of a worker that channels reach clients through: a record may have to be sent by any of them.
///
/// It exists for the length of a call and decides nothing. What uses it changes [`Channels`].
pub(crate) struct Clients<'a, D> {
    pub net: &'a mut Net<D>,
    pub http: &'a mut Http,
    pub sockets: &'a mut Sockets,
    pub waiting: &'a mut Waiting,
}

impl Channels {
    /// Has held clients that have taken everything follow their channels, and tells of connections that have ended.
    #[inline]
    pub(crate) fn after_output<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        if !to.net.ended.is_empty() || !to.net.flushed.is_empty() {
            self.follow_output(to);
        }
    }

    #[inline(never)]
    fn follow_output<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        self.note_all_ended(to);
        // What is sent here may list its client again.
        let mut flushed = std::mem::take(&mut to.net.flushed);
        while !flushed.is_empty() {
            for index in flushed.drain(..) {
                self.send_held(to, index);
                self.note_all_ended(to);
            }
            std::mem::swap(&mut flushed, &mut to.net.flushed);
        }
        to.net.flushed = flushed;
    }

    /// Tells the parts that know of connections which of them have ended.
    fn note_all_ended<D: Driver>(&mut self, to: &mut Clients<'_, D>) {
        while let Some(mut ended) = to.net.ended.pop_front() {
            to.waiting.note_ended(&ended);
            to.sockets.note_ended(&mut ended, &mut to.net.counts);
            self.note_ended(to.net, ended);
        }
    }
}
