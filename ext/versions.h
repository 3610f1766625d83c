/* What differs between the PHPs that Fermata is built for, 8.2 to 8.5: every difference that its source sees, newest last.
 *
 * No other file asks for PHP_VERSION_ID, so this is the list to read when a new PHP comes; scripts/php-versions.sh checks that,
 * and compiles against the headers of every PHP that it finds. A prefix `fermata_` stands before the name that it replaces. */
#ifndef FERMATA_VERSIONS_H
#define FERMATA_VERSIONS_H

#ifdef ZEND_SMART_STR_H
# error "include versions.h before zend_smart_str.h"
#endif

/* Updates of November 2026 (8.2.36 and later of each version): what the header expands in an extension calls two functions that
 * earlier updates do not have, and a library that names them is not loaded there. Ours have their place, in core/strings.c. */
#define smart_str_ferealloc fermata_smart_str_ferealloc
#define smart_str_frealloc fermata_smart_str_frealloc

#include "php.h"
#include "zend_fibers.h"
#include "zend_smart_str.h"

ZEND_API bool ZEND_FASTCALL fermata_smart_str_ferealloc(smart_str *str, size_t len, bool fallible);
ZEND_API bool ZEND_FASTCALL fermata_smart_str_frealloc(smart_str *str, size_t len, bool fallible);

#if PHP_VERSION_ID < 80200
# error "Fermata needs PHP 8.2 or newer"
#endif

/* 8.3: what an error message calls a value's type, the class of an object, has a function of its own. */
#if PHP_VERSION_ID >= 80300
# define fermata_type_name zend_zval_value_name
#else
# define fermata_type_name zend_zval_type_name
#endif

/* 8.3: proc_open() no longer forks where the C library has posix_spawn() with a working directory. */
#if PHP_VERSION_ID < 80300 && defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
# define FERMATA_PROC_OPEN_FORKS
#endif

/* 8.3: PHP knows where a stack ends (ZEND_CHECK_STACK_LIMIT), so whoever switches stacks tells it. */
#ifdef ZEND_CHECK_STACK_LIMIT
# define FERMATA_SET_STACK(stack) do { \
		EG(stack_base) = zend_fiber_stack_base(stack); \
		EG(stack_limit) = zend_fiber_stack_limit(stack); \
	} while (0)
#else
# define FERMATA_SET_STACK(stack) do { } while (0)
#endif

/* What a function of this PHP returns is what is said here: a wrong guess does not compile. */
#define FERMATA_RETURNS(call, type) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(call), type), #call " returns another type in this PHP")

/* 8.4: returns a zend_result, whose SUCCESS is 0; before, a bool. */
#if PHP_VERSION_ID >= 80400
FERMATA_RETURNS(zend_fiber_init_context(NULL, NULL, NULL, 0), zend_result);
# define fermata_fiber_init_context(context, kind, coroutine, stack_bytes) \
	(zend_fiber_init_context(context, kind, coroutine, stack_bytes) == SUCCESS)
#else
FERMATA_RETURNS(zend_fiber_init_context(NULL, NULL, NULL, 0), bool);
# define fermata_fiber_init_context(context, kind, coroutine, stack_bytes) \
	(zend_fiber_init_context(context, kind, coroutine, stack_bytes))
#endif

/* 8.4: a second state of random numbers, for processes that have no other. */
#if PHP_VERSION_ID >= 80400
# define FERMATA_FORGET_FALLBACK_SEED() (RANDOM_G(fallback_seed_state).initialized = false)
#else
# define FERMATA_FORGET_FALLBACK_SEED() ((void)0)
#endif

/* 8.5: a forked child tells PHP so. */
#if PHP_VERSION_ID >= 80500
# define fermata_child_init() php_child_init()
#else
# define fermata_child_init() ((void)0)
#endif

/* 8.5: a statement of PDO keeps its connection as an object, before as a value; and a lazy row of PDO begins with its statement,
 * before with the object. */
#if PHP_VERSION_ID >= 80500
# define fermata_pdo_connection(statement) ((statement)->database_object_handle)
# define fermata_pdo_row(object) php_pdo_row_fetch_object(object)
#else
# define fermata_pdo_connection(statement) \
	(Z_TYPE((statement)->database_object_handle) == IS_OBJECT ? Z_OBJ((statement)->database_object_handle) : NULL)
# define fermata_pdo_row(object) ((pdo_row_t *)(object))
#endif

/* 8.5: fetchAll() of PDO tells of a row that it could not read, and gives none; before, it ended with those that it had. */
#define FERMATA_FETCH_ALL_TELLS (PHP_VERSION_ID >= 80500)

/* 8.5: whether an object of SQLite3 throws is the second byte of its private structure; before, the last but a list. How many bytes
 * before the object. */
#if PHP_VERSION_ID >= 80500
# define FERMATA_SQLITE3_THROWS_BEFORE(object) ((object)->handlers->offset - 1)
#else
typedef struct { bool throws; zend_llist to_free; zend_object std; } fermata_sqlite3_tail;
# define FERMATA_SQLITE3_THROWS_BEFORE(object) ((void)(object), offsetof(fermata_sqlite3_tail, std))
#endif

/* 8.5: a shutdown function is kept with its arguments, and no longer with what calls it. */
#if PHP_VERSION_ID >= 80500
# define fermata_call_shutdown_function(entry, result) \
	zend_call_known_fcc(&(entry)->fci_cache, result, (entry)->param_count, (entry)->params, NULL)
#else
# define fermata_call_shutdown_function(entry, result) \
	((void)((entry)->fci.retval = (result), zend_call_function(&(entry)->fci, NULL)))
#endif

#endif
