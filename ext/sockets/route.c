/* Server::websocket(): routes and the handlers that they call for their connections. */
#include "sockets/sockets.h"
#include "zend_closures.h"
#include "base/optimize_size.h"

#define THIS_SERVER() FERMATA_FROM(fermata_server, Z_OBJ_P(ZEND_THIS))
#define RETURN_THIS() RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS))

#define HANDLERS 4

typedef struct named_handler {
	fermata_handler *handler;
	const char *method; /* in lower case, the key in PHP's function table */
	uint32_t callback;  /* FM_WS_ON_* */
} named_handler;

static const struct {
	fermata_given at[3];
	uint32_t len;
} given_to[HANDLERS] = {
	{{FERMATA_GIVEN_OF(fermata_ce_upgrade)}, 1},
	{{FERMATA_GIVEN_OF(fermata_ce_websocket)}, 1},
	{{FERMATA_GIVEN_OF(fermata_ce_websocket), FERMATA_GIVEN_OF(fermata_ce_message)}, 2},
	{{FERMATA_GIVEN_OF(fermata_ce_websocket), {FERMATA_GIVEN_INT, NULL}, {FERMATA_GIVEN_STRING, NULL}}, 3},
};

static void list_handlers(fermata_socket_route *route, named_handler list[HANDLERS])
{
	list[0] = (named_handler){&route->upgrade, "upgrade", FM_WS_ON_UPGRADE};
	list[1] = (named_handler){&route->open, "open", FM_WS_ON_OPEN};
	list[2] = (named_handler){&route->message, "message", FM_WS_ON_MESSAGE};
	list[3] = (named_handler){&route->close, "close", FM_WS_ON_CLOSE};
}

static void route_init(fermata_socket_route *route)
{
	named_handler list[HANDLERS];
	memset(route, 0, sizeof(*route));
	list_handlers(route, list);
	for (size_t i = 0; i < HANDLERS; i++) {
		ZVAL_UNDEF(&list[i].handler->closure);
	}
}

void fermata_socket_route_free(fermata_socket_route *route)
{
	named_handler list[HANDLERS];
	list_handlers(route, list);
	for (size_t i = 0; i < HANDLERS; i++) {
		zval_ptr_dtor(&list[i].handler->closure);
	}
	zval_ptr_dtor(&route->guard.closure);
	if (route->group) {
		OBJ_RELEASE(route->group);
	}
	if (route->middleware) {
		zend_array_release(route->middleware);
	}
}

void fermata_socket_route_gc(fermata_socket_route *route, zend_get_gc_buffer *buffer)
{
	named_handler list[HANDLERS];
	list_handlers(route, list);
	for (size_t i = 0; i < HANDLERS; i++) {
		zend_get_gc_buffer_add_zval(buffer, &list[i].handler->closure);
	}
	zend_get_gc_buffer_add_zval(buffer, &route->guard.closure);
	if (route->group) {
		zend_get_gc_buffer_add_obj(buffer, route->group);
	}
	fermata_gc_add_array(buffer, route->middleware);
}

/* Collects only the methods that a subclass overrides; the empty ones of WebSocketHandler would cost a call each. */
static void take_methods(named_handler list[HANDLERS], zend_object *object)
{
	for (size_t i = 0; i < HANDLERS; i++) {
		fermata_handler *handler = list[i].handler;
		zend_function *function = zend_hash_str_find_ptr(&object->ce->function_table, list[i].method, strlen(list[i].method));
		if (function && function->common.scope != fermata_ce_websocket_handler) {
			ZVAL_OBJ_COPY(&handler->closure, object);
			handler->call.function_handler = function;
			handler->call.object = object;
			handler->call.called_scope = object->ce;
		}
	}
}

/* Returns false with an exception pending. */
static bool take_callables(named_handler list[HANDLERS], zend_fcall_info given[HANDLERS], const zend_string *path)
{
	for (size_t i = 0; i < HANDLERS; i++) {
		if (!ZEND_FCI_INITIALIZED(given[i])) {
			continue;
		}
		if (!fermata_handler_init(list[i].handler, &given[i].function_name)) {
			ZVAL_UNDEF(&list[i].handler->closure);
			if (!EG(exception)) {
				fermata_misuse("the callable for %s of %s cannot be called", list[i].method, ZSTR_VAL(path));
			}
			return false;
		}
		zend_string *what = zend_strpprintf(0, "the callable for %s of %s", list[i].method, ZSTR_VAL(path));
		bool fits = fermata_handler_takes(list[i].handler, ZSTR_VAL(what), given_to[i].at, given_to[i].len);
		zend_string_release(what);
		if (!fits) {
			return false;
		}
	}
	return true;
}

/* Requests close events even without a handler: they release the value of setData(). */
static uint32_t callbacks(named_handler list[HANDLERS])
{
	uint32_t bits = FM_WS_ON_CLOSE;
	for (size_t i = 0; i < HANDLERS; i++) {
		if (!Z_ISUNDEF(list[i].handler->closure)) {
			bits |= list[i].callback;
		}
	}
	return bits;
}

