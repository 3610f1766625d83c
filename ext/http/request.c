/* The object of Fermata\Request: a view of the core's buffers. Its methods are in request_methods.c.
 *
 * While the handler runs, the object refers to the core's bytes, and a PHP value is created only when a method is called. The
 * runner reuses one object for consecutive requests. If a handler has kept a reference to the object, the runner calls
 * fermata_request_keep(), which copies all values, and creates a new object for the next request. */
#include "http/http.h"

typedef struct pair {
	FmStr name, value;
} pair;

/* One allocation: this struct, the pairs (headers, then route parameters), and then the bytes to which the pairs point. */
struct fermata_kept {
	size_t headers_len, routes_len;
	FmStr address, own_address, protocol;
	uint16_t port, own_port;
	bool is_secure;
	FmStr certificate_subject, certificate_pem, host;
	pair pairs[1];
};

/* Maximum size in bytes of an IPv6 address as text, with its NUL. */
#define OWN_ADDRESS_BYTES_MAX 46

static zend_object_handlers request_handlers;

/* Object lifetime */

static zend_object *request_create(zend_class_entry *ce)
{
	fermata_request *request = zend_object_alloc(sizeof(fermata_request), ce);
	memset(request, 0, XtOffsetOf(fermata_request, std));
	zend_object_std_init(&request->std, ce);
	request->std.handlers = &request_handlers;
	return &request->std;
}

fermata_request *fermata_request_new(void)
{
	return FERMATA_FROM(fermata_request, request_create(fermata_ce_request));
}

static void free_array(zend_array **array)
{
	if (*array) {
		zend_array_release(*array);
		*array = NULL;
	}
}

/* Removes uploaded files that were not moved. In a process that a handler has forked, does nothing, since the worker removes
 * them. */
static void release_upload(fermata_request *request)
{
	if (fermata.worker && !fermata.forked) {
		fm_upload_release(fermata.worker, request->event.upload);
	}
	request->event.upload = 0;
	request->body_read = 0;
	request->body_ended = false;
}

/* Clears the object for the next request. */
void fermata_request_forget(fermata_request *request)
{
	if (UNEXPECTED(request->event.upload)) {
		release_upload(request);
	}
	if (UNEXPECTED(request->body)) {
		zend_string_release(request->body);
		request->body = NULL;
		request->body_read = 0;
	}
	free_array(&request->queries);
	free_array(&request->forms);
	free_array(&request->cookies);
	free_array(&request->files);
	if (UNEXPECTED(!Z_ISUNDEF(request->attributes))) {
		zval attributes;
		ZVAL_COPY_VALUE(&attributes, &request->attributes);
		ZVAL_UNDEF(&request->attributes);
		zval_ptr_dtor(&attributes);
	}
}

static void request_free(zend_object *object)
{
	fermata_request *request = FERMATA_FROM(fermata_request, object);
	fermata_request_forget(request);
	if (request->kept) {
		efree(request->kept);
	}
	zend_object_std_dtor(object);
}

/* An attribute may refer to the request itself. */
static HashTable *request_get_gc(zend_object *object, zval **table, int *len)
{
	*table = &FERMATA_FROM(fermata_request, object)->attributes;
	*len = 1;
	return NULL;
}

void fermata_request_init(void)
{
	fermata_ce_request->create_object = request_create;
	memcpy(&request_handlers, zend_get_std_object_handlers(), sizeof(request_handlers));
	request_handlers.offset = XtOffsetOf(fermata_request, std);
	request_handlers.free_obj = request_free;
	request_handlers.get_gc = request_get_gc;
	request_handlers.clone_obj = NULL;
	request_handlers.compare = zend_objects_not_comparable;
}

/* Reading from the core's buffers or from the copy */

bool fermata_request_header_at(const fermata_request *request, size_t index, FmStr *name, FmStr *value)
{
	if (request->worker) {
		return fm_request_header_at(request->worker, request->event.request, index, name, value);
	}
	if (!request->kept || index >= request->kept->headers_len) {
		return false;
	}
	*name = request->kept->pairs[index].name;
	*value = request->kept->pairs[index].value;
	return true;
}

/* Returns the header line number `nth` with this name, which is in lower case. */
bool fermata_request_header(const fermata_request *request, FmStr name, size_t nth, FmStr *value)
{
	if (EXPECTED(request->worker)) {
		return fm_request_header(request->worker, request->event.request, name, nth, value);
	}
	FmStr found;
	for (size_t i = 0; fermata_request_header_at(request, i, &found, value); i++) {
		if (fermata_str_equals_ci(found, name) && nth-- == 0) {
			return true;
		}
	}
	return false;
}

bool fermata_request_route_at(const fermata_request *request, size_t index, FmStr *name, FmStr *value)
{
	if (request->worker) {
		return fm_request_route_at(request->worker, request->event.request, index, name, value);
	}
	if (!request->kept || index >= request->kept->routes_len) {
		return false;
	}
	*name = request->kept->pairs[request->kept->headers_len + index].name;
	*value = request->kept->pairs[request->kept->headers_len + index].value;
	return true;
}

FmStr fermata_request_remote(const fermata_request *request, uint16_t *port)
{
	FmStr address = FERMATA_LITERAL("");
	*port = 0;
	if (request->worker) {
		fm_request_remote(request->worker, request->event.request, &address, port);
	} else if (request->kept) {
		address = request->kept->address;
		*port = request->kept->port;
	}
	return address;
}

