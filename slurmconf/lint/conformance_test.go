package lint_test

import (
	"slices"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/topology"
)

// topologyCase is one configuration that Lint and slurmctld both judge.
type topologyCase struct {
	name       string
	plugin     lint.Plugin
	conf       string
	noConf     bool
	yaml       string // empty: no file
	emptyYAML  bool
	partitions []string
}

func (c topologyCase) config() realConfig {
	r := realConfig{plugin: c.plugin, files: map[string]string{}}
	if !c.noConf {
		r.files["topology.conf"] = c.conf
	}
	if c.yaml != "" || c.emptyYAML {
		r.files["topology.yaml"] = c.yaml
	}
	for _, p := range c.partitions {
		r.partition += " Topology=" + p
	}
	return r
}

func (c topologyCase) lint(release slurmconf.Release) []topology.Finding {
	known, err := hostlist.Expand(realNodes)
	if err != nil {
		panic(err)
	}
	var files []lint.File
	for _, name := range []string{"topology.conf", "topology.yaml"} {
		if text, ok := c.config().files[name]; ok {
			files = append(files, lint.File{Name: name, Data: []byte(text)})
		}
	}
	o := lint.Options{Release: release, Files: lint.ThisHost, Plugin: c.plugin, KnownNodes: known}
	for _, p := range c.partitions {
		o.Partitions = append(o.Partitions, lint.Partition{Name: "main", Nodes: "ALL", Topology: p, File: "slurm.conf", Line: 1})
	}
	return lint.Lint(files, o)
}

// compare has both judge every case.
func compare(t *testing.T, release slurmconf.Release, cases []topologyCase) (fatal int) {
	t.Helper()
	s := startSlurm(t, release)
	skipped := 0
	for _, c := range cases {
		if len(c.partitions) > 0 && !release.Does(slurmconf.TopologyYAML) {
			continue // slurm.conf itself would be refused
		}
		real, complaints := s.fatal(c.config())
		findings := slices.DeleteFunc(c.lint(release), loadsSlowly)
		if real {
			fatal++
		}
		if slices.ContainsFunc(findings, notJudged) {
			skipped++
			continue
		}
		if got := topology.Has(findings, topology.Fatal); got != real {
			t.Errorf("Slurm %s, %s: Lint says fatal=%t, slurmctld %t\nconf:\n%s\nyaml:\n%s\nfindings: %v\nlog:\n%s",
				release, c.name, got, real, c.conf, c.yaml, findings, complaints)
		}
	}
	if skipped > len(cases)/4 {
		t.Errorf("Lint did not judge %d of %d cases", skipped, len(cases))
	}
	return fatal
}

// notJudged reports whether Lint says that it did not judge a part of the file.
func notJudged(f topology.Finding) bool { return f.Reason == "NotJudged" }

// loadsSlowly reports whether Lint refuses a file that slurmctld takes, because a larger
// one of this shape would keep slurmctld busy for minutes.
func loadsSlowly(f topology.Finding) bool {
	return f.Reason == "TreeTooLarge"
}

func eachRelease(t *testing.T, f func(t *testing.T, release slurmconf.Release)) {
	t.Helper()
	t.Parallel()
	for release := range realReleases {
		t.Run(release.String(), func(t *testing.T) {
			t.Parallel()
			f(t, release)
		})
	}
}

// TestRealBadInput has Lint and slurmctld judge every known kind of bad input.
func TestRealBadInput(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		cases := append(badConf(), badYAML()...)
		if n := compare(t, release, cases); n == 0 || n == len(cases) {
			t.Errorf("%d of %d cases were fatal: the rig does not tell them apart", n, len(cases))
		}
	})
}

// TestRealMissingFile waits out the minute that Slurm waits for a file.
func TestRealMissingFile(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		compare(t, release, []topologyCase{{name: "file missing", plugin: lint.PluginBlock, noConf: true}})
	})
}

// TestRealGenerated compares generated topologies, good and spoilt.
func TestRealGenerated(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		count, rng := oracle.Rounds(50, 400), oracle.Rand(t)
		cases := make([]topologyCase, count)
		for i := range cases {
			cases[i] = generateCase(rng, i)
		}
		n := compare(t, release, cases)
		t.Logf("Slurm %s: %d of %d generated topologies were fatal", release, n, count)
		if n < count/10 || n > count*9/10 {
			t.Errorf("%d of %d were fatal: the generator is lopsided", n, count)
		}
	})
}
