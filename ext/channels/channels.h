/* Events, channels and tables. */
#ifndef FERMATA_CHANNELS_H
#define FERMATA_CHANNELS_H

#include "handler/handler.h"

/* channel.c */
bool fermata_event_message(zend_object *event, FmMessage *message);
/* Returns false with a MisuseError pending. */
bool fermata_channel_name(zval *channel, FmStr *name);
/* Creates an Event. An `id.ptr` of NULL means an event without id and time. */
void fermata_event_from_past(zval *result, const FmPast *past);
/* Copies the id of an Event. */
void fermata_event_id(zval *result, zend_object *event);

/* reader.c */
void fermata_reader_init(void);
/* Called for FM_EVENT_CHANNEL. */
void fermata_reader_woken(void);

/* publishing.c */
void fermata_publishing_init(void);
typedef struct fermata_publication {
	FmStr channel;
	zend_object *message; /* WebSocket message whose bytes are borrowed; NULL = `event` contains the bytes */
	FmMessage event;
	FmSocket except; /* socket of this worker that is skipped; 0 = none */
	uint32_t ack;
} fermata_publication;

/* Returns false with an exception pending. */
bool fermata_publish(fermata_publication *publication, FmId *id);

/* table.c */
void fermata_table_init(void);

/* publisher.c */
void fermata_publisher_init(void);

#endif
