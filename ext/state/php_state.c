/* State that PHP stores once per process and resets only between two requests.
 *
 * While a handler waits, its state is saved in a block on its fiber, and PHP's is reset. After a handler, PHP's state is reset. For
 * a handler that uses none of this state, the cost is a load and a comparison for each state. state/process_state.list lists all of
 * PHP's state, with its treatment. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "state/php_state.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "state/last_errors.h"
#include "ext/random/php_random.h"
#include "ext/standard/basic_functions.h"
#include "main/php_main.h"
#include "ext/standard/file.h"
#include "ext/standard/php_filestat.h"

#define BUFFERS_MORE_MAX 16 /* additional output buffers that destructors may open while a handler's buffers are ended */

typedef struct php_state {
	size_t size;                     /* size of the saved state in bytes */
	bool (*is_used)(void);           /* returns true if PHP's state is in use */
	void (*on_suspend)(void *state); /* moves the state out of PHP and resets PHP's */
	void (*on_resume)(void *state);  /* restores the saved state */
	bool (*on_end)(void);            /* after the handler: resets PHP's state; returns true if PHP code may have run; NULL = PHP
									  * resets it */
} php_state;

typedef struct slot_of_state {
	void *saved; /* allocated while the handler waits: a bit mask of the states in use, then the data of each; NULL = no state */
} slot_of_state;

static fermata_part part;
FERMATA_SLOT(slot_of_state, part)

static bool has_error_handler; /* the script had an error handler at run() */
static zval error_handler;

/* Output buffers that were opened after the script's. */

static int output_level;
static const php_output_handler *output_active; /* innermost buffer of the script; NULL = none */

typedef struct buffers {
	php_output_handler **handlers;
	int len;
} buffers;

static bool has_buffers(void)
{
	return OG(active) != output_active;
}

static void suspend_buffers(void *state)
{
	buffers *mine = state;
	mine->len = MAX(php_output_get_level() - output_level, 0);
	mine->handlers = safe_emalloc(mine->len, sizeof(php_output_handler *), 0);
	if (mine->len) {
		php_output_handler **handlers = zend_stack_base(&OG(handlers));
		memcpy(mine->handlers, handlers + output_level, mine->len * sizeof(php_output_handler *));
		OG(handlers).top = output_level;
		OG(active) = (php_output_handler *)output_active;
	}
}

static void resume_buffers(void *state)
{
	const buffers *mine = state;
	for (int i = 0; i < mine->len; i++) {
		zend_stack_push(&OG(handlers), &mine->handlers[i]);
		OG(active) = mine->handlers[i];
	}
	efree(mine->handlers);
}

bool fermata_has_buffers(void)
{
	return has_buffers();
}

void fermata_end_buffers(void)
{
	fermata_output_end(output_level);
}

void fermata_php_state_start_in_test(void)
{
	output_level = 0;
	output_active = NULL;
}

/* Drops buffers without calling PHP code, which could open more of them. */
static ZEND_COLD void drop_buffers(int level)
{
	OG(handlers).top = level;
	OG(active) = level ? *(php_output_handler **)zend_stack_top(&OG(handlers)) : NULL;
	fm_worker_log(fermata.worker, FERMATA_LOG_ERROR, FERMATA_LITERAL("destructors of the callbacks of ob_start() go on opening "
		"buffers, which are dropped"));
}

/* Ends buffers as PHP does at the end of a script, including those that PHP code may not end. */
void fermata_output_end(int level)
{
	/* Destructors of the buffers' callbacks may open further buffers. */
	int left = MAX(php_output_get_level() - level, 0) + BUFFERS_MORE_MAX;
	while (php_output_get_level() > level) {
		if (UNEXPECTED(!left--)) {
			drop_buffers(level);
			return;
		}
		OG(active)->flags |= PHP_OUTPUT_HANDLER_REMOVABLE;
		if (php_output_end() != SUCCESS) {
			return;
		}
	}
}

static ZEND_COLD bool end_buffers(void)
{
	fermata_output_end(output_level);
	output_level = php_output_get_level();
	output_active = OG(active);
	return true;
}

/* set_time_limit(): the limit applies only while the handler that set it runs. */

static bool has_timeout(void)
{
	return EG(timeout_seconds) | fermata_timeout_seconds();
}

static void suspend_timeout(void *state)
{
	*(zend_long *)state = EG(timeout_seconds);
	if (EG(timeout_seconds)) {
		zend_unset_timeout();
		EG(timeout_seconds) = fermata_timeout_seconds();
	}
}

