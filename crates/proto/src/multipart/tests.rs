use proptest::prelude::*;

use super::*;
use crate::fuzzing::multipart_events as events;

fn part(name: &str, filename: Option<&str>, content_type: Option<&str>) -> Part {
    Part {
        name: name.into(),
        filename: filename.map(Into::into),
        content_type: content_type.map(Into::into),
    }
}

/// Returns the parts of a body with the boundary `B`. Checks that pieces of one to seven bytes give the same result.
#[track_caller]
fn parts(body: &str) -> Result<Vec<(Part, String)>, Refusal> {
    let whole = events(b"B", body.as_bytes(), &[]);
    for step in 0..7 {
        assert_eq!(
            events(b"B", body.as_bytes(), &[step]),
            whole,
            "{body:?} in pieces of {step} + 1"
        );
    }
    let text =
        |(part, content): (Part, Vec<u8>)| (part, String::from_utf8_lossy(&content).into_owned());
    whole.map(|parts| parts.into_iter().map(text).collect())
}

#[test]
fn fields_and_files() {
    let body = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n\
        --B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.txt\"\r\nContent-Type: text/plain\r\n\r\n\r\n-line\r\n--\r\n\r\n\
        --B\r\ncontent-disposition:form-data;name=b\r\nX-Other: y\r\n\r\n\r\n--B--\r\n";
    assert_eq!(
        parts(body),
        Ok(vec![
            (part("a", None, None), "one".to_owned()),
            (
                part("f", Some("x.txt"), Some("text/plain")),
                "\r\n-line\r\n--\r\n".to_owned()
            ),
            (part("b", None, None), String::new()),
        ])
    );
}

#[test]
fn accepts_preamble_padding_and_epilogue() {
    let head = "Content-Disposition: form-data; name=\"a\"\r\n\r\n";
    let one = Ok(vec![(part("a", None, None), "x".to_owned())]);
    for body in [
        format!("--B\r\n{head}x\r\n--B--"),
        format!("\r\n--B\r\n{head}x\r\n--B--\r\n"),
        format!("preamble\r\n--C\r\n--B \t\r\n{head}x\r\n--B--  \r\nepilogue --B\r\n--B\r\n"),
        format!("\r\r\n--B\r\n{head}x\r\n--B-- "),
        format!("-\r\n--B\r\n{head}x\r\n--B--\r\n"),
    ] {
        assert_eq!(parts(&body), one, "{body:?}");
    }
    assert_eq!(parts("--B--"), Ok(vec![]));
    // The line end of the headers also starts the delimiter.
    let empty = Ok(vec![(part("a", None, None), String::new())]);
    assert_eq!(parts(&format!("--B\r\n{head}--B--")), empty);
    // Text that only starts like a delimiter is data.
    for content in [
        "\r",
        "\r\n",
        "\r\n-",
        "\r\n--",
        "\r\r\n--A",
        "\r\n\r\n--C",
        "-",
        "--",
        "--A",
        "--\r\n",
        "--B",
        "\n--B",
        "\r--B",
    ] {
        let body = format!("--B\r\n{head}x{content}\r\n--B--");
        assert_eq!(
            parts(&body),
            Ok(vec![(part("a", None, None), format!("x{content}"))]),
            "{content:?}"
        );
    }
    for content in ["\r", "\r\n", "\r\n-", "\r\n--", "-", "--", "--A", "\n--B"] {
        let body = format!("--B\r\n{head}{content}\r\n--B--");
        assert_eq!(
            parts(&body),
            Ok(vec![(part("a", None, None), content.to_owned())]),
            "{content:?}"
        );
    }
}

#[test]
fn refusals() {
    use Refusal::*;
    let head = "Content-Disposition: form-data; name=\"a\"\r\n";
    for (body, refusal) in [
        ("".to_owned(), MultipartUnfinished),
        ("--B".to_owned(), MultipartUnfinished),
        ("--B-".to_owned(), MultipartUnfinished),
        ("no delimiter".to_owned(), MultipartUnfinished),
        (
            format!("--B\r\n{head}\r\nx\r\n--B\r\n"),
            MultipartUnfinished,
        ),
        (format!("--B\r\n{head}\r\nx"), MultipartUnfinished),
        (format!("--B\r\n{head}"), MultipartUnfinished),
        (format!("--BB\r\n{head}\r\nx\r\n--B--"), MultipartDelimiter),
        (format!("--B\n{head}\r\nx\r\n--B--"), MultipartDelimiter),
        (format!("--B \n{head}\r\nx\r\n--B--"), MultipartDelimiter),
        (format!("--B{}\r\n", " ".repeat(300)), MultipartDelimiter),
        (
            format!("--B\r\n{head}\r\nx\r\n--Bx\r\n--B--"),
            MultipartDelimiter,
        ),
        (format!("--B\r\n{head}\r\nx\r\n--B-x"), MultipartDelimiter),
        (format!("--B\r\n{head}\r\nx\r\n--B--x"), MultipartDelimiter),
        (
            format!("--B\r\n{head}\r\nx\r\n--B--\rx"),
            MultipartDelimiter,
        ),
        (format!("--B\r\n{head}\n"), MultipartHead),
        (format!("--B\r\n{head}\rx"), MultipartHead),
        (format!("--B\r\n{head}X: \0\r\n\r\n"), MultipartHead),
        (format!("--B\r\n{head}X\r\n\r\n"), MultipartHead),
        (format!("--B\r\n{head} folded: x\r\n\r\n"), MultipartHead),
        (format!("--B\r\n{head}X : y\r\n\r\n"), MultipartHead),
        (format!("--B\r\n{head}: y\r\n\r\n"), MultipartHead),
        (
            format!("--B\r\n{head}X: {}", "y".repeat(9000)),
            MultipartHeadTooLarge,
        ),
        ("--B\r\n\r\nx\r\n--B--".to_owned(), MultipartDisposition),
        (format!("--B\r\n{head}{head}\r\n"), MultipartDisposition),
        (
            format!("--B\r\n{head}Content-Type: a\r\nContent-Type: b\r\n\r\n"),
            MultipartDisposition,
        ),
    ] {
        assert_eq!(parts(&body), Err(refusal), "{body:?}");
    }
    for disposition in [
        "",
        "form-data",
        "attachment; name=\"a\"",
        "form-datax; name=\"a\"",
        "form-data name=\"a\"",
        "form-data; name",
        "form-data; name=",
        "form-data; name=\"a",
        "form-data; name=\"a\"x",
        "form-data; name=\"a\"; name=\"b\"",
        "form-data; filename=\"a\"",
        "form-data; name=\"a\"; filename=\"a\"; filename=\"b\"",
        "form-data; =\"a\"",
        "form-data; na me=\"a\"",
        "form-data; name=\"a\" filename=\"b\"",
        "form-data; name=a\"b\"",
        "form-data; name=\"a\"; filename*=x",
        "form-data; name=\"a\"; filename*=latin1''x",
        "form-data; name=\"a\"; filename*=utf-8''%0a",
        "form-data; name=\"a\"; filename*=utf-8''%ff",
        "form-data; name=\"a\"; filename*=utf-8''%2",
    ] {
        let body = format!("--B\r\nContent-Disposition: {disposition}\r\n\r\nx\r\n--B--");
        assert_eq!(parts(&body), Err(MultipartDisposition), "{disposition:?}");
    }
}

