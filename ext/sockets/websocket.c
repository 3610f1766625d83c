/* Fermata\WebSocket: a flyweight that refers to one connection of this worker.
 *
 * The runner reuses one object for consecutive events. If a handler kept a reference, the runner calls
 * fermata_websocket_keep(), which copies the data that must outlive the connection, and creates a new object. */
#include "sockets/sockets.h"
#include "zend_enum.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"

#define CLOSE_CODE_MAX 4999

static zend_object_handlers websocket_handlers;

#define THIS_SOCKET() FERMATA_FROM(fermata_websocket, Z_OBJ_P(ZEND_THIS))
#define RETURN_THIS() RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *websocket_create(zend_class_entry *ce)
{
	fermata_websocket *socket = zend_object_alloc(sizeof(fermata_websocket), ce);
	memset(socket, 0, XtOffsetOf(fermata_websocket, std));
	zend_object_std_init(&socket->std, ce);
	socket->std.handlers = &websocket_handlers;
	return &socket->std;
}

fermata_websocket *fermata_websocket_new(void)
{
	return FERMATA_FROM(fermata_websocket, websocket_create(fermata_ce_websocket));
}

static void release(zend_string *string)
{
	if (string) {
		zend_string_release(string);
	}
}

static void websocket_free(zend_object *object)
{
	fermata_websocket *socket = FERMATA_FROM(fermata_websocket, object);
	release(socket->id);
	release(socket->address);
	release(socket->protocol);
	zend_object_std_dtor(object);
}

/* Objects of the same connection are equal. */
static int websocket_compare(zval *a, zval *b)
{
	ZEND_COMPARE_OBJECTS_FALLBACK(a, b);
	FmSocket handle = FERMATA_FROM(fermata_websocket, Z_OBJ_P(a))->handle;
	return handle && handle == FERMATA_FROM(fermata_websocket, Z_OBJ_P(b))->handle ? 0 : ZEND_UNCOMPARABLE;
}

void fermata_websocket_init(void)
{
	fermata_ce_websocket->create_object = websocket_create;
	memcpy(&websocket_handlers, zend_get_std_object_handlers(), sizeof(websocket_handlers));
	websocket_handlers.offset = XtOffsetOf(fermata_websocket, std);
	websocket_handlers.free_obj = websocket_free;
	websocket_handlers.clone_obj = NULL;
	websocket_handlers.compare = websocket_compare;
}

/* The core */

/* Returns NULL when the worker has stopped, and in a process that a handler forked: the parent owns the connections. */
static zend_always_inline FmWorker *worker(void)
{
	return EXPECTED(!fermata.forked) ? fermata.worker : NULL;
}

static ZEND_COLD void throw_closed(void)
{
	zend_throw_exception(fermata_ce_connection_closed, "the WebSocket is closed; check isOpen() first", 0);
}

/* Throws the exception for an error code of the core. */
static ZEND_COLD void throw_code(uint32_t code, const FmError *error)
{
	if (code == FM_GONE) {
		throw_closed();
	} else {
		fermata_throw(code, error);
	}
}

/* Returns the connection's id; NULL if the connection closed before the id was first read. */
static zend_string *id_of(fermata_websocket *socket)
{
	FmId id;
	if (!socket->id && worker() && fm_ws_id(worker(), socket->handle, &id) == FM_OK) {
		socket->id = zend_string_init(id.text, id.len, 0);
	}
	return socket->id;
}

static bool info_of(const fermata_websocket *socket, FmWsInfo *info)
{
	return worker() && fm_ws_info(worker(), socket->handle, info);
}

static FmStr remote_of(const fermata_websocket *socket, uint16_t *port)
{
	FmStr address = FERMATA_LITERAL("");
	*port = 0;
	if (socket->kept) {
		*port = socket->port;
		return socket->address ? fermata_str(socket->address) : address;
	}
	if (worker()) {
		fm_socket_remote(worker(), socket->handle, &address, port);
	}
	return address;
}

/* Copies the data that must outlive the handler and the connection. */
void fermata_websocket_keep(fermata_websocket *socket)
{
	FmWsInfo info;
	id_of(socket);
	FmStr address = remote_of(socket, &socket->port);
	socket->address = zend_string_init(address.ptr ? address.ptr : "", address.len, 0);
	if (info_of(socket, &info) && info.protocol.ptr) {
		socket->protocol = zend_string_init(info.protocol.ptr, info.protocol.len, 0);
	}
	socket->kept = true;
}

/* Sending */

static zend_always_inline uint32_t send_bytes(const fermata_websocket *socket, bool binary, FmStr data, FmError *error)
{
	error->len = 0;
	return EXPECTED(worker()) ? fm_ws_send(worker(), socket->handle, binary, data, error) : FM_GONE;
}

