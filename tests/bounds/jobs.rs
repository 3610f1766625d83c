//! Job results that clients do not read.

use fermata_testkit::Connection;
use fermata_tests::memory::anonymous_kb;

use crate::{builder, check_others, worker};

const BUFFERED_BYTES: usize = 16 << 20;

/// A result in transit: the bytes from the process, PHP's value and the response.
const BESIDE_KB: usize = 96 << 10;

#[test]
fn bounds_results_of_jobs_that_clients_do_not_read() {
    let server = builder()
        .setting("buffered_bytes_max", BUFFERED_BYTES)
        .setting("buffered_per_address_bytes_max", 0)
        .start();
    let pid = worker(&server);
    check_others(&server);
    let before_kb = anonymous_kb(pid);
    let mut peak_kb = before_kb;
    // Without the limit, 40 × 8 MB.
    let mut clients: Vec<Connection> = Vec::new();
    for _ in 0..40 {
        let mut client = server.connect();
        client.send("GET /job HTTP/1.1\r\nHost: a\r\n\r\n");
        // The head has arrived, so the job has finished.
        client.wait_for_bytes(1);
        clients.push(client);
        check_others(&server);
        peak_kb = peak_kb.max(anonymous_kb(pid));
    }
    let bound_kb = before_kb + BUFFERED_BYTES / 1024 + BESIDE_KB;
    assert!(peak_kb <= bound_kb, "{before_kb} kB became {peak_kb}");
    assert_eq!(worker(&server), pid);
}
