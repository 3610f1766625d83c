//! Spools of responses that PHP-FPM has produced and clients have not read.
//!
//! A PHP-FPM child serves one request at a time, so a response that waits for its client occupies a child. A [`Spool`] stores a
//! response that is read ahead of its client: up to [`MEMORY_BYTES_MAX`] in memory, the rest in an unnamed file. Its [`Ledger`]
//! limits the bytes and files of all clients of a worker, and of one address. Without room, responses are not read ahead, and
//! occupy their children. [`Spool::holds_too_many`] returns true if the responses of an address occupy more children than allowed.
//!
//! Bytes of a file that the client has read are returned to the file system in steps of
//! [`FREED_BYTES`]; the ledger counts the rest. A file system without holes frees them when the
//! client has read all of the file.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use fermata_config::Settings;
use fermata_io::files;

/// Maximum number of bytes of one response in memory.
pub const MEMORY_BYTES_MAX: usize = 256 * 1024;

/// Maximum number of bytes of all responses of a worker in memory. Above it, a response is in a file from its first byte.
const MEMORY_TOTAL_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Maximum number of files of a worker; each needs a descriptor, as clients do.
const FILES_MAX: usize = 256;
/// Maximum number of files for clients of one address.
const FILES_PER_ADDRESS_MAX: usize = 64;

/// Number of bytes of a file that are returned to the file system at a time: a multiple of its block size.
const FREED_BYTES: u64 = 256 * 1024;

/// Time in milliseconds after which a client that reads nothing may be disconnected, to free the connection to PHP-FPM that its
/// response occupies. The window of a slow client opens in large steps, so a shorter time would disconnect clients that read.
pub const SILENT_MS: u64 = 2_000;

/// Bytes read from a file at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Data of one worker for slow clients.
#[derive(Debug, Default)]
pub struct Ledger {
    bytes_max: u64,
    address_bytes_max: u64,
    holding_max: usize,
    memory: Cell<u64>,
    total: Cell<Share>,
    addresses: RefCell<HashMap<IpAddr, Share>>,
}

/// Usage by the clients of one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    bytes: u64,
    files: usize,
    /// Number of responses that occupy a connection to PHP-FPM and wait for their client.
    holding: usize,
    spools: usize,
}

impl Ledger {
    /// Creates a ledger with the limits of the settings.
    pub fn new(settings: &Settings) -> Rc<Ledger> {
        Rc::new(Ledger {
            bytes_max: settings.response_spool_bytes_max,
            address_bytes_max: settings.response_spool_address_bytes_max,
            holding_max: settings.response_waits_per_address_max,
            ..Ledger::default()
        })
    }

    fn share(&self, address: Option<IpAddr>) -> Share {
        let addresses = self.addresses.borrow();
        let found = address.and_then(|it| addresses.get(&it));
        found.copied().unwrap_or_default()
    }

    fn change(&self, address: Option<IpAddr>, change: impl Fn(&mut Share)) {
        let mut total = self.total.get();
        change(&mut total);
        self.total.set(total);
        if let Some(address) = address {
            let mut addresses = self.addresses.borrow_mut();
            let share = addresses.entry(address).or_default();
            change(share);
            if *share == Share::default() {
                addresses.remove(&address);
            }
        }
    }

    /// Returns true if a file of this address may grow by `bytes`.
    fn has_room(&self, address: Option<IpAddr>, bytes: u64, is_new_file: bool) -> bool {
        let (total, share) = (self.total.get(), self.share(address));
        let has_bytes =
            total.bytes + bytes <= self.bytes_max && share.bytes + bytes <= self.address_bytes_max;
        let has_files = total.files < FILES_MAX && share.files < FILES_PER_ADDRESS_MAX;
        has_bytes && (has_files || !is_new_file)
    }
}

