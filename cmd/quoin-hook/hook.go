package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
)

// lockWait bounds how long a job can be held up by another hook.
const lockWait = 2 * time.Second

const usage = `usage: quoin-hook prolog|epilog [--mapping-dir DIR] [--run-dir DIR]

Called by Slurm's Prolog and Epilog: writes which job holds which GPU into DCGM
Exporter's job mapping directory, and releases it. Exits 0 for a job whatever
happens, and says on stderr what went wrong.

  --mapping-dir DIR  the exporter's directory (default: what the agent wrote into
                     hook.json in the run directory, else ` + dcgm.DefaultMappingDir + `)
  --run-dir DIR      the agent's directory (default ` + dcgm.DefaultRunDir + `)
  --version          print the version
`

// hook is one call.
type hook struct {
	env             func(string) string
	stderr          io.Writer
	runDir, mapping string
	unlink          bool
}

// run executes one call and returns the exit status: for a job always 0, by
// hand 2 for a wrong command line.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	h := &hook{env: env, stderr: stderr}
	wrong := 2
	if env("SLURM_JOB_ID") != "" {
		wrong = 0 // Slurm drains the node of a failing Prolog or Epilog
	}
	flags := flag.NewFlagSet("quoin-hook", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&h.mapping, "mapping-dir", "", "")
	flags.StringVar(&h.runDir, "run-dir", dcgm.DefaultRunDir, "")
	version := flags.Bool("version", false, "")
	var verb string
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("argument %q: want flags only after prolog or epilog", flags.Arg(0))
	case err == nil && *version:
		fmt.Fprintln(stdout, "quoin-hook", buildVersion())
		return 0
	case err == nil && verb != "prolog" && verb != "epilog":
		err = fmt.Errorf("command %q: want prolog or epilog", verb)
	}
	if err != nil {
		h.say("%v; see quoin-hook --help", err)
		return wrong
	}
	return h.job(ctx, verb, wrong)
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func (h *hook) say(format string, args ...any) {
	fmt.Fprintf(h.stderr, "quoin-hook: "+format+"\n", args...)
}

// job does the work for the job of the environment.
func (h *hook) job(ctx context.Context, verb string, wrong int) int {
	id := h.env("SLURM_JOB_ID")
	if id == "" {
		h.say("SLURM_JOB_ID is not set: want to be called by Slurm's Prolog or Epilog")
		return wrong
	}
	if err := dcgm.CheckJobID(id); err != nil {
		h.say("%v", err)
		return 0
	}
	h.settle()
	work := h.prolog
	if verb == "epilog" {
		work = h.epilog
	} else if h.env("SLURM_JOB_GPUS") == "" && !holdsUUID(h.env("CUDA_VISIBLE_DEVICES")) {
		return 0 // a job without GPUs
	}
	unlock, err := dcgm.Lock(ctx, h.runDir, lockWait)
	if err != nil {
		h.noLock(verb, id, err)
		return 0
	}
	defer unlock()
	if verb == "prolog" || exists(h.mapping) {
		h.sweep()
	}
	h.makeUp()
	if err := work(id); err != nil {
		h.say("job %s: %v", id, err)
	}
	return 0
}

