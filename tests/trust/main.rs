//! A handler that has ended, or that waits, never affects another handler by open transactions on a
//! shared connection, replies or rows. Tests each PHP client against its real server.

mod callbacks;
mod conversations;
mod hosts;
mod peer;
mod programs;
#[path = "../hooks/services.rs"]
#[allow(dead_code, reason = "each test starts those it needs")]
mod services;
mod shared;

use fermata_testkit::{Builder, Connection, Server, wait_until};
use fermata_tests::{fixture, json};

use services::Service;

/// Number of concurrent requests of one worker.
const MANY: usize = 200;
const CLIENTS: [&str; 13] = [
    "mysql",
    "mysqli",
    "pdo-pgsql",
    "pgsql",
    // These functions are called without a connection, and use the last one.
    "pgsql-default",
    "sqlite",
    "redis",
    "pool-mysql",
    "pool-mysqli",
    "pool-pdo-pgsql",
    "pool-pgsql",
    "pool-sqlite",
    "pool-redis",
];
/// Size of the fixture's pools.
const POOL_SIZE: usize = 4;

/// All services that the clients need, and a server with one worker.
struct Place {
    server: Server,
    _services: [Service; 3],
}

fn start() -> Place {
    start_with(|builder| builder)
}

fn start_with(configure: impl FnOnce(Builder) -> Builder) -> Place {
    let services = [Service::mariadb(), Service::postgres(), Service::redis()];
    let builder = fixture("trust").workers(1).ini("memory_limit=64M");
    let file = builder.directory().join("trust.sqlite");
    let server = configure(builder)
        .env("SQLITE", file)
        // Abandoned queries are stopped soon.
        .setting("abandoned_query_ms_max", 100)
        .env("MYSQL", &services[0].socket)
        .env(
            "POSTGRES",
            services[1].socket.parent().expect("a directory"),
        )
        .env("REDIS", &services[2].socket)
        .start();
    for client in ["mysql", "pdo-pgsql", "sqlite"] {
        text(&server, &format!("/prepare/{client}"));
    }
    Place {
        server,
        _services: services,
    }
}

fn ask(server: &Server, target: &str) -> Connection {
    let mut connection = server.connect();
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    connection
}

fn text(server: &Server, target: &str) -> String {
    let response = server.connect().get(target);
    assert_eq!(
        response.status(),
        200,
        "{target}: {}\n{}",
        response.text(),
        server.log().text()
    );
    response.text().to_string()
}

#[test]
fn many_handlers_share_one_connection_and_each_gets_its_own_answer() {
    let place = start();
    for client in CLIENTS {
        // The first request opens the connection.
        text(&place.server, &format!("/ask/{client}/first"));
        let mut asked: Vec<Connection> = (0..MANY)
            .map(|id| ask(&place.server, &format!("/ask/{client}/{id}")))
            .collect();
        for (id, connection) in asked.iter_mut().enumerate() {
            let response = connection.read_response();
            assert_eq!(
                (response.status(), response.text()),
                (200, id.to_string().as_str()),
                "{client}: {}",
                place.server.log().text()
            );
        }
    }
}

#[test]
fn what_a_handler_has_left_open_ends_with_it() {
    let place = start();
    for client in CLIENTS {
        for how in ["return", "throw", "exit", "timeout", "race", "gone", "task"] {
            let target = match how {
                "task" => format!("/begin-in-task/{client}"),
                _ => format!("/begin/{client}/{how}"),
            };
            let mut begun = ask(&place.server, &target);
            if how == "gone" {
                // The next request queues until the server detects the disconnect.
                std::thread::sleep(std::time::Duration::from_millis(50));
                drop(begun);
            } else {
                begun.read_response();
            }
            let left = json(&place.server.connect().get(&format!("/left/{client}")));
            assert_eq!(
                left,
                serde_json::json!([0, 0]),
                "{client} {how}: {}",
                place.server.log().text()
            );
            assert_eq!(text(&place.server, &format!("/ask/{client}/next")), "next");
        }
    }
    place.server.log().wait_for(
        0,
        "a handler has ended in the middle of a transaction of MySQL, which was begun in ",
    );
}

#[test]
fn a_handler_that_fails_fatally_leaves_nothing_to_the_next_worker() {
    let place = start();
    // Each of these endings costs a worker, whose replacement takes some time.
    for (client, how) in [("mysql", "memory"), ("pgsql", "fatal"), ("redis", "memory")] {
        ask(&place.server, &format!("/begin/{client}/{how}")).read_response();
        // The database releases its locks when it detects that the connection is closed.
        wait_until(
            &format!("the next worker finds nothing: {client} {how}"),
            || {
                let response = place.server.connect().get(&format!("/left/{client}"));
                (response.text() == "[0,0]").then_some(())
            },
        );
    }
}

#[test]
fn a_pool_outlives_clients_that_leave_in_the_middle_of_a_query() {
    let place = start();
    for client in ["mysql", "mysqli", "pdo-pgsql", "pgsql", "redis"] {
        for _ in 0..2 {
            let clients: Vec<Connection> = (0..2 * POOL_SIZE)
                .map(|id| {
                    ask(
                        &place.server,
                        &format!("/ask/pool-{client}/{id}?seconds=600"),
                    )
                })
                .collect();
            wait_until("all are borrowed", || {
                let pool = json(&place.server.connect().get(&format!("/pool/{client}")));
                (pool["borrowed"] == POOL_SIZE && pool["waiting"] == POOL_SIZE).then_some(())
            });
            drop(clients);
            for id in 0..2 * POOL_SIZE {
                assert_eq!(
                    text(&place.server, &format!("/ask/pool-{client}/{id}")),
                    id.to_string()
                );
            }
            wait_until("all have come back", || {
                let pool = json(&place.server.connect().get(&format!("/pool/{client}")));
                (pool["borrowed"] == 0 && pool["waiting"] == 0).then_some(())
            });
        }
    }
}

