/* Values of WebSocket::setData(): a table per worker, by connection, with entries only for connections that have a value.
 *
 * Releasing a value may run a destructor that calls these functions, throws, exits or fails fatally. So a value is removed from the
 * table before it is released, so that it is never released twice. */
#include "sockets/sockets.h"

#define CAPACITY_MIN 8

static HashTable *table;

/* Connection whose value was released last. A destructor of that value may still use the handle. A value that it stored for this
 * handle would never be released. */
static uint64_t released;

/* Returns the value of a connection; NULL if it has none. */
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

/* Copies a value into the table; null removes the entry. Returns false if the connection's value was released already. */
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

/* Called after the connection's close() handler. */
void fermata_websocket_release(FmSocket handle)
{
	zval *value = fermata_websocket_data(handle), old;
	released = handle;
	if (value) {
		take_out(handle, value, &old);
		zval_ptr_dtor(&old);
	}
}

/* Called when the worker stops: releases the values of connections that had no close event. */
void fermata_websocket_release_all(void)
{
	HashTable *rest = table;
	table = NULL;
	released = 0;
	if (rest) {
		zend_array_destroy(rest);
	}
}