/* Sends a Message without a copy; converts any other object to a string. Returns false with an exception pending. */
static zend_always_inline bool send_any(const fermata_websocket *socket, zend_object *object, zend_string *string, bool binary,
	uint32_t *code, FmError *error)
{
	if (object && EXPECTED(object->ce == fermata_ce_message)) {
		const fermata_message *message = FERMATA_FROM(fermata_message, object);
		*code = send_bytes(socket, message->binary, fermata_message_bytes(message), error);
		return true;
	}
	if (object) {
		zval value;
		ZVAL_OBJ(&value, object);
		string = zval_try_get_string(&value);
		if (UNEXPECTED(!string)) {
			return false;
		}
	}
	*code = send_bytes(socket, binary, fermata_str(string), error);
	if (object) {
		zend_string_release(string);
	}
	return true;
}

ZEND_METHOD(Fermata_WebSocket, send)
{
	zend_object *object;
	zend_string *string;
	FmError error;
	uint32_t code;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJ_OF_CLASS_OR_STR(object, zend_ce_stringable, string)
	ZEND_PARSE_PARAMETERS_END();
	if (UNEXPECTED(!send_any(THIS_SOCKET(), object, string, false, &code, &error))) {
		RETURN_THROWS();
	}
	if (UNEXPECTED(code != FM_OK)) {
		throw_code(code, &error);
	}
}

ZEND_METHOD(Fermata_WebSocket, sendBinary)
{
	zend_string *data;
	FmError error;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(data)
	ZEND_PARSE_PARAMETERS_END();
	uint32_t code = send_bytes(THIS_SOCKET(), true, fermata_str(data), &error);
	if (UNEXPECTED(code != FM_OK)) {
		throw_code(code, &error);
	}
}

ZEND_METHOD(Fermata_WebSocket, trySend)
{
	zend_object *object;
	zend_string *string;
	bool binary = false;
	FmError error;
	uint32_t code;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_OBJ_OF_CLASS_OR_STR(object, zend_ce_stringable, string)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(binary)
	ZEND_PARSE_PARAMETERS_END();
	if (UNEXPECTED(!send_any(THIS_SOCKET(), object, string, binary, &code, &error))) {
		RETURN_THROWS();
	}
	if (UNEXPECTED(code != FM_OK && code != FM_GONE && code != FM_BACKPRESSURE)) {
		throw_code(code, &error);
		RETURN_THROWS();
	}
	RETURN_BOOL(code == FM_OK);
}

ZEND_METHOD(Fermata_WebSocket, sendTo)
{
	zend_string *id, *data;
	bool binary = false;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(2, 3)
		Z_PARAM_STR(id)
		Z_PARAM_STR(data)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(binary)
	ZEND_PARSE_PARAMETERS_END();
	if (UNEXPECTED(!fermata.worker)) {
		fermata_misuse("sendTo() needs a running server; elsewhere publish to a channel with Fermata\\Publisher");
		RETURN_THROWS();
	}
	uint32_t code = fm_ws_send_to(fermata.worker, fermata_str(id), binary, fermata_str(data), &error);
	if (UNEXPECTED(code != FM_OK && code != FM_GONE)) {
		throw_code(code, &error);
	}
}

ZEND_METHOD(Fermata_WebSocket, close)
{
	zend_object *named = NULL;
	zend_long number = 1000;
	zend_string *reason = NULL;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(0, 2)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJ_OF_CLASS_OR_LONG(named, fermata_ce_close_code, number)
		Z_PARAM_STR(reason)
	ZEND_PARSE_PARAMETERS_END();
	if (named) {
		number = Z_LVAL_P(zend_enum_fetch_case_value(named));
	}
	if (UNEXPECTED(number < 0 || number > CLOSE_CODE_MAX)) {
		fermata_misuse("close code " ZEND_LONG_FMT " must not be sent; use a CloseCode or 3000 to %d", number, CLOSE_CODE_MAX);
		RETURN_THROWS();
	}
	if (!worker()) {
		return;
	}
	FmStr text = reason ? fermata_str(reason) : FERMATA_LITERAL("");
	uint32_t code = fm_ws_disconnect(worker(), THIS_SOCKET()->handle, (uint16_t)number, text, &error);
	if (UNEXPECTED(code != FM_OK && code != FM_GONE)) {
		throw_code(code, &error);
	}
}

/* Channels */

