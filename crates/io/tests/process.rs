//! Fork, signals and shared memory. Runs without the standard test harness, whose threads must not exist when a process
//! forks.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fermata_io::process::{self, Exit, Fork, Pid};
use fermata_io::shm::{Region, Shared};
use fermata_io::signal::{self, Pipe};
use fermata_io::sys::epoll::Epoll;
use fermata_io::wake::Waker;
use fermata_io::{Backend, Driver, Event, Kernel};

const PATIENCE: Duration = Duration::from_secs(10);

fn main() {
    let tests: [(&str, fn()); 10] = [
        ("exits_are_reported_once", exits_are_reported_once),
        (
            "signals_that_kill_are_reported",
            signals_that_kill_are_reported,
        ),
        ("one_child_can_be_asked_for", one_child_can_be_asked_for),
        ("signals_arrive_in_the_pipe", signals_arrive_in_the_pipe),
        ("a_child_has_its_own_pipe", a_child_has_its_own_pipe),
        (
            "ignored_signals_work_again_after_exec",
            ignored_signals_work_again_after_exec,
        ),
        (
            "memory_and_wakers_cross_a_fork",
            memory_and_wakers_cross_a_fork,
        ),
        (
            "a_region_is_shared_with_children_and_unmapped_with_its_owners",
            a_region_is_shared_with_children_and_unmapped_with_its_owners,
        ),
        (
            "the_lock_lives_as_long_as_a_child",
            the_lock_lives_as_long_as_a_child,
        ),
        (
            "a_forbidden_io_uring_is_an_error_with_its_reason",
            a_forbidden_io_uring_is_an_error_with_its_reason,
        ),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}

/// Runs `child` in a separate process, which exits with the returned code.
fn start(child: impl FnOnce() -> i32) -> Pid {
    match process::fork().expect("fork") {
        Fork::Parent(pid) => pid,
        Fork::Child => {
            // A panic in the child must not run the parent's tests in the child.
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101);
            process::exit_now(code)
        }
    }
}

fn soon<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = what() {
            return value;
        }
        assert!(Instant::now() < deadline, "it did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn exits_are_reported_once() {
    assert_eq!(process::reap(), None);
    let pid = start(|| 42);
    assert_eq!(soon(process::reap), (pid, Exit::Code(42)));
    assert_eq!(process::reap(), None);
    assert!(!process::is_alive(pid));
    assert_eq!(
        process::kill(pid, 0).expect_err("gone").kind(),
        ErrorKind::NotFound
    );
}

fn signals_that_kill_are_reported() {
    let parent = process::pid();
    let pid = start(move || {
        assert_eq!(process::parent_pid(), parent);
        std::thread::sleep(PATIENCE);
        0
    });
    assert!(process::is_alive(pid));
    process::kill(pid, signal::SIGKILL).expect("kill");
    assert_eq!(soon(process::reap), (pid, Exit::Signal(signal::SIGKILL)));
    assert!(
        process::kill(-1, signal::SIGKILL).is_err(),
        "never everybody"
    );
    assert!(process::kill(0, signal::SIGTERM).is_err());
}

fn one_child_can_be_asked_for() {
    let first = start(|| 1);
    let second = start(|| 2);
    assert_eq!(soon(|| process::reap_pid(second)), Exit::Code(2));
    assert_eq!(soon(|| process::reap_pid(first)), Exit::Code(1));
    assert_eq!(process::reap_pid(first), None);
    assert_eq!(process::reap_pid(-1), None);
}

fn signals_arrive_in_the_pipe() {
    let pipe = Pipe::install(&[signal::SIGUSR1, signal::SIGTERM]).expect("install");
    assert_eq!(pipe.read(), None);
    let own = process::pid();
    process::kill(own, signal::SIGUSR1).expect("kill");
    process::kill(own, signal::SIGTERM).expect("kill");
    assert_eq!(soon(|| pipe.read()), signal::SIGUSR1);
    assert_eq!(soon(|| pipe.read()), signal::SIGTERM);

    // The loop reads the signal, even if the signal interrupts the wait.
    let mut epoll = Epoll::new().expect("epoll");
    epoll.add_wake(pipe.fd(), 5).expect("add");
    let killer = start(move || {
        std::thread::sleep(Duration::from_millis(20));
        i32::from(process::kill(own, signal::SIGUSR1).is_err())
    });
    let mut events: Vec<Event> = Vec::new();
    while events.is_empty() {
        epoll.wait(&mut events, Some(10_000)).expect("wait");
    }
    assert_eq!(events[0].token, 5);
    assert_eq!(pipe.read(), Some(signal::SIGUSR1));
    assert_eq!(soon(|| process::reap_pid(killer)), Exit::Code(0));

    // A new pipe replaces the old one, and dropping the old one has no effect on it.
    let newer = Pipe::install(&[signal::SIGUSR1]).expect("install");
    drop(pipe);
    process::kill(own, signal::SIGUSR1).expect("kill");
    assert_eq!(soon(|| newer.read()), signal::SIGUSR1);
    drop(newer);
    process::kill(own, signal::SIGUSR1).expect("kill");

    assert!(Pipe::install(&[signal::SIGKILL]).is_err());
    signal::restore_default(signal::SIGTERM).expect("restore");
}

