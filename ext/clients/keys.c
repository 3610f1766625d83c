/* Keys of guarded objects: the fiber that has each key, and the fibers that queue for it.
 *
 * All objects of one connection have one key. A fiber has the key during a call, and after the call while state that the call left
 * is open. A fiber that leaves an object runs until its next wait, even if others queue. So it can still query the last insert id
 * or the error of its call. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/keys.h"
#include "zend_closures.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define PLACE_BYTES_MAX 512

/* Flags of an owner, which are stored in the two low bits of the fiber's address. */
#define KEPT 1    /* no call is running, but state is open */
#define LINGERS 2 /* the owner has left, other fibers queue, and the first of them was woken */
#define FLAGS (KEPT | LINGERS)

/* A fiber that waits for a connection. Stored on the fiber's C stack. */
typedef struct turn {
	fermata_waiter waiter; /* first member: the list links waiters */
	uintptr_t key;
	fermata_turn result;
	bool begins; /* the fiber waits to start a transaction */
} turn;

static fermata_waiters turns; /* one list for all keys; usually empty */

/* Placeholder for an owner whose handler has finished while a PHP Fiber is suspended inside the object. */
static fermata_fiber ended_owner;

typedef struct slot_of_keys {
	bool has_keys; /* the fiber has keys, or is inside a call */
} slot_of_keys;

static fermata_part part;
FERMATA_SLOT(slot_of_keys, part)

/* An object freed while another fiber was inside its connection. */
typedef struct freed {
	struct freed *next;
	uintptr_t key;
	zend_object *object;
} freed;

static struct {
	bool is_on;
	HashTable held;     /* by key: the owning fiber and its flags */
	HashTable suspects; /* keys of connections whose library may count a transaction of another handler; usually empty */
	freed *freed;
} keys;

void fermata_guards_note(fermata_fiber *fiber)
{
	slot(fiber)->has_keys = true;
	fermata_touch(fiber, part);
}

/* Owners */

static fermata_fiber *fiber_of(const zval *held)
{
	return (fermata_fiber *)((uintptr_t)Z_PTR_P(held) & ~(uintptr_t)FLAGS);
}

static bool has_flag(const zval *held, uintptr_t flag)
{
	return (uintptr_t)Z_PTR_P(held) & flag;
}

fermata_fiber *fermata_guard_holder(uintptr_t key)
{
	const zval *held = keys.is_on ? zend_hash_index_find(&keys.held, key) : NULL;
	return held && !has_flag(held, LINGERS) ? fiber_of(held) : NULL;
}

bool fermata_guard_is_anothers(uintptr_t key)
{
	const fermata_fiber *holder = fermata_guard_holder(key);
	return holder && holder != fermata_this_fiber();
}

static void hold(uintptr_t key, const fermata_fiber *fiber, uintptr_t flags)
{
	zval mine;
	ZVAL_PTR(&mine, (void *)((uintptr_t)fiber | flags));
	zend_hash_index_update(&keys.held, key, &mine);
}

static void hold_for_call(uintptr_t key)
{
	hold(key, fermata_this_fiber(), 0);
	/* The handler may finish while a PHP Fiber is suspended inside the object. */
	fermata_guards_note(fermata_this_fiber());
}

static fermata_waiter *first_in_queue(uintptr_t key)
{
	fermata_waiter *one = turns.first;
	while (one && ((turn *)one)->key != key) {
		one = one->next;
	}
	return one;
}

bool fermata_guard_take(uintptr_t key, bool *is_new, bool opens)
{
	const zval *held = zend_hash_index_find(&keys.held, key);
	bool is_mine = held && fiber_of(held) == fermata_this_fiber();
	*is_new = !held || (is_mine && (has_flag(held, KEPT) || (has_flag(held, LINGERS) && !(opens && first_in_queue(key)))));
	if (*is_new) {
		hold_for_call(key);
	}
	return *is_new || (is_mine && !has_flag(held, FLAGS));
}

static ZEND_COLD void refuse_suspended(void)
{
	if (!EG(exception)) {
		fermata_misuse("a Fiber that was begun by a handler which has ended is suspended inside a call of this connection; "
			"resume it first, or give it a connection of its own");
	}
}

/* Wakes all waiters of the key with `result`. */
static ZEND_COLD void wake_all(uintptr_t key, fermata_turn result)
{
	for (fermata_waiter *one = turns.first, *next; one; one = next) {
		next = one->next;
		if (((turn *)one)->key == key) {
			((turn *)one)->result = result;
			fermata_note_awaited(one->fiber, 0);
			fermata_waiters_remove(one);
			fermata_wake(one->fiber);
		}
	}
}

static ZEND_COLD void free_late(uintptr_t key)
{
	for (freed **at = &keys.freed; *at;) {
		freed *one = *at;
		if (one->key != key) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		zend_object *object = one->object;
		efree(one);
		OBJ_RELEASE(object);
		/* Freeing the object may have freed further objects. */
		at = &keys.freed;
	}
}

void fermata_guard_free_late(uintptr_t key)
{
	if (UNEXPECTED(keys.freed != NULL)) {
		free_late(key);
	}
}

