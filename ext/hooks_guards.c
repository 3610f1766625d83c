/* Objects of clients while a handler or task is inside one of their functions.
 *
 * Extensions keep what they work with (a connection, a transfer) in the object alone: while one fiber waits inside
 * mysqli::query(), Redis::blPop() or curl_exec(), another one that used the same connection would take its answer, and one that
 * closed it would free what the first one wakes up in. So the functions of these extensions are called through here, and
 * whoever comes to an object that another fiber is inside of gets an exception; for a connection to SQLite it queues, and also
 * behind the transaction that another one has begun there. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks.h"
#include "zend_exceptions.h"
#include "zend_extensions.h"
#include <dlfcn.h>
#if __has_include("ext/pdo/php_pdo_driver.h")
# include "ext/pdo/php_pdo_driver.h"
# define HAVE_PDO_OF_PHP
#endif
#if __has_include("ext/mysqli/php_mysqli_structs.h") && __has_include("ext/mysqlnd/mysqlnd.h")
# include "ext/mysqli/php_mysqli_structs.h"
# define HAVE_MYSQLI_OF_PHP
#endif

/* Of one call: its object and those among its first arguments. */
#define KEYS_MAX 4
#define ARGUMENTS_MAX 3
/* The connection that functions of the extension pgsql take when they are given none. */
#define KEY_OF_DEFAULT 3

/* What an object stands for: several may belong to one connection. */
typedef uintptr_t (*key_of)(zend_object *object);

typedef struct root {
	const char *name; /* of the class, in small letters */
	key_of key;       /* NULL = the object itself */
} root;

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
static void *mysqli_of(zend_object *object)
{
	const MYSQLI_RESOURCE *it = php_mysqli_fetch_object(object)->ptr;
	return it ? it->ptr : NULL;
}

static uintptr_t key_of_mysqli(zend_object *object)
{
	const MY_MYSQL *it = mysqli_of(object);
	return it && it->mysql ? (uintptr_t)it->mysql->data : 0;
}

static uintptr_t key_of_mysqli_statement(zend_object *object)
{
	const MY_STMT *it = mysqli_of(object);
	return it && it->stmt && it->stmt->data ? (uintptr_t)it->stmt->data->conn : 0;
}

/* Of a result that is still being read. */
static uintptr_t key_of_mysqli_result(zend_object *object)
{
	const MYSQL_RES *it = mysqli_of(object);
	return it ? (uintptr_t)it->conn : 0;
}
#else
# define key_of_mysqli NULL
# define key_of_mysqli_statement NULL
# define key_of_mysqli_result NULL
#endif

static const root roots[] = {
	{"pdo", key_of_pdo},
	{"pdostatement", key_of_pdo_statement},
	{"mysqli", key_of_mysqli},
	{"mysqli_stmt", key_of_mysqli_statement},
	{"mysqli_result", key_of_mysqli_result},
	{"redis", NULL},
	{"rediscluster", NULL},
	{"redisarray", NULL},
	{"redissentinel", NULL},
	{"pgsql\\connection", NULL},
	{"pgsql\\lob", NULL},
	{"curlhandle", NULL},
	{"curlmultihandle", NULL},
	{"ftp\\connection", NULL},
	{"sqlite3", fermata_sqlite_key_of_object},
	{"sqlite3stmt", fermata_sqlite_key_of_statement},
	{"sqlite3result", fermata_sqlite_key_of_result},
};
#define ROOTS_LEN (sizeof(roots) / sizeof(root))

/* Functions that only look at what is there already, by the beginnings of their names. */
static const char *const harmless[] = {"fetch", "bind", "rowCount", "columnCount", "getColumnMeta", "getIterator", "errorCode",
	"errorInfo", "getAttribute", "setFetchMode", "inTransaction", "quote", "real_escape", "mysqli_real_escape", "pg_escape"};

/* Of SQLite, whose rows are made when they are fetched. */
static const char *const harmless_in_sqlite[] = {"errorCode", "errorInfo", "getAttribute", "inTransaction", "quote"};

/* Of those that hold something. A fiber's address is even. */
#define KEPT 1 /* no call is being made: it is in the middle of a transaction */

