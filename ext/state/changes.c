/* Undoes a handler's changes to PHP's process-wide state, which PHP itself resets only between two requests.
 *
 * The functions that change such state are wrapped when the script starts. If a handler calls one, the wrapper first records the
 * previous state on the handler's fiber. At the end of the handler, the previous state is restored. When a handler waits, its state
 * is exchanged for the previous state, and when it continues, exchanged back. A handler that changes nothing costs one comparison.
 *
 * The exchange runs no application code: warnings of PHP's functions go to the log, and no value is released. Values of a
 * finished handler are released before its changes are undone, so their destructors change that handler's state. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE /* O_PATH */
#endif
#include "state/changes.h"
#include "state/quiet.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "SAPI.h"
#include "ext/random/php_random.h"
#include "ext/standard/basic_functions.h"
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASSERT_CALLBACK 2 /* not declared in a public header of PHP */

/* Values
 *
 * The first three have dedicated code in this file. For each of the others, PHP has a function that returns the value and one
 * that sets it. */

typedef enum value_kind {
	VALUE_DIRECTORY, /* a descriptor of the directory, which stays valid if it is renamed or removed; a path if no descriptor is
					  * left */
	VALUE_UMASK,
	VALUE_ASSERT_CALLBACK,
	VALUE_TIMEZONE,
	VALUE_LIBXML_ERRORS,
	VALUE_MB_ENCODING,
	VALUE_MB_HTTP_OUTPUT,
	VALUE_MB_ORDER,
	VALUE_MB_REGEX,
	VALUE_MB_SUBSTITUTE,
	VALUE_LOCALE, /* first of the locale categories */
	VALUE_LOCALE_BESIDE = VALUE_LOCALE + 6, /* categories that PHP can set only through LC_ALL */
#ifdef LC_PAPER
	VALUES = VALUE_LOCALE_BESIDE + 6,
#else
	VALUES = VALUE_LOCALE_BESIDE,
#endif
} value_kind;

static const char *const getters[VALUE_LOCALE] = {[VALUE_TIMEZONE] = "date_default_timezone_get",
	[VALUE_LIBXML_ERRORS] = "libxml_use_internal_errors", [VALUE_MB_ENCODING] = "mb_internal_encoding",
	[VALUE_MB_HTTP_OUTPUT] = "mb_http_output", [VALUE_MB_ORDER] = "mb_detect_order", [VALUE_MB_REGEX] = "mb_regex_encoding",
	[VALUE_MB_SUBSTITUTE] = "mb_substitute_character"};
static const char *const setters[VALUE_LOCALE] = {[VALUE_TIMEZONE] = "date_default_timezone_set",
	[VALUE_LIBXML_ERRORS] = "libxml_use_internal_errors", [VALUE_MB_ENCODING] = "mb_internal_encoding",
	[VALUE_MB_HTTP_OUTPUT] = "mb_http_output", [VALUE_MB_ORDER] = "mb_detect_order", [VALUE_MB_REGEX] = "mb_regex_encoding",
	[VALUE_MB_SUBSTITUTE] = "mb_substitute_character"};
static const int categories[VALUES - VALUE_LOCALE] = {LC_CTYPE, LC_NUMERIC, LC_TIME, LC_COLLATE, LC_MONETARY, LC_MESSAGES,
#ifdef LC_PAPER
	LC_PAPER, LC_NAME, LC_ADDRESS, LC_TELEPHONE, LC_MEASUREMENT, LC_IDENTIFICATION,
#endif
};

/* Functions set with set_error_handler() and set_exception_handler(). */
typedef struct handlers {
	zval error, exception;
	int error_reporting;
	zend_stack errors, errors_reporting, exceptions;
} handlers;

/* Request and response as used by header(), php://input and move_uploaded_file(). */
typedef struct http_state {
	sapi_headers_struct headers;
	zval callback; /* set with header_register_callback() */
	php_stream *body;
	bool post_read;
	HashTable *uploads;
} http_state;

struct fermata_changes {
	fermata_changes *next; /* next in the list of records that are never released */
	zval values[VALUES]; /* undefined = not changed */
	zend_array *ini;     /* value by name, null = as when PHP started; NULL = none */
	zend_array *environment; /* value by name, false = not set; NULL = none */
	bool has_values, has_handlers, has_shutdown, has_seed, has_globals, has_http;
	handlers handlers;
	http_state http;
	HashTable *shutdown; /* functions registered with register_shutdown_function() */
	zval globals[FERMATA_SUPERGLOBALS]; /* undefined = the variable does not exist */
};

/* Set on a fiber while its handler has changes. */
typedef struct slot_of_changes {
	fermata_changes *noted; /* NULL = no changes */
	bool has_request; /* PHP's superglobals, headers and session are this handler's: http/globals.c */
} slot_of_changes;

