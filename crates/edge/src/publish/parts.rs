//! What the edge keeps of publishers.

use std::rc::Rc;

use fermata_grip::item::Item;

use super::commands::Commands;
use super::ports::Ports;
use super::publishers::Publisher;
use super::sequence::Sequence;
use crate::settings::Settings;

/// Where items come from, and their order.
pub(crate) struct Publishing {
    pub sequence: Sequence,
    pub last_item: Option<(Vec<u8>, Rc<Item>)>,
    pub ports: Ports,
    /// Those that are connected to.
    pub publishers: Vec<Publisher>,
    pub commands: Commands,
}

impl Publishing {
    pub fn new(settings: &Settings) -> Self {
        Self {
            sequence: Sequence::new(settings),
            last_item: None,
            ports: Ports::default(),
            publishers: Vec::new(),
            commands: Commands::new(),
        }
    }
}
