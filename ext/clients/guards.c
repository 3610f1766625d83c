/* Guards objects of database and HTTP clients while a handler or task is inside one of their methods.
 *
 * Extensions store the state of a call (connection, transfer) in the object. Suppose that one fiber waits inside mysqli::query(),
 * Redis::blPop() or curl_exec(). If another fiber used the same connection, it would read the reply for the first fiber. If it
 * closed the connection, it would free memory that the first fiber still uses. So functions and iterators of these extensions are
 * wrapped (wrap.c, iterators.c). A fiber that calls an object in use queues for it (keys.c). It also waits until state that the
 * first fiber leaves open has ended: a transaction, an unread result, a lock (connections.c, sqlite.c). */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/connections.h"
#include "clients/guards.h"
#include "clients/transactions.h"
#include "zend_exceptions.h"
#include <dlfcn.h>
#include "base/optimize_size.h"

#define ARGUMENTS_MAX 3
#define PLACE_BYTES_MAX 512
/* Key of the default connection of the extension pgsql while that connection is unknown. Functions without a connection argument
 * use it. */
#define KEY_OF_DEFAULT 3
/* Maximum number of handler tables; several classes may share a table. */
#define ENDINGS_MAX 32

#ifdef HAVE_PDO_OF_PHP
static uintptr_t key_of_handle(const pdo_dbh_t *handle)
{
	uintptr_t key = fermata_sqlite_key_of_pdo(handle);
	return key ? key : (uintptr_t)handle;
}

static uintptr_t key_of_pdo(zend_object *object)
{
	return key_of_handle(php_pdo_dbh_fetch_inner(object));
}

static uintptr_t key_of_pdo_statement(zend_object *object)
{
	return key_of_handle(php_pdo_stmt_fetch_object(object)->dbh);
}
#else
# define key_of_pdo NULL
# define key_of_pdo_statement NULL
#endif

#ifdef HAVE_MYSQLI_OF_PHP
static uintptr_t key_of_mysqli(zend_object *object)
{
	const MY_MYSQL *it = fermata_mysqli_of(object);
	return it && it->mysql ? (uintptr_t)it->mysql->data : 0;
}

static uintptr_t key_of_mysqli_statement(zend_object *object)
{
	const MY_STMT *it = fermata_mysqli_of(object);
	return it && it->stmt && it->stmt->data ? (uintptr_t)it->stmt->data->conn : 0;
}

/* Returns the guard key of a result, which may have unread rows. */
static uintptr_t key_of_mysqli_result(zend_object *object)
{
	const MYSQL_RES *it = fermata_mysqli_of(object);
	return it ? (uintptr_t)it->conn : 0;
}
#else
# define key_of_mysqli NULL
# define key_of_mysqli_statement NULL
# define key_of_mysqli_result NULL
#endif

/* The structures are private, but in all versions the connection is their first member. */
static uintptr_t key_of_pgsql(zend_object *object)
{
	return (uintptr_t)*(void *const *)fermata_structure_of(object);
}

