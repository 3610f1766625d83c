/* Keys of guarded objects; see keys.c. */
#ifndef FERMATA_CLIENTS_KEYS_H
#define FERMATA_CLIENTS_KEYS_H

#include "clients/clients.h"

/* Records that this fiber has guards, which have to be released when its handler finishes. */
void fermata_guards_note(fermata_fiber *fiber);
/* Acquires the key for this fiber. Returns false if another fiber has it. Sets `*is_new` if the fiber did not have the key before;
 * the caller then has to call fermata_guard_give_back(). `opens`: the call starts a new exchange, so queued fibers run first. */
bool fermata_guard_take(uintptr_t key, bool *is_new, bool opens);
/* Releases a key that `taker` has acquired. `keeps` returns true if the object has open state, so the fiber has to keep the key;
 * NULL = the fiber never keeps it. */
void fermata_guard_give_back(uintptr_t key, const fermata_fiber *taker, bool (*keeps)(uintptr_t key));
/* Returns true if another fiber has the key. */
bool fermata_guard_is_anothers(uintptr_t key);
/* Returns the fiber that has the key; NULL if there is none. */
fermata_fiber *fermata_guard_holder(uintptr_t key);
typedef enum fermata_turn {
	FERMATA_TURN_MINE,
	FERMATA_TURN_GONE, /* the guarded object no longer exists; no key was acquired */
	FERMATA_TURN_REFUSED, /* an exception is pending */
} fermata_turn;
/* Waits until this fiber has acquired the key. `begins`: the fiber waits to start a transaction. */
fermata_turn fermata_guard_queue(uintptr_t key, bool begins);
/* Drops the key of an object that no longer exists. */
void fermata_guard_drop(uintptr_t key);
/* Called when the handler of `fiber` has finished while a PHP Fiber is suspended inside the object: the key then belongs to no
 * handler. */
void fermata_guard_leave_to_ended_owner(uintptr_t key, const fermata_fiber *fiber);

/* For use in guards.c, connections.c and sqlite.c only. */
void fermata_keys_start(void);
void fermata_keys_end(void);
/* Registers the part to which the keys of fibers belong, with the functions of guards.c. */
void fermata_keys_init_part(const fermata_part *functions);
/* Returns true if `taker` still has the key. Otherwise the object no longer exists, and another connection may have its
 * address. */
bool fermata_guard_is_still_of(uintptr_t key, const fermata_fiber *taker);
/* Keeps the key for this fiber after a call that has left state open. */
void fermata_guard_keep(uintptr_t key);
/* The first gives the key to another fiber; the second releases it and frees the postponed objects of the key. */
void fermata_guard_leave_to(uintptr_t key, const fermata_fiber *fiber);
void fermata_guard_release(uintptr_t key);
/* Like fermata_guard_release(), but does not free postponed objects. */
void fermata_guard_pass_on(uintptr_t key);
/* Removes the key without waking the fibers that queue for it. */
void fermata_guard_forget(uintptr_t key);
/* The first postpones freeing an object if another fiber has the key; the second frees the postponed objects of the key. */
void fermata_guard_free_later(uintptr_t key, zend_object *object);
void fermata_guard_free_late(uintptr_t key);
/* The first returns true if a fiber queues for any key; the second, if a fiber waits for this key to start a transaction; the
 * third, if a fiber has any key. */
bool fermata_guard_has_queue(void);
bool fermata_guard_is_beginning(uintptr_t key);
bool fermata_guards_are_held(void);
/* A key is suspect if the library of its connection may count a transaction of another handler. */
void fermata_guard_suspect(uintptr_t key);
void fermata_guard_trust(uintptr_t key);
bool fermata_guard_is_suspect(uintptr_t key);
/* Starts a task that runs after the current handler's response is sent. Returns false if the worker is stopping. */
bool fermata_guard_begin_task(zif_handler handler);
/* The first returns true if fermata_guards_note() was called for the fiber; the second reverts that call. */
bool fermata_guards_has(const fermata_fiber *fiber);
void fermata_guards_note_none(fermata_fiber *fiber);
/* Releases the fiber's keys when its handler finishes. For a key of an object with open state, calls `end_kept`, which releases
 * the key. */
void fermata_guards_end(fermata_fiber *fiber, void (*end_kept)(uintptr_t key, fermata_fiber *fiber));
/* Moves the keys of objects with open state to another fiber. */
void fermata_guards_move(const fermata_fiber *from, fermata_fiber *to);
/* Drops all keys after a fatal error, after which no fiber resumes. */
void fermata_guards_forget(void);

#endif
