/* Cleans up server state that a handler or task leaves open in a connection: a transaction, MULTI, a lock, an unread result.
 *
 * While such state is open, no other handler may use the connection. When the handler finishes, a task rolls back the transaction
 * and releases locks, which takes a round trip. If that fails, the task closes the connection. MySQL reports the transaction state
 * with each reply, and libpq tracks it. Locks and temporary tables are detected in the text of queries. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/connections.h"
#include "clients/keys.h"
#include "clients/transactions.h"
#include "main/php_network.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include <dlfcn.h>
#include <errno.h>
#include "base/optimize_size.h"

/* Time limit of the cleanup in milliseconds. After it, the connection is closed. */
#define CLEANING_MS_MAX 5000
#define PLACE_BYTES_MAX 512
#define QUESTION_BYTES_MAX 192
/* Maximum number of reads that drain a connection after its shutdown. A socket's receive buffer holds less data. */
#define READS_MAX 1024

/* Values from libpq-fe.h, which never change. */
#define PQTRANS_IDLE 0
#define PQTRANS_ACTIVE 1
#define PQTRANS_UNKNOWN 4

/* Kinds of open state. */
#define OPEN_TRANSACTION 1
#define OPEN_RESULT 2
#define OPEN_LOCKS 4
#define OPEN_TABLES 8 /* temporary tables */
#define OPEN_WATCH 16 /* WATCH of Redis */
#define OPEN_QUESTION 32 /* no state is open: a pool checks that the server replies, or sends a command */
/* The server does not report these. They count as open until the text of a query releases them, or until the handler finishes. */
#define OPEN_BY_TEXT (OPEN_LOCKS | OPEN_TABLES | OPEN_WATCH)

typedef struct open_state {
	struct open_state *next_left;
	uintptr_t key;
	fermata_connection connection;
	uint32_t flags;
	smart_str tables; /* temporary tables of MySQL, which are dropped by name */
	const char *question; /* query to run; NULL = only check that the server replies */
	const char *condition; /* MySQL: run `question` only if this query returns a row; NULL = always */
	bool is_left;     /* the handler has finished, and a task cleans up */
	uint32_t begun_line;
	char begun_in[PLACE_BYTES_MAX];
} open_state;

static struct {
	HashTable by_key;
	open_state *left_first, *left_last; /* connections whose cleanup task has not started */
	int (*transaction_status)(const void *connection);
	int (*socket)(const void *connection);
	int (*process)(const void *connection);
	void *(*exec)(void *connection, const char *text);
	void (*clear)(void *result);
	int (*consume_input)(void *connection);
	void *(*get_result)(void *connection);
} open_states;

/* Owner of connections that a task is about to clean up. */
static fermata_fiber cleaner;

static const char *const servers[] = {[FERMATA_MYSQL] = "MySQL", [FERMATA_POSTGRESQL] = "PostgreSQL", [FERMATA_REDIS] = "Redis",
	[FERMATA_PDO] = "a driver of PDO", [FERMATA_SQLITE3] = "SQLite3"};

/* Connections of objects */

/* The structures with the connection are private to the extensions, but in all versions the connection is their first member. */
static void *first_pointer(const void *structure)
{
	return structure ? *(void *const *)structure : NULL;
}

#ifdef HAVE_PDO_OF_PHP
static bool connection_of_handle(pdo_dbh_t *handle, fermata_connection *it)
{
	if (!handle || !handle->driver || !handle->driver_data) {
		return false;
	}
	void *server = first_pointer(handle->driver_data);
	it->pdo = handle;
	if (strcmp(handle->driver->driver_name, "pgsql") == 0) {
		it->server = FERMATA_POSTGRESQL;
		it->handle = server;
		return server && open_states.transaction_status;
	}
#ifdef HAVE_MYSQLND_OF_PHP
	if (strcmp(handle->driver->driver_name, "mysql") == 0 && zend_hash_str_exists(&module_registry, ZEND_STRL("mysqlnd"))) {
		it->server = FERMATA_MYSQL;
		it->handle = server ? ((MYSQLND *)server)->data : NULL;
		return it->handle != NULL;
	}
#endif
	return false;
}
#endif

bool fermata_connection_of_pdo(zend_object *object, fermata_connection *it)
{
#ifdef HAVE_PDO_OF_PHP
	it->object = object;
	return connection_of_handle(php_pdo_dbh_fetch_inner(object), it);
#else
	return false;
#endif
}

bool fermata_connection_of_pdo_statement(zend_object *object, fermata_connection *it)
{
#ifdef HAVE_PDO_OF_PHP
	const pdo_stmt_t *statement = php_pdo_stmt_fetch_object(object);
	it->object = fermata_pdo_connection(statement);
	return connection_of_handle(statement->dbh, it);
#else
	return false;
#endif
}

#ifdef HAVE_MYSQLI_OF_PHP
static bool connection_of_mysqlnd(void *data, zend_object *object, fermata_connection *it)
{
	it->server = FERMATA_MYSQL;
	it->handle = data;
	it->object = object;
	it->pdo = NULL;
	return data != NULL;
}
#endif

