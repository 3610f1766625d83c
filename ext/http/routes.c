/* Routes: the methods that Fermata\Server and Fermata\Routes share. */
#include "http/http.h"
#include "main/fopen_wrappers.h"
#include "zend_closures.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define THIS_ROUTES() FERMATA_FROM(fermata_routes, Z_OBJ_P(ZEND_THIS))
#define RETURN_THIS() RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS))

/* Converts callables to closures; returns NULL for an empty list. If `is_list`, `given` is one array of callables, otherwise the
 * callables themselves. On failure, sets `*failed` and leaves an exception pending. */
static zend_array *closures(zval *given, uint32_t len, uint32_t argument, bool is_list, bool *failed)
{
	if (!len) {
		return NULL;
	}
	static const fermata_given given_to[] = {FERMATA_GIVEN_OF(fermata_ce_request), FERMATA_GIVEN_OF(zend_ce_closure)};
	zend_array *list = zend_new_array(len);
	for (uint32_t i = 0; i < len; i++) {
		fermata_handler handler;
		if (!zend_is_callable(&given[i], 0, NULL) || !fermata_handler_init(&handler, &given[i])) {
			if (!EG(exception) && is_list) {
				zend_argument_type_error(argument, "must be a list of callables; the one at position %u is %s",
					i, fermata_type_name(&given[i]));
			} else if (!EG(exception)) {
				zend_argument_type_error(argument + i, "must be a valid callback, %s given", fermata_type_name(&given[i]));
			}
			zend_array_release(list);
			*failed = true;
			return NULL;
		}
		zend_hash_next_index_insert_new(list, &handler.closure);
		if (!fermata_handler_takes(&handler, "middleware", given_to, 2)) {
			zend_array_release(list);
			*failed = true;
			return NULL;
		}
	}
	return list;
}

/* Converts the callables of a PHP array to closures. */
zend_array *fermata_closures_of(HashTable *given, uint32_t argument, bool *failed)
{
	if (!given || !zend_hash_num_elements(given)) {
		return NULL;
	}
	zval *list = safe_emalloc(zend_hash_num_elements(given), sizeof(zval), 0), *value;
	uint32_t len = 0;
	ZEND_HASH_FOREACH_VAL(given, value) {
		ZVAL_DEREF(value);
		ZVAL_COPY_VALUE(&list[len++], value);
	} ZEND_HASH_FOREACH_END();
	zend_array *made = closures(list, len, argument, true, failed);
	efree(list);
	return made;
}

static void append(zend_array **to, zend_array *list)
{
	zval *value;
	if (!*to) {
		*to = list;
		return;
	}
	ZEND_HASH_FOREACH_VAL(list, value) {
		Z_ADDREF_P(value);
		zend_hash_next_index_insert_new(*to, value);
	} ZEND_HASH_FOREACH_END();
	zend_array_release(list);
}

static void use(INTERNAL_FUNCTION_PARAMETERS, const fermata_server *server, zend_array **to)
{
	zval *given;
	uint32_t len;
	bool failed = false;
	ZEND_PARSE_PARAMETERS_START(1, -1)
		Z_PARAM_VARIADIC('+', given, len)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	zend_array *list = closures(given, len, 1, false, &failed);
	if (failed) {
		RETURN_THROWS();
	}
	append(to, list);
	RETURN_THIS();
}

/* Returns the location of a handler in the source, for routes(). */
static zend_string *place_of(const fermata_handler *handler)
{
	const zend_function *function = handler->call.function_handler;
	if (Z_TYPE(handler->closure) == IS_OBJECT && Z_OBJCE(handler->closure) == zend_ce_closure) {
		function = zend_get_closure_method_def(Z_OBJ(handler->closure));
	}
	const zend_string *name = function->common.function_name;
	bool is_closure = name && strstr(ZSTR_VAL(name), "{closure") != NULL;
	if (function->type == ZEND_USER_FUNCTION && is_closure) {
		return zend_strpprintf(0, "%s:%u", ZSTR_VAL(function->op_array.filename), function->op_array.line_start);
	}
	if (function->common.scope) {
		return zend_strpprintf(0, "%s::%s", ZSTR_VAL(function->common.scope->name), name ? ZSTR_VAL(name) : "");
	}
	return zend_strpprintf(0, "%s", name ? ZSTR_VAL(name) : "");
}

