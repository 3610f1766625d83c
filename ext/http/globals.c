/* Presents a request as PHP-FPM does: Request::serverParams() and Request::fillGlobals().
 *
 * From fillGlobals() until the handler returns, the superglobals, php://input and move_uploaded_file() provide the request.
 * header() and related functions store header lines for headers_list(), and sessions can be opened. PHP has one copy of this state
 * per process, so fillGlobals() requires a server that runs one handler at a time. */
#include "http/http.h"
#include "state/changes.h"
#include "base/collisions.h"
#include "state/quiet.h"
#include "state/sapi_output.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "ext/standard/base64.h"
#include "ext/standard/basic_functions.h"
#include "ext/standard/info.h"
#include "ext/standard/url.h"
#include "ext/standard/php_fopen_wrappers.h"
#include "main/php_variables.h"
#include "main/SAPI.h"
#include "main/rfc1867.h"
#include "zend_smart_str.h"
#include <sys/stat.h>
#include <sys/time.h>
#include "base/optimize_size.h"

#define THIS_REQUEST() FERMATA_FROM(fermata_request, Z_OBJ_P(ZEND_THIS))
#define HEADER_NAME_BYTES_MAX 128 /* headers with longer names are not in $_SERVER */
#define STATUS_OK 200
/* UPLOAD_ERR_INI_SIZE and UPLOAD_ERR_NO_FILE; no header of PHP defines them. */
#define UPLOAD_INI_SIZE 1
#define UPLOAD_NO_FILE 4
#define MICROSECONDS 1000000.0
/* Maximum number of headers whose $_SERVER slots are cached for the next request, and maximum total size of their names in
 * bytes. */
#define CACHED_HEADERS_MAX 32
#define NAMES_BYTES_MAX 1024
#define BRACKETED_BYTES_MAX 64

/* Server parameters */

/* Keys that $_SERVER has for every request: interned strings whose hashes are already computed. */
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

/* Writes HTTP_X_NAME for X-Name and returns its length; 0 if the header must not be in $_SERVER. A header with an underscore in
 * its name could imitate a header that a proxy sets. `Proxy` would become HTTP_PROXY, from which HTTP clients read their proxy
 * setting. */
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
	/* remove_headers() has removed variables of the caller with such names. */
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

/* Last array of a caller that contains no HTTP_* key. A bridge passes the same array for every request. While this
 * reference exists, PHP neither changes the array in place nor reuses its address. */
static zend_array *without_headers;

/* Removes the caller's HTTP_* variables, since applications would read them as headers of the request. */
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

/* Original $_SERVER of the current handler, for filter_input() and getenv(). Because of this reference, PHP copies the array
 * before the application writes to it. */
static zend_array *shown_params;

typedef struct slot_of_globals {
	bool defers_answer; /* Request::deferAnswer() was called: the handler's shutdown function is short */
} slot_of_globals;

static fermata_part part;
FERMATA_SLOT(slot_of_globals, part)


/* $_SERVER of the previous request. If the next request has headers with the same names, it reuses this array.
 *
 * Because of this reference, PHP copies the array before an application writes to $_SERVER. If this is the only reference left,
 * the next request updates the changed entries in place. Building a new array for each request takes one sixth of the time of a
 * small request. */
static struct {
	zend_array *params; /* NULL = none; then the slots below are invalid */
	const zend_string *script; /* script name in `params`; NULL = none */
	zval *known[NAMES]; /* slots in `params`; NULL = no entry, also for headers that header_key() rejects */
	zval *headers[CACHED_HEADERS_MAX];
	uint16_t remote_port, server_port;
	bool is_secure;
	size_t headers_len, names_len;
	char names[NAMES_BYTES_MAX]; /* header names as received, each followed by NUL */
} last;

static void release_params(void)
{
	zend_array *before = shown_params;
	shown_params = NULL;
	if (EXPECTED(before)) {
		zend_array_release(before);
	}
}

