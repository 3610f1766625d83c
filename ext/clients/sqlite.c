/* SQLite: PDO SQLite and SQLite3.
 *
 * A query runs in the loop, on its fiber's stack, instead of in a thread. Most queries finish faster than a thread would start,
 * and userland functions and collations have to run in PHP's thread. During long operations, other handlers run. If another
 * process or connection has a lock, SQLite calls its VFS to sleep, and the fiber waits. If SQLite reads a page that is not in the
 * kernel's cache, or syncs a file, a thread of the core does that, and the fiber waits. During computations, SQLite calls a
 * progress callback, in which the fiber yields after a time slice.
 *
 * While a fiber is inside a connection, or its transaction is open, other fibers queue (keys.c). Objects that PHP frees during
 * that time are freed when the fiber has left the connection. Unread rows are dropped when their handler finishes. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/keys.h"
#include "clients/objects.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include <dlfcn.h>
#include <errno.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "base/optimize_size.h"

/* Number of SQLite instructions between two checks of the clock. They take some ten microseconds. */
#define PROGRESS_INSTRUCTIONS 1000
/* Number of pages that are read or written between two checks of the clock. */
#define PROGRESS_PAGES 16
/* Time slice of a call in the loop, and its minimum. The more calls run concurrently, the shorter each slice. */
#define SLICE_NS 1000000
#define SLICE_NS_MIN 100000
/* Minimum page size. A shorter write may be made while SQLite has a lock that all connections need, so it runs directly. */
#define PAGE_BYTES_MIN 512
#define NS_PER_S 1000000000
#define US_PER_MS 1000
#define PLACE_BYTES_MAX 512

/* Values from sqlite3.h, which never change. */
#define SQLITE_OK 0
#define SQLITE_BUSY 5
#define SQLITE_CONSTRAINT 19
#define SQLITE_PRIMARY 0xff /* mask of the primary result code */
#define SQLITE_ROW 100
#define SQLITE_DONE 101
#define SQLITE_OPEN_SHAREDCACHE 0x00020000
#define SQLITE_STATIC ((free_bound)0)
#define SQLITE_TRANSIENT ((free_bound)-1)

typedef void (*free_bound)(void *value);
typedef struct database database;
typedef struct blob blob;
typedef struct backup backup;
typedef struct statement statement;

/* sqlite3_vfs, as declared in sqlite3.h. */
typedef struct layer {
	int version, file_bytes, path_bytes_max;
	struct layer *next;
	const char *name;
	void *data, *others[9]; /* xOpen to xRandomness */
	int (*sleep)(struct layer *self, int us);
	void *more[3]; /* xCurrentTime to xCurrentTimeInt64 */
	int (*set_system_call)(struct layer *self, const char *name, void *by); /* since version 3 */
} layer;

static struct {
	void *library; /* NULL = part of PHP's own object */
	int (*step)(statement *it);
	int (*exec)(database *db, const char *text, void *each, void *data, char **error);
	int (*prepare)(database *db, const char *text, int len, statement **it, const char **tail);
	int (*finalize)(statement *it);
	int (*reset)(statement *it);
	int (*close)(database *db);
	int (*close_later)(database *db);
	int (*open)(const char *name, database **db, int flags, const char *layer_name);
	int (*bind_text)(statement *it, int at, const char *value, int len, free_bound by);
	int (*bind_blob)(statement *it, int at, const void *value, int len, free_bound by);
	int (*blob_open)(database *db, const char *name, const char *table, const char *column, int64_t row, int flags, blob **it);
	int (*blob_read)(blob *it, void *buf, int len, int at);
	int (*blob_write)(blob *it, const void *buf, int len, int at);
	int (*blob_close)(blob *it);
	backup *(*backup_init)(database *to, const char *to_name, database *from, const char *from_name);
	int (*backup_step)(backup *it, int pages);
	int (*backup_finish)(backup *it);
	database *(*database_of)(statement *it);
	int (*is_busy)(statement *it);
	int (*is_readonly)(statement *it);
	int (*is_autocommit)(database *db);
	const char *(*text_of)(int result);
	void (*on_progress)(database *db, int instructions, int (*call)(void *data), void *data);
	layer *(*find_layer)(const char *name);
	/* Original function of the VFS (SQLite's layer for the operating system). */
	int (*sleep)(layer *self, int us);
} sqlite;

/* A statement that PHP has freed or reset while another fiber was inside the connection, or whose commit could not wait for
 * readers. */
typedef struct later {
	struct later *next;
	int (*by)(void *it);
	void *it;
	const fermata_fiber *whose; /* fiber that is notified if `by` fails; NULL = its handler has finished */
} later;

typedef struct connection {
	database *db;
	const fermata_fiber *inside; /* compared, never dereferenced; NULL = no fiber */
	uint32_t depth; /* nesting depth of the calls */
	bool never_waits; /* its locks in this process may block other connections, so its calls never wait */
	bool is_closed;
	bool is_left; /* a task is about to clean up after a handler */
	int (*closes)(database *db); /* function that closes it when no statement is pending; NULL = it is open */
	bool has_temporary; /* it may have temporary tables, which have to be dropped when the handler finishes */
	void *pdo; /* pdo_dbh_t; NULL = SQLite3 or unknown */
	later *first, *last;
	/* fiber whose next call reports that a change was undone, and SQLite's result code; NULL = none */
	const fermata_fiber *unreported;
	int unreported_result;
	/* file and line where the open transaction was started; line 0 = no open transaction */
	uint32_t begun_line;
	char begun_in[PLACE_BYTES_MAX];
} connection;

/* A running call of the library. Stored on the C stack of the call. */
struct fermata_sqlite_call {
	struct fermata_sqlite_call *outer;
	fermata_fiber *fiber; /* owner of the list that has the call; NULL = the handler has finished, and a PHP Fiber continues the
						   * call */
	connection *at; /* NULL = the connection is not a handler's */
	uint64_t since_ns; /* start of the time slice; 0 = not checked yet */
	uint32_t pages;
	bool has_taken; /* the call has acquired the guard and has to release it */
	bool is_whole; /* no other fiber may run before the call finishes */
	bool is_end; /* the call ends a statement, and may wait although PHP is freeing the statement */
	const fermata_fiber *taker;
};

/* A statement whose rows a handler or task has not read completely. */
typedef struct reading {
	const fermata_fiber *fiber; /* compared, never dereferenced; NULL = the handler has finished: no rows until the next reset */
	uint32_t object; /* handle of PDO's statement object, which may have been freed; 0 = unknown, or SQLite3 */
	bool is_sqlite3;
} reading;

static HashTable connections; /* by address of the database */
static HashTable readings; /* by address of the statement */
static const fermata_fiber ended_owner; /* placeholder for a finished handler while a PHP Fiber is suspended inside the connection */
static HashTable blobs; /* by address of a BLOB stream: its database */
typedef struct slot_of_sqlite {
	struct fermata_sqlite_call *innermost; /* innermost running call of the fiber; NULL = none */
} slot_of_sqlite;

static fermata_part part;
FERMATA_SLOT(slot_of_sqlite, part)

static fermata_fiber ender; /* owner of connections that a task is about to clean up */
static bool is_ready, is_settling;
static bool may_report; /* a connection may have a failure that has to be reported to a handler */
static uint32_t calls_len; /* number of running calls of all fibers */

static bool enter(struct fermata_sqlite_call *it, database *db);
static void leave(struct fermata_sqlite_call *it);
static bool may_commit(statement *self);
static int finalize_later(void *it);
static int reset_later(void *it);
static int end_now(statement *self, int (*by)(statement *it), const fermata_fiber *whose);
static bool report(connection *at, int result);

/* Connections */

static connection *find(const database *db)
{
	return is_ready && db ? zend_hash_index_find_ptr(&connections, (zend_ulong)(uintptr_t)db) : NULL;
}

static int progress(void *unused);

static connection *find_or_add(database *db)
{
	connection *at = find(db);
	if (UNEXPECTED(!at)) {
		at = pecalloc(1, sizeof(connection), true);
		at->db = db;
		zend_hash_index_update_ptr(&connections, (zend_ulong)(uintptr_t)db, at);
		sqlite.on_progress(db, PROGRESS_INSTRUCTIONS, progress, NULL);
	}
	return at;
}

