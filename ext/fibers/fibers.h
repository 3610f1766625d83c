/* Fibers run handlers and tasks, so that one can wait while others run.
 *
 * scheduler.c has the pool and the switch, timers.c timers, tasks.c futures, task_queue.c tasks that have not started, sync.c
 * mutexes and semaphores, queue.c queues. callbacks.c decides which waits may switch to another handler. handler/parts.c and
 * magic.c manage the state that belongs to a waiting handler. */
#ifndef FERMATA_FIBERS_H
#define FERMATA_FIBERS_H

#include "handler/handler.h"

#define FERMATA_NEVER UINT64_MAX
#define FERMATA_SECONDS_MAX 31536000.0 /* one year; a longer wait has no time limit */

/* Node in a list of waiting fibers. Stored on the C stack of the waiting fiber. */
typedef struct fermata_waiter {
	struct fermata_waiter *next, *previous;
	struct fermata_waiters *list; /* NULL = not in a list */
	fermata_fiber *fiber;
	uint32_t *left; /* all(): number of missing results; NULL = wake the fiber at the first result */
	zval item;      /* Queue: value that is passed to or from the fiber */
} fermata_waiter;

typedef struct fermata_waiters {
	fermata_waiter *first, *last;
} fermata_waiters;

typedef enum fermata_wait_result {
	FERMATA_WAIT_WOKEN,
	FERMATA_WAIT_DUE,
	FERMATA_WAIT_FAILED, /* an exception is pending */
} fermata_wait_result;

/* scheduler.c */
void fermata_fibers_init(void);
/* `loop` serves events on each fiber until the worker stops; `dispatch` serves one event; `run_task` runs the first queued task. */
void fermata_fibers_start(zend_execute_data *frame, void (*loop)(zend_execute_data *frame), void (*dispatch)(const FmEvent *event),
	void (*run_task)(void));
/* Creates the request and event objects of the first fiber. */
void fermata_make_objects(void);
void fermata_fibers_end(void);
/* Sets PHP's memory limit, unless the process already has one. */
void fermata_limit_memory(size_t bytes_max);
/* For the process of a test, on the first fiber: runs the other fibers until none has work at the current time. Returns false
 * after an exception. */
bool fermata_fibers_run_others(void);
bool fermata_fibers_poll(void);
void fermata_fibers_woken(void);
void fermata_fibers_gone(const FmEvent *event);
void fermata_fibers_unwind(void);
/* Called after fermata_fibers_unwind(), when no task is queued. Frees the timers, and calls on_stop of all parts. */
void fermata_fibers_stop(void);
bool fermata_fibers_is_unwinding(void);
fermata_wait_result fermata_wait(uint64_t due_ms);
/* Logical clock for the uses of connections. Each use gets the next number; fermata_clock() returns the number of the last use. */
extern uint64_t fermata_uses;
static zend_always_inline uint64_t fermata_clock(void)
{
	return fermata_uses;
}
static zend_always_inline uint64_t fermata_clock_tick(void)
{
	return ++fermata_uses;
}
/* cancellation.c: like fermata_wait(), but no client, timeout() or Cancellation ends the wait. */
fermata_wait_result fermata_wait_shielded(uint64_t due_ms);
void fermata_fibers_end_turn(void);
bool fermata_fibers_are_full(void);
void fermata_background(bool begins);
/* Returns the reason why the fiber can neither wait nor hold the worker; NULL = it can. Unlike fermata_wait_obstacle(), ignores
 * callbacks.c. */
const char *fermata_hold_obstacle(void);
/* Returns false with an exception pending if a wait of this fiber has to end now. Otherwise sets `*due_ms` to the time at which
 * the wait has to end. */
bool fermata_check_ended(uint64_t *due_ms);
/* Returns the frame of run(), below all handlers. */
const zend_execute_data *fermata_fibers_frame(void);
const FmFibers *fermata_fibers_settings(void);
/* Returns the number of fibers that would stay free if `tasks` more tasks were running. */
uint32_t fermata_fibers_free(uint32_t tasks);
/* Returns the maximum wait for a connection that another handler or task of this worker uses (`shared_wait_timeout_ms`). */
uint64_t fermata_fibers_shared_wait_ms(void);
uint64_t fermata_fibers_next_turn(void);
/* Records that the application has opened this descriptor. */
void fermata_fibers_note_descriptor(int fd);
/* Returns the number of this fiber's family: its handler and the tasks of that handler. */
uint64_t fermata_fiber_family(void);
/* Returns the waiting handler of a family; NULL = it has finished. */
fermata_fiber *fermata_fiber_of_family(uint64_t family);
bool fermata_family_has_tasks(uint64_t family);
void fermata_wake(fermata_fiber *fiber);
void fermata_interrupt(fermata_fiber *fiber);
void fermata_interrupt_all(void);
bool fermata_fiber_is_shielded(const fermata_fiber *fiber);
/* Returns true if the fiber's next wait would end immediately: client disconnected, task cancelled or time over. */
bool fermata_fiber_is_ended(const fermata_fiber *fiber);
/* Called after a query that continued although its client had disconnected: throws the postponed exception. */
void fermata_fiber_end_abandoned(void);
void fermata_fiber_clean_up(void);
/* Called when the handler or task of this fiber has returned, while its request still exists. */
static zend_always_inline void fermata_fiber_returned(void)
{
	if (UNEXPECTED(fermata_run.fiber->has_ending)) {
		FERMATA_EACH_PART(on_return, fermata_run.fiber)
	}
}
fermata_client *fermata_fiber_client(fermata_fiber *fiber);
void fermata_client_release(fermata_client *client);
/* Called when the fiber's client has disconnected. The fiber's wait ends immediately, or later if it is inside shield(). */
void fermata_client_left(fermata_fiber *fiber);
fermata_fiber *fermata_fiber_of_socket(FmSocket socket);
size_t fermata_fiber_place(const fermata_fiber *fiber, char *text, size_t size);

