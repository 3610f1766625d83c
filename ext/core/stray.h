/* Output, headers and sessions of handlers, which reach no client; see stray.c. */
#ifndef FERMATA_STRAY_H
#define FERMATA_STRAY_H

#include "core/runner.h"

void fermata_stray_wrap(void);
void fermata_stray_start(void);
void fermata_stray_end(void);
bool fermata_session_begin(void);
void fermata_session_end(fermata_fiber *fiber);
/* The wait for the lock of the session that is being opened was ended: it must not be used. */
void fermata_session_unlocked(void);

/* http/globals.c */
void fermata_globals_init(void);
/* The script ends. */
void fermata_globals_forget(void);
bool fermata_printed_something(void);
zend_string *fermata_printed_take(void);
void fermata_printed_end(void);
void fermata_globals_end(fermata_fiber *fiber);
void fermata_globals_let_answer_leave(fermata_fiber *fiber);
bool fermata_globals_answer(const fermata_handler *handler);

/* http/events.c */
void fermata_output_write(void *to, FmStr bytes);
void fermata_output_flush(void *to);

#endif
