/* Fermata: the module entry, and what all class families share. */
#ifndef PHP_FERMATA_H
#define PHP_FERMATA_H

#include "php.h"
#include "zend_smart_str_public.h"
#include "fermata_core.h"
#include "versions.h"


#define PHP_FERMATA_VERSION "0.1.0"

extern zend_module_entry fermata_module_entry;
#define phpext_fermata_ptr &fermata_module_entry

/* A process is one thread, also of a PHP with threads (ZTS), where the extension starts for the command line only: so plain
 * statics serve as module globals. */
typedef struct fermata_state {
	FmWorker *worker; /* NULL outside a worker, and again after its run() has ended */
	bool handling;    /* a handler is on the stack */
	uint32_t forks;   /* how often, from the first process on */
	bool forked;      /* this process was forked since the worker began: by a handler */
} fermata_state;
extern fermata_state fermata;

/* Class entries, set once at MINIT. */
extern zend_class_entry *fermata_ce_server, *fermata_ce_limits, *fermata_ce_history, *fermata_ce_log;
extern zend_class_entry *fermata_ce_tls, *fermata_ce_tls_version, *fermata_ce_client_certificate, *fermata_ce_trace;
extern zend_class_entry *fermata_ce_access_log, *fermata_ce_access_log_format;
extern zend_class_entry *fermata_ce_log_format, *fermata_ce_log_level, *fermata_ce_slow_policy, *fermata_ce_ack, *fermata_ce_same_site;
extern zend_class_entry *fermata_ce_uploaded_file, *fermata_ce_upload_failed;
extern zend_class_entry *fermata_ce_routes, *fermata_ce_next;
extern zend_class_entry *fermata_ce_request, *fermata_ce_response, *fermata_ce_hold;
extern zend_class_entry *fermata_ce_event, *fermata_ce_channel, *fermata_ce_member, *fermata_ce_publisher;
extern zend_class_entry *fermata_ce_websocket_handler, *fermata_ce_websocket, *fermata_ce_upgrade, *fermata_ce_message;
extern zend_class_entry *fermata_ce_queue_policy, *fermata_ce_format, *fermata_ce_options, *fermata_ce_compression;
extern zend_class_entry *fermata_ce_misuse, *fermata_ce_configuration, *fermata_ce_backpressure;
extern zend_class_entry *fermata_ce_bad_request, *fermata_ce_connection_closed, *fermata_ce_connection, *fermata_ce_timeout, *fermata_ce_protocol;
extern zend_class_entry *fermata_ce_cancelled, *fermata_ce_client_gone, *fermata_ce_queue_closed;
extern zend_class_entry *fermata_ce_future, *fermata_ce_cancellation, *fermata_ce_mutex, *fermata_ce_semaphore, *fermata_ce_queue, *fermata_ce_pool;
extern zend_class_entry *fermata_ce_hook;
extern zend_class_entry *fermata_ce_table, *fermata_ce_table_column, *fermata_ce_table_type;
extern zend_class_entry *fermata_ce_jobs, *fermata_ce_job_failed, *fermata_ce_job_crashed, *fermata_ce_worker, *fermata_ce_poll, *fermata_ce_engine;
extern zend_class_entry *fermata_ce_pusher, *fermata_ce_webhook, *fermata_ce_webhook_event, *fermata_ce_mercure, *fermata_ce_mercure_algorithm;
extern zend_class_entry *fermata_ce_client, *fermata_ce_frame, *fermata_ce_opcode, *fermata_ce_close_code;

/* Strings that live as long as the module; never counted. */
typedef struct fermata_strings {
	zend_string *method[8];
	zend_string *content_type, *content_disposition, *set_cookie, *location;
	zend_string *type_json, *type_text, *type_html, *type_binary;
} fermata_strings;
extern fermata_strings fermata_known;

