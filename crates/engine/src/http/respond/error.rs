//! Bodies of error responses of the server, in a format that the client accepts.

use fermata_io::Driver;
use fermata_proto::negotiate::ErrorFormat;
use fermata_proto::response::reason;

use crate::http::Http;
use crate::net::Net;
use crate::net::index::ExchangeIndex;

impl Http {
    /// Answers a request with an error. `text` is a fixed sentence, never text of a client.
    pub(crate) fn answer_error<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        status: u16,
        allow: Option<&str>,
        text: &'static str,
    ) {
        let is_lent = self.lent.is_some_and(|lent| lent.exchange() == index);
        let accept = if is_lent {
            self.request.view(&net.input.bytes).header(b"accept", 0)
        } else {
            // The response comes in a later turn than its request, so use the stored request
            // headers.
            let handle = net.connections.exchange(index).map(|it| it.handle(index));
            let asked = handle.and_then(|handle| self.deferred.get(handle));
            asked.and_then(|asked| asked.accept.as_deref())
        };
        let format = ErrorFormat::for_client(accept);
        let allow = allow.map(|allow| (&b"Allow"[..], allow.as_bytes()));
        let (content_type, body) = write(format, status, text);
        let content_type = Some(content_type.as_bytes());
        self.answer(
            net,
            index,
            status,
            content_type,
            allow.into_iter(),
            body.as_bytes(),
        );
    }
}

/// Returns media type and body of an error.
fn write(format: ErrorFormat, status: u16, text: &'static str) -> (&'static str, String) {
    let reason = reason(status);
    match format {
        ErrorFormat::Text => ("text/plain; charset=utf-8", format!("{text}\n")),
        ErrorFormat::Json => (
            "application/json",
            serde_json::json!({"status": status, "error": text}).to_string(),
        ),
        ErrorFormat::Html => (
            "text/html; charset=utf-8",
            format!(
                "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
                 <title>{status} {reason}</title>\n<h1>{status} {reason}</h1>\n<p>{text}</p>\n</html>\n"
            ),
        ),
    }
}
