package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

func newLintCommand() *cobra.Command {
	var o filesOptions
	var conf string
	cmd := &cobra.Command{
		Use:   "lint [--slurm-conf FILE] [PATH | --fresh | REPORT...]",
		Short: "Say what Slurm would not take of topology files, gres.conf and slurm.conf",
		Long: `lint says what slurmctld or slurmd of the release (--slurm-version) would refuse or warn
of. It reads the published files of a cluster or a directory, or those of PATH: a directory
of Slurm's files, or one file. With --fresh, --nodes or reports it first makes the files as
render does.

With --slurm-conf, or if PATH is slurm.conf or a directory that has one, lint also reads
slurm.conf, and says where it does not agree with the files. It follows lines Include of
all files. It names:

  - keys that Slurm does not know on lines NodeName and PartitionName, and keys about
    topologies and GRES; values of SelectType, SwitchType, PrologFlags and TopologyParam
  - a topology file that Slurm does not read, or that is absent, by TopologyPlugin and the
    release; a gres.conf that Slurm does not read, because GresTypes is absent
  - nodes that slurm.conf does not have
  - nodes with fewer GPUs than Gres= counts, or with GPUs of another type: Slurm drains
    them; with --nodes also by the labels of nodes that detect their GPUs
  - words of Gres= that Slurm ignores, and GPUs that Gres= of no node counts
  - nodes whose Cores are not the sockets of slurm.conf: Slurm drains them
  - nodes and partitions whose Topology= names something that the topology file lacks:
    slurmctld does not start
  - a cgroup.conf that lets a job see all GPUs of its node
  - partitions with nodes that their topology lacks

A directory has all files of the host of slurmctld: a topology file that is not in it is
absent. A gres.conf or a cgroup.conf that is not in it may be on the nodes alone and is not
judged, unless SlurmctldParameters has enable_configless. With MaxNodeCount, nodes that
slurm.conf lacks may come later. With a configuration, lint also names settings of
slurm.conf that do not go with IMEX. An example is a time limit that is shorter than the
Prolog's wait for IMEX.

The last line names the release that lint judged for, and what lint judged. Of the nodes
whose Gres= counts GPUs it says how many agree with gres.conf, how many differ, and how many
are not judged. If no release is given or stored, lint judges for 25.05.

Exit status: 1 if Slurm would not start or would drain nodes, 3 if something was not
judged.`,
		Example: `  quoin lint /etc/slurm
  quoin lint --slurm-conf /etc/slurm/slurm.conf topology.yaml
  quoin lint --slurm-conf slurm.conf --nodes nodes.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := o.takeArgs(args)
			if err != nil {
				return err
			}
			if conf == "" && filepath.Base(o.files) == slurmConf { // with the files beside it
				o.files = filepath.Dir(o.files)
			}
			if beside := filepath.Join(o.files, slurmConf); conf == "" && o.files != "" && exists(beside) {
				conf = beside
			}
			if conf != "" {
				o.confDir = filepath.Dir(conf)
			}
			return o.judge(cmd, args, func(w *wanted) (*show.Result, error) { return o.lint(conf, w) })
		},
	}
	cmd.Flags().StringVar(&conf, "slurm-conf", "", "slurm.conf `file` that the files must go with")
	o.addFlags(cmd)
	return cmd
}

// lint judges the files, with slurm.conf if there is one.
func (o *filesOptions) lint(confFile string, w *wanted) (*show.Result, error) {
	cgroup, err := o.cgroup(w)
	if err != nil {
		return nil, err
	}
	if confFile == "" {
		if len(w.files) == 0 {
			return nil, fmt.Errorf("no topology.yaml, no topology.conf and no gres.conf is published in %s", w.pub.Place())
		}
		files := slices.Concat(w.files, cgroup)
		options := lint.Options{Release: w.pub.Release}
		return show.LintResult("", releaseText(w.pub), names(files), 0, "", options.OtherGRES(files), append(lint.Lint(files, options), splitJobs(w.files)...)), nil
	}
	conf, err := readSlurmConf(confFile)
	if parse := (*syntax.ParseError)(nil); errors.As(err, &parse) {
		one := show.LintResult(confFile, releaseText(w.pub), nil, 0, "", nil, []topology.Finding{refused(parse)})
		if parse.NotJudged {
			one.Summary = []string{confFile + " could not be read whole, so nothing was judged"}
		}
		return one, nil
	} else if err != nil {
		return nil, err
	}
	options := conf.Options(w.pub.Release)
	if session.IsDirectory(o.files) { // a site may have a topology.conf beside what is published
		options.Files = lint.ThisHost
	}
	options.GRES = options.Files == lint.ThisHost || o.files == "" // else one file is asked about
	options.Found = map[string]gres.Registration{}
	as := w.pub.GresOptions()
	for i := range w.facts {
		options.Found[w.facts[i].SlurmName] = as.Found(w.facts[i].Listed())
	}
	var hook lint.Hook
	if w.Configured { // else nothing is known of the hook
		hook = hookOf(w.Config, w.pub.BlocksBy == "nvlink" && hasBlocks(w.files))
	}
	files := slices.Concat(w.files, cgroup)
	found, gpus := lint.Judge(files, options)
	found = append(found, lint.LintSettings(confFile, conf.Settings, hook)...)
	found = append(found, splitJobs(w.files)...)
	return show.LintResult(confFile, releaseText(w.pub), names(files), len(conf.Nodes), gpus.String(), options.OtherGRES(files), found), nil
}

// splitJobs names the smallest size of jobs that fit into one block, and to which Slurm gives several.
func splitJobs(files []lint.File) (found []topology.Finding) {
	for _, f := range slices.DeleteFunc(slices.Clone(files), func(f lint.File) bool { return !isTopology(f) }) {
		plan, err := slurmconf.ReadPlan(f.Name, f.Data)
		for i := 0; err == nil && i < len(plan.Topologies); i++ { // else Lint says what is wrong
			t := &plan.Topologies[i]
			if size := fit.SplitSize(t); size > 0 {
				found = append(found, topology.Finding{Subject: topology.Subject{File: f.Name, Line: 1}, Severity: topology.Warning, Reason: fit.ReasonJobSplit, Remedy: "set the base block size to the size of the largest block, if jobs of this size matter",
					Message: fmt.Sprintf("Slurm gives a job of %d nodes several blocks of topology %s, although one block is large enough", size, t.Name)})
			}
		}
	}
	return found
}

// cgroup returns the cgroup.conf beside slurm.conf, or else in the directory of PATH, if it goes with other
// files. If there is none, nothing is said: it may be on the nodes alone.
func (o *filesOptions) cgroup(w *wanted) ([]lint.File, error) {
	if len(w.files) == 0 {
		return nil, nil
	}
	for _, dir := range []string{o.confDir, o.files} {
		if path := filepath.Join(dir, cgroupConf); dir != "" && exists(path) {
			f, err := readFile(path, o.confDir)
			return []lint.File{f}, err
		}
	}
	return nil, nil
}

// names say what was judged: the files, and of cgroup.conf one key. A directory that all files share is left out.
func names(files []lint.File) (names []string) {
	for _, f := range files {
		name := filepath.Base(f.Name)
		if name == cgroupConf {
			name = "ConstrainDevices of " + name
		}
		names = append(names, name)
	}
	return names
}

// releaseText is the release by which files are judged.
func releaseText(pub *publication.Cluster) string {
	if pub.Guesses() {
		return pub.Release.String() + ", because no release is given: --slurm-version names another"
	}
	return cmp.Or(pub.SlurmVersion, pub.Release.String())
}

// refused says that Slurm does not take slurm.conf, or that it is not judged.
func refused(e *syntax.ParseError) topology.Finding {
	f := topology.Finding{Subject: topology.Subject{File: e.File, Line: e.Line}, Severity: topology.Fatal, Reason: syntax.ReasonSyntax, Message: e.Message, Remedy: "correct the line; nothing else was judged"}
	if e.NotJudged {
		f.Severity, f.Reason, f.Remedy = topology.Unknown, syntax.ReasonNotJudged, "check it with Slurm itself; nothing else was judged"
	}
	if e.Key == "Include" { // the message ends with what to do
		f.Reason, f.Remedy = syntax.ReasonInclude, "nothing else was judged"
	} else if e.Key != "" {
		f.Message = e.Key + ": " + e.Message
	}
	return f
}

// What a Prolog that waits for IMEX may take beside its two waits, and more where it
// puts the job back into the queue by two calls of scontrol.
const (
	prologMore = 2 * time.Second
	holdMore   = 12 * time.Second
)

// hasBlocks reports whether the files have a topology of blocks.
func hasBlocks(files []lint.File) bool {
	return slices.ContainsFunc(files, func(f lint.File) bool {
		topologies, err := slurmconf.ParseTopologies(f.Name, f.Data)
		return isTopology(f) && err == nil && slices.ContainsFunc(topologies, func(t topology.Topology) bool { return t.Kind == topology.KindBlock })
	})
}

// hookOf returns the parts of a configuration that slurm.conf must agree with. domains says that
// NVLink domains of several nodes are published: with imex.join auto they are one ComputeDomain.
func hookOf(c *config.Config, domains bool) lint.Hook {
	join := c.IMEX.Join
	hook := lint.Hook{HostChannels: c.IMEX.HostChannels, OneDomain: join == imex.JoinHolder || join == imex.JoinSlurmd || join == imex.JoinAuto && domains}
	jobs := &c.Agent.Jobs
	if jobs.HookGate != config.GateOff && c.IMEX.Join != imex.JoinNone {
		longest := rundir.DefaultWait + jobs.HookGateWait + prologMore
		if jobs.HookGate == rundir.GateHold {
			longest += holdMore
		}
		hook.PrologSeconds = int((longest + time.Second - 1) / time.Second) // rounded up
	}
	return hook
}

// readSlurmConf reads a slurm.conf and the files that it includes.
func readSlurmConf(path string) (*slurmctld.Conf, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read slurm.conf: %w", show.Unopened(err, path, "a slurm.conf"))
	}
	return slurmctld.ParseConf(path, data, openIncluded(filepath.Dir(path)))
}
