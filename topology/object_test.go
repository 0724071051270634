package topology_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// TestParseObject reads reports with and without what Kubernetes adds to them.
func TestParseObject(t *testing.T) {
	const head = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport",`
	spaces := func(n int) string { return strings.Repeat(" ", n) }
	var gpus []string
	for i := range 20 {
		gpus = append(gpus, fmt.Sprintf(`{"index":%d,"uuid":"GPU-%d","cpuAffinity":%q}`, i, i, strings.Repeat("0", 4096)))
	}
	for _, tt := range []struct {
		name, text, want string // want is part of the error, empty if there is none
	}{
		{"a report", head + `"node":"n"}`, ""},
		{"metadata and summary", head + `"node":"n","metadata":{"name":"n","labels":{"a":"b"}},"summary":{"gpus":4,"problems":0}}`, ""},
		{"a summary without metadata", head + `"node":"n","summary":{"gpus":4}}`, ""},
		{"a key that nobody knows", head + `"node":"n","color":{"gpus":1}}`, ""},
		{"a bound beside metadata", head + `"node":"n","metadata":{},"bootID":"` + strings.Repeat("x", 257) + `"}`, "bootID: 257 bytes"},
		{"no node beside metadata", head + `"metadata":{"name":"n"}}`, "node: empty"},
		{"another version beside metadata", `{"apiVersion":"quoin.dev/v2","kind":"NodeReport","metadata":{},"node":"n"}`, `apiVersion "quoin.dev/v2"`},
		{"text after it", head + `"node":"n","metadata":{}} {}`, "o:1: report is not JSON"},
		{"half of it", head + `"node":"n","metadata":{`, "o:1: report is not JSON"},
		{"a list", `[{"metadata":{}}]`, "found array"},
		{"null", `null`, `apiVersion ""`},
		{"metadata of 100 KB", head + `"node":"n","metadata":{"name":` + spaces(100_000) + `"n"}}`, ""},
		{"metadata of 600 KB", head + `"node":"n","metadata":{"name":` + spaces(600_000) + `"n"}}`, "o: report: larger than 65536 bytes"},
		{"facts of 100 KB", head + `"node":"n","metadata":{},"gpus":[` + strings.Join(gpus, ",") + `]}`, "larger than 65536 bytes"},
		{"spaces of 100 KB without metadata", head + `"node":` + spaces(100_000) + `"n"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := topology.ParseObject("o", []byte(tt.text))
			switch {
			case tt.want == "" && err == nil:
				if diff := cmp.Diff(&topology.Node{Name: "n"}, n); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			case tt.want == "" || err == nil || !strings.Contains(err.Error(), tt.want):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzParseObject puts any metadata and summary beside any facts: they change nothing.
func FuzzParseObject(f *testing.F) {
	report, err := topology.EncodeReport(machine())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(report, []byte(`{"name":"r001n01"}`), []byte(`{"gpus":4}`))
	f.Add(report, []byte(`null`), []byte(`1`))
	f.Fuzz(func(t *testing.T, report, metadata, summary []byte) {
		want, err := topology.ParseReport("f", report)
		if err != nil || !json.Valid(metadata) || !json.Valid(summary) || len(metadata)+len(summary) > 100_000 {
			return
		}
		facts, err := topology.EncodeReport(want) // each key once
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"metadata":%s,"summary":%s,%s`, metadata, summary, facts[1:])
		got, err := topology.ParseObject("f", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := topology.EncodeReport(got)
		if err != nil || !bytes.Equal(facts, again) {
			t.Errorf("%s: %v\n%s", text, err, again)
		}
	})
}
