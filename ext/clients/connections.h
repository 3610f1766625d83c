/* Connections to servers, and state that calls leave open in connections; see connections.c. */
#ifndef FERMATA_CLIENTS_CONNECTIONS_H
#define FERMATA_CLIENTS_CONNECTIONS_H

#include "clients/objects.h"
#include <netinet/in.h>
#include <sys/un.h>

void fermata_connections_init(void);
void fermata_connections_end(void);
void fermata_connections_forget(void);
void fermata_connections_find_libpq(void *library);
bool fermata_connection_of_pdo(zend_object *object, fermata_connection *it);
bool fermata_connection_of_pdo_statement(zend_object *object, fermata_connection *it);
bool fermata_connection_of_mysqli(zend_object *object, fermata_connection *it);
bool fermata_connection_of_mysqli_statement(zend_object *object, fermata_connection *it);
bool fermata_connection_of_mysqli_result(zend_object *object, fermata_connection *it);
bool fermata_connection_of_pgsql(zend_object *object, fermata_connection *it);
bool fermata_connection_of_redis(zend_object *object, fermata_connection *it);
bool fermata_connection_of_sqlite3(zend_object *object, fermata_connection *it);
/* Called after a call. Returns true if the call has left state open, so that no other fiber may use the connection. `frame` is
 * NULL if no function was called. */
bool fermata_connection_keeps(uintptr_t key, const fermata_root *root, zend_object *object, zend_execute_data *frame);
/* Returns true if the last call left a transaction open. */
bool fermata_connection_left_transaction(uintptr_t key);
/* Returns true if a transaction is open now. Requires that no other fiber is inside the connection. */
bool fermata_connection_has_transaction(uintptr_t key, const fermata_root *root, zend_object *object);
/* Returns true if state that a call has left is still open. */
bool fermata_connection_is_open(uintptr_t key);
/* Called when the fiber's handler or task has finished with open state. Returns true if a task now owns the connection and will
 * release it. */
bool fermata_connection_left(uintptr_t key, const fermata_fiber *fiber);
/* Called when PHP is about to free the object. */
void fermata_connection_gone(uintptr_t key, const zend_object *object);

/* The following is for pools. For an object that is not a connection to a server, the functions return true and do nothing. */
/* The server process or session of a connection. Its number is unique only within one server. */
typedef struct fermata_process {
	uint32_t server;
	uint16_t port; /* local port, which the server also has for the connection; 0 = Unix socket */
	socklen_t peer_len; /* 0 = unknown */
	uint64_t id; /* 0 = unknown */
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	} peer;
} fermata_process;
/* Sets `it`, which contains an earlier result or zeros, to the process of the connection. */
void fermata_connection_find_process(zend_object *object, fermata_process *it);
/* Returns true if both processes belong to one server. */
bool fermata_process_is_beside(const fermata_process *one, const fermata_process *other);
/* Returns false if the connection is closed or in the middle of a reply. */
bool fermata_connection_is_alive(zend_object *object);
/* Like fermata_connection_is_alive(), and also requires a reply from the server. */
bool fermata_connection_answers(zend_object *object);
/* Cleans up open state. Returns false if the connection is unusable. */
bool fermata_connection_restore(zend_object *object);
/* Returns true if the server may still be working for the connection, since its reply was not read. */
bool fermata_connection_is_busy(zend_object *object);
/* Closes the connection, even if another fiber owns it. */
void fermata_connection_abandon(zend_object *object);
/* Makes the server stop the work of another connection, which `which` identifies. `by` is this connection's process. `is_new`:
 * this connection was opened after the other was closed. */
void fermata_connection_stop(zend_object *object, const fermata_process *by, const fermata_process *which, bool is_new);

#endif
