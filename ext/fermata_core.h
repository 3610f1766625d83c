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
 * Success.
 */
#define FM_OK 0

/**
 * A setting, a file or an address is wrong: ConfigurationException.
 */
#define FM_CONFIGURATION 1

/**
 * The program uses the API in a way that cannot work: MisuseError.
 */
#define FM_MISUSE 2

/**
 * A bound is reached, trying again later may work: BackpressureException.
 */
#define FM_BACKPRESSURE 3

/**
 * The other process cannot be reached: ConnectionException.
 */
#define FM_IO 4

/**
 * No answer in time: TimeoutException.
 */
#define FM_TIMEOUT 5

/**
 * The request's client has left or it was answered before; nothing to report.
 */
#define FM_GONE 6

/**
 * A panic was caught: a bug of ours.
 */
#define FM_INTERNAL 7

/**
 * There is nothing wrong with the bytes so far, and some are missing; nothing to report.
 */
#define FM_PARTIAL 8

/**
 * The peer breaks the protocol: ProtocolException.
 */
#define FM_PROTOCOL 9

/**
 * Room for an error sentence.
 */
#define FM_ERROR_BYTES 1020

/**
 * Room for the text of an event id.
 */
#define FM_ID_BYTES 60

/**
 * `fm_publish_begin`: begin again a little later.
 */
#define FM_PUBLISH_LATER UINT64_MAX

/**
 * `fm_stream_wanted`: the client has left, or the request was answered before.
 */
#define FM_STREAM_NOTHING 0

/**
 * `fm_stream_wanted`: give the first piece to `fm_stream_begin`.
 */
#define FM_STREAM_PIECES 1

/**
 * `fm_stream_wanted`: call `fm_stream_begin` without a piece; nothing follows.
 */
#define FM_STREAM_HEAD 2

/**
 * `fm_stream_wanted`: there are as many streams as there may be; answer 503.
 */
#define FM_STREAM_REFUSAL 3

/**
 * No number of a handler.
 */
#define FM_NO_HANDLER 4294967295

/**
 * `fm_static_find`: a file, which `fm_respond_file` sends.
 */
#define FM_STATIC_FILE 0

/**
 * `fm_static_find`: nothing; answer 404.
 */
#define FM_STATIC_NOTHING 1

/**
 * `fm_static_find`: a directory; answer 308 to the same path with a slash at its end.
 */
#define FM_STATIC_DIRECTORY 2

/**
 * `fm_static_find`: a file that cannot be read, as the log says; answer 500.
 */
#define FM_STATIC_FAILED 3

/**
 * A job begins in this process.
 */
#define FM_COMPANION_JOB_BEGINS 0

/**
 * A job has ended, or the process that was at it.
 */
#define FM_COMPANION_JOB_ENDS 1

/**
 * A process for jobs has ended and is replaced.
 */
#define FM_COMPANION_PROCESS_REPLACED 2

/**
 * Bytes that a signature has room for: a key, a colon and 64 digits.
 */
#define FM_AUTH_BYTES 160

/**
 * `path`: `length` bytes (-1: all) from `offset` on.
 */
#define FM_FILE_READ 1

/**
 * `path`, `data`, `mode` FM_WRITE_*, `permissions`; `flag`: return when the disk has it.
 */
#define FM_FILE_WRITE 2

/**
 * `path` to `other`; `flag`: replace what is there.
 */
#define FM_FILE_COPY 3

/**
 * `path`; `flag`: what a link points to.
 */
#define FM_FILE_STAT 4

/**
 * `path`.
 */
#define FM_FILE_LIST 5

/**
 * `path`; `flag`: with everything in it.
 */
#define FM_FILE_REMOVE 6

/**
 * `path` to `other`; `flag`: replace what is there.
 */
#define FM_FILE_RENAME 7

/**
 * `path`, `permissions`; `flag`: with those above it, and it may be there.
 */
#define FM_FILE_MAKE_DIRECTORY 8

/**
 * `path`, `mode` FM_OPEN_*, `permissions`.
 */
#define FM_FILE_OPEN 9

/**
 * In the directory `path`, its name beginning with `other`.
 */
#define FM_FILE_TEMPORARY 10

/**
 * Of `file`: at most `length` bytes.
 */
#define FM_FILE_NEXT 11

/**
 * Of `file`: a line of at most `length` bytes.
 */
#define FM_FILE_LINE 12

/**
 * To `file`: `data`.
 */
#define FM_FILE_PUT 13

/**
 * In `file`: go to `offset`.
 */
#define FM_FILE_SEEK 14

/**
 * Of `file`: cut it off at `offset`.
 */
#define FM_FILE_TRUNCATE 15

/**
 * Of `file`: return when the disk has it.
 */
#define FM_FILE_SYNC 16

/**
 * Of `file`: what it is.
 */
#define FM_FILE_SIZE 17

/**
 * `file`, which is temporary: to `other`, in place of what is there, and it stays.
 */
#define FM_FILE_KEEP 18

/**
 * In place of what is there.
 */
#define FM_WRITE_REPLACE 0

/**
 * The same, all at once.
 */
#define FM_WRITE_ATOMIC 1

/**
 * Behind what is there.
 */
#define FM_WRITE_APPEND 2

/**
 * Only if there is none.
 */
#define FM_WRITE_NEW 3

/**
 * Reading what is there.
 */
#define FM_OPEN_READ 0

/**
 * Reading and writing.
 */
#define FM_OPEN_UPDATE 1

/**
 * Reading and writing, empty.
 */
#define FM_OPEN_REPLACE 2

/**
 * Writing behind its end.
 */
#define FM_OPEN_APPEND 3

/**
 * Reading and writing, only if there is none.
 */
#define FM_OPEN_NEW 4

/**
 * There is no such file.
 */
#define FM_FILE_NOT_FOUND 32

/**
 * Permissions forbid it.
 */
#define FM_FILE_ACCESS_DENIED 33

/**
 * There is one already.
 */
#define FM_FILE_EXISTS 34

/**
 * No space is left.
 */
#define FM_FILE_FULL 35

/**
 * It is a directory.
 */
#define FM_FILE_IS_DIRECTORY 36

/**
 * Something in the path is no directory.
 */
#define FM_FILE_NOT_DIRECTORY 37

/**
 * The directory is not empty.
 */
#define FM_FILE_NOT_EMPTY 38

/**
 * Anything else; the message says what.
 */
#define FM_FILE_OTHER 39

/**
 * `fm_open_file_lock`: not any more.
 */
#define FM_LOCK_NONE 0

/**
 * `fm_open_file_lock`: together with others that share it.
 */
#define FM_LOCK_SHARED 1

/**
 * `fm_open_file_lock`: alone.
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
 * `path`, `flags`, `mode`. -ENXIO: it is a pipe or a device, which was not opened.
 */
#define FM_CALL_OPEN 1

/**
 * Have the kernel know `path`, and what it points to if `flags` is 1.
 */
#define FM_CALL_LOOK 2

/**
 * Have the kernel cache `len` bytes of `fd` from `offset` on.
 */
#define FM_CALL_LOAD 3

/**
 * `data` to `fd`.
 */
#define FM_CALL_WRITE 4

/**
 * From `fd` to `other_fd` at most `len` bytes.
 */
#define FM_CALL_COPY 5

/**
 * `fd`; `flags` 1: without what is not needed to read it.
 */
#define FM_CALL_SYNC 6

/**
 * `fd` to `len` bytes.
 */
#define FM_CALL_TRUNCATE 7

/**
 * `path` to `other`.
 */
#define FM_CALL_RENAME 8

/**
 * `path` gets the name `other` as well.
 */
#define FM_CALL_LINK 9

/**
 * `path` is what stands in the link `other`.
 */
#define FM_CALL_SYMLINK 10

/**
 * `path`.
 */
#define FM_CALL_UNLINK 11

/**
 * `path`.
 */
#define FM_CALL_REMOVE_DIRECTORY 12

/**
 * `path`, `mode`.
 */
#define FM_CALL_MAKE_DIRECTORY 13

/**
 * As FM_CALL_LOAD, of an `fd` that must not be copied: it stays open until the call is over.
 */
#define FM_CALL_LOAD_HELD 14

/**
 * As FM_CALL_SYNC, likewise.
 */
#define FM_CALL_SYNC_HELD 15

/**
 * A handler or another task has begun it.
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
 * It reads messages of other workers.
 */
#define FM_TASK_MESSAGES 3

/**
 * The job has given a result.
 */
#define FM_JOB_DONE 0

/**
 * The job has thrown.
 */
#define FM_JOB_FAILED 1

/**
 * Its process has died.
 */
#define FM_JOB_CRASHED 2

/**
 * It took too long.
 */
#define FM_JOB_TIMED_OUT 3

/**
 * It is no longer awaited.
 */
#define FM_JOB_CANCELLED 4

/**
 * It was not taken.
 */
#define FM_JOB_REJECTED 5

/**
 * A publish is over when the log of the cluster has the message.
 */
#define FM_ACK_CLUSTER 0

/**
 * It is over when the message is on its way there.
 */
#define FM_ACK_LOCAL 1

/**
 * No requests are recorded, or this one is over.
 */
#define FM_SPAN_NONE 0

/**
 * The request is recorded.
 */
#define FM_SPAN_RECORDED 1

/**
 * Others are recorded, this one is not.
 */
#define FM_SPAN_LEFT_OUT 2

/**
 * The value comes from php.ini.
 */
#define FM_SOURCE_INI 1

/**
 * The value comes from the program.
 */
#define FM_SOURCE_CODE 2

/**
 * There is a callback for handshakes: FM_EVENT_UPGRADE is handed out.
 */
#define FM_WS_ON_UPGRADE 1

/**
 * There is a callback for open sockets: FM_EVENT_WS_OPEN is handed out.
 */
#define FM_WS_ON_OPEN 2

/**
 * There is a callback for messages: FM_EVENT_WS_MESSAGE is handed out.
 */
#define FM_WS_ON_MESSAGE 4

/**
 * There is a callback for sockets that have ended: FM_EVENT_WS_CLOSE is handed out.
 */
#define FM_WS_ON_CLOSE 8

