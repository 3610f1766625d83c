/* Objects passed to handlers. One object of each class is reused while no other code refers to it. */
#ifndef FERMATA_OBJECTS_H
#define FERMATA_OBJECTS_H

#include "handler/run.h"

typedef struct fermata_kept fermata_kept;

struct fermata_request {
	FmWorker *worker;   /* set while the core's buffers contain the request */
	fermata_kept *kept; /* set if the object has outlived its handler; `event` then points into it */
	FmEvent event;
	zend_string *body; /* this and the following fields are created on first use */
	zend_array *queries, *forms, *cookies, *files;
	zval attributes; /* an array, or undefined */
	size_t body_read;   /* bytes returned by read() */
	bool body_ended;    /* used if the body is read while it arrives */
	zend_object std;
};

struct fermata_websocket {
	FmSocket handle; /* handle of the core; 0 = none */
	zend_string *id; /* this and the following fields are created on first use, or when the object outlives its handler */
	zend_string *address, *protocol;
	uint16_t port;
	bool kept;
	zend_object std;
};

struct fermata_message {
	FmStr bytes;         /* buffer of the core while the handler runs; empty afterwards */
	zend_string *string; /* created on first use, or when the object outlives its handler */
	bool binary;
	zend_object std;
};

#endif
