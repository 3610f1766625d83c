/* Protects streams while a fiber waits inside one.
 *
 * PHP's stream functions keep pointers into the stream on the C stack while they wait. So no other fiber may read from the stream,
 * write to it or close it during the wait. If the stream is a connection of the application, other fibers queue (owners.c); for
 * other streams they get an exception. Reads and writes of a connection are independent, so one fiber may be inside each. A fiber
 * that writes to a plain file or locks it queues if another fiber is inside. The operations are replaced in the tables that all
 * streams of one kind share. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include <fcntl.h>
#include <unistd.h>
#include "main/php_network.h"
#include "main/streams/php_stream_userspace.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

/* Values of php_stream.in_free above PHP's own value 1. This one protects the stream from being freed. */
#define IN_FREE_PINNED 2
/* Like IN_FREE_PINNED, while a fiber reads: PHP's read buffer belongs to that fiber. */
#define IN_FREE_READ 3
/* Maximum numbers of frames of a waiting fiber, and of arguments per frame, that are searched for streams. */
#define FRAMES_MAX 128
#define ARGUMENTS_MAX 8

/* Streams that must not be closed, by address. The value is twice the number of fibers that keep the stream open, plus 1 if the
 * stream was already protected from closing. PHP has only a flag for this, but fibers may release a stream in any order. */
static HashTable kept_open;
static bool has_kept_open;

/* Hash key of a stream: its address divided by 32. No two streams share a key, since a stream is larger than 32 bytes. */
static zend_always_inline zend_ulong number_of(const php_stream *stream)
{
	return (zend_ulong)(uintptr_t)stream >> 5;
}

static void keep_open(php_stream *stream)
{
	if (UNEXPECTED(!has_kept_open)) {
		zend_hash_init(&kept_open, 0, NULL, NULL, true);
		has_kept_open = true;
	}
	zval *found = zend_hash_index_find(&kept_open, number_of(stream));
	if (found) {
		Z_LVAL_P(found) += 2;
		return;
	}
	zval first;
	ZVAL_LONG(&first, 2 | ((stream->flags & PHP_STREAM_FLAG_NO_FCLOSE) != 0));
	zend_hash_index_add_new(&kept_open, number_of(stream), &first);
	stream->flags |= PHP_STREAM_FLAG_NO_FCLOSE;
}

static void let_close(php_stream *stream)
{
	zval *found = zend_hash_index_find(&kept_open, number_of(stream));
	if (!found || (Z_LVAL_P(found) -= 2) > 1) {
		return;
	}
	if (!Z_LVAL_P(found)) {
		stream->flags &= ~PHP_STREAM_FLAG_NO_FCLOSE;
	}
	zend_hash_index_del(&kept_open, number_of(stream));
}

/* Returns true if a fiber waits inside the stream, or in a call that received it as an argument. */
static bool is_held(const php_stream *stream)
{
	return has_kept_open && zend_hash_index_exists(&kept_open, number_of(stream));
}

/* A stream inside which a fiber may wait. Stored on the C stack of the called function. */
typedef struct fermata_pin {
	struct fermata_pin *outer;
	fermata_fiber *fiber; /* owner of the list that has the pin; NULL = the fiber's handler has finished, and a PHP Fiber is
						   * suspended inside */
	php_stream *stream; /* NULL = not pinned: the call cannot wait, or the fiber has already pinned the stream */
	/* contents of PHP's read buffer; during the wait, other fibers find an empty buffer */
	unsigned char *buffered;
	size_t buffered_len;
	zend_off_t read_at, write_at;
	/* for a connection of the application: */
	int fd; /* -1 = not a connection */
	fermata_side side;
	bool entered, is_owned; /* fermata_owner_leave() has to be called; the call was entered */
} fermata_pin;

#define HELD_STREAMS_MAX 8

/* Streams that a waiting fiber has passed to functions. No other handler may close them. */
typedef struct held_streams {
	uint32_t len;
	php_stream *at[HELD_STREAMS_MAX];
} held_streams;

typedef struct slot_of_streams {
	fermata_pin *pins;  /* streams inside which the fiber waits, innermost first */
	held_streams *held; /* set while the fiber waits; NULL = none */
} slot_of_streams;

static fermata_part part;
FERMATA_SLOT(slot_of_streams, part)

/* A fiber that waits for a plain file used by another fiber. Stored on the fiber's C stack. */
typedef struct turn {
	fermata_waiter waiter; /* first member: the list links waiters */
	php_stream *stream;
	fermata_pin *pin;
} turn;

