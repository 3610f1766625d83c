/* Handlers with a streamed body: their state between two pieces of the body, when no fiber runs them.
 *
 * Any free fiber can generate a piece. The fiber then serves other handlers until the client has received the piece. The handler's
 * state (an open exchange on a connection, a transaction, mutexes, context values) moves to a fiber structure that is never run.
 * Other handlers wait for that fiber as for any waiting handler. The fiber that generates the next piece receives the state. The
 * fiber that generates the last piece cleans it up. */
#include "fibers/fibers.h"
#include "handler/parts.h"

static void move(fermata_fiber *from, fermata_fiber *to)
{
	FERMATA_EACH_PART(on_move, from, to)
	if (!to->family) {
		to->family = from->family;
	}
	to->has_failed |= from->has_failed;
	from->family = 0;
	from->has_failed = false;
}

static bool has_rest(const fermata_fiber *fiber)
{
	bool has_some = fiber->family;
	for (uint32_t i = 0; i < fermata_parts.has_rest.len; i++) {
		has_some |= fermata_parts.has_rest.at[i](fiber);
	}
	return has_some;
}

void fermata_body_put_by(fermata_fiber **kept)
{
	fermata_fiber *self = fermata_run.fiber;
	if (!has_rest(self)) {
		return;
	}
	if (!*kept) {
		*kept = pecalloc(1, sizeof(fermata_fiber), true);
	}
	move(self, *kept);
	/* Connections without an open exchange may serve other handlers until the next piece. */
	FERMATA_EACH_PART(on_wait, *kept)
}

void fermata_body_take_up(fermata_fiber *kept)
{
	fermata_run.fiber->touched |= ((FERMATA_TOUCHED << fermata_parts.on_clean_up.len) << 1) - 1;
	move(kept, fermata_run.fiber);
}

void fermata_body_forget(fermata_fiber *kept)
{
	FERMATA_EACH_PART(on_clean_up, kept)
	pefree(kept, true);
}
