/* What handlers change of the state that PHP has once for a process, and that it undoes itself between two requests.
 *
 * The functions that change it are wrapped when the script begins. Called by a handler, they first note what there is on the
 * handler's fiber; at the end of the handler that is put back. A handler that waits takes its changes along: they are exchanged
 * for what there was when it gives the loop away, and back when it goes on. A handler that changes nothing pays a comparison. */
#include "core/changes.h"
#include "core/stray.h"
#include "fibers/fibers.h"
#include "SAPI.h"
#include "ext/random/php_random.h"
#include "ext/standard/basic_functions.h"
#include <locale.h>

/* Values
 *
 * What PHP has a function for that tells it, and one that sets it. */

typedef enum value_kind {
	VALUE_TIMEZONE,
	VALUE_DIRECTORY,
	VALUE_UMASK,
	VALUE_LIBXML_ERRORS,
	VALUE_MB_ENCODING,
	VALUE_MB_HTTP_OUTPUT,
	VALUE_MB_ORDER,
	VALUE_MB_REGEX,
	VALUE_MB_SUBSTITUTE,
	VALUE_LOCALE, /* from here on one per category */
	VALUE_LOCALE_BESIDE = VALUE_LOCALE + 6, /* categories that only LC_ALL reaches from PHP */
#ifdef LC_PAPER
	VALUES = VALUE_LOCALE_BESIDE + 6,
#else
	VALUES = VALUE_LOCALE_BESIDE,
#endif
} value_kind;

static const char *const getters[VALUE_LOCALE] = {"date_default_timezone_get", "getcwd", "umask", "libxml_use_internal_errors",
	"mb_internal_encoding", "mb_http_output", "mb_detect_order", "mb_regex_encoding", "mb_substitute_character"};
static const char *const setters[VALUE_LOCALE] = {"date_default_timezone_set", "chdir", "umask", "libxml_use_internal_errors",
	"mb_internal_encoding", "mb_http_output", "mb_detect_order", "mb_regex_encoding", "mb_substitute_character"};
static const int categories[VALUES - VALUE_LOCALE] = {LC_CTYPE, LC_NUMERIC, LC_TIME, LC_COLLATE, LC_MONETARY, LC_MESSAGES,
#ifdef LC_PAPER
	LC_PAPER, LC_NAME, LC_ADDRESS, LC_TELEPHONE, LC_MEASUREMENT, LC_IDENTIFICATION,
#endif
};

/* The functions that set_error_handler() and its kin have been given. */
typedef struct handlers {
	zval error, exception;
	int error_reporting;
	zend_stack errors, errors_reporting, exceptions;
} handlers;

/* The request and the response that header() and its kin, php://input and move_uploaded_file() know. */
typedef struct http_state {
	sapi_headers_struct headers;
	zval callback; /* of header_register_callback() */
	php_stream *body;
	bool post_read;
	HashTable *uploads;
} http_state;

struct fermata_changes {
	zval values[VALUES]; /* undefined = not changed */
	zend_array *ini;     /* text by name, null = as at the start of PHP; NULL = none */
	zend_array *environment; /* text by name, false = not set; NULL = none */
	bool has_values, has_handlers, has_shutdown, has_seed, has_globals, has_http;
	handlers handlers;
	http_state http;
	HashTable *shutdown; /* the functions of register_shutdown_function() */
	zval globals[FERMATA_SUPERGLOBALS]; /* undefined = there is none */
};

fermata_superglobals fermata_globals;
static HashTable *scripts_shutdown; /* put aside by a handler that has ended in a fatal error */
static bool has_scripts_shutdown;
static bool is_job; /* this process runs jobs, one after the other */
static bool is_exchanging; /* the wrapped functions are called by this file */

/* In the order of fermata_superglobal. */
static const char *const superglobals[FERMATA_SUPERGLOBALS] = {"_GET", "_POST", "_COOKIE", "_FILES", "_SERVER", "_REQUEST", "_ENV",
	"_SESSION"};

/* Noting */

static bool is_handlers(void)
{
	return (fermata.handling || is_job) && !fermata.forked && fermata_run.fiber && !is_exchanging;
}

static fermata_changes *changes(void)
{
	fermata_fiber *fiber = fermata_run.fiber;
	if (!fiber->changes) {
		fiber->changes = ecalloc(1, sizeof(fermata_changes));
	}
	return fiber->changes;
}

/* False when there is no such function, or it has failed. */
static bool call(const char *name, zval *result, uint32_t arguments_len, zval *arguments)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
	ZVAL_UNDEF(result);
	if (function) {
		zend_call_known_function(function, NULL, NULL, result, arguments_len, arguments, NULL);
	}
	return Z_TYPE_P(result) != IS_UNDEF && Z_TYPE_P(result) != IS_FALSE;
}

