/* A request as PHP-FPM shows it to programs: Request::serverParams() and Request::fillGlobals().
 *
 * After fillGlobals() the superglobals, php://input and move_uploaded_file() know the request, header() and its kin keep what
 * they are given for headers_list(), and sessions may be opened, until the handler has ended: PHP has each of these once for a
 * process. So it works only where one handler runs at a time. */
#include "core/changes.h"
#include "core/collisions.h"
#include "core/stray.h"
#include "fibers/fibers.h"
#include "ext/standard/base64.h"
#include "ext/standard/basic_functions.h"
#include "ext/standard/info.h"
#include "ext/standard/url.h"
#include "ext/standard/php_fopen_wrappers.h"
#include "main/php_variables.h"
#include "main/SAPI.h"
#include "main/rfc1867.h"
#include "zend_smart_str.h"
#include <sys/time.h>
#include "core/small.h"

#define THIS_REQUEST() FERMATA_FROM(fermata_request, Z_OBJ_P(ZEND_THIS))
#define HEADER_NAME_BYTES_MAX 128 /* a longer one is in no program's $_SERVER */
#define STATUS_OK 200
/* UPLOAD_ERR_INI_SIZE and UPLOAD_ERR_NO_FILE, which are in no header. */
#define UPLOAD_INI_SIZE 1
#define UPLOAD_NO_FILE 4
#define MICROSECONDS 1000000.0
/* Headers whose places in $_SERVER are known for the next request, and bytes of their names. */
#define PLACES_MAX 32
#define NAMES_BYTES_MAX 1024
#define BRACKETED_BYTES_MAX 64

/* Server parameters */

/* What every request has in $_SERVER: strings of the module, whose hashes are known. */
typedef enum server_key {
	GATEWAY_INTERFACE, HTTP_HOST, HTTPS, QUERY_STRING, REMOTE_ADDR, REMOTE_PORT, REQUEST_METHOD, REQUEST_SCHEME, REQUEST_TIME,
	REQUEST_TIME_FLOAT, REQUEST_URI, SERVER_ADDR, SERVER_NAME, SERVER_PORT, SERVER_PROTOCOL, SERVER_SOFTWARE, NAMES
} server_key;
static const char *const texts[NAMES] = {
	"GATEWAY_INTERFACE", "HTTP_HOST", "HTTPS", "QUERY_STRING", "REMOTE_ADDR", "REMOTE_PORT", "REQUEST_METHOD", "REQUEST_SCHEME",
	"REQUEST_TIME", "REQUEST_TIME_FLOAT", "REQUEST_URI", "SERVER_ADDR", "SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL",
	"SERVER_SOFTWARE",
};
static struct {
	zend_string *names[NAMES];
	zend_string *gateway, *software, *http11, *http, *https, *on;
} known;

static zend_string *known_string(const char *text)
{
	return zend_string_init_interned(text, strlen(text), true);
}

void fermata_globals_init(void)
{
	for (size_t i = 0; i < NAMES; i++) {
		known.names[i] = known_string(texts[i]);
	}
	known.gateway = known_string("CGI/1.1");
	known.software = known_string("fermata");
	known.http11 = known_string("HTTP/1.1");
	known.http = known_string("http");
	known.https = known_string("https");
	known.on = known_string("on");
}

static void set_text(zend_array *to, server_key key, FmStr text)
{
	zval value;
	ZVAL_STRINGL_FAST(&value, text.len ? text.ptr : "", text.len);
	zend_hash_update(to, known.names[key], &value);
}

static void set_known(zend_array *to, server_key key, zend_string *text)
{
	zval value;
	ZVAL_INTERNED_STR(&value, text);
	zend_hash_update(to, known.names[key], &value);
}

static void set_port(zend_array *to, server_key key, uint16_t port)
{
	zval value;
	ZVAL_STR(&value, zend_ulong_to_str(port));
	zend_hash_update(to, known.names[key], &value);
}

static void add_text(zend_array *to, const char *name, size_t name_len, FmStr text)
{
	zval value;
	ZVAL_STRINGL_FAST(&value, text.len ? text.ptr : "", text.len);
	zend_hash_str_update(to, name, name_len, &value);
}
#define ADD(to, name, text) add_text(to, name, sizeof(name) - 1, text)

/* HTTP_X_NAME for X-Name; 0 when no program expects it there. A name with an underscore could pass for another that a proxy has
 * written, and that of `Proxy` is a variable of the environment that HTTP clients read. */