static fermata_waiters turns; /* one list for all streams; usually empty */

static ZEND_COLD void refuse(void)
{
	if (!EG(exception)) {
		fermata_misuse("another handler or task waits for this stream; give each its own connection, or let one wait for "
			"the other with Fermata\\Sync\\Mutex");
	}
}

static zend_always_inline bool is_pinned(const php_stream *stream)
{
	return stream->in_free >= IN_FREE_PINNED;
}

/* Returns true if this fiber has pinned the stream. PHP sets options inside other calls, such as a handshake inside a connect. */
static bool is_ours(const php_stream *stream)
{
	for (const fermata_pin *it = fermata_this_fiber() ? slot(fermata_this_fiber())->pins : NULL; it; it = it->outer) {
		if (it->stream == stream) {
			return true;
		}
	}
	return false;
}

static void link_pin(fermata_pin *it)
{
	it->fiber = fermata_this_fiber();
	it->outer = slot(it->fiber)->pins;
	slot(it->fiber)->pins = it;
	fermata_touch(it->fiber, part);
}

/* Removes a pin from its list. If a PHP Fiber was suspended inside the stream, another handler may resume that Fiber, even after
 * the first handler has finished. */
static void unlink_pin(const fermata_pin *it)
{
	for (fermata_pin **at = it->fiber ? &slot(it->fiber)->pins : NULL; at && *at; at = &(*at)->outer) {
		if (EXPECTED(*at == it)) {
			*at = it->outer;
			return;
		}
	}
}

static void on_clean_up(fermata_fiber *fiber)
{
	for (fermata_pin *it = slot(fiber)->pins; UNEXPECTED(it); it = it->outer) {
		it->fiber = NULL;
		if (it->entered) {
			fermata_owner_left(it->fd, it->side, fiber);
		}
	}
	slot(fiber)->pins = NULL;
}

static void unpin(fermata_pin *it);

static bool is_file(php_stream *stream)
{
	php_socket_t fd = -1;
	struct stat found;
	return stream->ops == &php_stream_stdio_ops
		&& php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&fd, 0) == SUCCESS && fd >= 0
		&& fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

/* Waits until this fiber receives the pin. The previous fiber passes the pin on directly, so no fiber can close the stream in
 * between. Returns false after an exception. */
static ZEND_COLD bool wait_for_turn(fermata_pin *it, php_stream *stream)
{
	turn next = {.waiter = {.fiber = fermata_this_fiber()}, .stream = stream, .pin = it};
	fermata_waiters_add(&turns, &next.waiter);
	while (next.waiter.list) {
		if (UNEXPECTED(fermata_hook_wait(FERMATA_NEVER) == FERMATA_WAIT_FAILED)) {
			fermata_waiters_remove(&next.waiter);
			/* The fiber may have received the pin just before the wait ended. */
			if (it->stream) {
				link_pin(it);
				unpin(it);
			}
			return false;
		}
	}
	link_pin(it);
	return true;
}

static bool hand_over(const fermata_pin *it)
{
	for (fermata_waiter *one = turns.first; one; one = one->next) {
		turn *next = (turn *)one;
		if (next->stream == it->stream) {
			next->pin->stream = it->stream;
			fermata_waiters_remove(one);
			fermata_wake(one->fiber);
			return true;
		}
	}
	return false;
}

/* Returns true if PHP code passed this stream to the running function. PHP code then continues to use it. */
static bool belongs_to_program(const php_stream *stream)
{
	const zend_execute_data *frame = EG(current_execute_data);
	if (!frame || !frame->func || ZEND_USER_CODE(frame->func->common.type)) {
		return false;
	}
	for (uint32_t i = 1; i <= ZEND_CALL_NUM_ARGS(frame); i++) {
		const zval *argument = ZEND_CALL_ARG(frame, i);
		ZVAL_DEREF(argument);
		if (Z_TYPE_P(argument) == IS_RESOURCE && Z_RES_P(argument) == stream->res) {
			return true;
		}
	}
	return false;
}

static php_netstream_data_t *socket_of(const php_stream *stream)
{
	return stream->abstract;
}

/* Returns the socket of a stream that PHP code itself uses; -1 for other streams. */
static int program_socket(const php_stream *stream)
{
	return fermata.handling && belongs_to_program(stream) ? fermata_stream_socket(stream) : -1;
}