bool fermata_connection_of_mysqli(zend_object *object, fermata_connection *it)
{
#ifdef HAVE_MYSQLI_OF_PHP
	const MY_MYSQL *link = fermata_mysqli_of(object);
	return connection_of_mysqlnd(link && link->mysql ? link->mysql->data : NULL, object, it);
#else
	return false;
#endif
}

/* Statements and results refer to mysqlnd's structures, and not to the connection object. */
bool fermata_connection_of_mysqli_statement(zend_object *object, fermata_connection *it)
{
#ifdef HAVE_MYSQLI_OF_PHP
	const MY_STMT *statement = fermata_mysqli_of(object);
	return connection_of_mysqlnd(statement && statement->stmt && statement->stmt->data ? statement->stmt->data->conn : NULL, NULL, it);
#else
	return false;
#endif
}

bool fermata_connection_of_mysqli_result(zend_object *object, fermata_connection *it)
{
#ifdef HAVE_MYSQLI_OF_PHP
	const MYSQL_RES *result = fermata_mysqli_of(object);
	return connection_of_mysqlnd(result ? result->conn : NULL, NULL, it);
#else
	return false;
#endif
}

bool fermata_connection_of_pgsql(zend_object *object, fermata_connection *it)
{
	*it = (fermata_connection){FERMATA_POSTGRESQL, first_pointer(fermata_structure_of(object)), object, NULL};
	return it->handle && open_states.transaction_status;
}

bool fermata_connection_of_redis(zend_object *object, fermata_connection *it)
{
	*it = (fermata_connection){FERMATA_REDIS, NULL, object, NULL};
	return true;
}

/* If the SQLite hook is on, sqlite.c handles these objects. */
bool fermata_connection_of_sqlite3(zend_object *object, fermata_connection *it)
{
	it->server = FERMATA_SQLITE3;
	it->object = object;
	return false;
}

/* Open state */

/* Returns true if a transaction is open, as reported by the PDO driver or, for SQLite, by its library. */
static bool is_in_transaction(void *pdo)
{
#ifdef HAVE_PDO_OF_PHP
	pdo_dbh_t *handle = pdo;
	if (strcmp(handle->driver->driver_name, "sqlite") == 0 && fermata_sqlite_can_ask()) {
		return fermata_sqlite_is_in_transaction_pdo(handle);
	}
	return handle->methods->in_transaction ? handle->methods->in_transaction(handle) : handle->in_txn;
#else
	return false;
#endif
}

/* Returns true if a transaction is open on a connection of another PDO driver, or of SQLite without its hook. */
static bool is_other_in_transaction(uintptr_t key, fermata_connection *it)
{
	if (fermata_sqlite_is_connection(key)) {
		return false;
	}
	if (it->server == FERMATA_SQLITE3) {
		return fermata_sqlite_is_in_transaction(it->object);
	}
#ifdef HAVE_PDO_OF_PHP
	const pdo_dbh_t *handle = it->pdo;
	if (!handle) {
		return false;
	}
	/* Unconnected objects of MySQL and PostgreSQL reach this line, too. */
	bool is_known = strcmp(handle->driver->driver_name, "mysql") == 0 || strcmp(handle->driver->driver_name, "pgsql") == 0;
	if ((!is_known || first_pointer(handle->driver_data)) && is_in_transaction(it->pdo)) {
		it->server = FERMATA_PDO;
		return true;
	}
#endif
	return false;
}

static uint32_t flags_of_mysql(const fermata_connection *it)
{
#ifdef HAVE_MYSQLND_OF_PHP
	MYSQLND_CONN_DATA *data = it->handle;
	uint32_t status = UPSERT_STATUS_GET_SERVER_STATUS(data->upsert_status);
	switch (GET_CONNECTION_STATE(&data->state)) {
		case CONN_READY: return status & SERVER_STATUS_IN_TRANS ? OPEN_TRANSACTION : 0;
		case CONN_ALLOCED:
		case CONN_QUIT_SENT: return 0;
		default: return OPEN_RESULT | (status & SERVER_STATUS_IN_TRANS ? OPEN_TRANSACTION : 0);
	}
#else
	return 0;
#endif
}

static bool is_autocommit(const fermata_connection *it)
{
#ifdef HAVE_MYSQLND_OF_PHP
	const MYSQLND_CONN_DATA *data = it->handle;
	return UPSERT_STATUS_GET_SERVER_STATUS(data->upsert_status) & SERVER_STATUS_AUTOCOMMIT;
#else
	return false;
#endif
}

/* Returns true if either side has closed the connection. */
static bool is_shut(int fd)
{
	char next;
	ssize_t got = recv(fd, &next, 1, MSG_PEEK | MSG_DONTWAIT);
	return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ENOTSOCK);
}

/* Makes libpq detect that a connection was shut down. Until then, libpq reports during a COPY, for each request of a result, that
 * the COPY continues. PHP requests results until libpq returns NULL, also when it frees the connection, and would never stop. */
static void find_end(void *handle)
{
	for (uint32_t i = 0; open_states.consume_input && i < READS_MAX && open_states.consume_input(handle); i++) {
	}
}

