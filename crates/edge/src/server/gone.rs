//! `gone` links: notify an origin when a client that it held has left.
//!
//! The notification is one POST without content; its response has no effect. No notification is sent for a client that received its
//! response, or whose stream the origin ended.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::stats::Counter;

use crate::client::clients::Clients;
use crate::client::source::{Engine, Owner, Source};
use crate::server::holds::Holds;
use crate::server::tasks::Ask;
use crate::upstream::response::Head;
use fermata_engine::RequestId;

/// Maximum number of notifications in progress. Further notifications are dropped and counted.
const NOTIFYING_MAX: usize = 1_000;

impl Holds<'_> {
    /// Notifies the origin of a client that has left.
    pub(super) fn notify_gone(&mut self, handle: RequestId) {
        let Some(gone_link) = self.clients.gone_links.links.remove(&handle) else {
            // The client has no `gone` link, or the link was removed by `forget_gone`.
            return;
        };
        let (source, uri) = *gone_link;
        if self.clients.gone_links.notifying >= NOTIFYING_MAX {
            return self
                .clients
                .on_gone_failed(self.worker, "too many notifications are in progress");
        }
        let Some(mut source) = self.routing.link_source(&source, &uri) else {
            return self
                .clients
                .on_gone_failed(self.worker, "the gone link has no route");
        };
        let get = &source.request;
        source.request = Rc::new(get.post(get.headers.clone(), Vec::new()));
        self.clients.gone_links.last += 1;
        self.clients.gone_links.notifying += 1;
        let number = self.clients.gone_links.last;
        self.tasks.ask(Ask::new(Owner::GoneNotice(number), source));
    }
}

impl Clients {
    /// Handles the response to a notification.
    pub(super) fn on_gone(&mut self, worker: &mut Engine, head: &Head, body: &[u8]) {
        if (200..300).contains(&head.status) && body.is_empty() {
            self.gone_links.notifying = self.gone_links.notifying.saturating_sub(1);
            worker.net.count(Counter::EdgeGoneTold, 1);
        } else {
            let reason = format!(
                "its response has status {} and {} bytes; give a status of 200 to 299 and no body",
                head.status,
                body.len()
            );
            self.on_gone_undelivered(worker, &reason);
        }
    }

    /// Handles a notification that failed.
    pub(super) fn on_gone_undelivered(&mut self, worker: &mut Engine, reason: &str) {
        self.gone_links.notifying = self.gone_links.notifying.saturating_sub(1);
        self.on_gone_failed(worker, reason);
    }

    fn on_gone_failed(&mut self, worker: &mut Engine, reason: &str) {
        worker.net.count(Counter::EdgeGoneFailed, 1);
        let line =
            format!("gone link: cannot notify the origin of a client that has left: {reason}");
        worker.net.log_for_client(LogLevel::Warning, &line);
    }

    /// Registers the `gone` link of a held client. Only the first link is used.
    pub(super) fn watch_for_gone(
        &mut self,
        handle: RequestId,
        source: &Source,
        link: Option<Vec<u8>>,
    ) {
        if let Some(uri) = link {
            let links = &mut self.gone_links.links;
            links
                .entry(handle)
                .or_insert_with(|| Box::new((source.clone(), uri)));
        }
    }

    /// Removes the link of a client that received its response or whose stream has ended, so that no notification is sent.
    pub(super) fn forget_gone(&mut self, handle: RequestId) {
        self.gone_links.links.remove(&handle);
    }
}