/* Ends a call that was entered. `is_done`: it read or wrote data. */
static void leave(fermata_pin *it, bool is_done)
{
	if (it->entered) {
		it->entered = false;
		fermata_owner_leave(it->fd, it->side, is_done, it->stream && socket_of(it->stream)->timeout_event);
	}
}

/* Makes the socket of a TLS stream blocking for this call. A fiber inside a call of the other side has it non-blocking. */
static void join(const fermata_pin *it)
{
	if (!socket_of(it->stream)->is_blocked) {
		socket_of(it->stream)->is_blocked = true;
		*fermata_owner_flipped(it->fd) = true;
	}
}

/* Called when a call ends, since TLS then resets the mode. Makes the socket non-blocking again if another fiber is still inside
 * a call of the other side. */
static void restore_nonblocking(const fermata_pin *it, bool is_other_inside)
{
	bool *is_flipped = fermata_owner_flipped(it->fd);
	if (UNEXPECTED(*is_flipped) && is_other_inside) {
		fcntl(it->fd, F_SETFL, fcntl(it->fd, F_GETFL) | O_NONBLOCK);
		socket_of(it->stream)->is_blocked = false;
	} else {
		*is_flipped = false;
	}
}

/* Pins the stream for a call. Returns false after an exception: another fiber is inside the stream, or the stream was closed while
 * this fiber queued. */
static bool pin(fermata_pin *it, php_stream *stream, bool reads)
{
	it->stream = NULL;
	it->fd = program_socket(stream);
	it->side = reads ? FERMATA_SIDE_READ : FERMATA_SIDE_WRITE;
	it->entered = it->is_owned = false;
	if (it->fd >= 0 && UNEXPECTED(!fermata_owner_enter(it->fd, it->side, &it->entered))) {
		return false;
	}
	it->is_owned = it->entered;
	if (UNEXPECTED(is_pinned(stream))) {
		if (is_ours(stream)) {
			return true;
		}
		if (it->entered && fermata_owner_is_other_inside(it->fd, it->side)) {
			it->stream = stream;
			link_pin(it);
			keep_open(stream);
			if (reads) {
				stream->in_free = IN_FREE_READ;
			}
			join(it);
			return true;
		}
		if (!reads && stream->in_free == IN_FREE_PINNED && fermata_hook_file_may_wait() && is_file(stream)) {
			return wait_for_turn(it, stream);
		}
		refuse();
		leave(it, false);
		return false;
	}
	if (stream->in_free || !fermata_hook_may_wait()) {
		return true;
	}
	it->stream = stream;
	link_pin(it);
	keep_open(stream);
	stream->in_free = reads ? IN_FREE_READ : IN_FREE_PINNED;
	return true;
}

static void hold_arguments(const zend_execute_data *frame, held_streams *held)
{
	uint32_t len = MIN(ZEND_CALL_NUM_ARGS(frame), ARGUMENTS_MAX);
	for (uint32_t i = 1; i <= len && held->len < HELD_STREAMS_MAX; i++) {
		const zval *argument = ZEND_CALL_ARG(frame, i);
		ZVAL_DEREF(argument);
		if (EXPECTED(Z_TYPE_P(argument) != IS_RESOURCE) || !Z_RES_P(argument)->ptr
				|| (Z_RES_P(argument)->type != php_file_le_stream() && Z_RES_P(argument)->type != php_file_le_pstream())) {
			continue;
		}
		php_stream *stream = Z_RES_P(argument)->ptr;
		keep_open(stream);
		held->at[held->len++] = stream;
	}
}

static ZEND_NAMED_FUNCTION(hooked_fclose);

/* Records the streams that were passed to the functions of a fiber that starts to wait. A function that copies between two streams
 * waits inside one and then uses both. A function may also wait inside a userland function, such as a method of a stream
 * wrapper. */
static void on_suspend(fermata_fiber *fiber)
{
	if (fiber->state == FERMATA_FIBER_PARKED) {
		return;
	}
	const zend_execute_data *frame = EG(current_execute_data);
	held_streams held;
	held.len = 0;
	for (uint32_t i = 0; frame && i < FRAMES_MAX; i++, frame = frame->prev_execute_data) {
		if (frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION && frame->func->internal_function.handler != hooked_fclose) {
			hold_arguments(frame, &held);
		}
	}
	if (UNEXPECTED(held.len)) {
		slot(fiber)->held = emalloc(sizeof(held));
		*slot(fiber)->held = held;
	}
}

