# weir: one non-recursive make. `make help` lists the targets.
#
#   SAN=address,undefined | thread   builds everything with sanitizers, in a folder of its own
#   V=1                              shows the commands
#   PREFIX, DESTDIR                  where `make install` puts things

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

comma := ,
SAN ?=
BUILD ?= build
B := $(BUILD)$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
PREFIX ?= /usr/local
CC := gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
Q := $(if $(V),,@)
say = @$(if $(V),:,printf '  %-8s %s\n' "$(1)" "$(2)")

# --- packages ---------------------------------------------------------------------------------------------------------------

DEPS := build-essential pkg-config clang llvm libbpf-dev bpftool libelf-dev libdw-dev libprotobuf-c-dev protobuf-c-compiler \
	libcmocka-dev libuv1-dev libssl-dev libjansson-dev libpcre2-dev graphviz libgraphviz-dev fonts-dejavu-core librsvg2-bin libpq-dev jq
DEPS_TEST := openssl riemann-c-client libriemann-client-dev libclang-rt-14-dev postgresql \
	collectd-core ruby-riemann-client libivykis0 libnet1 libwrap0 libjson-c5 libpcre3 $(if $(shell command -v npm),,nodejs npm)
missing = $(shell dpkg-query -W -f '$${db:Status-Abbrev} $${Package}\n' $(1) 2>/dev/null | awk '$$1=="ii"{print $$2}' | sort -u | \
	comm -13 - <(printf '%s\n' $(1) | sort -u))

# What builds and runs; and, in deps-test, real clients and a database to test against.
.PHONY: deps deps-build deps-test
deps: deps-build deps-test
deps-build: DEPS_WANTED = $(DEPS)
deps-test: DEPS_WANTED = $(DEPS_TEST)
deps-build deps-test:
	@missing="$(call missing,$(DEPS_WANTED))"; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" != 0 ]; then \
			echo "make $@: these packages are missing: $$missing; run 'make deps' as root to install them" >&2; exit 1; fi; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi

# Whatever builds needs the packages first. A stamp is remade when the list changes or a tool has gone.
DEPS_STAMP := $(BUILD)/.deps-build
TEST_STAMP := $(BUILD)/.deps-test
TOOLS := $(foreach t,$(CC) $(CLANG) $(BPFTOOL) protoc-c dot pkg-config jq,$(if $(shell command -v $(t)),,gone))
ifneq ($(strip $(TOOLS)),)
.PHONY: $(DEPS_STAMP)
endif
$(DEPS_STAMP) $(TEST_STAMP): $(BUILD)/.%: Makefile
	@$(MAKE) --no-print-directory $*
	@mkdir -p $(@D) && touch $@
$(TEST_STAMP): | $(DEPS_STAMP)

# --- flags ------------------------------------------------------------------------------------------------------------------

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla $(if $(CI),-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all)
OPT ?= $(if $(SAN),-O1,-O2)
CFLAGS_ALL := -std=gnu11 -g $(OPT) -fno-omit-frame-pointer -pthread $(WARN) $(SANFLAGS) $(CFLAGS)
CPPFLAGS_ALL := -D_GNU_SOURCE -I. -isystem $(B)/gen -isystem /usr/include/postgresql $(CPPFLAGS)
LDFLAGS_ALL := -pthread $(SANFLAGS) $(LDFLAGS)
# Only servers that store rows, or listen by TLS, need these.
PQ_LIBS := -Wl,--as-needed -lpq -Wl,--no-as-needed
TLS_LIBS := -Wl,--as-needed -lssl -lcrypto -Wl,--no-as-needed
LIBS := -luv -lprotobuf-c -ljansson -lpcre2-8 -lbpf -ldw -lelf -lgvc -lcgraph -lm $(PQ_LIBS)
TEST_LIBS := -lcmocka $(TLS_LIBS)

# --- rooms ------------------------------------------------------------------------------------------------------------------
# A room is a folder, a static archive, and the rooms it stands on (see tests/check-deps for who may include whom).