static const fermata_root roots[] = {
	{"pdo", key_of_pdo, FERMATA_ROOT_CONNECTION, fermata_connection_of_pdo, .is_pdo = true},
	{"pdostatement", key_of_pdo_statement, FERMATA_ROOT_STATEMENT, fermata_connection_of_pdo_statement, .is_pdo = true},
	{"mysqli", key_of_mysqli, FERMATA_ROOT_CONNECTION, fermata_connection_of_mysqli},
	{"mysqli_stmt", key_of_mysqli_statement, FERMATA_ROOT_STATEMENT, fermata_connection_of_mysqli_statement},
	{"mysqli_result", key_of_mysqli_result, FERMATA_ROOT_RESULT, fermata_connection_of_mysqli_result},
	{"redis", NULL, FERMATA_ROOT_CONNECTION, fermata_connection_of_redis},
	{"rediscluster", NULL, FERMATA_ROOT_CONNECTION, fermata_connection_of_redis},
	{"redisarray", NULL, FERMATA_ROOT_CONNECTION, fermata_connection_of_redis},
	{"redissentinel", NULL, FERMATA_ROOT_CONNECTION, NULL},
	{"pgsql\\connection", key_of_pgsql, FERMATA_ROOT_CONNECTION, fermata_connection_of_pgsql},
	{"pgsql\\lob", key_of_pgsql, FERMATA_ROOT_RESULT, NULL},
	{"curlhandle", NULL, FERMATA_ROOT_CONNECTION, NULL},
	{"curlmultihandle", NULL, FERMATA_ROOT_CONNECTION, NULL},
	{"ftp\\connection", NULL, FERMATA_ROOT_CONNECTION, NULL},
	{"sqlite3", fermata_sqlite_key_of_object, FERMATA_ROOT_CONNECTION, fermata_connection_of_sqlite3},
	{"sqlite3stmt", fermata_sqlite_key_of_statement, FERMATA_ROOT_STATEMENT, NULL},
	{"sqlite3result", fermata_sqlite_key_of_result, FERMATA_ROOT_RESULT, NULL},
};
#define ROOTS_LEN (sizeof(roots) / sizeof(*roots))
_Static_assert(ROOTS_LEN <= FERMATA_ROOTS_MAX, "raise FERMATA_ROOTS_MAX");

/* An executed statement. Until its handler finishes, no other handler executes it, since their rows would be mixed up. */
static const fermata_root executed = {"", NULL, FERMATA_ROOT_EXECUTED, NULL};

/* Functions that only read local state, by the start of their names. */
static const char *const harmless[] = {"rowCount", "columnCount", "getColumnMeta", "getAttribute", "setFetchMode", "errorCode",
	"errorInfo", "quote", "real_escape", "mysqli_real_escape", "pg_escape"};

/* Functions that start a new exchange, by the start of their names. Before such a call, a fiber that has just left yields to
 * queued fibers. */
static const char *const opening[] = {"query", "exec", "prepare", "begin", "multi_query", "real_query", "mysqli_query",
	"mysqli_prepare", "mysqli_begin", "mysqli_multi_query", "mysqli_real_query", "mysqli_stmt_execute", "mysqli_execute",
	"pg_query", "pg_exec", "pg_prepare", "pg_send"};

/* Minimum time in milliseconds for which a call has queued before that is logged. */
#define QUEUED_MS_MIN 100

/* Original functions that destroy and free objects of a class. */
typedef struct ending {
	const zend_object_handlers *handlers;
	zend_object_dtor_obj_t destroy;
	zend_object_free_obj_t free;
} ending;

static struct {
	bool is_on;
	zend_object *pgsql_default; /* default connection, to which pgsql holds a reference; NULL = unknown */
	bool is_queue_logged[ROOTS_LEN];
	ending endings[ENDINGS_MAX];
	uint32_t endings_len;
} guards;

/* State left open by a handler or task */

static void end_kept(uintptr_t key, fermata_fiber *fiber)
{
	if (fermata_connection_left_transaction(key)) {
		fermata_guard_suspect(key);
	}
	if (!fermata_sqlite_roll_back(key, fiber) && !fermata_connection_left(key, fiber)) {
		fermata_guard_pass_on(key);
	}
}

/* Cleans up after a handler or task that finished inside a transaction, as PHP does at the end of a script. Otherwise writes of
 * other handlers would join the transaction, or their calls would wait forever. If the cleanup needs a round trip, a task takes
 * over the connection. */
static ZEND_COLD void end_all_left(fermata_fiber *fiber)
{
	fermata_guards_note_none(fiber);
	fermata_sqlite_drop_rows(fiber);
	fermata_guards_end(fiber, end_kept);
}

/* Moves the keys of the handler. Keys of objects inside which a PHP Fiber is suspended are not moved. */
static void on_move(fermata_fiber *from, fermata_fiber *to)
{
	if (UNEXPECTED(fermata_guards_has(from))) {
		fermata_guards_move(from, to);
		fermata_sqlite_move_rows(from, to);
	}
}