static void on_resume(fermata_fiber *fiber)
{
	held_streams *held = slot(fiber)->held;
	if (EXPECTED(!held)) {
		return;
	}
	slot(fiber)->held = NULL;
	for (uint32_t i = 0; i < held->len; i++) {
		let_close(held->at[i]);
	}
	efree(held);
}

static void on_fatal(fermata_fiber *fiber)
{
	slot(fiber)->pins = NULL;
}

/* Records data that PHP code itself sends or receives over a socket. Libraries track their own requests. */
static void note_use(fermata_pin *it, const char *written, size_t len)
{
	if (it->fd >= 0) {
		if (it->side == FERMATA_SIDE_READ) {
			fermata_conversation_read(it->fd);
		} else {
			fermata_conversation_wrote(it->fd);
			fermata_owner_wrote(it->fd, written, len);
		}
		leave(it, true);
	}
}

static void unpin(fermata_pin *it)
{
	php_stream *stream = it->stream;
	bool is_other_inside = it->is_owned && fermata_owner_is_other_inside(it->fd, it->side);
	if (stream && it->is_owned) {
		restore_nonblocking(it, is_other_inside);
	}
	leave(it, false);
	if (!stream) {
		return;
	}
	unlink_pin(it);
	if (UNEXPECTED(turns.first) && hand_over(it)) {
		return;
	}
	stream->in_free = !is_other_inside ? 0 : it->side == FERMATA_SIDE_READ ? IN_FREE_PINNED : IN_FREE_READ;
	let_close(stream);
	if (UNEXPECTED(fermata_hook_is_cut())) {
		fermata_conversation_end(fermata_stream_socket(stream));
	}
}

/* Removes PHP's read buffer during the wait, since PHP reads and moves it without calling the stream's operations. `buf` may point
 * into it. */
static void take_buffer(fermata_pin *it)
{
	php_stream *stream = it->stream;
	it->buffered = stream->readbuf;
	it->buffered_len = stream->readbuflen;
	it->read_at = stream->readpos;
	it->write_at = stream->writepos;
	stream->readbuf = NULL;
	stream->readbuflen = 0;
	stream->readpos = stream->writepos = 0;
}

static void put_buffer_back(const fermata_pin *it)
{
	php_stream *stream = it->stream;
	if (UNEXPECTED(stream->readbuf)) {
		/* Another fiber attempted to read during the wait, and PHP allocated a buffer for it. */
		pefree(stream->readbuf, stream->is_persistent);
	}
	stream->readbuf = it->buffered;
	stream->readbuflen = it->buffered_len;
	stream->readpos = it->read_at;
	stream->writepos = it->write_at;
}

/* Finds the current read buffer. The buffer with which the fiber was called was freed and replaced while the fiber queued. */
static ZEND_COLD void find_buffer(php_stream *stream, char **buf, size_t *count)
{
	if (stream->readbuflen - stream->writepos < stream->chunk_size) {
		stream->readbuflen = stream->writepos + stream->chunk_size;
		stream->readbuf = perealloc(stream->readbuf, stream->readbuflen, stream->is_persistent);
	}
	*buf = (char *)stream->readbuf + stream->writepos;
	*count = stream->readbuflen - stream->writepos;
}

static ZEND_COLD ssize_t take_rest(php_stream *stream, char *buf, size_t count)
{
	size_t len = MIN(count, (size_t)(stream->writepos - stream->readpos));
	memcpy(buf, stream->readbuf + stream->readpos, len);
	stream->readpos += (zend_off_t)len;
	return (ssize_t)len;
}

static ssize_t read_pinned(php_stream *stream, char *buf, size_t count)
{
	fermata_pin it;
	const unsigned char *readbuf = stream->readbuf;
	zend_off_t write_at = stream->writepos;
	bool is_buffered = readbuf && (const unsigned char *)buf == readbuf + write_at;
	if (UNEXPECTED(!pin(&it, stream, true))) {
		return -1;
	}
	if (UNEXPECTED(stream->readbuf != readbuf || stream->writepos != write_at)) {
		if (stream->writepos > stream->readpos) {
			/* The previous fiber may have read more than it needed. If no new data arrives, PHP uses its buffer. */
			ssize_t len = is_buffered || stream->readfilters.head ? 0 : take_rest(stream, buf, count);
			unpin(&it);
			return len;
		}
		if (is_buffered) {
			find_buffer(stream, &buf, &count);
		}
	}
	if (it.stream) {
		take_buffer(&it);
	}
	ssize_t len = fermata_stream_kind_of(stream)->read(stream, buf, count);
	if (len > 0 && it.fd >= 0) {
		/* Call this before put_buffer_back(), since `buf` points into the buffer. */
		fermata_owner_read(it.fd, buf, (size_t)len);
	}
	if (it.stream) {
		put_buffer_back(&it);
	}
	if (len > 0) {
		note_use(&it, NULL, 0);
	}
	unpin(&it);
	return len;
}

