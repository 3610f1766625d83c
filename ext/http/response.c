/* Fermata\Response: an immutable response. */
#include "http/http.h"
#include "state/sapi_output.h"
#include "SAPI.h"
#include "zend_enum.h"
#include "zend_smart_str.h"

#define STATUS_MIN 200
#define STATUS_MAX 599
#define STATUS_NOT_MODIFIED 304
#define REASON_BYTES_MAX 256

static zend_object_handlers response_handlers;

#define THIS_RESPONSE() FERMATA_FROM(fermata_response, Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *response_create(zend_class_entry *ce)
{
	fermata_response *response = zend_object_alloc(sizeof(fermata_response), ce);
	response->status = STATUS_MIN;
	response->reason = NULL;
	response->content_type = NULL;
	response->body = NULL;
	response->headers = NULL;
	response->source = NULL;
	zend_object_std_init(&response->std, ce);
	response->std.handlers = &response_handlers;
	return &response->std;
}

static void response_free(zend_object *object)
{
	fermata_response *response = FERMATA_FROM(fermata_response, object);
	if (response->reason) {
		zend_string_release(response->reason);
	}
	if (response->content_type) {
		zend_string_release(response->content_type);
	}
	if (response->body) {
		zend_string_release(response->body);
	}
	fermata_headers_free(response->headers);
	fermata_source_free(response->source);
	zend_object_std_dtor(object);
}

static zend_object *response_clone(zend_object *object)
{
	fermata_response *from = FERMATA_FROM(fermata_response, object);
	fermata_response *to = FERMATA_FROM(fermata_response, response_create(object->ce));
	to->status = from->status;
	to->reason = from->reason ? zend_string_copy(from->reason) : NULL;
	to->content_type = from->content_type ? zend_string_copy(from->content_type) : NULL;
	to->body = from->body ? zend_string_copy(from->body) : NULL;
	to->headers = fermata_headers_copy(from->headers);
	to->source = fermata_source_copy(from->source);
	return &to->std;
}

