/* Server::every() and defer(): work without a client, run as tasks. */
#include "fibers/fibers.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

/* Resolution of the worker's clock. */
#define INTERVAL_MS_MIN 1

struct fermata_every {
	fermata_timer timer;
	uint64_t interval_ms;
	zval work;               /* a closure */
	fermata_future *running; /* task of its last run; NULL = never started */
	bool in_each_worker;
	struct fermata_every *next;
};

#define THIS_SERVER() FERMATA_FROM(fermata_server, Z_OBJ_P(ZEND_THIS))
#define RETURN_THIS() RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS))

void fermata_every_free(fermata_every *every)
{
	while (every) {
		fermata_every *next = every->next;
		fermata_timer_disarm(&every->timer);
		zval_ptr_dtor(&every->work);
		fermata_future_release(every->running);
		efree(every);
		every = next;
	}
}

void fermata_every_gc(const fermata_every *every, zend_get_gc_buffer *buffer)
{
	for (; every; every = every->next) {
		zval work;
		ZVAL_COPY_VALUE(&work, &every->work);
		zend_get_gc_buffer_add_zval(buffer, &work);
	}
}

/* Called when a worker starts. */
void fermata_every_start(fermata_every *every, uint32_t worker_index)
{
	uint64_t now_ms = fm_worker_now_ms(fermata.worker);
	for (; every; every = every->next) {
		if (every->in_each_worker || !worker_index) {
			fermata_timer_arm(&every->timer, now_ms + every->interval_ms);
		}
	}
}

/* Called when a worker stops. PHP then frees all objects; a Future that is still referenced would stay. */
void fermata_every_stop(fermata_every *every)
{
	for (; every; every = every->next) {
		fermata_future_release(every->running);
		every->running = NULL;
	}
}

/* Starts a run, or skips it if the previous run is unfinished. */
static void on_due(fermata_timer *timer, uint64_t now_ms)
{
	fermata_every *every = (fermata_every *)((char *)timer - XtOffsetOf(fermata_every, timer));
	uint64_t missed = (now_ms - timer->due_ms) / every->interval_ms;
	fermata_timer_arm(timer, timer->due_ms + (missed + 1) * every->interval_ms);
	bool runs = every->running && !fermata_future_has_ended(every->running);
	if (missed + runs) {
		fm_count_skipped(fermata.worker, missed + runs);
	}
	if (runs) {
		return;
	}
	fermata_future *before = every->running;
	every->running = NULL;
	if (EXPECTED(before)) {
		fermata_future_drop(before);
	}
	every->running = fermata_task_begin(&every->work, FM_TASK_EVERY);
	if (UNEXPECTED(EG(exception))) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
}

ZEND_METHOD(Fermata_Server, every)
{
	double seconds;
	bool in_each_worker = false;
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(2, 3)
		Z_PARAM_DOUBLE(seconds)
		Z_PARAM_FUNC(info, call)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(in_each_worker)
	ZEND_PARSE_PARAMETERS_END();
	fermata_server *server = THIS_SERVER();
	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	if (!(seconds > 0 && seconds <= FERMATA_SECONDS_MAX)) {
		fermata_misuse("the interval of every() must be more than 0 seconds and at most a year, not %g", seconds);
		RETURN_THROWS();
	}
	fermata_handler work;
	if (!fermata_handler_init(&work, &info.function_name)) {
		if (!EG(exception)) {
			fermata_misuse("what every() is given cannot be called");
		}
		RETURN_THROWS();
	}
	if (!fermata_handler_takes(&work, "what every() calls", NULL, 0)) {
		zval_ptr_dtor(&work.closure);
		RETURN_THROWS();
	}
	fermata_every *every = ecalloc(1, sizeof(fermata_every));
	every->timer.on_due = on_due;
	every->interval_ms = MAX((uint64_t)(seconds * 1000), INTERVAL_MS_MIN);
	every->in_each_worker = in_each_worker;
	ZVAL_COPY_VALUE(&every->work, &work.closure);
	every->next = server->every;
	server->every = every;
	RETURN_THIS();
}

ZEND_METHOD(Fermata_Server, defer)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(info, call)
	ZEND_PARSE_PARAMETERS_END();
	if (UNEXPECTED(!fermata.handling || fermata.forked)) {
		fermata_misuse("defer() can be called only by handlers and tasks of a running server");
		RETURN_THROWS();
	}
	fermata_task_defer(&info.function_name, false);
}
