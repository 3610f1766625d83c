# Sourced by scripts that compile for more than this machine. Needs `root`; `profile` is Cargo's profile.
# shellcheck shell=bash
#
# Beside this machine's own there are
#   x86_64-unknown-linux-musl   musl-gcc (Debian: musl-tools) and rustup's target: a command that needs no C library
#   aarch64-unknown-linux-gnu   aarch64-linux-gnu-gcc (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross) and rustup's target

musl=x86_64-unknown-linux-musl
arm64=aarch64-unknown-linux-gnu
target_dir=${root:?}/target/dist
profile=${profile:-release}
# rustup fetches a target, over a network.
TARGET_TRIES=3

has_target() {
    local try
    ! rustup target list --installed 2>/dev/null | grep -qx "$1" || return 0
    for try in $(seq "$TARGET_TRIES"); do
        ! rustup target add "$1" >/dev/null 2>&1 || return 0
        sleep "$try"
    done
    return 1
}

# What is missing to compile for a target, as a clause; nothing: it can be compiled.
missing_for() {
    case $1 in
        "$musl") command -v musl-gcc >/dev/null || { echo "there is no musl-gcc (apt-get install musl-tools)"; return; } ;;
        "$arm64")
            command -v aarch64-linux-gnu-gcc >/dev/null ||
                { echo "there is no aarch64-linux-gnu-gcc (apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"; return; }
            ;;
    esac
    has_target "$1" || echo "rustup has no target $1, and cannot fetch it"
}

# compile TARGET PACKAGE…: no path of this machine gets into what is built.
compile() {
    local target=$1 packages=() package
    shift
    for package in "$@"; do packages+=(-p "$package"); done
    # musl-gcc compiles the C of ring and zstd. rustc links by itself: it brings the start files of a static program that may
    # lie anywhere, which musl-gcc lacks.
    CC_x86_64_unknown_linux_musl=musl-gcc \
        CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f%s' "--remap-path-prefix=$root=." "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo") \
        CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$target_dir cargo build --profile "$profile" --locked --target "$target" "${packages[@]}"
}

# The file that `compile` has left.
built() { # target, file
    echo "$target_dir/$1/${profile/dev/debug}/$2"
}

# musl-gcc with the headers of the kernel, which it does not see: they are the same for each C library, and Debian keeps them with
# glibc's. FOLDER gets links to them.
musl_compiler() { # FOLDER
    local kernel=$1/kernel-headers
    mkdir -p "$kernel"
    ln -sfn /usr/include/linux /usr/include/asm-generic "/usr/include/$(uname -m)-linux-gnu/asm" "$kernel"
    echo "musl-gcc -isystem $kernel"
}

# Writes FILE, which the linker takes for the core of an extension for musl and what unwinds the stack at a panic: gcc's library for
# that is there for glibc alone, and a PHP for musl need not bring it. No archive of both, since ar indexes nothing of Rust's own
# library where a plugin of an older LLVM is installed.
with_unwinder() { # CORE, FILE
    [ "$2" -nt "$1" ] || printf 'INPUT("%s" "%s")\n' "$1" "$(rustc --print sysroot)/lib/rustlib/$musl/lib/self-contained/libunwind.a" >"$2"
}
