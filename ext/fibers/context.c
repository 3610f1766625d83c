/* Fermata\Context: values that belong to one handler and to the tasks it begins. */
#include "fibers/fibers.h"
#include "core/small.h"

/* False after an exception. */
static bool check(void)
{
	if (UNEXPECTED(!fermata.handling)) {
		fermata_misuse("only handlers and tasks of a running server have a Context");
		return false;
	}
	return true;
}

ZEND_METHOD(Fermata_Context, get)
{
	zend_string *name;
	zval *fallback = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(name)
		Z_PARAM_OPTIONAL
		Z_PARAM_ZVAL(fallback)
	ZEND_PARSE_PARAMETERS_END();
	if (!check()) {
		RETURN_THROWS();
	}
	zend_array *values = fermata_run.fiber->context_values;
	zval *found = values ? zend_hash_find(values, name) : NULL;
	if (found) {
		RETURN_COPY(found);
	}
	if (fallback) {
		RETURN_COPY(fallback);
	}
}

/* Tasks see what was set before they were begun: each has the array of its own once it changes. */
ZEND_METHOD(Fermata_Context, set)
{
	zend_string *name;
	zval *value;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(name)
		Z_PARAM_ZVAL(value)
	ZEND_PARSE_PARAMETERS_END();
	if (!check()) {
		RETURN_THROWS();
	}
	fermata_fiber *fiber = fermata_run.fiber;
	if (!fiber->context_values) {
		fiber->context_values = zend_new_array(0);
	} else if (GC_REFCOUNT(fiber->context_values) > 1) {
		GC_DELREF(fiber->context_values);
		fiber->context_values = zend_array_dup(fiber->context_values);
	}
	fiber->touched = true;
	/* A destructor of the old value may come back here, and the table may then be another. */
	zval *place = zend_hash_lookup(fiber->context_values, name), old;
	ZVAL_COPY_VALUE(&old, place);
	ZVAL_COPY(place, value);
	zval_ptr_dtor(&old);
}
