/* Publishing: without a cluster the event is in the ring at once; with one the fiber waits until the log has it, where PHP can
 * wait, and elsewhere the core does. */
#include "php_fermata.h"
#include "fibers/fibers.h"

/* Before a publish is begun again that the log had no room for. */
#define LATER_MS 2

/* For an event that the log has not acknowledged; lies on the C stack of its publisher. */
typedef struct publish_wait {
	fermata_fiber *fiber;
	bool over;
} publish_wait;

/* Some events have been acknowledged or refused: their waiting fibers go on. */
void fermata_publishes_woken(void)
{
	uint64_t user;
	while (fm_publish_next(fermata_run.worker, &user)) {
		publish_wait *one = (publish_wait *)(uintptr_t)user;
		one->over = true;
		fermata_wake(one->fiber);
	}
}

/* Of a handler that waits others run in between, so it is said each time. */
static inline void name_publisher(void)
{
	bool is_request = fermata.handling && !fermata_run.socket && fermata_run.request;
	fm_publish_for(fermata.worker, is_request ? fermata_run.request->event.request : 0);
}

/* Begins until the log has taken the event or has said that it will not. */
static uint32_t begin(fermata_publication *publication, uint64_t user, uint64_t began_ms, FmPublish *record, FmId *id, FmError *error)
{
	for (;;) {
		if (publication->message) {
			/* Their place may be another one after a wait. */
			publication->event.data = fermata_message_bytes(FERMATA_FROM(fermata_message, publication->message));
		}
		name_publisher();
		uint32_t code = fm_publish_begin(fermata_run.worker, publication->channel, &publication->event, publication->except,
			publication->ack, user, began_ms, record, id, error);
		if (code != FM_OK || *record != FM_PUBLISH_LATER) {
			return code;
		}
		uint64_t now_ms = fm_worker_now_ms(fermata_run.worker);
		if (!began_ms) {
			began_ms = now_ms;
		}
		if (fermata_wait_shielded(now_ms + LATER_MS) == FERMATA_WAIT_FAILED) {
			return FM_GONE;
		}
	}
}

/* FM_GONE: an exception is pending. */
static uint32_t publish_waiting(fermata_publication *publication, FmId *id, FmError *error)
{
	publish_wait one = {.fiber = fermata_run.fiber};
	/* A publisher that does not wait for the log looks at the clock only when there is no room. */
	FmPublish record = 0;
	uint64_t began_ms = publication->ack == FM_ACK_LOCAL ? 0 : fm_worker_now_ms(fermata_run.worker);
	uint32_t code = begin(publication, (uintptr_t)&one, began_ms, &record, id, error);
	if (code != FM_OK || !record) {
		return code;
	}
	uint64_t due_ms = began_ms + fm_publish_wait_ms_max(fermata_run.worker);
	for (;;) {
		/* The event cannot be taken back: it is on its way to all servers. */
		if (!one.over && fermata_wait_shielded(due_ms) == FERMATA_WAIT_FAILED) {
			fm_publish_forget(fermata_run.worker, record);
			return FM_GONE;
		}
		bool over;
		code = fm_publish_end(fermata_run.worker, record, began_ms, &over, id, error);
		if (over) {
			return code;
		}
		due_ms = fm_worker_now_ms(fermata_run.worker) + LATER_MS;
	}
}

bool fermata_publish(fermata_publication *publication, FmId *id)
{
	FmError error;
	uint32_t code;
	error.len = 0;
	if (UNEXPECTED(fm_publish_waits(fermata.worker)) && !fermata_wait_obstacle()) {
		code = publish_waiting(publication, id, &error);
	} else {
		name_publisher();
		code = fm_publish(fermata.worker, publication->channel, &publication->event, publication->except, publication->ack, id, &error);
	}
	if (EXPECTED(code == FM_OK)) {
		return true;
	}
	if (!EG(exception)) {
		fermata_throw(code, &error);
	}
	return false;
}
