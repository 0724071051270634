package slurmctld

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answer has two nodes as slurmrestd 26.05.5 writes them, shortened.
//
//go:embed testdata/nodes.json
var answer string

var answered = map[string]Node{
	"d1": {Topology: "nvl:b1,fabric:s1", Registered: true, State: "IDLE+DYNAMIC_NORM", Gres: "gpu:gb200:4(S:0-1)"},
	"d2": {Registered: true, Invalid: true, Reason: "Failed to set topology 'nvl:b9'", State: "IDLE+DRAIN+INVALID_REG+DYNAMIC_NORM"},
	"n3": {State: "UNKNOWN+NOT_RESPONDING"},
	"c1": {Registered: true, Off: true, State: "IDLE+CLOUD+POWERED_DOWN"},
}

func TestReadNodes(t *testing.T) {
	got, err := ReadNodes(strings.NewReader(answer))
	if diff := cmp.Diff(answered, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		``:                      "EOF",
		`[]`:                    "[ where { should be",
		`{"errors":[]}`:         "no list of nodes",
		`{"nodes":{}}`:          "{ where [ should be",
		`{"nodes":[{"name":1}]`: "read node 1:",
		`{"nodes":[{"name":"a"`: "read node 1:",
		`{"meta":{"nodes":[]}}`: "no list of nodes",
	} {
		if _, err := ReadNodes(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func FuzzReadNodes(f *testing.F) {
	for _, text := range []string{answer, `{"nodes":[]}`, `{"meta":[1,{"a":null}],"nodes":[{"name":"a","state":null,"topology":null}]}`, `{"nodes":[{"state":"IDLE"}]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		nodes, err := ReadNodes(strings.NewReader(text))
		if nodes == nil && err == nil {
			t.Fatal("neither nodes nor an error")
		}
		for name, n := range nodes {
			if len(name) > 512 || len(n.Topology) > 2048 || len(n.Reason) > 2048 {
				t.Fatalf("a text of node %.20q is not bounded", name)
			}
			if spec := Refused(n.Reason); spec != "" && !strings.Contains(n.Reason, spec) {
				t.Fatalf("%q is not in the reason %q", spec, n.Reason)
			}
		}
	})
}

func TestRefused(t *testing.T) {
	for reason, want := range map[string]string{
		"Failed to set topology 'nvl:b9'":                                            "nvl:b9",
		"slurm-operator: Failed to set topology 'nvl:b9,fabric:x' [root@2026-11-23]": "nvl:b9,fabric:x",
		"Failed to set topology 'nvl:b9":                                             "",
		"gres/gpu count reported lower than configured (0 < 4)":                      "",
		"": "",
	} {
		if got := Refused(reason); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}
