#!/bin/bash
# Writes which job holds which GPU, and waits for IMEX where a job needs it. Fails a
# job only where that is not ready and the site has set hookGate: fail.
hook=${QUOIN_HOOK:-/opt/quoin/bin/quoin-hook}
if [ -x "$hook" ]; then
  "$hook" prolog; rc=$?
  [ $rc = 1 ] && exit 1
  [ $rc = 0 ] || echo "quoin-hook prolog ended with $rc; the job goes on" >&2
else
  echo "$hook is not there: is the quoin agent on this node, and /opt/quoin/bin mounted? The job goes on" >&2
fi
exit 0
