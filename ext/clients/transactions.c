/* Detects a library whose counter of nested transactions is shared by several handlers.
 *
 * Doctrine DBAL, Eloquent and others count in PHP how deep transactions are nested. The first begin() starts a transaction; later
 * ones create savepoints or do nothing. If concurrent handlers share such an object, the first begin() of a second handler counts
 * as nested in the first handler's transaction. The second handler's statements queue until that transaction has ended and then
 * run without a transaction, so a rollback has no effect.
 *
 * Three signs reveal such a shared counter. First, a handler continues a transaction that another handler started. Second, MySQL
 * accepts a savepoint outside of a transaction, which no application intends. Third, a library on the stack whose properties
 * contain the connection counts a transaction while the database has none. The third check runs only on connections for which
 * handlers have queued, or in which a handler has left a transaction open. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/objects.h"
#include "clients/transactions.h"
#include "fibers/fibers.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define FRAMES_MAX 32 /* maximum number of stack frames that are searched for a library */
#define OBJECTS_MAX 128 /* maximum number of objects below a library that are searched for its connection, nearest first */
#define PLACE_BYTES_MAX 512
#define FIX "a library such as Doctrine DBAL or Eloquent counts nested transactions in PHP, and counted another handler's; give each " \
	"handler a connection object of its own, by a Fermata\\Pool of such objects"

/* Properties that count nested transactions. */
static const struct {
	const char *class; /* declaring class; NULL = any */
	const char *property;
} counters[] = {
	{NULL, "transactionNestingLevel"}, /* Doctrine DBAL */
	{"Illuminate\\Database\\Connection", "transactions"},
	{NULL, "transactionLevel"}, /* Cycle */
	{NULL, "_transactionLevel"}, /* CakePHP */
	{NULL, "transDepth"}, /* CodeIgniter */
	{NULL, "nestedTransactionsCount"}, /* Laminas */
	{NULL, "nestedTransactionCount"}, /* Propel */
	{NULL, "transactionDepth"}, /* Nette */
};

static bool begins_with(FmStr text, const char *word)
{
	size_t len = strlen(word);
	return text.len >= len && strncasecmp(text.ptr, word, len) == 0;
}

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++) {
		if (strcasecmp(name, *names) == 0) {
			return true;
		}
	}
	return false;
}

static FmStr trimmed(FmStr text)
{
	while (text.len && strchr(" \t\r\n;", *text.ptr)) {
		text.ptr++;
		text.len--;
	}
	return text;
}

bool fermata_transaction_is_savepoint(FmStr text, const zend_execute_data *frame)
{
	static const char *const names[] = {"savepoint", "mysqli_savepoint", NULL};
	return text.len ? begins_with(trimmed(text), "SAVEPOINT") : is_one_of(ZSTR_VAL(frame->func->common.function_name), names);
}

fermata_transaction_step fermata_transaction_step_of(zend_execute_data *frame)
{
	static const char *const begins[] = {"beginTransaction", "begin_transaction", "mysqli_begin_transaction", NULL};
	static const char *const continues[] = {"commit", "rollBack", "savepoint", "release_savepoint", "mysqli_commit", "mysqli_rollback",
		"mysqli_savepoint", "mysqli_release_savepoint", NULL};
	const char *name = ZSTR_VAL(frame->func->common.function_name);
	if (is_one_of(name, begins)) {
		return FERMATA_STEP_BEGINS;
	}
	if (is_one_of(name, continues)) {
		return FERMATA_STEP_CONTINUES;
	}
	FmStr text = trimmed(fermata_guard_text(frame));
	if (begins_with(text, "BEGIN") || begins_with(text, "START TRANSACTION")) {
		return FERMATA_STEP_BEGINS;
	}
	return begins_with(text, "SAVEPOINT") || begins_with(text, "RELEASE SAVEPOINT") || begins_with(text, "COMMIT")
		|| begins_with(text, "ROLLBACK") ? FERMATA_STEP_CONTINUES : FERMATA_STEP_NONE;
}

static ZEND_COLD void throw_shared(const zend_execute_data *frame, const char *problem, const char *place)
{
	const zend_function *function = frame ? frame->func : NULL;
	const zend_class_entry *class = function ? function->common.scope : NULL;
	if (!EG(exception)) {
		zend_throw_exception_ex(fermata_ce_shared_transaction, 0, "%s%s%s(): %s%s; " FIX, class ? ZSTR_VAL(class->name) : "",
			class ? "::" : "", function ? ZSTR_VAL(function->common.function_name) : "SAVEPOINT", problem, place);
	}
}

