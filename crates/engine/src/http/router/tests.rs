//! Tests of the router.

use super::*;

/// Creates a router with these routes, numbered from 0; an empty method means any.
fn router(routes: &[(&str, &str)]) -> Router {
    let mut router = Router::new();
    for (handler, (method, pattern)) in routes.iter().enumerate() {
        let method = Some(*method).filter(|method| !method.is_empty());
        router.add(method, pattern, handler as u32).expect(pattern);
    }
    router
}

/// Returns the result as text: `0 id=7`, `files /x`, `405 GET, HEAD`, `options …`, `404`.
fn found(router: &Router, method: &str, path: &str) -> String {
    let mut params = Params::default();
    let handler = match router.find(method.as_bytes(), path.as_bytes(), &[], &mut params) {
        Found::Handler(handler) => handler,
        Found::Files { rest, .. } => return format!("files {}", &path[rest.range()]),
        Found::MethodNotAllowed { allow } => return format!("405 {allow}"),
        Found::Options { allow } => return format!("options {allow}"),
        Found::WebSocket(number) => return format!("socket {number}"),
        Found::NotFound => return "404".to_owned(),
    };
    let mut text = handler.to_string();
    for index in 0..params.len() {
        let (name, span) = params.at(index).expect("index is below len");
        assert_eq!(params.get(name.as_bytes()), Some(span));
        text += &format!(" {name}={}", &path[span.range()]);
    }
    assert_eq!(params.get(b"no such name"), None);
    text
}

#[test]
fn prefers_literal_to_parameter_to_rest() {
    let router = router(&[
        ("GET", "/"),
        ("GET", "/rooms"),
        ("GET", "/rooms/new"),
        ("GET", "/rooms/{id}"),
        ("GET", "/rooms/{id}/events"),
        ("GET", "/rooms/{path...}"),
        ("GET", "/files/{path...}"),
        ("GET", "/rooms/new/x/{y}"),
    ]);
    for (path, expected) in [
        ("/", "0"),
        ("/rooms", "1"),
        ("/rooms/new", "2"),
        ("/rooms/7", "3 id=7"),
        ("/rooms/7/events", "4 id=7"),
        ("/rooms/new/events", "4 id=new"),
        ("/rooms/7/other", "5 path=7/other"),
        ("/rooms/", "5 path="),
        ("/rooms//events", "5 path=/events"),
        ("/rooms/new/x/1", "7 y=1"),
        ("/rooms/new/x/", "5 path=new/x/"),
        ("/files/a/b/", "6 path=a/b/"),
        ("/files/", "6 path="),
        ("/files", "404"),
        ("/Rooms", "404"),
        ("//", "404"),
        ("/rooms2", "404"),
        ("", "404"),
        ("rooms", "404"),
    ] {
        assert_eq!(found(&router, "GET", path), expected, "{path}");
    }
}

#[test]
fn methods() {
    let router = router(&[
        ("GET", "/a"),
        ("POST", "/a"),
        ("", "/any"),
        ("GET", "/any"),
        ("PURGE", "/a"),
        ("POST", "/b/{x}"),
        ("DELETE", "/b/c"),
        ("OPTIONS", "/o"),
        ("HEAD", "/h"),
        ("GET", "/h"),
    ]);
    for (method, path, expected) in [
        ("HEAD", "/a", "0"),
        ("POST", "/a", "1"),
        ("PURGE", "/a", "4"),
        ("PUT", "/a", "405 GET, HEAD, POST, PURGE, OPTIONS"),
        ("get", "/a", "405 GET, HEAD, POST, PURGE, OPTIONS"),
        ("OPTIONS", "/a", "options GET, HEAD, POST, PURGE, OPTIONS"),
        ("OPTIONS", "/any", "2"),
        ("BREW", "/any", "2"),
        ("GET", "/any", "3"),
        ("HEAD", "/any", "3"),
        ("OPTIONS", "/o", "7"),
        ("HEAD", "/h", "8"),
        ("DELETE", "/b/c", "6"),
        ("POST", "/b/c", "5 x=c"),
        ("GET", "/b/c", "405 DELETE, POST, OPTIONS"),
        ("OPTIONS", "/none", "404"),
        (
            "OPTIONS",
            "*",
            "options GET, HEAD, POST, PURGE, DELETE, OPTIONS",
        ),
    ] {
        assert_eq!(found(&router, method, path), expected, "{method} {path}");
    }
}

