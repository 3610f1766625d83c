/* A server's routes and their handlers. */
#ifndef FERMATA_SERVER_H
#define FERMATA_SERVER_H

#include "handler/run.h"

typedef struct fermata_every fermata_every;

/* Handlers of a WebSocket route; an undefined closure = no handler for the event. */
typedef struct fermata_socket_route {
	fermata_handler upgrade, open, message, close;
	fermata_handler guard;  /* middleware around `upgrade`; undefined = none */
	zend_object *group;     /* see fermata_route; only until the server runs */
	zend_array *middleware;
} fermata_socket_route;

/* A folder of static files; used only until the server runs. */
typedef struct fermata_tree {
	zend_object *group;  /* see fermata_route */
	zend_string *prefix;
	uint32_t fallback;   /* handler number for paths without a file; FM_NO_HANDLER = none */
} fermata_tree;

/* Place where a handler was registered; used only until the server runs. */
typedef struct fermata_route {
	zend_object *group;     /* Routes object it was added to; NULL = the server itself */
	zend_array *middleware; /* its own middleware closures; NULL = none */
	bool is_fallback;
} fermata_route;

typedef struct fermata_jobs fermata_jobs;
struct fermata_server {
	FmServer *core; /* NULL before the constructor, and once run() starts */
	fermata_handler *handlers;
	fermata_route *routes; /* parallel to `handlers` */
	zend_array *middleware; /* closures around all handlers; NULL = none */
	fermata_handler not_found, error; /* undefined closure = none */
	uint32_t handlers_len, handlers_capacity;
	fermata_socket_route *socket_routes;
	uint32_t socket_routes_len;
	fermata_tree *trees;
	uint32_t trees_len;
	fermata_every *every;
	fermata_jobs *jobs; /* NULL = none */
	fermata_handler on_message; /* undefined closure = none */
	zend_array *listed; /* result of routes(); NULL = none */
	bool constructed;
	bool has_fastcgi; /* PHP-FPM serves some paths */
	zend_object std;
};

/* server.c: returns false with a MisuseError pending if the server can no longer be configured. */
bool fermata_server_check_open(const fermata_server *server);
/* Returns true if a server was configured in this process. */
bool fermata_server_is_prepared(void);
void fermata_server_forget_prepared(void);

#endif