static fermata_part part;
FERMATA_SLOT(slot_of_changes, part)

fermata_superglobals fermata_globals;
static HashTable *scripts_shutdown; /* the script's shutdown functions, saved by a handler that ended in a fatal error */
static bool has_scripts_shutdown;
static fermata_changes *unreleased; /* records of handlers whose destructors keep making changes without end */
static bool has_failed_request; /* a handler with its request in PHP's globals ended in a fatal error */
static bool is_job; /* true in a process that runs jobs, one after the other */

/* In the same order as fermata_superglobal. */
static const char *const superglobals[FERMATA_SUPERGLOBALS] = {"_GET", "_POST", "_COOKIE", "_FILES", "_SERVER", "_REQUEST", "_ENV",
	"_SESSION"};

/* Recording changes */

static bool is_handlers(void)
{
	/* Calls from this file to the wrapped functions are quiet and are not recorded. */
	return (fermata.handling || fermata_is_cleaning() || is_job) && !fermata.forked && fermata_this_fiber() && !fermata_is_quiet();
}

static fermata_changes *changes(void)
{
	fermata_changes **noted = &slot(fermata_this_fiber())->noted;
	if (!*noted) {
		*noted = ecalloc(1, sizeof(fermata_changes));
		fermata_this_fiber()->has_ending = true;
	}
	return *noted;
}

/* Returns false if the function does not exist or has failed. */
static bool call(const char *name, zval *result, uint32_t arguments_len, zval *arguments)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
	ZVAL_UNDEF(result);
	if (function) {
		zend_call_known_function(function, NULL, NULL, result, arguments_len, arguments, NULL);
	}
	return Z_TYPE_P(result) != IS_UNDEF && Z_TYPE_P(result) != IS_FALSE;
}

static void get_directory(zval *value)
{
	char name[MAXPATHLEN];
	int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (EXPECTED(fd >= 0)) {
		ZVAL_LONG(value, fd);
	} else if (getcwd(name, sizeof(name))) {
		ZVAL_STRING(value, name);
	}
}

static void set_directory(const zval *value)
{
	if (Z_TYPE_P(value) == IS_LONG ? fchdir((int)Z_LVAL_P(value)) : chdir(Z_STRVAL_P(value))) {
		fm_worker_log(fermata.worker, FERMATA_LOG_WARNING, FERMATA_LITERAL("a handler has changed the directory of the worker, which "
			"cannot go back to the one before: give functions absolute paths"));
		return;
	}
#ifdef VIRTUAL_DIR
	/* A thread-safe PHP (ZTS) resolves relative paths against its own copy of the directory's path. A removed directory has no
	 * path. Use the kernel's directory fdinfo instead, in which files cannot be created either. */
	char path[MAXPATHLEN];
	VCWD_CHDIR(getcwd(path, sizeof(path)) ? path : "/proc/self/fdinfo");
#endif
}

static void get_value(value_kind kind, zval *value)
{
	zval arguments[2];
	ZVAL_UNDEF(value);
	if (kind == VALUE_DIRECTORY) {
		get_directory(value);
	} else if (kind == VALUE_UMASK) {
		mode_t mask = umask(0);
		umask(mask);
		ZVAL_LONG(value, (zend_long)mask);
	} else if (kind == VALUE_ASSERT_CALLBACK) {
		ZVAL_LONG(&arguments[0], ASSERT_CALLBACK);
		call("assert_options", value, 1, arguments);
	} else if (kind >= VALUE_LOCALE) {
		const char *name = setlocale(categories[kind - VALUE_LOCALE], NULL);
		ZVAL_STRING(value, name ? name : "C");
	} else if (!call(getters[kind], value, 0, arguments) && kind != VALUE_LIBXML_ERRORS) {
		ZVAL_UNDEF(value);
	}
}

static void set_value(value_kind kind, zval *value)
{
	zval arguments[2], result;
	ZVAL_UNDEF(&result);
	if (kind == VALUE_DIRECTORY) {
		set_directory(value);
	} else if (kind == VALUE_UMASK) {
		umask((mode_t)Z_LVAL_P(value));
	} else if (kind == VALUE_ASSERT_CALLBACK) {
		ZVAL_LONG(&arguments[0], ASSERT_CALLBACK);
		ZVAL_COPY_VALUE(&arguments[1], value);
		call("assert_options", &result, 2, arguments);
	} else if (kind >= VALUE_LOCALE_BESIDE) {
		setlocale(categories[kind - VALUE_LOCALE], Z_STRVAL_P(value));
	} else if (kind >= VALUE_LOCALE) {
		/* PHP's function also records the locale for other functions of PHP. */
		ZVAL_LONG(&arguments[0], categories[kind - VALUE_LOCALE]);
		ZVAL_COPY_VALUE(&arguments[1], value);
		call("setlocale", &result, 2, arguments);
	} else {
		call(setters[kind], &result, 1, value);
	}
	zval_ptr_dtor(&result);
}

