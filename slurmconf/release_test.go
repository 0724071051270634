package slurmconf

import (
	"fmt"
	"slices"
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

// TestReleasesTakeWhatOlderOnesTake holds that what came with one release is in all newer ones, also in the
// next one, of which nobody knows yet.
func TestReleasesTakeWhatOlderOnesTake(t *testing.T) {
	releases := append(Releases(), Latest+100)
	words := map[string]func(Release) bool{}
	for bit := News(1); bit != 0; bit <<= 1 {
		if slices.ContainsFunc(Releases(), func(r Release) bool { return r.Does(bit) }) {
			words[fmt.Sprintf("news %b", bit)] = func(r Release) bool { return r.Does(bit) }
		}
	}
	for _, k := range Latest.Kinds() {
		words["topology/"+k.Word] = func(r Release) bool { _, known := r.TopologyPlugin("topology/" + k.Word); return known }
	}
	for line, word := range map[string]string{"nodename": "topology", "partitionname": "topology", "topologyparam": "blockasnoderank"} {
		words[line+" "+word] = func(r Release) bool { return r.TakesWord(line, word) }
	}
	for word, does := range words {
		for i, r := range releases[1:] {
			if does(releases[i]) && !does(r) {
				t.Errorf("%s: %s has it and %s has not", word, releases[i], r)
			}
		}
	}
	if next := releases[len(releases)-1]; !next.Does(TopologyYAML) || !next.Does(RefusesBlockSizes) || !next.Does(RefusesEmptyConf) {
		t.Errorf("%s is judged as an older release", next)
	}
}