#[test]
fn prefers_handlers_to_directories() {
    let mut router = router(&[
        ("GET", "/assets/api"),
        ("POST", "/assets/{x}"),
        ("GET", "/"),
    ]);
    let here = Path::new(".");
    router
        .add_static("/assets/", here, Default::default())
        .expect("the directory is there");
    router
        .add_static("/", here, Default::default())
        .expect("the directory is there");
    for (method, path, expected) in [
        ("GET", "/assets/api", "0"),
        ("GET", "/assets", "files "),
        ("GET", "/assets/", "files /"),
        ("HEAD", "/assets/a/b.js", "files /a/b.js"),
        ("POST", "/assets/x", "1 x=x"),
        ("PUT", "/assets/x", "405 POST, GET, HEAD, OPTIONS"),
        ("GET", "/assetsx", "files /assetsx"),
        ("GET", "/", "2"),
        ("GET", "//etc", "files //etc"),
        ("OPTIONS", "/x", "options GET, HEAD, OPTIONS"),
    ] {
        assert_eq!(found(&router, method, path), expected, "{method} {path}");
    }
    assert!(matches!(
        router.add_static("/assets", here, Default::default()),
        Err(RouteError::DuplicateDirectory(_))
    ));
    assert!(matches!(
        router.add_static("/{x}", here, Default::default()),
        Err(RouteError::PrefixParameter(_))
    ));
    assert!(matches!(
        router.add_static("", here, Default::default()),
        Err(RouteError::NoSlash(_))
    ));
    let missing = router.add_static("/m", Path::new("/does/not/exist"), Default::default());
    assert!(matches!(missing, Err(RouteError::Directory { .. })));
}

#[test]
fn finds_no_parameters_for_a_directory_below_a_parameter() {
    let mut router = router(&[("GET", "/{a}/{b}/x")]);
    router
        .add_static("/", Path::new("."), Default::default())
        .expect("the directory is there");
    let mut params = Params::default();
    assert!(matches!(
        router.find(b"GET", b"/1/2/3", &[], &mut params),
        Found::Files { .. }
    ));
    assert!(params.is_empty());
}

#[test]
fn falls_back_behind_a_directory() {
    let mut router = router(&[("GET", "/api/{id}"), ("POST", "/submit")]);
    let here = Path::new(".");
    for prefix in ["/", "/plain"] {
        let added = router.add_static(prefix, here, Default::default());
        added.expect("the directory is there");
    }
    router.set_static_fallback("/", 9).expect("it is there");
    for (method, path, expected) in [
        ("GET", "/page", "files /page"),
        ("HEAD", "/", "files /"),
        ("POST", "/page", "9"),
        ("OPTIONS", "/page", "9"),
        ("PROPFIND", "/a/b", "9"),
        ("GET", "/api/7", "0 id=7"),
        ("POST", "/api/7", "9"),
        ("POST", "/submit", "1"),
        // The inner directory has no fallback, but the enclosing directory has one.
        ("GET", "/plain/x", "files /x"),
        ("POST", "/plain/x", "9"),
    ] {
        assert_eq!(found(&router, method, path), expected, "{method} {path}");
    }
    let mut params = Params::default();
    let found = router.find(b"GET", b"/a/b", &[2], &mut params);
    assert_eq!(found, Found::Handler(9));
    assert!(params.is_empty());
}

#[test]
fn reports_misuse() {
    let mut router = router(&[("GET", "/a/{x}")]);
    let mut add = |pattern: &str| {
        router
            .add(Some("GET"), pattern, 9)
            .map_err(|error| error.to_string())
    };
    for (pattern, part) in [
        ("", "does not start with /"),
        ("a", "does not start with /"),
        ("/a?b", "query"),
        ("/a/{y}", "already is a handler for GET /a/{y}"),
        ("/{a", "malformed parameter"),
        ("/x{a}", "malformed parameter"),
        ("/{a}x", "malformed parameter"),
        ("/{}", "parameter name"),
        ("/{...}", "parameter name"),
        ("/{1a}", "parameter name"),
        ("/{a-b}", "parameter name"),
        ("/{{a}}", "parameter name"),
        ("/{a}/{a}", "twice"),
        ("/{a...}/b", "last segment"),
    ] {
        let message = add(pattern).expect_err(pattern);
        assert!(message.contains(part), "{pattern}: {message}");
    }
    assert!(add(&"/x".repeat(SEGMENTS_MAX)).is_ok());
    assert!(add(&"/x".repeat(SEGMENTS_MAX + 1)).is_err());
    assert!(router.add(Some("G T"), "/z", 1).is_err());
}

