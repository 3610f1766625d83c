/* Queries whose client has left are cut, where the program asks for it by Runtime::cutAbandonedQueries().
 *
 * The one who waits goes on waiting, for the error that the database answers then, so that its connection stays usable. What
 * tells the database goes over a connection of its own. PostgreSQL wants sixteen bytes for that: they are sent by the loop,
 * without a fiber, since all of those may be waiting. libpq's own function would block, and the key that the bytes have lies
 * in a structure of its own, whose layout is checked by what else it has. MySQL wants somebody who has logged in: a task does
 * that with the name and the password of the connection, and waits for a fiber if need be. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/guards.h"
#include "zend_closures.h"
#include "zend_exceptions.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

/* At the same time; queries beyond go on to their end, as without cutting. */
#define CUTS_MAX 64
#define ARGUMENTS_MAX 3
/* A server that does not let us in is not waited for. */
#define LOGIN_MS_MAX 5000
#define TEXT_BYTES_MAX 64

/* Of PostgreSQL's protocol. */
#define CANCEL_REQUEST 80877102u

/* The beginning of libpq's PGcancel. */
typedef struct key_of_postgresql {
	struct {
		struct sockaddr_storage at;
		socklen_t len;
	} address;
	int process, secret;
} key_of_postgresql;

typedef struct request_of_postgresql {
	uint32_t len, code, process, secret; /* in network byte order */
} request_of_postgresql;

/* Is being sent to PostgreSQL. */
typedef struct cut {
	fermata_watcher watcher; /* first: the loop has this */
	request_of_postgresql request;
	int fd;
} cut;

#ifdef HAVE_MYSQLND_OF_PHP
/* Is to be told to MySQL, by a task. Owns its texts. */
typedef struct login {
	struct login *next;
	char *host, *user, *password, *socket; /* `host` or `socket` is NULL */
	uint32_t password_len;
	unsigned int port;
	uint64_t id;
} login;
#endif

static struct {
	bool is_on;
	uint32_t len; /* under way */
	int (*process)(const void *connection);
	void *(*get_cancel)(void *connection);
	void (*free_cancel)(void *cancel);
#ifdef HAVE_MYSQLND_OF_PHP
	login *first, *last;
#endif
} cuts;

ZEND_METHOD(Fermata_Runtime, cutAbandonedQueries)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (UNEXPECTED(fermata.worker)) {
		fermata_misuse("this is for all workers; call Runtime::cutAbandonedQueries() before run()");
		RETURN_THROWS();
	}
	cuts.is_on = true;
}

void fermata_abandoned_find_libpq(void *library)
{
	cuts.process = (int (*)(const void *))dlsym(library, "PQbackendPID");
	cuts.get_cancel = (void *(*)(void *))dlsym(library, "PQgetCancel");
	cuts.free_cancel = (void (*)(void *))dlsym(library, "PQfreeCancel");
}

/* PostgreSQL */

static void end_cut(cut *it)
{
	close(it->fd);
	pefree(it, true);
	cuts.len--;
}

/* The server reads what is there before it sees the end. */
static void send_cut(cut *it)
{
	/* One that could not be reached ends the query later. */
	ssize_t sent = send(it->fd, &it->request, sizeof(it->request), MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)sent;
	end_cut(it);
}

static void connected(fermata_watcher *watcher, short happened)
{
	send_cut((cut *)watcher);
}

static void cut_postgresql(void *connection)
{
	if (!cuts.get_cancel || !cuts.free_cancel || !cuts.process) {
		return;
	}
	key_of_postgresql *key = cuts.get_cancel(connection);
	if (!key) {
		return;
	}
	bool is_known = key->process == cuts.process(connection) && key->address.len > 0
		&& key->address.len <= sizeof(key->address.at);
	int fd = is_known ? socket(key->address.at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
	if (fd >= 0) {
		cut *it = pecalloc(1, sizeof(cut), true);
		it->fd = fd;
		it->watcher.fd = -1;
		it->watcher.ready = connected;
		it->request = (request_of_postgresql){htonl(sizeof(it->request)), htonl(CANCEL_REQUEST), htonl((uint32_t)key->process),
			htonl((uint32_t)key->secret)};
		cuts.len++;
		short why;
		if (connect(fd, (const struct sockaddr *)&key->address.at, key->address.len) == 0) {
			send_cut(it);
		} else if (errno != EINPROGRESS || !fermata_watch(&it->watcher, fd, POLLOUT, &why)) {
			end_cut(it);
		}
	}
	cuts.free_cancel(key);
}

/* MySQL */

#ifdef HAVE_MYSQLND_OF_PHP
static char *copy(const MYSQLND_STRING *text)
{
	return text->l ? pestrndup(text->s, text->l, true) : NULL;
}

static void login_free(login *it)
{
	char *const texts[] = {it->host, it->user, it->password, it->socket};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (texts[i]) {
			pefree(texts[i], true);
		}
	}
	pefree(it, true);
	cuts.len--;
}