/**
 * A message that does not fit into the queue is refused with FM_BACKPRESSURE.
 */
#define FM_WS_REFUSE 0

/**
 * Older messages of which nothing was sent yet make room.
 */
#define FM_WS_DROP_OLDEST 1

/**
 * The socket is closed with code 1013.
 */
#define FM_WS_CLOSE_SLOW 2

/**
 * The data of a channel's messages, each as a text message.
 */
#define FM_WS_FORMAT_DATA 0

/**
 * Messages, joins, leaves and gaps as JSON: channel, id, event and data.
 */
#define FM_WS_FORMAT_JSON 1

/**
 * A column of numbers: `number` of FmValue.
 */
#define FM_COLUMN_INT 0

/**
 * A column of numbers: `real` of FmValue.
 */
#define FM_COLUMN_FLOAT 1

/**
 * A column of strings: `text` of FmValue.
 */
#define FM_COLUMN_STRING 2

/**
 * The number of a body that is read while it arrives.
 */
#define FM_UPLOAD_ARRIVING 4294967295

/**
 * `fm_note_handler`: added to the number of a handler of WebSockets.
 */
#define FM_HANDLER_WEBSOCKET 2147483648

/**
 * `fm_note_handler`: a task.
 */
#define FM_HANDLER_TASK 4294967295

/**
 * There are bytes, a connection to accept, or the end of the stream.
 */
#define FM_WATCH_READ 1

/**
 * There is room to write.
 */
#define FM_WATCH_WRITE 2

/**
 * There is urgent data.
 */
#define FM_WATCH_PRIORITY 4

/**
 * The other end has closed, or the file is broken: told, never asked for.
 */
#define FM_WATCH_HANGUP 8

/**
 * The file is one that is always ready: a regular file, a directory.
 */
#define FM_ALWAYS_READY 64

/**
 * `request` is to be answered.
 */
#define FM_EVENT_REQUEST 1

/**
 * The worker has stopped; free it and end the process with `fm_worker_exit_code`.
 */
#define FM_EVENT_STOP 2

/**
 * `request` is a WebSocket handshake that can be accepted: answer it with `fm_ws_accept_request`, or
 * refuse it with `fm_respond` or `fm_fail`. All fields of FM_EVENT_REQUEST are set.
 */
#define FM_EVENT_UPGRADE 3

/**
 * `socket` is open. Only `kind`, `handler` and `socket` are set.
 */
#define FM_EVENT_WS_OPEN 4

/**
 * `socket` has received `body`. Only `kind`, `handler`, `socket`, `binary` and `body` are set.
 */
#define FM_EVENT_WS_MESSAGE 5

/**
 * `socket` has ended with `code` (1005: none was given, 1006: cut off) and the reason `body`: exactly once
 * for each socket that was accepted. Only `kind`, `handler`, `socket`, `code` and `body` are set.
 */
#define FM_EVENT_WS_CLOSE 6

/**
 * The client of `request` or `socket`, the other of which is 0, has left while its handler waits; at most
 * once for each. Only `kind`, `request` and `socket` are set.
 */
#define FM_EVENT_GONE 7

/**
 * It is the time of `fm_worker_wake_at`, or `fm_file_next` or `fm_publish_next` has something to say. Only `kind` is set.
 */
#define FM_EVENT_WAKE 8

/**
 * The stream that answers `request` wants its next piece: `fm_stream_write`, `fm_stream_end` or
 * `fm_stream_fail`. Only `kind`, `handler` and `request` are set.
 */
#define FM_EVENT_STREAM 9

/**
 * The stream that answers `request` has ended before its end: its client has left. Only `kind`, `handler` and
 * `request` are set.
 */
#define FM_EVENT_STREAM_END 10

/**
 * The descriptor `handler` is ready for `code` (FM_WATCH_*), or has hung up; `fm_watch` has asked for it. Only
 * `kind`, `handler` and `code` are set.
 */
#define FM_EVENT_READY 11

/**
 * More of the body of `request` can be read by `fm_body_read`, or the rest of it cannot be had. Only `kind` and
 * `request` are set.
 */
#define FM_EVENT_BODY 12

/**
 * A worker of another server of the cluster has sent `body` by `fm_worker_send_to_servers`. Only `kind` and `body` are set.
 */
#define FM_EVENT_PEER_MESSAGE 13

/**
 * A held client gets server-sent events.
 */
#define FM_FORMAT_EVENT_STREAM 0

/**
 * A slow client is told by a `gap` event what it has missed.
 */
#define FM_SLOW_GAP 0

/**
 * A slow client is closed; it comes back with its last event id.
 */
#define FM_SLOW_CLOSE 1

/**
 * Bytes of an answer to a key.
 */
#define FM_WS_ACCEPT_BYTES 28

/**
 * Largest payload of a close frame.
 */
#define FM_WS_CLOSE_BYTES 125

/**
 * Frames may be masked or not.
 */
#define FM_WS_MASK_EITHER 0

/**
 * Frames have to be masked: they come from a client.
 */
#define FM_WS_MASK_REQUIRED 1

/**
 * Frames must not be masked: they come from a server.
 */
#define FM_WS_MASK_FORBIDDEN 2

/**
 * Nothing that came needs the program; there may be output to send.
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
 * The answer to a ping.
 */
#define FM_WS_RECEIVED_PONG 4

/**
 * A close frame; nothing follows.
 */
#define FM_WS_RECEIVED_CLOSE 5

/**
 * The companion, in it and in every process it forks.
 */
typedef struct FmCompanion FmCompanion;

/**
 * What a worker in this process has, for `fm_in_process_end`.
 */
typedef struct FmMemory FmMemory;

/**
 * An open file.
 */
typedef struct FmOpenFile FmOpenFile;

/**
 * A server that does not run yet.
 */
typedef struct FmServer FmServer;

/**
 * A table, as this process sees it; forked processes have one of their own.
 */
typedef struct FmTable FmTable;

/**
 * One worker process.
 */
typedef struct FmWorker FmWorker;

/**
 * A connection, from the handshake to the end.
 */
typedef struct FmWsClient FmWsClient;

/**
 * A request, from its event until its client has been let go: also the stream or the hold that answers it. 0 is none.
 */
typedef uint64_t FmRequest;

/**
 * Bytes with a length, not NUL-terminated. `ptr` is NULL if and only if the value is absent.
 *
 * Invariant: of those that C makes, `ptr` is NULL or has `len` bytes that stay as they are until the function returns.
 * Those that are made here, by `lend`, are only handed out.
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
   * Content-Type; `ptr` NULL for none.
   */
  struct FmStr content_type;
  /**
   * Further field lines; each has passed `fm_header_valid`.
   */
  const struct FmHeader *headers;
  /**
   * Their number.
   */
  size_t headers_len;
  /**
   * Content.
   */
  struct FmStr body;
  /**
   * What stands behind the status in HTTP/1; `ptr` NULL for the standard phrase. It has passed `fm_header_valid`.
   */
  struct FmStr reason;
} FmResponse;

/**
 * An error sentence for the user: UTF-8, `len` bytes, cut at the end of a character if too long.
 */
typedef struct FmError {
  /**
   * Bytes used of `message`.
   */
  uint32_t len;
  /**
   * The sentence.
   */
  char message[FM_ERROR_BYTES];
} FmError;

/**
 * What is known of the code that a log line is about. Strings may be absent.
 */
typedef struct FmDetail {
  /**
   * The handler of the route, as for `fm_note_handler`.
   */
  uint32_t handler;
  /**
   * The line in `file`.
   */
  uint32_t line;
  /**
   * Method of the request.
   */
  struct FmStr method;
  /**
   * The class of what was thrown.
   */
  struct FmStr exception;
  /**
   * Where.
   */
  struct FmStr file;
  /**
   * The calls that have led there, one a line.
   */
  struct FmStr trace;
} FmDetail;

/**
 * A file to answer with.
 */
typedef struct FmFile {
  /**
   * Where it is: below `root` if there is one, else as the process sees it.
   */
  struct FmStr path;
  /**
   * The directory that it must lie in; `ptr` NULL for anywhere.
   */
  struct FmStr root;
  /**
   * The handler of `fm_server_guard_files` whose tree it is of, FM_NO_HANDLER for none; `path` is then that of the
   * request, decoded.
   */
  uint32_t tree;
  /**
   * Content-Type; `ptr` NULL goes by the name.
   */
  struct FmStr content_type;
  /**
   * 200 to 599; conditions and ranges count with 200 alone.
   */
  uint32_t status;
  /**
   * Further field lines of the answer; each has passed `fm_header_valid`.
   */
  const struct FmHeader *headers;
  /**
   * Their number.
   */
  size_t headers_len;
  /**
   * Field lines of the request; those about conditions, ranges and codings count.
   */
  const struct FmHeader *asked;
  /**
   * Their number.
   */
  size_t asked_len;
} FmFile;

/**
 * What is to be signed.
 */
typedef struct FmAuthOf {
  /**
   * The application's key.
   */
  struct FmStr key;
  /**
   * Its secret.
   */
  struct FmStr secret;
  /**
   * The connection.
   */
  struct FmStr socket_id;
  /**
   * What it wants to subscribe to; `ptr` NULL: a user signs in.
   */
  struct FmStr channel;
  /**
   * JSON of the user; `ptr` NULL for none.
   */
  struct FmStr data;
} FmAuthOf;

/**
 * What an application of Pusher's has signed.
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
 * An update of Mercure.
 */
typedef struct FmUpdate {
  /**
   * Topics.
   */
  const struct FmStr *topics;
  /**
   * Their number.
   */
  size_t topics_len;
  /**
   * The data.
   */
  struct FmStr data;
  /**
   * The id that subscribers get; `ptr` NULL: the server's.
   */
  struct FmStr id;
  /**
   * The event's type; `ptr` NULL for none.
   */
  struct FmStr kind;
  /**
   * Milliseconds after which subscribers come back; -1 for none.
   */
  int64_t retry_ms;
  /**
   * Whether it is only for those whose token allows a topic.
   */
  bool is_private;
} FmUpdate;

/**
 * A PHP-FPM and the paths it answers.
 */
