# Depots and registries for tests; a bats file says  load ../depot  after  load ../helpers.
# What is started here is written down in $SBX_TMP/served, one directory for each, so that any
# process of the file can end it. A file that uses this ends it all in its teardown or, for what
# setup_file started, in teardown_file before sbx_teardown_file:  depots_end.  Boxes end first.
# shellcheck shell=bash

# served NAME: where things about the mount point or the server NAME are kept.
served()
{
	printf %s "$SBX_TMP/served/${1//\//%}"
}

# began PID: when that process began, which with the pid tells it from a later one; nothing if it is
# no more, or a zombie.
began()
{
	sed -n 's/^[0-9]* (.*) [^ZX] \(.*\)/\1/p' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f19
}

# serve NAME COMMAND...: starts it in a session of its own, its output in NAME's directory.
serve()
{
	local at
	at=$(served "$1")
	shift
	mkdir -p "$at"
	setsid "$@" >"$at/log" 2>&1 3>&- 4>&- </dev/null &
	echo "$! $(began "$!")" >"$at/pid"
}

# alive NAME: does its process run?
alive()
{
	local pid start
	read -r pid start 2>/dev/null <"$(served "$1")/pid" && [ -n "$start" ] &&
		[ "$(began "$pid")" = "$start" ]
}

# ready NAME COMMAND...: waits until COMMAND succeeds; fails, with the log, if the server ends.
ready()
{
	local name=$1 end=$((SECONDS + 60))
	shift
	until "$@" >/dev/null 2>&1 && alive "$name"; do
		if [ "$SECONDS" -ge "$end" ] || ! alive "$name"; then
			echo "$name does not serve: $(cat "$(served "$name")/log")" >&2
			return 1
		fi
		sleep 0.05
	done
}

# ended NAME: kills its process, if it is the one that was started, and waits for it.
ended()
{
	local pid
	if alive "$1"; then
		read -r pid _ <"$(served "$1")/pid"
		kill -9 "$pid"
		wait "$pid" 2>/dev/null || true
		# Not our child if another process of the file started it.
		within 30 not alive "$1"
	fi
}

not()
{
	! "$@"
}

# childless NAME: has its process no children?
childless()
{
	local pid
	! alive "$1" || { read -r pid _ <"$(served "$1")/pid" && ! pgrep -P "$pid"; }
}

