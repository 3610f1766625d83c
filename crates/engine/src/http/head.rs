//! Parsing request heads, and deciding how to receive the body.

use fermata_io::Driver;
use fermata_proto::http1::{Body, Parse};
use fermata_proto::{chunked, http1};

use crate::http::Http;
use crate::http::body::{BodyRest, HeadAt};
use crate::http::protocol::Protocol;
use crate::http::request::Place;
use crate::id::serial_after;
use crate::missed::missed;
use crate::net::Net;
use crate::net::buffer::Current;
use crate::net::index::ExchangeIndex;
use crate::net::input::Step;
use crate::net::running::Running;

impl Http {
    /// Parses a head at the current position.
    pub(crate) fn step_head<D: Driver>(&mut self, net: &mut Net<D>, current: Current) -> Step {
        let Current {
            index, at, filled, ..
        } = current;
        if at == filled {
            return Step::Starved;
        }
        match http1::parse_after(
            &mut self.repeats,
            &net.input.bytes[at..filled],
            &self.limits,
            &mut self.request.head,
        ) {
            Parse::Partial => Step::Starved,
            Parse::Refused(_) if net.begin_http2(current) => Step::Again,
            Parse::Refused(refusal) => {
                let message = format!("{refusal}.\n");
                self.refuse_head(net, index.exchange(), refusal.status(), &message);
                Step::Again
            }
            Parse::Complete { head_bytes } => self.on_head(net, current, head_bytes),
        }
    }
}

impl Http {
    fn on_head<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        current: Current,
        head_bytes: usize,
    ) -> Step {
        let Current {
            index, at, filled, ..
        } = current;
        let body_start = at + head_bytes;
        if self.trace.is_on()
            && let Some(connection) = net.connections.at(index)
        {
            let bytes = &net.input.bytes[at..body_start];
            let head = &self.request.head;
            let (origin, protocol) = (connection.origin, Protocol::of(head));
            self.trace
                .on_request(index.exchange(), origin, protocol, head, bytes);
        }
        let is_draining = net.running != Running::Serving;
        let head = &self.request.head;
        if head.body == Body::None {
            let Some((connection, exchange)) = net.connections.pair_mut(index.exchange()) else {
                return missed(Step::Starved);
            };
            connection.note_head(head.keep_alive && !is_draining);
            exchange.note_head(head);
            let serial = self.next_serial();
            let place = Place::Input {
                head_start: at,
                body_start,
                body_len: 0,
            };
            self.request
                .begin((connection, exchange), index.exchange(), serial, place);
            self.lent = Some(self.request.handle);
            net.input.advance(body_start);
            return Step::Request;
        }
        let Some(plan) = self.plan_body(net, index.exchange(), &HeadAt::Input(at..body_start))
        else {
            return Step::Again;
        };
        let head = &self.request.head;
        let Some((connection, exchange)) = net.connections.pair_mut(index.exchange()) else {
            return missed(Step::Starved);
        };
        connection.note_head(head.keep_alive && !is_draining);
        exchange.note_head(head);

        let here = filled - body_start;
        match head.body {
            // Unreachable: handled above.
            Body::None => Step::Again,
            Body::Length(length) if length > plan.bytes_max => {
                self.refuse_body(net, index.exchange(), plan.bytes_max);
                Step::Again
            }
            Body::Length(length) if length <= here as u64 && plan.boundary.is_none() => {
                let body_len = length as usize;
                self.take_request(
                    net,
                    index.exchange(),
                    Place::Input {
                        head_start: at,
                        body_start,
                        body_len,
                    },
                );
                net.input.advance(body_start + body_len);
                Step::Request
            }
            Body::Length(length) => {
                self.begin_body(net, current, body_start, BodyRest::Length(length), plan)
            }
            Body::Chunked => {
                let rest = BodyRest::Chunked(chunked::Decoder::new());
                self.begin_body(net, current, body_start, rest, plan)
            }
        }
    }

    /// Makes the parsed head the current request.
    pub(crate) fn take_request<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        place: Place,
    ) {
        let serial = self.next_serial();
        let Some(pair) = net.connections.pair_mut(index) else {
            return missed(());
        };
        self.request.begin(pair, index, serial, place);
        self.lent = Some(self.request.handle);
    }

    /// Returns a serial, which distinguishes a request from other requests of the same exchange.
    #[inline]
    fn next_serial(&mut self) -> u32 {
        self.serial = serial_after(self.serial);
        self.serial
    }
}
