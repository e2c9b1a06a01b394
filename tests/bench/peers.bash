# The peers: each as an array, a command that runs true in the root and ends. An empty array is a
# peer that does not start here; why is said once.

# The arrays and $work, $root are shared with run.
# shellcheck shell=bash disable=SC2034,SC2154

runc=() runc_full=() runc_exec=() crun=() podman=() bwrap=() unshare=()

# As small as docker's profile is long: the refusals are what costs, not which.
full_filter='{"defaultAction": "SCMP_ACT_ALLOW", 
	"architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
	"syscalls": [{"action": "SCMP_ACT_ERRNO", "names": ["acct", "add_key", "bpf", "clock_settime",
	"delete_module", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "init_module",
	"io_uring_enter", "io_uring_register", "io_uring_setup", "kexec_file_load", "kexec_load", "keyctl",
	"lookup_dcookie", "mount", "mount_setattr", "move_mount", "move_pages", "name_to_handle_at",
	"nfsservctl", "open_by_handle_at", "open_tree", "perf_event_open", "pivot_root", "quotactl",
	"reboot", "request_key", "setdomainname", "setns", "settimeofday", "swapoff", "swapon", "syslog",
	"umount2", "unshare", "userfaultfd", "vhangup"]}]}'

# bundle NAME JQ-FILTER: runc's own specification, changed by the filter.
bundle() {
	mkdir "$work/$1"
	runc spec -b "$work/$1"
	jq --arg root "$root" --argjson filter "$full_filter" ".process.terminal = false |
		.process.args = [\"/bin/true\"] | .root.path = \$root | $2" \
		"$work/$1/config.json" >"$work/$1/new"
	mv "$work/$1/new" "$work/$1/config.json"
}

starts() {
	local name=$1 why
	shift
	why=$("$@" 2>&1 >/dev/null </dev/null) && return
	why=$(echo "$why" | tail -n 1)
	echo "bench: $name is left out, it does not start here: ${why:-no reason given}" >&2
	return 1
}

peers_runc() {
	local ids='[{"containerID": 0, "hostID": 1000000, "size": 65536}]'
	runc_at=(runc --root "$work/runc")
	bundle plain .
	bundle idle '.process.args = ["/bin/sleep", "infinity"]'
	bundle full ".linux.namespaces += [{\"type\": \"user\"}, {\"type\": \"cgroup\"}] |
		.linux.uidMappings = $ids | .linux.gidMappings = $ids | .linux.seccomp = \$filter |
		.linux.resources += {\"memory\": {\"limit\": 33554432}, \"pids\": {\"limit\": 64},
			\"cpu\": {\"quota\": 100000, \"period\": 100000}}"
	runc=("${runc_at[@]}" run -b "$work/plain" "bench-{n}")
	runc_full=("${runc_at[@]}" run -b "$work/full" "bench-{n}")
	runc_exec=("${runc_at[@]}" exec bench-idle /bin/true)
	starts runc "${runc_at[@]}" run -b "$work/plain" bench-try || exit 1
	starts runc-full "${runc_at[@]}" run -b "$work/full" bench-try || runc_full=("${runc[@]}")
	"${runc_at[@]}" run -d -b "$work/idle" bench-idle </dev/null >/dev/null 2>&1
}

peers_start() {
	peers_runc
	crun=(crun --root "$work/crun" run -b "$work/plain" "bench-{n}")
	starts "$(crun --version | head -n 1)" \
		crun --root "$work/crun" run -b "$work/plain" bench-try || crun=()
	podman_at=(podman --root "$work/podman" --runroot "$work/podman-run" --tmpdir "$work/podman-tmp"
		--network-config-dir "$work/podman-net" --cgroup-manager=cgroupfs --runtime runc
		--log-level fatal)
	podman_group=/sbx-bench-podman-$$
	# Its default limits are above what a root without CAP_SYS_RESOURCE may set.
	podman=("${podman_at[@]}" run --rm --network none --cgroup-parent "$podman_group"
		--ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --rootfs "$root" true)
	starts "$(podman --version)" "${podman[@]}" || podman=()
	bwrap=(bwrap --unshare-all --ro-bind "$root" / --proc /proc --dev /dev --tmpfs /tmp true)
	starts bwrap "${bwrap[@]}" || exit 1
	unshare=(unshare --mount --pid --net --uts --ipc --cgroup --user --map-root-user --fork
		--root="$root" --mount-proc true)
	starts unshare "${unshare[@]}" || exit 1
}

peers_end() {
	runc --root "$work/runc" delete -f bench-idle 2>/dev/null || true
	[ -z "${podman[*]}" ] || "${podman_at[@]}" rm -af >/dev/null 2>&1 || true
	find /sys/fs/cgroup -depth -type d -path "*/sbx-bench-podman-$$*" -exec rmdir {} + || true
}

# What a peer really sets up, asked from inside: namespaces unlike ours, filter, no_new_privs.
# shellcheck disable=SC2016
probe='for n in mnt pid net ipc uts cgroup user; do readlink /proc/self/ns/$n; done
	grep -E "^(NoNewPrivs|Seccomp):" /proc/self/status'

# describe NAME REST COMMAND...: REST is what cannot be asked.
describe() {
	local name=$1 rest=$2 said link spaces=() ours
	shift 2
	said=$("$@" 2>/dev/null </dev/null) || { table_note "$name" "cannot be asked; $rest"; return 0; }
	while read -r link; do
		[[ $link == *:\[* ]] || continue
		ours=$(readlink "/proc/self/ns/${link%%:*}")
		[ "$link" = "$ours" ] || spaces+=("${link%%:*}")
	done <<<"$said"
	table_note "$name" "namespaces $(IFS=,; echo "${spaces[*]}"); filter $(
		awk '$1 == "Seccomp:" { print $2 == 2 ? "yes" : "no" }' <<<"$said"); no_new_privs $(
		awk '$1 == "NoNewPrivs:" { print $2 ? "yes" : "no" }' <<<"$said"); $rest"
}

ask_runc() {
	jq --arg probe "$probe" '.process.args = ["/bin/sh", "-c", $probe]' "$work/$1/config.json" \
		>"$work/ask.json"
	mkdir -p "$work/ask" && mv "$work/ask.json" "$work/ask/config.json"
	"${runc_at[@]}" run -b "$work/ask" bench-ask
}

describe_peers() {
	local last
	describe runc "own group without limits, read-only root; keeps nothing" ask_runc plain
	describe runc-full "limits of memory, cpu, tasks; read-only root; keeps nothing" ask_runc full
	[ -z "${podman[*]}" ] || describe podman "own group; read-write root, no copy; keeps nothing" \
		"${podman[@]:0:${#podman[@]}-1}" sh -c "$probe"
	describe bwrap "no limits, read-only root; keeps nothing" "${bwrap[@]:0:${#bwrap[@]}-1}" sh -c "$probe"
	describe unshare "no limits, the host's devices absent; keeps nothing" \
		"${unshare[@]:0:${#unshare[@]}-1}" sh -c "$probe"
	table_note bare "namespaces mnt,pid,net,ipc,uts,cgroup,user; filter yes; no_new_privs no; $(
		)limits of memory, cpu, tasks; own writable root; keeps nothing, runs nothing but init"
}

describe_sbx() {
	local box
	box=$(sbx-create "${box_options[@]}")
	describe sbx "limits of memory, cpu, tasks; own writable root; stays until stopped, commands logged" \
		sbx-exec "$box" sh -c "$probe"
	sbx-stop "$box"
}
