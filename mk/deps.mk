# make deps: the Debian packages that are missing, through apt-get. One dpkg-query when none is.
DEPS_BUILD := gcc libc6-dev make musl-tools linux-libc-dev pkgconf libarchive-dev libssl-dev libjson-c-dev \
	libseccomp-dev libgit2-dev libnl-3-dev libnl-route-3-dev libzstd-dev
DEPS_RUN := erofs-utils skopeo openssh-client
DEPS_CHECK := bats bats-assert bats-support shellcheck cppcheck clang clang-tidy clang-format \
	libclang-rt-14-dev mandoc mmdebstrap busybox-static strace python3 attr acl libcap2-bin jq zstd xz-utils \
	util-linux bsdutils procps patch zsh fish iproute2 git libfuse3-dev fuse3 sshfs openssh-server docker-registry podman bc
DEPS_DEMO := mmdebstrap
DEPS_BENCH := runc crun bubblewrap podman linux-perf mmdebstrap

.PHONY: deps deps-run deps-check deps-demo deps-bench
deps:
	@mk/apt $(DEPS_BUILD) $(DEPS_RUN)
deps-check: deps
	@mk/apt $(DEPS_CHECK)
deps-demo: deps
	@mk/apt $(DEPS_DEMO)
deps-bench: deps
	@mk/apt $(DEPS_BENCH)
