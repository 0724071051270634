package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDoctorCommands holds that quoin takes the words of each of its own commands that doctor advises.
func TestDoctorCommands(t *testing.T) {
	text, err := os.ReadFile("doctor/testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		var words []string
		if !strings.HasPrefix(line, `["quoin",`) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &words); err != nil {
			t.Fatal(err)
		}
		count++
		cmd, args, err := newRootCommand().Find(words[1:])
		if err == nil {
			err = cmd.ParseFlags(args)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || cmd.RunE == nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
	if count < 4 {
		t.Errorf("%d commands of quoin, want 4 or more", count)
	}
}

// TestInstallCommand holds that README, pages and doctor install Quoin by the same words, with the same
// presets, and that the upgrade has these presets too.
func TestInstallCommand(t *testing.T) {
	const install = "helm install quoin manifests/chart -n quoin-system --create-namespace -f manifests/chart/presets/slinky.yaml -f manifests/chart/presets/gpu-operator.yaml -f site.yaml"
	upgrade := strings.NewReplacer(" install ", " upgrade ", " --create-namespace", "").Replace(install)
	pages, err := filepath.Glob(docs + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, path := range append(pages, "../../README.md", "doctor/testdata/commands.txt") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
			line = strings.Join(strings.Fields(line), " ")
			name := filepath.Base(path)
			if strings.HasPrefix(line, "helm install quoin ") || strings.HasPrefix(line, "helm upgrade quoin manifests/chart ") && strings.Contains(line, "/presets/") {
				got[name] = append(got[name], line)
			}
		}
	}
	delete(got, "soperator.md") // which has presets of its own
	want := map[string][]string{"README.md": {install}, "install.md": {install, upgrade}, "slinky.md": {install}, "commands.txt": {install}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands that install Quoin (-want +got):\n%s", diff)
	}
}
