//! What the edge keeps of publishers.

use std::rc::Rc;

use fermata_grip::item::Item;

use super::commands::Commands;
use super::ports::Ports;
use super::posts::Posts;
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
    /// What is published goes to the log that edges share.
    pub is_in_cluster: bool,
    pub posts: Posts,
    /// Bytes of items that may wait for that log.
    pub backlog_bytes_max: usize,
}

impl Publishing {
    pub fn new(settings: &Settings, is_in_cluster: bool) -> Self {
        Self {
            sequence: Sequence::new(settings),
            last_item: None,
            ports: Ports::default(),
            publishers: Vec::new(),
            commands: Commands::new(),
            is_in_cluster,
            posts: Posts::default(),
            backlog_bytes_max: settings.message_wait_bytes_max,
        }
    }
}
