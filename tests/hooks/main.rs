//! PHP's own functions and extensions under hooks, with real databases. Many handlers wait
//! concurrently, as the database confirms; clients disconnect; the database is killed.

#[allow(dead_code, reason = "each suite starts those it needs")]
mod services;
mod urls;

use fermata_testkit::{Connection, Server, is_running, wait_until};
use fermata_tests::{fixture, json};

use services::Service;

/// Number of concurrently waiting handlers of one worker.
const MANY: usize = 20;

/// Starts a server with one worker whose handlers use the service.
fn server(name: &str, service: &Service) -> Server {
    server_with(name, service, "200")
}

/// Starts a server with this time-out for queries whose client has disconnected.
fn server_with(name: &str, service: &Service, abandoned_query_ms_max: &str) -> Server {
    let address = if name == "POSTGRES" {
        service.socket.parent().expect("a directory")
    } else {
        &service.socket
    };
    fixture("hooks")
        .workers(1)
        .env(name, address)
        .setting("abandoned_query_ms_max", abandoned_query_ms_max)
        .start()
}

fn ask(server: &Server, target: &str) -> Connection {
    let mut connection = server.connect();
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    connection
}

fn ask_many(server: &Server, target: &str) -> Vec<Connection> {
    (0..MANY).map(|_| ask(server, target)).collect()
}

fn text(server: &Server, target: &str) -> String {
    let response = server.connect().get(target);
    assert_eq!(response.status(), 200, "{target}: {}", response.text());
    response.text().to_string()
}

/// Requests repeatedly until the response is `expected`. The same worker serves these requests
/// while the others wait.
fn wait_for(server: &Server, target: &str, expected: &str) {
    wait_until(&format!("{target} is {expected}"), || {
        (text(server, target) == expected).then_some(())
    });
}

fn wait_for_state(server: &Server, name: &str, expected: usize) {
    wait_until(name, || {
        let state = json(&server.connect().get("/state"));
        (state[name].as_u64() == Some(expected as u64)).then_some(())
    });
}

const MYSQL_WAIT: &str = "sql=SELECT+SLEEP(600)";
const MYSQL_RUNNING: &str = "/mysql?sql=SELECT+COUNT(*)+FROM+information_schema.processlist+WHERE+info+LIKE+'SELECT+SLEEP%25'";
/// Kills one of the queries; returns `NULL` if no query runs.
const MYSQL_END_ONE: &str = "/mysql?sql=BEGIN+NOT+ATOMIC+DECLARE+i+INT;SET+i=(SELECT+MIN(id)+FROM+information_schema.processlist+WHERE+info+LIKE+'SELECT+SLEEP%25');IF+i+IS+NOT+NULL+THEN+KILL+QUERY+i;END+IF;SELECT+i;END";

#[test]
fn many_queries_of_mysql_run_at_the_same_time() {
    let service = Service::mariadb();
    let server = server("MYSQL", &service);
    for route in ["/mysql", "/mysqli"] {
        let clients = ask_many(&server, &format!("{route}?{MYSQL_WAIT}"));
        wait_for(&server, MYSQL_RUNNING, &MANY.to_string());
        while text(&server, MYSQL_RUNNING) != "0" {
            text(&server, MYSQL_END_ONE);
        }
        for mut client in clients {
            let response = client.read_response();
            assert!(
                response.text().contains("interrupted"),
                "{}",
                response.text()
            );
        }
    }
    assert!(
        !server.log().text().contains(" error "),
        "{}",
        server.log().text()
    );
}

#[test]
fn clients_that_leave_end_their_queries_of_mysql() {
    let service = Service::mariadb();
    let server = server("MYSQL", &service);
    let clients = ask_many(&server, &format!("/mysql?{MYSQL_WAIT}"));
    wait_for(&server, MYSQL_RUNNING, &MANY.to_string());
    drop(clients);
    wait_for_state(&server, "left", MANY);
    assert_eq!(text(&server, "/mysql?sql=SELECT+42"), "42");
}

#[test]
fn a_killed_mysql_fails_the_handlers_that_wait_for_it() {
    let mut service = Service::mariadb();
    let server = server("MYSQL", &service);
    let clients = ask_many(&server, &format!("/mysql?{MYSQL_WAIT}"));
    wait_for(&server, MYSQL_RUNNING, &MANY.to_string());
    service.kill();
    for mut client in clients {
        let response = client.read_response();
        assert_eq!(response.status(), 503);
        assert!(response.text().contains("gone away"), "{}", response.text());
    }
    wait_for_state(&server, "waiting", 0);
}

