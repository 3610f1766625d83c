/* Request input other than the superglobals: filter_input() and related functions, and getenv(), which returns the CGI variables
 * under PHP-FPM. These PHP functions are wrapped, so a request that calls none of them has no cost. */
#include "http/http.h"
#include "state/changes.h"
#include "state/sapi_output.h"
#include "main/php_variables.h"
#include "zend_smart_str.h"

/* Returns the original input, which the application's writes to superglobals do not change; NULL for a kind that PHP itself
 * provides. The caller releases the array. */
static zend_array *input_of(zend_long kind)
{
	switch (kind) {
		case PARSE_GET: return fermata_globals_query();
		case PARSE_POST: return fermata_globals_form();
		case PARSE_COOKIE: return fermata_globals_cookies();
		case PARSE_SERVER: return fermata_globals_params();
		default: return NULL;
	}
}

static void register_input(int kind, const smart_str *name, zval *value);

static void register_entries(int kind, const smart_str *name, zend_array *entries)
{
	zend_ulong number;
	zend_string *key;
	zval *value;
	ZEND_HASH_FOREACH_KEY_VAL(entries, number, key, value) {
		smart_str inner = {0};
		smart_str_append(&inner, name->s);
		smart_str_appendc(&inner, '[');
		if (key) {
			smart_str_append(&inner, key);
		} else {
			smart_str_append_unsigned(&inner, number);
		}
		smart_str_appendc(&inner, ']');
		register_input(kind, &inner, value);
		smart_str_free(&inner);
	} ZEND_HASH_FOREACH_END();
}

/* Registers a variable with ext/filter under its full name, such as `a[b]`, as PHP does for a request. PHP limits the nesting. */
static void register_input(int kind, const smart_str *name, zval *value)
{
	smart_str copy = {0};
	size_t len;
	ZVAL_DEREF(value);
	if (Z_TYPE_P(value) == IS_ARRAY) {
		register_entries(kind, name, Z_ARRVAL_P(value));
		return;
	}
	zend_string *text = zval_get_string(value);
	smart_str_append(&copy, name->s);
	smart_str_0(&copy);
	char *bytes = estrndup(ZSTR_VAL(text), ZSTR_LEN(text));
	sapi_module.input_filter(kind, ZSTR_VAL(copy.s), &bytes, ZSTR_LEN(text), &len);
	efree(bytes);
	smart_str_free(&copy);
	zend_string_release(text);
}

/* Registers the input with ext/filter. PHP also writes the input to an array that belongs to the process; this function restores
 * that array. */
static void register_all(int kind, zend_array *input, const zend_string *only)
{
	static const int tracks[] = {[PARSE_GET] = TRACK_VARS_GET, [PARSE_POST] = TRACK_VARS_POST, [PARSE_COOKIE] = TRACK_VARS_COOKIE,
		[PARSE_SERVER] = TRACK_VARS_SERVER};
	zval *track = &PG(http_globals)[tracks[kind]], before;
	zend_ulong number;
	zend_string *key;
	zval *value;
	ZVAL_COPY_VALUE(&before, track);
	array_init(track);
	ZEND_HASH_FOREACH_KEY_VAL(input, number, key, value) {
		smart_str name = {0};
		if (key) {
			smart_str_append(&name, key);
		} else {
			smart_str_append_unsigned(&name, number);
		}
		smart_str_0(&name);
		if (!only || zend_string_equals(only, name.s)) {
			register_input(kind, &name, value);
		}
		smart_str_free(&name);
	} ZEND_HASH_FOREACH_END();
	zval_ptr_dtor(track);
	ZVAL_COPY_VALUE(track, &before);
}

/* Calls a function of ext/filter with the request's input. Then removes the input, since other handlers have other requests. */
static ZEND_COLD void call_with_input(zif_handler function, bool names_one, INTERNAL_FUNCTION_PARAMETERS)
{
	const zend_module_entry *filter = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("filter"));
	const zval *kind = ZEND_NUM_ARGS() ? ZEND_CALL_ARG(execute_data, 1) : NULL;
	const zval *name = names_one && ZEND_NUM_ARGS() > 1 ? ZEND_CALL_ARG(execute_data, 2) : NULL;
	bool is_known = filter && filter->request_shutdown_func && sapi_module.input_filter && kind && Z_TYPE_P(kind) == IS_LONG;
	zend_array *input = is_known ? input_of(Z_LVAL_P(kind)) : NULL;
	if (UNEXPECTED(EG(exception))) {
		return;
	}
	if (input) {
		register_all((int)Z_LVAL_P(kind), input, name && Z_TYPE_P(name) == IS_STRING ? Z_STR_P(name) : NULL);
		zend_array_release(input);
	}
	function(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (input) {
		filter->request_shutdown_func(filter->type, filter->module_number);
	}
}

#define FILTERS(with) \
	with(filter_input, true) \
	with(filter_input_array, false) \
	with(filter_has_var, true)

#define DEFINE_FILTER(name, names_one) \
	static zif_handler original_##name; \
	static ZEND_NAMED_FUNCTION(wrapped_##name) \
	{ \
		if (fermata_is_handlers() && fermata_has_globals()) { \
			call_with_input(original_##name, names_one, INTERNAL_FUNCTION_PARAM_PASSTHRU); \
			return; \
		} \
		original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
	}
FILTERS(DEFINE_FILTER)

/* Returns true if a web server sets a variable with this name. All other $_SERVER entries belong to the process. */
static bool is_of_request(const zend_string *name)
{
	static const char *const prefixes[] = {"AUTH_TYPE", "CONTENT_", "DOCUMENT_", "GATEWAY_INTERFACE", "HTTP_", "HTTPS", "PATH_INFO",
		"QUERY_STRING", "REMOTE_", "REQUEST_", "SCRIPT_", "SERVER_"};
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strncmp(ZSTR_VAL(name), prefixes[i], strlen(prefixes[i])) == 0) {
			return true;
		}
	}
	return false;
}

/* Returns a variable of the request, which the caller releases; NULL if the request has none with this name. */
static zend_string *find_variable(const zend_string *name)
{
	zend_array *params = is_of_request(name) ? fermata_globals_params() : NULL;
	const zval *found = params ? zend_hash_str_find(params, ZSTR_VAL(name), ZSTR_LEN(name)) : NULL;
	zend_string *value = found && Z_TYPE_P(found) == IS_STRING ? zend_string_copy(Z_STR_P(found)) : NULL;
	if (params) {
		zend_array_release(params);
	}
	return value;
}

static zif_handler original_getenv;
static ZEND_NAMED_FUNCTION(wrapped_getenv)
{
	bool has_request = fermata_is_handlers() && fermata_has_globals() && ZEND_NUM_ARGS() > 0 && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 1)) == IS_STRING
		&& (ZEND_NUM_ARGS() < 2 || Z_TYPE_P(ZEND_CALL_ARG(execute_data, 2)) == IS_FALSE);
	zend_string *value = has_request ? find_variable(Z_STR_P(ZEND_CALL_ARG(execute_data, 1))) : NULL;
	if (value) {
		RETURN_STR(value);
	}
	original_getenv(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Called before a script is compiled; see changes.c. */
void fermata_input_wrap(void)
{
#define WRAP_FILTER(name, names_one) fermata_wrap(CG(function_table), #name, wrapped_##name, &original_##name);
	FILTERS(WRAP_FILTER)
#undef WRAP_FILTER
	fermata_wrap(CG(function_table), "getenv", wrapped_getenv, &original_getenv);
}
