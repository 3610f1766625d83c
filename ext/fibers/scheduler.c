/* The fiber pool, and switching between fibers.
 *
 * The loop of worker/loop.c runs on every fiber of the pool, one at a time, and calls handlers directly. So a handler that does
 * not wait causes no switch. A handler that waits is suspended together with the loop that called it, and another fiber of the
 * pool continues with its own loop. When the handler can continue, the fiber that runs the loop returns to the pool and switches
 * to the handler's fiber. When the handler finishes, the loop that called it continues.
 *
 * The first fiber is PHP's own stack, on which run() was called; the fiber exists until run() returns. The other fibers are
 * contexts of PHP's Fiber implementation, so debuggers and profilers show each as a Fiber. Fiber::getCurrent() returns null on all
 * of them.
 *
 * Invariant: a handler or task starts only while another fiber is free, or may be created, to continue the loop. */
#include "fibers/task_queue.h"
#include "handler/parts.h"
#include "zend_exceptions.h"
#include "zend_ini.h"
#include <inttypes.h>
#include <sys/resource.h>

/* Maximum number of fibers and tasks that run in a row. Then the core sends output and polls for events. The core may end the turn
 * earlier because of its duration. */
#define READY_MAX 32
#define PLACE_BYTES_MAX 1024
#define LINE_BYTES_MAX 256
/* Number of ended waits after which the cycle collector runs, and its minimum interval in milliseconds after fewer ended waits. */
#define ENDED_MAX 64
#define COLLECT_EVERY_MS 1000
/* Divisor of the process's descriptor limit. When more descriptors are open, cyclic garbage may hold some of them. */
#define DESCRIPTORS_SHARE 2

static struct {
	fermata_fiber *parked;
	fermata_fiber *listed;                 /* fibers that have waited, and whose handler or task is unfinished */
	fermata_fiber *ready_first, *ready_last;
	fermata_fiber *unwinder;               /* fiber that unwinds all others; each of them switches back to it */
	fermata_fiber *dead;                   /* fiber that has finished for good, to be freed */
	zend_execute_data *frame;              /* frame of run() */
	void (*loop)(zend_execute_data *frame);
	void (*dispatch)(const FmEvent *event);
	void (*run_task)(void);
	uint32_t len, parked_len, listed_len, background_len;
	uint32_t budget;
	FmFibers settings;
	uint64_t last_turn;                    /* number of the last turn, given to a ready fiber or a task */
	uint64_t last_family;                  /* number of the last family, given to a handler that starts a task */
	uint64_t wake_ms;                      /* wake-up time reported to the core */
	uint64_t now_ms;                       /* time of the last check of timers */
	bool full, busy;                       /* last state reported to the core */
	uint32_t ended_len;                    /* waits ended since the last collection */
	uint64_t collected_ms;                 /* time of the last collection */
	int descriptors_high;                  /* descriptor number from which on too many descriptors are open */
	bool has_many_descriptors;             /* such a descriptor was opened since the last collection */
	uint32_t waiting, queued;              /* last counts reported to the core */
} pool;

static fermata_fiber first_fiber;
uint64_t fermata_uses;
static char kind; /* its address identifies contexts of the pool */

/* Switching */

/* Reports the resumed handler to the core, which counts processor time per handler. */
static void note_resumed(const fermata_fiber *to)
{
	const FmEvent *event = &to->running.request->event;
	bool is_request = event->kind == FM_EVENT_REQUEST || event->kind == FM_EVENT_STREAM;
	fm_note_handler(fermata.worker,
		to->future ? FM_HANDLER_TASK : is_request ? event->handler : event->handler | FM_HANDLER_WEBSOCKET);
}