#[test]
fn clears_reused_params() {
    let router = router(&[("GET", "/{a}/{b}"), ("GET", "/{c}"), ("GET", "/static")]);
    let mut params = Params::default();
    assert_eq!(
        router.find(b"GET", b"/1/2", &[], &mut params),
        Found::Handler(0)
    );
    assert_eq!(params.len(), 2);
    assert_eq!(
        router.find(b"GET", b"/1", &[], &mut params),
        Found::Handler(1)
    );
    assert_eq!((params.len(), params.get(b"a")), (1, None));
    assert_eq!(
        router.find(b"GET", b"/static", &[], &mut params),
        Found::Handler(2)
    );
    assert_eq!(
        (params.len(), params.get(b"c"), params.at(0)),
        (0, None, None)
    );
}

/// Returns the kind of each matched segment; `None` if the pattern does not match. The pattern with
/// the smallest list wins.
///
/// This is a slow implementation of the documented rules, to check the trie.
fn naive_match(pattern: &str, path: &str) -> Option<Vec<u8>> {
    let mut kinds = Vec::new();
    let mut path = path[1..].split('/');
    for segment in pattern[1..].split('/') {
        let text = path.next()?;
        if segment.ends_with("...}") {
            kinds.push(2);
            return Some(kinds);
        } else if segment.starts_with('{') {
            kinds.push(1);
            if text.is_empty() {
                return None;
            }
        } else {
            kinds.push(0);
            if text != segment {
                return None;
            }
        }
    }
    path.next().is_none().then_some(kinds)
}

proptest::proptest! {
    #[test]
    fn finds_what_a_naive_search_finds(
        patterns in proptest::collection::vec("(/(a|b||\\{x\\})){0,3}(/(a|\\{y\\}|\\{z\\.\\.\\.\\}))", 1..12),
        methods in proptest::collection::vec(0usize..3, 12),
        path in "(/(a|b|c||aa)){1,5}",
        method in 0usize..3,
    ) {
        const METHODS: [Option<&str>; 3] = [Some("GET"), Some("POST"), None];
        const ASKED: [&str; 3] = ["GET", "POST", "HEAD"];
        let mut router = Router::new();
        let mut routes = Vec::new();
        for (handler, (pattern, method)) in patterns.iter().zip(methods).enumerate() {
            // Duplicates and repeated names are refused; the other routes stay.
            if router.add(METHODS[method], pattern, handler as u32).is_ok() {
                routes.push((handler as u32, pattern, METHODS[method]));
            }
        }
        let asked = ASKED[method];
        // Within a pattern, the exact method precedes GET for HEAD, which precedes any.
        let rank = |of: Option<&str>| match of {
            Some(of) if of == asked => Some(0),
            Some("GET") if asked == "HEAD" => Some(1),
            None => Some(2),
            _ => None,
        };
        let best = routes
            .iter()
            .filter_map(|&(handler, pattern, of)| {
                Some((naive_match(pattern, &path)?, rank(of)?, handler))
            })
            .min();
        let is_known = routes.iter().any(|(_, pattern, _)| naive_match(pattern, &path).is_some());
        let mut params = Params::default();
        let found = router.find(asked.as_bytes(), path.as_bytes(), &[], &mut params);
        match best {
            Some((kinds, _, handler)) => {
                proptest::prop_assert_eq!(found, Found::Handler(handler));
                let parameters = kinds.iter().filter(|&&kind| kind > 0).count();
                proptest::prop_assert_eq!(params.len(), parameters);
            }
            None if is_known => {
                let is_refused = matches!(found, Found::MethodNotAllowed { .. });
                proptest::prop_assert!(is_refused);
            }
            None => proptest::prop_assert_eq!(found, Found::NotFound),
        }
    }
}

