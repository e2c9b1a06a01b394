# make demo: a Debian root, sixteen boxes, a rollout over real tasks; leaves nothing but the cached root.
.PHONY: demo demo-run
# A second make: the compilers may just have been installed.
demo: deps-demo
	@$(MAKE) --no-print-directory demo-run
demo-run: all
	@mk/demo $(abspath $(O))
