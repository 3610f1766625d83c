//! Functions before the server runs: version, settings, routes and start.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use fermata_config::{Settings, Source, effective, mask_secrets, table};
use fermata_engine::files::StaticOptions;
use fermata_engine::{Frames, Server, Started};
use fermata_fastcgi::{FastCgi, Site};
use fermata_gateway::HubBuilder;

use crate::abi::{
    FM_CONFIGURATION, FM_INTERNAL, FM_MISUSE, FmError, FmStr, NOTHING, ask, copy, guard, put, room,
};
use crate::companion::FmCompanion;
use crate::grip;
use crate::worker::FmWorker;

/// The value is from php.ini.
pub const FM_SOURCE_INI: u32 = 1;
/// The value is from the application.
pub const FM_SOURCE_CODE: u32 = 2;

/// A server that has not started.
pub struct FmServer {
    pub(crate) server: Server,
    /// Hubs of other protocols that run next to the application's routes. `None`: there are none.
    pub(crate) doors: Option<HubBuilder>,
    /// Routes that PHP-FPM serves.
    pub(crate) sites: Vec<Site>,
}

/// The process in which `fm_server_start` returned.
#[repr(C)]
pub struct FmStart {
    /// The worker. If both this field and `companion` are NULL, this is the calling process, and all workers have exited.
    pub worker: Option<Box<FmWorker>>,
    /// Exit code for the process (calling process only).
    pub exit_code: i32,
    /// Worker index, starting at 0 (worker only).
    pub worker_index: u32,
    /// The companion. NULL in all other processes.
    pub companion: Option<Box<FmCompanion>>,
    /// Process id of a companion that still runs and that the caller must stop. Only the calling process gets it. 0 means none.
    pub companion_pid: i32,
    /// True if SIGUSR2 stopped the server and no stop was requested since (calling process only).
    pub is_to_restart: bool,
}

impl FmStart {
    const NOTHING: FmStart = FmStart {
        worker: None,
        exit_code: 0,
        worker_index: 0,
        companion: None,
        companion_pid: 0,
        is_to_restart: false,
    };
}

/// Returns the version of the native core. Always valid.
#[unsafe(no_mangle)]
pub extern "C" fn fm_version() -> FmStr {
    ask(NOTHING, FmStr::ABSENT, |()| {
        FmStr::lend(env!("CARGO_PKG_VERSION").as_bytes())
    })
}

/// Returns the row at `index` of the output of `php --ri fermata`: kernel features, then settings with their defaults. Returns
/// false past the end. The strings are always valid.
#[unsafe(no_mangle)]
pub extern "C" fn fm_info_at(
    index: usize,
    name: Option<&mut MaybeUninit<FmStr>>,
    value: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(NOTHING, false, |()| {
        static ROWS: OnceLock<Vec<(String, String)>> = OnceLock::new();
        let rows = ROWS.get_or_init(|| {
            let features = fermata_engine::features().into_iter();
            let settings = effective(&Settings::default());
            let features = features.map(|(name, value)| (name.to_owned(), value));
            features
                .chain(settings.into_iter().map(|(n, v)| (n.to_owned(), v)))
                .collect()
        });
        // C iterates the index until this returns false.
        let Some((row_name, row_value)) = rows.get(index) else {
            return false;
        };
        put(name, FmStr::lend(row_name.as_bytes()));
        put(value, FmStr::lend(row_value.as_bytes()));
        true
    })
}

/// Returns the setting at `index`: name, default and documentation. False past the end. Always valid.
#[unsafe(no_mangle)]
pub extern "C" fn fm_setting_at(
    index: usize,
    name: Option<&mut MaybeUninit<FmStr>>,
    default_value: Option<&mut MaybeUninit<FmStr>>,
    doc: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(NOTHING, false, |()| {
        // C iterates the index until this returns false.
        let Some(setting) = table().get(index) else {
            return false;
        };
        put(name, FmStr::lend(setting.name.as_bytes()));
        put(default_value, FmStr::lend(setting.default.as_bytes()));
        put(doc, FmStr::lend(setting.doc.as_bytes()));
        true
    })
}

/// Replaces the secrets in `text` by `***`, as in the log, and returns the resulting length in bytes. Writes the
/// result to `place` if it fits.
///
/// # Safety
/// `place` is NULL or valid for writes of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_mask_secrets(text: FmStr, place: *mut c_char, len: usize) -> usize {
    ask(NOTHING, 0, |()| {
        let text = text.text();
        let masked = mask_secrets(&text);
        // SAFETY: by this function's contract.
        let into = unsafe { room(place, len) };
        if let Some(into) = into.get_mut(..masked.len()) {
            copy(masked.as_bytes(), into);
        }
        masked.len()
    })
}

/// Creates a server without routes; NULL only after a panic.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_new() -> Option<Box<FmServer>> {
    ask(NOTHING, None, |()| {
        Some(Box::new(FmServer {
            server: Server::new(),
            doors: None,
            sites: Vec::new(),
        }))
    })
}

