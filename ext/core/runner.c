/* The runner: pulls events from the core and runs handlers, in a worker.
 *
 * No frame of the core is on the stack while PHP runs, so exceptions, exit() and the longjmp of a fatal error end here:
 *
 *   exception, exit(), wrong return value   500 (or 400) to that client; the loop goes on
 *   fatal error, memory limit, time limit   500 to that client; PHP's heap cannot be trusted any more, so no handler runs
 *                                           again, the core finishes the other clients, and the master replaces the worker
 *
 * What one handler leaves behind must not reach the next one: see fermata_clean_up(). */
#include "core/changes.h"
#include "fibers/fibers.h"
#include "core/stray.h"
#include "fibers/watch.h"
#include "hooks/hooks.h"
#include "main/php_main.h"
#include "ext/random/php_random.h"
#include "ext/standard/basic_functions.h"
#include "ext/standard/php_filestat.h"
#include "zend_exceptions.h"

/* A response from here on says that its handler has failed. */
#define STATUS_FAILED_MIN 500
#define EXIT_STATUS_FATAL 255 /* tells the master to replace the worker */

fermata_runner fermata_run;

/* Process state */

/* The master's random state was copied by fork; without a new seed all workers would draw the same numbers. */
static void reseed(void)
{
	RANDOM_G(combined_lcg_seeded) = false;
	RANDOM_G(mt19937_seeded) = false;
	FERMATA_FORGET_FALLBACK_SEED();
}

void fermata_enter_process(void)
{
	fermata_child_init();
	reseed();
	php_clear_stat_cache(false, NULL, 0);
	/* A closed standard output must not end the worker. */
	PG(ignore_user_abort) = true;
	fermata_enter_run();
}

void fermata_enter_run(void)
{
	fermata_last_errors_start();
	fermata_run.output_level = php_output_get_level();
	fermata_run.output_active = OG(active);
	fermata_run.timeout_seconds = EG(timeout_seconds);
	fermata.forked = false;
	if (EG(timeout_seconds)) {
		zend_unset_timeout();
	}
}

/* Answers */

/* An exception of a stream's first piece is left pending, and the request is then open. */
void fermata_respond(const fermata_handler *handler, const fermata_response *response)
{
	if (UNEXPECTED(response->source)) {
		response->source->kind->respond(handler, response);
		fermata_run.is_whole = false;
		return;
	}
	FmHeader some[FERMATA_HEADERS_STACK];
	FmResponse out;
	FmHeader *headers = fermata_response_fill(response, some, &out);
	out.body = fermata_str_or_empty(response->body);
	/* FM_GONE: the client has left, which is no error. */
	fm_respond(fermata_run.worker, fermata_run.request->event.request, &out);
	fermata_run.is_whole = true;
	if (UNEXPECTED(headers != some)) {
		efree(headers);
	}
}

void fermata_refuse(FmRequest request, uint32_t status, FmStr text)
{
	FmResponse out = {.status = status, .content_type = fermata_str(fermata_known.type_text), .body = text};
	fm_respond(fermata_run.worker, request, &out);
}

static void hold(const fermata_handler *handler, const fermata_hold *hold)
{
	FmError error;
	error.len = 0;
	uint32_t code = fermata_hold_send(fermata_run.worker, fermata_run.request, hold, &error);
	if (UNEXPECTED(fermata_run.in_process) && code == FM_OK) {
		fermata_in_process_note_hold((zend_object *)&hold->std);
	}
	if (UNEXPECTED(code == FM_BACKPRESSURE)) {
		/* No mistake of the handler's: the core has said in the log which bound was reached. */
		fermata_refuse(fermata_run.request->event.request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("The server is busy; try again.\n"));
	} else if (UNEXPECTED(code != FM_OK && code != FM_GONE)) {
		fermata_fail_at_handler(handler, (FmStr){error.message, error.len});
	}
}

