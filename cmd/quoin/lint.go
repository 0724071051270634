package main

import (
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
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

func newLintCommand() *cobra.Command {
	var o filesOptions
	var conf string
	cmd := &cobra.Command{
		Use:   "lint [--slurm-conf FILE] [--files PATH | --fresh | REPORT...]",
		Short: "Say what Slurm would not take of topology files, gres.conf and slurm.conf",
		Long: `lint says what slurmctld or slurmd of the release (--slurm-version) would refuse or warn
of. It reads the published files of a cluster or a directory, or those of --files. With
--fresh, --nodes or reports it first makes the files as render does.

With --slurm-conf lint also reads slurm.conf and the files that it includes, and says
where its node lines do not agree with the files. It names:

  - nodes that slurm.conf does not have
  - nodes with fewer GPUs than Gres= counts, or with GPUs of another type: Slurm drains
    them
  - nodes whose Cores are not the sockets of slurm.conf: Slurm drains them
  - nodes whose Topology= names something that the topology file lacks: slurmctld does
    not start

With a configuration it also names time limits of slurm.conf that are too short for a
Prolog that waits for IMEX.

Exit status: 1 if Slurm would not start or would drain nodes, 3 if something was not
judged.`,
		Example: `  quoin lint --files /etc/slurm
  quoin lint --slurm-conf /etc/slurm/slurm.conf --files /etc/slurm
  quoin lint --slurm-conf slurm.conf --nodes nodes.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := &show.Result{Kind: "LintResult"}
			w, err := o.read(cmd, r, args)
			if err != nil {
				return err
			}
			one, err := o.lint(conf, w)
			if err != nil {
				return err
			}
			r.Add(one)
			return printResult(cmd.OutOrStdout(), o.output, r)
		},
	}
	cmd.Flags().StringVar(&conf, "slurm-conf", "", "slurm.conf `file` that the files must go with")
	o.addFlags(cmd, "topology.conf, topology.yaml or gres.conf, or a `path` of a directory that holds them")
	return cmd
}

// lint judges the files, with slurm.conf if there is one.
func (o *filesOptions) lint(confFile string, w *wanted) (*show.Result, error) {
	pub, files := w.pub, w.files
	if confFile == "" {
		return show.FilesResult(pub.Release, lint.Lint(files, lint.Options{Release: pub.Release, DropsBlockSizes: slurmconf.DropsBlockSizes(pub.SlurmVersion)})), nil
	}
	conf, err := readSlurmConf(confFile)
	if err != nil {
		return nil, err
	}
	options := conf.Options(pub.Release)
	options.DropsBlockSizes = slurmconf.DropsBlockSizes(pub.SlurmVersion)
	if !slices.ContainsFunc(files, isTopology) { // what it is to be is not asked
		options.Plugin = ""
	}
	var hook lint.Hook
	if w.Configured { // else nothing is known of the hook
		hook = hookOf(w.Config)
	}
	found := append(lint.Lint(withGres(o.files, files), options), lint.LintSettings(confFile, conf.Settings, hook)...)
	return show.ConfResult(confFile, len(conf.Nodes), found), nil
}

// What a Prolog that waits for IMEX may take beside its two waits, and more where it
// puts the job back into the queue by two calls of scontrol.
const (
	prologMore = 2 * time.Second
	holdMore   = 12 * time.Second
)

// hookOf returns the parts of a configuration that slurm.conf must agree with.
func hookOf(c *config.Config) lint.Hook {
	hook := lint.Hook{HostChannels: c.IMEX.HostChannels}
	jobs := &c.Agent.Jobs
	if jobs.HookGate != config.GateOff && c.IMEX.Join != imex.JoinNone {
		longest := jobs.HookWait + jobs.HookGateWait + prologMore
		if jobs.HookGate == rundir.GateHold {
			longest += holdMore
		}
		hook.PrologSeconds = int((longest + time.Second - 1) / time.Second) // rounded up
	}
	return hook
}

// withGres returns the files with an empty gres.conf where they are all that there is
// and it is not among them: without one no node has GPUs. A single file stays alone.
func withGres(path string, files []lint.File) []lint.File {
	whole := path == "" || session.IsDirectory(path)
	if !whole || slices.ContainsFunc(files, func(f lint.File) bool { return !isTopology(f) }) {
		return files
	}
	return append(slices.Clone(files), lint.File{Name: filepath.Join(path, gresFile)})
}

// readSlurmConf reads a slurm.conf and the files that it includes: those without a
// whole path are beside it.
func readSlurmConf(path string) (*slurmctld.Conf, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read slurm.conf: %w", err)
	}
	return slurmctld.ParseConf(path, data, func(file string) (string, []byte, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		data, err := os.ReadFile(file)
		return file, data, err
	})
}
