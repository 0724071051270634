package lint_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// realReleases are the releases that there is a real Slurm of.
var realReleases = map[slurmconf.Release]slurmrig.Release{
	slurmconf.Release2411: slurmrig.Slurm2411,
	slurmconf.Release2605: slurmrig.Slurm2605,
}

// realSlurm is one release's daemons in namespaces of their own, one request
// at a time.
type realSlurm struct {
	t       *testing.T
	release slurmconf.Release
	checker *slurmrig.Checker
}

func startSlurm(t *testing.T, release slurmconf.Release) *realSlurm {
	t.Helper()
	return &realSlurm{t: t, release: release, checker: slurmrig.NewCheckerTest(t, realReleases[release])}
}

// realConfig is what one run of a daemon reads.
type realConfig struct {
	files     map[string]string // topology.conf and its like
	plugin    lint.Plugin
	partition string // further words of the partition's line
	gres      string // slurm.conf's Gres= of every node
	lines     string // further lines of slurm.conf
}

// realNodes are the nodes that slurm.conf has in every run, and gresNode the one of them that
// reads gres.conf.
const (
	realNodes = "n[001-016]"
	gresNode  = "n001"
)

// all are the files, slurm.conf among them.
func (c realConfig) all() map[string]string {
	conf := "GresTypes=gpu,nic\nNodeName=" + realNodes + " NodeAddr=127.0.0.1 Port=[20001-20016] CPUs=16 RealMemory=1000 State=UNKNOWN" + c.gres +
		"\nPartitionName=main Nodes=ALL Default=YES State=UP " + c.partition + "\n" + c.lines
	if c.plugin != "" {
		conf += "TopologyPlugin=" + string(c.plugin) + "\n"
	}
	files := map[string]string{"slurm.conf": conf}
	maps.Copy(files, c.files)
	return files
}

// fatal reports whether slurmctld does not start, and what it complains of.
func (s *realSlurm) fatal(c realConfig) (fatal bool, complaints string) {
	s.t.Helper()
	return s.verdict(s.checker.Check(s.t.Context(), c.all()))
}

// gresFatal reports whether slurmd does not start, and what it complains of.
func (s *realSlurm) gresFatal(c realConfig) (fatal bool, complaints string) {
	s.t.Helper()
	return s.verdict(s.checker.GRES(s.t.Context(), gresNode, c.all()))
}

func (s *realSlurm) verdict(fatal bool, lines []string, err error) (bool, string) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("Slurm %s: %v", s.release, err)
	}
	return fatal, strings.Join(lines, "\n")
}

// topology is what scontrol shows of the topologies.
func (s *realSlurm) topology(c realConfig) (string, error) {
	return s.checker.Topology(s.t.Context(), c.all())
}

// linesOf are the lines of a text.
func linesOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}
