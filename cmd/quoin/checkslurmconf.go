package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/comparison"
	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

// checkSlurmConf says where the files do not go with a slurm.conf.
func checkSlurmConf(o *checkOptions, files []lint.File) (*show.Result, error) {
	pub, err := o.render.cluster(o.render.publication)
	if err != nil {
		return nil, err
	}
	release, err := slurmconf.ParseRelease(pub.SlurmVersion)
	if err != nil {
		return nil, err
	}
	conf, err := readSlurmConf(o.slurmConf)
	if err != nil {
		return nil, err
	}
	options := conf.Options(release)
	options.DropsBlockSizes = slurmconf.DropsBlockSizes(pub.SlurmVersion)
	if !slices.ContainsFunc(files, isTopology) { // what it is to be is not asked
		options.Plugin = ""
	}
	hook, err := readHook(&o.render)
	if err != nil {
		return nil, err
	}
	found := append(lint.Lint(withGres(o.plan, files), options), lint.LintSettings(o.slurmConf, conf.Settings, hook)...)
	return comparison.OfConf(o.slurmConf, len(conf.Nodes), found), nil
}

// What a Prolog that waits for IMEX may take beside its two waits, and more where it
// puts the job back into the queue by two calls of scontrol.
const (
	prologMore = 2 * time.Second
	holdMore   = 12 * time.Second
)

// readHook returns what a configuration says that must go with slurm.conf. Without a
// configuration nothing is known of the hook.
func readHook(o *renderOptions) (lint.Hook, error) {
	if o.path == "" {
		return lint.Hook{}, nil
	}
	c, err := o.load()
	if err != nil {
		return lint.Hook{}, err
	}
	hook := lint.Hook{HostChannels: c.IMEX.HostChannels}
	jobs := &c.Agent.Jobs
	if jobs.HookGate != config.GateOff && c.IMEX.Join != imex.JoinNone {
		longest := jobs.HookWait + jobs.HookGateWait + prologMore
		if jobs.HookGate == rundir.GateHold {
			longest += holdMore
		}
		hook.PrologSeconds = int((longest + time.Second - 1) / time.Second) // rounded up
	}
	return hook, nil
}

// withGres returns the files with an empty gres.conf where they are all that there is
// and it is not among them: without one no node has GPUs. A single file stays alone.
func withGres(plan string, files []lint.File) []lint.File {
	whole := plan == "" || isDirectory(plan)
	if !whole || slices.ContainsFunc(files, func(f lint.File) bool { return !isTopology(f) }) {
		return files
	}
	return append(slices.Clone(files), lint.File{Name: filepath.Join(plan, gresFile)})
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
