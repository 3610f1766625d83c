/* Fermata\WebSocket\Client: a blocking client over PHP streams, which provide time-outs and TLS. The core encodes and decodes
 * frames. */
#include "sockets/sockets.h"
#include "php_network.h"
#include "ext/standard/file.h"
#include "ext/standard/url.h"
#include "zend_enum.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include "base/optimize_size.h"

#define MESSAGE_BYTES_MAX (16 * 1024 * 1024)
#define TIMEOUT_S 10.0
#define TIMEOUT_S_MAX 86400.0
#define CLOSE_TIMEOUT_S 5.0
#define CLOSE_NORMAL 1000
#define CLOSE_ABNORMAL 1006
#define FOREVER (-1.0)

/* Time after the closing handshake in which the server should close TCP first (RFC 6455, section 7.1.1). */
#define LINGER_S 1.0

/* Minimum wait in seconds: PHP's TLS interprets a time-out of 0 as no time-out, and checks the clock before it reads bytes that
 * have arrived. */
#define WAIT_S_MIN 0.001

/* Maximum reads and control frames after the deadline. A message that arrived in time is still received, and a server that sends
 * without end cannot block the call. */
#define LATE_STEPS_MAX 1000

typedef struct websocket_client {
	FmWsClient *core;
	zend_resource *stream; /* owned; NULL = closed. At the end of the script PHP may have closed it first */
	double timeout;
	zend_long code; /* 0 while open */
	zend_string *reason, *pong;
	bool busy; /* inside a call; a stream may run application code that calls this object */
	zend_object std;
} websocket_client;

enum client_read { READ_SOME, READ_TIMED_OUT, READ_ENDED };

static zend_object_handlers client_handlers;

#define THIS_CLIENT() FERMATA_FROM(websocket_client, Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *client_create(zend_class_entry *ce)
{
	websocket_client *client = zend_object_alloc(sizeof(websocket_client), ce);
	memset(client, 0, XtOffsetOf(websocket_client, std));
	zend_object_std_init(&client->std, ce);
	client->std.handlers = &client_handlers;
	return &client->std;
}

static void drop_stream(websocket_client *client)
{
	if (client->stream) {
		zend_list_close(client->stream);
		zend_list_delete(client->stream);
		client->stream = NULL;
	}
}

static void client_free(zend_object *object)
{
	websocket_client *client = FERMATA_FROM(websocket_client, object);
	drop_stream(client);
	fm_ws_client_free(client->core);
	if (client->reason) {
		zend_string_release(client->reason);
	}
	if (client->pong) {
		zend_string_release(client->pong);
	}
	zend_object_std_dtor(object);
}

void fermata_client_init(void)
{
	fermata_ce_client->create_object = client_create;
	memcpy(&client_handlers, zend_get_std_object_handlers(), sizeof(client_handlers));
	client_handlers.offset = XtOffsetOf(websocket_client, std);
	client_handlers.free_obj = client_free;
	client_handlers.clone_obj = NULL;
	client_handlers.compare = zend_objects_not_comparable;
}

/* Time */

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double deadline_of(double timeout)
{
	return timeout < 0 ? FOREVER : now() + timeout;
}

static bool over(double deadline)
{
	return deadline >= 0 && now() >= deadline;
}

static struct timeval left_of(double deadline)
{
	if (deadline < 0) {
		return (struct timeval){.tv_sec = -1};
	}
	double left = MAX(deadline - now(), WAIT_S_MIN);
	return (struct timeval){.tv_sec = (time_t)left, .tv_usec = (suseconds_t)((left - (double)(time_t)left) * 1e6)};
}

/* Returns false with an exception pending. */
static bool check_timeout(double timeout)
{
	if (!(timeout >= 0 && timeout <= TIMEOUT_S_MAX)) {
		fermata_misuse("timeout must be 0 to %d seconds, not %g", (int)TIMEOUT_S_MAX, timeout);
		return false;
	}
	return true;
}

/* The stream */

static php_stream *stream_of(const websocket_client *client)
{
	return client->stream && client->stream->type >= 0 ? client->stream->ptr : NULL;
}

static bool timed_out(php_stream *stream)
{
	zval data;
	array_init(&data);
	php_stream_set_option(stream, PHP_STREAM_OPTION_META_DATA_API, 0, &data);
	zval *flag = zend_hash_str_find(Z_ARR(data), ZEND_STRL("timed_out"));
	bool is_set = flag && Z_TYPE_P(flag) == IS_TRUE;
	zval_ptr_dtor(&data);
	return is_set;
}

