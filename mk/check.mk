# make check: every test, then one closing line. make check T="tests/tool/img.bats ...": these alone.
# make check-unit, check-fuzz, check-tool, check-root: one kind. FUZZ_SECONDS=600 fuzzes longer.
UNIT := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(wildcard tests/unit/test_*.c))
FUZZ := $(patsubst tests/fuzz/%.c,$(O)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
BATS_TOOL := $(wildcard tests/tool/*.bats)
BATS_ROOT := $(wildcard tests/root/*.bats)
HELPER := $(O)/tests/helpers/slowfs
ALL_LIBS := -Wl,--as-needed -larchive -lcrypto -lgit2 -ljson-c -lseccomp -lzstd
CHECK_RUN = O=$(abspath $(O)) tests/run $(O)

.PHONY: check check-all check-one check-unit check-fuzz check-tool check-root
# A second make: the compilers may just have been installed.
check: deps-check
	@$(MAKE) --no-print-directory $(if $(T),check-one,check-all)
check-all: all $(HELPER) $(UNIT) $(FUZZ)
	@$(CHECK_RUN) $(UNIT) $(FUZZ) $(BATS_TOOL) $(BATS_ROOT)
check-one: all $(HELPER) $(filter $(O)/%,$(T))
	@$(CHECK_RUN) $(T)
check-unit: $(UNIT)
	@$(CHECK_RUN) $(UNIT)
check-fuzz: $(FUZZ)
	@$(CHECK_RUN) $(FUZZ)
check-tool: all $(HELPER)
	@$(CHECK_RUN) $(BATS_TOOL)
check-root: all $(HELPER)
	@$(CHECK_RUN) $(BATS_ROOT)

$(O)/tests/unit/%: tests/unit/%.c tests/unit/tap.h $(O)/dyn/libsbx.a
	@mkdir -p $(@D)
	$(Q)$(DYN_CC) $(DYN_CFLAGS) $(DYN_LDFLAGS) -Itests/unit -MMD -MP -o $@ $< $(O)/dyn/libsbx.a $(ALL_LIBS)

# Recursive: the library may just have been installed.
FUSE = $(shell pkg-config --cflags --libs fuse3)
$(O)/tests/helpers/%: tests/helpers/%.c $(O)/dyn/libsbx.a
	@mkdir -p $(@D)
	$(Q)$(DYN_CC) $(DYN_CFLAGS) $(DYN_LDFLAGS) -MMD -MP -o $@ $< $(O)/dyn/libsbx.a $(FUSE)

# The library once more, by clang with its sanitizers, for the fuzz targets.
FUZZ_CC ?= clang
FUZZ_CFLAGS := -std=gnu11 -O1 -g $(DEFS) -Ilib -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_OBJ := $(LIB_SRC:%.c=$(O)/fuzz/%.o)
$(O)/fuzz/%.o: %.c $(O)/flags
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<
$(O)/fuzz/libsbx.a: $(FUZZ_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^
$(O)/tests/fuzz/%: tests/fuzz/%.c $(O)/fuzz/libsbx.a
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer -Itests/unit -MMD -MP -o $@ $< $(O)/fuzz/libsbx.a $(ALL_LIBS)
