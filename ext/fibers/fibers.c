/* The pool of fibers, and how one takes over from another.
 *
 * The loop of core/runner.c runs on every fiber of the pool, one at a time, and calls handlers directly: a handler that does not
 * wait costs no switch. One that waits is suspended together with the loop it was called by, and another fiber of the pool
 * goes on with the loop of its own. When the handler can go on, whoever has the loop then parks itself in the pool and
 * switches to it; when the handler has ended, the loop it was called by goes on.
 *
 * The first fiber is PHP's own stack, on which run() was called; it is there to the end. The others are contexts of PHP's
 * Fiber implementation, so debuggers and profilers see each as a Fiber; Fiber::getCurrent() is null on them as on the first.
 *
 * Invariant: a handler or task is begun only while another fiber is left, or may be made, to go on with the loop. */
#include "core/changes.h"
#include "core/runner.h"
#include "fibers/fibers.h"
#include "hooks/hooks.h"
#include "ext/standard/basic_functions.h"
#include "ext/standard/file.h"
#include "ext/standard/php_filestat.h"
#include "zend_exceptions.h"
#include "zend_ini.h"
#include <sys/resource.h>

/* Fibers and tasks that run in a row before the core sends output and looks for events, if they take no longer than the core
 * gives them of a turn. */
#define READY_MAX 32
#define PLACE_BYTES_MAX 1024
/* Waits that were ended before garbage is collected, and how long it takes at least until it is done for fewer of them. */
#define ENDED_MAX 64
#define COLLECT_EVERY_MS 1000
/* Of the descriptors that the process may have: when the program has had so many open, garbage may keep a part of them. */
#define DESCRIPTORS_SHARE 2

static struct {
	fermata_fiber *parked;
	fermata_fiber *listed;                 /* those that have waited and have not ended */
	fermata_fiber *ready_first, *ready_last;
	fermata_fiber *unwinder;               /* ends all others, and gets control back after each */
	fermata_fiber *dead;                   /* has ended for good; to be freed */
	zend_execute_data *frame;              /* of run() */
	uint32_t len, parked_len, listed_len, background_len;
	uint32_t budget;
	FmFibers settings;
	uint64_t last_turn;                    /* given to a fiber that is ready or to a task */
	uint64_t last_family;                  /* given to a handler that begins a task */
	uint64_t wake_ms;                      /* what the core was told */
	uint64_t now_ms;                       /* when timers were last looked at */
	bool full, busy;                       /* likewise */
	uint32_t ended_len;                    /* waits that were ended since garbage was last collected */
	uint64_t collected_ms;                 /* when that was */
	int descriptors_high;                  /* a number from which on descriptors are many */
	bool has_many_descriptors;             /* one was seen since garbage was last collected */
	uint32_t waiting, queued;              /* likewise */
	bool stopping;                         /* nothing can be waited for any more */
} pool;

static fermata_fiber first_fiber;
static char kind; /* its address tells our contexts from others */

/* Switching */

static void save_output(fermata_fiber *fiber)
{
	int len = php_output_get_level() - fermata_run.output_level;
	if (EXPECTED(len <= 0)) {
		return;
	}
	php_output_handler **handlers = zend_stack_base(&OG(handlers));
	fiber->output = safe_emalloc(len, sizeof(php_output_handler *), 0);
	fiber->output_len = len;
	memcpy(fiber->output, handlers + fermata_run.output_level, len * sizeof(php_output_handler *));
	OG(handlers).top = fermata_run.output_level;
	OG(active) = (php_output_handler *)fermata_run.output_active;
}

static void restore_output(fermata_fiber *fiber)
{
	if (EXPECTED(!fiber->output)) {
		return;
	}
	for (int i = 0; i < fiber->output_len; i++) {
		zend_stack_push(&OG(handlers), &fiber->output[i]);
	}
	OG(active) = fiber->output[fiber->output_len - 1];
	efree(fiber->output);
	fiber->output = NULL;
}

/* set_time_limit() counts while the handler that called it runs. */
static void save_timeout(fermata_fiber *fiber)
{
	fiber->timeout_seconds = EG(timeout_seconds);
	if (UNEXPECTED(EG(timeout_seconds))) {
		zend_unset_timeout();
		EG(timeout_seconds) = fermata_run.timeout_seconds;
	}
}

static void restore_timeout(const fermata_fiber *fiber)
{
	EG(timeout_seconds) = fiber->timeout_seconds;
	if (UNEXPECTED(fiber->timeout_seconds) && fiber->handling) {
		zend_set_timeout(fiber->timeout_seconds, false);
	}
}

/* The last error may be about what a client has sent, and nobody asks whose it was. */
static void save_last_error(fermata_fiber *fiber)
{
	if (UNEXPECTED(PG(last_error_message))) {
		fiber->last_error = (fermata_last_error){PG(last_error_message), PG(last_error_file), PG(last_error_type),
			PG(last_error_lineno)};
		PG(last_error_message) = PG(last_error_file) = NULL;
		PG(last_error_type) = PG(last_error_lineno) = 0;
	}
}

