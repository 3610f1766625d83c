/* Output, headers and sessions of handlers, which reach no client; see sapi_output.c and sessions.c. */
#ifndef FERMATA_SAPI_OUTPUT_H
#define FERMATA_SAPI_OUTPUT_H

#include "state/changes.h"
#include "fibers/fibers.h"

/* Returns true if a handler or task of this worker is running. */
static zend_always_inline bool fermata_is_handlers(void)
{
	return (fermata.handling || fermata_is_cleaning()) && !fermata.forked && fermata.worker;
}

/* Returns true if the running handler has its request in PHP's globals, as in PHP-FPM: http/globals.c. */
static zend_always_inline bool fermata_has_globals(void)
{
	return fermata_this_fiber() && fermata_has_request(fermata_this_fiber());
}

void fermata_sapi_output_init(void);
void fermata_sapi_output_wrap(void);
/* Logs a warning once for each line of PHP code. */
ZEND_COLD void fermata_warn_once(const char *text);
void fermata_sapi_output_start(void);
void fermata_sapi_output_drop(void);
void fermata_sapi_output_end(void);
bool fermata_printed_something(void);
zend_string *fermata_printed_take(void);
void fermata_printed_end(void);
/* Sets the script's output buffers aside until the worker stops. */
void fermata_put_by_output(void);

/* sessions.c */
bool fermata_session_check(void);
void fermata_sessions_wrap(void);
void fermata_session_end(void);
/* Called when the wait for the lock of the session being opened was ended. The session must not be used. */
void fermata_session_unlocked(void);

/* cursors.c */
void fermata_cursors_init(void);
void fermata_cursors_wrap(void);

/* Destination of output that is not part of the handler's response. */
typedef struct fermata_output {
	void (*write)(void *to, FmStr bytes);
	void (*flush)(void *to);
} fermata_output;
/* Diverts this fiber's output to `to`; `output` NULL ends it. */
void fermata_output_divert(const fermata_output *output, void *to);
#endif
