/* Fermata\Sync\Mutex and Semaphore. A release passes the mutex or permit directly to the first waiter, so no waiter starves. */
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

typedef struct fermata_mutex {
	fermata_fiber *owner; /* NULL = unlocked */
	struct fermata_mutex *next;  /* next mutex that the same owner has locked */
	uint64_t locked_at;   /* fermata_clock() when it was locked */
	fermata_waiters waiters;
	zend_object std;
} fermata_mutex;

typedef struct fermata_semaphore {
	zend_long permits, permits_max; /* 0 before the constructor */
	fermata_waiters waiters;
	zend_object std;
} fermata_semaphore;

typedef struct locking {
	fermata_mutex *waits; /* mutex that the fiber waits for; NULL = none */
	fermata_mutex *owned; /* first mutex that the fiber has locked */
} locking;

static fermata_part part;
FERMATA_SLOT(locking, part)

static zend_object_handlers mutex_handlers, semaphore_handlers;

#define THIS_MUTEX() FERMATA_FROM(fermata_mutex, Z_OBJ_P(ZEND_THIS))
#define THIS_SEMAPHORE() FERMATA_FROM(fermata_semaphore, Z_OBJ_P(ZEND_THIS))

/* Object lifecycle */

static zend_object *mutex_create(zend_class_entry *ce)
{
	fermata_mutex *mutex = zend_object_alloc(sizeof(fermata_mutex), ce);
	memset(mutex, 0, XtOffsetOf(fermata_mutex, std));
	zend_object_std_init(&mutex->std, ce);
	mutex->std.handlers = &mutex_handlers;
	return &mutex->std;
}

static void disown(fermata_mutex *mutex)
{
	for (fermata_mutex **at = &slot(mutex->owner)->owned; *at; at = &(*at)->next) {
		if (*at == mutex) {
			*at = mutex->next;
			break;
		}
	}
	mutex->owner = NULL;
}

static void own(fermata_mutex *mutex, fermata_fiber *fiber)
{
	mutex->owner = fiber;
	mutex->locked_at = fermata_clock();
	mutex->next = slot(fiber)->owned;
	slot(fiber)->owned = mutex;
	fermata_touch(fiber, part);
}

/* Waiting fibers hold references to the mutex, so there are none here. */
static void mutex_free(zend_object *object)
{
	fermata_mutex *mutex = FERMATA_FROM(fermata_mutex, object);
	if (mutex->owner) {
		disown(mutex);
	}
	zend_object_std_dtor(object);
}

static zend_object *semaphore_create(zend_class_entry *ce)
{
	fermata_semaphore *semaphore = zend_object_alloc(sizeof(fermata_semaphore), ce);
	memset(semaphore, 0, XtOffsetOf(fermata_semaphore, std));
	zend_object_std_init(&semaphore->std, ce);
	semaphore->std.handlers = &semaphore_handlers;
	return &semaphore->std;
}

void fermata_sync_init(void)
{
	fermata_ce_mutex->create_object = mutex_create;
	memcpy(&mutex_handlers, zend_get_std_object_handlers(), sizeof(mutex_handlers));
	mutex_handlers.offset = XtOffsetOf(fermata_mutex, std);
	mutex_handlers.free_obj = mutex_free;
	mutex_handlers.clone_obj = NULL;
	mutex_handlers.compare = zend_objects_not_comparable;
	fermata_ce_semaphore->create_object = semaphore_create;
	memcpy(&semaphore_handlers, zend_get_std_object_handlers(), sizeof(semaphore_handlers));
	semaphore_handlers.offset = XtOffsetOf(fermata_semaphore, std);
	semaphore_handlers.clone_obj = NULL;
	semaphore_handlers.compare = zend_objects_not_comparable;
}

/* Waits until another fiber removes this one from the list. Returns false after an exception. */
static bool wait_in(fermata_waiters *list)
{
	fermata_waiter waiter = {.fiber = fermata_run.fiber};
	fermata_waiters_add(list, &waiter);
	bool done = fermata_wait_for_others() != FERMATA_WAIT_FAILED;
	fermata_waiters_remove(&waiter);
	return done;
}

static fermata_fiber *take_first(fermata_waiters *list)
{
	fermata_waiter *first = list->first;
	if (!first) {
		return NULL;
	}
	fermata_waiters_remove(first);
	return first->fiber;
}

/* Mutex */

static bool in_handler(void)
{
	return EXPECTED(fermata.handling) || fermata_can_wait();
}

static void hand_over(fermata_mutex *mutex)
{
	disown(mutex);
	fermata_fiber *next = take_first(&mutex->waiters);
	if (next) {
		/* The new owner no longer waits, even before it runs. Otherwise the search for deadlocks would find a cycle. */
		slot(next)->waits = NULL;
		own(mutex, next);
		fermata_wake(next);
	}
}

/* Unlocks the mutex. Exchanges that the owner made while it had the lock are complete, so the next owner may use the same
 * connections. */
static void let_go(fermata_mutex *mutex)
{
	FERMATA_EACH_PART(on_unlock, mutex->locked_at)
	hand_over(mutex);
}

static bool lock(fermata_mutex *mutex)
{
	fermata_fiber *fiber = fermata_run.fiber;
	if (!in_handler()) {
		return false;
	}
	if (EXPECTED(!mutex->owner)) {
		own(mutex, fiber);
		return true;
	}
	if (!fermata_can_wait() || !fermata_check_deadlock(mutex->owner)) {
		return false;
	}
	slot(fiber)->waits = mutex;
	bool done = wait_in(&mutex->waiters);
	slot(fiber)->waits = NULL;
	if (UNEXPECTED(!done && mutex->owner == fiber)) {
		/* The fiber received the mutex while the worker was stopping. */
		hand_over(mutex);
	}
	return done;
}

