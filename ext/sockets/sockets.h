/* WebSockets and the protocols on top of them: Pusher and Mercure. */
#ifndef FERMATA_SOCKETS_H
#define FERMATA_SOCKETS_H

#include "http/http.h"

/* route.c */
void fermata_socket_route_free(fermata_socket_route *route);
void fermata_socket_route_gc(fermata_socket_route *route, zend_get_gc_buffer *buffer);

/* websocket.c */
void fermata_websocket_init(void);
fermata_websocket *fermata_websocket_new(void);
void fermata_websocket_keep(fermata_websocket *socket);

/* Binds the object to another connection. */
static zend_always_inline void fermata_websocket_bind(fermata_websocket *socket, FmSocket handle)
{
	if (socket->handle != handle) {
		socket->handle = handle;
		if (UNEXPECTED(socket->id)) {
			zend_string_release(socket->id);
			socket->id = NULL;
		}
	}
}

/* data.c */
zval *fermata_websocket_data(FmSocket handle);
bool fermata_websocket_set_data(FmSocket handle, zval *data);
void fermata_websocket_release(FmSocket handle);
void fermata_websocket_release_all(void);

/* message.c */
void fermata_message_init(void);
fermata_message *fermata_message_new(void);
void fermata_message_forget(fermata_message *message);
void fermata_message_keep(fermata_message *message);
FmStr fermata_message_bytes(const fermata_message *message);

/* upgrade.c */
typedef struct fermata_upgrade {
	fermata_request *request;
	enum { UPGRADE_UNDECIDED, UPGRADE_ACCEPTED, UPGRADE_REFUSED, UPGRADE_OVER } state;
	zend_string *protocol;      /* of accept(); NULL = chosen by the server */
	fermata_headers *headers;   /* of accept() */
	zend_object *response;      /* of refuse(); NULL = only the status */
	uint32_t status;
	zval data;
	zend_object std;
} fermata_upgrade;
void fermata_upgrade_init(void);
fermata_upgrade *fermata_upgrade_new(fermata_request *request);
void fermata_upgrade_end(fermata_upgrade *upgrade);

/* options.c */
typedef struct fermata_socket_options {
	FmWsRoute route;
	FmStr *origins, *protocols; /* arrays that route points to; the caller frees them */
} fermata_socket_options;
void fermata_socket_options_fill(fermata_socket_options *out, zend_object *options);

/* pusher.c */
void fermata_pusher_init(void);

/* mercure.c */
void fermata_mercure_init(void);
void fermata_mercure_shutdown(void);

/* client.c */
void fermata_client_init(void);

/* codec.c */
void fermata_codec_forked(void);
void fermata_codec_request_end(void);

/* runner.c */
void fermata_socket_runner_init(void);
void fermata_socket_upgrade(const FmEvent *event);
void fermata_socket_open(const FmEvent *event);
void fermata_socket_message(const FmEvent *event);
void fermata_socket_close(const FmEvent *event);

#endif
