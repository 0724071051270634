package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/pages"
)

const docs = "../../manifests/docs/"

// userPage is a page for users: its name without .md, and its blocks.
type userPage struct {
	name   string
	blocks []pages.Block
}

// readPages returns the pages for users.
func readPages(t *testing.T) []userPage {
	t.Helper()
	paths, err := filepath.Glob(docs + "*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	var all []userPage
	for _, path := range paths {
		blocks, err := pages.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, userPage{strings.TrimSuffix(filepath.Base(path), ".md"), blocks})
	}
	return all
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// writePages writes the blocks of the pages below dir, for the scripts.
func writePages(dir string, all []userPage) error {
	for _, p := range all {
		folder := filepath.Join(dir, "pages", p.name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		below := map[string]int{}
		for _, b := range p.blocks {
			heading := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(b.Heading), "-"), "-")
			below[heading]++
			file := filepath.Join(folder, fmt.Sprintf("%s-%d.%s", heading, below[heading], b.Language))
			if err := os.WriteFile(file, []byte(b.Text), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestPagesCallQuoin holds that the command line of each call of quoin in a page is right: its
// command, its flags and the number of its arguments.
func TestPagesCallQuoin(t *testing.T) {
	count := 0
	for _, p := range readPages(t) {
		for _, b := range p.blocks {
			if b.Language != "sh" {
				continue
			}
			calls, err := b.CallsOf("quoin")
			if err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
			count += len(calls)
			for _, call := range calls {
				if err := checkCall(call, false); err != nil {
					t.Errorf("%s.md:%d: quoin %s: %v", p.name, b.Line, strings.Join(call, " "), err)
				}
			}
		}
	}
	if count < 30 {
		t.Errorf("the pages have %d calls of quoin, want 30 or more", count)
	}
}

// checkCall reads a command line as quoin does, and runs nothing. Where a sentence names a command, it may leave
// values and arguments open, and name a command with others below it.
func checkCall(args []string, open bool) error {
	cmd, rest, err := newRootCommand().Find(args)
	if err != nil {
		return err
	}
	if cmd.HasAvailableSubCommands() && (!open || len(rest) > 0 && !strings.HasPrefix(rest[0], "-")) {
		return fmt.Errorf("%s is no command that does something", cmd.CommandPath())
	}
	err = cmd.ParseFlags(rest)
	if open {
		var noValue *pflag.ValueRequiredError
		var otherValue *pflag.InvalidValueError
		if errors.As(err, &noValue) || errors.As(err, &otherValue) || errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if err != nil {
		return err
	}
	if err := cmd.ValidateFlagGroups(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestCheckCall(t *testing.T) {
	for _, tt := range []struct {
		line        string
		right, open bool // open: right where a sentence names it
	}{
		{"job 7 --summary-dir d", true, true}, {"imex check --objects -", true, true}, {"plan status --store DIR", true, true}, {"doctor --only node", true, true},
		{"imex", false, true}, {"plan", false, true}, {"fit -N NODES", false, true}, {"job 7 8", false, true}, {"imex check --objects - --store d", false, true},
		{"jobs", false, false}, {"doctr", false, false}, {"imex chek", false, false}, {"plan sttus", false, false}, {"map --al", false, false},
		{"job 7 --summary-folder d", false, false}, {"plan diff --approve X", false, false},
	} {
		words := strings.Fields(tt.line)
		if err := checkCall(words, false); (err == nil) != tt.right {
			t.Errorf("%s: %v", tt.line, err)
		}
		if err := checkCall(words, true); (err == nil) != tt.open {
			t.Errorf("%s, in a sentence: %v", tt.line, err)
		}
	}
}

// TestPagesOfJobsAndIMEX holds the files that these two pages show against who reads them.
func TestPagesOfJobsAndIMEX(t *testing.T) {
	checked := map[string]int{}
	for _, p := range readPages(t) {
		if p.name != "imex" && p.name != "jobs-and-metrics" {
			continue
		}
		for _, b := range p.blocks {
			where := fmt.Sprintf("%s.md:%d", p.name, b.Line)
			checked[p.name+" "+b.Language]++
			switch b.Language {
			case "yaml":
				checkValues(t, where, b.Text)
			case "conf":
				checkConf(t, where, b.Text)
			case "sh":
				calls, err := b.CallsOf("helm")
				if err != nil {
					t.Error(err)
				}
				for _, call := range calls {
					at := slices.Index(call, "--set")
					if at < 0 || at+1 == len(call) {
						t.Errorf("%s: helm without --set: %q", where, call)
						continue
					}
					helmTemplate(t, where, "--set", call[at+1])
				}
			}
		}
	}
	for _, want := range []string{"imex yaml", "imex conf", "jobs-and-metrics yaml"} {
		if checked[want] == 0 {
			t.Errorf("no block was checked: %s", want)
		}
	}
}

func helmTemplate(t *testing.T, where string, values ...string) string {
	t.Helper()
	out, err := kuberig.Helm(t.Context(), append([]string{"template", "quoin", "../../manifests/chart", "--namespace", "quoin-system", "--set", kuberig.Image}, values...)...)
	if err != nil {
		t.Errorf("%s: %v\n%s", where, err, out)
	}
	return out
}

// checkValues gives values to the chart, and the configuration that it makes of them to quoin. Values of
// GPU Operator's chart must be as quoin doctor asks for them.
func checkValues(t *testing.T, where, text string) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	if exporter, theirs := values["dcgmExporter"]; theirs {
		want := map[string]any{
			"hpcJobMapping": map[string]any{"enabled": true, "directory": config.Default().Agent.MappingDir},
			"service":       map[string]any{"internalTrafficPolicy": "Local"},
		}
		if got, want := fmt.Sprint(exporter), fmt.Sprint(want); got != want {
			t.Errorf("%s: %s, want %s", where, got, want)
		}
		return
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found := 0
	for document := range strings.SplitSeq(helmTemplate(t, where, "-f", file), "\n---\n") {
		var object struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil || object.Kind != "ConfigMap" {
			continue
		}
		for name, data := range object.Data {
			if strings.HasSuffix(name, ".yaml") && strings.HasPrefix(name, "quoin") {
				found++
				if _, err := config.Parse(config.Default(), name, []byte(data), nil); err != nil {
					t.Errorf("%s: %v", where, err)
				}
			}
		}
	}
	if found < 2 { // the publisher's and the agents'
		t.Errorf("%s: %d configurations, want 2", where, found)
	}
}

// checkConf reads lines of slurm.conf as Quoin does.
func checkConf(t *testing.T, where, text string) {
	conf, err := slurmctld.ParseConf(where, []byte(text), nil)
	if err != nil {
		t.Error(err)
		return
	}
	for key, setting := range conf.Settings {
		want := map[string]string{
			"switchtype": "switch/nvidia_imex", "switchparameters": "imex_channel_count=2048",
		}[key]
		if setting.Value != want {
			t.Errorf("%s: %s=%s, want %q", where, key, setting.Value, want)
		}
	}
}

var (
	seriesWord   = regexp.MustCompile(`\bquoin_[a-z_]*[a-z]`)
	recordedWord = regexp.MustCompile(`\bquoin:[a-z_]+(?::[a-z_]+)?`)
)

// TestPagesNameSeries holds that each series that a page names is served, or recorded by the rules.
func TestPagesNameSeries(t *testing.T) {
	served, err := os.ReadFile("METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../../manifests/chart/files/quoin.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(docs + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range append(paths, "../../REASONS.md", "../../FIGURES.md", "../../manifests/RUNBOOKS.md", "../../nodeagent/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range seriesWord.FindAllString(string(text), -1) {
			if named++; !strings.Contains(string(served), "| `"+word+"`") && !strings.Contains(string(served), "| `"+word+"{") {
				t.Errorf("%s names %s, which nobody serves", page, word)
			}
		}
		for _, word := range recordedWord.FindAllString(string(text), -1) {
			if named++; !strings.Contains(string(rules), "record: "+word+"\n") {
				t.Errorf("%s names %s, which no rule records", page, word)
			}
		}
	}
	if named == 0 {
		t.Error("no page names a series")
	}
}
