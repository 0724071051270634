package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/dcgm/document"
)

func TestHookConfigRoundTrip(t *testing.T) {
	run := t.TempDir()
	want := HookConfig{Head: document.HeadOf(hookConfigKind), MappingDir: "/map", SummaryDir: "/shared",
		Scontrol: "/usr/bin/scontrol", Gate: &Gate{Wait: Duration(5 * time.Second), Policy: GateHold}}
	if err := Dir(run).WriteHookConfig(want); err != nil {
		t.Fatal(err)
	}
	got, err := Dir(run).ReadHookConfig()
	if diff := cmp.Diff(&want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	const head = `{"apiVersion":"quoin.dev/v1alpha1","kind":"HookConfig","mappingDir":"/map"`
	for _, tt := range []struct {
		name, text, err string
		kept            bool
	}{
		{"a newer agent's", head + `,"mood":"good"}`, "", true},
		{"no directory", strings.Replace(head, "/map", "", 1) + "}", "no mapping directory", false},
		{"a gate without a unit", head + `,"gate":{"wait":"2"}}`, "missing unit", true},
		{"scontrol without a path", head + `,"scontrol":"scontrol"}`, `scontrol "scontrol": want its absolute path`, true},
		{"summaries without a path", head + `,"summaryDir":"x"}`, `summaryDir "x": want an absolute path`, true},
		{"endless gate", head + `,"gate":{"wait":"1h"}}`, "gate.wait 1h0m0s: want 0s to 10m0s", true},
		{"negative gate", head + `,"gate":{"wait":"-1s"}}`, "gate.wait -1s", true},
		{"unknown policy", head + `,"gate":{"policy":"shout"}}`, `gate.policy "shout": want warn, fail or hold`, true},
		{"another kind", strings.Replace(head, "HookConfig", "Hook", 1) + "}", `kind "Hook"`, false},
		{"cut off", head, "unexpected end", false},
	} {
		if err := os.WriteFile(filepath.Join(run, HookConfigFile), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Dir(run).ReadHookConfig()
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
		if kept := c != nil && c.MappingDir == "/map"; kept != tt.kept || err != nil && c != nil && *c != (HookConfig{Head: document.HeadOf(hookConfigKind), MappingDir: "/map"}) {
			t.Errorf("%s: %+v, want the directory: %t", tt.name, c, tt.kept)
		}
	}
	if err := Dir(run).WriteHookConfig(HookConfig{MappingDir: "/map", SummaryDir: "x"}); err == nil {
		t.Error("what cannot be read was written")
	}
	hold := HookConfig{MappingDir: "/map", Gate: &Gate{Policy: GateHold}}
	if err := Dir(run).WriteHookConfig(hold); err == nil || !strings.Contains(err.Error(), "gate.policy hold: want scontrol too") {
		t.Errorf("hold without scontrol: %v", err)
	}
	// By whoever wrote it: the hook warns.
	if err := os.WriteFile(filepath.Join(run, HookConfigFile), []byte(head+`,"gate":{"policy":"hold"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Dir(run).ReadHookConfig(); err != nil || c.Gate == nil || c.Gate.Policy != GateHold {
		t.Errorf("hold without scontrol is read as %+v, %v", c, err)
	}
}