static void forget_last(void)
{
	zend_array *before = last.params;
	last.params = NULL;
	last.script = NULL;
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

/* Adds CONTENT_LENGTH for a body without that header (chunked, or over HTTP/2), as web servers do. */
static ZEND_COLD void add_length(zend_array *to, const fermata_request *request)
{
	uint64_t bytes = request->event.body.len;
	struct stat file;
	FmStr path;
	if (request->event.upload) {
		bool is_in_file = !fermata_request_arrives(request) && fermata.worker && fm_upload_body(fermata.worker, request->event.upload, &path);
		char name[MAXPATHLEN];
		if (!is_in_file || path.len >= sizeof(name)) {
			return;
		}
		memcpy(name, path.ptr, path.len);
		name[path.len] = '\0';
		if (stat(name, &file) != 0) {
			return;
		}
		bytes = (uint64_t)file.st_size;
	}
	zval len;
	ZVAL_STR(&len, zend_ulong_to_str(bytes));
	zend_hash_str_update(to, ZEND_STRL("CONTENT_LENGTH"), &len);
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
	if (UNEXPECTED((request->event.body.len || request->event.upload)
			&& !fermata_request_header(request, FERMATA_LITERAL("content-length"), 0, &value))) {
		add_length(to, request);
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
		ADD(to, "REMOTE_USER", ((FmStr){ZSTR_VAL(pair), user_len}));
		ADD(to, "PHP_AUTH_PW", ((FmStr){colon + 1, ZSTR_LEN(pair) - user_len - 1}));
	}
	if (pair) {
		zend_string_release(pair);
	}
}

/* Returns the path and query of the request target. Removes the scheme and authority of a target in absolute form (RFC 9112,
 * section 3.2.2). */
static FmStr request_uri(FmStr target)
{
	if (EXPECTED(target.len && (target.ptr[0] == '/' || target.ptr[0] == '*'))) {
		return target;
	}
	const char *end = target.ptr + target.len, *scheme = memchr(target.ptr, ':', target.len);
	if (!scheme || end - scheme < 3 || scheme[1] != '/' || scheme[2] != '/') {
		return target;
	}
	const char *path = scheme + 3;
	while (path < end && *path != '/' && *path != '?') {
		path++;
	}
	return path < end && *path == '/' ? (FmStr){path, (size_t)(end - path)} : FERMATA_LITERAL("/");
}

/* Returns the part of the path after the script's path, such as /a in /index.php/a; NULL if there is none. */
static const char *path_info(FmStr uri, const zend_string *script)
{
	size_t len = script ? ZSTR_LEN(script) : 0;
	return UNEXPECTED(len && uri.len > len && memcmp(uri.ptr, ZSTR_VAL(script), len) == 0 && uri.ptr[len] == '/') ? uri.ptr + len : NULL;
}

static const zend_string *script_name(const zend_array *others)
{
	const zval *name = others ? zend_hash_str_find(others, ZEND_STRL("SCRIPT_NAME")) : NULL;
	return name && Z_TYPE_P(name) == IS_STRING ? Z_STR_P(name) : NULL;
}

static ZEND_COLD void add_path_info(zend_array *to, FmStr uri, const char *path, const zend_string *script)
{
	const char *end = uri.ptr + uri.len, *query = memchr(uri.ptr, '?', uri.len);
	zend_string *info = zend_string_init(path, (size_t)((query ? query : end) - path), false);
	ZSTR_LEN(info) = php_raw_url_decode(ZSTR_VAL(info), ZSTR_LEN(info));
	zval value;
	ZVAL_STR(&value, zend_string_concat2(ZSTR_VAL(script), ZSTR_LEN(script), ZSTR_VAL(info), ZSTR_LEN(info)));
	zend_hash_str_update(to, ZEND_STRL("PHP_SELF"), &value);
	ZVAL_STR(&value, info);
	zend_hash_str_update(to, ZEND_STRL("PATH_INFO"), &value);
}

static FmStr without_port(FmStr host)
{
	const char *colon = host.len ? zend_memrchr(host.ptr, ':', host.len) : NULL;
	/* A colon before a closing bracket belongs to an IPv6 address. */
	if (colon && !memchr(colon, ']', (size_t)(host.ptr + host.len - colon))) {
		host.len = (size_t)(colon - host.ptr);
	}
	return host;
}

/* Returns the host without its port, or else the server's address. An IPv6 address is in brackets (RFC 3875, section 4.1.14). */
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

static void set_time(zval *seconds, zval *precise)
{
	struct timeval time;
	gettimeofday(&time, NULL);
	fermata_opcache_set_time(time.tv_sec);
	ZVAL_LONG(seconds, time.tv_sec);
	ZVAL_DOUBLE(precise, (double)time.tv_sec + (double)time.tv_usec / MICROSECONDS);
}

static void add_time(zend_array *to)
{
	zval seconds, precise;
	set_time(&seconds, &precise);
	zend_hash_update(to, known.names[REQUEST_TIME], &seconds);
	zend_hash_update(to, known.names[REQUEST_TIME_FLOAT], &precise);
}

/* Returns a new array with the caller's variables and the request's parameters. */
static zend_array *server_params(const fermata_request *request, zend_array *others)
{
	zend_array *params = others && zend_hash_num_elements(others) ? zend_array_dup(others) : zend_new_array(32);
	const FmEvent *event = &request->event;
	remove_headers(params, others);
	set_known(params, GATEWAY_INTERFACE, known.gateway);
	set_known(params, SERVER_SOFTWARE, known.software);
	set_text(params, REQUEST_METHOD, event->method);
	FmStr uri = request_uri(event->target);
	set_text(params, REQUEST_URI, uri);
	set_text(params, QUERY_STRING, event->query);
	add_headers(params, request);
	add_addresses(params, request);
	add_credentials(params, request);
	const zend_string *script = script_name(others);
	const char *path = path_info(uri, script);
	if (UNEXPECTED(path)) {
		add_path_info(params, uri, path, script);
	}
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

/* Reuse of the previous request's $_SERVER */

/* Stores the names of the request's headers for has_same_names(). Stores none if this $_SERVER cannot be reused. */
static void note_names(const fermata_request *request)
{
	FmStr name, value;
	last.headers_len = last.names_len = 0;
	for (size_t i = 0; fermata_request_header_at(request, i, &name, &value); i++) {
		/* Each of these headers sets several $_SERVER entries. */
		bool is_plain = !fermata_str_equals_ci(name, FERMATA_LITERAL("authorization"))
			&& !fermata_str_equals_ci(name, FERMATA_LITERAL("content-type"))
			&& !fermata_str_equals_ci(name, FERMATA_LITERAL("content-length"));
		if (!is_plain || i >= CACHED_HEADERS_MAX || last.names_len + name.len >= NAMES_BYTES_MAX) {
			last.headers_len = last.names_len = 0;
			return;
		}
		memcpy(last.names + last.names_len, name.ptr, name.len);
		last.names[last.names_len + name.len] = '\0';
		last.names_len += name.len + 1;
		last.headers_len++;
	}
}

/* Returns true and sets `values` if the request has headers with the stored names in the same order. */
static bool has_same_names(const fermata_request *request, FmStr *values)
{
	FmStr name, value;
	size_t at = 0;
	for (size_t i = 0; fermata_request_header_at(request, i, &name, &value); i++) {
		if (i == CACHED_HEADERS_MAX || at + name.len >= last.names_len || memcmp(last.names + at, name.ptr, name.len) != 0 || last.names[at + name.len]) {
			return false;
		}
		values[i] = value;
		at += name.len + 1;
	}
	return at == last.names_len && at;
}

/* Caches the slot of each entry for the next request. Does nothing if two headers share a slot. */
static void keep_last(zend_array *params, const fermata_request *request)
{
	char key[HEADER_NAME_BYTES_MAX + 8];
	FmStr name, value, subject, pem;
	forget_last();
	for (size_t i = 0; i < NAMES; i++) {
		last.known[i] = zend_hash_find_known_hash(params, known.names[i]);
	}
	for (size_t i = 0; i < CACHED_HEADERS_MAX && fermata_request_header_at(request, i, &name, &value); i++) {
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
	last.script = script_name(params);
}

/* Replaces a value. The caller allocates the new value first. If that allocation exceeds memory_limit, the old entry is still
 * valid. */
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

/* Returns true if the request adds entries for a body or for a path after the script. */
static bool has_own_entries(const FmEvent *event, FmStr uri, const zend_string *script)
{
	return event->body.len || event->upload || path_info(uri, script);
}

/* Updates the array of the previous request and returns a reference to it; NULL if the array cannot be reused. */
static zend_array *change_last(const fermata_request *request, zend_array *others, const FmStr *values)
{
	const FmEvent *event = &request->event;
	FmStr subject, pem, protocol, host = fermata_request_host(request);
	FmStr uri = request_uri(event->target);
	bool is_free = last.params && GC_REFCOUNT(last.params) == 1 && others == without_headers;
	if (!is_free || has_own_entries(event, uri, last.script) || last.is_secure != fermata_request_tls(request, &subject, &pem) || !host.len != !last.known[HTTP_HOST]) {
		return NULL;
	}
	for (size_t i = 0; i < last.headers_len; i++) {
		if (EXPECTED(last.headers[i])) {
			change_text(last.headers[i], values[i]);
		}
	}
	uint16_t port;
	change_text(last.known[REQUEST_METHOD], event->method);
	change_text(last.known[REQUEST_URI], uri);
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
	set_time(last.known[REQUEST_TIME], last.known[REQUEST_TIME_FLOAT]);
	GC_ADDREF(last.params);
	return last.params;
}

/* Returns the same entries as server_params(), if possible in the array of the previous request. */
static zend_array *server_global(const fermata_request *request, zend_array *others)
{
	FmStr values[CACHED_HEADERS_MAX];
	bool is_as_before = has_same_names(request, values);
	zend_array *params = is_as_before ? change_last(request, others, values) : NULL;
	if (EXPECTED(params)) {
		return params;
	}
	params = server_params(request, others);
	bool is_plain = !has_own_entries(&request->event, request_uri(request->event.target), script_name(others));
	if (is_as_before && is_plain && others && others == without_headers) {
		/* Cache only after two such requests in a row. With alternating clients, cached slots would never be used. */
		keep_last(params, request);
	} else {
		forget_last();
		note_names(request);
	}
	return params;
}

/* Superglobals */

/* Sets a superglobal, and takes ownership of the reference. If the old and new arrays are both empty, keeps the old one. */
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

/* Adds one property of a file to $_FILES. Brackets of the field name are placed after the property: $_FILES['a']['name'][0]. */
static void add_file_part(fermata_collisions *collisions, zval *files, FmStr field, const char *key, zval *value)
{
	const char *bracket = memchr(field.ptr, '[', field.len);
	size_t base = bracket && field.ptr[field.len - 1] == ']' ? (size_t)(bracket - field.ptr) : field.len;
	smart_str name = {0};
	smart_str_appendl(&name, field.ptr, base);
	smart_str_appendc(&name, '[');
	smart_str_appends(&name, key);
	smart_str_appendc(&name, ']');
	smart_str_appendl(&name, field.ptr + base, field.len - base);
	smart_str_0(&name);
	if (EXPECTED(!collisions->is_over && fermata_collisions_allow_variable(collisions, Z_ARRVAL_P(files), ZSTR_VAL(name.s)))) {
		php_register_variable_ex(ZSTR_VAL(name.s), value, files);
	} else {
		zval_ptr_dtor_str(value);
	}
	smart_str_free(&name);
}

/* Returns true if the brackets in the name are balanced and adjacent, as PHP requires. With a name such as `a[]b`, a client could
 * set entries that applications read as a file's name or path. */
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

/* Adds an entry with UPLOAD_ERR_NO_FILE for a file field for which no file was chosen. */
static void add_unchosen(fermata_collisions *collisions, zval *files, FmStr field)
{
	static const char *const empty[] = {"name", "full_path", "type", "tmp_name"};
	zval value;
	for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
		ZVAL_EMPTY_STRING(&value);
		add_file_part(collisions, files, field, empty[i], &value);
	}
	ZVAL_LONG(&value, UPLOAD_NO_FILE);
	add_file_part(collisions, files, field, "error", &value);
	ZVAL_LONG(&value, 0);
	add_file_part(collisions, files, field, "size", &value);
}

/* Returns $_FILES. The entry of a file larger than `bytes_max` has an error instead of the content. After too many colliding
 * names, an exception is pending. */
static zend_array *file_arrays(const fermata_request *request, uint64_t bytes_max)
{
	FmUploadedFile file;
	FmStr unchosen;
	size_t next_unchosen = 0, files_before = 0;
	fermata_collisions collisions;
	zval files, value;
	bool has_upload = fermata.worker && request->event.upload;
	if (EXPECTED(!has_upload)) {
		return empty();
	}
	array_init(&files);
	fermata_collisions_begin(&collisions);
	fermata_quiet_begin();
	for (size_t i = 0;; i++) {
		/* Keep the order of the form: of several fields with one name the last applies, and name[] numbers its elements in
		 * order. */
		while (fm_upload_unchosen_at(fermata.worker, request->event.upload, next_unchosen, &unchosen, &files_before)
			&& files_before == i) {
			if (field_has_place(unchosen)) {
				add_unchosen(&collisions, &files, unchosen);
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
		add_file_part(&collisions, &files, file.field, "name", &value);
		ZVAL_STRINGL(&value, file.name.ptr, file.name.len);
		add_file_part(&collisions, &files, file.field, "full_path", &value);
		ZVAL_STRINGL(&value, file.content_type.ptr ? file.content_type.ptr : "", file.content_type.ptr ? file.content_type.len : 0);
		add_file_part(&collisions, &files, file.field, "type", &value);
		if (UNEXPECTED(file.bytes > bytes_max)) {
			ZVAL_EMPTY_STRING(&value);
			add_file_part(&collisions, &files, file.field, "tmp_name", &value);
			ZVAL_LONG(&value, UPLOAD_INI_SIZE);
			add_file_part(&collisions, &files, file.field, "error", &value);
			ZVAL_LONG(&value, 0);
			add_file_part(&collisions, &files, file.field, "size", &value);
			continue;
		}
		ZVAL_STRINGL(&value, file.path.ptr, file.path.len);
		/* move_uploaded_file() accepts only files listed here. */
		if (!SG(rfc1867_uploaded_files)) {
			ALLOC_HASHTABLE(SG(rfc1867_uploaded_files));
			zend_hash_init(SG(rfc1867_uploaded_files), 8, NULL, NULL, 0);
		}
		zend_hash_add_ptr(SG(rfc1867_uploaded_files), Z_STR(value), Z_STR(value));
		add_file_part(&collisions, &files, file.field, "tmp_name", &value);
		ZVAL_LONG(&value, 0);
		add_file_part(&collisions, &files, file.field, "error", &value);
		ZVAL_LONG(&value, (zend_long)file.bytes);
		add_file_part(&collisions, &files, file.field, "size", &value);
	}
	fermata_quiet_end();
	if (UNEXPECTED(collisions.is_over && !EG(exception))) {
		fermata_collisions_refuse("there are too many");
	}
	return Z_ARR(files);
}

/* Returns false if a limit is reached, so no more cookies may be added. */
static bool add_cookies(fermata_collisions *collisions, zval *cookies, zend_string *line, zend_long *left)
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
		if (UNEXPECTED(!fermata_collisions_allow_variable(collisions, Z_ARRVAL_P(cookies), name))) {
			zval_ptr_dtor_str(&value);
			return false;
		}
		php_register_variable_ex(name, &value, cookies);
	}
	return true;
}

/* Returns $_COOKIE. Names follow PHP's rules for form fields: `a[b]` is an array element, `a.b` becomes a_b. After too many
 * colliding names, an exception is pending. */
static zend_array *cookie_arrays(const fermata_request *request)
{
	zval cookies, before;
	FmStr line;
	zend_long left = PG(max_input_vars);
	if (EXPECTED(!fermata_request_header(request, FERMATA_LITERAL("cookie"), 0, &line))) {
		return empty();
	}
	fermata_collisions collisions;
	array_init(&cookies);
	fermata_collisions_begin(&collisions);
	fermata_quiet_begin();
	/* PHP looks up names in this array: of several cookies with one name it keeps the first, which has the longest path. */
	ZVAL_COPY_VALUE(&before, &PG(http_globals)[TRACK_VARS_COOKIE]);
	ZVAL_COPY_VALUE(&PG(http_globals)[TRACK_VARS_COOKIE], &cookies);
	bool goes_on = true;
	for (size_t i = 0; goes_on && fermata_request_header(request, FERMATA_LITERAL("cookie"), i, &line); i++) {
		zend_string *copy = zend_string_init(line.len ? line.ptr : "", line.len, false);
		goes_on = add_cookies(&collisions, &cookies, copy, &left);
		zend_string_release(copy);
	}
	ZVAL_COPY_VALUE(&PG(http_globals)[TRACK_VARS_COOKIE], &before);
	fermata_quiet_end();
	if (UNEXPECTED(collisions.is_over && !EG(exception))) {
		fermata_collisions_refuse("there are too many");
	}
	return Z_ARR(cookies);
}

/* Returns $_REQUEST, merged in the order of the PHP setting request_order. */
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

/* Returns true for POST, the only method for which PHP reads forms. Methods are case-sensitive. */
static bool is_post(const fermata_request *request)
{
	FmStr method = request->event.method;
	return method.len == 4 && memcmp(method.ptr, "POST", 4) == 0;
}

/* Returns true for a multipart form that the core has already parsed, so that its raw bytes no longer exist. */
static ZEND_COLD bool is_taken_apart(const fermata_request *request)
{
	FmStr path;
	return !fermata_request_arrives(request) && fermata.worker && !fm_upload_body(fermata.worker, request->event.upload, &path);
}

static void open_input(fermata_request *request)
{
	if (fermata_request_arrives(request)) {
		return;
	}
	/* Without a body, php://input creates its own stream when it is opened. */
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
	fermata_fiber *fiber = fermata_this_fiber();
	if (!fermata.handling || !fiber || request != fermata_this_request() || fiber->future || !fermata_turns_are_single()) {
		fermata_misuse("the superglobals show one request for a process: call fillGlobals() on the request of a handler, in a server with"
			" Limits(handlers: 1)");
		RETURN_THROWS();
	}
	if (fermata_has_request(fiber)) {
		return;
	}
	zend_array *get = fermata_request_queries(request);
	bool has_form = is_post(request) && !fermata_request_arrives(request);
	zend_array *post = has_form ? shared(fermata_request_forms(request)) : empty();
	zend_array *cookies = EG(exception) ? empty() : cookie_arrays(request);
	if (EG(exception)) {
		zend_array_release(post);
		zend_array_release(cookies);
		RETURN_THROWS();
	}
	if (UNEXPECTED(request->event.upload && !has_form && is_taken_apart(request))) {
		fermata_warn_once("a multipart body of another method than POST is in no superglobal, as under PHP-FPM, and not in php://input"
			" either; read Request::form() and Request::files()");
	}
	fiber->touched |= FERMATA_TOUCHED;
	fermata_changes_note_http();
	SG(sapi_headers).http_response_code = STATUS_OK;
	zend_array *params = server_global(request, others);
	shown_params = shared(params);
	set_global(FERMATA_SERVER, params);
	set_global(FERMATA_REQUEST, request_array(get, post, cookies));
	set_global(FERMATA_GET, shared(get));
	set_global(FERMATA_POST, post);
	set_global(FERMATA_COOKIE, cookies);
	set_global(FERMATA_FILES, has_form ? file_arrays(request, upload_bytes_null ? UINT64_MAX : (uint64_t)upload_bytes) : empty());
	open_input(request);
}

/* Input for filter_input() and getenv() */

zend_array *fermata_globals_query(void)
{
	return shared(fermata_request_queries(fermata_this_request()));
}

zend_array *fermata_globals_form(void)
{
	fermata_request *request = fermata_this_request();
	return is_post(request) && !fermata_request_arrives(request) ? shared(fermata_request_forms(request)) : empty();
}

zend_array *fermata_globals_cookies(void)
{
	return cookie_arrays(fermata_this_request());
}

zend_array *fermata_globals_params(void)
{
	return shown_params ? shared(shown_params) : empty();
}

ZEND_METHOD(Fermata_Request, deferAnswer)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (THIS_REQUEST() == fermata_this_request() && fermata_has_globals()) {
		slot(fermata_this_fiber())->defers_answer = true;
	}
}

ZEND_METHOD(Fermata_Request, takeOutput)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (EXPECTED(THIS_REQUEST() != fermata_this_request() || !fermata_printed_something())) {
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
	/* Remove the callable of header_register_callback(). */
	zval callback;
	ZVAL_COPY_VALUE(&callback, &SG(callback_func));
	ZVAL_UNDEF(&SG(callback_func));
	zval_ptr_dtor(&callback);
}

/* Returns true for a php://input stream of this request. Such a stream reads from the body's stream, which it does not own, and to
 * which its first field points. A php://input stream that the script opened before run() has another body. */
static bool is_input(const zend_resource *resource)
{
	const php_stream *stream = resource->type == php_file_le_stream() ? resource->ptr : NULL;
	/* Compare labels instead of addresses, since standard_error.c installs a copy of PHP's wrapper. */
	return stream && stream->wrapper && stream->wrapper->wops->label == php_stream_php_wrapper.wops->label && strcmp(stream->ops->label, "Input") == 0
		&& *(php_stream *const *)stream->abstract == SG(request_info).request_body;
}

/* Bodies whose handler has returned while a task still runs. The task may wait in the middle of a read. */
typedef struct left_body {
	struct left_body *next;
	uint64_t family; /* id of the handler and its tasks */
	zend_array *inputs;
	php_stream *body;
} left_body;
static left_body *left_bodies;

static bool is_left(const zend_resource *resource)
{
	zval *input;
	for (const left_body *it = left_bodies; UNEXPECTED(it); it = it->next) {
		ZEND_HASH_FOREACH_VAL(it->inputs, input) {
			if (Z_RES_P(input) == resource) {
				return true;
			}
		} ZEND_HASH_FOREACH_END();
	}
	return false;
}

/* Returns the open php://input streams of this request; NULL if there are none. */
static zend_array *find_inputs(void)
{
	zend_resource *resource;
	zval found;
	zend_array *inputs = NULL;
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (UNEXPECTED(is_input(resource)) && !is_left(resource)) {
			inputs = inputs ? inputs : zend_new_array(0);
			GC_ADDREF(resource);
			ZVAL_RES(&found, resource);
			zend_hash_next_index_insert_new(inputs, &found);
		}
	} ZEND_HASH_FOREACH_END();
	return inputs;
}

