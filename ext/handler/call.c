/* Calls handlers, and cleans up after a handler. */
#include "handler/handler.h"
#include "zend_exceptions.h"

/* Maximum number of clean-up passes after a handler: destructors in one pass may leave state for the next. */
#define CLEANINGS_MAX 16

/* Calls the parts again while PHP code runs during the clean-up, because that code may leave state of any part. */
static ZEND_COLD void clean_up_again(fermata_fiber *fiber)
{
	for (uint32_t passes = 2; passes <= CLEANINGS_MAX; passes++) {
		bool has_run = false, is_last = passes == CLEANINGS_MAX;
		fermata_log_exception(FERMATA_LOG_ERROR);
		for (uint32_t i = 0; i < fermata_parts.on_end.len && (!has_run || is_last); i++) {
			has_run = fermata_parts.on_end.at[i](fiber, is_last);
		}
		if (!has_run && !EG(exception)) {
			return;
		}
	}
	fermata_log_exception(FERMATA_LOG_ERROR);
}

void fermata_clean_up(void)
{
	fermata_fiber *fiber = fermata_run.fiber;
	if (UNEXPECTED(EG(exception))) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
	for (uint32_t i = 0, len = fermata_parts.on_end.len; i < len; i++) {
		if (UNEXPECTED(fermata_parts.on_end.at[i](fiber, false))) {
			clean_up_again(fiber);
			return;
		}
	}
}

ZEND_COLD void fermata_leave(void)
{
	/* The forked process shares the worker's sockets and must not serve them. */
	fermata_run.leaves = fermata_run.stopped = true;
	if (EG(exception) && (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception)))) {
		return;
	}
	if (EG(exception)) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
	fm_worker_log(fermata.worker, FERMATA_LOG_ERROR,
		FERMATA_LITERAL("a process that a handler has forked returned from it and was ended; it should call exit()"));
	zend_throw_unwind_exit();
}

bool fermata_call(const fermata_handler *handler, zval *arguments, uint32_t arguments_len, zval *result)
{
	ZVAL_UNDEF(result);
	zend_fcall_info info = {
		.size = sizeof(info),
		.retval = result,
		.params = arguments,
		.param_count = arguments_len,
	};
	zend_fcall_info_cache call = handler->call;
	ZVAL_COPY_VALUE(&info.function_name, &handler->closure);

	fermata.handling = true;
	fermata_run.is_whole = false;
	if (UNEXPECTED(fermata_run.take_turn) && !fermata_run.take_turn()) {
		return true;
	}
	if (UNEXPECTED(fermata_run.timeout_seconds > 0)) {
		zend_set_timeout(fermata_run.timeout_seconds, false);
	}
	zend_call_function(&info, &call);

	fermata_run.fiber->has_failed = UNEXPECTED(EG(exception) != NULL);
	if (UNEXPECTED(fermata.forked)) {
		zval_ptr_dtor(result);
		fermata_leave();
		return false;
	}
	return true;
}
