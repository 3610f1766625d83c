//! What a worker knows of the door.

use std::cell::RefCell;
use std::rc::Rc;

use fermata_io::Deadline;

use super::keys::Keys;
use super::listeners::Listeners;
use super::settings::MercureSettings;
use super::shared::Shared;

/// The settings, and which subscribers of this worker get what.
pub(crate) struct Door {
    pub(super) settings: Rc<MercureSettings>,
    pub(super) listeners: Rc<RefCell<Listeners>>,
    /// The channels that share their events with topics.
    pub(super) shared: Option<Shared>,
    /// The keys that are fetched, if some are.
    pub(super) keys: Option<Keys>,
}

impl Door {
    /// When requests that wait for keys are to be looked at.
    pub fn due(&self, now_ms: u64) -> Deadline {
        let keys = self.keys.as_ref();
        keys.map_or(Deadline::NEVER, |it| it.due(now_ms))
    }

    /// What an update without an id of its publisher's is called that has this one of the engine's.
    pub fn id_of(&self, id: &str) -> String {
        self.settings.hub.id_of(id)
    }
}
