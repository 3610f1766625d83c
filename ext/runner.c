/* The runner: pulls events from the core and runs handlers, in a worker.
 *
 * No frame of the core is on the stack while PHP runs, so exceptions, exit() and the longjmp of a fatal error end here:
 *
 *   exception, exit(), wrong return value   500 (or 400) to that client; the loop goes on
 *   fatal error, memory limit, time limit   500 to that client; PHP's heap cannot be trusted any more, so no handler runs
 *                                           again, the core finishes the other clients, and the master replaces the worker
 *
 * What one handler leaves behind must not reach the next one: see clean_up(). */
#include "php_fermata.h"
#include "main/php_main.h"
#include "main/php_output.h"
#include "ext/random/php_random.h"
#include "ext/standard/basic_functions.h"
#include "ext/standard/php_filestat.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"

#define EXIT_STATUS_FATAL 255 /* tells the master to replace the worker */
#define FERMATA_LOG_ERROR 0
#define FERMATA_LOG_INFO 2
#define EXCEPTIONS_MAX 8        /* how many that bring each other up are logged for one request */
#define HEADERS_STACK 8         /* answers with more header lines fill them on the heap */
#define STATUS_ERROR 500
#define STATUS_BAD_REQUEST 400
#define STATUS_UNAVAILABLE 503

typedef struct runner {
	FmWorker *worker;
	const fermata_server *server;
	fermata_request *request; /* reused while nobody else holds it */
	bool stopped;
	bool leaves;             /* this process was forked by a handler and has come back: it ends, with an exit() pending */
	bool retired;            /* after a fatal error */
	bool broken;             /* the core has panicked */
	bool fatal_seen;         /* display_errors and log_errors are off because a fatal error is logged here */
	uint8_t display_errors;  /* may be PHP_DISPLAY_ERRORS_STDERR */
	bool log_errors;
	zend_long timeout_seconds;
	int output_level;
	const php_output_handler *output_active;
} runner;

static runner current;

/* Process state */

/* The master's random state was copied by fork; without a new seed all workers would draw the same numbers. */
static void reseed(void)
{
	RANDOM_G(combined_lcg_seeded) = false;
	RANDOM_G(mt19937_seeded) = false;
#if PHP_VERSION_ID >= 80400
	RANDOM_G(fallback_seed_state).initialized = false;
#endif
}

static void enter_process(void)
{
#if PHP_VERSION_ID >= 80500
	php_child_init();
#endif
	reseed();
	php_clear_stat_cache(false, NULL, 0);
	/* A closed standard output must not end the worker. */
	PG(ignore_user_abort) = true;
	current.output_level = php_output_get_level();
	current.output_active = OG(active);
	current.timeout_seconds = EG(timeout_seconds);
	fermata.forked = false;
	if (EG(timeout_seconds)) {
		zend_unset_timeout();
	}
}

/* Errors */

static FmStr known_or_empty(const zend_string *string)
{
	return string ? fermata_str(string) : FERMATA_LITERAL("");
}

static void fail_at_handler(const fermata_handler *handler, FmStr message)
{
	const zend_function *function = handler->call.function_handler;
	FmStr file = FERMATA_LITERAL("");
	uint32_t line = 0;
	if (function->type == ZEND_USER_FUNCTION) {
		file = known_or_empty(function->op_array.filename);
		line = function->op_array.line_start;
	}
	fm_fail(current.worker, current.request->event.request, STATUS_ERROR, message, file, line);
}

/* For exceptions whose client is answered already. Clears them, and those that clearing brings up. */
static ZEND_COLD void log_exception(uint32_t level)
{
	for (uint32_t i = 0; EG(exception); i++) {
		zend_object *exception = EG(exception);
		if (i < EXCEPTIONS_MAX && !zend_is_unwind_exit(exception) && !zend_is_graceful_exit(exception)) {
			smart_str text = fermata_exception_text(exception, true);
			fm_worker_log(current.worker, level, fermata_str(text.s));
			smart_str_free(&text);
		}
		zend_clear_exception();
	}
}

static void refuse(uint64_t request, uint32_t status, FmStr text)
{
	FmResponse out = {.status = status, .content_type = fermata_str(fermata_known.type_text), .body = text};
	fm_respond(current.worker, request, &out);
}