static ssize_t write_pinned(php_stream *stream, const char *buf, size_t count)
{
	fermata_pin it;
	if (UNEXPECTED(!pin(&it, stream, false))) {
		return -1;
	}
	ssize_t len = fermata_stream_kind_of(stream)->write(stream, buf, count);
	if (len > 0) {
		note_use(&it, buf, (size_t)len);
	}
	unpin(&it);
	return len;
}

static int seek_pinned(php_stream *stream, zend_off_t offset, int whence, zend_off_t *position)
{
	if (UNEXPECTED(is_pinned(stream)) && !is_ours(stream)) {
		refuse();
		return -1;
	}
	return fermata_stream_kind_of(stream)->seek(stream, offset, whence, position);
}

/* Returns true if setting the option may block. Connecting, accepting, TLS handshakes and operations on a complete file are
 * options as well. */
static bool may_block(int option, int value, const void *parameter)
{
	switch (option) {
		case PHP_STREAM_OPTION_CRYPTO_API: return true;
#ifdef PHP_STREAM_OPTION_SYNC_API
		case PHP_STREAM_OPTION_SYNC_API: return value != PHP_STREAM_SYNC_SUPPORTED;
#endif
		case PHP_STREAM_OPTION_TRUNCATE_API: return value != PHP_STREAM_TRUNCATE_SUPPORTED;
		case PHP_STREAM_OPTION_LOCKING: return (zend_uintptr_t)parameter != PHP_STREAM_LOCK_SUPPORTED;
		case PHP_STREAM_OPTION_XPORT_API: break;
		default: return false;
	}
	switch (((const php_stream_xport_param *)parameter)->op) {
		case STREAM_XPORT_OP_CONNECT:
		case STREAM_XPORT_OP_ACCEPT:
		case STREAM_XPORT_OP_RECV:
		case STREAM_XPORT_OP_SEND: return true;
		default: return false;
	}
}

#ifdef PHP_STREAM_OPTION_SYNC_API
/* Runs fsync() on the descriptor. PHP's own function would convert the stream to a FILE, whose calls cannot be hooked. */
static int sync_file(php_stream *stream, int value)
{
	php_socket_t fd = -1;
	if (stream->ops->flush(stream) != 0
			|| php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&fd, 0) != SUCCESS
			|| fermata_hook_sync(fd, value == PHP_STREAM_SYNC_FDSYNC) != 0) {
		return PHP_STREAM_OPTION_RETURN_ERR;
	}
	return PHP_STREAM_OPTION_RETURN_OK;
}
#endif

/* Records a call of stream_socket_sendto() or stream_socket_recvfrom(). */
static void note_datagram(fermata_pin *it, const php_stream_xport_param *done)
{
	bool reads = done->op == STREAM_XPORT_OP_RECV;
	if ((reads || done->op == STREAM_XPORT_OP_SEND) && done->outputs.returncode > 0
			&& !(reads && (done->inputs.flags & STREAM_PEEK))) {
		note_use(it, done->inputs.buf, (size_t)done->outputs.returncode);
	}
}

static bool is_xport(int option, const void *parameter, int op)
{
	return option == PHP_STREAM_OPTION_XPORT_API && (int)((const php_stream_xport_param *)parameter)->op == op;
}

