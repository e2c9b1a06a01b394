# Figures against peers, pair by pair; tests/bench/README.md tells how to read them.
# make bench BENCH_N=50: more pairs. make bench-images: whole jobs with images, which make bench has too.
# make bench-peers: the peers and the floor alone.
BENCH_N ?= 20
BENCH := $(O)/bench

.PHONY: bench bench-run bench-peers bench-images bench-images-run profile
# A second make: the compilers may just have been installed.
bench: deps-bench deps-check
	@$(MAKE) --no-print-directory bench-run bench-images-run
bench-run: all $(BENCH)/pair $(BENCH)/bare
	$(Q)O=$(abspath $(O)) BENCH_N=$(BENCH_N) tests/bench/run
# Whole jobs with images: workspaces, a burst from a slow depot, snapshots, imports.
bench-images: deps-bench deps-check
	@$(MAKE) --no-print-directory bench-images-run
bench-images-run: all $(O)/tests/helpers/slowfs
	$(Q)O=$(abspath $(O)) tests/bench/images
bench-peers: $(O)/libexec/sbx-init $(BENCH)/pair $(BENCH)/bare
	$(Q)O=$(abspath $(O)) BENCH_N=$(BENCH_N) tests/bench/run peers
profile: all $(BENCH)/pair $(BENCH)/bare
	$(Q)O=$(abspath $(O)) tests/bench/profile

BENCH_SRC_pair := tests/bench/pair.c
BENCH_SRC_bare := $(wildcard tests/bench/bare*.c)
$(BENCH)/%: tests/bench/%.c $(wildcard tests/bench/*.[ch]) $(O)/static/libsbx.a
	@mkdir -p $(@D)
	$(Q)$(STATIC_CC) $(STATIC_CFLAGS) $(STATIC_LDFLAGS) -Itests/bench -o $@ $(BENCH_SRC_$*) $(O)/static/libsbx.a
