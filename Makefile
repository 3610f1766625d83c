# Fermata. `make help` lists what there is to make.

# The PHP to build and test with; PHP=php8.3 chooses another.
PHP ?= php
export PHP
export FERMATA_PHP := $(PHP)
export CARGO_TARGET_DIR ?= $(CURDIR)/target
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:/usr/local/go/bin:/usr/sbin
export FERMATA_EXTENSION := $(CURDIR)/build/fermata.so

# No -p: Cargo would compile what a package uses with the features that it alone asks for, and all that uses it once more.
CARGO_TEST := cargo test --locked --quiet --no-fail-fast
# The same for tests that wait for other programs, beside other suites.
BLACK_BOX_TEST := scripts/black-box.sh $(CARGO_TEST)

.DEFAULT_GOAL := all
.PHONY: all site chat chat-cluster chat-https crowd test release lint bench bench-chat bench-json bench-files bench-fibers bench-floor bench-restart bench-counts bench-edge bench-held bench-http2 bench-million bench-million-edge bench-proxy bench-websocket chaos soak soak-edge soak-isolation soak-leaving soak-trust soak-trust-valgrind attack clean help setup generate test-rust test-phpt test-docs \
	test-server test-io test-loom test-php84 test-php85 test-arm64 test-zts test-musl test-versions test-release test-pie test-targets test-systemd test-docker test-scripts test-chat test-browser test-wordpress test-mediawiki test-bench test-counts test-bench-tables test-bench-loads test-generated test-leak test-revolt test-http2 test-php test-editor test-frameworks test-frameworks-newer test-requests test-monitoring fuzz

all: ## Build build/fermata.so and build/fermata
	@scripts/setup.sh build
	@scripts/build-ext.sh

chat: ## Build, then serve the chat at http://127.0.0.1:8000
	@scripts/setup.sh chat
	@scripts/build-ext.sh
	exec build/fermata serve --extension $(FERMATA_EXTENSION) examples/chat/server.php

chat-https: ## The same at https://localhost:8443, over HTTP/2 with the development certificate
	@scripts/setup.sh chat
	@scripts/build-ext.sh
	FERMATA_TLS_DEVELOPMENT=on CHAT_ORIGIN=https://localhost:8443 exec build/fermata serve --extension $(FERMATA_EXTENSION) --listen https://localhost:8443 examples/chat/server.php

chat-cluster: ## The chat on three servers with a log and nginx at http://127.0.0.1:8000, all of which may be killed
	@scripts/setup.sh cluster
	@scripts/build-ext.sh
	exec build/fermata cluster up --extension $(FERMATA_EXTENSION) --proxy 8000 --workers 2 examples/chat/server.php

crowd: ## 10,000 held clients join the chat that `make chat` serves, for a minute; CLIENTS=1000 are fewer, CHAT=http://HOST:PORT is another
	@scripts/build-ext.sh
	CLIENTS=$(or $(CLIENTS),10000) scripts/crowd.sh $(CHAT)

test: setup all ## Run every test
	@scripts/test-all.sh

release: ## Build what a release consists of, in dist/: command, extensions, packages, SBOM, checksums
	@scripts/setup.sh release
	@scripts/release.sh

lint: setup ## Check formatting, clippy, PHP syntax and shell scripts
	@scripts/lint.sh

bench: bench-chat bench-json bench-files ## Measure against the peers of seeds 000, 004 and 002, 25 minutes; needs a quiet machine

bench-chat: ## The table of seed 000: page, message and memory of a chat server; eight minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench chat

bench-json: ## The table of seed 004: small JSON; eight minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench json

bench-files: ## The table of seed 002: 108 KB through a file, and handlers that wait; nine minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench files

bench-fibers: ## What it costs that handlers can wait, and whether others wait with them; three minutes, best as root
	@scripts/setup.sh test
	@scripts/build-ext.sh
	python3 -m bench fibers

bench-restart: ## How long after a file is saved `fermata dev` answers with it; a minute
	@scripts/build-ext.sh
	python3 -m bench restart

bench-counts: ## Record instructions and system calls per request, the budget that test-bench checks
	@scripts/setup.sh test
	@scripts/build-ext.sh
	python3 -m bench counts --record

bench-held: ## Measure what a held client costs, beside Pushpin where it is installed; about ten minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench held

bench-http2: ## Measure small JSON over HTTP/2 and TLS, and handshakes, beside nginx, Go and Node; about six minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench http2

bench-edge: ## Measure the edge beside Pushpin, where it is installed; about nine minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench edge

