/* Hooks: PHP's own blocking functions suspend the calling fiber instead of blocking the worker's loop.
 *
 * PHP and its libraries make system calls through functions of the C library. A hook replaces some of these functions in the
 * relocation tables of selected objects: the PHP binary, libcurl, libpq and others (patch.c). The replacements are in calls.c,
 * sockets.c and files.c. A replacement waits in the fiber (waits.c) if the call would block and the fiber may wait there.
 * Otherwise it calls the C library. PHP's code is unchanged, so its time-outs, warnings and results stay the same.
 *
 * streams.c protects a stream while a fiber waits inside it, and stream_kinds.c finds streams over a socket. files.c handles plain
 * files, processes.c commands and their pipes, spawn.c proc_open(), resolver.c name lookups. conversations.c shuts down
 * connections whose reply will not be read, and owners.c queues handlers that share a connection.
 *
 * In ext/clients, hooks.c lists the hooks, guards.c protects objects of database clients, libpq.c and sqlite.c handle these
 * libraries. */
#ifndef FERMATA_HOOKS_H
#define FERMATA_HOOKS_H

#include "fibers/watch.h"
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Same order as the cases of the enum Fermata\Hook. */
typedef enum fermata_hook {
	FERMATA_HOOK_SLEEP,
	FERMATA_HOOK_STREAMS,
	FERMATA_HOOK_STREAM_SELECT,
	FERMATA_HOOK_SOCKETS,
	FERMATA_HOOK_DNS,
	FERMATA_HOOK_PROCESSES,
	FERMATA_HOOK_FILES,
	FERMATA_HOOK_CURL,
	FERMATA_HOOK_POSTGRESQL,
	FERMATA_HOOK_SQLITE,
	FERMATA_HOOKS_LEN,
} fermata_hook;

/* A C library function and its replacement. */
typedef struct fermata_replacement {
	const char *name;
	void *by;
} fermata_replacement;

/* patch.c */
bool fermata_patch_is_possible(void);
/* Returns true if the object is loaded. "php" means the object that contains PHP. Any other name is the start of a file name. */
bool fermata_patch_has(const char *object);
/* Replaces `calls` in the object's tables. Returns the number of replaced entries and adds to `failed` the number that failed. */
uint32_t fermata_patch(const char *object, const fermata_replacement *calls, size_t len, uint32_t *failed);
/* Writes one pointer, also in memory that is mapped read-only. Returns false if the kernel refuses. */
bool fermata_patch_pointer(void **place, void *value);
/* Like fermata_patch_pointer(), but fermata_patch_undo() does not restore the value: the memory may already be freed then. */
bool fermata_patch_lasting(void **place, void *value);
/* Returns the number of recorded changes; fermata_patch_undo() reverts all changes beyond that number. */
uint32_t fermata_patch_len(void);
void fermata_patch_undo(uint32_t len);

/* waits.c */
void fermata_waits_init(void);
bool fermata_hook_is_on(fermata_hook which);
void fermata_hook_set_on(fermata_hook which, bool on);
/* Records the calling thread as the loop's thread. Calls from other threads are not hooked. */
void fermata_hooks_note_loop(void);
/* Returns true if the caller runs in the loop's thread. */
bool fermata_hook_is_loop(void);
/* Returns true if a blocking call at this point may suspend the fiber. */
bool fermata_hook_may_wait(void);
/* Returns milliseconds of a monotonic clock. */
uint64_t fermata_hook_clock_ms(void);
/* Returns true if an exception that ended a wait of this fiber is still pending. Until it is handled, no call may block or
 * wait. */
bool fermata_hook_is_cut(void);
typedef enum fermata_hook_place {
	FERMATA_PLACE_WAITS,   /* suspend the fiber */
	FERMATA_PLACE_HOLDS,   /* hold the worker: no other handler may run (fibers/callbacks.c) */
	FERMATA_PLACE_BOUNDED, /* hold the worker for a bounded time: PHP cannot wait here */
	FERMATA_PLACE_CUT,     /* fail: the client has disconnected, the task was cancelled, … */
	FERMATA_PLACE_FREE,    /* call the C library, as without hooks */
} fermata_hook_place;
/* Returns how a call that would block at this point has to behave. */
fermata_hook_place fermata_hook_where(void);
/* Runs poll() in FERMATA_PLACE_BOUNDED. Returns 0 after `timeout_ms`, or when the handler or task may hold the worker no
 * longer. */
int fermata_hook_poll_bounded(struct pollfd *fds, nfds_t len, int timeout_ms);
/* Like fermata_wait() and fermata_wait_fds(), but with PHP's globals saved. If an exception ends the wait, the connections in
 * `fds` are shut down. */
fermata_wait_result fermata_hook_wait(uint64_t due_ms);
/* Like fermata_hook_wait() and fermata_hook_wait_fds(), in FERMATA_PLACE_HOLDS. */
fermata_wait_result fermata_hook_hold(uint64_t due_ms);
fermata_wait_result fermata_hook_hold_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms);
fermata_wait_result fermata_hook_wait_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms);
/* Like fermata_hook_wait_fds(), but shuts down no connection: for a library that cleans up after an ended wait itself. */
fermata_wait_result fermata_hook_wait_fds_only(struct pollfd *fds, nfds_t len, uint64_t due_ms);
fermata_wait_result fermata_hook_wait_fd(int fd, short events, uint64_t due_ms, short *happened);

