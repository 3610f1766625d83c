/* Names that a client has chosen to meet in one chain of PHP's arrays; see collisions.c. */
#ifndef FERMATA_COLLISIONS_H
#define FERMATA_COLLISIONS_H

#include "php_fermata.h"

/* What a client has sent as one text is about to be put into arrays. */
void fermata_collisions_begin(void);
/* Before a member is added. False: too many comparisons were made for the text, and nothing more of it is to be added. */
bool fermata_collisions_allow(const HashTable *table, const zend_string *name);
/* The same before PHP registers a variable, whose name may go through several arrays: `a[b][c]`. */
bool fermata_collisions_allow_variable(zend_array *variables, const char *name);
ZEND_COLD void fermata_collisions_refuse(const char *what);

#endif