/* Closes the body, and the php://input streams that the application has left open. Stream filters may call PHP code that opens
 * further streams. */
static void close_body(zend_array *inputs, php_stream *body)
{
	zval *input;
	if (UNEXPECTED(inputs)) {
		ZEND_HASH_FOREACH_VAL(inputs, input) {
			zend_list_close(Z_RES_P(input));
		} ZEND_HASH_FOREACH_END();
		zend_array_release(inputs);
	}
	php_stream_close(body);
}

/* Closes the bodies whose tasks have finished. If `all`, closes all bodies, because the script has finished. */
static void close_left_bodies(bool all)
{
	left_body **at = &left_bodies;
	while (UNEXPECTED(*at)) {
		left_body *it = *at;
		if (!all && fermata_family_has_tasks(it->family)) {
			at = &it->next;
			continue;
		}
		*at = it->next;
		close_body(it->inputs, it->body);
		efree(it);
		/* Start again, since stream filters may have called PHP code that changed the list. */
		at = &left_bodies;
	}
}

static void end_body(const fermata_fiber *fiber)
{
	php_stream *body = SG(request_info).request_body;
	close_left_bodies(false);
	if (EXPECTED(!body)) {
		return;
	}
	zend_array *inputs = find_inputs();
	SG(request_info).request_body = NULL;
	if (EXPECTED(!inputs || !fermata_family_has_tasks(fiber->family))) {
		close_body(inputs, body);
		return;
	}
	left_body *left = emalloc(sizeof(left_body));
	*left = (left_body){left_bodies, fiber->family, inputs, body};
	left_bodies = left;
}