static void resume_timeout(void *state)
{
	EG(timeout_seconds) = *(const zend_long *)state;
	if (EG(timeout_seconds) && fermata.handling) {
		zend_set_timeout(EG(timeout_seconds), false);
	}
}

static bool end_timeout(void)
{
	if (EG(timeout_seconds) != fermata_timeout_seconds()) {
		zend_string *name = zend_string_init("max_execution_time", sizeof("max_execution_time") - 1, false);
		zend_restore_ini_entry(name, PHP_INI_STAGE_RUNTIME);
		zend_string_release(name);
	}
	zend_unset_timeout();
	return false;
}

/* The cache of stat(): each handler starts with an empty one. */

static bool has_stat_cache(void)
{
	return BG(CurrentStatFile) || BG(CurrentLStatFile);
}

static bool end_stat_cache(void)
{
	php_clear_stat_cache(false, NULL, 0);
	return false;
}

static void suspend_stat_cache(void *state)
{
	end_stat_cache();
}

static void resume_stat_cache(void *state)
{
}

/* error_get_last(): may contain bytes sent by a client. */

typedef struct last_error {
	zend_string *message, *file;
	int type, line;
} last_error;

static bool has_last_error(void)
{
	return PG(last_error_message);
}

static void suspend_last_error(void *state)
{
	*(last_error *)state = (last_error){PG(last_error_message), PG(last_error_file), PG(last_error_type), PG(last_error_lineno)};
	PG(last_error_message) = PG(last_error_file) = NULL;
	PG(last_error_type) = PG(last_error_lineno) = 0;
}

static bool end_last_error(void)
{
	/* The fields differ between PHP versions. */
	zend_function *clear = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("error_clear_last"));
	if (clear) {
		zval result;
		zend_call_known_function(clear, NULL, NULL, &result, 0, NULL, NULL);
		zval_ptr_dtor(&result);
	}
	return false;
}

static void resume_last_error(void *state)
{
	const last_error *mine = state;
	if (PG(last_error_message)) {
		end_last_error();
	}
	PG(last_error_message) = mine->message;
	PG(last_error_file) = mine->file;
	PG(last_error_type) = mine->type;
	PG(last_error_lineno) = mine->line;
}

/* A userland stream wrapper is opening something: the address, which prevents recursive opening, and a flag that forbids URLs in
 * an include. */

typedef struct opening {
	const char *address;
	bool is_for_include;
} opening;

static bool is_opening(void)
{
	return FG(user_stream_current_filename) || PG(in_user_include);
}

static void suspend_opening(void *state)
{
	*(opening *)state = (opening){FG(user_stream_current_filename), PG(in_user_include)};
	FG(user_stream_current_filename) = NULL;
	PG(in_user_include) = false;
}

static void resume_opening(void *state)
{
	const opening *mine = state;
	FG(user_stream_current_filename) = mine->address;
	PG(in_user_include) = mine->is_for_include;
}

/* usort() and similar functions: the callback of the innermost call. */

typedef struct sorting {
	zend_fcall_info info;
	zend_fcall_info_cache call;
} sorting;

static bool is_sorting(void)
{
	return BG(user_compare_fci).size;
}

static bool end_sorting(void)
{
	BG(user_compare_fci) = empty_fcall_info;
	BG(user_compare_fci_cache) = empty_fcall_info_cache;
	return false;
}

static void suspend_sorting(void *state)
{
	*(sorting *)state = (sorting){BG(user_compare_fci), BG(user_compare_fci_cache)};
	end_sorting();
}

static void resume_sorting(void *state)
{
	BG(user_compare_fci) = ((const sorting *)state)->info;
	BG(user_compare_fci_cache) = ((const sorting *)state)->call;
}

/* strtok(): the string and the position in it. */

typedef struct tokens {
	zend_string *text;
	char *last;
	size_t len;
} tokens;

static bool has_tokens(void)
{
	return BG(strtok_string);
}

static void suspend_tokens(void *state)
{
	*(tokens *)state = (tokens){BG(strtok_string), BG(strtok_last), BG(strtok_len)};
	BG(strtok_string) = NULL;
	BG(strtok_last) = NULL;
	BG(strtok_len) = 0;
}

static bool end_tokens(void)
{
	tokens left;
	suspend_tokens(&left);
	zend_string_release(left.text);
	return false;
}

static void resume_tokens(void *state)
{
	const tokens *mine = state;
	BG(strtok_string) = mine->text;
	BG(strtok_last) = mine->last;
	BG(strtok_len) = mine->len;
}