/* Who waits for a connection to SQLite. Lies on its C stack. */
typedef struct turn {
	fermata_waiter waiter; /* first: the list has these */
	uintptr_t key;
	fermata_turn result;
} turn;

static fermata_waiters turns; /* for all keys: mostly nobody */

/* Has what a Fiber of the program's is inside of that is suspended there, when the handler that has begun it has ended. */
static fermata_fiber nobody;

static struct {
	bool is_on;
	const zend_class_entry *classes[ROOTS_LEN];
	int place;           /* in a function's reserved pointers: its own handler, which closures made of it have, too */
	HashTable originals; /* by the address of the zend_function: the same */
	HashTable held;      /* by key: the fiber, and whether it keeps it between its calls */
} guards;

static zend_always_inline zend_ulong index_of(const void *function)
{
	return (zend_ulong)(uintptr_t)function >> 3;
}

ZEND_COLD void fermata_guard_refuse(const char *what)
{
	if (!EG(exception)) {
		fermata_misuse("another handler or task is inside a call of this %s; give each its own, or let one wait for the other "
			"with Fermata\\Sync\\Mutex", what);
	}
}

static fermata_fiber *fiber_of(const zval *held)
{
	return (fermata_fiber *)((uintptr_t)Z_PTR_P(held) & ~(uintptr_t)KEPT);
}

static bool is_kept(const zval *held)
{
	return (uintptr_t)Z_PTR_P(held) & KEPT;
}

fermata_fiber *fermata_guard_holder(uintptr_t key)
{
	const zval *held = guards.is_on ? zend_hash_index_find(&guards.held, key) : NULL;
	return held ? fiber_of(held) : NULL;
}

bool fermata_guard_is_anothers(uintptr_t key)
{
	const fermata_fiber *holder = fermata_guard_holder(key);
	return holder && holder != fermata_run.fiber;
}

static void hold(uintptr_t key, fermata_fiber *fiber)
{
	zval mine;
	ZVAL_PTR(&mine, fiber);
	zend_hash_index_update(&guards.held, key, &mine);
}

bool fermata_guard_take(uintptr_t key, bool *is_new)
{
	const zval *held = zend_hash_index_find(&guards.held, key);
	bool is_free = !held || Z_PTR_P(held) == (void *)((uintptr_t)fermata_run.fiber | KEPT);
	*is_new = is_free;
	if (is_free) {
		hold(key, fermata_run.fiber);
	}
	return is_free || fiber_of(held) == fermata_run.fiber;
}

static ZEND_COLD void refuse_suspended(void)
{
	if (!EG(exception)) {
		fermata_misuse("a Fiber that was begun by a handler which has ended is suspended inside a call of this connection to "
			"SQLite; resume it first, or give it a connection of its own");
	}
}

/* All who wait for it. */
static ZEND_COLD void tell_all(uintptr_t key, fermata_turn result)
{
	for (fermata_waiter *one = turns.first, *next; one; one = next) {
		next = one->next;
		if (((turn *)one)->key == key) {
			((turn *)one)->result = result;
			one->fiber->queues_for = 0;
			fermata_waiters_remove(one);
			fermata_wake(one->fiber);
		}
	}
}

/* To the first who waits for it, so that nobody comes in between. */
static void release(uintptr_t key)
{
	for (fermata_waiter *one = turns.first; one; one = one->next) {
		if (((turn *)one)->key == key) {
			hold(key, one->fiber);
			one->fiber->queues_for = 0;
			fermata_waiters_remove(one);
			fermata_wake(one->fiber);
			return;
		}
	}
	zend_hash_index_del(&guards.held, key);
}

void fermata_guard_give_back(uintptr_t key, const fermata_fiber *taker)
{
	const fermata_fiber *holder = fermata_guard_holder(key);
	if (UNEXPECTED(holder != taker && holder != &nobody)) {
		/* What it stood for is gone, and another connection may have the same address by now. */
		return;
	}
	if (UNEXPECTED(fermata_sqlite_keeps(key))) {
		hold(key, (fermata_fiber *)((uintptr_t)fermata_run.fiber | KEPT));
		fermata_run.fiber->keeps_guards = fermata_run.fiber->touched = true;
		return;
	}
	release(key);
}

