/* Fibers: what handlers and tasks run on, so that one can wait while others go on.
 *
 * fibers.c has the pool and the switch, timers.c what waits for the clock, tasks.c the futures, sync.c mutexes and queues. */
#ifndef FERMATA_FIBERS_H
#define FERMATA_FIBERS_H

#include "core/last_errors.h"
#include "core/runner.h"
#include "zend_fibers.h"

#define FERMATA_NEVER UINT64_MAX
#define FERMATA_SECONDS_MAX 31536000.0 /* a year; a longer wait is one for ever */

/* Something that is due. Lies in what it belongs to; `at` is its place in the heap plus one, 0 = not armed. */
typedef struct fermata_timer {
	uint64_t due_ms;
	uint32_t at;
	enum { FERMATA_TIMER_FIBER, FERMATA_TIMER_EVERY, FERMATA_TIMER_EVENTS } kind; /* what it lies in */
} fermata_timer;

/* The client that handlers and tasks work for. */
typedef struct fermata_client {
	uint32_t references;
	bool gone;
	FmRequest request; /* one of the two */
	FmSocket socket;
} fermata_client;

/* What ends the waits inside a call: lies on the C stack of the function that makes the call. */
typedef struct fermata_scope {
	struct fermata_scope *outer;
	fermata_fiber *owner; /* in whose list it is; NULL when that has ended with its handler */
	const zend_fiber *inside; /* the Fiber of the program's in which the call was made; NULL = in none */
	bool is_shield;       /* nothing outside of it ends waits inside */
	uint64_t begun_at;    /* of hooks/conversations.c: only what was said since then is cut short by its end */
	uint64_t due_ms;      /* of timeout() */
	zend_object *cancellation; /* of Cancellation::run(); NULL = none */
} fermata_scope;

/* In a list of those who wait for something; lies on the C stack of the one who waits. */
typedef struct fermata_waiter {
	struct fermata_waiter *next, *previous;
	struct fermata_waiters *list; /* NULL = in none */
	fermata_fiber *fiber;
	uint32_t *left; /* all(): how many are missing; NULL = the first wakes */
	zval item;      /* Queue: what is handed over */
} fermata_waiter;

typedef struct fermata_waiters {
	fermata_waiter *first, *last;
} fermata_waiters;

typedef struct fermata_last_error {
	zend_string *message; /* NULL = none */
	zend_string *file;
	int type, line;
} fermata_last_error;

typedef struct fermata_claim fermata_claim;
typedef struct fermata_mutex fermata_mutex;
typedef struct fermata_future fermata_future;

typedef enum fermata_fiber_state {
	FERMATA_FIBER_PARKED,  /* in the pool */
	FERMATA_FIBER_RUNNING, /* the one that runs, or that has switched to another for a moment */
	FERMATA_FIBER_WAITING,
	FERMATA_FIBER_READY,   /* in the ready queue */
} fermata_fiber_state;