#[test]
fn many_handlers_wait_for_redis_at_the_same_time() {
    let mut service = Service::redis();
    let server = server("REDIS", &service);
    let clients = ask_many(&server, "/pop?key=many");
    wait_for(&server, "/redis", &MANY.to_string());
    text(&server, &format!("/push?key=many&count={MANY}"));
    let mut got: Vec<usize> = clients
        .into_iter()
        .map(|mut client| client.read_response().text().parse().expect("a number"))
        .collect();
    got.sort_unstable();
    assert_eq!(got, (1..=MANY).collect::<Vec<_>>());

    let clients = ask_many(&server, "/pop?key=never");
    wait_for(&server, "/redis", &MANY.to_string());
    drop(clients);
    wait_for_state(&server, "left", MANY);
    wait_for(&server, "/redis", "0");

    let clients = ask_many(&server, "/pop?key=never");
    wait_for(&server, "/redis", &MANY.to_string());
    service.kill();
    for mut client in clients {
        assert_eq!(client.read_response().status(), 503);
    }
}

#[test]
fn a_connection_to_redis_that_handlers_share_gives_nobody_the_answer_of_another() {
    let service = Service::redis();
    let server = server("REDIS", &service);
    let mut first = ask(&server, "/shared?key=first");
    wait_for(&server, "/redis", "1");
    text(&server, "/push?key=second&count=1");
    let mut second = ask(&server, "/shared?key=second");
    // Another handler must not replace a connection that is in use.
    let mut connect = ask(&server, "/shared-connect");
    wait_for_state(&server, "waiting", 3);
    text(&server, "/push?key=first&count=1");
    assert_eq!(first.read_response().text(), "1");
    assert_eq!(second.read_response().text(), "1");
    assert_eq!(connect.read_response().status(), 200);

    // If a client disconnects in the middle of a reply, the connection is closed, but the next
    // handler still receives its own reply.
    let gone = ask(&server, "/shared?key=first");
    wait_for(&server, "/redis", "1");
    drop(gone);
    wait_for_state(&server, "left", 1);
    text(&server, "/push?key=first&count=1");
    text(&server, "/push?key=third&count=3");
    let next = ask(&server, "/shared?key=third").read_response();
    assert!(
        next.status() == 503 || next.text() == "1",
        "{} {}",
        next.status(),
        next.text()
    );
}

/// The plain-PHP library matches replies to requests by their order.
#[test]
fn a_library_whose_request_was_ended_gives_nobody_the_data_of_another() {
    let service = Service::redis();
    let server = server("REDIS", &service);
    for name in ["alice", "bob"] {
        text(&server, &format!("/set?key={name}&value=data-of-{name}"));
    }
    assert_eq!(text(&server, "/predis?command=get&key=bob"), "data-of-bob");
    let commands = [
        ("command=pop&key=private", "private"),
        ("command=pipeline&key=alice", "never"),
    ];
    for (round, (command, list)) in commands.into_iter().enumerate() {
        let gone = ask(&server, &format!("/predis?{command}"));
        wait_for(&server, "/redis", "1");
        drop(gone);
        wait_for_state(&server, "left", round + 1);
        text(&server, &format!("/push?key={list}&count=1"));
        // The library detects that its connection is closed, and opens another one.
        let refused = ask(&server, "/predis?command=get&key=bob").read_response();
        assert_eq!(refused.status(), 503, "{command}: {}", refused.text());
        for name in ["bob", "alice"] {
            let data = text(&server, &format!("/predis?command=get&key={name}"));
            assert_eq!(data, format!("data-of-{name}"), "{command}");
        }
        let log = server.log().text();
        let told = log.matches("was shut down: a wait of GET /predis").count();
        assert_eq!(told, round + 1, "{log}");
    }
}

const POSTGRES_LOCK: &str = "sql=SELECT+pg_advisory_lock(1)::text||'got'";
const POSTGRES_WAITING: &str = "/pdo-pgsql?sql=SELECT+COUNT(*)+FROM+pg_locks+WHERE+NOT+granted";

