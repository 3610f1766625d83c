/* Middleware: chains of closures around handlers, built once when the server starts.
 *
 * Each middleware, and the handler at the end of the chain, becomes a Fermata\Next object. Its __invoke() calls the middleware or
 * handler with the request and with the closure of the following object. A route without middleware calls its handler directly. */
#include "sockets/sockets.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "zend_closures.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define STATUS_OK 200
#define STATUS_PERMANENT_REDIRECT 308
#define STATUS_NOT_FOUND 404
#define STATUS_NO_CONTENT 204

/* Action at the end of a chain. */
typedef enum next_end {
	END_HANDLER, /* calls the handler */
	END_FILE,    /* sends a file of a static tree; `own` is the fallback, or the notFound() handler */
	END_UPGRADE, /* opens a WebSocket; `own` is its upgrade() */
	END_NAMED,   /* calls the handler with arguments from the route, matched by parameter name */
} next_end;

typedef struct next {
	fermata_handler own; /* middleware, or the handler at the end; undefined if the server itself responds */
	next_end end;
	zval after;          /* argument $next of `own`; undefined at the end */
	zend_object std;
} next;

static zend_object_handlers next_handlers;

/* Object lifetime */

static zend_object *next_create(zend_class_entry *ce)
{
	next *created = zend_object_alloc(sizeof(next), ce);
	memset(created, 0, XtOffsetOf(next, std));
	zend_object_std_init(&created->std, ce);
	created->std.handlers = &next_handlers;
	return &created->std;
}

static void next_free(zend_object *object)
{
	next *freed = FERMATA_FROM(next, object);
	zval_ptr_dtor(&freed->own.closure);
	zval_ptr_dtor(&freed->after);
	zend_object_std_dtor(object);
}