/// The part of a response that its client has not read, oldest bytes first.
#[derive(Debug)]
pub struct Spool {
    ledger: Rc<Ledger>,
    address: Option<IpAddr>,
    /// Bytes that precede the bytes in the file; unread from index `taken` on.
    memory: Vec<u8>,
    taken: usize,
    file: Option<File>,
    written: u64,
    read: u64,
    /// Bytes at the start of the file that were returned to the file system.
    ///
    /// Invariant: at most `read`; the ledger counts `written - freed`.
    freed: u64,
    /// Bytes that follow the bytes in the file after a failed write; at most one read.
    tail: Vec<u8>,
    /// Time since which the client has read nothing while PHP-FPM waits for it; `None` = PHP-FPM does not wait.
    holding_since_ms: Option<u64>,
    /// Number of the client's unread bytes when it last read, see [`Spool::note_unread`].
    unread_bytes: usize,
    /// The file cannot be written: no bytes are read ahead until the client has read all stored bytes.
    has_failed: bool,
}

impl Spool {
    /// Creates an empty spool for a client with this address. `None`: the client has no address, and only the worker's limits
    /// apply.
    pub fn new(ledger: &Rc<Ledger>, address: Option<IpAddr>) -> Spool {
        ledger.change(address, |share| share.spools += 1);
        Spool {
            ledger: Rc::clone(ledger),
            address,
            memory: Vec::new(),
            taken: 0,
            file: None,
            written: 0,
            read: 0,
            freed: 0,
            tail: Vec::new(),
            holding_since_ms: None,
            unread_bytes: 0,
            has_failed: false,
        }
    }

    /// Returns true if the client has read everything.
    pub fn is_empty(&self) -> bool {
        self.taken == self.memory.len() && self.read == self.written && self.tail.is_empty()
    }

    /// Returns true if a piece of `bytes` may be read ahead.
    pub fn has_room(&self, bytes: usize) -> bool {
        if self.has_failed {
            return self.is_empty();
        }
        let is_new_file = self.written == 0;
        is_new_file && self.fits_memory(bytes)
            || self
                .ledger
                .has_room(self.address, bytes as u64, is_new_file)
    }

    fn fits_memory(&self, bytes: usize) -> bool {
        self.memory.len() + bytes <= MEMORY_BYTES_MAX
            && self.ledger.memory.get() + bytes as u64 <= MEMORY_TOTAL_BYTES_MAX
    }

    /// Appends a piece. `open` creates a file when memory has no room.
    ///
    /// # Errors
    /// The file cannot be written. The piece is stored in memory, and [`Spool::has_room`] returns false until the
    /// client has read it.
    pub fn write(
        &mut self,
        piece: &[u8],
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        if self.is_empty() {
            self.has_failed = false;
        }
        if self.has_failed {
            // The rest of the read in which the write to the file failed.
            self.tail.extend_from_slice(piece);
            return Ok(());
        }
        if self.written == 0 && self.fits_memory(piece.len()) {
            self.keep(piece);
            return Ok(());
        }
        let outcome = self.write_file(piece, open);
        if outcome.is_err() {
            self.has_failed = true;
            self.tail.extend_from_slice(piece);
        }
        outcome
    }

    /// Appends to memory.
    fn keep(&mut self, piece: &[u8]) {
        if self.taken == self.memory.len() {
            self.forget_memory();
        }
        self.memory.extend_from_slice(piece);
        let memory = &self.ledger.memory;
        memory.set(memory.get() + piece.len() as u64);
    }

    fn forget_memory(&mut self) {
        let memory = &self.ledger.memory;
        memory.set(memory.get() - self.memory.len() as u64);
        self.memory.clear();
        self.taken = 0;
    }

