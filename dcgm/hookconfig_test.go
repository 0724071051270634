package dcgm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHookConfigRoundTrip(t *testing.T) {
	run := t.TempDir()
	want := HookConfig{APIVersion: APIVersion, Kind: hookConfigKind, MappingDir: "/map", Unlink: true, Wait: Duration(3 * time.Second), SummaryDir: "/shared",
		JobInfo: &JobInfo{Command: "/usr/bin/scontrol", Timeout: Duration(time.Second)}}
	if err := WriteHookConfig(run, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadHookConfig(run)
	if diff := cmp.Diff(&want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	const head = `{"apiVersion":"quoin.dev/v1alpha1","kind":"HookConfig","mappingDir":"/map"`
	for _, tt := range []struct{ name, text, err string }{
		{"a newer agent's", head + `,"mood":"good"}`, ""},
		{"no directory", strings.Replace(head, "/map", "", 1) + "}", "no mapping directory"},
		{"wait without a unit", head + `,"wait":"2"}`, "missing unit"},
		{"negative wait", head + `,"wait":"-2s"}`, "wait -2s: want 0s to 1m0s"},
		{"endless wait", head + `,"wait":"2h"}`, "wait 2h0m0s: want"},
		{"command without a path", head + `,"jobInfo":{"command":"scontrol"}}`, `"scontrol": want the absolute path`},
		{"endless question", head + `,"jobInfo":{"command":"/scontrol","timeout":"1h"}}`, "jobInfo.timeout 1h0m0s: want"},
		{"summaries without a path", head + `,"summaryDir":"x"}`, `summaryDir "x": want an absolute path`},
		{"another kind", strings.Replace(head, "HookConfig", "Hook", 1) + "}", `kind "Hook"`},
		{"cut off", head, "unexpected end"},
	} {
		if err := os.WriteFile(filepath.Join(run, HookConfigFile), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadHookConfig(run); (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
	}
	if err := WriteHookConfig(run, HookConfig{MappingDir: "/map", SummaryDir: "x"}); err == nil {
		t.Error("what cannot be read was written")
	}
}