/* Turns warnings of PHP's streams into exceptions instead of calling the application's error handler. */
static void guard_begin(zend_error_handling *saved)
{
	zend_replace_error_handling(EH_THROW, fermata_ce_connection, saved);
}

/* Drops the exception: the result of the read or write reports the failure. */
static void guard_end(zend_error_handling *saved)
{
	zend_restore_error_handling(saved);
	if (UNEXPECTED(EG(exception)) && EG(exception)->ce == fermata_ce_connection) {
		zend_clear_exception();
	}
}

static enum client_read fill(websocket_client *client, double deadline)
{
	php_stream *stream = stream_of(client);
	size_t room;
	char *place = fm_ws_client_room(client->core, &room);
	if (!stream || !place) {
		return READ_ENDED;
	}
	struct timeval left = left_of(deadline);
	zend_error_handling saved;
	guard_begin(&saved);
	php_stream_set_option(stream, PHP_STREAM_OPTION_READ_TIMEOUT, 0, &left);
	ssize_t bytes = php_stream_read(stream, place, room);
	guard_end(&saved);
	if (bytes > 0) {
		fm_ws_client_filled(client->core, (size_t)bytes);
		return READ_SOME;
	}
	return timed_out(stream) ? READ_TIMED_OUT : READ_ENDED;
}

/* Sends the output buffer. */
static enum client_read flush(websocket_client *client, double deadline)
{
	php_stream *stream = stream_of(client);
	FmStr output = fm_ws_client_output(client->core);
	if (!output.len) {
		return READ_SOME;
	}
	if (!stream) {
		return READ_ENDED;
	}
	struct timeval left = left_of(deadline);
	zend_error_handling saved;
	guard_begin(&saved);
	php_stream_set_option(stream, PHP_STREAM_OPTION_READ_TIMEOUT, 0, &left);
	ssize_t bytes = php_stream_write(stream, output.ptr, output.len);
	guard_end(&saved);
	fm_ws_client_flushed(client->core);
	if (bytes == (ssize_t)output.len) {
		return READ_SOME;
	}
	return timed_out(stream) ? READ_TIMED_OUT : READ_ENDED;
}

/* Marks the connection as closed. Later calls report this code and reason. */
static void ended(websocket_client *client, zend_long code, FmStr reason)
{
	drop_stream(client);
	if (!client->code) {
		client->code = code;
		client->reason = zend_string_init(reason.ptr, reason.len, 0);
	}
}

/* Waits up to LINGER_S for the server to close TCP first, so that this end has no port in TIME_WAIT. */
static void linger(websocket_client *client)
{
	double deadline = deadline_of(LINGER_S);
	php_stream *stream = stream_of(client);
	if (stream) {
		php_stream_xport_shutdown(stream, STREAM_SHUT_WR);
	}
	while (fill(client, deadline) == READ_SOME && !over(deadline)) {
		FmWsReceived ignored;
		while (fm_ws_client_next(client->core, &ignored, NULL) == FM_OK) {
		}
	}
}

static ZEND_COLD void throw_closed(const websocket_client *client)
{
	zend_string *message = zend_strpprintf(0, "the WebSocket is closed: " ZEND_LONG_FMT "%s", client->code,
		client->reason && ZSTR_LEN(client->reason) ? " " : "");
	if (client->reason && ZSTR_LEN(client->reason)) {
		zend_string *whole = zend_string_concat2(ZSTR_VAL(message), ZSTR_LEN(message), ZSTR_VAL(client->reason), ZSTR_LEN(client->reason));
		zend_string_release(message);
		message = whole;
	}
	zend_throw_exception(fermata_ce_connection_closed, ZSTR_VAL(message), client->code);
	zend_string_release(message);
}

static ZEND_COLD void throw_protocol(const FmError *error, uint16_t code)
{
	char message[sizeof(error->message) + 1];
	fermata_copy(message, sizeof(message), "", (FmStr){error->message, error->len});
	zend_throw_exception(fermata_ce_protocol, message, code);
}

