/* What handlers change of PHP's process-wide state; see changes.c. */
#ifndef FERMATA_CHANGES_H
#define FERMATA_CHANGES_H

#include "core/runner.h"

typedef enum fermata_superglobal {
	FERMATA_GET, FERMATA_POST, FERMATA_COOKIE, FERMATA_FILES, FERMATA_SERVER, FERMATA_REQUEST, FERMATA_ENV, FERMATA_SESSION,
	FERMATA_SUPERGLOBALS
} fermata_superglobal;

typedef struct fermata_changes fermata_changes;

/* The superglobals as they were when the worker started, and where they lie in PHP's table of global variables.
 *
 * They lie there still when the table has the same memory, as many places, as many variables and the same one last: variables
 * are added at the end, and closing gaps needs one that was removed. */
typedef struct fermata_superglobals {
	zend_string *names[FERMATA_SUPERGLOBALS];
	uint32_t places[FERMATA_SUPERGLOBALS]; /* where each was found last; that it is there still is looked at */
	zval start[FERMATA_SUPERGLOBALS]; /* arrays, or undefined */
	const Bucket *table;
	uint32_t used, elements;
	const zend_string *last;
	/* Of those that were arrays; the others point to themselves, so the loop always has one length. */
	zend_array *const *at[FERMATA_SUPERGLOBALS];
	zend_array *arrays[FERMATA_SUPERGLOBALS];
} fermata_superglobals;
extern fermata_superglobals fermata_globals;

void fermata_wrap(HashTable *functions, const char *name, zif_handler wrapper, zif_handler *original);
void fermata_changes_wrap(void);
void fermata_changes_start(void);
void fermata_changes_start_jobs(void);
void fermata_changes_end(void);
void fermata_changes_note_http(void);
void fermata_changes_leave(fermata_fiber *fiber);
void fermata_changes_enter(fermata_fiber *fiber);
void fermata_changes_shut_down(void);
void fermata_changes_undo(void);
/* What was noted of the fiber stays as it is now. */
void fermata_changes_keep(fermata_fiber *fiber);
void fermata_changes_abandon(fermata_fiber *fiber);
void fermata_changes_abandoned(void);
bool fermata_globals_compare(void);
zval *fermata_global_search(fermata_superglobal number);

/* NULL when there is none of the name. */
static zend_always_inline zval *fermata_global_find(fermata_superglobal number)
{
	const HashTable *table = &EG(symbol_table);
	uint32_t place = fermata_globals.places[number];
	if (EXPECTED(place < table->nNumUsed && table->arData[place].key == fermata_globals.names[number]
			&& !Z_ISUNDEF(table->arData[place].val))) {
		return &table->arData[place].val;
	}
	return fermata_global_search(number);
}

/* Whether a superglobal is another than at the start. */
static zend_always_inline bool fermata_globals_differ(void)
{
	const HashTable *table = &EG(symbol_table);
	if (UNEXPECTED(table->arData != fermata_globals.table || table->nNumUsed != fermata_globals.used
			|| table->nNumOfElements != fermata_globals.elements || !table->nNumUsed
			|| table->arData[table->nNumUsed - 1].key != fermata_globals.last)) {
		return fermata_globals_compare();
	}
#pragma GCC unroll 8
	for (uint32_t i = 0; i < FERMATA_SUPERGLOBALS; i++) {
		if (UNEXPECTED(*fermata_globals.at[i] != fermata_globals.arrays[i])) {
			return fermata_globals_compare();
		}
	}
	return false;
}

#endif
