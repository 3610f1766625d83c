/* The C ABI between ext/ and the Rust core.
   Generated from crates/ffi by `make generate`; do not edit.

   A pointer is NULL or valid. Objects (FmServer, FmWorker, FmOpenFile, ...) come from a function here and
   are not used any more once they are freed or consumed; inputs, their strings and arrays stay as they
   are until the function returns; a place for an answer may be NULL and need not hold anything. A
   function that is not given an object or input it needs returns FM_INTERNAL, or as after a panic. */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The call succeeded.
 */
#define FM_OK 0

/**
 * A setting, a file or an address is invalid: ConfigurationException.
 */
#define FM_CONFIGURATION 1

/**
 * The application misuses the API: MisuseError.
 */
#define FM_MISUSE 2

/**
 * A limit is reached, and a later retry may succeed. PHP throws BackpressureException.
 */
#define FM_BACKPRESSURE 3

/**
 * The peer process cannot be reached: ConnectionException.
 */
#define FM_IO 4

/**
 * No reply arrived in time: TimeoutException.
 */
#define FM_TIMEOUT 5

/**
 * The client disconnected, or the request already has a response. There is nothing to report.
 */
#define FM_GONE 6

/**
 * A panic was caught: a bug in the core.
 */
#define FM_INTERNAL 7

/**
 * The bytes so far are valid but incomplete. There is nothing to report.
 */
#define FM_PARTIAL 8

/**
 * The peer violates the protocol: ProtocolException.
 */
#define FM_PROTOCOL 9

/**
 * Size of an error message buffer, in bytes.
 */
#define FM_ERROR_BYTES 1020

/**
 * Size of an event id buffer, in bytes.
 */
#define FM_ID_BYTES 60

/**
 * Result of `fm_publish_begin`. Start the publish again a little later.
 */
#define FM_PUBLISH_LATER UINT64_MAX

/**
 * `fm_stream_wanted`: the client disconnected, or the request already has a response.
 */
#define FM_STREAM_NOTHING 0

/**
 * `fm_stream_wanted`: pass the first piece to `fm_stream_begin`.
 */
#define FM_STREAM_PIECES 1

/**
 * Result of `fm_stream_wanted`: call `fm_stream_begin` without a piece. No other call follows.
 */
#define FM_STREAM_HEAD 2

/**
 * `fm_stream_wanted`: the limit of streams is reached; respond with 503.
 */
#define FM_STREAM_REFUSAL 3

/**
 * Handler number that means none.
 */
#define FM_NO_HANDLER 4294967295

/**
 * `fm_static_find`: a file, which `fm_respond_file` sends.
 */
#define FM_STATIC_FILE 0

/**
 * Result of `fm_static_find`: nothing was found, so respond with 404.
 */
#define FM_STATIC_NOTHING 1

/**
 * Result of `fm_static_find`: the path is a directory, so redirect with 308 to the same path with a trailing slash.
 */
#define FM_STATIC_DIRECTORY 2

/**
 * `fm_static_find`: an unreadable file; the error is logged; respond with 500.
 */
#define FM_STATIC_FAILED 3

/**
 * The reader has the next event.
 */
#define FM_READ_EVENT 0

/**
 * Events before the next one are missing. `data` is the reason: "expired", "too slow", "log lost" or "unknown id".
 */
#define FM_READ_GAP 1

/**
 * All events were read. FM_EVENT_CHANNEL follows when there may be more.
 */
#define FM_READ_WAIT 2

/**
 * A job has started in this process.
 */
#define FM_COMPANION_JOB_BEGINS 0

/**
 * A job has finished, or its process has exited.
 */
#define FM_COMPANION_JOB_ENDS 1

/**
 * A job process has exited and is replaced.
 */
#define FM_COMPANION_PROCESS_REPLACED 2

/**
 * Size of a signature buffer, in bytes: a key, a colon and 64 hexadecimal digits.
 */
#define FM_AUTH_BYTES 160

/**
 * Reads `length` bytes (-1: all) of `path`, starting at `offset`.
 */
#define FM_FILE_READ 1

/**
 * Writes `data` to `path` with `mode` FM_WRITE_* and `permissions`; `flag`: flush to disk before completion.
 */
#define FM_FILE_WRITE 2

/**
 * Copies `path` to `other`. `flag`: replace an existing file.
 */
#define FM_FILE_COPY 3

/**
 * Returns the attributes of `path`; `flag`: follow a symbolic link.
 */
#define FM_FILE_STAT 4

/**
 * Lists the directory `path`.
 */
#define FM_FILE_LIST 5

/**
 * Removes `path`; `flag`: recursively.
 */
#define FM_FILE_REMOVE 6

/**
 * Renames `path` to `other`. `flag`: replace an existing file.
 */
#define FM_FILE_RENAME 7

/**
 * Creates the directory `path` with `permissions`; `flag`: create parents too and accept an existing directory.
 */
#define FM_FILE_MAKE_DIRECTORY 8

/**
 * Opens `path` with `mode` FM_OPEN_* and `permissions`.
 */
#define FM_FILE_OPEN 9

/**
 * Creates a temporary file in the directory `path`. The file's name starts with `other`.
 */
#define FM_FILE_TEMPORARY 10

/**
 * Reads at most `length` bytes from `file`.
 */
#define FM_FILE_NEXT 11

/**
 * Reads a line of at most `length` bytes from `file`.
 */
#define FM_FILE_LINE 12

/**
 * Writes `data` to `file`.
 */
#define FM_FILE_PUT 13

/**
 * Moves the position of `file` to `offset`.
 */
#define FM_FILE_SEEK 14

/**
 * Truncates `file` to `offset` bytes.
 */
#define FM_FILE_TRUNCATE 15

/**
 * Flushes `file` to disk.
 */
#define FM_FILE_SYNC 16

/**
 * Returns the attributes of `file`.
 */
#define FM_FILE_SIZE 17

/**
 * Renames the temporary `file` to `other`, replacing an existing file, and makes it permanent.
 */
#define FM_FILE_KEEP 18

/**
 * Replaces the content.
 */
#define FM_WRITE_REPLACE 0

/**
 * Replaces the file atomically.
 */
#define FM_WRITE_ATOMIC 1

/**
 * Appends to the file.
 */
#define FM_WRITE_APPEND 2

/**
 * Creates the file. Fails if the file exists.
 */
#define FM_WRITE_NEW 3

/**
 * Opens an existing file for reading.
 */
#define FM_OPEN_READ 0

/**
 * Opens a file for reading and writing. Creates the file if it does not exist.
 */
#define FM_OPEN_UPDATE 1

/**
 * Creates or empties a file for reading and writing.
 */
#define FM_OPEN_REPLACE 2

/**
 * Opens a file for appending. Creates the file if it does not exist.
 */
#define FM_OPEN_APPEND 3

/**
 * Creates a file for reading and writing. Fails if the file exists.
 */
#define FM_OPEN_NEW 4

/**
 * The file does not exist.
 */
#define FM_FILE_NOT_FOUND 32

/**
 * Permission denied.
 */
#define FM_FILE_ACCESS_DENIED 33

/**
 * The file already exists.
 */
#define FM_FILE_EXISTS 34

/**
 * No space left on the device.
 */
#define FM_FILE_FULL 35

/**
 * The path is a directory.
 */
#define FM_FILE_IS_DIRECTORY 36

/**
 * A component of the path is not a directory.
 */
#define FM_FILE_NOT_DIRECTORY 37

/**
 * The directory is not empty.
 */
#define FM_FILE_NOT_EMPTY 38

/**
 * Any other error. The message describes it.
 */
#define FM_FILE_OTHER 39

/**
 * `fm_open_file_lock`: releases the lock.
 */
#define FM_LOCK_NONE 0

/**
 * `fm_open_file_lock`: a shared lock.
 */
#define FM_LOCK_SHARED 1

/**
 * `fm_open_file_lock`: an exclusive lock.
 */
#define FM_LOCK_EXCLUSIVE 2

/**
 * A regular file.
 */
#define FM_TYPE_FILE 0

/**
 * A directory.
 */
#define FM_TYPE_DIRECTORY 1

/**
 * A symbolic link.
 */
#define FM_TYPE_LINK 2

/**
 * A pipe, a socket or a device.
 */
#define FM_TYPE_OTHER 3

/**
 * Opens `path` with `flags` and `mode`. Returns -ENXIO for a pipe or device, without opening it.
 */
#define FM_CALL_OPEN 1

/**
 * Loads the directory entries of `path` into the kernel's cache; with `flags` 1, of a link's target too.
 */
#define FM_CALL_LOOK 2

/**
 * Loads `len` bytes of `fd` from `offset` on into the page cache.
 */
#define FM_CALL_LOAD 3

/**
 * Writes `data` to `fd`.
 */
#define FM_CALL_WRITE 4

/**
 * Copies at most `len` bytes from `fd` to `other_fd`.
 */
#define FM_CALL_COPY 5

/**
 * Flushes `fd` to disk; `flags` 1: only the metadata needed to read the data.
 */
#define FM_CALL_SYNC 6

/**
 * Truncates `fd` to `len` bytes.
 */
#define FM_CALL_TRUNCATE 7

/**
 * Renames `path` to `other`.
 */
#define FM_CALL_RENAME 8

/**
 * Creates the hard link `other` to `path`.
 */
#define FM_CALL_LINK 9

/**
 * Creates the symbolic link `other` with the target `path`.
 */
#define FM_CALL_SYMLINK 10

/**
 * Removes the file `path`.
 */
#define FM_CALL_UNLINK 11

/**
 * Removes the directory `path`.
 */
#define FM_CALL_REMOVE_DIRECTORY 12

/**
 * Creates the directory `path` with `mode`.
 */
#define FM_CALL_MAKE_DIRECTORY 13

/**
 * Like FM_CALL_LOAD, for an `fd` that must not be duplicated. C keeps the descriptor open until the call completes.
 */
#define FM_CALL_LOAD_HELD 14

/**
 * Like FM_CALL_SYNC, for an `fd` that C keeps open until the call completes.
 */
#define FM_CALL_SYNC_HELD 15

/**
 * A task that a handler or another task started.
 */
#define FM_TASK_ASYNC 0

/**
 * A run of `every()`.
 */
#define FM_TASK_EVERY 1

/**
 * A call of `defer()`.
 */
#define FM_TASK_DEFERRED 2

/**
 * A task that reads messages of other workers.
 */
#define FM_TASK_MESSAGES 3

/**
 * The job returned a result.
 */
#define FM_JOB_DONE 0

/**
 * The job threw an exception.
 */
#define FM_JOB_FAILED 1

/**
 * The job's process crashed.
 */
#define FM_JOB_CRASHED 2

/**
 * The job timed out.
 */
#define FM_JOB_TIMED_OUT 3

/**
 * The caller no longer waits for the job.
 */
#define FM_JOB_CANCELLED 4

/**
 * The job was rejected.
 */
#define FM_JOB_REJECTED 5

/**
 * A publish completes when the cluster log has stored the message.
 */
#define FM_ACK_CLUSTER 0

/**
 * A publish completes when the message is queued for the cluster log.
 */
#define FM_ACK_LOCAL 1

/**
 * Requests are not recorded, or this request has ended.
 */
#define FM_SPAN_NONE 0

/**
 * The request is recorded.
 */
#define FM_SPAN_RECORDED 1

/**
 * Other requests are recorded, but this one is not.
 */
#define FM_SPAN_LEFT_OUT 2

/**
 * The value is from php.ini.
 */
#define FM_SOURCE_INI 1

/**
 * The value is from the application.
 */
#define FM_SOURCE_CODE 2

