/* Guards objects of database and HTTP clients while a handler or task is inside one of their methods.
 *
 * Extensions store the state of a call (connection, transfer) in the object. Suppose one fiber waits inside mysqli::query(),
 * Redis::blPop() or curl_exec(). Another fiber that used the same connection would read its reply. One that closed the
 * connection would free memory that the first still uses. So functions and iterators of these extensions are wrapped here. A
 * fiber that calls an object in use queues for it. It also waits for state that the first leaves open: a transaction, an unread
 * result, a lock (connections.c, sqlite.c).
 *
 * A fiber that leaves an object runs until its next wait, even if others queue. So it can still query the last insert id or
 * error of its call. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/guards.h"
#include "clients/transactions.h"
#include "zend_closures.h"
#include "zend_exceptions.h"
#include "zend_extensions.h"
#include <dlfcn.h>
#include "base/optimize_size.h"

#define ARGUMENTS_MAX 3
#define PLACE_BYTES_MAX 512
/* Key of the default connection of the extension pgsql, for functions without a connection argument, while the connection is
 * unknown. */
#define KEY_OF_DEFAULT 3
/* Maximum number of handler tables; several classes share one. */
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

/* Returns the guard key of a result with unread rows. */
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

/* These structures are private, but in all versions start with the connection. */
static uintptr_t key_of_pgsql(zend_object *object)
{
	return (uintptr_t)*(void *const *)fermata_structure_of(object);
}

