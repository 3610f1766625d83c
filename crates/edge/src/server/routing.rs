//! The current routes.

use std::cell::RefCell;
use std::rc::Rc;

use crate::client::source::Table;
use crate::prepared::Prepared;
use crate::routes::file::RoutesFile;

/// Current routes and their source.
pub(super) struct Routing {
    pub table: Rc<Table>,
    pub generation: u32,
    /// The current table, shared with the metrics.
    pub shown: Rc<RefCell<Rc<Table>>>,
    pub routes_file: Option<RoutesFile>,
}

impl Routing {
    pub fn new(prepared: &Prepared, now_ms: u64) -> Self {
        let table = Rc::new(Table {
            generation: 0,
            routes: prepared.routes.clone(),
            home: None,
            watched: prepared.targets.watch(&prepared.routes, &[], now_ms),
        });
        Self {
            shown: Rc::new(RefCell::new(Rc::clone(&table))),
            table,
            generation: 0,
            routes_file: prepared.routes_file.clone(),
        }
    }

    /// Replaces the routes for new requests.
    pub fn set_table(&mut self, table: Rc<Table>) {
        *self.shown.borrow_mut() = Rc::clone(&table);
        self.table = table;
    }
}
