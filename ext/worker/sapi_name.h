/* PHP_SAPI and php_sapi_name() of a command-line process that serves HTTP. */
#ifndef FERMATA_SAPI_NAME_H
#define FERMATA_SAPI_NAME_H

#include "handler/run.h"

void fermata_sapi_name_start(void);
void fermata_sapi_name_end(void);
void fermata_sapi_name_shutdown(void);
/* Applies the setting `sapi_name`, if the environment or php.ini sets it. Returns false with an exception pending. */
bool fermata_sapi_name_configure(void);

#endif