/**
 * A handshake callback exists: deliver FM_EVENT_UPGRADE.
 */
#define FM_WS_ON_UPGRADE 1

/**
 * An open callback exists: deliver FM_EVENT_WS_OPEN.
 */
#define FM_WS_ON_OPEN 2

/**
 * A message callback exists: deliver FM_EVENT_WS_MESSAGE.
 */
#define FM_WS_ON_MESSAGE 4

/**
 * A close callback exists: deliver FM_EVENT_WS_CLOSE.
 */
#define FM_WS_ON_CLOSE 8

/**
 * Refuses a message that exceeds the queue with FM_BACKPRESSURE.
 */
#define FM_WS_REFUSE 0

/**
 * Drops the oldest messages that are completely unsent.
 */
#define FM_WS_DROP_OLDEST 1

/**
 * Closes the socket with code 1013.
 */
#define FM_WS_CLOSE_SLOW 2

/**
 * Sends the data of each channel message as a text message.
 */
#define FM_WS_FORMAT_DATA 0

/**
 * Sends messages, joins, leaves and gaps as JSON with channel, id, event and data.
 */
#define FM_WS_FORMAT_JSON 1

/**
 * An integer column: `number` of FmValue.
 */
#define FM_COLUMN_INT 0

/**
 * A floating-point column: `real` of FmValue.
 */
#define FM_COLUMN_FLOAT 1

/**
 * A string column: `text` of FmValue.
 */
#define FM_COLUMN_STRING 2

/**
 * Upload number of a body that is still arriving.
 */
#define FM_UPLOAD_ARRIVING 4294967295

/**
 * `fm_note_handler`: flag added to the number of a WebSocket handler.
 */
#define FM_HANDLER_WEBSOCKET 2147483648

/**
 * `fm_note_handler`: number that means a task.
 */
#define FM_HANDLER_TASK 4294967295

/**
 * Bytes, a connection to accept, or the end of the stream.
 */
#define FM_WATCH_READ 1

/**
 * The descriptor has space for writing.
 */
#define FM_WATCH_WRITE 2

/**
 * Urgent data.
 */
#define FM_WATCH_PRIORITY 4

/**
 * The peer closed the connection, or the file has an error. Reported without a request.
 */
#define FM_WATCH_HANGUP 8

/**
 * The file is always ready: a regular file or a directory.
 */
#define FM_ALWAYS_READY 64

/**
 * `request` needs a response.
 */
#define FM_EVENT_REQUEST 1

/**
 * The worker has stopped. Free it, and exit the process with `fm_worker_exit_code`.
 */
#define FM_EVENT_STOP 2

/**
 * `request` is a valid WebSocket handshake: accept it with `fm_ws_accept_request`, or refuse it with `fm_respond` or
 * `fm_fail`. All fields of FM_EVENT_REQUEST are set.
 */
#define FM_EVENT_UPGRADE 3

/**
 * `socket` is open. Only `kind`, `handler` and `socket` are set.
 */
#define FM_EVENT_WS_OPEN 4

/**
 * `socket` received the message `body`. Only `kind`, `handler`, `socket`, `binary` and `body` are set.
 */
#define FM_EVENT_WS_MESSAGE 5

/**
 * `socket` is closed with `code` (1005: no code, 1006: no close frame) and the reason `body`. Occurs exactly once
 * per accepted socket. Only `kind`, `handler`, `socket`, `code` and `body` are set.
 */
#define FM_EVENT_WS_CLOSE 6

/**
 * The client of `request` or `socket` disconnected while its handler waits. The other of these two fields is 0. The event occurs
 * at most once for each. Only `kind`, `request` and `socket` are set.
 */
#define FM_EVENT_GONE 7

/**
 * The time of `fm_worker_wake_at` is reached, or `fm_file_next` or `fm_publish_next` may have a result. Only `kind`
 * is set.
 */
#define FM_EVENT_WAKE 8

/**
 * The response stream of `request` accepts its next piece: call `fm_stream_write`, `fm_stream_end` or
 * `fm_stream_fail`. Only `kind`, `handler` and `request` are set.
 */
#define FM_EVENT_STREAM 9

/**
 * The client disconnected before the response stream of `request` was complete. Only `kind`, `handler` and `request`
 * are set.
 */
#define FM_EVENT_STREAM_END 10

/**
 * The descriptor `handler`, registered by `fm_watch`, is ready for `code` (FM_WATCH_*) or has hung up. Only `kind`,
 * `handler` and `code` are set.
 */
#define FM_EVENT_READY 11

/**
 * More of the body of `request` can be read by `fm_body_read`, or the rest will not arrive. Only `kind` and
 * `request` are set.
 */
#define FM_EVENT_BODY 12

/**
 * A worker of another server in the cluster sent `body` by `fm_worker_send_to_servers`. Only `kind` and `body` are
 * set.
 */
#define FM_EVENT_PEER_MESSAGE 13

/**
 * The channel of the reader `fm_reader_woken` may have further events for `fm_reader_next`. Only `kind` is set.
 */
#define FM_EVENT_CHANNEL 14

/**
 * The held client receives server-sent events.
 */
#define FM_FORMAT_EVENT_STREAM 0

/**
 * A slow client receives a `gap` event in place of the events it missed.
 */
#define FM_SLOW_GAP 0

/**
 * A slow client is closed. It reconnects with its last event id.
 */
#define FM_SLOW_CLOSE 1

/**
 * Length of Sec-WebSocket-Accept, in bytes.
 */
#define FM_WS_ACCEPT_BYTES 28

/**
 * Maximum payload of a close frame, in bytes.
 */
#define FM_WS_CLOSE_BYTES 125

/**
 * Frames may be masked or not.
 */
#define FM_WS_MASK_EITHER 0

/**
 * Frames must be masked, because they are from a client.
 */
#define FM_WS_MASK_REQUIRED 1

/**
 * Frames must not be masked, because they are from a server.
 */
#define FM_WS_MASK_FORBIDDEN 2

/**
 * There is nothing for the application, but the output may have bytes to send.
 */
#define FM_WS_RECEIVED_NOTHING 0

/**
 * The handshake has succeeded.
 */
#define FM_WS_RECEIVED_OPEN 1

/**
 * A text message.
 */
#define FM_WS_RECEIVED_TEXT 2

/**
 * A binary message.
 */
#define FM_WS_RECEIVED_BINARY 3

/**
 * A pong.
 */
#define FM_WS_RECEIVED_PONG 4

/**
 * A close frame; no message follows.
 */
#define FM_WS_RECEIVED_CLOSE 5

/**
 * Handle of the companion, in its own process and in every process that it forks.
 */
typedef struct FmCompanion FmCompanion;

/**
 * State of the worker in this process, for `fm_in_process_end`.
 */
typedef struct FmMemory FmMemory;

/**
 * An open file.
 */
typedef struct FmOpenFile FmOpenFile;

/**
 * A server that has not started.
 */
typedef struct FmServer FmServer;

/**
 * This process's handle of a table. Each forked process has its own handle.
 */
typedef struct FmTable FmTable;

/**
 * A worker process.
 */
typedef struct FmWorker FmWorker;

/**
 * A WebSocket connection from its handshake until its close.
 */
typedef struct FmWsClient FmWsClient;

/**
 * A request, from its event until its client is released. The handle also identifies the stream or hold that responds to the
 * request. 0 means none.
 */
typedef uint64_t FmRequest;

/**
 * Bytes with a length, not NUL-terminated. `ptr` is NULL if and only if the value is absent.
 *
 * Invariant: in a value made by C, `ptr` is NULL or points to `len` bytes that stay unchanged until the function returns. Values
 * that Rust makes with `lend` are only returned to C.
 */
typedef struct FmStr {
  /**
   * First byte.
   */
  const char *ptr;
  /**
   * Number of bytes.
   */
  size_t len;
} FmStr;

/**
 * A field line of a response.
 */
typedef struct FmHeader {
  /**
   * Field name.
   */
  struct FmStr name;
  /**
   * Field value.
   */
  struct FmStr value;
} FmHeader;

/**
 * A complete response.
 */
typedef struct FmResponse {
  /**
   * 200 to 599.
   */
  uint32_t status;
  /**
   * Content-Type. `ptr` is NULL for none.
   */
  struct FmStr content_type;
  /**
   * Additional field lines; each has passed `fm_header_valid`.
   */
  const struct FmHeader *headers;
  /**
   * Number of `headers`.
   */
  size_t headers_len;
  /**
   * Content.
   */
  struct FmStr body;
  /**
   * Reason phrase for HTTP/1. `ptr` is NULL for the standard phrase. The phrase has passed `fm_header_valid`.
   */
  struct FmStr reason;
} FmResponse;

/**
 * An error message for the user: UTF-8, `len` bytes, truncated at a character boundary if too long.
 */
typedef struct FmError {
  /**
   * Bytes used of `message`.
   */
  uint32_t len;
  /**
   * The message.
   */
  char message[FM_ERROR_BYTES];
} FmError;

/**
 * Source location and request of a log line. Strings may be absent.
 */
typedef struct FmDetail {
  /**
   * Handler of the route, as for `fm_note_handler`.
   */
  uint32_t handler;
  /**
   * Line in `file`.
   */
  uint32_t line;
  /**
   * Request method.
   */
  struct FmStr method;
  /**
   * Class of the exception.
   */
  struct FmStr exception;
  /**
   * Source file.
   */
  struct FmStr file;
  /**
   * Stack trace, one call per line.
   */
  struct FmStr trace;
} FmDetail;

/**
 * A file as a response.
 */
typedef struct FmFile {
  /**
   * Path below `root`, or path of the file system without `root`.
   */
  struct FmStr path;
  /**
   * Directory that must contain the file; `ptr` NULL for any.
   */
  struct FmStr root;
  /**
   * Handler of `fm_server_guard_files` whose tree contains the file. FM_NO_HANDLER: no tree contains it. With a handler, `path`
   * is the decoded path of the request.
   */
  uint32_t tree;
  /**
   * Content-Type. If `ptr` is NULL, it is derived from the file name.
   */
  struct FmStr content_type;
  /**
   * Status, 200 to 599. Conditions and ranges apply only to 200.
   */
  uint32_t status;
  /**
   * Additional field lines of the response; each has passed `fm_header_valid`.
   */
  const struct FmHeader *headers;
  /**
   * Number of `headers`.
   */
  size_t headers_len;
  /**
   * Field lines of the request; only conditions, ranges and codings are used.
   */
  const struct FmHeader *asked;
  /**
   * Number of `asked`.
   */
  size_t asked_len;
} FmFile;

/**
 * A reader of a channel. 0 means none.
 */
typedef uint64_t FmReader;

/**
 * A message from a channel's history.
 */
typedef struct FmPast {
  /**
   * Event id.
   */
  struct FmStr id;
  /**
   * Event name. `ptr` is NULL for none.
   */
  struct FmStr name;
  /**
   * Event data.
   */
  struct FmStr data;
  /**
   * Publish time in milliseconds since 1970.
   */
  uint64_t time_ms;
} FmPast;

/**
 * Input of a Pusher signature.
 */
typedef struct FmAuthOf {
  /**
   * Key of the Pusher application.
   */
  struct FmStr key;
  /**
   * Secret of the application.
   */
  struct FmStr secret;
  /**
   * Socket id of the connection.
   */
  struct FmStr socket_id;
  /**
   * Channel to subscribe to; `ptr` NULL for a user sign-in.
   */
  struct FmStr channel;
  /**
   * JSON of the user. `ptr` is NULL for none.
   */
  struct FmStr data;
} FmAuthOf;

/**
 * A Pusher signature.
 */