static void release_value(value_kind kind, zval *value)
{
	if (kind == VALUE_DIRECTORY && Z_TYPE_P(value) == IS_LONG) {
		close((int)Z_LVAL_P(value));
	}
	zval_ptr_dtor_nogc(value);
	ZVAL_UNDEF(value);
}

static void note_value(value_kind kind)
{
	fermata_changes *noted = changes();
	zval *value = &noted->values[kind];
	if (Z_ISUNDEF_P(value)) {
		noted->has_values = true;
		fermata_quiet_begin();
		get_value(kind, value);
		fermata_quiet_end_logged("noting what a handler changes: ");
	}
}

static void note_locale(void)
{
	for (value_kind kind = VALUE_LOCALE; kind < VALUES; kind++) {
		note_value(kind);
	}
}

static void get_ini(const zend_ini_entry *entry, zval *value)
{
	if (entry->modified && entry->value) {
		ZVAL_STR_COPY(value, entry->value);
	} else {
		ZVAL_NULL(value);
	}
}

static bool (*keeps_session_setting)(void);

void fermata_changes_wrap_session_settings(bool (*keeps)(void))
{
	keeps_session_setting = keeps;
}

static void note_ini(zend_string *name)
{
	const zend_ini_entry *entry = zend_hash_find_ptr(EG(ini_directives), name);
	/* The runner handles the time limit, and sessions.c the settings of sessions. */
	bool is_kept = zend_string_equals_literal(name, "max_execution_time")
		|| (zend_string_starts_with_literal(name, "session.") && keeps_session_setting());
	if (!entry || is_kept) {
		return;
	}
	fermata_changes *noted = changes();
	if (!noted->ini) {
		noted->ini = zend_new_array(0);
	}
	if (UNEXPECTED(zend_string_equals_literal(name, "assert.callback"))) {
		note_value(VALUE_ASSERT_CALLBACK);
	}
	if (!zend_hash_exists(noted->ini, name)) {
		zval value;
		get_ini(entry, &value);
		zend_hash_add_new(noted->ini, name, &value);
	}
}

static void note_ini_named(const char *name)
{
	zend_string *string = zend_string_init(name, strlen(name), false);
	note_ini(string);
	zend_string_release(string);
}

static void get_environment(const zend_string *name, zval *value)
{
	const char *found = getenv(ZSTR_VAL(name));
	if (found) {
		ZVAL_STRING(value, found);
	} else {
		ZVAL_FALSE(value);
	}
}

static void note_environment(const zend_string *assignment)
{
	const char *equals = memchr(ZSTR_VAL(assignment), '=', ZSTR_LEN(assignment));
	size_t len = equals ? (size_t)(equals - ZSTR_VAL(assignment)) : ZSTR_LEN(assignment);
	fermata_changes *noted = changes();
	if (!noted->environment) {
		noted->environment = zend_new_array(0);
	}
	zend_string *name = zend_string_init(ZSTR_VAL(assignment), len, false);
	if (len && !zend_hash_exists(noted->environment, name)) {
		zval value;
		get_environment(name, &value);
		zend_hash_add_new(noted->environment, name, &value);
	}
	zend_string_release(name);
}

static void take_handlers(handlers *to)
{
	*to = (handlers){.error_reporting = EG(user_error_handler_error_reporting), .errors = EG(user_error_handlers),
		.errors_reporting = EG(user_error_handlers_error_reporting), .exceptions = EG(user_exception_handlers)};
	ZVAL_COPY_VALUE(&to->error, &EG(user_error_handler));
	ZVAL_COPY_VALUE(&to->exception, &EG(user_exception_handler));
}

static void put_handlers(const handlers *from)
{
	ZVAL_COPY_VALUE(&EG(user_error_handler), &from->error);
	ZVAL_COPY_VALUE(&EG(user_exception_handler), &from->exception);
	EG(user_error_handler_error_reporting) = from->error_reporting;
	EG(user_error_handlers) = from->errors;
	EG(user_error_handlers_error_reporting) = from->errors_reporting;
	EG(user_exception_handlers) = from->exceptions;
}

/* The handler continues with a copy of the current handlers; its stacks start empty. */
static void put_own_handlers(const handlers *found)
{
	ZVAL_COPY(&EG(user_error_handler), &found->error);
	ZVAL_COPY(&EG(user_exception_handler), &found->exception);
	EG(user_error_handler_error_reporting) = found->error_reporting;
	zend_stack_init(&EG(user_error_handlers), sizeof(zval));
	zend_stack_init(&EG(user_error_handlers_error_reporting), sizeof(int));
	zend_stack_init(&EG(user_exception_handlers), sizeof(zval));
}

