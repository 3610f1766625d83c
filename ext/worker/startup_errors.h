/* Exceptions that an application threw before it was served; see startup_errors.c. */
#ifndef FERMATA_STARTUP_ERRORS_H
#define FERMATA_STARTUP_ERRORS_H

#include "php.h"

/* Starts recording if FERMATA_DEVELOPMENT_THROWN names a file. */
void fermata_startup_errors_start(void);
/* Stops recording in a worker, where exceptions go to a client or the log. */
void fermata_startup_errors_drop(void);
/* Writes the recorded exceptions to the file when the script has finished. */
void fermata_startup_errors_end(void);

#endif