/* Switches to another fiber. Returns when a fiber switches back to this one. */
static void switch_to(fermata_fiber *to)
{
	fermata_fiber *from = fermata_run.fiber;
	if (to->is_listed) {
		note_resumed(to);
	}
	zend_fiber_transfer transfer = {.context = to->context};
	from->context = EG(current_fiber_context);
	from->frame = EG(current_execute_data);
	from->running = (fermata_running){fermata_run.request, fermata_run.websocket, fermata_run.message, fermata_run.socket,
		fermata_run.stream, fermata.handling};
	FERMATA_EACH_PART(on_suspend, from)

	fermata_run.fiber = to;
	fermata_run.stream = 0;
	fermata.handling = false;
	to->state = FERMATA_FIBER_RUNNING;
	ZVAL_NULL(&transfer.value);
	zend_fiber_switch_context(&transfer);

	fermata_run.request = from->running.request;
	fermata_run.websocket = from->running.websocket;
	fermata_run.message = from->running.message;
	fermata_run.socket = from->running.socket;
	fermata_run.stream = from->running.stream;
	fermata.handling = from->running.handling;
	FERMATA_EACH_PART(on_resume, from)
	if (UNEXPECTED(pool.dead)) {
		pefree(pool.dead, true);
		pool.dead = NULL;
	}
}

/* The pool */

