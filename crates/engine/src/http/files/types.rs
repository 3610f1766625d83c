//! Media types by file name, and which of them to compress.

use std::borrow::Cow;
use std::path::Path;

/// Returns the media type by extension; text is assumed to be UTF-8.
pub(crate) fn content_type(path: &Path) -> Cow<'static, str> {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("");
    let extension = extension.to_ascii_lowercase();
    Cow::Borrowed(match extension.as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        // Show source code as text, if it is served at all.
        "php" => "text/plain; charset=utf-8",
        _ => match mime_guess::from_ext(&extension).first_raw() {
            Some(text) if text.starts_with("text/") => {
                return Cow::Owned(format!("{text}; charset=utf-8"));
            }
            Some(other) => other,
            None => "application/octet-stream",
        },
    })
}

/// Returns true if a file name belongs to a PHP script, also with a compression or backup suffix. A
/// served folder must not reveal its source code.
#[must_use]
pub fn is_program(name: &[u8]) -> bool {
    const ASIDE: [&[u8]; 9] = [
        b".gz", b".br", b".zst", b".bak", b".old", b".orig", b".save", b".swp", b"~",
    ];
    let mut name = name.to_ascii_lowercase();
    while let Some(ending) = ASIDE.iter().find(|it| name.ends_with(it)) {
        name.truncate(name.len() - ending.len());
    }
    let Some(dot) = name.iter().rposition(|&byte| byte == b'.') else {
        return false;
    };
    let extension = &name[dot + 1..];
    extension.starts_with(b"php") || matches!(extension, b"phtml" | b"pht" | b"phar" | b"inc")
}

/// Returns true if content of this type compresses well: all text formats. Excludes event streams,
/// which have no end.
pub(crate) fn is_compressible(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next();
    let essence = essence.unwrap_or(content_type).trim_ascii();
    let is = |name: &str| essence.eq_ignore_ascii_case(name.as_bytes());
    let ends = |end: &str| {
        let at = essence.len().checked_sub(end.len());
        at.is_some_and(|at| essence[at..].eq_ignore_ascii_case(end.as_bytes()))
    };
    let is_text = essence
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"text/"));
    is_text && !is("text/event-stream")
        || ends("+json")
        || ends("+xml")
        || [
            "application/json",
            "application/javascript",
            "application/xml",
            "application/wasm",
            "application/x-ndjson",
            "application/rtf",
            "application/vnd.ms-fontobject",
            "font/ttf",
            "font/otf",
            "image/bmp",
            "image/x-icon",
            "image/vnd.microsoft.icon",
        ]
        .iter()
        .any(|name| is(name))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn selects_compressible_types() {
        for good in [
            "text/html; charset=utf-8",
            "TEXT/plain",
            "application/json",
            "application/problem+json",
            "image/svg+xml",
            "application/wasm",
        ] {
            assert!(is_compressible(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "text",
            "text/event-stream",
            "text/event-stream; charset=utf-8",
            "image/png",
            "font/woff2",
            "application/zip",
            "application/octet-stream",
            "multipart/byteranges; boundary=text/plain",
        ] {
            assert!(!is_compressible(bad.as_bytes()), "{bad}");
        }
    }
}
