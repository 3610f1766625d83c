# shellcheck shell=sh disable=SC2154,SC1072,SC1073,SC1088
# `install-php-extensions fermata`: a case of installRemoteModule() in mlocati/docker-php-extension-installer. It also needs the
# line `fermata 8.2 8.3 8.4 8.5` in data/supported-extensions. It installs the release archive: building from source needs Rust.
		fermata)
			case "$DISTRO-$(uname -m)" in
				debian-x86_64)
					installRemoteModule_libc=glibc
					;;
				alpine-x86_64)
					installRemoteModule_libc=musl
					if test "$PHP_MAJDOTMIN_VERSION" != 8.2 || test $PHP_THREADSAFE -eq 1; then
						echo 'fermata has an archive for Alpine with PHP 8.2 without threads only; packaging/docker/Dockerfile.alpine builds for others' >&2
						exit 1
					fi
					;;
				*)
					echo 'fermata has archives for Debian and Alpine on x86_64 only' >&2
					exit 1
					;;
			esac
			if test -z "$installRemoteModule_version"; then
				installRemoteModule_version=0.1.0
			fi
			installRemoteModule_threads=
			if test $PHP_THREADSAFE -eq 1; then
				installRemoteModule_threads=-zts
			fi
			installRemoteModule_src="$(getPackageSource "https://github.com/fermata-php/fermata/releases/download/$installRemoteModule_version/fermata-$installRemoteModule_version-php$PHP_MAJDOTMIN_VERSION-linux-x86_64-$installRemoteModule_libc$installRemoteModule_threads.tar.gz")"
			mv "$installRemoteModule_src/fermata.so" "$(getPHPExtensionsDir)/fermata.so"
			mv "$installRemoteModule_src/fermata" /usr/local/bin/fermata
			installRemoteModule_manuallyInstalled=1
			;;
