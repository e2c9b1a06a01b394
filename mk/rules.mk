# make V=1 shows the commands.
Q := $(if $(V),,@)

TOOLS := $(basename $(notdir $(wildcard bin/*.c)))
SCRIPTS := $(basename $(notdir $(wildcard bin/*.sh)))
HELPERS := $(filter-out sbx-init,$(basename $(notdir $(wildcard bin/libexec/*.c))))

# A tool with libraries is dynamic on glibc; every other one is static.
LIBS_sbx-img := -larchive -lcrypto -ljson-c
LIBS_sbx-img-push := -lcrypto
LIBS_sbx-img-fetch := -lcrypto
LIBS_sbx-img-verify := -lcrypto
LIBS_sbx-img-cache := -lcrypto
LIBS_sbx-img-pull := $(LIBS_sbx-img)
LIBS_sbx-img-export := -larchive -lcrypto -ljson-c
LIBS_sbx-img-collapse := -larchive -lcrypto -ljson-c
LIBS_sbx-snap := -lcrypto
LIBS_sbx-fork := -lcrypto
LIBS_sbx-cp := -larchive
LIBS_sbx-seccomp := -lseccomp
LIBS_sbx-lint := -lgit2
# Modules that need those libraries' headers: in the dynamic libsbx only.
NEED_LIBS := $(wildcard lib/store/import*.c lib/store/oci*.c lib/store/tar*.c lib/store/digest*.c lib/store/stage*.c lib/store/depot*.c lib/store/cache_*.c lib/store/export*.c lib/store/verify*.c lib/kern/seccomp_compile.c lib/box/copy_*.c lib/box/reach.c lib/box/lint*.c lib/box/snapshot.c)

LIB_SRC := $(wildcard lib/*/*.c)
DYN_OBJ := $(LIB_SRC:%.c=$(O)/dyn/%.o)
STATIC_OBJ := $(patsubst %.c,$(O)/static/%.o,$(filter-out $(NEED_LIBS),$(LIB_SRC)))

is_dyn = $(if $(strip $(LIBS_$(1))),dyn,static)
BIN := $(TOOLS:%=$(O)/bin/%) $(SCRIPTS:%=$(O)/bin/%)
LIBEXEC := $(HELPERS:%=$(O)/libexec/%) $(O)/libexec/sbx-init

.PHONY: all clean
all: $(BIN) $(LIBEXEC)

$(O)/dyn/%.o: %.c $(O)/flags GNUmakefile $(wildcard mk/rules.mk)
	@mkdir -p $(@D)
	$(Q)$(DYN_CC) $(DYN_CFLAGS) -MMD -MP -c -o $@ $<
$(O)/static/%.o: %.c $(O)/flags GNUmakefile $(wildcard mk/rules.mk)
	@mkdir -p $(@D)
	$(Q)$(STATIC_CC) $(STATIC_CFLAGS) -MMD -MP -c -o $@ $<
$(O)/dyn/libsbx.a: $(DYN_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^
$(O)/static/libsbx.a: $(STATIC_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

define dyn_link
$(1): $(O)/dyn/$(2).o $(O)/dyn/libsbx.a
	@mkdir -p $$(@D)
	$(Q)$(DYN_CC) $(DYN_CFLAGS) $(DYN_LDFLAGS) -o $$@ $$^ $(LIBS_$(notdir $(1)))
endef
define static_link
$(1): $(O)/static/$(2).o $(O)/static/libsbx.a
	@mkdir -p $$(@D)
	$(Q)$(STATIC_CC) $(STATIC_CFLAGS) $(STATIC_LDFLAGS) -o $$@ $$^
	$(Q)! readelf -lW $$@ | grep -q INTERP || { rm -f $$@; echo '$$@: not static' >&2; false; }
endef
$(foreach t,$(TOOLS),$(eval $(call $(call is_dyn,$(t))_link,$(O)/bin/$(t),bin/$(t))))
$(foreach t,$(HELPERS),$(eval $(call $(call is_dyn,$(t))_link,$(O)/libexec/$(t),bin/libexec/$(t))))

$(O)/bin/%: bin/%.sh $(O)/flags
	@mkdir -p $(@D)
	$(Q)$(INSTALL) -m 755 $< $@
$(O)/libexec/sbx-init: bin/libexec/sbx-init.c $(O)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(INIT_CFLAGS) $(INIT_LDFLAGS) -o $@ $<
	$(Q)chmod 711 $@

clean:
	rm -rf $(O)
-include $(shell find $(O)/dyn $(O)/static -name '*.d' 2>/dev/null)