/* callbacks.c */
bool fermata_can_wait(void);
const char *fermata_wait_obstacle(void);
/* Returns true if a wait at this point has to hold the worker (fermata_block). */
bool fermata_has_to_hold(void);

/* timers.c */
void fermata_timer_arm(fermata_timer *timer, uint64_t due_ms);
void fermata_timer_disarm(fermata_timer *timer);
fermata_timer *fermata_timer_first(void);
void fermata_timers_free(void);
bool fermata_seconds_to_due(double seconds, uint64_t *due_ms);

/* tasks.c */
fermata_wait_result fermata_wait_for_others(void);
fermata_future *fermata_task_begin(zval *callable, uint8_t kind);
void fermata_task_defer(zval *callable, bool is_urgent);
bool fermata_future_has_ended(const fermata_future *future);
void fermata_future_release(fermata_future *future);
void fermata_future_drop(fermata_future *future);
bool fermata_check_deadlock(const fermata_fiber *owner);
void fermata_tasks_run_next(void);
void fermata_tasks_drop(void);

/* every.c */
void fermata_every_start(fermata_every *every, uint32_t worker_index);
void fermata_every_stop(fermata_every *every);

/* bodies.c */
/* Called when this fiber has generated a piece of a streamed body that continues. Stores the handler's state until the next piece.
 * `*kept` stays NULL if there is no state. */
void fermata_body_put_by(fermata_fiber **kept);
void fermata_body_take_up(fermata_fiber *kept);
/* Frees the state when the worker stops. */
void fermata_body_forget(fermata_fiber *kept);

/* http/events.c */
void fermata_events_release(void);
bool fermata_events_taken(const FmEvent *event);
bool fermata_events_ended(const FmEvent *event);
void fermata_events_gone(const FmEvent *event);

/* files/jobs.c */
/* A pending file job. Stored on the C stack of the waiting function. */
typedef struct fermata_file_wait {
	fermata_fiber *fiber;
	bool over;
} fermata_file_wait;

/* magic.c */
void fermata_magic_init(void);
/* Records that fermata_is_in_callback() has found a frame of __get() or a similar method. */
void fermata_magic_note(void);
/* Returns true if the engine has called the frame as __get(), __set(), __isset() or __unset(). */
static zend_always_inline bool fermata_is_magic(const zend_execute_data *frame)
{
	if (!(ZEND_CALL_INFO(frame) & ZEND_CALL_TOP) || Z_TYPE(frame->This) != IS_OBJECT || !ZEND_USER_CODE(frame->func->common.type)) {
		return false;
	}
	const zend_class_entry *class = Z_OBJCE(frame->This);
	return (class->ce_flags & ZEND_ACC_USE_GUARDS) && (frame->func == class->__get || frame->func == class->__set
		|| frame->func == class->__isset || frame->func == class->__unset);
}

void fermata_context_init(void);
/* context.c: returns the values of this fiber's handler or task; NULL = none. */
zend_array *fermata_context_values(void);
/* Sets a task's values and takes ownership of the reference. */
void fermata_context_give(fermata_fiber *fiber, zend_array *values);

/* turns.c */
void fermata_turns_init(void);
/* Returns true if only one handler runs at a time. */
bool fermata_turns_are_single(void);

/* waiters.c */
void fermata_waiters_add(fermata_waiters *list, fermata_waiter *waiter);
void fermata_waiters_remove(fermata_waiter *waiter);
/* Waits until fermata_wake_keyed(). At most one fiber waits for a key. `*table` has the waiting fibers; NULL = none. */
fermata_wait_result fermata_wait_keyed(HashTable **table, zend_ulong key);
void fermata_wake_keyed(HashTable *table, zend_ulong key);

/* iterator.c */
typedef struct fermata_item_source {
	/* Returns the object's next item; waits for it. Returns false at the end, or with an exception pending. */
	bool (*next)(zend_object *object, zval *item);
	/* Sets the key of an item. `count` is the number of items before it. */
	void (*key)(const zval *item, zend_ulong count, zval *key);
	const char *busy; /* message of the MisuseError if two fibers wait with one iterator */
	const char *by_reference; /* message of the MisuseError for foreach by reference */
} fermata_item_source;
/* Implements get_iterator of a class whose items are received once. The iterator refers to the object and to `source`. */
zend_object_iterator *fermata_item_iterator(const fermata_item_source *source, zval *object, int by_reference);

/* fibers/every.c */
void fermata_every_free(fermata_every *every);
void fermata_every_gc(const fermata_every *every, zend_get_gc_buffer *buffer);

/* tasks.c */
void fermata_tasks_init(void);
void fermata_tasks_init_part(void);

/* cancellation.c */
void fermata_cancellation_init(void);

/* sync.c */
void fermata_sync_init(void);
void fermata_sync_init_part(void);

/* queue.c */
void fermata_queue_init(void);

/* poll.c */
void fermata_poll_init(void);

#endif
