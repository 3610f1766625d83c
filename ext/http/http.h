/* Requests, responses and holds. */
#ifndef FERMATA_HTTP_H
#define FERMATA_HTTP_H

#include "base/collisions.h"
#include "handler/handler.h"

/* cookie.c */
typedef struct fermata_cookie {
	zend_string *name, *value;
	zend_string *path, *domain, *same_site; /* NULL = default */
	zend_long max_age;
	bool has_max_age, secure, http_only, partitioned;
} fermata_cookie;
void fermata_cookies_parse(zend_array *cookies, FmStr line);
zend_string *fermata_cookie_line(const fermata_cookie *cookie);

/* groups.c */
/* Fermata\Routes */
typedef struct fermata_routes {
	fermata_server *server; /* owned reference */
	zend_object *parent;    /* owned reference to the enclosing group; NULL = directly in the server */
	zend_string *prefix;    /* prefixes of the enclosing groups and this one */
	zend_array *middleware; /* NULL = none */
	zend_object std;
} fermata_routes;
void fermata_routes_init(void);
zend_object *fermata_routes_create(zend_class_entry *ce);
zend_object *fermata_routes_parent(const zend_object *group);
zend_array *fermata_routes_middleware(const zend_object *group);
fermata_server *fermata_routes_server(const zend_object *group);
void fermata_gc_add_array(zend_get_gc_buffer *buffer, zend_array *array);
void fermata_route_free(fermata_route *route);
/* Stores a handler and its route, and returns their number. Takes ownership of both. */
uint32_t fermata_server_add(fermata_server *server, const fermata_handler *handler, const fermata_route *route);
void fermata_trees_free(fermata_server *server);

/* routes.c */
zend_string *fermata_routes_path(const zend_object *group, zend_string *path);
zend_array *fermata_closures_of(HashTable *given, uint32_t argument, bool *failed);
void fermata_server_list(fermata_server *server, const char *kind, FmStr method, const zend_string *path,
	const fermata_handler *handler, const zend_string *directory);

/* middleware.c */
void fermata_middleware_init(void);
void fermata_middleware_init_part(void);
bool fermata_handler_fit(fermata_handler *handler, const zend_string *pattern);
bool fermata_middleware_compose(fermata_server *server);

/* request.c */
typedef struct fermata_kept fermata_kept;
void fermata_request_init(void);
void fermata_request_init_part(void);
fermata_request *fermata_request_new(void);
void fermata_request_forget(fermata_request *request);
void fermata_request_keep(fermata_request *request);
bool fermata_request_header_at(const fermata_request *request, size_t index, FmStr *name, FmStr *value);
bool fermata_request_header(const fermata_request *request, FmStr lower_case_name, size_t nth, FmStr *value);
bool fermata_request_route_at(const fermata_request *request, size_t index, FmStr *name, FmStr *value);
FmStr fermata_request_host(const fermata_request *request);
FmStr fermata_request_remote(const fermata_request *request, uint16_t *port);
FmStr fermata_request_server(const fermata_request *request, uint16_t *port, FmStr *protocol);
/* `subject.ptr` is NULL if the client sent no certificate. */
bool fermata_request_tls(const fermata_request *request, FmStr *subject, FmStr *pem);

/* request_methods.c: the request owns the returned arrays until it ends. The stream is NULL with an exception pending. */
zend_array *fermata_request_queries(fermata_request *request);
zend_array *fermata_request_forms(fermata_request *request);
zend_array *fermata_request_cookies(fermata_request *request);
php_stream *fermata_request_body_stream(fermata_request *request);

/* Returns true if the body is read while it arrives. */
static zend_always_inline bool fermata_request_arrives(const fermata_request *request)
{
	return UNEXPECTED(request->event.upload == FM_UPLOAD_ARRIVING);
}

/* body.c */
zend_string *fermata_body_read(fermata_request *request, size_t bytes_max);
zend_string *fermata_body_read_all(fermata_request *request);
php_stream *fermata_body_stream(fermata_request *request);
extern const php_stream_ops fermata_body_stream_ops;
void fermata_body_arrived(const FmEvent *event);

/* uploaded_file.c */
void fermata_uploaded_file_init(void);
zend_array *fermata_uploads_fields(uint32_t upload);
zend_array *fermata_uploads_files(uint32_t upload);
zend_string *fermata_uploads_body_path(uint32_t upload);
ZEND_COLD void fermata_upload_failed(const char *what, const zend_string *path);

