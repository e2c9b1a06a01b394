# Figures against peers, pair by pair; tests/bench/README.md tells how to read them.
# make bench BENCH_N=50: more pairs. make bench-peers: the peers and the kernel's floor alone.
BENCH_N ?= 20
BENCH := $(O)/bench

.PHONY: bench bench-run bench-peers profile
# A second make: the compilers may just have been installed.
bench: deps-bench
	@$(MAKE) --no-print-directory bench-run
bench-run: all $(BENCH)/pair $(BENCH)/bare
	$(Q)O=$(abspath $(O)) BENCH_N=$(BENCH_N) tests/bench/run
bench-peers: $(O)/libexec/sbx-init $(BENCH)/pair $(BENCH)/bare
	$(Q)O=$(abspath $(O)) BENCH_N=$(BENCH_N) tests/bench/run peers
profile: all $(BENCH)/pair $(BENCH)/bare
	$(Q)O=$(abspath $(O)) tests/bench/profile

BENCH_SRC_pair := tests/bench/pair.c
BENCH_SRC_bare := $(wildcard tests/bench/bare*.c)
$(BENCH)/%: tests/bench/%.c $(wildcard tests/bench/*.[ch]) $(O)/static/libsbx.a
	@mkdir -p $(@D)
	$(Q)$(STATIC_CC) $(STATIC_CFLAGS) $(STATIC_LDFLAGS) -Itests/bench -o $@ $(BENCH_SRC_$*) $(O)/static/libsbx.a
