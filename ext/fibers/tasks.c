/* Tasks: async(), await(), all(), race() and Fermata\Future.
 *
 * A task is queued until a fiber that runs the loop has capacity for it. The task then runs on that fiber like a handler: it
 * causes no switch unless it waits.
 *
 * The tasks of one request share a limit: at most half of the free fibers may have its tasks, queued or running. So a request with
 * many tasks cannot occupy all fibers. Further tasks are held back, in order, until one of the admitted tasks finishes. A task
 * does not count while it awaits others; otherwise the tasks that it awaits could be held back forever. If all admitted tasks wait
 * for a queue, a mutex or a semaphore, the next task is admitted, since it may wake them. */
#include "fibers/task_queue.h"
#include "handler/parts.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include "base/optimize_size.h"

#define PLACE_BYTES_MAX 1024
/* Longest wait chain that deadlock detection follows. */
#define CHAIN_MAX 1000

/* Tasks of one request that count towards its limit. */
typedef struct share {
	uint32_t admitted; /* queued or running */
	uint32_t blocked;  /* admitted tasks that wait for another task or handler */
	uint32_t len;      /* all tasks, including those held back */
	fermata_future *first, *last; /* tasks that are held back; linked like the queue */
} share;

static HashTable shares; /* by number, while tasks exist; allocated outside of PHP's request memory */
static bool has_shares;

typedef struct tasks {
	const fermata_future *awaits;
	fermata_future *deferred; /* tasks that start after the handler finishes, last first */
} tasks;

static fermata_part part;
FERMATA_SLOT(tasks, part)

static zend_object_handlers future_handlers;

#define THIS_FUTURE() FERMATA_FROM(fermata_future, Z_OBJ_P(ZEND_THIS))

/* Object lifecycle */

static zend_object *future_create(zend_class_entry *ce)
{
	fermata_future *future = zend_object_alloc(sizeof(fermata_future), ce);
	memset(future, 0, XtOffsetOf(fermata_future, std));
	zend_object_std_init(&future->std, ce);
	future->std.handlers = &future_handlers;
	return &future->std;
}

/* Logs the exception of a task whose result no code has requested. */
static ZEND_COLD void log_failure(const fermata_future *future)
{
	zend_object *exception = future->exception;
	if (!fermata.worker || fermata_run.retired || fermata_exception_comes_of(exception, fermata_ce_cancelled)) {
		return;
	}
	smart_str text = fermata_exception_text(exception, true), line = {0};
	smart_str_appends(&line, "a task failed and nobody awaited it: ");
	smart_str_append(&line, text.s);
	fm_worker_log(fermata.worker, FERMATA_LOG_ERROR, fermata_str(line.s));
	smart_str_free(&text);
	smart_str_free(&line);
}

static void future_free(zend_object *object)
{
	fermata_future *future = FERMATA_FROM(fermata_future, object);
	zval_ptr_dtor(&future->work.closure);
	zval_ptr_dtor(&future->result);
	if (future->exception) {
		if (!future->is_seen) {
			log_failure(future);
		}
		OBJ_RELEASE(future->exception);
	}
	fermata_client_release(future->client);
	if (future->context_values) {
		zend_array_release(future->context_values);
	}
	zend_object_std_dtor(object);
}

