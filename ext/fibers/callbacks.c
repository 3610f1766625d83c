/* Decides which waits may switch to another handler.
 *
 * Some internal PHP functions keep state in globals or on the C stack while they call PHP code, such as the callback of usort() or
 * mb_ereg_replace_callback(). If that code waited and another handler called the same function, the two calls would mix their
 * state. So a wait checks all frames from the innermost to the first of the handler, also across PHP Fibers. The wait switches to
 * another handler only if callbacks.list lists each internal function on the way as re-entrant. If a re-entrant function is
 * missing from the list, waits in it are slow but correct. The same applies to PHP code that the engine calls in the middle of an
 * operation: stream filters, tick functions, initializers of lazy objects, functions without a calling frame, and error handlers
 * during compilation or class linking.
 *
 * A wait that must not switch blocks the worker, for at most `callback_wait_ms_max` per handler. Such a wait is logged once per
 * function. With `callback_wait=throw`, it throws an exception instead.
 *
 * Cost: two loads per userland frame, and a lookup in a small table per internal function. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "fibers/callbacks.h"
#include "handler/parts.h"
#include "zend_closures.h"
#include "zend_exceptions.h"
#include "zend_generators.h"
#include <errno.h>

/* Maximum number of functions whose warning is logged only once. Beyond it, every warning is logged. */
#define LOGGED_MAX 256
#define NAME_BYTES_MAX 256
#define PLACE_BYTES_MAX 512
/* Buffer for the message of a MisuseError about a wait in a callback. */
#define OBSTACLE_BYTES_MAX 512
/* Table slots per entry. The table stays mostly empty, so a search usually ends at the first slot. */
#define TABLE_SHARE 4

typedef struct listed_name {
	const char *class; /* NULL = a plain function */
	const char *function; /* NULL = all methods that the class declares */
} listed_name;

static const listed_name names[] = {
#include "fibers/callbacks_list.h"
};
#define NAMES (sizeof(names) / sizeof(*names))

/* A function is identified by the pointers to its name and class. Its copies in closures and userland classes share these
 * pointers. */
typedef struct entry {
	const zend_string *name; /* NULL = empty slot */
	const zend_class_entry *scope;
} entry;

static struct {
	entry *table;
	uint32_t mask, used;
	HashTable logged;
	const zend_class_entry *filter; /* php_user_filter */
	bool throws;
	uint64_t ms_max;
	/* result of the last fermata_is_in_callback() */
	const zend_function *found;
	const char *what; /* NULL = a callback of `found` */
} callbacks;

/* Total time for which the handler or task has held the worker. */
typedef struct held {
	uint64_t ms;
} held;

static fermata_part part;
FERMATA_SLOT(held, part)

/* Table of re-entrant functions */

static zend_always_inline uint32_t slot_of(const zend_string *name, const zend_class_entry *scope)
{
	uintptr_t mixed = ((uintptr_t)name ^ ((uintptr_t)scope >> 2)) * 0x9E3779B97F4A7C15u;
	return (uint32_t)(mixed >> 32) & callbacks.mask;
}

static bool is_listed(const zend_function *function)
{
	const zend_string *name = function->common.function_name;
	const zend_class_entry *scope = function->common.scope;
	if (UNEXPECTED(!name)) {
		/* The first frame of a PHP Fiber. */
		return true;
	}
	for (uint32_t at = slot_of(name, scope); callbacks.table[at].name; at = (at + 1) & callbacks.mask) {
		if (callbacks.table[at].name == name && callbacks.table[at].scope == scope) {
			return true;
		}
	}
	return false;
}

static void add(const zend_string *name, const zend_class_entry *scope)
{
	uint32_t at = slot_of(name, scope);
	while (callbacks.table[at].name) {
		at = (at + 1) & callbacks.mask;
	}
	callbacks.table[at] = (entry){name, scope};
	callbacks.used++;
}

