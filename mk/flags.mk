WARN := -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes \
	-Wformat=2 -Wvla -Wundef -Wwrite-strings -Wimplicit-fallthrough \
	-Wcast-align -Walloca
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection -fno-common
DEFS := -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DSBX_VERSION='"$(VERSION)"' \
	-DSBX_SHAREDIR='"$(datadir)/sbx"' -DSBX_LIBEXECDIR='"$(libexecdir)"' \
	-DSBX_SYSCONFDIR='"$(sysconfdir)"'
ALL_CFLAGS := -std=gnu11 $(WARN) $(HARDEN) $(DEFS) -Ilib -fPIE -ffunction-sections -fdata-sections $(CFLAGS)
ALL_LDFLAGS := -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--gc-sections $(LDFLAGS)

DYN_CC := $(CC)
DYN_CFLAGS := $(ALL_CFLAGS) -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
DYN_LDFLAGS := -pie $(ALL_LDFLAGS)

ifneq ($(MUSL_CC),)
STATIC_CC := $(MUSL_CC)
# Kernel headers come from the system, after musl's own.
STATIC_CFLAGS := $(ALL_CFLAGS) -idirafter /usr/include -idirafter /usr/include/$(shell $(CC) -print-multiarch)
# The wrapper's specs know no -static-pie (they would make a dynamic program of it), so its start
# file, which relocates the program itself, is named here.
MUSL_CRT := $(firstword $(wildcard /usr/lib/$(shell uname -m)-linux-musl/rcrt1.o /usr/lib/musl/lib/rcrt1.o))
STATIC_LDFLAGS := -static -nostartfiles -Wl,-pie -Wl,--no-dynamic-linker $(MUSL_CRT) \
	$(addprefix $(dir $(MUSL_CRT)),crti.o crtn.o) $(ALL_LDFLAGS)
else
STATIC_CC := $(CC)
STATIC_CFLAGS := $(ALL_CFLAGS)
STATIC_LDFLAGS := -static-pie $(ALL_LDFLAGS)
endif

# pid 1 of a box has no libc at all: two pages of memory.
INIT_CFLAGS := -std=gnu11 $(WARN) -Os -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables \
	-fno-builtin -fcf-protection -fno-pie
INIT_LDFLAGS := -nostdlib -static -no-pie -Wl,-z,noexecstack -Wl,--build-id=none -Wl,-z,norelro -Wl,-z,noseparate-code -s

# A change of flags or compilers rebuilds everything: the stamp is an input of every object.
FLAGS := $(DYN_CC) $(DYN_CFLAGS) $(DYN_LDFLAGS) $(STATIC_CC) $(STATIC_CFLAGS) $(STATIC_LDFLAGS) $(INIT_CFLAGS) $(INIT_LDFLAGS)
$(shell mkdir -p $(O))
ifneq ($(file <$(O)/flags),$(FLAGS))
$(file >$(O)/flags,$(FLAGS))
endif
