/* What ends waits from outside: delay(), timeout(), shield(), Fermata\Cancellation.
 *
 * Each makes a call with a scope around it, in the same fiber. A wait inside looks at the scopes around it, from the
 * innermost to the outermost, and ends with the exception of the first that is over; see cause_of() in fibers.c.
 *
 * A Fiber of the program's may be suspended inside such a call. Then the scope is around what the Fiber does, and not around
 * what its handler does meanwhile; and the Fiber may go on when the handler, or even its fiber, is gone. */
#include "fibers/fibers.h"
#include "core/small.h"

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

bool fermata_cancellation_is_cancelled(const zend_object *cancellation)
{
	return FERMATA_FROM(fermata_cancellation, cancellation)->is_cancelled;
}

static void enter(fermata_scope *scope)
{
	scope->owner = fermata_run.fiber;
	scope->inside = EG(active_fiber);
	scope->begun_at = fermata_conversation_clock();
	scope->outer = scope->owner->scope;
	scope->owner->scope = scope;
	/* What is left when the handler ends does not concern the next one. */
	scope->owner->touched = true;
}

static void leave(fermata_scope *scope)
{
	if (UNEXPECTED(!scope->owner)) {
		return;
	}
	/* Others may stand before it: those of a Fiber that is suspended. */
	for (fermata_scope **at = &scope->owner->scope; *at; at = &(*at)->outer) {
		if (*at == scope) {
			*at = scope->outer;
			break;
		}
	}
}

/* As fermata_wait(), for what happens whether it is waited for or not: only the worker's end ends it before its time. */
fermata_wait_result fermata_wait_shielded(uint64_t due_ms)
{
	fermata_scope scope = {.is_shield = true, .due_ms = FERMATA_NEVER};
	enter(&scope);
	fermata_wait_result result = fermata_wait(due_ms);
	leave(&scope);
	return result;
}

/* Calls with a scope around the call. */
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
	if (fermata_can_wait() && fermata_seconds_to_due(seconds, &due_ms)) {
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
	fermata_scope scope = {.due_ms = FERMATA_NEVER, .cancellation = Z_OBJ_P(ZEND_THIS)};
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