bench-proxy: ## Measure the edge as a proxy beside nginx and HAProxy; about eight minutes; needs a quiet machine
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench proxy

bench-million: ## Hold a million clients, both ends on this machine; under ten minutes, as root, needs 16 GiB
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench million

bench-floor: ## What held clients cost beside bare system calls, 100,000 of them in five rounds; fifteen minutes, as root
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench floor

bench-million-edge: ## The same through the edge, PHP-FPM answering each client; under ten minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench million --server edge

soak: ## 200,000 clients for ten minutes with reconnects and killed workers; SECONDS=60 is shorter
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench soak $(if $(SECONDS),--duration-s $(SECONDS))

soak-edge: ## 20,000 clients of the edge for ten minutes: killed workers, changing routes and certificates, backends that stop; SECONDS=60 is shorter
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench soak --server edge $(if $(SECONDS),--duration-s $(SECONDS))

soak-leaving: ## Conversations with the edge that end in every way, for an hour, and nothing left of them; SECONDS=600 is shorter
	@scripts/setup.sh test
	@scripts/build-ext.sh
	python3 -m bench leaving $(if $(SECONDS),--duration-s $(SECONDS))

soak-trust: all ## Handlers ended in every way, and what the next one finds, for an hour; SECONDS=60 is shorter, SEED=1 repeats
	FERMATA_TEST_SECONDS=$(or $(SECONDS),3600) $(if $(SEED),FERMATA_TEST_SEED=$(SEED)) FERMATA_TEST_OUT=$(CURDIR)/build/soak-trust.json \
		cargo test --locked --test trust -- --nocapture the_next_finds_nothing programs_that_are_made_up

soak-isolation: all ## 100,000 mixed requests to each framework, nothing of one user visible to the next, memory flat; REQUESTS=20000 is shorter, SEED=1 repeats
	FERMATA_ISOLATION_REQUESTS=$(or $(REQUESTS),100000) $(if $(SEED),FERMATA_TEST_SEED=$(SEED)) \
		$(PHP) -d extension=$(FERMATA_EXTENSION) -d include_path=.:/usr/share/php "$$(command -v phpunit)" --do-not-cache-result \
		--bootstrap php/tests/autoload.php php/tests/Frameworks/IsolationTest.php

soak-trust-valgrind: all ## Handlers that are made up, under memcheck, for SECONDS=60
	FERMATA_TEST_VALGRIND=1 FERMATA_TEST_DEADLINE_S=600 FERMATA_TEST_SECONDS=$(or $(SECONDS),60) $(if $(SEED),FERMATA_TEST_SEED=$(SEED)) \
		cargo test --locked --test trust -- --nocapture programs_that_are_made_up

chaos: ## Servers, workers, bridges, the log and the network of a cluster fail at random for ten minutes, each event once and in order; SECONDS=60 is shorter, SEED=1 repeats, LOGS=nats-three is one of nats, redis and three servers of NATS
	@scripts/setup.sh test
	@scripts/build-ext.sh
	python3 -m bench chaos $(if $(SECONDS),--duration-s $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(LOGS),--logs $(LOGS))

attack: ## Slow clients by the thousand, full disks, too few descriptors, resets, a million requests; as root
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench attack

bench-websocket: ## The tables of seed 003 beside their peers, about 13 minutes; needs a quiet machine
	@scripts/setup.sh build
	@scripts/build-ext.sh
	python3 -m bench websocket

clean: ## Remove everything that was built
	rm -rf build dist target tests/browser/node_modules

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what the tests need and this machine lacks
	@scripts/setup.sh test

generate: ## Rewrite the generated files: C header, arginfo, reference of settings and figures
	cargo run --locked --quiet --bin fermata-header
	scripts/arginfo.sh
	scripts/architecture.py
	$(PHP) scripts/stubs.php
	UPDATE_GENERATED=1 $(CARGO_TEST) -p fermata-config -p fermata-engine -p fermata-edge -p fermata-gateway reference

test-rust: ## Unit and property tests of the crates
	$(BLACK_BOX_TEST) --workspace --exclude fermata-tests

# Black-box tests that wait nearly all of their time, for clients, logs and backends: twice as many at once as there are cores.
WAITING := cluster command edge mercure pusher trust
COMPUTING := $(filter-out $(WAITING) fermata-tests,$(shell sed -n 's/^name = "\(.*\)"/\1/p' tests/Cargo.toml))