ROOMS := base wire query lang compile runtime stages client tracer viz
DIR_base := base
DIR_wire := pipeline_dsl/wire
DIR_query := pipeline_dsl/query
DIR_lang := pipeline_dsl/lang
DIR_compile := pipeline_dsl/compile
DIR_runtime := pipeline_dsl/runtime
DIR_stages := pipeline_dsl/stages
DIR_client := pipeline_dsl/client
DIR_tracer := tracer
DIR_viz := viz
NEEDS_base := base
NEEDS_wire := wire base
NEEDS_query := query base
NEEDS_lang := lang query base
NEEDS_compile := compile base
NEEDS_runtime := runtime wire base
NEEDS_stages := stages runtime client query wire base
NEEDS_client := client wire base
NEEDS_tracer := tracer base
NEEDS_viz := viz base

GEN_base := $(B)/gen/profile.pb-c.h
GEN_wire := $(B)/gen/riemann.pb-c.h
GEN_tracer := $(B)/gen/weir.skel.h

lib = $(B)/lib/weir/libweir-$(1).a
libs_of = $(foreach r,$(NEEDS_$(1)),$(call lib,$(r)))

define room
SRC_$(1) := $$(wildcard $$(DIR_$(1))/*.c)
OBJ_$(1) := $$(SRC_$(1):%.c=$(B)/obj/%.o) $$(patsubst %.h,%.o,$$(filter %.pb-c.h,$$(GEN_$(1))))
$$(OBJ_$(1)): $$(GEN_$(1)) | $$(DEPS_STAMP)
$$(call lib,$(1)): $$(OBJ_$(1))
	$$(call say,AR,$$@)
	$$(Q)mkdir -p $$(@D) && rm -f $$@ && ar rcs $$@ $$(OBJ_$(1))
endef
$(foreach r,$(ROOMS),$(eval $(call room,$(r))))

CLI_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tracer/cli/*.c))
$(CLI_OBJ): | $(DEPS_STAMP)
WEIR := $(B)/bin/weir
CLI_ROOMS := viz tracer compile lang query client wire base

$(B)/obj/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

$(B)/gen/%.o: $(B)/gen/%.h
	$(call say,CC,$(@:.o=.c))
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -w -c $(@:.o=.c) -o $@

$(B)/gen/profile.pb-c.h: base/profile.proto | $(DEPS_STAMP)
	$(call say,PROTOC,$<)
	$(Q)mkdir -p $(@D) && protoc-c --proto_path=base --c_out=$(@D) $<
$(B)/gen/riemann.pb-c.h: pipeline_dsl/wire/riemann.proto | $(DEPS_STAMP)
	$(call say,PROTOC,$<)
	$(Q)mkdir -p $(@D) && protoc-c --proto_path=pipeline_dsl/wire --c_out=$(@D) $<

# The probes: one BPF object, so that the kernel's types are read once; its skeleton is C.
BPF_SRC := $(wildcard probes/*.bpf.c)
$(B)/gen/weir.bpf.o: probes/weir.bpf.c $(wildcard probes/*.h) base/histogram_bucket.h base/topology.h | $(DEPS_STAMP)
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D) && $(CLANG) -target bpf -mcpu=v3 -O2 -g -Wall -Werror -I. -I/usr/include/$(shell uname -m)-linux-gnu -c $< -o $@
$(B)/gen/weir.skel.h: $(B)/gen/weir.bpf.o
	$(call say,SKEL,$<)
	$(Q)$(BPFTOOL) gen skeleton $< name weir_bpf > $@

$(WEIR): $(CLI_OBJ) $(foreach r,$(CLI_ROOMS),$(call lib,$(r)))
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) $(CLI_OBJ) -Wl,--start-group $(foreach r,$(CLI_ROOMS),$(call lib,$(r))) -Wl,--end-group $(LIBS) -o $@

# What `weir build` compiles against: headers, archives, and the flags that this build used.
SDK := $(B)/lib/weir/flags
SDK_ROOMS := stages runtime client query wire base
$(SDK): Makefile | $(DEPS_STAMP)
	$(Q)mkdir -p $(@D) $(B)/include/weir
	$(Q)for d in base probes pipeline_dsl; do ln -sfn $(CURDIR)/$$d $(B)/include/weir/$$d; done
	$(Q)ln -sfn $(CURDIR)/pipeline_dsl/runtime/call.h $(B)/include/weir/call.h
	$(Q)printf 'cflags %s\nlibs %s\n' '-std=gnu11 -g $(OPT) -fno-omit-frame-pointer -pthread $(SANFLAGS)' \
		'$(SDK_ROOMS:%=-lweir-%) -luv -lprotobuf-c -lpcre2-8 -lm $(PQ_LIBS) $(TLS_LIBS)' > $@

.PHONY: all
all: $(WEIR) $(SDK) $(foreach r,$(ROOMS),$(call lib,$(r)))

# --- tests ------------------------------------------------------------------------------------------------------------------

UNIT_SRC := $(wildcard tests/unit/*/*_test.c)
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(UNIT_SRC))
SYSTEM_SRC := $(wildcard tests/system/*_test.c)
SYSTEM := $(patsubst tests/system/%.c,$(B)/tests/system/%,$(SYSTEM_SRC))
FUZZ_SRC := $(wildcard tests/fuzz/*_fuzz.c)
FUZZ := $(patsubst tests/fuzz/%_fuzz.c,%,$(FUZZ_SRC))
REPLAY := $(FUZZ:%=$(B)/tests/fuzz/%_replay)
FUZZ_SECONDS ?= 60

export LSAN_OPTIONS := suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0
export TSAN_OPTIONS := suppressions=$(CURDIR)/tests/tsan.supp:print_suppressions=0

# A unit test in tests/unit/ROOM links the room and what that stands on.
.SECONDEXPANSION:
$(UNIT): $(B)/tests/unit/%: $(B)/obj/tests/unit/%.o $$(call libs_of,$$(firstword $$(subst /, ,$$*)))
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(TEST_LIBS) $(LIBS) -o $@

HARNESS := $(patsubst %.c,$(B)/obj/%.o,$(filter-out $(SYSTEM_SRC),$(wildcard tests/system/*.c)))
HARNESS_ROOMS := tracer viz client wire base
$(SYSTEM): $(B)/tests/system/%: $(B)/obj/tests/system/%.o $(HARNESS) $(foreach r,$(HARNESS_ROOMS),$(call lib,$(r))) | all
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) $< $(HARNESS) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(TEST_LIBS) $(LIBS) -o $@

$(REPLAY): $(B)/tests/fuzz/%_replay: $(B)/obj/tests/fuzz/%_fuzz.o $(B)/obj/tests/fuzz/replay.o $(foreach r,viz lang query wire base,$(call lib,$(r)))
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS) -o $@

$(patsubst %.c,$(B)/obj/%.o,$(UNIT_SRC) $(SYSTEM_SRC) $(wildcard tests/system/*.c tests/fuzz/*.c tests/bench/*.c)): $(GEN_base) $(GEN_wire) | $(TEST_STAMP)

# Clients that no package can simply bring: npm's, and syslog-ng, whose package would put out the machine's own log daemon, so
# that it is only unpacked.
INTEROP := $(B)/interop/.ready
$(INTEROP): tests/interop/fetch | $(TEST_STAMP)
	$(call say,FETCH,$(@D))
	$(Q)mkdir -p $(@D) && tests/interop/fetch $(@D) && touch $@

.PHONY: test unit cases system replay
test: check-deps unit cases replay system
	@tests/summary $(B)/tests

unit: $(UNIT)
	@tests/run-programs $(B)/tests unit $(UNIT)
system: $(SYSTEM) all
	@tests/run-programs $(B)/tests system $(SYSTEM)
cases: all $(INTEROP)
	@tests/run-cases $(B) tests/cases
replay: $(REPLAY)
	@tests/run-replay $(B) $(FUZZ)

.PHONY: fuzz
fuzz: $(FUZZ:%=fuzz-%)
fuzz-%: tests/fuzz/%_fuzz.c $(GEN_base) $(GEN_wire) | $(TEST_STAMP)
	$(Q)mkdir -p $(BUILD)/fuzz/$* tests/fuzz/corpus/$*
	$(Q)$(CLANG) $(CPPFLAGS_ALL) -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		$< $(SRC_base) $(SRC_wire) $(SRC_query) $(SRC_lang) $(filter-out viz/render.c,$(SRC_viz)) $(B)/gen/profile.pb-c.c $(B)/gen/riemann.pb-c.c \
		-lprotobuf-c -ljansson -lpcre2-8 -lm -o $(BUILD)/fuzz/$*/fuzz
	$(Q)cd $(BUILD)/fuzz/$* && ./fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 . $(CURDIR)/tests/fuzz/corpus/$*

.PHONY: soak bench demo stories lint check-deps
soak: all $(SYSTEM)
	@WEIR_SOAK=1 tests/run-programs $(B)/tests soak $(SYSTEM)
BENCH := $(B)/bench/straight $(B)/bench/crossing $(B)/bench/clients $(B)/bench/delay $(B)/bench/index
$(B)/bench/clients: BENCH_LIBS := -lriemann-client
$(BENCH): $(B)/bench/%: $(B)/obj/tests/bench/%.o $(foreach r,$(SDK_ROOMS),$(call lib,$(r)))
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS_ALL) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(BENCH_LIBS) -luv -lprotobuf-c -lpcre2-8 -lm -o $@
bench: all $(BENCH)
	@tests/bench/run $(B) $(ONLY)
