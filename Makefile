# kreplay. On Debian 12 `make run` and `make test` need git, make and root, and install everything else.
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
# For parts that share no files: their output comes part by part.
PARALLEL = --jobs=$(shell nproc) --output-sync=target
Q := $(if $(V),,@)
comma := ,

# One for kernels that have bpf_rdonly_cast(), one for those that do not: bpf/kernel_compat.bpf.h says why.
BPF_OBJECTS := build/bpf/kreplay.bpf.o build/bpf/kreplay_cast.bpf.o #
# Line information without our folder: the same object from any.
BPF_CFLAGS = -target bpf -D__TARGET_ARCH_x86 -g -O2 -Wall -Wextra -Werror -Wno-unused-parameter \
	-I/usr/include/x86_64-linux-gnu -Ibpf -fdebug-prefix-map='$(CURDIR)=.'
# Beside libbpf-ts, which has a Makefile of its own.
ADDONS := clock columns system tables
ADDON_CXXFLAGS = -std=c++20 -O3 -fPIC -fvisibility=hidden -fno-exceptions -Wall -Wextra -DNAPI_VERSION=9 \
	-DNAPI_DISABLE_CPP_EXCEPTIONS -DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS -DNODE_GYP_MODULE_NAME=$* \
	-isystem node_modules/node-addon-api -isystem node_modules/node-api-headers/include \
	-isystem node_modules/better-sqlite3/deps/sqlite3
ADDON_LDFLAGS = -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,relro,-z,now -static-libstdc++ -static-libgcc
ADDON_LIBS_columns := -l:libzstd.a
# An extension of SQLite, for the one that better-sqlite3 brings.
PAGES_CFLAGS := -std=c17 -D_GNU_SOURCE -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Werror -shared \
	-isystem node_modules/better-sqlite3/deps/sqlite3