/* Returns false with an exception pending. */
static bool add_route(fermata_server *server, const zend_string *path, const fermata_socket_route *route, uint32_t bits,
	zend_object *options)
{
	fermata_socket_options filled;
	FmError error;
	error.len = 0;
	fermata_socket_options_fill(&filled, options);
	filled.route.handler = server->socket_routes_len;
	filled.route.callbacks = bits;
	uint32_t code = fm_server_websocket(server->core, fermata_str(path), &filled.route, &error);
	if (filled.origins) {
		efree(filled.origins);
	}
	if (filled.protocols) {
		efree(filled.protocols);
	}
	if (code != FM_OK) {
		fermata_throw(code, &error);
		return false;
	}
	const fermata_handler *shown = Z_ISUNDEF(route->message.closure) ? &route->open : &route->message;
	fermata_server_list(server, "websocket", FERMATA_LITERAL("GET"), path, shown, NULL);
	server->socket_routes = safe_erealloc(server->socket_routes, server->socket_routes_len + 1, sizeof(fermata_socket_route), 0);
	server->socket_routes[server->socket_routes_len++] = *route;
	return true;
}

static void add_websocket(INTERNAL_FUNCTION_PARAMETERS, fermata_server *server, zend_object *group)
{
	zend_string *path;
	HashTable *middleware = NULL;
	zend_object *handler = NULL, *options = NULL;
	zend_fcall_info given[HANDLERS];
	zend_fcall_info_cache unused;
	memset(given, 0, sizeof(given));
	if (ZEND_NUM_ARGS() > 1 && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 2)) == IS_OBJECT
			&& instanceof_function(Z_OBJCE_P(ZEND_CALL_ARG(execute_data, 2)), zend_ce_closure)) {
		fermata_misuse("websocket() takes a WebSocketHandler as its second argument and closures by name: "
			"websocket('/path', message: fn (WebSocket $socket, Message $message) => …)");
		RETURN_THROWS();
	}
	ZEND_PARSE_PARAMETERS_START(1, 8)
		Z_PARAM_STR(path)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJ_OF_CLASS_OR_NULL(handler, fermata_ce_websocket_handler)
		Z_PARAM_FUNC_OR_NULL(given[2], unused)
		Z_PARAM_FUNC_OR_NULL(given[1], unused)
		Z_PARAM_FUNC_OR_NULL(given[3], unused)
		Z_PARAM_FUNC_OR_NULL(given[0], unused)
		Z_PARAM_OBJ_OF_CLASS_OR_NULL(options, fermata_ce_options)
		Z_PARAM_ARRAY_HT(middleware)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	bool any = false;
	for (size_t i = 0; i < HANDLERS; i++) {
		any |= ZEND_FCI_INITIALIZED(given[i]);
	}
	if (!handler == !any) {
		fermata_misuse(handler ? "websocket() takes a handler object or callables, not both"
			: "websocket() needs a handler object, or at least one callable such as message:");
		RETURN_THROWS();
	}
	fermata_socket_route route;
	named_handler list[HANDLERS];
	route_init(&route);
	list_handlers(&route, list);
	if (handler) {
		take_methods(list, handler);
	} else if (!take_callables(list, given, path)) {
		fermata_socket_route_free(&route);
		RETURN_THROWS();
	}
	bool failed = false;
	route.middleware = fermata_closures_of(middleware, 8, &failed);
	if (group) {
		route.group = group;
		GC_ADDREF(group);
	}
	zend_string *whole = failed ? NULL : fermata_routes_path(group, path);
	bool is_added = whole && add_route(server, whole, &route, callbacks(list), options);
	if (whole) {
		zend_string_release(whole);
	}
	if (!is_added) {
		fermata_socket_route_free(&route);
		RETURN_THROWS();
	}
	RETURN_THIS();
}

ZEND_METHOD(Fermata_Server, websocket)
{
	add_websocket(INTERNAL_FUNCTION_PARAM_PASSTHRU, THIS_SERVER(), NULL);
}

ZEND_METHOD(Fermata_Routes, websocket)
{
	zend_object *group = Z_OBJ_P(ZEND_THIS);
	add_websocket(INTERNAL_FUNCTION_PARAM_PASSTHRU, fermata_routes_server(group), group);
}

/* These methods of WebSocketHandler do nothing, but subclasses may call them as parent::. */

ZEND_METHOD(Fermata_WebSocketHandler, upgrade)
{
	zend_object *upgrade;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJ_OF_CLASS(upgrade, fermata_ce_upgrade)
	ZEND_PARSE_PARAMETERS_END();
}

ZEND_METHOD(Fermata_WebSocketHandler, open)
{
	zend_object *socket;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJ_OF_CLASS(socket, fermata_ce_websocket)
	ZEND_PARSE_PARAMETERS_END();
}

ZEND_METHOD(Fermata_WebSocketHandler, message)
{
	zend_object *socket, *message;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_OBJ_OF_CLASS(socket, fermata_ce_websocket)
		Z_PARAM_OBJ_OF_CLASS(message, fermata_ce_message)
	ZEND_PARSE_PARAMETERS_END();
}

ZEND_METHOD(Fermata_WebSocketHandler, close)
{
	zend_object *socket;
	zend_long code;
	zend_string *reason;
	ZEND_PARSE_PARAMETERS_START(3, 3)
		Z_PARAM_OBJ_OF_CLASS(socket, fermata_ce_websocket)
		Z_PARAM_LONG(code)
		Z_PARAM_STR(reason)
	ZEND_PARSE_PARAMETERS_END();
}