typedef struct fermata_response fermata_response;

/* A kind of body that is not a string. Each kind is defined in the file that sends it. If respond() leaves an exception pending,
 * no response has been sent for the request. */
typedef struct fermata_source_kind {
	const char *headers; /* PHP argument that contains the headers, for error messages; NULL = none */
	void (*respond)(const fermata_handler *handler, const fermata_response *response);
} fermata_source_kind;
extern const fermata_source_kind fermata_source_file;    /* stream.c */
extern const fermata_source_kind fermata_source_stream;  /* stream.c */
extern const fermata_source_kind fermata_source_upgrade; /* sockets/runner.c */

/* source.c */
typedef struct fermata_source {
	const fermata_source_kind *kind;
	zval value;         /* path, iterable, callable or Upgrade */
	zend_string *root;  /* directory that must contain the file; NULL = any directory */
	union {
		int64_t length;        /* size of a stream in bytes; -1 = unknown */
		int64_t keep_alive_ms; /* of events; -1 = the setting keep_alive_ms */
		uint32_t tree;         /* number of the handler of the file's static tree; FM_NO_HANDLER = none */
	};
} fermata_source;
fermata_source *fermata_source_new(const fermata_source_kind *kind, const zval *value);
void fermata_source_free(fermata_source *source);
fermata_source *fermata_source_copy(const fermata_source *from);

/* events.c */
extern zend_class_entry *fermata_ce_event_sink;
void fermata_events_init(void);

/* response.c */
struct fermata_response {
	uint32_t status;
	zend_string *reason;       /* NULL = the standard phrase */
	zend_string *content_type; /* NULL = none */
	zend_string *body;         /* NULL before the constructor */
	fermata_headers *headers;  /* all headers but Content-Type; NULL = none */
	fermata_source *source;    /* body that is not a string; NULL = send `body` */
	zend_object std;
};
void fermata_response_init(void);
void fermata_response_with_source(zval *return_value, fermata_source *source, zend_long status, zend_string *content_type,
	zend_array *headers);
#define FERMATA_HEADERS_STACK 8 /* responses with more header lines use the heap */
FmHeader *fermata_response_fill(const fermata_response *response, FmHeader *some, FmResponse *out);
fermata_response *fermata_response_plain(uint32_t status, zend_string *text);
fermata_response *fermata_response_sent(zend_string *body);
/* Calls the callable of header_register_callback(). Returns false with an exception pending. */
bool fermata_headers_leave(void);
void fermata_response_recycle(zend_object *object);
void fermata_response_init_part(void);

/* Returns true for types that a handler may return. */
static zend_always_inline bool fermata_is_answer(const zval *value)
{
	return Z_TYPE_P(value) == IS_OBJECT && (Z_OBJCE_P(value) == fermata_ce_response || Z_OBJCE_P(value) == fermata_ce_hold);
}

/* hold.c */
typedef struct fermata_hold {
	zend_string **channels;
	uint32_t channels_len;
	uint32_t events_len;
	zval *events; /* Event objects for this client only */
	zend_string *user, *info, *since;
	fermata_headers *headers;
	int64_t keep_alive_ms;
	uint32_t slow;
	uint8_t format;
	bool announce;
	bool from_start; /* send all stored events to a client without an id */
	zend_object std;
} fermata_hold;
void fermata_hold_init(void);
uint32_t fermata_hold_send(FmWorker *worker, const fermata_request *request, const fermata_hold *hold, FmError *error);

/* respond.c */
void fermata_request_done(void);
void fermata_respond(const fermata_handler *handler, const fermata_response *response);
void fermata_answer(const fermata_handler *handler, zval *result);

/* stream.c */
void fermata_streams_init(void);
void fermata_stream_pull(const FmEvent *event);
void fermata_stream_ended(const FmEvent *event);
void fermata_streams_release(void);

/* middleware.c */

/* globals.c */
void fermata_globals_init(void);
void fermata_globals_init_part(void);
/* Called when the script finishes. */
void fermata_globals_forget(void);
void fermata_globals_request_end(void);
/* Return the input of the current handler's request. The caller releases the arrays. */
zend_array *fermata_globals_query(void);
zend_array *fermata_globals_form(void);
zend_array *fermata_globals_cookies(void);
zend_array *fermata_globals_params(void);

/* input.c */
void fermata_input_wrap(void);

#endif