/* calls.c */
void fermata_calls_init(void);
extern const fermata_replacement fermata_calls_sleep[], fermata_calls_poll[], fermata_calls_poll_curl[], fermata_calls_select[],
	fermata_calls_close[];
extern const size_t fermata_calls_sleep_len, fermata_calls_poll_len, fermata_calls_poll_curl_len, fermata_calls_select_len,
	fermata_calls_close_len;
/* Records the loop's thread and prepares the hooks of sockets. */
void fermata_hooks_init(void);
/* Replacement for poll() that suspends the fiber instead of blocking the worker. */
int fermata_hook_poll(struct pollfd *fds, nfds_t len, int timeout_ms);

/* conversations.c */
void fermata_conversations_init(void);
/* Returns the number of connections that were shut down while this fiber waited on them or after it had used them. */
uint32_t fermata_conversations_ended(void);
/* Record that a socket of the application was connected, written to, read from or closed. fermata_conversation_closed() accepts
 * any descriptor. */
void fermata_conversation_opened(int fd);
void fermata_conversation_wrote(int fd);
void fermata_conversation_read(int fd);
void fermata_conversation_closed(int fd);
/* Shuts down a socket because an exception ended the wait for it, so its reply will not be read. Ignores other descriptors, and
 * sockets without a fixed peer. */
void fermata_conversation_end(int fd);
/* Shuts down all sockets in `fds` in this way. */
void fermata_conversation_end_all(const struct pollfd *fds, nfds_t len);
/* Returns fermata_clock() at the first use of a connection by the handler or task; 0 if it has used none. */
uint64_t fermata_conversations_since(const fermata_fiber *fiber);
/* Returns a number unique to the connection; 0 if the descriptor is not a socket. */
uint64_t fermata_conversation_number(int fd);
/* The next two functions require a descriptor with a conversation number. */
bool fermata_conversation_has_one_peer(int fd);
bool fermata_conversation_is_kept(int fd);
/* Returns fermata_clock() at the last use by a handler or task. */
uint64_t fermata_conversation_used_at(int fd);
/* Returns true if the descriptor number now belongs to another file. */
bool fermata_conversation_is_gone(int fd);
/* Returns true if every request has a reply, and every reply was read. */
bool fermata_conversation_is_at_rest(int fd);
/* Returns true if data has arrived that was not read. */
bool fermata_conversation_is_unread(int fd);
/* Discards data that has arrived. */
void fermata_conversation_discard(int fd);
/* Shuts down a connection because its handler or task finished in the middle of an exchange; `what` names the exchange. */
void fermata_conversation_end_left(int fd, const char *what);

/* owners.c: the application's streams and sockets that handlers share */
void fermata_owners_init(void);
typedef enum fermata_side {
	FERMATA_SIDE_READ,
	FERMATA_SIDE_WRITE,
} fermata_side;
/* Waits until this fiber may use the connection. Returns false after an exception, or if the connection was closed during the
 * wait. Sets `*entered` if the caller has to call fermata_owner_leave(). */
bool fermata_owner_enter(int fd, fermata_side side, bool *entered);
/* Ends a call. `is_done`: it read or wrote data. `is_timed_out`: its wait timed out. */
void fermata_owner_leave(int fd, fermata_side side, bool is_done, bool is_timed_out);
/* Records that a library waits for this descriptor only. The library checks the descriptor itself after the wait. */
void fermata_owner_note_wait(int fd);
/* Marks the start of a wait. Returns true if the caller has to call fermata_owner_end_wait(). */
bool fermata_owner_begin_wait(int fd, fermata_side side);
void fermata_owner_end_wait(int fd, fermata_side side);
/* Called when a handler has finished while a PHP Fiber is suspended inside the call. */
void fermata_owner_left(int fd, fermata_side side, const fermata_fiber *fiber);
/* Record data that was written to or read from the connection. */
void fermata_owner_wrote(int fd, const char *text, size_t len);
void fermata_owner_read(int fd, const char *text, size_t len);
/* Returns true if another fiber is inside a call of the opposite side: a write if `side` is read, and a read if it is write. */
bool fermata_owner_is_other_inside(int fd, fermata_side side);
/* Returns a pointer to a flag of the connection: true while two fibers are inside its TLS stream, for which the socket is
 * non-blocking. */
bool *fermata_owner_flipped(int fd);
/* Wakes the fibers queued for a closed connection. Each of them then detects that it is closed. */
void fermata_owner_closed(int fd);
/* Called before the connection is closed: wakes the queued fibers, unless a fiber is inside a call. Returns false if none is
 * queued. */
bool fermata_owner_end_queue(int fd);
/* Returns the fiber that the queued fiber `by` waits for; NULL if there is no particular one. */
const fermata_fiber *fermata_owner_waited_for(int fd, const fermata_fiber *by);
/* Drops all waiters after a fatal error, since their fibers never resume. */
void fermata_owners_forget(void);

