/* Records the key that each fiber waits for: a connection or an object that another fiber uses. ext/clients/guards.c finds the
 * fiber that holds a key, so the runtime can detect deadlocks. */
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

void fermata_note_awaited(fermata_fiber *fiber, uintptr_t key)
{
	slot(fiber)->key = key;
}

uintptr_t fermata_awaited_by(const fermata_fiber *fiber)
{
	return slot(fiber)->key;
}

ZEND_COLD void fermata_refuse_shared(const char *what)
{
	if (!EG(exception)) {
		fermata_misuse("another handler or task is inside a call of this %s, and PHP cannot wait here; give each its own", what);
	}
}

static fermata_part part = {.size = sizeof(slot_of_awaited)};

void fermata_awaited_init(void)
{
	fermata_part_register(&part);
}