static void restore_last_error(fermata_fiber *fiber)
{
	if (EXPECTED(!PG(last_error_message) && !fiber->last_error.message)) {
		return;
	}
	if (PG(last_error_message)) {
		zend_string_release(PG(last_error_message));
	}
	if (PG(last_error_file)) {
		zend_string_release(PG(last_error_file));
	}
	PG(last_error_message) = fiber->last_error.message;
	PG(last_error_file) = fiber->last_error.file;
	PG(last_error_type) = fiber->last_error.type;
	PG(last_error_lineno) = fiber->last_error.line;
	fiber->last_error = (fermata_last_error){0};
}

/* The core counts the time for the handler that goes on after its wait. */
static void note_resumed(const fermata_fiber *to)
{
	const FmEvent *event = &to->request->event;
	bool is_request = event->kind == FM_EVENT_REQUEST || event->kind == FM_EVENT_STREAM;
	fm_note_handler(fermata_run.worker,
		to->future ? FM_HANDLER_TASK : is_request ? event->handler : event->handler | FM_HANDLER_WEBSOCKET);
}

/* What PHP notes while a stream wrapper of the program's opens something: which address, so that it does not open that once
 * more, and that it is for an include, for which no URL may be opened. It is nothing that others do. */
typedef struct opening {
	const char *address;
	bool is_for_include;
} opening;

static zend_always_inline opening exchange_opening(opening by)
{
	opening before = {FG(user_stream_current_filename), PG(in_user_include)};
	FG(user_stream_current_filename) = by.address;
	PG(in_user_include) = by.is_for_include;
	return before;
}

/* Returns when another fiber switches to this one. */
static void switch_to(fermata_fiber *to)
{
	fermata_fiber *from = fermata_run.fiber;
	if (to->is_listed) {
		note_resumed(to);
	}
	zend_fiber_transfer transfer = {.context = to->context};
	from->context = EG(current_fiber_context);
	from->frame = EG(current_execute_data);
	from->request = fermata_run.request;
	from->websocket = fermata_run.websocket;
	from->message = fermata_run.message;
	from->socket = fermata_run.socket;
	from->stream = fermata_run.stream;
	from->handling = fermata.handling;
	save_output(from);
	save_timeout(from);
	save_last_error(from);
	fermata_last_errors_save(&from->last_errors);
	if (UNEXPECTED(from->changes || fermata_globals_differ())) {
		fermata_changes_leave(from);
	}

	fermata_run.fiber = to;
	fermata_run.stream = 0;
	fermata.handling = false;
	to->state = FERMATA_FIBER_RUNNING;
	ZVAL_NULL(&transfer.value);
	if (UNEXPECTED(BG(CurrentStatFile) || BG(CurrentLStatFile))) {
		/* What PHP knows of a file until the script ends. Others ask for themselves, and this one once more. */
		php_clear_stat_cache(false, NULL, 0);
	}
	opening mine = exchange_opening((opening){0});
	zend_fiber_switch_context(&transfer);
	exchange_opening(mine);

	fermata_run.request = from->request;
	fermata_run.websocket = from->websocket;
	fermata_run.message = from->message;
	fermata_run.socket = from->socket;
	fermata_run.stream = from->stream;
	fermata.handling = from->handling;
	restore_output(from);
	restore_timeout(from);
	restore_last_error(from);
	if (UNEXPECTED(from->changes)) {
		fermata_changes_enter(from);
	}
	/* What is put back may have failed, and turns the list of libxml's errors on. */
	fermata_last_errors_restore(&from->last_errors);
	if (UNEXPECTED(pool.dead)) {
		pefree(pool.dead, true);
		pool.dead = NULL;
	}
}

/* The pool */

/* Gives the control back for good to the fiber that goes on. */
static void leave_to(fermata_fiber *to, zend_fiber_transfer *transfer)
{
	pool.dead = fermata_run.fiber;
	pool.len--;
	fermata_run.fiber = to;
	to->state = FERMATA_FIBER_RUNNING;
	transfer->context = to->context;
	transfer->flags = 0;
	ZVAL_NULL(&transfer->value);
}

static ZEND_STACK_ALIGNED void fiber_main(zend_fiber_transfer *transfer)
{
	fermata_fiber *self = fermata_run.fiber;
	EG(vm_stack) = self->vm_stack;
	EG(vm_stack_top) = EG(vm_stack)->top;
	EG(vm_stack_end) = EG(vm_stack)->end;
	EG(vm_stack_page_size) = ZEND_FIBER_VM_STACK_SIZE;
	EG(current_execute_data) = pool.frame;
	EG(error_reporting) = fermata_run.error_reporting;
	EG(jit_trace_num) = 0;
	EG(active_fiber) = NULL;
	FERMATA_SET_STACK(self->own.stack);
	fermata_run.request = self->request;
	fermata_run.websocket = self->websocket;
	fermata_run.message = self->message;
	fermata_run.socket = 0;

	EG(bailout) = NULL;
	fermata_runner_loop(pool.frame);
	if (EG(exception)) {
		/* The exit() of a forked process goes on where run() was called. */
		zend_clear_exception();
	}

	if (!fermata_run.retired) {
		fermata_runner_release();
		zend_vm_stack_destroy();
	}
	leave_to(pool.unwinder ? pool.unwinder : &first_fiber, transfer);
}