/* Returns false with an exception pending. */
static bool unlock(fermata_mutex *mutex)
{
	if (UNEXPECTED(!mutex->owner || mutex->owner != fermata_run.fiber)) {
		fermata_misuse(mutex->owner ? "the mutex is locked by another handler or task, which has to unlock it"
			: "the mutex is not locked");
		return false;
	}
	let_go(mutex);
	return true;
}

/* Unlocks the mutexes of a finished handler or task, since other fibers would wait for them forever. */
static void on_clean_up(fermata_fiber *fiber)
{
	while (UNEXPECTED(slot(fiber)->owned)) {
		fm_worker_log(fermata.worker, FERMATA_LOG_ERROR, FERMATA_LITERAL(
			"a handler or task has ended without unlocking a Mutex, which was unlocked now; use Mutex::synchronized()"));
		hand_over(slot(fiber)->owned);
	}
}

static bool has_rest(const fermata_fiber *fiber)
{
	return slot(fiber)->owned;
}

static void on_move(fermata_fiber *from, fermata_fiber *to)
{
	while (UNEXPECTED(slot(from)->owned)) {
		fermata_mutex *mutex = slot(from)->owned;
		uint64_t locked_at = mutex->locked_at;
		disown(mutex);
		own(mutex, to);
		mutex->locked_at = locked_at;
	}
}

static const fermata_fiber *waits_for(const fermata_fiber *fiber)
{
	return slot(fiber)->waits ? slot(fiber)->waits->owner : NULL;
}

static fermata_part part = {.size = sizeof(locking), .on_clean_up = on_clean_up, .has_rest = has_rest, .on_move = on_move,
	.waits_for = waits_for};

void fermata_sync_init_part(void)
{
	fermata_part_register(&part);
}

ZEND_METHOD(Fermata_Sync_Mutex, lock)
{
	ZEND_PARSE_PARAMETERS_NONE();
	lock(THIS_MUTEX());
}

ZEND_METHOD(Fermata_Sync_Mutex, tryLock)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!in_handler()) {
		RETURN_THROWS();
	}
	if (THIS_MUTEX()->owner) {
		RETURN_FALSE;
	}
	own(THIS_MUTEX(), fermata_run.fiber);
	RETURN_TRUE;
}

ZEND_METHOD(Fermata_Sync_Mutex, unlock)
{
	ZEND_PARSE_PARAMETERS_NONE();
	unlock(THIS_MUTEX());
}

ZEND_METHOD(Fermata_Sync_Mutex, isLocked)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(THIS_MUTEX()->owner != NULL);
}

ZEND_METHOD(Fermata_Sync_Mutex, synchronized)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(info, call)
	ZEND_PARSE_PARAMETERS_END();
	fermata_mutex *mutex = THIS_MUTEX();
	if (!lock(mutex)) {
		RETURN_THROWS();
	}
	info.retval = return_value;
	zend_call_function(&info, &call);
	/* Both pointers are NULL if a PHP Fiber is resumed here after the server has stopped. */
	if (mutex->owner && mutex->owner == fermata_run.fiber) {
		let_go(mutex);
	}
}

/* Semaphore */

ZEND_METHOD(Fermata_Sync_Semaphore, __construct)
{
	zend_long permits;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_LONG(permits)
	ZEND_PARSE_PARAMETERS_END();
	fermata_semaphore *semaphore = THIS_SEMAPHORE();
	if (semaphore->permits_max) {
		fermata_constructed_twice();
		RETURN_THROWS();
	}
	if (permits < 1) {
		fermata_misuse("a semaphore has 1 permit or more, not " ZEND_LONG_FMT, permits);
		RETURN_THROWS();
	}
	semaphore->permits = semaphore->permits_max = permits;
}

static bool acquire(fermata_semaphore *semaphore)
{
	if (!in_handler()) {
		return false;
	}
	if (EXPECTED(semaphore->permits > 0)) {
		semaphore->permits--;
		return true;
	}
	return fermata_can_wait() && wait_in(&semaphore->waiters);
}

static bool release(fermata_semaphore *semaphore)
{
	fermata_fiber *next = take_first(&semaphore->waiters);
	if (next) {
		fermata_wake(next);
		return true;
	}
	if (UNEXPECTED(semaphore->permits == semaphore->permits_max)) {
		fermata_misuse("more permits are released than were acquired; the semaphore has " ZEND_LONG_FMT, semaphore->permits_max);
		return false;
	}
	semaphore->permits++;
	return true;
}

ZEND_METHOD(Fermata_Sync_Semaphore, acquire)
{
	ZEND_PARSE_PARAMETERS_NONE();
	acquire(THIS_SEMAPHORE());
}

ZEND_METHOD(Fermata_Sync_Semaphore, tryAcquire)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (THIS_SEMAPHORE()->permits <= 0) {
		RETURN_FALSE;
	}
	THIS_SEMAPHORE()->permits--;
	RETURN_TRUE;
}

ZEND_METHOD(Fermata_Sync_Semaphore, release)
{
	ZEND_PARSE_PARAMETERS_NONE();
	release(THIS_SEMAPHORE());
}

ZEND_METHOD(Fermata_Sync_Semaphore, run)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(info, call)
	ZEND_PARSE_PARAMETERS_END();
	if (!acquire(THIS_SEMAPHORE())) {
		RETURN_THROWS();
	}
	info.retval = return_value;
	zend_call_function(&info, &call);
	release(THIS_SEMAPHORE());
}