/* Switches to another fiber for the last time. */
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
	fermata_run.request = self->running.request;
	fermata_run.websocket = self->running.websocket;
	fermata_run.message = self->running.message;
	fermata_run.socket = 0;

	EG(bailout) = NULL;
	pool.loop(pool.frame);
	if (EG(exception)) {
		/* After exit() in a forked process, the process continues where run() was called. */
		zend_clear_exception();
	}

	if (!fermata_run.retired) {
		FERMATA_EACH_PART(on_release)
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

/* Returns NULL after an exception. */
static fermata_fiber *fiber_new(void)
{
	/* Allocate first, because an allocation beyond the memory limit may end this handler. */
	zend_vm_stack vm_stack = vm_stack_new();
	fermata_running objects = {0};
	FERMATA_EACH_PART(on_create, &objects)
	fermata_fiber *fiber = pecalloc(1, sizeof(fermata_fiber), true);
	if (UNEXPECTED(!fermata_fiber_init_context(&fiber->own, &kind, fiber_main, pool.settings.stack_bytes))) {
		pefree(fiber, true);
		efree(vm_stack);
		OBJ_RELEASE(&objects.request->std);
		OBJ_RELEASE(&objects.websocket->std);
		OBJ_RELEASE(&objects.message->std);
		zend_throw_exception(fermata_ce_backpressure,
			"the system has no room for another fiber; lower fibers_max or raise vm.max_map_count", 0);
		return NULL;
	}
	fiber->context = &fiber->own;
	fiber->vm_stack = vm_stack;
	/* A fiber structure has its objects while the fiber is not running. */
	fiber->running = objects;
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

/* Removes a fiber from the pool, but not the first fiber, on which the script continues. */
static fermata_fiber *unpark_spare(void)
{
	fermata_fiber *fiber = unpark();
	if (fiber == &first_fiber) {
		fiber = unpark();
		park(&first_fiber);
	}
	return fiber;
}

/* Resumes a fiber of the pool so that it finishes. */
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
	fiber->ready.next = NULL;
	fiber->ready.turn = ++pool.last_turn;
	if (pool.ready_last) {
		pool.ready_last->ready.next = fiber;
	} else {
		pool.ready_first = fiber;
	}
	pool.ready_last = fiber;
	fermata_run.waits = true;
}

static fermata_fiber *shift_ready(void)
{
	fermata_fiber *fiber = pool.ready_first;
	pool.ready_first = fiber->ready.next;
	if (!pool.ready_first) {
		pool.ready_last = NULL;
	}
	return fiber;
}

static zend_always_inline bool is_full(void)
{
	return pool.len - pool.parked_len >= pool.settings.max;
}

/* Returns true if a queued task may start. An urgent task may use one fiber above the limit; only one such task runs at a time. */
static bool may_begin_task(void)
{
	return fermata_queued.len && (!is_full() || (fermata_queued.first->is_urgent && pool.len - pool.parked_len == pool.settings.max));
}

/* Returns true if no other fiber could continue the loop while this one waits. */
bool fermata_fibers_are_full(void)
{
	return is_full();
}

/* Returns true if a ready fiber precedes the next queued task. Fibers and tasks have numbers of one sequence of turns. */
static bool is_fibers_turn(void)
{
	return pool.ready_first && (!may_begin_task() || pool.ready_first->ready.turn < fermata_queued.first->turn);
}

/* Returns true if another fiber or task may run before the core is polled for events. */
static bool may_go_on(void)
{
	if (pool.budget && !fm_may_resume(fermata.worker)) {
		pool.budget = 0;
	}
	return pool.budget;
}

/* Returns the fiber that continues while this one waits; NULL after an exception. */
static fermata_fiber *successor(void)
{
	if (is_fibers_turn() && may_go_on()) {
		pool.budget--;
		return shift_ready();
	}
	return pool.parked_len ? unpark() : fiber_new();
}

/* Work of the loop */

static void fire_timers(void)
{
	fermata_timer *timer;
	pool.now_ms = fm_worker_now_ms(fermata.worker);
	while ((timer = fermata_timer_first()) && timer->due_ms <= pool.now_ms) {
		fermata_timer_disarm(timer);
		if (timer->on_due) {
			timer->on_due(timer, pool.now_ms);
			continue;
		}
		fermata_fiber *fiber = (fermata_fiber *)((char *)timer - XtOffsetOf(fermata_fiber, wait.timer));
		fiber->wait.interrupted = true;
		push_ready(fiber);
	}
}

void fermata_fibers_woken(void)
{
	pool.wake_ms = FERMATA_NEVER;
	/* Have the loop report the time of the next timer to the core. */
	fermata_run.waits = true;
	FERMATA_EACH_PART(on_wake)
	fire_timers();
}

/* Collects cycles. Objects of code that an exception ended are often parts of a cycle, and hold descriptors until PHP collects
 * it. */
static ZEND_COLD void collect_ended(void)
{
	pool.ended_len = 0;
	pool.has_many_descriptors = false;
	pool.collected_ms = fm_worker_now_ms(fermata.worker);
	fermata_run.collects = fermata_run.cleans = true;
	gc_collect_cycles();
	fermata_run.collects = fermata_run.cleans = false;
	fermata_clean_up();
}

/* Called with the number of a new descriptor. A high number means that objects in reference cycles may hold many descriptors. PHP
 * collects cycles only after it has created many objects, so the process could reach its limit of descriptors before. */
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
		|| ((!pool.ready_first || pool.has_many_descriptors) && fm_worker_now_ms(fermata.worker) >= pool.collected_ms + COLLECT_EVERY_MS);
}

/* Reports the state that the core needs before it may sleep. */
static void before_events(void)
{
	if (UNEXPECTED(pool.ended_len || pool.has_many_descriptors) && has_to_collect()) {
		collect_ended();
	}
	bool full = is_full(), busy = pool.listed_len > pool.background_len || fermata_queued.len;
	bool is_ready = pool.ready_first || may_begin_task();
	fermata_timer *timer = fermata_timer_first();
	uint64_t wake_ms = is_ready ? 0 : timer ? timer->due_ms : FERMATA_NEVER;
	if (wake_ms != pool.wake_ms) {
		pool.wake_ms = wake_ms;
		fm_worker_wake_at(fermata.worker, wake_ms);
	}
	uint32_t queued = fermata_queued.len + fermata_queued.held;
	if (pool.listed_len != pool.waiting || queued != pool.queued) {
		pool.waiting = pool.listed_len;
		pool.queued = queued;
		fm_worker_waiting(fermata.worker, pool.waiting, queued);
	}
	if (full != pool.full) {
		pool.full = full;
		fm_worker_full(fermata.worker, full);
	}
	if (busy != pool.busy) {
		pool.busy = busy;
		fm_worker_busy(fermata.worker, busy);
	}
	pool.budget = READY_MAX;
	/* A timer alone does not require these steps at every event, since the core wakes the loop for it. */
	fermata_run.waits = is_ready || busy || full || pool.ended_len || pool.has_many_descriptors || fermata_run.in_process;
}

