/* Fermata\Testing\Engine: a worker in the process of a test.
 *
 * The test runs on the first fiber, PHP's own stack. The pool (fibers/scheduler.c) treats it as a waiting handler: run() passes the
 * loop to another fiber and returns when the core has nothing left to do at the current time. Events, handlers, holds and timers
 * work as in a worker. Between two calls the test does not count as a handler, so PHP's functions block as usual.
 *
 * The stack frame below the handlers does not belong to the test: a handler may start in one run() and continue in another,
 * called from elsewhere.
 *
 * A fatal error in a handler ends the test's process. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "http/http.h"
#include "jobs/jobs.h"
#include "worker/worker.h"
#include "state/changes.h"
#include "state/php_state.h"
#include "state/sapi_output.h"
#include "fibers/fibers.h"
#include "hooks/hooks.h"
#include "zend_exceptions.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/optimize_size.h"

#define WAIT_SECONDS_MAX 3600.0
#define ADVANCE_MS_MAX (ZEND_LONG_MAX / 1000 / 1000)
#define EXIT_STATUS_FATAL 255

typedef struct fermata_engine {
	zval server;
	FmMemory *memory;  /* NULL = not open */
	int log;           /* separate descriptor of the core's log file */
	zend_object *exception, *hold; /* not fetched yet by takeException() and takeHold(); NULL = none */
	uint32_t forks;    /* fermata.forks when it was opened; differs in a forked child */
	bool runs;
	zend_object std;
} fermata_engine;

static zend_object_handlers engine_handlers;
/* The open engine; NULL = none. */
static fermata_engine *current;
static zend_internal_function no_function = {.type = ZEND_INTERNAL_FUNCTION};
static zend_execute_data frame;

#define THIS_ENGINE() FERMATA_FROM(fermata_engine, Z_OBJ_P(ZEND_THIS))

static void stop(fermata_engine *engine);

/* Object lifetime */

static zend_object *engine_create(zend_class_entry *ce)
{
	fermata_engine *engine = zend_object_alloc(sizeof(fermata_engine), ce);
	memset(engine, 0, XtOffsetOf(fermata_engine, std));
	engine->log = -1;
	zend_object_std_init(&engine->std, ce);
	engine->std.handlers = &engine_handlers;
	return &engine->std;
}

static void forget(zend_object **object)
{
	zend_object *old = *object;
	*object = NULL;
	if (old) {
		OBJ_RELEASE(old);
	}
}

/* Stops while PHP code can still run: waiting handlers have `finally` blocks. */
static void engine_destroy(zend_object *object)
{
	stop(FERMATA_FROM(fermata_engine, object));
}

static void engine_free(zend_object *object)
{
	fermata_engine *engine = FERMATA_FROM(fermata_engine, object);
	if (current == engine) {
		/* The test itself had a fatal error, so stop() was not called. */
		current = NULL;
	}
	if (engine->log >= 0) {
		close(engine->log);
	}
	forget(&engine->exception);
	forget(&engine->hold);
	zval_ptr_dtor(&engine->server);
	zend_object_std_dtor(object);
}

