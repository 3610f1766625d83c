//! Handlers that block the event loop are logged with their PHP line.

use fermata_testkit::Server;
use fermata_testkit::websocket::Socket;
use fermata_tests::{fixture, stats};

/// Returns the log line about the handler of `route`.
#[track_caller]
fn told(server: &Server, route: &str) -> String {
    let part = format!("the handler of {route} held the loop for ");
    server.log().wait_for(0, &part).text
}

#[test]
fn a_sleeping_handler_is_named_with_its_line_and_is_not_cut_short() {
    let server = fixture("blocking").workers(1).start();
    let slept = server.connect().get("/sleep");
    let ms: u64 = slept.text().parse().expect("a number");
    assert!(ms >= 400, "the call was ended after {ms} ms");
    let line = told(&server, "GET /sleep");
    assert!(line.contains("it was in usleep() at "), "{line}");
    assert!(line.contains("blocking.php:36."), "{line}");
    assert!(line.contains("(blocking_call_ms 100)"), "{line}");
}

#[test]
fn a_computing_handler_is_named_where_it_computes() {
    let server = fixture("blocking").workers(1).start();
    assert_eq!(server.connect().get("/spin").status(), 200);
    let line = told(&server, "GET /spin");
    // The handler is in the function, or in the clock call inside of it.
    assert!(
        line.contains("Work::spin()") || line.contains("hrtime()"),
        "{line}"
    );
    assert!(
        line.contains("blocking.php:19.") || line.contains("blocking.php:20."),
        "{line}"
    );
}

#[test]
fn the_line_is_right_under_opcache_and_jit() {
    let server = fixture("blocking")
        .ini("zend_extension=opcache")
        .ini("opcache.enable_cli=1")
        .ini("opcache.jit_buffer_size=16M")
        .ini("opcache.jit=tracing")
        .workers(1)
        .start();
    assert_eq!(server.connect().get("/rest").status(), 200);
    let line = told(&server, "GET /rest");
    assert!(line.contains("usleep() at "), "{line}");
    assert!(line.contains("blocking.php:27."), "{line}");
}

#[test]
fn a_handler_of_a_websocket_is_named_as_well_and_all_are_counted() {
    let server = fixture("blocking").workers(1).control().start();
    let mut socket = Socket::open(server.connect(), "/ws");
    socket.text("x");
    assert_eq!(socket.next_text(), "x");
    let line = told(&server, "WebSocket /ws");
    assert!(line.contains("sleep() at "), "{line}");
    assert!(line.contains("blocking.php:45."), "{line}");
    fermata_testkit::wait_until("it is counted", || {
        (stats(&server)["total"]["blocking_callbacks"] == 1).then_some(())
    });
}

#[test]
fn quick_handlers_and_idle_time_are_not_blocking() {
    let server = fixture("blocking").workers(1).control().start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/").status(), 200);
    // Idle between two requests for longer than the limit.
    assert!(!connection.has_data(std::time::Duration::from_millis(300)));
    assert_eq!(connection.get("/").status(), 200);
    assert_eq!(connection.get("/sleep").status(), 200);
    told(&server, "GET /sleep");
    assert_eq!(stats(&server)["total"]["blocking_callbacks"], 1);
    assert!(!server.log().contains("handler of GET / "));
}

#[test]
fn the_report_can_be_turned_off() {
    let server = fixture("blocking")
        .setting("blocking_call_ms", 0)
        .control()
        .workers(1)
        .start();
    assert_eq!(server.connect().get("/sleep").status(), 200);
    assert_eq!(server.connect().get("/").status(), 200);
    assert_eq!(stats(&server)["total"]["blocking_callbacks"], 0);
    assert!(!server.log().contains("held the loop"));
}

#[test]
fn a_handler_that_has_waited_is_named_when_it_goes_on_and_blocks() {
    let server = fixture("blocking").workers(1).start();
    // Run another handler first.
    assert_eq!(server.connect().get("/").status(), 200);
    assert_eq!(server.connect().get("/resumed").text(), "resumed");
    let line = told(&server, "GET /resumed");
    assert!(line.contains("blocking.php:51."), "{line}");

    assert_eq!(server.connect().get("/piece").text(), "firstsecond");
    let line = told(&server, "GET /piece");
    assert!(line.contains("blocking.php:64."), "{line}");

    let mut socket = Socket::open(server.connect(), "/ws/resumed");
    socket.text("x");
    assert_eq!(socket.next_text(), "resumed");
    let line = told(&server, "WebSocket /ws/resumed");
    assert!(line.contains("blocking.php:69."), "{line}");

    assert_eq!(server.connect().get("/task").text(), "done");
    let line = server.log().wait_for(0, "a task held the loop for ").text;
    assert!(line.contains("blocking.php:57."), "{line}");
    // The log reports the task, and not the handler that awaits it.
    let text = server.log().text();
    assert!(!text.contains("the handler of GET /task"), "{text}");
    assert_eq!(text.matches("held the loop").count(), 4, "{text}");
}