void fermata_guard_free_later(uintptr_t key, zend_object *object)
{
	const zval *held = zend_hash_index_find(&keys.held, key);
	if (UNEXPECTED(held && fiber_of(held) != fermata_this_fiber())) {
		freed *one = emalloc(sizeof(freed));
		*one = (freed){keys.freed, key, object};
		GC_ADDREF(object);
		keys.freed = one;
	}
}

/* Releases a key that `fiber` has just left, and wakes the first waiter. Until that waiter runs, only `fiber` may retake the
 * key. */
static void release(uintptr_t key, const fermata_fiber *fiber)
{
	fermata_waiter *first = EXPECTED(!turns.first) ? NULL : first_in_queue(key);
	if (first) {
		hold(key, fiber, LINGERS);
		fermata_wake(first->fiber);
	} else {
		zend_hash_index_del(&keys.held, key);
	}
}

void fermata_guard_keep(uintptr_t key)
{
	hold(key, fermata_this_fiber(), KEPT);
	fermata_guards_note(fermata_this_fiber());
}

bool fermata_guard_is_still_of(uintptr_t key, const fermata_fiber *taker)
{
	const fermata_fiber *holder = fermata_guard_holder(key);
	return EXPECTED(holder == taker || holder == &ended_owner);
}

void fermata_guard_give_back(uintptr_t key, const fermata_fiber *taker, bool (*keeps)(uintptr_t key))
{
	if (UNEXPECTED(!fermata_guard_is_still_of(key, taker))) {
		return;
	}
	fermata_guard_free_late(key);
	if (UNEXPECTED(keeps && keeps(key))) {
		fermata_guard_keep(key);
	} else {
		release(key, fermata_this_fiber());
	}
}

/* The queue */

static ZEND_COLD void throw_late(uintptr_t key)
{
	char place[PLACE_BYTES_MAX] = "another place";
	const fermata_fiber *holder = fermata_guard_holder(key);
	if (holder && holder->is_listed) {
		fermata_fiber_place(holder, place, sizeof(place));
	}
	zend_throw_exception_ex(fermata_ce_timeout, 0, "after " ZEND_ULONG_FMT " ms (shared_wait_timeout_ms) another handler or task "
		"still uses this connection in %s; give handlers connections of a Fermata\\Pool",
		(zend_ulong)fermata_fibers_shared_wait_ms(), place);
}

/* Called when a woken fiber does not need the key any more: wakes the next waiter. */
static void pass_on(uintptr_t key)
{
	const zval *held = zend_hash_index_find(&keys.held, key);
	if (!held || has_flag(held, LINGERS)) {
		release(key, NULL);
	}
}

static bool may_take(uintptr_t key, const turn *self)
{
	const zval *held = zend_hash_index_find(&keys.held, key);
	return (!held || has_flag(held, LINGERS) || fiber_of(held) == self->waiter.fiber)
		&& first_in_queue(key) == &self->waiter;
}

fermata_turn fermata_guard_queue(uintptr_t key, bool begins)
{
	fermata_fiber *self = fermata_this_fiber(), *holder = fermata_guard_holder(key);
	turn mine = {.waiter = {.fiber = self}, .key = key, .result = FERMATA_TURN_MINE, .begins = begins};
	uint64_t due_ms = fermata_ms_to_due((int64_t)fermata_fibers_shared_wait_ms());
	if (UNEXPECTED(holder == &ended_owner)) {
		refuse_suspended();
		return FERMATA_TURN_REFUSED;
	}
	if (UNEXPECTED(holder && !fermata_check_deadlock(holder))) {
		return FERMATA_TURN_REFUSED;
	}
	fermata_waiters_add(&turns, &mine.waiter);
	fermata_note_awaited(self, key);
	fermata_wait_result waited = FERMATA_WAIT_WOKEN;
	bool is_mine = false;
	while (mine.waiter.list && !(is_mine = may_take(key, &mine))) {
		waited = fermata_hook_wait(due_ms);
		if (UNEXPECTED(waited != FERMATA_WAIT_WOKEN)) {
			break;
		}
	}
	fermata_note_awaited(self, 0);
	bool is_woken = !mine.waiter.list;
	fermata_waiters_remove(&mine.waiter);
	if (EXPECTED(is_mine)) {
		hold_for_call(key);
		return FERMATA_TURN_MINE;
	}
	if (!is_woken) {
		if (waited == FERMATA_WAIT_DUE) {
			throw_late(key);
		}
		pass_on(key);
		return FERMATA_TURN_REFUSED;
	}
	if (EG(exception)) {
		return FERMATA_TURN_REFUSED;
	}
	if (UNEXPECTED(mine.result == FERMATA_TURN_REFUSED)) {
		refuse_suspended();
	}
	return mine.result;
}

void fermata_guard_drop(uintptr_t key)
{
	if (keys.is_on) {
		zend_hash_index_del(&keys.suspects, key);
		zend_hash_index_del(&keys.held, key);
		wake_all(key, FERMATA_TURN_GONE);
	}
}