ZEND_METHOD(Fermata_WebSocket, join)
{
	zend_string *channel, *user = NULL, *since = NULL, *encoded = NULL;
	zval *info = NULL;
	bool announce = true, from_start = false;
	zend_object *format = NULL;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(1, 7)
		Z_PARAM_STR(channel)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(user)
		Z_PARAM_ARRAY_OR_NULL(info)
		Z_PARAM_BOOL(announce)
		Z_PARAM_STR_OR_NULL(since)
		Z_PARAM_OBJ_OF_CLASS(format, fermata_ce_format)
		Z_PARAM_BOOL(from_start)
	ZEND_PARSE_PARAMETERS_END();
	if (user && !ZSTR_LEN(user)) {
		fermata_misuse("a present user needs a name; pass null to join without being counted");
		RETURN_THROWS();
	}
	if (info && !user) {
		fermata_misuse("info describes who is present; give user: as well, or leave info out");
		RETURN_THROWS();
	}
	if (info && !(encoded = fermata_json_encode(info))) {
		RETURN_THROWS();
	}
	bool as_json = format && zend_string_equals_literal(Z_STR_P(zend_enum_fetch_case_value(format)), "json");
	FmWsJoin join = {
		.channel = fermata_str(channel),
		.user = fermata_str_or_absent(user),
		.info = fermata_str_or_absent(encoded),
		.announce = announce,
		.since = fermata_str_or_absent(since && ZSTR_LEN(since) ? since : NULL),
		.from_start = from_start,
		.format = as_json ? FM_WS_FORMAT_JSON : FM_WS_FORMAT_DATA,
	};
	uint32_t code = worker() ? fm_ws_join(worker(), THIS_SOCKET()->handle, &join, &error) : FM_GONE;
	release(encoded);
	if (UNEXPECTED(code != FM_OK)) {
		throw_code(code, &error);
		RETURN_THROWS();
	}
	RETURN_THIS();
}

ZEND_METHOD(Fermata_WebSocket, leave)
{
	zend_string *channel;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(channel)
	ZEND_PARSE_PARAMETERS_END();
	/* A closed socket has already left all channels. */
	uint32_t code = worker() ? fm_ws_leave(worker(), THIS_SOCKET()->handle, fermata_str(channel), &error) : FM_GONE;
	if (UNEXPECTED(code != FM_OK && code != FM_GONE)) {
		throw_code(code, &error);
		RETURN_THROWS();
	}
	RETURN_THIS();
}

/* The connection */

ZEND_METHOD(Fermata_WebSocket, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_WebSocket, id)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_string *id = id_of(THIS_SOCKET());
	if (UNEXPECTED(!id)) {
		throw_closed();
		RETURN_THROWS();
	}
	RETURN_STR_COPY(id);
}

ZEND_METHOD(Fermata_WebSocket, data)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zval *value = fermata_websocket_data(THIS_SOCKET()->handle);
	if (value) {
		RETURN_COPY(value);
	}
}

ZEND_METHOD(Fermata_WebSocket, setData)
{
	zval *data;
	FmWsInfo info;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_ZVAL(data)
	ZEND_PARSE_PARAMETERS_END();
	fermata_websocket *socket = THIS_SOCKET();
	if (UNEXPECTED(!info_of(socket, &info) || !fermata_websocket_set_data(socket->handle, data))) {
		throw_closed();
	}
}

ZEND_METHOD(Fermata_WebSocket, isOpen)
{
	FmWsInfo info;
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(info_of(THIS_SOCKET(), &info) && info.open);
}

ZEND_METHOD(Fermata_WebSocket, queuedBytes)
{
	FmWsInfo info;
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG(info_of(THIS_SOCKET(), &info) ? (zend_long)info.queued_bytes : 0);
}

ZEND_METHOD(Fermata_WebSocket, protocol)
{
	FmWsInfo info;
	ZEND_PARSE_PARAMETERS_NONE();
	const fermata_websocket *socket = THIS_SOCKET();
	if (socket->kept) {
		if (socket->protocol) {
			RETURN_STR_COPY(socket->protocol);
		}
	} else if (info_of(socket, &info) && info.protocol.ptr) {
		RETURN_STRINGL(info.protocol.ptr, info.protocol.len);
	}
}

ZEND_METHOD(Fermata_WebSocket, remoteAddress)
{
	uint16_t port;
	ZEND_PARSE_PARAMETERS_NONE();
	FmStr address = remote_of(THIS_SOCKET(), &port);
	RETURN_STRINGL_FAST(address.len ? address.ptr : "", address.len);
}

ZEND_METHOD(Fermata_WebSocket, remotePort)
{
	uint16_t port;
	ZEND_PARSE_PARAMETERS_NONE();
	remote_of(THIS_SOCKET(), &port);
	RETURN_LONG(port);
}
