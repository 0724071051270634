package slurmconf

import "testing"

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{"24.11": Release2411, "25.05.3": Release2505, "slurm 25.11.2": Release2511, "slurm-wlm 26.05.5": Release2605, " 26.05 ": Release2605} {
		if got, err := ParseRelease(text); err != nil || got != want {
			t.Errorf("ParseRelease(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "25", "23.11", "25.5", "2505", "a.b", "27.05"} {
		if got, err := ParseRelease(text); err == nil {
			t.Errorf("ParseRelease(%q) = %v, want an error", text, got)
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