static void forget(connection *at)
{
	zend_hash_index_del(&connections, (zend_ulong)(uintptr_t)at->db);
	fermata_guard_drop((uintptr_t)at->db);
	pefree(at, true);
}

/* Returns true if another fiber is inside the connection, or was inside when a fatal error ended it. */
static bool is_anothers(const connection *at)
{
	return at && at->inside && (at->inside != fermata_this_fiber() || fermata_is_retired());
}

bool fermata_sqlite_is_connection(uintptr_t key)
{
	return is_ready && zend_hash_index_exists(&connections, (zend_ulong)key);
}

bool fermata_sqlite_has_transaction(uintptr_t key)
{
	const connection *at = is_ready ? zend_hash_index_find_ptr(&connections, (zend_ulong)key) : NULL;
	return at && !sqlite.is_autocommit(at->db);
}

/* Records the current file and line for the log. Of a long path, only the end is stored. */
static ZEND_COLD void note_transaction(connection *at)
{
	const zend_string *file = zend_get_executed_filename_ex();
	size_t skipped = file && ZSTR_LEN(file) >= PLACE_BYTES_MAX ? ZSTR_LEN(file) - PLACE_BYTES_MAX + 1 : 0;
	fermata_copy(at->begun_in, PLACE_BYTES_MAX, "", file ? (FmStr){ZSTR_VAL(file) + skipped, ZSTR_LEN(file) - skipped}
		: FERMATA_LITERAL("PHP itself"));
	at->begun_line = MAX(zend_get_executed_lineno(), 1);
}

/* Temporary tables */

static int take_first(void *list, int columns, char **values, char **names)
{
	if (columns && values[0]) {
		smart_str_appendl(list, values[0], strlen(values[0]) + 1);
	}
	return 0;
}

/* Returns the values of a query's first column, each terminated by a NUL byte. */
static smart_str ask_all(database *db, const char *text)
{
	smart_str list = {0};
	sqlite.exec(db, text, (void *)take_first, &list, NULL);
	return list;
}

static bool has_temporary(database *db)
{
	smart_str found = ask_all(db, "SELECT 1 FROM sqlite_temp_master LIMIT 1");
	bool has_any = found.s != NULL;
	smart_str_free(&found);
	return has_any;
}

static void run_each(database *db, const char *list)
{
	smart_str all = ask_all(db, list);
	const char *end = all.s ? ZSTR_VAL(all.s) + ZSTR_LEN(all.s) : NULL;
	for (const char *at = all.s ? ZSTR_VAL(all.s) : NULL; at < end; at += strlen(at) + 1) {
		sqlite.exec(db, at, NULL, NULL, NULL);
	}
	smart_str_free(&all);
}

/* Drops temporary tables. If a statement is reading a table, only its rows are deleted. Returns false if some rows may remain. */
static bool drop_temporary(database *db)
{
	/* With foreign keys on, tables would have to be dropped in a certain order, and tables that refer to each other could not be
	 * dropped. */
	smart_str keys = ask_all(db, "PRAGMA foreign_keys");
	bool has_keys = keys.s && ZSTR_VAL(keys.s)[0] == '1';
	smart_str_free(&keys);
	if (UNEXPECTED(has_keys)) {
		sqlite.exec(db, "PRAGMA foreign_keys = OFF", NULL, NULL, NULL);
	}
	run_each(db, "SELECT 'DROP '||type||' IF EXISTS temp.\"'||replace(name,'\"','\"\"')||'\"' FROM sqlite_temp_master "
		"WHERE type IN ('trigger','view','table') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'");
	run_each(db, "SELECT 'DELETE FROM temp.\"'||replace(name,'\"','\"\"')||'\"' FROM sqlite_temp_master WHERE type = 'table'");
	if (UNEXPECTED(has_keys)) {
		sqlite.exec(db, "PRAGMA foreign_keys = ON", NULL, NULL, NULL);
	}
	return !has_temporary(db);
}

bool fermata_sqlite_keeps(uintptr_t key)
{
	connection *at = is_ready ? zend_hash_index_find_ptr(&connections, (zend_ulong)key) : NULL;
	if (!at) {
		return false;
	}
	if (UNEXPECTED(at->first) && !at->inside) {
		return true;
	}
	if (UNEXPECTED(at->has_temporary) && !at->inside && (at->has_temporary = has_temporary(at->db))) {
		return true;
	}
	if (EXPECTED(sqlite.is_autocommit(at->db))) {
		at->begun_line = 0;
		return false;
	}
	if (!at->begun_line) {
		note_transaction(at);
	}
	return true;
}

static ZEND_COLD void log_rolled_back(const connection *at, const fermata_fiber *fiber, bool is_over)
{
	char line[32], text[PLACE_BYTES_MAX + 160];
	snprintf(line, sizeof(line), ":%u", at->begun_line);
	size_t len = fermata_copy(text, sizeof(text), fiber->future ? "a task" : "a handler", FERMATA_LITERAL(
		" has ended in the middle of a SQLite transaction, which was begun in "));
	len += fermata_copy(text + len, sizeof(text) - len, at->begun_in, (FmStr){line, strlen(line)});
	len += fermata_copy(text + len, sizeof(text) - len, is_over ? " and is rolled back" : " and could not be rolled back",
		FERMATA_LITERAL(""));
	/* That the client has disconnected is no error of the handler. */
	bool is_usual = is_over && fiber->client && fiber->client->gone;
	fm_worker_log(fermata.worker, is_usual ? FERMATA_LOG_INFO : FERMATA_LOG_WARNING, (FmStr){text, len});
}

static ZEND_COLD void roll_back(connection *at, const fermata_fiber *fiber)
{
	sqlite.exec(at->db, "ROLLBACK", NULL, NULL, NULL);
	bool is_over = sqlite.is_autocommit(at->db);
#ifdef HAVE_PDO_OF_PHP
	if (is_over && at->pdo) {
		((pdo_dbh_t *)at->pdo)->in_txn = false;
	}
#endif
	log_rolled_back(at, fiber, is_over);
	at->begun_line = 0;
}

/* Ends the pending statements in order. Unless `is_now`, stops at the first statement that would have to wait for readers. */
static void end_later(connection *at, bool is_now)
{
	for (later *first; (first = at->first);) {
		bool is_statement = first->by == finalize_later || first->by == reset_later;
		if (is_statement && !is_now && may_commit(first->it)) {
			break;
		}
		at->first = first->next;
		if (is_statement) {
			end_now(first->it, first->by == finalize_later ? sqlite.finalize : sqlite.reset, first->whose);
		} else {
			first->by(first->it);
		}
		pefree(first, true);
	}
}

/* Closes the connection if PHP has closed it and no statement is pending. Returns true if it is then closed. */
static bool close_if_due(connection *at)
{
	int (*by)(database *db) = at->closes;
	database *db = at->db;
	if (EXPECTED(!by || at->first)) {
		return false;
	}
	forget(at);
	by(db);
	return true;
}

/* Task that cleans up for a handler that has finished at a point where it could not wait. */
static ZEND_NAMED_FUNCTION(end_next)
{
	struct fermata_sqlite_call call;
	connection *at, *left = NULL;
	ZEND_HASH_FOREACH_PTR(&connections, at) {
		if (at->is_left) {
			left = at;
			break;
		}
	} ZEND_HASH_FOREACH_END();
	if (!left) {
		return;
	}
	database *db = left->db;
	left->is_left = false;
	fermata_guard_leave_to((uintptr_t)db, fermata_this_fiber());
	if (EXPECTED(enter(&call, db))) {
		call.is_end = true;
		leave(&call);
	}
	if ((left = find(db))) {
		/* Statements are pending here only if the worker is stopping. */
		end_later(left, true);
		if (!close_if_due(left)) {
			fermata_sqlite_roll_back((uintptr_t)db, fermata_this_fiber());
			fermata_guard_release((uintptr_t)db);
		}
	}
}

static ZEND_COLD bool leave_to_task(connection *at)
{
	if (!fermata_guard_begin_task(end_next)) {
		return false;
	}
	at->is_left = true;
	fermata_guard_leave_to((uintptr_t)at->db, &ender);
	return true;
}

