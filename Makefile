# Builds, tests and releases Fermata. `make help` lists the targets.

# PHP command for builds and tests; PHP=php8.3 selects another.
PHP ?= php
export PHP
export FERMATA_PHP := $(PHP)
export CARGO_TARGET_DIR ?= $(CURDIR)/target
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:/usr/local/go/bin:/usr/sbin
export FERMATA_EXTENSION := $(CURDIR)/build/fermata.so

# No -p: Cargo would select features for that package only, and recompile its dependencies and everything above them.
CARGO_TEST := cargo test --locked --quiet --no-fail-fast
# Command for tests that wait for other processes while other suites run.
BLACK_BOX_TEST := scripts/black-box.sh $(CARGO_TEST)

.DEFAULT_GOAL := all
.PHONY: all dev check site chat chat-cluster chat-https crowd test release lint bench bench-chat bench-json bench-files bench-fibers bench-floor bench-restart bench-counts bench-edge bench-held bench-http2 bench-million bench-million-edge bench-proxy bench-websocket chaos soak soak-callbacks soak-edge soak-isolation soak-leaving soak-trust soak-trust-valgrind attack clean help setup generate test-rust test-phpt test-docs \
	test-server test-io test-loom test-php84 test-php85 test-arm64 test-zts test-musl test-versions test-release test-pie test-targets test-systemd test-docker test-scripts test-chat test-browser test-wordpress test-mediawiki test-bench test-counts test-bench-tables test-bench-loads test-generated test-leak test-revolt test-http2 test-php test-editor test-frameworks test-frameworks-newer test-requests test-monitoring fuzz

##@ Build and run

all: ## Build build/fermata.so and build/fermata
	@scripts/setup.sh build
	@scripts/build-ext.sh

dev: ## Build with the profile `quick`: seconds after a change
	@scripts/setup.sh build
	@PROFILE=quick scripts/build-ext.sh

chat: ## Serve the chat at http://127.0.0.1:8000
	@scripts/setup.sh chat
	@scripts/build-ext.sh
	exec build/fermata serve --extension $(FERMATA_EXTENSION) examples/chat/server.php

chat-https: ## Serve the chat at https://localhost:8443 over HTTP/2
	@scripts/setup.sh chat
	@scripts/build-ext.sh
	FERMATA_TLS_DEVELOPMENT=on CHAT_ORIGIN=https://localhost:8443 exec build/fermata serve --extension $(FERMATA_EXTENSION) --listen https://localhost:8443 examples/chat/server.php

chat-cluster: ## Serve the chat on three servers behind nginx; stop one, clients stay
	@scripts/setup.sh cluster
	@scripts/build-ext.sh
	exec build/fermata cluster up --extension $(FERMATA_EXTENSION) --proxy 8000 --workers 2 examples/chat/server.php

crowd: ## Join the chat of `make chat` with CLIENTS=10000 for a minute
	@scripts/build-ext.sh
	CLIENTS=$(or $(CLIENTS),10000) scripts/crowd.sh $(CHAT)

##@ Check

# Targets that a change breaks most often. They take three minutes; `make test` runs all targets.
CHECK_TARGETS := http1 sse hub websocket
check: dev ## Run lint, unit tests and the main black-box tests: 3 minutes
	@scripts/setup.sh test
	scripts/lint.sh
	$(CARGO_TEST) --workspace --exclude fermata-tests
	$(CARGO_TEST) $(CHECK_TARGETS:%=--test %)

test: setup all ## Run every test: 40 minutes
	@scripts/test-all.sh

release: ## Build packages, checksums and SBOM in dist/
	@scripts/setup.sh release
	@scripts/release.sh

lint: setup ## Check format, clippy, C warnings, PHP syntax and scripts
	@scripts/lint.sh

##@ Benchmarks

bench: bench-chat bench-json bench-files ## Run bench-chat, bench-json and bench-files: 25 minutes

bench-chat: ## Compare page, message and memory of a chat server: 8 minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench chat

bench-json: ## Compare small JSON responses with peers: 8 minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench json

bench-files: ## Compare 108 KB files and waiting handlers with peers: 9 minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench files

bench-fibers: ## Measure what a waiting handler costs: 3 minutes, best as root
	@scripts/setup.sh test
	@scripts/build-ext.sh
	python3 -m bench fibers

bench-restart: ## Measure how soon `fermata dev` serves a saved file: 1 minute
	@scripts/build-ext.sh
	python3 -m bench restart

bench-counts: ## Record the budget of instructions and system calls per request
	@scripts/setup.sh test
	@scripts/build-ext.sh
	python3 -m bench counts --record

