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
