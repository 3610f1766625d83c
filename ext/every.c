/* Server::every() and defer(): work without a client. */
#include "fibers.h"

void fermata_every_due(fermata_timer *timer, uint64_t now_ms)
{
}
