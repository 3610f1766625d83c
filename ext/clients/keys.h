/* Keys of guarded objects; see keys.c. */
#ifndef FERMATA_CLIENTS_KEYS_H
#define FERMATA_CLIENTS_KEYS_H

#include "clients/clients.h"

/* Records that this fiber has guards, which are released when its handler finishes. */
void fermata_guards_note(fermata_fiber *fiber);
/* Acquires the key for this fiber; returns false if another fiber has it. Sets `*is_new` if the fiber did not have it before;
 * the caller then has to give it back. `opens`: the call starts a new exchange, before which queued fibers run. */
bool fermata_guard_take(uintptr_t key, bool *is_new, bool opens);
/* Releases a key acquired by `taker`. `keeps` returns true if the object's state is open, so that the fiber keeps the key;
 * NULL = never. */
void fermata_guard_give_back(uintptr_t key, const fermata_fiber *taker, bool (*keeps)(uintptr_t key));
/* Returns true if another fiber has the key. */
bool fermata_guard_is_anothers(uintptr_t key);
/* Returns the fiber that has the key; NULL if none. */
fermata_fiber *fermata_guard_holder(uintptr_t key);
typedef enum fermata_turn {
	FERMATA_TURN_MINE,
	FERMATA_TURN_GONE, /* the guarded object is gone; no key was acquired */
	FERMATA_TURN_REFUSED, /* an exception is pending */
} fermata_turn;
/* Waits until this fiber acquires the key. `begins`: it waits to start a transaction. */
fermata_turn fermata_guard_queue(uintptr_t key, bool begins);
/* Drops the key of an object that is gone. */
void fermata_guard_drop(uintptr_t key);
/* Releases a key whose handler, of `fiber`, has finished while a PHP Fiber is suspended inside the object. */
void fermata_guard_leave_to_nobody(uintptr_t key, const fermata_fiber *fiber);

/* For guards.c, connections.c and sqlite.c. */
void fermata_keys_start(void);
void fermata_keys_end(void);
/* Registers the part that the keys of fibers belong to, with the functions of guards.c. */
void fermata_keys_init_part(const fermata_part *functions);
/* Returns true if the taker still owns the key. Otherwise the object is gone, and another connection may have the same address. */
bool fermata_guard_is_still_of(uintptr_t key, const fermata_fiber *taker);
/* Keeps the key for this fiber after a call that has left state open. */
void fermata_guard_keep(uintptr_t key);
/* Transfers a key to another owner, and releases it. */
void fermata_guard_leave_to(uintptr_t key, const fermata_fiber *fiber);
void fermata_guard_release(uintptr_t key);
/* Like fermata_guard_release(), but postponed objects stay. */
void fermata_guard_pass_on(uintptr_t key);
/* Removes the key without waking the fibers that queue for it. */
void fermata_guard_forget(uintptr_t key);
/* Postpones freeing an object if another fiber has the key; the second function frees the postponed objects of the key. */
void fermata_guard_free_later(uintptr_t key, zend_object *object);
void fermata_guard_free_late(uintptr_t key);
/* Return true if a fiber queues for any key, if one waits to start a transaction with this key, and if any key is held. */
bool fermata_guard_has_queue(void);
bool fermata_guard_is_beginning(uintptr_t key);
bool fermata_guards_are_held(void);
/* A suspect key belongs to a connection whose library may count another handler's transaction. */
void fermata_guard_suspect(uintptr_t key);
void fermata_guard_trust(uintptr_t key);
bool fermata_guard_is_suspect(uintptr_t key);
/* Starts a task once the current handler's response is sent. Returns false if the worker is stopping. */
bool fermata_guard_begin_task(zif_handler handler);
/* Returns true if fermata_guards_note() was called for the fiber; the second function reverts that call. */
bool fermata_guards_has(const fermata_fiber *fiber);
void fermata_guards_note_none(fermata_fiber *fiber);
/* Ends the fiber's keys. Calls `end_kept` for each key of an object with open state; it passes the key on. */
void fermata_guards_end(fermata_fiber *fiber, void (*end_kept)(uintptr_t key, fermata_fiber *fiber));
/* Moves the keys of objects with open state to another fiber. */
void fermata_guards_move(const fermata_fiber *from, fermata_fiber *to);
/* Drops all keys after a fatal error: no fiber resumes. */
void fermata_guards_forget(void);

#endif