static void on_clean_up(fermata_fiber *fiber)
{
	if (EXPECTED(!fermata_guards_has(fiber))) {
		return;
	}
	/* Rows that a task has requested belong to its handler, which may continue to read them. */
	fermata_fiber *handler = fiber->future ? fermata_fiber_of_family(fiber->family) : NULL;
	if (handler) {
		fermata_sqlite_move_rows(fiber, handler);
	}
	end_all_left(fiber);
}

/* Called after a fatal error: no fiber resumes to release its guards. */
static void on_fatal(fermata_fiber *fiber)
{
	fermata_guards_forget();
	fermata_owners_forget();
	if (guards.is_on) {
		fermata_connections_forget();
	}
}

/* Objects */

static const ending *ending_of(const zend_object *object)
{
	for (uint32_t i = 0; i < guards.endings_len; i++) {
		if (guards.endings[i].handlers == object->handlers) {
			return &guards.endings[i];
		}
	}
	/* This function is called only for objects with a replaced handler table. */
	ZEND_UNREACHABLE();
}

/* Replacement for dtor_obj: PHP is about to free the object. */
static void end(zend_object *object)
{
	ending_of(object)->destroy(object);
	const fermata_root *root = fermata.worker ? fermata_guard_root(object) : NULL;
	if (!root) {
		return;
	}
	fermata_guard_forget((uintptr_t)object);
	uintptr_t key = fermata_guard_key_of(root, object);
	if (root->kind == FERMATA_ROOT_CONNECTION) {
		fermata_guard_trust(key);
		fermata_connection_gone(key, object);
		if (!fermata_sqlite_is_connection(key)) {
			fermata_guard_drop(key);
		}
		return;
	}
	if (!fermata_sqlite_is_connection(key)) {
		/* Destroying the object would send a command in the middle of another fiber's exchange. */
		fermata_guard_free_later(key, object);
	}
}

/* Replacement for free_obj. While it notifies the server, no other fiber enters the connection. */
static void free_guarded(zend_object *object)
{
	const fermata_root *root = fermata.handling ? fermata_guard_root(object) : NULL;
	uintptr_t key = root && root->kind != FERMATA_ROOT_CONNECTION ? fermata_guard_key_of(root, object) : 0;
	const fermata_fiber *taker = fermata_this_fiber();
	bool is_new = false;
	if (key && !fermata_sqlite_is_connection(key)) {
		fermata_guard_take(key, &is_new, false);
	}
	bool was_kept = is_new && fermata_connection_is_open(key);
	if (UNEXPECTED(object == guards.pgsql_default)) {
		guards.pgsql_default = NULL;
	}
	ending_of(object)->free(object);
	/* If an unread result was the only open state, freeing the result has ended that state. */
	if (UNEXPECTED(was_kept && fermata_guard_is_still_of(key, taker) && fermata_connection_is_open(key))) {
		fermata_guard_keep(key);
	} else if (is_new) {
		fermata_guard_give_back(key, taker, fermata_sqlite_keeps);
	}
}

/* Replaces the destroy and free functions in the handler table of this object. */
static void watch_end(const zend_object *object)
{
	const zend_object_handlers *handlers = object->handlers;
	if (EXPECTED(handlers->dtor_obj == end) || guards.endings_len == ENDINGS_MAX || handlers == zend_get_std_object_handlers()) {
		return;
	}
	guards.endings[guards.endings_len++] = (ending){handlers, handlers->dtor_obj, handlers->free_obj};
	if (!fermata_patch_pointer((void **)&handlers->free_obj, (void *)free_guarded)
			|| !fermata_patch_pointer((void **)&handlers->dtor_obj, (void *)end)) {
		/* The table is not writable, so its objects are freed without a guard. */
		return;
	}
}

/* Calls */

