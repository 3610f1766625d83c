/* State of this process's worker and of the handler that runs in it. */
#ifndef FERMATA_RUN_H
#define FERMATA_RUN_H

#include "base/base.h"

typedef struct fermata_fiber fermata_fiber;
typedef struct fermata_running fermata_running;
typedef struct fermata_server fermata_server;
typedef struct fermata_request fermata_request;
typedef struct fermata_websocket fermata_websocket;
typedef struct fermata_message fermata_message;

/* PHP code runs in a single thread, even with a thread-safe PHP (ZTS), where the extension only starts on the command line. So
 * module globals are plain statics. */
typedef struct fermata_state {
	FmWorker *worker; /* NULL outside a worker, and after its run() has returned */
	bool handling;    /* a handler is on the stack */
	uint32_t forks;   /* number of forks since the first process */
	bool forked;      /* a handler has forked this process */
} fermata_state;
extern fermata_state fermata;

#define FERMATA_LOG_ERROR 0
#define FERMATA_LOG_WARNING 1
#define FERMATA_LOG_INFO 2
#define FERMATA_LOG_DEBUG 3
#define FERMATA_STATUS_SWITCHING 101
#define FERMATA_STATUS_ERROR 500
#define FERMATA_STATUS_BAD_REQUEST 400
#define FERMATA_STATUS_UNAVAILABLE 503

typedef struct fermata_runner {
	const fermata_server *server;
	fermata_request *request; /* this and the next two are reused while no other code refers to them */
	fermata_websocket *websocket;
	fermata_message *message;
	fermata_fiber *fiber;    /* running fiber */
	uint64_t stream;         /* request whose streamed body has to make a piece; 0 = none */
	FmSocket socket;         /* connection whose handler runs; 0 = the handler responds to the request */
	bool (*take_turn)(void); /* called before each handler; NULL = handlers_max is not set */
	bool is_stopping;        /* waits are no longer possible */
	/* In the process of a test: */
	void (*on_failure)(zend_object *exception); /* a handler threw an exception */
	void (*on_hold)(zend_object *hold);         /* a client was held */
	bool waits;              /* a fiber or task waits or is ready */
	bool stopped;
	bool collects;           /* garbage is collected between two handlers; its destructors cannot wait */
	bool cleans;             /* state of a finished handler is released; its destructors cannot wait */
	bool leaves;             /* a handler forked this process, which has returned to the loop: it exits, with an exit() pending */
	bool retired;            /* after a fatal error */
	bool broken;             /* the core has panicked */
	bool is_whole;           /* the complete response of the running handler was passed to the core */
	bool in_process;         /* in the process of a test, which occupies the first fiber: worker/in_process.c */
	uint32_t in_process_wait_ms; /* maximum wait for events from outside of that process */
	bool fatal_seen;         /* the loop has to log a fatal error: display_errors and log_errors are off */
	uint8_t display_errors;  /* may be PHP_DISPLAY_ERRORS_STDERR */
	bool log_errors;
	zend_long timeout_seconds;
	int error_reporting;
} fermata_runner;
extern fermata_runner fermata_run;

/* Accessors for folders other than handler/ and fibers/. */

static zend_always_inline fermata_fiber *fermata_this_fiber(void)
{
	return fermata_run.fiber;
}

static zend_always_inline fermata_request *fermata_this_request(void)
{
	return fermata_run.request;
}

static zend_always_inline fermata_websocket *fermata_this_websocket(void)
{
	return fermata_run.websocket;
}

static zend_always_inline fermata_message *fermata_this_message(void)
{
	return fermata_run.message;
}

static zend_always_inline FmSocket fermata_this_socket(void)
{
	return fermata_run.socket;
}

static zend_always_inline FmRequest fermata_this_stream(void)
{
	return fermata_run.stream;
}

static zend_always_inline const fermata_server *fermata_this_server(void)
{
	return fermata_run.server;
}

static zend_always_inline bool fermata_is_retired(void)
{
	return fermata_run.retired;
}

static zend_always_inline bool fermata_is_stopped(void)
{
	return fermata_run.stopped;
}

static zend_always_inline bool fermata_is_collecting(void)
{
	return fermata_run.collects;
}

static zend_always_inline bool fermata_is_cleaning(void)
{
	return fermata_run.cleans;
}

static zend_always_inline bool fermata_is_in_process(void)
{
	return fermata_run.in_process;
}

static zend_always_inline bool fermata_is_leaving(void)
{
	return fermata_run.leaves;
}

static zend_always_inline bool fermata_has_fatal(void)
{
	return fermata_run.fatal_seen;
}

static zend_always_inline bool fermata_has_waiting(void)
{
	return fermata_run.waits;
}

static zend_always_inline zend_long fermata_timeout_seconds(void)
{
	return fermata_run.timeout_seconds;
}

static zend_always_inline bool fermata_is_whole(void)
{
	return fermata_run.is_whole;
}

static zend_always_inline void fermata_set_socket(FmSocket to)
{
	fermata_run.socket = to;
}

static zend_always_inline void fermata_set_stream(FmRequest to)
{
	fermata_run.stream = to;
}

static zend_always_inline void fermata_set_cleaning(bool to)
{
	fermata_run.cleans = to;
}

static zend_always_inline void fermata_set_fiber(fermata_fiber *to)
{
	fermata_run.fiber = to;
}

static zend_always_inline void fermata_set_request(fermata_request *to)
{
	fermata_run.request = to;
}

static zend_always_inline void fermata_set_websocket(fermata_websocket *to)
{
	fermata_run.websocket = to;
}

static zend_always_inline void fermata_set_message(fermata_message *to)
{
	fermata_run.message = to;
}

static zend_always_inline void fermata_set_timeout_seconds(zend_long to)
{
	fermata_run.timeout_seconds = to;
}

static zend_always_inline void fermata_set_server(const fermata_server *to)
{
	fermata_run.server = to;
}

static zend_always_inline void fermata_set_whole(bool to)
{
	fermata_run.is_whole = to;
}

static zend_always_inline void fermata_note_hold(zend_object *hold)
{
	fermata_run.on_hold(hold);
}

void fermata_run_start(const fermata_server *server);
/* Starts a worker in the process of a test. `wait_ms` is the maximum wait for events from outside of the process. */
void fermata_run_start_in_process(const fermata_server *server, uint32_t wait_ms, void (*on_failure)(zend_object *exception),
	void (*on_hold)(zend_object *hold));
void fermata_run_end(void);

#endif