static zend_vm_stack vm_stack_new(void)
{
	zend_vm_stack page = emalloc(ZEND_FIBER_VM_STACK_SIZE);
	page->top = ZEND_VM_STACK_ELEMENTS(page);
	page->end = (zval *)((char *)page + ZEND_FIBER_VM_STACK_SIZE);
	page->prev = NULL;
	return page;
}

/* NULL after an exception. */
static fermata_fiber *fiber_new(void)
{
	/* Before anything else: the memory limit may end this handler. */
	zend_vm_stack vm_stack = vm_stack_new();
	fermata_request *request = fermata_request_new();
	fermata_websocket *websocket = fermata_websocket_new();
	fermata_message *message = fermata_message_new();
	fermata_fiber *fiber = pecalloc(1, sizeof(fermata_fiber), true);
	if (UNEXPECTED(!fermata_fiber_init_context(&fiber->own, &kind, fiber_main, pool.settings.stack_bytes))) {
		pefree(fiber, true);
		efree(vm_stack);
		OBJ_RELEASE(&request->std);
		OBJ_RELEASE(&websocket->std);
		OBJ_RELEASE(&message->std);
		zend_throw_exception(fermata_ce_backpressure,
			"the system has no room for another fiber; lower fibers_max or raise vm.max_map_count", 0);
		return NULL;
	}
	fiber->context = &fiber->own;
	fiber->vm_stack = vm_stack;
	/* It has them while it does not run. */
	fiber->request = request;
	fiber->websocket = websocket;
	fiber->message = message;
	pool.len++;
	return fiber;
}

static void park(fermata_fiber *fiber)
{
	fiber->state = FERMATA_FIBER_PARKED;
	fiber->next = pool.parked;
	pool.parked = fiber;
	pool.parked_len++;
}

static fermata_fiber *unpark(void)
{
	fermata_fiber *fiber = pool.parked;
	pool.parked = fiber->next;
	pool.parked_len--;
	return fiber;
}

/* One of two or more. The first has to stay: it is where the script goes on. */
static fermata_fiber *unpark_spare(void)
{
	fermata_fiber *fiber = unpark();
	if (fiber == &first_fiber) {
		fiber = unpark();
		park(&first_fiber);
	}
	return fiber;
}

/* Lets a fiber from the pool run to its end. */
static void let_die(fermata_fiber *fiber)
{
	fermata_fiber *unwinder = pool.unwinder;
	fiber->dying = true;
	pool.unwinder = fermata_run.fiber;
	switch_to(fiber);
	pool.unwinder = unwinder;
}

static void push_ready(fermata_fiber *fiber)
{
	fiber->state = FERMATA_FIBER_READY;
	fiber->next_ready = NULL;
	fiber->turn = ++pool.last_turn;
	if (pool.ready_last) {
		pool.ready_last->next_ready = fiber;
	} else {
		pool.ready_first = fiber;
	}
	pool.ready_last = fiber;
	fermata_run.waits = true;
}

static fermata_fiber *shift_ready(void)
{
	fermata_fiber *fiber = pool.ready_first;
	pool.ready_first = fiber->next_ready;
	if (!pool.ready_first) {
		pool.ready_last = NULL;
	}
	return fiber;
}

static zend_always_inline bool is_full(void)
{
	return pool.len - pool.parked_len >= pool.settings.max;
}

/* An urgent task has a fiber more than there may be, one at a time. */
static bool may_begin_task(void)
{
	return fermata_tasks_queued() && (!is_full() || (fermata_tasks_are_urgent() && pool.len - pool.parked_len == pool.settings.max));
}

/* Whether nobody could go on if this fiber waited. */
bool fermata_fibers_are_full(void)
{
	return is_full();
}

/* Whether the next that goes on is a fiber: tasks that have not begun stand in the same line. */
static bool is_fibers_turn(void)
{
	return pool.ready_first && (!may_begin_task() || pool.ready_first->turn < fermata_tasks_turn());
}

/* Whether another fiber or task may go on before the core is asked for an event. */
static bool may_go_on(void)
{
	if (pool.budget && !fm_may_resume(fermata_run.worker)) {
		pool.budget = 0;
	}
	return pool.budget;
}

/* The fiber that goes on when this one waits; NULL after an exception. */
static fermata_fiber *successor(void)
{
	if (is_fibers_turn() && may_go_on()) {
		pool.budget--;
		return shift_ready();
	}
	return pool.parked_len ? unpark() : fiber_new();
}

/* The loop's part */

static void fire_timers(void)
{
	fermata_timer *timer;
	pool.now_ms = fm_worker_now_ms(fermata_run.worker);
	while ((timer = fermata_timer_first()) && timer->due_ms <= pool.now_ms) {
		fermata_timer_disarm(timer);
		if (timer->kind == FERMATA_TIMER_EVERY) {
			fermata_every_due(timer, pool.now_ms);
			continue;
		}
		if (timer->kind == FERMATA_TIMER_EVENTS) {
			fermata_events_due(timer, pool.now_ms);
			continue;
		}
		fermata_fiber *fiber = (fermata_fiber *)((char *)timer - XtOffsetOf(fermata_fiber, timer));
		fiber->interrupted = true;
		push_ready(fiber);
	}
}