static void add(fermata_guarded *call, uintptr_t key, const fermata_root *root, zend_object *object)
{
	for (uint32_t i = 0; i < call->len; i++) {
		if (call->keys[i] == key) {
			return;
		}
	}
	call->keys[call->len] = key;
	call->roots[call->len] = root;
	call->objects[call->len++] = object;
}

static void swap(fermata_guarded *call, uint32_t one, uint32_t other)
{
	uintptr_t key = call->keys[one];
	const fermata_root *root = call->roots[one];
	zend_object *object = call->objects[one];
	call->keys[one] = call->keys[other];
	call->roots[one] = call->roots[other];
	call->objects[one] = call->objects[other];
	call->keys[other] = key;
	call->roots[other] = root;
	call->objects[other] = object;
}

static void add_object(fermata_guarded *call, zend_object *object)
{
	const fermata_root *root = fermata_guard_root(object);
	if (root) {
		watch_end(object);
		add(call, fermata_guard_key_of(root, object), root, object);
	}
}

static bool begins_with_any(const char *name, const char *const *beginnings, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (strncasecmp(name, beginnings[i], strlen(beginnings[i])) == 0) {
			return true;
		}
	}
	return false;
}

#define BEGINS_WITH_ANY(name, list) begins_with_any(name, list, sizeof(list) / sizeof(*(list)))

static bool is_pgsql(const zend_function *function)
{
	return !function->common.scope && function->internal_function.module
		&& strcmp(function->internal_function.module->name, "pgsql") == 0;
}

/* Returns true if the call has no connection argument and uses the connection that was opened last. */
static bool takes_default(const zend_execute_data *call)
{
	if (!is_pgsql(call->func)) {
		return false;
	}
	const char *name = ZSTR_VAL(call->func->common.function_name);
	return strcmp(name, "pg_connect") != 0 && strcmp(name, "pg_pconnect") != 0
		&& (!ZEND_CALL_NUM_ARGS(call) || Z_TYPE_P(ZEND_CALL_ARG(call, 1)) != IS_OBJECT);
}

static bool is_execute(const zend_function *function)
{
	const char *name = ZSTR_VAL(function->common.function_name);
	return strcasecmp(name, "execute") == 0 || strcasecmp(name, "mysqli_stmt_execute") == 0 || strcasecmp(name, "mysqli_execute") == 0;
}

static void collect(fermata_guarded *call, zend_execute_data *frame)
{
	uint32_t arguments = MIN(ZEND_CALL_NUM_ARGS(frame), ARGUMENTS_MAX);
	if (Z_TYPE(frame->This) == IS_OBJECT) {
		add_object(call, Z_OBJ(frame->This));
	}
	for (uint32_t i = 1; i <= arguments; i++) {
		const zval *argument = ZEND_CALL_ARG(frame, i);
		ZVAL_DEREF(argument);
		if (Z_TYPE_P(argument) == IS_OBJECT) {
			add_object(call, Z_OBJ_P(argument));
		}
	}
	if (!call->len && takes_default(frame)) {
		if (EXPECTED(guards.pgsql_default)) {
			add_object(call, guards.pgsql_default);
		} else {
			add(call, KEY_OF_DEFAULT, NULL, NULL);
		}
	}
	if (call->len && call->roots[0] && call->roots[0]->kind == FERMATA_ROOT_STATEMENT && is_execute(frame->func)) {
		add(call, (uintptr_t)call->objects[0], &executed, call->objects[0]);
		/* Acquire the statement before the connection: the fiber that executed the statement needs the connection to read its
		 * rows. */
		swap(call, 0, call->len - 1);
	}
}

static ZEND_COLD void refuse_call(const zend_function *function)
{
	const zend_class_entry *class = function ? function->common.scope : NULL;
	fermata_misuse("%s%s%s%s: another handler or task is inside a call of the same object or connection, and PHP cannot wait here; "
		"give each its own", class ? ZSTR_VAL(class->name) : "", class ? "::" : "",
		function ? ZSTR_VAL(function->common.function_name) : "foreach", function ? "()" : "");
}

