/* Methods of Fermata\Request. Each method creates its result when it is called. Parsed arrays are cached until the request
 * ends. */
#include "http/http.h"
#include "base/collisions.h"
#include "state/quiet.h"
#include "SAPI.h"
#include "main/php_variables.h"
#include "zend_exceptions.h"

/* Size of the stack buffer for a header name in lower case. Longer names are converted on the heap. */
#define HEADER_NAME_BYTES_STACK 64

#define READ_BYTES_DEFAULT 65536

/* Collisions are not counted in a shorter form or query, which can only have few. */
#define UNCOUNTED_BYTES_MAX 1024

#define THIS_REQUEST() FERMATA_FROM(fermata_request, Z_OBJ_P(ZEND_THIS))

/* Values */

/* Opens the body's temporary file. Returns NULL with an exception pending. */
static php_stream *body_file(const zend_string *path)
{
	php_stream *stream = php_stream_open_wrapper(ZSTR_VAL(path), "rb", IGNORE_URL | STREAM_DISABLE_OPEN_BASEDIR, NULL);
	if (!stream) {
		fermata_upload_failed("the body's temporary file cannot be read", path);
	}
	return stream;
}

/* Reads a body that the core stored in a file. Returns NULL with an exception pending. */
static zend_string *body_from_file(const zend_string *path)
{
	php_stream *stream = body_file(path);
	if (!stream) {
		return NULL;
	}
	zend_string *body = php_stream_copy_to_mem(stream, PHP_STREAM_COPY_ALL, false);
	php_stream_close(stream);
	return body ? body : ZSTR_EMPTY_ALLOC();
}

/* Returns the body; NULL with an exception pending. */
static zend_string *body_string(fermata_request *request)
{
	if (!request->body && fermata_request_arrives(request)) {
		request->body = fermata_body_read_all(request);
	} else if (!request->body) {
		zend_string *path = UNEXPECTED(request->event.upload) ? fermata_uploads_body_path(request->event.upload) : NULL;
		FmStr body = request->event.body;
		if (UNEXPECTED(path)) {
			request->body = body_from_file(path);
			zend_string_release(path);
		} else {
			request->body = body.len ? zend_string_init(body.ptr, body.len, 0) : ZSTR_EMPTY_ALLOC();
		}
	}
	return request->body;
}

