# make lint: what can be known without running anything. Each part can be asked for by its name.
C_SRC = $(wildcard lib/*/*.c bin/*.c bin/libexec/*.c tests/unit/*.c tests/fuzz/*.c tests/bench/*.c \
	tests/root/*.c tests/helpers/*.c)
C_ALL = $(C_SRC) $(wildcard lib/*/*.h tests/unit/*.h tests/bench/*.h)
SH_ALL = $(wildcard bin/*.sh share/sbx/*.sh share/sbx/examples/*.sh share/sbx/examples/tasks/*/tests/run tests/run tests/*.bash \
	tests/*.sh tests/bench/run tests/bench/profile tests/bench/*.bash tests/*/*.bats mk/has-parts mk/apt mk/demo mk/debian-root .ci/run completions/sbx.bash)
MAN_ALL = $(wildcard share/man/man?/*.[1-8])
TIDY_FLAGS = -std=gnu11 $(DEFS) -Ilib -Itests/unit -Itests/bench

LINTS := lint-layers lint-format lint-gcc lint-clang lint-cppcheck lint-shell lint-man lint-parts lint-tidy
.PHONY: lint lint-all $(LINTS)
lint: deps-check
	@$(MAKE) --no-print-directory lint-all
lint-all: $(LINTS)
	@echo "lint: clean"

lint-layers:
	@mk/layers $(C_ALL)
lint-format:
	@clang-format --dry-run -Werror $(C_ALL)
# The build is gcc's turn: its warnings are errors.
lint-gcc: all
lint-clang:
	@printf '%s\n' $(C_SRC) | xargs -P2 -n8 clang -fsyntax-only -std=gnu11 $(WARN) $(DEFS) -Ilib -Itests/unit -Itests/bench
# What cppcheck cannot know (that die() does not return, what snprintf fills) clang-tidy knows.
lint-cppcheck:
	@cppcheck -q -j2 --enable=warning,portability,performance --inline-suppr --std=c11 --error-exitcode=1 \
		-Ilib -Itests/unit -Itests/bench -D_GNU_SOURCE -D__x86_64__ --suppress=nullPointerRedundantCheck \
		--suppress=nullPointer --suppress=ctunullpointer --suppress=uninitvar --suppress=ctuuninitvar $(C_SRC)
lint-shell:
	@shellcheck -x -P SCRIPTDIR -e SC1010,SC2012,SC2013,SC2016,SC2154 $(SH_ALL)
lint-man:
	@$(if $(MAN_ALL),mandoc -T lint -W warning $(MAN_ALL))
lint-parts: all
	@mk/has-parts $(O) $(TOOLS) $(SCRIPTS)
lint-tidy:
	@printf '%s\n' $(C_SRC) | xargs -P2 -n4 sh -c 'clang-tidy --quiet "$$@" -- $(subst ','\'',$(TIDY_FLAGS)) 2>&1 | \
		sed "/warnings\\{0,1\\} generated/d; /^Suppressed/d; /^Use -header/d" | tee -a /dev/stderr | \
		{ ! grep -q "error:"; }' tidy
