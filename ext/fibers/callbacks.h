/* Waits in code that PHP's internal functions call; see callbacks.c. */
#ifndef FERMATA_CALLBACKS_H
#define FERMATA_CALLBACKS_H

#include "fibers/fibers.h"
#include <poll.h>

void fermata_callbacks_init(void);
/* Returns true if no other handler may run now: a frame between the handler and this wait belongs to a function that is not
 * listed as re-entrant. */
bool fermata_is_in_callback(void);
/* Describes the frame that the last fermata_is_in_callback() has found. The result is valid until the next call of that
 * function. */
const char *fermata_callback_name(void);

/* Blocks the worker instead of switching. Returns when a descriptor is ready, at `due_ms`, or when a wait of this fiber has to
 * end. FERMATA_WAIT_FAILED with a MisuseError means that the setting callback_wait forbids the wait, or that the handler has held
 * the worker for the maximum time. */
fermata_wait_result fermata_block(struct pollfd *fds, nfds_t len, uint64_t due_ms);
/* Called before a call that blocks without a time limit. Returns false with an exception pending if the setting callback_wait
 * forbids it. */
bool fermata_block_note(void);

#endif