#[test]
fn many_queries_of_postgres_run_at_the_same_time() {
    let service = Service::postgres();
    let server = server("POSTGRES", &service);
    for route in ["/pdo-pgsql", "/pgsql"] {
        // One handler holds the lock until it is cancelled.
        let keeper = ask(
            &server,
            "/pdo-pgsql?sql=SELECT+pg_advisory_lock(1),pg_sleep(600)",
        );
        wait_for(
            &server,
            // Not a query of the previous round whose process is still running.
            "/pdo-pgsql?sql=SELECT+COUNT(*)+FROM+pg_locks+JOIN+pg_stat_activity+USING(pid)+WHERE+locktype='advisory'+AND+granted+AND+query+LIKE+'%25sleep(600)'",
            "1",
        );
        let clients = ask_many(&server, &format!("{route}?{POSTGRES_LOCK}"));
        wait_for(&server, POSTGRES_WAITING, &MANY.to_string());
        drop(keeper);
        text(
            &server,
            "/pdo-pgsql?sql=SELECT+COUNT(pg_terminate_backend(pid))+FROM+pg_stat_activity+WHERE+query+LIKE+'%25sleep(600)'+AND+pid<>pg_backend_pid()",
        );
        for mut client in clients {
            assert_eq!(client.read_response().text(), "got");
        }
    }
}

#[test]
fn a_connection_to_postgres_whose_wait_was_ended_is_not_used_again() {
    let service = Service::postgres();
    let server = server("POSTGRES", &service);
    let gone = ask(
        &server,
        "/kept-pgsql?sql=SELECT+pg_sleep(600)::text||'late'",
    );
    wait_for(
        &server,
        "/pdo-pgsql?sql=SELECT+COUNT(*)+FROM+pg_stat_activity+WHERE+query+LIKE+'SELECT+pg_sleep%25'",
        "1",
    );
    drop(gone);
    wait_for_state(&server, "left", 1);
    let next = ask(&server, "/kept-pgsql?sql=SELECT+'mine'").read_response();
    assert!(
        next.status() == 503 || next.text() == "mine",
        "{} {}",
        next.status(),
        next.text()
    );
}

#[test]
fn a_query_of_postgres_whose_client_has_left_is_finished_and_its_connection_kept() {
    let service = Service::postgres();
    let server = server_with("POSTGRES", &service, "600000");
    assert_eq!(text(&server, "/kept-pgsql?sql=SELECT+'before'"), "before");
    let waiting = "/pdo-pgsql?sql=SELECT+COUNT(*)+FROM+pg_stat_activity+WHERE+query+LIKE+'SELECT+pg_sleep%25'";
    let gone = ask(
        &server,
        "/kept-pgsql?sql=SELECT+pg_sleep(600)::text||'late'",
    );
    wait_for(&server, waiting, "1");
    drop(gone);
    // The request keeps its fiber while the database runs the query.
    wait_for(
        &server,
        "/pdo-pgsql?sql=SELECT+COUNT(*)+FROM+pg_stat_activity+WHERE+wait_event='PgSleep'+AND+clock_timestamp()-query_start>'0.3s'",
        "1",
    );
    wait_for_state(&server, "waiting", 1);
    wait_for_state(&server, "left", 0);
    text(
        &server,
        "/pdo-pgsql?sql=SELECT+COUNT(pg_cancel_backend(pid))+FROM+pg_stat_activity+WHERE+query+LIKE+'SELECT+pg_sleep%25'",
    );
    wait_for_state(&server, "waiting", 0);
    assert_eq!(text(&server, "/kept-pgsql?sql=SELECT+'mine'"), "mine");
}

#[test]
fn a_worker_that_a_fatal_error_ends_waits_for_no_query_of_postgres() {
    let service = Service::postgres();
    let server = server("POSTGRES", &service);
    let pids = server.worker_pids();
    let mut asked = ask(&server, "/pgsql?sql=SELECT+pg_sleep(600)");
    wait_for(
        &server,
        "/pdo-pgsql?sql=SELECT+COUNT(*)+FROM+pg_stat_activity+WHERE+query+LIKE+'SELECT+pg_sleep%25'",
        "1",
    );
    assert_eq!(server.connect().get("/fatal").status(), 500);
    assert_eq!(asked.read_response().status(), 503);
    for pid in pids.into_values() {
        wait_until("the worker has ended", || (!is_running(pid)).then_some(()));
    }
}

