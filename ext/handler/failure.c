/* Handles failed handlers: the client's error response, the log line, and the end of the worker after a fatal error. */
#include "handler/handler.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include "base/optimize_size.h"

#define EXCEPTIONS_MAX 8        /* exceptions logged for one event if clearing an exception throws the next one */
#define LOG_LINE_BYTES_MAX 4096 /* a longer message of a WebSocket handler is truncated */
#define CLOSE_REASON_BYTES_MAX 123
#define CLOSE_INVALID_PAYLOAD 1007
#define NO_HANDLER (FM_HANDLER_WEBSOCKET - 1) /* number that stands for no handler */

/* Fills in the subject of a log line: the running handler or task. */
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

/* Like fermata_detail(), for an exception. The caller frees the trace. */
static void detail_of(FmDetail *detail, zend_object *exception, smart_str *trace)
{
	*trace = fermata_exception_trace(exception);
	fermata_detail(detail);
	/* The name of an anonymous class continues after a NUL byte. */
	detail->exception = (FmStr){ZSTR_VAL(exception->ce->name), strlen(ZSTR_VAL(exception->ce->name))};
	detail->file = fermata_exception_string(exception, ZEND_STR_FILE);
	detail->line = fermata_exception_line(exception);
	detail->trace = fermata_str_or_empty(trace->s);
}

/* Returns true if the exception, or an exception that it wraps, reports the client's disconnect. Libraries wrap the exceptions that
 * interrupt them. */
static bool client_has_left(zend_object *exception)
{
	const fermata_client *client = fermata_run.fiber ? fermata_run.fiber->client : NULL;
	return client && client->gone && fermata_exception_comes_of(exception, fermata_ce_client_gone);
}

/* Some PHP builds report an exhausted memory limit late and leave with an exit() instead of a longjmp(). */
ZEND_COLD void fermata_leave_by_fatal(void)
{
	if (EG(exception)) {
		zend_clear_exception();
	}
	zend_bailout();
}

/* Logs and clears an exception whose client already has a response, and further exceptions thrown while clearing. Does a
 * longjmp() after a fatal error. */
ZEND_COLD void fermata_log_exception(uint32_t level)
{
	for (uint32_t i = 0; EG(exception); i++) {
		zend_object *exception = EG(exception);
		if (UNEXPECTED(fermata_run.fatal_seen)) {
			fermata_leave_by_fatal();
		}
		/* A job process has no core to log with. */
		if (i < EXCEPTIONS_MAX && fermata.worker && !zend_is_unwind_exit(exception) && !zend_is_graceful_exit(exception)) {
			uint32_t its_level = client_has_left(exception) ? FERMATA_LOG_DEBUG : level;
			FmDetail detail;
			smart_str trace = {0}, text = fermata_exception_text(exception, false);
			detail_of(&detail, exception, &trace);
			if (its_level != FERMATA_LOG_ERROR) {
				detail.trace = FERMATA_LITERAL("");
			}
			fm_worker_log_at(fermata.worker, its_level, its_level != FERMATA_LOG_ERROR, fermata_str(text.s), &detail);
			smart_str_free(&text);
			smart_str_free(&trace);
		}
		zend_clear_exception();
	}
}

/* Logs a failure that sends no response. Allocates nothing, because memory may be exhausted. */
static void log_detailed(const char *prefix, FmStr message, const FmDetail *detail)
{
	char text[LOG_LINE_BYTES_MAX];
	fm_worker_log_at(fermata.worker, FERMATA_LOG_ERROR, false,
		(FmStr){text, fermata_copy(text, sizeof(text), prefix, message)}, detail);
}