/* The struct around an embedded zend_object called std. */
#define FERMATA_FROM(type, object) ((type *)((char *)(object) - XtOffsetOf(type, std)))

static zend_always_inline FmStr fermata_str(const zend_string *string)
{
	return (FmStr){ZSTR_VAL(string), ZSTR_LEN(string)};
}

static zend_always_inline FmStr fermata_str_or_absent(const zend_string *string)
{
	return string ? fermata_str(string) : (FmStr){NULL, 0};
}

/* "prefix" and the string, cut to size - 1 bytes, NUL-terminated; returns the length. PHP's own printf functions call strlen()
 * even for "%.*s", so they must never see a string of the core. */
static zend_always_inline size_t fermata_copy(char *to, size_t size, const char *prefix, FmStr string)
{
	size_t prefix_len = MIN(strlen(prefix), size - 1), len = MIN(string.len, size - 1 - prefix_len);
	memcpy(to, prefix, prefix_len);
	if (len) {
		memcpy(to + prefix_len, string.ptr, len);
	}
	to[prefix_len + len] = '\0';
	return prefix_len + len;
}

#define FERMATA_LITERAL(text) ((FmStr){(text), sizeof(text) - 1})

/* Whatever the case of their letters: names of headers. */
static zend_always_inline bool fermata_str_equals_ci(FmStr one, FmStr other)
{
	return one.len == other.len && zend_binary_strcasecmp(one.ptr, one.len, other.ptr, other.len) == 0;
}

/* core/exceptions.c */
ZEND_COLD void fermata_throw(uint32_t code, const FmError *error);
ZEND_COLD void fermata_misuse(const char *format, ...) ZEND_ATTRIBUTE_FORMAT(printf, 1, 2);
ZEND_COLD bool fermata_constructed_twice(void);
FmStr fermata_exception_string(zend_object *exception, zend_known_string_id name);
uint32_t fermata_exception_line(zend_object *exception);
zend_long fermata_exception_code(zend_object *exception);
smart_str fermata_exception_text(zend_object *exception, bool with_place);
smart_str fermata_exception_trace(zend_object *exception);
bool fermata_exception_comes_of(zend_object *exception, const zend_class_entry *class);

/* core/tls.c */
bool fermata_strings_check(HashTable *list, uint32_t argument);

/* fibers/every.c */
typedef struct fermata_every fermata_every;
void fermata_every_free(fermata_every *every);
void fermata_every_gc(const fermata_every *every, zend_get_gc_buffer *buffer);

/* fibers/tasks.c */
void fermata_tasks_init(void);

/* fibers/cancellation.c */
void fermata_cancellation_init(void);

/* fibers/sync.c */
void fermata_sync_init(void);

/* fibers/pool.c */
void fermata_pool_init(void);

/* fibers/queue.c */
void fermata_queue_init(void);

/* core/json.c */
zend_string *fermata_json_encode(zval *data);
bool fermata_json_decode(zval *result, const zend_string *text);

/* http/headers.c: header lines as the user gave them, checked */
typedef struct fermata_headers {
	uint32_t len, capacity;
	struct {
		zend_string *name, *value;
	} at[1];
} fermata_headers;
bool fermata_header_check(const zend_string *name, const zend_string *value);
void fermata_headers_add(fermata_headers **headers, zend_string *name, zend_string *value);
void fermata_headers_remove(fermata_headers *headers, const zend_string *name);
fermata_headers *fermata_headers_copy(const fermata_headers *headers);
void fermata_headers_free(fermata_headers *headers);
void fermata_headers_fill(const fermata_headers *headers, FmHeader *out);
typedef bool (*fermata_header_add)(void *to, zend_string *name, zend_string *value); /* false after an exception */
bool fermata_headers_given(const char *argument, zend_array *given, fermata_header_add add, void *to);