typedef MYSQLND *(*init_function)(const size_t flags, const bool is_persistent, MYSQLND_CLASS_METHODS_TYPE(mysqlnd_object_factory) *factory);
typedef MYSQLND *(*connect_function)(MYSQLND *connection, const char *host, const char *user, const char *password,
	unsigned int password_len, const char *database, unsigned int database_len, unsigned int port, const char *socket,
	unsigned int flags, unsigned int client_flags);

static void kill_query(const login *it)
{
	init_function init = (init_function)dlsym(RTLD_DEFAULT, "mysqlnd_connection_init");
	connect_function connect = (connect_function)dlsym(RTLD_DEFAULT, "mysqlnd_connection_connect");
	MYSQLND *connection = init && connect ? init(0, false, NULL) : NULL;
	char text[TEXT_BYTES_MAX];
	if (!connection) {
		return;
	}
	if (connect(connection, it->host ? it->host : "localhost", it->user, it->password ? it->password : "", it->password_len, "", 0,
			it->port, it->socket, 0, 0) && !EG(exception)) {
		int len = snprintf(text, sizeof(text), "KILL QUERY " ZEND_ULONG_FMT, (zend_ulong)it->id);
		connection->data->m->query(connection->data, text, (size_t)len);
	}
	connection->m->close(connection, MYSQLND_CLOSE_EXPLICIT);
}

static ZEND_NAMED_FUNCTION(kill_next)
{
	fermata_fiber *self = fermata_run.fiber;
	login *it = cuts.first;
	if (!it) {
		return;
	}
	cuts.first = it->next;
	fermata_scope scope = {.owner = self, .inside = EG(active_fiber), .outer = self->scope,
		.due_ms = fermata_ms_to_due(LOGIN_MS_MAX)};
	self->scope = &scope;
	self->touched = true;
	zend_error_handling reporting;
	/* What cannot be cut goes on to its end, and nobody is told. */
	zend_replace_error_handling(EH_THROW, zend_ce_exception, &reporting);
	kill_query(it);
	zend_restore_error_handling(&reporting);
	self->scope = scope.outer;
	if (EG(exception)) {
		zend_clear_exception();
	}
	login_free(it);
}

static bool begin_task(void)
{
	static zend_internal_function function = {.type = ZEND_INTERNAL_FUNCTION, .handler = kill_next};
	zval callable;
	function.function_name = zend_string_init("kill_query", strlen("kill_query"), false);
	zend_create_closure(&callable, (zend_function *)&function, NULL, NULL, NULL);
	zend_string_release(function.function_name);
	fermata_future *task = fermata_task_begin(&callable, FM_TASK_DEFERRED);
	zval_ptr_dtor(&callable);
	if (UNEXPECTED(EG(exception))) {
		zend_clear_exception();
	}
	fermata_future_release(task);
	return task != NULL;
}

static void cut_mysql(const MYSQLND_CONN_DATA *data)
{
	login *it = pecalloc(1, sizeof(login), true);
	*it = (login){NULL, copy(&data->hostname), copy(&data->username), copy(&data->password), copy(&data->unix_socket),
		(uint32_t)data->password.l, data->port, data->thread_id};
	cuts.len++;
	if (UNEXPECTED(!begin_task())) {
		login_free(it);
		return;
	}
	if (cuts.first) {
		cuts.last->next = it;
	} else {
		cuts.first = it;
	}
	cuts.last = it;
}
#endif

/* The connection that the function works with which PHP runs. */
static bool find_connection(fermata_connection *it)
{
	zend_execute_data *frame = EG(current_execute_data);
	zval *objects[ARGUMENTS_MAX + 1];
	uint32_t len = 0;
	if (Z_TYPE(frame->This) == IS_OBJECT) {
		objects[len++] = &frame->This;
	}
	for (uint32_t i = 1; i <= MIN(ZEND_CALL_NUM_ARGS(frame), ARGUMENTS_MAX); i++) {
		zval *argument = ZEND_CALL_ARG(frame, i);
		ZVAL_DEREF(argument);
		if (Z_TYPE_P(argument) == IS_OBJECT) {
			objects[len++] = argument;
		}
	}
	for (uint32_t i = 0; i < len; i++) {
		const fermata_root *root = fermata_guard_root(Z_OBJ_P(objects[i]));
		*it = (fermata_connection){0};
		if (root && root->connection && root->connection(Z_OBJ_P(objects[i]), it) && it->server != FERMATA_REDIS) {
			return true;
		}
	}
	return false;
}

ZEND_COLD bool fermata_abandoned_cut(void)
{
	fermata_connection connection;
	if (!cuts.is_on || cuts.len >= CUTS_MAX || !find_connection(&connection)) {
		return false;
	}
	if (connection.server == FERMATA_POSTGRESQL) {
		cut_postgresql(connection.handle);
	}
#ifdef HAVE_MYSQLND_OF_PHP
	else {
		cut_mysql(connection.handle);
	}
#endif
	return true;
}
