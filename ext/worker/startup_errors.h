/* Exceptions that an application threw before it was served; see startup_errors.c. */
#ifndef FERMATA_THROWN_H
#define FERMATA_THROWN_H

#include "php.h"

/* Starts recording if FERMATA_DEVELOPMENT_THROWN names a file. */
void fermata_thrown_start(void);
/* Stops recording in a worker, where exceptions go to a client or the log. */
void fermata_thrown_forget(void);
/* Writes the recorded exceptions to the file when the script has finished. */
void fermata_thrown_end(void);

#endif
