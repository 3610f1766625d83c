/* Middleware: closures around handlers, put together once when the server starts.
 *
 * Each middleware and the handler at the end become one Fermata\Next object, whose __invoke() calls it with the request and
 * with the closure of the next object. What a route without middleware calls stays the handler itself. */
#include "fibers.h"
#include "zend_closures.h"
#include "zend_exceptions.h"

#define STATUS_NOT_FOUND 404
#define STATUS_NO_CONTENT 204

typedef struct next {
	fermata_handler own; /* a middleware, or the handler at the end; undefined where the server answers by itself */
	zval after;          /* what own is given as $next; undefined at the end */
	zend_object std;
} next;

static zend_object_handlers next_handlers;

/* Life of the object */

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

/* The place of the mistake is the function that made it, and not the one that called it. */
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

/* What the server would answer without the program: nothing is there, or not for this method. */
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
	const fermata_request *asked = FERMATA_FROM(fermata_request, Z_OBJ_P(request));
	bool is_end = Z_ISUNDEF(at->after);
	/* notFound() is for paths that nothing knows; what is known but not for this method is the server's to answer. */
	if (Z_ISUNDEF(at->own.closure) || (is_end && asked->event.unrouted && asked->event.unrouted != STATUS_NOT_FOUND)) {
		answer_unrouted(return_value, asked);
		return;
	}
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
	if (UNEXPECTED(EG(exception))) {
		return;
	}
	if (UNEXPECTED(!fermata_is_answer(return_value))) {
		throw_wrong_return(at, return_value);
		zval_ptr_dtor(return_value);
		ZVAL_NULL(return_value);
	}
}

/* Putting together */

/* A closure that calls own with what comes after it. Takes over both. */
static void wrap(zval *closure, const fermata_handler *own, zval *after)
{
	next *made = FERMATA_FROM(next, next_create(fermata_ce_next));
	zval object;
	made->own = *own;
	ZVAL_COPY_VALUE(&made->after, after);
	ZVAL_OBJ(&object, &made->std);
	zend_function *invoke = zend_hash_find_ptr(&fermata_ce_next->function_table, ZSTR_KNOWN(ZEND_STR_MAGIC_INVOKE));
	zend_create_fake_closure(closure, invoke, fermata_ce_next, fermata_ce_next, &object);
	zval_ptr_dtor(&object);
}

/* Puts a list around what *closure calls, its first member outermost. */
static void wrap_list(zval *closure, zend_array *list)
{
	zval *member;
	ZEND_HASH_REVERSE_FOREACH_VAL(list, member) {
		fermata_handler own;
		zval after;
		ZVAL_COPY_VALUE(&after, closure);
		if (fermata_handler_init(&own, member)) {
			wrap(closure, &own, &after);
		}
	} ZEND_HASH_FOREACH_END();
}

/* Puts a route's own middleware, that of its groups and that of the server around a handler. */
static void compose(fermata_server *server, fermata_handler *handler, const fermata_route *route)
{
	bool any = server->middleware || route->middleware;
	for (zend_object *group = route->group; group; group = fermata_routes_parent(group)) {
		any |= fermata_routes_middleware(group) != NULL;
	}
	if (!any && !Z_ISUNDEF(handler->closure) && !route->is_fallback) {
		return;
	}
	zval closure, none;
	zend_fcall_info info;
	ZVAL_UNDEF(&none);
	wrap(&closure, handler, &none);
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

/* Before the workers are forked, so that what it makes is shared by all of them. False after an exception. */
bool fermata_middleware_compose(fermata_server *server)
{
	FmError error;
	error.len = 0;
	for (uint32_t i = 0; i < server->handlers_len; i++) {
		compose(server, &server->handlers[i], &server->routes[i]);
		/* A group refers to its server: without an end to that neither would ever be freed. */
		fermata_route_free(&server->routes[i]);
		memset(&server->routes[i], 0, sizeof(fermata_route));
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
		fm_note_failure(fermata_run.worker);
	}
	fermata_log_exception(is_clients ? FERMATA_LOG_INFO : FERMATA_LOG_ERROR);
}

/* Lets the program's error handler answer for an exception of a request. True when that is done; else an exception is pending,
 * the first one or that of the error handler. */
ZEND_COLD bool fermata_error_handled(void)
{
	/* What the error handler returns may be a stream that throws, which is not for it again; or that waits, while the
	 * handlers of other fibers fail. */
	fermata_fiber *fiber = fermata_run.fiber;
	const fermata_handler *handler = &fermata_run.server->error;
	if (Z_ISUNDEF(handler->closure) || fiber->answers_error) {
		return false;
	}
	zval arguments[2], result;
	zend_object *exception = EG(exception);
	GC_ADDREF(exception);
	note_failure(exception);
	ZVAL_OBJ(&arguments[0], exception);
	ZVAL_OBJ(&arguments[1], &fermata_run.request->std);
	bool is_here = fermata_call(handler, arguments, 2, &result);
	OBJ_RELEASE(exception);
	if (!is_here) {
		return true;
	}
	if (EG(exception)) {
		return false;
	}
	fiber->answers_error = true;
	fermata_answer(handler, &result);
	fiber->answers_error = false;
	zval_ptr_dtor(&result);
	return true;
}
