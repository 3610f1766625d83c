/* What handlers change of PHP's process-wide state; see changes.c. */
#ifndef FERMATA_CHANGES_H
#define FERMATA_CHANGES_H

#include "core/runner.h"

#define FERMATA_SUPERGLOBALS 8

typedef struct fermata_changes fermata_changes;

/* The superglobals as they were when the worker started, and where they lie in PHP's table of global variables. */
typedef struct fermata_superglobals {
	zend_string *names[FERMATA_SUPERGLOBALS];
	zval start[FERMATA_SUPERGLOBALS]; /* arrays, or undefined */
	uint32_t places[FERMATA_SUPERGLOBALS];
	const zend_string *keys[FERMATA_SUPERGLOBALS]; /* what the table calls them */
	uint32_t used;           /* places in the table that are taken */
	const zend_string *last; /* the name at the last of them */
} fermata_superglobals;
extern fermata_superglobals fermata_globals;

void fermata_wrap(HashTable *functions, const char *name, zif_handler wrapper, zif_handler *original);
void fermata_changes_wrap(void);
void fermata_changes_start(void);
void fermata_changes_end(void);
void fermata_changes_leave(fermata_fiber *fiber);
void fermata_changes_enter(fermata_fiber *fiber);
void fermata_changes_shut_down(void);
void fermata_changes_undo(void);
void fermata_changes_abandon(fermata_fiber *fiber);
void fermata_changes_abandoned(void);
bool fermata_globals_compare(void);

/* Whether a superglobal is another than at the start. */
static zend_always_inline bool fermata_globals_differ(void)
{
	const HashTable *table = &EG(symbol_table);
	if (UNEXPECTED(table->nNumUsed != fermata_globals.used || !table->nNumUsed
			|| table->arData[table->nNumUsed - 1].key != fermata_globals.last)) {
		return fermata_globals_compare();
	}
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		if (Z_ISUNDEF(fermata_globals.start[i])) {
			continue;
		}
		const Bucket *at = &table->arData[fermata_globals.places[i]];
		if (UNEXPECTED(at->key != fermata_globals.keys[i] || Z_TYPE(at->val) != IS_ARRAY
				|| Z_ARR(at->val) != Z_ARR(fermata_globals.start[i]))) {
			return fermata_globals_compare();
		}
	}
	return false;
}

#endif