/* Adds a route to the result of routes(). */
void fermata_server_list(fermata_server *server, const char *kind, FmStr method, const zend_string *path,
	const fermata_handler *handler, const zend_string *directory)
{
	zval entry;
	array_init_size(&entry, 4);
	add_assoc_string(&entry, "kind", kind);
	add_assoc_stringl(&entry, "method", method.ptr, method.len);
	add_assoc_stringl(&entry, "path", ZSTR_VAL(path), ZSTR_LEN(path));
	if (handler && !Z_ISUNDEF(handler->closure)) {
		add_assoc_str(&entry, "handler", place_of(handler));
	} else {
		add_assoc_string(&entry, "handler", directory ? ZSTR_VAL(directory) : "");
	}
	if (!server->listed) {
		server->listed = zend_new_array(8);
	}
	zend_hash_next_index_insert_new(server->listed, &entry);
}

/* Returns the path pattern with the group's prefix; NULL with a MisuseError pending. */
static zend_string *path_in(const fermata_routes *group, zend_string *path)
{
	if (group && ZSTR_LEN(path) && ZSTR_VAL(path)[0] != '/') {
		fermata_misuse("the path \"%s\" in the group %s does not start with /; give /%s, or nothing for the group's prefix itself",
			ZSTR_VAL(path), ZSTR_VAL(group->prefix), ZSTR_VAL(path));
		return NULL;
	}
	return group ? zend_string_concat2(ZSTR_VAL(group->prefix), ZSTR_LEN(group->prefix), ZSTR_VAL(path), ZSTR_LEN(path))
		: zend_string_copy(path);
}

/* Returns the path pattern, with the group's prefix if there is a group; NULL with a MisuseError pending. */
zend_string *fermata_routes_path(const zend_object *group, zend_string *path)
{
	return path_in(group ? FERMATA_FROM(fermata_routes, group) : NULL, path);
}

