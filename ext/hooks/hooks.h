/* Hooks: PHP's own blocking functions wait in a fiber instead of holding the loop.
 *
 * PHP and the libraries it uses come to the kernel through functions of the C library. A hook exchanges some of these in the
 * tables by which chosen objects (the PHP binary, libcurl, libpq …) call them: patch.c. What stands there then is in
 * calls.c and sockets.c: it looks whether the call would block and whether a fiber may wait here, and is the C library's otherwise.
 * So time-outs, warnings and results stay PHP's, whose code does not change.
 *
 * hooks.c has the list of hooks, conversations.c ends connections whose reply nobody will read, owners.c has handlers queue for
 * those they share, streams.c keeps streams whole while a fiber waits inside one, guards.c the objects of clients, processes.c
 * has commands, spawn.c how proc_open() starts them, files.c plain files, sqlite.c SQLite, fibers/resolver.c names. */
#ifndef FERMATA_HOOKS_H
#define FERMATA_HOOKS_H

#include "fibers/watch.h"
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* In the order of the enum Fermata\Hook. */
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

/* A function of the C library, and what is called in its place. */
typedef struct fermata_replacement {
	const char *name;
	void *by;
} fermata_replacement;

/* hooks.c */
bool fermata_hook_is_on(fermata_hook which);
PHP_MSHUTDOWN_FUNCTION(fermata_hooks);
PHP_MINFO_FUNCTION(fermata_hooks);

/* patch.c */
bool fermata_patch_is_possible(void);
/* The object that has PHP itself is called "php"; others by the beginning of their file's name. False when it is not loaded. */
bool fermata_patch_has(const char *object);
/* How many calls of the object were exchanged. Adds to `failed` those that could not be. */
uint32_t fermata_patch(const char *object, const fermata_replacement *calls, size_t len, uint32_t *failed);
/* Writes one pointer, wherever it lies. False when the kernel does not let us. */
bool fermata_patch_pointer(void **place, void *value);
/* The same for what ends before the extension does: it does not get its old value back. */
bool fermata_patch_lasting(void **place, void *value);
/* How much was changed, and back to that. */
uint32_t fermata_patch_len(void);
void fermata_patch_undo(uint32_t len);

/* calls.c */
extern const fermata_replacement fermata_calls_sleep[], fermata_calls_poll[], fermata_calls_poll_curl[], fermata_calls_poll_closing[],
	fermata_calls_select[], fermata_calls_close[];
extern const size_t fermata_calls_sleep_len, fermata_calls_poll_len, fermata_calls_poll_curl_len, fermata_calls_poll_closing_len,
	fermata_calls_select_len, fermata_calls_close_len;
void fermata_hooks_init(void);
/* This thread is the one whose calls count. */
void fermata_hooks_note_loop(void);
/* Whether this is the thread of the loop. */
bool fermata_hook_is_loop(void);
/* Whether what is called now may wait in a fiber. */
bool fermata_hook_may_wait(void);
/* Whether a wait of this fiber was ended by an exception that is still on its way: nothing must block or wait then. */
bool fermata_hook_is_cut(void);
typedef enum fermata_hook_place {
	FERMATA_PLACE_WAITS,   /* the fiber waits */
	FERMATA_PLACE_BOUNDED, /* PHP cannot wait here: the worker is held, for a short time */
	FERMATA_PLACE_CUT,     /* nor is there anybody to wait for: the client has left, the task was cancelled, … */
	FERMATA_PLACE_FREE,    /* as without hooks */
} fermata_hook_place;
/* What a call that would block may do where it is called. */
fermata_hook_place fermata_hook_where(void);
/* Whether the function that PHP runs asks a database, and gets its answer in the time that the database takes. */
bool fermata_hook_is_query(void);
/* poll() in FERMATA_PLACE_BOUNDED. 0 = the time is over, that of the call or that of the place. */
int fermata_hook_poll_bounded(struct pollfd *fds, nfds_t len, int timeout_ms);
/* As fermata_wait() and fermata_wait_fds(), keeping what PHP has in globals meanwhile; a wait that is ended is the end of the
 * conversations over `fds`. */
fermata_wait_result fermata_hook_wait(uint64_t due_ms);
fermata_wait_result fermata_hook_wait_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms);
fermata_wait_result fermata_hook_wait_fd(int fd, short events, uint64_t due_ms, short *happened);

/* conversations.c */
/* A socket of the program was connected, written to, read from; of any that it is being closed. */
void fermata_conversation_opened(int fd);
void fermata_conversation_wrote(int fd);
void fermata_conversation_read(int fd);
void fermata_conversation_closed(int fd);
/* A wait in it was ended: nobody will read the reply. Anything but a socket with one peer is left alone. */
void fermata_conversation_end(int fd);
/* Of each another; 0 = the descriptor is no socket. */
uint64_t fermata_conversation_number(int fd);
/* Of one that has a number: */
bool fermata_conversation_has_one_peer(int fd);
bool fermata_conversation_is_kept(int fd);
/* When a handler or task has last read or written, on the clock. */
uint64_t fermata_conversation_used_at(int fd);
/* Whether the descriptor is another file's by now. */
bool fermata_conversation_is_gone(int fd);
/* Whether what was written was answered, and what was answered read. */
bool fermata_conversation_is_at_rest(int fd);
bool fermata_conversation_is_unread(int fd);
/* Throws away what has arrived. */
void fermata_conversation_discard(int fd);
/* The handler or task that has used it has ended in the middle of something. */
void fermata_conversation_end_left(int fd, const char *what);

