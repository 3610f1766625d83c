//! Processes killed while they hold a lock of a table: no other process waits for them, and no
//! change is lost.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use fermata_testkit::{Connection, Random, Signal, send_signal, wait_until};
use fermata_tests::{fixture, json};

/// Number of kills, and number of changes per request.
const KILLS: usize = 40;
const CHANGES: u64 = 20;

/// A writer of one row: its path and key, and the changes acknowledged and started.
struct Writer {
    path: &'static str,
    key: &'static str,
    acknowledged: AtomicU64,
    begun: AtomicU64,
    /// The process that responded last.
    pid: AtomicU32,
}

impl Writer {
    fn new(path: &'static str, key: &'static str) -> Writer {
        Writer {
            path,
            key,
            acknowledged: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            pid: AtomicU32::new(0),
        }
    }

    fn run(&self, address: std::net::SocketAddr, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            let Ok(mut connection) = Connection::try_open(address) else {
                continue;
            };
            self.begun.fetch_add(CHANGES, Ordering::AcqRel);
            let answer = connection.try_request("GET", self.path, &[], b"");
            // If the process was killed, the request is cut off, or the server itself responds.
            if let Ok(answer) = answer
                && answer.status() == 200
            {
                self.acknowledged.fetch_add(CHANGES, Ordering::AcqRel);
                let pid = answer.text().parse().expect("a process id");
                self.pid.store(pid, Ordering::Release);
            }
        }
    }
}

#[test]
fn killed_workers_and_jobs_lose_no_change_and_keep_no_lock() {
    let server = fixture("killed").workers(3).start();
    let address = server.address();
    let writers = [
        Writer::new("/change/a", "a"),
        Writer::new("/change/b", "b"),
        Writer::new("/job/c", "c"),
        Writer::new("/job/d", "d"),
    ];
    let is_over = AtomicBool::new(false);
    let mut random = Random::from_environment();
    thread::scope(|scope| {
        for writer in &writers {
            scope.spawn(|| writer.run(address, &is_over));
        }
        for _ in 0..KILLS {
            let writer = random.choose(&writers);
            let before = writer.acknowledged.load(Ordering::Acquire);
            // Writers continue, whatever the killed processes had locked.
            wait_until("a writer goes on", || {
                (writer.acknowledged.load(Ordering::Acquire) > before).then_some(())
            });
            // The process may have been replaced since it responded.
            send_signal(writer.pid.load(Ordering::Acquire), Signal::Kill);
        }
        is_over.store(true, Ordering::Release);
    });
    let rows = wait_until("a worker answers", || {
        let answer = Connection::try_open(address)
            .ok()?
            .try_request("GET", "/rows", &[], b"")
            .ok()?;
        (answer.status() == 200).then(|| json(&answer))
    });
    let rows = rows.as_object().expect("rows");
    assert!(rows.values().all(|row| row != "torn"), "{rows:?}");
    for writer in &writers {
        let count = rows[writer.key].as_u64().expect("a count");
        let acknowledged = writer.acknowledged.load(Ordering::Acquire);
        let begun = writer.begun.load(Ordering::Acquire);
        assert!(
            (acknowledged..=begun).contains(&count),
            "{}: {acknowledged} {count} {begun}",
            writer.key
        );
    }
}