/* Returns all lines of a header, joined; NULL if the request has none. */
static zend_string *header_joined(const fermata_request *request, FmStr name)
{
	FmStr value;
	if (!fermata_request_header(request, name, 0, &value)) {
		return NULL;
	}
	zend_string *joined = zend_string_init_fast(value.ptr, value.len);
	/* Cookie lines are joined with a semicolon (RFC 9113, section 8.2.3), since cookie values may contain commas. */
	char separator = name.len == 6 && memcmp(name.ptr, "cookie", 6) == 0 ? ';' : ',';
	for (size_t nth = 1; fermata_request_header(request, name, nth, &value); nth++) {
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

/* State of the running parse, for the input filter, to which PHP passes no context. No application code runs during the parse. */
typedef struct counted {
	fermata_collisions collisions;
	zend_array *variables;
	unsigned int (*filter)(int arg, const char *name, char **value, size_t value_len, size_t *new_len);
} counted;
static counted *counting;

/* Input filter that PHP calls before it registers a variable. Skips all variables after the limit. */
static unsigned int filter_counted(int arg, const char *name, char **value, size_t value_len, size_t *new_len)
{
	counted *it = counting;
	if (UNEXPECTED(it->collisions.is_over || !fermata_collisions_allow_variable(&it->collisions, it->variables, name))) {
		return 0;
	}
	return it->filter(arg, name, value, value_len, new_len);
}

static void parse_counted(char *text, zval *array)
{
	counted it = {.variables = Z_ARR_P(array), .filter = sapi_module.input_filter};
	bool is_fatal = false;
	fermata_collisions_begin(&it.collisions);
	fermata_quiet_begin();
	counting = &it;
	sapi_module.input_filter = filter_counted;
	zend_try {
		sapi_module.treat_data(PARSE_STRING, text, array);
	} zend_catch {
		is_fatal = true;
	} zend_end_try();
	sapi_module.input_filter = it.filter;
	counting = NULL;
	if (UNEXPECTED(is_fatal)) {
		zend_bailout();
	}
	/* Raises PHP's warning about max_input_vars, if PHP has issued one. */
	fermata_quiet_end();
	if (UNEXPECTED(it.collisions.is_over && !EG(exception))) {
		fermata_collisions_refuse("there are too many");
	}
}

/* Parses like parse_str(), with max_input_vars and nested names. After too many colliding names, an exception is pending. */
static zend_array *parse_variables(FmStr text)
{
	zval array;
	if (EXPECTED(!text.len)) {
		return (zend_array *)&zend_empty_array;
	}
	array_init(&array);
	if (text.len > UNCOUNTED_BYTES_MAX) {
		parse_counted(estrndup(text.ptr, text.len), &array);
	} else {
		sapi_module.treat_data(PARSE_STRING, estrndup(text.ptr, text.len), &array);
	}
	return Z_ARR(array);
}

/* Caches a parsed array. An array that was rejected is not cached, so the next call rejects it as well. If an error handler or
 * another task has cached an array in the meantime, returns that array. */
static zend_array *keep(zend_array **kept, zend_array *parsed_now)
{
	if (UNEXPECTED(EG(exception) || *kept)) {
		zend_array_release(parsed_now);
		return EG(exception) ? (zend_array *)&zend_empty_array : *kept;
	}
	return *kept = parsed_now;
}

zend_array *fermata_request_queries(fermata_request *request)
{
	return request->queries ? request->queries : keep(&request->queries, parse_variables(request->event.query));
}

static bool is_form(const fermata_request *request)
{
	static const char form[] = "application/x-www-form-urlencoded";
	FmStr type;
	size_t len = sizeof(form) - 1;
	if (!fermata_request_header(request, FERMATA_LITERAL("content-type"), 0, &type) || type.len < len) {
		return false;
	}
	return zend_binary_strcasecmp(type.ptr, len, form, len) == 0
		&& (type.len == len || type.ptr[len] == ';' || type.ptr[len] == ' ' || type.ptr[len] == '\t');
}

/* Returns the body of a urlencoded form; a large body is read from its file. Returns an empty string with an exception pending. */
static FmStr form_text(fermata_request *request)
{
	if (EXPECTED(!request->event.upload)) {
		return request->event.body;
	}
	zend_string *body = body_string(request);
	return body ? fermata_str(body) : FERMATA_LITERAL("");
}

zend_array *fermata_request_forms(fermata_request *request)
{
	if (request->forms) {
		return request->forms;
	}
	if (is_form(request)) {
		return keep(&request->forms, parse_variables(form_text(request)));
	}
	return keep(&request->forms, request->event.upload ? fermata_uploads_fields(request->event.upload) : (zend_array *)&zend_empty_array);
}

static zend_array *files(fermata_request *request)
{
	if (!request->files) {
		return keep(&request->files, request->event.upload ? fermata_uploads_files(request->event.upload) : zend_new_array(0));
	}
	return request->files;
}

zend_array *fermata_request_cookies(fermata_request *request)
{
	FmStr line;
	if (request->cookies) {
		return request->cookies;
	}
	if (EXPECTED(!fermata_request_header(request, FERMATA_LITERAL("cookie"), 0, &line))) {
		return request->cookies = (zend_array *)&zend_empty_array;
	}
	request->cookies = zend_new_array(0);
	for (size_t nth = 0; fermata_request_header(request, FERMATA_LITERAL("cookie"), nth, &line); nth++) {
		fermata_cookies_parse(request->cookies, line);
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
	if (UNEXPECTED(EG(exception))) {
		RETURN_THROWS();
	}
	if (zend_hash_num_elements(array) == 0) {
		RETURN_EMPTY_ARRAY();
	}
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
	return_one(INTERNAL_FUNCTION_PARAM_PASSTHRU, fermata_request_queries);
}

ZEND_METHOD(Fermata_Request, queries)
{
	return_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, fermata_request_queries);
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
	for (size_t i = 0; fermata_request_header_at(request, i, &name, &value); i++) {
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
	if (!fermata_request_route_at(request, 0, &known, &value)) {
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
		for (size_t i = 0; fermata_request_route_at(request, i, &known, &value); i++) {
			if (zend_string_equals_cstr(name, known.ptr, known.len)) {
				return_str(return_value, value);
				return;
			}
		}
	}
	throw_unknown_route_name(request, name);
}

ZEND_METHOD(Fermata_Request, hasBody)
{
	ZEND_PARSE_PARAMETERS_NONE();
	const FmEvent *event = &THIS_REQUEST()->event;
	RETURN_BOOL(event->body.len || event->upload);
}

ZEND_METHOD(Fermata_Request, body)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_string *body = body_string(THIS_REQUEST());
	if (UNEXPECTED(!body)) {
		RETURN_THROWS();
	}
	RETURN_STR_COPY(body);
}

/* Returns the next bytes of a body in a file. Returns an empty string at its end, NULL with an exception pending. */
static zend_string *piece_of_file(fermata_request *request, const zend_string *path, size_t bytes_max)
{
	php_stream *stream = body_file(path);
	if (!stream) {
		return NULL;
	}
	zend_string *piece = NULL;
	if (php_stream_seek(stream, (zend_off_t)request->body_read, SEEK_SET) == 0) {
		piece = php_stream_read_to_str(stream, bytes_max);
	}
	php_stream_close(stream);
	if (!piece) {
		fermata_upload_failed("the body's temporary file cannot be read", path);
		return NULL;
	}
	request->body_read += ZSTR_LEN(piece);
	return piece;
}

/* Returns the next bytes of any body. Returns an empty string at its end, NULL with an exception pending. */
static zend_string *read_piece(fermata_request *request, size_t bytes_max)
{
	if (fermata_request_arrives(request) && !request->body) {
		return fermata_body_read(request, bytes_max);
	}
	zend_string *path = request->event.upload && !request->body ? fermata_uploads_body_path(request->event.upload) : NULL;
	if (path) {
		zend_string *piece = piece_of_file(request, path, bytes_max);
		zend_string_release(path);
		return piece;
	}
	zend_string *body = body_string(request);
	if (!body) {
		return NULL;
	}
	size_t at = MIN(request->body_read, ZSTR_LEN(body)), len = MIN(ZSTR_LEN(body) - at, bytes_max);
	request->body_read = at + len;
	return zend_string_init_fast(ZSTR_VAL(body) + at, len);
}

ZEND_METHOD(Fermata_Request, read)
{
	zend_long bytes_max = READ_BYTES_DEFAULT;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(bytes_max)
	ZEND_PARSE_PARAMETERS_END();
	if (bytes_max < 1) {
		fermata_misuse("read() needs room for one byte at least, not " ZEND_LONG_FMT, bytes_max);
		RETURN_THROWS();
	}
	zend_string *piece = read_piece(THIS_REQUEST(), (size_t)bytes_max);
	if (!piece) {
		RETURN_THROWS();
	}
	if (ZSTR_LEN(piece)) {
		RETURN_STR(piece);
	}
	zend_string_release(piece);
}

/* Returns a PHP stream of the body; NULL with an exception pending. */
php_stream *fermata_request_body_stream(fermata_request *request)
{
	if (fermata_request_arrives(request) && !request->body) {
		return fermata_body_stream(request);
	}
	zend_string *path = request->event.upload ? fermata_uploads_body_path(request->event.upload) : NULL;
	if (!path) {
		return php_stream_memory_open(TEMP_STREAM_READONLY, body_string(request));
	}
	php_stream *stream = body_file(path);
	zend_string_release(path);
	return stream;
}

ZEND_METHOD(Fermata_Request, bodyStream)
{
	ZEND_PARSE_PARAMETERS_NONE();
	php_stream *stream = fermata_request_body_stream(THIS_REQUEST());
	if (!stream) {
		RETURN_THROWS();
	}
	php_stream_to_zval(stream, return_value);
}

ZEND_METHOD(Fermata_Request, file)
{
	zend_string *name;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(name)
	ZEND_PARSE_PARAMETERS_END();
	zval *found = zend_symtable_find(files(THIS_REQUEST()), name);
	if (!found || Z_TYPE_P(found) != IS_OBJECT) {
		RETURN_NULL();
	}
	RETURN_COPY(found);
}

ZEND_METHOD(Fermata_Request, files)
{
	return_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, files);
}

ZEND_METHOD(Fermata_Request, json)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_string *body = body_string(THIS_REQUEST());
	if (UNEXPECTED(!body)) {
		RETURN_THROWS();
	}
	if (UNEXPECTED(!ZSTR_LEN(body))) {
		zend_throw_exception(fermata_ce_bad_request, "the request body is empty where JSON is expected", 0);
		RETURN_THROWS();
	}
	if (UNEXPECTED(!fermata_json_decode(return_value, body))) {
		zval_ptr_dtor(return_value);
		ZVAL_NULL(return_value);
		/* PHP makes the pending JsonException the previous exception. */
		if (EG(exception)->ce != fermata_ce_bad_request) {
			zend_throw_exception(fermata_ce_bad_request, "the request body is not valid JSON", 0);
		}
	}
}

