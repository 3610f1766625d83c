/* FIFO lists of waiting fibers. */
#include "fibers/fibers.h"

void fermata_waiters_add(fermata_waiters *list, fermata_waiter *waiter)
{
	waiter->list = list;
	waiter->next = NULL;
	waiter->previous = list->last;
	if (list->last) {
		list->last->next = waiter;
	} else {
		list->first = waiter;
	}
	list->last = waiter;
}

void fermata_waiters_remove(fermata_waiter *waiter)
{
	fermata_waiters *list = waiter->list;
	if (!list) {
		return;
	}
	waiter->list = NULL;
	if (waiter->previous) {
		waiter->previous->next = waiter->next;
	} else {
		list->first = waiter->next;
	}
	if (waiter->next) {
		waiter->next->previous = waiter->previous;
	} else {
		list->last = waiter->previous;
	}
}

/* Waits for an event with a number */

fermata_wait_result fermata_wait_keyed(HashTable **table, zend_ulong key)
{
	if (!*table) {
		ALLOC_HASHTABLE(*table);
		zend_hash_init(*table, 8, NULL, NULL, 0);
	}
	zend_hash_index_add_new_ptr(*table, key, fermata_this_fiber());
	fermata_wait_result result = fermata_wait(FERMATA_NEVER);
	zend_hash_index_del(*table, key);
	if (!zend_hash_num_elements(*table)) {
		zend_hash_destroy(*table);
		FREE_HASHTABLE(*table);
		*table = NULL;
	}
	return result;
}

void fermata_wake_keyed(HashTable *table, zend_ulong key)
{
	fermata_fiber *fiber = table ? zend_hash_index_find_ptr(table, key) : NULL;
	if (fiber) {
		fermata_wake(fiber);
	}
}
