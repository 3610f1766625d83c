/* The C ABI between ext/ and the Rust core.
   Generated from crates/ffi by `make generate`; do not edit. */

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
 * The value comes from php.ini.
 */
#define FM_SOURCE_INI 1

/**
 * The value comes from the program.
 */
#define FM_SOURCE_CODE 2

/**
 * `request` is to be answered.
 */
#define FM_EVENT_REQUEST 1

/**
 * The worker has stopped; free it and end the process with `fm_worker_exit_code`.
 */
#define FM_EVENT_STOP 2

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
 * A server that does not run yet.
 */
typedef struct FmServer FmServer;

/**
 * One worker process.
 */
typedef struct FmWorker FmWorker;

/**
 * Bytes with a length, not NUL-terminated. `ptr` is NULL if and only if the value is absent.
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
 * Which process `fm_server_start` has returned in.
 */
typedef struct FmStart {
  /**
   * The worker, or NULL in the calling process: then everything has ended.
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
} FmStart;

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
  uint64_t request;
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
   * Content, transfer coding removed.
   */
  struct FmStr body;
  /**
   * Number of header field lines.
   */
  uint32_t headers_len;
} FmEvent;

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
} FmResponse;

/**
 * An answer that keeps the client.
 */
typedef struct FmHold {
  /**
   * Channels.
   */
  const struct FmStr *channels;
  /**
   * Their number.
   */
  size_t channels_len;
  /**
   * Who the client counts as; `ptr` NULL for nobody.
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
 * Publishes through the control socket `unix:/path` of a running server and waits for its answer.
 * FM_IO, FM_TIMEOUT, FM_MISUSE, FM_BACKPRESSURE.
 *
 * # Safety
 * The strings and `message` are valid; `id` and `error` are NULL or valid for writing.
 */
uint32_t fm_publisher_publish(struct FmStr control,
                              uint32_t timeout_ms,
                              struct FmStr channel,
                              const struct FmMessage *message,
                              struct FmId *id,
                              struct FmError *error);

/**
 * The `nth` (from 0) field line of that name, any case. False when there is none.
 *
 * # Safety
 * `worker` is a live worker; `value` is NULL or valid for writing; strings are valid.
 */
bool fm_request_header(struct FmWorker *worker,
                       uint64_t request,
                       struct FmStr lower_case_name,
                       size_t nth,
                       struct FmStr *value);

/**
 * The field line at `index`: name as sent, and value. False past the end.
 *
 * # Safety
 * As `fm_request_header`.
 */
bool fm_request_header_at(struct FmWorker *worker,
                          uint64_t request,
                          size_t index,
                          struct FmStr *name,
                          struct FmStr *value);

/**
 * What the route's `{name}` has matched, percent-decoded. False when the pattern has no such name.
 *
 * # Safety
 * As `fm_request_header`.
 */
bool fm_request_route(struct FmWorker *worker,
                      uint64_t request,
                      struct FmStr name,
                      struct FmStr *value);

/**
 * The route parameter at `index`. False past the end.
 *
 * # Safety
 * As `fm_request_header`.
 */
bool fm_request_route_at(struct FmWorker *worker,
                         uint64_t request,
                         size_t index,
                         struct FmStr *name,
                         struct FmStr *value);

/**
 * The client's address (without port; `unix` for a Unix socket) and port.
 *
 * # Safety
 * As `fm_request_header`.
 */
bool fm_request_remote(struct FmWorker *worker,
                       uint64_t request,
                       struct FmStr *address,
                       uint16_t *port);

/**
 * Whether `name` is a token and `value` a field value (RFC 9110, 5.1 and 5.5): what may be handed
 * to `fm_respond` and `fm_hold`.
 *
 * # Safety
 * The strings are valid.
 */
bool fm_header_valid(struct FmStr name, struct FmStr value);

/**
 * Whether the field frames the message and is therefore the server's own.
 *
 * # Safety
 * The string is valid.
 */
bool fm_header_reserved(struct FmStr name);

/**
 * The version of the native core. Valid for ever.
 */
struct FmStr fm_version(void);

/**
 * The row at `index` of what `php --ri fermata` tells: kernel features, then settings with their
 * their defaults. False past the end. Valid for ever.
 *
 * # Safety
 * `name` and `value` are NULL or valid for writing.
 */
bool fm_info_at(size_t index, struct FmStr *name, struct FmStr *value);

/**
 * The setting at `index`: name, default and documentation. False past the end. Valid for ever.
 *
 * # Safety
 * The pointers are NULL or valid for writing.
 */
bool fm_setting_at(size_t index,
                   struct FmStr *name,
                   struct FmStr *default_value,
                   struct FmStr *doc);

/**
 * A server without routes; NULL only after a panic.
 */
struct FmServer *fm_server_new(void);

/**
 * Frees a server that was not started.
 *
 * # Safety
 * `server` is NULL or comes from `fm_server_new`, and is not used any more.
 */
void fm_server_free(struct FmServer *server);

/**
 * Sets a setting by its name. FM_CONFIGURATION for a bad value or an unknown name.
 *
 * # Safety
 * `server` comes from `fm_server_new`; strings are valid; `error` is NULL or valid for writing.
 */
uint32_t fm_server_set(struct FmServer *server,
                       struct FmStr name,
                       struct FmStr value,
                       uint32_t source,
                       struct FmError *error);

/**
 * Adds a route; an empty `method` stands for any. FM_MISUSE for a bad or a taken pattern.
 *
 * # Safety
 * As `fm_server_set`.
 */
uint32_t fm_server_route(struct FmServer *server,
                         struct FmStr method,
                         struct FmStr pattern,
                         uint32_t handler,
                         struct FmError *error);

/**
 * Serves the files below `directory` under the path `prefix`. FM_MISUSE as `fm_server_route`.
 *
 * # Safety
 * As `fm_server_set`.
 */
uint32_t fm_server_static(struct FmServer *server,
                          struct FmStr prefix,
                          struct FmStr directory,
                          struct FmError *error);

/**
 * Binds and forks. Returns once in each worker, and once in the calling process after the last
 * worker has ended. Consumes the server in every case.
 *
 * # Safety
 * `server` comes from `fm_server_new` and is not used any more; `out` is valid for writing;
 * `error` is NULL or valid for writing. The process has no other thread.
 */
uint32_t fm_server_start(struct FmServer *server, struct FmStart *out, struct FmError *error);

/**
 * Blocks until there is something for PHP to do. All strings of the event and of the fm_request_*
 * calls stay valid until the next call.
 *
 * # Safety
 * `worker` comes from `fm_server_start` and is not freed; `event` is valid for writing.
 */
uint32_t fm_next_event(struct FmWorker *worker, struct FmEvent *event);

/**
 * Answers a request. FM_GONE when its client has left or it was answered before.
 *
 * # Safety
 * `worker` is a live worker; `response` and everything it points to are valid.
 */
uint32_t fm_respond(struct FmWorker *worker, uint64_t request, const struct FmResponse *response);

/**
 * Answers a request whose handler failed: `status` (500; 400 when the request is to blame) to the
 * client, `message in file:line` to the log.
 *
 * # Safety
 * `worker` is a live worker; strings are valid.
 */
uint32_t fm_fail(struct FmWorker *worker,
                 uint64_t request,
                 uint32_t status,
                 struct FmStr message,
                 struct FmStr file,
                 uint32_t line);

/**
 * After a fatal error: the worker takes no more requests, has a replacement started, finishes its
 * writes, ends its held clients in order, and FM_EVENT_STOP follows.
 *
 * # Safety
 * `worker` is a live worker.
 */
void fm_worker_retire(struct FmWorker *worker);

/**
 * What the process should exit with after FM_EVENT_STOP.
 *
 * # Safety
 * `worker` is a live worker.
 */
int32_t fm_worker_exit_code(const struct FmWorker *worker);

/**
 * Answers a request by an event stream and keeps the client. On an error (FM_MISUSE,
 * FM_BACKPRESSURE, FM_GONE) the request is still open.
 *
 * # Safety
 * `worker` is a live worker; `hold` and everything it points to are valid; `error` is NULL or
 * valid for writing.
 */
uint32_t fm_hold(struct FmWorker *worker,
                 uint64_t request,
                 const struct FmHold *hold,
                 struct FmError *error);

/**
 * Publishes a message. When it returns FM_OK the message is in the channel's log.
 *
 * # Safety
 * `worker` is a live worker; `message` is valid; `id` and `error` are NULL or valid for writing.
 */
uint32_t fm_publish(struct FmWorker *worker,
                    struct FmStr channel,
                    const struct FmMessage *message,
                    struct FmId *id,
                    struct FmError *error);

/**
 * Checks a channel's name. FM_MISUSE when it is none.
 *
 * # Safety
 * The string is valid; `error` is NULL or valid for writing.
 */
uint32_t fm_channel_name_check(struct FmStr channel, struct FmError *error);

/**
 * Checks an event's name and data. FM_MISUSE when they cannot be sent.
 *
 * # Safety
 * `message` is valid; `error` is NULL or valid for writing.
 */
uint32_t fm_message_check(const struct FmMessage *message, struct FmError *error);

/**
 * Who is present in a channel. The array stays valid until the next call of this function.
 *
 * # Safety
 * `worker` is a live worker; the string is valid; the other pointers are NULL or valid for writing.
 */
uint32_t fm_members(struct FmWorker *worker,
                    struct FmStr channel,
                    const struct FmMember **first,
                    size_t *len,
                    struct FmError *error);

/**
 * The newest messages of a channel after `since` (`ptr` NULL: all), oldest first. The array stays
 * valid until the next call of this function.
 *
 * # Safety
 * As `fm_members`.
 */
uint32_t fm_history(struct FmWorker *worker,
                    struct FmStr channel,
                    struct FmStr since,
                    size_t count_max,
                    const struct FmPast **first,
                    size_t *len,
                    struct FmError *error);

/**
 * Writes a log line; `level` from 0 (error) to 3 (debug).
 *
 * # Safety
 * `worker` is a live worker; the string is valid.
 */
void fm_worker_log(struct FmWorker *worker, uint32_t level, struct FmStr message);

/**
 * Frees a worker after FM_EVENT_STOP.
 *
 * # Safety
 * `worker` is NULL or comes from `fm_server_start`, and is not used any more.
 */
void fm_worker_free(struct FmWorker *worker);

/**
 * Writes FM_WS_ACCEPT_BYTES bytes: the answer to a client's key. False when the key is not base64 of 16 bytes.
 *
 * # Safety
 * The string is valid; `accept` is valid for writing so many bytes.
 */
bool fm_ws_accept(struct FmStr key,
                  char *accept);

/**
 * Bytes of a frame with its header.
 */
size_t fm_ws_frame_bytes(size_t payload_bytes, bool masked);

/**
 * Writes a frame of `fm_ws_frame_bytes` bytes. Of `frame` opcode, reserved, fin, masked and key count.
 *
 * FM_MISUSE when the frame would break the protocol; what was written is then of no use.
 *
 * # Safety
 * `frame` is valid for reading, the payload is valid, `out` is valid for writing so many bytes and does
 * not overlap the payload; `error` is NULL or valid for writing.
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
 * The string is valid; `out` and `len` are valid for writing; `error` is NULL or valid for writing.
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
 *
 * # Safety
 * The string is valid; `frame` is valid for writing; `error` is NULL or valid for writing.
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
 * `frame` is valid for reading and writing, `payload` has `frame.payload_bytes` bytes, `out` is valid for writing
 * as many and does not overlap them; `error` is NULL or valid for writing.
 */
uint32_t fm_ws_payload(struct FmWsFrame *frame,
                       const char *payload,
                       char *out,
                       struct FmError *error);