ZEND_METHOD(Fermata_Request, form)
{
	return_one(INTERNAL_FUNCTION_PARAM_PASSTHRU, fermata_request_forms);
}

ZEND_METHOD(Fermata_Request, forms)
{
	return_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, fermata_request_forms);
}

ZEND_METHOD(Fermata_Request, cookie)
{
	return_one(INTERNAL_FUNCTION_PARAM_PASSTHRU, fermata_request_cookies);
}

ZEND_METHOD(Fermata_Request, cookies)
{
	return_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, fermata_request_cookies);
}

static bool add_hint(void *hints, zend_string *name, zend_string *value)
{
	if (!fermata_header_check(name, value)) {
		return false;
	}
	fermata_headers_add((fermata_headers **)hints, name, value);
	return true;
}

ZEND_METHOD(Fermata_Request, earlyHints)
{
	zend_array *given;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_ARRAY_HT(given)
	ZEND_PARSE_PARAMETERS_END();
	fermata_request *request = THIS_REQUEST();
	fermata_headers *hints = NULL;
	bool has_sent = false;
	if (fermata_headers_given("the hints", given, add_hint, &hints) && hints) {
		FmHeader *lines = safe_emalloc(hints->len, sizeof(FmHeader), 0);
		fermata_headers_fill(hints, lines);
		FmResponse out = {.headers = lines, .headers_len = hints->len};
		has_sent = fm_early_hints(fermata.worker, request->event.request, &out, &has_sent) == FM_OK && has_sent;
		efree(lines);
	}
	fermata_headers_free(hints);
	RETURN_BOOL(has_sent);
}

