//! The table. It looks rows up without a lock, changes them under the row's lock, and adds and deletes them under the table's lock.

use std::hash::BuildHasher;
use std::ops::Deref;

use crate::TableError;
use crate::layout::{COUNT, FREE, FRESH, LOCK, Layout, Meta, NEXT, REPAIR, ROW_LOCK};
use crate::lock::{Process, acquire};
use crate::schema::{Change, Row, Schema, Value, put_value};
use crate::store::{Slot, blank};
use fermata_shm::{AtomicU64, Guard, Ordering, RandomState, put};

/// Maximum number of attempts of a reader whose row or chain changes concurrently. After these, the reader acquires the locks.
const TRIES_MAX: u32 = if cfg!(loom) { 2 } else { 100 };

/// One process's handle of a table. `M` is the memory that all processes share.
pub struct Table<M> {
    shared: Shared<M>,
    /// Buffers for the last key and row that were read.
    key: Vec<u8>,
    row: Vec<u8>,
}

/// State that the handles of all processes share or copy.
struct Shared<M> {
    memory: M,
    schema: Schema,
    layout: Layout,
    /// The hasher has a key, so that no client can choose row keys that fall into one chain. Forked processes have the same hasher
    /// key.
    hasher: RandomState,
    process: Process,
}

/// Result of following a chain.
enum Walk {
    Found(Found),
    Missing,
    /// The chain changed concurrently.
    Lost,
}

#[derive(Clone, Copy)]
struct Found {
    slot: u32,
    meta: Meta,
    /// Index of the word that refers to the slot. This word is the bucket, or `NEXT` of the previous slot.
    link: usize,
}

impl<M: Deref<Target = [AtomicU64]>> Table<M> {
    /// Returns the number of words of memory that a table needs.
    #[must_use]
    pub fn words(schema: &Schema) -> usize {
        Layout::new(schema).words(schema.rows)
    }

    /// Creates a table without rows. Other processes get their handles by forking.
    ///
    /// # Panics
    /// Panics if the length of `memory` is not [`Table::words`], or if a word is not zero.
    #[must_use]
    pub fn new(memory: M, schema: Schema, process: Process) -> Table<M> {
        let layout = Layout::new(&schema);
        assert_eq!(memory.len(), layout.words(schema.rows));
        let row = vec![0; schema.bytes];
        let shared = Shared {
            memory,
            schema,
            layout,
            hasher: RandomState::default(),
            process,
        };
        Table {
            shared,
            key: Vec::new(),
            row,
        }
    }

    /// Creates a handle for another thread or process that shares the memory.
    #[must_use]
    pub fn another(&self, process: Process) -> Table<M>
    where
        M: Clone,
    {
        let shared = Shared {
            memory: self.shared.memory.clone(),
            schema: self.shared.schema.clone(),
            layout: self.shared.layout,
            hasher: self.shared.hasher.clone(),
            process,
        };
        Table {
            shared,
            key: Vec::new(),
            row: vec![0; self.row.len()],
        }
    }

    /// Sets the owner of this handle after a fork.
    pub fn set_process(&mut self, process: Process) {
        self.shared.process = process;
    }

    /// Sets the columns in `change`, and adds the row if it does not exist. Other columns of a new row are zero or empty.
    ///
    /// # Errors
    /// The table is full, the key is too long, or a lock cannot be acquired.
    pub fn set(&mut self, key: &[u8], change: &Change) -> Result<(), TableError> {
        self.shared.write(key, &mut self.row, &mut |row| {
            change.apply(row);
            Ok(())
        })
    }