struct fermata_fiber {
	zend_fiber_context own;      /* unused by the first one, which is PHP's main context */
	zend_fiber_context *context; /* where it goes on: its own, or that of a Fiber that its handler runs */
	zend_execute_data *frame;    /* there */
	zend_vm_stack vm_stack;      /* until it has begun */
	fermata_fiber_state state;
	bool touched;     /* fermata_fiber_settle() has something to do */
	bool is_listed;   /* among those that have waited */
	bool interrupted; /* woken because its wait may have to end */
	bool without_client; /* its handler is told of a socket's end, and cannot lose it any more */
	struct fermata_pin *pins; /* of hooks/streams.c: streams that are being waited for */
	struct fermata_sqlite_call *sqlite; /* of hooks/sqlite.c: the innermost it is inside of */
	uintptr_t queues_for; /* of hooks/guards.c: what another fiber has; 0 = nothing */
	const zend_execute_data *opens_process; /* of hooks/spawn.c: the call of proc_open() that it is inside of; NULL = none */
	const char *opens_process_until; /* likewise: where the stack of that call ends */
	bool has_failed;  /* its handler or task has ended by an exception, or has answered for one */
	bool keeps_guards; /* of hooks/guards.c, between its calls */
	bool is_cut;      /* a hooked call's wait was ended by an exception that may still be on its way */
	bool is_cut_told; /* and whoever asked has been told */
	uint64_t talks_since; /* of hooks/conversations.c: when its handler or task has first used a connection; 0 = not yet */
	uint32_t conversations_ended; /* likewise: how many that it waited in, or had used, were shut down; only ever grows */
	fermata_claim *claims; /* of hooks/owners.c: connections of the program's that it has used */
	uint64_t family;  /* its handler and that one's tasks have the same; 0 = a handler that has begun none */
	bool waits_for_library; /* of hooks/calls.c: what it waits for now is poll() of PHP's own file or of libpq */
	uint64_t reprieve_ms; /* until when its queries go on although its client has left; 0 = it has not, or nobody has asked */
	uint64_t held_ms; /* of hooks/calls.c: how long it has held the worker where PHP cannot wait */
	bool is_background; /* what it waits for now is nothing that a worker has to finish */
	bool has_turn;    /* of turns.c */
	bool has_globals; /* of http/globals.c: PHP's superglobals, headers and sessions are its handler's */
	bool defers_answer; /* Request::deferAnswer(): what its handler has registered for its end is short */
	bool has_session; /* of core/stray.c: its handler has called what changes PHP's session */
	void *output_to;  /* of http/events.c: where what is printed goes; NULL = to no client */
	uint64_t body_of; /* of http/stream.c: the request whose body goes on after what its handler, or a piece of it, has left; 0 = none */
	bool dying;       /* taken out of the pool for good */
	bool answers_error; /* what the error handler has returned is being sent, and may be a stream that throws */
	fermata_fiber *next, *previous; /* in the pool, or among those that have waited */
	fermata_fiber *next_ready;
	uint64_t turn; /* in the ready queue: whose is lower goes on first */
	fermata_timer timer;
	/* what fermata_run has of it while it runs */
	fermata_request *request;
	fermata_websocket *websocket;
	fermata_message *message;
	FmSocket socket;
	FmRequest stream;
	bool handling;
	struct fermata_changes *changes; /* of core/changes.c: what the handler has changed of PHP's state; NULL = nothing */
	php_output_handler **output;
	int output_len;
	zend_long timeout_seconds;
	fermata_last_error last_error; /* what error_get_last() tells its handler */
	fermata_last_errors last_errors;
	/* what it works on */
	fermata_client *client;
	fermata_future *future; /* NULL = a handler */
	fermata_future *deferred; /* begun when the handler has ended; the last comes first */
	fermata_scope *scope;   /* the innermost */
	zend_array *context_values;
	fermata_future *awaits; /* for finding deadlocks: what it waits for, or */
	fermata_mutex *locks;   /* this */
	fermata_mutex *locked;  /* the mutexes it has */
	/* the end of its WebSocket, told when the handler that waits has ended */
	zend_string *close_reason; /* NULL = none */
	uint16_t close_code;
	uint32_t close_handler;
};

typedef enum fermata_wait_result {
	FERMATA_WAIT_WOKEN,
	FERMATA_WAIT_DUE,
	FERMATA_WAIT_FAILED, /* an exception is pending */
} fermata_wait_result;

/* fibers.c */
void fermata_fibers_start(zend_execute_data *frame);
void fermata_fibers_end(void);
/* Of a process in which PHP has none. */
void fermata_limit_memory(size_t bytes_max);
void fermata_fibers_abandon(void);
/* In the process of a test, on the first fiber: the others run until nothing is left to do at this time. False after an
 * exception. */
bool fermata_fibers_run_others(void);
bool fermata_fibers_poll(void);
void fermata_fibers_woken(void);
void fermata_fibers_gone(const FmEvent *event);
void fermata_fibers_unwind(void);
bool fermata_fibers_is_unwinding(void);
fermata_wait_result fermata_wait(uint64_t due_ms);
/* cancellation.c: the same, and neither the client nor a timeout() or a Cancellation ends it. */
fermata_wait_result fermata_wait_shielded(uint64_t due_ms);
void fermata_fibers_end_turn(void);
bool fermata_can_wait(void);
bool fermata_fibers_are_full(void);
void fermata_background(bool begins);
const char *fermata_wait_obstacle(void);
uint32_t fermata_fibers_tasks_max(void);
/* How long a connection is waited for that another handler or task of the worker uses. */
uint64_t fermata_fibers_shared_wait_ms(void);
uint64_t fermata_fibers_next_turn(void);
/* The program has this one open. */
void fermata_fibers_note_descriptor(int fd);
/* That of this fiber's handler, for a task. */
uint64_t fermata_fiber_family(void);
/* The handler of a family, which waits; NULL = it has ended. */
fermata_fiber *fermata_fiber_of_family(uint64_t family);
void fermata_wake(fermata_fiber *fiber);
void fermata_interrupt(fermata_fiber *fiber);
void fermata_interrupt_all(void);
bool fermata_fiber_is_shielded(const fermata_fiber *fiber);
/* Whether its next wait would be ended: the client has left, its task was cancelled, the time is over. */
bool fermata_fiber_is_ended(const fermata_fiber *fiber);
/* After a query that was finished although its client has left: now the exception comes. */
void fermata_fiber_end_reprieve(void);
void fermata_fiber_settle(void);
fermata_client *fermata_fiber_client(fermata_fiber *fiber);
void fermata_client_release(fermata_client *client);
fermata_fiber *fermata_fiber_of_socket(FmSocket socket);
size_t fermata_fiber_place(const fermata_fiber *fiber, char *text, size_t size);

