//! The client for HTTP by which a server's spans get to their collector: that of the webhooks.

use std::time::Duration;

use fermata_engine::{Post, PostError, Posted};
use fermata_origin::Poster;
use fermata_origin::address::Url;

struct Posting(Poster);

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

/// Opens what posts to a URL; certificates that it needs are read now.
///
/// # Errors
/// What is wrong with the URL or with the certificates; never with the URL, which may hold a secret.
pub fn open_post(url: &str) -> Result<Box<dyn Post>, PostError> {
    let mut poster = Poster::new(Url::parse(url)?, Duration::ZERO);
    poster.prepare()?;
    Ok(Box::new(Posting(poster)))
}
