//! Rate-limited delivery: Pushpin's `message_rate`, `message_hwm` and `message_block_size`.
//!
//! Without a rate, this code is not used, and clients receive messages as fast as they read. With a rate, each delivery of an item
//! to a client waits in the queue of the client's route, and the routes take turns. Deliveries that do not fit into a queue are
//! dropped, counted and logged.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::stats::Counter;
use fermata_engine::{Left, RequestId};
use fermata_grip::item::Item;

use crate::client::clients::Clients;
use crate::client::source::Engine;
use crate::publish::pacer::{Delivery, Queued};
use crate::server::holds::Holds;
use crate::timers::Timer;

impl Holds<'_> {
    /// Delivers queued items as far as the rate permits, and sets the timer for the rest.
    pub(super) fn on_rate_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        while let Some((delivery, dropped)) = self
            .clients
            .pacer
            .as_mut()
            .and_then(|pacer| pacer.next(now_ms))
        {
            if dropped > 0 {
                let line = format!("message_hwm: {dropped} deliveries of a route were dropped");
                self.worker.net.log_for_client(LogLevel::Warning, &line);
            }
            self.deliver_paced(&delivery);
        }
        if let Some(due_ms) = self
            .clients
            .pacer
            .as_ref()
            .and_then(|pacer| pacer.due_ms(now_ms))
        {
            self.timers.at(due_ms, Timer::Rate);
        }
    }

    fn deliver_paced(&mut self, delivery: &Delivery) {
        let handle = delivery.client.request();
        let is_it = self
            .clients
            .sessions
            .get(&handle)
            .is_some_and(|it| it.serial == delivery.serial);
        if is_it {
            self.on_item(delivery.client, &delivery.channel, &delivery.item);
        }
    }
}

impl Clients {
    /// Queues an item for a client. Returns true if a rate is set.
    pub(super) fn pace(
        &mut self,
        worker: &mut Engine,
        client: Left,
        channel: &[u8],
        item: &Rc<Item>,
    ) -> bool {
        let handle = client.request();
        let Some(pacer) = &mut self.pacer else {
            return false;
        };
        let Some(session) = self.sessions.get(&handle) else {
            // The client has left, or an earlier item has ended its hold.
            return true;
        };
        let bytes = match client {
            Left::Request(_) => item.http_response.as_ref().map(|it| it.action.bytes()),
            Left::Held(_) => item.http_stream.as_ref().map(|it| it.action.bytes()),
            Left::Socket(_) => item.ws_message.as_ref().map(|it| it.action.bytes()),
        };
        let delivery = Delivery {
            client,
            serial: session.serial,
            channel: Rc::from(channel),
            item: Rc::clone(item),
            // An item without content for this transport only advances the client's ids, so it does not count against the rate.
            units: bytes.map_or(0, |bytes| item.blocks(bytes, pacer.block_bytes)),
        };
        let home = session.source.home();
        let route = (home.table.generation, home.rule);
        let outcome = pacer.push(route, delivery);
        if outcome != Queued::Waiting {
            worker.net.count(Counter::EdgeDroppedRate, 1);
        }
        if outcome == Queued::DroppedFirst {
            let line = format!(
                "route {}: deliveries are dropped: message_hwm of them wait for message_rate; raise either, or set message_rate to 0 for as fast as clients take them",
                self.route_name(handle)
            );
            worker.net.log_for_client(LogLevel::Warning, &line);
        }
        true
    }

    fn route_name(&self, handle: RequestId) -> String {
        let rule = self.sessions.get(&handle);
        let rule = rule.and_then(|it| it.source.home().rule());
        rule.map_or_else(String::new, |it| match &it.id {
            Some(id) => id.clone(),
            None => format!("on line {}", it.line),
        })
    }
}
