/* Helpers for all folders of the extension: text, exceptions, class entries, callables. Depends on no server or request. */
#ifndef FERMATA_BASE_H
#define FERMATA_BASE_H

#include "php.h"
#include "zend_smart_str_public.h"
#include "fermata_core.h"
#include "base/versions.h"
#include "base/classes.h"

/* The struct that contains the zend_object as its field `std`. */
#define FERMATA_FROM(type, object) ((type *)((char *)(object) - XtOffsetOf(type, std)))

static zend_always_inline FmStr fermata_str(const zend_string *string)
{
	return (FmStr){ZSTR_VAL(string), ZSTR_LEN(string)};
}

static zend_always_inline FmStr fermata_str_or_absent(const zend_string *string)
{
	return string ? fermata_str(string) : (FmStr){NULL, 0};
}

/* Writes prefix and string, cut to size - 1 bytes and NUL-terminated, and returns the length. PHP's printf functions call strlen()
 * even for "%.*s", so they must never receive a string of the core. */
static zend_always_inline size_t fermata_copy(char *to, size_t size, const char *prefix, FmStr string)
{
	size_t prefix_len = MIN(strlen(prefix), size - 1), len = MIN(string.len, size - 1 - prefix_len);
	memcpy(to, prefix, prefix_len);
	if (len) {
		memcpy(to + prefix_len, string.ptr, len);
	}
	to[prefix_len + len] = '\0';
	return prefix_len + len;
}

#define FERMATA_LITERAL(text) ((FmStr){(text), sizeof(text) - 1})

/* Compares header names without regard to case. */
static zend_always_inline bool fermata_str_equals_ci(FmStr one, FmStr other)
{
	return one.len == other.len && zend_binary_strcasecmp(one.ptr, one.len, other.ptr, other.len) == 0;
}

/* exceptions.c */
ZEND_COLD void fermata_throw(uint32_t code, const FmError *error);
ZEND_COLD void fermata_misuse(const char *format, ...) ZEND_ATTRIBUTE_FORMAT(printf, 1, 2);
ZEND_COLD bool fermata_constructed_twice(void);
FmStr fermata_exception_string(zend_object *exception, zend_known_string_id name);
uint32_t fermata_exception_line(zend_object *exception);
zend_long fermata_exception_code(zend_object *exception);
smart_str fermata_exception_text(zend_object *exception, bool with_place);
smart_str fermata_exception_trace(zend_object *exception);
bool fermata_exception_comes_of(zend_object *exception, const zend_class_entry *class);

static zend_always_inline FmStr fermata_str_or_empty(const zend_string *string)
{
	return string ? fermata_str(string) : FERMATA_LITERAL("");
}

/* Returns true if more than one reference, or a weak reference, refers to the object. Such an object must not be reused. */
static zend_always_inline bool fermata_held_by_others(const zend_object *object)
{
	return GC_REFCOUNT(object) > 1 || (OBJ_FLAGS(object) & IS_OBJ_WEAKLY_REFERENCED);
}

/* json.c */
zend_string *fermata_json_encode(zval *data);
bool fermata_json_decode(zval *result, const zend_string *text);

/* headers.c: checked header lines from PHP code */
typedef struct fermata_headers {
	uint32_t len, capacity;
	struct {
		zend_string *name, *value;
	} at[1];
} fermata_headers;
bool fermata_header_check(const zend_string *name, const zend_string *value);
void fermata_headers_add(fermata_headers **headers, zend_string *name, zend_string *value);
void fermata_headers_remove(fermata_headers *headers, const zend_string *name);
fermata_headers *fermata_headers_copy(const fermata_headers *headers);
void fermata_headers_free(fermata_headers *headers);
void fermata_headers_fill(const fermata_headers *headers, FmHeader *out);
typedef bool (*fermata_header_add)(void *to, zend_string *name, zend_string *value); /* returns false with an exception pending */
bool fermata_headers_given(const char *argument, zend_array *given, fermata_header_add add, void *to);

/* parameters.c */
/* A callable from PHP code, as a closure. */
typedef struct fermata_handler {
	zval closure; /* owns the function of `call` */
	zend_fcall_info_cache call;
} fermata_handler;
/* Returns false if the callable cannot be called; an exception may be pending. */
bool fermata_handler_init(fermata_handler *handler, zval *callable);
typedef struct fermata_given {
	enum { FERMATA_GIVEN_ANY, FERMATA_GIVEN_INT, FERMATA_GIVEN_STRING, FERMATA_GIVEN_OBJECT } kind;
	zend_class_entry *const *ce; /* class of an object; an interface matches all classes that implement it */
} fermata_given;
#define FERMATA_GIVEN_OF(class) {FERMATA_GIVEN_OBJECT, &(class)}
/* Returns true if the callable accepts these arguments. As in PHP, arguments without a parameter are ignored. Returns false with a
 * MisuseError pending. */
bool fermata_handler_takes(const fermata_handler *handler, const char *what, const fermata_given *given, uint32_t len);

/* Returns true if the list is not empty and contains only strings; otherwise returns false with a TypeError pending. */
bool fermata_strings_check(HashTable *list, uint32_t argument);

/* opcache.c */
void fermata_opcache_set_time(time_t now);

/* clock.c: returns CLOCK_MONOTONIC in nanoseconds. */
uint64_t fermata_now_ns(void);

/* standard_streams.c */
/* Opens /dev/null for each closed descriptor from 0 to 2. Otherwise the next file or connection would get that number and receive
 * printed and logged text. */
void fermata_fill_standard_streams(void);
/* Keeps descriptors 0 to 2 open when PHP closes its streams for them, so that no file or connection gets their numbers. */
void fermata_keep_standard_streams(void);
/* Returns true if the path names standard error. */
bool fermata_is_standard_error(const char *path);

#endif