/* serialize() and unserialize(): the table of values shared by nested calls. */

typedef struct serializing {
	unsigned lock, level, unserialize_level;
	struct php_serialize_data *data;
	struct php_unserialize_data *unserialize_data;
} serializing;

static bool is_serializing(void)
{
	return BG(serialize_lock) || BG(serialize).level || BG(unserialize).level;
}

static void suspend_serializing(void *state)
{
	*(serializing *)state = (serializing){BG(serialize_lock), BG(serialize).level, BG(unserialize).level, BG(serialize).data,
		BG(unserialize).data};
	BG(serialize_lock) = BG(serialize).level = BG(unserialize).level = 0;
	BG(serialize).data = NULL;
	BG(unserialize).data = NULL;
}

static void resume_serializing(void *state)
{
	const serializing *mine = state;
	BG(serialize_lock) = mine->lock;
	BG(serialize).level = mine->level;
	BG(serialize).data = mine->data;
	BG(unserialize).level = mine->unserialize_level;
	BG(unserialize).data = mine->unserialize_data;
}

/* Constructors that convert warnings into exceptions. */

static bool has_error_handling(void)
{
	return EG(error_handling) != EH_NORMAL;
}

static void suspend_error_handling(void *state)
{
	*(zend_error_handling *)state = (zend_error_handling){.handling = EG(error_handling), .exception = EG(exception_class)};
	EG(error_handling) = EH_NORMAL;
	EG(exception_class) = NULL;
}

static void resume_error_handling(void *state)
{
	EG(error_handling) = ((const zend_error_handling *)state)->handling;
	EG(exception_class) = ((const zend_error_handling *)state)->exception;
}

/* Set while proc_close() waits for its process. */

static bool is_closing(void)
{
	return FG(pclose_wait);
}

static void suspend_closing(void *state)
{
	*(bool *)state = FG(pclose_wait);
	FG(pclose_wait) = false;
}

static void resume_closing(void *state)
{
	FG(pclose_wait) = *(const bool *)state;
}

/* Returns true while the script's error handler runs. PHP removes the handler while it runs, but it must also receive errors of
 * other request handlers. */

static bool is_handling_error(void)
{
	return Z_ISUNDEF(EG(user_error_handler)) && has_error_handler;
}

static void suspend_error_handler(void *state)
{
	ZVAL_COPY(&EG(user_error_handler), &error_handler);
}

static void resume_error_handler(void *state)
{
	zval_ptr_dtor(&EG(user_error_handler));
	ZVAL_UNDEF(&EG(user_error_handler));
}

/* http_get_last_response_headers(), since PHP 8.4. */

static bool has_http_headers(void)
{
	return FERMATA_LAST_HTTP_HEADERS && !Z_ISUNDEF_P(FERMATA_LAST_HTTP_HEADERS);
}

static void suspend_http_headers(void *state)
{
	ZVAL_COPY_VALUE((zval *)state, FERMATA_LAST_HTTP_HEADERS);
	ZVAL_UNDEF(FERMATA_LAST_HTTP_HEADERS);
}

static bool end_http_headers(void)
{
	zval left;
	suspend_http_headers(&left);
	zval_ptr_dtor(&left);
	return false;
}

static void resume_http_headers(void *state)
{
	zval_ptr_dtor(FERMATA_LAST_HTTP_HEADERS);
	ZVAL_COPY_VALUE(FERMATA_LAST_HTTP_HEADERS, (const zval *)state);
}

/* All states, in the order in which they are suspended and ended. It is a macro, so that the checks are inlined: they run at every
 * switch and after every handler. */

#define STATES(with) \
	with(sizeof(buffers), has_buffers, suspend_buffers, resume_buffers, end_buffers) \
	with(sizeof(zend_long), has_timeout, suspend_timeout, resume_timeout, end_timeout) \
	with(0, has_stat_cache, suspend_stat_cache, resume_stat_cache, end_stat_cache) \
	with(sizeof(last_error), has_last_error, suspend_last_error, resume_last_error, end_last_error) \
	with(sizeof(opening), is_opening, suspend_opening, resume_opening, NULL) \
	with(sizeof(sorting), is_sorting, suspend_sorting, resume_sorting, end_sorting) \
	with(sizeof(tokens), has_tokens, suspend_tokens, resume_tokens, end_tokens) \
	with(sizeof(serializing), is_serializing, suspend_serializing, resume_serializing, NULL) \
	with(sizeof(zend_error_handling), has_error_handling, suspend_error_handling, resume_error_handling, NULL) \
	with(sizeof(bool), is_closing, suspend_closing, resume_closing, NULL) \
	with(sizeof(zval), has_http_headers, suspend_http_headers, resume_http_headers, end_http_headers) \
	with(0, is_handling_error, suspend_error_handler, resume_error_handler, NULL)