/// Frees a server that has not started.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_free(server: Option<Box<FmServer>>) {
    ask(server, (), |server| {
        drop(server);
    })
}

/// Sets a setting by its name. FM_CONFIGURATION for an invalid value or an unknown name.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_set(
    server: Option<&mut FmServer>,
    name: FmStr,
    value: FmStr,
    source: u32,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |server| {
        let source = match source {
            FM_SOURCE_INI => Source::Ini,
            FM_SOURCE_CODE => Source::Code,
            _ => return Err((FM_INTERNAL, format!("source {source} does not exist"))),
        };
        let server = &mut server.server;
        server
            .set(&name.text(), &value.text(), source)
            .map_err(|error| (FM_CONFIGURATION, error.to_string()))
    })
}

/// Adds a route; an empty `method` matches any method. FM_MISUSE for an invalid or duplicate pattern.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_route(
    server: Option<&mut FmServer>,
    method: FmStr,
    pattern: FmStr,
    handler: u32,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |server| {
        let method = method.text();
        let method = if method.is_empty() {
            None
        } else {
            Some(&*method)
        };
        let server = &mut server.server;
        server
            .route(method, &pattern.text(), handler)
            .map_err(|error| (FM_MISUSE, error.to_string()))
    })
}

/// Sets the maximum body size of a handler's requests in bytes, overriding the settings. FM_MISUSE if it is too
/// large.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_route_body(
    server: Option<&mut FmServer>,
    handler: u32,
    bytes_max: u64,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |server| {
        let server = &mut server.server;
        server
            .limit_body(handler, bytes_max)
            .map_err(|error| (FM_MISUSE, error.to_string()))
    })
}

/// Sends unrouted requests to `handler`: unknown paths and, with `takes_methods`, unsupported methods and OPTIONS.
/// The event's `unrouted` and `allow` describe the response that the core would have sent.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_fallback(
    server: Option<&mut FmServer>,
    handler: u32,
    takes_methods: bool,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |server| {
        server.server.fallback(handler, takes_methods);
        Ok(())
    })
}

/// Starts the handler when the request head is complete. FmEvent.upload is then FM_UPLOAD_ARRIVING, and
/// `fm_body_read` reads the body, unless the body arrived with the head.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_route_early(server: Option<&mut FmServer>, handler: u32) {
    ask(server, (), |server| {
        server.server.begin_early(handler);
    })
}

/// Sends requests for files below `prefix` to `handler` with FmEvent.unrouted 200. `handler` then identifies the tree
/// for `fm_static_find` and `fm_respond_file`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_guard_files(
    server: Option<&mut FmServer>,
    prefix: FmStr,
    handler: u32,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |server| {
        let server = &mut server.server;
        server
            .guard_files(&prefix.text(), handler)
            .map_err(|error| (FM_MISUSE, error.to_string()))
    })
}

/// Sends requests below `prefix` without a matching file, and all methods except GET and HEAD, to `handler`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_static_fallback(
    server: Option<&mut FmServer>,
    prefix: FmStr,
    handler: u32,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |server| {
        let server = &mut server.server;
        server
            .files_fallback(&prefix.text(), handler)
            .map_err(|error| (FM_MISUSE, error.to_string()))
    })
}

/// Delivers FM_EVENT_UPGRADE for every handshake of the WebSocket routes of `handler`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_guard_websocket(server: Option<&mut FmServer>, handler: u32) {
    ask(server, (), |server| {
        server.server.guard_websocket(handler);
    })
}

/// Options of `fm_server_static`.
#[repr(C)]
pub struct FmStatic {
    /// Seconds for which clients may reuse a file without revalidation; -1 sends no Cache-Control.
    pub cache_seconds: i64,
    /// True if clients need not revalidate even on a reload.
    pub immutable: bool,
    /// Name of the file that is served for a directory. Empty for none.
    pub index: FmStr,
    /// True if precompressed sibling files are sent.
    pub precompressed: bool,
    /// True if files without such a sibling are compressed.
    pub compress: bool,
    /// True if PHP source files are sent as text.
    pub sources: bool,
}

/// Serves the files below `directory` at the path `prefix`. FM_MISUSE as for `fm_server_route`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_static(
    server: Option<&mut FmServer>,
    prefix: FmStr,
    directory: FmStr,
    options: Option<&FmStatic>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server.zip(options), error, |(server, options)| {
        let options = StaticOptions {
            // An overflowing value stays too large, so that validation reports it.
            cache_seconds: (options.cache_seconds >= 0)
                .then(|| u32::try_from(options.cache_seconds).unwrap_or(u32::MAX)),
            immutable: options.immutable,
            index: options.index.text().into_owned(),
            precompressed: options.precompressed,
            compress: options.compress,
            sources: options.sources,
            links: false,
        };
        let server = &mut server.server;
        server
            .files(&prefix.text(), &directory.text(), options)
            .map_err(|error| (FM_MISUSE, error.to_string()))
    })
}

