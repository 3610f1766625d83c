/* Protection against names that collide in PHP's hash tables; see collisions.c. */
#ifndef FERMATA_COLLISIONS_H
#define FERMATA_COLLISIONS_H

#include "base/base.h"

/* Remaining budget of one text, on the C stack of the function that builds its arrays. */
typedef struct fermata_collisions {
	uint64_t comparisons_left;
	uint32_t variables_len; /* variables of this text, counted up to a threshold */
	bool is_over;           /* the budget is spent; nothing more of the text may be added */
} fermata_collisions;

/* Starts the budget of a text. */
void fermata_collisions_begin(fermata_collisions *it);
/* Called before a member is added. Returns false if it must not be added. */
bool fermata_collisions_allow(fermata_collisions *it, const HashTable *table, const zend_string *name);
/* Called before PHP registers a variable, whose name may address nested arrays: `a[b][c]`. Returns false if it must be dropped. */
bool fermata_collisions_allow_variable(fermata_collisions *it, zend_array *variables, const char *name);
ZEND_COLD void fermata_collisions_refuse(const char *what);

#endif