#[test]
fn a_query_of_mysql_whose_client_has_left_is_finished_and_its_connection_kept() {
    let service = Service::mariadb();
    let server = server_with("MYSQL", &service, "600000");
    let gone = ask(&server, &format!("/shared-mysqli?{MYSQL_WAIT}"));
    wait_for(&server, MYSQL_RUNNING, "1");
    drop(gone);
    text(&server, "/mysql?sql=SELECT+SLEEP(0.3)");
    wait_for_state(&server, "waiting", 1);
    wait_for_state(&server, "left", 0);
    while text(&server, MYSQL_RUNNING) != "0" {
        text(&server, MYSQL_END_ONE);
    }
    wait_for_state(&server, "waiting", 0);
    assert_eq!(text(&server, "/shared-mysqli?sql=SELECT+42"), "42");
}

#[test]
fn a_connection_to_postgres_that_handlers_share_gives_nobody_the_answer_of_another() {
    let service = Service::postgres();
    let server = server("POSTGRES", &service);
    assert_eq!(text(&server, "/kept-pgsql?sql=SELECT+'before'"), "before");
    let mut first = ask(
        &server,
        "/kept-pgsql?sql=SELECT+pg_sleep(600)::text||'late'",
    );
    wait_for(
        &server,
        "/pdo-pgsql?sql=SELECT+COUNT(*)+FROM+pg_stat_activity+WHERE+query+LIKE+'SELECT+pg_sleep%25'",
        "1",
    );
    let mut second = ask(&server, "/kept-pgsql?sql=SELECT+'mine'");
    wait_for_state(&server, "waiting", 2);
    // In between, an earlier statement is freed; the connection does not track that statement.
    assert_eq!(text(&server, "/free-pgsql"), "freed");
    text(
        &server,
        "/pdo-pgsql?sql=SELECT+COUNT(pg_cancel_backend(pid))+FROM+pg_stat_activity+WHERE+query+LIKE+'SELECT+pg_sleep%25'",
    );
    let ended = first.read_response();
    assert!(ended.text().contains("canceling"), "{}", ended.text());
    assert_eq!(second.read_response().text(), "mine");
    assert_eq!(text(&server, "/kept-pgsql?sql=SELECT+'after'"), "after");
}

#[test]
fn a_connection_to_mysql_is_closed_by_another_handler_when_nobody_is_inside() {
    let service = Service::mariadb();
    let server = server("MYSQL", &service);
    let mut first = ask(&server, &format!("/shared-mysqli?{MYSQL_WAIT}"));
    wait_for(&server, MYSQL_RUNNING, "1");
    let mut second = ask(&server, "/shared-mysqli");
    wait_for_state(&server, "waiting", 2);
    while text(&server, MYSQL_RUNNING) != "0" {
        text(&server, MYSQL_END_ONE);
    }
    let ended = first.read_response();
    assert!(ended.text().contains("interrupted"), "{}", ended.text());
    assert_eq!(second.read_response().text(), "1");
}

/// Regression: a second `begin()` counted as nested in another task's transaction, and its
/// statements ran without a transaction.
#[test]
fn a_library_that_counts_transactions_of_others_is_refused_and_no_rolled_back_row_stays() {
    let service = Service::mariadb();
    let server = server("MYSQL", &service);
    for how in ["plain", "savepoints"] {
        assert_eq!(
            text(&server, &format!("/counting-mysql/{how}")),
            "refused 0"
        );
    }
}

/// A task rolls back an abandoned transaction, and owns the connection during that time.
#[test]
fn a_connection_whose_clean_up_gets_no_answer_is_given_to_the_next_closed() {
    let service = Service::mariadb();
    let server = fixture("hooks")
        .workers(1)
        .env("MYSQL", &service.socket)
        .setting("shared_wait_timeout_ms", 3_600_000)
        .start();
    let mut left = ask(&server, "/left-mysql");
    wait_for_state(&server, "begun", 1);
    service.stop();
    assert_eq!(text(&server, "/leave-mysql"), "told");
    assert_eq!(left.read_response().text(), "left");
    // If the connection was not closed, this request would queue for an hour.
    let next = ask(&server, "/next-mysql").read_response();
    assert_eq!(next.status(), 503, "{}", next.text());
    server.log().wait_for(0, "in the middle of a transaction");
}

/// Uses calls that bypass the guards: closures created before the hooks were installed.
#[test]
fn a_pool_ends_a_transaction_whose_calls_nobody_has_seen() {
    let service = Service::mariadb();
    let server = server("MYSQL", &service);
    assert_eq!(text(&server, "/unseen-mysql?begin=1"), "1");
    assert_eq!(text(&server, "/unseen-mysql"), "0");
}