test-server: all ## Black-box tests over real sockets
	status=0; \
	RUST_TEST_THREADS=$$((2 * $$(nproc))) $(BLACK_BOX_TEST) $(WAITING:%=--test %) || status=$$?; \
	$(BLACK_BOX_TEST) $(COMPUTING:%=--test %) || status=$$?; \
	exit $$status

# The edge's tests of connections to and from it; the others wait for its clocks, and would take minutes.
EDGE_CONNECTIONS := arriving bounds failing http2 leaving upstreams

test-io: all ## The black-box tests that touch sockets over io_uring, which are run over epoll otherwise
	status=0; \
	export FERMATA_IO=io_uring; \
	$(BLACK_BOX_TEST) --test http1 --test sse --test hub --test websocket --test tls --test workers -- --skip a_hundred_clients_share_eight_workers || status=$$?; \
	RUST_TEST_THREADS=$$((2 * $$(nproc))) $(BLACK_BOX_TEST) --test edge -- $(EDGE_CONNECTIONS:%=%::) --skip a_flood_of_publishers_loses_nothing || status=$$?; \
	exit $$status

test-loom: ## The atomics of the ring and of tables in every order the memory model allows
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/loom RUSTFLAGS='--cfg loom' CARGO_PROFILE_RELEASE_LTO=off \
		cargo test --locked --quiet --release -p fermata-hub -p fermata-table --test loom

test-phpt: all ## Tests of the extension, one behaviour per file
	scripts/phpt.sh

test-php84: all ## The same with PHP 8.4, in a Debian 13 that is made once in ~/.cache/fermata; as root
	scripts/other-php.sh 8.4

test-php85: all ## The same with PHP 8.5, from Debian's experimental; no part of `make test`
	scripts/other-php.sh 8.5

test-arm64: ## A part of them with the extension for arm64 and Debian's PHP 8.2, emulated by QEMU; a part of test-targets. TESTS=--all is all of them
	scripts/arm64-php.sh $(TESTS)

test-zts: all ## The same with a PHP with threads, compiled from Debian's source once in ~/.cache/fermata
	scripts/source-php.sh

test-musl: ## The same with a PHP for musl, compiled like that with musl-gcc, and the extension for it; no part of `make test`
	FERMATA_PHP_LIBC=musl scripts/source-php.sh $(TESTS)

test-versions: all ## Compile the extension against the headers of every PHP that is there
	scripts/php-versions.sh

test-release: all ## Pack what is built, and install, run and purge it in a Debian 12 without Rust; as root
	scripts/test-release.sh

test-pie: ## Install the extension by PIE, from a release and from source, as if this commit were published; PIE=FILE is pie.phar; as root
	scripts/test-pie.sh

test-targets: ## Compile the command without a C library and for arm64, and run both; as root, with QEMU. DIST=dist runs those of a release
	scripts/test-targets.sh

test-monitoring: all ## Alerts, dashboard and log rotation of packaging/, against a server that runs
	scripts/test-monitoring.sh

test-systemd: all ## The unit of docs/deploy.md, checked and run under a systemd of its own; as root
	scripts/test-systemd.sh

# It compiles all of Rust anew in the image, which would take as long as several suites together.
test-docker: ## Build packaging/docker/Dockerfile on stand-ins for its images, and run what comes out; no part of `make test`; as root, PROFILE=quick is faster
	scripts/test-docker.sh

test-scripts: all ## Tests of the scripts that set a machine up, that run PHP's own tests, and that check sources
	scripts/test-black-box.sh
	scripts/test-setup.sh
	scripts/test-php-phpt.sh
	scripts/test-lookups.sh

test-chat: ## PHPUnit tests of the chat
	$(PHP) "$$(command -v phpunit)" --do-not-cache-result --bootstrap examples/chat/tests/autoload.php examples/chat/tests

test-php: ## PHPUnit tests of the library that need no extension
	$(PHP) "$$(command -v phpunit)" --do-not-cache-result --bootstrap php/tests/autoload.php php/tests/Grip

test-editor: ## What a language server says of programs that use the Composer package, with its stubs
	scripts/test-editor.sh

test-frameworks: all ## PHPUnit tests of the bridges, over real servers with Debian's Symfony, Laravel, Slim and PSR-7 libraries
	$(PHP) -d extension=$(FERMATA_EXTENSION) -d include_path=.:/usr/share/php "$$(command -v phpunit)" --do-not-cache-result \
		--bootstrap php/tests/autoload.php php/tests/Frameworks
	$(PHP) -d extension=$(FERMATA_EXTENSION) "$$(command -v phpunit)" --do-not-cache-result --bootstrap php/tests/autoload.php php/tests/Testing
	$(PHP) -d extension=$(FERMATA_EXTENSION) "$$(command -v phpunit)" --do-not-cache-result --bootstrap php/tests/autoload.php php/tests/FastCgi
	scripts/psr7-tests.sh

