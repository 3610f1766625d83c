/* Callables from PHP code. Checks that a callable accepts its future arguments, so that a wrong callable is refused at
 * registration, not when the first client connects. */
#include "base/base.h"
#include "zend_closures.h"
#include "zend_interfaces.h"

/* Parameter types to which PHP converts an int in a call. */
#define MAY_TAKE_INT (MAY_BE_LONG | MAY_BE_DOUBLE | MAY_BE_STRING | MAY_BE_TRUE | MAY_BE_FALSE)

static bool is_callable_object(const zend_class_entry *ce)
{
	return ce == zend_ce_closure;
}

static bool takes_class(zend_string *name, zend_class_entry *ce)
{
	/* Without autoloading, because Fermata's classes and their parents are already loaded. */
	zend_class_entry *wanted = zend_lookup_class_ex(name, NULL, ZEND_FETCH_CLASS_NO_AUTOLOAD);
	if (ce->ce_flags & ZEND_ACC_INTERFACE) {
		/* A handler may declare any exception class. */
		return !wanted || instanceof_function(wanted, ce) || instanceof_function(ce, wanted);
	}
	return wanted && instanceof_function(ce, wanted);
}

static bool takes(zend_type type, const fermata_given *given)
{
	uint32_t mask = ZEND_TYPE_PURE_MASK(type);
	if (!ZEND_TYPE_IS_SET(type)) {
		return true;
	}
	switch (given->kind) {
		case FERMATA_GIVEN_INT: return mask & MAY_TAKE_INT;
		case FERMATA_GIVEN_STRING: return mask & MAY_BE_STRING;
		case FERMATA_GIVEN_ANY: return true;
		case FERMATA_GIVEN_OBJECT: break;
	}
	if (mask & MAY_BE_OBJECT || (mask & MAY_BE_CALLABLE && is_callable_object(*given->ce))) {
		return true;
	}
	/* A union or intersection may contain the class. */
	return ZEND_TYPE_HAS_NAME(type) ? takes_class(ZEND_TYPE_NAME(type), *given->ce) : ZEND_TYPE_IS_COMPLEX(type);
}

static const char *name_of(const fermata_given *given)
{
	switch (given->kind) {
		case FERMATA_GIVEN_INT: return "an int";
		case FERMATA_GIVEN_STRING: return "a string";
		case FERMATA_GIVEN_ANY: return "any value";
		case FERMATA_GIVEN_OBJECT: break;
	}
	return ZSTR_VAL((*given->ce)->name);
}

/* Writes "Fermata\WebSocket, an int and a string", or "nothing". */
static void list(char *text, size_t size, const fermata_given *given, uint32_t len)
{
	size_t at = (size_t)snprintf(text, size, "%s", len ? "" : "nothing");
	for (uint32_t i = 0; i < len && at < size; i++) {
		at += (size_t)snprintf(text + at, size - at, "%s%s", i == 0 ? "" : i + 1 == len ? " and " : ", ", name_of(&given[i]));
	}
}

bool fermata_handler_takes(const fermata_handler *handler, const char *what, const fermata_given *given, uint32_t len)
{
	const zend_function *function = handler->call.function_handler;
	char text[256];
	if (function->type != ZEND_USER_FUNCTION || (function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE)) {
		return true;
	}
	for (uint32_t i = 0; i < function->common.num_args; i++) {
		const zend_arg_info *parameter = &function->op_array.arg_info[i];
		if (i >= len ? i < function->common.required_num_args : !takes(parameter->type, &given[i])) {
			list(text, sizeof(text), given, len);
			fermata_misuse("%s is called with %s, which its parameter $%s cannot be given", what, text, ZSTR_VAL(parameter->name));
			return false;
		}
	}
	return true;
}

/* Converts the callable to a closure, so that its function exists as long as the handler does. */
bool fermata_handler_init(fermata_handler *handler, zval *callable)
{
	zend_fcall_info info;
	if (Z_TYPE_P(callable) == IS_OBJECT && Z_OBJCE_P(callable) == zend_ce_closure) {
		ZVAL_COPY(&handler->closure, callable);
	} else {
		ZVAL_UNDEF(&handler->closure);
		zend_call_method_with_1_params(NULL, zend_ce_closure, NULL, "fromcallable", &handler->closure, callable);
		if (Z_TYPE(handler->closure) != IS_OBJECT) {
			return false;
		}
	}
	if (zend_fcall_info_init(&handler->closure, 0, &info, &handler->call, NULL, NULL) != SUCCESS) {
		zval_ptr_dtor(&handler->closure);
		return false;
	}
	return true;
}

bool fermata_strings_check(HashTable *list, uint32_t argument)
{
	zval *element;
	bool is_good = zend_hash_num_elements(list) > 0;
	ZEND_HASH_FOREACH_VAL(list, element) {
		is_good = is_good && Z_TYPE_P(element) == IS_STRING;
	} ZEND_HASH_FOREACH_END();
	if (!is_good) {
		zend_argument_type_error(argument, "must be a string or a list of at least one string");
	}
	return is_good;
}
