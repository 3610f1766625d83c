/* Functions that continue where the previous call stopped, with one position per process: readdir(), rewinddir() and closedir()
 * without a handle, and the mb_ereg_search functions.
 *
 * PHP's state for them is private, so the functions are wrapped. A handler's directory is the one that it opened last; the wrapper
 * passes the directory's handle explicitly. A search is described by its text, pattern and position. Before another handler
 * searches, the wrapper stores the position and groups of the current search. When the first handler continues, the wrapper
 * restarts its search at that position. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "state/changes.h"
#include "state/sapi_output.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "zend_exceptions.h"

#define PROPERTY_HANDLE 1 /* property of Directory */

/* A handler's search. */
typedef struct search {
	zend_string *text;
	zend_string *pattern; /* NULL = none yet */
	zend_string *options; /* NULL = default options */
	zend_long position;   /* set while another handler searches */
	zval groups;          /* groups of the last match, set if another handler has searched since */
} search;

typedef struct fermata_cursors {
	zend_resource *directory; /* NULL = none */
	search *search;           /* NULL = none */
} fermata_cursors;

typedef struct slot_of_cursors {
	fermata_cursors *cursors; /* NULL = none */
} slot_of_cursors;

static fermata_part part;
FERMATA_SLOT(slot_of_cursors, part)

/* Fiber whose search is stored in mbstring; NULL = none. */
static fermata_fiber *searcher;

static fermata_cursors *cursors(void)
{
	fermata_cursors **mine = &slot(fermata_this_fiber())->cursors;
	if (!*mine) {
		*mine = ecalloc(1, sizeof(fermata_cursors));
		fermata_touch(fermata_this_fiber(), part);
	}
	return *mine;
}

/* Directories */

static void let_directory_go(fermata_cursors *mine)
{
	zend_resource *directory = mine->directory;
	mine->directory = NULL;
	if (directory) {
		zend_list_delete(directory);
	}
}

static void note_directory(const zval *opened)
{
	if (Z_TYPE_P(opened) == IS_OBJECT) {
		opened = OBJ_PROP_NUM(Z_OBJ_P(opened), PROPERTY_HANDLE);
	}
	if (Z_TYPE_P(opened) == IS_RESOURCE) {
		let_directory_go(cursors());
		GC_ADDREF(Z_RES_P(opened));
		cursors()->directory = Z_RES_P(opened);
	}
}

#define OPENS(with) with(opendir) with(dir)
#define DEFINE_OPENS(name) \
	static zif_handler original_##name; \
	static ZEND_NAMED_FUNCTION(wrapped_##name) \
	{ \
		original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
		if (fermata_is_handlers()) { \
			note_directory(return_value); \
		} \
	}
OPENS(DEFINE_OPENS)

/* Returns true if the call passes no handle. */
static bool has_no_handle(const zend_execute_data *execute_data)
{
	return ZEND_NUM_ARGS() == 0 || (ZEND_NUM_ARGS() == 1 && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 1)) == IS_NULL);
}

static void call_with_directory(INTERNAL_FUNCTION_PARAMETERS)
{
	zval handle;
	fermata_cursors *mine = slot(fermata_this_fiber())->cursors;
	if (!mine || !mine->directory) {
		zend_type_error("No resource supplied");
		RETURN_THROWS();
	}
	GC_ADDREF(mine->directory);
	ZVAL_RES(&handle, mine->directory);
	zend_call_known_function(execute_data->func, NULL, NULL, return_value, 1, &handle, NULL);
	zval_ptr_dtor(&handle);
}