    /// Adds to a column, starting at zero if the row does not exist, and returns the sum.
    ///
    /// # Errors
    /// As for [`Table::set`]; also if the types differ or the sum is out of range.
    pub fn add(
        &mut self,
        key: &[u8],
        column: usize,
        by: Value,
    ) -> Result<Value<'static>, TableError> {
        let places = &self.shared.schema.places;
        let place = *places.get(column).ok_or(TableError::Type)?;
        let mut sum = Value::Int(0);
        self.shared.write(key, &mut self.row, &mut |row| {
            let before = Row {
                places: &[place],
                bytes: row,
            };
            sum = match (before.value(0), by) {
                (Some(Value::Int(before)), Value::Int(by)) => {
                    Value::Int(before.checked_add(by).ok_or(TableError::Overflow)?)
                }
                (Some(Value::Float(before)), Value::Float(by)) => Value::Float(before + by),
                _ => return Err(TableError::Type),
            };
            put_value(row, &place, sum)
        })?;
        Ok(sum)
    }

    /// Deletes a row. Returns false if the row does not exist.
    ///
    /// # Errors
    /// The key is too long, or a lock cannot be acquired.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, TableError> {
        self.shared.delete(key)
    }

    /// Deletes all existing rows. Rows that other processes add concurrently may remain.
    ///
    /// # Errors
    /// A lock cannot be acquired.
    pub fn clear(&mut self) -> Result<(), TableError> {
        let mut place = 0;
        while let Some(next) = self.next(place)? {
            self.shared.delete(&self.key)?;
            place = next;
        }
        Ok(())
    }

    /// Copies a row. Returns `None` if the row does not exist.
    ///
    /// # Errors
    /// The key is too long; or the row changed continuously and a lock cannot be acquired.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Row<'_>>, TableError> {
        let is_there = self.shared.read(key, &mut self.row)?;
        Ok(is_there.then(|| self.row()))
    }

    /// Copies the first row at or after `place` and returns the place after that row. Returns `None` at the end. Start with 0. A
    /// row that keeps its slot is returned once. A row that is deleted and set again concurrently may be returned once, twice or
    /// never.
    ///
    /// # Errors
    /// A row changed continuously and its lock cannot be acquired.
    pub fn next(&mut self, place: u32) -> Result<Option<u32>, TableError> {
        let shared = &self.shared;
        let end = shared.memory[FRESH].load(Ordering::Acquire) as u32;
        for number in place..end.min(shared.schema.rows) {
            if shared.read_slot(number, &mut self.key, &mut self.row)? {
                return Ok(Some(number + 1));
            }
        }
        Ok(None)
    }

    /// Returns true if the row exists.
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool, TableError> {
        self.shared.contains(key)
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.shared.memory[COUNT].load(Ordering::Relaxed) as u32
    }

    /// Returns true if the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the table's declaration.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.shared.schema
    }

    /// Returns the last row that was copied.
    #[must_use]
    pub fn row(&self) -> Row<'_> {
        Row {
            places: &self.shared.schema.places,
            bytes: &self.row,
        }
    }

    /// Returns the key of the last row that [`Table::next`] copied.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl<M: Deref<Target = [AtomicU64]>> Shared<M> {
    fn slot(&self, number: u32) -> Slot<'_> {
        Slot {
            words: &self.memory[self.layout.slot(number)..self.layout.slot(number + 1)],
            layout: &self.layout,
        }
    }

    fn hash(&self, key: &[u8]) -> Result<u64, TableError> {
        if key.is_empty() || key.len() > self.schema.key_bytes_max as usize {
            return Err(TableError::Key {
                bytes: key.len(),
                bytes_max: self.schema.key_bytes_max,
            });
        }
        Ok(self.hasher.hash_one(key))
    }

    /// Returns the slot to which a link refers. Returns `None` at the end of a chain.
    fn linked(&self, link: usize) -> Result<Option<u32>, TableError> {
        match self.memory[link].load(Ordering::Acquire) {
            0 => Ok(None),
            number if number <= u64::from(self.schema.rows) => Ok(Some(number as u32 - 1)),
            _ => Err(TableError::Corrupt),
        }
    }

    /// Follows the chain of a key. Chains contain only live slots. If a slot leaves the chain before its link is read, the walk
    /// reports `Lost`. A row that exists all the time is therefore always found.
    fn walk(&self, hash: u64, key: &[u8]) -> Result<Walk, TableError> {
        let bucket = self.layout.bucket_of(hash);
        let mut link = bucket;
        let mut at = self.linked(link)?;
        for _ in 0..self.schema.rows {
            let Some(number) = at else {
                return Ok(Walk::Missing);
            };
            let slot = self.slot(number);
            let meta = slot.meta();
            let other = slot.hash();
            let is_it = other == hash && slot.has_key(key);
            let next_link = self.layout.slot(number) + NEXT;
            let next = self.linked(next_link)?;
            let is_of_chain = self.layout.bucket_of(other) == bucket;
            if !is_of_chain || !slot.meta_after().is_same_row(meta) {
                return Ok(Walk::Lost);
            }
            if is_it {
                let slot = number;
                return Ok(Walk::Found(Found { slot, meta, link }));
            }
            (link, at) = (next_link, next);
        }
        Ok(match at {
            Some(_) => Walk::Lost,
            None => Walk::Missing,
        })
    }

    /// Follows the chain of a key; requires the table's lock, under which chains do not change.
    fn walk_locked(&self, hash: u64, key: &[u8]) -> Result<Option<Found>, TableError> {
        match self.walk(hash, key)? {
            Walk::Found(found) => Ok(Some(found)),
            Walk::Missing => Ok(None),
            Walk::Lost => Err(TableError::Corrupt),
        }
    }

    fn lock_row(&self, number: u32) -> Result<Guard<'_>, TableError> {
        acquire(
            &self.memory[self.layout.slot(number) + ROW_LOCK],
            &self.process,
        )
    }

    /// Acquires the table's lock, and repairs the table if a previous owner crashed.
    fn lock(&self) -> Result<Guard<'_>, TableError> {
        let guard = acquire(&self.memory[LOCK], &self.process)?;
        let repair = &self.memory[REPAIR];
        if guard.is_inherited() {
            put(repair, 1, Ordering::Relaxed);
        }
        if repair.load(Ordering::Relaxed) != 0 {
            self.repair()?;
            put(repair, 0, Ordering::Relaxed);
        }
        Ok(guard)
    }

    /// Counts the rows and rebuilds the list of unused slots from the chains.
    #[cold]
    fn repair(&self) -> Result<(), TableError> {
        let fresh = self.memory[FRESH].load(Ordering::Relaxed);
        if fresh > u64::from(self.schema.rows) {
            return Err(TableError::Corrupt);
        }
        let mut is_row = vec![false; fresh as usize];
        for bucket in self.layout.all_buckets() {
            let mut link = bucket;
            while let Some(number) = self.linked(link)? {
                match is_row.get_mut(number as usize) {
                    Some(is_row @ false) => *is_row = true,
                    _ => return Err(TableError::Corrupt),
                }
                link = self.layout.slot(number) + NEXT;
            }
        }
        let mut free = 0;
        let mut rows = 0;
        for (number, is_row) in (0..fresh as u32).zip(is_row).rev() {
            if is_row {
                rows += 1;
                continue;
            }
            let slot = self.slot(number);
            if slot.meta().is_live() {
                // The insertion or deletion of this row was incomplete. Lock the row first, because a process that found it may be
                // about to change it.
                let _row = self.lock_row(number)?;
                slot.set_meta(slot.meta().deleted());
            }
            self.put_free(number, free);
            free = u64::from(number) + 1;
        }
        put(&self.memory[FREE], free, Ordering::Relaxed);
        put(&self.memory[COUNT], rows, Ordering::Relaxed);
        Ok(())
    }

    fn put_free(&self, number: u32, next: u64) {
        let slot = self.slot(number);
        slot.begin_change();
        put(&slot.words[NEXT], next, Ordering::Relaxed);
    }

    /// Changes or adds a row. `change` receives the current row, or an empty row. If `change` fails, nothing changes.
    fn write(
        &self,
        key: &[u8],
        row: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let hash = self.hash(key)?;
        for _ in 0..TRIES_MAX {
            match self.walk(hash, key)? {
                Walk::Found(found) => {
                    let _row = self.lock_row(found.slot)?;
                    let meta = self.slot(found.slot).meta();
                    if meta.is_same_row(found.meta) {
                        return self.change(found.slot, meta, row, change);
                    }
                }
                Walk::Missing => break,
                Walk::Lost => std::hint::spin_loop(),
            }
        }
        let _table = self.lock()?;
        if let Some(found) = self.walk_locked(hash, key)? {
            let _row = self.lock_row(found.slot)?;
            let meta = self.slot(found.slot).meta();
            return self.change(found.slot, meta, row, change);
        }
        self.insert(hash, key, row, change)
    }

    /// Changes a row. The caller must hold the row's lock.
    fn change(
        &self,
        number: u32,
        meta: Meta,
        row: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let slot = self.slot(number);
        let places = &self.schema.places;
        slot.load_row(meta.copy(), places, row);
        change(row)?;
        let changed = meta.changed();
        slot.begin_change();
        slot.store_row(changed.copy(), places, row);
        slot.set_meta(changed);
        Ok(())
    }

    /// Adds a row; requires the table's lock and a key without a row.
    fn insert(
        &self,
        hash: u64,
        key: &[u8],
        row: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        blank(&self.schema, row);
        change(row)?;
        let number = self.take_free()?;
        let slot = self.slot(number);
        let meta = slot.meta();
        let bucket = &self.memory[self.layout.bucket_of(hash)];
        slot.begin_change();
        slot.set_key(hash, key);
        slot.store_row(meta.copy(), &self.schema.places, row);
        let first = bucket.load(Ordering::Relaxed);
        put(&slot.words[NEXT], first, Ordering::Relaxed);
        // Mark the slot as live before linking it, so that no reader waits for it.
        slot.set_meta(meta.inserted());
        put(bucket, u64::from(number) + 1, Ordering::Release);
        self.count(1);
        Ok(())
    }

    fn take_free(&self) -> Result<u32, TableError> {
        if let Some(number) = self.linked(FREE)? {
            let next = self.slot(number).words[NEXT].load(Ordering::Relaxed);
            put(&self.memory[FREE], next, Ordering::Relaxed);
            return Ok(number);
        }
        let fresh = self.memory[FRESH].load(Ordering::Relaxed);
        let rows = self.schema.rows;
        if fresh >= u64::from(rows) {
            return Err(TableError::Full { rows });
        }
        put(&self.memory[FRESH], fresh + 1, Ordering::Release);
        Ok(fresh as u32)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, TableError> {
        let hash = self.hash(key)?;
        let _table = self.lock()?;
        let Some(found) = self.walk_locked(hash, key)? else {
            return Ok(false);
        };
        let _row = self.lock_row(found.slot)?;
        let slot = self.slot(found.slot);
        let next = slot.words[NEXT].load(Ordering::Relaxed);
        // Unlink the slot first, so that no reader waits for a dead slot to leave the chain.
        put(&self.memory[found.link], next, Ordering::Release);
        slot.set_meta(slot.meta().deleted());
        self.put_free(found.slot, self.memory[FREE].load(Ordering::Relaxed));
        put(
            &self.memory[FREE],
            u64::from(found.slot) + 1,
            Ordering::Relaxed,
        );
        self.count(-1);
        Ok(true)
    }

    fn count(&self, by: i64) {
        let rows = self.memory[COUNT].load(Ordering::Relaxed);
        put(
            &self.memory[COUNT],
            rows.wrapping_add_signed(by),
            Ordering::Relaxed,
        );
    }

    fn contains(&self, key: &[u8]) -> Result<bool, TableError> {
        let hash = self.hash(key)?;
        for _ in 0..TRIES_MAX {
            match self.walk(hash, key)? {
                Walk::Found(_) => return Ok(true),
                Walk::Missing => return Ok(false),
                Walk::Lost => std::hint::spin_loop(),
            }
        }
        let _table = self.lock()?;
        Ok(self.walk_locked(hash, key)?.is_some())
    }

    fn read(&self, key: &[u8], row: &mut [u8]) -> Result<bool, TableError> {
        let hash = self.hash(key)?;
        let places = &self.schema.places;
        for _ in 0..TRIES_MAX {
            match self.walk(hash, key)? {
                Walk::Found(found) => {
                    let slot = self.slot(found.slot);
                    slot.load_row(found.meta.copy(), places, row);
                    if slot.meta_after() == found.meta {
                        return Ok(true);
                    }
                }
                Walk::Missing => return Ok(false),
                Walk::Lost => {}
            }
            std::hint::spin_loop();
        }
        let _table = self.lock()?;
        let Some(found) = self.walk_locked(hash, key)? else {
            return Ok(false);
        };
        let _row = self.lock_row(found.slot)?;
        let slot = self.slot(found.slot);
        slot.load_row(slot.meta().copy(), places, row);
        Ok(true)
    }

    /// Copies the content of a slot. Returns false if the slot holds no row.
    fn read_slot(
        &self,
        number: u32,
        key: &mut Vec<u8>,
        row: &mut [u8],
    ) -> Result<bool, TableError> {
        let slot = self.slot(number);
        for _ in 0..TRIES_MAX {
            let meta = slot.meta();
            if !meta.is_live() {
                return Ok(false);
            }
            slot.load_key(key);
            slot.load_row(meta.copy(), &self.schema.places, row);
            if slot.meta_after() == meta {
                match self.walk(slot.hash(), key)? {
                    // A row exists only when it is in its chain. The process that adds the row may crash before that.
                    Walk::Found(found) => return Ok(found.slot == number),
                    Walk::Missing => return Ok(false),
                    Walk::Lost => {}
                }
            }
            std::hint::spin_loop();
        }
        let _table = self.lock()?;
        let meta = slot.meta();
        if !meta.is_live() {
            return Ok(false);
        }
        slot.load_key(key);
        let Some(found) = self.walk_locked(slot.hash(), key)? else {
            return Ok(false);
        };
        let _row = self.lock_row(number)?;
        slot.load_row(slot.meta().copy(), &self.schema.places, row);
        Ok(found.slot == number)
    }
}
