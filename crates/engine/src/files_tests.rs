//! The file resolver over a real directory.

use std::io::Read;
use std::os::unix::fs::symlink;

use super::*;

/// A directory that is removed at the end of the test.
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

fn text(root: &Root, rest: &str) -> Result<String, FileError> {
    let mut file = resolve(&root.www(), rest.as_bytes())?;
    let mut text = String::new();
    file.file.read_to_string(&mut text)?;
    assert_eq!(file.len, text.len() as u64);
    Ok(text)
}

#[test]
fn files_and_indexes() {
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
fn nothing_leads_out_and_nothing_hidden_is_served() {
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
fn without_openat2_the_answers_are_the_same() {
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
fn media_types() {
    for (name, expected) in [
        ("a.html", "text/html; charset=utf-8"),
        ("a.CSS", "text/css; charset=utf-8"),
        ("a.b.js", "text/javascript; charset=utf-8"),
        ("a.csv", "text/csv; charset=utf-8"),
        ("a.png", "image/png"),
        ("a.jpeg", "image/jpeg"),
        ("a.pdf", "application/pdf"),
        ("a.php", "text/plain; charset=utf-8"),
        ("a.nonsense", "application/octet-stream"),
        ("README", "application/octet-stream"),
    ] {
        assert_eq!(content_type(Path::new(name)), expected, "{name}");
    }
}

#[test]
fn conditional_requests() {
    let root = Root::new("conditional");
    let file = resolve(&root.www(), b"/a.txt").expect("it is there");
    let tag = std::str::from_utf8(file.etag.as_bytes())
        .expect("ASCII")
        .to_owned();
    assert!(tag.starts_with('"') && tag.ends_with("-3\""), "{tag}");
    let same = |none_match: Option<&str>, since: Option<&[u8]>| {
        is_not_modified(&file, none_match.map(str::as_bytes), since)
    };
    assert!(same(Some(&tag), None));
    assert!(same(Some(&format!("W/{tag}")), None));
    assert!(same(Some(&format!("\"x\", {tag} ,\"y\"")), None));
    assert!(same(Some("*"), None));
    assert!(!same(Some("\"x\""), None));
    assert!(!same(Some(tag.trim_matches('"')), None));
    assert!(!same(None, None));
    let later = date::imf_fixdate(file.mtime_s + 1);
    let earlier = date::imf_fixdate(file.mtime_s - 1);
    assert!(same(None, Some(&file.last_modified)));
    assert!(same(None, Some(&later)));
    assert!(!same(None, Some(&earlier)));
    assert!(!same(None, Some(b"yesterday")));
    assert!(
        !same(Some("\"x\""), Some(&later)),
        "the tag rules over the date"
    );
}

#[test]
fn the_tag_changes_with_the_file() {
    let root = Root::new("etag");
    let before = resolve(&root.www(), b"/a.txt").expect("it is there").etag;
    fs::write(root.www().join("a.txt"), "aaaa").expect("can write");
    assert_ne!(
        before,
        resolve(&root.www(), b"/a.txt").expect("it is there").etag
    );
    assert!(Etag::new(u64::MAX, u64::MAX).as_bytes().ends_with(b"f\""));
}