/* Drops the results that libpq read before the connection ended, since libpq would still return them. */
static void drop_results(void *handle)
{
	void *result;
	for (uint32_t i = 0; open_states.get_result && i < READS_MAX && (result = open_states.get_result(handle)); i++) {
		open_states.clear(result);
	}
}

static uint32_t flags_of_postgresql(const fermata_connection *it)
{
	int status = open_states.transaction_status(it->handle);
	if (UNEXPECTED(status == PQTRANS_ACTIVE && is_shut(open_states.socket(it->handle)))) {
		find_end(it->handle);
		status = open_states.transaction_status(it->handle);
	}
	return status == PQTRANS_IDLE || status == PQTRANS_UNKNOWN ? 0 : status == PQTRANS_ACTIVE ? OPEN_RESULT : OPEN_TRANSACTION;
}

/* Calls a method that only reads state. Returns false if the method does not exist. */
static bool ask_redis(zend_object *object, const char *method, zend_long *answer)
{
	zend_function *function = zend_hash_str_find_ptr(&object->ce->function_table, method, strlen(method));
	zval result;
	if (!function || EG(exception)) {
		return false;
	}
	zend_call_known_instance_method_with_0_params(function, object, &result);
	*answer = Z_TYPE(result) == IS_LONG ? Z_LVAL(result) : 0;
	zval_ptr_dtor(&result);
	return true;
}

static uint32_t flags_of_redis(const fermata_connection *it, uint32_t flags, zend_execute_data *frame)
{
	zend_long mode;
	const char *name = ZSTR_VAL(frame->func->common.function_name);
	if (strcasecmp(name, "rawCommand") == 0) {
		FmStr command = fermata_guard_first_string(frame);
		name = command.len ? command.ptr : name;
	}
	if (strcasecmp(name, "multi") == 0 || strcasecmp(name, "pipeline") == 0) {
		flags |= OPEN_TRANSACTION;
	} else if (strcasecmp(name, "watch") == 0) {
		flags |= OPEN_WATCH;
	} else if (strcasecmp(name, "exec") == 0 || strcasecmp(name, "discard") == 0) {
		flags &= ~(OPEN_TRANSACTION | OPEN_WATCH);
	} else if (strcasecmp(name, "unwatch") == 0) {
		flags &= ~OPEN_WATCH;
	} else if (strcasecmp(name, "close") == 0 || strcasecmp(name, "connect") == 0) {
		flags = 0;
	}
	if (UNEXPECTED(flags & OPEN_TRANSACTION) && strcasecmp(name, "multi") != 0 && ask_redis(it->object, "getmode", &mode) && !mode) {
		flags &= ~OPEN_TRANSACTION;
	}
	return flags;
}

static bool begins_with(const char *text, const char *word)
{
	return strncasecmp(text, word, strlen(word)) == 0;
}

/* Records the name in a CREATE TEMPORARY TABLE. */
static void note_table(open_state *it, const char *text)
{
	static const char *const before[] = {"TABLE", "IF", "NOT", "EXISTS"};
	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++) {
		text += strspn(text, " \t\r\n");
		if (begins_with(text, before[i])) {
			text += strlen(before[i]);
		}
	}
	text += strspn(text, " \t\r\n");
	size_t len = strcspn(text, " \t\r\n(;");
	if (it->tables.s) {
		smart_str_appendc(&it->tables, ',');
	}
	smart_str_appendl(&it->tables, text, len);
	smart_str_0(&it->tables);
}

/* Returns the flags after a query: locks and temporary tables that last until the session ends. */
static uint32_t flags_of_text(FmStr text, uint32_t flags)
{
	if (!text.len) {
		return flags;
	}
	const char *begin = text.ptr + strspn(text.ptr, " \t\r\n;(");
	if (begins_with(begin, "LOCK TABLE") || (strcasestr(begin, "_lock") && (strcasestr(begin, "GET_LOCK")
			|| strcasestr(begin, "pg_advisory_lock") || strcasestr(begin, "pg_try_advisory_lock")))) {
		flags |= OPEN_LOCKS;
	} else if (begins_with(begin, "UNLOCK TABLES") || strcasestr(begin, "RELEASE_ALL_LOCKS") || strcasestr(begin, "pg_advisory_unlock_all")) {
		flags &= ~OPEN_LOCKS;
	} else if (begins_with(begin, "CREATE TEMP") || begins_with(begin, "CREATE OR REPLACE TEMP")) {
		flags |= OPEN_TABLES;
	}
	return flags;
}

static open_state *find(uintptr_t key)
{
	return zend_hash_index_find_ptr(&open_states.by_key, key);
}

static void forget(open_state *it)
{
	zend_hash_index_del(&open_states.by_key, it->key);
	smart_str_free(&it->tables);
	pefree(it, true);
}

/* Records the current file and line for the log. Of a long path, only the end is stored. */
static void note_place(open_state *it)
{
	const zend_string *file = zend_get_executed_filename_ex();
	size_t skipped = file && ZSTR_LEN(file) >= PLACE_BYTES_MAX ? ZSTR_LEN(file) - PLACE_BYTES_MAX + 1 : 0;
	fermata_copy(it->begun_in, PLACE_BYTES_MAX, "", file ? (FmStr){ZSTR_VAL(file) + skipped, ZSTR_LEN(file) - skipped}
		: FERMATA_LITERAL("PHP itself"));
	it->begun_line = zend_get_executed_lineno();
}

