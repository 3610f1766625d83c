/* Header lines for a response, from PHP code: a small vector, owned by one object. */
#include "base/base.h"

#define FERMATA_HEADERS_CAPACITY_MIN 4

static size_t headers_size(uint32_t capacity)
{
	return XtOffsetOf(fermata_headers, at) + capacity * sizeof(((fermata_headers *)0)->at[0]);
}

/* Checks a header line when it is set, so that the trace contains the line of the mistake. Returns false with a MisuseError
 * pending. */
bool fermata_header_check(const zend_string *name, const zend_string *value)
{
	if (UNEXPECTED(!fm_header_valid(fermata_str(name), fermata_str(value)))) {
		/* Quote the name only if it is a valid token, so that it cannot forge log lines. */
		if (fm_header_valid(fermata_str(name), FERMATA_LITERAL(""))) {
			fermata_misuse("the value of header \"%s\" has a line break or another control character", ZSTR_VAL(name));
		} else {
			fermata_misuse("a header name must be a token: letters, digits and !#$%%&'*+-.^_`|~");
		}
		return false;
	}
	if (UNEXPECTED(fm_header_reserved(fermata_str(name)))) {
		fermata_misuse("header \"%s\" frames the message and is the server's to send; leave it out", ZSTR_VAL(name));
		return false;
	}
	return true;
}

/* Adds a line. Takes references to both strings. */
void fermata_headers_add(fermata_headers **headers, zend_string *name, zend_string *value)
{
	fermata_headers *list = *headers;
	if (!list || list->len == list->capacity) {
		uint32_t capacity = list ? list->capacity * 2 : FERMATA_HEADERS_CAPACITY_MIN;
		uint32_t len = list ? list->len : 0;
		list = erealloc(list, headers_size(capacity));
		list->len = len;
		list->capacity = capacity;
		*headers = list;
	}
	list->at[list->len].name = zend_string_copy(name);
	list->at[list->len].value = zend_string_copy(value);
	list->len++;
}

/* Removes every line of this name, without regard to case. */
void fermata_headers_remove(fermata_headers *headers, const zend_string *name)
{
	if (!headers) {
		return;
	}
	uint32_t left = 0;
	for (uint32_t i = 0; i < headers->len; i++) {
		if (zend_string_equals_ci(headers->at[i].name, name)) {
			zend_string_release(headers->at[i].name);
			zend_string_release(headers->at[i].value);
		} else {
			headers->at[left++] = headers->at[i];
		}
	}
	headers->len = left;
}

fermata_headers *fermata_headers_copy(const fermata_headers *headers)
{
	if (!headers || !headers->len) {
		return NULL;
	}
	/* Room for one more line, because callers copy in order to add a line. */
	fermata_headers *copy = emalloc(headers_size(headers->len + 1));
	copy->len = headers->len;
	copy->capacity = headers->len + 1;
	for (uint32_t i = 0; i < headers->len; i++) {
		copy->at[i].name = zend_string_copy(headers->at[i].name);
		copy->at[i].value = zend_string_copy(headers->at[i].value);
	}
	return copy;
}

void fermata_headers_free(fermata_headers *headers)
{
	if (!headers) {
		return;
	}
	for (uint32_t i = 0; i < headers->len; i++) {
		zend_string_release(headers->at[i].name);
		zend_string_release(headers->at[i].value);
	}
	efree(headers);
}

/* Writes headers->len entries. */
void fermata_headers_fill(const fermata_headers *headers, FmHeader *out)
{
	for (uint32_t i = 0; headers && i < headers->len; i++) {
		out[i].name = fermata_str(headers->at[i].name);
		out[i].value = fermata_str(headers->at[i].value);
	}
}

static bool given_line(const char *argument, zend_string *name, zval *value, fermata_header_add add, void *to)
{
	if (UNEXPECTED(Z_TYPE_P(value) != IS_STRING)) {
		zend_type_error("%s must hold a string or a list of strings for \"%s\", %s given", argument, ZSTR_VAL(name),
			fermata_type_name(value));
		return false;
	}
	return add(to, name, Z_STR_P(value));
}

/* Adds header lines from an array<string, string|list<string>>; errors name `argument`. Returns false with an exception pending. */
bool fermata_headers_given(const char *argument, zend_array *given, fermata_header_add add, void *to)
{
	zend_string *name;
	zval *value, *line;
	ZEND_HASH_FOREACH_STR_KEY_VAL(given, name, value) {
		ZVAL_DEREF(value);
		if (UNEXPECTED(!name)) {
			zend_type_error("%s must have header names as keys", argument);
			return false;
		}
		if (Z_TYPE_P(value) != IS_ARRAY) {
			if (!given_line(argument, name, value, add, to)) {
				return false;
			}
			continue;
		}
		ZEND_HASH_FOREACH_VAL(Z_ARR_P(value), line) {
			ZVAL_DEREF(line);
			if (!given_line(argument, name, line, add, to)) {
				return false;
			}
		} ZEND_HASH_FOREACH_END();
	} ZEND_HASH_FOREACH_END();
	return true;
}
