# make install DESTDIR= prefix=/usr/local; make uninstall takes the same variables.
SHARE_FILES = $(shell find share/sbx -type f ! -name sbx.conf)
MAN_PAGES = $(wildcard share/man/man?/*.[1-8])
COMMANDS = $(TOOLS) $(SCRIPTS)

.PHONY: install uninstall
install: all
	$(INSTALL) -d $(DESTDIR)$(bindir) $(DESTDIR)$(libexecdir) $(DESTDIR)$(sysconfdir)/sbx \
		$(DESTDIR)$(bashcompdir) $(DESTDIR)$(zshcompdir) $(DESTDIR)$(fishcompdir)
	$(INSTALL) -m 755 $(BIN) $(DESTDIR)$(bindir)
	$(INSTALL) -m 755 $(LIBEXEC) $(DESTDIR)$(libexecdir)
	chmod 711 $(DESTDIR)$(libexecdir)/sbx-init
	@for f in $(SHARE_FILES); do \
		mode=644; [ ! -x $$f ] || mode=755; \
		$(INSTALL) -D -m $$mode $$f $(DESTDIR)$(datadir)/$${f#share/} || exit; \
	done
	@for f in $(MAN_PAGES); do $(INSTALL) -D -m 644 $$f $(DESTDIR)$(mandir)/$${f#share/man/} || exit; done
	$(INSTALL) -m 644 completions/sbx.bash $(DESTDIR)$(bashcompdir)/sbx
	$(INSTALL) -m 644 completions/_sbx $(DESTDIR)$(zshcompdir)/_sbx
	$(INSTALL) -m 644 completions/sbx.fish $(DESTDIR)$(fishcompdir)/sbx.fish
	@# bash and fish look for a file of the command's name.
	@for t in $(COMMANDS); do \
		ln -sf sbx $(DESTDIR)$(bashcompdir)/$$t && ln -sf sbx.fish $(DESTDIR)$(fishcompdir)/$$t.fish || exit; \
	done
	@# What the administrator wrote stays.
	@[ -e $(DESTDIR)$(sysconfdir)/sbx/sbx.conf ] || \
		$(INSTALL) -m 644 share/sbx/sbx.conf $(DESTDIR)$(sysconfdir)/sbx/sbx.conf

# The configuration and the state directory stay: they are not ours to drop.
uninstall:
	rm -f $(BIN:$(O)/bin/%=$(DESTDIR)$(bindir)/%)
	rm -rf $(DESTDIR)$(libexecdir) $(DESTDIR)$(datadir)/sbx
	rm -f $(MAN_PAGES:share/man/%=$(DESTDIR)$(mandir)/%)
	rm -f $(DESTDIR)$(bashcompdir)/sbx $(DESTDIR)$(zshcompdir)/_sbx $(DESTDIR)$(fishcompdir)/sbx.fish
	rm -f $(COMMANDS:%=$(DESTDIR)$(bashcompdir)/%) $(COMMANDS:%=$(DESTDIR)$(fishcompdir)/%.fish)
