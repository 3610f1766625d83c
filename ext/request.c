/* Fermata\Request: a window on the core's buffers.
 *
 * While its handler runs, the object borrows the bytes of the core and makes a PHP value only when a method is called.
 * The runner uses one object for request after request. When a handler kept a reference, the runner calls
 * fermata_request_keep(), which copies everything, and takes a fresh object for the next request. */
#include "php_fermata.h"
#include "SAPI.h"
#include "main/php_variables.h"
#include "ext/standard/url.h"
#include "zend_exceptions.h"

/* Longer header names are lower-cased on the heap. */
#define HEADER_NAME_BYTES_STACK 64

typedef struct pair {
	FmStr name, value;
} pair;

/* One allocation: this struct, the pairs (headers first, then route parameters), then the bytes all of them point to. */
struct fermata_kept {
	size_t headers_len, routes_len;
	FmStr address;
	uint16_t port;
	pair pairs[1];
};

static zend_object_handlers request_handlers;

#define THIS_REQUEST() FERMATA_FROM(fermata_request, Z_OBJ_P(ZEND_THIS))

/* Life of the object */

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

/* Drops what was built for the last request, so that the object can serve the next one. */
void fermata_request_forget(fermata_request *request)
{
	if (UNEXPECTED(request->body)) {
		zend_string_release(request->body);
		request->body = NULL;
	}
	free_array(&request->queries);
	free_array(&request->forms);
	free_array(&request->cookies);
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

void fermata_request_init(void)
{
	fermata_ce_request->create_object = request_create;
	memcpy(&request_handlers, zend_get_std_object_handlers(), sizeof(request_handlers));
	request_handlers.offset = XtOffsetOf(fermata_request, std);
	request_handlers.free_obj = request_free;
	request_handlers.clone_obj = NULL;
	request_handlers.compare = zend_objects_not_comparable;
}

/* Reading, live or kept */

static bool header_at(const fermata_request *request, size_t index, FmStr *name, FmStr *value)
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

/* The name is in lower case. */
static bool header_nth(const fermata_request *request, FmStr name, size_t nth, FmStr *value)
{
	if (EXPECTED(request->worker)) {
		return fm_request_header(request->worker, request->event.request, name, nth, value);
	}
	FmStr found;
	for (size_t i = 0; header_at(request, i, &found, value); i++) {
		if (found.len == name.len && zend_binary_strcasecmp(found.ptr, found.len, name.ptr, name.len) == 0 && nth-- == 0) {
			return true;
		}
	}
	return false;
}

static bool route_at(const fermata_request *request, size_t index, FmStr *name, FmStr *value)
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

static FmStr remote(const fermata_request *request, uint16_t *port)
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

/* Makes the object independent of the core. Invariant afterwards: worker is NULL and every FmStr points into kept. */
void fermata_request_keep(fermata_request *request)
{
	FmEvent *event = &request->event;
	FmStr *own[] = {&event->method, &event->path, &event->target, &event->query, &event->body};
	size_t bytes = 0, headers_len = 0, routes_len = 0;
	uint16_t port;
	FmStr name, value, address = remote(request, &port);

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		bytes += own[i]->len;
	}
	for (; header_at(request, headers_len, &name, &value); headers_len++) {
		bytes += name.len + value.len;
	}
	for (; route_at(request, routes_len, &name, &value); routes_len++) {
		bytes += name.len + value.len;
	}
	bytes += address.len;

	size_t fixed = XtOffsetOf(fermata_kept, pairs) + (headers_len + routes_len) * sizeof(pair);
	fermata_kept *kept = emalloc(fixed + bytes);
	char *free_bytes = (char *)kept + fixed;
	kept->headers_len = headers_len;
	kept->routes_len = routes_len;
	for (size_t i = 0; i < headers_len && header_at(request, i, &name, &value); i++) {
		kept->pairs[i] = (pair){copy_bytes(&free_bytes, name), copy_bytes(&free_bytes, value)};
	}
	for (size_t i = 0; i < routes_len && route_at(request, i, &name, &value); i++) {
		kept->pairs[headers_len + i] = (pair){copy_bytes(&free_bytes, name), copy_bytes(&free_bytes, value)};
	}
	kept->address = copy_bytes(&free_bytes, address);
	kept->port = port;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		*own[i] = copy_bytes(&free_bytes, *own[i]);
	}
	request->kept = kept;
	request->worker = NULL;
}

/* Values */

static zend_string *body_string(fermata_request *request)
{
	if (!request->body) {
		FmStr body = request->event.body;
		request->body = body.len ? zend_string_init(body.ptr, body.len, 0) : ZSTR_EMPTY_ALLOC();
	}
	return request->body;
}