static HashTable *next_get_gc(zend_object *object, zval **table, int *len)
{
	next *looked_at = FERMATA_FROM(next, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	zend_get_gc_buffer_add_zval(buffer, &looked_at->own.closure);
	zend_get_gc_buffer_add_zval(buffer, &looked_at->after);
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

void fermata_middleware_init(void)
{
	fermata_ce_next->create_object = next_create;
	memcpy(&next_handlers, zend_get_std_object_handlers(), sizeof(next_handlers));
	next_handlers.offset = XtOffsetOf(next, std);
	next_handlers.free_obj = next_free;
	next_handlers.get_gc = next_get_gc;
	next_handlers.clone_obj = NULL;
	next_handlers.compare = zend_objects_not_comparable;
}

/* Calling */

/* Throws a TypeError with the location of the callable that returned the wrong value, instead of the location of the call. */
static ZEND_COLD void throw_wrong_return(const next *at, const zval *result)
{
	const zend_function *function = at->own.call.function_handler;
	zend_type_error("the %s must return Fermata\\Response or Fermata\\Hold, %s returned",
		Z_ISUNDEF(at->after) ? "handler" : "middleware", fermata_type_name(result));
	if (EG(exception) && function->type == ZEND_USER_FUNCTION) {
		zval line;
		ZVAL_LONG(&line, function->op_array.line_start);
		zend_update_property_ex(zend_ce_error, EG(exception), ZSTR_KNOWN(ZEND_STR_LINE), &line);
		if (function->op_array.filename) {
			zval file;
			ZVAL_STR(&file, function->op_array.filename);
			zend_update_property_ex(zend_ce_error, EG(exception), ZSTR_KNOWN(ZEND_STR_FILE), &file);
		}
	}
}

/* Returns the built-in 404 or 405 response. */
static void answer_unrouted(zval *return_value, const fermata_request *request)
{
	const FmEvent *event = &request->event;
	zend_string *text = NULL;
	if (event->unrouted == STATUS_NOT_FOUND) {
		text = zend_string_init("Nothing is here.\n", sizeof("Nothing is here.\n") - 1, false);
	} else if (event->unrouted != STATUS_NO_CONTENT) {
		text = zend_string_init(ZEND_STRL("The method is not allowed here; see Allow.\n"), false);
	}
	fermata_response *response = fermata_response_plain(event->unrouted ? event->unrouted : STATUS_NOT_FOUND, text);
	if (event->allow.ptr) {
		zend_string *name = zend_string_init(ZEND_STRL("Allow"), false);
		zend_string *allow = zend_string_init(event->allow.ptr, event->allow.len, false);
		fermata_headers_add(&response->headers, name, allow);
		zend_string_release(name);
		zend_string_release(allow);
	}
	RETVAL_OBJ(&response->std);
}

/* Returns a redirect to the path with a final slash, which relative links in a directory's index need. */
static void answer_directory(zval *return_value, const fermata_request *request)
{
	FmStr target = request->event.target;
	const char *query = memchr(target.ptr, '?', target.len);
	size_t path_len = query ? (size_t)(query - target.ptr) : target.len;
	fermata_response *response = fermata_response_plain(STATUS_PERMANENT_REDIRECT, NULL);
	zend_string *location = zend_string_concat3(target.ptr, path_len, "/", 1, target.ptr + path_len, target.len - path_len);
	fermata_headers_add(&response->headers, fermata_known.location, location);
	zend_string_release(location);
	RETVAL_OBJ(&response->std);
}

/* Sets the response to a file of a static tree. Returns false if the file does not exist. */
static bool answer_file(zval *return_value, const fermata_request *request)
{
	const FmEvent *event = &request->event;
	switch (fm_static_find(fermata.worker, event->handler, event->path)) {
		case FM_STATIC_FILE: {
			zval path;
			ZVAL_STRINGL(&path, event->path.ptr, event->path.len);
			fermata_source *source = fermata_source_new(&fermata_source_file, &path);
			zval_ptr_dtor_str(&path);
			source->tree = event->handler;
			fermata_response_with_source(return_value, source, STATUS_OK, NULL, NULL);
			return true;
		}
		case FM_STATIC_DIRECTORY: answer_directory(return_value, request); return true;
		case FM_STATIC_FAILED:
			RETVAL_OBJ(&fermata_response_plain(FERMATA_STATUS_ERROR,
				zend_string_init(ZEND_STRL("The file cannot be read.\n"), false))->std);
			return true;
		default: return false;
	}
}

/* Calls upgrade() to decide on a handshake. If it accepts the handshake, sending the response opens the WebSocket. */
static void answer_upgrade(zval *return_value, const fermata_handler *own, fermata_request *request)
{
	fermata_upgrade *upgrade = fermata_upgrade_new(request);
	if (!Z_ISUNDEF(own->closure)) {
		zval argument, result;
		ZVAL_OBJ(&argument, &upgrade->std);
		ZVAL_UNDEF(&result);
		zend_fcall_info info = {.size = sizeof(info), .retval = &result, .params = &argument, .param_count = 1};
		zend_fcall_info_cache call = own->call;
		ZVAL_COPY_VALUE(&info.function_name, &own->closure);
		zend_call_function(&info, &call);
		zval_ptr_dtor(&result);
	}
	if (EG(exception)) {
		fermata_upgrade_end(upgrade);
	} else if (upgrade->state != UPGRADE_REFUSED) {
		zval value;
		ZVAL_OBJ(&value, &upgrade->std);
		fermata_response *response = fermata_response_plain(FERMATA_STATUS_SWITCHING, NULL);
		response->source = fermata_source_new(&fermata_source_upgrade, &value);
		RETVAL_OBJ(&response->std);
	} else {
		if (upgrade->response) {
			RETVAL_OBJ_COPY(upgrade->response);
		} else {
			RETVAL_OBJ(&fermata_response_plain(upgrade->status, NULL)->std);
		}
		fermata_upgrade_end(upgrade);
	}
	OBJ_RELEASE(&upgrade->std);
}

/* Returns true if the parameter accepts only numbers. */
static bool is_number(const zend_arg_info *parameter)
{
	return (ZEND_TYPE_PURE_MASK(parameter->type) & (MAY_BE_LONG | MAY_BE_STRING)) == MAY_BE_LONG;
}

static bool find_parameter(const fermata_request *request, const zend_string *name, FmStr *value)
{
	FmStr known;
	for (size_t i = 0; fermata_request_route_at(request, i, &known, value); i++) {
		if (zend_string_equals_cstr(name, known.ptr, known.len)) {
			return true;
		}
	}
	return false;
}

/* Sets the arguments of a handler with named parameters. Returns false if a route parameter that must be a number is not one. */
static bool fill_arguments(const next *at, zval *request, zval *arguments, uint32_t *arguments_len)
{
	const zend_function *function = at->own.call.function_handler;
	const fermata_request *asked = FERMATA_FROM(fermata_request, Z_OBJ_P(request));
	for (*arguments_len = 0; *arguments_len < function->common.num_args; ++*arguments_len) {
		const zend_arg_info *parameter = &function->op_array.arg_info[*arguments_len];
		zval *argument = &arguments[*arguments_len];
		FmStr value;
		zend_ulong number;
		if (!find_parameter(asked, parameter->name, &value)) {
			if (*arguments_len >= function->common.required_num_args) {
				return true;
			}
			ZVAL_COPY(argument, request);
		} else if (!is_number(parameter)) {
			ZVAL_STRINGL(argument, value.len ? value.ptr : "", value.len);
		} else {
			zend_string *text = zend_string_init(value.len ? value.ptr : "", value.len, false);
			bool is_canonical = ZEND_HANDLE_NUMERIC_STR(ZSTR_VAL(text), ZSTR_LEN(text), number);
			zend_string_release(text);
			if (!is_canonical) {
				return false;
			}
			ZVAL_LONG(argument, (zend_long)number);
		}
	}
	return true;
}

/* Calls the handler. Responds with 404 if a route parameter that must be a number is not one. */
static void call_named(zval *return_value, const next *at, zval *request)
{
	uint32_t len;
	zval *arguments = safe_emalloc(at->own.call.function_handler->common.num_args, sizeof(zval), 0);
	if (fill_arguments(at, request, arguments, &len)) {
		zend_fcall_info info = {.size = sizeof(info), .retval = return_value, .params = arguments, .param_count = len};
		zend_fcall_info_cache call = at->own.call;
		ZVAL_COPY_VALUE(&info.function_name, &at->own.closure);
		zend_call_function(&info, &call);
	} else {
		FERMATA_FROM(fermata_request, Z_OBJ_P(request))->event.unrouted = STATUS_NOT_FOUND;
		answer_unrouted(return_value, FERMATA_FROM(fermata_request, Z_OBJ_P(request)));
	}
	while (len) {
		zval_ptr_dtor(&arguments[--len]);
	}
	efree(arguments);
}

ZEND_METHOD(Fermata_Next, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_Next, __invoke)
{
	zval *request, arguments[2];
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJECT_OF_CLASS(request, fermata_ce_request)
	ZEND_PARSE_PARAMETERS_END();
	next *at = FERMATA_FROM(next, Z_OBJ_P(ZEND_THIS));
	fermata_request *asked = FERMATA_FROM(fermata_request, Z_OBJ_P(request));
	bool is_end = Z_ISUNDEF(at->after);
	if (UNEXPECTED(at->end == END_UPGRADE)) {
		answer_upgrade(return_value, &at->own, asked);
		return;
	}
	if (UNEXPECTED(at->end == END_FILE)) {
		if (answer_file(return_value, asked)) {
			return;
		}
		asked->event.unrouted = STATUS_NOT_FOUND;
	}
	/* notFound() handles unknown paths only. If the path has no handler for the method, the server itself responds. */
	if (Z_ISUNDEF(at->own.closure) || (is_end && asked->event.unrouted && asked->event.unrouted != STATUS_NOT_FOUND)) {
		answer_unrouted(return_value, asked);
		return;
	}
	if (at->end == END_NAMED) {
		call_named(return_value, at, request);
	} else {
		zend_fcall_info info = {
			.size = sizeof(info),
			.retval = return_value,
			.params = arguments,
			.param_count = is_end ? 1 : 2,
		};
		zend_fcall_info_cache call = at->own.call;
		ZVAL_COPY_VALUE(&info.function_name, &at->own.closure);
		ZVAL_COPY_VALUE(&arguments[0], request);
		ZVAL_COPY_VALUE(&arguments[1], &at->after);
		zend_call_function(&info, &call);
	}
	if (UNEXPECTED(EG(exception))) {
		return;
	}
	if (UNEXPECTED(!fermata_is_answer(return_value))) {
		throw_wrong_return(at, return_value);
		zval_ptr_dtor(return_value);
		ZVAL_NULL(return_value);
	}
}

/* Building chains */

/* Creates a closure that calls `own` with `after` as $next. Takes ownership of both. */
static void wrap(zval *closure, const fermata_handler *own, zval *after, next_end end)
{
	next *made = FERMATA_FROM(next, next_create(fermata_ce_next));
	zval object;
	made->own = *own;
	made->end = end;
	ZVAL_COPY_VALUE(&made->after, after);
	ZVAL_OBJ(&object, &made->std);
	zend_function *invoke = zend_hash_find_ptr(&fermata_ce_next->function_table, ZSTR_KNOWN(ZEND_STR_MAGIC_INVOKE));
	zend_create_fake_closure(closure, invoke, fermata_ce_next, fermata_ce_next, &object);
	zval_ptr_dtor(&object);
}

/* Returns true if a route's pattern contains {name} or {name...}. */
static bool has_parameter(const zend_string *pattern, const zend_string *name)
{
	const char *at = ZSTR_VAL(pattern);
	while ((at = strchr(at, '{'))) {
		at++;
		size_t len = strcspn(at, "}.");
		if (zend_string_equals_cstr(name, at, len)) {
			return true;
		}
	}
	return false;
}

/* Returns true if a parameter of this type accepts a request. */
static bool takes_request(zend_type type)
{
	if (!ZEND_TYPE_IS_SET(type) || (ZEND_TYPE_PURE_MASK(type) & MAY_BE_OBJECT)) {
		return true;
	}
	/* Accept a union or intersection, which may contain the class. */
	return ZEND_TYPE_HAS_NAME(type) ? zend_string_equals_ci(ZEND_TYPE_NAME(type), fermata_ce_request->name) : ZEND_TYPE_IS_COMPLEX(type);
}

/* Checks that a handler can be called for its route. Marks the handler if route parameters are passed by name. Returns false with
 * a MisuseError pending. */
bool fermata_handler_fit(fermata_handler *handler, const zend_string *pattern)
{
	const zend_function *function = handler->call.function_handler;
	bool is_named = false, has_gap = false;
	if (function->type != ZEND_USER_FUNCTION || (function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE)) {
		return true;
	}
	for (uint32_t i = 0; i < function->common.num_args; i++) {
		const zend_arg_info *parameter = &function->op_array.arg_info[i];
		const char *name = ZSTR_VAL(parameter->name);
		bool is_optional = i >= function->common.required_num_args;
		if (has_parameter(pattern, parameter->name)) {
			if (has_gap || (ZEND_TYPE_IS_SET(parameter->type)
					&& !(ZEND_TYPE_PURE_MASK(parameter->type) & (MAY_BE_STRING | MAY_BE_LONG)))) {
				fermata_misuse(has_gap ? "the parameter $%s of the handler of %s comes after optional ones that nothing fills; put it before them"
					: "the parameter $%s of the handler of %s is filled from its path; declare it as string or int", name, ZSTR_VAL(pattern));
				return false;
			}
			is_named = true;
		} else if (is_optional && (i > 0 || !takes_request(parameter->type))) {
			has_gap = true;
		} else if (!takes_request(parameter->type) || (i > 0 && !ZEND_TYPE_IS_SET(parameter->type))) {
			fermata_misuse("the parameter $%s of the handler of %s can be given neither the Fermata\\Request nor a parameter {%s} of"
				" its path, which has none", name, ZSTR_VAL(pattern), name);
			return false;
		} else if (i > 0) {
			is_named = true;
		}
	}
	if (is_named) {
		fermata_handler own = *handler;
		zval none;
		zend_fcall_info info;
		ZVAL_UNDEF(&none);
		wrap(&handler->closure, &own, &none, END_NAMED);
		zend_fcall_info_init(&handler->closure, 0, &info, &handler->call, NULL, NULL);
	}
	return true;
}

/* Wraps `*closure` in a list of middleware, of which the first is outermost. */
static void wrap_list(zval *closure, zend_array *list)
{
	zval *member;
	ZEND_HASH_REVERSE_FOREACH_VAL(list, member) {
		fermata_handler own;
		zval after;
		ZVAL_COPY_VALUE(&after, closure);
		if (fermata_handler_init(&own, member)) {
			wrap(closure, &own, &after, END_HANDLER);
		}
	} ZEND_HASH_FOREACH_END();
}

static bool has_middleware(const fermata_server *server, const fermata_route *route)
{
	bool any = server->middleware || route->middleware;
	for (zend_object *group = route->group; group; group = fermata_routes_parent(group)) {
		any |= fermata_routes_middleware(group) != NULL;
	}
	return any;
}

/* Wraps a handler in route, group and server middleware. */
static void surround(fermata_server *server, fermata_handler *handler, const fermata_route *route, next_end end)
{
	zval closure, none;
	zend_fcall_info info;
	ZVAL_UNDEF(&none);
	wrap(&closure, handler, &none, end);
	if (route->middleware) {
		wrap_list(&closure, route->middleware);
	}
	for (zend_object *group = route->group; group; group = fermata_routes_parent(group)) {
		zend_array *list = fermata_routes_middleware(group);
		if (list) {
			wrap_list(&closure, list);
		}
	}
	if (server->middleware) {
		wrap_list(&closure, server->middleware);
	}
	ZVAL_COPY_VALUE(&handler->closure, &closure);
	zend_fcall_info_init(&handler->closure, 0, &info, &handler->call, NULL, NULL);
}

static void compose(fermata_server *server, fermata_handler *handler, const fermata_route *route)
{
	if (has_middleware(server, route) || Z_ISUNDEF(handler->closure) || route->is_fallback) {
		surround(server, handler, route, END_HANDLER);
	}
}

/* Wraps the static trees that have middleware. `fallbacks` contains their original fallback handlers; the closure of a tree
 * without a fallback is undefined. Returns false with an exception pending. */
static bool compose_trees(fermata_server *server, const fermata_handler *fallbacks)
{
	FmError error;
	error.len = 0;
	for (uint32_t i = 0; i < server->trees_len; i++) {
		fermata_route route = {.group = server->trees[i].group}, none = {0};
		if (!has_middleware(server, &route)) {
			continue;
		}
		fermata_handler handler = fallbacks[i];
		if (Z_ISUNDEF(handler.closure)) {
			handler = server->not_found;
		}
		Z_TRY_ADDREF(handler.closure);
		surround(server, &handler, &route, END_FILE);
		uint32_t number = fermata_server_add(server, &handler, &none);
		uint32_t code = fm_server_guard_files(server->core, fermata_str(server->trees[i].prefix), number, &error);
		if (code != FM_OK) {
			fermata_throw(code, &error);
			return false;
		}
	}
	fermata_trees_free(server);
	return true;
}

/* Wraps WebSocket handshakes in middleware. */
static void compose_sockets(fermata_server *server)
{
	for (uint32_t i = 0; i < server->socket_routes_len; i++) {
		fermata_socket_route *socket = &server->socket_routes[i];
		fermata_route route = {.group = socket->group, .middleware = socket->middleware};
		if (has_middleware(server, &route)) {
			socket->guard = socket->upgrade;
			Z_TRY_ADDREF(socket->guard.closure);
			surround(server, &socket->guard, &route, END_UPGRADE);
			fm_server_guard_websocket(server->core, i);
		}
		fermata_route_free(&route);
		socket->group = NULL;
		socket->middleware = NULL;
	}
}

/* Builds all chains. Called before the workers are forked, so that they share the memory. Returns false with an exception
 * pending. */
bool fermata_middleware_compose(fermata_server *server)
{
	FmError error;
	error.len = 0;
	if (server->middleware && server->has_fastcgi) {
		fm_server_warn(server->core, FERMATA_LITERAL("middleware of Server::use() does not run for the paths of Server::fastcgi(); "
			"what it checks, such as who may see a page, their scripts have to check"));
	}
	fermata_handler *fallbacks = safe_emalloc(server->trees_len, sizeof(fermata_handler), 0);
	uint32_t fallbacks_len = server->trees_len;
	for (uint32_t i = 0; i < fallbacks_len; i++) {
		ZVAL_UNDEF(&fallbacks[i].closure);
		if (server->trees[i].fallback != FM_NO_HANDLER) {
			fallbacks[i] = server->handlers[server->trees[i].fallback];
			Z_ADDREF(fallbacks[i].closure);
		}
	}
	for (uint32_t i = 0; i < server->handlers_len; i++) {
		compose(server, &server->handlers[i], &server->routes[i]);
		/* Release the group: a group and its server refer to each other, so neither would be freed. */
		fermata_route_free(&server->routes[i]);
		memset(&server->routes[i], 0, sizeof(fermata_route));
	}
	compose_sockets(server);
	bool has_composed = compose_trees(server, fallbacks);
	for (uint32_t i = 0; i < fallbacks_len; i++) {
		zval_ptr_dtor(&fallbacks[i].closure);
	}
	efree(fallbacks);
	if (!has_composed) {
		return false;
	}
	bool has_not_found = !Z_ISUNDEF(server->not_found.closure);
	if (!has_not_found && !server->middleware) {
		return true;
	}
	fermata_route route = {.is_fallback = true};
	fermata_handler fallback = server->not_found;
	ZVAL_UNDEF(&server->not_found.closure);
	compose(server, &fallback, &route);
	uint32_t number = fermata_server_add(server, &fallback, &route);
	uint32_t code = fm_server_fallback(server->core, number, server->middleware != NULL, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		return false;
	}
	return true;
}

/* Error handlers */

static ZEND_COLD void note_failure(zend_object *exception)
{
	bool is_clients = exception->ce == fermata_ce_bad_request;
	if (!is_clients) {
		fm_note_failure(fermata.worker);
	}
	fermata_log_exception(is_clients ? FERMATA_LOG_INFO : FERMATA_LOG_ERROR);
}

typedef struct slot_of_errors {
	bool answers_error; /* the result of the error handler is being sent; that result may be a stream that throws */
} slot_of_errors;

static fermata_part part;
FERMATA_SLOT(slot_of_errors, part)

/* Calls the application's error handler for an exception of a request. Returns true if the error handler has responded. Otherwise,
 * the original exception or an exception of the error handler is pending. */
static ZEND_COLD bool answers_exception(void)
{
	/* The error handler may return a stream that throws; do not call the error handler again for that exception. While the stream
	 * waits, handlers of other fibers may fail, so the flag is per fiber. */
	fermata_fiber *fiber = fermata_this_fiber();
	const fermata_handler *handler = &fermata_this_server()->error;
	if (Z_ISUNDEF(handler->closure) || slot(fiber)->answers_error) {
		return false;
	}
	zval arguments[2], result;
	zend_object *exception = EG(exception);
	GC_ADDREF(exception);
	note_failure(exception);
	ZVAL_OBJ(&arguments[0], exception);
	ZVAL_OBJ(&arguments[1], &fermata_this_request()->std);
	bool is_here = fermata_call(handler, arguments, 2, &result);
	OBJ_RELEASE(exception);
	/* The client gets a response, but the work that the exception interrupted is incomplete. */
	fiber->has_failed = true;
	if (!is_here) {
		return true;
	}
	if (EG(exception)) {
		return false;
	}
	slot(fiber)->answers_error = true;
	fermata_answer(handler, &result);
	slot(fiber)->answers_error = false;
	zval_ptr_dtor(&result);
	return true;
}

static fermata_part part = {.size = sizeof(slot_of_errors), .answers_exception = answers_exception};

void fermata_middleware_init_part(void)
{
	fermata_part_register(&part);
}
