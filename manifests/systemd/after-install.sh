#!/bin/sh
# dpkg runs this with "configure", and rpm with the number of releases that are now installed.
set -e
case $1 in configure | [1-9]*)
	if command -v systemd-sysusers >/dev/null; then
		systemd-sysusers quoin.conf
	else
		echo "quoin: systemd-sysusers is not here: create the system user quoin before you start quoin-publisher" >&2
	fi
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload
		systemctl try-restart quoin-agent.service quoin-publisher.service
	fi
	;;
esac