/* The body of a stream often refers to the object that created it. */
static HashTable *response_get_gc(zend_object *object, zval **table, int *len)
{
	fermata_response *response = FERMATA_FROM(fermata_response, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	if (response->source) {
		zend_get_gc_buffer_add_zval(buffer, &response->source->value);
	}
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

void fermata_response_init(void)
{
	fermata_ce_response->create_object = response_create;
	memcpy(&response_handlers, zend_get_std_object_handlers(), sizeof(response_handlers));
	response_handlers.offset = XtOffsetOf(fermata_response, std);
	response_handlers.free_obj = response_free;
	response_handlers.clone_obj = response_clone;
	response_handlers.get_gc = response_get_gc;
	response_handlers.compare = zend_objects_not_comparable;
}

/* Building */

static bool status_check(zend_long status)
{
	if (UNEXPECTED(status < STATUS_MIN || status > STATUS_MAX)) {
		fermata_misuse("the status must be %d to %d, not " ZEND_LONG_FMT, STATUS_MIN, STATUS_MAX, status);
		return false;
	}
	return true;
}

/* Creates a response of the server itself. Takes ownership of the text; NULL = empty body. */
fermata_response *fermata_response_plain(uint32_t status, zend_string *text)
{
	fermata_response *response = FERMATA_FROM(fermata_response, response_create(fermata_ce_response));
	response->status = status;
	response->body = text ? text : ZSTR_EMPTY_ALLOC();
	response->content_type = text ? fermata_known.type_text : NULL;
	return response;
}

static bool is_content_type(const zend_string *name)
{
	return zend_string_equals_ci(name, fermata_known.content_type);
}

/* Content-Type has a separate field because nearly every response has one. */
static void add_checked_header(fermata_response *response, zend_string *name, zend_string *value)
{
	if (is_content_type(name)) {
		if (response->content_type) {
			zend_string_release(response->content_type);
		}
		response->content_type = zend_string_copy(value);
	} else {
		fermata_headers_add(&response->headers, name, value);
	}
}

/* Adds a header line. Returns false with a MisuseError pending. */
static bool add_header(fermata_response *response, zend_string *name, zend_string *value)
{
	if (!fermata_header_check(name, value)) {
		return false;
	}
	add_checked_header(response, name, value);
	return true;
}

/* Adds a header line that PHP code passed to header(). Skips malformed lines, and headers that the server sets itself, such as
 * Content-Length. */
static void add_sent_header(fermata_response *response, zend_string *name, zend_string *value)
{
	if (!fm_header_reserved(fermata_str(name)) && fm_header_valid(fermata_str(name), fermata_str(value))) {
		add_checked_header(response, name, value);
	}
}

static bool is_among(const fermata_headers *headers, uint32_t len, const zend_string *name)
{
	for (uint32_t i = 0; i < len; i++) {
		if (zend_string_equals_ci(headers->at[i].name, name)) {
			return true;
		}
	}
	return false;
}

/* Returns PHP's default Content-Type; NULL if default_mimetype is empty. */
static zend_string *default_type(void)
{
	const char *type = SG(default_mimetype), *charset = SG(default_charset);
	bool is_usual = (!type || strcmp(type, SAPI_DEFAULT_MIMETYPE) == 0) && (!charset || strcmp(charset, SAPI_DEFAULT_CHARSET) == 0);
	if (EXPECTED(is_usual)) {
		return zend_string_copy(fermata_known.type_page);
	}
	char *given = sapi_get_default_content_type();
	size_t len = strlen(given);
	zend_string *value = len && fm_header_valid(FERMATA_LITERAL("content-type"), (FmStr){given, len}) ? zend_string_init(given, len, false) : NULL;
	efree(given);
	return value;
}

static void drop_type(fermata_response *response)
{
	zend_string_release(response->content_type);
	response->content_type = NULL;
}

static bool is_status(const sapi_header_struct *line)
{
	static const char name[] = "Status:";
	return line->header_len >= sizeof(name) && strncasecmp(line->header, name, sizeof(name) - 1) == 0;
}

/* Adds the lines that the handler passed to header() and related functions. Skips headers that the response already contains,
 * except Set-Cookie. */
static void relay_sent(fermata_response *response)
{
	uint32_t given_len = response->headers ? response->headers->len : 0;
	bool has_type = response->content_type;
	for (const zend_llist_element *element = SG(sapi_headers).headers.head; element; element = element->next) {
		const sapi_header_struct *line = (const sapi_header_struct *)element->data;
		const char *end = line->header + line->header_len, *colon = memchr(line->header, ':', line->header_len);
		if (UNEXPECTED(is_status(line))) {
			continue;
		}
		colon = colon ? colon : end;
		const char *from = MIN(colon + 1, end);
		while (from < end && (*from == ' ' || *from == '\t')) {
			from++;
		}
		zend_string *name = zend_string_init(line->header, (size_t)(colon - line->header), false);
		zend_string *value = zend_string_init(from, (size_t)(end - from), false);
		bool is_given = is_content_type(name) ? has_type
			: !zend_string_equals_ci(name, fermata_known.set_cookie) && is_among(response->headers, given_len, name);
		if (!is_given) {
			add_sent_header(response, name, value);
		}
		zend_string_release(name);
		zend_string_release(value);
	}
	/* An empty `Content-Type:` suppresses the header. */
	if (UNEXPECTED(!has_type && response->content_type && !ZSTR_LEN(response->content_type))) {
		drop_type(response);
	}
}

/* Sets the status and reason phrase from a text such as `404 Not Found`. Returns false if the status is invalid. */
static bool set_status(fermata_response *response, const char *text, const char *end)
{
	zend_long status = 0;
	while (text < end && *text == ' ') {
		text++;
	}
	while (text < end && *text >= '0' && *text <= '9' && status <= STATUS_MAX) {
		status = status * 10 + (*text++ - '0');
	}
	if (status < STATUS_MIN || status > STATUS_MAX) {
		return false;
	}
	response->status = (uint32_t)status;
	while (text < end && *text == ' ') {
		text++;
	}
	FmStr reason = {text, (size_t)(end - text)};
	if (reason.len && reason.len <= REASON_BYTES_MAX && fm_header_valid(FERMATA_LITERAL("Reason"), reason)) {
		response->reason = zend_string_init(reason.ptr, reason.len, false);
	}
	return true;
}

/* Sets the status as PHP-FPM does: from a status line of header(), a `Status` header, or http_response_code(). */
static void set_sent_status(fermata_response *response)
{
	const char *line = SG(sapi_headers).http_status_line, *space = line ? strchr(line, ' ') : NULL;
	int code = SG(sapi_headers).http_response_code;
	bool is_sendable = code >= STATUS_MIN && code <= STATUS_MAX;
	if (UNEXPECTED(code && !is_sendable)) {
		fermata_warn_once("the status that the program has set is not from 200 to 599; the response has 200");
	}
	response->status = is_sendable ? (uint32_t)code : STATUS_MIN;
	if (UNEXPECTED(space && code != STATUS_MIN && set_status(response, space, line + strlen(line)))) {
		return;
	}
	for (const zend_llist_element *element = SG(sapi_headers).headers.head; element; element = element->next) {
		const sapi_header_struct *header = (const sapi_header_struct *)element->data;
		if (UNEXPECTED(is_status(header))) {
			set_status(response, header->header + sizeof("Status:") - 1, header->header + header->header_len);
			return;
		}
	}
}

/* Sets a missing Content-Type. Removes it from a 304 response, as PHP-FPM does (RFC 9110, section 15.4.5). */
static void set_default_type(fermata_response *response, bool is_page)
{
	if (UNEXPECTED(response->status == STATUS_NOT_MODIFIED)) {
		if (response->content_type) {
			drop_type(response);
		}
	} else if (!response->content_type && is_page) {
		response->content_type = default_type();
	}
}

static ZEND_COLD bool call_header_callback(void)
{
	zval callback, result;
	ZVAL_COPY_VALUE(&callback, &SG(callback_func));
	ZVAL_UNDEF(&SG(callback_func));
	ZVAL_UNDEF(&result);
	if (SG(sapi_headers).send_default_content_type) {
		/* The callback may change or remove the default Content-Type. */
		char *type = sapi_get_default_content_type();
		smart_str line = {0};
		smart_str_appends(&line, "Content-type: ");
		smart_str_appends(&line, type);
		smart_str_0(&line);
		if (*type) {
			sapi_add_header_ex(ZSTR_VAL(line.s), ZSTR_LEN(line.s), true, false);
		}
		SG(sapi_headers).send_default_content_type = false;
		smart_str_free(&line);
		efree(type);
	}
	call_user_function(NULL, NULL, &callback, &result, 0, NULL);
	zval_ptr_dtor(&result);
	zval_ptr_dtor(&callback);
	return !EG(exception);
}

bool fermata_headers_leave(void)
{
	return EXPECTED(Z_ISUNDEF(SG(callback_func))) || !fermata_has_globals() || call_header_callback();
}

/* Creates a response from the calls of header(), http_response_code() and setcookie(). Takes ownership of the body. */
fermata_response *fermata_response_sent(zend_string *body)
{
	fermata_response *response = FERMATA_FROM(fermata_response, response_create(fermata_ce_response));
	response->body = body;
	set_sent_status(response);
	relay_sent(response);
	set_default_type(response, SG(sapi_headers).send_default_content_type);
	return response;
}

/* A cleared response for reuse; NULL = none. Creating and destroying one object takes as much time as setting the fields of
 * ten. */
static fermata_response *spare;

/* Clears the object and stores it for reuse if there is no other reference to it. Takes ownership of a reference. */
void fermata_response_recycle(zend_object *object)
{
	fermata_response *response = FERMATA_FROM(fermata_response, object);
	bool is_plain = GC_REFCOUNT(object) == 1 && !(OBJ_FLAGS(object) & IS_OBJ_WEAKLY_REFERENCED) && !GC_INFO(object)
		&& !object->properties && !response->source && !response->reason;
	if (UNEXPECTED(!is_plain || spare)) {
		OBJ_RELEASE(object);
		return;
	}
	if (response->headers) {
		fermata_headers_free(response->headers);
		response->headers = NULL;
	}
	if (EXPECTED(response->content_type)) {
		zend_string_release(response->content_type);
		response->content_type = NULL;
	}
	if (EXPECTED(response->body)) {
		zend_string_release(response->body);
		response->body = NULL;
	}
	spare = response;
}

static void on_release(void)
{
	if (spare) {
		fermata_response *response = spare;
		spare = NULL;
		OBJ_RELEASE(&response->std);
	}
}

static fermata_part part = {.on_release = on_release};

void fermata_response_init_part(void)
{
	fermata_part_register(&part);
}

/* Takes ownership of the references to `body` and `content_type`. */
static void return_response(zval *return_value, zend_long status, zend_string *body, zend_string *content_type)
{
	fermata_response *response = spare;
	if (EXPECTED(response)) {
		spare = NULL;
	} else {
		response = FERMATA_FROM(fermata_response, response_create(fermata_ce_response));
	}
	response->status = (uint32_t)status;
	response->body = body;
	response->content_type = content_type;
	ZVAL_OBJ(return_value, &response->std);
}

static bool add_given_header(void *response, zend_string *name, zend_string *value)
{
	return add_header(response, name, value);
}

ZEND_METHOD(Fermata_Response, __construct)
{
	zend_long status = STATUS_MIN;
	zend_string *body = NULL;
	zend_array *headers = NULL;
	ZEND_PARSE_PARAMETERS_START(0, 3)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
		Z_PARAM_STR(body)
		Z_PARAM_ARRAY_HT(headers)
	ZEND_PARSE_PARAMETERS_END();

	fermata_response *response = THIS_RESPONSE();
	if (UNEXPECTED(response->body) && !fermata_constructed_twice()) {
		RETURN_THROWS();
	}
	if (!status_check(status)) {
		RETURN_THROWS();
	}
	response->status = (uint32_t)status;
	response->body = body ? zend_string_copy(body) : ZSTR_EMPTY_ALLOC();
	if (headers && !fermata_headers_given("Fermata\\Response::__construct(): Argument #3 ($headers)", headers, add_given_header, response)) {
		RETURN_THROWS();
	}
	/* Without a Content-Type, a browser may detect HTML, and would then run scripts in user input. */
	if (!response->content_type && ZSTR_LEN(response->body)) {
		response->content_type = fermata_known.type_text;
	}
}

/* Returns a response with a body from `source`. Takes ownership of the source. */
void fermata_response_with_source(zval *return_value, fermata_source *source, zend_long status, zend_string *content_type,
	zend_array *headers)
{
	fermata_response *response = FERMATA_FROM(fermata_response, response_create(fermata_ce_response));
	ZVAL_OBJ(return_value, &response->std);
	response->body = ZSTR_EMPTY_ALLOC();
	response->source = source;
	response->content_type = content_type ? zend_string_copy(content_type) : NULL;
	response->status = (uint32_t)status;
	if (status_check(status) && headers) {
		fermata_headers_given(source->kind->headers, headers, add_given_header, response);
	}
}

/* Sets the status and headers of a response for the core. Returns the headers: `some`, or an array that the caller frees. */
FmHeader *fermata_response_fill(const fermata_response *response, FmHeader *some, FmResponse *out)
{
	uint32_t len = response->headers ? response->headers->len : 0;
	FmHeader *headers = UNEXPECTED(len > FERMATA_HEADERS_STACK) ? safe_emalloc(len, sizeof(FmHeader), 0) : some;
	fermata_headers_fill(response->headers, headers);
	*out = (FmResponse){
		.status = response->status,
		.content_type = fermata_str_or_absent(response->content_type),
		.headers = headers,
		.headers_len = len,
		.reason = fermata_str_or_absent(response->reason),
	};
	return headers;
}

ZEND_METHOD(Fermata_Response, json)
{
	zval *data;
	zend_long status = STATUS_MIN;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_ZVAL(data)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
	ZEND_PARSE_PARAMETERS_END();
	if (!status_check(status)) {
		RETURN_THROWS();
	}
	zend_string *body = fermata_json_encode(data);
	if (UNEXPECTED(!body)) {
		RETURN_THROWS();
	}
	return_response(return_value, status, body, fermata_known.type_json);
}

static void return_typed(INTERNAL_FUNCTION_PARAMETERS, zend_string *content_type)
{
	zend_string *body;
	zend_long status = STATUS_MIN;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(body)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
	ZEND_PARSE_PARAMETERS_END();
	if (!status_check(status)) {
		RETURN_THROWS();
	}
	return_response(return_value, status, zend_string_copy(body), content_type);
}

ZEND_METHOD(Fermata_Response, text)
{
	return_typed(INTERNAL_FUNCTION_PARAM_PASSTHRU, fermata_known.type_text);
}

ZEND_METHOD(Fermata_Response, html)
{
	return_typed(INTERNAL_FUNCTION_PARAM_PASSTHRU, fermata_known.type_html);
}

ZEND_METHOD(Fermata_Response, redirect)
{
	zend_string *location;
	zend_long status = 302;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(location)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
	ZEND_PARSE_PARAMETERS_END();
	if (status < 300 || status > 399) {
		fermata_misuse("the status of a redirect must be 300 to 399, not " ZEND_LONG_FMT, status);
		RETURN_THROWS();
	}
	if (!ZSTR_LEN(location)) {
		fermata_misuse("a redirect needs a location");
		RETURN_THROWS();
	}
	if (!fermata_header_check(fermata_known.location, location)) {
		RETURN_THROWS();
	}
	return_response(return_value, status, ZSTR_EMPTY_ALLOC(), NULL);
	fermata_headers_add(&FERMATA_FROM(fermata_response, Z_OBJ_P(return_value))->headers, fermata_known.location, location);
}

ZEND_METHOD(Fermata_Response, accepted)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_response(return_value, 202, ZSTR_EMPTY_ALLOC(), NULL);
}

ZEND_METHOD(Fermata_Response, noContent)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_response(return_value, 204, ZSTR_EMPTY_ALLOC(), NULL);
}