static size_t header_key(char *key, FmStr name)
{
	static const char prefix[] = "HTTP_";
	size_t at = sizeof(prefix) - 1;
	if (name.len > HEADER_NAME_BYTES_MAX || fermata_str_equals_ci(name, FERMATA_LITERAL("proxy"))) {
		return 0;
	}
	memcpy(key, prefix, at);
	for (size_t i = 0; i < name.len; i++) {
		char byte = name.ptr[i];
		if (byte >= 'a' && byte <= 'z') {
			byte = (char)(byte - 'a' + 'A');
		} else if (byte == '-') {
			byte = '_';
		} else if (!((byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9'))) {
			return 0;
		}
		key[at++] = byte;
	}
	return at;
}

static void add_header(zend_array *to, FmStr name, FmStr value)
{
	char key[HEADER_NAME_BYTES_MAX + 8];
	size_t len = header_key(key, name);
	if (!len) {
		return;
	}
	/* Of the caller's there is none with such a name. */
	zend_string *name_string = zend_string_init(key, len, false);
	zval *slot = zend_hash_lookup(to, name_string);
	zend_string_release(name_string);
	if (Z_TYPE_P(slot) != IS_STRING) {
		ZVAL_STRINGL_FAST(slot, value.len ? value.ptr : "", value.len);
		return;
	}
	bool is_cookie = fermata_str_equals_ci(name, FERMATA_LITERAL("cookie"));
	zend_string *before = Z_STR_P(slot);
	ZVAL_STR(slot, zend_string_concat3(ZSTR_VAL(before), ZSTR_LEN(before), is_cookie ? "; " : ", ", 2, value.ptr, value.len));
	zend_string_release(before);
}

/* What callers have given last that had no header in it: a bridge gives the same for every request. The reference keeps it
 * from being changed, and its place from being another's. */
static zend_array *without_headers;

/* Names of the caller's that begin so would be read as headers of the request. */
static void remove_headers(zend_array *from, zend_array *others)
{
	zend_string *key;
	bool has_some = false;
	if (EXPECTED(others && others == without_headers)) {
		return;
	}
	ZEND_HASH_FOREACH_STR_KEY(from, key) {
		if (key && zend_string_starts_with_literal(key, "HTTP_")) {
			has_some = true;
			zend_hash_del(from, key);
		}
	} ZEND_HASH_FOREACH_END();
	if (others && !has_some) {
		fermata_globals_forget();
		GC_TRY_ADDREF(others);
		without_headers = others;
	}
}

/* $_SERVER of the request before, for the next one that has headers of the same names.
 *
 * A program that writes to it gets a copy, since a reference of it is ours. Where that is the only one, nobody else will see the
 * array any more, and the next request changes in place what differs, which is little: to copy what the caller adds and to make all
 * entries took a sixth of what a small request costs. */
static struct {
	zend_array *params; /* NULL = none; then no place is valid */
	zval *known[NAMES]; /* NULL = it has none, as are those of headers that no program expects */
	zval *headers[PLACES_MAX];
	uint16_t remote_port, server_port;
	bool is_secure;
	size_t headers_len, names_len;
	char names[NAMES_BYTES_MAX]; /* of the headers, as they were sent, each with its end */
} last;

static void forget_last(void)
{
	zend_array *before = last.params;
	last.params = NULL;
	if (before) {
		zend_array_release(before);
	}
}

void fermata_globals_forget(void)
{
	zend_array *before = without_headers;
	without_headers = NULL;
	forget_last();
	if (before) {
		zend_array_release(before);
	}
}

static void add_headers(zend_array *to, const fermata_request *request)
{
	FmStr name, value;
	for (size_t i = 0; fermata_request_header_at(request, i, &name, &value); i++) {
		if (fermata_str_equals_ci(name, FERMATA_LITERAL("content-type"))) {
			ADD(to, "CONTENT_TYPE", value);
		} else if (fermata_str_equals_ci(name, FERMATA_LITERAL("content-length"))) {
			ADD(to, "CONTENT_LENGTH", value);
		}
		add_header(to, name, value);
	}
}

static void add_credentials(zend_array *to, const fermata_request *request)
{
	FmStr given;
	if (!fermata_request_header(request, FERMATA_LITERAL("authorization"), 0, &given)) {
		return;
	}
	if (given.len > 7 && zend_binary_strcasecmp(given.ptr, 7, "digest ", 7) == 0) {
		ADD(to, "PHP_AUTH_DIGEST", ((FmStr){given.ptr + 7, given.len - 7}));
	}
	if (given.len <= 6 || zend_binary_strcasecmp(given.ptr, 6, "basic ", 6) != 0) {
		return;
	}
	zend_string *pair = php_base64_decode((const unsigned char *)given.ptr + 6, given.len - 6);
	const char *colon = pair ? memchr(ZSTR_VAL(pair), ':', ZSTR_LEN(pair)) : NULL;
	if (colon) {
		size_t user_len = (size_t)(colon - ZSTR_VAL(pair));
		ADD(to, "PHP_AUTH_USER", ((FmStr){ZSTR_VAL(pair), user_len}));
		ADD(to, "PHP_AUTH_PW", ((FmStr){colon + 1, ZSTR_LEN(pair) - user_len - 1}));
	}
	if (pair) {
		zend_string_release(pair);
	}
}

static FmStr without_port(FmStr host)
{
	const char *colon = host.len ? zend_memrchr(host.ptr, ':', host.len) : NULL;
	/* An IPv6 address ends in a bracket. */
	if (colon && !memchr(colon, ']', (size_t)(host.ptr + host.len - colon))) {
		host.len = (size_t)(colon - host.ptr);
	}
	return host;
}

/* An IPv6 address has brackets where it names a server (RFC 3875, 4.1.14). */
static FmStr server_name(FmStr host, FmStr address, char *bracketed)
{
	if (host.len) {
		return without_port(host);
	}
	if (address.len > BRACKETED_BYTES_MAX - 2 || !memchr(address.ptr, ':', address.len)) {
		return address;
	}
	bracketed[0] = '[';
	memcpy(bracketed + 1, address.ptr, address.len);
	bracketed[address.len + 1] = ']';
	return (FmStr){bracketed, address.len + 2};
}

static void add_addresses(zend_array *to, const fermata_request *request)
{
	uint16_t port = 0;
	FmStr address = fermata_request_remote(request, &port), protocol, subject, pem;
	set_text(to, REMOTE_ADDR, address);
	set_port(to, REMOTE_PORT, port);
	address = fermata_request_server(request, &port, &protocol);
	set_text(to, SERVER_ADDR, address);
	set_port(to, SERVER_PORT, port);
	if (EXPECTED(protocol.len == 8 && memcmp(protocol.ptr, "HTTP/1.1", 8) == 0)) {
		set_known(to, SERVER_PROTOCOL, known.http11);
	} else {
		set_text(to, SERVER_PROTOCOL, protocol);
	}
	FmStr host = fermata_request_host(request);
	if (host.len) {
		set_text(to, HTTP_HOST, host);
	}
	char bracketed[BRACKETED_BYTES_MAX];
	set_text(to, SERVER_NAME, server_name(host, address, bracketed));
	bool is_secure = fermata_request_tls(request, &subject, &pem);
	set_known(to, REQUEST_SCHEME, is_secure ? known.https : known.http);
	if (is_secure) {
		set_known(to, HTTPS, known.on);
	} else {
		zend_hash_del(to, known.names[HTTPS]);
	}
}

static void tell_time(zval *seconds, zval *precise)
{
	struct timeval time;
	gettimeofday(&time, NULL);
	fermata_opcache_tell_time(time.tv_sec);
	ZVAL_LONG(seconds, time.tv_sec);
	ZVAL_DOUBLE(precise, (double)time.tv_sec + (double)time.tv_usec / MICROSECONDS);
}

static void add_time(zend_array *to)
{
	zval seconds, precise;
	tell_time(&seconds, &precise);
	zend_hash_update(to, known.names[REQUEST_TIME], &seconds);
	zend_hash_update(to, known.names[REQUEST_TIME_FLOAT], &precise);
}

/* A new array, with what the caller adds to that of the request. */
static zend_array *server_params(const fermata_request *request, zend_array *others)
{
	zend_array *params = others && zend_hash_num_elements(others) ? zend_array_dup(others) : zend_new_array(32);
	const FmEvent *event = &request->event;
	remove_headers(params, others);
	set_known(params, GATEWAY_INTERFACE, known.gateway);
	set_known(params, SERVER_SOFTWARE, known.software);
	set_text(params, REQUEST_METHOD, event->method);
	set_text(params, REQUEST_URI, event->target);
	set_text(params, QUERY_STRING, event->query);
	add_headers(params, request);
	add_addresses(params, request);
	add_credentials(params, request);
	add_time(params);
	return params;
}

ZEND_METHOD(Fermata_Request, serverParams)
{
	zend_array *others = NULL;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_HT(others)
	ZEND_PARSE_PARAMETERS_END();
	RETURN_ARR(server_params(THIS_REQUEST(), others));
}

/* $_SERVER of the request before */

/* Notes which headers the request has, for the next one: none where its $_SERVER is to be made by itself. */
static void note_names(const fermata_request *request)
{
	FmStr name, value;
	last.headers_len = last.names_len = 0;
	for (size_t i = 0; fermata_request_header_at(request, i, &name, &value); i++) {
		/* Those that are more than one entry. */
		bool is_plain = !fermata_str_equals_ci(name, FERMATA_LITERAL("authorization"))
			&& !fermata_str_equals_ci(name, FERMATA_LITERAL("content-type"))
			&& !fermata_str_equals_ci(name, FERMATA_LITERAL("content-length"));
		if (!is_plain || i >= PLACES_MAX || last.names_len + name.len >= NAMES_BYTES_MAX) {
			last.headers_len = last.names_len = 0;
			return;
		}
		memcpy(last.names + last.names_len, name.ptr, name.len);
		last.names[last.names_len + name.len] = '\0';
		last.names_len += name.len + 1;
		last.headers_len++;
	}
}

/* Whether the request has headers of the same names, in the same order. */
static bool has_same_names(const fermata_request *request, FmStr *values)
{
	FmStr name, value;
	size_t at = 0;
	for (size_t i = 0; fermata_request_header_at(request, i, &name, &value); i++) {
		if (i == PLACES_MAX || at + name.len >= last.names_len || memcmp(last.names + at, name.ptr, name.len) != 0 || last.names[at + name.len]) {
			return false;
		}
		values[i] = value;
		at += name.len + 1;
	}
	return at == last.names_len && at;
}

/* The place of each entry. Another request may find the array; none does where two headers have one place. */
static void keep_last(zend_array *params, const fermata_request *request)
{
	char key[HEADER_NAME_BYTES_MAX + 8];
	FmStr name, value, subject, pem;
	forget_last();
	for (size_t i = 0; i < NAMES; i++) {
		last.known[i] = zend_hash_find_known_hash(params, known.names[i]);
	}
	for (size_t i = 0; i < PLACES_MAX && fermata_request_header_at(request, i, &name, &value); i++) {
		size_t len = header_key(key, name);
		last.headers[i] = len ? zend_hash_str_find(params, key, len) : NULL;
		for (size_t k = 0; k < i && last.headers[i]; k++) {
			if (last.headers[k] == last.headers[i]) {
				return;
			}
		}
	}
	fermata_request_remote(request, &last.remote_port);
	fermata_request_server(request, &last.server_port, &value);
	last.is_secure = fermata_request_tls(request, &subject, &pem);
	GC_ADDREF(params);
	last.params = params;
}

/* What is new has been made before: where memory_limit is met by that, the array that is kept still has its old entry. */
static void replace_entry(zval *place, zval *changed)
{
	zval before;
	ZVAL_COPY_VALUE(&before, place);
	ZVAL_COPY_VALUE(place, changed);
	zval_ptr_dtor(&before);
}

static void change_text(zval *place, FmStr text)
{
	if (EXPECTED(Z_TYPE_P(place) == IS_STRING && Z_STRLEN_P(place) == text.len)
			&& EXPECTED(!text.len || memcmp(Z_STRVAL_P(place), text.ptr, text.len) == 0)) {
		return;
	}
	zval changed;
	ZVAL_STRINGL_FAST(&changed, text.len ? text.ptr : "", text.len);
	replace_entry(place, &changed);
}

static void change_port(zval *place, uint16_t *before, uint16_t port)
{
	if (UNEXPECTED(*before != port)) {
		zval changed;
		ZVAL_STR(&changed, zend_ulong_to_str(port));
		replace_entry(place, &changed);
		*before = port;
	}
}

/* NULL when there is none that fits. */
static zend_array *change_last(const fermata_request *request, zend_array *others, const FmStr *values)
{
	const FmEvent *event = &request->event;
	FmStr subject, pem, protocol, host = fermata_request_host(request);
	bool is_free = last.params && GC_REFCOUNT(last.params) == 1 && others == without_headers;
	if (!is_free || last.is_secure != fermata_request_tls(request, &subject, &pem) || !host.len != !last.known[HTTP_HOST]) {
		return NULL;
	}
	for (size_t i = 0; i < last.headers_len; i++) {
		if (EXPECTED(last.headers[i])) {
			change_text(last.headers[i], values[i]);
		}
	}
	uint16_t port;
	change_text(last.known[REQUEST_METHOD], event->method);
	change_text(last.known[REQUEST_URI], event->target);
	change_text(last.known[QUERY_STRING], event->query);
	change_text(last.known[REMOTE_ADDR], fermata_request_remote(request, &port));
	change_port(last.known[REMOTE_PORT], &last.remote_port, port);
	FmStr address = fermata_request_server(request, &port, &protocol);
	change_text(last.known[SERVER_ADDR], address);
	change_port(last.known[SERVER_PORT], &last.server_port, port);
	change_text(last.known[SERVER_PROTOCOL], protocol);
	if (host.len) {
		change_text(last.known[HTTP_HOST], host);
	}
	char bracketed[BRACKETED_BYTES_MAX];
	change_text(last.known[SERVER_NAME], server_name(host, address, bracketed));
	tell_time(last.known[REQUEST_TIME], last.known[REQUEST_TIME_FLOAT]);
	GC_ADDREF(last.params);
	return last.params;
}

/* As server_params(), for a program that reads more often than it writes. */
static zend_array *server_global(const fermata_request *request, zend_array *others)
{
	FmStr values[PLACES_MAX];
	bool is_as_before = has_same_names(request, values);
	zend_array *params = is_as_before ? change_last(request, others, values) : NULL;
	if (EXPECTED(params)) {
		return params;
	}
	params = server_params(request, others);
	if (is_as_before && others && others == without_headers) {
		/* The second in a row: clients that alternate would pay for places that nobody uses. */
		keep_last(params, request);
	} else {
		forget_last();
		note_names(request);
	}
	return params;
}

/* Superglobals */

/* One that is empty stays: between handlers those of the command line are. */
static void set_global(fermata_superglobal number, zend_array *array)
{
	zval value, *place = fermata_global_find(number);
	bool is_empty = zend_hash_num_elements(array) == 0;
	if (EXPECTED(is_empty && place && Z_TYPE_P(place) == IS_ARRAY && zend_hash_num_elements(Z_ARR_P(place)) == 0)) {
		zend_array_release(array);
		return;
	}
	if (UNEXPECTED(GC_FLAGS(array) & GC_IMMUTABLE)) {
		ZVAL_EMPTY_ARRAY(&value);
	} else {
		ZVAL_ARR(&value, array);
	}
	if (EXPECTED(place)) {
		replace_entry(place, &value);
	} else {
		zend_hash_add_new(&EG(symbol_table), fermata_globals.names[number], &value);
	}
}

static zend_array *empty(void)
{
	return (zend_array *)&zend_empty_array;
}

static zend_array *shared(zend_array *array)
{
	GC_TRY_ADDREF(array);
	return array;
}

static bool file_names_collide; /* too many of those that are being put into $_FILES */

/* One of the five arrays of a file; brackets of the field's name come behind it, as in $_FILES['a']['name'][0]. */
static void add_file_part(zval *files, FmStr field, const char *part, zval *value)
{
	const char *bracket = memchr(field.ptr, '[', field.len);
	size_t base = bracket && field.ptr[field.len - 1] == ']' ? (size_t)(bracket - field.ptr) : field.len;
	smart_str name = {0};
	smart_str_appendl(&name, field.ptr, base);
	smart_str_appendc(&name, '[');
	smart_str_appends(&name, part);
	smart_str_appendc(&name, ']');
	smart_str_appendl(&name, field.ptr + base, field.len - base);
	smart_str_0(&name);
	if (EXPECTED(!file_names_collide && fermata_collisions_allow_variable(Z_ARRVAL_P(files), ZSTR_VAL(name.s)))) {
		php_register_variable_ex(ZSTR_VAL(name.s), value, files);
	} else {
		file_names_collide = true;
		zval_ptr_dtor_str(value);
	}
	smart_str_free(&name);
}

/* As in PHP, whose name for $_FILES is made of a field's alone where its brackets are closed, and nothing is between two of them:
 * `a[]b` would put values of the client's where programs expect a name or a path. */
static bool field_has_place(FmStr field)
{
	size_t open = 0;
	for (size_t i = 0; i < field.len; i++) {
		bool ends = i + 1 == field.len;
		if (field.ptr[i] == '[') {
			open++;
		} else if (field.ptr[i] == ']' && (open-- == 0 || (!ends && field.ptr[i + 1] != '['))) {
			return false;
		}
	}
	return open == 0;
}

/* A field for a file in which nothing was chosen, which programs of PHP expect with UPLOAD_ERR_NO_FILE. */
static void add_unchosen(zval *files, FmStr field)
{
	static const char *const empty[] = {"name", "full_path", "type", "tmp_name"};
	zval value;
	for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
		ZVAL_EMPTY_STRING(&value);
		add_file_part(files, field, empty[i], &value);
	}
	ZVAL_LONG(&value, UPLOAD_NO_FILE);
	add_file_part(files, field, "error", &value);
	ZVAL_LONG(&value, 0);
	add_file_part(files, field, "size", &value);
}

/* A file of more than bytes_max is there with an error in place of its content. An exception where too many names collide. */
static zend_array *file_arrays(const fermata_request *request, uint64_t bytes_max)
{
	FmUploadedFile file;
	FmStr unchosen;
	size_t next_unchosen = 0, files_before = 0;
	zval files, value;
	bool has_upload = fermata.worker && request->event.upload;
	if (EXPECTED(!has_upload)) {
		return empty();
	}
	array_init(&files);
	fermata_collisions_begin();
	file_names_collide = false;
	for (size_t i = 0;; i++) {
		/* In the order of the form: of fields with one name the last counts, and rows of name[] keep their places. */
		while (fm_upload_unchosen_at(fermata.worker, request->event.upload, next_unchosen, &unchosen, &files_before)
			&& files_before == i) {
			if (field_has_place(unchosen)) {
				add_unchosen(&files, unchosen);
			}
			next_unchosen++;
		}
		if (!fm_upload_file_at(fermata.worker, request->event.upload, i, &file)) {
			break;
		}
		if (UNEXPECTED(!field_has_place(file.field))) {
			continue;
		}
		ZVAL_STRINGL(&value, file.name.ptr, file.name.len);
		add_file_part(&files, file.field, "name", &value);
		ZVAL_STRINGL(&value, file.name.ptr, file.name.len);
		add_file_part(&files, file.field, "full_path", &value);
		ZVAL_STRINGL(&value, file.content_type.ptr ? file.content_type.ptr : "", file.content_type.ptr ? file.content_type.len : 0);
		add_file_part(&files, file.field, "type", &value);
		if (UNEXPECTED(file.bytes > bytes_max)) {
			ZVAL_EMPTY_STRING(&value);
			add_file_part(&files, file.field, "tmp_name", &value);
			ZVAL_LONG(&value, UPLOAD_INI_SIZE);
			add_file_part(&files, file.field, "error", &value);
			ZVAL_LONG(&value, 0);
			add_file_part(&files, file.field, "size", &value);
			continue;
		}
		ZVAL_STRINGL(&value, file.path.ptr, file.path.len);
		/* move_uploaded_file() moves what is listed here. */
		if (!SG(rfc1867_uploaded_files)) {
			ALLOC_HASHTABLE(SG(rfc1867_uploaded_files));
			zend_hash_init(SG(rfc1867_uploaded_files), 8, NULL, NULL, 0);
		}
		zend_hash_add_ptr(SG(rfc1867_uploaded_files), Z_STR(value), Z_STR(value));
		add_file_part(&files, file.field, "tmp_name", &value);
		ZVAL_LONG(&value, 0);
		add_file_part(&files, file.field, "error", &value);
		ZVAL_LONG(&value, (zend_long)file.bytes);
		add_file_part(&files, file.field, "size", &value);
	}
	if (UNEXPECTED(file_names_collide)) {
		fermata_collisions_refuse("there are too many");
	}
	return Z_ARR(files);
}

/* False: what follows is not to be added. */
static bool add_cookies(zval *cookies, zend_string *line, zend_long *left)
{
	char *state = NULL;
	for (char *name = php_strtok_r(ZSTR_VAL(line), ";", &state); name; name = php_strtok_r(NULL, ";", &state)) {
		char *text = strchr(name, '=');
		zval value;
		while (*name == ' ' || *name == '\t') {
			name++;
		}
		if (name == text || !*name) {
			continue;
		}
		if ((*left)-- <= 0) {
			return false;
		}
		if (text) {
			*text++ = '\0';
			ZVAL_STRINGL(&value, text, php_raw_url_decode(text, strlen(text)));
		} else {
			ZVAL_EMPTY_STRING(&value);
		}
		if (UNEXPECTED(!fermata_collisions_allow_variable(Z_ARRVAL_P(cookies), name))) {
			zval_ptr_dtor_str(&value);
			fermata_collisions_refuse("there are too many");
			return false;
		}
		php_register_variable_ex(name, &value, cookies);
	}
	return true;
}

/* $_COOKIE, whose names are made as those of forms: `a[b]` is in an array, `a.b` is a_b. An exception where too many collide. */
static zend_array *cookie_arrays(const fermata_request *request)
{
	zval cookies, before;
	FmStr line;
	zend_long left = PG(max_input_vars);
	if (EXPECTED(!fermata_request_header(request, FERMATA_LITERAL("cookie"), 0, &line))) {
		return empty();
	}
	array_init(&cookies);
	fermata_collisions_begin();
	/* PHP knows by this that of cookies with one name the first counts: browsers send that of the longer path first. */
	ZVAL_COPY_VALUE(&before, &PG(http_globals)[TRACK_VARS_COOKIE]);
	ZVAL_COPY_VALUE(&PG(http_globals)[TRACK_VARS_COOKIE], &cookies);
	bool goes_on = true;
	for (size_t i = 0; goes_on && fermata_request_header(request, FERMATA_LITERAL("cookie"), i, &line); i++) {
		zend_string *copy = zend_string_init(line.len ? line.ptr : "", line.len, false);
		goes_on = add_cookies(&cookies, copy, &left);
		zend_string_release(copy);
	}
	ZVAL_COPY_VALUE(&PG(http_globals)[TRACK_VARS_COOKIE], &before);
	return Z_ARR(cookies);
}

/* By the setting request_order, as PHP does. */
static zend_array *request_array(zend_array *get, zend_array *post, zend_array *cookies)
{
	const char *order = PG(request_order) ? PG(request_order) : PG(variables_order);
	if (EXPECTED(zend_hash_num_elements(get) + zend_hash_num_elements(post) + zend_hash_num_elements(cookies) == 0)) {
		return empty();
	}
	zend_array *all = zend_new_array(zend_hash_num_elements(get) + zend_hash_num_elements(post));
	for (; order && *order; order++) {
		zend_array *from = NULL;
		switch (*order) {
			case 'g': case 'G': from = get; break;
			case 'p': case 'P': from = post; break;
			case 'c': case 'C': from = cookies; break;
		}
		if (from) {
			zend_hash_merge(all, from, zval_add_ref, true);
		}
	}
	return all;
}

static void open_input(fermata_request *request)
{
	if (fermata_request_arrives(request)) {
		return;
	}
	/* Where there is nothing to read, php://input makes a stream of its own when it is opened. */
	SG(request_info).request_body = request->event.body.len || request->event.upload ? fermata_request_body_stream(request) : NULL;
	SG(post_read) = true;
}

ZEND_METHOD(Fermata_Request, fillGlobals)
{
	zend_array *others = NULL;
	zend_long upload_bytes = 0;
	bool upload_bytes_null = true;
	ZEND_PARSE_PARAMETERS_START(0, 2)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_HT(others)
		Z_PARAM_LONG_OR_NULL(upload_bytes, upload_bytes_null)
	ZEND_PARSE_PARAMETERS_END();
	if (!upload_bytes_null && upload_bytes < 0) {
		fermata_misuse("uploadBytes must not be negative; leave it out for files as large as the server takes them");
		RETURN_THROWS();
	}
	fermata_request *request = THIS_REQUEST();
	fermata_fiber *fiber = fermata_run.fiber;
	if (!fermata.handling || !fiber || request != fermata_run.request || fiber->future || !fermata_turns_are_single()) {
		fermata_misuse("the superglobals show one request for a process: call fillGlobals() on the request of a handler, in a server with"
			" Limits(handlers: 1)");
		RETURN_THROWS();
	}
	if (fiber->has_globals) {
		return;
	}
	zend_array *get = fermata_request_queries(request);
	zend_array *post = fermata_request_arrives(request) ? empty() : shared(fermata_request_forms(request));
	zend_array *cookies = EG(exception) ? empty() : cookie_arrays(request);
	if (EG(exception)) {
		zend_array_release(post);
		zend_array_release(cookies);
		RETURN_THROWS();
	}
	fiber->has_globals = fiber->touched = true;
	fermata_changes_note_http();
	SG(sapi_headers).http_response_code = STATUS_OK;
	set_global(FERMATA_SERVER, server_global(request, others));
	set_global(FERMATA_REQUEST, request_array(get, post, cookies));
	set_global(FERMATA_GET, shared(get));
	set_global(FERMATA_POST, post);
	set_global(FERMATA_COOKIE, cookies);
	set_global(FERMATA_FILES, file_arrays(request, upload_bytes_null ? UINT64_MAX : (uint64_t)upload_bytes));
	open_input(request);
}

ZEND_METHOD(Fermata_Request, deferAnswer)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (THIS_REQUEST() == fermata_run.request && fermata_run.fiber && fermata_run.fiber->has_globals) {
		fermata_run.fiber->defers_answer = true;
	}
}

