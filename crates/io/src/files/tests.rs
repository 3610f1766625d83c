use std::path::{Path, PathBuf};

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let name = format!("fermata-files-{:x}", crate::random::u64());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const BOUNDS: Bounds = Bounds {
    jobs_max: 4,
    waiting_max: 100,
    waiting_bytes_max: 1 << 30,
    threads_max: 2,
    inline_bytes_max: 0,
};

/// Returns an executor for every way to run operations. With a limit of 0 bytes, even cached
/// operations are passed on.
fn ways() -> Vec<(&'static str, Files)> {
    let mut ways = Vec::new();
    for (name, backend, inline_bytes_max) in [
        ("at once", Backend::Auto, 1 << 20),
        ("ring", Backend::Auto, 0),
        ("threads", Backend::Threads, 0),
    ] {
        let bounds = Bounds {
            inline_bytes_max,
            ..BOUNDS
        };
        let (mut files, _) = Files::new(bounds, backend).expect("files");
        if inline_bytes_max == 0 {
            let now = Instant::now();
            files
                .inline_io_budget
                .spend(std::time::Duration::from_secs(60), now);
        }
        ways.push((name, files));
    }
    ways
}

fn run(files: &mut Files, job: Job) -> Outcome {
    match files.start(job, 1).expect("room") {
        Started::Over(outcome) => outcome,
        Started::Pending(id) => wait(files, id),
    }
}

