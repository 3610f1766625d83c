//! The scenario `http`.

use fermata_tests::fixture;

use crate::support::load;

#[test]
fn counted_requests_are_all_answered() {
    let server = fixture("http").start();
    let url = format!("http://{}/", server.address());
    for extra in [
        &["--pipeline", "1"][..],
        &["--pipeline", "16"],
        &["--no-keep-alive"],
        &["--processes", "3"],
        &["--rate", "5000"],
        &["--method", "HEAD"],
    ] {
        let mut arguments = vec!["http", &url, "-c", "10", "-n", "500"];
        arguments.extend(extra);
        let result = load(&arguments);
        result.assert_passed();
        assert_eq!(result.count("responses"), 500, "{}", result.all());
        assert_eq!(result.json["latency_us"]["count"], 500);
    }
}

#[test]
fn counted_requests_may_take_longer_than_the_time_out_of_one() {
    let server = fixture("http").start();
    let url = format!("http://{}/slow/100", server.address());
    let result = load(&[
        "http",
        &url,
        "-n",
        "80",
        "-c",
        "4",
        "--no-keep-alive",
        "--timeout",
        "2s",
    ]);
    result.assert_passed();
    assert_eq!(result.count("responses"), 80, "{}", result.all());
}

#[test]
fn every_request_can_have_a_url_and_a_body_of_its_own() {
    let server = fixture("http").start();
    let url = format!("http://{}/rooms/{{n}}", server.address());
    load(&["http", &url, "-n", "100", "-c", "4"]).assert_passed();
    let url = format!("http://{}/body", server.address());
    let result = load(&["http", &url, "-n", "100", "-c", "4", "-d", "number {n}"]);
    result.assert_passed();
    assert!(result.count("bytes_received") > 100 * "number 0".len() as u64);
}

#[test]
fn an_open_loop_keeps_its_rate_and_counts_from_the_schedule() {
    let server = fixture("http").workers(1).start();
    // One worker that needs 20 ms per request cannot serve 200 requests per second: the last ones
    // wait longest.
    let url = format!("http://{}/slow/20", server.address());
    let result = load(&["http", &url, "-c", "4", "-n", "100", "--rate", "200"]);
    result.assert_passed();
    let p99 = result.json["latency_us"]["p99"].as_u64();
    assert!(p99 > Some(1_000_000), "{}", result.all());
}

#[test]
fn an_unexpected_status_fails_the_run() {
    let server = fixture("http").start();
    let url = format!("http://{}/status/503", server.address());
    let result = load(&["http", &url, "-n", "20", "-c", "2"]);
    result.assert_failed();
    assert_eq!(result.count("bad_responses"), 20);
    load(&["http", &url, "-n", "20", "--accept-status", "503"]).assert_passed();
}

#[test]
fn warm_up_is_not_measured() {
    let server = fixture("http").start();
    let url = format!("http://{}/", server.address());
    let result = load(&[
        "http", &url, "-c", "2", "--rate", "500", "-t", "1s", "--warmup", "500ms",
    ]);
    result.assert_passed();
    let responses = result.count("responses");
    assert!((150..=350).contains(&responses), "{}", result.all());
}
