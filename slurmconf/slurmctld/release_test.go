package slurmctld

import (
	"slices"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
)

func FuzzReleaseShown(f *testing.F) {
	for _, text := range []string{"", "=", "SLURM_VERSION", "SLURM_VERSION           = 24.11.5\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r := ReleaseShown(text); r != 0 && !slices.Contains(slurmconf.Releases(), r) {
			t.Errorf("release %d is not known", r)
		}
	})
}

func TestReleaseShown(t *testing.T) {
	for text, want := range map[string]slurmconf.Release{
		"Configuration data as of 2026-11-28T12:00:00\nSlurmctldLogFile        = /var/log\nSLURM_VERSION           = 24.11.5\nSlurmUser = slurm(64030)\n": slurmconf.Release2411,
		"SLURM_VERSION = 26.05.0-0rc1\n": slurmconf.Release2605,
		"SLURM_VERSION = (null)\n":       0,
		"SlurmctldVersion = 26.05\n":     0,
		"":                               0,
	} {
		if got := ReleaseShown(text); got != want {
			t.Errorf("%q: release %s, want %s", text, got, want)
		}
	}
}
