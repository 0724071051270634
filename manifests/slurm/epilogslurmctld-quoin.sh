#!/bin/bash
# For slurm.conf's EpilogSlurmctld: keeps in a job's AdminComment how it has used its
# GPUs, in the form of Jobstats (sacct -X -o admincomment shows it). It needs slurmdbd,
# quoin on slurmctld's machine (the agent installs the hook alone), and a directory that
# all nodes write their summaries to and this machine sees: key agent.hookSummaryDir.
# It never fails, and ends within a minute.
#
# scontrol cannot set the AdminComment of a job that has ended; sacctmgr can.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
quoin=${QUOIN:-/opt/quoin/bin/quoin}
summaries=${QUOIN_SUMMARIES:-/shared/quoin/summaries}
wait=${QUOIN_WAIT:-20}      # seconds for the nodes' Epilogs to leave their summaries
limit=${QUOIN_LIMIT:-10}    # seconds for each word with Slurm
scontrol=${SCONTROL:-scontrol}
sacctmgr=${SACCTMGR:-sacctmgr}

say() {
	logger -t epilogslurmctld-quoin -- "job $SLURM_JOB_ID: $*" 2>/dev/null || echo "job $SLURM_JOB_ID: $*" >&2
}

# A job without GPUs has no summaries to wait for.
job=$(timeout -k 1 "$limit" "$scontrol" -o show job "$SLURM_JOB_ID" 2>&1) || { say "not asked for: $job"; exit 0; }
case $job in *gres[/:]gpu*) ;; *) exit 0 ;; esac

# The raw id of one task may be that of its array, and the id of one component that of
# its job: sacctmgr would then set the comment of all of them.
id=$SLURM_JOB_ID
if [ -n "$SLURM_ARRAY_JOB_ID" ]; then
	id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
elif [ -n "$SLURM_HET_JOB_ID" ]; then
	id=$SLURM_HET_JOB_ID+$SLURM_HET_JOB_OFFSET
fi

# Of a job that was requeued another run may have left summaries before.
comment=$(timeout -k 1 $((wait + limit)) "$quoin" job "$SLURM_JOB_ID" --summary-dir "$summaries" --wait "${wait}s" -o jobstats \
	${SLURM_CLUSTER_NAME:+--cluster "$SLURM_CLUSTER_NAME"} ${SLURM_JOB_START_TIME:+--start "$SLURM_JOB_START_TIME"} 2>&1)
case $comment in
JS1:*) ;;
*) say "no AdminComment: $comment"; exit 0 ;;
esac
said=$(timeout -k 1 "$limit" "$sacctmgr" -i modify job where jobid="$id" ${SLURM_CLUSTER_NAME:+cluster="$SLURM_CLUSTER_NAME"} set AdminComment="$comment" 2>&1) ||
	say "AdminComment not set: $said"
exit 0