/* Answers the client of an exception, and clears it. */
static ZEND_COLD void fail_with_exception(const fermata_handler *handler)
{
	zend_object *exception = EG(exception);
	uint64_t request = current.request->event.request;
	if (zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception)) {
		/* PHP builds that report an exhausted memory limit late leave by an exit where others jump. */
		if (current.fatal_seen) {
			zend_clear_exception();
			zend_bailout();
		}
		zend_clear_exception();
		EG(exit_status) = 0;
		fail_at_handler(handler, FERMATA_LITERAL("exit() called in handler; return a Response to end a request"));
		return;
	}
	FmStr file = fermata_exception_string(exception, ZEND_STR_FILE);
	uint32_t line = fermata_exception_line(exception);
	if (exception->ce == fermata_ce_bad_request) {
		refuse(request, STATUS_BAD_REQUEST, fermata_exception_string(exception, ZEND_STR_MESSAGE));
		log_exception(FERMATA_LOG_INFO);
		return;
	}
	smart_str text = fermata_exception_text(exception, false);
	fm_fail(current.worker, request, STATUS_ERROR, fermata_str(text.s), file, line);
	smart_str_free(&text);
	/* Releasing an exception frees the arguments in its trace, whose destructors may throw in turn. */
	zend_clear_exception();
}

/* Called before PHP shows a fatal error. The core logs it with the request, so PHP need not write it a second time;
 * an error_log that the user has set still gets it. */
void fermata_error_seen(int type, zend_string *file, uint32_t line, zend_string *message)
{
	bool fatal = type == E_ERROR || type == E_CORE_ERROR || type == E_COMPILE_ERROR
		|| (type == E_USER_ERROR && Z_ISUNDEF(EG(user_error_handler)));
	if (!fermata.handling || !fatal || current.fatal_seen) {
		return;
	}
	current.fatal_seen = true;
	current.display_errors = PG(display_errors);
	current.log_errors = PG(log_errors);
	PG(display_errors) = 0;
	if (!PG(error_log)) {
		PG(log_errors) = false;
	}
}

static ZEND_COLD void after_fatal(void)
{
	if (current.fatal_seen) {
		PG(display_errors) = current.display_errors;
		PG(log_errors) = current.log_errors;
		current.fatal_seen = false;
	}
	if (EG(timeout_seconds)) {
		zend_unset_timeout();
	}
	if (fermata.handling) {
		fermata.handling = false;
		fm_fail(current.worker, current.request->event.request, STATUS_ERROR,
			PG(last_error_message) ? fermata_str(PG(last_error_message)) : FERMATA_LITERAL("fatal error in handler"),
			known_or_empty(PG(last_error_file)), PG(last_error_lineno) > 0 ? (uint32_t)PG(last_error_lineno) : 0);
	}
	/* A shutdown function may still hold the request, whose bytes are about to go. */
	current.request->worker = NULL;
	memset(&current.request->event, 0, sizeof(current.request->event));
	if (!current.retired) {
		current.retired = true;
		fm_worker_retire(current.worker);
	}
}

/* Answers */

static void respond(const fermata_response *response)
{
	FmHeader some[HEADERS_STACK], *headers = some;
	uint32_t len = response->headers ? response->headers->len : 0;
	if (UNEXPECTED(len > HEADERS_STACK)) {
		headers = safe_emalloc(len, sizeof(FmHeader), 0);
	}
	fermata_headers_fill(response->headers, headers);
	FmResponse out = {
		.status = response->status,
		.content_type = fermata_str_or_absent(response->content_type),
		.headers = headers,
		.headers_len = len,
		.body = known_or_empty(response->body),
	};
	/* FM_GONE: the client has left, which is no error. */
	fm_respond(current.worker, current.request->event.request, &out);
	if (UNEXPECTED(headers != some)) {
		efree(headers);
	}
}

static void hold(const fermata_handler *handler, const fermata_hold *hold)
{
	FmError error;
	error.len = 0;
	uint32_t code = fermata_hold_send(current.worker, current.request->event.request, hold, &error);
	if (UNEXPECTED(code != FM_OK && code != FM_GONE)) {
		fail_at_handler(handler, (FmStr){error.message, error.len});
	}
}

static ZEND_COLD void fail_with_type(const fermata_handler *handler, const zval *result)
{
	char message[256];
	int len = snprintf(message, sizeof(message),
		"TypeError: the handler must return Fermata\\Response or Fermata\\Hold, %s returned", fermata_type_name(result));
	fail_at_handler(handler, (FmStr){message, MIN((size_t)len, sizeof(message) - 1)});
}