fn wait(files: &mut Files, id: JobId) -> Outcome {
    loop {
        if let Some(outcome) = files.take(id) {
            return outcome;
        }
        let mut ready = [rustix::event::PollFd::from_borrowed_fd(
            crate::driver::borrow(files.fd()),
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut ready, None).expect("poll");
        files.on_ready();
    }
}

fn text(outcome: Outcome) -> String {
    match outcome {
        Ok(Output::Bytes(Some(bytes))) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(Output::Bytes(None)) => "(end)".to_owned(),
        Ok(Output::Count(count)) => count.to_string(),
        Ok(Output::Names(names)) => String::from_utf8_lossy(&names).replace('\0', "/"),
        Ok(Output::Stat(stat)) => {
            format!("{:?} {} {:o}", stat.file_type, stat.size, stat.permissions)
        }
        Ok(Output::Done | Output::Handle(_) | Output::File(_)) => "done".to_owned(),
        Err(failure) => format!("{:?}", failure.kind()),
    }
}

fn data(text: &str) -> Data {
    Data::from(text.as_bytes().to_vec())
}

fn handle(outcome: Outcome) -> Handle {
    match outcome {
        Ok(Output::Handle(handle)) => handle,
        other => panic!("{}", text(other)),
    }
}

#[test]
fn whole_files_are_written_and_read() {
    for (way, mut files) in ways() {
        let folder = Folder::new();
        let path = folder.path("a");
        let write = |text: &str, mode| write_file(path.clone(), data(text), mode, 0o640, false);
        let read = || read_file(path.clone(), 0, None, 1 << 20);
        assert_eq!(text(run(&mut files, read())), "NotFound", "{way}");
        for (mode, then) in [
            (WriteMode::New, "one"),
            (WriteMode::Append, "oneone"),
            (WriteMode::Replace, "one"),
            (WriteMode::Atomic, "one"),
        ] {
            assert_eq!(text(run(&mut files, write("one", mode))), "3", "{way}");
            assert_eq!(text(run(&mut files, read())), then, "{way} {mode:?}");
        }
        let again = run(&mut files, write("two", WriteMode::New));
        assert_eq!(text(again), "Exists", "{way}");
        assert_eq!(folder.names(), ["a"], "{way}");
        let part = read_file(path.clone(), 1, Some(1), 1 << 20);
        assert_eq!(text(run(&mut files, part)), "n", "{way}");
        let behind = read_file(path.clone(), 9, None, 1 << 20);
        assert_eq!(text(run(&mut files, behind)), "", "{way}");
        let status = read_file("/proc/self/status".into(), 0, None, 1 << 20);
        assert!(text(run(&mut files, status)).contains("Name:"), "{way}");
        let large = run(&mut files, read_file(path.clone(), 0, None, 2));
        assert!(
            matches!(large, Err(Failure::TooLarge { bytes_max: 2 })),
            "{way}"
        );
        let pipe = run(&mut files, read_file("/dev/null".into(), 0, None, 2));
        assert!(matches!(pipe, Err(Failure::NotRegular)), "{way}");
        let directory = run(&mut files, read_file(folder.0.clone(), 0, None, 2));
        assert_eq!(text(directory), "IsDirectory", "{way}");
    }
}

#[test]
fn large_files_come_back_as_they_were() {
    let long: String = (0..400_000)
        .map(|it| char::from(b'a' + (it % 23) as u8))
        .collect();
    for (way, mut files) in ways() {
        let folder = Folder::new();
        let path = folder.path("long");
        let write = write_file(path.clone(), data(&long), WriteMode::Atomic, 0o600, true);
        assert_eq!(text(run(&mut files, write)), "400000", "{way}");
        let copied = run(&mut files, copy(path.clone(), folder.path("copy"), false));
        assert_eq!(text(copied), "400000", "{way}");
        let read = run(&mut files, read_file(folder.path("copy"), 0, None, 1 << 20));
        assert!(text(read) == long, "{way}");
        let mode = fs::metadata(folder.path("copy"))
            .expect("a copy")
            .permissions();
        assert_eq!(mode.mode() & 0o7777, 0o600, "{way}");
        let again = run(&mut files, copy(path, folder.path("copy"), false));
        assert_eq!(text(again), "Exists", "{way}");
        assert_eq!(folder.names(), ["copy", "long"], "{way}");
    }
}

#[test]
fn an_atomic_write_keeps_mode_and_link() {
    for (way, mut files) in ways() {
        let folder = Folder::new();
        fs::write(folder.path("a"), "old").expect("a file");
        fs::set_permissions(folder.path("a"), fs::Permissions::from_mode(0o604)).expect("a mode");
        std::os::unix::fs::symlink("a", folder.path("link")).expect("a link");
        let write = write_file(
            folder.path("link"),
            data("new"),
            WriteMode::Atomic,
            0o600,
            false,
        );
        assert_eq!(text(run(&mut files, write)), "3", "{way}");
        let found = run(&mut files, stat(folder.path("a"), true));
        assert_eq!(text(found), "File 3 604", "{way}");
        let link = run(&mut files, stat(folder.path("link"), false));
        assert!(text(link).starts_with("Link"), "{way}");
    }
}

#[test]
fn directories_are_made_listed_and_removed() {
    for (way, mut files) in ways() {
        let folder = Folder::new();
        let deep = folder.path("a/b/c");
        let flat = run(&mut files, make_directory(deep.clone(), false, 0o755));
        assert_eq!(text(flat), "NotFound", "{way}");
        for _ in 0..2 {
            let made = run(&mut files, make_directory(deep.clone(), true, 0o755));
            assert_eq!(text(made), "done", "{way}");
        }
        fs::write(folder.path("a/z"), "").expect("a file");
        let names = run(&mut files, list(folder.path("a")));
        assert_eq!(text(names), "b/z/", "{way}");
        let file = run(&mut files, list(folder.path("a/z")));
        assert_eq!(text(file), "NotDirectory", "{way}");
        let full = run(&mut files, remove(folder.path("a"), false));
        assert_eq!(text(full), "NotEmpty", "{way}");
        let moved = run(
            &mut files,
            rename(folder.path("a"), folder.path("d"), false),
        );
        assert_eq!(text(moved), "done", "{way}");
        let removed = run(&mut files, remove(folder.path("d"), true));
        assert_eq!(text(removed), "done", "{way}");
        let gone = run(&mut files, remove(folder.path("d"), true));
        assert_eq!(text(gone), "NotFound", "{way}");
        assert!(folder.names().is_empty(), "{way}");
    }
}

#[test]
fn handles_have_lines_and_a_position() {
    for (way, mut files) in ways() {
        let folder = Folder::new();
        let file = handle(run(
            &mut files,
            open_file(folder.path("a"), OpenMode::New, 0o600),
        ));
        assert_eq!(
            text(run(&mut files, file.write(data("one\r\ntwo\n\nlast")))),
            "14",
            "{way}"
        );
        assert_eq!(file.position(), 14);
        assert_eq!(text(run(&mut files, file.seek(0))), "done");
        assert_eq!(text(run(&mut files, file.read(2))), "on");
        let mut lines = Vec::new();
        for _ in 0..5 {
            lines.push(text(run(&mut files, file.read_line(100))));
        }
        assert_eq!(lines, ["e", "two", "", "last", "(end)"], "{way}");
        assert_eq!(file.position(), 14);
        run(&mut files, file.seek(5)).expect("a place");
        let line = run(&mut files, file.read_line(2));
        assert!(
            matches!(line, Err(Failure::LongLine { bytes_max: 2 })),
            "{way}"
        );
        assert_eq!(
            text(run(&mut files, file.read(100))),
            "two\n\nlast",
            "{way}"
        );
        assert_eq!(text(run(&mut files, file.truncate(3))), "done", "{way}");
        assert_eq!(text(run(&mut files, file.sync())), "done", "{way}");
        assert!(
            text(run(&mut files, file.stat())).starts_with("File 3"),
            "{way}"
        );
        file.close();
        assert!(
            matches!(run(&mut files, file.read(1)), Err(Failure::Closed)),
            "{way}"
        );
    }
}

#[test]
fn lines_longer_than_a_block_are_whole() {
    let long = "x".repeat(600_000);
    for (way, mut files) in ways() {
        let folder = Folder::new();
        fs::write(folder.path("a"), format!("{long}\n{long}")).expect("a file");
        let file = handle(run(
            &mut files,
            open_file(folder.path("a"), OpenMode::Read, 0),
        ));
        for _ in 0..2 {
            assert!(
                text(run(&mut files, file.read_line(1 << 20))) == long,
                "{way}"
            );
        }
        assert_eq!(
            text(run(&mut files, file.read_line(1 << 20))),
            "(end)",
            "{way}"
        );
    }
}

#[test]
fn cached_bytes_are_read_in_place() {
    let folder = Folder::new();
    let path = folder.path("a");
    fs::write(&path, "0123456789").expect("a file");
    let read = |offset, length, len_max| {
        let cached = Cached::open(&path, offset, length, len_max)?;
        let mut room = vec![std::mem::MaybeUninit::new(b'?'); cached.len()];
        assert!(cached.read(&mut room));
        // SAFETY: the complete buffer was initialized, and the read overwrote it.
        Some(
            room.iter()
                .map(|byte| char::from(unsafe { byte.assume_init() }))
                .collect::<String>(),
        )
    };
    // If the kernel or file system does not support cached reads, no file counts as cached.
    if Cached::open(&path, 0, None, 10).is_some() {
        assert_eq!(read(0, None, 10).as_deref(), Some("0123456789"));
        assert_eq!(read(3, Some(4), 4).as_deref(), Some("3456"));
        assert_eq!(read(20, None, 4).as_deref(), Some(""));
    }
    assert!(Cached::open(&path, 0, None, 9).is_none());
    assert!(Cached::open(&folder.path("none"), 0, None, 9).is_none());
    assert!(Cached::open(&folder.0, 0, None, 1 << 20).is_none());
    assert!(Cached::open(Path::new("/dev/null"), 0, None, 9).is_none());
    let cached = Cached::open(&path, 0, None, 10);
    fs::write(&path, "short").expect("a file");
    assert!(cached.is_none_or(|cached| !cached.read(&mut [std::mem::MaybeUninit::uninit(); 10])));
}

#[test]
fn a_lock_keeps_others_out() {
    let folder = Folder::new();
    let path = folder.path("a");
    let open = || handle(open_file(path.clone(), OpenMode::Update, 0o600).run_now());
    let (first, second) = (open(), open());
    assert_eq!(first.lock(Lock::Exclusive, false), Ok(true));
    assert_eq!(second.lock(Lock::Shared, false), Ok(false));
    assert_eq!(first.lock(Lock::None, false), Ok(true));
    assert_eq!(second.lock(Lock::Shared, true), Ok(true));
    assert_eq!(first.lock(Lock::Shared, false), Ok(true));
    assert_eq!(first.lock(Lock::Exclusive, false), Ok(false));
}

#[test]
fn writes_to_one_file_keep_their_order_and_are_finished() {
    for (way, mut files) in ways() {
        let folder = Folder::new();
        let path = folder.path("a");
        let mut expected = String::new();
        let mut pending = Vec::new();
        for number in 0..50 {
            let line = format!("{number}\n");
            let job = write_file(
                path.clone(),
                data(&line),
                WriteMode::Append,
                0o600,
                number % 7 == 0,
            );
            if let Started::Pending(id) = files.start(job, number + 1).expect("room") {
                pending.push(id);
            }
            expected.push_str(&line);
        }
        // Half of the jobs are abandoned; all are finished.
        for id in pending.into_iter().step_by(2) {
            files.forget(id);
        }
        drop(files);
        let found = fs::read_to_string(&path).expect("the file");
        assert_eq!(found, expected, "{way}");
    }
}

#[test]
fn more_jobs_than_may_wait_are_refused() {
    let bounds = Bounds {
        jobs_max: 1,
        waiting_max: 2,
        ..BOUNDS
    };
    let (mut files, _) = Files::new(bounds, Backend::Threads).expect("files");
    let folder = Folder::new();
    let job = |name: &str| write_file(folder.path(name), data("x"), WriteMode::New, 0o600, true);
    for name in ["a", "b", "c"] {
        assert!(matches!(files.start(job(name), 1), Ok(Started::Pending(_))));
    }
    assert!(matches!(files.start(job("d"), 1), Err(Full::Jobs)));
    files.finish();
    assert_eq!(folder.names(), ["a", "b", "c"]);
    assert!(files.is_idle());
    assert_eq!(std::iter::from_fn(|| files.next_over()).count(), 3);
}

#[test]
fn borrowed_bytes_are_copied_before_a_job_is_postponed() {
    for (way, mut files) in ways() {
        let folder = Folder::new();
        let path = folder.path("a");
        let mut bytes = vec![b'x'; 300_000];
        // SAFETY: the bytes change only after `start` has returned.
        let lent = unsafe { Data::lend(&bytes) };
        let job = write_file(path.clone(), lent, WriteMode::Replace, 0o600, true);
        let started = files.start(job, 1).expect("room");
        bytes.fill(b'y');
        if let Started::Pending(id) = started {
            assert_eq!(text(wait(&mut files, id)), "300000", "{way}");
        }
        let found = fs::read(&path).expect("the file");
        assert!(found.iter().all(|byte| *byte == b'x'), "{way}");
    }
}

#[test]
fn failures_name_path_cause_and_fix() {
    let failure = Failure::from(libc::ENOENT);
    let sentence = failure.sentence("read", Path::new("no"));
    assert!(
        sentence
            .starts_with("cannot read no: No such file or directory; a relative path starts at /"),
        "{sentence}"
    );
    let failure = Failure::System {
        errno: libc::ENOSPC,
        written: 7,
    };
    let sentence = failure.sentence("write", Path::new("/a"));
    assert_eq!(
        sentence,
        "cannot write /a: No space left on device; make room on the file system; 7 bytes are in the file, which \
         WriteMode::Atomic would have left as it was"
    );
}

#[test]
fn rejects_writes_beyond_waiting_bytes_max_unless_alone() {
    let bounds = Bounds {
        waiting_bytes_max: 10,
        ..BOUNDS
    };
    let (mut files, _) = Files::new(bounds, Backend::Threads).expect("files");
    let folder = Folder::new();
    let job =
        |name: &str, text| write_file(folder.path(name), data(text), WriteMode::New, 0o600, true);
    let large = "x".repeat(100);
    assert!(matches!(
        files.start(job("a", &large), 1),
        Ok(Started::Pending(_))
    ));
    assert!(matches!(files.start(job("b", "x"), 1), Err(Full::Bytes)));
    files.finish();
    for name in ["b", "c"] {
        assert!(matches!(
            files.start(job(name, "12345"), 1),
            Ok(Started::Pending(_))
        ));
    }
    assert!(matches!(files.start(job("d", "x"), 1), Err(Full::Bytes)));
    // A blocking caller waits until a running job has ended.
    assert_eq!(text(files.run(job("e", &large))), "100");
    assert_eq!(folder.names(), ["a", "b", "c", "e"]);
    assert_eq!(files.waiting_bytes, 0);
}

#[test]
fn blocking_jobs_keep_their_order() {
    for (way, mut files) in ways() {
        let folder = Folder::new();
        let path = folder.path("a");
        let long = "x".repeat(600_000);
        let file = handle(run(
            &mut files,
            open_file(path.clone(), OpenMode::New, 0o600),
        ));
        let pending = files.start(file.write(data(&long)), 1).expect("room");
        assert_eq!(text(files.run(file.write(data("bye")))), "3", "{way}");
        assert_eq!(file.position(), 600_003, "{way}");
        let found = fs::read_to_string(&path).expect("the file");
        assert!(found == format!("{long}bye"), "{way}");
        // The waiter belongs to another job.
        if let Started::Pending(id) = pending {
            assert_eq!(files.next_over(), Some((id, 1)), "{way}");
            assert_eq!(text(files.take(id).expect("an end")), "600000", "{way}");
        }
        assert_eq!(files.next_over(), None, "{way}");
    }
}

#[test]
fn a_rename_waits_for_writes_to_both_names() {
    for (way, mut files) in ways() {
        let folder = Folder::new();
        let long = "x".repeat(600_000);
        let write = |name: &str, text: &str| {
            write_file(
                folder.path(name),
                data(text),
                WriteMode::Replace,
                0o600,
                true,
            )
        };
        for job in [
            write("a", &long),
            rename(folder.path("a"), folder.path("b"), true),
            write("b", "new"),
            rename(folder.path("b"), folder.path("c"), true),
        ] {
            files.start(job, 1).expect("room");
        }
        let opened = open_file(folder.path("c"), OpenMode::Replace, 0o600);
        files.start(write("c", &long), 1).expect("room");
        handle(run(&mut files, opened));
        assert_eq!(fs::read(folder.path("c")).expect("a file"), b"", "{way}");
        files.finish();
        assert_eq!(folder.names(), ["c"], "{way}");
        assert!(files.is_idle(), "{way}");
    }
}

#[test]
fn a_temporary_file_is_removed_with_its_handle_unless_kept() {
    for (way, mut files) in ways() {
        let folder = Folder::new();
        let make = || make_temporary(folder.0.clone(), b"part-".to_vec());
        let file = handle(run(&mut files, make()));
        assert!(file.path().starts_with(&folder.0));
        let keep = file.keep(folder.path("kept")).expect("a temporary file");
        assert!(file.keep(folder.path("twice")).is_none(), "{way}");
        assert_eq!(text(run(&mut files, keep)), "done", "{way}");
        assert_eq!(file.path(), folder.path("kept"), "{way}");
        file.close();
        assert_eq!(folder.names(), ["kept"], "{way}");

        let file = handle(run(&mut files, make()));
        drop(file.keep(folder.path("refused")).expect("a job"));
        let nowhere = file.keep(folder.path("none/x")).expect("still temporary");
        assert_eq!(text(run(&mut files, nowhere)), "NotFound", "{way}");
        assert!(file.is_temporary(), "{way}");
        // The file is renamed although its owner closed it.
        let keep = file.keep(folder.path("late")).expect("still temporary");
        file.close();
        assert_eq!(text(run(&mut files, keep)), "done", "{way}");
        let file = handle(run(&mut files, make()));
        let nowhere = file.keep(folder.path("none/x")).expect("a job");
        drop(file);
        assert_eq!(text(run(&mut files, nowhere)), "NotFound", "{way}");
        assert_eq!(folder.names(), ["kept", "late"], "{way}");

        // The user stops waiting before or after the jobs have ended.
        for forgets_first in [true, false] {
            if let Started::Pending(id) = files.start(make(), 1).expect("room") {
                if forgets_first {
                    files.forget(id);
                }
                files.finish();
                files.forget(id);
            }
            assert_eq!(folder.names(), ["kept", "late"], "{way}");
        }
    }
}

#[test]
fn a_new_file_has_no_more_permissions_than_the_replaced_one() {
    let folder = Folder::new();
    let path = folder.path("secret");
    fs::write(&path, "old").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4600)).expect("a mode");
    let mut write = write_file(path.clone(), data("new"), WriteMode::Atomic, 0o666, false);
    let mut modes = Vec::new();
    loop {
        match write.step() {
            Step::Over(outcome) => {
                assert_eq!(text(outcome), "3");
                break;
            }
            Step::Do(mut op) => {
                let answer = op.run();
                write.answer(op, answer);
                for name in folder.names() {
                    let found = fs::metadata(folder.path(&name)).expect("a file");
                    modes.push(found.permissions().mode() & 0o077);
                }
            }
        }
    }
    assert!(modes.iter().all(|mode| *mode == 0), "{modes:?}");
    let mode = |path| fs::metadata(path).expect("a file").permissions().mode() & 0o7777;
    assert_eq!(mode(path.clone()), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).expect("a mode");
    assert_eq!(text(copy(path, folder.path("copy"), false).run_now()), "3");
    assert_eq!(mode(folder.path("copy")), 0o755);
}