/* awaited.c: the connection or object that a fiber waits for while another fiber uses it. Each connection and object has a key. */
void fermata_awaited_init(void);
/* Records that the fiber waits for the holder of this key; 0 clears the record. */
void fermata_note_awaited(fermata_fiber *fiber, uintptr_t key);
/* Returns the recorded key; 0 = none. */
uintptr_t fermata_awaited_by(const fermata_fiber *fiber);
/* Returns the key of a descriptor: odd, unlike object keys, which are even addresses. */
static zend_always_inline uintptr_t fermata_key_of_fd(int fd)
{
	return (uintptr_t)fd << 1 | 1;
}
static zend_always_inline bool fermata_key_is_of_fd(uintptr_t key)
{
	return key & 1;
}
/* Throws a MisuseError: another fiber is inside a call of `what`. An exception that is already pending stays. */
ZEND_COLD void fermata_refuse_shared(const char *what);

/* sockets.c */
extern const fermata_replacement fermata_calls_sockets[], fermata_calls_sockets_write[];
extern const size_t fermata_calls_sockets_len, fermata_calls_sockets_write_len;
void fermata_hook_sockets_init(void);
/* Read from and write to a socket, like read() and write(). */
ssize_t fermata_hook_recv(int fd, void *buf, size_t len);
ssize_t fermata_hook_send(int fd, const void *buf, size_t len);

/* stream_kinds.c */
/* A kind of stream: PHP's table of operations, and the functions that the table had before it was changed. */
typedef struct fermata_stream_kind {
	const php_stream_ops *ops;
	ssize_t (*write)(php_stream *stream, const char *buf, size_t count);
	ssize_t (*read)(php_stream *stream, char *buf, size_t count);
	int (*seek)(php_stream *stream, zend_off_t offset, int whence, zend_off_t *position);
	int (*set_option)(php_stream *stream, int option, int value, void *parameter);
	bool is_connection; /* the streams have a socket */
} fermata_stream_kind;
/* Records a kind before its table is changed. Returns false if the kind is already recorded, or the list of kinds is full. */
bool fermata_stream_kind_add(const php_stream_ops *ops, bool is_connection);
/* Returns the kind of a stream whose kind was added. */
const fermata_stream_kind *fermata_stream_kind_of(const php_stream *stream);
/* Returns the descriptor of a stream over a socket; -1 for other streams. */
int fermata_stream_socket(const php_stream *stream);
/* Returns true if PHP's buffer of a stream over this socket has unread bytes. The second function discards those bytes. */
bool fermata_stream_is_unread(int fd);
void fermata_stream_discard(int fd);

/* streams.c */
void fermata_hook_streams_init(void);
bool fermata_hook_streams(void);
/* Hooks userland stream wrappers. Called in every worker, even if all hooks are off. */
void fermata_hook_user_streams(void);
/* Hooks the read function of another kind of stream that runs PHP code. */
void fermata_hook_reads(const php_stream_ops *ops);
void fermata_hook_streams_end(void);

/* processes.c; the same functions read and write pipes and plain files. */
extern const fermata_replacement fermata_calls_processes[], fermata_calls_descriptors[];
extern const size_t fermata_calls_processes_len, fermata_calls_descriptors_len;

/* spawn.c */
void fermata_spawn_init(void);
extern const fermata_replacement fermata_calls_spawn[];
extern const size_t fermata_calls_spawn_len;
/* Replaces proc_open(). Returns true. */
bool fermata_spawn_start(void);
void fermata_spawn_end(void);
/* Sets close-on-exec on all open files except the standard streams, so that a command does not inherit them. */
void fermata_files_keep_out(void);
/* Returns true if the descriptor was closed inside proc_open() before its exec: the command will close it instead. */
bool fermata_spawn_closes(int fd);

/* files.c */
void fermata_hook_session_locks(void);
extern const fermata_replacement fermata_calls_files[];
extern const size_t fermata_calls_files_len;
bool fermata_hook_files(void);
void fermata_hook_files_end(void);
/* Like fermata_hook_may_wait(), for functions that operate on files. */
bool fermata_hook_file_may_wait(void);
/* Runs fsync() or fdatasync(). */
int fermata_hook_sync(int fd, bool data_only);
/* Read from or write to a regular file. Return false if the descriptor is not a regular file, or if the call cannot wait here. */
bool fermata_hook_reads_file(int fd, const struct stat *found, void *buf, size_t len, ssize_t *result);
bool fermata_hook_writes_file(int fd, const struct stat *found, const void *buf, size_t len, ssize_t *result);

/* Passes a call to the core and waits for it in this fiber. Returns false if the caller has to make the call itself, or after an
 * exception. */
bool fermata_hook_file_work(const FmFileCall *call, int64_t *answer);

/* hooks/resolver.c */
bool fermata_hook_names(void);
extern const fermata_replacement fermata_calls_dns[];
extern const size_t fermata_calls_dns_len;

#endif
