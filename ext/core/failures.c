/* What becomes of handlers that fail: the client's answer, the line in the log, the end of the worker. */
#include "core/changes.h"
#include "core/stray.h"
#include "fibers/fibers.h"
#include "hooks/hooks.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include "core/small.h"

#define EXCEPTIONS_MAX 8        /* how many that bring each other up are logged for one event */
#define LOG_LINE_BYTES_MAX 4096 /* a longer message of a WebSocket handler is cut */
#define CLOSE_REASON_BYTES_MAX 123
#define CLOSE_INVALID_PAYLOAD 1007

/* What the line is about: the handler or task that runs now. */
void fermata_detail(FmDetail *detail)
{
	const FmEvent *event = &fermata_run.request->event;
	*detail = (FmDetail){.handler = event->handler};
	if (fermata_run.fiber && fermata_run.fiber->future) {
		detail->handler = FM_HANDLER_TASK;
	} else if (fermata_run.socket) {
		detail->handler |= FM_HANDLER_WEBSOCKET;
		detail->method = FERMATA_LITERAL("WebSocket");
	} else if (event->kind == FM_EVENT_UPGRADE) {
		detail->handler |= FM_HANDLER_WEBSOCKET;
		detail->method = event->method;
	} else {
		detail->method = event->method;
	}
}

/* The same of an exception. The caller frees the trace. */
static void detail_of(FmDetail *detail, zend_object *exception, smart_str *trace)
{
	*trace = fermata_exception_trace(exception);
	fermata_detail(detail);
	/* The name of an anonymous class goes on behind a NUL byte. */
	detail->exception = (FmStr){ZSTR_VAL(exception->ce->name), strlen(ZSTR_VAL(exception->ce->name))};
	detail->file = fermata_exception_string(exception, ZEND_STR_FILE);
	detail->line = fermata_exception_line(exception);
	detail->trace = fermata_str_or_empty(trace->s);
}

/* Libraries wrap what they are interrupted by in exceptions of their own. */
static bool client_has_left(zend_object *exception)
{
	const fermata_client *client = fermata_run.fiber ? fermata_run.fiber->client : NULL;
	return client && client->gone && fermata_exception_comes_of(exception, fermata_ce_client_gone);
}

/* For exceptions whose client is answered already. Clears them, and those that clearing brings up. */
ZEND_COLD void fermata_log_exception(uint32_t level)
{
	for (uint32_t i = 0; EG(exception); i++) {
		zend_object *exception = EG(exception);
		/* A process that runs jobs has no core to log with. */
		if (i < EXCEPTIONS_MAX && fermata_run.worker && !zend_is_unwind_exit(exception) && !zend_is_graceful_exit(exception)) {
			uint32_t its_level = client_has_left(exception) ? FERMATA_LOG_DEBUG : level;
			FmDetail detail;
			smart_str trace = {0}, text = fermata_exception_text(exception, false);
			detail_of(&detail, exception, &trace);
			if (its_level != FERMATA_LOG_ERROR) {
				detail.trace = FERMATA_LITERAL("");
			}
			fm_worker_tell(fermata_run.worker, its_level, its_level != FERMATA_LOG_ERROR, fermata_str(text.s), &detail);
			smart_str_free(&text);
			smart_str_free(&trace);
		}
		zend_clear_exception();
	}
}

/* The log line of a failure that no client's answer goes with. Allocates nothing, for memory may be the problem. */
static void tell(const char *prefix, FmStr message, const FmDetail *detail)
{
	char text[LOG_LINE_BYTES_MAX];
	fm_worker_tell(fermata_run.worker, FERMATA_LOG_ERROR, false,
		(FmStr){text, fermata_copy(text, sizeof(text), prefix, message)}, detail);
}

