/* Client objects of PHP extensions, Fermata\Pool, and Runtime::hook(). */
#ifndef FERMATA_CLIENTS_H
#define FERMATA_CLIENTS_H

#include "hooks/hooks.h"

/* hooks.c */
PHP_MSHUTDOWN_FUNCTION(fermata_hooks);
PHP_MINFO_FUNCTION(fermata_hooks);

/* pool.c */
void fermata_pool_init(void);

/* guards.c: PHP objects inside whose methods a handler or task is. */
void fermata_guards_init_part(void);

/* wrap.c */
void fermata_guards_init(void);
/* Wraps PHP's functions. Must run before any PHP script is compiled, since `opcache.jit=function` compiles the functions'
 * addresses into calls. Until hooks are turned on, the wrapper costs one jump per call. */
void fermata_guards_wrap(void);
/* Turns guards on. Returns false if other extensions use up the reserved slots of PHP's functions. */
bool fermata_hook_guards(void);
void fermata_guards_undo(void);

/* libpq.c */
extern const fermata_replacement fermata_calls_libpq[];
extern const size_t fermata_calls_libpq_len;
bool fermata_hook_libpq(void);

/* sqlite.c */
void fermata_sqlite_init(void);
extern const fermata_replacement fermata_calls_sqlite[], fermata_calls_sqlite_sync[];
extern const size_t fermata_calls_sqlite_len, fermata_calls_sqlite_sync_len;
bool fermata_hook_sqlite(void);
void fermata_hook_sqlite_end(void);
/* The next two functions receive the key of a guard. The first returns true if a transaction is open; the second, if the key
 * belongs to a connection to SQLite. */
bool fermata_sqlite_has_transaction(uintptr_t key);
bool fermata_sqlite_is_connection(uintptr_t key);
/* Returns true if a transaction reserves the connection for the handler that started it. */
bool fermata_sqlite_keeps(uintptr_t key);
/* Rolls back a transaction that the finished handler or task of `fiber` has left open. Returns true if a task now owns the
 * connection and will release it. */
bool fermata_sqlite_roll_back(uintptr_t key, const fermata_fiber *fiber);
/* Drop unread rows of the fiber, or move them to another fiber. No other fiber receives these rows. */
void fermata_sqlite_drop_rows(const fermata_fiber *fiber);
void fermata_sqlite_move_rows(const fermata_fiber *from, fermata_fiber *to);
/* End the open transaction of a SQLite3 object or a pdo_dbh_t, and drop its temporary tables. They work even if SQLite is not
 * hooked. Return false if the connection is unusable. */
bool fermata_sqlite_restore(zend_object *object);
bool fermata_sqlite_restore_pdo(const void *handle);
/* Returns true if the SQLite library was found; the next two functions require it. */
bool fermata_sqlite_can_ask(void);
bool fermata_sqlite_is_in_transaction_pdo(const void *handle);
bool fermata_sqlite_is_in_transaction(zend_object *object);
/* Return the guard key of a connection; 0 if it has none. `handle` is a pdo_dbh_t. */
uintptr_t fermata_sqlite_key_of_pdo(const void *handle);
uintptr_t fermata_sqlite_key_of_object(zend_object *object);
uintptr_t fermata_sqlite_key_of_statement(zend_object *object);
uintptr_t fermata_sqlite_key_of_result(zend_object *object);

#endif