/* Calls `with` for each listed function that exists in this PHP. */
static void each_listed(void (*with)(const zend_string *name, const zend_class_entry *scope))
{
	const zend_function *function;
	for (size_t i = 0; i < NAMES; i++) {
		const listed_name *one = &names[i];
		HashTable *functions = CG(function_table);
		if (one->class) {
			zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), one->class, strlen(one->class));
			if (!class || class->type != ZEND_INTERNAL_CLASS) {
				continue;
			}
			functions = &class->function_table;
			if (!one->function) {
				ZEND_HASH_FOREACH_PTR(functions, function) {
					if (function->common.scope == class) {
						with(function->common.function_name, class);
					}
				} ZEND_HASH_FOREACH_END();
				continue;
			}
		}
		function = zend_hash_str_find_ptr(functions, one->function, strlen(one->function));
		if (function && function->type == ZEND_INTERNAL_FUNCTION) {
			with(function->common.function_name, function->common.scope);
		}
	}
	/* Closure::__invoke() is in no function table, since PHP creates it on each call. */
	with(ZSTR_KNOWN(ZEND_STR_MAGIC_INVOKE), zend_ce_closure);
}

static void count(const zend_string *name, const zend_class_entry *scope)
{
	callbacks.used++;
}

/* Fills the table. Called after all extensions are loaded. */
static void on_start(void)
{
	memset(&callbacks, 0, sizeof(callbacks));
	callbacks.throws = fermata_fibers_settings()->callback_wait_throws;
	callbacks.ms_max = fermata_fibers_settings()->callback_wait_ms_max;
	callbacks.filter = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("php_user_filter"));
	each_listed(count);
	uint32_t size = 1;
	while (size < callbacks.used * TABLE_SHARE) {
		size *= 2;
	}
	callbacks.used = 0;
	callbacks.mask = size - 1;
	callbacks.table = pecalloc(size, sizeof(entry), true);
	each_listed(add);
	zend_hash_init(&callbacks.logged, 0, NULL, NULL, true);
}

static void on_stop(void)
{
	if (callbacks.table) {
		pefree(callbacks.table, true);
		zend_hash_destroy(&callbacks.logged);
		callbacks.table = NULL;
	}
}

/* Frames */

static ZEND_COLD bool is_filter(const zend_class_entry *scope)
{
	return callbacks.filter && instanceof_function(scope, callbacks.filter);
}

/* Returns true for functions that include may call before the compilation starts: methods of a stream wrapper that open and read
 * the file. Also returns true for included code, which has no name: its file is already compiled. */
static bool is_called_before_compilation(const zend_function *called)
{
	const zend_string *name = called->common.function_name;
	return !name || (called->common.scope && (zend_string_starts_with_literal(name, "stream_")
		|| zend_string_equals_literal_ci(name, "url_stat") || zend_string_equals_literal_ci(name, "__construct")));
}

/* Returns the operation that is incomplete when this opcode calls PHP code; NULL if there is none. Other handlers must not see the
 * intermediate state of such an operation. */
static const char *halves_of(uint8_t opcode, const zend_function *called)
{
	switch (opcode) {
		case ZEND_TICKS: return "a tick function";
		case ZEND_INCLUDE_OR_EVAL:
			return is_called_before_compilation(called) ? NULL : "code that PHP calls while it compiles a file";
		case ZEND_DECLARE_CLASS:
		case ZEND_DECLARE_CLASS_DELAYED:
		case ZEND_DECLARE_ANON_CLASS: return "code that PHP calls while it links a class";
		default: return FERMATA_IS_FRAMELESS(opcode) ? "code that a function without a frame calls" : NULL;
	}
}

/* Returns true if the engine called PHP code in the middle of this frame's current operation. Records that operation. */
static bool is_called_midway(const zend_execute_data *frame, const zend_function *called)
{
	const zend_op *line = frame->opline;
	const char *what = EXPECTED(line) ? halves_of(line->opcode, called) : NULL;
	if (EXPECTED(!what)) {
		return false;
	}
	callbacks.found = NULL;
	callbacks.what = what;
	return true;
}

/* Returns true if the engine called the function to initialize a lazy object, which is the first argument. Other handlers would
 * see the object without its properties. */