bool fermata_sqlite_roll_back(uintptr_t key, const fermata_fiber *fiber)
{
	connection *at = is_ready ? zend_hash_index_find_ptr(&connections, (zend_ulong)key) : NULL;
	if (!at || at->inside) {
		return false;
	}
	if (UNEXPECTED(at->first)) {
		end_later(at, false);
		if (at->first && leave_to_task(at)) {
			return true;
		}
		end_later(at, true);
		if (close_if_due(at)) {
			return true;
		}
	}
	if (!sqlite.is_autocommit(at->db)) {
		roll_back(at, fiber);
	}
	if (UNEXPECTED(at->has_temporary)) {
		at->has_temporary = !drop_temporary(at->db);
		if (UNEXPECTED(at->has_temporary)) {
			/* The next handler that finishes tries again. */
			fm_worker_log(fermata.worker, FERMATA_LOG_WARNING, FERMATA_LITERAL("a temporary table of a SQLite connection "
				"that handlers share could not be dropped when its handler ended: a statement is reading it, or the program's authorizer forbids it"));
		}
	}
	return false;
}

/* Connections of objects. The structures are private to the extensions, but their first members are the same in all versions. */

static uintptr_t key_of(database *const *place)
{
	database *db = place ? *place : NULL;
	return find(db) ? (uintptr_t)db : 0;
}

uintptr_t fermata_sqlite_key_of_pdo(const void *handle)
{
#ifdef HAVE_PDO_OF_PHP
	const pdo_dbh_t *dbh = handle;
	if (is_ready && dbh && dbh->driver_data && dbh->driver && strcmp(dbh->driver->driver_name, "sqlite") == 0) {
		database *const *place = dbh->driver_data;
		connection *at = find(*place);
		if (EXPECTED(at)) {
			at->pdo = (void *)handle;
			return (uintptr_t)at->db;
		}
	}
#endif
	return 0;
}

/* First members of the structure that the extension sqlite3 declares. */
typedef struct sqlite3_object {
	int is_open;
	database *db;
} sqlite3_object;

static const void *structure_of(const zend_object *object)
{
	return (const char *)object - object->handlers->offset;
}

static uintptr_t key_of_sqlite3(const sqlite3_object *it)
{
	return it ? key_of(&it->db) : 0;
}

uintptr_t fermata_sqlite_key_of_object(zend_object *object)
{
	return key_of_sqlite3(structure_of(object));
}

uintptr_t fermata_sqlite_key_of_statement(zend_object *object)
{
	const struct { statement *it; const sqlite3_object *of; } *self = structure_of(object);
	return key_of_sqlite3(self->of);
}

uintptr_t fermata_sqlite_key_of_result(zend_object *object)
{
	const struct { const sqlite3_object *of; } *self = structure_of(object);
	return key_of_sqlite3(self->of);
}

/* Waiting inside */

static struct fermata_sqlite_call *innermost(void)
{
	return fermata_hook_is_loop() && fermata.handling && !fermata.forked ? slot(fermata_this_fiber())->innermost : NULL;
}

/* Returns true in functions of the extensions and in `foreach`, where a wait is safe. PHP also rolls back and closes when it frees
 * an object. No wait is allowed there, since another fiber could see the half-freed object. */
static bool is_asked_by_program(void)
{
	static const char *const modules[] = {"PDO", "pdo_sqlite", "sqlite3"};
	const zend_execute_data *frame = EG(current_execute_data);
	if (!frame || !frame->func) {
		return false;
	}
	if (ZEND_USER_CODE(frame->func->common.type)) {
		uint8_t opcode = frame->opline ? frame->opline->opcode : ZEND_NOP;
		return opcode == ZEND_FE_FETCH_R || opcode == ZEND_FE_RESET_R || opcode == ZEND_FE_FETCH_RW || opcode == ZEND_FE_RESET_RW;
	}
	const zend_module_entry *module = frame->func->internal_function.module;
	for (size_t i = 0; module && i < sizeof(modules) / sizeof(*modules); i++) {
		if (strcmp(module->name, modules[i]) == 0) {
			return true;
		}
	}
	return false;
}

/* Returns true if a running call must not wait. Connections with a shared cache lock each other with mutexes of this thread, so
 * another such connection would block in the kernel. The fiber may be inside several connections, if a userland function has
 * called another one. */
static bool forbids_wait(const fermata_fiber *fiber)
{
	const struct fermata_sqlite_call *it = slot(fiber)->innermost;
	while (it && !it->is_whole && !it->at->never_waits) {
		it = it->outer;
	}
	return it;
}

