//! Adapts an application's response to the client: 304 if the client's copy is current, compressed
//! if the client accepts a supported coding.

use fermata_io::Driver;
use fermata_proto::conditions::{Outcome, Validators};
use fermata_proto::date;
use fermata_proto::http1::Method;
use fermata_proto::negotiate::Coding;

use crate::http::Http;
use crate::http::files::{ContentHeaders, is_compressible};
use crate::id::RequestId;
use crate::net::Net;

/// Codings for bodies compressed for every response, the fastest first.
const FASTEST: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

pub(crate) const VARY: (&[u8], &[u8]) = (b"Vary", b"Accept-Encoding");

/// Properties of a response's own headers that affect its encoding.
#[derive(Default)]
struct AnswerHeaders<'h> {
    validators: Validators<'h>,
    is_encoded: bool,
    /// `Cache-Control: no-transform`
    is_final: bool,
    varies: bool,
}

impl<'h> AnswerHeaders<'h> {
    fn of(headers: impl Iterator<Item = (&'h [u8], &'h [u8])>, now_s: u64) -> AnswerHeaders<'h> {
        let mut own = AnswerHeaders::default();
        for (name, value) in headers {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            let has = |word: &str| {
                value
                    .split(|&byte| byte == b',')
                    .any(|item| item.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
            };
            match name.len() {
                4 if is("etag") => own.validators.etag = Some(value),
                4 if is("vary") => own.varies |= has("accept-encoding") || has("*"),
                13 if is("last-modified") => {
                    own.validators.modified_s = date::parse(value, now_s);
                }
                13 if is("cache-control") => own.is_final |= has("no-transform"),
                // Ranges count bytes, so the body must stay unchanged.
                13 if is("content-range") => own.is_final = true,
                16 if is("content-encoding") => own.is_encoded = true,
                _ => {}
            }
        }
        own
    }

    /// Returns the entity tag of the same content in another coding; `None` if the tag is already
    /// weak.
    fn weak_tag(&self) -> Option<Vec<u8>> {
        let tag = self.validators.etag?;
        tag.starts_with(b"\"").then(|| [b"W/", tag].concat())
    }
}

impl Http {
    /// Answers the open request `handle`, with 304 or compression where possible.
    pub(crate) fn answer_chosen<'h, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        status: u16,
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])> + Clone,
        body: &[u8],
    ) {
        let index = handle.exchange();
        let now_s = net.driver.unix_ms() / 1000;
        let own = AnswerHeaders::of(headers.clone(), now_s);
        let lent;
        let mut kept = None;
        let (asked, method) = if self.lent == Some(handle) {
            lent = ContentHeaders::of(&self.request.view(&net.input.bytes));
            (&lent, self.request.head.method)
        } else {
            // The response comes in a later turn than its request, so use the stored request
            // headers.
            kept = self.deferred.take(handle);
            let Some(kept) = &kept else {
                self.answer(net, index, status, content_type, headers, body);
                return;
            };
            (&kept.headers, kept.method)
        };
        let has_validators = own
            .validators
            .etag
            .or(own.validators.modified_s.map(|_| &b""[..]));
        if status == 200 && has_validators.is_some() && matches!(method, Method::Get | Method::Head)
        {
            match asked.conditions().outcome(&own.validators, now_s) {
                Outcome::Send => {}
                Outcome::NotModified => {
                    let varies = self.may_pack(net, &own, status, content_type, body.len());
                    let is_packed = varies && asked.codings().best(FASTEST).is_some();
                    // The client's copy may be uncompressed; its entity tag is then the strong tag.
                    let has_exact = |tag: &[u8]| {
                        let named = asked.conditions().if_none_match.unwrap_or_default();
                        let mut named = named.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                        named.any(|it| it == tag)
                    };
                    let weak = own.weak_tag().filter(|_| is_packed);
                    let weak = weak.filter(|weak| !has_exact(&weak[2..]));
                    let weak = weak.as_deref();
                    let vary = (varies && !own.varies).then_some(VARY);
                    // Fields that describe the content do not belong to a 304 response (RFC 9110,
                    // section 15.4.5).
                    let kept = headers.filter(|(name, _)| {
                        !name
                            .get(..8)
                            .is_some_and(|start| start.eq_ignore_ascii_case(b"content-"))
                            || name.eq_ignore_ascii_case(b"content-location")
                    });
                    let kept = kept.map(|line| with_tag(line, weak)).chain(vary);
                    self.answer(net, index, 304, None, kept, b"");
                    return;
                }
                Outcome::Failed => {
                    // The error response needs the stored `Accept`.
                    if let Some(kept) = kept {
                        self.deferred.remember(kept);
                    }
                    self.answer_error(
                        net,
                        index,
                        412,
                        None,
                        "The resource is not in the state that the request assumes.",
                    );
                    return;
                }
            }
        }
        if !self.may_pack(net, &own, status, content_type, body.len()) {
            self.answer(net, index, status, content_type, headers, body);
            return;
        }
        let vary = (!own.varies).then_some(VARY);
        let coding = asked.codings().best(FASTEST);
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        match coding.filter(|&coding| self.compressors.compress(coding, body, &mut packed)) {
            Some(coding) => {
                // The bytes differ from the original, so its tag becomes weak.
                let weak = own.weak_tag();
                let weak = weak.as_deref();
                let encoding = (&b"Content-Encoding"[..], coding.name().as_bytes());
                let changed = headers.map(|line| with_tag(line, weak));
                let all = changed.chain([encoding]).chain(vary);
                self.answer(net, index, status, content_type, all, &packed);
            }
            None => self.answer(net, index, status, content_type, headers.chain(vary), body),
        }
        if packed.capacity() <= net.settings.compression_bytes_max {
            self.packed = packed;
        }
    }

    /// Returns true if a response of this size and type is compressed for clients that accept it.
    fn may_pack<D: Driver>(
        &self,
        net: &Net<D>,
        own: &AnswerHeaders<'_>,
        status: u16,
        content_type: Option<&[u8]>,
        body_len: usize,
    ) -> bool {
        let sizes = net.settings.compression_bytes_min..=net.settings.compression_bytes_max;
        self.compresses
            && sizes.contains(&body_len)
            && !own.is_encoded
            && !own.is_final
            && content_type.is_some_and(is_compressible)
            && !matches!(status, 204 | 205 | 206 | 304)
    }
}

/// Returns a field line, with the value replaced by `tag` if it is an `ETag`.
fn with_tag<'a>(
    (name, value): (&'a [u8], &'a [u8]),
    tag: Option<&'a [u8]>,
) -> (&'a [u8], &'a [u8]) {
    match tag {
        Some(tag) if name.eq_ignore_ascii_case(b"etag") => (name, tag),
        _ => (name, value),
    }
}