static void note_handlers(void)
{
	fermata_changes *noted = changes();
	if (noted->has_handlers) {
		return;
	}
	noted->has_handlers = true;
	take_handlers(&noted->handlers);
	put_own_handlers(&noted->handlers);
}

static void note_shutdown(void)
{
	fermata_changes *noted = changes();
	if (!noted->has_shutdown) {
		noted->has_shutdown = true;
		noted->shutdown = BG(user_shutdown_function_names);
		BG(user_shutdown_function_names) = NULL;
	}
}

static void take_http(http_state *to)
{
	*to = (http_state){.headers = SG(sapi_headers), .body = SG(request_info).request_body, .post_read = SG(post_read),
		.uploads = SG(rfc1867_uploaded_files)};
	ZVAL_COPY_VALUE(&to->callback, &SG(callback_func));
}

static void put_http(const http_state *from)
{
	SG(sapi_headers) = from->headers;
	SG(request_info).request_body = from->body;
	SG(post_read) = from->post_read;
	SG(rfc1867_uploaded_files) = from->uploads;
	ZVAL_COPY_VALUE(&SG(callback_func), &from->callback);
}

/* The handler starts with empty state; http/globals.c restores its own state. */
void fermata_changes_note_http(void)
{
	fermata_changes *noted = changes();
	slot(fermata_this_fiber())->has_request = noted->has_http = true;
	take_http(&noted->http);
	http_state own = {.headers = {.headers = noted->http.headers.headers, .send_default_content_type = true}};
	own.headers.headers.head = own.headers.headers.tail = own.headers.headers.traverse_ptr = NULL;
	own.headers.headers.count = 0;
	ZVAL_UNDEF(&own.callback);
	put_http(&own);
}

static zend_string *first_argument(const zend_execute_data *execute_data)
{
	zval *argument = ZEND_CALL_NUM_ARGS(execute_data) ? ZEND_CALL_ARG(execute_data, 1) : NULL;
	if (argument) {
		ZVAL_DEREF(argument);
	}
	return argument && Z_TYPE_P(argument) == IS_STRING ? Z_STR_P(argument) : NULL;
}

static void note_ini_argument(const zend_execute_data *execute_data)
{
	zend_string *name = first_argument(execute_data);
	if (name) {
		note_ini(name);
	}
}

static void note_environment_argument(const zend_execute_data *execute_data)
{
	zend_string *assignment = first_argument(execute_data);
	if (assignment) {
		note_environment(assignment);
	}
}

static void note_assertions(void)
{
	static const char *const names[] = {"assert.active", "assert.bail", "assert.warning", "assert.callback", "assert.exception"};
	note_value(VALUE_ASSERT_CALLBACK);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		note_ini_named(names[i]);
	}
}

/* Wrapped functions */

/* Function, condition under which it changes state, and the way to record the previous state. Several functions only read if they
 * are called without arguments. */
#define WRAPPED(with) \
	with(date_default_timezone_set, true, note_value(VALUE_TIMEZONE)) \
	with(chdir, true, note_value(VALUE_DIRECTORY)) \
	with(umask, ZEND_NUM_ARGS(), note_value(VALUE_UMASK)) \
	with(libxml_use_internal_errors, true, note_value(VALUE_LIBXML_ERRORS)) \
	with(mb_internal_encoding, ZEND_NUM_ARGS(), note_value(VALUE_MB_ENCODING)) \
	with(mb_http_output, ZEND_NUM_ARGS(), note_value(VALUE_MB_HTTP_OUTPUT)) \
	with(mb_detect_order, ZEND_NUM_ARGS(), note_value(VALUE_MB_ORDER)) \
	with(mb_regex_encoding, ZEND_NUM_ARGS(), note_value(VALUE_MB_REGEX)) \
	with(mb_substitute_character, ZEND_NUM_ARGS(), note_value(VALUE_MB_SUBSTITUTE)) \
	with(mb_language, ZEND_NUM_ARGS(), note_ini_named("mbstring.language")) \
	with(setlocale, true, note_locale()) \
	with(ini_set, true, note_ini_argument(execute_data)) \
	with(ini_alter, true, note_ini_argument(execute_data)) \
	with(ini_restore, true, note_ini_argument(execute_data)) \
	with(set_include_path, true, note_ini_named("include_path")) \
	with(error_reporting, ZEND_NUM_ARGS(), note_ini_named("error_reporting")) \
	with(gc_enable, true, note_ini_named("zend.enable_gc")) \
	with(gc_disable, true, note_ini_named("zend.enable_gc")) \
	with(assert_options, true, note_assertions()) \
	with(bcscale, ZEND_NUM_ARGS(), note_ini_named("bcmath.scale")) \
	with(locale_set_default, true, note_ini_named("intl.default_locale")) \
	with(putenv, true, note_environment_argument(execute_data)) \
	with(set_error_handler, true, note_handlers()) \
	with(restore_error_handler, true, note_handlers()) \
	with(set_exception_handler, true, note_handlers()) \
	with(restore_exception_handler, true, note_handlers()) \
	with(register_shutdown_function, true, note_shutdown()) \
	with(session_register_shutdown, true, note_shutdown()) \
	with(mt_srand, true, changes()->has_seed = true) \
	with(srand, true, changes()->has_seed = true)