typedef struct FmAuth {
  /**
   * Bytes used of `text`.
   */
  uint32_t len;
  /**
   * `KEY:SIGNATURE`.
   */
  char text[FM_AUTH_BYTES];
} FmAuth;

/**
 * A Mercure update.
 */
typedef struct FmUpdate {
  /**
   * Topics.
   */
  const struct FmStr *topics;
  /**
   * Number of `topics`.
   */
  size_t topics_len;
  /**
   * Event data.
   */
  struct FmStr data;
  /**
   * Event id. If `ptr` is NULL, the server assigns an id.
   */
  struct FmStr id;
  /**
   * Event type. `ptr` is NULL for none.
   */
  struct FmStr kind;
  /**
   * Reconnection time of subscribers in milliseconds. -1: none is sent.
   */
  int64_t retry_ms;
  /**
   * True if only subscribers whose token covers a topic receive the update.
   */
  bool is_private;
} FmUpdate;

/**
 * A PHP-FPM pool, and the paths that it serves.
 */
typedef struct FmFastCgi {
  /**
   * Path prefix; `/` for all paths.
   */
  struct FmStr prefix;
  /**
   * Path of a Unix socket, or `HOST:PORT`.
   */
  struct FmStr socket;
  /**
   * Directory of the scripts on PHP-FPM's machine.
   */
  struct FmStr root;
  /**
   * Script for paths that name no script. `ptr` is NULL for none.
   */
  struct FmStr index;
  /**
   * Maximum time without output from PHP-FPM, in seconds.
   */
  double timeout_s;
  /**
   * Idle time after which a connection is closed, in seconds; 0 = no reuse.
   */
  double keep_s;
  /**
   * Maximum size of a request body in bytes; -1 = the setting's value.
   */
  int64_t body_bytes_max;
  /**
   * Maximum number of connections per worker.
   */
  uint32_t connections_max;
  /**
   * Maximum number of requests per worker that wait for a connection.
   */
  uint32_t queue_max;
  /**
   * True if `root` is on this machine. The worker then serves the files in it and checks that scripts exist.
   */
  bool has_files;
  /**
   * True to forward a request body while it arrives.
   */
  bool streams_body;
} FmFastCgi;

/**
 * A file job. FM_FILE_* documents which fields each kind uses.
 */
typedef struct FmFileJob {
  /**
   * FM_FILE_*.
   */
  uint32_t kind;
  /**
   * FM_WRITE_* or FM_OPEN_*.
   */
  uint32_t mode;
  /**
   * Permissions of created files, as for `open`.
   */
  uint32_t permissions;
  /**
   * See FM_FILE_*.
   */
  bool flag;
  /**
   * See FM_FILE_*.
   */
  struct FmStr path;
  /**
   * See FM_FILE_*.
   */
  struct FmStr other;
  /**
   * Bytes to write.
   */
  struct FmStr data;
  /**
   * See FM_FILE_*.
   */
  uint64_t offset;
  /**
   * See FM_FILE_*.
   */
  int64_t length;
  /**
   * Open file that the job works on.
   */
  const struct FmOpenFile *file;
} FmFileJob;

/**
 * A pending file job. 0 means none.
 */
typedef uint64_t FmFileJobId;

/**
 * Result of a job; fields that do not apply to the job are 0.
 */
typedef struct FmFileResult {
  /**
   * Bytes read. `ptr` is NULL after the last line. In lists, a NUL follows each name. Valid until the next call with a job or
   * result.
   */
  struct FmStr bytes;
  /**
   * Number of bytes written or copied.
   */
  uint64_t count;
  /**
   * Opened file. The caller frees it.
   */
  struct FmOpenFile *file;
  /**
   * FM_TYPE_*.
   */
  uint32_t file_type;
  /**
   * Lowest twelve bits of the mode.
   */
  uint32_t permissions;
  /**
   * File size in bytes.
   */
  uint64_t size;
  /**
   * User id of the owner.
   */
  uint32_t owner;
  /**
   * Group id.
   */
  uint32_t group;
  /**
   * Inode number.
   */
  uint64_t inode;
  /**
   * Device number.
   */
  uint64_t device;
  /**
   * Number of hard links.
   */
  uint64_t links;
  /**
   * Modification time, seconds since 1970.
   */
  double modified_s;
  /**
   * Access time, seconds since 1970.
   */
  double accessed_s;
  /**
   * Status change time, seconds since 1970.
   */
  double changed_s;
} FmFileResult;

/**
 * A call. FM_CALL_* documents which fields each kind uses.
 */
typedef struct FmFileCall {
  /**
   * FM_CALL_*.
   */
  uint32_t kind;
  /**
   * See FM_CALL_*.
   */
  int32_t flags;
  /**
   * Permissions of created files.
   */
  uint32_t mode;
  /**
   * See FM_CALL_*. The caller may close the descriptor after `fm_file_call` returns, except for FM_CALL_*_HELD.
   */
  int32_t fd;
  /**
   * See FM_CALL_*.
   */
  int32_t other_fd;
  /**
   * See FM_CALL_*.
   */
  struct FmStr path;
  /**
   * See FM_CALL_*.
   */
  struct FmStr other;
  /**
   * Bytes to write.
   */
  struct FmStr data;
  /**
   * See FM_CALL_*.
   */
  uint64_t offset;
  /**
   * See FM_CALL_*.
   */
  uint64_t len;
} FmFileCall;

/**
 * A WebSocket, from `fm_ws_accept_request` until FM_EVENT_WS_CLOSE. 0 means none.
 */
typedef uint64_t FmSocket;

/**
 * An event from `fm_next_event`.
 */
typedef struct FmEvent {
  /**
   * FM_EVENT_*.
   */
  uint32_t kind;
  /**
   * Handler number of the route.
   */
  uint32_t handler;
  /**
   * Handle of the request, which the response refers to.
   */
  FmRequest request;
  /**
   * WebSocket of FM_EVENT_WS_*.
   */
  FmSocket socket;
  /**
   * Close code of FM_EVENT_WS_CLOSE.
   */
  uint16_t code;
  /**
   * True if the message of FM_EVENT_WS_MESSAGE is binary. Otherwise the message is valid UTF-8.
   */
  bool binary;
  /**
   * Status that the core would have sent without the handlers of `fm_server_fallback` and `fm_server_guard_files`. 0 for all
   * other handlers.
   */
  uint16_t unrouted;
  /**
   * Content without transfer coding; for a WebSocket the message or the close reason.
   */
  struct FmStr body;
  /**
   * Method as sent.
   */
  struct FmStr method;
  /**
   * Path, percent-decoded.
   */
  struct FmStr path;
  /**
   * Request-target as sent.
   */
  struct FmStr target;
  /**
   * Query after the first `?`, as sent; `ptr` NULL without a `?`.
   */
  struct FmStr query;
  /**
   * Allow header for a response with the status `unrouted`. `ptr` is NULL for none.
   */
  struct FmStr allow;
  /**
   * Number of header field lines.
   */
  uint32_t headers_len;
  /**
   * Parts of the body outside of `body`, for `fm_upload_*`. 0 means none. Release the upload after the request.
   * FM_UPLOAD_ARRIVING: the body is still arriving and `fm_body_read` reads it.
   */
  uint32_t upload;
} FmEvent;

/**
 * A message to publish or to send.
 */
typedef struct FmMessage {
  /**
   * Event name. `ptr` is NULL for none.
   */
  struct FmStr name;
  /**
   * Event data.
   */
  struct FmStr data;
} FmMessage;

/**
 * The text of an event id.
 */
typedef struct FmId {
  /**
   * Bytes used of `text`.
   */
  uint32_t len;
  /**
   * The id.
   */
  char text[FM_ID_BYTES];
} FmId;

/**
 * A publish that waits for the cluster log. 0 means none.
 */
typedef uint64_t FmPublish;

/**
 * A parsed `traceparent` header value; the strings are parts of that value.
 */
typedef struct FmTraceParent {
  /**
   * Trace id, 32 hexadecimal digits.
   */
  struct FmStr trace_id;
  /**
   * Span id of the sender, 16 hexadecimal digits.
   */
  struct FmStr parent_id;
  /**
   * True if the sender may have recorded the trace.
   */
  bool is_sampled;
} FmTraceParent;

/**
 * Span that the server records for a request, in hexadecimal digits.
 */
typedef struct FmSpan {
  /**
   * Trace id.
   */
  uint8_t trace_id[32];
  /**
   * Span id.
   */
  uint8_t id[16];
} FmSpan;

/**
 * Options of `fm_server_static`.
 */
typedef struct FmStatic {
  /**
   * Seconds for which clients may reuse a file without revalidation; -1 sends no Cache-Control.
   */
  int64_t cache_seconds;
  /**
   * True if clients need not revalidate even on a reload.
   */
  bool immutable;
  /**
   * Name of the file that is served for a directory. Empty for none.
   */
  struct FmStr index;
  /**
   * True if precompressed sibling files are sent.
   */
  bool precompressed;
  /**
   * True if files without such a sibling are compressed.
   */
  bool compress;
  /**
   * True if PHP source files are sent as text.
   */
  bool sources;
} FmStatic;

/**
 * Memory layout of PHP's stack frames: `current` is an address, all other fields are byte offsets.
 */
typedef struct FmFrames {
  /**
   * Address of the pointer to the innermost frame.
   */
  size_t current;
  /**
   * In a frame: pointer to its function.
   */
  size_t frame_function;
  /**
   * In a frame: pointer to the instruction that runs.
   */
  size_t frame_instruction;
  /**
   * In a frame: pointer to the frame that called it.
   */
  size_t frame_caller;
  /**
   * In a function: its kind, one byte.
   */
  size_t function_kind;
  /**
   * Function kind without file and line.
   */
  uint8_t kind_native;
  /**
   * In a function: pointer to its name, a string.
   */
  size_t function_name;
  /**
   * In a function: pointer to its class.
   */
  size_t function_class;
  /**
   * In a function that is not native: pointer to the name of its file, a string.
   */
  size_t function_file;
  /**
   * In a function that is not native: its first line, four bytes.
   */
  size_t function_first_line;
  /**
   * In a function that is not native: its last line, four bytes.
   */
  size_t function_last_line;
  /**
   * In a class: pointer to its name, a string.
   */
  size_t class_name;
  /**
   * In an instruction: its line, four bytes.
   */
  size_t instruction_line;
  /**
   * In a string: its length, a size_t.
   */
  size_t string_length;
  /**
   * In a string: its first byte.
   */
  size_t string_bytes;
} FmFrames;

/**
 * The process in which `fm_server_start` returned.
 */
typedef struct FmStart {
  /**
   * The worker. If both this field and `companion` are NULL, this is the calling process, and all workers have exited.
   */
  struct FmWorker *worker;
  /**
   * Exit code for the process (calling process only).
   */
  int32_t exit_code;
  /**
   * Worker index, starting at 0 (worker only).
   */
  uint32_t worker_index;
  /**
   * The companion. NULL in all other processes.
   */
  struct FmCompanion *companion;
  /**
   * Process id of a companion that still runs and that the caller must stop. Only the calling process gets it. 0 means none.
   */
  int32_t companion_pid;
  /**
   * True if SIGUSR2 stopped the server and no stop was requested since (calling process only).
   */
  bool is_to_restart;
} FmStart;

/**
 * WebSocket route. For bytes and milliseconds, -1 means the setting of the same name with the prefix `websocket_`. 0 disables a
 * time.
 */
