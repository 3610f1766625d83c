/* Guards of clients' objects, between guards.c, connections.c, iterators.c and fibers/pool.c. */
#ifndef FERMATA_HOOKS_GUARDS_H
#define FERMATA_HOOKS_GUARDS_H

#include "hooks/hooks.h"
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

/* Of one call: its object, those among its first arguments, and the statement that is executed. */
#define FERMATA_GUARDED_KEYS_MAX 5

/* A connection to a server, as its extension has it. */
typedef struct fermata_connection {
	enum { FERMATA_MYSQL, FERMATA_POSTGRESQL, FERMATA_REDIS, FERMATA_PDO /* another driver of it */,
		FERMATA_SQLITE3 /* without its hook */ } server;
	void *handle;        /* MYSQLND_CONN_DATA or PGconn; NULL for Redis */
	zend_object *object; /* which keeps it; NULL = not known */
	void *pdo;           /* pdo_dbh_t; NULL = not of PDO */
} fermata_connection;

/* A class whose objects are guarded, with those that extend it. */
typedef struct fermata_root {
	const char *name; /* in small letters */
	/* What an object stands for: several may belong to one connection. NULL = the object itself. */
	uintptr_t (*key)(zend_object *object);
	enum { FERMATA_ROOT_CONNECTION, FERMATA_ROOT_STATEMENT, FERMATA_ROOT_RESULT, FERMATA_ROOT_EXECUTED } kind;
	/* False when it is no connection that something may be left open in. NULL = never. */
	bool (*connection)(zend_object *object, fermata_connection *it);
} fermata_root;

/* A call that holds its objects: lies on the C stack. */
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
/* Waits for what others have. False after an exception. `function` is NULL for what is none. */
bool fermata_guarded_enter(fermata_guarded *call, const zend_function *function);
bool fermata_guarded_enter_object(fermata_guarded *call, zend_object *object);
void fermata_guarded_leave(fermata_guarded *call, zend_execute_data *frame);
/* Gives what a handler has left to somebody else, and back. */
void fermata_guard_leave_to(uintptr_t key, const fermata_fiber *fiber);
void fermata_guard_release(uintptr_t key);

/* The class that makes the object a guarded one, and what it stands for. NULL and 0 = it is none. */
const fermata_root *fermata_guard_root(const zend_object *object);
uintptr_t fermata_guard_key(zend_object *object);
/* An object that stands for the key, the connection before its statements; NULL = there is none. Looks at all objects. */
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
/* After a call: whether it has left something open, so that nobody else may use the connection. `frame` is NULL for no function. */
bool fermata_connection_keeps(uintptr_t key, const fermata_root *root, zend_object *object, zend_execute_data *frame);
/* Whether something is still open that a call has left. */
bool fermata_connection_is_open(uintptr_t key);
/* The fiber's handler or task has ended with that. True when a task has it now, which gives it back. */
bool fermata_connection_left(uintptr_t key, const fermata_fiber *fiber);
/* When the answer of the present handler is on its way. False when the worker stops. */
bool fermata_connection_begin_task(zif_handler handler);
/* PHP is about to free the object. */
void fermata_connection_gone(uintptr_t key, const zend_object *object);

/* For pools. Of objects that are connections to no server they are true, and nothing is done. */
/* What a server has for a connection. Servers number them each for itself, so the number means nothing without the server. */
typedef struct fermata_process {
	uint32_t server;
	uint16_t port; /* of our end, by which the server knows it, too; 0 = a Unix socket */
	socklen_t peer_len; /* 0 = not known */
	uint64_t id; /* 0 = not known */
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	} peer;
} fermata_process;
/* `it` has what was found before, or zeros. */
void fermata_connection_find_process(zend_object *object, fermata_process *it);
/* Whether both are of one server. */
bool fermata_process_is_beside(const fermata_process *one, const fermata_process *other);
/* Whether anybody has closed it, or is in the middle of an answer. */
bool fermata_connection_is_alive(zend_object *object);
/* The same, and the server answers. */
bool fermata_connection_answers(zend_object *object);
/* Ends what is open in it. False when it is of no use any more. */
bool fermata_connection_restore(zend_object *object);
/* Whether the server may be working for it: nobody has taken its answer. */
bool fermata_connection_is_busy(zend_object *object);
/* Closes it, even if another fiber has it. */
void fermata_connection_abandon(zend_object *object);
/* Has the server end what it works on for another connection of it. `by` is this one's; `is_new`: it was opened after that. */
void fermata_connection_stop(zend_object *object, const fermata_process *by, const fermata_process *which, bool is_new);

/* iterators.c */
void fermata_hook_iterators(void);

#endif