static void get_value(value_kind kind, zval *value)
{
	zval arguments[2];
	ZVAL_UNDEF(value);
	if (kind >= VALUE_LOCALE) {
		const char *name = setlocale(categories[kind - VALUE_LOCALE], NULL);
		ZVAL_STRING(value, name ? name : "C");
	} else if (!call(getters[kind], value, 0, arguments) && kind != VALUE_LIBXML_ERRORS) {
		ZVAL_UNDEF(value);
	}
}

static void set_value(value_kind kind, zval *value)
{
	zval arguments[2], result;
	if (kind >= VALUE_LOCALE_BESIDE) {
		setlocale(categories[kind - VALUE_LOCALE], Z_STRVAL_P(value));
		return;
	}
	if (kind >= VALUE_LOCALE) {
		/* It notes what it has set, for other functions of PHP. */
		ZVAL_LONG(&arguments[0], categories[kind - VALUE_LOCALE]);
		ZVAL_COPY_VALUE(&arguments[1], value);
		call("setlocale", &result, 2, arguments);
	} else {
		call(setters[kind], &result, 1, value);
	}
	zval_ptr_dtor(&result);
}

static void note_value(value_kind kind)
{
	fermata_changes *noted = changes();
	zval *value = &noted->values[kind];
	if (Z_ISUNDEF_P(value)) {
		noted->has_values = true;
		is_exchanging = true;
		get_value(kind, value);
		is_exchanging = false;
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

static void note_ini(zend_string *name)
{
	const zend_ini_entry *entry = zend_hash_find_ptr(EG(ini_directives), name);
	/* The runner keeps the time limit, and stray.c the settings of sessions. */
	bool is_kept = zend_string_equals_literal(name, "max_execution_time")
		|| (zend_string_starts_with_literal(name, "session.") && fermata_session_begin());
	if (!entry || is_kept) {
		return;
	}
	fermata_changes *noted = changes();
	if (!noted->ini) {
		noted->ini = zend_new_array(0);
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

/* The handler goes on with a copy of those that are in force, and puts its own on top of nothing. */
static void note_handlers(void)
{
	fermata_changes *noted = changes();
	if (noted->has_handlers) {
		return;
	}
	noted->has_handlers = true;
	take_handlers(&noted->handlers);
	Z_TRY_ADDREF(EG(user_error_handler));
	Z_TRY_ADDREF(EG(user_exception_handler));
	zend_stack_init(&EG(user_error_handlers), sizeof(zval));
	zend_stack_init(&EG(user_error_handlers_error_reporting), sizeof(int));
	zend_stack_init(&EG(user_exception_handlers), sizeof(zval));
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

/* The handler goes on with nothing, which is what fermata_globals_end() leaves of its own. */
void fermata_changes_note_http(void)
{
	fermata_changes *noted = changes();
	noted->has_http = true;
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
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		note_ini_named(names[i]);
	}
}

/* Wrapped functions */

/* Several of them only tell when they are called without arguments. */
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

/* The function stays as it is when there is none of the name. */
void fermata_wrap(HashTable *functions, const char *name, zif_handler wrapper, zif_handler *original)
{
	zend_function *function = zend_hash_str_find_ptr(functions, name, strlen(name));
	if (function && function->type == ZEND_INTERNAL_FUNCTION && function->internal_function.handler != wrapper) {
		*original = function->internal_function.handler;
		function->internal_function.handler = wrapper;
	}
}

/* Locale::setDefault() of ext/intl does the same as its function. */
static zif_handler original_set_default;
static ZEND_NAMED_FUNCTION(wrapped_set_default)
{
	if (is_handlers()) {
		note_ini_named("intl.default_locale");
	}
	original_set_default(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Before a script is compiled: code may contain the address of what an internal function calls. */
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
 * Each array that is there when the worker starts has a second owner, so that whatever is written goes to a copy. */

zval *fermata_global_search(fermata_superglobal number)
{
	zval *value = zend_hash_find_known_hash(&EG(symbol_table), fermata_globals.names[number]);
	if (value) {
		fermata_globals.places[number] = (uint32_t)((Bucket *)value - EG(symbol_table).arData);
	}
	return value;
}

/* Notes where they lie, which changes when others are added. */
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

/* Whether one of them is another than at the start, by a look at each. */
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

/* Moves what is there out, and the other in. */
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

/* In a worker, before its first handler. */
void fermata_changes_start(void)
{
	memset(&fermata_globals, 0, sizeof(fermata_globals));
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		fermata_globals.names[i] = zend_string_init_interned(superglobals[i], strlen(superglobals[i]), true);
		zend_string_hash_val(fermata_globals.names[i]);
		/* Those that PHP makes when code names them are made now. */
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

/* In a process that runs jobs: what one changes is noted as of a handler. */
void fermata_changes_start_jobs(void)
{
	fermata_changes_start();
	is_job = true;
}

/* When the worker ends in order. */
void fermata_changes_end(void)
{
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		zval_ptr_dtor(&fermata_globals.start[i]);
		ZVAL_UNDEF(&fermata_globals.start[i]);
	}
}

/* Exchanging */

static void exchange_values(fermata_changes *noted)
{
	for (value_kind kind = 0; kind < VALUES; kind++) {
		zval *value = &noted->values[kind], now = {0};
		if (Z_ISUNDEF_P(value)) {
			continue;
		}
		get_value(kind, &now);
		if (!Z_ISUNDEF(now) && !zend_is_identical(&now, value)) {
			set_value(kind, value);
		}
		zval_ptr_dtor(value);
		ZVAL_COPY_VALUE(value, &now);
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
	is_exchanging = true;
	if (UNEXPECTED(noted->has_values)) {
		exchange_values(noted);
	}
	if (noted->ini) {
		exchange_ini(noted->ini);
	}
	if (noted->environment) {
		exchange_environment(noted->environment);
	}
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
		/* Numbers that one handler can foresee must not become another's secrets. */
		RANDOM_G(mt19937_seeded) = false;
	}
	if (noted->has_globals) {
		for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
			global_exchange(i, &noted->globals[i]);
		}
		globals_locate();
	}
	is_exchanging = false;
}

static void release_handlers(handlers *own)
{
	zval_ptr_dtor(&own->error);
	zval_ptr_dtor(&own->exception);
	zend_stack_clean(&own->errors, (void (*)(void *))ZVAL_PTR_DTOR, true);
	zend_stack_clean(&own->exceptions, (void (*)(void *))ZVAL_PTR_DTOR, true);
	zend_stack_destroy(&own->errors);
	zend_stack_destroy(&own->errors_reporting);
	zend_stack_destroy(&own->exceptions);
}

static void release(fermata_changes *own)
{
	for (value_kind kind = 0; own->has_values && kind < VALUES; kind++) {
		zval_ptr_dtor(&own->values[kind]);
	}
	if (own->ini) {
		zend_array_release(own->ini);
	}
	if (own->environment) {
		zend_array_release(own->environment);
	}
	if (own->has_handlers) {
		release_handlers(&own->handlers);
	}
	if (own->shutdown) {
		zend_hash_destroy(own->shutdown);
		FREE_HASHTABLE(own->shutdown);
	}
	if (own->has_globals) {
		for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
			zval_ptr_dtor(&own->globals[i]);
		}
	}
	efree(own);
}

/* The noted superglobals are those of the start: what the handler has goes in their place when they are exchanged. */
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

/* The handler that runs on this fiber gives the loop away. */
void fermata_changes_leave(fermata_fiber *fiber)
{
	if (fermata_globals_differ()) {
		note_globals();
	}
	if (fiber->changes && !fermata_run.retired) {
		exchange(fiber->changes);
	}
}

/* It goes on. */
void fermata_changes_enter(fermata_fiber *fiber)
{
	if (!fermata_run.retired) {
		exchange(fiber->changes);
	}
}

/* Calls what the handler has registered, while its request is still there. */
void fermata_changes_shut_down(void)
{
	fermata_changes *noted = fermata_run.fiber->changes;
	php_shutdown_function_entry *entry;
	if (!noted->has_shutdown) {
		return;
	}
	if (BG(user_shutdown_function_names)) {
		fermata_globals_let_answer_leave(fermata_run.fiber);
	}
	/* They may register more. */
	while (BG(user_shutdown_function_names) && !fermata_run.fiber->dying) {
		HashTable *functions = BG(user_shutdown_function_names);
		BG(user_shutdown_function_names) = NULL;
		ZEND_HASH_FOREACH_PTR(functions, entry) {
			zval result;
			ZVAL_UNDEF(&result);
			/* Stays undefined when it cannot be called. */
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
	if (fiber->changes) {
		release(fiber->changes);
		fiber->changes = NULL;
	}
}

/* After a fatal error nothing is put back, for PHP's memory is not to be trusted. */
void fermata_changes_abandon(fermata_fiber *fiber)
{
	if (fiber->changes && fiber->changes->has_shutdown) {
		scripts_shutdown = fiber->changes->shutdown;
		has_scripts_shutdown = true;
	}
	fiber->changes = NULL;
}

/* The process ends: the functions of the handler that has failed are called before those of the script. */
void fermata_changes_abandoned(void)
{
	if (has_scripts_shutdown) {
		php_call_shutdown_functions();
		php_free_shutdown_functions();
		BG(user_shutdown_function_names) = scripts_shutdown;
	}
}

/* The handler has ended. */
void fermata_changes_undo(void)
{
	if (fermata_globals_differ()) {
		note_globals();
	}
	fermata_changes *noted = fermata_run.fiber->changes;
	if (noted) {
		fermata_run.fiber->changes = NULL;
		exchange(noted);
		release(noted);
	}
}