void fermata_fibers_woken(void)
{
	pool.wake_ms = FERMATA_NEVER;
	/* The core is to be told of the next. */
	fermata_run.waits = true;
	fermata_files_woken();
	fermata_publishes_woken();
	fire_timers();
}

/* What was ended in the middle is often a part of a cycle, and holds descriptors until that is collected. */
static ZEND_COLD void collect_ended(void)
{
	pool.ended_len = 0;
	pool.has_many_descriptors = false;
	pool.collected_ms = fm_worker_now_ms(fermata_run.worker);
	fermata_run.collects = true;
	gc_collect_cycles();
	fermata_run.collects = false;
	fermata_clean_up();
}

/* PHP counts objects, and collects cycles long after the system has run out of descriptors that they keep. */
void fermata_fibers_note_descriptor(int fd)
{
	if (UNEXPECTED(fd >= pool.descriptors_high) && !pool.has_many_descriptors) {
		pool.has_many_descriptors = true;
		fermata_run.waits = true;
	}
}

static bool has_to_collect(void)
{
	return pool.ended_len >= ENDED_MAX
		|| ((!pool.ready_first || pool.has_many_descriptors) && fm_worker_now_ms(fermata_run.worker) >= pool.collected_ms + COLLECT_EVERY_MS);
}

/* Tells the core what it has to know before it may sleep. */
static void before_events(void)
{
	if (UNEXPECTED(pool.ended_len || pool.has_many_descriptors) && has_to_collect()) {
		collect_ended();
	}
	bool full = is_full(), busy = pool.listed_len > pool.background_len || fermata_tasks_queued();
	bool is_ready = pool.ready_first || may_begin_task();
	fermata_timer *timer = fermata_timer_first();
	uint64_t wake_ms = is_ready ? 0 : timer ? timer->due_ms : FERMATA_NEVER;
	if (wake_ms != pool.wake_ms) {
		pool.wake_ms = wake_ms;
		fm_worker_wake_at(fermata_run.worker, wake_ms);
	}
	uint32_t queued = fermata_tasks_queued();
	if (pool.listed_len != pool.waiting || queued != pool.queued) {
		pool.waiting = pool.listed_len;
		pool.queued = queued;
		fm_worker_waiting(fermata_run.worker, pool.waiting, queued);
	}
	if (full != pool.full) {
		pool.full = full;
		fm_worker_full(fermata_run.worker, full);
	}
	if (busy != pool.busy) {
		pool.busy = busy;
		fm_worker_busy(fermata_run.worker, busy);
	}
	pool.budget = READY_MAX;
	/* A timer alone needs no look at every event: the core wakes us for it. */
	fermata_run.waits = is_ready || busy || full || pool.ended_len || pool.has_many_descriptors || fermata_run.in_process;
}

/* The loop in the process of a test: when nothing is left to do the test goes on. */
static ZEND_COLD bool step_in_process(fermata_fiber *self)
{
	FmEvent *event = &fermata_run.request->event;
	if (!fermata_run.retired && fm_in_process_next(fermata_run.worker, fermata_run.in_process_wait_ms, event)) {
		fermata_dispatch(event);
	} else {
		park(self);
		switch_to(&first_fiber);
	}
	return true;
}

bool fermata_fibers_run_others(void)
{
	fermata_fiber *to = successor();
	if (!to) {
		return false;
	}
	first_fiber.state = FERMATA_FIBER_WAITING;
	fermata_run.waits = true;
	switch_to(to);
	return true;
}

/* What is to be done before the core is asked for an event, while anything waits. True when there was something. */
bool fermata_fibers_poll(void)
{
	fermata_fiber *self = fermata_run.fiber, *to;
	if (UNEXPECTED(pool.unwinder)) {
		if (pool.unwinder == self) {
			return false;
		}
		to = pool.unwinder;
		pool.unwinder = NULL;
		park(self);
		switch_to(to);
		return true;
	}
	if (UNEXPECTED(fermata_run.retired)) {
		return fermata_run.in_process && step_in_process(self);
	}
	if (is_fibers_turn() && may_go_on()) {
		pool.budget--;
		to = shift_ready();
		park(self);
		switch_to(to);
		return true;
	}
	if (pool.budget && may_begin_task() && may_go_on()) {
		pool.budget--;
		fermata_tasks_run_next();
		return true;
	}
	while (UNEXPECTED(pool.parked_len > pool.settings.idle_max)) {
		let_die(unpark_spare());
	}
	before_events();
	return UNEXPECTED(fermata_run.in_process) && step_in_process(self);
}

/* Waits that end */

typedef enum end_cause {
	CAUSE_NONE,
	CAUSE_TIMEOUT,
	CAUSE_CANCELLATION,
	CAUSE_TASK,
	CAUSE_CLIENT,
} end_cause;

/* Whether the call is around what the fiber does now: not when it was made in a Fiber of the program's that is suspended, or
 * that another handler has resumed. */