/* http/cookie.c */
typedef struct fermata_cookie {
	zend_string *name, *value;
	zend_string *path, *domain, *same_site; /* NULL = the default */
	zend_long max_age;
	bool has_max_age, secure, http_only, partitioned;
} fermata_cookie;
void fermata_cookies_parse(zend_array *cookies, FmStr line);
zend_string *fermata_cookie_line(const fermata_cookie *cookie);

/* core/limits.c */
bool fermata_property_setting(const zend_class_entry *ce, uint32_t number, FmStr *setting);

/* core/server.c */
typedef struct fermata_handler {
	zval closure; /* owns what call refers to */
	zend_fcall_info_cache call;
} fermata_handler;
/* What a WebSocket route calls; an event nobody handles has an undefined closure. */
typedef struct fermata_socket_route {
	fermata_handler upgrade, open, message, close;
	fermata_handler guard;  /* the middleware around upgrade; undefined = none */
	zend_object *group;     /* as of fermata_route, and until the server runs */
	zend_array *middleware;
} fermata_socket_route;
/* A static tree; only used until the server runs. */
typedef struct fermata_tree {
	zend_object *group;  /* as of fermata_route */
	zend_string *prefix;
	uint32_t fallback;   /* number of the handler for paths without a file; FM_NO_HANDLER = none */
} fermata_tree;
/* What is known of a handler besides; only used until the server runs. */
typedef struct fermata_route {
	zend_object *group;     /* the Routes it was added to; NULL = the server itself */
	zend_array *middleware; /* closures of its own; NULL = none */
	bool is_fallback;
} fermata_route;
typedef struct fermata_jobs fermata_jobs;
typedef struct fermata_server {
	FmServer *core; /* NULL before the constructor and from run() on */
	fermata_handler *handlers;
	fermata_route *routes; /* of the handlers */
	zend_array *middleware; /* closures around all of them; NULL = none */
	fermata_handler not_found, error; /* undefined closures = none */
	uint32_t handlers_len, handlers_capacity;
	fermata_socket_route *socket_routes;
	uint32_t socket_routes_len;
	fermata_tree *trees;
	uint32_t trees_len;
	fermata_every *every;
	fermata_jobs *jobs; /* NULL = none */
	fermata_handler on_message; /* an undefined closure = none */
	zend_array *listed; /* what routes() tells; NULL = none */
	bool constructed;
	bool has_fastcgi; /* PHP-FPM answers some paths */
	zend_object std;
} fermata_server;
void fermata_server_init(void);
void fermata_server_request_end(void);
bool fermata_server_check_open(const fermata_server *server);
/* For a worker in this process; NULL after an exception. */
FmServer *fermata_server_take(fermata_server *server);

/* core/in_process.c */
void fermata_in_process_init(void);

bool fermata_handler_init(fermata_handler *handler, zval *callable);

/* core/parameters.c */
typedef struct fermata_given {
	enum { FERMATA_GIVEN_ANY, FERMATA_GIVEN_INT, FERMATA_GIVEN_STRING, FERMATA_GIVEN_OBJECT } kind;
	zend_class_entry *const *ce; /* of an object; an interface stands for all classes that have it */
} fermata_given;
#define FERMATA_GIVEN_OF(class) {FERMATA_GIVEN_OBJECT, &(class)}
/* Whether a callable's parameters can be given this; more than it declares is ignored as PHP does. False after a MisuseError. */
bool fermata_handler_takes(const fermata_handler *handler, const char *what, const fermata_given *given, uint32_t len);

/* jobs/jobs.c */
void fermata_jobs_init(void);
void fermata_jobs_release(fermata_jobs *jobs);
void fermata_jobs_gc(fermata_jobs *jobs, zend_get_gc_buffer *buffer);
bool fermata_jobs_open(const fermata_server *server, FmServer *core);
bool fermata_jobs_open_in_process(const fermata_server *server);
void fermata_jobs_in_worker(const fermata_server *server);
void fermata_jobs_supervise(const fermata_server *server, FmCompanion *companion);
void fermata_jobs_end(const fermata_server *server, int32_t supervisor);

