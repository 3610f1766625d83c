//! CGI variables of an HTTP request (RFC 3875, section 4.1).

use std::net::SocketAddr;
use std::path::Path;

/// An HTTP request in the form that the edge has.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    /// Method.
    pub method: &'a [u8],
    /// Path and query, as the client encoded them.
    pub target: &'a [u8],
    /// Prefix of the path that is not below the root; empty, or with a leading and without a trailing slash.
    pub prefix: &'a str,
    /// `HTTP/1.1`.
    pub protocol: &'a str,
    /// Headers other than hop-by-hop headers.
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// Size of the body in bytes; `None` = there is no body, or its size is unknown.
    pub content_bytes: Option<u64>,
    /// Address of the client.
    pub client: SocketAddr,
    /// Address of the server.
    pub server: SocketAddr,
    /// Host of the request, without port.
    pub host: &'a [u8],
    /// True if the request arrived over TLS.
    pub is_tls: bool,
}

/// Selects the script.
#[derive(Clone, Copy, Debug)]
pub enum Script<'a> {
    /// The path names a file below the root: `/a.php/rest` is `a.php` with `/rest` as path info.
    Path {
        /// The document root on the application's machine.
        root: &'a str,
    },
    /// The same script for every path: a front controller.
    Fixed {
        /// The document root.
        root: &'a str,
        /// The script's path below the root, with a leading slash.
        name: &'a str,
    },
    /// The script below the root that the path names, if it exists; otherwise a front controller.
    Front {
        /// The document root, a folder of this machine.
        root: &'a str,
        /// The front controller's path below the root, with a leading slash.
        name: &'a str,
        /// Folders below the root that are never served, each with a leading slash.
        denied: &'a [String],
    },
}

/// Reason why a request has no script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariablesError {
    /// The path leaves the root or contains a NUL. If the path has to name a script, it is not UTF-8 or contains an encoded slash.
    /// Status 400.
    #[error("the path cannot name a file")]
    Path,
    /// The path names no `.php` file. Status 404.
    #[error("the path names no PHP script")]
    Script,
    /// The path names a folder with an index, but has no trailing slash: the client is redirected.
    #[error("the path names a folder")]
    Folder,
}

/// Name and value of each variable.
pub type Variables = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns the variables of a request.
///
/// Headers that a script could confuse are skipped: names with an underscore, which map to the same variable as names
/// with a hyphen, and `Proxy`, which would become `HTTP_PROXY` and configure HTTP clients.
///
/// # Errors
/// There is no script for the request.
pub fn variables(
    request: &HttpRequest<'_>,
    script: Script<'_>,
) -> Result<Variables, VariablesError> {
    let (path, query) = match request.target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&request.target[..at], &request.target[at + 1..]),
        None => (request.target, &[][..]),
    };
    let (mut whole, is_name) = decode(path)?;
    // As in nginx, remove empty segments: they name the same file, and a script would read them as part of its own name.
    whole.dedup_by(|next, before| (*next, *before) == (b'/', b'/'));
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
    // PHP built with force-cgi-redirect refuses to run a file without this variable.
    set("REDIRECT_STATUS", b"200");
    if let Some(bytes) = request.content_bytes {
        set("CONTENT_LENGTH", bytes.to_string().as_bytes());
    }
    headers(&mut found, request.headers);
    Ok(found)
}

/// Returns the path after the prefix, or a slash if it is empty.
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
        let mut variable = if name.eq_ignore_ascii_case(b"Content-Type") {
            Vec::new()
        } else {
            b"HTTP_".to_vec()
        };
        variable.extend(name.iter().map(|&byte| match byte {
            b'-' => b'_',
            byte => byte.to_ascii_uppercase(),
        }));
        match found.iter_mut().find(|(other, _)| *other == variable) {
            // Lines of `Cookie` are joined with their own separator.
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

/// Returns the end of the script's name: after the first `.php` that ends a segment.
fn script_end(path: &[u8]) -> Option<usize> {
    path.windows(4)
        .enumerate()
        .filter(|(_, four)| *four == b".php")
        .map(|(at, _)| at + 4)
        .find(|&end| matches!(path.get(end), None | Some(b'/')))
}

/// Selects the script of a folder for a path, and the start of the path info.
///
/// An existing target of the path takes precedence: a script runs with the rest of the path as path info, and for a folder its
/// `index.php` runs. The front controller handles everything else, including hidden scripts, scripts below a file, and paths that
/// cannot name a file.
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
    let otherwise = || {
        if at(name).is_file() {
            Ok((name.as_bytes().to_vec(), path.len()))
        } else {
            Err(VariablesError::Script)
        }
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
        return if segment.ends_with(".php") && is_below(&place, root) {
            Ok((path[..end].to_vec(), end))
        } else {
            otherwise()
        };
    }
    let index = format!("{}/index.php", text.trim_end_matches('/'));
    match is_below(&at(&index), root) {
        true if text.ends_with('/') => Ok((index.into_bytes(), path.len())),
        true => Err(VariablesError::Folder),
        false => otherwise(),
    }
}

/// Returns true if the path is a file, and no link leads from it out of the folder. Files that an application has behind a link,
/// such as uploads, are only sent, never run.
fn is_below(file: &Path, root: &Path) -> bool {
    let found = file.canonicalize().ok().zip(root.canonicalize().ok());
    found.is_some_and(|(file, root)| file.is_file() && file.starts_with(root))
}

/// Returns true if a decoded path is one of these folders, or below one.
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

/// Decodes a path. Also returns true if the path may name a file. A path with an encoded slash could name another file than the one
/// checked. Such a path, and one that is not UTF-8, is passed only to a front controller. A path with a segment `..` or a NUL is
/// refused.
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