static void fail(FmStr message, const FmDetail *detail)
{
	if (fermata_run.fiber->future) {
		/* There is no request to answer: the awaiting code gets the exception. */
		tell("task: ", message, detail);
	} else if (fermata_run.socket) {
		/* The client gets nothing but the code: the details are for the log. */
		char text[LOG_LINE_BYTES_MAX];
		fm_ws_fail(fermata_run.worker, fermata_run.socket,
			(FmStr){text, fermata_copy(text, sizeof(text), "WebSocket handler: ", message)}, detail);
	} else if (fermata_run.stream) {
		if (fm_stream_fail(fermata_run.worker, fermata_run.stream, message, detail) != FM_OK) {
			/* Its client has left before it. */
			tell("", message, detail);
		}
	} else if (fm_fail(fermata_run.worker, fermata_run.request->event.request, FERMATA_STATUS_ERROR, message, detail) != FM_OK) {
		/* Its client has left, or has its answer. */
		tell("", message, detail);
	}
}

ZEND_COLD void fermata_fail_at_handler(const fermata_handler *handler, FmStr message)
{
	const zend_function *function = handler->call.function_handler;
	FmDetail detail;
	fermata_detail(&detail);
	if (function->type == ZEND_USER_FUNCTION) {
		detail.file = fermata_str_or_empty(function->op_array.filename);
		detail.line = function->op_array.line_start;
	}
	fail(message, &detail);
}

/* At most so many bytes of a text, cut between two characters. */
static FmStr cut(FmStr text, size_t bytes_max)
{
	if (text.len > bytes_max) {
		text.len = bytes_max;
		while (text.len && ((unsigned char)text.ptr[text.len] & 0xC0) == 0x80) {
			text.len--;
		}
	}
	return text;
}

/* The client has sent nonsense, which costs it its answer or its connection. */
static void fail_with_bad_request(zend_object *exception)
{
	FmStr message = fermata_exception_string(exception, ZEND_STR_MESSAGE);
	if (fermata_run.socket) {
		FmError error;
		FmStr reason = cut(message, CLOSE_REASON_BYTES_MAX);
		if (fm_ws_disconnect(fermata_run.worker, fermata_run.socket, CLOSE_INVALID_PAYLOAD, reason, &error) == FM_MISUSE) {
			/* The message is the program's and need not be UTF-8. */
			fm_ws_disconnect(fermata_run.worker, fermata_run.socket, CLOSE_INVALID_PAYLOAD, FERMATA_LITERAL(""), &error);
		}
	} else {
		zend_long code = fermata_exception_code(exception);
		bool is_status = code >= FERMATA_STATUS_BAD_REQUEST && code < FERMATA_STATUS_ERROR;
		fermata_refuse(fermata_run.request->event.request, is_status ? (uint32_t)code : FERMATA_STATUS_BAD_REQUEST, message);
	}
	fermata_log_exception(FERMATA_LOG_INFO);
}

/* The answer ends what the client may have left half open; nothing has failed. */
static void fail_with_client_gone(void)
{
	if (!fermata_run.socket && !fermata_run.stream) {
		fermata_refuse(fermata_run.request->event.request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("The client has left.\n"));
	}
	fermata_log_exception(FERMATA_LOG_DEBUG);
}

/* A client that leaves while its handler sends is no failure of the program. */
static bool has_left(const zend_object *exception)
{
	FmWsInfo info;
	return exception->ce == fermata_ce_connection_closed && fermata_run.socket
		&& !(fm_ws_info(fermata_run.worker, fermata_run.socket, &info) && info.open);
}

/* True when the handler has called exit(), for which its client is answered here. */
static bool fail_with_exit(const fermata_handler *handler)
{
	if (zend_is_graceful_exit(EG(exception)) && fermata_fibers_is_unwinding()) {
		/* The client has left: there is no answer to send. */
		zend_clear_exception();
		return true;
	}
	if (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception))) {
		/* PHP builds that report an exhausted memory limit late leave by an exit where others jump. */
		if (fermata_run.fatal_seen) {
			zend_clear_exception();
			zend_bailout();
		}
		zend_clear_exception();
		EG(exit_status) = 0;
		if (!fermata_run.socket && !fermata_run.stream && fermata_globals_answer(handler)) {
			return true;
		}
		fermata_fail_at_handler(handler, fermata_run.socket
			? FERMATA_LITERAL("exit() called in handler; call close() to end a connection")
			: fermata_run.stream ? FERMATA_LITERAL("exit() called while a stream was made; return to end it")
			: FERMATA_LITERAL("exit() called in handler; return a Response to end a request"));
		return true;
	}
	return false;
}

