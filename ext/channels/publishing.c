/* Publishing. Without a cluster the event is immediately in the ring. In a cluster the fiber waits until the log has stored it;
 * where PHP cannot wait, the core blocks. */
#include "channels/channels.h"
#include "sockets/sockets.h"
#include "fibers/fibers.h"
#include "handler/parts.h"

/* Delay before a publish is retried when the log's queue is full. */
#define LATER_MS 2

/* Wait for the log's acknowledgement of an event; on the publisher's C stack. */
typedef struct publish_wait {
	fermata_fiber *fiber;
	bool over;
} publish_wait;

/* Wakes the fibers whose events were acknowledged or refused. */
static void on_wake(void)
{
	uint64_t user;
	while (fm_publish_next(fermata.worker, &user)) {
		publish_wait *one = (publish_wait *)(uintptr_t)user;
		one->over = true;
		fermata_wake(one->fiber);
	}
}

/* Passes the request that publishes to the core, for traces. Called before each publish, because other handlers, which set their
 * own request, run while one handler waits. */
static inline void name_publisher(void)
{
	bool is_request = fermata.handling && !fermata_this_socket() && fermata_this_request();
	fm_publish_for(fermata.worker, is_request ? fermata_this_request()->event.request : 0);
}

/* Retries until the log's queue accepts the event or refuses it. */
static uint32_t begin(fermata_publication *publication, uint64_t user, uint64_t began_ms, FmPublish *record, FmId *id, FmError *error)
{
	for (;;) {
		if (publication->message) {
			/* The bytes may have moved during a wait. */
			publication->event.data = fermata_message_bytes(FERMATA_FROM(fermata_message, publication->message));
		}
		name_publisher();
		uint32_t code = fm_publish_begin(fermata.worker, publication->channel, &publication->event, publication->except,
			publication->ack, user, began_ms, record, id, error);
		if (code != FM_OK || *record != FM_PUBLISH_LATER) {
			return code;
		}
		uint64_t now_ms = fm_worker_now_ms(fermata.worker);
		if (!began_ms) {
			began_ms = now_ms;
		}
		if (fermata_wait_shielded(now_ms + LATER_MS) == FERMATA_WAIT_FAILED) {
			return FM_GONE;
		}
	}
}

/* Publishes and waits for the log. Returns FM_GONE with an exception pending. */
static uint32_t publish_waiting(fermata_publication *publication, FmId *id, FmError *error)
{
	publish_wait one = {.fiber = fermata_this_fiber()};
	/* A publisher that does not wait for the log reads the clock only if the queue is full. */
	FmPublish record = 0;
	uint64_t began_ms = publication->ack == FM_ACK_LOCAL ? 0 : fm_worker_now_ms(fermata.worker);
	uint32_t code = begin(publication, (uintptr_t)&one, began_ms, &record, id, error);
	if (code != FM_OK || !record) {
		return code;
	}
	uint64_t due_ms = began_ms + fm_publish_wait_ms_max(fermata.worker);
	for (;;) {
		/* Shielded, because an event that is being sent to all servers cannot be cancelled. */
		if (!one.over && fermata_wait_shielded(due_ms) == FERMATA_WAIT_FAILED) {
			fm_publish_forget(fermata.worker, record);
			return FM_GONE;
		}
		bool over;
		code = fm_publish_end(fermata.worker, record, began_ms, &over, id, error);
		if (over) {
			return code;
		}
		due_ms = fm_worker_now_ms(fermata.worker) + LATER_MS;
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

static fermata_part part = {.on_wake = on_wake};

void fermata_publishing_init(void)
{
	fermata_part_register(&part);
}