static void add_route(INTERNAL_FUNCTION_PARAMETERS, fermata_server *server, fermata_routes *group, FmStr method)
{
	zend_string *path;
	zend_fcall_info info;
	zend_fcall_info_cache call;
	HashTable *middleware = NULL;
	zend_long body_bytes = 0;
	bool body_bytes_null = true, stream_body = false, failed = false;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(2, 5)
		Z_PARAM_STR(path)
		Z_PARAM_FUNC(info, call)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_HT(middleware)
		Z_PARAM_LONG_OR_NULL(body_bytes, body_bytes_null)
		Z_PARAM_BOOL(stream_body)
	ZEND_PARSE_PARAMETERS_END();

	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	if (!body_bytes_null && body_bytes < 0) {
		fermata_misuse("bodyBytes of %s is negative; give the bytes that a body may have", ZSTR_VAL(path));
		RETURN_THROWS();
	}
	fermata_handler handler;
	fermata_route route = {0};
	zend_string *pattern = path_in(group, path);
	if (!pattern) {
		RETURN_THROWS();
	}
	if (!fermata_handler_init(&handler, &info.function_name)) {
		zend_string_release(pattern);
		if (!EG(exception)) {
			fermata_misuse("the handler of %s cannot be called", ZSTR_VAL(path));
		}
		RETURN_THROWS();
	}
	if (!fermata_handler_fit(&handler, pattern)) {
		zend_string_release(pattern);
		zval_ptr_dtor(&handler.closure);
		RETURN_THROWS();
	}
	route.middleware = fermata_closures_of(middleware, 3, &failed);
	if (failed) {
		zend_string_release(pattern);
		zval_ptr_dtor(&handler.closure);
		RETURN_THROWS();
	}
	if (group) {
		route.group = &group->std;
		GC_ADDREF(route.group);
	}
	uint32_t number = server->handlers_len;
	uint32_t code = fm_server_route(server->core, method, fermata_str(pattern), number, &error);
	if (code == FM_OK && !body_bytes_null) {
		code = fm_server_route_body(server->core, number, (uint64_t)body_bytes, &error);
	}
	if (code == FM_OK && stream_body) {
		fm_server_route_early(server->core, number);
	}
	if (code != FM_OK) {
		zend_string_release(pattern);
		zval_ptr_dtor(&handler.closure);
		fermata_route_free(&route);
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	fermata_server_list(server, "handler", method, pattern, &handler, NULL);
	zend_string_release(pattern);
	fermata_server_add(server, &handler, &route);
	RETURN_THIS();
}

/* Sets `handler` to the fallback of a static tree. Returns false with a MisuseError pending. */
static bool fallback_init(fermata_handler *handler, zval *callable, const zend_string *prefix)
{
	if (!fermata_handler_init(handler, callable)) {
		ZVAL_UNDEF(&handler->closure);
		if (!EG(exception)) {
			fermata_misuse("the fallback of %s cannot be called", ZSTR_VAL(prefix));
		}
		return false;
	}
	if (!fermata_handler_fit(handler, prefix)) {
		zval_ptr_dtor(&handler->closure);
		ZVAL_UNDEF(&handler->closure);
		return false;
	}
	return true;
}

static void add_static(INTERNAL_FUNCTION_PARAMETERS, fermata_server *server, fermata_routes *group)
{
	zend_string *prefix, *directory, *index = NULL;
	zend_long cache_seconds = 0;
	bool no_cache_seconds = true;
	zend_fcall_info info = empty_fcall_info;
	zend_fcall_info_cache call;
	FmStatic options = {.precompressed = true, .compress = true};
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(2, 9)
		Z_PARAM_STR(prefix)
		Z_PARAM_PATH_STR(directory)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG_OR_NULL(cache_seconds, no_cache_seconds)
		Z_PARAM_BOOL(options.immutable)
		Z_PARAM_STR(index)
		Z_PARAM_BOOL(options.precompressed)
		Z_PARAM_BOOL(options.compress)
		Z_PARAM_BOOL(options.sources)
		Z_PARAM_FUNC_OR_NULL(info, call)
	ZEND_PARSE_PARAMETERS_END();
	if (!no_cache_seconds && cache_seconds < 0) {
		fermata_misuse("cacheSeconds must not be negative; leave it out to let browsers decide");
		RETURN_THROWS();
	}
	if (php_check_open_basedir_ex(ZSTR_VAL(directory), 0)) {
		fermata_misuse("the directory %s is outside of open_basedir; add it there, or serve another one", ZSTR_VAL(directory));
		RETURN_THROWS();
	}
	options.cache_seconds = no_cache_seconds ? -1 : cache_seconds;
	options.index = index ? fermata_str(index) : FERMATA_LITERAL("index.html");
	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	zend_string *whole = path_in(group, prefix);
	if (!whole) {
		RETURN_THROWS();
	}
	fermata_handler fallback;
	ZVAL_UNDEF(&fallback.closure);
	if (ZEND_FCI_INITIALIZED(info) && !fallback_init(&fallback, &info.function_name, whole)) {
		zend_string_release(whole);
		RETURN_THROWS();
	}
	uint32_t number = Z_ISUNDEF(fallback.closure) ? FM_NO_HANDLER : server->handlers_len;
	uint32_t code = fm_server_static(server->core, fermata_str(whole), fermata_str(directory), &options, &error);
	if (code == FM_OK && number != FM_NO_HANDLER) {
		code = fm_server_static_fallback(server->core, fermata_str(whole), number, &error);
	}
	if (code != FM_OK) {
		zend_string_release(whole);
		zval_ptr_dtor(&fallback.closure);
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	fermata_server_list(server, "static", FERMATA_LITERAL(""), whole, NULL, directory);
	server->trees = safe_erealloc(server->trees, server->trees_len + 1, sizeof(fermata_tree), 0);
	server->trees[server->trees_len++] = (fermata_tree){.group = group ? &group->std : NULL, .prefix = whole, .fallback = number};
	if (group) {
		GC_ADDREF(&group->std);
	}
	if (number != FM_NO_HANDLER) {
		fermata_route route = {.group = group ? &group->std : NULL};
		if (group) {
			GC_ADDREF(&group->std);
		}
		fermata_server_list(server, "fallback", FERMATA_LITERAL(""), whole, &fallback, NULL);
		fermata_server_add(server, &fallback, &route);
	}
	RETURN_THIS();
}

/* Checks the prefix of a group. Returns false with a MisuseError pending. */
static bool prefix_check(const zend_string *prefix)
{
	size_t len = ZSTR_LEN(prefix);
	if (len > 1 && ZSTR_VAL(prefix)[0] == '/' && ZSTR_VAL(prefix)[len - 1] != '/') {
		return true;
	}
	fermata_misuse("the prefix \"%s\" of a group must start with / and not end with it, as in /api", ZSTR_VAL(prefix));
	return false;
}

static void add_group(INTERNAL_FUNCTION_PARAMETERS, fermata_server *server, fermata_routes *parent)
{
	zend_string *prefix;
	zend_fcall_info info;
	zend_fcall_info_cache call;
	HashTable *middleware = NULL;
	bool failed = false;
	ZEND_PARSE_PARAMETERS_START(2, 3)
		Z_PARAM_STR(prefix)
		Z_PARAM_FUNC(info, call)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_HT(middleware)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_server_check_open(server) || !prefix_check(prefix)) {
		RETURN_THROWS();
	}
	zend_array *list = fermata_closures_of(middleware, 3, &failed);
	if (failed) {
		RETURN_THROWS();
	}
	fermata_routes *group = FERMATA_FROM(fermata_routes, fermata_routes_create(fermata_ce_routes));
	group->server = server;
	GC_ADDREF(&server->std);
	if (parent) {
		group->parent = &parent->std;
		GC_ADDREF(group->parent);
	}
	group->prefix = path_in(parent, prefix);
	group->middleware = list;
	zval argument, result;
	ZVAL_OBJ(&argument, &group->std);
	ZVAL_UNDEF(&result);
	info.retval = &result;
	info.params = &argument;
	info.param_count = 1;
	zend_call_function(&info, &call);
	zval_ptr_dtor(&result);
	OBJ_RELEASE(&group->std);
	if (EG(exception)) {
		RETURN_THROWS();
	}
	RETURN_THIS();
}

/* Methods */

ZEND_METHOD(Fermata_Routes, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

#define THIS_SERVER() FERMATA_FROM(fermata_server, Z_OBJ_P(ZEND_THIS))

#define ROUTE_METHOD(name, method) \
	ZEND_METHOD(Fermata_Server, name) \
	{ \
		add_route(INTERNAL_FUNCTION_PARAM_PASSTHRU, THIS_SERVER(), NULL, FERMATA_LITERAL(method)); \
	} \
	ZEND_METHOD(Fermata_Routes, name) \
	{ \
		add_route(INTERNAL_FUNCTION_PARAM_PASSTHRU, THIS_ROUTES()->server, THIS_ROUTES(), FERMATA_LITERAL(method)); \
	}

ROUTE_METHOD(get, "GET")
ROUTE_METHOD(post, "POST")
ROUTE_METHOD(put, "PUT")
ROUTE_METHOD(patch, "PATCH")
ROUTE_METHOD(delete, "DELETE")
ROUTE_METHOD(options, "OPTIONS")
ROUTE_METHOD(any, "")

ZEND_METHOD(Fermata_Server, static)
{
	add_static(INTERNAL_FUNCTION_PARAM_PASSTHRU, THIS_SERVER(), NULL);
}

ZEND_METHOD(Fermata_Routes, static)
{
	add_static(INTERNAL_FUNCTION_PARAM_PASSTHRU, THIS_ROUTES()->server, THIS_ROUTES());
}

ZEND_METHOD(Fermata_Server, group)
{
	add_group(INTERNAL_FUNCTION_PARAM_PASSTHRU, THIS_SERVER(), NULL);
}

ZEND_METHOD(Fermata_Routes, group)
{
	add_group(INTERNAL_FUNCTION_PARAM_PASSTHRU, THIS_ROUTES()->server, THIS_ROUTES());
}

ZEND_METHOD(Fermata_Server, use)
{
	use(INTERNAL_FUNCTION_PARAM_PASSTHRU, THIS_SERVER(), &THIS_SERVER()->middleware);
}

ZEND_METHOD(Fermata_Routes, use)
{
	use(INTERNAL_FUNCTION_PARAM_PASSTHRU, THIS_ROUTES()->server, &THIS_ROUTES()->middleware);
}

/* Sets a handler that a server may have only once. Throws a MisuseError on a second call. */
static void set_handler(INTERNAL_FUNCTION_PARAMETERS, fermata_handler *to, const char *what, const fermata_given *given,
	uint32_t given_len)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(info, call)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_server_check_open(THIS_SERVER())) {
		RETURN_THROWS();
	}
	if (!Z_ISUNDEF(to->closure)) {
		fermata_misuse("there already is a handler for %s; remove one of the two", what);
		RETURN_THROWS();
	}
	if (!fermata_handler_init(to, &info.function_name)) {
		ZVAL_UNDEF(&to->closure);
		if (!EG(exception)) {
			fermata_misuse("the handler for %s cannot be called", what);
		}
		RETURN_THROWS();
	}
	char name[64];
	snprintf(name, sizeof(name), "the handler for %s", what);
	if (!fermata_handler_takes(to, name, given, given_len)) {
		zval_ptr_dtor(&to->closure);
		ZVAL_UNDEF(&to->closure);
		RETURN_THROWS();
	}
	RETURN_THIS();
}

ZEND_METHOD(Fermata_Server, notFound)
{
	static const fermata_given given[] = {FERMATA_GIVEN_OF(fermata_ce_request)};
	set_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU, &THIS_SERVER()->not_found, "paths that nothing knows", given, 1);
}

ZEND_METHOD(Fermata_Server, error)
{
	static const fermata_given given[] = {FERMATA_GIVEN_OF(zend_ce_throwable), FERMATA_GIVEN_OF(fermata_ce_request)};
	set_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU, &THIS_SERVER()->error, "errors", given, 2);
}
