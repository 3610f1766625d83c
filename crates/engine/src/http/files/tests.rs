//! The file resolver over a real directory.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Mode;

use super::directory::open_checked;
use super::*;

/// Current time for opening files: the year 2100, later than the modification time of every test
/// file.
const NOW_S: u64 = 4_102_444_800;

/// A directory that is deleted at the end of the test.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("fermata-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for (file, text) in [
            ("www/index.html", "<p>"),
            ("www/a.txt", "aaa"),
            ("www/sub/index.html", "sub"),
            ("www/sub/deep/x.js", "1"),
            ("www/empty/x", ""),
            ("www/.env", "secret"),
            ("www/.git/config", "secret"),
            ("www/.well-known/acme", "token"),
            ("www/config.php", "secret"),
            ("www/config.php.bak", "secret"),
            ("www/sub/view.PHTML~", "secret"),
            ("www/sub/.well-known/acme", "no"),
            ("www/with space ü.svg", "<svg>"),
            ("outside.txt", "secret"),
        ] {
            let file = path.join(file);
            fs::create_dir_all(file.parent().expect("there is one")).expect("can create");
            fs::write(file, text).expect("can write");
        }
        let www = path.join("www");
        symlink("../outside.txt", www.join("out")).expect("can link");
        symlink(path.join("outside.txt"), www.join("out-absolute")).expect("can link");
        symlink("..", www.join("up")).expect("can link");
        symlink("sub/deep", www.join("within")).expect("can link");
        symlink("loop", www.join("loop")).expect("can link");
        Self(path)
    }

    fn www(&self) -> PathBuf {
        self.0.join("www")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(root: &Root, rest: &str, codings: &Codings) -> Result<File, FileError> {
    let directory = Directory::new(&root.www(), StaticOptions::default(), 0);
    let directory = directory.expect("a directory and options that work");
    resolve(
        &mut Roots::default(),
        &directory,
        rest.as_bytes(),
        codings,
        NOW_S,
    )
}

fn text(root: &Root, rest: &str) -> Result<String, FileError> {
    let mut file = open(root, rest, &Codings::NONE)?;
    let mut text = String::new();
    file.file.read_to_string(&mut text)?;
    assert_eq!(file.len, text.len() as u64);
    Ok(text)
}

#[test]
fn serves_files_and_indexes() {
    let root = Root::new("serve");
    for (rest, expected) in [
        ("/", "<p>"),
        ("/index.html", "<p>"),
        ("/a.txt", "aaa"),
        ("/sub/", "sub"),
        ("/sub/deep/x.js", "1"),
        ("/within/x.js", "1"),
        ("/empty/x", ""),
        ("/.well-known/acme", "token"),
        ("/with space ü.svg", "<svg>"),
    ] {
        assert_eq!(text(&root, rest).expect(rest), expected, "{rest}");
    }
    for rest in ["", "/sub"] {
        assert!(
            matches!(text(&root, rest), Err(FileError::Directory)),
            "{rest}"
        );
    }
}

#[test]
fn serves_nothing_outside_and_nothing_hidden() {
    let root = Root::new("escape");
    let pipe = root.www().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR)
        .expect("can create a pipe");
    let long = format!("/{}", "x".repeat(5000));
    for rest in [
        "/../outside.txt",
        "/sub/../../outside.txt",
        "/sub/../a.txt",
        "/..",
        "/.",
        "/./a.txt",
        "/out",
        "/out-absolute",
        "/up/outside.txt",
        "/up/www/a.txt",
        "/loop",
        "//etc/passwd",
        "//a.txt",
        "/sub//deep/x.js",
        "/.env",
        "/.git/config",
        "/sub/.well-known/acme",
        "/.well-knownx",
        "/a.txt/",
        "/a.txt/x",
        "/missing",
        "/empty",
        "/empty/",
        "/a.txt\0",
        "/a\0/x",
        "/pipe",
        "a.txt",
        &long,
    ] {
        assert!(
            matches!(text(&root, rest), Err(FileError::NotFound)),
            "{rest:?}"
        );
    }
}

#[test]
fn resolves_equally_without_openat2() {
    let root = Root::new("fallback");
    let www = root.www();
    for good in ["a.txt", "sub/deep/x.js", "within/x.js"] {
        assert!(open_checked(&www, Path::new(good)).is_ok(), "{good}");
    }
    for bad in [
        "out",
        "out-absolute",
        "up/outside.txt",
        "loop",
        "missing",
        "a.txt/x",
    ] {
        let result = open_checked(&www, Path::new(bad));
        assert!(matches!(result, Err(FileError::NotFound)), "{bad}");
    }
}

#[test]
fn sends_precompressed_siblings_to_accepting_clients() {
    let root = Root::new("siblings");
    for name in [
        "sub/deep/x.js.gz",
        "sub/deep/x.js.br",
        "a.txt.zst",
        "index.html.gz",
    ] {
        fs::write(root.www().join(name), name).expect("can write");
    }
    for (rest, accept, coding) in [
        ("/sub/deep/x.js", "gzip, br", Some(Coding::Brotli)),
        ("/sub/deep/x.js", "gzip, br;q=0.1", Some(Coding::Gzip)),
        ("/sub/deep/x.js", "zstd, gzip;q=0.1", Some(Coding::Gzip)),
        ("/sub/deep/x.js", "zstd", None),
        ("/sub/deep/x.js", "identity", None),
        ("/a.txt", "*", Some(Coding::Zstd)),
        ("/", "gzip", Some(Coding::Gzip)),
        ("/sub/", "gzip", None),
    ] {
        let file = open(&root, rest, &Codings::parse(accept.as_bytes())).expect(rest);
        assert_eq!(file.coding, coding, "{rest} for {accept}");
        let plain = open(&root, rest, &Codings::NONE).expect(rest);
        assert_eq!(file.content_type, plain.content_type);
        assert_eq!(file.modified == plain.modified, coding.is_none());
    }
    fs::remove_file(root.www().join("a.txt.zst")).expect("it is there");
    symlink(root.0.join("outside.txt"), root.www().join("a.txt.zst")).expect("can link");
    let file = open(&root, "/a.txt", &Codings::parse(b"zstd")).expect("the plain one");
    assert_eq!(file.coding, None, "a link that leads out");
}

