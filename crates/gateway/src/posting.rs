//! HTTP client that sends a server's spans to their collector. It uses the HTTP client of the webhooks.

use std::time::Duration;

use fermata_engine::{Post, PostError, Posted};
use fermata_origin::HttpPoster;
use fermata_origin::address::Url;

struct Posting(HttpPoster);

impl Post for Posting {
    fn post(
        &mut self,
        content_type: &'static str,
        headers: &[(&str, &str)],
        body: &[u8],
        timeout: Duration,
    ) -> Result<Posted, PostError> {
        self.0.set_timeout(timeout);
        let answer = self.0.post_as(content_type, headers, body)?;
        Ok(Posted {
            status: answer.status,
            retry_after_s: answer.retry_after_s,
            body: answer.into_body(),
        })
    }
}

/// Opens a client for POST requests to a URL, and reads the certificates it needs.
///
/// # Errors
/// The URL or the certificates are invalid. The message never contains the URL, which may hold a secret.
pub fn open_post(url: &str) -> Result<Box<dyn Post>, PostError> {
    let mut poster = HttpPoster::new(Url::parse(url)?, Duration::ZERO);
    poster.prepare()?;
    Ok(Box::new(Posting(poster)))
}
