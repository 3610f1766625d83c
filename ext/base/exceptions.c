/* Exceptions: maps error codes of the core to PHP exceptions, and formats handlers' exceptions for the log. */
#include "base/base.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include "base/optimize_size.h"

#define PREVIOUS_MAX 8 /* maximum previous exceptions in a log line */
#define TRACE_CALLS_MAX 50

ZEND_COLD void fermata_throw(uint32_t code, const FmError *error)
{
	zend_class_entry *ce;
	switch (code) {
		case FM_CONFIGURATION: ce = fermata_ce_configuration; break;
		case FM_MISUSE: ce = fermata_ce_misuse; break;
		case FM_BACKPRESSURE: ce = fermata_ce_backpressure; break;
		case FM_IO: ce = fermata_ce_connection; break;
		case FM_GONE: ce = fermata_ce_connection_closed; break;
		case FM_TIMEOUT: ce = fermata_ce_timeout; break;
		default: ce = zend_ce_error; break;
	}
	if (error->len) {
		char message[sizeof(error->message) + 1];
		fermata_copy(message, sizeof(message), "", (FmStr){error->message, error->len});
		zend_throw_exception(ce, message, 0);
	} else {
		zend_throw_exception_ex(ce, 0, "Fermata's core failed with code %u", code);
	}
}

ZEND_COLD void fermata_misuse(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	zend_string *message = zend_vstrpprintf(0, format, arguments);
	va_end(arguments);
	zend_throw_exception(fermata_ce_misuse, ZSTR_VAL(message), 0);
	zend_string_release(message);
}

/* Throws on a second call of __construct(), which would change an immutable object. */
ZEND_COLD bool fermata_constructed_twice(void)
{
	fermata_misuse("the object is already constructed; create a new one");
	return false;
}

/* Text for the log */

static zval *exception_property(zend_object *exception, zend_known_string_id name, zval *storage)
{
	zend_class_entry *base = instanceof_function(exception->ce, zend_ce_exception) ? zend_ce_exception : zend_ce_error;
	return zend_read_property_ex(base, exception, ZSTR_KNOWN(name), true, storage);
}

/* Subclasses may store any type in $message and $file; other types yield an empty string. */
FmStr fermata_exception_string(zend_object *exception, zend_known_string_id name)
{
	zval storage, *value = exception_property(exception, name, &storage);
	ZVAL_DEREF(value);
	return Z_TYPE_P(value) == IS_STRING ? fermata_str(Z_STR_P(value)) : FERMATA_LITERAL("");
}

uint32_t fermata_exception_line(zend_object *exception)
{
	zval storage, *value = exception_property(exception, ZEND_STR_LINE, &storage);
	ZVAL_DEREF(value);
	return Z_TYPE_P(value) == IS_LONG ? (uint32_t)Z_LVAL_P(value) : 0;
}

zend_long fermata_exception_code(zend_object *exception)
{
	zval storage, *value = exception_property(exception, ZEND_STR_CODE, &storage);
	ZVAL_DEREF(value);
	return Z_TYPE_P(value) == IS_LONG ? Z_LVAL_P(value) : 0;
}

static void append_str(smart_str *text, FmStr string)
{
	smart_str_appendl(text, string.ptr, string.len);
}

/* Returns the previous exception; NULL if there is none. */
static zend_object *previous_of(zend_object *exception)
{
	zval storage, *previous = exception_property(exception, ZEND_STR_PREVIOUS, &storage);
	ZVAL_DEREF(previous);
	return Z_TYPE_P(previous) == IS_OBJECT ? Z_OBJ_P(previous) : NULL;
}

/* Returns true if the exception, or one of its previous exceptions, is of this class. */
bool fermata_exception_comes_of(zend_object *exception, const zend_class_entry *class)
{
	for (uint32_t i = 0; exception && i < PREVIOUS_MAX; i++) {
		if (instanceof_function(exception->ce, class)) {
			return true;
		}
		exception = previous_of(exception);
	}
	return false;
}

/* Returns "Class: message, caused by Class: message in file:line". with_place adds the location of the first. The caller frees the
 * text. */
smart_str fermata_exception_text(zend_object *exception, bool with_place)
{
	smart_str text = {0};
	for (uint32_t i = 0; exception && i < PREVIOUS_MAX; i++) {
		if (i) {
			smart_str_appends(&text, ", caused by ");
		}
		/* Stop at NUL: the name of an anonymous class continues with its location, which the log line contains anyway. */
		smart_str_appends(&text, ZSTR_VAL(exception->ce->name));
		smart_str_appends(&text, ": ");
		append_str(&text, fermata_exception_string(exception, ZEND_STR_MESSAGE));
		if (i || with_place) {
			smart_str_appends(&text, " in ");
			append_str(&text, fermata_exception_string(exception, ZEND_STR_FILE));
			smart_str_appendc(&text, ':');
			smart_str_append_unsigned(&text, fermata_exception_line(exception));
		}
		exception = previous_of(exception);
	}
	smart_str_0(&text);
	return text;
}

static FmStr call_string(zend_array *call, zend_known_string_id name)
{
	zval *value = zend_hash_find(call, ZSTR_KNOWN(name));
	return value && Z_TYPE_P(value) == IS_STRING ? fermata_str(Z_STR_P(value)) : FERMATA_LITERAL("");
}

/* Returns "#0 file(line): Class->function()", one line per call. Arguments are omitted: they may contain secrets. The caller frees
 * the text. */
smart_str fermata_exception_trace(zend_object *exception)
{
	smart_str text = {0};
	zval storage, *calls = exception_property(exception, ZEND_STR_TRACE, &storage), *call;
	uint32_t number = 0;
	ZVAL_DEREF(calls);
	if (Z_TYPE_P(calls) != IS_ARRAY) {
		return text;
	}
	ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(calls), call) {
		if (Z_TYPE_P(call) != IS_ARRAY || number == TRACE_CALLS_MAX) {
			break;
		}
		FmStr file = call_string(Z_ARR_P(call), ZEND_STR_FILE), class = call_string(Z_ARR_P(call), ZEND_STR_CLASS);
		zval *line = zend_hash_find(Z_ARR_P(call), ZSTR_KNOWN(ZEND_STR_LINE));
		smart_str_appendc(&text, '#');
		smart_str_append_unsigned(&text, number++);
		smart_str_appendc(&text, ' ');
		if (file.len) {
			append_str(&text, file);
			smart_str_appendc(&text, '(');
			smart_str_append_long(&text, line && Z_TYPE_P(line) == IS_LONG ? Z_LVAL_P(line) : 0);
			smart_str_appendc(&text, ')');
		} else {
			smart_str_appends(&text, "[PHP]");
		}
		smart_str_appends(&text, ": ");
		smart_str_appendl(&text, class.ptr, strnlen(class.ptr, class.len));
		append_str(&text, call_string(Z_ARR_P(call), ZEND_STR_TYPE));
		append_str(&text, call_string(Z_ARR_P(call), ZEND_STR_FUNCTION));
		smart_str_appends(&text, "()\n");
	} ZEND_HASH_FOREACH_END();
	smart_str_0(&text);
	return text;
}
