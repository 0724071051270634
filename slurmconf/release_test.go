package slurmconf

import (
	"fmt"
	"testing"
)

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{"24.11": Release2411, "25.05.3": Release2505, "slurm 25.11.2": Release2511, "slurm-wlm 26.05.5": Release2605, " 26.05 ": Release2605} {
		if got, err := ParseRelease(text); err != nil || got != want {
			t.Errorf("ParseRelease(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	const known = "want one of 24.11, 25.05, 25.11, 26.05"
	for text, want := range map[string]string{
		"": known, "25": known, "25.5": known, "2505": known, "a.b": known,
		"23.11":   known + "; it is older than all of these, and Quoin has no rules for it",
		"24.05.3": known + "; it is older than all of these, and Quoin has no rules for it",
		"25.08":   known + "; take 25.05, the nearest older one",
		"26.11.0": known + "; it is newer than all of these: take 26.05",
	} {
		if got, err := ParseRelease(text); err == nil || err.Error() != fmt.Sprintf("slurm release %q: %s", text, want) {
			t.Errorf("ParseRelease(%q) = %v, %v, want the error %q", text, got, err, want)
		}
	}
}

func TestDropsBlockSizes(t *testing.T) {
	for version, want := range map[string]bool{"24.11.5": false, "25.05": true, "25.11.9": true, "26.05": false, "26.05.0": true, "26.05.2": true, "slurm 26.05.2": true, "26.05.2-1": true, "26.05.3": false, "26.05.12": false, "x": false} {
		if got := DropsBlockSizes(version); got != want {
			t.Errorf("DropsBlockSizes(%q) = %t", version, got)
		}
	}
}
