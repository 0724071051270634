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
