//! The router by examples.

use super::*;

/// A router with these routes, numbered from 0; an empty method means any.
fn router(routes: &[(&str, &str)]) -> Router {
    let mut router = Router::new();
    for (handler, (method, pattern)) in routes.iter().enumerate() {
        let method = Some(*method).filter(|method| !method.is_empty());
        router.add(method, pattern, handler as u32).expect(pattern);
    }
    router
}

/// What is found, in words: `0 id=7`, `files /x`, `405 GET, HEAD`, `options …`, `404`.
fn found(router: &Router, method: &str, path: &str) -> String {
    let mut params = Params::default();
    let handler = match router.find(method.as_bytes(), path.as_bytes(), &mut params) {
        Found::Handler(handler) => handler,
        Found::Files { rest, .. } => return format!("files {}", &path[rest.range()]),
        Found::MethodNotAllowed { allow } => return format!("405 {allow}"),
        Found::Options { allow } => return format!("options {allow}"),
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
fn literal_beats_parameter_beats_rest() {
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
fn directories_stand_behind_handlers() {
    let mut router = router(&[
        ("GET", "/assets/api"),
        ("POST", "/assets/{x}"),
        ("GET", "/"),
    ]);
    let here = Path::new(".");
    router
        .add_static("/assets/", here)
        .expect("the directory is there");
    router
        .add_static("/", here)
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
        router.add_static("/assets", here),
        Err(RouteError::DuplicateDirectory(_))
    ));
    assert!(matches!(
        router.add_static("/{x}", here),
        Err(RouteError::PrefixParameter(_))
    ));
    assert!(matches!(
        router.add_static("", here),
        Err(RouteError::NoSlash(_))
    ));
    let missing = router.add_static("/m", Path::new("/does/not/exist"));
    assert!(matches!(missing, Err(RouteError::Directory { .. })));
}

#[test]
fn a_directory_behind_a_parameter_route_leaves_no_parameters() {
    let mut router = router(&[("GET", "/{a}/{b}/x")]);
    router
        .add_static("/", Path::new("."))
        .expect("the directory is there");
    let mut params = Params::default();
    assert!(matches!(
        router.find(b"GET", b"/1/2/3", &mut params),
        Found::Files { .. }
    ));
    assert!(params.is_empty());
}

#[test]
fn mistakes_are_named() {
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
fn a_reused_params_holds_only_the_last_match() {
    let router = router(&[("GET", "/{a}/{b}"), ("GET", "/{c}"), ("GET", "/static")]);
    let mut params = Params::default();
    assert_eq!(router.find(b"GET", b"/1/2", &mut params), Found::Handler(0));
    assert_eq!(params.len(), 2);
    assert_eq!(router.find(b"GET", b"/1", &mut params), Found::Handler(1));
    assert_eq!((params.len(), params.get(b"a")), (1, None));
    assert_eq!(
        router.find(b"GET", b"/static", &mut params),
        Found::Handler(2)
    );
    assert_eq!(
        (params.len(), params.get(b"c"), params.at(0)),
        (0, None, None)
    );
}