/* Logs, once per class in a worker, that handlers queue for one object. Otherwise only the latency would show it. */
static ZEND_COLD void log_queue(const zend_function *function, const fermata_root *root, const zend_object *object, uint64_t waited_ms)
{
	char text[PLACE_BYTES_MAX + 512];
	const zend_class_entry *class = function->common.scope;
	const zend_string *file = zend_get_executed_filename_ex();
	size_t skipped = file && ZSTR_LEN(file) >= PLACE_BYTES_MAX ? ZSTR_LEN(file) - PLACE_BYTES_MAX + 1 : 0;
	if (guards.is_queue_logged[root - roots]) {
		return;
	}
	guards.is_queue_logged[root - roots] = true;
	int len = snprintf(text, sizeof(text), "handlers queue for one %s: %s%s%s() in %s:%u waited " ZEND_ULONG_FMT " ms for another handler or "
		"task; give each an object of its own, by a Fermata\\Pool%s", ZSTR_VAL(object->ce->name), class ? ZSTR_VAL(class->name) : "",
		class ? "::" : "", ZSTR_VAL(function->common.function_name), file ? ZSTR_VAL(file) + skipped : "PHP itself",
		zend_get_executed_lineno(), (zend_ulong)waited_ms, strncmp(root->name, "curl", strlen("curl")) == 0
			? " of clients: one HttpClient of Symfony or handler of Guzzle has one such object" : "");
	fm_worker_log(fermata.worker, FERMATA_LOG_WARNING, (FmStr){text, MIN((size_t)len, sizeof(text) - 1)});
}

/* How a call proceeds while another fiber has the key. */
typedef enum contention {
	CONTENTION_MINE, /* the key was acquired after a wait */
	CONTENTION_GO_ON,
	CONTENTION_REFUSED, /* an exception is pending */
} contention;

/* Checks that no library on the stack counts a transaction that this connection does not have. Returns false with an exception
 * pending. */
static ZEND_COLD bool is_counted_right(const zend_function *function, uintptr_t key, const fermata_root *root, zend_object *object)
{
	bool is_settled;
	if (!function || !root || root == &executed || !root->connection || fermata_guard_is_anothers(key)
			|| BEGINS_WITH_ANY(ZSTR_VAL(function->common.function_name), harmless)) {
		return true;
	}
	bool is_right = fermata_transaction_check(EG(current_execute_data), key, fermata_connection_has_transaction(key, root, object),
		fermata_guard_is_beginning(key), &is_settled);
	if (!is_right) {
		fermata_guard_suspect(key);
	} else if (is_settled) {
		fermata_guard_trust(key);
	}
	return is_right;
}

static ZEND_COLD contention meet(const zend_function *function, uintptr_t key, const fermata_root *root, zend_object *object)
{
	if (function && BEGINS_WITH_ANY(ZSTR_VAL(function->common.function_name), harmless)) {
		return CONTENTION_GO_ON;
	}
	fermata_transaction_step step = function && root && root->connection
		? fermata_transaction_step_of(EG(current_execute_data)) : FERMATA_STEP_NONE;
	if (UNEXPECTED(step == FERMATA_STEP_CONTINUES && fermata_guard_is_anothers(key) && fermata_connection_left_transaction(key))) {
		fermata_transaction_refuse(EG(current_execute_data), key, fermata_guard_holder(key));
		fermata_guard_suspect(key);
		return CONTENTION_REFUSED;
	}
	if (!fermata_hook_may_wait()) {
		/* For SQLite, sqlite.c refuses the call if a fiber is inside the library. */
		if (root == &executed || !fermata_guard_is_anothers(key) || fermata_sqlite_is_connection(key)) {
			return CONTENTION_GO_ON;
		}
		refuse_call(function);
		return CONTENTION_REFUSED;
	}
	uint64_t since_ms = fm_worker_now_ms(fermata.worker);
	switch (fermata_guard_queue(key, step == FERMATA_STEP_BEGINS)) {
		case FERMATA_TURN_MINE: {
			uint64_t waited_ms = fm_worker_now_ms(fermata.worker) - since_ms;
			if (UNEXPECTED(waited_ms >= QUEUED_MS_MIN && function && root && root != &executed)) {
				log_queue(function, root, object, waited_ms);
			}
			if (UNEXPECTED(!is_counted_right(function, key, root, object))) {
				fermata_guard_give_back(key, fermata_this_fiber(), fermata_sqlite_keeps);
				return CONTENTION_REFUSED;
			}
			return CONTENTION_MINE;
		}
		/* The connection is closed. PHP reports that. */
		case FERMATA_TURN_GONE: return CONTENTION_GO_ON;
		case FERMATA_TURN_REFUSED: break;
	}
	if (root == &executed && EG(exception) && EG(exception)->ce == fermata_ce_misuse) {
		/* A handler waits for a task, and that task uses the handler's statement. */
		zend_clear_exception();
		return CONTENTION_GO_ON;
	}
	return CONTENTION_REFUSED;
}

