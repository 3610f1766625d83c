/* Guards of client objects: shared by guards.c, connections.c, iterators.c and pool.c. */
#ifndef FERMATA_HOOKS_GUARDS_H
#define FERMATA_HOOKS_GUARDS_H

#include "clients/clients.h"
#include <netinet/in.h>
#include <sys/un.h>
#if __has_include("ext/pdo/php_pdo_driver.h")
# include "ext/pdo/php_pdo_driver.h"
# define HAVE_PDO_OF_PHP
#endif
#if __has_include("ext/mysqlnd/mysqlnd.h")
# include "ext/mysqlnd/mysqlnd.h"
# include "ext/mysqlnd/mysqlnd_connection.h"
# define HAVE_MYSQLND_OF_PHP
#endif
#if __has_include("ext/mysqli/php_mysqli_structs.h") && __has_include("ext/mysqlnd/mysqlnd.h")
# include "ext/mysqli/php_mysqli_structs.h"
# define HAVE_MYSQLI_OF_PHP
#endif

/* Maximum number of keys of one call: its object, objects among its first arguments, and the executed statement. */
#define FERMATA_GUARDED_KEYS_MAX 5

/* A connection to a server. */
typedef struct fermata_connection {
	enum { FERMATA_MYSQL, FERMATA_POSTGRESQL, FERMATA_REDIS, FERMATA_PDO /* another PDO driver */,
		FERMATA_SQLITE3 /* without the SQLite hook */ } server;
	void *handle;        /* MYSQLND_CONN_DATA or PGconn; NULL for Redis */
	zend_object *object; /* object that owns it; NULL = unknown */
	void *pdo;           /* pdo_dbh_t; NULL = not PDO */
} fermata_connection;

/* A class whose objects, and those of its subclasses, are guarded. */
typedef struct fermata_root {
	const char *name; /* lower case */
	/* Returns the guard key of an object: several objects may belong to one connection. NULL = the object's address. */
	uintptr_t (*key)(zend_object *object);
	enum { FERMATA_ROOT_CONNECTION, FERMATA_ROOT_STATEMENT, FERMATA_ROOT_RESULT, FERMATA_ROOT_EXECUTED } kind;
	/* Returns false if the object is not a connection that can have open state. NULL = never. */
	bool (*connection)(zend_object *object, fermata_connection *it);
} fermata_root;

/* A call that has acquired the guards of its objects. Stored on the C stack. */
typedef struct fermata_guarded {
	uintptr_t keys[FERMATA_GUARDED_KEYS_MAX];
	const fermata_root *roots[FERMATA_GUARDED_KEYS_MAX];
	zend_object *objects[FERMATA_GUARDED_KEYS_MAX];
	bool is_taken[FERMATA_GUARDED_KEYS_MAX];
	uint32_t len;
	const fermata_fiber *taker;
} fermata_guarded;

static zend_always_inline void *fermata_structure_of(const zend_object *object)
{
	return (char *)object - object->handlers->offset;
}

#ifdef HAVE_MYSQLI_OF_PHP
static zend_always_inline void *fermata_mysqli_of(zend_object *object)
{
	const MYSQLI_RESOURCE *it = php_mysqli_fetch_object(object)->ptr;
	return it ? it->ptr : NULL;
}
#endif

/* guards.c */
/* Waits until it has acquired all guards. Returns false after an exception. `function` is NULL if no function is called. */
bool fermata_guarded_enter(fermata_guarded *call, const zend_function *function);
bool fermata_guarded_enter_object(fermata_guarded *call, zend_object *object);
void fermata_guarded_leave(fermata_guarded *call, zend_execute_data *frame);
/* Transfers a guard to another owner, and releases it. */
void fermata_guard_leave_to(uintptr_t key, const fermata_fiber *fiber);
void fermata_guard_release(uintptr_t key);