/* Sends the output of a call. Returns false with an exception pending. */
static bool deliver(websocket_client *client, uint32_t code, const FmError *error)
{
	if (UNEXPECTED(code != FM_OK)) {
		if (code == FM_GONE && client->code) {
			throw_closed(client);
		} else {
			fermata_throw(code, error);
		}
		return false;
	}
	switch (flush(client, deadline_of(client->timeout))) {
		case READ_SOME:
			return true;
		case READ_TIMED_OUT:
			/* Part of a frame may have been sent, so no other frame can follow. */
			ended(client, CLOSE_ABNORMAL, FERMATA_LITERAL(""));
			zend_throw_exception(fermata_ce_timeout, "the server does not take what is sent to it; the connection is given up", 0);
			return false;
		default:
			/* Keep the stream: messages that the server sent before the close may still be read. */
			zend_throw_exception(fermata_ce_connection_closed, "the server has closed the connection", CLOSE_ABNORMAL);
			return false;
	}
}

/* Returns false with an exception pending. */
static bool enter(websocket_client *client)
{
	if (UNEXPECTED(client->busy)) {
		fermata_misuse("the client is busy; wait until its call has returned");
		return false;
	}
	client->busy = true;
	return true;
}

/* Receiving */

/* Receives the next message or control frame. Returns FM_OK, FM_TIMEOUT, FM_GONE if the connection is closed, or FM_PROTOCOL with
 * an exception pending. */
static uint32_t next(websocket_client *client, FmWsReceived *received, double deadline)
{
	FmError error;
	uint32_t late_steps = 0;
	for (;;) {
		if (client->code) {
			return FM_GONE;
		}
		if (over(deadline) && late_steps++ == LATE_STEPS_MAX) {
			return FM_TIMEOUT;
		}
		error.len = 0;
		uint32_t code = fm_ws_client_next(client->core, received, &error);
		if (code == FM_PARTIAL) {
			switch (fill(client, deadline)) {
				case READ_SOME: continue;
				case READ_TIMED_OUT: return FM_TIMEOUT;
				default:
					fm_ws_client_ended(client->core);
					ended(client, CLOSE_ABNORMAL, FERMATA_LITERAL(""));
					return FM_GONE;
			}
		}
		if (UNEXPECTED(code != FM_OK)) {
			flush(client, deadline_of(client->timeout));
			ended(client, code == FM_PROTOCOL ? received->code : CLOSE_ABNORMAL, (FmStr){error.message, error.len});
			if (code == FM_PROTOCOL) {
				throw_protocol(&error, received->code);
			} else {
				fermata_throw(code, &error);
			}
			return FM_PROTOCOL;
		}
		/* Send pongs and the reply to a Close frame. The next read detects a server that has closed the connection. */
		if (flush(client, deadline_of(client->timeout)) == READ_TIMED_OUT && received->kind != FM_WS_RECEIVED_CLOSE) {
			/* Part of a pong may have been sent, so no other frame can follow. */
			ended(client, CLOSE_ABNORMAL, FERMATA_LITERAL(""));
		}
		switch (received->kind) {
			case FM_WS_RECEIVED_NOTHING:
				continue;
			case FM_WS_RECEIVED_PONG:
				if (client->pong) {
					zend_string_release(client->pong);
				}
				client->pong = zend_string_init(received->payload.ptr, received->payload.len, 0);
				continue;
			case FM_WS_RECEIVED_CLOSE: {
				zend_string *reason = zend_string_init(received->payload.ptr, received->payload.len, 0);
				zend_long number = received->code;
				linger(client);
				ended(client, number, fermata_str(reason));
				zend_string_release(reason);
				return FM_GONE;
			}
			default:
				return FM_OK;
		}
	}
}

/* Connecting */

typedef struct client_address {
	zend_string *transport; /* tcp://host:port or tls://host:port */
	zend_string *host;      /* as in the Host header */
	zend_string *target;
} client_address;

static void address_free(client_address *address)
{
	zend_string_release(address->transport);
	zend_string_release(address->host);
	zend_string_release(address->target);
}

static bool visible(const zend_string *text)
{
	for (size_t i = 0; i < ZSTR_LEN(text); i++) {
		unsigned char byte = (unsigned char)ZSTR_VAL(text)[i];
		if (byte <= ' ' || byte >= 0x7f) {
			return false;
		}
	}
	return true;
}