#define ROW(...) {__VA_ARGS__},
static const php_state states[] = {STATES(ROW)};
#define STATES_LEN (sizeof(states) / sizeof(*states))

static zend_always_inline bool is_any_used(void)
{
#define TEST(size, is_used, ...) || UNEXPECTED(is_used())
	return false STATES(TEST);
}

static zend_always_inline size_t saved_bytes(const php_state *state)
{
	return ZEND_MM_ALIGNED_SIZE_EX(state->size, sizeof(void *));
}

static ZEND_COLD void suspend_all(fermata_fiber *fiber)
{
	size_t size = sizeof(uint64_t);
	uint64_t used = 0;
	for (size_t i = 0; i < STATES_LEN; i++) {
		if (states[i].is_used()) {
			used |= UINT64_C(1) << i;
			size += saved_bytes(&states[i]);
		}
	}
	char *at = slot(fiber)->saved = emalloc(size);
	*(uint64_t *)at = used;
	at += sizeof(used);
	for (size_t i = 0; i < STATES_LEN; i++) {
		if (used >> i & 1) {
			states[i].on_suspend(at);
			at += saved_bytes(&states[i]);
		}
	}
}

static void on_suspend(fermata_fiber *fiber)
{
	if (UNEXPECTED(is_any_used())) {
		suspend_all(fiber);
	}
}

static ZEND_COLD void resume_all(fermata_fiber *fiber)
{
	char *saved = slot(fiber)->saved, *at = saved;
	uint64_t used = *(const uint64_t *)at;
	slot(fiber)->saved = NULL;
	at += sizeof(used);
	for (size_t i = 0; i < STATES_LEN; i++) {
		if (used >> i & 1) {
			states[i].on_resume(at);
			at += saved_bytes(&states[i]);
		}
	}
	efree(saved);
}

static void on_resume(fermata_fiber *fiber)
{
	if (UNEXPECTED(slot(fiber)->saved)) {
		resume_all(fiber);
	}
}

static ZEND_COLD bool end_all(void)
{
	bool has_called = false;
	for (size_t i = 0; i < STATES_LEN; i++) {
		if (states[i].on_end && states[i].is_used()) {
			has_called |= states[i].on_end();
		}
	}
	return has_called;
}

static bool on_end(fermata_fiber *fiber, bool is_last)
{
	return UNEXPECTED(is_any_used()) && end_all();
}

static void note_script(void)
{
	output_level = php_output_get_level();
	output_active = OG(active);
	fermata_set_timeout_seconds(EG(timeout_seconds));
	if (EG(timeout_seconds)) {
		zend_unset_timeout();
	}
}

static void on_start(void)
{
	ZVAL_COPY(&error_handler, &EG(user_error_handler));
	has_error_handler = !Z_ISUNDEF(error_handler);
	/* The script's state must not reach handlers. A test keeps its own state, which is saved when the test waits for a handler. */
	if (!fermata_is_in_process()) {
		end_all();
	}
}

static void on_stop(void)
{
	zval_ptr_dtor(&error_handler);
	ZVAL_UNDEF(&error_handler);
	has_error_handler = false;
}

static fermata_part part = {.size = sizeof(slot_of_state), .on_suspend = on_suspend, .on_resume = on_resume, .on_end = on_end,
	.on_start = on_start, .on_stop = on_stop};

void fermata_php_state_init(void)
{
	_Static_assert(STATES_LEN <= 64, "a bit for each state");
	fermata_part_register(&part);
}

/* Processes */

/* fork() copies the random state of the master. Without a new seed, all workers would generate the same numbers. */
static void reseed(void)
{
	RANDOM_G(combined_lcg_seeded) = false;
	RANDOM_G(mt19937_seeded) = false;
	FERMATA_FORGET_FALLBACK_SEED();
}

void fermata_enter_run(void)
{
	fermata_last_errors_start();
	note_script();
	fermata.forked = false;
}

void fermata_enter_process(void)
{
	fermata_child_init();
	reseed();
	php_clear_stat_cache(false, NULL, 0);
	/* A closed standard output must not end the worker. */
	PG(ignore_user_abort) = true;
	fermata_enter_run();
}
