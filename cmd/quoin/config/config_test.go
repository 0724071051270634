package config

import (
	"bytes"
	"strings"
	"testing"
)

// TestSettings has settings of every kind of value, beside a file.
func TestSettings(t *testing.T) {
	const file = "agent: {gresTypes: {A: a}, slurmdSpool: &dirs [x]}\npublications:\n- {name: a, tierLabels: *dirs}\n- {name: b, configMap: b}\n"
	tests := []struct {
		set  string
		want string // in the configuration as it is printed
	}{
		{"agent.listen=", `listen: ""`},
		{"agent.gresTypes=NVIDIA L4=l4,B=b", "gresTypes:\n    B: b\n    NVIDIA L4: l4\n"},
		{"agent.gresTypes={B: b}", "gresTypes:\n    B: b\n  gresAutodetect"},
		{"agent.slurmdSpool=/y,/z", "slurmdSpool:\n    - /y\n    - /z\n"},
		{"agent.slurmdSpool=", "slurmdSpool: []\n"},
		{"publications.blockSizes=4,8", "blockSizes:\n      - 4\n      - 8\n"},
		{"publications[1].tierLabels=[r, s]", "tierLabels:\n      - r\n      - s\n"},
		{"publications[2].name=c", "- name: c\n"},
		{"imex={join: none}", "imex:\n  join: none\n"},
		{"publisher.leaderElect=false", "leaderElect: false\n"},
	}
	for _, tt := range tests {
		t.Run(tt.set, func(t *testing.T) {
			s, err := ParseSetting(tt.set)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Parse(Default(), "q.yaml", []byte(file), []Setting{s, {"publications[2].configMap", "c", SetFlag}})
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := c.Write(&out); err != nil || !strings.Contains(out.String(), tt.want) {
				t.Errorf("%v, want %q in\n%s", err, tt.want, out.String())
			}
		})
	}
}

// FuzzConfig checks that what is read as a configuration prints as one that
// reads the same.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("agent: {interval: 5s}\npublisher:\n  listen: ''\n"))
	f.Add([]byte("publications:\n- name: a\n  settle: 0s\n  maxChange: 0\n  nodes: {selector: 'a in (b)'}\n  blockSizes: [2, 4]\n"))
	f.Add([]byte("publications: &a\n- name: b\n  tierLabels: *a\n"))
	printed := func(data []byte) ([]byte, error) {
		c, err := Parse(Default(), "q.yaml", data, nil)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = c.Write(&out)
		return out.Bytes(), err
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := printed(data)
		if err != nil {
			return
		}
		if twice, err := printed(once); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q prints\n%s\nwhich prints\n%s\n%v", data, once, twice, err)
		}
	})
}