/* Returns false with an exception pending. */
static bool parse_url(const zend_string *text, client_address *address)
{
	bool has_port;
	php_url *url = visible(text) ? php_url_parse_ex2(ZSTR_VAL(text), ZSTR_LEN(text), &has_port) : NULL;
	bool tls = url && url->scheme && zend_string_equals_literal_ci(url->scheme, "wss");
	if (!url || !url->host || !url->scheme || (!tls && !zend_string_equals_literal_ci(url->scheme, "ws"))) {
		fermata_misuse("the URL must be ws://host/path or wss://host/path, with other characters percent-encoded");
	} else if (url->user || url->pass || url->fragment) {
		fermata_misuse("the URL must have no user and no fragment; send a header Authorization instead");
	} else {
		unsigned port = has_port ? url->port : tls ? 443 : 80;
		const char *host = ZSTR_VAL(url->host);
		address->transport = zend_strpprintf(0, "%s://%s:%u", tls ? "tls" : "tcp", host, port);
		address->host = has_port ? zend_strpprintf(0, "%s:%u", host, port) : zend_string_copy(url->host);
		address->target = zend_strpprintf(0, "%s%s%s", url->path ? ZSTR_VAL(url->path) : "/", url->query ? "?" : "",
			url->query ? ZSTR_VAL(url->query) : "");
	}
	if (url) {
		php_url_free(url);
	}
	return !EG(exception);
}

static bool add_header(void *to, zend_string *name, zend_string *value)
{
	fermata_headers_add(to, name, value);
	return true;
}

/* Creates the core's client with the handshake request in its output. Returns NULL with an exception pending. */
static FmWsClient *core_new(const client_address *address, zend_array *protocols, zend_array *given, bool compression, zend_long message_bytes)
{
	FmWsClient *core = NULL;
	fermata_headers *headers = NULL;
	FmError error;
	error.len = 0;
	size_t names_len = 0;
	FmStr *names = safe_emalloc(zend_hash_num_elements(protocols) + 1, sizeof(FmStr), 0);
	zval *name;
	ZEND_HASH_FOREACH_VAL(protocols, name) {
		ZVAL_DEREF(name);
		if (Z_TYPE_P(name) != IS_STRING) {
			zend_type_error("Fermata\\WebSocket\\Client::connect(): Argument #2 ($subprotocols) must hold strings, %s found", fermata_type_name(name));
			goto end;
		}
		names[names_len++] = fermata_str(Z_STR_P(name));
	} ZEND_HASH_FOREACH_END();
	if (!fermata_headers_given("Fermata\\WebSocket\\Client::connect(): Argument #3 ($headers)", given, add_header, &headers)) {
		goto end;
	}
	FmHeader *lines = safe_emalloc(headers ? headers->len : 0, sizeof(FmHeader), sizeof(FmHeader));
	fermata_headers_fill(headers, lines);
	FmWsOpening opening = {
		.host = fermata_str(address->host), .target = fermata_str(address->target),
		.protocols = names, .protocols_len = names_len, .headers = lines, .headers_len = headers ? headers->len : 0,
		.message_bytes_max = (size_t)message_bytes, .compression = compression,
	};
	core = fm_ws_client_new(&opening, &error);
	if (!core) {
		fermata_throw(FM_MISUSE, &error);
	}
	efree(lines);
end:
	efree(names);
	fermata_headers_free(headers);
	return core;
}

static void no_delay(php_stream *stream)
{
	php_socket_t fd;
	int on = 1;
	if (php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&fd, 0) == SUCCESS) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
}

static ZEND_COLD void throw_unreachable(const client_address *address, const char *why, bool late)
{
	zend_throw_exception_ex(late ? fermata_ce_timeout : fermata_ce_connection, 0, "%s cannot be reached: %s", ZSTR_VAL(address->transport), why);
}

/* Replaces the exception of a stream warning: adds the address, and reports a time-out as such. */
static ZEND_COLD void explain_warning(const client_address *address, bool late)
{
	if (EG(exception)->ce != fermata_ce_connection) {
		return;
	}
	static const char place[] = "Fermata\\WebSocket\\Client::connect(): ";
	FmStr text = fermata_exception_string(EG(exception), ZEND_STR_MESSAGE);
	size_t skipped = text.len > sizeof(place) - 1 && memcmp(text.ptr, place, sizeof(place) - 1) == 0 ? sizeof(place) - 1 : 0;
	zend_string *why = zend_string_init(text.ptr + skipped, text.len - skipped, 0);
	zend_clear_exception();
	throw_unreachable(address, ZSTR_VAL(why), late);
	zend_string_release(why);
}