static ZEND_COLD bool is_initializer(const zend_execute_data *frame)
{
	const zend_op_array *code = &frame->func->op_array;
	if (!ZEND_CALL_NUM_ARGS(frame)) {
		return false;
	}
	/* PHP stores arguments without a declared parameter after the local variables. */
	const zval *object = code->num_args ? ZEND_CALL_ARG(frame, 1) : ZEND_CALL_VAR_NUM(frame, code->last_var + code->T);
	return Z_TYPE_P(object) == IS_OBJECT && FERMATA_IS_INITIALIZING(Z_OBJ_P(object));
}

/* Returns true if no other handler may run during this frame. The frame was not called directly by PHP code. */
static bool is_blocked_at(const zend_execute_data *frame)
{
	const zend_function *function = frame->func;
	if (!ZEND_USER_CODE(function->common.type)) {
		if (EXPECTED(is_listed(function))) {
			return false;
		}
		callbacks.found = function;
		callbacks.what = NULL;
		return true;
	}
	if (UNEXPECTED(function->common.scope && function->common.scope->parent) && UNEXPECTED(is_filter(function->common.scope))) {
		callbacks.found = NULL;
		callbacks.what = "a stream filter";
		return true;
	}
	if (UNEXPECTED(FERMATA_HAS_LAZY_OBJECTS) && UNEXPECTED(is_initializer(frame))) {
		callbacks.found = NULL;
		callbacks.what = "the initializer of a lazy object";
		return true;
	}
	return false;
}

static zend_always_inline bool is_called_by_engine(const zend_execute_data *frame)
{
	return ZEND_CALL_INFO(frame) & ZEND_CALL_TOP;
}

bool fermata_is_in_callback(void)
{
	const zend_execute_data *frame = EG(current_execute_data), *base = fermata_fibers_frame();
	bool is_inner = true;
	for (; frame && frame != base; frame = frame->prev_execute_data, is_inner = false) {
		const zend_function *function = frame->func;
		if (UNEXPECTED(!function)) {
			/* A frame of a generator that delegates to another generator. */
			continue;
		}
		bool is_user = ZEND_USER_CODE(function->common.type);
		if (EXPECTED(is_user) && EXPECTED(!is_called_by_engine(frame))) {
			continue;
		}
		if (UNEXPECTED(fermata_is_magic(frame))) {
			fermata_magic_note();
		}
		/* An internal function at the innermost frame is the waiting function itself, so it does not count. */
		if ((is_user || !is_inner) && UNEXPECTED(is_blocked_at(frame))) {
			return true;
		}
		const zend_execute_data *caller = frame->prev_execute_data;
		if (is_called_by_engine(frame) && caller && caller != base && caller->func && ZEND_USER_CODE(caller->func->common.type)
				&& UNEXPECTED(is_called_midway(caller, function))) {
			return true;
		}
	}
	return false;
}

const char *fermata_callback_name(void)
{
	static char text[NAME_BYTES_MAX];
	if (callbacks.what) {
		return callbacks.what;
	}
	const zend_function *function = callbacks.found;
	const zend_class_entry *scope = function->common.scope;
	snprintf(text, sizeof(text), "code that %s%s%s() calls", scope ? ZSTR_VAL(scope->name) : "", scope ? "::" : "",
		ZSTR_VAL(function->common.function_name));
	return text;
}

/* Returns the reason why PHP cannot wait at this point; NULL = it can. */
const char *fermata_wait_obstacle(void)
{
	static char text[OBSTACLE_BYTES_MAX];
	const char *obstacle = fermata_hold_obstacle();
	if (EXPECTED(!obstacle) && UNEXPECTED(fermata_is_in_callback())) {
		snprintf(text, sizeof(text), "in %s: another handler would meet PHP's state in the middle of the call; wait before or "
			"after it", fermata_callback_name());
		obstacle = text;
	}
	return obstacle;
}

bool fermata_has_to_hold(void)
{
	return !fermata_hold_obstacle() && fermata_is_in_callback();
}

