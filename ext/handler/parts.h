/* Fiber parts: modules with state that follows a handler.
 *
 * A module declares a fermata_part with the functions that it needs, and registers it at MINIT (fermata.c lists all parts). It
 * stores its state of a fiber in a slot of that fiber. The pool and the runner call parts only through this registry, never by
 * name.
 *
 * Invariant: parts are suspended and cleaned up in the order of registration, and resumed and ended (on_return, on_end) in
 * reverse order.
 *
 * Cost: each hook is an array of only the functions registered for it. */
#ifndef FERMATA_PARTS_H
#define FERMATA_PARTS_H

#include "handler/run.h"

#define FERMATA_PARTS_MAX 32
#define FERMATA_SLOTS_BYTES 320 /* size of all slots together; fermata_part_register() fails at MINIT if they need more */

typedef struct fermata_part {
	uint16_t size; /* size of the slot in bytes; a new fiber's slot is all zeros */
	uint16_t at;   /* offset of the slot, set by fermata_part_register() */
	uint32_t bit;  /* bit in a fiber's `touched`: on_clean_up has work; set by fermata_part_register() */

	/* The fiber is suspended while its handler waits: moves the handler's state out of PHP's globals. Runs no PHP code. */
	void (*on_suspend)(fermata_fiber *fiber);
	/* The fiber resumes: moves the state back. Runs no PHP code. */
	void (*on_resume)(fermata_fiber *fiber);
	/* The handler has returned and its request still exists. Called only for a fiber with `has_ending` set. May run PHP code. */
	void (*on_return)(fermata_fiber *fiber);
	/* Resets PHP's state after each handler, before the next handler runs. Returns true if PHP code may have run; all parts are then
	 * called again, unless `is_last`. `fiber` is NULL in a job process between two jobs. */
	bool (*on_end)(fermata_fiber *fiber, bool is_last);
	/* Like on_end, but before a handler's recorded changes are undone (state/changes.c). */
	bool (*on_undo)(fermata_fiber *fiber);
	/* After a handler or task for whose fiber fermata_touch() was called: releases the slot's contents. May run PHP code. */
	void (*on_clean_up)(fermata_fiber *fiber);
	/* Called after on_clean_up of all parts, when the fiber can run other events. */
	void (*on_cleaned_up)(fermata_fiber *fiber);

	/* Returns true if the slot has state that outlives a piece of a streamed body (bodies.c). */
	bool (*has_rest)(const fermata_fiber *fiber);
	/* Moves that state to another fiber. */
	void (*on_move)(fermata_fiber *from, fermata_fiber *to);

	/* Makes the objects that handlers of a new fiber are called with. */
	void (*on_create)(fermata_running *objects);
	/* Makes these objects independent of the core's buffers, before a handler's first wait. */
	void (*on_first_wait)(void);
	/* Releases these objects, because no handler runs on this fiber any more. */
	void (*on_release)(void);

	/* The handler has called exit(). Returns true if the part has sent a response. */
	bool (*answers_exit)(const fermata_handler *handler);
	/* Called when the handler has thrown the pending exception. Returns true if the part has sent a response and cleared the
	 * exception. */
	bool (*answers_exception)(void);

	/* Called when the fiber is about to wait. */
	void (*on_wait)(fermata_fiber *fiber);
	/* Returns the reason why PHP must not wait at this point; NULL if the part has no reason. */
	const char *(*obstacle)(const fermata_fiber *fiber);
	/* Returns true if the wait continues for abandoned_query_timeout_ms after the client has disconnected. */
	bool (*outlives_client)(const fermata_fiber *fiber);
	/* Returns the fiber that has to run before this one; NULL if the part knows no such fiber. */
	const fermata_fiber *(*waits_for)(const fermata_fiber *fiber);
	/* An exception ended a wait. Connections that were used since then (fermata_clock()) are shut down. */
	void (*on_cut)(fermata_fiber *fiber, uint64_t since);
	/* The fiber has released a lock that it acquired at `since`; others may use its connections. */
	void (*on_unlock)(uint64_t since);

	/* Called when the worker starts, before its first handler. */
	void (*on_start)(void);
	/* The core has woken the loop for work that it has completed. */
	void (*on_wake)(void);
	/* A fatal error has ended the fiber's handler: drop the slot's contents without releasing them. */
	void (*on_fatal)(fermata_fiber *fiber);
	/* A fatal error has ended a handler, and no further handler runs. */
	void (*on_retire)(void);
	/* The worker stops, and no fiber waits any more. */
	void (*on_stop)(void);
} fermata_part;

void fermata_part_register(fermata_part *part);

/* Bit in a fiber's `touched`: clean-up that involves no part. */
#define FERMATA_TOUCHED 1u
/* The slot has contents that on_clean_up has to release. */
#define fermata_touch(fiber, part) ((void)((fiber)->touched |= (part).bit | FERMATA_TOUCHED))

#define FERMATA_HOOK_OF(result, ...) struct { uint32_t len; result (*at[FERMATA_PARTS_MAX])(__VA_ARGS__); }

/* Registered functions of each hook, in call order. */
typedef struct fermata_hooks {
	FERMATA_HOOK_OF(void, fermata_fiber *fiber) on_suspend, on_resume, on_return, on_clean_up, on_cleaned_up, on_wait, on_fatal;
	FERMATA_HOOK_OF(bool, fermata_fiber *fiber, bool is_last) on_end;
	FERMATA_HOOK_OF(bool, fermata_fiber *fiber) on_undo;
	FERMATA_HOOK_OF(bool, const fermata_fiber *fiber) has_rest, outlives_client;
	FERMATA_HOOK_OF(void, fermata_fiber *from, fermata_fiber *to) on_move;
	FERMATA_HOOK_OF(const char *, const fermata_fiber *fiber) obstacle;
	FERMATA_HOOK_OF(const fermata_fiber *, const fermata_fiber *fiber) waits_for;
	FERMATA_HOOK_OF(void, fermata_fiber *fiber, uint64_t since) on_cut;
	FERMATA_HOOK_OF(void, uint64_t since) on_unlock;
	FERMATA_HOOK_OF(void, fermata_running *objects) on_create;
	FERMATA_HOOK_OF(bool, const fermata_handler *handler) answers_exit;
	FERMATA_HOOK_OF(bool, void) answers_exception;
	FERMATA_HOOK_OF(void, void) on_first_wait, on_release, on_start, on_wake, on_retire, on_stop;
} fermata_hooks;
extern fermata_hooks fermata_parts;

/* Calls all functions registered for a hook. */
#define FERMATA_EACH_PART(hook, ...) \
	for (uint32_t part_at = 0; part_at < fermata_parts.hook.len; part_at++) { \
		fermata_parts.hook.at[part_at](__VA_ARGS__); \
	}

/* Declares slot(), which returns the slot of a fiber. */
#define FERMATA_SLOT(type, part) \
	static zend_always_inline type *slot(const fermata_fiber *fiber) \
	{ \
		return (type *)((char *)(uintptr_t)fiber->slots + (part).at); \
	}

#endif
