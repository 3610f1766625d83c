/* Cookies (RFC 6265): parses Cookie headers into an array and builds Set-Cookie lines. */
#include "http/http.h"
#include "ext/standard/url.h"
#include "zend_smart_str.h"
#include "base/optimize_size.h"

/* Cookie */

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

/* Adds the name-value pairs of one header line. */
void fermata_cookies_parse(zend_array *cookies, FmStr line)
{
	const char *start = line.ptr, *end = line.ptr + line.len;
	/* The setting max_input_vars limits cookies as it limits form fields. Further cookies are skipped. */
	while (start < end && zend_hash_num_elements(cookies) < (uint32_t)PG(max_input_vars)) {
		const char *semicolon = memchr(start, ';', end - start);
		add_cookie(cookies, start, semicolon ? semicolon : end);
		start = semicolon ? semicolon + 1 : end;
	}
}

/* Set-Cookie */

/* Returns true if the value ends neither its attribute nor the line. Otherwise returns false with an exception pending. */
static bool attribute_check(const char *what, const zend_string *value)
{
	for (size_t i = 0; i < ZSTR_LEN(value); i++) {
		unsigned char byte = (unsigned char)ZSTR_VAL(value)[i];
		if (byte < 0x20 || byte > 0x7e || byte == ';' || byte == ',') {
			fermata_misuse("the %s of a cookie must be printable ASCII without \";\" and \",\"", what);
			return false;
		}
	}
	return true;
}

static bool has_prefix(const zend_string *name, const char *prefix)
{
	size_t len = strlen(prefix);
	/* Browsers ignore the case of these prefixes. */
	return ZSTR_LEN(name) >= len && zend_binary_strcasecmp(ZSTR_VAL(name), len, prefix, len) == 0;
}

/* Checks the requirements on names with the prefix __Secure- or __Host- (RFC 6265bis, section 4.1.3). Browsers drop cookies that
 * violate them. */
static bool prefix_check(const fermata_cookie *cookie)
{
	bool is_host = has_prefix(cookie->name, "__Host-");
	if ((is_host || has_prefix(cookie->name, "__Secure-")) && !cookie->secure) {
		fermata_misuse("browsers drop the cookie %s unless it is secure; pass secure: true", ZSTR_VAL(cookie->name));
		return false;
	}
	if (is_host && (cookie->domain || (cookie->path && !zend_string_equals_literal(cookie->path, "/")))) {
		fermata_misuse("browsers drop the cookie %s unless its path is / and it has no domain", ZSTR_VAL(cookie->name));
		return false;
	}
	return true;
}

static bool cookie_check(const fermata_cookie *cookie)
{
	/* The name must be a token, as for a header (RFC 6265, section 4.1.1). */
	if (!fm_header_valid(fermata_str(cookie->name), FERMATA_LITERAL(""))) {
		fermata_misuse("a cookie name must be a token: letters, digits and !#$%%&'*+-.^_`|~");
		return false;
	}
	if ((cookie->path && !attribute_check("path", cookie->path))
		|| (cookie->domain && !attribute_check("domain", cookie->domain))) {
		return false;
	}
	if (cookie->same_site && zend_string_equals_literal(cookie->same_site, "None") && !cookie->secure) {
		fermata_misuse("browsers drop a SameSite::None cookie that is not secure; pass secure: true");
		return false;
	}
	if (cookie->partitioned && !cookie->secure) {
		fermata_misuse("browsers drop a partitioned cookie that is not secure; pass secure: true");
		return false;
	}
	return prefix_check(cookie);
}

static void append_or(smart_str *line, const char *attribute, zend_string *value, const char *otherwise)
{
	smart_str_appends(line, attribute);
	if (value) {
		smart_str_append(line, value);
	} else {
		smart_str_appends(line, otherwise);
	}
}

/* Returns the Set-Cookie value; NULL with a MisuseError pending. */
zend_string *fermata_cookie_line(const fermata_cookie *cookie)
{
	if (!cookie_check(cookie)) {
		return NULL;
	}
	smart_str line = {0};
	zend_string *encoded = php_raw_url_encode(ZSTR_VAL(cookie->value), ZSTR_LEN(cookie->value));
	smart_str_append(&line, cookie->name);
	smart_str_appendc(&line, '=');
	smart_str_append(&line, encoded);
	zend_string_release(encoded);
	if (cookie->has_max_age) {
		smart_str_appends(&line, "; Max-Age=");
		smart_str_append_long(&line, MAX(cookie->max_age, 0));
	}
	append_or(&line, "; Path=", cookie->path, "/");
	if (cookie->domain) {
		append_or(&line, "; Domain=", cookie->domain, "");
	}
	smart_str_appends(&line, cookie->secure ? "; Secure" : "");
	smart_str_appends(&line, cookie->http_only ? "; HttpOnly" : "");
	append_or(&line, "; SameSite=", cookie->same_site, "Lax");
	smart_str_appends(&line, cookie->partitioned ? "; Partitioned" : "");
	return smart_str_extract(&line);
}