#define DEFINE_WRAPPED(name, changes_something, note) \
	static zif_handler original_##name; \
	static ZEND_NAMED_FUNCTION(wrapped_##name) \
	{ \
		if (is_handlers() && (changes_something)) { \
			note; \
		} \
		original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
	}
WRAPPED(DEFINE_WRAPPED)

/* Does nothing if the function does not exist. */
void fermata_wrap(HashTable *functions, const char *name, zif_handler wrapper, zif_handler *original)
{
	zend_function *function = zend_hash_str_find_ptr(functions, name, strlen(name));
	if (function && function->type == ZEND_INTERNAL_FUNCTION && function->internal_function.handler != wrapper) {
		*original = function->internal_function.handler;
		function->internal_function.handler = wrapper;
	}
}

/* Locale::setDefault() of ext/intl does the same as locale_set_default(). */
static zif_handler original_set_default;
static ZEND_NAMED_FUNCTION(wrapped_set_default)
{
	if (is_handlers()) {
		note_ini_named("intl.default_locale");
	}
	original_set_default(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Must run before a script is compiled: compiled code may contain the address of an internal function's handler. */
void fermata_changes_wrap(void)
{
#define WRAP(name, changes_something, note) fermata_wrap(CG(function_table), #name, wrapped_##name, &original_##name);
	WRAPPED(WRAP)
#undef WRAP
	zend_class_entry *locale = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("locale"));
	if (locale) {
		fermata_wrap(&locale->function_table, "setdefault", wrapped_set_default, &original_set_default);
	}
}

/* Superglobals
 *
 * The worker holds a second reference to each array that exists when it starts, so any write copies the array. */

zval *fermata_global_search(fermata_superglobal number)
{
	zval *value = zend_hash_find_known_hash(&EG(symbol_table), fermata_globals.names[number]);
	if (value) {
		fermata_globals.places[number] = (uint32_t)((Bucket *)value - EG(symbol_table).arData);
	}
	return value;
}

/* Records the positions of the superglobals, which change when variables are added. */
static void globals_locate(void)
{
	const HashTable *table = &EG(symbol_table);
	fermata_globals.table = table->arData;
	fermata_globals.used = table->nNumUsed;
	fermata_globals.elements = table->nNumOfElements;
	fermata_globals.last = table->nNumUsed ? table->arData[table->nNumUsed - 1].key : NULL;
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		zval *value = fermata_global_find(i);
		if (value && !Z_ISUNDEF(fermata_globals.start[i])) {
			fermata_globals.at[i] = &Z_ARR_P(value);
			fermata_globals.arrays[i] = Z_ARR(fermata_globals.start[i]);
		} else {
			fermata_globals.at[i] = &fermata_globals.arrays[i];
			fermata_globals.arrays[i] = NULL;
		}
	}
}

/* Compares each superglobal; returns true if one differs from the start. */
bool fermata_globals_compare(void)
{
	bool differ = false;
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		const zval *value = fermata_global_find(i), *start = &fermata_globals.start[i];
		differ |= value ? Z_ISUNDEF_P(start) || Z_TYPE_P(value) != IS_ARRAY || Z_ARR_P(value) != Z_ARR_P(start) : !Z_ISUNDEF_P(start);
	}
	if (!differ) {
		globals_locate();
	}
	return differ;
}

/* Moves the current value out, and the other value in. */
static void global_exchange(fermata_superglobal number, zval *other)
{
	zval *value = fermata_global_find(number), given;
	if (value && Z_TYPE_P(value) == IS_ARRAY && Z_TYPE_P(other) == IS_ARRAY && Z_ARR_P(value) == Z_ARR_P(other)) {
		return;
	}
	ZVAL_COPY_VALUE(&given, other);
	ZVAL_UNDEF(other);
	if (value) {
		ZVAL_COPY_VALUE(other, value);
		ZVAL_NULL(value);
	}
	if (Z_ISUNDEF(given)) {
		if (value) {
			zend_hash_del(&EG(symbol_table), fermata_globals.names[number]);
		}
	} else if (value) {
		ZVAL_COPY_VALUE(value, &given);
	} else {
		zend_hash_add_new(&EG(symbol_table), fermata_globals.names[number], &given);
	}
}

