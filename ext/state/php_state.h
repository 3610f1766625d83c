/* State that PHP stores once per process; see php_state.c. */
#ifndef FERMATA_PHP_STATE_H
#define FERMATA_PHP_STATE_H

#include "php.h"

void fermata_php_state_init(void);
/* Called before the first handler or job in each process that runs them. The script's state becomes the initial state. */
void fermata_enter_process(void);
/* Like fermata_enter_process(), in a process that also runs other code. */
void fermata_enter_run(void);
/* Called after fermata_enter_run() in the process of a test. The test's own buffers are set aside while handlers run. */
void fermata_php_state_start_in_test(void);
/* Returns true if the handler has open output buffers. */
bool fermata_has_buffers(void);
/* Ends the handler's output buffers. May run PHP code. */
void fermata_end_buffers(void);
/* Ends all output buffers above this level. May run PHP code. */
void fermata_output_end(int level);

#endif
