//! The kernel interface of the event loop, and the fallback if it is forbidden.

use fermata_tests::fixture;

/// Runs a command under a seccomp filter like those of containers: `io_uring_setup` (425 on every
/// architecture) fails with EPERM.
const FORBIDDEN: &str = r#"
use POSIX ();
my $prctl = (POSIX::uname())[4] eq 'aarch64' ? 167 : 157;
my $steps = join '', map { pack 'SCCL', @$_ }
    [0x20, 0, 0, 0], [0x15, 0, 1, 425], [0x06, 0, 0, 0x00050001], [0x06, 0, 0, 0x7fff0000];
my $program = pack 'Sx6P', 4, $steps;
syscall($prctl, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!";
syscall($prctl, 22, 2, $program) == 0 or die "seccomp: $!";
exec @ARGV or die "exec: $!";
"#;

#[test]
fn where_io_uring_is_forbidden_epoll_serves_and_one_line_says_why() {
    let server = fixture("hub")
        .setting("io", "io_uring")
        .workers(2)
        .behind(&["perl", "-e", FORBIDDEN])
        .start();
    assert_eq!(server.connect().get("/pid").status(), 200);
    let text = server.log().text();
    let refusals = text.matches("io_uring is not available").count();
    assert_eq!(refusals, 1, "{text}");
    assert!(
        text.contains("using epoll") && text.contains("io=epoll"),
        "{text}"
    );
}

#[test]
fn the_start_says_which_interface_is_used() {
    for io in ["epoll", "io_uring"] {
        let server = fixture("hub").setting("io", io).start();
        assert_eq!(server.connect().get("/pid").status(), 200);
        let text = server.log().text();
        let is_refused = text.contains("io_uring is not available");
        let used = if is_refused { "epoll" } else { io };
        assert!(text.contains(&format!("io={used}")), "{text}");
    }
}
