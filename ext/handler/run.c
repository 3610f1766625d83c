/* State of this process's worker and of the handler that runs in it. */
#include "handler/run.h"

fermata_state fermata;
fermata_runner fermata_run;

/* Starts the run of a server. Resets all fields that it does not set to 0. */
void fermata_run_start(const fermata_server *server)
{
	memset(&fermata_run, 0, sizeof(fermata_run));
	fermata_run.server = server;
}

void fermata_run_start_in_process(const fermata_server *server, uint32_t wait_ms, void (*on_failure)(zend_object *exception),
	void (*on_hold)(zend_object *hold))
{
	fermata_run_start(server);
	fermata_run.in_process = true;
	fermata_run.in_process_wait_ms = wait_ms;
	fermata_run.on_failure = on_failure;
	fermata_run.on_hold = on_hold;
}

void fermata_run_end(void)
{
	memset(&fermata_run, 0, sizeof(fermata_run));
}