static void give_back(fermata_guarded *call, uint32_t at, zend_execute_data *frame)
{
	uintptr_t key = call->keys[at];
	const fermata_root *root = call->roots[at];
	if (UNEXPECTED(!fermata_guard_is_still_of(key, call->taker))) {
		return;
	}
	if (root == &executed || (root && root->connection && fermata_connection_keeps(key, root, call->objects[at], frame))) {
		fermata_guard_free_late(key);
		fermata_guard_keep(key);
		return;
	}
	fermata_guard_give_back(key, call->taker, fermata_sqlite_keeps);
}

/* Returns true if the call starts a new exchange. Each Redis command does, except reading the last error. */
static bool is_opening(const fermata_guarded *call, const zend_function *function)
{
	const char *name = ZSTR_VAL(function->common.function_name);
	bool is_redis = call->len && call->roots[0] && call->roots[0]->connection == fermata_connection_of_redis;
	return is_redis ? strcasecmp(name, "getLastError") != 0 : BEGINS_WITH_ANY(name, opening);
}

bool fermata_guarded_enter(fermata_guarded *call, const zend_function *function)
{
	/* The queue is usually empty. */
	bool opens = UNEXPECTED(fermata_guard_has_queue()) && function && is_opening(call, function);
	/* Another fiber may resume a PHP Fiber that is suspended inside the call. */
	call->taker = fermata_this_fiber();
	for (uint32_t i = 0; i < call->len; i++) {
		if (EXPECTED(fermata_guard_take(call->keys[i], &call->is_taken[i], opens))) {
			if (UNEXPECTED(fermata_guard_is_suspect(call->keys[i])
					&& !is_counted_right(function, call->keys[i], call->roots[i], call->objects[i]))) {
				call->len = i + 1;
				fermata_guarded_leave(call, NULL);
				return false;
			}
			continue;
		}
		contention result = meet(function, call->keys[i], call->roots[i], call->objects[i]);
		call->is_taken[i] = result == CONTENTION_MINE;
		if (UNEXPECTED(result == CONTENTION_REFUSED)) {
			call->len = i;
			fermata_guarded_leave(call, NULL);
			return false;
		}
	}
	return true;
}

void fermata_guarded_leave(fermata_guarded *call, zend_execute_data *frame)
{
	for (uint32_t i = 0; i < call->len; i++) {
		if (call->is_taken[i]) {
			give_back(call, i, frame);
		}
	}
}

bool fermata_guarded_enter_object(fermata_guarded *call, zend_object *object)
{
	call->len = 0;
	if (fermata.handling) {
		add_object(call, object);
	}
	return fermata_guarded_enter(call, NULL);
}

