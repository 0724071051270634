#!/bin/sh
# dpkg runs this with "remove", "upgrade" or "purge", and rpm with the number of releases that are left.
set -e
case $1 in purge | 0)
	rm -f /etc/systemd/system/multi-user.target.wants/quoin-agent.service /etc/systemd/system/multi-user.target.wants/quoin-publisher.service
	;;
esac
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