#[test]
fn names() {
    for (parameters, name, filename) in [
        ("name=\"a b\"", "a b", None),
        ("NAME=\"a\"; FileName=\"b\"", "a", Some("b")),
        ("name=a; filename=b.txt ", "a", Some("b.txt")),
        ("name=\"\"; filename=\"\"", "", Some("")),
        ("name=\"a\\\"b\\\\c\\d\"", "a\"b\\c\\d", None),
        ("name=\"a;b=c\"; filename=\"x;y\"", "a;b=c", Some("x;y")),
        (
            "name=\"f\"; filename=\"C:\\temp\\x.txt\"",
            "f",
            Some("x.txt"),
        ),
        (
            "name=\"f\"; filename=\"../../etc/passwd\"",
            "f",
            Some("passwd"),
        ),
        ("name=\"f\"; filename=\"dir/\"", "f", Some("")),
        (
            "name=\"f\"; filename=\"\u{fc}.txt\"",
            "f",
            Some("\u{fc}.txt"),
        ),
        (
            "name=\"f\"; filename*=UTF-8''%c3%bc%2f..txt",
            "f",
            Some("..txt"),
        ),
        (
            "name=\"f\"; filename=\"a\"; filename*=utf-8''b",
            "f",
            Some("a"),
        ),
        ("name=\"a[b][]\";", "a[b][]", None),
        ("name=\"a\"; size=3", "a", None),
    ] {
        let body = format!("--B\r\nContent-Disposition: form-data; {parameters}\r\n\r\nx\r\n--B--");
        assert_eq!(
            parts(&body),
            Ok(vec![(part(name, filename, None), "x".to_owned())]),
            "{parameters:?}"
        );
    }
}

#[test]
fn boundaries() {
    let of = |text: &str| boundary(text.as_bytes());
    for other in [
        "",
        "text/plain",
        "multipart/mixed; boundary=a",
        "multipart/form-data2; boundary=a",
        "xmultipart/form-data; boundary=a",
    ] {
        assert_eq!(of(other), None, "{other}");
    }
    for (text, is) in [
        ("multipart/form-data; boundary=a", "a"),
        (
            "Multipart/Form-Data;boundary=----WebKitFormBoundaryABC",
            "----WebKitFormBoundaryABC",
        ),
        (
            "multipart/form-data; charset=utf-8; Boundary=\"a b\"",
            "a b",
        ),
        (
            "multipart/form-data ; boundary=--=_Part:1/2?",
            "--=_Part:1/2?",
        ),
    ] {
        assert_eq!(of(text), Some(Ok(is.as_bytes().to_vec())), "{text}");
    }
    let long = format!("multipart/form-data; boundary={}", "a".repeat(71));
    for bad in [
        "multipart/form-data",
        "multipart/form-data;",
        "multipart/form-data; boundary",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"a",
        "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-data; boundary=a@b",
        "multipart/form-data boundary=a",
        "multipart/form-data; boundary=\u{fc}",
        &long,
    ] {
        assert_eq!(of(bad), Some(Err(Refusal::MultipartBoundary)), "{bad}");
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(
        pieces in proptest::collection::vec(prop_oneof![
            Just("--B"), Just("\r\n"), Just("--"), Just("\r\n--B"), Just("\r\n--B\r\nContent-Disposition: form-data; name=a\r\n\r\n"),
            Just("x"), Just("\r"), Just("\n"), Just("Content-Disposition: form-data; name=\"b\"; filename=\"c\""), Just("\r\n\r\n"),
        ], 0..20),
        seed: u8,
    ) {
        let mut input = vec![seed];
        input.extend_from_slice(pieces.concat().as_bytes());
        crate::fuzzing::multipart(&input);
    }
}
