/* What the parts of the runner share: runner.c has the loop, sockets/runner.c the events of WebSockets, failures.c what
 * becomes of exceptions and fatal errors. */
#ifndef FERMATA_RUNNER_H
#define FERMATA_RUNNER_H

#include "php_fermata.h"
#include "main/php_output.h"

typedef struct fermata_fiber fermata_fiber;

#define FERMATA_LOG_ERROR 0
#define FERMATA_LOG_WARNING 1
#define FERMATA_LOG_INFO 2
#define FERMATA_LOG_DEBUG 3
#define FERMATA_STATUS_SWITCHING 101
#define FERMATA_STATUS_ERROR 500
#define FERMATA_STATUS_BAD_REQUEST 400
#define FERMATA_STATUS_UNAVAILABLE 503

typedef struct fermata_runner {
	FmWorker *worker;
	const fermata_server *server;
	fermata_request *request; /* these three are reused while nobody else holds them */
	fermata_websocket *websocket;
	fermata_message *message;
	fermata_fiber *fiber;    /* the one that runs */
	uint64_t stream;         /* the request whose stream is asked for a piece; 0 = none */
	FmSocket socket;         /* the connection whose handler runs; 0 = the handler answers the request */
	bool takes_turns;        /* handlers_max is set */
	bool waits;              /* some fiber or task waits, or is ready to go on */
	bool stopped;
	bool collects;           /* garbage is collected between two handlers: what its destructors call waits for nothing */
	bool leaves;             /* this process was forked by a handler and has come back: it ends, with an exit() pending */
	bool retired;            /* after a fatal error */
	bool broken;             /* the core has panicked */
	bool is_whole;           /* the answer of the handler that runs has been given to the core whole */
	bool in_process;         /* of a test, which has the first fiber: core/in_process.c */
	uint32_t in_process_wait_ms; /* for what goes on outside of that process */
	bool fatal_seen;         /* display_errors and log_errors are off because a fatal error is logged here */
	uint8_t display_errors;  /* may be PHP_DISPLAY_ERRORS_STDERR */
	bool log_errors;
	zend_long timeout_seconds;
	int error_reporting;
	int output_level;
	const php_output_handler *output_active;
} fermata_runner;
extern fermata_runner fermata_run;

static zend_always_inline FmStr fermata_str_or_empty(const zend_string *string)
{
	return string ? fermata_str(string) : FERMATA_LITERAL("");
}

/* A weak reference must not see the next event in the same object. */
static zend_always_inline bool fermata_held_by_others(const zend_object *object)
{
	return GC_REFCOUNT(object) > 1 || (OBJ_FLAGS(object) & IS_OBJ_WEAKLY_REFERENCED);
}

/* runner.c */
void fermata_output_end(int level);
void fermata_enter_process(void);
/* The part of it that a process needs that is not a worker's own. */
void fermata_enter_run(void);
void fermata_dispatch(const FmEvent *event);
/* The handlers' end, when a worker stops in order. */
void fermata_stop(void);
void fermata_runner_loop(zend_execute_data *frame);
void fermata_runner_release(void);
bool fermata_call(const fermata_handler *handler, zval *arguments, uint32_t arguments_len, zval *result);
void fermata_clean_up(void);
void fermata_request_done(void);
ZEND_COLD void fermata_leave(void);
void fermata_respond(const fermata_handler *handler, const fermata_response *response);
void fermata_answer(const fermata_handler *handler, zval *result);
void fermata_refuse(FmRequest request, uint32_t status, FmStr text);

/* sockets/runner.c */
void fermata_socket_upgrade(const FmEvent *event);
void fermata_socket_open(const FmEvent *event);
void fermata_socket_message(const FmEvent *event);
void fermata_socket_close(const FmEvent *event);

/* http/stream.c */
void fermata_stream_pull(const FmEvent *event);
void fermata_stream_ended(const FmEvent *event);
void fermata_streams_release(void);

/* http/middleware.c */
ZEND_COLD bool fermata_error_handled(void);

/* in_process.c */
/* An exception that a client was answered for, for the test. */
ZEND_COLD void fermata_in_process_note(zend_object *exception);
/* What a client is held by. */
ZEND_COLD void fermata_in_process_note_hold(zend_object *hold);

/* failures.c */
void fermata_detail(FmDetail *detail);
ZEND_COLD void fermata_log_exception(uint32_t level);
ZEND_COLD void fermata_fail_at_handler(const fermata_handler *handler, FmStr message);
ZEND_COLD void fermata_fail_with_exception(const fermata_handler *handler);
void fermata_let_go(void);
ZEND_COLD void fermata_after_fatal(void);
/* Whether PHP's messages go to a file or to syslog, too: one that is set to nothing is standard error, which has our log. */
bool fermata_has_error_log(void);

#endif