ZEND_METHOD(Fermata_Request, withAttribute)
{
	zend_string *name;
	zval *value;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(name)
		Z_PARAM_ZVAL(value)
	ZEND_PARSE_PARAMETERS_END();
	fermata_request *request = THIS_REQUEST();
	if (Z_ISUNDEF(request->attributes)) {
		array_init(&request->attributes);
	}
	SEPARATE_ARRAY(&request->attributes);
	/* The destructor of the old value may call this method again. */
	zval *found = zend_symtable_find(Z_ARRVAL(request->attributes), name), old;
	ZVAL_UNDEF(&old);
	Z_TRY_ADDREF_P(value);
	if (found) {
		ZVAL_COPY_VALUE(&old, found);
		ZVAL_COPY_VALUE(found, value);
	} else {
		zend_symtable_update(Z_ARRVAL(request->attributes), name, value);
	}
	RETVAL_OBJ_COPY(&request->std);
	zval_ptr_dtor(&old);
}

ZEND_METHOD(Fermata_Request, attribute)
{
	zend_string *name;
	zval *fallback = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(name)
		Z_PARAM_OPTIONAL
		Z_PARAM_ZVAL(fallback)
	ZEND_PARSE_PARAMETERS_END();
	const fermata_request *request = THIS_REQUEST();
	zval *found = Z_ISUNDEF(request->attributes) ? NULL : zend_symtable_find(Z_ARRVAL(request->attributes), name);
	if (found || fallback) {
		RETURN_COPY_DEREF(found ? found : fallback);
	}
	RETURN_NULL();
}