typedef struct FmWsRoute {
  /**
   * Handler number, set in every event.
   */
  uint32_t handler;
  /**
   * FM_WS_ON_*; events without a callback are not delivered.
   */
  uint32_t callbacks;
  /**
   * Allowed origins, `scheme://host` or `scheme://host:port`. NULL allows only the origin of the same host.
   */
  const struct FmStr *origins;
  /**
   * Number of `origins`.
   */
  size_t origins_len;
  /**
   * True if all origins are allowed.
   */
  bool any_origin;
  /**
   * Subprotocols in order of preference.
   */
  const struct FmStr *protocols;
  /**
   * Number of `protocols`.
   */
  size_t protocols_len;
  /**
   * Maximum size of a message, in bytes.
   */
  int64_t message_bytes_max;
  /**
   * Maximum size of a frame, in bytes. 0 means the same as for a message.
   */
  int64_t frame_bytes_max;
  /**
   * Maximum number of bytes that are queued for one socket.
   */
  int64_t queue_bytes_max;
  /**
   * Idle time before a ping.
   */
  int64_t ping_interval_ms;
  /**
   * Time to wait for any input after a ping. After this time, the connection is closed.
   */
  int64_t pong_timeout_ms;
  /**
   * Time without a message before the socket is closed.
   */
  int64_t idle_timeout_ms;
  /**
   * FM_WS_REFUSE, FM_WS_DROP_OLDEST or FM_WS_CLOSE_SLOW.
   */
  uint32_t queue_policy;
  /**
   * True if permessage-deflate is negotiated. The fields below apply only then.
   */
  bool compresses;
  /**
   * True to keep the compression window between sent messages.
   */
  bool server_takeover;
  /**
   * True if clients may keep the compression window between their messages.
   */
  bool client_takeover;
  /**
   * Window size as a power of two, 9 to 15.
   */
  uint8_t window_bits;
  /**
   * Compression level, 1 (fast) to 9 (small).
   */
  uint8_t level;
  /**
   * Shorter messages are sent uncompressed.
   */
  uint32_t compress_bytes_min;
} FmWsRoute;

/**
 * A subscription of a socket to a channel.
 */
typedef struct FmWsJoin {
  /**
   * Channel name.
   */
  struct FmStr channel;
  /**
   * User for presence. `ptr` is NULL for none.
   */
  struct FmStr user;
  /**
   * JSON about the user. `ptr` is NULL for none.
   */
  struct FmStr info;
  /**
   * True if `join` and `leave` events are published.
   */
  bool announce;
  /**
   * Last event id that the client received. `ptr` is NULL for none.
   */
  struct FmStr since;
  /**
   * True if a client without an id receives all stored events.
   */
  bool from_start;
  /**
   * FM_WS_FORMAT_*.
   */
  uint32_t format;
} FmWsJoin;

/**
 * State of a socket.
 */
typedef struct FmWsInfo {
  /**
   * True if messages can be sent.
   */
  bool open;
  /**
   * Bytes queued for the client.
   */
  size_t queued_bytes;
  /**
   * Subprotocol. `ptr` is NULL for none. Valid until the next `fm_next_event`.
   */
  struct FmStr protocol;
} FmWsInfo;

/**
 * Value of a column; `kind` selects the field.
 */
typedef struct FmValue {
  /**
   * One of FM_COLUMN_*.
   */
  uint32_t kind;
  /**
   * Value of FM_COLUMN_INT.
   */
  int64_t number;
  /**
   * Value of FM_COLUMN_FLOAT.
   */
  double real;
  /**
   * Value of FM_COLUMN_STRING.
   */
  struct FmStr text;
} FmValue;

/**
 * An uploaded file of a form.
 */
typedef struct FmUploadedFile {
  /**
   * Name of the form field.
   */
  struct FmStr field;
  /**
   * File name from the client, without directories.
   */
  struct FmStr name;
  /**
   * Content-Type from the client. `ptr` is NULL for none.
   */
  struct FmStr content_type;
  /**
   * Temporary path.
   */
  struct FmStr path;
  /**
   * Size in bytes.
   */
  uint64_t bytes;
} FmUploadedFile;

/**
 * Settings about fibers.
 */
typedef struct FmFibers {
  /**
   * Maximum number of fibers.
   */
  uint32_t max;
  /**
   * Maximum number of idle fibers kept for reuse.
   */
  uint32_t idle_max;
  /**
   * Maximum number of tasks that have not started.
   */
  uint32_t tasks_max;
  /**
   * Maximum number of tasks per request.
   */
  uint32_t tasks_per_request_max;
  /**
   * Maximum time to wait for a connection that another handler uses, in milliseconds.
   */
  uint64_t shared_wait_ms;
  /**
   * Stack size of a fiber in bytes.
   */
  size_t stack_bytes;
  /**
   * Maximum time that a query continues after its client disconnected.
   */
  uint64_t abandoned_query_ms_max;
  /**
   * Maximum time that a handler may wait in `shield()` after its client disconnected.
   */
  uint64_t abandoned_wait_ms_max;
  /**
   * Maximum number of running handlers; 0 for no limit.
   */
  uint32_t handlers_max;
  /**
   * Memory limit in bytes for an application that sets none; 0 for none.
   */
  size_t memory_bytes_max;
  /**
   * Maximum time that one handler may block the worker in callbacks that must not wait, in milliseconds.
   */
  uint64_t callback_wait_ms_max;
  /**
   * True if such a wait throws an exception.
   */
  bool callback_wait_throws;
} FmFibers;

/**
 * Data that an edge added to a request.
 */
typedef struct FmGrip {
  /**
   * Value of the Grip-Sig header.
   */
  struct FmStr signature;
  /**
   * Request-target as sent.
   */
  struct FmStr target;
  /**
   * Values of the Grip-Last headers.
   */
  const struct FmStr *lasts;
  /**
   * Number of `lasts`.
   */
  size_t lasts_len;
} FmGrip;

/**
 * A response that keeps the client connected.
 */
typedef struct FmHold {
  /**
   * FM_FORMAT_*.
   */
  uint8_t format;
  /**
   * Channels to subscribe to.
   */
  const struct FmStr *channels;
  /**
   * Number of `channels`.
   */
  size_t channels_len;
  /**
   * User for presence. `ptr` is NULL for none.
   */
  struct FmStr user;
  /**
   * JSON about the user. `ptr` is NULL for none.
   */
  struct FmStr info;
  /**
   * True if `join` and `leave` events are published.
   */
  bool announce;
  /**
   * Last event id that the client received. `ptr` is NULL for none.
   */
  struct FmStr since;
  /**
   * True if a client without an id receives all stored events.
   */
  bool from_start;
  /**
   * Milliseconds without output before a keep-alive comment; -1 = default, 0 = never.
   */
  int64_t keep_alive_ms;
  /**
   * FM_SLOW_*.
   */
  uint32_t slow;
  /**
   * Initial events for this client only.
   */
  const struct FmMessage *with;
  /**
   * Number of `with`.
   */
  size_t with_len;
  /**
   * Additional response field lines; each has passed `fm_header_valid`.
   */
  const struct FmHeader *headers;
  /**
   * Number of `headers`.
   */
  size_t headers_len;
  /**
   * Data that an edge added to the request; NULL without an edge's signature.
   */
  const struct FmGrip *grip;
} FmHold;

/**
 * A present user.
 */
typedef struct FmMember {
  /**
   * User name.
   */
  struct FmStr user;
  /**
   * JSON about the user. `ptr` is NULL for none.
   */
  struct FmStr info;
  /**
   * Connections over all workers.
   */
  uint32_t connections;
} FmMember;

/**
 * A pending read of history from the cluster log. 0 means none.
 */
typedef uint64_t FmReading;

/**
 * The header of a frame.
 */
typedef struct FmWsFrame {
  /**
   * Length of the header, in bytes.
   */
  size_t header_bytes;
  /**
   * Length of the payload after the header, in bytes.
   */
  size_t payload_bytes;
  /**
   * Masking key if `masked`.
   */
  uint8_t key[4];
  /**
   * Close code to send after a violation, or the code of a close frame whose payload was read. 0 means none.
   */
  uint16_t close_code;
  /**
   * Opcode (RFC 6455, 11.8).
   */
  uint8_t opcode;
  /**
   * Reserved bits at their positions in the first byte: 0x40, 0x20, 0x10.
   */
  uint8_t reserved;
  /**
   * True for the last frame of a message.
   */
  bool fin;
  /**
   * True if the payload is masked.
   */
  bool masked;
} FmWsFrame;

/**
 * Parameters of a WebSocket handshake.
 */
typedef struct FmWsOpening {
  /**
   * Value of the `Host` header.
   */
  struct FmStr host;
  /**
   * Path and query.
   */
  struct FmStr target;
  /**
   * Subprotocols in order of preference.
   */
  const struct FmStr *protocols;
  /**
   * Number of subprotocols.
   */
  size_t protocols_len;
  /**
   * Additional headers.
   */
  const struct FmHeader *headers;
  /**
   * Number of additional headers.
   */
  size_t headers_len;
  /**
   * Maximum length of a received message, in bytes.
   */
  size_t message_bytes_max;
  /**
   * True if compression is offered.
   */
  bool compression;
} FmWsOpening;

/**
 * A received message or state change.
 */
typedef struct FmWsReceived {
  /**
   * FM_WS_RECEIVED_*.
   */
  uint32_t kind;
  /**
   * Close code of a close frame (1005 for none) or of a protocol violation; HTTP status of a refused handshake.
   */
  uint16_t code;
  /**
   * Message, pong payload or close reason; valid until the next call.
   */
  struct FmStr payload;
} FmWsReceived;

/**
 * Returns how to respond to a request with a stream: FM_STREAM_*.
 */
uint32_t fm_stream_wanted(const struct FmWorker *worker, FmRequest request, uint32_t status);

/**
 * Starts a response stream. The first piece is the body of `response`. `taken` receives the number of bytes accepted. `length` is
 * the total length of all pieces, or -1 if it is unknown. FM_EVENT_STREAM requests more. FM_GONE; FM_MISUSE if the piece exceeds
 * `length`; the request is then still open.
 */
uint32_t fm_stream_begin(struct FmWorker *worker,
                         FmRequest request,
                         const struct FmResponse *response,
                         int64_t length,
                         size_t *taken,
                         struct FmError *error);

/**
 * Passes the next piece of a stream. `taken` receives the number of bytes accepted. Pass the rest at the next FM_EVENT_STREAM.
 * FM_GONE; FM_MISUSE if the stream exceeds its length: end it with `fm_stream_fail`.
 */
uint32_t fm_stream_write(struct FmWorker *worker,
                         FmRequest request,
                         struct FmStr piece,
                         size_t *taken,
                         struct FmError *error);

/**
 * Ends a stream. FM_GONE; FM_MISUSE if it is shorter than its length: end it with `fm_stream_fail`.
 */
uint32_t fm_stream_end(struct FmWorker *worker, FmRequest request, struct FmError *error);

/**
 * Aborts a stream so that the client detects the truncation, and logs `message` with its details. FM_GONE.
 */
uint32_t fm_stream_fail(struct FmWorker *worker,
                        FmRequest request,
                        struct FmStr message,
                        const struct FmDetail *detail);

/**
 * Aborts a stream without a log line, unless it has ended.
 */
void fm_stream_cut(struct FmWorker *worker, FmRequest request);

/**
 * Looks up the decoded `path` of a request in the file tree that `handler` guards. Returns FM_STATIC_*.
 */
uint32_t fm_static_find(struct FmWorker *worker,
                        uint32_t handler,
                        struct FmStr path);

/**
 * Responds with a file: with the complete file, with a range, or with 304. Responds with 404 if the file does not exist. FM_GONE.
 */
uint32_t fm_respond_file(struct FmWorker *worker,
                         FmRequest request,
                         const struct FmFile *file);

