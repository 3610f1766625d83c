use std::fs;
use std::path::PathBuf;

use super::*;

fn settings(directory: &Path) -> Settings {
    Settings {
        upload_directory: Some(directory.to_owned()),
        upload_bytes_max: 10,
        uploads_max: 2,
        form_fields_max: 2,
        body_memory_bytes_max: 20,
        ..Settings::default()
    }
}

/// A directory of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the directory for temporary files is writable");
        Folder(path)
    }

    /// Returns the number of files, without locks.
    fn files(&self) -> usize {
        let entries = fs::read_dir(&self.0).expect("it is there");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let is_file = |name: &std::ffi::OsString| !name.to_string_lossy().ends_with("-lock");
        names.filter(is_file).count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn partial(rest: BodyRest, sink: Sink) -> Partial {
    Partial {
        head_bytes: Vec::new(),
        head: http1::Head::default(),
        body: Vec::new(),
        rest,
        bytes_max: 1_000,
        pace: BodyPace {
            timeout_ms: 1_000,
            rate_min: 0,
            setting: "body_timeout_ms",
        },
        sink,
        received: 0,
        begun_ms: 0,
        early: None,
    }
}

fn form(parts: &[(&str, &str)]) -> String {
    let parts = parts.iter().map(|(parameters, content)| {
        format!("--B\r\nContent-Disposition: form-data; {parameters}\r\n\r\n{content}\r\n")
    });
    parts.collect::<String>() + "--B--"
}

fn feed(body: &str, settings: &Settings, own: Option<u64>) -> Result<Upload, BodyError> {
    let spools = Spools::new(settings, 1);
    let mut form = Form::new(b"B", settings, &spools, own);
    for piece in body.as_bytes().chunks(3) {
        form.feed(piece)?;
    }
    form.finish()
}

#[test]
fn deletes_files_of_a_form_with_its_upload() {
    let folder = Folder::new("form");
    let body = form(&[
        ("name=a", "one"),
        ("name=f; filename=x.txt", "0123456789"),
        ("name=none; filename=\"\"", "dropped"),
        ("name=b", ""),
    ]);
    let upload = feed(&body, &settings(&folder.0), None).expect("within all limits");
    let fields: Vec<_> = upload
        .fields
        .iter()
        .map(|(n, v)| (&n[..], &v[..]))
        .collect();
    assert_eq!(fields, [(&b"a"[..], &b"one"[..]), (b"b", b"")]);
    let none = Unchosen {
        name: b"none".to_vec(),
        files_before: 1,
    };
    assert_eq!(upload.unchosen, [none]);
    let [file] = &upload.files[..] else {
        panic!("one file");
    };
    assert_eq!((&file.name[..], file.bytes), (&b"x.txt"[..], 10));
    assert_eq!(
        fs::read(file.temporary.path()).expect("it is there"),
        b"0123456789"
    );
    drop(upload);
    assert_eq!(folder.files(), 0);
}

#[test]
fn every_limit_of_a_form_is_named_and_nothing_stays() {
    let folder = Folder::new("limits");
    let settings = settings(&folder.0);
    for (parts, name) in [
        (
            &[("name=f; filename=x", "0123456789a")][..],
            "upload_bytes_max",
        ),
        (
            &[
                ("name=f; filename=x", ""),
                ("name=f; filename=x", ""),
                ("name=f; filename=x", ""),
            ],
            "uploads_max",
        ),
        (
            &[("name=a", ""), ("name=a", ""), ("name=a", "")],
            "form_fields_max",
        ),
        (
            &[("name=a", "0123456789"), ("name=a", "0123456789")],
            "body_memory_bytes_max",
        ),
    ] {
        let error = feed(&form(parts), &settings, None).expect_err(name);
        assert_eq!(error.status(), 413);
        assert!(error.client_message().contains(name), "{error}");
        assert_eq!(folder.files(), 0, "{name}");
    }
    let one = form(&[("name=f; filename=x", "0123456789a")]);
    assert!(
        feed(&one, &settings, Some(11)).is_ok(),
        "the route's own limit counts"
    );
    let cut = feed(&one[..one.len() - 3], &settings, Some(11)).expect_err("it is not complete");
    assert_eq!(cut.status(), 400);
    assert_eq!(folder.files(), 0);
}

#[test]
fn moves_a_large_body_to_a_file() {
    let folder = Folder::new("large");
    let settings = settings(&folder.0);
    let spools = Spools::new(&settings, 1);
    let decoder = BodyRest::Chunked(chunked::Decoder::new());
    let mut body = partial(decoder, Sink::Memory);
    let chunk = "a\r\n0123456789\r\n".repeat(3) + "0\r\n\r\nnext";
    let mut taken = 0;
    let mut is_done = false;
    for piece in chunk.as_bytes().chunks(4) {
        let (now, done) = body
            .take(piece, &settings, &spools)
            .expect("within the limit");
        taken += now;
        is_done = done;
        assert!(body.body.len() <= 20);
        if done {
            break;
        }
    }
    assert!(is_done && taken == chunk.len() - 4 && body.received == 30);
    let upload = Partial::finish(body.sink)
        .expect("written")
        .expect("a file");
    let (file, bytes) = upload.body.as_ref().expect("the whole body");
    assert_eq!(*bytes, 30);
    assert_eq!(
        fs::read(file.path()).expect("it is there"),
        "0123456789".repeat(3).as_bytes()
    );
    drop(upload);
    assert_eq!(folder.files(), 0);
}

#[test]
fn names_an_unwritable_directory_only_in_the_log() {
    let nowhere = Spools::new(&settings(Path::new("/nonexistent")), 1);
    let missing = nowhere.create().expect_err("there is no such directory");
    assert_eq!(missing.status(), 500);
    assert!(
        missing.to_string().contains("/nonexistent")
            && missing.to_string().contains("upload_directory")
    );
    assert!(!missing.client_message().contains("/nonexistent"));
    let full = BodyError::io(Path::new("/full"), io::ErrorKind::StorageFull.into());
    assert_eq!(full.status(), 507);
    let many = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
    assert_eq!(BodyError::io(Path::new("/full"), many).status(), 503);
}

#[test]
fn sweeps_files_of_one_process_of_one_server() {
    let folder = Folder::new("sweep");
    let settings = settings(&folder.0);
    let [ours, theirs] = [1, 2].map(|server| Spools::new(&settings, server));
    let created = |spools: &Spools| spools.create().expect("it is writable").finish().0;
    let (our_file, their_file) = (created(&ours), created(&theirs));
    let pid = std::process::id();
    ours.sweep(pid + 1);
    assert_eq!(folder.files(), 2);
    // The same process id in another container belongs to another process.
    ours.sweep(pid);
    assert!(!our_file.path().exists() && their_file.path().exists());
}

#[test]
fn sweeps_files_of_exited_servers() {
    let folder = Folder::new("dead");
    let settings = settings(&folder.0);
    let alive = Spools::new(&settings, 1);
    let kept = alive.create().expect("it is writable").finish().0;
    // The lock is released when the process exits; an unfinished file stays.
    let dead = Spools::new(&settings, 2);
    let left = dead.create().expect("it is writable").finish().0;
    let path = left.path().to_owned();
    std::mem::forget(left);
    drop(dead);
    let foreign = folder.0.join("fermata-upload-x");
    std::fs::write(&foreign, "somebody's").expect("it is writable");
    Spools::new(&settings, 3).sweep_dead();
    assert!(kept.path().exists() && !path.exists() && foreign.exists());
    assert_eq!(folder.files(), 2);
    let names = std::fs::read_dir(&folder.0).expect("it is there");
    assert_eq!(names.count(), 3, "and the lock of the one that runs");
}

#[test]
fn ignores_foreign_files_when_sweeping() {
    let folder = Folder::new("others");
    let settings = settings(&folder.0);
    let alive = Spools::new(&settings, 1);
    let kept = alive.create().expect("it is writable").finish().0;
    // One lock whose name is a prefix of all names, and one that would block on open.
    for name in ["lock", "0-1-lock", "0000000000000001-lock"] {
        let lock = folder.0.join(format!("fermata-upload-{name}"));
        fs::write(lock, "").expect("it is writable");
    }
    let pipe = folder.0.join("fermata-upload-0000000000000009-1-lock");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    Spools::new(&settings, 3).sweep_dead();
    assert!(kept.path().exists() && pipe.exists());
}

#[test]
fn skips_reserved_upload_numbers() {
    let mut uploads = Uploads {
        last: ARRIVING - 2,
        ..Uploads::default()
    };
    let numbers = [0; 3].map(|_| uploads.keep(Upload::default()));
    assert_eq!(numbers, [ARRIVING - 1, 1, 2]);
    uploads.release(1);
    assert!(uploads.get(1).is_none() && uploads.get(2).is_some());
}