ZEND_COLD void fermata_transaction_refuse(zend_execute_data *frame, uintptr_t key, const fermata_fiber *holder)
{
	char place[PLACE_BYTES_MAX] = "another place";
	if (holder && holder->is_listed) {
		fermata_fiber_place(holder, place, sizeof(place));
	}
	throw_shared(frame, "this handler or task has begun no transaction on the connection, another one's is open: it is in ", place);
}

ZEND_COLD void fermata_transaction_refuse_savepoint(void)
{
	throw_shared(EG(current_execute_data), "the savepoint is outside of a transaction, so a rollback to it undoes nothing", "");
}

/* Returns the value of the counter in this object; -1 = the object has none. */
static zend_long level_in(zend_object *object)
{
	for (const zend_class_entry *class = object->ce; class; class = class->parent) {
		for (size_t one = 0; one < sizeof(counters) / sizeof(*counters); one++) {
			const zend_property_info *info = zend_hash_str_find_ptr(&class->properties_info, counters[one].property, strlen(counters[one].property));
			if (!info || (info->flags & ZEND_ACC_STATIC) || info->ce != class
					|| (counters[one].class && strcmp(ZSTR_VAL(class->name), counters[one].class) != 0)) {
				continue;
			}
#ifdef ZEND_ACC_VIRTUAL
			if (info->flags & ZEND_ACC_VIRTUAL) {
				continue;
			}
#endif
			const zval *count = OBJ_PROP(object, info->offset);
			ZVAL_DEREF(count);
			if (Z_TYPE_P(count) == IS_LONG) {
				return Z_LVAL_P(count);
			}
		}
	}
	return -1;
}

/* Adds an object to the list of objects to search. */
static void list_object(zend_object **objects, uint32_t *len, zend_object *object)
{
	for (uint32_t i = 0; i < *len; i++) {
		if (objects[i] == object) {
			return;
		}
	}
	if (*len < OBJECTS_MAX) {
		objects[(*len)++] = object;
	}
}

/* Returns true if the object, or one that its properties refer to, is the connection. A library on the stack may have a
 * transaction on another connection: to a second database, or to a database while Redis commands run. */
static bool has_connection(zend_object *object, uintptr_t key)
{
	zend_object *objects[OBJECTS_MAX];
	uint32_t len = 0;
	list_object(objects, &len, object);
	for (uint32_t i = 0; i < len; i++) {
		if (fermata_guard_key(objects[i]) == key) {
			return true;
		}
		for (int property = 0; property < objects[i]->ce->default_properties_count; property++) {
			const zval *value = &objects[i]->properties_table[property];
			ZVAL_DEREF(value);
			if (Z_TYPE_P(value) == IS_OBJECT) {
				list_object(objects, &len, Z_OBJ_P(value));
			}
		}
	}
	return false;
}

/* Returns the counter of the innermost library on the stack that has this connection; -1 = there is none. */
static zend_long level_of(const zend_execute_data *frame, uintptr_t key)
{
	for (uint32_t i = 0; frame && i < FRAMES_MAX; i++, frame = frame->prev_execute_data) {
		if (!frame->func || frame->func->type != ZEND_USER_FUNCTION || Z_TYPE(frame->This) != IS_OBJECT) {
			continue;
		}
		zend_long level = level_in(Z_OBJ(frame->This));
		if (level >= 0 && has_connection(Z_OBJ(frame->This), key)) {
			return level;
		}
	}
	return -1;
}

ZEND_COLD bool fermata_transaction_check(zend_execute_data *frame, uintptr_t key, bool is_open, bool is_beginning, bool *is_settled)
{
	zend_long level = level_of(frame->prev_execute_data, key);
	bool begins = fermata_transaction_step_of(frame) == FERMATA_STEP_BEGINS;
	*is_settled = level == 0 || (begins && level == 1);
	/* A library counts a transaction before the call that starts it. So a level of 1 is correct during that call, also while the
	 * call waits in another fiber. */
	if (level <= (begins || is_beginning) || is_open) {
		return true;
	}
	throw_shared(frame, begins ? "the library counts other handlers' transactions besides this one"
		: "the library counts a transaction that is not open in the database", "");
	return false;
}