static void fail(FmStr message, const FmDetail *detail)
{
	if (fermata_run.fiber->future) {
		/* There is no request; the awaiting code receives the exception. */
		log_detailed("task: ", message, detail);
	} else if (fermata_run.socket) {
		/* The client only receives the close code; the details go to the log. */
		char text[LOG_LINE_BYTES_MAX];
		fm_ws_fail(fermata.worker, fermata_run.socket,
			(FmStr){text, fermata_copy(text, sizeof(text), "WebSocket handler: ", message)}, detail);
	} else if (fermata_run.stream) {
		if (fm_stream_fail(fermata.worker, fermata_run.stream, message, detail) != FM_OK) {
			/* The stream's client has already disconnected. */
			log_detailed("", message, detail);
		}
	} else if (fm_fail(fermata.worker, fermata_run.request->event.request, FERMATA_STATUS_ERROR, message, detail) != FM_OK) {
		/* The client has disconnected, or has already received a response. */
		log_detailed("", message, detail);
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

/* Truncates a text to `bytes_max`, between two UTF-8 characters. */
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

void fermata_refuse(FmRequest request, uint32_t status, FmStr text)
{
	FmResponse out = {.status = status, .content_type = fermata_str(fermata_known.type_text), .body = text};
	fm_respond(fermata.worker, request, &out);
}

/* The client has sent an invalid request or message: sends an error response or closes the WebSocket. */
static void fail_with_bad_request(zend_object *exception)
{
	FmStr message = fermata_exception_string(exception, ZEND_STR_MESSAGE);
	if (fermata_run.socket) {
		FmError error;
		FmStr reason = cut(message, CLOSE_REASON_BYTES_MAX);
		if (fm_ws_disconnect(fermata.worker, fermata_run.socket, CLOSE_INVALID_PAYLOAD, reason, &error) == FM_MISUSE) {
			/* The message comes from the application and may not be UTF-8. */
			fm_ws_disconnect(fermata.worker, fermata_run.socket, CLOSE_INVALID_PAYLOAD, FERMATA_LITERAL(""), &error);
		}
	} else {
		zend_long code = fermata_exception_code(exception);
		bool is_status = code >= FERMATA_STATUS_BAD_REQUEST && code < FERMATA_STATUS_ERROR;
		fermata_refuse(fermata_run.request->event.request, is_status ? (uint32_t)code : FERMATA_STATUS_BAD_REQUEST, message);
	}
	fermata_log_exception(FERMATA_LOG_INFO);
}

/* Sends a response only to complete the request on a half-open connection. Nothing has failed. */
static void fail_with_client_gone(void)
{
	if (!fermata_run.socket && !fermata_run.stream) {
		fermata_refuse(fermata_run.request->event.request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("The client has left.\n"));
	}
	fermata_log_exception(FERMATA_LOG_DEBUG);
}

/* Returns true if the client disconnected while its handler was sending. This is not an error of the application. */
static bool has_left(const zend_object *exception)
{
	FmWsInfo info;
	return exception->ce == fermata_ce_connection_closed && fermata_run.socket
		&& !(fm_ws_info(fermata.worker, fermata_run.socket, &info) && info.open);
}

static bool is_exit_answered(const fermata_handler *handler)
{
	for (uint32_t i = 0; i < fermata_parts.answers_exit.len; i++) {
		if (fermata_parts.answers_exit.at[i](handler)) {
			return true;
		}
	}
	return false;
}

static bool is_exception_answered(void)
{
	for (uint32_t i = 0; i < fermata_parts.answers_exception.len; i++) {
		if (fermata_parts.answers_exception.at[i]()) {
			return true;
		}
	}
	return false;
}

/* Returns true if the handler called exit(); sends the client's response. */
static bool fail_with_exit(const fermata_handler *handler)
{
	if (zend_is_graceful_exit(EG(exception)) && fermata_run.is_stopping) {
		/* The stopping worker has ended the handler's wait; no response is sent. */
		zend_clear_exception();
		return true;
	}
	if (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception))) {
		if (fermata_run.fatal_seen) {
			fermata_leave_by_fatal();
		}
		zend_clear_exception();
		EG(exit_status) = 0;
		if (!fermata_run.socket && !fermata_run.stream && is_exit_answered(handler)) {
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

/* Returns true if the exception is no application error: exit(), or the client has disconnected. */
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

/* Sends the client an error response for the exception, and clears it. */
ZEND_COLD void fermata_fail_with_exception(const fermata_handler *handler)
{
	/* The exception may also come from a generator that produces a body. */
	fermata_run.fiber->has_failed = true;
	if (fail_without_error(handler)) {
		return;
	}
	if (UNEXPECTED(fermata_run.in_process)) {
		fermata_run.on_failure(EG(exception));
	}
	if (!fermata_run.socket && !fermata_run.stream && is_exception_answered()) {
		return;
	}
	/* The error handler itself may have called exit(), or its client may have disconnected. */
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
	/* Releasing an exception frees the arguments in its trace, whose destructors may throw. */
	zend_clear_exception();
}

bool fermata_has_error_log(void)
{
	const char *name = INI_STR("error_log");
	return name && *name && !fermata_is_standard_error(name);
}

/* The fatal error that ends the worker. PHP may report a second error while it handles the first one, for example in an output
 * callback; error_get_last() then returns the second. */
static struct {
	zend_string *message, *file; /* NULL = none */
	uint32_t line;
} fatal;

/* Called before PHP displays a fatal error. The core logs it with the running handler's request, so PHP does not write it to the
 * log again. A configured error_log still receives it. */
void fermata_error_seen(int type, zend_string *file, uint32_t line, zend_string *message)
{
	bool is_fatal = type == E_ERROR || type == E_CORE_ERROR || type == E_COMPILE_ERROR
		|| (type == E_USER_ERROR && Z_ISUNDEF(EG(user_error_handler)));
	if (!(fermata.handling || fermata.worker) || fermata.forked || !is_fatal || fermata_run.fatal_seen) {
		return;
	}
	/* The loop also stops if it gets control back other than by longjmp(); see fermata_fibers_poll(). */
	fermata_run.fatal_seen = fermata_run.waits = true;
	fatal.message = zend_string_copy(message);
	fatal.file = file ? zend_string_copy(file) : NULL;
	fatal.line = line;
	fermata_run.display_errors = PG(display_errors);
	fermata_run.log_errors = PG(log_errors);
	PG(display_errors) = 0;
	if (!fermata_has_error_log()) {
		PG(log_errors) = false;
	}
}

/* Detaches objects from the core's buffers, which are about to be freed. A shutdown function, a Fiber or a static variable may
 * still refer to these objects. */
void fermata_let_go(void)
{
	fermata_run.request->worker = NULL;
	memset(&fermata_run.request->event, 0, sizeof(fermata_run.request->event));
	fermata_run.message->bytes = (FmStr){NULL, 0};
}

ZEND_COLD void fermata_after_fatal(void)
{
	bool seen = fermata_run.fatal_seen;
	fermata_run.cleans = fermata_run.collects = false;
	if (seen) {
		PG(display_errors) = fermata_run.display_errors;
		PG(log_errors) = fermata_run.log_errors;
		fermata_run.fatal_seen = false;
	}
	if (EG(timeout_seconds)) {
		zend_unset_timeout();
	}
	if (!fatal.message && PG(last_error_message)) {
		/* PHP ended the handler for an error that its error handler had returned to it. */
		fatal.message = zend_string_copy(PG(last_error_message));
		fatal.file = PG(last_error_file) ? zend_string_copy(PG(last_error_file)) : NULL;
		fatal.line = (uint32_t)MAX(PG(last_error_lineno), 0);
	}
	FmStr message = fatal.message ? fermata_str(fatal.message) : FERMATA_LITERAL("fatal error in handler");
	FmDetail detail = {.handler = NO_HANDLER};
	if (fermata.handling) {
		fermata_detail(&detail);
	}
	detail.file = fermata_str_or_empty(fatal.file);
	detail.line = fatal.line;
	if (fermata.handling) {
		fermata.handling = false;
		fail(message, &detail);
	} else if (seen) {
		log_detailed("after a handler: ", message, &detail);
	}
	if (fatal.message) {
		zend_string_release(fatal.message);
		fatal.message = NULL;
	}
	if (fatal.file) {
		zend_string_release(fatal.file);
		fatal.file = NULL;
	}
	fermata_let_go();
	if (fermata_run.fiber) {
		FERMATA_EACH_PART(on_fatal, fermata_run.fiber)
	}
	if (!fermata_run.retired) {
		fermata_run.retired = true;
		FERMATA_EACH_PART(on_retire)
		if (!fermata_run.stopped) {
			fm_worker_retire(fermata.worker);
		}
	}
}
