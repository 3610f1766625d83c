//! What CGI makes of an HTTP request (RFC 3875, 4.1).

use std::net::SocketAddr;
use std::path::Path;

/// A request, as the edge has it.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    /// Method.
    pub method: &'a [u8],
    /// Path and query, as the client encoded them.
    pub target: &'a [u8],
    /// What the path has in front and the root has not; empty, or with a slash before and none after.
    pub prefix: &'a str,
    /// `HTTP/1.1`.
    pub protocol: &'a str,
    /// Headers, without those of one hop.
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// Bytes of the body, if it has one.
    pub content_bytes: Option<u64>,
    /// The client.
    pub client: SocketAddr,
    /// Where it was asked.
    pub server: SocketAddr,
    /// The host it was asked for, without port.
    pub host: &'a [u8],
    /// Whether it came over TLS.
    pub is_tls: bool,
}

/// Which program answers.
#[derive(Clone, Copy, Debug)]
pub enum Script<'a> {
    /// The path names a file below the root: `/a.php/rest` is `a.php` with `/rest` as path info.
    Path {
        /// The document root, as the program's machine sees it.
        root: &'a str,
    },
    /// Always the same: a front controller.
    Fixed {
        /// The document root.
        root: &'a str,
        /// Its path below the root, beginning with a slash.
        name: &'a str,
    },
    /// The program below the root that the path names, where there is one; for everything else a front controller.
    Front {
        /// The document root, a folder of this machine.
        root: &'a str,
        /// The front controller's path below the root, beginning with a slash.
        name: &'a str,
        /// Folders below the root that nothing is asked of, each beginning with a slash.
        denied: &'a [String],
    },
}

/// Why a request has no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariablesError {
    /// It leaves the root or holds a NUL, or, where it has to name a script, is not UTF-8 or has an encoded slash: 400.
    #[error("the path cannot name a file")]
    Path,
    /// It names no `.php`: 404.
    #[error("the path names no PHP script")]
    Script,
    /// It names a folder with an index, without the slash at its end: the client is sent there.
    #[error("the path names a folder")]
    Folder,
}

/// Name and value of each variable.
pub type Variables = Vec<(Vec<u8>, Vec<u8>)>;

/// The variables of a request.
///
/// Headers that a program could not tell apart are left out: names with an underscore, which read like one with a
/// hyphen, and `Proxy`, which would become the `HTTP_PROXY` that HTTP clients heed.
///
/// # Errors
/// There is no program for it.
pub fn variables(
    request: &HttpRequest<'_>,
    script: Script<'_>,
) -> Result<Variables, VariablesError> {
    let (path, query) = match request.target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&request.target[..at], &request.target[at + 1..]),
        None => (request.target, &[][..]),
    };
    let (whole, is_name) = decode(path)?;
    let path = below(&whole, request.prefix.as_bytes())?;
    let script_name;
    let (root, name, info) = match script {
        Script::Fixed { root, name } => (root, name.as_bytes(), &[][..]),
        Script::Path { root } => {
            if !is_name {
                return Err(VariablesError::Path);
            }
            let end = script_end(path).ok_or(VariablesError::Script)?;
            (root, &path[..end], &path[end..])
        }
        Script::Front { root, name, denied } => {
            let found = front(path, is_name, root, name, denied)?;
            script_name = found.0;
            (root, &script_name[..], &path[found.1..])
        }
    };
    let root = root.trim_end_matches('/');
    let mut found = vec![
        (b"GATEWAY_INTERFACE".to_vec(), b"CGI/1.1".to_vec()),
        (b"SERVER_SOFTWARE".to_vec(), b"fermata".to_vec()),
    ];
    let mut set = |name: &str, value: &[u8]| found.push((name.into(), value.to_vec()));
    set("SERVER_PROTOCOL", request.protocol.as_bytes());
    set("REQUEST_METHOD", request.method);
    set("REQUEST_URI", request.target);
    set("QUERY_STRING", query);
    set(
        "REQUEST_SCHEME",
        if request.is_tls { b"https" } else { b"http" },
    );
    if request.is_tls {
        set("HTTPS", b"on");
    }
    set("DOCUMENT_ROOT", root.as_bytes());
    set("DOCUMENT_URI", &whole);
    set("SCRIPT_NAME", &[request.prefix.as_bytes(), name].concat());
    set("SCRIPT_FILENAME", &[root.as_bytes(), name].concat());
    if !info.is_empty() {
        set("PATH_INFO", info);
    }
    set("REMOTE_ADDR", request.client.ip().to_string().as_bytes());
    set("REMOTE_PORT", request.client.port().to_string().as_bytes());
    set("SERVER_ADDR", request.server.ip().to_string().as_bytes());
    set("SERVER_PORT", request.server.port().to_string().as_bytes());
    set("SERVER_NAME", request.host);
    // PHP refuses a file that the web server did not redirect to where it is built so.
    set("REDIRECT_STATUS", b"200");
    if let Some(bytes) = request.content_bytes {
        set("CONTENT_LENGTH", bytes.to_string().as_bytes());
    }
    headers(&mut found, request.headers);
    Ok(found)
}