typedef struct FmFastCgi {
  /**
   * What the paths begin with; `/` for all.
   */
  struct FmStr prefix;
  /**
   * Path of a Unix socket, or `HOST:PORT`.
   */
  struct FmStr socket;
  /**
   * The folder of the scripts, as PHP-FPM's machine has it.
   */
  struct FmStr root;
  /**
   * The script that answers what no other does; `ptr` NULL: the path has to name one.
   */
  struct FmStr index;
  /**
   * Seconds that it may be silent.
   */
  double timeout_s;
  /**
   * Seconds that a connection is kept for another request; 0 = it is not.
   */
  double keep_s;
  /**
   * Bytes that a body may have; -1 = as the setting says.
   */
  int64_t body_bytes_max;
  /**
   * Connections of a worker.
   */
  uint32_t connections_max;
  /**
   * Requests of a worker that wait for one.
   */
  uint32_t queue_max;
  /**
   * The root is a folder of this machine: its files are sent, and its scripts looked for.
   */
  bool has_files;
  /**
   * A body is passed on while it arrives.
   */
  bool streams_body;
} FmFastCgi;

/**
 * What is to be done. Which fields count is said at FM_FILE_*.
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
   * Permissions of what is made, as for `open`.
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
   * What is written.
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
   * The open file.
   */
  const struct FmOpenFile *file;
} FmFileJob;

/**
 * A job on a file that is under way. 0 is none.
 */
typedef uint64_t FmFileJobId;

/**
 * What came of it; fields that do not concern the job are 0.
 */
typedef struct FmFileResult {
  /**
   * What was read; `ptr` NULL behind the last line. Names have a NUL behind each. Valid until the next call with a
   * job or result.
   */
  struct FmStr bytes;
  /**
   * Bytes that were written or copied.
   */
  uint64_t count;
  /**
   * What was opened; to be freed.
   */
  struct FmOpenFile *file;
  /**
   * FM_TYPE_*.
   */
  uint32_t file_type;
  /**
   * The last twelve bits of the mode.
   */
  uint32_t permissions;
  /**
   * Bytes of the file.
   */
  uint64_t size;
  /**
   * Number of the owner.
   */
  uint32_t owner;
  /**
   * Number of the group.
   */
  uint32_t group;
  /**
   * Number of the inode.
   */
  uint64_t inode;
  /**
   * Number of the device.
   */
  uint64_t device;
  /**
   * Names it has.
   */
  uint64_t links;
  /**
   * Seconds since 1970.
   */
  double modified_s;
  /**
   * Seconds since 1970.
   */
  double accessed_s;
  /**
   * Seconds since 1970.
   */
  double changed_s;
} FmFileResult;

/**
 * What is to be called. Which fields count is said at FM_CALL_*.
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
   * Permissions of what is made.
   */
  uint32_t mode;
  /**
   * See FM_CALL_*; the caller's, which may be closed when `fm_file_call` has returned unless it is held.
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
   * What is written.
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
 * A WebSocket, from `fm_ws_accept_request` until FM_EVENT_WS_CLOSE. 0 is none.
 */
typedef uint64_t FmSocket;

/**
 * What `fm_next_event` hands out.
 */
typedef struct FmEvent {
  /**
   * FM_EVENT_*.
   */
  uint32_t kind;
  /**
   * The number the route was added with.
   */
  uint32_t handler;
  /**
   * The handle that the answer names.
   */
  FmRequest request;
  /**
   * The WebSocket of FM_EVENT_WS_*.
   */
  FmSocket socket;
  /**
   * The close code of FM_EVENT_WS_CLOSE.
   */
  uint16_t code;
  /**
   * Whether the message of FM_EVENT_WS_MESSAGE is binary; otherwise it is valid UTF-8.
   */
  bool binary;
  /**
   * The status that the core would have answered with, for the handlers of `fm_server_fallback` and
   * `fm_server_guard_files`; else 0.
   */
  uint16_t unrouted;
  /**
   * Content, transfer coding removed; of a WebSocket the message, or the reason of its close.
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
   * What follows the first `?`, as sent; `ptr` NULL without a `?`.
   */
  struct FmStr query;
  /**
   * The Allow header that belongs to `unrouted`; `ptr` NULL for none.
   */
  struct FmStr allow;
  /**
   * Number of header field lines.
   */
  uint32_t headers_len;
  /**
   * What the body has left outside of `body`, for `fm_upload_*`; 0 for nothing. To be released when the request is over.
   * FM_UPLOAD_ARRIVING: the body has not arrived, and `fm_body_read` gives it.
   */
  uint32_t upload;
} FmEvent;

/**
 * A message to publish or to send.
 */
