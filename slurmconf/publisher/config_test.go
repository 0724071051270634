package publisher

import (
	"strings"
	"testing"
)

func TestCompleteRefuses(t *testing.T) {
	two := 2.0
	tests := map[string][]Publication{
		`slurmVersion: slurm release "23.02"`: {{SlurmVersion: "23.02"}},
		`format: "xml": want conf or yaml`:    {{Format: "xml"}},
		`namespace: "a.b": want`:              {{Namespace: "a.b"}},
		`configMap: "a..b": want`:             {{ConfigMap: "a..b"}},
		`format: "yaml": want conf with`:      {{Namespace: "A", SlurmVersion: "24.11"}},
		`topology.yaml needs 25.05`:           {{SlurmVersion: "24.11", Format: "yaml"}},
		`name: also another`:                  {{}, {Namespace: "other"}},
		`also belongs to publication "a"`:     {{Name: "a"}, {Name: "b"}},
		`slurmNames: "nick"`:                  {{SlurmNames: "nick"}},
		`nodes.selector: "a in ("`:            {{Nodes: Selection{Selector: "a in ("}}},
		`maxChange: "2"`:                      {{MaxChange: &two}},
		`minBlockNodes: "-1": want 1`:         {{MinBlockNodes: -1}},
		`baseBlockSize: "65536": want 1 to`:   {{BaseBlockSize: 65536}},
		`blockSizes: block size 12: want`:     {{BaseBlockSize: 4, BlockSizes: []int{12}}},
		`blockSizes: block size 0: want 1`:    {{BlockSizes: []int{0}}},
		`block sizes [36 18]`:                 {{BlockSizes: []int{36, 18}}},
	}
	for want, pubs := range tests {
		if _, err := Complete(pubs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