/* owners.c: streams and sockets of the program that handlers share. */
typedef enum fermata_side {
	FERMATA_SIDE_READ,
	FERMATA_SIDE_WRITE,
} fermata_side;
/* Before a call: waits until the connection is this fiber's. False after an exception, and when it was closed meanwhile.
 * `*entered`: it is to be left. */
bool fermata_owner_enter(int fd, fermata_side side, bool *entered);
/* `is_done`: something was read or written. `is_timed_out`: it was waited for in vain. */
void fermata_owner_leave(int fd, fermata_side side, bool is_done, bool is_timed_out);
/* A library waits for this one alone, which it looks at itself when it has waited. */
void fermata_owner_note_wait(int fd);
/* The wait begins; true when its end has to be told. */
bool fermata_owner_begin_wait(int fd, fermata_side side);
void fermata_owner_end_wait(int fd, fermata_side side);
/* The handler has ended while a Fiber of the program's is suspended inside the call. */
void fermata_owner_left(int fd, fermata_side side, const fermata_fiber *fiber);
/* What has gone out. */
void fermata_owner_wrote(int fd, const char *text, size_t len);
void fermata_owner_read(int fd, const char *text, size_t len);
/* Whether another fiber is inside a call of the other side. */
bool fermata_owner_is_other_inside(int fd, fermata_side side);
/* Of two that are inside a TLS stream: whether it was made non-blocking for both. */
bool *fermata_owner_flipped(int fd);
/* A wait of the fiber was ended: what it has used since then and whose protocol is not known is not for the next, whatever the
 * program makes of the exception. */
void fermata_owners_cut_short(const fermata_fiber *fiber, uint64_t since);
/* Fibers that queue for it go on, and find it closed. */
void fermata_owner_closed(int fd);
/* The same before it is closed, unless somebody is inside a call. False when nobody queues. */
bool fermata_owner_end_queue(int fd);
/* The fiber that one in the queue waits for; NULL = no particular one. */
const fermata_fiber *fermata_owner_waited_for(int fd, const fermata_fiber *by);
void fermata_owners_free(void);
/* After a fatal error those who wait do not come back. */
void fermata_owners_forget(void);

/* guards.c: objects of PHP's that a handler or task is inside of. */
void fermata_guards_init(void);
/* Before any file of the program's is compiled: `opcache.jit=function` makes calls of what functions are then. They cost one
 * more jump until hooks are turned on. */
void fermata_guards_wrap(void);
/* False when PHP's functions have no place left for it: other extensions took them all. */
bool fermata_hook_guards(void);
bool fermata_hook_libpq(void);
void fermata_guards_undo(void);
void fermata_guards_forget(void);
/* Takes the key for this fiber: false when another has it. `*is_new`: it was not this fiber's yet, which gives it back then. */
bool fermata_guard_take(uintptr_t key, bool *is_new);
/* Of `taker`, who took it. */
void fermata_guard_give_back(uintptr_t key, const fermata_fiber *taker);
/* Whether another fiber has it. */
bool fermata_guard_is_anothers(uintptr_t key);
/* NULL = nobody. */
fermata_fiber *fermata_guard_holder(uintptr_t key);
typedef enum fermata_turn {
	FERMATA_TURN_MINE,
	FERMATA_TURN_GONE, /* what it stood for is gone, and nothing was taken */
	FERMATA_TURN_REFUSED, /* an exception is pending */
} fermata_turn;
/* Waits until it is this fiber's. */
fermata_turn fermata_guard_queue(uintptr_t key);
/* What it stood for is gone. */
void fermata_guard_drop(uintptr_t key);
/* A Fiber of the program's is suspended inside of it, and the handler of `fiber`, which took it, has ended. */
void fermata_guard_leave_to_nobody(uintptr_t key, const fermata_fiber *fiber);
/* The fiber's handler or task has ended. */
void fermata_guards_settle(fermata_fiber *fiber);
/* Of a descriptor. Those of objects are their addresses, which are even. */
static zend_always_inline uintptr_t fermata_guard_key_of_fd(int fd)
{
	return (uintptr_t)fd << 1 | 1;
}
static zend_always_inline bool fermata_guard_is_of_fd(uintptr_t key)
{
	return key & 1;
}
ZEND_COLD void fermata_guard_refuse(const char *what);

/* sockets.c */
extern const fermata_replacement fermata_calls_sockets[], fermata_calls_sockets_write[];
extern const size_t fermata_calls_sockets_len, fermata_calls_sockets_write_len;
void fermata_hook_sockets_init(void);
/* As read() and write() of a socket. */
ssize_t fermata_hook_recv(int fd, void *buf, size_t len);
ssize_t fermata_hook_send(int fd, const void *buf, size_t len);

