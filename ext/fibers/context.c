/* Fermata\Context: values of one handler and the tasks it starts. */
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "base/optimize_size.h"

typedef struct context {
	zend_array *values; /* NULL = none */
} context;

static fermata_part part;
FERMATA_SLOT(context, part)

zend_array *fermata_context_values(void)
{
	return slot(fermata_run.fiber)->values;
}

void fermata_context_give(fermata_fiber *fiber, zend_array *values)
{
	slot(fiber)->values = values;
	if (values) {
		fermata_touch(fiber, part);
	}
}

static void on_clean_up(fermata_fiber *fiber)
{
	zend_array *values = slot(fiber)->values;
	slot(fiber)->values = NULL;
	if (values) {
		zend_array_release(values);
	}
}

static bool has_rest(const fermata_fiber *fiber)
{
	return slot(fiber)->values;
}

static void on_move(fermata_fiber *from, fermata_fiber *to)
{
	if (!slot(to)->values) {
		slot(to)->values = slot(from)->values;
		slot(from)->values = NULL;
	}
}

static fermata_part part = {.size = sizeof(context), .on_clean_up = on_clean_up, .has_rest = has_rest, .on_move = on_move};

void fermata_context_init(void)
{
	fermata_part_register(&part);
}

/* Returns false with an exception pending. */
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
	zend_array *values = fermata_context_values();
	zval *found = values ? zend_hash_find(values, name) : NULL;
	if (found) {
		RETURN_COPY(found);
	}
	if (fallback) {
		RETURN_COPY(fallback);
	}
}

/* A task inherits the values that were set before it starts. The array is copied when a handler or task first changes it. */
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
	context *mine = slot(fiber);
	if (!mine->values) {
		mine->values = zend_new_array(0);
	} else if (GC_REFCOUNT(mine->values) > 1) {
		GC_DELREF(mine->values);
		mine->values = zend_array_dup(mine->values);
	}
	fermata_touch(fiber, part);
	/* The destructor of the old value may call set() again and replace the table, so the old value is released last. */
	zval *place = zend_hash_lookup(mine->values, name), old;
	ZVAL_COPY_VALUE(&old, place);
	ZVAL_COPY(place, value);
	zval_ptr_dtor(&old);
}