bench-held: ## Measure a held client, with Pushpin if installed: 10 minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench held

bench-http2: ## Compare HTTP/2, TLS and handshakes with peers: 6 minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench http2

bench-edge: ## Compare the edge with Pushpin if installed: 9 minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench edge

bench-proxy: ## Compare the edge with nginx and HAProxy as a proxy: 8 minutes
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench proxy

bench-million: ## Hold a million clients: 10 minutes, as root, needs 16 GiB
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench million

bench-floor: ## Compare held clients with bare system calls: 15 minutes, as root
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench floor

bench-million-edge: ## Hold a million clients at the edge: 10 minutes, as root
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench million --server edge

bench-websocket: ## Compare WebSocket servers: 13 minutes
	@scripts/setup.sh build
	@scripts/build-ext.sh
	python3 -m bench websocket

##@ Soak and attack

soak: ## Run 200,000 clients with killed workers for SECONDS=600
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench soak $(if $(SECONDS),--duration-s $(SECONDS))

soak-edge: ## Run 20,000 clients of the edge with faults for SECONDS=600
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench soak --server edge $(if $(SECONDS),--duration-s $(SECONDS))

soak-leaving: ## Close edge connections in every way for SECONDS=3600
	@scripts/setup.sh test
	@scripts/build-ext.sh
	python3 -m bench leaving $(if $(SECONDS),--duration-s $(SECONDS))

soak-trust: all ## Run random handlers, check isolation, for SECONDS=3600; SEED=1
	FERMATA_TEST_SECONDS=$(or $(SECONDS),3600) $(if $(SEED),FERMATA_TEST_SEED=$(SEED)) FERMATA_TEST_OUT=$(CURDIR)/build/soak-trust.json \
		cargo test --locked --test trust -- --nocapture the_next_finds_nothing programs_that_are_made_up

soak-callbacks: all ## Run handlers that wait in callbacks for SECONDS=3600; SEED=1 VALGRIND=1
	FERMATA_TEST_SECONDS=$(or $(SECONDS),3600) $(if $(SEED),FERMATA_TEST_SEED=$(SEED)) $(if $(VALGRIND),FERMATA_TEST_VALGRIND=1 FERMATA_TEST_DEADLINE_S=600) \
		cargo test --locked --test trust -- --nocapture handlers_that_wait_in_callbacks

soak-isolation: all ## Send REQUESTS=100000 to each framework, check isolation; SEED=1
	FERMATA_ISOLATION_REQUESTS=$(or $(REQUESTS),100000) $(if $(SEED),FERMATA_TEST_SEED=$(SEED)) \
		$(PHP) -d extension=$(FERMATA_EXTENSION) -d include_path=.:/usr/share/php "$$(command -v phpunit)" --do-not-cache-result \
		--bootstrap php/tests/autoload.php php/tests/Frameworks/IsolationTest.php

soak-trust-valgrind: all ## Run random handlers under memcheck for SECONDS=60
	FERMATA_TEST_VALGRIND=1 FERMATA_TEST_DEADLINE_S=600 FERMATA_TEST_SECONDS=$(or $(SECONDS),60) $(if $(SEED),FERMATA_TEST_SEED=$(SEED)) \
		cargo test --locked --test trust -- --nocapture programs_that_are_made_up

# LOGS: one or more of nats, redis, nats-three (three servers), nats-checked and redis-checked. The checked logs are rolled back
# or deleted during the run, and the history checker verifies the result.
chaos: ## Break a cluster at random for SECONDS=600; SEED=1 LOGS=nats-three
	@scripts/setup.sh test
	@scripts/build-ext.sh
	python3 -m bench chaos $(if $(SECONDS),--duration-s $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(LOGS),--logs $(LOGS))

attack: ## Run slow clients, full disks, descriptor limits: as root
	@scripts/setup.sh bench
	@scripts/build-ext.sh
	python3 -m bench attack

##@ Housekeeping

clean: ## Remove all build output
	rm -rf build dist target tests/browser/node_modules

help: ## List the targets
	@awk -F ':.*## ' ' \
		/^##@ / { group = substr($$0, 5); if (!(group in lines)) { order[++groups] = group; lines[group] = "" } } \
		/^[a-z0-9-]+:.*## / { lines[group] = lines[group] sprintf("  make %-22s %s\n", $$1, $$2) } \
		END { for (i = 1; i <= groups; i++) printf "%s%s\n%s", (i > 1 ? "\n" : ""), order[i], lines[order[i]] }' $(MAKEFILE_LIST)

setup: ## Install what the tests need and the machine lacks
	@scripts/setup.sh test

