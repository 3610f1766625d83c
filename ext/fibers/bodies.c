/* Handlers whose body is a stream: what they are in the middle of between two pieces, while no fiber runs for them.
 *
 * A piece is made on whatever fiber is free, and the fiber serves others until the client has taken it. So what the handler has
 * by then (connections in the middle of a conversation, transactions, results that are being read, mutexes, values of its
 * context) is put by: a fiber that never runs has it, and others queue behind that one as behind a handler that waits. The fiber
 * that makes the next piece takes it up, and the one that makes the last lets it go. */
#include "fibers/fibers.h"
#include "hooks/hooks.h"

static void move_family(fermata_fiber *from, fermata_fiber *to)
{
	if (!to->family) {
		to->family = from->family;
	}
	if (!to->talks_since) {
		to->talks_since = from->talks_since;
	}
	to->has_failed |= from->has_failed;
	from->family = from->talks_since = 0;
	from->has_failed = false;
}

static void move_context(fermata_fiber *from, fermata_fiber *to)
{
	if (!to->context_values) {
		to->context_values = from->context_values;
		from->context_values = NULL;
	}
}

static void move(fermata_fiber *from, fermata_fiber *to)
{
	fermata_owners_move(from, to);
	fermata_guards_move(from, to);
	fermata_mutexes_move(from, to);
	move_context(from, to);
	move_family(from, to);
}

void fermata_body_put_by(fermata_fiber **kept)
{
	fermata_fiber *self = fermata_run.fiber;
	if (!self->claims && !self->keeps_guards && !self->locked && !self->context_values && !self->family && !self->talks_since) {
		return;
	}
	if (!*kept) {
		*kept = pecalloc(1, sizeof(fermata_fiber), true);
	}
	move(self, *kept);
	/* What it has read to its end is for others meanwhile. */
	fermata_owners_rest(*kept);
}

void fermata_body_take_up(fermata_fiber *kept)
{
	fermata_run.fiber->touched = true;
	move(kept, fermata_run.fiber);
}

void fermata_body_forget(fermata_fiber *kept)
{
	fermata_mutexes_forgotten(kept);
	fermata_owners_settle(kept);
	if (kept->keeps_guards) {
		fermata_guards_settle(kept);
	}
	if (kept->context_values) {
		zend_array_release(kept->context_values);
	}
	pefree(kept, true);
}
