/* A worker's loop, the server that starts workers, and a worker inside a test. */
#ifndef FERMATA_WORKER_H
#define FERMATA_WORKER_H

#include "handler/handler.h"

/* limits.c */
bool fermata_property_setting(const zend_class_entry *ce, uint32_t number, FmStr *setting);

/* server.c */
void fermata_server_init(void);
void fermata_server_request_end(void);
/* Prepares a server for a worker in this process and returns its core; NULL with an exception pending. */
FmServer *fermata_server_take(fermata_server *server);

/* in_process.c */
void fermata_in_process_init(void);

/* loop.c */
void fermata_run_worker(fermata_server *server, const FmStart *start);


/* loop.c */
void fermata_runner_request_end(void);

/* loop.c */
void fermata_dispatch(const FmEvent *event);
/* Ends the handlers when a worker stops. */
void fermata_stop(void);
void fermata_runner_loop(zend_execute_data *frame);


#endif