/* Records the connection that was opened last, which the extension pgsql uses by default. */
static ZEND_COLD void note_default(const zend_execute_data *frame, const zval *result)
{
	const char *name = ZSTR_VAL(frame->func->common.function_name);
	if (strcmp(name, "pg_connect") == 0 || strcmp(name, "pg_pconnect") == 0) {
		guards.pgsql_default = Z_TYPE_P(result) == IS_OBJECT ? Z_OBJ_P(result) : guards.pgsql_default;
	} else if (strcmp(name, "pg_close") == 0 && (takes_default(frame) || Z_OBJ_P(ZEND_CALL_ARG(frame, 1)) == guards.pgsql_default)) {
		guards.pgsql_default = NULL;
	}
}

/* Returns true for inTransaction() while another fiber has the connection. The result is then false without a wait: that fiber's
 * transaction ends before this handler can use the connection. */
static bool asks_for_anothers_transaction(const fermata_guarded *call, const zend_function *function)
{
	return UNEXPECTED(call->len && fermata_guard_is_anothers(call->keys[0]))
		&& strcasecmp(ZSTR_VAL(function->common.function_name), "inTransaction") == 0;
}

/* Checks a call that a destructor makes between two handlers, when no fiber can queue. Returns false with an exception pending if
 * a fiber is inside one of the objects. */
static ZEND_COLD bool may_call_between(zend_execute_data *frame)
{
	fermata_guarded call;
	call.len = 0;
	collect(&call, frame);
	if (BEGINS_WITH_ANY(ZSTR_VAL(frame->func->common.function_name), harmless)) {
		return true;
	}
	for (uint32_t i = 0; i < call.len; i++) {
		uintptr_t key = call.keys[i];
		if (call.roots[i] != &executed && fermata_guard_is_anothers(key) && !fermata_sqlite_is_connection(key)) {
			refuse_call(frame->func);
			return false;
		}
	}
	return true;
}

void fermata_guarded_call(zif_handler original, INTERNAL_FUNCTION_PARAMETERS)
{
	if (!fermata.handling) {
		if (EXPECTED(!fermata.worker || !fermata_guards_are_held()) || may_call_between(execute_data)) {
			original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
			if (UNEXPECTED(is_pgsql(execute_data->func))) {
				note_default(execute_data, return_value);
			}
		}
		return;
	}
	fermata_guarded call;
	call.len = 0;
	collect(&call, execute_data);
	if (UNEXPECTED(asks_for_anothers_transaction(&call, execute_data->func))) {
		RETURN_FALSE;
	}
	if (UNEXPECTED(!fermata_guarded_enter(&call, execute_data->func))) {
		return;
	}
	original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	fermata_guarded_leave(&call, execute_data);
	if (UNEXPECTED(is_pgsql(execute_data->func))) {
		note_default(execute_data, return_value);
	}
	fermata_fiber_end_abandoned();
}

/* Start and end */

void fermata_guards_start(void)
{
	guards.is_on = true;
	fermata_keys_start();
	fermata_guard_roots_start(roots, ROOTS_LEN);
	fermata_connections_init();
	void *library = dlopen("libpq.so.5", RTLD_LAZY | RTLD_NOLOAD);
	if (library) {
		fermata_connections_find_libpq(library);
		dlclose(library);
	}
}

void fermata_guards_stop(void)
{
	guards.is_on = false;
	fermata_keys_end();
	fermata_guard_roots_end();
	fermata_connections_end();
}

/* Returns the fiber that has to leave an object or connection first; NULL if there is none. */
static const fermata_fiber *waits_for(const fermata_fiber *fiber)
{
	uintptr_t key = fermata_awaited_by(fiber);
	if (!key) {
		return NULL;
	}
	const fermata_fiber *holder = fermata_guard_holder(key);
	return holder || !fermata_key_is_of_fd(key) ? holder : fermata_owner_waited_for((int)(key >> 1), fiber);
}

void fermata_guards_init_part(void)
{
	static const fermata_part functions = {.on_clean_up = on_clean_up, .has_rest = fermata_guards_has, .on_move = on_move,
		.waits_for = waits_for, .on_fatal = on_fatal};
	fermata_keys_init_part(&functions);
}
