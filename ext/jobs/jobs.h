/* Fermata\Jobs: calls that run in separate processes while handlers await the results.
 *
 * jobs.c contains the class and the worker's side, process.c the job processes and their supervisor, values.c serializes arguments
 * and results.
 *
 * The queue is one socket that all job processes read. A worker creates a socket pair for each call and queues one end of it with
 * the job's head. Arguments and result travel over the pair. If the job process crashes, the worker reads the end of the stream. If
 * the caller gives up, the job process reads the end of the stream. */
#ifndef FERMATA_JOBS_H
#define FERMATA_JOBS_H

#include "fibers/fibers.h"
#include "jobs/process.h"
#include "jobs/values.h"

/* jobs.c */
void fermata_jobs_init(void);
void fermata_jobs_release(fermata_jobs *jobs);
void fermata_jobs_gc(fermata_jobs *jobs, zend_get_gc_buffer *buffer);
bool fermata_jobs_open(const fermata_server *server, FmServer *core);
bool fermata_jobs_open_in_process(const fermata_server *server);
void fermata_jobs_in_worker(const fermata_server *server);
void fermata_jobs_supervise(const fermata_server *server, FmCompanion *companion);
void fermata_jobs_end(const fermata_server *server, int32_t supervisor);

/* peers.c */
bool fermata_peers_open(const fermata_server *server, uint32_t len);
void fermata_peers_close(void);
void fermata_peers_start(const fermata_server *server, uint32_t worker_index);
void fermata_peers_stop(void);
void fermata_peers_on_message(FmStr text);

#endif