ZEND_METHOD(Fermata_Request, takeOutput)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (EXPECTED(THIS_REQUEST() != fermata_run.request || !fermata_printed_something())) {
		RETURN_EMPTY_STRING();
	}
	RETURN_STR(fermata_printed_take());
}

/* Ending */

static void clear_headers(void)
{
	sapi_header_op(SAPI_HEADER_DELETE_ALL, NULL);
	if (SG(sapi_headers).http_status_line) {
		efree(SG(sapi_headers).http_status_line);
		SG(sapi_headers).http_status_line = NULL;
	}
	if (SG(sapi_headers).mimetype) {
		efree(SG(sapi_headers).mimetype);
		SG(sapi_headers).mimetype = NULL;
	}
	SG(sapi_headers).send_default_content_type = true;
	SG(sapi_headers).http_response_code = 0;
	/* Of header_register_callback(). */
	zval callback;
	ZVAL_COPY_VALUE(&callback, &SG(callback_func));
	ZVAL_UNDEF(&SG(callback_func));
	zval_ptr_dtor(&callback);
}

/* A stream of php://input reads from the stream of the body, which it does not own. */
static bool is_input(const zend_resource *resource)
{
	const php_stream *stream = resource->type == php_file_le_stream() ? resource->ptr : NULL;
	return stream && stream->wrapper == &php_stream_php_wrapper && strcmp(stream->ops->label, "Input") == 0;
}

