/* Client objects of PHP extensions: guarded classes and guard keys; see objects.c. */
#ifndef FERMATA_CLIENTS_OBJECTS_H
#define FERMATA_CLIENTS_OBJECTS_H

#include "clients/clients.h"
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

#define FERMATA_ROOTS_MAX 32

/* A connection to a server. */
typedef struct fermata_connection {
	enum { FERMATA_MYSQL, FERMATA_POSTGRESQL, FERMATA_REDIS, FERMATA_PDO /* another PDO driver */,
		FERMATA_SQLITE3 /* without the SQLite hook */ } server;
	void *handle;        /* MYSQLND_CONN_DATA or PGconn; NULL for Redis */
	zend_object *object; /* object that owns the connection; NULL = unknown */
	void *pdo;           /* pdo_dbh_t; NULL = the connection is not PDO's */
} fermata_connection;

/* A class whose objects, and those of its subclasses, are guarded. */
typedef struct fermata_root {
	const char *name; /* lower case */
	/* Returns the guard key of an object, since several objects may belong to one connection. NULL = the key is the object's
	 * address. */
	uintptr_t (*key)(zend_object *object);
	enum { FERMATA_ROOT_CONNECTION, FERMATA_ROOT_STATEMENT, FERMATA_ROOT_RESULT, FERMATA_ROOT_EXECUTED } kind;
	/* Returns false if the object is not a connection that can have open state. NULL = the class never has one. */
	bool (*connection)(zend_object *object, fermata_connection *it);
	bool is_pdo;
} fermata_root;

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

/* Sets the guarded classes, at most FERMATA_ROOTS_MAX. */
void fermata_guard_roots_start(const fermata_root *roots, size_t len);
void fermata_guard_roots_end(void);
/* The first returns the guarded class of the object, or NULL; the second, its guard key, or 0 if the object is not guarded. */
const fermata_root *fermata_guard_root(const zend_object *object);
uintptr_t fermata_guard_key(zend_object *object);
/* Returns the guard key of an object of this class. */
uintptr_t fermata_guard_key_of(const fermata_root *root, zend_object *object);
/* Returns an object with this key, a connection rather than a statement; NULL = none. Scans all objects. */
zend_object *fermata_guard_find_object(uintptr_t key);
/* Returns the SQL text that is passed to a function, or the text of the statement that it executes; empty = none. */
FmStr fermata_guard_text(zend_execute_data *frame);
/* Returns the string among the first two arguments; empty = none. */
FmStr fermata_guard_first_string(zend_execute_data *frame);

#endif