/// What follows the prefix; a slash where that is nothing.
fn below<'p>(path: &'p [u8], prefix: &[u8]) -> Result<&'p [u8], VariablesError> {
    match path.strip_prefix(prefix) {
        Some(b"") => Ok(b"/"),
        Some(rest) if rest.first() == Some(&b'/') => Ok(rest),
        _ => Err(VariablesError::Script),
    }
}

fn headers(found: &mut Variables, headers: &[(&[u8], &[u8])]) {
    for (name, value) in headers {
        let is_plain = name
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_plain
            || [&b"Proxy"[..], b"Content-Length"]
                .iter()
                .any(|left| name.eq_ignore_ascii_case(left))
        {
            continue;
        }
        let mut variable = match name.eq_ignore_ascii_case(b"Content-Type") {
            true => Vec::new(),
            false => b"HTTP_".to_vec(),
        };
        variable.extend(name.iter().map(|&byte| match byte {
            b'-' => b'_',
            byte => byte.to_ascii_uppercase(),
        }));
        match found.iter_mut().find(|(other, _)| *other == variable) {
            // Cookies are a list of their own kind.
            Some((_, values)) => {
                values.extend_from_slice(if variable == b"HTTP_COOKIE" {
                    b"; "
                } else {
                    b", "
                });
                values.extend_from_slice(value);
            }
            None => found.push((variable, value.to_vec())),
        }
    }
}

/// Where the script's name ends: after the first `.php` that ends a segment.
fn script_end(path: &[u8]) -> Option<usize> {
    path.windows(4)
        .enumerate()
        .filter(|(_, four)| *four == b".php")
        .map(|(at, _)| at + 4)
        .find(|&end| matches!(path.get(end), None | Some(b'/')))
}

/// Which program of a folder answers a path, and where in the path its path info begins.
///
/// What the path names decides as long as it is there: a program is run with what follows it as path info, a folder has
/// its `index.php`. Anything else is the front controller's, also a program that is hidden or below a file, and a path
/// that is no file's name.
fn front(
    path: &[u8],
    is_name: bool,
    root: &str,
    name: &str,
    denied: &[String],
) -> Result<(Vec<u8>, usize), VariablesError> {
    if is_denied(path, denied) {
        return Err(VariablesError::Script);
    }
    let root = Path::new(root);
    let at = |name: &str| root.join(name.trim_start_matches('/'));
    let otherwise = || match at(name).is_file() {
        true => Ok((name.as_bytes().to_vec(), path.len())),
        false => Err(VariablesError::Script),
    };
    let text = match std::str::from_utf8(path) {
        Ok(text) if is_name => text,
        _ => return otherwise(),
    };
    let mut end = 0;
    for segment in text.split_inclusive('/') {
        let begin = end;
        end += segment.len();
        let segment = segment.trim_end_matches('/');
        if segment.starts_with('.') {
            return otherwise();
        }
        let end = begin + segment.len();
        let place = at(&text[..end]);
        if place.is_dir() {
            continue;
        }
        return match place.is_file() && segment.ends_with(".php") {
            true => Ok((path[..end].to_vec(), end)),
            false => otherwise(),
        };
    }
    let index = format!("{}/index.php", text.trim_end_matches('/'));
    match at(&index).is_file() {
        true if text.ends_with('/') => Ok((index.into_bytes(), path.len())),
        true => Err(VariablesError::Folder),
        false => otherwise(),
    }
}

/// Whether a decoded path is one of these folders, or below one.
pub fn is_denied(path: &[u8], denied: &[String]) -> bool {
    let mut slashes = |&byte: &u8| byte == b'/';
    let is_some = |segment: &&[u8]| !segment.is_empty();
    denied.iter().any(|folder| {
        let mut segments = path.split(&mut slashes).filter(is_some);
        let mut named = folder.as_bytes().split(|&byte| byte == b'/');
        named
            .by_ref()
            .filter(is_some)
            .all(|segment| segments.next() == Some(segment))
    })
}

/// The path without percent-encoding, and whether it may name a file. One with an encoded slash, which could name another
/// than the one that was checked for, or in bytes that are not UTF-8 is for a front controller alone; one with a segment
/// `..` or a NUL is for nobody.
fn decode(path: &[u8]) -> Result<(Vec<u8>, bool), VariablesError> {
    let mut out = Vec::with_capacity(path.len());
    let mut has_slash = false;
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (pair, after) = rest.split_at_checked(2).ok_or(VariablesError::Path)?;
        rest = after;
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(VariablesError::Path);
        let byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        has_slash |= byte == b'/' || byte == b'\\';
        out.push(byte);
    }
    let is_clean = out.first() == Some(&b'/')
        && !out.contains(&0)
        && !out
            .split(|&byte| byte == b'/' || byte == b'\\')
            .any(|segment| segment == b".." || segment == b".");
    let is_name = !has_slash && std::str::from_utf8(&out).is_ok();
    is_clean
        .then_some((out, is_name))
        .ok_or(VariablesError::Path)
}