static ZEND_COLD void fail_with_type(const fermata_handler *handler, const zval *result)
{
	char message[256];
	int len = snprintf(message, sizeof(message),
		"TypeError: the handler must return Fermata\\Response or Fermata\\Hold, %s returned", fermata_type_name(result));
	fermata_fail_at_handler(handler, (FmStr){message, MIN((size_t)len, sizeof(message) - 1)});
}

/* Sends what a handler has returned. */
void fermata_answer(const fermata_handler *handler, zval *result)
{
	if (EXPECTED(Z_TYPE_P(result) == IS_OBJECT)) {
		zend_object *object = Z_OBJ_P(result);
		if (EXPECTED(object->ce == fermata_ce_response)) {
			const fermata_response *response = FERMATA_FROM(fermata_response, object);
			/* Frameworks catch what was thrown in the middle of a conversation, and answer for it. */
			fermata_run.fiber->has_failed |= UNEXPECTED(response->status >= STATUS_FAILED_MIN);
			fermata_respond(handler, response);
			if (UNEXPECTED(EG(exception)) && !fermata_run.leaves) {
				fermata_fail_with_exception(handler);
			}
			return;
		}
		if (EXPECTED(object->ce == fermata_ce_hold)) {
			hold(handler, FERMATA_FROM(fermata_hold, object));
			return;
		}
	}
	fail_with_type(handler, result);
}

/* Handlers */

/* As at the end of a script: what buffers hold goes on, also of those that the program cannot end, which would stay for the next
 * handler with what this one has printed. */
void fermata_output_end(int level)
{
	while (php_output_get_level() > level) {
		OG(active)->flags |= PHP_OUTPUT_HANDLER_REMOVABLE;
		if (php_output_end() != SUCCESS) {
			return;
		}
	}
}

static ZEND_COLD void clean_output(void)
{
	fermata_output_end(fermata_run.output_level);
	fermata_run.output_level = php_output_get_level();
	fermata_run.output_active = OG(active);
}

/* set_time_limit() counts for the handler that called it. */
static void clean_timeout(void)
{
	if (EG(timeout_seconds) != fermata_run.timeout_seconds) {
		zend_string *name = zend_string_init("max_execution_time", sizeof("max_execution_time") - 1, false);
		zend_restore_ini_entry(name, PHP_INI_STAGE_RUNTIME);
		zend_string_release(name);
	}
	zend_unset_timeout();
}

static ZEND_COLD void clean_last_error(void)
{
	/* What the globals are differs between PHP versions; the function knows. */
	zend_function *clear = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("error_clear_last"));
	if (clear) {
		zval result;
		zend_call_known_function(clear, NULL, NULL, &result, 0, NULL, NULL);
		zval_ptr_dtor(&result);
	}
}

/* Undoes what PHP itself would undo between two requests. Every test is one load in the common case. */
void fermata_clean_up(void)
{
	if (UNEXPECTED(OG(active) != fermata_run.output_active)) {
		clean_output();
	}
	if (UNEXPECTED(EG(timeout_seconds) | fermata_run.timeout_seconds)) {
		clean_timeout();
	}
	if (UNEXPECTED(BG(CurrentStatFile) || BG(CurrentLStatFile))) {
		php_clear_stat_cache(false, NULL, 0);
	}
	if (UNEXPECTED(PG(last_error_message))) {
		clean_last_error();
	}
	fermata_last_errors_clean();
	if (UNEXPECTED(EG(exception))) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
	/* A process that runs jobs has no fibers. */
	fermata_fiber *fiber = fermata_run.fiber;
	if (UNEXPECTED(!fiber)) {
		return;
	}
	if (UNEXPECTED(fiber->has_globals)) {
		fermata_globals_end(fiber);
	}
	if (UNEXPECTED(fiber->changes || fermata_globals_differ())) {
		fermata_changes_undo();
	}
}

static void take_fresh_request(void)
{
	fermata_request_keep(fermata_run.request);
	OBJ_RELEASE(&fermata_run.request->std);
	fermata_run.request = fermata_request_new();
}