generate: ## Rewrite generated files: C header, arginfo, reference pages
	cargo run --locked --quiet --bin fermata-header
	scripts/arginfo.sh
	scripts/architecture.py
	$(PHP) scripts/stubs.php
	$(PHP) scripts/callbacks.php
	UPDATE_GENERATED=1 $(CARGO_TEST) -p fermata-config -p fermata-engine -p fermata-edge -p fermata-gateway reference

##@ One suite

test-rust: ## Run unit and property tests of the crates
	$(BLACK_BOX_TEST) --workspace --exclude fermata-tests

# Black-box tests that mostly wait for clients, logs and backends. Two of them run per core.
WAITING := cluster command edge mercure pusher trust
COMPUTING := $(filter-out $(WAITING) fermata-tests,$(shell sed -n 's/^name = "\(.*\)"/\1/p' tests/Cargo.toml))

test-server: all ## Run black-box tests over real sockets
	status=0; \
	RUST_TEST_THREADS=$$((2 * $$(nproc))) $(BLACK_BOX_TEST) $(WAITING:%=--test %) || status=$$?; \
	$(BLACK_BOX_TEST) $(COMPUTING:%=--test %) || status=$$?; \
	exit $$status

# Edge tests of client and upstream connections. The other edge tests wait for timers and would take minutes.
EDGE_CONNECTIONS := arriving bounds failing http2 leaving upstreams

test-io: all ## Run black-box tests of sockets over io_uring
	status=0; \
	export FERMATA_IO=io_uring; \
	$(BLACK_BOX_TEST) --test http1 --test sse --test hub --test websocket --test tls --test workers -- --skip a_hundred_clients_share_eight_workers || status=$$?; \
	RUST_TEST_THREADS=$$((2 * $$(nproc))) $(BLACK_BOX_TEST) --test edge -- $(EDGE_CONNECTIONS:%=%::) --skip a_flood_of_publishers_loses_nothing || status=$$?; \
	exit $$status

test-loom: ## Check the atomics of ring and tables in every order, with loom
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/loom RUSTFLAGS='--cfg loom' CARGO_PROFILE_RELEASE_LTO=off \
		cargo test --locked --quiet --release -p fermata-hub -p fermata-table --test loom

test-phpt: all ## Run the extension's .phpt tests
	scripts/phpt.sh

##@ Other PHPs and machines

test-php84: all ## Run the .phpt tests with PHP 8.4 in a Debian 13 folder; as root
	scripts/other-php.sh 8.4

test-php85: all ## Run the .phpt tests with PHP 8.5; not in `make test`
	scripts/other-php.sh 8.5

test-arm64: ## Run some .phpt tests on arm64 under QEMU; TESTS=--all for all
	scripts/arm64-php.sh $(TESTS)

test-zts: all ## Run the .phpt tests with a ZTS PHP compiled from source
	scripts/source-php.sh

test-musl: ## Run the .phpt tests with a musl PHP; not in `make test`
	FERMATA_PHP_LIBC=musl scripts/source-php.sh $(TESTS)

test-versions: all ## Compile the extension for every installed PHP
	scripts/php-versions.sh

##@ Release and installation

test-release: all ## Pack, install, run and purge in a fresh Debian 12; as root
	scripts/test-release.sh

test-pie: ## Install by PIE from a release and from source; PIE=FILE; as root
	scripts/test-pie.sh

test-targets: ## Compile the static and the arm64 command and run both; as root
	scripts/test-targets.sh

test-monitoring: all ## Check alerts, dashboard and log rotation of packaging/
	scripts/test-monitoring.sh

test-systemd: all ## Run the systemd unit of docs/deploy.md; as root
	scripts/test-systemd.sh

# Not in `make test`: the image recompiles all Rust code, which takes as long as several suites.
test-docker: ## Build and run packaging/docker/Dockerfile; not in `make test`; as root
	scripts/test-docker.sh

##@ One suite

test-scripts: all ## Run the tests of the scripts
	scripts/test-black-box.sh
	scripts/test-setup.sh
	scripts/test-php-phpt.sh
	scripts/test-lookups.sh
	scripts/test-claims.sh

test-chat: ## Run the chat's PHPUnit tests
	$(PHP) "$$(command -v phpunit)" --do-not-cache-result --bootstrap examples/chat/tests/autoload.php examples/chat/tests

test-php: ## Run PHPUnit tests of the library that need no extension
	$(PHP) "$$(command -v phpunit)" --do-not-cache-result --bootstrap php/tests/autoload.php php/tests/Grip