/* All lines of a header as one string; NULL when there is none. */
static zend_string *header_joined(const fermata_request *request, FmStr name)
{
	FmStr value;
	if (!header_nth(request, name, 0, &value)) {
		return NULL;
	}
	zend_string *joined = zend_string_init_fast(value.ptr, value.len);
	/* A comma is part of many cookie values, so HTTP joins those lines with a semicolon (RFC 9113 8.2.3). */
	char separator = name.len == 6 && memcmp(name.ptr, "cookie", 6) == 0 ? ';' : ',';
	for (size_t nth = 1; header_nth(request, name, nth, &value); nth++) {
		size_t len = ZSTR_LEN(joined);
		zend_string *longer = zend_string_alloc(len + 2 + value.len, 0);
		memcpy(ZSTR_VAL(longer), ZSTR_VAL(joined), len);
		ZSTR_VAL(longer)[len] = separator;
		ZSTR_VAL(longer)[len + 1] = ' ';
		memcpy(ZSTR_VAL(longer) + len + 2, value.ptr, value.len);
		ZSTR_VAL(longer)[ZSTR_LEN(longer)] = '\0';
		zend_string_release(joined);
		joined = longer;
	}
	return joined;
}

/* The rules of parse_str(), including max_input_vars and nested names. */
static zend_array *parse_variables(FmStr text)
{
	zval array;
	array_init(&array);
	if (text.len) {
		sapi_module.treat_data(PARSE_STRING, estrndup(text.ptr, text.len), &array);
	}
	return Z_ARR(array);
}

static zend_array *queries(fermata_request *request)
{
	if (!request->queries) {
		request->queries = parse_variables(request->event.query);
	}
	return request->queries;
}

static bool is_form(const fermata_request *request)
{
	static const char form[] = "application/x-www-form-urlencoded";
	FmStr type;
	size_t len = sizeof(form) - 1;
	if (!header_nth(request, FERMATA_LITERAL("content-type"), 0, &type) || type.len < len) {
		return false;
	}
	return zend_binary_strcasecmp(type.ptr, len, form, len) == 0
		&& (type.len == len || type.ptr[len] == ';' || type.ptr[len] == ' ' || type.ptr[len] == '\t');
}

static zend_array *forms(fermata_request *request)
{
	if (!request->forms) {
		request->forms = parse_variables(is_form(request) ? request->event.body : FERMATA_LITERAL(""));
	}
	return request->forms;
}

static void add_cookie(zend_array *cookies, const char *start, const char *end)
{
	const char *equals;
	zval value;
	while (start < end && (*start == ' ' || *start == '\t')) {
		start++;
	}
	while (end > start && (end[-1] == ' ' || end[-1] == '\t')) {
		end--;
	}
	equals = memchr(start, '=', end - start);
	if (!equals || equals == start) {
		return;
	}
	ZVAL_STRINGL(&value, equals + 1, end - equals - 1);
	Z_STRLEN(value) = php_raw_url_decode(Z_STRVAL(value), Z_STRLEN(value));
	if (!zend_symtable_str_exists(cookies, start, equals - start)) {
		zend_symtable_str_update(cookies, start, equals - start, &value);
	} else {
		zval_ptr_dtor_str(&value);
	}
}

static zend_array *cookies(fermata_request *request)
{
	FmStr line;
	if (request->cookies) {
		return request->cookies;
	}
	request->cookies = zend_new_array(0);
	for (size_t nth = 0; header_nth(request, FERMATA_LITERAL("cookie"), nth, &line); nth++) {
		const char *start = line.ptr, *end = line.ptr + line.len;
		while (start < end) {
			const char *semicolon = memchr(start, ';', end - start);
			add_cookie(request->cookies, start, semicolon ? semicolon : end);
			start = semicolon ? semicolon + 1 : end;
		}
	}
	return request->cookies;
}

/* Methods */

static void return_str(zval *return_value, FmStr string)
{
	if (string.len) {
		RETVAL_STRINGL_FAST(string.ptr, string.len);
	} else {
		RETVAL_EMPTY_STRING();
	}
}

static void return_one(INTERNAL_FUNCTION_PARAMETERS, zend_array *(*all)(fermata_request *))
{
	zend_string *name, *fallback = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(name)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(fallback)
	ZEND_PARSE_PARAMETERS_END();
	zval *found = zend_symtable_find(all(THIS_REQUEST()), name);
	if (found && Z_TYPE_P(found) == IS_STRING) {
		RETURN_COPY(found);
	}
	if (fallback) {
		RETURN_STR_COPY(fallback);
	}
	RETURN_NULL();
}

static void return_all(INTERNAL_FUNCTION_PARAMETERS, zend_array *(*all)(fermata_request *))
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_array *array = all(THIS_REQUEST());
	GC_ADDREF(array);
	RETURN_ARR(array);
}

ZEND_METHOD(Fermata_Request, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_Request, method)
{
	ZEND_PARSE_PARAMETERS_NONE();
	FmStr method = THIS_REQUEST()->event.method;
	for (size_t i = 0; i < sizeof(fermata_known.method) / sizeof(fermata_known.method[0]); i++) {
		if (zend_string_equals_cstr(fermata_known.method[i], method.ptr, method.len)) {
			RETURN_STR(fermata_known.method[i]);
		}
	}
	return_str(return_value, method);
}

ZEND_METHOD(Fermata_Request, path)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_str(return_value, THIS_REQUEST()->event.path);
}

ZEND_METHOD(Fermata_Request, target)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_str(return_value, THIS_REQUEST()->event.target);
}