#[test]
fn an_atomic_write_creates_the_target_of_a_link() {
    let folder = Folder::new();
    fs::create_dir(folder.path("d")).expect("a folder");
    std::os::unix::fs::symlink("d/again", folder.path("link")).expect("a link");
    std::os::unix::fs::symlink("target", folder.path("d/again")).expect("a link");
    std::os::unix::fs::symlink("round", folder.path("round")).expect("a link");
    let write = |name: &str| {
        write_file(
            folder.path(name),
            data("new"),
            WriteMode::Atomic,
            0o600,
            false,
        )
    };
    assert_eq!(text(write("link").run_now()), "3");
    assert_eq!(fs::read(folder.path("d/target")).expect("a file"), b"new");
    assert!(folder.path("link").is_symlink());
    assert!(matches!(
        write("round").run_now(),
        Err(Failure::System {
            errno: libc::ELOOP,
            ..
        })
    ));
}

#[test]
fn bytes_read_ahead_survive_an_error() {
    let folder = Folder::new();
    fs::write(folder.path("a"), "one\ntwo\n").expect("a file");
    let file = handle(open_file(folder.path("a"), OpenMode::Read, 0).run_now());
    assert_eq!(text(file.read_line(100).run_now()), "one");
    let mut read = file.read(100);
    let Step::Do(op) = read.step() else {
        panic!("there is more to be read");
    };
    read.answer(op, Err(libc::EIO));
    assert!(matches!(read.step(), Step::Over(Err(_))));
    assert_eq!(file.position(), 4);
    assert_eq!(text(file.read(100).run_now()), "two\n");
}