/* Relayed responses */

static bool relay_value(fermata_response *response, zend_string *name, zval *value)
{
	zend_string *buffer;
	ZVAL_DEREF(value);
	if (UNEXPECTED(Z_TYPE_P(value) == IS_NULL)) {
		return true;
	}
	zend_string *text = zval_get_tmp_string(value, &buffer);
	bool is_valid = EXPECTED(!EG(exception)) && (EXPECTED(fm_header_valid(fermata_str(name), fermata_str(text)))
		|| fermata_header_check(name, text));
	if (EXPECTED(is_valid)) {
		add_checked_header(response, name, text);
	}
	zend_tmp_string_release(buffer);
	return is_valid;
}

/* Adds a header of relayed(). Returns false with an exception pending. */
static bool relay_header(fermata_response *response, zend_string *name, zval *value)
{
	zval *one;
	if (UNEXPECTED(fm_header_reserved(fermata_str(name)))) {
		return true;
	}
	/* HttpFoundation returns this name in lower case, but all others as they were set. */
	if (zend_string_equals_literal(name, "set-cookie")) {
		name = fermata_known.set_cookie;
	}
	ZVAL_DEREF(value);
	if (Z_TYPE_P(value) != IS_ARRAY) {
		return relay_value(response, name, value);
	}
	/* The __toString() method of a value may replace or extend the list, so hold a reference to it. */
	zend_array *list = Z_ARR_P(value);
	bool is_added = true;
	GC_TRY_ADDREF(list);
	ZEND_HASH_FOREACH_VAL(list, one) {
		is_added = relay_value(response, name, one);
		if (UNEXPECTED(!is_added)) {
			break;
		}
	} ZEND_HASH_FOREACH_END();
	zend_array_release(list);
	return is_added;
}

