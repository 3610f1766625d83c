/* Brackets calls of PHP functions during which no application code may run; see quiet.c. */
#ifndef FERMATA_QUIET_H
#define FERMATA_QUIET_H

#include "handler/run.h"

/* From here on, PHP's warnings call no error handler and throw no exception, and no wait is possible. */
void fermata_quiet_begin(void);
/* Ends the quiet call. PHP raises the stored warnings, so the error handler is called, and may throw. */
void fermata_quiet_end(void);
/* Ends the quiet call. The stored warnings are written to the server's log, prefixed with `what`. */
void fermata_quiet_end_logged(const char *what);
bool fermata_is_quiet(void);
void fermata_quiet_init(void);

#endif
