# What the scripts beside this file share. It is sourced, not run.
# shellcheck shell=bash
set -euo pipefail
umask 022

# shellcheck disable=SC2034 # for the scripts that source this
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/rmqkit

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
	say "$*"
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# as_root COMMAND…: runs it as root, by sudo if need be; without a terminal sudo must not ask.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif ! have sudo; then
		say "this needs root, and there is no sudo"
		return 1
	elif [ -t 0 ]; then
		sudo "$@"
	else
		sudo -n "$@"
	fi
}

# install_packages PACKAGE…: installs what is missing with apt. No service of theirs is started.
install_packages() {
	local missing=() p
	for p in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	have apt-get || {
		say "no apt here; install by hand: ${missing[*]}"
		return 1
	}
	say "installing ${missing[*]}"
	# shellcheck disable=SC2016 # expanded by the inner shell
	as_root bash -c '
		set -euo pipefail
		export DEBIAN_FRONTEND=noninteractive LC_ALL=C
		log=$(mktemp) policy=/usr/sbin/policy-rc.d ours=
		trap "rm -f \$log; [ -z \"\$ours\" ] || rm -f \$policy" EXIT
		if [ ! -e $policy ]; then
			ours=1
			printf "#!/bin/sh\nexit 101\n" >$policy
			chmod 755 $policy
		fi
		get() { apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >"$log" 2>&1 </dev/null; }
		get install --no-install-recommends "$@" || { get update && get install --no-install-recommends "$@"; } || {
			tail -n 20 "$log" >&2
			exit 1
		}' install "${missing[@]}"
}

# open PORT: whether something listens there on this machine.
open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_ports N: the first of N free ports in a row, below those that the kernel hands out.
free_ports() {
	local first p
	for _ in {1..100}; do
		first=$((20000 + RANDOM % 12000))
		for ((p = first; p < first + $1; p++)); do
			! open "$p" || continue 2
		done
		echo "$first"
		return
	done
	die "found no $1 free ports in a row"
}

# run COMMAND…: runs it in a process group of its own and passes interrupts on to all of it, so that
# the caller lives on to clean up. Its exit code is the command's.
run() {
	local pid code=0 signal
	set -m
	"$@" </dev/null &
	pid=$!
	set +m
	for signal in INT TERM HUP; do
		# shellcheck disable=SC2064 # the process is this one
		trap "kill -$signal -- -$pid 2>/dev/null || true" "$signal"
	done
	while wait "$pid" || code=$?; kill -0 "$pid" 2>/dev/null; do code=0; done
	trap - INT TERM HUP
	return "$code"
}

# docker_works: whether an engine answers and we may use it.
docker_works() { have docker && timeout 20 docker info >/dev/null 2>&1; }