ZEND_METHOD(Fermata_Response, relayed)
{
	zend_long status;
	zend_string *body, *name;
	zend_array *headers;
	zend_ulong number;
	zval *value;
	ZEND_PARSE_PARAMETERS_START(3, 3)
		Z_PARAM_LONG(status)
		Z_PARAM_STR(body)
		Z_PARAM_ARRAY_HT(headers)
	ZEND_PARSE_PARAMETERS_END();
	if ((status || !fermata_has_globals()) && !status_check(status)) {
		RETURN_THROWS();
	}
	if (UNEXPECTED(!fermata_headers_leave())) {
		RETURN_THROWS();
	}
	zend_string *whole = zend_string_copy(body);
	if (UNEXPECTED(fermata_printed_something())) {
		zend_string *printed = fermata_printed_take();
		whole = zend_string_concat2(ZSTR_VAL(printed), ZSTR_LEN(printed), ZSTR_VAL(body), ZSTR_LEN(body));
		zend_string_release(printed);
		zend_string_release(body);
	}
	return_response(return_value, status, whole, NULL);
	fermata_response *response = FERMATA_FROM(fermata_response, Z_OBJ_P(return_value));
	if (!status) {
		set_sent_status(response);
	}
	ZEND_HASH_FOREACH_KEY_VAL(headers, number, name, value) {
		zend_string *named = EXPECTED(name) ? name : zend_long_to_str((zend_long)number);
		bool is_added = relay_header(response, named, value);
		if (UNEXPECTED(!name)) {
			zend_string_release(named);
		}
		if (UNEXPECTED(!is_added)) {
			RETURN_THROWS();
		}
	} ZEND_HASH_FOREACH_END();
	relay_sent(response);
	if (!status) {
		set_default_type(response, SG(sapi_headers).send_default_content_type);
	} else if (!response->content_type && ZSTR_LEN(whole)) {
		response->content_type = default_type();
	}
}