static open_state *begin_state(uintptr_t key)
{
	open_state *it = pecalloc(1, sizeof(open_state), true);
	it->key = key;
	note_place(it);
	zend_hash_index_update_ptr(&open_states.by_key, key, it);
	return it;
}

bool fermata_connection_keeps(uintptr_t key, const fermata_root *root, zend_object *object, zend_execute_data *frame)
{
	fermata_connection connection = {0};
	open_state *it = find(key);
	bool is_known = root->connection(object, &connection);
	FmStr text = {NULL, 0};
	uint32_t flags = it ? it->flags : 0;
	if (is_known && connection.server == FERMATA_REDIS) {
		flags = frame ? flags_of_redis(&connection, flags, frame) : flags;
	} else if (is_known) {
		text = frame ? fermata_guard_text(frame) : text;
		flags = flags_of_text(text, flags & OPEN_BY_TEXT)
			| (connection.server == FERMATA_MYSQL ? flags_of_mysql(&connection) : flags_of_postgresql(&connection));
		if (UNEXPECTED(connection.server == FERMATA_MYSQL && frame && !(flags & OPEN_TRANSACTION)
				&& fermata_transaction_is_savepoint(text, frame) && is_autocommit(&connection))) {
			fermata_transaction_refuse_savepoint();
		}
	} else if (UNEXPECTED(is_other_in_transaction(key, &connection))) {
		is_known = true;
		flags = OPEN_TRANSACTION;
	}
	if (EXPECTED(!is_known || !flags)) {
		if (UNEXPECTED(it)) {
			forget(it);
		}
		return false;
	}
	if (!it) {
		it = begin_state(key);
	}
	if (connection.object || !it->connection.handle) {
		it->connection = connection;
	}
	if (UNEXPECTED(flags & OPEN_TABLES) && connection.server == FERMATA_MYSQL && text.len && strcasestr(text.ptr, "TEMPORARY")
			&& strcasestr(text.ptr, "CREATE")) {
		note_table(it, strcasestr(text.ptr, "TEMPORARY") + strlen("TEMPORARY"));
	}
	it->flags = flags;
	return true;
}

/* Returns the state that is open now: since the last call, PHP may have freed objects, which may have ended some of it. */
static uint32_t flags_now(const open_state *it)
{
	switch (it->connection.server) {
		case FERMATA_MYSQL: return (it->flags & OPEN_BY_TEXT) | flags_of_mysql(&it->connection);
		case FERMATA_POSTGRESQL: return (it->flags & OPEN_BY_TEXT) | flags_of_postgresql(&it->connection);
		case FERMATA_PDO: return is_in_transaction(it->connection.pdo) ? OPEN_TRANSACTION : 0;
		case FERMATA_SQLITE3: return fermata_sqlite_is_in_transaction(it->connection.object) ? OPEN_TRANSACTION : 0;
		case FERMATA_REDIS: break;
	}
	return it->flags;
}

/* Returns the open state of a connection whose calls were not observed, as reported by the server or its library. */
static uint32_t flags_of_unseen(const fermata_connection *it)
{
	zend_long mode = 0;
	switch (it->server) {
		case FERMATA_MYSQL: return flags_of_mysql(it);
		case FERMATA_POSTGRESQL: return flags_of_postgresql(it);
		case FERMATA_PDO: return is_in_transaction(it->pdo) ? OPEN_TRANSACTION : 0;
		case FERMATA_SQLITE3:
		case FERMATA_REDIS: break;
	}
	bool is_known = ask_redis(it->object, "getmode", &mode);
	if (UNEXPECTED(EG(exception))) {
		/* The object is not connected. A later call reports that. */
		zend_clear_exception();
	}
	return is_known && mode ? OPEN_TRANSACTION : 0;
}

bool fermata_connection_left_transaction(uintptr_t key)
{
	const open_state *it = find(key);
	return it ? it->flags & OPEN_TRANSACTION : fermata_sqlite_has_transaction(key);
}

bool fermata_connection_has_transaction(uintptr_t key, const fermata_root *root, zend_object *object)
{
	fermata_connection connection = {0};
	if (fermata_sqlite_is_connection(key)) {
		return fermata_sqlite_has_transaction(key);
	}
	if (!root->connection || !root->connection(object, &connection)) {
		return connection.pdo ? is_in_transaction(connection.pdo)
			: connection.server == FERMATA_SQLITE3 && connection.object && fermata_sqlite_is_in_transaction(connection.object);
	}
	switch (connection.server) {
		case FERMATA_MYSQL: return flags_of_mysql(&connection) & OPEN_TRANSACTION;
		case FERMATA_POSTGRESQL: return flags_of_postgresql(&connection) & OPEN_TRANSACTION;
		case FERMATA_REDIS:
		case FERMATA_PDO:
		case FERMATA_SQLITE3: break;
	}
	return false;
}