    fn write_file(
        &mut self,
        piece: &[u8],
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = none.insert(open()?);
                self.ledger.change(self.address, |share| share.files += 1);
                file
            }
        };
        file.write_all_at(piece, self.written)?;
        self.written += piece.len() as u64;
        let bytes = piece.len() as u64;
        self.ledger
            .change(self.address, |share| share.bytes += bytes);
        Ok(())
    }

    /// Appends the next bytes for the client to `out`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.taken < self.memory.len() {
            let end = self.memory.len().min(self.taken + PIECE_BYTES);
            out.extend_from_slice(&self.memory[self.taken..end]);
            self.taken = end;
            if end == self.memory.len() {
                self.forget_memory();
                self.memory = Vec::new();
            }
            return Ok(());
        }
        if self.read < self.written {
            return self.read_file(out);
        }
        out.append(&mut self.tail);
        Ok(())
    }

    fn read_file(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let bytes = (self.written - self.read).min(PIECE_BYTES as u64);
        let start = out.len();
        out.resize(start + bytes as usize, 0);
        file.read_exact_at(&mut out[start..], self.read)?;
        self.read += bytes;
        if self.read == self.written {
            self.forget_file();
        } else {
            self.free_read();
        }
        Ok(())
    }

    /// Returns the bytes that the client has read to the file system.
    fn free_read(&mut self) {
        let bytes = (self.read - self.freed) / FREED_BYTES * FREED_BYTES;
        if bytes > 0
            && let Some(file) = &self.file
            && files::free_range(file, self.freed, bytes).is_ok()
        {
            self.freed += bytes;
            let address = self.address;
            self.ledger.change(address, |share| share.bytes -= bytes);
        }
    }

    /// Closes the file after the client has read all of its bytes, which frees the file's space.
    fn forget_file(&mut self) {
        if self.file.take().is_some() {
            let counted = self.written - self.freed;
            self.ledger.change(self.address, |share| {
                share.bytes -= counted;
                share.files -= 1;
            });
        }
        self.written = 0;
        self.read = 0;
        self.freed = 0;
    }

    /// Records that the response waits for its client, which has `unread_bytes` left to read, while the response occupies a
    /// connection to PHP-FPM.
    pub fn hold(&mut self, now_ms: u64, unread_bytes: usize) {
        if self.holding_since_ms.is_none() {
            self.holding_since_ms = Some(now_ms);
            self.unread_bytes = unread_bytes;
            self.ledger.change(self.address, |share| share.holding += 1);
        }
    }

    /// Records that the response no longer waits, or that its client has read a piece.
    pub fn release(&mut self) {
        if self.holding_since_ms.take().is_some() {
            self.ledger.change(self.address, |share| share.holding -= 1);
        }
    }

    /// Records the number of the client's unread bytes. A smaller number than before means that the client has read.
    pub fn note_unread(&mut self, now_ms: u64, unread_bytes: usize) {
        if let Some(since_ms) = &mut self.holding_since_ms
            && unread_bytes < self.unread_bytes
        {
            *since_ms = now_ms;
            self.unread_bytes = unread_bytes;
        }
    }

    /// Returns the time since which the client has read nothing while the response occupies a connection; `None` if it occupies no
    /// connection.
    pub fn holding_since_ms(&self) -> Option<u64> {
        self.holding_since_ms
    }

    /// Returns true if the response occupies a connection, and the responses of its address occupy too many.
    pub fn holds_too_many(&self) -> bool {
        self.holding_since_ms.is_some()
            && self.address.is_some()
            && self.ledger.share(self.address).holding > self.ledger.holding_max
    }

    /// Returns true if both responses occupy connections and have the same client address.
    pub fn holds_beside(&self, other: &Spool) -> bool {
        let both = self.holding_since_ms.and(other.holding_since_ms);
        both.is_some() && self.address == other.address
    }

    /// Returns the client's address, or its network for IPv6.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.release();
        self.forget_memory();
        self.forget_file();
        self.ledger.change(self.address, |share| share.spools -= 1);
    }
}

