/* Fermata\Pool: a limited number of connections that handlers and tasks of a worker borrow.
 *
 * A connection is opened when a handler or task requests one and none is idle. The connection is returned when the closure that
 * borrowed it finishes, normally or with an exception. First, state left open in the connection is cleaned up. A connection that
 * is broken or in the middle of a reply is closed, and its slot becomes free. If the server may still be working for a closed
 * connection, the pool makes the server stop. The next borrower does that before it uses another connection; if there is no
 * borrower, a task does it. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/clients.h"
#include "clients/connections.h"
#include "zend_closures.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define SIZE_MAX_OF_POOL 10000
#define MS_PER_S 1000

/* A connection of the pool. */
typedef struct member {
	zval connection; /* undefined = a slot without a connection */
	uint64_t idle_since_ms;
	fermata_process process; /* recorded when the connection was lent, since a closed connection has no process */
} member;

typedef struct fermata_pool {
	zval connect, check, reset; /* closures; `check` and `reset` may be null */
	uint32_t size, places;      /* `places`: number of connections that are idle, borrowed or being opened */
	uint64_t wait_ms, check_ms;
	member *idle;               /* idle connections; the one that was used last is borrowed first */
	uint32_t idle_len;
	fermata_process *abandoned; /* processes of closed connections, which may still be working */
	uint32_t abandoned_len;
	bool is_closed;
	uint32_t forks; /* value of fermata.forks in the process that opened the idle connections */
	uint32_t waiting;
	fermata_waiters waiters;
	zend_object std;
} fermata_pool;

/* A fiber that waits for a slot. Stored on the fiber's C stack. */
typedef struct place {
	fermata_waiter waiter; /* first member: the list links waiters */
	bool is_given;
	member given;
} place;

static zend_object_handlers pool_handlers;

#define THIS_POOL() FERMATA_FROM(fermata_pool, Z_OBJ_P(ZEND_THIS))

/* Object lifecycle */

static zend_object *pool_create(zend_class_entry *ce)
{
	fermata_pool *pool = zend_object_alloc(sizeof(fermata_pool), ce);
	memset(pool, 0, XtOffsetOf(fermata_pool, std));
	zend_object_std_init(&pool->std, ce);
	pool->std.handlers = &pool_handlers;
	return &pool->std;
}

static void close_idle(fermata_pool *pool)
{
	while (pool->idle_len) {
		zval connection;
		ZVAL_COPY_VALUE(&connection, &pool->idle[--pool->idle_len].connection);
		pool->places--;
		zval_ptr_dtor(&connection);
	}
}

/* Waiting fibers hold references to the pool, so there are none here. */
static void pool_free(zend_object *object)
{
	fermata_pool *pool = FERMATA_FROM(fermata_pool, object);
	close_idle(pool);
	zval_ptr_dtor(&pool->connect);
	zval_ptr_dtor(&pool->check);
	zval_ptr_dtor(&pool->reset);
	if (pool->idle) {
		efree(pool->idle);
		efree(pool->abandoned);
	}
	zend_object_std_dtor(object);
}