bool fermata_connection_is_open(uintptr_t key)
{
	open_state *it = find(key);
	if (it && !it->is_left && it->connection.object && !(it->flags = flags_now(it))) {
		forget(it);
		it = NULL;
	}
	return it != NULL;
}

/* Cleanup */

#ifdef HAVE_MYSQLND_OF_PHP
static php_stream *stream_of(const MYSQLND_CONN_DATA *data)
{
	return data->vio ? data->vio->data->stream : NULL;
}
#endif

static int socket_of(const fermata_connection *it)
{
	if (it->server == FERMATA_POSTGRESQL) {
		return open_states.socket(it->handle);
	}
#ifdef HAVE_MYSQLND_OF_PHP
	if (it->server == FERMATA_MYSQL) {
		php_stream *stream = stream_of(it->handle);
		php_socket_t socket;
		if (stream && php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&socket, 0) == SUCCESS) {
			return (int)socket;
		}
	}
#endif
	return -1;
}

static void close_connection(const fermata_connection *it)
{
	int fd = it->server == FERMATA_REDIS || it->server == FERMATA_PDO ? -1 : socket_of(it);
	if (it->server == FERMATA_REDIS) {
		zend_function *close = zend_hash_str_find_ptr(&it->object->ce->function_table, ZEND_STRL("close"));
		if (close) {
			zend_call_known_instance_method_with_0_params(close, it->object, NULL);
		}
	}
	if (fd >= 0) {
		shutdown(fd, SHUT_RDWR);
		/* Discard data that has already arrived, since a shut down socket can still be read. */
		fermata_conversation_discard(fd);
		if (it->server == FERMATA_POSTGRESQL) {
			find_end(it->handle);
			drop_results(it->handle);
		} else {
#ifdef HAVE_MYSQLND_OF_PHP
			/* mysqlnd's streams are not in PHP's list of streams. */
			php_stream *stream = stream_of(it->handle);
			stream->readpos = stream->writepos = 0;
#endif
		}
	}
	if (EG(exception)) {
		zend_clear_exception();
	}
}

#ifdef HAVE_MYSQLND_OF_PHP
static bool ask_mysql(MYSQLND_CONN_DATA *data, const char *text, size_t len)
{
	return GET_CONNECTION_STATE(&data->state) == CONN_READY && data->m->query(data, text, len) == PASS && !EG(exception);
}

static bool has_row(MYSQLND_CONN_DATA *data, const char *text)
{
	MYSQLND_RES *result = ask_mysql(data, text, strlen(text)) ? data->m->store_result(data) : NULL;
	bool has = result && result->m.num_rows(result) > 0;
	if (result) {
		result->m.free_result(result, false);
	}
	return has && !EG(exception);
}
#endif

static bool clean_mysql(const open_state *it)
{
#ifdef HAVE_MYSQLND_OF_PHP
	MYSQLND_CONN_DATA *data = it->connection.handle;
	bool done = true;
	if (it->flags & OPEN_QUESTION) {
		const char *question = it->question ? it->question : "DO 1";
		done &= (!it->condition || has_row(data, it->condition)) && ask_mysql(data, question, strlen(question));
	}
	if (it->flags & OPEN_TRANSACTION) {
		done &= ask_mysql(data, ZEND_STRL("ROLLBACK"));
	}
	if (it->flags & OPEN_LOCKS) {
		done &= ask_mysql(data, ZEND_STRL("UNLOCK TABLES")) && ask_mysql(data, ZEND_STRL("DO RELEASE_ALL_LOCKS()"));
	}
	if (it->tables.s) {
		smart_str text = {0};
		smart_str_appends(&text, "DROP TEMPORARY TABLE IF EXISTS ");
		smart_str_append_smart_str(&text, &it->tables);
		done &= ask_mysql(data, ZSTR_VAL(text.s), ZSTR_LEN(text.s));
		smart_str_free(&text);
	}
	return done && !(flags_of_mysql(&it->connection) & (OPEN_TRANSACTION | OPEN_RESULT));
#else
	return false;
#endif
}

static void ask_postgresql(void *handle, const char *text)
{
	void *result = open_states.exec(handle, text);
	if (result) {
		open_states.clear(result);
	}
}

static bool clean_postgresql(const open_state *it)
{
	void *handle = it->connection.handle;
	if (it->flags & OPEN_QUESTION) {
		ask_postgresql(handle, it->question ? it->question : "");
	}
	if (it->flags & OPEN_TRANSACTION) {
		ask_postgresql(handle, "ROLLBACK");
	}
	if (it->flags & OPEN_LOCKS) {
		ask_postgresql(handle, "SELECT pg_advisory_unlock_all()");
	}
	if (it->flags & OPEN_TABLES) {
		ask_postgresql(handle, "DISCARD TEMP");
	}
	return !EG(exception) && open_states.transaction_status(handle) == PQTRANS_IDLE;
}

static bool clean_redis(const open_state *it)
{
	zend_object *object = it->connection.object;
	const char *method = it->flags & OPEN_QUESTION ? "ping" : it->flags & OPEN_TRANSACTION ? "discard" : "unwatch";
	zend_function *function = zend_hash_str_find_ptr(&object->ce->function_table, method, strlen(method));
	zend_long mode;
	if (!function) {
		return false;
	}
	zend_call_known_instance_method_with_0_params(function, object, NULL);
	return !EG(exception) && (!ask_redis(object, "getmode", &mode) || !mode);
}

