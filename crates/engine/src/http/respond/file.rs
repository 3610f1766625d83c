//! File responses: from a static directory, or chosen by the application.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_proto::conditions::Validators;
use fermata_proto::http1::{Method, Span};
use fermata_proto::negotiate::Coding;
use fermata_proto::range;
use fermata_proto::response::contentless;

use crate::http::Http;
use crate::http::files::{
    self, Compressed, ContentHeaders, Directory, File, FileError, Modified, Plan, is_compressible,
    part_head, parts_tail,
};
use crate::http::protocol::BodyLength;
use crate::http::respond::Gone;
use crate::http::respond::choose::VARY;
use crate::http::respond::outgoing::{FileBody, Outgoing, Part};
use crate::id::RequestId;
use crate::log::Detail;
use crate::missed::missed;
use crate::net::Net;
use crate::net::index::ExchangeIndex;

/// Maximum size in bytes of a file that is read and sent with its head in one write. The kernel
/// sends larger files without a copy, which takes more system calls.
const READ_WHOLE_BYTES_MAX: u64 = 64 * 1024;

/// Codings for files that are compressed once and cached, the smallest first.
const SMALLEST: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

pub(crate) type Line<'a> = (&'a [u8], &'a [u8]);

/// A file chosen by the application as response.
#[derive(Clone, Copy, Debug)]
pub struct FileAnswer<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// The directory to which `path` is relative.
    pub place: FilePlace<'a>,
    /// Media type; `None` = by the file's name.
    pub content_type: Option<&'a [u8]>,
    /// Status for the complete file: 200 or another.
    pub status: u16,
}

/// Base of a file's path.
#[derive(Clone, Copy, Debug)]
pub enum FilePlace<'a> {
    /// No base: `path` is a path of the process.
    Anywhere,
    /// A directory that must contain the file; names with a leading dot are rejected.
    Below(&'a [u8]),
    /// The static directory that this handler guards; the file is named by the request's path.
    Static(u32),
}

/// Result of looking up a path in a static directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaticFound {
    /// A file.
    File,
    /// Not found.
    Nothing,
    /// A directory: the path needs a final slash.
    Directory,
    /// An unreadable file; the log has the reason.
    Failed,
}

/// Response properties of a file.
pub(crate) struct Sending<'a> {
    pub status: u16,
    pub content_type: Cow<'a, [u8]>,
    pub lines: &'a [Line<'a>],
    pub compresses: bool,
    /// The response varies with the accepted codings.
    pub varies: bool,
}

impl Http {
    fn open_static(
        &mut self,
        handler: u32,
        path: &[u8],
        asked: &ContentHeaders<'_>,
    ) -> Result<(File, Arc<Directory>), FileError> {
        let router = Arc::clone(&self.router);
        let (directory, rest) = router.guarded(handler, path).ok_or(FileError::NotFound)?;
        let codings = asked.codings();
        let file = files::resolve(&mut self.roots, directory, rest, &codings, self.date_unix_s)?;
        Ok((file, Arc::clone(directory)))
    }
}

