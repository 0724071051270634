package inputs

import (
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
)

func TestControllerRelease(t *testing.T) {
	for image, want := range map[string]slurmconf.Release{
		"ghcr.io/slinkyproject/slurmctld:25.11-ubuntu24.04": slurmconf.Release2511,
		"registry:5000/slurmctld:26.05.5@sha256:00":         slurmconf.Release2605,
		"slurmctld:24.11":                      slurmconf.Release2411,
		"slurmctld:27.02-rocky9":               slurmconf.Latest,
		"slurmctld:25.08.1":                    slurmconf.Release2505,
		"slurmctld:23.11":                      0,
		"slurmctld:latest":                     0,
		"slurmctld:v25.11":                     0,
		"slurmctld:25.115":                     0,
		"slurmctld:2511":                       0,
		"slurmctld:":                           0,
		"slurmctld":                            0,
		"registry:25.11/slurmctld":             0,
		"registry:5000/slurmctld@sha256:26.05": 0,
		"":                                     0,
	} {
		if got := (Controller{Image: image}).Release(); got != want {
			t.Errorf("%q: release %s, want %s", image, got, want)
		}
	}
}