# free_port: a TCP port of the loopback that nobody has now.
free_port()
{
	python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# listens PORT
listens()
{
	(exec 9<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# slow_depot DIR MNT [DELAY_US [BANDWIDTH]]: DIR at MNT (made if absent), each read delayed, all reads
# together limited to BANDWIDTH bytes a second (0: no limit). A dead one at MNT is replaced.
slow_depot()
{
	local dir=$1 mnt=$2
	shift 2
	depot_end "$mnt"
	mkdir -p "$dir" "$mnt" "$(served "$mnt")"
	serve "$mnt" "$O/tests/helpers/slowfs" "$dir" "$mnt" "$(served "$mnt")" "$@"
	ready "$mnt" slow_ctl "$mnt" stat
}

# slow_ctl MNT COMMAND [N]: reset, hang, fail, go, delay_us N, bandwidth N, stat (see slowfs.c).
slow_ctl()
{
	"$O/tests/helpers/slowfs" --ctl "$(served "$1")" "${@:2}"
}

# slow_stat MNT [KEY|/PATH]: all counts, or the one of KEY (reads, bytes, largest, writes, written,
# waiting), or "READS BYTES" of the file at /PATH in the depot (0 0 if it was never read).
slow_stat()
{
	local all
	all=$(slow_ctl "$1" stat) || return
	case ${2:-} in
	'') echo "$all" ;;
	/*) awk -v p="$2" '$1 == "file" && substr($0, index($0, "/")) == p { r = $3; b = $4 }
		END { print r + 0, b + 0 }' <<<"$all" ;;
	*) awk -v k="$2" '$1 == k { print $3 }' <<<"$all" ;;
	esac
}

# sshd_start: an sshd of this file's own on the loopback, once; its port is in $SSHD_PORT, and
# "ssh -F $(served sshd)/config depot" reaches it.
sshd_start()
{
	local at try
	at=$(served sshd)
	[ -e "$at/port" ] && alive sshd && return
	mkdir -p "$at" /run/sshd
	rm -f "$at"/{host,user}*
	ssh-keygen -q -t ed25519 -N '' -f "$at/host"
	ssh-keygen -q -t ed25519 -N '' -f "$at/user"
	for try in 1 2 3 4 5; do
		SSHD_PORT=$(free_port)
		sshd_config "$at"
		serve sshd /usr/sbin/sshd -D -e -f "$at/sshd_config"
		ready sshd listens "$SSHD_PORT" && break
		[ "$try" -lt 5 ] || return 1
	done
	echo "$SSHD_PORT" >"$at/port"
}

# sshd_config DIR: its configuration and its client's.
sshd_config()
{
	cat >"$1/sshd_config" <<-END
		ListenAddress 127.0.0.1
		Port $SSHD_PORT
		HostKey $1/host
		AuthorizedKeysFile $1/user.pub
		PidFile none
		StrictModes no
		UsePAM no
		PasswordAuthentication no
		PermitRootLogin prohibit-password
		MaxStartups 100
		Subsystem sftp internal-sftp
	END
	cat >"$1/config" <<-END
		Host depot
		HostName 127.0.0.1
		Port $SSHD_PORT
		User $(id -un)
		IdentityFile $1/user
		IdentitiesOnly yes
		BatchMode yes
		ConnectTimeout 20
		StrictHostKeyChecking accept-new
		UserKnownHostsFile $1/known_hosts
	END
}

# sshfs_depot DIR MNT [OPTION...]: DIR at MNT through sshfs and a real sshd.
sshfs_depot()
{
	local dir=$1 mnt=$2
	shift 2
	sshd_start || return
	depot_end "$mnt"
	mkdir -p "$dir" "$mnt"
	serve "$mnt" sshfs -f -F "$(served sshd)/config" -o allow_other,default_permissions "$@" \
		"depot:$(realpath "$dir")" "$mnt"
	ready "$mnt" mountpoint -q "$mnt"
}

# depot_vanish MNT: what serves it is gone; who has it open gets ENOTCONN. Mounted still.
depot_vanish()
{
	ended "$1"
}

# depot_end MNT: unmounts it, dead or alive, and ends what serves it. Nothing there is success.
depot_end()
{
	local at
	at=$(served "$1")
	[ -d "$at" ] || return 0
	ended "$1"
	while mounted "$1"; do umount -l "$1" || return; done
	rm -rf "$at"
}

# mounted MNT: also if it is dead.
mounted()
{
	awk -v p="$(realpath -m "$1")" '$5 == p { found = 1 } END { exit !found }' /proc/self/mountinfo
}

# registry_start: Debian's docker-registry on the loopback, empty; sets REGISTRY=127.0.0.1:PORT.
registry_start()
{
	local at try port
	at=$(served registry)
	for try in 1 2 3 4 5; do
		port=$(free_port)
		mkdir -p "$at"
		cat >"$at/config.yml" <<-END
			version: 0.1
			log: {level: warn}
			storage:
			  filesystem: {rootdirectory: $at/store}
			  delete: {enabled: true}
			http: {addr: "127.0.0.1:$port"}
		END
		serve registry docker-registry serve "$at/config.yml"
		ready registry listens "$port" && break
		[ "$try" -lt 5 ] || return 1
	done
	export REGISTRY=127.0.0.1:$port
}

registry_stop()
{
	ended registry
	rm -rf "$(served registry)"
}

# oci_build oci DIR[:TAG] | docker FILE[:NAME:TAG]: an image of the description on stdin.
oci_build()
{
	python3 "$top/tests/helpers/oci_build.py" "$@"
}

# depots_end: all of it.
depots_end()
{
	local p name status=0
	for p in "$SBX_TMP"/served/*; do
		[ -d "$p" ] || continue
		name=${p##*/}
		case $name in
		%*) depot_end "${name//%//}" || status=1 ;;
		esac
	done
	# Servers after their clients, whose connections are processes of the sshd's.
	within 30 childless sshd || status=1
	for name in sshd registry; do
		ended "$name" || status=1
	done
	rm -rf "$SBX_TMP/served"
	return "$status"
}
