package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
)

// quoin runs one command line in this process.
func quoin(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	cliqueA  = "8a61c302-0000-4000-8000-000000000001.7"
	twoByTwo = `{"kind":"List","items":[
{"kind":"Node","metadata":{"name":"a1.site","labels":{"nvidia.com/gpu.clique":"` + cliqueA + `"}}},
{"kind":"Node","metadata":{"name":"a2.site","labels":{"nvidia.com/gpu.clique":"` + cliqueA + `","other":"x"}},"status":{"images":[{"names":["y"]}]}},
{"kind":"Node","metadata":{"name":"cpu","labels":null}}]}`
)

func TestRenderFromLabels(t *testing.T) {
	code, out, errs := quoin(t, twoByTwo, "render", "--nodes", "-", "--format", "conf")
	want := "BlockName=nvl-8a61c302-7 Nodes=a[1-2]\nBlockSizes=2\n"
	if code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
	if !strings.Contains(errs, "left out: cpu: NoGPUs") {
		t.Errorf("stderr: %s", errs)
	}
	dir := t.TempDir()
	if code, _, errs := quoin(t, twoByTwo, "render", "--nodes", "-", "--dir", dir); code != 0 || strings.Contains(errs, "warning") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	code, _, errs = quoin(t, twoByTwo, "render", "--nodes", "-", "--dir", dir, "--format", "conf")
	if code != 0 || !strings.Contains(errs, filepath.Join(dir, "topology.yaml")+" is an older file that was not written now") {
		t.Errorf("exit %d, the other format's file is not named:\n%s", code, errs)
	}
}