#define READS(with) with(readdir) with(rewinddir)
#define DEFINE_READS(name) \
	static zif_handler original_##name; \
	static ZEND_NAMED_FUNCTION(wrapped_##name) \
	{ \
		if (fermata_is_handlers() && has_no_handle(execute_data)) { \
			call_with_directory(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
		} else { \
			original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
		} \
	}
READS(DEFINE_READS)

static zif_handler original_closedir;
static ZEND_NAMED_FUNCTION(wrapped_closedir)
{
	if (!fermata_is_handlers()) {
		original_closedir(INTERNAL_FUNCTION_PARAM_PASSTHRU);
		return;
	}
	if (has_no_handle(execute_data)) {
		call_with_directory(INTERNAL_FUNCTION_PARAM_PASSTHRU);
		return;
	}
	original_closedir(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	fermata_cursors *mine = slot(fermata_this_fiber())->cursors;
	/* The directory was closed through its handle, so PHP has no current directory either. */
	if (mine && mine->directory && mine->directory->type == -1) {
		let_directory_go(mine);
	}
}

/* Searches */

/* Set while the wrappers call PHP's functions; these calls are not wrapped. */
static bool passes;

static bool is_wrapped(void)
{
	return fermata_is_handlers() && !passes;
}

static void call_named(const char *name, uint32_t len, zval *arguments, zval *result)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
	ZVAL_UNDEF(result);
	if (function) {
		passes = true;
		zend_call_known_function(function, NULL, NULL, result, len, arguments, NULL);
		passes = false;
	}
}

static void replace(zend_string **at, zend_string *by)
{
	if (*at) {
		zend_string_release(*at);
	}
	*at = by ? zend_string_copy(by) : NULL;
}

static void forget_groups(search *mine)
{
	zval_ptr_dtor(&mine->groups);
	ZVAL_UNDEF(&mine->groups);
}

static void free_search(search *mine)
{
	replace(&mine->text, NULL);
	replace(&mine->pattern, NULL);
	replace(&mine->options, NULL);
	forget_groups(mine);
	efree(mine);
}

static search *search_of(const fermata_fiber *fiber)
{
	const fermata_cursors *mine = slot(fiber)->cursors;
	return mine ? mine->search : NULL;
}

/* Saves the state of another handler's search. */
static void put_by_search(void)
{
	fermata_fiber *other = searcher;
	zval position;
	searcher = NULL;
	if (!other || other == fermata_this_fiber() || !search_of(other)) {
		return;
	}
	search *theirs = search_of(other);
	call_named("mb_ereg_search_getpos", 0, NULL, &position);
	theirs->position = Z_TYPE(position) == IS_LONG ? Z_LVAL(position) : 0;
	if (Z_ISUNDEF(theirs->groups)) {
		call_named("mb_ereg_search_getregs", 0, NULL, &theirs->groups);
	}
}

/* Restarts this handler's search at its position. Returns false with an exception pending. */
static bool take_up_search(void)
{
	search *mine = search_of(fermata_this_fiber());
	zval arguments[3], result;
	if (searcher == fermata_this_fiber()) {
		return true;
	}
	put_by_search();
	ZVAL_STR(&arguments[0], mine->text);
	ZVAL_NULL(&arguments[1]);
	ZVAL_NULL(&arguments[2]);
	if (mine->pattern) {
		ZVAL_STR(&arguments[1], mine->pattern);
	}
	if (mine->options) {
		ZVAL_STR(&arguments[2], mine->options);
	}
	call_named("mb_ereg_search_init", 3, arguments, &result);
	zval_ptr_dtor(&result);
	ZVAL_LONG(&arguments[0], mine->position);
	if (!EG(exception)) {
		call_named("mb_ereg_search_setpos", 1, arguments, &result);
		zval_ptr_dtor(&result);
	}
	searcher = fermata_this_fiber();
	return !EG(exception);
}

static zend_string *string_argument(const zend_execute_data *execute_data, uint32_t number)
{
	const zval *argument = ZEND_NUM_ARGS() >= number ? ZEND_CALL_ARG(execute_data, number) : NULL;
	return argument && Z_TYPE_P(argument) == IS_STRING ? Z_STR_P(argument) : NULL;
}

static void note_pattern(const zend_execute_data *execute_data, search *mine, uint32_t number)
{
	zend_string *pattern = string_argument(execute_data, number);
	if (pattern) {
		replace(&mine->pattern, pattern);
		replace(&mine->options, string_argument(execute_data, number + 1));
	}
}

static zif_handler original_search_init;
static ZEND_NAMED_FUNCTION(wrapped_search_init)
{
	if (!is_wrapped()) {
		original_search_init(INTERNAL_FUNCTION_PARAM_PASSTHRU);
		return;
	}
	bool is_others = searcher != fermata_this_fiber();
	put_by_search();
	original_search_init(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	zend_string *text = string_argument(execute_data, 1);
	if (EG(exception) || !text) {
		return;
	}
	fermata_cursors *all = cursors();
	if (!all->search) {
		all->search = ecalloc(1, sizeof(search));
	}
	search *mine = all->search;
	forget_groups(mine);
	replace(&mine->text, text);
	note_pattern(execute_data, mine, 2);
	mine->position = 0;
	/* Without a pattern, mbstring uses its last pattern, which may be another handler's. */
	searcher = is_others && !string_argument(execute_data, 2) ? NULL : fermata_this_fiber();
}

/* Returns false with an exception pending if the handler has no search to continue. */
static bool begin_search(const zend_execute_data *execute_data)
{
	const search *mine = search_of(fermata_this_fiber());
	if (!mine || (!mine->pattern && !string_argument(execute_data, 1))) {
		zend_throw_error(NULL, mine || !string_argument(execute_data, 1) ? "No pattern was provided" : "No string was provided");
		return false;
	}
	return take_up_search();
}

#define SEARCHES(with) with(search, "") with(search_pos, "_pos") with(search_regs, "_regs")
#define DEFINE_SEARCHES(name, suffix) \
	static zif_handler original_##name; \
	static ZEND_NAMED_FUNCTION(wrapped_##name) \
	{ \
		if (is_wrapped()) { \
			if (!begin_search(execute_data)) { \
				RETURN_THROWS(); \
			} \
			forget_groups(search_of(fermata_this_fiber())); \
			note_pattern(execute_data, search_of(fermata_this_fiber()), 1); \
		} \
		original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
	}
SEARCHES(DEFINE_SEARCHES)

static zif_handler original_search_getregs, original_search_getpos, original_search_setpos;
static ZEND_NAMED_FUNCTION(wrapped_search_getregs)
{
	search *mine = is_wrapped() ? search_of(fermata_this_fiber()) : NULL;
	if (mine && !Z_ISUNDEF(mine->groups)) {
		RETURN_COPY(&mine->groups);
	}
	if (is_wrapped() && searcher != fermata_this_fiber()) {
		RETURN_FALSE;
	}
	original_search_getregs(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_NAMED_FUNCTION(wrapped_search_getpos)
{
	if (is_wrapped() && searcher != fermata_this_fiber()) {
		const search *mine = search_of(fermata_this_fiber());
		RETURN_LONG(mine ? mine->position : 0);
	}
	original_search_getpos(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_NAMED_FUNCTION(wrapped_search_setpos)
{
	if (is_wrapped() && search_of(fermata_this_fiber()) && !take_up_search()) {
		RETURN_THROWS();
	}
	original_search_setpos(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Start and end */

void fermata_cursors_wrap(void)
{
#define WRAP(name) fermata_wrap(CG(function_table), #name, wrapped_##name, &original_##name);
	OPENS(WRAP)
	READS(WRAP)
	WRAP(closedir)
#undef WRAP
#define WRAP_SEARCH(name, suffix) fermata_wrap(CG(function_table), "mb_ereg_search" suffix, wrapped_##name, &original_##name);
	SEARCHES(WRAP_SEARCH)
	WRAP_SEARCH(search_init, "_init")
	WRAP_SEARCH(search_getregs, "_getregs")
	WRAP_SEARCH(search_getpos, "_getpos")
	WRAP_SEARCH(search_setpos, "_setpos")
#undef WRAP_SEARCH
}

static void on_clean_up(fermata_fiber *fiber)
{
	fermata_cursors *all = slot(fiber)->cursors;
	if (EXPECTED(!all)) {
		return;
	}
	slot(fiber)->cursors = NULL;
	if (searcher == fiber) {
		searcher = NULL;
	}
	if (all->search) {
		free_search(all->search);
	}
	let_directory_go(all);
	efree(all);
}

static fermata_part part = {.size = sizeof(slot_of_cursors), .on_clean_up = on_clean_up};

void fermata_cursors_init(void)
{
	fermata_part_register(&part);
}