fermata_turn fermata_guard_queue(uintptr_t key)
{
	fermata_fiber *self = fermata_run.fiber, *holder = fermata_guard_holder(key);
	turn next = {.waiter = {.fiber = self}, .key = key, .result = FERMATA_TURN_MINE};
	if (UNEXPECTED(holder == &nobody)) {
		refuse_suspended();
		return FERMATA_TURN_REFUSED;
	}
	if (UNEXPECTED(!fermata_check_deadlock(holder))) {
		return FERMATA_TURN_REFUSED;
	}
	fermata_waiters_add(&turns, &next.waiter);
	self->queues_for = key;
	while (next.waiter.list) {
		if (UNEXPECTED(fermata_hook_wait(FERMATA_NEVER) == FERMATA_WAIT_FAILED)) {
			break;
		}
	}
	self->queues_for = 0;
	if (EXPECTED(!EG(exception))) {
		if (UNEXPECTED(next.result == FERMATA_TURN_REFUSED)) {
			refuse_suspended();
		}
		return next.result;
	}
	if (next.waiter.list) {
		fermata_waiters_remove(&next.waiter);
	} else if (next.result == FERMATA_TURN_MINE && fermata_guard_holder(key) == self) {
		/* It was handed over a moment before. */
		release(key);
	}
	return FERMATA_TURN_REFUSED;
}

void fermata_guard_drop(uintptr_t key)
{
	if (guards.is_on) {
		zend_hash_index_del(&guards.held, key);
		tell_all(key, FERMATA_TURN_GONE);
	}
}

void fermata_guard_leave_to_nobody(uintptr_t key, const fermata_fiber *fiber)
{
	if (fermata_guard_holder(key) == fiber) {
		hold(key, &nobody);
		tell_all(key, FERMATA_TURN_REFUSED);
	}
}

/* A handler or task has ended in the middle of a transaction, which ends with it as at the end of a script: what others write
 * must not become a part of it, nor must they wait for ever. */
void fermata_guards_settle(fermata_fiber *fiber)
{
	zend_ulong key;
	zval *held;
	fiber->keeps_guards = false;
	ZEND_HASH_FOREACH_NUM_KEY_VAL(&guards.held, key, held) {
		if (is_kept(held) && fiber_of(held) == fiber) {
			fermata_sqlite_roll_back(key, fiber);
			release(key);
		}
	} ZEND_HASH_FOREACH_END();
}

/* After a fatal error nobody comes back to give anything back. */
void fermata_guards_forget(void)
{
	if (guards.is_on) {
		zend_hash_clean(&guards.held);
	}
}

/* Statements of PDO tell PostgreSQL to forget them when PHP frees them, which may be at any time and in any fiber. libpq would
 * first take what another fiber waits for. The server forgets them with the connection, too. */

static void *(*libpq_exec)(void *connection, const char *text);
static int (*libpq_socket)(const void *connection);

static void *guarded_exec(void *connection, const char *text)
{
	if (UNEXPECTED(fermata.handling && fermata_guard_is_anothers(fermata_guard_key_of_fd(libpq_socket(connection))))) {
		if (strncmp(text, ZEND_STRL("DEALLOCATE ")) != 0 && strncmp(text, ZEND_STRL("CLOSE ")) != 0) {
			fermata_guard_refuse("connection to PostgreSQL");
		}
		return NULL;
	}
	return libpq_exec(connection, text);
}

bool fermata_hook_libpq(void)
{
	static const fermata_replacement call = {"PQexec", (void *)guarded_exec};
	void *library = dlopen("libpq.so.5", RTLD_LAZY | RTLD_NOLOAD);
	if (!library) {
		return true;
	}
	libpq_exec = (void *(*)(void *, const char *))dlsym(library, "PQexec");
	libpq_socket = (int (*)(const void *))dlsym(library, "PQsocket");
	uint32_t failed = 0;
	if (libpq_exec && libpq_socket) {
		fermata_patch(fermata_patch_has("pdo_pgsql.so") ? "pdo_pgsql.so" : "php", &call, 1, &failed);
	}
	dlclose(library);
	return !failed;
}