static HashTable *engine_get_gc(zend_object *object, zval **table, int *len)
{
	fermata_engine *engine = FERMATA_FROM(fermata_engine, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	zend_get_gc_buffer_add_zval(buffer, &engine->server);
	if (engine->exception) {
		zend_get_gc_buffer_add_obj(buffer, engine->exception);
	}
	if (engine->hold) {
		zend_get_gc_buffer_add_obj(buffer, engine->hold);
	}
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

void fermata_in_process_init(void)
{
	fermata_ce_engine->create_object = engine_create;
	memcpy(&engine_handlers, zend_get_std_object_handlers(), sizeof(engine_handlers));
	engine_handlers.offset = XtOffsetOf(fermata_engine, std);
	engine_handlers.dtor_obj = engine_destroy;
	engine_handlers.free_obj = engine_free;
	engine_handlers.get_gc = engine_get_gc;
	engine_handlers.clone_obj = NULL;
	engine_handlers.compare = zend_objects_not_comparable;
	frame.func = (zend_function *)&no_function;
}

static void note(zend_object **place, zend_object *object)
{
	GC_ADDREF(object);
	forget(place);
	*place = object;
}

static ZEND_COLD void note_failure(zend_object *exception)
{
	if (current) {
		note(&current->exception, exception);
	}
}

static ZEND_COLD void note_hold(zend_object *hold)
{
	if (current) {
		note(&current->hold, hold);
	}
}

/* Start and stop */

static void begin(fermata_engine *engine, FmWorker *worker, double wait)
{
	const fermata_server *server = FERMATA_FROM(fermata_server, Z_OBJ(engine->server));
	fermata_run_start_in_process(server, (uint32_t)(wait * 1000), note_failure, note_hold);
	fermata.worker = worker;
	fermata_make_objects();
	fermata_enter_run();
	fermata_php_state_start_in_test();
	fermata_changes_start();
	fermata_sapi_output_start();
	fermata_fibers_start(&frame, fermata_runner_loop, fermata_dispatch, fermata_tasks_run_next);
	fermata_hook_user_streams();
	fermata_hook_reads(&fermata_body_stream_ops);
	if (fermata_turns_are_single()) {
		fermata_hook_session_locks();
	}
	fermata_every_start(server->every, 0);
	fermata_peers_start(server, 0);
}

/* Opens the parts that a master opens before it starts workers, for one worker. Returns false with an exception pending. */
static bool open_parts(const fermata_server *server)
{
	return fermata_jobs_open_in_process(server) && fermata_peers_open(server, 1);
}

ZEND_METHOD(Fermata_Testing_Engine, __construct)
{
	zend_object *object;
	double wait = 10.0;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_OBJ_OF_CLASS(object, fermata_ce_server)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE(wait)
	ZEND_PARSE_PARAMETERS_END();
	fermata_engine *engine = THIS_ENGINE();
	int log;
	FmWorker *worker = NULL;
	FmError error;
	error.len = 0;
	if (!Z_ISUNDEF(engine->server)) {
		fermata_constructed_twice();
		RETURN_THROWS();
	}
	if (!(wait >= 0.0 && wait <= WAIT_SECONDS_MAX)) {
		fermata_misuse("waitSeconds is 0 to %.0f, not %g", WAIT_SECONDS_MAX, wait);
		RETURN_THROWS();
	}
	FmServer *core = fermata_server_take(FERMATA_FROM(fermata_server, object));
	if (!core) {
		RETURN_THROWS();
	}
	uint32_t code = fm_in_process_start(core, &log, &worker, &engine->memory, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	engine->log = log;
	if (!open_parts(FERMATA_FROM(fermata_server, object))) {
		fm_worker_free(worker);
		fm_in_process_end(engine->memory);
		engine->memory = NULL;
		RETURN_THROWS();
	}
	ZVAL_OBJ_COPY(&engine->server, object);
	engine->forks = fermata.forks;
	current = engine;
	begin(engine, worker, wait);
}

/* Stops a worker that had no fatal error; runs on the first fiber. */
static void end_worker(fermata_engine *engine)
{
	fermata_stop();
	fermata_sapi_output_end();
	FmWorker *worker = fermata.worker;
	fermata_let_go();
	fermata.worker = NULL;
	fermata.handling = false;
	fm_worker_free(worker);
	fermata_fibers_end();
	fermata_every_stop(FERMATA_FROM(fermata_server, Z_OBJ(engine->server))->every);
	fermata_peers_stop();
	fermata_peers_close();
	fermata_changes_keep(fermata_this_fiber());
	fermata_changes_end();
	FERMATA_EACH_PART(on_release)
	fermata_run_end();
}

static void stop(fermata_engine *engine)
{
	if (!engine->memory || engine->runs || engine->forks != fermata.forks || current != engine) {
		return;
	}
	/* An exception of the test may be pending. */
	zend_object *pending = EG(exception);
	const zend_op *before = EG(opline_before_exception);
	EG(exception) = NULL;
	engine->runs = true;
	end_worker(engine);
	engine->runs = false;
	current = NULL;
	fm_in_process_end(engine->memory);
	engine->memory = NULL;
	if (pending) {
		EG(exception) = pending;
		EG(opline_before_exception) = before;
	}
}

ZEND_METHOD(Fermata_Testing_Engine, stop)
{
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_engine *engine = THIS_ENGINE();
	if (engine->runs || EG(active_fiber)) {
		fermata_misuse("stop() cannot be called in a handler or in a Fiber");
		RETURN_THROWS();
	}
	stop(engine);
}

/* Running */

/* Checks that the test may run the engine now. Returns false with a MisuseError pending. */
static bool check(const fermata_engine *engine)
{
	if (!engine->memory || engine->forks != fermata.forks) {
		fermata_misuse(engine->memory ? "the server runs in the process that this one was forked from" : "the server was stopped");
		return false;
	}
	if (engine->runs || EG(active_fiber)) {
		fermata_misuse("the test runs the server, outside of handlers and Fibers");
		return false;
	}
	return true;
}

/* Ends the process after a fatal error: PHP's heap may be corrupt. Prints the log, which would otherwise be lost. */
static ZEND_COLD void end_with_process(fermata_engine *engine)
{
	char text[4096];
	ssize_t len;
	for (off_t at = 0; (len = pread(engine->log, text, sizeof(text), at)) > 0; at += len) {
		if (write(STDERR_FILENO, text, (size_t)len) < 0) {
			break;
		}
	}
	fermata_sapi_output_end();
	fermata.worker = NULL;
	fermata.handling = false;
	current = NULL;
	fermata_changes_abandoned();
	EG(exit_status) = EXIT_STATUS_FATAL;
	zend_bailout();
}

static void run(fermata_engine *engine)
{
	engine->runs = true;
	bool done = fermata_fibers_run_others();
	engine->runs = false;
	if (UNEXPECTED(done && fermata_is_leaving())) {
		/* A forked child returned from the handler. It exits here; the worker belongs to its parent. */
		fermata_sapi_output_end();
		fermata.worker = NULL;
		if (!EG(exception)) {
			zend_throw_unwind_exit();
		}
		return;
	}
	if (UNEXPECTED(fermata_is_retired())) {
		end_with_process(engine);
	}
}

ZEND_METHOD(Fermata_Testing_Engine, connect)
{
	zval *value;
	zend_string *address = NULL;
	zend_long port = 50000;
	FmError error;
	int fd = -1;
	php_stream *stream;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_RESOURCE(value)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR(address)
		Z_PARAM_LONG(port)
	ZEND_PARSE_PARAMETERS_END();
	fermata_engine *engine = THIS_ENGINE();
	error.len = 0;
	php_stream_from_zval_no_verify(stream, value);
	if (!check(engine)) {
		RETURN_THROWS();
	}
	if (port < 0 || port > UINT16_MAX) {
		fermata_misuse("a port is 0 to %d, not " ZEND_LONG_FMT, UINT16_MAX, port);
		RETURN_THROWS();
	}
	struct stat kind;
	if (!stream || php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void *)&fd, false) != SUCCESS
			|| fd < 0 || fstat(fd, &kind) != 0 || !S_ISSOCK(kind.st_mode)) {
		fermata_misuse("the stream is no socket; use one of stream_socket_pair()");
		RETURN_THROWS();
	}
	/* The copy shares its file status flags with the stream. From now on, only the server uses the connection. */
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0 || fcntl(copy, F_SETFL, fcntl(copy, F_GETFL) | O_NONBLOCK) != 0) {
		zend_throw_exception_ex(fermata_ce_connection, 0, "a connection: %s", strerror(errno));
		RETURN_THROWS();
	}
	FmStr from = address ? fermata_str(address) : FERMATA_LITERAL("127.0.0.1");
	uint32_t code = fm_in_process_connect(fermata.worker, copy, from, (uint16_t)port, &error);
	if (code != FM_OK) {
		close(copy);
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
}

ZEND_METHOD(Fermata_Testing_Engine, run)
{
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_engine *engine = THIS_ENGINE();
	if (!check(engine)) {
		RETURN_THROWS();
	}
	run(engine);
}

ZEND_METHOD(Fermata_Testing_Engine, advance)
{
	zend_long ms;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_LONG(ms)
	ZEND_PARSE_PARAMETERS_END();
	fermata_engine *engine = THIS_ENGINE();
	if (!check(engine)) {
		RETURN_THROWS();
	}
	if (ms < 0 || ms > ADVANCE_MS_MAX) {
		fermata_misuse("the clock is set forward by 0 milliseconds or more, not " ZEND_LONG_FMT, ms);
		RETURN_THROWS();
	}
	uint64_t by = fm_in_process_advance(fermata.worker, (uint64_t)ms);
	run(engine);
	RETVAL_LONG((zend_long)by);
}

static void add_text(zval *array, const char *name, zend_string *text)
{
	if (text) {
		add_assoc_str(array, name, zend_string_copy(text));
	} else {
		add_assoc_null(array, name);
	}
}

ZEND_METHOD(Fermata_Testing_Engine, takeHold)
{
	zval channels;
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_engine *engine = THIS_ENGINE();
	if (!engine->hold) {
		RETURN_NULL();
	}
	const fermata_hold *hold = FERMATA_FROM(fermata_hold, engine->hold);
	array_init_size(&channels, hold->channels_len);
	for (uint32_t i = 0; i < hold->channels_len; i++) {
		add_next_index_str(&channels, zend_string_copy(hold->channels[i]));
	}
	array_init(return_value);
	add_assoc_zval(return_value, "channels", &channels);
	add_text(return_value, "since", hold->since);
	add_assoc_bool(return_value, "fromStart", hold->from_start);
	add_text(return_value, "user", hold->user);
	add_text(return_value, "info", hold->info);
	add_assoc_bool(return_value, "announces", hold->announce);
	if (hold->keep_alive_ms < 0) {
		add_assoc_null(return_value, "keepAlive");
	} else {
		add_assoc_long(return_value, "keepAlive", (zend_long)(hold->keep_alive_ms / 1000));
	}
	add_assoc_bool(return_value, "closesOnGap", hold->slow == FM_SLOW_CLOSE);
	forget(&engine->hold);
}

ZEND_METHOD(Fermata_Testing_Engine, takeException)
{
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_engine *engine = THIS_ENGINE();
	if (!engine->exception) {
		RETURN_NULL();
	}
	zend_object *exception = engine->exception;
	engine->exception = NULL;
	RETURN_OBJ(exception);
}

ZEND_METHOD(Fermata_Testing_Engine, log)
{
	ZEND_PARSE_PARAMETERS_NONE();
	const fermata_engine *engine = THIS_ENGINE();
	struct stat size;
	if (engine->log < 0 || fstat(engine->log, &size) != 0) {
		RETURN_EMPTY_STRING();
	}
	zend_string *text = zend_string_alloc((size_t)size.st_size, false);
	ssize_t len = pread(engine->log, ZSTR_VAL(text), ZSTR_LEN(text), 0);
	ZSTR_LEN(text) = len < 0 ? 0 : (size_t)len;
	ZSTR_VAL(text)[ZSTR_LEN(text)] = 0;
	RETURN_STR(text);
}