impl Http {
    /// Answers with a file below a static root, or with an error. Returns false, without answering,
    /// if the file does not exist.
    pub(crate) fn answer_static<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        directory: &Arc<Directory>,
        rest: Span,
    ) -> bool {
        let view = self.request.view(&net.input.bytes);
        let asked = ContentHeaders::of(&view);
        let rest = rest.of(view.path());
        let codings = asked.codings();
        let found = files::resolve(&mut self.roots, directory, rest, &codings, self.date_unix_s);
        let file = match found {
            Ok(file) => file,
            Err(FileError::NotFound) => return false,
            Err(error) => {
                self.answer_no_file(net, index, error);
                return true;
            }
        };
        let cache_control = directory.cache_control.as_deref();
        let lines = cache_control.map(|value| (&b"Cache-Control"[..], value.as_bytes()));
        let options = &directory.options;
        let sending = Sending {
            status: 200,
            content_type: Cow::Owned(file.content_type.as_bytes().to_vec()),
            lines: lines.as_slice(),
            compresses: options.compress,
            varies: options.precompressed || options.compress,
        };
        // The headers are in the input buffer, which the response needs mutably.
        let asked = asked.into_owned();
        self.send_file(net, index, file, &asked, &sending);
        true
    }

    /// See `Worker::find_static`.
    pub(crate) fn find_static<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handler: u32,
        path: &[u8],
    ) -> StaticFound {
        match self.open_static(handler, path, &ContentHeaders::default()) {
            Ok(_) => StaticFound::File,
            Err(FileError::NotFound) => StaticFound::Nothing,
            Err(FileError::Directory) => StaticFound::Directory,
            Err(FileError::Io(error)) => {
                let path = String::from_utf8_lossy(path);
                let message = format!("static file {}: {error}", path.escape_debug());
                net.log_for_client(LogLevel::Error, &message);
                StaticFound::Failed
            }
        }
    }

    /// See `Worker::respond_file`.
    pub(crate) fn respond_file<'h, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        answer: &FileAnswer<'_>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        asked: &ContentHeaders<'_>,
    ) -> Result<(), Gone> {
        let index = net.open_request(handle)?;
        let path = Path::new(std::ffi::OsStr::from_bytes(answer.path));
        let now_s = self.date_unix_s;
        let of_tree = |file: fs::File| Ok((File::new(file, path, None, now_s)?, None));
        let opened = match answer.place {
            FilePlace::Below(_)
                if !files::is_served(answer.path) || files::is_program(answer.path) =>
            {
                Err(FileError::NotFound)
            }
            FilePlace::Below(root) => {
                let root = Path::new(std::ffi::OsStr::from_bytes(root));
                files::open_below(root, path).and_then(of_tree)
            }
            FilePlace::Anywhere => files::open_anywhere(path).and_then(of_tree),
            FilePlace::Static(handler) => self
                .open_static(handler, answer.path, asked)
                .map(|(file, directory)| (file, Some(directory))),
        };
        let (file, directory) = match opened {
            Ok(opened) => opened,
            Err(FileError::Io(error)) => {
                let message = format!("Response::file: {}: {error}", path.display());
                self.fail(net, handle, status_of(&error), &message, &Detail::default())?;
                return Ok(());
            }
            Err(FileError::NotFound | FileError::Directory) => {
                self.answer_error(net, index, 404, None, "Nothing is here.");
                return Ok(());
            }
        };
        let mut lines: Vec<Line<'_>> = headers.collect();
        let has = |wanted: &str| {
            let wanted = wanted.as_bytes();
            lines
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
        };
        let is_encoded = has("content-encoding");
        let cache_control = directory
            .as_ref()
            .and_then(|it| it.cache_control.as_deref());
        if let Some(value) = cache_control.filter(|_| !has("cache-control")) {
            lines.push((b"Cache-Control", value.as_bytes()));
        }
        let content_type = answer
            .content_type
            .map_or_else(|| file.content_type.as_bytes().to_vec(), <[u8]>::to_vec);
        let options = directory.as_ref().map(|it| &it.options);
        let sending = Sending {
            status: answer.status,
            content_type: Cow::Owned(content_type),
            lines: &lines,
            compresses: !is_encoded && options.is_none_or(|it| it.compress),
            varies: !is_encoded && options.is_none_or(|it| it.compress || it.precompressed),
        };
        self.send_file(net, index, file, asked, &sending);
        Ok(())
    }

    /// Answers with an open file, or with the result of the request's conditions.
    pub(crate) fn send_file<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        file: File,
        asked: &ContentHeaders<'_>,
        how: &Sending<'_>,
    ) {
        let is_text = is_compressible(&how.content_type);
        let packed = if is_text && how.compresses {
            self.compressed(net, &file, asked)
        } else {
            None
        };
        // Ranges do not apply to content that this server compresses.
        let modified = file.modified.map(|it| match &packed {
            Some((coding, _)) => it.compressed(&file.key, *coding),
            None => it,
        });
        let validators = modified
            .as_ref()
            .map(Modified::validators)
            .unwrap_or_default();
        let len = match &packed {
            Some((_, bytes)) => bytes.len() as u64,
            None => file.len,
        };
        let plan = match how.status {
            200 => self.plan_file(net, index, asked, &validators, len, packed.is_some()),
            _ => Plan::Whole,
        };
        if contentless(how.status) {
            self.answer(net, index, how.status, None, how.lines.iter().copied(), b"");
            return;
        }
        let coding = packed.as_ref().map(|(coding, _)| *coding).or(file.coding);
        let mut lines: Vec<Line<'_>> = Vec::with_capacity(8 + how.lines.len());
        if let Some(modified) = &modified {
            lines.push((b"ETag", modified.etag.as_bytes()));
            lines.push((b"Last-Modified", &modified.date));
        }
        if is_text && how.varies {
            lines.push(VARY);
        }
        lines.extend_from_slice(how.lines);
        match plan {
            Plan::NotModified => {
                self.answer(net, index, 304, None, lines.into_iter(), b"");
                return;
            }
            Plan::Failed => {
                let text = "The file is not in the state that the request assumes.";
                self.answer_error(net, index, 412, None, text);
                return;
            }
            Plan::Unsatisfiable => return self.answer_no_part(net, index, len),
            Plan::Whole | Plan::Parts(_) => {}
        }
        if let Some(coding) = coding {
            lines.push((b"Content-Encoding", coding.name().as_bytes()));
        }
        if let Some((_, bytes)) = packed {
            let content_type = Some(&how.content_type[..]);
            self.answer(
                net,
                index,
                how.status,
                content_type,
                lines.into_iter(),
                &bytes,
            );
            return;
        }
        if how.status == 200 {
            lines.push((b"Accept-Ranges", b"bytes"));
        }
        match plan {
            Plan::Parts(parts) if parts.len() > 1 => {
                self.send_parts(
                    net,
                    index,
                    (file.file, len),
                    &parts,
                    &how.content_type,
                    &lines,
                );
            }
            Plan::Parts(parts) => {
                // `parts` has exactly one element here.
                let part = parts.into_iter().next().unwrap_or(0..len);
                let mut content_range = Vec::new();
                range::write_content_range(&mut content_range, &part, len);
                lines.push((b"Content-Range", &content_range));
                let body = FileBody::new(file.file, part);
                self.send_body(net, index, 206, &how.content_type, &lines, body);
            }
            _ => {
                let body = FileBody::new(file.file, 0..len);
                self.send_body(net, index, how.status, &how.content_type, &lines, body);
            }
        }
    }

    /// Evaluates the conditions and ranges of a request for an existing file. Ranges do not apply
    /// to content that this server compresses.
    fn plan_file<D: Driver>(
        &self,
        net: &Net<D>,
        index: ExchangeIndex,
        asked: &ContentHeaders<'_>,
        validators: &Validators<'_>,
        len: u64,
        is_packed: bool,
    ) -> Plan {
        let is_lent = self.lent.is_some_and(|lent| lent.exchange() == index);
        let exchange = net.connections.exchange(index);
        let is_head = exchange.is_some_and(|it| it.is_head);
        let handle = exchange.map(|it| it.handle(index));
        let is_get = match handle.and_then(|handle| self.deferred.get(handle)) {
            _ if is_lent => self.request.head.method == Method::Get,
            // The response comes in a later turn than its request.
            Some(asked) => asked.method == Method::Get,
            None => !is_head,
        };
        if is_get || is_head {
            asked.plan(validators, len, is_get && !is_packed, self.date_unix_s)
        } else {
            Plan::Whole
        }
    }

    /// Answers 416 to a range that starts after the end.
    fn answer_no_part<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex, len: u64) {
        let mut content_range = Vec::new();
        range::write_unsatisfied(&mut content_range, len);
        let line = (&b"Content-Range"[..], &content_range[..]);
        let body = b"The file has no such part.\n";
        let text = Some(&b"text/plain; charset=utf-8"[..]);
        self.answer(net, index, 416, text, std::iter::once(line), body);
    }

    /// Sends several parts as `multipart/byteranges` (RFC 9110, section 14.6).
    fn send_parts<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        (file, len): (fs::File, u64),
        ranges: &[std::ops::Range<u64>],
        content_type: &[u8],
        lines: &[Line<'_>],
    ) {
        // Random, so that nobody can craft a file that contains the boundary.
        let boundary = format!(
            "{:016x}{:016x}",
            fermata_io::random::u64(),
            fermata_io::random::u64()
        );
        let mut parts: VecDeque<Part> = ranges
            .iter()
            .map(|range| Part {
                head: part_head(&boundary, content_type, range, len),
                range: range.clone(),
            })
            .collect();
        parts.push_back(Part {
            head: parts_tail(&boundary),
            range: 0..0,
        });
        let mut body = FileBody::new(file, 0..0);
        body.parts = parts;
        let whole = format!("multipart/byteranges; boundary={boundary}");
        self.send_body(net, index, 206, whole.as_bytes(), lines, body);
    }

    /// Sends a head, and the body unless the method was HEAD.
    fn send_body<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        status: u16,
        content_type: &[u8],
        lines: &[Line<'_>],
        body: FileBody,
    ) {
        let len = body.unsent();
        let head_start = net
            .connections
            .at(index.connection())
            .map_or(0, |it| it.out.len());
        let headers = lines.iter().copied();
        let length = BodyLength::Known(len);
        self.write_head(net, index, status, Some(content_type), headers, length);
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(());
        };
        if exchange.is_head || len == 0 {
            self.finish_answer(net, index);
            return;
        }
        if len <= READ_WHOLE_BYTES_MAX && body.parts.is_empty() {
            let at = connection.out.len();
            connection.out.resize(at + len as usize, 0);
            let outcome = body
                .file
                .read_exact_at(&mut connection.out[at..], body.offset);
            if let Err(error) = outcome {
                // An error response is possible, because nothing was sent yet, unless the head is
                // already an HTTP/2 frame.
                connection.out.truncate(head_start);
                let line = connection.line;
                let message = format!("cannot read a file of {len} bytes: {error}");
                net.log_for_client(LogLevel::Error, &message);
                if line.is_stream() {
                    net.reset_on_close(line);
                    net.close(self, index.connection());
                    return;
                }
                self.answer_error(net, index, 500, None, "The file cannot be read.");
                return;
            }
        } else {
            exchange.body = Some(Box::new(Outgoing::File(body)));
            // Append nothing to `out` until the file is sent.
            connection.is_paused = true;
        }
        self.finish_answer(net, index);
    }
}

