/* What WebSocket::setData() keeps: a table of this worker by connection, with entries only for those that have data.
 *
 * Releasing a value may run a destructor, which may come back here, throw, exit or fail fatally. So a value leaves the
 * table before it is released, and no failure can release it twice. */
#include "php_fermata.h"

#define CAPACITY_MIN 8

static HashTable *table;

/* The connection whose data was released last: its handle is valid for a moment longer, and nothing would release
 * what a destructor might still put there. */
static uint64_t released;

/* NULL when there is none. */
zval *fermata_websocket_data(FmSocket handle)
{
	return table ? zend_hash_index_find(table, (zend_ulong)handle) : NULL;
}

static void take_out(FmSocket handle, zval *value, zval *taken)
{
	ZVAL_COPY_VALUE(taken, value);
	ZVAL_NULL(value);
	zend_hash_index_del(table, (zend_ulong)handle);
}

/* Copies the value; null takes the entry away. False when the connection's data was released. */
bool fermata_websocket_set_data(FmSocket handle, zval *data)
{
	if (UNEXPECTED(handle == released)) {
		return false;
	}
	zval *value = fermata_websocket_data(handle), old;
	ZVAL_UNDEF(&old);
	if (Z_TYPE_P(data) == IS_NULL) {
		if (value) {
			take_out(handle, value, &old);
		}
	} else if (value) {
		ZVAL_COPY_VALUE(&old, value);
		ZVAL_COPY(value, data);
	} else {
		if (!table) {
			table = zend_new_array(CAPACITY_MIN);
			zend_hash_real_init_mixed(table);
		}
		Z_TRY_ADDREF_P(data);
		zend_hash_index_add_new(table, (zend_ulong)handle, data);
	}
	zval_ptr_dtor(&old);
	return true;
}

/* After the connection's close(). */
void fermata_websocket_release(FmSocket handle)
{
	zval *value = fermata_websocket_data(handle), old;
	released = handle;
	if (value) {
		take_out(handle, value, &old);
		zval_ptr_dtor(&old);
	}
}

/* When the worker ends: what connections have left that were never closed in order. */
void fermata_websocket_release_all(void)
{
	HashTable *rest = table;
	table = NULL;
	released = 0;
	if (rest) {
		zend_array_destroy(rest);
	}
}
