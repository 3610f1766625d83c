/* Name lookups. The C library blocks during a lookup, so lookups run in at most THREADS_MAX threads. The first lookup of a worker
 * starts the first thread. Threads never access PHP's memory: a question has a copy of the arguments, and only the loop frees the
 * question. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "fibers/callbacks.h"
#include "hooks/hooks.h"
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <resolv.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/optimize_size.h"

#define THREADS_MAX 4
#define THREAD_STACK_BYTES (512 * 1024)
/* Longest host name, and buffer size for a lookup result. */
#define NAME_BYTES_MAX 255
#define HOST_BYTES 8192

typedef struct question {
	struct question *next;
	void (*ask)(struct question *question);
	void (*drop)(struct question *question); /* frees data that the result owns */
	fermata_fiber *fiber; /* accessed by the loop only; NULL = abandoned */
	bool has_answer;      /* accessed by the loop only */
	int error;            /* errno */
	int code;             /* return value of the function */
	char *name;
	/* getaddrinfo() */
	char *service;
	bool has_hints;
	struct addrinfo hints, *found;
	/* gethostbyname_r() */
	struct hostent host, *host_found;
	int host_error;
	/* res_nsearch() */
	int class, type;
	/* gethostbyname_r() and res_nsearch() */
	char *room;
	size_t room_len;
} question;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t asked;
	question *first, *last; /* questions that no thread has started */
	question *answered;
	uint32_t queued_len; /* number of these questions */
	uint32_t threads_len, idle_len;
	/* accessed by the loop only */
	int eventfd;
	uint32_t open_len; /* number of questions without a result */
	fermata_watcher watcher;
} resolver = {.lock = PTHREAD_MUTEX_INITIALIZER, .asked = PTHREAD_COND_INITIALIZER, .eventfd = -1};

/* Threads */

static void *answer(void *unused)
{
	pthread_mutex_lock(&resolver.lock);
	for (;;) {
		while (!resolver.first) {
			resolver.idle_len++;
			pthread_cond_wait(&resolver.asked, &resolver.lock);
			resolver.idle_len--;
		}
		question *it = resolver.first;
		resolver.first = it->next;
		resolver.queued_len--;
		pthread_mutex_unlock(&resolver.lock);
		it->ask(it);
		pthread_mutex_lock(&resolver.lock);
		it->next = resolver.answered;
		resolver.answered = it;
		uint64_t one = 1;
		while (write(resolver.eventfd, &one, sizeof(one)) < 0 && errno == EINTR) {
		}
	}
	return NULL;
}

