/* Output, headers and sessions of handlers, which reach no client; see stray.c. */
#ifndef FERMATA_STRAY_H
#define FERMATA_STRAY_H

#include "core/runner.h"

void fermata_stray_wrap(void);
void fermata_stray_start(void);
void fermata_stray_end(void);

#endif