demo: all
	@pipeline_dsl/examples/demo $(B)
stories: all $(B)/bench/delay
	@pipeline_dsl/examples/stories $(B)
check-deps:
	@tests/check-deps

# clang's thread-safety analysis and the compiler's warnings as errors.
lint: $(GEN_base) $(GEN_wire) $(GEN_tracer)
	$(Q)$(CLANG) $(CPPFLAGS_ALL) -std=gnu11 -fsyntax-only -Wall -Wextra -Werror -Wthread-safety \
		$(foreach r,$(ROOMS),$(SRC_$(r))) $(wildcard tracer/cli/*.c)

# --- install, clean ---------------------------------------------------------------------------------------------------------

.PHONY: install clean help
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/weir $(DESTDIR)$(PREFIX)/include/weir
	install -m 755 $(WEIR) $(DESTDIR)$(PREFIX)/bin/weir
	install -m 644 $(foreach r,$(SDK_ROOMS),$(call lib,$(r))) $(SDK) $(DESTDIR)$(PREFIX)/lib/weir/
	for h in $$(find base probes/contract.h pipeline_dsl/wire pipeline_dsl/query pipeline_dsl/runtime pipeline_dsl/stages -name '*.h'); do \
		install -D -m 644 $$h $(DESTDIR)$(PREFIX)/include/weir/$$h; done
	install -m 644 pipeline_dsl/runtime/call.h $(DESTDIR)$(PREFIX)/include/weir/call.h
	install -m 644 pipeline_dsl/client/riemann.h $(DESTDIR)$(PREFIX)/include/weir/riemann.h
	install -D -m 644 pipeline_dsl/client/result.h $(DESTDIR)$(PREFIX)/include/weir/pipeline_dsl/client/result.h
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: weir-client' 'Description: Riemann client: pipelined, batching, synchronous, datagram' \
		'Version: 1' 'Cflags: -I$${prefix}/include/weir -I$${prefix}/include -pthread' \
		'Libs: -L$${prefix}/lib/weir -lweir-client -lweir-wire -lweir-base -lprotobuf-c -lm -pthread' \
		>$(DESTDIR)$(PREFIX)/lib/pkgconfig/weir-client.pc
clean:
	rm -rf $(BUILD)
help:
	@echo 'make all | demo | stories | test | bench | soak | fuzz | lint | check-deps | deps | install | clean   (SAN=… V=1)'

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