/* Those that the program has kept end with their body. Filters may call the program, which may open others. */
static void close_inputs(void)
{
	zend_resource *resource;
	zval *input, found;
	zend_array *inputs = NULL;
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (UNEXPECTED(is_input(resource))) {
			inputs = inputs ? inputs : zend_new_array(0);
			GC_ADDREF(resource);
			ZVAL_RES(&found, resource);
			zend_hash_next_index_insert_new(inputs, &found);
		}
	} ZEND_HASH_FOREACH_END();
	if (EXPECTED(!inputs)) {
		return;
	}
	ZEND_HASH_FOREACH_VAL(inputs, input) {
		zend_list_close(Z_RES_P(input));
	} ZEND_HASH_FOREACH_END();
	zend_array_release(inputs);
}

/* The handler has ended, before its changes of PHP's state are undone. */
void fermata_globals_end(fermata_fiber *fiber)
{
	fermata_session_end(fiber);
	fiber->has_globals = fiber->defers_answer = false;
	fermata_printed_end();
	clear_headers();
	if (SG(request_info).request_body) {
		close_inputs();
		php_stream_close(SG(request_info).request_body);
		SG(request_info).request_body = NULL;
	}
	SG(post_read) = false;
	/* The files are the core's to remove. */
	if (SG(rfc1867_uploaded_files)) {
		zend_hash_destroy(SG(rfc1867_uploaded_files));
		FREE_HASHTABLE(SG(rfc1867_uploaded_files));
		SG(rfc1867_uploaded_files) = NULL;
	}
}