/* Changed copies */

static fermata_response *return_copy(zval *return_value, zval *this)
{
	zend_object *copy = response_clone(Z_OBJ_P(this));
	ZVAL_OBJ(return_value, copy);
	return FERMATA_FROM(fermata_response, copy);
}

ZEND_METHOD(Fermata_Response, withStatus)
{
	zend_long status;
	zend_string *reason = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_LONG(status)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR(reason)
	ZEND_PARSE_PARAMETERS_END();
	if (!status_check(status)) {
		RETURN_THROWS();
	}
	bool has_reason = reason && ZSTR_LEN(reason);
	if (has_reason && (ZSTR_LEN(reason) > REASON_BYTES_MAX || !fm_header_valid(FERMATA_LITERAL("Reason"), fermata_str(reason)))) {
		fermata_misuse("the reason phrase must have no control characters and at most %d bytes", REASON_BYTES_MAX);
		RETURN_THROWS();
	}
	fermata_response *copy = return_copy(return_value, ZEND_THIS);
	copy->status = (uint32_t)status;
	if (copy->reason) {
		zend_string_release(copy->reason);
	}
	copy->reason = has_reason ? zend_string_copy(reason) : NULL;
}

ZEND_METHOD(Fermata_Response, withHeader)
{
	zend_string *name, *value;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(name)
		Z_PARAM_STR(value)
	ZEND_PARSE_PARAMETERS_END();
	fermata_response *copy = return_copy(return_value, ZEND_THIS);
	fermata_headers_remove(copy->headers, name);
	add_header(copy, name, value);
}

