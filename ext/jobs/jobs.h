/* Fermata\Jobs: calls that run in separate processes while handlers await the results.
 *
 * jobs.c contains the class and the worker's side, process.c the job processes and their supervisor.
 *
 * The queue is one socket that all job processes read. A worker creates a socket pair for each call and queues one end of it with
 * the job's head. Arguments and result travel over the pair. If the job process crashes, the worker reads the end of the stream. If
 * the caller gives up, the job process reads the end of the stream. */
#ifndef FERMATA_JOBS_H
#define FERMATA_JOBS_H

#include "fibers/fibers.h"
#include "handler/server.h"
#include "zend_smart_str.h"

struct fermata_jobs {
	uint32_t processes, queue_max;
	uint32_t pending;         /* unfinished calls of this worker */
	uint32_t bytes_max;       /* maximum size of arguments and of results */
	uint64_t timeout_ms;
	fermata_handler *at;
	zend_array *names;        /* position + 1 by job name */
	uint32_t len;
	int give, take;           /* ends of the queue; -1 = not open in this process */
	int life[2];              /* socket pair; the first end becomes readable when the server has stopped */
	bool started;
	zend_object std;
};

/* Record in the queue. It is sent together with the descriptor of the call's socket. */
typedef struct fermata_job_head {
	uint64_t due_ns; /* CLOCK_MONOTONIC */
	uint32_t job;
	uint32_t bytes;
} fermata_job_head;

typedef enum fermata_job_status {
	FERMATA_JOB_DONE,   /* the serialized result follows */
	FERMATA_JOB_THREW,  /* class and text of the exception follow */
	FERMATA_JOB_DIED,   /* the message of the fatal error follows */
} fermata_job_status;

typedef struct fermata_job_reply {
	uint32_t status;
	uint32_t bytes;
} fermata_job_reply;

/* jobs.c */
bool fermata_jobs_serialize(zval *value, smart_str *text);
bool fermata_jobs_unserialize(zval *value, const char *text, size_t len);

/* process.c */
bool fermata_job_supervise(fermata_jobs *jobs, FmCompanion *companion);
void fermata_job_work(const fermata_server *server, fermata_jobs *jobs);
fermata_job_status fermata_job_call(const fermata_jobs *jobs, uint32_t job, FmStr given, smart_str *text);

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