static HashTable *pool_get_gc(zend_object *object, zval **table, int *len)
{
	fermata_pool *pool = FERMATA_FROM(fermata_pool, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	zend_get_gc_buffer_add_zval(buffer, &pool->connect);
	zend_get_gc_buffer_add_zval(buffer, &pool->check);
	zend_get_gc_buffer_add_zval(buffer, &pool->reset);
	for (uint32_t i = 0; i < pool->idle_len; i++) {
		zend_get_gc_buffer_add_zval(buffer, &pool->idle[i].connection);
	}
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

void fermata_pool_init(void)
{
	fermata_ce_pool->create_object = pool_create;
	memcpy(&pool_handlers, zend_get_std_object_handlers(), sizeof(pool_handlers));
	pool_handlers.offset = XtOffsetOf(fermata_pool, std);
	pool_handlers.free_obj = pool_free;
	pool_handlers.get_gc = pool_get_gc;
	pool_handlers.clone_obj = NULL;
	pool_handlers.compare = zend_objects_not_comparable;
}

static bool seconds_to_ms(double seconds, const char *name, uint64_t *ms)
{
	if (!(seconds >= 0.0 && seconds <= FERMATA_SECONDS_MAX)) {
		fermata_misuse("%s is 0 to %.0f seconds, not %f", name, FERMATA_SECONDS_MAX, seconds);
		return false;
	}
	*ms = (uint64_t)(seconds * MS_PER_S);
	return true;
}

ZEND_METHOD(Fermata_Pool, __construct)
{
	zval *connect, *check = NULL, *reset = NULL;
	zend_long size;
	double wait = 5.0, check_after = 30.0;
	ZEND_PARSE_PARAMETERS_START(2, 6)
		Z_PARAM_OBJECT_OF_CLASS(connect, zend_ce_closure)
		Z_PARAM_LONG(size)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE(wait)
		Z_PARAM_DOUBLE(check_after)
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(check, zend_ce_closure)
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(reset, zend_ce_closure)
	ZEND_PARSE_PARAMETERS_END();
	fermata_pool *pool = THIS_POOL();
	if (pool->size) {
		fermata_constructed_twice();
		RETURN_THROWS();
	}
	if (size < 1 || size > SIZE_MAX_OF_POOL) {
		fermata_misuse("a pool has 1 to %d connections, not " ZEND_LONG_FMT, SIZE_MAX_OF_POOL, size);
		RETURN_THROWS();
	}
	if (!seconds_to_ms(wait, "waitSeconds", &pool->wait_ms) || !seconds_to_ms(check_after, "checkAfterSeconds", &pool->check_ms)) {
		RETURN_THROWS();
	}
	/* Guards detect open state even if all hooks are off. Without guards, connections are lent without cleanup. */
	(void)fermata_hook_guards();
	pool->size = (uint32_t)size;
	pool->idle = safe_emalloc(pool->size, sizeof(member), 0);
	pool->abandoned = safe_emalloc(pool->size, sizeof(fermata_process), 0);
	ZVAL_COPY(&pool->connect, connect);
	if (check) {
		ZVAL_COPY(&pool->check, check);
	}
	if (reset) {
		ZVAL_COPY(&pool->reset, reset);
	}
}

/* Slots */

static uint64_t now_ms(void)
{
	return fermata.worker ? fm_worker_now_ms(fermata.worker) : 0;
}

static place *first_waiting(fermata_pool *pool)
{
	place *first = (place *)pool->waiters.first;
	if (first) {
		fermata_waiters_remove(&first->waiter);
		first->is_given = true;
		fermata_wake(first->waiter.fiber);
	}
	return first;
}

/* Frees the slot of a closed connection, or passes it to the first waiter. */
static void free_place(fermata_pool *pool)
{
	place *next = first_waiting(pool);
	if (next) {
		ZVAL_UNDEF(&next->given.connection);
	} else {
		pool->places--;
	}
}

/* Returns a connection to the pool. Takes ownership of the reference. */
static void put_back(fermata_pool *pool, member *one)
{
	if (UNEXPECTED(pool->is_closed)) {
		zval_ptr_dtor(&one->connection);
		free_place(pool);
		return;
	}
	one->idle_since_ms = now_ms();
	place *next = first_waiting(pool);
	if (next) {
		next->given = *one;
	} else {
		pool->idle[pool->idle_len++] = *one;
	}
}

static zend_object *object_of(const zval *connection)
{
	return Z_TYPE_P(connection) == IS_OBJECT ? Z_OBJ_P(connection) : NULL;
}

/* Makes the server of `by` stop the work of closed connections. Entries of other servers stay in the list. Returns false if the
 * connection `by` breaks meanwhile. */
static bool stop_abandoned(fermata_pool *pool, const member *by, bool is_new)
{
	zend_object *object = object_of(&by->connection);
	for (uint32_t i = 0; UNEXPECTED(i < pool->abandoned_len) && object;) {
		fermata_process one = pool->abandoned[i];
		if (!fermata_process_is_beside(&one, &by->process)) {
			i++;
			continue;
		}
		pool->abandoned[i] = pool->abandoned[--pool->abandoned_len];
		fermata_connection_stop(object, &by->process, &one, is_new);
		if (UNEXPECTED(!fermata_connection_is_alive(object))) {
			return false;
		}
		/* Other fibers may have changed the list during the call. */
		i = 0;
	}
	return true;
}

static ZEND_NAMED_FUNCTION(stop_now);

/* Starts a task that stops the work, since a long time may pass until a handler borrows a connection. */
static ZEND_COLD void begin_stopping(fermata_pool *pool)
{
	static zend_internal_function function = {.type = ZEND_INTERNAL_FUNCTION, .handler = stop_now};
	zval callable, this;
	if (!fermata.worker || !fermata.handling || fermata_fibers_is_unwinding() || fermata_is_retired()) {
		return;
	}
	zend_object *pending = EG(exception);
	EG(exception) = NULL;
	ZVAL_OBJ(&this, &pool->std);
	function.scope = fermata_ce_pool;
	function.function_name = zend_string_init("stop", strlen("stop"), false);
	zend_create_closure(&callable, (zend_function *)&function, fermata_ce_pool, fermata_ce_pool, &this);
	zend_string_release(function.function_name);
	fermata_future *task = fermata_task_begin(&callable, FM_TASK_DEFERRED);
	zval_ptr_dtor(&callable);
	if (UNEXPECTED(EG(exception))) {
		/* The maximum number of queued tasks is reached. */
		zend_clear_exception();
	}
	fermata_future_release(task);
	EG(exception) = pending;
}

/* Records the process of a closed connection. If the list is full, it contains only processes of servers that the pool no longer
 * reaches; then replaces the first entry. */
static ZEND_COLD void note_abandoned(fermata_pool *pool, const fermata_process *process)
{
	if (process->id && process->peer_len) {
		uint32_t at = pool->abandoned_len < pool->size ? pool->abandoned_len++ : 0;
		pool->abandoned[at] = *process;
		begin_stopping(pool);
	}
}

/* Closes the connection, even if the application has kept the object. Takes ownership of the reference. `is_working`: the server
 * may still be working for the connection. */
static ZEND_COLD void drop(fermata_pool *pool, member *one, bool is_working)
{
	if (is_working) {
		note_abandoned(pool, &one->process);
	}
	if (object_of(&one->connection)) {
		fermata_connection_abandon(object_of(&one->connection));
	}
	zval_ptr_dtor(&one->connection);
	free_place(pool);
}

/* Waits for a slot. Returns false with an exception pending; no slot was acquired. */
static bool wait_for_place(fermata_pool *pool, member *taken)
{
	place mine = {.waiter = {.fiber = fermata_this_fiber()}};
	ZVAL_UNDEF(&mine.given.connection);
	if (UNEXPECTED(!fermata_can_wait())) {
		return false;
	}
	fermata_waiters_add(&pool->waiters, &mine.waiter);
	pool->waiting++;
	fermata_wait_result waited = fermata_wait(fermata_ms_to_due((int64_t)pool->wait_ms));
	pool->waiting--;
	fermata_waiters_remove(&mine.waiter);
	if (EXPECTED(mine.is_given && !EG(exception))) {
		*taken = mine.given;
		return true;
	}
	if (mine.is_given) {
		/* The fiber received a slot just before its wait ended. */
		if (Z_ISUNDEF(mine.given.connection)) {
			free_place(pool);
		} else {
			put_back(pool, &mine.given);
		}
	} else if (!EG(exception)) {
		if (pool->is_closed) {
			zend_throw_exception(fermata_ce_connection_closed, "the pool is closed", 0);
		} else if (waited == FERMATA_WAIT_DUE) {
			zend_throw_exception_ex(fermata_ce_timeout, 0, "all %u connections of the pool are borrowed, and none came back within "
				ZEND_ULONG_FMT " ms (waitSeconds)", pool->size, (zend_ulong)pool->wait_ms);
		}
	}
	return false;
}

/* Drops connections that the parent process opened before fork(), since both processes would read from one socket. The connections
 * are not closed, since that would notify the server. */
static ZEND_COLD void leave_inherited(fermata_pool *pool)
{
	pool->places -= pool->idle_len;
	pool->idle_len = pool->abandoned_len = 0;
	pool->forks = fermata.forks;
}

static bool take_place(fermata_pool *pool, member *taken)
{
	if (UNEXPECTED(pool->forks != fermata.forks)) {
		leave_inherited(pool);
	}
	if (UNEXPECTED(pool->is_closed)) {
		zend_throw_exception(fermata_ce_connection_closed, "the pool is closed", 0);
		return false;
	}
	ZVAL_UNDEF(&taken->connection);
	if (EXPECTED(pool->idle_len)) {
		*taken = pool->idle[--pool->idle_len];
		return true;
	}
	if (pool->places < pool->size) {
		pool->places++;
		return true;
	}
	return wait_for_place(pool, taken);
}

/* Connections */

static bool call(const zval *closure, zval *connection, zval *result)
{
	zval function;
	ZVAL_COPY_VALUE(&function, closure);
	ZVAL_UNDEF(result);
	return call_user_function(NULL, NULL, &function, result, connection ? 1 : 0, connection) == SUCCESS && !EG(exception);
}

/* Returns true for an exception that ends the handler's work, so cleanup must neither hide it nor wait: a wait was ended, or
 * exit() was called. */
static bool is_ending(void)
{
	const zend_object *exception = EG(exception);
	return exception && (zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception) || fermata_hook_is_cut()
		|| instanceof_function(exception->ce, fermata_ce_cancelled) || instanceof_function(exception->ce, fermata_ce_timeout));
}

/* Returns true if the connection works. Returns false after an exception, or if the connection is unusable. */
static bool check(fermata_pool *pool, const member *one)
{
	zval copy, result;
	zend_object *object = object_of(&one->connection);
	if (object && !fermata_connection_is_alive(object)) {
		return false;
	}
	if (EXPECTED(now_ms() - one->idle_since_ms < pool->check_ms)) {
		return true;
	}
	if (Z_ISNULL(pool->check) || Z_ISUNDEF(pool->check)) {
		return !object || fermata_connection_answers(object);
	}
	ZVAL_COPY(&copy, &one->connection);
	bool is_good = call(&pool->check, &copy, &result) && zend_is_true(&result);
	zval_ptr_dtor(&result);
	zval_ptr_dtor(&copy);
	if (EG(exception) && !is_ending()) {
		/* An exception of the check means that the connection is broken. */
		zend_clear_exception();
		is_good = false;
	}
	return is_good;
}

static bool connect_one(fermata_pool *pool, zval *connection)
{
	if (UNEXPECTED(!call(&pool->connect, NULL, connection))) {
		zval_ptr_dtor(connection);
		return false;
	}
	if (UNEXPECTED(Z_TYPE_P(connection) != IS_OBJECT && Z_TYPE_P(connection) != IS_RESOURCE)) {
		fermata_misuse("the connect function of a pool returns a connection, not %s", fermata_type_name(connection));
		zval_ptr_dtor(connection);
		return false;
	}
	return true;
}

static void note_process(member *one)
{
	if (EXPECTED(object_of(&one->connection))) {
		fermata_connection_find_process(object_of(&one->connection), &one->process);
	}
}

static bool open_connection(fermata_pool *pool, member *one)
{
	one->process = (fermata_process){0};
	if (UNEXPECTED(!connect_one(pool, &one->connection))) {
		return false;
	}
	note_process(one);
	if (EXPECTED(stop_abandoned(pool, one, true))) {
		return true;
	}
	zval_ptr_dtor(&one->connection);
	if (UNEXPECTED(!connect_one(pool, &one->connection))) {
		return false;
	}
	note_process(one);
	return true;
}

/* Provides a working connection in an acquired slot. Returns false with an exception pending; the slot is then free. */
static bool make_ready(fermata_pool *pool, member *one)
{
	if (!Z_ISUNDEF(one->connection)) {
		if (EXPECTED(check(pool, one))) {
			/* The application may have reconnected the object since it was lent. */
			note_process(one);
			if (EXPECTED(stop_abandoned(pool, one, false))) {
				return true;
			}
		}
		if (UNEXPECTED(EG(exception))) {
			drop(pool, one, true);
			return false;
		}
		zval_ptr_dtor(&one->connection);
	}
	if (UNEXPECTED(!open_connection(pool, one))) {
		free_place(pool);
		return false;
	}
	return true;
}

/* Cleans up a returned connection. Returns true if the connection may be lent again. */
static bool restore(fermata_pool *pool, zval *connection)
{
	zend_object *object = object_of(connection);
	zval copy, result;
	if (object ? !fermata_connection_restore(object) : EG(exception) != NULL) {
		return false;
	}
	if (Z_ISNULL(pool->reset) || Z_ISUNDEF(pool->reset)) {
		return true;
	}
	ZVAL_COPY(&copy, connection);
	bool done = call(&pool->reset, &copy, &result);
	zval_ptr_dtor(&result);
	zval_ptr_dtor(&copy);
	return done;
}

/* Returns true if the server may still be working for the connection. If the server has closed the connection, its process must
 * not be stopped, since the number may belong to another process. `ended`: value of fermata_conversations_ended() when the
 * connection was borrowed. */
static bool is_left(const zval *connection, uint32_t ended)
{
	return fermata_conversations_ended() != ended
		|| (object_of(connection) && fermata_connection_is_busy(object_of(connection)));
}

/* Returns true if open state can be cleaned up. If the object belongs to a PHP library, only the application's `reset` can do
 * that. */
static bool is_understood(const fermata_pool *pool, const zval *connection)
{
	const zend_object *object = object_of(connection);
	return object && (fermata_guard_root(object) || Z_TYPE(pool->reset) == IS_OBJECT);
}

/* Handles a connection that its borrower has finished with. Takes ownership of the reference. */
static void give_back(fermata_pool *pool, member *one, uint32_t ended)
{
	if (UNEXPECTED(is_ending())) {
		drop(pool, one, true);
		return;
	}
	zend_object *pending = EG(exception);
	if (UNEXPECTED(pending)) {
		if (!is_understood(pool, &one->connection)) {
			/* The connection may be in the middle of an exchange. */
			drop(pool, one, true);
			return;
		}
		GC_ADDREF(pending);
		zend_clear_exception();
	}
	bool was_left = is_left(&one->connection, ended), is_good = restore(pool, &one->connection);
	if (UNEXPECTED(EG(exception) && !is_ending())) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
	if (EXPECTED(is_good && !EG(exception))) {
		put_back(pool, one);
	} else {
		drop(pool, one, was_left || is_left(&one->connection, ended));
	}
	if (UNEXPECTED(pending)) {
		if (EG(exception)) {
			OBJ_RELEASE(pending);
		} else {
			zend_throw_exception_internal(pending);
		}
	}
}

/* Reserves a connection over which the query of a closed connection can be stopped: an idle connection to the same server, or else
 * a slot for a new connection. */
static bool take_beside(fermata_pool *pool, member *taken)
{
	const fermata_process *last = &pool->abandoned[pool->abandoned_len - 1];
	for (uint32_t i = 0; i < pool->idle_len; i++) {
		if (fermata_process_is_beside(&pool->idle[i].process, last)) {
			*taken = pool->idle[i];
			pool->idle[i] = pool->idle[--pool->idle_len];
			return true;
		}
	}
	if (pool->places == pool->size) {
		return false;
	}
	pool->places++;
	ZVAL_UNDEF(&taken->connection);
	return true;
}

/* Stops the queries of closed connections. If all connections are in use, the next borrower does that. */
static ZEND_NAMED_FUNCTION(stop_now)
{
	fermata_pool *pool = THIS_POOL();
	member one;
	if (!pool->abandoned_len || pool->is_closed || pool->forks != fermata.forks || !take_beside(pool, &one)) {
		return;
	}
	uint64_t begun_at = fermata_clock();
	uint32_t ended = fermata_conversations_ended();
	if (make_ready(pool, &one)) {
		FERMATA_EACH_PART(on_unlock, begun_at)
		give_back(pool, &one, ended);
	}
}

ZEND_METHOD(Fermata_Pool, use)
{
	zend_fcall_info info;
	zend_fcall_info_cache function;
	member one;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(info, function)
	ZEND_PARSE_PARAMETERS_END();
	fermata_pool *pool = THIS_POOL();
	if (UNEXPECTED(!take_place(pool, &one) || !make_ready(pool, &one))) {
		RETURN_THROWS();
	}
	zval argument;
	ZVAL_COPY(&argument, &one.connection);
	uint32_t ended = fermata_conversations_ended();
	uint64_t begun_at = fermata_clock();
	info.retval = return_value;
	info.params = &argument;
	info.param_count = 1;
	zend_call_function(&info, &function);
	zval_ptr_dtor(&argument);
	if (EXPECTED(fermata_this_fiber())) {
		FERMATA_EACH_PART(on_unlock, begun_at)
	}
	give_back(pool, &one, ended);
}

ZEND_METHOD(Fermata_Pool, close)
{
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_pool *pool = THIS_POOL();
	pool->is_closed = true;
	fermata_waiter *waiter;
	while ((waiter = pool->waiters.first)) {
		fermata_waiters_remove(waiter);
		fermata_wake(waiter->fiber);
	}
	close_idle(pool);
}

ZEND_METHOD(Fermata_Pool, idle)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG(THIS_POOL()->idle_len);
}

ZEND_METHOD(Fermata_Pool, borrowed)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG(THIS_POOL()->places - THIS_POOL()->idle_len);
}

ZEND_METHOD(Fermata_Pool, waiting)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG(THIS_POOL()->waiting);
}
