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
	const file = "publicationDefaults: {tierLabels: [x], gres: {types: {A: a}}}\npublications:\n  a:\n  b: {configMap: b}\n"
	tests := []struct {
		set  string
		want string // in the configuration as it is printed
	}{
		{"agent.listen=", `listen: ""`},
		{"publicationDefaults.gres.types=NVIDIA L4=l4,B=b", "types:\n        B: b\n        NVIDIA L4: l4\n"},
		{"publicationDefaults.maxDomainGPUs=GB200=144,H100=256", "maxDomainGPUs:\n      GB200: 144\n      H100: 256\n"},
		{"publicationDefaults.gres.types={B: b}", "types:\n        B: b\n      leaveOut"},
		{"publicationDefaults.gres.leaveOut={n1: [/dev/nvidia3]}", "leaveOut:\n        n1:\n          - /dev/nvidia3\n"},
		{"publicationDefaults.gres.types=", "types: {}\n"},
		{"publicationDefaults.tierLabels=rack,row", "tierLabels:\n      - rack\n      - row\n"},
		{"publicationDefaults.tierLabels=", "tierLabels: []\n"},
		{"agent.logLevel=debug", "logLevel: debug\n"},
		{"agent.jobsGroup=null", `jobsGroup: "null"`},
		{"agent.hookGateWait=1m30s", "hookGateWait: 1m30s\n"},
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
	const all = "publicationDefaults:\n  annotate: false\n  settleTime: 5s\n  maxChange: 0.5\n  domainLabels: [rack]\n  slurmNames: label:k\n  maxDomainGPUs: {A: 1}\n  gres: {naming: short, types: {A: a}}\n  nodes: {selector: x}\n"
	type told map[string]string
	like := func(more told) told { // what all say, and what differs
		out := told{"annotate": "false", "settleTime": "5s", "maxChange": "0.5", "domainLabels": "[rack]", "slurmNames": "label:k", "naming": "short", "types": "map[A:a]", "maxDomainGPUs": "map[A:1]", "selector": "x", "configMap": "quoin-slurm-hgx", "format": ""}
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
		{"a list and pairs replace", all + "publications: {hgx: {domainLabels: [row], maxDomainGPUs: {B: 2}, gres: {types: {B: b}}}}\n", nil, map[string]told{"hgx": like(told{"domainLabels": "[row]", "types": "map[B:b]", "maxDomainGPUs": "map[B:2]"})}},
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
					"naming": p.Gres.Naming, "types": fmt.Sprint(p.Gres.Types), "maxDomainGPUs": fmt.Sprint(p.MaxDomainGPUs), "selector": p.Nodes.Selector, "configMap": p.ConfigMap, "format": p.Format}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestErrors has what is wrong in a file or in a setting, and what is said of it.
func TestErrors(t *testing.T) {
	for _, tt := range []struct{ name, file, set, want string }{
		{"a flag out of range", "", "publicationDefaults.baseBlockSize=-1", `--set: publication "default": baseBlockSize: "-1": want 1 to`},
		{"an unknown key", "publications:\n  a:\n    formt: conf\n", "", `q.yaml:3: unknown key "formt": want annotate, baseBlockSize, blockSizes,`},
		{"a bad value", "publications:\n  a: {settleTime: soon}\n", "", `q.yaml:2: publications.a.settleTime: "soon": want a number and a unit`},
		{"a negative time", "publicationDefaults:\n  settleTime: -1s\n", "", `q.yaml:2: publicationDefaults.settleTime: "-1s": want a number and a unit`},
		{"a value out of range", "publications:\n  a:\n  b:\n    configMap: b\n    nodes:\n      selector: 'a in ('\n", "", `q.yaml:6: publication "b": nodes.selector: "a in (": want a label selector`},
		{"a wait out of bounds", "publicationDefaults:\n  topology: tree\n  settleTime: 2h\n", "", `q.yaml:3: publication "default": settleTime: "2h0m0s": want 1h0m0s or less`},
		{"labels in a directory", "publications:\n  a:\n    labels: true\npublisher: {store: /x}\n", "", `q.yaml:3: publication "a": labels: "true": want false beside publisher.store: a directory has no Nodes`},
		{"a label of Quoin's own", "publicationDefaults:\n  tierLabels: [quoin.dev/leaf]\n", "", `q.yaml:2: publication "default": tierLabels: "quoin.dev/leaf": Quoin itself writes this label from the plan`},
		{"no number", "publications:\n  a:\n    maxChange: .nan\n", "", `q.yaml:3: publication "a": maxChange: "NaN": want a share of 0 to 1`},
		{"no label's key", "publications:\n  a:\n    tierLabels: [\"not a label!!\"]\n", "", `q.yaml:3: publication "a": tierLabels: "not a label!!": want letters`},
		{"a bad value of all", "publicationDefaults:\n  topology: ring\npublications:\n  a: {topology: tree}\n  b: {}\n", "", `q.yaml:2: publication "b": topology: "ring": want auto, block or tree`},
		{"no namespace", "publications:\n  a:\n    namespace: a.b.c\n", "", `q.yaml:3: publication "a": namespace: "a.b.c": want up to 63`},
		{"a name twice", "publications:\n  a: {}\n  a: {}\n", "", `q.yaml:3: key "a" is also in line 2: want it once`},
		{"a name that is no label", "publications:\n  A_1: {}\n", "", `q.yaml:2: publication "A_1": name: "A_1": want up to 63 lower-case letters`},
		{"every name", "publications:\n  '*': {}\n", "", `q.yaml:2: publications: "*" is for --set alone: want a name, or publicationDefaults for all publications`},
		{"one ConfigMap twice", "publications:\n  a: {configMap: c}\n  b:\n    configMap: c\n", "", `q.yaml:4: publication "b": configMap: slurm/c also belongs to publication "a": give each its own, or leave configMap out`},
		{"one ConfigMap for all", "publicationDefaults: {configMap: c}\npublications:\n  a: {}\n  b: {}\n", "", `q.yaml:1: publication "b": configMap: slurm/c also belongs to publication "a": give each its own, or leave configMap out`},
		{"a list of publications", "publications:\n- name: a\n", "", `q.yaml:2: publications: want publications by name, such as {hgx: {slurmVersion: "26.05"}}, and no list: write "hgx:" in place of "- name: hgx"`},
		{"a key of all as a name", "", "publications.topology=tree", `--set publications.topology=tree: "tree": want the keys and values: annotate, baseBlockSize, `},
		{"a key of all as a name, and what to write", "", "publications.topology=tree", `; publicationDefaults has those of all publications`},
		{"a text for a number", "publicationDefaults:\n  baseBlockSize: x\n", "", `q.yaml:2: publicationDefaults.baseBlockSize: "x": want a whole number`},
		{"a number for publications", "publications: 3\n", "", `q.yaml:1: publications: "3": want publications by name`},
		{"an unknown key of a section", "publicationDefaults:\n  gres: {naming: full, type: {a: b}}\n", "", `q.yaml:2: unknown key "type": want autoDetect, cores, leaveOut, naming, types`},
		{"a text for the keys of a section", "publicationDefaults:\n  gres: all\n", "", `q.yaml:2: publicationDefaults.gres: "all": want keys and values: autoDetect, cores, leaveOut, naming, types`},
		{"a bad value on a line of several", "publications:\n  a: {format: auto, tierLabels: auto, settleTime: 5s}\n", "", `q.yaml:2: "auto": want a list of texts`},
		{"types that are no pairs", "publicationDefaults: {gres: {types: NVIDIA GB200}}\n", "", `q.yaml:1: publicationDefaults.gres.types: "NVIDIA ...": want keys and values`},
		{"a URL that the agent refuses", "agent: {dcgmExporter: localhost}\n", "", `q.yaml:1: agent.dcgmExporter: "localhost": want a URL`},
		{"a log level that the publisher refuses", "publisher: {logLevel: loud}\n", "", `q.yaml:1: publisher.logLevel: "loud": want debug, info`},
		{"an unknown key of the agent", "agent:\n  runDirectory: /x\n", "", `q.yaml:2: unknown key "runDirectory": want dcgmExporter, dcgmHostEngine, healthListen, hookGate, hookGateWait, hookScontrol, hookSummaryDir, hostRoot, jobsGroup`},
		{"a bad value of the agent", "agent:\n  hookGateWait: soon\n", "", `q.yaml:2: agent.hookGateWait: "soon": want a number and a unit, such as 30s`},
		{"keys for a value", "publisher:\n  listen:\n    port: 1\n", "", `q.yaml:3: publisher.listen: want text`},
		{"an alias for a value", "publisher: {listen: &a soon}\nagent: {hookGateWait: *a}\n", "", `q.yaml:1: "soon": want a number and a unit`},
		{"a list for a value", "publisher:\n  listen: [a]\n", "", `q.yaml:2: publisher.listen: want text`},
		{"a time that the agent refuses", "agent:\n  runDir: /x\n  hookGateWait: 11m\n", "", `q.yaml:3: agent.hookGateWait: "11m0s": want more than 0 and at most 10m`},
		{"a relative directory of summaries", "agent: {hookSummaryDir: x}\n", "", `q.yaml:1: agent.hookSummaryDir: "x": want an absolute path`},
		{"a text for a section", "agent: 3\n", "", `q.yaml:1: agent: "3": want keys and values`},
		{"a gate that waits for ever", "", "agent.hookGateWait=11m", `--set: agent.hookGateWait: "11m0s": want more than 0 and at most 10m`},
		{"a key that went", "publicationDefaults:\n  confirmTime: 1m\n", "", `q.yaml:2: unknown key "confirmTime": facts must name a new place for 10 s`},
		{"a key that went from a setting", "", "agent.slurmdSpool=/var/spool/slurmd", `unknown key "slurmdSpool": steps are found by their processes`},
		{"setting of a relative directory of summaries", "", "agent.hookSummaryDir=summaries", `--set: agent.hookSummaryDir: "summaries": want an absolute path`},
		{"scontrol by the PATH", "", "agent.hookScontrol=scontrol", `--set: agent.hookScontrol: "scontrol": want the absolute path of scontrol`},
		{"setting of an unknown key", "", "publisher.lisen=x", `--set publisher.lisen=x: unknown key "lisen": want healthListen, kubeconfig, leaderElect, listen`},
		{"setting of a key without its section", "", "flatTopology=true", `--set flatTopology=true: unknown key "flatTopology": it is a key of publicationDefaults`},
		{"a key of two other sections", "agent:\n  namespace: x\n", "", `q.yaml:2: unknown key "namespace": it is a key of publisher and of imex and of publicationDefaults`},
		{"a key in other letters", "publicationDefaults: {flattopology: true}\n", "", `q.yaml:1: unknown key "flattopology": perhaps flatTopology`},
		{"setting of a key without its section, in other letters", "", "flattopology=true", `--set flattopology=true: unknown key "flattopology": perhaps publicationDefaults.flatTopology`},
		{"a section in other letters", "Agent: {runDir: /x}\n", "", `q.yaml:1: unknown key "Agent": perhaps agent`},
		{"setting of an unknown section", "", "agnt.listen=x", `--set agnt.listen=x: unknown key "agnt": want agent, imex, publicationDefaults, publications, publisher`},
		{"setting of a publication by number", "", "publications[0].format=conf", `--set publications[0].format=conf: unknown key "publications[0]": want agent, imex`},
		{"setting of a wrong type", "", "publications.a.baseBlockSize=x", `--set publications.a.baseBlockSize=x: "x": want a whole number`},
		{"setting below a value", "", "agent.listen.port=x", `--set agent.listen.port=x: want text`},
		{"setting of broken YAML", "", "imex={join", `--set imex={join: "{join": want keys and values: allocationMode, claimTemplate`},
		{"an empty list of publications", "publications: []\n", "", `q.yaml:1: publications: want publications by name`},
		{"a Pod", "apiVersion: v1\nkind: Pod\n", "", `q.yaml:2: this is a Kubernetes object of kind Pod`},
		{"broken YAML", "agent:\n  listen: [\n", "", `q.yaml:2: cannot read the YAML: did not find expected node content`},
		{"an alias for a key", "publications:\n  a: &a {tierLabels: [x]}\n  b: {<<: , *a : 0}\n", "", `q.yaml:3: cannot read the YAML: a key is a list, a mapping or an alias: want a word`},
		{"setting with an alias for a key", "", "publications={a: &a {tierLabels: [x]}, b: {<<: , *a : 0}}", `want publications by name`},
		{"a second document", "agent:\n---\nagent:\n", "", `q.yaml:2: a second document: want one`},
		{"a key twice", "agent: {listen: a,\n  listen: b}\n", "", `q.yaml:2: key "listen" is also in line 1: want it once`},
		{"a list", "- agent\n", "", `q.yaml:1: want keys and values`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var settings []Setting
			if tt.set != "" {
				s, err := ParseSetting(tt.set)
				if err != nil {
					t.Fatal(err)
				}
				settings = append(settings, s)
			}
			if _, err := Parse(Default(), "q.yaml", []byte(tt.file), settings); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestKeys has every key in the list for shells, and each can be set.
func TestKeys(t *testing.T) {
	keys := Keys()
	for _, key := range []string{"agent.runDir", "publicationDefaults.gres.types", "publisher.listen", "imex.join", "publicationDefaults.gres.naming", "publicationDefaults.annotate"} {
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
	f.Add([]byte("agent: {hookGateWait: 5s}\npublisher:\n  listen: ''\n"))
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