ZEND_METHOD(Fermata_Response, withAddedHeader)
{
	zend_string *name, *value;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(name)
		Z_PARAM_STR(value)
	ZEND_PARSE_PARAMETERS_END();
	add_header(return_copy(return_value, ZEND_THIS), name, value);
}

ZEND_METHOD(Fermata_Response, withCookie)
{
	zend_string *name, *value, *path = NULL, *domain = NULL;
	zend_long max_age = 0;
	bool max_age_null = true, secure = false, http_only = true, partitioned = false;
	zval *same_site = NULL;
	ZEND_PARSE_PARAMETERS_START(2, 9)
		Z_PARAM_STR(name)
		Z_PARAM_STR(value)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG_OR_NULL(max_age, max_age_null)
		Z_PARAM_STR(path)
		Z_PARAM_STR_OR_NULL(domain)
		Z_PARAM_BOOL(secure)
		Z_PARAM_BOOL(http_only)
		Z_PARAM_OBJECT_OF_CLASS(same_site, fermata_ce_same_site)
		Z_PARAM_BOOL(partitioned)
	ZEND_PARSE_PARAMETERS_END();

	fermata_cookie cookie = {
		.name = name,
		.value = value,
		.path = path,
		.domain = domain,
		.same_site = same_site ? Z_STR_P(zend_enum_fetch_case_value(Z_OBJ_P(same_site))) : NULL,
		.max_age = max_age,
		.has_max_age = !max_age_null,
		.secure = secure,
		.http_only = http_only,
		.partitioned = partitioned,
	};
	zend_string *line = fermata_cookie_line(&cookie);
	if (!line) {
		RETURN_THROWS();
	}
	fermata_headers_add(&return_copy(return_value, ZEND_THIS)->headers, fermata_known.set_cookie, line);
	zend_string_release(line);
}