/* Returns false with an exception pending if no wait is possible at this point. */
bool fermata_can_wait(void)
{
	const char *obstacle = fermata_wait_obstacle();
	if (EXPECTED(!obstacle)) {
		return true;
	}
	if (fermata.handling && !fermata.forked && fermata_run.is_stopping) {
		zend_throw_exception(fermata_ce_cancelled, "the worker stops, and nothing can be waited for any more", 0);
	} else {
		fermata_misuse("PHP cannot wait %s", obstacle);
	}
	return false;
}

/* Holding the worker */

static ZEND_COLD void log_held(void)
{
	const char *name = fermata_callback_name();
	if (zend_hash_num_elements(&callbacks.logged) < LOGGED_MAX
			? !zend_hash_str_add_empty_element(&callbacks.logged, name, strlen(name))
			: zend_hash_str_exists(&callbacks.logged, name, strlen(name))) {
		return;
	}
	char text[PLACE_BYTES_MAX + NAME_BYTES_MAX];
	int len = snprintf(text, sizeof(text), "the worker is held while %s waits, because PHP could mix up its state with that of "
		"another handler; wait before or after the call (callback_wait)", name);
	FmDetail detail;
	fermata_detail(&detail);
	detail.file = fermata_str_or_empty(zend_get_executed_filename_ex());
	detail.line = zend_get_executed_lineno();
	fm_worker_log_at(fermata.worker, FERMATA_LOG_WARNING, true, (FmStr){text, MIN((size_t)len, sizeof(text) - 1)}, &detail);
}

bool fermata_block_note(void)
{
	if (UNEXPECTED(callbacks.throws)) {
		fermata_misuse("PHP cannot wait in %s (callback_wait=throw); wait before or after the call", fermata_callback_name());
		return false;
	}
	log_held();
	return true;
}

static ZEND_COLD void throw_held_too_long(void)
{
	fermata_misuse("waits in %s have held the worker for " ZEND_ULONG_FMT " ms (callback_wait_ms_max); wait before or after the call",
		fermata_callback_name(), (zend_ulong)callbacks.ms_max);
}

/* Implements fermata_block(). Uses the system's clock: the worker's clock may be a test clock, which stands still meanwhile. */
fermata_wait_result fermata_block(struct pollfd *fds, nfds_t len, uint64_t due_ms)
{
	fermata_fiber *self = fermata_run.fiber;
	held *mine = slot(self);
	int ready = poll(fds, len, 0);
	if (ready || !due_ms) {
		return ready ? FERMATA_WAIT_WOKEN : FERMATA_WAIT_DUE;
	}
	if (!fermata_block_note()) {
		return FERMATA_WAIT_FAILED;
	}
	uint64_t begun_ms = fm_worker_now_ms(fermata.worker), begun_ns = fermata_now_ns(), held_ms = 0;
	uint64_t wait_ms = due_ms > begun_ms ? due_ms - begun_ms : 0;
	for (;;) {
		uint64_t ends_ms;
		if (!fermata_check_ended(&ends_ms)) {
			return FERMATA_WAIT_FAILED;
		}
		if (held_ms >= wait_ms) {
			return FERMATA_WAIT_DUE;
		}
		if (mine->ms >= callbacks.ms_max) {
			throw_held_too_long();
			return FERMATA_WAIT_FAILED;
		}
		uint64_t left_ms = MIN(wait_ms - held_ms, callbacks.ms_max - mine->ms);
		uint64_t ends_in_ms = ends_ms > begun_ms + held_ms ? ends_ms - begun_ms - held_ms : 1;
		ready = poll(fds, len, (int)MIN(MIN(left_ms, ends_in_ms), INT_MAX));
		uint64_t then_ms = (fermata_now_ns() - begun_ns) / 1000000;
		mine->ms += then_ms - held_ms;
		fermata_touch(self, part);
		held_ms = then_ms;
		if (ready > 0 || (ready < 0 && errno != EINTR)) {
			return FERMATA_WAIT_WOKEN;
		}
	}
}

static void on_clean_up(fermata_fiber *fiber)
{
	slot(fiber)->ms = 0;
}

static fermata_part part = {.size = sizeof(held), .on_clean_up = on_clean_up, .on_start = on_start, .on_stop = on_stop};

void fermata_callbacks_init(void)
{
	fermata_part_register(&part);
}
