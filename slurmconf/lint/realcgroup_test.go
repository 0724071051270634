package lint_test

import (
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealCgroup holds which texts of cgroup.conf slurmctld refuses.
func TestRealCgroup(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		for _, text := range []string{
			"ConstrainDevices=Yes", "constraindevices=up", "ConstrainDevices=TRUE", "ConstrainDevices=1", "ConstrainDevices=no", "ConstrainDevices=Down", "ConstrainDevices=false", "ConstrainDevices=0",
			"ConstrainDevices=maybe", "ConstrainDevices=y", "ConstrainDevices=", "ConstrainDevices", "ConstrainDevices=no\nConstrainDevices=yes", "ConstrainCores=no ConstrainDevices=yes",
		} {
			text = "CgroupPlugin=disabled\n" + text + "\n"
			fatal, complaints := s.fatal(realConfig{files: map[string]string{"cgroup.conf": text}})
			found := lint.Lint([]lint.File{{Name: "cgroup.conf", Data: []byte(text)}}, lint.Options{Release: release})
			if topology.Has(found, topology.Fatal) != fatal {
				t.Errorf("Slurm %s, %q: lint says %v, fatal for Slurm: %t\n%s", release, text, found, fatal, complaints)
			}
		}
	})
}
