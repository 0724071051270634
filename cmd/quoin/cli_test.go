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
	"github.com/quoin-hpc/quoin/testdata/rig/sites"
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
	cluster := sites.Open(t, "gb300-nvl72")
	dir := t.TempDir()
	args := []string{"render", "--dir", filepath.Join(dir, "out")}
	for _, m := range cluster.Machines() {
		if m.Report == nil {
			continue
		}
		data, err := topology.EncodeReport(m.Report)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, m.Name+".json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if code, out, errs := quoin(t, "", args...); code != 0 || !strings.Contains(out, "wrote ") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(dir, "out/topology.yaml"))
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
	plan := filepath.Join(dir, "out")
	if code, out, errs := quoin(t, shown, "check", "--topology", "-", "--files", plan); code != 0 || !strings.Contains(out, "same: Slurm has all 35 nodes") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
	sized := shown + "AggregatedBlock=nvl-[1-2] BlockIndex=2 Nodes=gb300-r[1-2]t[01-18] BlockSize=36\n"
	if code, out, _ := quoin(t, sized, "check", "--topology", "-", "--files", plan); code != 1 || !strings.HasPrefix(out, "further block sizes: none in the file, 36 in Slurm\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
	moved := strings.Replace(shown, "[01-18]", "[01-16,18]", 1)
	code, out, _ := quoin(t, moved, "check", "--topology", "-", "--files", plan)
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
	if code != 2 || out != "" || !strings.Contains(errs, "left out: a[1-2]: NoFacts: ") || !strings.Contains(errs, "left out: cpu: NoGPUs: ") ||
		!strings.Contains(errs, "there is nothing to write; nodes by reason: NoFacts 2, NoGPUs 1; nothing was written") {
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
		{"missing file", "", []string{"render", "--nodes", missing}, missing + ": no such file"},
		{"empty text", "", []string{"render", "--nodes", "-"}, "the text ends early"},
		{"cut text", twoByTwo[:200], []string{"render", "--nodes", "-"}, "the text ends early"},
		{"YAML for JSON", "apiVersion: v1\nitems: []\n", []string{"render", "--nodes", "-"}, "byte 0: not JSON: invalid character 'a' at start of value: want the output of kubectl get nodes -o json"},
		{"not JSON", "NAME STATUS\n", []string{"render", "--nodes", "-"}, "standard input: byte 0"},
		{"pods", `{"items":[{"kind":"Pod","metadata":{"name":"p"}}]}`, []string{"render", "--nodes", "-"}, `no node in the input: want the output of kubectl get nodes -o json`},
		{"services", `{"items":[{"kind":"Service","metadata":{"name":"p"}}]}`, []string{"render", "--nodes", "-"}, "items[0] is a Service: want Nodes, NodeReports, Pods and ResourceSlices only"},
		{"empty cluster", `{"items":[]}`, []string{"render", "--nodes", "-"}, "no node"},
		{"no GPU anywhere", `{"items":[{"metadata":{"name":"cpu"}}]}`, []string{"render", "--nodes", "-"}, "no NVLink domain and no switch is known"},
		{"zero UUID", `{"items":[{"metadata":{"name":"n","labels":{"nvidia.com/gpu.clique":"00000000-0000-0000-0000-000000000000.0"}}}]}`, []string{"render", "--nodes", "-"}, "CliqueLabelWithoutDomain"},
		{"N/A clique", `{"items":[{"metadata":{"name":"n","labels":{"nvidia.com/gpu.clique":"[N/A].[N/A]"}}}]}`, []string{"render", "--nodes", "-"}, "CliqueLabelWithoutDomain"},
		{"malformed clique", `{"items":[{"metadata":{"name":"n","labels":{"nvidia.com/gpu.clique":"rack7"}}}]}`, []string{"render", "--nodes", "-"}, "want <cluster UUID>.<clique id>"},
		{"two nodes of one Slurm name", `{"items":[{"metadata":{"name":"n.a"}},{"metadata":{"name":"n.b"}}]}`, []string{"render", "--nodes", "-"}, "SlurmNameTaken"},
		{"yaml for an old release", twoByTwo, []string{"render", "--nodes", "-", "--slurm-version", "24.11", "--format", "yaml"}, "topology.yaml needs 25.05"},
		{"flags out of range", twoByTwo, []string{"render", "--nodes", "-", "--set", "publicationDefaults.topology=foo", "--set", "publicationDefaults.tierLabels=a b"}, `--set: publication "default": topology: "foo": want auto, block or tree`},
		{"demo with a flag out of range", "", []string{"demo", "--set", "publicationDefaults.baseBlockSize=-1"}, `--set: publication "default": baseBlockSize: "-1": want 1 to`},
		{"two lists of nodes, one cut", twoByTwo + twoByTwo[:40], []string{"render", "--nodes", "-"}, "the text ends early"},
		{"UTF-16", "\xff\xfe{\x00", []string{"render", "--nodes", "-"}, "text in UTF-16: want UTF-8, in PowerShell with"},
		{"unknown release", twoByTwo, []string{"render", "--nodes", "-", "--slurm-version", "23.02"}, "want one of 24.11"},
		{"bad block sizes", twoByTwo, []string{"render", "--nodes", "-", "--set", "publicationDefaults.blockSizes=3"}, "block size 3: want base block size 2 times a power of two"},
		{"read-only output", twoByTwo, []string{"render", "--nodes", "-", "--dir", "/proc/none"}, "/proc/none"},
		{"directory for a file", "", []string{"render", "--nodes", "/proc/self"}, "/proc/self is a directory: want a file with the output of kubectl get nodes -o json"},
		{"directory without reports", "", []string{"map", "/proc/self/fdinfo"}, "/proc/self/fdinfo has no reports: want files NAME.json, as in the folder reports of a directory store"},
		{"report of another version", "", []string{"render", write(t, "r.json", `{"apiVersion":"quoin.dev/v9","kind":"NodeReport"}`)}, `apiVersion "quoin.dev/v9"`},
		{"report with an unknown key", "", []string{"render", write(t, "r.json", strings.Replace(report, `"node"`, `"nod"`, 1))}, `r.json: report: json: unknown field "nod"`},
		{"two reports of one node", "", []string{"render", write(t, "a.json", report), write(t, "b.json", report)}, `both reports of node "n1"`},
		{"previous file broken", twoByTwo, []string{"render", "--nodes", "-", "--previous", write(t, "topology.conf", "BlockName=a Nods=n1\n")}, `topology.conf:1: key Nods is not known`},
		{"directory for a topology", "", []string{"check", "--topology", "/proc/self", "--files", write(t, "topology.conf", "BlockName=a Nodes=n1\n")}, "/proc/self is a directory: want a file with the output of scontrol show topology"},
		{"directory for the cluster's objects", "", []string{"imex", "check", "--objects", "/proc/self"}, "/proc/self is a directory: want a file with the output of kubectl get nodes,"},
		{"argument that is not wanted", "", []string{"config", "quoin.yaml"}, `unknown command "quoin.yaml" for "quoin config": want quoin config; see quoin config --help`},
		{"check of nonsense", "hello\n", []string{"check", "--topology", "-", "--files", write(t, "topology.conf", "BlockName=a Nodes=n1\n")}, "standard input:1: hello"},
		{"config with an unknown key", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a:\n    formt: conf\n")}, `q.yaml:3: unknown key "formt": want annotate, baseBlockSize, blockSizes,`},
		{"config with a bad value", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a: {settleTime: soon}\n")}, `q.yaml:2: publications.a.settleTime: "soon": want a number and a unit`},
		{"config with a negative time", "", []string{"config", "--config", write(t, "q.yaml", "publicationDefaults:\n  settleTime: -1s\n")}, `q.yaml:2: publicationDefaults.settleTime: "-1s": want a number and a unit`},
		{"config with a value out of range", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a:\n  b:\n    configMap: b\n    nodes:\n      selector: 'a in ('\n")}, `q.yaml:6: publication "b": nodes.selector: "a in (": want a label selector`},
		{"config with a wait out of bounds", "", []string{"config", "--config", write(t, "q.yaml", "publicationDefaults:\n  settleTime: 2m\n  holdWindow: 10s\n")}, `q.yaml:3: publication "default": holdWindow: "10s": want 1m0s to 24h0m0s`},
		{"config with no number", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a:\n    maxChange: .nan\n")}, `q.yaml:3: publication "a": maxChange: "NaN": want a share of 0 to 1`},
		{"config with no label's key", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a:\n    tierLabels: [\"not a label!!\"]\n")}, `q.yaml:3: publication "a": tierLabels: "not a label!!": want letters`},
		{"config with a bad value of all", "", []string{"config", "--config", write(t, "q.yaml", "publicationDefaults:\n  topology: ring\npublications:\n  a: {topology: tree}\n  b: {}\n")}, `q.yaml:2: publication "b": topology: "ring": want auto, block or tree`},
		{"config with no namespace", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a:\n    namespace: a.b.c\n")}, `q.yaml:3: publication "a": namespace: "a.b.c": want up to 63`},
		{"config with a name twice", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a: {}\n  a: {}\n")}, `q.yaml:3: key "a" is also in line 2: want it once`},
		{"config with a name that is no label", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  A_1: {}\n")}, `q.yaml:2: publication "A_1": name: "A_1": want up to 63 lower-case letters`},
		{"config with every name", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  '*': {}\n")}, `q.yaml:2: publications: "*" is for --set alone: want a name, or publicationDefaults for all publications`},
		{"config with one ConfigMap twice", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a: {configMap: c}\n  b:\n    configMap: c\n")}, `q.yaml:4: publication "b": configMap: slurm/c also belongs to publication "a": give each its own, or leave configMap out`},
		{"config with one ConfigMap for all", "", []string{"config", "--config", write(t, "q.yaml", "publicationDefaults: {configMap: c}\npublications:\n  a: {}\n  b: {}\n")}, `q.yaml:1: publication "b": configMap: slurm/c also belongs to publication "a": give each its own, or leave configMap out`},
		{"config with a list of publications", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n- name: a\n")}, `q.yaml:2: publications: want publications by name, such as {hgx: {slurmVersion: "26.05"}}, and no list: write "hgx:" in place of "- name: hgx"`},
		{"config with a key of all as a name", "", []string{"config", "--set", "publications.topology=tree"}, `--set publications.topology=tree: "tree": want the keys and values: annotate, baseBlockSize, `},
		{"config with a key of all as a name, and what to write", "", []string{"config", "--set", "publications.topology=tree"}, `; publicationDefaults has those of all publications`},
		{"config with a text for a number", "", []string{"config", "--config", write(t, "q.yaml", "publicationDefaults:\n  baseBlockSize: x\n")}, `q.yaml:2: publicationDefaults.baseBlockSize: "x": want a whole number`},
		{"config with a number for publications", "", []string{"config", "--config", write(t, "q.yaml", "publications: 3\n")}, `q.yaml:1: publications: "3": want publications by name`},
		{"demo of an unknown site", "", []string{"demo", "nowhere"}, `no cluster "nowhere": want one of a100-mig`},
		{"demo of a bad file", "", []string{"demo", write(t, "s.yaml", "groups:\n- racks: 1\n  nodez: 3\n")}, `s.yaml:3: field nodez not found`},
		{"config with an unknown key of a section", "", []string{"config", "--config", write(t, "q.yaml", "publicationDefaults:\n  gres: {naming: full, type: {a: b}}\n")}, `q.yaml:2: unknown key "type": want autoDetect, cores, naming, types`},
		{"config with a text for the keys of a section", "", []string{"config", "--config", write(t, "q.yaml", "publicationDefaults:\n  gres: all\n")}, `q.yaml:2: publicationDefaults.gres: "all": want keys and values: autoDetect, cores, naming, types`},
		{"config with a bad value on a line of several", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a: {format: auto, tierLabels: auto, settleTime: 5s}\n")}, `q.yaml:2: "auto": want a list of texts`},
		{"config with types that are no pairs of the agent", "", []string{"config", "--config", write(t, "q.yaml", "agent: {gresTypes: NVIDIA GB200}\n")}, `q.yaml:1: agent.gresTypes: "NVIDIA ...": want keys and values`},
		{"config with a naming that the agent refuses", "", []string{"config", "--config", write(t, "q.yaml", "agent:\n  interval: 5s\n  gresNaming: shrt\n")}, `q.yaml:3: agent.gresNaming: "shrt": want model, full or short`},
		{"config with a URL that the agent refuses", "", []string{"config", "--config", write(t, "q.yaml", "agent: {dcgmExporter: localhost}\n")}, `q.yaml:1: agent.dcgmExporter: "localhost": want a URL`},
		{"config with a log level that the publisher refuses", "", []string{"config", "--config", write(t, "q.yaml", "publisher: {logLevel: loud}\n")}, `q.yaml:1: publisher.logLevel: "loud": want debug, info`},
		{"config with an unknown key of the agent", "", []string{"config", "--config", write(t, "q.yaml", "agent:\n  runDirectory: /x\n")}, `q.yaml:2: unknown key "runDirectory": want cgroupRoot, dcgmExporter, dcgmHostEngine, dcgmInterval, gresAutodetect, gresNaming, gresTypes, healthListen, hookGate, hookGateWait, hookJobInfo, hookSummaryDir, hookWait, hostRoot, interval, jobsGroup`},
		{"config with a bad value of the agent", "", []string{"config", "--config", write(t, "q.yaml", "agent:\n  interval: soon\n")}, `q.yaml:2: agent.interval: "soon": want a number and a unit, such as 30s`},
		{"config with keys for a value", "", []string{"config", "--config", write(t, "q.yaml", "publisher:\n  listen:\n    port: 1\n")}, `q.yaml:3: publisher.listen: want text`},
		{"config with an alias for a value", "", []string{"config", "--config", write(t, "q.yaml", "publisher: {listen: &a soon}\nagent: {interval: *a}\n")}, `q.yaml:1: "soon": want a number and a unit`},
		{"config with a list for a value", "", []string{"config", "--config", write(t, "q.yaml", "publisher:\n  listen: [a]\n")}, `q.yaml:2: publisher.listen: want text`},
		{"config with a time that the agent refuses", "", []string{"config", "--config", write(t, "q.yaml", "agent:\n  runDir: /x\n  sweepInterval: 30s\n")}, `q.yaml:3: agent.sweepInterval: "30s": want more than 0 and at most 20s`},
		{"config with a relative directory of summaries", "", []string{"config", "--config", write(t, "q.yaml", "agent: {hookSummaryDir: x}\n")}, `q.yaml:1: agent.hookSummaryDir: "x": want an absolute path`},
		{"config with a text for a section", "", []string{"config", "--config", write(t, "q.yaml", "agent: 3\n")}, `q.yaml:1: agent: "3": want keys and values`},
		{"agent with a bad configuration", "", []string{"agent", "--config", write(t, "q.yaml", "agent: {interval: 5}\n")}, `q.yaml:1: agent.interval: "5": want a number and a unit`},
		{"check of nothing", "\n", []string{"check", "--topology", "-", "--files", write(t, "topology.conf", "BlockName=a Nodes=n[1-2]\n")}, "standard input: empty: want the output of scontrol show topology"},
		{"agent with a bad type", "", []string{"agent", "--store", "x", "--set", "agent.gresTypes=NVIDIA L4=4"}, `--set: agent.gresTypes: "NVIDIA L4": type "4": want a letter`},
		{"agent with a bad naming", "", []string{"agent", "--store", "x", "--set", "agent.gresNaming=long"}, `--set: agent.gresNaming: "long": want model, full or short`},
		{"agent with a bad detection", "", []string{"agent", "--store", "x", "--set", "agent.gresAutodetect=amd"}, `--set: agent.gresAutodetect: "amd": want off, nvidia, nvml`},
		{"agent with a detection that does not say the order", "", []string{"agent", "--store", "x", "--set", "agent.gresAutodetect=full"}, `--set: agent.gresAutodetect: "full": want what full comes to on this node: nvml if its slurmd has that plugin, else nvidia`},
		{"agent that samples too often", "", []string{"agent", "--set", "agent.sampleInterval=1ms"}, `--set: agent.sampleInterval: "1ms": want 100ms or more`},
		{"agent that looks too seldom", "", []string{"agent", "--set", "agent.sweepInterval=30s"}, `--set: agent.sweepInterval: "30s": want more than 0 and at most 20s`},
		{"agent with a hook that waits for ever", "", []string{"agent", "--set", "agent.hookWait=2m"}, `--set: agent.hookWait: "2m0s": want more than 0 and at most 1m`},
		{"agent with slurmd's pattern", "", []string{"agent", "--set", "agent.slurmdSpool=/var/spool/slurmd/%n"}, `agent.slurmdSpool: "/var/spool/slurmd/%n": want the directory as it is on this node, with %n and %h written out`},
		{"agent with a relative directory of summaries", "", []string{"agent", "--set", "agent.hookSummaryDir=summaries"}, `--set: agent.hookSummaryDir: "summaries": want an absolute path`},
		{"agent with scontrol by the PATH", "", []string{"agent", "--set", "agent.hookJobInfo=scontrol"}, `--set: agent.hookJobInfo: "scontrol": want the absolute path of scontrol`},
		{"agent with both stores", "", []string{"agent", "--store", "x", "--kubeconfig", "y"}, `--kubeconfig: agent.kubeconfig: "y": want none beside store`},
		{"probe of an unknown machine", "", []string{"probe", "--once", "--simulate", "gb200-nvl72x4", "--node", "x"}, `no machine "x"`},
		{"publisher without a cluster", "", []string{"publisher"}, "outside a Pod give --kubeconfig"},
		{"setting without a value", "", []string{"publisher", "--set", "publisher.listen"}, `--set "publisher.listen": want key=value, such as publisher.listen=:9836; see quoin publisher --help`},
		{"setting of an unknown key", "", []string{"publisher", "--set", "publisher.lisen=x"}, `--set publisher.lisen=x: unknown key "lisen": want healthListen, kubeconfig, leaderElect, listen`},
		{"setting of an unknown section", "", []string{"config", "--set", "agnt.listen=x"}, `--set agnt.listen=x: unknown key "agnt": want agent, imex, publicationDefaults, publications, publisher`},
		{"setting of a publication by number", "", []string{"config", "--set", "publications[0].format=conf"}, `--set publications[0].format=conf: unknown key "publications[0]": want agent, imex`},
		{"setting of a wrong type", "", []string{"config", "--set", "publications.a.baseBlockSize=x"}, `--set publications.a.baseBlockSize=x: "x": want a whole number`},
		{"setting below a value", "", []string{"config", "--set", "agent.listen.port=x"}, `--set agent.listen.port=x: want text`},
		{"setting of broken YAML", "", []string{"config", "--set", "imex={join"}, `--set imex={join: "{join": want keys and values: allocationMode, claimTemplate`},
		{"config with an empty list of publications", "", []string{"config", "--config", write(t, "q.yaml", "publications: []\n")}, `q.yaml:1: publications: want publications by name`},
		{"config of a ConfigMap", "", []string{"config", "--config", "../../manifests/20-config.yaml"}, `20-config.yaml:5: this is a ConfigMap: want the text below its key quoin.yaml`},
		{"config of a Pod", "", []string{"config", "--config", write(t, "q.yaml", "apiVersion: v1\nkind: Pod\n")}, `q.yaml:2: this is a Kubernetes object of kind Pod`},
		{"config with broken YAML", "", []string{"config", "--config", write(t, "q.yaml", "agent:\n  listen: [\n")}, `q.yaml:2: cannot read the YAML: did not find expected node content`},
		{"config with an alias for a key", "", []string{"config", "--config", write(t, "q.yaml", "publications:\n  a: &a {tierLabels: [x]}\n  b: {<<: , *a : 0}\n")}, `q.yaml:3: cannot read the YAML: a key is a list, a mapping or an alias: want a word`},
		{"setting with an alias for a key", "", []string{"config", "--set", "publications={a: &a {tierLabels: [x]}, b: {<<: , *a : 0}}"}, `want publications by name`},
		{"config with a second document", "", []string{"config", "--config", write(t, "q.yaml", "agent:\n---\nagent:\n")}, `q.yaml:2: a second document: want one`},
		{"config with a key twice", "", []string{"config", "--config", write(t, "q.yaml", "agent: {listen: a,\n  listen: b}\n")}, `q.yaml:2: key "listen" is also in line 1: want it once`},
		{"config of a list", "", []string{"config", "--config", write(t, "q.yaml", "- agent\n")}, `q.yaml:1: want keys and values`},
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