/* Keeps the library with the threads' code loaded when PHP unloads the extension. Returns false if that fails. */
static bool stay_loaded(void)
{
	Dl_info info;
	return dladdr(&resolver, &info) && info.dli_fname && dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Starts a thread. Requires the lock. */
static bool start_thread(void)
{
	pthread_t thread;
	pthread_attr_t attributes;
	sigset_t all, old;
	if (!resolver.threads_len && !stay_loaded()) {
		return false;
	}
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
	/* Signals are handled in the loop's thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	bool started = pthread_create(&thread, &attributes, answer, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attributes);
	resolver.threads_len += started;
	return started;
}

/* The loop */

static void free_question(question *it)
{
	if (it->drop) {
		it->drop(it);
	}
	free(it->name);
	free(it->service);
	free(it->room);
	free(it);
}

static void take_answers(fermata_watcher *watcher, short happened)
{
	uint64_t count;
	short why;
	while (read(resolver.eventfd, &count, sizeof(count)) < 0 && errno == EINTR) {
	}
	pthread_mutex_lock(&resolver.lock);
	question *it = resolver.answered;
	resolver.answered = NULL;
	pthread_mutex_unlock(&resolver.lock);
	while (it) {
		question *next = it->next;
		resolver.open_len--;
		it->has_answer = true;
		if (it->fiber) {
			fermata_wake(it->fiber);
		} else {
			free_question(it);
		}
		it = next;
	}
	if (resolver.open_len) {
		fermata_watch(&resolver.watcher, resolver.eventfd, POLLIN, &why);
	}
}

static question *question_new(const char *name)
{
	question *it = calloc(1, sizeof(question));
	if (it && name && !(it->name = strdup(name))) {
		free(it);
		it = NULL;
	}
	return it;
}

/* Passes the question to the threads. Returns false if no thread can run it. */
static bool submit(question *it)
{
	short why;
	if (UNEXPECTED(resolver.eventfd < 0)) {
		resolver.eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		resolver.watcher.fd = -1;
		resolver.watcher.ready = take_answers;
	}
	if (resolver.eventfd < 0 || (resolver.watcher.fd < 0 && !fermata_watch(&resolver.watcher, resolver.eventfd, POLLIN, &why))) {
		return false;
	}
	pthread_mutex_lock(&resolver.lock);
	/* A thread that was notified counts as idle until it runs. So start a thread unless there are more idle threads than queued
	 * questions. */
	bool can = resolver.queued_len < resolver.idle_len || (resolver.threads_len < THREADS_MAX && start_thread()) || resolver.threads_len;
	if (can) {
		it->next = NULL;
		if (resolver.first) {
			resolver.last->next = it;
		} else {
			resolver.first = it;
		}
		resolver.last = it;
		resolver.queued_len++;
		pthread_cond_signal(&resolver.asked);
		resolver.open_len++;
	}
	pthread_mutex_unlock(&resolver.lock);
	return can;
}

/* Abandons a question. If no thread has started it, it is removed from the queue. */
static ZEND_COLD void abandon(question *it)
{
	it->fiber = NULL;
	if (it->has_answer) {
		free_question(it);
		return;
	}
	question *before = NULL;
	pthread_mutex_lock(&resolver.lock);
	for (question *other = resolver.first; other; before = other, other = other->next) {
		if (other != it) {
			continue;
		}
		if (before) {
			before->next = it->next;
		} else {
			resolver.first = it->next;
		}
		if (resolver.last == it) {
			resolver.last = before;
		}
		resolver.queued_len--;
		resolver.open_len--;
		pthread_mutex_unlock(&resolver.lock);
		free_question(it);
		return;
	}
	pthread_mutex_unlock(&resolver.lock);
}

typedef enum outcome {
	OUTCOME_ANSWERED,
	OUTCOME_CUT,
	OUTCOME_IMPOSSIBLE,
} outcome;

/* Waits for the result of a question. After OUTCOME_ANSWERED, the caller frees the question. */
static outcome wait_for(question *it)
{
	it->fiber = fermata_this_fiber();
	if (!submit(it)) {
		free_question(it);
		return OUTCOME_IMPOSSIBLE;
	}
	while (!it->has_answer) {
		if (fermata_hook_wait(FERMATA_NEVER) == FERMATA_WAIT_FAILED) {
			abandon(it);
			return OUTCOME_CUT;
		}
	}
	return OUTCOME_ANSWERED;
}

static bool is_address(const char *name)
{
	unsigned char address[sizeof(struct in6_addr)];
	return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* getaddrinfo() */

static void ask_addresses(question *it)
{
	it->code = getaddrinfo(it->name, it->service, it->has_hints ? &it->hints : NULL, &it->found);
	it->error = errno;
}

static void drop_addresses(question *it)
{
	if (it->found) {
		freeaddrinfo(it->found);
	}
}

static int hooked_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	if (UNEXPECTED(fermata_hook_where() == FERMATA_PLACE_CUT)) {
		return EAI_AGAIN;
	}
	question *it = NULL;
	if (name && !(hints && (hints->ai_flags & AI_NUMERICHOST)) && !is_address(name) && fermata_hook_may_wait()) {
		it = question_new(name);
	}
	if (UNEXPECTED(!it && name && fermata_hook_where() == FERMATA_PLACE_HOLDS) && !is_address(name) && !fermata_block_note()) {
		return EAI_AGAIN;
	}
	if (!it || (service && !(it->service = strdup(service)))) {
		if (it) {
			free_question(it);
		}
		return getaddrinfo(name, service, hints, found);
	}
	it->ask = ask_addresses;
	it->drop = drop_addresses;
	if (hints) {
		it->has_hints = true;
		it->hints = (struct addrinfo){.ai_flags = hints->ai_flags, .ai_family = hints->ai_family,
			.ai_socktype = hints->ai_socktype, .ai_protocol = hints->ai_protocol};
	}
	switch (wait_for(it)) {
		case OUTCOME_CUT: return EAI_AGAIN;
		case OUTCOME_IMPOSSIBLE: return getaddrinfo(name, service, hints, found);
		case OUTCOME_ANSWERED: break;
	}
	int code = it->code, error = it->error;
	if (code == 0) {
		*found = it->found;
		it->found = NULL;
	}
	free_question(it);
	errno = error;
	return code;
}

/* gethostbyname_r() */

static void ask_host(question *it)
{
	it->code = gethostbyname_r(it->name, &it->host, it->room, it->room_len, &it->host_found, &it->host_error);
	it->error = errno;
}

static char *moved(const char *pointer, const question *it, char *to)
{
	return pointer ? to + (pointer - it->room) : NULL;
}

static void move_list(char **list, const question *it, char *to)
{
	for (; list && *list; list++) {
		*list = moved(*list, it, to);
	}
}

/* Copies the result to the caller's buffer, and redirects its pointers from the question's buffer to the copy. */
static void hand_over_host(const question *it, struct hostent *host, char *buf)
{
	memcpy(buf, it->room, it->room_len);
	*host = it->host;
	host->h_name = moved(it->host.h_name, it, buf);
	host->h_aliases = (char **)moved((const char *)it->host.h_aliases, it, buf);
	host->h_addr_list = (char **)moved((const char *)it->host.h_addr_list, it, buf);
	move_list(host->h_aliases, it, buf);
	move_list(host->h_addr_list, it, buf);
}

/* Result of a lookup that PHP's function is about to request. PHP has one result buffer for all fibers, so no fiber may wait while
 * PHP fills the buffer. So the lookup runs before PHP's function, which then receives this result without a wait. */
static question *prepared;

static int hooked_gethostbyname_r(const char *name, struct hostent *host, char *buf, size_t len, struct hostent **found,
	int *host_error)
{
	/* As soon as this fiber waits, for example in the application's error handler, `prepared` may belong to another fiber. */
	const question *it = prepared;
	/* Pointers in the buffer stay aligned only if both buffers have the same alignment. */
	if (!it || strcmp(it->name, name) != 0 || it->code == ERANGE || (uintptr_t)buf % sizeof(void *)) {
		return gethostbyname_r(name, host, buf, len, found, host_error);
	}
	if (len < it->room_len) {
		errno = ERANGE;
		return ERANGE;
	}
	*found = NULL;
	*host_error = it->host_error;
	if (it->code == 0 && it->host_found) {
		hand_over_host(it, host, buf);
		*found = host;
	}
	errno = it->error;
	return it->code;
}

static zif_handler original_gethostbyname, original_gethostbynamel;

/* Looks up the host before PHP's function is called. Returns false after an exception. */
static bool prepare_host(zend_execute_data *execute_data, question **answered)
{
	const zval *name = ZEND_CALL_NUM_ARGS(execute_data) == 1 ? ZEND_CALL_ARG(execute_data, 1) : NULL;
	if (!name || Z_TYPE_P(name) != IS_STRING || Z_STRLEN_P(name) > NAME_BYTES_MAX || zend_str_has_nul_byte(Z_STR_P(name))
			|| is_address(Z_STRVAL_P(name)) || !fermata_hook_may_wait()) {
		return true;
	}
	question *it = question_new(Z_STRVAL_P(name));
	if (!it || !(it->room = malloc(HOST_BYTES))) {
		if (it) {
			free_question(it);
		}
		return true;
	}
	it->room_len = HOST_BYTES;
	it->ask = ask_host;
	switch (wait_for(it)) {
		case OUTCOME_CUT: return false;
		case OUTCOME_IMPOSSIBLE: break;
		case OUTCOME_ANSWERED: *answered = it; break;
	}
	return true;
}

static void call_prepared(zif_handler original, INTERNAL_FUNCTION_PARAMETERS)
{
	question *it = NULL;
	if (UNEXPECTED(!prepare_host(execute_data, &it))) {
		return;
	}
	prepared = it;
	original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (prepared == it) {
		prepared = NULL;
	}
	if (it) {
		free_question(it);
	}
}

static ZEND_NAMED_FUNCTION(hooked_gethostbyname)
{
	call_prepared(original_gethostbyname, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_NAMED_FUNCTION(hooked_gethostbynamel)
{
	call_prepared(original_gethostbynamel, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void exchange_function(const char *name, zif_handler handler, zif_handler *original)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));
	if (function && function->type == ZEND_INTERNAL_FUNCTION) {
		*original = function->internal_function.handler;
		fermata_patch_pointer((void **)&function->internal_function.handler, (void *)handler);
	}
}

/* res_nsearch(), and res_search() of musl, which dns_get_record(), checkdnsrr() and getmxrr() call */

static void ask_server(question *it)
{
#ifdef __GLIBC__
	struct __res_state state;
	memset(&state, 0, sizeof(state));
	if (res_ninit(&state) != 0) {
		it->code = -1;
		it->host_error = NO_RECOVERY;
		return;
	}
	it->code = res_nsearch(&state, it->name, it->class, it->type, (unsigned char *)it->room, (int)it->room_len);
	it->error = errno;
	it->host_error = state.res_h_errno;
	res_nclose(&state);
#else
	/* musl's function has no state parameter, and h_errno is thread-local. */
	it->code = res_search(it->name, it->class, it->type, (unsigned char *)it->room, (int)it->room_len);
	it->error = errno;
	it->host_error = h_errno;
#endif
}

/* Runs the query in a thread. Returns false if the caller has to make the query itself. */
static bool ask_for_records(const char *name, int class, int type, unsigned char *buf, int len, int *code, int *host_error)
{
	if (UNEXPECTED(fermata_hook_where() == FERMATA_PLACE_CUT)) {
		*code = -1;
		*host_error = TRY_AGAIN;
		return true;
	}
	question *it = len > 0 && fermata_hook_may_wait() ? question_new(name) : NULL;
	if (!it || !(it->room = malloc((size_t)len))) {
		if (it) {
			free_question(it);
		}
		return false;
	}
	it->room_len = (size_t)len;
	it->class = class;
	it->type = type;
	it->ask = ask_server;
	switch (wait_for(it)) {
		case OUTCOME_CUT:
			*code = -1;
			*host_error = TRY_AGAIN;
			return true;
		case OUTCOME_IMPOSSIBLE: return false;
		case OUTCOME_ANSWERED: break;
	}
	*code = it->code;
	*host_error = it->host_error;
	if (it->code > 0) {
		memcpy(buf, it->room, (size_t)MIN(it->code, len));
	}
	errno = it->error;
	free_question(it);
	return true;
}

#ifdef __GLIBC__
static int hooked_res_nsearch(res_state state, const char *name, int class, int type, unsigned char *buf, int len)
{
	int code, host_error;
	if (!ask_for_records(name, class, type, buf, len, &code, &host_error)) {
		return res_nsearch(state, name, class, type, buf, len);
	}
	state->res_h_errno = host_error;
	return code;
}
#else
static int hooked_res_search(const char *name, int class, int type, unsigned char *buf, int len)
{
	int code, host_error;
	if (!ask_for_records(name, class, type, buf, len, &code, &host_error)) {
		return res_search(name, class, type, buf, len);
	}
	h_errno = host_error;
	return code;
}
#endif

bool fermata_hook_names(void)
{
	exchange_function("gethostbyname", hooked_gethostbyname, &original_gethostbyname);
	exchange_function("gethostbynamel", hooked_gethostbynamel, &original_gethostbynamel);
	return true;
}

const fermata_replacement fermata_calls_dns[] = {
	{"getaddrinfo", hooked_getaddrinfo},
	{"gethostbyname_r", hooked_gethostbyname_r},
#ifdef __GLIBC__
	{"res_nsearch", hooked_res_nsearch},
	{"__res_nsearch", hooked_res_nsearch},
#else
	{"res_search", hooked_res_search},
#endif
};
const size_t fermata_calls_dns_len = sizeof(fermata_calls_dns) / sizeof(fermata_replacement);
