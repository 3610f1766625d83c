/* Encodes and decodes JSON with the options that Fermata's methods document. */
#include "base/collisions.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include "ext/json/php_json.h"
#include "ext/json/php_json_parser.h"

#define FERMATA_JSON_OPTIONS (PHP_JSON_UNESCAPED_SLASHES | PHP_JSON_UNESCAPED_UNICODE)

/* Throws the JsonException of json_encode(). Its texts are private to ext/json, but json_last_error_msg() returns them. */
static ZEND_COLD void throw_json_error(void)
{
	zval name, message;
	zend_class_entry *ce = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("jsonexception"));
	ZVAL_STRING(&name, "json_last_error_msg");
	ZVAL_UNDEF(&message);
	call_user_function(NULL, NULL, &name, &message, 0, NULL);
	zval_ptr_dtor(&name);
	zend_throw_exception(ce ? ce : zend_ce_exception,
		Z_TYPE(message) == IS_STRING ? Z_STRVAL(message) : "JSON error", (zend_long)JSON_G(error_code));
	zval_ptr_dtor(&message);
}

/* Small values
 *
 * ext/json grows its buffer from nothing and checks strings byte by byte. Nested arrays of plain values, the content of most
 * responses, are first encoded into a buffer on the stack, eight bytes at a time. If a value is not plain or the buffer is full,
 * ext/json encodes everything from the start, so the output is always the same. */

#define SMALL_BYTES_MAX 512
#define SMALL_DEPTH_MAX 8
#define LONG_BYTES_MAX 32

typedef struct small {
	char *at, *end;
	uint32_t depth;
} small;

static zend_always_inline bool put_bytes(small *out, const char *bytes, size_t len)
{
	if (UNEXPECTED(len > (size_t)(out->end - out->at))) {
		return false;
	}
	memcpy(out->at, bytes, len);
	out->at += len;
	return true;
}

static zend_always_inline bool put_byte(small *out, char byte)
{
	if (UNEXPECTED(out->at == out->end)) {
		return false;
	}
	*out->at++ = byte;
	return true;
}

#define ONES (~(uint64_t)0 / 255)

/* Returns true if one of eight bytes must be escaped or is not ASCII. A carry can mark a byte wrongly, but only next to a byte that
 * is marked correctly. */
static zend_always_inline bool has_special(uint64_t word)
{
	uint64_t quote = word ^ (ONES * '"'), backslash = word ^ (ONES * '\\');
	return ((word | (word - ONES * 0x20) | (quote - ONES) | (backslash - ONES)) & (ONES * 0x80)) != 0;
}

/* Returns false if the buffer is full, or if the string contains a byte that ext/json would escape.
 *
 * Reads whole words: the allocation of a string ends on a word boundary after its NUL. */
static bool put_string(small *out, const zend_string *string)
{
#ifdef WORDS_BIGENDIAN
	return false;
#else
	const char *from = ZSTR_VAL(string);
	size_t len = ZSTR_LEN(string);
	char *to = out->at;
	uint64_t word;
	if (UNEXPECTED(len + 2 + sizeof(word) > (size_t)(out->end - to))) {
		return false;
	}
	*to++ = '"';
	for (; len >= sizeof(word); from += sizeof(word), to += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		if (UNEXPECTED(has_special(word))) {
			return false;
		}
		memcpy(to, &word, sizeof(word));
	}
	memcpy(&word, from, sizeof(word));
	word &= ((uint64_t)1 << (8 * len)) - 1;
	/* Pad the last word with plain bytes. */
	if (UNEXPECTED(has_special(word | (ONES * 'a') << (8 * len)))) {
		return false;
	}
	memcpy(to, &word, sizeof(word));
	to += len;
	*to++ = '"';
	out->at = to;
	return true;
#endif
}

static bool put_long(small *out, zend_long number)
{
	char digits[LONG_BYTES_MAX];
	char *end = digits + sizeof(digits) - 1;
	char *start = zend_print_long_to_buf(end, number);
	return put_bytes(out, start, (size_t)(end - start));
}

static bool put_value(small *out, zval *value);