typedef struct FmMessage {
  /**
   * Event name; `ptr` NULL for none.
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
 * A publish that waits for the log of the cluster. 0 is none.
 */
typedef uint64_t FmPublish;

/**
 * What the value of a `traceparent` header says; its strings are parts of that value.
 */
typedef struct FmTraceParent {
  /**
   * The trace: 32 digits.
   */
  struct FmStr trace_id;
  /**
   * The sender's span: 16 digits.
   */
  struct FmStr parent_id;
  /**
   * Whether the sender may have recorded it.
   */
  bool is_sampled;
} FmTraceParent;

/**
 * The span that the server records for a request, in digits.
 */
typedef struct FmSpan {
  /**
   * Its trace.
   */
  uint8_t trace_id[32];
  /**
   * The span.
   */
  uint8_t id[16];
} FmSpan;

/**
 * How `fm_server_static` serves files.
 */
typedef struct FmStatic {
  /**
   * Seconds that clients may use a file without asking; -1 leaves it to them.
   */
  int64_t cache_seconds;
  /**
   * Whether they need not ask even when the page is reloaded.
   */
  bool immutable;
  /**
   * The file that is served for a directory; empty for none.
   */
  struct FmStr index;
  /**
   * Whether compressed siblings are sent.
   */
  bool precompressed;
  /**
   * Whether files without one are compressed.
   */
  bool compress;
  /**
   * Whether programs of PHP's are sent as text.
   */
  bool sources;
} FmStatic;

/**
 * How the frames of the calling program lie in memory: `current` is an address, all else offsets in bytes.
 */
typedef struct FmFrames {
  /**
   * Where the pointer to the innermost frame is.
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
   * The kind that has neither file nor line.
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
 * Which process `fm_server_start` has returned in.
 */
typedef struct FmStart {
  /**
   * The worker. When it and `companion` are NULL this is the calling process, and everything has ended.
   */
  struct FmWorker *worker;
  /**
   * What the process should exit with (calling process only).
   */
  int32_t exit_code;
  /**
   * The worker's number from 0 (worker only).
   */
  uint32_t worker_index;
  /**
   * The companion; NULL in all other processes.
   */
  struct FmCompanion *companion;
  /**
   * The companion that still runs (calling process only): the caller ends it. 0 = there is none.
   */
  int32_t companion_pid;
  /**
   * SIGUSR2 has ended the server, and nobody has asked it to stop since (calling process only).
   */
  bool is_to_restart;
} FmStart;

/**
 * The WebSockets of one path. Numbers of bytes and milliseconds: -1 = the setting of that name after
 * `websocket_`; 0 turns a time off.
 */
typedef struct FmWsRoute {
  /**
   * Handed out with every event.
   */
  uint32_t handler;
  /**
   * FM_WS_ON_*: events without a callback are not handed out.
   */
  uint32_t callbacks;
  /**
   * Pages that may connect, `scheme://host` or `scheme://host:port`; NULL = those of the same host.
   */
  const struct FmStr *origins;
  /**
   * Their number.
   */
  size_t origins_len;
  /**
   * All pages may connect.
   */
  bool any_origin;
  /**
   * Subprotocols, the preferred one first.
   */
  const struct FmStr *protocols;
  /**
   * Their number.
   */
  size_t protocols_len;
  /**
   * Bytes of a message.
   */
  int64_t message_bytes_max;
  /**
   * Bytes of a frame; 0 = as many as a message.
   */
  int64_t frame_bytes_max;
  /**
   * Bytes that may wait for one socket.
   */
  int64_t queue_bytes_max;
  /**
   * Silence after which a ping is sent.
   */
  int64_t ping_interval_ms;
  /**
   * Silence after a ping after which the connection is cut off.
   */
  int64_t pong_timeout_ms;
  /**
   * Time without a message after which the socket is closed.
   */
  int64_t idle_timeout_ms;
  /**
   * FM_WS_REFUSE, FM_WS_DROP_OLDEST or FM_WS_CLOSE_SLOW.
   */
  uint32_t queue_policy;
  /**
   * Whether permessage-deflate is negotiated; what follows counts only then.
   */
  bool compresses;
  /**
   * Keep the window from message to message for what is sent.
   */
  bool server_takeover;
  /**
   * Let clients keep it for what they send.
   */
  bool client_takeover;
  /**
   * 9 to 15: the window is as large as this power of two.
   */
  uint8_t window_bits;
  /**
   * 1 (fast) to 9 (small).
   */
  uint8_t level;
  /**
   * Shorter messages are sent as they are.
   */
  uint32_t compress_bytes_min;
} FmWsRoute;

/**
 * A channel for a socket.
 */
typedef struct FmWsJoin {
  /**
   * The channel.
   */
  struct FmStr channel;
  /**
   * The user that the socket counts as; `ptr` NULL for none.
   */
  struct FmStr user;
  /**
   * JSON about the user; `ptr` NULL for none.
   */
  struct FmStr info;
  /**
   * Whether `join` and `leave` are published.
   */
  bool announce;
  /**
   * Last event id of the client; `ptr` NULL for none.
   */
  struct FmStr since;
  /**
   * FM_WS_FORMAT_*.
   */
  uint32_t format;
} FmWsJoin;

/**
 * What can be said about a socket.
 */
typedef struct FmWsInfo {
  /**
   * Whether something can be sent.
   */
  bool open;
  /**
   * Bytes that wait for the client.
   */
  size_t queued_bytes;
  /**
   * The subprotocol; `ptr` NULL for none. Valid until the next `fm_next_event`.
   */
  struct FmStr protocol;
} FmWsInfo;

/**
 * What is in a column: one of the three, by the column's type.
 */
typedef struct FmValue {
  /**
   * One of FM_COLUMN_*.
   */
  uint32_t kind;
  /**
   * Of FM_COLUMN_INT.
   */
  int64_t number;
  /**
   * Of FM_COLUMN_FLOAT.
   */
  double real;
  /**
   * Of FM_COLUMN_STRING.
   */
  struct FmStr text;
} FmValue;

/**
 * A file that came with a form.
 */
typedef struct FmUploadedFile {
  /**
   * Name of its field.
   */
  struct FmStr field;
  /**
   * Its name at the client, without directories.
   */
  struct FmStr name;
  /**
   * Its Content-Type as the client says; `ptr` NULL for none.
   */
  struct FmStr content_type;
  /**
   * Where it is until it is moved.
   */
  struct FmStr path;
  /**
   * Its length.
   */
  uint64_t bytes;
} FmUploadedFile;

/**
 * The settings that concern fibers.
 */
typedef struct FmFibers {
  /**
   * Fibers at most.
   */
  uint32_t max;
  /**
   * Fibers kept for reuse.
   */
  uint32_t idle_max;
  /**
   * Tasks at most that have not begun.
   */
  uint32_t tasks_max;
  /**
   * Milliseconds that a connection is waited for that another handler uses.
   */
  uint64_t shared_wait_ms;
  /**
   * Bytes of a fiber's stack.
   */
  size_t stack_bytes;
  /**
   * How long a query goes on whose client has left.
   */
  uint64_t abandoned_query_ms_max;
  /**
   * Handlers under way at most; 0 for no bound.
   */
  uint32_t handlers_max;
  /**
   * Bytes of memory for a program that sets no limit of its own; 0 for none.
   */
  size_t memory_bytes_max;
} FmFibers;

/**
 * What an edge has said with a request.
 */
typedef struct FmGrip {
  /**
   * The value of Grip-Sig.
   */
  struct FmStr signature;
  /**
   * The target, as it was sent.
   */
  struct FmStr target;
  /**
   * The values of Grip-Last.
   */
  const struct FmStr *lasts;
  /**
   * Their number.
   */
  size_t lasts_len;
} FmGrip;

/**
 * An answer that keeps the client.
 */
typedef struct FmHold {
  /**
   * FM_FORMAT_*.
   */
  uint8_t format;
  /**
   * Channels.
   */
  const struct FmStr *channels;
  /**
   * Their number.
   */
  size_t channels_len;
  /**
   * The user that the client counts as; `ptr` NULL for none.
   */
  struct FmStr user;
  /**
   * JSON about the user; `ptr` NULL for none.
   */
  struct FmStr info;
  /**
   * Whether `join` and `leave` are published.
   */
  bool announce;
  /**
   * Last event id of the client; `ptr` NULL for none.
   */
  struct FmStr since;
  /**
   * Milliseconds of silence before a comment; -1 = default, 0 = never.
   */
  int64_t keep_alive_ms;
  /**
   * FM_SLOW_*.
   */
  uint32_t slow;
  /**
   * Events for this client alone.
   */
  const struct FmMessage *with;
  /**
   * Their number.
   */
  size_t with_len;
  /**
   * Further response field lines; each has passed `fm_header_valid`.
   */
  const struct FmHeader *headers;
  /**
   * Their number.
   */
  size_t headers_len;
  /**
   * What an edge has said with the request; NULL when none has signed it.
   */
  const struct FmGrip *grip;
} FmHold;

/**
 * A user who is present.
 */
typedef struct FmMember {
  /**
   * The user.
   */
  struct FmStr user;
  /**
   * JSON about the user; `ptr` NULL for none.
   */
  struct FmStr info;
  /**
   * Connections over all workers.
   */
  uint32_t connections;
} FmMember;

/**
 * History that the log of a cluster is asked for. 0 is none.
 */
typedef uint64_t FmReading;

/**
 * A message of the past.
 */
typedef struct FmPast {
  /**
   * Its event id.
   */
  struct FmStr id;
  /**
   * Its name; `ptr` NULL for none.
   */
  struct FmStr name;
  /**
   * Its data.
   */
  struct FmStr data;
  /**
   * When it was published, milliseconds since 1970.
   */
  uint64_t time_ms;
} FmPast;

/**
 * The header of a frame.
 */
typedef struct FmWsFrame {
  /**
   * Bytes of the header.
   */
  size_t header_bytes;
  /**
   * Bytes of the payload, which follows the header.
   */
  size_t payload_bytes;
  /**
   * The masking key, when `masked`.
   */
  uint8_t key[4];
  /**
   * Of a violation, the code to close with. Of a close frame whose payload was read, its code; 0 for none.
   */
  uint16_t close_code;
  /**
   * RFC 6455, 11.8.
   */
  uint8_t opcode;
  /**
   * The reserved bits as in the first byte: 0x40, 0x20, 0x10.
   */
  uint8_t reserved;
  /**
   * Whether the frame ends its message.
   */
  bool fin;
  /**
   * Whether the payload is masked.
   */
  bool masked;
} FmWsFrame;

/**
 * What a client asks for.
 */
typedef struct FmWsOpening {
  /**
   * The value of `Host`.
   */
  struct FmStr host;
  /**
   * Path and query.
   */
  struct FmStr target;
  /**
   * Subprotocols, the favourite first.
   */
  const struct FmStr *protocols;
  /**
   * Number of subprotocols.
   */
  size_t protocols_len;
  /**
   * Further headers.
   */
  const struct FmHeader *headers;
  /**
   * Number of further headers.
   */
  size_t headers_len;
  /**
   * The longest message that is accepted.
   */
  size_t message_bytes_max;
  /**
   * Whether compression is offered.
   */
  bool compression;
} FmWsOpening;

/**
 * What has come.
 */
typedef struct FmWsReceived {
  /**
   * FM_WS_RECEIVED_*.
   */
  uint32_t kind;
  /**
   * Of a close frame its code, 1005 for none; of a refused handshake the status; of a violation the close code.
   */
  uint16_t code;
  /**
   * The message, the pong's payload or the close frame's reason, until the next call.
   */
  struct FmStr payload;
} FmWsReceived;

/**
 * What to do about a request that is to be answered by a stream: FM_STREAM_*.
 */
uint32_t fm_stream_wanted(const struct FmWorker *worker, FmRequest request, uint32_t status);

/**
 * Answers a request by a stream whose first piece is the body of `response`, of which it takes `taken` bytes.
 * `length` is what all pieces have together, -1 if that is not known. FM_EVENT_STREAM asks for more. FM_GONE;
 * FM_MISUSE when the piece is longer than `length`, and the request is still open.
 */
uint32_t fm_stream_begin(struct FmWorker *worker,
                         FmRequest request,
                         const struct FmResponse *response,
                         int64_t length,
                         size_t *taken,
                         struct FmError *error);

/**
 * Gives a stream's next piece, of which `taken` bytes are taken; the rest is to be given at the next
 * FM_EVENT_STREAM. FM_GONE; FM_MISUSE when it is longer than was promised: end it with `fm_stream_fail`.
 */
uint32_t fm_stream_write(struct FmWorker *worker,
                         FmRequest request,
                         struct FmStr piece,
                         size_t *taken,
                         struct FmError *error);

/**
 * Ends a stream. FM_GONE; FM_MISUSE when it is shorter than was promised: end it with `fm_stream_fail`.
 */
uint32_t fm_stream_end(struct FmWorker *worker,
                       FmRequest request,
                       struct FmError *error);

/**
 * Ends a stream that cannot go on: its client sees that something is missing, and `message` and what is known go to
 * the log. FM_GONE.
 */
uint32_t fm_stream_fail(struct FmWorker *worker,
                        FmRequest request,
                        struct FmStr message,
                        const struct FmDetail *detail);

/**
 * Ends a stream without its end and without a word in the log, if it has not ended.
 */
void fm_stream_cut(struct FmWorker *worker, FmRequest request);

/**
 * What the decoded `path` of a request leads to in the tree that `handler` stands in front of: FM_STATIC_*.
 */
uint32_t fm_static_find(struct FmWorker *worker,
                        uint32_t handler,
                        struct FmStr path);

/**
 * Answers a request with a file: whole, in parts, or by saying that the client's copy is right; 404 when it is not
 * there. FM_GONE.
 */
uint32_t fm_respond_file(struct FmWorker *worker,
                         FmRequest request,
                         const struct FmFile *file);

/**
 * Writes a log line under the companion's name; `level` from 0 (error) to 3 (debug).
 */
void fm_companion_log(const struct FmCompanion *companion, uint32_t level, struct FmStr message);

/**
 * Counts what happens in the processes for jobs (FM_COMPANION_*).
 */
void fm_companion_count(const struct FmCompanion *companion, uint32_t what);

/**
 * The memory limit of a process in which PHP has none; 0 = it stays without one.
 */
size_t fm_companion_memory_bytes_max(const struct FmCompanion *companion);

/**
 * Frees it, before the process ends.
 */
void fm_companion_free(struct FmCompanion *companion);

/**
 * Serves an application of the Pusher protocol: `app` is a JSON object with the keys of an `[[app]]` of `fermata hub`, `path`
 * what stands in front of `/app` and `/apps`. FM_CONFIGURATION.
 */
uint32_t fm_server_pusher(struct FmServer *server,
                          struct FmStr app,
                          struct FmStr path,
                          struct FmError *error);

/**
 * Serves Mercure: `mercure` is a JSON object with the keys of `[mercure]` of `fermata hub`. FM_CONFIGURATION.
 */
uint32_t fm_server_mercure(struct FmServer *server,
                           struct FmStr mercure,
                           struct FmError *error);

/**
 * Signs a subscription or a user's signing in. FM_PROTOCOL when the client has named no connection or channel;
 * FM_CONFIGURATION when the application has no such key.
 */
uint32_t fm_pusher_sign(const struct FmAuthOf *of,
                        struct FmAuth *out,
                        struct FmError *error);

/**
 * Whether subscribers of a channel are told of each other, so that its subscription names a user.
 */
bool fm_pusher_has_members(struct FmStr channel);

/**
 * Whether `fm_server_mercure` was called.
 */
bool fm_worker_has_mercure(const struct FmWorker *worker);

/**
 * Publishes an update to subscribers of Mercure. `id` stays valid until the next call with this worker. FM_MISUSE,
 * FM_BACKPRESSURE.
 */
uint32_t fm_mercure_publish(struct FmWorker *worker,
                            const struct FmUpdate *update,
                            struct FmStr *id,
                            struct FmError *error);

/**
 * Has PHP-FPM answer the paths below a prefix. Its requests do not come as events. FM_MISUSE names the argument.
 */
uint32_t fm_server_fastcgi(struct FmServer *server,
                           const struct FmFastCgi *given,
                           struct FmError *error);

/**
 * Begins a job. Does it before returning when `user` is 0, behind those that it must not overtake, or when `worker` is
 * NULL, without looking at any other. `id` is 0 when it is over, and `result` or the code says how:
 * FM_OK, FM_FILE_*, FM_BACKPRESSURE (too many, or no descriptors left). Otherwise it is pending, and FM_EVENT_WAKE
 * tells that `fm_file_next` may give `user`.
 */
uint32_t fm_file_begin(struct FmWorker *worker,
                       const struct FmFileJob *job,
                       uint64_t bytes_max,
                       uint64_t user,
                       FmFileJobId *id,
                       struct FmFileResult *result,
                       struct FmError *error);

/**
 * The next pending job that is over: its `user`. False when there is none.
 */
bool fm_file_next(struct FmWorker *worker, uint64_t *user);

/**
 * How a job has ended that `fm_file_next` has told of: as `fm_file_begin`.
 */
uint32_t fm_file_take(struct FmWorker *worker,
                      FmFileJobId id,
                      struct FmFileResult *result,
                      struct FmError *error);

/**
 * Stops waiting for a job, which is finished all the same.
 */
void fm_file_forget(struct FmWorker *worker, FmFileJobId id);

/**
 * Opens `path` for `length` bytes (-1: all) from `offset` on, if it is in the kernel's memory and not larger than what
 * is read without leaving the loop. How many bytes `fm_file_cached_read` then wants room for; -1 when it is not.
 */
int64_t fm_file_cached(const struct FmWorker *worker,
                       struct FmStr path,
                       uint64_t offset,
                       int64_t length);

/**
 * Reads what `fm_file_cached` has opened, and closes it. False when it is not all there: a job reads it.
 *
 * # Safety
 * What the header says of pointers: those of bytes and arrays have as much room as is said above.
 */
bool fm_file_cached_read(char *into);

/**
 * The bytes of the last result are not needed any more.
 */
void fm_file_release(void);

/**
 * Bytes that `fm_file_begin` is given as `bytes_max` with this worker: file_read_bytes_max.
 */
uint64_t fm_file_bytes_max(const struct FmWorker *worker);

/**
 * Frees an open file, and removes a temporary one. Work that is under way is finished all the same.
 */
void fm_open_file_free(struct FmOpenFile *file);

/**
 * Closes an open file, and removes a temporary one; what is asked of it then fails.
 */
void fm_open_file_close(struct FmOpenFile *file);

/**
 * Where the next read or write of an open file is.
 */
uint64_t fm_open_file_position(const struct FmOpenFile *file);

/**
 * Whether an open file is removed when it is closed.
 */
bool fm_open_file_is_temporary(const struct FmOpenFile *file);

/**
 * Locks an open file as FM_LOCK_* says; waits for it only if `waits` is set. `locked` is false when another has it.
 */
uint32_t fm_open_file_lock(struct FmOpenFile *file,
                           uint32_t lock,
                           bool waits,
                           bool *locked,
                           struct FmError *error);

/**
 * Begins a call. False when that cannot be: the caller makes it itself. `id` is 0 when it is over, and `answer` says how:
 * what the call has returned, or a negative error number. Otherwise it is pending, and FM_EVENT_WAKE tells that
 * `fm_file_next` may give `user`; `fm_file_call_take` follows, or `fm_file_forget`.
 */
bool fm_file_call(struct FmWorker *worker,
                  const struct FmFileCall *call,
                  uint64_t user,
                  FmFileJobId *id,
                  int64_t *answer);

/**
 * How a call has ended that `fm_file_next` has told of: as `answer` of `fm_file_call`.
 */
int64_t fm_file_call_take(struct FmWorker *worker, FmFileJobId id);

/**
 * Whether a short call may be made in the loop, which moves `bytes` and, if `writes`, writes to this file.
 * `fm_file_tried` follows it.
 */
bool fm_file_may_try(struct FmWorker *worker,
                     uint64_t bytes,
                     bool writes,
                     uint64_t device,
                     uint64_t inode);

/**
 * It was made.
 */
void fm_file_tried(struct FmWorker *worker);

/**
 * Finishes what is still to be written to a file, before somebody writes to it who cannot wait.
 */
void fm_file_settle(struct FmWorker *worker, uint64_t device, uint64_t inode);

/**
 * Bytes that one call moves in the loop: file_inline_bytes_max.
 */
uint64_t fm_file_inline_bytes_max(const struct FmWorker *worker);

/**
 * Makes the worker of a server in the calling process; consumes the server in every case. Its clock stands still, and its log
 * is in a file that has no name, for which `log` is a descriptor of the caller's. Free the worker before `memory`.
 */
uint32_t fm_in_process_start(struct FmServer *server,
                             int32_t *log,
                             struct FmWorker **out,
                             struct FmMemory **memory,
                             struct FmError *error);

/**
 * Has the worker take over a connected stream as if it had accepted it from `address`, an IP address; an empty one stands for
 * a Unix socket. FM_MISUSE when it is no address; the descriptor is then still the caller's.
 */
uint32_t fm_in_process_connect(struct FmWorker *worker,
                               int32_t fd,
                               struct FmStr address,
                               uint16_t port,
                               struct FmError *error);

/**
 * As `fm_next_event`, and false when nothing is left to do at this time: what goes on outside of the process is waited for at
 * most `wait_ms`.
 */
bool fm_in_process_next(struct FmWorker *worker,
                        uint64_t wait_ms,
                        struct FmEvent *event);

/**
 * Sets the clock of the process forward to when something is next due, or by `ms_max`. Returns by how much.
 */
uint64_t fm_in_process_advance(struct FmWorker *worker,
                               uint64_t ms_max);

/**
 * Takes back what a worker has had that was freed: the log goes to standard error again, and the clock on.
 */
void fm_in_process_end(struct FmMemory *memory);

/**
 * A task of a kind (FM_TASK_*) has ended.
 */
void fm_count_task(struct FmWorker *worker, uint32_t kind, bool has_failed);

/**
 * So many runs of `every()` were left out.
 */
void fm_count_skipped(struct FmWorker *worker, uint64_t runs);

/**
 * So many handlers and tasks wait now, and so many tasks have not begun.
 */
void fm_worker_waiting(struct FmWorker *worker, uint32_t fibers, uint32_t tasks);

/**
 * So many calls of jobs have not ended.
 */
void fm_worker_jobs(struct FmWorker *worker, uint32_t pending);

/**
 * A call of a job has ended in one of the ways FM_JOB_*.
 */
void fm_count_job(struct FmWorker *worker, uint32_t end);

/**
 * Publishes through the control socket `unix:/path` of a running server and waits for its answer.
 * FM_IO, FM_TIMEOUT, FM_MISUSE, FM_BACKPRESSURE.
 */
uint32_t fm_publisher_publish(struct FmStr control,
                              uint32_t timeout_ms,
                              struct FmStr channel,
                              const struct FmMessage *message,
                              struct FmId *id,
                              struct FmError *error);

/**
 * Publishes a message. When it returns FM_OK the message is in the channel's log; in a cluster, in the log that machines share,
 * or with FM_ACK_LOCAL on its way there, and the id is empty. The socket `except` of this worker does not get it; 0 = everybody
 * does.
 */
uint32_t fm_publish(struct FmWorker *worker,
                    struct FmStr channel,
                    const struct FmMessage *message,
                    FmSocket except,
                    uint32_t ack,
                    struct FmId *id,
                    struct FmError *error);

/**
 * Names the request whose handler is about to publish, by its handle: the publish is part of its trace. 0 = none.
 */
void fm_publish_for(struct FmWorker *worker,
                    FmRequest request);

/**
 * Sends a message to the workers of all other servers of the cluster, which have it as FM_EVENT_PEER_MESSAGE; nothing happens without a
 * cluster. When it returns FM_OK the message is on its way. FM_MISUSE (too large), FM_BACKPRESSURE (the log is not there).
 */
uint32_t fm_worker_send_to_servers(struct FmWorker *worker,
                                   struct FmStr data,
                                   struct FmError *error);

/**
 * Whether a publish takes longer than a moment, so that a handler should wait for it: `fm_publish_begin`.
 */
bool fm_publish_waits(const struct FmWorker *worker);

/**
 * How long a publish may take.
 */
uint64_t fm_publish_wait_ms_max(const struct FmWorker *worker);

/**
 * Begins to publish as `fm_publish` does, for a handler that waits, in which it has begun at `began_ms` of `fm_worker_now_ms`,
 * 0 for one with FM_ACK_LOCAL that begins. On FM_OK `record` is 0 when it is over, FM_PUBLISH_LATER when it is to be begun
 * again a little later, and else for `fm_publish_end` when `fm_publish_next` has given `user`, which is not 0. FM_MISUSE, FM_BACKPRESSURE.
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
 * The next publish of which the log has said something: its `user`. False when there is none.
 */
bool fm_publish_next(struct FmWorker *worker, uint64_t *user);

/**
 * What became of a publish that began at `began_ms`: FM_OK, FM_BACKPRESSURE. `over` is false, and the answer FM_OK, while that is
 * not known; it is known when its time is over at the latest.
 */
uint32_t fm_publish_end(struct FmWorker *worker,
                        FmPublish record,
                        uint64_t began_ms,
                        bool *over,
                        struct FmId *id,
                        struct FmError *error);

/**
 * Stops waiting for a publish. The message is published all the same.
 */
void fm_publish_forget(struct FmWorker *worker, FmPublish record);

/**
 * The handler of a stream that was begun goes on: FM_EVENT_GONE tells when its client has left, and FM_EVENT_STREAM that
 * all it has pushed was taken.
 */
void fm_stream_watch(struct FmWorker *worker,
                     FmRequest request);

/**
 * Queues an event; `ptr` of `data`, `name` and `id` is NULL, and `retry_ms` -1, for none. `queued` is how many bytes it
 * has become. FM_GONE; FM_MISUSE.
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
 * Queues a comment, as `fm_stream_push`.
 */
uint32_t fm_stream_comment(struct FmWorker *worker,
                           FmRequest request,
                           struct FmStr text,
                           size_t *queued,
                           struct FmError *error);

/**
 * Queues bytes as they are, as `fm_stream_push`: for bodies that are no streams of events.
 */
uint32_t fm_stream_bytes(struct FmWorker *worker,
                         FmRequest request,
                         struct FmStr bytes,
                         size_t *queued,
                         struct FmError *error);

/**
 * Whether the worker finishes what it has and takes nothing new.
 */
bool fm_worker_is_draining(const struct FmWorker *worker);

/**
 * The setting keep_alive_ms; 0 = no comments.
 */
uint64_t fm_worker_keep_alive_ms(const struct FmWorker *worker);

/**
 * The `nth` (from 0) field line of that name, any case. False when there is none.
 */
bool fm_request_header(struct FmWorker *worker,
                       FmRequest request,
                       struct FmStr lower_case_name,
                       size_t nth,
                       struct FmStr *value);

/**
 * The field line at `index`: name as sent, and value. False past the end.
 */
bool fm_request_header_at(struct FmWorker *worker,
                          FmRequest request,
                          size_t index,
                          struct FmStr *name,
                          struct FmStr *value);

/**
 * Reads the value of a `traceparent` header. False when it is malformed.
 */
bool fm_trace_parent(struct FmStr value, struct FmTraceParent *parent);

/**
 * Whether a request that is not answered yet is recorded; with FM_SPAN_RECORDED `span` is told.
 */
uint32_t fm_request_span(struct FmWorker *worker, FmRequest request, struct FmSpan *span);

/**
 * What the route's `{name}` has matched, percent-decoded. False when the pattern has no such name.
 */
bool fm_request_route(struct FmWorker *worker,
                      FmRequest request,
                      struct FmStr name,
                      struct FmStr *value);

/**
 * The route parameter at `index`. False past the end.
 */
bool fm_request_route_at(struct FmWorker *worker,
                         FmRequest request,
                         size_t index,
                         struct FmStr *name,
                         struct FmStr *value);

/**
 * The client's address (without port; `unix` for a Unix socket) and port, as a trusted proxy says, else those of the
 * connection.
 */
bool fm_request_remote(struct FmWorker *worker,
                       FmRequest request,
                       struct FmStr *address,
                       uint16_t *port);

/**
 * The address of this server that the connection goes to (without port; empty for a Unix socket) and port, and the version of
 * HTTP as `HTTP/1.1`.
 */
bool fm_request_server(struct FmWorker *worker,
                       FmRequest request,
                       struct FmStr *address,
                       uint16_t *port,
                       struct FmStr *protocol);

/**
 * The host and port that the client asked for, as a trusted proxy says, else as the request does. False without one.
 */
bool fm_request_host(struct FmWorker *worker,
                     FmRequest request,
                     struct FmStr *host);

/**
 * Whether the client speaks TLS, to us or to a trusted proxy; subject and PEM of the certificate it has shown us, `ptr`
 * NULL when it has shown none.
 */
bool fm_request_tls(struct FmWorker *worker,
                    FmRequest request,
                    struct FmStr *subject,
                    struct FmStr *pem);

/**
 * Whether `name` is a token and `value` a field value (RFC 9110, 5.1 and 5.5): what may be handed
 * to `fm_respond` and `fm_hold`.
 */
bool fm_header_valid(struct FmStr name, struct FmStr value);

/**
 * Whether the field frames the message and is therefore the server's own.
 */
bool fm_header_reserved(struct FmStr name);

/**
 * The version of the native core. Valid for ever.
 */
struct FmStr fm_version(void);

/**
 * The row at `index` of what `php --ri fermata` tells: kernel features, then settings with their
 * their defaults. False past the end. Valid for ever.
 */
bool fm_info_at(size_t index, struct FmStr *name, struct FmStr *value);

/**
 * The setting at `index`: name, default and documentation. False past the end. Valid for ever.
 */
bool fm_setting_at(size_t index,
                   struct FmStr *name,
                   struct FmStr *default_value,
                   struct FmStr *doc);

/**
 * `text` with `***` in place of its secrets, as the log has it: the number of its bytes. They are in `place` if it has room
 * for so many.
 *
 * # Safety
 * `place` is NULL or valid for writing `len` bytes.
 */
size_t fm_mask_secrets(struct FmStr text,
                       char *place,
                       size_t len);

/**
 * A server without routes; NULL only after a panic.
 */
struct FmServer *fm_server_new(void);

/**
 * Frees a server that was not started.
 */
void fm_server_free(struct FmServer *server);

/**
 * Sets a setting by its name. FM_CONFIGURATION for a bad value or an unknown name.
 */
uint32_t fm_server_set(struct FmServer *server,
                       struct FmStr name,
                       struct FmStr value,
                       uint32_t source,
                       struct FmError *error);

/**
 * Adds a route; an empty `method` stands for any. FM_MISUSE for a bad or a taken pattern.
 */
uint32_t fm_server_route(struct FmServer *server,
                         struct FmStr method,
                         struct FmStr pattern,
                         uint32_t handler,
                         struct FmError *error);

/**
 * Lets bodies of requests for the handler have so many bytes, whatever the settings say. FM_MISUSE when that is too much.
 */
uint32_t fm_server_route_body(struct FmServer *server,
                              uint32_t handler,
                              uint64_t bytes_max,
                              struct FmError *error);

/**
 * Sends requests that no route serves to `handler`: unknown paths, and if `takes_methods` also wrong methods and OPTIONS.
 * The event's `unrouted` and `allow` tell what the core would have answered.
 */
uint32_t fm_server_fallback(struct FmServer *server,
                            uint32_t handler,
                            bool takes_methods,
                            struct FmError *error);

/**
 * Hands requests to the handler when their heads are complete: FmEvent.upload is then FM_UPLOAD_ARRIVING unless the
 * body has come with the head, and `fm_body_read` gives what has arrived.
 */
void fm_server_route_early(struct FmServer *server,
                           uint32_t handler);

/**
 * Sends requests for files of the tree at `prefix` to `handler`: FmEvent.unrouted is then 200, and `fm_static_find` and
 * `fm_respond_file` know the tree by `handler`.
 */
uint32_t fm_server_guard_files(struct FmServer *server,
                               struct FmStr prefix,
                               uint32_t handler,
                               struct FmError *error);

/**
 * Sends requests below `prefix` that no file of the tree there answers to `handler`: paths without a file, and every
 * method but GET and HEAD.
 */
uint32_t fm_server_static_fallback(struct FmServer *server,
                                   struct FmStr prefix,
                                   uint32_t handler,
                                   struct FmError *error);

/**
 * Has FM_EVENT_UPGRADE come for every handshake of the WebSockets that were added with `handler`.
 */
void fm_server_guard_websocket(struct FmServer *server, uint32_t handler);

/**
 * Serves the files below `directory` under the path `prefix`. FM_MISUSE as `fm_server_route`.
 */
uint32_t fm_server_static(struct FmServer *server,
                          struct FmStr prefix,
                          struct FmStr directory,
                          const struct FmStatic *options,
                          struct FmError *error);

/**
 * Tells where the master finds what a worker's handler is doing, for the report of those that hold the loop.
 */
void fm_server_frames(struct FmServer *server,
                      const struct FmFrames *frames);

/**
 * Tells what runs the handlers, such as `PHP 8.4.1, opcache on`, for the banner at the start.
 */
void fm_server_program(struct FmServer *server, struct FmStr name);

/**
 * Has the log say at the start what is probably not meant.
 */
void fm_server_warn(struct FmServer *server, struct FmStr message);

/**
 * How many workers the server would start; 0 when a setting is wrong, which `fm_server_start` tells.
 */
uint32_t fm_server_workers(struct FmServer *server);

/**
 * Has the master keep one more process beside the workers, in which `fm_server_start` returns as well, with
 * `companion`. Its log lines have this name.
 */
void fm_server_companion(struct FmServer *server,
                         struct FmStr name);

/**
 * Binds and forks. Returns once in each worker and companion, and once in the calling process after the last
 * worker has ended. Consumes the server in every case.
 */
uint32_t fm_server_start(struct FmServer *server,
                         struct FmStart *out,
                         struct FmError *error);

/**
 * Opens WebSockets at paths that match `pattern`. FM_MISUSE for a bad or a taken pattern (a WebSocket
 * takes the place of a GET route) and for options that cannot work.
 */
uint32_t fm_server_websocket(struct FmServer *server,
                             struct FmStr pattern,
                             const struct FmWsRoute *route,
                             struct FmError *error);

/**
 * Accepts the handshake of FM_EVENT_UPGRADE: `request` is its handle. With `protocol.ptr` NULL the
 * first of the route's subprotocols that the client offers is taken. On an error (FM_MISUSE, FM_GONE)
 * the request is still open. Each header has passed `fm_header_valid`.
 *
 * # Safety
 * What the header says of pointers: those of bytes and arrays have as much room as is said above.
 */
uint32_t fm_ws_accept_request(struct FmWorker *worker,
                              FmRequest request,
                              struct FmStr protocol,
                              const struct FmHeader *headers,
                              size_t headers_len,
                              FmSocket *socket,
                              struct FmError *error);

/**
 * Queues a message for a socket. FM_GONE, FM_BACKPRESSURE (policy FM_WS_REFUSE), FM_MISUSE (text that
 * is not UTF-8). The payload of the current FM_EVENT_WS_MESSAGE may be handed back as it is.
 */
uint32_t fm_ws_send(struct FmWorker *worker,
                    FmSocket socket,
                    bool binary,
                    struct FmStr data,
                    struct FmError *error);

/**
 * Sends a message to a socket of any worker, by the text that `fm_ws_id` gave. FM_MISUSE, FM_BACKPRESSURE
 * (no room in the shared log). FM_OK does not say that it has arrived: the socket may have left.
 */
uint32_t fm_ws_send_to(struct FmWorker *worker,
                       struct FmStr id,
                       bool binary,
                       struct FmStr data,
                       struct FmError *error);

/**
 * Begins to close a socket; nothing can be sent from here on. FM_EVENT_WS_CLOSE follows when the client
 * has answered or its time is over. FM_GONE, FM_MISUSE (code or reason).
 */
uint32_t fm_ws_disconnect(struct FmWorker *worker,
                          FmSocket socket,
                          uint16_t code,
                          struct FmStr reason,
                          struct FmError *error);

/**
 * Ends a socket whose handler failed: close code 1011 to the client, `message` to the log. Counted
 * as a failure of a handler.
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
 * Ends a subscription; nothing happens when there is none. FM_GONE.
 */
uint32_t fm_ws_leave(struct FmWorker *worker,
                     FmSocket socket,
                     struct FmStr channel,
                     struct FmError *error);

/**
 * What can be said about a socket. False when it has ended.
 */
bool fm_ws_info(struct FmWorker *worker, FmSocket socket, struct FmWsInfo *info);

/**
 * The text by which any worker can send to a socket. FM_GONE.
 */
uint32_t fm_ws_id(struct FmWorker *worker, FmSocket socket, struct FmId *id);

/**
 * A socket's client: its address (without port; `unix` for a Unix socket) and port. The address is valid
 * until the next call of this function or of `fm_request_remote`. False when the socket has ended.
 */
bool fm_socket_remote(struct FmWorker *worker,
                      FmSocket socket,
                      struct FmStr *address,
                      uint16_t *port);

/**
 * A table without columns, which is not made yet; NULL only after a panic.
 */
struct FmTable *fm_table_new(void);

/**
 * Adds a column of a type (FM_COLUMN_*); `bytes_max` is what a string may have.
 */
void fm_table_column(struct FmTable *table, uint32_t column, uint32_t bytes_max);

/**
 * Makes the table, in memory that is shared with processes which are forked from here on, and tells how much that is at
 * most. FM_MISUSE, FM_CONFIGURATION (there is no such memory).
 */
uint32_t fm_table_make(struct FmTable *table,
                       uint32_t rows,
                       uint32_t key_bytes_max,
                       uint64_t *bytes,
                       struct FmError *error);

/**
 * To be called in a process that was forked, before anything else is done with the table there.
 */
void fm_table_forked(struct FmTable *table);

/**
 * Begins a change, of which `fm_table_put` gives the columns and `fm_table_set` the row.
 */
void fm_table_begin(struct FmTable *table);

/**
 * What a column is to be. FM_MISUSE: it takes another type, or is too short.
 */
uint32_t fm_table_put(struct FmTable *table,
                      uint32_t column,
                      const struct FmValue *value,
                      struct FmError *error);

/**
 * Changes a row, or adds it. FM_MISUSE (the key), FM_BACKPRESSURE: the table is full, or its lock taken.
 */
uint32_t fm_table_set(struct FmTable *table,
                      struct FmStr key,
                      struct FmError *error);

/**
 * Adds to a column, and adds a row when there is none. FM_MISUSE: key, type, a sum that is too large; FM_BACKPRESSURE as
 * `fm_table_set`.
 */
uint32_t fm_table_add(struct FmTable *table,
                      struct FmStr key,
                      uint32_t column,
                      const struct FmValue *by,
                      struct FmValue *sum,
                      struct FmError *error);

/**
 * Deletes a row, and tells whether there was one. FM_MISUSE (the key), FM_BACKPRESSURE.
 */
uint32_t fm_table_delete(struct FmTable *table,
                         struct FmStr key,
                         bool *was_there,
                         struct FmError *error);

/**
 * Deletes the rows that are there. FM_BACKPRESSURE.
 */
uint32_t fm_table_clear(struct FmTable *table, struct FmError *error);

/**
 * Copies a row for `fm_table_value`, and tells whether there is one. FM_MISUSE (the key), FM_BACKPRESSURE.
 */
uint32_t fm_table_get(struct FmTable *table,
                      struct FmStr key,
                      bool *is_there,
                      struct FmError *error);

/**
 * Whether there is a row. FM_MISUSE (the key), FM_BACKPRESSURE.
 */
uint32_t fm_table_contains(struct FmTable *table,
                           struct FmStr key,
                           bool *is_there,
                           struct FmError *error);

/**
 * Copies the row behind `place`, at first 0, for `fm_table_key` and `fm_table_value`, and moves `place` behind it. `is_there`
 * is false at the end. FM_BACKPRESSURE.
 */
uint32_t fm_table_next(struct FmTable *table,
                       uint32_t *place,
                       bool *is_there,
                       struct FmError *error);

/**
 * The key of the row that `fm_table_next` has copied. Valid until another function is called with the table.
 */
struct FmStr fm_table_key(const struct FmTable *table);

/**
 * A column of the row that was copied. False when there is no such column. Valid as `fm_table_key`.
 */
bool fm_table_value(const struct FmTable *table, uint32_t column, struct FmValue *value);

/**
 * How many rows there are.
 */
uint32_t fm_table_len(const struct FmTable *table);

/**
 * Frees this process's own; others keep theirs.
 */
void fm_table_free(struct FmTable *table);

/**
 * The field at `index` of a form: name as sent, and value. False past the end.
 */
bool fm_upload_field_at(struct FmWorker *worker,
                        uint32_t upload,
                        size_t index,
                        struct FmStr *name,
                        struct FmStr *value);

/**
 * The name at `index` of those fields for files in which nothing was chosen, and how many files came before it. False
 * past the end.
 */
bool fm_upload_unchosen_at(struct FmWorker *worker,
                           uint32_t upload,
                           size_t index,
                           struct FmStr *name,
                           size_t *files_before);

/**
 * The file at `index` of a form. False past the end.
 */
bool fm_upload_file_at(struct FmWorker *worker,
                       uint32_t upload,
                       size_t index,
                       struct FmUploadedFile *file);

/**
 * The file of a body that is too large for memory. False when the body is not in a file.
 */
bool fm_upload_body(struct FmWorker *worker, uint32_t upload, struct FmStr *path);

/**
 * The request is over: removes its files, but for those that were moved away.
 */
void fm_upload_release(struct FmWorker *worker, uint32_t upload);

/**
 * Reads on in a body that arrives, at most `bytes_max` (and `body_piece_bytes_max`): `piece` is empty at its end, and stays
 * valid until the next call or `fm_next_event`; `last` tells that nothing follows. FM_PARTIAL when nothing has come:
 * FM_EVENT_BODY tells when to ask again. FM_GONE when the client has left, FM_PROTOCOL when the rest cannot be had: `status` is
 * that of the answer.
 */
uint32_t fm_body_read(struct FmWorker *worker,
                      FmRequest request,
                      size_t bytes_max,
                      struct FmStr *piece,
                      bool *last,
                      uint32_t *status,
                      struct FmError *error);

/**
 * The settings that concern fibers.
 */
void fm_worker_fibers(const struct FmWorker *worker, struct FmFibers *fibers);

/**
 * The handler of a request waits and will answer later. FM_EVENT_GONE tells when its client leaves
 * before. FM_GONE when it has left already, or was answered.
 */
uint32_t fm_defer(struct FmWorker *worker, FmRequest request);

/**
 * The handler of a WebSocket waits: nothing more comes from this socket until `fm_ws_resume`, except
 * FM_EVENT_GONE and its close. FM_GONE when it has ended.
 */
uint32_t fm_ws_defer(struct FmWorker *worker,
                     FmSocket socket);

/**
 * The handler of a WebSocket that waited has come to its end.
 */
void fm_ws_resume(struct FmWorker *worker, FmSocket socket);

/**
 * Asks for one FM_EVENT_WAKE at `due_ms` of `fm_worker_now_ms`; 0 = as soon as output has gone out and
 * events were looked for, UINT64_MAX = not any more. The last call counts.
 */
void fm_worker_wake_at(struct FmWorker *worker,
                       uint64_t due_ms);

/**
 * Milliseconds of the monotonic clock.
 */
uint64_t fm_worker_now_ms(struct FmWorker *worker);

/**
 * Whether something is under way that has no client, and should come to its end before the worker stops.
 */
void fm_worker_busy(struct FmWorker *worker,
                    bool busy);

/**
 * Whether there is no room for another handler. Meanwhile only FM_EVENT_WAKE, FM_EVENT_GONE and
 * FM_EVENT_STOP come.
 */
void fm_worker_full(struct FmWorker *worker, bool full);

/**
 * This handler runs from now on, though no event was asked for: it has waited. For the report of what holds the loop.
 */
void fm_note_handler(struct FmWorker *worker,
                     uint32_t handler);

/**
 * Whether another handler or task may go on in this turn that has waited, or another task begin; what ran has returned, or
 * waits. When not, ask for an event first, after `fm_worker_wake_at` with 0.
 */
bool fm_may_resume(struct FmWorker *worker);

/**
 * Sends what was answered in this turn at once, while the handler that has answered goes on. Nothing that the core has lent of
 * its request is valid any more.
 */
void fm_send_answers(struct FmWorker *worker);

/**
 * The handler of a request for which `fm_defer` was called has come to its end.
 */
void fm_settle(struct FmWorker *worker, FmRequest request);

/**
 * The program waits before it can give the next piece of the stream that answers `request`. FM_EVENT_GONE tells when
 * the client leaves before. FM_GONE when it has left already.
 */
uint32_t fm_stream_defer(struct FmWorker *worker,
                         FmRequest request);

/**
 * The piece that FM_EVENT_STREAM asks for cannot be made while there is no room for another handler that waits: it is
 * asked for again after `fm_worker_full`.
 */
void fm_stream_later(struct FmWorker *worker,
                     FmRequest request);

/**
 * Asks for one FM_EVENT_READY when `fd` is ready for any of `interest` (FM_WATCH_*) or has hung up; this replaces
 * what was asked for before, and 0 takes it back. The descriptor may be closed at any time: nothing is told of it
 * then. FM_ALWAYS_READY and FM_MISUSE (not open; no memory left): nothing was asked for.
 */
uint32_t fm_watch(struct FmWorker *worker,
                  int32_t fd,
                  uint32_t interest,
                  struct FmError *error);

/**
 * Blocks until there is something for PHP to do. All strings of the event and of the fm_request_*
 * calls stay valid until the next call. `event` holds one already, if only of zeros: few of its fields are set.
 */
uint32_t fm_next_event(struct FmWorker *worker,
                       struct FmEvent *event);

/**
 * Answers a request. FM_GONE when its client has left or it was answered before.
 */
uint32_t fm_respond(struct FmWorker *worker, FmRequest request, const struct FmResponse *response);

/**
 * Sends `103 Early Hints` with the header lines of `hints` at once. `has_sent` tells whether the client understands them.
 * FM_GONE as for `fm_respond`.
 */
uint32_t fm_early_hints(struct FmWorker *worker,
                        FmRequest request,
                        const struct FmResponse *hints,
                        bool *has_sent);

/**
 * Answers a request whose handler failed: `status` (500; 400 when the request is to blame) to the
 * client, `message` and what is known to the log.
 */
uint32_t fm_fail(struct FmWorker *worker,
                 FmRequest request,
                 uint32_t status,
                 struct FmStr message,
                 const struct FmDetail *detail);

/**
 * Counts a handler that has failed, whose client the program itself answers.
 */
void fm_note_failure(struct FmWorker *worker);

/**
 * After a fatal error: the worker takes no more requests, has a replacement started, finishes its
 * writes, ends its held clients in order, and FM_EVENT_STOP follows.
 */
void fm_worker_retire(struct FmWorker *worker);

/**
 * What the process should exit with after FM_EVENT_STOP.
 */
int32_t fm_worker_exit_code(const struct FmWorker *worker);

/**
 * Whether `fm_hold` has to be told what an edge has said.
 */
bool fm_worker_has_edges(const struct FmWorker *worker);

/**
 * Answers a request by an event stream and keeps the client, or has the edge keep it that has
 * signed the request. On an error (FM_MISUSE, FM_BACKPRESSURE, FM_GONE) the request is still open.
 */
uint32_t fm_hold(struct FmWorker *worker,
                 FmRequest request,
                 const struct FmHold *hold,
                 struct FmError *error);

/**
 * Checks a channel's name. FM_MISUSE when it is none.
 */
uint32_t fm_channel_name_check(struct FmStr channel, struct FmError *error);

/**
 * Checks an event's name and data. FM_MISUSE when they cannot be sent.
 */
uint32_t fm_message_check(const struct FmMessage *message, struct FmError *error);

/**
 * How many users are present in a channel: the length that `fm_members` would give without a bound.
 * FM_MISUSE, FM_BACKPRESSURE (the presence table is not to be had).
 */
uint32_t fm_member_count(struct FmWorker *worker,
                         struct FmStr channel,
                         size_t *count,
                         struct FmError *error);

/**
 * Users present in a channel, at most `count_max` of them, the latest first. The array stays
 * valid until the next call of this function. FM_MISUSE, FM_BACKPRESSURE as `fm_member_count`.
 */
uint32_t fm_members(struct FmWorker *worker,
                    struct FmStr channel,
                    size_t count_max,
                    const struct FmMember **first,
                    size_t *len,
                    struct FmError *error);

/**
 * The newest messages of a channel after `since` (`ptr` NULL: all), oldest first. The array stays
 * valid until the next call of this function or `fm_history_next`. With `reading` the log of a cluster is not waited for: what is
 * written there is 0, or a number for `fm_history_next` while there is nothing yet. FM_MISUSE, FM_BACKPRESSURE.
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
 * Goes on with history that the log is asked for. `over` is false, and the answer FM_OK, while it has not answered; when it is
 * true, the number is of no more use. FM_BACKPRESSURE.
 */
uint32_t fm_history_next(struct FmWorker *worker,
                         FmReading reading,
                         bool *over,
                         const struct FmPast **first,
                         size_t *len,
                         struct FmError *error);

/**
 * Stops waiting for history.
 */
void fm_history_forget(struct FmWorker *worker, FmReading reading);

/**
 * Writes a log line; `level` from 0 (error) to 3 (debug).
 */
void fm_worker_log(struct FmWorker *worker, uint32_t level, struct FmStr message);

/**
 * Writes a log line about the program's code. `is_bounded`: clients can cause it at will, so that only so many are
 * written per second.
 */
void fm_worker_tell(struct FmWorker *worker,
                    uint32_t level,
                    bool is_bounded,
                    struct FmStr message,
                    const struct FmDetail *detail);

/**
 * Frees a worker after FM_EVENT_STOP.
 */
void fm_worker_free(struct FmWorker *worker);

/**
 * Writes FM_WS_ACCEPT_BYTES bytes: the answer to a client's key. False when the key is not base64 of 16 bytes.
 *
 * # Safety
 * What the header says of pointers: those of bytes and arrays have as much room as is said above.
 */
bool fm_ws_accept(struct FmStr key,
                  char *accept);

/**
 * Bytes of a frame with its header.
 */
size_t fm_ws_frame_bytes(size_t payload_bytes, bool masked);

/**
 * Whether these bytes may be a text message: they are UTF-8.
 *
 * For C, which writes the header of a plain text frame itself: that takes less than a call.
 */
bool fm_ws_is_text(struct FmStr payload);

/**
 * Writes a frame of `fm_ws_frame_bytes` bytes. Of `frame` opcode, reserved, fin, masked and key count.
 *
 * FM_MISUSE when the frame would break the protocol; what was written is then of no use.
 *
 * # Safety
 * What the header says of pointers: those of bytes and arrays have as much room as is said above.
 */
uint32_t fm_ws_encode(const struct FmWsFrame *frame,
                      struct FmStr payload,
                      char *out,
                      struct FmError *error);

/**
 * Writes the payload of a close frame, at most FM_WS_CLOSE_BYTES bytes, and its length.
 *
 * FM_MISUSE when the code must not be sent, or the reason is too long or not UTF-8.
 *
 * # Safety
 * What the header says of pointers: those of bytes and arrays have as much room as is said above.
 */
uint32_t fm_ws_close(int64_t code,
                     struct FmStr reason,
                     char *out,
                     size_t *len,
                     struct FmError *error);

/**
 * Reads the header of the frame at the start of `bytes`.
 *
 * FM_OK when the whole frame is there, FM_PARTIAL when bytes are missing, FM_PROTOCOL with `frame.close_code`
 * when it breaks the protocol or is longer than `payload_bytes_max`. `reserved` are the reserved bits that may be set.
 */
uint32_t fm_ws_header(struct FmStr bytes,
                      uint32_t masking,
                      uint8_t reserved,
                      size_t payload_bytes_max,
                      struct FmWsFrame *frame,
                      struct FmError *error);

/**
 * Writes the payload of a frame that `fm_ws_header` has read from the same bytes, unmasked, and checks it.
 *
 * Sets `frame.close_code` of a close frame; its reason starts at `out + 2`. FM_PROTOCOL with `frame.close_code`
 * for a text that is not UTF-8 (of a fragment, that cannot be the first one of such) and for a malformed close frame.
 *
 * # Safety
 * What the header says of pointers: those of bytes and arrays have as much room as is said above.
 */
uint32_t fm_ws_payload(struct FmWsFrame *frame,
                       const char *payload,
                       char *out,
                       struct FmError *error);

/**
 * Checks what is asked for. NULL with an error: FM_MISUSE.
 */
struct FmWsClient *fm_ws_client_new(const struct FmWsOpening *opening, struct FmError *error);

/**
 * Releases a client.
 */
void fm_ws_client_free(struct FmWsClient *client);

/**
 * What is to be sent. Valid until the next call for this client.
 */
struct FmStr fm_ws_client_output(const struct FmWsClient *client);

/**
 * All of the output was sent.
 */
void fm_ws_client_flushed(struct FmWsClient *client);

/**
 * Where to put what comes, and how much at most; then say so by `fm_ws_client_filled`. NULL after a panic.
 */
char *fm_ws_client_room(struct FmWsClient *client,
                        size_t *len);

/**
 * So many bytes were put into the room: at most its length.
 */
void fm_ws_client_filled(struct FmWsClient *client, size_t bytes);

/**
 * The next thing that came. FM_PARTIAL: read more. FM_IO: the handshake was refused. FM_PROTOCOL: the server is at fault;
 * send the output and close. Send the output after FM_OK too.
 */
uint32_t fm_ws_client_next(struct FmWsClient *client,
                           struct FmWsReceived *received,
                           struct FmError *error);

/**
 * The connection has ended. The code to tell the program; 0 when a close frame has told it.
 */
uint16_t fm_ws_client_ended(struct FmWsClient *client);

/**
 * Puts a message into the output. FM_GONE when the connection is closed, FM_MISUSE for text that is not UTF-8.
 */
uint32_t fm_ws_client_send(struct FmWsClient *client,
                           bool binary,
                           struct FmStr data,
                           struct FmError *error);

/**
 * Puts a ping into the output. FM_GONE when the connection is closed, FM_MISUSE when it is too long.
 */
uint32_t fm_ws_client_ping(struct FmWsClient *client,
                           struct FmStr payload,
                           struct FmError *error);

/**
 * Puts a close frame into the output, once. FM_MISUSE when code or reason cannot be sent.
 */
uint32_t fm_ws_client_close(struct FmWsClient *client,
                            int64_t code,
                            struct FmStr reason,
                            struct FmError *error);

/**
 * Whether messages can be sent.
 */
bool fm_ws_client_can_send(const struct FmWsClient *client);

/**
 * Whether messages can come.
 */
bool fm_ws_client_can_read(const struct FmWsClient *client);

/**
 * The subprotocol that was agreed on; absent when there is none. Valid as long as the client.
 */
struct FmStr fm_ws_client_protocol(const struct FmWsClient *client);
