# A private RabbitMQ from Debian's package: on free ports of this machine's loopback, with a data folder,
# a name, a cookie and an epmd of its own, so that it meets no other broker. It is sourced after lib.bash.
# shellcheck shell=bash

# private_install makes sure of the package; it does not start or enable its service.
private_install() {
	[ ! -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || return 0
	have apt-get || return 1
	install_packages rabbitmq-server || return 1
	if [ -d /run/systemd/system ]; then
		as_root systemctl disable --quiet rabbitmq-server.service epmd.socket 2>/dev/null || true
	fi
}

# private_start starts the broker and sets broker_url, broker_management_url and broker_version.
private_start() {
	local port secret
	private=$(mktemp -d "${TMPDIR:-/tmp}/rmqkit-broker.XXXXXX")
	port=$(free_ports 4)
	secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	broker_version=$(dpkg-query -W -f '${Version}' rabbitmq-server 2>/dev/null || echo unknown)
	broker_version=${broker_version%%-*}
	# shellcheck disable=SC2034 # for the script that sources this
	broker_url=amqp://guest:guest@127.0.0.1:$port/
	# shellcheck disable=SC2034 # for the script that sources this
	broker_management_url=http://guest:guest@127.0.0.1:$((port + 1))
	mkdir "$private"/{data,log,conf.d}
	(umask 077 && printf %s "$secret" >"$private/.erlang.cookie")
	chmod 400 "$private/.erlang.cookie"
	echo '[rabbitmq_management,rabbitmq_random_exchange,rabbitmq_consistent_hash_exchange].' >"$private/enabled_plugins"
	cat >"$private/rabbitmq.conf" <<-E
		listeners.tcp.1 = 127.0.0.1:$port
		management.tcp.ip = 127.0.0.1
		management.tcp.port = $((port + 1))
		collect_statistics_interval = 1000
	E
	set -m
	ERL_EPMD_PORT=$((port + 3)) ERL_EPMD_ADDRESS=127.0.0.1 epmd >/dev/null 2>&1 </dev/null &
	private_epmd=$!
	# Erlang's schedulers spin when idle, and what is timed here shares the processors with them.
	env -u RABBITMQ_NODE_PORT -u RABBITMQ_USE_LONGNAME \
		HOME="$private" LANG=C.UTF-8 ERL_EPMD_PORT=$((port + 3)) ERL_EPMD_ADDRESS=127.0.0.1 \
		RABBITMQ_NODENAME="rmqkit-$$@localhost" RABBITMQ_DIST_PORT=$((port + 2)) \
		RABBITMQ_CONF_ENV_FILE="$private/none" RABBITMQ_CONFIG_FILE="$private/rabbitmq.conf" \
		RABBITMQ_CONFIG_FILES="$private/conf.d" RABBITMQ_ADVANCED_CONFIG_FILE="$private/none.config" \
		RABBITMQ_ENABLED_PLUGINS_FILE="$private/enabled_plugins" RABBITMQ_PID_FILE="$private/pid" \
		RABBITMQ_MNESIA_BASE="$private/data" RABBITMQ_LOG_BASE="$private/log" RABBITMQ_LOGS=- \
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none' \
		/usr/lib/rabbitmq/bin/rabbitmq-server >"$private/log/broker" 2>&1 </dev/null &
	private_broker=$!
	set +m
	for _ in {1..300}; do
		if ! kill -0 "$private_broker" 2>/dev/null; then break; fi
		if grep -q 'Server startup complete' "$private/log/broker" && open "$port" && open $((port + 1)); then return 0; fi
		sleep 0.2
	done
	say "the private broker has not started; its log ends with:"
	tail -n 20 "$private/log/broker" >&2
	return 1
}

# private_stop ends the broker and throws its data away. It is safe to call it at any time.
private_stop() {
	local group
	for group in "${private_broker:-}" "${private_epmd:-}"; do
		[ -n "$group" ] || continue
		kill -KILL -- "-$group" 2>/dev/null || true
		wait "$group" 2>/dev/null || true
	done
	[ -z "${private:-}" ] || rm -rf "$private"
}