/**
 * Opens a reader of a channel, to be closed with `fm_reader_close`. It starts after the event `since`; with `since.ptr` NULL at
 * the oldest stored event if `from_start` is true, otherwise after the newest. FM_MISUSE.
 */
uint32_t fm_reader_open(struct FmWorker *worker,
                        struct FmStr channel,
                        struct FmStr since,
                        bool from_start,
                        FmReader *reader,
                        struct FmError *error);

/**
 * Reads the next event. `what` receives FM_READ_*, `past` the event or the reason of a gap. Its strings stay valid until the next
 * call of this function, `fm_history` or `fm_history_next`. FM_MISUSE: the reader is closed.
 */
uint32_t fm_reader_next(struct FmWorker *worker,
                        FmReader reader,
                        uint32_t *what,
                        struct FmPast *past,
                        struct FmError *error);

/**
 * Returns the reader of the last FM_EVENT_CHANNEL. It may have been closed since.
 */
FmReader fm_reader_woken(const struct FmWorker *worker);

/**
 * Closes a reader. FM_EVENT_CHANNEL may still follow for it.
 */
void fm_reader_close(struct FmWorker *worker, FmReader reader);

/**
 * Writes a log line under the companion's name; `level` from 0 (error) to 3 (debug).
 */
void fm_companion_log(const struct FmCompanion *companion, uint32_t level, struct FmStr message);

/**
 * Logs a line that a job wrote to standard error, regardless of `log_level`.
 */
void fm_companion_log_text(const struct FmCompanion *companion, struct FmStr line);

/**
 * Counts an event of the job processes (FM_COMPANION_*).
 */
void fm_companion_count(const struct FmCompanion *companion, uint32_t what);

/**
 * Returns the memory limit for a process whose PHP has none; 0 = no limit.
 */
size_t fm_companion_memory_bytes_max(const struct FmCompanion *companion);

/**
 * Frees the companion before its process exits.
 */
void fm_companion_free(struct FmCompanion *companion);

/**
 * Serves an application of the Pusher protocol. `app` is a JSON object with the keys of an `[[app]]` table of
 * `fermata hub`; `path` is the prefix of `/app` and `/apps`. FM_CONFIGURATION.
 */
uint32_t fm_server_pusher(struct FmServer *server,
                          struct FmStr app,
                          struct FmStr path,
                          struct FmError *error);

/**
 * Serves Mercure. `mercure` is a JSON object with the keys of the `[mercure]` table of `fermata hub`.
 * FM_CONFIGURATION.
 */
uint32_t fm_server_mercure(struct FmServer *server,
                           struct FmStr mercure,
                           struct FmError *error);

/**
 * Signs a subscription or a user sign-in. FM_PROTOCOL if the client sent an invalid socket id or channel;
 * FM_CONFIGURATION if the key or secret is invalid.
 */
uint32_t fm_pusher_sign(const struct FmAuthOf *of,
                        struct FmAuth *out,
                        struct FmError *error);

/**
 * Returns true for presence channels, whose subscriptions name a user.
 */
bool fm_pusher_has_members(struct FmStr channel);

/**
 * Returns true if `fm_server_mercure` was called.
 */
bool fm_worker_has_mercure(const struct FmWorker *worker);

/**
 * Publishes an update to Mercure subscribers. `id` stays valid until the next call with this worker. FM_MISUSE,
 * FM_BACKPRESSURE.
 */
uint32_t fm_mercure_publish(struct FmWorker *worker,
                            const struct FmUpdate *update,
                            struct FmStr *id,
                            struct FmError *error);

/**
 * Forwards requests below a prefix to PHP-FPM. These requests cause no events. FM_MISUSE names the argument.
 */
uint32_t fm_server_fastcgi(struct FmServer *server,
                           const struct FmFastCgi *given,
                           struct FmError *error);

/**
 * Starts a job. With `user` 0 it completes before the call returns, after earlier jobs that it must not overtake. If
 * `worker` is NULL, it completes immediately. If `id` is 0, the job is complete, and the code and `result`
 * describe the outcome: FM_OK, FM_FILE_*, FM_BACKPRESSURE (too many jobs, or no descriptor left). Otherwise the job
 * is pending, and after FM_EVENT_WAKE `fm_file_next` may return `user`.
 */
uint32_t fm_file_begin(struct FmWorker *worker,
                       const struct FmFileJob *job,
                       uint64_t bytes_max,
                       uint64_t user,
                       FmFileJobId *id,
                       struct FmFileResult *result,
                       struct FmError *error);

/**
 * Returns the `user` of the next pending job that has completed. Returns false if there is none.
 */
bool fm_file_next(struct FmWorker *worker, uint64_t *user);

/**
 * Returns the outcome of a job that `fm_file_next` returned, as `fm_file_begin` does.
 */
uint32_t fm_file_take(struct FmWorker *worker,
                      FmFileJobId id,
                      struct FmFileResult *result,
                      struct FmError *error);

/**
 * Stops waiting for a job. The job still completes.
 */
void fm_file_forget(struct FmWorker *worker, FmFileJobId id);

/**
 * Opens `length` bytes (-1: all) of `path` from `offset`, if they are in the page cache and small enough to read
 * inside the event loop. Returns the buffer size for `fm_file_cached_read`, or -1.
 */
int64_t fm_file_cached(const struct FmWorker *worker,
                       struct FmStr path,
                       uint64_t offset,
                       int64_t length);

/**
 * Reads the file that `fm_file_cached` opened, and closes it. Returns false if a part is no longer cached. Use a job then.
 *
 * # Safety
 * The contract at the head of the header: bytes and arrays have the documented sizes.
 */
bool fm_file_cached_read(char *into);

/**
 * Releases the bytes of the last result.
 */
void fm_file_release(void);

/**
 * Returns the setting file_read_bytes_max, the `bytes_max` of `fm_file_begin` with this worker.
 */
uint64_t fm_file_bytes_max(const struct FmWorker *worker);

/**
 * Frees an open file, and removes a temporary one. Pending jobs still complete.
 */
void fm_open_file_free(struct FmOpenFile *file);

/**
 * Closes an open file, and removes a temporary one. Later jobs on it fail.
 */
void fm_open_file_close(struct FmOpenFile *file);

/**
 * Returns the position of the next read or write.
 */
uint64_t fm_open_file_position(const struct FmOpenFile *file);

/**
 * Returns true if the file is removed when it is closed.
 */
bool fm_open_file_is_temporary(const struct FmOpenFile *file);

/**
 * Locks an open file (FM_LOCK_*); blocks only if `waits` is set. `locked` is false if another process holds the
 * lock.
 */
uint32_t fm_open_file_lock(struct FmOpenFile *file,
                           uint32_t lock,
                           bool waits,
                           bool *locked,
                           struct FmError *error);

/**
 * Starts a call. Returns false if that is impossible. The caller then makes the call itself. If `id` is 0, the call is complete
 * and `answer` is its result or a negative error number. Otherwise it is pending, and after FM_EVENT_WAKE `fm_file_next` may
 * return `user`; then call `fm_file_call_take` or `fm_file_forget`.
 */
bool fm_file_call(struct FmWorker *worker,
                  const struct FmFileCall *call,
                  uint64_t user,
                  FmFileJobId *id,
                  int64_t *answer);

/**
 * Returns the result of a call that `fm_file_next` returned. The result has the form of `answer` of `fm_file_call`.
 */
int64_t fm_file_call_take(struct FmWorker *worker,
                          FmFileJobId id);

/**
 * Returns true if the caller may make a short call inside the event loop. The call transfers `bytes`. If `writes` is true, it
 * writes to this file. Call `fm_file_tried` afterwards.
 */
bool fm_file_may_try(struct FmWorker *worker,
                     uint64_t bytes,
                     bool writes,
                     uint64_t device,
                     uint64_t inode);

/**
 * Records that the call of `fm_file_may_try` was made.
 */
void fm_file_tried(struct FmWorker *worker);

/**
 * Completes pending writes to a file before a caller that cannot wait writes to it.
 */
void fm_file_settle(struct FmWorker *worker, uint64_t device, uint64_t inode);

/**
 * Returns the setting file_inline_bytes_max, which is the maximum number of bytes that one call transfers inside the event loop.
 */
uint64_t fm_file_inline_bytes_max(const struct FmWorker *worker);

/**
 * Creates the worker of a server in the calling process. Always consumes the server. The worker's clock is stopped. The log is an
 * unnamed file, for which `log` is a descriptor that the caller owns. Free the worker before `memory`.
 */
uint32_t fm_in_process_start(struct FmServer *server,
                             int32_t *log,
                             struct FmWorker **out,
                             struct FmMemory **memory,
                             struct FmError *error);

/**
 * Adds a connected stream as if the worker had accepted it from `address`, an IP address. An empty address means a Unix socket.
 * FM_MISUSE for an invalid address. The caller then still owns the descriptor.
 */
uint32_t fm_in_process_connect(struct FmWorker *worker,
                               int32_t fd,
                               struct FmStr address,
                               uint16_t port,
                               struct FmError *error);

/**
 * Like `fm_next_event`, but returns false if nothing is left to do now. Waits at most `wait_ms` for events from
 * outside the process.
 */
bool fm_in_process_next(struct FmWorker *worker,
                        uint64_t wait_ms,
                        struct FmEvent *event);

/**
 * Advances the clock to the next timer, at most by `ms_max`. Returns the milliseconds advanced.
 */
uint64_t fm_in_process_advance(struct FmWorker *worker, uint64_t ms_max);

/**
 * Restores the log to standard error and restarts the clock, after the worker was freed.
 */
void fm_in_process_end(struct FmMemory *memory);

/**
 * Counts a finished task of a kind (FM_TASK_*).
 */
void fm_count_task(struct FmWorker *worker, uint32_t kind, bool has_failed);

/**
 * Counts skipped runs of `every()`.
 */
void fm_count_skipped(struct FmWorker *worker, uint64_t runs);

/**
 * Sets the number of waiting handlers and tasks, and of tasks that have not started.
 */
void fm_worker_waiting(struct FmWorker *worker, uint32_t fibers, uint32_t tasks);

/**
 * Sets the number of pending job calls.
 */
void fm_worker_jobs(struct FmWorker *worker, uint32_t pending);

/**
 * Counts a finished job call by its outcome (FM_JOB_*).
 */
void fm_count_job(struct FmWorker *worker, uint32_t end);

/**
 * Publishes through the control socket `unix:/path` of a running server and waits for its reply. FM_IO, FM_TIMEOUT,
 * FM_MISUSE, FM_BACKPRESSURE.
 */
uint32_t fm_publisher_publish(struct FmStr control,
                              uint32_t timeout_ms,
                              struct FmStr channel,
                              const struct FmMessage *message,
                              struct FmId *id,
                              struct FmError *error);

/**
 * Publishes a message. FM_OK: the message is in the channel's log, or in a cluster in the shared log. With FM_ACK_LOCAL the
 * message is queued for the shared log and the id is empty. The socket `except` of this worker does not receive it; 0 = no
 * exception.
 */
uint32_t fm_publish(struct FmWorker *worker,
                    struct FmStr channel,
                    const struct FmMessage *message,
                    FmSocket except,
                    uint32_t ack,
                    struct FmId *id,
                    struct FmError *error);

/**
 * Publishes to all clients except one Pusher client of any worker, identified by its socket id. An id of another
 * server excludes no client. In a cluster the call blocks until the log replies.
 */
uint32_t fm_publish_except(struct FmWorker *worker,
                           struct FmStr channel,
                           const struct FmMessage *message,
                           struct FmStr socket_id,
                           struct FmId *id,
                           struct FmError *error);

