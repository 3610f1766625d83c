/* Last errors of extensions; see last_errors.c. */
#ifndef FERMATA_LAST_ERRORS_H
#define FERMATA_LAST_ERRORS_H

void fermata_last_errors_init(void);
/* Locates the extensions' state. Called in each process after all extensions are loaded. */
void fermata_last_errors_start(void);

#endif
