#!/bin/sh
# dpkg runs this with "remove" or "upgrade", and rpm with the number of releases that will be left.
# Slurm's jobs and /run/quoin are left alone.
set -e
case $1 in remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl stop quoin-agent.service quoin-publisher.service
	fi
	;;
esac
