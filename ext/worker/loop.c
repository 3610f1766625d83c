/* The runner of a worker: receives events from the core and calls handlers.
 *
 * While PHP runs, no frame of the core is on the stack. Exceptions, exit() and the longjmp of a fatal error are handled here:
 *
 *   exception, exit(), wrong return value   500 (or 400) to that client; the loop continues
 *   fatal error, memory limit, time limit   500 to that client; PHP's heap may be corrupt, so no handler runs again, the core
 *                                           serves the other clients to the end, and the master replaces the worker
 *
 * fermata_clean_up() ensures that no state of a handler reaches the next handler. */
#include "channels/channels.h"
#include "sockets/sockets.h"
#include "jobs/jobs.h"
#include "worker/worker.h"
#include "state/changes.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "state/last_errors.h"
#include "state/php_state.h"
#include "hooks/standard_error.h"
#include "state/sapi_output.h"
#include "fibers/watch.h"
#include "hooks/hooks.h"
#include "http/http.h"
#include "main/php_main.h"
#include "ext/random/php_random.h"
#include "ext/standard/basic_functions.h"
#include "ext/standard/php_filestat.h"
#include "zend_exceptions.h"

#define EXIT_STATUS_FATAL 255 /* exit status upon which the master replaces the worker */

static void handle(const fermata_handler *handler)
{
	zval argument, result;
	ZVAL_OBJ(&argument, &fermata_run.request->std);
	fermata_run.request->worker = fermata.worker;
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

/* Handles events after a fatal error: refuses requests without calling handlers. The core closes the WebSockets. */
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
		case FM_EVENT_CHANNEL: fermata_reader_woken(); break;
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

/* Ends the waiting handlers and releases per-connection data, whose destructors may log. */
void fermata_stop(void)
{
	if (!fermata_run.retired) {
		fermata_fibers_unwind();
		fermata_tasks_drop();
		fermata_fibers_stop();
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
		if (UNEXPECTED(fm_next_event(fermata.worker, event) != FM_OK)) {
			/* A bug in the core: its state may be corrupt, so the master replaces the worker. */
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

/* Runs the loop on any fiber until it stops. `frame` becomes the current frame of PHP after a fatal error. */
void fermata_runner_loop(zend_execute_data *frame)
{
	fermata_fiber *self = fermata_run.fiber;
	do {
		zend_try {
			loop();
			if (UNEXPECTED(fermata_run.fatal_seen)) {
				fermata_leave_by_fatal();
			}
		} zend_catch {
			EG(current_execute_data) = frame;
			fermata_after_fatal();
		} zend_end_try();
	} while (!fermata_run.stopped && !self->dying);
}

/* Detaches the worker. Shutdown functions and destructors of the script run next, and may call any function. They must find no
 * worker, and no pointers into the memory of the core. The runner's objects exist until the script has finished. */
static void let_worker_go(void)
{
	fermata_let_go();
	fermata.worker = NULL;
	fermata.handling = fermata_run.waits = false;
	fermata_run.socket = fermata_run.stream = 0;
}

/* Releases the runner's objects. Called when the script has finished, and no PHP code runs any more. */
void fermata_runner_request_end(void)
{
	if (fermata_run.request && !fermata_run.in_process && !fermata_run.retired) {
		FERMATA_EACH_PART(on_release)
	}
	fermata_run.request = NULL;
	fermata_run.websocket = NULL;
	fermata_run.message = NULL;
}

/* Logs a line that the application wrote to standard error. */
static void log_text(FmStr line)
{
	fm_worker_log_text(fermata.worker, line);
}

/* Runs a worker. Never returns to the script: finishes as by exit(), or as after a fatal error. */
void fermata_run_worker(fermata_server *server, const FmStart *start)
{
	zend_execute_data *frame = EG(current_execute_data);
	fermata_run_start(server);
	fermata.worker = start->worker;
	fermata_make_objects();
	fermata_put_by_output();
	fermata_enter_process();
	fermata_changes_start();
	fermata_sapi_output_start();
	fermata_keep_standard_streams();
	fermata_standard_error_start(log_text);

	zend_long memory_limit = PG(memory_limit);
	fermata_fibers_start(frame, fermata_runner_loop, fermata_dispatch, fermata_tasks_run_next);
	fermata_hook_user_streams();
	fermata_hook_reads(&fermata_body_stream_ops);
	if (fermata_turns_are_single()) {
		fermata_hook_session_locks();
	}
	if (PG(memory_limit) != memory_limit && start->worker_index == 0) {
		char text[160];
		int len = snprintf(text, sizeof(text), "memory_limit is -1 here: each worker gets " ZEND_LONG_FMT
			" bytes (worker_memory_bytes_max), and is replaced when a handler needs more", PG(memory_limit));
		fm_worker_log(fermata.worker, FERMATA_LOG_INFO, (FmStr){text, MIN((size_t)len, sizeof(text) - 1)});
	}
	fermata_jobs_in_worker(server);
	fermata_every_start(server->every, start->worker_index);
	fermata_peers_start(server, start->worker_index);
	fermata_runner_loop(frame);

	fermata_standard_error_end();
	FmWorker *worker = fermata.worker;
	fermata_sapi_output_end();
	if (fermata_run.leaves) {
		/* The core's state belongs to the parent process, so it is not freed. The pointer stays reachable for leak checkers. Without
		 * volatile, the compiler drops a variable that is never read. */
		static FmWorker *volatile parents;
		parents = worker;
		(void)parents;
		let_worker_go();
		if (!EG(exception)) {
			zend_throw_unwind_exit();
		}
		return;
	}
	int exit_status = fermata_run.broken ? EXIT_STATUS_FATAL : fm_worker_exit_code(worker);
	let_worker_go();
	if (!fermata_run.broken) {
		fm_worker_free(worker);
	}
	if (fermata_run.retired) {
		if (fermata_changes_has_failed_request()) {
			fermata_sapi_output_drop();
		}
		fermata_changes_abandoned();
		EG(exit_status) = exit_status;
		zend_bailout();
	}
	fermata_fibers_end();
	fermata_every_stop(server->every);
	fermata_peers_stop();
	fermata_changes_end();
	EG(exit_status) = exit_status;
	zend_throw_unwind_exit();
}
