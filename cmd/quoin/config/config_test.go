package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSettings has settings of every kind of value, beside a file.
func TestSettings(t *testing.T) {
	const file = "agent: {gresTypes: {A: a}, slurmdSpool: &dirs [x]}\npublicationDefaults: {tierLabels: *dirs}\npublications:\n  a:\n  b: {configMap: b}\n"
	tests := []struct {
		set  string
		want string // in the configuration as it is printed
	}{
		{"agent.listen=", `listen: ""`},
		{"agent.gresTypes=NVIDIA L4=l4,B=b", "gresTypes:\n    B: b\n    NVIDIA L4: l4\n"},
		{"agent.gresTypes={B: b}", "gresTypes:\n    B: b\n  gresAutodetect"},
		{"agent.gresTypes=", "gresTypes: {}\n"},
		{"agent.slurmdSpool=/y,/z", "slurmdSpool:\n    - /y\n    - /z\n"},
		{"agent.slurmdSpool=", "slurmdSpool: []\n"},
		{"agent.logLevel=debug", "logLevel: debug\n"},
		{"agent.jobsGroup=null", `jobsGroup: "null"`},
		{"agent.interval=1m30s", "interval: 1m30s\n"},
		{"publicationDefaults.blockSizes=4,8", "blockSizes:\n      - 4\n      - 8\n"},
		{"publications.b.tierLabels=[r, s]", "tierLabels:\n      - r\n      - s\n"},
		{"publications.b.gres.naming=short", "naming: short\n"},
		{"publications.b.maxChange=0", "maxChange: 0\n"},
		{"publications.c={annotate: false}", "  c:\n"},
		{"publications.c=", "  c:\n"},
		{"imex={join: none}", "imex:\n  join: none\n"},
		{"publisher.leaderElect=false", "leaderElect: false\n"},
	}
	for _, tt := range tests {
		t.Run(tt.set, func(t *testing.T) {
			s, err := ParseSetting(tt.set)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Parse(Default(), "q.yaml", []byte(file), []Setting{s})
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

// TestPublications has what publications are made of: what is said of all, of one, and by
// settings.
func TestPublications(t *testing.T) {
	const all = "publicationDefaults:\n  annotate: false\n  settleTime: 5s\n  maxChange: 0.5\n  domainLabels: [rack]\n  slurmNames: label:k\n  gres: {naming: short, types: {A: a}}\n  nodes: {selector: x}\n"
	type told map[string]string
	like := func(more told) told { // what all say, and what differs
		out := told{"annotate": "false", "settleTime": "5s", "maxChange": "0.5", "domainLabels": "[rack]", "slurmNames": "label:k", "naming": "short", "types": "map[A:a]", "selector": "x", "configMap": "quoin-slurm-hgx", "format": "yaml"}
		maps.Copy(out, more)
		return out
	}
	tests := []struct {
		name, file string
		set        []string
		want       map[string]told
	}{
		{"none", all, nil, map[string]told{"default": like(told{"configMap": "quoin-slurm"})}},
		{"an empty map", all + "publications: {}\n", nil, map[string]told{"default": like(told{"configMap": "quoin-slurm"})}},
		{"null", all + "publications:\n", nil, map[string]told{"default": like(told{"configMap": "quoin-slurm"})}},
		{"names alone, in order", all + "publications:\n  hgx:\n  default: {}\n", nil, map[string]told{"hgx": like(nil), "default": like(told{"configMap": "quoin-slurm"})}},
		{"false and zero override", all + "publications: {hgx: {annotate: true, settleTime: 0s, maxChange: 0}}\n", nil, map[string]told{"hgx": like(told{"annotate": "true", "settleTime": "0s", "maxChange": "0"})}},
		{"a list and pairs replace", all + "publications: {hgx: {domainLabels: [row], gres: {types: {B: b}}}}\n", nil, map[string]told{"hgx": like(told{"domainLabels": "[row]", "types": "map[B:b]"})}},
		{"empty values override", all + "publications: {hgx: {domainLabels: [], slurmNames: '', nodes: {selector: ''}, gres: {types: {}}}}\n", nil,
			map[string]told{"hgx": like(told{"domainLabels": "[]", "slurmNames": "short", "selector": "", "types": "map[]"})}},
		{"null is not given", all + "publications: {hgx: {annotate: null, settleTime: ~, maxChange: , domainLabels: null, slurmNames: null, nodes: {selector: null}, gres: {types: null}}}\n", nil, map[string]told{"hgx": like(nil)}},
		{"null of a key of all is not given", all + "publications: {hgx: {}}\n", []string{"publicationDefaults.annotate=null", "publicationDefaults.nodes={selector: null}"}, map[string]told{"hgx": like(nil)}},
		{"a setting of all", all + "publications: {hgx: {settleTime: 1s}, b: {}}\n", []string{"publicationDefaults.settleTime=2s"}, map[string]told{"hgx": like(told{"settleTime": "1s"}), "b": like(told{"settleTime": "2s", "configMap": "quoin-slurm-b"})}},
		{"a setting of one", all + "publications: {hgx: {settleTime: 1s}, b: {}}\n", []string{"publications.b.settleTime=2s"}, map[string]told{"hgx": like(told{"settleTime": "1s"}), "b": like(told{"settleTime": "2s", "configMap": "quoin-slurm-b"})}},
		{"a setting of every one", all + "publications: {hgx: {settleTime: 1s}, b: {}}\n", []string{"publications.*.settleTime=2s"}, map[string]told{"hgx": like(told{"settleTime": "2s"}), "b": like(told{"settleTime": "2s", "configMap": "quoin-slurm-b"})}},
		{"the last setting wins", all + "publications: {hgx: {settleTime: 1s}}\n", []string{"publications.*.settleTime=2s", "publications.hgx.settleTime=3s", "publicationDefaults.settleTime=4s"}, map[string]told{"hgx": like(told{"settleTime": "3s"})}},
		{"a merge key of a publication", all + "publications:\n  b: &b {settleTime: 1s}\n  hgx: {<<: *b, annotate: true}\n", nil, map[string]told{"hgx": like(told{"settleTime": "1s", "annotate": "true"}), "b": like(told{"settleTime": "1s", "configMap": "quoin-slurm-b"})}},
		{"a setting that the file's format follows", all + "publications: {hgx: {}}\n", []string{"publicationDefaults.slurmVersion=24.11"}, map[string]told{"hgx": like(told{"format": "conf"})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var settings []Setting
			for _, text := range tt.set {
				s, err := ParseSetting(text)
				if err != nil {
					t.Fatal(err)
				}
				settings = append(settings, s)
			}
			c, err := Parse(Default(), "q.yaml", []byte(tt.file), settings)
			if err != nil {
				t.Fatal(err)
			}
			got, last := map[string]told{}, ""
			for _, p := range c.Clusters() {
				if p.Name <= last {
					t.Errorf("publication %s after %s", p.Name, last)
				}
				last = p.Name
				got[p.Name] = told{"annotate": fmt.Sprint(*p.Annotate), "settleTime": p.SettleTime.String(), "maxChange": fmt.Sprint(*p.MaxChange), "domainLabels": fmt.Sprint(p.DomainLabels), "slurmNames": p.SlurmNames,
					"naming": p.Gres.Naming, "types": fmt.Sprint(p.Gres.Types), "selector": p.Nodes.Selector, "configMap": p.ConfigMap, "format": p.Format}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestKeys has every key in the list for shells, and each can be set.
func TestKeys(t *testing.T) {
	keys := Keys()
	for _, key := range []string{"agent.runDir", "agent.gresTypes", "publisher.listen", "imex.join", "publicationDefaults.gres.naming", "publicationDefaults.annotate"} {
		if !slices.Contains(keys, key) {
			t.Errorf("%s is missing in %v", key, keys)
		}
	}
	for _, key := range keys {
		if _, err := Parse(Default(), "", nil, []Setting{{Key: key, Value: Value(key), Flag: SetFlag}}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// FuzzConfig checks that what is read as a configuration prints as one that
// reads the same.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("agent: {interval: 5s}\npublisher:\n  listen: ''\n"))
	f.Add([]byte("publicationDefaults: {annotate: false}\npublications:\n  a:\n    settleTime: 0s\n    maxChange: 0\n    nodes: {selector: 'a in (b)'}\n    blockSizes: [2, 4]\n  b: {annotate: null}\n"))
	f.Add([]byte("publications: &a\n  b:\n    tierLabels: *a\n"))
	f.Add([]byte("publications:\n  b: &b {tierLabels: [x]}\n  c: {<<: *b, settleTime: 1s}\n  d:\n"))
	f.Add([]byte("publications:\n- name: a\n"))
	f.Add([]byte("publications:\n  0: &b {tierLabels: [A]}\n  1: {<<, *b, 0}\n"))
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
