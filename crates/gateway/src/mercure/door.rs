//! What a worker knows of the door.

use std::cell::RefCell;
use std::rc::Rc;

use super::listeners::Listeners;
use super::settings::MercureSettings;
use super::shared::Shared;

/// The settings, and which subscribers of this worker get what.
pub(crate) struct Door {
    pub(super) settings: Rc<MercureSettings>,
    pub(super) listeners: Rc<RefCell<Listeners>>,
    /// The channels that share their events with topics.
    pub(super) shared: Option<Shared>,
}
