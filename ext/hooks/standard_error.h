/* Redirects standard error of PHP code in a worker to the server's log; see standard_error.c. */
#ifndef FERMATA_STANDARD_ERROR_H
#define FERMATA_STANDARD_ERROR_H

#include "handler/run.h"

/* Passes each line to `to` until fermata_standard_error_end(). */
void fermata_standard_error_start(void (*to)(FmStr line));
void fermata_standard_error_end(void);

#endif