/**
 * Sets the handle of the request whose handler publishes next, so that the publish is part of the request's trace. 0 means none.
 */
void fm_publish_for(struct FmWorker *worker,
                    FmRequest request);

/**
 * Sends a message to the workers of all other servers of the cluster, which receive FM_EVENT_PEER_MESSAGE. Does nothing without a
 * cluster. FM_OK: the message is queued. FM_MISUSE (too large), FM_BACKPRESSURE (the log is unavailable).
 */
uint32_t fm_worker_send_to_servers(struct FmWorker *worker,
                                   struct FmStr data,
                                   struct FmError *error);

/**
 * Returns true if a publish may take long, so that a handler should wait for it with `fm_publish_begin`.
 */
bool fm_publish_waits(const struct FmWorker *worker);

/**
 * Returns the maximum time of a publish in milliseconds.
 */
uint64_t fm_publish_wait_ms_max(const struct FmWorker *worker);

/**
 * Starts a publish like `fm_publish`, for a waiting handler. `began_ms` is the start of the first attempt in
 * `fm_worker_now_ms`, or 0 for a first attempt with FM_ACK_LOCAL. After FM_OK, `record` is 0 if the publish is
 * complete, or FM_PUBLISH_LATER to start it again a little later. Any other `record` is for `fm_publish_end`, after
 * `fm_publish_next` has returned `user`, which is not 0. FM_MISUSE, FM_BACKPRESSURE.
 */
uint32_t fm_publish_begin(struct FmWorker *worker,
                          struct FmStr channel,
                          const struct FmMessage *message,
                          FmSocket except,
                          uint32_t ack,
                          uint64_t user,
                          uint64_t began_ms,
                          FmPublish *record,
                          struct FmId *id,
                          struct FmError *error);

/**
 * Returns the `user` of the next publish with news from the log. Returns false if there is none.
 */
bool fm_publish_next(struct FmWorker *worker, uint64_t *user);

/**
 * Returns the outcome of a publish that started at `began_ms`: FM_OK, FM_BACKPRESSURE. While the publish is pending, `over` is
 * false and the result is FM_OK. The publish completes or times out within `fm_publish_wait_ms_max`.
 */
uint32_t fm_publish_end(struct FmWorker *worker,
                        FmPublish record,
                        uint64_t began_ms,
                        bool *over,
                        struct FmId *id,
                        struct FmError *error);

/**
 * Stops waiting for a publish. The message is still published.
 */
void fm_publish_forget(struct FmWorker *worker, FmPublish record);

/**
 * Marks a started stream whose handler keeps running. FM_EVENT_GONE then reports that its client disconnected, and
 * FM_EVENT_STREAM that all pushed bytes were sent.
 */
void fm_stream_watch(struct FmWorker *worker,
                     FmRequest request);

/**
 * Queues an event; `ptr` NULL for no `data`, `name` or `id`, `retry_ms` -1 for none. `queued` receives the encoded
 * size in bytes. FM_GONE; FM_MISUSE.
 */
uint32_t fm_stream_push(struct FmWorker *worker,
                        FmRequest request,
                        struct FmStr data,
                        struct FmStr name,
                        struct FmStr id,
                        int64_t retry_ms,
                        size_t *queued,
                        struct FmError *error);

/**
 * Queues a comment, like `fm_stream_push`.
 */
uint32_t fm_stream_comment(struct FmWorker *worker,
                           FmRequest request,
                           struct FmStr text,
                           size_t *queued,
                           struct FmError *error);

/**
 * Queues raw bytes, like `fm_stream_push`, for bodies that are not event streams.
 */
uint32_t fm_stream_bytes(struct FmWorker *worker,
                         FmRequest request,
                         struct FmStr bytes,
                         size_t *queued,
                         struct FmError *error);

/**
 * Counts `bytes` as buffered. PHP holds these bytes back for a slow client, and they may cause the client to be closed. Pass 0
 * when PHP holds none.
 */
void fm_stream_hold(struct FmWorker *worker,
                    FmRequest request,
                    size_t bytes);

/**
 * Returns true if the worker is draining.
 */
bool fm_worker_is_draining(const struct FmWorker *worker);

/**
 * Returns the setting keep_alive_ms; 0 = no comments.
 */
uint64_t fm_worker_keep_alive_ms(const struct FmWorker *worker);

/**
 * Returns the `nth` (from 0) field line of that name, ignoring case. Returns false if there is none.
 */
bool fm_request_header(struct FmWorker *worker,
                       FmRequest request,
                       struct FmStr lower_case_name,
                       size_t nth,
                       struct FmStr *value);

/**
 * Returns the field line at `index`: name as sent, and value. False past the end.
 */
bool fm_request_header_at(struct FmWorker *worker,
                          FmRequest request,
                          size_t index,
                          struct FmStr *name,
                          struct FmStr *value);

/**
 * Parses a `traceparent` header value. Returns false if the value is malformed.
 */
bool fm_trace_parent(struct FmStr value, struct FmTraceParent *parent);

/**
 * Returns the recording state of a request without a response yet. For FM_SPAN_RECORDED it fills `span`.
 */
uint32_t fm_request_span(struct FmWorker *worker,
                         FmRequest request,
                         struct FmSpan *span);

/**
 * Returns the value of the route parameter `{name}`, percent-decoded. Returns false if the pattern has no such name.
 */
bool fm_request_route(struct FmWorker *worker,
                      FmRequest request,
                      struct FmStr name,
                      struct FmStr *value);

/**
 * Returns the route parameter at `index`. False past the end.
 */
bool fm_request_route_at(struct FmWorker *worker,
                         FmRequest request,
                         size_t index,
                         struct FmStr *name,
                         struct FmStr *value);

/**
 * Returns the address and port of the client, from a trusted proxy's header or else from the connection. The address has no port,
 * and is `unix` for a Unix socket.
 */
bool fm_request_remote(struct FmWorker *worker,
                       FmRequest request,
                       struct FmStr *address,
                       uint16_t *port);

/**
 * Returns the local address of the connection, its port, and the HTTP version as `HTTP/1.1`. The address has no port, and is empty
 * for a Unix socket.
 */
bool fm_request_server(struct FmWorker *worker,
                       FmRequest request,
                       struct FmStr *address,
                       uint16_t *port,
                       struct FmStr *protocol);

/**
 * Returns the requested host and port, from a trusted proxy's header or else from the request. Returns false if there is no host.
 */
bool fm_request_host(struct FmWorker *worker,
                     FmRequest request,
                     struct FmStr *host);

/**
 * Returns true if the client uses TLS, to this server or to a trusted proxy. Sets subject and PEM of the client certificate. `ptr`
 * is NULL if there is no certificate.
 */
bool fm_request_tls(struct FmWorker *worker,
                    FmRequest request,
                    struct FmStr *subject,
                    struct FmStr *pem);

/**
 * Returns true if `name` is a token and `value` a field value (RFC 9110, 5.1 and 5.5). Required for fields passed to
 * `fm_respond` and `fm_hold`.
 */
bool fm_header_valid(struct FmStr name,
                     struct FmStr value);

/**
 * Returns true if the field frames the message, so that only the server may set it.
 */
bool fm_header_reserved(struct FmStr name);

/**
 * Returns the version of the native core. Always valid.
 */
struct FmStr fm_version(void);

/**
 * Returns the row at `index` of the output of `php --ri fermata`: kernel features, then settings with their defaults. Returns
 * false past the end. The strings are always valid.
 */
bool fm_info_at(size_t index,
                struct FmStr *name,
                struct FmStr *value);

/**
 * Returns the setting at `index`: name, default and documentation. False past the end. Always valid.
 */
bool fm_setting_at(size_t index,
                   struct FmStr *name,
                   struct FmStr *default_value,
                   struct FmStr *doc);

/**
 * Replaces the secrets in `text` by `***`, as in the log, and returns the resulting length in bytes. Writes the
 * result to `place` if it fits.
 *
 * # Safety
 * `place` is NULL or valid for writes of `len` bytes.
 */
size_t fm_mask_secrets(struct FmStr text,
                       char *place,
                       size_t len);

/**
 * Creates a server without routes; NULL only after a panic.
 */
struct FmServer *fm_server_new(void);

/**
 * Frees a server that has not started.
 */
void fm_server_free(struct FmServer *server);

/**
 * Sets a setting by its name. FM_CONFIGURATION for an invalid value or an unknown name.
 */
uint32_t fm_server_set(struct FmServer *server,
                       struct FmStr name,
                       struct FmStr value,
                       uint32_t source,
                       struct FmError *error);

/**
 * Adds a route; an empty `method` matches any method. FM_MISUSE for an invalid or duplicate pattern.
 */
uint32_t fm_server_route(struct FmServer *server,
                         struct FmStr method,
                         struct FmStr pattern,
                         uint32_t handler,
                         struct FmError *error);

/**
 * Sets the maximum body size of a handler's requests in bytes, overriding the settings. FM_MISUSE if it is too
 * large.
 */
uint32_t fm_server_route_body(struct FmServer *server,
                              uint32_t handler,
                              uint64_t bytes_max,
                              struct FmError *error);

/**
 * Sends unrouted requests to `handler`: unknown paths and, with `takes_methods`, unsupported methods and OPTIONS.
 * The event's `unrouted` and `allow` describe the response that the core would have sent.
 */
uint32_t fm_server_fallback(struct FmServer *server,
                            uint32_t handler,
                            bool takes_methods,
                            struct FmError *error);

/**
 * Starts the handler when the request head is complete. FmEvent.upload is then FM_UPLOAD_ARRIVING, and
 * `fm_body_read` reads the body, unless the body arrived with the head.
 */
void fm_server_route_early(struct FmServer *server,
                           uint32_t handler);

/**
 * Sends requests for files below `prefix` to `handler` with FmEvent.unrouted 200. `handler` then identifies the tree
 * for `fm_static_find` and `fm_respond_file`.
 */
uint32_t fm_server_guard_files(struct FmServer *server,
                               struct FmStr prefix,
                               uint32_t handler,
                               struct FmError *error);

/**
 * Sends requests below `prefix` without a matching file, and all methods except GET and HEAD, to `handler`.
 */
uint32_t fm_server_static_fallback(struct FmServer *server,
                                   struct FmStr prefix,
                                   uint32_t handler,
                                   struct FmError *error);

/**
 * Delivers FM_EVENT_UPGRADE for every handshake of the WebSocket routes of `handler`.
 */
void fm_server_guard_websocket(struct FmServer *server, uint32_t handler);

/**
 * Serves the files below `directory` at the path `prefix`. FM_MISUSE as for `fm_server_route`.
 */
uint32_t fm_server_static(struct FmServer *server,
                          struct FmStr prefix,
                          struct FmStr directory,
                          const struct FmStatic *options,
                          struct FmError *error);

/**
 * Describes how the master finds the code that a worker's handler runs, for reports about blocked workers.
 */
void fm_server_frames(struct FmServer *server,
                      const struct FmFrames *frames);

/**
 * Sets the runtime's name, such as `PHP 8.4.1, opcache on`, for the start banner.
 */
void fm_server_program(struct FmServer *server, struct FmStr name);

/**
 * Adds a warning about a likely misconfiguration to the log at the start.
 */
void fm_server_warn(struct FmServer *server, struct FmStr message);

/**
 * Returns the number of workers that the server would start. Returns 0 if a setting is invalid, which `fm_server_start` reports.
 */
uint32_t fm_server_workers(struct FmServer *server);

/**
 * Makes the master run one more process next to the workers. `fm_server_start` also returns in that process, with `companion` set.
 * `name` marks its log lines.
 */
void fm_server_companion(struct FmServer *server,
                         struct FmStr name);