/* The process of a handler that forked shares the worker's sockets and must not serve them: it ends here. */
ZEND_COLD void fermata_leave(void)
{
	fermata_run.leaves = fermata_run.stopped = true;
	if (EG(exception) && (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception)))) {
		return;
	}
	if (EG(exception)) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
	fm_worker_log(fermata_run.worker, FERMATA_LOG_ERROR,
		FERMATA_LITERAL("a process that a handler has forked returned from it and was ended; it should call exit()"));
	zend_throw_unwind_exit();
}

/* Calls a handler and leaves an exception pending. False when this process was forked by the handler and ends. */
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
	if (UNEXPECTED(fermata_run.takes_turns) && !fermata_turn_take()) {
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

/* After a request was answered. */
void fermata_request_done(void)
{
	if (UNEXPECTED(EG(exception))) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
	if (UNEXPECTED(fermata_run.fiber->changes)) {
		fermata_changes_shut_down();
	}
	if (EXPECTED(!fermata_held_by_others(&fermata_run.request->std) && !fermata_run.request->kept)) {
		fermata_request_forget(fermata_run.request);
	} else {
		take_fresh_request();
	}
	fermata_clean_up();
	fermata.handling = false;
	if (UNEXPECTED(fermata_run.fiber->touched)) {
		fermata_fiber_settle();
	}
}

static void handle(const fermata_handler *handler)
{
	zval argument, result;
	ZVAL_OBJ(&argument, &fermata_run.request->std);
	fermata_run.request->worker = fermata_run.worker;
	fermata_run.socket = 0;
	if (UNEXPECTED(!fermata_call(handler, &argument, 1, &result))) {
		return;
	}
	if (UNEXPECTED(EG(exception))) {
		fermata_fail_with_exception(handler);
	} else {
		fermata_answer(handler, &result);
	}
	if (UNEXPECTED(fermata_run.leaves)) {
		return;
	}
	if (EXPECTED(Z_TYPE(result) == IS_OBJECT && Z_OBJCE(result) == fermata_ce_response)) {
		fermata_response_recycle(Z_OBJ(result));
	} else {
		zval_ptr_dtor(&result);
	}
	fermata_request_done();
}

/* After a fatal error no handler runs any more: requests are refused, and the core closes the WebSockets. */
static void dispatch_retired(const FmEvent *event)
{
	if (event->kind == FM_EVENT_REQUEST || event->kind == FM_EVENT_UPGRADE) {
		fermata_refuse(event->request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("Service Unavailable\n"));
	}
}

void fermata_dispatch(const FmEvent *event)
{
	switch (event->kind) {
		case FM_EVENT_REQUEST:
			if (EXPECTED(event->handler < fermata_run.server->handlers_len)) {
				handle(&fermata_run.server->handlers[event->handler]);
			}
			break;
		case FM_EVENT_WS_MESSAGE: fermata_socket_message(event); break;
		case FM_EVENT_WS_OPEN: fermata_socket_open(event); break;
		case FM_EVENT_WS_CLOSE: fermata_socket_close(event); break;
		case FM_EVENT_UPGRADE: fermata_socket_upgrade(event); break;
		case FM_EVENT_GONE:
			fermata_events_gone(event);
			fermata_fibers_gone(event);
			break;
		case FM_EVENT_WAKE: fermata_fibers_woken(); break;
		case FM_EVENT_READY: fermata_watch_ready(event); break;
		case FM_EVENT_BODY: fermata_body_arrived(event); break;
		case FM_EVENT_PEER_MESSAGE: fermata_peers_on_message(event->body); break;
		case FM_EVENT_STREAM:
			if (!fermata_events_taken(event)) {
				fermata_stream_pull(event);
			}
			break;
		case FM_EVENT_STREAM_END:
			if (!fermata_events_ended(event)) {
				fermata_stream_ended(event);
			}
			break;
	}
}

/* Connections that were not closed in order leave data, whose destructors may log. */
void fermata_stop(void)
{
	if (!fermata_run.retired) {
		fermata_fibers_unwind();
	}
	fermata_run.stopped = true;
	if (!fermata_run.retired) {
		fermata_websocket_release_all();
		fermata_streams_release();
		fermata_events_release();
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
}

static void loop(void)
{
	FmEvent *event;
	while (!fermata_run.stopped && !fermata_run.fiber->dying) {
		if (UNEXPECTED(fermata_run.waits) && fermata_fibers_poll()) {
			continue;
		}
		event = &fermata_run.request->event;
		if (UNEXPECTED(fm_next_event(fermata_run.worker, event) != FM_OK)) {
			/* A bug of the core: its state is not to be trusted, so the master has to start anew. */
			fermata_run.broken = fermata_run.stopped = true;
			return;
		}
		if (UNEXPECTED(event->kind == FM_EVENT_STOP)) {
			fermata_stop();
		} else if (UNEXPECTED(fermata_run.retired)) {
			dispatch_retired(event);
		} else {
			fermata_dispatch(event);
		}
	}
}

/* The loop until it ends, on any fiber. `frame` is where PHP goes on after a fatal error. */
void fermata_runner_loop(zend_execute_data *frame)
{
	fermata_fiber *self = fermata_run.fiber;
	do {
		zend_try {
			loop();
		} zend_catch {
			EG(current_execute_data) = frame;
			fermata_after_fatal();
		} zend_end_try();
	} while (!fermata_run.stopped && !self->dying);
}

void fermata_runner_release(void)
{
	OBJ_RELEASE(&fermata_run.request->std);
	OBJ_RELEASE(&fermata_run.websocket->std);
	OBJ_RELEASE(&fermata_run.message->std);
	fermata_response_release_spare();
}

/* Never comes back to the script: the worker ends as by exit(), or as after a fatal error. */
void fermata_run_worker(fermata_server *server, const FmStart *start)
{
	zend_execute_data *frame = EG(current_execute_data);
	memset(&fermata_run, 0, sizeof(fermata_run));
	fermata.worker = fermata_run.worker = start->worker;
	fermata_run.server = server;
	fermata_run.request = fermata_request_new();
	fermata_run.websocket = fermata_websocket_new();
	fermata_run.message = fermata_message_new();
	fermata_enter_process();
	fermata_changes_start();
	fermata_stray_start();
	fermata_keep_standard_streams();

	zend_long memory_limit = PG(memory_limit);
	fermata_fibers_start(frame);
	fermata_hook_user_streams();
	if (fermata_turns_are_single()) {
		fermata_hook_session_locks();
	}
	if (PG(memory_limit) != memory_limit && start->worker_index == 0) {
		char text[160];
		int len = snprintf(text, sizeof(text), "memory_limit is -1 here: each worker gets " ZEND_LONG_FMT
			" bytes (worker_memory_bytes_max), and is replaced when a handler needs more", PG(memory_limit));
		fm_worker_log(fermata_run.worker, FERMATA_LOG_INFO, (FmStr){text, MIN((size_t)len, sizeof(text) - 1)});
	}
	fermata_jobs_in_worker(server);
	fermata_every_start(server->every, start->worker_index);
	fermata_peers_start(server, start->worker_index);
	fermata_runner_loop(frame);

	fermata_stray_end();
	fermata.worker = NULL;
	fermata.handling = false;
	if (fermata_run.leaves) {
		/* The core's state belongs to the parent process. */
		fermata_let_go();
		fermata_runner_release();
		if (!EG(exception)) {
			zend_throw_unwind_exit();
		}
		return;
	}
	int exit_status = fermata_run.broken ? EXIT_STATUS_FATAL : fm_worker_exit_code(fermata_run.worker);
	if (!fermata_run.broken) {
		fm_worker_free(fermata_run.worker);
	}
	if (fermata_run.retired) {
		fermata_changes_abandoned();
		EG(exit_status) = exit_status;
		zend_bailout();
	}
	fermata_fibers_end();
	fermata_every_stop(server->every);
	fermata_peers_stop();
	fermata_changes_end();
	fermata_runner_release();
	EG(exit_status) = exit_status;
	zend_throw_unwind_exit();
}