/* Called in a worker before its first handler. */
void fermata_changes_start(void)
{
	memset(&fermata_globals, 0, sizeof(fermata_globals));
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		fermata_globals.names[i] = zend_string_init_interned(superglobals[i], strlen(superglobals[i]), true);
		zend_string_hash_val(fermata_globals.names[i]);
		/* Creates superglobals that PHP only creates when code refers to them. */
		zend_is_auto_global(fermata_globals.names[i]);
		zval *value = fermata_global_find(i);
		if (value && Z_TYPE_P(value) == IS_ARRAY) {
			ZVAL_COPY(&fermata_globals.start[i], value);
		} else {
			ZVAL_UNDEF(&fermata_globals.start[i]);
		}
	}
	globals_locate();
}

/* Called in a process that runs jobs. Changes of a job are recorded like changes of a handler. */
void fermata_changes_start_jobs(void)
{
	fermata_changes_start();
	is_job = true;
}

/* Called when the worker stops normally. */
void fermata_changes_end(void)
{
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		zval_ptr_dtor(&fermata_globals.start[i]);
		ZVAL_UNDEF(&fermata_globals.start[i]);
	}
}

/* Exchanging state */

/* Reads the handler's own values first, so that changing a setting releases none of these values. */
static void get_values(const fermata_changes *noted, zval *own)
{
	for (value_kind kind = 0; kind < VALUES; kind++) {
		ZVAL_UNDEF(&own[kind]);
		if (!Z_ISUNDEF(noted->values[kind])) {
			get_value(kind, &own[kind]);
		}
	}
}

static void exchange_values(fermata_changes *noted, zval *own)
{
	for (value_kind kind = 0; kind < VALUES; kind++) {
		zval *value = &noted->values[kind];
		if (Z_ISUNDEF_P(value)) {
			continue;
		}
		if (kind == VALUE_DIRECTORY || (!Z_ISUNDEF(own[kind]) && (kind == VALUE_ASSERT_CALLBACK || !zend_is_identical(&own[kind], value)))) {
			set_value(kind, value);
		}
		if (EXPECTED(!Z_ISUNDEF(own[kind]))) {
			/* PHP has a copy of the value. */
			release_value(kind, value);
			ZVAL_COPY_VALUE(value, &own[kind]);
		}
	}
}

static void exchange_ini(zend_array *ini)
{
	zend_string *name;
	zval *value, now = {0};
	ZEND_HASH_FOREACH_STR_KEY_VAL(ini, name, value) {
		const zend_ini_entry *entry = zend_hash_find_ptr(EG(ini_directives), name);
		if (!entry) {
			continue;
		}
		ZVAL_UNDEF(&now);
		get_ini(entry, &now);
		if (Z_TYPE_P(value) == IS_STRING) {
			zend_alter_ini_entry(name, Z_STR_P(value), PHP_INI_USER, PHP_INI_STAGE_RUNTIME);
		} else {
			zend_restore_ini_entry(name, PHP_INI_STAGE_RUNTIME);
		}
		zval_ptr_dtor(value);
		ZVAL_COPY_VALUE(value, &now);
	} ZEND_HASH_FOREACH_END();
	/* A closed standard output must not end the worker. */
	PG(ignore_user_abort) = true;
}

static void exchange_environment(zend_array *environment)
{
	zend_string *name;
	zval *value, now = {0}, assignment, result;
	ZEND_HASH_FOREACH_STR_KEY_VAL(environment, name, value) {
		ZVAL_UNDEF(&now);
		get_environment(name, &now);
		if (Z_TYPE_P(value) == IS_STRING) {
			ZVAL_STR(&assignment, zend_string_concat3(ZSTR_VAL(name), ZSTR_LEN(name), "=", 1, Z_STRVAL_P(value), Z_STRLEN_P(value)));
		} else {
			ZVAL_STR_COPY(&assignment, name);
		}
		call("putenv", &result, 1, &assignment);
		zval_ptr_dtor(&assignment);
		zval_ptr_dtor(value);
		ZVAL_COPY_VALUE(value, &now);
	} ZEND_HASH_FOREACH_END();
}

static void exchange(fermata_changes *noted)
{
	zval own[VALUES];
	fermata_quiet_begin();
	if (UNEXPECTED(noted->has_values)) {
		get_values(noted, own);
	}
	if (noted->ini) {
		exchange_ini(noted->ini);
	}
	if (UNEXPECTED(noted->has_values)) {
		exchange_values(noted, own);
	}
	if (noted->environment) {
		exchange_environment(noted->environment);
	}
	fermata_quiet_end_logged("putting back what a handler has changed: ");
	if (noted->has_handlers) {
		handlers now;
		take_handlers(&now);
		put_handlers(&noted->handlers);
		noted->handlers = now;
	}
	if (noted->has_shutdown) {
		HashTable *now = BG(user_shutdown_function_names);
		BG(user_shutdown_function_names) = noted->shutdown;
		noted->shutdown = now;
	}
	if (noted->has_http) {
		http_state now;
		take_http(&now);
		put_http(&noted->http);
		noted->http = now;
	}
	if (noted->has_seed) {
		/* A handler must not be able to predict random numbers that another handler uses as secrets. */
		RANDOM_G(mt19937_seeded) = false;
	}
	if (noted->has_globals) {
		for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
			global_exchange(i, &noted->globals[i]);
		}
		globals_locate();
	}
}

