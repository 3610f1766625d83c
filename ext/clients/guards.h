/* Guarded calls of client objects; see guards.c.
 *
 * keys.c records which fiber has each object, and objects.c finds an object's key. guards.c acquires the keys of a call. wrap.c
 * wraps functions in such calls, and iterators.c wraps iterators. connections.c and sqlite.c handle state that a call leaves
 * open. */
#ifndef FERMATA_CLIENTS_GUARDS_H
#define FERMATA_CLIENTS_GUARDS_H

#include "clients/keys.h"
#include "clients/objects.h"

/* Maximum number of keys of one call: its object, objects among its first arguments, and the executed statement. */
#define FERMATA_GUARDED_KEYS_MAX 5

/* A call that has acquired the guards of its objects. Stored on the C stack. */
typedef struct fermata_guarded {
	uintptr_t keys[FERMATA_GUARDED_KEYS_MAX];
	const fermata_root *roots[FERMATA_GUARDED_KEYS_MAX];
	zend_object *objects[FERMATA_GUARDED_KEYS_MAX];
	bool is_taken[FERMATA_GUARDED_KEYS_MAX];
	uint32_t len;
	const fermata_fiber *taker;
} fermata_guarded;

void fermata_guards_start(void);
void fermata_guards_stop(void);
/* Waits until all guards are acquired. Returns false after an exception. `function` is NULL if no function is called. */
bool fermata_guarded_enter(fermata_guarded *call, const zend_function *function);
bool fermata_guarded_enter_object(fermata_guarded *call, zend_object *object);
void fermata_guarded_leave(fermata_guarded *call, zend_execute_data *frame);
/* Calls a function of a client extension when this fiber has acquired the guards of the objects. */
void fermata_guarded_call(zif_handler original, INTERNAL_FUNCTION_PARAMETERS);

/* iterators.c */
void fermata_hook_iterators(void);

#endif
