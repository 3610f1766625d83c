/* Runs WebSocket handlers: for each event of a connection, a handler of its route is called.
 *
 *   exception, exit()   closes the connection with 1011 (or 1007); the response to an upgrade is 500 (or 400)
 *   fatal error         the same, and the worker retires; see handler/failure.c */
#include "sockets/sockets.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "zend_exceptions.h"

#define HEADERS_STACK 8 /* accepted handshakes with more header lines use the heap */

/* Close of a WebSocket, reported when its waiting handler returns. */
typedef struct closing {
	zend_string *reason;
	FmSocket socket;
	uint32_t handler;
	uint16_t code;
} closing;

typedef struct slot_of_socket {
	closing *closing; /* NULL = none */
} slot_of_socket;

static fermata_part part;
FERMATA_SLOT(slot_of_socket, part)

static const fermata_socket_route *route_of(const FmEvent *event)
{
	return EXPECTED(event->handler < fermata_this_server()->socket_routes_len)
		? &fermata_this_server()->socket_routes[event->handler] : NULL;
}

/* Upgrades */

/* Accepts a handshake; `more` are header lines of the middleware, added to those of accept(). */
static void accept_upgrade(const fermata_handler *handler, fermata_upgrade *upgrade, const fermata_headers *more)
{
	FmHeader some[HEADERS_STACK], *headers = some;
	uint32_t own = upgrade->headers ? upgrade->headers->len : 0, len = own + (more ? more->len : 0);
	FmSocket socket = 0;
	FmError error;
	error.len = 0;
	if (UNEXPECTED(len > HEADERS_STACK)) {
		headers = safe_emalloc(len, sizeof(FmHeader), 0);
	}
	fermata_headers_fill(upgrade->headers, headers);
	fermata_headers_fill(more, headers + own);
	uint32_t code = fm_ws_accept_request(fermata.worker, fermata_this_request()->event.request,
		fermata_str_or_absent(upgrade->protocol), headers, len, &socket, &error);
	if (UNEXPECTED(headers != some)) {
		efree(headers);
	}
	if (UNEXPECTED(code != FM_OK)) {
		if (code != FM_GONE) {
			fermata_fail_at_handler(handler, (FmStr){error.message, error.len});
		}
		return;
	}
	if (!Z_ISUNDEF(upgrade->data)) {
		fermata_websocket_set_data(socket, &upgrade->data);
	}
}

static void decide(const fermata_handler *handler, fermata_upgrade *upgrade)
{
	if (upgrade->state != UPGRADE_REFUSED) {
		accept_upgrade(handler, upgrade, NULL);
	} else if (upgrade->response) {
		fermata_respond(handler, FERMATA_FROM(fermata_response, upgrade->response));
		if (UNEXPECTED(EG(exception))) {
			fermata_fail_with_exception(handler);
		}
	} else {
		FmResponse out = {.status = upgrade->status, .body = FERMATA_LITERAL("")};
		fm_respond(fermata.worker, fermata_this_request()->event.request, &out);
	}
}

/* Sends the response that the middleware returned. Opens the WebSocket if the response still carries the upgrade. */
static void respond_with_upgrade(const fermata_handler *handler, const fermata_response *response)
{
	fermata_upgrade *upgrade = FERMATA_FROM(fermata_upgrade, Z_OBJ(response->source->value));
	if (upgrade->state == UPGRADE_OVER || upgrade->request != fermata_this_request()) {
		fermata_misuse("this Response accepts another WebSocket; return what $next($request) has given");
		return;
	}
	if (response->status == FERMATA_STATUS_SWITCHING) {
		accept_upgrade(handler, upgrade, response->headers);
	} else {
		FmHeader some[FERMATA_HEADERS_STACK];
		FmResponse out;
		FmHeader *headers = fermata_response_fill(response, some, &out);
		out.body = fermata_str_or_empty(response->body);
		fm_respond(fermata.worker, fermata_this_request()->event.request, &out);
		if (headers != some) {
			efree(headers);
		}
	}
	fermata_upgrade_end(upgrade);
}