static HashTable *future_get_gc(zend_object *object, zval **table, int *len)
{
	fermata_future *future = FERMATA_FROM(fermata_future, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	zend_get_gc_buffer_add_zval(buffer, &future->work.closure);
	zend_get_gc_buffer_add_zval(buffer, &future->result);
	if (future->exception) {
		zend_get_gc_buffer_add_obj(buffer, future->exception);
	}
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

void fermata_tasks_init(void)
{
	fermata_ce_future->create_object = future_create;
	memcpy(&future_handlers, zend_get_std_object_handlers(), sizeof(future_handlers));
	future_handlers.offset = XtOffsetOf(fermata_future, std);
	future_handlers.free_obj = future_free;
	future_handlers.get_gc = future_get_gc;
	future_handlers.clone_obj = NULL;
	future_handlers.compare = zend_objects_not_comparable;
}

static zend_always_inline bool has_ended(const fermata_future *future)
{
	return future->state >= FERMATA_FUTURE_DONE;
}

bool fermata_future_has_ended(const fermata_future *future)
{
	return has_ended(future);
}

void fermata_future_release(fermata_future *future)
{
	if (future) {
		OBJ_RELEASE(&future->std);
	}
}

/* The queue */

/* Takes ownership of the reference. */
static void enqueue(fermata_future *future)
{
	if (EXPECTED(!future->is_urgent)) {
		future->turn = fermata_fibers_next_turn();
	}
	fermata_task_queue_add(future);
}

static void share_free(zval *found)
{
	pefree(Z_PTR_P(found), true);
}

/* Returns NULL if there is no share with this number, or if the worker is stopping. */
static zend_always_inline share *share_find(uint64_t number)
{
	return number && has_shares ? zend_hash_index_find_ptr(&shares, number) : NULL;
}

static void share_join(fermata_future *future, uint64_t number)
{
	if (UNEXPECTED(!has_shares)) {
		zend_hash_init(&shares, 0, NULL, share_free, true);
		has_shares = true;
	}
	share *it = share_find(number);
	if (!it) {
		it = pecalloc(1, sizeof(share), true);
		zend_hash_index_add_new_ptr(&shares, number, it);
	}
	it->len++;
	future->share = number;
}

/* Returns true if the next task may be admitted: below the limit, or if all admitted tasks are blocked, since no task would
 * progress then. */
static bool share_has_room(const share *it)
{
	return it->admitted <= it->blocked || it->admitted < fermata_fibers_free(fermata_queued.len);
}

/* Queues a task or holds it back. Takes ownership of the reference. */
static void enqueue_shared(fermata_future *future)
{
	share *it = share_find(future->share);
	if (EXPECTED(!it || share_has_room(it))) {
		if (it) {
			it->admitted++;
		}
		enqueue(future);
		return;
	}
	future->next = NULL;
	if (it->last) {
		it->last->next = future;
	} else {
		it->first = future;
	}
	it->last = future;
	fermata_queued.held++;
}

/* Admits tasks that are held back, up to the limit. */
static void admit_held(share *it)
{
	while (it->first && share_has_room(it)) {
		fermata_future *future = it->first;
		it->first = future->next;
		if (!it->first) {
			it->last = NULL;
		}
		fermata_queued.held--;
		it->admitted++;
		enqueue(future);
	}
}

/* Removes a finished task from its share. */
static void share_leave(const fermata_future *future)
{
	share *it = share_find(future->share);
	if (it) {
		it->admitted--;
		it->len--;
		admit_held(it);
		if (!it->len) {
			zend_hash_index_del(&shares, future->share);
		}
	}
}

/* Called before the current task awaits others: the task does not count towards the limit until share_step_back(). */
static void share_step_aside(void)
{
	const fermata_future *future = fermata_run.fiber->future;
	share *it = future ? share_find(future->share) : NULL;
	if (it) {
		it->admitted--;
		admit_held(it);
	}
}

/* Counts the current task again. */
static void share_step_back(void)
{
	const fermata_future *future = fermata_run.fiber->future;
	share *it = future ? share_find(future->share) : NULL;
	if (it) {
		it->admitted++;
	}
}

/* Like fermata_wait() without a time limit, for a wait that another task or handler will end. */
fermata_wait_result fermata_wait_for_others(void)
{
	const fermata_future *future = fermata_run.fiber->future;
	uint64_t number = future ? future->share : 0;
	share *it = share_find(number);
	if (it) {
		it->blocked++;
		admit_held(it);
	}
	fermata_wait_result result = fermata_wait(FERMATA_NEVER);
	it = share_find(number);
	if (it) {
		it->blocked--;
	}
	return result;
}

/* Returns NULL after an exception. */
static fermata_future *future_new(zval *callable)
{
	uint32_t waiting = fermata_queued.len + fermata_queued.held + fermata_queued.deferred;
	if (UNEXPECTED(waiting >= fermata_fibers_settings()->tasks_max)) {
		zend_throw_exception_ex(fermata_ce_backpressure, 0,
			"%u tasks (tasks_queue_max) wait to begin; await some before you begin more", waiting);
		return NULL;
	}
	uint64_t number = fermata.handling ? fermata_fiber_family() : 0;
	const share *own = share_find(number);
	if (UNEXPECTED(own && own->len >= fermata_fibers_settings()->tasks_per_request_max)) {
		zend_throw_exception_ex(fermata_ce_backpressure, 0,
			"this request has %u tasks (tasks_per_request_max); await some before you begin more", own->len);
		return NULL;
	}
	fermata_future *future = FERMATA_FROM(fermata_future, future_create(fermata_ce_future));
	if (UNEXPECTED(!fermata_handler_init(&future->work, callable))) {
		ZVAL_UNDEF(&future->work.closure);
		OBJ_RELEASE(&future->std);
		if (!EG(exception)) {
			fermata_misuse("the work of a task cannot be called");
		}
		return NULL;
	}
	if (UNEXPECTED(!fermata_handler_takes(&future->work, "a task", NULL, 0))) {
		OBJ_RELEASE(&future->std);
		return NULL;
	}
	if (number) {
		share_join(future, number);
	}
	return future;
}

/* Adds a task. Returns NULL after an exception. A task that a handler starts (FM_TASK_ASYNC) works for the handler's client. */
fermata_future *fermata_task_begin(zval *callable, uint8_t kind)
{
	fermata_fiber *fiber = fermata_run.fiber;
	fermata_future *future = future_new(callable);
	if (!future) {
		return NULL;
	}
	future->kind = kind;
	future->is_detached = kind != FM_TASK_ASYNC;
	if (!future->is_detached && fermata.handling) {
		future->family = fermata_fiber_family();
		/* A task that is started inside shield() finishes even if the client disconnects, like other code there. */
		if (!fermata_fiber_is_shielded(fiber) && (future->client = fermata_fiber_client(fiber))) {
			future->client->references++;
		}
		if ((future->context_values = fermata_context_values())) {
			GC_ADDREF(future->context_values);
		}
	}
	GC_ADDREF(&future->std);
	enqueue_shared(future);
	return future;
}

/* Starts a task without a client after the current handler or task has finished and its response is sent. An urgent task runs
 * before all others, even if all fibers are occupied: their handlers may be waiting for it. */
void fermata_task_defer(zval *callable, bool is_urgent)
{
	fermata_fiber *fiber = fermata_run.fiber;
	fermata_future *future = future_new(callable);
	if (!future) {
		return;
	}
	if ((future->context_values = fermata_context_values())) {
		GC_ADDREF(future->context_values);
	}
	future->kind = FM_TASK_DEFERRED;
	future->is_urgent = is_urgent;
	future->next = slot(fiber)->deferred;
	slot(fiber)->deferred = future;
	fermata_queued.deferred++;
	fermata_touch(fiber, part);
}

/* Queues all tasks of a list in which the last task is first. Takes ownership of the references. */
static void enqueue_all(fermata_future *last)
{
	fermata_future *first = NULL;
	while (last) {
		fermata_future *next = last->next;
		last->next = first;
		first = last;
		last = next;
	}
	while (first) {
		fermata_future *next = first->next;
		fermata_queued.deferred--;
		enqueue_shared(first);
		first = next;
	}
}

/* Task results */

static void wake_waiters(fermata_future *future)
{
	fermata_waiter *waiter;
	while ((waiter = future->waiters.first)) {
		fermata_waiters_remove(waiter);
		if (!waiter->left || !--*waiter->left || future->state == FERMATA_FUTURE_FAILED) {
			fermata_wake(waiter->fiber);
		}
	}
}

static void release_work(fermata_future *future)
{
	zval closure;
	ZVAL_COPY_VALUE(&closure, &future->work.closure);
	ZVAL_UNDEF(&future->work.closure);
	zval_ptr_dtor(&closure);
}

static void complete(fermata_future *future, fermata_future_state state)
{
	future->state = state;
	future->fiber = NULL;
	wake_waiters(future);
	release_work(future);
}

/* Creates an exception without throwing it. */
static ZEND_COLD zend_object *exception_new(zend_class_entry *ce, const char *message)
{
	zval exception;
	object_init_ex(&exception, ce);
	zend_update_property_string(instanceof_function(ce, zend_ce_exception) ? zend_ce_exception : zend_ce_error, Z_OBJ(exception),
		ZEND_STRL("message"), message);
	return Z_OBJ(exception);
}

static ZEND_COLD void take_exception(fermata_future *future)
{
	zend_object *exception = EG(exception);
	if (!zend_is_unwind_exit(exception) && !zend_is_graceful_exit(exception)) {
		GC_ADDREF(exception);
		future->exception = exception;
		zend_clear_exception();
		return;
	}
	bool is_fatal = fermata_run.fatal_seen;
	zend_clear_exception();
	if (is_fatal) {
		zend_bailout();
	}
	if (fermata_fibers_is_unwinding()) {
		future->exception = exception_new(fermata_ce_cancelled, "the worker stops");
	} else {
		EG(exit_status) = 0;
		future->exception = exception_new(fermata_ce_misuse, "exit() called in a task; return to end it");
	}
}

/* Releases a future between two handlers. Destructors may run. */
void fermata_future_drop(fermata_future *future)
{
	fermata_run.cleans = true;
	fermata_future_release(future);
	fermata_run.cleans = false;
	fermata_clean_up();
}

/* Runs the next task on the current fiber. */
void fermata_tasks_run_next(void)
{
	fermata_fiber *fiber = fermata_run.fiber;
	fermata_future *future = fermata_task_queue_take();
	if (has_ended(future)) {
		share_leave(future);
		fermata_future_drop(future);
		return;
	}
	future->state = FERMATA_FUTURE_RUNNING;
	future->fiber = fiber;
	fiber->future = future;
	fiber->client = future->client;
	fermata_context_give(fiber, future->context_values);
	fiber->family = future->family;
	fiber->touched |= FERMATA_TOUCHED;
	future->client = NULL;
	future->context_values = NULL;
	fermata_run.socket = 0;
	fm_note_handler(fermata.worker, FM_HANDLER_TASK);

	zval result;
	if (UNEXPECTED(!fermata_call(&future->work, NULL, 0, &result))) {
		return;
	}
	if (UNEXPECTED(EG(exception))) {
		zval_ptr_dtor(&result);
		take_exception(future);
		if (future->is_detached) {
			/* every() keeps the future until its next run, which may be a day later, so log the failure now. */
			log_failure(future);
			future->is_seen = true;
		}
		complete(future, FERMATA_FUTURE_FAILED);
	} else {
		ZVAL_COPY_VALUE(&future->result, &result);
		complete(future, FERMATA_FUTURE_DONE);
	}
	bool failed = future->state == FERMATA_FUTURE_FAILED && !fermata_exception_comes_of(future->exception, fermata_ce_cancelled);
	fm_count_task(fermata.worker, future->kind, failed);
	/* Destructors that run up to here belong to the task. */
	slot(fiber)->awaits = NULL;
	fermata_fiber_returned();
	fermata_clean_up();
	/* As after a handler. Otherwise, work that destructors start would count as work of the next handler. */
	fermata.handling = false;
	fermata_fiber_clean_up();
	fiber->future = NULL;
	share_leave(future);
	fermata_future_drop(future);
}

/* Called when the worker stops: drops queued tasks, which then never start. */
void fermata_tasks_drop(void)
{
	fermata_future *future;
	if (has_shares) {
		share *it;
		ZEND_HASH_FOREACH_PTR(&shares, it) {
			while ((future = it->first)) {
				it->first = future->next;
				OBJ_RELEASE(&future->std);
			}
		} ZEND_HASH_FOREACH_END();
		zend_hash_destroy(&shares);
		has_shares = false;
		fermata_queued.held = 0;
	}
	while ((future = fermata_task_queue_take())) {
		OBJ_RELEASE(&future->std);
	}
}

static void cancel(fermata_future *future)
{
	if (has_ended(future) || future->is_cancelled) {
		return;
	}
	future->is_cancelled = true;
	if (future->state == FERMATA_FUTURE_RUNNING) {
		fermata_interrupt(future->fiber);
	} else {
		future->exception = exception_new(fermata_ce_cancelled, "the task was cancelled before it began");
		complete(future, FERMATA_FUTURE_FAILED);
	}
}

/* Awaiting */

static const fermata_fiber *waits_for(const fermata_fiber *fiber)
{
	return slot(fiber)->awaits ? slot(fiber)->awaits->fiber : NULL;
}

static const fermata_fiber *waited_for_by(const fermata_fiber *fiber)
{
	const fermata_fiber *other = NULL;
	for (uint32_t i = 0; !other && i < fermata_parts.waits_for.len; i++) {
		other = fermata_parts.waits_for.at[i](fiber);
	}
	return other;
}

/* Returns false with a MisuseError pending if `owner` waits, directly or through others, for this fiber. */
bool fermata_check_deadlock(const fermata_fiber *owner)
{
	const fermata_fiber *last = NULL;
	/* The number of steps is bounded, since other fibers may wait for each other in a cycle until their time limits. */
	for (uint32_t steps = 0; owner && steps < CHAIN_MAX; owner = waited_for_by(owner), steps++) {
		if (EXPECTED(owner != fermata_run.fiber)) {
			last = owner;
			continue;
		}
		char place[PLACE_BYTES_MAX];
		if (last) {
			fermata_fiber_place(last, place, sizeof(place));
			fermata_misuse("deadlock: this would wait for what waits for it in %s", place);
		} else {
			fermata_misuse("deadlock: this would wait for itself");
		}
		return false;
	}
	return true;
}

static bool deliver(fermata_future *future, zval *return_value)
{
	if (UNEXPECTED(future->state == FERMATA_FUTURE_FAILED)) {
		GC_ADDREF(future->exception);
		zend_throw_exception_internal(future->exception);
		return false;
	}
	ZVAL_COPY_DEREF(return_value, &future->result);
	return true;
}

static void await(fermata_future *future, zval *return_value)
{
	fermata_fiber *fiber = fermata_run.fiber;
	future->is_seen = true;
	if (!has_ended(future)) {
		if (!fermata_can_wait() || !fermata_check_deadlock(future->fiber)) {
			return;
		}
		fermata_waiter waiter = {.fiber = fiber};
		fermata_waiters_add(&future->waiters, &waiter);
		slot(fiber)->awaits = future;
		share_step_aside();
		fermata_wait_result waited = fermata_wait(FERMATA_NEVER);
		share_step_back();
		slot(fiber)->awaits = NULL;
		fermata_waiters_remove(&waiter);
		if (waited == FERMATA_WAIT_FAILED) {
			return;
		}
	}
	deliver(future, return_value);
}

/* all() and race() */

typedef struct several {
	uint32_t len, left;
	struct {
		fermata_future *future;
		zend_string *name; /* NULL = positional */
		bool is_own;       /* started by this call, which cancels it if another one fails */
		fermata_waiter waiter;
	} at[1];
} several;

static void several_free(several *all)
{
	for (uint32_t i = 0; i < all->len; i++) {
		fermata_waiters_remove(&all->at[i].waiter);
		if (all->at[i].is_own) {
			cancel(all->at[i].future);
		}
		OBJ_RELEASE(&all->at[i].future->std);
	}
	efree(all);
}

static bool several_add(several *all, zval *work, zend_string *name)
{
	bool is_future = Z_TYPE_P(work) == IS_OBJECT && Z_OBJCE_P(work) == fermata_ce_future;
	fermata_future *future;
	if (is_future) {
		future = FERMATA_FROM(fermata_future, Z_OBJ_P(work));
		GC_ADDREF(&future->std);
	} else if (!zend_is_callable(work, 0, NULL)) {
		zend_type_error("each argument must be a callable or a Fermata\\Future, %s given", fermata_type_name(work));
		return false;
	} else if (!(future = fermata_task_begin(work, FM_TASK_ASYNC))) {
		return false;
	}
	future->is_seen = true;
	all->at[all->len].future = future;
	all->at[all->len].name = name;
	all->at[all->len].is_own = !is_future;
	all->at[all->len].waiter = (fermata_waiter){.fiber = fermata_run.fiber};
	all->len++;
	return true;
}

/* Returns NULL after an exception. */
static several *several_begin(zend_execute_data *execute_data)
{
	zval *given;
	uint32_t given_len;
	HashTable *named;
	ZEND_PARSE_PARAMETERS_START(0, -1)
		Z_PARAM_VARIADIC_WITH_NAMED(given, given_len, named)
	ZEND_PARSE_PARAMETERS_END_EX(return NULL);
	if (!fermata_can_wait()) {
		return NULL;
	}
	uint32_t len = given_len + (named ? zend_hash_num_elements(named) : 0);
	several *all = safe_emalloc(len, sizeof(all->at[0]), sizeof(several));
	all->len = all->left = 0;
	for (uint32_t i = 0; i < given_len; i++) {
		if (!several_add(all, &given[i], NULL)) {
			several_free(all);
			return NULL;
		}
	}
	if (named) {
		zend_string *name;
		zval *work;
		ZEND_HASH_FOREACH_STR_KEY_VAL(named, name, work) {
			if (!several_add(all, work, name)) {
				several_free(all);
				return NULL;
			}
		} ZEND_HASH_FOREACH_END();
	}
	return all;
}

/* Returns the first future with at least this state, which is finished or, for all(), failed; NULL = none. */
static fermata_future *several_first(const several *all, fermata_future_state state_min)
{
	for (uint32_t i = 0; i < all->len; i++) {
		if (all->at[i].future->state >= state_min) {
			return all->at[i].future;
		}
	}
	return NULL;
}

/* Waits for the futures. Returns false with an exception pending. */
static bool several_wait(several *all, bool counts)
{
	all->left = 0;
	for (uint32_t i = 0; i < all->len; i++) {
		fermata_future *future = all->at[i].future;
		if (has_ended(future)) {
			continue;
		}
		if (!fermata_check_deadlock(future->fiber)) {
			return false;
		}
		all->at[i].waiter.left = counts ? &all->left : NULL;
		fermata_waiters_add(&future->waiters, &all->at[i].waiter);
		all->left++;
	}
	if (!all->left) {
		return true;
	}
	share_step_aside();
	fermata_wait_result waited = fermata_wait(FERMATA_NEVER);
	share_step_back();
	return waited != FERMATA_WAIT_FAILED;
}

ZEND_FUNCTION(Fermata_all)
{
	several *all = several_begin(execute_data);
	if (!all) {
		RETURN_THROWS();
	}
	fermata_future *failed = several_first(all, FERMATA_FUTURE_FAILED);
	if (!failed && several_wait(all, true)) {
		failed = several_first(all, FERMATA_FUTURE_FAILED);
	}
	if (failed) {
		deliver(failed, return_value);
	} else if (!EG(exception)) {
		array_init_size(return_value, all->len);
		for (uint32_t i = 0; i < all->len; i++) {
			zval *result = &all->at[i].future->result;
			Z_TRY_ADDREF_P(result);
			if (all->at[i].name) {
				zend_hash_update(Z_ARRVAL_P(return_value), all->at[i].name, result);
			} else {
				zend_hash_next_index_insert(Z_ARRVAL_P(return_value), result);
			}
		}
	}
	several_free(all);
}

ZEND_FUNCTION(Fermata_race)
{
	several *all = several_begin(execute_data);
	if (!all) {
		RETURN_THROWS();
	}
	if (!all->len) {
		fermata_misuse("race() needs something to run; nothing was given");
	} else {
		fermata_future *first = several_first(all, FERMATA_FUTURE_DONE);
		if (!first && several_wait(all, false)) {
			first = several_first(all, FERMATA_FUTURE_DONE);
		}
		if (first) {
			deliver(first, return_value);
		}
	}
	several_free(all);
}

/* PHP functions and methods */

ZEND_FUNCTION(Fermata_async)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(info, call)
	ZEND_PARSE_PARAMETERS_END();
	if (UNEXPECTED(!fermata.handling || fermata.forked)) {
		fermata_misuse("tasks can be begun only by handlers and tasks of a running server");
		RETURN_THROWS();
	}
	fermata_future *future = fermata_task_begin(&info.function_name, FM_TASK_ASYNC);
	if (future) {
		RETURN_OBJ(&future->std);
	}
}

ZEND_FUNCTION(Fermata_await)
{
	zval *future;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJECT_OF_CLASS(future, fermata_ce_future)
	ZEND_PARSE_PARAMETERS_END();
	await(FERMATA_FROM(fermata_future, Z_OBJ_P(future)), return_value);
}

ZEND_METHOD(Fermata_Future, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_Future, await)
{
	ZEND_PARSE_PARAMETERS_NONE();
	await(THIS_FUTURE(), return_value);
}

ZEND_METHOD(Fermata_Future, isDone)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(has_ended(THIS_FUTURE()));
}

ZEND_METHOD(Fermata_Future, cancel)
{
	ZEND_PARSE_PARAMETERS_NONE();
	cancel(THIS_FUTURE());
}

static void on_clean_up(fermata_fiber *fiber)
{
	fermata_future *deferred = slot(fiber)->deferred;
	if (deferred) {
		slot(fiber)->deferred = NULL;
		enqueue_all(deferred);
		/* Let the core send the response before the tasks run. */
		fermata_fibers_end_turn();
	}
}

static fermata_part part = {.size = sizeof(tasks), .on_clean_up = on_clean_up, .waits_for = waits_for};

void fermata_tasks_init_part(void)
{
	fermata_part_register(&part);
}
