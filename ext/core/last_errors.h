/* What PHP's functions tell about the last thing that has failed: last_errors.c. */
#ifndef FERMATA_LAST_ERRORS_H
#define FERMATA_LAST_ERRORS_H

#include "php.h"
#include "zend_llist.h"

#define FERMATA_LAST_NUMBERS 2

typedef struct fermata_last_errors {
	int json, preg, numbers[FERMATA_LAST_NUMBERS];
	void *openssl;
	void *libxml;      /* a copy; NULL = none */
	zend_llist *collected; /* by libxml_use_internal_errors(); NULL = none */
} fermata_last_errors;

/* In each process, once all extensions are loaded. */
void fermata_last_errors_start(void);
/* Nothing has failed yet. */
void fermata_last_errors_clean(void);
/* Takes them out for a handler that waits, and puts them back. */
void fermata_last_errors_save(fermata_last_errors *it);
void fermata_last_errors_restore(fermata_last_errors *it);

#endif