static bool put_array(small *out, zend_array *array)
{
	zend_ulong index;
	zend_string *key;
	zval *value;
	bool is_list = zend_array_is_list(array), is_first = true;
	if (UNEXPECTED(out->depth == SMALL_DEPTH_MAX) || !put_byte(out, is_list ? '[' : '{')) {
		return false;
	}
	out->depth++;
	ZEND_HASH_FOREACH_KEY_VAL(array, index, key, value) {
		if (!is_first && !put_byte(out, ',')) {
			return false;
		}
		is_first = false;
		if (!is_list) {
			if (EXPECTED(key)) {
				if (!put_string(out, key)) {
					return false;
				}
				/* No check is needed: put_string() requires room for a word more than it writes. */
				*out->at++ = ':';
			} else if (!put_byte(out, '"') || !put_long(out, (zend_long)index) || !put_bytes(out, "\":", 2)) {
				return false;
			}
		}
		/* Most values are strings. */
		if (!(EXPECTED(Z_TYPE_P(value) == IS_STRING) ? put_string(out, Z_STR_P(value)) : put_value(out, value))) {
			return false;
		}
	} ZEND_HASH_FOREACH_END();
	out->depth--;
	return put_byte(out, is_list ? ']' : '}');
}

static bool put_value(small *out, zval *value)
{
	switch (Z_TYPE_P(value)) {
		case IS_STRING: return put_string(out, Z_STR_P(value));
		case IS_LONG: return put_long(out, Z_LVAL_P(value));
		case IS_ARRAY: return put_array(out, Z_ARR_P(value));
		case IS_TRUE: return put_bytes(out, "true", 4);
		case IS_FALSE: return put_bytes(out, "false", 5);
		case IS_NULL: return put_bytes(out, "null", 4);
		default: return false;
	}
}

/* Encodes a value. Returns NULL with an exception pending. A large string is the encoder's buffer itself and is not copied. */
zend_string *fermata_json_encode(zval *data)
{
	char bytes[SMALL_BYTES_MAX];
	small out = {bytes, bytes + sizeof(bytes), 0};
	if (EXPECTED(put_value(&out, data))) {
		JSON_G(error_code) = PHP_JSON_ERROR_NONE;
		return zend_string_init(bytes, (size_t)(out.at - bytes), false);
	}
	smart_str buffer = {0};
	zend_result result = php_json_encode_ex(&buffer, data, FERMATA_JSON_OPTIONS, PHP_JSON_PARSER_DEFAULT_DEPTH);
	/* For INF and NAN the encoder writes 0 and returns success; only the error code reports the failure. */
	if (EXPECTED(result == SUCCESS && JSON_G(error_code) == PHP_JSON_ERROR_NONE && !EG(exception))) {
		smart_str_0(&buffer);
		return buffer.s ? buffer.s : ZSTR_EMPTY_ALLOC();
	}
	smart_str_free(&buffer);
	if (!EG(exception)) {
		throw_json_error();
	}
	return NULL;
}

/* Decoding */

typedef struct counted_parser {
	php_json_parser parser; /* first field: PHP's functions receive this pointer */
	php_json_parser_func_object_update_t update;
	fermata_collisions collisions;
} counted_parser;

static int update_counted(php_json_parser *parser, zval *object, zend_string *name, zval *value)
{
	counted_parser *counted = (counted_parser *)parser;
	if (UNEXPECTED(!fermata_collisions_allow(&counted->collisions, Z_ARRVAL_P(object), name))) {
		zend_string_release(name);
		zval_ptr_dtor(value);
		zval_ptr_dtor(object);
		fermata_collisions_refuse("the JSON has too many member");
		return FAILURE;
	}
	return counted->update(parser, object, name, value);
}

/* Decodes JSON; objects become arrays. Returns false with a JsonException pending, or a BadRequestException for colliding names. */
bool fermata_json_decode(zval *result, const zend_string *text)
{
	counted_parser counted;
	php_json_parser *parser = &counted.parser;
	php_json_parser_init(parser, result, ZSTR_VAL(text), ZSTR_LEN(text), PHP_JSON_OBJECT_AS_ARRAY, PHP_JSON_PARSER_DEFAULT_DEPTH);
	counted.update = parser->methods.object_update;
	parser->methods.object_update = update_counted;
	fermata_collisions_begin(&counted.collisions);
	if (EXPECTED(!php_json_parse(parser))) {
		return true;
	}
	ZVAL_NULL(result);
	if (!EG(exception)) {
		JSON_G(error_code) = php_json_parser_error_code(parser);
		throw_json_error();
		JSON_G(error_code) = PHP_JSON_ERROR_NONE;
	}
	return false;
}