test-editor: ## Check the stubs with a PHP language server
	scripts/test-editor.sh

test-frameworks: all ## Run PHPUnit tests of the framework bridges
	$(PHP) -d extension=$(FERMATA_EXTENSION) -d include_path=.:/usr/share/php "$$(command -v phpunit)" --do-not-cache-result \
		--bootstrap php/tests/autoload.php php/tests/Frameworks
	$(PHP) -d extension=$(FERMATA_EXTENSION) "$$(command -v phpunit)" --do-not-cache-result --bootstrap php/tests/autoload.php php/tests/Testing
	$(PHP) -d extension=$(FERMATA_EXTENSION) "$$(command -v phpunit)" --do-not-cache-result --bootstrap php/tests/autoload.php php/tests/FastCgi
	scripts/psr7-tests.sh

# With FERMATA_OCTANE=FOLDER, a checkout of laravel/octane, Octane's own tests run as well.
test-frameworks-newer: all ## Run them with Laravel 10 and Symfony 6.4; FERMATA_OCTANE=FOLDER
	@status=0; folder=$$(scripts/newer-frameworks.sh) || status=$$?; \
	if [ "$$status" = 3 ] && [ -z "$$CI" ]; then echo "NOT RUN: newer frameworks cannot be had here"; exit 0; fi; \
	[ "$$status" = 0 ] || exit "$$status"; \
	FERMATA_FRAMEWORKS=$$folder $(PHP) -d extension=$(FERMATA_EXTENSION) -d include_path=.:/usr/share/php "$$(command -v phpunit)" \
		--do-not-cache-result --bootstrap php/tests/autoload.php php/tests/Frameworks

# FERMATA_PHP_SOURCE=FOLDER is a PHP source tree.
test-requests: all ## Run PHP's own request tests and the comparison with PHP-FPM
	$(PHP) php/tests/Requests/run.php
	FERMATA_EXTENSION=$(FERMATA_EXTENSION) $(PHP) -d extension=$(FERMATA_EXTENSION) "$$(command -v phpunit)" --do-not-cache-result \
		--bootstrap php/tests/autoload.php php/tests/Requests/BesideFpmTest.php

test-browser: all ## Run the chat's tests in Chromium
	scripts/test-browser.sh

test-wordpress: all ## Run WordPress in Chromium; not in `make test`
	FERMATA_TEST_WORDPRESS=1 scripts/test-browser.sh wordpress.test.js

test-mediawiki: all ## Run MediaWiki in Chromium; not in `make test`
	FERMATA_TEST_MEDIAWIKI=1 scripts/test-browser.sh mediawiki.test.js

test-docs: all site ## Run the samples of the documentation and build its site
	$(PHP) scripts/check-samples.php

site: ## Build the documentation site in build/site; a dead link fails
	@scripts/site.sh

test-bench: test-counts test-bench-tables test-bench-loads ## Run every benchmark briefly to check that it works

test-counts: all ## Check instructions and system calls per request; quiet machine
	python3 -m bench counts --check

test-bench-tables: all ## Run the benchmarks that compare peers, briefly
	python3 -m unittest discover -s bench/tests -t .
	python3 -m bench --quick
	python3 -m bench fibers --quick
	python3 -m bench websocket --quick --peers fermata node-ws

test-bench-loads: all ## Run the benchmarks that hold or load, briefly
	python3 -m bench held --quick
	python3 -m bench edge --quick
	# Without hyper, whose compilation takes 90 seconds.
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

# The last command builds all crates, so that test-rust reuses its artefacts.
test-generated: ## Check that generated files are current
	cargo run --locked --quiet --bin fermata-header -- --check
	scripts/arginfo.sh --check
	$(PHP) scripts/stubs.php --check
	$(PHP) scripts/callbacks.php --check
	python3 scripts/process-state.py
	python3 -m bench readme --check --any-age
	python3 scripts/autobahn.py --check
	$(CARGO_TEST) --workspace --exclude fermata-tests reference

test-http2: ## Run h2spec and real HTTP/2 clients, where installed
	scripts/http2.sh

test-revolt: all ## Run Revolt's driver tests; REVOLT=FOLDER is its checkout
	scripts/revolt.sh $(REVOLT)

test-leak: all ## Run the .phpt tests under valgrind
	scripts/phpt.sh --valgrind

##@ Soak and attack

fuzz: ## Fuzz every parser for SECONDS=60 each; needs a nightly Rust
	@scripts/setup.sh fuzz
	for target in fuzz/fuzz_targets/*.rs; do \
		fuzz/run "$$(basename "$$target" .rs)" $(or $(SECONDS),60) || exit 1; \
	done
