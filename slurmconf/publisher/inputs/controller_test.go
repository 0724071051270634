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
		if got := (&Controller{Image: image}).Release(); got != want {
			t.Errorf("%q: release %s, want %s", image, got, want)
		}
	}
}

func TestControllerOf(t *testing.T) {
	all := []Controller{{Namespace: "slurm", Name: "a"}, {Namespace: "slurm", Name: "b"}, {Namespace: "other", Name: "a"}}
	for _, tt := range []struct {
		name   string
		config Config
		want   string // NAMESPACE/NAME, or empty
	}{
		{"nodes.slinky", Config{Namespace: "slurm", Slinky: "b", SlurmNames: "slinky:b"}, "slurm/b"},
		{"nodes.slinky beside names that any may give", Config{Namespace: "slurm", Slinky: "b", SlurmNames: "slinky"}, "slurm/b"},
		{"slurmNames", Config{Namespace: "slurm", SlurmNames: "slinky:other/a"}, "other/a"},
		{"one of several", Config{Namespace: "slurm", SlurmNames: "slinky"}, ""},
		{"the only one", Config{Namespace: "other", SlurmNames: "slinky"}, "other/a"},
		{"the only one, beside names of Nodes", Config{Namespace: "other", SlurmNames: "short"}, "other/a"},
		{"none of that name", Config{Namespace: "slurm", SlurmNames: "slinky:c"}, ""},
		{"none there", Config{Namespace: "gone", SlurmNames: "slinky"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules := NewRules(tt.config, func(key, message string) { t.Fatalf("%s: %s", key, message) })
			got := ""
			if c := rules.ControllerOf(all); c != nil {
				got = c.Namespace + "/" + c.Name
			}
			if got != tt.want {
				t.Errorf("Controller %q, want %q", got, tt.want)
			}
		})
	}
}