ZEND_METHOD(Fermata_Request, attributes)
{
	ZEND_PARSE_PARAMETERS_NONE();
	const fermata_request *request = THIS_REQUEST();
	if (Z_ISUNDEF(request->attributes)) {
		RETURN_EMPTY_ARRAY();
	}
	RETURN_COPY(&request->attributes);
}

ZEND_METHOD(Fermata_Request, lastEventId)
{
	ZEND_PARSE_PARAMETERS_NONE();
	FmStr id;
	if (!fermata_request_header(THIS_REQUEST(), FERMATA_LITERAL("last-event-id"), 0, &id) || !id.len) {
		RETURN_NULL();
	}
	RETURN_STRINGL(id.ptr, id.len);
}

ZEND_METHOD(Fermata_Request, remoteAddress)
{
	uint16_t port;
	ZEND_PARSE_PARAMETERS_NONE();
	return_str(return_value, fermata_request_remote(THIS_REQUEST(), &port));
}

ZEND_METHOD(Fermata_Request, remotePort)
{
	uint16_t port;
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_request_remote(THIS_REQUEST(), &port);
	RETURN_LONG(port);
}

ZEND_METHOD(Fermata_Request, host)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_str(return_value, fermata_request_host(THIS_REQUEST()));
}

ZEND_METHOD(Fermata_Request, scheme)
{
	FmStr subject, pem;
	ZEND_PARSE_PARAMETERS_NONE();
	if (fermata_request_tls(THIS_REQUEST(), &subject, &pem)) {
		RETURN_STRINGL("https", 5);
	}
	RETURN_STRINGL("http", 4);
}

ZEND_METHOD(Fermata_Request, clientCertificate)
{
	FmStr subject, pem;
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_request_tls(THIS_REQUEST(), &subject, &pem);
	if (!subject.ptr) {
		RETURN_NULL();
	}
	object_init_ex(return_value, fermata_ce_client_certificate);
	ZVAL_STRINGL(OBJ_PROP_NUM(Z_OBJ_P(return_value), 0), subject.ptr, subject.len);
	ZVAL_STRINGL(OBJ_PROP_NUM(Z_OBJ_P(return_value), 1), pem.ptr, pem.len);
}

ZEND_METHOD(Fermata_Request, trace)
{
	FmStr value, other;
	FmTraceParent parent;
	ZEND_PARSE_PARAMETERS_NONE();
	const fermata_request *request = THIS_REQUEST();
	FmStr name = FERMATA_LITERAL("traceparent");
	bool has_parent = fermata_request_header(request, name, 0, &value) && !fermata_request_header(request, name, 1, &other)
		&& fm_trace_parent(value, &parent);
	zend_string *state = has_parent ? header_joined(request, FERMATA_LITERAL("tracestate")) : NULL;
	/* The parent is the request's span if the server records it, else the client's span. */
	FmSpan span;
	uint32_t recorded = fm_request_span(fermata.worker, request->event.request, &span);
	if (recorded == FM_SPAN_RECORDED) {
		parent = (FmTraceParent){
			.trace_id = {.ptr = (const char *)span.trace_id, .len = sizeof(span.trace_id)},
			.parent_id = {.ptr = (const char *)span.id, .len = sizeof(span.id)},
			.is_sampled = true,
		};
	} else if (!has_parent) {
		RETURN_NULL();
	} else if (recorded == FM_SPAN_LEFT_OUT) {
		/* The server decides about sampling: the setting otlp_sampler may ignore the client's flag. */
		parent.is_sampled = false;
	}
	object_init_ex(return_value, fermata_ce_trace);
	zend_object *trace = Z_OBJ_P(return_value);
	ZVAL_STRINGL(OBJ_PROP_NUM(trace, 0), parent.trace_id.ptr, parent.trace_id.len);
	ZVAL_STRINGL(OBJ_PROP_NUM(trace, 1), parent.parent_id.ptr, parent.parent_id.len);
	ZVAL_BOOL(OBJ_PROP_NUM(trace, 2), parent.is_sampled);
	ZVAL_STR(OBJ_PROP_NUM(trace, 3), state ? state : ZSTR_EMPTY_ALLOC());
}

/* Private in the stub, since Request::trace() creates the objects. */
ZEND_METHOD(Fermata_Trace, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}