void fermata_guard_leave_to_ended_owner(uintptr_t key, const fermata_fiber *fiber)
{
	if (fermata_guard_holder(key) == fiber) {
		hold(key, &ended_owner, 0);
		wake_all(key, FERMATA_TURN_REFUSED);
	}
}

void fermata_guard_leave_to(uintptr_t key, const fermata_fiber *fiber)
{
	hold(key, fiber, 0);
}

void fermata_guard_release(uintptr_t key)
{
	fermata_guard_free_late(key);
	release(key, NULL);
}

void fermata_guard_pass_on(uintptr_t key)
{
	release(key, NULL);
}

void fermata_guard_forget(uintptr_t key)
{
	zend_hash_index_del(&keys.held, key);
}

bool fermata_guard_has_queue(void)
{
	return turns.first;
}

bool fermata_guard_is_beginning(uintptr_t key)
{
	bool is_beginning = false;
	for (const fermata_waiter *one = turns.first; one; one = one->next) {
		is_beginning |= ((const turn *)one)->key == key && ((const turn *)one)->begins;
	}
	return is_beginning;
}

bool fermata_guards_are_held(void)
{
	return zend_hash_num_elements(&keys.held);
}

/* Suspects */

void fermata_guard_suspect(uintptr_t key)
{
	zend_hash_index_add_empty_element(&keys.suspects, key);
}

void fermata_guard_trust(uintptr_t key)
{
	zend_hash_index_del(&keys.suspects, key);
}

bool fermata_guard_is_suspect(uintptr_t key)
{
	return UNEXPECTED(zend_hash_num_elements(&keys.suspects)) && zend_hash_index_exists(&keys.suspects, key);
}

/* The end of a handler or task */

bool fermata_guard_begin_task(zif_handler handler)
{
	zend_internal_function function = {.type = ZEND_INTERNAL_FUNCTION, .handler = handler};
	zval callable;
	/* No cleanup is needed in a worker that stops, since it closes its connections. */
	if (fermata_fibers_is_unwinding() || fermata_is_retired()) {
		return false;
	}
	function.function_name = zend_string_init("rollback", strlen("rollback"), false);
	zend_create_closure(&callable, (zend_function *)&function, NULL, NULL, NULL);
	zend_string_release(function.function_name);
	fermata_task_defer(&callable, true);
	zval_ptr_dtor(&callable);
	if (UNEXPECTED(EG(exception))) {
		zend_clear_exception();
		return false;
	}
	return true;
}

static void end_key(uintptr_t key, uintptr_t flags, fermata_fiber *fiber, void (*end_kept)(uintptr_t key, fermata_fiber *fiber))
{
	if (flags & KEPT) {
		end_kept(key, fiber);
	} else if (flags & LINGERS) {
		hold(key, NULL, LINGERS);
	} else {
		hold(key, &ended_owner, 0);
		wake_all(key, FERMATA_TURN_REFUSED);
	}
}

bool fermata_guards_has(const fermata_fiber *fiber)
{
	return slot(fiber)->has_keys;
}

void fermata_guards_note_none(fermata_fiber *fiber)
{
	slot(fiber)->has_keys = false;
}

void fermata_guards_end(fermata_fiber *fiber, void (*end_kept)(uintptr_t key, fermata_fiber *fiber))
{
	bool is_any = true;
	/* Objects that are freed may change the table, so repeat until no key is found. */
	while (is_any) {
		is_any = false;
		/* Access entries by index, since the table may be reallocated. */
		for (uint32_t i = 0; i < keys.held.nNumUsed; i++) {
			const Bucket *bucket = &keys.held.arData[i];
			if (Z_TYPE(bucket->val) != IS_UNDEF && fiber_of(&bucket->val) == fiber) {
				end_key(bucket->h, (uintptr_t)Z_PTR(bucket->val) & FLAGS, fiber, end_kept);
				is_any = true;
			}
		}
	}
}

void fermata_guards_move(const fermata_fiber *from, fermata_fiber *to)
{
	zend_ulong index;
	const zval *held;
	ZEND_HASH_FOREACH_NUM_KEY_VAL(&keys.held, index, held) {
		if (fiber_of(held) == from && has_flag(held, KEPT)) {
			hold(index, to, KEPT);
			fermata_guards_note(to);
		}
	} ZEND_HASH_FOREACH_END();
}

void fermata_guards_forget(void)
{
	turns = (fermata_waiters){0};
	if (keys.is_on) {
		zend_hash_clean(&keys.held);
		keys.freed = NULL;
	}
}

void fermata_keys_start(void)
{
	keys.is_on = true;
	zend_hash_init(&keys.held, 0, NULL, NULL, true);
	zend_hash_init(&keys.suspects, 0, NULL, NULL, true);
}

void fermata_keys_end(void)
{
	zend_hash_destroy(&keys.held);
	zend_hash_destroy(&keys.suspects);
	keys.is_on = false;
}

void fermata_keys_init_part(const fermata_part *functions)
{
	part = *functions;
	part.size = sizeof(slot_of_keys);
	fermata_part_register(&part);
}