/* Returns NULL with an exception pending. */
static zend_resource *stream_open(const client_address *address, double deadline, php_stream_context *context)
{
	struct timeval left = left_of(deadline);
	zend_string *why = NULL;
	int code = 0;
	zend_error_handling saved;
	guard_begin(&saved);
	php_stream *stream = php_stream_xport_create(ZSTR_VAL(address->transport), ZSTR_LEN(address->transport), 0,
		STREAM_XPORT_CLIENT | STREAM_XPORT_CONNECT, NULL, &left, context, &why, &code);
	zend_restore_error_handling(&saved);
	if (stream && !EG(exception)) {
		stream->flags |= PHP_STREAM_FLAG_NO_BUFFER | PHP_STREAM_FLAG_SUPPRESS_ERRORS;
		no_delay(stream);
	} else {
		if (EG(exception)) {
			explain_warning(address, over(deadline));
		} else {
			throw_unreachable(address, why ? ZSTR_VAL(why) : "no connection", code == ETIMEDOUT || over(deadline));
		}
		if (stream) {
			php_stream_close(stream);
			stream = NULL;
		}
	}
	if (why) {
		zend_string_release(why);
	}
	return stream ? stream->res : NULL;
}

/* Returns false with an exception pending. */
static bool shake_hands(websocket_client *client, const client_address *address, double deadline)
{
	FmWsReceived received = {0};
	FmError error;
	enum client_read outcome = flush(client, deadline);
	while (outcome == READ_SOME) {
		error.len = 0;
		uint32_t code = fm_ws_client_next(client->core, &received, &error);
		switch (code) {
			case FM_OK:
				return true;
			case FM_PARTIAL:
				outcome = fill(client, deadline);
				break;
			case FM_PROTOCOL:
				throw_protocol(&error, received.code);
				return false;
			case FM_IO: {
				char message[sizeof(error.message) + 1];
				fermata_copy(message, sizeof(message), "", (FmStr){error.message, error.len});
				zend_throw_exception(fermata_ce_connection, message, received.code);
				return false;
			}
			default:
				fermata_throw(code, &error);
				return false;
		}
	}
	throw_unreachable(address, outcome == READ_TIMED_OUT ? "it does not answer in time" : "it has closed the connection without an answer",
		outcome == READ_TIMED_OUT);
	return false;
}

ZEND_METHOD(Fermata_WebSocket_Client, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_WebSocket_Client, connect)
{
	zend_string *url;
	HashTable *protocols = (HashTable *)&zend_empty_array, *headers = (HashTable *)&zend_empty_array;
	double timeout = TIMEOUT_S;
	bool compression = false;
	zend_long message_bytes = MESSAGE_BYTES_MAX;
	zval *zcontext = NULL;
	client_address address = {0};
	ZEND_PARSE_PARAMETERS_START(1, 7)
		Z_PARAM_STR(url)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_HT(protocols)
		Z_PARAM_ARRAY_HT(headers)
		Z_PARAM_DOUBLE(timeout)
		Z_PARAM_BOOL(compression)
		Z_PARAM_LONG(message_bytes)
		Z_PARAM_RESOURCE_OR_NULL(zcontext)
	ZEND_PARSE_PARAMETERS_END();
	if (message_bytes < 0) {
		fermata_misuse("messageBytes must not be negative, and " ZEND_LONG_FMT " is", message_bytes);
		RETURN_THROWS();
	}
	php_stream_context *context = php_stream_context_from_zval(zcontext, false);
	if (EG(exception) || !check_timeout(timeout) || !parse_url(url, &address)) {
		RETURN_THROWS();
	}
	double deadline = deadline_of(timeout);
	object_init_ex(return_value, fermata_ce_client);
	websocket_client *client = FERMATA_FROM(websocket_client, Z_OBJ_P(return_value));
	client->timeout = timeout;
	client->core = core_new(&address, protocols, headers, compression, message_bytes);
	if (client->core) {
		client->stream = stream_open(&address, deadline, context);
	}
	if (!client->stream || !shake_hands(client, &address, deadline)) {
		zval_ptr_dtor(return_value);
		ZVAL_UNDEF(return_value);
	}
	address_free(&address);
	if (EG(exception)) {
		RETURN_THROWS();
	}
}

/* Sending and receiving */

static void send_message(websocket_client *client, bool binary, FmStr data)
{
	FmError error;
	error.len = 0;
	if (enter(client)) {
		uint32_t code = fm_ws_client_send(client->core, binary, data, &error);
		deliver(client, code, &error);
		client->busy = false;
	}
}

ZEND_METHOD(Fermata_WebSocket_Client, send)
{
	zend_object *object = NULL;
	zend_string *text = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJ_OF_CLASS_OR_STR(object, fermata_ce_message, text)
	ZEND_PARSE_PARAMETERS_END();
	if (object) {
		const fermata_message *message = FERMATA_FROM(fermata_message, object);
		send_message(THIS_CLIENT(), message->binary, fermata_message_bytes(message));
	} else {
		send_message(THIS_CLIENT(), false, fermata_str(text));
	}
}

