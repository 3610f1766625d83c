//! Servers that start as root and run handlers as another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use fermata_testkit::{Server, Signal, is_running, wait_until};
use fermata_tests::{fixture, publish};

/// A user and group that exist on Debian and most other systems.
const USER: &str = "www-data";

/// Returns the descendants of a process.
fn below(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    let children = text.split(' ').filter_map(|pid| pid.parse().ok());
    children
        .flat_map(|child| std::iter::once(child).chain(below(child)))
        .collect()
}

/// Returns the numbers in a line of /proc/PID/status.
fn numbers(pid: u32, what: &str) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let numbers = line.unwrap_or_default().split_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

fn number_of(user: &str) -> Option<u32> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users
        .lines()
        .find(|line| line.starts_with(&format!("{user}:")))?;
    line.split(':').nth(2)?.parse().ok()
}

/// Returns true if this machine can run these tests.
fn is_root() -> bool {
    let is_root =
        numbers(std::process::id(), "Uid:").first() == Some(&0) && number_of(USER).is_some();
    if !is_root {
        println!("not run: this is not root");
    }
    is_root
}

#[track_caller]
fn everybody_below_is(server: &Server, user: u32) {
    // A process changes its user a moment after its fork.
    let pids = wait_until("everybody has become the user", || {
        let pids = below(server.pid());
        let are_all = pids.iter().all(|pid| numbers(*pid, "Uid:") == [user; 4]);
        (pids.len() >= 2 && are_all).then_some(pids)
    });
    for pid in pids {
        assert_eq!(numbers(pid, "CapEff:"), [0], "{pid}");
        let groups = numbers(pid, "Groups:");
        assert!(!groups.contains(&0), "root's groups: {groups:?}");
        assert!(!numbers(pid, "Gid:").contains(&0));
    }
}

#[test]
fn handlers_run_as_the_user_that_was_asked_for_and_the_master_stays_root() {
    if !is_root() {
        return;
    }
    let user = number_of(USER).expect("it was there");
    let server = fixture("jobs").setting("user", USER).control().start();
    everybody_below_is(&server, user);
    assert_eq!(numbers(server.pid(), "Uid:"), [0; 4]);
    let socket = server.control();
    let socket = fs::metadata(socket.trim_start_matches("unix:")).expect("it is there");
    assert_eq!(socket.uid(), user, "its programs publish");
    // Workers that start later also run as the user.
    let pids = server.worker_pids();
    assert!(fermata_testkit::send_signal(pids[&0], Signal::Kill));
    server.wait_replaced(0, pids[&0]);
    wait_until("the replacement has become the user", || {
        let pids = below(server.pid());
        pids.iter()
            .all(|pid| numbers(*pid, "Uid:") == [user; 4])
            .then_some(())
    });
    assert!(!server.log().contains("workers run as root"));
}

#[test]
fn workers_of_another_user_end_with_their_master_and_write_a_log_that_was_moved() {
    if !is_root() {
        return;
    }
    let builder = fixture("hub").setting("user", USER);
    let folder = builder.directory().path().to_owned();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("it is ours");
    let path = folder.join("access.log");
    let mut server = builder.setting("access_log", path.display()).start();
    let has_line = |path: &std::path::Path| {
        wait_until("the log has a line", || {
            fs::read_to_string(path)
                .ok()
                .filter(|text| !text.is_empty())
        });
    };
    assert_eq!(server.connect().get("/pid").status(), 200);
    has_line(&path);
    let old = folder.join("access.log.1");
    fs::rename(&path, &old).expect("it is there");
    server.signal(Signal::User1);
    wait_until("the log is made anew", || path.exists().then_some(()));
    wait_until("workers write into it", || {
        publish(&server, "news", "x");
        fs::read_to_string(&path)
            .ok()
            .filter(|text| !text.is_empty())
    });
    let pids = server.worker_pids();
    let mut blocked = server.connect();
    blocked.send("GET /slow/600000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!blocked.has_data(std::time::Duration::from_millis(100)));
    server.signal(Signal::Kill);
    server.wait_exit();
    wait_until("no worker is left", || {
        (!pids.values().any(|pid| is_running(*pid))).then_some(())
    });
}

#[test]
fn root_gives_nobody_a_file_through_a_link_in_place_of_the_log() {
    if !is_root() {
        return;
    }
    let builder = fixture("hub").setting("user", USER);
    let folder = builder.directory().path().to_owned();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("it is ours");
    let logs = folder.join("logs");
    fs::create_dir(&logs).expect("it is ours");
    std::os::unix::fs::chown(&logs, number_of(USER), None).expect("this is root");
    let (secret, path) = (folder.join("secret"), logs.join("access.log"));
    fs::write(&secret, "root's").expect("it is ours");
    let server = builder.setting("access_log", path.display()).start();
    // A handler could do this before the log is reopened and before a worker is replaced.
    fs::remove_file(&path).expect("it is there");
    std::os::unix::fs::symlink(&secret, &path).expect("a link");
    server.signal(Signal::User1);
    server.log().wait_for(0, "it is a link");
    let pids = server.worker_pids();
    assert!(fermata_testkit::send_signal(pids[&0], Signal::Kill));
    server.wait_replaced(0, pids[&0]);
    assert_eq!(server.connect().get("/pid").status(), 200);
    let secret = (
        fs::metadata(&secret).expect("it is there").uid(),
        fs::read_to_string(&secret).expect("it is there"),
    );
    assert_eq!(secret, (0, "root's".to_owned()));
}

#[test]
fn root_is_warned_and_wrong_names_are_refused() {
    if !is_root() {
        return;
    }
    let server = fixture("hub").start();
    server.log().wait_for(0, "workers run as root");
    let exited = fixture("hub")
        .setting("user", "nobody-has-this-name")
        .start_refused();
    exited
        .log
        .wait_for(0, "user: nobody-has-this-name is not in /etc/passwd");
    let exited = fixture("hub").setting("group", USER).start_refused();
    exited
        .log
        .wait_for(0, "group: cannot change the group without a user");
}
