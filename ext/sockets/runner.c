/* The runner's part for WebSockets: the events of a connection, each a call of its route's handler.
 *
 *   exception, exit()   the connection is closed with 1011 (or 1007); an upgrade is answered 500 (or 400)
 *   fatal error         the same, and the worker retires; see core/failures.c */
#include "core/changes.h"
#include "fibers/fibers.h"
#include "zend_exceptions.h"

#define HEADERS_STACK 8 /* acceptances with more header lines fill them on the heap */

static const fermata_socket_route *route_of(const FmEvent *event)
{
	return EXPECTED(event->handler < fermata_run.server->socket_routes_len)
		? &fermata_run.server->socket_routes[event->handler] : NULL;
}

/* Upgrades */

/* `more` are header lines beside those of the decision. */
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
	uint32_t code = fm_ws_accept_request(fermata_run.worker, fermata_run.request->event.request,
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
		fm_respond(fermata_run.worker, fermata_run.request->event.request, &out);
	}
}

/* Answers by what has come through the middleware: the upgrade itself, or what they have made of it. */
static void respond_with_upgrade(const fermata_handler *handler, const fermata_response *response)
{
	fermata_upgrade *upgrade = FERMATA_FROM(fermata_upgrade, Z_OBJ(response->source->value));
	if (upgrade->state == UPGRADE_OVER || upgrade->request != fermata_run.request) {
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
		fm_respond(fermata_run.worker, fermata_run.request->event.request, &out);
		if (headers != some) {
			efree(headers);
		}
	}
	fermata_upgrade_end(upgrade);
}

const fermata_source_kind fermata_source_upgrade = {NULL, respond_with_upgrade};

/* A handshake that middleware stands around. */
static void upgrade_guarded(const fermata_socket_route *route)
{
	zval argument, result;
	ZVAL_OBJ(&argument, &fermata_run.request->std);
	fermata_run.request->worker = fermata_run.worker;
	fermata_run.socket = 0;
	if (UNEXPECTED(!fermata_call(&route->guard, &argument, 1, &result))) {
		return;
	}
	if (UNEXPECTED(EG(exception))) {
		fermata_fail_with_exception(&route->guard);
	} else {
		fermata_answer(&route->guard, &result);
	}
	if (UNEXPECTED(fermata_run.leaves)) {
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
	fermata_request *request = fermata_run.request;
	request->worker = fermata_run.worker;
	fermata_run.socket = 0;
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

/* The socket's object for the next call. */
static zend_always_inline void use_socket(FmSocket handle, zval *argument)
{
	fermata_run.socket = handle;
	fermata_websocket_bind(fermata_run.websocket, handle);
	ZVAL_OBJ(argument, &fermata_run.websocket->std);
}

static void take_fresh_websocket(void)
{
	if (!fermata_run.websocket->kept) {
		fermata_websocket_keep(fermata_run.websocket);
	}
	OBJ_RELEASE(&fermata_run.websocket->std);
	fermata_run.websocket = fermata_websocket_new();
}

static void take_fresh_message(void)
{
	fermata_message_keep(fermata_run.message);
	OBJ_RELEASE(&fermata_run.message->std);
	fermata_run.message = fermata_message_new();
}

/* False when this process leaves. What the handler returns is nobody's. */
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
	if (UNEXPECTED(fermata_run.fiber->changes)) {
		fermata_changes_shut_down();
	}
	if (UNEXPECTED(fermata_held_by_others(&fermata_run.websocket->std) || fermata_run.websocket->kept)) {
		take_fresh_websocket();
	}
	fermata_clean_up();
	fermata.handling = false;
	if (UNEXPECTED(fermata_run.fiber->touched)) {
		fermata_fiber_settle();
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
	fermata_message *message = fermata_run.message;
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
	fermata_fiber *waiting = UNEXPECTED(fermata_run.waits) ? fermata_fiber_of_socket(event->socket) : NULL;
	if (UNEXPECTED(waiting)) {
		/* Events of a socket come one after the other: this one comes when the handler has ended, which learns of it now. */
		waiting->close_reason = zend_string_init(event->body.len ? event->body.ptr : "", event->body.len, false);
		waiting->close_code = event->code;
		waiting->close_handler = event->handler;
		waiting->client->gone = true;
		fermata_interrupt(waiting);
		return;
	}
	if (route && !Z_ISUNDEF(route->close.closure)) {
		use_socket(event->socket, &arguments[0]);
		ZVAL_LONG(&arguments[1], event->code);
		ZVAL_STRINGL_FAST(&arguments[2], event->body.len ? event->body.ptr : "", event->body.len);
		fermata_run.fiber->without_client = true;
		bool stays = call(&route->close, arguments, 3);
		fermata_run.fiber->without_client = false;
		zval_ptr_dtor(&arguments[2]);
		if (UNEXPECTED(!stays)) {
			return;
		}
	} else if (!fermata_websocket_data(event->socket)) {
		return;
	}
	fermata_run.socket = event->socket;
	fermata.handling = true;
	fermata_websocket_release(event->socket);
	done();
}