/* Return the guarded class of the object, and its guard key. NULL and 0 = not guarded. */
const fermata_root *fermata_guard_root(const zend_object *object);
uintptr_t fermata_guard_key(zend_object *object);
/* Returns an object with this key, connections before statements; NULL = none. Scans all objects. */
zend_object *fermata_guard_find_object(uintptr_t key);

/* connections.c */
void fermata_connections_init(void);
void fermata_connections_end(void);
void fermata_connections_forget(void);
void fermata_connections_find_libpq(void *library);
bool fermata_connection_of_pdo(zend_object *object, fermata_connection *it);
bool fermata_connection_of_pdo_statement(zend_object *object, fermata_connection *it);
bool fermata_connection_of_mysqli(zend_object *object, fermata_connection *it);
bool fermata_connection_of_mysqli_statement(zend_object *object, fermata_connection *it);
bool fermata_connection_of_mysqli_result(zend_object *object, fermata_connection *it);
bool fermata_connection_of_pgsql(zend_object *object, fermata_connection *it);
bool fermata_connection_of_redis(zend_object *object, fermata_connection *it);
bool fermata_connection_of_sqlite3(zend_object *object, fermata_connection *it);
/* Called after a call. Returns true if it has left state open, so that no other fiber may use the connection. `frame` is NULL if
 * no function was called. */
bool fermata_connection_keeps(uintptr_t key, const fermata_root *root, zend_object *object, zend_execute_data *frame);
/* Returns the query that a call is given or executes; empty = none. */
FmStr fermata_connection_text(zend_execute_data *frame);
/* Returns true if the last call left a transaction open. */
bool fermata_connection_left_transaction(uintptr_t key);
/* Returns true if a transaction is open now; requires that no other fiber is inside. */
bool fermata_connection_has_transaction(uintptr_t key, const fermata_root *root, zend_object *object);
/* Returns true if state left by a call is still open. */
bool fermata_connection_is_open(uintptr_t key);
/* Called when the fiber's handler or task has finished with open state. Returns true if a task now owns the connection and
 * releases it. */
bool fermata_connection_left(uintptr_t key, const fermata_fiber *fiber);
/* Starts a task once the current handler's response is sent. Returns false if the worker is stopping. */
bool fermata_connection_begin_task(zif_handler handler);
/* PHP is about to free the object. */
void fermata_connection_gone(uintptr_t key, const zend_object *object);

/* For pools. For objects that are not connections to a server, these return true and do nothing. */
/* The server process or session of a connection. Its number is unique only within one server. */
typedef struct fermata_process {
	uint32_t server;
	uint16_t port; /* local port, by which the server also identifies the connection; 0 = Unix socket */
	socklen_t peer_len; /* 0 = unknown */
	uint64_t id; /* 0 = unknown */
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	} peer;
} fermata_process;
/* `it` contains an earlier result, or zeros. */
void fermata_connection_find_process(zend_object *object, fermata_process *it);
/* Returns true if both belong to one server. */
bool fermata_process_is_beside(const fermata_process *one, const fermata_process *other);
/* Returns false if the connection is closed or in the middle of a reply. */
bool fermata_connection_is_alive(zend_object *object);
/* Like fermata_connection_is_alive(), and also requires a reply from the server. */
bool fermata_connection_answers(zend_object *object);
/* Cleans up open state. Returns false if the connection is unusable. */
bool fermata_connection_restore(zend_object *object);
/* Returns true if the server may still be working for the connection: its reply was not read. */
bool fermata_connection_is_busy(zend_object *object);
/* Closes the connection, even if another fiber owns it. */
void fermata_connection_abandon(zend_object *object);
/* Makes the server stop the work of another connection. `by` is this connection's process; `is_new`: it was opened after the
 * other was closed. */
void fermata_connection_stop(zend_object *object, const fermata_process *by, const fermata_process *which, bool is_new);

/* iterators.c */
void fermata_hook_iterators(void);

#endif
