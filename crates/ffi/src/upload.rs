//! Request body parts outside of memory: form fields, uploaded files, or the file of a large body.
//!
//! The number FmEvent.upload identifies an upload, which may outlive its event. All strings stay valid until
//! `fm_upload_release`, which removes the files.

use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use fermata_engine::{ARRIVING, Read, ReadError};

use crate::abi::{FM_GONE, FM_PARTIAL, FM_PROTOCOL, FmError, FmRequest, FmStr, ask, guard, put};
use crate::worker::FmWorker;

/// Upload number of a body that is still arriving.
pub const FM_UPLOAD_ARRIVING: u32 = 0xffff_ffff;
const _: () = assert!(FM_UPLOAD_ARRIVING == ARRIVING);

/// An uploaded file of a form.
#[repr(C)]
pub struct FmUploadedFile {
    /// Name of the form field.
    pub field: FmStr,
    /// File name from the client, without directories.
    pub name: FmStr,
    /// Content-Type from the client. `ptr` is NULL for none.
    pub content_type: FmStr,
    /// Temporary path.
    pub path: FmStr,
    /// Size in bytes.
    pub bytes: u64,
}

/// Returns the form field at `index`: name as sent, and value. False past the end.
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
        // C iterates the index until this returns false.
        let Some((field_name, field_value)) = upload.and_then(|upload| upload.fields.get(index))
        else {
            return false;
        };
        put(name, FmStr::lend(field_name));
        put(value, FmStr::lend(field_value));
        true
    })
}

/// Returns the name at `index` of the file fields without a chosen file, and the number of files before it. Returns false past the
/// end.
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
        // C iterates the index until this returns false.
        let Some(field) = upload.and_then(|upload| upload.unchosen.get(index)) else {
            return false;
        };
        put(name, FmStr::lend(&field.name));
        put(files_before, field.files_before);
        true
    })
}

/// Returns the form file at `index`. False past the end.
#[unsafe(no_mangle)]
pub extern "C" fn fm_upload_file_at(
    worker: Option<&mut FmWorker>,
    upload: u32,
    index: usize,
    file: Option<&mut MaybeUninit<FmUploadedFile>>,
) -> bool {
    ask(worker, false, |worker| {
        let upload = worker.worker.http.upload(upload);
        // C iterates the index until this returns false.
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

/// Returns the file of a body that is too large for memory. False if the body is not in a file.
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

/// Removes the upload's files, except those that were moved, after the request is complete.
#[unsafe(no_mangle)]
pub extern "C" fn fm_upload_release(worker: Option<&mut FmWorker>, upload: u32) {
    ask(worker, (), |worker| {
        worker.worker.http.release_upload(upload);
    })
}

/// Reads at most `bytes_max` (and `body_piece_bytes_max`) bytes of an arriving body. `piece` is empty at the end and
/// valid until the next call or `fm_next_event`; `last` is true if nothing follows. FM_PARTIAL: no bytes yet;
/// FM_EVENT_BODY reports when to call again. FM_GONE: the client disconnected. FM_PROTOCOL: the rest will not arrive;
/// `status` is the response's status.
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
