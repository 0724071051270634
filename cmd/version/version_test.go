package version

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestRevision(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	tests := []struct {
		name     string
		settings []debug.BuildSetting
		want     string
	}{
		{"not recorded", nil, ""},
		{"a commit", []debug.BuildSetting{setting("vcs.revision", "a5ba8a1"), setting("vcs.modified", "false")}, "a5ba8a1"},
		{"a changed tree", []debug.BuildSetting{setting("vcs.modified", "true"), setting("vcs.revision", "a5ba8a1")}, "a5ba8a1-modified"},
		{"changed, without a commit", []debug.BuildSetting{setting("vcs.modified", "true")}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := revision(tt.settings); got != tt.want {
				t.Errorf("revision = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestString(t *testing.T) {
	tests := []struct {
		info Info
		want string
	}{
		{Info{Version: "1.2.3", Go: "go1.26.7", Platform: "linux/arm64"}, "1.2.3 (go1.26.7, linux/arm64)"},
		{Info{Version: "1.2.3", Revision: "a5ba8a1", Go: "go1.26.7", Platform: "linux/amd64"}, "1.2.3 (commit a5ba8a1, go1.26.7, linux/amd64)"},
	}
	for _, tt := range tests {
		if got := tt.info.String(); got != tt.want {
			t.Errorf("String() = %q, want %q", got, tt.want)
		}
	}
}

// TestChangelog holds that the newest part of the changelog is that of this release.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^## (.*)$`).FindSubmatch(text); m == nil || string(m[1]) != Number {
		t.Errorf("CHANGELOG.md begins with %s, want %s", m, Number)
	}
}

// TestChart holds that the Helm chart has the number of this release.
func TestChart(t *testing.T) {
	chart, err := os.ReadFile("../../manifests/chart/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"version", "appVersion"} {
		m := regexp.MustCompile(`(?m)^` + key + `: "?([^"\n]*)"?$`).FindSubmatch(chart)
		if m == nil || string(m[1]) != Number {
			t.Errorf("Chart.yaml: %s is %s, want %s: change both together", key, m, Number)
		}
	}
}
