/* What a worker and a job process share; see process.c. */
#ifndef FERMATA_JOBS_PROCESS_H
#define FERMATA_JOBS_PROCESS_H

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

/* process.c */
bool fermata_job_supervise(fermata_jobs *jobs, FmCompanion *companion);
void fermata_job_work(const fermata_server *server, fermata_jobs *jobs);
fermata_job_status fermata_job_call(const fermata_jobs *jobs, uint32_t job, FmStr given, smart_str *text);

#endif
