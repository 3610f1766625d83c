/* What a program has thrown before it was served: thrown.c. */
#ifndef FERMATA_THROWN_H
#define FERMATA_THROWN_H

#include "php.h"

/* In each process; does something where FERMATA_DEVELOPMENT_THROWN names a file. */
void fermata_thrown_start(void);
/* In a worker, where what is thrown has a client, or a line of the log. */
void fermata_thrown_forget(void);
/* The program has ended: what it has thrown last is written into the file. */
void fermata_thrown_end(void);

#endif