/* Step of the loop in the process of a test: if there is no work, control returns to the test. */
static ZEND_COLD bool step_in_process(fermata_fiber *self)
{
	FmEvent *event = &fermata_run.request->event;
	if (!fermata_run.retired && fm_in_process_next(fermata.worker, fermata_run.in_process_wait_ms, event)) {
		pool.dispatch(event);
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

/* Runs pending work before the core is polled for events. Returns true if there was any. */
bool fermata_fibers_poll(void)
{
	fermata_fiber *self = fermata_run.fiber, *to;
	if (UNEXPECTED(fermata_run.fatal_seen)) {
		fermata_leave_by_fatal();
	}
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
		pool.run_task();
		return true;
	}
	while (UNEXPECTED(pool.parked_len > pool.settings.idle_max)) {
		let_die(unpark_spare());
	}
	before_events();
	return UNEXPECTED(fermata_run.in_process) && step_in_process(self);
}

/* Ending waits */

typedef enum end_cause {
	CAUSE_NONE,
	CAUSE_TIMEOUT,
	CAUSE_CANCELLATION,
	CAUSE_TASK,
	CAUSE_CLIENT,
	CAUSE_SHIELD,
} end_cause;

/* Returns true if the scope surrounds the fiber's current code. A scope inside a PHP Fiber does not if that PHP Fiber is suspended
 * or was resumed by another handler. */
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

/* Returns true if a handler has waited inside shield() for too long after its client left. Otherwise limits `*due_ms` to the time
 * at which it will have waited too long. */
static bool shield_ends(const fermata_fiber *fiber, uint64_t *due_ms)
{
	if (EXPECTED(!fiber->client || !fiber->client->gone || fiber->future)) {
		return false;
	}
	uint64_t end_ms = fiber->client->gone_ms + pool.settings.abandoned_wait_ms_max;
	*due_ms = MIN(*due_ms, end_ms);
	return end_ms <= pool.now_ms;
}

/* Returns the reason why a wait of this fiber has to end now. Sets `*due_ms` to the time at which the wait has to end later. Sets
 * `*begun_at` to the start of the call that ends. */
static end_cause cause_of(const fermata_fiber *fiber, uint64_t *due_ms, uint64_t *begun_at)
{
	*due_ms = FERMATA_NEVER;
	*begun_at = 0;
	bool is_shielded = false, is_own = false;
	for (const fermata_scope *scope = fiber->scope; scope && !is_shielded; scope = scope->outer) {
		if (UNEXPECTED(!is_around(scope, fiber))) {
			continue;
		}
		if (scope->is_shield) {
			/* A shield() blocks outer scopes only. A timeout() inside it ends its own waits. */
			is_shielded = true;
			is_own = scope->is_own;
			continue;
		}
		if (scope->is_cancelled) {
			if (*scope->is_cancelled) {
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
		return !is_own && shield_ends(fiber, due_ms) ? CAUSE_SHIELD : CAUSE_NONE;
	}
	if (fiber->future && fiber->future->is_cancelled) {
		return CAUSE_TASK;
	}
	return fiber->client && fiber->client->gone ? CAUSE_CLIENT : CAUSE_NONE;
}

/* Returns true if the fiber is inside shield(), so no outer scope and no client can end its wait. */
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

/* Logs once per handler: libraries may catch the exception and wait again. */
static ZEND_COLD void log_end_of_shield(fermata_client *client)
{
	char line[LINE_BYTES_MAX];
	FmDetail detail;
	if (client->is_cut_logged) {
		return;
	}
	client->is_cut_logged = true;
	fermata_detail(&detail);
	detail.file = fermata_str_or_empty(zend_get_executed_filename_ex());
	detail.line = zend_get_executed_lineno();
	int len = snprintf(line, sizeof(line), "the client of a handler left %" PRIu64 " ms ago, and the handler still waited behind"
		" shield(): its wait was ended (abandoned_wait_ms_max)", pool.settings.abandoned_wait_ms_max);
	fm_worker_log_at(fermata.worker, FERMATA_LOG_WARNING, true, (FmStr){line, MIN((size_t)len, sizeof(line) - 1)}, &detail);
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
		case CAUSE_SHIELD:
			log_end_of_shield(fermata_run.fiber->client);
			zend_throw_exception(fermata_ce_timeout, "the client has left, and a wait behind shield() has lasted for"
				" abandoned_wait_ms_max since", 0);
			break;
		case CAUSE_NONE: break;
	}
}

/* Wakes the fiber if its wait has to end. */
void fermata_interrupt(fermata_fiber *fiber)
{
	if (fiber->state == FERMATA_FIBER_WAITING && fermata_fiber_is_ended(fiber)) {
		fermata_timer_disarm(&fiber->wait.timer);
		fiber->wait.interrupted = true;
		push_ready(fiber);
	}
}

void fermata_interrupt_all(void)
{
	for (fermata_fiber *fiber = pool.listed; fiber; fiber = fiber->next) {
		fermata_interrupt(fiber);
	}
}

/* Wakes the fiber because the event it waits for has occurred. */
void fermata_wake(fermata_fiber *fiber)
{
	if (fiber->state == FERMATA_FIBER_WAITING) {
		fermata_timer_disarm(&fiber->wait.timer);
		push_ready(fiber);
	} else if (fiber->state == FERMATA_FIBER_READY) {
		/* The fiber was about to be interrupted. The event must not be lost, so this wait succeeds, and the next wait is
		 * interrupted. */
		fiber->wait.interrupted = false;
	}
}

void fermata_client_left(fermata_fiber *fiber)
{
	fermata_client *client = fiber->client;
	uint64_t due_ms, begun_at;
	if (client && !client->gone) {
		client->gone = true;
		client->gone_ms = fm_worker_now_ms(fermata.worker);
	}
	fermata_interrupt(fiber);
	if (UNEXPECTED(fiber->state == FERMATA_FIBER_WAITING && cause_of(fiber, &due_ms, &begun_at) == CAUSE_NONE
			&& due_ms != FERMATA_NEVER && (!fiber->wait.timer.at || due_ms < fiber->wait.timer.due_ms))) {
		fermata_timer_disarm(&fiber->wait.timer);
		fermata_timer_arm(&fiber->wait.timer, due_ms);
	}
}

/* Handles a client's disconnect. */
void fermata_fibers_gone(const FmEvent *event)
{
	for (fermata_fiber *fiber = pool.listed; fiber; fiber = fiber->next) {
		fermata_client *client = fiber->client;
		if (client && (event->socket ? client->socket == event->socket : client->request == event->request)) {
			fermata_client_left(fiber);
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

/* Starting a wait */

const char *fermata_hold_obstacle(void)
{
	if (UNEXPECTED(!fermata.handling || fermata.forked)) {
		return "here: only handlers and tasks of a running server can";
	}
	if (UNEXPECTED(fermata_run.is_stopping)) {
		return "any more: the worker stops";
	}
	if (UNEXPECTED(fermata_run.cleans)) {
		return "any more: its handler has ended, and what that has left is released";
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
	for (uint32_t i = 0; i < fermata_parts.obstacle.len; i++) {
		const char *obstacle = fermata_parts.obstacle.at[i](fermata_run.fiber);
		if (UNEXPECTED(obstacle)) {
			return obstacle;
		}
	}
	return NULL;
}

const zend_execute_data *fermata_fibers_frame(void)
{
	return pool.frame;
}

/* Returns the client of this fiber's handler or task; created on first use. */
fermata_client *fermata_fiber_client(fermata_fiber *fiber)
{
	if (!fiber->client && !fiber->future) {
		fermata_client *client = emalloc(sizeof(fermata_client));
		*client = (fermata_client){.references = 1};
		if (EXPECTED(!fiber->wait.without_client)) {
			client->socket = fermata_run.socket;
			client->request = fermata_run.socket ? 0 : fermata_run.request->event.request;
		}
		fiber->client = client;
		fiber->touched |= FERMATA_TOUCHED;
	}
	return fiber->client;
}

void fermata_client_release(fermata_client *client)
{
	if (client && !--client->references) {
		efree(client);
	}
}

/* Called before the first wait of a handler: makes it independent of the core's buffers. */
static void put_aside(fermata_fiber *fiber)
{
	fiber->is_listed = true;
	fiber->touched |= FERMATA_TOUCHED;
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
	FERMATA_EACH_PART(on_first_wait)
	if (fermata_run.stream) {
		/* The request already has its response, and its object is used for other events. */
		fm_stream_defer(fermata.worker, fermata_run.stream);
		return;
	}
	if (!fermata_run.socket) {
		fm_defer(fermata.worker, client->request);
		return;
	}
	if (client->socket) {
		fm_ws_defer(fermata.worker, client->socket);
	}
}

/* Ends a wait because the worker stops. */
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

/* Called before and after a wait that does not delay the stop of the worker. */
void fermata_background(bool begins)
{
	fermata_fiber *fiber = fermata_run.fiber;
	if (fiber->wait.is_background != begins) {
		fiber->wait.is_background = begins;
		pool.background_len += begins ? 1 : -1;
	}
}

static bool outlives_client(const fermata_fiber *fiber)
{
	for (uint32_t i = 0; i < fermata_parts.outlives_client.len; i++) {
		if (fermata_parts.outlives_client.at[i](fiber)) {
			return true;
		}
	}
	return false;
}

/* Returns true while the end of a running query is postponed. Its reply will arrive, and closing the connection would cost more.
 * The query occupies its fiber, so clients that disconnect cannot cause more than fibers_max queries. */
static ZEND_COLD bool may_outlive_client(fermata_fiber *fiber, uint64_t *due_ms)
{
	if (!pool.settings.abandoned_query_ms_max || !outlives_client(fiber)) {
		return false;
	}
	uint64_t now_ms = fm_worker_now_ms(fermata.worker);
	if (!fiber->wait.abandoned_until_ms) {
		fiber->wait.abandoned_until_ms = now_ms + pool.settings.abandoned_query_ms_max;
	}
	*due_ms = MIN(*due_ms, fiber->wait.abandoned_until_ms);
	return now_ms < fiber->wait.abandoned_until_ms;
}

/* Called after an exception ended a wait of this fiber. Uses of connections since `since` count as incomplete. */
static void cut_short(uint64_t since)
{
	FERMATA_EACH_PART(on_cut, fermata_run.fiber, since)
}

void fermata_fiber_end_abandoned(void)
{
	uint64_t due_ms, begun_at;
	if (EXPECTED(!fermata_run.fiber->wait.abandoned_until_ms) || EG(exception)) {
		return;
	}
	end_cause cause = cause_of(fermata_run.fiber, &due_ms, &begun_at);
	if (cause != CAUSE_NONE) {
		throw_cause(cause);
		cut_short(begun_at);
	}
}

bool fermata_check_ended(uint64_t *due_ms)
{
	uint64_t begun_at;
	pool.now_ms = fm_worker_now_ms(fermata.worker);
	end_cause cause = cause_of(fermata_run.fiber, due_ms, &begun_at);
	if (cause == CAUSE_NONE) {
		return true;
	}
	throw_cause(cause);
	cut_short(begun_at);
	return false;
}

/* Suspends until fermata_wake(), until `due_ms`, or until a wait of this fiber has to end. If `due_ms` is 0, only lets other
 * fibers run. */
fermata_wait_result fermata_wait(uint64_t due_ms)
{
	fermata_fiber *self = fermata_run.fiber, *to;
	uint64_t scope_due_ms, begun_at;
	end_cause cause;
	FERMATA_EACH_PART(on_wait, self)
	for (;;) {
		if (UNEXPECTED(self->scope)) {
			pool.now_ms = fm_worker_now_ms(fermata.worker);
		}
		if (UNEXPECTED((cause = cause_of(self, &scope_due_ms, &begun_at)) != CAUSE_NONE)
				&& !(cause == CAUSE_CLIENT && may_outlive_client(self, &scope_due_ms))) {
			throw_cause(cause);
			cut_short(begun_at);
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
				fermata_timer_arm(&self->wait.timer, scope_due_ms);
			}
		} else {
			push_ready(self);
		}
		switch_to(to);
		if (UNEXPECTED(pool.unwinder || fermata_run.stopped)) {
			return end_wait();
		}
		if (!self->wait.interrupted) {
			return due_ms ? FERMATA_WAIT_WOKEN : FERMATA_WAIT_DUE;
		}
		self->wait.interrupted = false;
		if (due_ms <= pool.now_ms) {
			return FERMATA_WAIT_DUE;
		}
	}
}

/* Ends the turn after much work, so that the core is polled for events before another fiber runs. */
void fermata_fibers_end_turn(void)
{
	pool.budget = 0;
}

static void unlist(fermata_fiber *fiber)
{
	fiber->is_listed = false;
	if (fiber->previous) {
		fiber->previous->next = fiber->next;
	} else {
		pool.listed = fiber->next;
	}
	if (fiber->next) {
		fiber->next->previous = fiber->previous;
	}
	pool.listed_len--;
}

/* Called after a handler or task that has waited, or whose state a part has to release. */
void fermata_fiber_clean_up(void)
{
	fermata_fiber *self = fermata_run.fiber;
	FmSocket socket = 0;
	/* The values that are released here may be the last references to objects of PHP code, whose destructors then run. */
	fermata_run.cleans = true;
	self->touched &= ~FERMATA_TOUCHED;
	self->wait.abandoned_until_ms = 0;
	while (UNEXPECTED(self->scope)) {
		/* The call may be inside a suspended PHP Fiber. */
		self->scope->owner = NULL;
		self->scope = self->scope->outer;
	}
	if (self->is_listed) {
		unlist(self);
		if (self->client && !self->future) {
			socket = self->client->socket;
			fm_settle(fermata.worker, self->client->request);
		}
	}
	/* Parts are cleaned up in order. If a part touches a later one, that is cleaned up in this pass; an earlier one, after the
	 * next handler. */
	for (uint32_t left = ~FERMATA_TOUCHED, pending; (pending = self->touched & left);) {
		uint32_t bit = pending & -pending;
		left = ~(bit | (bit - 1));
		self->touched &= ~bit;
		fermata_parts.on_clean_up.at[__builtin_ctz(bit) - 1](self);
	}
	self->has_failed = false;
	self->family = 0;
	fermata_client_release(self->client);
	self->client = NULL;
	fermata_run.cleans = false;
	/* State and exceptions of destructors, or of an SQLite authorizer, must not affect the next handler. */
	fermata_clean_up();
	if (socket) {
		fm_ws_resume(fermata.worker, socket);
	}
	FERMATA_EACH_PART(on_cleaned_up, self)
}

/* Writes the file and line where a fiber waits, as "FILE:LINE". */
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

/* Start and end */

/* Sets a memory limit: without one, a single handler could use up the machine's memory. */
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

void fermata_fibers_start(zend_execute_data *frame, void (*loop)(zend_execute_data *frame), void (*dispatch)(const FmEvent *event),
	void (*run_task)(void))
{
	memset(&pool, 0, sizeof(pool));
	pool.descriptors_high = count_many_descriptors();
	memset(&first_fiber, 0, sizeof(first_fiber));
	fm_worker_fibers(fermata.worker, &pool.settings);
	FERMATA_EACH_PART(on_start)
	if (EXPECTED(!fermata_run.in_process)) {
		fermata_limit_memory(pool.settings.memory_bytes_max);
	} else {
		/* The test occupies the first fiber, so allow one more. */
		pool.settings.max++;
	}
	pool.frame = frame;
	pool.loop = loop;
	pool.dispatch = dispatch;
	pool.run_task = run_task;
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
	fm_worker_log(fermata.worker, FERMATA_LOG_WARNING, (FmStr){text, len});
}

/* Ends all waiting handlers at shutdown. Their `finally` blocks and destructors run, but cannot wait. */
void fermata_fibers_unwind(void)
{
	fermata_run.is_stopping = true;
	while (pool.listed && !fermata_run.retired) {
		fermata_fiber *fiber = pool.listed;
		if (!fiber->wait.is_background) {
			log_unwound(fiber);
		}
		fermata_timer_disarm(&fiber->wait.timer);
		pool.unwinder = fermata_run.fiber;
		fermata_run.waits = true;
		switch_to(fiber);
		pool.unwinder = NULL;
	}
	pool.ready_first = pool.ready_last = NULL;
}

void fermata_fibers_stop(void)
{
	fermata_timers_free();
	FERMATA_EACH_PART(on_stop)
}

/* Called after a fatal error, after which no handler continues. Clients of waiting handlers get an error response, so their
 * connections can be closed. */
static void on_retire(void)
{
	fermata_run.is_stopping = true;
	for (fermata_fiber *fiber = pool.listed; fiber; fiber = fiber->next) {
		if (fiber != fermata_run.fiber && fiber->client && fiber->client->request && !fiber->future) {
			fermata_refuse(fiber->client->request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("Service Unavailable\n"));
		}
	}
	fm_worker_busy(fermata.worker, false);
	fm_worker_full(fermata.worker, false);
	fm_worker_wake_at(fermata.worker, FERMATA_NEVER);
}

const FmFibers *fermata_fibers_settings(void)
{
	return &pool.settings;
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
		self->touched |= FERMATA_TOUCHED;
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

/* Returns true if a task of the family is waiting. */
bool fermata_family_has_tasks(uint64_t family)
{
	const fermata_fiber *one = family ? pool.listed : NULL;
	while (one && (one->family != family || !one->future)) {
		one = one->next;
	}
	return one;
}

uint32_t fermata_fibers_free(uint32_t tasks)
{
	uint32_t taken = pool.len - pool.parked_len + tasks;
	return taken < pool.settings.max ? pool.settings.max - taken : 0;
}

bool fermata_fibers_is_unwinding(void)
{
	return fermata_run.is_stopping;
}

/* Frees the pool. Called on the first fiber when the loop has ended. */
void fermata_fibers_end(void)
{
	while (pool.parked) {
		fermata_fiber *fiber = unpark();
		if (fiber != &first_fiber) {
			let_die(fiber);
		}
	}
}

void fermata_make_objects(void)
{
	fermata_running objects = {0};
	FERMATA_EACH_PART(on_create, &objects)
	fermata_run.request = objects.request;
	fermata_run.websocket = objects.websocket;
	fermata_run.message = objects.message;
}

static fermata_part part = {.on_retire = on_retire};

void fermata_fibers_init(void)
{
	fermata_part_register(&part);
}