/* hooks/conversations.c */
uint64_t fermata_conversation_clock(void);
/* A wait of this fiber was ended: so are its conversations that miss a reply to what was said after `since`. */
void fermata_conversations_end(uint64_t since);
/* The worker ends. */
void fermata_conversations_free(void);

/* hooks/owners.c */
/* What this fiber has claimed since then may be used by others. */
void fermata_owners_give_back(uint64_t since);
/* The fiber's handler or task has ended. */
void fermata_owners_settle(fermata_fiber *fiber);
/* What it has read may have been the last of what it has asked for: then others go on. */
void fermata_owners_rest(const fermata_fiber *fiber);
/* What one has is the other's from here on. */
void fermata_owners_move(fermata_fiber *from, fermata_fiber *to);

/* hooks/guards.c: the same, for what is open between two calls. */
void fermata_guards_move(fermata_fiber *from, fermata_fiber *to);
/* A task has ended: rows that it has asked for are its handler's, which may read on. */
void fermata_guards_move_rows(const fermata_fiber *task);

/* timers.c */
void fermata_timer_arm(fermata_timer *timer, uint64_t due_ms);
void fermata_timer_disarm(fermata_timer *timer);
fermata_timer *fermata_timer_first(void);
void fermata_timers_free(void);
bool fermata_seconds_to_due(double seconds, uint64_t *due_ms);

/* tasks.c */
uint32_t fermata_tasks_queued(void);
uint64_t fermata_tasks_turn(void);
bool fermata_tasks_are_urgent(void);
fermata_future *fermata_task_begin(zval *callable, uint8_t kind);
void fermata_task_defer(zval *callable, bool is_urgent);
void fermata_tasks_enqueue_all(fermata_future *first);
bool fermata_future_has_ended(const fermata_future *future);
void fermata_future_release(fermata_future *future);
bool fermata_check_deadlock(const fermata_fiber *owner);
void fermata_tasks_run_next(void);
void fermata_tasks_drop(void);
bool fermata_future_is_cancelled(const fermata_future *future);
bool fermata_cancellation_is_cancelled(const zend_object *cancellation);

/* every.c */
void fermata_every_start(fermata_every *every, uint32_t worker_index);
void fermata_every_stop(fermata_every *every);
void fermata_every_due(fermata_timer *timer, uint64_t now_ms);

/* sync.c */
fermata_fiber *fermata_mutex_owner(const fermata_mutex *mutex);
void fermata_mutexes_forgotten(fermata_fiber *fiber);
void fermata_mutexes_move(fermata_fiber *from, fermata_fiber *to);

/* bodies.c */
/* This fiber has made a piece of a body that goes on: what it is in the middle of is kept until the next. `*kept` is NULL as long
 * as there was nothing. */
void fermata_body_put_by(fermata_fiber **kept);
void fermata_body_take_up(fermata_fiber *kept);
/* The worker ends. */
void fermata_body_forget(fermata_fiber *kept);

/* http/stream.c */
/* Puts by what this fiber has for the body of the request, unless that has ended. */
void fermata_stream_put_by(FmRequest request);

/* http/events.c */
void fermata_events_release(void);
bool fermata_events_taken(const FmEvent *event);
bool fermata_events_ended(const FmEvent *event);
void fermata_events_gone(const FmEvent *event);
void fermata_events_due(fermata_timer *timer, uint64_t now_ms);

/* files/jobs.c */
/* For a job on a file that is pending; lies on the C stack of the function that waits. */
typedef struct fermata_file_wait {
	fermata_fiber *fiber;
	bool over;
} fermata_file_wait;
void fermata_files_woken(void);

/* core/publishing.c */
void fermata_publishes_woken(void);

/* turns.c */
void fermata_turns_start(uint32_t handlers_max);
/* Whether one handler runs at a time. */
bool fermata_turns_are_single(void);
bool fermata_turn_take(void);
void fermata_turn_end(fermata_fiber *fiber);

/* waiters.c */
void fermata_waiters_add(fermata_waiters *list, fermata_waiter *waiter);
void fermata_waiters_remove(fermata_waiter *waiter);

#endif
