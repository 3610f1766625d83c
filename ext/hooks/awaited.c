/* Records which key each fiber waits for: a connection or an object that another fiber uses. The runtime detects deadlocks by it.
 *
 * Descriptors are queued for in owners.c, objects in ext/clients, which therefore provides the holder of an object's key. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include "base/optimize_size.h"

typedef struct slot_of_awaited {
	uintptr_t key; /* 0 = none */
} slot_of_awaited;

static fermata_part part;
FERMATA_SLOT(slot_of_awaited, part)

static fermata_fiber *(*holder_of)(uintptr_t key);

void fermata_note_awaited(fermata_fiber *fiber, uintptr_t key)
{
	slot(fiber)->key = key;
}

ZEND_COLD void fermata_refuse_shared(const char *what)
{
	if (!EG(exception)) {
		fermata_misuse("another handler or task is inside a call of this %s, and PHP cannot wait here; give each its own", what);
	}
}

static const fermata_fiber *waits_for(const fermata_fiber *fiber)
{
	uintptr_t key = slot(fiber)->key;
	if (!key) {
		return NULL;
	}
	const fermata_fiber *holder = holder_of(key);
	return holder || !fermata_key_is_of_fd(key) ? holder : fermata_owner_waited_for((int)(key >> 1), fiber);
}

static fermata_part part = {.size = sizeof(slot_of_awaited), .waits_for = waits_for};

void fermata_awaited_init(fermata_fiber *(*holder)(uintptr_t key))
{
	holder_of = holder;
	fermata_part_register(&part);
}