func TestRenderReportsAndCheck(t *testing.T) {
	var nodes []*topology.Node
	for _, m := range sites.Open(t, "gb300-nvl72").Machines() {
		if m.Report != nil {
			nodes = append(nodes, m.Report)
		}
	}
	plan := filepath.Join(t.TempDir(), "out")
	if code, out, errs := quoin(t, "", append([]string{"render", "--dir", plan}, reportFiles(t, nodes)...)...); code != 0 || !strings.Contains(out, "wrote ") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(plan, "topology.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	published, err := slurmconf.ReadPlan("topology.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	var shown string // as scontrol prints it
	for i, b := range published.Blocks() {
		shown += fmt.Sprintf("BlockName=%s BlockIndex=%d Nodes=%s BlockSize=18\n", b.Name, i, hostlist.Compress(b.Nodes))
	}
	if code, out, errs := quoin(t, shown, "check", "--topology", "-", plan); code != 0 || !strings.Contains(out, "same: Slurm has all 35 nodes") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
	sized := shown + "AggregatedBlock=nvl-[1-2] BlockIndex=2 Nodes=gb300-r[1-2]t[01-18] BlockSize=36\n"
	if code, out, _ := quoin(t, sized, "check", "--topology", "-", plan); code != 1 || !strings.HasPrefix(out, "further block sizes: none in the file, 36 in Slurm\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
	moved := strings.Replace(shown, "[01-18]", "[01-16,18]", 1)
	code, out, _ := quoin(t, moved, "check", "--topology", "-", plan)
	if code != 1 || !strings.HasPrefix(out, "gb300-r1t17: NotInSlurm: block nvl-") || !strings.Contains(out, " in the file, absent in Slurm") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestRenderNamesNodesWithoutGresLine has a node of which too little is known
// for gres.conf, but enough for its place.
func TestRenderNamesNodesWithoutGresLine(t *testing.T) {
	report := `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"a1.site","gpus":[{"index":0,"uuid":"GPU-1","minor":0,"product":"NVIDIA GB200","mig":[{"uuid":"MIG-1","profile":"1g.24gb"}]}]}`
	code, out, errs := quoin(t, twoByTwo, "render", "--nodes", "-", write(t, "a1.json", report))
	if code != 0 || strings.Contains(out, "gres.conf") || !strings.Contains(errs, "problem: a1.site: NoGresLine: its report has no capability files of MIG instance MIG-1 of GPU GPU-1; without a line") || strings.Contains(errs, "GPUMissing") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
}

func TestRenderSkeleton(t *testing.T) {
	code, out, errs := quoin(t, twoByTwo, "render", "--nodes", "-", "--skeleton")
	if want := "\n    block_sizes: [2]\n    blocks:\n      - block: nvl-8a61c302-7\n"; code != 0 || !strings.HasSuffix(out, want) || strings.Contains(errs, "warning") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
	tree := strings.NewReplacer("nvidia.com/gpu.clique", "network.topology.nvidia.com/leaf", cliqueA+`"`, `leaf-1","network.topology.nvidia.com/spine":"spine-1","nvidia.com/gpu.count":"4"`).Replace(twoByTwo)
	dir := t.TempDir()
	code, _, errs = quoin(t, tree, "render", "--nodes", "-", "--skeleton", "--format", "conf", "--dir", dir)
	text, err := os.ReadFile(filepath.Join(dir, "topology.conf"))
	if code != 0 || err != nil || !strings.HasSuffix(string(text), "\nSwitchName=leaf-1\nSwitchName=spine-1 Switches=leaf-1\n") || exists(filepath.Join(dir, "gres.conf")) {
		t.Errorf("exit %d, %v\n%s\n%s", code, err, text, errs)
	}
	code, _, errs = quoin(t, twoByTwo, "render", "--nodes", "-", "--skeleton", "--slurm-version", "24.11")
	if code != 2 || !strings.Contains(errs, "nodes of Slurm 24.11 cannot join a topology when they register: want 25.05 or newer") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	code, _, errs = quoin(t, `{"items":[{"metadata":{"name":"cpu"}}]}`, "render", "--nodes", "-", "--skeleton")
	if code != 2 || !strings.Contains(errs, "no NVLink domain and no switch is known") || !strings.Contains(errs, "left out: cpu: NoGPUs: ") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// TestRenderOfNothing has nodes with GPUs of whose place nothing is known.
func TestRenderOfNothing(t *testing.T) {
	nodes := strings.ReplaceAll(twoByTwo, `"nvidia.com/gpu.clique":"`+cliqueA+`"`, `"nvidia.com/gpu.count":"8"`)
	code, out, errs := quoin(t, nodes, "render", "--nodes", "-")
	if code != 3 || !strings.HasSuffix(out, "overwritten.\nNodeName=a[1-2] AutoDetect=nvidia\n") || strings.Contains(out, "topology.yaml") ||
		!strings.Contains(errs, "left out: a[1-2]: NoFacts: ") || !strings.Contains(errs, "left out: cpu: NoGPUs: ") || !strings.Contains(errs, "not known: whether NVLink joins these 2 nodes: ") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
	if code, out, errs = quoin(t, nodes, "render", "--nodes", "-", "--skeleton"); code != 2 || out != "" || !strings.Contains(errs, "there is no skeleton; nothing was written") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
}

// TestBadInput has what people get wrong: each error says what, where and what
// to do, with exit status 2.
func TestBadInput(t *testing.T) {
	report := `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"n1"}`
	missing := filepath.Join(t.TempDir(), "missing")
	tests := []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"unknown command", "", []string{"rendre"}, `unknown command "rendre" for "quoin", perhaps render: want quoin COMMAND; see quoin --help`},
		{"unknown flag", "", []string{"render", "--nods", "x"}, "unknown flag: --nods"},
		{"missing file", "", []string{"render", "--nodes", missing}, missing + " is not there: want a file with the output of kubectl get nodes -o json"},
		{"empty text", "", []string{"render", "--nodes", "-"}, "the text ends early"},
		{"cut text", twoByTwo[:200], []string{"render", "--nodes", "-"}, "the text ends early"},
		{"YAML for JSON", "apiVersion: v1\nitems: []\n", []string{"render", "--nodes", "-"}, "byte 0: not JSON: invalid character 'a' at start of value: want the output of kubectl get nodes -o json"},
		{"not JSON", "NAME STATUS\n", []string{"render", "--nodes", "-"}, "standard input: byte 0"},
		{"pods", `{"items":[{"kind":"Pod","metadata":{"name":"p"}}]}`, []string{"render", "--nodes", "-"}, `no node in the input: want the output of kubectl get nodes -o json`},
		{"services", `{"items":[{"kind":"Service","metadata":{"name":"p"}}]}`, []string{"render", "--nodes", "-"}, "items[0] is a Service: want Nodes, NodeReports, Pods and ResourceSlices only"},
		{"empty cluster", `{"items":[]}`, []string{"render", "--nodes", "-"}, "no node"},
		{"no GPU anywhere", `{"items":[{"metadata":{"name":"cpu"}}]}`, []string{"render", "--nodes", "-"}, "no NVLink domain and no switch is known"},
		{"zero UUID", `{"items":[{"metadata":{"name":"n","labels":{"nvidia.com/gpu.clique":"00000000-0000-0000-0000-000000000000.0"}}}]}`, []string{"render", "--nodes", "-"}, "LabelWithoutDomain"},
		{"N/A clique", `{"items":[{"metadata":{"name":"n","labels":{"nvidia.com/gpu.clique":"[N/A].[N/A]"}}}]}`, []string{"render", "--nodes", "-"}, "LabelWithoutDomain"},
		{"malformed clique", `{"items":[{"metadata":{"name":"n","labels":{"nvidia.com/gpu.clique":"rack7"}}}]}`, []string{"render", "--nodes", "-"}, "want <cluster UUID>.<clique id>"},
		{"two nodes of one Slurm name", `{"items":[{"metadata":{"name":"n.a"}},{"metadata":{"name":"n.b"}}]}`, []string{"render", "--nodes", "-"}, "SlurmNameTaken"},
		{"yaml for an old release", twoByTwo, []string{"render", "--nodes", "-", "--slurm-version", "24.11", "--format", "yaml"}, "topology.yaml needs 25.05"},
		{"flags out of range", twoByTwo, []string{"render", "--nodes", "-", "--set", "publicationDefaults.topology=foo", "--set", "publicationDefaults.tierLabels=a b"}, `--set: publication "default": topology: "foo": want auto, block or tree`},
		{"two lists of nodes, one cut", twoByTwo + twoByTwo[:40], []string{"render", "--nodes", "-"}, "the text ends early"},
		{"UTF-16", "\xff\xfe{\x00", []string{"render", "--nodes", "-"}, "text in UTF-16: want UTF-8, in PowerShell with"},
		{"unknown release", twoByTwo, []string{"render", "--nodes", "-", "--slurm-version", "23.02"}, "want one of 24.11"},
		{"bad block sizes", twoByTwo, []string{"render", "--nodes", "-", "--set", "publicationDefaults.blockSizes=3"}, "block size 3: want base block size 2 times a power of two"},
		{"read-only output", twoByTwo, []string{"render", "--nodes", "-", "--dir", "/proc/none"}, "/proc/none"},
		{"directory for a file", "", []string{"render", "--nodes", "/proc/self"}, "/proc/self is a directory: want a file with the output of kubectl get nodes -o json"},
		{"directory without reports", "", []string{"map", "/proc/self/fdinfo"}, "/proc/self/fdinfo has no reports: want files NAME.json, as in the folder reports of a directory store"},
		{"report of another version", "", []string{"render", write(t, "r.json", `{"apiVersion":"quoin.dev/v9","kind":"NodeReport"}`)}, `apiVersion "quoin.dev/v9"`},
		{"report without a node", "", []string{"render", write(t, "r.json", strings.Replace(report, `"node"`, `"nod"`, 1))}, `r.json: report: node: empty: want the node's name`},
		{"two reports of one node", "", []string{"render", write(t, "a.json", report), write(t, "b.json", report)}, `both reports of node "n1"`},
		{"previous file broken", twoByTwo, []string{"render", "--nodes", "-", "--previous", write(t, "topology.conf", "BlockName=a Nods=n1\n")}, `topology.conf:1: key Nods is not known`},
		{"directory for a topology", "", []string{"check", "--topology", "/proc/self", write(t, "topology.conf", "BlockName=a Nodes=n1\n")}, "/proc/self is a directory: want a file with the output of scontrol show topology"},
		{"directory for the cluster's objects", "", []string{"imex", "check", "--objects", "/proc/self"}, "/proc/self is a directory: want a file with the output of kubectl get nodes,"},
		{"missing objects", "", []string{"imex", "check", "--objects", missing}, missing + " is not there: want a file with the output of kubectl get nodes,"},
		{"argument that is not wanted", "", []string{"config", "quoin.yaml"}, `unknown command "quoin.yaml" for "quoin config": want quoin config; see quoin config --help`},
		{"check of nonsense", "hello\n", []string{"check", "--topology", "-", write(t, "topology.conf", "BlockName=a Nodes=n1\n")}, "standard input:1: hello"},
		{"demo of an unknown site", "", []string{"demo", "nowhere"}, `no site "nowhere": want one of a100-mig`},
		{"demo of a bad file", "", []string{"demo", write(t, "s.yaml", "groups:\n- racks: 1\n  nodez: 3\n")}, `s.yaml:3: field nodez not found`},
		{"agent with a bad configuration", "", []string{"agent", "--config", write(t, "q.yaml", "agent: {hookGateWait: 5}\n")}, `q.yaml:1: agent.hookGateWait: "5": want a number and a unit`},
		{"check of nothing", "\n", []string{"check", "--topology", "-", write(t, "topology.conf", "BlockName=a Nodes=n[1-2]\n")}, "standard input: empty: want the output of scontrol show topology"},
		{"agent with both stores", "", []string{"agent", "--store", "x", "--kubeconfig", "y"}, `--kubeconfig: agent.kubeconfig: "y": want none beside store`},
		{"probe of an unknown machine", "", []string{"probe", "--once", "--simulate", "gb200-nvl72x4", "--node", "x"}, `no machine "x"`},
		{"publisher without a cluster", "", []string{"publisher"}, "outside a Pod give --kubeconfig"},
		{"setting without a value", "", []string{"publisher", "--set", "publisher.listen"}, `--set "publisher.listen": want key=value, such as publisher.listen=:9836; see quoin publisher --help`},
		{"config of a ConfigMap", "", []string{"config", "--config", "../../manifests/plain/base/20-config.yaml"}, `20-config.yaml:5: this is a ConfigMap: want the text below its key quoin.yaml`},
		{"render with several publications", twoByTwo, []string{"render", "--nodes", "-", "--config", write(t, "q.yaml", "publications: {b: {}, a: {}}\n")}, `the configuration has 2 publications: choose one by --publication: a, b`},
		{"demo of an unknown publication", "", []string{"demo", "--config", write(t, "q.yaml", "publications: {b: {}, a: {}}\n"), "--publication", "c"}, `--publication "c": want one of a, b`},
		{"bad log level", "", []string{"publisher", "--log-level", "loud"}, `--log-level: publisher.logLevel: "loud": want debug, info, warn or error`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, _, errs := quoin(t, tt.stdin, tt.args...)
			if code != 2 || !strings.Contains(errs, tt.want) {
				t.Errorf("exit %d, said:\n%s\nwant 2 and %q", code, errs, tt.want)
			}
		})
	}
}