test-frameworks-newer: all ## The bridges with Laravel 10 and Symfony 6.4, Debian 13's; FERMATA_OCTANE=FOLDER is a checkout of laravel/octane
	@status=0; folder=$$(scripts/newer-frameworks.sh) || status=$$?; \
	if [ "$$status" = 3 ] && [ -z "$$CI" ]; then echo "NOT RUN: newer frameworks cannot be had here"; exit 0; fi; \
	[ "$$status" = 0 ] || exit "$$status"; \
	FERMATA_FRAMEWORKS=$$folder $(PHP) -d extension=$(FERMATA_EXTENSION) -d include_path=.:/usr/share/php "$$(command -v phpunit)" \
		--do-not-cache-result --bootstrap php/tests/autoload.php php/tests/Frameworks

test-requests: all ## PHP's own tests of sessions, requests and uploads, through a FrankenPHP worker; FERMATA_PHP_SOURCE=FOLDER is a tree of PHP's source
	$(PHP) php/tests/Requests/run.php

test-browser: all ## The chat in Chromium
	scripts/test-browser.sh

test-wordpress: all ## WordPress with MariaDB in Chromium, unchanged, where both are installed; no part of `make test`
	FERMATA_TEST_WORDPRESS=1 scripts/test-browser.sh wordpress.test.js

test-mediawiki: all ## MediaWiki with SQLite in Chromium, unchanged; no part of `make test`
	FERMATA_TEST_MEDIAWIKI=1 scripts/test-browser.sh mediawiki.test.js

test-docs: all site ## Run the samples of the documentation, and build its site
	$(PHP) scripts/check-samples.php

site: ## The documentation as a site in build/site, which reads offline; a dead link fails
	@scripts/site.sh

test-bench: test-counts test-bench-tables test-bench-loads ## A quick run of the benchmark, to see that it still works

test-counts: all ## Of that, instructions and system calls per request against their budget; other programs change them
	python3 -m bench counts --check

test-bench-tables: all ## Of that, tables beside peers
	python3 -m unittest discover -s bench/tests -t .
	python3 -m bench --quick
	python3 -m bench fibers --quick
	python3 -m bench websocket --quick --peers fermata node-ws

test-bench-loads: all ## Of that, what holds and puts under load, which fails for faults alone
	python3 -m bench held --quick
	python3 -m bench edge --quick
	# Without hyper, which takes a minute and a half to compile.
	python3 -m bench http2 --quick --peers fermata go nginx node php-fpm
	python3 -m bench proxy --quick
	python3 -m bench floor --quick
	python3 -m bench drivers --quick
	python3 -m bench drivers --quick --before build --rows json edge
	python3 -m bench hub --quick --peers
	python3 -m bench hub --crowd --quick
	python3 -m bench cluster --nodes --quick
	python3 -m bench million --quick
	python3 -m bench million --quick --server edge
	python3 -m bench soak --quick --out build/bench/quick
	python3 -m bench soak --quick --server edge --out build/bench/quick
	python3 -m bench attack --quick

# The last command takes all crates, so that it compiles what test-rust runs.
test-generated: ## Check that the generated files are up to date
	cargo run --locked --quiet --bin fermata-header -- --check
	scripts/arginfo.sh --check
	$(PHP) scripts/stubs.php --check
	python3 -m bench readme --check
	python3 scripts/autobahn.py --check
	$(CARGO_TEST) --workspace --exclude fermata-tests reference

test-http2: ## h2spec and real clients against the HTTP/2 of crates/proto, each where it is installed; one minute
	scripts/http2.sh

test-revolt: all ## Revolt's own tests of its drivers, over ours; REVOLT=FOLDER is a checkout of revoltphp/event-loop
	scripts/revolt.sh $(REVOLT)

test-leak: all ## The extension's tests under valgrind
	scripts/phpt.sh --valgrind

fuzz: ## Fuzz every parser for SECONDS=60 each; needs a nightly Rust
	@scripts/setup.sh fuzz
	for target in fuzz/fuzz_targets/*.rs; do \
		fuzz/run "$$(basename "$$target" .rs)" $(or $(SECONDS),60) || exit 1; \
	done