static int set_option_pinned(php_stream *stream, int option, int value, void *parameter)
{
	/* Access to a memory-mapped file blocks on the disk. */
	if (option == PHP_STREAM_OPTION_MMAP_API && value == PHP_STREAM_MMAP_SUPPORTED && fermata_hook_file_may_wait()) {
		return PHP_STREAM_OPTION_RETURN_ERR;
	}
	/* A read through a filter has a buffer of this size, so the size must not change during a read. */
	if (option == PHP_STREAM_OPTION_SET_CHUNK_SIZE && UNEXPECTED(is_pinned(stream)) && !is_ours(stream)) {
		refuse();
		return PHP_STREAM_OPTION_RETURN_ERR;
	}
	if (!may_block(option, value, parameter)) {
		return fermata_stream_kind_of(stream)->set_option(stream, option, value, parameter);
	}
	if (is_xport(option, parameter, STREAM_XPORT_OP_ACCEPT)) {
		/* Accepting does not change the stream, so many fibers may wait for a connection. */
		return fermata_stream_kind_of(stream)->set_option(stream, option, value, parameter);
	}
	fermata_pin it;
	if (UNEXPECTED(!pin(&it, stream, is_xport(option, parameter, STREAM_XPORT_OP_RECV)))) {
		return PHP_STREAM_OPTION_RETURN_ERR;
	}
	int result;
#ifdef PHP_STREAM_OPTION_SYNC_API
	if (option == PHP_STREAM_OPTION_SYNC_API && fermata_hook_file_may_wait() && is_file(stream)) {
		result = sync_file(stream, value);
	} else
#endif
	{
		result = fermata_stream_kind_of(stream)->set_option(stream, option, value, parameter);
	}
	if (option == PHP_STREAM_OPTION_XPORT_API) {
		note_datagram(&it, parameter);
	}
	unpin(&it);
	return result;
}

/* fclose() */

static zif_handler original_fclose;

/* Queued fibers keep the connection open. If its owner closes it, this function wakes them, and they leave before PHP closes the
 * stream. */
static ZEND_NAMED_FUNCTION(hooked_fclose)
{
	const zval *argument = fermata.handling && ZEND_CALL_NUM_ARGS(execute_data) == 1 ? ZEND_CALL_ARG(execute_data, 1) : NULL;
	const zend_resource *resource = argument && Z_TYPE_P(argument) == IS_RESOURCE ? Z_RES_P(argument) : NULL;
	if (resource && resource->ptr && resource->type == php_file_le_stream()
			&& UNEXPECTED(fermata_owner_end_queue(fermata_stream_socket(resource->ptr))) && fermata_hook_may_wait()) {
		fermata_hook_wait(0);
		if (UNEXPECTED(!resource->ptr)) {
			/* A woken fiber has already closed it. */
			RETURN_TRUE;
		}
	}
	original_fclose(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void exchange_fclose(void)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("fclose"));
	if (function && function->type == ZEND_INTERNAL_FUNCTION && function->internal_function.handler != hooked_fclose) {
		original_fclose = function->internal_function.handler;
		fermata_patch_pointer((void **)&function->internal_function.handler, (void *)hooked_fclose);
	}
}

/* Unlike fclose(), closedir() does not check the flag that protects from closing. Before PHP 8.5, Directory::close() is the same
 * function. */

static zif_handler original_closedir, original_directory_close;

/* Returns false with an exception pending if a fiber is inside the directory. */
static bool may_close_directory(zend_execute_data *execute_data)
{
	const zval *handle = ZEND_CALL_NUM_ARGS(execute_data) ? ZEND_CALL_ARG(execute_data, 1)
		: Z_TYPE(EX(This)) == IS_OBJECT ? OBJ_PROP_NUM(Z_OBJ(EX(This)), 1) : NULL;
	const zend_resource *resource = handle && Z_TYPE_P(handle) == IS_RESOURCE ? Z_RES_P(handle) : NULL;
	if (resource && resource->ptr && resource->type == php_file_le_stream() && UNEXPECTED(is_pinned(resource->ptr))
			&& !is_ours(resource->ptr)) {
		refuse();
		return false;
	}
	return true;
}

static ZEND_NAMED_FUNCTION(hooked_closedir)
{
	if (EXPECTED(may_close_directory(execute_data))) {
		original_closedir(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	}
}

static ZEND_NAMED_FUNCTION(hooked_directory_close)
{
	if (EXPECTED(may_close_directory(execute_data))) {
		original_directory_close(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	}
}

static void exchange_close(zend_function *it, zif_handler *original, zif_handler hooked)
{
	if (it && it->type == ZEND_INTERNAL_FUNCTION && it->internal_function.handler != hooked) {
		*original = it->internal_function.handler;
		fermata_patch_pointer((void **)&it->internal_function.handler, (void *)hooked);
	}
}

static void exchange_closedir(void)
{
	zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("directory"));
	exchange_close(zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("closedir")), &original_closedir, hooked_closedir);
	exchange_close(class ? zend_hash_str_find_ptr(&class->function_table, ZEND_STRL("close")) : NULL, &original_directory_close,
		hooked_directory_close);
}