static void answer(const fermata_handler *handler, zval *result)
{
	if (EXPECTED(Z_TYPE_P(result) == IS_OBJECT)) {
		zend_object *object = Z_OBJ_P(result);
		if (EXPECTED(object->ce == fermata_ce_response)) {
			respond(FERMATA_FROM(fermata_response, object));
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

static ZEND_COLD void clean_output(void)
{
	/* As at the end of a script: what is still buffered goes to standard output. */
	while (php_output_get_level() > current.output_level && php_output_end() == SUCCESS) {
	}
	current.output_level = php_output_get_level();
	current.output_active = OG(active);
}

/* set_time_limit() counts for the handler that called it. */
static void clean_timeout(void)
{
	if (EG(timeout_seconds) != current.timeout_seconds) {
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
static void clean_up(void)
{
	if (UNEXPECTED(OG(active) != current.output_active)) {
		clean_output();
	}
	if (UNEXPECTED(EG(timeout_seconds) | current.timeout_seconds)) {
		clean_timeout();
	}
	if (UNEXPECTED(BG(CurrentStatFile) || BG(CurrentLStatFile))) {
		php_clear_stat_cache(false, NULL, 0);
	}
	if (UNEXPECTED(PG(last_error_message))) {
		clean_last_error();
	}
	if (UNEXPECTED(EG(exception))) {
		log_exception(FERMATA_LOG_ERROR);
	}
}

static bool held_by_others(const zend_object *object)
{
	/* A weak reference must not see the next request in the same object. */
	return GC_REFCOUNT(object) > 1 || (OBJ_FLAGS(object) & IS_OBJ_WEAKLY_REFERENCED);
}

static void take_fresh_request(void)
{
	OBJ_RELEASE(&current.request->std);
	current.request = fermata_request_new();
}

/* The process of a handler that forked shares the worker's sockets and must not serve them: it ends here. */
static ZEND_COLD void leave(void)
{
	current.leaves = current.stopped = true;
	if (EG(exception) && (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception)))) {
		return;
	}
	if (EG(exception)) {
		log_exception(FERMATA_LOG_ERROR);
	}
	fm_worker_log(current.worker, FERMATA_LOG_ERROR,
		FERMATA_LITERAL("a process that a handler has forked returned from it and was ended; it should call exit()"));
	zend_throw_unwind_exit();
}

static void handle(const fermata_handler *handler)
{
	zval argument, result;
	ZVAL_OBJ(&argument, &current.request->std);
	ZVAL_UNDEF(&result);
	zend_fcall_info info = {
		.size = sizeof(info),
		.retval = &result,
		.params = &argument,
		.param_count = 1,
	};
	zend_fcall_info_cache call = handler->call;
	ZVAL_COPY_VALUE(&info.function_name, &handler->closure);

	if (UNEXPECTED(current.timeout_seconds > 0)) {
		zend_set_timeout(current.timeout_seconds, false);
	}
	current.request->worker = current.worker;
	fermata.handling = true;
	zend_call_function(&info, &call);

	if (UNEXPECTED(fermata.forked)) {
		zval_ptr_dtor(&result);
		leave();
		return;
	}
	if (UNEXPECTED(EG(exception))) {
		fail_with_exception(handler);
	} else {
		answer(handler, &result);
	}
	zval_ptr_dtor(&result);
	if (UNEXPECTED(EG(exception))) {
		log_exception(FERMATA_LOG_ERROR);
	}
	if (EXPECTED(!held_by_others(&current.request->std))) {
		fermata_request_forget(current.request);
	} else {
		fermata_request_keep(current.request);
		take_fresh_request();
	}
	clean_up();
	fermata.handling = false;
}

static void loop(void)
{
	FmEvent *event;
	while (!current.stopped) {
		event = &current.request->event;
		if (UNEXPECTED(fm_next_event(current.worker, event) != FM_OK)) {
			/* A bug of the core: its state is not to be trusted, so the master has to start anew. */
			current.broken = current.stopped = true;
			return;
		}
		switch (event->kind) {
			case FM_EVENT_REQUEST:
				if (UNEXPECTED(current.retired)) {
					refuse(event->request, STATUS_UNAVAILABLE, FERMATA_LITERAL("Service Unavailable\n"));
				} else if (EXPECTED(event->handler < current.server->handlers_len)) {
					handle(&current.server->handlers[event->handler]);
				}
				break;
			case FM_EVENT_STOP:
				current.stopped = true;
				break;
		}
	}
}

/* Never comes back to the script: the worker ends as by exit(), or as after a fatal error. */
void fermata_run_worker(fermata_server *server, const FmStart *start)
{
	zend_execute_data *frame = EG(current_execute_data);
	memset(&current, 0, sizeof(current));
	fermata.worker = current.worker = start->worker;
	current.server = server;
	current.request = fermata_request_new();
	enter_process();

	do {
		zend_try {
			loop();
		} zend_catch {
			EG(current_execute_data) = frame;
			after_fatal();
		} zend_end_try();
	} while (!current.stopped);

	fermata.worker = NULL;
	fermata.handling = false;
	if (current.leaves) {
		/* The core's state belongs to the parent process, and what a Fiber or a static variable holds of the request may live on. */
		current.request->worker = NULL;
		memset(&current.request->event, 0, sizeof(current.request->event));
		OBJ_RELEASE(&current.request->std);
		return;
	}
	int exit_status = current.broken ? EXIT_STATUS_FATAL : fm_worker_exit_code(current.worker);
	if (!current.broken) {
		fm_worker_free(current.worker);
	}
	if (current.retired) {
		EG(exit_status) = exit_status;
		zend_bailout();
	}
	OBJ_RELEASE(&current.request->std);
	EG(exit_status) = exit_status;
	zend_throw_unwind_exit();
}
