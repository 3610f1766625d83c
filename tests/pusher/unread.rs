//! The memory that a hub uses for buffered client bytes is limited by its settings.

use fermata_testkit::Connection;

use crate::hub::Hub;

/// Size of each body; the whole body may arrive.
const BODY_BYTES: usize = 100_000;

const CLIENTS: usize = 120;

/// Opens clients with incomplete requests, and returns how many the hub rejected.
fn refused(lines: &str) -> usize {
    let hub = Hub::configured(lines);
    let head = format!(
        "POST /apps/1/events HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
    );
    let request = [head.as_bytes(), &vec![b'x'; BODY_BYTES - 1]].concat();
    let mut clients: Vec<Connection> = (0..CLIENTS)
        .map(|_| {
            let mut client = hub.connect();
            let _ = client.try_send(&request);
            client
        })
        .collect();
    // After these requests, each worker has processed the earlier ones.
    for _ in 0..50 {
        assert_eq!(hub.ask("GET", "/apps/1/channels", &[], "").0, 200);
    }
    let patience = std::time::Duration::from_millis(20);
    let answered = clients.iter_mut().filter_map(|it| {
        let has_data = it.has_data(patience);
        has_data.then(|| it.peek_status())
    });
    answered.filter(|&status| status == 503).count()
}

#[test]
fn bounds_bodies_that_do_not_arrive_whole() {
    assert!(refused("buffered_bytes_max = \"512k\"") > CLIENTS / 2);
    assert!(refused("buffered_per_address_bytes_max = \"512k\"") > CLIENTS / 2);
    assert_eq!(refused(""), 0);
}