/**
 * Binds the listeners and forks. Returns once in each worker and companion, and once in the calling process after
 * the last worker has exited. Always consumes the server.
 */
uint32_t fm_server_start(struct FmServer *server,
                         struct FmStart *out,
                         struct FmError *error);

/**
 * Opens WebSockets at paths that match `pattern`. FM_MISUSE for an invalid or duplicate pattern (a WebSocket route
 * counts as a GET route) and for options that cannot work.
 */
uint32_t fm_server_websocket(struct FmServer *server,
                             struct FmStr pattern,
                             const struct FmWsRoute *route,
                             struct FmError *error);

/**
 * Accepts the handshake of FM_EVENT_UPGRADE with the handle `request`. With `protocol.ptr` NULL it selects the first
 * of the route's subprotocols that the client offers. After an error (FM_MISUSE, FM_GONE) the request is still open.
 * Each header has passed `fm_header_valid`.
 *
 * # Safety
 * The contract at the head of the header: bytes and arrays have the documented sizes.
 */
uint32_t fm_ws_accept_request(struct FmWorker *worker,
                              FmRequest request,
                              struct FmStr protocol,
                              const struct FmHeader *headers,
                              size_t headers_len,
                              FmSocket *socket,
                              struct FmError *error);

/**
 * Queues a message for a socket. FM_GONE, FM_BACKPRESSURE (policy FM_WS_REFUSE), FM_MISUSE (text that is not UTF-8).
 * `payload` may be the payload of the current FM_EVENT_WS_MESSAGE.
 */
uint32_t fm_ws_send(struct FmWorker *worker,
                    FmSocket socket,
                    bool binary,
                    struct FmStr data,
                    struct FmError *error);

/**
 * Sends a message to a socket of any worker, identified by the text of `fm_ws_id`. FM_MISUSE, FM_BACKPRESSURE (no
 * space in the shared log). FM_OK does not confirm delivery: the socket may be closed.
 */
uint32_t fm_ws_send_to(struct FmWorker *worker,
                       struct FmStr id,
                       bool binary,
                       struct FmStr data,
                       struct FmError *error);

/**
 * Starts to close a socket. No message can be sent afterwards. FM_EVENT_WS_CLOSE follows after the client's close frame or a
 * timeout. FM_GONE, FM_MISUSE (code or reason).
 */
uint32_t fm_ws_disconnect(struct FmWorker *worker,
                          FmSocket socket,
                          uint16_t code,
                          struct FmStr reason,
                          struct FmError *error);

/**
 * Closes a socket with code 1011 after its handler failed, logs `message` and counts a failed handler.
 */
void fm_ws_fail(struct FmWorker *worker,
                FmSocket socket,
                struct FmStr message,
                const struct FmDetail *detail);

/**
 * Subscribes a socket to a channel. FM_GONE, FM_MISUSE, FM_BACKPRESSURE (presence is full).
 */
uint32_t fm_ws_join(struct FmWorker *worker,
                    FmSocket socket,
                    const struct FmWsJoin *join,
                    struct FmError *error);

/**
 * Ends a subscription. Does nothing if there is none. FM_GONE.
 */
uint32_t fm_ws_leave(struct FmWorker *worker,
                     FmSocket socket,
                     struct FmStr channel,
                     struct FmError *error);

/**
 * Fills `info` with the state of a socket. Returns false if the socket is closed.
 */
bool fm_ws_info(struct FmWorker *worker, FmSocket socket, struct FmWsInfo *info);

/**
 * Returns the text by which any worker can send to the socket. FM_GONE.
 */
uint32_t fm_ws_id(struct FmWorker *worker, FmSocket socket, struct FmId *id);

/**
 * Returns the client's address (without port; `unix` for a Unix socket) and port. The address is valid until the
 * next call of this function or of `fm_request_remote`. False if the socket is closed.
 */
bool fm_socket_remote(struct FmWorker *worker,
                      FmSocket socket,
                      struct FmStr *address,
                      uint16_t *port);

/**
 * Creates the description of a table without columns; `fm_table_make` allocates the table. NULL only after a panic.
 */
struct FmTable *fm_table_new(void);

/**
 * Adds a column of type FM_COLUMN_*; `bytes_max` is the maximum length of a string.
 */
void fm_table_column(struct FmTable *table, uint32_t column, uint32_t bytes_max);

/**
 * Allocates the table in memory that is shared with processes forked later. Returns the maximum size of the table. FM_MISUSE,
 * FM_CONFIGURATION (no memory).
 */
uint32_t fm_table_make(struct FmTable *table,
                       uint32_t rows,
                       uint32_t key_bytes_max,
                       uint64_t *bytes,
                       struct FmError *error);

/**
 * Prepares the table in a forked process. Call it before any other function on the table there.
 */
void fm_table_forked(struct FmTable *table);

/**
 * Starts a change. `fm_table_put` sets its columns, and `fm_table_set` applies it to a row.
 */
void fm_table_begin(struct FmTable *table);

/**
 * Sets a column of the change. FM_MISUSE if the type differs or the value is too long.
 */
uint32_t fm_table_put(struct FmTable *table,
                      uint32_t column,
                      const struct FmValue *value,
                      struct FmError *error);

/**
 * Updates or inserts a row. FM_MISUSE (key), FM_BACKPRESSURE: the table is full, or another process holds its lock.
 */
uint32_t fm_table_set(struct FmTable *table,
                      struct FmStr key,
                      struct FmError *error);

/**
 * Adds to a column, and inserts the row if it does not exist. FM_MISUSE: key, type or overflow; FM_BACKPRESSURE as
 * for `fm_table_set`.
 */
uint32_t fm_table_add(struct FmTable *table,
                      struct FmStr key,
                      uint32_t column,
                      const struct FmValue *by,
                      struct FmValue *sum,
                      struct FmError *error);

/**
 * Deletes a row and reports whether the row existed. FM_MISUSE (key), FM_BACKPRESSURE.
 */
uint32_t fm_table_delete(struct FmTable *table,
                         struct FmStr key,
                         bool *was_there,
                         struct FmError *error);

/**
 * Deletes all rows. FM_BACKPRESSURE.
 */
uint32_t fm_table_clear(struct FmTable *table, struct FmError *error);

/**
 * Copies a row for `fm_table_value` and reports whether the row exists. FM_MISUSE (key), FM_BACKPRESSURE.
 */
uint32_t fm_table_get(struct FmTable *table,
                      struct FmStr key,
                      bool *is_there,
                      struct FmError *error);

/**
 * Reports if a row exists. FM_MISUSE (key), FM_BACKPRESSURE.
 */
uint32_t fm_table_contains(struct FmTable *table,
                           struct FmStr key,
                           bool *is_there,
                           struct FmError *error);

/**
 * Copies the next row from `place` (initially 0) on for `fm_table_key` and `fm_table_value`, and advances `place`.
 * `is_there` is false at the end. FM_BACKPRESSURE.
 */
uint32_t fm_table_next(struct FmTable *table,
                       uint32_t *place,
                       bool *is_there,
                       struct FmError *error);

/**
 * Returns the key of the row that `fm_table_next` copied. Valid until the next call with the table.
 */
struct FmStr fm_table_key(const struct FmTable *table);

/**
 * Returns a column of the copied row. False if there is no such column. Valid as for `fm_table_key`.
 */
bool fm_table_value(const struct FmTable *table,
                    uint32_t column,
                    struct FmValue *value);

/**
 * Returns the number of rows.
 */
uint32_t fm_table_len(const struct FmTable *table);

/**
 * Frees this process's handle. Other processes keep theirs.
 */
void fm_table_free(struct FmTable *table);

/**
 * Returns the form field at `index`: name as sent, and value. False past the end.
 */
bool fm_upload_field_at(struct FmWorker *worker,
                        uint32_t upload,
                        size_t index,
                        struct FmStr *name,
                        struct FmStr *value);

/**
 * Returns the name at `index` of the file fields without a chosen file, and the number of files before it. Returns false past the
 * end.
 */
bool fm_upload_unchosen_at(struct FmWorker *worker,
                           uint32_t upload,
                           size_t index,
                           struct FmStr *name,
                           size_t *files_before);

/**
 * Returns the form file at `index`. False past the end.
 */
bool fm_upload_file_at(struct FmWorker *worker,
                       uint32_t upload,
                       size_t index,
                       struct FmUploadedFile *file);

/**
 * Returns the file of a body that is too large for memory. False if the body is not in a file.
 */
bool fm_upload_body(struct FmWorker *worker, uint32_t upload, struct FmStr *path);

/**
 * Removes the upload's files, except those that were moved, after the request is complete.
 */
void fm_upload_release(struct FmWorker *worker, uint32_t upload);

/**
 * Reads at most `bytes_max` (and `body_piece_bytes_max`) bytes of an arriving body. `piece` is empty at the end and
 * valid until the next call or `fm_next_event`; `last` is true if nothing follows. FM_PARTIAL: no bytes yet;
 * FM_EVENT_BODY reports when to call again. FM_GONE: the client disconnected. FM_PROTOCOL: the rest will not arrive;
 * `status` is the response's status.
 */
uint32_t fm_body_read(struct FmWorker *worker,
                      FmRequest request,
                      size_t bytes_max,
                      struct FmStr *piece,
                      bool *last,
                      uint32_t *status,
                      struct FmError *error);

/**
 * Returns the settings about fibers.
 */
void fm_worker_fibers(const struct FmWorker *worker, struct FmFibers *fibers);

/**
 * Marks the handler of a request as waiting. The handler responds later. FM_EVENT_GONE reports that the client disconnected before
 * the response. FM_GONE if the client is already gone, or the request has a response.
 */
uint32_t fm_defer(struct FmWorker *worker,
                  FmRequest request);

/**
 * Marks the handler of a WebSocket as waiting. Until `fm_ws_resume`, the socket causes only FM_EVENT_GONE and its close event.
 * FM_GONE if the socket is closed.
 */
uint32_t fm_ws_defer(struct FmWorker *worker,
                     FmSocket socket);

/**
 * Marks a waiting WebSocket handler as finished.
 */
void fm_ws_resume(struct FmWorker *worker, FmSocket socket);

/**
 * Requests one FM_EVENT_WAKE at `due_ms` of `fm_worker_now_ms`. 0 means after the next output and poll for events. UINT64_MAX
 * means never. The last call replaces earlier ones.
 */
void fm_worker_wake_at(struct FmWorker *worker,
                       uint64_t due_ms);

/**
 * Returns the monotonic clock in milliseconds.
 */
uint64_t fm_worker_now_ms(struct FmWorker *worker);

/**
 * Sets the busy flag: work without a client is running, and should finish before the worker stops.
 */
void fm_worker_busy(struct FmWorker *worker, bool busy);

/**
 * Sets the flag that the worker is full, so that no further handler can start. While the flag is set, only FM_EVENT_WAKE,
 * FM_EVENT_GONE and FM_EVENT_STOP occur.
 */
void fm_worker_full(struct FmWorker *worker,
                    bool full);

/**
 * Records that this handler resumes after a wait, without an event, for reports about blocked workers.
 */
void fm_note_handler(struct FmWorker *worker,
                     uint32_t handler);

/**
 * Returns true if another waiting handler or task may resume, or another task may start, in this turn. The previous one must have
 * returned or be waiting. If the result is false, fetch an event first, after `fm_worker_wake_at` with 0.
 */
bool fm_may_resume(struct FmWorker *worker);

/**
 * Sends this turn's responses immediately, while the handler that responded keeps running. Invalidates all strings
 * that the core lent for its request.
 */
void fm_send_answers(struct FmWorker *worker);

/**
 * Marks the handler of a request after `fm_defer` as finished.
 */