/* streams.c */
/* Streams that functions of a fiber were given, which nobody may close while it waits. */
#define FERMATA_HELD_STREAMS_MAX 8
typedef struct fermata_held_streams {
	uint32_t len;
	php_stream *at[FERMATA_HELD_STREAMS_MAX];
} fermata_held_streams;
/* The handler has ended, and Fibers of the program's that it has begun may be suspended inside of streams. */
void fermata_pins_settle(fermata_fiber *fiber);
void fermata_hold_streams(fermata_held_streams *held);
void fermata_let_streams_go(const fermata_held_streams *held);
/* The descriptor of a stream over a socket; -1 = it is another kind. */
int fermata_stream_socket(const php_stream *stream);
/* Whether PHP's buffer of a stream over this socket has bytes that nobody has read; throws them away. */
bool fermata_stream_is_unread(int fd);
void fermata_stream_discard(int fd);
bool fermata_hook_streams(void);
/* In every worker, whatever is hooked. */
void fermata_hook_user_streams(void);
void fermata_hook_streams_end(void);

/* processes.c; pipes and files are read and written by the same calls. */
bool fermata_hook_processes(void);
/* Of commands that are started from here on: the files that this process has open, but for the standard streams. */
void fermata_files_keep_out(void);
extern const fermata_replacement fermata_calls_processes[], fermata_calls_descriptors[];
extern const size_t fermata_calls_processes_len, fermata_calls_descriptors_len;

/* spawn.c */
extern const fermata_replacement fermata_calls_spawn[];
extern const size_t fermata_calls_spawn_len;
void fermata_spawn_start(void);
void fermata_spawn_end(void);
/* Whether it is the command that proc_open() starts which is to close the descriptor. */
bool fermata_spawn_closes(int fd);

/* files.c */
void fermata_hook_session_locks(void);
extern const fermata_replacement fermata_calls_files[];
extern const size_t fermata_calls_files_len;
bool fermata_hook_files(void);
void fermata_hook_files_end(void);
/* As fermata_hook_may_wait(), in a function that works on files. */
bool fermata_hook_file_may_wait(void);
/* As fsync() or fdatasync(). */
int fermata_hook_sync(int fd, bool data_only);
/* False when it is not theirs. */
bool fermata_hook_reads_file(int fd, const struct stat *found, void *buf, size_t len, ssize_t *result);
bool fermata_hook_writes_file(int fd, const struct stat *found, const void *buf, size_t len, ssize_t *result);

/* Has the core do a call, which this fiber waits for. False when it is to be made here, or after an exception. */
bool fermata_hook_file_work(const FmFileCall *call, int64_t *answer);

/* sqlite.c */
extern const fermata_replacement fermata_calls_sqlite[], fermata_calls_sqlite_sync[];
extern const size_t fermata_calls_sqlite_len, fermata_calls_sqlite_sync_len;
bool fermata_hook_sqlite(void);
void fermata_hook_sqlite_end(void);
/* Whether the key of a guard is that of a connection to SQLite. */
bool fermata_sqlite_is_connection(uintptr_t key);
/* In a transaction that whoever has begun it has to end first. */
bool fermata_sqlite_keeps(uintptr_t key);
/* The handler or task of `fiber` has ended in the middle of one. True when a task has the connection now, which gives it back. */
bool fermata_sqlite_roll_back(uintptr_t key, const fermata_fiber *fiber);
/* Whether the fiber is inside of a call during which nothing else may run. */
bool fermata_sqlite_forbids_wait(const fermata_fiber *fiber);
/* The fiber's handler or task has ended. */
void fermata_sqlite_settle(fermata_fiber *fiber);
/* No other fiber gets the rows that it has not read. */
void fermata_sqlite_drop_rows(const fermata_fiber *fiber);
void fermata_sqlite_move_rows(const fermata_fiber *from, fermata_fiber *to);
/* Ends a transaction that is open in an object of SQLite3, or in a pdo_dbh_t, and drops its temporary tables, whether or not
 * SQLite is hooked. False when it is of no use any more. */
bool fermata_sqlite_restore(zend_object *object);
bool fermata_sqlite_restore_pdo(const void *handle);
/* Whether the library was found; only then the next may be asked. */
bool fermata_sqlite_can_ask(void);
bool fermata_sqlite_is_in_transaction_pdo(const void *handle);
bool fermata_sqlite_is_in_transaction(zend_object *object);
/* 0 = none; the handle is PDO's. */
uintptr_t fermata_sqlite_key_of_pdo(const void *handle);
uintptr_t fermata_sqlite_key_of_object(zend_object *object);
uintptr_t fermata_sqlite_key_of_statement(zend_object *object);
uintptr_t fermata_sqlite_key_of_result(zend_object *object);

/* fibers/resolver.c */
bool fermata_hook_names(void);
extern const fermata_replacement fermata_calls_dns[];
extern const size_t fermata_calls_dns_len;

#endif