# Static: it starts builds that may bring a libc of their own, or none.
RUNNER_CFLAGS := -std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -pthread -Inative/runner
C_SOURCES = $(filter-out native/runner/gen/%,$(wildcard bpf/*.bpf.[ch] native/src/*.cc native/src/*.h native/src/*.c native/runner/*/*.[ch] native/pages/*.[ch] $(ADDONS:%=native/%/*.cc) $(ADDONS:%=native/%/*.h) native/base/*.h test/*/*.[ch] test/*/*/*.[ch] test/*/*/*.cc test/*/*/*/*.c))

# Debian packages, each beside a command or file that shows that it is there.
BUILD_PACKAGES := clang:/usr/bin/clang g++:/usr/bin/g++ bpftool:/usr/sbin/bpftool \
	libbpf-dev:/usr/include/bpf/libbpf.h libelf-dev:/usr/include/libelf.h libxxhash-dev:/usr/include/xxhash.h \
	libzstd-dev:/usr/include/zstd.h zlib1g-dev:/usr/include/zlib.h zopfli:/usr/bin/zopfli
RELEASE_PACKAGES := dpkg-dev:/usr/bin/dpkg-scanpackages gpg:/usr/bin/gpg gpg-agent:/usr/bin/gpg-agent gpgconf:/usr/bin/gpgconf
TEST_PACKAGES := $(RELEASE_PACKAGES) bpftrace:/usr/bin/bpftrace btrfs-progs:/sbin/mkfs.btrfs busybox-static:/usr/bin/busybox caddy:/usr/bin/caddy chromium:/usr/bin/chromium \
	chromium-headless-shell:/usr/bin/chromium-headless-shell \
	clickhouse-server:/usr/sbin/clickhouse-server curl:/usr/bin/curl debootstrap:/usr/sbin/debootstrap e2fsprogs:/sbin/mkfs.ext4 \
	default-jdk-headless:/usr/bin/javac etcd-server:/usr/bin/etcd fio:/usr/bin/fio fish:/usr/bin/fish golang-go:/usr/bin/go haproxy:/usr/sbin/haproxy jq:/usr/bin/jq \
	libclang-rt-14-dev:/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.fuzzer-x86_64.a \
	lintian:/usr/bin/lintian mandoc:/usr/bin/mandoc mount:/bin/mount nginx:/usr/sbin/nginx openssl:/usr/bin/openssl php-cli:/usr/bin/php \
	postgresql-15:/usr/lib/postgresql/15/bin/pgbench \
	procps:/usr/bin/pgrep prometheus:/usr/bin/promtool protobuf-compiler:/usr/bin/protoc python3:/usr/bin/python3 \
	python3-yaml:/usr/lib/python3/dist-packages/yaml \
	redis-server:/usr/bin/redis-server ruby:/usr/bin/ruby \
	rustc:/usr/bin/rustc sqlite3:/usr/bin/sqlite3 strace:/usr/bin/strace systemd:/usr/bin/systemd-analyze \
	systemd-container:/usr/bin/systemd-nspawn tmux:/usr/bin/tmux xfsprogs:/sbin/mkfs.xfs zookeeper:/usr/share/java/zookeeper.jar zsh:/usr/bin/zsh
KERNEL_PACKAGES := busybox-static:/bin/busybox e2fsprogs:/sbin/mkfs.ext4 kmod:/sbin/depmod lz4:/usr/bin/lz4 \
	qemu-system-x86:/usr/bin/qemu-system-x86_64 xz-utils:/usr/bin/xz zstd:/usr/bin/zstd
# The packages' programs before others of the same name: a version manager's python3 takes half a second to start.
TEST_PATH = $(CURDIR)/node_modules/.bin:/usr/sbin:/usr/bin:/sbin:/bin:$(PATH)
SOAK_MINUTES ?= 20
LINT_PACKAGES := clang-format:/usr/bin/clang-format
BENCH_PACKAGES := bpftrace:/usr/bin/bpftrace chromium:/usr/bin/chromium linux-perf:/usr/bin/perf strace:/usr/bin/strace wrk:/usr/bin/wrk

# What a first build takes in this folder: npm packages, the programs, and room while npm unpacks.
ROOM_MB := 800

help: ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: build ## set up, build, record into ./data and serve http://127.0.0.1:7467
	@exec build/kreplay up

build: setup ## set up and build everything: build/kreplay
	$(Q)$(MAKE) --no-print-directory --jobs=$(shell nproc) --output-sync=line bpf native javascript

javascript: setup
	@echo "  TSC      build/js"
	$(Q)tsc -b
	@echo "  TSC      daemon/page"
	$(Q)tsc -p daemon/page
	@echo "  GUIDE    build/guide"
	$(Q)node daemon/package/guide.ts build/guide
	@echo "  PAGE     build/page"
	$(Q)node daemon/package/web_page.ts build/page
	$(Q)install -m 755 agent/launcher.sh build/kreplay

setup: packages node_modules/.package-lock.json ## install what the build needs: Debian packages, npm packages with the pinned Node

packages:
	@[ "$$(uname -sm)" = "Linux x86_64" ] || { echo "kreplay runs on Linux on x86-64, not on $$(uname -sm)" >&2; exit 1; }
	$(if $(wildcard node_modules/.package-lock.json),,$(announce))
	$(call need,$(BUILD_PACKAGES) $(if $(shell command -v npm),,npm:/usr/bin/npm))

node_modules/.package-lock.json: package-lock.json package.json native/package.json
	@echo "  NPM      node_modules: a minute or two"
	$(Q)npm ci --no-audit --no-fund --loglevel=error
	@touch $@

bpf: $(BPF_OBJECTS) ## compile the BPF programs

build/bpf/kreplay_cast.bpf.o: BPF_CFLAGS += -DWITH_RDONLY_CAST
# bpftool leaves out the sections that only a debugger reads, half of the file.
$(BPF_OBJECTS): bpf/kreplay.bpf.c $(wildcard bpf/*.bpf.h) bpf/gen/events.h
	@mkdir -p $(@D)
	@echo "  BPF      $@"
	$(Q)clang $(BPF_CFLAGS) -c $< -o $@.tmp
	$(Q)/usr/sbin/bpftool gen object $@ $@.tmp
	$(Q)rm $@.tmp

native: setup $(ADDONS:%=build/%.node) build/pages.so build/kreplay-runner ## compile the addons and the runner
	$(Q)$(MAKE) --no-print-directory -C native

build/columns.node: $(wildcard /usr/lib/x86_64-linux-gnu/libzstd.a)

.SECONDEXPANSION:
$(ADDONS:%=build/%.node): build/%.node: $$(wildcard native/$$*/*.cc native/$$*/*.h native/base/*.h) Makefile | setup
	@mkdir -p $(@D)
	@echo "  CXX      $@"
	$(Q)g++ $(ADDON_CXXFLAGS) -shared -o $@.tmp native/$*/*.cc $(ADDON_LIBS_$*) $(ADDON_LDFLAGS)
	$(Q)mv $@.tmp $@

# Under sanitizers: `make sanitized`.
SANITIZED := $(patsubst %,build/sanitized/%.node,columns tables)
$(SANITIZED): build/sanitized/%.node: $$(wildcard native/$$*/*.cc native/$$*/*.h native/base/*.h) Makefile | setup
	@mkdir -p $(@D)
	@echo "  CXX      $@"
	$(Q)g++ $(subst -O3,-O1 -g,$(ADDON_CXXFLAGS)) -fsanitize=address,undefined -fno-sanitize-recover=all -shared \
		-o $@.tmp native/$*/*.cc $(ADDON_LIBS_$*) -Wl,--exclude-libs,ALL -Wl,-Bsymbolic
	$(Q)mv $@.tmp $@

build/pages.so: $(wildcard native/pages/*.[ch]) Makefile | setup
	@mkdir -p $(@D)
	@echo "  CC       $@"
	$(Q)gcc $(PAGES_CFLAGS) -o $@.tmp native/pages/*.c -Wl,-Bsymbolic -Wl,-z,relro,-z,now
	$(Q)mv $@.tmp $@

build/kreplay-runner: $(wildcard native/runner/*/*.[ch]) Makefile | setup
	@mkdir -p $(@D)
	@echo "  CC       $@"
	$(Q)gcc $(RUNNER_CFLAGS) -o $@.tmp native/runner/*/*.c -lm
	$(Q)mv $@.tmp $@

deb: build ## build the Debian package: build/kreplay_VERSION_amd64.deb
	node daemon/package/build_deb.ts

ci-archive: build ## build the archive for CI runners, which records nothing: build/kreplay-ci_VERSION_linux_amd64.tar.gz
	node daemon/package/build_ci_archive.ts

# A release is built from its source archive, in a folder of its own: what it signs is what a clone of the commit makes.
release: setup ## make a release of the last commit, with a signed repository for apt: build/release (SIGNING_KEY=NAME: a key of gpg)
	$(call need,$(RELEASE_PACKAGES),a release)
	$(Q)node daemon/package/release/build_release.ts

gen: setup ## write the generated files again: bpf/gen/events.h, native/runner/gen/format.h, the action for GitHub, examples of the API, tables of the pages
	node bpf/schema/generate.ts
	node daemon/run/format/generate.ts
	node daemon/run/job/generate.ts
	node daemon/server/generated_pages.ts
	$(Q)$(MAKE) --no-print-directory native javascript
	node daemon/server/examples/generate.ts

docs: build ## write native/API.md and KERNEL.md, and take the pages' pictures again (as root: they are of a real recording)
	$(call need,chromium:/usr/bin/chromium tmux:/usr/bin/tmux,the pictures)
	$(Q)$(MAKE) --no-print-directory -C native docs
	$(Q)node daemon/package/pictures.ts

test: build $(if $(TESTS),,lint) ## before a change lands: every promise once, in some twelve minutes (as root: BPF programs are loaded)
	@$(MAKE) --no-print-directory test-packages
	$(Q)PATH="$(TEST_PATH)" node test/jest/run.js test $(TESTS)

test-long: build ## what needs depth, in hours: many kills and random cases, Debian roots, all kernels, soaks; TESTS=test/ship for an area
	@$(MAKE) --no-print-directory test-packages
	$(Q)PATH="$(TEST_PATH)" node test/jest/run.js long $(TESTS)
	$(Q)$(if $(TESTS),,$(MAKE) --no-print-directory test-kernels soak)

test-packages:
	@test/packages/install_packages.sh "the tests" wanted $(TEST_PACKAGES)

sanitized: build $(SANITIZED) ## run the tests of native/columns and native/tables with builds that sanitizers watch
	$(Q)PATH="$(TEST_PATH)" node test/jest/run.js sanitized $(TESTS)

test-kernels: build ## boot other kernels in QEMU and record in each (as root); KERNELS="oldest newest" for some
	-@$(MAKE) --no-print-directory kernel-packages
	$(Q)node --disable-warning=ExperimentalWarning test/qemu/run.ts $(KERNELS)

# Outside of node_modules, whose lock file it does not belong to.
CHDB := chdb@3.4.0
test-fleet-new: build ## run statements and blocks for ClickHouse on the newest version that can be embedded (540 MB from npm)
	@mkdir -p build/chdb && echo '{"private":true}' > build/chdb/package.json
	$(Q)if npm install --prefix build/chdb --no-save --no-audit --no-fund --loglevel=error $(CHDB); then \
		node test/clickhouse/newest.ts build/chdb && node test/daemon/store/fleet/newest_reads.ts build/chdb; \
	else \
		echo "skipped: $(CHDB) cannot be installed here, so nothing ran on a newer ClickHouse"; \
	fi

kernel-packages:
	$(call need,$(KERNEL_PACKAGES),other kernels)

check: build lint ## before a commit, in 90 seconds: format, style, types, and the tests that need neither root nor a kernel
	$(Q)PATH="$(TEST_PATH)" node test/jest/run.js check $(TESTS)

lint: build ## check format and style
	$(call need,$(LINT_PACKAGES),the format)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) lint-types lint-style lint-c lint-api

lint-types:
	tsc -p test

lint-style:
	biome check --error-on-warnings .

lint-c:
	clang-format --dry-run --Werror $(C_SOURCES)

lint-api:
	node daemon/server/write_contract.ts build/openapi.json
	REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true redocly lint build/openapi.json

format: setup ## put format and style right
	$(call need,$(LINT_PACKAGES),the format)
	biome check --write .
	clang-format -i $(C_SOURCES)

fuzz: sanitized ## send a hundred thousand allowed and hostile requests, open as many hostile BPF objects; libFuzzer on their types
	$(Q)REPEATS=160 PATH="$(TEST_PATH)" node test/jest/run.js long test/fuzz test/native/hostile/hostile test/native/hostile/type_information

soak: build ## twenty minutes (SOAK_MINUTES) of load, kills, full disks, set clocks and slow clients; report in build/soak
	$(call need,mount:/bin/mount,the soak)
	SOAK_MINUTES=$(SOAK_MINUTES) node test/soak/run.ts

bench: build ## measure beside peers; results in build/bench
	$(call need,$(BENCH_PACKAGES),benchmarks)
	node test/bench/run.ts $(subst $(comma), ,$(BENCHES))

clean: ## remove what was built and installed
	rm -rf build native/build node_modules

.PHONY: check help run build javascript setup packages bpf native deb ci-archive release gen docs test test-long test-packages sanitized test-kernels test-fleet-new kernel-packages lint lint-types lint-style lint-c lint-api format fuzz soak bench clean

# Installs the packages of $(1) that are missing, or names them exactly.
need = @test/packages/install_packages.sh "$(or $(2),the build)" required $(1)

# Says what a first build takes, and ends it where there is no room.
define announce
	@echo "a first build takes 2.2 GB, of which $(ROOM_MB) MB are here, and some 8 minutes on two CPUs"
	@free_mb=$$(df --output=avail -BM . | tail -n 1 | tr -d ' M'); [ "$$free_mb" -ge $(ROOM_MB) ] || { \
		echo "a build needs $(ROOM_MB) MB in $(CURDIR), where $$free_mb MB are free: free some space, or clone to another disk" >&2; exit 1; }
endef