/* 0 = nothing that is guarded. */
static uintptr_t key_of_object(zend_object *object)
{
	const zend_class_entry *class = object->ce;
	while (class->parent) {
		class = class->parent;
	}
	for (size_t i = 0; i < ROOTS_LEN; i++) {
		if (guards.classes[i] == class) {
			uintptr_t key = roots[i].key ? roots[i].key(object) : 0;
			return key ? key : (uintptr_t)object;
		}
	}
	return 0;
}

static void add_key(uintptr_t *keys, uint32_t *len, uintptr_t key)
{
	for (uint32_t i = 0; i < *len; i++) {
		if (keys[i] == key) {
			return;
		}
	}
	if (key) {
		keys[(*len)++] = key;
	}
}

/* Whether the call is about the last connection that was opened, since it names none. */
static bool takes_default(const zend_execute_data *call)
{
	const zend_function *function = call->func;
	if (function->common.scope || !function->internal_function.module
			|| strcmp(function->internal_function.module->name, "pgsql") != 0) {
		return false;
	}
	const char *name = ZSTR_VAL(function->common.function_name);
	return strcmp(name, "pg_connect") != 0 && strcmp(name, "pg_pconnect") != 0
		&& (!ZEND_CALL_NUM_ARGS(call) || Z_TYPE_P(ZEND_CALL_ARG(call, 1)) != IS_OBJECT);
}

static uint32_t collect_keys(zend_execute_data *call, uintptr_t keys[KEYS_MAX])
{
	uint32_t len = 0, arguments = MIN(ZEND_CALL_NUM_ARGS(call), ARGUMENTS_MAX);
	if (Z_TYPE(call->This) == IS_OBJECT) {
		add_key(keys, &len, key_of_object(Z_OBJ(call->This)));
	}
	for (uint32_t i = 1; i <= arguments; i++) {
		const zval *argument = ZEND_CALL_ARG(call, i);
		ZVAL_DEREF(argument);
		if (Z_TYPE_P(argument) == IS_OBJECT) {
			add_key(keys, &len, key_of_object(Z_OBJ_P(argument)));
		}
	}
	if (!len && takes_default(call)) {
		keys[len++] = KEY_OF_DEFAULT;
	}
	return len;
}

static ZEND_COLD bool is_harmless(const zend_execute_data *call, const char *const *names, size_t len)
{
	const char *name = ZSTR_VAL(call->func->common.function_name);
	for (size_t i = 0; i < len; i++) {
		if (strncasecmp(name, names[i], strlen(names[i])) == 0) {
			return true;
		}
	}
	return false;
}

#define IS_HARMLESS(call, names) is_harmless(call, names, sizeof(names) / sizeof(*(names)))

static ZEND_COLD void refuse_call(const zend_execute_data *call)
{
	const zend_function *function = call->func;
	fermata_misuse("%s%s%s(): another handler or task is inside a call of the same object or connection; give each its own, or "
		"let one wait for the other with Fermata\\Sync\\Mutex", function->common.scope ? ZSTR_VAL(function->common.scope->name) : "",
		function->common.scope ? "::" : "", ZSTR_VAL(function->common.function_name));
}

/* Another fiber has the key. */
typedef enum contention {
	CONTENTION_MINE, /* it has been waited for */
	CONTENTION_GO_ON,
	CONTENTION_REFUSED, /* an exception is pending */
} contention;

static ZEND_COLD contention meet(const zend_execute_data *call, uintptr_t key)
{
	if (!fermata_sqlite_is_connection(key)) {
		if (IS_HARMLESS(call, harmless)) {
			return CONTENTION_GO_ON;
		}
		refuse_call(call);
		return CONTENTION_REFUSED;
	}
	/* Where PHP cannot wait hooks_sqlite.c sees whether anybody is inside of the library. */
	if (IS_HARMLESS(call, harmless_in_sqlite) || !fermata_hook_may_wait()) {
		return CONTENTION_GO_ON;
	}
	switch (fermata_guard_queue(key)) {
		case FERMATA_TURN_MINE: return CONTENTION_MINE;
		/* It is closed: PHP says so. */
		case FERMATA_TURN_GONE: return CONTENTION_GO_ON;
		case FERMATA_TURN_REFUSED: break;
	}
	return CONTENTION_REFUSED;
}