// noLock says what becomes of the job's labels without the lock. An Epilog leaves
// a mark for whoever has the lock next.
func (h *hook) noLock(verb, id string, err error) {
	if verb == "prolog" {
		h.say("job %s: %v; its GPUs go without a label", id, err)
		return
	}
	if e := dcgm.WriteRelease(h.runDir, dcgm.Release{JobIdentity: h.identity(id), Run: h.run(), MappingDir: h.mapping}); e != nil {
		h.say("job %s: %v; %v; its GPUs keep its label", id, err, e)
		return
	}
	h.say("job %s: %v; its GPUs keep its label until another job starts or ends here", id, err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sweep takes away the labels from before the node's last boot.
func (h *hook) sweep() {
	released, err := dcgm.Mapping{Dir: h.mapping, Unlink: h.unlink}.Sweep()
	if err != nil {
		h.say("release GPUs after a boot: %v", err)
	}
	if len(released) > 0 {
		h.say("first job since the node's boot: released GPUs %s of jobs from before", strings.Join(released, ", "))
	}
}

// makeUp releases the runs whose Epilogs did not get the lock.
func (h *hook) makeUp() {
	marks, err := dcgm.ReadReleases(h.runDir)
	if err != nil {
		h.say("%v", err)
	}
	for _, m := range marks {
		err := h.release(m.JobIdentity, m.Run, m.MappingDir)
		if err == nil {
			err = dcgm.RemoveRelease(h.runDir, m)
		}
		if err != nil {
			h.say("job %s: %v", m.JobID, err)
		}
	}
}

func holdsUUID(visible string) bool {
	return strings.HasPrefix(visible, "GPU-") || strings.HasPrefix(visible, "MIG-")
}

// settle finds the mapping directory.
func (h *hook) settle() {
	c, err := dcgm.ReadHookConfig(h.runDir)
	if err != nil {
		h.say("%v; the defaults are used", err)
	}
	if c != nil {
		h.unlink = c.Unlink
		if h.mapping == "" {
			h.mapping = c.MappingDir
		}
	}
	if h.mapping == "" {
		h.mapping = dcgm.DefaultMappingDir
	}
}

// prolog writes the job's id for each of its GPUs. The record comes first: an
// Epilog after a crash in between releases what it names.
func (h *hook) prolog(id string) error {
	inv, err := dcgm.ReadInventory(h.runDir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			h.say("job %s: no inventory in %s: GRES indices are taken as the exporter's ids", id, h.runDir)
		} else {
			h.say("job %s: %v; GRES indices are taken as the exporter's ids", id, err)
		}
	}
	gpus, uuids, err := dcgm.Resolve(inv, h.env("SLURM_JOB_GPUS"), h.env("CUDA_VISIBLE_DEVICES"))
	if err != nil {
		h.say("job %s: %v", id, err)
	}
	key, old, err := dcgm.FindRecord(h.runDir, h.identity(id))
	if err != nil {
		h.say("job %s: %v; it is replaced", id, err)
	}
	record := dcgm.Record{JobID: id, Run: h.run(), User: h.env("SLURM_JOB_USER"), Partition: h.env("SLURM_JOB_PARTITION"), Account: h.env("SLURM_JOB_ACCOUNT"),
		Cluster: h.env("SLURM_CLUSTER_NAME"), Node: h.env("SLURMD_NODENAME"), GPUs: gpus, UUIDs: uuids, MappingDir: h.mapping}
	if err = dcgm.WriteRecord(h.runDir, key, record); err != nil {
		// An old one would keep the Epilog from releasing this run.
		err = errors.Join(err, dcgm.RemoveRecord(h.runDir, key))
	}
	m := dcgm.Mapping{Dir: h.mapping, Unlink: h.unlink}
	if old != nil { // a run whose Epilog was lost may have held others
		err = errors.Join(err, m.Remove(id, without(old.GPUs, gpus)))
	}
	return errors.Join(err, m.Add(id, gpus))
}

func (h *hook) identity(id string) dcgm.JobIdentity {
	return dcgm.JobIdentity{JobID: id, Cluster: h.env("SLURM_CLUSTER_NAME"), Node: h.env("SLURMD_NODENAME")}
}

// run is the run of the environment. Both are kept, for Slurm may be upgraded
// between a Prolog and its Epilog.
func (h *hook) run() dcgm.Run {
	return dcgm.Run{SLUID: h.env("SLURM_JOB_SLUID"), StartTime: h.env("SLURM_JOB_START_TIME")}
}

func without(all, but []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(but, s) })
}

// epilog releases the job's GPUs. Nobody waits for it but the node's next job,
// and so it tidies up too.
func (h *hook) epilog(id string) error {
	dcgm.Tidy(h.runDir)
	dcgm.Mapping{Dir: h.mapping}.Tidy()
	return h.release(h.identity(id), h.run(), h.mapping)
}

// release takes the job's id out of every file that has it. What an earlier run
// releases late leaves the later run alone.
func (h *hook) release(job dcgm.JobIdentity, run dcgm.Run, mapping string) error {
	id := job.JobID
	key, record, err := dcgm.FindRecord(h.runDir, job)
	if err != nil {
		h.say("job %s: %v; the mapping is searched", id, err)
	}
	if record != nil && record.After(run) {
		h.say("job %s: this Epilog is of run %s, the GPUs are held by run %s: left alone", id, run, record.Run)
		return nil
	}
	m := dcgm.Mapping{Dir: mapping, Unlink: h.unlink}
	if record != nil && record.MappingDir != "" {
		m.Dir = record.MappingDir
	}
	gpus, err := m.Holding(id)
	if err != nil || len(gpus) == 0 && record == nil {
		return err
	}
	if err := m.Remove(id, gpus); err != nil {
		return err
	}
	return dcgm.RemoveRecord(h.runDir, key)
}
