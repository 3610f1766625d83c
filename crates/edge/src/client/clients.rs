//! The edge's state about clients.

use std::rc::Rc;

use super::body::Bodies;
use super::filtering::Filtering;
use super::gone::GoneLinks;
use super::missed::{FirstSubscriptions, Updates};
use super::request::ClientRequest;
use super::script::Script;
use super::session::Session;
use crate::numbered::Numbered;
use crate::publish::pacer::Pacer;
use crate::settings::Settings;
use fermata_engine::RequestId;

/// Held clients and state of their requests.
pub(crate) struct Clients {
    pub sessions: Numbered<RequestId, Box<Session>>,
    /// Serial number of the last hold.
    pub serials: u64,
    /// Placeholder for requests that are no longer needed.
    pub forgotten: Rc<ClientRequest>,
    pub filtering: Filtering,
    pub updates: Updates,
    pub first_subscriptions: FirstSubscriptions,
    pub gone_links: GoneLinks,
    pub bodies: Bodies,
    /// Limits the rate of deliveries; `None` = unlimited.
    pub pacer: Option<Box<Pacer>>,
    /// Requests whose responses become scripts (JSON-P).
    pub scripts: Numbered<RequestId, Script>,
}

impl Clients {
    pub fn new(settings: &Settings) -> Self {
        Self {
            sessions: Default::default(),
            serials: 0,
            forgotten: Rc::new(ClientRequest::forgotten()),
            filtering: Filtering::new(settings),
            updates: Updates::default(),
            first_subscriptions: FirstSubscriptions::new(settings),
            gone_links: GoneLinks::default(),
            bodies: Bodies::default(),
            pacer: Pacer::new(settings),
            scripts: Default::default(),
        }
    }
}