static bool is_around(const fermata_scope *scope, const fermata_fiber *fiber)
{
	if (EXPECTED(!scope->inside)) {
		return true;
	}
	const zend_fiber_context *from = scope->inside->caller;
	while (from && from->kind == zend_ce_fiber) {
		from = ((const zend_fiber *)((const char *)from - XtOffsetOf(zend_fiber, context)))->caller;
	}
	return from == (fiber == &first_fiber ? EG(main_fiber_context) : &fiber->own);
}

/* Why a wait of this fiber has to end, if it has to, and when it will have to. `*begun_at`: since when the call was made
 * whose end it is. */
static end_cause cause_of(const fermata_fiber *fiber, uint64_t *due_ms, uint64_t *begun_at)
{
	*due_ms = FERMATA_NEVER;
	*begun_at = 0;
	bool is_shielded = false;
	for (const fermata_scope *scope = fiber->scope; scope && !is_shielded; scope = scope->outer) {
		if (UNEXPECTED(!is_around(scope, fiber))) {
			continue;
		}
		if (scope->is_shield) {
			/* From what is outside of it: a timeout() within ends its own waits. */
			is_shielded = true;
			continue;
		}
		if (scope->cancellation) {
			if (fermata_cancellation_is_cancelled(scope->cancellation)) {
				*begun_at = scope->begun_at;
				return CAUSE_CANCELLATION;
			}
		} else if (scope->due_ms < *due_ms) {
			*due_ms = scope->due_ms;
			*begun_at = scope->begun_at;
		}
	}
	if (UNEXPECTED(*due_ms != FERMATA_NEVER) && *due_ms <= pool.now_ms) {
		return CAUSE_TIMEOUT;
	}
	*begun_at = 0;
	if (is_shielded) {
		return CAUSE_NONE;
	}
	if (fiber->future && fermata_future_is_cancelled(fiber->future)) {
		return CAUSE_TASK;
	}
	return fiber->client && fiber->client->gone ? CAUSE_CLIENT : CAUSE_NONE;
}

/* Whether nothing from outside ends what the fiber does now. */
bool fermata_fiber_is_shielded(const fermata_fiber *fiber)
{
	const fermata_scope *scope = fiber->scope;
	while (scope && !(scope->is_shield && is_around(scope, fiber))) {
		scope = scope->outer;
	}
	return scope;
}

bool fermata_fiber_is_ended(const fermata_fiber *fiber)
{
	uint64_t due_ms, begun_at;
	return cause_of(fiber, &due_ms, &begun_at) != CAUSE_NONE;
}

static ZEND_COLD void throw_cause(end_cause cause)
{
	switch (cause) {
		case CAUSE_TIMEOUT:
			zend_throw_exception(fermata_ce_timeout, "the time given to timeout() is over", 0);
			break;
		case CAUSE_CANCELLATION:
			zend_throw_exception(fermata_ce_cancelled, "the Cancellation was cancelled", 0);
			break;
		case CAUSE_TASK:
			zend_throw_exception(fermata_ce_cancelled, "the task was cancelled", 0);
			break;
		case CAUSE_CLIENT:
			zend_throw_exception(fermata_ce_client_gone, "the client has left", 0);
			break;
		case CAUSE_NONE: break;
	}
}

/* Something has happened that may end the fiber's wait. */
void fermata_interrupt(fermata_fiber *fiber)
{
	if (fiber->state == FERMATA_FIBER_WAITING && fermata_fiber_is_ended(fiber)) {
		fermata_timer_disarm(&fiber->timer);
		fiber->interrupted = true;
		push_ready(fiber);
	}
}

void fermata_interrupt_all(void)
{
	for (fermata_fiber *fiber = pool.listed; fiber; fiber = fiber->next) {
		fermata_interrupt(fiber);
	}
}

/* What the fiber waits for has happened. */
void fermata_wake(fermata_fiber *fiber)
{
	if (fiber->state == FERMATA_FIBER_WAITING) {
		fermata_timer_disarm(&fiber->timer);
		push_ready(fiber);
	} else if (fiber->state == FERMATA_FIBER_READY) {
		/* It was to be ended and has not run yet: what it was given must not be lost. Its next wait ends. */
		fiber->interrupted = false;
	}
}

/* A client has left. */
void fermata_fibers_gone(const FmEvent *event)
{
	for (fermata_fiber *fiber = pool.listed; fiber; fiber = fiber->next) {
		fermata_client *client = fiber->client;
		if (client && (event->socket ? client->socket == event->socket : client->request == event->request)) {
			client->gone = true;
			fermata_interrupt(fiber);
		}
	}
}

fermata_fiber *fermata_fiber_of_socket(FmSocket socket)
{
	for (fermata_fiber *fiber = pool.listed; fiber; fiber = fiber->next) {
		if (fiber->client && fiber->client->socket == socket && !fiber->future) {
			return fiber;
		}
	}
	return NULL;
}

/* Waiting */