/* Rolls back for all drivers except MySQL, PostgreSQL and SQLite with its hook. */
static bool roll_back(const fermata_connection *it)
{
	if (it->server == FERMATA_SQLITE3) {
		return fermata_sqlite_restore(it->object);
	}
#ifdef HAVE_PDO_OF_PHP
	pdo_dbh_t *handle = it->pdo;
	if (handle && strcmp(handle->driver->driver_name, "sqlite") == 0 && fermata_sqlite_can_ask()) {
		/* PDO may not know of this transaction. */
		handle->in_txn = false;
		return fermata_sqlite_restore_pdo(handle);
	}
	if (!handle || !is_in_transaction(handle)) {
		return true;
	}
	bool done = handle->methods->rollback && handle->methods->rollback(handle);
	handle->in_txn = false;
	return done && !is_in_transaction(handle);
#else
	return true;
#endif
}

/* Cleans up, for at most CLEANING_MS_MAX. Returns false if that fails. */
static bool clean(const open_state *it)
{
	fermata_fiber *self = fermata_this_fiber();
	fermata_scope scope = {.owner = self, .inside = EG(active_fiber), .outer = self->scope,
		.due_ms = fermata_ms_to_due(CLEANING_MS_MAX), .begun_at = fermata_clock()};
	self->scope = &scope;
	self->touched |= FERMATA_TOUCHED;
	bool done = false;
	if (!(it->flags & OPEN_RESULT)) {
		switch (it->connection.server) {
			case FERMATA_MYSQL: done = clean_mysql(it); break;
			case FERMATA_POSTGRESQL: done = clean_postgresql(it); break;
			case FERMATA_REDIS: done = clean_redis(it); break;
			case FERMATA_PDO:
			case FERMATA_SQLITE3: done = roll_back(&it->connection); break;
		}
	}
	self->scope = scope.outer;
	if (EG(exception)) {
		zend_clear_exception();
		done = false;
	}
	return done;
}

static ZEND_COLD void log_left(const open_state *it, bool is_usual, bool is_task)
{
	char text[PLACE_BYTES_MAX + 160];
	const char *what = it->flags & OPEN_RESULT ? "in the middle of a result" : it->flags & OPEN_TRANSACTION ? "in the middle of a transaction"
		: it->flags & OPEN_LOCKS ? "with a lock" : it->flags & OPEN_WATCH ? "with a WATCH" : "with a temporary table";
	const char *end = it->flags & OPEN_RESULT ? "costs it the connection" : it->flags & OPEN_TRANSACTION ? "is rolled back" : "is let go";
	int len = snprintf(text, sizeof(text), "%s has ended %s of %s, which was begun in %s:%u and %s", is_task ? "a task" : "a handler",
		what, servers[it->connection.server], it->begun_in, it->begun_line, end);
	fm_worker_log(fermata.worker, is_usual ? FERMATA_LOG_INFO : FERMATA_LOG_WARNING, (FmStr){text, MIN((size_t)len, sizeof(text) - 1)});
}

/* Cleans up after the finished handler and releases the connection. */
static void finish(open_state *it)
{
	zend_object *object = it->connection.object;
	uintptr_t key = it->key;
	bool done = clean(it);
#ifdef HAVE_PDO_OF_PHP
	if (it->connection.pdo) {
		((pdo_dbh_t *)it->connection.pdo)->in_txn = false;
	}
#endif
	if (UNEXPECTED(!done)) {
		close_connection(&it->connection);
		if (it->connection.server == FERMATA_PDO || it->connection.server == FERMATA_SQLITE3) {
			fm_worker_log(fermata.worker, FERMATA_LOG_ERROR, FERMATA_LITERAL("a transaction that a handler has left open in a "
				"connection of PDO or SQLite3 could not be rolled back, and reaches the next who uses it; give handlers connections of a Fermata\\Pool"));
		}
	}
	forget(it);
	fermata_guard_release(key);
	if (object) {
		OBJ_RELEASE(object);
	}
}

static ZEND_NAMED_FUNCTION(finish_next)
{
	open_state *it = open_states.left_first;
	if (!it) {
		return;
	}
	open_states.left_first = it->next_left;
	fermata_guard_leave_to(it->key, fermata_this_fiber());
	finish(it);
}

bool fermata_connection_left(uintptr_t key, const fermata_fiber *fiber)
{
	open_state *it = find(key);
	if (!it || it->is_left) {
		return false;
	}
	if (!it->connection.object) {
		it->connection.object = fermata_guard_find_object(key);
	}
	/* If all objects of the connection are freed, only the key is left. */
	if (!it->connection.object || !(it->flags = flags_now(it))) {
		forget(it);
		return false;
	}
	log_left(it, fiber->client && fiber->client->gone, fiber->future != NULL);
	if (!fermata_guard_begin_task(finish_next)) {
		close_connection(&it->connection);
		forget(it);
		return false;
	}
	it->is_left = true;
	it->next_left = NULL;
	if (open_states.left_first) {
		open_states.left_last->next_left = it;
	} else {
		open_states.left_first = it;
	}
	open_states.left_last = it;
	GC_ADDREF(it->connection.object);
	fermata_guard_leave_to(key, &cleaner);
	return true;
}