impl Http {
    fn answer_no_file<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        error: FileError,
    ) {
        match error {
            FileError::NotFound => self.answer_error(net, index, 404, None, "Nothing is here."),
            FileError::Directory => {
                // Relative links in the page need a final slash in the path.
                let view = self.request.view(&net.input.bytes);
                let mut location = self.request.head.path.of(view.head).to_vec();
                location.push(b'/');
                if let Some(query) = view.query() {
                    location.push(b'?');
                    location.extend_from_slice(query);
                }
                let headers = std::iter::once((&b"Location"[..], &location[..]));
                self.answer(net, index, 308, None, headers, b"");
            }
            FileError::Io(error) => {
                let path = self.request.view(&net.input.bytes).path();
                let message = format!(
                    "static file {}: {error}",
                    String::from_utf8_lossy(path).escape_debug()
                );
                net.log_for_client(LogLevel::Error, &message);
                let status = status_of(&error);
                self.answer_error(net, index, status, None, "The file cannot be read.");
            }
        }
    }

    /// Returns a file's content compressed for this client, if worthwhile.
    fn compressed<D: Driver>(
        &mut self,
        net: &Net<D>,
        file: &File,
        asked: &ContentHeaders<'_>,
    ) -> Option<(Coding, std::rc::Rc<[u8]>)> {
        let sizes = net.settings.compression_bytes_min..=net.settings.compression_bytes_max;
        let len = usize::try_from(file.len).ok()?;
        // Ranges refer to the uncompressed file.
        if !self.compresses || file.coding.is_some() || asked.has_range() || !sizes.contains(&len) {
            return None;
        }
        let coding = asked.codings().best(SMALLEST)?;
        let made = match self.compressors.kept(file.key, coding) {
            Some(made) => made,
            None => {
                let content = read_whole(&file.file, len)?;
                self.compressors.compress_file(file.key, coding, &content)
            }
        };
        match made {
            Compressed::Smaller(bytes) => Some((coding, bytes)),
            Compressed::Not => None,
        }
    }
}

/// Reads exactly the length that the file had when it was opened. Returns `None` if the file was
/// truncated, which the sending code detects.
fn read_whole(file: &fs::File, len: usize) -> Option<Vec<u8>> {
    let mut content = vec![0; len];
    file.read_exact_at(&mut content, 0).ok()?;
    Some(content)
}

/// Returns the status for an unreadable file: 503 if descriptors are exhausted, so that the client
/// may retry.
pub(crate) fn status_of(error: &std::io::Error) -> u16 {
    if fermata_io::process::is_short_of_descriptors(error) {
        503
    } else {
        500
    }
}