void fm_settle(struct FmWorker *worker, FmRequest request);

/**
 * Marks the response stream of `request` as waiting for the application's next piece. FM_EVENT_GONE reports that the client
 * disconnected before that piece. FM_GONE if the client has already disconnected.
 */
uint32_t fm_stream_defer(struct FmWorker *worker,
                         FmRequest request);

/**
 * Postpones the piece that FM_EVENT_STREAM requested, because no other handler can wait. FM_EVENT_STREAM occurs
 * again after `fm_worker_full`.
 */
void fm_stream_later(struct FmWorker *worker,
                     FmRequest request);

/**
 * Requests one FM_EVENT_READY when `fd` is ready for any of `interest` (FM_WATCH_*) or has hung up. Replaces an earlier request; 0
 * cancels it. The descriptor may be closed at any time. It then causes no event. FM_ALWAYS_READY and FM_MISUSE (not open; no
 * memory left): no request was made.
 */
uint32_t fm_watch(struct FmWorker *worker,
                  int32_t fd,
                  uint32_t interest,
                  struct FmError *error);

/**
 * Blocks until an event needs PHP. All strings of the event and of the fm_request_* calls stay valid until the next call. `event`
 * must be initialized, at least with zeros, because most events set only a few fields.
 */
uint32_t fm_next_event(struct FmWorker *worker,
                       struct FmEvent *event);

/**
 * Responds to a request. FM_GONE if the client disconnected or the request already has a response.
 */
uint32_t fm_respond(struct FmWorker *worker, FmRequest request, const struct FmResponse *response);

/**
 * Sends `103 Early Hints` with the header lines of `hints` immediately. `has_sent` is false if the client does not
 * support them. FM_GONE as for `fm_respond`.
 */
uint32_t fm_early_hints(struct FmWorker *worker,
                        FmRequest request,
                        const struct FmResponse *hints,
                        bool *has_sent);

/**
 * Responds to a request whose handler failed: sends `status` (500, or 400 if the request is at fault) and logs
 * `message` with its details.
 */
uint32_t fm_fail(struct FmWorker *worker,
                 FmRequest request,
                 uint32_t status,
                 struct FmStr message,
                 const struct FmDetail *detail);

/**
 * Counts a failed handler to whose client the application itself responds.
 */
void fm_note_failure(struct FmWorker *worker);

/**
 * Retires a worker after a fatal error. It accepts no more requests, requests a replacement, finishes its output and
 * closes held clients in an orderly way. FM_EVENT_STOP follows.
 */
void fm_worker_retire(struct FmWorker *worker);

/**
 * Drains a worker whose application cannot start another request. A replacement starts, and requests that no handler
 * has started go to another worker or to the replacement. FM_EVENT_STOP follows.
 */
void fm_worker_replace(struct FmWorker *worker);

/**
 * Returns the exit code of the process after FM_EVENT_STOP.
 */
int32_t fm_worker_exit_code(const struct FmWorker *worker);

/**
 * Returns true if `fm_hold` needs the data that edges add to requests.
 */
bool fm_worker_has_edges(const struct FmWorker *worker);

/**
 * Responds with an event stream and holds the client, or delegates the hold to the edge that signed the request.
 * After an error (FM_MISUSE, FM_BACKPRESSURE, FM_GONE) the request is still open.
 */
uint32_t fm_hold(struct FmWorker *worker,
                 FmRequest request,
                 const struct FmHold *hold,
                 struct FmError *error);

/**
 * Checks a channel name. FM_MISUSE if it is invalid.
 */
uint32_t fm_channel_name_check(struct FmStr channel, struct FmError *error);

/**
 * Checks an event's name and data. FM_MISUSE if they cannot be sent.
 */
uint32_t fm_message_check(const struct FmMessage *message, struct FmError *error);

/**
 * Counts the users that are present in a channel. This is the number of users that `fm_members` returns without a limit.
 * FM_MISUSE, FM_BACKPRESSURE (the presence table is unavailable).
 */
uint32_t fm_member_count(struct FmWorker *worker,
                         struct FmStr channel,
                         size_t *count,
                         struct FmError *error);

/**
 * Returns at most `count_max` users present in a channel, the latest first. The array stays valid until the next
 * call of this function. FM_MISUSE, FM_BACKPRESSURE as for `fm_member_count`.
 */
uint32_t fm_members(struct FmWorker *worker,
                    struct FmStr channel,
                    size_t count_max,
                    const struct FmMember **first,
                    size_t *len,
                    struct FmError *error);

/**
 * Returns the newest messages of a channel after `since` (`ptr` NULL: all), oldest first. The array stays valid
 * until the next call of this function or `fm_history_next`. With `reading` the call does not wait for the cluster
 * log: `reading` receives 0, or a number to pass to `fm_history_next` while the log has not replied. FM_MISUSE,
 * FM_BACKPRESSURE.
 */
uint32_t fm_history(struct FmWorker *worker,
                    struct FmStr channel,
                    struct FmStr since,
                    size_t count_max,
                    FmReading *reading,
                    const struct FmPast **first,
                    size_t *len,
                    struct FmError *error);

/**
 * Continues a read of history from the cluster log. While the log has not replied, `over` is false and the result
 * FM_OK. After `over` is true the number is invalid. FM_BACKPRESSURE.
 */
uint32_t fm_history_next(struct FmWorker *worker,
                         FmReading reading,
                         bool *over,
                         const struct FmPast **first,
                         size_t *len,
                         struct FmError *error);

/**
 * Cancels a read of history.
 */
void fm_history_forget(struct FmWorker *worker, FmReading reading);

/**
 * Writes a log line; `level` from 0 (error) to 3 (debug).
 */
void fm_worker_log(struct FmWorker *worker, uint32_t level, struct FmStr message);

/**
 * Writes a log line about the application's code. `is_bounded` limits the lines per second, and is meant for lines that clients
 * can trigger at will.
 */
void fm_worker_log_at(struct FmWorker *worker,
                      uint32_t level,
                      bool is_bounded,
                      struct FmStr message,
                      const struct FmDetail *detail);

/**
 * Logs a line that the application wrote to standard error, regardless of `log_level`.
 */
void fm_worker_log_text(struct FmWorker *worker, struct FmStr line);

/**
 * Frees a worker after FM_EVENT_STOP.
 */
void fm_worker_free(struct FmWorker *worker);

/**
 * Writes Sec-WebSocket-Accept for a client's key, FM_WS_ACCEPT_BYTES bytes. False if the key is not base64 of 16
 * bytes.
 *
 * # Safety
 * The contract at the head of the header: bytes and arrays have the documented sizes.
 */
bool fm_ws_accept(struct FmStr key,
                  char *accept);

/**
 * Returns the length of a frame with its header, in bytes.
 */
size_t fm_ws_frame_bytes(size_t payload_bytes, bool masked);

/**
 * Returns true if the bytes are valid UTF-8, as a text message requires.
 *
 * C uses this function where it writes the header of a plain text frame itself, which is cheaper than a call.
 */
bool fm_ws_is_text(struct FmStr payload);

/**
 * Writes a frame of `fm_ws_frame_bytes` bytes. Uses the fields opcode, reserved, fin, masked and key of `frame`.
 *
 * FM_MISUSE if the frame would violate the protocol. The buffer's content is then undefined.
 *
 * # Safety
 * The contract at the head of the header: bytes and arrays have the documented sizes.
 */
uint32_t fm_ws_encode(const struct FmWsFrame *frame,
                      struct FmStr payload,
                      char *out,
                      struct FmError *error);

/**
 * Writes the payload of a close frame, at most FM_WS_CLOSE_BYTES bytes, and returns its length.
 *
 * FM_MISUSE if the code must not be sent, or the reason is too long or not UTF-8.
 *
 * # Safety
 * The contract at the head of the header: bytes and arrays have the documented sizes.
 */
uint32_t fm_ws_close(int64_t code,
                     struct FmStr reason,
                     char *out,
                     size_t *len,
                     struct FmError *error);

/**
 * Reads the header of the frame at the start of `bytes`.
 *
 * FM_OK if the frame is complete, FM_PARTIAL if bytes are missing. FM_PROTOCOL with `frame.close_code` if the frame
 * violates the protocol or is longer than `payload_bytes_max`. `reserved` are the reserved bits that may be set.
 */
uint32_t fm_ws_header(struct FmStr bytes,
                      uint32_t masking,
                      uint8_t reserved,
                      size_t payload_bytes_max,
                      struct FmWsFrame *frame,
                      struct FmError *error);

/**
 * Writes the unmasked payload of a frame that `fm_ws_header` read from the same bytes, and checks it.
 *
 * For a close frame, sets `frame.close_code`. The reason starts at `out + 2`. FM_PROTOCOL with `frame.close_code` for a malformed
 * close frame and for text that is not UTF-8. A first fragment may end inside a character; further fragments are not checked.
 *
 * # Safety
 * The contract at the head of the header: bytes and arrays have the documented sizes.
 */
uint32_t fm_ws_payload(struct FmWsFrame *frame,
                       const char *payload,
                       char *out,
                       struct FmError *error);

/**
 * Creates a client after checking the parameters. Returns NULL and FM_MISUSE for invalid ones.
 */
struct FmWsClient *fm_ws_client_new(const struct FmWsOpening *opening, struct FmError *error);

/**
 * Frees a client.
 */
void fm_ws_client_free(struct FmWsClient *client);

/**
 * Returns the bytes to send. Valid until the next call for this client.
 */
struct FmStr fm_ws_client_output(const struct FmWsClient *client);

/**
 * Clears the output after C has sent all of it.
 */
void fm_ws_client_flushed(struct FmWsClient *client);

/**
 * Returns the free input buffer and its length; then call `fm_ws_client_filled`. NULL after a panic.
 */
char *fm_ws_client_room(struct FmWsClient *client,
                        size_t *len);

/**
 * Records that C read `bytes` bytes into the buffer, at most its length.
 */
void fm_ws_client_filled(struct FmWsClient *client, size_t bytes);

/**
 * Returns the next received item. FM_PARTIAL: read more. FM_IO: the server refused the handshake. FM_PROTOCOL: the
 * server violated the protocol; send the output and close. Send the output after FM_OK too.
 */
uint32_t fm_ws_client_next(struct FmWsClient *client,
                           struct FmWsReceived *received,
                           struct FmError *error);

/**
 * Records the end of the connection. Returns the close code for the application; 0 if a close frame already reported
 * it.
 */
uint16_t fm_ws_client_ended(struct FmWsClient *client);

/**
 * Adds a message to the output. FM_GONE if the connection is closed, FM_MISUSE for text that is not UTF-8.
 */
uint32_t fm_ws_client_send(struct FmWsClient *client,
                           bool binary,
                           struct FmStr data,
                           struct FmError *error);

/**
 * Adds a ping to the output. FM_GONE if the connection is closed, FM_MISUSE if it is too long.
 */
uint32_t fm_ws_client_ping(struct FmWsClient *client, struct FmStr payload, struct FmError *error);

/**
 * Adds a close frame to the output, once. FM_MISUSE if the code or reason is not allowed.
 */
uint32_t fm_ws_client_close(struct FmWsClient *client,
                            int64_t code,
                            struct FmStr reason,
                            struct FmError *error);

/**
 * Returns true if messages can be sent.
 */
bool fm_ws_client_can_send(const struct FmWsClient *client);

/**
 * Returns true if messages can still arrive.
 */
bool fm_ws_client_can_read(const struct FmWsClient *client);

/**
 * Returns the negotiated subprotocol; absent if there is none. Valid until the client is freed.
 */
struct FmStr fm_ws_client_protocol(const struct FmWsClient *client);