static void release_stacks(handlers *own)
{
	zend_stack_clean(&own->errors, (void (*)(void *))ZVAL_PTR_DTOR, true);
	zend_stack_clean(&own->exceptions, (void (*)(void *))ZVAL_PTR_DTOR, true);
	zend_stack_destroy(&own->errors);
	zend_stack_destroy(&own->errors_reporting);
	zend_stack_destroy(&own->exceptions);
}

static void release_handlers(handlers *own)
{
	zval_ptr_dtor(&own->error);
	zval_ptr_dtor(&own->exception);
	release_stacks(own);
}

/* Releases a record without running application code: no value here is the last reference to an object. Nor does it trigger the
 * garbage collector, whose destructors would run after the state was restored. */
static void release(fermata_changes *own)
{
	for (value_kind kind = 0; own->has_values && kind < VALUES; kind++) {
		release_value(kind, &own->values[kind]);
	}
	if (own->ini) {
		zend_array_release(own->ini);
	}
	if (own->environment) {
		zend_array_release(own->environment);
	}
	if (own->has_handlers) {
		zval_ptr_dtor_nogc(&own->handlers.error);
		zval_ptr_dtor_nogc(&own->handlers.exception);
		release_stacks(&own->handlers);
	}
	if (own->shutdown) {
		zend_hash_destroy(own->shutdown);
		FREE_HASHTABLE(own->shutdown);
	}
	if (own->has_globals) {
		for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
			zval_ptr_dtor_nogc(&own->globals[i]);
		}
	}
	efree(own);
}

/* Records the superglobals of the start. The exchange replaces them by the handler's. */
static void note_globals(void)
{
	fermata_changes *noted = changes();
	if (!noted->has_globals) {
		noted->has_globals = true;
		for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
			ZVAL_COPY(&noted->globals[i], &fermata_globals.start[i]);
		}
	}
}

static void on_suspend(fermata_fiber *fiber)
{
	if (UNEXPECTED(fermata_globals_differ())) {
		note_globals();
	}
	if (UNEXPECTED(slot(fiber)->noted) && !fermata_is_retired()) {
		exchange(slot(fiber)->noted);
	}
}

static void on_resume(fermata_fiber *fiber)
{
	if (UNEXPECTED(slot(fiber)->noted) && !fermata_is_retired()) {
		exchange(slot(fiber)->noted);
	}
}

bool fermata_has_request(const fermata_fiber *fiber)
{
	return slot(fiber)->has_request;
}

bool fermata_has_shutdown_functions(const fermata_fiber *fiber)
{
	const fermata_changes *noted = slot(fiber)->noted;
	return noted && noted->has_shutdown && BG(user_shutdown_function_names);
}

/* Calls the shutdown functions that the handler has registered, while its request still exists. */
static void on_return(fermata_fiber *fiber)
{
	const fermata_changes *noted = slot(fiber)->noted;
	php_shutdown_function_entry *entry;
	if (!noted || !noted->has_shutdown) {
		return;
	}
	/* The functions may register more functions. */
	while (BG(user_shutdown_function_names) && !fermata_this_fiber()->dying) {
		HashTable *functions = BG(user_shutdown_function_names);
		BG(user_shutdown_function_names) = NULL;
		ZEND_HASH_FOREACH_PTR(functions, entry) {
			zval result;
			ZVAL_UNDEF(&result);
			/* `result` stays undefined if PHP cannot call the function. */
			fermata_call_shutdown_function(entry, &result);
			zval_ptr_dtor(&result);
			if (EG(exception)) {
				fermata_log_exception(FERMATA_LOG_ERROR);
			}
		} ZEND_HASH_FOREACH_END();
		zend_hash_destroy(functions);
		FREE_HASHTABLE(functions);
	}
}

void fermata_changes_keep(fermata_fiber *fiber)
{
	if (slot(fiber)->noted) {
		release(slot(fiber)->noted);
		slot(fiber)->noted = NULL;
	}
}

/* Stores the script's shutdown functions. Restores no state, because PHP's memory may be inconsistent after a fatal error. */
static void on_fatal(fermata_fiber *fiber)
{
	const fermata_changes *noted = slot(fiber)->noted;
	if (noted && noted->has_shutdown) {
		scripts_shutdown = noted->shutdown;
		has_scripts_shutdown = true;
	}
	slot(fiber)->noted = NULL;
	has_failed_request |= slot(fiber)->has_request;
}

bool fermata_changes_has_failed_request(void)
{
	return has_failed_request;
}

