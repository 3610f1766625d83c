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

  AC_MSG_CHECKING([for a PHP without thread safety])
  if test "$PHP_THREAD_SAFETY" = "yes" || test "$enable_zts" = "yes"; then
    AC_MSG_RESULT([no])
    AC_MSG_ERROR([Fermata runs one process per core and supports non-thread-safe (NTS) builds of PHP only])
  fi
  AC_MSG_RESULT([yes])

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
  FERMATA_SHARED_LIBADD="-Wl,--exclude-libs,ALL -Wl,--gc-sections $FERMATA_CORE -lpthread -ldl -lm"
  FERMATA_SHARED_DEPENDENCIES=$FERMATA_CORE
  PHP_SUBST([FERMATA_SHARED_LIBADD])
  PHP_SUBST([FERMATA_SHARED_DEPENDENCIES])

  PHP_NEW_EXTENSION([fermata],
    [fermata.c server.c routes.c middleware.c limits.c tls.c runner.c changes.c stray.c failures.c runner_sockets.c fibers.c timers.c tasks.c waiters.c turns.c watch.c body.c hooks.c hooks_patch.c hooks_calls.c hooks_sockets.c hooks_conversations.c hooks_streams.c hooks_guards.c hooks_connections.c hooks_iterators.c hooks_processes.c hooks_files.c hooks_sqlite.c resolver.c cancellation.c context.c sync.c queue.c pool.c every.c events.c file.c file_handle.c file_jobs.c file_pieces.c jobs.c job_process.c peers.c poll.c request.c request_methods.c uploaded_file.c response.c source.c stream.c hold.c channel.c publisher.c socket_route.c websocket_options.c websocket.c websocket_data.c upgrade.c message.c websocket_client.c codec.c headers.c cookie.c json.c exceptions.c],
    [$ext_shared],,
    [-std=gnu11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers])
  PHP_ADD_EXTENSION_DEP([fermata], [json])
  PHP_ADD_EXTENSION_DEP([fermata], [random])
  PHP_ADD_EXTENSION_DEP([fermata], [spl])
  PHP_ADD_EXTENSION_DEP([fermata], [standard])
fi