/* Returns the server's address, port and HTTP version of the request's connection. The address is empty for a Unix socket, and
 * valid until the next fm_* call. */
FmStr fermata_request_server(const fermata_request *request, uint16_t *port, FmStr *protocol)
{
	FmStr address = FERMATA_LITERAL("");
	*port = 0;
	*protocol = FERMATA_LITERAL("HTTP/1.1");
	if (request->worker) {
		fm_request_server(request->worker, request->event.request, &address, port, protocol);
	} else if (request->kept) {
		address = request->kept->own_address;
		*port = request->kept->own_port;
		*protocol = request->kept->protocol;
	}
	return address;
}

/* Returns the host; empty if the client sent none. */
FmStr fermata_request_host(const fermata_request *request)
{
	FmStr host = FERMATA_LITERAL("");
	if (request->worker) {
		fm_request_host(request->worker, request->event.request, &host);
	} else if (request->kept) {
		host = request->kept->host;
	}
	return host;
}

bool fermata_request_tls(const fermata_request *request, FmStr *subject, FmStr *pem)
{
	*subject = *pem = (FmStr){NULL, 0};
	if (request->worker) {
		return fm_request_tls(request->worker, request->event.request, subject, pem);
	}
	if (!request->kept) {
		return false;
	}
	*subject = request->kept->certificate_subject;
	*pem = request->kept->certificate_pem;
	return request->kept->is_secure;
}

/* Keeping */

static FmStr copy_bytes(char **free_bytes, FmStr from)
{
	if (!from.ptr) {
		return from;
	}
	FmStr to = {*free_bytes, from.len};
	memcpy(*free_bytes, from.ptr, from.len);
	*free_bytes += from.len;
	return to;
}

/* Copies all values from the core's buffers. After the call, `worker` is NULL, and every FmStr points into `kept`. */
void fermata_request_keep(fermata_request *request)
{
	if (request->kept) {
		return;
	}
	FmEvent *event = &request->event;
	FmStr *own[] = {&event->method, &event->path, &event->target, &event->query, &event->body, &event->allow};
	size_t bytes = 0, headers_len = 0, routes_len = 0;
	uint16_t port, own_port;
	/* The next fm_* call overwrites this buffer. */
	char own_text[OWN_ADDRESS_BYTES_MAX];
	FmStr protocol, own_address = fermata_request_server(request, &own_port, &protocol);
	own_address.len = MIN(own_address.len, sizeof(own_text));
	memcpy(own_text, own_address.ptr, own_address.len);
	own_address.ptr = own_text;
	FmStr name, value, address = fermata_request_remote(request, &port), subject, pem, host = fermata_request_host(request);
	bool is_secure = fermata_request_tls(request, &subject, &pem);

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		bytes += own[i]->len;
	}
	for (; fermata_request_header_at(request, headers_len, &name, &value); headers_len++) {
		bytes += name.len + value.len;
	}
	for (; fermata_request_route_at(request, routes_len, &name, &value); routes_len++) {
		bytes += name.len + value.len;
	}
	bytes += address.len + own_address.len + protocol.len + subject.len + pem.len + host.len;

	size_t fixed = XtOffsetOf(fermata_kept, pairs) + (headers_len + routes_len) * sizeof(pair);
	fermata_kept *kept = emalloc(fixed + bytes);
	char *free_bytes = (char *)kept + fixed;
	kept->headers_len = headers_len;
	kept->routes_len = routes_len;
	for (size_t i = 0; i < headers_len && fermata_request_header_at(request, i, &name, &value); i++) {
		kept->pairs[i] = (pair){copy_bytes(&free_bytes, name), copy_bytes(&free_bytes, value)};
	}
	for (size_t i = 0; i < routes_len && fermata_request_route_at(request, i, &name, &value); i++) {
		kept->pairs[headers_len + i] = (pair){copy_bytes(&free_bytes, name), copy_bytes(&free_bytes, value)};
	}
	kept->address = copy_bytes(&free_bytes, address);
	kept->port = port;
	kept->own_address = copy_bytes(&free_bytes, own_address);
	kept->own_port = own_port;
	kept->protocol = copy_bytes(&free_bytes, protocol);
	kept->is_secure = is_secure;
	kept->certificate_subject = copy_bytes(&free_bytes, subject);
	kept->certificate_pem = copy_bytes(&free_bytes, pem);
	kept->host = copy_bytes(&free_bytes, host);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		*own[i] = copy_bytes(&free_bytes, *own[i]);
	}
	request->kept = kept;
	request->worker = NULL;
}

static void on_create(fermata_running *objects)
{
	objects->request = fermata_request_new();
}

static void on_first_wait(void)
{
	/* In an event of a stream or WebSocket, the object does not belong to this handler. */
	if (!fermata_this_stream() && !fermata_this_socket()) {
		fermata_request_keep(fermata_this_request());
	}
}

static void on_release(void)
{
	OBJ_RELEASE(&fermata_this_request()->std);
}

static fermata_part part = {.on_create = on_create, .on_first_wait = on_first_wait, .on_release = on_release};

void fermata_request_init_part(void)
{
	fermata_part_register(&part);
}