/// Memory layout of PHP's stack frames: `current` is an address, all other fields are byte offsets.
#[repr(C)]
pub struct FmFrames {
    /// Address of the pointer to the innermost frame.
    pub current: usize,
    /// In a frame: pointer to its function.
    pub frame_function: usize,
    /// In a frame: pointer to the instruction that runs.
    pub frame_instruction: usize,
    /// In a frame: pointer to the frame that called it.
    pub frame_caller: usize,
    /// In a function: its kind, one byte.
    pub function_kind: usize,
    /// Function kind without file and line.
    pub kind_native: u8,
    /// In a function: pointer to its name, a string.
    pub function_name: usize,
    /// In a function: pointer to its class.
    pub function_class: usize,
    /// In a function that is not native: pointer to the name of its file, a string.
    pub function_file: usize,
    /// In a function that is not native: its first line, four bytes.
    pub function_first_line: usize,
    /// In a function that is not native: its last line, four bytes.
    pub function_last_line: usize,
    /// In a class: pointer to its name, a string.
    pub class_name: usize,
    /// In an instruction: its line, four bytes.
    pub instruction_line: usize,
    /// In a string: its length, a size_t.
    pub string_length: usize,
    /// In a string: its first byte.
    pub string_bytes: usize,
}

/// Describes how the master finds the code that a worker's handler runs, for reports about blocked workers.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_frames(server: Option<&mut FmServer>, frames: Option<&FmFrames>) {
    ask(server.zip(frames), (), |(server, frames)| {
        server.server.set_frames(Frames {
            current: frames.current,
            frame_function: frames.frame_function,
            frame_instruction: frames.frame_instruction,
            frame_caller: frames.frame_caller,
            function_kind: frames.function_kind,
            kind_native: frames.kind_native,
            function_name: frames.function_name,
            function_class: frames.function_class,
            function_file: frames.function_file,
            function_lines: [frames.function_first_line, frames.function_last_line],
            class_name: frames.class_name,
            instruction_line: frames.instruction_line,
            string_length: frames.string_length,
            string_bytes: frames.string_bytes,
        });
    })
}

/// Sets the runtime's name, such as `PHP 8.4.1, opcache on`, for the start banner.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_program(server: Option<&mut FmServer>, name: FmStr) {
    ask(server, (), |server| {
        server.server.set_program(&name.text());
    })
}

/// Adds a warning about a likely misconfiguration to the log at the start.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_warn(server: Option<&mut FmServer>, message: FmStr) {
    ask(server, (), |server| {
        server.server.warn(&message.text());
    })
}

/// Returns the number of workers that the server would start. Returns 0 if a setting is invalid, which `fm_server_start` reports.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_workers(server: Option<&mut FmServer>) -> u32 {
    ask(server, 0, |server| {
        server.server.workers().map_or(0, u32::from)
    })
}

/// Makes the master run one more process next to the workers. `fm_server_start` also returns in that process, with `companion` set.
/// `name` marks its log lines.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_companion(server: Option<&mut FmServer>, name: FmStr) {
    ask(server, (), |server| {
        server.server.set_companion(&name.text());
    })
}

/// Binds the listeners and forks. Returns once in each worker and companion, and once in the calling process after
/// the last worker has exited. Always consumes the server.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_start(
    server: Option<Box<FmServer>>,
    out: Option<&mut MaybeUninit<FmStart>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |server| {
        let mut server = *server;
        let settings = server.server.settings();
        let settings = settings.map_err(|error| (FM_CONFIGURATION, error.to_string()))?;
        let front = grip::front(&settings, server.doors.is_some())
            .map_err(|error| (FM_CONFIGURATION, error.to_string()))?;
        if front.as_ref().is_some_and(|front| !front.can_verify()) {
            server.server.warn("grip_url has no key, so requests of the edge cannot be told from others: their clients are held here");
        }
        server.server.set_post(fermata_gateway::open_post);
        let doors = server.doors.take();
        let sites = std::mem::take(&mut server.sites);
        let opening = doors.map(|doors| doors.open(&mut server.server));
        let opening = opening
            .transpose()
            .map_err(|error| (FM_CONFIGURATION, error.to_string()))?;
        let started = server
            .server
            .start()
            .map_err(|error| (FM_CONFIGURATION, error.to_string()))?;
        let start = match started {
            Started::Worker(worker) => {
                let worker_index = u32::from(worker.index());
                let fastcgi = FastCgi::begin(sites, worker.settings());
                let worker = Some(Box::new(FmWorker::new(*worker, front, opening, fastcgi)));
                FmStart {
                    worker,
                    worker_index,
                    ..FmStart::NOTHING
                }
            }
            Started::Companion(companion) => FmStart {
                companion: Some(Box::new(FmCompanion { companion })),
                ..FmStart::NOTHING
            },
            Started::Ended {
                exit_code,
                companion_pid,
                is_to_restart,
                published,
                logger,
            } => {
                if let (Some(front), Some(published)) = (front, published) {
                    front.finish(&settings, &|| published.follow(), &logger);
                }
                FmStart {
                    exit_code,
                    companion_pid,
                    is_to_restart,
                    ..FmStart::NOTHING
                }
            }
        };
        put(out, start);
        Ok(())
    })
}