/* The answer leaves before what the handler has registered for its end is called, which may take long. */
void fermata_globals_let_answer_leave(fermata_fiber *fiber)
{
	if (!fiber->has_globals) {
		return;
	}
	if (EXPECTED(fermata_run.is_whole)) {
		/* What the program has registered beside it may take any time. */
		if (fiber->defers_answer && zend_hash_num_elements(BG(user_shutdown_function_names)) == 1) {
			return;
		}
		fermata_request_keep(fermata_run.request);
		fm_send_answers(fermata_run.worker);
		return;
	}
	if (fermata_wait_obstacle()) {
		return;
	}
	/* Pieces are made by the loop. It is no matter whether the client stays. */
	fermata_scope scope = {.is_shield = true, .due_ms = FERMATA_NEVER, .owner = fiber, .inside = EG(active_fiber),
		.outer = fiber->scope, .begun_at = fermata_conversation_clock()};
	fiber->scope = &scope;
	fiber->touched = true;
	fermata_fibers_end_turn();
	fermata_wait(fm_worker_now_ms(fermata_run.worker));
	fiber->scope = scope.outer;
	if (EG(exception) && !fiber->dying) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
}

/* exit() */

/* After exit() the client gets what was printed, with the status and headers that were set, as from PHP-FPM. */
bool fermata_globals_answer(const fermata_handler *handler)
{
	if (!fermata_run.fiber->has_globals) {
		return false;
	}
	zend_long status = SG(sapi_headers).http_response_code;
	zend_string *text = fermata_printed_take();
	fermata_response *response = fermata_response_sent((uint32_t)status, text);
	fermata_respond(handler, response);
	OBJ_RELEASE(&response->std);
	return true;
}
