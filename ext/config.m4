dnl Builds the Rust core with cargo and links it into fermata.so.
dnl
dnl   phpize && ./configure && make
dnl
dnl works inside a checkout. For a copy of this folder elsewhere set FERMATA_ROOT to the checkout.
dnl CARGO_TARGET_DIR moves cargo's output; FERMATA_CORE names a ready libfermata_ffi.a instead.

PHP_ARG_ENABLE([fermata],
  [whether to enable Fermata],
  [AS_HELP_STRING([--enable-fermata], [Enable Fermata, a native real-time server])],
  [yes])

if test "$PHP_FERMATA" != "no"; then
  AC_ARG_VAR([FERMATA_ROOT], [checkout of Fermata, the folder with Cargo.toml; default: the parent of this folder])
  AC_ARG_VAR([FERMATA_CORE], [path of a ready libfermata_ffi.a; default: built with cargo])
  AC_ARG_VAR([CARGO], [the cargo command])

  if test -z "$FERMATA_ROOT"; then
    FERMATA_ROOT=`cd "$abs_srcdir/.." && pwd`
  fi

  if test -z "$FERMATA_CORE"; then
    if test ! -f "$FERMATA_ROOT/crates/ffi/Cargo.toml"; then
      AC_MSG_ERROR([the Rust core is not at $FERMATA_ROOT/crates/ffi; set FERMATA_ROOT to a checkout of Fermata])
    fi
    AC_PATH_PROG([CARGO], [cargo], [], [$PATH:${CARGO_HOME:-$HOME/.cargo}/bin])
    if test -z "$CARGO"; then
      AC_MSG_ERROR([cargo not found; install Rust from https://rustup.rs or set CARGO])
    fi
    dnl An old cargo says of a newer Cargo.toml only that it cannot read it.
    FERMATA_RUST=`sed -n 's/^rust-version = "\(.*\)"/\1/p' "$FERMATA_ROOT/Cargo.toml"`
    fermata_cargo_version=`PATH="\`dirname "$CARGO"\`:$PATH" "$CARGO" --version 2>/dev/null | cut -d ' ' -f 2`
    FERMATA_OLDER=`printf '%s\n' "$FERMATA_RUST" "${fermata_cargo_version:-0}" | sort -V | head -n 1`
    if test "$FERMATA_OLDER" != "$FERMATA_RUST"; then
      AC_MSG_ERROR([$CARGO is of Rust ${fermata_cargo_version:-unknown}, and Fermata needs $FERMATA_RUST or later; install it from https://rustup.rs or set CARGO])
    fi
    FERMATA_TARGET=${CARGO_TARGET_DIR:-$FERMATA_ROOT/target}
    FERMATA_CORE=$FERMATA_TARGET/release/libfermata_ffi.a
    dnl cargo knows best whether there is anything to do, so make always asks it. The folder of cargo goes first
    dnl because rustc lies beside it.
    cat >>Makefile.fragments <<EOT
.PHONY: fermata-ask-cargo
$FERMATA_CORE: fermata-ask-cargo
	PATH="`dirname "$CARGO"`:\$\$PATH" $CARGO build --quiet --release --locked --manifest-path "$FERMATA_ROOT/Cargo.toml" --target-dir "$FERMATA_TARGET" -p fermata-ffi
EOT
  fi

  dnl Only get_module leaves the library: neither Rust's symbols nor ours can collide with another extension's.
  dnl A panic is caught with the table that --eh-frame-hdr makes; musl-gcc does not ask for it by itself.
  FERMATA_SHARED_LIBADD="-Wl,--eh-frame-hdr -Wl,--exclude-libs,ALL -Wl,--gc-sections $FERMATA_CORE -lpthread -ldl -lm"
  FERMATA_SHARED_DEPENDENCIES=$FERMATA_CORE
  PHP_SUBST([FERMATA_SHARED_LIBADD])
  PHP_SUBST([FERMATA_SHARED_DEPENDENCIES])

  dnl No tables for unwinding through C: a panic of Rust ends at the function that C called (crates/ffi), and zend_bailout
  dnl jumps. They would take 300 kB of each process; debuggers use .debug_frame.
  PHP_NEW_EXTENSION([fermata],
    [fermata.c base/classes.c base/clock.c base/standard_streams.c handler/call.c handler/server.c http/respond.c handler/run.c handler/parts.c worker/server.c http/groups.c http/routes.c http/middleware.c worker/limits.c worker/tls.c worker/loop.c worker/in_process.c state/changes.c state/last_errors.c state/php_state.c hooks/process.c worker/sapi_name.c state/sapi_output.c state/cursors.c state/sessions.c hooks/standard_error.c state/quiet.c worker/startup_errors.c base/strings.c base/opcache.c handler/failure.c sockets/runner.c fibers/scheduler.c fibers/timers.c fibers/task_queue.c fibers/tasks.c fibers/waiters.c fibers/turns.c fibers/callbacks.c fibers/magic.c fibers/watch.c http/body.c hooks/patch.c hooks/waits.c hooks/calls.c hooks/sockets.c hooks/conversations.c hooks/owners.c hooks/awaited.c hooks/stream_kinds.c hooks/streams.c clients/hooks.c clients/keys.c clients/objects.c clients/guards.c clients/wrap.c clients/libpq.c clients/connections.c clients/transactions.c clients/iterators.c hooks/processes.c hooks/spawn.c hooks/files.c clients/sqlite.c hooks/resolver.c fibers/cancellation.c fibers/context.c fibers/bodies.c fibers/sync.c fibers/queue.c fibers/iterator.c clients/pool.c fibers/every.c http/events.c files/file.c files/handle.c files/jobs.c files/pieces.c jobs/jobs.c jobs/process.c jobs/values.c jobs/peers.c fibers/poll.c http/request.c http/request_methods.c http/uploaded_file.c http/response.c http/globals.c http/input.c http/source.c http/response_body.c http/stream.c http/hold.c http/fastcgi.c channels/channel.c channels/reader.c channels/table.c channels/publishing.c channels/publisher.c sockets/route.c sockets/options.c sockets/websocket.c sockets/data.c sockets/upgrade.c sockets/message.c sockets/client.c sockets/pusher.c sockets/mercure.c sockets/codec.c base/headers.c http/cookie.c base/json.c base/collisions.c base/exceptions.c base/parameters.c],
    [$ext_shared],,
    [-std=gnu11 -fvisibility=hidden -fno-plt -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1 -fno-unwind-tables -fno-asynchronous-unwind-tables -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers])
  dnl Includes name folders of this one: #include "clients/guards.h".
  PHP_ADD_INCLUDE([$ext_srcdir])
  PHP_ADD_BUILD_DIR([$ext_builddir/http $ext_builddir/sockets $ext_builddir/fibers $ext_builddir/files $ext_builddir/jobs $ext_builddir/hooks $ext_builddir/state $ext_builddir/base $ext_builddir/handler $ext_builddir/clients $ext_builddir/channels $ext_builddir/worker])
  PHP_ADD_EXTENSION_DEP([fermata], [json])
  PHP_ADD_EXTENSION_DEP([fermata], [random])
  PHP_ADD_EXTENSION_DEP([fermata], [spl])
  PHP_ADD_EXTENSION_DEP([fermata], [standard])
fi