void fermata_connection_gone(uintptr_t key, const zend_object *object)
{
	open_state *it = find(key);
	if (it && !it->is_left && it->connection.object == object) {
		forget(it);
	}
}

/* For pools */

static bool find_connection(zend_object *object, fermata_connection *it)
{
	const fermata_root *root = fermata_guard_root(object);
	*it = (fermata_connection){0};
	return root && root->connection && root->connection(object, it);
}

bool fermata_connection_is_alive(zend_object *object)
{
	fermata_connection it;
	const fermata_root *root = fermata_guard_root(object);
	if (!root || !root->connection) {
		return true;
	}
	if (!find_connection(object, &it)) {
		/* The state of other PDO drivers is unknown. An object of a supported driver without a connection was closed. */
		return it.pdo || it.server == FERMATA_SQLITE3;
	}
	if (it.server == FERMATA_REDIS) {
		zend_function *function = zend_hash_str_find_ptr(&object->ce->function_table, ZEND_STRL("isconnected"));
		zval result;
		if (!function) {
			return true;
		}
		zend_call_known_instance_method_with_0_params(function, object, &result);
		bool is_connected = zend_is_true(&result);
		zval_ptr_dtor(&result);
		return is_connected;
	}
	uint32_t flags = it.server == FERMATA_MYSQL ? flags_of_mysql(&it) : flags_of_postgresql(&it);
	int fd = socket_of(&it);
	return !(flags & OPEN_RESULT) && fd >= 0 && !is_shut(fd);
}

bool fermata_connection_answers(zend_object *object)
{
	fermata_connection connection;
	/* A job process has no worker, and does not wait. */
	if (!fermata.worker || !find_connection(object, &connection)) {
		return true;
	}
	open_state asked = {.connection = connection, .flags = OPEN_QUESTION};
	return clean(&asked);
}

static bool restore_sqlite(uintptr_t key)
{
	/* A handler uses the connection outside of the pool. */
	if (UNEXPECTED(fermata_guard_is_anothers(key))) {
		return false;
	}
	if (UNEXPECTED(fermata_sqlite_keeps(key))) {
		if (UNEXPECTED(fermata_sqlite_roll_back(key, fermata_this_fiber()))) {
			return false;
		}
		fermata_guard_release(key);
		return !fermata_sqlite_keeps(key);
	}
	return true;
}

static bool restore_other(uintptr_t key, const fermata_connection *connection)
{
	open_state *it = find(key);
	if (UNEXPECTED(it && it->is_left)) {
		/* The connection was used outside of the pool, and a task is cleaning up. */
		return false;
	}
	bool done = roll_back(connection);
	if (it) {
		log_left(it, false, fermata_this_fiber()->future != NULL);
		forget(it);
		fermata_guard_release(key);
	}
	return done;
}

bool fermata_connection_restore(zend_object *object)
{
	fermata_connection connection;
	if (find_connection(object, &connection)) {
		uintptr_t key = fermata_guard_key(object);
		open_state *it = find(key);
		if (UNEXPECTED(it && it->is_left)) {
			/* The connection was used outside of the pool, and a task is cleaning up. */
			return false;
		}
		uint32_t unseen = it ? 0 : flags_of_unseen(&connection);
		if (UNEXPECTED(unseen)) {
			it = begin_state(key);
			it->connection = connection;
			it->flags = unseen;
		}
		if (it && (it->flags = flags_now(it))) {
			log_left(it, false, fermata_this_fiber()->future != NULL);
			/* The cleanup calls the connection, so this fiber needs its key. */
			fermata_guard_leave_to(key, fermata_this_fiber());
			bool done = clean(it);
#ifdef HAVE_PDO_OF_PHP
			if (connection.pdo) {
				((pdo_dbh_t *)connection.pdo)->in_txn = false;
			}
#endif
			/* Without this, code that has kept the object would queue for it. */
			forget(it);
			fermata_guard_release(key);
			if (!done) {
				return false;
			}
		} else if (it) {
			forget(it);
			fermata_guard_release(key);
		}
	} else if (fermata_sqlite_is_connection(fermata_guard_key(object))) {
		if (!restore_sqlite(fermata_guard_key(object))) {
			return false;
		}
	} else if (!restore_other(fermata_guard_key(object), &connection)) {
		return false;
	}
	return fermata_connection_is_alive(object);
}

bool fermata_connection_is_busy(zend_object *object)
{
	fermata_connection it;
	if (!find_connection(object, &it) || it.server == FERMATA_REDIS) {
		return false;
	}
	return (it.server == FERMATA_MYSQL ? flags_of_mysql(&it) : flags_of_postgresql(&it)) & OPEN_RESULT;
}