/* Reading */

ZEND_METHOD(Fermata_Response, status)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG(THIS_RESPONSE()->status);
}

ZEND_METHOD(Fermata_Response, body)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_string *body = THIS_RESPONSE()->body;
	if (!body) {
		RETURN_EMPTY_STRING();
	}
	RETURN_STR_COPY(body);
}

ZEND_METHOD(Fermata_Response, header)
{
	zend_string *name;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(name)
	ZEND_PARSE_PARAMETERS_END();
	fermata_response *response = THIS_RESPONSE();
	if (is_content_type(name)) {
		if (!response->content_type) {
			RETURN_NULL();
		}
		RETURN_STR_COPY(response->content_type);
	}
	smart_str joined = {0};
	bool found = false;
	for (uint32_t i = 0; response->headers && i < response->headers->len; i++) {
		if (zend_string_equals_ci(response->headers->at[i].name, name)) {
			smart_str_appends(&joined, found ? ", " : "");
			smart_str_append(&joined, response->headers->at[i].value);
			found = true;
		}
	}
	if (!found) {
		smart_str_free(&joined);
		RETURN_NULL();
	}
	RETURN_STR(smart_str_extract(&joined));
}

ZEND_METHOD(Fermata_Response, headers)
{
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_response *response = THIS_RESPONSE();
	array_init(return_value);
	if (response->content_type) {
		zval list;
		array_init(&list);
		add_next_index_str(&list, zend_string_copy(response->content_type));
		add_assoc_zval(return_value, "Content-Type", &list);
	}
	for (uint32_t i = 0; response->headers && i < response->headers->len; i++) {
		zval *list = zend_symtable_find(Z_ARR_P(return_value), response->headers->at[i].name);
		if (!list) {
			zval fresh;
			array_init(&fresh);
			list = zend_symtable_update(Z_ARR_P(return_value), response->headers->at[i].name, &fresh);
		}
		add_next_index_str(list, zend_string_copy(response->headers->at[i].value));
	}
}
