/* Records and undoes handlers' changes to PHP's process-wide state; see changes.c. */
#ifndef FERMATA_CHANGES_H
#define FERMATA_CHANGES_H

#include "handler/handler.h"

typedef enum fermata_superglobal {
	FERMATA_GET, FERMATA_POST, FERMATA_COOKIE, FERMATA_FILES, FERMATA_SERVER, FERMATA_REQUEST, FERMATA_ENV, FERMATA_SESSION,
	FERMATA_SUPERGLOBALS
} fermata_superglobal;

typedef struct fermata_changes fermata_changes;

/* The superglobals when the worker started, and their positions in PHP's table of global variables.
 *
 * The positions are valid while the table has the same memory, size, number of variables and last variable. New variables are
 * added at the end, and the table is compacted only after one was removed. */
typedef struct fermata_superglobals {
	zend_string *names[FERMATA_SUPERGLOBALS];
	uint32_t places[FERMATA_SUPERGLOBALS]; /* last positions; checked on each use */
	zval start[FERMATA_SUPERGLOBALS]; /* arrays, or undefined */
	const Bucket *table;
	uint32_t used, elements;
	const zend_string *last;
	/* Only entries that were arrays; the others point to themselves, so the loop has a constant length. */
	zend_array *const *at[FERMATA_SUPERGLOBALS];
	zend_array *arrays[FERMATA_SUPERGLOBALS];
} fermata_superglobals;
extern fermata_superglobals fermata_globals;

void fermata_wrap(HashTable *functions, const char *name, zif_handler wrapper, zif_handler *original);
void fermata_changes_init(void);
void fermata_changes_wrap(void);
/* `keeps` is called before PHP code changes a session setting, and returns true if sessions.c restores the setting. */
void fermata_changes_wrap_session_settings(bool (*keeps)(void));
void fermata_changes_start(void);
void fermata_changes_start_jobs(void);
void fermata_changes_end(void);
void fermata_changes_note_http(void);
/* Returns true if PHP's superglobals, headers and session are those of the fiber's handler (http/globals.c). */
bool fermata_has_request(const fermata_fiber *fiber);
void fermata_changes_hide_request(fermata_fiber *fiber);
/* Returns true if a handler for which fermata_has_request() was true has ended in a fatal error. */
bool fermata_changes_has_failed_request(void);
/* Returns true if the fiber's handler has registered functions with register_shutdown_function(). */
bool fermata_has_shutdown_functions(const fermata_fiber *fiber);
/* Drops the fiber's record: its changes stay in force. */
void fermata_changes_keep(fermata_fiber *fiber);
void fermata_changes_abandoned(void);
bool fermata_globals_compare(void);
zval *fermata_global_search(fermata_superglobal number);

/* Returns NULL if the variable does not exist. */
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

/* Returns true if a superglobal differs from the start. */
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