const fermata_source_kind fermata_source_upgrade = {NULL, respond_with_upgrade};

/* Runs a handshake whose route has middleware. */
static void upgrade_guarded(const fermata_socket_route *route)
{
	zval argument, result;
	ZVAL_OBJ(&argument, &fermata_this_request()->std);
	fermata_this_request()->worker = fermata.worker;
	fermata_set_socket(0);
	if (UNEXPECTED(!fermata_call(&route->guard, &argument, 1, &result))) {
		return;
	}
	if (UNEXPECTED(EG(exception))) {
		fermata_fail_with_exception(&route->guard);
	} else {
		fermata_answer(&route->guard, &result);
	}
	if (UNEXPECTED(fermata_is_leaving())) {
		return;
	}
	zval_ptr_dtor(&result);
	fermata_request_done();
}

void fermata_socket_upgrade(const FmEvent *event)
{
	const fermata_socket_route *route = route_of(event);
	if (route && !Z_ISUNDEF(route->guard.closure)) {
		upgrade_guarded(route);
		return;
	}
	if (UNEXPECTED(!route || Z_ISUNDEF(route->upgrade.closure))) {
		return;
	}
	fermata_request *request = fermata_this_request();
	request->worker = fermata.worker;
	fermata_set_socket(0);
	fermata_upgrade *upgrade = fermata_upgrade_new(request);
	zval argument, result;
	ZVAL_OBJ(&argument, &upgrade->std);
	if (!fermata_call(&route->upgrade, &argument, 1, &result)) {
		zval_ptr_dtor(&argument);
		return;
	}
	if (UNEXPECTED(EG(exception))) {
		fermata_fail_with_exception(&route->upgrade);
	} else {
		decide(&route->upgrade, upgrade);
	}
	zval_ptr_dtor(&result);
	fermata_upgrade_end(upgrade);
	OBJ_RELEASE(&upgrade->std);
	fermata_request_done();
}

/* Connections */

/* Binds the shared object to the socket for the next call. */
static zend_always_inline void use_socket(FmSocket handle, zval *argument)
{
	fermata_set_socket(handle);
	fermata_websocket_bind(fermata_this_websocket(), handle);
	ZVAL_OBJ(argument, &fermata_this_websocket()->std);
}

static void take_fresh_websocket(void)
{
	if (!fermata_this_websocket()->kept) {
		fermata_websocket_keep(fermata_this_websocket());
	}
	OBJ_RELEASE(&fermata_this_websocket()->std);
	fermata_set_websocket(fermata_websocket_new());
}

static void take_fresh_message(void)
{
	fermata_message_keep(fermata_this_message());
	OBJ_RELEASE(&fermata_this_message()->std);
	fermata_set_message(fermata_message_new());
}

/* Calls a handler and discards its result. Returns false if this process is a forked child that must leave. */
static zend_always_inline bool call(const fermata_handler *handler, zval *arguments, uint32_t arguments_len)
{
	zval result;
	if (UNEXPECTED(!fermata_call(handler, arguments, arguments_len, &result))) {
		return false;
	}
	if (UNEXPECTED(EG(exception))) {
		fermata_fail_with_exception(handler);
	}
	zval_ptr_dtor(&result);
	return true;
}

static zend_always_inline void done(void)
{
	fermata_fiber_returned();
	if (UNEXPECTED(fermata_held_by_others(&fermata_this_websocket()->std) || fermata_this_websocket()->kept)) {
		take_fresh_websocket();
	}
	fermata_clean_up();
	fermata.handling = false;
	if (UNEXPECTED(fermata_this_fiber()->touched)) {
		fermata_fiber_clean_up();
	}
}

