/* Fermata\Jobs: calls that run in processes of their own, while handlers await their results.
 *
 * jobs.c is the side of the workers and the class, process.c that of the processes.
 *
 * A call has a socket pair of its own. Its other end goes to whichever process takes it from the one socket that all processes
 * read, which is the queue. Arguments go one way over the pair and the result the other; that the process has died is seen by
 * the end of the stream, whatever it died of, and that nobody waits any more by the end of the other. */
#ifndef FERMATA_JOBS_H
#define FERMATA_JOBS_H

#include "fibers/fibers.h"
#include "zend_smart_str.h"

struct fermata_jobs {
	uint32_t processes, queue_max;
	uint32_t pending;         /* calls of this worker that have not ended */
	uint32_t bytes_max;       /* of arguments and results */
	uint64_t timeout_ms;
	fermata_handler *at;
	zend_array *names;        /* place in it + 1 */
	uint32_t len;
	int give, take;           /* the ends of the queue; -1 = not here */
	int life[2];              /* a pair: the first end is readable when the server has ended */
	bool started;
	zend_object std;
};

/* In the queue, with the descriptor of the call's other end. */
typedef struct fermata_job_head {
	uint64_t due_ns; /* CLOCK_MONOTONIC */
	uint32_t job;
	uint32_t bytes;
} fermata_job_head;

typedef enum fermata_job_status {
	FERMATA_JOB_DONE,   /* the result follows, serialised */
	FERMATA_JOB_THREW,  /* class and text of what was thrown follow */
	FERMATA_JOB_DIED,   /* the message of the fatal error follows */
} fermata_job_status;

typedef struct fermata_job_reply {
	uint32_t status;
	uint32_t bytes;
} fermata_job_reply;

/* jobs.c */
bool fermata_jobs_serialize(zval *value, smart_str *text);
bool fermata_jobs_unserialize(zval *value, const char *text, size_t len);
uint64_t fermata_now_ns(void);

/* process.c */
bool fermata_job_supervise(fermata_jobs *jobs, FmCompanion *companion);
void fermata_job_work(const fermata_server *server, fermata_jobs *jobs);
fermata_job_status fermata_job_call(const fermata_jobs *jobs, uint32_t job, FmStr given, smart_str *text);

#endif