#[test]
fn replaces_only_get_by_a_websocket() {
    let mut router = Router::new();
    router
        .add_websocket("/ws/{room}", 3, 103)
        .expect("a new path");
    let taken = router.add(Some("GET"), "/ws/{id}", 1);
    assert!(
        matches!(taken, Err(RouteError::Duplicate { .. })),
        "{taken:?}"
    );
    router
        .add(Some("POST"), "/ws/{room}", 2)
        .expect("another method");
    assert!(router.add_websocket("/ws/{room}", 4, 104).is_err());
    router.add_websocket("/plain", 5, 105).expect("a new path");
    assert_eq!(found(&router, "GET", "/ws/a"), "socket 3");
    assert_eq!(router.label(105 | WEBSOCKET), Some("WebSocket /plain"));
    assert_eq!(found(&router, "GET", "/plain"), "socket 5");
    // HEAD is refused, because a handshake is a GET.
    assert_eq!(found(&router, "HEAD", "/plain"), "socket 5");
    let mut params = Params::default();
    let missed = router.find(b"PUT", b"/ws/a", &[], &mut params);
    let allow = "GET, POST, OPTIONS";
    assert_eq!(missed, Found::MethodNotAllowed { allow });
}

/// Returns the decoded segments of a raw path.
fn naive_segments(raw: &str) -> Vec<Vec<u8>> {
    let decode = |segment: &str| {
        let (mut out, mut slashes) = (Vec::new(), Vec::new());
        match fermata_proto::percent::decode_path(segment.as_bytes(), &mut out, &mut slashes) {
            Ok(true) => out,
            _ => segment.as_bytes().to_vec(),
        }
    };
    raw[1..].split('/').map(decode).collect()
}

/// Returns the values that a pattern extracts from decoded segments.
fn naive_values(pattern: &str, segments: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let mut values = Vec::new();
    let mut left = segments.iter();
    for segment in pattern[1..].split('/') {
        if segment.ends_with("...}") {
            let rest: Vec<&[u8]> = left.map(|it| &it[..]).collect();
            let has_slash = rest.iter().any(|it| it.contains(&b'/'));
            // The last segment may be empty, but at least one segment exists.
            let is_fit = !has_slash && !rest.is_empty();
            return is_fit.then(|| values.into_iter().chain([rest.join(&b'/')]).collect());
        }
        let text = left.next()?;
        if segment.starts_with('{') {
            if text.is_empty() {
                return None;
            }
            values.push(text.clone());
        } else if text != segment.as_bytes() {
            return None;
        }
    }
    left.next().is_none().then_some(values)
}

#[test]
fn routes_escaped_slashes_in_linear_time() {
    let mut router = Router::new();
    let added = router.add(Some("GET"), "/a/{x}", 0);
    added.expect("a route");
    let raw = format!("/a/{}", "%2F".repeat(21_000));
    let (mut path, mut slashes) = (Vec::new(), Vec::new());
    let decoded = fermata_proto::percent::decode_path(raw.as_bytes(), &mut path, &mut slashes);
    assert_eq!(decoded, Ok(true));
    let mut params = Params::default();
    let start = std::time::Instant::now();
    for _ in 0..20 {
        let found = router.find(b"GET", &path, &slashes, &mut params);
        assert_eq!(found, Found::Handler(0));
    }
    // Comparing each slash with all others would take half a second per path.
    assert!(start.elapsed() < std::time::Duration::from_secs(3));
}

proptest::proptest! {
    /// Segments are taken from the raw path, whatever characters are escaped in them.
    #[test]
    fn treats_an_escaped_slash_as_data(
        pattern in "(/(a|b|\\{x\\})){1,3}(/\\{z\\.\\.\\.\\})?",
        raw in "(/(a|b|a%2[fF]b|%61|%2fa|b%2F|%252F|)){1,4}",
    ) {
        let mut router = Router::new();
        proptest::prop_assume!(router.add(Some("GET"), &pattern, 0).is_ok());
        let (mut out, mut slashes) = (Vec::new(), Vec::new());
        let is_decoded = fermata_proto::percent::decode_path(raw.as_bytes(), &mut out, &mut slashes);
        let path = if is_decoded == Ok(true) { &out[..] } else { raw.as_bytes() };
        let mut params = Params::default();
        let found = router.find(b"GET", path, &slashes, &mut params);
        match naive_values(&pattern, &naive_segments(&raw)) {
            Some(values) => {
                proptest::prop_assert_eq!(found, Found::Handler(0));
                let spans = (0..params.len()).filter_map(|at| params.at(at));
                let is: Vec<Vec<u8>> = spans.map(|(_, span)| path[span.range()].to_vec()).collect();
                proptest::prop_assert_eq!(is, values);
            }
            None => proptest::prop_assert_eq!(found, Found::NotFound),
        }
    }
}