static const fermata_root roots[] = {
	{"pdo", key_of_pdo, FERMATA_ROOT_CONNECTION, fermata_connection_of_pdo},
	{"pdostatement", key_of_pdo_statement, FERMATA_ROOT_STATEMENT, fermata_connection_of_pdo_statement},
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

/* An executed statement. No other handler executes it before its handler finishes; otherwise its rows would be mixed up. */
static const fermata_root executed = {"", NULL, FERMATA_ROOT_EXECUTED, NULL};

/* Functions that only read local state, matched by the start of their names. */
static const char *const harmless[] = {"rowCount", "columnCount", "getColumnMeta", "getAttribute", "setFetchMode", "errorCode",
	"errorInfo", "quote", "real_escape", "mysqli_real_escape", "pg_escape"};

/* Functions that start a new exchange. Before them, a fiber that has just left yields to queued fibers. */
static const char *const opening[] = {"query", "exec", "prepare", "begin", "multi_query", "real_query", "mysqli_query",
	"mysqli_prepare", "mysqli_begin", "mysqli_multi_query", "mysqli_real_query", "mysqli_stmt_execute", "mysqli_execute",
	"pg_query", "pg_exec", "pg_prepare", "pg_send"};

/* A call that has queued for longer is logged. */
#define QUEUED_MS_MIN 100

/* Flags of an owner, stored in the low bits of a fiber's address, which is a multiple of four. */
#define KEPT 1    /* no call is running, but state is open */
#define LINGERS 2 /* the owner has left, others queue, and the first of them was woken */
#define FLAGS (KEPT | LINGERS)

/* A fiber that waits for a connection. Stored on the fiber's C stack. */
typedef struct turn {
	fermata_waiter waiter; /* first member: the list links these */
	uintptr_t key;
	fermata_turn result;
	bool begins; /* it waits to start a transaction */
} turn;

static fermata_waiters turns; /* one list for all keys; usually empty */

/* Owner of keys whose handler has finished while a PHP Fiber is suspended inside the object. */
static fermata_fiber nobody;

typedef struct slot_of_guards {
	bool has_guards; /* has guards, or is inside a call */
} slot_of_guards;

static fermata_part part;
FERMATA_SLOT(slot_of_guards, part)

void fermata_guards_note(fermata_fiber *fiber)
{
	slot(fiber)->has_guards = true;
	fermata_touch(fiber, part);
}

/* An object freed while another fiber was inside its connection. */
typedef struct freed {
	struct freed *next;
	uintptr_t key;
	zend_object *object;
} freed;

/* Original handlers that destroy and free objects of a class. */
typedef struct ending {
	const zend_object_handlers *handlers;
	zend_object_dtor_obj_t destroy;
	zend_object_free_obj_t free;
} ending;

static struct {
	bool is_on, is_wrapped;
	const zend_class_entry *classes[ROOTS_LEN];
	int place;           /* index in a function's reserved pointers for its original handler; closures of the function share it */
	HashTable originals; /* original handlers by address of the zend_function */
	HashTable held;      /* by key: the owning fiber and its flags */
	zend_object *pgsql_default; /* pgsql holds a reference while this is its default; NULL = unknown */
	bool is_queue_logged[ROOTS_LEN];
	HashTable suspects;  /* keys of connections whose library may count another handler's transaction; usually empty */
	freed *freed;
	ending endings[ENDINGS_MAX];
	uint32_t endings_len;
} guards;

static zend_always_inline zend_ulong index_of(const void *function)
{
	return (zend_ulong)(uintptr_t)function >> 3;
}

/* Owners */

static fermata_fiber *fiber_of(const zval *held)
{
	return (fermata_fiber *)((uintptr_t)Z_PTR_P(held) & ~(uintptr_t)FLAGS);
}

static bool has_flag(const zval *held, uintptr_t flag)
{
	return (uintptr_t)Z_PTR_P(held) & flag;
}

fermata_fiber *fermata_guard_holder(uintptr_t key)
{
	const zval *held = guards.is_on ? zend_hash_index_find(&guards.held, key) : NULL;
	return held && !has_flag(held, LINGERS) ? fiber_of(held) : NULL;
}

bool fermata_guard_is_anothers(uintptr_t key)
{
	const fermata_fiber *holder = fermata_guard_holder(key);
	return holder && holder != fermata_this_fiber();
}

static void hold(uintptr_t key, const fermata_fiber *fiber, uintptr_t flags)
{
	zval mine;
	ZVAL_PTR(&mine, (void *)((uintptr_t)fiber | flags));
	zend_hash_index_update(&guards.held, key, &mine);
}

static void hold_for_call(uintptr_t key)
{
	hold(key, fermata_this_fiber(), 0);
	/* The handler may finish while a PHP Fiber is suspended inside. */
	fermata_guards_note(fermata_this_fiber());
}

static fermata_waiter *first_in_queue(uintptr_t key)
{
	fermata_waiter *one = turns.first;
	while (one && ((turn *)one)->key != key) {
		one = one->next;
	}
	return one;
}

/* `opens`: the call starts a new exchange, before which queued fibers run. */
static bool take(uintptr_t key, bool *is_new, bool opens)
{
	const zval *held = zend_hash_index_find(&guards.held, key);
	bool is_mine = held && fiber_of(held) == fermata_this_fiber();
	*is_new = !held || (is_mine && (has_flag(held, KEPT) || (has_flag(held, LINGERS) && !(opens && first_in_queue(key)))));
	if (*is_new) {
		hold_for_call(key);
	}
	return *is_new || (is_mine && !has_flag(held, FLAGS));
}

bool fermata_guard_take(uintptr_t key, bool *is_new)
{
	return take(key, is_new, false);
}

static ZEND_COLD void refuse_suspended(void)
{
	if (!EG(exception)) {
		fermata_misuse("a Fiber that was begun by a handler which has ended is suspended inside a call of this connection; "
			"resume it first, or give it a connection of its own");
	}
}

/* Wakes all waiters of the key with `result`. */
static ZEND_COLD void tell_all(uintptr_t key, fermata_turn result)
{
	for (fermata_waiter *one = turns.first, *next; one; one = next) {
		next = one->next;
		if (((turn *)one)->key == key) {
			((turn *)one)->result = result;
			fermata_note_awaited(one->fiber, 0);
			fermata_waiters_remove(one);
			fermata_wake(one->fiber);
		}
	}
}

/* Frees objects whose release was postponed because a fiber was inside. */
static ZEND_COLD void free_late(uintptr_t key)
{
	for (freed **at = &guards.freed; *at;) {
		freed *one = *at;
		if (one->key != key) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		zend_object *object = one->object;
		efree(one);
		OBJ_RELEASE(object);
		/* Freeing may have freed further objects. */
		at = &guards.freed;
	}
}

/* Wakes the first waiter. Until it runs, only `fiber`, which has just left, may retake the guard. */
static void release(uintptr_t key, const fermata_fiber *fiber)
{
	fermata_waiter *first = EXPECTED(!turns.first) ? NULL : first_in_queue(key);
	if (first) {
		hold(key, fiber, LINGERS);
		fermata_wake(first->fiber);
	} else {
		zend_hash_index_del(&guards.held, key);
	}
}

static void keep(uintptr_t key)
{
	hold(key, fermata_this_fiber(), KEPT);
	fermata_guards_note(fermata_this_fiber());
}

/* Returns true if the taker still owns the key. Otherwise the object is gone, and another connection may have the same address. */
static bool is_still_of(uintptr_t key, const fermata_fiber *taker)
{
	const fermata_fiber *holder = fermata_guard_holder(key);
	return EXPECTED(holder == taker || holder == &nobody);
}

void fermata_guard_give_back(uintptr_t key, const fermata_fiber *taker)
{
	if (UNEXPECTED(!is_still_of(key, taker))) {
		return;
	}
	if (UNEXPECTED(guards.freed != NULL)) {
		free_late(key);
	}
	if (UNEXPECTED(fermata_sqlite_keeps(key))) {
		keep(key);
	} else {
		release(key, fermata_this_fiber());
	}
}

/* The queue */

static ZEND_COLD void throw_late(uintptr_t key)
{
	char place[PLACE_BYTES_MAX] = "another place";
	const fermata_fiber *holder = fermata_guard_holder(key);
	if (holder && holder->is_listed) {
		fermata_fiber_place(holder, place, sizeof(place));
	}
	zend_throw_exception_ex(fermata_ce_timeout, 0, "after " ZEND_ULONG_FMT " ms (shared_wait_timeout_ms) another handler or task "
		"still uses this connection in %s; give handlers connections of a Fermata\\Pool",
		(zend_ulong)fermata_fibers_shared_wait_ms(), place);
}

/* The woken fiber does not need the key any more. */
static void pass_on(uintptr_t key)
{
	const zval *held = zend_hash_index_find(&guards.held, key);
	if (!held || has_flag(held, LINGERS)) {
		release(key, NULL);
	}
}

static bool may_take(uintptr_t key, const turn *self)
{
	const zval *held = zend_hash_index_find(&guards.held, key);
	return (!held || has_flag(held, LINGERS) || fiber_of(held) == self->waiter.fiber)
		&& first_in_queue(key) == &self->waiter;
}

static fermata_turn queue(uintptr_t key, bool begins)
{
	fermata_fiber *self = fermata_this_fiber(), *holder = fermata_guard_holder(key);
	turn mine = {.waiter = {.fiber = self}, .key = key, .result = FERMATA_TURN_MINE, .begins = begins};
	uint64_t due_ms = fermata_ms_to_due((int64_t)fermata_fibers_shared_wait_ms());
	if (UNEXPECTED(holder == &nobody)) {
		refuse_suspended();
		return FERMATA_TURN_REFUSED;
	}
	if (UNEXPECTED(holder && !fermata_check_deadlock(holder))) {
		return FERMATA_TURN_REFUSED;
	}
	fermata_waiters_add(&turns, &mine.waiter);
	fermata_note_awaited(self, key);
	fermata_wait_result waited = FERMATA_WAIT_WOKEN;
	bool is_mine = false;
	while (mine.waiter.list && !(is_mine = may_take(key, &mine))) {
		waited = fermata_hook_wait(due_ms);
		if (UNEXPECTED(waited != FERMATA_WAIT_WOKEN)) {
			break;
		}
	}
	fermata_note_awaited(self, 0);
	bool is_told = !mine.waiter.list;
	fermata_waiters_remove(&mine.waiter);
	if (EXPECTED(is_mine)) {
		hold_for_call(key);
		return FERMATA_TURN_MINE;
	}
	if (!is_told) {
		if (waited == FERMATA_WAIT_DUE) {
			throw_late(key);
		}
		pass_on(key);
		return FERMATA_TURN_REFUSED;
	}
	if (EG(exception)) {
		return FERMATA_TURN_REFUSED;
	}
	if (UNEXPECTED(mine.result == FERMATA_TURN_REFUSED)) {
		refuse_suspended();
	}
	return mine.result;
}

fermata_turn fermata_guard_queue(uintptr_t key)
{
	return queue(key, false);
}

void fermata_guard_drop(uintptr_t key)
{
	if (guards.is_on) {
		zend_hash_index_del(&guards.suspects, key);
		zend_hash_index_del(&guards.held, key);
		tell_all(key, FERMATA_TURN_GONE);
	}
}

void fermata_guard_leave_to_nobody(uintptr_t key, const fermata_fiber *fiber)
{
	if (fermata_guard_holder(key) == fiber) {
		hold(key, &nobody, 0);
		tell_all(key, FERMATA_TURN_REFUSED);
	}
}

void fermata_guard_leave_to(uintptr_t key, const fermata_fiber *fiber)
{
	hold(key, fiber, 0);
}

void fermata_guard_release(uintptr_t key)
{
	if (guards.freed) {
		free_late(key);
	}
	release(key, NULL);
}

/* State left open by a handler or task */

static void end_left(uintptr_t key, uintptr_t flags, fermata_fiber *fiber)
{
	if (flags & KEPT) {
		if (fermata_connection_left_transaction(key)) {
			zend_hash_index_add_empty_element(&guards.suspects, key);
		}
		if (!fermata_sqlite_roll_back(key, fiber) && !fermata_connection_left(key, fiber)) {
			release(key, NULL);
		}
	} else if (flags & LINGERS) {
		hold(key, NULL, LINGERS);
	} else {
		hold(key, &nobody, 0);
		tell_all(key, FERMATA_TURN_REFUSED);
	}
}

/* Cleans up after a handler or task that finished inside a transaction, as PHP does at the end of a script. Otherwise other
 * handlers' writes would join the transaction, or their calls would wait forever. A task takes the connection if the cleanup
 * needs a round trip. */
static ZEND_COLD void end_all_left(fermata_fiber *fiber)
{
	bool is_any = true;
	slot(fiber)->has_guards = false;
	fermata_sqlite_drop_rows(fiber);
	/* Freeing objects may change the table, so repeat until nothing is found. */
	while (is_any) {
		is_any = false;
		/* By index: the table may be reallocated. */
		for (uint32_t i = 0; i < guards.held.nNumUsed; i++) {
			const Bucket *bucket = &guards.held.arData[i];
			if (Z_TYPE(bucket->val) != IS_UNDEF && fiber_of(&bucket->val) == fiber) {
				end_left(bucket->h, (uintptr_t)Z_PTR(bucket->val) & FLAGS, fiber);
				is_any = true;
			}
		}
	}
}

/* Keys of objects inside which a PHP Fiber is suspended are not moved. */
static void on_move(fermata_fiber *from, fermata_fiber *to)
{
	zend_ulong index;
	const zval *held;
	if (EXPECTED(!slot(from)->has_guards)) {
		return;
	}
	ZEND_HASH_FOREACH_NUM_KEY_VAL(&guards.held, index, held) {
		if (fiber_of(held) == from && has_flag(held, KEPT)) {
			hold(index, to, KEPT);
			fermata_guards_note(to);
		}
	} ZEND_HASH_FOREACH_END();
	fermata_sqlite_move_rows(from, to);
}

static void on_clean_up(fermata_fiber *fiber)
{
	if (EXPECTED(!slot(fiber)->has_guards)) {
		return;
	}
	/* Rows that a task requested belong to its handler, which may continue to read them. */
	fermata_fiber *handler = fiber->future ? fermata_fiber_of_family(fiber->family) : NULL;
	if (handler) {
		fermata_sqlite_move_rows(fiber, handler);
	}
	end_all_left(fiber);
}

static bool has_rest(const fermata_fiber *fiber)
{
	return slot(fiber)->has_guards;
}

/* After a fatal error, no fiber resumes to release its guards. */
static void on_fatal(fermata_fiber *fiber)
{
	turns = (fermata_waiters){0};
	fermata_owners_forget();
	if (guards.is_on) {
		zend_hash_clean(&guards.held);
		fermata_connections_forget();
		guards.freed = NULL;
	}
}

/* Objects */

static const fermata_root *root_of(const zend_object *object)
{
	const zend_class_entry *class = object->ce;
	while (class->parent) {
		class = class->parent;
	}
	for (size_t i = 0; i < ROOTS_LEN; i++) {
		if (guards.classes[i] == class) {
			return &roots[i];
		}
	}
	return NULL;
}

static uintptr_t key_of_object(const fermata_root *root, zend_object *object)
{
	uintptr_t key = root->key ? root->key(object) : 0;
	return key ? key : (uintptr_t)object;
}

static const ending *ending_of(const zend_object *object)
{
	for (uint32_t i = 0; i < guards.endings_len; i++) {
		if (guards.endings[i].handlers == object->handlers) {
			return &guards.endings[i];
		}
	}
	/* Only objects with a replaced handler table get here. */
	ZEND_UNREACHABLE();
}

/* Replaces dtor_obj: PHP is about to free the object. */
static void end(zend_object *object)
{
	ending_of(object)->destroy(object);
	const fermata_root *root = guards.is_on && fermata.worker ? root_of(object) : NULL;
	if (!root) {
		return;
	}
	zend_hash_index_del(&guards.held, (uintptr_t)object);
	uintptr_t key = key_of_object(root, object);
	if (root->kind == FERMATA_ROOT_CONNECTION) {
		zend_hash_index_del(&guards.suspects, key);
		fermata_connection_gone(key, object);
		if (!fermata_sqlite_is_connection(key)) {
			fermata_guard_drop(key);
		}
		return;
	}
	const zval *held = zend_hash_index_find(&guards.held, key);
	if (UNEXPECTED(held && fiber_of(held) != fermata_this_fiber() && !fermata_sqlite_is_connection(key))) {
		/* Destroying it would send a command in the middle of another fiber's exchange. */
		freed *one = emalloc(sizeof(freed));
		*one = (freed){guards.freed, key, object};
		GC_ADDREF(object);
		guards.freed = one;
	}
}

/* Replaces free_obj: no other fiber enters while the server is notified. */
static void free_guarded(zend_object *object)
{
	const fermata_root *root = guards.is_on && fermata.handling ? root_of(object) : NULL;
	uintptr_t key = root && root->kind != FERMATA_ROOT_CONNECTION ? key_of_object(root, object) : 0;
	const fermata_fiber *taker = fermata_this_fiber();
	bool is_new = false;
	if (key && !fermata_sqlite_is_connection(key)) {
		take(key, &is_new, false);
	}
	bool was_kept = is_new && fermata_connection_is_open(key);
	if (UNEXPECTED(object == guards.pgsql_default)) {
		guards.pgsql_default = NULL;
	}
	ending_of(object)->free(object);
	/* If an unread result was the only open state, freeing it ends that state. */
	if (UNEXPECTED(was_kept && is_still_of(key, taker) && fermata_connection_is_open(key))) {
		keep(key);
	} else if (is_new) {
		fermata_guard_give_back(key, taker);
	}
}

/* Wraps the destroy and free handlers of objects like this one. */
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

const fermata_root *fermata_guard_root(const zend_object *object)
{
	return guards.is_on ? root_of(object) : NULL;
}

uintptr_t fermata_guard_key(zend_object *object)
{
	const fermata_root *root = fermata_guard_root(object);
	return root ? key_of_object(root, object) : 0;
}

zend_object *fermata_guard_find_object(uintptr_t key)
{
	zend_object *found = NULL;
	for (uint32_t i = 1; i < EG(objects_store).top; i++) {
		zend_object *object = EG(objects_store).object_buckets[i];
		const fermata_root *root = IS_OBJ_VALID(object) && !(OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED) ? root_of(object) : NULL;
		if (root && key_of_object(root, object) == key) {
			found = object;
			if (root->kind == FERMATA_ROOT_CONNECTION) {
				break;
			}
		}
	}
	return found;
}

static void add_object(fermata_guarded *call, zend_object *object)
{
	const fermata_root *root = root_of(object);
	if (root) {
		watch_end(object);
		add(call, key_of_object(root, object), root, object);
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

/* Returns true if the call names no connection and uses the last one opened. */
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
		/* The statement comes before the connection: the fiber that executed it needs the connection to read its rows. */
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

/* Logs that handlers queue for one object, which otherwise only shows as latency. Once per class in a worker. */
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
	CONTENTION_MINE, /* acquired after a wait */
	CONTENTION_GO_ON,
	CONTENTION_REFUSED, /* an exception is pending */
} contention;

/* Checks that no library on the stack counts a transaction that this connection does not have. Returns false with an exception
 * pending. */
static ZEND_COLD bool is_counted_right(const zend_function *function, uintptr_t key, const fermata_root *root, zend_object *object)
{
	bool is_settled, is_beginning = false;
	if (!function || !root || root == &executed || !root->connection || fermata_guard_is_anothers(key)
			|| BEGINS_WITH_ANY(ZSTR_VAL(function->common.function_name), harmless)) {
		return true;
	}
	for (const fermata_waiter *one = turns.first; one; one = one->next) {
		is_beginning |= ((const turn *)one)->key == key && ((const turn *)one)->begins;
	}
	bool is_right = fermata_transaction_check(EG(current_execute_data), key, fermata_connection_has_transaction(key, root, object),
		is_beginning, &is_settled);
	if (!is_right) {
		zend_hash_index_add_empty_element(&guards.suspects, key);
	} else if (is_settled) {
		zend_hash_index_del(&guards.suspects, key);
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
		zend_hash_index_add_empty_element(&guards.suspects, key);
		return CONTENTION_REFUSED;
	}
	if (!fermata_hook_may_wait()) {
		/* For SQLite, sqlite.c checks if a fiber is inside the library. */
		if (root == &executed || !fermata_guard_is_anothers(key) || fermata_sqlite_is_connection(key)) {
			return CONTENTION_GO_ON;
		}
		refuse_call(function);
		return CONTENTION_REFUSED;
	}
	uint64_t since_ms = fm_worker_now_ms(fermata.worker);
	switch (queue(key, step == FERMATA_STEP_BEGINS)) {
		case FERMATA_TURN_MINE: {
			uint64_t waited_ms = fm_worker_now_ms(fermata.worker) - since_ms;
			if (UNEXPECTED(waited_ms >= QUEUED_MS_MIN && function && root && root != &executed)) {
				log_queue(function, root, object, waited_ms);
			}
			if (UNEXPECTED(!is_counted_right(function, key, root, object))) {
				fermata_guard_give_back(key, fermata_this_fiber());
				return CONTENTION_REFUSED;
			}
			return CONTENTION_MINE;
		}
		/* The connection is closed; PHP reports it. */
		case FERMATA_TURN_GONE: return CONTENTION_GO_ON;
		case FERMATA_TURN_REFUSED: break;
	}
	if (root == &executed && EG(exception) && EG(exception)->ce == fermata_ce_misuse) {
		/* A handler waits for a task that uses its statement. */
		zend_clear_exception();
		return CONTENTION_GO_ON;
	}
	return CONTENTION_REFUSED;
}

static void give_back(fermata_guarded *call, uint32_t at, zend_execute_data *frame)
{
	uintptr_t key = call->keys[at];
	const fermata_root *root = call->roots[at];
	if (UNEXPECTED(!is_still_of(key, call->taker))) {
		return;
	}
	if (root == &executed || (root && root->connection && fermata_connection_keeps(key, root, call->objects[at], frame))) {
		if (UNEXPECTED(guards.freed != NULL)) {
			free_late(key);
		}
		keep(key);
		return;
	}
	fermata_guard_give_back(key, call->taker);
}

/* Each Redis command is a separate exchange, except for reading the last error. */
static bool is_opening(const fermata_guarded *call, const zend_function *function)
{
	const char *name = ZSTR_VAL(function->common.function_name);
	bool is_redis = call->len && call->roots[0] && call->roots[0]->connection == fermata_connection_of_redis;
	return is_redis ? strcasecmp(name, "getLastError") != 0 : BEGINS_WITH_ANY(name, opening);
}

bool fermata_guarded_enter(fermata_guarded *call, const zend_function *function)
{
	/* The queue is usually empty. */
	bool opens = UNEXPECTED(turns.first != NULL) && function && is_opening(call, function);
	/* Another fiber may resume a PHP Fiber inside the call. */
	call->taker = fermata_this_fiber();
	for (uint32_t i = 0; i < call->len; i++) {
		if (EXPECTED(take(call->keys[i], &call->is_taken[i], opens))) {
			if (UNEXPECTED(zend_hash_num_elements(&guards.suspects) && zend_hash_index_exists(&guards.suspects, call->keys[i])
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

/* Tracks the last opened connection, which the extension pgsql uses by default. */
static ZEND_COLD void note_default(const zend_execute_data *frame, const zval *result)
{
	const char *name = ZSTR_VAL(frame->func->common.function_name);
	if (strcmp(name, "pg_connect") == 0 || strcmp(name, "pg_pconnect") == 0) {
		guards.pgsql_default = Z_TYPE_P(result) == IS_OBJECT ? Z_OBJ_P(result) : guards.pgsql_default;
	} else if (strcmp(name, "pg_close") == 0 && (takes_default(frame) || Z_OBJ_P(ZEND_CALL_ARG(frame, 1)) == guards.pgsql_default)) {
		guards.pgsql_default = NULL;
	}
}

/* inTransaction() returns false without waiting while another fiber has the connection: that fiber's transaction ends before
 * this handler can use the connection. */
static bool asks_for_anothers_transaction(const fermata_guarded *call, const zend_function *function)
{
	return UNEXPECTED(call->len && fermata_guard_is_anothers(call->keys[0]))
		&& strcasecmp(ZSTR_VAL(function->common.function_name), "inTransaction") == 0;
}

/* Checks calls of a destructor between two handlers, where no fiber can queue. Returns false with an exception pending if a
 * fiber is inside a called object. */
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

static ZEND_NAMED_FUNCTION(guarded)
{
	zif_handler original = (zif_handler)execute_data->func->internal_function.reserved[guards.place];
	/* Hooks are off, or another process guarded a class in OPcache's shared memory. */
	if (!guards.is_on) {
		original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
		return;
	}
	if (!fermata.handling) {
		if (EXPECTED(!fermata.worker || !zend_hash_num_elements(&guards.held)) || may_call_between(execute_data)) {
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
	fermata_fiber_end_reprieve();
}

static bool is_unguarded(const zend_function *function)
{
	return function->type == ZEND_INTERNAL_FUNCTION && function->internal_function.handler
		&& function->internal_function.handler != guarded;
}

static void guard(zend_function *function)
{
	if (is_unguarded(function)) {
		zend_hash_index_update_ptr(&guards.originals, index_of(function), (void *)function->internal_function.handler);
		function->internal_function.reserved[guards.place] = (void *)function->internal_function.handler;
		function->internal_function.handler = guarded;
	}
}

static bool is_guarded_module(const zend_module_entry *module)
{
	static const char *const names[] = {"curl", "ftp", "mysqli", "PDO", "pdo_mysql", "pdo_pgsql", "pdo_sqlite", "pgsql", "redis", "sqlite3"};
	/* Functions of one module are adjacent, so the last result is cached. */
	static const zend_module_entry *last;
	static bool is_last;
	if (module != last) {
		last = module;
		is_last = false;
		for (size_t i = 0; module && i < sizeof(names) / sizeof(*names); i++) {
			is_last |= strcmp(module->name, names[i]) == 0;
		}
	}
	return is_last;
}

/* Guards methods of PDO drivers' subclasses, too: their methods are copies that belong to the module PDO, although the class
 * belongs to the driver. */
static void guard_methods(zend_class_entry *class)
{
	zend_function *method;
	ZEND_HASH_FOREACH_PTR(&class->function_table, method) {
		if (is_unguarded(method) && is_guarded_module(method->internal_function.module)) {
			guard(method);
		}
	} ZEND_HASH_FOREACH_END();
}

/* A userland class copies inherited functions when it is declared. The copies are freed with the script, so they are not
 * restored. */
static void guard_copies(zend_class_entry *class)
{
	zend_function *copy;
	ZEND_HASH_FOREACH_PTR(&class->function_table, copy) {
		if (is_unguarded(copy) && is_guarded_module(copy->internal_function.module)) {
			fermata_patch_lasting(&copy->internal_function.reserved[guards.place], (void *)copy->internal_function.handler);
			fermata_patch_lasting((void **)&copy->internal_function.handler, (void *)guarded);
		}
	} ZEND_HASH_FOREACH_END();
}

/* PHP's private structure starts like this in all versions. PHP calls the original function through a handler that then releases
 * the closure. */
typedef struct closure {
	zend_object object;
	zend_function function;
	zval this;
	zend_class_entry *called;
	zif_handler original;
} closure;

/* Closures created earlier from such functions, `$pdo->query(...)`, have copies of them, too. */
static void guard_closures(void)
{
	for (uint32_t i = 1; i < EG(objects_store).top; i++) {
		zend_object *object = EG(objects_store).object_buckets[i];
		if (!IS_OBJ_VALID(object) || object->ce != zend_ce_closure) {
			continue;
		}
		zend_function *copy = (zend_function *)zend_get_closure_method_def(object);
		if (copy->type != ZEND_INTERNAL_FUNCTION || !is_guarded_module(copy->internal_function.module)) {
			continue;
		}
		const HashTable *functions = copy->common.scope ? &copy->common.scope->function_table : CG(function_table);
		zend_string *name = zend_string_tolower(copy->common.function_name);
		const zend_function *original = zend_hash_find_ptr(functions, name);
		zend_string_release(name);
		if (original && original->type == ZEND_INTERNAL_FUNCTION && original->internal_function.handler == guarded) {
			closure *self = (closure *)object;
			if ((void *)self->original == original->internal_function.reserved[guards.place]) {
				copy->internal_function.reserved[guards.place] = (void *)self->original;
				self->original = guarded;
			}
		}
	}
}

void fermata_guards_init(void)
{
	guards.place = zend_get_resource_handle("fermata");
}

void fermata_guards_wrap(void)
{
	zend_class_entry *class;
	zend_function *function;
	if (UNEXPECTED(guards.place < 0)) {
		return;
	}
	if (!guards.is_wrapped) {
		zend_hash_init(&guards.originals, 0, NULL, NULL, true);
		guards.is_wrapped = true;
	}
	ZEND_HASH_FOREACH_PTR(CG(function_table), function) {
		if (function->type == ZEND_INTERNAL_FUNCTION && is_guarded_module(function->internal_function.module)) {
			guard(function);
		}
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
		if (class->type == ZEND_INTERNAL_CLASS) {
			guard_methods(class);
		}
	} ZEND_HASH_FOREACH_END();
}

bool fermata_hook_guards(void)
{
	zend_class_entry *class;
	if (guards.is_on) {
		return true;
	}
	if (UNEXPECTED(guards.place < 0)) {
		return false;
	}
	guards.is_on = true;
	/* Queued callers wait like hooked calls. */
	fermata_hooks_init();
	zend_hash_init(&guards.held, 0, NULL, NULL, true);
	zend_hash_init(&guards.suspects, 0, NULL, NULL, true);
	fermata_connections_init();
	for (size_t i = 0; i < ROOTS_LEN; i++) {
		class = zend_hash_str_find_ptr(CG(class_table), roots[i].name, strlen(roots[i].name));
		guards.classes[i] = class && class->type == ZEND_INTERNAL_CLASS ? class : NULL;
	}
	/* For extensions loaded since then. */
	fermata_guards_wrap();
	ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
		if (class->type == ZEND_USER_CLASS) {
			guard_copies(class);
		}
	} ZEND_HASH_FOREACH_END();
	guard_closures();
	fermata_hook_iterators();
	void *library = dlopen("libpq.so.5", RTLD_LAZY | RTLD_NOLOAD);
	if (library) {
		fermata_connections_find_libpq(library);
		dlclose(library);
	}
	return true;
}

/* PHP frees its function table after it has unloaded the extension. */
void fermata_guards_undo(void)
{
	zend_ulong index;
	void *original;
	if (!guards.is_wrapped) {
		return;
	}
	ZEND_HASH_FOREACH_NUM_KEY_PTR(&guards.originals, index, original) {
		((zend_function *)(uintptr_t)(index << 3))->internal_function.handler = (zif_handler)original;
	} ZEND_HASH_FOREACH_END();
	zend_hash_destroy(&guards.originals);
	guards.is_wrapped = false;
	if (!guards.is_on) {
		return;
	}
	zend_hash_destroy(&guards.held);
	zend_hash_destroy(&guards.suspects);
	fermata_connections_end();
	guards.is_on = false;
}

/* Returns the fiber that has to leave an object or a connection first. */
static const fermata_fiber *waits_for(const fermata_fiber *fiber)
{
	uintptr_t key = fermata_awaited_by(fiber);
	if (!key) {
		return NULL;
	}
	const fermata_fiber *holder = fermata_guard_holder(key);
	return holder || !fermata_key_is_of_fd(key) ? holder : fermata_owner_waited_for((int)(key >> 1), fiber);
}

static fermata_part part = {.size = sizeof(slot_of_guards), .on_clean_up = on_clean_up, .has_rest = has_rest, .on_move = on_move,
	.waits_for = waits_for, .on_fatal = on_fatal};

void fermata_guards_init_part(void)
{
	fermata_part_register(&part);
}
