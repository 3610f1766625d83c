/* Data of a fiber, on which a handler or task runs. The pool is in fibers/. */
#ifndef FERMATA_FIBER_H
#define FERMATA_FIBER_H

#include "handler/parts.h"
#include "zend_fibers.h"

/* A timer. It is a member of the structure that it belongs to. */
typedef struct fermata_timer {
	uint64_t due_ms;
	uint32_t at; /* index in the heap plus 1; 0 = not armed */
	void (*on_due)(struct fermata_timer *timer, uint64_t now_ms); /* NULL = wakes the fiber that it is a member of */
} fermata_timer;

/* The client that a handler and its tasks work for. */
typedef struct fermata_client {
	uint32_t references;
	bool gone, is_cut_logged;
	uint64_t gone_ms; /* time at which the client disconnected */
	FmRequest request; /* either `request` or `socket` is set */
	FmSocket socket;
} fermata_client;

/* A scope that can end waits inside a call. Stored on the C stack of the function that makes the call. */
typedef struct fermata_scope {
	struct fermata_scope *outer;
	fermata_fiber *owner; /* owner of the list that has the scope; NULL after its handler has finished */
	const zend_fiber *inside; /* PHP Fiber in which the call was made; NULL = none */
	bool is_shield;       /* outer scopes do not end waits inside */
	bool is_own;          /* a shield set by the extension, whose waits have their own time-outs */
	uint64_t begun_at;    /* on the conversation clock: only connections used since then are shut down when the scope ends */
	uint64_t due_ms;      /* for timeout() */
	const bool *is_cancelled; /* for Cancellation::run(); NULL = none */
} fermata_scope;

typedef struct fermata_future fermata_future;

typedef enum fermata_fiber_state {
	FERMATA_FIBER_PARKED,  /* in the pool */
	FERMATA_FIBER_RUNNING, /* running, or briefly switched to another fiber */
	FERMATA_FIBER_WAITING,
	FERMATA_FIBER_READY,   /* in the ready queue */
} fermata_fiber_state;

/* State of a suspended fiber's handler, copied from fermata_run, which describes the running fiber. */
struct fermata_running {
	fermata_request *request;
	fermata_websocket *websocket;
	fermata_message *message;
	FmSocket socket;
	FmRequest stream;
	bool handling;
};

struct fermata_fiber {
	zend_fiber_context own;      /* unused by the first fiber, which is PHP's main context */
	zend_fiber_context *context; /* context to resume: its own, or that of a PHP Fiber that its handler runs */
	zend_execute_data *frame;    /* frame in that context */
	zend_vm_stack vm_stack;      /* set until the fiber has started */
	fermata_fiber_state state;
	uint32_t touched;    /* work for fermata_fiber_clean_up(): a bit for each part, and FERMATA_TOUCHED */
	bool has_ending;     /* the parts' on_return has to be called when the handler returns */
	bool is_listed;      /* in the list of fibers that have waited */
	bool has_failed;     /* its handler or task threw an exception, or has sent a response for one */
	bool dying;          /* removed from the pool for good */
	struct {
		bool interrupted;   /* woken because the wait may have to end */
		bool without_client; /* the client has already disconnected and does not end the wait */
		bool is_background; /* a stopping worker does not wait for it */
		uint64_t abandoned_until_ms; /* time until which queries continue after the client's disconnect; 0 = not set */
		fermata_timer timer;
	} wait;
	fermata_fiber *next, *previous; /* in the pool, or in the list of fibers that have waited */
	struct {
		fermata_fiber *next;
		uint64_t turn; /* the lowest turn continues first */
	} ready; /* link in the ready queue */
	fermata_running running;
	/* current work */
	fermata_client *client;
	fermata_future *future; /* NULL = a handler */
	uint64_t family; /* number shared by a handler and its tasks; 0 = the handler has started none */
	fermata_scope *scope;   /* innermost scope */
	uint64_t slots[FERMATA_SLOTS_BYTES / sizeof(uint64_t)]; /* slots of the parts; see parts.h */
};

#endif