/* fibers/poll.c */
void fermata_poll_init(void);

/* jobs/peers.c */
bool fermata_peers_open(const fermata_server *server, uint32_t len);
void fermata_peers_close(void);
void fermata_peers_start(const fermata_server *server, uint32_t worker_index);
void fermata_peers_stop(void);
void fermata_peers_on_message(FmStr text);

/* http/routes.c */
void fermata_routes_init(void);
void fermata_route_free(fermata_route *route);
uint32_t fermata_server_add(fermata_server *server, const fermata_handler *handler, const fermata_route *route);
zend_object *fermata_routes_parent(const zend_object *group);
zend_array *fermata_routes_middleware(const zend_object *group);
fermata_server *fermata_routes_server(const zend_object *group);
zend_string *fermata_routes_path(const zend_object *group, zend_string *path);
zend_array *fermata_closures_of(HashTable *given, uint32_t argument, bool *failed);
void fermata_server_list(fermata_server *server, const char *kind, FmStr method, const zend_string *path,
	const fermata_handler *handler, const zend_string *directory);
void fermata_trees_free(fermata_server *server);
void fermata_gc_add_array(zend_get_gc_buffer *buffer, zend_array *array);

/* core/stray.c */
bool fermata_session_check(void);

/* http/middleware.c */
void fermata_middleware_init(void);
bool fermata_handler_fit(fermata_handler *handler, const zend_string *pattern);
bool fermata_middleware_compose(fermata_server *server);

/* sockets/route.c */
void fermata_socket_route_free(fermata_socket_route *route);
void fermata_socket_route_gc(fermata_socket_route *route, zend_get_gc_buffer *buffer);

/* core/runner.c */
void fermata_run_worker(fermata_server *server, const FmStart *start);

/* http/request.c */
typedef struct fermata_kept fermata_kept;
typedef struct fermata_request {
	FmWorker *worker;   /* set while the core's buffers hold the request */
	fermata_kept *kept; /* set when the object outlived its handler; event then points in there */
	FmEvent event;
	zend_string *body; /* from here on: built when asked for */
	zend_array *queries, *forms, *cookies, *files;
	zval attributes; /* an array, or undefined */
	size_t body_read;   /* what read() has given of it */
	bool body_ended;    /* of one that is read while it arrives */
	zend_object std;
} fermata_request;
void fermata_request_init(void);
fermata_request *fermata_request_new(void);
void fermata_request_forget(fermata_request *request);
void fermata_request_keep(fermata_request *request);
bool fermata_request_header_at(const fermata_request *request, size_t index, FmStr *name, FmStr *value);
bool fermata_request_header(const fermata_request *request, FmStr lower_case_name, size_t nth, FmStr *value);
bool fermata_request_route_at(const fermata_request *request, size_t index, FmStr *name, FmStr *value);
FmStr fermata_request_host(const fermata_request *request);
FmStr fermata_request_remote(const fermata_request *request, uint16_t *port);
FmStr fermata_request_server(const fermata_request *request, uint16_t *port, FmStr *protocol);
/* subject.ptr is NULL without a certificate of the client. */
bool fermata_request_tls(const fermata_request *request, FmStr *subject, FmStr *pem);

/* core/opcache.c */
void fermata_opcache_tell_time(time_t now);

/* http/request_methods.c: the request has them until it is over. The stream is NULL after an exception. */
zend_array *fermata_request_queries(fermata_request *request);
zend_array *fermata_request_forms(fermata_request *request);
zend_array *fermata_request_cookies(fermata_request *request);
php_stream *fermata_request_body_stream(fermata_request *request);

/* Whether the body is read while it arrives. */
static zend_always_inline bool fermata_request_arrives(const fermata_request *request)
{
	return UNEXPECTED(request->event.upload == FM_UPLOAD_ARRIVING);
}

