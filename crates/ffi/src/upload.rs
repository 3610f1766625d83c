//! What the body of a request has left outside of memory: fields and files of a form, or a large body's file.
//!
//! An upload has a number of its own, `FmEvent.upload`, because it may outlive the event: all strings stay valid until
//! `fm_upload_release`, which removes the files.

use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use fermata_engine::{ARRIVING, Read, ReadError};

use crate::abi::{FM_GONE, FM_PARTIAL, FM_PROTOCOL, FmError, FmRequest, FmStr, ask, guard, put};
use crate::worker::FmWorker;

/// The number of a body that is read while it arrives.
pub const FM_UPLOAD_ARRIVING: u32 = 0xffff_ffff;
const _: () = assert!(FM_UPLOAD_ARRIVING == ARRIVING);

/// A file that came with a form.
#[repr(C)]
pub struct FmUploadedFile {
    /// Name of its field.
    pub field: FmStr,
    /// Its name at the client, without directories.
    pub name: FmStr,
    /// Its Content-Type as the client says; `ptr` NULL for none.
    pub content_type: FmStr,
    /// Where it is until it is moved.
    pub path: FmStr,
    /// Its length.
    pub bytes: u64,
}

/// The field at `index` of a form: name as sent, and value. False past the end.
#[unsafe(no_mangle)]
pub extern "C" fn fm_upload_field_at(
    worker: Option<&mut FmWorker>,
    upload: u32,
    index: usize,
    name: Option<&mut MaybeUninit<FmStr>>,
    value: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(worker, false, |worker| {
        let upload = worker.worker.http.upload(upload);
        // C asks for one after another until there is none.
        let Some((field_name, field_value)) = upload.and_then(|upload| upload.fields.get(index))
        else {
            return false;
        };
        put(name, FmStr::lend(field_name));
        put(value, FmStr::lend(field_value));
        true
    })
}

/// The name at `index` of those fields for files in which nothing was chosen, and how many files came before it. False
/// past the end.
#[unsafe(no_mangle)]
pub extern "C" fn fm_upload_unchosen_at(
    worker: Option<&mut FmWorker>,
    upload: u32,
    index: usize,
    name: Option<&mut MaybeUninit<FmStr>>,
    files_before: Option<&mut MaybeUninit<usize>>,
) -> bool {
    ask(worker, false, |worker| {
        let upload = worker.worker.http.upload(upload);
        // C asks for one after another until there is none.
        let Some(field) = upload.and_then(|upload| upload.unchosen.get(index)) else {
            return false;
        };
        put(name, FmStr::lend(&field.name));
        put(files_before, field.files_before);
        true
    })
}

/// The file at `index` of a form. False past the end.
#[unsafe(no_mangle)]
pub extern "C" fn fm_upload_file_at(
    worker: Option<&mut FmWorker>,
    upload: u32,
    index: usize,
    file: Option<&mut MaybeUninit<FmUploadedFile>>,
) -> bool {
    ask(worker, false, |worker| {
        let upload = worker.worker.http.upload(upload);
        // C asks for one after another until there is none.
        let Some(found) = upload.and_then(|upload| upload.files.get(index)) else {
            return false;
        };
        put(
            file,
            FmUploadedFile {
                field: FmStr::lend(&found.field),
                name: FmStr::lend(&found.name),
                content_type: FmStr::lend_option(found.content_type.as_deref()),
                path: lend_path(found.temporary.path()),
                bytes: found.bytes,
            },
        );
        true
    })
}

/// The file of a body that is too large for memory. False when the body is not in a file.
#[unsafe(no_mangle)]
pub extern "C" fn fm_upload_body(
    worker: Option<&mut FmWorker>,
    upload: u32,
    path: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(worker, false, |worker| {
        let upload = worker.worker.http.upload(upload);
        let Some((file, _)) = upload.and_then(|upload| upload.body.as_ref()) else {
            return false;
        };
        put(path, lend_path(file.path()));
        true
    })
}

/// The request is over: removes its files, but for those that were moved away.
#[unsafe(no_mangle)]
pub extern "C" fn fm_upload_release(worker: Option<&mut FmWorker>, upload: u32) {
    ask(worker, (), |worker| {
        worker.worker.http.release_upload(upload);
    })
}

/// Reads on in a body that arrives, at most `bytes_max` (and `body_piece_bytes_max`): `piece` is empty at its end, and stays
/// valid until the next call or `fm_next_event`; `last` tells that nothing follows. FM_PARTIAL when nothing has come:
/// FM_EVENT_BODY tells when to ask again. FM_GONE when the client has left, FM_PROTOCOL when the rest cannot be had: `status` is
/// that of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn fm_body_read(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    bytes_max: usize,
    piece: Option<&mut MaybeUninit<FmStr>>,
    last: Option<&mut MaybeUninit<bool>>,
    status: Option<&mut MaybeUninit<u32>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let request = request.known()?;
        let worker = &mut worker.worker;
        let read = worker.read_body(request, bytes_max).map_err(|error| {
            let code = match &error {
                ReadError::Gone => FM_GONE,
                ReadError::Refused(refused, _) => {
                    put(status, u32::from(*refused));
                    FM_PROTOCOL
                }
            };
            (code, error.to_string())
        })?;
        put(last, matches!(read, Read::Last | Read::End));
        match read {
            Read::Piece | Read::Last => put(piece, FmStr::lend(worker.http.body_piece())),
            Read::End => put(piece, FmStr::lend(b"")),
            Read::Pending => return Err((FM_PARTIAL, String::new())),
        }
        Ok(())
    })
}

fn lend_path(path: &Path) -> FmStr {
    FmStr::lend(path.as_os_str().as_bytes())
}
