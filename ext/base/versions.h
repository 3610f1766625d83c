/* Differences between the supported PHP versions, 8.2 to 8.5, newest last.
 *
 * No other file uses PHP_VERSION_ID, so this is the list to read when a new PHP is released. scripts/php-versions.sh checks this,
 * and compiles against the headers of every PHP that it finds. Replacements have the original name with the prefix `fermata_`. */
#ifndef FERMATA_VERSIONS_H
#define FERMATA_VERSIONS_H

#ifdef ZEND_SMART_STR_H
# error "include versions.h before zend_smart_str.h"
#endif

/* Updates of November 2026 (8.2.36 and later of each version): inline code of the header calls two functions that earlier updates
 * lack, and a library that refers to them cannot be loaded there. base/strings.c replaces them. */
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

/* 8.3: a new function returns the type name for error messages: the class for an object. */
#if PHP_VERSION_ID >= 80300
# define fermata_type_name zend_zval_value_name
#else
# define fermata_type_name zend_zval_type_name
#endif

/* 8.3: proc_open() no longer forks if the C library's posix_spawn() supports a working directory. */
#if PHP_VERSION_ID < 80300 && defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
# define FERMATA_PROC_OPEN_FORKS
#endif

/* 8.3: PHP checks the stack limit (ZEND_CHECK_STACK_LIMIT), so code that switches stacks must set it. */
#ifdef ZEND_CHECK_STACK_LIMIT
# define FERMATA_SET_STACK(stack) do { \
		EG(stack_base) = zend_fiber_stack_base(stack); \
		EG(stack_limit) = zend_fiber_stack_limit(stack); \
	} while (0)
#else
# define FERMATA_SET_STACK(stack) do { } while (0)
#endif

/* Fails to compile if a function of this PHP returns another type. */
#define FERMATA_RETURNS(call, type) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(call), type), #call " returns another type in this PHP")

/* 8.4: returns a zend_result, whose SUCCESS is 0; earlier a bool. */
#if PHP_VERSION_ID >= 80400
FERMATA_RETURNS(zend_fiber_init_context(NULL, NULL, NULL, 0), zend_result);
# define fermata_fiber_init_context(context, kind, coroutine, stack_bytes) \
	(zend_fiber_init_context(context, kind, coroutine, stack_bytes) == SUCCESS)
#else
FERMATA_RETURNS(zend_fiber_init_context(NULL, NULL, NULL, 0), bool);
# define fermata_fiber_init_context(context, kind, coroutine, stack_bytes) \
	(zend_fiber_init_context(context, kind, coroutine, stack_bytes))
#endif

/* 8.4: the guard word of a property contains further flags, and its macro has another name. */
#ifdef Z_GUARD_P
# define FERMATA_GUARD_P Z_GUARD_P
#else
# define FERMATA_GUARD_P Z_PROPERTY_GUARD_P
#endif

/* 8.4: headers of the last HTTP response that a stream read. */
#if PHP_VERSION_ID >= 80400
# define FERMATA_LAST_HTTP_HEADERS (&BG(last_http_headers))
#else
# define FERMATA_LAST_HTTP_HEADERS ((zval *)NULL)
#endif

/* 8.4: lazy objects. While its initializer runs, an object has neither flag, lazy or proxy, but is in the store. */
#ifdef IS_OBJ_LAZY_UNINITIALIZED
# define FERMATA_HAS_LAZY_OBJECTS zend_hash_num_elements(&EG(lazy_objects_store).infos)
# define FERMATA_IS_INITIALIZING(object) (!(OBJ_EXTRA_FLAGS(object) & (IS_OBJ_LAZY_UNINITIALIZED | IS_OBJ_LAZY_PROXY)) \
	&& zend_hash_index_exists(&EG(lazy_objects_store).infos, (object)->handle))
#else
# define FERMATA_HAS_LAZY_OBJECTS false
# define FERMATA_IS_INITIALIZING(object) false
#endif

/* 8.4: some functions are called without a frame. */
#ifdef ZEND_FRAMELESS_ICALL_0
# define FERMATA_IS_FRAMELESS(opcode) ((opcode) >= ZEND_FRAMELESS_ICALL_0 && (opcode) <= ZEND_FRAMELESS_ICALL_3)
#else
# define FERMATA_IS_FRAMELESS(opcode) false
#endif

/* 8.4: a second state of the random number generator, used as fallback. */
#if PHP_VERSION_ID >= 80400
# define FERMATA_FORGET_FALLBACK_SEED() (RANDOM_G(fallback_seed_state).initialized = false)
#else
# define FERMATA_FORGET_FALLBACK_SEED() ((void)0)
#endif

/* 8.5: a forked child must notify PHP. */
#if PHP_VERSION_ID >= 80500
# define fermata_child_init() php_child_init()
#else
# define fermata_child_init() ((void)0)
#endif

/* 8.5: a PDO statement stores its connection as an object, earlier as a zval; a lazy PDO row starts with its statement, earlier
 * with the object. */
#if PHP_VERSION_ID >= 80500
# define fermata_pdo_connection(statement) ((statement)->database_object_handle)
# define fermata_pdo_row(object) php_pdo_row_fetch_object(object)
#else
# define fermata_pdo_connection(statement) \
	(Z_TYPE((statement)->database_object_handle) == IS_OBJECT ? Z_OBJ((statement)->database_object_handle) : NULL)
# define fermata_pdo_row(object) ((pdo_row_t *)(object))
#endif

/* 8.5: PDO's fetchAll() reports a row that it cannot read and returns no rows; earlier it returned the rows before it. */
#define FERMATA_FETCH_ALL_TELLS (PHP_VERSION_ID >= 80500)

/* 8.5: the exceptions flag of an SQLite3 object is the second byte of its private struct; earlier it was near the end, before a
 * list. The macro returns its distance from the object in bytes. */
#if PHP_VERSION_ID >= 80500
# define FERMATA_SQLITE3_THROWS_BEFORE(object) ((object)->handlers->offset - 1)
#else
typedef struct { bool throws; zend_llist to_free; zend_object std; } fermata_sqlite3_tail;
# define FERMATA_SQLITE3_THROWS_BEFORE(object) ((void)(object), offsetof(fermata_sqlite3_tail, std))
#endif

/* 8.5: a shutdown function is stored with its arguments, no longer with a zend_fcall_info. */
#if PHP_VERSION_ID >= 80500
# define fermata_call_shutdown_function(entry, result) \
	zend_call_known_fcc(&(entry)->fci_cache, result, (entry)->param_count, (entry)->params, NULL)
#else
# define fermata_call_shutdown_function(entry, result) \
	((void)((entry)->fci.retval = (result), zend_call_function(&(entry)->fci, NULL)))
#endif

#endif
