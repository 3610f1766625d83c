//! Responses of SockJS.

use crate::upstream::response::Head;

pub(crate) const PLAIN: &str = "text/plain; charset=UTF-8";
pub(crate) const NEVER: &str = "no-store, no-cache, must-revalidate, max-age=0";

pub(crate) type Headers = Vec<(Vec<u8>, Vec<u8>)>;

pub(crate) fn push(headers: &mut Headers, name: &str, value: &[u8]) {
    headers.push((name.as_bytes().to_vec(), value.to_vec()));
}

/// Returns fields that let the page of `origin` read the response.
pub(crate) fn headers(origin: Option<&[u8]>, media: &str, cache: &str) -> Headers {
    let mut headers = Headers::new();
    push(&mut headers, "Content-Type", media.as_bytes());
    push(&mut headers, "Cache-Control", cache.as_bytes());
    push(&mut headers, "Vary", b"Origin");
    let allowed = origin.unwrap_or(b"*");
    push(&mut headers, "Access-Control-Allow-Origin", allowed);
    push(&mut headers, "Access-Control-Allow-Credentials", b"true");
    headers
}

pub(crate) fn head(status: u16, headers: Headers) -> Head {
    Head {
        status,
        headers,
        ..Head::default()
    }
}

pub(crate) fn page(url: &str) -> String {
    let url = url
        .replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;");
    format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<title>SockJS</title>\n\
        <script src=\"{url}\"></script>\n<script>\nSockJS.bootstrap_iframe();\n</script>\n</head>\n\
        <body>\n<p>This page carries messages of a page of another host.</p>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_the_library_and_nothing_else() {
        let page = page("https://host/a.js?b&c\"><script>");
        assert!(page.contains("src=\"https://host/a.js?b&amp;c&quot;>&lt;script>\""));
    }

    #[test]
    fn answers_are_for_the_page_that_asks() {
        let value = |headers: &Headers, name: &str| {
            let found = headers.iter().find(|(other, _)| other == name.as_bytes());
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        let name = "Access-Control-Allow-Origin";
        let own = headers(Some(b"https://page"), PLAIN, NEVER);
        assert_eq!(value(&own, name).as_deref(), Some("https://page"));
        assert_eq!(
            value(&headers(None, PLAIN, NEVER), name).as_deref(),
            Some("*")
        );
    }
}