/* Why PHP cannot wait here; NULL = it can. */
const char *fermata_wait_obstacle(void)
{
	if (UNEXPECTED(!fermata.handling || fermata.forked)) {
		return "here: only handlers and tasks of a running server can";
	}
	if (UNEXPECTED(pool.stopping)) {
		return "any more: the worker stops";
	}
	if (UNEXPECTED(zend_fiber_switch_blocked())) {
		return "in a destructor; wait before the object is released";
	}
	if (UNEXPECTED(OG(running))) {
		return "in a callback of ob_start(); wait before the output is written";
	}
	if (UNEXPECTED(EG(in_autoload) && zend_hash_num_elements(EG(in_autoload)))) {
		return "while it loads a class: other handlers would not find the class meanwhile";
	}
	if (UNEXPECTED(CG(in_compilation))) {
		return "while it compiles a file";
	}
	if (UNEXPECTED(fermata_run.fiber->sqlite) && fermata_sqlite_forbids_wait(fermata_run.fiber)) {
		return "inside a query of a SQLite database with cache=shared: others of this thread would block for ever";
	}
	return NULL;
}

/* False after an exception: nothing can be waited for here. */
bool fermata_can_wait(void)
{
	const char *obstacle = fermata_wait_obstacle();
	if (EXPECTED(!obstacle)) {
		return true;
	}
	if (fermata.handling && !fermata.forked && pool.stopping) {
		zend_throw_exception(fermata_ce_cancelled, "the worker stops, and nothing can be waited for any more", 0);
	} else {
		fermata_misuse("PHP cannot wait %s", obstacle);
	}
	return false;
}

/* The client that this fiber's handler or task works for; made when it is first asked for. */
fermata_client *fermata_fiber_client(fermata_fiber *fiber)
{
	if (!fiber->client && !fiber->future) {
		fermata_client *client = emalloc(sizeof(fermata_client));
		*client = (fermata_client){.references = 1};
		if (EXPECTED(!fiber->without_client)) {
			client->socket = fermata_run.socket;
			client->request = fermata_run.socket ? 0 : fermata_run.request->event.request;
		}
		fiber->client = client;
		fiber->touched = true;
	}
	return fiber->client;
}

void fermata_client_release(fermata_client *client)
{
	if (client && !--client->references) {
		efree(client);
	}
}

/* Makes a handler independent of what the core has lent it, before its first wait. */
static void put_aside(fermata_fiber *fiber)
{
	fiber->is_listed = fiber->touched = true;
	fiber->previous = NULL;
	fiber->next = pool.listed;
	if (pool.listed) {
		pool.listed->previous = fiber;
	}
	pool.listed = fiber;
	pool.listed_len++;
	if (fiber->future) {
		return;
	}
	const fermata_client *client = fermata_fiber_client(fiber);
	if (fermata_run.stream) {
		/* Its request was answered, and the object is used for other events. */
		fm_stream_defer(fermata_run.worker, fermata_run.stream);
		return;
	}
	if (!fermata_run.socket) {
		fermata_request_keep(fermata_run.request);
		fm_defer(fermata_run.worker, client->request);
		return;
	}
	fermata_websocket_keep(fermata_run.websocket);
	if (fermata_run.message->bytes.ptr) {
		fermata_message_keep(fermata_run.message);
	}
	if (client->socket) {
		fm_ws_defer(fermata_run.worker, client->socket);
	}
}

/* The worker ends while this fiber waits. */
static ZEND_COLD fermata_wait_result end_wait(void)
{
	if (fermata_run.retired) {
		fermata.handling = false;
		zend_bailout();
	}
	if (fermata_run.stopped) {
		zend_throw_unwind_exit();
	} else {
		zend_throw_graceful_exit();
	}
	return FERMATA_WAIT_FAILED;
}

/* Around a wait that no worker has to see to its end before it stops. */
void fermata_background(bool begins)
{
	fermata_fiber *fiber = fermata_run.fiber;
	if (fiber->is_background != begins) {
		fiber->is_background = begins;
		pool.background_len += begins ? 1 : -1;
	}
}

/* The answer to a query comes anyway: its connection is worth more than the time. While a query runs its fiber is taken, too,
 * so clients that come and go cannot have more of them run than fibers_max. */
static ZEND_COLD bool is_reprieved(fermata_fiber *fiber, uint64_t *due_ms)
{
	if (!fiber->waits_for_library || !pool.settings.abandoned_query_ms_max || !fermata_hook_is_query()) {
		return false;
	}
	uint64_t now_ms = fm_worker_now_ms(fermata_run.worker);
	if (!fiber->reprieve_ms) {
		fiber->reprieve_ms = now_ms + pool.settings.abandoned_query_ms_max;
	}
	*due_ms = MIN(*due_ms, fiber->reprieve_ms);
	return now_ms < fiber->reprieve_ms;
}

void fermata_fiber_end_reprieve(void)
{
	uint64_t due_ms, begun_at;
	if (EXPECTED(!fermata_run.fiber->reprieve_ms) || EG(exception)) {
		return;
	}
	end_cause cause = cause_of(fermata_run.fiber, &due_ms, &begun_at);
	if (cause != CAUSE_NONE) {
		throw_cause(cause);
		fermata_conversations_end(begun_at);
	}
}

/* Suspends until fermata_wake(), until it is due (0 = as soon as others have had their turn), or until a wait of this
 * fiber has to end. */
