//! A worker's Mercure hub.

use std::cell::RefCell;
use std::rc::Rc;

use fermata_io::Deadline;

use super::keys::Keys;
use super::listeners::Listeners;
use super::settings::MercureSettings;
use super::shared::Shared;

/// Settings and subscribers of the Mercure hub in one worker.
pub(crate) struct MercureHub {
    pub(super) settings: Rc<MercureSettings>,
    pub(super) listeners: Rc<RefCell<Listeners>>,
    /// The channels that share their events with topics.
    pub(super) shared: Option<Shared>,
    /// Keys that are fetched from a URL; `None` = all keys are in the settings.
    pub(super) keys: Option<Keys>,
}

impl MercureHub {
    /// Returns the time of the next check of requests that wait for keys.
    pub fn due(&self, now_ms: u64) -> Deadline {
        let keys = self.keys.as_ref();
        keys.map_or(Deadline::NEVER, |it| it.due(now_ms))
    }

    /// Returns the Mercure id of an update whose publisher chose no id, derived from the engine's
    /// id.
    pub fn id_of(&self, id: &str) -> String {
        self.settings.hub.id_of(id)
    }
}