/* Called when the process exits. Runs the failed handler's shutdown functions, and then restores the script's. */
void fermata_changes_abandoned(void)
{
	if (has_scripts_shutdown) {
		php_call_shutdown_functions();
		php_free_shutdown_functions();
		BG(user_shutdown_function_names) = scripts_shutdown;
	}
}

/* End of a handler
 *
 * First, values that the handler has set are released, with its other changes still in force. */

static bool is_same(const zval *one, const zval *other)
{
	return Z_TYPE_P(one) == Z_TYPE_P(other) && (!Z_REFCOUNTED_P(one) || Z_COUNTED_P(one) == Z_COUNTED_P(other));
}

/* Returns true if the handler had set error or exception handlers. */
static bool release_own_handlers(const handlers *found)
{
	handlers own;
	if (EXPECTED(is_same(&EG(user_error_handler), &found->error) && is_same(&EG(user_exception_handler), &found->exception)
			&& zend_stack_is_empty(&EG(user_error_handlers)) && zend_stack_is_empty(&EG(user_exception_handlers)))) {
		return false;
	}
	take_handlers(&own);
	put_own_handlers(found);
	release_handlers(&own);
	return true;
}

static bool release_own_globals(void)
{
	zval own[FERMATA_SUPERGLOBALS];
	if (EXPECTED(!fermata_globals_differ())) {
		return false;
	}
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		ZVAL_COPY(&own[i], &fermata_globals.start[i]);
		global_exchange(i, &own[i]);
	}
	globals_locate();
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		zval_ptr_dtor(&own[i]);
	}
	return true;
}

/* Drops shutdown functions that were registered after on_return() called the handler's others. They never run. */
static bool release_own_shutdown(void)
{
	HashTable *functions = BG(user_shutdown_function_names);
	if (EXPECTED(!functions)) {
		return false;
	}
	BG(user_shutdown_function_names) = NULL;
	zend_hash_destroy(functions);
	FREE_HASHTABLE(functions);
	return true;
}

static bool release_own_assert_callback(zval *found)
{
	zval own;
	fermata_quiet_begin();
	get_value(VALUE_ASSERT_CALLBACK, &own);
	bool is_own = !is_same(&own, found);
	if (is_own) {
		set_value(VALUE_ASSERT_CALLBACK, found);
	}
	fermata_quiet_end_logged("putting back what a handler has changed: ");
	zval_ptr_dtor(&own);
	return is_own;
}

/* Returns true if destructors may have run, which may have made any change that handlers make. */
static bool release_own(fermata_changes *noted)
{
	bool had_some = release_own_globals();
	if (!noted) {
		return had_some;
	}
	if (noted->has_handlers) {
		had_some |= release_own_handlers(&noted->handlers);
	}
	if (noted->has_shutdown) {
		had_some |= release_own_shutdown();
	}
	if (UNEXPECTED(!Z_ISUNDEF(noted->values[VALUE_ASSERT_CALLBACK]))) {
		had_some |= release_own_assert_callback(&noted->values[VALUE_ASSERT_CALLBACK]);
	}
	return had_some;
}

/* Undoes the changes of a finished handler. If its destructors keep making changes without end, its values are not released. */
static void undo(fermata_fiber *fiber, bool is_without_end)
{
	if (UNEXPECTED(fermata_globals_differ())) {
		note_globals();
	}
	fermata_changes *noted = slot(fiber)->noted;
	fiber->has_ending = false;
	if (noted) {
		slot(fiber)->noted = NULL;
		exchange(noted);
		if (UNEXPECTED(is_without_end)) {
			noted->next = unreleased;
			unreleased = noted;
			return;
		}
		release(noted);
	}
}

static ZEND_COLD bool end(fermata_fiber *fiber, bool is_last)
{
	for (uint32_t i = 0; i < fermata_parts.on_undo.len; i++) {
		if (fermata_parts.on_undo.at[i](fiber) && !is_last) {
			return true;
		}
	}
	/* Values that are released here may be the last references to objects of PHP code. */
	fermata_set_cleaning(true);
	bool had_some = release_own(slot(fiber)->noted);
	fermata_set_cleaning(false);
	if (had_some && !is_last) {
		return true;
	}
	undo(fiber, had_some);
	return false;
}

static bool on_end(fermata_fiber *fiber, bool is_last)
{
	return EXPECTED(fiber) && UNEXPECTED(slot(fiber)->noted || fermata_globals_differ()) && end(fiber, is_last);
}

void fermata_changes_hide_request(fermata_fiber *fiber)
{
	slot(fiber)->has_request = false;
}

static fermata_part part = {.size = sizeof(slot_of_changes), .on_suspend = on_suspend, .on_resume = on_resume, .on_return = on_return,
	.on_end = on_end, .on_fatal = on_fatal};

void fermata_changes_init(void)
{
	fermata_part_register(&part);
}