void fermata_socket_open(const FmEvent *event)
{
	const fermata_socket_route *route = route_of(event);
	zval argument;
	if (UNEXPECTED(!route || Z_ISUNDEF(route->open.closure))) {
		return;
	}
	use_socket(event->socket, &argument);
	if (call(&route->open, &argument, 1)) {
		done();
	}
}

void fermata_socket_message(const FmEvent *event)
{
	const fermata_socket_route *route = route_of(event);
	zval arguments[2];
	if (UNEXPECTED(!route || Z_ISUNDEF(route->message.closure))) {
		return;
	}
	fermata_message *message = fermata_this_message();
	message->bytes = event->body;
	message->binary = event->binary;
	use_socket(event->socket, &arguments[0]);
	ZVAL_OBJ(&arguments[1], &message->std);
	if (UNEXPECTED(!call(&route->message, arguments, 2))) {
		return;
	}
	if (UNEXPECTED(fermata_held_by_others(&message->std))) {
		take_fresh_message();
	} else {
		fermata_message_forget(message);
	}
	done();
}

void fermata_socket_close(const FmEvent *event)
{
	const fermata_socket_route *route = route_of(event);
	zval arguments[3];
	fermata_fiber *waiting = UNEXPECTED(fermata_has_waiting()) ? fermata_fiber_of_socket(event->socket) : NULL;
	if (UNEXPECTED(waiting)) {
		/* Events of a socket run one at a time. The close event waits for this handler; wake the handler now. */
		closing *mine = ecalloc(1, sizeof(closing));
		mine->reason = zend_string_init(event->body.len ? event->body.ptr : "", event->body.len, false);
		mine->socket = event->socket;
		mine->code = event->code;
		mine->handler = event->handler;
		slot(waiting)->closing = mine;
		fermata_client_left(waiting);
		return;
	}
	if (route && !Z_ISUNDEF(route->close.closure)) {
		use_socket(event->socket, &arguments[0]);
		ZVAL_LONG(&arguments[1], event->code);
		ZVAL_STRINGL_FAST(&arguments[2], event->body.len ? event->body.ptr : "", event->body.len);
		fermata_this_fiber()->wait.without_client = true;
		bool stays = call(&route->close, arguments, 3);
		fermata_this_fiber()->wait.without_client = false;
		zval_ptr_dtor(&arguments[2]);
		if (UNEXPECTED(!stays)) {
			return;
		}
	} else if (!fermata_websocket_data(event->socket)) {
		return;
	}
	fermata_set_socket(event->socket);
	fermata.handling = true;
	fermata_websocket_release(event->socket);
	done();
}

static void on_cleaned_up(fermata_fiber *fiber)
{
	closing *mine = slot(fiber)->closing;
	if (EXPECTED(!mine)) {
		return;
	}
	slot(fiber)->closing = NULL;
	FmEvent event = {.kind = FM_EVENT_WS_CLOSE, .handler = mine->handler, .socket = mine->socket, .code = mine->code,
		.body = fermata_str(mine->reason)};
	fermata_socket_close(&event);
	zend_string_release(mine->reason);
	efree(mine);
}

static void on_create(fermata_running *objects)
{
	objects->websocket = fermata_websocket_new();
	objects->message = fermata_message_new();
}

static void on_first_wait(void)
{
	if (fermata_this_socket() && !fermata_this_stream()) {
		fermata_websocket_keep(fermata_this_websocket());
		if (fermata_this_message()->bytes.ptr) {
			fermata_message_keep(fermata_this_message());
		}
	}
}

static void on_release(void)
{
	OBJ_RELEASE(&fermata_this_websocket()->std);
	OBJ_RELEASE(&fermata_this_message()->std);
}

static fermata_part part = {.size = sizeof(slot_of_socket), .on_cleaned_up = on_cleaned_up,
	.on_create = on_create, .on_first_wait = on_first_wait, .on_release = on_release};

void fermata_socket_runner_init(void)
{
	fermata_part_register(&part);
}
