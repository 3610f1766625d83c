/* Whether callables can be called with what they will be given: what does not fit is refused when the program gives it, and
 * not when the first client comes. */
#include "php_fermata.h"
#include "zend_closures.h"

/* What PHP makes of an int by itself for parameters of a function that it calls. */
#define MAY_TAKE_INT (MAY_BE_LONG | MAY_BE_DOUBLE | MAY_BE_STRING | MAY_BE_TRUE | MAY_BE_FALSE)

static bool is_callable_object(const zend_class_entry *ce)
{
	return ce == zend_ce_closure;
}

static bool takes_class(zend_string *name, zend_class_entry *ce)
{
	/* Not autoloaded: a class that nobody has loaded is none of ours, nor a parent of one. */
	zend_class_entry *wanted = zend_lookup_class_ex(name, NULL, ZEND_FETCH_CLASS_NO_AUTOLOAD);
	if (ce->ce_flags & ZEND_ACC_INTERFACE) {
		/* Which exceptions it wants is its own affair. */
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
	/* Of several classes one may be it. */
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

/* "Fermata\WebSocket, an int and a string"; "nothing". */
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