#[test]
fn the_server_ends_what_a_client_of_a_pool_has_left_although_nobody_comes_next() {
    let place = start();
    for client in ["mysql", "mysqli", "pdo-pgsql", "pgsql"] {
        let asleep = |wanted: usize| {
            wait_until(&format!("{client}: {wanted} queries sleep"), || {
                let count = text(&place.server, &format!("/asleep/{client}"));
                (count == wanted.to_string()).then_some(())
            });
        };
        // One of two queries is stopped through another connection, which was opened before the connection of that query.
        let mut first = ask(
            &place.server,
            &format!("/ask/pool-{client}/first?seconds=2"),
        );
        let second = ask(
            &place.server,
            &format!("/ask/pool-{client}/second?seconds=600"),
        );
        assert_eq!(first.read_response().text(), "first");
        asleep(1);
        drop(second);
        asleep(0);
        let clients: Vec<Connection> = (0..POOL_SIZE)
            .map(|id| {
                let target = format!("/ask/pool-{client}/{id}?seconds=600");
                ask(&place.server, &target)
            })
            .collect();
        asleep(POOL_SIZE);
        drop(clients);
        asleep(0);
        assert_eq!(text(&place.server, &format!("/ask/pool-{client}/x")), "x");
    }
}

#[test]
fn a_transaction_that_was_left_ends_although_all_fibers_wait_for_its_end() {
    // With this time-out, a queued request would wait for an hour.
    let place = start_with(|builder| {
        builder
            .setting("fibers_max", 4)
            .setting("tasks_queue_max", 10)
            .setting("shared_wait_timeout_ms", 3_600_000)
    });
    for client in ["mysql", "pgsql", "redis"] {
        let begun = ask(&place.server, &format!("/begin/{client}/gone"));
        wait_until("it has begun", || {
            let state = text(&place.server, &format!("/begun/{client}"));
            (state == "begun").then_some(())
        });
        let mut asked: Vec<Connection> = (0..10)
            .map(|id| ask(&place.server, &format!("/ask/{client}/{id}")))
            .collect();
        drop(begun);
        for (id, connection) in asked.iter_mut().enumerate() {
            assert_eq!(
                connection.read_response().text(),
                id.to_string(),
                "{client}: {}",
                place.server.log().text()
            );
        }
    }
}

#[test]
fn without_hooks_what_is_left_open_ends_as_well() {
    let place = start_with(|builder| builder.env("WITHOUT_HOOKS", "1"));
    for client in ["mysql", "mysqli", "pdo-pgsql", "pgsql", "redis"] {
        let left = || json(&place.server.connect().get(&format!("/left/pool-{client}")));
        for how in ["return", "throw"] {
            ask(&place.server, &format!("/begin/pool-{client}/{how}")).read_response();
            assert_eq!(left(), serde_json::json!([0, 0]), "{client} {how}");
        }
        // Without a pool, other requests queue until the transaction is closed.
        let begun = ask(&place.server, &format!("/begin/{client}/gone"));
        wait_until("it has begun", || {
            let state = text(&place.server, &format!("/begun/{client}"));
            (state == "begun").then_some(())
        });
        let mut next = ask(&place.server, &format!("/left/{client}"));
        drop(begun);
        assert_eq!(next.read_response().text(), "[0,0]", "{client}");
    }
}

#[test]
fn rows_that_a_handler_has_left_unread_are_given_to_nobody() {
    let place = start();
    for client in ["mysqli", "mysql", "pgsql"] {
        for _ in 0..3 {
            assert_eq!(
                text(&place.server, &format!("/unread/{client}/leave")),
                "left"
            );
            assert_eq!(
                text(&place.server, &format!("/unread/{client}/next")),
                "nothing",
                "{client}"
            );
            // The connection is closed together with the unread results.
            assert_eq!(
                text(&place.server, &format!("/unread/{client}/query")),
                "nothing",
                "{client}"
            );
        }
    }
    for server in ["MySQL", "PostgreSQL"] {
        let expected = format!("in the middle of a result of {server}");
        place.server.log().wait_for(0, &expected);
    }
}

#[test]
fn a_query_may_have_two_copies() {
    let place = start();
    assert_eq!(text(&place.server, "/copies"), "one two");
}

#[test]
fn rows_that_are_being_read_are_not_taken_away_by_others() {
    let place = start();
    let pid = place.server.worker_pids();
    for how in ["foreach", "lazy", "mysqli"] {
        for by in ["free", "execute", "next", "query", "drop"] {
            let mut reader = ask(&place.server, &format!("/rows/{how}"));
            std::thread::sleep(std::time::Duration::from_millis(10));
            let mut other = ask(&place.server, &format!("/disturb/{by}"));
            assert_eq!(
                reader.read_response().text(),
                "whole",
                "{how} {by}: {}",
                place.server.log().text()
            );
            other.read_response();
        }
    }
    assert_eq!(
        place.server.worker_pids(),
        pid,
        "{}",
        place.server.log().text()
    );
}