#[test]
fn a_tree_is_removed_however_deep_it_is() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("kept", folder.path("link")).expect("a link");
    fs::create_dir(folder.path("kept")).expect("a folder");
    fs::write(folder.path("kept/file"), "").expect("a file");
    // Deeper than a path can name, and than a process may have descriptors.
    let top = folder.path("deep");
    let make = |at: &rustix::fd::OwnedFd, name: &str| {
        rustix::fs::mkdirat(at, name, rustix::fs::Mode::RWXU).expect("a folder");
        let flags = rustix::fs::OFlags::DIRECTORY;
        rustix::fs::openat(at, name, flags, rustix::fs::Mode::empty()).expect("the folder")
    };
    fs::create_dir(&top).expect("a folder");
    let mut at = rustix::fd::OwnedFd::from(fs::File::open(&top).expect("the folder"));
    for _ in 0..1200 {
        rustix::fs::symlinkat("../../kept", &at, "link").expect("a link");
        drop(make(&at, "beside"));
        at = make(&at, "below");
    }
    let (mut files, _) = Files::new(BOUNDS, Backend::Threads).expect("files");
    let link = run(&mut files, remove(folder.path("link"), true));
    assert_eq!(text(link), "done");
    assert_eq!(text(run(&mut files, remove(top, true))), "done");
    assert_eq!(folder.names(), ["kept"]);
    assert!(folder.path("kept/file").exists());
}
