package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// Variables that a task gets.
const (
	taskClique      = "QUOIN_CLIQUE"
	taskBlock       = "QUOIN_BLOCK"
	taskBlocks      = "QUOIN_BLOCKS"
	taskRankInBlock = "QUOIN_RANK_IN_BLOCK"
	taskSegment     = "QUOIN_SEGMENT"
)

// taskWait bounds what a task waits for, unless the call says another time.
const taskWait = time.Second

// RunTask prints the place of a task for Slurm's TaskProlog: a line `export NAME=value` for
// each variable. What is not known gets no line. It runs as the job's user, and for each
// task. It returns 0 whatever happens, because Slurm ends a task whose TaskProlog fails. A
// place that cannot be read, or not in time, is said on stderr.
func RunTask(o Options, stdout io.Writer) int {
	o.Stderr = bounded{o.Stderr}
	wait := cmp.Or(o.Wait, taskWait)
	done := within(wait, func() {
		defer func() {
			if r := recover(); r != nil {
				fmt.Fprintf(o.Stderr, "quoin-hook: task: %v; this is a bug in quoin-hook, please report it\n%s", r, debug.Stack())
			}
		}()
		if err := printPlace(o.RunDir, o.Env, stdout); err != nil {
			fmt.Fprintf(o.Stderr, "quoin-hook: task: %v; the task goes on\n", err)
		}
	})
	if !done {
		within(lastGrace, func() {
			fmt.Fprintf(o.Stderr, "quoin-hook: task: its place was not read within %s; the task goes on\n", wait)
		})
	}
	return 0
}

// printPlace prints what is known. The error says what could not be read.
func printPlace(runDir rundir.Dir, env environment, out io.Writer) error {
	var lines strings.Builder
	say := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&lines, "export %s=%s\n", name, value)
		}
	}
	inv, failed := runDir.ReadInventory()
	if errors.Is(failed, fs.ErrNotExist) {
		failed = nil // no agent, or no GPUs
	} else if failed == nil {
		say(taskClique, inv.Clique)
	}
	places, err := rundir.FindPlaces(runDir, env.identity())
	switch {
	case err == nil:
		task{env, places.Blocks}.place(say)
	case !errors.Is(err, fs.ErrNotExist):
		failed = errors.Join(failed, err)
	}
	_, err = io.WriteString(out, lines.String())
	return errors.Join(failed, err)
}

// tellTasks leaves the job's blocks for its tasks.
func tellTasks(ctx context.Context, h *job, record *rundir.Record) {
	uid, err := strconv.Atoi(record.UID)
	if err != nil {
		return
	}
	nodeList := h.env("SLURM_JOB_NODELIST")
	blocks, known := readBlocks(h.env("SLURM_CONF"), nodeList)
	if !known && h.jobInfo != nil {
		if text, err := h.scontrol().run(ctx, h.env("SLURM_CONF"), "show", "topology"); err == nil {
			blocks, _ = findBlocks(text, confBlocks, nodeList)
		} else {
			h.fail(rundir.CallJobInfo, "%v; its tasks do not learn their blocks", err)
		}
	}
	err = h.locked(ctx, func() {
		if key, now, err := h.runDir.FindRecord(record.Identity()); err == nil && now != nil && now.Run == record.Run {
			err := rundir.WritePlaces(h.runDir, key, uid, rundir.Places{JobID: record.JobID, Blocks: blocks})
			if err != nil {
				h.fail(rundir.CallRecord, "%v; its tasks do not learn their blocks", err)
			}
		}
	})
	if err != nil {
		h.fail(rundir.CallLock, "%v; its tasks do not learn their blocks", err)
	}
}

// task is a task of a job that runs in these blocks.
type task struct {
	env    environment
	blocks []rundir.JobBlock
}

// place says where the task is in its job. The blocks are those of all the job's nodes.
func (t task) place(say func(name, value string)) {
	node, segmentSize := t.env("SLURMD_NODENAME"), atoi(t.env("SLURM_JOB_SEGMENT_SIZE"))
	segments := 0
	for _, b := range t.blocks {
		nodes, err := hostlist.Expand(b.Nodes)
		if err != nil {
			return
		}
		at := slices.Index(nodes, node)
		if at >= 0 {
			say(taskBlock, b.Name)
			say(taskBlocks, strconv.Itoa(len(t.blocks)))
			if rank, ok := t.rank(nodes); ok {
				say(taskRankInBlock, strconv.Itoa(rank))
			}
			if segmentSize > 0 {
				say(taskSegment, strconv.Itoa(segments+at/segmentSize))
			}
			return
		}
		if segmentSize > 0 {
			segments += (len(nodes) + segmentSize - 1) / segmentSize
		}
	}
}

// rank counts the step's tasks on nodes of the block that come before this node in the
// step's list, and adds the task's number on this node. That does not depend on how Slurm
// numbers tasks.
func (t task) rank(block []string) (rank int, ok bool) {
	nodes, err := hostlist.Expand(cmp.Or(t.env("SLURM_STEP_NODELIST"), t.env("SLURM_JOB_NODELIST")))
	counts := expandCounts(t.env("SLURM_STEP_TASKS_PER_NODE"), len(nodes))
	local, e := strconv.Atoi(t.env("SLURM_LOCALID"))
	if err != nil || e != nil || len(counts) != len(nodes) {
		return 0, false
	}
	in := make(map[string]bool, len(block))
	for _, node := range block {
		in[node] = true
	}
	for i, node := range nodes {
		switch {
		case node == t.env("SLURMD_NODENAME"):
			return rank + local, true
		case in[node]:
			rank += counts[i]
		}
	}
	return 0, false
}

// expandCounts reads Slurm's list of counts, such as 4(x2),3, which has at most so many.
func expandCounts(text string, most int) []int {
	var counts []int
	for word := range strings.SplitSeq(text, ",") {
		count, times, repeated := strings.Cut(strings.TrimSuffix(word, ")"), "(x")
		n, err := strconv.ParseUint(count, 10, 31)
		repeat := 1
		if repeated {
			repeat = atoi(times)
		}
		if err != nil || repeat < 1 || repeat > most-len(counts) {
			return nil
		}
		for range repeat {
			counts = append(counts, int(n))
		}
	}
	return counts
}

// atoi is 0 for what is no number.
func atoi(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}
