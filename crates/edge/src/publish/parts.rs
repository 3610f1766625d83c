//! The edge's state about publishers.

use std::rc::Rc;

use fermata_grip::item::Item;

use super::commands::Commands;
use super::ports::Ports;
use super::posts::Posts;
use super::publishers::Publisher;
use super::sequence::Sequence;
use crate::client::delivery;
use crate::settings::Settings;

/// Cache of the last decoded item, which usually goes to many clients in a row.
#[derive(Default)]
pub(crate) struct LastItem(Option<(Vec<u8>, Rc<Item>)>);

impl LastItem {
    /// Decodes a record. Returns `None` if the record is not an item.
    pub fn read(&mut self, data: &[u8]) -> Option<Rc<Item>> {
        if let Some((known, item)) = &self.0
            && known == data
        {
            return Some(Rc::clone(item));
        }
        let item = Rc::new(delivery::read(data)?);
        self.0 = Some((data.to_vec(), Rc::clone(&item)));
        Some(item)
    }
}

/// Sources of items and their order.
pub(crate) struct Publishing {
    pub sequence: Sequence,
    pub last_item: LastItem,
    pub ports: Ports,
    /// Publishers to which the edge connects.
    pub publishers: Vec<Publisher>,
    pub commands: Commands,
    /// Items are appended to the shared log of a cluster.
    pub is_in_cluster: bool,
    pub posts: Posts,
    /// Maximum bytes of items that wait for that log.
    pub backlog_bytes_max: usize,
}

impl Publishing {
    pub fn new(settings: &Settings, is_in_cluster: bool) -> Self {
        Self {
            sequence: Sequence::new(settings),
            last_item: LastItem::default(),
            ports: Ports::default(),
            publishers: Vec::new(),
            commands: Commands::new(),
            is_in_cluster,
            posts: Posts::default(),
            backlog_bytes_max: settings.message_wait_bytes_max,
        }
    }
}
