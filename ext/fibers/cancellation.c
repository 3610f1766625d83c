/* delay(), and the functions that limit waits inside a call: timeout(), shield() and Fermata\Cancellation.
 *
 * Each of these functions opens a scope around a call on the same fiber. A wait checks the scopes around it from the innermost to
 * the outermost, and ends with the exception of the first that has expired; see cause_of() in scheduler.c.
 *
 * A PHP Fiber may be suspended inside such a call. The scope then applies to the code of the PHP Fiber, and no longer to the
 * handler's other code. The PHP Fiber may be resumed after its handler has finished, or even after the handler's fiber was
 * freed. */
#include "fibers/callbacks.h"
#include "fibers/fibers.h"
#include "base/optimize_size.h"

typedef struct fermata_cancellation {
	bool is_cancelled;
	zend_object std;
} fermata_cancellation;

static zend_object_handlers cancellation_handlers;

static zend_object *cancellation_create(zend_class_entry *ce)
{
	fermata_cancellation *cancellation = zend_object_alloc(sizeof(fermata_cancellation), ce);
	cancellation->is_cancelled = false;
	zend_object_std_init(&cancellation->std, ce);
	cancellation->std.handlers = &cancellation_handlers;
	return &cancellation->std;
}

void fermata_cancellation_init(void)
{
	fermata_ce_cancellation->create_object = cancellation_create;
	memcpy(&cancellation_handlers, zend_get_std_object_handlers(), sizeof(cancellation_handlers));
	cancellation_handlers.offset = XtOffsetOf(fermata_cancellation, std);
	cancellation_handlers.clone_obj = NULL;
	cancellation_handlers.compare = zend_objects_not_comparable;
}

static void enter(fermata_scope *scope)
{
	scope->owner = fermata_run.fiber;
	scope->inside = EG(active_fiber);
	scope->begun_at = fermata_clock();
	scope->outer = scope->owner->scope;
	scope->owner->scope = scope;
	/* Have the fiber cleaned up, so that a scope that is still open does not affect the next handler. */
	scope->owner->touched |= FERMATA_TOUCHED;
}

static void leave(fermata_scope *scope)
{
	if (UNEXPECTED(!scope->owner)) {
		return;
	}
	/* Scopes of a suspended PHP Fiber may be before this one in the list. */
	for (fermata_scope **at = &scope->owner->scope; *at; at = &(*at)->outer) {
		if (*at == scope) {
			*at = scope->outer;
			break;
		}
	}
}

/* Like fermata_wait(), for an event that is certain to occur: only the shutdown of the worker ends the wait early. */
fermata_wait_result fermata_wait_shielded(uint64_t due_ms)
{
	fermata_scope scope = {.is_shield = true, .is_own = true, .due_ms = FERMATA_NEVER};
	enter(&scope);
	fermata_wait_result result = fermata_wait(due_ms);
	leave(&scope);
	return result;
}

/* Calls the function inside the scope. */
static void call_inside(fermata_scope *scope, zend_fcall_info *info, zend_fcall_info_cache *call, zval *return_value)
{
	if (UNEXPECTED(!fermata.handling)) {
		fermata_can_wait();
		return;
	}
	enter(scope);
	info->retval = return_value;
	zend_call_function(info, call);
	leave(scope);
}

ZEND_FUNCTION(Fermata_delay)
{
	double seconds;
	uint64_t due_ms;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_DOUBLE(seconds)
	ZEND_PARSE_PARAMETERS_END();
	if (UNEXPECTED(fermata_wait_obstacle())) {
		if (!fermata_has_to_hold()) {
			fermata_can_wait();
		} else if (fermata_seconds_to_due(seconds, &due_ms)) {
			fermata_block(NULL, 0, due_ms);
		}
		return;
	}
	if (fermata_seconds_to_due(seconds, &due_ms)) {
		fermata_wait(due_ms);
	}
}

ZEND_FUNCTION(Fermata_timeout)
{
	double seconds;
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_DOUBLE(seconds)
		Z_PARAM_FUNC(info, call)
	ZEND_PARSE_PARAMETERS_END();
	fermata_scope scope = {.due_ms = FERMATA_NEVER};
	if (fermata.handling && !fermata_seconds_to_due(seconds, &scope.due_ms)) {
		RETURN_THROWS();
	}
	call_inside(&scope, &info, &call, return_value);
}

ZEND_FUNCTION(Fermata_shield)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(info, call)
	ZEND_PARSE_PARAMETERS_END();
	fermata_scope scope = {.is_shield = true, .due_ms = FERMATA_NEVER};
	call_inside(&scope, &info, &call, return_value);
}

ZEND_METHOD(Fermata_Cancellation, run)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(info, call)
	ZEND_PARSE_PARAMETERS_END();
	const fermata_cancellation *cancellation = FERMATA_FROM(fermata_cancellation, Z_OBJ_P(ZEND_THIS));
	fermata_scope scope = {.due_ms = FERMATA_NEVER, .is_cancelled = &cancellation->is_cancelled};
	call_inside(&scope, &info, &call, return_value);
}

ZEND_METHOD(Fermata_Cancellation, cancel)
{
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_cancellation *cancellation = FERMATA_FROM(fermata_cancellation, Z_OBJ_P(ZEND_THIS));
	if (!cancellation->is_cancelled) {
		cancellation->is_cancelled = true;
		fermata_interrupt_all();
	}
}

ZEND_METHOD(Fermata_Cancellation, isCancelled)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(FERMATA_FROM(fermata_cancellation, Z_OBJ_P(ZEND_THIS))->is_cancelled);
}