#[test]
fn checks_options() {
    let root = Root::new("options");
    let check = |options| Directory::new(&root.www(), options, 0).map(|it| it.cache_control);
    let options = |cache_seconds, immutable, index: &str| StaticOptions {
        cache_seconds,
        immutable,
        index: index.to_owned(),
        ..StaticOptions::default()
    };
    for (given, expected) in [
        (options(None, false, "a.html"), None),
        (options(Some(0), false, ""), Some("no-cache")),
        (options(Some(60), false, "a"), Some("public, max-age=60")),
        (
            options(Some(60), true, "a"),
            Some("public, max-age=60, immutable"),
        ),
    ] {
        let cache_control = check(given).expect("options that work");
        assert_eq!(cache_control.as_deref(), expected);
    }
    for wrong in [
        options(None, true, "a"),
        options(Some(u32::MAX), false, "a"),
        options(None, false, "../a"),
        options(None, false, ".env"),
        options(None, false, "a/b"),
        options(None, false, "a\r\nb"),
    ] {
        assert!(check(wrong.clone()).is_err(), "{wrong:?}");
    }
}

#[test]
fn reopens_a_replaced_directory_after_a_second() {
    let root = Root::new("deploy");
    let link = root.0.join("current");
    symlink(root.www(), &link).expect("can link");
    let directory = Directory::new(&link, StaticOptions::default(), 0).expect("it is there");
    let mut roots = Roots::default();
    let mut len =
        |now_s| resolve(&mut roots, &directory, b"/a.txt", &Codings::NONE, now_s).map(|it| it.len);
    assert_eq!(len(1).expect("the old one"), 3);
    fs::create_dir(root.0.join("new")).expect("can create");
    fs::write(root.0.join("new/a.txt"), "newer").expect("can write");
    fs::remove_file(&link).expect("it is there");
    symlink(root.0.join("new"), &link).expect("can link");
    assert_eq!(len(2).expect("the new one"), 5);
}

#[test]
fn changes_the_etag_with_the_file() {
    let root = Root::new("etag");
    let tag = || {
        open(&root, "/a.txt", &Codings::NONE)
            .expect("it is there")
            .modified
            .expect("written just now")
            .etag
    };
    let before = tag();
    fs::write(root.www().join("a.txt"), "aaaa").expect("can write");
    assert_ne!(before, tag());
    let largest = FileKey {
        device: 0,
        inode: 0,
        mtime_ns: u64::MAX,
        ctime_ns: u64::MAX,
        len: u64::MAX,
    };
    let longest = Etag::new(&largest, Some(Coding::Zstd), true);
    assert!(longest.as_bytes().ends_with(b"f-zstd\""));
}

/// Reproducible builds store 0 or 1 for every file, and a build machine's clock may be ahead.
#[test]
fn ignores_implausible_modification_times() {
    let root = Root::new("times");
    let path = root.www().join("a.txt");
    let modified = |mtime: SystemTime| {
        let file = fs::File::options().write(true).open(&path);
        file.and_then(|it| it.set_modified(mtime))
            .expect("can set its time");
        open(&root, "/a.txt", &Codings::NONE)
            .expect("it is there")
            .modified
    };
    let now = UNIX_EPOCH + Duration::from_secs(NOW_S);
    let second = Duration::from_secs(1);
    for wrong in [
        UNIX_EPOCH - 86_400 * second,
        UNIX_EPOCH,
        UNIX_EPOCH + second,
        now + second,
    ] {
        assert_eq!(modified(wrong), None, "{wrong:?}");
    }
    for right in [UNIX_EPOCH + 2 * second, now] {
        assert!(modified(right).is_some(), "{right:?}");
    }
}

#[test]
fn serves_php_sources_only_if_enabled() {
    let root = Root::new("programs");
    let paths = ["/config.php", "/config.php.bak", "/sub/view.PHTML~"];
    for path in paths {
        assert!(
            matches!(text(&root, path), Err(FileError::NotFound)),
            "{path}"
        );
    }
    let options = StaticOptions {
        sources: true,
        ..StaticOptions::default()
    };
    let directory = Directory::new(&root.www(), options.clone(), 0).expect("it is there");
    for path in paths {
        let mut roots = Roots::default();
        let file = resolve(&mut roots, &directory, path.as_bytes(), &Codings::NONE, 1);
        assert!(file.is_ok(), "{path}");
    }
    let index = |sources| {
        let index = "index.php".to_owned();
        let options = StaticOptions {
            index,
            sources,
            ..options.clone()
        };
        Directory::new(&root.www(), options, 0).is_ok()
    };
    assert!(index(true) && !index(false));
    for (name, expected) in [
        ("index.php", true),
        ("a.php7.gz", true),
        ("a.INC", true),
        ("a.pht", true),
        ("a.PHTML.bak", true),
        ("a.php8", true),
        ("a.phps", true),
        ("a.phar.old~", true),
        ("php", false),
        ("a.php/b.txt", false),
        ("a.txt", false),
        ("a.includes", false),
    ] {
        let name = name.rsplit('/').next().unwrap_or(name);
        assert_eq!(is_program(name.as_bytes()), expected, "{name}");
    }
}
