/* Brackets calls of PHP functions during which no application code may run: between two handlers, while switching fibers, and
 * while process state is inconsistent.
 *
 * Such functions may raise warnings, which would call the application's error handler. If the error handler waited, other handlers
 * would run with the intermediate state. If it threw an exception, the next handler would receive that exception. So the error
 * handler and the pending exception are set aside. Warnings and signals that the application handles are postponed until the call
 * returns. No application code runs during the call, so one record per process suffices. */
#include "handler/fiber.h"
#include "state/quiet.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define ERRORS_MAX 4 /* warnings stored per call; further ones are dropped */
#define LINE_BYTES_MAX 1024

typedef struct kept_error {
	int type;
	zend_string *file, *message;
	uint32_t line;
} kept_error;

static struct {
	uint32_t depth;
	zval error_handler;
	zend_error_handling_t error_handling;
	zend_object *exception;
	const zend_op *opline_before_exception;
	void (*error)(int type, zend_string *file, const uint32_t line, zend_string *message);
	void (*interrupt)(zend_execute_data *execute_data);
	bool is_interrupted;
	uint32_t errors_len;
	kept_error errors[ERRORS_MAX];
} quiet;

static void keep_error(int type, zend_string *file, const uint32_t line, zend_string *message)
{
	if (type & (E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_PARSE)) {
		quiet.error(type, file, line, message);
	} else if (quiet.errors_len < ERRORS_MAX) {
		quiet.errors[quiet.errors_len++] = (kept_error){type, file ? zend_string_copy(file) : NULL, zend_string_copy(message), line};
	}
}

/* The application's signal handler runs after the call. */
static void put_off_interrupt(zend_execute_data *execute_data)
{
	quiet.is_interrupted = true;
}

void fermata_quiet_begin(void)
{
	if (quiet.depth++) {
		return;
	}
	ZVAL_COPY_VALUE(&quiet.error_handler, &EG(user_error_handler));
	ZVAL_UNDEF(&EG(user_error_handler));
	quiet.error_handling = EG(error_handling);
	EG(error_handling) = EH_NORMAL;
	quiet.exception = EG(exception);
	quiet.opline_before_exception = EG(opline_before_exception);
	EG(exception) = NULL;
	quiet.error = zend_error_cb;
	zend_error_cb = keep_error;
	quiet.interrupt = zend_interrupt_function;
	zend_interrupt_function = put_off_interrupt;
}

/* Returns false if an outer quiet call is still running. */
static bool leave(void)
{
	if (--quiet.depth) {
		return false;
	}
	if (UNEXPECTED(EG(exception))) {
		zend_clear_exception();
	}
	EG(exception) = quiet.exception;
	EG(opline_before_exception) = quiet.opline_before_exception;
	EG(error_handling) = quiet.error_handling;
	ZVAL_COPY_VALUE(&EG(user_error_handler), &quiet.error_handler);
	zend_error_cb = quiet.error;
	zend_interrupt_function = quiet.interrupt;
	if (UNEXPECTED(quiet.is_interrupted)) {
		quiet.is_interrupted = false;
		zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
	}
	return true;
}

/* Empties the list first, since the error handler may start another quiet call. */
static uint32_t take_errors(kept_error *errors)
{
	uint32_t len = quiet.errors_len;
	memcpy(errors, quiet.errors, len * sizeof(kept_error));
	quiet.errors_len = 0;
	return len;
}

static void release(kept_error *error)
{
	if (error->file) {
		zend_string_release(error->file);
	}
	zend_string_release(error->message);
}

void fermata_quiet_end(void)
{
	kept_error errors[ERRORS_MAX];
	if (!leave() || EXPECTED(!quiet.errors_len)) {
		return;
	}
	uint32_t len = take_errors(errors);
	for (uint32_t i = 0; i < len; i++) {
		if (!EG(exception)) {
			zend_error_zstr_at(errors[i].type, errors[i].file, errors[i].line, errors[i].message);
		}
		release(&errors[i]);
	}
}

void fermata_quiet_end_logged(const char *what)
{
	kept_error errors[ERRORS_MAX];
	if (!leave() || EXPECTED(!quiet.errors_len)) {
		return;
	}
	uint32_t len = take_errors(errors);
	for (uint32_t i = 0; i < len; i++) {
		if (fermata.worker && !(errors[i].type & (E_DEPRECATED | E_USER_DEPRECATED))) {
			char text[LINE_BYTES_MAX];
			fm_worker_log(fermata.worker, FERMATA_LOG_WARNING,
				(FmStr){text, fermata_copy(text, sizeof(text), what, fermata_str(errors[i].message))});
		}
		release(&errors[i]);
	}
}

bool fermata_is_quiet(void)
{
	return quiet.depth;
}

static const char *obstacle(const fermata_fiber *fiber)
{
	return UNEXPECTED(quiet.depth) ? "while the state of the process is changed" : NULL;
}

static void on_fatal(fermata_fiber *fiber)
{
	if (quiet.depth) {
		quiet.depth = 1;
		EG(exception) = NULL;
		quiet.exception = NULL;
		leave();
		quiet.errors_len = 0;
	}
}

static fermata_part part = {.obstacle = obstacle, .on_fatal = on_fatal};

void fermata_quiet_init(void)
{
	fermata_part_register(&part);
}