fn a_child_has_its_own_pipe() {
    let pipe = Pipe::install(&[signal::SIGTERM]).expect("install");
    let pid = start(|| {
        // A signal that arrives before the child has its pipe is not lost.
        process::kill(process::pid(), signal::SIGTERM).expect("kill");
        let own = Pipe::install(&[signal::SIGTERM]).expect("install");
        let number = soon(|| own.read());
        if own.read().is_none() { number } else { 1 }
    });
    assert_eq!(soon(|| process::reap_pid(pid)), Exit::Code(signal::SIGTERM));
    assert_eq!(pipe.read(), None, "the parent was not told");
    drop(pipe);
    signal::restore_default(signal::SIGTERM).expect("restore");
}

fn ignored_signals_work_again_after_exec() {
    signal::ignore(signal::SIGUSR2).expect("ignore");
    process::kill(process::pid(), signal::SIGUSR2).expect("kill");
    let status = std::process::Command::new("sh")
        .args(["-c", "kill -USR2 $$; exit 0"])
        .status()
        .expect("a shell");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(signal::SIGUSR2)
    );
    signal::restore_default(signal::SIGUSR2).expect("restore");
}

fn memory_and_wakers_cross_a_fork() {
    let shared = Shared::anonymous(8).expect("memory");
    let waker = Waker::new().expect("eventfd");
    let pid = start(|| {
        shared.words()[3].store(99, Ordering::Release);
        waker.wake();
        0
    });
    let mut epoll = Epoll::new().expect("epoll");
    epoll.add_wake(waker.fd(), 1).expect("add");
    let mut events = Vec::new();
    epoll.wait(&mut events, Some(10_000)).expect("wait");
    assert_eq!(events.len(), 1);
    assert_eq!(shared.words()[3].load(Ordering::Acquire), 99);
    assert_eq!(soon(|| process::reap_pid(pid)), Exit::Code(0));
}

fn a_region_is_shared_with_children_and_unmapped_with_its_owners() {
    assert_eq!(
        Region::new(0).expect_err("no words").kind(),
        ErrorKind::InvalidInput
    );
    assert!(Region::new(usize::MAX / 16).is_err(), "no machine has it");
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("its mappings");
        maps.lines().filter(|line| line.contains("rw-s")).count()
    };
    let before = mapped();
    let region = Region::new(1000).expect("memory");
    assert_eq!((region.len(), mapped()), (1000, before + 1));
    let child = start(|| {
        region[999].store(7, Ordering::SeqCst);
        0
    });
    assert_eq!(soon(process::reap), (child, Exit::Code(0)));
    assert_eq!(region[999].load(Ordering::SeqCst), 7);
    drop(region);
    assert_eq!(mapped(), before);
}

fn the_lock_lives_as_long_as_a_child() {
    let folder = std::env::temp_dir().join(format!("fermata-io-lock-{}", process::pid()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("history");
    // A server whose master is killed while a worker still writes.
    let worker_pid = Shared::anonymous(1).expect("memory");
    let master = start(|| {
        let _shared = Shared::file(&path, 8).expect("map");
        let worker = start(|| {
            std::thread::sleep(PATIENCE);
            0
        });
        worker_pid.words()[0].store(worker as u64, Ordering::Release);
        0
    });
    assert_eq!(soon(|| process::reap_pid(master)), Exit::Code(0));
    let error = Shared::file(&path, 8).expect_err("the worker lives");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let worker = worker_pid.words()[0].load(Ordering::Acquire) as Pid;
    process::kill(worker, signal::SIGKILL).expect("kill");
    let shared = soon(|| Shared::file(&path, 8).ok());
    assert!(shared.existed());
    std::fs::remove_dir_all(&folder).expect("clean up");
}

/// Runs in a child, because a seccomp filter is permanent.
fn a_forbidden_io_uring_is_an_error_with_its_reason() {
    let child = start(|| {
        forbid_io_uring();
        let why = fermata_io::probe::io_uring().expect_err("it is forbidden");
        assert!(!why.to_string().is_empty());
        let error = Kernel::open(Backend::IoUring)
            .map(|_| ())
            .expect_err("it is forbidden");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(Kernel::open(Backend::Epoll).is_ok());
        0
    });
    assert_eq!(soon(process::reap), (child, Exit::Code(0)));
}

/// Makes `io_uring_setup` fail with EPERM, like a container's seccomp profile.
fn forbid_io_uring() {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut steps = [
        // The first word of a filter's input is the number of the system call.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the program describes `steps`, which outlives the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
            0
        );
    }
}

#[test]
fn memory_that_is_cleared_is_zero_and_can_be_used_again() {
    let shared = Shared::anonymous(100_000).expect("memory");
    for round in 1..=2 {
        for word in shared.words() {
            assert_eq!(word.swap(round, Ordering::Relaxed), 0);
        }
        shared.clear().expect("memory that is ours");
    }
    assert!(
        shared
            .words()
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == 0)
    );
}