/* http/body.c */
zend_string *fermata_body_read(fermata_request *request, size_t bytes_max);
zend_string *fermata_body_read_all(fermata_request *request);
php_stream *fermata_body_stream(fermata_request *request);
void fermata_body_arrived(const FmEvent *event);

/* http/uploaded_file.c */
void fermata_uploaded_file_init(void);
zend_array *fermata_uploads_fields(uint32_t upload);
zend_array *fermata_uploads_files(uint32_t upload);
zend_string *fermata_uploads_body_path(uint32_t upload);
ZEND_COLD void fermata_upload_failed(const char *what, const zend_string *path);

typedef struct fermata_response fermata_response;

/* A kind of body that is not a string, in the file that sends it. An exception is left pending, and the request is then open. */
typedef struct fermata_source_kind {
	const char *headers; /* the argument of PHP's that has them, for errors; NULL = there is none */
	void (*respond)(const fermata_handler *handler, const fermata_response *response);
} fermata_source_kind;
extern const fermata_source_kind fermata_source_file;    /* http/stream.c */
extern const fermata_source_kind fermata_source_stream;  /* http/stream.c */
extern const fermata_source_kind fermata_source_upgrade; /* sockets/runner.c */

/* http/source.c */
typedef struct fermata_source {
	const fermata_source_kind *kind;
	zval value;         /* what it is made of: path, iterable, callable, Upgrade */
	zend_string *root;  /* the directory that a file must lie in; NULL = anywhere */
	union {
		int64_t length;        /* of a stream; -1 = not known */
		int64_t keep_alive_ms; /* of events; -1 = the setting */
		uint32_t tree;         /* the handler in front of the static tree that a file is of; FM_NO_HANDLER = none */
	};
} fermata_source;
fermata_source *fermata_source_new(const fermata_source_kind *kind, const zval *value);
void fermata_source_free(fermata_source *source);
fermata_source *fermata_source_copy(const fermata_source *from);

/* http/events.c */
extern zend_class_entry *fermata_ce_event_sink;
void fermata_events_init(void);

/* http/response.c */
struct fermata_response {
	uint32_t status;
	zend_string *reason;       /* NULL = the standard phrase */
	zend_string *content_type; /* NULL = none */
	zend_string *body;         /* NULL before the constructor */
	fermata_headers *headers;  /* all but Content-Type; NULL = none */
	fermata_source *source;    /* what is sent in place of body; NULL = body */
	zend_object std;
};
void fermata_response_init(void);
void fermata_response_with_source(zval *return_value, fermata_source *source, zend_long status, zend_string *content_type,
	zend_array *headers);
#define FERMATA_HEADERS_STACK 8 /* answers with more header lines fill them on the heap */
FmHeader *fermata_response_fill(const fermata_response *response, FmHeader *some, FmResponse *out);
fermata_response *fermata_response_plain(uint32_t status, zend_string *text);
fermata_response *fermata_response_sent(uint32_t status, zend_string *body);
void fermata_response_recycle(zend_object *object);
void fermata_response_release_spare(void);

/* What a handler may return. */
static zend_always_inline bool fermata_is_answer(const zval *value)
{
	return Z_TYPE_P(value) == IS_OBJECT && (Z_OBJCE_P(value) == fermata_ce_response || Z_OBJCE_P(value) == fermata_ce_hold);
}

/* http/hold.c */
typedef struct fermata_hold {
	zend_string **channels;
	uint32_t channels_len;
	uint32_t events_len;
	zval *events; /* Event objects for this client alone */
	zend_string *user, *info, *since;
	fermata_headers *headers;
	int64_t keep_alive_ms;
	uint32_t slow;
	uint8_t format;
	bool announce;
	zend_object std;
} fermata_hold;
void fermata_hold_init(void);
uint32_t fermata_hold_send(FmWorker *worker, const fermata_request *request, const fermata_hold *hold, FmError *error);