static uint64_t process_id(const fermata_connection *it)
{
#ifdef HAVE_MYSQLND_OF_PHP
	if (it->server == FERMATA_MYSQL) {
		return ((const MYSQLND_CONN_DATA *)it->handle)->thread_id;
	}
#endif
	return it->server == FERMATA_POSTGRESQL && open_states.process ? (uint64_t)open_states.process(it->handle) : 0;
}

static uint16_t port_of(const fermata_process *it)
{
	return it->peer.any.sa_family == AF_INET ? ntohs(it->peer.v4.sin_port) : it->peer.any.sa_family == AF_INET6
		? ntohs(it->peer.v6.sin6_port) : 0;
}

void fermata_connection_find_process(zend_object *object, fermata_process *it)
{
	fermata_connection connection;
	uint64_t id = find_connection(object, &connection) ? process_id(&connection) : 0;
	if (EXPECTED(it->id == id && it->server == (uint32_t)connection.server)) {
		return;
	}
	*it = (fermata_process){.server = connection.server, .id = id};
	int fd = id ? socket_of(&connection) : -1;
	socklen_t len = sizeof(it->peer);
	if (fd >= 0 && getsockname(fd, &it->peer.any, &len) == 0) {
		it->port = port_of(it);
	}
	memset(&it->peer, 0, sizeof(it->peer));
	len = sizeof(it->peer);
	if (fd >= 0 && getpeername(fd, &it->peer.any, &len) == 0) {
		it->peer_len = MIN(len, (socklen_t)sizeof(it->peer));
	}
}

bool fermata_process_is_beside(const fermata_process *one, const fermata_process *other)
{
	return one->server == other->server && one->peer_len && one->peer_len == other->peer_len
		&& memcmp(&one->peer, &other->peer, one->peer_len) == 0;
}

void fermata_connection_abandon(zend_object *object)
{
	fermata_connection connection;
	if (!find_connection(object, &connection)) {
		return;
	}
	open_state *state = find(fermata_guard_key(object));
	if (state && !state->is_left) {
		forget(state);
	}
	zend_object *pending = EG(exception);
	if (pending) {
		GC_ADDREF(pending);
		zend_clear_exception();
	}
	close_connection(&connection);
	if (pending) {
		zend_throw_exception_internal(pending);
	}
}

/* Several servers may share one address, and each may have a process with that number. Only the server of the other connection
 * also has this number together with that connection's port. A connection through a proxy has another port and is skipped. */
void fermata_connection_stop(zend_object *object, const fermata_process *by, const fermata_process *which, bool is_new)
{
	fermata_connection connection;
	char text[QUESTION_BYTES_MAX], condition[QUESTION_BYTES_MAX] = "";
	if (!fermata.worker || !find_connection(object, &connection) || !fermata_process_is_beside(by, which)) {
		return;
	}
	/* MySQL numbers its connections. If this newer connection has a number that is not larger, the server was restarted. An older
	 * connection has a smaller number; since it still replies, its server was not restarted. */
	if (is_new && which->server == FERMATA_MYSQL && which->id >= by->id) {
		return;
	}
	if (which->server == FERMATA_MYSQL) {
		snprintf(text, sizeof(text), "KILL " ZEND_ULONG_FMT, (zend_ulong)which->id);
		size_t len = (size_t)snprintf(condition, sizeof(condition), "SELECT 1 FROM information_schema.processlist WHERE id = "
			ZEND_ULONG_FMT, (zend_ulong)which->id);
		if (which->port) {
			snprintf(condition + len, sizeof(condition) - len, " AND host LIKE '%%:%u'", which->port);
		} else {
			snprintf(condition + len, sizeof(condition) - len, " AND host NOT LIKE '%%:%%'");
		}
	} else {
		snprintf(text, sizeof(text), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = " ZEND_ULONG_FMT
			" AND client_port = %d", (zend_ulong)which->id, which->port ? which->port : -1);
	}
	open_state asked = {.connection = connection, .flags = OPEN_QUESTION, .question = text, .condition = *condition ? condition : NULL};
	/* The process may have finished in the meantime. */
	clean(&asked);
}

/* Start and end */

void fermata_connections_find_libpq(void *library)
{
	open_states.transaction_status = (int (*)(const void *))dlsym(library, "PQtransactionStatus");
	open_states.socket = (int (*)(const void *))dlsym(library, "PQsocket");
	open_states.process = (int (*)(const void *))dlsym(library, "PQbackendPID");
	open_states.exec = (void *(*)(void *, const char *))dlsym(library, "PQexec");
	open_states.clear = (void (*)(void *))dlsym(library, "PQclear");
	open_states.consume_input = (int (*)(void *))dlsym(library, "PQconsumeInput");
	open_states.get_result = (void *(*)(void *))dlsym(library, "PQgetResult");
	if (!open_states.socket || !open_states.exec || !open_states.clear) {
		open_states.transaction_status = NULL;
	}
}

void fermata_connections_init(void)
{
	zend_hash_init(&open_states.by_key, 0, NULL, NULL, true);
}

void fermata_connections_forget(void)
{
	zend_hash_clean(&open_states.by_key);
	open_states.left_first = NULL;
}

void fermata_connections_end(void)
{
	zend_hash_destroy(&open_states.by_key);
}
