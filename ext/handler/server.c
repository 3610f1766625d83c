/* Checks that a server can still be configured. */
#include "handler/server.h"

static bool is_prepared;

bool fermata_server_is_prepared(void)
{
	return is_prepared;
}

void fermata_server_forget_prepared(void)
{
	is_prepared = false;
}

bool fermata_server_check_open(const fermata_server *server)
{
	if (server->core) {
		is_prepared = true;
		return true;
	}
	fermata_misuse(server->constructed ? "run() was called; routes are registered before it, and it is called once"
		: "the server's constructor was not called");
	return false;
}