fermata_wait_result fermata_wait(uint64_t due_ms)
{
	fermata_fiber *self = fermata_run.fiber, *to;
	uint64_t scope_due_ms, begun_at;
	end_cause cause;
	fermata_held_streams held;
	if (UNEXPECTED(self->claims)) {
		fermata_owners_rest(self);
	}
	for (;;) {
		if (UNEXPECTED(self->scope)) {
			pool.now_ms = fm_worker_now_ms(fermata_run.worker);
		}
		if (UNEXPECTED((cause = cause_of(self, &scope_due_ms, &begun_at)) != CAUSE_NONE)
				&& !(cause == CAUSE_CLIENT && is_reprieved(self, &scope_due_ms))) {
			throw_cause(cause);
			fermata_conversations_end(begun_at);
			pool.ended_len++;
			return FERMATA_WAIT_FAILED;
		}
		if (UNEXPECTED(!(to = successor()))) {
			return FERMATA_WAIT_FAILED;
		}
		if (UNEXPECTED(!self->is_listed)) {
			put_aside(self);
		}
		fermata_run.waits = true;
		if (due_ms) {
			self->state = FERMATA_FIBER_WAITING;
			scope_due_ms = MIN(scope_due_ms, due_ms);
			if (scope_due_ms != FERMATA_NEVER) {
				fermata_timer_arm(&self->timer, scope_due_ms);
			}
		} else {
			push_ready(self);
		}
		fermata_hold_streams(&held);
		switch_to(to);
		fermata_let_streams_go(&held);
		if (UNEXPECTED(pool.unwinder || fermata_run.stopped)) {
			return end_wait();
		}
		if (!self->interrupted) {
			return due_ms ? FERMATA_WAIT_WOKEN : FERMATA_WAIT_DUE;
		}
		self->interrupted = false;
		if (due_ms <= pool.now_ms) {
			return FERMATA_WAIT_DUE;
		}
	}
}

/* Much has been done in this turn: the core is asked for events before another fiber goes on. */
void fermata_fibers_end_turn(void)
{
	pool.budget = 0;
}

/* After a handler or task that has waited, or has used something that ends with it. */
void fermata_fiber_settle(void)
{
	fermata_fiber *self = fermata_run.fiber;
	uint64_t body_of = self->body_of;
	self->touched = self->is_cut = self->is_cut_told = false;
	self->held_ms = self->reprieve_ms = self->body_of = 0;
	while (UNEXPECTED(self->scope)) {
		/* Of a Fiber that is suspended inside the call. */
		self->scope->owner = NULL;
		self->scope = self->scope->outer;
	}
	fermata_sqlite_settle(self);
	FmSocket socket = 0;
	if (self->is_listed) {
		self->is_listed = false;
		if (self->previous) {
			self->previous->next = self->next;
		} else {
			pool.listed = self->next;
		}
		if (self->next) {
			self->next->previous = self->previous;
		}
		pool.listed_len--;
		if (self->client && !self->future) {
			socket = self->client->socket;
			fm_settle(fermata_run.worker, self->client->request);
		}
	}
	if (UNEXPECTED(body_of)) {
		fermata_stream_put_by(body_of);
	}
	self->talks_since = 0;
	fermata_mutexes_forgotten(self);
	if (UNEXPECTED(self->has_turn)) {
		fermata_turn_end(self);
	}
	if (UNEXPECTED(self->pins)) {
		fermata_pins_settle(self);
	}
	if (self->claims) {
		fermata_owners_settle(self);
	}
	self->has_failed = false;
	if (self->future) {
		fermata_guards_move_rows(self);
	}
	self->family = 0;
	if (UNEXPECTED(self->keeps_guards)) {
		fermata_guards_settle(self);
		/* What an authorizer of SQLite's has thrown. */
		fermata_clean_up();
	}
	if (self->deferred) {
		fermata_future *deferred = self->deferred;
		self->deferred = NULL;
		fermata_tasks_enqueue_all(deferred);
		/* The answer goes out first. */
		pool.budget = 0;
	}
	fermata_client_release(self->client);
	self->client = NULL;
	if (self->context_values) {
		zend_array *values = self->context_values;
		self->context_values = NULL;
		zend_array_release(values);
		/* What destructors have thrown must not meet the next handler. */
		fermata_clean_up();
	}
	if (socket) {
		fm_ws_resume(fermata_run.worker, socket);
	}
	if (self->close_reason) {
		zend_string *reason = self->close_reason;
		FmEvent event = {.kind = FM_EVENT_WS_CLOSE, .handler = self->close_handler, .socket = socket,
			.code = self->close_code, .body = fermata_str(reason)};
		self->close_reason = NULL;
		fermata_socket_close(&event);
		zend_string_release(reason);
	}
}

/* Where a fiber waits, as "FILE:LINE". */
size_t fermata_fiber_place(const fermata_fiber *fiber, char *text, size_t size)
{
	const zend_execute_data *frame = fiber->frame;
	while (frame && !(frame->func && ZEND_USER_CODE(frame->func->common.type))) {
		frame = frame->prev_execute_data;
	}
	if (!frame) {
		return fermata_copy(text, size, "PHP itself", FERMATA_LITERAL(""));
	}
	char line[24];
	snprintf(line, sizeof(line), ":%u", frame->opline->lineno);
	size_t len = fermata_copy(text, size - strlen(line), "", fermata_str(frame->func->op_array.filename));
	return len + fermata_copy(text + len, size - len, line, FERMATA_LITERAL(""));
}