/* Cleans up after the handler, before its changes to PHP's state are undone. */
static ZEND_COLD void end(fermata_fiber *fiber)
{
	fermata_session_end();
	if (UNEXPECTED(!Z_ISUNDEF(SG(callback_func)))) {
		fermata_warn_once("the function that header_register_callback() was given was not called: this response takes no headers from"
			" header()");
	}
	fermata_changes_hide_request(fiber);
	slot(fiber)->defers_answer = false;
	release_params();
	fermata_printed_end();
	clear_headers();
	end_body(fiber);
	SG(post_read) = false;
	/* Free only the list of files. The core removes the files themselves. */
	if (SG(rfc1867_uploaded_files)) {
		zend_hash_destroy(SG(rfc1867_uploaded_files));
		FREE_HASHTABLE(SG(rfc1867_uploaded_files));
		SG(rfc1867_uploaded_files) = NULL;
	}
}

/* Cleans up when the script has finished. After a fatal error, PHP's heap is unusable, so bodies stay open. */
void fermata_globals_request_end(void)
{
	if (EXPECTED(!fermata_is_retired())) {
		close_left_bodies(true);
	}
	fermata_globals_forget();
}

/* Sends the response before the handler's shutdown functions run, because they may take long. */
static void on_return(fermata_fiber *fiber)
{
	if (!fermata_has_request(fiber) || !fermata_has_shutdown_functions(fiber)) {
		return;
	}
	if (EXPECTED(fermata_is_whole())) {
		/* Defer only if no other shutdown function is registered, since others may take any time. */
		if (slot(fiber)->defers_answer && zend_hash_num_elements(BG(user_shutdown_function_names)) == 1) {
			return;
		}
		fermata_request_keep(fermata_this_request());
		fm_send_answers(fermata.worker);
		return;
	}
	if (fermata_wait_obstacle()) {
		return;
	}
	/* The loop generates the remaining pieces of the body. The scope protects the wait from a client that leaves. */
	fermata_scope scope = {.is_shield = true, .is_own = true, .due_ms = FERMATA_NEVER, .owner = fiber, .inside = EG(active_fiber),
		.outer = fiber->scope, .begun_at = fermata_clock()};
	fiber->scope = &scope;
	fiber->touched |= FERMATA_TOUCHED;
	fermata_fibers_end_turn();
	fermata_wait(fm_worker_now_ms(fermata.worker));
	fiber->scope = scope.outer;
	if (EG(exception) && !fiber->dying) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
}

static bool on_undo(fermata_fiber *fiber)
{
	if (!fermata_has_request(fiber)) {
		return false;
	}
	end(fiber);
	return true;
}

/* exit() */

/* Called after exit(): sends the printed output with the status and headers that were set, as PHP-FPM does. */
static bool answers_exit(const fermata_handler *handler)
{
	if (!fermata_has_globals()) {
		return false;
	}
	if (UNEXPECTED(!fermata_headers_leave())) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
	fermata_response *response = fermata_response_sent(fermata_printed_take());
	fermata_respond(handler, response);
	OBJ_RELEASE(&response->std);
	return true;
}

static fermata_part part = {.size = sizeof(slot_of_globals), .on_return = on_return, .on_undo = on_undo,
	.answers_exit = answers_exit};

void fermata_globals_init_part(void)
{
	fermata_part_register(&part);
}