/* stream_filter_remove(): a fiber may wait inside a userland filter, which PHP still uses after the wait. */

static zif_handler original_filter_remove;

static ZEND_NAMED_FUNCTION(hooked_filter_remove)
{
	const zval *handle = ZEND_CALL_NUM_ARGS(execute_data) ? ZEND_CALL_ARG(execute_data, 1) : NULL;
	const zend_resource *resource = handle && Z_TYPE_P(handle) == IS_RESOURCE ? Z_RES_P(handle) : NULL;
	const php_stream_filter *filter = resource && resource->type == php_file_le_stream_filter() ? resource->ptr : NULL;
	if (filter && filter->chain && UNEXPECTED(is_held(filter->chain->stream))) {
		refuse();
		RETURN_THROWS();
	}
	original_filter_remove(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void exchange_filter_remove(void)
{
	exchange_close(zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("stream_filter_remove")), &original_filter_remove,
		hooked_filter_remove);
}

static void add_kind(const php_stream_ops *ops)
{
	if (!ops->read || !ops->write || !ops->set_option || !fermata_stream_kind_add(ops, ops != &php_stream_stdio_ops)) {
		return;
	}
	php_stream_ops *table = (php_stream_ops *)ops;
	fermata_patch_pointer((void **)&table->read, read_pinned);
	fermata_patch_pointer((void **)&table->write, write_pinned);
	fermata_patch_pointer((void **)&table->set_option, set_option_pinned);
	if (ops->seek) {
		fermata_patch_pointer((void **)&table->seek, seek_pinned);
	}
}

void fermata_hook_reads(const php_stream_ops *ops)
{
	if (!fermata_stream_kind_add(ops, false)) {
		return;
	}
	php_stream_ops *table = (php_stream_ops *)ops;
	fermata_patch_pointer((void **)&table->read, read_pinned);
	if (ops->seek) {
		fermata_patch_pointer((void **)&table->seek, seek_pinned);
	}
}

/* Hooks reads of userland stream wrappers: stream_read() may wait even if all hooks are off, and PHP has passed a position in the
 * stream's buffer. Writes need no hook: the data is the caller's string, so other fibers may write at the same time. */
void fermata_hook_user_streams(void)
{
	fermata_hooks_note_loop();
	fermata_hook_reads(PHP_STREAM_IS_USERSPACE);
	fermata_hook_reads(PHP_STREAM_IS_USERSPACE_DIR);
	exchange_closedir();
	exchange_filter_remove();
}

/* Adds the tables of all transports. The tables are private to PHP and its extensions, so an unconnected stream of each transport
 * is created to find its table. */
static void add_transports(void)
{
	zend_string *name;
	php_stream_transport_factory factory;
	ZEND_HASH_FOREACH_STR_KEY_PTR(php_stream_xport_get_hash(), name, factory) {
		struct timeval timeout = {1, 0};
		php_stream *stream = name ? factory(ZSTR_VAL(name), ZSTR_LEN(name), ZEND_STRL("127.0.0.1:1"), NULL, 0, 0, &timeout, NULL
			STREAMS_CC) : NULL;
		if (stream) {
			add_kind(stream->ops);
			php_stream_close(stream);
		}
	} ZEND_HASH_FOREACH_END();
}

/* Adds the table of stream_socket_pair(), whose streams have another one. */
static void add_pair(void)
{
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) {
		return;
	}
	php_stream *stream = php_stream_sock_open_from_socket(fds[0], NULL);
	close(fds[1]);
	if (stream) {
		add_kind(stream->ops);
		php_stream_close(stream);
	} else {
		close(fds[0]);
	}
}

bool fermata_hook_streams(void)
{
	add_kind(&php_stream_stdio_ops);
	add_transports();
	add_pair();
	exchange_fclose();
	return true;
}

void fermata_hook_streams_end(void)
{
	if (has_kept_open) {
		zend_hash_destroy(&kept_open);
		has_kept_open = false;
	}
}

static fermata_part part = {.size = sizeof(slot_of_streams), .on_suspend = on_suspend, .on_resume = on_resume,
	.on_clean_up = on_clean_up, .on_fatal = on_fatal};

void fermata_hook_streams_init(void)
{
	fermata_part_register(&part);
}