ZEND_METHOD(Fermata_WebSocket_Client, sendBinary)
{
	zend_string *data;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(data)
	ZEND_PARSE_PARAMETERS_END();
	send_message(THIS_CLIENT(), true, fermata_str(data));
}

ZEND_METHOD(Fermata_WebSocket_Client, receive)
{
	double timeout = 0;
	bool endless = true;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE_OR_NULL(timeout, endless)
	ZEND_PARSE_PARAMETERS_END();
	websocket_client *client = THIS_CLIENT();
	FmWsReceived received;
	if ((!endless && !check_timeout(timeout)) || !enter(client)) {
		RETURN_THROWS();
	}
	uint32_t code = next(client, &received, deadline_of(endless ? FOREVER : timeout));
	client->busy = false;
	if (EXPECTED(code == FM_OK)) {
		fermata_message *message = fermata_message_new();
		message->bytes = received.payload;
		message->binary = received.kind == FM_WS_RECEIVED_BINARY;
		fermata_message_keep(message);
		RETURN_OBJ(&message->std);
	}
	if (EG(exception)) {
		RETURN_THROWS();
	}
	if (code == FM_GONE) {
		throw_closed(client);
		RETURN_THROWS();
	}
	RETURN_NULL();
}

ZEND_METHOD(Fermata_WebSocket_Client, ping)
{
	zend_string *payload = zend_empty_string;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR(payload)
	ZEND_PARSE_PARAMETERS_END();
	websocket_client *client = THIS_CLIENT();
	if (enter(client)) {
		uint32_t code = fm_ws_client_ping(client->core, fermata_str(payload), &error);
		deliver(client, code, &error);
		client->busy = false;
	}
}

ZEND_METHOD(Fermata_WebSocket_Client, close)
{
	zend_object *named = NULL;
	zend_long number = CLOSE_NORMAL;
	zend_string *reason = zend_empty_string;
	double timeout = CLOSE_TIMEOUT_S;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(0, 3)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJ_OF_CLASS_OR_LONG(named, fermata_ce_close_code, number)
		Z_PARAM_STR(reason)
		Z_PARAM_DOUBLE(timeout)
	ZEND_PARSE_PARAMETERS_END();
	websocket_client *client = THIS_CLIENT();
	number = named ? Z_LVAL_P(zend_enum_fetch_case_value(named)) : number;
	if (!check_timeout(timeout) || !enter(client)) {
		RETURN_THROWS();
	}
	uint32_t code = fm_ws_client_close(client->core, number, fermata_str(reason), &error);
	if (code != FM_OK && code != FM_GONE) {
		fermata_throw(code, &error);
	} else if (!client->code) {
		double deadline = deadline_of(timeout);
		FmWsReceived discarded;
		flush(client, deadline);
		do {
			code = next(client, &discarded, deadline);
		} while (code == FM_OK && !over(deadline));
		if (!client->code) {
			ended(client, CLOSE_ABNORMAL, FERMATA_LITERAL(""));
		}
	}
	client->busy = false;
}

ZEND_METHOD(Fermata_WebSocket_Client, isOpen)
{
	ZEND_PARSE_PARAMETERS_NONE();
	const websocket_client *client = THIS_CLIENT();
	RETURN_BOOL(!client->code && fm_ws_client_can_send(client->core));
}

ZEND_METHOD(Fermata_WebSocket_Client, protocol)
{
	ZEND_PARSE_PARAMETERS_NONE();
	FmStr protocol = fm_ws_client_protocol(THIS_CLIENT()->core);
	if (!protocol.ptr) {
		RETURN_NULL();
	}
	RETURN_STRINGL(protocol.ptr, protocol.len);
}

ZEND_METHOD(Fermata_WebSocket_Client, lastPong)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_string *pong = THIS_CLIENT()->pong;
	if (!pong) {
		RETURN_NULL();
	}
	RETURN_STR_COPY(pong);
}

ZEND_METHOD(Fermata_WebSocket_Client, closeCode)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_long code = THIS_CLIENT()->code;
	if (!code) {
		RETURN_NULL();
	}
	RETURN_LONG(code);
}

ZEND_METHOD(Fermata_WebSocket_Client, closeReason)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_string *reason = THIS_CLIENT()->reason;
	if (!reason) {
		RETURN_NULL();
	}
	RETURN_STR_COPY(reason);
}