/* Beginning and end */

/* Without a limit one handler would take the machine's memory. */
void fermata_limit_memory(size_t bytes_max)
{
	if (PG(memory_limit) != -1 || !bytes_max) {
		return;
	}
	zend_string *name = zend_string_init(ZEND_STRL("memory_limit"), false), *value = zend_ulong_to_str(bytes_max);
	zend_alter_ini_entry(name, value, PHP_INI_USER, PHP_INI_STAGE_RUNTIME);
	zend_string_release(name);
	zend_string_release(value);
}

static int count_many_descriptors(void)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / DESCRIPTORS_SHARE < INT_MAX
		? (int)(limit.rlim_cur / DESCRIPTORS_SHARE) : INT_MAX;
}

void fermata_fibers_start(zend_execute_data *frame)
{
	memset(&pool, 0, sizeof(pool));
	pool.descriptors_high = count_many_descriptors();
	memset(&first_fiber, 0, sizeof(first_fiber));
	fm_worker_fibers(fermata_run.worker, &pool.settings);
	fermata_turns_start(pool.settings.handlers_max);
	if (EXPECTED(!fermata_run.in_process)) {
		fermata_limit_memory(pool.settings.memory_bytes_max);
	} else {
		/* The test has the first one to itself. */
		pool.settings.max++;
	}
	pool.frame = frame;
	pool.len = 1;
	pool.wake_ms = FERMATA_NEVER;
	pool.budget = READY_MAX;
	first_fiber.state = FERMATA_FIBER_RUNNING;
	first_fiber.context = EG(main_fiber_context);
	fermata_run.fiber = &first_fiber;
	fermata_run.error_reporting = EG(error_reporting);
}

static ZEND_COLD void log_unwound(const fermata_fiber *fiber)
{
	char place[PLACE_BYTES_MAX], text[PLACE_BYTES_MAX + 128];
	FmStr where = {place, fermata_fiber_place(fiber, place, sizeof(place))};
	size_t len = fermata_copy(text, sizeof(text), fiber->future ? "a task still waits in " : "a handler still waits in ", where);
	len += fermata_copy(text + len, sizeof(text) - len, " when the worker stops, and was ended", FERMATA_LITERAL(""));
	fm_worker_log(fermata_run.worker, FERMATA_LOG_WARNING, (FmStr){text, len});
}

/* Ends what still waits: `finally` blocks and destructors run, and cannot wait any more. */
void fermata_fibers_unwind(void)
{
	pool.stopping = true;
	while (pool.listed && !fermata_run.retired) {
		fermata_fiber *fiber = pool.listed;
		if (!fiber->is_background) {
			log_unwound(fiber);
		}
		fermata_timer_disarm(&fiber->timer);
		pool.unwinder = fermata_run.fiber;
		fermata_run.waits = true;
		switch_to(fiber);
		pool.unwinder = NULL;
	}
	pool.ready_first = pool.ready_last = NULL;
	fermata_tasks_drop();
	fermata_timers_free();
	fermata_watches_free();
	fermata_conversations_free();
}

/* After a fatal error nothing goes on: clients whose handlers wait are answered, and their connections can end. */
void fermata_fibers_abandon(void)
{
	pool.stopping = true;
	for (fermata_fiber *fiber = pool.listed; fiber; fiber = fiber->next) {
		if (fiber != fermata_run.fiber && fiber->client && fiber->client->request && !fiber->future) {
			fermata_refuse(fiber->client->request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("Service Unavailable\n"));
		}
	}
	fermata_watches_free();
	fm_worker_busy(fermata_run.worker, false);
	fm_worker_full(fermata_run.worker, false);
	fm_worker_wake_at(fermata_run.worker, FERMATA_NEVER);
}

uint64_t fermata_fibers_shared_wait_ms(void)
{
	return pool.settings.shared_wait_ms;
}

uint64_t fermata_fibers_next_turn(void)
{
	return ++pool.last_turn;
}

uint64_t fermata_fiber_family(void)
{
	fermata_fiber *self = fermata_run.fiber;
	if (!self->family) {
		self->family = ++pool.last_family;
		self->touched = true;
	}
	return self->family;
}

fermata_fiber *fermata_fiber_of_family(uint64_t family)
{
	fermata_fiber *one = family ? pool.listed : NULL;
	while (one && (one->family != family || one->future)) {
		one = one->next;
	}
	return one;
}

uint32_t fermata_fibers_tasks_max(void)
{
	return pool.settings.tasks_max;
}

bool fermata_fibers_is_unwinding(void)
{
	return pool.stopping;
}

/* On the first fiber, when the loop has ended: the pool is let go. */
void fermata_fibers_end(void)
{
	while (pool.parked) {
		fermata_fiber *fiber = unpark();
		if (fiber != &first_fiber) {
			let_die(fiber);
		}
	}
}
