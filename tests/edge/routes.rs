//! Invalid routes: an error in arguments, a warning in a file.

use std::process::{Command, Stdio};
use std::time::Duration;

use fermata_testkit::{Directory, command_path};

use crate::own::Own;

/// Pause between two checks that an edge has refused to start.
const WAIT: Duration = Duration::from_millis(20);
const WAITS: usize = 1_000;

#[test]
fn a_malformed_route_of_the_command_is_an_error() {
    for (route, expected) in [
        ("nonsense", "a route needs a condition and a target"),
        ("* 127.0.0.1", "\"127.0.0.1\" is no target; give HOST:PORT"),
        (
            "* 127.0.0.1:1,over_htp",
            "\"over_htp\" is no property of a target",
        ),
        (
            "*,path=/a 127.0.0.1:1",
            "\"path\" is no property of a route",
        ),
        (
            "* 127.0.0.1:1,weight=0",
            "weight is \"0\": give a number from 1 to 1000",
        ),
        ("* file//nowhere/at/all", "file cannot be read"),
        ("", "it is empty; give a condition and a target"),
    ] {
        // A valid route in addition to the invalid one makes no difference.
        for routes in [
            &["--route", route][..],
            &["--route", "a.test test", "--route", route],
        ] {
            if route.is_empty() && routes.len() > 2 {
                continue;
            }
            let mut child = Command::new(command_path())
                .args(["edge", "--listen", "127.0.0.1:0", "--control="])
                .args(routes)
                .current_dir(Directory::new().path())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("our own program");
            let has_ended = (0..WAITS).any(|_| {
                std::thread::sleep(WAIT);
                child.try_wait().expect("a child").is_some()
            });
            if !has_ended {
                let _ = child.kill();
            }
            let output = child.wait_with_output().expect("a child");
            assert!(has_ended, "{route}: it has started");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{route}: {said}");
            assert!(
                said.contains(expected) && said.contains(route),
                "{route}: {said}"
            );
        }
    }
}

#[test]
fn a_malformed_route_of_a_file_is_left_out() {
    let folder = Directory::new();
    folder.write("routes", "nonsense\n* 127.0.0.1:1,over_htp\nb.test test\n");
    let own = Own::start_in(folder, &["--routes", "routes"]);
    own.wait_for_log("routes, line 1: a route needs a condition and a target");
    own.wait_for_log("\"over_htp\" is no property of a target; the rest of the route counts");
    let answer = crate::client::Client::open(own.port, "b.test").get("/");
    assert_eq!(answer.status, 200);
}