/// Returns the log line for a file that cannot be written.
pub fn unstored(error: &io::Error) -> String {
    format!(
        "FastCGI: a response cannot be stored: {error}; PHP-FPM waits for its client; free space, or set upload_directory"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const A: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    fn ledger(bytes_max: u64, address_bytes_max: u64) -> Rc<Ledger> {
        Ledger::new(&Settings {
            response_spool_bytes_max: bytes_max,
            response_spool_address_bytes_max: address_bytes_max,
            response_waits_per_address_max: 1,
            ..Settings::default()
        })
    }

    fn file() -> io::Result<File> {
        let path = std::env::temp_dir().join(format!("spool-{:x}", fermata_io::random::u64()));
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        std::fs::remove_file(path)?;
        file
    }

    fn full() -> io::Result<File> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn read_all(spool: &mut Spool) -> Vec<u8> {
        let mut out = Vec::new();
        while !spool.is_empty() {
            spool.read(&mut out).expect("it is readable");
        }
        out
    }

    #[test]
    fn returns_bytes_in_order_from_memory_and_file() {
        let ledger = ledger(u64::MAX / 2, u64::MAX / 2);
        let mut spool = Spool::new(&ledger, A);
        let bytes: Vec<u8> = (0..1_000_000).map(|at| (at / 7 % 251) as u8).collect();
        for round in 0..2 {
            for piece in bytes.chunks(10_000) {
                assert!(spool.has_room(piece.len()));
                spool.write(piece, file).expect("there is room");
            }
            assert!(read_all(&mut spool) == bytes, "round {round}");
        }
        drop(spool);
        assert_eq!(
            (ledger.memory.get(), ledger.total.get()),
            (0, Share::default())
        );
        assert!(ledger.addresses.borrow().is_empty());
    }

    #[test]
    fn has_no_room_beyond_the_bounds_of_worker_and_address() {
        let ledger = ledger(300_000, 200_000);
        let piece = [7; 100_000];
        let mut first = Spool::new(&ledger, A);
        for _ in 0..2 {
            first.write(&piece, file).expect("memory");
        }
        for _ in 0..2 {
            assert!(first.has_room(piece.len()));
            first.write(&piece, file).expect("a file");
        }
        assert!(!first.has_room(1), "its address has 200,000 bytes in files");
        let mut other = Spool::new(&ledger, None);
        while other.has_room(piece.len()) {
            other.write(&piece, file).expect("there is room");
        }
        assert_eq!(ledger.total.get().bytes, 300_000);
        assert_eq!(read_all(&mut first).len(), 400_000);
        assert!(first.has_room(piece.len()) && other.has_room(piece.len()));
    }

    #[test]
    fn counts_the_part_of_a_file_that_was_not_read() {
        const BYTES_MAX: u64 = 8 * FREED_BYTES;
        let ledger = ledger(BYTES_MAX, BYTES_MAX);
        let mut spool = Spool::new(&ledger, A);
        let piece = [7; PIECE_BYTES];
        let mut out = Vec::new();
        let mut written = 0;
        // A client that reads slowly, and a response of ten times the bound.
        while written < 10 * BYTES_MAX {
            while spool.has_room(piece.len()) {
                spool.write(&piece, file).expect("there is room");
                written += piece.len() as u64;
            }
            assert!(!spool.is_empty());
            for _ in 0..8 {
                spool.read(&mut out).expect("it is readable");
            }
            let blocks = spool
                .file
                .as_ref()
                .map(|it| it.metadata().expect("it is open").blocks());
            let used = blocks.unwrap_or(0) * 512;
            assert!(
                used <= BYTES_MAX + FREED_BYTES,
                "{used} bytes of {BYTES_MAX}"
            );
        }
        assert_eq!(out.len() + read_all(&mut spool).len(), written as usize);
        assert_eq!(ledger.total.get().bytes, 0);
    }

    #[test]
    fn counts_a_client_that_reads_as_reading() {
        let mut spool = Spool::new(&ledger(0, 0), A);
        spool.hold(1_000, 500);
        spool.note_unread(1_500, 500);
        assert_eq!(spool.holding_since_ms(), Some(1_000));
        spool.note_unread(2_000, 499);
        assert_eq!(spool.holding_since_ms(), Some(2_000));
    }

    #[test]
    fn keeps_the_piece_that_a_full_disk_refuses() {
        let ledger = ledger(u64::MAX / 2, u64::MAX / 2);
        let mut spool = Spool::new(&ledger, A);
        let pieces = [[1; 200_000], [2; 200_000]];
        spool.write(&pieces[0], full).expect("memory");
        let error = spool.write(&pieces[1], full).expect_err("it is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!spool.has_room(1));
        assert!(read_all(&mut spool) == pieces.concat());
        assert!(spool.has_room(1), "it is tried again");
    }

    #[test]
    fn finds_the_address_that_holds_too_many() {
        let ledger = ledger(0, 0);
        let mut spools: Vec<Spool> = (0..3).map(|_| Spool::new(&ledger, A)).collect();
        let mut other = Spool::new(&ledger, Some(IpAddr::from([10, 0, 0, 1])));
        other.hold(1, 0);
        for spool in &mut spools {
            assert!(!spool.holds_too_many());
            spool.hold(1, 0);
        }
        assert!(spools[0].holds_too_many() && !other.holds_too_many());
        assert!(spools[0].holds_beside(&spools[1]) && !spools[0].holds_beside(&other));
        spools.truncate(1);
        assert!(!spools[0].holds_too_many());
    }
}