/* True when nothing was thrown that the program could answer for: exit(), or its client is gone. */
static bool fail_without_error(const fermata_handler *handler)
{
	if (fail_with_exit(handler)) {
		return true;
	}
	if (EG(exception)->ce == fermata_ce_client_gone || client_has_left(EG(exception))) {
		fail_with_client_gone();
		return true;
	}
	return false;
}

/* Answers the client of an exception, and clears it. */
ZEND_COLD void fermata_fail_with_exception(const fermata_handler *handler)
{
	/* Or a generator has, which makes a body. */
	fermata_run.fiber->has_failed = true;
	if (fail_without_error(handler)) {
		return;
	}
	if (UNEXPECTED(fermata_run.in_process)) {
		fermata_in_process_note(EG(exception));
	}
	if (!fermata_run.socket && !fermata_run.stream && fermata_error_handled()) {
		return;
	}
	/* The error handler may have left another way than the handler did. */
	if (fail_without_error(handler)) {
		return;
	}
	zend_object *exception = EG(exception);
	if (exception->ce == fermata_ce_bad_request && !fermata_run.stream) {
		fail_with_bad_request(exception);
		return;
	}
	if (has_left(exception)) {
		fermata_log_exception(FERMATA_LOG_DEBUG);
		return;
	}
	FmDetail detail;
	smart_str trace, text = fermata_exception_text(exception, false);
	detail_of(&detail, exception, &trace);
	fail(fermata_str(text.s), &detail);
	smart_str_free(&text);
	smart_str_free(&trace);
	/* Releasing an exception frees the arguments in its trace, whose destructors may throw in turn. */
	zend_clear_exception();
}

bool fermata_has_error_log(void)
{
	const char *name = INI_STR("error_log");
	return name && *name;
}

/* Called before PHP shows a fatal error. The core logs it with the request, so PHP need not write it a second time;
 * an error_log that the user has set still gets it. */
void fermata_error_seen(int type, zend_string *file, uint32_t line, zend_string *message)
{
	bool fatal = type == E_ERROR || type == E_CORE_ERROR || type == E_COMPILE_ERROR
		|| (type == E_USER_ERROR && Z_ISUNDEF(EG(user_error_handler)));
	if (!fermata.handling || !fatal || fermata_run.fatal_seen) {
		return;
	}
	fermata_run.fatal_seen = true;
	fermata_run.display_errors = PG(display_errors);
	fermata_run.log_errors = PG(log_errors);
	PG(display_errors) = 0;
	if (!fermata_has_error_log()) {
		PG(log_errors) = false;
	}
}

/* A shutdown function, a Fiber or a static variable may still hold what the core has lent, and its bytes are about to go. */
void fermata_let_go(void)
{
	fermata_run.request->worker = NULL;
	memset(&fermata_run.request->event, 0, sizeof(fermata_run.request->event));
	fermata_run.message->bytes = (FmStr){NULL, 0};
}

ZEND_COLD void fermata_after_fatal(void)
{
	if (fermata_run.fatal_seen) {
		PG(display_errors) = fermata_run.display_errors;
		PG(log_errors) = fermata_run.log_errors;
		fermata_run.fatal_seen = false;
	}
	if (EG(timeout_seconds)) {
		zend_unset_timeout();
	}
	if (fermata.handling) {
		fermata.handling = false;
		FmDetail detail;
		fermata_detail(&detail);
		detail.file = fermata_str_or_empty(PG(last_error_file));
		detail.line = PG(last_error_lineno) > 0 ? (uint32_t)PG(last_error_lineno) : 0;
		fail(PG(last_error_message) ? fermata_str(PG(last_error_message)) : FERMATA_LITERAL("fatal error in handler"), &detail);
	}
	fermata_let_go();
	if (fermata_run.fiber) {
		fermata_run.fiber->pins = NULL;
		fermata_run.fiber->sqlite = NULL;
		fermata_changes_abandon(fermata_run.fiber);
	}
	fermata_guards_forget();
	if (!fermata_run.retired) {
		fermata_run.retired = true;
		fermata_fibers_abandon();
		if (!fermata_run.stopped) {
			fm_worker_retire(fermata_run.worker);
		}
	}
}
