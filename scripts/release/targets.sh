# Sourced by scripts that cross-compile. Needs the variable `root`; `profile` is Cargo's profile.
# shellcheck shell=bash
#
# Targets besides the host's, and the tools that they need:
#   x86_64-unknown-linux-musl   a static command without libc; needs musl-gcc (Debian: musl-tools) and rustup's target
#   aarch64-unknown-linux-gnu   needs aarch64-linux-gnu-gcc (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross) and rustup's target

musl=x86_64-unknown-linux-musl
arm64=aarch64-unknown-linux-gnu
target_dir=${root:?}/target/dist
profile=${profile:-release}
# Number of attempts: rustup downloads a target over the network.
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

# Prints the reason why a target cannot be compiled, or nothing if it can.
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

# compile TARGET PACKAGE…: builds the packages without any path of this machine in the result.
compile() {
    local target=$1 packages=() package
    shift
    for package in "$@"; do packages+=(-p "$package"); done
    # musl-gcc compiles the C code of ring and zstd. rustc itself links: it ships the start files of static position-independent
    # executables, which musl-gcc lacks.
    CC_x86_64_unknown_linux_musl=musl-gcc \
        CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f%s' "--remap-path-prefix=$root=." "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo") \
        CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$target_dir cargo build --profile "$profile" --locked --target "$target" "${packages[@]}"
}

# Prints the path of a file built by `compile`.
built() { # target, file
    echo "$target_dir/$1/${profile/dev/debug}/$2"
}

# Prints a musl-gcc command that finds the kernel headers. The kernel headers do not depend on the libc, but Debian installs them
# among glibc's headers, which musl-gcc does not search. FOLDER receives links to them.
musl_compiler() { # FOLDER
    local kernel=$1/kernel-headers
    mkdir -p "$kernel"
    ln -sfn /usr/include/linux /usr/include/asm-generic "/usr/include/$(uname -m)-linux-gnu/asm" "$kernel"
    echo "musl-gcc -isystem $kernel"
}

# Writes FILE, a linker script that combines CORE with the stack unwinder for an extension for musl. gcc's unwinder exists only for
# glibc, and a PHP for musl need not contain one. A merged archive does not work: with a plugin of an older LLVM, ar does not index
# Rust's library.
with_unwinder() { # CORE, FILE
    [ "$2" -nt "$1" ] || printf 'INPUT("%s" "%s")\n' "$1" "$(rustc --print sysroot)/lib/rustlib/$musl/lib/self-contained/libunwind.a" >"$2"
}