static bool may_wait(const struct fermata_sqlite_call *it)
{
	return it && (it->is_end || is_asked_by_program()) && fermata_hook_may_wait();
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Lets other handlers run at the end of the time slice. Returns false after an exception. */
static bool give_way(struct fermata_sqlite_call *it)
{
	uint64_t now = now_ns();
	if (!it->since_ns) {
		it->since_ns = now;
	}
	if (now - it->since_ns < MAX(SLICE_NS / calls_len, SLICE_NS_MIN)) {
		return true;
	}
	bool is_cut = false;
	if (may_wait(it)) {
		fermata_fibers_end_turn();
		is_cut = fermata_hook_wait(0) == FERMATA_WAIT_FAILED;
	}
	it->since_ns = now_ns();
	return !is_cut;
}

/* SQLite's progress callback. Returns true to interrupt the query. */
static int progress(void *unused)
{
	struct fermata_sqlite_call *it = innermost();
	return it && (fermata_hook_is_cut() || !give_way(it));
}

/* Returns true if a waiting fiber of this worker may have the lock: it is inside a call, in a transaction, or has unread rows. */
static bool is_anybody_inside(void)
{
	const connection *at;
	const reading *one;
	ZEND_HASH_FOREACH_PTR(&readings, one) {
		if (one->fiber && one->fiber != fermata_this_fiber()) {
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_PTR(&connections, at) {
		if (is_anothers(at) || fermata_guard_is_anothers((uintptr_t)at->db)) {
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	return false;
}

static int hooked_sleep(layer *self, int us)
{
	struct fermata_sqlite_call *it = innermost();
	if (it && UNEXPECTED(fermata_hook_is_cut())) {
		return us;
	}
	if (!may_wait(it)) {
		/* The owner of the lock may be a fiber that cannot run during the sleep. Without the sleep, SQLite's busy timeout ends
		 * sooner. */
		bool is_ours = is_ready && fermata.worker && fermata_hook_is_loop() && !fermata.forked && is_anybody_inside();
		return is_ours ? us : sqlite.sleep(self, us);
	}
	uint64_t due_ms = fermata_ms_to_due(us / US_PER_MS);
	while (fermata_hook_wait(due_ms) == FERMATA_WAIT_WOKEN) {
	}
	it->since_ns = 0;
	return us;
}

/* Runs a file operation in a thread of the core. The operation uses SQLite's own descriptor, since closing a duplicate would
 * release the locks on the file. Only the worker's shutdown ends this wait, since the operation must not be left incomplete.
 * Returns false if the caller has to make the call. */
static bool work(struct fermata_sqlite_call *it, const FmFileCall *call, int64_t *answer)
{
	fermata_fiber *self = fermata_this_fiber();
	fermata_scope shield = {.owner = self, .inside = EG(active_fiber), .outer = self->scope, .is_shield = true, .is_own = true,
		.due_ms = FERMATA_NEVER};
	self->scope = &shield;
	fermata_touch(self, part);
	bool done = fermata_hook_file_work(call, answer);
	for (fermata_scope **at = &self->scope; *at; at = &(*at)->outer) {
		if (*at == &shield) {
			*at = shield.outer;
			break;
		}
	}
	it->since_ns = 0;
	return done;
}

static ssize_t hooked_pread(int fd, void *buf, size_t len, off_t at)
{
	struct fermata_sqlite_call *it = innermost();
#ifdef RWF_NOWAIT
	if (it) {
		struct iovec all = {buf, len};
		ssize_t got = preadv2(fd, &all, 1, at, RWF_NOWAIT);
		if (EXPECTED(got >= 0)) {
			if (UNEXPECTED(++it->pages % PROGRESS_PAGES == 0)) {
				give_way(it);
			}
			return got;
		}
		if (errno == EAGAIN && may_wait(it)) {
			int64_t answer;
			work(it, &(FmFileCall){.kind = FM_CALL_LOAD_HELD, .fd = fd, .offset = (uint64_t)at, .len = len}, &answer);
		}
	}
#endif
	return pread(fd, buf, len, at);
}

static ssize_t hooked_pwrite(int fd, const void *buf, size_t len, off_t at)
{
	ssize_t written = pwrite(fd, buf, len, at);
	struct fermata_sqlite_call *it = len >= PAGE_BYTES_MIN && written == (ssize_t)len ? innermost() : NULL;
	if (it && UNEXPECTED(++it->pages % PROGRESS_PAGES == 0)) {
		give_way(it);
	}
	return written;
}

static int sync_file(int fd, bool data_only)
{
	struct fermata_sqlite_call *it = innermost();
	int64_t answer;
	if (may_wait(it) && work(it, &(FmFileCall){.kind = FM_CALL_SYNC_HELD, .fd = fd, .flags = data_only}, &answer)) {
		if (answer < 0) {
			errno = (int)-answer;
			return -1;
		}
		return 0;
	}
	return data_only ? fdatasync(fd) : fsync(fd);
}

static int hooked_fdatasync(int fd)
{
	return sync_file(fd, true);
}

static int hooked_fsync(int fd)
{
	return sync_file(fd, false);
}

/* Calls */

/* Enters a connection, and waits for it if necessary. Returns false if another fiber uses the connection and this fiber cannot
 * wait. */
static bool enter(struct fermata_sqlite_call *it, database *db)
{
	it->at = NULL;
	it->is_whole = it->is_end = false;
	if (UNEXPECTED(!fermata_hook_is_loop() || !db)) {
		return true;
	}
	if (UNEXPECTED(!fermata.handling || fermata.forked)) {
		return !is_anothers(find(db));
	}
	connection *at = find_or_add(db);
	if (UNEXPECTED(!fermata_guard_take((uintptr_t)db, &it->has_taken, false))) {
		bool may_queue = is_asked_by_program() && fermata_hook_may_wait();
		if (may_queue && fermata_guard_queue((uintptr_t)db, false) != FERMATA_TURN_MINE) {
			return false;
		}
		it->has_taken = may_queue;
		if (!may_queue && is_anothers(at)) {
			fermata_refuse_shared("connection to SQLite");
			return false;
		}
	}
	it->at = at;
	it->fiber = fermata_this_fiber();
	it->taker = it->fiber;
	fermata_touch(it->fiber, part);
	it->outer = slot(it->fiber)->innermost;
	it->since_ns = 0;
	it->pages = 0;
	at->inside = fermata_this_fiber();
	at->depth++;
	calls_len++;
	slot(it->fiber)->innermost = it;
	return true;
}

/* Enters a connection for a call that reports a number of changed rows. First ends pending statements, which would change that
 * number. */
static bool enter_call(struct fermata_sqlite_call *it, database *db)
{
	if (UNEXPECTED(!enter(it, db))) {
		return false;
	}
	if (UNEXPECTED(it->at && it->at->first && it->at->depth == 1 && may_wait(it))) {
		end_later(it->at, true);
		if (UNEXPECTED(EG(exception))) {
			leave(it);
			return false;
		}
	}
	if (UNEXPECTED(it->at && it->at->unreported && it->at->unreported == fermata_this_fiber() && may_wait(it))) {
		it->at->unreported = NULL;
		report(it->at, it->at->unreported_result);
		if (EG(exception)) {
			leave(it);
			return false;
		}
	}
	return true;
}

static void leave(struct fermata_sqlite_call *it)
{
	connection *at = it->at;
	if (UNEXPECTED(!at)) {
		return;
	}
	if (UNEXPECTED(at->first) && at->depth == 1) {
		end_later(at, at->is_closed || may_wait(it));
	}
	/* Calls of a suspended PHP Fiber may be before this one in the list. */
	for (struct fermata_sqlite_call **place = it->fiber ? &slot(it->fiber)->innermost : NULL; place && *place; place = &(*place)->outer) {
		if (*place == it) {
			*place = it->outer;
			break;
		}
	}
	calls_len--;
	uintptr_t key = (uintptr_t)at->db;
	if (--at->depth == 0) {
		at->inside = NULL;
		if (UNEXPECTED(at->is_closed)) {
			forget(at);
			return;
		}
		if (UNEXPECTED(close_if_due(at))) {
			return;
		}
	}
	if (it->has_taken) {
		fermata_guard_give_back(key, it->taker, fermata_sqlite_keeps);
	}
}

/* Called when the handler of `fiber` has finished, since the fiber's next handler is unrelated. */
static void forget_whose(const fermata_fiber *fiber)
{
	connection *at;
	may_report = false;
	ZEND_HASH_FOREACH_PTR(&connections, at) {
		for (later *one = at->first; one; one = one->next) {
			one->whose = one->whose == fiber ? NULL : one->whose;
			may_report |= one->whose != NULL;
		}
		at->unreported = at->unreported == fiber ? NULL : at->unreported;
		may_report |= at->unreported != NULL;
	} ZEND_HASH_FOREACH_END();
}

static void on_clean_up(fermata_fiber *fiber)
{
	if (UNEXPECTED(is_ready && may_report)) {
		forget_whose(fiber);
	}
	while (UNEXPECTED(slot(fiber)->innermost)) {
		/* The fiber's next handler is unrelated. */
		connection *at = slot(fiber)->innermost->at;
		at->inside = &ended_owner;
		fermata_guard_leave_to_ended_owner((uintptr_t)at->db, fiber);
		slot(fiber)->innermost->fiber = NULL;
		slot(fiber)->innermost = slot(fiber)->innermost->outer;
	}
}

/* Calls for a connection that another fiber uses */

static void add_later(connection *at, int (*by)(void *it), void *it)
{
	later *one = pemalloc(sizeof(later), true);
	bool has_handler = fermata.handling && !is_settling && !at->is_left;
	*one = (later){NULL, by, it, has_handler ? fermata_this_fiber() : NULL};
	if (has_handler) {
		fermata_touch(fermata_this_fiber(), part);
		may_report = true;
	}
	if (at->first) {
		at->last->next = one;
	} else {
		at->first = one;
	}
	at->last = one;
}

/* Returns true if another fiber is inside the connection. That fiber then makes the call when it leaves. */
static bool put_off(database *db, int (*by)(void *it), void *it)
{
	connection *at = fermata_hook_is_loop() ? find(db) : NULL;
	if (EXPECTED(!is_anothers(at))) {
		return false;
	}
	add_later(at, by, it);
	return true;
}

/* Returns true if ending the statement may commit its writes, as for INSERT … RETURNING with unread rows. The commit waits for
 * readers of the file. */
static bool may_commit(statement *self)
{
	return self && is_ready && UNEXPECTED(sqlite.is_busy(self) && !sqlite.is_readonly(self))
		&& sqlite.is_autocommit(sqlite.database_of(self));
}

/* Returns true if PHP frees the object between two opcodes of a script, or after a handler has returned. Inside other internal
 * functions, a hash table may be half changed. */
static bool is_freed_between(void)
{
	const zend_execute_data *frame = EG(current_execute_data);
	return !frame || !frame->func || ZEND_USER_CODE(frame->func->common.type)
		|| frame->func->internal_function.module == fermata_ce_request->info.internal.module;
}

/* Returns true if a SQLite3 object throws exceptions. Its structure is private to the extension. */
static bool throws(const zend_object *object)
{
	return *((const bool *)object - FERMATA_SQLITE3_THROWS_BEFORE(object));
}

static zend_class_entry *class_of(const char *name, size_t len)
{
	zend_class_entry *it = zend_hash_str_find_ptr(CG(class_table), name, len);
	return it ? it : zend_ce_exception;
}

/* Raises the driver's exception or warning for a write that was undone. Returns true if it was raised. */
static ZEND_COLD bool raise_undone(connection *at, int result)
{
	static const char *const undone = "what a statement has written is undone, since SQLite could not commit it";
	const char *text = sqlite.text_of(result);
#ifdef HAVE_PDO_OF_PHP
	pdo_dbh_t *pdo = at->pdo;
	if (pdo) {
		bool is_constraint = result == SQLITE_CONSTRAINT;
		const char *state = is_constraint ? "23000" : "HY000";
		memcpy(pdo->error_code, state, sizeof(pdo->error_code));
		if (pdo->error_mode == PDO_ERRMODE_SILENT) {
			return false;
		}
		char message[PLACE_BYTES_MAX];
		snprintf(message, sizeof(message), "SQLSTATE[%s]: %s: %d %s: %s", state,
			is_constraint ? "Integrity constraint violation" : "General error", result, text, undone);
		if (pdo->error_mode == PDO_ERRMODE_WARNING) {
			zend_error(E_WARNING, "%s", message);
			return true;
		}
		zend_class_entry *class = class_of(ZEND_STRL("pdoexception"));
		zend_object *exception = zend_throw_exception(class, message, 0);
		zval info;
		array_init(&info);
		add_next_index_string(&info, state);
		add_next_index_long(&info, result);
		add_next_index_string(&info, text);
		zend_update_property(class, exception, ZEND_STRL("errorInfo"), &info);
		zend_update_property_string(class, exception, ZEND_STRL("code"), state);
		zval_ptr_dtor(&info);
		return true;
	}
#endif
	const zend_object *object = fermata_guard_find_object((uintptr_t)at->db);
	const fermata_root *root = object ? fermata_guard_root(object) : NULL;
	if (root && root->kind == FERMATA_ROOT_CONNECTION && throws(object)) {
		zend_throw_exception_ex(class_of(ZEND_STRL("sqlite3exception")), result, "%s: %s", text, undone);
	} else {
		zend_error(E_WARNING, "SQLite3: %s: %s", text, undone);
	}
	return true;
}

static bool is_in(const char *class, const char *function)
{
	const zend_execute_data *frame = EG(current_execute_data);
	const zend_function *it = frame ? frame->func : NULL;
	return it && it->type == ZEND_INTERNAL_FUNCTION && it->common.scope && zend_string_equals_cstr(it->common.scope->name, class, strlen(class))
		&& zend_string_equals_cstr(it->common.function_name, function, strlen(function));
}

/* Reports a failure to the handler, if it is in a function of the extension, or if it releases its last variable for the
 * statement, as for an exception in a destructor. Returns false if neither applies. */
static ZEND_COLD bool report(connection *at, int result)
{
	bool is_handler = fermata_hook_is_loop() && fermata.handling && !fermata.forked && !fermata_is_retired() && !is_settling
		&& !at->is_left && !fermata_fibers_is_unwinding();
	return is_handler && (is_asked_by_program() || is_freed_between()) && fermata_hook_may_wait() && raise_undone(at, result);
}

/* Called if a write failed when its statement ended. */
static ZEND_COLD void note_undone(database *db, int result, const fermata_fiber *whose)
{
	connection *at = fermata_hook_is_loop() ? find(db) : NULL;
	result &= SQLITE_PRIMARY;
	if (!fermata.worker || fermata.forked) {
		return;
	}
	if (at && whose && whose == fermata_this_fiber()) {
		/* SQLite3Stmt::reset() reports the failure itself. */
		if (is_in("SQLite3Stmt", "reset") || report(at, result)) {
			return;
		}
	} else if (at && whose && !at->unreported) {
		at->unreported = whose;
		at->unreported_result = result;
	}
	const char *text = sqlite.text_of(result);
	char line[PLACE_BYTES_MAX];
	size_t len = fermata_copy(line, sizeof(line), "what a statement of SQLite has written is undone (", (FmStr){text, strlen(text)});
	len += fermata_copy(line + len, sizeof(line) - len, "): its rows were not all read, and it could not be committed when it was "
		"closed or freed; read the rows of INSERT, UPDATE and DELETE … RETURNING to their end", FERMATA_LITERAL(""));
	fm_worker_log(fermata.worker, FERMATA_LOG_WARNING, (FmStr){line, len});
}

static int end_now(statement *self, int (*by)(statement *it), const fermata_fiber *whose)
{
	database *db = may_commit(self) ? sqlite.database_of(self) : NULL;
	int result = by(self);
	if (UNEXPECTED(db && result != SQLITE_OK)) {
		note_undone(db, result, whose);
	}
	return result;
}

static int finalize_later(void *it)
{
	return end_now(it, sqlite.finalize, NULL);
}

static int reset_later(void *it)
{
	return end_now(it, sqlite.reset, NULL);
}

/* Postpones the end of a statement. The statement ends in the handler's next call, or in a task after the handler has finished,
 * since both can wait for readers. Until then the handler keeps the connection, as in a transaction. Returns false if there is no
 * handler, or another fiber has the connection. */
static ZEND_COLD bool owe(statement *self, int (*by)(statement *it))
{
	connection *at = fermata_hook_is_loop() && (fermata.handling || is_settling) && !fermata.forked && !fermata_is_retired()
		&& !fermata_fibers_is_unwinding() ? find(sqlite.database_of(self)) : NULL;
	bool is_new;
	if (!at || !(at->is_left || fermata_guard_take((uintptr_t)at->db, &is_new, false))) {
		return false;
	}
	add_later(at, by == sqlite.finalize ? finalize_later : reset_later, self);
	if (!at->is_left && is_new) {
		fermata_guard_give_back((uintptr_t)at->db, fermata_this_fiber(), fermata_sqlite_keeps);
	}
	return true;
}

static ZEND_COLD int end_write(statement *self, int (*by)(statement *it))
{
	struct fermata_sqlite_call call;
	database *db = sqlite.database_of(self);
	bool is_asked = is_asked_by_program(), is_inside = false;
	if (fermata_hook_is_loop() && fermata.handling && !fermata.forked
			&& (is_asked || (is_freed_between() && fermata_hook_may_wait()))) {
		/* If enter() fails, the statement ends without waiting, and PHP ignores the result. */
		is_inside = enter(&call, db);
	}
	if (!is_asked) {
		/* Another owner of the guard could enter the connection while this fiber waits. */
		bool is_mine = is_inside && fermata_guard_holder((uintptr_t)db) == fermata_this_fiber();
		if (is_inside) {
			call.is_end = is_mine;
		}
		if (!is_mine && owe(self, by)) {
			if (is_inside) {
				leave(&call);
			}
			return SQLITE_OK;
		}
	}
	int result = end_now(self, by, fermata.handling && !is_settling ? fermata_this_fiber() : NULL);
	if (is_inside) {
		leave(&call);
	}
	return result;
}

static int end_statement(statement *self, int (*by)(statement *it))
{
	return UNEXPECTED(may_commit(self)) ? end_write(self, by) : by(self);
}

/* Rows */

static reading *find_reading(const statement *self)
{
	return is_ready && fermata_hook_is_loop() ? zend_hash_index_find_ptr(&readings, (zend_ulong)(uintptr_t)self) : NULL;
}

static void forget_reading(const statement *self)
{
	if (is_ready && fermata_hook_is_loop()) {
		zend_hash_index_del(&readings, (zend_ulong)(uintptr_t)self);
	}
}

static void free_reading(zval *value)
{
	pefree(Z_PTR_P(value), true);
}

static bool is_asked_by_sqlite3(void)
{
	const zend_execute_data *frame = EG(current_execute_data);
	const zend_module_entry *module = frame && frame->func && !ZEND_USER_CODE(frame->func->common.type)
		? frame->func->internal_function.module : NULL;
	return module && strcmp(module->name, "sqlite3") == 0;
}

#ifdef HAVE_PDO_OF_PHP
/* Returns the SQLite statement of an object; NULL if the object is not PDO's, or has no SQLite statement. */
static const statement *statement_of_pdo(zend_object *object)
{
	const fermata_root *root = fermata_guard_root(object);
	if (!root || !root->is_pdo || root->kind != FERMATA_ROOT_STATEMENT) {
		return NULL;
	}
	pdo_stmt_t *it = php_pdo_stmt_fetch_object(object);
	const struct { const void *handle; const statement *it; } *private = it->driver_data;
	/* The cycle collector may have freed the connection before the statement. */
	zend_object *handle = fermata_pdo_connection(it);
	bool has_connection = handle && !(OBJ_FLAGS(handle) & IS_OBJ_FREE_CALLED);
	return private && has_connection && fermata_sqlite_key_of_pdo(it->dbh) ? private->it : NULL;
}

static pdo_stmt_t *pdo_statement_at(uint32_t number, const statement *self)
{
	zend_object *object = number < EG(objects_store).top ? EG(objects_store).object_buckets[number] : NULL;
	bool is_its = number && object && IS_OBJ_VALID(object) && statement_of_pdo(object) == self;
	return is_its ? php_pdo_stmt_fetch_object(object) : NULL;
}
#endif

static void note_object(reading *one, const statement *self)
{
#ifdef HAVE_PDO_OF_PHP
	const zend_execute_data *frame = EG(current_execute_data);
	if (!one->object && !one->is_sqlite3 && frame && Z_TYPE(frame->This) == IS_OBJECT && statement_of_pdo(Z_OBJ(frame->This)) == self) {
		one->object = Z_OBJ(frame->This)->handle;
	}
#endif
}

static void note_reader(reading *one)
{
	one->fiber = fermata_this_fiber();
	fermata_guards_note(fermata_this_fiber());
}

/* Records that a statement has unread rows. SQLite3 executes a statement, resets it, and then fetches the rows; after the last
 * row, it runs the statement again. */
static void note_step(const statement *self, int result)
{
	reading *one = find_reading(self);
	if (!one && (result == SQLITE_ROW || is_asked_by_sqlite3())) {
		one = pecalloc(1, sizeof(reading), true);
		one->is_sqlite3 = is_asked_by_sqlite3();
		zend_hash_index_update_ptr(&readings, (zend_ulong)(uintptr_t)self, one);
	}
	if (!one) {
		return;
	}
	if (result != SQLITE_ROW && !one->is_sqlite3) {
		forget_reading(self);
		return;
	}
	note_object(one, self);
	note_reader(one);
}

/* Returns false if the handler that had the rows has finished, since no other handler receives them. */
static bool may_step(const statement *self)
{
	reading *one = find_reading(self);
	if (EXPECTED(!one)) {
		return true;
	}
	if (one->fiber) {
		/* Record the reader before the step. While this fiber waits in the step, the handler that had the rows may finish, and its
		 * cleanup would drop the rows. */
		note_reader(one);
	}
	return one->fiber;
}

/* Logs a write that fails because of another handler's unread rows. SQLite does not call the busy handler then, since two
 * connections that read and wait to write would deadlock. */
static ZEND_COLD void log_readers(const database *db)
{
	for (uint32_t i = 0; i < readings.nNumUsed; i++) {
		const Bucket *bucket = &readings.arData[i];
		const reading *one = Z_TYPE(bucket->val) == IS_UNDEF ? NULL : Z_PTR(bucket->val);
		if (one && one->fiber && one->fiber != fermata_this_fiber() && sqlite.database_of((statement *)(uintptr_t)bucket->h) == db) {
			fm_worker_log(fermata.worker, FERMATA_LOG_WARNING, FERMATA_LITERAL("a write of SQLite is refused while another "
				"connection writes: another handler has rows to read of the same connection; call fetchAll() or closeCursor(), or use a Pool"));
			return;
		}
	}
}

/* Resets a statement that has failed. A statement that failed to get a lock keeps its position and its locks, and no code
 * continues it. The extensions keep it until it is executed again or freed, and PDO keeps the statement of query() until the next
 * query. A failed statement accepts no values before a reset, but PDO resets it only after a row or the end of the rows. */
static ZEND_COLD void end_failed(statement *self)
{
	bool is_locked = sqlite.is_busy(self);
	if (is_locked && !sqlite.is_readonly(self) && fermata.worker) {
		log_readers(sqlite.database_of(self));
	}
	if (is_locked || !is_asked_by_sqlite3()) {
		sqlite.reset(self);
	}
}

/* Reports a failed row in fetchAll(), which treats it as the end of the rows and then commits the writes. */
static ZEND_COLD void report_fetch_all(const struct fermata_sqlite_call *it, const statement *self, int result)
{
	if (!FERMATA_FETCH_ALL_TELLS && !sqlite.is_readonly((statement *)self) && is_in("PDOStatement", "fetchAll")) {
		report(it->at, result & SQLITE_PRIMARY);
	}
}

static int hooked_step(statement *self)
{
	struct fermata_sqlite_call call;
	/* PDO has already reset the statement, and its writes are undone, so the statement must not run again. */
	if (UNEXPECTED(EG(exception) && fermata_hook_is_loop() && fermata.handling && is_asked_by_program())) {
		return SQLITE_BUSY;
	}
	if (UNEXPECTED(!enter_call(&call, sqlite.database_of(self)))) {
		return SQLITE_BUSY;
	}
	int result = SQLITE_DONE;
	if (UNEXPECTED(!call.at)) {
		result = sqlite.step(self);
	} else if (EXPECTED(may_step(self))) {
		result = sqlite.step(self);
		note_step(self, result);
		if (UNEXPECTED(result != SQLITE_ROW && result != SQLITE_DONE)) {
			end_failed(self);
			report_fetch_all(&call, self, result);
		}
	}
	leave(&call);
	return result;
}

/* Drops the unread rows of a statement. For PDO, the statement is then as after closeCursor(). */
static ZEND_COLD void drop_rows(reading *one, statement *self)
{
	one->fiber = NULL;
#ifdef HAVE_PDO_OF_PHP
	pdo_stmt_t *it = one->is_sqlite3 ? NULL : pdo_statement_at(one->object, self);
	if (it) {
		it->executed = 0;
		forget_reading(self);
	}
#endif
	if (!put_off(sqlite.database_of(self), reset_later, self)) {
		end_statement(self, sqlite.reset);
	}
}

#ifdef HAVE_PDO_OF_PHP
/* Finds the PDO objects of statements whose object is unknown, in one pass over all objects. */
static ZEND_COLD void find_objects(const fermata_fiber *fiber)
{
	for (uint32_t i = 1; i < EG(objects_store).top; i++) {
		zend_object *object = EG(objects_store).object_buckets[i];
		const statement *self = IS_OBJ_VALID(object) ? statement_of_pdo(object) : NULL;
		reading *one = self ? find_reading(self) : NULL;
		if (one && one->fiber == fiber && !one->is_sqlite3) {
			one->object = i;
		}
	}
}
#endif

void fermata_sqlite_drop_rows(const fermata_fiber *fiber)
{
	bool is_any = is_ready;
	is_settling = true;
	/* A userland aggregate may finish during the loop and change the table, so repeat until no statement is found. */
	while (UNEXPECTED(is_any)) {
#ifdef HAVE_PDO_OF_PHP
		bool has_objects = false;
#endif
		is_any = false;
		/* Access entries by index, since the table may be reallocated. */
		for (uint32_t i = 0; i < readings.nNumUsed; i++) {
			const Bucket *bucket = &readings.arData[i];
			reading *one = Z_TYPE(bucket->val) == IS_UNDEF ? NULL : Z_PTR(bucket->val);
			if (!one || one->fiber != fiber) {
				continue;
			}
#ifdef HAVE_PDO_OF_PHP
			if (!one->is_sqlite3 && !one->object && !has_objects) {
				find_objects(fiber);
				has_objects = true;
			}
#endif
			drop_rows(one, (statement *)(uintptr_t)bucket->h);
			is_any = true;
		}
	}
	is_settling = false;
}

void fermata_sqlite_move_rows(const fermata_fiber *from, fermata_fiber *to)
{
	reading *one;
	if (!is_ready) {
		return;
	}
	ZEND_HASH_FOREACH_PTR(&readings, one) {
		if (one->fiber == from) {
			one->fiber = to;
			fermata_guards_note(to);
		}
	} ZEND_HASH_FOREACH_END();
}

/* Returns true if connections opened with this text share a cache. They lock each other with mutexes of this thread, which cannot
 * wait for itself. */
static bool shares_cache(const char *text)
{
	return strcasestr(text, "cache=shared") != NULL;
}

/* Returns true if a query may create temporary tables. A false positive is harmless, since no table is found later. */
static bool makes_temporary(const char *text)
{
	return strcasestr(text, "create") && strcasestr(text, "temp");
}

static void look_at_text(const struct fermata_sqlite_call *it, const char *text)
{
	if (it->at && UNEXPECTED(shares_cache(text))) {
		it->at->never_waits = true;
	}
	if (it->at && UNEXPECTED(makes_temporary(text))) {
		it->at->has_temporary = true;
	}
}

static int hooked_exec(database *db, const char *text, void *each, void *data, char **error)
{
	struct fermata_sqlite_call call;
	if (UNEXPECTED(!enter_call(&call, db))) {
		return SQLITE_BUSY;
	}
	look_at_text(&call, text);
	int result = sqlite.exec(db, text, each, data, error);
	leave(&call);
	return result;
}

static int hooked_prepare(database *db, const char *text, int len, statement **self, const char **tail)
{
	struct fermata_sqlite_call call;
	if (UNEXPECTED(!enter_call(&call, db))) {
		*self = NULL;
		return SQLITE_BUSY;
	}
	/* The query may be ATTACH or CREATE, possibly after a comment. */
	const char *begin = text + strspn(text, " \t\r\n;");
	if (UNEXPECTED(*begin == 'a' || *begin == 'A' || *begin == 'c' || *begin == 'C' || *begin == '-' || *begin == '/')) {
		look_at_text(&call, begin);
	}
	int result = sqlite.prepare(db, text, len, self, tail);
	leave(&call);
	return result;
}

static int close_blob_later(void *it)
{
	return sqlite.blob_close(it);
}

/* Drops postponed calls for a statement that is being freed: a userland function that SQLite has called may free a statement whose
 * reset is pending. */
static void forget_later(database *db, const void *it)
{
	connection *at = fermata_hook_is_loop() ? find(db) : NULL;
	for (later **place = at ? &at->first : NULL, *last = NULL; place && *place;) {
		later *one = *place;
		if (one->it == it) {
			*place = one->next;
			at->last = one == at->last ? last : at->last;
			pefree(one, true);
		} else {
			last = one;
			place = &one->next;
		}
	}
}

static int hooked_finalize(statement *self)
{
	forget_reading(self);
	if (self) {
		forget_later(sqlite.database_of(self), self);
	}
	return UNEXPECTED(self && put_off(sqlite.database_of(self), finalize_later, self)) ? SQLITE_OK : end_statement(self, sqlite.finalize);
}

static int hooked_reset(statement *self)
{
	const reading *one = find_reading(self);
	if (one && (!one->is_sqlite3 || !one->fiber)) {
		forget_reading(self);
	}
	if (UNEXPECTED(self && put_off(sqlite.database_of(self), reset_later, self))) {
		return SQLITE_OK;
	}
	if (self) {
		forget_later(sqlite.database_of(self), self);
	}
	return end_statement(self, sqlite.reset);
}

static int close_database(database *db, int (*by)(database *db))
{
	connection *at = fermata_hook_is_loop() ? find(db) : NULL;
	if (UNEXPECTED(is_anothers(at))) {
		return SQLITE_BUSY;
	}
	if (at) {
		at->pdo = NULL;
		if (UNEXPECTED(at->first) && !at->depth) {
			if (fermata_guard_holder((uintptr_t)db)) {
				at->closes = by;
				return SQLITE_OK;
			}
			end_later(at, true);
		}
	}
	int result = by(db);
	if (at && result == SQLITE_OK) {
		if (UNEXPECTED(at->depth)) {
			at->is_closed = true;
		} else {
			forget(at);
		}
	}
	return result;
}

static int hooked_close(database *db)
{
	return close_database(db, sqlite.close);
}

static int hooked_close_later(database *db)
{
	return close_database(db, sqlite.close_later);
}

static int hooked_open(const char *name, database **db, int flags, const char *layer_name)
{
	int result = sqlite.open(name, db, flags, layer_name);
	if (*db && fermata_hook_is_loop()) {
		connection *at = find(*db);
		if (UNEXPECTED(at)) {
			/* The previous connection with this address was closed when its last statement was freed. */
			forget(at);
		}
		find_or_add(*db)->never_waits = (flags & SQLITE_OPEN_SHAREDCACHE) || (name && shares_cache(name));
	}
	return result;
}

/* Streams of BLOBs, and backups. PHP's functions keep pointers into the stream during such a call. So the call waits neither for
 * other fibers nor inside SQLite, where a page may be half read. */

static bool enter_whole(struct fermata_sqlite_call *it, database *db)
{
	if (fermata_hook_is_loop() && fermata.handling && !fermata.forked && UNEXPECTED(fermata_guard_is_anothers((uintptr_t)db))) {
		fermata_refuse_shared("connection to SQLite, or has begun a transaction of it");
		return false;
	}
	if (UNEXPECTED(!enter(it, db))) {
		return false;
	}
	it->is_whole = true;
	return true;
}

static database *database_of_blob(const blob *self)
{
	return is_ready && fermata_hook_is_loop() ? zend_hash_index_find_ptr(&blobs, (zend_ulong)(uintptr_t)self) : NULL;
}

static int hooked_blob_open(database *db, const char *name, const char *table, const char *column, int64_t row, int flags, blob **self)
{
	struct fermata_sqlite_call call;
	if (UNEXPECTED(!enter_whole(&call, db))) {
		*self = NULL;
		return SQLITE_BUSY;
	}
	int result = sqlite.blob_open(db, name, table, column, row, flags, self);
	leave(&call);
	if (*self && is_ready && fermata_hook_is_loop()) {
		zend_hash_index_update_ptr(&blobs, (zend_ulong)(uintptr_t)*self, db);
	}
	return result;
}

static int hooked_blob_read(blob *self, void *buf, int len, int at)
{
	struct fermata_sqlite_call call;
	if (UNEXPECTED(!enter_whole(&call, database_of_blob(self)))) {
		return SQLITE_BUSY;
	}
	int result = sqlite.blob_read(self, buf, len, at);
	leave(&call);
	return result;
}

static int hooked_blob_write(blob *self, const void *buf, int len, int at)
{
	struct fermata_sqlite_call call;
	if (UNEXPECTED(!enter_whole(&call, database_of_blob(self)))) {
		return SQLITE_BUSY;
	}
	int result = sqlite.blob_write(self, buf, len, at);
	leave(&call);
	return result;
}

static int hooked_blob_close(blob *self)
{
	database *db = database_of_blob(self);
	if (db) {
		zend_hash_index_del(&blobs, (zend_ulong)(uintptr_t)self);
		if (UNEXPECTED(put_off(db, close_blob_later, self))) {
			return SQLITE_OK;
		}
	}
	return sqlite.blob_close(self);
}

/* Databases of the running backup. One record suffices, since no other fiber runs between the start and the end of a backup. */
static struct {
	backup *it;
	database *to, *from;
} copied;

static bool enter_both(struct fermata_sqlite_call calls[2], database *to, database *from)
{
	if (UNEXPECTED(!enter_whole(&calls[0], to))) {
		return false;
	}
	if (UNEXPECTED(!enter_whole(&calls[1], from))) {
		leave(&calls[0]);
		return false;
	}
	return true;
}

static void leave_both(struct fermata_sqlite_call calls[2])
{
	leave(&calls[1]);
	leave(&calls[0]);
}

static backup *hooked_backup_init(database *to, const char *to_name, database *from, const char *from_name)
{
	struct fermata_sqlite_call calls[2];
	if (UNEXPECTED(!enter_both(calls, to, from))) {
		return NULL;
	}
	backup *self = sqlite.backup_init(to, to_name, from, from_name);
	leave_both(calls);
	if (fermata_hook_is_loop()) {
		copied.it = self;
		copied.to = to;
		copied.from = from;
	}
	return self;
}

static int call_backup(backup *self, int pages, bool is_last)
{
	struct fermata_sqlite_call calls[2];
	bool is_known = fermata_hook_is_loop() && self && self == copied.it;
	/* The end of a backup must run even if another fiber is inside one of the connections. */
	bool is_inside = is_known && enter_both(calls, copied.to, copied.from);
	if (UNEXPECTED(is_known && !is_inside && !is_last)) {
		return SQLITE_BUSY;
	}
	int result = is_last ? sqlite.backup_finish(self) : sqlite.backup_step(self, pages);
	if (is_inside) {
		leave_both(calls);
	}
	return result;
}

static int hooked_backup_step(backup *self, int pages)
{
	return call_backup(self, pages, false);
}

static int hooked_backup_finish(backup *self)
{
	int result = call_backup(self, 0, true);
	if (self == copied.it && fermata_hook_is_loop()) {
		copied.it = NULL;
	}
	return result;
}

/* PDO binds values without a copy. Another handler may change a bound variable while a fiber waits inside, so have SQLite copy the
 * value. */
static free_bound bound(free_bound by)
{
	return by == SQLITE_STATIC && fermata.handling ? SQLITE_TRANSIENT : by;
}

static int hooked_bind_text(statement *self, int at, const char *value, int len, free_bound by)
{
	return sqlite.bind_text(self, at, value, len, bound(by));
}

static int hooked_bind_blob(statement *self, int at, const void *value, int len, free_bound by)
{
	return sqlite.bind_blob(self, at, value, len, bound(by));
}

const fermata_replacement fermata_calls_sqlite[] = {
	{"sqlite3_step", (void *)hooked_step},
	{"sqlite3_exec", (void *)hooked_exec},
	{"sqlite3_prepare_v2", (void *)hooked_prepare},
	{"sqlite3_finalize", (void *)hooked_finalize},
	{"sqlite3_reset", (void *)hooked_reset},
	{"sqlite3_close", (void *)hooked_close},
	{"sqlite3_close_v2", (void *)hooked_close_later},
	{"sqlite3_open_v2", (void *)hooked_open},
	{"sqlite3_blob_open", (void *)hooked_blob_open},
	{"sqlite3_blob_read", (void *)hooked_blob_read},
	{"sqlite3_blob_write", (void *)hooked_blob_write},
	{"sqlite3_blob_close", (void *)hooked_blob_close},
	{"sqlite3_backup_init", (void *)hooked_backup_init},
	{"sqlite3_backup_step", (void *)hooked_backup_step},
	{"sqlite3_backup_finish", (void *)hooked_backup_finish},
	{"sqlite3_bind_text", (void *)hooked_bind_text},
	{"sqlite3_bind_blob", (void *)hooked_bind_blob},
};
const size_t fermata_calls_sqlite_len = sizeof(fermata_calls_sqlite) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_sqlite_sync[] = {
	{"fdatasync", (void *)hooked_fdatasync},
	{"fsync", (void *)hooked_fsync},
};
const size_t fermata_calls_sqlite_sync_len = sizeof(fermata_calls_sqlite_sync) / sizeof(fermata_replacement);

/* Turning the hook on and off */

static bool find_functions(void)
{
	const struct { const char *name; void *place; } wanted[] = {
		{"sqlite3_step", &sqlite.step},
		{"sqlite3_exec", &sqlite.exec},
		{"sqlite3_prepare_v2", &sqlite.prepare},
		{"sqlite3_finalize", &sqlite.finalize},
		{"sqlite3_reset", &sqlite.reset},
		{"sqlite3_close", &sqlite.close},
		{"sqlite3_close_v2", &sqlite.close_later},
		{"sqlite3_open_v2", &sqlite.open},
		{"sqlite3_bind_text", &sqlite.bind_text},
		{"sqlite3_bind_blob", &sqlite.bind_blob},
		{"sqlite3_blob_open", &sqlite.blob_open},
		{"sqlite3_blob_read", &sqlite.blob_read},
		{"sqlite3_blob_write", &sqlite.blob_write},
		{"sqlite3_blob_close", &sqlite.blob_close},
		{"sqlite3_backup_init", &sqlite.backup_init},
		{"sqlite3_backup_step", &sqlite.backup_step},
		{"sqlite3_backup_finish", &sqlite.backup_finish},
		{"sqlite3_db_handle", &sqlite.database_of},
		{"sqlite3_stmt_busy", &sqlite.is_busy},
		{"sqlite3_stmt_readonly", &sqlite.is_readonly},
		{"sqlite3_get_autocommit", &sqlite.is_autocommit},
		{"sqlite3_errstr", &sqlite.text_of},
		{"sqlite3_progress_handler", &sqlite.on_progress},
		{"sqlite3_vfs_find", &sqlite.find_layer},
	};
	/* The library is never closed, since changes in it are reverted at shutdown, when the extensions that use it may be
	 * unloaded. */
	sqlite.library = dlopen("libsqlite3.so.0", RTLD_LAZY | RTLD_NOLOAD);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		void *function = dlsym(sqlite.library ? sqlite.library : RTLD_DEFAULT, wanted[i].name);
		if (!function) {
			return false;
		}
		memcpy(wanted[i].place, &function, sizeof(function));
	}
	return true;
}

/* Replaces xSleep in all VFSes that share it. All VFSes of Unix do, and they also share their system calls. */
static void exchange_layer(void)
{
	layer *first = sqlite.find_layer(NULL);
	if (!first) {
		return;
	}
	sqlite.sleep = first->sleep;
	for (layer *it = first; it; it = it->next) {
		if (it->sleep == sqlite.sleep) {
			fermata_patch_pointer((void **)&it->sleep, (void *)hooked_sleep);
		}
	}
	if (first->version >= 3 && first->set_system_call) {
		first->set_system_call(first, "pread", (void *)hooked_pread);
		first->set_system_call(first, "pread64", (void *)hooked_pread);
		first->set_system_call(first, "pwrite", (void *)hooked_pwrite);
		first->set_system_call(first, "pwrite64", (void *)hooked_pwrite);
	}
}

bool fermata_hook_sqlite(void)
{
	if (is_ready || !find_functions()) {
		return is_ready;
	}
	zend_hash_init(&connections, 0, NULL, NULL, true);
	zend_hash_init(&blobs, 0, NULL, NULL, true);
	zend_hash_init(&readings, 0, NULL, free_reading, true);
	is_ready = true;
	exchange_layer();
	return true;
}

/* Returns true if the library was found. Works even if SQLite is not hooked. */
bool fermata_sqlite_can_ask(void)
{
	static bool is_found;
	return is_ready || is_found || (is_found = find_functions());
}

static bool restore(database *db)
{
	if (UNEXPECTED(!sqlite.is_autocommit(db))) {
		sqlite.exec(db, "ROLLBACK", NULL, NULL, NULL);
	}
	bool is_clean = EXPECTED(!has_temporary(db)) || drop_temporary(db);
	return is_clean && sqlite.is_autocommit(db);
}

bool fermata_sqlite_restore(zend_object *object)
{
	const sqlite3_object *it = structure_of(object);
	if (!it->is_open || !fermata_sqlite_can_ask()) {
		return false;
	}
	return restore(it->db);
}

bool fermata_sqlite_is_in_transaction(zend_object *object)
{
	const sqlite3_object *it = structure_of(object);
	return it->is_open && fermata_sqlite_can_ask() && !sqlite.is_autocommit(it->db);
}

bool fermata_sqlite_is_in_transaction_pdo(const void *handle)
{
#ifdef HAVE_PDO_OF_PHP
	database *const *place = ((const pdo_dbh_t *)handle)->driver_data;
	return place && *place && !sqlite.is_autocommit(*place);
#else
	return false;
#endif
}

bool fermata_sqlite_restore_pdo(const void *handle)
{
#ifdef HAVE_PDO_OF_PHP
	database *const *place = ((const pdo_dbh_t *)handle)->driver_data;
	return place && *place && fermata_sqlite_can_ask() && restore(*place);
#else
	return true;
#endif
}

void fermata_hook_sqlite_end(void)
{
	connection *at;
	if (!is_ready) {
		return;
	}
	layer *first = sqlite.find_layer(NULL);
	if (first && first->version >= 3 && first->set_system_call) {
		first->set_system_call(first, "pread", NULL);
		first->set_system_call(first, "pread64", NULL);
		first->set_system_call(first, "pwrite", NULL);
		first->set_system_call(first, "pwrite64", NULL);
	}
	is_ready = false;
	ZEND_HASH_FOREACH_PTR(&connections, at) {
		sqlite.on_progress(at->db, 0, NULL, NULL);
		end_later(at, true);
		if (at->closes) {
			at->closes(at->db);
		}
		pefree(at, true);
	} ZEND_HASH_FOREACH_END();
	zend_hash_destroy(&connections);
	zend_hash_destroy(&blobs);
	zend_hash_destroy(&readings);
	if (sqlite.library) {
		dlclose(sqlite.library);
	}
}

static const char *obstacle(const fermata_fiber *fiber)
{
	return UNEXPECTED(slot(fiber)->innermost) && forbids_wait(fiber)
		? "inside a query of a SQLite database with cache=shared: others of this thread would block for ever" : NULL;
}

static void on_fatal(fermata_fiber *fiber)
{
	slot(fiber)->innermost = NULL;
}

static fermata_part part = {.size = sizeof(slot_of_sqlite), .on_clean_up = on_clean_up, .obstacle = obstacle, .on_fatal = on_fatal};

void fermata_sqlite_init(void)
{
	fermata_part_register(&part);
}