/* sockets/websocket.c */
typedef struct fermata_websocket {
	FmSocket handle; /* of the core; 0 = none */
	zend_string *id; /* from here on: built when asked for, or when the object outlived its handler */
	zend_string *address, *protocol;
	uint16_t port;
	bool kept;
	zend_object std;
} fermata_websocket;
void fermata_websocket_init(void);
fermata_websocket *fermata_websocket_new(void);
void fermata_websocket_keep(fermata_websocket *socket);

/* Lets the one object stand for another connection. */
static zend_always_inline void fermata_websocket_bind(fermata_websocket *socket, FmSocket handle)
{
	if (socket->handle != handle) {
		socket->handle = handle;
		if (UNEXPECTED(socket->id)) {
			zend_string_release(socket->id);
			socket->id = NULL;
		}
	}
}

/* sockets/data.c */
zval *fermata_websocket_data(FmSocket handle);
bool fermata_websocket_set_data(FmSocket handle, zval *data);
void fermata_websocket_release(FmSocket handle);
void fermata_websocket_release_all(void);

/* sockets/message.c */
typedef struct fermata_message {
	FmStr bytes;         /* lent by the core while the handler runs; then absent */
	zend_string *string; /* built when asked for, or when the object outlived its handler */
	bool binary;
	zend_object std;
} fermata_message;
void fermata_message_init(void);
fermata_message *fermata_message_new(void);
void fermata_message_forget(fermata_message *message);
void fermata_message_keep(fermata_message *message);
FmStr fermata_message_bytes(const fermata_message *message);

/* sockets/upgrade.c */
typedef struct fermata_upgrade {
	fermata_request *request;
	enum { UPGRADE_UNDECIDED, UPGRADE_ACCEPTED, UPGRADE_REFUSED, UPGRADE_OVER } state;
	zend_string *protocol;      /* accepted with; NULL = the server's choice */
	fermata_headers *headers;   /* accepted with */
	zend_object *response;      /* refused with; NULL = status alone */
	uint32_t status;
	zval data;
	zend_object std;
} fermata_upgrade;
void fermata_upgrade_init(void);
fermata_upgrade *fermata_upgrade_new(fermata_request *request);
void fermata_upgrade_end(fermata_upgrade *upgrade);

/* sockets/options.c */
typedef struct fermata_socket_options {
	FmWsRoute route;
	FmStr *origins, *protocols; /* what route points to; to be freed */
} fermata_socket_options;
void fermata_socket_options_fill(fermata_socket_options *out, zend_object *options);

/* core/channel.c */
bool fermata_event_message(zend_object *event, FmMessage *message);

/* core/publishing.c */
typedef struct fermata_publication {
	FmStr channel;
	zend_object *message; /* of a WebSocket, whose bytes are lent; NULL = `event` has them */
	FmMessage event;
	FmSocket except; /* a socket of this worker; 0 = none */
	uint32_t ack;
} fermata_publication;

/* False after an exception. */
bool fermata_publish(fermata_publication *publication, FmId *id);

/* fermata.c */
/* Opens /dev/null for each descriptor from 0 to 2 that is closed. What is opened next would take its place, and get what is
 * printed or logged: a connection of a client, for example. */
void fermata_fill_standard_streams(void);
/* In a worker or process of jobs: has PHP close its streams of these descriptors, as STDOUT, without them, for the same reason. */
void fermata_keep_standard_streams(void);

/* core/table.c */
void fermata_table_init(void);

/* core/publisher.c */
void fermata_publisher_init(void);
/* sockets/pusher.c */
void fermata_pusher_init(void);

/* sockets/mercure.c */
void fermata_mercure_init(void);
void fermata_mercure_shutdown(void);

/* sockets/client.c */
void fermata_client_init(void);

/* core/codec.c */
void fermata_codec_forked(void);
void fermata_codec_request_end(void);

#endif