static void give_back_all(const uintptr_t *keys, const bool *is_taken, uint32_t len, const fermata_fiber *taker)
{
	for (uint32_t i = 0; i < len; i++) {
		if (is_taken[i]) {
			fermata_guard_give_back(keys[i], taker);
		}
	}
}

static ZEND_NAMED_FUNCTION(guarded)
{
	zif_handler original = (zif_handler)execute_data->func->internal_function.reserved[guards.place];
	uintptr_t keys[KEYS_MAX];
	bool is_taken[KEYS_MAX];
	/* A Fiber of the program's may be resumed by another. */
	const fermata_fiber *taker = fermata_run.fiber;
	uint32_t len = fermata.handling ? collect_keys(execute_data, keys) : 0;
	for (uint32_t i = 0; i < len; i++) {
		if (EXPECTED(fermata_guard_take(keys[i], &is_taken[i]))) {
			continue;
		}
		contention result = meet(execute_data, keys[i]);
		is_taken[i] = result == CONTENTION_MINE;
		if (UNEXPECTED(result == CONTENTION_REFUSED)) {
			give_back_all(keys, is_taken, i, taker);
			return;
		}
	}
	original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	give_back_all(keys, is_taken, len, taker);
	if (fermata.handling) {
		fermata_fiber_end_reprieve();
	}
}

static void guard(zend_function *function)
{
	if (function->type != ZEND_INTERNAL_FUNCTION || !function->internal_function.handler
			|| function->internal_function.handler == guarded) {
		return;
	}
	zend_hash_index_update_ptr(&guards.originals, index_of(function), (void *)function->internal_function.handler);
	function->internal_function.reserved[guards.place] = (void *)function->internal_function.handler;
	function->internal_function.handler = guarded;
}

static bool is_guarded_module(const zend_module_entry *module)
{
	static const char *const names[] = {"curl", "ftp", "mysqli", "PDO", "pdo_mysql", "pdo_pgsql", "pdo_sqlite", "pgsql", "redis", "sqlite3"};
	for (size_t i = 0; module && i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(module->name, names[i]) == 0) {
			return true;
		}
	}
	return false;
}

bool fermata_hook_guards(void)
{
	zend_class_entry *class;
	zend_function *function;
	if (guards.is_on) {
		return true;
	}
	guards.place = zend_get_resource_handle("fermata");
	if (UNEXPECTED(guards.place < 0)) {
		return false;
	}
	guards.is_on = true;
	zend_hash_init(&guards.originals, 0, NULL, NULL, true);
	zend_hash_init(&guards.held, 0, NULL, NULL, true);
	for (size_t i = 0; i < ROOTS_LEN; i++) {
		class = zend_hash_str_find_ptr(CG(class_table), roots[i].name, strlen(roots[i].name));
		guards.classes[i] = class && class->type == ZEND_INTERNAL_CLASS ? class : NULL;
	}
	ZEND_HASH_FOREACH_PTR(CG(function_table), function) {
		if (function->type == ZEND_INTERNAL_FUNCTION && is_guarded_module(function->internal_function.module)) {
			guard(function);
		}
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
		if (class->type == ZEND_INTERNAL_CLASS && is_guarded_module(class->info.internal.module)) {
			zend_function *method;
			ZEND_HASH_FOREACH_PTR(&class->function_table, method) {
				guard(method);
			} ZEND_HASH_FOREACH_END();
		}
	} ZEND_HASH_FOREACH_END();
	return true;
}

/* PHP frees its functions after it has unloaded us. */
void fermata_guards_undo(void)
{
	zend_ulong index;
	void *original;
	if (!guards.is_on) {
		return;
	}
	ZEND_HASH_FOREACH_NUM_KEY_PTR(&guards.originals, index, original) {
		((zend_function *)(uintptr_t)(index << 3))->internal_function.handler = (zif_handler)original;
	} ZEND_HASH_FOREACH_END();
	zend_hash_destroy(&guards.originals);
	zend_hash_destroy(&guards.held);
	guards.is_on = false;
}
