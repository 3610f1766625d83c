/* Detection of nested-transaction counters of PHP libraries on a connection that handlers share. */
#ifndef FERMATA_HOOKS_TRANSACTIONS_H
#define FERMATA_HOOKS_TRANSACTIONS_H

#include "clients/clients.h"

typedef enum fermata_transaction_step {
	FERMATA_STEP_NONE,
	FERMATA_STEP_BEGINS,
	FERMATA_STEP_CONTINUES, /* a savepoint or the end, which only a handler that has started a transaction calls */
} fermata_transaction_step;

/* Returns what a call of a client function does to the transaction of its connection. */
fermata_transaction_step fermata_transaction_step_of(zend_execute_data *frame);
/* Throws an exception: another fiber's transaction is open on the connection, and the current handler tries to continue one. */
void fermata_transaction_refuse(zend_execute_data *frame, uintptr_t key, const fermata_fiber *holder);
/* Returns false with an exception pending if the calling library counts a transaction that is not open. `is_beginning`: another
 * fiber waits to start this transaction. Sets `*is_settled` if the library counts no transaction. */
bool fermata_transaction_check(zend_execute_data *frame, uintptr_t key, bool is_open, bool is_beginning, bool *is_settled);
/* Throws an exception: MySQL accepted a savepoint outside of a transaction, where it has no effect. */
void fermata_transaction_refuse_savepoint(void);
bool fermata_transaction_is_savepoint(FmStr text, const zend_execute_data *frame);

#endif