ZEND_METHOD(Fermata_Request, queryString)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_str(return_value, THIS_REQUEST()->event.query);
}

ZEND_METHOD(Fermata_Request, query)
{
	return_one(INTERNAL_FUNCTION_PARAM_PASSTHRU, queries);
}

ZEND_METHOD(Fermata_Request, queries)
{
	return_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, queries);
}

ZEND_METHOD(Fermata_Request, header)
{
	zend_string *name, *fallback = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(name)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(fallback)
	ZEND_PARSE_PARAMETERS_END();

	char small[HEADER_NAME_BYTES_STACK];
	size_t len = ZSTR_LEN(name);
	char *lower = len < sizeof(small) ? small : emalloc(len + 1);
	zend_str_tolower_copy(lower, ZSTR_VAL(name), len);
	zend_string *value = header_joined(THIS_REQUEST(), (FmStr){lower, len});
	if (lower != small) {
		efree(lower);
	}
	if (value) {
		RETURN_STR(value);
	}
	if (fallback) {
		RETURN_STR_COPY(fallback);
	}
	RETURN_NULL();
}

ZEND_METHOD(Fermata_Request, headers)
{
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_request *request = THIS_REQUEST();
	FmStr name, value;
	array_init(return_value);
	for (size_t i = 0; header_at(request, i, &name, &value); i++) {
		zend_string *key = zend_string_init(name.ptr, name.len, 0);
		zend_str_tolower(ZSTR_VAL(key), ZSTR_LEN(key));
		zval *list = zend_symtable_find(Z_ARR_P(return_value), key);
		if (!list) {
			zval fresh;
			array_init(&fresh);
			list = zend_symtable_update(Z_ARR_P(return_value), key, &fresh);
		}
		add_next_index_stringl(list, value.ptr, value.len);
		zend_string_release(key);
	}
}

static ZEND_COLD void throw_unknown_route_name(const fermata_request *request, const zend_string *name)
{
	FmStr known, value;
	if (!route_at(request, 0, &known, &value)) {
		fermata_misuse("the route has no parameter {%s}; its pattern has none at all", ZSTR_VAL(name));
		return;
	}
	zend_string *first = zend_string_init(known.ptr, known.len, false);
	fermata_misuse("the route has no parameter {%s}; the first it has is {%s}", ZSTR_VAL(name), ZSTR_VAL(first));
	zend_string_release(first);
}

ZEND_METHOD(Fermata_Request, route)
{
	zend_string *name;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(name)
	ZEND_PARSE_PARAMETERS_END();
	fermata_request *request = THIS_REQUEST();
	FmStr known, value;
	if (EXPECTED(request->worker)) {
		if (EXPECTED(fm_request_route(request->worker, request->event.request, fermata_str(name), &value))) {
			return_str(return_value, value);
			return;
		}
	} else {
		for (size_t i = 0; route_at(request, i, &known, &value); i++) {
			if (zend_string_equals_cstr(name, known.ptr, known.len)) {
				return_str(return_value, value);
				return;
			}
		}
	}
	throw_unknown_route_name(request, name);
}

ZEND_METHOD(Fermata_Request, body)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_STR_COPY(body_string(THIS_REQUEST()));
}

ZEND_METHOD(Fermata_Request, json)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_string *body = body_string(THIS_REQUEST());
	if (UNEXPECTED(!ZSTR_LEN(body))) {
		zend_throw_exception(fermata_ce_bad_request, "the request body is empty where JSON is expected", 0);
		RETURN_THROWS();
	}
	if (UNEXPECTED(!fermata_json_decode(return_value, body))) {
		zval_ptr_dtor(return_value);
		ZVAL_NULL(return_value);
		/* The pending JsonException becomes the previous one and says what is wrong. */
		zend_throw_exception(fermata_ce_bad_request, "the request body is not valid JSON", 0);
	}
}

ZEND_METHOD(Fermata_Request, form)
{
	return_one(INTERNAL_FUNCTION_PARAM_PASSTHRU, forms);
}

ZEND_METHOD(Fermata_Request, forms)
{
	return_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, forms);
}

ZEND_METHOD(Fermata_Request, cookie)
{
	return_one(INTERNAL_FUNCTION_PARAM_PASSTHRU, cookies);
}

ZEND_METHOD(Fermata_Request, cookies)
{
	return_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, cookies);
}

ZEND_METHOD(Fermata_Request, lastEventId)
{
	ZEND_PARSE_PARAMETERS_NONE();
	FmStr id;
	if (!header_nth(THIS_REQUEST(), FERMATA_LITERAL("last-event-id"), 0, &id) || !id.len) {
		RETURN_NULL();
	}
	RETURN_STRINGL(id.ptr, id.len);
}

ZEND_METHOD(Fermata_Request, remoteAddress)
{
	uint16_t port;
	ZEND_PARSE_PARAMETERS_NONE();
	return_str(return_value, remote(THIS_REQUEST(), &port));
}

ZEND_METHOD(Fermata_Request, remotePort)
{
	uint16_t port;
	ZEND_PARSE_PARAMETERS_NONE();
	remote(THIS_REQUEST(), &port);
	RETURN_LONG(port);
}
